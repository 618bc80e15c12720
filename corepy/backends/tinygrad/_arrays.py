"""Native arrays: tensors, bytes that a device only holds, and when graphs are computed.

An operation gives a tensor that is not computed yet: tinygrad makes one kernel of a chain of them.
A graph is computed when somebody looks at its values, when it has grown to `_LIMIT` operations, and
when its array is indexed: a loop over elements shall not compute the whole anew for each.

tinygrad keeps every tensor in tables that no lock guards, so that one thread at a time works here.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from tinygrad import Device as Devices
from tinygrad import Tensor, helpers
from tinygrad import dtypes as tiny
from tinygrad.tensor import all_tensors
from tinygrad.uop.ops import Ops, UOp

from corepy import _forks
from corepy._dtypes import DTYPES, DType
from corepy._errors import BackendError
from corepy._signals import let_through
from corepy.backends.tinygrad._memory import ShortageError, is_shortage, largest

HostArray: TypeAlias = npt.NDArray[Any]
#: A tinygrad.Tensor, or a `Held`.
Array: TypeAlias = Any

#: tinygrad's dtypes; it has none for complex numbers.
NATIVE: Final[dict[DType, Any]] = {
    d: getattr(tiny, d.name) for d in DTYPES.values() if d.kind != "c"
}
BY_NATIVE: Final[dict[Any, DType]] = {native: d for d, native in NATIVE.items()}


@cache
def computed(place: str) -> frozenset[Any]:
    """Return the dtypes of tinygrad's that a device computes with."""
    return frozenset(Devices[place].renderer.supported_dtypes()) & BY_NATIVE.keys()


_FLOATS: Final = (tiny.float32, tiny.float64)

#: Operations after which a graph is computed though nobody looks at it.
_LIMIT: Final = 48
#: Bytes of memory that are copied to the host as they are, to be indexed or turned around there:
#: a kernel for each view would be compiled for longer.
_SMALL: Final = 1 << 16
LOCK: Final = threading.RLock()
_forks.wait_for(LOCK)


class Held:
    """The bytes of an array whose dtype the device does not compute with, in its memory.

    Attributes
    ----------
    words : tinygrad.Tensor
        The bytes, as uint32 in one dimension.
    dtype : DType
    shape : tuple of int
    """

    __slots__ = ("dtype", "shape", "words")

    def __init__(self, words: Any, dtype: DType, shape: tuple[int, ...]) -> None:
        self.words = words
        self.dtype = dtype
        self.shape = shape

    def __repr__(self) -> str:
        return f"Held({self.dtype}, shape {self.shape}, on {self.words.device})"


# ---------------------------------------------------------------------------- to and from the host


def upload(array: HostArray, place: str) -> Any:
    """Return a tensor on a device of tinygrad's with the values of a host array."""
    values = _plain(array)
    dtype = NATIVE[DTYPES[values.dtype.name]]
    with LOCK:
        if not values.size:
            return Tensor.empty(*array.shape, dtype=dtype, device=place)
        # What Tensor(values) does, without the copy of a graph and its schedule: 20 ms each.
        node = UOp.new_buffer(place, values.size, dtype)
        buffer = node.buffer.allocate()
        buffer.allocator._copyin(buffer._buf, values.reshape(-1).view(np.uint8).data)
        Devices[place].synchronize()  # OpenCL reads the host's memory until then
        return Tensor(node.reshape(array.shape), device=place)


def _plain(array: HostArray) -> HostArray:
    """Return values in the order and form that devices have, which ctypes may write to."""
    values = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    return values if values.flags.writeable else values.copy()


def download(x: Any) -> HostArray:
    """Return the values of a tensor in new host memory."""
    with LOCK:
        if 0 in x.shape:
            return np.empty(x.shape, BY_NATIVE[x.dtype].name)
        compute(x)
        moves, node = _moves(x.uop)
        far = _bytes(node) > max(_SMALL, 4 * _bytes(x.uop)) and _fits(node)
        if node.op is not Ops.BUFFER or far:
            moves, node = _moves(_realize(x.contiguous()).uop)
        buffer = node.buffer
        values = np.empty(buffer.size, BY_NATIVE[node.dtype].name)
        with _reporting("read it"):
            buffer.allocator._copyout(values.view(np.uint8).data, buffer._buf)
    for move in reversed(moves):
        values = _moved(values, move)
    return np.array(values.reshape(x.shape))


def buffer_of(x: Any) -> Any:
    """Return tinygrad's buffer that has a tensor's elements side by side, and nothing else."""
    with LOCK:
        moves, node = _moves(compute(x).uop)
        if node.op is not Ops.BUFFER or any(move.op is not Ops.RESHAPE for move in moves):
            _, node = _moves(_realize(x.contiguous()).uop)
        return node.buffer


def empty(shape: tuple[int, ...], dtype: DType, place: str) -> Any:
    """Return a tensor of new memory on a device of tinygrad's."""
    with LOCK:
        node = UOp.new_buffer(place, math.prod(shape), NATIVE[dtype])
        node.buffer.allocate()
        return Tensor(node.reshape(shape), device=place)


def detached(x: Any) -> Any:
    """Return a small view of computed memory in memory of its own.

    Kernels are compiled for where a view begins, so that a loop over elements would compile one for
    each. Drivers copy without any.
    """
    moves, node = _moves(x.uop)
    if not moves or node.op is not Ops.BUFFER or 0 in x.shape or _bytes(x.uop) > _SMALL:
        return x
    source = node.buffer
    count = math.prod(x.shape)
    first = _first(moves, source.size) if count < source.size <= _KNOWN else None
    if first is None:
        return x
    made = UOp.new_buffer(x.device, count, x.dtype)
    if not _copy(Devices[x.device], source, made.buffer.allocate(), first * x.dtype.itemsize):
        return x
    return Tensor(made.reshape(x.shape), device=x.device)


#: Elements of memory in which NumPy is asked where a view begins.
_KNOWN: Final = 1 << 24


def _first(moves: list[Any], size: int) -> int | None:
    """Return where a view begins, None if its elements do not lie one after the other."""
    whole = view = np.empty(size, np.int8)  # never written, so that it takes no memory
    for move in reversed(moves):
        view = _moved(view, move)
        if not np.may_share_memory(view, whole):
            return None
    if not view.flags.c_contiguous:
        return None
    begin: int = view.__array_interface__["data"][0]
    return begin - int(whole.__array_interface__["data"][0])


def _copy(place: Any, source: Any, target: Any, first: int) -> bool:
    """Copy bytes of a buffer from one on into another; return whether that was possible."""
    if is_loose(place.device):
        size = -(-target.nbytes // 4) * 4  # as the buffer has been made
        if first % 4:
            return False
        from tinygrad.runtime.autogen import webgpu

        encoder = webgpu.wgpuDeviceCreateCommandEncoder(
            place.device_res, webgpu.WGPUCommandEncoderDescriptor()
        )
        webgpu.wgpuCommandEncoderCopyBufferToBuffer(
            encoder, source._buf, first, target._buf, 0, size
        )
        commands = webgpu.wgpuCommandEncoderFinish(encoder, webgpu.WGPUCommandBufferDescriptor())
        webgpu.wgpuQueueSubmit(place.queue, 1, (webgpu.WGPUCommandBuffer * 1)(commands))
        webgpu.wgpuCommandBufferRelease(commands)
        webgpu.wgpuCommandEncoderRelease(encoder)
        return True
    from tinygrad.runtime import ops_cl

    ops_cl.check(
        ops_cl.cl.clEnqueueCopyBuffer(
            place.queue, source._buf, target._buf, first, 0, target.nbytes, 0, None, None
        )
    )
    return True


def _bytes(node: Any) -> int:
    return math.prod(map(int, node.shape)) * int(node.dtype.itemsize)


def _moves(node: Any) -> tuple[list[Any], Any]:
    """Return the moves that lead to a node, the last one first, and the node that they begin at."""
    moves = []
    while node.op in _MOVES:
        moves.append(node)
        node = node.src[0]
    return moves, node


def _moved(values: HostArray, move: Any) -> HostArray:
    argument = move.marg
    match move.op:
        case Ops.RESHAPE:
            return values.reshape(move.shape)
        case Ops.EXPAND:
            return np.broadcast_to(values, move.shape)
        case Ops.PERMUTE:
            return values.transpose(argument)
        case Ops.SHRINK:
            return values[tuple(slice(first, first + count) for first, count in argument)]
    return np.flip(values, tuple(axis for axis, turned in enumerate(argument) if turned))


_MOVES: Final = (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.SHRINK, Ops.FLIP)


def hold(array: HostArray, place: str) -> Held:
    """Return the bytes of a host array in the memory of a device of tinygrad's."""
    values = _plain(array)
    words = upload(values.reshape(-1).view(np.uint32), place)
    return Held(words, DTYPES[values.dtype.name], array.shape)


def look_at(x: Array) -> HostArray:
    """Return the values of a native array in new host memory."""
    if isinstance(x, Held):
        return download(x.words).view(x.dtype.name).reshape(x.shape)
    return download(x)


# ---------------------------------------------------------------------------- when to compute


def share_cache() -> None:
    """Let every thread use tinygrad's cache of kernels, and none depend on it.

    tinygrad opens one connection to it, which sqlite3 gives to no other thread than the first.
    """
    with LOCK:
        if helpers.CACHELEVEL < 1:
            return
        try:
            Path(helpers.CACHEDB).parent.mkdir(parents=True, exist_ok=True)
            made = _connected(helpers.CACHEDB)
        except (OSError, sqlite3.Error) as error:  # it cannot be opened: this process has its own
            let_through(error)
            made = _connected(":memory:")
        helpers._db_connection = made


def _connected(path: str) -> sqlite3.Connection:
    made = sqlite3.connect(
        path, timeout=5, isolation_level="IMMEDIATE", check_same_thread=False, factory=_Cache
    )
    made.execute("PRAGMA synchronous=NORMAL")
    return made


class _Cache(sqlite3.Connection):
    """A cache that keeps and finds nothing where it is full, damaged or locked."""

    def __del__(self) -> None:
        # tinygrad never closes it, which sqlite3 warns of from Python 3.13 on.
        with suppress(sqlite3.ProgrammingError):  # it could not be opened
            self.close()

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(factory or _Cursor)

    def commit(self) -> None:
        try:
            super().commit()
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                self.rollback()  # else no other process could write


class _Cursor(sqlite3.Cursor):
    def execute(self, *args: Any) -> Any:
        try:
            return super().execute(*args)
        except sqlite3.Error:
            return self  # which has no rows then

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except sqlite3.Error:
            return None


class _Reporting:
    """Give tinygrad's errors, which have classes of all kinds, as corepy's."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, (BackendError, MemoryError)):
            let_through(error)
            kind = ShortageError if is_shortage(error) else BackendError
            raise kind(
                f"tinygrad failed to {self.what}: {type(error).__name__}: {error}"
            ) from error


_reporting = _Reporting


def try_kernel(place: str) -> None:
    """Have a device compute something, for a driver may be there whose compiler fails.

    PoCL's build on the package index does not know the newest processors.
    """
    one = upload(np.ones(1, np.int32), place)
    found = download(one.alu(Ops.ADD, one))
    if found != 2:
        raise BackendError(f"its first kernel gives {found[0]} for 1 + 1")


def compute(x: Any) -> Any:
    """Have a tensor computed, unless it is there already, or a view of what is; return it."""
    with LOCK:
        _, node = _moves(x.uop)
        if node.op is not Ops.BUFFER and 0 not in x.shape:
            _realize(x)
        x.work = 0
    return x


def _realize(x: Any) -> Any:
    """Have tinygrad compute a tensor.

    It puts memory into the place of graphs before their kernels run. Where one fails, that memory
    holds anything, and all tensors take their graphs back.
    """
    before = [(tensor, tensor.uop) for ref in list(all_tensors) if (tensor := ref()) is not None]
    try:
        with _reporting("compute it"):
            return x.realize()
    except BaseException:
        for tensor, graph in before:
            tensor.uop = graph
        raise


def start(x: Any) -> Any:
    """Return the node of a graph that a tensor is a view of."""
    return _moves(x.uop)[1]


def is_loose(place: str) -> bool:
    """Say whether a device's compiler takes floats for real numbers.

    Shaders of Vulkan may be compiled without regard to NaN and infinities, and sums in any order:
    Mesa takes ``x - x`` for 0, and ``(y + x) - x`` for ``y``.
    """
    return place.startswith("WEBGPU")


def distinct(x: Any) -> Any:
    """Give elements that may repeat memory of their own, where compilers would see that.

    Loose ones take a factor out of a sum: ``inf * 1 + inf * -2`` is ``inf * -1`` to them.
    """
    if not is_loose(x.device) or x.dtype not in _FLOATS:
        return x
    moves, node = _moves(x.uop)
    once = node.op is Ops.BUFFER and all(move.op is not Ops.EXPAND for move in moves)
    return x if once else x.contiguous()


def _fits(node: Any) -> bool:
    """Say whether kernels take an array of that size; OpenCL gives none that they do not."""
    return not is_loose(node.device) or _bytes(node) <= largest(node.device)


def _check_fits(*nodes: Any) -> None:
    """Raise where a kernel cannot take or make an array, rather than once somebody looks at it."""
    for node in nodes:
        if not _fits(node):
            raise ShortageError(
                f"an array takes {_bytes(node)} bytes; kernels of {node.device} take at most "
                f"{largest(node.device)}"
            )


def _nodes(values: Any) -> Iterator[Any]:
    """Yield the nodes that operands are views of."""
    for value in values:
        if isinstance(value, Tensor):
            yield start(value)
        elif isinstance(value, (tuple, list)):
            yield from _nodes(value)


def lazy(function: Callable[..., Any], *, moves: bool) -> Callable[..., Any]:
    """Keep what an operation gives uncomputed, as long as its graph is small.

    A compiler that is loose with floats gets to see one operation on them at a time, but for those
    that only move values.
    """

    @wraps(function)
    def native(*args: Any, **params: Any) -> Any:
        with LOCK:
            work = 1 + sum(map(_work, args)) + sum(map(_work, params.values()))
            made = function(*args, **params)
            for part in made if isinstance(made, tuple) else (made,):
                part.work = work
                node = start(part)
                if node.op is not Ops.BUFFER and is_loose(part.device):
                    _check_fits(node, *_nodes((*args, *params.values())))
                alone = not moves and is_loose(part.device) and part.dtype in _FLOATS
                if alone or work > _LIMIT:
                    compute(part)
        return made

    return native


def _work(value: Any) -> int:
    """Return how many operations an operand's graph has, those that it shares counted twice."""
    if isinstance(value, Tensor):
        found: int = getattr(value, "work", 0)
        return found
    if isinstance(value, (tuple, list)):
        return sum(map(_work, value))
    return 0
