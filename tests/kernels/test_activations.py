"""SiLU, GELU in both forms, and SwiGLU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import array_api as xp
from corepy import kernels
from tests.kernels import libraries
from tests.kernels.libraries import Kind, check, host, kinds, select
from tests.kernels.test_attention import sample


def _tanh(x: Any, **out: Any) -> Any:
    return kernels.gelu(x, approximate="tanh", **out)


FUNCTIONS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (kernels.silu, libraries.silu),
    (kernels.gelu, libraries.gelu),
    (_tanh, libraries.gelu_tanh),
]
each = pytest.mark.parametrize(("function", "oracle"), FUNCTIONS, ids=["silu", "gelu", "gelu_tanh"])


@each
def test_values(kind: Kind, function: Any, oracle: Any) -> None:
    for dtype in kind.dtypes:
        # As far out as a float32 has the result: relative precision is kept all the way.
        reach = 5.0 if kind.library == "jax" else 8.0
        grid = np.linspace(-reach, 9.0, 11 if kind.library == "reference" else 2500)
        x = kind.array(grid, dtype)
        check(x, function(x), oracle(host(x)), dtype)


@each
def test_shapes(kind: Kind, function: Any, oracle: Any) -> None:
    for shape in ((), (1,), (0,), (3, 0), (2, 3, 5)):
        x = kind.array(np.full(shape, 0.75), "float32")
        check(x, function(x), oracle(host(x)), "float32")


@each
def test_special_values(kind: Kind, function: Any, oracle: Any) -> None:
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, -2000.0, 500.0]
    for dtype in kind.dtypes:
        fit = [v if dtype != "float16" or abs(v) != 1e30 else v / 1e26 for v in values]
        x = kind.array(fit, dtype)
        out = host(function(x))
        given = host(x)
        expected = np.where(given > 0, given, np.where(np.isnan(given), np.nan, -0.0))
        expected[3] = 0.0
        np.testing.assert_array_equal(out, expected)
        assert np.signbit(out[2:5]).tolist() == [True, False, True]


def _turn(x: Any) -> Any:
    """Put the last axis second: torch calls what it makes so ``channels_last``."""
    if isinstance(x, corepy.Array):
        return xp.permute_dims(x, (0, 3, 1, 2))
    return x.permute(0, 3, 1, 2) if hasattr(x, "permute") else x.transpose(0, 3, 1, 2)


def _order(x: Any) -> list[int]:
    """Return the axes from that of the longest strides on."""
    x = x.unwrap() if isinstance(x, corepy.Array) else x
    steps = x.stride() if callable(getattr(x, "stride", None)) else x.strides
    return [int(axis) for axis in np.argsort(steps)[::-1]]


@pytest.mark.parametrize("kind", kinds("numpy", "torch", "array"))
def test_dense_arrays_keep_their_order(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    for dtype in kind.dtypes:
        rows, gates = (kind.array(sample(2, 5, 7, 3, seed=n), dtype) for n in range(2))
        x, turned = _turn(rows), _turn(gates)
        for function, others, expected in (
            (kernels.silu, (), kernels.silu(rows)),
            (kernels.gelu, (), kernels.gelu(rows)),
            (kernels.swiglu, (turned,), kernels.swiglu(rows, gates)),
        ):
            found = function(x, *others)
            check(x, found, host(_turn(expected)), dtype)
            assert _order(found) == [0, 2, 3, 1] or not kind.compiled
            # Into memory of both orders.
            for out in (_turn(kind.array(host(rows), dtype)), kind.array(host(x).copy(), dtype)):
                assert function(x, *others, out=out) is out
                np.testing.assert_array_equal(host(out), host(found))
        assert kernels.swiglu(x, turned, out=x) is x
        np.testing.assert_array_equal(host(x), host(found))


def test_small_results_of_double_precision() -> None:
    x = np.linspace(-37.0, -5.0, 2000)
    np.testing.assert_allclose(kernels.gelu(x), libraries.gelu(x), rtol=1e-12)
    x = np.linspace(-700.0, -5.0, 2000)
    np.testing.assert_allclose(kernels.silu(x), libraries.silu(x), rtol=1e-12)


def test_swiglu(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    for dtype in kind.dtypes:
        for shape in ((), (1,), (0, 3), (2, 3, 5), (3, 1111)):
            if kind.slow and shape != (2, 3, 5):
                continue
            x, gate = (kind.array(rng.standard_normal(shape) * 3, dtype) for _ in range(2))
            expected = host(x) * libraries.silu(host(gate))
            check(x, kernels.swiglu(x, gate), expected, dtype)


def test_swiglu_special_values(kind: Kind) -> None:
    x = kind.array([np.inf, np.nan, 2.0, 2.0, 2.0, -np.inf], "float32")
    gate = kind.array([-np.inf, 1.0, np.nan, -np.inf, np.inf, 1.0], "float32")
    out = host(kernels.swiglu(x, gate))
    np.testing.assert_array_equal(out[:5], [np.nan, np.nan, np.nan, -0.0, np.inf])
    assert out[5] == -np.inf


@each
def test_every_16_bit_float_comes_and_goes(function: Any, oracle: Any) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)  # subnormal, infinite and NaN too
    given = x.astype(np.float64)
    finite = np.isfinite(given)
    exact = oracle(np.where(finite, given, 0.0))
    with np.errstate(over="ignore"):
        expected = exact.astype(np.float16)
    out = function(x)
    assert np.isnan(out[np.isnan(given)]).all()
    # Rounded twice, an exact result near the middle between two floats may go to the other.
    away = np.abs(out.view(np.int16).astype(int) - expected.view(np.int16))[finite]
    assert away.max() <= 1
    assert (away > 0).sum() < 10


#: The first three derivatives at zero.
AT_ZERO = {
    "silu": (0.5, 0.5, 0.0),
    "gelu": (0.5, math.sqrt(2.0 / math.pi), 0.0),
    "gelu_tanh": (0.5, math.sqrt(2.0 / math.pi), 0.0),
}


@each
@pytest.mark.backend("torch")
def test_derivatives_at_zero_by_torch(function: Any, oracle: Any) -> None:
    import torch

    for zero in (0.0, -0.0):
        x = torch.tensor([zero, zero], dtype=torch.float64, requires_grad=True)
        y = function(x)
        for expected in AT_ZERO[oracle.__name__]:
            (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            np.testing.assert_allclose(host(y), expected, atol=1e-6)


@each
@pytest.mark.backend("jax")
def test_derivatives_at_zero_by_jax(function: Any, oracle: Any) -> None:
    import jax

    for expected in AT_ZERO[oracle.__name__][:2]:  # the third one has float32's errors in it
        function = jax.grad(function)
        for zero in (0.0, -0.0):
            np.testing.assert_allclose(function(zero + jax.numpy.zeros(())), expected, atol=2e-5)


#: Where a square, a cube or their derivatives are beyond the greatest number.
FAR = (-1e200, -1e155, 1e103, 1e155, 1e200)


@each
@pytest.mark.backend("torch")
def test_derivatives_far_out_by_torch(function: Any, oracle: Any) -> None:
    import torch

    x = torch.tensor(FAR, dtype=torch.float64, requires_grad=True)
    function(x).sum().backward()
    assert host(x.grad).tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]


@each
@pytest.mark.backend("jax")
def test_derivatives_far_out_by_jax(function: Any, oracle: Any) -> None:
    import jax

    slopes = jax.vmap(jax.grad(function))(jax.numpy.asarray([-1e38, -1e20, 1e13, 1e20, 1e38]))
    assert host(slopes).tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]


#: What has no digits, and the first two derivatives there.
ENDS = (-math.inf, math.inf, math.nan)
AT_ENDS = ((0.0, 1.0, math.nan), (0.0, 0.0, math.nan))


@each
@pytest.mark.backend("torch")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own use
def test_derivatives_at_infinity_by_torch(function: Any, oracle: Any) -> None:
    import torch

    x = torch.tensor(ENDS, requires_grad=True)
    y = function(x)
    for expected in AT_ENDS:
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        np.testing.assert_array_equal(host(y), expected)
        plain, ones = x.detach(), torch.ones_like(x)
        _, slope = torch.func.jvp(function, (plain,), (ones,))
        np.testing.assert_array_equal(host(slope), expected)
        function = _forward_by_torch(function)


def _forward_by_torch(function: Any) -> Any:
    import torch

    return lambda x: torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]


@each
@pytest.mark.backend("jax")
def test_derivatives_at_infinity_by_jax(function: Any, oracle: Any) -> None:
    import jax

    x = jax.numpy.asarray(ENDS)
    backward = forward = function
    for expected in AT_ENDS:
        backward, forward = jax.grad(backward), _forward_by_jax(forward)
        np.testing.assert_array_equal(host(jax.vmap(backward)(x)), expected)
        np.testing.assert_array_equal(host(forward(x)), expected)


def _forward_by_jax(function: Any) -> Any:
    import jax

    return lambda x: jax.jvp(function, (x,), (jax.numpy.ones_like(x),))[1]


@pytest.mark.backend("jax")
def test_a_gate_that_is_open_wide_has_a_derivative() -> None:
    import jax

    slopes = jax.grad(lambda x, gate: kernels.swiglu(x, gate).sum(), (0, 1))
    up, gate = slopes(jax.numpy.asarray([2.0, 2.0]), jax.numpy.asarray(ENDS[:2]))
    np.testing.assert_array_equal(host(up), [0.0, math.inf])
    np.testing.assert_array_equal(host(gate), [0.0, 2.0])
