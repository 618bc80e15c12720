"""Sums, counts, variances and norms of torch's arrays: their dtypes, digits and memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.backends.arrays import a
from tests.conftest import required

torch = required("torch")

from corepy.backends.torch import _reductions  # noqa: E402

pytestmark = pytest.mark.backend("torch")

PREFERRED = "torch"


def assert_counts(found: corepy.Array, expected: Any) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_array_equal(np.asarray(found), expected, strict=True)


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint16", "uint64"])
def test_sums_and_products_have_the_default_dtype(name: str) -> None:
    x = a([[1, 2], [3, 4]], name)
    wanted = xp.uint64 if name.startswith("u") else xp.int64
    for function, total, columns in (("sum", 10, [4, 6]), ("prod", 24, [3, 8])):
        reduce = getattr(xp, function)
        assert reduce(x).dtype is wanted
        assert int(reduce(x)) == total
        assert reduce(x, axis=0).tolist() == columns
        assert reduce(x, axis=(0, 1), keepdims=True).tolist() == [[total]]
        assert reduce(x, axis=()).tolist() == [[1, 2], [3, 4]]
        assert reduce(x, dtype=xp.uint8).dtype is xp.uint8
        assert reduce(x, dtype=xp.float32).tolist() == float(total)
    assert xp.linalg.trace(x).dtype is wanted
    assert int(xp.linalg.trace(x)) == 5
    cumulative = xp.cumulative_sum(x, axis=1, include_initial=True)
    assert cumulative.dtype is wanted
    assert cumulative.tolist() == [[0, 1, 3], [0, 3, 7]]
    assert xp.cumulative_prod(x, axis=0).tolist() == [[1, 2], [3, 8]]
    assert xp.cumulative_prod(x, axis=0, dtype=xp.uint16).dtype is xp.uint16


def test_reductions_over_no_axis_reduce_nothing() -> None:
    x = a([[1.0, 2.0], [3.0, 0.0]])
    for name in ("sum", "prod", "max", "min", "mean"):
        assert getattr(xp, name)(x, axis=()).tolist() == [[1.0, 2.0], [3.0, 0.0]]
    assert xp.var(x, axis=()).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert xp.any(x, axis=()).tolist() == xp.all(x, axis=()).tolist()
    assert xp.any(x, axis=()).tolist() == [[True, True], [True, False]]
    assert xp.count_nonzero(x, axis=()).tolist() == [[1, 1], [1, 0]]
    assert xp.linalg.vector_norm(a([3 + 4j]), axis=()).tolist() == [5.0]


def test_truth_of_small_integers_is_boolean() -> None:
    x = a([[0, 2], [0, 0]], "uint8")
    assert xp.any(x, axis=1).dtype is xp.bool
    assert xp.any(x, axis=1).tolist() == [True, False]
    assert xp.all(x, axis=(0, 1), keepdims=True).tolist() == [[False]]


def test_variance_with_a_fractional_correction() -> None:
    x = a([1.0, 2.0, 6.0])
    assert float(xp.var(x, correction=0.5)) == pytest.approx(14 / 2.5)
    assert float(xp.std(x, correction=0.5)) == pytest.approx(math.sqrt(14 / 2.5))
    assert math.isnan(float(xp.std(x, correction=3)))
    assert math.isnan(float(xp.var(x, correction=4)))


def test_counts_keep_dimensions() -> None:
    x = a([[1, 0], [2, 3]])
    assert xp.count_nonzero(x, axis=0, keepdims=True).tolist() == [[2, 1]]
    assert xp.count_nonzero(x, keepdims=True).tolist() == [[3]]
    assert xp.argmax(x, keepdims=True).tolist() == [[3]]


@pytest.mark.parametrize(
    "name",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32"],
)
def test_many_elements_are_counted_and_added_up_without_a_wider_copy(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("torch would widen all elements at once")

    values = np.random.default_rng(3).integers(-9, 9, (5, 7, 11)).astype(name)
    arrays = a(values), xp.permute_dims(a(values), (2, 1, 0))
    monkeypatch.setattr(_reductions, "_AT_ONCE", 20)
    if name not in ("int64", "float32"):
        monkeypatch.setattr(_reductions, "_accumulated", refuse)
    for axis in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        for x, host in zip(arrays, (values, values.T), strict=True):
            for keepdims in (False, True):
                found = xp.count_nonzero(x, axis=axis, keepdims=keepdims)
                assert found.dtype is xp.int64
                assert_counts(found, np.count_nonzero(host, axis=axis, keepdims=keepdims))
                if name in ("bool", "float32"):
                    continue
                assert_counts(
                    xp.sum(x, axis=axis, keepdims=keepdims),
                    host.sum(axis=axis, keepdims=keepdims),
                )
                assert_counts(
                    xp.sum(x, axis=axis, dtype=xp.int8, keepdims=keepdims),
                    host.sum(axis=axis, dtype=np.int8, keepdims=keepdims),
                )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("view", "axis"),
    [
        (lambda x: x[:, 0, 1:], None),
        (lambda x: x[:, 0, ::2], (0, 1)),
        (lambda x: x, (0, 2)),
        (lambda x: x.permute(2, 0, 1), (0, 1)),
        (lambda x: x, None),
    ],
)
def test_sums_over_several_axes_keep_their_digits(dtype: str, view: Any, axis: Any) -> None:
    values = (np.random.default_rng(0).random((100_000, 2, 3)) + 1000).astype(dtype)
    part = view(torch.from_numpy(values))
    exact = part.numpy().astype(np.longdouble)
    count, x = exact.size / np.sum(exact, axis=axis).size, xp.asarray(part)
    total = np.sum(exact, axis=axis)
    for found, expected in (
        (xp.sum(x, axis=axis), total),
        (xp.mean(x, axis=axis), total / count),
        (xp.std(x, axis=axis), np.std(exact, axis=axis)),
        (xp.linalg.vector_norm(x, axis=axis), np.sqrt(np.sum(exact**2, axis=axis))),
        (xp.linalg.vector_norm(x, axis=axis, ord=1, keepdims=True), total),
    ):
        error = np.abs(np.asarray(found).reshape(total.shape) - expected) / expected
        assert error.max() <= 8 * np.finfo(dtype).eps


def test_the_norm_of_a_matrix_keeps_its_digits() -> None:
    values = (np.random.default_rng(0).random((2, 60_000, 3)) + 1000).astype("float32")
    expected = np.sqrt(np.sum(values.astype("float64") ** 2, axis=(1, 2)))
    found = xp.linalg.matrix_norm(xp.asarray(torch.from_numpy(values)))
    assert np.asarray(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_norms_of_many_equal_numbers(order: int) -> None:
    x = xp.asarray(torch.full((1_000_000,), 1.001, dtype=torch.float64))
    expected = 1.001 * 1e6 ** (1 / order)
    assert float(xp.linalg.vector_norm(x, ord=order)) == pytest.approx(expected, rel=16 * 2.0**-52)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((300_001,), None),
        ((700, 501), 0),
        ((501, 700), 1),
        ((70, 71, 72), (0, 2)),
        ((70, 71, 72), 1),
        ((10, 30_001), 0),
        ((1, 1, 300_000), (0, 1)),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_variances_of_many_elements(shape: tuple[int, ...], axis: Any, turned: bool) -> None:
    """They are added up by parts, which a gradient does not pass through."""
    values = np.random.default_rng(0).normal(5, 1, shape)
    if turned:
        values = np.asfortranarray(values)
    tensor = torch.from_numpy(values)
    x, traced = xp.asarray(tensor), xp.asarray(tensor.clone().requires_grad_())
    for keepdims in (False, True):
        expected = np.var(values.astype(np.longdouble), axis=axis, keepdims=keepdims)
        for found in (
            xp.var(x, axis=axis, keepdims=keepdims),
            xp.var(traced, axis=axis, keepdims=keepdims),
        ):
            assert found.shape == expected.shape
            np.testing.assert_allclose(
                np.asarray(found.unwrap().detach()), expected.astype(float), rtol=1e-14, atol=0
            )
    xp.std(traced, axis=axis).unwrap().sum().backward()
    if shape[0] > 1:  # else nothing deviates, and a root has no derivative at zero
        assert traced.unwrap().grad.isfinite().all()
