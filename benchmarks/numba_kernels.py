"""Where the kernels of the Numba backend beat NumPy: the ratio of times, kernel by kernel.

    python benchmarks/numba_kernels.py
    python benchmarks/numba_kernels.py --only sum --rounds 50

Each figure is how many times longer NumPy's own function takes: the median over interleaved rounds
of the ratio within one round; see `benchmarks/_measure.py`. Both are called as the dispatcher
calls them, so the checks before a kernel and the memory for its result are counted. A kernel that
does not win stays out of `corepy/backends/_numba.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

# Kernels at every size, so that the table shows from which one they pay.
os.environ.setdefault("COREPY_NUMBA_THRESHOLD", "0")
# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks import _measure
from benchmarks._measure import Statement
from corepy.backends._numba import NumbaBackend
from corepy.backends._numpy import NumPyBackend

DTYPES: Final = ("float32", "float64", "int64")
FLOATS: Final = DTYPES[:2]
SIZES: Final = (100, 1_000, 10_000, 100_000, 10_000_000)
#: Elements of one row of the matrices.
WIDTH: Final = 100

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Case = tuple[str, str, Sequence[str], Callable[[np.ndarray[Any, Any]], Arguments]]


def reduction(axis: int | None, **params: Any) -> Callable[[np.ndarray[Any, Any]], Arguments]:
    """Make the arguments of a reduction, of all elements or along one axis of a matrix."""

    def arguments(x: np.ndarray[Any, Any]) -> Arguments:
        operand = x if axis is None else x.reshape(-1, min(WIDTH, x.size // 10))
        return (operand,), {"axis": axis, "keepdims": False} | params

    return arguments


def accumulation(axis: int | None) -> Callable[[np.ndarray[Any, Any]], Arguments]:
    """Make the arguments of a reduction that is told the dtype of its result."""
    return lambda x: reduction(axis, dtype=x.dtype)(x)


def running(axis: int) -> Callable[[np.ndarray[Any, Any]], Arguments]:
    """Make the arguments of a running operation along an axis of a matrix, or of a vector."""

    def arguments(x: np.ndarray[Any, Any]) -> Arguments:
        operand = x if axis == 0 else x.reshape(-1, min(WIDTH, x.size // 10))
        place = min(axis, operand.ndim - 1)
        return (operand,), {"axis": place, "dtype": x.dtype, "include_initial": False}

    return arguments


def running_columns(x: np.ndarray[Any, Any]) -> Arguments:
    """Make the arguments of a running operation down the columns of a matrix."""
    matrix = x.reshape(-1, min(WIDTH, x.size // 10))
    return (matrix,), {"axis": 0, "dtype": x.dtype, "include_initial": False}


def matrices(x: np.ndarray[Any, Any]) -> Arguments:
    """Make two square matrices; the greatest ones NumPy multiplies in a second or so."""
    side = min(int(x.size**0.5), 512)
    matrix = x[: side * side].reshape(side, side)
    return (matrix, matrix), {}


CASES: Final[tuple[Case, ...]] = (
    ("sum", "all", DTYPES, accumulation(None)),
    ("sum", "axis 1", DTYPES, accumulation(1)),
    ("mean", "all", FLOATS, reduction(None)),
    ("mean", "axis 1", FLOATS, reduction(1)),
    ("var", "all", FLOATS, reduction(None, correction=0.0)),
    ("var", "axis 0", FLOATS, reduction(0, correction=0.0)),
    ("var", "axis 1", FLOATS, reduction(1, correction=0.0)),
    ("std", "all", FLOATS, reduction(None, correction=0.0)),
    ("prod", "all", ("int64",), accumulation(None)),
    ("prod", "axis 1", ("int64",), accumulation(1)),
    ("max", "all", DTYPES, reduction(None)),
    ("max", "axis 1", DTYPES, reduction(1)),
    ("min", "axis 1", DTYPES, reduction(1)),
    ("argmax", "axis 0", DTYPES, reduction(0)),
    ("argmin", "axis 0", DTYPES, reduction(0)),
    ("cumulative_sum", "1-D", FLOATS, running(0)),
    ("cumulative_sum", "axis 0", FLOATS, running_columns),
    ("cumulative_sum", "axis 1", FLOATS, running(1)),
    ("cumulative_prod", "1-D", FLOATS, running(0)),
    ("cumulative_prod", "axis 0", FLOATS, running_columns),
    ("sqrt", "positive", FLOATS, lambda x: ((np.abs(x),), {})),
    ("sign", "random", FLOATS, lambda x: ((x,), {})),
    ("floor_divide", "arrays", FLOATS, lambda x: ((x, x[::-1].copy()), {})),
    ("floor_divide", "by 3", FLOATS, lambda x: ((x, x.dtype.type(3)), {})),
    ("remainder", "arrays", FLOATS, lambda x: ((x, x[::-1].copy()), {})),
    ("remainder", "by 3", FLOATS, lambda x: ((x, x.dtype.type(3)), {})),
    ("where", "random", DTYPES, lambda x: ((x > 0, x, x[::-1].copy()), {})),
    ("where", "sorted", DTYPES, lambda x: ((np.sort(x) > 0, x, x[::-1].copy()), {})),
    ("where", "one value", DTYPES, lambda x: ((x > 0, x, x.dtype.type(1)), {})),
    ("__getitem__", "half, random", DTYPES, lambda x: ((x, x > 0), {})),
    ("__getitem__", "1 %, random", DTYPES, lambda x: ((x, x > 230), {})),
    ("__getitem__", "all", DTYPES, lambda x: ((x, x == x), {})),  # noqa: PLR0124
    ("matmul", "square", ("int64",), matrices),
)


def values(dtype: str, size: int) -> np.ndarray[Any, Any]:
    """Make normally distributed values, none of them zero."""
    x = (np.random.default_rng(size).standard_normal(size) * 100).astype(dtype)
    return np.where(x == 0, np.ones((), dtype), x)


def ratio(case: Case, dtype: str, size: int, rounds: int) -> str:
    """Measure one kernel on one dtype and size, and hold the answers together."""
    name, _, _, arguments = case
    args, params = arguments(values(dtype, size))
    statements, results = {}, []
    for backend in (NumPyBackend(), NumbaBackend()):
        function = backend.operation(name)
        assert function is not None
        results.append(function(*args, **params))
        names = {"f": function, "args": args, "params": params}
        statements[backend.name] = Statement("f(*args, **params)", names)
    # float32 sums differ by NumPy's error, which grows with the size.
    tolerance = 1e-2 if dtype == "float32" else 1e-6
    scale = float(np.max(np.abs(results[0]))) if results[0].size else 0.0
    np.testing.assert_allclose(results[1], results[0], rtol=tolerance, atol=tolerance * scale)
    times = _measure.interleave(statements, rounds)
    return f"{_measure.compare(times, 'numba')['numpy'].ratio:.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Compare the Numba kernels with NumPy.")
    parser.add_argument("--rounds", type=int, default=30, metavar="N")
    parser.add_argument("--only", metavar="NAME", help="only the operation of this name")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="elements, 100 up"
    )
    options = parser.parse_args(argv)
    if options.rounds < 1 or min(options.sizes) < 100:
        parser.error("expected at least one round, and sizes of at least 100")
    rows = [["operation", "on", "dtype", *map(str, options.sizes)]]
    with np.errstate(all="ignore"):
        for case in CASES:
            name, on, dtypes, _ = case
            if options.only not in (None, name):
                continue
            for dtype in dtypes:
                figures = [ratio(case, dtype, size, options.rounds) for size in options.sizes]
                rows.append([f"`{name}`", on, dtype, *figures])
    print(f"{_measure.processor()}; NumPy's time / the kernel's; {options.rounds} rounds\n")
    print(_measure.markdown(rows, words=3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
