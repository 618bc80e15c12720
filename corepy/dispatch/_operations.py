"""What the dispatcher knows of each operation: the dtypes it takes and the dtype it gives.

The chapters of `corepy.array_api` declare their operations here as they define their functions.
Backends name those that take another function than the library's own of that name; MLX, tinygrad
and the reference all that they run, and Dask all that are elementwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.dispatch._hot import shortened

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the standard.

    Attributes
    ----------
    name : str
        Key in the tables: ``"add"``, ``"linalg.cholesky"``, ``"__getitem__"``.
    dtypes : frozenset of DType
        Dtypes of the (promoted) operands.
    result : callable or None
        Dtype of the result by that of the operands; None where the native result tells.
    argument : str
        The operand that a message about dtypes names.
    widened : frozenset of DType
        Dtypes that the standard leaves open, and that become the default floating-point one first
        (outside strict mode).
    """

    name: str
    dtypes: frozenset[DType]
    result: Callable[[DType], DType] | None = None
    argument: str = "x"
    widened: frozenset[DType] = frozenset()

    @property
    def label(self) -> str:
        """The name as messages show it, without its extension."""
        return self.name.rpartition(".")[2]


OPERATIONS: Final[dict[str, Operation]] = {}


def declare(
    name: str,
    dtypes: frozenset[DType],
    result: Callable[[DType], DType] | None = None,
    argument: str = "x",
    widened: frozenset[DType] = frozenset(),
) -> Operation:
    """Enter an operation into `OPERATIONS`."""
    return OPERATIONS.setdefault(name, Operation(name, dtypes, result, argument, widened))


def operation(
    dtypes: frozenset[DType] = _dtypes.ANY,
    result: Callable[[DType], DType] | None = None,
    *,
    extension: str = "",
    argument: str = "x",
    into: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Declare a chapter's function as an operation of the same name.

    Parameters
    ----------
    dtypes : frozenset of DType
        Dtypes its operands may have.
    result : callable or None
        Dtype of every result by that of the operands; None where the native result tells.
    extension : str
        ``"linalg"`` or ``"fft"`` for a function of an extension.
    argument : str
        The operand that a message about dtypes names.
    into : callable or None
        What makes one result of several arrays.
    """

    def decorate(function: F) -> F:
        name = f"{extension}.{function.__name__}" if extension else function.__name__
        declare(name, dtypes, result, argument)
        return shortened(name, function, into)

    return decorate


def same(dtype: DType) -> DType:
    """The result has the dtype of the operands."""
    return dtype


def to_bool(dtype: DType) -> DType:
    """The result is boolean."""
    return _dtypes.bool


def to_index(dtype: DType) -> DType:
    """The result holds indices or counts."""
    return _dtypes.int64


def to_real(dtype: DType) -> DType:
    """The result has the dtype of the real part."""
    return _dtypes.real_of(dtype)
