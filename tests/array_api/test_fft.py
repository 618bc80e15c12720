"""Fourier transforms agree with the oracle, and undo each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.array_api.fft import _COMPLEX as FROM_COMPLEX
from tests.helpers import COMPLEX, FLOATS, agrees, arrays, assert_values, function, to_numpy

pytestmark = pytest.mark.usefixtures("backend")

CLOSE = {"float32": 1e-5, "complex64": 1e-5, "float64": 1e-12, "complex128": 1e-12}
NORMS = st.sampled_from(("backward", "ortho", "forward"))
SIZES = st.lists(st.integers(2, 4), min_size=1, max_size=2).map(tuple)
REAL_INPUT = ("rfft", "rfftn", "ihfft")


def inputs(name: str) -> st.SearchStrategy[Any]:
    return arrays(FLOATS if name in REAL_INPUT else COMPLEX, shape=SIZES, bound=10.0)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@given(data=st.data())
def test_along_one_axis(name: str, data: st.DataObject) -> None:
    x = data.draw(inputs(name))
    kwargs = {
        "n": data.draw(st.one_of(st.none(), st.integers(1, 6))),
        "axis": data.draw(st.integers(-x.ndim, x.ndim - 1)),
        "norm": data.draw(NORMS),
    }
    agrees(f"fft.{name}", x, tolerance=CLOSE[x.dtype.name], **kwargs)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@given(data=st.data())
def test_along_several_axes(name: str, data: st.DataObject) -> None:
    x = data.draw(inputs(name))
    axes = data.draw(st.permutations(range(x.ndim)))
    size = st.lists(st.integers(2, 4), min_size=x.ndim, max_size=x.ndim)
    s = data.draw(st.one_of(st.none(), size))
    norm = data.draw(NORMS)
    close = CLOSE[x.dtype.name]
    agrees(f"fft.{name}", x, tolerance=close, norm=norm)
    agrees(f"fft.{name}", x, tolerance=close, s=s, axes=axes, norm=norm)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_inverses(dtype: str, n: int) -> None:
    x = xp.astype(xp.arange(n), DTYPES[dtype])
    close = CLOSE[dtype]
    if DTYPES[dtype].rank == 3:
        x = x * (1 + 2j)
        assert_values(xp.fft.ifft(xp.fft.fft(x)), to_numpy(x), close)
        assert_values(xp.fft.ifftn(xp.fft.fftn(x)), to_numpy(x), close)
    else:
        assert_values(xp.fft.irfft(xp.fft.rfft(x), n=n), to_numpy(x), close)
        assert_values(xp.fft.hfft(xp.fft.ihfft(x), n=n), to_numpy(x), close)
        assert_values(xp.fft.irfftn(xp.fft.rfftn(x), s=[n]), to_numpy(x), close)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_rows_that_are_not_there_have_transforms(name: str) -> None:
    dtype = xp.float64 if name in REAL_INPUT else xp.complex128
    size = {"rfft": 3, "ihfft": 3, "irfft": 6, "hfft": 6}.get(name, 4)
    for shape, axis in (((0, 4), 1), ((4, 0), 0), ((3, 0, 4), 2)):
        found = function(f"fft.{name}")(xp.zeros(shape, dtype=dtype), axis=axis)
        assert found.shape == tuple(size if i == axis else n for i, n in enumerate(shape))
        assert found.dtype is (xp.float64 if name in ("irfft", "hfft") else xp.complex128)
    if "h" not in name:  # those two have no form of several axes
        several = function(f"fft.{name}n")
        assert several(xp.zeros((0, 2, 4), dtype=dtype), axes=(1, 2)).shape == (0, 2, size)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_points_that_are_not_there_are_zeros(name: str, shape: tuple[int, ...]) -> None:
    # NumPy takes what lies in memory for the first one of a half-spectrum.
    used = [np.full(5, 7.0) for _ in range(100)]
    del used
    axis = shape.index(0)
    for dtype in FLOATS if name in REAL_INPUT else COMPLEX:
        x = xp.zeros(shape, dtype=DTYPES[dtype])
        found = [function(f"fft.{name}")(x, n=5, axis=axis)]
        if "h" not in name:
            found.append(function(f"fft.{name}n")(x, s=(5,), axes=(axis,)))
        for y in found:
            assert y.shape[axis] == (3 if name in ("rfft", "ihfft") else 5)
            assert not to_numpy(y).any()


def test_along_no_axes() -> None:
    for x in (xp.asarray(2.5), xp.asarray([1.0, 2.0])):
        none = () if x.ndim else None
        for name in ("fftshift", "ifftshift"):
            assert_values(getattr(xp.fft, name)(x, axes=none), to_numpy(x))
        z = xp.astype(x, xp.complex128)
        for name in ("fftn", "ifftn"):
            found = getattr(xp.fft, name)(z, axes=none)
            assert found.dtype is xp.complex128
            assert_values(found, to_numpy(z))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@given(n=st.integers(1, 9), d=st.floats(0.1, 10), dtype=st.sampled_from(FLOATS))
def test_frequencies(name: str, n: int, d: float, dtype: str) -> None:
    result = function(f"fft.{name}")(n, d=d, dtype=DTYPES[dtype])
    assert result.dtype.name == dtype
    assert_values(result, getattr(np.fft, name)(n, d).astype(dtype))
    assert function(f"fft.{name}")(n).dtype is xp.float64


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: xp.fft.fft(x, n=0), ValueError, "fft: n is 0; expected at least 1"),
        (lambda x: xp.fft.fft(x, n=1.5), TypeError, "fft: n is of type float; expected an int"),
        (lambda x: xp.fft.fft(x, axis=1), IndexError, "fft: axis is 1; expected -1 to 0"),
        (lambda x: xp.fft.ifft(x, norm="x"), ValueError, "ifft: norm is 'x'; expected one of"),
        (lambda x: xp.fft.fft(x[:0]), ValueError, "fft: x.shape is (0,); expected enough points"),
        (xp.fft.rfft, TypeError, "rfft: x has dtype complex128 on "),
        (lambda x: xp.fft.fftn(x, s=3), TypeError, "fftn: s is of type int; expected a sequence"),
        (lambda x: xp.fft.fftn(x, s=[2, 2]), ValueError, "fftn: s is [2, 2]; expected at most 1"),
        (lambda x: xp.fft.fftn(x, axes=[0, 0]), ValueError, "fftn: axes is (0, 0); expected dis"),
        (lambda x: xp.fft.fftshift(x, axes=3), IndexError, "fftshift: axes is 3; expected -1 to"),
        (lambda x: xp.fft.fftfreq(0), ValueError, "fftfreq: n is 0; expected at least 1"),
        (lambda x: xp.fft.fft(xp.ones(3, dtype=xp.int8)), TypeError, "fft: x has dtype int8 on "),
    ],
)
def test_bad_arguments_raise(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(xp.asarray([1j, 2.0, 3.0]))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", FROM_COMPLEX)
def test_real_input_is_converted_unless_strict(name: str) -> None:
    x = xp.ones((4, 4), dtype=xp.float64)
    assert function(f"fft.{name}")(x).shape[0] == 4
    with corepy.strict(), pytest.raises(TypeError, match=f"^{name}: x has .*strict mode"):
        function(f"fft.{name}")(x)
