# Where extremes stand, and how many elements are not zero.
# Included by _hot_compiled.pyx.

cdef extern from *:
    """
    typedef npy_intp (*corepy_placer)(const void*, npy_intp);

    /* Where the first extreme of a short row stands, -1 where there is NaN: without a branch, which
       would be guessed wrong a few times in each row. */
    #define COREPY_PLACE(NAME, ITEM, OP) \
        static npy_intp NAME(const void* row, npy_intp size) { \
            const ITEM* x = (const ITEM*)row; \
            ITEM best = x[0]; \
            npy_intp at = 0; \
            int odd = best != best; \
            for (npy_intp i = 1; i < size; i++) { \
                int better = x[i] OP best; \
                odd |= x[i] != x[i]; \
                best = better ? x[i] : best; \
                at = better ? i : at; \
            } \
            return odd ? -1 : at; \
        }
    COREPY_PLACE(corepy_least_double, double, <)
    COREPY_PLACE(corepy_least_float, float, <)
    COREPY_PLACE(corepy_least_int, int32_t, <)
    COREPY_PLACE(corepy_least_long, int64_t, <)
    COREPY_PLACE(corepy_most_double, double, >)
    COREPY_PLACE(corepy_most_float, float, >)
    COREPY_PLACE(corepy_most_int, int32_t, >)
    COREPY_PLACE(corepy_most_long, int64_t, >)

    typedef void (*corepy_counter)(const void*, npy_intp, npy_intp, npy_intp, long long*);

    /* How many elements are not zero along the middle one of three axes. */
    #define COREPY_COUNT(NAME, ITEM) \
        static void NAME( \
            const void* from, npy_intp outer, npy_intp length, npy_intp inner, long long* into \
        ) { \
            const ITEM* x = (const ITEM*)from; \
            for (npy_intp k = 0; k < outer; k++, into += inner) { \
                if (inner == 1) { \
                    long long count = 0; \
                    for (npy_intp j = 0; j < length; j++) count += x[j] != 0; \
                    *into = count; \
                    x += length; \
                    continue; \
                } \
                for (npy_intp i = 0; i < inner; i++) into[i] = 0; \
                for (npy_intp j = 0; j < length; j++, x += inner) { \
                    for (npy_intp i = 0; i < inner; i++) into[i] += x[i] != 0; \
                } \
            } \
        }
    COREPY_COUNT(corepy_count_1, uint8_t)
    COREPY_COUNT(corepy_count_2, uint16_t)
    COREPY_COUNT(corepy_count_4, uint32_t)
    COREPY_COUNT(corepy_count_8, uint64_t)
    COREPY_COUNT(corepy_count_float, float)
    COREPY_COUNT(corepy_count_double, double)
    """
    ctypedef void (*Counter "corepy_counter")(
        const void*, npy_intp, npy_intp, npy_intp, long long*
    ) noexcept nogil
    void corepy_count_1(const void*, npy_intp, npy_intp, npy_intp, long long*) noexcept nogil
    void corepy_count_2(const void*, npy_intp, npy_intp, npy_intp, long long*) noexcept nogil
    void corepy_count_4(const void*, npy_intp, npy_intp, npy_intp, long long*) noexcept nogil
    void corepy_count_8(const void*, npy_intp, npy_intp, npy_intp, long long*) noexcept nogil
    void corepy_count_float(const void*, npy_intp, npy_intp, npy_intp, long long*) noexcept nogil
    void corepy_count_double(const void*, npy_intp, npy_intp, npy_intp, long long*) noexcept nogil
    ctypedef npy_intp (*Placer "corepy_placer")(const void*, npy_intp) noexcept nogil
    npy_intp corepy_least_double(const void*, npy_intp) noexcept nogil
    npy_intp corepy_least_float(const void*, npy_intp) noexcept nogil
    npy_intp corepy_least_int(const void*, npy_intp) noexcept nogil
    npy_intp corepy_least_long(const void*, npy_intp) noexcept nogil
    npy_intp corepy_most_double(const void*, npy_intp) noexcept nogil
    npy_intp corepy_most_float(const void*, npy_intp) noexcept nogil
    npy_intp corepy_most_int(const void*, npy_intp) noexcept nogil
    npy_intp corepy_most_long(const void*, npy_intp) noexcept nogil


cdef inline Placer _placer(Slot* slot) noexcept nogil:
    """Return what finds the extreme of a short row, NULL for dtypes that have no such loop."""
    cdef int type_num = slot.operand.type_num
    cdef bint least = slot.kind == ARGMIN
    if type_num == NPY_DOUBLE:
        return corepy_least_double if least else corepy_most_double
    if type_num == NPY_FLOAT:
        return corepy_least_float if least else corepy_most_float
    if type_num == NPY_INT32:
        return corepy_least_int if least else corepy_most_int
    if type_num == NPY_INT64:
        return corepy_least_long if least else corepy_most_long
    return NULL


cdef object _short_search(Slot* slot, PyArrayObject* x, axis):
    """Return where the extremes stand, or how many elements are not zero."""
    cdef int ndim = PyArray_NDIM(x), place = NPY_RAVEL_AXIS
    cdef npy_intp size = _size(x, _least_of(slot, x, axis))
    if size < 1:
        return None
    if slot.kind == COUNT:
        if axis is not None and ndim > 1:
            return _counted_along(slot, x, axis, size)
        if axis is not None and _axis_of(<PyObject*>axis, ndim, 0) < 0:
            return None
        result = _new(slot.descr, 0, NULL)
        _count_held(slot, x, size, _data(result))
        return result
    if axis is not None:
        if type(axis) is not int or not -ndim <= axis < ndim:
            return None
        place = axis
    if axis is None or ndim == 1:
        if size >= 2 * CHUNK and _placer(slot) != NULL:
            return _found_in_chunks(slot, x, size)
    elif size >= LONG and place in (-1, ndim - 1) and _placer(slot) != NULL:
        return _found_in_rows(slot, x, size)
    result = PyArray_ArgMax(x, place, NULL) if slot.kind == ARGMAX else PyArray_ArgMin(x, place, NULL)
    return result if _is_plain(<PyObject*>result) else None


cdef object _counted_along(Slot* slot, PyArrayObject* x, axis, npy_intp size):
    """Count along an axis how many of few elements are not zero; None where the entry has to."""
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef npy_intp outer = 1, inner = 1
    cdef int ndim = PyArray_NDIM(x), place = _axis_of(<PyObject*>axis, ndim, 0), i, count = 0
    if place < 0 or ndim > MOST_DIMENSIONS or size >= SHORT:
        return None
    cdef Counter counts = _counter(slot.operand.type_num, slot.size)
    if counts == NULL:
        return None
    for i in range(ndim):
        if i != place:
            shape[count] = PyArray_DIMS(x)[i]
            count += 1
        if i < place:
            outer *= PyArray_DIMS(x)[i]
        elif i > place:
            inner *= PyArray_DIMS(x)[i]
    result = _new(slot.descr, count, shape)
    counts(
        PyArray_DATA(x),
        outer,
        PyArray_DIMS(x)[place],
        inner,
        <long long*>PyArray_DATA(<PyArrayObject*>result),
    )
    return result


cdef inline Counter _counter(int type_num, npy_intp size) noexcept:
    """Return what counts elements of a dtype, NULL for a complex one."""
    if type_num == NPY_DOUBLE:
        return corepy_count_double
    if type_num == NPY_FLOAT:
        return corepy_count_float
    if _is_complex(type_num):
        return NULL
    if size == 8:
        return corepy_count_8
    if size == 4:
        return corepy_count_4
    return corepy_count_2 if size == 2 else corepy_count_1


cdef object _found_in_chunks(Slot* slot, PyArrayObject* x, npy_intp size):
    """Return where the first extreme of many elements stands, or the first NaN."""
    cdef npy_intp count = (size + CHUNK - 1) // CHUNK, i, best
    cdef npy_intp* places = <npy_intp*>PyMem_Malloc(count * sizeof(npy_intp))
    if places == NULL:
        raise MemoryError
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.rows, work.size, work.slot = _search_stretch, count, size, slot
    work.operands[0], work.operands[1] = <char*>PyArray_DATA(x), <char*>places
    work.operands[2] = <char*>x
    try:
        _do(&work, size, &slot.pace[ALL])
        best = places[0]
        for i in range(1, count):
            if _exceeds(slot, work.operands[0], places[i], best):
                best = places[i]
    finally:
        PyMem_Free(places)
    result = _new(slot.descr, 0, NULL)
    (<npy_intp*>_data(result))[0] = best
    return result


cdef inline ArgFunc _finder(Slot* slot) noexcept nogil:
    """Return what finds the extreme of a long row: NumPy's own."""
    if slot.kind == ARGMIN:
        return PyDataType_GetArrFuncs(slot.operand).argmin
    return PyDataType_GetArrFuncs(slot.operand).argmax


cdef void _search_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef npy_intp* places = <npy_intp*>work.operands[1]
    cdef npy_intp chunk, first
    cdef ArgFunc find = _finder(slot)
    for chunk in range(start, stop):
        first = chunk * CHUNK
        find(
            work.operands[0] + first * slot.size,
            min(<npy_intp>CHUNK, work.size - first),
            &places[chunk],
            work.operands[2],
        )
        places[chunk] += first


cdef object _found_in_rows(Slot* slot, PyArrayObject* x, npy_intp size):
    """Return where the first extreme of each row stands, or its first NaN."""
    cdef int count = PyArray_NDIM(x) - 1
    result = _new_large(slot.descr, count, PyArray_DIMS(x))
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.slot, work.length = _rows_search_stretch, slot, PyArray_DIMS(x)[count]
    work.rows = size // work.length
    work.operands[0] = <char*>PyArray_DATA(x)
    work.operands[1] = _data(result)
    work.operands[2] = <char*>x
    _do(&work, size, &slot.pace[ROWS])
    return result


cdef void _rows_search_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef npy_intp* places = <npy_intp*>work.operands[1]
    cdef npy_intp row, length = work.length, place
    cdef Placer place_in = _placer(slot)
    cdef ArgFunc find = _finder(slot)
    cdef char* source
    for row in range(start, stop):
        source = work.operands[0] + row * length * slot.size
        place = place_in(source, length) if length <= FEW else -1
        if place < 0:
            find(source, length, &place, work.operands[2])
        places[row] = place


ctypedef fused Ordered:
    int
    long long
    float
    double


cdef inline bint _is_beyond(Ordered x, Ordered y, bint least) noexcept:
    """Say whether a later element takes the place of an extreme, or is the first NaN."""
    if Ordered is float or Ordered is double:
        if y != y:
            return False
        if x != x:
            return True
    return x < y if least else x > y


cdef inline bint _exceeds(Slot* slot, char* data, npy_intp later, npy_intp best) noexcept:
    cdef int type_num = slot.operand.type_num
    cdef bint least = slot.kind == ARGMIN
    if type_num == NPY_DOUBLE:
        return _is_beyond((<double*>data)[later], (<double*>data)[best], least)
    if type_num == NPY_FLOAT:
        return _is_beyond((<float*>data)[later], (<float*>data)[best], least)
    if type_num == NPY_INT32:
        return _is_beyond((<int*>data)[later], (<int*>data)[best], least)
    return _is_beyond((<long long*>data)[later], (<long long*>data)[best], least)


cdef inline int _count_held(Slot* slot, PyArrayObject* x, npy_intp size, char* into) except -1:
    """Count the elements of a contiguous array that are not zero."""
    if not _has_row_loop(slot, size, size):
        _put(slot.descr.type_num, into, <double>PyArray_CountNonzero(x))
    else:
        _reduces(slot, into, <char*>PyArray_DATA(x), 1, size, False, 0, size)
    return 0
