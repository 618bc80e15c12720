"""Softmax: every axis, scales, all kinds of masks, special values."""

from __future__ import annotations

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.kernels._ways import only
from tests.kernels import libraries
from tests.kernels.libraries import Kind, check, host, kinds, sample, select

WAYS = ["formula", *(pytest.param(b, marks=pytest.mark.backend(b)) for b in ("torch", "numba"))]
SHAPES = [(1,), (6,), (1, 1), (3, 5), (2, 3, 65), (2, 4, 300)]


def test_every_axis(kind: Kind) -> None:
    for dtype in kind.dtypes:
        for shape in kind.some(SHAPES, dtype, slice(3, 4)):
            x = kind.array(3 * sample(*shape), dtype)
            for axis in range(-len(shape), len(shape)):
                check(x, kernels.softmax(x, axis), libraries.softmax(host(x), axis), dtype)


@pytest.mark.parametrize("scale", [0.125, -2.0, 0])
def test_scale(kind: Kind, scale: float) -> None:
    for dtype in kind.dtypes:
        x = kind.array(3 * sample(3, 17), dtype)
        for axis in (0, 1):
            expected = libraries.softmax(host(x), axis, scale)
            check(x, kernels.softmax(x, axis, scale=scale), expected, dtype)


@pytest.mark.parametrize(
    "shape", [(2, 3, 4, 5), (4, 5), (1, 1, 4, 5), (5,), (1,), (), (2, 1, 1, 5), (3, 1, 5), (4, 1)]
)
def test_masks_broadcast(kind: Kind, shape: tuple[int, ...]) -> None:
    mask = np.asarray(np.random.default_rng(len(shape)).random(shape) < 0.6)
    for dtype in kind.dtypes:
        if kind.slow and dtype != "float32":
            continue
        values = np.where(mask, 3 * sample(2, 3, 4, 5), np.nan)
        x, m = kind.array(values, dtype), kind.array(mask)
        for axis in (-1, 1):
            expected = libraries.softmax(host(x), axis, 0.5, mask)
            check(x, kernels.softmax(x, axis, scale=0.5, mask=m), expected, dtype)


def test_causal_mask_and_nothing_kept(kind: Kind) -> None:
    mask = np.tril(np.ones((4, 4), bool), -1)  # the first row keeps nothing
    x = kind.array(3 * sample(2, 4, 4), "float32")
    for axis in (-1, -2):
        out = kernels.softmax(x, axis, mask=kind.array(mask))
        check(x, out, libraries.softmax(host(x), axis, 1.0, mask), "float32")
    assert (host(kernels.softmax(x, -1, mask=kind.array(mask)))[:, 0] == 0).all()
    everything = kind.array(np.zeros((), bool))
    assert (host(kernels.softmax(x, 0, mask=everything)) == 0).all()


def test_what_is_masked_may_be_anything(kind: Kind) -> None:
    values = 3 * sample(4, 6)
    mask = np.ones((4, 6), bool)
    for row, special in enumerate((np.nan, np.inf, -np.inf, 1e30)):
        values[row, row] = special
        mask[row, row] = False
    x, m = kind.array(values, "float32"), kind.array(mask)
    check(x, kernels.softmax(x, -1, mask=m), libraries.softmax(values, -1, 1.0, mask), "float32")
    out = host(kernels.softmax(x, 0, mask=m))
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out.sum(0), 1.0, rtol=1e-6)


def test_what_is_masked_is_zero_beside_anything(kind: Kind) -> None:
    mask = np.ones((4, 70), bool)
    mask[:, [1, 33, 69]] = False
    for special in (np.nan, np.inf, -np.inf):
        values = 3 * sample(4, 70)
        values[0, 0] = special
        values[2] = -np.inf
        spoilt = [0, 2] if special != -np.inf else [2]
        fine = [row for row in range(4) if row not in spoilt]
        for given, taken, axis in ((values, mask, -1), (values.T.copy(), mask.T.copy(), 0)):
            x, m = kind.array(given, "float32"), kind.array(taken)
            found = kernels.softmax(x, axis, scale=0.5, mask=m)
            check(x, found, libraries.softmax(given, axis, 0.5, taken), "float32")
            out = host(found) if axis == -1 else host(found).T
            assert (out[~mask] == 0).all()
            assert np.isnan(out[spoilt][mask[spoilt]]).all()
            np.testing.assert_allclose(out[fine].sum(-1), 1.0, rtol=1e-6)


def test_special_values(kind: Kind) -> None:
    values = np.array(
        [
            [1.0, 2.0, -np.inf],  # weighs nothing
            [-np.inf] * 3,
            [1.0, np.inf, 2.0],
            [np.nan, 1.0, 2.0],
            [1.0, 2.0, np.nan],
            [1.0, -np.nan, np.inf],
            [3e38, 3e38, -3e38],
            [-0.0, 0.0, 0.0],
        ]
    )
    with np.errstate(invalid="ignore"):
        e = np.exp(values[0] - 2.0)
    for dtype in ("float32", "float64"):
        for x, axis in ((kind.array(values, dtype), -1), (kind.array(values.T.copy(), dtype), 0)):
            out = host(kernels.softmax(x, axis))
            out = out if axis == -1 else out.T
            np.testing.assert_allclose(out[0], e / e.sum(), rtol=1e-6)
            assert np.isnan(out[1:6]).all()
            assert out[6].tolist() == [0.5, 0.5, 0.0]
            np.testing.assert_allclose(out[7], 1 / 3, rtol=1e-6)


def test_great_scales(kind: Kind) -> None:
    values = np.array([[1.0, 2.0, 3.0], [1e38, 0.0, -1e38], [5.0, 5.0, -np.inf], [3.0, 3.5, 2.0]])
    for dtype in {"float32", "float64"} & {*kind.dtypes}:
        for scale in (10.0, 1e39, -1e39, 1e300):
            expected = np.zeros((4, 3))
            expected[[0, 1, 3], [2, 0, 1] if scale > 0 else [0, 2, 2]] = 1.0
            # Minus infinity times what is negative is the greatest.
            expected[2] = [0.5, 0.5, 0.0] if scale > 0 else np.nan
            if scale == 10.0:
                expected[[0, 3]] = libraries.softmax(values[[0, 3]], -1, scale)
            for given, axis in ((values, -1), (values.T.copy(), 0)):
                x = kind.array(given, dtype)
                taken = kind.array(np.ones(given.shape, bool))
                for mask in (None, taken):
                    found = kernels.softmax(x, axis, scale=scale, mask=mask)
                    check(x, found, expected if axis == -1 else expected.T, dtype)


def test_small_scales_of_great_elements(kind: Kind) -> None:
    x = kind.array([[3e38, -3e38, 0.0]], "float32")
    expected = libraries.softmax(host(x), -1, 2e-38)
    check(x, kernels.softmax(x, -1, scale=2e-38), expected, "float32")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", kinds("numpy", "torch"))
def test_every_nan_counts(kind: Kind, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    for dtype, words, bits in (
        ("float32", "u4", (0x7FC00000, 0xFFC00001, 0xFFFFFFFF, 0x7F800001, 0xFF923456)),
        ("float64", "u8", (0x7FF8000000000000, 0xFFF8000000000001, 0xFFFFFFFFFFFFFFFF)),
    ):
        for word in bits:
            values = np.zeros((40, 40), dtype)
            values.view(words)[5, 5] = word
            found = host(kernels.softmax(kind.array(values, dtype), axis))
            assert np.isnan(found[:, 5] if axis == 0 else found[5]).all(), hex(word)
            assert np.isfinite(found).sum() == 39 * 40


def test_no_elements(kind: Kind) -> None:
    for shape in ((0, 4), (3, 0)):
        x = kind.array(np.zeros(shape), "float32")
        for axis in (0, 1):
            assert kernels.softmax(x, axis).shape == shape


def test_results_too_small_for_16_bits(kind: Kind) -> None:
    for dtype in {*kind.dtypes} - {"float32", "float64"}:
        x = kind.array([[0.0, -9.0, -12.0, -17.0, -30.0]], dtype)
        check(x, kernels.softmax(x, -1), libraries.softmax(host(x), -1), dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("masked", [False, True])
def test_a_million_along_columns(way: str, masked: bool) -> None:
    """Added up one after the other in float32 the sum loses three digits."""
    x = (sample(1 << 20, 3) / 100).astype(np.float32)
    mask = np.ones((1, 3), bool) if masked else None
    with only(way):
        check(x, kernels.softmax(x, 0, mask=mask), libraries.softmax(host(x), 0), "float32")


@pytest.mark.backend("torch")
def test_a_million_along_columns_of_a_tensor() -> None:
    x = Kind("torch", compiled=True).array(sample(1 << 20, 3) / 100, "float32")
    with only("torch"):
        check(x, kernels.softmax(x, 0), libraries.softmax(host(x), 0), "float32")


@pytest.mark.backend("dask")
def test_a_million_along_columns_of_chunks() -> None:
    import dask.array as da

    x = (sample(1 << 20, 3) / 100).astype(np.float32)
    found = np.asarray(kernels.softmax(da.from_array(x, chunks=-1), 0))
    check(x, found, libraries.softmax(host(x), 0), "float32")


@pytest.mark.backend("mlx")
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_million_along_columns_of_mlx(wrapped: bool) -> None:
    """Which adds up one by one what lies apart: it was off by 6e-3."""
    x = (sample((1 << 20) + 77, 3) / 100).astype(np.float32)
    array = corepy.to(x, backend="mlx")
    found = kernels.softmax(array if wrapped else array.unwrap(), 0)
    assert type(found) is type(array if wrapped else array.unwrap())
    check(x, np.asarray(found), libraries.softmax(host(x), 0), "float32")
    row = kernels.rms_norm(corepy.array_api.permute_dims(array, (1, 0)), None, 0.0)
    check(x.T, np.asarray(row), libraries.rms_norm(host(x.T), 1.0, 0.0), "float32")
