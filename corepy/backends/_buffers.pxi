# Memory of two arrays that loops read and write.
# Included by modules of loops in this folder.

from cpython.buffer cimport PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer


cdef int _hold(x, out, Py_buffer* source, Py_buffer* into) except -1:
    """Find where contiguous arrays lie, and keep both there until `_let_go`."""
    PyObject_GetBuffer(x, source, PyBUF_ND)
    try:
        PyObject_GetBuffer(out, into, PyBUF_ND | PyBUF_WRITABLE)
    except:
        PyBuffer_Release(source)
        raise
    return 0


cdef void _let_go(Py_buffer* source, Py_buffer* into) noexcept:
    PyBuffer_Release(into)
    PyBuffer_Release(source)
