"""Decompositions of small square matrices: LAPACK's, in one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("threadpoolctl")

from corepy import _blas
from corepy.backends.numba import _lapack
from corepy.backends.numba._backend import OPERATIONS
from corepy.backends.numba._glue import numpys

WORDS: dict[str, dict[str, Any]] = {
    "linalg.cholesky": {"upper": False},
    "linalg.qr": {"mode": "reduced"},
}
NAMES = list(_lapack.OPERATIONS)


def definite(side: int, dtype: str = "float64") -> np.ndarray[Any, Any]:
    x = np.random.default_rng(side).standard_normal((side, side))
    made: np.ndarray[Any, Any] = (x @ x.T / side + np.eye(side)).astype(dtype)
    return made


def arguments(name: str, x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    return (x, x[..., :1].copy()) if name == "linalg.solve" else (x,)


def own(name: str) -> Callable[..., Any]:
    return OPERATIONS[name].own


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_lapacks_in_one_thread(name: str, dtype: str) -> None:
    for x in (definite(80, dtype), np.asfortranarray(definite(80, dtype)), definite(1, dtype)):
        with _blas.single():
            wanted = numpys(name)(*arguments(name, x), **WORDS.get(name, {}))
        got = own(name)(*arguments(name, x), **WORDS.get(name, {}))
        pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_blas_has_one_thread_meanwhile_and_its_own_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counts() -> list[int]:
        return [library.get_num_threads() for library in _blas._libraries()]

    before, seen = counts(), []

    def fails(*args: Any, **params: Any) -> Any:
        seen.extend(counts())
        raise ZeroDivisionError

    monkeypatch.setattr(_lapack, "numpys", lambda name: fails)
    monkeypatch.setattr(np.linalg, "solve", fails)
    function = _lapack._of_one(name) if name in ("linalg.det", "linalg.eigvalsh") else own(name)
    with pytest.raises(ZeroDivisionError):
        function(*arguments(name, definite(80)), **WORDS.get(name, {}))
    assert seen == [1] * len(before)
    assert counts() == before


@pytest.mark.parametrize("name", NAMES)
def test_what_one_thread_is_not_enough_for_is_numpys(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*args: np.ndarray[Any, Any]) -> Any:
        return own(name)(*args, **WORDS.get(name, {}))

    stack = np.stack([definite(4)] * 2)
    for x in (definite(_lapack.WIDEST + 1), stack, definite(8).astype(complex)):
        assert asked(*arguments(name, x)) is None
    if name == "linalg.qr":
        assert asked(np.ones((8, 6))) is None
    if name == "linalg.solve":
        x = definite(8)
        assert asked(x, np.ones((8, 9))) is None
        assert asked(x, np.ones(8, np.float32)) is None
    monkeypatch.setattr(_lapack, "can_hold", lambda: False)
    assert asked(*arguments(name, definite(80))) is None


def test_errors_are_lapacks() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        own("linalg.cholesky")(-np.eye(80), upper=False)
    with pytest.raises(np.linalg.LinAlgError):
        own("linalg.solve")(np.zeros((80, 80)), np.ones(80))
