"""A stand-in for torch on Apple's GPU: torch's ``mps`` in host memory.

Its tensors say that they are on ``mps``, and hold a tensor of the host. It refuses what Metal
refuses: float64 and complex128, tensors of the host beside its own, and functions that torch has
no kernel for there. And it has Metal's faults: what reads the elements of a tensor that is not
contiguous answers with garbage. It shows nothing of Metal's speed, nor of its rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
import torch
from torch.overrides import TorchFunctionMode

import corepy
from corepy.backends.torch import _devices
from corepy.devices._device import CPU, as_device

PLACE: Final = torch.device("mps")
#: What Metal cannot hold.
WIDE: Final = (torch.float64, torch.complex128)
#: Functions without a kernel in torch's native_functions.yaml, by how they are called.
MISSING: Final = (
    *("linalg_eig", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh", "linalg_svd"),
    *("linalg_svdvals", "linalg_pinv", "linalg_matrix_rank", "linalg_matrix_norm"),
    *("frexp", "geqrf", "linalg_lstsq", "linalg_lu_solve"),
)
NOT_COMPLEX: Final = (
    *("linalg_cholesky", "linalg_det", "linalg_inv", "linalg_qr", "linalg_slogdet"),
    *("linalg_solve", "linalg_matrix_power"),
)
#: Products, which torch's autocast takes in a narrower dtype.
NARROWED: Final = ("__matmul__", "linalg_matrix_power", "matmul", "tensordot")
#: Attributes that are views of the elements; the others describe the tensor.
VIEWS: Final = ("H", "T", "imag", "mH", "mT", "real")
#: Methods that describe it.
DESCRIBE: Final = (
    *("dim", "element_size", "is_complex", "is_conj", "is_contiguous", "is_floating_point"),
    *("is_neg", "numel", "size", "storage_offset", "stride"),
)
BY_KEY: Final = ("__getitem__", "__setitem__")
#: What gives a view, or copies elements wherever they lie: Metal's remedy for everything else. Keys
#: do so unless there are arrays in them.
ANY_STRIDES: Final = (
    *("__get__", "__getitem__", "__setitem__", "broadcast_tensors", "broadcast_to", "clone"),
    *("contiguous", "copy_", "cpu", "data_ptr", "diagonal", "empty_like", "expand", "item"),
    *("linalg_diagonal", "meshgrid", "moveaxis", "movedim", "narrow", "new_empty", "new_full"),
    *("new_tensor", "ones_like", "permute", "reshape", "split", "squeeze", "swapaxes", "to"),
    *("detach", "resolve_conj", "resolve_neg", "tolist", "transpose", "unbind", "unsqueeze"),
    *("untyped_storage", "view", "view_as_real", "zeros_like"),
)


class MetalTensor(torch.Tensor):
    """A tensor that says it is on ``mps``, and holds one of the host."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> MetalTensor:
        if held.dtype in WIDE:
            raise TypeError(
                f"Cannot convert a MPS Tensor to {held.dtype} dtype as the MPS framework doesn't "
                f"support {held.dtype}"
            )
        made: MetalTensor = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=PLACE
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"{function} was called outside of the stand-in")


class Metal(TorchFunctionMode):
    """Answers torch's calls on such tensors, and makes them where ``device`` says so."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, name = kwargs or {}, function.__name__
        given = list(_tensors((args, tuple(kwargs.values()))))
        own = [x for x in given if isinstance(x, MetalTensor)]
        places = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.device)]
        if not own and PLACE.type not in [place.type for place in places]:
            return function(*args, **kwargs)
        attribute = function.__self__.__name__ if name == "__get__" else None
        if name in DESCRIBE or (attribute is not None and attribute not in VIEWS):
            return function(*args, **kwargs)
        _check(name, given)
        kept = args[0] if name.endswith("_") and not name.endswith("__") else None
        keys = _tensors(args[1]) if name in BY_KEY else ()
        by_arrays = any(x.ndim or x.dtype is torch.bool for x in keys)
        excused = name in ANY_STRIDES and not by_arrays
        strided = not excused and any(not x.held.is_contiguous() for x in own)
        if strided and (kept is not None or name == "__setitem__"):
            return kept  # and nothing is written
        made = function(*map(_inside, args), **{key: _inside(x) for key, x in kwargs.items()})
        if kept is not None:
            return kept
        if name == "cpu" or (places and PLACE not in places):
            return made.clone()  # in other memory
        if name in NARROWED and torch.is_autocast_enabled(PLACE.type):
            made = made.to(torch.get_autocast_dtype(PLACE.type))
        return _outside(made, spoilt=strided)


def _check(name: str, given: list[Any]) -> None:
    own = [x for x in given if isinstance(x, MetalTensor)]
    if name in MISSING or (name in NOT_COMPLEX and any(x.held.is_complex() for x in own)):
        raise NotImplementedError(f"The operator {name} is not implemented for the MPS device")
    if name == "numpy":
        raise TypeError("can't convert mps:0 device type tensor to numpy")
    # Indices may lie on the host, and scalars.
    others = [x for x in given if not isinstance(x, MetalTensor) and x.ndim]
    if own and others and name not in BY_KEY:
        raise RuntimeError(f"{name}: Expected all tensors to be on the same device, mps:0 and cpu")


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _inside(value: Any) -> Any:
    if isinstance(value, MetalTensor):
        return value.held
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if type(value) in (tuple, list):
        return type(value)(map(_inside, value))
    return value


def _outside(value: Any, *, spoilt: bool) -> Any:
    if isinstance(value, torch.Tensor):
        return MetalTensor(_garbage(value) if spoilt else value)
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        made = [_outside(item, spoilt=spoilt) for item in value]
        return type(value)(made)  # some are named tuples of torch's own
    return value


def _garbage(values: torch.Tensor) -> torch.Tensor:
    return ~values if values.dtype is torch.bool else values * 0 + 42


@contextmanager
def metal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let torch's backend serve the stand-in as ``mps`` for the extent of a ``with`` block."""
    monkeypatch.setattr(_devices, "present", lambda: (CPU, as_device("mps")))
    with Metal(), corepy.backend_priority(["torch:mps"]):
        yield
