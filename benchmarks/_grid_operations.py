"""The operations of the grid: how each is written, on which values, and what its answer is.

An operation is spelled as the standard has it; a library that spells it otherwise says so beside
it. The code sees its operands by name, the library as ``xp``, and besides ``n`` elements and the
library's own ``dtype`` (``other`` is the one that `astype` goes to).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Operands = dict[str, Array]
#: Makes the operands of an operation: of a dtype, and of about so many elements.
Maker = Callable[[np.random.Generator, str, int], Operands]
#: Turns an answer into arrays that are the same for all who are right.
Outcome = Callable[[Operands, Any], tuple[Any, ...]]

FLOATS: Final = ("float32", "float64")
ALL: Final = (*FLOATS, "int64")
INTEGERS: Final = ("int64",)
BOOL: Final = ("bool",)
#: What `astype` makes of each.
OTHER: Final = {"float32": "float64", "float64": "float32", "int64": "float64", "bool": "float64"}

SIZES: Final = (10, 1_000, 100_000, 1_000_000, 10_000_000)
#: Rows and columns of the matrices of linear algebra.
ORDERS: Final = (8, 32, 128, 512, 1024, 2048)
#: Views do not depend on the size, so they are measured on small arrays alone.
SMALL: Final = SIZES[:2]

ELEMENTWISE: Final = "elementwise"
REDUCTION: Final = "reductions"
ORDERING: Final = "searching and sorting"
PRODUCT: Final = "products and transforms"
MANIPULATION: Final = "copies and views"
CREATION: Final = "creation"
LINALG: Final = "linear algebra"
GROUPS: Final = (ELEMENTWISE, REDUCTION, ORDERING, PRODUCT, MANIPULATION, CREATION, LINALG)


def _as_it_is(operands: Operands, answer: Any) -> tuple[Any, ...]:
    return (answer,)


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the grid.

    Attributes
    ----------
    name : str
        What the tables call it.
    group : str
        One of `GROUPS`.
    code : str
        In the standard's spelling.
    make : callable
        Makes the operands.
    dtypes : tuple of str
    sizes : tuple of int
        Elements, or orders of matrices.
    spelled : mapping of str to (str or None)
        The code of a library, or of one way to use it, that spells it otherwise; None where there
        is no such thing.
    outcome : callable
        What of an answer is compared, where that is not the answer as it is.
    several : bool
        Whether the answer is a tuple of arrays.
    """

    name: str
    group: str
    code: str
    make: Maker
    dtypes: tuple[str, ...] = ALL
    sizes: tuple[int, ...] = SIZES
    spelled: Mapping[str, str | None] = field(default_factory=dict)
    outcome: Outcome = _as_it_is
    several: bool = False

    def spelling(self, peer: str, library: str) -> str | None:
        """Return the code of a peer, which uses a library; None where it has no such operation."""
        return self.spelled.get(peer, self.spelled.get(library, self.code))

    def operands(self, dtype: str, size: int) -> Operands:
        """Make the operands, the same ones each time; only those that the code uses."""
        used = compile(self.code, self.name, "eval").co_names
        made = self.make(np.random.default_rng(0), dtype, size)
        return {name: value for name, value in made.items() if name in used}

    def work(self, size: int) -> int:
        """Return how the time of a call grows with the size, up to a factor."""
        return size**3 if self.group == LINALG else size


# ---------------------------------------------------------------------------- values


def values(rng: np.random.Generator, dtype: str, shape: Any, low: float, high: float) -> Array:
    """Make evenly distributed values."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "int64":
        return rng.integers(int(low), int(high), shape, endpoint=True)
    made = rng.random(shape, np.dtype(dtype))
    made *= high - low
    made += low
    return made


def one(low: float, high: float) -> Maker:
    """Make one vector ``a``."""
    return lambda rng, dtype, n: {"a": values(rng, dtype, n, low, high)}


def two(low: float, high: float) -> Maker:
    """Make two vectors, ``a`` and ``b``."""
    return lambda rng, dtype, n: {key: values(rng, dtype, n, low, high) for key in "ab"}


def quotient(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make dividends and divisors whose quotients all libraries round to the same integer."""
    a = values(rng, dtype, n, -1000, 1000)
    b = rng.choice(np.array([-7, -3, -2, 2, 3, 5], dtype), n)
    if dtype != "int64":
        a = np.floor(a) + a.dtype.type(0.5)
    return {"a": a, "b": b}


def matrix_shape(n: int) -> tuple[int, int]:
    """Return rows and columns of a matrix of `n` elements, as square as powers of ten allow."""
    rows = next(r for r in range(max(1, int(n**0.5)), 0, -1) if n % r == 0)
    return rows, n // rows


def matrix(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make a matrix ``m`` of `n` elements, and a row ``v``."""
    rows, columns = matrix_shape(n)
    return {
        "m": values(rng, dtype, (rows, columns), -100, 100),
        "v": values(rng, dtype, columns, -100, 100),
    }


def factors(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make numbers whose product neither overflows nor vanishes."""
    if dtype == "int64":
        return {"a": rng.choice(np.array([-1, 1]), n)}
    return {"a": values(rng, dtype, n, 0.999, 1.001)}


def choice(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make two vectors, and a random condition ``c``, half of which is true."""
    return two(-100, 100)(rng, dtype, n) | {"c": rng.random(n) < 0.5}


def indexed(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make a vector, and random indices ``i`` into it."""
    return one(-100, 100)(rng, dtype, n) | {"i": rng.integers(0, n, n)}


def distinct(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make values to be sorted, nearly all of them distinct."""
    return one(0, 2**40)(rng, dtype, n)


def haystack(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make a sorted vector, and values ``v`` to be found in it."""
    return {
        "a": np.sort(values(rng, dtype, n, 0, 2**40)),
        "v": values(rng, dtype, max(n // 10, 10), 0, 2**40),
    }


def complex_vector(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make a vector ``z`` of complex numbers whose parts have the dtype."""
    pairs = values(rng, dtype, 2 * n, -1, 1)
    return {"z": pairs.view(np.result_type(dtype, np.complex64))}


def rows_by_matrix(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make rows ``m`` of ten, and a small matrix ``k``."""
    m = values(rng, dtype, (n // 10, 10), -10, 10)
    return {"m": m, "k": values(rng, dtype, (10, 10), -10, 10)}


def _none(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    return {}


def none_true(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make a condition that is never true, so that it has to be read to the end."""
    return {"c": np.zeros(n, np.bool_)}


def some_true(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make a condition that is true for one element in ten."""
    return {"c": rng.random(n) < 0.1}


def system(rng: np.random.Generator, dtype: str, n: int) -> Operands:
    """Make well-conditioned matrices: ``a`` of any kind, ``s`` symmetric and positive definite.

    The eigenvalues lie around 1, so that determinants neither overflow nor vanish.
    """
    if dtype == "int64":
        return {key: rng.integers(-100, 100, (n, n)) for key in "ab"}
    g = rng.standard_normal((n, n))
    unit = np.eye(n)
    return {
        "a": (unit + 0.3 * g / n**0.5).astype(dtype),
        "b": (unit - 0.3 * g.T / n**0.5).astype(dtype),
        "s": (unit + 0.3 * (g + g.T) / (2 * n) ** 0.5).astype(dtype),
    }


# ---------------------------------------------------------------------------- answers


def _sorted_by(operands: Operands, answer: Any) -> tuple[Any, ...]:
    return (operands["a"][answer],)  # equal elements may come in any order


def _in_order(operands: Operands, answer: Any) -> tuple[Any, ...]:
    return (np.sort(answer),)


def _svd(operands: Operands, answer: Any) -> tuple[Any, ...]:
    u, scale, v = answer  # vectors are known up to their signs, the product is not
    return scale, (u * scale) @ v


def _qr(operands: Operands, answer: Any) -> tuple[Any, ...]:
    q, r = answer
    return np.abs(r), q @ r


def _eigh(operands: Operands, answer: Any) -> tuple[Any, ...]:
    w, q = answer
    return w, (q * w) @ q.T


# ---------------------------------------------------------------------------- the rows


def _elementwise(
    code: str, make: Maker, dtypes: tuple[str, ...] = ALL, **spelled: str
) -> Operation:
    name = code.removeprefix("xp.").partition("(")[0]
    return Operation(name, ELEMENTWISE, code, make, dtypes, spelled=spelled)


def _reduction(
    name: str, code: str, make: Maker, dtypes: tuple[str, ...] = ALL, **spelled: str
) -> Operation:
    return Operation(name, REDUCTION, code, make, dtypes, spelled=spelled)


def _linalg(
    name: str, code: str, dtypes: tuple[str, ...] = FLOATS, outcome: Outcome | None = None
) -> Operation:
    several = outcome is not None
    return Operation(
        name,
        LINALG,
        code,
        system,
        dtypes,
        ORDERS,
        outcome=outcome or _as_it_is,
        several=several,
    )


_SIGNED: Final = two(-100, 100)
_POSITIVE: Final = two(0.5, 3)

OPERATIONS: Final = (
    _elementwise("a + b", _SIGNED),
    _elementwise("a * 3", one(-100, 100)),
    _elementwise("m - v", matrix),
    _elementwise("xp.multiply(a, b)", _SIGNED),
    _elementwise("xp.divide(a, b)", _POSITIVE, FLOATS),
    _elementwise("xp.floor_divide(a, b)", quotient),
    _elementwise("xp.remainder(a, b)", quotient),
    _elementwise("xp.pow(a, b)", _POSITIVE, FLOATS),
    _elementwise("xp.negative(a)", one(-100, 100)),
    _elementwise("xp.abs(a)", one(-100, 100)),
    _elementwise("xp.square(a)", one(-100, 100)),
    _elementwise("xp.sqrt(a)", one(0, 100), FLOATS),
    _elementwise("xp.sign(a)", one(-100, 100)),
    _elementwise("xp.floor(a)", one(-100, 100), FLOATS),
    _elementwise("xp.round(a)", one(-100, 100), FLOATS),
    _elementwise("xp.clip(a, -50, 50)", one(-100, 100)),
    _elementwise("xp.maximum(a, b)", _SIGNED),
    _elementwise("xp.hypot(a, b)", _SIGNED, FLOATS),
    _elementwise("xp.less(a, b)", _SIGNED),
    _elementwise("xp.equal(a, b)", _SIGNED, torch="xp.eq(a, b)"),
    _elementwise("xp.isfinite(a)", one(-100, 100), FLOATS),
    _elementwise("xp.bitwise_and(a, b)", _SIGNED, INTEGERS),
    _elementwise("xp.exp(a)", one(-10, 10), FLOATS),
    _elementwise("xp.expm1(a)", one(-1, 1), FLOATS),
    _elementwise("xp.log(a)", one(0.1, 100), FLOATS),
    _elementwise("xp.log1p(a)", one(0, 10), FLOATS),
    _elementwise("xp.sin(a)", one(-10, 10), FLOATS),
    _elementwise("xp.cos(a)", one(-10, 10), FLOATS),
    _elementwise("xp.tanh(a)", one(-3, 3), FLOATS),
    _elementwise("xp.atan2(a, b)", _SIGNED, FLOATS),
    _elementwise("xp.logaddexp(a, b)", two(-10, 10), FLOATS),
    _reduction("sum", "xp.sum(a)", one(-100, 100)),
    _reduction("sum, axis 0", "xp.sum(m, axis=0)", matrix),
    _reduction("sum, axis -1", "xp.sum(m, axis=-1)", matrix),
    _reduction("prod", "xp.prod(a)", factors),
    _reduction("mean", "xp.mean(a)", one(-100, 100), FLOATS),
    _reduction("mean, axis 0", "xp.mean(m, axis=0)", matrix, FLOATS),
    _reduction("mean, axis -1", "xp.mean(m, axis=-1)", matrix, FLOATS),
    _reduction("var", "xp.var(a)", one(-100, 100), FLOATS, torch="xp.var(a, correction=0)"),
    _reduction(
        "std, axis -1",
        "xp.std(m, axis=-1)",
        matrix,
        FLOATS,
        torch="xp.std(m, dim=-1, correction=0)",
    ),
    _reduction("max", "xp.max(a)", one(-100, 100), torch="xp.amax(a)"),
    _reduction("max, axis 0", "xp.max(m, axis=0)", matrix, torch="xp.amax(m, 0)"),
    _reduction("max, axis -1", "xp.max(m, axis=-1)", matrix, torch="xp.amax(m, -1)"),
    _reduction("argmax", "xp.argmax(a)", distinct),
    _reduction("any", "xp.any(c)", none_true, BOOL),
    _reduction("count_nonzero", "xp.count_nonzero(a)", one(-2, 2)),
    Operation(
        "cumulative_sum",
        REDUCTION,
        "xp.cumulative_sum(a)",
        one(-100, 100),
        spelled={"numpy": "xp.cumsum(a)", "torch": "xp.cumsum(a, 0)", "jax": "xp.cumsum(a)"},
    ),
    Operation("where", ORDERING, "xp.where(c, a, b)", choice),
    Operation("a[mask]", ORDERING, "a[c]", choice, spelled={"jax.jit": None}),
    Operation(
        "nonzero",
        ORDERING,
        "xp.nonzero(c)",
        some_true,
        BOOL,
        spelled={"torch": "xp.nonzero(c, as_tuple=True)", "jax.jit": None},
        several=True,
    ),
    Operation(
        "take",
        ORDERING,
        "xp.take(a, i, axis=0)",
        indexed,
        spelled={"torch": "xp.index_select(a, 0, i)"},
    ),
    Operation("sort", ORDERING, "xp.sort(a)", distinct, spelled={"torch": "xp.sort(a).values"}),
    Operation("argsort", ORDERING, "xp.argsort(a)", distinct, outcome=_sorted_by),
    Operation(
        "unique_values",
        ORDERING,
        "xp.unique_values(a)",
        distinct,
        spelled={"torch": "xp.unique(a)", "jax.jit": None},
        outcome=_in_order,
    ),
    Operation("searchsorted", ORDERING, "xp.searchsorted(a, v)", haystack),
    Operation(
        "tensordot",
        PRODUCT,
        "xp.tensordot(m, k, axes=1)",
        rows_by_matrix,
        spelled={"torch": "xp.tensordot(m, k, dims=1)"},
    ),
    Operation(
        "vecdot",
        PRODUCT,
        "xp.vecdot(m, m)",
        matrix,
        FLOATS,
        spelled={"torch": "xp.linalg.vecdot(m, m)"},
    ),
    Operation("fft", PRODUCT, "xp.fft.fft(z)", complex_vector, FLOATS),
    Operation("rfft", PRODUCT, "xp.fft.rfft(a)", one(-1, 1), FLOATS),
    Operation("concat", MANIPULATION, "xp.concat((a, b))", _SIGNED),
    Operation("stack", MANIPULATION, "xp.stack((a, b))", _SIGNED),
    Operation("roll", MANIPULATION, "xp.roll(a, 3)", one(-100, 100)),
    Operation(
        "astype",
        MANIPULATION,
        "xp.astype(a, other)",
        one(-100, 100),
        spelled={"numpy": "a.astype(other)", "torch": "a.to(other)"},
    ),
    Operation("a[2:-2]", MANIPULATION, "a[2:-2]", one(-100, 100), sizes=SMALL),
    Operation("a[3]", MANIPULATION, "a[3]", one(-100, 100), sizes=SMALL),
    Operation("reshape", MANIPULATION, "xp.reshape(m, (-1,))", matrix, sizes=SMALL),
    Operation(
        "permute_dims",
        MANIPULATION,
        "xp.permute_dims(m, (1, 0))",
        matrix,
        sizes=SMALL,
        spelled={"torch": "xp.permute(m, (1, 0))"},
    ),
    Operation("zeros", CREATION, "xp.zeros(n, dtype=dtype)", _none),
    Operation(
        "full",
        CREATION,
        "xp.full(n, 3, dtype=dtype)",
        _none,
        spelled={"torch": "xp.full((n,), 3, dtype=dtype)"},
    ),
    Operation("arange", CREATION, "xp.arange(n, dtype=dtype)", _none),
    Operation("linspace", CREATION, "xp.linspace(0.0, 1.0, n, dtype=dtype)", _none, FLOATS),
    _linalg("matmul", "a @ b", ALL),
    _linalg("solve", "xp.linalg.solve(a, b)"),
    _linalg("inv", "xp.linalg.inv(a)"),
    _linalg("det", "xp.linalg.det(a)"),
    _linalg("cholesky", "xp.linalg.cholesky(s)"),
    _linalg("qr", "xp.linalg.qr(a)", outcome=_qr),
    _linalg("svd", "xp.linalg.svd(a, full_matrices=False)", outcome=_svd),
    _linalg("eigh", "xp.linalg.eigh(s)", outcome=_eigh),
)
