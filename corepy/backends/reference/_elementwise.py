"""Elementwise functions: which dtypes they take, and what they do to one element of each.

Integers are exact and wrap modulo ``2**bits``. Floats are computed as `_real` and `_complex` say,
then rounded once to the dtype of the result.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, divided_by_zero, negative_power
from corepy.backends.reference import _complex, _real
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._layout import broadcast_all, broadcast_values, common_shape
from corepy.backends.reference._operands import (
    ArrayLike,
    as_array,
    check_dtype,
    convert_scalar,
    promote,
    result_dtype,
)
from corepy.backends.reference._rounding import round_all

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

Unary: TypeAlias = Callable[[ArrayLike], ReferenceArray]
Binary: TypeAlias = Callable[[ArrayLike, ArrayLike], ReferenceArray]
#: What happens to one element (or a pair), and the dtype of the result for each dtype taken.
_Kernel: TypeAlias = Callable[..., Any]
_Result: TypeAlias = Callable[[DType], DType]


# ------------------------------------------------------------------ how functions are made


class _Rounding:
    """Mark a kernel that rounds by itself and takes the real dtype to round to as `part`."""

    def __init__(self, kernel: _Kernel) -> None:
        self.kernel = kernel


def _same(dtype: DType) -> DType:
    return dtype


def _bool(dtype: DType) -> DType:
    return _dtypes.bool


def _kernels(
    boolean: _Kernel | None,
    integer: _Kernel | None,
    real: _Kernel | _Rounding | None,
    complex: _Kernel | _Rounding | None,
) -> dict[DType, _Kernel]:
    """Say which kernel serves each dtype; kinds without a kernel are not taken."""
    by_kind = {"b": boolean, "i": integer, "u": integer, "f": real, "c": complex}
    table: dict[DType, _Kernel] = {}
    for dtype in _dtypes.DTYPES.values():
        kernel = by_kind[dtype.kind]
        if isinstance(kernel, _Rounding):
            table[dtype] = partial(kernel.kernel, part=_dtypes.real_of(dtype))
        elif kernel is not None:
            table[dtype] = kernel
    return table


def _document(
    function: Callable[..., Any],
    name: str,
    summary: str,
    operands: str,
    takes: str,
    result: _Result,
) -> None:
    returns: dict[_Result, str] = {
        _bool: "bool",
        _dtypes.real_of: "the real dtype of the same precision",
    }
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Parameters
    ----------
    {operands} : array, nested list or scalar
        With {takes}.

    Returns
    -------
    array
        Of the broadcast shape; its dtype is {returns.get(result, "that of the operands")}.

    Raises
    ------
    TypeError
        If an operand has another dtype, or two have none in common.
    """


def _unary(
    name: str,
    summary: str,
    *,
    boolean: _Kernel | None = None,
    integer: _Kernel | None = None,
    real: _Kernel | _Rounding | None = None,
    complex: _Kernel | _Rounding | None = None,
    result: _Result = _same,
) -> Unary:
    """Make an elementwise function of one operand from its kernels by kind of dtype."""
    kernels = _kernels(boolean, integer, real, complex)
    allowed = frozenset(kernels)

    def function(x: ArrayLike, /) -> ReferenceArray:
        x = as_array(name, "x", x)
        check_dtype(name, "x", x, allowed)
        dtype = result(x.dtype)
        values = list(map(kernels[x.dtype], x.values))
        return ReferenceArray(round_all(values, dtype), x.shape, dtype)

    _document(function, name, summary, "x", _dtypes.describe(allowed), result)
    return function


def _binary(
    name: str,
    summary: str,
    *,
    boolean: _Kernel | None = None,
    integer: _Kernel | None = None,
    real: _Kernel | _Rounding | None = None,
    complex: _Kernel | _Rounding | None = None,
    result: _Result = _same,
) -> Binary:
    """Make an elementwise function of two operands from its kernels by kind of dtype."""
    kernels = _kernels(boolean, integer, real, complex)
    allowed = frozenset(kernels)

    def function(x1: ArrayLike, x2: ArrayLike, /) -> ReferenceArray:
        first, second = promote(name, x1=x1, x2=x2)
        check_dtype(name, "x1", first, allowed)
        (left, right), shape = broadcast_all(name, (first, second))
        dtype = result(first.dtype)
        values = list(map(kernels[first.dtype], left, right))
        return ReferenceArray(round_all(values, dtype), shape, dtype)

    _document(function, name, summary, "x1, x2", _dtypes.describe(allowed), result)
    return function


# ------------------------------------------------------------------ integer kernels

#: No dtype is wider, so shifts by more do what a shift by this much does.
_WIDEST: Final = 64


def _floor_divide(a: int, b: int) -> int:
    if b == 0:
        raise divided_by_zero()
    return a // b


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise divided_by_zero()
    return a % b


def _pow(a: int, b: int) -> int:
    if b < 0:
        raise negative_power()
    return builtins.pow(a, b, 1 << _WIDEST)  # what the widest dtype keeps; wrapped further later


def _left_shift(a: int, b: int) -> int:
    if b < 0:
        raise bad_argument("bitwise_left_shift", "x2", b, "non-negative shifts")
    return a << min(b, _WIDEST)


def _right_shift(a: int, b: int) -> int:
    if b < 0:
        raise bad_argument("bitwise_right_shift", "x2", b, "non-negative shifts")
    return a >> min(b, _WIDEST)


def _integer_sign(x: int) -> int:
    return (x > 0) - (x < 0)


def _is_true(x: Value) -> bool:
    return True


def _is_false(x: Value) -> bool:
    return False


# ------------------------------------------------------------------ arithmetic

add = _binary("add", "Add.", integer=operator.add, real=operator.add, complex=operator.add)
subtract = _binary(
    "subtract", "Subtract.", integer=operator.sub, real=operator.sub, complex=operator.sub
)
multiply = _binary(
    "multiply",
    "Multiply.",
    integer=operator.mul,
    real=operator.mul,
    complex=_Rounding(_complex.multiply),
)
divide = _binary("divide", "Divide.", real=_real.divide, complex=_Rounding(_complex.divide))
floor_divide = _binary(
    "floor_divide",
    "Divide and round down; ``ZeroDivisionError`` for an integer divisor of zero.",
    integer=_floor_divide,
    real=_Rounding(_real.floor_divide),
)
remainder = _binary(
    "remainder",
    "Return what is left of a division, with the divisor's sign, as Python's ``%``.",
    integer=_remainder,
    real=_real.remainder,
)
pow = _binary(
    "pow",
    "Raise to a power; ``ValueError`` for a negative integer exponent.",
    integer=_pow,
    real=_real.pow,
    complex=_complex.pow,
)
negative = _unary(
    "negative", "Negate.", integer=operator.neg, real=operator.neg, complex=operator.neg
)
positive = _unary(
    "positive", "Copy.", integer=operator.pos, real=operator.pos, complex=operator.pos
)
abs = _unary(
    "abs",
    "Return the absolute value.",
    integer=operator.abs,
    real=operator.abs,
    complex=_Rounding(_complex.absolute),
    result=_dtypes.real_of,
)
sign = _unary(
    "sign",
    "Return the sign: -1, 0, 1, NaN, or the direction of a complex number.",
    integer=_integer_sign,
    real=_real.sign,
    complex=_Rounding(_complex.sign),
)
square = _unary(
    "square",
    "Multiply by itself.",
    integer=lambda x: x * x,
    real=lambda x: x * x,
    complex=_Rounding(lambda x, part: _complex.multiply(x, x, part)),
)
reciprocal = _unary(
    "reciprocal",
    "Divide one by each element.",
    real=lambda x: _real.divide(1.0, x),
    complex=_Rounding(lambda x, part: _complex.divide(1 + 0j, x, part)),
)
sqrt = _unary("sqrt", "Return the principal square root.", real=_real.sqrt, complex=_complex.sqrt)
hypot = _binary("hypot", "Return the root of the sum of squares.", real=_Rounding(_real.hypot))

# ------------------------------------------------------------------ exponentials and logarithms

exp = _unary("exp", "Raise e to each element.", real=_real.exp, complex=_complex.exp)
expm1 = _unary("expm1", "Return ``exp(x) - 1``.", real=_real.expm1, complex=_complex.expm1)
log = _unary("log", "Return the natural logarithm.", real=_real.log, complex=_complex.log)
log1p = _unary("log1p", "Return ``log(1 + x)``.", real=_real.log1p, complex=_complex.log1p)
log2 = _unary("log2", "Return the logarithm to base 2.", real=_real.log2, complex=_complex.log2)
log10 = _unary(
    "log10", "Return the logarithm to base 10.", real=_real.log10, complex=_complex.log10
)
logaddexp = _binary("logaddexp", "Return ``log(exp(x1) + exp(x2))``.", real=_real.logaddexp)

# ------------------------------------------------------------------ trigonometry

sin = _unary("sin", "Return the sine.", real=_real.sin, complex=_complex.sin)
cos = _unary("cos", "Return the cosine.", real=_real.cos, complex=_complex.cos)
tan = _unary("tan", "Return the tangent.", real=_real.tan, complex=_complex.tan)
asin = _unary("asin", "Return the inverse sine.", real=_real.asin, complex=_complex.asin)
acos = _unary("acos", "Return the inverse cosine.", real=_real.acos, complex=_complex.acos)
atan = _unary("atan", "Return the inverse tangent.", real=_real.atan, complex=_complex.atan)
sinh = _unary("sinh", "Return the hyperbolic sine.", real=_real.sinh, complex=_complex.sinh)
cosh = _unary("cosh", "Return the hyperbolic cosine.", real=_real.cosh, complex=_complex.cosh)
tanh = _unary("tanh", "Return the hyperbolic tangent.", real=_real.tanh, complex=_complex.tanh)
asinh = _unary(
    "asinh", "Return the inverse hyperbolic sine.", real=_real.asinh, complex=_complex.asinh
)
acosh = _unary(
    "acosh", "Return the inverse hyperbolic cosine.", real=_real.acosh, complex=_complex.acosh
)
atanh = _unary(
    "atanh", "Return the inverse hyperbolic tangent.", real=_real.atanh, complex=_complex.atanh
)
atan2 = _binary("atan2", "Return the angle of the point ``(x2, x1)``.", real=_real.atan2)

# ------------------------------------------------------------------ rounding

ceil = _unary("ceil", "Round up.", integer=operator.pos, real=_real.ceil)
floor = _unary("floor", "Round down.", integer=operator.pos, real=_real.floor)
trunc = _unary("trunc", "Round towards zero.", integer=operator.pos, real=_real.trunc)
round = _unary(
    "round",
    "Round to the nearest integer, ties to even.",
    integer=operator.pos,
    real=_real.round,
    complex=_complex.round_parts,
)

# ------------------------------------------------------------------ comparison

equal = _binary(
    "equal",
    "Compare for equality.",
    boolean=operator.eq,
    integer=operator.eq,
    real=operator.eq,
    complex=operator.eq,
    result=_bool,
)
not_equal = _binary(
    "not_equal",
    "Compare for inequality.",
    boolean=operator.ne,
    integer=operator.ne,
    real=operator.ne,
    complex=operator.ne,
    result=_bool,
)
less = _binary("less", "Test ``x1 < x2``.", integer=operator.lt, real=operator.lt, result=_bool)
less_equal = _binary(
    "less_equal", "Test ``x1 <= x2``.", integer=operator.le, real=operator.le, result=_bool
)
greater = _binary(
    "greater", "Test ``x1 > x2``.", integer=operator.gt, real=operator.gt, result=_bool
)
greater_equal = _binary(
    "greater_equal", "Test ``x1 >= x2``.", integer=operator.ge, real=operator.ge, result=_bool
)
maximum = _binary(
    "maximum", "Return the greater operand; NaN if one is.", integer=max, real=_real.maximum
)
minimum = _binary(
    "minimum", "Return the lesser operand; NaN if one is.", integer=min, real=_real.minimum
)

# ------------------------------------------------------------------ bits and logic

bitwise_and = _binary("bitwise_and", "And bits.", boolean=operator.and_, integer=operator.and_)
bitwise_or = _binary("bitwise_or", "Or bits.", boolean=operator.or_, integer=operator.or_)
bitwise_xor = _binary("bitwise_xor", "Xor bits.", boolean=operator.xor, integer=operator.xor)
bitwise_invert = _unary(
    "bitwise_invert", "Invert bits.", boolean=operator.not_, integer=operator.invert
)
bitwise_left_shift = _binary(
    "bitwise_left_shift",
    "Shift left; ``ValueError`` for negative shifts, zero for those of all bits or more.",
    integer=_left_shift,
)
bitwise_right_shift = _binary(
    "bitwise_right_shift",
    "Shift right and keep the sign; ``ValueError`` for negative shifts.",
    integer=_right_shift,
)
logical_and = _binary("logical_and", "Test whether both are true.", boolean=operator.and_)
logical_or = _binary("logical_or", "Test whether one is true.", boolean=operator.or_)
logical_xor = _binary("logical_xor", "Test whether just one is true.", boolean=operator.xor)
logical_not = _unary("logical_not", "Test whether each is false.", boolean=operator.not_)

# ------------------------------------------------------------------ parts of floating-point numbers

isfinite = _unary(
    "isfinite",
    "Test for neither infinity nor NaN.",
    integer=_is_true,
    real=math.isfinite,
    complex=cmath.isfinite,
    result=_bool,
)
isinf = _unary(
    "isinf",
    "Test for an infinity, in either component.",
    integer=_is_false,
    real=math.isinf,
    complex=cmath.isinf,
    result=_bool,
)
isnan = _unary(
    "isnan",
    "Test for NaN, in either component.",
    integer=_is_false,
    real=math.isnan,
    complex=cmath.isnan,
    result=_bool,
)
signbit = _unary("signbit", "Test the sign bit, of NaN too.", real=_real.signbit, result=_bool)
copysign = _binary(
    "copysign", "Return the magnitude of x1 with the sign of x2.", real=math.copysign
)
nextafter = _binary(
    "nextafter", "Return the neighbour of x1 towards x2.", real=_Rounding(_real.nextafter)
)
conj = _unary(
    "conj",
    "Return the complex conjugate.",
    integer=operator.pos,
    real=operator.pos,
    complex=lambda z: z.conjugate(),
)
real = _unary(
    "real",
    "Return the real part.",
    integer=operator.pos,
    real=operator.pos,
    complex=lambda z: z.real,
    result=_dtypes.real_of,
)
imag = _unary(
    "imag", "Return the imaginary part.", complex=lambda z: z.imag, result=_dtypes.real_of
)


def clip(
    x: ArrayLike,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> ReferenceArray:
    """Limit each element to a range.

    Parameters
    ----------
    x : array, nested list or scalar
        With a real-valued dtype.
    min, max : array, nested list, scalar or None
        Inclusive bounds, broadcast against `x`; None for no bound. Where they cross, `max` wins.

    Returns
    -------
    array
        Of the broadcast shape and with the dtype of `x`. NaN where an operand is.

    Raises
    ------
    TypeError
        If an operand is not real-valued, or a scalar bound is of a higher kind than `x`.
    """
    x = as_array("clip", "x", x)
    check_dtype("clip", "x", x, _dtypes.REAL)
    bounds: list[tuple[ReferenceArray, _Kernel]] = []
    for argument, given, limit in (("min", min, _real.maximum), ("max", max, _real.minimum)):
        if given is None:
            continue
        if isinstance(given, bool | int | float | complex):
            given = ReferenceArray([convert_scalar("clip", argument, given, x.dtype)], (), x.dtype)
        bound = as_array("clip", argument, given)
        result_dtype("clip", [x.dtype, bound.dtype])  # of one kind
        bounds.append((bound, limit))
    shape = common_shape("clip", [x.shape, *(bound.shape for bound, _ in bounds)])
    values = list(broadcast_values(x, shape))
    for bound, limit in bounds:
        values = list(map(limit, values, broadcast_values(bound, shape)))
    return ReferenceArray(round_all(values, x.dtype), shape, x.dtype)
