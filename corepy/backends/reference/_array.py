"""The reference backend's native array: a flat Python list, a shape and a dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from corepy._dtypes import DType

Value: TypeAlias = "bool | int | float | complex"
Nested: TypeAlias = "Value | list[Nested]"


def _nested(values: list[Value], shape: tuple[int, ...], first: int, count: int) -> Nested:
    """Return values of a shape as nested lists: so many from the first on."""
    if not shape:
        return values[first]
    step = count // shape[0] if shape[0] else 0
    return [_nested(values, shape[1:], first + i * step, step) for i in range(shape[0])]


class ReferenceArray:
    """A plain container, in row-major order, without arithmetic of its own.

    Comparison with ``==`` is Python's, not elementwise: two of them are equal when shape, dtype
    and values are, and one equals a nested list or a scalar when its values are.

    Attributes
    ----------
    values : list
        Python scalars of the dtype's kind, already rounded to its precision.
    shape : tuple of int
    dtype : DType
    """

    __slots__ = ("dtype", "shape", "values")

    def __init__(self, values: list[Value], shape: tuple[int, ...], dtype: DType) -> None:
        if len(values) != math.prod(shape):
            raise ValueError(
                f"ReferenceArray: values has {len(values)} elements; "
                f"expected {math.prod(shape)} for shape {shape}"
            )
        self.values = values
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return len(self.values)

    def tolist(self) -> Nested:
        """Return the values as nested lists, or as a scalar when 0-D."""
        return _nested(self.values, self.shape, 0, len(self.values))

    def __iter__(self) -> Iterator[Nested]:
        nested = self.tolist()
        if not isinstance(nested, list):
            raise TypeError("iter: x has 0 dimensions; expected at least 1")
        return iter(nested)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len: x has 0 dimensions; expected at least 1")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ReferenceArray):
            same = self.dtype is other.dtype and self.shape == other.shape
            return same and self.values == other.values
        if isinstance(other, (list, bool, int, float, complex)):
            return self.tolist() == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ReferenceArray({self.tolist()!r}, shape={self.shape}, dtype={self.dtype})"
