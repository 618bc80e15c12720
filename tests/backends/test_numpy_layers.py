"""What the NumPy backend computes past NumPy's Python layer, with the bits of NumPy's functions."""

from __future__ import annotations

import itertools
from typing import Any, Final

import array_api_compat.numpy as compat
import numpy as np
import pytest

from corepy.backends import _numpy_fft, _numpy_linalg, _numpy_set
from tests.backends.arrays import numpys
from tests.dispatch.natives import assert_same_bits

RNG: Final = np.random.default_rng(5)


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    values = RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if dtype in "FD" else 0)
    return values.astype(dtype)


def layouts(x: Any) -> list[Any]:
    return [x, x.T.copy().T, x[..., ::-1], np.repeat(x, 2, axis=-1)[..., ::2]]


def assert_same(found: Any, expected: Any) -> None:
    assert_same_bits(np.asarray(found), np.asarray(expected))


# ---------------------------------------------------------------------------- sets


@pytest.mark.parametrize("dtype", ["?", "b", "Q", "f", "d", "D"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 5), (300,)])
def test_distinct_elements_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = RNG.integers(0, 9, shape).astype(dtype)
    if dtype in "fdD" and x.size > 5:
        x.flat[[1, 4]] = np.nan
        x.flat[[2, 5]] = -0.0
    given = {"equal_nan": False, "return_counts": True}
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, **given)
    for found, expected in zip(
        numpys("unique_all", x), (values, first, inverse.reshape(x.shape), counts), strict=True
    ):
        assert_same(found, expected)
    for found, expected in zip(numpys("unique_counts", x), np.unique(x, **given), strict=True):
        assert_same(found, expected)
    values, inverse = np.unique(x, return_inverse=True, equal_nan=False)
    found_values, found_inverse = numpys("unique_inverse", x)
    assert_same(found_values, values)
    assert_same(found_inverse, inverse.reshape(x.shape))


def test_distinct_elements_leave_the_operand_as_it_is() -> None:
    x = np.asarray([3, 1, 2, 1])
    for function in (_numpy_set.unique_all, _numpy_set.unique_counts, _numpy_set.unique_inverse):
        function(x)
        assert x.tolist() == [3, 1, 2, 1]


# ---------------------------------------------------------------------------- transforms


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *itertools.product(("fft", "ifft"), "fdFD"),
        *itertools.product(("rfft", "ihfft"), "fd"),
        *itertools.product(("irfft", "hfft"), "FD"),
    ],
)
def test_transforms_along_an_axis_are_numpys(name: str, dtype: str, norm: Any) -> None:
    for x in layouts(numbers((4, 3, 6), dtype)):
        for axis in (0, 1, 2):
            for n in (1, 2, 5, 8):
                expected = getattr(np.fft, name)(x, n, axis, norm)
                found = numpys(f"fft.{name}", x, n=n, axis=axis, norm=norm)
                assert_same(found, expected)
                assert found.strides == expected.strides


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_along_axes_are_numpys(name: str, norm: Any) -> None:
    for x in layouts(numbers((4, 3, 6), "d" if name == "rfftn" else "D")):
        for axes in ((0,), (2, 1), (0, 1, 2), (-1, -3)):
            s = (5, 4, 3)[: len(axes)]
            expected = getattr(np.fft, name)(x, s, axes, norm)
            assert_same(numpys(f"fft.{name}", x, s=s, axes=axes, norm=norm), expected)


def test_numpys_functions_transform_where_their_loops_are_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def transformed() -> list[Any]:
        found = [
            numpys(f"fft.{name}", numbers[name[:1]], n=6, axis=1, norm="ortho")
            for name in ("fft", "ifft", "rfft", "irfft", "hfft")
        ]
        found += [numpys("fft.ihfft", real, n=6, axis=1, norm="ortho")]
        found += [
            numpys(f"fft.{n}", np.empty((2, 0), "D"), n=4, axis=1, norm="backward") for n in half
        ]
        return found

    half = ("irfft", "hfft")
    real, complex_ = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 4)) + 1j
    numbers = {"f": complex_, "r": real, "h": complex_, "i": complex_}
    loops = ("_FORWARD", "_INVERSE", "_EVEN", "_ODD", "_TO_REAL")
    assert None not in [getattr(_numpy_fft, name) for name in loops]
    expected = transformed()
    for name in loops:
        monkeypatch.setattr(_numpy_fft, name, None)
    for found, other in zip(transformed(), expected, strict=True):
        assert_same(found, other)
    for found in expected[-2:]:
        assert found.tolist() == [[0.0] * 4] * 2


def test_frequencies_are_numpys() -> None:
    for n in (1, 2, 3, 8, 9, 1000):
        for d in (1.0, 0.1, -0.3, 1e-20):
            for dtype in (np.dtype("d"), np.dtype("f")):
                for name in ("fftfreq", "rfftfreq"):
                    expected = getattr(np.fft, name)(n, d).astype(dtype)
                    assert_same(numpys(f"fft.{name}", n, d=d, dtype=dtype, device=None), expected)


# ---------------------------------------------------------------------------- moving


def test_rolled_arrays_are_numpys() -> None:
    for x in (*layouts(numbers((4, 3, 6), "d")), np.empty((2, 0, 3))):
        for shift, axis in (
            ((1, -2), (0, 1)),
            ((3, 2, 50), (2, 2, 0)),
            ((0,), (1,)),
            (4, (2,)),
            (4, (-2,)),
            (5, None),
            ((-1,), None),
        ):
            expected = np.roll(x, shift, axis)
            assert_same(numpys("roll", x, shift, axis=axis), expected)
        for axes in ((0, 1, 2), (2,), (1, 0)):
            for name in ("fftshift", "ifftshift"):
                expected = getattr(np.fft, name)(x, axes)
                assert_same(numpys(f"fft.{name}", x, axes=axes), expected)
    line = numbers((7,), "d")
    assert_same(numpys("roll", line, (2, 3), axis=(0, 0)), np.roll(line, 5))


def test_moved_and_repeated_arrays_are_numpys() -> None:
    for x in layouts(numbers((4, 3, 6), "d")):
        for source, destination in (
            ((0,), (2,)),
            ((2, 0), (0, 1)),
            ((), ()),
            ((0, 1, 2), (1, 2, 0)),
        ):
            expected = np.moveaxis(x, source, destination)
            found = numpys("moveaxis", x, source, destination)
            assert_same(found, expected)
            assert np.may_share_memory(found, x)
        for axis in range(3):
            for one, other in zip(
                numpys("unstack", x, axis=axis), np.moveaxis(x, axis, 0), strict=True
            ):
                assert_same(one, other)
        for times in ((), (1,), (2,), (1, 2), (2, 1, 3), (3, 1, 1, 2), (0, 2)):
            found = numpys("tile", x, times)
            assert_same(found, np.tile(x, times))
            assert not np.may_share_memory(found, x)
        for shape in ((4, 3, 6), (2, 4, 3, 6), (0, 4, 3, 6)):
            found = numpys("broadcast_to", x, shape)
            assert_same(found, np.broadcast_to(x, shape))
            assert not found.flags.writeable
    for shape in ((), (0,), (0, 3)):
        x = np.zeros(shape)
        assert_same(numpys("broadcast_to", x, (2, *shape)), np.broadcast_to(x, (2, *shape)))
        assert_same(numpys("tile", x, (2, 2)), np.tile(x, (2, 2)))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_coordinate_matrices_are_numpys(indexing: Any) -> None:
    vectors = [numbers((n,), "d") for n in (3, 1, 4, 2)]
    for count in range(1, 5):
        given = vectors[:count]
        found = numpys("meshgrid", *given, indexing=indexing)
        for one, other in zip(found, np.meshgrid(*given, indexing=indexing), strict=True):
            assert_same(one, other)
            assert not any(np.may_share_memory(one, x) for x in given)


def test_few_elements_are_taken_without_a_copy_of_all() -> None:
    x = numbers((16, 20, 30), "d")
    for given in [*layouts(x), x.T, x[:, ::-2], np.broadcast_to(x[:, :1], x.shape)]:
        for axis in range(3):
            for shape in ((), (1,), (0,), (2,), (3, 4)):
                indices = RNG.integers(-given.shape[axis], given.shape[axis], shape)
                expected = np.take(given, indices, axis)
                assert_same(numpys("take", given, indices, axis=axis), expected)
            with pytest.raises(IndexError):
                numpys("take", given, np.asarray([given.shape[axis]]), axis=axis)
    ones = np.broadcast_to(np.float64(1), (2**59,))
    assert_same(numpys("take", ones, np.asarray([2**59 - 1, -(2**59)])), np.ones(2))
    found = numpys("take", x.T, np.asarray(3), axis=0)
    found[...] = 0  # not a view of the operand
    assert x.all()


def test_selected_elements_are_numpys() -> None:
    for x in layouts(numbers((4, 3, 6), "d")):
        for axis in range(3):
            sizes = [1 if i == 0 else 5 if i == axis else n for i, n in enumerate(x.shape)]
            sizes[axis] = 5
            indices = RNG.integers(-x.shape[axis], x.shape[axis], sizes)
            expected = np.take_along_axis(x, indices, axis)
            assert_same(numpys("take_along_axis", x, indices, axis=axis), expected)
            with pytest.raises(IndexError):
                numpys("take_along_axis", x, indices + 9, axis=axis)
    for dtype in ("?", "b", "Q", "f", "D"):
        for size, others in ((20, 6), (20, 0), (0, 3), (300, 40)):
            x, y = (RNG.integers(0, 30, n).astype(dtype) for n in (size, others))
            if dtype in "fD" and size and others:
                x[1] = y[1] = np.nan
            for invert in (False, True):
                expected = np.isin(x, y, invert=invert)
                assert_same(numpys("isin", x, y, invert=invert), expected)
                many = numpys("isin", x.reshape(-1, 1), y.reshape(1, -1), invert=invert)
                assert_same(many, expected.reshape(-1, 1))


@pytest.mark.parametrize("dtype", ["?", "b", "f", "d"])
def test_orders_and_counts_are_numpys(dtype: str) -> None:
    for x in layouts(RNG.integers(0, 3, (4, 3, 6)).astype(dtype)):
        for axis in range(3):
            for stable in (False, True):
                expected = compat.argsort(x, axis=axis, descending=True, stable=stable)
                found = numpys("argsort", x, axis=axis, descending=True, stable=stable)
                assert_same(found, expected)
            for keepdims in (False, True):
                expected = np.count_nonzero(x, axis=(axis,), keepdims=keepdims)
                assert_same(numpys("count_nonzero", x, axis=(axis,), keepdims=keepdims), expected)


# ---------------------------------------------------------------------------- linear algebra


def matrices(dtype: str) -> list[Any]:
    singular = np.ones((3, 3), dtype)
    given = [numbers(shape, dtype) for shape in ((4, 4), (3, 5), (5, 3), (2, 3, 3), (1, 1))]
    return [y for x in (*given, singular) for y in layouts(x)]


def outcome(function: Any, *args: Any, **params: Any) -> Any:
    try:
        return function(*args, **params)
    except np.linalg.LinAlgError as error:
        return str(error)


def assert_alike(found: Any, expected: Any) -> None:
    """Compare what was returned or raised."""
    if isinstance(expected, str):
        assert found == expected
    elif isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert_same(found, expected)


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
@pytest.mark.parametrize("name", ["inv", "slogdet", "eigh", "eigvalsh"])
def test_square_matrices_give_what_numpy_gives(name: str, dtype: str) -> None:
    for x in matrices(dtype):
        if x.shape[-1] == x.shape[-2]:
            assert_alike(outcome(numpys, f"linalg.{name}", x), outcome(getattr(np.linalg, name), x))
            x = np.zeros_like(x)
            assert_alike(outcome(numpys, f"linalg.{name}", x), outcome(getattr(np.linalg, name), x))


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_singular_values_are_numpys(dtype: str) -> None:
    for x in matrices(dtype):
        assert_same(numpys("linalg.svdvals", x), np.linalg.svd(x, compute_uv=False))
        for rtol in (None, 0.3):
            expected = np.linalg.matrix_rank(x, rtol=rtol)
            assert_same(numpys("linalg.matrix_rank", x, rtol=rtol), expected)
            assert_same(numpys("linalg.pinv", x, rtol=rtol), np.linalg.pinv(x, rtol=rtol))
    x = np.diag(np.arange(1, 7).astype(dtype)) * (np.finfo(dtype).max / 8)
    assert_same(numpys("linalg.matrix_rank", x), np.intp(6))
    for name in ("svdvals", "eigvalsh", "pinv"):
        with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
            numpys(f"linalg.{name}", np.full((3, 3), np.nan, dtype))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_norms_are_numpys(dtype: str, keepdims: bool) -> None:
    for x in matrices(dtype):
        for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            params = {"keepdims": keepdims, "ord": order}
            expected = compat.linalg.matrix_norm(x, **params)
            assert_same(numpys("linalg.matrix_norm", x, **params), expected)
        for order in (2, 1, np.inf, -np.inf, 0, 3, -1.5):
            for axis in (None, (0, 1), *((i,) for i in range(x.ndim))):
                params = {"axis": axis, "keepdims": keepdims, "ord": order}
                expected = compat.linalg.vector_norm(x, **params)
                assert_same(numpys("linalg.vector_norm", x, **params), expected)


@pytest.mark.parametrize("dtype", ["i", "Q", "f", "d", "F", "D"])
def test_products_and_parts_of_matrices_are_numpys(dtype: str) -> None:
    for x in (numbers((4, 3, 3), dtype), numbers((3, 3), dtype)):
        for y in layouts(x):
            for axis in range(-y.ndim, 0):
                if y.shape[axis] == 3:
                    assert_same(
                        numpys("linalg.cross", y, y[::-1], axis=axis),
                        np.cross(y, y[::-1], axis=axis),
                    )
            for n in range(12):
                assert_same(numpys("linalg.matrix_power", y, n), np.linalg.matrix_power(y, n))
            for k in (-4, -1, 0, 2, 4):
                assert_same(numpys("tril", y, k=k), np.tril(y, k))
                assert_same(numpys("triu", y, k=k), np.triu(y, k))
                expected = np.diagonal(y, k, -2, -1)
                assert_same(numpys("linalg.diagonal", y, offset=k), expected)
                expected = np.trace(y, k, -2, -1)
                assert_same(numpys("linalg.trace", y, offset=k, dtype=expected.dtype), expected)
    a, b = numbers((4,), dtype), numbers((6,), dtype)[::-2]
    assert_same(numpys("linalg.outer", a, b), np.outer(a, b))
    one = numbers((5, 1, 3), dtype)
    assert_same(numpys("linalg.cross", one, one[:, 0], axis=-1), np.cross(one, one[:, 0]))


def test_numpys_functions_compute_where_lapacks_loops_are_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = numbers((3, 3), "d")
    names = ("inv", "slogdet", "eigh", "eigvalsh", "svdvals", "matrix_rank", "pinv")
    expected = [numpys(f"linalg.{name}", x) for name in names]
    for loop in ("_INV", "_SLOGDET", "_EIGH", "_EIGVALSH", "_SVDVALS", "_SVD"):
        assert getattr(_numpy_linalg, loop) is not None
        monkeypatch.setattr(_numpy_linalg, loop, None)
    for name, other in zip(names, expected, strict=True):
        assert_alike(numpys(f"linalg.{name}", x), other)
