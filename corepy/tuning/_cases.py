"""What is measured: operations by dtype and form, and operands of each size for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._dtypes import DTYPES
from corepy.backends._extents import INNER, TALL
from corepy.backends._numpy import NumPyBackend
from corepy.devices._pool import recycling
from corepy.dispatch._admitted import ADMITTED, CANDIDATES, ROUTABLE, admits
from corepy.dispatch._considerate import concerns, considerate
from corepy.dispatch._crossings import bound
from corepy.dispatch._operations import OPERATIONS
from corepy.dispatch._registry import load, load_each
from corepy.dispatch._routers import Call
from corepy.tuning._calls import called
from corepy.tuning._clock import Work
from corepy.tuning._names import require_known

Array = npt.NDArray[Any]

#: The dtypes that are worth measuring, by the first letters of operations; others run in NumPy.
_DTYPES: Final = ("float32", "float64", "int64")
_MORE: Final = {"fft.": ("complex64", "complex128"), "logical": ("bool",)}
#: Elements of the largest operand. The first one is measured first, then the greater, of which the
#: last ones are in no cache, then down for as long as somebody beats NumPy. No powers of two: there
#: the stretches of two threads fall on the same lines of the caches and banks of the memory, and
#: what threads gain is understated.
FIRST: Final = 1_000_000
GREATER: Final = (3_000_000, 10_000_000)
SMALLER: Final = (300_000, 100_000, 30_000, 10_000, 3_000, 1_000)
#: The same for matrices, whose operations take time of the third power of the side. Threads of BLAS
#: begin to share them somewhere from 96 to 128 rows, at once with much.
FIRST_SIDE: Final = 256
GREATER_SIDES: Final = (512, 1024)
SMALLER_SIDES: Final = (128, 112, 96, 64, 32)
#: Columns of a matrix of many rows.
_COLUMNS: Final = 64
#: Rows and columns of a small product of long matrices, such as sums by cluster.
_FEW: Final = (10, 32)
#: Columns of a matrix that is multiplied by a small one.
_NARROW: Final = 16
#: Elements of a row at the most, where rows are reduced.
_WIDTH: Final = 3000
#: Of a narrow matrix, whose columns are reduced.
_SLENDER: Final = 8


@dataclass(frozen=True, slots=True)
class Case:
    """An operation on operands of one dtype and form, which NumPy runs unless told otherwise."""

    operation: str
    dtype: str
    form: str
    candidates: tuple[str, ...]

    @property
    def label(self) -> str:
        """How it is called in lists."""
        return " ".join(part for part in (self.operation, self.dtype, self.form) if part)

    @property
    def squares(self) -> bool:
        """Whether it is about matrices, whose size is the square of a side."""
        return not self.form and self.is_linear

    @property
    def is_linear(self) -> bool:
        """Whether it is linear algebra."""
        return self.operation == "matmul" or self.operation.startswith("linalg.")

    @property
    def is_fast(self) -> bool:
        """Whether it may be computed in less than NumPy's precision, where users wish for that."""
        return self.dtype in ADMITTED[self.operation].fast

    def sizes(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return the first size, the greater and the smaller ones, in elements."""
        if self.form in ("inner", "tall"):
            return FIRST, GREATER, SMALLER[:2]
        if not self.squares:
            return FIRST, GREATER, SMALLER
        greater, smaller = (
            tuple(side * side for side in sides) for sides in (GREATER_SIDES, SMALLER_SIDES)
        )
        return FIRST_SIDE**2, greater, smaller

    def operands(
        self, size: int, rng: np.random.Generator
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of native callables, with so many elements at the most."""
        return operands(self, size, rng)

    @property
    def home(self) -> Call:
        """What means what others have to mean: NumPy's callable."""
        return _recycled(self._native())

    def work(self, backend: str | None, args: tuple[Any, ...], params: dict[str, Any]) -> Work:
        """Return a call that a backend runs, None being the home: as users write it."""
        return called(self.operation, backend, args, params)

    def _native(self) -> Callable[..., Any]:
        function = NUMPY.operation(self.operation)
        assert function is not None  # it is asked only for what there is
        if concerns(self.operation, DTYPES[self.dtype]):
            return considerate(function, self.operation)
        return function

    def deviation(self, name: str) -> str | None:
        """Return where a candidate means something else than NumPy, None if nowhere."""
        from corepy.tuning._check import deviation  # which is about cases

        return deviation(self, self.home, bound(self.operation, load(name)))


def _recycled(function: Callable[..., Any]) -> Call:
    """Return what runs a function, whoever it asks, as a table has it: with recycled memory."""
    pooled = recycling(function) if NUMPY.recycles else function
    return lambda args, params: pooled(*args, **params)


def cases(only: Iterable[str] = ()) -> Iterator[Case]:
    """Yield every case that a library on this machine may win.

    Raises
    ------
    ValueError
        If `only` names an operation that cannot be routed.
    """
    wanted = frozenset(only)
    require_known(wanted, ROUTABLE, "is no operation that can be routed")
    usable = [backend.name for backend in load_each(CANDIDATES)]
    for operation, admission in ADMITTED.items():
        if wanted and operation not in wanted:
            continue
        more = (names for start, names in _MORE.items() if operation.startswith(start))
        for dtype in itertools.chain(_DTYPES, *more):
            if DTYPES[dtype] not in OPERATIONS[operation].dtypes or _is_converted(operation, dtype):
                continue
            for form in admission.forms:
                able = tuple(name for name in usable if _differs(operation, dtype, form, name))
                if able:
                    yield Case(operation, dtype, form, able)


def _is_converted(operation: str, dtype: str) -> bool:
    """Say whether an operation makes complex numbers of a dtype before it chooses who runs it."""
    of_complex = operation.startswith("fft.") and not operation.startswith("fft.rfft")
    return of_complex and not dtype.startswith("complex")


def _differs(operation: str, dtype: str, form: str, backend: str) -> bool:
    """Say whether a backend is admitted and has something of its own to run."""
    if not admits(operation, dtype, backend):
        return False
    if backend != "numba":
        return True
    return ADMITTED[operation].is_own(form, dtype) and (
        load(backend).operation(operation) is not NUMPY.operation(operation)
    )


NUMPY: Final = NumPyBackend()

# ---------------------------------------------------------------------------- operands


def _values(case: Case, size: int, rng: np.random.Generator) -> Array:
    """Return numbers that the operation takes without leaving its domain."""
    if case.dtype.startswith("complex"):
        parts = rng.standard_normal((size, 2))
        return parts.view(np.complex128)[:, 0].astype(case.dtype)
    if case.dtype == "bool":
        return rng.random(size) < 0.5
    if case.dtype == "int64":
        if case.operation == "pow" or "shift" in case.operation:
            return rng.integers(0, 16, size)  # neither takes negative ones
        # Sums of products of these are exact in float64 too, and most of them differ.
        wide = case.operation.startswith(("unique", "sort", "argsort", "isin"))
        high = max(size, 1000) if wide else 1000
        return rng.integers(-high, high, size)
    x = rng.standard_normal(size)
    match case.operation:
        case "acos" | "asin" | "atanh":
            x = np.tanh(x)
        case "acosh":
            x = 1 + np.abs(x)
        case "log" | "log2" | "log10" | "log1p" | "sqrt" | "pow":
            x = np.abs(x)
        case "cumulative_prod":
            x = 1 + x / (100 * math.sqrt(size))
    return x.astype(case.dtype)


def operands(
    case: Case, size: int, rng: np.random.Generator, values: Array | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a case's native callables, with so many elements at the most.

    Parameters
    ----------
    values : ndarray, optional
        The elements of the first array, where it is no square matrix.
    """
    name = case.operation
    if case.squares:
        return _matrices(case, math.isqrt(size), rng)
    x = _values(case, size, rng) if values is None else values
    if case.form == "inner":
        y = _matrix(x, min(_FEW[1], math.isqrt(size // INNER)))
        rows = min(_FEW[0], y.shape[1])
        return (_values(case, len(y) * rows, rng).reshape(-1, rows).T, y), {}
    if name == "tensordot":
        columns = math.gcd(size, _NARROW)
        factor = _values(case, columns**2, rng).reshape(columns, columns)
        return (x.reshape(-1, columns), factor), {"axes": ((1,), (0,))}
    if case.form == "tall":
        return _parameters(name, _matrix(x, min(_COLUMNS, math.isqrt(size // TALL))))
    if name.startswith("fft."):
        return _transform(case, x)
    if case.form in ("rows", "columns", "narrow", "all"):
        return _reduction(case, x)
    if case.form == "spread":
        x = _matrix(x, _width(size))
        return (x, without_zeros(case, _values(case, x.shape[1], rng))), {}
    if name == "clip":
        return (x,), {"min": np.asarray(x.dtype.type(-1)), "max": np.asarray(x.dtype.type(1))}
    if name == "astype":
        return (x, np.dtype(case.form.removeprefix("to "))), {"copy": True}
    if name in ("concat", "stack"):
        return (tuple(x[: size // 2 * 2].reshape(2, -1)),), {"axis": 0}
    if name == "roll":
        return (x, 3), {"axis": None}
    if name in ("sort", "argsort"):
        return (x,), {"axis": 0, "descending": False, "stable": True}
    if name == "searchsorted":
        needles = _values(case, size, rng)
        return (np.sort(x), needles), {"side": "left", "sorter": None}
    if name == "isin":
        return (x, rng.choice(x, math.isqrt(size))), {"invert": False}
    if name == "where":
        return (rng.random(size) < 0.5, x, _values(case, size, rng)), {}
    if name == "__getitem__":
        return (x, rng.random(size) < 0.5), {}
    if name == "take":
        return (x, rng.integers(0, size, size)), {"axis": 0}
    if ADMITTED[name].operands == 2:
        return (x, without_zeros(case, _values(case, size, rng))), {}
    return (x,), {}


def without_zeros(case: Case, x: Array) -> Array:
    """Return what integers may be divided by."""
    divides = case.operation in ("floor_divide", "remainder") and case.dtype == "int64"
    return np.where(x == 0, 2, x) if divides else x


def _width(size: int, form: str = "") -> int:
    """Return the columns of a matrix of so many elements."""
    return min(_SLENDER if form == "narrow" else _WIDTH, math.isqrt(size))


def _smooth(most: int) -> int:
    """Return a number without great factors that is nearly as great as this one, or just as great.

    Sizes are such numbers, but not what comes of them by an addition.
    """
    return max(
        (m << ((most // m).bit_length() - 1) for m in (1, 3, 5, 9, 15, 25) if m <= most), default=0
    )


def _matrix(x: Array, columns: int) -> Array:
    """Return the elements as rows of so many, without those that are left over."""
    return x[: x.size // columns * columns].reshape(-1, columns)


def _transform(case: Case, x: Array) -> tuple[tuple[Any, ...], dict[str, Any]]:
    several = case.operation.endswith("n")
    axis = -1 if case.form != "columns" else 0
    if several:
        side = _smooth(math.isqrt(x.size))
        x = _matrix(x, side)[:side]
    elif case.form:
        x = _matrix(x, _smooth(_width(x.size)))
        x = x[: _smooth(len(x))]
    points = x.shape[axis]
    if "irfft" in case.operation:
        half = _smooth(points - 1)
        x = np.ascontiguousarray(x[: half + 1] if axis == 0 else x[..., : half + 1])
        points = 2 * half
    if several:
        return (x,), {"s": (len(x), points), "axes": (0, 1), "norm": "backward"}
    return (x,), {"n": points, "axis": axis % x.ndim, "norm": "backward"}


def _reduction(case: Case, x: Array) -> tuple[tuple[Any, ...], dict[str, Any]]:
    name = case.operation
    running = name.startswith("cumulative")
    axes: Any = None
    if case.form != "all":
        x = _matrix(x, _width(x.size, case.form))
        axes = x.ndim - 1 if case.form == "rows" else 0
    elif running:
        axes = 0
    params: dict[str, Any] = {"axis": axes}
    if name in ("sum", "prod") or running:
        params["dtype"] = x.dtype
    if name in ("var", "std"):
        params["correction"] = 0.0
    if running:
        params["include_initial"] = False
    else:
        params["keepdims"] = False
    if axes is not None and not running and not name.startswith("arg"):
        params["axis"] = (axes,)
    return (x,), params


def _matrices(
    case: Case, side: int, rng: np.random.Generator
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = _values(case, side * side, rng).reshape(side, side)
    match case.operation.rpartition(".")[2]:
        case "matmul":
            return (x, x.T.copy()), {}
        case "cholesky":
            return (_definite(x),), {"upper": False}
        case "eigh" | "eigvalsh":
            return (_definite(x),), {}
        case "solve":
            return (_definite(x), x[:, 0].copy()), {}
        case "inv":
            return (_definite(x) / side,), {}
        case "det":  # one that neither overflows nor vanishes
            return (np.eye(side, dtype=x.dtype) + x * x.dtype.type(0.3 / math.sqrt(side)),), {}
    return _parameters(case.operation, x)


def _parameters(name: str, x: Array) -> tuple[tuple[Any, ...], dict[str, Any]]:
    match name:
        case "linalg.qr":
            return (x,), {"mode": "reduced"}
        case "linalg.svd":
            return (x,), {"full_matrices": False}
    return (x,), {}


def _definite(x: Array) -> Array:
    """Return a symmetric matrix that is far from singular."""
    side = x.shape[0]
    made: Array = (x @ x.T) / side + np.eye(side, dtype=x.dtype)
    return made
