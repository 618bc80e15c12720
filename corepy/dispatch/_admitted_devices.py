"""Which operations CuPy may run on torch's arrays of a GPU, and torch on CuPy's.

As `corepy.dispatch._admitted` says it of the host: what is in here means the same in both adapters,
and within the published bound. Nothing is known to be faster by it: tables say that.

Not admitted, and why:

- products of floats: in another order they overflow elsewhere;
- products of matrices of float32: each library has its own say on TF32, and all call one cuBLAS;
- floor division, remainders and powers: chains of kernels in both adapters, or scalars that choose
  a kernel;
- matrices of which one side is many times the other: reductions were measured on square ones, and
  libraries share them out among threads by their sides;
- reductions along axes that are not the first or the last ones in memory: CuPy's kernels for whole
  rows (CUB's) refuse them, and what it runs instead launches a block for each result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from corepy.dispatch._admitted import (
    FLOATS,
    NUMBERS,
    Args,
    Former,
    Params,
    matrices,
    vector,
    whole,
)

#: The libraries that share the memory of a GPU of CUDA, in the order in which they are preferred.
ON_CUDA: Final = ("torch", "cupy")
#: How many times as long as the other one a side of a matrix may be whose rows are reduced.
_SLENDER: Final = 64


@dataclass(frozen=True, slots=True)
class DeviceAdmission:
    """Who may run an operation on the arrays of whom, on a GPU.

    Attributes
    ----------
    former : callable
        Names the form of the operands, as of `Admission`; it looks at what `Backend.layout` gives.
    own_forms : tuple of str
        All that it may name.
    operands : int
        How many of the leading arguments may be the largest array.
    dtypes : frozenset of str
        Those for which the libraries mean the same.
    fast : frozenset of str
        Never: neither is less accurate than the other.
    """

    former: Former
    own_forms: tuple[str, ...]
    operands: int
    dtypes: frozenset[str]
    fast: frozenset[str] = frozenset()

    @property
    def forms(self) -> tuple[str, ...]:
        """All forms in tables, where the library of the arrays comes first, as with kernels."""
        return tuple(form_of(home, form) for home in ON_CUDA for form in self.own_forms)

    @property
    def is_elementwise(self) -> bool:
        """Whether all arguments are operands of one shape, or single values."""
        return self.former is whole

    def admits(self, dtype: str, backend: str) -> bool:
        """Say whether a backend may run it on the arrays of another, of a dtype."""
        return backend in ON_CUDA and dtype in self.dtypes


def form_of(home: str, form: str) -> str:
    """Return how tables call the form of operands of a library."""
    return f"{home} {form}" if form else home


def home_of(form: str) -> str:
    """Return the library that a form of a table begins with."""
    return form.partition(" ")[0]


def _stout(args: Args, params: Params) -> str | None:
    """A reduction of all elements, or of rows or columns of which neither are by far fewer.

    Rows lie along the last axes of an array, together, and columns along the first ones.
    """
    x, axis = args[0], params["axis"]
    axes = (axis,) if isinstance(axis, int) else axis
    if axes is None or len(axes) == x.ndim:
        return "all" if x.flags.forc else None
    by_rows = x.flags.c_contiguous
    if not axes or not (by_rows or (x.ndim == 2 and x.flags.forc)):
        return None
    are_first, are_last = max(axes) < len(axes), min(axes) >= x.ndim - len(axes)
    if not (are_first or are_last):
        return None
    length = math.prod(x.shape[each] for each in axes)
    number = x.size // max(length, 1)
    if max(length, number) > _SLENDER * min(length, number):
        return None
    return "rows" if are_last == by_rows else "columns"


_AXES: Final = ("all", "rows", "columns")
_UNARY: Final = DeviceAdmission(whole, ("",), 1, FLOATS)
_BINARY: Final = DeviceAdmission(whole, ("",), 2, NUMBERS)
_REDUCTION: Final = DeviceAdmission(_stout, _AXES, 1, NUMBERS)
_MOMENT: Final = DeviceAdmission(_stout, _AXES, 1, FLOATS)
_ORDER: Final = DeviceAdmission(vector, ("",), 1, NUMBERS)

ADMITTED_ON_CUDA: Final[dict[str, DeviceAdmission]] = {
    **dict.fromkeys(("abs", "floor", "negative", "sqrt", "square"), _UNARY),
    **dict.fromkeys(("exp", "expm1", "log", "log10", "log1p", "log2"), _UNARY),
    **dict.fromkeys(("cos", "sin", "tanh"), _UNARY),
    **dict.fromkeys(("add", "maximum", "minimum", "multiply", "subtract"), _BINARY),
    **dict.fromkeys(("equal", "greater", "greater_equal"), _BINARY),
    **dict.fromkeys(("less", "less_equal", "not_equal"), _BINARY),
    "divide": DeviceAdmission(whole, ("",), 2, FLOATS),
    **dict.fromkeys(("max", "min", "sum", "cumulative_sum"), _REDUCTION),
    "prod": DeviceAdmission(_stout, _AXES, 1, frozenset({"int64"})),
    **dict.fromkeys(("mean", "std", "var"), _MOMENT),
    **dict.fromkeys(("argsort", "sort"), _ORDER),
    "matmul": DeviceAdmission(matrices, ("",), 2, frozenset({"float64"})),
}
