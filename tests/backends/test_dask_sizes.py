"""Dask: sizes that nobody knows before they are computed, as of what a mask selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.devices._device import CPU, as_device
from tests.conftest import required

da = required("dask.array")

pytestmark = [
    pytest.mark.backend("dask"),
    pytest.mark.usefixtures("small_chunks"),
    pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"),
]

DASK = as_device("dask")
PREFERRED = "dask"


def a(values: Any) -> corepy.Array:
    return xp.asarray(values, device=DASK)


def rows() -> tuple[corepy.Array, Any]:
    values = np.arange(24.0).reshape(12, 2)
    x = a(values)
    return x[x[:, 0] > 6], values[values[:, 0] > 6]


def test_unknown_sizes_are_none_until_they_are_computed() -> None:
    x, values = rows()
    assert (x.shape, x.size, x.ndim) == ((None, 2), None, 2)
    assert x.to_device("cpu").shape == (8, 2)
    assert x.tolist() == values.tolist()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 2 + x,
        lambda x: xp.where(x > 9, x, 0.0),
        lambda x: xp.clip(x, x, None),
        lambda x: xp.sum(x, axis=0),
        xp.max,
        lambda x: xp.mean(x, axis=1, keepdims=True),
        lambda x: xp.argmax(x, axis=0),
        lambda x: xp.argmax(x[:, 1]),
        lambda x: xp.argmin(x[:, 1], keepdims=True),
        lambda x: x.T @ x,
        lambda x: x @ x.T,
        lambda x: xp.concat([x, x]),
        lambda x: xp.concat([x, x], axis=None),
        lambda x: xp.reshape(x, (-1,)),
        lambda x: xp.expand_dims(x, axis=0),
        lambda x: x[:, None, 1],
        lambda x: x[x > 10],
        lambda x: xp.take(x, xp.asarray([1], device=x.device), axis=1),
        lambda x: xp.sort(x, axis=0, descending=True),
        xp.unique_values,
        lambda x: xp.isin(x, x[:, 0]),
        lambda x: xp.cumulative_sum(x, axis=0),
        lambda x: xp.broadcast_arrays(x, x)[1],
        xp.linalg.svdvals,
        lambda x: xp.linalg.vector_norm(x, axis=1),
        lambda x: xp.repeat(x, xp.asarray([2, 1], device=x.device), axis=1),
        xp.linalg.matrix_rank,
    ],
)
def test_operations_on_unknown_sizes(f: Callable[..., Any]) -> None:
    x, values = rows()
    wanted = f(xp.asarray(values, device=CPU, copy=True))
    with corepy.set_fallback("allow"):
        found = f(x)
    assert (found.device, found.dtype) == (DASK, wanted.dtype)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-9, atol=1e-9)


def test_strict_mode_takes_slices_of_unknown_sizes() -> None:
    x, values = rows()
    with corepy.strict():
        assert x[1:, :].tolist() == values[1:].tolist()
        with pytest.raises(IndexError, match="stop is 3; expected -2 to 2"):
            x[:, :3]  # of an axis whose size is known
        x[...] = 5.0
    assert x.tolist() == [[5.0, 5.0]] * 8


def test_a_chunk_that_a_mask_leaves_empty_does_not_disturb_the_rest() -> None:
    x = a(np.arange(20.0))
    assert xp.max(x[x > 18]).item() == 19
    assert xp.min(a(np.arange(24.0).reshape(12, 2))[a(np.arange(12)) > 10], axis=0).tolist() == [
        22,
        23,
    ]
    with pytest.raises(ValueError, match="zero-size"):
        xp.max(x[x > 99]).item()


def like(x: corepy.Array, *shape: int) -> corepy.Array:
    """Return an array of known size where another one lives."""
    return xp.asarray(np.random.default_rng(0).integers(-4, 5, shape) * 1.0, device=x.device)


def written(x: corepy.Array, key: Any, value: Any) -> corepy.Array:
    x[key] = value
    return x


@pytest.mark.parametrize(
    "f",
    [
        lambda x: xp.stack(list(x)),
        lambda x: x[0],
        lambda x: x[-3:-1, ::-1],
        lambda x: x[xp.asarray([-1, 0], device=x.device)],
        lambda x: written(x, -1, 5.0),
        lambda x: written(x, (slice(None), 1), like(x, 8)),
        xp.ones_like,
        lambda x: xp.tril(x, k=-1),
        lambda x: xp.diff(x, axis=0, n=2, prepend=x[:1, :]),
        lambda x: xp.fft.rfft(x, axis=0),
        lambda x: xp.fft.irfftn(xp.astype(x, xp.complex128)),
        xp.fft.fftshift,
        lambda x: xp.roll(x, 3),
        xp.flip,
        lambda x: xp.repeat(x, xp.asarray([1, 0, 2, 1, 1, 0, 0, 1], device=x.device), axis=0),
        lambda x: xp.tile(x, (2, 1)),
        lambda x: xp.stack(xp.unstack(x)),
        lambda x: xp.stack([x, like(x, 8, 2)], axis=1),
        lambda x: xp.concat([x, like(x, 8, 1)], axis=1),
        lambda x: xp.reshape(x, (2, -1)),
        lambda x: xp.broadcast_to(x, (3, 8, 2)),
        lambda x: xp.broadcast_arrays(x, x[:, :1])[1],
        lambda x: xp.meshgrid(x[:, 0], x[:, 1])[0],
        lambda x: xp.nonzero(x > 9)[0],
        xp.argmax,
        lambda x: xp.take_along_axis(x, xp.argsort(x, axis=0), axis=0),
        lambda x: xp.searchsorted(x[:, 0], x[:, 1], sorter=xp.arange(8, device=x.device)),
        lambda x: xp.cumulative_sum(x, axis=1, include_initial=True),
        lambda x: x + like(x, 8, 2),
        lambda x: xp.where(like(x, 8, 1) > 0, x, 0.0),
        lambda x: like(x, 3, 8) @ x,
        lambda x: xp.tensordot(x, like(x, 8, 3), axes=([0], [0])),
        lambda x: xp.vecdot(x, like(x, 8, 2), axis=-2),
        lambda x: xp.linalg.solve(9 * xp.eye(8, device=x.device) + like(x, 8, 8), x),
        lambda x: xp.linalg.det(x @ x.T + xp.eye(8, device=x.device)),
        lambda x: xp.linalg.trace(x @ x.T),
        lambda x: xp.linalg.cross(x[:3, 0], like(x, 3)),
    ],
)
def test_sizes_are_computed_where_an_operation_needs_them(f: Callable[..., Any]) -> None:
    test_operations_on_unknown_sizes(f)


def test_sizes_are_computed_once_and_no_sooner_than_needed(watched: Callable[[Any], Any]) -> None:
    native, computed = watched(da.arange(12.0, chunks=6))
    x = xp.asarray(native)
    x = x[x > 3]
    y = xp.concat([x, x * 2]) + 1
    assert (x.shape, y.shape, computed) == ((None,), (None,), [])
    assert len(x) == 8
    assert (x.shape, computed) == ((8,), [6, 6])
    assert (x[-1].shape, xp.fft.rfft(x).shape, len(x), computed) == ((), (5,), 8, [6, 6])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + like(x, 3, 2),
        lambda x: xp.concat([x, like(x, 3, 1)], axis=1),
        lambda x: xp.stack([x, like(x, 3, 2)]),
        lambda x: like(x, 3, 3) @ x,
        lambda x: xp.reshape(x, (3, 3)),
        lambda x: xp.broadcast_to(x, (9, 2)),
        xp.linalg.inv,
    ],
)
def test_sizes_that_do_not_fit_are_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="^[a-z_]+: "):
        f(rows()[0])


def test_unknown_sizes_of_one_are_not_stretched() -> None:
    # NumPy would: chunk by chunk, both have one element where the other has three.
    x, y = (xp.asarray(da.arange(6, chunks=3)) for _ in range(2))
    left, right = x[(x == 0) | (x > 2)], y[(y < 3) | (y == 5)]
    with pytest.raises(ValueError, match="^add: sizes that were not known are [13] or [13] in a"):
        np.asarray(left + right)
    assert (len(left), len(right)) == (4, 4)
    assert (left + right).tolist() == [0, 4, 6, 10]


def selected(values: list[float], wanted: list[float], chunks: int = 2) -> tuple[Any, Any]:
    """Return what a mask selects of values in chunks, and the same on the host."""
    kept = np.isin(values, wanted)
    x = xp.asarray(da.from_array(np.asarray(values), chunks=chunks))
    return x[a(kept)], xp.asarray(np.asarray(values)[kept], device=CPU)


def columns(x: corepy.Array) -> corepy.Array:
    return x[:, None] * xp.asarray([[1.0, 2.0, 3.0]], device=x.device)


def squares(x: corepy.Array) -> corepy.Array:
    return x[:, None, None] + xp.asarray([[[0.0, 1.0], [2.0, 3.0]]], device=x.device)


@pytest.mark.parametrize(
    "f",
    [
        xp.vecdot,
        lambda x, y: xp.vecdot(columns(x), columns(y) + 1),
        lambda x, y: xp.vecdot(columns(x), columns(y) + 1, axis=-2),
        lambda x, y: xp.vecdot(columns(x), columns(x)[:1, :]),
        lambda x, y: squares(x) @ squares(y),
        lambda x, y: squares(x) @ squares(y)[..., :1],
        lambda x, y: squares(x)[:1, ...] @ squares(y),
        lambda x, y: x @ y,
        lambda x, y: x @ columns(y),
        lambda x, y: columns(x).T @ columns(y),
        lambda x, y: xp.tensordot(x, y, axes=1),
        lambda x, y: xp.tensordot(columns(x), columns(y), axes=2),
        lambda x, y: xp.tensordot(columns(x), columns(y), axes=([0, -1], [-2, 1])),
        lambda x, y: x[y > 10],
        lambda x, y: columns(x)[columns(y) > 20],
        lambda x, y: written(x, y > 10, 0.0),
        lambda x, y: written(columns(x), columns(y) > 20, 0.0),
        lambda x, y: xp.concat([x[:, None], y[:, None]], axis=1),
        lambda x, y: xp.concat([columns(x), columns(y)], axis=-1),
    ],
)
@pytest.mark.parametrize("other", [1, 2, 4], ids=str)
def test_unknown_sizes_in_chunks_that_differ(f: Callable[..., Any], other: int) -> None:
    x, left = selected([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 4.0])
    y, right = selected([10.0, 20.0, 30.0, 40.0], [10.0, 20.0, 30.0], other)
    wanted, found = f(left, right), f(x, y)
    assert (found.device, found.dtype) == (DASK, wanted.dtype)
    assert np.asarray(found).tolist() == np.asarray(wanted).tolist()
    assert found.shape in (wanted.shape, (None, *wanted.shape[1:]))


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (xp.vecdot, ValueError),
        (xp.matmul, ValueError),
        (lambda x, y: xp.tensordot(x, y, axes=1), ValueError),
        (lambda x, y: xp.concat([x[:, None], y[:, None]], axis=1), ValueError),
        (lambda x, y: x[y > 0], IndexError),
        (lambda x, y: written(x, y > 0, 0.0), IndexError),
    ],
)
@pytest.mark.parametrize("chunks", [1, 2, 4], ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_unknown_sizes_that_differ_are_refused(
    f: Callable[..., Any], error: type[Exception], chunks: int, count: int
) -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    x, y = selected(values, values[1:], chunks)[0], selected(values, values[:count], chunks)[0]
    with pytest.raises(error):
        np.asarray(f(x, y))


def test_masks_of_one_are_not_stretched_over_unknown_sizes() -> None:
    x = xp.asarray(da.arange(6, chunks=1))
    assert x[x == 3][a([True])].tolist() == [3]
    assert x[3:4][a(np.ones(6, bool))[x == 3]].tolist() == [3]


# ---------------------------------------------------------------------------- empty chunks


@pytest.mark.parametrize(
    "f",
    [
        xp.flip,
        lambda x: x[::-2],
        lambda x: x[-2:],
        lambda x: written(x, slice(None, None, -2), 9.0),
        lambda x: written(x, slice(None, None, -1), x * 2),
        lambda x: written(x, x > 2, x[x > 2] * 10),
        lambda x: x[xp.nonzero(x > 1)],
        lambda x: xp.cumulative_sum(x, axis=0),
        lambda x: xp.cumulative_prod(x, axis=0, include_initial=True),
        xp.std,
        lambda x: xp.var(x, axis=0, correction=0.5, keepdims=True),
        lambda x: xp.argmax(x, axis=0),
        lambda x: xp.argmin(x, keepdims=True),
        lambda x: xp.linalg.vector_norm(x, ord=-float("inf")),
        lambda x: xp.repeat(x, xp.asarray([2], device=x.device), axis=0),
        lambda x: xp.roll(x, 2),
        lambda x: xp.fft.rfft(x, axis=0),
        lambda x: xp.isin(x, x[:2]),
        lambda x: xp.searchsorted(x, x),
    ],
)
@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize(
    "mask",
    [[1, 0, 1, 0, 0, 1], [0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 0, 0]],
    ids=["some", "those between", "one"],
)
def test_chunks_that_a_mask_leaves_empty_change_no_value(
    f: Callable[..., Any], known: bool, mask: list[int]
) -> None:
    values, chosen = np.arange(6.0), np.asarray(mask, bool)
    x = xp.asarray(da.from_array(values, chunks=1))[a(chosen)]
    if known:
        len(x)
        assert 0 in x.unwrap().chunks[0]
    found = f(x)
    wanted = f(xp.asarray(values[chosen], device=CPU))
    assert (found.device, found.dtype) == (DASK, wanted.dtype)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-12)


OF_NOTHING: list[Callable[..., Any]] = [
    lambda x: xp.nonzero(x)[0],
    xp.unique_values,
    lambda x: xp.repeat(x, 3),
    lambda x: xp.repeat(x, xp.asarray([2], device=x.device)),
    lambda x: xp.repeat(x, xp.asarray([2], device=x.device), axis=-1),
    lambda x: x[x == 0],
    lambda x: x[::-1],
    lambda x: x[xp.asarray([], dtype=xp.int64, device=x.device)],
    lambda x: x[..., xp.asarray([], dtype=xp.int64, device=x.device)],
    lambda x: written(x, x == 0, 1.0),
    lambda x: xp.roll(x, 1),
    lambda x: xp.isin(x, x),
    lambda x: xp.isin(like(x, 3), x),
    lambda x: xp.searchsorted(like(x, 1), x),
    lambda x: xp.count_nonzero(x, axis=0),
    lambda x: xp.prod(x, axis=-1),
    lambda x: xp.cumulative_sum(x, axis=0, include_initial=True),
    lambda x: xp.concat([like(x, *x.shape), x]),
    lambda x: xp.take_along_axis(x, xp.argsort(like(x, *x.shape), axis=0), axis=0),
    lambda x: xp.take_along_axis(like(x, *x.shape), xp.argsort(x, axis=-1), axis=-1),
    lambda x: xp.matmul(x, xp.matrix_transpose(x)),
    lambda x: xp.tensordot(x, x, axes=0),
    lambda x: xp.tensordot(x, x, axes=([0], [0])),
]


@pytest.mark.parametrize("f", OF_NOTHING)
@pytest.mark.parametrize(
    "chunks",
    [
        ((1, 1), (0,)),
        ((2,), (0, 0)),
        ((0,), (1, 2)),
        ((1, 1, 1), (0,), (2, 2)),
        ((0, 0), (2, 1), (0, 3)),
    ],
    ids=str,
)
def test_arrays_without_elements_may_have_several_chunks(
    f: Callable[..., Any], chunks: tuple[tuple[int, ...], ...]
) -> None:
    values = np.zeros([sum(sizes) for sizes in chunks])
    wanted = f(xp.asarray(values, device=CPU))
    found = f(xp.asarray(da.from_array(values, chunks=chunks)))
    assert (found.device, found.dtype) == (DASK, wanted.dtype)
    assert np.asarray(found).shape == wanted.shape
    assert np.asarray(found).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: xp.concat([x, x], axis=0),
        lambda x: xp.cumulative_sum(x, axis=0, include_initial=True),
        lambda x: xp.sum(x, axis=-1),
        lambda x: xp.reshape(xp.repeat(x, 2), (-1,)),
        lambda x: xp.linalg.diagonal(xp.expand_dims(x, axis=-1)),
        lambda x: x[x == 0],
        lambda x: xp.take(x, xp.asarray([2, 0], device=x.device), axis=0),
        xp.linalg.matrix_rank,
    ],
)
def test_unknown_sizes_beside_an_axis_without_elements(f: Callable[..., Any]) -> None:
    values, chosen = np.zeros((5, 0)), np.arange(5) % 2 == 0
    found = f(a(values)[a(chosen)])
    assert np.asarray(found).shape == f(xp.asarray(values[chosen], device=CPU)).shape
