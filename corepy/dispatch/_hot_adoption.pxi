# Arrays of NumPy's as they come: wrapped at once, where one of their dtype was wrapped before.
# Included by _hot_compiled.pyx.

cdef extern from *:
    """
    #define COREPY_IS_SCALAR(x) PyArray_IsScalar(x, Generic)
    """
    bint COREPY_IS_SCALAR(PyObject*) noexcept
    object PyArray_FromScalar(PyObject*, PyArray_Descr*)


#: By their own dtypes, the tables into which plain arrays of NumPy's are wrapped, and those in which
#: `asarray` leaves them where nobody has a wish.
cdef dict _adopting = {}
cdef dict _leaving = {}


def adopts(native, Slots table, bint stays):
    """As `corepy.dispatch._hot_python.adopts`."""
    if not _is_array(<PyObject*>native):
        return
    descr = <object>PyArray_DESCR(<PyArrayObject*><PyObject*>native)
    if descr == table.native_dtype:  # in the machine's own byte order
        (_leaving if stays else _adopting)[descr] = table


cdef object _adopted(PyObject* value, dict tables):
    """Wrap a plain array of NumPy's, in a view of its own; None of others, or where nobody was before.

    Whoever has the array may give it another shape or dtype in place.
    """
    cdef PyArrayObject* x = <PyArrayObject*>value
    cdef PyObject* found
    # Only the dtypes that there are hints of: others may have no hash.
    if not _is_array(value) or not 0 <= PyArray_TYPE(x) <= NPY_CDOUBLE or _is_strict():
        return None
    found = PyDict_GetItemWithError(tables, <object>PyArray_DESCR(x))
    if found == NULL:
        return None
    table = <Slots>found  # another thread may forget it meanwhile
    made = _view(x, PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x), <char*>PyArray_DATA(x))
    return _make(made, table)


cdef object _scalar_beside(Operand x, PyObject* value):
    """Wrap a scalar of NumPy's of the dtype of an array beside it, which is NumPy's; None of others."""
    if not _is_array(<PyObject*>x._native) or not COREPY_IS_SCALAR(value) or _is_strict():
        return None
    native = PyArray_FromScalar(value, NULL)
    cdef PyArray_Descr* descr = PyArray_DESCR(<PyArrayObject*><PyObject*>x._native)
    if PyArray_DESCR(<PyArrayObject*><PyObject*>native) != descr:
        return None
    return _make(native, x._table)


cdef object _called_on_natives(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Take the short way with native arrays among the positional arguments; None without any."""
    cdef PyObject* given[MOST_ARGUMENTS]
    cdef Py_ssize_t total = count, i
    cdef list made = []
    if names != NULL:
        total += PyTuple_GET_SIZE(names)
    if total > MOST_ARGUMENTS or self.way is _run_way or self.way is _conversion_way:
        return None
    for i in range(total):
        given[i] = args[i]
        if i < count and _is_array(args[i]):
            one = _adopted(args[i], _adopting)
            if one is None:
                return None
            made.append(one)
            given[i] = <PyObject*>one
    return self.way(self, given, count, names) if made else None


cdef object _item_at_native(Operand x, Slot* slot, key):
    """Select by a native array; None where the method has to."""
    native = _adopted(<PyObject*>key, _adopting)
    found = None if native is None else _short_item(x, slot, native)
    return None if found is None else _make(found, x._table)


cdef bint _stored_natives(Operand x, key, value) except -1:
    """Write where a key, a value or both are native arrays; False where the method has to."""
    where, what = _adopted(<PyObject*>key, _adopting), _adopted(<PyObject*>value, _adopting)
    if where is None and what is None:
        return False
    return _short_store(x, key if where is None else where, value if what is None else what)
