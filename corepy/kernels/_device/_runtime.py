"""Launching device kernels: what a kernel, its build and its arguments are, whatever the target.

A family of kernels keeps its source in a C file, in the dialect of ``portability.h``, and declares
it once as a `Program`. `launch` runs one of its kernels on the device of an argument: by OpenCL for
arrays of pyopencl and tinygrad's tensors, by CuPy for its own arrays and for torch's tensors on
CUDA and ROCm. What is compiled is kept on disk by these libraries and their drivers, by source,
options and toolchain.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from corepy._errors import BackendError, CorepyError
from corepy._extensions import is_there
from corepy._signals import let_through
from corepy._sources import source
from corepy.devices._device import CPU
from corepy.devices._shortage import insist
from corepy.kernels._arguments import Given, is_compiling
from corepy.kernels._memory import lying_at

#: Bytes of an element in memory, by the name of its dtype.
ITEM_SIZE: Final = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float16": 2,
    "bfloat16": 2,
    "uint16": 2,
    "int16": 2,
    "float32": 4,
    "uint32": 4,
    "int32": 4,
    "float64": 8,
    "int64": 8,
    "uint64": 8,
}
#: Bytes that a work-item moves at a time where memory is aligned to as many.
VECTOR_BYTES: Final = 16

_HEADER: Final = Path(__file__).with_name("portability.h")
#: Sums of products in tiles, for programs that name it among their headers.
TILES: Final = Path(__file__).with_name("tiles.h")


class Program:
    """A C file of kernels.

    Parameters
    ----------
    beside : str
        A file in its folder, as ``__file__``.
    name : str
        That of the C file.
    constants : dict
        Macros with which it is always built, such as coefficients.
    headers : sequence of str or Path
        Files that come before it, as what several C files share: names are those of its folder.
    """

    def __init__(
        self,
        beside: str,
        name: str = "device.c",
        constants: dict[str, object] | None = None,
        headers: Sequence[str | Path] = (),
    ) -> None:
        self.path = Path(beside).with_name(name)
        self.constants = constants or {}
        self._files = [_HEADER, *(self.path.parent / header for header in headers), self.path]

    def text(self, block: tuple[int, ...], defines: tuple[tuple[str, object], ...]) -> str:
        """Return what compilers get: the macros, the header, and the kernels."""
        sizes = zip(("BLOCK_X", "BLOCK_Y", "BLOCK_Z"), block, strict=True)
        macros = [*self.constants.items(), *defines, *sizes]
        lines = [f"#define {name} {value}" for name, value in macros]
        return "\n".join([*lines, self._source])

    @cached_property
    def _source(self) -> str:
        parts = (f'#line 1 "{path.name}"\n' + source(path).decode() for path in self._files)
        return "\n".join(parts)


#: Which memory, the first byte in it, and the first beyond.
Extent: TypeAlias = tuple[Any, int, int]


def share_bytes(one: Extent, other: Extent) -> bool:
    """Say whether two extents have bytes in common."""
    (space, low, high), (other_space, other_low, other_high) = one, other
    return space == other_space and low < other_high and other_low < high


@dataclass(slots=True, eq=False)
class Memory:
    """An array as kernels see it. Whoever made it alone may change it.

    Attributes
    ----------
    dtype : str
    shape, strides : tuple of int
        Strides in elements.
    base : object
        What the target takes for a pointer: a buffer, or an address.
    start : int
        Where in it the first element is, in elements.
    address : tuple
        Which memory it is part of, and at which of its bytes it begins; to tell what overlaps.
    owner : object
        The native array, which keeps it alive.
    written : bool
        Whether kernels write to it.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    base: Any
    start: int
    address: tuple[Any, int]
    owner: Any
    written: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether elements lie side by side in the order of C."""
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides)):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True

    def is_aligned(self) -> bool:
        """Whether it begins at a multiple of `VECTOR_BYTES`."""
        return self.address[1] % VECTOR_BYTES == 0

    def to_write(self) -> Memory:
        """Return the same as an argument that a kernel writes to."""
        place = self.base, self.start, self.address, self.owner
        return Memory(self.dtype, self.shape, self.strides, *place, written=True)

    def overlaps(self, other: Memory) -> bool:
        """Say whether two arrays may have memory in common; those with gaps need not."""
        return share_bytes(self.extent(), other.extent())

    def place(self) -> Any:
        """Return an array that lies as this one does in what it is part of, for `meet`."""
        size = ITEM_SIZE[self.dtype]
        _, first = self.address
        # No array begins at zero, where some buffers' first elements are.
        return lying_at(VECTOR_BYTES + first, self.shape, [s * size for s in self.strides], size)

    def is_same(self, other: Memory) -> bool:
        """Say whether two arrays are the same elements."""
        layout = (self.address, self.dtype, self.shape)
        same = layout == (other.address, other.dtype, other.shape)
        return same and self.is_contiguous and other.is_contiguous

    def extent(self) -> Extent:
        """Return which memory it is part of, and between which of its bytes it lies."""
        size = ITEM_SIZE[self.dtype]
        space, first = self.address
        if not self.size:
            return space, first, first
        ends = [(n - 1) * s * size for n, s in zip(self.shape, self.strides, strict=True)]
        low = first + sum(end for end in ends if end < 0)
        return space, low, first + sum(end for end in ends if end > 0) + size


#: By the bytes of an element, the dtype as which kernels move it that only copy.
WORDS: Final = {1: "uint8", 2: "uint16", 4: "uint32", 8: "int64"}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of a name; of bfloat16 that of the package ``ml_dtypes``."""
    if name == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(name)


#: A kernel's argument: an array or none, a NumPy scalar, or several arguments together.
Argument: TypeAlias = "Memory | np.generic | tuple[Argument, ...] | None"


def reals(x: Given, *numbers: float) -> tuple[Any, ...]:
    """Return numbers `within` the dtype that an argument is computed in as such of that dtype."""
    return tuple(map(np.dtype(x.wide).type, numbers))


class Target(ABC):
    """A library that compiles and launches kernels."""

    #: Who ran, as `corepy.explain` shows it.
    name: str
    #: Whether kernels may write to what callers gave, which no other array has part in unasked.
    writes: bool = True

    @abstractmethod
    def takes(self, x: Given) -> bool:
        """Say whether kernels take an argument.

        Raises
        ------
        TypeError, ValueError
            If they do not, and the library has no functions that could compute instead.
        """

    @abstractmethod
    def memory(self, x: Given) -> Memory:
        """Look at an argument, which is shared and not copied."""

    @abstractmethod
    def empty(self, x: Given, shape: tuple[int, ...], dtype: str) -> tuple[Any, Memory]:
        """Make an array of the library of `x`, on its device and queue, with arbitrary values."""

    @abstractmethod
    def units(self, x: Given) -> int:
        """Return how many work-groups the device of `x` runs side by side, at least."""

    def has_tensor_cores(self, x: Given) -> bool:
        """Say whether the device of `x` has what PTX's mma and cp.async need."""
        return False

    @abstractmethod
    def run(
        self,
        x: Given,
        program: Program,
        name: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: Sequence[Any],
        memories: Sequence[Memory],
        defines: tuple[tuple[str, object], ...],
        shared: int,
    ) -> None:
        """Launch a kernel after those that were launched before on the queue of `x`.

        `arguments` are what the library passes on as they are, `memories` the arrays among them.
        """


def launch(
    x: Given,
    program: Program,
    name: str,
    *,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Argument],
    shared: int = 0,
    **defines: object,
) -> None:
    """Run a kernel where an argument lives.

    Parameters
    ----------
    x : Given
        Whose device and queue (or stream) it is.
    program : Program
    name : str
        The kernel's, in the program.
    grid, block : sequence of up to 3 int
        Numbers of work-groups, and of work-items in each of them. Beyond the first, 65535 at most.
    arguments : sequence
        A `Memory` or None for each ``IN`` and ``OUT``; NumPy scalars of the parameters' own types
        (``np.int64`` for ``i64``); what `rows` returns for ``ROWS``.
    shared : int
        Bytes of ``SHARED_DYNAMIC`` memory.
    **defines
        Macros that it is built with, each form once. ``WIDE`` is that of `x` unless it is given.

    Raises
    ------
    BackendError
        If it cannot be built or launched; nothing has been written then.
    """
    if 0 in grid:
        return  # nothing to compute
    flat: list[Any] = []
    memories: list[Memory] = []
    _flatten(arguments, flat, memories)
    build = (("WIDE", x.wide), *defines.items()) if "WIDE" not in defines else (*defines.items(),)
    grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    try:
        target_of(x).run(x, program, name, grid, block, flat, memories, build, shared)
    except (CorepyError, TypeError, ValueError):
        raise
    except Exception as error:  # of the compiler, or of the driver
        let_through(error)
        told = " ".join(str(error).split())
        raise BackendError(
            f"{x.function}: the device kernel {name} could not be built or launched on {x.device}; "
            f"the operands are untouched ({type(error).__name__}: {told})"
        ) from error


#: Where a first element is, mostly: making such a number takes as long as all else of an argument.
_START: Final = np.int64(0)


def _flatten(arguments: Sequence[Argument], into: list[Any], memories: list[Memory]) -> None:
    for argument in arguments:
        kind = argument.__class__
        if isinstance(argument, Memory):
            into += (argument.base, np.int64(argument.start) if argument.start else _START)
            memories.append(argument)
        elif argument is None:
            into += (None, _START)
        elif kind is tuple:
            _flatten(argument, into, memories)  # type: ignore[arg-type]
        else:
            into.append(argument)


# ---------------------------------------------------------------------------- whose kernels


def target_of(x: Given) -> Target:
    """Return who launches kernels where an argument lives, which `on_device` has looked at."""
    target = _target(x)
    if target is None:
        raise RuntimeError(f"{x.function}: {x.argument} is not in a device's memory")
    return target


def _target(x: Given) -> Target | None:
    library = x.library
    if library == "cupy":
        return _cupy()
    if library == "torch":
        return _cupy() if x.device is not None and x.device.kind in ("cuda", "rocm") else None
    if library == "pyopencl":
        return _opencl()
    if library == "tinygrad":
        return _tinygrad() if x.device is not None and x.device.kind == "opencl" else None
    return None


def empty(x: Given, shape: tuple[int, ...], dtype: str) -> tuple[Any, Memory]:
    """Return a new array beside an argument and its memory; with caches freed if that takes it.

    Raises
    ------
    InsufficientMemoryError
        If the device has too little.
    """
    target = target_of(x)
    return insist(x.function, x.device or CPU, lambda: target.empty(x, shape, dtype))


def on_device(x: Given, *others: Given | None, in_place: bool = False) -> bool:
    """Say whether device kernels take some arguments, which live where `x` does.

    With `in_place` they write to them.

    Raises
    ------
    TypeError, ValueError
        If they do not take them, and nothing else could compute.
    """
    if is_compiling(x):
        return False
    target = _target(x)
    if target is None or (in_place and not target.writes):
        return False
    return all(target.takes(g) for g in (x, *others) if g is not None)


@cache
def _opencl() -> Target:
    from corepy.kernels._device._opencl import OpenCL

    return OpenCL()


@cache
def _tinygrad() -> Target | None:
    if not is_there("pyopencl"):
        return None  # tinygrad's own functions compute
    try:
        from corepy.kernels._device._tinygrad import Tinygrad
    except Exception as error:  # without a loader of drivers, perhaps
        let_through(error)
        _warn_of("tinygrad", "pyopencl", error)
        return None
    return Tinygrad()


@cache
def _cupy() -> Target | None:
    if not is_there("cupy"):
        return None  # torch's own functions compute
    try:
        from corepy.kernels._device._cupy import CuPy
    except Exception as error:  # made for another CUDA, perhaps
        let_through(error)
        _warn_of("torch", "CuPy", error)
        return None
    return CuPy()


def _warn_of(home: str, library: str, error: Exception) -> None:
    told = (
        f"{home}'s functions compute in place of device kernels, for {library} is broken: {error}"
    )
    warnings.warn(told, RuntimeWarning, stacklevel=3)


# ---------------------------------------------------------------------------- operands


def memory(x: Given) -> Memory:
    """Return an argument's elements side by side: its own memory, or a copy."""
    found = target_of(x).memory(x)
    return found if found.is_contiguous else copied(x, found)


def rows(x: Given) -> tuple[Memory, Rows]:
    """Return an argument's memory and the rows along its last axis, as ``ROWS`` takes them.

    Its own memory where elements of a row lie side by side and rows at up to three strides, as
    those of most views do; else a copy.
    """
    found = target_of(x).memory(x)
    if found.shape[-1] > 1 and found.strides[-1] != 1:
        found = copied(x, found)
    return _placed(x, found, 1)


def broadcast(x: Given, shape: tuple[int, ...]) -> Memory:
    """Return an argument's elements side by side in a shape that it broadcasts to."""
    found = _broadcast(x, shape)
    return found if found.is_contiguous else copied(x, found)


def broadcast_rows(
    x: Given, shape: tuple[int, ...], *, elements: bool = False
) -> tuple[Memory, Rows]:
    """Return an argument's memory and the rows that it has when broadcast to a shape.

    The elements of a row lie at the last of the strides, which may be 0; with `elements` each row
    is one element.
    """
    return _placed(x, _broadcast(x, shape), 0 if elements else 1)


def _broadcast(x: Given, shape: tuple[int, ...]) -> Memory:
    found = target_of(x).memory(x)
    own = zip(found.shape, found.strides, strict=True)
    strides = tuple(0 if n == 1 else stride for n, stride in own)
    return replace(found, shape=shape, strides=(0,) * (len(shape) - len(strides)) + strides)


#: The numbers of rows at the second and third stride, and the strides of three.
Rows: TypeAlias = tuple[np.int64, np.int64, np.int64, np.int64, np.int64]


def _placed(x: Given, found: Memory, inner: int) -> tuple[Memory, Rows]:
    outer = len(found.shape) - inner
    axes = coalesced(found.shape[:outer], found.strides[:outer])
    if len(axes) > 3:
        found = copied(x, found)
        axes = coalesced(found.shape[:outer], found.strides[:outer])
    (_, s0), (n1, s1), (n2, s2) = axes + [(1, 0)] * (3 - len(axes))
    return found, _numbers(n1, n2, s0, s1, s2)


@lru_cache(maxsize=1024)
def _numbers(n1: int, n2: int, s0: int, s1: int, s2: int) -> Rows:
    return np.int64(n1), np.int64(n2), np.int64(s0), np.int64(s1), np.int64(s2)


def coalesced(shape: Sequence[int], *strides: Sequence[int]) -> list[tuple[int, ...]]:
    """Join neighbouring axes that are as one in all layouts: (size, stride, ...) of each."""
    axes: list[tuple[int, ...]] = []
    for axis in zip(shape, *strides, strict=True):
        n, *steps = axis
        if n == 1:
            continue
        if axes and all(outer == n * step for outer, step in zip(axes[-1][1:], steps, strict=True)):
            axes[-1] = (axes[-1][0] * n, *steps)
        else:
            axes.append(axis)
    return axes


def copied(x: Given, source: Memory) -> Memory:
    """Return elements side by side in new memory, where `x` lives."""
    from corepy.kernels._device._copying import copy

    _, made = empty(x, source.shape, source.dtype)
    copy(x, source, made)
    return made
