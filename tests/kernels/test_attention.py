"""Attention: heads that share keys, everything that hides a key, lengths, special values."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from corepy import kernels
from corepy.kernels._ways import only
from tests.conftest import required
from tests.kernels.libraries import BOUNDS, DEVICES, Kind, check, host, kinds, sample, select
from tests.sharing import share, work_alone


def expected_of(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    causal_align: str = "bottom-right",
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    window: Any = None,
    lengths: Any = None,
    query_lengths: Any = None,
) -> tuple[Any, Any, Any]:
    """Return attention, the size of its terms and its lse, one query after the other."""
    batch, heads, queries, size = q.shape
    group, keys = heads // k.shape[1], k.shape[2]
    scale = 1 / math.sqrt(size) if scale is None else scale
    left, right = window if isinstance(window, tuple) else (window, window)
    target = (batch, heads, queries, keys)
    mask = np.broadcast_to(True if mask is None else mask, target)
    bias = np.broadcast_to(0.0 if bias is None else bias, target)
    out, terms, lse = np.zeros(q.shape), np.zeros(q.shape), np.full(q.shape[:3], -np.inf)
    for b, h, i in np.ndindex(*q.shape[:3]):
        length = keys if lengths is None else lengths[b]
        last = queries if query_lengths is None else query_lengths[b]
        place = i if causal_align == "top-left" else i - last + length
        seen = [
            j
            for j in range(length)
            if i < last
            and mask[b, h, i, j]
            and not (causal and j > place)
            and not (left is not None and j < place - left)
            and not (right is not None and j > place + right)
            and bias[b, h, i, j] != -np.inf
        ]
        if not seen:
            continue
        with np.errstate(invalid="ignore"):
            scores = scale * (k[b, h // group, seen] @ q[b, h, i]) + bias[b, h, i, seen]
            weights = np.exp(scores - scores.max())
            share = weights / weights.sum()
            out[b, h, i] = share @ v[b, h // group, seen]
            terms[b, h, i] = share @ np.abs(v[b, h // group, seen])
            lse[b, h, i] = scores.max() + np.log(weights.sum())
    return out, terms, lse


def compare(kind: Kind, dtype: str, q: Any, k: Any, v: Any, **options: Any) -> None:
    """Hold attention to what is expected, by the library's own arrays."""
    arrays = [kind.array(x, dtype) for x in (q, k, v)]
    given = {
        name: kind.array(value) if isinstance(value, np.ndarray) else value
        for name, value in options.items()
    }
    if "bias" in given:
        given["bias"] = kind.array(options["bias"], dtype)
        options["bias"] = host(given["bias"])
    out, terms, lse = expected_of(*map(host, arrays), **options)
    found, sums = kernels.attention(*arrays, return_lse=True, **given)
    check(arrays[0], found, out, dtype, terms * (2 if dtype == "float32" else 1))
    assert type(sums) is type(found)
    np.testing.assert_allclose(host(sums), lse, rtol=1e-5, atol=1e-5)


#: The sizes of which a device's kernels are built in other dtypes than float32.
BUILT = {"float64": (64, 256), "float16": (17, 64, 80), "bfloat16": (64, 129)}


@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "queries", "keys", "size"),
    [
        (1, 1, 1, 1, 1, 1),
        (2, 4, 2, 3, 5, 8),
        (1, 8, 1, 1, 300, 64),  # decoding: rows
        (2, 3, 3, 1, 140, 65),
        (1, 6, 2, 40, 70, 80),  # panels
        (1, 2, 2, 130, 65, 129),
        (1, 4, 4, 33, 64, 256),
        (1, 5, 1, 7, 9, 31),
        (1, 2, 1, 1, 2100, 17),  # several chunks
        (1, 2, 2, 1, 1100, 33),  # and blocks, of one query each
    ],
)
def test_shapes(
    kind: Kind, batch: int, heads: int, kv_heads: int, queries: int, keys: int, size: int
) -> None:
    if kind.slow and queries * keys * size > 200:
        return
    q = sample(batch, heads, queries, size)
    k, v = sample(batch, kv_heads, keys, size, seed=1), sample(batch, kv_heads, keys, size, seed=2)
    for dtype in kind.dtypes:
        if kind.library not in DEVICES or dtype == "float32" or size in BUILT[dtype]:
            compare(kind, dtype, q, k, v)


HIDDEN: list[dict[str, Any]] = [
    {"causal": True},
    {"causal": True, "causal_align": "top-left"},
    {"window": 2},
    {"window": (1, None), "causal_align": "top-left"},
    {"window": (None, 0)},
    {"window": (3, 1), "causal": True},
    {"mask": np.asarray(sample(2, 4, 6, 9) > 0)},
    {"mask": np.asarray(sample(6, 1) > 0)},
    {"mask": np.asarray(sample(2, 1, 1, 9) > 0), "causal": True},
    {"bias": sample(2, 4, 6, 9)},
    {"bias": np.where(sample(4, 1, 9) > 0, sample(4, 1, 9), -np.inf), "scale": 0.3},
    {"lengths": np.asarray([9, 4])},
    {"lengths": np.asarray([0, 7], np.int32), "causal": True},
    {"lengths": np.asarray([3, 9]), "query_lengths": np.asarray([2, 6]), "causal": True},
    {"query_lengths": np.asarray([0, 5]), "window": (2, 0)},
    {"scale": -2.0},
    {"scale": 0},
    {"window": 2**31 - 1},
    {"window": (2**63, 1), "causal_align": "top-left"},
]


@pytest.mark.parametrize("number", range(len(HIDDEN)), ids=["-".join(o) for o in HIDDEN])
def test_what_hides_keys(kind: Kind, number: int) -> None:
    options = HIDDEN[number]
    if kind.slow and number % 3:
        return
    dtypes = ("float32",) if kind.slow or kind.library == "jax" else kind.dtypes
    dtypes = ("float32", "float16") if kind.library in DEVICES else dtypes
    q, k, v = sample(2, 4, 6, 5), sample(2, 2, 9, 5, seed=1), sample(2, 2, 9, 5, seed=2)
    for dtype in dtypes:
        compare(kind, dtype, q, k, v, **options)
    if not kind.slow:  # the same by panels
        compare(kind, "float32", *(np.tile(x, (1, 3, 1, 1)) for x in (q, k, v)), **_tiled(options))
        more = np.tile(q, (1, 5, 1, 1))
        compare(kind, "float32", more, k, v, **_tiled(options, 5))


def _tiled(options: dict[str, Any], times: int = 3) -> dict[str, Any]:
    """Return options for more heads."""

    def tiled(value: Any) -> Any:
        heads = isinstance(value, np.ndarray) and value.ndim >= 3 and value.shape[-3] == 4
        return np.tile(value, (times, 1, 1)) if heads else value

    return {name: tiled(value) for name, value in options.items()}


@pytest.mark.backend("numba")
@pytest.mark.parametrize(("held", "keys"), [(0, 256), (1 << 25, 512)])
def test_memory_that_no_cache_holds_is_asked_for_ahead(
    held: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = import_module("corepy.kernels.attention.numba")
    kind = Kind("numpy", True)
    select(monkeypatch, kind)
    monkeypatch.setattr(compiled, "HELD", held)
    taken = []

    def seen(*arguments: Any) -> int:
        taken.append(block_of(*arguments))
        return taken[-1]

    block_of = compiled.block_of
    monkeypatch.setattr(compiled, "block_of", seen)
    k, v = (sample(1, 2, 700, 64, seed=s) for s in (1, 2))
    compare(kind, "float32", sample(1, 8, 1, 64), k, v)
    compare(kind, "float32", sample(1, 2, 1, 64), k, v)
    compare(kind, "float16", sample(1, 2, 1, 64), k, v)
    assert taken == [keys, 512, 128]


@pytest.mark.parametrize("kind", kinds("numpy", "torch"))
@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 1100), (2, 200), (2, 1100), (150, 200), (200, 150), (70, 70)]
)
def test_long_causal(kind: Kind, queries: int, keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are seen in whole, in part, or not at all."""
    select(monkeypatch, kind)
    q, k, v = sample(1, 2, queries, 16), *(sample(1, 1, keys, 16, seed=s) for s in (1, 2))
    for options in ({}, {"window": (65, 3)}, {"causal_align": "top-left"}):
        compare(kind, "float32", q, k, v, causal="window" not in options, **options)


def test_nothing_seen_is_zero(kind: Kind) -> None:
    q, k, v = (kind.array(sample(1, 1, 3, 4, seed=s), "float32") for s in range(3))
    mask = np.ones((3, 3), bool)
    mask[1] = False
    out, lse = kernels.attention(q, k, v, mask=kind.array(mask), return_lse=True)
    assert (host(out)[0, 0, 1] == 0).all()
    assert (host(lse)[0, 0] == -np.inf).tolist() == [False, True, False]
    long = kind.array(sample(1, 1, 40, 4), "float32")
    out = host(kernels.attention(long, k, v, causal=True))  # 37 queries before the first key
    assert (out[0, 0, :37] == 0).all()
    assert (out[0, 0, 37:] != 0).all()


def test_special_values(kind: Kind) -> None:
    q = np.ones((1, 1, 3, 2))
    k, v = np.zeros((1, 1, 4, 2)), sample(1, 1, 4, 2)
    for queries in (q, np.ones((1, 1, 40, 2)))[: 1 if kind.slow else 2]:
        for special in (np.nan, np.inf):
            k[0, 0, 1] = special
            out = kernels.attention(*(kind.array(x, "float32") for x in (queries, k, v)))
            assert np.isnan(host(out)).all()
            for hides in (
                {"mask": kind.array(np.asarray([True, False, True, True]))},
                {"bias": kind.array(np.asarray([0.0, -np.inf, 0.0, 0.0]), "float32")},
            ):
                out = kernels.attention(
                    *(kind.array(x, "float32") for x in (queries, k, v)), **hides
                )
                expected = np.broadcast_to(v[0, 0, [0, 2, 3]].mean(0), queries.shape)
                np.testing.assert_allclose(host(out), expected, rtol=1e-5)
        k[0, 0, 1] = -np.inf  # weighs nothing
        out = kernels.attention(*(kind.array(x, "float32") for x in (queries, k, v)))
        expected = np.broadcast_to(v[0, 0, [0, 2, 3]].mean(0), queries.shape)
        np.testing.assert_allclose(host(out), expected, rtol=1e-5)


def test_great_scores_do_not_overflow(kind: Kind) -> None:
    k, v = np.asarray([1e4, -1e4, 0.0, 5e3]).reshape(1, 1, 4, 1), sample(1, 1, 4, 1)
    for queries in (2, 40)[: 1 if kind.slow else 2]:
        q = np.full((1, 1, queries, 1), 1e4)
        compare(kind, "float32", q, k, v)
        compare(kind, "float32", -q, k[:, :, ::-1].copy(), v)


@pytest.mark.parametrize("queries", [1, 20])
@pytest.mark.parametrize("kind", kinds("numpy")[1::2])  # compiled
def test_places_beyond_32_bits(kind: Kind, queries: int) -> None:
    """Of more than 2**31 keys, all in the memory of one, a window is seen."""
    q = kind.array(np.ones((1, 1, queries, 8)), "float32")
    k = np.broadcast_to(np.ones(8, np.float32), (1, 1, (1 << 31) + 9, 8))
    v = np.broadcast_to(np.full(8, 3, np.float32), k.shape)
    assert (host(kernels.attention(q, k, v, causal=True, window=4)) == 3).all()


def test_the_formula_counts_places_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are as many: here its operands are looked at, for which memory is too small."""
    select(monkeypatch, Kind("numpy", False))
    problem = import_module("corepy.kernels.attention._problem")
    taken: list[Any] = []

    def take(_: Any, __: Any, operands: Any, *___: Any, **____: Any) -> None:
        taken.extend(operands)

    monkeypatch.setattr(np, "arange", lambda count, dtype: np.zeros(1, dtype))
    monkeypatch.setattr(problem, "by_reference", take)
    q = np.ones((1, 1, 1, 8), np.float32)
    for keys, dtype in ((9, "int32"), (1 << 30, "int64")):
        k = np.broadcast_to(np.ones(8, np.float32), (1, 1, keys, 8))
        kernels.attention(q, k, k, window=4)
        i, j = (x for x in taken if x is not None and x.argument in ("i", "j"))
        assert i.dtype == j.dtype == dtype
        taken.clear()


@pytest.mark.parametrize("queries", [1, 3, 20])
@pytest.mark.parametrize("kind", kinds("numpy")[1::2])  # compiled
def test_many_keys_weigh_as_exactly_as_few(kind: Kind, queries: int) -> None:
    q, k = (kind.array(np.full((1, 1, n, 64), 0.1), "float32") for n in (queries, 60_000))
    v = kind.array(np.full((1, 1, 60_000, 64), 0.1), "float32")
    with only("numba"):
        out = kernels.attention(q, k, v)
    np.testing.assert_allclose(host(out), float(np.float32(0.1)), rtol=1e-5)


@pytest.mark.parametrize("keys", [4096, 60_000])
@pytest.mark.parametrize("kind", kinds("numpy")[1::2])  # compiled
def test_equal_weights_of_many_keys_add_up(kind: Kind, keys: int) -> None:
    """Sums of so many that round the same way were off by 5e-5 and 4e-4."""
    q, v = np.full((1, 1, 20, 8), 0.3), kind.array(np.full((1, 1, keys, 8), 1 / 3), "float32")
    k = np.zeros((1, 1, keys, 8))
    k[0, 0, 0] = 1.0  # above all others, whose weights are less than 1 then
    with only("numba"):
        out, lse = kernels.attention(
            kind.array(q, "float32"), kind.array(k, "float32"), v, return_lse=True
        )
    np.testing.assert_allclose(host(out), float(np.float32(1 / 3)), rtol=2e-5)
    expected = np.log(np.exp(0.3 * 8**0.5) + keys - 1)
    np.testing.assert_allclose(host(lse), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("scale", [1e39, -1e39])
def test_scales_beyond_the_dtype(kind: Kind, scale: float) -> None:
    """They are not infinite, which would give NaN beside zeros."""
    q, k = kind.array(np.zeros((1, 1, 4, 32)), "float32"), sample(1, 1, 40, 32)
    keys = kind.array(k, "float32")
    found = kernels.attention(q, keys, keys, scale=scale)
    np.testing.assert_allclose(host(found)[0, 0], [k[0, 0].mean(0)] * 4, rtol=1e-5, atol=1e-6)
    cache = kernels.PagedKVCache(1, 1, 5, 8, 32, like=q)
    cache.append(keys, keys)
    np.testing.assert_allclose(
        host(cache.attend(q, scale=scale, causal=False)), host(found), atol=1e-6
    )


def test_beyond_the_lengths_may_be_anything(kind: Kind) -> None:
    q, k, v = (sample(2, 1, 5, 4, seed=s) for s in range(3))
    lengths = np.asarray([2, 4])
    for queries in (q, np.tile(q, (1, 1, 8, 1)))[: 1 if kind.slow else 2]:
        out = kernels.attention(
            *(kind.array(x, "float32") for x in (queries, k, v)), lengths=kind.array(lengths)
        )
        for b, n in enumerate(lengths):
            k[b, :, n:], v[b, :, n:] = np.nan, np.inf
        again = kernels.attention(
            *(kind.array(x, "float32") for x in (queries, k, v)), lengths=kind.array(lengths)
        )
        np.testing.assert_array_equal(host(again), host(out))
        k, v = (sample(2, 1, 5, 4, seed=s) for s in (1, 2))


@pytest.mark.parametrize("anything", [np.nan, np.inf])
@pytest.mark.parametrize(
    "library", [pytest.param(n, marks=pytest.mark.backend(n)) for n in ("torch", "jax")]
)
def test_beyond_the_lengths_nothing_reaches_gradients(library: str, anything: float) -> None:
    arrays = [sample(2, 1, 5, 4, seed=s, dtype="f4") for s in range(3)]
    expected = slopes(library, arrays)
    for b, (keys, queries) in enumerate(zip(*COUNTS, strict=True)):
        arrays[0][b, :, queries:] = anything
        for x in arrays[1:]:
            x[b, :, keys:] = anything
    for slope, other in zip(slopes(library, arrays), expected, strict=True):
        np.testing.assert_array_equal(slope, other)


#: Keys and queries of two sequences.
COUNTS = np.asarray([2, 4]), np.asarray([3, 5])


def slopes(library: str, arrays: list[Any]) -> list[Any]:
    """Return the gradients of the sum of the squares of attention, causal and of `COUNTS`."""
    if library == "jax":
        import jax
        import jax.numpy as jnp

        keys, queries = map(jnp.asarray, COUNTS)
    else:
        import torch

        keys, queries = map(torch.from_numpy, COUNTS)

    def squares(q: Any, k: Any, v: Any) -> Any:
        y = kernels.attention(q, k, v, causal=True, lengths=keys, query_lengths=queries)
        return (y * y).sum()

    if library == "jax":
        found: list[Any] = list(jax.grad(squares, (0, 1, 2))(*map(jnp.asarray, arrays)))
        return found
    leaves = [torch.from_numpy(x.copy()).requires_grad_() for x in arrays]
    squares(*leaves).backward()
    return [leaf.grad for leaf in leaves]


@pytest.mark.parametrize(
    ("q", "k"),
    [
        ((0, 2, 3, 4), (0, 1, 5, 4)),
        ((1, 0, 3, 4), (1, 0, 5, 4)),
        ((1, 2, 0, 4), (1, 2, 5, 4)),
        ((1, 2, 3, 4), (1, 2, 0, 4)),
    ],
)
def test_no_elements(kind: Kind, q: tuple[int, ...], k: tuple[int, ...]) -> None:
    arrays = [kind.array(np.ones(shape), "float32") for shape in (q, k, k)]
    out, lse = kernels.attention(*arrays, return_lse=True)
    assert tuple(out.shape) == q
    assert tuple(lse.shape) == q[:3]
    assert (host(out) == 0).all()
    assert (host(lse) == -np.inf).all()
    assert tuple(kernels.attention(*arrays).shape) == q


@pytest.mark.parametrize("kind", kinds("numpy", "torch"))
def test_layouts(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of a cache, heads beside each other in a row, keys backwards."""
    select(monkeypatch, kind)
    q, k, v = (kind.array(sample(2, 20, 3, 16, seed=s), "float32") for s in range(3))
    heads_last = [x.swapaxes(1, 2) for x in (q, k, v)]  # (batch, length, heads, size)
    out = kernels.attention(*heads_last, causal=True)
    arrays = [host(x).swapaxes(1, 2).copy() for x in (q, k, v)]
    expected, terms, _ = expected_of(*arrays, causal=True)
    check(heads_last[0], out, expected, "float32", 2 * terms)
    part = [x[:, 2:4, :2, 1::3] for x in (q, k, v)]
    expected, terms, _ = expected_of(*(host(x).copy() for x in part))
    check(q, kernels.attention(*part), expected, "float32", 2 * terms)
    if kind.library == "numpy":
        back = [x[:, :, ::-1] for x in (q, k, v)]
        expected, terms, _ = expected_of(*map(host, back))
        check(q, kernels.attention(*back), expected, "float32", 2 * terms)
        mask = np.asarray(sample(20, 3, 3) > 0)[::-1].swapaxes(1, 2)
        expected, terms, _ = expected_of(*map(host, back), mask=mask)
        check(q, kernels.attention(*back, mask=mask), expected, "float32", 2 * terms)


# ---------------------------------------------------------------------------- out, threads, traces


@pytest.mark.parametrize("kind", kinds("numpy", "torch", "array"))
@pytest.mark.parametrize("length", [3, 40])
def test_out(kind: Kind, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    for dtype in ("float32", "float64"):
        x = kind.array(sample(1, 2, length, 8), dtype)
        out = kind.array(np.zeros((1, 2, length, 8)), dtype)
        expected = host(kernels.attention(x, x, x, causal=True))
        found, _ = kernels.attention(x, x, x, causal=True, out=out, return_lse=True)
        assert found is out
        np.testing.assert_array_equal(host(out), expected)
        assert kernels.attention(x, x, x, causal=True, out=x) is x  # what is read is written
        np.testing.assert_array_equal(host(x), expected)


@pytest.mark.parametrize("kind", kinds("numpy"))
def test_out_that_is_no_block(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    x = sample(2, 3, 9, 8, dtype="f4")
    out = np.zeros((2, 9, 3, 8), "f4").swapaxes(1, 2)
    assert kernels.attention(x, x, x, out=out) is out
    np.testing.assert_array_equal(out, kernels.attention(x, x, x))
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(kernels.attention(frozen, frozen, frozen), out)


def test_threads_share_the_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    required("numba")
    select(monkeypatch, Kind("numpy", compiled=True))
    for shape in ((1, 4, 300, 16), (2, 3, 2, 16)):
        q, k = sample(*shape, dtype="f4"), sample(*shape[:2], 2500, 16, seed=1, dtype="f4")
        with monkeypatch.context() as patch:
            work_alone(patch)
            alone = kernels.attention(q, k, k, causal=True)
        with monkeypatch.context() as patch:
            asked = share(patch)
            for _ in range(5):
                np.testing.assert_array_equal(kernels.attention(q, k, k, causal=True), alone)
        assert len(asked) >= 5


@pytest.mark.backend("torch")
def test_gradients_pass_through_torch() -> None:
    import torch

    q, k, v = (torch.from_numpy(sample(1, 2, 3, 4, seed=s)).requires_grad_() for s in range(3))
    mask = torch.from_numpy(np.tril(np.ones((3, 3), bool), -1))  # the first query sees nothing

    def function(q: Any, k: Any, v: Any) -> Any:
        return kernels.attention(q, k[:, :1], v[:, :1], mask=mask, return_lse=False)

    assert torch.autograd.gradcheck(function, (q, k, v))
    lse = kernels.attention(q, k, v, mask=mask, return_lse=True)[1]
    lse[..., 1:].sum().backward()
    assert bool(torch.isfinite(q.grad).all())


@pytest.mark.backend("torch")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own use
def test_small_work_is_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch as library

    from corepy.kernels.attention import torch

    called: list[Any] = []
    function = library.nn.functional.scaled_dot_product_attention

    def counted(*args: Any, **options: Any) -> Any:
        called.append(options)
        return function(*args, **options)

    monkeypatch.setattr(library.nn.functional, "scaled_dot_product_attention", counted)
    torch.function_of.cache_clear()
    for kind in (Kind("torch", compiled=False), Kind("torch", compiled=True)):
        select(monkeypatch, kind)
        q, k, v = sample(1, 4, 20, 8), sample(1, 2, 20, 8, seed=1), sample(1, 2, 20, 8, seed=2)
        out = {n: expected_of(q, k, v, causal=n)[:2] for n in (False, True)}
        arrays = [kind.array(x, "float32") for x in (q, k, v)]
        for causal, (expected, terms) in out.items():
            for align in ("bottom-right", "top-left"):
                found = kernels.attention(*arrays, causal=causal, causal_align=align)
                check(arrays[0], found, expected, "float32", 2 * terms)
        assert [c["is_causal"] for c in called] == [False, False, True, True]
        called.clear()
        kernels.attention(arrays[0][:, :, :1], *arrays[1:], causal=True)  # sees every key
        assert [c["is_causal"] for c in called] == [False]
        called.clear()
        # What torch means otherwise, or lacks.
        kernels.attention(arrays[0][:, :, :2], *arrays[1:], causal=True)
        kernels.attention(*(x[:, :, :15] for x in arrays))
        for options in (
            {"mask": library.ones(20, dtype=library.bool)},
            {"bias": library.ones(20)},
            {"scale": -1.0},
            {"window": 1},
            {"lengths": library.tensor([3])},
            {"query_lengths": library.tensor([3])},
            {"return_lse": True},
        ):
            kernels.attention(*arrays, **options)
        assert not called
    monkeypatch.setattr(torch, "SMALL", 0)
    kernels.attention(*arrays)
    assert not called  # large work is not
    leaf = [x.clone().requires_grad_() for x in arrays]
    kernels.attention(*leaf).sum().backward()
    assert len(called) == 1
    found = library.func.vmap(kernels.attention)(*(x[None] for x in arrays))
    library.testing.assert_close(found[0], kernels.attention(*arrays))
    q = (arrays[0],)
    _, slope = library.func.jvp(lambda q: kernels.attention(q, *arrays[1:]), q, q)
    assert bool(library.isfinite(slope).all())
    assert len(called) == 1


@pytest.fixture(autouse=True)
def own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch's own function serve in none of these tests but its own."""
    if "torchs_own" not in request.node.name:
        from corepy.kernels.attention import torch

        monkeypatch.setattr(torch, "serves", lambda problem: False)


@pytest.mark.backend("torch")
def test_agrees_with_torch() -> None:
    import torch

    q, k, v = (torch.from_numpy(sample(2, 4, 33, 64, seed=s, dtype="f4")) for s in range(3))
    function = torch.nn.functional.scaled_dot_product_attention
    found = kernels.attention(q, k, v, causal=True)
    torch.testing.assert_close(found, function(q, k, v, is_causal=True))
    found = kernels.attention(q[:, :, :5], k, v, causal=True, causal_align="top-left")
    torch.testing.assert_close(found, function(q[:, :, :5], k, v, is_causal=True))


@pytest.mark.backend("jax")
def test_jax_traces() -> None:
    import jax
    import jax.numpy as jnp

    q, k, v = (jnp.asarray(sample(2, 2, 5, 4, seed=s, dtype="f4")) for s in range(3))
    lengths = jnp.asarray([3, 5])

    def function(q: Any, lengths: Any) -> Any:
        return kernels.attention(q, k, v, causal=True, lengths=lengths)

    expected, terms, _ = expected_of(*map(host, (q, k, v)), causal=True, lengths=[3, 5])
    check(q, jax.jit(function)(q, lengths), expected, "float32", 2 * terms)
    slope = jax.grad(lambda q: function(q, lengths).sum())(q)
    assert bool(jnp.isfinite(slope).all())


@pytest.mark.backend("dask")
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_dask_in_chunks(dtype: str) -> None:
    import dask
    import dask.array as da

    values = [sample(2, heads, n, 8, seed=n).astype(dtype) for heads, n in ((4, 5), (2, 7), (2, 7))]
    q, k, v = (da.from_array(x, chunks=(1, 1, 3, 5)) for x in values)

    def appended(cache: Any) -> Any:
        cache.append(k, v)
        return cache.attend(q)

    with dask.config.set(scheduler=not_yet):
        found = [kernels.attention(q, k, v, causal=True)]
        scores = kernels.attention_scores(q, k)
        if dtype == "float64":
            found.append(appended(kernels.KVCache(2, 2, 7, 8, like=q)))
            found.append(appended(kernels.PagedKVCache(2, 2, 4, 4, 8, like=q)))
    assert type(scores) is da.Array
    by_numpy = kernels.attention_scores(*values[:2])
    np.testing.assert_allclose(scores.compute(), by_numpy, atol=10 * BOUNDS[dtype])
    expected, terms, _ = expected_of(*map(host, values), causal=True)
    for out in found:
        check(q, out, expected, dtype, 2 * terms)


def not_yet(*_: Any, **__: Any) -> None:
    raise AssertionError("computed before anybody looked")
