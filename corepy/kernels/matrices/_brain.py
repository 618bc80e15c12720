"""torch's own product of bfloat16, by the processor's instruction for it, where that is exact.

It takes half the time of a product in float32, and its sums are float32 too. But to it subnormal
numbers are zero: those it is given, and each product and sum that is one. Here is found out whether
that can have changed a result; if so, the compiled loops compute it once more.

A number that counts as zero changes a sum by less than ``2**-126`` times the number that it is
multiplied by, a product or a sum that does by less than ``2**-126``. So results are off by less
than ``depth * 2**-126 * (greatest + 2)``, with the greatest number of an operand that has no
subnormal numbers itself. Where they are large beside that, nobody can tell. Where they are not, as
zeros are, it is also exact if no operand has subnormal numbers, and all products of numbers that
are not zero are at least ``2**-100``: products have 16 digits, so that their sums are either zero
or normal numbers too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from math import frexp
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.devices._probe import FAILURES, Ground, cpu_flags
from corepy.devices._shortage import insist
from corepy.dispatch import is_reproducible, make, ran
from corepy.kernels._arguments import Given
from corepy.kernels._compiled import kernel
from corepy.kernels._formulas import without_autocast
from corepy.kernels._memory import delivered, place_of, strided, view
from corepy.kernels._ways import TORCH, wanted

Array = npt.NDArray[Any]

#: Products from which it is worth a look at what came out, and rows and columns.
_MANY: Final = 1 << 21
_LEAST: Final = 5
#: The word of infinity, and the least normal number.
_INFINITE: Final = 0x7F80
_NORMAL: Final = 2.0**-126
#: What stands for the least magnitude but zero of those that are all zero.
_NONE: Final = 0x8000
#: How many times larger than what may be lost results have to be: an error of a 32nd of the last
#: place of bfloat16.
_MARGIN: Final = 2.0**13


@kernel
def _extent(words: Array, ends: Array) -> None:
    """Put the greatest magnitude, the least, and the least but zero, as words, into `ends`."""
    one = np.int32(1)
    most, least, some = np.int32(0), np.int32(0x7FFF), np.int32(0x7FFF)
    for j in range(words.size):
        word = np.int32(np.int32(words[j]) & np.int32(0x7FFF))
        most = word if word > most else most
        least = word if word < least else least
        # Zero, less one, is beyond all others.
        other = np.int32(np.int32(word - one) & np.int32(0x7FFF))
        some = other if other < some else some
    ends[0], ends[1], ends[2] = most, least, (some + 1) & 0xFFFF


@cache
def _has_instruction() -> bool:
    """Say whether the processor multiplies bfloat16 itself, as torch then lets it."""
    try:
        flags = cpu_flags(Ground())
    except FAILURES:
        return False
    return bool(flags & {"avx512_bf16", "amx_bf16"})


def _is_open(x: Given, products: int) -> bool:
    """Say whether torch is to be asked for a product."""
    if x.dtype != "bfloat16" or x.library != TORCH or products < _MANY or is_reproducible():
        return False
    if wanted() not in (None, TORCH) or not _has_instruction():
        return False
    own = sys.modules["torch"].backends.mkldnn
    return bool(own.is_available() and own.enabled)


def product(
    left: Given, right: Given, turned: bool, shape: tuple[int, ...], out: Given | None
) -> Any:
    """Return ``left @ right``, or `right` transposed, in a shape; None if torch is not to compute.

    Parameters
    ----------
    left : Given (..., depth)
    right : Given (depth, columns), or (columns, depth) if `turned`
    """
    if len(right.shape) != 2:
        return None
    depth = left.shape[-1]
    rows, columns = left.size // depth, right.size // depth
    if min(rows, columns) < _LEAST or not _is_open(left, rows * columns * depth):
        return None

    def operands() -> tuple[Any, Any]:
        # As one matrix: of vectors that lie apart torch would make a product of many small ones.
        a, b = left.native.detach().reshape(rows, depth), right.native.detach()
        return a, b.T if turned else b

    small, large = (left, right) if left.size < right.size else (right, left)
    found = _product(left, operands)
    if not _is_exact(found, _words_of(small), large, depth):
        return None
    return _delivered(left, found.reshape(shape), out)


def scores(q: Given, k: Given, scale: float, out: Given | None) -> Any:
    """Return ``scale * q @ k.mT``; None if torch is not to compute, or cannot scale exactly."""
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    rows = heads // kv_heads * queries
    exact = 0.0 < scale <= 1.0 and frexp(scale)[0] == 0.5
    if not exact or min(rows, keys) < _LEAST or not _is_open(q, q.size * keys):
        return None

    def operands() -> tuple[Any, Any]:
        scaled = (q.native.detach() * scale).reshape(batch, kv_heads, rows, size)
        b = k.native.detach().mT
        # For keys in a part of a cache, or heads side by side, torch takes up to 80 times as long.
        return scaled, b if b.is_contiguous() else b.mT.contiguous().mT

    found = _product(q, operands)
    if not _is_exact(found, _words_of(q), k, size, scale):
        return None
    return _delivered(q, found.reshape(batch, heads, queries, keys), out)


def _product(x: Given, operands: Callable[[], tuple[Any, Any]]) -> Any:
    def compute() -> Any:
        with without_autocast(x):
            return sys.modules["torch"].matmul(*operands())

    return insist(x.function, place_of(x), compute)


def _delivered(x: Given, native: Any, out: Given | None) -> Any:
    ran(TORCH, x.backend, place_of(x), "torch has a product of its own for it")
    return delivered(native if x.table is None else make(native, x.table), out)


def _words_of(x: Given) -> Array:
    """Return the words of an argument in any order, with those between them, if these are few."""
    words = strided(x, rows=False)[0]
    return words if words.size <= 2 * x.size else view(x).reshape(-1)


def _is_exact(found: Any, small: Array, large: Given, depth: int, scale: float = 1.0) -> bool:
    """Say whether no subnormal number that counts as zero can have changed a product.

    Parameters
    ----------
    small : array
        The words of an operand, which was multiplied by `scale`, a power of two.
    large : Given
        The other operand.
    """
    ends = np.empty(3, np.int32)
    _extent(small, ends)
    most, _, least = ends.tolist()
    if least == _NONE:  # all are zero
        return True
    lowest = _number(least) * scale
    if most >= _INFINITE or lowest < _NORMAL:
        return False
    _extent(_bits(found), ends)
    lost = depth * _NORMAL * (_number(most) * scale + 2.0)
    if _number(int(ends[1])) > _MARGIN * lost:
        return True
    _extent(_words_of(large), ends)
    other = _number(int(ends[2]))
    return other >= _NORMAL and lowest * other >= 2.0**-100


def _bits(tensor: Any) -> Array:
    words: Array = tensor.contiguous().view(sys.modules["torch"].int16).numpy().view(np.uint16)
    return words.reshape(-1)


def _number(word: int) -> float:
    """Return the positive number that a word of bfloat16 stands for, infinity for none."""
    return float("inf") if word == _NONE else float(np.uint32(word << 16).view(np.float32))
