"""Whether a library means what NumPy means, tried on ordinary and special values before a route.

`corepy.dispatch._admitted` lists what was found to mean the same. Here each of it is tried again
with the versions and on the processor at hand, for either may differ from where that was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._signals import let_through
from corepy.dispatch._admitted import ADMITTED
from corepy.tuning._cases import Case, operands, without_zeros

Array = npt.NDArray[Any]
Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]

#: Greatest distance in ulp from the right result, as `docs/accuracy.md` publishes it. Two results
#: may lie on two sides, so twice of it apart. What is not here is exact.
ULP: Final[dict[str, float]] = {
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh"), 4),
    **dict.fromkeys(("cos", "cosh", "exp", "expm1", "hypot", "pow", "sin", "sinh", "tan"), 4),
    **dict.fromkeys(("log", "log10", "log1p", "log2"), 4),
    **dict.fromkeys(("floor_divide", "sqrt"), 1),
    **dict.fromkeys(("matmul", "mean", "sum"), 16),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum", "logaddexp", "prod", "std", "var"), 32),
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.irfft", "fft.rfft", "tanh"), 8),
    **dict.fromkeys(("fft.fftn", "fft.ifftn", "fft.irfftn", "fft.rfftn"), 8),
    "linalg.cholesky": 16,
    **dict.fromkeys(("linalg.det", "linalg.inv", "linalg.qr", "linalg.solve"), 32),
    **dict.fromkeys(("linalg.eigh", "linalg.eigvalsh", "linalg.svd", "linalg.svdvals"), 64),
}
#: Operations whose results are measured by what went in: they add up.
_JOINT: Final = frozenset(
    {"cumulative_prod", "cumulative_sum", "matmul", "mean", "prod", "std", "sum", "var"}
)
#: Results of which only some are determined; the others have a sign to choose.
_DETERMINED: Final = {"linalg.eigh": 0, "linalg.svd": 1}
#: Which of two equal zeros comes, the standard leaves open.
_ANY_ZERO: Final = frozenset(
    {
        *("max", "maximum", "min", "minimum"),
        *("unique_all", "unique_counts", "unique_inverse", "unique_values"),
        *_JOINT,
    }
)

_SIZES: Final = (1, 3, 4099)
_SIDES: Final = (4, 64)
#: Of matrices that are long.
_LONG: Final = (1 << 16, 1 << 18)


def refusal(look: Callable[[], str | None]) -> str | None:
    """Return what a look at a candidate tells against it, None if nothing.

    So does whatever its library raises: that is a reason not to use it.
    """
    try:
        return look()
    except Exception as error:
        let_through(error)
        return f"{type(error).__name__}: {error}"


def deviation(case: Case, home: Call, candidate: Call) -> str | None:
    """Return where a candidate's result differs from NumPy's by more than it may, None if nowhere.

    Parameters
    ----------
    case : Case
    home, candidate : callable
        What runs the operation, with its positional and keyword arguments.
    """
    for words, args, params in _trials(case):
        with np.errstate(all="ignore"):
            wanted, got = home(args, params), candidate(args, params)
            found = _difference(case, args, got, wanted)
        if found:
            return f"{words}: {found}"
    return None


def _trials(case: Case) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    rng = np.random.default_rng(5)
    sizes = _LONG if case.form in ("inner", "tall") else _SIZES
    for size in [side * side for side in _SIDES] if case.squares else sizes:
        args, params = operands(case, size, rng)
        if 0 in (params.get("n"), *params.get("s", ())):  # what one element is the half of
            continue
        yield f"{size} elements", args, params
    if case.is_linear or case.operation.startswith("fft."):
        return
    for words, special in _specials(case, rng):
        args, params = operands(case, special.size, rng, special)
        if ADMITTED[case.operation].operands == 2 and case.operation != "__getitem__":
            other = without_zeros(case, rng.permutation(special))
            args = (args[0], other[: args[1].size].reshape(args[1].shape))
        yield words, args, params


def _specials(case: Case, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield names and vectors of 4096 elements with what is easily got wrong."""
    dtype = np.dtype(case.dtype)
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        if case.operation == "pow" or "shift" in case.operation:
            return  # to negative powers, and by more than there are bits, means nothing
        yield "extremes", rng.choice([limits.min, limits.max, 0, 1, -1], 4096).astype(dtype)
        return
    if dtype.kind in "bc":
        return
    ordinary = rng.standard_normal(4096).astype(dtype)
    for value in (np.nan, np.inf, -np.inf):
        one = ordinary.copy()
        one[1234] = value
        yield f"one {value}", one
    yield "minus zeros", np.full(4096, -0.0, dtype)
    yield "duplicates", rng.choice(np.array([0.0, -0.0, 1.0, -1.0, np.nan], dtype), 4096)
    if case.operation in _JOINT:
        return
    reach = np.finfo(dtype)
    points = [0, 0.5, 1, 2, 3, np.pi, 1e5, 1e15, reach.tiny, reach.max, np.inf]
    points += [reach.eps, reach.smallest_subnormal * 9]
    signed = np.array([*points, *np.negative(points), np.nan], dtype)
    wide = np.exp2(rng.uniform(reach.minexp + 30, reach.maxexp - 2, 4096))
    mixed = (wide * rng.choice([-1, 1], 4096)).astype(dtype)
    mixed[: 80 * signed.size] = np.tile(signed, 80)
    yield "special values", rng.permutation(mixed)
    yield (
        "wide range",
        (np.exp2(rng.uniform(-20, 20, 4096)) * rng.choice([-1, 1], 4096)).astype(dtype),
    )


# ---------------------------------------------------------------------------- distances


def _difference(case: Case, args: tuple[Any, ...], got: Any, wanted: Any) -> str | None:
    results = [tuple(x) if isinstance(x, tuple) else (x,) for x in (got, wanted)]
    if len(results[0]) != len(results[1]):
        return f"{len(results[0])} results; expected {len(results[1])}"
    pairs = list(zip(*results, strict=True))
    if case.operation in _DETERMINED:
        pairs = [pairs[_DETERMINED[case.operation]]]
    elif case.operation.startswith("unique") and np.isnan(args[0]).any():
        pairs = pairs[:1]  # which NaN comes first, nobody says
    elif case.operation == "linalg.qr":
        pairs = [(np.abs(got), np.abs(wanted)) for got, wanted in pairs]
    for a, b in pairs:
        x, y = np.asarray(a), np.asarray(b)
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"{x.dtype} {x.shape}; expected {y.dtype} {y.shape}"
        found = _distance(case, args, x, y)
        if found:
            return found
    return None


def _distance(case: Case, args: tuple[Any, ...], got: Array, wanted: Array) -> str | None:
    if wanted.dtype.kind not in "fc":
        return None if np.array_equal(got, wanted) else "other values"
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return "other infinities or NaN"
    if not np.isfinite(got[finite]).all():
        return "infinities or NaN where NumPy has numbers"
    if case.operation not in _ANY_ZERO and wanted.dtype.kind == "f":
        zeros = (wanted == 0) & (got == 0)
        if not np.array_equal(np.signbit(got[zeros]), np.signbit(wanted[zeros])):
            return "zeros of other signs"
    size, tiny = np.abs(wanted[finite]), np.finfo(wanted.dtype).tiny
    if not size.size:
        return None
    if case.operation in _JOINT:
        given = float(np.abs(args[0][np.isfinite(args[0])], dtype=float).sum())
        size = np.full_like(size, max(float(size.max()), given))
    elif case.operation == "logaddexp":
        size = np.maximum(size, 1)  # which cancels where the result is near zero
    elif case.is_linear or case.operation.startswith("fft."):
        size = np.full_like(size, float(size.max()))
    unit = np.spacing(np.maximum(size, tiny))
    apart = float(np.max(np.abs(got[finite] - wanted[finite]) / unit))
    allowed = 2 * ULP.get(case.operation, 0.0)
    return None if apart <= allowed else f"{apart:.3g} ulp apart; expected at most {allowed:g}"
