"""RMSNorm and LayerNorm: values, special values, and the place of each rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corepy import kernels
from corepy.kernels._ways import only
from tests.kernels import libraries
from tests.kernels.libraries import Kind, check, device_kinds, host, kinds, sample, select

SHAPES = [(1,), (7,), (1, 1), (3, 1), (3, 64), (2, 3, 65), (5, 1000)]


def test_rms_norm(kind: Kind) -> None:
    for dtype in kind.dtypes:
        for shape in kind.some(SHAPES, dtype, slice(4, 5)):
            x, w = kind.array(sample(*shape), dtype), kind.array(sample(shape[-1], seed=1), dtype)
            out = kernels.rms_norm(x, w, 1e-5)
            check(x, out, libraries.rms_norm(host(x), host(w), 1e-5), dtype)


@pytest.mark.parametrize("size", [1, 7, 64, 256, 257])
@pytest.mark.parametrize("kind", kinds("numpy", "torch")[1::2])  # compiled
def test_rows_are_normalized_alike_alone_and_among_others(kind: Kind, size: int) -> None:
    count = 2 * (1024 // size) + 3  # more than are fetched at once, and some over
    for dtype in kind.dtypes:
        x = kind.array(sample(count, size), dtype)
        with only("numba"):
            out = kernels.rms_norm(x, None, 1e-5)
            check(x, out, libraries.rms_norm(host(x), 1.0, 1e-5), dtype)
            for row in (0, 1, count // 2, count - 2, count - 1):
                alone = kernels.rms_norm(x[row : row + 1], None, 1e-5)
                np.testing.assert_array_equal(host(out)[row : row + 1], host(alone))


def test_rms_norm_without_weight_and_with_a_wider_one(kind: Kind) -> None:
    for dtype in kind.dtypes:
        x = kind.array(sample(4, 33), dtype)
        check(x, kernels.rms_norm(x, None, 0), libraries.rms_norm(host(x), 1.0, 0.0), dtype)
        w = kind.array(sample(33), "float64" if dtype == "float64" else "float32")
        check(x, kernels.rms_norm(x, w, 0.5), libraries.rms_norm(host(x), host(w), 0.5), dtype)


def test_rms_norm_with_residual_is_the_norm_of_the_rounded_sum(kind: Kind) -> None:
    for dtype in kind.dtypes:
        x, r = kind.array(sample(3, 70), dtype), kind.array(sample(3, 70, seed=2), dtype)
        w = kind.array(sample(70, seed=1), dtype)
        out, summed = kernels.rms_norm(x, w, 1e-5, residual=r)
        exact = kind.array(host(x) + host(r), dtype)  # rounds once
        np.testing.assert_array_equal(host(summed), host(exact))
        check(x, summed, host(exact), dtype)
        check(x, out, libraries.rms_norm(host(exact), host(w), 1e-5), dtype)
        np.testing.assert_array_equal(host(out), host(kernels.rms_norm(summed, w, 1e-5)))


def test_layer_norm(kind: Kind) -> None:
    for dtype in kind.dtypes:
        for shape in kind.some(SHAPES, dtype, slice(4, 5)):
            x = kind.array(sample(*shape) + 3.0, dtype)
            w, b = (kind.array(sample(shape[-1], seed=s), dtype) for s in (1, 2))
            out = kernels.layer_norm(x, w, b, 1e-5)
            check(x, out, *_layer(x, w, b, dtype))


def _layer(x: Any, w: Any, b: Any, dtype: str) -> tuple[Any, str, Any]:
    expected, terms = libraries.layer_norm(host(x), host(w), host(b), 1e-5)
    return expected, dtype, terms


def test_layer_norm_without_parameters(kind: Kind) -> None:
    for dtype in kind.dtypes:
        x, w = kind.array(sample(4, 33), dtype), kind.array(sample(33, seed=1), dtype)
        for weight, bias in ((None, None), (w, None), (None, w)):
            ws = 1.0 if weight is None else host(w)
            expected, terms = libraries.layer_norm(host(x), ws, 0 if bias is None else host(w), 0.1)
            check(x, kernels.layer_norm(x, weight, bias, 0.1), expected, dtype, terms)


def test_layer_norm_keeps_digits_far_from_zero(kind: Kind) -> None:
    for dtype, away, bound in (
        ("float32", 1e4, 1e-5),
        ("float32", 1e6, 1e-5),
        ("float64", 1e6, 1e-13),
        ("float64", 1e14, 1e-13),
    ):
        x = kind.array(sample(2, 3001) + away, dtype)  # the mean of whose rows takes many sums
        expected, _ = libraries.layer_norm(host(x) - away, 1.0, 0.0, 1e-5)
        found = host(kernels.layer_norm(x, None, None, 1e-5))
        np.testing.assert_allclose(found, expected, rtol=10 * bound, atol=bound)


@pytest.mark.parametrize("way", ["numba", "torch", "jax", "formula"])
@pytest.mark.parametrize("kind", kinds("numpy", "torch", "jax"))
def test_no_way_loses_digits_far_from_zero(kind: Kind, way: str) -> None:
    values = sample(4, 1024) + 1e6
    x = kind.array(values, "float32")
    expected, _ = libraries.layer_norm(host(x) - 1e6, 1.0, 0.0, 1e-5)
    with only(way):
        found = host(kernels.layer_norm(x, None, None, 1e-5))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [128, 4099])
def test_layer_norm_beside_an_outlier(kind: Kind, size: int) -> None:
    values = sample(4 if kind.slow else 512, size) + 1e6
    values[:, 0] = -3e7
    for dtype, bound in (("float32", 1e-5), ("float64", 1e-13)):
        x = kind.array(values, dtype)
        expected, _ = libraries.layer_norm(host(x) - 1e6, 1.0, 0.0, 1e-5)
        found = host(kernels.layer_norm(x, None, None, 1e-5))
        np.testing.assert_allclose(found, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_stay_in_their_row(kind: Kind, special: float) -> None:
    values = sample(3, 40)
    values[1, 5] = special
    for dtype in kind.dtypes:
        x = kind.array(values, dtype)
        rms, layer = (
            host(kernels.rms_norm(x, None, 1e-5)),
            host(kernels.layer_norm(x, None, None, 1)),
        )
        assert np.isfinite(rms[[0, 2]]).all()
        assert np.isfinite(layer[[0, 2]]).all()
        assert np.isnan(layer[1]).all()
        if np.isnan(special):
            assert np.isnan(rms[1]).all()
        else:  # finite by infinity, and infinity by infinity
            assert np.isnan(rms[1, 5])
            assert (np.delete(rms[1], 5) == 0).all()


def test_zeros_keep_their_sign(kind: Kind) -> None:
    x = kind.array([[0.0, -0.0, 2.0, -2.0]], "float32")
    out = host(kernels.rms_norm(x, None, 0.0))
    assert np.signbit(out).tolist() == [[False, True, False, True]]
    zeros = kind.array([[0.0, -0.0]], "float32")
    assert host(kernels.rms_norm(zeros, None, 1e-5)).tolist() == [[0.0, 0.0]]


def test_greatest_and_least_numbers(kind: Kind) -> None:
    for dtype in kind.dtypes:
        top = {"float16": 60000.0, "bfloat16": 1e18, "float32": 1e18, "float64": 1e150}[dtype]
        x = kind.array([[top, -top], [top / 2, top]], dtype)
        check(x, kernels.rms_norm(x, None, 0), libraries.rms_norm(host(x), 1.0, 0.0), dtype)


@pytest.mark.parametrize(
    "way", ["numba", pytest.param("torch", marks=pytest.mark.backend("torch")), "jax", "formula"]
)
@pytest.mark.parametrize("kind", [*kinds("numpy", "torch", "jax"), *device_kinds()])
@pytest.mark.parametrize(("eps", "counts_as"), [(1e-50, "smallest_normal"), (1e39, "max")])
def test_eps_beyond_the_dtype(kind: Kind, way: str, eps: float, counts_as: str) -> None:
    """It is neither zero nor infinite, whoever computes."""
    for value, size in ((0.0, 8), (0.0, 2000), (1.0, 8), (1.0, 2000)):
        x = kind.array(np.full((2, size), value), "float32")
        zeros = kind.array(np.zeros(size), "float32")
        variance = value * value + float(getattr(np.finfo("f4"), counts_as))
        with only(way):
            found = kernels.rms_norm(x, None, eps), kernels.batch_norm(x, zeros, x[0], eps=eps)
            assert (host(kernels.layer_norm(x, None, None, eps)) == 0.0).all()
        for y in found:
            np.testing.assert_allclose(host(y), value / variance**0.5, rtol=1e-6)


def test_no_elements(kind: Kind) -> None:
    for shape in ((0, 4), (3, 0), (0,)):
        x = kind.array(np.zeros(shape), "float32")
        w = kind.array(np.zeros(shape[-1]), "float32")
        assert kernels.rms_norm(x, w, 1e-5).shape == shape
        assert kernels.layer_norm(x, w, w, 1e-5).shape == shape
        pair = kernels.rms_norm(x, w, 1e-5, residual=x)
        assert [type(p) for p in pair] == [type(x)] * 2


@pytest.mark.parametrize("kind", kinds("numpy", "torch", "jax"))
def test_long_rows_sum_as_well_as_short_ones(kind: Kind, monkeypatch: Any) -> None:
    select(monkeypatch, kind)
    x = kind.array(np.abs(sample(1, 300_000)) + 1.0, "float32")
    check(x, kernels.rms_norm(x, None, 0.0), libraries.rms_norm(host(x), 1.0, 0.0), "float32")


@pytest.mark.parametrize(
    "way", ["formula", pytest.param("numba", marks=pytest.mark.backend("numba"))]
)
def test_a_million_that_lie_apart(way: str) -> None:
    """NumPy adds up pair by pair only what lies side by side."""
    x = np.asfortranarray(np.abs(sample(3, 1 << 20)).astype(np.float32))
    with only(way):
        check(x, kernels.rms_norm(x, None, 0.0), libraries.rms_norm(host(x), 1.0, 0.0), "float32")
        mean = kernels.layer_norm(x, None, None, 0.0).mean(axis=1, dtype=np.float64)
        assert (np.abs(mean) < 1e-6).all()
        spread = kernels.layer_norm(x, None, None, 0.0).std(axis=1, dtype=np.float64)
        np.testing.assert_allclose(spread, 1.0, rtol=1e-5)
