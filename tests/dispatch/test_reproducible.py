"""`corepy.reproducible`: the same bits whatever routes, threads and neighbours there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch._neighbours import NEIGHBOURS
from tests.conftest import required
from tests.processes import python

_rng: Final = np.random.default_rng(11)
LONG: Final = _rng.standard_normal(150_000)
SQUARE: Final = _rng.standard_normal((220, 220))
TALL: Final = _rng.standard_normal((9000, 8))

PROGRAMS: Final[dict[str, Callable[[], Any]]] = {
    "sin": lambda: xp.sin(xp.asarray(LONG)),
    "exp of float32": lambda: xp.exp(xp.asarray(LONG.astype(np.float32))),
    "sum of float32": lambda: xp.sum(xp.asarray(LONG.astype(np.float32))),
    "cumulative_sum": lambda: xp.cumulative_sum(xp.asarray(LONG)),
    "var": lambda: xp.var(xp.asarray(LONG)),
    "vecdot": lambda: xp.vecdot(xp.asarray(LONG), xp.asarray(LONG)),
    "vecdot of few": lambda: xp.vecdot(xp.asarray(LONG[:12_000]), xp.asarray(LONG[:12_000])),
    "vector_norm": lambda: xp.linalg.vector_norm(xp.asarray(LONG)),
    "matmul": lambda: xp.asarray(SQUARE) @ xp.asarray(SQUARE),
    "matmul of few": lambda: xp.asarray(SQUARE[:75, :75]) @ xp.asarray(SQUARE[:75, :75]),
    "long products": lambda: xp.asarray(TALL).T @ xp.asarray(TALL),
    "tensordot": lambda: xp.tensordot(xp.asarray(SQUARE), xp.asarray(SQUARE), axes=2),
    "solve": lambda: xp.linalg.solve(xp.asarray(SQUARE), xp.asarray(SQUARE[0])),
    "svd": lambda: xp.linalg.svd(xp.asarray(TALL), full_matrices=False)[0],
    "eigh": lambda: xp.linalg.eigh(xp.asarray(SQUARE + SQUARE.T))[0],
    "fft": lambda: xp.fft.fft(xp.asarray(LONG.astype(np.complex64))),
}


def bits() -> dict[str, bytes]:
    return {name: np.asarray(program()).tobytes() for name, program in PROGRAMS.items()}


@pytest.mark.parametrize("priority", [["numpy"], ["numba"]])
def test_the_same_bits(
    priority: list[str], own_budget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if priority == ["numba"]:
        required("numba")
    required("threadpoolctl")
    with corepy.backend_priority(priority), corepy.reproducible():
        wanted = bits()
        for threads in (1, 2):
            corepy.set_num_threads(threads)
            for routes in ("off", "shipped"):
                for used in (0.0, float(NEIGHBOURS.cores)):
                    monkeypatch.setattr(NEIGHBOURS, "looked", float("inf"))
                    monkeypatch.setattr(NEIGHBOURS, "used", used)
                    with corepy.set_routes(routes):
                        found = bits()
                    circumstances = (threads, routes, used)
                    for name in PROGRAMS:
                        assert found[name] == wanted[name], (name, circumstances)


def test_no_route_is_taken_and_explain_says_so() -> None:
    required("numba")
    x = xp.asarray(LONG)
    with corepy.set_routes("shipped"):
        free = corepy.explain(xp.sin, x)
        with corepy.reproducible():
            pinned = corepy.explain(xp.sin, x)
    assert [r.backend for r in free.records] == ["numba"]
    assert [r.backend for r in pinned.records] == ["numpy"]
    assert "reproducible" in pinned.records[0].reason
    assert np.asarray(pinned.result).tobytes() == np.sin(LONG).tobytes()


def test_blas_has_one_thread_on_any_size_and_its_own_again() -> None:
    required("threadpoolctl")
    from corepy import _blas

    def threads() -> list[int]:
        return [library.get_num_threads() for library in _blas._libraries()]

    before = threads()
    small = xp.asarray(SQUARE[:5, :5])
    with corepy.reproducible():
        found = corepy.explain(lambda: small @ small)
        for function in (xp.linalg.det, xp.linalg.vector_norm):
            assert "BLAS in one thread" in corepy.explain(function, small).records[0].reason
        assert threads() == before
    assert "BLAS in one thread" in found.records[0].reason
    np.testing.assert_allclose(np.asarray(found.result), SQUARE[:5, :5] @ SQUARE[:5, :5])
    assert "BLAS" not in corepy.explain(lambda: small @ small).records[0].reason


def test_kernels_go_one_way() -> None:
    required("numba")
    from corepy import kernels

    for size in (8, 4096):  # one below what a compiled kernel is worth
        x = LONG[:size].astype(np.float32)
        with corepy.reproducible():
            found = corepy.explain(kernels.softmax, x, axis=-1)
        assert [r.backend for r in found.records] == ["numba"]
        wanted = np.exp(x.astype(float) - x.max())
        np.testing.assert_allclose(found.result, wanted / wanted.sum(), rtol=1e-5)


def test_it_is_scoped() -> None:
    assert not corepy.is_reproducible()
    with corepy.reproducible():
        assert corepy.is_reproducible()
        with corepy.reproducible(False):
            assert not corepy.is_reproducible()
        assert corepy.is_reproducible()
    assert not corepy.is_reproducible()

    async def task(on: bool) -> bool:
        corepy.reproducible(on)
        await asyncio.sleep(0)
        return corepy.is_reproducible()

    async def both() -> list[bool]:
        return await asyncio.gather(task(True), task(False))

    assert asyncio.run(both()) == [True, False]
    assert not corepy.is_reproducible()
    with pytest.raises(TypeError, match="reproducible: on .*expected a bool"):
        corepy.reproducible("yes")  # type: ignore[arg-type]


def test_the_environment_makes_it_the_default() -> None:
    code = "import corepy; print(corepy.is_reproducible())"
    for value, wanted in (("1", "True"), ("off", "False")):
        done = python("-c", code, COREPY_REPRODUCIBLE=value)
        assert done.stdout.strip() == wanted, done.stderr
