"""The Numba backend's transforms, beside NumPy's: of long rows in extended precision."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.conftest import required

required("numba")

from corepy.backends.numba import _transforms  # noqa: E402
from tests.backends.arrays import numpys  # noqa: E402
from tests.backends.numbas import OPERATIONS, Array, layouts, own, quiet, run  # noqa: E402
from tests.sharing import share  # noqa: E402

#: Of the complex dtype that a transform computes in, one of more bits, where there is one.
WIDE: Final = {"complex64": "complex128", "complex128": "clongdouble"}
SEVERAL: Final = ("fft.fftn", "fft.ifftn", "fft.rfftn", "fft.irfftn")
NAMES: Final = ("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft")
#: Products of few, and of many primes; of columns that come together, and of some over.
SIZES: Final = (4, 12, 64, 1000, 2**13, 7 * 11 * 16, 16_384, 98_304)

each_norm = pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
each_dtype = pytest.mark.parametrize("dtype", list(WIDE))
each_length = pytest.mark.parametrize("points", [1, 2, 7, 100, 101])


def operand(name: str, points: int, dtype: str) -> Array:
    """Make what has a transform of so many points."""
    rng = np.random.default_rng(points)
    size = points // 2 + 1 if "irfft" in name else points
    x = rng.standard_normal(size) + 1j * rng.standard_normal(size)
    return x.real.astype(dtype_of(dtype)) if ".rfft" in name else x.astype(dtype)


def dtype_of(complex_dtype: str) -> str:
    """Return the real dtype of a complex one."""
    return np.empty(0, complex_dtype).real.dtype.name


def exact(name: str, x: Array, points: int, norm: str) -> Array:
    """Transform in more bits."""
    wide = WIDE[np.result_type(x, np.complex64).name]
    x = x.astype(wide if x.dtype.kind == "c" else np.empty(0, wide).real.dtype)
    return np.asarray(getattr(np.fft, name.removeprefix("fft."))(x, n=points, norm=norm))


@each_norm
@each_dtype
@pytest.mark.parametrize("points", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_of_a_few_roundings(name: str, points: int, dtype: str, norm: str) -> None:
    if name in ("fft.rfft", "fft.irfft"):
        points *= 2
    x = operand(name, points, dtype)
    found = own(name, x, n=points, axis=0, norm=norm)
    expected = exact(name, x, points, norm)
    like = numpys(name, x, n=points, axis=0, norm=norm)
    assert (found.dtype, found.shape) == (like.dtype, like.shape)
    allowed = 4 * np.finfo(dtype).eps * np.abs(expected).max()
    assert np.abs(found - expected).max() <= allowed


@pytest.mark.parametrize("name", NAMES)
def test_one_long_row_on_any_axis_in_any_layout(name: str) -> None:
    x = operand(name, 2400, "complex128")
    expected = numpys(name, x, n=2400, axis=0, norm="backward")
    for shape in [(-1,), (1, -1), (-1, 1), (1, -1, 1)]:
        for each in layouts(x.reshape(shape)):
            axis = shape.index(-1)
            given = numpys(name, each, n=2400, axis=axis, norm="backward")
            found = run(name, each, n=2400, axis=axis - len(shape), norm="backward")
            assert (found.dtype, found.shape) == (given.dtype, given.shape)
            np.testing.assert_allclose(found, given, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
def test_what_is_numpys(name: str) -> None:
    """Factors that it has no quick way for, odd rows of reals, and what is padded or cut."""
    whole = OPERATIONS[name].own
    for points in (2 * 13 * 64, 2 * 1009):
        x = operand(name, points, "complex128")
        assert whole(x, n=points, axis=0, norm="backward") is None
    x = operand(name, 2400, "complex128")
    for points in (1200, 4800):
        assert whole(x, n=points, axis=0, norm="backward") is None
    if name in ("fft.rfft", "fft.irfft"):
        odd = operand(name, 2401, "complex128")
        assert whole(odd, n=2401, axis=0, norm="backward") is None
    several = np.stack([x, x])
    assert whole(several, n=2400, axis=0, norm="backward") is None
    assert whole(several, n=1200, axis=1, norm="backward") is None
    swapped = several.astype(x.dtype.newbyteorder())
    for each, axis in ((swapped[0], 0), (swapped, 1)):
        assert whole(each, n=2400, axis=axis, norm="backward") is None


@each_norm
@each_dtype
@each_length
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_transformed_as_numpy_does(
    name: str, points: int, dtype: str, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch)
    rows = np.stack([operand(name, points, dtype) * k for k in range(1, 91)])
    for x in (rows, rows.reshape(15, 6, -1), rows[::-2], np.asfortranarray(rows)):
        params: dict[str, Any] = {"n": points, "axis": x.ndim - 1, "norm": norm}
        found, expected = own(name, x, **params), numpys(name, x, **params)
        assert found.dtype == expected.dtype
        unscaled = "forward" if name in ("fft.ifft", "fft.irfft") else "backward"
        if dtype == "complex64" and norm == unscaled:  # NumPy computes in double precision
            check(found, expected)
        else:
            np.testing.assert_array_equal(found, expected)


def check(found: Array, expected: Array) -> None:
    """Hold a result as near to another one as a few roundings of its largest element."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    allowed = 4 * np.finfo(found.dtype).eps * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)


@each_norm
@each_dtype
@each_length
@pytest.mark.parametrize("name", NAMES)
def test_columns_are_transformed_some_at_a_time(
    name: str, points: int, dtype: str, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch)
    rows = np.stack([operand(name, points, dtype) * k for k in range(1, 91)])
    stacks = rows.reshape(5, 18, -1).swapaxes(1, 2)
    for x, axis in [(rows.T, 0), (rows.T.copy(), 0), (stacks, 1), (stacks.copy(), 1)]:
        params: dict[str, Any] = {"n": points, "axis": axis, "norm": norm}
        check(own(name, x, **params), numpys(name, x, **params))
        params["axis"] -= x.ndim
        check(own(name, x, **params), numpys(name, x, **params))


@each_norm
@each_dtype
@pytest.mark.parametrize("points", [2, 21, 30])
@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(
    name: str, points: int, dtype: str, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch)
    rows = np.stack([operand(name, points, dtype) * k for k in range(1, 91)])
    stacks = rows.reshape(5, 18, -1)
    each: list[tuple[Array, tuple[int, ...]]] = [
        *((stacks, axes) for axes in [(2,), (1, 2), (0, 2), (1, 0, 2)]),
        *((stacks.swapaxes(0, 2), axes) for axes in [(0,), (1, 0), (2, 1, 0), (-1, -3)]),
        *((stacks[::-1, ::2].swapaxes(1, 2), axes) for axes in [(2, 1), (0, 2, 1)]),
    ]
    for x, axes in each:
        given = x.copy()
        sizes = (*(x.shape[axis] for axis in axes[:-1]), points)
        params: dict[str, Any] = {"s": sizes, "axes": axes, "norm": norm}
        check(own(name, x, **params), numpys(name, x, **params))
        np.testing.assert_array_equal(x, given)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes_that_are_numpys(name: str) -> None:
    """What is padded, cut, empty, swapped or of another dtype."""
    whole = OPERATIONS[name].own
    x = np.stack([operand(name, 100, "complex128")] * 3)
    for sizes in [(4, 100), (2, 100), (3, 90), (3, 110)]:
        assert whole(x, s=sizes, axes=(0, 1), norm="backward") is None
    params: dict[str, Any] = {"s": (3, 100), "axes": (0, 1), "norm": "backward"}
    assert whole(x, **params) is not None
    assert whole(x.astype(x.dtype.newbyteorder()), **params) is None
    other = x.real.astype("c16") if name == "fft.rfftn" else x.real.copy()
    assert whole(other, **params) is None
    assert whole(x[:, :0], s=(3, 0), axes=(0, 1), norm="backward") is None


@pytest.mark.parametrize("name", NAMES)
def test_short_rows_are_numpys(name: str) -> None:
    x = operand(name, 2400, "complex128")
    assert _transforms.OPERATIONS[name].own(x, n=2400, axis=0, norm="backward") is None


def test_numpys_own_loop_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    x = operand("fft.fft", 2**16, "complex128")
    transform = _transforms.OPERATIONS["fft.fft"].own
    square = x.reshape(256, 256)
    several = [_transforms.OPERATIONS[name].own for name in SEVERAL]
    sizes: list[Any] = [(256, 256)] * 3 + [(256, 510)]
    _transforms._loop.cache_clear()
    with monkeypatch.context() as hidden:
        hidden.setattr(_transforms, "_MODULE", "numpy.fft._elsewhere")
        assert transform(x, n=x.size, axis=0, norm="backward") is None
        for each, s in zip(several, sizes, strict=True):
            for given in (square, square.real.copy()):
                assert each(given, s=s, axes=(0, 1), norm="backward") is None
    _transforms._loop.cache_clear()
    assert transform(x, n=x.size, axis=0, norm="backward") is not None


@pytest.mark.parametrize("name", NAMES)
def test_threads_make_no_difference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = operand(name, 20_000, "complex64")
    params: dict[str, Any] = {"n": 20_000, "axis": 0, "norm": "ortho"}
    alone = own(name, x, **params)
    asked = share(monkeypatch, 3)
    together = _transforms.OPERATIONS[name]
    monkeypatch.setattr(_transforms, "_LONG", 1)
    monkeypatch.setattr(_transforms, "size_from", lambda size: 1)
    np.testing.assert_array_equal(together.own(x, **params), alone)
    assert asked


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_spreads_as_in_numpy(name: str, bad: float) -> None:
    x = operand(name, 2400, "complex128")
    x[100] = bad
    found = own(name, x, n=2400, axis=0, norm="backward")
    assert not np.isfinite(found).any()


@quiet
def test_great_numbers_do_not_overflow_sooner() -> None:
    x = np.zeros(2400)
    x[:2] = 1.7e308, -1.7e308
    found = own("fft.rfft", x, n=2400, axis=0, norm="backward")
    expected = numpys("fft.rfft", x, n=2400, axis=0, norm="backward")
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
