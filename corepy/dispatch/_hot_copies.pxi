# Copies: other dtypes, joined arrays, elements in another order.
# Included by _hot_compiled.pyx.

ctypedef fused Source:
    unsigned char  # booleans, which are 0 and 1
    int
    long long
    float
    double

ctypedef fused Target:
    int
    long long
    float
    double


cdef inline void _cast(Source* x, Target* into, npy_intp size) noexcept nogil:
    cdef npy_intp i
    for i in range(size):
        into[i] = <Target>x[i]


cdef bint _cast_from(Source* x, void* into, int target, npy_intp size) noexcept nogil:
    if target == NPY_DOUBLE:
        _cast(x, <double*>into, size)
    elif target == NPY_FLOAT:
        _cast(x, <float*>into, size)
    elif target == NPY_INT32:
        _cast(x, <int*>into, size)
    elif target == NPY_INT64:
        _cast(x, <long long*>into, size)
    else:
        return False
    return True


cdef bint _cast_all(void* x, int source, void* into, int target, npy_intp size) noexcept nogil:
    """Convert booleans, and floats and integers of 32 and 64 bits, to such; False for other dtypes."""
    if source == NPY_DOUBLE:
        return _cast_from(<double*>x, into, target, size)
    if source == NPY_FLOAT:
        return _cast_from(<float*>x, into, target, size)
    if source == NPY_INT32:
        return _cast_from(<int*>x, into, target, size)
    if source == NPY_INT64:
        return _cast_from(<long long*>x, into, target, size)
    if source == NPY_BOOL:
        return _cast_from(<unsigned char*>x, into, target, size)
    return False


cdef bint _cast_array(
    PyArrayObject* x, PyArrayObject* into, npy_intp size, PyUFuncGenericFunction wide
) except -1:
    """Convert as `_cast_all` does, many elements by a wide loop if that is not NULL.

    False also where a value is out of range.
    """
    cdef int source = PyArray_TYPE(x), target = PyArray_TYPE(into)
    cdef bint known
    if size < LONG:
        corepy_no_flags()
        known = _cast_all(PyArray_DATA(x), source, PyArray_DATA(into), target, size)
        return known and not corepy_flags()
    held = <object>x  # somebody else may let go of it meanwhile
    cdef bint to_float = target == NPY_FLOAT or target == NPY_DOUBLE
    cdef double start = corepy_now()
    cdef npy_intp bytes = size * (PyArray_ITEMSIZE(x) + PyArray_ITEMSIZE(into))
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.rows, work.size = _cast_stretch, (size + ROW - 1) // ROW, size
    work.operands[0], work.steps[0] = <char*>PyArray_DATA(x), PyArray_ITEMSIZE(x)
    work.operands[1], work.steps[1] = <char*>PyArray_DATA(into), PyArray_ITEMSIZE(into)
    work.types[0], work.types[1], work.count = source, target, 2
    work.loop = wide
    cdef int threads
    if _is_far(bytes, work.operands[1]):
        work.stretch = _cast_past_caches
        _do(&work, bytes, &_moving)
    elif to_float and size >= SHORT and wide == NULL:
        threads = _threads_for(&work, _moving * bytes, start)
        if threads < 2:
            # By NumPy's loop: ours takes as long, but in some places of memory 1.4 times (Zen 3).
            PyArray_CopyInto(into, x)
            _did_alone(bytes, &_moving, start)
            return True
        _do_together(&work, threads, start)
    else:
        _do(&work, bytes, &_moving)
    return not work.failed and (_is_clean(NULL, size) if to_float else not corepy_flags())


cdef inline bint _wraps_around(int source) noexcept:
    """Say whether NumPy converts all values of a dtype to any other without a word."""
    return source == NPY_BOOL or PyTypeNum_ISINTEGER(source)


cdef double _moving = 0.0  # seconds that it takes to read or write a byte


cdef void _cast_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp first = start * ROW, size = min(stop * ROW, work.size) - first
    cdef char* source = work.operands[0] + first * work.steps[0]
    cdef char* into = work.operands[1] + first * work.steps[1]
    _cast_some(work, source, into, size)


cdef inline void _cast_some(Work* work, char* source, char* into, npy_intp size) noexcept nogil:
    cdef char* operands[2]
    if work.loop != NULL:
        operands[0], operands[1] = source, into
        work.loop(operands, &size, work.steps, NULL)
    elif not _cast_all(source, work.types[0], into, work.types[1], size):
        work.failed = True


cdef void _cast_past_caches(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """As `_cast_stretch`, into little memory first: see `_map_past_caches`."""
    cdef double some[ROW]  # of items of 8 bytes at the most
    cdef npy_intp row, size
    cdef char* source
    for row in range(start, stop):
        size = min(<npy_intp>ROW, work.size - row * ROW)
        source = work.operands[0] + row * ROW * work.steps[0]
        _cast_some(work, source, <char*>some, size)
        _put_past_caches(work, row * ROW, ROW, <char*>some, size)
    corepy_streamed()


cdef enum:
    PAGES = 8192  # bytes that are copied together
    FEW_PIECES = 16
    SMALL_PIECE = 512  # bytes of pieces that are not worth to be written down
    PAGE = 4096


cdef struct Piece:
    char* source
    char* into
    npy_intp first  # bytes of the pieces before
    npy_intp bytes


cdef int _move(Piece* pieces, npy_intp number) except -1:
    """Copy pieces of memory, which the caller holds; other threads may run during many bytes."""
    cdef npy_intp i, total = 0
    for i in range(number):
        pieces[i].first = total
        total += pieces[i].bytes
    if total < LONG * 8:
        for i in range(number):
            _copy(pieces[i].into, pieces[i].source, pieces[i].bytes)
        return 0
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.rows, work.size = _move_stretch, (total + PAGES - 1) // PAGES, total
    work.operands[0] = <char*>pieces
    if COREPY_STREAMS and 2 * total > STREAMED:
        work.stretch = _move_past_caches
    return _do(&work, 2 * total, &_moving)


cdef inline void _copy(char* into, char* source, npy_intp bytes) noexcept nogil:
    """Copy bytes, from the end where they go less than a line further on in their pages.

    There processors take what they read next for what they have just written, and wait. An
    instruction that copies many bytes at once, which C libraries use, takes ten times as long (Zen 3).
    """
    cdef npy_intp ahead = (into - source) & (PAGE - 1)
    if 0 < ahead < LINE:
        while bytes >= LINE:
            bytes -= LINE
            memcpy(into + bytes, source + bytes, LINE)
    memcpy(into, source, bytes)


cdef void _move_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    _move_some(work, start, stop, False)


cdef void _move_past_caches(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    _move_some(work, start, stop, True)
    corepy_streamed()


cdef inline void _move_some(Work* work, npy_intp start, npy_intp stop, bint far) noexcept nogil:
    cdef npy_intp first = start * PAGES, last = min(stop * PAGES, work.size), done, count
    cdef Piece* piece = <Piece*>work.operands[0]
    while first < last:
        while piece.first + piece.bytes <= first:
            piece += 1
        done = first - piece.first
        count = min(piece.bytes - done, last - first)
        if far:
            _copy_past_caches(piece.into + done, piece.source + done, count)
        else:
            _copy(piece.into + done, piece.source + done, count)
        first += count


cdef inline void _copy_past_caches(char* into, char* source, npy_intp bytes) noexcept nogil:
    cdef npy_intp before = min(<npy_intp>(-<uintptr_t>into % LINE), bytes)  # up to a whole line
    memcpy(into, source, before)
    corepy_stream(into + before, source + before, bytes - before)


cdef object _cast_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Copy an array to another dtype."""
    if count != 2 or names != NULL or args[1].ob_type != <void*>_DType:
        return None
    return _copied(args[0], args[1])


cdef object _copied(PyObject* array, PyObject* dtype):
    """Copy an array to a dtype, in the order of its memory; None where the function has to."""
    cdef PyObject* found
    cdef Slot* slot = _slot_of(array, _ASTYPE)
    if slot == NULL:
        return None
    table = (<Operand>array)._table
    found = PyDict_GetItemWithError(table.siblings, <object>dtype)
    if found == NULL:
        return None
    native = (<Operand>array)._native
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>native
    if _is_plain(<PyObject*>x) or not _is_array(<PyObject*>x):
        made = _copied_to(slot, table, native, <Slots>found)
    elif PyArray_FLAGS(x) & NPY_ARRAY_F_CONTIGUOUS and PyArray_NDIM(x) <= MOST_DIMENSIONS:
        made = _copied_to(slot, table, _reversed(x), <Slots>found)
        made = None if made is None else _reversed(<PyArrayObject*><PyObject*>made)
    elif dtype == <PyObject*>table.dtype:
        made = _copied_with_gaps(slot, x)
    else:
        native = _packed(native)
        made = None if native is None else _copied_to(slot, table, native, <Slots>found)
    return None if made is None else _make(made, <Slots>found)


cdef object _reversed(PyArrayObject* x):
    """View an array with its axes in the opposite order."""
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int i, ndim = PyArray_NDIM(x)
    for i in range(ndim):
        dims[i] = PyArray_DIMS(x)[ndim - 1 - i]
        strides[i] = PyArray_STRIDES(x)[ndim - 1 - i]
    return _view(x, ndim, dims, strides, <char*>PyArray_DATA(x))


cdef object _copied_with_gaps(Slot* slot, PyArrayObject* x):
    """Copy an array that the caller holds, None where the entry has to."""
    cdef npy_intp size = _size(x, slot.least), last = PY_SSIZE_T_MAX, step
    cdef int i
    if size < 0:
        return None
    if size < LONG:
        return PyArray_NewCopy(x, NPY_KEEPORDER)
    for i in range(PyArray_NDIM(x)):
        step = abs(PyArray_STRIDES(x)[i])
        if step > last:
            return None
        last = step
    made = _result(slot, x)
    PyArray_CopyInto(<PyArrayObject*>made, x)
    return made


cdef object _copied_to(Slot* slot, Slots table, native, Slots target):
    """Copy a contiguous native array to the dtype of a table, None where the entry has to."""
    if not _is_plain(<PyObject*>native):
        return None
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>native
    descr = target.native_dtype
    cdef int into = (<PyArray_Descr*><PyObject*>descr).type_num
    cdef Slot* unequal
    if into == NPY_BOOL and slot.type_num != NPY_BOOL and not _is_complex(slot.type_num):
        unequal = _resolved_if_any(table, _NOT_EQUAL)
        return None if unequal == NULL else _short_scalar(unequal, <PyObject*>x, 0, False)
    if _is_complex(slot.type_num) and not _is_complex(into) and into != NPY_BOOL:
        return None  # NumPy drops imaginary parts
    cdef npy_intp least = slot.least
    if into == NPY_FLOAT:
        least = slot.leasts[TO_SINGLE]
    elif into == NPY_DOUBLE:
        least = slot.leasts[TO_DOUBLE]
    elif into == NPY_INT64:
        least = slot.leasts[TO_INTEGERS]
    cdef npy_intp size = _size(x, least)
    if size < 0:
        return None
    made = _new_large(<PyArray_Descr*><PyObject*>descr, PyArray_NDIM(x), PyArray_DIMS(x))
    cdef PyArrayObject* copy = <PyArrayObject*>made
    cdef Piece piece
    if into == slot.type_num:
        piece.source, piece.into = <char*>PyArray_DATA(x), <char*>PyArray_DATA(copy)
        piece.bytes = size * slot.size
        _move(&piece, 1)
    elif _wraps_around(slot.type_num) and not _has_cast(slot.type_num, into):
        PyArray_CopyInto(copy, x)
    elif size < LONG and _wraps_around(slot.type_num):
        if not _cast_array(x, copy, size, NULL):
            PyArray_CopyInto(copy, x)
    elif _casts_quietly(slot.type_num, into) or size < LONG and _is_held_by(x, size, into):
        PyArray_CopyInto(copy, x)
    # The one dtype that there are wide loops to.
    elif not _cast_array(x, copy, size, slot.loop if into == NPY_DOUBLE else NULL):
        return None  # what is to be done about values out of range is for the entry
    return made


cdef inline bint _casts_quietly(int source, int target) noexcept:
    """Say whether NumPy converts without a word of its own.

    So it does floats to complex numbers, and those to booleans.
    """
    if target == NPY_BOOL:
        return _is_complex(source)
    return _is_complex(target) and not _wraps_around(source)


cdef inline bint _has_cast(int source, int target) noexcept:
    """Say whether `_cast_all` converts one dtype to another."""
    return (
        source in (NPY_BOOL, NPY_INT32, NPY_INT64, NPY_FLOAT, NPY_DOUBLE)
        and target in (NPY_INT32, NPY_INT64, NPY_FLOAT, NPY_DOUBLE)
    )


cdef inline bint _is_complex(int type_num) noexcept:
    return type_num == NPY_CFLOAT or type_num == NPY_CDOUBLE


cdef bint _is_held_by(PyArrayObject* x, npy_intp size, int target) noexcept:
    """Say whether all floats of a contiguous array are within an integer dtype of up to 4 bytes."""
    cdef double low, high, value
    cdef npy_intp i
    cdef int outside = 0  # without a branch, which would keep the loops from vector registers
    cdef double* d = <double*>PyArray_DATA(x)
    cdef float* f = <float*>PyArray_DATA(x)
    if target == NPY_INT8 or target == NPY_INT16:
        high = 128.0 if target == NPY_INT8 else 32768.0
        low = -high - 1
    elif target == NPY_UINT8 or target == NPY_UINT16 or target == NPY_UINT32:
        high = 256.0 if target == NPY_UINT8 else 65536.0 if target == NPY_UINT16 else 4294967296.0
        low = -1
    else:
        return False
    if PyArray_TYPE(x) == NPY_DOUBLE:
        for i in range(size):
            outside |= (not low < d[i]) | (not d[i] < high)
    elif PyArray_TYPE(x) == NPY_FLOAT:
        for i in range(size):
            value = f[i]
            outside |= (not low < value) | (not value < high)
    else:
        return False
    return not outside


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


cdef inline void _alternate(Chunk* x, Chunk* y, Chunk* into, npy_intp count) noexcept:
    cdef npy_intp i
    for i in range(count):
        memcpy(&into[2 * i], &x[i], sizeof(Chunk))  # not aligned, as in `_gather_items`
        memcpy(&into[2 * i + 1], &y[i], sizeof(Chunk))


cdef bint _put_in_turn(char* x, char* y, char* into, npy_intp item, npy_intp count) noexcept:
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
    for i in range(count):  # a copy may let other threads run, which change a list
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
    number = Py_SIZE(<object>args[0])
    if number < 1:
        return None
    parts = PySequence_Fast_ITEMS(<object>args[0])
    cdef bint flat = axis == Py_None and not stacking
    alike = None
    if flat or not _are_alike(parts, number):
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
        return _make(made, table)
    chunk = total // (outer * number) * slot.size
    if small and number == 2 and outer * chunk == _size(x, PY_SSIZE_T_MAX) * slot.size:
        if _put_in_turn(
            <char*>PyArray_DATA(x), <char*>PyArray_DATA(_native_of(parts[1])), into, chunk, outer
        ):
            return _make(made, table)
    if small:
        for i in range(number):
            y = _native_of(parts[i])
            chunk = _size(y, PY_SSIZE_T_MAX) // outer * slot.size
            _put_apart(into, <char*>PyArray_DATA(y), chunk, total // outer * slot.size, outer)
            into += chunk
        return _make(made, table)
    # Others may change a list, or what is in an Array, while many bytes are copied.
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
    return _make(made, table)


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
    cdef npy_intp least = min(slot.least, <npy_intp>SHORT)
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
    if _whole(args[1], &times):
        if not 0 <= times < least:
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
    made = _new_large(slot.descr, ndim, dims)
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* into = _data(made)
    chunk *= slot.size
    for row in range(outer):
        for i in range(length):
            if each != NULL:
                times = each[i]
            _fill(into, times, chunk, source)
            into += times * chunk
            source += chunk
    return _make(made, (<Operand>args[0])._table)


cdef npy_intp* _counts(PyObject* array, PyObject* counts, npy_intp length) except? NULL:
    """Return as many integers of 64 bits that an `Array` beside another one holds; NULL for others."""
    if counts.ob_type != <void*>_Array or not _share(<Operand>array, <Operand>counts):
        return NULL
    cdef PyArrayObject* y = _native_of(counts)
    if not _is_plain(<PyObject*>y) or PyArray_TYPE(y) != NPY_INTP:
        return NULL
    if PyArray_NDIM(y) != 1 or PyArray_DIMS(y)[0] != length:
        return NULL
    return <npy_intp*>PyArray_DATA(y)


cdef object _taking_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Copy rows at indices."""
    cdef PyObject* axis = NULL
    if count != 2 or not _words(args, count, names, ("axis",), &axis):
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL or args[1].ob_type != <void*>_Array:
        return None
    if not _share(<Operand>args[0], <Operand>args[1]):
        return None
    cdef PyArrayObject* x = _native_of(args[0])
    cdef PyArrayObject* which = _native_of(args[1])
    if not _is_array(<PyObject*>x) or not _is_array(<PyObject*>which):
        return None
    cdef int place = _axis_of(axis, PyArray_NDIM(x), 0)
    if place < 0 or axis == NULL and PyArray_NDIM(x) != 1:
        return None
    made = _gathered(slot, x, which) if place == 0 else None
    if made is None:
        made = _taken_along(slot, x, which, place)
    return None if made is None else _make(made, (<Operand>args[0])._table)


cdef object _taken_along(Slot* slot, PyArrayObject* x, PyArrayObject* which, int place):
    """Have NumPy copy parts along an axis at few indices; None where the entry has to."""
    if PyArray_TYPE(which) != NPY_INTP or _size(which, slot.least) < 0:
        return None
    if _size(x, slot.least) < 1:
        return None
    held = <object><PyObject*>x
    try:
        return PyArray_TakeFrom(x, <object><PyObject*>which, place, NULL, NPY_RAISE)
    except (IndexError, MemoryError):  # the function says which
        return None


cdef object _gathered(Slot* slot, PyArrayObject* x, PyArrayObject* which):
    """Copy rows of a contiguous array at indices of 64 bits, None for others, and bad indices."""
    cdef npy_intp dims[2 * MOST_DIMENSIONS]
    cdef npy_intp length, chunk = 1, number, i, place
    cdef int j, ndim = PyArray_NDIM(x), more = PyArray_NDIM(which)
    if PyArray_TYPE(which) != NPY_INTP or ndim == 0 or ndim + more > MOST_DIMENSIONS:
        return None
    if not _is_plain(<PyObject*>x) or not _is_plain(<PyObject*>which):
        return None
    length, number = PyArray_DIMS(x)[0], _size(which, slot.least)
    for j in range(1, ndim):
        chunk *= PyArray_DIMS(x)[j]
    if number < 0 or chunk == 0 or _size(x, slot.least) < 0 or number * chunk >= slot.least:
        return None
    for j in range(more):
        dims[j] = PyArray_DIMS(which)[j]
    for j in range(1, ndim):
        dims[more + j - 1] = PyArray_DIMS(x)[j]
    made = _new_if_any(slot.descr, ndim + more - 1, dims)
    if made is None:
        return None
    chunk *= slot.size
    cdef npy_intp* indices = <npy_intp*>PyArray_DATA(which)
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* into = _data(made)
    if number * chunk < LONG * slot.size:
        return made if _gather(into, source, indices, number, length, chunk) else None
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.rows = _gather_stretch, (number + ROW - 1) // ROW
    work.size, work.length, work.slot = number, length, slot
    work.operands[0], work.operands[1] = source, <char*>indices
    work.operands[2], work.steps[2] = into, chunk
    held = <object>x, <object>which  # somebody else may let go of them meanwhile
    _do(&work, number * chunk // slot.size, &slot.pace[0])
    return None if work.failed else made


cdef void _gather_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp first = start * ROW, number = min(stop * ROW, work.size) - first
    cdef npy_intp* indices = <npy_intp*>work.operands[1] + first
    cdef char* into = work.operands[2] + first * work.steps[2]
    if not _gather(into, work.operands[0], indices, number, work.length, work.steps[2]):
        work.failed = True


cdef inline npy_intp _wrapped(npy_intp place, npy_intp length) noexcept nogil:
    """Return the place that an index means, -1 if it is out of bounds."""
    if place < 0:
        place += length
    return place if 0 <= place < length else -1


cdef bint _gather_items(
    Chunk* into, Chunk* source, npy_intp* indices, npy_intp number, npy_intp length
) noexcept nogil:
    cdef npy_intp i, place
    for i in range(number):
        place = _wrapped(indices[i], length)
        if place < 0:
            return False
        # Several items of a smaller dtype need not be aligned as one of so many bytes is.
        memcpy(&into[i], &source[place], sizeof(Chunk))
    return True


cdef bint _gather(
    char* into, char* source, npy_intp* indices, npy_intp number, npy_intp length, npy_intp chunk
) noexcept nogil:
    """Copy chunks of bytes at indices; False if there is a bad one."""
    cdef npy_intp i, place
    # Of each size a loop of its own: to ask for it at each index takes a third of the time more.
    if chunk == 8:
        return _gather_items(<long long*>into, <long long*>source, indices, number, length)
    if chunk == 4:
        return _gather_items(<int*>into, <int*>source, indices, number, length)
    if chunk == 1:
        return _gather_items(<signed char*>into, <signed char*>source, indices, number, length)
    if chunk == 2:
        return _gather_items(<short*>into, <short*>source, indices, number, length)
    if chunk == 16:
        return _gather_items(<TwoWords*>into, <TwoWords*>source, indices, number, length)
    for i in range(number):
        place = _wrapped(indices[i], length)
        if place < 0:
            return False
        memcpy(into + i * chunk, source + place * chunk, chunk)
    return True
