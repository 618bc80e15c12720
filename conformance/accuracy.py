"""How far results may lie, and do lie, from the correctly rounded ones.

    python conformance/accuracy.py                    # measure every usable backend, print
    python conformance/accuracy.py --write            # and publish docs/accuracy.md
    python conformance/accuracy.py --backend torch    # one of them

The reference backend computes each result exactly, or to hundreds of bits, and rounds once. The
distance from it is counted in units in the last place (ulp) of the reference's result.

`bound` is what the tests hold every backend to; `BOUNDS` lists what may be inexact at all.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import platform
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.dispatch import OPERATIONS

HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE / "results" / "accuracy.json"
PAGE: Final = HERE.parent / "docs" / "accuracy.md"
BEGIN: Final = "<!-- made by: python conformance/accuracy.py --write -->"
REFERENCE: Final = "reference"
DTYPE_NAMES: Final = ("float32", "float64", "complex64", "complex128")

# ---------------------------------------------------------------------------- distances


def ulps(result: Any, wanted: Any, *, together: bool = False) -> float:
    """Return the greatest distance of results from the right ones, in ulp of the right ones.

    Parameters
    ----------
    result, wanted : array_like
        Of one floating-point dtype and shape.
    together : bool
        Whether the unit is that of the greatest element, as is usual for matrices and transforms.

    Returns
    -------
    float
        Infinite where one is NaN or infinite and the other is not the same. Complex numbers are
        measured by their modulus. Where the right result is subnormal both count as zero, since
        some libraries flush such numbers.
    """
    got, right = np.asarray(result), np.asarray(wanted)
    if right.size == 0:
        return 0.0
    parts = (got.real, right.real), (got.imag, right.imag)
    for part, want in parts if right.dtype.kind == "c" else parts[:1]:
        odd = ~(np.isfinite(part) & np.isfinite(want))
        if not np.array_equal(part[odd], want[odd], equal_nan=True):
            return math.inf
    finite = np.isfinite(got) & np.isfinite(right)
    got, right = got[finite], right[finite]
    if right.size == 0:
        return 0.0
    size = np.abs(right)
    real = size.dtype.type
    tiny = np.finfo(real).smallest_normal  # below it the format itself loses digits
    if together:
        size = np.full_like(size, size.max())
    distance = np.abs(got - right)
    counts = (size >= tiny) | (np.abs(got) > 2 * tiny)
    unit = np.spacing(np.clip(size, tiny, np.finfo(real).max / 2))
    with np.errstate(over="ignore"):
        return float(np.max((distance / unit)[counts], initial=0.0))


# ---------------------------------------------------------------------------- what is run

#: Elementwise functions of one and two operands whose results are floating-point numbers.
_BINARY: Final = (
    "add",
    "atan2",
    "copysign",
    "divide",
    "floor_divide",
    "hypot",
    "logaddexp",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "pow",
    "remainder",
    "subtract",
)
_UNARY: Final = (
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "floor",
    "log",
    "log10",
    "log1p",
    "log2",
    "negative",
    "reciprocal",
    "round",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
)
#: Functions that add up: their unit is the ulp of the greatest element of the result.
_SUMS: Final = (
    "cumulative_prod",
    "cumulative_sum",
    "mean",
    "prod",
    "std",
    "sum",
    "var",
    "matmul",
    "tensordot",
    "vecdot",
)
_LINALG: Final = (
    "linalg.cholesky",
    "linalg.cross",
    "linalg.det",
    "linalg.eigvalsh",
    "linalg.inv",
    "linalg.matrix_norm",
    "linalg.matrix_power",
    "linalg.outer",
    "linalg.pinv",
    "linalg.slogdet",
    "linalg.solve",
    "linalg.svdvals",
    "linalg.trace",
    "linalg.vector_norm",
)
_FFT: Final = (
    "fft.fft",
    "fft.fftn",
    "fft.hfft",
    "fft.ifft",
    "fft.ifftn",
    "fft.ihfft",
    "fft.irfft",
    "fft.irfftn",
    "fft.rfft",
    "fft.rfftn",
)
FUNCTIONS: Final = (*_UNARY, *_BINARY, *_SUMS, *_LINALG, *_FFT)


def is_joint(name: str) -> bool:
    """Say whether a function's results are measured by the greatest element of them."""
    return name in (*_SUMS, "linspace") or name.startswith(("linalg.", "fft."))


_SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, math.inf, -math.inf, math.nan)
_LANDMARKS: Final = (2.0, 3.0, 10.0, 100.0, 1e-3, 1e-7, math.pi, math.pi / 2, math.e, 1e5, 1e15)
#: Ordinary numbers of each sign.
_COUNT: Final = 120


def grid(dtype: str) -> Any:
    """Return the numbers on which functions are measured: fixed, ordinary and special ones."""
    random = np.random.default_rng(2025)
    moderate = random.uniform(-12, 12, _COUNT)
    wide = np.exp2(random.uniform(-30, 30, _COUNT)) * random.choice([-1, 1], _COUNT)
    below_one = random.uniform(-1, 1, _COUNT)
    reals = np.concatenate([moderate, wide, below_one, _LANDMARKS, np.negative(_LANDMARKS)])
    if DTYPES[dtype].kind == "f":
        return np.concatenate([reals, _SPECIAL]).astype(dtype)
    # Infinities and NaN in one part are the business of the standard's tests, not of a distance.
    return (reals + 1j * random.permutation(reals)).astype(dtype)


def _sums(name: str, dtype: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return operands that do not cancel: what is left of a sum then says nothing of its errors."""
    values = np.abs(grid(dtype)[:_COUNT].astype(np.complex128).view(np.float64))
    rows = values.reshape(2, -1)[:, :_COUNT].copy()
    if "prod" in name:
        rows = (0.5 + rows % 1.5)[:, :24]  # neither overflows nor underflows
    if DTYPES[dtype].kind == "c":
        rows = rows.view(np.complex128)
    rows = rows.astype(dtype)
    half = rows.shape[1] // 2
    match name:
        case "vecdot":
            return (rows[:, :half], rows[:, half:]), {}
        case "matmul" | "tensordot":
            return (rows[:, :half], rows[:, half:].T), {"axes": 1} if name == "tensordot" else {}
    return (rows,), {"axis": 1}


def _matrix(dtype: str) -> Any:
    random = np.random.default_rng(12)
    values = random.uniform(-1, 1, (6, 6))
    if DTYPES[dtype].kind == "c":
        values = values + 1j * random.uniform(-1, 1, (6, 6))
    return (values + 3 * np.eye(6)).astype(dtype)


def _definite(dtype: str) -> Any:
    values = _matrix(dtype)
    return (values @ values.conj().T).astype(dtype)


def arguments(name: str, dtype: str) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the operands on which a function is measured, None where it does not take a dtype."""
    if DTYPES[dtype] not in OPERATIONS[name].dtypes:
        return None
    plain = name.rpartition(".")[2]
    if name in _UNARY:
        return (grid(dtype),), {}
    if name in _BINARY:
        values = grid(dtype)
        if name == "pow" and DTYPES[dtype].kind == "c":
            # Beyond these results overflow, or hang on every digit of the operands.
            values = values[:_COUNT].real / 4 + 1j * values[_COUNT - 1 :: -1].real / 4
            values = values.astype(dtype)
        return (values, np.random.default_rng(7).permutation(values)), {}
    if name in _SUMS:
        return _sums(plain, dtype)
    if name in _FFT:
        return (_matrix(dtype),), {}
    first = _definite(dtype) if plain in ("cholesky", "eigvalsh") else _matrix(dtype)
    return {
        "cross": ((first[:, :3], first[:, 3:]), {}),
        "matrix_power": ((first, 5), {}),
        "outer": ((first[0], first[1]), {}),
        "solve": ((first, first[:, 0]), {}),
    }.get(plain, ((first,), {}))


# ---------------------------------------------------------------------------- bounds

#: Greatest distance in ulp of each function that is not exact, over all dtypes: the first number
#: for every backend, then those of backends that need more. ``"abs complex"`` is for the complex
#: dtypes, where such an entry exists.
BOUNDS: Final[dict[str, tuple[float, dict[str, float]]]] = {
    "abs complex": (3, {}),
    "acos": (4, {}),
    "acosh": (4, {}),
    "asin": (4, {}),
    "asinh": (4, {}),
    "atan": (4, {}),
    "atan complex": (4, {"mlx": 8}),
    "atan2": (4, {}),
    "atanh": (4, {}),
    "atanh complex": (4, {"mlx": 8}),
    "cos": (4, {}),
    "cosh": (4, {}),
    "cumulative_prod": (32, {}),
    "cumulative_sum": (32, {}),
    "divide complex": (4, {}),
    "exp": (4, {"jax": 8}),  # XLA: of float32, just before it overflows
    "expm1": (4, {"jax": 8}),
    "fft.fft": (8, {}),
    "fft.fftfreq": (1, {}),
    "fft.fftn": (8, {}),
    "fft.hfft": (8, {}),
    "fft.ifft": (8, {}),
    "fft.ifftn": (8, {}),
    "fft.ihfft": (8, {}),
    "fft.irfft": (8, {}),
    "fft.irfftn": (8, {}),
    "fft.rfft": (8, {}),
    "fft.rfftfreq": (1, {}),
    "fft.rfftn": (8, {}),
    "floor_divide": (1, {}),  # quotients beyond the integers that the format holds
    "hypot": (4, {}),
    "linalg.cholesky": (16, {}),
    "linalg.cross": (4, {}),
    "linalg.det": (32, {}),
    "linalg.eigh": (64, {}),
    "linalg.eigvals": (64, {}),
    "linalg.eigvalsh": (64, {}),
    "linalg.inv": (32, {}),
    "linalg.matrix_norm": (32, {}),
    "linalg.matrix_power": (32, {}),
    "linalg.outer complex": (4, {}),
    "linalg.pinv": (64, {}),
    "linalg.qr": (32, {}),
    "linalg.slogdet": (32, {}),
    "linalg.solve": (32, {}),
    "linalg.svd": (64, {}),
    "linalg.svdvals": (64, {}),
    "linalg.tensordot": (16, {}),
    "linalg.trace": (16, {}),
    "linalg.vecdot": (16, {}),
    "linalg.vector_norm": (16, {}),
    "linalg.matmul": (16, {}),
    "linspace": (2, {}),
    "log": (4, {}),
    "log10": (4, {}),
    "log1p": (4, {}),
    "log2": (4, {}),
    "logaddexp": (32, {}),
    "matmul": (16, {}),
    "mean": (16, {}),
    "multiply complex": (2, {}),
    "pow": (4, {}),
    "pow complex": (2048, {}),  # exp(y log(x)): its error grows with the exponent
    "prod": (32, {}),
    "reciprocal complex": (4, {}),
    "sign complex": (4, {}),
    "sin": (4, {}),
    "sinh": (4, {}),
    "sqrt": (1, {}),
    "sqrt complex": (4, {}),
    "square complex": (2, {}),
    "std": (32, {}),
    "sum": (16, {}),
    "tan": (4, {}),
    "tan complex": (8, {}),
    "tanh": (8, {}),
    "tensordot": (16, {}),
    "var": (32, {}),
    "vecdot": (16, {}),
}


def bound(name: str, backend: str, dtype: str = "float64") -> float:
    """Return how far a backend's result of a function may lie from the correctly rounded one.

    Parameters
    ----------
    name : str
        The function, ``"linalg.det"`` for those of the extensions.
    backend, dtype : str

    Returns
    -------
    float
        In ulp, as `ulps` counts them; 0 for functions whose results are exact.
    """
    plain = BOUNDS.get(name, (0.0, {}))
    every, own = BOUNDS.get(f"{name} complex", plain) if dtype.startswith("c") else plain
    return own.get(backend, every)


# ---------------------------------------------------------------------------- measuring


def compute(backend: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the results of a function in a backend, as NumPy arrays."""
    extension, _, plain = name.rpartition(".")
    function = getattr(getattr(xp, extension) if extension else xp, plain)
    with corepy.backend_priority([backend]), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of infinities and NaN
        operands = [
            corepy.to(x, backend=backend, copy=True) if isinstance(x, np.ndarray) else x
            for x in args
        ]
        with corepy.set_fallback("allow"):
            made = function(*operands, **kwargs)
        # Here, for only now a lazy backend computes them.
        return [np.array(x) for x in (made if isinstance(made, tuple) else (made,))]


def measure(
    backends: Iterable[str], names: Iterable[str] = FUNCTIONS
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the worst distance by function, dtype and backend."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    tested = [name for name in backends if name != REFERENCE]
    for name in names:
        for dtype in DTYPE_NAMES:
            operands = arguments(name, dtype)
            if operands is None:
                continue
            right = compute(REFERENCE, name, *operands)
            for backend in tested:
                got = compute(backend, name, *operands)
                worst = max(
                    ulps(a, b, together=is_joint(name)) for a, b in zip(got, right, strict=True)
                )
                found.setdefault(name, {}).setdefault(dtype, {})[backend] = round(worst, 2)
    return found


# ---------------------------------------------------------------------------- the page


def page(record: Mapping[str, Any]) -> str:
    """Return the part of the page that is measured: functions by dtype, a column a backend."""
    backends = list(record["versions"])
    lines = [
        f"| function | dtype | {' | '.join(backends)} |",
        f"|---|---|{'---|' * len(backends)}",
    ]
    exact = []
    for name, dtypes in record["distances"].items():
        if not any(distance for row in dtypes.values() for distance in row.values()):
            exact.append(f"`{name}`")
            continue
        for dtype, row in dtypes.items():
            cells = [_cell(name, backend, dtype, row[backend]) for backend in backends]
            lines.append(f"| {name} | {dtype} | {' | '.join(cells)} |")
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return (
        f"{BEGIN}\n\n" + "\n".join(lines) + f"\n\nExact everywhere: {', '.join(exact)}.\n\n"
        f"Measured with {versions}, on {record['machine']}.\n"
    )


def _cell(name: str, backend: str, dtype: str, distance: float) -> str:
    text = f"{distance:.3g}"
    return text if distance <= bound(name, backend, dtype) else f"**{text}**"


def _version(backend: str) -> str:
    return importlib.metadata.version(backend)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, publish; return 1 if a bound does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", action="append", help="measure this one (repeatable)")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name} and results")
    chosen = parser.parse_args(argv)
    backends = chosen.backend or [
        row.name
        for row in corepy.backend_status()
        if row.usable and row.name != REFERENCE and importlib.util.find_spec(row.name)
    ]
    if chosen.write:
        published = json.loads(RESULTS.read_text(encoding="utf-8"))["versions"]
        lost = [name for name in published if name not in backends]
        if lost:
            parser.error(f"--write would lose what is published of {', '.join(lost)}; measure all")
    distances = measure(backends)
    record = {
        "versions": {name: _version(name) for name in backends},
        "machine": f"Python {platform.python_version()}, {platform.machine()}",
        "distances": distances,
    }
    if chosen.write:
        RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        prose, _, _ = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(prose + page(record), encoding="utf-8")
    else:
        print(page(record))
    beyond = [
        f"{name} of {dtype} on {backend}: {distance} ulp, bound {bound(name, backend, dtype)}"
        for name, dtypes in distances.items()
        for dtype, row in dtypes.items()
        for backend, distance in row.items()
        if distance > bound(name, backend, dtype)
    ]
    print("\n".join(beyond), file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
