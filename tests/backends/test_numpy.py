"""What the NumPy backend computes otherwise than NumPy on many elements, with NumPy's results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _blas
from corepy._dtypes import DTYPES
from corepy.backends import _lapack, _numpy_factors
from corepy.backends._numpy import NumPyBackend
from corepy.backends._numpy_rows import reduced, spread
from corepy.backends._numpy_single import OPERATIONS as SINGLE
from corepy.devices._device import CPU
from tests.backends.arrays import numpys
from tests.dispatch.natives import assert_same_bits

BACKEND: Final = NumPyBackend()


# NumPy 2.5 would have nobody do that any more.
@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype) on a NumPy array:DeprecationWarning")
def test_native_arrays_are_changed_in_place_by_their_owners_alone() -> None:
    values = np.arange(4.0)
    x = xp.asarray(values)
    values.shape = (2, 2)
    assert x.shape == (4,)
    given = np.asarray(x)
    given.shape = (2, 2)
    given[0, 0] = 7
    assert x.shape == (4,)
    assert values[0, 0] == float(x[0]) == 7.0  # the memory is one
    for _ in range(3):
        given = np.asarray(x)
        given.dtype = np.int8  # type: ignore[misc]
        assert (x + x).dtype == xp.float64


def test_masked_arrays_are_refused_not_robbed_of_their_mask() -> None:
    masked = np.ma.masked_array([1.0, 5.0], mask=[False, True])
    assert not BACKEND.owns(masked)
    with pytest.raises(TypeError, match=r"^sum: x is of type numpy\.ma"):
        xp.sum(masked)


class Metres(np.ndarray[Any, Any]):
    """As quantities are: their functions know of the unit, and their operators come first."""

    __array_priority__ = 10_000

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [np.asarray(each) for each in inputs]
        return getattr(ufunc, method)(*plain).view(Metres)


def test_quantities_are_refused_not_robbed_of_their_unit() -> None:
    x, length = xp.asarray([1.0, 2.0]), np.asarray([3.0, 5.0]).view(Metres)
    for found in (x * length, length * x, np.multiply(x, length)):
        assert type(found) is Metres
        assert found.tolist() == [3.0, 10.0]
    for use in (xp.sin, lambda y: xp.add(x, y), lambda y: x.__setitem__(..., y), corepy.to):
        with pytest.raises(TypeError, match="Metres"):
            use(length)
    assert xp.asarray(length).tolist() == [3.0, 5.0]
    assert type(x * np.asarray([3.0, 5.0]).view(np.recarray)) is corepy.Array


class Feet(Metres):
    """As quantities of unyt's are: NumPy's operators leave the answer to an `Array`."""

    __array_priority__ = 2


def test_quantities_that_leave_the_answer_are_not_unequal() -> None:
    x, length = xp.asarray([3.0, 2.0]), np.asarray([3.0, 5.0]).view(Feet)
    calls: list[Callable[[], object]] = [
        lambda: x == length,
        lambda: length == x,
        lambda: x != length,
        lambda: length != x,
    ]
    for call in calls:
        with pytest.raises(TypeError, match="equal: x2 is of type .*Feet; expected an array or a"):
            call()
    assert type(x == length.view(Metres)) is Metres  # whose own comparison answers
    masked = np.ma.masked_array([3.0, 5.0], mask=[False, True])
    assert (x == masked).tolist() == [True, None]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sort_of_many_keeps_zeros_and_nan_in_order(dtype: str) -> None:
    x = np.random.default_rng(2).standard_normal(40_000).astype(dtype)
    x[::7], x[3::11], x[5::13] = 0.0, -0.0, np.nan
    x[6::17] = np.copysign(np.nan, -1)
    x[9::500] = np.inf
    few = np.random.default_rng(3).standard_normal(40_000).astype(dtype)
    few[7:9], few[20:30] = -0.0, 0.0  # of these NumPy's own sort makes -0 or 0 as it comes
    for values in (x, np.abs(x[x != 0]), np.full_like(x, -0.0), -x[~np.isnan(x)], few, -few):
        found = numpys("sort", values, axis=0, descending=False, stable=True)
        assert found.tobytes() == np.sort(values, kind="stable").tobytes()
        rows = values[: values.size // 200 * 200].reshape(200, -1)
        for axis in (0, 1):
            found = numpys("sort", rows, axis=axis, descending=False, stable=True)
            assert found.tobytes() == np.sort(rows, axis, kind="stable").tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [100, 20_000])
@pytest.mark.parametrize("distinct", [40, 1 << 30])
def test_unique_values_keep_the_first_of_equal_zeros(dtype: str, size: int, distinct: int) -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        x = rng.integers(-distinct, distinct, size).astype(dtype)
        x[rng.integers(0, size, 6)] = rng.choice([0.0, -0.0, np.nan], 6)
        x = x.reshape(2, -1)[:, ::-1]
        found = numpys("unique_values", x)
        sorted_ = np.sort(x, axis=None, kind="stable")
        wanted = sorted_[np.append(True, sorted_[1:] != sorted_[:-1])]
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(
            np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0])
        )


def test_sizes_beside_no_elements_do_not_wrap_around() -> None:
    flat = np.zeros((0, 2**62), np.int8)
    with pytest.raises(MemoryError, match="^concat: the result has"):
        xp.concat([xp.asarray(flat), flat, flat, flat], axis=1)
    for shape, axis in (((0, 4), 1), ((4, 0), 0)):
        with pytest.raises(MemoryError, match="^repeat: the result has"):
            xp.repeat(xp.zeros(shape), xp.asarray([2**62] * 4), axis=axis)
    assert xp.concat([xp.asarray(flat[:, :3]), flat[:, 3:5]], axis=1).shape == (0, 5)
    assert xp.repeat(xp.zeros((0, 4)), xp.asarray([2, 0, 1, 3]), axis=1).shape == (0, 6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_long_ranges(dtype: str) -> None:
    bounds = [(0, 100_000, 1), (300_001, -400_000, -7), (-(2**23), 2**23, 99), (0, 2**40, 2**24)]
    for ends in [*bounds, (2**22, 2**23 - 3, 5), (-(2**62), 2**62, 2**46 + 1)]:
        found = numpys("arange", *ends, dtype=np.dtype(dtype), device=CPU)
        wanted = np.arange(*ends)
        assert found.dtype == dtype
        if dtype == "int64" or max(map(abs, ends)) < 2**23:
            np.testing.assert_array_equal(found, wanted)
        elif dtype == "float32":
            np.testing.assert_array_equal(found, wanted.astype(dtype))
        elif ends[2] < 2**46:
            np.testing.assert_array_equal(found, np.arange(*ends, dtype=dtype))
        else:  # beside the start NumPy rounds this step, and adds what is left of it
            steps = np.arange(wanted.size, dtype=dtype)
            np.testing.assert_array_equal(found, ends[0] + ends[2] * steps)


@pytest.mark.parametrize("endpoint", [True, False])
def test_long_linspaces(endpoint: bool) -> None:
    for ends in ((0.0, 1.0), (-3, 1e30), (0.0, 5e-324), (2, 2)):
        for dtype in ("float32", "float64"):
            params = {"dtype": np.dtype(dtype), "device": CPU, "endpoint": endpoint}
            found = numpys("linspace", *ends, 100_001, **params)
            wanted = np.linspace(*ends, 100_001, endpoint=endpoint, dtype=dtype)
            assert found.tobytes() == wanted.tobytes()


# ---------------------------------------------------------------------------- past NumPy's layer


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["mean", "count_nonzero"])
def test_reductions_past_numpys_python_layer(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((), (1,), (7,), (3, 5), (2, 3, 4), (0,), (0, 3), (3, 70_001)):
        x = np.asarray(rng.standard_normal(shape) * 10).astype(dtype)
        for values in (x, x.T, x[..., ::2] if shape else x):
            axes: list[Any] = [None, (), *((axis,) for axis in range(x.ndim))]
            for axis in [*axes, (0, 1)] if x.ndim > 1 else axes:
                for keepdims in (False, True):
                    found = numpys(name, values, axis=axis, keepdims=keepdims)
                    wanted = getattr(np, name)(values, axis=axis, keepdims=keepdims)
                    if name == "count_nonzero" or reduced("sum", values, axis, keepdims) is None:
                        assert_same_bits(found, wanted)
                    else:  # by a loop of our own (`test_numpy_rows.py`)
                        unit = np.finfo(dtype).eps * np.mean(np.abs(values))
                        np.testing.assert_allclose(found, wanted, rtol=0, atol=4 * unit)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("correction", [0.0, 1, 0.5, 7.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["std", "var"])
def test_variances_past_numpys_python_layer(name: str, dtype: str, correction: float) -> None:
    rng = np.random.default_rng(0)
    for shape in ((), (1,), (7,), (3, 5), (2, 3, 4), (0,), (0, 3), (3, 70_001)):
        x = np.asarray(rng.standard_normal(shape) * 10 + 3).astype(dtype)
        for values in (x, x.T, x * np.nan, np.full_like(x, np.inf)):
            axes: list[Any] = [None, *((axis,) for axis in range(x.ndim))]
            for axis in [*axes, (0, 1)] if x.ndim > 1 else axes:
                for keepdims in (False, True):
                    params = {"axis": axis, "keepdims": keepdims}
                    found = numpys(name, values, correction=correction, **params)
                    wanted = getattr(np, name)(values, ddof=correction, **params)
                    if wanted.size and values.size // wanted.size <= correction:
                        wanted = np.full_like(wanted, np.nan)  # NumPy divides by zero
                    ours = reduced("sum", values, axis, keepdims) is not None
                    if not ours and spread(values, axis, correction, keepdims, roots=False) is None:
                        assert_same_bits(found, wanted)
                    else:  # by loops of our own (`test_numpy_rows.py`, `test_variances.py`)
                        np.testing.assert_allclose(found, wanted, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1), (0, 2), (1, 2)])
def test_new_dimensions_have_numpys_strides(axis: tuple[int, ...]) -> None:
    for x in (np.arange(3), np.arange(12).reshape(3, 4)[:, ::-2], np.zeros((3, 0))):
        if max(axis) < x.ndim + len(axis):
            found, wanted = numpys("expand_dims", x, axis=axis), np.expand_dims(x, axis)
            assert (found.shape, found.strides) == (wanted.shape, wanted.strides)
            assert found.size == 0 or np.may_share_memory(found, x)


def test_new_arrays_hold_what_numpys_do() -> None:
    values: dict[str, list[Any]] = {"b": [True, False], "i": [0, -1], "u": [0, 1]}
    values["f"] = [0.0, -0.0, 1e-50, 3.3e38, np.nan, np.inf]
    values["c"] = [1j, complex(-0.0, 0.0), complex(np.nan, 2)]
    for dtype in map(BACKEND.native_dtype, DTYPES.values()):
        numbers = list(values[dtype.kind])
        if dtype.kind in "iu":
            numbers += [int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)]
        for shape in ((), (3,), (2, 3), (0,)):
            for number in numbers:
                found = numpys("full", shape, number, dtype=dtype, device=CPU)
                assert_same_bits(found, np.full(shape, number, dtype))
            for name in ("ones", "zeros"):
                found = numpys(name, shape, dtype=dtype, device=CPU)
                assert_same_bits(found, getattr(np, name)(shape, dtype))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [4, 20_000])
def test_signs_of_complex_numbers_near_zero_raise_no_flag(dtype: str, size: int) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([0, tiny, -1j * tiny, 3 + 4j], dtype).repeat(size // 4)
    with np.errstate(all="raise", under="ignore"):  # warnings are errors here, too
        found = np.asarray(xp.sign(xp.asarray(x)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.array([0, 1, -1j, 0.6 + 0.8j]).repeat(size // 4), 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("infinity", [np.inf, -np.inf, np.nan])
def test_singular_vectors_of_infinite_elements_are_refused(infinity: float, dtype: str) -> None:
    # OpenBLAS never ends to look for them.
    values = np.stack([np.eye(3, dtype=dtype), np.full((3, 3), 2, dtype)])
    values[1, :2, 0] = infinity
    for function in (xp.linalg.svd, xp.linalg.pinv):
        for x in (values, values[1]):  # of one matrix by the compiled path
            with pytest.raises(ValueError, match=r": SVD did not converge; expected x to hold fin"):
                function(xp.asarray(x))
    with pytest.raises(np.linalg.LinAlgError):
        numpys("linalg.svd", values[1], full_matrices=False)
    assert SINGLE["linalg.svd"](values[1].real.astype("float32")) is None


def brings_openblas() -> bool:
    """Say whether NumPy was built as its wheels for Linux are, whatever corepy finds of it."""
    built: Any = np.show_config(mode="dicts")
    return sys.platform == "linux" and "scipy-openblas" in str(built["Build Dependencies"]["blas"])


@pytest.mark.needs("threadpoolctl")
@pytest.mark.skipif(not brings_openblas(), reason="NumPy brings no OpenBLAS of its own")
def test_openblas_is_found_where_numpy_brings_it() -> None:
    """Where it is not, the tests of what it computes and of where its threads are leave out all."""
    large = np.eye(_lapack.LARGE + 17)
    assert _lapack.has_routines(large)
    assert _numpy_factors.is_large(large)
    assert _blas.numpys()
    assert _blas._placeable()
