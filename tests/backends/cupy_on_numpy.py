"""A stand-in for CuPy that computes with NumPy, to try the adapter where there is no GPU.

    python -m pytest -p tests.backends.cupy_on_numpy tests/array_api -k cupy

It shows that the adapter names, calls and converts as it should, and that its fixes give the
standard's values where they are given NumPy's. What CuPy itself computes it does not show: only a
GPU does (`scripts/gpu_check.sh`). As in CuPy, there are the functions and parameters of
``cupy_signatures.json`` and no others, results are arrays where NumPy gives scalars, integers
divided by zero give 0, indices wrap, and zeros that are filled in lose their sign. The complex
functions are wrong where a GPU has shown them to be. Devices, streams and memory are in
`tests.backends.cupy_devices`.
"""

from __future__ import annotations

import functools
import json
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.backends.cupy_devices import (
    CURRENT,
    DEFAULT_POOL,
    PLACE,
    Device,
    allocated,
    cuda_of,
    later,
    ready,
    refuse_capturing,
)
from tests.backends.cupy_signatures import TABLE, signature
from tests.backends.gpu_on_host import GPU, plain, unowned


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


def _together(key: Any) -> None:
    """Refuse arrays that do not broadcast, by CuPy's exception; masks count as their indices."""
    shapes = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, ndarray) and part.dtype == bool and part.ndim:
            ready()
            shapes.append((np.count_nonzero(plain(part)),))
        elif isinstance(part, ndarray):
            shapes.append(part.shape)
    np.broadcast_shapes(*shapes)


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
        # In the stream of the device that is current, whichever the array is on (core.pyx).
        refuse_capturing("D2H")
        found = np.empty(self.shape, self.dtype) if out is None else out
        values = unowned(self.view(np.ndarray))
        GPU.ask(CURRENT.address, lambda: np.copyto(found, values))
        if blocking:
            ready()
        return found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **params: Any) -> Any:
        # Operators of the fixes, which are done at once: this waits for less than it might.
        ready()
        out = params.get("out")
        if out is not None:
            params["out"] = plain(out)
        found = getattr(ufunc, method)(*map(plain, inputs), **params)
        return (out[0] if len(out) == 1 else out) if out is not None else _given(found)

    def __getitem__(self, key: Any) -> Any:
        _in_c(key)
        ready()
        _together(key)
        found = super().__getitem__(key)
        if not isinstance(found, np.ndarray):  # CuPy gives a view of the element
            found = super().__getitem__((*(key if isinstance(key, tuple) else (key,)), ...))
        return found if np.may_share_memory(found, self) else allocated(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        _in_c(key)
        _together(key)
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
        ready()
        return inherited(self, *args, **params)

    return method


for _name in ("item", "reshape", "tolist"):
    setattr(ndarray, _name, _reading(_name))
for _name in ("__bool__", "__float__", "__int__"):
    setattr(ndarray, _name, _reading(_name))


def _copy(self: Any, order: Any = "C") -> Any:
    """Copy to the current device, whichever the array is on."""
    ready()
    made = np.ndarray.copy(self, order)
    made._number = PLACE.numbers[-1]
    return made


def _astype(self: Any, dtype: Any, copy: bool = True) -> Any:
    if not copy and self.dtype == dtype:
        return self
    _on_one_device([self])
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
ndarray.copy = _copy  # type: ignore[assignment,method-assign]
ndarray.__module__ = "cupy"


def _given(x: Any) -> Any:
    """Turn results into arrays, in tuples as well."""
    if isinstance(x, ndarray):
        return x
    if isinstance(x, np.ndarray | np.generic):
        owns = isinstance(x, np.generic) or x.base is None
        made = np.asarray(x).view(ndarray)
        return allocated(made) if owns else made
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
    made.__path__ = []
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


def _asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True
) -> Any:
    return a.get(stream, order, out, blocking)


def _asarray(a: Any, dtype: Any = None, order: Any = None, *, blocking: bool = False) -> Any:
    """Copy from the host: pinned memory in the stream, other memory by a copy that is made now."""
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    values = np.asarray(a, dtype)
    if not values.ndim:
        return _given(np.asarray(_filling(values, values.dtype)))
    refuse_capturing("H2D")
    if values.ctypes.data not in _PINNED:
        values = values.copy()
    made = _given(later(np.array, (values,), {}, CURRENT.address))
    if blocking:
        ready()
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
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    nothing = SimpleNamespace()

    def part(of: str) -> dict[str, str]:
        return {key.removeprefix(of): noted for key, noted in table.items() if key.startswith(of)}

    cuda = _module("cupy.cuda", nothing, {}, **cuda_of(devices))
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
    module.get_default_memory_pool = lambda: DEFAULT_POOL
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
