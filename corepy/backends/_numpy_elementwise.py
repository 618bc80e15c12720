"""What NumPy's elementwise functions leave wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from corepy._errors import divided_by_zero
from corepy.backends._extents import common_shape

Array = npt.NDArray[Any]

#: Elements that fit the first-level cache together with their results.
_BLOCK: Final = 8192
_WRITE: Final[list[Literal["writeonly", "allocate"]]] = ["writeonly", "allocate"]
_READ: Final[list[Literal["readonly"]]] = ["readonly"]


def _in_blocks(kernel: Callable[..., None], *operands: Array) -> Array:
    """Call ``kernel(out, *operands)`` on blocks that stay in the cache from one step to the next.

    So a fix may look at what it has just computed without another pass over memory.
    """
    count = len(operands)
    if count == 1:
        dtype, shape = operands[0].dtype, operands[0].shape
    else:
        dtype = np.result_type(*operands)
        shape = common_shape(*(x.shape for x in operands))
    if math.prod(shape) <= _BLOCK:
        out = np.empty(shape, dtype)
        kernel(out, *operands)
        return out
    with np.nditer(
        [None, *operands],
        flags=["external_loop", "buffered", "delay_bufalloc"],
        op_flags=[_WRITE, *[_READ] * count],
        op_dtypes=[dtype] * (count + 1),
        buffersize=_BLOCK,
        order="K",
    ) as blocks:
        blocks.reset()
        for out, *parts in blocks:
            kernel(out, *parts)
        result: Array = blocks.operands[0]
    return result


#: By the bytes of a float, from where on it holds integers only.
_WHOLE: Final = {4: 2.0**23, 8: 2.0**52}


def floor_divide(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":
        return _by_zero_raises(np.floor_divide, x1, x2)
    with np.errstate(all="ignore"):
        return _in_blocks(_floor_divide_block, x1, x2)


def _floor_divide_block(out: Array, x1: Array, x2: Array) -> None:
    # NumPy answers as Python's divmod does: nan for inf // 2 and -1 for 1 // -inf, where the
    # standard wants inf and -0 (https://github.com/numpy/numpy/issues/23860).
    np.floor_divide(x1, x2, out=out)
    special = np.isinf(x1) ^ np.isinf(x2)
    if special.any():
        np.copyto(out, np.floor(np.true_divide(x1, x2)), where=special)
    # Its floors of quotients that are rounded to halves may be one off. The quotient less its
    # fraction, which the remainder has, is the floor up to less than a half.
    size, most = np.abs(out), _WHOLE[out.dtype.itemsize]
    if (size >= most / 2).any():
        quotient = np.true_divide(x1, x2)
        whole = np.floor(quotient)
        whole += np.rint(quotient - whole - np.remainder(x1, x2) / x2)
        np.copyto(out, whole, where=(size >= most / 2) & (size <= most))


def remainder(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":
        return _by_zero_raises(np.remainder, x1, x2)
    return np.asarray(np.remainder(x1, x2))


def _by_zero_raises(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    # NumPy answers 0 and warns. The flag it sets anyway becomes the exception, at no extra pass.
    try:
        with np.errstate(divide="raise", over="ignore"):
            return np.asarray(ufunc(x1, x2))
    except FloatingPointError:
        raise divided_by_zero() from None


def expm1(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.asarray(np.expm1(x))
    with np.errstate(all="ignore"):
        return _in_blocks(_expm1_block, x)


def _expm1_block(out: Array, x: Array) -> None:
    # NumPy multiplies infinities by zeros and keeps the sign of a real -0 where the standard has
    # +0 (https://github.com/numpy/numpy/issues/21746). exp has the special cases right, and
    # differs by one in the real part, which no special value notices.
    np.expm1(x, out=out)
    special = ~np.isfinite(out) | (x == 0)
    if special.any():
        there = x[special]
        right = np.exp(there) - 1
        zero = there == 0
        right.real[zero] = 0
        right.imag[zero] = there.imag[zero]
        out[special] = right


def log1p(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.asarray(np.log1p(x))
    with np.errstate(invalid="ignore"):  # of NaN, compared
        return _in_blocks(_log1p_block, x)


def _log1p_block(out: Array, x: Array) -> None:
    # NumPy adds the one and takes the logarithm, which loses what the one rounds away. Near zero
    # |1 + x|**2 - 1 is found without it, exactly enough beside the imaginary part.
    np.log1p(x, out=out)
    near = np.abs(x) < 0.5
    if near.any():
        real, imag = x.real[near], x.imag[near]
        out.real[near] = np.log1p(real * (2 + real) + imag * imag) / 2
        out.imag[near] = np.arctan2(imag, 1 + real)


def sign(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.asarray(np.sign(x))
    with np.errstate(all="ignore"):  # of zeros, divided by zero, and subnormal numbers
        return _in_blocks(_sign_block, x)


def _sign_block(out: Array, x: Array) -> None:
    # NumPy's own is no quotient at infinity, and loses digits where a modulus is subnormal or
    # overflows: in double precision, or beside the larger part, none does.
    real, imag = x.real.astype(np.float64), x.imag.astype(np.float64)
    if x.itemsize == 16:
        largest = np.maximum(np.abs(real), np.abs(imag))
        real, imag = real / largest, imag / largest
        size = np.where(np.isinf(largest), 1, np.sqrt(real * real + imag * imag))
    else:
        size = np.sqrt(real * real + imag * imag)
    np.divide(real, size, out=out.real, casting="same_kind")
    np.divide(imag, size, out=out.imag, casting="same_kind")
    zero = x == 0
    if zero.any():
        out[zero] = 0


def tanh(x: Array) -> Array:
    return _in_blocks(_tanh_block, x) if x.dtype.kind == "c" else np.asarray(np.tanh(x))


def _tanh_block(out: Array, x: Array) -> None:
    # C99 leaves the sign of the zero at infinity to sin(2 y); the standard takes that of y.
    np.tanh(x, out=out)
    special = np.isinf(x.real) & np.isfinite(x.imag)
    if special.any():
        out.imag[special] = np.copysign(0, x.imag[special])


def tan(x: Array) -> Array:
    return _in_blocks(_tan_block, x) if x.dtype.kind == "c" else np.asarray(np.tan(x))


def _tan_block(out: Array, x: Array) -> None:
    # It is tanh, turned: at infinity the zero has the sign of the real part.
    np.tan(x, out=out)
    special = np.isinf(x.imag) & np.isfinite(x.real)
    if special.any():
        out.real[special] = np.copysign(0, x.real[special])


#: Whether NumPy has an acosh of its own, as it does where it does not trust the C library: on
#: Windows and with musl.
with np.errstate(invalid="ignore"):
    OWN_ACOSH: Final = bool(np.isnan(np.arccosh(complex(0, math.nan)).imag))


def acosh(x: Array) -> Array:
    return _in_blocks(_acosh_block, x) if x.dtype.kind == "c" else np.asarray(np.arccosh(x))


def _acosh_block(out: Array, x: Array) -> None:
    # C99 at first had NaN for the imaginary part of acosh(0 + NaN j) too, and npy_cacosh still has.
    np.arccosh(x, out=out)
    special = (x.real == 0) & np.isnan(x.imag)
    if special.any():
        out.imag[special] = math.pi / 2


def clip(x: Array, min: Any = None, max: Any = None) -> Array:
    # The method alone: bounds have x's dtype already.
    if min is None and max is None:
        return x.copy()
    made = np.asarray(x.clip(min, max))
    if min is not None and max is not None and (min.ndim or max.ndim) and x.dtype.kind == "f":
        _keep_zeros(made, x, min)
    return made


def _keep_zeros(made: Array, x: Array, low: Array) -> None:
    """Give zeros between bounds their own sign back, which clamping may have taken from them.

    For a zero that equals a bound NumPy's loop has the one or the other, as strides have it.
    """
    if np.count_nonzero(made) < made.size:
        zero = made == 0
        np.copysign(made, x, out=made, where=zero & (x == 0) & (low <= x))


def pow(x1: Array, x2: Array) -> Array:
    # For an exponent of 0.5 that is repeated NumPy's loop takes the root: of -0 that is -0 and of
    # -infinity NaN, while their powers are 0 and infinity.
    if x2.dtype.kind != "f":
        return np.power(x1, x2)
    if x2.size == 1:
        return _half_powers(x1, x2) if x2.item() == 0.5 else np.power(x1, x2)
    repeated = 0 in x2.strides or (x1.shape != x2.shape and x1.size != 1)
    if repeated and (x2 == 0.5).any():
        x2 = np.broadcast_to(x2, common_shape(x1.shape, x2.shape)).copy()
    return np.power(x1, x2)


def _half_powers(x1: Array, x2: Array) -> Array:
    shape = common_shape(x1.shape, x2.shape)
    made: Array = np.asarray(x1 + x1.dtype.type(0.0)).reshape(shape)
    made[made == -np.inf] = np.inf
    np.sqrt(made, out=made)
    return made
