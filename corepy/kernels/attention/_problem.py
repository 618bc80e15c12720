"""Attention with all arguments checked, and the choice of who computes it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from corepy._errors import bad_argument, bad_type
from corepy.kernels._arguments import (
    Given,
    astray,
    beside,
    broadcasts,
    floating,
    given,
    misshapen,
    real,
    unusable,
    whole,
)
from corepy.kernels._choice import choose
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference, empty
from corepy.kernels._memory import (
    Host,
    Result,
    constant,
    fixed,
    is_compilable,
    passing,
    placed,
    strided,
    supports,
    view,
    widened,
)
from corepy.kernels._ways import CUPY, FORMULA, JAX, NUMBA, TORCH
from corepy.kernels.attention import jax, reference, torch

#: Further than any key is away.
_FAR: Final = 1 << 40


@dataclass(slots=True, eq=False)
class Problem:
    """Attention with all arguments checked. Nobody changes it.

    Attributes
    ----------
    q : Given
        (batch, heads, queries, head_dim)
    k, v : Given
        (batch, kv_heads, keys, head_dim), or with a `table` (blocks, kv_heads, page, head_dim)
    table : array of int64 (batch, pages) or None
        The block that holds each page of a sequence's keys.
    mask, bias : Given or None
        Broadcast to (batch, heads, queries, keys).
    lengths, query_lengths : Given or None
        Keys and queries of each sequence, (batch,).
    left, right : int or None
        How many keys a query sees beside its own. None: all.
    top_left : bool
        Whether the first query, rather than the last, is where the key of its number is.
    """

    q: Given
    k: Given
    v: Given
    scale: float
    table: Host | None = None
    mask: Given | None = None
    bias: Given | None = None
    lengths: Given | None = None
    query_lengths: Given | None = None
    left: int | None = None
    right: int | None = None
    top_left: bool = False
    return_lse: bool = False
    out: Given | None = None
    #: Whether torch's function takes all of it, once somebody has asked.
    _by_torch: bool | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        # No key is further away, and places are counted in integers of 32 and 64 bits.
        everywhere = self.q.shape[2] + self.keys
        if self.left is not None:
            self.left = min(self.left, everywhere)
        if self.right is not None:
            self.right = min(self.right, everywhere)

    @property
    def keys(self) -> int:
        """Keys of each sequence, at most."""
        pages = 1 if self.table is None else self.table.shape[1]
        return pages * self.k.shape[2]

    def solve(self) -> Any:
        """Compute it: the values, or with `return_lse` the pair."""
        q = self.q
        if q.size == 0:
            found = empty(q, self.out)
            return (found, placed(np.empty(q.shape[:3], q.wide), q)) if self.return_lse else found
        if on_device(q, *self._others):
            by_torch = q.library in (TORCH, CUPY) and self._takes(TORCH)
            if by_torch and q.library == CUPY:
                return torch.attention(self)
            if not by_torch:
                from corepy.kernels.attention import device

                if device.supports(self):
                    return device.attention(self)
        if self.keys == 0:
            return self._of_nothing()
        work = q.size * self.keys
        way = choose(q, self._takes, work, self._usual, "decode" if q.shape[2] == 1 else "prefill")
        if way == NUMBA:
            return self._compiled()
        if way == TORCH:
            return torch.attention(self)
        return jax.attention(self) if way == JAX else self._by_formula()

    def _takes(self, way: str) -> bool:
        """Say whether a library's function, or the compiled kernels, take all of it."""
        if way == TORCH:
            if self._by_torch is None:
                self._by_torch = torch.serves(self) and torch.takes(self)
            return self._by_torch
        if way == JAX:
            return torch.serves(self) and jax.takes(self.q, self.k, self.v)
        return is_compilable(self.q, *self._others)

    @property
    def _others(self) -> tuple[Given | None, ...]:
        return self.k, self.v, self.mask, self.bias, self.lengths, self.query_lengths

    def _usual(self) -> str:
        """Return who is fastest on most machines; NumPy's arrays remain NumPy's."""
        q = self.q
        by_torch = q.library == TORCH and self._takes(TORCH)
        if by_torch and q.size * self.keys < torch.SMALL:
            return TORCH
        largest = q if q.size > self.k.size else self.k
        if supports(largest, q, *self._others):
            return NUMBA
        if q.library == JAX and q.device is not None and q.device.kind != "cpu":
            return JAX if self._takes(JAX) else FORMULA
        return TORCH if by_torch else FORMULA

    def _of_nothing(self) -> Any:
        """Return what queries give that see no key."""
        q = self.q
        outs = (self.out, None) if self.return_lse else (self.out,)
        keys = (None, None) if self.table is not None else (self.k, self.v)
        return by_reference(reference.of_nothing, q, keys, outs, return_lse=self.return_lse)

    def _by_formula(self) -> Any:
        q = self.q
        places = self.lengths, self.query_lengths, self.left, self.right
        i = j = table = None
        if any(p is not None for p in places):
            far = 2 * (q.shape[2] + self.keys)  # a place and a window
            i = _numbers(q.shape[2], far, q, *self._others)[:, None]
            j = _numbers(self.keys, far, q, *self._others)[None, :]
        if self.table is not None:
            blocks = self.table.astype(_counting(self.k.shape[0]))
            table = placed(blocks, q, *self._others)
        helpers = [
            None if helper is None else given(q.function, name, helper)
            for name, helper in (("i", i), ("j", j), ("table", table))
        ]
        operands = (
            *(self.k, self.v, self.mask, self.bias, helpers[0], helpers[1]),
            *(self.lengths, self.query_lengths, helpers[2]),
        )
        return by_reference(
            reference.attention,
            q,
            operands,
            (self.out, None) if self.return_lse else (self.out,),
            scale=self.scale,
            left=self.left,
            right=self.right,
            top_left=self.top_left,
            return_lse=self.return_lse,
        )

    def _compiled(self) -> Any:
        from corepy.kernels.attention import numba

        q, k = self.q, self.k
        batch, heads, queries, size = q.shape
        result = Result(q, self.out, read_again=(k, self.v, self.mask, self.bias))
        lse = passing(batch * heads * queries, q.wide)
        numba.attention(
            _three(q),
            _three(k),
            _three(self.v),
            fixed(np.arange(batch)[:, None]) if self.table is None else self.table,
            k.shape[2],
            self._spans(),
            (heads, k.shape[1], queries, size),
            (_FAR if self.left is None else self.left, _FAR if self.right is None else self.right),
            self.top_left,
            self.scale,
            _no_scores(np.dtype(bool))
            if self.mask is None
            else _of_scores(strided(self.mask, rows=False), self.mask),
            self._bias(),
            q.dtype == "bfloat16",
            result.host.reshape(-1, size),
            lse,
        )
        found = result.array()
        return (found, placed(lse.reshape(batch, heads, queries), q)) if self.return_lse else found

    def _spans(self) -> Host:
        """Return how many queries and keys each sequence has."""
        spans = np.empty((self.q.shape[0], 2), np.int64)
        spans[:] = self.q.shape[2], self.keys
        if self.lengths is self.query_lengths is None:
            return fixed(spans)
        for column, lengths in enumerate((self.query_lengths, self.lengths)):
            if lengths is not None:
                spans[:, column] = view(lengths)
        return spans

    def _bias(self) -> tuple[Host, tuple[int, ...]]:
        bias, wide = self.bias, np.dtype(self.q.wide)
        if bias is None:
            return _no_scores(wide)
        if bias.dtype == wide.name:
            return _of_scores(strided(bias, rows=False), bias)
        host = widened(bias, wide.name, 0, 0.0)
        strides = tuple(s // host.itemsize for s in host.strides)
        return _of_scores((host.reshape(-1), strides), bias)


def _counting(most: int) -> str:
    """Return the dtype of integers up to one: JAX has none of 64 bits where it is not told to."""
    return "int32" if most < 1 << 31 else "int64"


def _numbers(count: int, most: int, x: Given, *others: Given | None) -> Any:
    """Return the numbers from 0 on, where operands are, to be compared with some up to `most`."""
    if x.library == TORCH and x.table is None:  # as `torch.compile` can trace
        torch = sys.modules["torch"]
        dtype = getattr(torch, _counting(most))
        return torch.arange(count, dtype=dtype, device=x.native.device)
    return placed(np.arange(count, dtype=_counting(most)), x, *others)


def _three(x: Given) -> tuple[Host, tuple[int, ...]]:
    flat, strides = strided(x, rows=True)
    return flat, strides[:3]


@cache
def _no_scores(dtype: np.dtype[Any]) -> tuple[Host, tuple[int, ...]]:
    return constant(np.empty(0, dtype)), (0, 0, 0, 0)


def _of_scores(found: tuple[Host, tuple[int, ...]], x: Given) -> tuple[Host, tuple[int, ...]]:
    """Return strides over (batch, heads, queries, keys), zero where one value serves all."""
    flat, strides = found
    own = [0 if n == 1 else s for n, s in zip(x.shape, strides, strict=True)]
    return flat, (*(0,) * (4 - len(own)), *own)


# ---------------------------------------------------------------------------- checks


def shaped(x: Given, names: str) -> None:
    """Refuse an array of other than four dimensions, or without any head_dim."""
    if len(x.shape) != 4:
        raise misshapen(x, names)
    if x.shape[3] == 0:
        raise misshapen(x, f"{names}, a head_dim of at least 1")


def grouped(x: Given, q: Given) -> None:
    """Refuse heads of keys of which no whole number of heads of queries takes each."""
    heads, kv_heads = q.shape[1], x.shape[1]
    if heads and (kv_heads == 0 or heads % kv_heads):
        found = f"has {kv_heads} heads in shape {x.shape}"
        raise unusable(x, found, f"a divisor of the {heads} of q")
    if x.shape[3] != q.shape[3]:
        found = f"has head_dim {x.shape[3]} in shape {x.shape}"
        raise unusable(x, found, f"{q.shape[3]}, that of q")


def queries_and_keys(function: str, q: Any, k: Any) -> tuple[Given, Given]:
    """Look at queries, and at keys that fit them."""
    queries = floating(function, "q", q)
    shaped(queries, "(batch, heads, queries, head_dim)")
    keys = beside("k", k, queries, (queries.dtype,))
    shaped(keys, "(batch, kv_heads, keys, head_dim)")
    grouped(keys, queries)
    batch = queries.shape[0]
    if keys.shape[0] != batch:
        raise misshapen(keys, f"a batch of {batch}, as q has")
    return queries, keys


def scale_of(q: Given, scale: Any) -> float:
    """Return what queries are multiplied by."""
    return 1 / math.sqrt(q.shape[3]) if scale is None else real(q, "scale", scale)


def over_scores(
    argument: str, value: Any, q: Given, keys: int, dtypes: Sequence[str]
) -> Given | None:
    """Look at an array that broadcasts to the scores, or None."""
    if value is None:
        return None
    found = beside(argument, value, q, dtypes)
    target = (*q.shape[:3], keys)
    if not broadcasts(found.shape, target):
        names = "(batch, heads, queries, keys)"
        raise misshapen(found, f"one that broadcasts to {target}, {names}")
    return found


def sizes(argument: str, value: Any, q: Given, most: int) -> Given | None:
    """Look at the lengths of sequences, or None."""
    if value is None:
        return None
    found = beside(argument, value, q, ("int32", "int64"), q.shape[:1])
    if (strays := astray(found, most)) is not None:
        raise unusable(found, strays, f"0 to {most}")
    return found


def flag(function: str, argument: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise bad_type(function, argument, value, "a bool")


def reach(function: str, window: Any, causal: bool) -> tuple[int | None, int | None]:
    """Return how many keys a query sees to its left and right."""
    left: int | None = None
    right: int | None = None
    if isinstance(window, tuple):
        if len(window) != 2:
            raise bad_argument(function, "window", window, _WINDOW)
        left, right = (_steps(function, side) for side in window)
    else:
        left = right = _steps(function, window)
    return left, 0 if causal else right


_WINDOW: Final = "an integer, or a pair of them"


def _steps(function: str, window: Any) -> int | None:
    if window is None:
        return None
    if isinstance(window, bool) or not hasattr(window, "__index__"):
        raise bad_type(function, "window", window, _WINDOW)
    return whole(function, "window", window, 0)
