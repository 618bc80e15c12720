"""The operations that tinygrad computes rightly; the rest runs elsewhere.

tinygrad's own functions of floats are not used where its algebra could change what comes of NaN,
infinities and rounding (`_renderers`). No number enters a graph as a constant, except in the
formulas below: constants would be folded, and each compiled into a kernel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from tinygrad import Tensor
from tinygrad import dtypes as tiny
from tinygrad.uop.ops import Ops

from corepy._dtypes import Scalar
from corepy.backends._base import LeftToOthersError
from corepy.backends._keys import axes, check, within
from corepy.backends.tinygrad._arrays import (
    BY_NATIVE,
    Held,
    compute,
    detached,
    is_loose,
    lazy,
    start,
    upload,
)
from corepy.backends.tinygrad._graphs import (
    Array,
    Function,
    alu,
    astype,
    axes_of,
    choose,
    equal,
    is_float,
    isnan,
    moveaxis,
    not_equal,
    place_of,
    same,
    wide,
)
from corepy.backends.tinygrad._reductions import REDUCTIONS
from corepy.devices._device import Device

# ---------------------------------------------------------------------------- creation


def _full(shape: tuple[int, ...], value: Scalar, *, dtype: Any, device: Device) -> Array:
    # One element in memory, which takes no kernel, and is no constant to be folded.
    one = upload(np.full(1, value, BY_NATIVE[dtype].name), place_of(device))
    return one.reshape((1,) * len(shape)).expand(shape)


def _filled(value: int) -> Function:
    def create(shape: tuple[int, ...], *, dtype: Any, device: Device) -> Array:
        return _full(shape, value, dtype=dtype, device=device)

    return create


def _eye(n_rows: int, n_cols: int, *, k: int, dtype: Any, device: Device) -> Array:
    return _band(n_rows, n_cols, k, Ops.CMPEQ, place_of(device)).cast(dtype)


def _band(n_rows: int, n_cols: int, k: int, relation: Any, place: str) -> Array:
    """Return where the column and ``row + k`` are in a relation."""
    # Each index once: tinygrad makes no memory of what is broadcast.
    rows = upload(np.arange(k, n_rows + k, dtype=np.int32), place).reshape(n_rows, 1)
    columns = upload(np.arange(n_cols, dtype=np.int32), place).reshape(1, n_cols)
    if relation is Ops.CMPEQ:
        return alu(Ops.CMPNE, columns, rows).logical_not()
    return alu(relation, columns, rows)


# ---------------------------------------------------------------------------- indexing


def _getitem(x: Array, key: Any) -> Array:
    return detached(_moved_by(compute(x), _basic(x, key)))


def _moved_by(x: Array, parts: Sequence[Any]) -> Array:
    return x[tuple(parts)] if parts else Tensor(x.uop)


def _basic(x: Array, key: Any) -> list[Any]:
    """Return a key of integers and slices in a form that tinygrad takes, one part for each axis."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, (Tensor, Held)) for part in parts):
        raise LeftToOthersError  # where tinygrad multiplies with a mask as large as both together
    found: list[Any] = []
    for part, indexed in zip(parts, axes(parts, x.ndim), strict=True):
        axis = indexed.start
        if part is None:
            found.append(None)
        elif part is Ellipsis:
            found += [slice(None)] * len(indexed)
        elif isinstance(part, slice):
            found.append(within(part, x.shape[axis]))
        else:
            check(axis, x.shape[axis], part)
            found.append(int(part) % x.shape[axis])
    return found


def _setitem(x: Array, key: Any, value: Array) -> Array:
    """Return an array with other values in a region; to write is to make a new one."""
    if isinstance(key, Tensor) and key.dtype == tiny.bool and key.shape == x.shape:
        if value.ndim:
            raise LeftToOthersError
        return key.where(value.expand(x.shape) if x.ndim else value, x)
    parts = _basic(x, key)
    parts += [slice(None)] * (x.ndim - sum(part is not None for part in parts))
    kept = [part for part in parts if part is not None]
    spans = [_span(part, size) for part, size in zip(kept, x.shape, strict=True)]
    if any(step != 1 for _, _, step in spans):
        raise LeftToOthersError
    region = tuple(last - first for first, last, _ in spans)
    inside = tuple(n for n, part in zip(region, kept, strict=True) if isinstance(part, slice))
    if None in parts:  # new axes, of one element each, come before others in what is given
        raise LeftToOthersError
    values = value.reshape(value.shape[max(0, value.ndim - len(inside)) :])
    values = wide(inside, values)[0].expand(inside).reshape(region)
    if not values.shape or 0 in values.shape:
        return values if not values.shape else Tensor(x.uop)
    margins = [(first, n - last) for (first, last, _), n in zip(spans, x.shape, strict=True)]
    if not any(map(any, margins)):
        return Tensor(values.uop)
    one = upload(np.ones(1, np.bool_), x.device).reshape((1,) * x.ndim).expand(region)
    return one.pad(margins).where(values.pad(margins), x)


def _span(part: int | slice, size: int) -> tuple[int, int, int]:
    if isinstance(part, slice):
        return part.indices(size)
    return part, part + 1, 1


# ---------------------------------------------------------------------------- elementwise


def _add(x1: Array, x2: Array) -> Array:
    if x1.dtype == tiny.bool or not is_float(x1):
        return alu(Ops.ADD, x1, x2)
    return alu(Ops.SUB, x1, x2.alu(Ops.NEG))


def _subtract(x1: Array, x2: Array) -> Array:
    if not is_float(x1):
        return alu(Ops.ADD, x1, -x2)
    if is_loose(x1.device) and start(x1) is start(x2):
        x2 = x2.clone()  # of memory that is not the same no compiler knows that the rest is 0
    return alu(Ops.SUB, x1, x2)


def _multiply(x1: Array, x2: Array) -> Array:
    return alu(Ops.MUL, x1, x2)


def _divide(x1: Array, x2: Array) -> Array:
    return alu(Ops.FDIV, x1, x2)


def _negative(x: Array) -> Array:
    return x.alu(Ops.NEG) if is_float(x) else -x


def _abs(x: Array) -> Array:
    if tiny.is_unsigned(x.dtype):
        return Tensor(x.uop)
    if not is_float(x):
        return (x < x.const_like(0)).where(-x, x)
    # Mesa takes 0 - x for -x, whose sign is another where x is -0.
    bits = x.bitcast(_BITS[x.dtype.itemsize])
    return (bits & bits.const_like((1 << (8 * x.dtype.itemsize - 1)) - 1)).bitcast(x.dtype)


#: The integers of as many bytes as floats have.
_BITS: Final = {4: tiny.int32, 8: tiny.int64}


def _reciprocal(x: Array) -> Array:
    return alu(Ops.FDIV, x.const_like(1), x)


def _square(x: Array) -> Array:
    return alu(Ops.MUL, x, x)


def _less(x1: Array, x2: Array) -> Array:
    return alu(Ops.CMPLT, x1, x2)


def _greater(x1: Array, x2: Array) -> Array:
    return alu(Ops.CMPLT, x2, x1)


# tinygrad takes "less or equal" for "not greater", which NaN is.


def _less_equal(x1: Array, x2: Array) -> Array:
    return _less(x1, x2) | equal(x1, x2)


def _greater_equal(x1: Array, x2: Array) -> Array:
    return _greater(x1, x2) | equal(x1, x2)


def _isinf(x: Array) -> Array:
    if not is_float(x):
        return x.ne(x)
    infinity = x.const_like(math.inf)
    return equal(x, infinity) | equal(x, x.const_like(-math.inf))


def _isfinite(x: Array) -> Array:
    return (isnan(x) | _isinf(x)).logical_not()


def _maximum(x1: Array, x2: Array) -> Array:
    # tinygrad's loses a NaN in x2.
    return choose(_less(x1, x2) | isnan(x2), x2, x1)


def _minimum(x1: Array, x2: Array) -> Array:
    return choose(_less(x2, x1) | isnan(x2), x2, x1)


def _clip(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
    if min is not None:
        x = _maximum(x, min)
    return Tensor(x.uop) if max is None else _minimum(x, max)


def _floor(x: Array) -> Array:
    if not is_float(x):
        return Tensor(x.uop)
    whole = x.trunc()
    return (x < whole).where(alu(Ops.SUB, whole, x.const_like(1)), whole)


def _ceil(x: Array) -> Array:
    if not is_float(x):
        return Tensor(x.uop)
    whole = x.trunc()
    return (whole < x).where(alu(Ops.SUB, whole, x.const_like(-1)), whole)


def _trunc(x: Array) -> Array:
    return x.trunc() if is_float(x) else Tensor(x.uop)


def _round(x: Array) -> Array:
    if not is_float(x):
        return Tensor(x.uop)
    # tinygrad adds a half first, which rounds 0.49999999999999994 up.
    whole = x.trunc()
    rest = _abs(alu(Ops.SUB, x, whole))
    half = x.const_like(0.5)
    odd = alu(Ops.MUL, whole, half)
    odd = odd.trunc().ne(odd)
    away = alu(Ops.CMPLT, half, rest) | (equal(rest, half) & odd)
    step = (x < x.const_like(0)).where(x.const_like(1), x.const_like(-1))
    return away.where(alu(Ops.SUB, whole, step), whole)


def _sign(x: Array) -> Array:
    zero = x.const_like(0)
    above = alu(Ops.CMPLT, zero, x)
    if tiny.is_unsigned(x.dtype):
        return above.cast(x.dtype)
    # In integers, for Mesa chooses -0 where floats are chosen from.
    signs = (above.cast(tiny.int32) - alu(Ops.CMPLT, x, zero).cast(tiny.int32)).cast(x.dtype)
    return choose(isnan(x), x, signs) if is_float(x) else signs


def _signbit(x: Array) -> Array:
    number = x.bitcast(_BITS[x.dtype.itemsize])
    return number < number.const_like(0)


def _logarithm(factor: float) -> Function:
    def log(x: Array) -> Array:
        return alu(Ops.MUL, x.alu(Ops.LOG2), x.const_like(factor))

    return log


#: ln 2 in two parts by the bytes of a dtype, the first of so few bits that its product with an
#: exponent is exact (fdlibm's).
_LN2: Final = {
    4: (6.9313812256e-01, 9.0580006145e-06),
    8: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}


def _exp(x: Array) -> Array:
    # tinygrad's is 2 ** (x / ln 2), off by as many ulp as x is large.
    high, low = _LN2[x.dtype.itemsize]
    whole = _round(alu(Ops.MUL, x, x.const_like(1 / math.log(2))))
    rest = alu(Ops.SUB, x, alu(Ops.MUL, whole, x.const_like(high)))
    rest = alu(Ops.SUB, rest, alu(Ops.MUL, whole, x.const_like(low)))
    part = alu(Ops.MUL, rest, x.const_like(1 / math.log(2))).alu(Ops.EXP2)
    # In two steps, for 2 ** 1024 is infinite, and what comes of it need not be.
    half = alu(Ops.MUL, whole, x.const_like(0.5)).trunc()
    made = alu(Ops.MUL, part, half.alu(Ops.EXP2))
    made = alu(Ops.MUL, made, alu(Ops.SUB, whole, half).alu(Ops.EXP2))
    beyond = {4: 200.0, 8: 2000.0}[x.dtype.itemsize]  # where the parts are infinite or 0 themselves
    outside = alu(Ops.CMPLT, x.const_like(beyond), x) | (x < x.const_like(-beyond))
    return choose(outside | isnan(x), x.alu(Ops.EXP2), made)


def _bitwise(operation: Any) -> Function:
    def combine(x1: Array, x2: Array) -> Array:
        return alu(operation, x1, x2)

    return combine


# ---------------------------------------------------------------------------- 16 bits
# By the bits of float32, as `corepy.backends._rounding`: not every device has such dtypes.


def _shortened(bits: Array, dropped: int) -> Array:
    """Return the bits of floats without some at their end, rounded, of two to the even one."""
    odd = alu(Ops.AND, alu(Ops.SHR, bits, bits.const_like(dropped)), bits.const_like(1))
    half = alu(Ops.ADD, odd, bits.const_like((1 << (dropped - 1)) - 1))
    kept = bits.const_like((1 << 32) - (1 << dropped))
    return alu(Ops.AND, alu(Ops.ADD, bits, half), kept)


def _to_bfloat16(x: Array) -> Array:
    return choose(isnan(x), x, _shortened(x.bitcast(tiny.uint32), 16).bitcast(x.dtype))


def _to_float16(x: Array) -> Array:
    bits = x.bitcast(tiny.uint32)
    sign, size = bits.const_like(1 << 31), bits.const_like((1 << 31) - 1)
    short = _shortened(bits, 13)
    # Above 65504 come infinities, below 2 ** -14 multiples of 2 ** -24.
    beyond = _less(bits.const_like(0x477FFFFF), alu(Ops.AND, short, size))
    infinite = alu(Ops.OR, alu(Ops.AND, bits, sign), bits.const_like(0x7F800000))
    found = choose(beyond, infinite, short).bitcast(x.dtype)
    whole = _round(alu(Ops.MUL, x, x.const_like(2.0**24)))
    small = _less(alu(Ops.AND, bits, size), bits.const_like(0x38800000))
    found = choose(small, alu(Ops.MUL, whole, x.const_like(2.0**-24)), found)
    return choose(isnan(x), x, found)


ROUNDED: Final[dict[str, Function]] = {
    "bfloat16": lazy(_to_bfloat16, moves=False),
    "float16": lazy(_to_float16, moves=False),
}


# ---------------------------------------------------------------------------- manipulation


def _broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    return wide(shape, x)[0].expand(shape)


def _reshape(x: Array, shape: tuple[int, ...], *, copy: bool | None) -> Array:
    return x.reshape(shape)


def _permute_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    return x.permute(axes)


def _matrix_transpose(x: Array) -> Array:
    return x.transpose(-1, -2)


def _expand_dims(x: Array, *, axis: int | tuple[int, ...]) -> Array:
    new = axes_of(axis)
    sizes = iter(x.shape)
    return x.reshape([1 if i in new else next(sizes) for i in range(x.ndim + len(new))])


def _squeeze(x: Array, *, axis: int | tuple[int, ...]) -> Array:
    gone = axes_of(axis)
    return x.reshape([n for i, n in enumerate(x.shape) if i not in gone])


def _flip(x: Array, *, axis: int | tuple[int, ...] | None) -> Array:
    axes = range(x.ndim) if axis is None else axes_of(axis)
    return x.flip(tuple(axes)) if len(axes) else Tensor(x.uop)


def _concat(arrays: tuple[Array, ...], *, axis: int | None) -> Array:
    if axis is None:
        arrays, axis = tuple(x.reshape(-1) for x in arrays), 0
    filled = [x for x in arrays if x.shape[axis]] or [arrays[0]]
    return filled[0].cat(*filled[1:], dim=axis) if len(filled) > 1 else Tensor(filled[0].uop)


def _stack(arrays: tuple[Array, ...], *, axis: int) -> Array:
    return _concat(tuple(_expand_dims(x, axis=axis) for x in arrays), axis=axis)


def _unstack(x: Array, *, axis: int) -> tuple[Array, ...]:
    compute(x)
    before = [slice(None)] * axis
    return tuple(x[(*before, i)] for i in range(x.shape[axis]))


def _tile(x: Array, repetitions: tuple[int, ...]) -> Array:
    width = max(x.ndim, len(repetitions))
    counts = (1,) * (width - len(repetitions)) + tuple(repetitions)
    sizes = (1,) * (width - x.ndim) + x.shape
    pairs = [n for size in sizes for n in (1, size)]
    wide = [n for count, size in zip(counts, sizes, strict=True) for n in (count, size)]
    shape = [count * size for count, size in zip(counts, sizes, strict=True)]
    return x.reshape(pairs).expand(wide).reshape(shape)


def _repeat(x: Array, repeats: Any, *, axis: int | None) -> Array:
    if not isinstance(repeats, int):
        raise LeftToOthersError
    if axis is None:
        x, axis = x.reshape(-1), 0
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    wide = x.reshape((*before, size, 1, *after)).expand((*before, size, repeats, *after))
    return wide.reshape((*before, size * repeats, *after))


def _roll(x: Array, shift: Any, *, axis: Any) -> Array:
    if axis is None:
        return _roll(x.reshape(-1), shift, axis=0).reshape(x.shape)
    places = axes_of(axis)
    for step, place in zip((shift,) * len(places) if isinstance(shift, int) else shift, places):
        size = x.shape[place]
        cut = -step % size if size else 0
        if cut:
            before = [slice(None)] * place
            x = x[(*before, slice(cut, None))].cat(x[(*before, slice(0, cut))], dim=place)
    return Tensor(x.uop)


def _triangle(upper: bool) -> Function:
    def part(x: Array, *, k: int) -> Array:
        rows, columns = x.shape[-2:]
        if 0 in x.shape:
            return Tensor(x.uop)
        below = _band(rows, columns, k if upper else k + 1, Ops.CMPLT, x.device)
        keep = below.logical_not() if upper else below
        zero = upload(np.zeros(1, BY_NATIVE[x.dtype].name), x.device).reshape((1,) * x.ndim)
        return choose(keep, x, zero)

    return part


# ---------------------------------------------------------------------------- the table


#: Operations that only move or choose values.
_MOVING: Final = frozenset(
    {
        *("__getitem__", "__setitem__", "astype", "empty", "eye", "full", "ones", "zeros"),
        *("broadcast_to", "concat", "expand_dims", "flip", "matrix_transpose", "moveaxis"),
        *("permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tile", "tril", "triu"),
        *("unstack", "where"),
    }
)

_TABLE: Final[dict[str, Function]] = {
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "astype": astype,
    "empty": _filled(0),
    "eye": _eye,
    "full": _full,
    "ones": _filled(1),
    "zeros": _filled(0),
    "abs": _abs,
    "add": _add,
    "bitwise_and": _bitwise(Ops.AND),
    "bitwise_invert": lambda x: x.bitwise_not(),
    "bitwise_or": _bitwise(Ops.OR),
    "bitwise_xor": _bitwise(Ops.XOR),
    "ceil": _ceil,
    "clip": _clip,
    "divide": _divide,
    "equal": equal,
    "exp": _exp,
    "floor": _floor,
    "greater": _greater,
    "greater_equal": _greater_equal,
    "isfinite": _isfinite,
    "isinf": _isinf,
    "isnan": isnan,
    "less": _less,
    "less_equal": _less_equal,
    "log": _logarithm(math.log(2)),
    "log10": _logarithm(math.log10(2)),
    "log2": lambda x: x.alu(Ops.LOG2),
    "logical_and": _bitwise(Ops.AND),
    "logical_not": lambda x: x.logical_not(),
    "logical_or": _bitwise(Ops.OR),
    "logical_xor": not_equal,
    "maximum": _maximum,
    "minimum": _minimum,
    "multiply": _multiply,
    "negative": _negative,
    "not_equal": not_equal,
    "positive": same,
    "reciprocal": _reciprocal,
    "round": _round,
    "sign": _sign,
    "signbit": _signbit,
    "sin": lambda x: x.alu(Ops.SIN),
    "sqrt": lambda x: x.alu(Ops.SQRT),
    "square": _square,
    "subtract": _subtract,
    "trunc": _trunc,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "expand_dims": _expand_dims,
    "flip": _flip,
    "matrix_transpose": _matrix_transpose,
    "moveaxis": moveaxis,
    "permute_dims": _permute_dims,
    "repeat": _repeat,
    "reshape": _reshape,
    "roll": _roll,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "tril": _triangle(upper=False),
    "triu": _triangle(upper=True),
    "unstack": _unstack,
    "where": choose,
    **REDUCTIONS,
}

OPERATIONS: Final[dict[str, Function]] = {
    name: lazy(function, moves=name in _MOVING) for name, function in _TABLE.items()
}

#: Operations of the table that run elsewhere for some of their arguments.
PARTLY: Final = frozenset(
    {"__getitem__", "__setitem__", "astype", "prod", "repeat", "std", "sum", "var"}
)
