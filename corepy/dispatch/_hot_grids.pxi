# Elementwise operations and copies of arrays with gaps, in any order of their axes, or beside each other.
# Included by _hot_compiled.pyx.
#
# NumPy's iterator gives its loops one row after the other, in one thread. Here threads share the
# rows, and loops find their operands side by side, where those that fill wide registers need them:
# what has gaps is packed some elements at a time. Operands that lie in memory in another order than
# the result are taken by tiles. New results lie in memory as the operands do, as NumPy's do.

cdef extern from *:
    """
    /* Eight at a time, which takes two thirds of the time. */
    #define COREPY_STEPS(COPY, PLACE, FROM) \\
        ptrdiff_t i = 0; \\
        const char* PLACE##_first = FROM; \\
        char* PLACE = (char*)PLACE##_first; \\
        while (i + 8 <= count) { \\
            COPY; i++; PLACE += step; COPY; i++; PLACE += step; \\
            COPY; i++; PLACE += step; COPY; i++; PLACE += step; \\
            COPY; i++; PLACE += step; COPY; i++; PLACE += step; \\
            COPY; i++; PLACE += step; COPY; i++; PLACE += step; \\
        } \\
        for (; i < count; i++, PLACE += step) COPY;
    /* Copy rows of items that stand some bytes apart side by side. */
    #define COREPY_PACK(NAME, ITEM) \\
        static void NAME( \\
            ITEM* COREPY_ONLY into, const char* COREPY_ONLY from, \\
            ptrdiff_t rows, ptrdiff_t apart, ptrdiff_t count, ptrdiff_t step \\
        ) { \\
            for (; rows > 0; rows--, from += apart, into += count) { \\
                if (step == 0) { \\
                    const ITEM one = *(const ITEM*)from; \\
                    for (ptrdiff_t i = 0; i < count; i++) into[i] = one; \\
                } else if (step == sizeof(ITEM)) { \\
                    for (ptrdiff_t i = 0; i < count; i++) into[i] = ((const ITEM*)from)[i]; \\
                } else { \\
                    COREPY_STEPS(into[i] = *(const ITEM*)x, x, from) \\
                } \\
            } \\
        }
    /* And items that stand side by side to where they are to stand so far apart. */
    #define COREPY_UNPACK(NAME, ITEM) \\
        static void NAME( \\
            char* COREPY_ONLY into, const ITEM* COREPY_ONLY from, \\
            ptrdiff_t rows, ptrdiff_t apart, ptrdiff_t count, ptrdiff_t step \\
        ) { \\
            for (; rows > 0; rows--, into += apart, from += count) { \\
                COREPY_STEPS(*(ITEM*)y = from[i], y, into) \\
            } \\
        }
    typedef struct { uint64_t parts[2]; } corepy_item_of_16;
    #define COREPY_OF_EACH_SIZE(DEFINE, NAME) \\
        DEFINE(NAME##_1, uint8_t) \\
        DEFINE(NAME##_2, uint16_t) \\
        DEFINE(NAME##_4, uint32_t) \\
        DEFINE(NAME##_8, corepy_item_of_8) \\
        DEFINE(NAME##_16, corepy_item_of_16)
    COREPY_OF_EACH_SIZE(COREPY_PACK, corepy_pack)
    COREPY_OF_EACH_SIZE(COREPY_UNPACK, corepy_unpack)

    static void corepy_pack(
        void* into, const char* from,
        ptrdiff_t rows, ptrdiff_t apart, ptrdiff_t count, ptrdiff_t step, ptrdiff_t size
    ) {
        if (size == 8) corepy_pack_8(into, from, rows, apart, count, step);
        else if (size == 4) corepy_pack_4((uint32_t*)into, from, rows, apart, count, step);
        else if (size == 1) corepy_pack_1((uint8_t*)into, from, rows, apart, count, step);
        else if (size == 2) corepy_pack_2((uint16_t*)into, from, rows, apart, count, step);
        else corepy_pack_16((corepy_item_of_16*)into, from, rows, apart, count, step);
    }

    static void corepy_unpack(
        char* into, const void* from,
        ptrdiff_t rows, ptrdiff_t apart, ptrdiff_t count, ptrdiff_t step, ptrdiff_t size
    ) {
        if (size == 8) corepy_unpack_8(into, from, rows, apart, count, step);
        else if (size == 4) corepy_unpack_4(into, (const uint32_t*)from, rows, apart, count, step);
        else if (size == 1) corepy_unpack_1(into, (const uint8_t*)from, rows, apart, count, step);
        else if (size == 2) corepy_unpack_2(into, (const uint16_t*)from, rows, apart, count, step);
        else corepy_unpack_16(into, (const corepy_item_of_16*)from, rows, apart, count, step);
    }

    /* A loop like NumPy's that copies, into where items stand side by side. */
    static void corepy_copy_items(
        char** operands, const npy_intp* size, const npy_intp* steps, void* data
    ) {
        corepy_pack(operands[1], operands[0], 1, 0, size[0], steps[0], steps[1]);
    }
    """
    void corepy_pack(
        void*, const char*, npy_intp, npy_intp, npy_intp, npy_intp, npy_intp
    ) noexcept nogil
    void corepy_unpack(
        char*, const void*, npy_intp, npy_intp, npy_intp, npy_intp, npy_intp
    ) noexcept nogil
    void corepy_copy_items(char**, const npy_intp*, const npy_intp*, void*) noexcept nogil


cdef enum:
    FEW_IN_A_ROW = 64  # elements of rows of which several are taken together
    OPERANDS = 4  # at the most, the result among them
    AXES = 6  # that are left at the most where neighbouring ones are taken as one
    PACKED = 3  # how an operand stands beside the result, after `WHOLE_OPERAND` and its like: apart


cdef struct Grid:
    int ndim
    bint short  # rows, of which several are taken together
    bint whole  # the result, whose elements stand side by side
    bint apart  # whether results are computed elsewhere, and put then where they are to stand
    int across  # the axis along which tiles are packed, where there are any
    npy_intp rows, columns  # of a tile
    npy_intp dims[AXES]
    npy_intp strides[OPERANDS][AXES]  # of the operands and the result, in bytes; 0 where one is repeated


cdef inline void _locate(Grid* grid, npy_intp first, npy_intp* index) noexcept nogil:
    """Find where along each axis an element stands."""
    cdef int i
    for i in range(grid.ndim - 1, 0, -1):
        index[i] = first % grid.dims[i]
        first //= grid.dims[i]
    index[0] = first


cdef inline char* _placed(Work* work, int operand, npy_intp* index) noexcept nogil:
    cdef char* place = work.operands[operand]
    cdef int i
    for i in range(work.grid.ndim):
        place += index[i] * work.grid.strides[operand][i]
    return place


cdef inline void _next_row(Grid* grid, npy_intp* index) noexcept nogil:
    """Go on to the beginning of the next row."""
    cdef int i = grid.ndim - 1
    index[i] = 0
    while i > 0:
        i -= 1
        index[i] += 1
        if index[i] < grid.dims[i] or i == 0:
            return
        index[i] = 0


cdef void _pack_some(
    Work* work, int operand, npy_intp* at, npy_intp size, char* beside
) noexcept nogil:
    """Copy some elements of an operand side by side, from a place on; of a result, from there."""
    cdef Grid* grid = work.grid
    cdef int last = grid.ndim - 1, i
    cdef bint writes = operand == work.count - 1
    cdef npy_intp index[AXES]
    cdef npy_intp item = work.steps[operand], step = grid.strides[operand][last], part, rows
    cdef npy_intp length = grid.dims[last], apart = grid.strides[operand][last - 1] if last else 0
    cdef char* row
    for i in range(grid.ndim):
        index[i] = at[i]
    while size > 0:
        rows, part = 1, min(size, length - index[last])
        if part == length and last > 0:
            rows = min(size // length, grid.dims[last - 1] - index[last - 1])
            index[last - 1] += rows - 1
        row = _placed(work, operand, index) - (rows - 1) * apart
        if writes:
            corepy_unpack(row, beside, rows, apart, part, step, item)
        else:
            corepy_pack(beside, row, rows, apart, part, step, item)
        beside += rows * part * item
        size -= rows * part
        _next_row(grid, index)


cdef void _map_over_grid(
    Work* work, npy_intp* index, npy_intp size, char** packed, char* into
) noexcept nogil:
    """Run the loop on some elements from a place on, row by row, into its result or elsewhere."""
    cdef Grid* grid = work.grid
    cdef int result = work.count - 1, last = grid.ndim - 1, k
    cdef char* operands[OPERANDS]
    cdef npy_intp steps[OPERANDS]
    cdef npy_intp apart[OPERANDS]  # from row to row
    cdef npy_intp length = grid.dims[last], part, rows, row, done = 0
    for k in range(result + 1):
        if work.forms[k] == PACKED or k == result and into != NULL:
            steps[k], apart[k] = work.steps[k], length * work.steps[k]
        else:
            steps[k] = grid.strides[k][last]
            apart[k] = grid.strides[k][last - 1] if last else 0
    while done < size:
        rows, part = 1, min(size - done, length - index[last])
        if part == length and last > 0:
            rows = min((size - done) // length, grid.dims[last - 1] - index[last - 1])
        for k in range(result):
            if work.forms[k] == PACKED:
                operands[k] = packed[k] + done * steps[k]
            else:
                operands[k] = _placed(work, k, index)
        operands[result] = _placed(work, result, index) if into == NULL else into + done * steps[result]
        for row in range(rows):
            work.loop(operands, &part, steps, work.data)
            for k in range(result + 1):
                operands[k] += apart[k]
        done += rows * part
        if last > 0:
            index[last - 1] += rows - 1
        _next_row(grid, index)


cdef void _grid_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Compute some elements of a result, in the order of its memory."""
    cdef double some[2 * ROW]  # of items of 16 bytes at the most
    cdef double beside[OPERANDS - 1][2 * ROW]
    cdef char** packed = [<char*>beside[0], <char*>beside[1], <char*>beside[2]]
    cdef char* operands[OPERANDS]
    cdef char* places[OPERANDS]
    cdef npy_intp steps[OPERANDS]
    cdef npy_intp sizes[OPERANDS]
    cdef npy_intp index[AXES]
    cdef Grid* grid = work.grid
    cdef int result = work.count - 1, last = grid.ndim - 1, k
    cdef bint apart = grid.apart or work.past_caches, copies = work.loop == corepy_copy_items
    cdef npy_intp first = start * work.group, end = min(work.size, stop * work.group)
    cdef npy_intp most = end - first, size
    if apart:
        most = min(most, <npy_intp>ROW)
    for k in range(result):
        operands[k], steps[k], sizes[k] = packed[k], work.steps[k], 0
        if work.forms[k] == PACKED:
            most = min(most, <npy_intp>ROW)
        elif grid.short:
            operands[k], steps[k] = work.operands[k], 0
    steps[result] = work.steps[result]
    if work.past_caches:
        most = _fetched_at_once(work)
        for k in range(result):
            # What is repeated for each row is in a cache already.
            if grid.strides[k][0] != 0 and 0 < grid.strides[k][last] <= LINE:
                sizes[k] = most * grid.strides[k][last]
    while first < end:
        size = min(most, end - first)
        _locate(grid, first, index)
        operands[result] = <char*>some if apart else _placed(work, result, index)
        if copies and (grid.whole or apart):  # several rows at once
            _pack_some(work, 0, index, size, operands[result])
        else:
            for k in range(result):
                if work.forms[k] == PACKED:
                    _pack_some(work, k, index, size, packed[k])
            if grid.short:
                work.loop(operands, &size, steps, work.data)
            else:
                _map_over_grid(work, index, size, packed, <char*>some if apart else NULL)
        if work.past_caches:
            _locate(grid, min(first + most, work.size - 1), index)
            for k in range(result):
                places[k] = _placed(work, k, index)
            corepy_stream_and_fetch(
                work.operands[result] + first * steps[result],
                <char*>some, size * steps[result], result, places, sizes,
            )
        elif apart:
            _locate(grid, first, index)
            _pack_some(work, result, index, size, <char*>some)
        first += size
    if work.past_caches:
        corepy_streamed()


cdef void _find_order(
    npy_intp (*strides)[MOST_DIMENSIONS], int count, int ndim, int* order
) noexcept:
    """Find in which order axes lie in memory, the outermost first: as NumPy's iterator does.

    Where operands do not agree, and where they tell nothing, axes stay as they are.
    """
    cdef int i, j, k, place
    cdef npy_intp inner, outer
    cdef bint unknown, swapped
    for i in range(ndim - 1, -1, -1):  # the axes inside of this one are in order already
        place = i
        for j in range(i + 1, ndim):
            unknown, swapped = True, False
            for k in range(count):
                outer, inner = llabs(strides[k][i]), llabs(strides[k][order[j]])
                if outer != 0 and inner != 0:
                    swapped = inner > outer and (unknown or swapped)
                    unknown = False
            if not unknown and not swapped:
                break
            if swapped:
                place = j
        for j in range(i, place):
            order[j] = order[j + 1]
        order[place] = i


cdef bint _find_grid(
    Grid* grid, int count, int ndim, npy_intp* shape, int* order,
    npy_intp (*strides)[MOST_DIMENSIONS],
) noexcept:
    """Take axes that lie one in the other as one; False where too many are left.

    `count` is of the operands, behind whose strides are the result's, and `order` that of the axes.
    """
    cdef int i, k, axis, last = -1
    grid.ndim = 0
    for i in range(ndim):
        axis = order[i]
        if shape[axis] == 1:
            continue
        if last >= 0:
            for k in range(count + 1):
                if grid.strides[k][last] != strides[k][axis] * shape[axis]:
                    break
            else:
                grid.dims[last] *= shape[axis]
                for k in range(count + 1):
                    grid.strides[k][last] = strides[k][axis]
                continue
        if grid.ndim == AXES:
            return False
        last = grid.ndim
        grid.ndim += 1
        grid.dims[last] = shape[axis]
        for k in range(count + 1):
            grid.strides[k][last] = strides[k][axis]
    return grid.ndim > 0


cdef int _plan_grid(Work* work, bint wide, bint past_caches) noexcept:
    """Say how operands and the result, of which all else is known, are gone through."""
    cdef Grid* grid = work.grid
    cdef int count = work.count - 1, last = grid.ndim - 1, i, k
    cdef npy_intp step = work.steps[count], bytes = work.size * step
    grid.short = last > 0 and grid.dims[last] < FEW_IN_A_ROW
    grid.whole = True
    for i in range(last, -1, -1):
        grid.whole = grid.whole and grid.strides[count][i] == step
        step *= grid.dims[i]
    grid.apart = grid.strides[count][last] != work.steps[count] or grid.short and not grid.whole
    for k in range(count):
        work.forms[k] = _form_in(grid, k, count, work.steps[k], wide)
        if grid.strides[k][0] != 0:
            bytes += work.size * work.steps[k]
    work.past_caches = past_caches and grid.whole and _is_far(bytes, work.operands[count])
    work.stretch, work.group, work.rows = _grid_stretch, ROW, (work.size + ROW - 1) // ROW
    if work.size >= LONG and not grid.short and not grid.apart:
        _find_tiles(work)
    return 0


cdef inline int _form_in(Grid* grid, int operand, int count, npy_intp size, bint wide) noexcept:
    """Return how an operand stands beside rows of the result: packed, or as it is."""
    cdef int last = grid.ndim - 1, i
    cdef npy_intp step = grid.strides[operand][last]
    if grid.short:
        for i in range(grid.ndim):
            if grid.strides[operand][i] != 0:
                return PACKED
        return WHOLE_OPERAND
    if step < 0 and grid.ndim > 1:
        return PACKED
    if not wide or step == size:
        return WHOLE_OPERAND
    for i in range(count if step == 0 else 0):
        if grid.strides[i][last] != 0:
            return WHOLE_OPERAND  # a single value beside several
    return PACKED


cdef object _result_in_order(
    PyArray_Descr* descr, int ndim, npy_intp* shape, int* order, npy_intp* strides
):
    """Make an array whose axes lie in memory in some order; None where there is no memory for it.

    Find its strides too. It is recycled from as few bytes as an entry's results.
    """
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp step = PyDataType_ELSIZE(descr)
    cdef bint sorted_already = True
    cdef int i
    for i in range(ndim):
        dims[i] = shape[order[i]]
        sorted_already = sorted_already and order[i] == i
    made = corepy_new_if_any(descr, ndim, dims, LONG)
    if made is None:
        return None
    for i in range(ndim - 1, -1, -1):  # which may be beyond all numbers where there is no memory
        strides[order[i]] = step
        step *= dims[i]
    if sorted_already:
        return made
    return _view(<PyArrayObject*><PyObject*>made, ndim, shape, strides, _data(made))


cdef void _strides_beside(PyArrayObject* x, int ndim, npy_intp* strides) noexcept:
    """Find the strides of an array beside a result of so many dimensions: 0 where it is repeated."""
    cdef int more = ndim if x == NULL else ndim - PyArray_NDIM(x), i
    for i in range(ndim):
        strides[i] = 0
        if i >= more and PyArray_DIMS(x)[i - more] != 1:
            strides[i] = PyArray_STRIDES(x)[i - more]


cdef object _over_grid(Slot* slot, PyObject* a, PyObject* b, char* element, bint first):
    """Return the result of the loop wherever operands lie, None where the entry has to.

    Beside `a` stands `b`, or an element of its own, as the first operand or as the second one; or
    nothing.
    """
    cdef PyArrayObject* arrays[2]
    cdef Work work
    cdef int k
    if not slot.shares or slot.finite or slot.packs or slot.kind != ELEMENTWISE:
        return None
    held, also_held = <object>a, None if b == NULL else <object>b
    memset(&work, 0, sizeof(Work))
    work.slot, work.loop, work.data = slot, slot.loop, slot.data
    work.count = 3 if b != NULL or element != NULL else 2
    arrays[0], arrays[1] = <PyArrayObject*>a, <PyArrayObject*>b
    if first and element != NULL:
        arrays[0], arrays[1] = NULL, arrays[0]
    for k in range(work.count - 1):
        work.operands[k], work.steps[k] = element, slot.size
    return _gridded(&work, arrays, min(slot.leasts[ALIKE], slot.leasts[SPREAD]), slot.wide)


cdef object _gridded(Work* work, PyArrayObject** arrays, npy_intp least, bint wide):
    """Return the result of some work's loop on arrays, wherever they lie, and on single elements.

    These are its operands already: there the place of the array is NULL. None of `least` results
    and more, and where others have to. The caller holds the arrays.
    """
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef npy_intp strides[OPERANDS][MOST_DIMENSIONS]
    cdef int order[MOST_DIMENSIONS]
    cdef npy_intp size = 1
    cdef int count = work.count - 1, ndim = 0, i, k
    cdef Slot* slot = work.slot
    cdef Grid grid
    for k in range(count):
        if arrays[k] == NULL:
            continue
        if not _is_array(<PyObject*>arrays[k]) or not PyArray_FLAGS(arrays[k]) & NPY_ARRAY_ALIGNED:
            return None
        if not _broadcast(arrays[k], &ndim, shape):
            return None
        work.operands[k] = <char*>PyArray_DATA(arrays[k])
    for i in range(ndim):
        if shape[i] and size > least // shape[i]:
            return None
        size *= shape[i]
    if size < 1 or size >= least:
        return None
    for k in range(count):
        _strides_beside(arrays[k], ndim, strides[k])
    _find_order(strides, count, ndim, order)
    result = _result_in_order(slot.descr, ndim, shape, order, strides[count])
    if result is None or not _find_grid(&grid, count, ndim, shape, order, strides):
        return None
    work.operands[count] = _data(result)
    for k in range(count):
        if _is_one_row_backwards(&grid, k):
            return None
    work.grid, work.size, work.steps[count] = &grid, size, slot.size_out
    _plan_grid(work, wide, True)
    return result if _runs(work, size) else None


cdef inline bint _is_one_row_backwards(Grid* grid, int operand) noexcept:
    """Say whether an operand lies backwards in one row, beside others that lie in several.

    NumPy's iterator copies what goes back in several rows side by side, as is done here, but not
    this; and its loops round otherwise where they take elements one by one.
    """
    cdef int last = grid.ndim - 1, i
    for i in range(last):
        if grid.strides[operand][i] != grid.strides[operand][i + 1] * grid.dims[i + 1]:
            return False
    return last > 0 and grid.strides[operand][last] < 0


cdef inline void _turn(Work* work, int operand, npy_intp length, npy_intp* stride) noexcept:
    """Begin an axis at its other end."""
    work.operands[operand] += (length - 1) * stride[0]
    stride[0] = -stride[0]


cdef bint _lay_over(
    Grid* grid, Work* work, PyArrayObject* x, PyArrayObject* y, bint reads
) noexcept:
    """Lay out what is written over an array of many elements, beside another one or none.

    In the order of the array's memory; whether it is read too. False where others have to, as where
    two of its elements share memory.
    """
    cdef npy_intp strides[3][MOST_DIMENSIONS]
    cdef int order[MOST_DIMENSIONS]
    cdef int ndim = PyArray_NDIM(x), result = work.count - 1, k, i
    if not PyArray_FLAGS(x) & NPY_ARRAY_ALIGNED or ndim > MOST_DIMENSIONS:
        return False
    if y != NULL:
        if not PyArray_FLAGS(y) & NPY_ARRAY_ALIGNED or not _fits_over(x, y):
            return False
        if _may_overlap(x, y) and not (reads and _same_place(x, y)):
            return False
    for k in range(result + 1):
        if k == result or k == 0 and reads:
            work.operands[k] = <char*>PyArray_DATA(x)
            _strides_beside(x, ndim, strides[k])
        else:
            _strides_beside(y, ndim, strides[k])
            if y != NULL:
                work.operands[k] = <char*>PyArray_DATA(y)
    for i in range(ndim):
        if strides[result][i] < 0:  # backwards: then all go the other way
            for k in range(result + 1):
                _turn(work, k, PyArray_DIMS(x)[i], &strides[k][i])
    _find_order(&strides[result], 1, ndim, order)
    if not _find_grid(grid, result, ndim, PyArray_DIMS(x), order, strides):
        return False
    for i in range(grid.ndim):
        if llabs(grid.strides[result][i]) < _span(grid, result, i + 1) + work.steps[result]:
            return False
    work.grid, work.size = grid, _size(x, PY_SSIZE_T_MAX)
    return True


cdef inline npy_intp _span(Grid* grid, int operand, int axis) noexcept:
    """Return how many bytes lie between the first and the last element along an axis and all within."""
    cdef npy_intp span = 0
    cdef int i
    for i in range(axis, grid.ndim):
        span += (grid.dims[i] - 1) * llabs(grid.strides[operand][i])
    return span


cdef inline bint _fits_over(PyArrayObject* x, PyArrayObject* y) noexcept:
    """Say whether an array is repeated to the shape of another one."""
    cdef int more = PyArray_NDIM(x) - PyArray_NDIM(y), i
    for i in range(PyArray_NDIM(y)):
        if PyArray_DIMS(y)[i] != 1 and (more < 0 or PyArray_DIMS(y)[i] != PyArray_DIMS(x)[i + more]):
            return False
    return more >= 0


cdef inline bint _same_place(PyArrayObject* x, PyArrayObject* y) noexcept:
    """Say whether two arrays are the same elements."""
    cdef int i
    if PyArray_DATA(x) != PyArray_DATA(y) or not _same_shape(x, y):
        return False
    for i in range(PyArray_NDIM(x)):
        if PyArray_STRIDES(x)[i] != PyArray_STRIDES(y)[i]:
            return False
    return True


cdef bint _grid_over(Slot* slot, PyArrayObject* x, PyArrayObject* y, char* element) except -1:
    """Write a result over its first operand, beside another one or a value of its own.

    False where the method has to. What flags are raised is for the caller, who holds both.
    """
    cdef Grid grid
    cdef Work work
    cdef npy_intp size = _size(x, min(slot.leasts[ALIKE], slot.leasts[SPREAD]))
    if size < LONG:
        return False
    memset(&work, 0, sizeof(Work))
    work.slot, work.loop, work.data, work.count = slot, slot.loop, slot.data, 3
    work.steps[0] = work.steps[1] = work.steps[2] = slot.size
    work.operands[1] = element
    if not _lay_over(&grid, &work, x, y, True) or _is_one_row_backwards(&grid, 1):
        return False
    _plan_grid(&work, slot.wide, False)
    _do(&work, size, &slot.pace[SPREAD])
    return True


cdef double _placing = 0.0  # seconds that it takes to copy an element to where it stands otherwise


cdef int _copy_over(PyArrayObject* x, PyArrayObject* y) except -1:
    """Copy an array into one of its dtype, to whose shape it is repeated, as NumPy does.

    The caller holds both. NumPy raises what there is to be raised.
    """
    cdef Grid grid
    cdef Work work
    cdef npy_intp size = _size(x, PY_SSIZE_T_MAX), item = PyArray_ITEMSIZE(x)
    if size < LONG or PyArray_DESCR(x) != PyArray_DESCR(y) or item not in (1, 2, 4, 8, 16):
        return PyArray_CopyInto(x, y)
    memset(&work, 0, sizeof(Work))
    work.loop, work.count = corepy_copy_items, 2
    work.steps[0] = work.steps[1] = item
    if not _lay_over(&grid, &work, x, y, False):
        return PyArray_CopyInto(x, y)
    _plan_grid(&work, False, True)
    return _do(&work, size, &_placing)
