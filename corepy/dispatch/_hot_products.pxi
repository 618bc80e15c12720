# Products, by the inner loops of NumPy's generalized ufuncs.
# Included by _hot_compiled.pyx.
#
# These loops get the sizes of the dimensions that they work on, and their strides.


cdef bint _core_calls(
    Slot* slot, bint second, char** args, npy_intp* dims, npy_intp* steps, double work=INFINITY
) except -1:
    """Call a loop that adds up so many products; False if its result is not to be used."""
    cdef PyUFuncGenericFunction loop = slot.second if second else slot.loop
    cdef void* data = slot.second_data if second else slot.data
    corepy_no_flags()
    if work < SHORT:
        loop(args, dims, steps, data)
    else:
        with nogil:
            loop(args, dims, steps, data)
    if PyErr_Occurred() != NULL:
        PyErr_Clear()
        return False
    return not corepy_flags()


cdef inline double _products(npy_intp* dims) noexcept:
    """Return how many products of elements make up those of matrices."""
    return <double>dims[0] * <double>dims[1] * <double>dims[2] * <double>dims[3]


cdef inline PyArrayObject* _operand(PyObject* x, Slots table, npy_intp least) noexcept:
    """Return the small, contiguous native array of an `Array` of a table, NULL for others."""
    if x.ob_type != <void*>_Array or (<Operand>x)._table is not table:
        return NULL
    cdef PyArrayObject* native = _native_of(x)
    return native if _is_plain(<PyObject*>native) and _size(native, least) >= 0 else NULL


# ---------------------------------------------------------------------------- products


cdef Slot* _slot_of_product(PyObject* x, int place) except? NULL:
    """As `_slot_of`, NULL too where `corepy.autocast` rounds the operands: the entry does that."""
    cdef Slot* slot = _slot_of(x, place)
    if slot == NULL or slot.type_num != NPY_FLOAT or not _rounds or AUTOCAST.get() is None:
        return slot
    return NULL


# OpenBLAS computes a product of some size in all threads, which takes it longer than one thread
# where matrices are long and narrow, and where one is a vector. Block by block it takes one for each.
# Where a vector weighs rows that lie in memory one after the other, blocks are of some of these rows,
# and what they come to is added up. Loops of our own weigh all but short ones: BLAS adds to nothing
# that is there. Others multiply each row by a vector, of which BLAS gets few at a time.

cdef struct Blocks:
    npy_intp dims[4]  # as NumPy's loop takes them, of the whole
    npy_intp steps[9]
    npy_intp length, width  # of the result: how many rows there are, and elements in each
    bint across  # or columns
    npy_intp each  # rows of a block
    npy_intp count
    bint weighs  # whether they are rows to be weighed
    bint dots  # or rows that are multiplied by a vector each
    npy_intp tiles  # parts of a row that are weighed apart


cdef object _matrix_product(Slot* slot, PyArrayObject* x, PyArrayObject* y):
    """Multiply matrices or vectors that the caller holds, None where the entry has to."""
    cdef Blocks product
    cdef npy_intp* dims = product.dims
    cdef npy_intp* steps = product.steps
    cdef char* args[3]
    cdef npy_intp shape[MOST_DIMENSIONS]
    # A vector is a row on the left and a column on the right; the loop gets no stride beside it.
    cdef int rows = PyArray_NDIM(x) - 1, columns = PyArray_NDIM(y) - 1, i
    if columns > 1 or rows > 1 and columns and not PyArray_FLAGS(x) & NPY_ARRAY_C_CONTIGUOUS:
        return _stacked_product(slot, x, y)
    if not 0 <= rows < MOST_DIMENSIONS or columns < 0:
        return None
    # All rows of a stack are one matrix's, beside a matrix that is none; but not complex ones, which
    # OpenBLAS rounds in another order where there are more rows.
    cdef bint apart = _is_complex(slot.type_num)
    if rows > 1 and not (columns and PyArray_FLAGS(x) & NPY_ARRAY_C_CONTIGUOUS):
        return None
    if PyArray_DIMS(x)[rows] != PyArray_DIMS(y)[0]:
        return None
    if not PyArray_FLAGS(x) & PyArray_FLAGS(y) & NPY_ARRAY_ALIGNED:
        return None
    dims[0], dims[1], dims[2] = 1, 1, PyArray_DIMS(y)[0]
    for i in range(rows):
        dims[0 if apart and i < rows - 1 else 1] *= PyArray_DIMS(x)[i]
        shape[i] = PyArray_DIMS(x)[i]
    dims[3] = shape[rows] = PyArray_DIMS(y)[1] if columns else 1
    steps[1] = 0
    steps[3], steps[4] = PyArray_STRIDES(x)[rows - 1] if rows else 0, PyArray_STRIDES(x)[rows]
    if rows > 1:  # which lie one after the other; the stride of an axis of one element is anything
        steps[3] = dims[2] * slot.size
    steps[5], steps[6] = PyArray_STRIDES(y)[0], PyArray_STRIDES(y)[1] if columns else 0
    steps[7] = (dims[3] if columns else 1) * slot.size if rows else 0
    steps[8] = slot.size if columns else 0
    steps[0], steps[2] = dims[1] * steps[3], dims[1] * steps[7]  # from matrix to matrix
    # No routes lead elsewhere from a product with a vector, and threads of BLAS multiply two vectors
    # well. With a matrix they may be in each other's way; but none of them multiplies integers, and
    # complex numbers have no loops of ours to be multiplied by instead.
    cdef bint best = rows == 0 and columns == 0
    if slot.wide:
        return _product_of_integers(slot, x, y, rows + columns, shape, &product)
    if apart or PyTypeNum_ISINTEGER(slot.type_num):
        best = rows == 0 or columns == 0
    if not PyTypeNum_ISINTEGER(slot.type_num) and _is_reproducible():
        best = False
    cdef npy_intp least = PY_SSIZE_T_MAX if best else slot.least
    cdef bint whole = _size(x, least) >= 1 and _size(y, least) >= 1
    packed = None
    if not whole:
        if max(dims[1], dims[3]) > VECTOR_ALONE // max(dims[2], 1):
            # A vector with gaps is no large part of what is read.
            if columns == 0 and rows and steps[5] != slot.size:
                packed = _without_gaps(y)
                if packed is None:
                    return None
                y, steps[5] = <PyArrayObject*>packed, slot.size
            elif rows == 0 and columns and steps[4] != slot.size:
                packed = _without_gaps(x)
                if packed is None:
                    return None
                x, steps[4] = <PyArrayObject*>packed, slot.size
        if not _falls_into_blocks(slot, &product):
            if columns == 0 or rows == 0 or not _is_unhindered(slot, x, y):
                return None
            whole = True
    made = _new_if_any(slot.descr, rows + columns, shape)
    if made is None:
        return None
    args[0], args[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y)
    args[2] = _data(made)
    if whole or product.count == 1 and not product.weighs and not product.dots:
        return made if _core_calls(slot, False, args, dims, steps, _products(dims)) else None
    if product.weighs:
        return made if _weigh_rows(slot, &product, args) else None
    if product.dots:
        return made if _dot_rows(slot, &product, args) else None
    return made if _block_by_block(slot, &product, args) else None


cdef object _product_of_integers(
    Slot* slot, PyArrayObject* x, PyArrayObject* y, int ndim, npy_intp* shape, Blocks* product
):
    """Multiply in threads of ours, None where others may have a shorter way with so many."""
    cdef npy_intp* dims = product.dims
    cdef npy_intp each
    cdef char* args[3]
    cdef double work = _products(dims)
    product.across = dims[3] > dims[1]
    product.length, product.width = max(dims[1], dims[3]), min(dims[1], dims[3])
    product.weighs = product.dots = False
    # Each packs the panels that it multiplies by, so that blocks of many rows are best.
    each = min(max(product.length // STRETCHES, INTEGER_ROWS), LONG_BLOCK)
    each = (each + INTEGER_ROWS - 1) // INTEGER_ROWS * INTEGER_ROWS
    if work < INTEGERS_ALONE:
        each = max(product.length, 1)
    product.each, product.count = each, (product.length + each - 1) // each
    cdef npy_intp least = PY_SSIZE_T_MAX if work < slot.first else slot.least
    if _size(x, least) < 1 or _size(y, least) < 1:
        return None
    made = _new_if_any(slot.descr, ndim, shape)
    if made is None:
        return None
    args[0], args[1], args[2] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y), _data(made)
    if product.count > 1:
        return made if _block_by_block(slot, product, args) else None
    if work >= 2 * INTEGERS_ALONE:
        return made if _part_by_part(slot, product, args) else None
    return made if _core_calls(slot, False, args, dims, product.steps, work) else None


cdef bint _part_by_part(Slot* slot, Blocks* product, char** args) except -1:
    """Multiply in several threads some of the columns by as many rows; add up what they come to.

    Integers come to the same in any order. False if the result is not to be used.
    """
    cdef Work work
    cdef npy_intp* dims = product.dims
    cdef npy_intp shape[2]
    cdef npy_intp of_result = dims[1] * dims[3]
    product.each = max(INTEGERS_ALONE // of_result, (dims[2] + INTEGER_PARTS - 1) // INTEGER_PARTS)
    product.count = (dims[2] + product.each - 1) // product.each
    shape[0], shape[1] = product.count, of_result
    held = _new_if_any(slot.descr, 2, shape)
    if held is None:
        return False
    memset(&work, 0, sizeof(Work))
    work.stretch, work.slot, work.data, work.rows = _deep_stretch, slot, product, product.count
    work.operands[0], work.operands[1], work.operands[2] = args[0], args[1], _data(held)
    _do(&work, dims[2] * (dims[1] + dims[3] + of_result // 8), &slot.pace[COLUMNS])
    import numpy

    total = numpy.add.reduce(held, 0, held.dtype)
    memcpy(args[2], _data(total), of_result * slot.size)
    return not corepy_all_flags()


cdef void _deep_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Blocks* product = <Blocks*>work.data
    cdef npy_intp part, first
    cdef npy_intp dims[4]
    cdef npy_intp steps[9]
    cdef char* args[3]
    memcpy(dims, product.dims, sizeof(dims))
    memcpy(steps, product.steps, sizeof(steps))
    steps[7], steps[8] = dims[3] * work.slot.size, work.slot.size
    for part in range(start, stop):
        first = part * product.each
        dims[2] = min(product.each, product.dims[2] - first)
        args[0] = work.operands[0] + first * steps[4]
        args[1] = work.operands[1] + first * steps[5]
        args[2] = work.operands[2] + part * dims[1] * dims[3] * work.slot.size
        work.slot.loop(args, dims, steps, work.slot.data)


cdef object _asked = None  # whether anybody is in the way of threads of BLAS


cdef bint _is_unhindered(Slot* slot, PyArrayObject* x, PyArrayObject* y) except -1:
    """Say whether the entry would do nothing but call BLAS with all its threads."""
    global _asked
    if _size(x, slot.hindered) < 1 or _size(y, slot.hindered) < 1:
        return False
    if _asked is None:
        from corepy.dispatch._considerate import unhindered as _asked
    return _asked()


cdef object _stacked_product(Slot* slot, PyArrayObject* x, PyArrayObject* y):
    """Multiply matrices one by one, of which others stand beside each other; None as elsewhere."""
    cdef Blocks product
    cdef npy_intp* dims = product.dims
    cdef npy_intp* steps = product.steps
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef char* args[3]
    cdef int ndim = max(PyArray_NDIM(x), PyArray_NDIM(y)), of_x = PyArray_NDIM(x), of_y = PyArray_NDIM(y)
    cdef int i
    if ndim > MOST_DIMENSIONS or min(of_x, of_y) < 2:
        return None
    if not PyArray_FLAGS(x) & PyArray_FLAGS(y) & NPY_ARRAY_ALIGNED:
        return None
    dims[0], dims[1], dims[2] = 1, PyArray_DIMS(x)[of_x - 2], PyArray_DIMS(x)[of_x - 1]
    dims[3] = shape[ndim - 1] = PyArray_DIMS(y)[of_y - 1]
    shape[ndim - 2] = dims[1]
    if dims[2] != PyArray_DIMS(y)[of_y - 2] or min(dims[1], min(dims[2], dims[3])) < 1:
        return None
    for i in range(ndim - 2):
        shape[i] = PyArray_DIMS(x)[i] if ndim == of_x else PyArray_DIMS(y)[i]
        dims[0] *= shape[i]
    if dims[0] < 1 or not _lies_in_stack(x, ndim, shape, &steps[0]):
        return None
    if not _lies_in_stack(y, ndim, shape, &steps[1]):
        return None
    steps[3], steps[4] = PyArray_STRIDES(x)[of_x - 2], PyArray_STRIDES(x)[of_x - 1]
    steps[5], steps[6] = PyArray_STRIDES(y)[of_y - 2], PyArray_STRIDES(y)[of_y - 1]
    steps[8], steps[7] = slot.size, dims[3] * slot.size
    steps[2] = dims[1] * steps[7]
    # As elsewhere, threads of BLAS would be in each other's way; and it takes one for each of these,
    # but not where NumPy sees a matrix beside its own transpose.
    cdef bint shared = slot.blocks and (slot.type_num == NPY_FLOAT or slot.type_num == NPY_DOUBLE)
    cdef npy_intp alone = VECTOR_ALONE if dims[1] == 1 or dims[3] == 1 else BLAS_ALONE
    shared = shared and PyArray_DATA(x) != PyArray_DATA(y)
    shared = shared and not _is_reproducible()
    shared = shared and dims[1] <= alone // dims[2] and dims[3] <= alone // dims[2] // dims[1]
    shared = shared or slot.wide
    if not shared and (_size(x, slot.least) < 1 or _size(y, slot.least) < 1):
        return None
    made = _new_if_any(slot.descr, ndim, shape)
    if made is None:
        return None
    args[0], args[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y)
    args[2] = _data(made)
    if not shared or dims[0] < 2:
        return made if _core_calls(slot, False, args, dims, steps, _products(dims)) else None
    return made if _one_by_one(slot, &product, args) else None


cdef bint _lies_in_stack(PyArrayObject* x, int ndim, npy_intp* shape, npy_intp* step) noexcept:
    """Find how far from each other matrices lie in memory, 0 for a single one; False if that varies."""
    cdef int more = ndim - PyArray_NDIM(x), i
    cdef bint each = True, single = True
    cdef npy_intp size
    for i in range(ndim - 2):
        size = PyArray_DIMS(x)[i - more] if i >= more else 1
        each = each and size == shape[i]
        single = single and size == 1
    if each:
        return _is_even(x, 0, PyArray_NDIM(x) - 2, step)
    step[0] = 0
    return single


cdef bint _one_by_one(Slot* slot, Blocks* product, char** args) except -1:
    """Multiply stacked matrices in several threads; False if the result is not to be used."""
    cdef Work work
    cdef npy_intp* dims = product.dims
    memset(&work, 0, sizeof(Work))
    work.stretch, work.slot, work.data, work.rows = _stack_stretch, slot, product, dims[0]
    work.operands[0], work.operands[1], work.operands[2] = args[0], args[1], args[2]
    cdef npy_intp each = dims[1] * dims[2] + dims[2] * dims[3] + dims[1] * dims[3]  # as for blocks
    _do(&work, dims[0] * (each + dims[1] * dims[2] * dims[3] // 8), &slot.pace[ROWS])
    return not corepy_all_flags()


cdef void _stack_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Blocks* product = <Blocks*>work.data
    cdef npy_intp dims[4]
    cdef char* args[3]
    cdef int k
    memcpy(dims, product.dims, sizeof(dims))
    dims[0] = stop - start
    for k in range(3):
        args[k] = work.operands[k] + start * product.steps[k]
    work.slot.loop(args, dims, product.steps, work.slot.data)


cdef object _without_gaps(PyArrayObject* x):
    """Copy an array to where its elements lie side by side, None where there is no memory."""
    made = _new_if_any(PyArray_DESCR(x), PyArray_NDIM(x), PyArray_DIMS(x))
    if made is not None:
        _copy_over(<PyArrayObject*>made, x)
    return made


cdef bint _falls_into_blocks(Slot* slot, Blocks* product) except -1:
    """Say whether blocks of a product of floats are for one thread of BLAS each, and divide it."""
    cdef npy_intp* dims = product.dims
    cdef npy_intp* steps = product.steps
    cdef npy_intp size = slot.size
    if not slot.blocks or slot.type_num != NPY_FLOAT and slot.type_num != NPY_DOUBLE:
        return False
    if steps[3] != size and steps[4] != size or steps[5] != size and steps[6] != size:
        return False  # NumPy has copies made, or takes no BLAS
    cdef npy_intp width = min(dims[1], dims[3])
    if width < 1 or dims[2] < 1 or _is_reproducible():
        return False
    product.across = dims[3] > dims[1]
    product.length, product.width = max(dims[1], dims[3]), width
    product.weighs = product.dots = False
    if width > 1:
        if dims[2] > BLAS_ALONE or width > BLAS_ALONE // (BLOCK * dims[2]):
            return False
        product.each = min(LONG_BLOCK, BLAS_ALONE // (width * dims[2]))
    else:
        # OpenBLAS raises flags there now and then that nothing in the operands gives rise to: then
        # the entry computes again.
        if product.length < 2 or product.length <= VECTOR_ALONE // dims[2]:
            return False
        product.weighs = (steps[6] if product.across else steps[3]) == size
        if product.weighs:
            if slot.weighing == NULL:
                return False
            product.each = max(WEIGHED_ROWS, WEIGHED // product.length)
            if product.length < FEW_COLUMNS:
                product.each = VECTOR_ALONE // product.length
            product.count = (dims[2] + product.each - 1) // product.each
            product.tiles = (product.length + WEIGHED_COLUMNS - 1) // WEIGHED_COLUMNS
            return True
        product.dots = slot.dotting != NULL and dims[2] >= DOTTED_LONG
        product.dots = product.dots and steps[4] == size and steps[5] == size
        if product.dots:
            product.each = max(1, DOTTED // dims[2] // DOTTED_ROWS) * DOTTED_ROWS
            if product.length < 4 * DOTTED_ROWS:  # for each thread some
                product.each = 1
        else:
            product.each = min(LONG_BLOCK, VECTOR_ALONE // dims[2])
        if product.each < 1:
            return False
    product.count = (product.length + product.each - 1) // product.each
    return True


cdef bint _block_by_block(Slot* slot, Blocks* product, char** args) except -1:
    """Multiply in several threads; False if the result is not to be used."""
    cdef Work work
    cdef npy_intp deep = product.dims[2]
    memset(&work, 0, sizeof(Work))
    work.stretch, work.slot, work.data, work.rows = _block_stretch, slot, product, product.count
    work.operands[0], work.operands[1], work.operands[2] = args[0], args[1], args[2]
    # As long as to read or write an element takes to add eight products or so.
    cdef npy_intp each = deep + product.width + deep * product.width // 8
    _do(&work, product.length * each, &slot.pace[ROWS])
    return not corepy_all_flags()


cdef void _block_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Blocks* product = <Blocks*>work.data
    cdef int place = 3 if product.across else 1
    cdef npy_intp block, first
    cdef npy_intp dims[4]
    cdef char* args[3]
    memcpy(dims, product.dims, sizeof(dims))
    for block in range(start, stop):
        first = block * product.each
        dims[place] = min(product.each, product.length - first)
        args[0], args[1] = work.operands[0], work.operands[1]
        if product.across:
            args[1] += first * product.steps[6]
            args[2] = work.operands[2] + first * product.steps[8]
        else:
            args[0] += first * product.steps[3]
            args[2] = work.operands[2] + first * product.steps[7]
        work.slot.loop(args, dims, product.steps, work.slot.data)


cdef bint _weigh_rows(Slot* slot, Blocks* product, char** args) except -1:
    """Multiply a vector and a matrix in several threads; False if the result is not to be used."""
    cdef Work work
    cdef npy_intp count = product.count * product.length
    memset(&work, 0, sizeof(Work))
    work.stretch, work.slot, work.data = _weighing_stretch, slot, product
    work.rows = product.count * product.tiles
    # The matrix, the weights, and where what some of the rows come to is put.
    work.operands[0], work.operands[1] = args[product.across], args[1 - product.across]
    work.operands[2] = args[2]
    if product.count > 1:
        held = _new_if_any(slot.descr, 1, &count)
        if held is None:
            return False
        work.operands[2] = _data(held)
    _do(&work, product.length * product.dims[2], &slot.pace[COLUMNS])
    if product.count > 1:
        count = product.length
        memcpy(args[2], work.operands[2], count * slot.size)
        slot.column_loop(
            args[2], work.operands[2] + count * slot.size, product.count - 1, count, count
        )
    return not corepy_all_flags()


cdef void _weighing_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Blocks* product = <Blocks*>work.data
    cdef npy_intp size = work.slot.size
    cdef npy_intp step = product.steps[5 if product.across else 4]
    cdef npy_intp apart = product.steps[4 if product.across else 5]
    cdef npy_intp task, first, column, columns
    cdef npy_intp dims[4]
    cdef char* into
    cdef char* args[3]
    memcpy(dims, product.dims, sizeof(dims))
    for task in range(start, stop):
        first = task // product.tiles * product.each
        if product.length < FEW_COLUMNS:
            dims[2] = min(product.each, product.dims[2] - first)
            args[product.across] = work.operands[0] + first * step
            args[1 - product.across] = work.operands[1] + first * apart
            args[2] = work.operands[2] + task * product.length * size
            work.slot.loop(args, dims, product.steps, work.slot.data)
            continue
        column = task % product.tiles * WEIGHED_COLUMNS
        columns = min(product.length - column, WEIGHED_COLUMNS)
        into = work.operands[2] + (task // product.tiles * product.length + column) * size
        memset(into, 0, columns * size)
        work.slot.weighing(
            into,
            work.operands[0] + first * step + column * size,
            work.operands[1] + first * apart,
            min(product.each, product.dims[2] - first),
            step // size,
            apart // size,
            columns,
        )


cdef bint _dot_rows(Slot* slot, Blocks* product, char** args) except -1:
    """Multiply rows by a vector in several threads; False if the result is not to be used."""
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.slot, work.data, work.rows = _dotting_stretch, slot, product, product.count
    # The matrix, the vector, and the results.
    work.operands[0], work.operands[1] = args[product.across], args[1 - product.across]
    work.operands[2] = args[2]
    _do(&work, product.length * product.dims[2], &slot.pace[ROWS])
    return not corepy_all_flags()


cdef void _dotting_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Blocks* product = <Blocks*>work.data
    cdef npy_intp step = product.steps[6 if product.across else 3], first = start * product.each
    work.slot.dotting(
        work.operands[2] + first * work.slot.size,
        work.operands[0] + first * step,
        work.operands[1],
        min((stop - start) * product.each, product.length - first),
        step // work.slot.size,
        product.dims[2],
    )


cdef object _short_product(PyObject* a, PyObject* b, int place):
    """Multiply two small matrices of one table, None where the function has to."""
    cdef Slot* slot = _slot_of_product(a, place)
    if slot == NULL or b.ob_type != <void*>_Array:
        return None
    table = (<Operand>a)._table
    if (<Operand>b)._table is not table:
        return None
    # Held: another thread may put other memory into an Array while the loop runs.
    x, y = (<Operand>a)._native, (<Operand>b)._native
    if not _is_array(<PyObject*>x) or not _is_array(<PyObject*>y):
        return None
    made = _matrix_product(slot, <PyArrayObject*>x, <PyArrayObject*>y)
    return None if made is None else _make(made, table)


cdef object _product_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Multiply two matrices."""
    return _short_product(args[0], args[1], self.place) if count == 2 and names == NULL else None


cdef object _contraction_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Contract one axis of two vectors or matrices, or all of two arrays alike: products of these."""
    cdef PyObject* axes = NULL
    cdef long number = 2
    if count != 2 or not _words(args, count, names, ("axes",), &axes):
        return None
    if axes != NULL and not _whole(axes, &number) or number < 1:
        return None
    cdef Slot* slot = _slot_of_product(args[0], self.place)
    if slot == NULL or args[1].ob_type != <void*>_Array:
        return None
    x, y = <Operand>args[0], <Operand>args[1]
    if x._table is not y._table or not _is_array(<PyObject*>x._native):
        return None
    left, right = x._native, y._native
    if not _is_array(<PyObject*>right):
        return None
    cdef PyArrayObject* a = <PyArrayObject*><PyObject*>left
    cdef PyArrayObject* b = <PyArrayObject*><PyObject*>right
    cdef int ndim = PyArray_NDIM(a)
    # Of complex numbers, and of what lies with gaps, NumPy's own way rounds otherwise.
    cdef bint plain = _is_plain(<PyObject*>left) and _is_plain(<PyObject*>right)
    if (ndim == 1 or number > 1) and (not plain or _is_complex(slot.type_num)):
        return None
    if number > 1:
        if ndim != number:
            return None
        made = _product_of_all(slot, a, b) if _same_shape(a, b) else None
        return None if made is None else _make(made, x._table)
    if ndim < 1 or PyArray_NDIM(b) < 1 or PyArray_DIMS(a)[ndim - 1] != PyArray_DIMS(b)[0]:
        return None
    if ndim <= 2 and PyArray_NDIM(b) == ndim:
        made = _matrix_product(slot, a, b)
        if made is not None:
            return _make(made, x._table)
        if ndim == 1:
            return None
    # The entry, without another look at what is known of them. NumPy multiplies a vector and a
    # matrix as two of these, and rounds otherwise.
    if slot.native == NULL:
        return None
    native, pairs = <object>slot.native, ((ndim - 1,), (0,))
    try:
        made = native(left, right, axes=pairs)
    except Exception as error:
        made = _recover("tensordot", x._table, (x, y), error, native, left, right, axes=pairs)
    return _make(made, x._table) if _is_array(<PyObject*>made) else None


cdef object _product_of_all(Slot* slot, PyArrayObject* x, PyArrayObject* y):
    """Multiply contiguous arrays of one shape as the vectors that they are in memory."""
    cdef npy_intp* size = [_size(x, PY_SSIZE_T_MAX)]
    cdef npy_intp* stride = [slot.size]
    row = _view(x, 1, size, stride, <char*>PyArray_DATA(x))
    column = _view(y, 1, size, stride, <char*>PyArray_DATA(y))
    return _matrix_product(slot, <PyArrayObject*><PyObject*>row, <PyArrayObject*><PyObject*>column)


cdef object _dot_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Multiply vectors along the last axis of two arrays of one shape, or short ones along the first."""
    cdef PyObject* axis = NULL
    cdef int ndim, place
    if count != 2 or not _words(args, count, names, ("axis",), &axis):
        return None
    cdef Slot* slot = _slot_of_product(args[0], self.place)
    if slot == NULL:
        return None
    table = (<Operand>args[0])._table
    cdef PyArrayObject* x = _operand(args[0], table, slot.least)
    cdef PyArrayObject* y = _operand(args[1], table, slot.least)
    if x == NULL or y == NULL:
        return _dot_of_parts(slot, args, axis)
    if not _same_shape(x, y):
        return None
    ndim = PyArray_NDIM(x)
    place = _axis_of(axis, ndim, -1) if ndim else -1
    if place != ndim - 1 and place != 0 or ndim == 0 or _size(x, slot.least) < 1:
        return None
    held, also_held = <object><PyObject*>x, <object><PyObject*>y
    made = _dots(slot, x, y) if place == ndim - 1 else _dots_of_columns(slot, x, y)
    return None if made is None else _make(made, table)


cdef object _dots(Slot* slot, PyArrayObject* x, PyArrayObject* y):
    """Multiply vectors along the last axis of arrays that the caller holds, contiguous and alike."""
    cdef double work
    cdef npy_intp dims[2]
    cdef npy_intp steps[5]
    cdef char* parts[3]
    cdef int ndim = PyArray_NDIM(x)
    dims[1] = PyArray_DIMS(x)[ndim - 1]
    dims[0] = _size(x, PY_SSIZE_T_MAX) // dims[1]
    steps[0] = steps[1] = dims[1] * slot.size
    steps[2] = steps[3] = steps[4] = slot.size
    made = _new_large(slot.descr, ndim - 1, PyArray_DIMS(x))
    parts[0], parts[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y)
    parts[2] = _data(made)
    # Of long rows the BLAS itself has each shared among its threads.
    if dims[0] * dims[1] < SHORT or dims[1] > BLAS_SHARES:
        work = <double>dims[0] * dims[1]
        return made if _core_calls(slot, False, parts, dims, steps, work) else None
    return made if _dots_of_rows(slot, parts, dims) else None


cdef object _dots_of_columns(Slot* slot, PyArrayObject* x, PyArrayObject* y):
    """Multiply short vectors along the first axis of such arrays, None where the entry has to."""
    cdef npy_intp dims[2]
    cdef npy_intp steps[5]
    cdef char* parts[3]
    cdef npy_intp size = _size(x, SHORT)
    if size < 1:
        return None
    dims[1] = PyArray_DIMS(x)[0]
    dims[0] = size // dims[1]
    steps[0] = steps[1] = steps[2] = slot.size
    steps[3] = steps[4] = dims[0] * slot.size
    made = _new(slot.descr, PyArray_NDIM(x) - 1, PyArray_DIMS(x) + 1)
    parts[0], parts[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y)
    parts[2] = _data(made)
    return made if _core_calls(slot, False, parts, dims, steps, <double>size) else None


cdef object _dot_of_parts(Slot* slot, PyObject** args, PyObject* axis):
    """Multiply two short vectors with gaps, None where the function has to."""
    cdef npy_intp dims[2]
    cdef npy_intp steps[5]
    cdef char* parts[3]
    if args[1].ob_type != <void*>_Array or (<Operand>args[1])._table is not (<Operand>args[0])._table:
        return None
    left, right = (<Operand>args[0])._native, (<Operand>args[1])._native
    if not _is_array(<PyObject*>left) or not _is_array(<PyObject*>right):
        return None
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>left
    cdef PyArrayObject* y = <PyArrayObject*><PyObject*>right
    if PyArray_NDIM(x) != 1 or PyArray_NDIM(y) != 1 or _axis_of(axis, 1, -1) != 0:
        return None
    dims[0], dims[1] = 1, PyArray_DIMS(x)[0]
    if PyArray_DIMS(y)[0] != dims[1] or not 1 <= dims[1] < min(slot.least, BLAS_SHARES):
        return None
    if not PyArray_FLAGS(x) & PyArray_FLAGS(y) & NPY_ARRAY_ALIGNED:
        return None
    steps[0] = steps[1] = steps[2] = 0
    steps[3], steps[4] = PyArray_STRIDES(x)[0], PyArray_STRIDES(y)[0]
    made = _new(slot.descr, 0, NULL)
    parts[0], parts[1], parts[2] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y), _data(made)
    if not _core_calls(slot, False, parts, dims, steps, dims[1]):
        return None
    return _make(made, (<Operand>args[0])._table)


cdef bint _dots_of_rows(Slot* slot, char** parts, npy_intp* dims) except -1:
    """Multiply many short rows, in several threads; False if the result is not to be used."""
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.slot, work.rows, work.length = _dots_stretch, slot, dims[0], dims[1]
    work.operands[0], work.operands[1], work.operands[2] = parts[0], parts[1], parts[2]
    _do(&work, dims[0] * dims[1], &slot.pace[ROWS])
    return not corepy_all_flags()


cdef void _dots_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef npy_intp dims[2]
    cdef npy_intp steps[5]
    cdef char* args[3]
    cdef npy_intp row = work.length * slot.size
    dims[0], dims[1] = stop - start, work.length
    steps[0] = steps[1] = row
    steps[2] = steps[3] = steps[4] = slot.size
    args[0], args[1] = work.operands[0] + start * row, work.operands[1] + start * row
    args[2] = work.operands[2] + start * slot.size
    slot.loop(args, dims, steps, slot.data)
