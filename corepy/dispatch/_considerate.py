"""Products and decompositions of large matrices beside other processes.

NumPy's BLAS and LAPACK share each step among threads that wait for each other in a loop. Where
another process has one of the cores, that takes many times as long as the work itself: a product
of 10 x 100,000 by 100,000 x 32 took 2.6 s in the place of 3 ms. So before a large one corepy looks
what other processes use (`_neighbours`, some 10 us every 50 ms), and BLAS gets no more threads for
it than there are free cores.

Small matrices are decomposed in one thread in any case: that is many short steps, and threads that
share each of them wake, or wait for each other, more than they work. Of 128 x 128 float64 on two
processors of a Zen 3 `qr` took 1.7 ms in one thread and 4.9 in two, `svd` 5.1 and 9.8, `cholesky`
0.44 and 0.84. Of 512 x 512 on a Zen 5 `solve` takes one thread 1.4 times as long as two, and `qr`
takes two 1.3 times as long as one: up to how many rows one is enough `corepy tune` measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from corepy import _blas
from corepy._budget import budget, cores
from corepy._dtypes import DType
from corepy.dispatch import _explain
from corepy.dispatch._neighbours import NEIGHBOURS
from corepy.dispatch._reproducible import REPRODUCIBLE

#: Operations that BLAS or LAPACK computes in several threads.
OPERATIONS: Final = frozenset(
    {
        *("matmul", "tensordot", "linalg.cholesky", "linalg.det", "linalg.eig", "linalg.eigh"),
        *("linalg.eigvals", "linalg.eigvalsh", "linalg.inv", "linalg.matrix_norm"),
        *("linalg.matrix_power", "linalg.matrix_rank", "linalg.pinv", "linalg.qr"),
        *("linalg.slogdet", "linalg.solve", "linalg.svd", "linalg.svdvals"),
    }
)
#: Those for which it uses threads too seldom to ask each time, yet whose sums depend on them.
_SUMS: Final = frozenset({"linalg.vector_norm", "vecdot"})
#: Elements of the largest operand from which it does so; a product of two square matrices then
#: takes some 50 us.
LEAST: Final = 10_000

#: Rows or columns of a matrix that LAPACK decomposes up to which one thread is enough, where nobody
#: has measured that (`corepy.tuning._alone`): the fewer, the sooner a machine's threads wake.
ROWS: Final[Mapping[str, int]] = {
    "linalg.inv": 200,
    **dict.fromkeys(
        (
            *("linalg.eigh", "linalg.matrix_rank", "linalg.pinv"),
            *("linalg.svd", "linalg.svdvals"),
        ),
        300,
    ),
    **dict.fromkeys(("linalg.eig", "linalg.eigvals", "linalg.eigvalsh"), 400),
    **dict.fromkeys(("linalg.det", "linalg.slogdet", "linalg.solve"), 512),
    **dict.fromkeys(("linalg.cholesky", "linalg.qr"), 640),
}


def concerns(name: str, dtype: DType) -> bool:
    """Say whether an operation on a dtype asks how many threads of BLAS it may have.

    NumPy multiplies integers without it.
    """
    return dtype.rank > 1 and (name in OPERATIONS or (REPRODUCIBLE.touched and name in _SUMS))


def least() -> int:
    """Return from how many elements on these operations ask how many threads they may have."""
    # Sums of some hundreds of products in several threads are other sums already.
    return 1 if REPRODUCIBLE.touched else LEAST


def reproducible_blas() -> AbstractContextManager[None]:
    """Hold BLAS to one thread for a block where results are to be reproducible."""
    if REPRODUCIBLE.touched and REPRODUCIBLE.get() and _blas.can_hold():
        return _blas.single()
    return nullcontext()


def _threads() -> int:
    """Return how many threads BLAS may have, whoever else computes."""
    threads, asked = cores(), budget()
    return threads if asked is None or asked > threads else asked


def unhindered() -> bool:
    """Say whether BLAS may be called at once, with all threads that it has.

    Where not, what `considerate` returns knows what is to be done before.
    """
    if REPRODUCIBLE.touched or not _blas.can_hold() or not _blas.is_apart():
        return False
    threads = _threads()
    return threads < 2 or not NEIGHBOURS.busy(threads)


def considerate(
    native: Callable[..., Any], name: str, rows: int | None = None
) -> Callable[..., Any]:
    """Return what calls a function with as many threads of BLAS as there are cores for them.

    One, where that is enough. Where they have all, they wake apart from the caller's
    (`_blas.apart`). Where `threadpoolctl` is not installed there is no way to any of it, and the
    function runs as it is.

    Parameters
    ----------
    native : callable
    name : str
        The operation that it computes.
    rows : int, optional
        Of a matrix, up to which one thread is enough; by default what holds for all machines.
    """
    alone = ROWS.get(name, 0) if rows is None else rows

    def call(*args: Any, **params: Any) -> Any:
        if not REPRODUCIBLE.touched:
            pass
        elif REPRODUCIBLE.get():
            if _explain.listening():
                one = "; BLAS in one thread" if _blas.can_hold() else ""
                _explain.note(f"reproducible: the operands live in it{one}")
            with reproducible_blas():
                return native(*args, **params)
        elif all(getattr(x, "size", 0) < LEAST for x in args):
            return native(*args, **params)
        threads = _threads()
        if threads < 2:
            return native(*args, **params)
        if alone and max(args[0].shape[-2:], default=0) <= alone and _blas.can_hold():
            if _explain.listening():
                _explain.note("the operands live in it; BLAS in one thread, enough for so few rows")
            with _blas.single():
                return native(*args, **params)
        if not NEIGHBOURS.busy(threads) or not _blas.can_hold():
            with _blas.apart():
                return native(*args, **params)
        count = NEIGHBOURS.free(threads)
        if _explain.listening():
            _explain.note(f"the operands live in it; BLAS in {count} of {threads} threads: "
                          "other processes use the cores")  # fmt: skip
        with _blas.held(count):
            return native(*args, **params)

    return call
