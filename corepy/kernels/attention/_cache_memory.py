"""The memory of caches, and how keys and values are written into it in each library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import wraps
from typing import Any, Final, Self, TypeVar, cast

import numpy as np

from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, listing
from corepy._extensions import is_there
from corepy.array_api._arguments import addressable
from corepy.devices._shortage import insist
from corepy.dispatch import Operand, make
from corepy.kernels._arguments import (
    FLOATS,
    Given,
    beside,
    floating,
    given,
    is_traced,
    misshapen,
    name_of,
    torch_layout,
    unusable,
    writable,
)
from corepy.kernels._device import on_device
from corepy.kernels._device._runtime import numpy_dtype
from corepy.kernels._formulas import setting
from corepy.kernels._libraries import DeviceLibrary
from corepy.kernels._memory import Host, begin_in, place_of, placed

#: What arrays of the standard's namespace can have, and libraries of which kernels take more.
_OF_STANDARD: Final = ("float32", "float64")
_OF_16_BITS: Final = ("numpy", "torch", "jax", "cupy", "pyopencl")
#: Libraries in whose namespaces `array_api_compat` makes zeros.
_COMPATIBLE: Final = ("numpy", "torch", "jax", "dask")


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _call(method: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return method(*arguments, **options)


#: `_call`, and once `torch.compile` has met it, for good, what that leaves alone: called in a graph
#: that was compiled, it would be traced itself.
_apart = _call


def _set_apart() -> None:
    global _apart
    if _apart is _call:
        reason = "which blocks a cache writes to, and reads, follows from numbers that change"
        _apart = sys.modules["torch"].compiler.disable(_call, reason=reason)


# As by `torch.compiler.assume_constant_result`: it is called while a call is traced.
_set_apart._dynamo_marked_constant = True  # type: ignore[attr-defined]


def outside_graphs(method: _Method) -> _Method:
    """Let `torch.compile` break its graph at a method, once, and run it as it is.

    What it traced would hold for one state of the cache alone, and for the next be compiled anew.
    """

    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        # There once something is compiled; torch alone another thread may be importing now.
        if "torch._dynamo" in sys.modules and sys.modules["torch"].compiler.is_dynamo_compiling():
            _set_apart()
        return _apart(method, arguments, options)

    return cast(_Method, call)


def _zeros(function: str, shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """Make memory in the library and on the device of another array."""
    model = floating(function, "like", np.empty(0, np.float32) if like is None else like)
    name = model.dtype if dtype is None else _name(dtype, model)
    options = FLOATS if model.table is None and model.library in _OF_16_BITS else _OF_STANDARD
    if model.dtype not in options:
        options = (*options, model.dtype)
    if name not in options:
        raise bad_argument(function, "dtype", name, f"{listing(options)}, or None")
    if name == "bfloat16" and model.library == "numpy" and not is_there("ml_dtypes"):
        expected = "another, or the package ml_dtypes, of which NumPy has it"
        raise bad_argument(function, "dtype", name, expected)
    return insist(function, place_of(model), lambda: _zeros_like(model, shape, name))


def _name(dtype: Any, model: Given) -> str:
    """Return the name of a dtype that an argument gives: by it, of corepy, NumPy or the library."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, type):  # jnp.float32 makes arrays, and has a dtype
        scalar = issubclass(dtype, np.generic)
        dtype = np.dtype(dtype) if scalar else getattr(dtype, "dtype", dtype)
    if not isinstance(dtype, (DType, np.dtype, type(model.native.dtype))):
        own = "" if model.library == "numpy" else f" or {model.library}"
        expected = f"a name, a dtype of corepy or NumPy{own}, or None"
        raise bad_type(model.function, "dtype", dtype, expected)
    return name_of(dtype)


def _zeros_like(model: Given, shape: tuple[int, ...], name: str) -> Any:
    if isinstance(model.backend, DeviceLibrary):
        return placed(np.zeros(shape, numpy_dtype(name)), model)
    if model.table is not None or model.library not in _COMPATIBLE:
        return placed(np.zeros(shape, name), model)
    from array_api_compat import array_namespace, device

    xp = array_namespace(model.native)
    with setting(replace(model, dtype=name)):
        if model.library == "numpy":
            own: Any = numpy_dtype(name)
        else:
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
    return unusable(x, f"is kept inside a function that {how}", f"a call {where}")


def _trace() -> Any:
    """Return what stands for the innermost of the functions that JAX transforms now."""
    from jax.extend.core import get_opaque_trace_state

    return get_opaque_trace_state("corepy")


class CacheMemory:
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

    def _told(self, batch: int, filled: str) -> str:
        """Return what it is called, its shape, how full it is, and where its memory lies."""
        memory, _ = self._given("__repr__")
        _, kv_heads, _, size = memory.shape
        shape = f"batch={batch}, kv_heads={kv_heads}, head_dim={size}"
        return f"{self._name}({shape}, {filled}, {memory.dtype} of {memory.library})"

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
            raise misshapen(new, f"({batch}, {kv_heads}, length, {size})")
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


def _copied(x: Given) -> Given:
    """Return an argument of NumPy, CuPy or torch in memory of its own."""
    native = x.native.detach().clone() if x.library == "torch" else x.native.copy()
    return replace(x, value=native if x.table is None else make(native, x.table), native=native)
