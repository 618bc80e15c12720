"""What the tests of the namespace share: strategies, an oracle, and a comparison that is strict.

The oracle is `array_api_strict`, which computes with NumPy and promotes as the standard does.
Where its special cases are not the standard's, the tests write the standard's values down instead.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any, Final

import array_api_strict
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import corepy
import corepy.array_api as xp
from conformance.make_signatures import TABLE
from corepy._dtypes import DTYPES, DType

array_api_strict.set_array_api_strict_flags(api_version="2025.12")

#: Hypothesis' strategies, which make their arrays in the backend that has the priority.
xps: Final = make_strategies_namespace(xp, api_version="2024.12")

STANDARD: Final = json.loads(Path(TABLE).read_text(encoding="utf-8"))

#: Every function of the standard, those of the extensions with their prefix.
FUNCTIONS: Final = [
    *(name for chapter in STANDARD["chapters"].values() for name in chapter),
    *(
        f"{extension}.{name}"
        for extension, names in STANDARD["extensions"].items()
        for name in names
    ),
]
NAMES: Final = tuple(DTYPES)
INTEGERS: Final = tuple(name for name, dtype in DTYPES.items() if dtype.rank == 1)
FLOATS: Final = ("float32", "float64")
COMPLEX: Final = ("complex64", "complex128")
REALS: Final = (*INTEGERS, *FLOATS)
FLOATING: Final = (*FLOATS, *COMPLEX)
NUMERIC: Final = (*REALS, *COMPLEX)

#: Relative error that two right implementations may differ by, a few units in the last place.
TOLERANCE: Final = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}


def function(name: str, namespace: Any = xp) -> Any:
    """Return a function of a namespace by its name, such as ``"linalg.det"``."""
    extension, _, plain = name.rpartition(".")
    return getattr(getattr(namespace, extension) if extension else namespace, plain)


# ---------------------------------------------------------------------------- the oracle


def to_numpy(value: Any) -> Any:
    """Return the values of an array of corepy or of the oracle as a NumPy array."""
    if isinstance(value, corepy.Array):
        return np.array(value)
    return np.asarray(value._array)


def translate(value: Any) -> Any:
    """Turn an argument of corepy into the oracle's: arrays, dtypes, and sequences of them."""
    if isinstance(value, corepy.Array):
        return array_api_strict.asarray(to_numpy(value))
    if isinstance(value, DType):
        return getattr(array_api_strict, value.name)
    if isinstance(value, (tuple, list)):
        return type(value)(translate(item) for item in value)
    return value


def oracle(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return what `array_api_strict` gives for the same arguments."""
    with np.errstate(all="ignore"):
        return function(name, array_api_strict)(
            *map(translate, args), **{key: translate(value) for key, value in kwargs.items()}
        )


def agrees(name: str, *args: Any, tolerance: float | None = None, **kwargs: Any) -> Any:
    """Assert that a function of corepy gives what the oracle gives; return the result."""
    result = function(name)(*args, **kwargs)
    assert_same(result, oracle(name, *args, **kwargs), tolerance)
    return result


def assert_same(result: Any, expected: Any, tolerance: float | None = None) -> None:
    """Assert equal structure, dtypes, shapes and values; see `assert_values`."""
    if isinstance(expected, (tuple, list)):
        assert isinstance(result, tuple)
        assert len(result) == len(expected)
        for part, wanted in zip(result, expected, strict=True):
            assert_same(part, wanted, tolerance)
        return
    assert type(result) is corepy.Array
    values = to_numpy(expected)
    assert result.dtype.name == values.dtype.name
    assert_values(result, values, tolerance)


def assert_values(
    result: corepy.Array, expected: Any, tolerance: float | None = None, *, zeros: bool = False
) -> None:
    """Assert shape and values: NaN where NaN is due, infinities exactly, the rest closely.

    Parameters
    ----------
    tolerance : float or None
        Of the greatest magnitude of the result. By default a few units in the last place of each
        element.
    zeros : bool
        Whether the signs of zeros must be the expected ones.
    """
    wanted = np.asarray(expected)
    values = to_numpy(result)
    assert values.dtype.name == result.dtype.name
    assert values.shape == wanted.shape
    # Lazy backends know some sizes only when they have computed.
    assert [n if n is not None else m for n, m in zip(result.shape, wanted.shape, strict=True)] == [
        *wanted.shape
    ]
    if values.dtype == wanted.dtype and values.tobytes() == wanted.tobytes():
        return  # looked at first: what follows takes many times as long
    if result.dtype.rank < 2:
        assert values.tolist() == wanted.tolist()
        return
    if result.dtype.rank == 3:
        wanted = wanted.astype(complex)
    finite = np.isfinite(wanted)
    for part, want in zip(_parts(values), _parts(wanted), strict=True):
        np.testing.assert_array_equal(part[~finite], want[~finite])
        if zeros:
            at = finite & (want == 0)
            np.testing.assert_array_equal(np.signbit(part[at]), np.signbit(want[at]))
    assert np.isfinite(values[finite]).all()
    # Of a complex number the error is relative to the modulus: either part may cancel.
    error, size = np.abs(values[finite] - wanted[finite]), np.abs(wanted[finite])
    if tolerance is None:
        allowed = TOLERANCE[result.dtype.name] * size + _tiny(result)
    else:
        allowed = tolerance * max(1.0, float(size.max(initial=0.0)))
    np.testing.assert_array_less(error, np.nextafter(allowed, np.inf))


def _parts(values: Any) -> list[Any]:
    return [values.real, values.imag] if values.dtype.kind == "c" else [values]


def _tiny(x: corepy.Array) -> float:
    """Return a magnitude below which results may differ: where the format loses digits."""
    return float(np.finfo(x.dtype.name).smallest_normal) * 4


# ---------------------------------------------------------------------------- strategies


def elements(dtype: DType, bound: float | None = None) -> st.SearchStrategy[Any]:
    """Draw scalars of a dtype; finite ones of at most a magnitude where `bound` is given."""
    # XLA flushes them to zero, so that they do not even differ from it.
    subnormal = not compiles()
    match dtype.kind:
        case "b":
            return st.booleans()
        case "i" | "u":
            low, high = corepy._dtypes.integer_range(dtype)
            if bound is not None:
                low, high = max(low, -int(bound)), min(high, int(bound))
            return st.integers(low, high)
        case "f":
            if bound is None:
                return st.floats(width=dtype.bits, allow_subnormal=subnormal)
            return st.floats(-bound, bound, width=dtype.bits, allow_subnormal=False)
    width = dtype.bits
    if bound is None:
        return st.complex_numbers(width=width, allow_subnormal=subnormal)
    part = st.floats(-bound, bound, width=width // 2, allow_subnormal=False)
    return st.builds(complex, part, part)


#: Shapes, and some that broadcast with each other, for backends that compile for each shape.
#: `tests/test_same_meaning.py` gives them more.
FEW_SHAPES: Final = ((), (0,), (3,), (2, 3))
FEW_BROADCASTABLE: Final = ((2, 1), (3,), ())
FEW_PAIRS: Final = (((2, 1), (3,)), ((3,), ()), ((), (2, 1)), ((0,), (3, 1)))


def compiles() -> bool:
    """Say whether the backend in use is XLA's, which compiles for each shape, 20 ms a time."""
    first = next(iter(corepy.get_backend_priority()), "")
    return first.partition(":")[0] == "jax"


@st.composite
def shapes(
    draw: st.DrawFn, min_dims: int = 0, max_dims: int = 3, min_side: int = 0
) -> tuple[int, ...]:
    """Draw shapes so small that the reference backend computes with them quickly."""
    if not compiles():
        drawn = xps.array_shapes(
            min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=3
        )
        return draw(drawn)
    return draw(
        st.sampled_from(
            [
                shape
                for shape in FEW_SHAPES
                if min_dims <= len(shape) <= max_dims and min(shape, default=min_side) >= min_side
            ]
        )
    )


@st.composite
def broadcastable(draw: st.DrawFn, count: int) -> tuple[tuple[int, ...], ...]:
    """Draw shapes that broadcast with each other."""
    if compiles():
        first = draw(st.integers(0, len(FEW_BROADCASTABLE) - 1))
        return tuple(itertools.islice(itertools.cycle(FEW_BROADCASTABLE), first, first + count))
    return draw(xps.mutually_broadcastable_shapes(count, max_dims=3, max_side=3)).input_shapes


@st.composite
def arrays(
    draw: st.DrawFn,
    dtypes: tuple[str, ...] = NAMES,
    shape: Any = None,
    bound: float | None = None,
) -> corepy.Array:
    """Draw an array of one of some dtypes; finite where `bound` is given."""
    dtype = DTYPES[draw(st.sampled_from(dtypes))]
    size = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    if size is None:
        size = draw(shapes())
    count = math.prod((size,) if isinstance(size, int) else size)
    values = draw(st.lists(elements(dtype, bound), min_size=count, max_size=count))
    return xp.reshape(xp.asarray(values, dtype=dtype), size)


@st.composite
def axes(draw: st.DrawFn, ndim: int, *, several: bool = True) -> Any:
    """Draw an axis argument: None, one axis, or some of them, of either sign."""
    choices: list[st.SearchStrategy[Any]] = [st.none()]
    if ndim:
        choices.append(st.integers(-ndim, ndim - 1))
    if several:
        picked = st.lists(st.integers(0, ndim - 1), unique=True) if ndim else st.just([])
        choices.append(picked.map(lambda found: tuple(a - ndim if a % 2 else a for a in found)))
    return draw(st.one_of(choices))
