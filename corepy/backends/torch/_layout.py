"""How tensors lie in memory, in NumPy's words, and which of them another library may read."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, compiler, strided
from torch._C import _functorch, _is_tracing, _len_torch_dispatch_stack, _len_torch_function_stack
from torch._C._functorch import is_functorch_wrapped_tensor, maybe_current_level
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils._device import DeviceContext

from corepy.backends._streams import ALIGNMENT


class Layout:
    """What `corepy.backends._base.Backend.layout` promises of a tensor."""

    __slots__ = ("dtype", "ndim", "shape", "size", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.dtype = tensor.dtype
        self.shape = tuple(tensor.shape)
        self.ndim = len(self.shape)
        self.size = tensor.numel()

    @property
    def flags(self) -> Layout:
        return self

    @property
    def c_contiguous(self) -> bool:
        return bool(self.tensor.is_contiguous())

    @property
    def forc(self) -> bool:
        tensor = self.tensor
        return self.c_contiguous or bool(tensor.permute(*range(self.ndim)[::-1]).is_contiguous())


def packed(tensor: Tensor) -> Tensor:
    """Return a tensor, in contiguous memory if on Apple's GPU: `_mps` tells why."""
    return tensor.contiguous() if tensor.is_mps else tensor


def is_plain(tensor: Tensor) -> bool:
    """Say whether a tensor is no more than its values, and nobody listens to what is done to it.

    Subclasses, gradients of both modes, transforms of functions, the tracers and the modes that see
    every operation do.
    """
    return is_memory(tensor) and tensor.__class__ is Tensor and not tensor.requires_grad


def is_memory(tensor: Tensor) -> bool:
    """As `is_plain`, of parameters too, and of leaves while no gradient is recorded."""
    if is_heard():
        return False
    kind = tensor.__class__
    if (kind is not Tensor and kind is not Parameter) or tensor.layout is not strided:
        return False
    if (tensor.requires_grad and torch.is_grad_enabled()) or tensor.is_conj() or tensor.is_neg():
        return False
    return not (is_transformed() or is_functorch_wrapped_tensor(tensor))


def is_heard() -> bool:
    """Say whether a tracer or a mode sees what is done to tensors, and may do something else."""
    if compiler.is_compiling():  # first: what follows, it cannot trace
        return True
    if _is_tracing() or _len_torch_dispatch_stack():
        return True
    if not _len_torch_function_stack():
        return False
    modes = torch.overrides._get_current_function_mode_stack()
    return any(mode.__class__ is not DeviceContext for mode in modes)  # which changes factories


def is_transformed() -> bool:
    """Say whether forward gradients are recorded, or a function of `torch.func` transforms one.

    Inside of one results stand for others, even of tensors that do not.
    """
    return forward_ad._current_level >= 0 or maybe_current_level() is not None


def is_elsewhere(tensor: Tensor) -> bool:
    """Say whether a class of tensors keeps values in other ones, or nowhere, as of a fake one."""
    return type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__


def shows(tensor: Tensor) -> bool:
    """Say whether a tensor's values can be looked at: none while a graph is traced."""
    return not (is_heard() or is_batched(tensor) or is_elsewhere(tensor) or tensor.is_meta)


def address(tensor: Tensor) -> int:
    """Return where a tensor's memory begins, 0 where it has none of its own."""
    if compiler.is_compiling() or (tensor.__class__ is not Tensor and is_elsewhere(tensor)):
        return 0
    try:
        start: int = tensor.data_ptr()
    except RuntimeError:
        return 0
    return start


def is_batched(tensor: Tensor) -> bool:
    """Say whether a tensor stands for many inside `torch.func.vmap`, whose values nobody sees."""
    if compiler.is_compiling():  # which has a way of its own, and cannot trace this
        return False
    return any(map(_functorch.is_batchedtensor, _layers(tensor)))


def innermost(tensor: Tensor) -> Tensor:
    """Return the tensor that has the memory, of one that `torch.func` has wrapped."""
    *_, last = _layers(tensor)
    return last


def _layers(tensor: Tensor) -> Iterator[Tensor]:
    """Yield a tensor, and what it stands for, down to the one that has the memory."""
    yield tensor
    while is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
        yield tensor


def lends(tensor: Tensor) -> bool:
    """Say whether another library may run an operation on a tensor's memory.

    Who asked torch for determinism has its word for its own kernels alone.
    """
    if not is_plain(tensor) or tensor.data_ptr() % ALIGNMENT:
        return False
    return not torch.are_deterministic_algorithms_enabled()
