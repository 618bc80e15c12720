"""Keys and values of what was read so far, kept for the queries to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, out_of_range
from corepy.array_api._arguments import addressable
from corepy.devices._device import CPU
from corepy.devices._shortage import insist
from corepy.dispatch import one_operation
from corepy.kernels._arguments import (
    Given,
    beside,
    destination,
    given,
    integer,
    misshapen,
    unusable,
    whole,
)
from corepy.kernels._memory import Host, placed
from corepy.kernels.attention._cache_memory import CacheMemory, outside_graphs
from corepy.kernels.attention._problem import Problem, flag, grouped, reach, scale_of, shaped


def _part(x: Given, at: tuple[Any, ...]) -> Given:
    """Return a part of an argument."""
    value = x.value[at]
    return given(x.function, x.argument, value)


class KVCache(CacheMemory):
    """Keys and values of sequences that grow together, in memory made once.

    Parameters
    ----------
    batch, kv_heads, capacity, head_dim : int
        Shape of its memory; `capacity` is the greatest length.
    dtype : {"float16", "bfloat16", "float32", "float64"}, DType, dtype of a library or None
        A dtype of NumPy or of the library of `like`; NumPy has bfloat16 of the package
        ``ml_dtypes``. Beside a `corepy.Array`, and arrays of Dask, MLX and tinygrad, float32,
        float64 or that of `like`. None: that of `like`.
    like : array or None
        Whose library and device it has. None: NumPy, in float32.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type, or a size less than one.
    MemoryError
        If no memory holds so much; of a device that has too little free,
        `corepy.InsufficientMemoryError`, which is one.

    Notes
    -----
    It keeps no gradients. Arrays of JAX never change, so that appending copies the memory there;
    what is traced, as inside ``jax.jit``, goes only into a cache that was made inside too.

    References
    ----------
    Shazeer, Fast Transformer Decoding, 2019, https://arxiv.org/abs/1911.02150

    Examples
    --------
    >>> import numpy as np
    >>> cache = KVCache(1, 1, 8, 1)
    >>> k, v = np.zeros((1, 1, 2, 1), "f4"), np.asarray([1, 3], "f4").reshape(1, 1, 2, 1)
    >>> cache.append(k, v)
    >>> cache.length
    2
    >>> cache.attend(k).ravel().tolist()  # the first sees itself alone
    [1.0, 2.0]
    """

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: str | DType | DTypeLike | None = None,
        *,
        like: Any = None,
    ) -> None:
        sizes = ("batch", batch), ("kv_heads", kv_heads), ("capacity", capacity)
        shape = [whole("KVCache", n, v, 1) for n, v in (*sizes, ("head_dim", head_dim))]
        super().__init__(tuple(shape), dtype, like)
        self._length = 0
        self._batch, _, self._capacity, _ = shape

    def __repr__(self) -> str:
        return self._told(self._batch, f"{self._length} of {self._capacity} positions")

    @property
    def length(self) -> int:
        """How many positions are filled."""
        return self._length

    @property
    def capacity(self) -> int:
        """How many positions there are."""
        return self._capacity

    @property
    def keys(self) -> Any:
        """The keys so far, (batch, kv_heads, length, head_dim)."""
        return self._k[:, :, : self._length, :]

    @property
    def values(self) -> Any:
        """The values so far, (batch, kv_heads, length, head_dim)."""
        return self._v[:, :, : self._length, :]

    def append(self, k: Any, v: Any) -> None:
        """Keep further keys and values, (batch, kv_heads, new, head_dim).

        Parameters
        ----------
        k, v : array

        Raises
        ------
        TypeError, DeviceMismatchError
            If they are of another library, dtype or device than the cache.
        ValueError
            If their shapes do not fit, or there is no room for them; nothing is written then. If
            the memory was made under ``torch.inference_mode`` and this is outside of it, or if they
            are traced, as inside ``jax.jit`` and ``torch.func.grad``, and the memory is from
            outside.
        """
        new, values = self._new(k, v, self._batch)
        end = self._length + new.shape[2]
        if end > self._capacity:
            filled, left = f"{self._length} of {self._capacity}", self._capacity - self._length
            found = f"has {new.shape[2]} positions in shape {new.shape}"
            raise unusable(new, found, f"at most {left}, for {filled} are filled")
        if not self._is_kept(new, values, self._length):
            at = (slice(None), slice(None), slice(self._length, end), slice(None))
            self._put(at, new, values)
        self._length = end

    def truncate(self, length: int) -> None:
        """Forget all positions from some length on.

        Parameters
        ----------
        length : int

        Raises
        ------
        TypeError
            If it is no integer.
        ValueError
            If it is negative, or more than are filled.
        """
        name = "KVCache.truncate"
        kept = whole(name, "length", length, 0)
        if kept > self._length:
            raise bad_argument(name, "length", length, f"at most {self._length}, the length")
        self._length = kept

    def attend(self, q: Any, **options: Any) -> Any:
        """Return `attention` over what is filled, of queries that are the last positions.

        Parameters
        ----------
        q : array (batch, heads, queries, head_dim)
        **options
            Those of `attention`; ``causal`` is true unless they say otherwise.

        Returns
        -------
        array or tuple of two arrays
            As of `attention`.

        Raises
        ------
        TypeError, ValueError, DeviceMismatchError
            As of `attention`.
        """
        from corepy.kernels.attention import attention

        return attention(q, self.keys, self.values, **{"causal": True, **options})


class PagedKVCache(CacheMemory):
    """Keys and values of sequences that grow each by itself, in blocks that they share.

    Parameters
    ----------
    batch : int
        Number of sequences.
    kv_heads, head_dim : int
    blocks, block_size : int
        How many blocks there are, and positions in each. A sequence takes a block when its last one
        is full.
    dtype, like
        As of `KVCache`.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type, or a size less than one.
    MemoryError
        If no memory holds so much; of a device that has too little free,
        `corepy.InsufficientMemoryError`, which is one.

    References
    ----------
    Kwon et al., Efficient Memory Management for Large Language Model Serving with PagedAttention,
    2023, https://arxiv.org/abs/2309.06180

    Examples
    --------
    >>> import numpy as np
    >>> cache = PagedKVCache(2, 1, 4, 2, 1)  # two sequences, four blocks of two positions
    >>> cache.append(np.ones((1, 1, 3, 1), "f4"), np.ones((1, 1, 3, 1), "f4"), sequences=[1])
    >>> cache.lengths.tolist(), cache.free_blocks
    ([0, 3], 2)
    >>> cache.attend(np.ones((2, 1, 1, 1), "f4")).ravel().tolist()
    [0.0, 1.0]
    """

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        blocks: int,
        block_size: int,
        head_dim: int,
        dtype: str | DType | DTypeLike | None = None,
        *,
        like: Any = None,
    ) -> None:
        name = "PagedKVCache"
        sizes = ("blocks", blocks), ("kv_heads", kv_heads), ("block_size", block_size)
        shape = [whole(name, n, v, 1) for n, v in (*sizes, ("head_dim", head_dim))]
        sequences = whole(name, "batch", batch, 1)
        addressable(name, sequences, holder="its lengths have")
        super().__init__(tuple(shape), dtype, like)
        self._lengths = insist(name, CPU, lambda: np.zeros(sequences, np.int64))
        self._tables: list[list[int]] = [[] for _ in range(sequences)]
        self._free = list(range(shape[0]))[::-1]
        self._block_size = shape[2]

    def __repr__(self) -> str:
        blocks = self._k.shape[0]
        filled = f"{blocks - self.free_blocks} of {blocks} blocks of {self._block_size}"
        return self._told(len(self._tables), filled)

    @property
    def lengths(self) -> Host:
        """How many positions of each sequence are filled, as NumPy's int64."""
        return self._lengths.copy()

    @property
    def free_blocks(self) -> int:
        """How many blocks no sequence has."""
        return len(self._free)

    @outside_graphs
    def table(self, sequences: Sequence[int] | None = None) -> Host:
        """Return the blocks of each sequence.

        Parameters
        ----------
        sequences : sequence of int or None
            Which. None: all, in order.

        Returns
        -------
        numpy.ndarray (sequences, most blocks)
            Of dtype int64, filled up with 0.

        Raises
        ------
        TypeError
            If `sequences` holds anything but integers.
        ValueError
            If one comes twice.
        IndexError
            If there is no such sequence.
        """
        return self._table(self._chosen("table", sequences))

    @outside_graphs
    def append(self, k: Any, v: Any, *, sequences: Sequence[int] | None = None) -> None:
        """Keep further keys and values, (sequences, kv_heads, new, head_dim).

        Parameters
        ----------
        k, v : array
        sequences : sequence of int or None
            To which each entry belongs. None: all, in order.

        Raises
        ------
        TypeError, DeviceMismatchError
            If they are of another library, dtype or device than the cache.
        ValueError
            If their shapes do not fit, or there are not blocks enough; nothing is written then. For
            others as of `KVCache.append`.
        IndexError
            If there is no such sequence.
        """
        chosen = self._chosen("append", sequences)
        new, values = self._new(k, v, len(chosen))
        added, size = new.shape[2], self._block_size
        lengths, kept = self._lengths[chosen], [len(self._tables[s]) for s in chosen]
        needed = [-(-(int(length) + added) // size) for length in lengths]
        missing = [max(0, n - found) for n, found in zip(needed, kept, strict=True)]
        left = len(self._free) - sum(missing)
        if left < 0:
            found = f"takes {sum(missing)} new blocks in shape {new.shape}"
            most = f"at most {len(self._free)}, the free ones of {self._k.shape[0]}"
            raise unusable(new, found, most)
        taken = self._free[left:]
        try:
            del self._free[left:]
            blocks = reversed(taken)
            for s, count in zip(chosen, missing, strict=True):
                self._tables[s] += islice(blocks, count)
            if not self._is_kept(new, values, lengths, self._table(chosen)):
                self._put_pages(new, values, chosen)
            self._lengths[chosen] = lengths + added
        except BaseException:  # whatever it is, and wherever: what was not written takes no blocks
            self._lengths[chosen] = lengths
            for s, count in zip(chosen, kept, strict=True):
                del self._tables[s][count:]
            self._free += [block for block in taken if block not in self._free]
            raise

    def _put_pages(self, new: Given, values: Given, chosen: list[int]) -> None:
        added, size = new.shape[2], self._block_size
        if new.library == "jax":
            if new.size:
                self._put_at_once(new, values, chosen)
            return
        for number, s in enumerate(chosen):
            start, done = int(self._lengths[s]), 0
            while done < added:
                block, place = divmod(start + done, size)
                step = min(size - place, added - done)
                source = (number, slice(None), slice(done, done + step), slice(None))
                at = (self._tables[s][block], slice(None), slice(place, place + step), slice(None))
                self._put(at, _part(new, source), _part(values, source))
                done += step

    def _put_at_once(self, new: Given, values: Given, chosen: list[int]) -> None:
        """Keep it by one write of JAX, each of which copies the memory of all blocks."""
        positions = self._lengths[chosen][:, None] + np.arange(new.shape[2])
        pages, places = np.divmod(positions, self._block_size)
        blocks = np.take_along_axis(self._table(chosen), pages, axis=1)
        memory, _ = self._given("append")
        indices = (placed(i.astype(np.int32), new, memory) for i in (blocks, places))
        b, p = (given(new.function, "indices", i).native for i in indices)
        # Axes that arrays index come before others: (sequences, new, kv_heads, head_dim).
        turned = [replace(x, native=x.native.transpose(0, 2, 1, 3)) for x in (new, values)]
        self._put((b, slice(None), p, slice(None)), *turned)

    @outside_graphs
    def free(self, sequence: int) -> None:
        """Forget a sequence, and give its blocks to others.

        Parameters
        ----------
        sequence : int

        Raises
        ------
        TypeError
            If it is no integer.
        IndexError
            If there is no such sequence.
        """
        s = self._known("PagedKVCache.free", "sequence", sequence)
        # In this order: an interrupt may lose blocks, but never leaves one with two sequences.
        self._lengths[s] = 0
        blocks, self._tables[s] = self._tables[s], []
        self._free += blocks[::-1]

    @outside_graphs
    @one_operation
    def attend(
        self,
        q: Any,
        *,
        sequences: Sequence[int] | None = None,
        causal: bool = True,
        scale: float | None = None,
        window: int | tuple[int | None, int | None] | None = None,
        return_lse: bool = False,
        out: Any = None,
    ) -> Any:
        """Return `attention` of queries that are the last positions of their sequences.

        Parameters
        ----------
        q : array (sequences, heads, queries, head_dim)
        sequences : sequence of int or None
            To which each entry of `q` belongs. None: all, in order.
        causal, scale, window, return_lse, out
            As of `attention`.

        Returns
        -------
        array or tuple of two arrays
            As of `attention`.

        Raises
        ------
        TypeError, ValueError, DeviceMismatchError
            As of `attention`, and if a sequence comes twice.
        IndexError
            If there is no such sequence.
        """
        chosen = self._chosen("attend", sequences)
        keys, values = self._given("attend")
        name = keys.function
        g = beside("q", q, keys, (keys.dtype,))
        shaped(g, "(sequences, heads, queries, head_dim)")
        if g.shape[0] != len(chosen):
            raise misshapen(g, f"{len(chosen)} sequences")
        grouped(keys, g)
        flag(name, "causal", causal)
        flag(name, "return_lse", return_lse)
        left, right = reach(name, window, causal)
        problem = Problem(
            g,
            keys,
            values,
            scale_of(g, scale),
            table=self._table(chosen),
            left=left,
            right=right,
            return_lse=return_lse,
            out=destination("out", out, g),
        )
        lengths = given(name, "lengths", placed(self._lengths[chosen], g, keys))
        return replace(problem, lengths=lengths).solve()

    def _known(self, name: str, argument: str, sequence: int) -> int:
        s = integer(name, argument, sequence)
        if not 0 <= s < len(self._tables):
            raise out_of_range(name, argument, s, f"0 to {len(self._tables) - 1}")
        return s

    def _chosen(self, method: str, sequences: Sequence[int] | None) -> list[int]:
        if sequences is None:
            return list(range(len(self._tables)))
        name = f"PagedKVCache.{method}"
        if not hasattr(sequences, "__iter__"):
            raise bad_type(name, "sequences", sequences, "a sequence of integers")
        chosen = [integer(name, "sequences", s, "a sequence of integers") for s in sequences]
        for s in chosen:
            self._known(name, "sequences", s)
        if len(set(chosen)) < len(chosen):
            raise bad_argument(name, "sequences", sequences, "each sequence once")
        return chosen

    def _table(self, chosen: list[int]) -> Host:
        blocks = [self._tables[s] for s in chosen]
        table = np.zeros((len(chosen), max(map(len, blocks), default=0)), np.int64)
        for row, found in zip(table, blocks, strict=True):
            row[: len(found)] = found
        return table
