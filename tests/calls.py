"""Strategies for calls of every function of the standard, valid ones and some that are not.

Operands are NumPy arrays, which a test gives to a backend. Values are chosen so that every backend
has one right answer: what the standard leaves open is left out, with a word on why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import corepy
from conformance import accuracy
from corepy._dtypes import DTYPES
from corepy.dispatch import OPERATIONS
from tests.helpers import COMPLEX, FLOATING, FLOATS, INTEGERS, NAMES, NUMERIC, REALS


@dataclass(frozen=True)
class Call:
    """A call of a function, with NumPy arrays where it gets arrays."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        words = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())]
        return f"{self.name}({', '.join(words)})"


# ---------------------------------------------------------------------------- operands

#: Few, so that libraries that compile for each shape find most of them compiled.
SHAPES = ((), (0,), (1,), (3,), (2, 3), (1, 3), (2, 0), (2, 1, 3))
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan)


def numbers(dtype: str, *, exact: bool = False, low: float = -16, high: float = 16) -> Any:
    """Draw scalars of a dtype; eighths within bounds where sums are to be exact."""
    kind = DTYPES[dtype].kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        least, most = corepy._dtypes.integer_range(DTYPES[dtype])
        if exact:
            least, most = max(least, int(low)), min(most, int(high))
        return st.integers(least, most)
    eighths = st.integers(int(low * 8), int(high * 8)).map(lambda n: n / 8)
    if kind == "c":
        return st.builds(complex, eighths, eighths)
    if exact:
        return eighths
    # Numbers near 0 are left to the grid of `conformance/accuracy.py`.
    width = DTYPES[dtype].bits
    ordinary = st.floats(2.0**-10, 2.0**6, width=width) | st.floats(
        -(2.0**6), -(2.0**-10), width=width
    )
    return st.sampled_from(SPECIAL) | ordinary


@st.composite
def arrays(
    draw: st.DrawFn, dtypes: Any = NAMES, shapes: Any = SHAPES, **bounds: Any
) -> np.ndarray[Any, Any]:
    dtype = draw(st.sampled_from(tuple(dtypes)))
    shape = draw(st.sampled_from(tuple(shapes)))
    count = math.prod(shape)
    values = draw(st.lists(numbers(dtype, **bounds), min_size=count, max_size=count))
    return np.array(values, dtype=dtype).reshape(shape)


def names_of(name: str) -> tuple[str, ...]:
    """Return the dtypes that a function takes, by name."""
    return tuple(n for n in NAMES if DTYPES[n] in OPERATIONS[name].dtypes)


@st.composite
def broadcasting(draw: st.DrawFn, name: str) -> tuple[Any, Any]:
    """Draw the operands of a binary function: mixed dtypes, 0-D ones, shapes that may not fit."""
    dtypes = names_of(name)
    first, second = draw(st.sampled_from(dtypes)), draw(st.sampled_from(dtypes))
    if draw(st.booleans()):
        second = first
    safe: dict[str, Any] = {}
    right: dict[str, Any] = {}
    ints = DTYPES[first].rank <= 1 and DTYPES[second].rank <= 1
    match name:
        case "bitwise_left_shift" | "bitwise_right_shift":
            right = {"exact": True, "low": 0, "high": 7}
        case "pow":
            # What 0 to a negative or complex power is, libraries do not agree on.
            safe = {"exact": True, "low": 1, "high": 4} if ints or "c" in first + second else {}
            right = {"exact": True, "low": 0 if ints else -2, "high": 3}
            if ints and draw(st.booleans()):  # what does not fit wraps around, to any exponent
                right["high"] = 2**63
        case "floor_divide" | "remainder" if ints:
            safe = {"exact": True, "low": -100, "high": 100}
            right = {"exact": True, "low": 1, "high": 9}
        case "floor_divide":
            safe = right = {"exact": True}
        case "divide" if "c" in first + second:
            right = {"exact": True, "low": 1}  # as of reciprocal
    pairs = [(a, b) for a in SHAPES for b in SHAPES]
    shapes = draw(st.sampled_from(pairs))
    return draw(arrays([first], [shapes[0]], **safe)), draw(arrays([second], [shapes[1]], **right))


@st.composite
def axis_of(draw: st.DrawFn, ndim: int, *, several: bool = True, none: bool = True) -> Any:
    """Draw an axis; now and then one that is out of range."""
    choices: list[Any] = [st.integers(-ndim - 1, ndim)] if ndim else [st.just(0)]
    if ndim:
        choices += [st.integers(-ndim, ndim - 1)] * 3
    if none:
        choices.append(st.none())
    if several and ndim:
        choices.append(st.lists(st.integers(0, ndim - 1), unique=True).map(tuple))
    return draw(st.one_of(choices))


def square(dtypes: Any, *, symmetric: bool = False) -> st.SearchStrategy[Any]:
    """Draw well-conditioned matrices, or stacks of two."""

    def dominant(x: Any) -> Any:
        if symmetric:
            x = (x + x.conj().swapaxes(-1, -2)) / 2
        # Distances of the diagonal keep eigenvalues apart.
        return (x + np.diag([6.0, 9.0, 12.0])).astype(x.dtype)

    bounds = {"exact": True, "low": -1, "high": 1}
    return arrays(dtypes, [(3, 3), (2, 3, 3)], **bounds).map(dominant)


# ---------------------------------------------------------------------------- calls

UNARY = (
    *accuracy._UNARY,
    "bitwise_invert",
    "conj",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "logical_not",
    "positive",
    "real",
    "signbit",
)
BINARY = (
    *accuracy._BINARY,
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "not_equal",
)
REDUCTIONS = ("all", "any", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var")


def calls(name: str) -> st.SearchStrategy[Call]:
    """Return a strategy for calls of a function."""

    @st.composite
    def build(draw: st.DrawFn) -> Call:
        args, kwargs = arguments(draw, name)
        return Call(name, args, kwargs)

    return build()


def arguments(draw: st.DrawFn, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    extension, _, plain = name.rpartition(".")
    if extension == "linalg" and plain not in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        return linalg_arguments(draw, plain)
    if extension == "fft":
        return fft_arguments(draw, plain)
    if name == "reciprocal":  # what 1 over a complex 0 is, libraries do not agree on
        return (draw(arrays(FLOATS) | arrays(COMPLEX, low=1)),), {}
    if name in UNARY:
        return (draw(arrays(names_of(name))),), {}
    if name in BINARY:
        return draw(broadcasting(name)), {}
    if plain in REDUCTIONS:
        return reduction_arguments(draw, plain)
    for group in (creation_arguments, manipulation_arguments, other_arguments):
        found = group(draw, plain)
        if found is not None:
            return found
    raise LookupError(f"{name}: no strategy for its arguments")


def reduction_arguments(draw: st.DrawFn, name: str) -> Any:
    low = {"prod": 1, "mean": -2, "std": -2, "var": -2}.get(name, -16)
    bounds = {"exact": name not in ("max", "min", "all", "any", "count_nonzero")}
    x = draw(arrays(names_of(name), low=low, high=-low if low < 0 else 3, **bounds))
    kwargs: dict[str, Any] = {"axis": draw(axis_of(x.ndim)), "keepdims": draw(st.booleans())}
    if name in ("std", "var"):
        # Where nothing is left to divide by, libraries answer NaN or infinity.
        kwargs["correction"] = 0
        if 0 in x.shape:
            x = np.ones((2, 3), x.dtype)
            kwargs["axis"] = None
    if name in ("sum", "prod"):
        wider = [n for n in NUMERIC if DTYPES[n].rank >= DTYPES[x.dtype.name].rank]
        kwargs["dtype"] = draw(st.none() | st.sampled_from([DTYPES[n] for n in wider]))
    return (x,), kwargs


def creation_arguments(draw: st.DrawFn, name: str) -> Any:
    dtype = draw(st.none() | st.sampled_from(list(DTYPES.values())))
    small = st.integers(-9, 9)
    match name:
        case "arange":
            dtype = draw(st.none() | st.sampled_from([DTYPES[n] for n in ("int8", "float32")]))
            return (draw(small), draw(small), draw(small)), {"dtype": dtype}
        case "linspace":
            dtype = draw(st.none() | st.sampled_from([DTYPES[n] for n in FLOATING]))
            kwargs = {"dtype": dtype, "endpoint": draw(st.booleans())}
            return (draw(small), draw(small), draw(st.integers(0, 6))), kwargs
        case "eye":
            return (draw(st.integers(0, 3)), draw(st.none() | st.integers(0, 3))), {
                "k": draw(st.integers(-4, 4)),
                "dtype": dtype,
            }
        case "zeros" | "ones" | "empty":
            return (draw(st.sampled_from(SHAPES)),), {"dtype": dtype}
        case "full":
            value = draw(st.booleans() | st.integers(-300, 300) | st.sampled_from(SPECIAL))
            return (draw(st.sampled_from(SHAPES)), value), {"dtype": dtype}
        case "zeros_like" | "ones_like" | "empty_like":
            return (draw(arrays()),), {"dtype": dtype}
        case "full_like":
            return (draw(arrays()), draw(st.integers(0, 100))), {"dtype": dtype}
        case "asarray":
            return (draw(arrays()),), {"copy": draw(st.sampled_from([None, True]))}
        case "meshgrid":
            one = arrays(["int32", "float64"], [(2,), (3,), (0,)])
            return tuple(draw(st.lists(one, min_size=1, max_size=3))), {
                "indexing": draw(st.sampled_from(["xy", "ij"]))
            }
        case "tril" | "triu":
            shapes = [s for s in SHAPES if len(s) > 1]
            return (draw(arrays(shapes=shapes)),), {"k": draw(st.integers(-3, 3))}
    return None


def manipulation_arguments(draw: st.DrawFn, name: str) -> Any:
    x = draw(arrays())
    axis = draw(axis_of(x.ndim, several=False, none=False))
    match name:
        case "broadcast_arrays":
            return (x, draw(arrays())), {}
        case "broadcast_to":
            return (x, draw(st.sampled_from([*SHAPES, (2, 2, 3)]))), {}
        case "concat" | "stack":
            others = [draw(arrays(shapes=[x.shape])) for _ in range(draw(st.integers(0, 2)))]
            axis = draw(st.none() | st.just(axis)) if name == "concat" else axis
            return ([x, *others],), {"axis": axis}
        case "expand_dims" | "unstack":
            return (x,), {"axis": axis}
        case "squeeze":
            return (x, axis), {}
        case "flip":
            return (x,), {"axis": draw(axis_of(x.ndim))}
        case "moveaxis":
            return (x, axis, draw(axis_of(x.ndim, several=False, none=False))), {}
        case "permute_dims":
            return (x, tuple(draw(st.permutations(range(x.ndim))))), {}
        case "matrix_transpose":
            return (x,), {}
        case "repeat":
            return (x, draw(st.integers(0, 3))), {"axis": draw(st.none() | st.just(axis))}
        case "reshape":
            shapes = [(-1,), (3, -1), (x.size,), (1, x.size), (2, 2)]
            return (x, draw(st.sampled_from(shapes))), {}
        case "roll":
            return (x, draw(st.integers(-4, 4))), {"axis": draw(st.none() | st.just(axis))}
        case "tile":
            return (x, tuple(draw(st.lists(st.integers(0, 2), max_size=3)))), {}
    return None


def other_arguments(draw: st.DrawFn, name: str) -> Any:
    match name:
        case "astype":
            x = draw(arrays(exact=True, low=0, high=100))
            return (x, draw(st.sampled_from(list(DTYPES.values())))), {}
        case "clip":
            x = draw(arrays(REALS))
            bounds = st.none() | arrays([x.dtype.name], [()], exact=True, low=0, high=9)
            return (x, draw(bounds), draw(bounds)), {}
        case "where":
            return (draw(arrays(["bool"])), draw(arrays()), draw(arrays())), {}
        case "take" | "take_along_axis":
            x = draw(arrays(shapes=[(3,), (2, 3)]))
            shapes = [(2,)] if name == "take" else [(2,) * x.ndim]
            axis = draw(axis_of(x.ndim, several=False, none=False))
            indices = draw(arrays(["int64", "int32"], shapes, exact=True, low=-2, high=1))
            return (x, indices), {"axis": axis}
        case "searchsorted":
            x = np.sort(draw(arrays([*INTEGERS, *FLOATS], [(0,), (3,)], exact=True)))
            needles = draw(arrays([x.dtype.name], exact=True))
            return (x, needles), {"side": draw(st.sampled_from(["left", "right"]))}
        case "nonzero":
            return (draw(arrays()),), {}
        case "argmax" | "argmin":
            x = draw(arrays(REALS))
            axis = draw(axis_of(x.ndim, several=False))
            return (x,), {"axis": axis, "keepdims": draw(st.booleans())}
        case "sort" | "argsort":
            x = draw(arrays(REALS))
            axis = draw(axis_of(x.ndim, several=False, none=False))
            return (x,), {"axis": axis, "descending": draw(st.booleans())}
        case "cumulative_sum" | "cumulative_prod":
            low, high = (-16, 16) if name == "cumulative_sum" else (1, 3)
            x = draw(arrays(names_of(name), exact=True, low=low, high=high))
            axis = draw(axis_of(x.ndim, several=False))
            return (x,), {"axis": axis, "include_initial": draw(st.booleans())}
        case "diff":
            x = draw(arrays(NUMERIC, exact=True, low=0))
            axis = draw(axis_of(x.ndim, several=False, none=False))
            return (x,), {"axis": axis, "n": draw(st.integers(0, 3))}
        case "isin":
            pair = draw(st.sampled_from([("int64", "int64"), ("int8", "int32"), ("float64",) * 2]))
            x, y = (draw(arrays([n], exact=True, low=-3, high=3)) for n in pair)
            return (x, y), {"invert": draw(st.booleans())}
        case "unique_all" | "unique_counts" | "unique_inverse" | "unique_values":
            return (draw(arrays(exact=True, low=-1, high=1)),), {}
        case "matmul" | "tensordot" | "vecdot":
            x = draw(arrays(NUMERIC, [(3,), (2, 3), (3, 3)], exact=True, low=-4, high=4))
            y = draw(arrays(NUMERIC, [(3,), (3, 3), (3, 2)], exact=True, low=-4, high=4))
            return (x, y), {"axes": draw(st.integers(0, 1))} if name == "tensordot" else {}
    return None


def linalg_arguments(draw: st.DrawFn, name: str) -> Any:
    exact = {"exact": True, "low": -4, "high": 4}
    match name:
        case "cholesky" | "eigh" | "eigvalsh":
            return (draw(square(FLOATING, symmetric=True)),), {}
        case "eig" | "eigvals":
            return (draw(square(FLOATS, symmetric=True)),), {}
        case "det" | "inv" | "slogdet" | "svd" | "svdvals" | "qr" | "pinv" | "matrix_rank":
            return (draw(square(FLOATING)),), {}
        case "matrix_norm":
            order = draw(st.sampled_from(["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf]))
            return (draw(square(FLOATING)),), {"ord": order, "keepdims": draw(st.booleans())}
        case "matrix_power":
            return (draw(square(FLOATING)), draw(st.integers(-2, 3))), {}
        case "solve":
            x = draw(square(FLOATING))
            return (x, draw(arrays([x.dtype.name], [(3,), (3, 2)], **exact))), {}
        case "cross":
            dtype = draw(st.sampled_from(NUMERIC))
            shapes = [(3,), (2, 3)]
            return tuple(draw(arrays([dtype], shapes, **exact)) for _ in range(2)), {}
        case "outer":
            return tuple(draw(arrays(NUMERIC, [(3,), (2,)], **exact)) for _ in range(2)), {}
        case "diagonal":
            return (draw(arrays(shapes=[(2, 3), (2, 1, 3)])),), {"offset": draw(st.integers(-2, 3))}
        case "trace":
            x = draw(arrays(NUMERIC, [(2, 3), (2, 1, 3)], **exact))
            return (x,), {"offset": draw(st.integers(-1, 2))}
        case "vector_norm":
            x = draw(arrays(FLOATING, [(3,), (2, 3)], **exact))
            order = draw(st.sampled_from([2, 1, 3, 0, math.inf, -math.inf]))
            return (x,), {"axis": draw(axis_of(x.ndim, several=False)), "ord": order}
    raise LookupError(f"linalg.{name}: no strategy for its arguments")


def fft_arguments(draw: st.DrawFn, name: str) -> Any:
    exact = {"exact": True, "low": -4, "high": 4}
    match name:
        case "fftfreq" | "rfftfreq":
            dtype = draw(st.none() | st.sampled_from([DTYPES[n] for n in FLOATS]))
            return (draw(st.integers(1, 6)),), {"d": draw(st.integers(1, 5)) / 4, "dtype": dtype}
        case "fftshift" | "ifftshift":
            x = draw(arrays(names_of(f"fft.{name}"), [(3,), (2, 3)]))
            return (x,), {"axes": draw(axis_of(x.ndim))}
    x = draw(arrays(names_of(f"fft.{name}"), [(4,), (2, 3)], **exact))
    norm = draw(st.sampled_from(["backward", "ortho", "forward"]))
    if name.endswith("n"):
        return (x,), {"norm": norm}
    kwargs = {"n": draw(st.none() | st.integers(1, 6)), "norm": norm}
    return (x,), kwargs | {"axis": draw(axis_of(x.ndim, several=False, none=False))}
