# Copies: the same elements in another dtype, or elsewhere in memory.
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
    """Convert booleans, and floats and integers of 32 and 64 bits, to such, and floats to integers.

    False for other dtypes, and where integers of up to 32 bits do not hold a float.
    """
    cdef Narrowing narrow = corepy_narrowing_of(source, target)
    if narrow != NULL:
        return not narrow(x, into, size)
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
    """Convert as `_cast_all` does, or by a wide loop if that is not NULL.

    False also where a value is out of range.
    """
    cdef int source = PyArray_TYPE(x), target = PyArray_TYPE(into)
    cdef bint known, to_float = target == NPY_FLOAT or target == NPY_DOUBLE
    cdef char* operands[2]
    cdef npy_intp steps[2]
    cdef Work work
    if size < LONG and wide != NULL:
        operands[0], operands[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(into)
        steps[0], steps[1] = PyArray_ITEMSIZE(x), PyArray_ITEMSIZE(into)
        wide(operands, &size, steps, NULL)
        return True
    if size < LONG:
        corepy_no_flags()
        known = _cast_all(PyArray_DATA(x), source, PyArray_DATA(into), target, size)
        return known and (not corepy_flags() or to_float and _is_told_as("cast"))
    held = <object>x  # somebody else may let go of it meanwhile
    cdef double start = corepy_now()
    cdef npy_intp bytes = size * (PyArray_ITEMSIZE(x) + PyArray_ITEMSIZE(into))
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
            if not _converts(into, x):
                return False
            _did_alone(bytes, &_moving, start)
            return True
        _do_together(&work, threads, start)
    else:
        _do(&work, bytes, &_moving)
    return not work.failed and (not corepy_all_flags() or to_float and _is_told_as("cast"))


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
    """Copy an array to a dtype, or give it back where it has that and need not be copied."""
    cdef PyObject** words = [Py_True, Py_None]
    if count != 2 or args[1].ob_type != <void*>_DType:
        return None
    if names == NULL:
        return _copied(args[0], args[1])
    if not _words(args, count, names, ("copy", "device"), words) or _slot_of(args[0], _ASTYPE) == NULL:
        return None
    if not _is_there(words[1], (<Operand>args[0])._table):
        return None
    if words[0] == Py_False and args[1] == <PyObject*>(<Operand>args[0])._table.dtype:
        return <object>args[0]
    return _copied(args[0], args[1]) if words[0] in (Py_True, Py_False) else None


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


cdef object _copied_with_gaps(Slot* slot, PyArrayObject* x):
    """Copy an array that the caller holds, None where the entry has to."""
    cdef npy_intp strides[2][MOST_DIMENSIONS]
    cdef int order[MOST_DIMENSIONS]
    cdef npy_intp size = _size(x, slot.least)
    cdef int ndim = PyArray_NDIM(x), i
    if size < 0 or size >= LONG and ndim > MOST_DIMENSIONS:
        return None
    if size < LONG:
        return PyArray_NewCopy(x, NPY_KEEPORDER)
    for i in range(ndim):
        strides[0][i] = PyArray_STRIDES(x)[i]
        if PyArray_DIMS(x)[i] > 1 and strides[0][i] == 0:  # whose place NumPy sees elsewhere than loops do
            return None
    _find_order(strides, 1, ndim, order)
    made = _result_in_order(slot.descr, ndim, PyArray_DIMS(x), order, strides[1])
    if made is not None:
        _copy_over(<PyArrayObject*>made, x)
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
    cdef npy_intp least = slot.unrouted
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
    # The one dtype that there are wide loops to.
    cdef PyUFuncGenericFunction wide = slot.loop if into == NPY_DOUBLE else NULL
    if into == slot.type_num:
        piece.source, piece.into = <char*>PyArray_DATA(x), <char*>PyArray_DATA(copy)
        piece.bytes = size * slot.size
        _move(&piece, 1)
    elif _wraps_around(slot.type_num) and not _has_cast(slot.type_num, into):
        PyArray_CopyInto(copy, x)
    elif size < LONG and _wraps_around(slot.type_num):
        if not _cast_array(x, copy, size, wide):
            PyArray_CopyInto(copy, x)
    elif _casts_alone(slot.type_num, into):
        if not _converts(copy, x):
            return None
    elif not _has_cast(slot.type_num, into):
        return None
    elif not _cast_array(x, copy, size, wide):
        return None  # what is to be done about values out of range is for the entry
    return made


cdef bint _converts(PyArrayObject* into, PyArrayObject* x) except -1:
    """Have NumPy convert, and warn of what does not fit; False where that is an exception.

    The entry computes it once more and words it.
    """
    try:
        PyArray_CopyInto(into, x)
    except Exception as error:
        let_through(error)
        return False
    return True


cdef inline bint _casts_alone(int source, int target) noexcept:
    """Say whether NumPy itself converts: floats to complex numbers, and those to booleans."""
    if target == NPY_BOOL:
        return _is_complex(source)
    return _is_complex(target) and not _wraps_around(source)


cdef inline bint _has_cast(int source, int target) noexcept:
    """Say whether `_cast_all` converts one dtype to another."""
    return corepy_narrowing_of(source, target) != NULL or (
        source in (NPY_BOOL, NPY_INT32, NPY_INT64, NPY_FLOAT, NPY_DOUBLE)
        and target in (NPY_INT32, NPY_INT64, NPY_FLOAT, NPY_DOUBLE)
    )


cdef inline bint _is_complex(int type_num) noexcept:
    return type_num == NPY_CFLOAT or type_num == NPY_CDOUBLE
