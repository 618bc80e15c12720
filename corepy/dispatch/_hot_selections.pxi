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

    enum { COREPY_BESIDE = 1024 };  /* columns of which what was found is kept beside each other */

    /* And where the first extreme of each column stands, or its first NaN: as `ColumnLoop` says. */
    #define COREPY_PLACE_COLUMNS(NAME, ITEM, PLACE, OP, TARGET) \
        TARGET static int NAME( \
            void* into, const void* from, npy_intp rows, npy_intp step, npy_intp columns \
        ) { \
            for (npy_intp first = 0; first < columns; first += COREPY_BESIDE) { \
                const npy_intp some = \
                    columns - first < COREPY_BESIDE ? columns - first : COREPY_BESIDE; \
                const ITEM* x = (const ITEM*)from + first; \
                int64_t* y = (int64_t*)into + first; \
                ITEM best[COREPY_BESIDE + 64];  /* not as far from what follows as pages are */ \
                PLACE at[COREPY_BESIDE + 64]; \
                for (npy_intp i = 0; i < some; i++) best[i] = x[i], at[i] = 0; \
                for (npy_intp row = 1; row < rows; row++) { \
                    x += step; \
                    for (npy_intp i = 0; i < some; i++) { \
                        const int better = (x[i] OP best[i]) | ((x[i] != x[i]) & (best[i] == best[i])); \
                        best[i] = better ? x[i] : best[i]; \
                        at[i] = better ? (PLACE)row : at[i]; \
                    } \
                } \
                for (npy_intp i = 0; i < some; i++) y[i] = at[i]; \
            } \
            corepy_no_flags();  /* of comparisons with NaN */ \
            return 0; \
        }
    #define COREPY_PLACES_OF_COLUMNS(WIDE, TARGET) \
        COREPY_PLACE_COLUMNS(corepy_least_doubles##WIDE, double, int64_t, <, TARGET) \
        COREPY_PLACE_COLUMNS(corepy_least_floats##WIDE, float, int32_t, <, TARGET) \
        COREPY_PLACE_COLUMNS(corepy_least_ints##WIDE, int32_t, int32_t, <, TARGET) \
        COREPY_PLACE_COLUMNS(corepy_least_longs##WIDE, int64_t, int64_t, <, TARGET) \
        COREPY_PLACE_COLUMNS(corepy_most_doubles##WIDE, double, int64_t, >, TARGET) \
        COREPY_PLACE_COLUMNS(corepy_most_floats##WIDE, float, int32_t, >, TARGET) \
        COREPY_PLACE_COLUMNS(corepy_most_ints##WIDE, int32_t, int32_t, >, TARGET) \
        COREPY_PLACE_COLUMNS(corepy_most_longs##WIDE, int64_t, int64_t, >, TARGET)
    static int corepy_widely = 1;  /* whether loops that are chosen fill the widest registers */
    COREPY_PLACES_OF_COLUMNS(,)
    #ifdef COREPY_VARIANTS
    COREPY_PLACES_OF_COLUMNS(_wide, COREPY_AVX2)
    #define COREPY_EITHER(NAME) (corepy_widely && corepy_fills(32) ? NAME##_wide : NAME)
    #else
    #define COREPY_EITHER(NAME) (NAME)
    #endif

    typedef int (*corepy_columns)(void*, const void*, npy_intp, npy_intp, npy_intp);

    static corepy_columns corepy_places_of(int type_num, int least) {
        if (type_num == NPY_DOUBLE) return least
            ? COREPY_EITHER(corepy_least_doubles) : COREPY_EITHER(corepy_most_doubles);
        if (type_num == NPY_FLOAT) return least
            ? COREPY_EITHER(corepy_least_floats) : COREPY_EITHER(corepy_most_floats);
        if (type_num == NPY_INT32) return least
            ? COREPY_EITHER(corepy_least_ints) : COREPY_EITHER(corepy_most_ints);
        if (type_num == NPY_INT64) return least
            ? COREPY_EITHER(corepy_least_longs) : COREPY_EITHER(corepy_most_longs);
        return NULL;
    }

    /* How many elements of a row are not zero, and how many of each column, which are added up in
       numbers as small as elements as long as these hold them. */
    #define COREPY_COUNT(NAME, ITEM, COUNT, MOST) \
        static npy_intp NAME(const void* from, npy_intp size) { \
            const ITEM* x = (const ITEM*)from; \
            npy_intp total = 0; \
            while (size > 0) { \
                const npy_intp some = size < 128 ? size : 128; \
                COUNT count = 0; \
                for (npy_intp i = 0; i < some; i++) count += x[i] != 0; \
                total += (npy_intp)count; \
                x += some; \
                size -= some; \
            } \
            return total; \
        } \
        static int NAME##_columns( \
            void* into, const void* from, npy_intp rows, npy_intp step, npy_intp columns \
        ) { \
            for (npy_intp first = 0; first < columns; first += COREPY_BESIDE) { \
                const npy_intp some = \
                    columns - first < COREPY_BESIDE ? columns - first : COREPY_BESIDE; \
                const ITEM* x = (const ITEM*)from + first; \
                int64_t* y = (int64_t*)into + first; \
                for (npy_intp i = 0; i < some; i++) y[i] = 0; \
                for (npy_intp row = 0; row < rows;) { \
                    const npy_intp end = rows - row < MOST ? rows : row + MOST; \
                    COUNT counts[COREPY_BESIDE]; \
                    for (npy_intp i = 0; i < some; i++) counts[i] = 0; \
                    for (; row + 4 <= end; row += 4, x += 4 * step) { \
                        for (npy_intp i = 0; i < some; i++) { \
                            counts[i] += (COUNT)(x[i] != 0) + (COUNT)(x[i + step] != 0) \
                                + (COUNT)(x[i + 2 * step] != 0) + (COUNT)(x[i + 3 * step] != 0); \
                        } \
                    } \
                    for (; row < end; row++, x += step) { \
                        for (npy_intp i = 0; i < some; i++) counts[i] += x[i] != 0; \
                    } \
                    for (npy_intp i = 0; i < some; i++) y[i] += (int64_t)counts[i]; \
                } \
            } \
            return 0; \
        }
    COREPY_COUNT(corepy_count_1, uint8_t, uint8_t, 255)
    COREPY_COUNT(corepy_count_2, uint16_t, uint16_t, 65535)
    COREPY_COUNT(corepy_count_4, uint32_t, uint32_t, INT32_MAX)
    COREPY_COUNT(corepy_count_8, uint64_t, uint64_t, INT32_MAX)
    COREPY_COUNT(corepy_count_float, float, uint32_t, INT32_MAX)
    COREPY_COUNT(corepy_count_double, double, uint64_t, INT32_MAX)

    typedef npy_intp (*corepy_counter)(const void*, npy_intp);
    static corepy_counter corepy_counter_of(int type_num, npy_intp size) {
        if (type_num == NPY_DOUBLE) return corepy_count_double;
        if (type_num == NPY_FLOAT) return corepy_count_float;
        return size == 8 ? corepy_count_8
            : size == 4 ? corepy_count_4 : size == 2 ? corepy_count_2 : corepy_count_1;
    }
    static corepy_columns corepy_counts_of(int type_num, npy_intp size) {
        if (type_num == NPY_DOUBLE) return corepy_count_double_columns;
        if (type_num == NPY_FLOAT) return corepy_count_float_columns;
        return size == 8 ? corepy_count_8_columns
            : size == 4 ? corepy_count_4_columns
            : size == 2 ? corepy_count_2_columns : corepy_count_1_columns;
    }
    """
    ctypedef npy_intp (*Counter "corepy_counter")(const void*, npy_intp) noexcept nogil
    ColumnLoop corepy_places_of(int, bint) noexcept nogil
    Counter corepy_counter_of(int, npy_intp) noexcept nogil
    ColumnLoop corepy_counts_of(int, npy_intp) noexcept nogil
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


cdef ColumnLoop _seeker(Slot* slot) noexcept:
    """Return what places extremes or counts elements along columns, NULL where there is nothing."""
    cdef int type_num = slot.operand.type_num
    if slot.kind == COUNT:
        return NULL if _is_complex(type_num) else corepy_counts_of(type_num, slot.size)
    return corepy_places_of(type_num, slot.kind == ARGMIN)


cdef object _short_search(Slot* slot, PyArrayObject* x, int first, int last, bint gaps):
    """Return where the extremes along an axis, or all, stand, or how many elements are not zero."""
    cdef int ndim = PyArray_NDIM(x), i
    cdef bint whole = last - first == ndim, columns = False
    cdef npy_intp size
    for i in range(last, ndim):
        columns = columns or PyArray_DIMS(x)[i] > 1
    size = _size(x, _least_of(slot, x, first, last))
    # Loops over elements of 4 bytes keep places in as many.
    if not whole and slot.kind != COUNT and slot.size == 4 and PyArray_DIMS(x)[first] > INT32_MAX:
        return None
    if not whole and slot.column_loop != NULL and (columns or size >= LONG or gaps or slot.kind == COUNT):
        return _reduced_along(slot, x, first, last, gaps, 0)
    if gaps:
        return _reduced_over_grid(slot, x) if whole and slot.kind == COUNT else None
    if size < 1 or not whole and slot.kind == COUNT:
        return None
    if slot.kind == COUNT:
        result = _new(slot.descr, 0, NULL)
        _count_held(slot, x, size, _data(result))
        return result
    if whole and size >= 2 * CHUNK and _placer(slot) != NULL:
        return _found_in_chunks(slot, x, size)
    if whole and size < LONG:
        result = _new(slot.descr, 0, NULL)
        _finder(slot)(PyArray_DATA(x), size, <npy_intp*>_data(result), x)
        return result
    if whole:
        first = NPY_RAVEL_AXIS
    result = PyArray_ArgMax(x, first, NULL) if slot.kind == ARGMAX else PyArray_ArgMin(x, first, NULL)
    return result if _is_plain(<PyObject*>result) else None


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


cdef void _searched_rows_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Find where the first extreme of each row stands, or its first NaN."""
    cdef npy_intp* places = <npy_intp*>work.operands[0]
    cdef npy_intp row, length = work.length, place
    cdef Placer place_in = _placer(work.slot)
    cdef ArgFunc find = _finder(work.slot)
    cdef char* source
    for row in range(start, stop):
        source = _row_at(work, row)
        place = place_in(source, length) if length <= FEW else -1
        if place < 0:
            find(source, length, &place, NULL)
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
    cdef Rows row
    if not _has_row_loop(slot, size, size):
        _put(slot.descr.type_num, into, <double>PyArray_CountNonzero(x))
        return 0
    memset(&row, 0, sizeof(Rows))
    row.results = row.blocks = 1
    row.length = size
    _reduces(slot, into, <char*>PyArray_DATA(x), &row, size)
    return 0


cdef void _counted_rows_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Counter count = corepy_counter_of(work.slot.operand.type_num, work.slot.size)
    cdef npy_intp row
    for row in range(start, stop):
        (<long long*>work.operands[0])[row] = count(_row_at(work, row), work.length)
