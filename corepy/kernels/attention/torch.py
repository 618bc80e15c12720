"""Attention by torch's own function, where that means the same, of torch's arrays and others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from corepy.devices._device import CPU, Device
from corepy.dispatch import is_reproducible
from corepy.kernels._arguments import GREATEST, torch_layout
from corepy.kernels._choice import by_torch, torch_takes
from corepy.kernels._replay import provided
from corepy.kernels._ways import CUPY, TORCH

if TYPE_CHECKING:
    from corepy.kernels.attention._problem import Problem

#: Work, in products of two elements, from which the compiled kernels are the faster ones. It takes
#: some 60 us to start them.
SMALL: Final = 1 << 22
#: Bytes of the widest registers. Where the scores of a query fill none, torch on the host passes
#: over NaN in its search for the greatest, and a query of which all are NaN is zero.
_REGISTER: Final = 64


#: Beyond it a scale is infinite when kernels on GPUs have multiplied it by log2(e), as they do to
#: take powers of two.
STEEPEST: Final = GREATEST["float32"] / 2


def serves(problem: Problem) -> bool:
    """Say whether torch's function has all that a problem asks for.

    torch adds a mask to the scores, so that a NaN among hidden keys would be seen, and aligns
    causal queries at the top left. It multiplies by the scale after it has hidden keys by minus
    infinity, and on GPUs after it has found the greatest score. It has no rules for forward
    gradients and `torch.func.vmap`.
    """
    p = problem
    if p.return_lse or not 0 < p.scale <= STEEPEST:
        return False
    if p.mask is not None or p.bias is not None or p.table is not None or p.left is not None:
        return False
    if p.lengths is not None or p.query_lengths is not None or p.right not in (None, 0):
        return False
    aligned = p.top_left or p.q.shape[2] == p.keys
    return p.right is None or aligned or (p.q.shape[2] == 1 and not p.top_left)


def takes(problem: Problem) -> bool:
    """Say whether torch's function takes the arrays: torch's wherever they are, CuPy's, the host's.

    CuPy's only where it is the faster one of two.
    """
    p = problem
    library = p.q.library
    if _is_causal(p) and not _hides(*_looks(p)):
        return False
    if library == CUPY:
        shared, skewed = p.q.shape[1] != p.k.shape[1], _is_causal(p) and p.q.shape[2] != p.keys
        if p.keys == 0 or is_reproducible() or not pays(p.q.dtype, shared, skewed):
            return False
        from corepy.kernels._device import _tensors

        return _tensors.takes(*(x.native for x in (p.q, p.k, p.v)))
    if p.q.device is CPU and p.keys * (8 if p.q.wide == "float64" else 4) < _REGISTER:
        return False
    if library != TORCH:
        return torch_takes(p.q, p.k, p.v)
    if sys.modules["torch"].compiler.is_compiling():
        return True
    return not torch_layout().is_transformed()


def _hides(device: Device | None, dtype: str, shared: bool, skewed: bool) -> bool:
    """Say whether a kernel of torch's leaves out what causal queries do not see.

    Where it has none it adds a mask to all scores, and a NaN among hidden keys stays.
    """
    if device is CPU:
        torch = sys.modules.get("torch")  # arrays of NumPy may be the first that it gets
        # Not by `torch.backends.cuda`, through which `torch.compile` cannot trace.
        return torch is None or bool(torch._C._get_flash_sdp_enabled())
    return pays(dtype, shared, skewed)


def _looks(problem: Problem) -> tuple[Device | None, str, bool, bool]:
    """Return what `_hides` looks at."""
    p = problem
    return p.q.device, p.q.dtype, p.q.shape[1] != p.k.shape[1], p.q.shape[2] != p.keys


def pays(dtype: str, shared: bool, skewed: bool) -> bool:
    """Say whether torch has a kernel on GPUs that never holds all scores.

    Parameters
    ----------
    shared : bool
        Whether heads share keys, which its memory-efficient attention does not know.
    skewed : bool
        Whether it is causal for other numbers of queries and keys, which flash attention aligns at
        the bottom right.
    """
    flash = dtype in ("float16", "bfloat16") and not skewed
    return flash or (dtype != "float64" and not shared)


def attention(problem: Problem) -> Any:
    """Compute what `serves` allows."""
    p = problem
    shared = False
    if p.q.shape[1] != p.k.shape[1]:  # `bool` of it is none where `torch.compile` lets heads change
        shared = True
    function = function_of(_is_causal(p), p.scale, shared)
    if p.q.device is CPU and p.q.dtype in ("float16", "bfloat16"):
        function = partial(_in_16_bits, function, abs(p.scale) * p.q.shape[3])
    if _is_causal(p):
        provided(partial(_hides, *_looks(p)))
    return by_torch(p.q, partial(_side_by_side, function), p.k, p.v, out=p.out)


def _side_by_side(function: Callable[..., Any], *tensors: Any) -> Any:
    """Compute with the elements of rows side by side, as all kernels of torch's want them."""
    import torch

    order = torch.contiguous_format
    return function(*(x if x.stride(-1) == 1 else x.clone(memory_format=order) for x in tensors))


def _in_16_bits(function: Callable[..., Any], factor: float, q: Any, k: Any, v: Any) -> Any:
    """Compute on the host in 16 bits, where torch gives zero for a query with an infinite score.

    Parameters
    ----------
    factor : float
        How often a product of two elements may be in a score.
    """
    import torch

    found = function(q, k, v)
    # Its exponential of NaN is zero there (torch 2.13), and so is a row, all of it.
    if torch.compiler.is_compiling() or type(found) is not torch.Tensor or found[..., 0].all():
        return found
    greatest = 1.0
    for x in (q, k):
        low, high = torch.aminmax(x.detach())
        greatest *= max(-float(low), float(high))
    if greatest * factor < torch.finfo(torch.float32).max:
        return found  # v is zero
    return function(*(x.to(torch.float32) for x in (q, k, v))).to(q.dtype)


def _is_causal(p: Problem) -> bool:
    one = p.q.shape[2] == 1 and not p.top_left  # sees every key
    return p.right == 0 and not one


@lru_cache(maxsize=256)
def function_of(causal: bool, scale: float, shared: bool) -> Callable[..., Any]:
    """Return torch's function of three tensors; with `shared` heads of queries share keys."""
    import torch

    return partial(
        torch.nn.functional.scaled_dot_product_attention,
        is_causal=causal,
        scale=scale,
        enable_gqa=shared,
    )
