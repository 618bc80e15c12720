# What is put together of parts of arrays: joined, rolled and repeated ones.
# Included by _hot_compiled.pyx.

cdef enum:
    FEW_TIMES = 8  # that each of many elements is repeated, one by one

#: As `corepy.array_api._arguments.ADDRESSABLE`.
cdef npy_intp ADDRESSABLE = <npy_intp>1 << 47


cdef struct TwoWords:
    long long words[2]


ctypedef fused Chunk:
    signed char
    short
    int
    long long
    TwoWords


cdef void _put_apart(
    char* into, const char* source, npy_intp chunk, npy_intp step, npy_intp count
) noexcept:
    """Copy chunks of some bytes to places a step apart; of a single item without a call."""
    cdef npy_intp i
    if chunk == 1:
        for i in range(count):
            into[i * step] = source[i]
    elif chunk == 2:
        for i in range(count):
            memcpy(into + i * step, source + i * 2, 2)
    elif chunk == 4:
        for i in range(count):
            memcpy(into + i * step, source + i * 4, 4)
    elif chunk == 8:
        for i in range(count):
            memcpy(into + i * step, source + i * 8, 8)
    elif chunk == 16:
        for i in range(count):
            memcpy(into + i * step, source + i * 16, 16)
    else:
        for i in range(count):
            memcpy(into + i * step, source + i * chunk, chunk)


cdef inline void _alternate(Chunk* x, Chunk* y, Chunk* into, npy_intp count) noexcept nogil:
    cdef npy_intp i
    for i in range(count):
        memcpy(&into[2 * i], &x[i], sizeof(Chunk))  # not aligned, as in `_gather_items`
        memcpy(&into[2 * i + 1], &y[i], sizeof(Chunk))


cdef bint _put_in_turn(
    char* x, char* y, char* into, npy_intp item, npy_intp count
) noexcept nogil:
    """Copy items of two arrays in turn; False where that is not done for items of so many bytes."""
    if item == 8:
        _alternate(<long long*>x, <long long*>y, <long long*>into, count)
    elif item == 4:
        _alternate(<int*>x, <int*>y, <int*>into, count)
    elif item == 2:
        _alternate(<short*>x, <short*>y, <short*>into, count)
    elif item == 1:
        _alternate(<signed char*>x, <signed char*>y, <signed char*>into, count)
    elif item == 16:
        _alternate(<TwoWords*>x, <TwoWords*>y, <TwoWords*>into, count)
    else:
        return False
    return True


cdef bint _are_alike(PyObject** parts, Py_ssize_t count) noexcept:
    """Say whether arrays are contiguous and of one table."""
    cdef Py_ssize_t i
    for i in range(count):
        if parts[i].ob_type != <void*>_Array:
            return False
        if (<Operand>parts[i])._table is not (<Operand>parts[0])._table:
            return False
        if not _is_plain(<PyObject*>_native_of(parts[i])):
            return False
    return True


cdef object _made_alike(PyObject** parts, Py_ssize_t count, bint flat):
    """Return arrays of one backend as contiguous ones of one dtype; None where the function has to.

    Those with gaps are copied if they are small.
    """
    cdef PyObject* found
    cdef npy_intp size
    cdef Py_ssize_t i
    cdef Slot* slot
    natives, tables = [], []
    for i in range(count):
        if parts[i].ob_type != <void*>_Array:
            return None
        tables.append((<Operand>parts[i])._table)
        natives.append((<Operand>parts[i])._native)
    table = wide = <Slots>tables[0]
    for each in tables:
        if (<Slots>each).backend is not table.backend or (<Slots>each).device is not table.device:
            return None
        if each is not wide:
            found = _common(wide.dtype, (<Slots>each).dtype)
            if found == NULL:
                return None
            found = PyDict_GetItemWithError(table.siblings, <object>found)
            if found == NULL:
                return None
            wide = <Slots>found
    if wide is not table and _is_strict():
        return None
    slot = _resolved(wide, _FULL)
    if slot == NULL:
        return None
    made = []
    for i in range(count):
        native = natives[i]
        if not _is_array(<PyObject*>native):
            return None
        if not _is_plain(<PyObject*>native):
            size = _size(<PyArrayObject*><PyObject*>native, SHORT)
            native = None if size < 0 else _without_gaps(<PyArrayObject*><PyObject*>native)
            if native is None:
                return None
        if tables[i] is not wide:
            native = _converted(slot, <Operand>_make(native, <Slots>tables[i]))
            if native is None:
                return None
        if flat:
            size = _size(<PyArrayObject*><PyObject*>native, PY_SSIZE_T_MAX)
            native = _view(
                <PyArrayObject*><PyObject*>native,
                1,
                &size,
                &slot.size,
                <char*>PyArray_DATA(<PyArrayObject*><PyObject*>native),
            )
        made.append(_make(native, wide))
    return made


cdef bint _lie_by_columns(PyObject** parts, Py_ssize_t count) noexcept:
    """Say whether arrays of one table lie by columns, and not by rows as well."""
    cdef PyObject* native
    cdef Py_ssize_t i
    for i in range(count):
        if parts[i].ob_type != <void*>_Array:
            return False
        if (<Operand>parts[i])._table is not (<Operand>parts[0])._table:
            return False
        native = <PyObject*>_native_of(parts[i])
        if _is_plain(native) or not _is_array(native):
            return False
        if not _lies_by_columns(<PyArrayObject*>native):
            return False
        if PyArray_NDIM(<PyArrayObject*>native) > MOST_DIMENSIONS:
            return False
    return True


cdef inline object _joined(made, Slots table, bint turned):
    return _make(_reversed(<PyArrayObject*><PyObject*>made) if turned else made, table)


cdef object _joining_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Join contiguous arrays of one table along an axis, an existing one or a new one."""
    cdef PyObject* axis = NULL
    cdef PyObject** parts
    cdef PyArrayObject* x
    cdef PyArrayObject* y
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp size, total = 0, outer = 1, row, chunk
    cdef Py_ssize_t number, i
    cdef int ndim, place, j, k
    cdef bint stacking = self.place == _STACK
    cdef char* into
    if count != 1 or not _words(args, count, names, ("axis",), &axis):
        return None
    if args[0].ob_type != <void*>&PyTuple_Type and args[0].ob_type != <void*>&PyList_Type:
        return None
    given = <object>args[0]
    if type(given) is list:
        # What is made here may wake the collector, and a finalizer change the list. To extend one
        # wakes nobody, as making a tuple of it does.
        given = []
        given.extend(<object>args[0])
    number = Py_SIZE(given)
    if number < 1:
        return None
    parts = PySequence_Fast_ITEMS(given)
    cdef bint flat = axis == Py_None and not stacking
    # What lies by columns is joined as its transposes, whose axes stand the other way round.
    cdef bint turned = not flat and not stacking and _lie_by_columns(parts, number)
    alike = None
    if turned:
        alike = []
        for i in range(number):
            alike.append(_make(_reversed(_native_of(parts[i])), (<Operand>parts[i])._table))
        parts = PySequence_Fast_ITEMS(alike)
    elif flat or not _are_alike(parts, number):
        alike = _made_alike(parts, number, flat)
        if alike is None:
            return None
        parts = PySequence_Fast_ITEMS(alike)
    if flat:
        axis = NULL
    cdef Slot* slot = _slot_of(parts[0], self.place)
    if slot == NULL:
        return None
    table = (<Operand>parts[0])._table
    x = _native_of(parts[0])
    if not _is_plain(<PyObject*>x):
        return None
    ndim = PyArray_NDIM(x) + stacking
    place = _axis_of(axis, ndim, 0)
    if place < 0 or ndim > MOST_DIMENSIONS:
        return None
    if turned:
        place = ndim - 1 - place
    cdef npy_intp along = 0
    for i in range(number):
        if parts[i].ob_type != <void*>_Array or (<Operand>parts[i])._table is not table:
            return None
        y = _native_of(parts[i])
        if not _is_plain(<PyObject*>y) or PyArray_NDIM(y) != PyArray_NDIM(x):
            return None
        for j in range(PyArray_NDIM(x)):
            if PyArray_DIMS(y)[j] != PyArray_DIMS(x)[j] and (stacking or j != place):
                return None
        size = _size(y, slot.least)
        if size < 0:
            return None
        total += size
        if total >= slot.least:
            return None
        along += 1 if stacking else PyArray_DIMS(y)[place]
        if along > ADDRESSABLE:
            return None  # beside a size of 0, but more would wrap around
    k = 0
    for j in range(ndim):
        if stacking and j == place:
            dims[j] = number
        else:
            dims[j] = PyArray_DIMS(x)[k]
            k += 1
    dims[place] = along
    for j in range(place):
        outer *= dims[j]
    cdef bint small = total * slot.size < outer * number * SMALL_PIECE
    if small and total >= SHORT_MOVE:
        return None  # many that are put together a few bytes at a time are NumPy's
    made = _new_large(slot.descr, ndim, dims)
    into = _data(made)
    cdef Piece few[FEW_PIECES]
    cdef Piece* pieces = few
    if total == 0:
        return _joined(made, table, turned)
    chunk = _size(x, PY_SSIZE_T_MAX) // outer * slot.size
    if small and number == 2 and 2 * outer * chunk == total * slot.size:
        if _put_in_turn(
            <char*>PyArray_DATA(x), <char*>PyArray_DATA(_native_of(parts[1])), into, chunk, outer
        ):
            return _joined(made, table, turned)
    if small:
        for i in range(number):
            y = _native_of(parts[i])
            chunk = _size(y, PY_SSIZE_T_MAX) // outer * slot.size
            _put_apart(into, <char*>PyArray_DATA(y), chunk, total // outer * slot.size, outer)
            into += chunk
        return _joined(made, table, turned)
    # Others may change what is in an Array while many bytes are copied.
    held = None
    if total * slot.size >= LONG * 8:
        held = [(<Operand>parts[i])._native for i in range(number)]
    if outer * number > FEW_PIECES:
        pieces = <Piece*>PyMem_Malloc(outer * number * sizeof(Piece))
        if pieces == NULL:
            raise MemoryError
    try:
        for i in range(number):
            y = _native_of(parts[i])
            chunk = _size(y, PY_SSIZE_T_MAX) // outer * slot.size
            for row in range(outer):
                pieces[row * number + i].source = <char*>PyArray_DATA(y) + row * chunk
                pieces[row * number + i].bytes = chunk
        for row in range(outer * number):
            pieces[row].into = into
            into += pieces[row].bytes
        _move(pieces, outer * number)
    finally:
        if pieces != few:
            PyMem_Free(pieces)
    return _joined(made, table, turned)


cdef object _rolling_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Roll the elements of a contiguous array, all in the order of its memory, or along an axis."""
    cdef PyObject* axis = Py_None
    cdef long shift
    cdef npy_intp outer = 1, length, row, i
    cdef int j, place
    cdef Piece pieces[FEW_PIECES]
    cdef Work work
    if count != 2 or not _words(args, count, names, ("axis",), &axis):
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL or not _whole(args[1], &shift) or not _is_plain(<PyObject*>_native_of(args[0])):
        return None
    held = (<Operand>args[0])._native  # somebody else may let go of it meanwhile
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    length = _size(x, slot.least)
    if length < 1:
        return None
    row = length * slot.size
    if axis != Py_None:
        place = _axis_of(axis, PyArray_NDIM(x), 0)
        if place < 0:
            return None
        for j in range(place):
            outer *= PyArray_DIMS(x)[j]
        row, length = row // outer, PyArray_DIMS(x)[place]
    made = _new_large(slot.descr, PyArray_NDIM(x), PyArray_DIMS(x))
    memset(&work, 0, sizeof(Work))
    work.operands[0], work.operands[1] = <char*>PyArray_DATA(x), _data(made)
    # Where in the row begins what is rolled to its beginning.
    work.length, work.size = row, (-shift % length + length) % length * (row // length)
    if 2 * outer <= FEW_PIECES:
        for i in range(outer):
            pieces[2 * i].source, pieces[2 * i].bytes = work.operands[0] + work.size, row - work.size
            pieces[2 * i + 1].source, pieces[2 * i + 1].bytes = work.operands[0], work.size
            pieces[2 * i].into = work.operands[1]
            pieces[2 * i + 1].into = work.operands[1] + row - work.size
            work.operands[0] += row
            work.operands[1] += row
        _move(pieces, 2 * outer)
    elif outer * row < LONG * 8:
        _roll_stretch(&work, 0, outer)
    else:
        work.stretch, work.rows = _roll_stretch, outer
        _do(&work, 2 * outer * row, &_moving)
    return _make(made, (<Operand>args[0])._table)


cdef void _roll_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp i, before = work.size, after = work.length - work.size
    cdef char* source
    cdef char* into
    for i in range(start, stop):
        source, into = work.operands[0] + i * work.length, work.operands[1] + i * work.length
        _copy(into, source + before, after)
        _copy(into + after, source, before)


cdef object _copied_repeatedly(
    Slot* slot, PyArrayObject* x, int axes, npy_intp* dims, npy_intp* strides, int ndim, npy_intp* shape
):
    """Copy an array into another shape, by axes some of which are repeated; None without memory for it.

    The caller holds the array.
    """
    cdef npy_intp apart[MOST_DIMENSIONS]
    cdef npy_intp step = slot.size
    cdef int i
    made = _new_if_any(slot.descr, ndim, shape)
    if made is None:
        return None
    for i in range(axes - 1, -1, -1):
        apart[i] = step
        step *= dims[i]
    if step == 0:
        return made
    into = _view(<PyArrayObject*><PyObject*>made, axes, dims, apart, _data(made))
    source = _view(x, axes, dims, strides, <char*>PyArray_DATA(x))
    _copy_over(<PyArrayObject*><PyObject*>into, <PyArrayObject*><PyObject*>source)
    return made


cdef object _tiling_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Repeat a whole array along its axes."""
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef npy_intp size = 1
    cdef int of_x, given, ndim, i
    cdef long times
    if count != 2 or names != NULL or args[1].ob_type != <void*>&PyTuple_Type:
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL or not _is_array(<PyObject*>_native_of(args[0])):
        return None
    held = (<Operand>args[0])._native  # somebody else may let go of it meanwhile
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    of_x, given = PyArray_NDIM(x), <int>PyTuple_GET_SIZE(args[1])
    ndim = max(of_x, given)
    if 2 * ndim > MOST_DIMENSIONS:
        return None
    for i in range(ndim):
        times = 1
        if i >= ndim - given and not _whole(PyTuple_GET_ITEM(args[1], i - (ndim - given)), &times):
            return None
        dims[2 * i], strides[2 * i] = times, 0
        dims[2 * i + 1] = strides[2 * i + 1] = 1
        if i >= ndim - of_x:
            dims[2 * i + 1] = PyArray_DIMS(x)[i - (ndim - of_x)]
            strides[2 * i + 1] = PyArray_STRIDES(x)[i - (ndim - of_x)]
        if times < 0 or times and size > (slot.least - 1) // times:
            return None
        if times and dims[2 * i + 1] > ADDRESSABLE // times:
            return None  # beside a size of 0, but the product would wrap around
        size *= times
        if dims[2 * i + 1] and size > (slot.least - 1) // dims[2 * i + 1]:
            return None
        size *= dims[2 * i + 1]
        shape[i] = times * dims[2 * i + 1]
    made = _copied_repeatedly(slot, x, 2 * ndim, dims, strides, ndim, shape)
    return None if made is None else _make(made, (<Operand>args[0])._table)


cdef object _repeating_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Repeat elements of a contiguous array, or its parts along an axis, alike or by counts."""
    cdef PyObject* axis = Py_None
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp outer = 1, length = 1, chunk = 1, total = 0, row, i
    cdef npy_intp* each = NULL
    cdef long times = 0
    cdef int ndim, place = 0, j
    if count != 2 or not _words(args, count, names, ("axis",), &axis):
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL:
        return None
    held, also_held = _side_by_side(<PyObject*>_native_of(args[0])), None  # others may let go of them
    if held is None:
        return None
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    cdef bint alike = _whole(args[1], &times)
    cdef npy_intp least = slot.least
    if not alike or times > FEW_TIMES:
        least = min(least, <npy_intp>SHORT)
    if _size(x, least) < 0 or PyArray_NDIM(x) > MOST_DIMENSIONS:
        return None
    if axis == Py_None:
        ndim, length = 1, _size(x, least)
    else:
        ndim, place = PyArray_NDIM(x), _axis_of(axis, PyArray_NDIM(x), 0)
        if place < 0:
            return None
        for j in range(ndim):
            dims[j] = PyArray_DIMS(x)[j]
            if j < place:
                outer *= dims[j]
            elif j > place:
                chunk *= dims[j]
        length = dims[place]
    if alike:
        if not 0 <= times < least or times and length > ADDRESSABLE // times:
            return None
        total = length * times
    else:
        each = _counts(args[0], args[1], length)
        if each == NULL:
            return None
        also_held = (<Operand>args[1])._native
        for i in range(length):
            if not 0 <= each[i] < least:
                return None
            total += each[i]
    if total >= least or total * outer * chunk >= least:
        return None
    dims[place] = total
    made = _new_if_any(slot.descr, ndim, dims)
    if made is None:
        return None
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* into = _data(made)
    chunk *= slot.size
    if alike and times <= FEW_TIMES:
        _repeat_alike(into, source, chunk, outer * length, times)
        return _make(made, (<Operand>args[0])._table)
    for row in range(outer):
        for i in range(length):
            if each != NULL:
                times = each[i]
            _fill(into, times, chunk, source)
            into += times * chunk
            source += chunk
    return _make(made, (<Operand>args[0])._table)


cdef int _repeat_alike(
    char* into, char* source, npy_intp chunk, npy_intp count, npy_intp times
) except -1:
    """Copy each of the chunks of bytes a few times, in several threads if they are many."""
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.operands[0], work.operands[1] = source, into
    work.length, work.steps[0], work.size = chunk, times, count
    work.stretch, work.rows = _repeat_stretch, (count + ROW - 1) // ROW
    if count * (times + 1) * chunk < LONG * 8:
        _repeat_stretch(&work, 0, work.rows)
    else:
        _do(&work, count * (times + 1) * chunk, &_moving)
    return 0


cdef void _repeat_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp chunk = work.length, times = work.steps[0], first = start * ROW, i, k
    cdef npy_intp count = min(stop * ROW, work.size) - first
    cdef char* source = work.operands[0] + first * chunk
    cdef char* into = work.operands[1] + first * times * chunk
    if times == 2 and _put_in_turn(source, source, into, chunk, count):
        return
    if chunk == 8:
        _repeat_items(<long long*>into, <long long*>source, count, times)
    elif chunk == 4:
        _repeat_items(<int*>into, <int*>source, count, times)
    elif chunk == 2:
        _repeat_items(<short*>into, <short*>source, count, times)
    elif chunk == 1:
        _repeat_items(<signed char*>into, <signed char*>source, count, times)
    elif chunk == 16:
        _repeat_items(<TwoWords*>into, <TwoWords*>source, count, times)
    else:
        for i in range(count):
            for k in range(times):
                memcpy(into + (i * times + k) * chunk, source + i * chunk, chunk)


cdef inline void _repeat_items(
    Chunk* into, Chunk* source, npy_intp count, npy_intp times
) noexcept nogil:
    cdef npy_intp i, k
    for i in range(count):
        for k in range(times):
            memcpy(&into[i * times + k], &source[i], sizeof(Chunk))  # not aligned, as in `_alternate`
