"""Long Fourier transforms, and those of many rows.

Rows that NumPy transforms one after the other are shared among threads. It transforms a row in one
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


def _each_row(name: str, x: Array, out: np.dtype[Any], length: int, factor: Array) -> Array | None:
    """Transform the rows of an array, each as NumPy does; None where it has no loop for them."""
    addresses = _loop(name, x.dtype, out)
    if addresses is None:
        return None
    rows = _row(x).reshape(-1, x.shape[-1])
    found = np.empty((len(rows), length), out)
    work = _WORK * x.size
    launch(loops.transform_each, (addresses, factor, rows, found), _tasks(len(rows)), work)
    return found.reshape(*x.shape[:-1], length)


def _has_rows(x: Array, extent: int, axis: int) -> bool:
    """Say whether an array has several rows of an extent along an axis, its last one."""
    if not x.dtype.isnative or axis % x.ndim != x.ndim - 1 or x.shape[-1] != extent:
        return False
    return x.size > extent > 0


def _of_complex(name: str) -> Operation:
    inverse = name == "fft.ifft"

    def transform(x: Array, /, *, n: int, axis: int, norm: str | None) -> Array | None:
        if x.dtype.char not in "FD":
            return None
        factor = _factor(norm, n, inverse, x.dtype)
        if _has_rows(x, n, axis):
            return _each_row(name.removeprefix("fft."), x, x.dtype, n, factor)
        if not _can_halve(x, n, n, axis, x.dtype):
            return None
        return _transform(_row(x), inverse, factor).reshape(x.shape)

    return operation(name, _LONG)(transform)


@operation("fft.rfft", _LONG)
def _rfft(x: Array, /, *, n: int, axis: int, norm: str | None) -> Array | None:
    if x.dtype.char not in "fd":
        return None
    dtype, factor = np.dtype(x.dtype.char.upper()), _factor(norm, n, False, x.dtype)
    if _has_rows(x, n, axis):
        return _each_row("rfft_n_odd" if n % 2 else "rfft_n_even", x, dtype, n // 2 + 1, factor)
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
    if _has_rows(x, n // 2 + 1, axis):
        return _each_row("irfft", x, real, n, factor)
    if n % 2 or not _can_halve(x, n // 2, n // 2 + 1, axis, x.dtype):
        return None
    half = np.empty(n // 2, x.dtype)
    tasks = blocks(half.size // 2 + 1)
    launch(loops.join, (_row(x), *_tables(n, True, x.dtype), half), tasks, 8 * half.size)
    return _along(_transform(half, True, factor).view(real), x, axis)


OPERATIONS: Final[dict[str, Operation]] = {
    **{name: _of_complex(name) for name in ("fft.fft", "fft.ifft")},
    "fft.rfft": _rfft,
    "fft.irfft": _irfft,
}
