"""What torch runs by itself, what of it is fixed, and what is left to NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import array_api_compat.torch as compat
import torch

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends._inplace import OPERATORS, in_place
from corepy.backends.torch import _creation as creation
from corepy.backends.torch import _elementwise as elementwise
from corepy.backends.torch import _fft as fft
from corepy.backends.torch import _indexing as indexing
from corepy.backends.torch import _linalg as linalg
from corepy.backends.torch import _reductions as reductions
from corepy.backends.torch import _searching as searching

#: Functions of two operands that torch has right. compat promotes their operands first, and so
#: does the dispatcher, which leaves nothing to do but to spend time.
_RIGHT: Final = {
    "atan2": torch.atan2,
    "bitwise_and": torch.bitwise_and,
    "bitwise_left_shift": torch.bitwise_left_shift,
    "bitwise_or": torch.bitwise_or,
    "bitwise_right_shift": torch.bitwise_right_shift,
    "bitwise_xor": torch.bitwise_xor,
    "copysign": torch.copysign,
    "divide": torch.divide,
    "equal": torch.eq,
    "greater": torch.greater,
    "greater_equal": torch.greater_equal,
    "hypot": torch.hypot,
    "less": torch.less,
    "less_equal": torch.less_equal,
    "logaddexp": torch.logaddexp,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "multiply": torch.multiply,
    "nextafter": torch.nextafter,
    "not_equal": torch.not_equal,
    "where": torch.where,
}

#: Operations of which torch's kernels for the host and for CUDA read a Python scalar as they read
#: an element of the operands' dtype, and compute with both alike (`gpu_kernel_with_scalars` in
#: Loops.cuh). Quotients by a scalar are left out: on CUDA they are products with its reciprocal
#: (BinaryDivTrueKernel.cu). So are powers, for the exponents that have a kernel of their own.
SCALARS_FIRST: Final = frozenset(
    {
        "add",
        "bitwise_and",
        "bitwise_left_shift",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "divide",
        "multiply",
        "subtract",
    }
)
_COMPARISONS: Final = frozenset(
    {"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"}
)
#: The adapter's own, which looks at integers to divide by, and would wait for a GPU that has them.
_DIVISIONS: Final = frozenset({"floor_divide", "remainder", "__ifloordiv__", "__imod__"})
SCALARS_SECOND: Final = (
    SCALARS_FIRST | _COMPARISONS | _DIVISIONS | {*OPERATORS} - {"__itruediv__"}
) - {"divide"}

FIXES: Final[dict[str, Callable[..., Any]]] = {
    **_RIGHT,
    **{
        name: creation.on_device(getattr(compat, name))
        for name in ("empty", "eye", "full", "linspace", "ones", "zeros")
    },
    "arange": creation.on_device(creation.arange),
    "meshgrid": creation.meshgrid,
    **fft.OPERATIONS,
    "fft.fftfreq": creation.on_device(compat.fft.fftfreq),
    "fft.rfftfreq": creation.on_device(compat.fft.rfftfreq),
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "fft.fftshift": indexing.shifted(torch.fft.fftshift),
    "fft.ifftshift": indexing.shifted(torch.fft.ifftshift),
    "flip": indexing.flip,
    "take": indexing.take,
    "unstack": indexing.unstack,
    "take_along_axis": indexing.take_along_axis,
    "add": elementwise.by_parts(torch.add),
    "subtract": elementwise.by_parts(torch.subtract),
    "negative": elementwise.by_parts(torch.negative),
    "positive": torch.clone,  # torch.positive returns its operand
    "conj": elementwise.conj,
    "round": elementwise.by_parts(torch.round),
    "acos": elementwise.acos,
    "acosh": elementwise.acosh,
    "cosh": elementwise.hyperbolic(torch.cosh),
    "expm1": elementwise.expm1,
    "log1p": elementwise.log1p,
    "log2": elementwise.log2,
    "sinh": elementwise.hyperbolic(torch.sinh),
    "sqrt": elementwise.sqrt,
    "tan": elementwise.tan,
    "tanh": elementwise.tanh,
    "floor_divide": elementwise.floor_divide,
    "remainder": elementwise.remainder,
    "pow": elementwise.pow_,
    "sign": elementwise.sign,
    "any": reductions.truth(torch.any),
    "all": reductions.truth(torch.all),
    "mean": reductions.mean,
    "sum": reductions.sum_,
    "prod": reductions.prod,
    "cumulative_sum": reductions.cumulate(torch.cumsum, 0),
    "cumulative_prod": reductions.cumulate(torch.cumprod, 1),
    "var": reductions.var,
    "std": reductions.std,
    "count_nonzero": reductions.count_nonzero,
    "isin": searching.isin,
    "searchsorted": searching.searchsorted,
    "unique_all": searching.unique_all,
    "linalg.det": linalg.det,
    "linalg.eigvals": linalg.solvable(linalg.eigvals),
    "linalg.qr": linalg.qr,
    "linalg.trace": linalg.trace,
    "linalg.matrix_norm": linalg.solvable(linalg.matrix_norm),
    "linalg.vector_norm": linalg.vector_norm,
    "linalg.inv": linalg.solvable(linalg.inv),
    "linalg.matrix_power": linalg.in_own_dtype(linalg.solvable(linalg.matrix_power)),
    "linalg.pinv": linalg.in_own_dtype(linalg.solvable(compat.linalg.pinv)),
    "linalg.slogdet": linalg.slogdet,
    "linalg.solve": linalg.solvable(linalg.solve),
    **{
        f"linalg.{name}": linalg.solvable(getattr(compat.linalg, name))
        for name in (
            *("cholesky", "eig", "eigh", "eigvalsh"),
            *("matrix_rank", "svd", "svdvals"),
        )
    },
    # compat promotes the operands of a product first, and so does the dispatcher.
    "matmul": linalg.in_own_dtype(torch.matmul),
    "tensordot": linalg.in_own_dtype(compat.tensordot),
    "vecdot": linalg.in_own_dtype(linalg.vecdot),
    **in_place(
        *(elementwise.floor_divide, elementwise.remainder, elementwise.pow_),
        write=indexing.inplace,
        written=indexing.written,
    ),
    "__iadd__": indexing.inplace(elementwise.by_parts(operator.iadd)),
    "__isub__": indexing.inplace(elementwise.by_parts(operator.isub)),
}

#: What torch does with unsigned integers of 16 bits and more: it moves them. Whatever else the
#: standard asks of them, NumPy does in the same memory
#: (https://github.com/pytorch/pytorch/issues/58734).
MOVES: Final = frozenset(
    {
        "__getitem__",
        "astype",
        "broadcast_arrays",
        "broadcast_to",
        "concat",
        "empty",
        "expand_dims",
        "flip",
        "full",
        "linalg.diagonal",
        "linalg.matrix_transpose",
        "matrix_transpose",
        "meshgrid",
        "moveaxis",
        "ones",
        "permute_dims",
        "real",
        "reshape",
        "squeeze",
        "stack",
        "unstack",
        "zeros",
    }
)

#: Operations by the dtypes for which torch has them not, or not right.
LEFT_OUT: Final[dict[str, frozenset[DType]]] = {
    # "Unsupported input type encountered for isin()".
    "isin": _dtypes.COMPLEX | _dtypes.BOOLEAN,
    # Complex numbers have no order to sort by.
    "unique_all": _dtypes.COMPLEX,
    "unique_counts": _dtypes.COMPLEX,
    "unique_inverse": _dtypes.COMPLEX,
    "unique_values": _dtypes.COMPLEX,
}
