"""Long Fourier transforms, and those of many rows and columns.

Rows that NumPy transforms one after the other are shared among threads; columns are made rows, some
at a time, and a transform along several axes is one along each. NumPy transforms a row in one
thread, and a long one does not stay in the caches meanwhile. Here one of ``n1 * n2`` elements
becomes a matrix whose columns NumPy transforms first, and then its rows, some at a time in several
threads (Bailey, "FFTs in external or hierarchical memory", 1990). One of real elements is one of
half as many complex ones, pairs of them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends.numba import _transform_loops as loops
from corepy.backends.numba._compiled import blocks, launch
from corepy.backends.numba._glue import Operation, operation, size_from
from corepy.backends.numba._numpys_loops import addresses_of

Array = npt.NDArray[Any]
Sizes = tuple[int, ...]

#: Where NumPy has its transforms: no part of its public interface.
_MODULE: Final = "numpy.fft._pocketfft_umath"
#: Points from which two halves pay.
_LONG: Final = 16_384
#: What NumPy transforms quickly has no greater factor.
_PRIMES: Final = (2, 3, 5, 7, 11)
#: How much longer a point takes than an element of a cheap loop.
_WORK: Final = 32


@lru_cache(64)
def _halves(points: int) -> tuple[int, int] | None:
    """Return the two factors of a smooth number that are closest to each other; None of others."""
    divisors, rest = [1], points
    for prime in _PRIMES:
        power = 1
        found = divisors
        while rest % prime == 0:
            rest, power = rest // prime, power * prime
            found = found + [power * each for each in divisors]
        divisors = found
    if rest > 1:
        return None
    first = max(each for each in divisors if each * each <= points)
    return first, points // first


def _roots(exponents: Array, points: int, inverse: bool) -> Array:
    """Return powers of a root of unity, as exact as if angles beyond an eighth were not rounded."""
    quarters, rest = np.divmod(4 * exponents + points // 2, points)
    angles = (rest - points // 2) / points * (math.pi / 2)
    turned = np.array([1, -1j, -1, 1j])[quarters % 4]
    found: Array = (np.cos(angles) - 1j * np.sin(angles)) * turned
    return found.conj() if inverse else found


@lru_cache(16)
def _tables(points: int, inverse: bool, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the powers of the root of unity by the lower and the upper bits of the exponent."""
    fine = np.arange(1 << loops.FINE)
    coarse = np.arange(0, points, 1 << loops.FINE)
    return tuple(_roots(each, points, inverse).astype(dtype) for each in (fine, coarse))  # type: ignore[return-value]


@lru_cache(32)
def _loop(name: str, *dtypes: np.dtype[Any]) -> tuple[int, int] | None:
    """Return the addresses of NumPy's own loop for operands and a result, and of its data."""
    try:
        ufunc = getattr(import_module(_MODULE), name)
    except (ImportError, AttributeError):
        return None
    real = np.dtype(dtypes[1].char.lower())
    return addresses_of(ufunc, (dtypes[0], real, dtypes[1]))


def _factor(norm: str | None, points: int, inverse: bool, dtype: np.dtype[Any]) -> Array:
    """Return what the elements of a transform are multiplied by, rounded as NumPy does."""
    real = np.dtype(dtype.char.lower())
    if norm == "ortho":
        return np.reciprocal(np.sqrt(np.full(1, points, real)))
    return np.full(1, 1 / points if (norm == "forward") is not inverse else 1, real)


def _can_halve(x: Array, points: int, extent: int, axis: int, dtype: np.dtype[Any]) -> bool:
    """Say whether an array is one row of an extent, and has so many points of a dtype, and many."""
    if not x.dtype.isnative or x.size != extent or x.shape[axis] != extent:
        return False
    if points < size_from(_LONG) or points < 4 or _halves(points) is None:
        return False
    return _loop("fft", dtype, dtype) is not None


def _row(x: Array) -> Array:
    return np.require(x, requirements=["C", "A"]).reshape(-1)


def _along(row: Array, x: Array, axis: int) -> Array:
    """Return a vector along an axis of an array, all others of which have one element."""
    return row.reshape([row.size if i == axis % x.ndim else 1 for i in range(x.ndim)])


def _tasks(rows: int) -> int:
    return -(-rows // loops.TOGETHER)


def _transform(x: Array, inverse: bool, factor: Array) -> Array:
    """Transform a contiguous vector, and multiply by a factor."""
    dtype, halves = x.dtype, _halves(x.size)
    addresses = _loop("ifft" if inverse else "fft", dtype, dtype)
    assert halves is not None
    assert addresses is not None
    rows, columns = halves
    between, out = np.empty((rows, columns), dtype), np.empty((columns, rows), dtype)
    work = _WORK * x.size
    arguments = (
        addresses,
        np.ones_like(factor),
        x.reshape(halves),
        *_tables(x.size, inverse, dtype),
    )
    launch(loops.transform_columns, (*arguments, between), _tasks(columns), work)
    turned = (addresses, factor, between, out)
    launch(loops.transform_rows, turned, _tasks(rows), work)
    return out.reshape(-1)


def _each(
    name: str, x: Array, out: np.dtype[Any], length: int, axis: int, factor: Array
) -> Array | None:
    """Transform an array along an axis, rows as NumPy does; None where it has no loop for them."""
    shape = list(x.shape)
    shape[axis] = length
    found = np.empty(shape, out)
    return found if _put_each(name, x, found, axis, factor) else None


def _put_each(name: str, x: Array, found: Array, axis: int, factor: Array) -> bool:
    """Put the transforms along an axis into contiguous memory; say whether there is a loop."""
    addresses = _loop(name, x.dtype, found.dtype)
    if addresses is None:
        return False
    x, work, axis = np.require(x, requirements=["C", "A"]), _WORK * x.size, axis % x.ndim
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    if columns == 1:
        flat = (x.reshape(rows, -1), found.reshape(rows, -1))
        launch(loops.transform_each, (addresses, factor, *flat), _tasks(rows), work)
    else:
        stacked = (x.reshape(rows, -1, columns), found.reshape(rows, -1, columns))
        tasks = rows * _tasks(columns)
        launch(loops.transform_each_column, (addresses, factor, *stacked), tasks, work)
    return True


def _has_several(x: Array, extent: int, axis: int) -> bool:
    """Say whether an array has an extent along an axis, and more than one row of it."""
    return x.dtype.isnative and x.shape[axis] == extent and x.size > extent > 0


def _of_reals(points: int) -> str:
    """Return the name of NumPy's loop for so many real elements."""
    return "rfft_n_odd" if points % 2 else "rfft_n_even"


def _of_complex(name: str) -> Operation:
    inverse = name == "fft.ifft"

    def transform(x: Array, /, *, n: int, axis: int, norm: str | None) -> Array | None:
        if x.dtype.char not in "FD":
            return None
        factor = _factor(norm, n, inverse, x.dtype)
        if _has_several(x, n, axis):
            return _each(name.removeprefix("fft."), x, x.dtype, n, axis, factor)
        if not _can_halve(x, n, n, axis, x.dtype):
            return None
        return _transform(_row(x), inverse, factor).reshape(x.shape)

    return operation(name, _LONG)(transform)


@operation("fft.rfft", _LONG)
def _rfft(x: Array, /, *, n: int, axis: int, norm: str | None) -> Array | None:
    if x.dtype.char not in "fd":
        return None
    dtype, factor = np.dtype(x.dtype.char.upper()), _factor(norm, n, False, x.dtype)
    if _has_several(x, n, axis):
        return _each(_of_reals(n), x, dtype, n // 2 + 1, axis, factor)
    if n % 2 or not _can_halve(x, n // 2, n, axis, dtype):
        return None
    half = _transform(_row(x).view(dtype), False, factor)
    out = np.empty(half.size + 1, dtype)
    tasks = blocks(half.size // 2 + 1)
    launch(loops.separate, (half, *_tables(n, False, dtype), out), tasks, 8 * half.size)
    return _along(out, x, axis)


@operation("fft.irfft", _LONG // 2)
def _irfft(x: Array, /, *, n: int, axis: int, norm: str | None) -> Array | None:
    if x.dtype.char not in "FD":
        return None
    real, factor = np.dtype(x.dtype.char.lower()), _factor(norm, n, True, x.dtype)
    if _has_several(x, n // 2 + 1, axis):
        return _each("irfft", x, real, n, axis, factor)
    if n % 2 or not _can_halve(x, n // 2, n // 2 + 1, axis, x.dtype):
        return None
    half = np.empty(n // 2, x.dtype)
    tasks = blocks(half.size // 2 + 1)
    launch(loops.join, (_row(x), *_tables(n, True, x.dtype), half), tasks, 8 * half.size)
    return _along(_transform(half, True, factor).view(real), x, axis)


# ---------------------------------------------------------------------------- along several axes


def _along_each(
    x: Array, s: Sizes, axes: Sizes, norm: str | None, inverse: bool, out: Array
) -> bool:
    """Put complex transforms along some axes into `out`, which may be `x`; say whether it can."""
    for n, axis in zip(s, axes, strict=True):
        factor = _factor(norm, n, inverse, x.dtype)
        if not _put_each("ifft" if inverse else "fft", x, out, axis, factor):
            return False
        x = out
    return True


def _are_whole(x: Array, s: Sizes, axes: Sizes) -> bool:
    """Say whether an array has these extents along these axes, and nothing stands in the way."""
    return x.dtype.isnative and x.size > 0 and s == tuple(x.shape[axis] for axis in axes)


def _along_axes(name: str) -> Operation:
    inverse = name == "fft.ifftn"

    def transform(x: Array, /, *, s: Sizes, axes: Sizes, norm: str | None) -> Array | None:
        if x.dtype.char not in "FD" or not _are_whole(x, s, axes):
            return None
        out = np.empty(x.shape, x.dtype)
        return out if _along_each(x, s[::-1], axes[::-1], norm, inverse, out) else None

    return operation(name, _LONG)(transform)


@operation("fft.rfftn", _LONG)
def _rfftn(x: Array, /, *, s: Sizes, axes: Sizes, norm: str | None) -> Array | None:
    if x.dtype.char not in "fd" or not _are_whole(x, s, axes):
        return None
    n, dtype = s[-1], np.dtype(x.dtype.char.upper())
    out = _each(_of_reals(n), x, dtype, n // 2 + 1, axes[-1], _factor(norm, n, False, dtype))
    if out is None or not _along_each(out, s[-2::-1], axes[-2::-1], norm, False, out):
        return None
    return out


@operation("fft.irfftn", _LONG // 2)
def _irfftn(x: Array, /, *, s: Sizes, axes: Sizes, norm: str | None) -> Array | None:
    if x.dtype.char not in "FD" or not _are_whole(x, (*s[:-1], s[-1] // 2 + 1), axes):
        return None
    if len(axes) > 1:
        out = np.empty(x.shape, x.dtype)
        if not _along_each(x, s[:-1], axes[:-1], norm, True, out):
            return None
        x = out
    real, n = np.dtype(x.dtype.char.lower()), s[-1]
    return _each("irfft", x, real, n, axes[-1], _factor(norm, n, True, x.dtype))


OPERATIONS: Final[dict[str, Operation]] = {
    **{name: _of_complex(name) for name in ("fft.fft", "fft.ifft")},
    "fft.rfft": _rfft,
    "fft.irfft": _irfft,
    **{name: _along_axes(name) for name in ("fft.fftn", "fft.ifftn")},
    "fft.rfftn": _rfftn,
    "fft.irfftn": _irfftn,
}
