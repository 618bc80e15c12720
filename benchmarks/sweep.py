"""Look for operations that corepy does more slowly than NumPy.

    python benchmarks/sweep.py
    python benchmarks/sweep.py --only sort --dtypes float32 int8 --sizes 1000 300000 --over 1.1

The grid measures some eighty operations well; this one some hundred and fifty statements, of all
kinds of dtypes, layouts and values, in a few rounds each. The statements mean the same in both
namespaces, or they are left out. What it prints is where to look, not a claim.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import corepy
from benchmarks._measure import Statement, compare, interleave, markdown

DTYPES: Final = (
    *("bool", "int8", "uint8", "int32", "int64", "float32", "float64"),
    *("complex64", "complex128"),
)
SIZES: Final = (10, 1_000, 20_000, 300_000)
ROUNDS: Final = 15

#: By the kinds of dtypes that they are for, as NumPy's letters. ``a`` and ``b`` are vectors, ``s``
#: is sorted, ``m`` and ``n`` are square matrices of about as many elements, ``r`` is a row, ``c`` a
#: column, ``i`` has places in a vector, ``j`` in a row, ``f`` flags for a random half, ``t`` for a
#: tenth; ``u`` is a stack of matrices, and ``one`` a scalar.
STATEMENTS: Final[dict[str, tuple[str, ...]]] = {
    "biufc": (
        *("a == b", "a[1:-1]", "a[i]", "a[f]", "a[t]", "a[f] = one", "a[t] = b[t]", "a[:] = one"),
        *("a[:] = b", "a[::-1] = b", "a[i] = b", "m[j]", "m[:, 1]", "m[1, 1]", "m[f[: len(j)]]"),
        *("m[:, 1] = r", "m[m == m]", "xp.where(f, a, b)", "xp.where(f, a, one)"),
        *("xp.nonzero(a)", "xp.nonzero(m)", "xp.count_nonzero(a)", "xp.count_nonzero(m, axis=1)"),
        *("xp.all(a)", "xp.any(m, axis=0)", "xp.flip(a)", "xp.roll(a, 3)", "xp.roll(m, 1, axis=1)"),
        *("xp.concat((a, b))", "xp.concat((m, n), axis=1)", "xp.stack((a, b), axis=1)"),
        *("xp.repeat(a, 2)", "xp.repeat(m, 2, axis=0)", "xp.tile(a, (2,))", "xp.tile(m, (1, 2))"),
        *("xp.take(a, i)", "xp.take(m, j, axis=0)", "xp.take(m, j, axis=1)", "xp.zeros_like(a)"),
        *("xp.full_like(a, one)", "xp.asarray(a, copy=True)", "xp.asarray(a[::2], copy=True)"),
        *("xp.asarray(m.T, copy=True)", "xp.reshape(m.T, (-1,))", "xp.tril(m)"),
        *("xp.astype(a, xp.bool)", "xp.unique_values(a)", "m[:, j]", "xp.where(m == n, m, r)"),
        *("xp.where(m == n, m.T, n)", "xp.count_nonzero(m, axis=0)", "xp.all(u, axis=1)"),
        *("xp.repeat(m, 2, axis=1)", "xp.tile(r, (5, 1))"),
    ),
    "biuf": (
        *("a < b", "xp.max(a)", "xp.max(m, axis=0)", "xp.min(m, axis=1)", "xp.argmax(a)"),
        *("xp.argmax(m, axis=0)", "xp.argmin(m, axis=1)", "xp.sort(a)", "xp.sort(s)"),
        *("xp.sort(s[::-1])", "xp.sort(m, axis=0)", "xp.sort(m, axis=1)", "xp.unique_counts(a)"),
        *("xp.unique_inverse(a)", "xp.searchsorted(s, b)", "xp.searchsorted(s, s)"),
        *("xp.astype(a, xp.float64)", "xp.astype(a, xp.float32)", "xp.astype(a, xp.int32)"),
        *(
            "xp.astype(a, xp.int8)",
            "xp.isin(a, b[:5])",
            "xp.max(u, axis=1)",
            "xp.max(u, axis=(0, 2))",
        ),
        *("xp.argmin(u, axis=1)", "xp.max(m.T, axis=1)", "xp.max(m[:, 1:], axis=1)"),
    ),
    "iufc": (
        *("a + b", "a * b", "3 + a", "-a", "a ** 2", "a ** 3", "a[::2] + b[::2]", "m + r", "m * c"),
        *("m[:, 1:] + n[:, 1:]", "m + m.T", "m.T * 2", "a @ b", "m @ n", "m @ n.T", "m @ r"),
        *("xp.abs(a)", "xp.square(a)", "xp.sign(a)", "xp.sum(a)", "xp.sum(m, axis=0)"),
        *(
            "xp.sum(m.T, axis=0)",
            "xp.sum(m, axis=1)",
            "xp.sum(u, axis=1)",
            "xp.sum(u, axis=(0, 2))",
        ),
        *("xp.sum(u[:, 1:], axis=0)", "xp.sum(xp.permute_dims(u, (2, 0, 1)), axis=2)"),
        *("xp.prod(one + 0 * a)", "xp.cumulative_sum(a)", "xp.cumulative_sum(m, axis=0)"),
        *("xp.diff(a)", "xp.diff(m, axis=0)", "xp.linalg.outer(r, r)", "xp.linalg.trace(m)"),
    ),
    "iuf": (
        *("xp.maximum(a, b)", "xp.clip(a, 20, 50)", "xp.clip(a, b, 50)", "xp.clip(m, r, c)"),
        "xp.clip(m, max=r)",
    ),
    "iu": ("a // b", "a % b", "a // 7", "a % 7", "a & b", "a << 1", "~a"),
    "fc": (
        *("a / b", "1 / a", "xp.sqrt(a)", "xp.exp(a)", "xp.log(a)", "xp.log1p(a)", "xp.sin(a)"),
        *("xp.tanh(a)", "xp.cosh(a)", "xp.atan(a)", "xp.isnan(a)", "xp.mean(a)"),
        *("xp.mean(m, axis=0)", "xp.linalg.vector_norm(a)", "xp.linalg.vector_norm(m, axis=1)"),
    ),
    "f": (
        *("xp.std(m, axis=0)", "xp.var(a)", "xp.var(m, axis=1)", "xp.var(u, axis=1)", "a ** 0.5"),
        *("xp.var(u, axis=(0, 2))", "xp.mean(u, axis=(1, 2))", "xp.std(m.T, axis=0)"),
    ),
    "c": ("xp.real(a)", "xp.conj(a)"),
}


def operands(dtype: str, size: int) -> dict[str, Any]:
    """Make NumPy's operands of a dtype: numbers from 1 to 99, which divide and have logarithms."""
    rng = np.random.default_rng(0)
    width = max(2, math.isqrt(size))
    side = max(2, round(size ** (1 / 3)))
    least, most = (0, 2) if dtype == "bool" else (1, 100)

    def some(*shape: int) -> np.ndarray[Any, Any]:
        return rng.integers(least, most, shape).astype(dtype)

    a = some(size)
    return {
        "a": a,
        "b": some(size),
        "s": np.sort(a),
        "m": some(width, width),
        "n": some(width, width),
        "r": some(width),
        "c": some(width, 1),
        "i": rng.integers(0, size, size),
        "j": rng.integers(0, width, width),
        "f": rng.random(size) < 0.5,
        "t": rng.random(size) < 0.1,
        "u": some(side, side, side),
    }


def cells(only: str, dtypes: list[str], sizes: list[int]) -> Iterator[tuple[str, str, int]]:
    """Yield what is to be measured: a statement, a dtype and a size."""
    for size in sizes:
        for dtype in dtypes:
            for kinds, statements in STATEMENTS.items():
                if np.dtype(dtype).kind in kinds:
                    yield from ((code, dtype, size) for code in statements if only in code)


def measure(code: str, dtype: str, size: int) -> tuple[float, float, float] | None:
    """Return corepy's time by NumPy's, and both in microseconds; None where a namespace refuses."""
    natives = operands(dtype, size)
    one = np.ones(1, dtype)[0].item()
    ours = {name: corepy.array_api.asarray(x, copy=True) for name, x in natives.items()}
    statements = {
        "numpy": Statement(code, natives | {"xp": np, "one": one}),
        "corepy": Statement(code, ours | {"xp": corepy.array_api, "one": one}),
    }
    try:
        for _ in range(2):
            for statement in statements.values():
                exec(statement.code, dict(statement.names))
    except (AttributeError, TypeError, ValueError, IndexError):
        return None
    found = compare(interleave(statements, ROUNDS), "numpy")
    return found["corepy"].ratio, found["corepy"].median_ns / 1e3, found["numpy"].median_ns / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Look for what corepy does more slowly than NumPy."
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="statements with this text")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES, metavar="DTYPE")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="N", help="elements")
    parser.add_argument(
        "--over", type=float, default=1.1, metavar="RATIO", help="print from here on"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, ratios = [], []
    with np.errstate(all="ignore"):
        for code, dtype, size in cells(given.only, list(given.dtypes), list(given.sizes)):
            found = measure(code, dtype, size)
            if found is not None:
                ratios.append(found[0])
                rows.append((found[0], code, dtype, size, *found[1:]))
    if not rows:
        parser.error(f"no statement has the text {given.only!r}")
    slow = sorted((row for row in rows if row[0] > given.over), reverse=True)
    titles = ["statement", "dtype", "elements", "corepy, us", "NumPy, us", "times NumPy's"]
    table = [
        [f"`{code}`", dtype, str(size), f"{ours:.1f}", f"{numpys:.1f}", f"{ratio:.2f}"]
        for ratio, code, dtype, size, ours, numpys in slow
    ]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(rows)} cells, {1 / mean:.2f} times NumPy's speed in geometric mean;")
    print(f"{len(slow)} take over {given.over} times NumPy's time.\n")
    print(markdown([titles, *table], 2))


if __name__ == "__main__":
    main()
