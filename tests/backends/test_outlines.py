"""What arrays print that have no values: the libraries' own words for them."""

from __future__ import annotations

from typing import Any

import pytest

import corepy.array_api as xp
from tests.conftest import required


def double(native: Any) -> Any:
    """Look at what an array of a native vector prints, and an element of it."""
    x = xp.asarray(native)
    assert repr(x) == f"Array({native}, dtype=float32, device=cpu, backend={x.backend})"
    assert str(x) == f"{x}" == str(native)
    assert f"{x[0]}" == str(x[0].unwrap())
    with pytest.raises(TypeError, match="^format: x has shape"):
        format(x, ".2f")
    return (x * 2).unwrap()


@pytest.mark.backend("jax")
@pytest.mark.parametrize("transformed", ["jit", "vmap", "grad"])
def test_jax(transformed: str) -> None:
    jax = required("jax")
    ones = jax.numpy.ones((2, 3) if transformed == "vmap" else 3, "float32")
    if transformed == "grad":
        jax.grad(lambda x: double(x).sum())(ones)
    else:
        getattr(jax, transformed)(double)(ones)


@pytest.mark.backend("torch")
@pytest.mark.parametrize("transformed", ["vmap", "grad", "fake"])
def test_torch(transformed: str) -> None:
    torch = required("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    if transformed == "vmap":
        torch.func.vmap(double)(torch.ones(2, 3))
    elif transformed == "grad":
        torch.func.grad(lambda x: double(x).sum())(torch.ones(3))
    else:
        with FakeTensorMode():
            double(torch.ones(3))
