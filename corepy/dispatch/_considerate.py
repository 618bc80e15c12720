"""Products and decompositions of large matrices beside other processes.

NumPy's BLAS and LAPACK share each step among threads that wait for each other in a loop. Where
another process has one of the cores, that takes many times as long as the work itself: a product
of 10 x 100,000 by 100,000 x 32 took 2.6 s in the place of 3 ms. So before a large one corepy looks
what other processes use (`_neighbours`, some 10 us every 50 ms), and BLAS gets no more threads for
it than there are free cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from corepy import _blas
from corepy._budget import budget, cores
from corepy.dispatch import _explain
from corepy.dispatch._neighbours import NEIGHBOURS

#: Operations that BLAS or LAPACK computes in several threads.
OPERATIONS: Final = frozenset(
    {
        *("matmul", "tensordot", "linalg.cholesky", "linalg.det", "linalg.eig", "linalg.eigh"),
        *("linalg.eigvals", "linalg.eigvalsh", "linalg.inv", "linalg.matrix_norm"),
        *("linalg.matrix_power", "linalg.matrix_rank", "linalg.pinv", "linalg.qr"),
        *("linalg.slogdet", "linalg.solve", "linalg.svd", "linalg.svdvals"),
    }
)
#: Elements of the largest operand from which it does so; a product of two square matrices then
#: takes some 50 us.
LEAST: Final = 8192


def considerate(native: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a function with as many threads of BLAS as there are cores for them.

    Where `threadpoolctl` is not installed there is no way to, and the function runs as it is.
    """

    def call(*args: Any, **params: Any) -> Any:
        threads = min(cores(), budget() or cores())
        if threads < 2 or not NEIGHBOURS.busy(threads) or not _blas.can_hold():
            return native(*args, **params)
        count = NEIGHBOURS.free(threads)
        if _explain.listening():
            _explain.note(f"the operands live in it; BLAS in {count} of {threads} threads: "
                          "other processes use the cores")  # fmt: skip
        with _blas.held(count):
            return native(*args, **params)

    return call
