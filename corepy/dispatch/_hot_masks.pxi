# What masks select: reading and writing it, choices by a condition, and where elements are not zero.
# Included by _hot_compiled.pyx, after the loops of _hot_mask_loops.pxi.

cdef enum:
    FLAGS = 8192  # that a thread counts, or follows, at a time
    FEW_ENDS = 64  # that have room on the stack

#: Seconds that it takes to count a flag, and to make indices of a place.
cdef double _counting = 0.0
cdef double _unravelling = 0.0


cdef inline int _width_of(npy_intp size) noexcept:
    """Return the place of loops for elements of so many bytes, -1 where there are none."""
    if size == 8:
        return 3
    if size == 4:
        return 2
    if size == 1:
        return 0
    if size == 16:
        return 4
    return 1 if size == 2 else -1


cdef inline bint _selects(PyArrayObject* which, PyArrayObject* x) noexcept:
    """Say whether an array is a mask of another's shape, and both are contiguous."""
    return (
        _is_plain(<PyObject*>which)
        and PyArray_TYPE(which) == NPY_BOOL
        and _is_plain(<PyObject*>x)
        and _same_shape(which, x)
    )


# ---------------------------------------------------------------------------- in chunks


cdef int _follow(Work* work, double* pace) except -1:
    """Do a piece of work on flags: on many of them together with other threads."""
    if work.size < LONG:
        work.stretch(work, 0, work.rows)
        return 0
    return _do(work, work.size, pace)


cdef npy_intp* _ends_for(Work* work, npy_intp size, npy_intp* few) except NULL:
    """Make room for where chunks end, and divide so many flags into these."""
    memset(work, 0, sizeof(Work))
    work.size, work.rows = size, (size + FLAGS - 1) // FLAGS
    cdef npy_intp* ends = few
    if work.rows > FEW_ENDS:
        ends = <npy_intp*>PyMem_Malloc(work.rows * sizeof(npy_intp))
        if ends == NULL:
            raise MemoryError
    work.operands[3] = <char*>ends
    return ends


cdef npy_intp _count_flags(Work* work) except -1:
    """Return how many flags are set, and keep how many up to the end of each chunk."""
    cdef npy_intp* ends = <npy_intp*>work.operands[3]
    cdef npy_intp total = 0, chunk
    work.stretch = _count_stretch
    _follow(work, &_counting)
    for chunk in range(work.rows):
        total += ends[chunk]
        ends[chunk] = total
    return total


cdef inline const uint8_t* _flags_of(
    Work* work, npy_intp first, npy_intp size, uint8_t* room
) noexcept nogil:
    """Return flags of a chunk; of elements that are none, which ones are not zero."""
    cdef const char* data = work.operands[0] + first * work.steps[0]
    if work.data == NULL:
        return <const uint8_t*>data
    (<Flagging>work.data)(data, size, room)
    return room


cdef void _count_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef uint8_t room[FLAGS]
    cdef npy_intp* ends = <npy_intp*>work.operands[3]
    cdef npy_intp chunk, size
    for chunk in range(start, stop):
        size = min(<npy_intp>FLAGS, work.size - chunk * FLAGS)
        ends[chunk] = corepy_masks.count(_flags_of(work, chunk * FLAGS, size, room), size)


cdef void _places_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef uint8_t room[FLAGS]
    cdef npy_intp* ends = <npy_intp*>work.operands[3]
    cdef int64_t* into = <int64_t*>work.operands[2]
    cdef npy_intp chunk, first, size, taken
    for chunk in range(start, stop):
        first, taken = chunk * FLAGS, ends[chunk - 1] if chunk else 0
        size = min(<npy_intp>FLAGS, work.size - first)
        corepy_masks.place(
            _flags_of(work, first, size, room), size, first, into + taken, ends[chunk] - taken
        )


cdef void _masked_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp* ends = <npy_intp*>work.operands[3]
    cdef npy_intp* steps = work.steps
    cdef npy_intp* more = work.set_steps
    cdef npy_intp chunk, first, taken = 0, room = 0
    for chunk in range(start, stop):
        first = chunk * FLAGS
        if ends != NULL:
            taken = ends[chunk - 1] if chunk else 0
            room = ends[chunk] - taken
        (<Masking>work.data)(
            <const uint8_t*>work.operands[0] + first,
            min(<npy_intp>FLAGS, work.size - first),
            work.operands[1] + first * steps[1] + taken * more[1],
            work.operands[2] + first * steps[2] + taken * more[2],
            room,
        )


# ---------------------------------------------------------------------------- reading and writing


cdef object _masked(Slot* slot, PyArrayObject* x, PyArrayObject* which):
    """Return the elements of a contiguous array where a mask of its shape is true, None for others."""
    cdef npy_intp few[FEW_ENDS]
    cdef npy_intp count
    cdef int width = _width_of(slot.size)
    cdef Work work
    if width < 0 or not _selects(which, x):
        return None
    held, also_held = <object>x, <object>which  # somebody else may let go of them meanwhile
    cdef npy_intp* ends = _ends_for(&work, _size(x, PY_SSIZE_T_MAX), few)
    work.operands[0], work.steps[0] = <char*>PyArray_DATA(which), 1
    try:
        count = _count_flags(&work)
        result = _new_if_any(slot.descr, 1, &count)
        if result is None:
            return None
        work.stretch, work.data = _masked_stretch, <void*>corepy_masks.compress[width]
        work.operands[1], work.steps[1] = <char*>PyArray_DATA(x), slot.size
        work.operands[2], work.set_steps[2] = _data(result), slot.size
        _follow(&work, &slot.pace[BY_MASK])
    finally:
        if ends != few:
            PyMem_Free(ends)
    return result


cdef bint _may_mark(Operand owner, PyArrayObject* x, Operand key) noexcept:
    """Say whether a key is a mask for what is written: not of other flags in the same memory."""
    if not _share(key, owner) or not _is_array(<PyObject*>key._native):
        return False
    cdef PyArrayObject* which = <PyArrayObject*><PyObject*>key._native
    return _selects(which, x) and (
        PyArray_DATA(which) == PyArray_DATA(x) or not _may_overlap(x, which)
    )


cdef bint _mark(Operand owner, Slot* slot, PyArrayObject* x, Operand key, given) except -1:
    """Write one element wherever a mask is true; False where the method has to."""
    cdef npy_intp size = _size(x, slot.least)
    cdef int width = _width_of(slot.size)
    cdef double element[2]  # room for any
    cdef Work work
    if size < 0 or width < 0 or not _may_mark(owner, x, key):
        return False
    mask, held = key._native, <object>x  # somebody else may let go of them meanwhile
    memcpy(element, _data(given), slot.size)  # which may lie where it is written
    memset(&work, 0, sizeof(Work))
    work.size, work.rows = size, (size + FLAGS - 1) // FLAGS
    work.stretch, work.data = _masked_stretch, <void*>corepy_masks.mark[width]
    work.operands[0] = <char*>PyArray_DATA(<PyArrayObject*><PyObject*>mask)
    work.operands[1] = <char*>element
    work.operands[2], work.steps[2] = <char*>PyArray_DATA(x), slot.size
    _follow(&work, &slot.pace[BY_MASK])
    return True


cdef bint _mark_each(
    Operand owner, Slot* slot, PyArrayObject* x, Operand key, PyArrayObject* given
) except -1:
    """Write a vector's elements one by one where a mask is true; False where the method has to."""
    cdef npy_intp few[FEW_ENDS]
    cdef npy_intp size = _size(x, slot.least)
    cdef int width = _width_of(slot.size)
    cdef Work work
    if size < 0 or width < 0 or not _may_mark(owner, x, key):
        return False
    if PyArray_NDIM(given) != 1 or not _is_plain(<PyObject*>given) or _may_overlap(x, given):
        return False
    mask, held, also_held = key._native, <object>x, <object>given  # as in `_mark`
    cdef npy_intp* ends = _ends_for(&work, size, few)
    work.operands[0] = <char*>PyArray_DATA(<PyArrayObject*><PyObject*>mask)
    work.steps[0] = 1
    try:
        if _count_flags(&work) != PyArray_DIMS(given)[0]:
            return False
        work.stretch, work.data = _masked_stretch, <void*>corepy_masks.expand[width]
        work.operands[1], work.set_steps[1] = <char*>PyArray_DATA(given), slot.size
        work.operands[2], work.steps[2] = <char*>PyArray_DATA(x), slot.size
        _follow(&work, &slot.pace[EACH_BY_MASK])
    finally:
        if ends != few:
            PyMem_Free(ends)
    return True


# ---------------------------------------------------------------------------- choices


cdef object _short_choice(Slot* slot, PyObject* which, x1, x2):
    """Return elements of one operand or the other; one of them may be a Python scalar."""
    if not _is_array(which):
        return None
    if PyArray_TYPE(<PyArrayObject*>which) != NPY_BOOL:
        return None
    held = <object>which  # somebody else may put other memory into its Array meanwhile
    one, other = _array_or_element(slot, x1), _array_or_element(slot, x2)
    if one is None or other is None:
        return None
    cdef PyArrayObject** arrays = [
        <PyArrayObject*>which, <PyArrayObject*><PyObject*>one, <PyArrayObject*><PyObject*>other
    ]
    cdef npy_intp size = _size(arrays[0], slot.least)
    cdef int i
    if size < 0:
        return None
    made = _blended(slot, size, arrays[0], arrays[1], arrays[2])
    if made is None:
        made = _blended_anywhere(slot, arrays)
    if made is not None:
        return made
    for i in range(3):
        if _size(arrays[i], min(slot.least, <npy_intp>SHORT)) < 0:
            return None
    try:
        result = PyArray_Where(held, one, other)
    except ValueError as error:  # shapes that do not broadcast: the function says which
        let_through(error)
        return None
    return result if PyArray_TYPE(<PyArrayObject*>result) == slot.type_num else None


cdef inline object _array_or_element(Slot* slot, x):
    """Return NumPy's array in an `Array`, or a Python scalar as one; None for others."""
    if type(x) is not _Array:
        return _element(slot, x)
    native = (<Operand>x)._native
    return native if _is_array(<PyObject*>native) else None


cdef object _blended(
    Slot* slot, npy_intp size, PyArrayObject* which, PyArrayObject* x, PyArrayObject* y
):
    """Choose between contiguous arrays of one shape, or one element, that the caller holds; else None."""
    cdef int width = _width_of(slot.size), i
    cdef PyArrayObject** given = [x, y]
    cdef double room[2][2 * COREPY_CHOSEN]
    cdef Work work
    if width < 0 or not _is_plain(<PyObject*>which):
        return None
    for i in range(2):
        if PyArray_NDIM(given[i]) and not _same_shape(which, given[i]):
            return None
        if not _is_plain(<PyObject*>given[i]):
            return None
    memset(&work, 0, sizeof(Work))
    work.size, work.rows = size, (size + COREPY_CHOSEN - 1) // COREPY_CHOSEN
    work.stretch, work.data = _choice_stretch, <void*>corepy_masks.choose[width]
    work.operands[0], work.steps[0] = <char*>PyArray_DATA(which), 1
    for i in range(2):
        work.operands[i + 1], work.steps[i + 1] = <char*>PyArray_DATA(given[i]), slot.size
        if PyArray_NDIM(given[i]) == 0 and PyArray_NDIM(which):  # as many copies as are read at once
            _fill(
                <char*>room[i], min(size, <npy_intp>COREPY_CHOSEN), slot.size, work.operands[i + 1]
            )
            work.operands[i + 1], work.steps[i + 1] = <char*>room[i], 0
    result = _result(slot, which)
    work.operands[3], work.steps[3] = _data(result), slot.size
    _follow(&work, &slot.pace[BY_MASK])
    return result


cdef object _blended_anywhere(Slot* slot, PyArrayObject** arrays):
    """As `_blended` wherever arrays lie, and of rows and columns beside them; None for others."""
    cdef int width = _width_of(slot.size)
    cdef Work work
    if width < 0:
        return None
    memset(&work, 0, sizeof(Work))
    work.slot, work.count, work.steps[0] = slot, 4, 1
    work.loop, work.data = _choose, <void*>corepy_masks.choose[width]
    work.steps[1] = work.steps[2] = slot.size
    return _gridded(&work, arrays, slot.unrouted, True)


cdef void _choose(
    char** operands, const npy_intp* size, const npy_intp* steps, void* data
) noexcept nogil:
    """As a loop of NumPy's: choose between elements side by side, or one and others, by flags or one."""
    cdef double room[2][2 * COREPY_CHOSEN]
    cdef uint8_t flags[COREPY_CHOSEN]
    cdef char* places[3]
    cdef npy_intp item = steps[3], first = 0, some = min(size[0], <npy_intp>COREPY_CHOSEN)
    cdef int k
    for k in range(3):
        places[k] = operands[k]
    if steps[0] == 0:
        memset(flags, places[0][0], some)
        places[0] = <char*>flags
    for k in range(1, 3):
        if steps[k] == 0:
            _fill(<char*>room[k - 1], some, item, places[k])
            places[k] = <char*>room[k - 1]
    while first < size[0]:
        some = min(size[0] - first, <npy_intp>COREPY_CHOSEN)
        (<Choosing>data)(
            <const uint8_t*>places[0] + first * steps[0],
            some,
            places[1] + first * steps[1],
            places[2] + first * steps[2],
            operands[3] + first * item,
        )
        first += some


cdef void _choice_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp* steps = work.steps
    cdef npy_intp row, first
    for row in range(start, stop):
        first = row * COREPY_CHOSEN
        (<Choosing>work.data)(
            <const uint8_t*>work.operands[0] + first,
            min(<npy_intp>COREPY_CHOSEN, work.size - first),
            work.operands[1] + first * steps[1],
            work.operands[2] + first * steps[2],
            work.operands[3] + first * steps[3],
        )


# ---------------------------------------------------------------------------- places


cdef inline Flagging _flagging(int type_num, npy_intp size) noexcept:
    """Return what tells which elements of a dtype are not zero, NULL if nothing does."""
    if type_num == NPY_BOOL or PyTypeNum_ISINTEGER(type_num):
        if size == 8:
            return corepy_masks.flag_64
        if size == 4:
            return corepy_masks.flag_32
        return corepy_masks.flag_16 if size == 2 else corepy_masks.flag_8
    if type_num == NPY_DOUBLE:
        return corepy_masks.flag_double
    if type_num == NPY_FLOAT:
        return corepy_masks.flag_float
    if type_num == NPY_CDOUBLE:
        return corepy_masks.flag_doubles
    if type_num == NPY_CFLOAT:
        return corepy_masks.flag_floats
    return NULL


cdef object _finding_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Return the indices of the elements that are not zero."""
    cdef PyArrayObject* x
    if count != 1 or names != NULL:
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL:
        return None
    held = (<Operand>args[0])._native  # somebody else may let go of it meanwhile
    x = <PyArrayObject*><PyObject*>held
    if not _is_array(<PyObject*>x) or PyArray_NDIM(x) == 0:
        return None
    cdef npy_intp size = _size(x, slot.least)
    if size < 0:
        return None
    found = _found(slot, x, size)
    if found is None:
        if size >= SHORT:
            return None
        found = PyArray_Nonzero(x)
    return tuple([_make(indices, <Slots>slot.result) for indices in found])


cdef tuple _found(Slot* slot, PyArrayObject* x, npy_intp size):
    """Return where elements of a contiguous array are not zero, None for others."""
    cdef npy_intp few[FEW_ENDS]
    cdef npy_intp count
    cdef Work work
    cdef Flagging flags = _flagging(slot.type_num, slot.size)
    if flags == NULL or PyArray_NDIM(x) > MOST_DIMENSIONS or not _is_plain(<PyObject*>x):
        return None
    cdef npy_intp* ends = _ends_for(&work, size, few)
    work.operands[0], work.steps[0] = <char*>PyArray_DATA(x), slot.size
    work.data = NULL if slot.type_num == NPY_BOOL else <void*>flags
    try:
        count = _count_flags(&work)
        result = _new_large(slot.descr, 1, &count)
        work.stretch, work.operands[2] = _places_stretch, _data(result)
        _follow(&work, &slot.pace[0])
    finally:
        if ends != few:
            PyMem_Free(ends)
    return (result,) if PyArray_NDIM(x) == 1 else _unravelled(slot, x, result, count)


cdef tuple _unravelled(Slot* slot, PyArrayObject* x, places, npy_intp count):
    """Return the indices along each axis of places in the order of an array's elements.

    The last ones are put where the places are.
    """
    cdef long long* into[MOST_DIMENSIONS]
    cdef int last = PyArray_NDIM(x) - 1, k
    cdef Work work
    found = []
    for k in range(last + 1):
        found.append(_new_large(slot.descr, 1, &count) if k < last else places)
        into[k] = <long long*>_data(found[k])
    memset(&work, 0, sizeof(Work))
    work.stretch, work.size, work.rows = _unravel_stretch, count, (count + FLAGS - 1) // FLAGS
    work.count, work.operands[0] = last + 1, <char*>PyArray_DIMS(x)
    work.operands[1] = <char*>into
    held = <object><PyObject*>x
    _follow(&work, &_unravelling)
    return tuple(found)


cdef void _unravel_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp* dims = <npy_intp*>work.operands[0]
    cdef long long** into = <long long**>work.operands[1]
    cdef npy_intp index[MOST_DIMENSIONS]
    cdef npy_intp begin = 0, end = 0, place, rest, i  # of the row in which a place is
    cdef int last = work.count - 1, k
    for i in range(start * FLAGS, min(work.size, stop * FLAGS)):
        place = into[last][i]
        if place >= end:
            rest = place // dims[last]
            begin, end = rest * dims[last], (rest + 1) * dims[last]
            for k in range(last - 1, -1, -1):
                index[k] = rest % dims[k]
                rest //= dims[k]
        for k in range(last):
            into[k][i] = index[k]
        into[last][i] = place - begin
