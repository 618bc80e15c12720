"""A GPU that is none: streams that put their work off, and memory that runs out.

Work that a library asks of a stream lies in a queue until somebody waits for it, so that a value
which is read without waiting is wrong for certain. It knows of addresses alone, as a GPU does: the
memory of an array that is gone is lent again at once (`Arena`), whoever has still to read it.
Libraries that stand in for real ones share this one GPU, as `tests.backends.cupy_on_numpy` does and
those of `tests.backends.stand_ins`.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

Work = Callable[[], object]


class Mark:
    """A point in a queue."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.done = False
        #: Whether the stream was recorded then: nobody can ask for such a point, ever.
        self.recorded = False

    def query(self) -> bool:
        if self.recorded:
            raise CaptureError(
                "cudaErrorCapturedEvent: operation not permitted on an event last "
                "recorded in a capturing stream"
            )
        return self.done


class CaptureError(RuntimeError):
    """What a wait is answered with while a stream is recorded, and a mark of that time later."""


class Gpu:
    """Queues by address, of which 0 and 1 are the default stream, and a number of bytes."""

    def __init__(self) -> None:
        self.defers = False
        #: What its driver answers to all that is asked of it once it is lost; 0 while it is there.
        self.lost = 0
        self.capacity: int | None = None
        self.pools: list[Pool] = []
        self.addresses = itertools.count(0x1000, 0x100)
        self.queues: dict[int, deque[Any]] = {}
        self.recording: dict[int, list[Work]] = {}

    def queue(self, address: int) -> deque[Any]:
        return self.queues.setdefault(0 if address == 1 else address, deque())

    def create(self) -> int:
        return next(self.addresses)

    def there(self) -> None:
        """Fail where it is lost, as all does that is asked of it then."""
        if self.lost:
            raise RuntimeError(f"the driver returned {self.lost}")

    def ask(self, address: int, work: Work) -> None:
        self.there()
        if address in self.recording:
            self.recording[address].append(work)
        elif self.defers:
            self.queue(address).append(work)
        else:
            work()

    def record(self, address: int) -> Mark:
        self.there()
        mark = Mark(address)
        if address in self.recording:
            mark.recorded = True
        else:
            self.queue(address).append(mark)
        return mark

    def wait(self, address: int, mark: Mark) -> None:
        """Let a queue wait for a point in another; who waits for one that is recorded, is too."""
        self.there()
        if mark.recorded:
            if mark.address not in self.recording:
                raise CaptureError("cudaErrorInvalidValue: of a recording that has ended")
            self.recording[address] = self.recording[mark.address]
        elif address in self.recording:
            raise CaptureError(
                "cudaErrorStreamCaptureIsolation: dependency created on uncaptured "
                "work in another stream"
            )
        else:
            self.queue(address).append(lambda: self.finish(mark))

    def finish(self, mark: Mark) -> None:
        self.there()
        mark.query()
        if mark.address in self.recording:
            raise CaptureError("cudaErrorStreamCaptureUnsupported: operation not permitted")
        queue = self.queue(mark.address)
        while not mark.done:
            entry = queue.popleft()
            if isinstance(entry, Mark):
                entry.done = True
            else:
                entry()

    def drain(self, address: int) -> None:
        self.finish(self.record(address))

    def begin(self, address: int) -> None:
        self.drain(address)
        self.recording[address] = []

    def end(self, address: int) -> list[Work]:
        work = self.recording[address]
        self.recording = {at: each for at, each in self.recording.items() if each is not work}
        return work


GPU = Gpu()


class Arena:
    """Memory that a library lends: that of an array that is gone goes to the next in its stream.

    So do CuPy's pool (`SingleDeviceMemoryPool` in memory.pyx) and torch's, without asking whether
    any other stream still reads it.
    """

    #: All that was ever lent, by its address; work goes on in it when its array is gone.
    blocks: ClassVar[dict[int, bytearray]] = {}

    def __init__(self, grow: Callable[[int], object] | None = None) -> None:
        self.grow = grow
        self.free: dict[tuple[int, int], list[bytearray]] = defaultdict(list)

    def lend(self, address: int, like: Any) -> Any:
        """Return memory for an array like another, asked for in a stream, with what is in it."""
        if not like.nbytes:
            return np.array(like)
        free = self.free[address, like.nbytes]
        if free:
            block = free.pop()
        else:
            if self.grow is not None:
                self.grow(like.nbytes)
            made = np.full(like.shape, np.nan if like.dtype.kind in "fc" else 0, like.dtype)
            block = bytearray(made.tobytes())
        owner = np.frombuffer(block, np.uint8)
        self.blocks[owner.ctypes.data] = block
        weakref.finalize(owner, free.append, block)  # every view of it refers to it
        return owner.view(like.dtype).reshape(like.shape)


def unowned(value: Any) -> Any:
    """Return the arrays of a GPU's memory as its work knows them: they keep nothing alive."""
    if isinstance(value, (tuple, list)):
        return type(value)(unowned(item) for item in value)
    if isinstance(value, np.ndarray):
        first = value.ctypes.data
        for start, block in Arena.blocks.items():
            if start <= first < start + len(block):
                where = {"buffer": block, "offset": first - start, "strides": value.strides}
                return np.ndarray(value.shape, value.dtype, **where)
    return value


class Pool:
    """The memory that one library holds: what arrays use, and what waits for the next."""

    def __init__(self, error: Callable[[int], Exception]) -> None:
        self.error = error
        self.cached = self.limit = 0
        self.live: dict[object, int] = {}
        GPU.pools.append(self)

    @property
    def used(self) -> int:
        return sum(self.live.values())

    def reset(self) -> None:
        """Forget arrays that tests left behind, some of which errors still hold."""
        self.cached = self.limit = 0
        self.live.clear()

    def take(self, size: int) -> object:
        """Take memory, and return what gives it back."""
        again = min(size, self.cached)
        if not self._fits(size - again):
            self.empty()  # as real pools do by themselves
            again = 0
            if not self._fits(size):
                raise self.error(size)
        self.cached -= again
        token = object()
        self.live[token] = size
        return token

    def _fits(self, more: int) -> bool:
        held = sum(pool.used + pool.cached for pool in GPU.pools)
        mine = self.used + self.cached
        room = GPU.capacity is None or held + more <= GPU.capacity
        return room and (not self.limit or mine + more <= self.limit)

    def give(self, token: object) -> None:
        self.cached += self.live.pop(token, 0)

    def empty(self) -> int:
        freed, self.cached = self.cached, 0
        return freed

    def follow(self, array: Any, size: int) -> None:
        """Count an array's memory until it is gone."""
        if GPU.capacity is not None:
            weakref.finalize(array, self.give, self.take(size))


class Current(threading.local):
    """The address of the stream that a library's work of this thread goes to."""

    def __init__(self) -> None:
        self.address = 0


def plain(value: Any) -> Any:
    """Replace arrays of any class by NumPy's own on the same memory."""
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if isinstance(value, (tuple, list)):
        return type(value)(plain(item) for item in value)
    return value


def later(
    function: Callable[..., Any], args: Any, params: Any, address: int, arena: Arena | None = None
) -> Any:
    """Call a function of NumPy's in a stream: the result has its shape now and its values then.

    Its memory is lent by an arena, if one is given.
    """
    args = tuple(map(plain, args))
    params = {key: plain(value) for key, value in params.items()}
    try:
        made = function(*args, **params)
    except CaptureError:
        raise
    except Exception:  # of values that are not there yet, or never right
        GPU.drain(address)
        return function(*args, **params)
    if not isinstance(made, np.ndarray | np.generic):
        return made  # a tuple, whose shapes may follow from values: the tests have no such
    if any(np.may_share_memory(made, arg) for arg in args if isinstance(arg, np.ndarray)):
        return made
    if arena is None:
        out = np.array(made)
        out[...] = np.nan if out.dtype.kind in "fc" else 0
    else:
        out = arena.lend(address, np.asarray(made))
    target, args, params = unowned(out), unowned(args), {k: unowned(v) for k, v in params.items()}

    def work() -> None:
        with np.errstate(all="ignore"):
            target[...] = function(*args, **params)

    GPU.ask(address, work)
    return out
