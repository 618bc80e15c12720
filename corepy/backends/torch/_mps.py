"""What torch needs on ``mps``: contiguous operands, products in parts, and nothing in float64.

torch's kernels for Metal have answered wrongly, without a word, for operands that are not
contiguous: ``where`` (https://github.com/pytorch/pytorch/issues/150967), ``isfinite`` and ``isinf``
(https://github.com/pytorch/pytorch/issues/183419), ``sum``
(https://github.com/pytorch/pytorch/issues/132732) and what writes in place
(https://github.com/pytorch/pytorch/issues/118115). So every operation that reads elements gets
contiguous ones here. Copying is what torch itself does about such a fault once it is known.

Nothing in this module has run on an Apple GPU. It is tested on a stand-in that takes the host's
memory for Metal's, refuses what Metal lacks, and has those faults.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from corepy.backends.torch._creation import on_device
from corepy.backends.torch._linalg import in_own_dtype, vecdot

Function = Callable[..., Any]

#: Operations that look at shapes alone, and may give a view.
_VIEWS: Final = frozenset(
    {
        "broadcast_arrays",
        "broadcast_to",
        "expand_dims",
        "imag",
        "linalg.diagonal",
        "linalg.matrix_transpose",
        "matrix_transpose",
        "meshgrid",
        "moveaxis",
        "permute_dims",
        "real",
        "reshape",
        "squeeze",
        "unstack",
    }
)

#: Metal's products of more terms add what lies behind the operands, on M1 and M2
#: (https://github.com/pytorch/pytorch/issues/195163).
LONGEST: Final = 32_766
#: Stacks of matrices with more elements are multiplied wrongly
#: (https://github.com/pytorch/pytorch/issues/197636).
MOST: Final = 2**32


def fitted(name: str, function: Function) -> Function:
    """Return an operation as ``mps`` needs it."""
    if name in _VIEWS:
        return function
    if name in ("__getitem__", "__setitem__"):  # slices and integers give a view, and copy into it
        return lambda x, *others: function(x, *map(plain, others))
    if name.startswith("__i"):
        return _writing(function)
    return _contiguous(_OWN.get(name, function))


def plain(value: Any) -> Any:
    """Return a tensor, or those in a sequence, in contiguous memory; anything else as it is."""
    if isinstance(value, Tensor):
        return value.contiguous()
    if isinstance(value, (tuple, list)):
        return type(value)(plain(item) for item in value)
    return value


def _contiguous(function: Function) -> Function:
    def compute(*args: Any, **params: Any) -> Any:
        return function(*map(plain, args), **{key: plain(value) for key, value in params.items()})

    return compute


# ---------------------------------------------------------------------------- in place


def _writing(function: Function) -> Function:
    """Write into contiguous memory, and copy that to where it belongs."""

    def write(x: Tensor, *others: Any) -> Tensor:
        fresh = x.contiguous()
        function(fresh, *map(plain, others))
        return x if fresh is x else x.copy_(fresh)

    return write


# ---------------------------------------------------------------------------- products


def matmul(x1: Tensor, x2: Tensor) -> Tensor:
    """Multiply matrices in parts that Metal multiplies rightly: of `LONGEST` terms, of `MOST`."""
    terms = x1.shape[-1]
    if terms > LONGEST:
        total = None
        for start in range(0, terms, LONGEST):
            count = min(LONGEST, terms - start)
            left = x1.narrow(-1, start, count).contiguous()
            right = x2.narrow(max(-2, -x2.ndim), start, count).contiguous()
            part = matmul(left, right)
            total = part if total is None else total + part
        assert total is not None  # there is at least one part
        return total
    if x1.ndim < 2 or x2.ndim < 2:
        return torch.matmul(x1, x2)
    stack = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    rows, columns = x1.shape[-2], x2.shape[-1]
    matrices = max(rows * terms, terms * columns, rows * columns)
    axis = next((i for i, size in enumerate(stack) if size > 1), None)
    if axis is None or math.prod(stack) * matrices <= MOST:
        return torch.matmul(x1, x2)
    half = stack[axis] // 2
    made = x1.new_empty((*stack, rows, columns))
    for start, count in ((0, half), (half, stack[axis] - half)):
        place = axis - len(stack) - 2  # from the right, where the operands agree
        left, right = (_part(x, place, start, count) for x in (x1, x2))
        made.narrow(place, start, count).copy_(matmul(left, right))
    return made


def _part(x: Tensor, axis: int, start: int, count: int) -> Tensor:
    """Return a range of an axis that broadcasting may have stretched or added."""
    if -axis > x.ndim or x.shape[axis] == 1:
        return x
    return x.narrow(axis, start, count).contiguous()


def tensordot(x1: Tensor, x2: Tensor, *, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Tensor:
    """Contract axes by `matmul`."""
    first, second = axes
    rows = [i for i in range(x1.ndim) if i not in first]
    columns = [i for i in range(x2.ndim) if i not in second]
    shape = [x1.shape[i] for i in rows] + [x2.shape[i] for i in columns]
    terms = math.prod(x1.shape[i] for i in first)
    left = x1.permute(*rows, *first).reshape(math.prod(shape[: len(rows)]), terms)
    right = x2.permute(*second, *columns).reshape(terms, math.prod(shape[len(rows) :]))
    return matmul(left.contiguous(), right.contiguous()).reshape(shape)


def cross(x1: Tensor, x2: Tensor, *, axis: int) -> Tensor:
    return torch.linalg.cross(*map(plain, torch.broadcast_tensors(x1, x2)), dim=axis)


# ---------------------------------------------------------------------------- creation


@on_device
def _eye(rows: int, columns: int, *, k: int, dtype: Any, device: Any) -> Tensor:
    # Else it is written into a diagonal, which is not contiguous.
    lines = torch.arange(rows, device=device).reshape(rows, 1) + k
    return torch.eq(lines, torch.arange(columns, device=device)).to(dtype)


_OWN: Final[dict[str, Function]] = {
    "eye": _eye,
    "linalg.cross": cross,
    "matmul": in_own_dtype(matmul),
    "tensordot": in_own_dtype(tensordot),
    "vecdot": in_own_dtype(partial(vecdot, matmul=_contiguous(matmul))),
}
