"""Arrays of the libraries as the compiled kernels see them: NumPy's, on the host's memory.

`supports` says whether the compiled kernels can take some arguments. If so, `view` shares the
memory of an argument and `Result` provides that of a result; else `corepy.kernels._formulas`
computes with the library's own functions, wherever the arrays live.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from itertools import count
from operator import attrgetter
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from corepy import array_api
from corepy._errors import BackendUnavailableError
from corepy._extensions import is_there
from corepy.devices._device import Device
from corepy.devices._pool import recycling
from corepy.devices._shortage import insist
from corepy.dispatch import (
    Operand,
    is_reproducible,
    load,
    make,
    ran,
    table_of,
)
from corepy.kernels._arguments import (
    Given,
    in_common,
    is_compiling,
    is_traced,
    jax_values,
    torch_layout,
)
from corepy.kernels._libraries import DeviceLibrary
from corepy.kernels._replay import is_noting
from corepy.kernels._ways import NUMBA, wanted

Host = npt.NDArray[Any]

#: Elements from which a compiled kernel is worth its start, by library: loading it takes a second
#: once, and handing memory to JAX some 25 us each time.
LEAST: Final = {"numpy": 1024, "torch": 1024, "jax": 16384}
#: Calls on less until compiled kernels take them too. They are twice as fast on any size, once they
#: are loaded: so many calls have lost what that takes where their code is on disk.
PATIENCE: Final = 4096
#: Bytes from which results lie in memory that is used again.
_LARGE: Final = 1 << 20
#: Bytes of a `fixed` array at most: a call that is repeated keeps it.
_KEPT: Final = 1 << 16
_WORDS: Final = {"float16": np.uint16, "bfloat16": np.uint16}


# ---------------------------------------------------------------------------- choosing


@cache
def _compiler() -> bool:
    """Say whether Numba is there, works, and compiles."""
    if not is_there("numba"):
        return False
    try:
        load("numba")  # what is wrong with it is kept for `corepy info`
    except BackendUnavailableError:
        return False
    from numba import config

    return not bool(config.DISABLE_JIT)


def supports(x: Given, *others: Given | None) -> bool:
    """Say whether compiled kernels take some arguments: on the host, concrete, and worth it.

    Arrays through which a gradient or a trace passes are for their own library.
    """
    way = wanted()
    if way is not None:
        return way == NUMBA and is_compilable(x, *others)
    least = LEAST.get(x.library)
    if is_reproducible():  # neither sizes nor how often it was called decide
        return least is not None and is_compilable(x, *others)
    if least is None:
        return False
    # `torch.compile` would guard the count, and compile anew once it went on.
    if x.size < least and (x.library == "jax" or is_compiling(x) or next(_small) < PATIENCE):
        return False
    return is_compilable(x, *others)


_small: Final = count()


def is_compilable(x: Given, *others: Given | None) -> bool:
    """Say whether compiled kernels take some arguments, however small."""
    return lies_plain(x, *others) and _compiler()  # which `torch.compile` cannot trace


def lies_plain(x: Given, *others: Given | None) -> bool:
    """Say whether arrays have values, on the host, that no gradient passes through."""
    look = ON_HOST.get(x.library)
    return look is not None and all(look(g.native) for g in (x, *others) if g is not None)


def _numpy_on_host(native: Any) -> bool:
    return native.__class__ in (np.ndarray, np.memmap) and bool(native.dtype.isnative)


def _torch_on_host(native: Any) -> bool:
    return bool(native.is_cpu and torch_layout().is_memory(native))


def _jax_on_host(native: Any) -> bool:
    return bool(jax_values().is_known(native))


ON_HOST: Final[dict[str, Callable[[Any], bool]]] = {
    "numpy": _numpy_on_host,
    "torch": _torch_on_host,
    "jax": _jax_on_host,
}


# ---------------------------------------------------------------------------- memory


def compiled(x: Given) -> None:
    """Tell whoever listens that a compiled kernel computes."""
    ran("numba", x.backend, place_of(x), "compiled kernels take it")


def place_of(x: Given) -> Device:
    """Return the device of an argument, the first of those that it is spread over."""
    return x.device or x.backend.devices()[0]


#: Makes memory that is used again when nothing refers to it, where corepy was compiled.
_recycled: Final = recycling(np.empty)
_LINE: Final = 64


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any], *, again: bool = True) -> Host:
    """Make an array that begins at a multiple of 64 bytes, with arbitrary values.

    Parameters
    ----------
    again : bool
        Whether its memory may be recycled.
    """
    new = _recycled if again else np.empty
    array: Host = new(shape, dtype)
    if not array.__array_interface__["data"][0] % _LINE:  # as all of the pool's does
        return array
    size = math.prod(shape) * dtype.itemsize
    memory = new(size + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Host:
    """Make an array of NumPy's for a result, with arbitrary values."""
    large = math.prod(shape) * dtype.itemsize >= _LARGE
    return aligned(shape, dtype) if large else np.empty(shape, dtype)


class _Writable:
    """Memory that kernels only read, shown as writable: they are compiled for that alone."""

    def __init__(self, array: Host) -> None:
        self.array = array  # which owns the memory
        interface = array.__array_interface__
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}


def _words(native: Any, library: str, dtype: str) -> Host:
    """Share the memory of a native array, 16-bit floats as the integers of their bits."""
    if library == "torch":
        torch = sys.modules["torch"]
        native = native.detach()
        if dtype in _WORDS:
            return np.asarray(native.view(torch.int16).numpy().view(np.uint16))
        return np.asarray(native.numpy())
    array = np.asarray(native)
    return array.view(np.uint16) if dtype in _WORDS else array


def view(x: Given) -> Host:
    """Return an argument as a C-contiguous array, sharing its memory if that is one."""
    array = _words(x.native, x.library, x.dtype)
    if not (array.flags.c_contiguous and array.flags.aligned):
        return np.array(array, order="C")
    return array if array.flags.writeable else np.asarray(_Writable(array))


Order = tuple[int, ...]


def dense_order(x: Given, *others: Given, out: Given | None = None) -> Order | None:
    """Return the order of axes in which arrays are C-contiguous that are so in none of their own.

    In it kernels that take each element by itself need no copies. None: it is that which they
    have, or there is none that all share. They are on the host, and `x` and the others plain.
    """
    native = x.native
    if x.library == "numpy":
        if native.flags.c_contiguous:
            return None
        steps = native.strides
    elif x.library == "torch":
        if native.is_contiguous():
            return None
        steps = native.stride()
    else:
        return None
    order = tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))
    if not all(_is_dense(_turned(g, order)) for g in (x, *others)):
        return None
    return order if out is None or lies_plain(out) else None


def _is_dense(native: Any) -> bool:
    flags = getattr(native, "flags", None)
    return bool(native.is_contiguous() if flags is None else flags.c_contiguous)


def _turned(x: Given, order: Order) -> Any:
    if x.library == "torch":
        return x.native.detach().permute(order)
    return x.native.transpose(order)


def turned(x: Given | None, order: Order | None) -> Any:
    """Return an argument with its axes in a `dense_order`, in the same memory."""
    if x is None or order is None:
        return x
    native = _turned(x, order)
    return replace(x, value=native, native=native, table=None, shape=tuple(native.shape))


def turned_back(found: Any, x: Given, out: Given | None, order: Order | None) -> Any:
    """Return what was computed of the `turned` arguments as the result of those themselves."""
    if order is None:
        return found
    if out is not None:
        return out.value
    axes = tuple(np.argsort(order).tolist())
    native = found.permute(axes) if x.library == "torch" else found.transpose(axes)
    return native if x.table is None else make(native, x.table)


def in_rows(x: Given, *, apart: bool) -> bool:
    """Say whether the elements of each row lie side by side.

    Parameters
    ----------
    apart : bool
        Whether there may be others between the rows.
    """
    array = _words(x.native, x.library, x.dtype)
    return bool(array.flags.c_contiguous or (apart and array.strides[-1] == array.itemsize))


def strided(x: Given, *, rows: bool) -> tuple[Host, tuple[int, ...]]:
    """Return an argument as a flat array, sharing its memory, and its strides in elements.

    Parameters
    ----------
    rows : bool
        Whether the elements along the last axis have to lie side by side.
    """
    array = _words(x.native, x.library, x.dtype)
    item, flags = array.itemsize, array.flags
    if flags.carray:  # as most are
        return array.reshape(-1), tuple([s // item for s in array.strides])
    fits = flags.aligned and all(s >= 0 and s % item == 0 for s in array.strides)
    if fits and rows and array.shape[-1] > 1:
        fits = array.strides[-1] == item
    if not fits:
        array = np.array(array, order="C")
    strides = tuple(s // item for s in array.strides)
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
    else:
        extent = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
        flat = np.lib.stride_tricks.as_strided(array, (extent if array.size else 0,), (item,))
    return (flat if flat.flags.writeable else np.asarray(_Writable(flat))), strides


def widened(x: Given | None, wide: str, size: int, absent: float) -> Host:
    """Return a small argument in the dtype that kernels compute in, or copies of a number."""
    if x is None:
        return fixed(np.full(size, absent, wide))
    array = _words(x.native, x.library, x.dtype)
    if x.dtype == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    elif x.dtype == "float16":
        array = array.view(np.float16)
    flags = array.flags
    if array.dtype != wide or not (flags.c_contiguous and flags.aligned):
        array = np.require(array, wide, ["C", "A"])
    return array if array.flags.writeable else np.asarray(_Writable(array))


_fixed: Final[WeakValueDictionary[int, Host]] = WeakValueDictionary()


def constant(array: Host) -> Host:
    """Let calls be repeated with an array that is the same for all of them."""
    _fixed[id(array)] = array
    return array


def fixed(array: Host) -> Host:
    """Let this call be repeated with an array that follows from shapes alone, and never changes."""
    return constant(array) if array.nbytes <= _KEPT and is_noting() else array


def is_fixed(array: Host) -> bool:
    """Say whether an array is `fixed` or `constant`."""
    return _fixed.get(id(array)) is array


_passing: Final[WeakValueDictionary[int, Host]] = WeakValueDictionary()


def passing(shape: int | tuple[int, ...], dtype: Any) -> Host:
    """Make an array in which loops of one call leave something to each other.

    Calls are repeated with others of their own.
    """
    array = np.empty(shape, dtype)
    if is_noting():
        _passing[id(array)] = array
    return array


def is_passing(array: Host) -> bool:
    """Say whether an array is `passing`."""
    return _passing.get(id(array)) is array


#: Comparisons that an answer about strided memory may take: enough for any two axes.
_EFFORT: Final = 1000


def refuse_overlap(*arrays: Given) -> None:
    """Refuse arrays of which a write to one would change another, as far as libraries tell.

    Those of JAX never change: an `Array` goes on to another one.

    Raises
    ------
    ValueError
        If two are so.
    """
    is_jax = arrays[0].library == "jax"
    places = [None if is_jax else _place(g.native, g.library) for g in arrays]
    for n, x in enumerate(arrays):
        for m, y in enumerate(arrays[:n]):
            if is_jax:
                is_one = x.value is y.value and x.table is not None
            else:
                is_one = x.native is y.native
            if is_one or meet(places[n], places[m]):
                raise in_common(y, x)


def meet(one: Host | None, other: Host | None) -> bool:
    """Say whether two arrays have memory in common, where both are known."""
    if one is None or other is None:
        return False
    effort: Any = _EFFORT  # before 2.5 NumPy's annotations know two of all
    return np.may_share_memory(one, other, max_work=effort)


def begin_in(arrays: tuple[Given, ...], memories: tuple[Given, ...]) -> bool:
    """Say whether one of some arrays begins in memory that corepy has made in their library.

    In that of NumPy, CuPy and torch; others' never changes, or tells nobody where it is.
    """
    library = arrays[0].library
    if library == "numpy":
        return any(np.may_share_memory(x.native, m.native) for x in arrays for m in memories)
    if library not in ("cupy", "torch"):
        return False
    start = torch_layout().address if library == "torch" else attrgetter("data.ptr")
    starts = [start(x.native) for x in arrays]
    spans = [(start(m.native), _bytes(m)) for m in memories]
    return any(begin and 0 <= at - begin < size for begin, size in spans for at in starts)


def _bytes(x: Given) -> int:
    """Return the bytes of an argument's elements; torch's `nbytes` refuses sizes that change."""
    return x.size * int(x.native.dtype.itemsize)


def _place(native: Any, library: str) -> Host | None:
    """Return an array that lies where one on the host does, None of what tells nobody."""
    if library == "numpy":
        return np.asarray(native)
    if library != "torch" or native.device.type != "cpu":
        return None
    address, size = torch_layout().address(native), native.element_size()
    return lying_at(address, tuple(native.shape), [s * size for s in native.stride()], size)


class _Somewhere:
    """Says where elements would be; nobody looks at them."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def lying_at(
    address: int, shape: tuple[int, ...], strides: Iterable[int], size: int
) -> Host | None:
    """Return an array at an address, to ask what it has in common with others and for no more.

    Parameters
    ----------
    strides : iterable of int
        In bytes.
    size : int
        Bytes of an element.
    """
    if not address or not math.prod(shape):
        return None
    told = {"data": (address, True), "shape": shape, "strides": tuple(strides)}
    return np.asarray(_Somewhere({**told, "typestr": f"|V{size}", "version": 3}))


def _is_apart(array: Host, inputs: tuple[Given, ...]) -> bool:
    """Say whether a kernel may write here: elsewhere than its operands, or just where they are."""
    for x in inputs:
        other = _words(x.native, x.library, x.dtype)
        same = other.ctypes.data == array.ctypes.data and other.flags.c_contiguous
        same = same and other.shape == array.shape and other.dtype == array.dtype
        if not same and np.may_share_memory(other, array):
            return False
    return True


class Result:
    """Memory for a result that is like an operand: new, or what the caller gave for it.

    That may be just where an operand is, unless it is one of those that are `read_again`. Without a
    `shape` it is that of the operand.
    """

    __slots__ = ("_native", "_out", "_x", "host")

    #: What the kernel fills.
    host: Host

    def __init__(
        self,
        x: Given,
        out: Given | None,
        *inputs: Given | None,
        read_again: tuple[Given | None, ...] = (),
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self._x, self._out = x, out
        compiled(x)
        if out is not None and ON_HOST[x.library](out.native):
            found = _words(out.native, out.library, out.dtype)
            fits = found.flags.c_contiguous and found.flags.aligned and found.flags.writeable
            once = tuple(g for g in (x, *inputs) if g is not None)
            again = tuple(_words(g.native, g.library, g.dtype) for g in read_again if g is not None)
            fits = fits and not any(np.may_share_memory(found, other) for other in again)
            if fits and _is_apart(found, once):
                self._native, self.host = None, found
                return
        self._native, self.host = insist(
            x.function, place_of(x), lambda: _new(x, x.shape if shape is None else shape)
        )

    def array(self) -> Any:
        """Return the filled memory as the caller's own kind of array."""
        x, out, native = self._x, self._out, self._native
        if native is None:
            assert out is not None
            if x.library == "torch":  # which has not seen it change
                sys.modules["torch"].autograd.graph.increment_version(out.native)
            return out.value
        if x.library == "jax":
            for owner in (native.base, native):  # it may be its own
                if owner is not None:
                    owner.flags.writeable = False
            native = x.backend.from_numpy(native, place_of(x))
        return delivered(native if x.table is None else make(native, x.table), out)


def _new(x: Given, shape: tuple[int, ...]) -> tuple[Any, Host]:
    """Make memory like an operand's: the native array, or what becomes it, and its view."""
    if x.library == "numpy":
        native: Any = new_array(shape, x.native.dtype)
    elif x.library == "jax":
        native = aligned(shape, x.native.dtype, again=False)  # JAX wants to own it
    else:
        torch = sys.modules["torch"]
        if math.prod(shape) * x.native.element_size() < _LARGE:
            native = torch.empty(shape, dtype=x.native.dtype, device="cpu")
        else:
            words = np.dtype("i2" if x.dtype in _WORDS else x.dtype)
            native = torch.from_numpy(aligned(shape, words)).view(x.native.dtype)
    return native, _words(native, x.library, x.dtype)


def delivered(result: Any, out: Given | None) -> Any:
    """Return a result, or put it where the caller wants it."""
    if out is None:
        return result
    # Into an array of the library only such a one goes; into an `Array` both kinds do.
    plain = out.table is None and isinstance(result, Operand)
    out.value[...] = result.unwrap() if plain else result
    return out.value


def placed(host: Host, x: Given, *others: Given | None) -> Any:
    """Return an array of the host as one of the library and on the device of an operand.

    JAX moves it to wherever it computes, if that is not known yet of this operand or of `others`.
    """
    place = place_of(x)
    if isinstance(x.backend, DeviceLibrary):
        return x.backend.like(host, x.native)
    if x.library == "jax" and any(_is_anywhere(g) for g in (x, *others) if g is not None):
        with jax_values().wide(True):
            native = sys.modules["jax"].numpy.array(host)  # on no device that it would insist on
    elif is_compiling(x):  # it traces NumPy's functions too, but no look at their memory
        native = sys.modules["torch"].from_numpy(host).to(x.native.device)
    else:
        native = x.backend.from_numpy(host, place)
    if x.table is None:
        return native
    return make(native, table_of(x.backend, place, getattr(array_api, host.dtype.name)))


def _is_anywhere(x: Given) -> bool:
    """Say whether an array of JAX is traced, or spread over several devices."""
    return x.device is None or is_traced(x)
