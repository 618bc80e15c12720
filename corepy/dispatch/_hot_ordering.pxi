# Sorting, searching and sets.
# Included by _hot_compiled.pyx.

cdef extern from *:
    """
    /* Whether any float is so, by its bits: compared as floats these loops would not fill vector
       registers. The upper bit of `~(w | -w)` is set where `w` is zero. */
    #define COREPY_ANY(NAME, BITS, WORD, TEST) \
        static inline int NAME(const void* from, npy_intp size) { \
            const BITS* x = (const BITS*)from; \
            BITS found = 0; \
            for (npy_intp i = 0; i < size; i++) { \
                const BITS w = WORD; \
                found |= TEST; \
            } \
            return (int)(found >> (8 * sizeof(BITS) - 1)); \
        }
    #define COREPY_ANY_OF(TYPE, BITS, TOP, INFINITE) \
        COREPY_ANY(corepy_any_zero_##TYPE, BITS, x[i] << 1, ~(w | -w)) \
        COREPY_ANY(corepy_any_minus_##TYPE, BITS, x[i] ^ TOP, ~(w | -w)) \
        COREPY_ANY(corepy_any_nan_##TYPE, BITS, x[i] & ~TOP, INFINITE - w)
    COREPY_ANY_OF(double, uint64_t, 0x8000000000000000u, 0x7FF0000000000000u)
    COREPY_ANY_OF(float, uint32_t, 0x80000000u, 0x7F800000u)
    """
    bint corepy_any_zero_double(const void*, npy_intp) noexcept nogil
    bint corepy_any_zero_float(const void*, npy_intp) noexcept nogil
    bint corepy_any_nan_double(const void*, npy_intp) noexcept nogil
    bint corepy_any_nan_float(const void*, npy_intp) noexcept nogil
    bint corepy_any_minus_double(const void*, npy_intp) noexcept nogil
    bint corepy_any_minus_float(const void*, npy_intp) noexcept nogil


cdef inline bint _any_zero(const Real* x, npy_intp size) noexcept nogil:
    if Real is double:
        return corepy_any_zero_double(x, size)
    else:
        return corepy_any_zero_float(x, size)


cdef inline bint _any_nan(const Real* x, npy_intp size) noexcept nogil:
    if Real is double:
        return corepy_any_nan_double(x, size)
    else:
        return corepy_any_nan_float(x, size)


cdef inline bint _any_negative_zero(const Real* x, npy_intp size) noexcept nogil:
    if Real is double:
        return corepy_any_minus_double(x, size)
    else:
        return corepy_any_minus_float(x, size)


cdef inline bint _alike(PyArrayObject* x, int type_num, npy_intp size) noexcept:
    """Say whether elements that compare equal are the same, so that no order of them shows."""
    cdef void* data = PyArray_DATA(x)
    if type_num == NPY_DOUBLE:
        return not (corepy_any_nan_double(data, size) or corepy_any_minus_double(data, size))
    if type_num == NPY_FLOAT:
        return not (corepy_any_nan_float(data, size) or corepy_any_minus_float(data, size))
    return True


cdef inline npy_intp _begin_of(
    const Real* values, npy_intp first, npy_intp last, Real bound, bint above
) noexcept nogil:
    """Return where in a sorted vector begins what is not below a bound, or what is `above` it."""
    cdef npy_intp middle
    while first < last:
        middle = (first + last) // 2
        if values[middle] < bound or above and values[middle] == bound:
            first = middle + 1
        else:
            last = middle
    return first


cdef inline void _put_as_in(
    const Real* x, npy_intp size, Real* values, npy_intp first, npy_intp last, bint zeros
) noexcept nogil:
    """Put the zeros of a vector, or its NaN, in their order at places of another one."""
    cdef npy_intp i = 0, stop
    while first < last and i < size:
        stop = min(i + SOME, size)
        if not (_any_zero(x + i, stop - i) if zeros else _any_nan(x + i, stop - i)):
            i = stop
        while first < last and i < stop:  # without a branch on what an element is
            values[first] = x[i]
            first += x[i] == 0 if zeros else isnan(x[i]) != 0
            i += 1


cdef void _as_they_came(Real* values, const Real* x, npy_intp size) noexcept nogil:
    """Put the zeros and NaN of a sorted vector in the order in which they came.

    Of all other floats equal ones are the same, so that the quickest sorting may be taken, which
    changes signs of zeros and keeps no order of NaN.
    """
    cdef npy_intp numbers = size, first, last
    if size and isnan(values[size - 1]):
        numbers = _begin_of(values, 0, size, <Real>INFINITY, True)
        _put_as_in(x, size, values, numbers, size, False)
    first = _begin_of(values, 0, numbers, <Real>0, False)
    if first + 1 >= numbers or values[first + 1] > 0:
        return  # one zero at most
    last = _begin_of(values, first, numbers, <Real>0, True)
    if (last - first) * SOME < size or _any_negative_zero(x, size):
        _put_as_in(x, size, values, first, last, True)
    else:
        memset(values + first, 0, (last - first) * sizeof(Real))


cdef void _restore_order(
    Slot* slot, char* values, const char* x, npy_intp rows, npy_intp size
) noexcept nogil:
    """Do so in each row of a sorted array."""
    cdef npy_intp row
    for row in range(rows):
        if slot.type_num == NPY_DOUBLE:
            _as_they_came(<double*>values + row * size, <const double*>x + row * size, size)
        elif slot.type_num == NPY_FLOAT:
            _as_they_came(<float*>values + row * size, <const float*>x + row * size, size)


cdef bint _sorts_in_parts(
    Sorting* sorting, char* x, char* into, npy_intp size, PyArrayObject* array
) except -1:
    """Put a vector in order, elsewhere, in several threads; False if that is not worth it.

    A sample tells where parts begin. Each thread picks what is its own from among all elements, and
    nothing is merged.
    """
    if sorting.part == NULL or size < PARTED:
        return False
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.rows, work.size = _part_stretch, PARTS, size
    cdef double start = corepy_now()
    cdef int threads = _threads_for(&work, sorting.pace * size, start)
    if threads < 2:
        return False
    cdef double room[SAMPLE]  # for elements of 8 bytes at most
    cdef char* sample = <char*>room
    cdef npy_intp i, bytes = sorting.size
    for i in range(SAMPLE):  # evenly, but in step with nothing that repeats
        memcpy(sample + i * bytes, x + <npy_intp>(_spread(i) * size) * bytes, bytes)
    sorting.sort(sample, SAMPLE, <void*>array)
    _bound_by_numbers(sample, PyArray_TYPE(array))
    work.operands[0], work.operands[1], work.operands[2] = into, x, sample
    work.data = sorting
    work.operands[3] = <char*>array
    _do_together(&work, threads, start)
    return True


cdef void _bound_by_numbers(char* sample, int type_num) noexcept:
    """Put infinity in the place of NaN: nothing is below that, and so no part would be."""
    cdef double* d = <double*>sample
    cdef float* f = <float*>sample
    cdef npy_intp i = SAMPLE
    while i and type_num == NPY_DOUBLE and isnan(d[i - 1]):
        i -= 1
        d[i] = INFINITY
    while i and type_num == NPY_FLOAT and isnan(f[i - 1]):
        i -= 1
        f[i] = <float>INFINITY


cdef inline double _spread(npy_intp i) noexcept nogil:
    """Return the fractional part of a multiple of the golden ratio."""
    cdef double value = (i + 1) * 0.6180339887498949
    return value - <npy_intp>value


cdef void _part_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Sorting* sorting = <Sorting*>work.data
    cdef npy_intp part, first = 0, count, bytes = sorting.size
    cdef char* sample = work.operands[2]
    for part in range(start, stop):
        count = sorting.part(
            work.operands[1],
            work.size,
            sample + part * SAMPLE // PARTS * bytes if part else NULL,
            sample + (part + 1) * SAMPLE // PARTS * bytes if part < PARTS - 1 else NULL,
            work.operands[0],
            &first,
        )
        sorting.sort(work.operands[0] + first * bytes, count, work.operands[3])


cdef int _sort_vector(Sorting* sorting, PyArrayObject* array, npy_intp size) except -1:
    """Sort a vector in one thread, and take note of how long that takes where others may share it."""
    cdef bint is_shared = size >= PARTED and sorting.part != NULL
    cdef double start = corepy_now() if is_shared else 0.0
    PyArray_Sort(array, 0, NPY_QUICKSORT)
    if is_shared:
        _did_alone(size, &sorting.pace, start)
    return 0


cdef enum:
    FEW_IN_ORDER = 12  # elements up to which NumPy's stable sort is the quickest
    FEW_SMALL = 32  # integers of one and two bytes from which on it is, which goes by radix then


cdef inline object _sorted(Slot* slot, PyArrayObject* x, npy_intp size, int axis):
    """Return a copy in order; `axis` -1 flattens it."""
    cdef npy_intp dims[1]
    dims[0] = size
    held = <object>x
    made = _new_large(slot.descr, 1, dims) if axis < 0 else _result(slot, x)
    cdef PyArrayObject* order = <PyArrayObject*>made
    cdef int last = PyArray_NDIM(order) - 1
    cdef npy_intp length = PyArray_DIMS(order)[last]
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* into = <char*>PyArray_DATA(order)
    axis = max(axis, 0)
    cdef npy_intp number = PyArray_DIMS(order)[axis]
    cdef bint quickly = number > FEW_IN_ORDER if slot.size >= 4 else number < FEW_SMALL
    quickly = quickly and (axis == last or _alike(x, slot.type_num, size))
    if quickly and last == 0 and _sorts_in_parts(&slot.sorting, source, into, size, order):
        _restore_order(slot, into, source, 1, size)
        return made
    memcpy(into, source, size * slot.size)
    if not quickly:
        PyArray_Sort(order, axis, NPY_STABLESORT)
        return made
    if last == 0:
        _sort_vector(&slot.sorting, order, size)
    else:
        PyArray_Sort(order, axis, NPY_QUICKSORT)
    if axis == last and length and not (length < SOME and _alike(x, slot.type_num, size)):
        _restore_order(slot, into, source, size // length, length)
    return made


cdef enum:
    NO_ORDER = 0
    ASCENDING = 1
    DESCENDING = 2  # and no two elements equal


cdef inline int _order_in(const Ordered* x, npy_intp size) noexcept nogil:
    """Say whether two elements or more are in an order already, none of them NaN."""
    cdef npy_intp i = 1, stop
    cdef int rises = 1, falls = 1
    if size < 2:
        return NO_ORDER
    while i < size and rises | falls:  # as long as they are, which is mostly not long
        stop = min(i + SOME, size)
        while i < stop:
            rises &= x[i - 1] <= x[i]
            falls &= x[i - 1] > x[i]
            i += 1
    return ASCENDING if rises else DESCENDING if falls else NO_ORDER


cdef int _order_of(int type_num, const void* x, npy_intp size) noexcept nogil:
    if type_num == NPY_DOUBLE:
        return _order_in(<const double*>x, size)
    if type_num == NPY_FLOAT:
        return _order_in(<const float*>x, size)
    if type_num == NPY_INT32:
        return _order_in(<const int*>x, size)
    return _order_in(<const long long*>x, size) if type_num == NPY_INT64 else NO_ORDER


cdef object _ordered(Slot* slot, PyArrayObject* x, npy_intp size):
    """Return the stable order of each row; None where it has to be found in another way."""
    cdef npy_intp length = PyArray_DIMS(x)[PyArray_NDIM(x) - 1]
    if slot.pack == NULL or length < slot.order_least:
        return None
    made = _new_large(slot.descr, PyArray_NDIM(x), PyArray_DIMS(x))
    cdef const void* source = PyArray_DATA(x)
    cdef long long* words = <long long*>_data(made)
    cdef npy_intp rows = size // length, i
    cdef bint done
    cdef int cut, order = NO_ORDER
    if rows == 1:
        order = _order_of(slot.type_num, source, size)  # which merging would notice too
    if order != NO_ORDER:
        for i in range(size):
            words[i] = i if order == ASCENDING else size - 1 - i
        return made
    if size < LONG:
        cut = slot.pack(source, words, rows, length, False)
    else:
        with nogil:
            cut = slot.pack(source, words, rows, length, False)
    # In one thread: words that were written just now are in the cache of the processor that has.
    PyArray_Sort(<PyArrayObject*>made, PyArray_NDIM(x) - 1, NPY_QUICKSORT)
    if size < LONG:
        done = slot.unpack(source, words, rows, length, False, cut)
    else:
        with nogil:
            done = slot.unpack(source, words, rows, length, False, cut)
    return made if done else None


cdef object _ordered_across(Slot* slot, PyArrayObject* x, npy_intp size, int axis):
    """Do so along another axis than the last one: of rows that lie side by side, and back."""
    if slot.pack == NULL or PyArray_DIMS(x)[axis] < slot.order_least:
        return None
    turned = _with_last(x, axis)
    rows = _without_gaps(<PyArrayObject*><PyObject*>turned)
    if rows is None:
        return None
    made = _ordered(slot, <PyArrayObject*><PyObject*>rows, size)
    if made is None:
        return None
    turned = _with_last(<PyArrayObject*><PyObject*>made, axis)
    return _without_gaps(<PyArrayObject*><PyObject*>turned)


cdef object _with_last(PyArrayObject* x, int axis):
    """View an array with an axis and the last one in each other's place."""
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int last = PyArray_NDIM(x) - 1
    memcpy(dims, PyArray_DIMS(x), (last + 1) * sizeof(npy_intp))
    memcpy(strides, PyArray_STRIDES(x), (last + 1) * sizeof(npy_intp))
    dims[axis], dims[last] = dims[last], dims[axis]
    strides[axis], strides[last] = strides[last], strides[axis]
    return _view(x, last + 1, dims, strides, <char*>PyArray_DATA(x))


cdef inline bint _ascend(PyArrayObject* x, PyArrayObject* order, int type_num, npy_intp size) noexcept:
    """Say whether floats in some order ascend, no two of them equal and none NaN."""
    cdef npy_intp i
    cdef npy_intp* at = <npy_intp*>PyArray_DATA(order)
    cdef double* d = <double*>PyArray_DATA(x)
    cdef float* f = <float*>PyArray_DATA(x)
    for i in range(size - 1):
        if type_num == NPY_DOUBLE:
            if not d[at[i]] < d[at[i + 1]]:
                return False
        elif not f[at[i]] < f[at[i + 1]]:
            return False
    return True


cdef inline void _turn_items(Chunk* x, npy_intp rows, npy_intp length) noexcept nogil:
    cdef npy_intp row, i
    cdef Chunk* last
    for row in range(rows):
        last = x + length - 1
        for i in range(length // 2):
            x[i], last[-i] = last[-i], x[i]
        x += length


cdef void _turn_round(PyArrayObject* x, npy_intp size) noexcept nogil:
    """Turn each row of a contiguous array round."""
    cdef npy_intp length = PyArray_DIMS(x)[PyArray_NDIM(x) - 1], item = PyArray_ITEMSIZE(x)
    cdef void* data = PyArray_DATA(x)
    cdef npy_intp rows = size // length if length else 0
    if item == 8:
        _turn_items(<long long*>data, rows, length)
    elif item == 4:
        _turn_items(<int*>data, rows, length)
    elif item == 2:
        _turn_items(<short*>data, rows, length)
    else:
        _turn_items(<signed char*>data, rows, length)


cdef object _turned_round(PyArrayObject* x):
    """Copy an array, each row in the opposite order; None where there is no memory."""
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int last = PyArray_NDIM(x) - 1
    memcpy(strides, PyArray_STRIDES(x), (last + 1) * sizeof(npy_intp))
    cdef char* data = <char*>PyArray_DATA(x) + max(PyArray_DIMS(x)[last] - 1, 0) * strides[last]
    strides[last] = -strides[last]
    view = _view(x, last + 1, PyArray_DIMS(x), strides, data)
    return _without_gaps(<PyArrayObject*><PyObject*>view)


cdef inline npy_intp _least_to_sort(Slot* slot, PyArrayObject* x) noexcept:
    """Return from how many elements the entry has the choice; routes are of vectors alone."""
    return slot.least if PyArray_NDIM(x) == 1 else slot.leasts[ROWS]


cdef object _ordering_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Sort along an axis, or find the indices that would; equal elements stay in order.

    In descending order they do if both what is sorted and the result are turned round.
    """
    cdef PyObject** words = [NULL, Py_False, Py_True]
    cdef npy_intp size, i
    cdef npy_intp* places
    cdef int axis
    if count != 1 or not _words(args, 1, names, ("axis", "descending", "stable"), words):
        return None
    if words[1] != Py_False and words[1] != Py_True:
        return None
    if words[2] != Py_True and words[2] != Py_False:
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL or not _is_array(<PyObject*>_native_of(args[0])):
        return None
    native = (<Operand>args[0])._native  # sorting lets other threads run
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>native
    cdef bint falls = words[1] == Py_True
    axis = _axis_of(words[0], PyArray_NDIM(x), -1)
    size = _size(x, max(_least_to_sort(slot, x), slot.first))
    if axis < 0 or size < 0 or PyArray_NDIM(x) > MOST_DIMENSIONS:
        return None
    if words[2] == Py_False and self.place != _SORT and size >= LONG:
        return None  # of fewer elements the stable order is found as soon
    if falls and axis != PyArray_NDIM(x) - 1:
        return None
    # What lies by columns is sorted as its transpose, whose axes stand the other way round.
    cdef bint turned = not falls and not _is_plain(<PyObject*>x) and _lies_by_columns(x)
    if turned:
        native = _reversed(x)
        x = <PyArrayObject*><PyObject*>native
        axis = PyArray_NDIM(x) - 1 - axis
    elif falls or not _is_plain(<PyObject*>x):
        if not falls and size >= LONG and PyArray_NDIM(x) > 1:
            return None
        native = _turned_round(x) if falls else _without_gaps(x)
        if native is None:
            return None
        x = <PyArrayObject*><PyObject*>native
    made = _sorted(slot, x, size, axis) if self.place == _SORT else _order(slot, x, size, axis)
    if made is None:
        return None
    if turned:
        return _make(_reversed(<PyArrayObject*><PyObject*>made), <Slots>slot.result)
    if falls:
        _turn_round(<PyArrayObject*><PyObject*>made, size)
        if self.place != _SORT:
            places = <npy_intp*>_data(made)
            for i in range(size):
                places[i] = PyArray_DIMS(x)[axis] - 1 - places[i]
    return _make(made, <Slots>slot.result)


cdef object _order(Slot* slot, PyArrayObject* x, npy_intp size, int axis):
    """Return the stable order along an axis of a contiguous array, None where the entry has to."""
    if size:
        if axis == PyArray_NDIM(x) - 1:
            made = _ordered(slot, x, size)
        else:
            made = _ordered_across(slot, x, size, axis)
        if made is not None:
            return made
    if size == 0 or _least_to_sort(slot, x) <= size:
        return None  # NumPy words what it cannot hold, sizes of 0 aside, in its own way
    cdef int type_num = slot.type_num
    cdef bint floats = type_num == NPY_DOUBLE or type_num == NPY_FLOAT
    if slot.pack == NULL and floats and size >= SOME and PyArray_NDIM(x) == 1:
        # Of numbers that all differ there is but one order, which NumPy finds sooner if it need not
        # be stable.
        made = PyArray_ArgSort(x, axis, NPY_QUICKSORT)
        if _is_plain(<PyObject*>made) and _ascend(x, <PyArrayObject*>made, type_num, size):
            return made
    made = PyArray_ArgSort(x, axis, NPY_STABLESORT)
    return made if _is_plain(<PyObject*>made) else None


cdef str _left = "left"
cdef str _right = "right"


cdef object _searching_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Find where elements stand in a sorted array of the same table."""
    cdef PyObject** words = [<PyObject*>_left, Py_None]
    cdef NPY_SEARCHSIDE side = NPY_SEARCHLEFT
    cdef Py_ssize_t i
    if count != 2 or not _words(args, count, names, ("side", "sorter"), words):
        return None
    cdef PyObject* order = words[1]
    if words[0] != <PyObject*>_left:
        if words[0] != <PyObject*>_right:
            return None
        side = NPY_SEARCHRIGHT
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL or args[1].ob_type != <void*>_Array:
        return None
    x, values = <Operand>args[0], <Operand>args[1]
    if x._table is not values._table:
        return None
    # Held: another thread may put other memory into an Array while NumPy searches.
    held, also_held = _side_by_side(<PyObject*>x._native), _side_by_side(<PyObject*>values._native)
    if held is None or also_held is None:
        return None
    cdef PyArrayObject* a = <PyArrayObject*><PyObject*>held
    cdef PyArrayObject* b = <PyArrayObject*><PyObject*>also_held
    if PyArray_NDIM(a) != 1:
        return None
    if _size(a, slot.least) < 0 or _size(b, slot.least) < 0:
        return None
    cdef npy_intp* places = NULL
    sorter = None
    if order != Py_None:
        places = _counts(args[0], order, PyArray_DIMS(a)[0])
        if places == NULL:
            return None
        for i in range(PyArray_DIMS(a)[0]):  # NumPy looks at some of them
            if not 0 <= places[i] < PyArray_DIMS(a)[0]:
                return None
        sorter = (<Operand>order)._native
    made = PyArray_SearchSorted(
        a, also_held, side, NULL if sorter is None else <PyObject*>sorter
    )
    return _make(made, <Slots>slot.result) if _is_plain(<PyObject*>made) else None


ctypedef fused Element:
    signed char
    short
    int
    long long
    float
    double


cdef inline npy_intp _distinct(Element* x, npy_intp size) noexcept:
    """Move the first of equal neighbours to the front; return how many there are."""
    cdef npy_intp i, count = 1
    for i in range(1, size):
        if x[i] != x[i - 1]:
            x[count] = x[i]
            count += 1
    return count


cdef object _distinct_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Sort, and keep the first of equal elements."""
    cdef npy_intp size
    cdef npy_intp dims[1]
    if count != 1 or names != NULL:
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    held = None if slot == NULL else _side_by_side(<PyObject*>_native_of(args[0]))
    if held is None:
        return None
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    size = _size(x, max(slot.least, slot.first))
    if size < 1:
        return None
    found = _sorted(slot, x, size, -1)
    cdef npy_intp all = size
    cdef void* data = _data(found)
    if slot.type_num == NPY_DOUBLE:
        size = _distinct(<double*>data, size)
    elif slot.type_num == NPY_FLOAT:
        size = _distinct(<float*>data, size)
    elif slot.size == 8:
        size = _distinct(<long long*>data, size)
    elif slot.size == 4:
        size = _distinct(<int*>data, size)
    elif slot.size == 2:
        size = _distinct(<short*>data, size)
    else:
        size = _distinct(<signed char*>data, size)
    if size == all:
        return _make(found, <Slots>slot.result)
    dims[0] = size
    made = _new_large(slot.descr, 1, dims)
    memcpy(_data(made), data, size * slot.size)
    return _make(made, <Slots>slot.result)
