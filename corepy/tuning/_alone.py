"""Up to how many rows BLAS in one thread decomposes a matrix as soon as in several.

That is a matter of how soon its threads wake, which differs from machine to machine. Both are timed
one call after the other, and after a sleep of the caller's, when the threads sleep as well: several
are worth it where they gain in geometric mean, in which calls in a row count most, and at the next
size as well: once may be chance, or a size for which BLAS asks for no threads, where holding it to
one takes some time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from corepy import _blas
from corepy._budget import budget, cores
from corepy.dispatch._considerate import ROWS, considerate
from corepy.tuning._cases import NUMPY
from corepy.tuning._clock import Work, after, compare, take_turns

__all__ = ["OPERATIONS", "rows_alone"]

#: Those that may be held to one thread.
OPERATIONS: Final = tuple(sorted(ROWS))
#: Sides of the matrices that are timed: of 10,000 elements and more.
SIDES: Final = (100, 128, 181, 256, 362, 512, 640)
#: The gain from which several threads are worth it.
_WORTH: Final = 1.02
#: The share of calls that are taken to come after a sleep.
_ASLEEP: Final = 0.25
#: Seconds that the caller sleeps, how often, and those of a call that is too long to be repeated.
_SLEEP: Final = 0.01
_ROUNDS: Final = 9
_LONG: Final = 0.06
#: What native callables are given besides matrices.
_PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "linalg.cholesky": {"upper": False},
    "linalg.matrix_rank": {"rtol": None},
    "linalg.pinv": {"rtol": None},
    "linalg.qr": {"mode": "reduced"},
    "linalg.svd": {"full_matrices": False},
}


def wanted(only: Iterable[str]) -> list[str]:
    """Return which of these are asked for, all if none is; nothing where BLAS cannot be told."""
    names = frozenset(only)
    threads = min(cores(), budget() or cores())
    if threads < 2 or not _blas.can_hold():
        return []
    return [name for name in OPERATIONS if not names or name in names]


def rows_alone(name: str, seconds: float) -> int:
    """Return up to how many rows of a matrix one thread is enough for an operation.

    Parameters
    ----------
    name : str
        One of `OPERATIONS`.
    seconds : float
        Time for the rounds of each size.
    """
    enough, gained = 0, False
    for side in SIDES:
        works = _works(name, side)
        times = take_turns(works, seconds)
        asleep = after(partial(time.sleep, _SLEEP), works, _ROUNDS)
        gain = _gain(times) ** (1 - _ASLEEP) * _gain(asleep) ** _ASLEEP
        before, gained = gained, gain >= _WORTH
        if before and gained:
            break
        if not gained:
            enough = side
            if min(times["alone"]) > _LONG:
                break
    return enough if gained else max(enough, ROWS[name])


def _gain(times: Mapping[str, list[float]]) -> float:
    return compare(times["alone"], times["together"]).gain


def _works(name: str, side: int) -> dict[str, Work]:
    """Return calls in one thread and in several, of a matrix that is far from singular."""
    rng, unit = np.random.default_rng(side), np.eye(side)
    g = 0.3 * rng.standard_normal((side, side)) / side**0.5
    if name in ("linalg.cholesky", "linalg.eigh", "linalg.eigvalsh"):
        g = (g + g.T) / 2
    args = (unit + g, unit - g) if name == "linalg.solve" else (unit + g,)
    function = NUMPY.operation(name)
    assert function is not None  # NumPy has all of linear algebra
    params = _PARAMETERS.get(name, {})
    return {
        key: partial(considerate(function, name, rows), *args, **params)
        for key, rows in (("alone", side), ("together", 0))
    }
