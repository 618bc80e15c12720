"""JAX's products of float32 ask for all its bits: by default accelerators keep fewer of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.kernels._arguments import given
from corepy.kernels._formulas import setting
from tests.conftest import required
from tests.kernels.libraries import Kind

jax = required("jax")

from corepy.backends.jax._backend import JaxBackend  # noqa: E402 (it imports jax)

pytestmark = pytest.mark.backend("jax")

JAX = Kind("jax", True)


def x_of(*shape: int) -> Any:
    return JAX.array(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def cache_of(q: Any) -> Any:
    cache = kernels.KVCache(1, 2, 8, 4, like=q)
    cache.append(q, q)
    return cache.attend(q)


def of_int8(x: Any) -> Any:
    return kernels.matmul_int8(x, *kernels.quantize(x, bits=8, group_size=4))


def of_int4(x: Any) -> Any:
    return kernels.matmul_int4(x, *kernels.quantize(x, bits=4, group_size=4))


CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "attention": (lambda q: kernels.attention(q, q, q), (1, 2, 3, 4)),
    "causal": (lambda q: kernels.attention(q, q[:, :1], q[:, :1], causal=True), (1, 2, 3, 4)),
    "attention_scores": (lambda q: kernels.attention_scores(q, q), (1, 2, 3, 4)),
    "cache": (cache_of, (1, 2, 3, 4)),
    "conv2d": (lambda x: kernels.conv2d(x, x_of(2, 2, 3, 3), None), (1, 2, 4, 4)),
    "gemm": (lambda x: kernels.gemm(x, x), (4, 4)),
    "gemv": (lambda x: kernels.gemv(x, x[0]), (4, 4)),
    "matmul_int4": (of_int4, (4, 8)),
    "matmul_int8": (of_int8, (4, 8)),
    "matmul_vec": (lambda x: kernels.matmul_vec(x, x), (4, 4)),
    "weighted_sum_rows": (lambda x: kernels.weighted_sum_rows(x[0], x), (4, 4)),
}


def precisions(function: Callable[[Any], Any], x: Any) -> list[str]:
    """Return what each product of a function asks for."""
    found = re.findall(r"precision=(\S+)", str(jax.make_jaxpr(function)(x)).replace("(", ""))
    return [str(name).strip(",)") for name in found]


@pytest.mark.parametrize("name", CASES)
def test_products_of_float32(name: str) -> None:
    function, shape = CASES[name]
    found = precisions(function, x_of(*shape))
    assert found
    assert set(found) == {"Precision.HIGHEST"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_of_jax_s_own_attention(dtype: str) -> None:
    from corepy.kernels.attention.jax import _attention

    def function(q: Any) -> Any:
        how: dict[str, Any] = {"scale": 1.0, "causal": True, "implementation": "xla"}
        with setting(given("attention", "q", q)):
            return _attention(jax.numpy, q, q, q, wide=jax.numpy.float32, **how)

    found = precisions(function, x_of(1, 2, 3, 4).astype(dtype))
    assert ("Precision.HIGHEST" in found) == (dtype == "float32")


@pytest.fixture
def tf32() -> Iterator[None]:
    before = corepy.get_tf32()
    corepy.enable_tf32(True)
    yield
    corepy.enable_tf32(before)


def test_tf32_where_it_is_allowed_and_there_is_any(
    tf32: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = x_of(4, 4)
    assert precisions(lambda x: kernels.gemm(x, x), x) == ["Precision.HIGHEST"]  # on the host
    monkeypatch.setattr(JaxBackend, "devices", lambda self: (SimpleNamespace(kind="cuda"),))
    corepy.enable_tf32(True)
    with setting(given("gemm", "a", x)):
        found = precisions(lambda x: x @ x, x)
    assert found == [precisions(lambda x: jax.numpy.matmul(x, x, precision="tensorfloat32"), x)[0]]
    assert found != ["Precision.HIGHEST"]
