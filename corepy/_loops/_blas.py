"""BLAS in one thread, where threads of our own share the work."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from typing import Any

__all__ = ["can_hold", "single"]


def can_hold() -> bool:
    """Say whether there is a way to tell NumPy's BLAS how many threads to use."""
    return find_spec("threadpoolctl") is not None and bool(_controller().lib_controllers)


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def single() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread for the length of a block, in the whole process.

    Its threads wait for each other in a loop: where several of ours call it, or another process
    has a core, that takes many times as long as the work. While another thread holds BLAS, that
    one's wish counts.
    """
    held: AbstractContextManager[Any] = _controller().limit(limits=1)
    return held
