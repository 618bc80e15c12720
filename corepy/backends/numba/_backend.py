"""Numba on the host: NumPy, with loops of its own for what NumPy does slowly.

Its native arrays are NumPy's, so nothing is copied between the two; an ndarray that a function is
given still belongs to the backend ``numpy``. Every operation is NumPy's by inheritance, unless one
of the tables here has it, and then too where a loop would not pay or does not apply: on small
arrays, and on operands that are neither C- nor F-contiguous.

Loops share their rows among threads where that pays (`corepy._loops._sharing`), within the budget
of `corepy.set_num_threads`. Results never depend on how many threads there are.

Accuracy: transforms err by two or three roundings; those of float32 are computed in float32, where
NumPy computes them in double precision unless they are scaled. Sums, means, variances and running
sums of float32 accumulate in float64 and are rounded once. Sums of float64 err, whatever their
size, by at most 256 halves of a unit in the last place of the sum of the absolute values if nothing
fills vector registers, some 20 if it does (NumPy's by some 20 and one more each time that the size
doubles), and in practice by less than one; a variance takes two such sums. Elementary functions err
by at most 2 units. The results of all other loops equal NumPy's. Integer sums, products and matrix
products wrap around, as NumPy's do. Decompositions of matrices of many rows err as LAPACK's of the
whole do, and may choose other signs; they and small products of long matrices need the extra
``threads``, by which BLAS is held to one thread meanwhile; so do decompositions of small square
matrices, which are LAPACK's in one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from numba import config

from corepy._crew import Crew
from corepy._loops._sharing import crew
from corepy.backends._numpy import NumPyBackend
from corepy.backends.numba import (
    _copies,
    _elementwise,
    _matrices,
    _reductions,
    _selections,
    _sorting,
    _tall,
    _transforms,
)
from corepy.backends.numba._glue import Operation

OPERATIONS: Final[dict[str, Operation]] = {
    **_copies.OPERATIONS,
    **_elementwise.OPERATIONS,
    **_matrices.OPERATIONS,
    **_reductions.OPERATIONS,
    **_selections.OPERATIONS,
    **_sorting.OPERATIONS,
    **_tall.OPERATIONS,
    **_transforms.OPERATIONS,
}


def _own(name: str) -> Operation | None:
    """Return an operation with a loop; none where Numba was told not to compile.

    Loops would run in Python then, which has not all that they are made of, and warns of integers
    that wrap around.
    """
    return None if config.DISABLE_JIT else OPERATIONS.get(name)


class NumbaBackend(NumPyBackend):
    """NumPy's operations on ``cpu``, some of them in loops compiled by Numba."""

    name = "numba"

    def operation(self, name: str) -> Callable[..., Any] | None:
        return super().operation(name) if _own(name) is None else _own(name)

    def single(self, name: str) -> Callable[..., Any] | None:
        return super().single(name) if _own(name) is None else None

    def crew(self) -> Crew | None:
        return crew()
