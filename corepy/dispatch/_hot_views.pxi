# Views: the same elements in another shape or order.
# Included by _hot_compiled.pyx.

cdef inline bint _lies_by_columns(PyArrayObject* x) noexcept:
    """Say whether the transpose of an array is contiguous."""
    return PyArray_FLAGS(x) & (NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED) == (
        NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED
    )


cdef object _reversed(PyArrayObject* x):
    """View an array with its axes in the opposite order."""
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int i, ndim = PyArray_NDIM(x)
    for i in range(ndim):
        dims[i] = PyArray_DIMS(x)[ndim - 1 - i]
        strides[i] = PyArray_STRIDES(x)[ndim - 1 - i]
    return _view(x, ndim, dims, strides, <char*>PyArray_DATA(x))


cdef bint _is_regrouped(PyArrayObject* x, int ndim, npy_intp* dims) noexcept:
    """Say whether the elements of an array have another shape where they are: NumPy copies others."""
    cdef npy_intp length, step, taken
    cdef int axis = PyArray_NDIM(x) - 1, into = ndim - 1
    while axis >= 0:
        # Axes that lie one in the other are one, which is to be divided.
        length, step = PyArray_DIMS(x)[axis], PyArray_STRIDES(x)[axis]
        while axis > 0 and (
            length == 1
            or PyArray_DIMS(x)[axis - 1] == 1
            or PyArray_STRIDES(x)[axis - 1] == step * length
        ):
            axis -= 1
            if length == 1:
                step = PyArray_STRIDES(x)[axis]
            length *= PyArray_DIMS(x)[axis]
        axis -= 1
        taken = 1
        while into >= 0 and taken < length:
            taken *= dims[into]
            into -= 1
        if taken != length:
            return False
    return True


cdef inline Slot* _viewed(Function self, PyObject** args, PyArrayObject** x) noexcept:
    """Find the array to be viewed; NULL if there is no short way."""
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL:
        return NULL
    x[0] = _native_of(args[0])
    return slot if _is_array(<PyObject*>x[0]) and PyArray_NDIM(x[0]) < MOST_DIMENSIONS else NULL


cdef object _reshaping_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Give the elements of a contiguous array another shape."""
    cdef PyArrayObject* x
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef npy_intp rest = 1, size
    cdef PyObject* copy = Py_None
    cdef long number
    cdef int ndim, i, inferred = -1
    if count != 2 or args[1].ob_type != <void*>&PyTuple_Type:
        return None
    if not _words(args, count, names, ("copy",), &copy):
        return None
    if copy != Py_None and copy.ob_type != <void*>&PyBool_Type:
        return None
    cdef Slot* slot = _viewed(self, args, &x)
    if slot == NULL:
        return None
    size = _size(x, PY_SSIZE_T_MAX)
    if PyTuple_GET_SIZE(args[1]) > MOST_DIMENSIONS:
        return None
    ndim = <int>PyTuple_GET_SIZE(args[1])
    for i in range(ndim):
        if not _whole(PyTuple_GET_ITEM(args[1], i), &number):
            return None
        dims[i] = number
        if number == -1 and inferred < 0:
            inferred = i
        elif number <= 0:
            return None
        else:
            rest *= number
            if rest > size:
                return None
    if inferred >= 0:
        dims[inferred] = size // rest
        rest *= dims[inferred]
    if rest != size:
        return None
    cdef PyArray_Dims shape
    if not _is_plain(<PyObject*>x):
        if <object>copy is False or size < 1:
            return None
        held = <object>x  # somebody else may let go of it meanwhile
        if <object>copy is True or size >= LONG and not _is_regrouped(x, ndim, dims):
            held = _without_gaps(x)
            if held is None:
                return None
        shape.ptr, shape.len = dims, ndim
        made = PyArray_Newshape(<PyArrayObject*><PyObject*>held, &shape, NPY_CORDER)
        return _make(made, (<Operand>args[0])._table)
    rest = slot.size
    for i in range(ndim - 1, -1, -1):
        strides[i] = rest
        rest *= dims[i]
    cdef Piece piece
    if <object>copy is True:
        held = <object>x  # somebody else may let go of it meanwhile
        made = _new_large(PyArray_DESCR(x), ndim, dims)
        piece.source, piece.into = <char*>PyArray_DATA(x), _data(made)
        piece.bytes = size * slot.size
        _move(&piece, 1)
        return _make(made, (<Operand>args[0])._table)
    made = _view(x, ndim, dims, strides, <char*>PyArray_DATA(x))
    return _make(made, (<Operand>args[0])._table)


cdef object _permutation_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Permute the dimensions."""
    cdef PyArrayObject* x
    cdef PyObject* axes = Py_None
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int ndim, i, axis
    cdef unsigned int seen = 0
    if not 1 <= count <= 2 or not _places_or_words(args, count, names, ("axes",), &axes):
        return None
    if axes.ob_type != <void*>&PyTuple_Type or _viewed(self, args, &x) == NULL:
        return None
    ndim = PyArray_NDIM(x)
    if PyTuple_GET_SIZE(axes) != ndim:
        return None
    for i in range(ndim):
        axis = _axis_of(PyTuple_GET_ITEM(axes, i), ndim, 0)
        if axis < 0 or seen >> axis & 1:
            return None
        seen |= 1U << axis
        dims[i] = PyArray_DIMS(x)[axis]
        strides[i] = PyArray_STRIDES(x)[axis]
    made = _view(x, ndim, dims, strides, <char*>PyArray_DATA(x))
    return _make(made, (<Operand>args[0])._table)


cdef object _transposition_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Swap the last two dimensions."""
    return _transposed(args[0], False) if count == 1 and names == NULL else None


cdef object _transposed_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """The same for the attributes; `T` is for matrices only."""
    return _transposed(args[0], self.name == "T") if count == 1 and names == NULL else None


cdef object _transposed(PyObject* array, bint matrix):
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef PyArrayObject* x
    cdef int ndim
    if array.ob_type != <void*>_Array or _resolved((<Operand>array)._table, _TRANSPOSE) == NULL:
        return None
    x = _native_of(array)
    if not _is_array(<PyObject*>x):
        return None
    ndim = PyArray_NDIM(x)
    if ndim < 2 or ndim > (2 if matrix else MOST_DIMENSIONS):
        return None
    memcpy(dims, PyArray_DIMS(x), ndim * sizeof(npy_intp))
    memcpy(strides, PyArray_STRIDES(x), ndim * sizeof(npy_intp))
    dims[ndim - 1], dims[ndim - 2] = dims[ndim - 2], dims[ndim - 1]
    strides[ndim - 1], strides[ndim - 2] = strides[ndim - 2], strides[ndim - 1]
    made = _view(x, ndim, dims, strides, <char*>PyArray_DATA(x))
    return _make(made, (<Operand>array)._table)


cdef object _expansion_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Insert one dimension of size one."""
    return _dimension(self, args, count, names, True)


cdef object _squeezing_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Remove one dimension of size one."""
    return _dimension(self, args, count, names, False)


cdef object _dimension(
    Function self, PyObject** args, Py_ssize_t count, PyObject* names, bint more
):
    cdef PyArrayObject* x
    cdef PyObject* axis = Py_None
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int ndim, place, i, j = 0
    if not 1 <= count <= 2 or not _places_or_words(args, count, names, ("axis",), &axis):
        return None
    if _viewed(self, args, &x) == NULL:
        return None
    ndim = PyArray_NDIM(x)
    place = _axis_of(axis, ndim + more, 0)
    if place < 0 or not more and PyArray_DIMS(x)[place] != 1:
        return None
    for i in range(ndim + more):
        if more and i == place:
            dims[i], strides[i] = 1, 0
        elif more:
            dims[i], strides[i] = PyArray_DIMS(x)[j], PyArray_STRIDES(x)[j]
            j += 1
        elif i != place:
            dims[j], strides[j] = PyArray_DIMS(x)[i], PyArray_STRIDES(x)[i]
            j += 1
    made = _view(x, ndim + 1 if more else ndim - 1, dims, strides, <char*>PyArray_DATA(x))
    return _make(made, (<Operand>args[0])._table)


cdef object _flip_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Reverse the order along one axis, or along all."""
    cdef PyArrayObject* x
    cdef PyObject* axis = Py_None
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int ndim, place = -1, i
    if count != 1 or not _words(args, count, names, ("axis",), &axis):
        return None
    if _viewed(self, args, &x) == NULL:
        return None
    ndim = PyArray_NDIM(x)
    if ndim == 0:
        return None
    if axis != Py_None:
        place = _axis_of(axis, ndim, 0)
        if place < 0:
            return None
    cdef char* data = <char*>PyArray_DATA(x)
    for i in range(ndim):
        strides[i] = PyArray_STRIDES(x)[i]
        if place < 0 or i == place:
            if PyArray_DIMS(x)[i] > 0:
                data += (PyArray_DIMS(x)[i] - 1) * strides[i]
            strides[i] = -strides[i]
    made = _view(x, ndim, PyArray_DIMS(x), strides, data)
    return _make(made, (<Operand>args[0])._table)


cdef object _locked(made, Operand like):
    """Bind a view that is not to be written to."""
    PyArray_CLEARFLAGS(<PyArrayObject*>made, NPY_ARRAY_WRITEABLE)
    return _make(made, like._table)


cdef object _broadcasting_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Repeat an array along new dimensions, and those of size one, without a copy."""
    cdef PyArrayObject* x
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int ndim, new, i
    if count != 2 or names != NULL or _viewed(self, args, &x) == NULL:
        return None
    ndim = _dims_of(args[1], dims, 1 << 31)
    new = ndim - PyArray_NDIM(x)
    if ndim < 0 or new < 0:
        return None
    for i in range(ndim):
        strides[i] = 0
        if i >= new and PyArray_DIMS(x)[i - new] != 1:
            if PyArray_DIMS(x)[i - new] != dims[i]:
                return None
            strides[i] = PyArray_STRIDES(x)[i - new]
    return _locked(_view(x, ndim, dims, strides, <char*>PyArray_DATA(x)), <Operand>args[0])


cdef object _diagonal_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """View a diagonal of matrices."""
    cdef PyArrayObject* x
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef char* data
    cdef int ndim, i
    if count != 1 or _viewed(self, args, &x) == NULL:
        return None
    ndim = PyArray_NDIM(x)
    if ndim < 2:
        return None
    data = _diagonal(x, args, names, &dims[ndim - 2], &strides[ndim - 2])
    if data == NULL:
        return None
    for i in range(ndim - 2):
        dims[i], strides[i] = PyArray_DIMS(x)[i], PyArray_STRIDES(x)[i]
    return _locked(_view(x, ndim - 1, dims, strides, data), <Operand>args[0])


cdef char* _diagonal(
    PyArrayObject* x, PyObject** args, PyObject* names, npy_intp* length, npy_intp* stride
) noexcept:
    """Find where the diagonal of matrices begins that ``offset=`` means; NULL for other keywords."""
    cdef int last = PyArray_NDIM(x) - 1
    cdef npy_intp rows = PyArray_DIMS(x)[last - 1], columns = PyArray_DIMS(x)[last]
    cdef npy_intp down = PyArray_STRIDES(x)[last - 1], right = PyArray_STRIDES(x)[last]
    cdef char* data = <char*>PyArray_DATA(x)
    cdef PyObject* given = NULL
    cdef long offset = 0
    if not _words(args, 1, names, ("offset",), &given):
        return NULL
    if given != NULL and not _whole(given, &offset):
        return NULL
    if offset < 0:
        length[0] = max(0, min(rows + offset, columns))
    else:
        length[0] = max(0, min(rows, columns - offset))
    if length[0]:
        data += offset * right if offset > 0 else -offset * down
    stride[0] = down + right
    return data


cdef object _unstacking_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """View each part along an axis; the elements of a vector are copied."""
    cdef PyObject* axis = NULL
    cdef PyArrayObject* x
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef npy_intp i
    cdef int ndim, place, j, into = 0
    if count != 1 or not _words(args, count, names, ("axis",), &axis):
        return None
    cdef Slot* slot = _viewed(self, args, &x)
    if slot == NULL:
        return None
    held = <object>x
    ndim = PyArray_NDIM(x)
    place = _axis_of(axis, ndim, 0)
    if place < 0:
        return None
    for j in range(ndim):
        if j != place:
            dims[into], strides[into] = PyArray_DIMS(x)[j], PyArray_STRIDES(x)[j]
            into += 1
    table = (<Operand>args[0])._table
    parts = []
    cdef char* data = <char*>PyArray_DATA(x)
    for i in range(PyArray_DIMS(x)[place]):
        if into:
            made = _view(x, into, dims, strides, data)
        else:
            made = _new(slot.descr, 0, NULL)
            memcpy(_data(made), data, slot.size)
        parts.append(_make(made, table))
        data += PyArray_STRIDES(x)[place]
    return tuple(parts)
