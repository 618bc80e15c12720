"""How the loops of this backend are compiled.

A loop takes C-contiguous arrays in the shapes that its docstring names and fills ``out`` from row
``start`` up to ``stop``, where a row may be a block of elements. So `launch` can share the rows
among threads; a result never depends on how many there are.

No loop assumes that NaN, infinities or signed zeros do not occur, and none reports an overflow or
an invalid operation, as NumPy's warnings do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from corepy._loops._compile import REASSOCIATED, compiler
from corepy._loops._sharing import PARALLEL_FROM, free_threads, launch
from corepy._loops._simd import fuses

__all__ = [
    "BLOCK",
    "PARALLEL_FROM",
    "REASSOCIATED",
    "blocks",
    "free_threads",
    "fuses",
    "kernel",
    "launch",
]

#: Elements that are worked on together: they fit the first-level cache with their results, and a
#: single value that stands for an array comes as that many copies of it.
BLOCK: Final = 1024

#: Files with what loops of others call and read.
_FILES: Final = (
    *("_circles", "_compiled", "_exponentials", "_neighbours", "_numpys_loops", "_powers"),
)
kernel = compiler([Path(__file__).with_name(f"{name}.py") for name in _FILES])


def blocks(size: int) -> int:
    """Return how many blocks there are of so many elements."""
    return -(-size // BLOCK)
