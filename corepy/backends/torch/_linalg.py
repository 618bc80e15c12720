"""Linear algebra."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import array_api_compat.torch as compat
import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from corepy.backends._numpy_factors import determinant
from corepy.backends._scaling import MOST
from corepy.backends.torch._layout import is_batched, is_elsewhere, is_plain, packed
from corepy.backends.torch._reductions import sum_, unreduced


def solvable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Raise the error that a singular matrix has on every backend."""

    def compute(*args: Any, **params: Any) -> Any:
        try:
            return function(*args, **params)
        except RuntimeError as error:
            # Of the eigenvalues of NaN torch says so in a plain RuntimeError.
            if isinstance(error, torch.linalg.LinAlgError) or "infs or NaNs" in str(error):
                raise np.linalg.LinAlgError(str(error).partition("\n")[0]) from error
            raise

    return compute


def in_own_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Multiply in the dtype of the operands where torch's autocast would take a narrower one."""

    def compute(x: Tensor, *args: Any, **params: Any) -> Any:
        if not (x.is_mps or torch._C._is_any_autocast_enabled()):  # of any but Metal
            return function(x, *args, **params)
        with without_autocast_on(x.device.type):
            return function(x, *args, **params)

    return compute


def without_autocast_on(kind: str) -> AbstractContextManager[Any]:
    """Return a context in which torch keeps to the dtypes of operands on its devices of a kind."""
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if on else nullcontext()


#: Rows up to which MKL factors a matrix in one thread, with some room: it does so up to 150.
_SERIAL: Final = 128
HAS_MKL: Final[bool] = torch.backends.mkl.is_available()


def _is_endless(x: Tensor) -> bool:
    """Say whether torch might never end to factor these matrices.

    It factors a stack in threads of its own, and after `torch.set_num_threads`, in whatever thread,
    MKL takes some more in each of them, which it does not get: LASWP complains of its parameters,
    and pivots are wrong or never come (https://github.com/pytorch/pytorch/issues/141358).
    """
    if x.ndim <= 2 or x.shape[-1] <= _SERIAL or x.device.type != "cpu":
        return False
    return HAS_MKL and torch.get_num_threads() > 1 and math.prod(x.shape[:-2]) > 1


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Factor matrices in turn where a stack of them might never end: MKL has threads for each.

    Parameters
    ----------
    function : callable
        Of a stack of matrices alone; it returns a tensor or a tuple of them.
    """

    def compute(x: Tensor) -> Any:
        if not _is_endless(x):
            return function(x)
        outer = x.shape[:-2]
        found = [function(matrix) for matrix in x.flatten(0, -3)]
        if isinstance(found[0], Tensor):
            return torch.stack(found).unflatten(0, outer)
        return tuple(torch.stack(part).unflatten(0, outer) for part in zip(*found, strict=True))

    return compute


inv = one_by_one(torch.linalg.inv)
slogdet = one_by_one(torch.linalg.slogdet)
_det = one_by_one(torch.linalg.det)
_factors = one_by_one(torch.linalg.lu_factor_ex)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    if not _is_endless(x1):
        return compat.linalg.solve(x1, x2)
    # By the rule of the standard, one dimension is a vector, and all else stacks of matrices.
    right = x2[:, None] if x2.ndim == 1 else x2
    factors, pivots, singular = _factors(x1)
    if singular.any():
        raise torch.linalg.LinAlgError("linalg.solve: a matrix of x1 is singular")
    found = torch.linalg.lu_solve(factors, pivots, right)
    return found[..., 0] if x2.ndim == 1 else found


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    if n < 0 and _is_endless(x):
        return torch.linalg.matrix_power(inv(x), -n)
    return torch.linalg.matrix_power(x, n)


#: Rows up to which a determinant costs less than a look at its factors.
_FEW = 16


def det(x: Tensor) -> Tensor:
    # torch multiplies pivots from the first to the last, and what is between may overflow where
    # the determinant does not: of diag(1e200, 1e200, 1e-200, 1e-200) it is infinite. NumPy adds
    # logarithms. Gradients pass through torch's own, which has those of singular matrices.
    few = x.device.type == "cpu" and x.shape[-1] <= _FEW
    if few or x.requires_grad:
        found = _det(x)
        if x.requires_grad or (not is_batched(x) and _stays_in_range(x, found)):
            return found
    metal = x.device.type == "mps"
    # The transpose has the same determinant, and lies in the order of LAPACK: it is not copied.
    factors, pivots, _ = _factors(x if metal else x.mT)
    if x.device.type == "cpu" and x.ndim == 2 and not x.is_complex() and is_plain(x):
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


def eigvals(x: Tensor, /) -> Tensor:
    # `eig` asks this itself. Of NaN MKL finds numbers here, or ends the process.
    if x.device.type == "cpu" and not _is_finite(x):
        raise torch.linalg.LinAlgError("Array must not contain infs or NaNs")
    return torch.linalg.eigvals(x)


def _is_finite(x: Tensor) -> bool:
    """Say whether all elements are finite, True where nobody sees them; unheard by any mode."""
    if is_plain(x.detach()):
        return bool(torch.isfinite(x).all())
    if (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._functorch.maybe_current_level() is not None
        or is_elsewhere(x)
    ):
        return True
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return bool(torch.isfinite(x.detach().as_subclass(Tensor)).all())


def qr(x: Tensor, *, mode: str) -> tuple[Tensor, Tensor]:
    if x.device.type == "cpu" or not x.numel():
        return tuple(torch.linalg.qr(x, mode))
    return qr_of_any_size(x, mode)


def qr_of_any_size(x: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    # As `_scaling.powers`, of which Metal has no frexp: what remains of the greatest element of a
    # column without its fraction, where NaN looks like an infinity.
    top = x.detach().abs() if not x.is_complex() else torch.view_as_real(x.detach()).abs().amax(-1)
    top = top.amax(-2, keepdim=True)
    kind, exponent, most = _POWERS[top.dtype]
    power = (top.view(kind) & exponent).view(top.dtype).clamp(1 / most, most)
    q, r = torch.linalg.qr(x * (1 / power), mode)
    return q, packed(r) * power  # LAPACK's order


#: By dtype the integers of its size, the bits of a float's exponent, and the most to multiply by.
_POWERS: Final = {
    torch.float32: (torch.int32, 0x7F80_0000, 2.0 ** MOST[4]),
    torch.float64: (torch.int64, 0x7FF0_0000_0000_0000, 2.0 ** MOST[8]),
}


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


def vecdot(
    x1: Tensor, x2: Tensor, *, axis: int, matmul: Callable[..., Tensor] = torch.matmul
) -> Tensor:
    # torch's own has no integers; compat's calls a function that torch.func.vmap has no rule for.
    x1, x2 = torch.broadcast_tensors(x1.conj().movedim(axis, -1), x2.movedim(axis, -1))
    return matmul(x1[..., None, :], x2[..., None])[..., 0, 0]


def trace(x: Tensor, *, offset: int, dtype: torch.dtype) -> Tensor:
    diagonal = packed(torch.linalg.diagonal(x, offset=offset))
    return sum_(diagonal, axis=(diagonal.ndim - 1,), dtype=dtype, keepdims=False)


def vector_norm(x: Tensor, *, axis: Any, keepdims: bool, ord: float) -> Tensor:
    if ord == 0 or unreduced(x, axis):
        # torch casts complex numbers to real ones, with a warning, and takes () for all axes.
        size = torch.abs(x)
        return sum_(size != 0, axis=axis, dtype=size.dtype, keepdims=keepdims) if ord == 0 else size
    if x.numel() == 0 and ord in (math.inf, -math.inf):
        raise ValueError(f"x.shape is {tuple(x.shape)}; expected at least one element")
    if not x.is_cpu or x.numel() <= _BLOCK or math.isinf(ord):
        return torch.linalg.vector_norm(x, ord, axis, keepdims)
    if ord == 1:
        size = torch.abs(x)
        return sum_(size, axis=axis, dtype=size.dtype, keepdims=keepdims)
    places = tuple(range(x.ndim)) if axis is None else axis
    for place in places:
        x = _norm_along(x, place, ord)
    return x if keepdims else x.squeeze(places)


#: Powers that torch adds one after the other: of more it loses digits, a thousand ulp in a million.
_BLOCK: Final = 128


def _norm_along(x: Tensor, place: int, ord: float) -> Tensor:
    """Return norms along an axis: those of the norms of blocks."""
    size = x.shape[place]
    if size <= _BLOCK:
        return torch.linalg.vector_norm(x, ord, place, True)
    whole = size - size % _BLOCK
    blocks = x.narrow(place, 0, whole).unflatten(place, (-1, _BLOCK))
    norms = [torch.linalg.vector_norm(blocks, ord, place + 1)]
    if whole < size:
        norms.append(_norm_along(x.narrow(place, whole, size - whole), place, ord))
    return _norm_along(torch.cat(norms, place), place, ord)


def matrix_norm(x: Tensor, *, keepdims: bool, ord: Any) -> Tensor:
    if ord == "fro":
        return vector_norm(x, axis=(x.ndim - 2, x.ndim - 1), keepdims=keepdims, ord=2)
    return torch.linalg.matrix_norm(x, ord, keepdim=keepdims)
