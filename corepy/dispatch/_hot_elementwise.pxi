# Elementwise operations on small arrays, by the inner loops of NumPy's ufuncs.
# Included by _hot_compiled.pyx.

cdef inline bint _is_array(PyObject* x) noexcept:
    """Say whether an object is an array of NumPy's, of no class derived from it."""
    return _has_numpy and x.ob_type == <void*>&PyArray_Type


cdef inline bint _is_plain(PyObject* x) noexcept:
    return (
        _is_array(x)
        and PyArray_FLAGS(<PyArrayObject*>x) & (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED)
        == (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED)
    )


cdef inline npy_intp _size(PyArrayObject* x, npy_intp least) noexcept:
    """Return the number of elements, -1 from `least` on."""
    cdef npy_intp* dims = PyArray_DIMS(x)
    cdef npy_intp size = 1
    cdef int i
    for i in range(PyArray_NDIM(x)):
        size *= dims[i]
        if size >= least:
            return -1
    return size


cdef tuple _shape_of(PyArrayObject* x):
    cdef int ndim = PyArray_NDIM(x), i
    cdef tuple shape = PyTuple_New(ndim)
    cdef object size
    for i in range(ndim):
        size = PyArray_DIMS(x)[i]
        Py_INCREF(size)  # the next line steals a reference
        PyTuple_SET_ITEM(shape, i, size)
    return shape


cdef inline bint _same_shape(PyArrayObject* x, PyArrayObject* y) noexcept:
    cdef int ndim = PyArray_NDIM(x), i
    if ndim != PyArray_NDIM(y):
        return False
    cdef npy_intp* a = PyArray_DIMS(x)
    cdef npy_intp* b = PyArray_DIMS(y)
    for i in range(ndim):
        if a[i] != b[i]:
            return False
    return True


ctypedef fused Real:
    float
    double


cdef inline bint _are_finite(Real* x, npy_intp size) noexcept:
    cdef npy_intp i
    for i in range(size):
        if not isfinite(x[i]):
            return False
    return True


cdef inline bint _is_none_zero(Real* x, npy_intp size) noexcept:
    """Say whether no complex number is zero."""
    cdef npy_intp i
    for i in range(0, 2 * size, 2):
        if x[i] == x[i + 1] == 0:
            return False
    return True


cdef inline bint _all_finite(PyArrayObject* x, int type_num, npy_intp size) noexcept:
    """Say whether all elements are finite; complex ones, and none is zero."""
    cdef void* data = PyArray_DATA(x)
    if type_num == NPY_DOUBLE:
        return _are_finite(<double*>data, size)
    if type_num == NPY_FLOAT:
        return _are_finite(<float*>data, size)
    if type_num == NPY_CDOUBLE:
        return _are_finite(<double*>data, 2 * size) and _is_none_zero(<double*>data, size)
    if type_num == NPY_CFLOAT:
        return _are_finite(<float*>data, 2 * size) and _is_none_zero(<float*>data, size)
    return False  # float16, whose test would take longer than it saves


cdef inline char* _data(made) noexcept:
    return <char*>PyArray_DATA(<PyArrayObject*>made)


cdef inline object _result(Slot* slot, PyArrayObject* model):
    return _new_large(slot.descr, PyArray_NDIM(model), PyArray_DIMS(model))


cdef inline object _mapped(Slot* slot, PyArrayObject* model):
    """Make the result of an elementwise operation, None where there is no memory for it."""
    return _new_if_any(slot.descr, PyArray_NDIM(model), PyArray_DIMS(model))


cdef inline bint _calls(Slot* slot, char** args, npy_intp size, npy_intp* steps) except -1:
    """Call the loop; False if its result is not to be used."""
    _forget_flags(slot, size)
    if size < LONG:
        slot.loop(args, &size, steps, slot.data)
    else:
        with nogil:
            slot.loop(args, &size, steps, slot.data)
    return _is_clean(slot, size)


cdef inline bint _maps(Slot* slot, char** args, int count, npy_intp size, npy_intp* steps) except -1:
    """Call an elementwise loop as `_calls` does, on many elements in several threads."""
    if size < SHORT or not slot.shares:
        return _calls(slot, args, size, steps)
    cdef Work work
    _describe(&work, slot, args, count, size, steps)
    work.stretch, work.rows = _map_stretch, (size + ROW - 1) // ROW
    if _is_far(size * ((count - 1) * slot.size + slot.size_out), args[count - 1]):
        if _takes_long(&work):
            _map_what_takes_long(&work)
            return _is_clean(slot, size)
        work.stretch = _map_past_caches
    _do(&work, size, &slot.pace[ALIKE])
    return _is_clean(slot, size)


cdef enum:
    STREAMED = 1 << 25  # bytes read and written beyond which results are in no cache anyway
    LINE = 64  # bytes of a cache's line
    FETCHED = 4096  # bytes that are fetched while as many are computed with
    PIECE = 128  # elements that are computed while as many that follow are fetched
    BURST = 2048  # bytes that are written then at a time


cdef inline bint _is_far(npy_intp bytes, char* into) noexcept:
    """Say whether a result is written past the caches: so many bytes are read and written."""
    return COREPY_STREAMS and bytes > STREAMED and <uintptr_t>into % LINE == 0


cdef void _map_past_caches(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """As `_map_stretch`, into little memory: what is written to that is in no cache is read first."""
    cdef double some[2 * ROW]  # of items of 16 bytes at the most
    cdef char* operands[4]
    cdef npy_intp first = start * ROW, end = min(work.size, stop * <npy_intp>ROW)
    cdef npy_intp most = _fetched_at_once(work), size
    while first < end:
        size = min(most, end - first)
        _place_operands(work, first, operands)
        operands[work.count - 1] = <char*>some
        work.loop(operands, &size, work.steps, work.data)
        _put_past_caches(work, first, most, <char*>some, size)
        first += size
    corepy_streamed()


cdef inline npy_intp _fetched_at_once(Work* work) noexcept nogil:
    """Return how many elements are fetched while as many are computed: a multiple of a line.

    They take an eighth of the smallest first cache, so that rows of several operands that begin at
    the same places of pages do not drive each other out of it. On a Zen 4 the sum of 10,000,000
    float64 took one thread 9.2 ms by rows of 1,024 and 5.7 by rows of 256, and two 6.1 and 5.0.
    """
    cdef npy_intp bytes = 0
    cdef int i
    for i in range(work.count - 1):
        bytes += work.steps[i]
    return max(<npy_intp>LINE, min(<npy_intp>ROW, FETCHED // max(bytes, 1) // LINE * LINE))


#: Seconds for a byte from which on what a loop computes takes about as long as memory does. On a
#: Xeon with two threads 10,000,000 float32 took `exp` 4.4 ms one after the other and 3.2 at once,
#: but `negative` 2.3 and 3.1: there what matters is that memory is read and written by turns.
cdef double _LONG_EFFORT = 2.5e-11


cdef bint _takes_long(Work* work) noexcept:
    """Say whether a loop leaves memory enough time to fetch what follows; measured once."""
    cdef double some[2 * ROW]
    cdef char* operands[4]
    cdef npy_intp size = ROW, bytes = 0
    cdef double start, least = 1.0
    cdef Slot* slot = work.slot
    cdef int i
    if slot.effort == 0:
        for i in range(work.count):
            bytes += size * work.steps[i]
        _place_operands(work, 0, operands)
        operands[work.count - 1] = <char*>some
        for i in range(4):  # the first time from memory
            start = corepy_now()
            work.loop(operands, &size, work.steps, work.data)
            least = min(least, corepy_now() - start)
        slot.effort = max(least / bytes, 1e-15)
    return slot.effort > _LONG_EFFORT


cdef enum:
    TRIALS = 4  # of both ways, in turns: the first one of each may be into memory that is new

#: What is left, after each time, of what the other way once took: one that takes a quarter longer is
#: tried again after twenty times.
cdef double _HOPE = 0.99


cdef int _map_what_takes_long(Work* work) except -1:
    """Do work whose result is in no cache, by a loop that takes long, as took least time so far.

    What takes much longer than memory loses by the copy and by short pieces what it gains by the
    fetching, and how long memory takes is the machine's: on a Zen 4 `tan` of 10,000,000 float64
    takes two threads 7.5 ms straight and 11.4 past the caches, `log10` of float32 2.4 and 2.0.
    """
    cdef Slot* slot = work.slot
    cdef int straight = slot.trials % 2 if slot.trials < TRIALS else slot.far[1] < slot.far[0]
    cdef double start = corepy_now(), took
    work.stretch = _map_stretch if straight else _map_and_fetch
    _do(work, work.size, &slot.pace[ALIKE])
    took = (corepy_now() - start) / work.size
    # What each once took is forgotten bit by bit: another process may have been in its way.
    slot.far[straight] = min(1.1 * slot.far[straight], took) if slot.far[straight] else took
    slot.far[1 - straight] *= _HOPE
    slot.trials += slot.trials < TRIALS
    return 0


cdef void _map_and_fetch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """As `_map_past_caches`, for loops that take long: what follows is fetched while they do."""
    cdef double some[2 * ROW]
    cdef char* operands[4]
    cdef npy_intp first = start * ROW, end = min(work.size, stop * <npy_intp>ROW)
    cdef npy_intp most, size, piece, at
    cdef int last = work.count - 1, i
    most = BURST // work.steps[last]
    while first < end:
        size, at = min(most, end - first), 0
        while at < size:
            piece = min(<npy_intp>PIECE, size - at)
            _place_operands(work, first + at, operands)
            operands[last] = <char*>some + at * work.steps[last]
            work.loop(operands, &piece, work.steps, work.data)
            for i in range(last):
                corepy_fetch(operands[i] + most * work.steps[i], piece * work.steps[i])
            at += piece
        corepy_stream(
            work.operands[last] + first * work.steps[last], <char*>some, size * work.steps[last]
        )
        first += size
    corepy_streamed()


cdef inline void _put_past_caches(
    Work* work, npy_intp first, npy_intp following, char* some, npy_intp size
) noexcept nogil:
    """Write results past the caches from an element on, and fetch what those are made of that follow."""
    cdef char* places[4]
    cdef npy_intp sizes[4]
    cdef int last = work.count - 1, i
    cdef char* into = work.operands[last] + first * work.steps[last]
    _place_operands(work, first + following, places)
    for i in range(last):  # what stands beside rows is there already
        sizes[i] = following * work.steps[i] if work.forms[i] == WHOLE_OPERAND else 0
    corepy_stream_and_fetch(into, some, size * work.steps[last], last, places, sizes)


cdef inline void _describe(
    Work* work, Slot* slot, char** args, int count, npy_intp size, npy_intp* steps
) noexcept:
    cdef int i
    memset(work, 0, sizeof(Work))
    work.slot, work.loop, work.data = slot, slot.loop, slot.data
    work.count, work.size = count, size
    for i in range(count):
        work.operands[i], work.steps[i] = args[i], steps[i]


cdef void _map_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp first = start * ROW, size = min(stop * ROW, work.size) - first
    cdef char* operands[4]
    _place_operands(work, first, operands)
    work.loop(operands, &size, work.steps, work.data)


cdef inline void _place_operands(Work* work, npy_intp first, char** into) noexcept nogil:
    """Find where the operands and the result of a loop stand, from an element on."""
    cdef int i
    for i in range(work.count):
        into[i] = work.operands[i] + first * work.steps[i]


cdef inline void _forget_flags(Slot* slot, npy_intp size) noexcept:
    """Lower flags of before, those that `_is_clean` looks at."""
    if size >= SHORT or slot.notes:
        corepy_none_of_all()
    else:
        corepy_no_flags()


cdef inline bint _is_clean(Slot* slot, npy_intp size) except -1:
    """Say whether the result of a loop over so many elements is to be used.

    What the loop met with is told to whom it may concern. Where that is to be an exception, the
    entry computes the result once more and words it.
    """
    if PyErr_Occurred() != NULL:  # as of integers to negative powers; the ufunc raises it again
        PyErr_Clear()
        return False
    if corepy_flags() or (size >= SHORT or slot.notes) and corepy_all_flags():
        return _is_told(slot)
    return True


cdef bint _is_told(Slot* slot) except -1:
    """Say whether nothing more is to be said of the flags that are up."""
    if slot.silent:
        corepy_none_of_all()
        return True
    return slot.told != NULL and _is_told_as(_name_of(slot))


cdef bint _is_told_as(const char* name) except -1:
    """Tell of the flags that are up; False where that is an exception, which the entry words."""
    try:
        _tell(name)
    except Exception as error:
        let_through(error)
        return False
    return True


cdef int _tell(const char* name) except -1:
    """Lower the flags that are up; NumPy warns of them under a name, raises, or does as it is told."""
    cdef int flags = corepy_all_flags()
    corepy_none_of_all()
    return PyUFunc_GiveFloatingpointErrors(
        name,
        (flags & <int>FE_DIVBYZERO != 0)
        | (flags & <int>FE_OVERFLOW != 0) << 1
        | (flags & <int>FE_UNDERFLOW != 0) << 2
        | (flags & <int>FE_INVALID != 0) << 3,
    )


cdef object _short_unary(Slot* slot, PyObject* a):
    """Return the result of the loop, None where the entry has to compute it."""
    if not _is_plain(a):
        return _over_grid(slot, a, NULL, NULL, False)
    held = <object>a  # another thread may put other memory into its Array meanwhile
    cdef PyArrayObject* x = <PyArrayObject*>a
    cdef npy_intp size = _size(x, slot.leasts[ALIKE])
    if size < 0 or (slot.finite and not _all_finite(x, slot.type_num, size)):
        return None
    result = _mapped(slot, x)
    if result is None:
        return None
    cdef char* args[2]
    cdef npy_intp steps[2]
    args[0], args[1] = <char*>PyArray_DATA(x), _data(result)
    steps[0], steps[1] = slot.size, slot.size_out
    return result if _maps(slot, args, 2, size, steps) else None


cdef object _short_binary(Slot* slot, PyObject* a, PyObject* b):
    """Return the result of the loop, None where the entry has to compute it."""
    if not _is_plain(a) or not _is_plain(b):
        return _short_of_parts(slot, a, b) if slot.packs else _over_grid(slot, a, b, NULL, False)
    held, also_held = <object>a, <object>b  # as in `_short_unary`
    cdef PyArrayObject* x = <PyArrayObject*>a
    cdef PyArrayObject* y = <PyArrayObject*>b
    cdef PyArrayObject* model = x
    cdef char* args[3]
    cdef npy_intp steps[3]
    steps[0], steps[1], steps[2] = slot.size, slot.size, slot.size_out
    if not _same_shape(x, y):
        if PyArray_NDIM(y) == 0:
            steps[1] = 0
        elif PyArray_NDIM(x) == 0:
            steps[0] = 0
            model = y
        else:
            return _short_spread(slot, x, y)
    cdef npy_intp size = _size(model, slot.leasts[ALIKE])
    if size < 0:
        return None
    if slot.finite and not (
        _all_finite(x, slot.type_num, size if steps[0] else 1)
        and _all_finite(y, slot.type_num, size if steps[1] else 1)
    ):
        return None
    result = _mapped(slot, model)
    if result is None:
        return None
    args[0], args[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y)
    args[2] = _data(result)
    return result if _maps(slot, args, 3, size, steps) else None


cdef object _short_of_parts(Slot* slot, PyObject* a, PyObject* b):
    """As `_short_binary` of few elements with gaps."""
    held, also_held = <object>a, <object>b  # as in `_side_by_side`
    left, right = _side_by_side(a), _side_by_side(b)
    if left is None or right is None:
        return None
    return _short_binary(slot, <PyObject*>left, <PyObject*>right)


cdef bint _scalar(Slot* slot, value, void* into) except -1:
    """Store a Python scalar as an element; False where it may not fit, or is not plain."""
    cdef double number
    cdef float single
    cdef bint in_single = slot.type_num == NPY_FLOAT or slot.type_num == NPY_CFLOAT
    if type(value) is complex:
        return _complex(slot, value, into)
    if type(value) is bool and slot.type_num == NPY_BOOL:
        (<char*>into)[0] = value is True
        return True
    if type(value) is int and PyTypeNum_ISINTEGER(slot.type_num):
        return _integer(slot, value, into)
    if type(value) is float:
        number = value
    elif type(value) is int:
        try:
            number = value
        except OverflowError:
            return False
        if in_single and not -_large <= number <= _large:  # which would be rounded twice
            return False
    else:
        return False
    if in_single:
        single = <float>number
        if isinf(single) and not isinf(number):
            return False
        (<float*>into)[0] = single
    elif slot.type_num == NPY_DOUBLE or slot.type_num == NPY_CDOUBLE:
        (<double*>into)[0] = number
    else:
        return False
    if slot.type_num == NPY_CFLOAT:
        (<float*>into)[1] = 0
    elif slot.type_num == NPY_CDOUBLE:
        (<double*>into)[1] = 0
    return not slot.finite or isfinite(number)


cdef bint _complex(Slot* slot, value, void* into) except -1:
    """Store a complex number as an element of a complex dtype; False where it does not fit."""
    cdef Py_complex number = PyComplex_AsCComplex(value)
    if slot.type_num == NPY_CDOUBLE:
        (<double*>into)[0], (<double*>into)[1] = number.real, number.imag
        return True
    if slot.type_num != NPY_CFLOAT:
        return False
    if _is_beyond_float(number.real) or _is_beyond_float(number.imag):
        return False
    (<float*>into)[0], (<float*>into)[1] = <float>number.real, <float>number.imag
    return True


cdef inline bint _is_beyond_float(double number) noexcept:
    return fabs(number) > FLT_MAX and not isinf(number)


cdef bint _integer(Slot* slot, value, void* into) except -1:
    """Store an int as an element of an integer dtype; False where it does not fit."""
    cdef int overflow = 0
    cdef long long number = PyLong_AsLongLongAndOverflow(<PyObject*>value, &overflow)
    cdef bint natural = PyTypeNum_ISUNSIGNED(slot.type_num)
    if slot.size == 8:
        if overflow > 0 and natural:
            try:
                (<unsigned long long*>into)[0] = value
            except OverflowError:
                return False
            return True
        if overflow or (natural and number < 0):
            return False
        (<long long*>into)[0] = number
        return True
    cdef long long least = 0 if natural else -(1LL << (8 * slot.size - 1))
    if overflow or not least <= number < least + (1LL << (8 * slot.size)):
        return False
    if slot.size == 4:
        (<int*>into)[0] = <int>number
    elif slot.size == 2:
        (<short*>into)[0] = <short>number
    else:
        (<signed char*>into)[0] = <signed char>number
    return True


cdef object _element(Slot* slot, value):
    """Return a Python scalar as a 0-D array of the operands' dtype, None as `_scalar` has it."""
    cdef long long room[2]
    if not _scalar(slot, value, room):
        return None
    element = _new(slot.operand, 0, NULL)
    memcpy(_data(element), room, slot.size)
    return element


cdef object _short_scalar(Slot* slot, PyObject* a, value, bint first):
    """As `_short_binary`, with a Python scalar as the second operand, or the first one."""
    cdef double element[2]  # room for any
    held = _side_by_side(a) if slot.packs else <object>a
    if not _is_plain(<PyObject*>held):
        if not _scalar(slot, value, element):
            return None
        return _over_grid(slot, <PyObject*>held, NULL, <char*>element, first)
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    cdef npy_intp size = _size(x, slot.leasts[ALIKE])
    if size < 0 or not _scalar(slot, value, element):
        return None
    if slot.finite and not _all_finite(x, slot.type_num, size):
        return None
    result = _mapped(slot, x)
    if result is None:
        return None
    cdef char* args[3]
    cdef npy_intp steps[3]
    args[0], steps[0] = <char*>PyArray_DATA(x), slot.size
    args[1], steps[1] = <char*>element, 0
    if first:
        args[0], args[1] = args[1], args[0]
        steps[0], steps[1] = steps[1], steps[0]
    args[2], steps[2] = _data(result), slot.size_out
    return result if _maps(slot, args, 3, size, steps) else None
