# Routers of arrays that are not NumPy's: a look at how many elements there are, and on.
# Included by _hot_compiled.pyx.

cdef class Guard:
    """As `corepy.dispatch._hot_python.guard`, which says what is what."""

    cdef void* vectorcall
    cdef readonly object small, choice, kind, size
    cdef readonly Py_ssize_t least

    def around(self, small, choice):
        return guard(small, self.least, choice, self.kind, self.size)


cdef object _guarded(Guard self, PyObject** args, size_t flags, PyObject* names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags), i
    for i in range(count):
        if args[i].ob_type == <void*>self.kind and <Py_ssize_t>self.size(<object>args[i]) >= self.least:
            break
    else:
        return PyObject_Vectorcall(<PyObject*>self.small, args, flags, names)
    return self.choice(_operands_of(args, count), _params_of(args, count, names))


cdef Guard _sample_guard = Guard.__new__(Guard)
corepy_take_vectors(Guard, <char*>&_sample_guard.vectorcall - <char*><PyObject*>_sample_guard)


def guard(small, least, choice, kind, size):
    """As `corepy.dispatch._hot_python.guard`."""
    cdef Guard made = Guard.__new__(Guard)
    made.vectorcall = <void*>_guarded
    made.small, made.least, made.choice, made.kind, made.size = small, least, choice, kind, size
    return made
