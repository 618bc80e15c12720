# Triangles of matrices: rows that are copied on one side of a diagonal, with zeros on the other.
# Included by a module of loops in this folder, and by the hot path.


cdef struct Triangle:
    Py_ssize_t rows, columns  # of each matrix
    Py_ssize_t item  # bytes of an element
    Py_ssize_t apart  # bytes from one row of the source to the next
    Py_ssize_t k  # the last diagonal that is kept, or the first one
    bint upper


cdef void _keep_triangle(
    Triangle* t, char* into, char* source, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil:
    """Make some rows of the result, which may be the source itself, of all matrices of a stack."""
    cdef Py_ssize_t bytes = t.columns * t.item, i, cut
    for i in range(start, stop):
        cut = i % t.rows + t.k + (0 if t.upper else 1)
        cut = min(max(cut, 0), t.columns) * t.item
        if t.upper:
            _keep_part(into + i * bytes, source + i * t.apart, cut, bytes, 0, cut)
        else:
            _keep_part(into + i * bytes, source + i * t.apart, 0, cut, cut, bytes)


cdef inline void _keep_part(
    char* into, char* source, Py_ssize_t first, Py_ssize_t last, Py_ssize_t zeros, Py_ssize_t end
) noexcept nogil:
    if into != source:
        memcpy(into + first, source + first, last - first)
    memset(into + zeros, 0, end - zeros)
