"""Products of 16-bit floats, in compiled loops and by torch: layouts, special values, depth."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.kernels.matrices import _words
from tests.kernels.libraries import BOUNDS, LEAST, Kind, check, host, kinds, sample, select

SHORT = ("float16", "bfloat16")

pytestmark = pytest.mark.backend("numba")
compiled = pytest.mark.parametrize(
    "kind", [k for k in kinds("numpy", "torch", "jax", "array") if "compiled" in k.id]
)
by_torch = pytest.mark.backend("torch")


@pytest.fixture(autouse=True)
def _small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compiled loops compute, however small the arrays are."""
    found = request.node.callspec.params.get("kind") if hasattr(request.node, "callspec") else None
    select(monkeypatch, found or Kind("torch", True))


def short(kind: Kind) -> list[str]:
    return [dtype for dtype in kind.dtypes if dtype in SHORT]


def layouts(kind: Kind, rows: int, columns: int, dtype: str, seed: int) -> list[Any]:
    """Return matrices by rows, by columns, with others between the rows, and spread."""
    found = [kind.array(sample(rows, columns, seed=seed), dtype)]
    if kind.library != "jax":
        found.append(kind.array(sample(columns, rows, seed=seed + 1), dtype).T)
        found.append(kind.array(sample(2 * rows, columns + 3, seed=seed), dtype)[::2, 1:-2])
        found.append(kind.array(sample(rows, 3 * columns, seed=seed), dtype)[:, ::3])
    return found


def ran_in(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    return str(corepy.explain(lambda: call(*args, **options)).records[0].backend)


@compiled
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (1, 70, 5), (2, 3, 4), (9, 33, 33), (33, 70, 9), (40, 257, 35), (259, 20, 263)],
)
def test_layouts(kind: Kind, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    for dtype in short(kind):
        c = kind.array(sample(m, n, seed=9), dtype)
        for a in layouts(kind, m, k, dtype, 0):
            for b in layouts(kind, k, n, dtype, 4):
                left, right = host(a), host(b)
                terms = np.abs(left) @ np.abs(right)
                check(a, kernels.gemm(a, b), left @ right, dtype, terms)
                check(a, kernels.matmul_vec(b.T, a), left @ right, dtype, terms)
                found = kernels.gemm(a, b, alpha=-1.5, beta=0.25, c=c)
                expected = -1.5 * (left @ right) + 0.25 * host(c)
                check(a, found, expected, dtype, 1.5 * terms + 0.25 * np.abs(host(c)))
                one = kernels.gemv(a, b[:, 0], alpha=2.0, beta=0.5, y=c[:, 0])
                expected = 2.0 * left @ right[:, 0] + 0.5 * host(c)[:, 0]
                check(a, one, expected, dtype, 2.0 * terms[:, 0] + np.abs(host(c))[:, 0])


@compiled
def test_empty(kind: Kind) -> None:
    for dtype in short(kind):
        for m, k, n in ((0, 3, 2), (3, 0, 2), (3, 2, 0)):
            a, b = kind.array(np.ones((m, k)), dtype), kind.array(np.ones((k, n)), dtype)
            check(a, kernels.gemm(a, b), np.zeros((m, n)), dtype)
            check(a, kernels.matmul_vec(b.T, a), np.zeros((m, n)), dtype)
        weights, rows = kind.array(np.ones((2, 0)), dtype), kind.array(np.ones((2, 0, 3)), dtype)
        check(weights, kernels.weighted_sum_rows(weights, rows), np.zeros((2, 3)), dtype)


@compiled
@pytest.mark.parametrize(
    "shape", [(2, 6, 2, 3, 5, 4), (1, 4, 4, 1, 40, 33), (2, 4, 1, 1, 3, 16), (1, 40, 1, 2, 9, 8)]
)
def test_scores_and_sums(kind: Kind, shape: tuple[int, ...]) -> None:
    batch, heads, kv_heads, queries, keys, size = shape
    for dtype in short(kind):
        qs = [kind.array(sample(batch, heads, queries, size), dtype)]
        ks = [kind.array(sample(batch, kv_heads, keys, size, seed=1), dtype)]
        if kind.library != "jax":
            q = kind.array(sample(batch, queries, size, heads), dtype)
            k = kind.array(sample(batch, keys, kv_heads, size), dtype)
            order = (0, 3, 1, 2), (0, 2, 1, 3)
            if hasattr(q, "permute"):
                qs, ks = [*qs, q.permute(order[0])], [*ks, k.permute(order[1])]
            elif kind.library == "numpy":
                qs, ks = [*qs, q.transpose(order[0])], [*ks, k.transpose(order[1])]
        for q in qs:
            for k in ks:
                wide = np.repeat(host(k), heads // kv_heads, axis=1).swapaxes(2, 3)
                for scale in (0.5, -3.0, 0.3):
                    expected, terms = host(q) @ wide, np.abs(host(q)) @ np.abs(wide)
                    found = kernels.attention_scores(q, k, scale=scale)
                    check(q, found, scale * expected, dtype, abs(scale) * terms)
        for rows in (ks[0], ks[-1]):
            weights = kind.array(sample(batch, kv_heads, keys, seed=3), dtype)
            expected = np.einsum("bhn,bhnd->bhd", host(weights), host(rows))
            terms = np.einsum("bhn,bhnd->bhd", np.abs(host(weights)), np.abs(host(rows)))
            check(weights, kernels.weighted_sum_rows(weights, rows), expected, dtype, terms)


@compiled
def test_special_values(kind: Kind) -> None:
    """A NaN, an infinity and an infinity times zero spoil their row and column, and no other."""
    for dtype in short(kind):
        for rows in (1, 3, 40):
            for columns in (1, 3, 40):
                a, b = sample(rows, 37), sample(37, columns)
                a[0, 5], b[5, 0] = np.inf, 0.0
                if rows > 1:
                    a[1, 36] = np.nan
                if rows > 2:
                    a[2, 20] = -np.inf
                x, y = kind.array(a, dtype), kind.array(b, dtype)
                with np.errstate(all="ignore"):
                    expected = host(x) @ host(y)
                    terms = np.abs(host(x)) @ np.abs(host(y))
                turned = kind.array(np.ascontiguousarray(b.T), dtype)
                check(x, kernels.gemm(x, y), expected, dtype, terms)
                check(x, kernels.matmul_vec(turned, x), expected, dtype, terms)


@compiled
def test_overflow(kind: Kind) -> None:
    """Results beyond the dtype are infinite, and sums beyond it are not, if `alpha` lowers them."""
    for dtype in short(kind):
        top = 60000.0 if dtype == "float16" else 1e38
        for rows, columns in ((1, 1), (1, 40), (3, 3), (40, 40)):
            a, b = np.full((rows, 5), top), np.ones((5, columns))
            x, y = kind.array(a, dtype), kind.array(b, dtype)
            assert (host(kernels.gemm(x, y)) == np.inf).all()
            x = kind.array(a / 2.0, dtype)
            found = kernels.gemm(x, y, alpha=-0.125)
            check(x, found, -0.125 * (host(x) @ host(y)), dtype)


@compiled
@pytest.mark.parametrize("vectors", [1, 3, 7, 35])
def test_large_ones_in_threads(kind: Kind, vectors: int) -> None:
    for dtype in short(kind):
        x = kind.array(sample(vectors, 1031), dtype)
        matrix = kind.array(sample(1025, 1031, seed=1), dtype)
        other = kind.array(sample(1031, 1025, seed=2), dtype)
        for m in (matrix, other.T):
            terms = np.abs(host(x)) @ np.abs(host(m)).T
            check(x, kernels.matmul_vec(m, x), host(x) @ host(m).T, dtype, terms)


@compiled
def test_subnormal_numbers(kind: Kind) -> None:
    """Those of float16, and of bfloat16 times large ones, are numbers like others."""
    for dtype in short(kind):
        tiny, large = (3e-7, 2048.0) if dtype == "float16" else (5e-40, 2.0**100)
        for rows, columns in ((1, 1), (1, 50), (4, 9), (150, 140)):
            for small in (True, False):
                a, b = sample(rows, 150), np.full((150, columns), large)
                a *= tiny
                x, y = kind.array(a, dtype), kind.array(b, dtype)
                x, y = (x, y) if small else (y.T, x.T)
                assert np.abs(host(x if small else y)).max() > 0
                expected, terms = host(x) @ host(y), np.abs(host(x)) @ np.abs(host(y))
                check(x, kernels.gemm(x, y), expected, dtype, terms)
                check(x, kernels.matmul_vec(y.T, x), expected, dtype, terms)


@compiled
@pytest.mark.parametrize("rows", [1, 4, 40])
def test_depth(kind: Kind, rows: int) -> None:
    """Sums of 300,000 terms of one sign are as exact as the bounds want them."""
    depth = 300_000 if rows == 1 else 60_000
    for dtype in short(kind):
        a = np.random.default_rng(0).random((rows, depth)) * (0.1 if dtype == "float16" else 1.0)
        b = np.random.default_rng(1).random((depth, 3)) + 0.1
        x, y = kind.array(a, dtype), kind.array(b, dtype)
        columns = kind.array(np.ascontiguousarray(b.T), dtype)
        expected = host(x) @ host(y)
        check(x, kernels.gemm(x, y), expected, dtype)
        check(x, kernels.matmul_vec(columns, x), expected, dtype)


@pytest.mark.parametrize("columns", [2, 4])
def test_few_columns_are_added_up_by_columns(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops along rows of two elements took ten times as long."""
    kind = Kind("numpy", True)
    monkeypatch.setattr(_words, "sums", None)  # which would add up rows
    a, b = kind.array(sample(1 << 13, 3), "float16").T, sample(2, 1 << 13, columns)
    wide, rows = host(a), kind.array(b, "float16")
    terms = np.abs(wide) @ np.abs(host(rows[0]))
    check(a, kernels.gemm(a, rows[0]), wide @ host(rows[0]), "float16", terms)
    weights = kind.array(sample(2, 1 << 13), "float16")
    expected = np.einsum("bn,bnd->bd", host(weights), host(rows))
    terms = np.einsum("bn,bnd->bd", np.abs(host(weights)), np.abs(host(rows)))
    check(weights, kernels.weighted_sum_rows(weights, rows), expected, "float16", terms)


def test_few_rows_that_lie_apart_are_copied_alone() -> None:
    """Without a list of where their elements are, which takes eight times their memory."""
    kind = Kind("numpy", True)
    apart = kind.array(sample(1 << 16, 4), "float16").T
    b = kind.array(sample(1 << 16, 2), "float16")
    kernels.gemm(apart, b)  # which is compiled now
    tracemalloc.start()
    try:
        found = kernels.gemm(apart, b)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * (apart.nbytes + b.nbytes)
    terms = np.abs(host(apart)) @ np.abs(host(b))
    check(apart, found, host(apart) @ host(b), "float16", terms)


# ---------------------------------------------------------------------------- torch's own product


def has_instruction() -> bool:
    from corepy.kernels.matrices import _brain

    return _brain._has_instruction()


@by_torch
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(130, 150, 140), (40, 1030, 60), (11, 520, 1031)])
def test_torch_multiplies_bfloat16(shape: tuple[int, int, int], turned: bool) -> None:
    kind = Kind("torch", True)
    m, k, n = shape
    a, b = kind.array(sample(m, k), "bfloat16"), kind.array(sample(k, n), "bfloat16")
    b = kind.array(sample(n, k), "bfloat16").T if turned else b
    terms = np.abs(host(a)) @ np.abs(host(b))
    check(a, kernels.gemm(a, b), host(a) @ host(b), "bfloat16", terms)
    assert ran_in(kernels.gemm, a, b) == ("torch" if has_instruction() else "numba")
    assert ran_in(kernels.gemm, a, b, alpha=0.5) == "numba"
    out = kind.array(np.zeros((m, n)), "bfloat16")
    assert kernels.gemm(a, b, out=out) is out
    check(a, out, host(a) @ host(b), "bfloat16", terms)
    with corepy.reproducible(True):
        assert ran_in(kernels.gemm, a, b) == "numba"


@by_torch
def test_torch_computes_scores_of_bfloat16() -> None:
    kind = Kind("torch", True)
    q = kind.array(sample(2, 6, 40, 64), "bfloat16")
    k = kind.array(sample(2, 2, 100, 64, seed=1), "bfloat16")
    wide = np.repeat(host(k), 3, axis=1).swapaxes(2, 3)
    for scale, other in ((0.125, "torch"), (0.3, "numba"), (2.0, "numba"), (-0.5, "numba")):
        found = kernels.attention_scores(q, k, scale=scale)
        terms = abs(scale) * np.abs(host(q)) @ np.abs(wide)
        check(q, found, scale * host(q) @ wide, "bfloat16", terms)
        expected = other if has_instruction() else "numba"
        assert ran_in(kernels.attention_scores, q, k, scale=scale) == expected


@by_torch
def test_torch_gets_what_it_multiplies_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that lie apart as one matrix, and each head of keys in one piece."""
    import torch

    from corepy.kernels.matrices import _brain

    kind, given = Kind("torch", True), []

    def matmul(a: Any, b: Any, product: Any = torch.matmul) -> Any:
        given.append((a, b))
        return product(a, b)

    monkeypatch.setattr(torch, "matmul", matmul)
    monkeypatch.setattr(_brain, "_has_instruction", lambda: True)
    x = kind.array(sample(4, 33, 150), "bfloat16").permute(1, 0, 2)
    matrix = kind.array(sample(140, 150), "bfloat16")
    terms = np.abs(host(x)) @ np.abs(host(matrix)).T
    check(x, kernels.matmul_vec(matrix, x), host(x) @ host(matrix).T, "bfloat16", terms)
    assert [tuple(a.shape) for a, _ in given] == [(132, 150)]
    q = kind.array(sample(2, 4, 40, 64), "bfloat16")
    by_heads = kind.array(sample(2, 4, 120, 64, seed=1), "bfloat16")
    by_keys = kind.array(sample(2, 120, 4, 64, seed=2), "bfloat16").permute(0, 2, 1, 3)
    turned = kind.array(sample(2, 4, 64, 120, seed=3), "bfloat16").mT
    for k in (by_heads, by_keys, by_heads[:, :, :110], by_heads[:, :1].expand(2, 4, 120, 64)):
        given.clear()
        wide = host(k).swapaxes(2, 3)
        terms = 0.125 * np.abs(host(q)) @ np.abs(wide)
        check(q, kernels.attention_scores(q, k), 0.125 * host(q) @ wide, "bfloat16", terms)
        assert [b.mT.is_contiguous() for _, b in given] == [True]
    given.clear()
    kernels.attention_scores(q, turned)
    assert given[0][1].data_ptr() == turned.data_ptr()


@by_torch
def test_only_few_words_between_others_are_looked_at() -> None:
    from corepy.kernels._arguments import floating
    from corepy.kernels.matrices import _brain

    memory = Kind("torch", True).array(sample(50, 400), "bfloat16")
    for part, looked_at in ((memory[:, :300], 19_900), (memory[:, :16], 800), (memory.T, 20_000)):
        assert _brain._words_of(floating("gemm", "a", part)).size == looked_at


@by_torch
@pytest.mark.parametrize("least", [2.0**-133, 2.0**-125, 2.0**-100])
def test_scores_of_numbers_that_scaling_would_lose(least: float) -> None:
    kind = Kind("torch", True)
    values = sample(1, 2, 100, 64)
    values[0, :, ::2, ::3] = least
    values[0, :, 3] = least
    q = kind.array(values, "bfloat16")
    k = kind.array(sample(1, 2, 200, 64, seed=1) * 2.0**110, "bfloat16")
    wide = host(k).swapaxes(2, 3)
    terms = 0.0625 * np.abs(host(q)) @ np.abs(wide)
    found = kernels.attention_scores(q, k, scale=0.0625)
    check(q, found, 0.0625 * host(q) @ wide, "bfloat16", terms)
    exact = least == 2.0**-100 and has_instruction()
    ran = ran_in(kernels.attention_scores, q, k, scale=0.0625)
    assert ran == ("torch" if exact else "numba")


def extremes(rng: np.random.Generator, low: int, high: int, *shape: int) -> Any:
    """Draw numbers of all magnitudes between two powers of two, some of them zero."""
    found = rng.standard_normal(shape) * 2.0 ** rng.integers(low, high, shape)
    return np.where(rng.random(shape) < 0.1, 0.0, found)


@by_torch
@pytest.mark.parametrize("seed", range(12))
def test_what_counts_as_zero_changes_no_result(seed: int) -> None:
    """However small numbers, their products and sums are, and whichever way is taken."""
    kind, rng = Kind("torch", True), np.random.default_rng(seed)
    low, high = ((-133, -120), (-70, -55), (-3, 3), (-133, 3))[seed % 4]
    other = ((90, 120), (-70, -55), (-3, 3), (-133, -120))[(seed + seed // 4) % 4]
    m, k, n = 130, 131, 140
    a = kind.array(extremes(rng, low, high, m, k), "bfloat16")
    b = kind.array(extremes(rng, *other, k, n), "bfloat16")
    left, right = host(a), host(b)
    found, terms = host(kernels.gemm(a, b)), np.abs(left) @ np.abs(right)
    error = np.abs(found - left @ right)
    # Sums in float32 are off by its least number each time, as by anybody.
    assert (error <= BOUNDS["bfloat16"] * terms + k * 2.0**-149 + 2.0**-133).all()


@by_torch
@pytest.mark.parametrize("where", ["a", "b", "products", "zeros"])
def test_torch_is_asked_only_where_it_is_exact(where: str) -> None:
    kind = Kind("torch", True)
    a, b = sample(140, 150), sample(150, 145)
    match where:
        case "a":
            a *= 1e-39
            b *= 1e30
        case "b":
            a *= 1e30
            b *= 1e-39
        case "products":
            a *= 1e-19
            b *= 1e-20
        case "zeros":
            a[3], b[:, 7] = 0.0, 0.0
    x, y = kind.array(a, "bfloat16"), kind.array(b, "bfloat16")
    found = kernels.gemm(x, y)
    terms = np.abs(host(x)) @ np.abs(host(y))
    error = np.abs(host(found) - host(x) @ host(y))
    assert (error <= BOUNDS["bfloat16"] * terms + 2.0**-133).all()
    exact = where == "zeros" and has_instruction()
    assert ran_in(kernels.gemm, x, y) == ("torch" if exact else "numba")


@by_torch
def test_infinity_times_what_counts_as_zero() -> None:
    kind = Kind("torch", True)
    for swapped in (False, True):
        a, b = np.ones((140, 150)), np.ones((150, 150))
        a[0, 0], b[0, :] = np.inf, 1e-39
        x, y = kind.array(a, "bfloat16"), kind.array(b, "bfloat16")
        found = host(kernels.gemm(y.T, x.T) if swapped else kernels.gemm(x, y))
        found = found.T if swapped else found
        assert (found[0] == np.inf).all()
        np.testing.assert_allclose(found[1:], 149.0, rtol=BOUNDS["bfloat16"])


def test_extents() -> None:
    from corepy.kernels.matrices import _brain

    ends = np.empty(3, np.int32)
    for words, expected in (
        ([0x3F80, 0xC000, 0x0001], [0x4000, 1, 1]),
        ([0x8000, 0x3F80, 0x0000], [0x3F80, 0, 0x3F80]),
        ([0x0000, 0x8000], [0, 0, 0x8000]),
        ([0x7FC0, 0xFF80, 0x0080], [0x7FC0, 0x80, 0x80]),
    ):
        _brain._extent(np.asarray(words * 37, np.uint16), ends)
        assert ends.tolist() == expected
    assert LEAST["bfloat16"] > 2.0**-126
