"""Which functions of MLX run which operation, and for which dtypes they are left to others."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import mlx.core as mx
import numpy as np

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends._descending import in_both_orders
from corepy.backends.mlx import _functions as functions
from corepy.backends.mlx._arrays import sending

#: Functions that MLX has under the standard's name, right and with its signature.
_SAME: Final = (
    *("abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and"),
    *("bitwise_invert", "bitwise_or", "bitwise_xor", "ceil", "conj", "cos", "cosh", "divide"),
    *("equal", "exp", "expm1", "floor", "greater", "greater_equal", "imag", "isfinite", "isinf"),
    *("isnan", "less", "less_equal", "log", "log10", "log2", "logaddexp", "logical_and"),
    *("logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative"),
    *("not_equal", "positive", "pow", "real", "reciprocal", "round", "sin", "sinh", "sqrt"),
    *("square", "subtract", "trunc"),
    *("broadcast_to", "concat", "expand_dims", "flip", "squeeze", "stack", "tile", "unstack"),
    *("meshgrid", "tril", "triu", "where"),
    *("matmul", "matrix_transpose"),
    *("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft", "fft.rfftn", "fft.irfftn"),
    *("fft.fftshift", "fft.ifftshift"),
)

_FIXES: Final[dict[str, Callable[..., Any]]] = {
    "__getitem__": functions.getitem,
    "__setitem__": functions.setitem,
    "astype": functions.astype,
    "empty": functions.zeros,
    "eye": functions.eye,
    "full": functions.full,
    "ones": functions.ones,
    "zeros": functions.zeros,
    "take": functions.take,
    "take_along_axis": functions.take_along_axis,
    "clip": functions.clip,
    "log1p": functions.log1p,
    "sign": functions.sign,
    "tan": functions.tan,
    "tanh": functions.tanh,
    "moveaxis": functions.moveaxis,
    "permute_dims": functions.permute_dims,
    "repeat": functions.repeat,
    "reshape": functions.reshape,
    "roll": functions.roll,
    "argmax": functions.to_index(mx.argmax, np.argmax),
    "argmin": functions.to_index(mx.argmin, np.argmin),
    "count_nonzero": functions.to_index(functions.count_nonzero, np.count_nonzero),
    "argsort": functions.argsort,
    "sort": in_both_orders(functions.ascending, mx.flip),
    "all": functions.reducing(mx.all, np.all),
    "any": functions.reducing(mx.any, np.any),
    "max": functions.reducing(mx.max, np.max),
    "min": functions.reducing(mx.min, np.min),
    "cumulative_prod": functions.cumulating(mx.cumprod, np.cumulative_prod, 1),
    "cumulative_sum": functions.cumulating(mx.cumsum, np.cumulative_sum, 0),
    "prod": functions.accumulating(mx.prod, np.prod),
    "sum": functions.accumulating(mx.sum, np.sum),
    "tensordot": functions.tensordot,
    "vecdot": functions.vecdot,
    "fft.fftn": functions.over_axes(mx.fft.fftn),
    "fft.ifftn": functions.over_axes(mx.fft.ifftn),
    "linalg.diagonal": functions.diagonal,
    "linalg.outer": mx.outer,
}

OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    name: sending(function)
    for name, function in ({n: attrgetter(n)(mx) for n in _SAME} | _FIXES).items()
}

_DOUBLE: Final = frozenset({_dtypes.float64})

#: Functions that MLX has, but not or not rightly for these dtypes.
_WITHOUT: Final[dict[str, frozenset[DType]]] = {
    # No special cases of C's Annex G, and products of the parts that overflow.
    **dict.fromkeys(("divide", "reciprocal", "sign"), _dtypes.COMPLEX),
    "expm1": _dtypes.COMPLEX,
    "pow": _dtypes.COMPLEX | _dtypes.INTEGER,  # negative powers of integers give 0
    **dict.fromkeys(("matmul", "tensordot", "vecdot"), _dtypes.INTEGER),
    # Computed in complex64 whatever comes.
    **dict.fromkeys((n for n in OPERATIONS if n[:4] == "fft." and "shift" not in n), _DOUBLE),
}

LEFT: Final = {
    name: frozenset({_dtypes.complex128}) | _WITHOUT.get(name, frozenset()) for name in OPERATIONS
}

#: The same for the host's kernels.
LEFT_ON_HOST: Final[dict[str, frozenset[DType]]] = {
    # Float32 is off by 1e4 ulp near the underflow; float64 ends at the bounds of float32.
    "exp": _dtypes.REAL_FLOATING,
    "logaddexp": _dtypes.REAL_FLOATING,
    # Float32 is off by 1e3 ulp far from 0, and loses the sign of sin(-0.); float64 ends in NaN.
    **dict.fromkeys(("cos", "sin"), _dtypes.REAL_FLOATING),
    # Added one after the other: a million float32 are off by a hundredth, a thousand ulp in
    # products of matrices, which NumPy also computes 25 times as fast.
    **dict.fromkeys(("sum", "prod", "matmul", "tensordot", "vecdot"), _dtypes.FLOATING),
}
