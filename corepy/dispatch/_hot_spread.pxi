# Elementwise operations on two arrays of which one stands beside each row of the other, or both do.
# Included by _hot_compiled.pyx.
#
# NumPy calls its loop for each row. Of short ones that takes longer than the loop itself: here what
# stands beside them is written out for some rows at a time, into little memory, and the loop runs on
# all of these at once. Long rows are taken as they are.

cdef extern from *:
    """
    /* Eight bytes that lie as NumPy calls aligned: two floats, a complex number, as one of these does. */
    #if defined(__GNUC__)
    typedef uint64_t corepy_item_of_8 __attribute__((aligned(4)));
    #else
    typedef uint64_t corepy_item_of_8;
    #endif

    /* Write each of some values so many times, and a few times more behind the last one. */
    #define COREPY_REPEAT(NAME, ITEM) \\
        static void NAME(ITEM* into, const ITEM* from, ptrdiff_t count, ptrdiff_t times) { \\
            enum { TOGETHER = 16 / sizeof(ITEM) }; \\
            for (ptrdiff_t i = 0; i < count; i++, into += times) { \\
                for (ptrdiff_t j = 0; j < times; j += TOGETHER) { \\
                    for (int k = 0; k < TOGETHER; k++) into[j + k] = from[i]; \\
                } \\
            } \\
        }
    COREPY_REPEAT(corepy_repeat_1, uint8_t)
    COREPY_REPEAT(corepy_repeat_4, uint32_t)
    COREPY_REPEAT(corepy_repeat_8, corepy_item_of_8)

    /* As these for items of some size; 0 where there is none for it. */
    static inline int corepy_repeat(
        void* into, const void* from, ptrdiff_t count, ptrdiff_t times, ptrdiff_t size
    ) {
        if (size == 8) corepy_repeat_8(into, from, count, times);
        else if (size == 4) corepy_repeat_4((uint32_t*)into, (const uint32_t*)from, count, times);
        else if (size == 1) corepy_repeat_1((uint8_t*)into, (const uint8_t*)from, count, times);
        else return 0;
        return 1;
    }
    """
    bint corepy_repeat(void*, const void*, npy_intp, npy_intp, npy_intp) noexcept nogil


cdef enum:
    WRITTEN_OUT = 64  # elements of a row below which what stands beside it is written out


cdef bint _broadcast(PyArrayObject* x, int* ndim, npy_intp* shape) noexcept:
    """Give a shape what an array beside it has more; False where they do not fit, or are too many."""
    cdef int of_x = PyArray_NDIM(x), more = of_x - ndim[0], i
    cdef npy_intp own, found
    if of_x > MOST_DIMENSIONS:
        return False
    if more > 0:
        for i in range(of_x - 1, -1, -1):
            shape[i] = shape[i - more] if i >= more else 1
        ndim[0] = of_x
    for i in range(1, of_x + 1):
        own, found = PyArray_DIMS(x)[of_x - i], shape[ndim[0] - i]
        if own != found and own != 1:
            if found != 1:
                return False
            shape[ndim[0] - i] = own
    return True


cdef inline bint _shape_of_both(
    PyArrayObject* x, PyArrayObject* y, int* ndim, npy_intp* shape
) noexcept:
    """Find the shape of two arrays beside each other; False where they do not fit, or are too many."""
    ndim[0] = 0
    return _broadcast(x, ndim, shape) and _broadcast(y, ndim, shape)


cdef int _stands(PyArrayObject* x, int ndim, npy_intp* shape, int* split) noexcept:
    """Return how an operand stands beside a result, and before which dimension rows begin; -1 if else."""
    cdef int more = ndim - PyArray_NDIM(x), i, first = ndim, last = -1
    for i in range(ndim):
        if shape[i] != 1 and (i < more or PyArray_DIMS(x)[i - more] == 1):
            first, last = min(first, i), i
    if last < 0:
        return WHOLE_OPERAND
    # Where it is repeated, and only there, it has one element: in the first dimensions, or the last.
    split[0] = last + 1
    for i in range(more, last + 1):
        if PyArray_DIMS(x)[i - more] != 1:
            break
    else:
        return ROW_OPERAND if last + 1 < ndim else -1
    split[0] = first
    for i in range(first, ndim):
        if i >= more and PyArray_DIMS(x)[i - more] != 1:
            return -1
    return COLUMN_OPERAND


cdef npy_intp _lay_out(
    Slot* slot, PyArrayObject* x, PyArrayObject* y, int* ndim, npy_intp* shape, Work* work
) noexcept:
    """Say how two operands stand beside a result, and how many elements that has; -1 where else."""
    cdef npy_intp size = 1, length = 1
    cdef int i, split = 0, other = 0
    if slot.finite or not _shape_of_both(x, y, ndim, shape):
        return -1
    memset(work, 0, sizeof(Work))
    work.forms[0] = _stands(x, ndim[0], shape, &split)
    work.forms[1] = _stands(y, ndim[0], shape, &other)
    if work.forms[0] < 0 or work.forms[1] < 0:
        return -1
    if work.forms[0] == WHOLE_OPERAND:
        split = other
    elif work.forms[1] != WHOLE_OPERAND and split != other:
        return -1
    for i in range(ndim[0]):
        if shape[i] and size > slot.leasts[SPREAD] // shape[i]:
            return -1
        size *= shape[i]
        if i >= split:
            length *= shape[i]
    if size >= slot.leasts[SPREAD]:
        return -1
    work.slot, work.loop, work.data, work.count = slot, slot.loop, slot.data, 3
    work.operands[0], work.operands[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y)
    work.steps[0] = work.steps[1] = slot.size
    work.steps[2] = slot.size_out
    work.size, work.length = size, length
    return size


cdef object _short_spread(Slot* slot, PyArrayObject* x, PyArrayObject* y):
    """As `_short_binary`, for arrays of which at least one stands beside the rows of the result."""
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef int ndim = 0
    cdef Work work
    cdef npy_intp size = _lay_out(slot, x, y, &ndim, shape, &work)
    if size < 0:
        return _over_grid(slot, <PyObject*>x, <PyObject*>y, NULL, False)
    held, also_held = <object><PyObject*>x, <object><PyObject*>y
    result = _new_if_any(slot.descr, ndim, shape)
    if result is None or size == 0:
        return result
    work.operands[2] = _data(result)
    if not _plan_rows(&work):
        return None
    return result if _runs(&work, size) else None


cdef bint _runs(Work* work, npy_intp size) except -1:
    """Do what is planned, by several threads where there are many elements; False as in `_calls`."""
    cdef Slot* slot = work.slot
    if size >= SHORT and slot.shares:
        _do(work, size, &slot.pace[SPREAD])
        return _is_clean(slot, size)
    _forget_flags(slot, size)
    if size < LONG:
        work.stretch(work, 0, work.rows)
    else:
        with nogil:
            work.stretch(work, 0, work.rows)
    return _is_clean(slot, size)


cdef bint _spread_over(Slot* slot, PyArrayObject* x, PyArrayObject* y) except -1:
    """Write a result over its first operand, beside whose many elements the second stands.

    False where the method has to. What flags are raised is for the caller, who holds both.
    """
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef int ndim = 0, i
    cdef Work work
    cdef npy_intp size = _lay_out(slot, x, y, &ndim, shape, &work)
    if size < LONG or ndim != PyArray_NDIM(x) or _may_overlap(x, y):
        return False
    for i in range(ndim):
        if shape[i] != PyArray_DIMS(x)[i]:
            return False
    work.operands[2] = work.operands[0]
    if not _plan_rows(&work):
        return False
    work.past_caches = False  # what is read there is in one
    _do(&work, size, &slot.pace[SPREAD])
    return True


cdef bint _plan_rows(Work* work) noexcept:
    """Say how rows are taken; False where there is no loop for what stands beside them."""
    cdef npy_intp bytes = work.size * work.steps[2], number = work.size // work.length, unit
    cdef int i
    for i in range(2):
        if work.forms[i] != COLUMN_OPERAND:
            bytes += work.size * work.steps[i] if work.forms[i] == WHOLE_OPERAND else 0
        else:
            bytes += number * work.steps[i]
    work.past_caches = _is_far(bytes, work.operands[2])
    if work.length >= WRITTEN_OUT:
        # Whole rows, unless what is written past the caches has to begin with a line of theirs.
        work.group = ROW
        if not work.past_caches and work.length < 4 * ROW:
            work.group = work.length * max(<npy_intp>1, ROW // work.length)
        work.stretch, work.rows = _long_spread_stretch, (work.size + work.group - 1) // work.group
        return True
    if work.steps[0] not in (1, 4, 8):
        return False
    # Lines of the cache that are written past it have to be whole.
    unit = 1
    while work.past_caches and unit * work.length * work.steps[2] % LINE:
        unit *= 2
    work.group = ROW // work.length
    work.past_caches = work.past_caches and work.group >= unit
    if work.past_caches:
        work.group = work.group // unit * unit
    work.group = min(work.group, number)
    work.stretch, work.rows = _short_spread_stretch, (number + work.group - 1) // work.group
    return True


cdef void _short_spread_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Write out what stands beside some rows, and run the loop on all of these."""
    cdef double beside[2][ROW + 2]  # of items of 8 bytes at the most, and what is written behind
    cdef double some[2 * ROW]
    cdef char* operands[3]
    cdef npy_intp block, row, rows, size, number = work.size // work.length, i
    cdef npy_intp item = work.steps[0], bytes_of_row = work.length * work.steps[0]
    cdef int k
    for k in range(2):
        if work.forms[k] == ROW_OPERAND:
            for i in range(work.group):
                memcpy(<char*>beside[k] + i * bytes_of_row, work.operands[k], bytes_of_row)
    for block in range(start, stop):
        row = block * work.group
        rows = min(work.group, number - row)
        size = rows * work.length
        for k in range(2):
            operands[k] = <char*>beside[k]
            if work.forms[k] == WHOLE_OPERAND:
                operands[k] = work.operands[k] + row * bytes_of_row
            elif work.forms[k] == COLUMN_OPERAND:
                corepy_repeat(beside[k], work.operands[k] + row * item, rows, work.length, item)
        operands[2] = work.operands[2] + row * work.length * work.steps[2]
        if not work.past_caches:
            work.loop(operands, &size, work.steps, work.data)
            continue
        operands[2] = <char*>some
        work.loop(operands, &size, work.steps, work.data)
        _put_past_caches(work, row * work.length, work.group * work.length, <char*>some, size)
    if work.past_caches:
        corepy_streamed()


cdef void _long_spread_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Run the loop on some of the elements of each row at a time."""
    cdef double some[2 * ROW]  # of items of 16 bytes at the most
    cdef char* operands[3]
    cdef npy_intp steps[3]
    cdef npy_intp chunk, at, end, row, column, size
    cdef int k
    for k in range(3):
        steps[k] = 0 if k < 2 and work.forms[k] == COLUMN_OPERAND else work.steps[k]
    for chunk in range(start, stop):
        at, end = chunk * work.group, min(work.size, (chunk + 1) * work.group)
        row = at // work.length
        column = at - row * work.length
        while at < end:
            size = min(work.length - column, end - at)
            for k in range(2):
                operands[k] = work.operands[k] + work.steps[k] * (
                    at if work.forms[k] == WHOLE_OPERAND
                    else row if work.forms[k] == COLUMN_OPERAND else column
                )
            operands[2] = work.operands[2] + at * steps[2]
            if work.past_caches:
                operands[2] = <char*>some + (at - chunk * ROW) * steps[2]
            at += size
            row += 1
            column = 0  # but for the last piece, behind which the next chunk begins
            work.loop(operands, &size, steps, work.data)
        if work.past_caches:
            _put_past_caches(work, chunk * ROW, ROW, <char*>some, end - chunk * ROW)
    if work.past_caches:
        corepy_streamed()
