"""Elementwise functions: loops of our own, and NumPy's shared among threads.

A loop takes a function where NumPy has none for vector registers (`pow`, `hypot`, `logaddexp`), or
a slower one. Everything else that costs enough runs in NumPy's own loops, a stretch of the elements
in each thread: the results are NumPy's, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from corepy.backends._extents import common_shape
from corepy.backends._numpy_elementwise import OWN_ACOSH
from corepy.backends.numba import _elementwise_loops as loops
from corepy.backends.numba._compiled import BLOCK, PARALLEL_FROM, blocks, fuses, launch
from corepy.backends.numba._glue import (
    FORCED,
    Operation,
    fills_wide_registers,
    numpys,
    operation,
    size_from,
)
from corepy.backends.numba._layout import FLOATS, alike, flat, holds, order, same_order
from corepy.backends.numba._numpys_loops import NumPyLoop, loop_of

Array = npt.NDArray[Any]
Loop = Callable[..., None]

#: Elements of a contiguous operand that NumPy's loop gets at a time, and of a row that it is worth
#: being called for.
_PART: Final = 16 * BLOCK
_SHORT: Final = 128
#: Elements of 8 bytes of a cheap function that are worth waking a second thread.
_CHEAP: Final = 400_000
#: The same of an inverse hyperbolic one.
_SLOW: Final = 150_000
Sizes = dict[np.dtype[Any], int]

_SINGLE, _DOUBLE = FLOATS
#: Integers that are divided as floats; so many fit float64, and the others are NumPy's.
_WHOLE: Final = (np.dtype(np.int32), np.dtype(np.int64))
#: How many times longer that takes.
_SLOWER: Final = 3
# ---------------------------------------------------------------------------- NumPy in threads


def _stretch(ufunc: np.ufunc, out: Array, operands: list[Array], start: int, stop: int) -> None:
    part = slice(start * BLOCK, stop * BLOCK)
    ufunc(*(x if x.size == 1 else x[part] for x in operands), out=out[part])


def in_threads(ufunc: np.ufunc, threads: int, *operands: Array) -> Array | None:
    """Run a function of NumPy's on stretches of its operands, in several threads.

    Parameters
    ----------
    threads : int
        How many elements of 8 bytes are worth waking a second thread.

    Returns
    -------
    ndarray or None
        None where there are too few, or the layouts differ so that no stretches can be made.
    """
    operands = tuple([x if x.__class__ is np.ndarray else np.asarray(x) for x in operands])
    model = operands[0]
    for x in operands[1:]:
        model = x if x.size > model.size else model
    # A thread that is awake would not help with less: what one has in its cache the other has not.
    if model.nbytes < 8 * threads and FORCED is None:
        return None
    loop = loop_of(ufunc, *[x.dtype for x in operands])
    if loop is None:
        return None
    found = alike(*operands)
    if found is None:
        return _over_rows(loop, threads, operands)
    model, in_order, steps = found
    out = np.empty(model.shape, loop.dtype, in_order)

    def again(i: int) -> list[Array]:
        part = slice(i * _PART, (i + 1) * _PART)
        return [flat(x)[part] if step else x for x, step in zip(operands, steps, strict=True)]

    steps = [step * x.itemsize for x, step in zip(operands, steps, strict=True)]
    strides = [_PART * step for step in steps]
    loop.run(operands, strides, steps, out, _PART, again, _work(model, threads))
    return out


def _over_rows(loop: NumPyLoop, threads: int, operands: tuple[Array, ...]) -> Array | None:
    """Run a loop on the rows of operands that are broadcast along the first axis, or over rows."""
    if not all(x.flags.c_contiguous and x.flags.aligned for x in operands):
        return None
    shape = common_shape(*(x.shape for x in operands))
    length = math.prod(shape[1:])
    if shape[0] < 2 or length < _SHORT:
        return None
    spread = [np.broadcast_to(x, shape) for x in operands]
    rows = [x[0] for x in spread]
    if not all(x.flags.c_contiguous or not any(x.strides) for x in rows):
        return None
    out = np.empty(shape, loop.dtype)
    steps = [x.itemsize if x.flags.c_contiguous else 0 for x in rows]
    strides = [x.strides[0] for x in spread]
    work = _work(out, threads)
    loop.run(spread, strides, steps, out, length, lambda i: [x[i] for x in spread], work)
    return out


def _work(x: Array, threads: int) -> int:
    """Return how much there is to do, where so many elements of 8 bytes are worth a thread."""
    return PARALLEL_FROM * x.nbytes // (8 * threads)


def _shared(name: str, threads: int) -> Operation:
    """Make an operation that runs NumPy's function in several threads."""
    ufunc = numpys(name)
    if not isinstance(ufunc, np.ufunc):
        raise TypeError(f"{name}: the NumPy backend runs no ufunc; expected one")

    def of_one(x: Array, /) -> Array | None:
        return in_threads(ufunc, threads, x)

    def of_two(x1: Array, x2: Array, /) -> Array | None:
        return in_threads(ufunc, threads, x1, x2)

    return operation(name, threads // 2)(of_one if ufunc.nin == 1 else of_two)


def _inverse_cosine() -> Operation:
    """Make `acosh`; of complex numbers NumPy's own may be wrong (see `OWN_ACOSH`)."""
    if not OWN_ACOSH:
        return _shared("acosh", _SLOW)

    def own(x: Array, /) -> Array | None:
        return None if x.dtype.kind == "c" else in_threads(np.arccosh, _SLOW, x)

    return operation("acosh", _SLOW // 2)(own)


def _rounded(name: str, ufunc: np.ufunc) -> Operation:
    """Make an operation that rounds floats in several threads; integers are as they are."""

    @operation(name, _CHEAP)
    def own(x: Array, /) -> Array | None:
        return in_threads(ufunc, _CHEAP, x) if x.dtype in FLOATS else None

    return own


def _updated(name: str, ufunc: np.ufunc, threads: int) -> Operation:
    """Make an operator that writes over its first operand, in several threads."""

    @operation(name, threads)
    def own(x1: Array, x2: Array, /) -> Array | None:
        if x1.nbytes < (8 * threads if FORCED is None else 1):
            return None
        same = same_order(x1, x2)
        # What overlaps has to be read before any of it is written.
        if same is None or same[0] is not x1 or (x1 is not x2 and np.may_share_memory(x1, x2)):
            return None
        (into, other), step = same[1], same[2][1]
        operands = [into, other if step else other[:1]]
        launch(_stretch, (ufunc, into, operands), blocks(into.size), _work(x1, threads))
        return x1

    return own


#: Real dtypes.
_CLIPPED: Final = frozenset(map(np.dtype, "bhilqBHILQfd"))


@operation("clip", _CHEAP // 4)
def _clip(x: Array, /, min: Array | None = None, max: Array | None = None) -> Array | None:
    if min is None or max is None:  # of zeros that are equal the bound, as NumPy's functions do
        ufunc, bound = (np.minimum, max) if min is None else (np.maximum, min)
        return None if bound is None else in_threads(ufunc, _CHEAP, x, bound)
    if x.dtype not in _CLIPPED or min.dtype != x.dtype or max.dtype != x.dtype:
        return None
    same = same_order(x, min, max)
    if same is None or same[0] is not x:
        return None
    _, (values, low, high), (_, step_low, step_high) = same
    out = np.empty(x.shape, x.dtype, order(x))
    arguments = (values, low, high, flat(out), step_low, step_high)
    launch(loops.clips, arguments, blocks(x.size), _work(x, _CHEAP))
    return out


# ---------------------------------------------------------------------------- loops


class Way(NamedTuple):
    """A loop, and where it pays.

    Attributes
    ----------
    loop : callable
    wide : dict of dtype to int
        From how many elements it pays where NumPy fills wide registers; a dtype that is missing
        never does.
    narrow : int
        From how many it pays where NumPy does not.
    threads : int
        How many of 8 bytes are worth a second thread: those of some 80 us, of which one that has
        slept still finds half.
    integers : callable or None
        The loop for `_WHOLE`.
    is_easy : callable or None
        Whether NumPy has a quicker way for some operands.
    is_left : callable or None
        Whether some operands are for the NumPy backend, whose fixes are about them.
    """

    loop: Loop
    wide: Sizes
    narrow: int
    threads: int
    integers: Loop | None = None
    is_easy: Callable[..., bool] | None = None
    is_left: Callable[..., bool] | None = None

    def least(self, name: str) -> Sizes:
        """Return from how many elements it pays on this machine."""
        own = getattr(np, name).__name__
        sizes = {d: self.narrow for d in FLOATS if not fills_wide_registers(own, d)} | self.wide
        return sizes | (dict.fromkeys(_WHOLE, self.narrow) if self.integers else {})


def _anywhere(size: int) -> Sizes:
    """Return that a loop pays from so many elements on, whatever NumPy fills."""
    return dict.fromkeys(FLOATS, size)


def _looped(name: str, loop: Loop, least: Sizes, threads: int) -> Operation:
    """Make an operation of a loop over the elements of one operand.

    Parameters
    ----------
    least : dict of dtype to int
        From how many elements the loop pays; other floats are NumPy's, in threads.
    threads : int
        How many of 8 bytes are worth a second thread.
    """
    sizes = {dtype: size_from(size) for dtype, size in least.items()}
    ufunc = getattr(np, name)
    #: Where the NumPy backend has complex numbers mended, its function is not NumPy's own.
    kinds = "fc" if numpys(name) is ufunc else "f"

    @operation(name, min([threads // 4, *least.values()]))
    def own(x: Array, /) -> Array | None:
        size = sizes.get(x.dtype)
        if size is None:
            return in_threads(ufunc, threads, x) if x.dtype.kind in kinds else None
        found = order(x) if x.size >= size else None
        if found is None:
            return None
        out = np.empty(x.shape, x.dtype, found)
        launch(loop, (flat(x), flat(out)), blocks(x.size), _work(x, threads))
        return out

    return own


def _checked(name: str, way: Way) -> Operation:
    """Make an operation of a loop that leaves blocks with special values to NumPy."""
    loop, threads, integers, is_easy = way.loop, way.threads, way.integers, way.is_easy
    least = way.least(name)
    sizes = {dtype: size_from(size) for dtype, size in least.items()}
    function, ufunc = numpys(name), getattr(np, name)

    def compute(*operands: Array) -> Array | None:
        if way.is_left is not None and way.is_left(*operands):
            return None
        first = operands[0].dtype
        size = sizes.get(first)
        if size is not None and operands[-1].dtype == first:
            same = None if is_easy is not None and is_easy(*operands) else same_order(*operands)
            if same is not None:
                return looped(*same) if same[0].size >= size else None
        if integers is not None:
            return _divided(ufunc, *operands)
        return in_threads(ufunc, threads, *operands)

    def looped(model: Array, views: list[Array], steps: list[int]) -> Array:
        out = np.empty(model.shape, model.dtype, order(model))
        into = flat(out)
        failed = np.empty(blocks(into.size), np.bool_)
        run, worth = loop, threads
        if model.dtype.kind != "f" and integers is not None:
            run, worth = integers, threads // _SLOWER
        launch(run, (*views, into, failed, *steps), failed.size, _work(out, worth))
        for start, stop in runs(failed):
            part = slice(start * BLOCK, stop * BLOCK)
            into[part] = function(
                *(x[part] if step else x[0] for x, step in zip(views, steps, strict=True))
            )
        return out

    def of_one(x: Array, /) -> Array | None:
        return compute(x)

    def of_two(x1: Array, x2: Array, /) -> Array | None:
        return compute(x1, x2)

    smallest = min([threads // 2, *least.values()])
    return operation(name, smallest)(of_one if ufunc.nin == 1 else of_two)


def _to_an_easy_exponent(x1: Array, x2: Array) -> bool:
    """Say whether all powers are squares or something as simple, as NumPy's loop finds out."""
    return x2.size == 1 and x2.item() in (-1, 0, 1, 2)


def _is_one_half(x1: Array, x2: Array) -> bool:
    return x2.dtype.kind == "f" and x2.size == 1 and x2.item() == 0.5


def _divided(ufunc: np.ufunc, x1: Array, x2: Array) -> Array | None:
    """Divide integers in several threads; None where there is a zero: NumPy's backend raises."""
    if x1.dtype.kind not in "iu" or x1.dtype != x2.dtype:
        return None
    try:
        with np.errstate(divide="raise", over="ignore"):
            return in_threads(ufunc, 80_000, x1, x2)
    except FloatingPointError:
        return None


def runs(flags: Array) -> list[tuple[int, int]]:
    """Return the bounds of the stretches in which flags are set."""
    if not holds(flags):
        return []
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _in_place(name: str, divide: Operation) -> Operation:
    @operation(name, divide.least)
    def own(x1: Array, x2: Array, /) -> Array:
        x1[...] = divide(x1, x2)
        return x1

    return own


# ---------------------------------------------------------------------------- the table

# From how many elements each pays was found with benchmarks/numba_kernels.py.

#: Functions of NumPy's, by how many elements of 8 bytes are worth a second thread.
_SHARED: Final[dict[int, tuple[str, ...]]] = {
    _CHEAP: (
        *("abs", "add", "bitwise_and", "bitwise_invert", "bitwise_or", "bitwise_xor", "divide"),
        *("equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal"),
        *("logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum"),
        *("multiply", "negative", "not_equal", "reciprocal", "signbit", "square", "subtract"),
        *("bitwise_left_shift", "bitwise_right_shift", "copysign"),
    ),
    _SLOW: ("asinh", "atanh"),
}

#: Operators that write over their first operand.
_IN_PLACE: Final[dict[str, np.ufunc]] = {
    "__iadd__": np.add,
    "__imul__": np.multiply,
    "__isub__": np.subtract,
    "__itruediv__": np.true_divide,
}

#: Functions of one operand.
_LOOPED: Final[dict[str, Way]] = {
    "acos": Way(loops.arc_cosines, {}, 1024, 24_000),
    "asin": Way(loops.arc_sines, {}, 1024, 24_000),
    "atan": Way(loops.arc_tangents, {}, 1024, 32_000),
    "exp": Way(loops.exponentials, {_SINGLE: 32_768}, 2048, 40_000),
    "expm1": Way(loops.growths, {_DOUBLE: 16_384}, 1024, 40_000),
    "log": Way(loops.logarithms, {}, 2048, 32_000),
    "log10": Way(loops.logarithms_10, {}, 1024, 32_000),
    "log1p": Way(loops.logarithms_1p, {}, 1024, 32_000),
    "log2": Way(loops.logarithms_2, {}, 1024, 32_000),
    "tanh": Way(loops.hyperbolic_tangents, {_DOUBLE: 16_384}, 4096, 32_000),
}
#: Those whose loops leave special values to NumPy.
_CHECKED: Final[dict[str, Way]] = {
    # NumPy's of float32 is off by up to 2.04 units in the last place with AVX-512.
    "atan2": Way(loops.angles, _anywhere(1024), 1024, 32_000),
    "cos": Way(loops.cosines, {_DOUBLE: 1024}, 1024, 40_000),
    "cosh": Way(loops.hyperbolic_cosines, {}, 1024, 32_000),
    "floor_divide": Way(
        loops.floor_quotients, _anywhere(1024), 1024, 80_000, loops.integer_quotients
    ),
    "hypot": Way(loops.lengths, {_SINGLE: 2048, _DOUBLE: 768}, 2048, 80_000),
    "logaddexp": Way(loops.sums_of_exponentials, _anywhere(512), 512, 16_000),
    "pow": Way(loops.powers, {}, 1024, 12_000, is_easy=_to_an_easy_exponent, is_left=_is_one_half),
    "remainder": Way(loops.remainders, _anywhere(2048), 2048, 80_000, loops.integer_remainders),
    "sin": Way(loops.sines, {_DOUBLE: 1024}, 1024, 40_000),
    "sinh": Way(loops.hyperbolic_sines, {}, 1024, 32_000),
    "tan": Way(loops.tangents, {}, 1024, 32_000),
}


def _operations() -> dict[str, Operation]:
    made = {name: _shared(name, least) for least, names in _SHARED.items() for name in names}
    roots = {_SINGLE: 32_768, _DOUBLE: 8192}
    made["sqrt"] = _looped("sqrt", loops.square_roots, roots, 200_000)
    made["acosh"] = _inverse_cosine()
    made["clip"] = _clip
    for name, rounding in (("ceil", np.ceil), ("floor", np.floor), ("trunc", np.trunc)):
        made[name] = _rounded(name, rounding)
    made["round"] = _rounded("round", np.rint)
    for name, ufunc in _IN_PLACE.items():
        made[name] = _updated(name, ufunc, _CHEAP)
    made["sign"] = _looped("sign", loops.signs, _anywhere(2048), _CHEAP)
    neighbours = Way(loops.neighbours, _anywhere(4096), 4096, 200_000)
    made["nextafter"] = _checked("nextafter", neighbours)
    for name, way in _LOOPED.items():
        least = way.least(name) if fuses() else {}
        made[name] = _looped(name, way.loop, least, way.threads)
    if not fuses():
        ufuncs = [name for name in _CHECKED if isinstance(numpys(name), np.ufunc)]
        return made | {name: _shared(name, 80_000) for name in ufuncs}
    made |= {name: _checked(name, way) for name, way in _CHECKED.items()}
    made["__ifloordiv__"] = _in_place("__ifloordiv__", made["floor_divide"])
    made["__imod__"] = _in_place("__imod__", made["remainder"])
    return made


OPERATIONS: Final = _operations()
