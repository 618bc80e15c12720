"""Attention by the device kernels, where Q, K and V live in a device's memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from corepy.kernels._arguments import Given, given, unusable
from corepy.kernels._device import Memory, Program, Result, launch, memory, reals, target_of
from corepy.kernels._device._runtime import (
    ITEM_SIZE,
    VECTOR_BYTES,
    WORDS,
    Argument,
    copied,
    empty,
)
from corepy.kernels._device._sharing import groups_to_move
from corepy.kernels._memory import Host, placed
from corepy.kernels.attention.torch import STEEPEST

if TYPE_CHECKING:
    from corepy.kernels.attention._problem import Problem

_program: Final = Program(__file__, headers=("problem.h",))
_tensor_program: Final = Program(__file__, "tensorcores.c", headers=("warps.h", "problem.h"))
_cache_program: Final = Program(__file__, "cache.c")

#: Greatest head_dim, as registers and local memory allow.
GREATEST: Final = 256
#: Rows and keys of a tile, and work-items along them, by dtype and head_dim: so many that all fits
#: in 48 KiB of local memory.
_TILES: Final = {
    ("float32", 64): (32, 64, 8, 16),
    ("float32", 128): (32, 32, 8, 16),
    ("float32", 256): (16, 16, 8, 16),
    ("float64", 64): (32, 32, 8, 16),
    ("float64", 128): (16, 16, 8, 16),
    ("float64", 256): (8, 8, 8, 8),
}
#: Where there are tensor cores: how many 16 rows a warp has, keys of a tile, and work-items.
_WARP_TILES: Final = {64: (2, 64, 128), 128: (2, 32, 128)}
#: Rows from which they are taken in tiles.
_MANY: Final = 17
#: Keys beyond which they are summed by parts, by the bytes of an element.
_LONG: Final = {2: 1 << 15, 4: 1 << 11, 8: 1 << 11}
#: Where they are few: at most how many rows and keys a work-group has, its work-items, and at least
#: how many keys it has.
_FEW: Final = {"float32": (8, 512), "float64": (4, 256)}
_ITEMS: Final = 128
_LEAST_KEYS: Final = 128


def supports(problem: Problem) -> bool:
    """Say whether the device kernels take a problem, once they take its arrays."""
    p = problem
    rows, size = math.prod(p.q.shape[:3]), p.q.shape[3]
    if size <= GREATEST and p.q.shape[2] + p.keys < 1 << 29 and rows < 1 << 31:
        return True
    if p.q.library != "pyopencl":
        return False  # it has functions of its own
    expected = f"a head_dim of at most {GREATEST}, and fewer than 2**31 rows"
    found = f"has shape {p.q.shape} beside {p.keys} keys"
    raise unusable(p.q, found, f"{expected}, for the kernels in OpenCL")


def attention(problem: Problem) -> Any:
    """Compute it: the values, or with `return_lse` the pair."""
    p = problem
    q = p.q
    scores = (p.mask, p.bias, p.lengths, p.query_lengths)
    result = Result(q, p.out, read_again=(p.k, p.v, *scores))
    sums = Result(q, None, shape=q.shape[:3], dtype=q.wide) if p.return_lse else None
    rows = q.shape[1] // p.k.shape[1] * q.shape[2]
    call = _Call(p, rows, result.memory, None if sums is None else sums.memory)
    if rows < _MANY:
        call.by_keys()
    elif _takes_tensor_cores(p) and call.packed and result.memory.is_aligned():
        call.by_tensor_cores()
    else:
        call.by_tiles()
    return result.array() if sums is None else (result.array(), sums.array())


def _takes_tensor_cores(p: Problem) -> bool:
    q = p.q
    if q.dtype not in ("float16", "bfloat16") or q.shape[3] not in _WARP_TILES:
        return False
    if not 0 < p.scale <= STEEPEST:
        return False
    return p.mask is None and p.bias is None and target_of(q).has_tensor_cores(q)


class _Call:
    """A problem as kernels take it.

    Parameters
    ----------
    rows : int
        Queries of all heads that share one of keys.
    out, lse : Memory
        What they fill; `lse` may be None.
    """

    def __init__(self, p: Problem, rows: int, out: Memory, lse: Memory | None) -> None:
        q = p.q
        vector = VECTOR_BYTES // ITEM_SIZE[q.dtype]
        operands = [target_of(x).memory(x) for x in (q, p.k, p.v)]
        #: Whether all rows begin where vectors may, and their elements lie side by side.
        self.packed = all(_is_packed(x, vector) for x in operands)
        self._problem, self._rows, self._out, self._lse = p, rows, out, lse
        self._pairs = q.shape[0] * p.k.shape[1]
        self._depth = max(64, 1 << (q.shape[3] - 1).bit_length())
        self._arguments = self._of_problem(operands)
        self._defines: dict[str, Any] = {
            "X": q.dtype,
            "BIAS": q.dtype if p.bias is None else p.bias.dtype,
            "LENGTHS": "int64" if p.lengths is None else p.lengths.dtype,
            "QUERY_LENGTHS": "int64" if p.query_lengths is None else p.query_lengths.dtype,
            "D": self._depth,
            "VECTOR": vector,
        }

    def _of_problem(self, operands: list[Memory]) -> list[Argument]:
        """Return what PROBLEM in problem.h stands for."""
        p = self._problem
        q = p.q
        lengths = [None if x is None else memory(x) for x in (p.lengths, p.query_lengths)]
        numbers = (
            *(0 if p.table is None else p.table.shape[1], p.k.shape[2], q.shape[1], p.k.shape[1]),
            *(q.shape[2], p.keys, q.shape[3]),
            *(-1 if n is None else n for n in (p.left, p.right)),
            *(p.top_left, self.packed),
        )
        return [
            *((x, tuple(map(np.int64, x.strides))) for x in operands),
            *(self._out, self._lse, _over_scores(p.mask), _over_scores(p.bias), *lengths),
            # One without pages would have no memory in tinygrad.
            None if p.table is None or not p.table.size else _uploaded(p.table, q),
            *map(np.int32, numbers),
            *reals(q, p.scale),
        ]

    def _launch(
        self,
        name: str,
        groups: int,
        items: int,
        *further: Argument,
        program: Program = _program,
        shared: int = 0,
        **defines: object,
    ) -> None:
        launch(
            self._problem.q,
            program,
            name,
            grid=(groups,),
            block=(items,),
            arguments=[*self._arguments, *further],
            shared=shared,
            **self._defines,
            **defines,
        )

    def by_tensor_cores(self) -> None:
        size = self._depth
        tiles, keys, items = _WARP_TILES[size]
        tall = items // 32 * 16 * tiles
        self._launch(
            "attention_tensorcores",
            self._pairs * -(-self._rows // tall),
            items,
            program=_tensor_program,
            shared=2 * size * (tall + 4 * keys),
            TILES=tiles,
            TILE_KEYS=keys,
        )

    def by_tiles(self) -> None:
        tall, keys, down, across = _TILES[self._problem.q.wide, self._depth]
        self._launch(
            "attention_tiles",
            self._pairs * -(-self._rows // tall),
            down * across,
            TILE_ROWS=tall,
            TILE_KEYS=keys,
            DOWN=down,
            LONG=int(self._problem.keys > _LONG[ITEM_SIZE[self._problem.q.dtype]]),
            ACROSS=across,
        )

    def by_keys(self) -> None:
        q, keys = self._problem.q, self._problem.keys
        most_rows, most_keys = _FEW[q.wide]
        few = min(most_rows, 1 << (self._rows - 1).bit_length())
        groups, span = -(-self._rows // few), most_keys
        wanted = 2 * target_of(q).units(q)
        while span > _LEAST_KEYS and self._pairs * groups * -(-keys // span) < wanted:
            span //= 2  # so that all of the device has work
        splits = max(1, -(-keys // span))
        shape = (splits, self._pairs, self._rows)
        parts = [_new(q, (*shape, n)) if splits > 1 else None for n in (q.shape[3], 2)]
        build: dict[str, Any] = {"FEW": few, "SPAN": most_keys}
        self._launch(
            "attention_keys",
            splits * self._pairs * groups,
            _ITEMS,
            *(*parts, np.int32(span), np.int32(splits)),
            **build,
        )
        if splits > 1:
            launch(
                q,
                _program,
                "attention_combined",
                grid=(self._rows * self._pairs,),
                block=(_ITEMS,),
                arguments=[*parts, self._out, self._lse, np.int32(splits), np.int32(q.shape[3])],
                **self._defines,
                **build,
            )


def _new(x: Given, shape: tuple[int, ...]) -> Memory:
    return empty(x, shape, x.wide)[1].to_write()


def _uploaded(host: Host, x: Given) -> Memory:
    """Put an array where another one lives."""
    found = given(x.function, "table", placed(host, x))
    return target_of(found).memory(found)


def _is_packed(x: Memory, vector: int) -> bool:
    outer = all(n == 1 or s % vector == 0 for n, s in zip(x.shape[:3], x.strides[:3], strict=True))
    return outer and (x.shape[3] == 1 or x.strides[3] == 1) and x.is_aligned()


def _over_scores(x: Given | None) -> Argument:
    """Return strides over (batch, heads, queries, keys), zero where one value serves all."""
    if x is None:
        return None, (np.int64(0),) * 4
    found = target_of(x).memory(x)
    own = [0 if n == 1 else s for n, s in zip(x.shape, found.strides, strict=True)]
    return found, tuple(np.int64(s) for s in (0,) * (4 - len(own)) + tuple(own))


# ---------------------------------------------------------------------------- caches


def keep(
    k: Given, v: Given, keys: Given, values: Given, starts: int | Host, table: Host | None
) -> None:
    """Put further keys and values into the memory of a cache.

    Parameters
    ----------
    k, v : Given
        (sequences, kv_heads, new, head_dim)
    keys, values : Given
        Its memory, (blocks, kv_heads, page, head_dim).
    starts : int or array of int64 (sequences,)
        The position of the first of them.
    table : array of int64 (sequences, pages) or None
        The block of each page. None: that of the sequence's number.
    """
    if k.size == 0:
        return
    _, kv_heads, added, size = k.shape
    start, each = (starts, None) if isinstance(starts, int) else (0, starts)
    pages = 1 if table is None else table.shape[1]
    numbers = (k.size, start, pages, keys.shape[2], kv_heads, added, size)
    sources = [target_of(x).memory(x) for x in (k, v)]
    memories = [target_of(x).memory(x).to_write() for x in (keys, values)]
    if any(source.overlaps(memory) for source in sources for memory in memories):
        sources = [copied(x, source) for x, source in zip((k, v), sources, strict=True)]
    launch(
        keys,
        _cache_program,
        "keep",
        grid=(groups_to_move(keys, k.size, _ITEMS),),
        block=(_ITEMS,),
        arguments=[
            *((x, tuple(map(np.int64, x.strides))) for x in sources),
            *memories,
            *(None if host is None else _uploaded(host, keys) for host in (each, table)),
            *map(np.int64, numbers),
        ],
        X=WORDS[ITEM_SIZE[k.dtype]],
    )
