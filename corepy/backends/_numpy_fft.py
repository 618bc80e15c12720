"""NumPy's Fourier transforms, by the loops that its functions call.

The steps are those of `numpy.fft`, whose Python layer takes most of the time of short transforms.
Where its loops are not what they were, its functions compute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends._numpy_loops import private_ufunc

Array = npt.NDArray[Any]

__all__ = ["OPERATIONS"]

#: By dtype, the real and the complex one of its precision.
_DTYPES: Final = {
    char: (np.dtype(real), np.dtype(real.upper()))
    for char, real in (("f", "f"), ("F", "f"), ("d", "d"), ("D", "d"))
}
#: The word that scales the opposite direction alike.
_OPPOSITE: Final = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _scale(points: int, norm: str, real: np.dtype[Any]) -> Any:
    """Return what a forward transform is multiplied by."""
    if norm == "backward":
        return 1
    return np.reciprocal(np.sqrt(points, dtype=real) if norm == "ortho" else points, dtype=real)


def _along(x: Array, ufunc: Any, scale: Any, dtype: Any, length: int, axis: int) -> Array:
    """Call a loop along an axis, which has another length afterwards."""
    shape = x.shape
    axis %= len(shape)
    last = axis == len(shape) - 1
    sizes = (*shape[:axis], length) if last else (*shape[:axis], length, *shape[axis + 1 :])
    if x.flags.c_contiguous:
        out = np.empty(sizes, dtype)
    else:  # in the order of memory
        out = np.empty_like(x, dtype, shape=sizes)
    if last:
        ufunc(x, scale, out)
    else:
        ufunc(x, scale, out, axes=[(axis,), (), (axis,)])
    return out


# ---------------------------------------------------------------------------- along one axis

_FORWARD: Final = private_ufunc("fft.fft", "fft (n),()->(m)")
_INVERSE: Final = private_ufunc("fft.ifft", "ifft (m),()->(n)")
_EVEN: Final = private_ufunc("fft.rfft", "rfft_n_even (n),()->(m)")
_ODD: Final = private_ufunc("fft.rfft", "rfft_n_odd (n),()->(m)")
_TO_REAL: Final = private_ufunc("fft.irfft", "irfft (m),()->(n)")


def _fft(x: Array, n: int, axis: int, norm: Any) -> Array:
    if _FORWARD is None:
        return np.fft.fft(x, n, axis, norm)
    real, wide = _DTYPES[x.dtype.char]
    return _along(x, _FORWARD, _scale(n, norm, real), wide, n, axis)


def _ifft(x: Array, n: int, axis: int, norm: Any) -> Array:
    if _INVERSE is None:
        return np.fft.ifft(x, n, axis, norm)
    real, wide = _DTYPES[x.dtype.char]
    return _along(x, _INVERSE, _scale(n, _OPPOSITE[norm], real), wide, n, axis)


def _rfft(x: Array, n: int, axis: int, norm: Any) -> Array:
    if _EVEN is None or _ODD is None:
        return np.fft.rfft(x, n, axis, norm)
    real, wide = _DTYPES[x.dtype.char]
    return _along(x, _ODD if n % 2 else _EVEN, _scale(n, norm, real), wide, n // 2 + 1, axis)


def _irfft(x: Array, n: int, axis: int, norm: Any) -> Array:
    if not x.size:  # NumPy takes what lies in memory for the first point
        x = np.zeros([m or int(i == axis) for i, m in enumerate(x.shape)], x.dtype)
    if _TO_REAL is None:
        return np.fft.irfft(x, n, axis, norm)
    real, _ = _DTYPES[x.dtype.char]
    return _along(x, _TO_REAL, _scale(n, _OPPOSITE[norm], real), real, n, axis)


def _hfft(x: Array, n: int, axis: int, norm: Any) -> Array:
    return _irfft(np.conjugate(x), n, axis, _OPPOSITE[norm])


def _ihfft(x: Array, n: int, axis: int, norm: Any) -> Array:
    found = _rfft(x, n, axis, _OPPOSITE[norm])
    return np.conjugate(found, out=found)


# ---------------------------------------------------------------------------- along several


def _fftn(x: Array, /, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
    for n, axis in zip(reversed(s), reversed(axes), strict=True):
        x = _fft(x, n, axis, norm)
    return x


def _ifftn(x: Array, /, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
    for n, axis in zip(reversed(s), reversed(axes), strict=True):
        x = _ifft(x, n, axis, norm)
    return x


def _rfftn(x: Array, /, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
    x = _rfft(x, s[-1], axes[-1], norm)
    return _fftn(x, s=s[:-1], axes=axes[:-1], norm=norm)


def _irfftn(x: Array, /, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
    for n, axis in zip(s[:-1], axes[:-1], strict=True):
        x = _ifft(x, n, axis, norm)
    return _irfft(x, s[-1], axes[-1], norm)


#: By name, what the NumPy backend runs.
OPERATIONS: Final[dict[str, Callable[..., Array]]] = {
    "fft.fft": _fft,
    "fft.ifft": _ifft,
    "fft.rfft": _rfft,
    "fft.irfft": _irfft,
    "fft.hfft": _hfft,
    "fft.ihfft": _ihfft,
    "fft.fftn": _fftn,
    "fft.ifftn": _ifftn,
    "fft.rfftn": _rfftn,
    "fft.irfftn": _irfftn,
}
