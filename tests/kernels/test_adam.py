"""A step of Adam: values over some steps, dtypes, in place, and bad input."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from tests.kernels.libraries import Kind, check, dtype_of, host, kinds, select
from tests.kernels.test_attention import sample

SETTINGS = {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1}


def expected_of(p: Any, g: Any, m: Any, v: Any, step: int, **s: float) -> tuple[Any, Any, Any]:
    m = s["beta1"] * m + (1 - s["beta1"]) * g
    v = s["beta2"] * v + (1 - s["beta2"]) * g**2
    p = p - s["learning_rate"] * s["weight_decay"] * p
    first, second = m / (1 - s["beta1"] ** step), v / (1 - s["beta2"] ** step)
    return p - s["learning_rate"] * first / (np.sqrt(second) + s["eps"]), m, v


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 700)])
def test_steps(kind: Kind, shape: tuple[int, ...]) -> None:
    if kind.slow and len(shape) != 2:
        return
    for dtype in kind.dtypes[:1] if kind.slow else kind.dtypes:
        for kept in dict.fromkeys((dtype, "float64" if dtype == "float64" else "float32")):
            if kind.library == "jax" and kept != dtype:
                continue
            p = kind.array(sample(*shape), dtype)
            m, v = (kind.array(np.zeros(shape), kept) for _ in range(2))
            for step in (1, 2, 3) if shape == (3, 5) else (1,):
                g = kind.array(sample(*shape, seed=step), dtype)
                expected = expected_of(*map(host, (p, g, m, v)), step, **SETTINGS)
                old = p, m, v
                p, m, v = kernels.adam_step(p, g, m, v, step=step, **SETTINGS)
                if kind.library != "jax":
                    assert all(x is y for x, y in zip((p, m, v), old, strict=True))
                check(p, p, expected[0], dtype, np.abs(expected[0]) + 0.1)
                check(m, m, expected[1], kept, np.abs(expected[1]) + np.abs(host(g)))
                check(v, v, expected[2], kept, np.abs(expected[2]) + host(g) ** 2)


@pytest.mark.parametrize("kind", kinds("torch"))
def test_agrees_with_torch(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    select(monkeypatch, kind)
    theirs = torch.nn.Parameter(torch.from_numpy(sample(4, 33).astype("f4")))
    ours = torch.nn.Parameter(theirs.detach().clone())
    m, v = torch.zeros(4, 33), torch.zeros(4, 33)
    optimiser = torch.optim.AdamW([theirs], lr=0.01, weight_decay=0.1)
    for step in range(1, 6):
        theirs.grad = torch.from_numpy(sample(4, 33, seed=step).astype("f4"))
        optimiser.step()
        version = ours._version
        kernels.adam_step(ours, theirs.grad, m, v, step=step, learning_rate=0.01, weight_decay=0.1)
        assert ours._version > version
    assert ours.requires_grad
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", kinds("numpy"))
def test_layouts(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    memory = [sample(6, 8, seed=s).astype("f4") ** 2 for s in range(4)]
    arrays = [x[::2, 1::2] for x in memory]
    copies = [x.copy() for x in arrays]
    kernels.adam_step(*arrays, step=3)
    kernels.adam_step(*copies, step=3)
    for x, y in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(x, y)
    for n, x in enumerate(memory):  # the elements between stay
        np.testing.assert_array_equal(x[1::2], (sample(6, 8, seed=n).astype("f4") ** 2)[1::2])
    nothing = [np.zeros((0, 3)) for _ in range(4)]
    assert kernels.adam_step(*nothing, step=1)[0] is nothing[0]


@pytest.mark.parametrize("kind", kinds("numpy", "torch", "array"))
def test_columns(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    for dtype in kind.dtypes:
        rows = [kind.array(sample(30, 50, seed=s) ** 2, dtype) for s in range(4)]
        columns = [kind.array(sample(30, 50, seed=s) ** 2, dtype) for s in range(4)]
        found = kernels.adam_step(*(x.T for x in columns), step=3)
        kernels.adam_step(*rows, step=3)
        for x, y, z in zip(rows, columns, (found[0], columns[1], *found[1:]), strict=True):
            np.testing.assert_array_equal(host(x), host(z).T if z is not y else host(y))
            if kind.library != "array":  # whose transpose is an array of its own
                np.testing.assert_array_equal(host(x), host(y))


@pytest.mark.backend("numba")
def test_columns_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy.kernels.adam import numba

    def looks(old: Any, new: Any, *_: Any) -> None:
        seen.append(all(map(np.shares_memory, (old[0], *old[2:]), new)))

    monkeypatch.setattr(numba, "adam_step", looks)
    seen: list[bool] = []
    kernels.adam_step(*(x.T for x in sample(4, 60, 70) ** 2), step=1)
    assert seen == [True]


@pytest.mark.parametrize("step", [1, 2, 1000])
def test_a_beta_near_one_keeps_its_digits(step: int) -> None:
    for beta in (0.9999, 0.9999999, 1e-300, 0.0):
        p, g, m, v = np.zeros(1), np.ones(1), np.zeros(1), np.ones(1)
        settings = {"learning_rate": 1.0, "beta1": 0.0, "beta2": beta, "eps": 0.0}
        kernels.adam_step(p, g, m, v, step=step, **settings)
        assert p[0] == pytest.approx(-math.sqrt(1 - Fraction(beta) ** step), rel=1e-14)


@pytest.mark.backend("tinygrad")
def test_tensors_of_tinygrad() -> None:
    expected = [sample(2, 3, seed=s).astype("f4") ** 2 for s in range(4)]
    arrays = [corepy.to(x, backend="tinygrad").unwrap() for x in expected]
    for step in (1, 2):
        kernels.adam_step(*arrays, step=step)
        kernels.adam_step(*expected, step=step)
    for x, y in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-5)


def test_special_values(kind: Kind) -> None:
    p, m, v = (kind.array(np.zeros(4), "float32") for _ in range(3))
    g = kind.array([0.0, np.nan, np.inf, 1e30], "float32")
    p, m, v = kernels.adam_step(p, g, m, v, step=1)
    assert host(p)[0] == 0
    assert np.isnan(host(p)[1:3]).all()
    assert host(v)[3] == np.inf
    assert dtype_of(p) == "float32"


X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"parameter": [1.0]}, TypeError, "adam_step: parameter is of type list; expected an arr"),
        ({"gradient": X[:1]}, ValueError, "adam_step: gradient has shape (1, 3); expected (2, 3)"),
        ({"gradient": X.astype("f8")}, TypeError, "adam_step: gradient has dtype float64 on cpu"),
        (
            {"second_moment": X.astype("f2")},
            TypeError,
            "adam_step: second_moment has dtype float16",
        ),
        ({"step": 0}, ValueError, "adam_step: step is 0; expected an integer of at least 1"),
        ({"step": 1.0}, TypeError, "adam_step: step is of type float; expected an integer"),
        ({"step": 10**400}, ValueError, "adam_step: step is inf; expected a finite"),
        ({"learning_rate": -1}, ValueError, "adam_step: learning_rate is -1; expected a finite"),
        ({"beta1": 1.0}, ValueError, "adam_step: beta1 is 1.0; expected a number less than 1"),
        ({"beta2": -0.1}, ValueError, "adam_step: beta2 is -0.1; expected a finite number of at"),
        ({"eps": np.nan}, ValueError, "adam_step: eps is nan; expected a finite number"),
        ({"weight_decay": "0"}, TypeError, "adam_step: weight_decay is of type str; expected"),
    ],
)
def test_bad_input(changes: dict[str, Any], error: type[Exception], words: str) -> None:
    arrays = {n: X.copy() for n in ("parameter", "gradient", "first_moment", "second_moment")}
    with pytest.raises(error) as caught:
        kernels.adam_step(**{**arrays, "step": 1, **changes})
    assert words in str(caught.value)
    for name, x in arrays.items():
        assert (x == 1).all(), name


@pytest.mark.parametrize("kind", kinds("numpy", "torch", "jax"))
@pytest.mark.parametrize(
    "settings",
    [{"eps": 1e-50}, {"learning_rate": 1e39}, {"learning_rate": 1e30, "weight_decay": 1e30}],
    ids=str,
)
def test_numbers_beyond_the_dtype(kind: Kind, settings: dict[str, float]) -> None:
    """None is zero or infinite, which would give NaN beside zeros."""
    arrays = (kind.array(np.zeros(2000), "float32") for _ in range(4))
    for x in kernels.adam_step(*arrays, step=1, **settings):
        assert (host(x) == 0.0).all()


def test_arrays_are_four() -> None:
    x, frozen = X.copy(), X.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="adam_step: gradient has memory of parameter; expected "):
        kernels.adam_step(x, x, X.copy(), X.copy(), step=1)
    with pytest.raises(ValueError, match="adam_step: first_moment is read-only; expected writable"):
        kernels.adam_step(x, X.copy(), frozen, X.copy(), step=1)
    kernels.adam_step(x, frozen, X.copy(), X.copy(), step=1)
