# Elementwise operations on arrays with gaps, in any order of their axes, or beside each other.
# Included by _hot_compiled.pyx.
#
# NumPy's iterator gives its loops one row after the other, in one thread. Here threads share the
# rows, and loops find their operands side by side, where those that fill wide registers need them:
# what has gaps is packed some elements at a time. The result lies in memory as the operands do, as
# NumPy's results do.

cdef extern from *:
    """
    /* Copy rows of items that stand some bytes apart side by side. */
    #define COREPY_PACK(NAME, ITEM) \\
        static void NAME( \\
            ITEM* restrict into, const char* restrict from, \\
            ptrdiff_t rows, ptrdiff_t apart, ptrdiff_t count, ptrdiff_t step \\
        ) { \\
            for (; rows > 0; rows--, from += apart, into += count) { \\
                if (step == 0) { \\
                    const ITEM one = *(const ITEM*)from; \\
                    for (ptrdiff_t i = 0; i < count; i++) into[i] = one; \\
                } else if (step == sizeof(ITEM)) { \\
                    for (ptrdiff_t i = 0; i < count; i++) into[i] = ((const ITEM*)from)[i]; \\
                } else { \\
                    for (ptrdiff_t i = 0; i < count; i++) into[i] = *(const ITEM*)(from + i * step); \\
                } \\
            } \\
        }
    typedef struct { uint64_t parts[2]; } corepy_item_of_16;
    COREPY_PACK(corepy_pack_1, uint8_t)
    COREPY_PACK(corepy_pack_2, uint16_t)
    COREPY_PACK(corepy_pack_4, uint32_t)
    COREPY_PACK(corepy_pack_8, uint64_t)
    COREPY_PACK(corepy_pack_16, corepy_item_of_16)

    static void corepy_pack(
        void* into, const char* from,
        ptrdiff_t rows, ptrdiff_t apart, ptrdiff_t count, ptrdiff_t step, ptrdiff_t size
    ) {
        if (size == 8) corepy_pack_8((uint64_t*)into, from, rows, apart, count, step);
        else if (size == 4) corepy_pack_4((uint32_t*)into, from, rows, apart, count, step);
        else if (size == 1) corepy_pack_1((uint8_t*)into, from, rows, apart, count, step);
        else if (size == 2) corepy_pack_2((uint16_t*)into, from, rows, apart, count, step);
        else corepy_pack_16((corepy_item_of_16*)into, from, rows, apart, count, step);
    }
    """
    void corepy_pack(
        void*, const char*, npy_intp, npy_intp, npy_intp, npy_intp, npy_intp
    ) noexcept nogil


cdef enum:
    FEW_IN_A_ROW = 64  # elements of rows of which several are taken together
    AXES = 6  # that are left at the most where neighbouring ones are taken as one
    PACKED = 3  # how an operand stands beside the result, after `WHOLE_OPERAND` and its like: apart


cdef struct Grid:
    int ndim
    bint short  # rows, of which several are taken together
    npy_intp dims[AXES]
    npy_intp strides[2][AXES]  # of the operands, in bytes; 0 where one is repeated


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
    Work* work, int operand, npy_intp* at, npy_intp size, char* into
) noexcept nogil:
    """Copy some elements of an operand side by side, from a place on."""
    cdef Grid* grid = work.grid
    cdef int last = grid.ndim - 1, i
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
        corepy_pack(into, row, rows, apart, part, step, item)
        into += rows * part * item
        size -= rows * part
        _next_row(grid, index)


cdef void _map_over_grid(
    Work* work, npy_intp* index, npy_intp size, char** packed, char* into
) noexcept nogil:
    """Run the loop on some elements from a place on, row by row."""
    cdef Grid* grid = work.grid
    cdef int result = work.count - 1, last = grid.ndim - 1, k
    cdef char* operands[3]
    cdef npy_intp steps[3]
    cdef npy_intp part, done = 0
    for k in range(result):
        steps[k] = work.steps[k] if work.forms[k] == PACKED else grid.strides[k][last]
    steps[result] = work.steps[result]
    while done < size:
        part = min(size - done, grid.dims[last] - index[last])
        for k in range(result):
            if work.forms[k] == PACKED:
                operands[k] = packed[k] + done * work.steps[k]
            else:
                operands[k] = _placed(work, k, index)
        operands[result] = into + done * steps[result]
        work.loop(operands, &part, steps, work.data)
        done += part
        _next_row(grid, index)


cdef void _grid_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Compute some elements of a result, in the order of its memory."""
    cdef double some[2 * ROW]  # of items of 16 bytes at the most
    cdef double first_packed[2 * ROW]
    cdef double second_packed[2 * ROW]
    cdef char** packed = [<char*>first_packed, <char*>second_packed]
    cdef char* operands[3]
    cdef char* places[3]
    cdef npy_intp steps[3]
    cdef npy_intp sizes[3]
    cdef npy_intp index[AXES]
    cdef Grid* grid = work.grid
    cdef int result = work.count - 1, last = grid.ndim - 1, k
    cdef npy_intp first = start * work.group, end = min(work.size, stop * work.group)
    cdef npy_intp most = end - first, size
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
        for k in range(result):
            if work.forms[k] == PACKED:
                _pack_some(work, k, index, size, packed[k])
        operands[result] = work.operands[result] + first * steps[result]
        if work.past_caches:
            operands[result] = <char*>some
        if grid.short:
            work.loop(operands, &size, steps, work.data)
        else:
            _map_over_grid(work, index, size, packed, operands[result])
        if work.past_caches:
            _locate(grid, min(first + most, work.size - 1), index)
            for k in range(result):
                places[k] = _placed(work, k, index)
            corepy_stream_and_fetch(
                work.operands[result] + first * steps[result],
                <char*>some, size * steps[result], result, places, sizes,
            )
        first += size
    if work.past_caches:
        corepy_streamed()


cdef void _find_order(
    npy_intp strides[2][MOST_DIMENSIONS], int count, int ndim, int* order
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
                outer, inner = abs(strides[k][i]), abs(strides[k][order[j]])
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
    npy_intp strides[2][MOST_DIMENSIONS],
) noexcept:
    """Take axes that lie one in the other as one; False where too many are left.

    `order` is that of the axes in memory, which is found here.
    """
    cdef int i, k, axis, last = -1
    _find_order(strides, count, ndim, order)
    grid.ndim = 0
    for i in range(ndim):
        axis = order[i]
        if shape[axis] == 1:
            continue
        if last >= 0:
            for k in range(count):
                if grid.strides[k][last] != strides[k][axis] * shape[axis]:
                    break
            else:
                grid.dims[last] *= shape[axis]
                for k in range(count):
                    grid.strides[k][last] = strides[k][axis]
                continue
        if grid.ndim == AXES:
            return False
        last = grid.ndim
        grid.ndim += 1
        grid.dims[last] = shape[axis]
        for k in range(count):
            grid.strides[k][last] = strides[k][axis]
    grid.short = grid.ndim > 1 and grid.dims[last] < FEW_IN_A_ROW
    return grid.ndim > 0


cdef object _result_in_order(Slot* slot, npy_intp size, int ndim, npy_intp* shape, int* order):
    """Make a result whose axes lie in memory in some order; None where there is no memory for it.

    It is recycled from as few bytes as the entry's.
    """
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef npy_intp step = slot.size_out
    cdef bint sorted_already = True
    cdef int i
    for i in range(ndim):
        dims[i] = shape[order[i]]
        sorted_already = sorted_already and order[i] == i
    try:
        made = _new(slot.descr, ndim, dims) if size < LONG else _pooled(slot.descr, ndim, dims)
    except MemoryError:
        return None
    if sorted_already:
        return made
    for i in range(ndim - 1, -1, -1):
        strides[order[i]] = step
        step *= dims[i]
    return _view(<PyArrayObject*><PyObject*>made, ndim, shape, strides, _data(made))


cdef object _over_grid(Slot* slot, PyObject* a, PyObject* b, char* element, bint first):
    """Return the result of the loop wherever operands lie, None where the entry has to.

    Beside `a` stands `b`, or an element of its own, as the first operand or as the second one; or
    nothing.
    """
    if not slot.shares or slot.finite or slot.packs or slot.kind != ELEMENTWISE:
        return None
    held, also_held = <object>a, None
    cdef PyArrayObject* arrays[2]
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef npy_intp strides[2][MOST_DIMENSIONS]
    cdef int order[MOST_DIMENSIONS]
    cdef npy_intp least = min(slot.leasts[ALIKE], slot.leasts[SPREAD])
    cdef npy_intp size = 1, bytes
    cdef int count = 1, ndim, i, k, more
    cdef Grid grid
    cdef Work work
    arrays[0], arrays[1] = <PyArrayObject*>a, NULL
    if b != NULL:
        also_held, count = <object>b, 2
        arrays[1] = <PyArrayObject*>b
    elif element != NULL:
        count = 2
        if first:
            arrays[0], arrays[1] = NULL, arrays[0]
    for k in range(count):
        if arrays[k] != NULL and not (
            _is_array(<PyObject*>arrays[k]) and PyArray_FLAGS(arrays[k]) & NPY_ARRAY_ALIGNED
        ):
            return None
    ndim = PyArray_NDIM(<PyArrayObject*>a)
    if ndim > MOST_DIMENSIONS:
        return None
    for i in range(ndim):
        shape[i] = PyArray_DIMS(<PyArrayObject*>a)[i]
    if b != NULL and not _shape_of_both(arrays[0], arrays[1], &ndim, shape):
        return None
    for i in range(ndim):
        if shape[i] and size > least // shape[i]:
            return None
        size *= shape[i]
    if size < 1 or size >= least:
        return None
    memset(&work, 0, sizeof(Work))
    work.slot, work.loop, work.data, work.count = slot, slot.loop, slot.data, count + 1
    for k in range(count):
        work.operands[k], work.steps[k] = element, slot.size
        more = ndim if arrays[k] == NULL else ndim - PyArray_NDIM(arrays[k])
        if arrays[k] != NULL:
            work.operands[k] = <char*>PyArray_DATA(arrays[k])
        for i in range(ndim):
            strides[k][i] = 0
            if i >= more and PyArray_DIMS(arrays[k])[i - more] != 1:
                strides[k][i] = PyArray_STRIDES(arrays[k])[i - more]
    if not _find_grid(&grid, count, ndim, shape, order, strides):
        return None
    result = _result_in_order(slot, size, ndim, shape, order)
    if result is None:
        return None
    work.grid, work.size, work.steps[count] = &grid, size, slot.size_out
    work.operands[count] = _data(result)
    bytes = size * slot.size_out
    for k in range(count):
        work.forms[k] = _form_in(slot, &grid, k, count)
        if grid.strides[k][0] != 0:
            bytes += size * slot.size
    work.past_caches = _is_far(bytes, work.operands[count])
    work.stretch, work.group, work.rows = _grid_stretch, ROW, (size + ROW - 1) // ROW
    return result if _runs(&work, size) else None


cdef inline int _form_in(Slot* slot, Grid* grid, int operand, int count) noexcept:
    """Return how an operand stands beside rows of the result: packed, or as it is."""
    cdef int last = grid.ndim - 1, i
    cdef npy_intp step = grid.strides[operand][last]
    if grid.short:
        for i in range(grid.ndim):
            if grid.strides[operand][i] != 0:
                return PACKED
        return WHOLE_OPERAND
    if not slot.wide or step == slot.size:
        return WHOLE_OPERAND
    if step == 0 and count == 2 and grid.strides[1 - operand][last] != 0:
        return WHOLE_OPERAND  # a single value beside several
    return PACKED
