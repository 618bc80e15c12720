"""The libraries that the grid compares: their namespaces, arrays, and how they are called.

Each library works on arrays of its own in the same memory, where it can share it: with memory of
its own, each would find the caches full of somebody else's. It is called as its users call it. JAX
computes behind the caller's back, so its calls wait for the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import numpy as np

import corepy
from benchmarks._grid_operations import CREATION, LINALG, OTHER, Array, Operands, Operation
from benchmarks._measure import Statement

NUMPY: Final = "numpy"
#: NumPy once more: how far it is from itself is the noise.
AGAIN: Final = "numpy again"
COREPY: Final = "corepy"
#: corepy, allowed to compute float32 linear algebra in float32.
FAST: Final = "corepy, fast"
JIT: Final = "jax.jit"
NUMBA: Final = "numba"


class Library(NamedTuple):
    """A loaded library: its namespace, and how it makes an array of NumPy's and names a dtype."""

    xp: Any
    own: Callable[[Array], Any]
    dtype: Callable[[str], Any]


# ---------------------------------------------------------------------------- loading


def _numpy() -> Library:
    return Library(np, lambda x: x, np.dtype)


def _torch() -> Library:
    import torch

    return Library(torch, torch.from_numpy, lambda name: getattr(torch, name))


def _jax() -> Library:
    import jax

    jax.config.update("jax_enable_x64", True)  # else float64 and int64 would be half as wide
    return Library(jax.numpy, jax.numpy.array, jax.numpy.dtype)


def _compat() -> Library:
    return Library(import_module("array_api_compat.numpy"), lambda x: x, np.dtype)


def _strict() -> Library:
    xp = import_module("array_api_strict")
    return Library(xp, xp.asarray, lambda name: getattr(xp, name))


def _corepy() -> Library:
    xp = corepy.array_api
    return Library(xp, lambda x: xp.asarray(x, copy=False), lambda name: getattr(xp, name))


def _numba() -> Library:
    xp = corepy.array_api

    def own(x: Array) -> Any:
        with corepy.backend_priority(["numba"]):
            return xp.asarray(x, copy=False)

    return Library(xp, own, lambda name: getattr(xp, name))


# ---------------------------------------------------------------------------- calling


@dataclass(frozen=True, slots=True)
class Peer:
    """One column of the grid.

    Attributes
    ----------
    name : str
    library : str
        By which an operation names its own spelling; peers of one library share their arrays.
    module : str
        That has to be installed.
    load : callable
    around : str
        What waits for an answer; ``{}`` is the operation.
    most : int or None
        Greatest size at which it is measured: a library that is there to be right, not fast, would
        take most of the time.
    most_order : int or None
        The same for the order of matrices.
    follows : bool
        Whether its large operations are another peer's: they are left out where a call takes long.
    """

    name: str
    library: str
    module: str
    load: Callable[[], Library]
    around: str = "{}"
    most: int | None = None
    most_order: int | None = None
    follows: bool = False

    def loaded(self) -> Library:
        """Return the library, which is imported once."""
        return _loaded(self.load)

    def takes(self, operation: Operation, dtype: str, size: int) -> bool:
        """Say whether it is measured on an operation at a size."""
        most = self.most_order if operation.group == LINALG else self.most
        if most is not None and size > most:
            return False
        if self.name == FAST:
            return operation.group == LINALG and dtype == "float32" and size >= 512
        if operation.group == CREATION and self.name in (JIT, NUMBA):
            return False  # jitted, it would be a constant; in Numba's backend, it is NumPy's
        return operation.spelling(self.name, self.library) is not None


PEERS: Final = (
    Peer(NUMPY, "numpy", "numpy", _numpy),
    Peer(AGAIN, "numpy", "numpy", _numpy),
    Peer("torch", "torch", "torch", _torch),
    Peer("jax", "jax", "jax", _jax, "({}).block_until_ready()"),
    Peer(JIT, "jax", "jax", _jax, "({}).block_until_ready()", follows=True),
    Peer(NUMBA, "numba", "numba", _numba, follows=True),
    Peer("array_api_compat", "compat", "array_api_compat", _compat, follows=True),
    Peer("array_api_strict", "strict", "array_api_strict", _strict, "{}", 1000, 32),
    Peer(COREPY, "corepy", "corepy", _corepy),
    Peer(FAST, "corepy", "corepy", _corepy, "fast(lambda: {})"),
)


@cache
def _loaded(load: Callable[[], Library]) -> Library:
    return load()


def present() -> list[Peer]:
    """Return the peers that are installed."""
    return [peer for peer in PEERS if find_spec(peer.module)]


def statement(peer: Peer, operation: Operation, dtype: str, size: int, own: Operands) -> Statement:
    """Return what a peer runs: its code, and the names that the code uses.

    Parameters
    ----------
    own : mapping of str to array
        The operands, in the library's own arrays.
    """
    library = peer.loaded()
    code = operation.spelling(peer.name, peer.library)
    assert code is not None
    names: dict[str, Any] = {
        "xp": library.xp,
        "n": size,
        "dtype": library.dtype(dtype),
        "other": library.dtype(OTHER[dtype]),
        **own,
    }
    if peer.name == FAST:
        names["fast"] = _fast
    if peer.library == "jax":
        names["wait"] = import_module("jax").block_until_ready
    if peer.name == JIT:
        takes = ", ".join(own)
        names["jitted"] = import_module("jax").jit(eval(f"lambda {takes}: {code}", names))
        code = f"jitted({takes})"
    around = "wait({})" if peer.library == "jax" and operation.several else peer.around
    return Statement(around.format(code), names)


def _fast(call: Callable[[], Any]) -> Any:
    with corepy.precision("fast"):
        return call()
