"""The Fourier transform extension.

https://data-apis.org/array-api/2025.12/extensions/fourier_transform_functions.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, wrong_dtype
from corepy.array_api._arguments import (
    addressable,
    axes_of,
    axis_of,
    choice_of,
    ints_of,
    new_table,
    number_of,
    size_of,
)
from corepy.array_api._docs import transform_doc, transforms_doc
from corepy.devices._device import Device
from corepy.dispatch import (
    STRICT,
    as_operand,
    cast_to,
    create,
    declare,
    known_size,
    known_sizes,
    operation,
    run,
    same,
    to_real,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array

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


def __dir__() -> list[str]:
    """Return the names of the standard, without those of what they are made of."""
    return sorted(__all__)


_NORMS: Final = ("backward", "ortho", "forward")


def _one(name: str, x: Any, n: Any, axis: Any, norm: Any) -> Array:
    """Run a transform along one axis."""
    key = f"fft.{name}"
    x = _input(name, key, x)
    place = axis_of(name, axis, x.ndim)
    points = _points(name, known_size(x, place)) if n is None else _length(name, "n", n)
    if points < 1:
        raise bad_argument(name, "x.shape", x.shape, f"enough points along axis {axis}")
    scale = choice_of(name, "norm", norm, _NORMS)
    return cast("Array", run(key, x, n=points, axis=place, norm=scale))


def _points(name: str, length: int) -> int:
    # The half-spectrum of m points comes from 2 (m - 1); every other length is the axis' own.
    return 2 * (length - 1) if name in _FROM_HALF else length


def _many(name: str, x: Any, s: Any, axes: Any, norm: Any) -> Array:
    """Run a transform along several axes."""
    key = f"fft.{name}"
    x = _input(name, key, x)
    sizes = None if s is None else ints_of(name, "s", _sequence(name, "s", s))
    if axes is None:
        count = x.ndim if sizes is None else len(sizes)
        if count > x.ndim:
            raise bad_argument(name, "s", s, f"at most {x.ndim} sizes")
        places = tuple(range(x.ndim - count, x.ndim))
    else:
        places = axes_of(name, _sequence(name, "axes", axes), x.ndim, "axes")
    if sizes is not None and len(sizes) != len(places):
        raise bad_argument(name, "s", s, f"{len(places)} sizes, one for each axis")
    own = list(known_sizes(x, places) if sizes is None or -1 in sizes else places)
    if own:
        own[-1] = _points(name, own[-1])
    # -1, and no sizes at all, stand for the axes as they are.
    if sizes is None:
        sizes = tuple(own)
    elif -1 in sizes:
        sizes = tuple(m if n == -1 else n for n, m in zip(sizes, own, strict=True))
    if not places and name not in ("fftn", "ifftn"):
        raise bad_argument(name, "axes", axes, "at least one axis")
    if min(sizes, default=1) < 1:
        raise bad_argument(name, "x.shape", x.shape, "enough points along the axes")
    addressable(name, *sizes)
    scale = choice_of(name, "norm", norm, _NORMS)
    if not places:
        return _as_it_is(x)
    return cast("Array", run(key, x, s=sizes, axes=places, norm=scale))


def _as_it_is(x: Array) -> Array:
    """Return a copy: what a transform along no axes gives, and some libraries fail at."""
    return cast("Array", run("astype", x, x._table.native_dtype, copy=True))


#: Transforms whose input is a half-spectrum.
_FROM_HALF: Final = ("irfft", "hfft", "irfftn")
#: Transforms of complex input; real input, which the standard leaves open, is converted.
_COMPLEX: Final = ("fft", "ifft", "fftn", "ifftn", "irfft", "irfftn", "hfft")


def _input(name: str, key: str, x: Any) -> Array:
    x = as_operand(name, "x", x)
    x._table[key]  # which refuses other dtypes
    if x.dtype.rank < 3 and name in _COMPLEX:
        if STRICT.get():
            expected = f"{_dtypes.describe(_dtypes.COMPLEX)} (strict mode)"
            raise wrong_dtype(name, "x", x.dtype, x.device, expected)
        x = cast_to(x, _dtypes.complex_of(x.dtype), name)
    return cast("Array", x)


def _length(name: str, argument: str, value: Any) -> int:
    number = size_of(name, argument, value)
    addressable(name, number)
    if number < 1:
        raise bad_argument(name, argument, value, "at least 1")
    return number


def _sequence(name: str, argument: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, (tuple, list)):
        raise bad_type(name, argument, value, "a sequence of int")
    return tuple(value)


for _name in ("ifft", "fftn", "ifftn"):
    declare(f"fft.{_name}", _dtypes.FLOATING, _dtypes.complex_of)
for _name in _FROM_HALF:
    declare(f"fft.{_name}", _dtypes.FLOATING, to_real)
for _name in ("rfftn", "ihfft"):
    declare(f"fft.{_name}", _dtypes.REAL_FLOATING, _dtypes.complex_of)
for _name in ("fftshift", "ifftshift"):
    declare(f"fft.{_name}", _dtypes.ANY, same)
for _name in ("fftfreq", "rfftfreq"):
    declare(f"fft.{_name}", _dtypes.ANY)

_COMPLEX_DTYPE: Final = "Of the complex dtype of the precision of `x`."
_REAL_DTYPE: Final = "Of the real dtype of the precision of `x`."
_WHOLE: Final = f"{_COMPLEX_DTYPE[:-1]}, of `n` elements along `axis`."
_HALF: Final = f"{_COMPLEX_DTYPE[:-1]}, of ``n // 2 + 1`` elements along `axis`."
_FROM_POINTS: Final = (
    f"{_REAL_DTYPE[:-1]}, of `n` elements along `axis`; by default\n"
    "        ``2 * (m - 1)`` for `m` of the input."
)


@operation(_dtypes.FLOATING, extension="fft")
@transform_doc(_dtypes.FLOATING, _WHOLE)
def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """One-dimensional discrete Fourier transform."""
    return _one("fft", x, n, axis, norm)


@transform_doc(_dtypes.FLOATING, _WHOLE)
def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Inverse of `fft`."""
    return _one("ifft", x, n, axis, norm)


@operation(_dtypes.REAL_FLOATING, extension="fft")
@transform_doc(_dtypes.REAL_FLOATING, _HALF)
def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """One-dimensional transform of real input: the non-negative frequencies."""
    return _one("rfft", x, n, axis, norm)


@transform_doc(_dtypes.FLOATING, _FROM_POINTS)
def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Inverse of `rfft`."""
    return _one("irfft", x, n, axis, norm)


@transform_doc(_dtypes.FLOATING, _FROM_POINTS)
def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """One-dimensional transform of input with Hermitian symmetry, which is real."""
    return _one("hfft", x, n, axis, norm)


@transform_doc(_dtypes.REAL_FLOATING, _HALF)
def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Inverse of `hfft`."""
    return _one("ihfft", x, n, axis, norm)


@transforms_doc(_dtypes.FLOATING, _COMPLEX_DTYPE)
def fftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """Discrete Fourier transform along several axes."""
    return _many("fftn", x, s, axes, norm)


@transforms_doc(_dtypes.FLOATING, _COMPLEX_DTYPE)
def ifftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """Inverse of `fftn`."""
    return _many("ifftn", x, s, axes, norm)


@transforms_doc(_dtypes.REAL_FLOATING, _COMPLEX_DTYPE)
def rfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """Transform of real input along several axes; the last keeps its non-negative frequencies."""
    return _many("rfftn", x, s, axes, norm)


@transforms_doc(_dtypes.FLOATING, _REAL_DTYPE)
def irfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """Inverse of `rfftn`."""
    return _many("irfftn", x, s, axes, norm)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | str | None = None
) -> Array:
    """Sample frequencies of a transform, in cycles per unit of `d`.

    Parameters
    ----------
    n : int
        Points of the transform.
    d : float
        Distance of two samples, not 0.
    dtype : DType or None
        A real floating-point dtype; by default float64.
    device : Device or None
        None for the default device.

    Returns
    -------
    Array
        Of `n` elements: zero, the positive frequencies, then the negative ones.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If `n` is not positive, `d` is 0, `dtype` is another one, or a name is of no dtype or
        device.
    OverflowError
        If `d` is an int beyond the range of float64.
    MemoryError
        If memory does not hold the result.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | str | None = None
) -> Array:
    """Sample frequencies of a transform of real input, in cycles per unit of `d`.

    Parameters
    ----------
    n : int
        Points of the transform.
    d : float
        Distance of two samples, not 0.
    dtype : DType or None
        A real floating-point dtype; by default float64.
    device : Device or None
        None for the default device.

    Returns
    -------
    Array
        Of ``n // 2 + 1`` elements: zero and the positive frequencies.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If `n` is not positive, `d` is 0, `dtype` is another one, or a name is of no dtype or
        device.
    OverflowError
        If `d` is an int beyond the range of float64.
    MemoryError
        If memory does not hold the result.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def _frequencies(name: str, n: Any, d: Any, dtype: Any, device: Any) -> Array:
    points = _length(name, "n", n)
    distance = number_of(name, "d", d)
    if distance == 0:
        raise bad_argument(name, "d", d, "a distance other than 0")
    table = new_table(name, dtype, device, _dtypes.float64, _dtypes.REAL_FLOATING)
    return cast("Array", create(f"fft.{name}", table, points, d=float(distance)))


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Move the zero frequency to the middle.

    Parameters
    ----------
    x : Array
    axes : int, sequence of int or None
        None for all.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    return _shift("fftshift", x, axes)


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Inverse of `fftshift`.

    Parameters
    ----------
    x : Array
    axes : int, sequence of int or None
        None for all.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    return _shift("ifftshift", x, axes)


def _shift(name: str, x: Any, axes: Any) -> Array:
    x = as_operand(name, "x", x)
    places = tuple(range(x.ndim)) if axes is None else axes_of(name, axes, x.ndim, "axes")
    if not places:
        return _as_it_is(x)
    return cast("Array", run(f"fft.{name}", x, axes=places))
