"""Set functions. Unique values come sorted; each NaN is distinct, the two zeros are one value."""

from __future__ import annotations

from typing import Any, NamedTuple

from corepy import _dtypes
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._operands import ArrayLike, as_array, promote

__all__ = [
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
    "isin",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAll(NamedTuple):
    """Unique values, where each occurs first, which of them each element is, how often each."""

    values: ReferenceArray
    indices: ReferenceArray
    inverse_indices: ReferenceArray
    counts: ReferenceArray


class UniqueCounts(NamedTuple):
    """Unique values, and how often each occurs."""

    values: ReferenceArray
    counts: ReferenceArray


class UniqueInverse(NamedTuple):
    """Unique values, and which of them each element is."""

    values: ReferenceArray
    inverse_indices: ReferenceArray


def isin(x1: ArrayLike, x2: ArrayLike, /, *, invert: bool = False) -> ReferenceArray:
    """Test for each element of `x1` whether `x2` has it.

    Parameters
    ----------
    x1, x2 : array or scalar
        Of dtypes that promote together.
    invert : bool
        Whether to test for absence.

    Returns
    -------
    array
        bool, of the shape of `x1`. NaN equals nothing.

    Raises
    ------
    TypeError
        If the dtypes do not promote.
    """
    first, second = promote("isin", x1=x1, x2=x2)
    # A set finds an object that is in it even where that equals nothing, not even itself.
    members = {value for value in second.values if value == value}  # noqa: PLR0124
    found: list[Value] = [(value in members) is not invert for value in first.values]
    return ReferenceArray(found, first.shape, _dtypes.bool)


def unique_all(x: ArrayLike, /) -> UniqueAll:
    """Return the unique values of the flattened array with all that is known of them.

    Returns
    -------
    UniqueAll
        ``values`` sorted, NaNs last, 1-D, of the dtype of `x`; ``indices`` and ``counts`` int64
        of the same shape; ``inverse_indices`` int64 of the shape of `x`. Of the two zeros, the
        one that occurs first stands for both.
    """
    x = as_array("unique_all", "x", x)
    firsts: list[Value] = []
    counts: list[int] = []
    inverse: list[Value] = [0] * x.size
    previous: Any = None
    for place in sorted(range(x.size), key=[_key(value) for value in x.values].__getitem__):
        value = x.values[place]
        if not firsts or value != previous:
            firsts.append(place)
            counts.append(0)
            previous = value
        counts[-1] += 1
        inverse[place] = len(firsts) - 1
    shape = (len(firsts),)
    return UniqueAll(
        ReferenceArray([x.values[i] for i in firsts], shape, x.dtype),  # type: ignore[index]
        ReferenceArray(firsts, shape, _dtypes.int64),
        ReferenceArray(inverse, x.shape, _dtypes.int64),
        ReferenceArray(list(counts), shape, _dtypes.int64),
    )


def _key(value: Value) -> tuple[bool, float, float]:
    """Order by real and then imaginary part; NaNs last, in the order in which they come."""
    if value != value:  # noqa: PLR0124
        return True, 0, 0
    if isinstance(value, complex):
        return False, value.real, value.imag
    return False, value, 0


def unique_counts(x: ArrayLike, /) -> UniqueCounts:
    """Return the unique values of the flattened array, and how often each occurs."""
    found = unique_all(as_array("unique_counts", "x", x))
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: ArrayLike, /) -> UniqueInverse:
    """Return the unique values of the flattened array, and which of them each element is."""
    found = unique_all(as_array("unique_inverse", "x", x))
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: ArrayLike, /) -> ReferenceArray:
    """Return the unique values of the flattened array, sorted, NaNs last."""
    return unique_all(as_array("unique_values", "x", x)).values
