"""Where results of device kernels are put, and who is told of it."""

from __future__ import annotations

from typing import Any

from corepy import array_api
from corepy.dispatch import make, ran, table_of
from corepy.kernels._arguments import Given, in_common
from corepy.kernels._device._copying import copy
from corepy.kernels._device._runtime import Memory, empty, share_bytes, target_of
from corepy.kernels._memory import delivered, meet, place_of


class Result:
    """Memory for a result that is like an operand: new, or what the caller gave for it.

    That may be just where an operand is, unless it is one of those that are `read_again`.

    Parameters
    ----------
    x : Given
    out : Given or None
    *inputs : Given or None
        The other operands.
    shape, dtype
        Where they are not those of `x`.
    """

    __slots__ = ("_native", "_out", "_x", "memory")

    #: What the kernel fills.
    memory: Memory

    def __init__(
        self,
        x: Given,
        out: Given | None,
        *inputs: Given | None,
        read_again: tuple[Given | None, ...] = (),
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
    ) -> None:
        target = target_of(x)
        self._x, self._out = x, out
        ran(target.name, x.backend, place_of(x), "device kernels take it")
        if out is not None and target.writes:
            found = target.memory(out)
            once = [target.memory(g) for g in (x, *inputs) if g is not None]
            again = [target.memory(g) for g in read_again if g is not None]
            fits = found.is_contiguous and not any(found.overlaps(m) for m in again)
            if fits and all(found.is_same(m) or not found.overlaps(m) for m in once):
                found.written = True
                self._native, self.memory = None, found
                return
        self._native, made = empty(x, x.shape if shape is None else shape, dtype or x.dtype)
        made.written = True
        self.memory = made

    def array(self) -> Any:
        """Return the filled memory as the caller's own kind of array."""
        x, out, native = self._x, self._out, self._native
        if out is None:
            return _wrapped(x, native, self.memory.dtype)
        # Memory that elements of an `Array` share, others may have too: it goes on to its own then,
        # as with every write.
        spread = out.table is not None and native is not None
        if not target_of(x).writes or (spread and not out.backend.is_writable(out.native)):
            return delivered(_wrapped(x, native, self.memory.dtype), out)
        if native is not None:
            copy(x, self.memory, target_of(x).memory(out))
        tell_changed(out)
        return out.value


def apart(*arrays: Given) -> list[Memory] | None:
    """Return the memory of arrays that kernels change where they are, of each looked at once.

    None where one is not side by side or two may have memory in common: then `Result` tells which
    may change there. Whoever changes one of them ends with `tell_changed`.
    """
    target, x = target_of(arrays[0]), arrays[0]
    found = [target.memory(array) for array in arrays]
    if not all(memory.is_contiguous for memory in found):
        return None
    extents = [memory.extent() for memory in found]
    for n, extent in enumerate(extents):
        if any(share_bytes(extent, other) for other in extents[n + 1 :]):
            return None
    ran(target.name, x.backend, place_of(x), "device kernels take it")
    return found


def refuse_overlap_on_device(*arrays: Given) -> None:
    """Refuse arrays that have memory in common.

    Raises
    ------
    ValueError
        If two have.
    """
    target = target_of(arrays[0])
    if not target.writes:  # their library puts results there
        return
    found = [target.memory(array) for array in arrays]
    for n, one in enumerate(found):
        for m, other in enumerate(found[:n]):
            if one.overlaps(other) and meet(one.place(), other.place()):
                raise in_common(arrays[m], arrays[n])


def tell_changed(x: Given) -> None:
    """Tell the library of an array that a kernel has written to it."""
    if x.library == "torch":  # whose graphs count changes
        import torch

        torch.autograd.graph.increment_version(x.native)


def _wrapped(x: Given, native: Any, dtype: str) -> Any:
    """Return an array like the caller's: of its library, or of corepy."""
    if x.table is None:
        return native
    table = x.table
    if dtype != x.dtype:
        table = table_of(x.backend, place_of(x), getattr(array_api, dtype))
    return make(native, table)
