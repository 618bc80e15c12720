"""Tiles of products in registers: those of this processor, and those that others get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import required
from tests.kernels.libraries import sample


@pytest.fixture(params=[4, 8, 16])
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lanes of other processors, which this one computes in parts of a register or in several."""
    required("numba")
    from corepy.kernels import _tiles

    monkeypatch.setattr(_tiles, "BYTES", 4 * request.param)
    return int(request.param)


@pytest.mark.parametrize("registers", [16, 32])
def test_products(lanes: int, registers: int) -> None:
    from numba import njit

    from corepy.kernels import _tiles

    rows, vectors, few = _tiles.tiles_of(registers)
    assert rows * vectors + vectors + 1 <= registers
    assert 4 * few + few + 1 <= registers
    product, product_of_four = _tiles.fused(rows, vectors, "zero"), _tiles.fused(4, few, "add")
    scaled = _tiles.fused(rows, vectors, "scale")
    wide, narrow, depth = vectors * lanes, few * lanes, 7

    @njit
    def compute(a: Any, b: Any, c: Any, d: Any, e: Any, w: Any) -> None:
        product(c, 0, wide, a, 0, depth, 1, b, 0, wide, depth, w, 0)
        scaled(d, 0, wide, a, 0, 1, rows, b, 0, wide, depth, w, 0)
        product_of_four(e, 0, narrow, a, 0, depth, 1, b, 0, narrow, depth, w, 0)

    a, b, w, start = (sample(n, dtype="f4") for n in (rows * depth, 64 * lanes, wide, rows * wide))
    c, d, e = np.full(rows * wide, np.nan, "f4"), start.copy(), np.ones(4 * narrow, "f4")
    compute(a, b, c, d, e, w)
    of_wide, of_narrow = (b[: depth * n].reshape(depth, n) for n in (wide, narrow))
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(c.reshape(rows, wide), a.reshape(rows, depth) @ of_wide, **close)
    expected = start.reshape(rows, wide) * w + a.reshape(depth, rows).T @ of_wide
    np.testing.assert_allclose(d.reshape(rows, wide), expected, **close)
    expected = 1 + a[: 4 * depth].reshape(4, depth) @ of_narrow
    np.testing.assert_allclose(e.reshape(4, narrow), expected, **close)


def test_rows_with_rows(lanes: int) -> None:
    from numba import njit

    from corepy.kernels import _tiles

    dots, in_order, flip = _tiles.dots(4), _tiles.dots_in_order, _tiles.flip
    together, depth = max(1, lanes // 4), 2 * lanes

    @njit
    def compute(b: Any, f: Any, g: Any, h: Any) -> None:
        dots(f, 0, together, b, 0, depth, b, 3, depth, depth)
        flip(g, 0, lanes, b, 0, lanes)
        in_order(h, 2, b, 1, b, 5, depth + 1, depth)

    b = sample(lanes * max(lanes, 64), dtype="f4")
    f, g, h = np.zeros(4 * together, "f4"), np.zeros(lanes * lanes, "f4"), np.ones(lanes + 4, "f4")
    compute(b, f, g, h)
    close = {"rtol": 1e-5, "atol": 1e-5}
    left = b[: 8 * lanes].reshape(4, -1)
    right = b[3 : 3 + depth * together].reshape(together, -1)
    np.testing.assert_allclose(f.reshape(4, together), left @ right.T, **close)
    np.testing.assert_array_equal(g.reshape(lanes, lanes), b[: lanes**2].reshape(lanes, lanes).T)
    lines = b[5 : 5 + lanes * (depth + 1)].reshape(lanes, -1)[:, :depth]
    np.testing.assert_allclose(h[2:-2], lines @ b[1 : 1 + depth], **close)
    assert (h[[0, 1, -2, -1]] == 1).all()


@pytest.mark.parametrize("words", ["float16", "bfloat16"])
def test_rows_with_rows_of_words(lanes: int, words: str) -> None:
    from numba import njit

    from corepy._loops._simd import converts_halves
    from corepy.kernels import _tiles

    if words == "float16" and not converts_halves():
        pytest.skip("this processor has no conversions")
    tile, together, depth = _tiles.dots(4, words), max(1, lanes // 4), 3 * lanes

    @njit
    def compute(a: Any, b: Any, c: Any) -> None:
        tile(c, 1, together + 1, a, 2, depth + 1, b, 3, depth + 2, depth)

    a = sample(2 + 4 * (depth + 1), dtype="f4")
    wide = sample(3 + together * (depth + 2), dtype="f4")
    wide[[3, 5]] = 6e-8 if words == "float16" else 1e-40, -0.0  # a subnormal one
    if words == "float16":
        b = wide.astype("f2").view("u2")
        wide = b.view("f2").astype("f4")
    else:
        b = (wide.view("u4") >> 16).astype("u2")
        wide = (b.astype("u4") << 16).view("f4")
    c = np.ones(2 + 4 * (together + 1), "f4")
    compute(a, b, c)
    left = a[2:].reshape(4, -1)[:, :depth]
    right = wide[3:].reshape(together, -1)[:, :depth]
    found = c[1:-1].reshape(4, -1)
    np.testing.assert_allclose(found[:, :-1], left @ right.T, rtol=1e-5, atol=1e-5)
    assert (found[:, -1] == 1).all()


@pytest.mark.parametrize("halves", [False, True])
def test_vectors_with_small_integers(lanes: int, halves: bool) -> None:
    from numba import njit

    from corepy.kernels import _tiles

    rows, groups, step = 4, 3, 2 * lanes
    tile, size, gap = _tiles.weighed(rows, halves=halves), groups * step, groups * step + 1

    @njit
    def compute(a: Any, b: Any, c: Any, s: Any) -> None:
        tile(c, lanes, a, 1, 1 + size, b, 2, gap, s, 1, groups + 1, groups, step)

    rng = np.random.default_rng(lanes)
    words = rng.integers(0, 256, 2 + rows * gap, np.uint8)
    a, s, c = (
        sample(1 + 2 * size, dtype="f4"),
        sample(1 + rows * (groups + 1), dtype="f4"),
        np.ones((rows + 2) * lanes, "f4"),
    )
    b = words if halves else words.view(np.int8)
    compute(a, b, c, s)
    lines = b[2 : 2 + rows * gap].reshape(rows, gap)[:, :size].astype(float)
    scales = s[1:].reshape(rows, -1)[:, :groups].astype(float).repeat(step, axis=1)
    if halves:
        parts = (lines % 16 - 8) * a[1 : 1 + size] + (lines // 16 - 8) * a[1 + size :]
    else:
        parts = lines * a[1 : 1 + size]
    found = c.reshape(rows + 2, lanes)
    np.testing.assert_allclose(found[1:-1].sum(1), (parts * scales).sum(1), rtol=1e-4, atol=1e-2)
    assert (found[[0, -1]] == 1).all()


def test_registers_of_processors() -> None:
    required("numba")
    from corepy.kernels._tiles import registers

    assert registers("+sse2,+avx2,+avx512f,-avx512fp16") == (64, 32)
    assert registers("+sse2,+avx2,-avx512f") == (32, 16)
    assert registers("+sse2,-avx2") == (16, 16)
    assert registers("+neon,+fp-armv8") == (16, 32)
    assert registers("") == (16, 16)
