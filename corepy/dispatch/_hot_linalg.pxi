# Linear algebra and transforms, by the inner loops of NumPy's generalized ufuncs.
# Included by _hot_compiled.pyx.
#
# NumPy computes these in double precision, whatever the dtype of the operands. Those of linear
# algebra raise the flag of invalid operations where a matrix is singular: then, as with all flags,
# the entry computes again, and raises what is to be raised.


cdef PyArray_Descr* _double_descr = NULL
cdef PyArray_Descr* _pair_descr = NULL


cdef PyArray_Descr* _wide(bint pairs) noexcept:
    """Return NumPy's dtype of double precision, real or complex."""
    global _double_descr, _pair_descr
    if _double_descr == NULL:
        _double_descr = PyArray_DescrFromType(NPY_DOUBLE)
        _pair_descr = PyArray_DescrFromType(NPY_CDOUBLE)
    return _pair_descr if pairs else _double_descr


cdef inline object _double(int ndim, npy_intp* dims):
    return _new(_wide(False), ndim, dims)


cdef object _doubles(PyArrayObject* x, bint copy):
    """Return the elements in double precision: the array itself if it is, unless a copy is due."""
    cdef int type_num = PyArray_TYPE(x)
    cdef bint single = type_num == NPY_FLOAT or type_num == NPY_CFLOAT
    cdef bint pairs = type_num == NPY_CFLOAT or type_num == NPY_CDOUBLE
    cdef npy_intp i, size = _size(x, PY_SSIZE_T_MAX) * (2 if pairs else 1)
    if not single and not copy:
        return <object><PyObject*>x
    made = _new(_wide(pairs), PyArray_NDIM(x), PyArray_DIMS(x))
    cdef double* d = <double*>_data(made)
    cdef float* f = <float*>PyArray_DATA(x)
    if single:
        for i in range(size):
            d[i] = f[i]
    else:
        memcpy(d, PyArray_DATA(x), size * sizeof(double))
    return made


cdef object _rounded(PyArray_Descr* descr, made):
    """Return what is in double precision in the dtype of the result; None if that raised a flag."""
    cdef PyArrayObject* x = <PyArrayObject*>made
    cdef bint pairs = descr.type_num == NPY_CFLOAT
    if descr.type_num != NPY_FLOAT and not pairs:
        return made
    cdef npy_intp i, size = _size(x, PY_SSIZE_T_MAX) * (2 if pairs else 1)
    result = _new(descr, PyArray_NDIM(x), PyArray_DIMS(x))
    cdef double* d = <double*>PyArray_DATA(x)
    cdef float* f = <float*>_data(result)
    for i in range(size):
        f[i] = <float>d[i]
    return None if corepy_flags() else result


cdef inline PyArrayObject* _square(PyObject* x, Slot* slot) noexcept:
    """Return the native array of small square matrices, NULL for what is none."""
    cdef PyArrayObject* a = _operand(x, (<Operand>x)._table, slot.least)
    cdef int ndim
    if a == NULL:
        return NULL
    ndim = PyArray_NDIM(a)
    if ndim < 2 or PyArray_DIMS(a)[ndim - 1] != PyArray_DIMS(a)[ndim - 2] or _size(a, slot.least) < 1:
        return NULL
    return a


cdef object _matrix_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Invert square matrices, factor them, or find their determinants."""
    cdef npy_intp dims[2]
    cdef npy_intp steps[6]
    cdef char* parts[2]
    if count != 1 or names != NULL:
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    cdef PyArrayObject* a = NULL if slot == NULL else _square(args[0], slot)
    if a == NULL:
        return None
    cdef int ndim = PyArray_NDIM(a)
    cdef bint number = self.place == _DET
    cdef npy_intp n = PyArray_DIMS(a)[ndim - 1]
    given = _doubles(a, False)
    made = _double(ndim - 2 if number else ndim, PyArray_DIMS(a))
    dims[0], dims[1] = _size(a, PY_SSIZE_T_MAX) // (n * n), n
    steps[0] = n * n * 8
    steps[1] = 8 if number else n * n * 8
    steps[2] = steps[4] = n * 8
    steps[3] = steps[5] = 8
    parts[0], parts[1] = _data(given), _data(made)
    if not _core_calls(slot, False, parts, dims, steps):
        return None
    made = _rounded(slot.descr, made)
    return None if made is None else _make(made, (<Operand>args[0])._table)


cdef object _solution_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Solve for one right-hand side, or the columns of a matrix."""
    cdef npy_intp dims[3]
    cdef npy_intp steps[9]
    cdef char* parts[3]
    if count != 2 or names != NULL:
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    cdef PyArrayObject* a = NULL if slot == NULL else _square(args[0], slot)
    if a == NULL or PyArray_NDIM(a) != 2:
        return None
    table = (<Operand>args[0])._table
    cdef PyArrayObject* b = _operand(args[1], table, slot.least)
    if b == NULL or not 1 <= PyArray_NDIM(b) <= 2 or PyArray_DIMS(b)[0] != PyArray_DIMS(a)[0]:
        return None
    cdef bint vector = PyArray_NDIM(b) == 1
    cdef npy_intp n = PyArray_DIMS(a)[0]
    cdef npy_intp columns = 1 if vector else PyArray_DIMS(b)[1]
    if columns < 1:
        return None
    left, right = _doubles(a, False), _doubles(b, False)
    made = _double(PyArray_NDIM(b), PyArray_DIMS(b))
    dims[0], dims[1], dims[2] = 1, n, columns
    steps[0] = steps[1] = steps[2] = 0
    steps[3], steps[4] = n * 8, 8
    if vector:
        steps[5] = steps[6] = 8
    else:
        steps[5] = steps[7] = columns * 8
        steps[6] = steps[8] = 8
    parts[0], parts[1], parts[2] = _data(left), _data(right), _data(made)
    if not _core_calls(slot, vector, parts, dims, steps):
        return None
    made = _rounded(slot.descr, made)
    return None if made is None else _make(made, table)


cdef object _decomposition_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Decompose one matrix."""
    cdef PyObject* full = NULL
    if count != 1 or not _words(args, count, names, ("full_matrices",), &full):
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL:
        return None
    table = (<Operand>args[0])._table
    cdef PyArrayObject* a = _operand(args[0], table, slot.least)
    if a == NULL or PyArray_NDIM(a) != 2 or _size(a, slot.least) < 1:
        return None
    if self.place == _SVD:
        if full != NULL and <object>full is not False and <object>full is not True:
            return None
        parts = _singular(slot, a, full == NULL or <object>full is True)
    elif full != NULL:
        return None
    elif self.place == _QR:
        parts = _orthogonal(slot, a)
    elif PyArray_DIMS(a)[0] != PyArray_DIMS(a)[1]:
        return None
    else:
        parts = _signed(slot, a) if self.place == _SLOGDET else _eigen(slot, a)
    if parts is None:
        return None
    made = []
    for part in parts:
        part = _rounded(slot.descr, part)
        if part is None:
            return None
        made.append(_make(part, table))
    return self.result(*made)


cdef tuple _signed(Slot* slot, PyArrayObject* a):
    """The determinant, by its sign and logarithm."""
    cdef npy_intp n = PyArray_DIMS(a)[0]
    cdef npy_intp* dims = [1, n]
    cdef npy_intp* steps = [0, 0, 0, n * 8, 8]
    given = _doubles(a, False)
    sign, logarithm = _double(0, NULL), _double(0, NULL)
    cdef char** parts = [_data(given), _data(sign), _data(logarithm)]
    return (sign, logarithm) if _core_calls(slot, False, parts, dims, steps) else None


cdef tuple _eigen(Slot* slot, PyArrayObject* a):
    cdef npy_intp n = PyArray_DIMS(a)[0]
    cdef npy_intp* dims = [1, n]
    cdef npy_intp* steps = [0, 0, 0, n * 8, 8, 8, n * 8, 8]
    given = _doubles(a, False)
    values, vectors = _double(1, PyArray_DIMS(a)), _double(2, PyArray_DIMS(a))
    cdef char** parts = [_data(given), _data(values), _data(vectors)]
    return (values, vectors) if _core_calls(slot, False, parts, dims, steps) else None


cdef tuple _singular(Slot* slot, PyArrayObject* a, bint full):
    cdef npy_intp m = PyArray_DIMS(a)[0], n = PyArray_DIMS(a)[1]
    cdef npy_intp p = min(m, n)
    cdef npy_intp* dims = [1, m, n, p]
    cdef npy_intp* left = [m, m if full else p]
    cdef npy_intp* right = [n if full else p, n]
    cdef npy_intp* steps = [0, 0, 0, 0, n * 8, 8, left[1] * 8, 8, 8, n * 8, 8]
    given = _doubles(a, False)
    if not _all_finite(<PyArrayObject*>given, NPY_DOUBLE, m * n):
        return None  # OpenBLAS never ends to look for singular vectors of infinite elements
    u, s, vh = _double(2, left), _double(1, &p), _double(2, right)
    cdef char** parts = [_data(given), _data(u), _data(s), _data(vh)]
    return (u, s, vh) if _core_calls(slot, full, parts, dims, steps) else None


cdef tuple _orthogonal(Slot* slot, PyArrayObject* a):
    """In the two steps that NumPy takes: the first one leaves reflectors, and R above them."""
    cdef npy_intp m = PyArray_DIMS(a)[0], n = PyArray_DIMS(a)[1]
    cdef npy_intp p = min(m, n), i, j
    cdef npy_intp* dims = [1, m, n, p]
    cdef npy_intp* steps = [0, 0, n * 8, 8, 8]
    cdef npy_intp* left = [m, p]
    cdef npy_intp* right = [p, n]
    both = _doubles(a, True)
    scales, q, r = _double(1, &p), _double(2, left), _double(2, right)
    cdef char** parts = [_data(both), _data(scales)]
    if not _core_calls(slot, False, parts, dims, steps):
        return None
    cdef npy_intp* then = [0, 0, 0, n * 8, 8, 8, p * 8, 8]
    cdef char** others = [_data(both), _data(scales), _data(q)]
    if not _core_calls(slot, True, others, dims, then):
        return None
    cdef double* source = <double*>_data(both)
    cdef double* into = <double*>_data(r)
    for i in range(p):
        for j in range(n):
            into[i * n + j] = source[i * n + j] if j >= i else 0.0
    return q, r


# ---------------------------------------------------------------------------- transforms

cdef object _complex64 = complex64


cdef object _transform_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Transform the last axis as it is, without a scale."""
    cdef npy_intp dims[3]
    cdef npy_intp steps[5]
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef char* parts[3]
    cdef double scale = 1.0
    cdef PyObject* found
    if count != 1 or names != NULL:
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL:
        return None
    table = (<Operand>args[0])._table
    cdef PyArrayObject* x = _operand(args[0], table, slot.least)
    if x == NULL or PyArray_NDIM(x) < 1 or _size(x, slot.least) < 1:
        return None
    cdef int ndim = PyArray_NDIM(x)
    cdef bint half = self.place == _RFFT
    target = table
    if half:  # the result is complex
        found = PyDict_GetItemWithError(
            table.siblings, _complex64 if slot.type_num == NPY_FLOAT else _complex128
        )
        if found == NULL:
            return None
        target = <Slots>found
    memcpy(shape, PyArray_DIMS(x), ndim * sizeof(npy_intp))
    dims[1] = shape[ndim - 1]
    dims[2] = dims[1] // 2 + 1 if half else dims[1]
    dims[0] = _size(x, slot.least) // dims[1]
    shape[ndim - 1] = dims[2]
    given = _doubles(x, False)
    made = _new(_wide(True), ndim, shape)
    steps[3], steps[4] = 8 if half else 16, 16
    steps[0], steps[1], steps[2] = dims[1] * steps[3], 0, dims[2] * steps[4]
    parts[0], parts[1], parts[2] = _data(given), <char*>&scale, _data(made)
    if not _core_calls(slot, half and dims[1] % 2 == 1, parts, dims, steps):
        return None
    descr = target.native_dtype
    made = _rounded(<PyArray_Descr*><PyObject*>descr, made)
    return None if made is None else _make(made, target)


cdef tuple _OF_VECTORS = ("ord", "keepdims", "axis")
cdef tuple _OF_MATRICES = ("ord", "keepdims")
cdef tuple _LAST_TWO = (-2, -1)


cdef object _norm_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Take the root of the squares of few real numbers, added up: all, along an axis, or of matrices.

    Along several axes NumPy adds up in another order.
    """
    cdef PyObject** words = [NULL, Py_False, Py_None]
    cdef bint of_matrices = self.place == _MATRIX_NORM
    if count != 1 or not _words(args, 1, names, _OF_MATRICES if of_matrices else _OF_VECTORS, words):
        return None
    if words[1].ob_type != <void*>&PyBool_Type or words[0] != NULL and (
        not _is_frobenius(words[0]) if of_matrices else not _is_two(words[0])
    ):
        return None
    cdef Slot* own = _slot_of(args[0], self.place)
    if own == NULL:
        return None
    table = (<Operand>args[0])._table
    native = (<Operand>args[0])._native
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>native
    if not _is_plain(<PyObject*>x) or _size(x, own.least) < 1:
        return None
    axis = <object>words[2]
    if of_matrices:
        axis = _LAST_TWO
        if PyArray_NDIM(x) < 2:
            return None
    elif words[1] == Py_True if axis is None else words[2].ob_type == <void*>&PyTuple_Type:
        return None
    cdef Slot* times = _resolved(table, _MULTIPLY)
    cdef Slot* total = _resolved(table, _SUM)
    cdef Slot* root = _resolved(table, _SQRT)
    if times == NULL or total == NULL or root == NULL:
        return None
    squares = _short_binary(times, <PyObject*>x, <PyObject*>x)
    sums = None if squares is None else _short_reduction(total, <PyObject*>squares, axis, 0)
    made = None if sums is None else _short_unary(root, <PyObject*>sums)
    if made is None:
        return None
    if words[1] == Py_True:
        made = _with_dimensions(<PyArrayObject*><PyObject*>made, PyArray_NDIM(x), axis)
    return _make(made, table)


cdef inline bint _is_two(PyObject* order) noexcept:
    cdef long number
    if order.ob_type == <void*>&PyFloat_Type:
        return PyFloat_AS_DOUBLE(order) == 2
    return _whole(order, &number) and number == 2


cdef inline bint _is_frobenius(PyObject* order) except -1:
    return order == Py_None or order.ob_type == <void*>&PyUnicode_Type and <object>order == "fro"


cdef object _trace_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Add up a diagonal of a matrix."""
    cdef npy_intp length, stride, i
    cdef char* data
    cdef char* into
    if count != 1:
        return None
    cdef Slot* own = _slot_of(args[0], self.place)
    if own == NULL:
        return None
    table = _table_of_sums(<Operand>args[0])
    cdef Slot* slot = _resolved(table, _SUM)
    held = (<Operand>args[0])._native  # somebody else may let go of it meanwhile
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    if slot == NULL or not _is_array(<PyObject*>x) or PyArray_NDIM(x) != 2:
        return None
    data = _diagonal(x, args, names, &length, &stride)
    # In another order than NumPy's the function has nothing added up.
    if data == NULL or length >= own.least or _has_row_loop(slot, length, length):
        return None
    packed = _new(PyArray_DESCR(x), 1, &length)
    into = _data(packed)
    for i in range(length):
        memcpy(into + i * own.size, data + i * stride, own.size)
    if table is not (<Operand>args[0])._table:
        packed = _converted(slot, <Operand>_make(packed, (<Operand>args[0])._table))
        if packed is None:
            return None
    return _reduced_to(slot, packed, Py_None, False, 0)


cdef object _outer_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Multiply each element of a vector by those of another one."""
    cdef npy_intp dims[2]
    cdef npy_intp strides[2]
    if count != 2 or names != NULL or args[1].ob_type != <void*>_Array:
        return None
    cdef Slot* own = _slot_of(args[0], self.place)
    table = (<Operand>args[0])._table if own != NULL else None
    if table is None or (<Operand>args[1])._table is not table:
        return None
    cdef Slot* slot = _resolved(table, _MULTIPLY)
    x, y = (<Operand>args[0])._native, (<Operand>args[1])._native
    if slot == NULL or not _is_plain(<PyObject*>x) or not _is_plain(<PyObject*>y):
        return None
    cdef PyArrayObject* a = <PyArrayObject*><PyObject*>x
    if PyArray_NDIM(a) != 1 or PyArray_NDIM(<PyArrayObject*><PyObject*>y) != 1:
        return None
    dims[0], dims[1] = PyArray_DIMS(a)[0], 1
    strides[0] = strides[1] = slot.size
    column = _view(a, 2, dims, strides, <char*>PyArray_DATA(a))
    if dims[0] * PyArray_DIMS(<PyArrayObject*><PyObject*>y)[0] >= own.least:
        return None
    made = _short_binary(slot, <PyObject*>column, <PyObject*>y)
    return None if made is None else _make(made, <Slots>slot.result)
