"""The adapter: which tensors torch has, where, and how they come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import array_api_compat.torch as compat
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from corepy import _dtypes
from corepy._dtypes import DTYPES, DType, Scalar
from corepy._errors import BackendError, foreign_dtype
from corepy.backends._base import Allocator, Backend, Capabilities, native_function
from corepy.backends._kinds import PERHAPS_LACKING, dtypes_on, left_out
from corepy.backends._streams import Streams
from corepy.backends.torch import _devices, _memory, _mps
from corepy.backends.torch._layout import Layout, innermost, lends
from corepy.backends.torch._linalg import in_own_dtype
from corepy.backends.torch._streams import streams_of
from corepy.backends.torch._tables import FIXES, LEFT_OUT, MOVES, SCALARS_FIRST, SCALARS_SECOND
from corepy.devices._device import CPU, Device
from corepy.devices._pool import MemoryStats
from corepy.devices._probe import MemoryInfo

if TYPE_CHECKING:
    import numpy as np


class TorchBackend(Backend):
    """torch on ``cpu``, and on every ``cuda``, ``rocm``, ``mps`` and ``xpu`` device it reports."""

    name = "torch"
    repeats = True

    def is_available(self) -> bool:
        return True

    def devices(self) -> tuple[Device, ...]:
        return _devices.present()

    def threads(self) -> int | None:
        return int(torch.get_num_threads())

    def limit_threads(self, count: int) -> str | None:
        torch.set_num_threads(count)
        return None

    def unserved(self) -> tuple[str, ...]:
        return _devices.unserved()

    def capabilities(self, device: Device) -> Capabilities:
        if device.kind == "mps":
            return _ON_MPS
        if device.kind == "xpu":
            return _ON_XPU if _devices.has_float64(device) else _IN_SINGLE
        return _EVERYWHERE

    def operation(self, name: str) -> Callable[..., Any] | None:
        return FIXES.get(name) or native_function(compat, name)

    def operation_on(self, name: str, device: Device) -> Callable[..., Any] | None:
        function = self.operation(name)
        if function is None or device.kind != "mps":
            return function
        return _mps.fitted(name, function)

    def supports(self, name: str, dtype: DType, device: Device) -> bool:
        if dtype not in self.capabilities(device).dtypes:
            return False
        if dtype in left_out("torch", device.kind).get(name, ()):
            return False
        if dtype in _WIDE_UNSIGNED:
            return name in MOVES
        return dtype not in LEFT_OUT.get(name, ()) and self.operation(name) is not None

    # ------------------------------------------------------------------ its native arrays

    def owns(self, obj: object) -> bool:
        return isinstance(obj, Tensor)

    def dtype_of(self, native: Tensor) -> DType:
        dtype = _BY_NATIVE.get(native.dtype)
        if dtype is None:
            raise foreign_dtype(self.name, native.dtype)
        if native.layout is not torch.strided:
            raise TypeError(f"its layout is {native.layout}; expected a dense tensor")
        if native.is_nested:
            raise TypeError("it is nested; expected a dense tensor")
        return dtype

    def native_dtype(self, dtype: DType) -> torch.dtype:
        return _NATIVE[dtype]

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Tensor:
        return torch.scalar_tensor(value, dtype=_NATIVE[dtype], device=_devices.place_of(device))

    def item(self, native: Tensor) -> Scalar:
        value: Scalar = native.item()
        return value

    def to_numpy(self, native: Tensor, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if native.requires_grad:
            raise BackendError(
                "torch: the tensor requires grad, which NumPy does not have; expected one that "
                "does not: detach it with x.unwrap().detach()"
            )
        lies_plain = native.is_cpu and not (native.is_conj() or native.is_neg())
        plain = native if lies_plain else native.resolve_conj().resolve_neg().cpu()
        if copy is False and plain is not native:
            raise ValueError(
                f"to_numpy: the tensor is on {native.device} or lazily conjugated; expected one "
                f"that shares its memory with the host for copy=False"
            )
        values: np.ndarray[Any, Any] = plain.numpy()
        return values.copy() if copy and plain is native else values

    def peek(self, native: Tensor) -> np.ndarray[Any, Any]:
        return self.to_numpy(native.detach())

    def outline(self, native: Tensor) -> str | None:
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor(native)
        return str(native) if wrapped or isinstance(native, FakeTensor) else None

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> Tensor:
        refusal = None if copy else _refusal(array)
        if copy is False and (refusal is not None or device is not CPU):
            raise ValueError(refusal or f"{device} has no memory of the host's")
        if copy or refusal is not None:
            array = array.astype(array.dtype.newbyteorder("="), order="C")
        made = torch.from_numpy(array)
        return made if device is CPU else made.to(_devices.place_of(device))

    def exporter(self, native: Tensor) -> Any:
        if isinstance(native, FakeTensor):  # exports an address where nothing is
            return None
        return _Exporter(native) if native.is_cuda else super().exporter(native)

    def import_(self, exporter: Any, device: Device) -> tuple[Tensor, bool]:
        made = torch.from_dlpack(exporter)
        if _is_placed(made):
            return made, False
        if not made.is_contiguous():
            raise BufferError("torch reads elements only at multiples of their size")
        return made.clone(), True  # as bytes

    def borrow(self, exporter: Any, device: Device) -> Tensor:
        made = torch.from_dlpack(exporter.__dlpack__(stream=-1))
        if not _is_placed(made):
            raise BufferError("torch reads elements only at multiples of their size")
        return made

    def shares_memory(self, native: Tensor, array: np.ndarray[Any, Any]) -> bool:
        if native.device.type != "cpu" or native.is_conj() or native.is_neg():
            return False
        import numpy as np

        if native.numel() == 0:
            return True
        # Within torch.func what is made of a tensor, its array too, stands for another one.
        native = innermost(native)
        last = sum((n - 1) * step for n, step in zip(native.shape, native.stride(), strict=True))
        start = native.data_ptr()
        low, high = np.lib.array_utils.byte_bounds(array)
        stop = start + (last + 1) * native.element_size()
        return bool(low < stop and start < high)

    def shape_of(self, native: Tensor) -> tuple[int, ...]:
        shape = tuple(native.shape)
        if shape and isinstance(shape[0], Tensor):  # as of what is traced: no two are the same
            return tuple(map(int, shape))
        return shape

    def device_of(self, native: Tensor) -> Device:
        return _devices.device_of(native.device)

    def normalize(self, native: Tensor) -> Tensor:
        # Lazy conjugation and negation are torch's own affair: no other library could read them.
        return native.resolve_conj().resolve_neg()

    def adopts_by_copy(self, native: Tensor) -> str | None:
        if native.is_conj() or native.is_neg():
            return "is lazily conjugated or negated; expected one that is not"
        return None

    def is_writable(self, native: Tensor) -> bool:
        pairs = zip(native.stride(), native.shape, strict=True)
        if native.numel() and any(step == 0 and n > 1 for step, n in pairs):
            return False  # expanded: elements share their memory
        if native.is_inference() and not torch.is_inference_mode_enabled():
            return False  # torch has promised that it no longer changes
        if not native.requires_grad or not torch.is_grad_enabled():
            return True
        # While a graph is recorded its leaf keeps its values; a copy of it may change, and passes
        # gradients.
        return not (native if native._base is None else native._base).is_leaf

    def counting(self) -> tuple[type, Callable[[Tensor], int]]:
        return Tensor, Tensor.numel

    def layout(self, native: Tensor) -> Layout:
        return Layout(native)

    def lends(self, native: Tensor) -> bool:
        return lends(native)

    # ------------------------------------------------------------------ precision

    def autocast(self, operation: str, dtype: str) -> Callable[..., Any] | None:
        return _low_matmul(dtype) if operation == "matmul" else None

    def rounded(self, native: Tensor, dtype: str) -> Tensor:
        return native.to(getattr(torch, dtype)).to(torch.float32)

    def allow_tf32(self, allowed: bool) -> str | None:
        # Convolutions, for which cuDNN takes it unless told, are told with each call.
        torch.backends.cuda.matmul.allow_tf32 = allowed
        return None

    def synchronize(self, device: Device) -> None:
        if device is not CPU:
            place = _devices.place_of(device)
            library = getattr(torch, place.type)
            library.synchronize() if place.index is None else library.synchronize(place)

    # ------------------------------------------------------------------ memory and streams

    def is_out_of_memory(self, error: BaseException) -> bool:
        return _memory.lacks(error)

    def empty_cache(self, device: Device) -> int:
        return _memory.empty_cache(device)

    def memory_stats(self, device: Device) -> MemoryStats | None:
        return _memory.stats(device)

    def memory_info(self, device: Device) -> MemoryInfo | None:
        return _memory.information(device)

    def hardware(self, device: Device) -> str | None:
        return _memory.hardware(device)

    def limit_memory(self, device: Device, limit: int | None) -> str | None:
        return _memory.limit(device, limit)

    def lend_allocator(self) -> Allocator | None:
        return _memory.allocator()

    def streams(self, device: Device) -> Streams | None:
        return streams_of(device)


class _Exporter:
    """A tensor of CUDA or ROCm as DLPack knows it, also where torch refuses to export it."""

    def __init__(self, native: Tensor) -> None:
        self.native = native

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # By which CuPy borrows in a part of DLPack's time (`Backend.borrow`).
        told: dict[str, Any] = self.native.__cuda_array_interface__
        return told

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.native.__dlpack_device__()
        return int(kind), number

    def __dlpack__(self, *, stream: Any = None, **params: Any) -> Any:
        # torch exports what is on its current device alone, and lets no stream wait that each
        # thread has for itself (Tensor.__dlpack__).
        with torch.cuda.device(self.native.device):
            if stream == _PER_THREAD and torch.version.hip is None:
                torch.cuda.current_stream().synchronize()
                stream = -1
            return self.native.__dlpack__(stream=stream, **params)


#: ``cudaStreamPerThread``, as https://data-apis.org/array-api/2025.12/ has it in ``__dlpack__``.
_PER_THREAD: Final = 2

_NATIVE: Final[dict[DType, torch.dtype]] = {d: getattr(torch, d.name) for d in DTYPES.values()}
_BY_NATIVE: Final[dict[torch.dtype, DType]] = {native: d for d, native in _NATIVE.items()}

_WIDE_UNSIGNED: Final = frozenset({_dtypes.uint16, _dtypes.uint32, _dtypes.uint64})
_EVERYWHERE: Final = Capabilities(
    max_dimensions=64, scalars_first=SCALARS_FIRST, scalars_second=SCALARS_SECOND
)
_ON_XPU: Final = Capabilities(max_dimensions=64)
_IN_SINGLE: Final = Capabilities(
    dtypes=_dtypes.ANY - PERHAPS_LACKING["torch", "xpu"], max_dimensions=64
)
#: MPSGraph has tensors of up to 16 dimensions.
_ON_MPS: Final = Capabilities(dtypes=dtypes_on("torch", "mps"), max_dimensions=16)


def _is_placed(native: Tensor) -> bool:
    """Say whether a tensor of an accelerator lies at a multiple of its elements' size.

    Elsewhere CUDA's kernels fail, and with them all that is asked of the device later.
    """
    return bool(innermost(native).data_ptr() % native.element_size() == 0)


def _refusal(array: np.ndarray[Any, Any]) -> str | None:
    """Say why torch does not take an array's memory, or may not; None where it does.

    torch has no read-only memory: its view would write where nobody may. It has no negative
    strides either (https://github.com/pytorch/pytorch/issues/59786). A complex128 it moves by
    instructions that end the process where its address is no multiple of 16, while NumPy calls one
    of 8 aligned; all else may begin anywhere.
    """
    if not array.flags.writeable:
        return "torch has no read-only memory"
    if not array.dtype.isnative:
        return "torch has no other byte order than the machine's"
    size = array.itemsize
    for step in array.strides:
        if step < 0:
            return "torch has no negative strides"
        if step % size:
            return "torch has no strides but multiples of the elements' size"
    if size == _WIDEST and array.__array_interface__["data"][0] % _WIDEST:
        return f"torch has complex128 at multiples of {_WIDEST} bytes alone"
    return None


#: The bytes of a complex128.
_WIDEST: Final = 16


def _low_matmul(dtype: str) -> Callable[..., Tensor]:
    """Return a product of operands rounded to 16 bits with float32 sums."""
    low = getattr(torch, dtype)

    @in_own_dtype
    def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
        a, b = x1.to(low), x2.to(low)
        # Only on CUDA a product of 16-bit matrices can give its sums unrounded; it has no gradient.
        if x1.is_cuda and _GIVES_SUMS and not (a.requires_grad or b.requires_grad):
            made = _sums(a, b)
            if made is not None:
                return made
        product = _ON_METAL if x1.device.type == "mps" else torch.matmul
        return product(a.to(torch.float32), b.to(torch.float32))

    return matmul


def _sums(a: Tensor, b: Tensor) -> Tensor | None:
    """Return the float32 sums of a product of 16-bit matrices; None for shapes of other kinds."""
    if a.ndim >= 2 and b.ndim == 2:
        rows = torch.mm(a.flatten(0, -2), b, out_dtype=torch.float32)
        return rows.reshape(*a.shape[:-1], b.shape[-1])
    if a.ndim > 2 and a.shape[:-2] == b.shape[:-2]:
        made = torch.bmm(a.flatten(0, -3), b.flatten(0, -3), out_dtype=torch.float32)
        return made.reshape(*a.shape[:-1], b.shape[-1])
    return None


_GIVES_SUMS: Final = torch.version.hip is None
_ON_METAL: Final = _mps.fitted("matmul", torch.matmul)
