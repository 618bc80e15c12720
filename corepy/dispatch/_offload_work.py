"""How much work an operation is, and what comes of it, by the shapes of its operands.

Each operation is likened to one that `corepy tune --offload` measures (`MEASURED`), by an amount of
work in the same unit. `STARTS` may move operands to an accelerator, for they do more than touch
each element; `STAYS` run there only where an operand lies there already. What is in neither runs
on the host: writes, masks, and what has to look at values to know that it must raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Args: TypeAlias = "tuple[Any, ...]"
Params: TypeAlias = "Mapping[str, Any]"


@dataclass(frozen=True, slots=True)
class Load:
    """What one call amounts to.

    Attributes
    ----------
    amount : float
        In the unit of the operation that it is likened to.
    elements : float
        Of the results together.
    """

    amount: float
    elements: float


@dataclass(frozen=True, slots=True)
class Work:
    """An operation that may be offloaded.

    Attributes
    ----------
    model : str
        The operation that it is likened to.
    load : callable
        Tells the `Load` of a call, None where it has to run on the host.
    by_bytes : bool
        Whether it takes time by the bytes of its elements, so that all dtypes of one width cost
        the same; else every dtype has a curve of its own.
    """

    model: str
    load: Callable[[Args, Params], Load | None]
    by_bytes: bool = False


def _size(x: Any) -> int:
    return math.prod(x.shape)


# ---------------------------------------------------------------------------- matrices


def _matmul(args: Args, params: Params) -> Load:
    left, right = args[0].shape, args[1].shape
    rows = left[-2] if len(left) > 1 else 1
    columns = right[-1] if len(right) > 1 else 1
    stack = max(math.prod(left[:-2]), math.prod(right[:-2]))
    return Load(stack * rows * columns * left[-1], stack * rows * columns)


def _tensordot(args: Args, params: Params) -> Load:
    x, y = args
    added = math.prod(x.shape[axis] for axis in params["axes"][0])
    elements = _size(x) * _size(y) / max(added, 1) ** 2
    return Load(elements * added, elements)


def _factored(results: float) -> Callable[[Args, Params], Load]:
    """A decomposition; `results` counts the elements that come of it by those of the matrix."""

    def load(args: Args, params: Params) -> Load:
        x = args[0]
        return Load(_size(x) * min(x.shape[-2:]), _size(x) * results)

    return load


def _solve(args: Args, params: Params) -> Load:
    x, y = args
    return Load(_size(x) * x.shape[-1] + _size(x) * _size(y) / max(x.shape[-1], 1), _size(y))


# ---------------------------------------------------------------------------- vectors


def _transformed(part: float) -> Callable[[Args, Params], Load]:
    """A transform that is so great a part of a complex one of as many points."""

    def load(args: Args, params: Params) -> Load:
        x = args[0]
        axes: Any = params.get("axes")
        sizes: Any = params.get("s")
        if axes is None:
            axes, sizes = (params["axis"],), (params["n"],)
        points = math.prod(sizes)
        elements = _size(x) / max(math.prod(x.shape[axis] for axis in axes), 1) * points
        return Load(part * elements * math.log2(max(points, 2)), elements)

    return load


def _sorted(args: Args, params: Params) -> Load:
    x = args[0]
    return Load(_size(x) * math.log2(max(x.shape[params["axis"]], 2)), _size(x))


# ---------------------------------------------------------------------------- elements


def _broadcast(args: Args, params: Params) -> Load:
    shapes = [x.shape for x in args if hasattr(x, "shape")]
    width = max(map(len, shapes))
    sides = ([*([1] * (width - len(shape))), *shape] for shape in shapes)
    elements = math.prod(map(max, zip(*sides, strict=True)))
    return Load(elements, elements)


def _moved(args: Args, params: Params) -> Load:
    return Load(_size(args[0]), _size(args[0]))


def _viewed(args: Args, params: Params) -> Load:
    return Load(1, _size(args[0]))


def _shaped(args: Args, params: Params) -> Load | None:
    # False has to be refused, or to give a view: the host does.
    return None if params.get("copy") is not None else _viewed(args, params)


def _reduced(args: Args, params: Params) -> Load:
    x, axis = args[0], params.get("axis")
    axes = range(len(x.shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    reduced = math.prod(x.shape[i] for i in axes)
    return Load(_size(x), _size(x) / max(reduced, 1))


def _dotted(args: Args, params: Params) -> Load:
    load = _broadcast(args, params)
    return Load(load.amount, load.elements / max(args[0].shape[params["axis"]], 1))


def _selected(args: Args, params: Params) -> Load | None:
    """Integers within range, slices, Ellipsis and None; arrays and all else are the host's."""
    x, key = args
    parts = key if isinstance(key, tuple) else (key,)
    if not all(part is None or part is Ellipsis or type(part) in (int, slice) for part in parts):
        return None
    axes = [part for part in parts if part is not None]
    if Ellipsis in axes:
        at = axes.index(Ellipsis)
        axes[at : at + 1] = [slice(None)] * (len(x.shape) - len(axes) + 1)
    elements = 1
    for i, length in enumerate(x.shape):
        part = axes[i] if i < len(axes) else slice(None)
        if isinstance(part, slice):
            elements *= len(range(*part.indices(length)))
        elif not -length <= part < length:
            return None
    return Load(elements, elements)


#: Operations that are measured, with the dtypes of their curves.
MEASURED: Final[dict[str, tuple[str, ...]]] = {
    "matmul": ("float32", "float64"),
    "linalg.cholesky": ("float32", "float64"),
    "linalg.eigh": ("float32", "float64"),
    "linalg.inv": ("float32", "float64"),
    "linalg.qr": ("float32", "float64"),
    "linalg.solve": ("float32", "float64"),
    "linalg.svd": ("float32", "float64"),
    "fft.fft": ("complex64", "complex128"),
    "sort": ("float32", "float64"),
    "multiply": ("float32", "float64"),
    "exp": ("float32", "float64"),
    "sum": ("float32", "float64"),
}

STARTS: Final[dict[str, Work]] = {
    "matmul": Work("matmul", _matmul),
    "tensordot": Work("matmul", _tensordot),
    "linalg.cholesky": Work("linalg.cholesky", _factored(1)),
    "linalg.eigh": Work("linalg.eigh", _factored(2)),
    "linalg.eigvalsh": Work("linalg.eigh", _factored(0)),
    "linalg.inv": Work("linalg.inv", _factored(1)),
    "linalg.qr": Work("linalg.qr", _factored(2)),
    "linalg.solve": Work("linalg.solve", _solve),
    "linalg.svd": Work("linalg.svd", _factored(2)),
    "linalg.svdvals": Work("linalg.svd", _factored(0)),
    **{
        f"fft.{name}": Work("fft.fft", _transformed(1)) for name in ("fft", "fftn", "ifft", "ifftn")
    },
    **{
        f"fft.{name}": Work("fft.fft", _transformed(0.5))
        for name in ("irfft", "irfftn", "rfft", "rfftn")
    },
    "sort": Work("sort", _sorted),
    "argsort": Work("sort", _sorted),
}

_CHEAP: Final = Work("multiply", _broadcast, by_bytes=True)
_DEAR: Final = Work("exp", _broadcast, by_bytes=True)
_REDUCTION: Final = Work("sum", _reduced, by_bytes=True)

STAYS: Final[dict[str, Work]] = {
    **dict.fromkeys(
        (
            *("abs", "add", "ceil", "conj", "copysign", "divide", "equal", "floor", "greater"),
            *("greater_equal", "imag", "isfinite", "isinf", "isnan", "less", "less_equal"),
            *("logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum"),
            *("multiply", "negative", "not_equal", "positive", "real", "reciprocal", "round"),
            *("sign", "signbit", "sqrt", "square", "subtract", "trunc", "where"),
        ),
        _CHEAP,
    ),
    **dict.fromkeys(
        (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "exp"),
            *("expm1", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "pow", "sin"),
            *("sinh", "tan", "tanh"),
        ),
        _DEAR,
    ),
    **dict.fromkeys(
        ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "sum"), _REDUCTION
    ),
    **dict.fromkeys(("std", "var"), _REDUCTION),
    "vecdot": Work("sum", _dotted, by_bytes=True),
    "astype": Work("multiply", _moved, by_bytes=True),
    **dict.fromkeys(
        ("expand_dims", "matrix_transpose", "permute_dims", "squeeze"),
        Work("multiply", _viewed, by_bytes=True),
    ),
    "reshape": Work("multiply", _shaped, by_bytes=True),
    "__getitem__": Work("multiply", _selected, by_bytes=True),
}

WORK: Final = {**STARTS, **STAYS}

#: Where an integer operand may raise, and libraries of accelerators do not tell.
_TELLING: Final = frozenset({"divide", "pow", "reciprocal"})


def key_of(name: str, dtype: str) -> tuple[str, float] | None:
    """Return the key of the curve for an operation of a dtype, and its amounts by the curve's.

    None where the operation of that dtype runs on the host.
    """
    work = WORK.get(name)
    if work is None or (name in _TELLING and dtype.startswith(("int", "uint"))):
        return None
    if work.by_bytes:
        bits = 8 if dtype == "bool" else int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))
        narrow = bits <= 32
        return f"{work.model}/float{32 if narrow else 64}", bits / (32 if narrow else 64)
    if work.model == "fft.fft":
        dtype = {"float32": "complex64", "float64": "complex128"}.get(dtype, dtype)
    return (f"{work.model}/{dtype}", 1.0) if dtype in MEASURED[work.model] else None
