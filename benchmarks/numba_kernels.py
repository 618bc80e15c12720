"""Where the kernels of the Numba backend beat NumPy: the ratio of times, kernel by kernel.

    python benchmarks/numba_kernels.py
    python benchmarks/numba_kernels.py --only sum --rounds 50 --sizes 1000 100000
    python benchmarks/numba_kernels.py --save      # into benchmarks/results

Each figure is how many times longer NumPy's own function takes: the median over interleaved rounds
of the ratio within one round; see `benchmarks/_measure.py`. Both are called as the dispatcher
calls them, so the checks before a kernel and the memory for its result are counted; with
``COREPY_NUMBA_THRESHOLD=0`` in the environment, kernels run at sizes as well at which they would
leave the work to NumPy. A kernel that does not win stays out of `corepy/backends/numba/`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from platform import platform
from typing import Any, Final

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks import _measure
from benchmarks._measure import Statement
from corepy import get_num_threads
from corepy.backends._numpy import NumPyBackend
from corepy.backends.numba import NumbaBackend

DTYPES: Final = ("float32", "float64", "int64")
FLOATS: Final = DTYPES[:2]
SIZES: Final = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
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


def pair(x: np.ndarray[Any, Any]) -> Arguments:
    """Make two vectors."""
    return (x, x[::-1].copy()), {}


def alone(x: np.ndarray[Any, Any]) -> Arguments:
    """Make one vector."""
    return (x,), {}


def small(x: np.ndarray[Any, Any]) -> Arguments:
    """Make one vector of numbers whose exponentials are in range."""
    return (x / x.dtype.type(100),), {}


def positive(x: np.ndarray[Any, Any]) -> Arguments:
    """Make one vector of positive numbers."""
    return (np.abs(x),), {}


def inside(x: np.ndarray[Any, Any]) -> Arguments:
    """Make one vector of numbers from -1 to 1."""
    return (x / np.max(np.abs(x)),), {}


def ordering(x: np.ndarray[Any, Any]) -> Arguments:
    """Make the arguments of `sort`; integers are of all sizes."""
    operand = x if x.dtype.kind == "f" else x.astype(np.int64) ** 5
    return (operand,), {"axis": 0, "descending": False, "stable": True}


def few(x: np.ndarray[Any, Any]) -> Arguments:
    """Make one vector of few different values."""
    return (np.round(x / x.dtype.type(10)).astype(x.dtype),), {}


def wide(x: np.ndarray[Any, Any]) -> Arguments:
    """Make one vector of many different values."""
    return (x * x.dtype.type(1_000_003),), {}


def indices(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Make random indices of a vector."""
    return np.random.default_rng(1).integers(-x.size, x.size, x.size)


def rows(x: np.ndarray[Any, Any]) -> Arguments:
    """Make a matrix of 64 columns, and random rows of it."""
    matrix = x[: x.size // 64 * 64].reshape(-1, 64)
    return (matrix, np.random.default_rng(1).integers(0, len(matrix), len(matrix))), {"axis": 0}


CASES: Final[tuple[Case, ...]] = (
    *((name, "pairs", FLOATS, pair) for name in ("add", "multiply", "divide", "less")),
    *((name, "random", FLOATS, alone) for name in ("abs", "square", "isnan", "cos", "sin", "tan")),
    *((name, "up to 4", FLOATS, small) for name in ("exp", "expm1", "tanh", "sinh", "cosh")),
    *((name, "positive", FLOATS, positive) for name in ("log", "log1p", "log2", "log10", "sqrt")),
    *((name, "-1 to 1", FLOATS, inside) for name in ("acos", "asin", "atan", "atanh")),
    ("sign", "random", FLOATS, alone),
    *((name, "pairs", FLOATS, pair) for name in ("atan2", "hypot", "logaddexp", "nextafter")),
    ("pow", "pairs", FLOATS, lambda x: ((np.abs(x), x[::-1] / x.dtype.type(20)), {})),
    ("pow", "to 2.5", FLOATS, lambda x: ((np.abs(x), x.dtype.type(2.5)), {})),
    *((name, "pairs", FLOATS, pair) for name in ("floor_divide", "remainder")),
    ("floor_divide", "by 3", FLOATS, lambda x: ((x, x.dtype.type(3)), {})),
    ("remainder", "by 3", FLOATS, lambda x: ((x, x.dtype.type(3)), {})),
    ("sum", "all", DTYPES, accumulation(None)),
    ("sum", "axis 0", FLOATS, accumulation(0)),
    ("sum", "axis 1", DTYPES, accumulation(1)),
    ("mean", "all", FLOATS, reduction(None)),
    ("mean", "axis 0", FLOATS, reduction(0)),
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
    ("argmax", "all", DTYPES, reduction(None)),
    ("argmax", "axis 0", DTYPES, reduction(0)),
    ("argmin", "axis 0", DTYPES, reduction(0)),
    ("count_nonzero", "all", DTYPES, reduction(None)),
    ("cumulative_sum", "1-D", FLOATS, running(0)),
    ("cumulative_sum", "axis 0", FLOATS, running_columns),
    ("cumulative_sum", "axis 1", FLOATS, running(1)),
    ("cumulative_prod", "1-D", FLOATS, running(0)),
    ("cumulative_prod", "axis 0", FLOATS, running_columns),
    ("where", "random", DTYPES, lambda x: ((x > 0, x, x[::-1].copy()), {})),
    ("where", "sorted", DTYPES, lambda x: ((np.sort(x) > 0, x, x[::-1].copy()), {})),
    ("where", "one value", DTYPES, lambda x: ((x > 0, x, x.dtype.type(1)), {})),
    ("__getitem__", "half, random", DTYPES, lambda x: ((x, x > 0), {})),
    ("__getitem__", "1 %, random", DTYPES, lambda x: ((x, x > 230), {})),
    ("__getitem__", "all", DTYPES, lambda x: ((x, x == x), {})),  # noqa: PLR0124
    ("__getitem__", "indices", DTYPES, lambda x: ((x, indices(x)), {})),
    ("take", "elements", FLOATS, lambda x: ((x, indices(x)), {"axis": 0})),
    ("take", "rows of 64", FLOATS, rows),
    ("nonzero", "half, random", DTYPES, lambda x: ((x > 0,), {})),
    ("sort", "random", DTYPES, ordering),
    ("argsort", "random", DTYPES, ordering),
    ("unique_values", "many", DTYPES, wide),
    ("unique_values", "few", DTYPES, few),
    ("unique_counts", "many", DTYPES, wide),
    ("unique_inverse", "many", DTYPES, wide),
    ("unique_all", "few", DTYPES, few),
    (
        "searchsorted",
        "random",
        DTYPES,
        lambda x: ((np.sort(x), x[::-1].copy()), {"side": "left", "sorter": None}),
    ),
    ("matmul", "square", ("int64",), matrices),
)


def values(dtype: str, size: int) -> np.ndarray[Any, Any]:
    """Make normally distributed values, none of them zero."""
    x = (np.random.default_rng(size).standard_normal(size) * 100).astype(dtype)
    return np.where(x == 0, np.ones((), dtype), x)


def same(found: Any, expected: Any, dtype: str) -> None:
    """Hold the answers together; float32 sums differ by NumPy's error, which grows with size."""
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            same(one, other, dtype)
        return
    tolerance = 1e-2 if dtype == "float32" else 1e-6
    scale = float(np.max(np.abs(expected))) if np.size(expected) else 0.0
    if np.asarray(expected).dtype.kind == "b":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


def ratio(case: Case, dtype: str, size: int, rounds: int) -> str:
    """Measure one kernel on one dtype and size."""
    name, _, _, arguments = case
    args, params = arguments(values(dtype, size))
    statements, results = {}, []
    for backend in (NumPyBackend(), NumbaBackend()):
        function = backend.operation(name)
        assert function is not None
        results.append(function(*args, **params))
        names = {"f": function, "args": args, "params": params}
        statements[backend.name] = Statement("f(*args, **params)", names)
    same(results[1], results[0], dtype)
    del results
    times = _measure.interleave(statements, rounds)
    return f"{_measure.compare(times, 'numba')['numpy'].ratio:.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Compare the Numba kernels with NumPy.")
    parser.add_argument("--rounds", type=int, default=30, metavar="N")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only operations of these names")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="elements, 100 up"
    )
    parser.add_argument("--save", action="store_true", help="keep the table in benchmarks/results")
    options = parser.parse_args(argv)
    if options.rounds < 1 or min(options.sizes) < 100:
        parser.error("expected at least one round, and sizes of at least 100")
    if unknown := set(options.only or ()) - {name for name, *_ in CASES}:
        parser.error(f"--only has {', '.join(sorted(unknown))}; expected names of operations")
    table = [["operation", "on", "dtype", *map(str, options.sizes)]]
    with np.errstate(all="ignore"):
        for case in CASES:
            name, on, dtypes, _ = case
            if options.only and name not in options.only:
                continue
            for dtype in dtypes:
                figures = [ratio(case, dtype, size, options.rounds) for size in options.sizes]
                table.append([f"`{name}`", on, dtype, *figures])
                print(*table[-1], file=sys.stderr)
    cores, (load, *_) = get_num_threads(), os.getloadavg()
    versions = " ".join(f"{k} {v}" for k, v in _measure.versions(("numpy", "numba")).items())
    text = (
        "# Numba kernels and NumPy\n\n"
        f"NumPy's time as a multiple of the kernel's: {_measure.processor()}, {cores} threads, "
        f"{versions}, {options.rounds} rounds, load {load:.1f}, {platform()}.\n\n"
        f"{_measure.markdown(table, words=3)}\n"
    )
    print(text)
    if options.save:
        date = datetime.now(UTC).date().isoformat()
        name = f"numba-kernels-{_measure.slug(_measure.processor())}-{date}.md"
        (_measure.ROOT / "benchmarks" / "results" / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
