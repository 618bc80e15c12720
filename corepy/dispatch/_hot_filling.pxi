# What new arrays are filled with: one element, or what follows evenly; many in several threads.
# Included by _hot_compiled.pyx.

cdef extern from *:
    """
    enum { COREPY_AT_A_TIME = 256 };

    /* Whole numbers that all types hold, from one on. Not sixteen next to each other in an array of
       their own: for AVX2 GCC 12 compiles that wrongly with -O3. */
    #define COREPY_NUMBERS(NAME, ITEM, TARGET) \
        TARGET static void NAME(void* into, ITEM start, ITEM step, npy_intp size) { \
            ITEM* y = (ITEM*)into; \
            for (npy_intp i = 0; i < size; i++, start = (ITEM)(start + step)) y[i] = start; \
        }
    /* Of floats each by itself: a sum of two takes longer than the next one may wait. */
    #define COREPY_FLOATS(NAME, ITEM, TARGET) \
        TARGET static void NAME(void* into, ITEM start, ITEM step, npy_intp size) { \
            ITEM* y = (ITEM*)into; \
            while (size > 0) { \
                const int some = size < COREPY_AT_A_TIME ? (int)size : COREPY_AT_A_TIME; \
                for (int i = 0; i < some; i++) y[i] = start + (ITEM)i * step; \
                start += COREPY_AT_A_TIME * step, y += some, size -= some; \
            } \
        }

    /* What follows a start in steps, or in parts of a length. It is added in a loop of its own, as
       NumPy does: in one expression some processors round once for both. */
    #define COREPY_PACE(NAME, ITEM, TARGET) \
        TARGET static void NAME( \
            void* into, double first, double start, double step, double parts, npy_intp size \
        ) { \
            double beyond[COREPY_AT_A_TIME]; \
            ITEM* y = (ITEM*)into; \
            while (size > 0) { \
                const int some = size < COREPY_AT_A_TIME ? (int)size : COREPY_AT_A_TIME; \
                if (parts) { \
                    for (int i = 0; i < some; i++) beyond[i] = (first + (double)i) / parts * step; \
                } else { \
                    for (int i = 0; i < some; i++) beyond[i] = (first + (double)i) * step; \
                } \
                for (int i = 0; i < some; i++) y[i] = (ITEM)(beyond[i] + start); \
                first += some, y += some, size -= some; \
            } \
        }
    #define COREPY_SEQUENCES(WIDE, TARGET) \
        COREPY_FLOATS(corepy_number_double##WIDE, double, TARGET) \
        COREPY_FLOATS(corepy_number_float##WIDE, float, TARGET) \
        COREPY_NUMBERS(corepy_number_64##WIDE, uint64_t, TARGET) \
        COREPY_NUMBERS(corepy_number_32##WIDE, uint32_t, TARGET) \
        COREPY_NUMBERS(corepy_number_16##WIDE, uint16_t, TARGET) \
        COREPY_NUMBERS(corepy_number_8##WIDE, uint8_t, TARGET) \
        COREPY_PACE(corepy_pace_double##WIDE, double, TARGET) \
        COREPY_PACE(corepy_pace_float##WIDE, float, TARGET)
    COREPY_SEQUENCES(,)
    #ifdef COREPY_VARIANTS
    COREPY_SEQUENCES(_wide, COREPY_AVX2)
    #endif

    /* Integers, signed or not, are counted in as many bits. */
    static inline void corepy_number(
        int type_num, npy_intp item, double start, double step, void* into, npy_intp size
    ) {
        const uint64_t first = (uint64_t)(int64_t)start, jump = (uint64_t)(int64_t)step;
        if (type_num == NPY_DOUBLE) COREPY_EITHER(corepy_number_double)(into, start, step, size);
        else if (type_num == NPY_FLOAT)
            COREPY_EITHER(corepy_number_float)(into, (float)start, (float)step, size);
        else if (item == 8) COREPY_EITHER(corepy_number_64)(into, first, jump, size);
        else if (item == 4)
            COREPY_EITHER(corepy_number_32)(into, (uint32_t)first, (uint32_t)jump, size);
        else if (item == 2)
            COREPY_EITHER(corepy_number_16)(into, (uint16_t)first, (uint16_t)jump, size);
        else COREPY_EITHER(corepy_number_8)(into, (uint8_t)first, (uint8_t)jump, size);
    }

    static inline void corepy_pace(
        int type_num, double first, double start, double step, double parts, void* into,
        npy_intp size
    ) {
        if (type_num == NPY_FLOAT)
            COREPY_EITHER(corepy_pace_float)(into, first, start, step, parts, size);
        else COREPY_EITHER(corepy_pace_double)(into, first, start, step, parts, size);
    }
    """
    void corepy_number(int, npy_intp, double, double, void*, npy_intp) noexcept nogil
    void corepy_pace(int, double, double, double, double, void*, npy_intp) noexcept nogil

cdef enum:
    STRETCH = 256  # elements that are computed at a time, where that takes more than one loop

#: Makes so many elements from one on.
ctypedef void (*Maker)(Making*, npy_intp, npy_intp, char*) noexcept nogil

cdef struct Making:
    Maker make
    char* element  # where it is the same everywhere
    double start
    double step
    double parts  # of such a step, which is the whole length then; 0 for steps as they are
    npy_intp item  # bytes of an element
    int type_num

cdef double _making = 0.0, _repeating = 0.0  # seconds that a byte takes


cdef object _made(Making* making, Slot* slot, int ndim, npy_intp* dims, double* pace):
    """Make an array, of many elements in several threads."""
    cdef Work work
    making.item, making.type_num = slot.size, slot.type_num
    made = _new_large(slot.descr, ndim, dims)
    cdef char* into = _data(made)
    cdef npy_intp size = _size(<PyArrayObject*>made, PY_SSIZE_T_MAX)
    if size < LONG:
        making.make(making, 0, size, into)
        return made
    memset(&work, 0, sizeof(Work))
    work.stretch, work.rows, work.size = _make_stretch, (size + ROW - 1) // ROW, size
    if _is_far(size * slot.size, into):
        work.stretch = _make_past_caches
    work.operands[0], work.operands[1] = <char*>making, into
    _do(&work, size * slot.size, pace)
    return made


cdef void _make_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Making* making = <Making*>work.operands[0]
    cdef npy_intp first = start * ROW, end = min(work.size, stop * <npy_intp>ROW)
    making.make(making, first, end - first, work.operands[1] + first * making.item)


cdef void _make_past_caches(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """As `_make_stretch`, into little memory first: see `_map_past_caches`."""
    cdef double some[2 * STRETCH]  # of items of 16 bytes at the most
    cdef Making* making = <Making*>work.operands[0]
    cdef npy_intp first = start * ROW, end = min(work.size, stop * <npy_intp>ROW), count
    while first < end:
        count = min(<npy_intp>STRETCH, end - first)
        making.make(making, first, count, <char*>some)
        corepy_stream(work.operands[1] + first * making.item, <char*>some, count * making.item)
        first += count
    corepy_streamed()


cdef object _filled(Slot* slot, int ndim, npy_intp* dims, void* element):
    """Make an array of one element."""
    cdef Making making
    making.make, making.element = _repeat, <char*>element
    return _made(&making, slot, ndim, dims, &_repeating)


cdef void _repeat(Making* making, npy_intp first, npy_intp count, char* into) noexcept nogil:
    _fill(into, count, making.item, making.element)


cdef inline void _fill(
    char* into, npy_intp count, npy_intp size, void* element
) noexcept nogil:
    """Put an element everywhere: into the first few, and then these after themselves."""
    cdef npy_intp i, first = min(count, 512)
    cdef npy_intp part = first * size, done = part, total = count * size
    cdef long long eight
    cdef long long sixteen[2]
    cdef int four
    if size == 1:
        memset(into, (<unsigned char*>element)[0], count)
        return
    if size == 8:
        memcpy(&eight, element, 8)
        for i in range(first):
            (<long long*>into)[i] = eight
    elif size == 16:
        memcpy(sixteen, element, 16)
        for i in range(first):
            memcpy(into + i * 16, sixteen, 16)
    elif size == 4:
        memcpy(&four, element, 4)
        for i in range(first):
            (<int*>into)[i] = four
    else:
        for i in range(first):
            memcpy(into + i * size, element, size)
    while done < total:  # in steps that registers are wide enough for, whatever an element is
        memcpy(into + done, into, min(part, total - done))
        done += part


cdef object _counted(Slot* slot, double start, double step, npy_intp size):
    """Make a range of whole numbers, which all dtypes hold and add exactly."""
    cdef Making making
    making.make, making.start, making.step = _count, start, step
    return _made(&making, slot, 1, &size, &_making)


cdef void _count(Making* making, npy_intp first, npy_intp count, char* into) noexcept nogil:
    cdef double start = making.start + first * making.step
    corepy_number(making.type_num, making.item, start, making.step, into, count)


cdef object _paced(Slot* slot, double start, double step, double parts, npy_intp size):
    """Make a range of floats of which each is computed by itself.

    It takes steps, or parts of one step if `parts` is not 0.
    """
    cdef Making making
    making.make, making.start, making.step, making.parts = _pace, start, step, parts
    return _made(&making, slot, 1, &size, &_making)


cdef void _pace(Making* making, npy_intp first, npy_intp count, char* into) noexcept nogil:
    corepy_pace(
        making.type_num, <double>first, making.start, making.step, making.parts, into, count
    )
