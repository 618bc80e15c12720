"""What the tests of linear algebra share: matrices to try, and comparisons by norm."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from corepy.backends.reference import ReferenceArray

FLOATING: Final = ("float32", "float64", "complex64", "complex128")
#: Matrices that break algorithms: by name, as nested lists.
DEGENERATE: Final = {
    "zero": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "identity": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "ones": [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
    "exchange": [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
    "rank two": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]],
    "zero column": [[0.0, 3.0, 1.0], [0.0, 4.0, 1.0], [0.0, 0.0, 2.0]],
    "repeated": [[3.0, 1.0, -1.0], [1.0, 3.0, -1.0], [-1.0, -1.0, 3.0]],
    "graded": [[1e200, 1.0, 0.0], [1.0, 1e-200, 0.0], [0.0, 0.0, 1e-300]],
    "one": [[-2.5]],
    "wide": [[0.0, 0.0, 0.0], [0.0, 3.0, 3.0]],
    "tall": [[0.0, 1.0], [0.0, 2.0], [0.0, 2.0]],
    "row": [[3.0, 4.0]],
}
SQUARE: Final = [name for name, rows in DEGENERATE.items() if len(rows) == len(rows[0])]


def to_numpy(x: ReferenceArray) -> Any:
    return np.array(x.values, dtype=x.dtype.name).reshape(x.shape)


def sample(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if "complex" in dtype else x).astype(dtype)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def assert_close(actual: Any, expected: Any, ulps: float = 16.0) -> None:
    """Compare to some units in the last place of the greatest element of each array."""
    actual = to_numpy(actual) if isinstance(actual, ReferenceArray) else actual
    assert actual.shape == np.shape(expected)
    size = np.max(np.abs(expected), initial=0.0)
    tolerance = ulps * np.finfo(actual.dtype).eps * size
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def wide(x: ReferenceArray) -> Any:
    """Return the values of an array in the widest precision that NumPy multiplies in."""
    return to_numpy(x).astype(np.clongdouble)
