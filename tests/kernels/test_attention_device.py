"""Attention on devices: layouts, pages, who computes, and the tensor cores' source, emulated."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from corepy import kernels
from tests.kernels.libraries import Kind, check, device_kinds, host
from tests.kernels.test_attention import compare, expected_of, sample
from tests.kernels.test_device import exchanged

device = import_module("corepy.kernels.attention.device")  # the package has the function's name

each = pytest.mark.parametrize("kind", device_kinds())
opencl = pytest.mark.device("opencl")
OPENCL = Kind("opencl", True)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tell which kernels ran."""
    names: list[str] = []
    launch = device.launch

    def counted(x: Any, program: Any, name: str, **options: Any) -> None:
        names.append(name)
        launch(x, program, name, **options)

    monkeypatch.setattr(device, "launch", counted)
    return names


@each
@pytest.mark.parametrize("queries", [3, 20])
def test_layouts(kind: Kind, queries: int) -> None:
    """Heads beside each other in a row, parts, other strides, and memory that is no multiple."""
    arrays = [sample(2, n, 4, 16, seed=n).astype("f4") for n in (queries, 30, 30)]
    views = [
        lambda x: exchanged(x, (0, 2, 1, 3)),
        lambda x: exchanged(x, (0, 2, 1, 3))[:, 1:3, 1:, 1::3],
        lambda x: exchanged(x, (2, 0, 1, 3)),
    ]
    for view in views:
        q, k, v = (view(kind.array(x)) for x in arrays)
        expected, terms, _ = expected_of(*(view(x).astype("f8") for x in arrays), causal=True)
        check(q, kernels.attention(q, k, v, causal=True), expected, "float32", 2 * terms)


@opencl
def test_layouts_of_pyopencl_run_backwards() -> None:
    q, k, v = (sample(1, 2, 5, 8, seed=n).astype("f4") for n in range(3))
    mask = np.asarray(sample(1, 2, 5, 5) > 0)
    place = np.s_[:, ::-1, ::-1, ::-1]
    arrays = [OPENCL.array(x)[place] for x in (q, k, v)]
    expected, terms, _ = expected_of(*(x[place] for x in (q, k, v)), mask=mask[:, :, ::-1])
    found = kernels.attention(*arrays, mask=OPENCL.array(mask)[:, :, ::-1])
    check(arrays[0], found, expected, "float32", 2 * terms)


@each
def test_bias_of_more_bits(kind: Kind) -> None:
    for queries in (2, 20):
        q, k, v = (kind.array(sample(1, 1, n, 8, seed=n), "float16") for n in (queries, 30, 31))
        v, bias = v[:, :, :30], sample(queries, 1).astype("f4") * sample(30).astype("f4")
        expected, terms, _ = expected_of(*map(host, (q, k, v)), bias=bias)
        found = kernels.attention(q, k, v, bias=kind.array(bias))
        check(q, found, expected, "float16", terms)


@each
@pytest.mark.parametrize("length", [3, 40])
def test_out(kind: Kind, length: int) -> None:
    x = kind.array(sample(1, 2, length, 8), "float32")
    expected = host(kernels.attention(x, x, x, causal=True))
    out = kind.array(np.zeros((1, 2, length, 8)), "float32")
    assert kernels.attention(x, x, x, causal=True, out=out) is out
    np.testing.assert_array_equal(host(out), expected)
    assert kernels.attention(x, x, x, causal=True, out=x) is x  # what is read is written
    np.testing.assert_array_equal(host(x), expected)


@each
def test_keys_are_shared_and_put_together(kind: Kind, launched: list[str]) -> None:
    """Few rows: parts of the keys in groups of work-items, in pages, with a window over some."""
    k, v = (sample(2, 2, 700, 24, seed=s) for s in range(2))
    q = sample(2, 6, 2, 24)
    cache = kernels.PagedKVCache(2, 2, 32, 50, 24, like=kind.array(q, "float32"))
    for start in range(0, 700, 350):
        part = (x[:, :, start : start + 350] for x in (k, v))
        cache.append(*(kind.array(x, "float32") for x in part))
    for window in (None, 300):
        found, sums = cache.attend(kind.array(q, "float32"), window=window, return_lse=True)
        expected, terms, lse = expected_of(
            *(x.astype("f4").astype("f8") for x in (q, k, v)), causal=True, window=window
        )
        check(kind.array(q, "float32"), found, expected, "float32", 2 * terms)
        np.testing.assert_allclose(host(sums), lse, rtol=1e-5, atol=1e-5)
    kept = [] if kind.library == "cuda" else ["keep"] * 2  # torch writes into its own pages
    assert launched == kept + ["attention_keys", "attention_combined"] * 2


@each
@pytest.mark.parametrize("low", [float(np.finfo("f4").min), -1e30])
@pytest.mark.parametrize("keys", [300, 600, 1100])
def test_parts_of_keys_weigh_alike_beside_a_great_bias(kind: Kind, keys: int, low: float) -> None:
    """Finite minima stand for masks: of rows that see nothing else the mean of V is left."""
    q, k, v = (sample(2, 1, n, 24, seed=s) for s, n in enumerate((3, keys, keys)))
    bias = np.full((1, 1, 3, keys), low)
    bias[:, :, 1, :290] = 0.0  # parts that are seen, and parts that are not
    bias[:, :, 2, 290:] = -np.inf
    compare(kind, "float32", q, k, v, bias=bias)


@opencl
@pytest.mark.parametrize(("dtype", "queries"), [("float32", 1), ("float16", 40)])
def test_optimised(dtype: str, queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As users get it: what optimising compilers make of it, which takes them seconds."""
    from corepy.kernels._device import _opencl

    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS")
    monkeypatch.setattr(_opencl, "_built", _opencl._built.__wrapped__)  # knows no other build
    k, v = sample(2, 1, 300, 30, seed=1), sample(2, 1, 300, 30, seed=2)
    lengths = np.asarray([300, 7])
    q = sample(2, 1, queries, 30)
    compare(OPENCL, dtype, q, k, v, causal=True, lengths=lengths)


@opencl
def test_heads_that_are_too_large() -> None:
    x = OPENCL.array(np.ones((1, 1, 2, 257)), "float32")
    with pytest.raises(ValueError, match=r"attention: q has shape .* head_dim of at most 256"):
        kernels.attention(x, x, x)


# ---------------------------------------------------------------------------- tensor cores


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let OpenCL run the source for tensor cores, through its emulation of warps."""
    from corepy.kernels._device._opencl import OpenCL

    monkeypatch.setattr(OpenCL, "has_tensor_cores", lambda self, x: True)


@opencl
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(("dtype", "size"), [("float16", 128), ("bfloat16", 64)])
def test_tensor_cores(dtype: str, size: int, launched: list[str]) -> None:
    ends = {"lengths": np.asarray([130, 77]), "query_lengths": np.asarray([30, 11])}
    cases: list[tuple[tuple[int, ...], dict[str, Any]]] = [
        ((1, 2, 1, 70, 90), {}),  # rows of two heads in a tile
        ((1, 4, 2, 40, 100), {"causal": True, "scale": 0.3}),
        ((1, 1, 1, 100, 40), {"causal": True}),  # rows that see nothing
        ((2, 2, 1, 30, 130), {"causal": True, "causal_align": "top-left", "window": 20, **ends}),
        ((1, 1, 1, 150, 150), {"window": (9, 3)}),  # tiles that rows see in part, or not
    ]
    for (batch, heads, kv_heads, queries, keys), options in cases:
        q = sample(batch, heads, queries, size)
        k, v = (sample(batch, kv_heads, keys, size, seed=s) for s in (1, 2))
        compare(OPENCL, dtype, q, k, v, **options)
    assert launched == ["attention_tensorcores"] * len(cases)


@opencl
@pytest.mark.usefixtures("emulated")
def test_special_values_in_tensor_cores() -> None:
    q, k, v = (sample(1, 1, 40, 64, seed=s) for s in range(3))
    k[0, 0, 30:], v[0, 0, 30:] = np.nan, np.inf
    lengths = np.asarray([30])
    compare(OPENCL, "float16", q, k, v, lengths=lengths)  # beyond them may be anything
    k[0, 0, 3] = np.inf
    q[0, 0, 1:] = np.abs(q[0, 0, 1:])
    q[0, 0, 0] = -np.abs(q[0, 0, 0])
    arrays = [OPENCL.array(x, "float16") for x in (q, k, v)]
    found = host(kernels.attention(*arrays, lengths=OPENCL.array(lengths)))[0, 0]
    assert np.isfinite(found[0]).all()  # minus infinity weighs nothing
    assert np.isnan(found[1:]).all()
    compare(OPENCL, "float16", 1e4 * np.sign(q), 3e4 * np.sign(sample(1, 1, 40, 64)), abs(q))


@opencl
@pytest.mark.usefixtures("emulated")
def test_what_tensor_cores_do_not_take(launched: list[str]) -> None:
    q, k, v = (sample(1, 1, 20, 64, seed=s) for s in range(3))
    for options in (
        {"mask": np.asarray(sample(20, 20) > 0)},
        {"bias": sample(20, 20)},
        {"scale": -1.0},
    ):
        compare(OPENCL, "float16", q, k, v, **options)
    compare(OPENCL, "float32", q, k, v)
    compare(OPENCL, "float16", *(x[..., :40] for x in (q, k, v)))
    wide = [OPENCL.array(np.tile(x, 2), "float16")[..., 1:65] for x in (q, k, v)]  # not aligned
    expected, terms, _ = expected_of(*map(host, wide))
    check(wide[0], kernels.attention(*wide), expected, "float16", terms)
    assert launched == ["attention_tiles"] * 6
