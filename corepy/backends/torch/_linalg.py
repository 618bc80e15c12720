"""Linear algebra."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch
from torch import Tensor

from corepy.backends._numpy_lapack import determinant
from corepy.backends.torch._reductions import sum_, unreduced


def solvable(name: str) -> Callable[..., Any]:
    """Raise the error that a singular matrix has on every backend."""
    function = getattr(compat.linalg, name)

    def compute(*args: Any, **params: Any) -> Any:
        try:
            return function(*args, **params)
        except RuntimeError as error:
            # Of the eigenvalues of NaN torch says so in a plain RuntimeError.
            if isinstance(error, torch.linalg.LinAlgError) or "infs or NaNs" in str(error):
                raise ValueError(str(error).partition("\n")[0]) from error
            raise

    return compute


def in_own_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Multiply in the dtype of the operands where torch's autocast would take a narrower one."""

    def compute(x: Tensor, *args: Any, **params: Any) -> Any:
        kind = x.device.type
        if not torch.is_autocast_enabled(kind):
            return function(x, *args, **params)
        with torch.autocast(kind, enabled=False):
            return function(x, *args, **params)

    return compute


#: Rows up to which a determinant costs less than a look at its factors.
_FEW = 16


def det(x: Tensor) -> Tensor:
    # torch multiplies pivots from the first to the last, and what is between may overflow where
    # the determinant does not: of diag(1e200, 1e200, 1e-200, 1e-200) it is infinite. NumPy adds
    # logarithms. Gradients pass through torch's own, which has those of singular matrices.
    few = x.device.type == "cpu" and x.shape[-1] <= _FEW
    if few or x.requires_grad:
        found = torch.linalg.det(x)
        if x.requires_grad or _stays_in_range(x, found):
            return found
    metal = x.device.type == "mps"
    # The transpose has the same determinant, and lies in the order of LAPACK: it is not copied.
    factors, pivots, _ = torch.linalg.lu_factor_ex(x if metal else x.mT)
    if type(x) is Tensor and x.device.type == "cpu" and x.ndim == 2 and not x.is_complex():
        # A dozen of torch's operations on so few numbers take a tenth of the time of the factors.
        values = factors.numpy()
        with np.errstate(all="ignore"):
            return torch.from_numpy(np.asarray(determinant(values, pivots.numpy(), values.dtype)))
    diagonal = torch.diagonal(factors, dim1=-2, dim2=-1).contiguous()  # as Metal wants it
    if not metal:  # which has no double precision
        diagonal = diagonal.to(torch.complex128 if x.is_complex() else torch.float64)
    places = torch.arange(1, diagonal.shape[-1] + 1, device=x.device)
    odd = (pivots != places).sum(-1) % 2
    logarithms = torch.log2(torch.abs(diagonal))
    by_logarithms = torch.sgn(diagonal).prod(-1) * torch.exp2(logarithms.sum(-1))
    sure = logarithms.abs().sum(-1) < _reach(diagonal.dtype)
    product = torch.where(sure, diagonal.prod(-1), by_logarithms)
    return torch.where(odd == 1, -product, product).to(x.dtype)


def qr(x: Tensor, *, mode: str) -> tuple[Tensor, Tensor]:
    if x.device.type == "cpu" or not x.numel():
        return tuple(torch.linalg.qr(x, mode))
    # cuSOLVER squares elements as they are, unlike LAPACK: beyond the root of the greatest float R
    # is NaN. By a power of two nothing is rounded.
    parts = torch.view_as_real(x).flatten(-2) if x.is_complex() else x
    top = parts.abs().amax((-2, -1), keepdim=True)
    most = 1000 if top.dtype is torch.float64 else 104
    power = torch.frexp(top).exponent.clamp(-most, most)
    one = torch.ones_like(top)
    q, r = torch.linalg.qr(x * torch.ldexp(one, -power), mode)
    return q, r * torch.ldexp(one, power)


def _reach(dtype: torch.dtype) -> float:
    """Return the power of two up to which numbers and their reciprocals keep all digits."""
    return -math.log2(torch.finfo(dtype).tiny)


def _stays_in_range(x: Tensor, found: Tensor) -> bool:
    """Say whether no product of the first pivots overflows, or loses digits near zero."""
    if not x.numel():
        return True
    rows = x.shape[-1]
    # Pivoting lets elements grow by a factor that stays below the number of rows in practice.
    most = rows * math.log2(max(1.0, rows * float(x.abs().max())))
    least = float(found.abs().min())
    reach = _reach(x.dtype)
    return most < reach and least > 0 and math.log2(least) - most > -reach


def trace(x: Tensor, *, offset: int, dtype: torch.dtype) -> Tensor:
    diagonal = torch.linalg.diagonal(x, offset=offset)
    return sum_(diagonal, axis=(diagonal.ndim - 1,), dtype=dtype, keepdims=False)


def vector_norm(x: Tensor, *, axis: Any, keepdims: bool, ord: float) -> Tensor:
    if ord == 0 or unreduced(x, axis):
        # torch casts complex numbers to real ones, with a warning, and takes () for all axes.
        size = torch.abs(x)
        return sum_(size != 0, axis=axis, dtype=size.dtype, keepdims=keepdims) if ord == 0 else size
    if x.numel() == 0 and ord in (math.inf, -math.inf):
        raise ValueError(f"x.shape is {tuple(x.shape)}; expected at least one element")
    return torch.linalg.vector_norm(x, ord, axis, keepdims)
