# What an operation comes to in its own backend, whatever routes say of as many elements.
# Included by _hot_compiled.pyx.

cdef class Home:
    """A native callable that takes the short way first, on arrays of any size.

    For those who have decided that the operands' own backend is to run it: routes that lead nowhere
    else, or are not open, and whoever listens.
    """

    cdef Slot _slot
    cdef readonly object native

    def __dealloc__(self):
        _release(&self._slot)

    def __call__(self, *args, **params):
        found = _found_at_home(&self._slot, args, params)
        return self.native(*args, **params) if found is None else found


def home(table, str name, native, result, loop):
    """As `corepy.dispatch._hot_python.home`, which says what is what."""
    if loop is None or name not in _places or hasattr(native, "least"):
        return native
    target = _target(table, result, loop)
    if target is None:
        return native
    cdef Home made = Home.__new__(Home)
    made.native = native
    Py_INCREF(native)
    made._slot.native = <PyObject*>native
    Py_INCREF(target)
    made._slot.result = <PyObject*>target
    _find_loop(&made._slot, loop, (<Slots>table).native_dtype, (<Slots>target).native_dtype)
    _find_leasts(&made._slot, name, native)
    return made if made._slot.short and made._slot.kind in _AT_HOME else native


cdef tuple _AT_HOME = (ELEMENTWISE, REDUCTION, MEAN, VARIANCE, DEVIATION, ARGMAX, ARGMIN, COUNT)
cdef frozenset _OF_REDUCTIONS = frozenset(("axis", "correction", "dtype", "keepdims"))


cdef object _found_at_home(Slot* slot, tuple args, dict params):
    """Return what the short way gives, None where there is none."""
    cdef Py_ssize_t count = len(args)
    for x in args:  # the entry promotes dtypes, if it has to
        if _is_array(<PyObject*>x):
            if PyArray_TYPE(<PyArrayObject*><PyObject*>x) != slot.operand.type_num:
                return None
        elif type(x) is not int and type(x) is not float:
            return None
    corepy_none_of_all()  # of before
    if slot.kind == ELEMENTWISE:
        if params or not 1 <= count <= 2:
            return None
        if count == 1:
            return _short_unary(slot, <PyObject*>args[0])
        first, second = args
        if not _is_array(<PyObject*>second):
            return _short_scalar(slot, <PyObject*>first, second, False)
        if not _is_array(<PyObject*>first):
            return _short_scalar(slot, <PyObject*>second, first, True)
        return _short_binary(slot, <PyObject*>first, <PyObject*>second)
    if count != 1 or not _OF_REDUCTIONS.issuperset(params) or params.get("keepdims", False):
        return None
    dtype = params.get("dtype")  # NumPy's float64 equals None
    if params.get("correction", 0) != 0 or dtype is not None and dtype != <object>slot.descr:
        return None
    return _short_reduction(slot, <PyObject*>args[0], params.get("axis"), 0)
