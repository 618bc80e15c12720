"""The operations that are offered, and how one is computed: on the server, or in its stead.

The list is closed on purpose. NumPy's namespace also holds ``save``, ``fromfile`` and much else
that nobody should reach through a network.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

import corepy.dispatch

Array = npt.NDArray[Any]

# fmt: off
#: By the chapters of the standard. The FFTs are left out: a corepy program that calls one all the
#: same shows what becomes of an operation that a backend does not have.
OPERATIONS: Final = frozenset({
    # creation
    "arange", "empty", "eye", "full", "linspace", "meshgrid", "ones", "tril", "triu", "zeros",
    # elementwise
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor",
    "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan",
    "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round",
    "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
    # indexing, data types
    "__getitem__", "__setitem__", "astype", "take", "take_along_axis",
    # manipulation
    "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat",
    "reshape", "roll", "squeeze", "stack", "tile", "unstack",
    # searching, sorting, sets
    "argmax", "argmin", "argsort", "count_nonzero", "isin", "nonzero", "searchsorted", "sort",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
    # statistics and utilities
    "all", "any", "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std",
    "sum", "var",
    # linear algebra
    "matmul", "matrix_transpose", "tensordot", "vecdot", "linalg.cholesky", "linalg.cross",
    "linalg.det", "linalg.diagonal", "linalg.eig", "linalg.eigh", "linalg.eigvals",
    "linalg.eigvalsh", "linalg.inv", "linalg.matrix_norm", "linalg.matrix_power",
    "linalg.matrix_rank", "linalg.outer", "linalg.pinv", "linalg.qr", "linalg.slogdet",
    "linalg.solve", "linalg.svd", "linalg.svdvals", "linalg.trace", "linalg.vector_norm",
})
# fmt: on


def compute(
    name: str, args: tuple[Any, ...], params: dict[str, Any], *, max_bytes: int | None = None
) -> Array | tuple[Array, ...]:
    """Run an operation by corepy's NumPy backend, with results that own their memory.

    Parameters
    ----------
    name : str
        One of `OPERATIONS`.
    args, params
        As the backend contract of corepy has them. The arrays are read-only and stay as they are.
    max_bytes : int or None
        The size of all results together.

    Raises
    ------
    MemoryError
        If the results are larger.
    TypeError
        If a result is of no dtype of the standard.
    """
    numpy = corepy.dispatch.load("numpy")
    if name == "__setitem__":
        args = (args[0].copy(), *args[1:])
    # The special cases of the standard are results like others, and nobody sees a warning there.
    with np.errstate(all="ignore"):
        made = numpy.execute(name, args, **params)
    several = isinstance(made, (tuple, list))
    results = [numpy.normalize(item) for item in (made if several else (made,))]
    for result in results:
        numpy.dtype_of(result)  # raises where it is none of the standard's
    size = sum(result.nbytes for result in results)
    if max_bytes is not None and size > max_bytes:
        raise MemoryError(f"{name}: its result takes {size} bytes; expected at most {max_bytes}")
    owned = tuple(_owned(result, args) for result in results)
    return owned if several else owned[0]


def _owned(array: Array, args: tuple[Any, ...]) -> Array:
    # A view would keep the whole memory behind it alive, uncounted.
    if not array.flags.owndata or any(array is arg for arg in args):
        array = array.copy(order="C")
    array.flags.writeable = False
    return array
