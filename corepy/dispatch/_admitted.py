"""Which operations another library may run on NumPy's memory, and on which operands.

A table of routes says who is fastest; what is in here says who may be asked at all. An operation
is admitted for a backend and a dtype if its result keeps the meaning: dtype, special cases, errors
and, within the published bound (`docs/accuracy.md`), values. `corepy tune` tries each admission
on special values before it measures.

Not admitted, and why:

- products of floats: in another order they overflow elsewhere;
- torch's ``//`` and ``%`` of integers: the least integer by -1 ends the process on x86;
- torch's `sign`, `isnan`, logical and bitwise functions: no gain that would be worth the crossing;
- torch's `cosh` and `sinh`, which the adapter corrects: their loops overflow too early;
- torch's `sqrt`, which is off by an ulp where NumPy is exact;
- JAX: it gives read-only memory, and takes only what is aligned to 64 bytes without a copy.

The fused kernels of `corepy.kernels` are admitted beside the operations: their ways of computing
mean the same by construction, and tests hold all of them to one bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from corepy._dtypes import DTYPES
from corepy.backends._extents import FEW_MEMBERS, INNER, LONGER, NARROWEST, TALL

#: Backends whose arrays are NumPy's, and whose operations may be routed.
HOMES: Final = ("numpy", "numba")
#: Backends that may run them, in the order in which they are preferred at equal gain.
CANDIDATES: Final = ("numba", "torch")

Args: TypeAlias = "tuple[Any, ...]"
Params: TypeAlias = "Mapping[str, Any]"
#: Names the form of operands, such as the axis of a reduction; None where NumPy has to run it.
Former: TypeAlias = Callable[[Args, Params], str | None]

#: Names of all dtypes that there are routes for; only kernels have the last two.
DTYPE_NAMES: Final = (*DTYPES, "float16", "bfloat16")

FLOATS: Final = frozenset({"float32", "float64"})
NUMBERS: Final = FLOATS | {"int64"}
_COMPLEX: Final = frozenset({"complex64", "complex128"})
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may run an operation, on what.

    Attributes
    ----------
    former : callable
        Names the form of the operands.
    forms : tuple of str
        All that it may name.
    operands : int
        How many of the leading arguments may be the largest array: 1, 2, or 3; 0 if none is.
    torch : frozenset of str
        The dtypes for which torch means the same. (Numba's kernels judge dtypes themselves, and
        give to NumPy what is not for them.)
    fast : frozenset of str
        The dtypes for which torch's result is less accurate than NumPy's, which computes them in
        double precision: only under ``corepy.precision("fast")``.
    numba : mapping of str to frozenset of str, optional
        By form the dtypes for which Numba has a way of its own; all, unless said otherwise. Else it
        would have NumPy's function to offer, without a look at what is in its way.
    """

    former: Former
    forms: tuple[str, ...]
    operands: int
    torch: frozenset[str]
    fast: frozenset[str] = _NONE
    numba: Mapping[str, frozenset[str]] | None = None

    def admits(self, dtype: str, backend: str) -> bool:
        """Say whether a backend may run it on NumPy's arrays of a dtype."""
        if backend == "numba":
            return dtype in DTYPES
        return backend == "torch" and dtype in self.torch

    def is_own(self, form: str, dtype: str) -> bool:
        """Say whether Numba has a way of its own for a form and a dtype."""
        return self.numba is None or dtype in self.numba.get(form, _NONE)

    @property
    def is_elementwise(self) -> bool:
        """Whether all arguments are operands of one shape, or single values."""
        return self.former in (whole, _quotients)


def whole(args: Args, params: Params) -> str | None:
    """Operands of one shape, or single values; an array and its rows or columns are "spread"."""
    model = args[0]
    if len(args) > 1:
        shape = model.shape
        for x in args:
            if x.shape != shape:
                break
        else:
            return "" if all(x.flags.forc for x in args) else None
        model = max(args, key=_extent)
        for x in args:
            if not (x.size == 1 or (x.shape == model.shape and x.flags.forc)):
                return "spread" if _spreads(model, args) else None
        return ""
    return "" if model.flags.forc else None


def _quotients(args: Args, params: Params) -> str | None:
    """The same, but for integers by one number: NumPy multiplies them by what it finds once."""
    if args[1].size == 1 and args[1].dtype.kind in "iu":
        return None
    return whole(args, params)


def _extent(x: Any) -> tuple[int, int]:
    return x.size, x.ndim


def _spreads(model: Any, args: Args) -> bool:
    """Say whether the largest of two operands has the shape of the result."""
    if len(args) != 2 or not all(x.flags.c_contiguous for x in args):
        return False
    sizes = zip(args[args[0] is model].shape[::-1], model.shape[::-1], strict=False)
    return all(size in (1, of_model) for size, of_model in sizes)


def _clipped(args: Args, params: Params) -> str | None:
    """Bounds of the array's shape, or single values."""
    bounds = [bound for bound in params.values() if bound is not None]
    form = whole((*args, *bounds), {})
    return form if all(x.size <= args[0].size for x in bounds) else None


def _reduced(args: Args, params: Params) -> str | None:
    """A reduction of all elements, of rows or of columns; few and long columns are "narrow".

    Several axes count as what the last of them is of.
    """
    x, axis = args[0], params["axis"]
    if axis is None:
        return "all" if x.flags.forc else None
    axes = (axis,) if isinstance(axis, int) else axis
    if len(axes) == x.ndim:
        return "all" if x.flags.forc else None
    if not axes or not x.flags.forc:
        return None
    # In F order the first axis is what the last one is in C order.
    first, last = (0, x.ndim - 1) if x.flags.c_contiguous else (x.ndim - 1, 0)
    if last in axes:
        return "rows"
    if len(axes) > 1 or axes[0] != first:
        return "columns"
    rows: int = x.shape[first]
    columns: int = x.size // rows if rows else 0
    return "narrow" if 1 < columns <= NARROWEST and rows >= LONGER * columns else "columns"


def vector(args: Args, params: Params) -> str | None:
    """One dimension, ascending order, no sorter: the plain cases of sorting and searching."""
    plain = not params.get("descending") and params.get("sorter") is None
    return "" if plain and all(x.ndim == 1 and x.flags.c_contiguous for x in args) else None


def _sought(args: Args, params: Params) -> str | None:
    """Elements that are looked for among no more others; NumPy compares with very few of these."""
    x, members = args
    return "" if x.flags.c_contiguous and FEW_MEMBERS < members.size <= x.size else None


def _flat(args: Args, params: Params) -> str | None:
    """Any shape, read as one dimension."""
    return "" if args[0].flags.c_contiguous else None


def _transformed(args: Args, params: Params) -> str | None:
    """A transform of whole rows or columns, or of one."""
    x, axis = args[0], params["axis"]
    if not x.flags.c_contiguous or not _is_extent(params["n"], x.shape[axis]):
        return None
    if x.ndim == 1:
        return ""
    return "rows" if axis % x.ndim == x.ndim - 1 else "columns"


def _transformed_along(args: Args, params: Params) -> str | None:
    """A transform along several whole axes."""
    x, axes, sizes = args[0], params["axes"], params["s"]
    if not x.flags.c_contiguous or len(axes) < 2:
        return None
    own = [x.shape[axis] for axis in axes]
    is_whole = own[:-1] == list(sizes[:-1]) and _is_extent(sizes[-1], own[-1])
    return "" if is_whole else None


def _is_extent(points: int, extent: int) -> bool:
    """Say whether points are as many as elements; the inverse of real ones has twice as many."""
    return points in (extent, 2 * (extent - 1))


def _square(args: Args, params: Params) -> str | None:
    """One square matrix, and what is solved for."""
    x = args[0]
    return "" if x.ndim == 2 and x.shape[0] == x.shape[1] and x.flags.forc else None


def _factored(args: Args, params: Params) -> str | None:
    """One square matrix, or one of many more rows than columns of which as many columns come."""
    x = args[0]
    if params.get("full_matrices") or params.get("mode") == "complete" or x.ndim != 2:
        return _square(args, params)
    rows, columns = x.shape
    return "tall" if 1 < columns <= rows // TALL and x.flags.c_contiguous else _square(args, params)


def matrices(args: Args, params: Params) -> str | None:
    """Two matrices, neither of them a row or column; a small product of long ones."""
    if any(x.ndim != 2 or min(x.shape) <= 3 for x in args):
        return None
    x, y = args
    return "inner" if x.shape[1] >= INNER * max(x.shape[0], y.shape[1]) else ""


def _contracted(args: Args, params: Params) -> str | None:
    """The last axis of one matrix with the first of another."""
    plain = params["axes"] == ((1,), (0,)) and all(x.ndim == 2 for x in args)
    return "" if plain else None


def _masked(args: Args, params: Params) -> str | None:
    """An array and a mask of its shape."""
    x, key = args
    if key.__class__ is not x.__class__ or key.dtype.kind != "b" or key.shape != x.shape:
        return None
    return "mask" if x.flags.c_contiguous and key.flags.c_contiguous else None


def _converted(args: Args, params: Params) -> str | None:
    """Another dtype, or the same one for a copy."""
    x, dtype = args
    form = f"to {dtype.name}"
    copies = params.get("copy", True) or dtype != x.dtype
    return form if form in _TARGETS and copies and x.flags.forc else None


def _joined(args: Args, params: Params) -> str | None:
    """Arrays that come beside each other."""
    return "" if all(x.flags.c_contiguous for x in args[0]) else None


def _rolled(args: Args, params: Params) -> str | None:
    """All elements, or rows of them."""
    return "" if args[1].__class__ is int and args[0].flags.c_contiguous else None


def _taken(args: Args, params: Params) -> str | None:
    """Elements of a vector by their indices."""
    return "" if all(x.ndim == 1 and x.flags.c_contiguous for x in args) else None


#: Forms of conversions.
_TARGETS: Final = ("to float32", "to float64", "to int64")
_AXES: Final = ("all", "rows", "columns", "narrow")
_TRANSFORMS: Final = ("", "rows", "columns")
_UNARY: Final = Admission(whole, ("",), 1, FLOATS)
_KERNEL: Final = Admission(whole, ("",), 1, _NONE)
_KERNEL_OF_TWO: Final = Admission(whole, ("",), 2, _NONE)
_BINARY: Final = Admission(whole, ("",), 2, FLOATS)
_ARITHMETIC: Final = Admission(whole, ("", "spread"), 2, NUMBERS)
_REDUCTION: Final = Admission(_reduced, _AXES, 1, NUMBERS)
_MOMENT: Final = Admission(_reduced, _AXES, 1, FLOATS)
_KERNEL_OF_AXES: Final = Admission(_reduced, _AXES, 1, _NONE)
_ORDER: Final = Admission(vector, ("",), 1, NUMBERS)
_JOINING: Final = Admission(_joined, ("",), 0, _NONE)
_SET: Final = Admission(_flat, ("",), 1, frozenset({"int64"}))
_DECOMPOSITION: Final = Admission(_square, ("",), 1, FLOATS, frozenset({"float32"}))
_FACTORIZATION: Final = Admission(
    _factored, ("", "tall"), 1, FLOATS, frozenset({"float32"}), numba={"tall": FLOATS}
)

ADMITTED: Final[dict[str, Admission]] = {
    **dict.fromkeys(
        (
            *("abs", "ceil", "floor", "negative", "reciprocal", "round", "square", "trunc"),
            *("exp", "expm1", "log", "log10", "log1p", "log2"),
            *("acos", "asin", "atan", "cos", "sin", "tan"),
            *("acosh", "asinh", "atanh", "tanh"),
        ),
        _UNARY,
    ),
    **dict.fromkeys(
        (
            *("bitwise_invert", "cosh", "isfinite", "isinf", "isnan", "logical_not"),
            *("sign", "signbit", "sinh", "sqrt"),
        ),
        _KERNEL,
    ),
    **dict.fromkeys(
        (
            *("bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift"),
            *("bitwise_xor", "copysign", "logical_and", "logical_or", "logical_xor", "nextafter"),
        ),
        _KERNEL_OF_TWO,
    ),
    **dict.fromkeys(("atan2", "hypot", "logaddexp", "pow", "remainder"), _BINARY),
    "floor_divide": Admission(_quotients, ("",), 2, FLOATS),
    "divide": Admission(whole, ("", "spread"), 2, FLOATS),
    "clip": Admission(_clipped, ("",), 1, _NONE),
    **dict.fromkeys(
        (
            *("add", "maximum", "minimum", "multiply", "subtract"),
            *("equal", "greater", "greater_equal", "less", "less_equal", "not_equal"),
        ),
        _ARITHMETIC,
    ),
    "where": Admission(whole, ("",), 3, NUMBERS),
    **dict.fromkeys(("max", "min", "sum"), _REDUCTION),
    "prod": Admission(_reduced, _AXES, 1, frozenset({"int64"})),
    **dict.fromkeys(("mean", "std", "var"), _MOMENT),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"), _KERNEL_OF_AXES),
    **dict.fromkeys(("argmax", "argmin", "count_nonzero"), _KERNEL_OF_AXES),
    **dict.fromkeys(("argsort", "sort"), _ORDER),
    "searchsorted": Admission(vector, ("",), 2, NUMBERS),
    "isin": Admission(_sought, ("",), 1, _NONE),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), _SET),
    "__getitem__": Admission(_masked, ("mask",), 2, NUMBERS),
    "take": Admission(_taken, ("",), 1, _NONE),
    **dict.fromkeys(("concat", "stack"), _JOINING),
    "roll": Admission(_rolled, ("",), 1, _NONE),
    "astype": Admission(_converted, _TARGETS, 1, _NONE),
    "tensordot": Admission(_contracted, ("",), 2, _NONE),
    "matmul": Admission(
        *(matrices, ("", "inner"), 2, frozenset({"int64"})),
        numba={"": frozenset({"int64"}), "inner": NUMBERS},
    ),
    **dict.fromkeys(
        ("fft.fft", "fft.ifft", "fft.irfft"), Admission(_transformed, _TRANSFORMS, 1, _COMPLEX)
    ),
    "fft.rfft": Admission(_transformed, _TRANSFORMS, 1, FLOATS),
    **dict.fromkeys(
        ("fft.fftn", "fft.ifftn", "fft.irfftn"), Admission(_transformed_along, ("",), 1, _COMPLEX)
    ),
    "fft.rfftn": Admission(_transformed_along, ("",), 1, FLOATS),
    **{
        f"linalg.{name}": _DECOMPOSITION
        for name in ("cholesky", "det", "eigh", "eigvalsh", "inv", "solve")
    },
    **{f"linalg.{name}": _FACTORIZATION for name in ("qr", "svd", "svdvals")},
}


#: Who may compute fused kernels; JAX does with its own arrays alone.
KERNEL_CANDIDATES: Final = (*CANDIDATES, "jax")


@dataclass(frozen=True, slots=True)
class KernelAdmission:
    """Who may compute a fused kernel: corepy's own loops, and functions of the libraries.

    Attributes
    ----------
    forms : tuple of str
        The library of the arrays, and what else tells how the work is shaped.
    dtypes : frozenset of str
    backends : tuple of str
        Who means the same.
    fast : frozenset of str
        Never: kernels round as they say.
    """

    forms: tuple[str, ...]
    dtypes: frozenset[str] = frozenset({"float16", "bfloat16", "float32", "float64"})
    backends: tuple[str, ...] = KERNEL_CANDIDATES
    fast: frozenset[str] = _NONE

    def admits(self, dtype: str, backend: str) -> bool:
        """Say whether a backend may compute it in a dtype."""
        return backend in self.backends and dtype in self.dtypes


#: Libraries for whose arrays there is a choice.
_CHOOSING: Final = ("numpy", "torch", "jax")
#: Few queries read all keys once; many queries compute most of the time.
_WORK: Final = ("decode", "prefill")
_ATTENTION: Final = tuple(f"{library} {work}" for library in _CHOOSING for work in _WORK)

KERNELS: Final[dict[str, KernelAdmission]] = {
    "kernels.attention": KernelAdmission(_ATTENTION),
    "kernels.conv2d": KernelAdmission(("numpy", "numpy grouped")),
    # torch's function loses the digits of rows far from zero.
    "kernels.layer_norm": KernelAdmission(_CHOOSING, backends=("numba", "jax")),
    **dict.fromkeys(("kernels.rms_norm", "kernels.softmax"), KernelAdmission(_CHOOSING)),
}

#: All that a table of routes may be about.
ROUTABLE: Final[dict[str, Admission | KernelAdmission]] = {**ADMITTED, **KERNELS}


def admits(operation: str, dtype: str, backend: str) -> bool:
    """Say whether a backend may run an operation of NumPy's arrays, or a kernel, of a dtype."""
    admission = ROUTABLE.get(operation)
    return admission is not None and admission.admits(dtype, backend)
