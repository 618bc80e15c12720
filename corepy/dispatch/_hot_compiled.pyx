# cython: language_level=3, binding=True, boundscheck=False, wraparound=False, cdivision=True
# cython: embedsignature=False, auto_pickle=False, c_api_binop_methods=True
"""The hot path, compiled: as ``_hot_python.py``, name by name.

What it adds is a shorter way for small NumPy arrays, before the functions in Python, which take all
that is not plain, and every error. A table keeps, beside each entry, the inner
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
import math
from types import MethodType

from corepy import _dtypes
from corepy._dtypes import (
    FLOATING,
    MIXED_PROMOTION,
    PROMOTION,
    DType,
    complex64,
    complex128,
    float32,
    float64,
    int64,
    uint64,
)
from corepy._errors import InsufficientMemoryError
from corepy._signals import let_through
from corepy.devices._device import Device
from corepy.devices._pool import lender
from corepy.dispatch import _hot_python
from corepy.dispatch._hot_python import operator, reflected, unary_operator
from corepy.dispatch._lessons import LEARNING
from corepy.dispatch._reproducible import REPRODUCIBLE
from corepy.dispatch._settings import AUTOCAST, PRIORITY, STRICT
from corepy.dispatch._short_scalars import LARGE, WHOLE

cimport cython
from cpython.complex cimport Py_complex, PyComplex_AsCComplex
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.object cimport Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, Py_NE
from cpython.object cimport PyObject, PyObject_GetItem, PyObject_SetItem
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.float cimport DBL_MAX, FLT_MAX
from libc.math cimport INFINITY, ceil, fabs, isfinite, isinf, isnan, ldexp, sqrt, sqrtf
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uintptr_t
from libc.stdlib cimport free, llabs, malloc
from libc.string cimport memchr, memcpy, memset

__all__ = [
    "Operand",
    "Slots",
    "adopts",
    "bind",
    "binary_function",
    "forget_homes",
    "guard",
    "helped_by",
    "home",
    "homes",
    "item",
    "let_go",
    "make",
    "operator",
    "product",
    "reflected",
    "reflected_product",
    "shortened",
    "unary_function",
    "unary_operator",
]


include "../backends/_targets.pxi"
include "../backends/_packing.pxi"
include "../backends/_spreads.pxi"
include "../backends/_triangles.pxi"


cdef extern from *:
    """
    /* The class has methods of the standard's signatures, as functions; its slots would look them
       up and call them. They do the same as those of the base: let Python call these at once. */
    static objobjargproc corepy_store;

    static int corepy_set_item(PyObject* self, PyObject* key, PyObject* value) {
        if (value == NULL) {  /* as for a class in Python without this method */
            PyErr_SetString(PyExc_AttributeError, "__delitem__");
            return -1;
        }
        return corepy_store(self, key, value);
    }

    static void corepy_inherit(PyTypeObject* cls, PyTypeObject* base) {
        PyNumberMethods* to = cls->tp_as_number;
        const PyNumberMethods* from = base->tp_as_number;
        to->nb_add = from->nb_add;
        to->nb_subtract = from->nb_subtract;
        to->nb_multiply = from->nb_multiply;
        to->nb_true_divide = from->nb_true_divide;
        to->nb_floor_divide = from->nb_floor_divide;
        to->nb_remainder = from->nb_remainder;
        to->nb_matrix_multiply = from->nb_matrix_multiply;
        to->nb_power = from->nb_power;
        to->nb_and = from->nb_and;
        to->nb_or = from->nb_or;
        to->nb_xor = from->nb_xor;
        to->nb_lshift = from->nb_lshift;
        to->nb_rshift = from->nb_rshift;
        to->nb_inplace_add = from->nb_inplace_add;
        to->nb_inplace_subtract = from->nb_inplace_subtract;
        to->nb_inplace_multiply = from->nb_inplace_multiply;
        to->nb_inplace_true_divide = from->nb_inplace_true_divide;
        to->nb_inplace_floor_divide = from->nb_inplace_floor_divide;
        to->nb_inplace_remainder = from->nb_inplace_remainder;
        to->nb_inplace_power = from->nb_inplace_power;
        to->nb_inplace_and = from->nb_inplace_and;
        to->nb_inplace_or = from->nb_inplace_or;
        to->nb_inplace_xor = from->nb_inplace_xor;
        to->nb_inplace_lshift = from->nb_inplace_lshift;
        to->nb_inplace_rshift = from->nb_inplace_rshift;
        to->nb_absolute = from->nb_absolute;
        to->nb_negative = from->nb_negative;
        to->nb_positive = from->nb_positive;
        to->nb_invert = from->nb_invert;
        to->nb_bool = from->nb_bool;
        to->nb_float = from->nb_float;
        to->nb_int = from->nb_int;
        to->nb_index = from->nb_index;
        cls->tp_as_sequence->sq_length = base->tp_as_sequence->sq_length;
        cls->tp_as_mapping->mp_length = base->tp_as_mapping->mp_length;
        corepy_store = base->tp_as_mapping->mp_ass_subscript;
        cls->tp_as_mapping->mp_ass_subscript = corepy_set_item;
        cls->tp_richcompare = base->tp_richcompare;
        cls->tp_as_mapping->mp_subscript = base->tp_as_mapping->mp_subscript;
        cls->tp_iter = base->tp_iter;
    }
    """
    void corepy_inherit(type, type)


include "_hot_numpy.pxi"
include "_hot_memory.pxi"
include "_hot_sharing.pxi"
include "_hot_elementwise.pxi"
include "_hot_powers.pxi"
include "_hot_spread.pxi"
include "_hot_grids.pxi"
include "_hot_tiles.pxi"
include "_hot_axes.pxi"
include "_hot_reductions.pxi"
include "_hot_variances.pxi"
include "_hot_views.pxi"
include "_hot_selections.pxi"
include "_hot_mask_loops.pxi"
include "_hot_masks.pxi"
include "_hot_indexing.pxi"
include "_hot_filling.pxi"
include "_hot_creation.pxi"
include "_hot_casts.pxi"
include "_hot_copies.pxi"
include "_hot_joins.pxi"
include "_hot_triangles.pxi"
include "_hot_gathers.pxi"
include "_hot_ordering.pxi"
include "_hot_products.pxi"
include "_hot_linalg.pxi"
include "_hot_functions.pxi"
include "_hot_guards.pxi"
include "_hot_home.pxi"
include "_hot_run.pxi"
include "_hot_adoption.pxi"
include "_hot_operations.pxi"
include "_hot_singles.pxi"


# ---------------------------------------------------------------------------- what is bound

cdef type _Array  # the class of the results
cdef object _beside, _wrap, _recover, _item, _times, _times_reflected
cdef object _item_again, _times_again  # the same of backends that `repeats`
cdef dict _learning = LEARNING
cdef double _large = LARGE
# Whether anybody ever asked for the strict reading, the same bits, or rounded products.
cdef bint _strict = STRICT.touched, _repeatable = REPRODUCIBLE.touched, _rounds = AUTOCAST.touched
cdef object _promotion = PROMOTION
cdef object _mixed_promotion = MIXED_PROMOTION
cdef tuple _NOTHING = ()
cdef dict _places = {}  # of operations in the slots of each table
cdef list _names = []
cdef bint _has_numpy = False


def _ask_for_settings():
    global _strict, _repeatable, _rounds
    _strict, _repeatable, _rounds = STRICT.touched, REPRODUCIBLE.touched, AUTOCAST.touched


for _setting in (STRICT, REPRODUCIBLE, AUTOCAST):
    _setting.watchers.append(_ask_for_settings)


cdef inline bint _is_strict() except -1:
    return _strict and STRICT.get()


cdef inline bint _is_reproducible() except -1:
    return _repeatable and REPRODUCIBLE.get()


def bind(cls, mixed, beside, as_operand, wrap, recover):
    """As `corepy.dispatch._hot_python.bind`."""
    global _Array, _beside, _wrap, _recover
    _hot_python.bind(cls, mixed, beside, as_operand, wrap, recover)
    _Array, _beside, _wrap, _recover = cls, beside, wrap, recover
    if cls is not Operand:
        corepy_inherit(cls, Operand)
        corepy_recycle(cls, Operand)


# Forms of operands, as routes call them.
cdef tuple _FORMS_REDUCED = ("all", "rows", "columns", "narrow")
cdef tuple _FORMS_ALIKE = ("", "spread")
cdef tuple _FORMS_CONVERTED = ("to float32", "to float64", "to int64")

#: What is as quick as NumPy on large arrays too, and needs no memory for a large result.
cdef tuple _ONE_PASS = (REDUCTION, MEAN, ARGMAX, ARGMIN, COUNT, VIEW)
#: What takes little time for each element, and memory for the result.
cdef tuple _MOVING = (MOVE, ACCUMULATION)
#: Operations of other kinds that are, and up to how many elements: of new arrays so many that their
#: product with one more size does not overflow.
cdef dict _MOST = {
    **dict.fromkeys(("__setitem__", "argsort", "astype", "clip", "concat"), PY_SSIZE_T_MAX),
    **dict.fromkeys(("arange", "full", "linspace", "ones", "zeros"), 1 << 31),
    **dict.fromkeys(("linalg.outer", "nonzero", "roll", "sort", "stack"), PY_SSIZE_T_MAX),
    **dict.fromkeys(("take", "tile", "tril", "triu", "vecdot", "where"), PY_SSIZE_T_MAX),
}


#: Ufuncs whose loops call functions of the C library, which note an overflow in the x87 unit alone:
#: NumPy's exponential of float32 in registers of 512 bits does.
cdef frozenset _NOTING = frozenset(
    ("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cos", "cosh", "exp")
    + ("expm1", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "nextafter", "power", "sin")
    + ("sinh", "tan", "tanh")
)


cdef int _place(str name) except -1:
    """Return where an operation stands in the slots."""
    found = _places.get(name)
    if found is None:
        if len(_names) == OPERATIONS:
            raise RuntimeError(f"{name}: the tables have no more than {OPERATIONS} slots")
        found = _places[name] = len(_names)
        _names.append(name)
    return found


cdef int _find_leasts(Slot* slot, str name, native) except -1:
    """Keep from how many elements on a native callable is to be asked, as `Slots.settle` says."""
    most = PY_SSIZE_T_MAX if slot.kind in _ONE_PASS else SHORT
    if slot.kind in _MOVING:
        most = SHORT_MOVE
    elif slot.kind == ELEMENTWISE and not slot.finite:
        most = PY_SSIZE_T_MAX
    most = PY_SSIZE_T_MAX if slot.kind == CORE and slot.wide else _MOST.get(name, most)
    slot.least = min(most, getattr(native, "least", most))
    slot.blocks = getattr(native, "blocks", False)
    slot.hindered = getattr(native, "hindered", 0)
    leasts = getattr(native, "leasts", None)
    if name == "astype":
        forms = _FORMS_CONVERTED
    else:
        forms = _FORMS_ALIKE if slot.kind == ELEMENTWISE else _FORMS_REDUCED
    for form, called in enumerate(forms):
        slot.leasts[form] = slot.least if leasts is None else min(most, leasts.get(called, most))
    # Whatever is routed, but not what else chooses: offloading, or the backend.
    routed = leasts is not None or not hasattr(native, "least")
    slot.unrouted = most if routed else slot.least
    # A route that begins with fewer elements than a row's own loop is to be gone.
    slot.row_first = (
        slot.row_first and routed and min(slot.leasts[ALL], slot.leasts[ROWS]) > slot.row_least
    )
    # Nobody was measured to be quicker than loops that take several rows at a time (of narrow
    # columns others are, but ten times slower where these are few), nor than threads that share rows
    # beside which something stands.
    if slot.column_loop != NULL:
        ours = (COLUMNS, NARROW)
    else:
        ours = (SPREAD,) if slot.kind == ELEMENTWISE and slot.shares else ()
    for form in ours:
        if routed and slot.leasts[form] >= SHORT:
            slot.leasts[form] = most
    return 0


cdef object _target(table, result, loop):
    """Return the table of what a loop gives, None where the native result tells."""
    if result is not None or loop.kind == "elementwise":
        return result
    if not _grows(loop, table.native_dtype):
        return table
    return table.sibling(_uint64 if table.native_dtype.kind == "u" else _int64)


# ---------------------------------------------------------------------------- tables


cdef class Slots(dict):
    """The base of tables: a dict of entries, with the inner loops of some of them beside it."""

    cdef Slot* slots
    cdef public object backend, device, dtype, dtypes, native_dtype
    cdef public dict siblings, calls
    cdef public bint repeats
    cdef public frozenset scalars_first, scalars_second
    cdef long long least, most  # integers that the dtype surely holds; none where nobody asks
    cdef int floating  # bytes of a real floating-point dtype, else 0

    def __cinit__(self):
        self.slots = <Slot*>PyMem_Calloc(OPERATIONS, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef int place
        if self.slots != NULL:
            for place in range(OPERATIONS):
                _release(&self.slots[place])
            PyMem_Free(self.slots)

    @property
    def entries(self):
        """What the table holds, as `corepy.dispatch._hot_python` asks for it."""
        return self

    def clear(self):
        """Forget every entry.

        What was found of its loop stays until `settle` puts the same in its place: another thread
        may be in the middle of it, without the interpreter's lock.
        """
        cdef PyObject* native
        cdef int place
        for place in range(OPERATIONS):
            native = self.slots[place].native
            self.slots[place].native = NULL
            self.slots[place].short = False
            self.slots[place].scalar_first = self.slots[place].scalar_second = False
            Py_XDECREF(native)
        dict.clear(self)

    def settle(self, str name, native, result, loop):
        """Take note of an entry that was stored.

        Parameters
        ----------
        name : str
        native : callable
            With an attribute ``least``, the number of elements from which it chooses among
            several; below it computes what `loop` does. An attribute ``leasts`` has these numbers
            by the form of the operands, and ``plain`` takes the place of one that selects by keys,
            where these are an int or a slice of ints that C can hold. With ``blocks``, products in
            blocks need not ask it, nor with ``hindered`` others (`corepy.dispatch._routes.routed`).
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
            target = _target(self, result, loop)
            if target is not None:
                _find_loop(&new, loop, self.native_dtype, target.native_dtype)
                _find_leasts(&new, name, native)
                result = target
        elif name in self.scalars_first or name in self.scalars_second:
            new.scalar_first = name in self.scalars_first
            new.scalar_second = name in self.scalars_second
            self.least, self.most = WHOLE.get(self.dtype, (1, 0))
            self.floating = {float32: 4, float64: 8}.get(self.dtype, 0)
        if name == "__getitem__":
            native = getattr(native, "plain", native)
        Py_INCREF(native)
        new.native = <PyObject*>native
        if result is not None:
            Py_INCREF(result)
            new.result = <PyObject*>result
        cdef Slot old
        if slot.native == NULL:
            old = slot[0]
            slot[0] = new
            _release(&old)
        else:  # by another thread in the meantime
            _release(&new)


# ---------------------------------------------------------------------------- arrays


#: Has no entries: of an `Array` that nobody has bound to a table all fails, and the process goes on.
cdef Slots _nowhere = Slots()


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

    def __cinit__(self):
        self._table = _nowhere  # until it is bound to one, which nothing below asks

    def __init__(self, *args, **kwargs):
        if args or kwargs:
            raise TypeError(f"{type(self).__name__}() takes no arguments")

    @property
    def dtype(self):
        """Data type of the elements."""
        return self._table.dtype

    @property
    def shape(self):
        """Sizes of the dimensions; None for those a lazy backend does not know yet."""
        native = self._native  # a tuple may wake the collector, and a finalizer write to the Array
        if _is_array(<PyObject*>native):
            return _shape_of(<PyArrayObject*><PyObject*>native)
        return self._table.backend.shape_of(native)

    @property
    def ndim(self):
        """Number of dimensions."""
        if _is_array(<PyObject*>self._native):
            return PyArray_NDIM(<PyArrayObject*><PyObject*>self._native)
        return len(self.shape)

    @property
    def size(self):
        """Number of elements, None if a dimension is not known."""
        if _is_array(<PyObject*>self._native):
            return _size(<PyArrayObject*><PyObject*>self._native, PY_SSIZE_T_MAX)
        shape = self.shape
        return None if None in shape else math.prod(shape)

    # The type's slots. The array may stand on either side of the binary ones.
    def __add__(x1, x2):
        return _reckoned("add", _ADD, COREPY_ADD, x1, x2)

    def __sub__(x1, x2):
        return _reckoned("subtract", _SUBTRACT, COREPY_SUBTRACT, x1, x2)

    def __mul__(x1, x2):
        return _reckoned("multiply", _MULTIPLY, COREPY_MULTIPLY, x1, x2)

    def __truediv__(x1, x2):
        return _reckoned("divide", _DIVIDE, COREPY_DIVIDE, x1, x2)

    def __floordiv__(x1, x2):
        return _reckoned("floor_divide", _FLOOR_DIVIDE, COREPY_FLOOR, x1, x2)

    def __mod__(x1, x2):
        return _reckoned("remainder", _REMAINDER, COREPY_REMAINDER, x1, x2)

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

    def __iadd__(self, other):
        if _short_inplace(_ADD, self, other):
            return self
        return type(self).__iadd__(self, other)

    def __isub__(self, other):
        if _short_inplace(_SUBTRACT, self, other):
            return self
        return type(self).__isub__(self, other)

    def __imul__(self, other):
        if _short_inplace(_MULTIPLY, self, other):
            return self
        return type(self).__imul__(self, other)

    def __itruediv__(self, other):
        if _short_inplace(_DIVIDE, self, other):
            return self
        return type(self).__itruediv__(self, other)

    def __ifloordiv__(self, other):
        if _short_inplace(_FLOOR_DIVIDE, self, other):
            return self
        return type(self).__ifloordiv__(self, other)

    def __imod__(self, other):
        if _short_inplace(_REMAINDER, self, other):
            return self
        return type(self).__imod__(self, other)

    def __ipow__(self, other, modulo):
        if modulo is not None:
            return NotImplemented
        if _short_inplace(_POW, self, other):
            return self
        return type(self).__ipow__(self, other)

    def __iand__(self, other):
        if _short_inplace(_AND, self, other):
            return self
        return type(self).__iand__(self, other)

    def __ior__(self, other):
        if _short_inplace(_OR, self, other):
            return self
        return type(self).__ior__(self, other)

    def __ixor__(self, other):
        if _short_inplace(_XOR, self, other):
            return self
        return type(self).__ixor__(self, other)

    def __ilshift__(self, other):
        if _short_inplace(_LEFT_SHIFT, self, other):
            return self
        return type(self).__ilshift__(self, other)

    def __irshift__(self, other):
        if _short_inplace(_RIGHT_SHIFT, self, other):
            return self
        return type(self).__irshift__(self, other)

    def __matmul__(x1, x2):
        made = _short_product(<PyObject*>x1, <PyObject*>x2, _MATMUL)
        if made is not None:
            return made
        left, right = _adopted(<PyObject*>x1, _adopting), _adopted(<PyObject*>x2, _adopting)
        if left is not None or right is not None:
            left, right = x1 if left is None else left, x2 if right is None else right
            made = _short_product(<PyObject*>left, <PyObject*>right, _MATMUL)
            if made is not None:
                return made
        if type(x1) is _Array and (<Operand>x1)._table.repeats:
            return _times_again(x1, x2)
        return _times(x1, x2) if isinstance(x1, Operand) else _times_reflected(x2, x1)

    def __getitem__(self, key):
        return _get_item(self, key)

    def __setitem__(self, key, value):
        if not _short_store(self, key, value) and not _stored_natives(self, key, value):
            type(self).__setitem__(self, key, value)

    def __len__(self):
        if _is_array(<PyObject*>self._native):
            x = <PyArrayObject*><PyObject*>self._native
            if PyArray_NDIM(x) > 0:
                return PyArray_DIMS(x)[0]
        return type(self).__len__(self)

    def __iter__(self):
        made = _elements(self)
        return type(self).__iter__(self) if made is None else made

    def __bool__(self):
        value = _number(self, True)
        if value is None:
            return type(self).__bool__(self)
        return True if value else False  # as `!= 0`, which Python is asked for

    def __float__(self):
        value = _number(self, False)
        return type(self).__float__(self) if value is None else float(value)

    def __int__(self):
        value = _number(self, False)
        if value is None or type(value) is float and not isfinite(<double>value):
            return type(self).__int__(self)
        return int(value)

    def __index__(self):
        value = _number(self, False)
        return value if type(value) is int else type(self).__index__(self)

    def __lt__(self, other):
        return _compared("less", _LESS, Py_LT, self, other)

    def __le__(self, other):
        return _compared("less_equal", _LESS_EQUAL, Py_LE, self, other)

    def __gt__(self, other):
        return _compared("greater", _GREATER, Py_GT, self, other)

    def __ge__(self, other):
        return _compared("greater_equal", _GREATER_EQUAL, Py_GE, self, other)

    def __eq__(self, other):
        return _compared("equal", _EQUAL, Py_EQ, self, other)

    def __ne__(self, other):
        return _compared("not_equal", _NOT_EQUAL, Py_NE, self, other)

    def __abs__(self):
        return _reckoned_of("abs", _ABS, COREPY_MAGNITUDE, self)

    def __neg__(self):
        return _reckoned_of("negative", _NEGATIVE, COREPY_NEGATE, self)

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
cdef int _SQUARE = _place("square")
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
cdef int _MAXIMUM = _place("maximum")
cdef int _MINIMUM = _place("minimum")
cdef int _ABS = _place("abs")
cdef int _NEGATIVE = _place("negative")
cdef int _POSITIVE = _place("positive")
cdef int _INVERT = _place("bitwise_invert")
cdef int _GETITEM = _place("__getitem__")
cdef int _SETITEM = _place("__setitem__")
cdef int _ASTYPE = _place("astype")
cdef int _MATMUL = _place("matmul")
cdef int _TRANSPOSE = _place("matrix_transpose")
cdef int _EMPTY = _place("empty")
cdef int _FULL = _place("full")
cdef int _ZEROS = _place("zeros")
cdef int _ONES = _place("ones")
cdef int _SORT = _place("sort")
cdef int _SUM = _place("sum")
cdef int _SQRT = _place("sqrt")
cdef int _MATRIX_NORM = _place("linalg.matrix_norm")
cdef int _ALL = _place("all")
cdef int _ANY = _place("any")
cdef int _STACK = _place("stack")
cdef int _DET = _place("linalg.det")
cdef int _SVD = _place("linalg.svd")
cdef int _QR = _place("linalg.qr")
cdef int _TRIU = _place("triu")
cdef int _SLOGDET = _place("linalg.slogdet")
cdef int _RFFT = _place("fft.rfft")
cdef dict _likeness = {
    "empty_like": _EMPTY,
    "full_like": _FULL,
    "ones_like": _ONES,
    "zeros_like": _ZEROS,
}

_Array = Operand


def make(native, Slots table):
    """Bind a native array to its table."""
    return _make(native, table)


cdef inline object _make(native, Slots table):
    cdef Operand array = <Operand>corepy_array(_Array, _NOTHING)
    array._native = native
    array._table = table
    return array


# ---------------------------------------------------------------------------- methods


def item(function):
    """Keep the method ``Array.__getitem__`` for the keys that are not plain.

    What stands in the class is none of Python's functions: these the interpreter calls at once,
    past the type's slots.
    """
    global _item, _item_again
    _item, _item_again = function, _hot_python.item(function)

    @functools.wraps(function)
    def method(*arguments, **words):
        return function(*arguments, **words)

    return method


cdef object _get_item(Operand x, key):
    cdef Slot* slot = &x._table.slots[_GETITEM]
    cdef char* element
    if slot.short:
        if _is_array(<PyObject*>x._native) and not _is_strict():
            element = _element_at(x, _native_of(<PyObject*>x), key)
            if element != NULL:
                return _single(slot, x._table, element)
        found = _short_item(x, slot, key)
        if found is not None:
            return _make(found, x._table)
        found = _item_at_native(x, slot, key)
        if found is not None:
            return found
    elif x._table.repeats:
        found = _cut_by_library(x, slot, key)
        return _item_again(x, key) if found is None else _make(found, x._table)
    return _item(x, key)


def product(function):
    """Keep the method ``Array.__matmul__`` for operands that are not plain."""
    global _times, _times_again
    _times, _times_again = function, _hot_python.product(function)
    return function


def reflected_product(function):
    """Keep the method ``Array.__rmatmul__`` for operands that stand on the right of others."""
    global _times_reflected
    _times_reflected = function
    return function
