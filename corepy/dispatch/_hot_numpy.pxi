# The compiled hot path's shorter ways: NumPy's C interface, called without the machinery around it.
# Included by _hot_compiled.pyx.

cdef extern from *:
    """
    #define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
    #define NPY_TARGET_VERSION NPY_2_1_API_VERSION
    #define PY_ARRAY_UNIQUE_SYMBOL corepy_hot_array_api
    #define PY_UFUNC_UNIQUE_SYMBOL corepy_hot_ufunc_api
    """


cdef extern from "numpy/arrayobject.h":
    ctypedef Py_ssize_t npy_intp
    ctypedef struct PyArray_Descr:
        int type_num
    ctypedef struct PyArrayObject:
        pass
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject PyArray_Type
    enum:
        NPY_ARRAY_C_CONTIGUOUS
        NPY_ARRAY_ALIGNED
        NPY_BOOL
        NPY_FLOAT
        NPY_DOUBLE
        NPY_BYTE
        NPY_UBYTE
        NPY_SHORT
        NPY_USHORT
        NPY_INT
        NPY_UINT
        NPY_LONG
        NPY_ULONG
        NPY_LONGLONG
        NPY_ULONGLONG
    int _import_array() except -1
    int PyArray_NDIM(PyArrayObject*) nogil
    npy_intp* PyArray_DIMS(PyArrayObject*) nogil
    npy_intp* PyArray_STRIDES(PyArrayObject*) nogil
    void* PyArray_DATA(PyArrayObject*) nogil
    int PyArray_FLAGS(PyArrayObject*) nogil
    int PyArray_TYPE(PyArrayObject*) nogil
    object PyArray_NewFromDescr(
        PyTypeObject*, PyArray_Descr*, int, npy_intp*, npy_intp*, void*, int, PyObject*
    )
    int NPY_RAVEL_AXIS
    object PyArray_ArgMax(PyArrayObject*, int, PyArrayObject*)
    object PyArray_ArgMin(PyArrayObject*, int, PyArrayObject*)
    npy_intp PyArray_CountNonzero(PyArrayObject*) except -1
    object PyArray_Where(object, object, object)


cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX


cdef extern from "numpy/ufuncobject.h":
    ctypedef void (*PyUFuncGenericFunction)(
        char**, const npy_intp*, const npy_intp*, void*
    ) noexcept nogil
    ctypedef struct PyUFuncObject:
        int nin
        int nout
        int nargs
        int ntypes
        int core_enabled
        PyUFuncGenericFunction* functions
        void** data
        char* types


cdef extern from *:
    """
    #include <fenv.h>
    #if defined(__SSE2__) && !defined(_MSC_VER)
    #include <xmmintrin.h>
    /* The loops compute in vector registers; asking the x87 unit too would take longer than the
       loops. Invalid, divide-by-zero, overflow and underflow. */
    static inline int corepy_flags(void) { return (int)(_mm_getcsr() & 0x1D); }
    #else
    static inline int corepy_flags(void) {
        return fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
    }
    #endif
    """
    int corepy_flags() noexcept nogil


cdef enum:
    OPERATIONS = 96  # that have a place in each table: more than there are
    # Elements below which the short way is taken, but for reductions. From there on the machinery
    # is a small part, and memory for the result matters.
    SHORT = 16384
    LONG = 2048  # elements from which other threads may run meanwhile
    MOST_DIMENSIONS = 32
    MOST_ROWS = 64

cdef enum Kind:
    ELEMENTWISE, REDUCTION, MEAN, VARIANCE, DEVIATION, ACCUMULATION
    ARGMAX, ARGMIN, COUNT, CHOICE, INDEX

cdef dict _kinds = {
    "elementwise": ELEMENTWISE,
    "reduction": REDUCTION,
    "mean": MEAN,
    "variance": VARIANCE,
    "deviation": DEVIATION,
    "accumulation": ACCUMULATION,
    "argmax": ARGMAX,
    "argmin": ARGMIN,
    "count": COUNT,
    "choice": CHOICE,
    "index": INDEX,
}

cdef struct Slot:
    PyObject* native  # of the entry; NULL where it was not stored
    PyObject* result
    bint short  # whether there is a shorter way
    PyUFuncGenericFunction loop
    void* data
    PyArray_Descr* descr  # of the result
    npy_intp size  # bytes of an element of the operands
    npy_intp size_out
    npy_intp least  # elements from which the entry has the choice
    int type_num  # of the operands
    Kind kind
    bint finite  # whether the loop is only right for finite operands
    double initial  # of a reduction, where `has_initial`
    bint has_initial


cdef void _release(Slot* slot) noexcept:
    Py_XDECREF(slot.native)
    Py_XDECREF(slot.result)
    Py_XDECREF(<PyObject*>slot.descr)


cdef int _find_loop(Slot* slot, loop, dtype, result) except -1:
    """Keep what computes an operation on operands of one dtype, if there is a shorter way."""
    global _has_numpy
    if not _has_numpy:
        _import_array()
        _has_numpy = True
    slot.kind = _kinds[loop.kind]
    if dtype.kind not in "biufc" or loop.real and dtype.kind == "c":
        return 0
    if slot.kind < ARGMAX and not _find_ufunc(slot, loop.ufunc, dtype, result):
        return 0
    Py_INCREF(result)
    slot.descr = <PyArray_Descr*><PyObject*>result
    slot.size, slot.size_out = dtype.itemsize, result.itemsize
    slot.type_num = dtype.num
    slot.finite = loop.finite and dtype.kind == "f"
    slot.short = True
    return 0


cdef bint _find_ufunc(Slot* slot, ufunc, dtype, result) except -1:
    """Keep the inner loop of a ufunc, if it has one for operands and results of these dtypes."""
    cdef PyUFuncObject* found = <PyUFuncObject*><PyObject*>ufunc
    cdef int nargs = found.nargs, index, argument
    cdef int operand = <int>dtype.num, into = <int>result.num
    cdef bint fits
    if found.nout != 1 or found.core_enabled or found.functions == NULL:
        return False
    for index in range(found.ntypes):
        fits = found.types[index * nargs + found.nin] == into
        for argument in range(found.nin):
            fits = fits and found.types[index * nargs + argument] == operand
        if fits and found.functions[index] != NULL:
            break
    else:
        return False
    if slot.kind != ELEMENTWISE:
        if found.nin != 2 or into != operand:
            return False
        if slot.kind != REDUCTION and slot.kind != ACCUMULATION and (
            operand != NPY_FLOAT and operand != NPY_DOUBLE
        ):
            return False
        if ufunc.identity is not None and dtype.kind != "b":
            # Sums and products; smaller integers grow, and float16 has no place in `_put`.
            if dtype.kind == "c" or dtype.itemsize != 8 and operand != NPY_FLOAT:
                return False
            import numpy

            slot.initial = ufunc.reduce(numpy.empty(0, dtype))
            slot.has_initial = True
    slot.data = found.data[index] if found.data != NULL else NULL
    slot.loop = found.functions[index]
    return True


# ---------------------------------------------------------------------------- the short way


cdef inline bint _is_array(PyObject* x) noexcept:
    """Say whether an object is an array of NumPy's, of no class derived from it."""
    return _has_numpy and x.ob_type == <void*>&PyArray_Type


cdef inline bint _is_plain(PyObject* x) noexcept:
    return (
        (<PyObject*>x).ob_type == <void*>&PyArray_Type
        and PyArray_FLAGS(<PyArrayObject*>x) & (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED)
        == (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED)
    )


cdef inline npy_intp _size(PyArrayObject* x, npy_intp least) noexcept:
    """Return the number of elements, -1 from `least` on."""
    cdef npy_intp* dims = PyArray_DIMS(x)
    cdef npy_intp size = 1
    cdef int i
    for i in range(PyArray_NDIM(x)):
        size *= dims[i]
        if size >= least:
            return -1
    return size


cdef tuple _shape_of(PyArrayObject* x):
    cdef int ndim = PyArray_NDIM(x), i
    cdef tuple shape = PyTuple_New(ndim)
    cdef object size
    for i in range(ndim):
        size = PyArray_DIMS(x)[i]
        Py_INCREF(size)  # the next line steals a reference
        PyTuple_SET_ITEM(shape, i, size)
    return shape


cdef inline bint _same_shape(PyArrayObject* x, PyArrayObject* y) noexcept:
    cdef int ndim = PyArray_NDIM(x), i
    if ndim != PyArray_NDIM(y):
        return False
    cdef npy_intp* a = PyArray_DIMS(x)
    cdef npy_intp* b = PyArray_DIMS(y)
    for i in range(ndim):
        if a[i] != b[i]:
            return False
    return True


cdef inline bint _all_finite(PyArrayObject* x, int type_num, npy_intp size) noexcept:
    cdef npy_intp i
    cdef double* d
    cdef float* f
    if type_num == NPY_DOUBLE:
        d = <double*>PyArray_DATA(x)
        for i in range(size):
            if not isfinite(d[i]):
                return False
        return True
    if type_num == NPY_FLOAT:
        f = <float*>PyArray_DATA(x)
        for i in range(size):
            if not isfinite(f[i]):
                return False
        return True
    return False  # float16, whose test would take longer than it saves


cdef inline object _result(Slot* slot, PyArrayObject* model):
    Py_INCREF(<object><PyObject*>slot.descr)  # stolen by the next line
    return PyArray_NewFromDescr(
        &PyArray_Type, slot.descr, PyArray_NDIM(model), PyArray_DIMS(model), NULL, NULL, 0, NULL
    )


cdef inline bint _calls(Slot* slot, char** args, npy_intp size, npy_intp* steps) except -1:
    """Call the loop; False if its result is not to be used."""
    if size < LONG:
        slot.loop(args, &size, steps, slot.data)
    else:
        with nogil:
            slot.loop(args, &size, steps, slot.data)
    if corepy_flags():
        return False
    if PyErr_Occurred() != NULL:  # as of integers to negative powers; the ufunc raises it again
        PyErr_Clear()
        return False
    return True


cdef object _short_unary(Slot* slot, PyObject* a):
    """Return the result of the loop, None where the entry has to compute it."""
    if not _is_plain(a):
        return None
    cdef PyArrayObject* x = <PyArrayObject*>a
    cdef npy_intp size = _size(x, slot.least)
    if size < 0 or (slot.finite and not _all_finite(x, slot.type_num, size)):
        return None
    result = _result(slot, x)
    cdef char* args[2]
    cdef npy_intp steps[2]
    args[0], args[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(<PyArrayObject*>result)
    steps[0], steps[1] = slot.size, slot.size_out
    return result if _calls(slot, args, size, steps) else None


cdef object _short_binary(Slot* slot, PyObject* a, PyObject* b):
    """Return the result of the loop, None where the entry has to compute it."""
    if not _is_plain(a) or not _is_plain(b):
        return None
    cdef PyArrayObject* x = <PyArrayObject*>a
    cdef PyArrayObject* y = <PyArrayObject*>b
    cdef PyArrayObject* model = x
    cdef char* args[3]
    cdef npy_intp steps[3]
    steps[0], steps[1], steps[2] = slot.size, slot.size, slot.size_out
    if not _same_shape(x, y):
        if PyArray_NDIM(y) == 0:
            steps[1] = 0
        elif PyArray_NDIM(x) == 0:
            steps[0] = 0
            model = y
        elif _is_row_of(y, x):
            return _short_rows(slot, x, y, False)
        elif _is_row_of(x, y):
            return _short_rows(slot, y, x, True)
        else:
            return None
    cdef npy_intp size = _size(model, slot.least)
    if size < 0:
        return None
    if slot.finite and not (
        _all_finite(x, slot.type_num, size if steps[0] else 1)
        and _all_finite(y, slot.type_num, size if steps[1] else 1)
    ):
        return None
    result = _result(slot, model)
    args[0], args[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y)
    args[2] = <char*>PyArray_DATA(<PyArrayObject*>result)
    return result if _calls(slot, args, size, steps) else None


cdef inline bint _is_row_of(PyArrayObject* row, PyArrayObject* x) noexcept:
    """Say whether an array has the shape of the last dimensions of another."""
    cdef int ndim = PyArray_NDIM(row), more = PyArray_NDIM(x) - ndim, i
    if more < 1:
        return False
    cdef npy_intp* a = PyArray_DIMS(row)
    cdef npy_intp* b = PyArray_DIMS(x)
    for i in range(ndim):
        if a[i] != b[i + more]:
            return False
    return True


cdef object _short_rows(Slot* slot, PyArrayObject* x, PyArrayObject* row, bint turned):
    """As `_short_binary`, for an array and a row that stands beside each of its rows."""
    cdef npy_intp size = _size(x, slot.least), length = _size(row, slot.least), first
    if size < 0 or slot.finite or size > length * MOST_ROWS:
        return None  # many short rows are better iterated over by NumPy
    result = _result(slot, x)
    cdef char* args[3]
    cdef npy_intp steps[3]
    steps[0], steps[1], steps[2] = slot.size, slot.size, slot.size_out
    for first in range(0, size, max(length, 1)):
        args[1 if turned else 0] = <char*>PyArray_DATA(x) + first * slot.size
        args[0 if turned else 1] = <char*>PyArray_DATA(row)
        args[2] = <char*>PyArray_DATA(<PyArrayObject*>result) + first * slot.size_out
        if not _calls(slot, args, length, steps):
            return None
    return result


cdef bint _scalar(Slot* slot, value, void* into) except -1:
    """Store a Python scalar as an element; False where it may not fit, or is not plain."""
    cdef double number
    cdef float single
    cdef long long integer
    if type(value) is float:
        number = value
    elif type(value) is int and slot.type_num in (NPY_FLOAT, NPY_DOUBLE):
        try:
            number = value
        except OverflowError:
            return False
    elif type(value) is int:
        try:
            integer = value
        except OverflowError:
            return False
        # Not less than zero, because shifts may not be.
        if integer < 0 or not (
            (slot.type_num == NPY_LONG and sizeof(long) == 8)
            or slot.type_num == NPY_LONGLONG
            or (slot.type_num == NPY_INT and integer <= 0x7FFFFFFF)
        ):
            return False
        if slot.type_num == NPY_INT:
            (<int*>into)[0] = <int>integer
        else:
            (<long long*>into)[0] = integer
        return True
    else:
        return False
    if slot.type_num == NPY_DOUBLE:
        (<double*>into)[0] = number
    elif slot.type_num == NPY_FLOAT:
        single = <float>number
        if isinf(single) and not isinf(number):
            return False
        (<float*>into)[0] = single
    else:
        return False
    return not slot.finite or isfinite(number)


cdef object _short_scalar(Slot* slot, PyObject* a, value, bint first):
    """As `_short_binary`, with a Python scalar as the second operand, or the first one."""
    cdef double element  # room for any
    if not _is_plain(a):
        return None
    cdef PyArrayObject* x = <PyArrayObject*>a
    cdef npy_intp size = _size(x, slot.least)
    if size < 0 or not _scalar(slot, value, &element):
        return None
    if slot.finite and not _all_finite(x, slot.type_num, size):
        return None
    result = _result(slot, x)
    cdef char* args[3]
    cdef npy_intp steps[3]
    args[0], steps[0] = <char*>PyArray_DATA(x), slot.size
    args[1], steps[1] = <char*>&element, 0
    if first:
        args[0], args[1] = args[1], args[0]
        steps[0], steps[1] = steps[1], steps[0]
    args[2], steps[2] = <char*>PyArray_DATA(<PyArrayObject*>result), slot.size_out
    return result if _calls(slot, args, size, steps) else None


# ---------------------------------------------------------------------------- reductions

cdef object _short_reduction(Slot* slot, PyObject* a, axis):
    """Return what an array is reduced to, None where the entry has to compute it."""
    if not _is_plain(a):
        return None
    cdef PyArrayObject* x = <PyArrayObject*>a
    if slot.kind >= ARGMAX:
        return _short_search(slot, x, axis)
    if slot.kind == ACCUMULATION:
        return _short_accumulation(slot, x, axis)
    cdef int ndim = PyArray_NDIM(x), i, count = 0
    cdef npy_intp* dims = PyArray_DIMS(x)
    cdef npy_intp size = _size(x, slot.least), rows = 1, length, done
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef bint by_column = False
    if size <= 0 or ndim > MOST_DIMENSIONS:
        return None
    if axis is None:
        length = size
    elif type(axis) is int and ndim:
        if axis == -1 or axis == ndim - 1:
            count = ndim - 1
            for i in range(count):
                shape[i] = dims[i]
                rows *= dims[i]
            length = dims[ndim - 1]
        elif axis == 0 or axis == -ndim:
            by_column = True
            count = ndim - 1
            for i in range(count):
                shape[i] = dims[i + 1]
                rows *= dims[i + 1]
            length = dims[0]
        else:
            return None
    else:
        return None
    if slot.kind == VARIANCE or slot.kind == DEVIATION:
        return None if by_column else _short_variance(slot, x, count, shape, rows, length)
    Py_INCREF(<object><PyObject*>slot.descr)
    result = PyArray_NewFromDescr(
        &PyArray_Type, slot.descr, count, shape, NULL, NULL, 0, NULL
    )
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* target = <char*>PyArray_DATA(<PyArrayObject*>result)
    cdef char* args[3]
    cdef npy_intp steps[3]
    cdef npy_intp first = 0 if slot.has_initial else 1
    if slot.has_initial:
        for done in range(rows):
            _put(slot.type_num, target + done * slot.size, slot.initial)
    elif by_column:
        memcpy(target, source, rows * slot.size)
    else:
        for done in range(rows):
            memcpy(target + done * slot.size, source + done * length * slot.size, slot.size)
    if by_column:
        steps[0] = steps[1] = steps[2] = slot.size
        args[0] = args[2] = target
        for done in range(first, length):
            args[1] = source + done * rows * slot.size
            if not _calls(slot, args, rows, steps):
                return None
    else:
        steps[0] = steps[2] = 0
        steps[1] = slot.size
        for done in range(rows):
            args[0] = args[2] = target + done * slot.size
            args[1] = source + (done * length + first) * slot.size
            if not _calls(slot, args, length - first, steps):
                return None
    if slot.kind == MEAN:
        _divide(slot.type_num, target, rows, <double>length)
    return result


cdef inline void _put(int type_num, char* into, double value) noexcept:
    if type_num == NPY_DOUBLE:
        (<double*>into)[0] = value
    elif type_num == NPY_FLOAT:
        (<float*>into)[0] = <float>value
    else:  # of 64 bits: `_find_loop` lets no others in
        (<long long*>into)[0] = <long long>value


cdef inline void _divide(int type_num, char* values, npy_intp size, double count) noexcept:
    cdef npy_intp i
    for i in range(size):
        if type_num == NPY_DOUBLE:
            (<double*>values)[i] /= count
        else:
            (<float*>values)[i] = <float>(<double>(<float*>values)[i] / count)


cdef object _short_variance(
    Slot* slot, PyArrayObject* x, int count, npy_intp* shape, npy_intp rows, npy_intp length
):
    """Return variances or standard deviations of rows, in the steps in which NumPy finds them."""
    cdef bint double = slot.type_num == NPY_DOUBLE
    cdef double mean
    cdef char* row
    cdef char* into
    cdef char* args[3]
    cdef npy_intp steps[3]
    cdef npy_intp i, j
    Py_INCREF(<object><PyObject*>slot.descr)
    result = PyArray_NewFromDescr(
        &PyArray_Type, slot.descr, count, shape, NULL, NULL, 0, NULL
    )
    cdef char* target = <char*>PyArray_DATA(<PyArrayObject*>result)
    cdef char* squares = <char*>PyMem_Malloc(length * slot.size)
    if squares == NULL:
        raise MemoryError
    steps[0], steps[1], steps[2] = 0, slot.size, 0
    try:
        for i in range(rows):
            row = <char*>PyArray_DATA(x) + i * length * slot.size
            into = target + i * slot.size
            args[0], args[1], args[2] = into, row, into
            _put(slot.type_num, into, slot.initial)
            if not _calls(slot, args, length, steps):
                return None
            _divide(slot.type_num, into, 1, <double>length)
            if double:
                _squares(<double*>row, (<double*>into)[0], <double*>squares, length)
            else:
                _squares(<float*>row, (<float*>into)[0], <float*>squares, length)
            args[1] = squares
            _put(slot.type_num, into, slot.initial)
            if corepy_flags() or not _calls(slot, args, length, steps):
                return None
            _divide(slot.type_num, into, 1, <double>length)
            if slot.kind == DEVIATION and double:
                (<double*>into)[0] = sqrt((<double*>into)[0])
            elif slot.kind == DEVIATION:
                (<float*>into)[0] = sqrtf((<float*>into)[0])
    finally:
        PyMem_Free(squares)
    return None if corepy_flags() else result


ctypedef fused Real:
    float
    double


cdef inline void _squares(Real* x, Real mean, Real* into, npy_intp size) noexcept:
    cdef npy_intp i
    cdef Real off
    for i in range(size):
        off = x[i] - mean
        into[i] = off * off


cdef object _short_accumulation(Slot* slot, PyArrayObject* x, axis):
    """Return running sums or products of a 1-D array."""
    if PyArray_NDIM(x) != 1 or not (
        axis is None or type(axis) is int and (axis == 0 or axis == -1)
    ):
        return None
    cdef npy_intp size = _size(x, slot.least)
    if size < 1:
        return None
    result = _result(slot, x)
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* target = <char*>PyArray_DATA(<PyArrayObject*>result)
    cdef char* args[3]
    cdef npy_intp steps[3]
    memcpy(target, source, slot.size)
    args[0], args[1], args[2] = target, source + slot.size, target + slot.size
    steps[0] = steps[1] = steps[2] = slot.size
    return result if _calls(slot, args, size - 1, steps) else None


# ---------------------------------------------------------------------------- searching


cdef object _short_search(Slot* slot, PyArrayObject* x, axis):
    """Return where the extremes stand, or how many elements are not zero."""
    cdef npy_intp size = _size(x, slot.least)
    cdef int ndim = PyArray_NDIM(x), place = NPY_RAVEL_AXIS
    if size < 1:
        return None
    if slot.kind == COUNT:
        if axis is not None:
            return None
        Py_INCREF(<object><PyObject*>slot.descr)
        result = PyArray_NewFromDescr(
            &PyArray_Type, slot.descr, 0, NULL, NULL, NULL, 0, NULL
        )
        (<long long*>PyArray_DATA(<PyArrayObject*>result))[0] = PyArray_CountNonzero(x)
        return result
    if axis is not None:
        if type(axis) is not int or not -ndim <= axis < ndim:
            return None
        place = axis
    result = PyArray_ArgMax(x, place, NULL) if slot.kind == ARGMAX else PyArray_ArgMin(x, place, NULL)
    return result if _is_plain(<PyObject*>result) else None


cdef object _short_choice(Slot* slot, PyObject* which, x1, x2):
    """Return elements of one operand or the other; one of them may be a Python scalar."""
    if (<PyObject*>which).ob_type != <void*>&PyArray_Type:
        return None
    if PyArray_TYPE(<PyArrayObject*>which) != NPY_BOOL:
        return None
    cdef PyArrayObject* model = NULL
    natives = []
    for x in (x1, x2):
        if type(x) is _Array:
            native = (<Operand>x)._native
            if (<PyObject*>native).ob_type != <void*>&PyArray_Type:
                return None
        else:
            Py_INCREF(<object><PyObject*>slot.descr)
            native = PyArray_NewFromDescr(
                &PyArray_Type, slot.descr, 0, NULL, NULL, NULL, 0, NULL
            )
            if not _scalar(slot, x, PyArray_DATA(<PyArrayObject*>native)):
                return None
        if _size(<PyArrayObject*>native, slot.least) < 0:
            return None
        natives.append(native)
    if _size(<PyArrayObject*>which, slot.least) < 0:
        return None
    try:
        result = PyArray_Where(<object>which, natives[0], natives[1])
    except ValueError:  # shapes that do not broadcast: the function says which
        return None
    if not _is_plain(<PyObject*>result) or PyArray_TYPE(<PyArrayObject*>result) != slot.type_num:
        return None
    return result


cdef object _short_item(Operand owner, Slot* slot, key):
    """Return what an int, a slice or a mask selects, None where the method has to."""
    cdef PyObject* a = <PyObject*>owner._native
    if (<PyObject*>a).ob_type != <void*>&PyArray_Type:
        return None
    cdef PyArrayObject* x = <PyArrayObject*>a
    cdef npy_intp place, length
    if type(key) is int and PyArray_NDIM(x) == 1:
        length = PyArray_DIMS(x)[0]
        try:
            place = key
        except OverflowError:
            return None
        if place < 0:
            place += length
        if not 0 <= place < length:
            return None
        Py_INCREF(<object><PyObject*>slot.descr)
        result = PyArray_NewFromDescr(
            &PyArray_Type, slot.descr, 0, NULL, NULL, NULL, 0, NULL
        )
        memcpy(
            PyArray_DATA(<PyArrayObject*>result),
            <char*>PyArray_DATA(x) + place * PyArray_STRIDES(x)[0],
            slot.size,
        )
        return result
    if type(key) is slice:
        if not (
            _is_bound((<slice>key).start)
            and _is_bound((<slice>key).stop)
            and _is_bound((<slice>key).step)
        ):
            return None
    elif type(key) is _Array:
        if not _share(<Operand>key, owner):
            return None
        key = (<Operand>key)._native
        if (
            (<PyObject*>key).ob_type != <void*>&PyArray_Type
            or PyArray_TYPE(<PyArrayObject*><PyObject*>key) != NPY_BOOL
            or not _same_shape(<PyArrayObject*><PyObject*>key, x)
            or PyArray_NDIM(x) == 0
            or _size(x, slot.least) < 0
        ):
            return None
    elif type(key) is not int:
        return None
    try:
        result = PyObject_GetItem(<object>a, key)
    except (IndexError, ValueError, OverflowError):  # the method says what is wrong
        return None
    return result if (<PyObject*>result).ob_type == <void*>&PyArray_Type else None


cdef inline bint _is_bound(value) noexcept:
    return value is None or type(value) is int
