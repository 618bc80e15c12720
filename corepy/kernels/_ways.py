"""The ways to compute a fused kernel, and whether somebody wants a certain one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from corepy.dispatch import InForce, in_force, is_reproducible, listening

NUMBA: Final = "numba"
TORCH: Final = "torch"
JAX: Final = "jax"
CUPY: Final = "cupy"
FORMULA: Final = "formula"

_only: Final[ContextVar[str | None]] = ContextVar("corepy_kernel_way", default=None)
#: Whether anybody has ever wanted one, for `torch.compile` cannot trace what asks a context.
_touched = False


@contextmanager
def only(way: str) -> Iterator[None]:
    """Let one way compute all that it takes: for `corepy tune`, and for tests."""
    global _touched
    _touched = True
    token = _only.set(way)
    try:
        yield
    finally:
        _only.reset(token)


def wanted() -> str | None:
    """Return the way that alone is to compute."""
    return _only.get() if _touched else None


def is_usual() -> bool:
    """Say whether arguments and routes alone decide, and nobody wants to know who computes."""
    return not listening() and not is_reproducible() and (not _touched or _only.get() is None)


def routes_now() -> InForce:
    """Return the routes in force: another object once others are."""
    return in_force()
