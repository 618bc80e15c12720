"""Sorting, searching and sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends._extents import FEW_MEMBERS
from corepy.backends._numpy import restore_order
from corepy.backends._numpy_order import SORTS_SLOWLY
from corepy.backends.numba import _sorting_loops as loops
from corepy.backends.numba._compiled import blocks, free_threads, launch
from corepy.backends.numba._glue import Operation, fills_wide_registers, operation, size_from
from corepy.backends.numba._selections import compressed

Array = npt.NDArray[Any]

#: Elements of a row from which radix pays beside NumPy's stable sort, and beside its other one;
#: those of 8 and 16 bits NumPy sorts by radix itself.
_ROW: Final = 4096
_QUICK: Final = 8192
#: Elements of a row that is worth being sorted in parts, and these.
_LONG: Final = 131_072
_PARTS: Final = 8
#: Digits from the top by which a long row is sorted first; few keys are alike in all of them.
_DIGITS: Final = 3
#: Whether NumPy is quick to sort in wide vector registers, and up to how many digits radix is
#: faster even so.
_WIDE: Final = not SORTS_SLOWLY and fills_wide_registers("maximum", np.dtype(np.float64))
_FEW_DIGITS: Final = 2
#: Elements of a row that NumPy sorts in several threads, and where a sample of them lies, as parts
#: of its length: evenly, but in step with nothing that repeats.
_SHARED: Final = 65_536
_SPREAD: Final = np.arange(1, 1024) * ((5**0.5 - 1) / 2) % 1
#: Needles of a search that pay.
_NEEDLES: Final = 512
#: Numbers in the range of a set, for each element of both arrays, up to which flags are in a table.
_TABLE: Final = 6


def _kind(dtype: np.dtype[Any]) -> tuple[int, np.dtype[Any], Any, Any]:
    """Return how keys are made: the kind, their dtype, the sign's bit, and infinity's bits."""
    bits = np.dtype(f"u{dtype.itemsize}")
    top = bits.type(1 << (8 * dtype.itemsize - 1))
    kind = {"u": loops.UNSIGNED, "i": loops.SIGNED, "f": loops.FLOAT}[dtype.kind]
    infinity = np.array([np.inf], dtype).view(bits)[0] if dtype.kind == "f" else bits.type(0)
    return kind, bits, top, infinity


_KINDS: Final = {
    np.dtype(name): _kind(np.dtype(name)) for name in ("f4", "f8", "i4", "i8", "u4", "u8")
}


#: By the dtype of floats, all bits but the sign's, and infinity's, as signed integers.
_REST: Final = {
    dtype: ((~top).view(f"i{dtype.itemsize}"), infinity.view(f"i{dtype.itemsize}"))
    for dtype, (kind, _, top, infinity) in _KINDS.items()
    if kind == loops.FLOAT
}


class _Sorter:
    """One row that is sorted in parts, each digit by several threads."""

    def __init__(self, x: Array, descending: bool) -> None:
        self.kind, bits, self.top, self.infinity = _KINDS[x.dtype]
        self.flip = bits.type(~bits.type(0)) if descending else bits.type(0)
        self.words = x.view(bits)
        self.keys = np.empty(x.size, bits)
        self.parts = _PARTS if x.size >= _LONG else 1
        found = np.empty((self.parts, 3), bits)
        arguments = (self.words, self.keys, found, self.kind, self.flip, self.top, self.infinity)
        launch(loops.encode, arguments, self.parts, x.size)
        self.low, self.high = found[:, 0].min(), int(found[:, 1].max())
        self.special = bool(found[:, 2].any())
        self.shifts = range(0, (self.high - int(self.low)).bit_length(), loops.DIGIT)

    def _counted(self, shift: int) -> tuple[Any, Array]:
        step = self.keys.dtype.type(shift)
        counts = np.empty((self.parts, 1 << loops.DIGIT), np.int64)
        launch(loops.tally, (self.keys, self.low, step, counts), self.parts, self.keys.size)
        loops.place(counts)
        return step, counts

    def values(self, out: Array) -> None:
        """Put the sorted elements."""
        into = np.empty_like(self.keys)
        width, some = (self.high - int(self.low)).bit_length(), _DIGITS * loops.DIGIT
        into = self._sort_by(range(max(0, width - some), width, loops.DIGIT), into)
        if width > some and not loops.straighten(self.keys):
            self._sort_by(self.shifts, into)
        words = out.view(self.words.dtype)
        arguments = (self.keys, words, self.kind, self.flip, self.top)
        launch(loops.decode, arguments, blocks(words.size), words.size)
        if self.special:
            loops.restore(self.words, words, bool(self.flip), self.top, self.infinity)

    def _sort_by(self, shifts: range, into: Array) -> Array:
        """Sort the keys by some digits; return memory that is free now."""
        for shift in shifts:
            step, counts = self._counted(shift)
            arguments = (self.keys, into, self.low, step, counts)
            launch(loops.move, arguments, self.parts, 4 * into.size)
            self.keys, into = into, self.keys
        return into

    def places(self) -> Array:
        """Return where the sorted elements come from."""
        found = self._places_by_halves() if self.keys.size < 1 << loops.HALF else None
        return self._places_by_all() if found is None else found

    def _places_by_halves(self) -> Array | None:
        """Sort words of 64 bits, the upper half of a key and a place; None where many halves tie.

        So fewer digits are looked at, and half as much is moved.
        """
        size, wide = self.keys.size, np.dtype(np.uint64)
        width = (self.high - int(self.low)).bit_length()
        cut = max(0, width - loops.HALF)
        words, into = np.empty(size, wide), np.empty(size, wide)
        launch(loops.pack, (self.keys, self.low, cut, words), blocks(size), size)
        nothing = wide.type(0)
        for shift in range(loops.HALF, loops.HALF + width - cut, loops.DIGIT):
            step = wide.type(shift)
            counts = np.empty((self.parts, 1 << loops.DIGIT), np.int64)
            launch(loops.tally, (words, nothing, step, counts), self.parts, size)
            loops.place(counts)
            launch(loops.move, (words, into, nothing, step, counts), self.parts, 4 * size)
            words, into = into, words
        if cut and not loops.settle(words, self.keys):
            return None
        places: Array = into.view(np.int64)
        launch(loops.unpack, (words, places), blocks(size), size)
        return places

    def _places_by_all(self) -> Array:
        size = self.keys.size
        dtype = np.int32 if size <= np.iinfo(np.int32).max else np.int64
        into = np.empty_like(self.keys)
        places, other = np.empty(size, dtype), np.empty(size, dtype)
        for shift in self.shifts:
            step, counts = self._counted(shift)
            arguments = (self.keys, into, places, other, shift == 0, self.low, step, counts)
            launch(loops.move_both, arguments, self.parts, 4 * size)
            self.keys, into = into, self.keys
            places, other = other, places
        return places.astype(np.int64) if self.shifts else np.arange(size)


def _is_radixs(x: Array) -> bool:
    """Say whether radix sorts a long vector sooner than NumPy, which sorts in vector registers."""
    if not _WIDE:
        return True
    if x.dtype.kind == "f":
        return False
    return (int(x.max()) - int(x.min())).bit_length() <= _FEW_DIGITS * loops.DIGIT


def _sort_parts(
    x: Array, pivots: Array, edges: Sequence[int], out: Array, start: int, stop: int
) -> None:
    last = len(pivots)
    for part in range(start, stop):
        into = out[edges[part] : edges[part + 1]]
        ends = loops.FIRST if part == 0 else loops.LAST if part == last else loops.BETWEEN
        low, high = pivots[max(part - 1, 0)], pivots[min(part, last - 1)]
        loops.gather_between(x, low, high, ends, into)
        into.sort()


def _sort_by_parts(x: Array, out: Array, parts: int) -> None:
    """Put the elements of a vector in order: NumPy sorts parts, of which each is above the last.

    A sample tells where they begin. Each thread picks its own part from among all the elements,
    and there is nothing to merge.
    """
    if parts == 1:
        out[...] = x
        out.sort()
    else:
        pivots, edges = _parted(x, parts)
        launch(_sort_parts, (x, pivots, edges, out), parts, 16 * x.size)
    if x.dtype.kind == "f":
        restore_order(x, out)


def _parted(x: Array, parts: int) -> tuple[Array, list[int]]:
    """Return the least element of each part but the first, and where in all parts begin and end."""
    sample = np.sort(x[(_SPREAD * x.size).astype(np.intp)])
    pivots = sample[np.arange(1, parts) * sample.size // parts]
    if x.dtype.kind == "f":  # nothing is below NaN
        pivots[np.isnan(pivots)] = np.inf
    counts = np.empty((blocks(x.size), parts - 1), np.int64)
    launch(loops.count_below, (x, pivots, counts), len(counts), x.size * (parts - 1))
    return pivots, [0, *np.add.reduce(counts, axis=0).tolist(), x.size]


def _sort_vector(x: Array, out: Array, descending: bool) -> None:
    """Put the elements of a vector in order."""
    if x.size < _SHARED or descending or _is_radixs(x):
        _Sorter(x, descending).values(out)
    else:
        _sort_by_parts(x, out, free_threads(_PARTS))


def _along(x: Array, axis: int, stable: bool) -> Array | None:
    """Return rows along an axis, side by side; None where sorting them is NumPy's."""
    least = size_from(_ROW if stable else _QUICK)
    if x.dtype not in _KINDS or x.shape[axis] < least or not x.size:
        return None
    moved = np.moveaxis(x, axis, -1)
    return np.require(moved, requirements=["C", "A"]).reshape(-1, x.shape[axis])


def _back(rows: Array, x: Array, axis: int) -> Array:
    """Return rows as an array of the shape of x."""
    shape = x.shape[:axis] + x.shape[axis + 1 :] + x.shape[axis : axis + 1]
    return np.ascontiguousarray(np.moveaxis(rows.reshape(shape), -1, axis))


def _rows(loop: Any, rows: Array, out: Array, descending: bool) -> None:
    kind, bits, top, infinity = _KINDS[rows.dtype]
    flip = bits.type(~bits.type(0)) if descending else bits.type(0)
    arguments = (rows.view(bits), out, kind, flip, top, infinity)
    launch(loop, arguments, len(rows), 16 * rows.size)


@operation("sort", _ROW)
def _sort(x: Array, /, *, axis: int, descending: bool, stable: bool) -> Array | None:
    rows = _along(x, axis, stable)
    if rows is None:
        return None
    out = np.empty_like(rows)
    if len(rows) == 1 or rows.shape[1] >= _LONG:
        for row, into in zip(rows, out, strict=True):
            _sort_vector(row, into, descending)
    else:
        _rows(loops.sort_rows, rows, out.view(_KINDS[x.dtype][1]), descending)
    return _back(out, x, axis)


@operation("argsort", _ROW)
def _argsort(x: Array, /, *, axis: int, descending: bool, stable: bool) -> Array | None:
    rows = _along(x, axis, stable)
    if rows is None:
        return None
    if len(rows) == 1 or rows.shape[1] >= _LONG:
        out = np.stack([_Sorter(row, descending).places() for row in rows])
    else:
        out = np.empty(rows.shape, np.int64)
        _rows(loops.order_rows, rows, out, descending)
    return _back(out, x, axis)


# ---------------------------------------------------------------------------- sets


def _flat(x: Array) -> Array | None:
    if x.dtype not in _KINDS or not x.size:
        return None
    return np.require(x, requirements=["C", "A"]).reshape(-1)


def _marked(values: Array) -> Array:
    """Say of each element of a sorted array whether it is the first of its kind; each NaN is."""
    first = np.empty(values.size, np.bool_)
    launch(loops.mark, (values, first), blocks(values.size), values.size)
    return first


def _sorted(x: Array) -> Array:
    out = np.empty_like(x)
    _sort_vector(x, out, descending=False)
    return out


@operation("unique_values", _ROW)
def _unique_values(x: Array, /) -> Array | None:
    values = _flat(x)
    if values is None:
        return None
    values = _sorted(values)
    return compressed(values, _marked(values))


@operation("unique_counts", _ROW)
def _unique_counts(x: Array, /) -> tuple[Array, Array] | None:
    values = _flat(x)
    if values is None:
        return None
    values = _sorted(values)
    first = np.flatnonzero(_marked(values))
    return values[first], np.diff(first, append=values.size)


def _grouped(x: Array) -> tuple[Array, Array, Array, Array]:
    """Return the sorted elements, where they come from, which are first, and each one's group."""
    places = _Sorter(x, descending=False).places()
    values = x[places]
    first = _marked(values)
    inverse = np.empty(x.size, np.int64)
    loops.number(first, places, inverse)
    return values, places, first, inverse


@operation("unique_inverse", _ROW)
def _unique_inverse(x: Array, /) -> tuple[Array, Array] | None:
    flat = _flat(x)
    if flat is None:
        return None
    values, _, first, inverse = _grouped(flat)
    return compressed(values, first), inverse.reshape(x.shape)


@operation("unique_all", _ROW)
def _unique_all(x: Array, /) -> tuple[Array, Array, Array, Array] | None:
    flat = _flat(x)
    if flat is None:
        return None
    values, places, first, inverse = _grouped(flat)
    starts = np.flatnonzero(first)
    counts = np.diff(starts, append=values.size)
    return values[starts], places[starts], inverse.reshape(x.shape), counts


# ---------------------------------------------------------------------------- searching


@operation("searchsorted", _NEEDLES)
def _searchsorted(x1: Array, x2: Array, /, *, side: str, sorter: Array | None) -> Array | None:
    if sorter is not None or x1.dtype != x2.dtype or x1.dtype not in _KINDS:
        return None
    if x2.size < size_from(_NEEDLES) or not x1.size:
        return None
    needles = np.require(x2, requirements=["C", "A"]).reshape(-1)
    hay = np.require(x1, requirements=["C", "A"])
    return _places(hay, needles, right=side == "right").reshape(x2.shape)


def _places(hay: Array, needles: Array, *, right: bool) -> Array:
    """Find where each needle belongs in a sorted vector."""
    out = np.empty(needles.size, np.int64)
    size, rest, infinity = hay.size, None, None
    if hay.dtype.kind == "f":
        size = loops.numbers(hay)
        rest, infinity = _REST[hay.dtype]
        hay, needles = hay.view(rest.dtype), needles.view(rest.dtype)
    arguments = (hay, needles, right, rest, infinity, size, out)
    launch(loops.search, arguments, blocks(needles.size), 16 * needles.size)
    return out


@operation("isin", _NEEDLES)
def _isin(x1: Array, x2: Array, /, *, invert: bool) -> Array | None:
    x, members = _flat(x1), _flat(x2)
    if x is None or members is None or x.dtype != members.dtype:
        return None
    if x.size < size_from(_NEEDLES) or members.size <= FEW_MEMBERS:
        return None
    out = np.empty(x.size, np.bool_)
    if x.dtype.kind in "iu":
        low, high = members.min(), members.max()
        if int(high) - int(low) <= _TABLE * (x.size + members.size):
            table = np.zeros(int(high) - int(low) + 1, np.bool_)
            # Without a sign: signed integers of 32 bits may be further apart than they reach.
            table[(members - low).view(_KINDS[x.dtype][1])] = True
            launch(loops.look_up, (table, low, high, x, invert, out), blocks(x.size), 4 * x.size)
            return out.reshape(x1.shape)
    members = _sorted(members) if members.size >= _ROW else np.sort(members)
    places = _places(members, x, right=False)
    launch(loops.belong, (members, x, places, invert, out), blocks(x.size), 4 * x.size)
    return out.reshape(x1.shape)


OPERATIONS: Final[dict[str, Operation]] = {
    made.__name__: made
    for made in (
        *(_sort, _argsort, _searchsorted, _isin),
        *(_unique_all, _unique_counts, _unique_inverse, _unique_values),
    )
}
