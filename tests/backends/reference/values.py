"""What the tests of the reference backend share: values to try, and strict comparisons."""

from __future__ import annotations

import math
import random
from typing import Any, Final

import numpy as np

from corepy._dtypes import DTYPES, DType, as_dtype
from corepy.backends.reference import ReferenceArray

INF: Final = math.inf
NAN: Final = math.nan

#: Floats where functions change what they do.
EDGES: Final = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5),
    *(1e300, -1e300, 1e-300, -1e-300, 5e-324, -5e-324, INF, -INF, NAN),
]

NUMPY_NAMES: Final = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "concat": "concatenate",
    "permute_dims": "transpose",
    "pow": "power",
}


def same(a: Any, b: Any) -> bool:
    """Say whether two scalars are the same value: NaN is itself, and zeros have their sign."""
    if isinstance(a, complex) or isinstance(b, complex):
        a, b = complex(a), complex(b)
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a != a or b != b:
        return a != a and b != b
    return bool(a == b) and math.copysign(1.0, a) == math.copysign(1.0, b)


def assert_same(found: ReferenceArray, expected: Any) -> None:
    """Compare with a NumPy array: dtype, shape and every value, bit for bit but for NaNs."""
    expected = np.asarray(expected)
    assert found.dtype is as_dtype(expected.dtype)
    assert found.shape == expected.shape
    for i, (a, b) in enumerate(zip(found.values, expected.ravel().tolist(), strict=True)):
        assert same(a, b), f"element {i}: {a!r}, expected {b!r}"
        assert type(a) is type(b)


def assert_close(found: ReferenceArray, expected: Any, ulps: float = 1.0) -> None:
    """Compare floats with a NumPy array to some units in the last place of its dtype."""
    expected = np.asarray(expected)
    assert found.dtype is as_dtype(expected.dtype)
    assert found.shape == expected.shape
    spacing = np.spacing(np.abs(expected)).ravel().tolist()
    pairs = zip(found.values, expected.ravel().tolist(), spacing, strict=True)
    for i, (a, b, unit) in enumerate(pairs):
        close = same(a, b) or abs(a - b) <= ulps * unit
        assert close, f"element {i}: {a!r}, expected {b!r}"


def from_numpy(array: Any) -> ReferenceArray:
    """Make a reference array of a NumPy array, without the backend under test."""
    array = np.asarray(array)
    return ReferenceArray(array.ravel().tolist(), array.shape, as_dtype(array.dtype))


def sample(shape: tuple[int, ...], dtype: DType | str, seed: int = 0) -> Any:
    """Make a NumPy array of random values, the same for the same seed."""
    dtype = as_dtype(dtype)
    rng = random.Random(f"{shape}{dtype}{seed}")
    size = math.prod(shape)
    if dtype.kind == "b":
        values: list[Any] = [rng.random() < 0.5 for _ in range(size)]
    elif dtype.rank == 1:
        low = -50 if dtype.kind == "i" else 0
        values = [rng.randint(low, 50) for _ in range(size)]
    elif dtype.rank == 2:
        values = [rng.uniform(-10, 10) for _ in range(size)]
    else:
        values = [complex(rng.uniform(-10, 10), rng.uniform(-10, 10)) for _ in range(size)]
    return np.array(values, dtype.name).reshape(shape)


ALL_DTYPES: Final = list(DTYPES)
