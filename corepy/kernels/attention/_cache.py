"""Keys and values of what was read so far, kept for the queries to come."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from operator import index
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike

from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, listing, out_of_range
from corepy.array_api._arguments import addressable
from corepy.devices._device import CPU
from corepy.devices._shortage import insist
from corepy.dispatch import Operand, make, one_operation
from corepy.kernels._arguments import (
    FLOATS,
    Given,
    beside,
    destination,
    floating,
    given,
    is_traced,
    real,
    torch_layout,
    whole,
    writable,
)
from corepy.kernels._device import on_device
from corepy.kernels._device._runtime import numpy_dtype
from corepy.kernels._formulas import setting
from corepy.kernels._libraries import DeviceLibrary
from corepy.kernels._memory import Host, begin_in, place_of, placed
from corepy.kernels.attention._problem import Problem, flag, grouped, reach, shaped

#: What arrays of the standard's namespace can have, and libraries of which kernels take more.
_OF_STANDARD: Final = ("float32", "float64")
_OF_16_BITS: Final = ("torch", "jax", "cupy", "pyopencl")
#: Libraries in whose namespaces `array_api_compat` makes zeros.
_COMPATIBLE: Final = ("numpy", "torch", "jax", "dask")


def _zeros(function: str, shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """Make memory in the library and on the device of another array."""
    model = floating(function, "like", np.empty(0, np.float32) if like is None else like)
    name = model.dtype if dtype is None else _name(function, dtype)
    options = FLOATS if model.table is None and model.library in _OF_16_BITS else _OF_STANDARD
    options = (*options, "float16") if model.library == "numpy" and model.table is None else options
    if model.dtype not in options:  # NumPy's bfloat16, of another package
        options = (*options, model.dtype)
    if name not in options:
        raise bad_argument(function, "dtype", name, f"{listing(options)}, or None")
    return insist(function, place_of(model), lambda: _zeros_like(model, shape, name))


def _name(function: str, dtype: Any) -> str:
    """Return the name of a dtype that an argument gives: by it, of corepy or of NumPy."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        dtype = np.dtype(dtype)
    if not isinstance(dtype, (DType, np.dtype)):
        raise bad_type(function, "dtype", dtype, "a name, a dtype of corepy or NumPy, or None")
    return dtype.name


def _zeros_like(model: Given, shape: tuple[int, ...], name: str) -> Any:
    if isinstance(model.backend, DeviceLibrary):
        return placed(np.zeros(shape, numpy_dtype(name)), model)
    if model.table is not None or model.library not in _COMPATIBLE:
        return placed(np.zeros(shape, name), model)
    from array_api_compat import array_namespace, device

    xp = array_namespace(model.native)
    with setting(replace(model, dtype=name)):
        own = model.native.dtype if name == model.dtype else getattr(xp, name)
        return xp.zeros(shape, dtype=own, device=device(model.native))


def _written(memory: Any, at: tuple[Any, ...], values: Given) -> Any:
    """Write into memory, and return it or, in libraries whose arrays never change, what follows."""
    wrapped = isinstance(memory, Operand)  # whatever the values are
    if values.library == "jax":
        write = values.backend.operation("__setitem__")
        assert write is not None
        found = write(memory.unwrap() if wrapped else memory, at, values.native)
        return make(found, memory._table) if wrapped else found
    own = values.library == "tinygrad" and not wrapped
    if own:  # it writes under nothing that waits to be computed
        for native in (memory, values.native):
            values.backend.computed(native)
    with sys.modules["torch"].no_grad() if values.library == "torch" else nullcontext():
        try:
            memory[at] = values.value if wrapped else values.native
        except RuntimeError as error:
            # Why is looked at now, for `torch.compile` traces neither question.
            writable(given(values.function, "the cache", memory))
            if own:
                # What was made of this memory and is yet to be computed keeps it as it is.
                memory = values.backend.computed(memory.clone())
                memory[at] = values.native
                return memory
            if values.library == "torch" and torch_layout().is_transformed():
                raise _transformed(values, "torch.func transforms", "outside it") from error
            raise
    return memory


def _transformed(x: Given, how: str, where: str) -> ValueError:
    """Keys or values belong to a function that a library transforms, and do not outlive it."""
    return ValueError(
        f"{x.function}: {x.argument} is kept inside a function that {how}; expected a call {where}"
    )


def _trace() -> Any:
    """Return what stands for the innermost of the functions that JAX transforms now."""
    try:
        from jax.extend.core import get_opaque_trace_state
    except ImportError:  # where older ones have it
        from jax.core import get_opaque_trace_state

    return get_opaque_trace_state("corepy")


class _Memory:
    """The memory of a cache, and the checks of what comes into it."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, like: Any) -> None:
        self._name = type(self).__name__
        addressable(self._name, *shape, holder="its keys have")
        self._k = _zeros(self._name, shape, dtype, like)
        self._v = _zeros(self._name, shape, dtype, like)
        self._made_in = self._trace()

    def _trace(self) -> Any:
        """Return what `_trace` does, None for other libraries than JAX."""
        return _trace() if self._given("append")[0].library == "jax" else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_made_in"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._made_in = self._trace()  # a copy is made where it is asked for

    def __copy__(self) -> Self:
        # Of two that share memory, each would overwrite what the other one keeps.
        return deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        state = self.__getstate__()
        if isinstance(self._given("__deepcopy__")[0].backend, DeviceLibrary):
            # Their own copies, for a queue that arrays of pyopencl refer to has none.
            memo |= {id(array): array.copy() for array in (self._k, self._v)}
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__setstate__(deepcopy(state, memo))
        return made

    def _given(self, method: str) -> tuple[Given, Given]:
        """Look at the memory, as the operand that a method's arguments have to fit."""
        name = f"{self._name}.{method}"
        return given(name, "the cache", self._k), given(name, "the cache", self._v)

    def _new(self, k: Any, v: Any, batch: int) -> tuple[Given, Given]:
        """Look at keys and values to be kept."""
        memory, other = self._given("append")
        _, kv_heads, _, size = memory.shape
        new = beside("k", k, memory, (memory.dtype,))
        expected = (batch, kv_heads, *new.shape[2:3], size)
        if len(new.shape) != 4 or new.shape != expected:
            raise ValueError(
                f"{memory.function}: k has shape {new.shape}; expected ({batch}, {kv_heads}, "
                f"length, {size})"
            )
        values = beside("v", v, memory, (memory.dtype,), new.shape)
        if begin_in((new, values), (memory, other)):
            return _copied(new), _copied(values)  # before any of it is overwritten
        return new, values

    def _is_kept(self, k: Given, v: Given, starts: int | Host, table: Host | None = None) -> bool:
        """Keep it by a kernel, where one takes these arrays and their library has none better."""
        memory = self._given("append")
        if not isinstance(k.backend, DeviceLibrary) or not on_device(k, v, *memory):
            return False
        from corepy.kernels.attention import device

        device.keep(k, v, *memory, starts, table)
        return True

    def _put(self, at: tuple[Any, ...], k: Given, v: Given) -> None:
        # No comprehension: `torch.compile` would fix the places that one refers to.
        kept = [_written(self._k, at, k), _written(self._v, at, v)]
        if k.library == "jax" and self._made_in != _trace():
            # What JAX's transformations make of arrays is of no use when they are done.
            for x, memory in zip((k, v), kept, strict=True):
                if is_traced(given(x.function, x.argument, memory)):
                    how, where = "JAX transforms", "outside it, or a cache made inside it"
                    raise _transformed(x, how, where)
        self._k, self._v = kept


def _number(function: str, argument: str, value: Any, expected: str) -> int:
    """Return an integer, which what says yes or no of each sequence is not."""
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise bad_type(function, argument, value, expected)


def _copied(x: Given) -> Given:
    """Return an argument of NumPy, CuPy or torch in memory of its own."""
    native = x.native.detach().clone() if x.library == "torch" else x.native.copy()
    return replace(x, value=native if x.table is None else make(native, x.table), native=native)


def _part(x: Given, at: tuple[Any, ...]) -> Given:
    """Return a part of an argument."""
    value = x.value[at]
    return given(x.function, x.argument, value)


class KVCache(_Memory):
    """Keys and values of sequences that grow together, in memory made once.

    Parameters
    ----------
    batch, kv_heads, capacity, head_dim : int
        Shape of its memory; `capacity` is the greatest length.
    dtype : {"float16", "bfloat16", "float32", "float64"}, DType, dtype of NumPy or None
        None: that of `like`.
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
            raise ValueError(
                f"{new.function}: k has {new.shape[2]} positions in shape {new.shape}; expected at "
                f"most {self._capacity - self._length}, for {self._length} of {self._capacity} are "
                f"filled"
            )
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
        if whole(name, "length", length, 0) > self._length:
            raise bad_argument(name, "length", length, f"at most {self._length}, the length")
        self._length = index(length)

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


class PagedKVCache(_Memory):
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

    @property
    def lengths(self) -> Host:
        """How many positions of each sequence are filled, as NumPy's int64."""
        return self._lengths.copy()

    @property
    def free_blocks(self) -> int:
        """How many blocks no sequence has."""
        return len(self._free)

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
            raise ValueError(
                f"{new.function}: k takes {sum(missing)} new blocks in shape {new.shape}; expected "
                f"at most {len(self._free)}, the free ones of {self._k.shape[0]}"
            )
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
            raise ValueError(f"{name}: q has shape {g.shape}; expected {len(chosen)} sequences")
        grouped(keys, g)
        flag(name, "causal", causal)
        flag(name, "return_lse", return_lse)
        left, right = reach(name, window, causal)
        problem = Problem(
            g,
            keys,
            values,
            g.shape[3] ** -0.5 if scale is None else real(g, "scale", scale),
            table=self._table(chosen),
            left=left,
            right=right,
            return_lse=return_lse,
            out=destination("out", out, g),
        )
        lengths = given(name, "lengths", placed(self._lengths[chosen], g, keys))
        return replace(problem, lengths=lengths).solve()

    def _known(self, name: str, argument: str, sequence: int) -> int:
        s = _number(name, argument, sequence, "an integer")
        if not 0 <= s < len(self._tables):
            raise out_of_range(name, argument, s, f"0 to {len(self._tables) - 1}")
        return s

    def _chosen(self, method: str, sequences: Sequence[int] | None) -> list[int]:
        if sequences is None:
            return list(range(len(self._tables)))
        name = f"PagedKVCache.{method}"
        if not hasattr(sequences, "__iter__"):
            raise bad_type(name, "sequences", sequences, "a sequence of integers")
        chosen = [_number(name, "sequences", s, "a sequence of integers") for s in sequences]
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
