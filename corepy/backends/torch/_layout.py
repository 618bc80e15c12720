"""How tensors lie in memory, in NumPy's words, and which of them another library may read."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd import forward_ad
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
    if torch.compiler.is_compiling():  # first: what follows, it cannot trace
        return False
    if tensor.__class__ is not Tensor or tensor.layout is not torch.strided:
        return False
    if tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        return False
    return not (
        torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack()
        or _is_heard()
        or torch._C._functorch.maybe_current_level() is not None
        or forward_ad._current_level >= 0
    )


def _is_heard() -> bool:
    """Say whether a mode sees torch's functions; a default device changes factories alone."""
    if not torch._C._len_torch_function_stack():
        return False
    modes = torch.overrides._get_current_function_mode_stack()
    return any(mode.__class__ is not DeviceContext for mode in modes)


def is_batched(tensor: Tensor) -> bool:
    """Say whether a tensor stands for many inside `torch.func.vmap`, whose values nobody sees."""
    if torch.compiler.is_compiling():  # which has a way of its own, and cannot trace this
        return False
    return any(map(torch._C._functorch.is_batchedtensor, _layers(tensor)))


def innermost(tensor: Tensor) -> Tensor:
    """Return the tensor that has the memory, of one that `torch.func` has wrapped."""
    *_, last = _layers(tensor)
    return last


def _layers(tensor: Tensor) -> Iterator[Tensor]:
    """Yield a tensor, and what it stands for, down to the one that has the memory."""
    functorch = torch._C._functorch
    yield tensor
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
        yield tensor


def lends(tensor: Tensor) -> bool:
    """Say whether another library may run an operation on a tensor's memory.

    Who asked torch for determinism has its word for its own kernels alone.
    """
    if not is_plain(tensor) or tensor.data_ptr() % ALIGNMENT:
        return False
    return not torch.are_deterministic_algorithms_enabled()
