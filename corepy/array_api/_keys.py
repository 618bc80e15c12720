"""Index keys: checked against the standard and turned into native keys.

https://data-apis.org/array-api/2025.12/API_specification/indexing.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from corepy import _dtypes
from corepy._errors import bad_type, beyond, out_of_range, told, unfit
from corepy._signals import suppressed
from corepy.devices._device import CPU
from corepy.dispatch import (
    STRICT,
    Operand,
    as_companion,
    cast_to,
    gathered,
    is_numpys_scalar,
    owner_of,
)
from corepy.dispatch._short_arrays import is_slice

if TYPE_CHECKING:
    from corepy.array_api._array import Array

_EXPECTED = "an int, slice, Ellipsis, None or Array"


def is_plain(key: Any) -> bool:
    """Say whether a key is an int or a slice of ints, which every library takes as it is."""
    return is_slice(key) if key.__class__ is slice else key.__class__ is int


def native_key(function: str, x: Array, key: Any) -> Any:
    """Return a key whose arrays are native arrays of the backend of `x`.

    Parameters
    ----------
    function : str
        ``"__getitem__"`` or ``"__setitem__"``, for messages.
    x : Array
        The array that is indexed.
    key : object

    Raises
    ------
    IndexError
        If there are more indices than dimensions, or more than one Ellipsis.
    ValueError
        If the step of a slice is 0.
    TypeError
        If a part of the key is of another type. In strict mode, ``IndexError`` for every key that
        the standard leaves open.
    """
    if isinstance(key, Operand) and not STRICT.touched:  # one mask, or one array of indices
        table, home = key._table, x._table
        if table.backend is home.backend and table.device is home.device:
            shape, rank = x.shape, table.dtype.rank
            if rank == 0 and _shape(x, key._native) <= len(shape):
                return key._native
            if rank == 1 and shape and 0 not in shape and table.dtype is not _dtypes.uint64:
                return key._native
    parts = key if isinstance(key, tuple) else (key,)
    parts = tuple(_part(function, x, part) for part in parts)
    masks = [_is_array(x, part) and _rank(x, part) == 0 for part in parts]
    ellipses = sum(part is Ellipsis for part in parts)
    if ellipses > 1:
        raise IndexError(f"{function}: key has {ellipses} Ellipsis; expected at most one")
    used = sum(
        _shape(x, part) if mask else part is not None and part is not Ellipsis
        for part, mask in zip(parts, masks, strict=True)
    )
    if used > x.ndim:
        raise IndexError(
            f"{function}: key has {used} indices; expected at most {x.ndim} for shape {x.shape}"
        )
    if STRICT.get():
        _strictly(function, x, parts, any(masks), bool(ellipses) or used == x.ndim)
    if 0 in x.shape or _is_nothing(x, parts, masks):
        _within(function, x, parts)
    return parts if isinstance(key, tuple) and masks != [True] else parts[0]


def _part(function: str, x: Array, part: Any) -> Any:
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        bounds = (part.start, part.stop, part.step)
        start, stop, step = (b if b is None else _bound(function, b) for b in bounds)
        if step == 0:
            raise ValueError(f"{function}: key has a slice whose step is 0; expected another")
        return slice(start, stop, step)
    if not isinstance(part, Operand):
        if part.__class__ is bool and not STRICT.get():
            part = _flag(part)
        if owner_of(part) is None:
            return _int(function, part)
        given, part = part, as_companion(function, "key", part, x._table)
        if part._table.dtype.rank == 1 and is_numpys_scalar(given):
            return _int(function, given)
    dtype = part._table.dtype
    if dtype.rank > 1:
        raise IndexError(
            f"{function}: key has dtype {dtype} on {part._table.device}; expected an integer or "
            f"bool dtype"
        )
    return signed(gathered(function, "x", x._table, "key", part))._native


def _flag(part: bool) -> Any:
    """Return a truth value, such as a comparison of Python's numbers gives, as one of NumPy's."""
    import numpy as np

    return np.bool_(part)


def signed(indices: Any) -> Any:
    """Return indices of uint64 as int64: those that it does not hold, as one that no axis has.

    Libraries let them wrap around, to indices that count from the end.
    """
    if indices.dtype is not _dtypes.uint64:
        return indices
    from corepy.array_api._searching import where

    found = cast_to(indices, _dtypes.int64)
    return where(found < 0, 2**63 - 1, found)


def _is_nothing(x: Array, parts: tuple[Any, ...], masks: list[bool]) -> bool:
    """Say whether arrays of indices stand beside an array that selects nothing, as far as one sees.

    Off the host one would wait for masks, and traced ones have no values.
    """
    arrays = [(part, mask) for part, mask in zip(parts, masks, strict=True) if _is_array(x, part)]
    if len(arrays) < 2 or all(mask for _, mask in arrays):
        return False
    backend = x._table.backend
    if any(0 in backend.shape_of(part) for part, _ in arrays):
        return True
    if x._table.device is not CPU:
        return False
    chosen = [part for part, mask in arrays if mask and backend.outline(part) is None]
    return not all(backend.peek(part).any() for part in chosen)


def _within(function: str, x: Array, parts: tuple[Any, ...]) -> None:
    """Check arrays of indices where nothing is to be copied: libraries then look at none."""
    backend = x._table.backend
    shape = backend.shape_of(x._native)
    spread = [
        part
        for part in parts
        for _ in range(_shape(x, part) if _is_array(x, part) and _rank(x, part) == 0 else 1)
    ]
    for axis, (part, length) in enumerate(zip(_by_axis(spread, x.ndim), shape, strict=False)):
        if length is None or not _is_array(x, part) or not _rank(x, part):
            continue
        if backend.outline(part) is None:
            for index in backend.peek(part).flat:
                if not -length <= index < length:
                    raise beyond(index, axis, length, function)


def refusal(function: str, x: Array, key: Any, error: Exception, value: Any = None) -> Exception:
    """Return what to raise of a native key, or value, that a library refused, alike for all."""
    keyed = isinstance(error, IndexError | OverflowError)  # of integers beyond 64 bits
    argument = "key" if keyed or value is None else "value"
    text = told(function, argument, error)
    with suppressed(Exception):  # as of what JAX traces, and of sizes that are not known
        # No name for the cause, whose frames hold this one.
        text = told(function, argument, _cause(x, key, error, None if keyed else value))
    return (IndexError if keyed else ValueError)(text)


def _cause(x: Array, key: Any, error: Exception, value: Any) -> Exception:
    """Return what NumPy says of a key to such an array, or what is wrong with a value's shape."""
    import numpy as np

    backend: Any = x._table.backend
    parts = key if isinstance(key, tuple) else (key,)
    arrays = [_is_array(x, part) for part in parts]
    if any(arrays) and x._table.device is not CPU:  # to look at which would wait
        return error
    host = tuple(backend.peek(p) if a else p for p, a in zip(parts, arrays, strict=True))
    try:  # with as many elements, in the memory of one
        chosen = np.broadcast_to(np.False_, backend.shape_of(x._native))[host].shape
    except IndexError as found:
        return error if value is not None else found
    if value is not None:
        shape = backend.shape_of(value)
        try:
            np.broadcast_to(np.broadcast_to(np.False_, shape), chosen)
        except ValueError:
            return unfit(shape, chosen)
    return error


def _bound(function: str, value: Any) -> int:
    """Return a bound of a slice, no further away than the integers of 64 bits reach."""
    found = _index(function, value, "a bound of a slice in key", "an int or None")
    return max(-_FAR, min(_FAR, found))


def _int(function: str, value: Any) -> int:
    index = _index(function, value)
    if not -(2**63) <= index < 2**63:
        raise out_of_range(function, "key", value, "an index within the array")
    return index


def _index(function: str, value: Any, argument: str = "key", expected: str = _EXPECTED) -> int:
    if isinstance(value, (bool, float, complex, str, list)) or not hasattr(value, "__index__"):
        raise bad_type(function, argument, value, expected)
    try:
        index: int = value.__index__()
    except TypeError:  # arrays of other libraries have the method, whatever their shape
        raise bad_type(function, argument, value, expected) from None
    return index


#: Beyond every axis.
_FAR: Final = 2**62


def _is_array(x: Array, part: Any) -> bool:
    return not isinstance(part, (int, slice)) and x._table.backend.owns(part)


def _rank(x: Array, part: Any) -> int:
    return x._table.backend.dtype_of(part).rank


def _shape(x: Array, mask: Any) -> int:
    return len(x._table.backend.shape_of(mask))


def _strictly(function: str, x: Array, parts: tuple[Any, ...], masked: bool, full: bool) -> None:
    """Refuse what the standard leaves open."""
    arrays = [_is_array(x, part) for part in parts]
    if masked:
        if len(parts) > 1:
            raise IndexError(
                f"{function}: key has a boolean array beside others; expected it alone "
                f"(strict mode)"
            )
        return
    if any(arrays) and not all(a or isinstance(p, int) for a, p in zip(arrays, parts, strict=True)):
        raise IndexError(
            f"{function}: key has an integer array beside slices; expected only integers and "
            f"integer arrays (strict mode)"
        )
    if any(arrays) and function == "__setitem__":
        raise IndexError(
            f"{function}: key has an integer array; expected ints and slices, or a boolean array "
            f"(strict mode)"
        )
    if not full:
        raise IndexError(
            f"{function}: key has fewer indices than the {x.ndim} dimensions of x; expected one "
            f"for each, or an Ellipsis (strict mode)"
        )
    for part, length in zip(_by_axis(parts, x.ndim), x.shape, strict=True):
        if isinstance(part, slice) and length is not None:  # on lazy backends nobody knows yet
            _slice_within(function, part, length)


def _by_axis(parts: Sequence[Any], ndim: int) -> list[Any]:
    """Return the part that indexes each axis, Ellipsis spelt out."""
    indices = [part for part in parts if part is not None]
    if Ellipsis in [part if part is Ellipsis else 0 for part in indices]:
        at = next(i for i, part in enumerate(indices) if part is Ellipsis)
        missing = ndim - (len(indices) - 1)
        indices[at : at + 1] = [slice(None)] * missing
    return indices


def _slice_within(function: str, part: slice, length: int) -> None:
    """Refuse bounds beyond the axis, which libraries may clip or not."""
    step = 1 if part.step is None else part.step
    low, high = (-length, length) if step > 0 else (-length - 1, max(0, length - 1))
    for name, bound, least, most in (
        ("start", part.start, -length, length if step > 0 else max(0, length - 1)),
        ("stop", part.stop, low, high),
    ):
        if bound is not None and not least <= bound <= most:
            raise IndexError(
                f"{function}: key has a slice whose {name} is {bound}; expected {least} to {most} "
                f"for an axis of size {length} (strict mode)"
            )
