"""Formulas of kernels on JAX's arrays, which XLA compiles as one program."""

from __future__ import annotations

import math

import numpy as np

import corepy
from corepy import kernels
from corepy.kernels import _formulas
from tests.conftest import required

jnp = required("jax.numpy")


def test_a_formula_is_one_program() -> None:
    x = jnp.linspace(-3.0, 3.0, 12).reshape(3, 4)
    _formulas._programs.cache_clear()
    record = corepy.explain(kernels.gelu, x).records[-1]
    assert (record.backend, record.reason) == ("jax", "by its formula, compiled by XLA")
    for _ in range(3):
        kernels.gelu(x)
        kernels.gelu(x[:2])  # another shape, the same formula
    assert _formulas._programs.cache_info().misses == 1
    kernels.gelu(x, approximate="tanh")
    assert _formulas._programs.cache_info().misses == 2


def test_steps_of_adam_share_a_program() -> None:
    x = jnp.linspace(-3.0, 3.0, 12)
    kernels.adam_step(x, x, x, x * x, step=1)
    before = _formulas._programs.cache_info().misses
    for step in range(2, 9):
        found = kernels.adam_step(x, x, x, x * x, step=step, learning_rate=0.1 / step)
        p, m, v = (np.array(array) for array in (x, x, x * x))
        kernels.adam_step(p, np.asarray(x), m, v, step=step, learning_rate=0.1 / step)
        for got, wanted in zip(found, (p, m, v), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert _formulas._programs.cache_info().misses == before


def test_zeros_of_both_signs_are_different_factors() -> None:
    a = jnp.ones((2, 2))
    for alpha in (0.0, -0.0, 0.0):
        found = np.asarray(kernels.gemm(a, a, alpha=alpha))
        assert (np.copysign(1.0, found) == math.copysign(1.0, alpha)).all()
