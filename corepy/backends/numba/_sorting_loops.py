"""Compiled loops that sort by radix: stable, from the last digit to the first.

Numbers are sorted as unsigned integers, their keys. Of a float all bits are inverted where the sign
is set, and the sign alone elsewhere; both zeros have one key, and NaN the greatest. Only digits
in which keys differ are looked at, after the least key is taken away from each.

An index that is unsigned is known not to count from the end, which takes a test for each element.

Elements are dealt out in parts of equal length, each the work of one thread: it counts the digits
of its part, and moves its elements to where those of all parts before it leave off.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import inlined
from corepy.backends.numba._compiled import BLOCK, kernel

Array = npt.NDArray[Any]

#: Bits of a digit: the counts of all values stay in the first-level cache.
DIGIT: Final = 11
_RADIX: Final = 1 << DIGIT
#: Bits of a place, and of a key's upper half, in one word.
HALF: Final = 32
#: Elements with the same upper half that one may have to pass.
_TIES: Final = 32
#: How keys are made of the bits of a number.
UNSIGNED, SIGNED, FLOAT = range(3)
#: Where a part of the elements lies that are sorted in parts.
BETWEEN, FIRST, LAST = range(3)
#: Needles that are looked for together. Of 16 the compiler unrolls the loop, of 32 it fills vector
#: registers, which is ten times as fast.
_TOGETHER: Final = 32


@kernel()
def encode(
    words: Array,
    keys: Array,
    found: Array,
    kind: int,
    flip: Any,
    top: Any,
    infinity: Any,
    start: int,
    stop: int,
) -> None:
    """Make keys of the bits of numbers, ``words (size,)``, in parts.

    `flip` has all bits set to sort in descending order, and none otherwise; `top` has that of the
    sign, and `infinity` those of infinity. ``found (parts, 3)`` gets the least and the greatest
    key, and how many elements are NaN or -0, which their keys do not tell.
    """
    parts, size = len(found), words.size
    for part in range(start, stop):
        low, high = keys.dtype.type(~keys.dtype.type(0)), keys.dtype.type(0)
        special = 0
        mine = words[part * size // parts : (part + 1) * size // parts]
        into = keys[part * size // parts : (part + 1) * size // parts]
        for i in range(mine.size):
            word = mine[i]
            if kind == FLOAT:
                magnitude = word & ~top
                key = ~word if word & top else word | top
                key = top if magnitude == 0 else key
                nan = magnitude > infinity
                key = ~keys.dtype.type(0) if nan else key
                special += nan or word == top
            else:
                key = word ^ top if kind == SIGNED else word
            made = keys.dtype.type(key ^ flip)
            into[i] = made
            low = min(low, made)
            high = max(high, made)
        found[part, 0], found[part, 1], found[part, 2] = low, high, special


@kernel()
def decode(
    keys: Array, words: Array, kind: int, flip: Any, top: Any, start: int, stop: int
) -> None:
    """Put the bits of numbers again, in blocks; of zeros +0, and of NaN one."""
    mine, into = keys[start * BLOCK : stop * BLOCK], words[start * BLOCK : stop * BLOCK]
    for i in range(mine.size):
        key = keys.dtype.type(mine[i] ^ flip)
        if kind == FLOAT:
            into[i] = key ^ top if key & top else ~key
        else:
            into[i] = key ^ top if kind == SIGNED else key


@kernel()
def restore(words: Array, out: Array, descending: bool, top: Any, infinity: Any) -> None:
    """Put each NaN and each zero of ``words (size,)`` where it belongs among the sorted ones."""
    nans = zeros = below = 0
    for i in range(words.size):
        magnitude = words[i] & ~top
        if magnitude > infinity:
            nans += 1
        elif magnitude == 0:
            zeros += 1
        elif (words[i] & top != 0) != descending:
            below += 1
    nan, zero = (0, nans + below) if descending else (words.size - nans, below)
    for i in range(words.size):
        magnitude = words[i] & ~top
        if magnitude > infinity:
            out[nan] = words[i]
            nan += 1
        elif magnitude == 0:
            out[zero] = words[i]
            zero += 1


@kernel()
def tally(keys: Array, low: Any, shift: Any, counts: Array, start: int, stop: int) -> None:
    """Count the values of a digit in each part, into ``counts (parts, radix)``."""
    parts, size = len(counts), keys.size
    mask = keys.dtype.type(_RADIX - 1)
    for part in range(start, stop):
        mine = counts[part]
        mine[:] = 0
        some = keys[part * size // parts : (part + 1) * size // parts]
        for i in range(some.size):
            mine[(keys.dtype.type(some[i] - low) >> shift) & mask] += 1


@kernel()
def place(counts: Array) -> None:
    """Turn the counts of each part into where its elements begin."""
    total = 0
    for digit in range(counts.shape[1]):
        for part in range(counts.shape[0]):
            count = counts[part, digit]
            counts[part, digit] = total
            total += count


@kernel()
def move(
    keys: Array, into: Array, low: Any, shift: Any, counts: Array, start: int, stop: int
) -> None:
    """Move keys to their places by one digit."""
    parts, size = len(counts), keys.size
    mask = keys.dtype.type(_RADIX - 1)
    for part in range(start, stop):
        mine = counts[part]
        some = keys[part * size // parts : (part + 1) * size // parts]
        for i in range(some.size):
            key = some[i]
            digit = (keys.dtype.type(key - low) >> shift) & mask
            target = mine[digit]
            mine[digit] = target + 1
            into[np.uint64(target)] = key


@kernel()
def move_both(
    keys: Array,
    into: Array,
    places: Array,
    places_into: Array,
    fresh: bool,
    low: Any,
    shift: Any,
    counts: Array,
    start: int,
    stop: int,
) -> None:
    """Move keys and where they come from; if `fresh`, that is where they are."""
    parts, size = len(counts), keys.size
    mask = keys.dtype.type(_RADIX - 1)
    for part in range(start, stop):
        mine = counts[part]
        first = part * size // parts
        some = keys[first : (part + 1) * size // parts]
        from_places = places[first : (part + 1) * size // parts]
        for i in range(some.size):
            key = some[i]
            digit = (keys.dtype.type(key - low) >> shift) & mask
            target = mine[digit]
            mine[digit] = target + 1
            into[np.uint64(target)] = key
            places_into[np.uint64(target)] = first + i if fresh else from_places[i]


@kernel()
def pack(keys: Array, low: Any, cut: int, words: Array, start: int, stop: int) -> None:
    """Put the upper bits of keys, without the lowest `cut`, above where they are, in blocks."""
    mine, into = keys[start * BLOCK : stop * BLOCK], words[start * BLOCK : stop * BLOCK]
    first, shift = np.uint64(start * BLOCK), np.uint64(cut)
    for i in range(into.size):
        upper = np.uint64(keys.dtype.type(mine[i] - low)) >> shift
        into[i] = (upper << np.uint64(HALF)) | (first + np.uint64(i))


@kernel()
def settle(words: Array, keys: Array) -> bool:
    """Sort by their whole keys those whose upper bits are the same; False if that are too many."""
    half, mask = np.uint64(HALF), np.uint64((1 << HALF) - 1)
    i = 1
    while i < words.size:
        if words[i] >> half != words[i - 1] >> half:
            i += 1
            continue
        first = i - 1
        while i < words.size and words[i] >> half == words[first] >> half:
            word = words[i]
            key = keys[word & mask]
            j = i
            while j > first and keys[words[j - 1] & mask] > key:
                words[j] = words[j - 1]
                j -= 1
                if i - j > _TIES:
                    return False
            words[j] = word
            i += 1
    return True


@kernel()
def straighten(keys: Array) -> bool:
    """Sort keys that are nearly in order; False if one has to pass too many."""
    for i in range(1, keys.size):
        key = keys[np.uint64(i)]
        if keys[np.uint64(i - 1)] <= key:
            continue
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
            if i - j > _TIES:
                keys[j] = key
                return False
        keys[j] = key
    return True


@kernel()
def count_below(x: Array, pivots: Array, counts: Array, start: int, stop: int) -> None:
    """Count the elements of ``x (size,)`` below each pivot, in blocks into ``counts (blocks,)``."""
    for block in range(start, stop):
        mine = x[block * BLOCK : (block + 1) * BLOCK]
        for j in range(pivots.size):
            pivot, below = pivots[j], 0
            for i in range(mine.size):
                below += mine[i] < pivot
            counts[block, j] = below


@kernel()
def gather_between(x: Array, low: Any, high: Any, ends: int, out: Array) -> None:
    """Put the elements of ``x (size,)`` that are not below `low`, but below `high`, into `out`.

    There are just as many as `out` takes. `ends` is `FIRST` where nothing is too low, and `LAST`
    where nothing is too high, NaN among it. Which are wanted is not foretold, so all are stored,
    and the next one overwrites what is not.
    """
    some = np.empty(BLOCK, x.dtype)
    filled = 0
    for begin in range(0, x.size, BLOCK):
        found, end = 0, min(x.size, begin + BLOCK)
        if ends == FIRST:
            for i in range(begin, end):
                some[np.uint64(found)] = x[np.uint64(i)]
                found += x[np.uint64(i)] < high
        elif ends == LAST:
            for i in range(begin, end):
                some[np.uint64(found)] = x[np.uint64(i)]
                found += not x[np.uint64(i)] < low
        else:
            for i in range(begin, end):
                some[np.uint64(found)] = x[np.uint64(i)]
                found += (not x[np.uint64(i)] < low) & (x[np.uint64(i)] < high)
        for i in range(found):
            out[filled + i] = some[i]
        filled += found


@kernel()
def unpack(words: Array, places: Array, start: int, stop: int) -> None:
    """Put where words say that they come from, in blocks."""
    mine, into = words[start * BLOCK : stop * BLOCK], places[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = np.int64(mine[i] & np.uint64((1 << HALF) - 1))


@kernel()
def sort_rows(
    words: Array, out: Array, kind: int, flip: Any, top: Any, infinity: Any, start: int, stop: int
) -> None:
    """Sort each row of ``words (rows, size)`` into `out`."""
    size = words.shape[1]
    keys, other = np.empty(size, words.dtype), np.empty(size, words.dtype)
    found, counts = np.empty((1, 3), words.dtype), np.empty((1, _RADIX), np.int64)
    for row in range(start, stop):
        encode(words[row], keys, found, kind, flip, top, infinity, 0, 1)
        low = found[0, 0]
        rest, shift = words.dtype.type(found[0, 1] - low), words.dtype.type(0)
        while rest:
            tally(keys, low, shift, counts, 0, 1)
            place(counts)
            move(keys, other, low, shift, counts, 0, 1)
            keys, other = other, keys
            rest = words.dtype.type(rest >> words.dtype.type(DIGIT))
            shift = words.dtype.type(shift + words.dtype.type(DIGIT))
        decode(keys, out[row], kind, flip, top, 0, size // BLOCK + 1)
        if found[0, 2]:
            restore(words[row], out[row], flip != 0, top, infinity)


@kernel()
def order_rows(
    words: Array, out: Array, kind: int, flip: Any, top: Any, infinity: Any, start: int, stop: int
) -> None:
    """Put into `out` from where the sorted elements of each row of ``words (rows, size)`` come."""
    size = words.shape[1]
    keys, other = np.empty(size, words.dtype), np.empty(size, words.dtype)
    places, places_other = np.empty(size, np.int64), np.empty(size, np.int64)
    found, counts = np.empty((1, 3), words.dtype), np.empty((1, _RADIX), np.int64)
    for row in range(start, stop):
        encode(words[row], keys, found, kind, flip, top, infinity, 0, 1)
        low = found[0, 0]
        rest, shift = words.dtype.type(found[0, 1] - low), words.dtype.type(0)
        for i in range(size):
            places[i] = i
        while rest:
            tally(keys, low, shift, counts, 0, 1)
            place(counts)
            move_both(keys, other, places, places_other, False, low, shift, counts, 0, 1)
            keys, other = other, keys
            places, places_other = places_other, places
            rest = words.dtype.type(rest >> words.dtype.type(DIGIT))
            shift = words.dtype.type(shift + words.dtype.type(DIGIT))
        for i in range(size):
            out[row, i] = places[i]


# ---------------------------------------------------------------------------- sets


@kernel()
def mark(x: Array, first: Array, start: int, stop: int) -> None:
    """Mark where an element of sorted ``x (size,)`` differs from the one before it, in blocks."""
    if start == 0:
        first[0] = True
    before = x[max(start * BLOCK, 1) - 1 : stop * BLOCK]
    into = first[max(start * BLOCK, 1) : stop * BLOCK]
    for i in range(into.size):
        into[i] = before[i + 1] != before[i]


@kernel()
def number(first: Array, places: Array, out: Array) -> None:
    """Put the number of the group of each element where it comes from."""
    group = -1
    for i in range(places.size):
        group += first[i]
        out[np.uint64(places[i])] = group


@kernel()
def belong(
    values: Array, x: Array, places: Array, invert: bool, out: Array, start: int, stop: int
) -> None:
    """Say which elements of ``x (size,)`` are those of `values` at their places, in blocks."""
    last = values.size - 1
    for i in range(start * BLOCK, min(stop * BLOCK, x.size)):
        out[i] = (values[np.uint64(min(places[i], last))] == x[i]) != invert


@kernel()
def look_up(
    table: Array, low: Any, high: Any, x: Array, invert: bool, out: Array, start: int, stop: int
) -> None:
    """Say for which elements of ``x (size,)``, counted from the least, a table has a flag."""
    for i in range(start * BLOCK, min(stop * BLOCK, x.size)):
        found = False
        if low <= x[i] <= high:
            found = table[np.uint64(x[i] - low)]
        out[i] = found != invert


# ---------------------------------------------------------------------------- searching


@inlined
def _key(word: Any, rest: Any) -> Any:
    """Return a number in the order of floats from the bits of one; anything else as it is."""
    if rest is None:
        return word
    return word ^ rest if word < 0 else word


@kernel()
def search(
    x: Array,
    needles: Array,
    right: bool,
    rest: Any,
    infinity: Any,
    numbers: int,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """Put where needles belong in sorted ``x (size,)``, in blocks; NaN is the greatest.

    Both hold integers, or the bits of floats as signed ones, which are compared as such: of floats
    a compiler fills no vector registers. `rest` has all bits set but the sign's then, and
    `infinity` those of infinity; of integers they are None. The first `numbers` elements are not
    NaN.

    All needles of a group take the same steps, each with a select in place of a branch, in vector
    registers: so memory is not waited for one by one.
    """
    at, wanted = np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, needles.dtype)
    for first in range(start * BLOCK, min(stop * BLOCK, needles.size), _TOGETHER):
        count = min(_TOGETHER, needles.size - first)
        for j in range(_TOGETHER):
            word = needles[first + min(j, count - 1)]
            if rest is not None and word & rest == 0:  # before all zeros, or behind them
                word = needles.dtype.type(0) if right else ~rest
            wanted[j] = _key(word, rest)
            at[j] = 0
        left = numbers
        while left > 1:
            half = left >> 1
            left -= half
            if right:
                for j in range(_TOGETHER):
                    key = _key(x[np.uint64(at[j] + half - 1)], rest)
                    at[j] += half if key <= wanted[j] else 0
            else:
                for j in range(_TOGETHER):
                    key = _key(x[np.uint64(at[j] + half - 1)], rest)
                    at[j] += half if key < wanted[j] else 0
        for j in range(count):
            last = _key(x[np.uint64(at[j])], rest)
            out[first + j] = at[j] + (last <= wanted[j] if right else last < wanted[j])
        if rest is not None:
            for j in range(count):
                if needles[first + j] & rest > infinity:
                    out[first + j] = x.size if right else numbers
                elif numbers == 0:
                    out[first + j] = 0


@kernel()
def numbers(x: Array) -> int:
    """Return how many elements of a sorted vector of floats come before its NaN."""
    low, high = 0, x.size
    while low < high:
        middle = (low + high) >> 1
        if x[middle] == x[middle]:
            low = middle + 1
        else:
            high = middle
    return low
