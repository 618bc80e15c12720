# New arrays, where the user's wish has led before.
# Included by _hot_compiled.pyx.

cdef object _local_wish = PRIORITY._local
cdef object _default_wish = PRIORITY._default
cdef object _float64 = float64
cdef object _int64 = int64
cdef object _uint64 = uint64
cdef object _complex128 = complex128
cdef object _bool = _dtypes.bool
cdef object _DType = DType
cdef object _Device = Device
cdef object _wish = None
cdef dict _named = {}
cdef dict _defaults = {}
cdef dict _by_device = {}  # by device, the same two of arrays whose device was named
cdef dict _leaving = {}  # by their dtypes, where `asarray` leaves plain arrays of NumPy's


cdef bint _wished = PRIORITY.touched  # whether anybody ever had a wish


def _ask_for_wishes():
    global _wished, _default_wish
    _wished, _default_wish = True, PRIORITY._default


PRIORITY.watchers.append(_ask_for_wishes)


cdef object _wish_in_force():
    cdef PyObject* found = NULL
    if not _wished:
        return None
    PyContextVar_Get(_local_wish, NULL, &found)
    if found == NULL:
        return _default_wish
    wish = <object>found
    Py_XDECREF(found)
    return wish


def homes(bint named, device=None):
    """As `corepy.dispatch._hot_python.homes`."""
    global _wish, _named, _defaults, _by_device, _leaving
    wish = _wish_in_force()
    if wish is not _wish:
        _wish, _named, _defaults, _by_device, _leaving = wish, {}, {}, {}, {}
    if device is None:
        return _named if named else _defaults
    # First: while tables are made a finalizer may run, or another thread with another wish.
    cdef dict placed = _by_device
    cdef tuple tables = ({}, {})
    return placed.setdefault(device, tables)[0 if named else 1]


def forget_homes():
    """As `corepy.dispatch._hot_python.forget_homes`."""
    global _named, _defaults, _by_device, _adopting, _leaving
    _named, _defaults, _by_device = {}, {}, {}
    _adopting, _leaving = {}, {}


cdef PyObject* _table_at(PyObject** words, object default) except? NULL:
    """Find the table of a new array of a dtype on a device, or by default; NULL if none is known."""
    cdef PyObject* found
    named, defaults = _named, _defaults
    if words[1] != Py_None:
        if words[1].ob_type != <void*>_Device:
            return NULL
        found = PyDict_GetItemWithError(_by_device, <object>words[1])
        if found == NULL:
            return NULL
        named, defaults = <tuple><object>found
    if words[0] == Py_None:
        return PyDict_GetItemWithError(defaults, default)
    if words[0].ob_type != <void*>_DType:
        return NULL
    return PyDict_GetItemWithError(named, <object>words[0])


cdef inline bint _is_there(PyObject* device, Slots table) noexcept:
    """Say whether a table is on the device that was asked for, if any was."""
    return device == Py_None or device == <PyObject*>table.device


cdef Slot* _home_of(Function self, PyObject** words, object default, PyObject** table) except? NULL:
    """Find the table of a new array, and what it has of an operation; NULL if none is known.

    `words` are its dtype and its device.
    """
    cdef PyObject* found
    cdef PyObject* dtype = words[0]
    if _wish_in_force() is not _wish:
        return NULL
    found = _table_at(words, default)
    if found == NULL:
        return NULL
    table[0] = found
    cdef Slot* slot = &(<Slots>found).slots[self.place]
    return slot if slot.short else NULL


cdef object _zeros(Slot* slot, int ndim, npy_intp* dims):
    """Make zeros: many in memory that is new, which the system clears as it is used."""
    cdef npy_intp size = 1
    cdef int i
    for i in range(ndim):
        size *= dims[i]
    if size < SHORT:
        made = _new(slot.descr, ndim, dims)
        memset(_data(made), 0, size * slot.size)
        return made
    Py_INCREF(<object><PyObject*>slot.descr)  # the next line steals a reference
    return PyArray_Zeros(ndim, dims, slot.descr, 0)


cdef object _creation_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make zeros, ones, or memory that is not set."""
    cdef PyObject** words = [Py_None, Py_None]
    cdef PyObject* home
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef double one[2]  # room for any
    if count != 1 or not _words(args, count, names, ("dtype", "device"), words):
        return None
    cdef Slot* slot = _home_of(self, words, _float64, &home)
    if slot == NULL:
        return None
    cdef int ndim = _dims_of(args[0], dims, slot.least)
    if ndim < 0:
        return None
    cdef bint ones = self.place == _ONES
    if ones and not _value(slot, 1, one):
        return None
    if self.place == _ZEROS:
        return _make(_zeros(slot, ndim, dims), <Slots>home)
    made = _filled(slot, ndim, dims, one) if ones else _new_large(slot.descr, ndim, dims)
    return _make(made, <Slots>home)


cdef object _identity_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make zeros, with ones on a diagonal."""
    cdef PyObject** words = [Py_None, Py_None, NULL]
    cdef PyObject* home
    cdef npy_intp dims[2]
    cdef npy_intp row, last
    cdef double one[2]  # room for any
    cdef long size, k = 0
    cdef int i
    if not 1 <= count <= 2 or not _words(args, count, names, ("dtype", "device", "k"), words):
        return None
    if words[2] != NULL and not _whole(words[2], &k):
        return None
    cdef Slot* slot = _home_of(self, words, _float64, &home)
    if slot == NULL or not _value(slot, 1, one):
        return None
    for i in range(2):
        if i < count and args[i] != Py_None or i == 0:
            if not _whole(args[i], &size) or not 0 <= size < slot.least:
                return None
        dims[i] = size
    if dims[0] * dims[1] >= slot.least:
        return None
    made = _zeros(slot, 2, dims)
    cdef char* into = _data(made)
    last = min(dims[0], dims[1] - k)
    for row in range(max(0, -k), last):
        memcpy(into + (row * dims[1] + row + k) * slot.size, one, slot.size)
    return _make(made, <Slots>home)


cdef object _filling_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make an array of one value that the dtype takes as it is."""
    cdef PyObject** words = [Py_None, Py_None]
    cdef PyObject* home
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef double element[2]
    if count != 2 or not _words(args, count, names, ("dtype", "device"), words):
        return None
    default = _default_of(args[1])
    if default is None:
        return None
    cdef Slot* slot = _home_of(self, words, default, &home)
    if slot == NULL or not _value(slot, <object>args[1], element):
        return None
    cdef int ndim = _dims_of(args[0], dims, slot.least)
    if ndim < 0:
        return None
    return _make(_filled(slot, ndim, dims, element), <Slots>home)


cdef inline bint _value(Slot* slot, value, void* into) except -1:
    """As `_scalar`, of what new arrays are filled with: of booleans it is what an int means."""
    if slot.type_num == NPY_BOOL and type(value) is int:
        value = value != 0
    return _scalar(slot, value, into)


cdef object _default_of(PyObject* value):
    """Return the default dtype of a Python scalar's kind, None for what is none."""
    if value.ob_type == <void*>&PyLong_Type:
        return _int64
    if value.ob_type == <void*>&PyFloat_Type:
        return _float64
    if value.ob_type == <void*>&PyBool_Type:
        return _bool
    return _complex128 if value.ob_type == <void*>&PyComplex_Type else None


cdef object _range_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make evenly spaced values between ints, of a dtype that holds them all, or between floats."""
    cdef PyObject** words = [Py_None, Py_None]
    cdef PyObject* home
    cdef double bounds[3]
    cdef double length
    cdef bint whole = True
    cdef int i
    if not 1 <= count <= 3 or not _words(args, count, names, ("dtype", "device"), words):
        return None
    for i in range(count):
        if not _bound(args[i], &bounds[i], &whole):
            return None
    cdef double start = bounds[0] if count > 1 else 0
    cdef double stop = bounds[1] if count > 1 else bounds[0]
    cdef double step = bounds[2] if count > 2 else 1
    cdef Slot* slot = _home_of(self, words, _int64 if whole else _float64, &home)
    if slot == NULL or step == 0:
        return None
    cdef bint counts = whole and PyTypeNum_ISINTEGER(slot.type_num)
    cdef bint single = slot.type_num == NPY_FLOAT
    if slot.type_num != NPY_DOUBLE and slot.type_num != NPY_FLOAT and not counts:
        return None
    length = (stop - start) / step
    if not length < slot.least - 1:
        return None
    if length <= 0:
        return _make(_counted(slot, 0, 1, 0), <Slots>home)
    cdef double last = start + (ceil(length) - 1) * step
    if counts and not (_is_within(slot, start) and _is_within(slot, last)):
        return None
    if single and (fabs(start) > FLT_MAX or fabs(last) > FLT_MAX):
        return None  # what float32 does not hold, the function refuses
    cdef double most = max(fabs(start), fabs(stop), fabs(step))
    if whole and (not single or most < _EXACT_IN_FLOAT):
        return _make(_counted(slot, start, step, <npy_intp>ceil(length)), <Slots>home)
    if whole and single or not _keeps_pace(slot, start, step):
        return _make(_paced(slot, start, step, 0, <npy_intp>ceil(length)), <Slots>home)
    if length >= SHORT_MOVE:
        return None  # the entry has NumPy make it in recycled memory
    return _make(PyArray_Arange(start, stop, step, slot.type_num), <Slots>home)


cdef enum:
    _EXACT_IN_FLOAT = 1 << 23  # as `EXACT` of corepy/backends/_numpy_creation.py


cdef inline bint _is_within(Slot* slot, double value) noexcept:
    """Say whether an integer dtype holds a whole number of no more than 53 bits."""
    cdef bint natural = PyTypeNum_ISUNSIGNED(slot.type_num)
    cdef double span = ldexp(1.0, 8 * <int>slot.size - (not natural))
    return (0 if natural else -span) <= value < span


cdef inline bint _keeps_pace(Slot* slot, double start, double step) noexcept:
    """As `corepy.backends._numpy_creation.keeps_pace`."""
    if slot.type_num == NPY_FLOAT:
        return (
            fabs(start) + fabs(step) < FLT_MAX
            and <float>(start + step) - <float>start == <float>step
        )
    return fabs(start) + fabs(step) < DBL_MAX and (start + step) - start == step


cdef object _spacing_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make evenly spaced floats from one finite end to the other, in NumPy's steps."""
    cdef PyObject** words = [Py_None, Py_None]
    cdef PyObject* home
    cdef double start, stop
    cdef bint whole
    cdef long number
    if count != 3 or not _words(args, count, names, ("dtype", "device"), words):
        return None
    if not _bound(args[0], &start, &whole) or not _bound(args[1], &stop, &whole):
        return None
    cdef Slot* slot = _home_of(self, words, _float64, &home)
    if slot == NULL or not _whole(args[2], &number) or not 0 <= number < slot.least:
        return None
    cdef bint single = slot.type_num == NPY_FLOAT
    if not single and slot.type_num != NPY_DOUBLE:
        return None
    cdef double length = stop - start
    if not isfinite(length) or (single and not (fabs(start) <= FLT_MAX and fabs(stop) <= FLT_MAX)):
        return None
    cdef npy_intp parts = number - 1
    cdef double step = length / parts if parts > 0 else length
    if parts > 0 and step == 0:  # too small, which its multiples need not be
        made = _paced(slot, start, length, parts, number)
    else:
        made = _paced(slot, start, step, 0, number)
    cdef char* into = _data(made)
    if parts > 0 and single:
        (<float*>into)[parts] = <float>stop
    elif parts > 0:
        (<double*>into)[parts] = stop
    return _make(made, <Slots>home)


cdef inline bint _bound(PyObject* value, double* into, bint* whole) noexcept:
    """Read a finite float, or an int that is not great."""
    cdef long number
    if value.ob_type == <void*>&PyFloat_Type:
        into[0] = PyFloat_AS_DOUBLE(value)
        whole[0] = False
        return isfinite(into[0]) != 0
    if not _whole(value, &number):
        return False
    into[0] = number
    return True


cdef object _likeness_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Make an array of the shape and table of another one, or of another dtype."""
    cdef PyObject** words = [Py_None, Py_None]
    cdef PyObject* dtype
    cdef PyObject* found
    cdef double element[2]
    cdef int place = _likeness[self.name]
    if count != (2 if place == _FULL else 1) or args[0].ob_type != <void*>_Array:
        return None
    if not _words(args, count, names, ("dtype", "device"), words):
        return None
    table = (<Operand>args[0])._table
    if not _is_there(words[1], table):
        return None
    dtype = words[0]
    if dtype != Py_None:
        if dtype.ob_type != <void*>_DType:
            return None
        found = PyDict_GetItemWithError(table.siblings, <object>dtype)
        if found == NULL:
            return None
        table = <Slots>found
    cdef Slot* slot = _resolved(table, place)
    cdef PyArrayObject* x = _native_of(args[0])
    if slot == NULL or not _is_array(<PyObject*>x):
        return None
    if _size(x, slot.least) < 0:
        return None
    if place == _FULL and not _value(slot, <object>args[1], element):
        return None
    if place == _ONES and not _value(slot, 1, element):
        return None
    if place == _ZEROS:
        return _make(_zeros(slot, PyArray_NDIM(x), PyArray_DIMS(x)), table)
    if place == _EMPTY:
        return _make(_new_large(slot.descr, PyArray_NDIM(x), PyArray_DIMS(x)), table)
    return _make(_filled(slot, PyArray_NDIM(x), PyArray_DIMS(x), element), table)


cdef Slot* _resolved(Slots table, int place) except? NULL:
    """Return what a table has of an operation, which it resolves; NULL if there is no short way."""
    cdef Slot* slot = &table.slots[place]
    if slot.native == NULL:
        table[_names[place]]
    return slot if slot.short else NULL


cdef object _conversion_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Convert a Python scalar, or lists of scalars of one kind only, of one or two levels.

    With a dtype that holds them they may be mixed. An `Array` of that dtype stays what it is, and an
    array of NumPy's where it is, unless a copy is asked for.
    """
    cdef PyObject** words = [Py_None, Py_None, Py_None]
    cdef PyObject* found
    cdef PyObject** rows
    cdef npy_intp dims[2]
    cdef npy_intp row
    if count != 1 or not _words(args, 1, names, ("dtype", "device", "copy"), words):
        return None
    cdef PyObject* value = args[0]
    cdef PyObject* dtype = words[0]
    copy = <object>words[2]
    if value.ob_type == <void*>_Array:
        if not _is_there(words[1], (<Operand>value)._table):
            return None
        return _converted_to(<Operand>value, dtype, copy)
    if _is_array(value):
        native = _adopted(value, _leaving) if _wish_in_force() is _wish else None
        if native is None or not _is_there(words[1], (<Operand>native)._table):
            return None
        return _converted_to(<Operand>native, dtype, copy)
    if copy is not None and copy is not True:
        return None  # of what has to be copied
    if _wish_in_force() is not _wish or dtype != Py_None and dtype.ob_type != <void*>_DType:
        return None
    dims[0] = dims[1] = -1
    while _is_sequence(value) and dims[1] < 0:
        dims[1] = dims[0]
        dims[0] = Py_SIZE(<object>value)
        if dims[0] == 0:
            return None
        value = PySequence_Fast_ITEMS(<object>value)[0]
    default = _default_of(value)
    if default is None:
        if dims[0] < 0:
            return _scalar_converted(<object>value, words)
        return _numbers_converted(<object>args[0], dims, words)
    cdef void* kind = <void*>value.ob_type if dtype == Py_None else NULL
    found = _table_at(words, default)
    if found == NULL:
        return None
    table = <Slots>found
    cdef Slot* slot = _resolved(table, _FULL)
    if slot == NULL:
        return None
    # That may have run Python's code, and a finalizer or another thread have changed the lists.
    if dims[0] >= 0 and Py_SIZE(<object>args[0]) != (dims[0] if dims[1] < 0 else dims[1]):
        return None
    if dtype == Py_None and table.dtype is not default:
        return None
    # The quickest way is for floats and for ints of 64 bits; of others each is looked at.
    cdef bint whole = default is _int64
    cdef Slot* given = NULL if dtype == Py_None and (whole or default is _float64) else slot
    if dims[0] < 0:
        made = _new(slot.descr, 0, NULL)
        return _make(made, table) if _read(&value, 1, whole, given, kind, _data(made)) else None
    if dims[1] < 0:
        if dims[0] >= slot.least:
            return None
        made = _new(slot.descr, 1, dims)
        rows = PySequence_Fast_ITEMS(<object>args[0])
        if not _read(rows, dims[0], whole, given, kind, _data(made)):
            return _numbers_converted(<object>args[0], dims, words)
        return _make(made, table)
    dims[0], dims[1] = dims[1], dims[0]
    if dims[0] * dims[1] >= slot.least:
        return None
    made = _new(slot.descr, 2, dims)
    rows = PySequence_Fast_ITEMS(<object>args[0])
    for row in range(dims[0]):
        if not _is_sequence(rows[row]) or Py_SIZE(<object>rows[row]) != dims[1]:
            return None
        if not _read(
            PySequence_Fast_ITEMS(<object>rows[row]),
            dims[1],
            whole,
            given,
            kind,
            _data(made) + row * dims[1] * slot.size,
        ):
            dims[0], dims[1] = dims[1], dims[0]
            return _numbers_converted(<object>args[0], dims, words)
    return _make(made, table)


cdef object _numbers_converted(given, npy_intp* sizes, PyObject** words):
    """Convert lists of one or two levels of single numbers, some of them arrays or NumPy's scalars.

    These have one dtype and no dimension; Python's numbers stand beside float64 alone. `sizes` are
    that of the inner lists, and that of the outer one, or -1 of one level. None of others.
    """
    cdef npy_intp dims[2]
    cdef npy_intp i
    cdef PyObject* found
    cdef PyObject* dtype = NULL
    cdef PyObject* value
    cdef Slot* slot
    cdef char* into
    cdef long whole
    cdef bint flat = sizes[1] < 0
    dims[0], dims[1] = 1 if flat else sizes[1], sizes[0]
    if not _has_numpy or _is_strict() or dims[0] * dims[1] >= LONG:
        return None
    parts = []  # which nobody else changes meanwhile
    for row in ((given,) if flat else given):
        if not _is_sequence(<PyObject*>row) or Py_SIZE(row) != dims[1]:
            return None
        parts.extend(row)
    for part in parts:
        found = NULL
        if type(part) is _Array:
            found = <PyObject*>(<Operand>part)._table.dtype
        elif COREPY_IS_SCALAR(part):
            found = PyDict_GetItemWithError(_classes, type(part))
            if found == NULL:
                return None
        elif type(part) is not float and not _whole(<PyObject*>part, &whole):
            return None
        if found != NULL:
            if dtype != NULL and found != dtype:
                return None
            dtype = found
    if dtype == NULL or words[0] != Py_None and words[0] != dtype:
        return None
    found = _table_at(words, <object>dtype)
    if found == NULL or <PyObject*>(<Slots>found).dtype != dtype:
        return None
    home = <Slots>found
    slot = _resolved(home, _FULL)
    if slot == NULL:
        return None
    if Py_SIZE(parts) != dims[0] * dims[1]:  # a finalizer changed the lists after they were measured
        return None
    made = _new(slot.descr, 2 - flat, dims + flat)
    into = _data(made)
    for part in parts:
        if type(part) is float or type(part) is int:
            if slot.type_num != NPY_DOUBLE or not _scalar(slot, part, into):
                return None
        else:
            native = (<Operand>part)._native if type(part) is _Array else PyArray_FromScalar(part, NULL)
            value = <PyObject*>native
            if not _is_plain(value) or PyArray_NDIM(<PyArrayObject*>value) != 0:
                return None
            memcpy(into, PyArray_DATA(<PyArrayObject*>value), slot.size)
        into += slot.size
    return _make(made, home)


cdef object _converted_to(Operand x, PyObject* dtype, copy):
    """Give an `Array` a dtype, or return it as it is; None where the function has to."""
    if dtype == Py_None or dtype == <PyObject*>x._table.dtype:
        if copy is True:
            return _copied(<PyObject*>x, <PyObject*>x._table.dtype)
        return x if copy is None or copy is False else None
    if dtype.ob_type != <void*>_DType or copy is not None and copy is not True or _is_strict():
        return None
    return _copied(<PyObject*>x, dtype)


cdef inline bint _is_sequence(PyObject* value) noexcept:
    return value.ob_type == <void*>&PyList_Type or value.ob_type == <void*>&PyTuple_Type


cdef bint _read(
    PyObject** values, npy_intp count, bint whole, Slot* given, void* kind, void* into
) except -1:
    """Read floats, or ints of 64 bits; or what a dtype that is given holds. False for others.

    Where the dtype is not the user's, scalars of one kind are read, that of a class.
    """
    cdef npy_intp i
    cdef int overflow = 0
    if given != NULL:
        for i in range(count):
            if kind != NULL and values[i].ob_type != kind:
                return False
            if not _scalar(given, <object>values[i], <char*>into + i * given.size):
                return False
        return True
    for i in range(count):
        if whole:
            if values[i].ob_type != <void*>&PyLong_Type:
                return False
            (<long long*>into)[i] = PyLong_AsLongLongAndOverflow(values[i], &overflow)
            if overflow:
                return False
        else:
            if values[i].ob_type != <void*>&PyFloat_Type:
                return False
            (<double*>into)[i] = PyFloat_AS_DOUBLE(values[i])
    return True
