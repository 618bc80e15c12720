# Functions of the namespace with a short way before them, and how these read their arguments.
# Included by _hot_compiled.pyx.

cdef extern from *:
    """
    /* Cython has no word for it: calls hand over their arguments as they are, without a tuple. */
    static void corepy_take_vectors(PyTypeObject* type, Py_ssize_t offset) {
        type->tp_vectorcall_offset = offset;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        type->tp_call = PyVectorcall_Call;
        PyType_Modified(type);
    }

    /* Take over a reference. */
    static inline PyObject* corepy_take(PyObject* made) { return made; }
    """
    void corepy_take_vectors(type, Py_ssize_t)
    object corepy_take(PyObject*)
    bint PyErr_ExceptionMatches(object) noexcept
    object PyObject_Vectorcall(PyObject*, PyObject**, size_t, PyObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t) noexcept
    PyObject* PyTuple_GET_ITEM(PyObject*, Py_ssize_t) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject*) noexcept
    PyObject* PyDict_GetItemWithError(object, object) except? NULL
    PyTypeObject PyBool_Type
    PyTypeObject PyLong_Type
    PyTypeObject PySlice_Type
    PyTypeObject PyUnicode_Type
    PyTypeObject PyFloat_Type
    PyTypeObject PyComplex_Type
    PyTypeObject PyTuple_Type
    PyTypeObject PyList_Type
    int PyContextVar_Get(object, PyObject*, PyObject**) except -1
    long PyLong_AsLongAndOverflow(PyObject*, int*) noexcept


#: Takes the arguments of a call: positional ones, how many, and the names of those that follow.
#: Returns None where the function has to be asked: for what is no plain case, or an error.
ctypedef object (*Way)(Function, PyObject**, Py_ssize_t, PyObject*)


cdef class Function:
    """A function with a short way before it, which sees each call first."""

    cdef void* vectorcall
    cdef Way way
    cdef int place  # of the operation in the slots
    cdef tuple words  # keywords of a reduction
    cdef tuple places  # names of parameters by their places, None where a name does not do
    cdef bint widens  # whether integers are reduced to a wider dtype
    cdef bint repeated  # whether `_repeated_reduction` knows its calls
    cdef object function, result
    cdef object again  # the short way in Python, which backends have that `repeats`; or None
    cdef str name
    cdef dict __dict__
    cdef object __weakref__

    def __get__(self, instance, owner):  # as functions have it, by which `help` knows them
        return self if instance is None else MethodType(self, instance)

    def __repr__(self):
        return f"<function {self.__qualname__}>"

    def __reduce__(self):
        return self.__qualname__


#: A way as C sees it: NULL with an exception. Python's words for that would take longer than to
#: find out whether there is one.
ctypedef PyObject* (*WayInC)(Function, PyObject**, Py_ssize_t, PyObject*) noexcept


cdef object _called(Function self, PyObject** args, size_t flags, PyObject* names):
    cdef PyObject* made = (<WayInC>self.way)(self, args, PyVectorcall_NARGS(flags), names)
    if made != NULL:
        found = corepy_take(made)
        if found is not None:
            return found
        if names == NULL:
            made = (<WayInC>_called_on_natives)(self, args, PyVectorcall_NARGS(flags), names)
        else:
            made = (<WayInC>_called_by_names)(self, args, PyVectorcall_NARGS(flags), names)
    if made != NULL:
        found = corepy_take(made)
        if found is not None:
            return found
    else:
        _forgive_lack_of_memory()
    if (
        self.again is not None
        and PyVectorcall_NARGS(flags)
        and args[0].ob_type == <void*>_Array
        and (<Operand>args[0])._table.repeats
    ):
        return PyObject_Vectorcall(<PyObject*>self.again, args, flags, names)
    return PyObject_Vectorcall(<PyObject*>self.function, args, flags, names)


cdef object _called_by_names(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Try again where names stand in their places, as in `zeros(shape=3)`; and on native arrays."""
    cdef Py_ssize_t given = PyTuple_GET_SIZE(names), places = PyTuple_GET_SIZE(<PyObject*>self.places)
    cdef Py_ssize_t more = 0
    cdef PyObject* rest = NULL
    while more < given and count + more < places:
        if PyTuple_GET_ITEM(names, more) != PyTuple_GET_ITEM(<PyObject*>self.places, count + more):
            break
        more += 1
    if more:
        left = (<tuple>names)[more:]
        if more < given:
            rest = <PyObject*>left
        found = self.way(self, args, count + more, rest)
        if found is not None:
            return found
    return _called_on_natives(self, args, count, names)


cdef int _forgive_lack_of_memory() except -1:
    """Forget that NumPy lacked memory: the function has what is kept for later freed, and tries again."""
    if not PyErr_ExceptionMatches(MemoryError) or PyErr_ExceptionMatches(InsufficientMemoryError):
        return -1
    PyErr_Clear()
    return 0


cdef Function _sample = Function.__new__(Function)
corepy_take_vectors(Function, <char*>&_sample.vectorcall - <char*><PyObject*>_sample)


def shortened(str name, function, result=None):
    """As `corepy.dispatch._hot_python.shortened`."""
    cdef Way way = _way_of(name)
    return function if way == NULL else _before(way, name, function, result, True)


cdef object _before(Way way, str name, function, result=None, bint again=False):
    cdef Function made = Function.__new__(Function)
    made.vectorcall = <void*>_called
    made.way, made.place = way, _place(name)
    made.name, made.function, made.result = name, function, result
    made.repeated, made.widens = name in _REPEATED, name in _WIDENING
    made.places = _places_of(function)
    made.words = _REDUCING
    if made.widens:
        made.words = _RUNNING if name.startswith("cumulative_") else _SUMMING
    elif name in ("std", "var"):
        made.words = _CORRECTED
    if again:
        found = _hot_python.shortened(name, function)
        made.again = None if found is function else found
    return functools.update_wrapper(made, function)


cdef tuple _places_of(function):
    """Name the parameters that may stand without their names, None those that have to."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    alone = code.co_posonlyargcount
    return (None,) * alone + code.co_varnames[alone : code.co_argcount]


# ---------------------------------------------------------------------------- arguments


cdef inline bint _words(
    PyObject** args, Py_ssize_t count, PyObject* names, tuple known, PyObject** values
) noexcept:
    """Put the values of keywords where those of absent ones stand already; False for others."""
    return names == NULL or _find_words(args + count, names, known, 0, values)


cdef inline bint _places_or_words(
    PyObject** args, Py_ssize_t count, PyObject* names, tuple known, PyObject** values
) noexcept:
    """The same of one or two that may also stand, without a name, behind the first argument."""
    if count > 1:
        values[0] = args[1]
    if count > 2:
        values[1] = args[2]
    return names == NULL or _find_words(args + count, names, known, count - 1, values)


cdef bint _find_words(
    PyObject** given, PyObject* names, tuple known, Py_ssize_t first, PyObject** values
) noexcept:
    """Put what is given where it is known, of which the first ones have their values."""
    cdef Py_ssize_t i, place
    for i in range(PyTuple_GET_SIZE(names)):
        for place in range(first, PyTuple_GET_SIZE(<PyObject*>known)):
            if PyTuple_GET_ITEM(names, i) == PyTuple_GET_ITEM(<PyObject*>known, place):
                values[place] = given[i]
                break
        else:
            return False
    return True


cdef tuple _operands_of(PyObject** args, Py_ssize_t count):
    """Return the positional arguments of a call as Python has them."""
    return tuple([<object>args[i] for i in range(count)])


cdef dict _params_of(PyObject** args, Py_ssize_t count, PyObject* names):
    """Return its keyword arguments, which stand behind these."""
    if names == NULL:
        return {}
    return {name: <object>args[count + i] for i, name in enumerate(<object>names)}


cdef inline Slot* _slot_of(PyObject* x, int place) noexcept:
    """Return what is known of an operation on an `Array`; NULL where there is no short way."""
    if x.ob_type != <void*>_Array:
        return NULL
    cdef Slot* slot = &(<Operand>x)._table.slots[place]
    return slot if slot.short else NULL


cdef inline PyArrayObject* _native_of(PyObject* x) noexcept:
    """Return the native array of an `Array` whose slot is known."""
    return <PyArrayObject*><PyObject*>(<Operand>x)._native


cdef inline bint _whole(PyObject* value, long* into) noexcept:
    """Read an int; False for what is none, and for great ones."""
    cdef int overflow = 0
    if value.ob_type != <void*>&PyLong_Type:
        return False
    into[0] = PyLong_AsLongAndOverflow(value, &overflow)
    return overflow == 0 and -0x40000000 <= into[0] <= 0x40000000


cdef inline int _axis_of(PyObject* axis, int ndim, int absent) noexcept:
    """Return an axis, `absent` where it was not given; -1 where it is none."""
    cdef long number
    if axis == NULL:
        number = absent
    elif not _whole(axis, &number):
        return -1
    if number < 0:
        number += ndim
    return <int>number if 0 <= number < ndim else -1


cdef int _dims_of(PyObject* shape, npy_intp* dims, npy_intp least) noexcept:
    """Read a shape of fewer elements than `least`; return how many dimensions, -1 for others."""
    cdef long number
    cdef npy_intp size = 1
    cdef Py_ssize_t ndim, i
    if _whole(shape, &number):
        dims[0] = number
        return 1 if 0 <= number < least else -1
    if shape.ob_type != <void*>&PyTuple_Type:
        return -1
    ndim = PyTuple_GET_SIZE(shape)
    if ndim > MOST_DIMENSIONS:
        return -1
    for i in range(ndim):
        if not _whole(PyTuple_GET_ITEM(shape, i), &number) or not 0 <= number < least:
            return -1
        dims[i] = number
        size *= number
        if size >= least:
            return -1
    return <int>ndim


# ---------------------------------------------------------------------------- what they are


cdef Way _way_of(str name):
    if name == "run":
        return _run_way
    if name in _REDUCTIONS:
        return _reduction_way
    if name in ("zeros", "ones", "empty"):
        return _creation_way
    if name in ("sort", "argsort"):
        return _ordering_way
    if name in ("concat", "stack"):
        return _joining_way
    if name in ("linalg.inv", "linalg.det", "linalg.cholesky"):
        return _matrix_way
    if name in ("linalg.eigh", "linalg.svd", "linalg.qr", "linalg.slogdet"):
        return _decomposition_way
    if name in ("fft.fft", "fft.rfft"):
        return _transform_way
    if name in ("linalg.matrix_norm", "linalg.vector_norm"):
        return _norm_way
    if name in _likeness:
        return _likeness_way
    if name in ("T", "mT"):
        return _transposed_way
    if name == "asarray":
        return _conversion_way
    if name == "arange":
        return _range_way
    if name == "astype":
        return _cast_way
    if name == "broadcast_to":
        return _broadcasting_way
    if name == "clip":
        return _clamp_way
    if name == "expand_dims":
        return _expansion_way
    if name == "eye":
        return _identity_way
    if name == "flip":
        return _flip_way
    if name == "full":
        return _filling_way
    if name == "linspace":
        return _spacing_way
    if name == "linalg.diagonal":
        return _diagonal_way
    if name == "linalg.outer":
        return _outer_way
    if name == "linalg.trace":
        return _trace_way
    if name == "linalg.solve":
        return _solution_way
    if name == "matmul":
        return _product_way
    if name == "matrix_transpose":
        return _transposition_way
    if name == "nonzero":
        return _finding_way
    if name == "permute_dims":
        return _permutation_way
    if name == "repeat":
        return _repeating_way
    if name == "reshape":
        return _reshaping_way
    if name == "result_type":
        return _promoting_way
    if name == "roll":
        return _rolling_way
    if name == "searchsorted":
        return _searching_way
    if name == "squeeze":
        return _squeezing_way
    if name == "take":
        return _taking_way
    if name == "tensordot":
        return _contraction_way
    if name == "tile":
        return _tiling_way
    if name in ("tril", "triu"):
        return _triangle_way
    if name == "unique_values":
        return _distinct_way
    if name == "unstack":
        return _unstacking_way
    if name == "vecdot":
        return _dot_way
    if name == "where":
        return _choice_way
    return NULL


_REDUCTIONS = frozenset(
    ("all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "max")
    + ("mean", "min", "prod", "std", "sum", "var")
)


cdef object _binary_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Take two operands of one table, or one and a Python scalar."""
    if count != 2 or names != NULL:
        return None
    return _quick(self.name, self.place, <object>args[0], <object>args[1])


cdef object _unary_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Take an `Array`."""
    if count != 1 or names != NULL or args[0].ob_type != <void*>_Array:
        return None
    return _unary(self.name, self.place, <Operand>args[0])


cdef object _reduction_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Take one small, contiguous array, and axes that follow each other at one end of it, or all.

    Running sums and products take any one axis.
    """
    cdef PyObject** words = [Py_None, Py_False, NULL]
    cdef double correction = 0
    cdef long whole = 0
    if count != 1 or args[0].ob_type != <void*>_Array:
        return None
    if not _words(args, 1, names, self.words, words):
        return None
    if self.words is _CORRECTED and words[2] != NULL:
        if words[2].ob_type == <void*>&PyFloat_Type:
            correction = PyFloat_AS_DOUBLE(words[2])
        elif _whole(words[2], &whole):
            correction = <double>whole
        else:
            return None
    if words[1].ob_type != <void*>&PyBool_Type:
        return None
    x = <Operand>args[0]
    cdef bint flag = words[1] == Py_True
    cdef Slot* slot = &x._table.slots[self.place]
    if self.widens and words[2] != NULL and words[2] != Py_None:
        if <object>words[2] is _float64 and x._table.dtype is float32:
            return _doubled_reduction(self, x, words[0], flag)
        if <object>words[2] is not _dtype_of_sums(x):  # which it has anyway
            return None
    # Of many elements the entry may round otherwise: not the first time only.
    if slot.native == NULL and self.words is _CORRECTED and x._table.dtype.kind == "f":
        _resolved(x._table, self.place)
    if self.place == _ALL or self.place == _ANY:
        made = _reduced_truth(self, x, words[0], flag)
        if made is not None:
            return made
    if slot.short:
        held = x._native  # as in `_binary`
        made = _reduced_to(slot, held, words[0], flag, correction)
        if made is not None or not slot.grows:
            return made
    if self.repeated and x._table.repeats:
        return _repeated_reduction(self, x, words[0], flag)
    return _widened_reduction(self, x, words[0], flag) if self.widens else None


cdef tuple _REDUCING = ("axis", "keepdims")
cdef tuple _SUMMING = ("axis", "keepdims", "dtype")
cdef tuple _RUNNING = ("axis", "include_initial", "dtype")
cdef tuple _CORRECTED = ("axis", "keepdims", "correction")


cdef object _reduced_to(Slot* slot, native, PyObject* axis, bint flag, double correction):
    """Wrap what an array is reduced to, None where the entry has to compute it.

    The flag says whether dimensions are kept, or running sums begin with zero.
    """
    if slot.kind == ACCUMULATION:
        made = _short_accumulation(slot, native, axis, flag)
        return None if made is None else _make(made, <Slots>slot.result)
    made = _short_reduction(slot, <PyObject*>native, <object>axis, correction)
    if made is None:
        made = _turned_reduction(slot, <PyObject*>native, <object>axis, correction)
    if made is None:
        return None
    if flag:
        ndim = PyArray_NDIM(<PyArrayObject*><PyObject*>native)
        made = _with_dimensions(<PyArrayObject*><PyObject*>made, ndim, <object>axis)
    return _make(made, <Slots>slot.result)


cdef object _widened_reduction(Function self, Operand x, PyObject* axis, bint flag):
    """Reduce integers to a wider dtype, after their conversion to it; None for others."""
    wide = _table_of_sums(x)
    return None if wide is x._table else _converted_reduction(self, x, wide, axis, flag)


cdef object _reduced_truth(Function self, Operand x, PyObject* axis, bint flag):
    """Tell of few numbers whether all or any are other than zero; None for more.

    Of many NumPy may know after a look at the first ones.
    """
    held = None if x._table.dtype is _bool else _side_by_side(<PyObject*>x._native)
    if held is None or _size(<PyArrayObject*><PyObject*>held, LONG) < 1:
        return None
    cdef Slot* unequal = _resolved_if_any(x._table, _NOT_EQUAL)
    if unequal == NULL:
        return None
    cdef Slot* slot = _resolved(<Slots>unequal.result, self.place)
    native = None if slot == NULL else _short_scalar(unequal, <PyObject*>held, 0, False)
    return None if native is None else _reduced_to(slot, native, axis, flag, 0)


cdef object _doubled_reduction(Function self, Operand x, PyObject* axis, bint flag):
    """Reduce few elements of single precision in double precision; None for more."""
    cdef PyObject* wide = PyDict_GetItemWithError(x._table.siblings, _float64)
    held = x._native
    cdef PyArrayObject* native = <PyArrayObject*><PyObject*>held
    cdef Axes axes
    cdef int first, last
    # More of them NumPy converts some at a time, and adds what these come to; and what lies
    # otherwise, or along axes that others lie between, in another order.
    if wide == NULL or not _is_plain(<PyObject*>held) or _size(native, LONG) < 1:
        return None
    if PyArray_NDIM(native) > MOST_DIMENSIONS:
        return None
    if not _axes_of(<object>axis, PyArray_NDIM(native), &axes):
        return None
    if not _is_run(axes, PyArray_NDIM(native), &first, &last):
        return None
    return _converted_reduction(self, x, <Slots>wide, axis, flag)


cdef object _converted_reduction(Function self, Operand x, Slots wide, PyObject* axis, bint flag):
    """Reduce an array after its conversion to the dtype of a table."""
    cdef Slot* slot = _resolved(wide, self.place)
    if slot == NULL:
        return None
    native = _converted(slot, x)
    return None if native is None else _reduced_to(slot, native, axis, flag, 0)


cdef Slots _table_of_sums(Operand x):
    """Return the table in which an array is summed: of integers that of a wider dtype, if it is known."""
    cdef PyObject* found
    wide = _dtype_of_sums(x)
    if wide is None or wide is x._table.dtype:
        return x._table
    found = PyDict_GetItemWithError(x._table.siblings, wide)
    return x._table if found == NULL else <Slots>found


cdef object _dtype_of_sums(Operand x):
    """Return the dtype in which an array of NumPy's is summed; None of others."""
    cdef int type_num
    if not _is_array(<PyObject*>x._native):
        return None
    type_num = PyArray_TYPE(<PyArrayObject*><PyObject*>x._native)
    if not PyTypeNum_ISINTEGER(type_num):
        return x._table.dtype
    return _uint64 if PyTypeNum_ISUNSIGNED(type_num) else _int64


_WIDENING = frozenset(("cumulative_prod", "cumulative_sum", "prod", "sum"))


#: Those of which the short way in Python keeps calls by the dimensions, `axis` and `keepdims` alone.
_REPEATED = frozenset(
    ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "sum")
)


cdef object _repeated_reduction(Function self, Operand x, PyObject* axis, bint keepdims):
    """Call a library as the short way in Python has learned; None where that has to."""
    cdef PyObject* found
    if axis != Py_None and axis.ob_type != <void*>&PyLong_Type:
        return None
    native = x._native
    found = PyDict_GetItemWithError(
        x._table.calls, (self.name, native.ndim, <object>axis, keepdims)
    )
    if found == NULL:
        return None
    call, least, result = <tuple><object>found
    if 0 in native.shape if least is None else not 0 < native.size < least:
        return None
    try:
        made = call(native)
    except Exception as error:  # the function words it
        let_through(error)
        return None
    if type(made) is not type(native):
        made = (<Slots>result).backend.normalize(made)
    return _make(made, <Slots>result)


cdef object _choice_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Choose between two operands of one table, or one and a scalar, by a third."""
    cdef PyObject* model
    if count != 3 or names != NULL or args[0].ob_type != <void*>_Array:
        return None
    model = args[1] if args[1].ob_type == <void*>_Array else args[2]
    if model.ob_type != <void*>_Array or not _share(<Operand>args[0], <Operand>model):
        return None
    one, other = <object>args[1], <object>args[2]
    wide = _table_of_both(<Operand>model, other if <PyObject*>one == model else one)
    if wide is None:
        return None
    one, other = _in_table(wide, one), _in_table(wide, other)
    if one is None or other is None:
        return None
    cdef Slot* slot = _resolved(wide, self.place)
    if slot == NULL:
        return None
    made = _short_choice(slot, <PyObject*>_native_of(args[0]), one, other)
    return None if made is None else _make(made, wide)


cdef Slots _table_of_both(Operand x, other):
    """Return the table of what an array and an array or a Python scalar promote to, if it is known."""
    cdef PyObject* found
    cdef int type_num
    table = x._table
    if type(other) is _Array:
        if (<Operand>other)._table is table:
            return table
        if not _share(x, <Operand>other):
            return None
        found = _common(table.dtype, (<Operand>other)._table.dtype)
    elif _is_array(<PyObject*>x._native) and (type(other) is float or type(other) is int):
        type_num = PyArray_TYPE(<PyArrayObject*><PyObject*>x._native)
        if type_num != NPY_BOOL and (type(other) is int or not PyTypeNum_ISINTEGER(type_num)):
            return table
        found = <PyObject*>(_float64 if type(other) is float else _int64)
    else:
        return table
    if found == NULL or _is_strict():
        return None
    found = PyDict_GetItemWithError(table.siblings, <object>found)
    return None if found == NULL else <Slots>found


cdef object _in_table(Slots wide, x):
    """Return an `Array` in the dtype of a table, None where a way has none; scalars as they are."""
    if type(x) is not _Array or (<Operand>x)._table is wide:
        return x
    cdef Slot* slot = _resolved(wide, _FULL)
    if slot == NULL:
        return None
    native = _converted(slot, <Operand>x)
    return None if native is None else _make(native, wide)


cdef object _clamped(Slot* slot, PyArrayObject* x, low, high):
    """Clamp a contiguous array between numbers, None for others."""
    cdef double bounds[4]  # room for any two
    cdef char* args[4]
    cdef npy_intp steps[4]
    cdef npy_intp size
    if not _scalar(slot, low, &bounds[0]) or not _scalar(slot, high, &bounds[2]):
        return None
    held = <object>x
    if not _is_plain(<PyObject*>x):
        return None
    size = _size(x, slot.least)
    if size < 0:
        return None
    result = _mapped(slot, x)
    if result is None:
        return None
    args[0], args[3] = <char*>PyArray_DATA(x), _data(result)
    args[1], args[2] = <char*>&bounds[0], <char*>&bounds[2]
    steps[0] = steps[3] = slot.size
    steps[1] = steps[2] = 0
    return result if _maps(slot, args, 4, size, steps) else None


cdef object _limited(Operand x, bint below, limit):
    """Clamp by one Python scalar, as the greater or lesser of each element and that; None for NaN."""
    if limit != limit:
        return None
    cdef Slot* slot = _resolved(x._table, _MAXIMUM if below else _MINIMUM)
    if slot == NULL:
        return None
    native = x._native
    held = _side_by_side(<PyObject*>native)
    made = _short_scalar(slot, <PyObject*>(native if held is None else held), limit, False)
    return None if made is None else _make(made, x._table)


cdef struct Limits:
    Slot* below
    Slot* above


cdef object _clamped_between(Slot* slot, Operand x, low, high):
    """Clamp an array by others or numbers, one of which may be None, wherever they lie.

    None where the entry has to.
    """
    cdef PyArrayObject* arrays[3]
    cdef double room[2][2]  # for any two elements
    cdef Limits limits
    cdef Slot* one
    cdef Work work
    cdef int count = 1
    limits.below, limits.above = _resolved(x._table, _MAXIMUM), _resolved(x._table, _MINIMUM)
    if limits.below == NULL or limits.above == NULL:
        return None
    if not limits.below.short or not limits.above.short:
        return None
    memset(&work, 0, sizeof(Work))
    held, below, above = x._native, low, high  # somebody else may let go of them meanwhile
    if type(low) is _Array:
        below = (<Operand>low)._native
    if type(high) is _Array:
        above = (<Operand>high)._native
    if not _is_array(<PyObject*>held):
        return None
    arrays[0], work.steps[0] = <PyArrayObject*><PyObject*>held, slot.size
    for bound, native in ((low, below), (high, above)):
        if bound is None:
            continue
        arrays[count], work.steps[count] = NULL, slot.size
        if type(bound) is not _Array:
            if not _scalar(slot, bound, room[count - 1]):
                return None
            work.operands[count] = <char*>room[count - 1]
        elif (<Operand>bound)._table is x._table:
            arrays[count] = <PyArrayObject*><PyObject*>native
        else:
            return None
        count += 1
    work.slot, work.count = slot, count + 1
    cdef bint wide = limits.below.wide or limits.above.wide
    if count == 2:
        one = limits.below if high is None else limits.above
        work.loop, work.data = one.loop, one.data
    elif slot.loop != NULL:
        work.loop, wide = slot.loop, True
    elif arrays[1] == NULL and arrays[2] == NULL and _size(arrays[0], SOME) < 0:
        return None  # beside numbers NumPy's own loop is quicker
    elif not PyTypeNum_ISINTEGER(slot.type_num):
        return None  # of zeros that are equal these loops would take the bound
    else:
        work.loop, work.data = _clamp, &limits
    return _gridded(&work, arrays, slot.unrouted, wide)


cdef void _clamp(
    char** operands, const npy_intp* size, const npy_intp* steps, void* data
) noexcept nogil:
    """As a loop of NumPy's for integers: the greater of an element and a bound, and the lesser.

    By parts that stay in the first cache.
    """
    cdef Limits* limits = <Limits*>data
    cdef npy_intp[3] first_steps = [steps[0], steps[1], steps[3]]
    cdef npy_intp[3] second_steps = [steps[3], steps[2], steps[3]]
    cdef char* args[3]
    cdef npy_intp at = 0, some
    while at < size[0]:
        some = min(<npy_intp>ROW, size[0] - at)
        args[0], args[1] = operands[0] + at * steps[0], operands[1] + at * steps[1]
        args[2] = operands[3] + at * steps[3]
        limits.below.loop(args, &some, first_steps, limits.below.data)
        args[0], args[1] = args[2], operands[2] + at * steps[2]
        limits.above.loop(args, &some, second_steps, limits.above.data)
        at += some


cdef inline object _bound_beside(Operand x, bound):
    """Return what an array is clamped by; a scalar of NumPy's as an `Array` where one can be made."""
    if bound is None or type(bound) is float or type(bound) is int or type(bound) is _Array:
        return bound
    scalar = _scalar_beside(x, bound)
    return bound if scalar is None else scalar


cdef object _clamp_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Clamp between numbers, or arrays: by loops."""
    cdef PyObject** bounds = [Py_None, Py_None]
    if not 1 <= count <= 3 or not _places_or_words(args, count, names, ("min", "max"), bounds):
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL:
        return None
    x = <Operand>args[0]
    low, high = _bound_beside(x, <object>bounds[0]), _bound_beside(x, <object>bounds[1])
    limit = low if high is None else high
    made = None
    if low is None or high is None:
        if limit is None:
            return None
        if type(limit) is int or type(limit) is float:
            return _limited(x, high is None, limit)
    elif slot.loop != NULL:
        made = _clamped(slot, _native_of(args[0]), low, high)
    if made is None:
        made = _clamped_between(slot, x, low, high)
    return None if made is None else _make(made, x._table)
