"""Elementwise functions.

https://data-apis.org/array-api/2025.12/API_specification/elementwise_functions.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from corepy._dtypes import (
    ANY,
    BOOLEAN,
    COMPLEX,
    FLOATING,
    INTEGER,
    INTEGER_OR_BOOLEAN,
    NUMERIC,
    REAL,
    REAL_FLOATING,
    DType,
)
from corepy._errors import bad_type, broadcast_mismatch
from corepy.array_api._docs import binary_doc, unary_doc
from corepy.dispatch import (
    BinaryFunction,
    UnaryFunction,
    as_operand,
    binary,
    broadcasts,
    is_operand,
    operation,
    plain,
    run,
    same,
    to_bool,
    to_real,
    unary,
    unify,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array

_SAME: Final = "The result, of the same shape and the (promoted) dtype of the input."
_BOOL: Final = "The answers, of the (broadcast) shape of the input and dtype bool."


def _unary(
    name: str,
    dtypes: frozenset[DType],
    summary: str,
    *,
    result: Callable[[DType], DType] = same,
    returns: str = _SAME,
    notes: str = "",
) -> UnaryFunction[Array]:
    return unary(name, dtypes, unary_doc(summary, dtypes, returns, notes), result)


def _binary(
    name: str,
    dtypes: frozenset[DType],
    summary: str,
    *,
    result: Callable[[DType], DType] = same,
    widened: frozenset[DType] = frozenset(),
    returns: str = _SAME,
    notes: str = "",
    by_zero: bool = False,
) -> BinaryFunction[Array]:
    doc = binary_doc(summary, dtypes, returns, notes, by_zero)
    return binary(name, dtypes, doc, result, widened)


def _test(name: str, dtypes: frozenset[DType], summary: str) -> UnaryFunction[Array]:
    return _unary(name, dtypes, summary, result=to_bool, returns=_BOOL)


def _compare(name: str, dtypes: frozenset[DType], summary: str) -> BinaryFunction[Array]:
    return _binary(name, dtypes, summary, result=to_bool, returns=_BOOL)


# ---------------------------------------------------------------------------- arithmetic

abs = _unary(
    "abs",
    NUMERIC,
    "Absolute value; the modulus of complex numbers.",
    result=to_real,
    returns="The result, of the same shape; real for complex input, else of the input's dtype.",
)
add = _binary("add", NUMERIC, "Sum of two arrays.")
divide = _binary(
    "divide",
    FLOATING,
    "Quotient of two arrays.",
    widened=INTEGER,
    notes="Two integer operands, which the standard leaves open, give float64.",
)
floor_divide = _binary("floor_divide", REAL, "Greatest integer of the quotient.", by_zero=True)
multiply = _binary("multiply", NUMERIC, "Product of two arrays.")
negative = _unary("negative", NUMERIC, "Each element with the opposite sign.")
positive = _unary("positive", NUMERIC, "Each element as it is.")
pow = _binary(
    "pow",
    NUMERIC,
    "Each element of `x1` raised to the power in `x2`.",
    notes="Powers to a Python number of 2 are squares, in whatever form they are written. Integers "
    "to\n    negative integer powers raise ``ValueError`` where the library can tell.",
)
reciprocal = _unary("reciprocal", FLOATING, "One divided by each element.")
remainder = _binary(
    "remainder", REAL, "Remainder of the floored quotient, with the sign of `x2`.", by_zero=True
)
square = _unary("square", NUMERIC, "Each element times itself.")
subtract = _binary("subtract", NUMERIC, "Difference of two arrays.")

# ---------------------------------------------------------------------------- rounding and sign

ceil = _unary("ceil", REAL, "Smallest integer not below each element.")
copysign = _binary("copysign", REAL_FLOATING, "Magnitude of `x1` with the sign of `x2`.")
floor = _unary("floor", REAL, "Greatest integer not above each element.")
maximum = _binary("maximum", REAL, "Greater of two elements; NaN if either is.")
minimum = _binary("minimum", REAL, "Lesser of two elements; NaN if either is.")
nextafter = _binary(
    "nextafter", REAL_FLOATING, "Next floating-point number after `x1` towards `x2`."
)
round = _unary("round", NUMERIC, "Nearest integer, halves to even.")
sign = _unary("sign", NUMERIC, "Sign of each element; of complex ones, the unit vector.")
signbit = _test("signbit", REAL_FLOATING, "Whether the sign bit is set, as it is in -0.")
trunc = _unary("trunc", REAL, "Nearest integer towards zero.")

# ---------------------------------------------------------------------------- exponents

exp = _unary("exp", FLOATING, "Exponential.")
expm1 = _unary("expm1", FLOATING, "Exponential minus one, accurate near zero.")
hypot = _binary("hypot", REAL_FLOATING, "Length of the hypotenuse, without undue overflow.")
log = _unary("log", FLOATING, "Natural logarithm.")
log10 = _unary("log10", FLOATING, "Logarithm to base 10.")
log1p = _unary("log1p", FLOATING, "Natural logarithm of one plus each element.")
log2 = _unary("log2", FLOATING, "Logarithm to base 2.")
logaddexp = _binary(
    "logaddexp", REAL_FLOATING, "Logarithm of the sum of exponentials, without undue overflow."
)
sqrt = _unary("sqrt", FLOATING, "Principal square root.")

# ---------------------------------------------------------------------------- trigonometry

acos = _unary("acos", FLOATING, "Inverse cosine, in radians.")
acosh = _unary("acosh", FLOATING, "Inverse hyperbolic cosine.")
asin = _unary("asin", FLOATING, "Inverse sine, in radians.")
asinh = _unary("asinh", FLOATING, "Inverse hyperbolic sine.")
atan = _unary("atan", FLOATING, "Inverse tangent, in radians.")
atan2 = _binary("atan2", REAL_FLOATING, "Angle of the point ``(x2, x1)``, in radians.")
atanh = _unary("atanh", FLOATING, "Inverse hyperbolic tangent.")
cos = _unary("cos", FLOATING, "Cosine of an angle in radians.")
cosh = _unary("cosh", FLOATING, "Hyperbolic cosine.")
sin = _unary("sin", FLOATING, "Sine of an angle in radians.")
sinh = _unary("sinh", FLOATING, "Hyperbolic sine.")
tan = _unary("tan", FLOATING, "Tangent of an angle in radians.")
tanh = _unary("tanh", FLOATING, "Hyperbolic tangent.")

# ---------------------------------------------------------------------------- complex numbers

_REAL_PART: Final = "The part, of the same shape and the real dtype of the input's precision."

conj = _unary("conj", NUMERIC, "Complex conjugate.")
imag = _unary("imag", COMPLEX, "Imaginary part.", result=to_real, returns=_REAL_PART)
real = _unary("real", NUMERIC, "Real part.", result=to_real, returns=_REAL_PART)

# ---------------------------------------------------------------------------- bits and logic

bitwise_and = _binary("bitwise_and", INTEGER_OR_BOOLEAN, "Bitwise and.")
bitwise_invert = _unary("bitwise_invert", INTEGER_OR_BOOLEAN, "Every bit inverted.")
bitwise_left_shift = _binary(
    "bitwise_left_shift",
    INTEGER,
    "Bits of `x1` shifted left by `x2`.",
    notes="A negative scalar shift raises ``ValueError``; negative elements of an array are "
    "undefined.",
)
bitwise_or = _binary("bitwise_or", INTEGER_OR_BOOLEAN, "Bitwise or.")
bitwise_right_shift = _binary(
    "bitwise_right_shift",
    INTEGER,
    "Bits of `x1` shifted right by `x2`, keeping the sign.",
    notes="A negative scalar shift raises ``ValueError``; negative elements of an array are "
    "undefined.",
)
bitwise_xor = _binary("bitwise_xor", INTEGER_OR_BOOLEAN, "Bitwise exclusive or.")
logical_and = _binary("logical_and", BOOLEAN, "Logical and.")
logical_not = _unary("logical_not", BOOLEAN, "Logical not.")
logical_or = _binary("logical_or", BOOLEAN, "Logical or.")
logical_xor = _binary("logical_xor", BOOLEAN, "Logical exclusive or.")

# ---------------------------------------------------------------------------- comparison

equal = _compare("equal", ANY, "Whether elements are equal; NaN equals nothing.")
greater = _compare("greater", REAL, "Whether `x1` is greater than `x2`.")
greater_equal = _compare("greater_equal", REAL, "Whether `x1` is at least `x2`.")
isfinite = _test("isfinite", NUMERIC, "Whether elements are neither infinite nor NaN.")
isinf = _test("isinf", NUMERIC, "Whether elements are infinite.")
isnan = _test("isnan", NUMERIC, "Whether elements are NaN.")
less = _compare("less", REAL, "Whether `x1` is less than `x2`.")
less_equal = _compare("less_equal", REAL, "Whether `x1` is at most `x2`.")
not_equal = _compare("not_equal", ANY, "Whether elements differ; NaN differs from everything.")


@operation(REAL)
def clip(x: Array, /, min: Array | float | None = None, max: Array | float | None = None) -> Array:
    """Clamp each element into a range.

    Parameters
    ----------
    x : Array
        Input of any shape, with a real-valued dtype.
    min, max : Array, int, float or None
        Bounds that broadcast with `x`; None for no bound. Where ``min`` exceeds ``max`` the
        result is ``max``.

    Returns
    -------
    Array
        The clamped elements, of the broadcast shape and the dtype of `x`. NaN in `x` or in a
        bound gives NaN.

    Raises
    ------
    TypeError
        If a dtype is not real-valued, or the bounds would change the dtype of `x`.
    ValueError
        If the shapes do not broadcast.
    OverflowError
        If a scalar bound does not fit the dtype of `x`.
    DeviceMismatchError
        If the operands live on different devices.
    """
    x = as_operand("clip", "x", x, min=min, max=max)
    low = None if min is None else _bound(x, "min", min)
    high = None if max is None else _bound(x, "max", max)
    shapes = [bound.shape for bound in (x, low, high) if bound is not None]
    if any(shape and shape != x.shape for shape in shapes) and not broadcasts(shapes):
        raise broadcast_mismatch("clip", shapes)
    return cast("Array", run("clip", x, min=low, max=high))


def _bound(x: Array, name: str, value: Array | float) -> Array:
    """Bring a bound to the dtype of the array, which it must not change."""
    bound: Array
    value = plain(value, written=True)
    if not is_operand(value):
        raise bad_type("clip", name, value, "an array or a scalar")
    _, bound = unify("clip", ("x", name), (x, value))
    if bound.dtype is not x.dtype:
        raise TypeError(
            f"clip: {name} would make the result {bound.dtype}; expected a bound that promotes "
            f"to {x.dtype}, the dtype of x"
        )
    return bound
