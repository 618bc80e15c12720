"""Statements that mean the same in NumPy's namespace and in corepy's, a few for each chapter.

A statement is a function of a namespace and of `Operands`, which it draws. It returns what is to
be the same; the operands are compared too, as they are afterwards.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np

from tests.statements.operands import Operands

Body = Callable[[ModuleType, Operands], Any]


@dataclass(frozen=True)
class Statement:
    """A statement, and by how many units in the last place results may differ.

    They are units of each result, or of the greatest one where it is a sum of parts that cancel.
    """

    run: Body
    ulps: int
    cancels: bool

    @property
    def name(self) -> str:
        return self.run.__name__


STATEMENTS: Final[dict[str, Statement]] = {}


def statement(*, ulps: int = 0, cancels: bool = False) -> Callable[[Body], Body]:
    def add(run: Body) -> Body:
        STATEMENTS[run.__name__] = Statement(run, ulps, cancels)
        return run

    return add


# ---------------------------------------------------------------------------- elementwise

#: Functions by the kinds of dtypes that they take.
ONE_OPERAND: Final = {
    "bitwise_invert": "biu",
    "logical_not": "b",
    **dict.fromkeys(("conj", "real", "imag"), "c"),
    **dict.fromkeys(("abs", "ceil", "floor", "round", "trunc", "sign"), "iuf"),
    **dict.fromkeys(("negative", "positive"), "iufc"),
    **dict.fromkeys(("square", "isfinite", "isinf", "isnan"), "iuf"),
    "signbit": "f",
}
ROUNDED: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1"),
    *("log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh"),
)
TWO_OPERANDS: Final = {
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), "iuf"),
    **dict.fromkeys(("equal", "not_equal"), "biufc"),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal"), "iuf"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), "biu"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), "b"),
    **dict.fromkeys(("copysign", "divide", "nextafter"), "f"),
}


@statement()
def one_operand(xp: ModuleType, draw: Operands) -> Any:
    name = draw.one_of([*ONE_OPERAND])
    return getattr(xp, name)(draw.array(draw.dtype(ONE_OPERAND[name]), draw.shape()))


@statement(ulps=8)
def one_operand_and_rounding(xp: ModuleType, draw: Operands) -> Any:
    return getattr(xp, draw.one_of(ROUNDED))(draw.array(draw.dtype("f"), draw.shape()))


@statement(ulps=16)
def complex_numbers(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("c"), draw.shape()
    x = draw.array(dtype, shape, "ordinary")
    if draw.chance(0.5):
        return getattr(xp, draw.one_of(("abs", "exp", "log", "sqrt", "square", "tanh")))(x)
    y = draw.array(dtype, draw.stretching(shape), "ordinary")
    return getattr(xp, draw.one_of(("add", "divide", "multiply", "subtract")))(x, y)


@statement()
def two_operands(xp: ModuleType, draw: Operands) -> Any:
    name = draw.one_of([*TWO_OPERANDS])
    dtype, shape = draw.dtype(TWO_OPERANDS[name]), draw.shape()
    x, y = (draw.array(dtype, draw.stretching(shape)) for _ in range(2))
    result = getattr(xp, name)(x, y)
    # Which of two zeros is the greater, nobody says.
    return result + 0 if name in ("maximum", "minimum") else result


@statement(ulps=8)
def two_operands_and_rounding(xp: ModuleType, draw: Operands) -> Any:
    name = draw.one_of(("atan2", "floor_divide", "hypot", "logaddexp", "pow", "remainder"))
    dtype, shape = draw.dtype("f"), draw.shape()
    x, y = (draw.array(dtype, draw.stretching(shape), "positive") for _ in range(2))
    return getattr(xp, name)(x, y)


@statement()
def integers_are_divided(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iu"), draw.shape()
    x, y = draw.array(dtype, draw.stretching(shape)), draw.array(dtype, shape, "positive")
    return getattr(xp, draw.one_of(("floor_divide", "remainder")))(x, y)


@statement()
def a_number_beside(xp: ModuleType, draw: Operands) -> Any:
    name = draw.one_of(("add", "subtract", "multiply", "maximum", "minimum", "equal", "less"))
    dtype = draw.dtype("iuf")
    x, number = draw.array(dtype, draw.shape()), draw.number(dtype)
    return getattr(xp, name)(*((x, number) if draw.chance(0.5) else (number, x)))


@statement()
def dtypes_promote(xp: ModuleType, draw: Operands) -> Any:
    kinds = draw.one_of(("ii", "uu", "ff", "cc", "fc"))
    shape = draw.shape()
    x, y = (draw.array(draw.dtype(k), draw.stretching(shape), "small") for k in kinds)
    return getattr(xp, draw.one_of(("add", "subtract", "multiply", "equal")))(x, y)


OPERATORS: Final = {
    **dict.fromkeys((operator.iadd, operator.isub, operator.imul), "iuf"),
    **dict.fromkeys((operator.iand, operator.ior, operator.ixor), "biu"),
    operator.itruediv: "f",
    operator.ifloordiv: "iuf",
    operator.imod: "iuf",
}


@statement(ulps=4)
def in_place(xp: ModuleType, draw: Operands) -> Any:
    function = draw.one_of([*OPERATORS])
    dtype, shape = draw.dtype(OPERATORS[function]), draw.shape()
    # What infinity is divided by a number, NumPy and the standard say otherwise.
    kind = "positive" if function in (operator.ifloordiv, operator.imod) else "any"
    x = draw.array(dtype, shape, kind, repeated=False)
    if draw.chance(0.3):
        return function(x, draw.number(dtype, "positive"))
    return function(x, draw.array(dtype, draw.stretching(shape), kind))


@statement()
def in_place_beside_itself(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iuf"), draw.shape(least=1)
    x = draw.array(dtype, shape, repeated=False)
    shift = min(draw.integer(0, 40), shape[0])
    behind, ahead = x[shift:, ...], x[: shape[0] - shift, ...]
    target, other = draw.one_of(((behind, ahead), (ahead, behind), (x, x[::-1, ...])))
    return draw.one_of((operator.iadd, operator.isub, operator.imul))(target, other)


@statement()
def where(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("biufc"), draw.shape()
    condition = draw.array("bool", draw.stretching(shape))
    x = draw.array(dtype, draw.stretching(shape))
    other = draw.number(dtype) if draw.chance(0.2) else draw.array(dtype, draw.stretching(shape))
    return xp.where(condition, x, other)


@statement()
def clip(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iuf"), draw.shape()
    bounds = [
        draw.one_of((None, draw.number(dtype), draw.array(dtype, draw.stretching(shape), "small")))
        for _ in range(2)
    ]
    return xp.clip(draw.array(dtype, shape), *bounds) + 0


# ---------------------------------------------------------------------------- keys


def _key(draw: Operands, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw a key of ints, slices, new axes and an ellipsis."""
    parts: list[Any] = []
    for dim in shape[: draw.integer(0, len(shape))]:
        low, high = sorted(draw.integer(0, dim) for _ in range(2))
        step = draw.one_of((1, 1, 1, 2, 3, -1, -2))
        if draw.chance(0.25) and dim:
            parts.append(draw.integer(-dim, dim - 1))
        elif step > 0:
            parts.append(slice(low if draw.chance(0.7) else None, high, step))
        else:
            parts.append(slice(None, None, step))
        if draw.chance(0.1):
            parts.append(None)
    used = sum(part is not None for part in parts)
    return (*parts, ...) if used < len(shape) else tuple(parts)


def _indices(draw: Operands, count: int, most: int = 1000) -> Any:
    """Draw indices into an axis of so many elements; of none of them for an empty one."""
    size = min(draw.one_of((0, 1, 4, 100, most)), most) if count else 0
    return draw.given(draw.values("uint32", (size,), "special").astype("int64") % max(count, 1))


@statement()
def read(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    return draw.array(draw.dtype("biufc"), shape)[_key(draw, shape)]


@statement()
def write(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("biufc"), draw.shape(least=1)
    x = draw.array(dtype, shape, repeated=False)
    key = _key(draw, shape)
    chosen = np.broadcast_to(np.False_, shape)[key].shape
    if draw.chance(0.3):
        x[key] = draw.number(dtype)
    else:
        x[key] = draw.array(dtype, draw.stretching(chosen))


@statement()
def write_within(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    x = draw.array(draw.dtype("biufc"), shape, repeated=False)
    shift = min(draw.integer(0, 40), shape[0])
    behind, ahead = slice(shift, None), slice(None, shape[0] - shift)
    backwards, whole = slice(None, None, -1), slice(None)
    to, source = draw.one_of(
        ((behind, ahead), (ahead, behind), (whole, backwards), (backwards, whole))
    )
    x[to, ...] = x[source, ...]


@statement()
def masks(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("biufc"), draw.shape(least=1)
    mask = draw.array("bool", shape[: draw.integer(1, len(shape))])
    if draw.chance(0.5):
        return draw.array(dtype, shape)[mask]
    x = draw.array(dtype, shape, repeated=False)
    x[mask] = draw.number(dtype)
    return None


@statement()
def gathers(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1, largest=70_000)
    x, axis = draw.array(draw.dtype("biufc"), shape), draw.axis(shape)
    most = max(1, 1_000_000 // max(1, x.size))
    indices = _indices(draw, shape[axis], min(1000, most))
    if draw.chance(0.5):
        return xp.take(x, indices, axis=axis)
    return x[(*(slice(None),) * (axis % len(shape)), indices, ...)]


@statement()
def scatters(xp: ModuleType, draw: Operands) -> Any:
    """To places of which none is there twice."""
    dtype, shape = draw.dtype("biufc"), draw.shape(least=1, largest=70_000)
    x, axis = draw.array(dtype, shape, repeated=False), draw.integer(0, len(shape) - 1)
    places = np.argsort(draw.values("float64", (shape[axis],), "ordinary"))
    places = places[: draw.one_of((0, 1, 4, 100, 1000))] - draw.one_of((0, shape[axis]))
    chosen = (*shape[:axis], places.size, *shape[axis + 1 :])
    value = draw.number(dtype) if draw.chance(0.3) else draw.array(dtype, draw.stretching(chosen))
    where = draw.given(places)
    x[where if axis == 0 else (*(slice(None),) * axis, where, ...)] = value


@statement()
def gathers_along(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1, largest=70_000)
    axis = draw.axis(shape)
    if not shape[axis]:
        return None
    chosen = draw.values("uint32", shape, "special").astype("int64") % shape[axis]
    x = draw.array(draw.dtype("biufc"), shape)
    return xp.take_along_axis(x, draw.given(chosen), axis=axis)


@statement()
def points(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    count = 0 if 0 in shape else draw.one_of((0, 1, 7, 500))
    words = [draw.values("uint32", (count,), "special").astype("int64") for _ in shape]
    key = tuple(draw.given(word % max(1, n)) for word, n in zip(words, shape, strict=True))
    return draw.array(draw.dtype("biufc"), shape)[key]


# ---------------------------------------------------------------------------- statistics


@statement()
def sums(xp: ModuleType, draw: Operands) -> Any:
    """Small integers, of which floats hold the sums exactly, in whatever order."""
    name, shape = draw.one_of(("sum", "sum", "mean")), draw.shape()
    x = draw.array(draw.dtype("f" if name == "mean" else "iufc"), shape, "small")
    if name == "mean" and not x.size:
        return None
    return getattr(xp, name)(x, axis=draw.axes(shape), keepdims=draw.chance(0.4))


@statement(ulps=200)
def products_of_elements(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(largest=200)
    x = draw.array(draw.dtype("iuf"), shape, "positive")
    if "float" in str(x.dtype):
        x = x / 5
    words = {"axis": draw.axes(shape), "keepdims": draw.chance(0.4)}
    if str(x.dtype).endswith("float32") and draw.chance(0.3):
        words["dtype"] = xp.float64
    return xp.prod(x, **words)


@statement()
def extremes(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape()
    x = draw.array(draw.dtype("iuf"), shape)
    if 0 in shape:
        return None
    return getattr(xp, draw.one_of(("max", "min")))(x, axis=draw.axes(shape)) + 0


@statement()
def places_of_extremes(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape()
    x = draw.array(draw.dtype("iuf"), shape)
    if 0 in shape:
        return None
    axis = draw.axis(shape) if shape and draw.chance(0.7) else None
    function = getattr(xp, draw.one_of(("argmax", "argmin")))
    return function(x, axis=axis, keepdims=draw.chance(0.4))


@statement(ulps=4096)
def spreads(xp: ModuleType, draw: Operands) -> Any:
    """NumPy adds the rows of a matrix one to the other, and rounds as often."""
    shape = draw.shape(largest=70_000)
    x = draw.array(draw.dtype("f"), shape, "ordinary", repeated=False)
    axis = draw.axes(shape)
    along = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not x.size or np.prod([shape[i] for i in along]) < 30:
        return None
    return getattr(xp, draw.one_of(("std", "var")))(x, axis=axis, correction=draw.integer(0, 1))


@statement()
def truth(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape()
    x = draw.array(draw.dtype("biufc"), shape)
    function = getattr(xp, draw.one_of(("all", "any", "count_nonzero")))
    return function(x, axis=draw.axes(shape), keepdims=draw.chance(0.4))


@statement()
def running_totals(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    x, axis = draw.array(draw.dtype("iufc"), shape, "small"), draw.axis(shape)
    if draw.chance(0.3):
        return xp.diff(x, axis=axis)
    return xp.cumulative_sum(x, axis=axis, include_initial=draw.chance(0.3))


# ---------------------------------------------------------------------------- searching and sets


@statement()
def sorting(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    x, axis = draw.array(draw.dtype("iuf"), shape), draw.axis(shape)
    if draw.chance(0.5):
        return xp.argsort(x, axis=axis, stable=True)
    return xp.sort(x, axis=axis, stable=True)


@statement()
def sorting_down(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    x, axis = draw.array(draw.dtype("iu"), shape), draw.axis(shape)
    if xp is np:
        return np.flip(np.sort(x, axis=axis), axis=axis)
    return xp.sort(x, axis=axis, descending=True)


@statement()
def searching(xp: ModuleType, draw: Operands) -> Any:
    dtype = draw.dtype("iuf")
    ordered = np.sort(draw.values(dtype, draw.shape(1, 1), "ordinary"))
    x, wanted = draw.given(ordered), draw.array(dtype, draw.shape(), "small")
    if draw.chance(0.5):
        return xp.isin(wanted, x)
    return xp.searchsorted(x, wanted, side=draw.one_of(("left", "right")))


@statement()
def nonzero(xp: ModuleType, draw: Operands) -> Any:
    return xp.nonzero(draw.array(draw.dtype("biufc"), draw.shape(least=1), "small"))


@statement()
def sets(xp: ModuleType, draw: Operands) -> Any:
    """Of NumPy 2.3 and later `unique_values` has no order."""
    if draw.chance(0.4):
        return xp.sort(xp.unique_values(draw.array(draw.dtype("iu"), draw.shape(largest=70_000))))
    x = draw.array(draw.dtype("biu"), draw.shape(largest=70_000))
    return tuple(getattr(xp, draw.one_of(("unique_all", "unique_counts", "unique_inverse")))(x))


# ---------------------------------------------------------------------------- manipulation


@statement()
def concat(xp: ModuleType, draw: Operands) -> Any:
    kind, shape = draw.one_of("biufc"), draw.shape(least=1, largest=140_000)
    axis, parts = draw.axis(shape), []
    dtype = draw.dtype(kind)
    for _ in range(draw.one_of((1, 2, 2, 3, 4))):
        part = list(shape)
        part[axis] = max(0, part[axis] + draw.integer(-2, 3))
        parts.append(draw.array(draw.dtype(kind) if draw.chance(0.2) else dtype, tuple(part)))
    return xp.concat(parts, axis=None if draw.chance(0.15) else axis)


@statement()
def stack(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("biufc"), draw.shape(largest=140_000)
    parts = [draw.array(dtype, shape) for _ in range(draw.integer(1, 4))]
    return xp.stack(parts, axis=draw.integer(-len(shape) - 1, len(shape)))


@statement()
def turned(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    x, axis = draw.array(draw.dtype("biufc"), shape), draw.axis(shape)
    if draw.chance(0.3):
        return xp.flip(x, axis=draw.axes(shape))
    if draw.chance(0.5):
        return xp.moveaxis(x, axis, draw.axis(shape))
    shift = draw.integer(-2 * shape[axis] - 3, 2 * shape[axis] + 3)
    return xp.roll(x, shift, axis=axis if draw.chance(0.7) else None)


@statement()
def repeated(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1, largest=40_000)
    x, axis = draw.array(draw.dtype("biufc"), shape), draw.axis(shape)
    if draw.chance(0.4):
        return xp.tile(x, tuple(draw.integer(0, 3) for _ in range(draw.integer(1, 3))))
    if draw.chance(0.5):
        return xp.repeat(x, draw.integer(0, 4), axis=axis)
    counts = draw.values("uint8", (shape[axis],), "special").astype("int64") % 4
    return xp.repeat(x, draw.given(counts), axis=axis)


@statement()
def reshaped(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    x = draw.array(draw.dtype("biufc"), shape)
    if draw.chance(0.5):
        return xp.reshape(x, (x.size,))
    return xp.reshape(x, (*shape[:-2], shape[-2] * shape[-1]) if len(shape) > 1 else (*shape, 1))


@statement()
def spread_out(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1, largest=70_000)
    x, axis = draw.array(draw.dtype("biufc"), shape), draw.axis(shape)
    if shape[axis] < 50 and draw.chance(0.5):
        return tuple(xp.unstack(x, axis=axis))
    return xp.broadcast_to(xp.expand_dims(x, axis=axis), (3, *xp.expand_dims(x, axis=axis).shape))


@statement()
def triangles(xp: ModuleType, draw: Operands) -> Any:
    x = draw.array(draw.dtype("biufc"), draw.shape(least=2))
    return getattr(xp, draw.one_of(("tril", "triu")))(x, k=draw.integer(-5, 5))


@statement()
def conversions(xp: ModuleType, draw: Operands) -> Any:
    """Floats only to integers that hold them: what others become, nobody says."""
    source = draw.dtype("biufc")
    target = draw.dtype({"c": "c", "f": "biufc"}.get(source[0], "biufc"))
    kind = "positive" if source[0] == "f" and "int" in target else "any"
    return xp.astype(draw.array(source, draw.shape(), kind), getattr(xp, target))


# ---------------------------------------------------------------------------- products


def _length(draw: Operands) -> int:
    return int(draw.one_of((1, 2, 3, 4, 7, 16, 33, 64, 100, 250)))


@statement()
def matrices(xp: ModuleType, draw: Operands) -> Any:
    """Small integers, as in `sums`; the sign of a sum that is zero is nobody's."""
    dtype, (n, k, m) = draw.dtype("iufc"), (_length(draw) for _ in range(3))
    if draw.chance(0.3):
        stack = (draw.integer(1, 4),)
        n, k, m = (min(length, 40) for length in (n, k, m))
        x, y = draw.array(dtype, (*stack, n, k), "small"), draw.array(dtype, (k, m), "small")
        y = y if draw.chance(0.5) else draw.array(dtype, (*stack, k, m), "small")
        return xp.matmul(x, y) + 0
    left, right = draw.one_of((((n, k), (k, m)), ((n, k), (k,)), ((k,), (k, m)), ((k,), (k,))))
    x, y = draw.array(dtype, left, "small"), draw.array(dtype, right, "small")
    if draw.chance(0.3):
        return xp.tensordot(x, y, axes=1) + 0
    return xp.matmul(x, y) + 0


@statement()
def products_along(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iufc"), draw.shape(least=1)
    x, y = (draw.array(dtype, shape, "small") for _ in range(2))
    if draw.chance(0.5):
        return xp.vecdot(x, y, axis=draw.integer(-len(shape), -1)) + 0
    row = draw.array(dtype, (_length(draw),), "small")
    return xp.linalg.outer(row, xp.reshape(x, (x.size,))[:300])


@statement(ulps=512)
def norms(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(largest=5000)
    # Of 5,000 times one number in single precision torch finds four digits.
    x = draw.array(draw.dtype("fc"), shape, "ordinary", repeated=False)
    if not x.size:
        return None
    order = draw.one_of((0, 1, 2, float("inf"), -float("inf")))
    return xp.linalg.vector_norm(x, axis=draw.axes(shape), ord=order, keepdims=draw.chance(0.3))


@statement(ulps=128, cancels=True)
def transforms(xp: ModuleType, draw: Operands) -> Any:
    name, shape = draw.one_of(("fft", "ifft", "rfft", "irfft", "fftn")), draw.shape(1, 3, 17_000)
    x = draw.array(draw.dtype("f" if name == "rfft" else "c"), shape, "ordinary")
    axis = draw.axis(shape)
    if not x.size or shape[axis] < 2:
        return None
    norm = draw.one_of(("backward", "ortho", "forward"))
    if name == "fftn":
        return xp.fft.fftn(x, norm=norm)
    length = draw.integer(2, 2 * shape[axis]) if draw.chance(0.4) else None
    return getattr(xp.fft, name)(x, n=length, axis=axis, norm=norm)


# ---------------------------------------------------------------------------- creation


@statement()
def made(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iuf"), draw.shape()
    table = {"dtype": getattr(xp, dtype), "device": xp.empty(0).device}
    if draw.chance(0.5):
        del table["device"]
    match draw.integer(0, 4):
        case 0:
            start, stop = draw.integer(0, 20), draw.integer(20, 100)
            return xp.arange(start, stop, draw.integer(1, 4), **table)
        case 1:
            rows, columns = draw.integer(0, 40), draw.integer(0, 40)
            return xp.eye(rows, columns, k=draw.integer(-20, 20), **table)
        case 2:
            return xp.full(shape, draw.number(dtype, "any"), **table)
        case _:
            return getattr(xp, draw.one_of(("ones", "zeros")))(shape, **table)
