# New arrays, where the user's wish has led before.
# Included by _hot_compiled.pyx.

cdef object _priority = PRIORITY
cdef object _float64 = float64
cdef object _int64 = int64
cdef object _DType = DType
cdef object _wish = None
cdef dict _named = {}
cdef dict _defaults = {}


cdef object _wish_in_force():
    cdef PyObject* found = NULL
    if not _priority.touched:
        return None
    PyContextVar_Get(_priority._local, NULL, &found)
    if found == NULL:
        return _priority._default
    wish = <object>found
    Py_XDECREF(found)
    return wish


def homes(bint named):
    """As `corepy.dispatch._hot_python.homes`."""
    global _wish, _named, _defaults
    wish = _wish_in_force()
    if wish is not _wish:
        _wish, _named, _defaults = wish, {}, {}
    return _named if named else _defaults


def forget_homes():
    """As `corepy.dispatch._hot_python.forget_homes`."""
    global _named, _defaults
    _named, _defaults = {}, {}


cdef Slot* _home_of(Function self, PyObject* dtype, object default, PyObject** table) except? NULL:
    """Find the table of a new array, and what it has of an operation; NULL if none is known."""
    cdef PyObject* found
    if _wish_in_force() is not _wish:
        return NULL
    if dtype == NULL or <object>dtype is None:
        found = PyDict_GetItemWithError(_defaults, default)
    elif dtype.ob_type == <void*>_DType:
        found = PyDict_GetItemWithError(_named, <object>dtype)
    else:
        return NULL
    if found == NULL:
        return NULL
    table[0] = found
    cdef Slot* slot = &(<Slots>found).slots[self.place]
    return slot if slot.short else NULL


cdef inline void _fill(char* into, npy_intp count, npy_intp size, void* element) noexcept:
    cdef npy_intp i
    cdef long long eight
    cdef int four
    if size == 8:
        memcpy(&eight, element, 8)
        for i in range(count):
            (<long long*>into)[i] = eight
    elif size == 4:
        memcpy(&four, element, 4)
        for i in range(count):
            (<int*>into)[i] = four
    else:
        for i in range(count):
            memcpy(into + i * size, element, size)


cdef object _creation_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make zeros, ones, or memory that is not set."""
    cdef PyObject* dtype
    cdef PyObject* home
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef double one  # room for any that `_scalar` takes
    if count != 1 or not _one_word(args, count, names, "dtype", &dtype):
        return None
    cdef Slot* slot = _home_of(self, dtype, _float64, &home)
    if slot == NULL:
        return None
    cdef int ndim = _dims_of(args[0], dims, slot.least)
    if ndim < 0:
        return None
    cdef bint ones = self.place == _ONES
    if ones and not _scalar(slot, 1, &one):
        return None
    made = _new(slot.descr, ndim, dims)
    cdef npy_intp size = _size(<PyArrayObject*>made, PY_SSIZE_T_MAX)
    if ones:
        _fill(<char*>PyArray_DATA(<PyArrayObject*>made), size, slot.size, &one)
    elif self.place == _ZEROS:
        memset(PyArray_DATA(<PyArrayObject*>made), 0, size * slot.size)
    return _make(made, <Slots>home)


cdef object _filling_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make an array of one value, an int or a float that the dtype takes as it is."""
    cdef PyObject* dtype
    cdef PyObject* home
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef double element
    if count != 2 or not _one_word(args, count, names, "dtype", &dtype):
        return None
    cdef bint whole = args[1].ob_type == <void*>&PyLong_Type
    cdef Slot* slot = _home_of(self, dtype, _int64 if whole else _float64, &home)
    if slot == NULL or not _scalar(slot, <object>args[1], &element):
        return None
    cdef int ndim = _dims_of(args[0], dims, slot.least)
    if ndim < 0:
        return None
    made = _new(slot.descr, ndim, dims)
    _fill(
        <char*>PyArray_DATA(<PyArrayObject*>made),
        _size(<PyArrayObject*>made, PY_SSIZE_T_MAX),
        slot.size,
        &element,
    )
    return _make(made, <Slots>home)


cdef object _range_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make evenly spaced values between ints, of a dtype that holds them all."""
    cdef PyObject* dtype
    cdef PyObject* home
    cdef long start = 0, stop, step = 1
    if not 1 <= count <= 3 or not _one_word(args, count, names, "dtype", &dtype):
        return None
    if count == 1:
        if not _whole(args[0], &stop):
            return None
    elif not _whole(args[0], &start) or not _whole(args[1], &stop):
        return None
    elif count == 3 and (not _whole(args[2], &step) or step == 0):
        return None
    cdef Slot* slot = _home_of(self, dtype, _int64, &home)
    if slot == NULL or slot.type_num not in (NPY_DOUBLE, NPY_FLOAT, NPY_LONG, NPY_LONGLONG):
        return None
    if slot.type_num == NPY_LONG and sizeof(long) != 8:
        return None
    cdef long length = stop - start
    if step < 0:
        length, step = -length, -step
        length = (length + step - 1) // step if length > 0 else 0
        step = -step
    else:
        length = (length + step - 1) // step if length > 0 else 0
    if length >= slot.least:
        return None
    return _make(PyArray_Arange(start, stop, step, slot.type_num), <Slots>home)
