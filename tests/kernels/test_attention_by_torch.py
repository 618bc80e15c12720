"""Attention of arrays on a GPU by torch: which calls, in whose stream; and on a GPU, the values."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.kernels._ways import only
from tests.kernels.libraries import Kind, check, host
from tests.kernels.test_attention import expected_of, sample

ROOT = Path(__file__).parents[2]
TORCH = Kind("torch", False)

_at_once = import_module("corepy.kernels.attention._at_once")
by_torch = import_module("corepy.kernels.attention.torch")


@pytest.mark.backend("torch")
@pytest.mark.needs("ml_dtypes")
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("c++") is None, reason="needs Linux and a C++ compiler"
)
def test_arrays_of_cupy_on_a_stand_in() -> None:
    script = [sys.executable, "-W", "error", "-m", "tests.kernels.cupy_by_torch"]
    done = subprocess.run(script, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr


# ---------------------------------------------------------------------------- at once


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Let tensors of the host count as a GPU's; tell what torch is asked for at once."""
    calls: list[Any] = []
    function_of = by_torch.function_of

    def noted(*how: Any) -> Any:
        calls.append(how)
        return function_of(*how)

    monkeypatch.setattr(_at_once, "function_of", noted)
    monkeypatch.setattr(_at_once, "_is_on_gpu", lambda tensor: True)
    return calls


def tensors(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    return [TORCH.array(sample(*shape, seed=n), dtype) for n, shape in enumerate(shapes)]


@pytest.mark.backend("torch")
def test_frequent_calls_are_computed_at_once(asked: list[Any]) -> None:
    """With what a closer look finds as well, wherever it is not left to that."""
    taken = 0
    lengths = [(5, 5), (5, 7), (1, 7), (1, 1)]
    for (n, m), heads, causal, align, scale in itertools.product(
        lengths, (2, 4), (False, True), ("bottom-right", "top-left"), (None, 0.3)
    ):
        q, k, v = tensors((2, heads, n, 8), (2, 2, m, 8), (2, 2, m, 8))
        options: dict[str, Any] = {"causal": causal, "causal_align": align, "scale": scale}
        asked.clear()
        found = kernels.attention(q, k, v, **options)
        expected, terms, _ = expected_of(*map(host, (q, k, v)), **options)
        check(q, found, expected, "float32", 2 * terms)
        hides = causal and (n > 1 or align == "top-left")
        asks = not hides or (heads == 2 and (align == "top-left" or n == m))
        assert len(asked) == asks
        taken += len(asked)
    assert taken == 50


@pytest.mark.backend("torch")
def test_what_is_looked_at_closely(asked: list[Any]) -> None:
    import torch

    q, k, v = tensors((1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8))
    mask = torch.ones(3, 3, dtype=torch.bool)
    for options in ({"mask": mask}, {"window": 1}, {"return_lse": True}, {"out": q.clone()}):
        kernels.attention(q, k, v, **options)
    with corepy.reproducible():
        kernels.attention(q, k, v)
    assert corepy.explain(kernels.attention, q, k, v).summary() == {"torch": 1}
    torch.func.vmap(lambda x: kernels.attention(x, x, x))(q[None])
    with torch.autograd.forward_ad.dual_level():
        kernels.attention(q, k, v)
    assert asked == []
    wrong: list[tuple[Any, dict[str, Any], type[Exception]]] = [
        ((q, k, v[:, :, :2]), {}, ValueError),
        ((q, k[..., :4], v[..., :4]), {}, ValueError),
        ((q, k[0], v[0]), {}, ValueError),
        ((torch.cat([q, q]), k, v), {}, ValueError),
        ((torch.cat([q, q[:, :1]], 1), k, v), {}, ValueError),
        ((q, k.double(), v), {}, TypeError),
        ((q, k, np.zeros((1, 2, 3, 8), "f4")), {}, TypeError),
        ((q.int(), k.int(), v.int()), {}, TypeError),
        ((q, k, v), {"causal": 1}, TypeError),
        ((q, k, v), {"return_lse": 0}, TypeError),
        ((q, k, v), {"causal_align": "left"}, ValueError),
        ((q, k, v), {"scale": np.inf}, ValueError),
        ((q, k, v), {"scale": True}, TypeError),
    ]
    for arrays, options, error in wrong:
        with pytest.raises(error, match="^attention: "):
            kernels.attention(*arrays, **options)
    assert asked == []
    kernels.attention(q, k, v)
    assert len(asked) == 1


@pytest.mark.backend("torch")
def test_gradients_pass_through_what_is_computed_at_once(asked: list[Any]) -> None:
    q, k, v = tensors((1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8))
    q.requires_grad_()
    kernels.attention(q, k, v).sum().backward()
    assert len(asked) == 1
    assert q.grad is not None


@pytest.mark.backend("torch")
def test_autocast_is_looked_at_closely(asked: list[Any]) -> None:
    import torch

    (q,) = tensors((1, 2, 3, 8))
    torch.set_autocast_enabled("cuda", True)
    try:
        kernels.attention(q, q, q)
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert asked == []


@pytest.mark.backend("torch")
@pytest.mark.parametrize("scale", [-0.5, 0.0])
def test_keys_stay_hidden_whatever_multiplies_them(asked: list[Any], scale: float) -> None:
    q, k, v = tensors(*[(1, 2, 20, 8)] * 3)
    options: dict[str, Any] = {"causal": True, "scale": scale}
    expected, terms, _ = expected_of(*map(host, (q, k, v)), **options)
    check(q, kernels.attention(q, k, v, **options), expected, "float32", 2 * terms)
    assert asked == []
    with only("torch"):
        check(q, kernels.attention(q, k, v, **options), expected, "float32", 2 * terms)


# ---------------------------------------------------------------------------- on the host


@pytest.mark.backend("torch")
@pytest.mark.parametrize("dtype", TORCH.dtypes)
@pytest.mark.parametrize("heads", [1, 2])
def test_nan_among_hidden_keys_stays_hidden(dtype: str, heads: int) -> None:
    import torch

    q, k, v = tensors((1, heads, 20, 4), (1, 1, 20, 4), (1, 1, 20, 4), dtype=dtype)
    seen = [[False] * 5 + [True] * 15] * heads
    # Of one element the stride is any, also where they lie side by side.
    narrow = [torch.as_strided(x, (1, x.shape[1], 20, 1), (0, 20, 1, 7)) for x in (q, k, v)]
    narrow[1][0, 0, 5] = np.nan
    assert kernels.attention(*narrow, causal=True).isnan()[..., 0][0].tolist() == seen
    k[0, 0, :] = 1.0
    k[0, 0, 5] = np.nan
    for operands in ((q, k, v), (q, k.mT.contiguous().mT, v)):
        got = kernels.attention(*operands, causal=True)
        assert got.isnan().any(-1)[0].tolist() == seen
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert kernels.attention(q, k, v, causal=True).isnan().any(-1)[0].tolist() == seen


@pytest.mark.backend("torch")
def test_causal_calls_without_a_fused_kernel_are_looked_at_closely(asked: list[Any]) -> None:
    q, k = tensors((1, 4, 20, 4), (1, 2, 20, 4))
    wide = tensors((1, 4, 20, 4), dtype="float64")[0]
    sideways = q.mT.contiguous().mT
    for operands in ((q, k, k), (wide, wide, wide), (sideways, q, q), (q, q, sideways)):
        kernels.attention(*operands, causal=True)
    assert not asked


@pytest.mark.backend("torch")
@pytest.mark.parametrize("dtype", TORCH.dtypes)
@pytest.mark.parametrize(("queries", "keys"), [(2, 1), (2, 7), (2, 15), (3, 24), (24, 3), (18, 18)])
def test_nan_for_all_of_few_keys(dtype: str, queries: int, keys: int) -> None:
    """Fewer than fill a register of torch's kernel, and more."""
    (k,) = tensors((1, 1, keys, 8), dtype=dtype)
    q = k.new_full((1, 1, queries, 8), np.nan)
    with only("torch"):
        for causal in (False, True):
            found = kernels.attention(q, k, k, causal=causal, causal_align="top-left")
            assert np.isnan(host(found)).all()


@pytest.mark.backend("torch")
@pytest.mark.parametrize("dtype", TORCH.dtypes)
@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_nan_of_an_infinite_score(dtype: str, special: float) -> None:
    """Of which torch's kernel for 16 bits makes zero."""
    q, k, v = (x.abs() for x in tensors(*[(1, 2, 70, 8)] * 3, dtype=dtype))
    k[0, 1, 40, 3] = special
    with only("torch"):
        assert (host(kernels.attention(q, k, v * 0))[0, 0] == 0).all()
        for causal in (False, True):
            found = kernels.attention(q, k, v, causal=causal, out=q.clone())
            seen = np.isnan(host(found)).all(-1)
            assert np.isfinite(host(found)[~seen]).all()
            assert seen[0].tolist() == [[False] * 70, [i >= 40 or not causal for i in range(70)]]


# ---------------------------------------------------------------------------- on a GPU

CUPY = Kind("cupy", True)


def on_gpu(dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    return [CUPY.array(sample(*shape, seed=n), dtype) for n, shape in enumerate(shapes)]


def who(*arrays: Any, **options: Any) -> str:
    (row,) = corepy.explain(kernels.attention, *arrays, **options).records
    return row.backend


@pytest.fixture
def own() -> Any:
    """Give a function that computes attention in our own kernels."""

    def attention(*arrays: Any, **options: Any) -> Any:
        with corepy.reproducible():
            assert who(*arrays, **options) == "cupy"
            return kernels.attention(*arrays, **options)

    return attention


@pytest.mark.device("cuda")
@pytest.mark.device("cupy")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("queries", "keys"), [(130, 130), (1, 300), (70, 200)])
def test_torch_and_our_kernels_agree(own: Any, dtype: str, queries: int, keys: int) -> None:
    if dtype not in CUPY.dtypes:
        pytest.skip("this CuPy has no bfloat16")
    kv_heads = 2 if dtype != "float32" else 4
    arrays = on_gpu(dtype, (2, 4, queries, 64), *[(2, kv_heads, keys, 64)] * 2)
    for causal in (False, True):
        options: dict[str, Any] = {"causal": causal, "causal_align": "top-left", "scale": 0.2}
        skewed = causal and queries != keys and kv_heads == 2  # torch would write out all scores
        assert who(*arrays, **options) == ("cupy" if skewed else "torch")
        expected, terms, _ = expected_of(*map(host, arrays), **options)
        for attention in (kernels.attention, own):
            check(arrays[0], attention(*arrays, **options), expected, dtype, 2 * terms)


@pytest.mark.device("cuda")
@pytest.mark.device("cupy")
@pytest.mark.parametrize("its", [False, True], ids=["torch's default", "torch's other"])
def test_torch_computes_in_cupy_s_stream(own: Any, its: bool) -> None:
    """Between work that CuPy has put there before, and work that takes memory when it is free."""
    import cupy
    import torch

    shape = (1, 8, 2048, 128)
    values = [CUPY.array(sample(*shape, seed=n), "float16") for n in range(3)]
    expected = host(own(*values))
    heavy = cupy.ones((4096, 4096), "f4")
    cupy.cuda.Device().synchronize()
    other = torch.cuda.Stream() if its else torch.cuda.default_stream()
    with cupy.cuda.Stream(non_blocking=True) as stream, torch.cuda.stream(other):
        for _ in range(5):
            arrays = [cupy.zeros(shape, "f2") for _ in range(3)]
            for _ in range(4):
                heavy @ heavy  # the operands come late
            for array, value in zip(arrays, values, strict=True):
                array[...] = value
            found = kernels.attention(*arrays)
            del arrays, array
            for _ in range(3):  # takes the memory of the operands, and writes into it
                cupy.full(shape, cupy.nan, "f2")
            kept = found + cupy.zeros((), "f2")
            del found
            kernels.attention(*values)  # may take the memory of the result
            stream.synchronize()
            np.testing.assert_allclose(kept.get(), expected, atol=2e-3)


@pytest.mark.device("cuda")
@pytest.mark.device("cupy")
def test_layouts_that_torch_does_not_take_on_a_gpu() -> None:
    q, k, v = on_gpu("float16", *[(1, 2, 40, 72)] * 3)
    parts = [x[..., 1:65] for x in (q, k, v)]
    assert who(*parts) == "cupy"
    turned = [x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3) for x in (q, k, v)]
    assert who(*turned) == "torch"
    for arrays in (parts, turned):
        expected, terms, _ = expected_of(*map(host, arrays))
        check(q, kernels.attention(*arrays), expected, "float16", terms)


def test_gradients_pass_where_there_are_no_keys() -> None:
    """As they do through torch's function: they are zero, and not an error."""
    import torch

    q = torch.full((1, 4, 3, 8), np.nan, dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.ones((1, 2, 0, 8), dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    y, lse = kernels.attention(q, k, v, return_lse=True)
    assert (y == 0.0).all()
    assert (lse == -np.inf).all()
    found = torch.autograd.grad(y.sum(), (q, k, v))
    assert [g.shape for g in found] == [q.shape, k.shape, v.shape]
    assert not found[0].any()
    pages = kernels.PagedKVCache(1, 2, 1, 1, 8, like=k)
    (none,) = torch.autograd.grad(pages.attend(q).sum(), q)
    assert not none.any()
