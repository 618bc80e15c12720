# What the compiled hot path takes of NumPy's C interface, and what it keeps of each entry.
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
        NPY_ARRAY_F_CONTIGUOUS
        NPY_ARRAY_ALIGNED
        NPY_BOOL
        NPY_FLOAT
        NPY_DOUBLE
        NPY_CFLOAT
        NPY_CDOUBLE
        NPY_INTP
        NPY_INT8
        NPY_INT16
        NPY_INT32
        NPY_INT64
        NPY_UINT8
        NPY_UINT16
        NPY_UINT32
        NPY_ARRAY_WRITEABLE
    ctypedef enum NPY_SORTKIND:
        NPY_QUICKSORT
        NPY_STABLESORT
    ctypedef enum NPY_SEARCHSIDE:
        NPY_SEARCHLEFT
        NPY_SEARCHRIGHT
    int _import_array() except -1
    ctypedef int (*ArgFunc "PyArray_ArgFunc *")(void*, npy_intp, npy_intp*, void*) noexcept nogil
    ctypedef int (*SortFunction "PyArray_SortFunc *")(void*, npy_intp, void*) noexcept nogil
    ctypedef struct PyArray_ArrFuncs:
        ArgFunc argmax
        ArgFunc argmin
        SortFunction* sort
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(PyArray_Descr*) nogil
    int PyArray_NDIM(PyArrayObject*) nogil
    npy_intp PyDataType_ELSIZE(PyArray_Descr*) nogil
    npy_intp* PyArray_DIMS(PyArrayObject*) nogil
    npy_intp* PyArray_STRIDES(PyArrayObject*) nogil
    void* PyArray_DATA(PyArrayObject*) nogil
    int PyArray_FLAGS(PyArrayObject*) nogil
    void PyArray_CLEARFLAGS(PyArrayObject*, int)
    int PyArray_TYPE(PyArrayObject*) nogil
    bint PyTypeNum_ISINTEGER(int) nogil
    bint PyTypeNum_ISUNSIGNED(int) nogil
    npy_intp PyArray_ITEMSIZE(PyArrayObject*) nogil
    object PyArray_Zeros(int, npy_intp*, PyArray_Descr*, int)
    PyArray_Descr* PyArray_DescrFromType(int)
    PyArray_Descr* PyArray_DESCR(PyArrayObject*)
    ctypedef enum NPY_ORDER:
        NPY_CORDER
        NPY_KEEPORDER
    ctypedef struct PyArray_Dims:
        npy_intp* ptr
        int len
    object PyArray_Newshape(PyArrayObject*, PyArray_Dims*, NPY_ORDER)
    object PyArray_NewCopy(PyArrayObject*, NPY_ORDER)
    int PyArray_CopyInto(PyArrayObject*, PyArrayObject*) except -1
    object PyArray_GETITEM(PyArrayObject*, char*)
    object PyArray_Arange(double, double, double, int)
    int PyArray_Sort(PyArrayObject*, int, NPY_SORTKIND) except -1
    object PyArray_ArgSort(PyArrayObject*, int, NPY_SORTKIND)
    object PyArray_SearchSorted(PyArrayObject*, object, NPY_SEARCHSIDE, PyObject*)
    int NPY_RAVEL_AXIS
    ctypedef enum NPY_CLIPMODE:
        NPY_RAISE
    object PyArray_TakeFrom(PyArrayObject*, object, int, PyArrayObject*, NPY_CLIPMODE)
    object PyArray_ArgMax(PyArrayObject*, int, PyArrayObject*)
    object PyArray_ArgMin(PyArrayObject*, int, PyArrayObject*)
    tuple PyArray_Nonzero(PyArrayObject*)
    npy_intp PyArray_CountNonzero(PyArrayObject*) except -1
    object PyArray_Where(object, object, object)


cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    ctypedef struct PySliceObject:
        PyObject* start
        PyObject* stop
        PyObject* step
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    Py_ssize_t PySlice_AdjustIndices(
        Py_ssize_t, Py_ssize_t*, Py_ssize_t*, Py_ssize_t
    ) noexcept
    Py_ssize_t Py_SIZE(object) noexcept
    double PyFloat_AS_DOUBLE(PyObject*) noexcept
    long long PyLong_AsLongLongAndOverflow(PyObject*, int*) noexcept
    PyObject** PySequence_Fast_ITEMS(object) noexcept


cdef extern from "numpy/ufuncobject.h":
    int _import_umath() except -1
    int PyUFunc_GiveFloatingpointErrors(const char*, int) except -1
    ctypedef void (*PyUFuncGenericFunction)(
        char**, const npy_intp*, const npy_intp*, void*
    ) noexcept nogil
    ctypedef struct PyUFuncObject:
        const char* name
        int nin
        int nout
        int nargs
        int ntypes
        int core_enabled
        PyUFuncGenericFunction* functions
        void** data
        char* types


cdef enum:
    OPERATIONS = 160  # that have a place in each table: more than there are
    # Elements below which the short way is taken, but by what `_find_leasts` lets take it at any size.
    # From there on the machinery is a small part. What is moved takes so little time that a way
    # through Python that has left the caches shows longer.
    SHORT = 16384
    SHORT_MOVE = 2097152
    CHUNK = 32768  # elements of one row that threads reduce apart
    GROUP = 512  # bytes of each row that columns reduced together take at least
    GROWN = 64  # columns as which the small integers of a row are added up
    FEW = 32  # elements of a row whose extreme is found without a branch
    BLAS_SHARES = 10000  # elements of a vector from which OpenBLAS has several threads multiply it
    BLAS_ALONE = 262144  # products of two elements up to which OpenBLAS multiplies in one thread
    VECTOR_ALONE = 9215  # elements of a matrix that it multiplies by a vector in one thread
    BLOCK = 64  # rows of a matrix that are multiplied apart, at least
    LONG_BLOCK = 4096  # and at most
    INTEGER_ROWS = 32  # of integers a block has a multiple of so many rows or columns
    INTEGERS_ALONE = 131072  # and products of integers are one block up to so many
    INTEGER_PARTS = 64  # that are added up at most
    WEIGHED = 65536  # elements of the rows that are weighed and added up apart
    WEIGHED_ROWS = 64  # and so many of them at least
    WEIGHED_COLUMNS = 8192  # of which at most so many
    FEW_COLUMNS = 16  # below which BLAS is quicker
    DOTTED = 32768  # elements of the rows that are multiplied by a vector apart
    DOTTED_ROWS = 4  # which are read at once
    DOTTED_LONG = 512  # elements of a row from which BLAS is no quicker
    LONG = 2048  # elements from which other threads may run meanwhile
    PARTED = 32768  # elements of a vector from which threads may sort parts of it
    PARTS = 4
    SAMPLE = 1023  # elements that tell where parts begin
    SOME = 64  # elements from which a second look at them is worth a quicker way
    MOST_DIMENSIONS = 32
    ALL = 0  # forms of reductions
    ROWS = 1
    COLUMNS = 2
    NARROW = 3
    TO_SINGLE = 0  # forms of conversions
    TO_DOUBLE = 1
    TO_INTEGERS = 2
    BY_MASK = 1  # of what masks select
    EACH_BY_MASK = 2
    ALIKE = 0  # of elementwise operations
    SPREAD = 1
    FORMS = 4
    NARROWEST = 128  # columns up to which they are few, and rows for each of them
    LONGER = 8

cdef enum Kind:
    ELEMENTWISE, REDUCTION, MEAN, VARIANCE, DEVIATION, ACCUMULATION
    CORE, DOUBLES  # by loops of generalized ufuncs
    ARGMAX, ARGMIN, COUNT, PLAIN, MOVE, VIEW

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
    "core": CORE,
    "doubles": DOUBLES,
    "plain": PLAIN,
    "move": MOVE,
    "view": VIEW,
}

ctypedef double (*RowLoop)(const void*, Py_ssize_t) noexcept nogil
ctypedef bint (*ColumnLoop)(void*, const void*, npy_intp, npy_intp, npy_intp) noexcept nogil
ctypedef void (*Weighing)(
    void*, const void*, const void*, npy_intp, npy_intp, npy_intp, npy_intp
) noexcept nogil
ctypedef void (*Dotting)(
    void*, const void*, const void*, npy_intp, npy_intp, npy_intp
) noexcept nogil
ctypedef int (*Packing)(const void*, long long*, npy_intp, npy_intp, bint) noexcept nogil
ctypedef bint (*Unpacking)(const void*, long long*, npy_intp, npy_intp, bint, int) noexcept nogil
ctypedef npy_intp (*Parting)(
    const void*, npy_intp, const void*, const void*, void*, npy_intp*
) noexcept nogil
ctypedef double (*Joining)(const double*, Py_ssize_t) noexcept nogil

cdef struct Sorting:  # how threads sort parts of a vector
    Parting part  # what picks one; NULL if there is nothing
    SortFunction sort
    npy_intp size  # bytes of an element
    double pace  # seconds that sorting takes for each, 0 if nobody knows

cdef struct Slot:
    PyObject* native  # of the entry; NULL where it was not stored
    PyObject* result
    bint short  # whether there is a shorter way
    bint scalar_first, scalar_second  # whether the entry takes a Python scalar as that operand
    PyUFuncGenericFunction loop
    void* data
    PyUFuncGenericFunction second  # where the operation needs two
    void* second_data
    PyArray_Descr* descr  # of the result
    PyArray_Descr* operand  # of the operands
    npy_intp size  # bytes of an element of the operands
    npy_intp size_out
    npy_intp least  # elements from which the entry has the choice
    npy_intp leasts[FORMS]  # the same by form
    npy_intp unrouted  # the same of operands that lie as those of no route do
    npy_intp first  # elements, or products of integers, below which the loop comes before any route
    bint blocks  # whether products in blocks come before it
    npy_intp hindered  # elements below which products do where nobody is in BLAS's way
    int type_num  # of the operands
    Kind kind
    bint wide  # whether the loop takes contiguous operands and single values alone
    bint shares  # whether other threads may run the loop on some of the elements
    double pace[FORMS]  # seconds that it takes for one of many, by form; 0 if nobody knows
    double effort  # seconds for a byte that it reads or writes in a cache; 0 if nobody knows
    double far[2]  # seconds for an element in no cache if it is long: past the caches, and straight
    int trials  # of these two
    bint finite  # whether the loop is only right for finite operands
    bint packs  # whether operands with gaps are put side by side: the entry has more to do than NumPy
    bint notes  # whether it may tell of what it meets with in the x87 unit alone
    const char* told  # under what name NumPy tells of that; NULL if the entry has to
    bint silent  # whether nobody is told
    double initial  # of a reduction, where `has_initial`
    bint has_initial
    RowLoop row_loop  # what reduces long rows in the loop's place; NULL if there is none
    npy_intp row_least, row_longer  # elements of an array and a row from which it does
    bint row_first  # whether that comes before any route
    Joining row_join  # makes one result of those of a row's chunks
    npy_intp chunk  # elements of a chunk
    ColumnLoop column_loop  # what reduces columns in the loop's place; NULL if there is none
    Weighing weighing  # what adds up rows times a number each; NULL if there is none
    Dotting dotting  # and the products of each row with a vector
    Packing pack  # what makes words to sort of elements, for a stable order; NULL if there is none
    Unpacking unpack  # what makes places of them
    Sorting sorting
    npy_intp order_least  # elements of a row from which they are used
    bint splits  # whether the loop may reduce chunks, and then what they come to
    bint grows  # whether what it adds up has fewer bits than the result


cdef void _release(Slot* slot) noexcept:
    Py_XDECREF(slot.native)
    Py_XDECREF(slot.result)
    Py_XDECREF(<PyObject*>slot.descr)
    Py_XDECREF(<PyObject*>slot.operand)


cdef dict _classes = {}  # dtypes by the classes of NumPy's scalars


cdef int _use_numpy() except -1:
    """Import NumPy's C interface, once: for whoever has something of NumPy's already."""
    global _has_numpy
    if not _has_numpy:
        import numpy

        _import_array()
        _import_umath()
        for dtype in _dtypes.DTYPES.values():
            _classes[numpy.dtype(dtype.name).type] = dtype
        _has_numpy = True
    return 0


cdef int _find_loop(Slot* slot, loop, dtype, result) except -1:
    """Keep what computes an operation on operands of one dtype, if there is a shorter way."""
    _use_numpy()
    slot.kind = _kinds[loop.kind]
    cdef uintptr_t wide = loop.wide.get(dtype.name, 0)
    if dtype.kind not in "biufc" or loop.real and dtype.kind == "c" and not wide:
        return 0
    if slot.kind == CORE or slot.kind == DOUBLES:
        if not _find_core(slot, loop, dtype):
            return 0
    elif slot.kind < CORE and not _find_ufunc(slot, loop, dtype, result):
        return 0
    if loop.ufunc is not None and loop.ufunc.__name__ == "power" and dtype.kind == "f":
        _mind_roots(slot, loop, dtype)
    Py_INCREF(result)
    slot.descr = <PyArray_Descr*><PyObject*>result
    Py_INCREF(dtype)
    slot.operand = <PyArray_Descr*><PyObject*>dtype
    slot.size, slot.size_out = dtype.itemsize, result.itemsize
    slot.type_num = dtype.num
    slot.notes = loop.ufunc is not None and loop.ufunc.__name__ in _NOTING
    # Powers of integers may raise an exception of Python's, in the thread that computes them.
    slot.shares = loop.ufunc is None or dtype.kind == "f" or loop.ufunc.__name__ != "power"
    slot.packs = dtype.kind in loop.finite
    slot.silent = dtype.kind in loop.silent
    # Integers divided by zero raise an exception, and what is right of finite numbers alone may be
    # wrong where it overflows.
    if dtype.kind in "fc" and not slot.packs:
        if slot.kind == ELEMENTWISE:
            slot.told = (<PyUFuncObject*>loop.ufunc).name
        elif slot.kind == ACCUMULATION:
            slot.told = "accumulate"
        elif slot.kind == REDUCTION or slot.kind == MEAN:
            slot.told = "reduce"
    slot.finite = slot.packs and not wide
    if wide:
        slot.loop, slot.data, slot.wide = <PyUFuncGenericFunction>wide, NULL, True
    if loop.rows is not None:
        slot.row_loop = <RowLoop><uintptr_t>loop.rows.addresses.get(dtype.name, 0)
        slot.row_least, slot.row_longer = loop.rows.least, loop.rows.longer
        # No other library was measured to be quicker; what a loop leaves to others may be routed.
        slot.row_first = slot.row_loop != NULL and slot.kind in (REDUCTION, MEAN, COUNT)
        slot.row_join, slot.chunk = <Joining><uintptr_t>loop.rows.join, loop.rows.chunk
    if slot.chunk == 0:
        slot.chunk = CHUNK
    if loop.order is not None and dtype.name in loop.order.addresses:
        slot.pack = <Packing><uintptr_t>loop.order.addresses[dtype.name][0]
        slot.unpack = <Unpacking><uintptr_t>loop.order.addresses[dtype.name][1]
        slot.order_least = loop.order.least
    if dtype.name in loop.parts:
        _find_sorting(&slot.sorting, loop.parts[dtype.name], dtype)
    if wide or slot.pack != NULL or slot.sorting.part != NULL:
        slot.first = loop.first
    slot.weighing = <Weighing><uintptr_t>loop.weighted.get(dtype.name, 0)
    slot.dotting = <Dotting><uintptr_t>loop.dotted.get(dtype.name, 0)
    if slot.kind == REDUCTION or slot.kind == MEAN or slot.weighing != NULL:
        slot.column_loop = <ColumnLoop><uintptr_t>loop.columns.get(dtype.name, 0)
    elif slot.kind == ARGMAX or slot.kind == ARGMIN or slot.kind == COUNT:
        slot.column_loop, slot.has_initial = _seeker(slot), True
    # Integers come to the same in any order, and so do extremes, but for what `_is_told_apart` says.
    cdef bint known = slot.type_num == NPY_FLOAT or slot.type_num == NPY_DOUBLE
    slot.splits = slot.kind == REDUCTION and (
        dtype.kind not in "fc" or known and not slot.has_initial
    )
    slot.short = True
    return 0


cdef int _find_sorting(Sorting* sorting, uintptr_t address, dtype) except -1:
    """Keep how threads sort parts of vectors of a dtype, by what picks these."""
    cdef PyArray_ArrFuncs* functions = PyDataType_GetArrFuncs(<PyArray_Descr*><PyObject*>dtype)
    if functions == NULL or functions.sort[<int>NPY_QUICKSORT] == NULL:
        return 0
    sorting.sort, sorting.size = functions.sort[<int>NPY_QUICKSORT], dtype.itemsize
    sorting.part = <Parting><void*>address
    return 0


cdef bint _grows(loop, dtype) except -1:
    """Say whether a loop adds up integers of fewer bits than their sum."""
    return (
        loop.kind == "reduction"
        and dtype.kind in "iu"
        and dtype.itemsize < 8
        and loop.ufunc.identity is not None
        and dtype.name in loop.columns
    )


cdef bint _find_ufunc(Slot* slot, loop, dtype, result) except -1:
    """Keep the inner loop of a ufunc, if it has one for operands and results of these dtypes.

    Of sums that have more bits than what is added up, that for sums of theirs.
    """
    ufunc = loop.ufunc
    cdef PyUFuncObject* found = <PyUFuncObject*><PyObject*>ufunc
    cdef int nargs = found.nargs, index, argument
    cdef int operand = <int>dtype.num, into = <int>result.num
    slot.grows = _grows(loop, dtype)
    if slot.grows:
        operand = into
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
            if dtype.kind != "c" and result.itemsize != 8 and operand != NPY_FLOAT:
                return False
            import numpy

            slot.initial = ufunc.reduce(numpy.empty(0, dtype)).real
            slot.has_initial = True
    slot.data = found.data[index] if found.data != NULL else NULL
    slot.loop = found.functions[index]
    return True


cdef bint _find_core(Slot* slot, loop, dtype) except -1:
    """Keep the inner loops of generalized ufuncs for operands of a dtype, or for doubles."""
    cdef int operand = <int>dtype.num
    if slot.kind == DOUBLES:
        if dtype.kind not in "fc":
            return False
        operand = NPY_CDOUBLE if dtype.kind == "c" else NPY_DOUBLE
    if not _core_loop(loop.ufunc, operand, &slot.loop, &slot.data):
        return False
    return loop.second is None or _core_loop(
        loop.second, operand, &slot.second, &slot.second_data
    )


cdef bint _core_loop(ufunc, int operand, PyUFuncGenericFunction* into, void** data) except -1:
    """Find the loop whose first operand has a dtype."""
    cdef PyUFuncObject* found = <PyUFuncObject*><PyObject*>ufunc
    cdef int index
    if not found.core_enabled or found.functions == NULL:
        return False
    for index in range(found.ntypes):
        if found.types[index * found.nargs] == operand and found.functions[index] != NULL:
            into[0] = found.functions[index]
            data[0] = found.data[index] if found.data != NULL else NULL
            return True
    return False
