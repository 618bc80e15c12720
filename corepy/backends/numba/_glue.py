"""How operations are made: NumPy's function for small operands, and what a loop does not take.

An operation of this backend is a function with three attributes:

``small``
    The NumPy backend's callable.
``least``
    The number of elements from which anything else may run. Where no operand has as many,
    whoever calls may as well call `small`.
``own``
    What runs then; it returns None for operands that are `small`'s after all: of another dtype or
    layout, or too few for their dtype.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from corepy.backends._extents import EXTENTS
from corepy.backends._numpy import NumPyBackend

Array = npt.NDArray[Any]
Own = Callable[..., Any]

_Array: Final = np.ndarray
_NUMPY: Final = NumPyBackend()


class Operation(Protocol):
    """An operation with a loop of its own, from some size on."""

    __name__: str
    small: Callable[..., Any]
    least: int
    own: Own

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Run it."""


def forced() -> int | None:
    """Return the one least size of all loops that a private setting for the tests asks for."""
    text = os.environ.get("COREPY_NUMBA_THRESHOLD")
    if text is None:
        return None
    if not text.isdecimal():
        raise ValueError(f"COREPY_NUMBA_THRESHOLD is {text!r}; expected a number of elements")
    return max(1, int(text))


FORCED: Final = forced()


def size_from(size: int) -> int:
    """Return from how many elements a loop runs that pays from `size` on."""
    return size if FORCED is None else FORCED


@cache
def numpys(name: str) -> Callable[..., Any]:
    """Return what the NumPy backend runs."""
    function = _NUMPY.operation(name)
    if function is None:
        raise LookupError(f"{name}: the NumPy backend has no such operation")
    return function


#: Where NumPy has written its functions for registers of 512 bits, they are as fast as ours.
_WIDE: Final = ("X86_V4", "AVX512_SKX", "AVX512F")


def fills_wide_registers(name: str, dtype: np.dtype[Any]) -> bool:
    """Say whether NumPy's own loop for a function fills wide vector registers here."""
    from numpy.lib import introspect

    found = introspect.opt_func_info(func_name=f"^{name}$", signature=f"^{dtype.name}$")
    return any(
        target.get("current") in _WIDE
        for signatures in found.values()
        for target in signatures.values()
    )


def operation(name: str, least: int) -> Callable[[Own], Operation]:
    """Make an operation of a function that returns None where its loop does not apply.

    Parameters
    ----------
    name : str
        The operation of the NumPy backend that runs then.
    least : int
        The elements that an operand has to have for the function to be asked; the result, where
        none is an array.
    """
    small, least, extent = numpys(name), size_from(least), EXTENTS.get(name)

    def decorate(own: Own) -> Operation:
        made: Any
        parameters = signature(own).parameters.values()
        plain = all(each.kind is each.POSITIONAL_ONLY for each in parameters)
        # Without a forwarding of any arguments, which costs as much as a small operation.
        if extent is not None:
            made = _of_extent(own, small, least, extent)
        elif plain and len(parameters) == 1:
            made = _of_one(own, small, least)
        elif plain and len(parameters) == 2:
            made = _of_two(own, small, least)
        elif sum(each.kind is each.POSITIONAL_ONLY for each in parameters) == 1:
            made = _of_one_and_words(own, small, least)
        else:
            made = _of_any(own, small, least)
        made.__name__ = made.__qualname__ = name
        made.__doc__ = own.__doc__
        made.small, made.least, made.own = small, least, own
        found: Operation = made
        return found

    return decorate


def _of_one(own: Own, small: Own, least: int) -> Own:
    def call(x: Array, /) -> Any:
        if x.size >= least:
            found = own(x)
            if found is not None:
                return found
        return small(x)

    return call


def _of_two(own: Own, small: Own, least: int) -> Own:
    def call(x1: Any, x2: Any, /) -> Any:
        # A key is no array always.
        if x1.size >= least or (x2.__class__ is _Array and x2.size >= least):
            found = own(x1, x2)
            if found is not None:
                return found
        return small(x1, x2)

    return call


def _of_one_and_words(own: Own, small: Own, least: int) -> Own:
    def call(x: Array, /, **params: Any) -> Any:
        if x.size >= least:
            found = own(x, **params)
            if found is not None:
                return found
        return small(x, **params)

    return call


def _of_extent(own: Own, small: Own, least: int, extent: Callable[..., int]) -> Own:
    def call(*args: Any, **params: Any) -> Any:
        if extent(*args) >= least:
            found = own(*args, **params)
            if found is not None:
                return found
        return small(*args, **params)

    return call


def _of_any(own: Own, small: Own, least: int) -> Own:
    def call(*operands: Any, **params: Any) -> Any:
        for x in operands:
            if x.__class__ is _Array and x.size >= least:
                found = own(*operands, **params)
                if found is not None:
                    return found
                break
        return small(*operands, **params)

    return call
