"""What `asarray` and `from_dlpack` take: arrays of every library, buffers, nested sequences.

NumPy reads what is no array; what the standard says of dtypes, and clear messages, are added.
"""

from __future__ import annotations

from collections import UserString
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_type
from corepy._signals import let_through
from corepy.array_api._arguments import table_like
from corepy.devices._device import CPU
from corepy.devices._transfer import convert, from_host
from corepy.dispatch import (
    FLOAT32_LIMIT,
    STRICT,
    Operand,
    adopt,
    creation_table,
    get_backend_priority,
    make,
    owner_of,
    run,
)
from corepy.dispatch import _explain as account

if TYPE_CHECKING:
    import numpy as np

    from corepy.array_api._array import Array


_PYTHONS: Final = (bool, int, float, complex)


class NotSharedError(BufferError, ValueError):
    """What `from_dlpack` raises where it would have to copy.

    The standard wants the one error of ``copy``, and the other one of ``device``.
    """


def parse(
    obj: Any, dtype: DType | None, copy: bool | None
) -> tuple[np.ndarray[Any, Any], DType, bool]:
    """Read an object that is no array.

    Parameters
    ----------
    obj : scalar, nested sequence, buffer, or object that converts to a NumPy array
    dtype : DType or None
        The dtype that was asked for.
    copy : bool or None
        False: raise ``ValueError`` where the object would copy its values to convert.

    Returns
    -------
    tuple of (numpy.ndarray, DType, bool)
        The values, their dtype, and whether they share the object's memory.
    """
    import numpy as np

    buffered = _buffer(obj)
    if buffered is None:
        buffered = _convertible_to_numpy(obj, copy)
    if buffered is not None:
        found = _held("asarray", "obj", buffered)
        if dtype is None or dtype is found:
            return buffered, found, True
        _convertible("asarray", found, dtype)
        check_held(buffered, found, dtype)
        return buffered.astype(dtype.name), dtype, False
    if _is_nested(obj):
        obj = _plain(obj)
    elif not isinstance(obj, _PYTHONS):
        raise bad_type(
            "asarray", "obj", obj, "an array, a scalar, a nested sequence of scalars or a buffer"
        )
    values = _read(obj, dtype)
    found = _found(values)
    wanted = dtype or found
    check_held(values, found, wanted)
    if values.dtype == object:  # integers beyond 64 bits, on their way to a floating-point dtype
        return np.array(values, dtype=wanted.name), wanted, False
    return values.astype(wanted.name, copy=False), wanted, False


#: What is converted, by function.
_ARGUMENTS: Final = {"asarray": "obj", "from_dlpack": "x"}


def _convertible(function: str, source: DType, target: DType) -> None:
    """Refuse a dtype that an array's or a buffer's does not become."""
    from corepy.array_api._data_type import CASTS, CONVERSIONS, cast_allowed

    # The standard leaves it open whether floats become integers here. All libraries have it, and
    # programs that were written for them rely on it.
    allowed = CONVERSIONS if STRICT.get() else CASTS
    cast_allowed(function, _ARGUMENTS[function], source, target, allowed)


def _held(function: str, argument: str, values: np.ndarray[Any, Any]) -> DType:
    """Return the dtype of the elements that an object holds."""
    try:
        return _dtypes.as_dtype(values.dtype)
    except TypeError:
        expected = f"one of {', '.join(_dtypes.DTYPES)}"
        raise TypeError(
            f"{function}: {argument} holds {values.dtype}; expected {expected}"
        ) from None


def _buffer(obj: Any) -> np.ndarray[Any, Any] | None:
    import numpy as np

    if isinstance(obj, (bool, int, float, complex, list, tuple, str)):
        return None
    if hasattr(obj, "__array_interface__"):
        if hasattr(obj, "mask"):
            raise bad_type("asarray", "obj", obj, "an array without a mask")
        return np.asarray(obj)
    try:
        view = memoryview(obj)
    except TypeError:
        return None  # not an error: the object has no buffer, and the caller looks further
    return np.asarray(view)


def _convertible_to_numpy(obj: Any, copy: bool | None) -> np.ndarray[Any, Any] | None:
    """Return what an object's own conversion makes of it: pandas, Polars, xarray and others."""
    import numpy as np

    if not hasattr(type(obj), "__array__"):
        return None
    if STRICT.get():
        expected = "an Array, a scalar, a nested sequence or a buffer (strict mode)"
        raise bad_type("asarray", "obj", obj, expected)
    _unmasked("asarray", "obj", obj)
    if copy is not False:
        return np.asarray(obj)
    try:
        return np.asarray(obj, copy=False)
    except (RuntimeError, ValueError) as error:  # the first is what Polars raises
        let_through(error)
        raise ValueError(f"asarray: obj cannot be shared for copy=False: {error}") from error


def _unmasked(function: str, argument: str, obj: object) -> None:
    """Refuse a masked array of NumPy's, whose conversions would rob it of its mask."""
    import numpy as np

    if isinstance(obj, np.ma.MaskedArray):
        raise bad_type(function, argument, obj, "an array without a mask")


def _is_nested(obj: Any) -> bool:
    """Say whether an object is a sequence of elements, as strings are not."""
    if isinstance(obj, (list, tuple)):
        return True
    return isinstance(obj, Sequence) and not isinstance(obj, (str, bytes, bytearray, UserString))


def _plain(obj: Any) -> Any:
    """Replace the arrays in nested sequences by their values, leaving the rest as it is."""
    if _is_nested(obj):
        # Only lists and tuples that hold something unusual are rebuilt; most pass untouched.
        if all(type(item) in (bool, int, float, complex) for item in obj):
            return obj if isinstance(obj, (list, tuple)) else list(obj)
        return [_plain(item) for item in obj]
    if isinstance(obj, Operand):
        return cast("Array", obj)._shown("asarray")  # with its dtype
    if not isinstance(obj, _PYTHONS):
        owner = owner_of(obj)
        if owner is None:
            values = _convertible_to_numpy(obj, None)
            if values is None:
                raise bad_type("asarray", "obj", obj, "scalars in the nested sequence")
            return values
        try:
            owner.dtype_of(obj)
        except TypeError as error:
            raise TypeError(f"asarray: obj: {error}") from None
        return owner.to_numpy(owner.normalize(obj))
    return obj


def _read(obj: Any, wanted: DType | None) -> np.ndarray[Any, Any]:
    """Let NumPy read; exactly, as Python objects, where its guess may have lost something."""
    import numpy as np

    try:
        values = np.array(obj)
        # Integers on both sides of 2**63 become float64 in NumPy, and beyond int64 uint64.
        beyond = values.dtype.kind in "fu" and values.size and np.abs(values).max() >= 2.0**63
        whole = wanted is not None and wanted.rank == 1
        if beyond or (values.dtype.kind == "f" and whole):
            exact = np.array(obj, dtype=object)
            if whole:  # what NumPy's scalars and arrays hold; else it knows best of their dtypes
                for i, value in enumerate(exact.flat):
                    if isinstance(value, np.generic | np.ndarray):
                        exact.flat[i] = value.item()
            if all(isinstance(value, _PYTHONS) for value in exact.flat):
                return exact
        return values
    except ValueError as error:
        let_through(error)
        raise ValueError(
            f"asarray: obj is ragged; expected nested sequences of equal lengths ({error})"
        ) from None
    except OverflowError as error:
        raise OverflowError(f"asarray: obj: {error}") from None


def _found(values: np.ndarray[Any, Any]) -> DType:
    """Infer the dtype: NumPy's own guess, or the standard's rule where Python objects came."""
    if values.dtype == object:
        flat = values.ravel().tolist()
        if not flat:
            return _dtypes.float64
        if not all(isinstance(value, _PYTHONS) for value in flat):
            odd = next(v for v in flat if not isinstance(v, _PYTHONS))
            raise bad_type("asarray", "obj", odd, "scalars in the nested sequence")
        if any(isinstance(value, complex) for value in flat):
            return _dtypes.complex128
        if any(isinstance(value, float) for value in flat):
            return _dtypes.float64
        if all(isinstance(value, bool) for value in flat):
            return _dtypes.bool
        return _dtypes.int64
    return _dtypes.as_dtype(values.dtype, "asarray", "obj")


def check_held(values: np.ndarray[Any, Any], found: DType, wanted: DType) -> None:
    """Refuse values that the dtype cannot hold."""
    if values.size == 0:
        return
    if found.rank == 3 and 0 < wanted.rank < 3:
        raise TypeError(f"asarray: obj holds complex values; expected real ones for {wanted}")
    if found.rank == 2 and wanted.rank == 1 and STRICT.get():  # as in `_convertible`
        raise TypeError(f"asarray: obj holds floats; expected integers for {wanted} (strict mode)")
    if wanted.rank > 1 and values.dtype.char in "dDO":  # all others fit
        _check_floats(values, wanted)
    if wanted.rank == 1 and found.rank > 0:
        low, high = _dtypes.integer_range(wanted)
        least, most = _ends(values, wanted)
        if least < low or most > high:
            value = least if least < low else most
            raise OverflowError(
                f"asarray: obj holds {value}; expected {low} to {high} for {wanted}"
            )


def _ends(values: np.ndarray[Any, Any], wanted: DType) -> tuple[int, int]:
    """Return the least and the greatest value, floats among them truncated towards zero."""
    try:
        if values.dtype == object:  # where NaN would hide from min and max
            whole = [int(value) for value in values.flat]
            return min(whole), max(whole)
        return int(values.min()), int(values.max())
    except (OverflowError, ValueError) as error:  # of an infinity, and of NaN
        let_through(error)
        held = "NaN" if isinstance(error, ValueError) else "an infinity"
        raise type(error)(f"asarray: obj holds {held}; expected integers for {wanted}") from None


def _check_floats(values: np.ndarray[Any, Any], wanted: DType) -> None:
    import numpy as np

    if values.dtype == object:
        try:
            values = values.astype(np.complex128)
        except OverflowError:
            raise OverflowError(
                f"asarray: obj holds an integer beyond the range of {wanted}"
            ) from None
    if wanted not in (_dtypes.float32, _dtypes.complex64):
        return
    wide = values.astype(values.dtype.newbyteorder("="), copy=False)
    parts = wide.ravel().view(np.float64)
    beyond = np.isfinite(parts) & (np.abs(parts) >= FLOAT32_LIMIT)
    if beyond.any():
        raise OverflowError(
            f"asarray: obj holds {parts[beyond][0]}; expected at most 3.4028235e38 for {wanted}"
        )


def from_array(
    x: Array, dtype: DType | None, device: Any, copy: bool | None, function: str = "asarray"
) -> Array:
    """Return an array with a dtype and on a device; `function` is what messages name."""
    target = table_like(function, x, dtype, device)
    moves = target.device is not x.device
    casts = target.dtype is not x.dtype
    if copy is False and (moves or casts):
        what = f"on {target.device}" if moves else f"of dtype {target.dtype}"
        raise ValueError(
            f"{function}: {_ARGUMENTS[function]} has dtype {x.dtype} on {x.device}; expected an "
            f"array {what} for copy=False"
        )
    if casts:
        _convertible(function, x.dtype, target.dtype)
        home = x._table.sibling(target.dtype, function)
        x = cast("Array", make(run("astype", x, target.dtype, copy=True)._native, home))
    elif copy and not moves:
        x = cast("Array", run("astype", x, x.dtype, copy=True))
    return x.to_device(target.device)


def preferred(function: str, x: Array, dtype: DType | None, copy: bool | None) -> Array:
    """Give a native array's values to the backend that the priority prefers on its device."""
    target = creation_table(function, x.device, x.dtype)
    if target.backend is x._table.backend:
        return from_array(x, dtype, None, copy, function)
    source = x._table.backend
    try:
        native, copied = convert(x._native, source, target.backend, target.device, copy=copy)
    except ValueError as error:
        if copy is not False:
            raise
        let_through(error)
        raise ValueError(
            f"{function}: {_ARGUMENTS[function]} cannot be shared by {target.backend.name} for "
            f"copy=False: {error}"
        ) from error
    made = cast("Array", make(native, target))
    if copied:
        account.moved(target.backend, target.device, made.nbytes, f"x came from {source.name}")
    return from_array(made, dtype, None, False if copy is False else None, function)


def import_dlpack(x: Any, copy: bool | None) -> Array:
    """Read an object that speaks DLPack; its library, if corepy knows it, lends the memory."""
    backend = owner_of(x)
    if backend is not None:
        try:
            array: Array = adopt("from_dlpack", "x", x, backend, copy)
            if get_backend_priority():
                return preferred("from_dlpack", array, None, copy)
            return from_array(array, None, None, copy, "from_dlpack")
        except ValueError as error:
            if copy is not False:
                raise
            let_through(error)
            named = str(error).startswith("from_dlpack: ")
            raise NotSharedError(str(error) if named else f"from_dlpack: x: {error}") from error
    _unmasked("from_dlpack", "x", x)
    kind = int(x.__dlpack_device__()[0])
    if kind != 1:  # kDLCPU; a backend of that device takes it once there is one
        raise BufferError(f"from_dlpack: x is on DLPack device type {kind}; expected 1, the host")
    try:
        values = _lent(x, copy)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        let_through(error)
        raise BufferError(f"from_dlpack: x: {error}") from error
    table = creation_table("from_dlpack", CPU, _held("from_dlpack", "x", values))
    fresh = None if copy else copy  # the copy is made by now
    try:
        return cast("Array", make(from_host(values, table.backend, CPU, copy=fresh), table))
    except ValueError as error:
        if copy is not False:
            raise
        let_through(error)
        raise NotSharedError(f"from_dlpack: x: {error}") from error


def _lent(x: Any, copy: bool | None) -> np.ndarray[Any, Any]:
    """Return what an object of no known library exports; producers before DLPack 1.0 too."""
    import numpy as np

    if copy is False:
        try:
            return np.from_dlpack(x, copy=False)
        except TypeError:  # of a producer that was never asked for a copy, and makes none
            pass
    values = np.from_dlpack(x)
    return values.copy() if copy else values
