# cython: language_level=3, binding=True, boundscheck=False, wraparound=False, cdivision=True
# cython: embedsignature=False, auto_pickle=False, c_api_binop_methods=True
"""The hot path, compiled: as ``_hot_python.py``, name by name.

What it adds is a shorter way for small NumPy arrays. A table keeps, beside each entry, the inner
loop that the entry's ufunc would call for its dtype. Where the operands are contiguous, of one
shape (or one of them a single value) and not many, the result is made here and the loop called at
once, past the machinery that finds it, checks casts and prepares iterators. The values are NumPy's
own, bit by bit, since the loop is.

Whatever is out of the ordinary goes back to the ufunc: other layouts and shapes, and results that
raised a floating-point flag, because what is to be done about them is for `numpy.errstate` to say.

NumPy's C interface is imported when the first loop is kept, not with this module: importing corepy
imports no NumPy.
"""

import functools

cimport cython
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.math cimport isfinite, isinf
from libc.string cimport memcpy, memset

__all__ = [
    "Operand",
    "Slots",
    "bind",
    "binary_function",
    "make",
    "operator",
    "reduction",
    "reflected",
    "unary_function",
    "unary_operator",
]


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
    void* PyArray_DATA(PyArrayObject*) nogil
    int PyArray_FLAGS(PyArrayObject*) nogil
    int PyArray_TYPE(PyArrayObject*) nogil
    object PyArray_NewFromDescr(
        PyTypeObject*, PyArray_Descr*, int, npy_intp*, npy_intp*, void*, int, PyObject*
    )


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


cdef extern from *:
    """
    /* Cython looks `__new__` up where the class is not known as it compiles. */
    static inline PyObject* corepy_new(PyTypeObject* cls, PyObject* nothing) {
        return cls->tp_new(cls, nothing, NULL);
    }
    """
    object corepy_new(type, tuple)


cdef extern from *:
    """
    /* The class has methods of the standard's signatures, as functions; its slots would look them
       up and call them. They do the same as those of the base: let Python call these at once. */
    static void corepy_inherit(PyTypeObject* cls, PyTypeObject* base) {
        PyNumberMethods* to = cls->tp_as_number;
        const PyNumberMethods* from = base->tp_as_number;
        to->nb_add = from->nb_add;
        to->nb_subtract = from->nb_subtract;
        to->nb_multiply = from->nb_multiply;
        to->nb_true_divide = from->nb_true_divide;
        to->nb_floor_divide = from->nb_floor_divide;
        to->nb_remainder = from->nb_remainder;
        to->nb_power = from->nb_power;
        to->nb_and = from->nb_and;
        to->nb_or = from->nb_or;
        to->nb_xor = from->nb_xor;
        to->nb_lshift = from->nb_lshift;
        to->nb_rshift = from->nb_rshift;
        to->nb_absolute = from->nb_absolute;
        to->nb_negative = from->nb_negative;
        to->nb_positive = from->nb_positive;
        to->nb_invert = from->nb_invert;
        cls->tp_richcompare = base->tp_richcompare;
    }
    """
    void corepy_inherit(type, type)


cdef extern from *:
    """
    #ifndef COREPY_SOURCE
    #define COREPY_SOURCE ""
    #endif
    """
    const char* COREPY_SOURCE

#: SHA-256 of the file that this was compiled from.
SOURCE = COREPY_SOURCE.decode()


cdef enum:
    OPERATIONS = 96  # that have a place in each table: more than there are
    # Elements below which the short way is taken, but for reductions. From there on the machinery
    # is a small part, and memory for the result matters.
    SHORT = 16384
    LONG = 2048  # elements from which other threads may run meanwhile
    MOST_DIMENSIONS = 32

cdef enum Kind:
    ELEMENTWISE, REDUCTION, MEAN

cdef struct Slot:
    PyObject* native  # of the entry; NULL where it was not stored
    PyObject* result
    PyUFuncGenericFunction loop  # NULL where the short way does not exist
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


# ---------------------------------------------------------------------------- what is bound

cdef type _Array  # the class of the results
cdef object _mixed, _beside, _as_operand, _fail
cdef tuple _NOTHING = ()
cdef dict _places = {}  # of operations in the slots of each table
cdef list _names = []
cdef bint _has_numpy = False


def bind(cls, mixed, beside, as_operand, fail):
    """As `corepy.dispatch._hot_python.bind`."""
    global _Array, _mixed, _beside, _as_operand, _fail
    _Array, _mixed, _beside, _as_operand, _fail = cls, mixed, beside, as_operand, fail
    if cls is not Operand:
        corepy_inherit(cls, Operand)


cdef int _place(str name) except -1:
    """Return where an operation stands in the slots."""
    found = _places.get(name)
    if found is None:
        if len(_names) == OPERATIONS:
            raise RuntimeError(f"{name}: the tables have no more than {OPERATIONS} slots")
        found = _places[name] = len(_names)
        _names.append(name)
    return found


# ---------------------------------------------------------------------------- tables


cdef class Slots(dict):
    """The base of tables: a dict of entries, with the inner loops of some of them beside it."""

    cdef Slot* slots

    def __cinit__(self):
        self.slots = <Slot*>PyMem_Calloc(OPERATIONS, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.slots != NULL:
            self.empty()
            PyMem_Free(self.slots)

    cdef void empty(self) noexcept:
        cdef Slot old
        cdef int place
        for place in range(OPERATIONS):
            old = self.slots[place]
            memset(&self.slots[place], 0, sizeof(Slot))
            _release(&old)

    def clear(self):
        """Forget every entry, with its loop."""
        self.empty()
        dict.clear(self)

    def settle(self, str name, native, result, loop):
        """Take note of an entry that was stored.

        Parameters
        ----------
        name : str
        native : callable
            With an attribute ``least``, the number of elements from which it chooses among
            several; below it computes what `loop` does.
        result : Slots or None
        loop : Loop or None
            What the backend says that the entry computes on small operands.
        """
        if name not in _places:
            return
        cdef Slot* slot = &self.slots[_place(name)]
        cdef Slot new
        memset(&new, 0, sizeof(Slot))
        if loop is not None:
            target = self if result is None and loop.kind != "elementwise" else result
            if target is not None:
                _find_loop(&new, loop, self.native_dtype, target.native_dtype)
                most = PY_SSIZE_T_MAX if new.kind != ELEMENTWISE else SHORT
                new.least = min(most, getattr(native, "least", most))
                result = target
        Py_INCREF(native)
        new.native = <PyObject*>native
        if result is not None:
            Py_INCREF(result)
            new.result = <PyObject*>result
        if slot.native == NULL:
            slot[0] = new
        else:  # by another thread in the meantime
            _release(&new)


cdef void _release(Slot* slot) noexcept:
    Py_XDECREF(slot.native)
    Py_XDECREF(slot.result)
    Py_XDECREF(<PyObject*>slot.descr)


cdef int _find_loop(Slot* slot, loop, dtype, result) except -1:
    """Keep the inner loop of a ufunc for operands of one dtype, if it has one."""
    global _has_numpy
    if not _has_numpy:
        _import_array()
        _has_numpy = True
    ufunc = loop.ufunc
    cdef PyUFuncObject* found = <PyUFuncObject*><PyObject*>ufunc
    cdef int nargs = found.nargs
    cdef int index, argument
    cdef bint fits
    cdef int into = <int>result.num
    cdef int operand = <int>dtype.num
    if found.nout != 1 or found.core_enabled or dtype.kind not in "biufc":
        return 0
    if loop.real and dtype.kind == "c":
        return 0
    for index in range(found.ntypes):
        fits = found.types[index * nargs + found.nin] == into
        for argument in range(found.nin):
            fits = fits and found.types[index * nargs + argument] == operand
        if fits and found.functions != NULL and found.functions[index] != NULL:
            break
    else:
        return 0
    if loop.kind != "elementwise":
        if found.nin != 2 or into != operand:
            return 0
        if ufunc.identity is not None and dtype.kind != "b":
            # Sums and products; smaller integers grow, and float16 has no place in `_put`.
            if dtype.kind == "c" or dtype.itemsize != 8 and operand != NPY_FLOAT:
                return 0
            if loop.kind == "mean" and dtype.kind != "f":
                return 0
            import numpy

            slot.initial = ufunc.reduce(numpy.empty(0, dtype))
            slot.has_initial = True
        slot.kind = MEAN if loop.kind == "mean" else REDUCTION
    slot.data = found.data[index] if found.data != NULL else NULL
    Py_INCREF(result)
    slot.descr = <PyArray_Descr*><PyObject*>result
    slot.size, slot.size_out = dtype.itemsize, result.itemsize
    slot.type_num = operand
    slot.finite = loop.finite and dtype.kind == "f"
    slot.loop = found.functions[index]
    return 0


# ---------------------------------------------------------------------------- the short way


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


# ---------------------------------------------------------------------------- arrays


@cython.no_gc
cdef class Operand:
    """What the dispatcher sees of an `Array`: a native array, bound to a table.

    Python's collector does not look at them: a cycle would need a native array that refers to the
    `Array` it is in.
    """

    cdef public object _native
    cdef public Slots _table
    cdef object __weakref__

    __hash__ = None

    def __init__(self, *args, **kwargs):
        if args or kwargs:
            raise TypeError(f"{type(self).__name__}() takes no arguments")

    # The type's slots. The array may stand on either side of the binary ones.
    def __add__(x1, x2):
        return _operator("add", _ADD, x1, x2)

    def __sub__(x1, x2):
        return _operator("subtract", _SUBTRACT, x1, x2)

    def __mul__(x1, x2):
        return _operator("multiply", _MULTIPLY, x1, x2)

    def __truediv__(x1, x2):
        return _operator("divide", _DIVIDE, x1, x2)

    def __floordiv__(x1, x2):
        return _operator("floor_divide", _FLOOR_DIVIDE, x1, x2)

    def __mod__(x1, x2):
        return _operator("remainder", _REMAINDER, x1, x2)

    def __pow__(x1, x2, modulo):
        return NotImplemented if modulo is not None else _operator("pow", _POW, x1, x2)

    def __and__(x1, x2):
        return _operator("bitwise_and", _AND, x1, x2)

    def __or__(x1, x2):
        return _operator("bitwise_or", _OR, x1, x2)

    def __xor__(x1, x2):
        return _operator("bitwise_xor", _XOR, x1, x2)

    def __lshift__(x1, x2):
        return _operator("bitwise_left_shift", _LEFT_SHIFT, x1, x2)

    def __rshift__(x1, x2):
        return _operator("bitwise_right_shift", _RIGHT_SHIFT, x1, x2)

    def __lt__(self, other):
        return _operate("less", _LESS, self, other)

    def __le__(self, other):
        return _operate("less_equal", _LESS_EQUAL, self, other)

    def __gt__(self, other):
        return _operate("greater", _GREATER, self, other)

    def __ge__(self, other):
        return _operate("greater_equal", _GREATER_EQUAL, self, other)

    def __eq__(self, other):
        return _operate("equal", _EQUAL, self, other)

    def __ne__(self, other):
        return _operate("not_equal", _NOT_EQUAL, self, other)

    def __abs__(self):
        return _unary("abs", _ABS, self)

    def __neg__(self):
        return _unary("negative", _NEGATIVE, self)

    def __pos__(self):
        return _unary("positive", _POSITIVE, self)

    def __invert__(self):
        return _unary("bitwise_invert", _INVERT, self)


cdef int _ADD = _place("add")
cdef int _SUBTRACT = _place("subtract")
cdef int _MULTIPLY = _place("multiply")
cdef int _DIVIDE = _place("divide")
cdef int _FLOOR_DIVIDE = _place("floor_divide")
cdef int _REMAINDER = _place("remainder")
cdef int _POW = _place("pow")
cdef int _AND = _place("bitwise_and")
cdef int _OR = _place("bitwise_or")
cdef int _XOR = _place("bitwise_xor")
cdef int _LEFT_SHIFT = _place("bitwise_left_shift")
cdef int _RIGHT_SHIFT = _place("bitwise_right_shift")
cdef int _LESS = _place("less")
cdef int _LESS_EQUAL = _place("less_equal")
cdef int _GREATER = _place("greater")
cdef int _GREATER_EQUAL = _place("greater_equal")
cdef int _EQUAL = _place("equal")
cdef int _NOT_EQUAL = _place("not_equal")
cdef int _ABS = _place("abs")
cdef int _NEGATIVE = _place("negative")
cdef int _POSITIVE = _place("positive")
cdef int _INVERT = _place("bitwise_invert")

_Array = Operand


def make(native, Slots table):
    """Bind a native array to its table."""
    return _make(native, table)


cdef inline object _make(native, Slots table):
    cdef Operand array = <Operand>corepy_new(_Array, _NOTHING)
    array._native = native
    array._table = table
    return array


# ---------------------------------------------------------------------------- operations


cdef object _binary(str name, int place, Operand x, Operand y):
    """Run an operation on two operands of one table."""
    cdef Slots table = x._table
    cdef Slot* slot = &table.slots[place]
    cdef object native, out
    if slot.loop != NULL:
        made = _short_binary(slot, <PyObject*>x._native, <PyObject*>y._native)
        if made is not None:
            return _make(made, <Slots>slot.result)
    if slot.native != NULL:
        native = <object>slot.native
        out = None if slot.result == NULL else <object>slot.result
    else:
        native, out = table[name]
    try:
        made = native(x._native, y._native)
    except Exception as error:
        _fail(name, (x, y), error)
    if type(made) is not type(x._native):
        made = table.backend.normalize(made)
    return _make(made, <Slots>out)


cdef object _unary(str name, int place, Operand x):
    cdef Slots table = x._table
    cdef Slot* slot = &table.slots[place]
    cdef object native, out
    if slot.loop != NULL:
        made = _short_unary(slot, <PyObject*>x._native)
        if made is not None:
            return _make(made, <Slots>slot.result)
    if slot.native != NULL:
        native = <object>slot.native
        out = None if slot.result == NULL else <object>slot.result
    else:
        native, out = table[name]
    try:
        made = native(x._native)
    except Exception as error:
        _fail(name, (x,), error)
    if type(made) is not type(x._native):
        made = table.backend.normalize(made)
    return _make(made, <Slots>out)


cdef inline object _beside_scalar(int place, Operand x, value, bint first):
    """Return the result beside a Python scalar the short way, None where there is none."""
    cdef Slot* slot = &x._table.slots[place]
    if slot.loop == NULL:
        return None
    made = _short_scalar(slot, <PyObject*>x._native, value, first)
    return None if made is None else _make(made, <Slots>slot.result)


cdef object _operate(str name, int place, Operand x, other):
    if type(other) is _Array:
        if (<Operand>other)._table is x._table:
            return _binary(name, place, x, <Operand>other)
    elif type(other) is float or type(other) is int:
        made = _beside_scalar(place, x, other, False)
        if made is not None:
            return made
    return _beside(name, x, other)


cdef object _operator(str name, int place, x1, x2):
    if isinstance(x1, Operand):
        return _operate(name, place, <Operand>x1, x2)
    if type(x1) is float or type(x1) is int:
        made = _beside_scalar(place, <Operand>x2, x1, True)
        if made is not None:
            return made
    return _beside(name, x1, x2)


def operator(str name):
    """Make the method of a binary operator, such as ``Array.__add__`` of ``"add"``."""
    cdef int place = _place(name)

    def method(self, other, /):
        return _operate(name, place, self, other)

    return method


def reflected(str name):
    """Make the method of a reflected operator, such as ``Array.__radd__`` of ``"add"``."""

    def method(self, other, /):
        return _beside(name, other, self)

    return method


def unary_operator(str name):
    """Make the method of a unary operator, such as ``Array.__neg__`` of ``"negative"``."""
    cdef int place = _place(name)

    def method(self, /):
        return _unary(name, place, self)

    return method


def binary_function(str name):
    """Make the function of a binary operation."""
    cdef int place = _place(name)

    def function(x1, x2, /):
        if type(x1) is _Array:
            if type(x2) is _Array:
                if (<Operand>x1)._table is (<Operand>x2)._table:
                    return _binary(name, place, <Operand>x1, <Operand>x2)
            elif type(x2) is float or type(x2) is int:
                made = _beside_scalar(place, <Operand>x1, x2, False)
                if made is not None:
                    return made
        elif type(x2) is _Array and (type(x1) is float or type(x1) is int):
            made = _beside_scalar(place, <Operand>x2, x1, True)
            if made is not None:
                return made
        return _mixed(name, x1, x2)

    return function


def unary_function(str name):
    """Make the function of a unary operation."""
    cdef int place = _place(name)

    def function(x, /):
        if type(x) is not _Array:
            x = _as_operand(name, "x", x)
        return _unary(name, place, <Operand>x)

    return function


# ---------------------------------------------------------------------------- reductions


def reduction(str name, function):
    """Put the short way before the function of a reduction.

    It is taken for one small, contiguous array, and an axis that is None, the first or the last.
    """
    cdef int place = _place(name)

    @functools.wraps(function)
    def reduced(x, /, **arguments):
        cdef Slot* slot
        if type(x) is _Array:
            slot = &(<Operand>x)._table.slots[place]
            if slot.loop != NULL:
                made = None
                if not arguments:
                    made = _short_reduction(slot, <PyObject*>(<Operand>x)._native, None)
                elif len(arguments) == 1 and "axis" in arguments:
                    made = _short_reduction(
                        slot, <PyObject*>(<Operand>x)._native, arguments["axis"]
                    )
                if made is not None:
                    return _make(made, <Slots>slot.result)
        return function(x, **arguments)

    return reduced


cdef object _short_reduction(Slot* slot, PyObject* a, axis):
    """Return what the loop reduces an array to, None where the entry has to compute it."""
    if not _is_plain(a):
        return None
    cdef PyArrayObject* x = <PyArrayObject*>a
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
