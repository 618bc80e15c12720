"""A stand-in for CuPy that computes with NumPy, to try the adapter where there is no GPU.

    python -m pytest -p tests.backends.cupy_on_numpy tests/array_api -k cupy

It shows that the adapter names, calls and converts as it should, and that its fixes give the
standard's values where they are given NumPy's. What CuPy itself computes it does not show: only a
GPU does (`scripts/gpu_check.sh`). As in CuPy, there are the functions and parameters of
``cupy_signatures.json`` and no others, results are arrays where NumPy gives scalars, integers
divided by zero give 0, indices wrap, and zeros that are filled in lose their sign. Streams put work
off once ``GPU.defers``, and memory runs out at ``GPU.capacity`` bytes
(`tests.backends.gpu_on_host`). The complex functions are wrong where a GPU has shown them to be.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.backends import gpu_on_host
from tests.backends.cupy_signatures import TABLE, signature
from tests.backends.gpu_on_host import GPU, Arena, CaptureError, Current, Pool, plain, unowned


class CUDARuntimeError(RuntimeError):
    """What CuPy raises where the driver is missing."""

    __module__ = "cupy_backends.cuda.api.runtime"


class OutOfMemoryError(MemoryError):
    """What CuPy raises where its pool cannot grow."""

    def __init__(self, size: int) -> None:
        super().__init__(f"Out of memory allocating {size:,} bytes")


class _Place(threading.local):
    """The devices that a thread is in, the current one last, and its stream on each."""

    def __init__(self) -> None:
        self.numbers = [0]
        self.streams: dict[int, int] = {}


class _OfDevice(Current):
    """The stream that is current on the current device."""

    @property
    def address(self) -> int:
        return PLACE.streams.get(PLACE.numbers[-1], 0)

    @address.setter
    def address(self, value: int) -> None:
        PLACE.streams[PLACE.numbers[-1]] = value


PLACE = _Place()
CURRENT = _OfDevice()
POOL = Pool(OutOfMemoryError)


class Device:
    """As CuPy's. All devices have the one memory."""

    def __init__(self, number: int | None = None) -> None:
        self.id = PLACE.numbers[-1] if number is None else number

    def __enter__(self) -> Device:
        PLACE.numbers.append(self.id)
        return self

    def __exit__(self, *error: object) -> None:
        PLACE.numbers.pop()

    @property
    def mem_info(self) -> tuple[int, int]:
        total = GPU.capacity or 1 << 40
        return total - sum(pool.used + pool.cached for pool in GPU.pools), total

    def synchronize(self) -> None:
        for address in list(GPU.queues):
            GPU.drain(address)


class Event:
    """As CuPy's; a mark in the GPU's queue."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.timed = not disable_timing
        self.mark: Any = None

    @property
    def done(self) -> bool:
        try:
            return bool(self.mark.query())
        except CaptureError:  # CuPy compares whatever the driver says with success (event.pyx)
            return False

    def synchronize(self) -> None:
        GPU.finish(self.mark)


class Stream:
    """As CuPy's, with what the adapter calls."""

    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.ptr = 0 if null else GPU.create()

    @classmethod
    def from_external(cls, obj: Any) -> Stream:
        version, address = obj.__cuda_stream__()
        assert version == 0
        made = cls(null=True)
        made.ptr = address
        return made

    def use(self) -> Stream:
        CURRENT.address = self.ptr
        return self

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.mark = GPU.record(self.ptr)
        return event

    def wait_event(self, event: Event) -> None:
        GPU.wait(self.ptr, event.mark)

    def is_capturing(self) -> bool:
        return self.ptr in GPU.recording

    def begin_capture(self, mode: int | None = None) -> None:
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        GPU.begin(self.ptr)

    def end_capture(self) -> Graph:
        return Graph(GPU.end(self.ptr))


Stream.null = Stream(null=True)


class Graph:
    """What was recorded."""

    def __init__(self, work: list[Any]) -> None:
        self.work = work

    def launch(self, stream: Stream | None = None) -> None:
        for each in self.work:
            GPU.ask(CURRENT.address if stream is None else stream.ptr, each)


class ExternalStream(Stream):
    """As that of CuPy 13, which has no `Stream.from_external`."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        super().__init__(null=True)
        self.ptr = ptr


def _current_stream(device_id: int = -1) -> Stream:
    number = PLACE.numbers[-1] if device_id < 0 else device_id
    return ExternalStream(PLACE.streams.get(number, 0))


class Memory:
    """Memory that no pool gives: the next to be allocated."""

    def __init__(self, size: int) -> None:
        self.size = size


class MemoryPointer:
    """As CuPy's."""

    def __init__(self, mem: Memory, offset: int) -> None:
        self.mem = mem


class MemoryPool:
    """As CuPy's, on the one pool that the stand-in counts in; each lends memory of its own."""

    def __init__(self, allocator: Any = None) -> None:
        self.arena = Arena(allocator)

    def malloc(self, size: int) -> Any:
        POOL.take(size)
        return size

    def used_bytes(self) -> int:
        return POOL.used

    def free_bytes(self) -> int:
        return POOL.cached

    def total_bytes(self) -> int:
        return POOL.used + POOL.cached

    def n_free_blocks(self) -> int:
        return int(POOL.cached > 0)

    def free_all_blocks(self, stream: Any = None) -> None:
        POOL.empty()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        POOL.limit = size or 0

    def get_limit(self) -> int:
        return POOL.limit


class PythonFunctionAllocator:
    """As CuPy's: memory of other people's functions."""

    def __init__(self, malloc_func: Any, free_func: Any) -> None:
        self.malloc_func, self.free_func = malloc_func, free_func

    def malloc(self, size: int) -> _Lent | None:
        return _Lent(self, size) if size else None


class _Lent:
    def __init__(self, allocator: PythonFunctionAllocator, size: int) -> None:
        self.address = allocator.malloc_func(size, 0)
        weakref.finalize(self, allocator.free_func, self.address, 0)


class _Mine(threading.local):
    """The allocator that a thread uses for a while."""

    allocator: Any = None


_POOL = MemoryPool()
_allocator: Any = _POOL.malloc
_mine = _Mine()


def _set_allocator(allocator: Any = None) -> None:
    global _allocator
    if _mine.allocator is not None:
        raise ValueError(
            "Can't change the global allocator inside `using_allocator` context manager"
        )
    _allocator = allocator


def _get_allocator() -> Any:
    return _allocator if _mine.allocator is None else _mine.allocator


@contextmanager
def _using_allocator(allocator: Any = None) -> Iterator[None]:
    before, _mine.allocator = _mine.allocator, allocator
    try:
        yield
    finally:
        _mine.allocator = before


def _pool() -> MemoryPool | None:
    """Return the pool that memory comes from, None where it is somebody else's."""
    owner = getattr(_get_allocator(), "__self__", None)
    return owner if isinstance(owner, MemoryPool) else None


def _allocated(array: Any) -> Any:
    """Take memory for an array from the allocator in force, until the array is gone."""
    if GPU.capacity is not None:
        if _pool() is not None:
            POOL.follow(array, array.nbytes)
        else:
            array._memory = _get_allocator()(array.nbytes)
    return array


def later(function: Any, args: Any, params: Any, address: int) -> Any:
    """Do as `gpu_on_host.later`, in memory of the pool in force."""
    pool = _pool() if GPU.defers else None
    arena = pool and pool.arena
    return gpu_on_host.later(function, args, params, address, arena)


def _ready() -> None:
    """Wait for the current stream, as whoever reads a value does."""
    if GPU.defers:
        GPU.drain(CURRENT.address)


def _refuse_capturing(way: str) -> None:
    if CURRENT.address in GPU.recording:
        raise RuntimeError(f"the current stream is capturing, so {way} transfers are disallowed")


def _on_one_device(values: Any) -> None:
    """Refuse arrays of other devices than the current one, as kernels do."""
    for value in values:
        if type(value) in (tuple, list):
            _on_one_device(value)
        elif isinstance(value, ndarray) and value._number != PLACE.numbers[-1]:
            raise ValueError(
                f"The device where the array resides ({value._number}) is different from the "
                f"current device ({PLACE.numbers[-1]}). Peer access is unavailable between these "
                f"devices."
            )


_PINNED: dict[int, Any] = {}


def _empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    made = np.empty(shape, dtype, order)  # type: ignore[call-overload]
    _PINNED[made.ctypes.data] = made
    return made


def _in_c(key: Any) -> None:
    """Refuse bounds of slices that are no integers of C, as CuPy does."""
    for part in key if isinstance(key, tuple) else (key,):
        if part.__class__ is slice:
            for bound in (part.start, part.stop, part.step):
                if bound is not None and not -(1 << 63) <= bound < 1 << 63:
                    raise OverflowError("Python int too large to convert to C ssize_t")


class ndarray(np.ndarray[Any, Any]):
    """Memory of the host that pretends to be a GPU's."""

    _memory: Any = None
    _number = 0

    def __array_finalize__(self, of: Any) -> None:
        self._number = of._number if isinstance(of, ndarray) else PLACE.numbers[-1]

    @property
    def device(self) -> Device:  # type: ignore[override]
        return Device(self._number)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data, device_id=self._number, mem=self._memory)

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> np.ndarray[Any, Any]:
        _refuse_capturing("D2H")
        found = np.empty(self.shape, self.dtype) if out is None else out
        values = unowned(self.view(np.ndarray))
        GPU.ask(CURRENT.address, lambda: np.copyto(found, values))
        if blocking:
            _ready()
        return found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **params: Any) -> Any:
        # Operators of the fixes, which are done at once: this waits for less than it might.
        _ready()
        out = params.get("out")
        if out is not None:
            params["out"] = plain(out)
        found = getattr(ufunc, method)(*map(plain, inputs), **params)
        return (out[0] if len(out) == 1 else out) if out is not None else _given(found)

    def __getitem__(self, key: Any) -> Any:
        _in_c(key)
        _ready()
        found = super().__getitem__(key)
        return found if np.may_share_memory(found, self) else _allocated(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        _in_c(key)
        if not isinstance(value, np.ndarray):
            value = _filling(value, self.dtype)
        target, key, value = self.view(np.ndarray), plain(key), plain(value)
        if GPU.defers:
            target, value = unowned(target), unowned(value)
            GPU.ask(CURRENT.address, lambda: target.__setitem__(key, value))
        else:
            target[key] = value

    def __dlpack__(self, *, stream: Any = None, **params: Any) -> Any:
        if params.get("copy") and params.get("dl_device") is None:
            raise BufferError("copy=True only supported for copy to CPU.")
        if not GPU.defers:
            if stream not in (None, -1):  # which NumPy 2.5 calls a ValueError
                raise RuntimeError("NumPy only supports stream=None.")
            return super().__dlpack__(**params)
        if stream not in (CURRENT.address, -1):  # -1: whoever asks has seen to the order
            GPU.wait(1 if stream is None else stream, GPU.record(CURRENT.address))
        return self.view(np.ndarray).__dlpack__(**params)

    def __dlpack_device__(self) -> Any:
        return np.empty(0).__dlpack_device__()


def _reading(name: str) -> Any:
    inherited = getattr(np.ndarray, name)

    @functools.wraps(inherited)
    def method(self: Any, *args: Any, **params: Any) -> Any:
        _ready()
        return inherited(self, *args, **params)

    return method


for _name in ("copy", "item", "reshape", "tolist"):
    setattr(ndarray, _name, _reading(_name))
for _name in ("__bool__", "__float__", "__int__"):
    setattr(ndarray, _name, _reading(_name))


def _astype(self: Any, dtype: Any, copy: bool = True) -> Any:
    if not copy and self.dtype == dtype:
        return self
    values = self.view(np.ndarray)
    return _given(later(lambda x: np.array(x, dtype), (values,), {}, CURRENT.address))


def _reducing(name: str, *words: str) -> Any:
    """Make a method that takes its arguments by place too, as CuPy's do."""
    function = getattr(np, name)

    def method(self: Any, axis: Any = None, *rest: Any, **params: Any) -> Any:
        params |= {"axis": axis, **dict(zip(words, rest, strict=False))}
        if params.pop("out", None) is not None:
            raise NotImplementedError("out")
        with np.errstate(all="ignore"):
            return _given(later(function, (self,), params, CURRENT.address))

    return method


for _name in ("sum", "prod", "mean"):
    setattr(ndarray, _name, _reducing(_name, "dtype", "out", "keepdims"))
for _name in ("max", "min", "all", "any"):
    setattr(ndarray, _name, _reducing(_name, "out", "keepdims"))
ndarray.astype = _astype  # type: ignore[assignment,method-assign]
ndarray.__module__ = "cupy"


def _given(x: Any) -> Any:
    """Turn results into arrays, in tuples as well."""
    if isinstance(x, ndarray):
        return x
    if isinstance(x, np.ndarray | np.generic):
        owns = isinstance(x, np.generic) or x.base is None
        made = np.asarray(x).view(ndarray)
        return _allocated(made) if owns else made
    if type(x) in (tuple, list):
        return type(x)(map(_given, x))
    return x


def _giving(function: Any, noted: str) -> Any:
    parameters = signature(noted)

    @functools.wraps(function)
    def call(*args: Any, **params: Any) -> Any:
        parameters.bind(*args, **params)
        _on_one_device([*args, *params.values()])
        with np.errstate(all="ignore"):
            if GPU.defers:
                return _given(later(function, args, params, CURRENT.address))
            return _given(function(*args, **params))

    return call


def _module(name: str, source: Any, noted: dict[str, str], **more: Any) -> Any:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None, is_package=True)
    made.__path__ = []  # type: ignore[attr-defined]
    for key in dir(source):
        value = getattr(source, key)
        if key.startswith("_"):
            continue
        if isinstance(value, type | ModuleType) or not callable(value):
            setattr(made, key, value)
        elif key in noted:
            setattr(made, key, _giving(value, noted[key]))
    for key, value in more.items():
        setattr(made, key, value)
    sys.modules[name] = made
    return made


def _take(a: Any, indices: Any, axis: int | None = None) -> Any:
    return np.take(a, indices, axis, mode="wrap")


def _filling(value: Any, dtype: Any) -> Any:
    """Return what CuPy fills an array with: for a zero it sets the memory to 0."""
    value = np.asarray(value, dtype)[()]
    return np.zeros((), dtype)[()] if value == 0 else value


def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    if stop is None:
        start, stop = 0, start
    size = int(np.ceil((stop - start) / step))
    if size <= 0:
        return np.empty(0, dtype)
    if dtype is not None:
        start, step = np.dtype(dtype).type(start), np.dtype(dtype).type(step)
    return np.asarray(start + np.arange(size, dtype=dtype) * step, dtype)


def _linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    if num > endpoint:
        float(stop - start)
    made = np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)
    if num > 1 and endpoint:
        made[-1] = _filling(stop, made.dtype)
    return made


# ---------------------------------------------------------------------------- complex functions


def _log(x: Any) -> Any:
    made = np.log(x)
    if made.dtype.kind == "c":
        made = np.where(np.isnan(x), complex(np.nan, np.nan), made).astype(made.dtype)
    return made


def _log10(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.log10(x)
    made = np.array(_log(x))
    for part in (made.real, made.imag):
        part /= np.log(10)
    return made


def _log2(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.log2(x)
    # The quotient of complex numbers is computed by parts, with products by a zero.
    made = np.array(_log(x))
    real, imag = made.real * 1, made.imag * 1
    made.real, made.imag = real + imag * 0, imag - real * 0
    for part in (made.real, made.imag):
        part /= np.log(2)
    return made


def _tanh(x: Any) -> Any:
    made = np.tanh(x)
    if made.dtype.kind == "c":
        lost = np.isfinite(x.real) & ~np.isfinite(x.imag)
        made = np.where(lost, complex(np.nan, np.nan), made).astype(made.dtype)
    return made


def _tan(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.tan(x)
    made = np.empty_like(x)
    made.real, made.imag = -x.imag, x.real
    turned = np.asarray(_tanh(made))
    made.real, made.imag = turned.imag, -turned.real
    return made


def _arccosh(x: Any) -> Any:
    made = np.arccosh(x)
    if made.dtype.kind == "c":
        lost = np.isnan(x.imag) & ~np.isinf(x.real)
        made = np.where(lost, complex(np.nan, np.nan), made).astype(made.dtype)
    return made


_OTHERWISE = {
    "arange": _arange,
    "arccosh": _arccosh,
    "linspace": _linspace,
    "log": _log,
    "log10": _log10,
    "log2": _log2,
    "take": _take,
    "tan": _tan,
    "tanh": _tanh,
}


def _planned(function: Any) -> Any:
    """Refuse to transform no elements, as cuFFT does."""

    @functools.wraps(function)
    def transform(x: Any, *args: Any, **params: Any) -> Any:
        if not x.size:
            raise ValueError("Invalid number of FFT data points (0) specified.")
        return function(x, *args, **params)

    return transform


def _reporting(function: Any) -> Any:
    """Say of a matrix without a solution what CuPy says."""

    @functools.wraps(function)
    def solve(*args: Any, **params: Any) -> Any:
        try:
            return function(*args, **params)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                "Error reported by dgetrf in cuSOLVER. devInfo = [1]. Please refer to the "
                "cuSOLVER documentation."
            ) from None

    return solve


# ---------------------------------------------------------------------------- to and from the host


def _asnumpy(x: Any) -> Any:
    with x.device:
        _ready()
    return np.array(x).view(np.ndarray)


def _asarray(a: Any, dtype: Any = None, order: Any = None, *, blocking: bool = False) -> Any:
    """Copy from the host: pinned memory in the stream, other memory by a copy that is made now."""
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    values = np.asarray(a, dtype)
    if not values.ndim:
        return _given(np.asarray(_filling(values, values.dtype)))
    _refuse_capturing("H2D")
    if values.ctypes.data not in _PINNED:
        values = values.copy()
    made = _given(later(np.array, (values,), {}, CURRENT.address))
    if blocking:
        _ready()
    return made


class _Capsule:
    """What NumPy imports: its own capsule, after the exporter has ordered the streams."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> Any:
        return np.empty(0).__dlpack_device__()

    def __dlpack__(self, **params: Any) -> Any:
        return self.capsule


def _from_dlpack(x: Any) -> Any:
    if not GPU.defers:
        return np.from_dlpack(x).view(ndarray)
    capsule = x.__dlpack__(stream=CURRENT.address or 1)
    return np.from_dlpack(_Capsule(capsule)).view(ndarray)


def install(devices: int = 1) -> None:
    """Put the stand-in in the place of CuPy."""

    def count() -> int:
        if not devices:
            raise CUDARuntimeError(
                "cudaErrorInsufficientDriver: CUDA driver version is insufficient"
            )
        return devices

    runtime = SimpleNamespace(is_hip=False, getDeviceCount=count, CUDARuntimeError=CUDARuntimeError)
    memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
    more = {
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "Event": Event,
        "Memory": Memory,
        "MemoryPointer": MemoryPointer,
        "MemoryPool": MemoryPool,
        "PythonFunctionAllocator": PythonFunctionAllocator,
        "get_current_stream": _current_stream,
        "get_elapsed_time": lambda start, end: 1.5 if start.timed and end.timed else None,
        "get_allocator": _get_allocator,
        "set_allocator": _set_allocator,
        "using_allocator": _using_allocator,
        "memory": memory,
    }
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    nothing = SimpleNamespace()

    def part(of: str) -> dict[str, str]:
        return {key.removeprefix(of): noted for key, noted in table.items() if key.startswith(of)}

    cuda = _module("cupy.cuda", nothing, {}, Device=Device, runtime=runtime, **more)
    _module("cupy.cuda.device", nothing, {}, Device=Device)
    linalg = _module("cupy.linalg", np.linalg, part("linalg."))
    for name in part("linalg."):
        if hasattr(linalg, name):
            setattr(linalg, name, _reporting(getattr(linalg, name)))
    fft = _module("cupy.fft", np.fft, part("fft."))
    for name in ("fftn", "ifftn"):
        setattr(fft, name, _planned(getattr(fft, name)))
    module = _module("cupy", np, table, ndarray=ndarray, cuda=cuda, linalg=linalg, fft=fft)
    module.__version__ = table[""]
    for name, function in _OTHERWISE.items():
        setattr(module, name, _giving(function, table[name]))
    module.asnumpy = _asnumpy
    module.asarray, module.from_dlpack = _asarray, _from_dlpack
    module.get_default_memory_pool = lambda: _POOL
    cupyx = _module("cupyx", nothing, {}, errstate=lambda linalg: nullcontext())
    cupyx.empty_pinned = _empty_pinned
    there = {"check_availability": lambda name: True}
    cupyx.cusolver = _module("cupyx.cusolver", nothing, {}, **there)

    from corepy.backends._numpy import NumPyBackend

    owns = NumPyBackend.owns
    NumPyBackend.owns = (  # type: ignore[method-assign]
        lambda self, obj: owns(self, obj) and not isinstance(obj, ndarray)
    )


def pytest_load_initial_conftests() -> None:
    """Install it as a plugin of pytest, before corepy looks for its backends."""
    install()
