"""The Fourier transform extension, without the fast: correctly rounded.

Each output is rounded once, also that of a transform over several axes, from sums that are exact
but for the roots of unity, and these carry some 200 bits (see ``_dft.py``). Infinities and NaNs
make all outputs of the transform they enter NaN. Negative zeros count as zeros.

Real input is accepted where the standard says that input "should" be complex.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._dft import Normalization, transform
from corepy.backends.reference._layout import (
    normalize_axes,
    normalize_axis,
    strides_of,
)
from corepy.backends.reference._operands import ArrayLike, as_array, check_device, check_dtype
from corepy.backends.reference._rounding import round_ratio
from corepy.devices._device import Device

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
#: Which side of a transform is real along its last axis, and so half as long on the other side.
_Real: TypeAlias = Literal["input", "output"] | None

#: What forward and inverse transforms divide by in each mode.
_FORWARD: dict[str, Normalization] = {"backward": "none", "ortho": "ortho", "forward": "full"}
_INVERSE: dict[str, Normalization] = {"backward": "full", "ortho": "ortho", "forward": "none"}


# ------------------------------------------------------------------ transforms of one axis


def fft(
    x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> ReferenceArray:
    """Compute the discrete Fourier transform along an axis.

    Parameters
    ----------
    x : array
        Floating-point, with at least one dimension.
    n : int, optional
        Points of the transform; the axis is trimmed or padded with zeros to it.
    axis : int
    norm : {"backward", "ortho", "forward"}
        Divide by 1, by ``sqrt(n)`` or by ``n``.

    Returns
    -------
    array
        Complex of the precision of `x`; `axis` has size `n`.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    IndexError
        If there is no such axis.
    ValueError
        If `n` is less than 1 or `norm` unknown.
    """
    return _one_axis("fft", x, n, axis, norm)


def ifft(
    x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> ReferenceArray:
    """Compute the inverse transform along an axis; parameters and errors as in `fft`.

    `norm` divides by ``n``, by ``sqrt(n)`` or by 1.
    """
    return _one_axis("ifft", x, n, axis, norm, inverse=True)


def rfft(
    x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> ReferenceArray:
    """Compute the transform of real input along an axis; parameters and errors as in `fft`.

    Returns
    -------
    array
        Complex of the precision of `x`; `axis` has size ``n // 2 + 1``.
    """
    return _one_axis("rfft", x, n, axis, norm, real="input")


def irfft(
    x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> ReferenceArray:
    """Compute the inverse of `rfft`; parameters and errors as in `fft`.

    The input's imaginary part is ignored in its first point, and for an even `n` in its last.

    Returns
    -------
    array
        Real of the precision of `x`; `axis` has size `n`, by default ``2 * (size - 1)``.
    """
    return _one_axis("irfft", x, n, axis, norm, inverse=True, real="output")


def hfft(
    x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> ReferenceArray:
    """Compute the transform of a signal with Hermitian symmetry, whose first half `x` is.

    Parameters and errors as in `fft`, the result as in `irfft`.
    """
    return _one_axis("hfft", x, n, axis, norm, real="output")


def ihfft(
    x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> ReferenceArray:
    """Compute the inverse of `hfft`; parameters and errors as in `fft`, the result as in `rfft`."""
    return _one_axis("ihfft", x, n, axis, norm, inverse=True, real="input")


# ------------------------------------------------------------------ transforms of several axes


def fftn(
    x: ArrayLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> ReferenceArray:
    """Compute the n-dimensional discrete Fourier transform.

    Parameters
    ----------
    x : array
        Floating-point.
    s : sequence of int, optional
        Points of the transform along each of the axes, -1 for those that `x` has.
    axes : sequence of int, optional
        Distinct axes; all of them by default. Must be given when `s` is.
    norm : {"backward", "ortho", "forward"}
        Divide by 1, by the root of the number of points, or by this number.

    Returns
    -------
    array
        Complex of the precision of `x`; the axes have the sizes `s`.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    IndexError
        If there is no such axis.
    ValueError
        If `s` comes without `axes`, differs from them in length or asks for less than 1 point;
        if an axis comes twice; or if `norm` is unknown.
    """
    return _several_axes("fftn", x, s, axes, norm)


def ifftn(
    x: ArrayLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> ReferenceArray:
    """Compute the inverse of `fftn`; parameters and errors as there.

    `norm` divides by the number of points, by its root or by 1.
    """
    return _several_axes("ifftn", x, s, axes, norm, inverse=True)


def rfftn(
    x: ArrayLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> ReferenceArray:
    """Compute the n-dimensional transform of real input; parameters and errors as in `fftn`.

    Returns
    -------
    array
        Complex of the precision of `x`; the last of the axes has size ``s[-1] // 2 + 1``.
    """
    return _several_axes("rfftn", x, s, axes, norm, real="input")


def irfftn(
    x: ArrayLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> ReferenceArray:
    """Compute the inverse of `rfftn`; parameters and errors as in `fftn`.

    Returns
    -------
    array
        Real of the precision of `x`; the axes have the sizes `s`, by default the last of them
        ``2 * (size - 1)``.
    """
    return _several_axes("irfftn", x, s, axes, norm, inverse=True, real="output")


def _one_axis(
    function: str,
    x: ArrayLike,
    n: int | None,
    axis: int,
    norm: str,
    *,
    inverse: bool = False,
    real: _Real = None,
) -> ReferenceArray:
    x = _checked(function, x, real)
    axis = normalize_axis(function, axis, x.ndim)
    size = _points(function, "n", n, x.shape[axis], halved=real == "output")
    return _transform(function, x, (axis,), (size,), norm, inverse, real)


def _several_axes(
    function: str,
    x: ArrayLike,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: str,
    *,
    inverse: bool = False,
    real: _Real = None,
) -> ReferenceArray:
    x = _checked(function, x, real)
    if axes is None and s is not None:
        raise bad_argument(function, "axes", axes, "a sequence of axes, as s is given")
    found = normalize_axes(function, None if axes is None else tuple(axes), x.ndim, "axes")
    if real and not found:
        raise bad_argument(function, "axes", found, "at least one axis")
    wanted: list[int | None] = [None] * len(found)
    if s is not None:
        wanted = [None if size == -1 else size for size in s]
        if len(wanted) != len(found):
            raise bad_argument(function, "s", tuple(s), f"{len(found)} sizes, one for each axis")
    sizes = [
        _points(function, "s", size, x.shape[axis], halved=real == "output" and axis == found[-1])
        for axis, size in zip(found, wanted, strict=True)
    ]
    return _transform(function, x, found, sizes, norm, inverse, real)


def _checked(function: str, x: ArrayLike, real: _Real) -> ReferenceArray:
    x = as_array(function, "x", x)
    allowed = _dtypes.REAL_FLOATING if real == "input" else _dtypes.FLOATING
    check_dtype(function, "x", x, allowed)
    return x


def _points(function: str, argument: str, wanted: int | None, size: int, *, halved: bool) -> int:
    """Return the number of points along an axis of a given size."""
    points = 2 * (size - 1) if halved else size
    if wanted is not None:
        try:
            points = operator.index(wanted)
        except TypeError:
            raise bad_type(function, argument, wanted, "an int") from None
    if points < 1:
        raise bad_argument(function, argument, points, "at least 1 point")
    return points


def _transform(
    function: str,
    x: ReferenceArray,
    axes: tuple[int, ...],
    sizes: Sequence[int],
    norm: str,
    inverse: bool,
    real: _Real,
) -> ReferenceArray:
    modes = _INVERSE if inverse else _FORWARD
    if norm not in modes:
        raise bad_argument(function, "norm", norm, "backward, ortho or forward")
    return transform(
        x,
        axes,
        sizes,
        sign=1 if inverse else -1,
        divide=modes[norm],
        real_axis=axes[-1] if real else None,
        real_output=real == "output",
    )


# ------------------------------------------------------------------ frequencies and shifts


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None
) -> ReferenceArray:
    """Return the frequencies of the points of `fft`: ``[0, 1, ..., -2, -1] / (d * n)``.

    Parameters
    ----------
    n : int
        Points of the transform, at least 1.
    d : float
        Distance between samples, finite and not zero.
    dtype : DType, optional
        float32 or float64, the default.
    device : Device, optional

    Returns
    -------
    array
        Shape ``(n,)``, each value rounded once.

    Raises
    ------
    TypeError
        If `n` is not an integer or `dtype` not real and floating.
    ValueError
        If `n` or `d` is out of its range.
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None
) -> ReferenceArray:
    """Return the frequencies of the points of `rfft`: ``[0, 1, ..., n // 2] / (d * n)``.

    Parameters and errors as in `fftfreq`; the shape is ``(n // 2 + 1,)``.
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def _frequencies(
    function: str, n: int, d: float, dtype: DType | None, device: Device | None
) -> ReferenceArray:
    check_device(function, device)
    dtype = dtype or _dtypes.float64
    if dtype not in _dtypes.REAL_FLOATING:
        expected = _dtypes.describe(_dtypes.REAL_FLOATING)
        raise TypeError(f"{function}: dtype is {dtype}; expected {expected}")
    points = _points(function, "n", n, 0, halved=False)
    if not math.isfinite(d) or not d:
        raise bad_argument(function, "d", d, "a finite number other than 0")
    if function == "rfftfreq":
        cycles = list(range(points // 2 + 1))
    else:
        cycles = [*range((points + 1) // 2), *range(-(points // 2), 0)]
    top, bottom = abs(d).as_integer_ratio()
    sign = 1 if d > 0 else -1
    values: list[Value] = [
        round_ratio(sign * cycle * bottom, top * points, dtype) for cycle in cycles
    ]
    return ReferenceArray(values, (len(values),), dtype)


def fftshift(x: ArrayLike, /, *, axes: int | Sequence[int] | None = None) -> ReferenceArray:
    """Move the zero frequency from the start of each axis to its middle.

    Parameters
    ----------
    x : array
        Of any dtype.
    axes : int or sequence of int, optional
        Distinct axes; all of them by default.

    Returns
    -------
    array
        Of the shape and dtype of `x`.

    Raises
    ------
    IndexError
        If there is no such axis.
    ValueError
        If an axis comes twice.
    """
    return _shift("fftshift", x, axes, lambda size: size // 2)


def ifftshift(x: ArrayLike, /, *, axes: int | Sequence[int] | None = None) -> ReferenceArray:
    """Undo `fftshift`; parameters and errors as there."""
    return _shift("ifftshift", x, axes, lambda size: -(size // 2))


def _shift(
    function: str,
    x: ArrayLike,
    axes: int | Sequence[int] | None,
    amount: Callable[[int], int],
) -> ReferenceArray:
    x = as_array(function, "x", x)
    given = axes if axes is None or isinstance(axes, int) else tuple(axes)
    shifted = normalize_axes(function, given, x.ndim, "axes")
    positions = [0]
    for axis, (size, stride) in enumerate(zip(x.shape, strides_of(x.shape), strict=True)):
        shift = amount(size) if axis in shifted else 0
        steps = [(index - shift) % size * stride for index in range(size)]
        positions = [position + step for position in positions for step in steps]
    return ReferenceArray([x.values[i] for i in positions], x.shape, x.dtype)
