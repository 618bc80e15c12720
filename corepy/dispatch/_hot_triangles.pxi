# Lower and upper triangles of matrices.
# Included by _hot_compiled.pyx.


cdef object _triangle_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Copy the lower or the upper triangles of contiguous matrices, beside zeros."""
    cdef PyObject* given = NULL
    cdef long k = 0
    cdef int ndim
    cdef npy_intp size
    cdef Triangle triangle
    cdef Work work
    if count != 1 or not _words(args, count, names, ("k",), &given):
        return None
    if given != NULL and not _whole(given, &k):
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL or not _is_plain(<PyObject*>_native_of(args[0])):
        return None
    held = (<Operand>args[0])._native  # somebody else may let go of it meanwhile
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    ndim, size = PyArray_NDIM(x), _size(x, slot.least)
    if ndim < 2 or size < 0:
        return None
    made = _new_large(slot.descr, ndim, PyArray_DIMS(x))
    if size == 0:
        return _make(made, (<Operand>args[0])._table)
    triangle.rows, triangle.columns = PyArray_DIMS(x)[ndim - 2], PyArray_DIMS(x)[ndim - 1]
    triangle.item, triangle.apart = slot.size, slot.size * triangle.columns
    triangle.k, triangle.upper = k, self.place == _TRIU
    memset(&work, 0, sizeof(Work))
    work.operands[0], work.operands[1] = <char*>PyArray_DATA(x), _data(made)
    work.data, work.rows = <void*>&triangle, size // triangle.columns
    if size * slot.size < LONG * 8:
        _triangle_stretch(&work, 0, work.rows)
    else:
        work.stretch = _triangle_stretch
        _do(&work, 2 * size * slot.size, &_moving)
    return _make(made, (<Operand>args[0])._table)


cdef void _triangle_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    _keep_triangle(<Triangle*>work.data, work.operands[1], work.operands[0], start, stop)
