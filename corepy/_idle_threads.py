"""How long threads of libraries stay on their cores when they have nothing to do."""

from __future__ import annotations

import os
import sys
from typing import Final

#: How long threads of libraries wait in a loop for more work before they sleep: by default for
#: milliseconds, in which whatever another library computes has fewer cores. By the variable: what
#: corepy sets, the library that reads it as it is imported, and variables by which a user may have
#: decided otherwise. `benchmarks/company.py` shows what comes of it.
_SPINNING: Final = {
    # Of OpenBLAS, which comes with NumPy: a power of two of the processor's cycles, here some 50
    # us. They bridge the steps of a decomposition, and loops of small products, which take up to
    # twice as long with threads that sleep at once; from 2**18 on others' operations are slower.
    "OPENBLAS_THREAD_TIMEOUT": ("17", "numpy", ()),
    # Of GNU's OpenMP, which comes with torch on Linux: turns of the loop.
    "GOMP_SPINCOUNT": ("1000", "torch", ("OMP_WAIT_POLICY",)),
}


def settle() -> None:
    """Let threads that have nothing to do soon leave the cores to others.

    Libraries read this as they are imported, so it comes with the import of corepy, and is in time
    for those that are imported later. What the user has set stays.
    """
    for name, (value, library, others) in _SPINNING.items():
        if library not in sys.modules and not any(other in os.environ for other in others):
            os.environ.setdefault(name, value)


def spinning() -> list[str]:
    """Say whose threads may disturb other libraries' operations."""
    return [
        f"{library} was imported before corepy, so its threads wait in a loop after each operation "
        f"and slow down what comes next: import corepy first, or set {name}={value}"
        for name, (value, library, others) in _SPINNING.items()
        if library in sys.modules and not any(key in os.environ for key in (name, *others))
    ]
