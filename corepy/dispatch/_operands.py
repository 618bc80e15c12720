"""Operands: what a function was given, checked once and brought to one device and dtype."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from corepy import _dtypes
from corepy._dtypes import MIXED_PROMOTION, PROMOTION, DType, Scalar
from corepy._errors import BackendError, DeviceMismatchError, bad_type, no_promotion
from corepy._signals import let_through
from corepy.backends._base import Backend, Native
from corepy.devices._transfer import convert, from_host, nbytes
from corepy.dispatch import _explain, _registry
from corepy.dispatch._hot import Operand, adopts, make
from corepy.dispatch._settings import STRICT
from corepy.dispatch._short_scalars import held
from corepy.dispatch._table import Table, table_of

SCALARS: Final = {
    bool: _dtypes.bool,
    int: _dtypes.int64,
    float: _dtypes.float64,
    complex: _dtypes.complex128,
}


def known_sizes(x: Operand, axes: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the sizes of an array along some axes, along all by default.

    A lazy backend computes those that it does not know.
    """
    shape: Any = x.shape
    if None in shape and None in (shape if axes is None else [shape[axis] for axis in axes]):
        shape = x._table.backend.known_shape(x._native)
    return shape if axes is None else tuple([shape[axis] for axis in axes])


def known_size(x: Operand, axis: int) -> int:
    """Return the size of an array along one axis, as `known_sizes` does."""
    size: int | None = x.shape[axis]
    return known_sizes(x, (axis,))[0] if size is None else size


def same_sizes(x: Operand, y: Operand, axes: Iterable[tuple[int, int]]) -> bool:
    """Say whether axes of two arrays, in pairs, have equal sizes.

    Two sizes that a lazy backend does not know count as equal. Beside one that is known, the
    other is computed.
    """
    for first, second in axes:
        size, other = x.shape[first], y.shape[second]
        if size != other and None in (size, other):
            size, other = *known_sizes(x, (first,)), *known_sizes(y, (second,))
        if size != other:
            return False
    return True


def is_scalar(value: object) -> bool:
    """Say whether a value is a Python scalar proper (NumPy's scalars are native arrays)."""
    return value.__class__ in SCALARS


def plain(value: Any, *, written: bool = False) -> Any:
    """Return a number of a subclass of Python's, such as an ``IntEnum``, as Python's own.

    Whatever else comes is returned as it is; so are NumPy's scalars, some of which are such, but
    where they are `written` into an array: there its dtype holds, and theirs is no matter. Strict
    mode takes them nowhere, and who gets one back refuses it as a native array.
    """
    if value.__class__ in SCALARS or isinstance(value, Operand):
        return value
    kind: Any
    for kind in (int, float, complex):
        if isinstance(value, kind) and (
            (written and not STRICT.get()) or _registry.owner_of(value) is None
        ):
            return kind(value)
    return value


def is_numpys_scalar(value: object) -> bool:
    """Say whether a value is a scalar of NumPy's, which is an array of its own dtype."""
    import numpy as np

    return isinstance(value, np.generic)


def is_operand(value: object) -> bool:
    """Say whether a value can be an operand at all; operators leave others to Python."""
    return (
        isinstance(value, (Operand, int, float, complex)) or _registry.owner_of(value) is not None
    )


def wrap_native(function: str, argument: str, value: object) -> Any:
    """Wrap a native array of a known library, without a copy.

    Raises
    ------
    TypeError
        If the value is no native array, its dtype is not the standard's, or strictness forbids.
    """
    if isinstance(value, Operand):
        return value
    backend = _registry.owner_of(value)
    if backend is None:
        raise bad_type(function, argument, value, "an array")
    if STRICT.get():
        raise bad_type(function, argument, value, "an Array (strict mode takes no native arrays)")
    return adopt(function, argument, value, backend)


def adopt(
    function: str, argument: str, value: Native, backend: Backend, copy: bool | None = None
) -> Any:
    """Wrap a native array of a backend, without a copy unless its memory holds other values.

    Raises
    ------
    TypeError
        If its dtype is not one of the standard's.
    ValueError
        If `copy` is False and it has to be copied, or its elements are on several devices.
    BackendError
        If the library cannot use it here.
    """
    try:
        dtype = backend.dtype_of(value)
    except TypeError as error:
        let_through(error)
        raise TypeError(f"{function}: {argument}: {error}") from None
    why = backend.adopts_by_copy(value) if copy is False else None
    if why:
        raise ValueError(f"{function}: {argument} {why} for copy=False")
    try:
        native = backend.adopt(value)
    except RuntimeError as error:
        let_through(error)
        raise BackendError(f"{function}: {argument}: {error}") from error
    try:
        device = backend.device_of(value)
    except ValueError as error:  # it is on several
        let_through(error)
        raise ValueError(f"{function}: {argument}: {error}") from None
    table = table_of(backend, device, dtype)
    noted(value, backend, table)
    return make(native, table)


def noted(native: Native, backend: Backend, table: Table, stays: bool = False) -> None:
    """Tell the hot path how an array was wrapped, where all of its dtype that come will be.

    Parameters
    ----------
    native : native array
    backend : Backend
        Whose it is.
    table : Table
        What it was bound to, as it is.
    stays : bool
        Whether `asarray` left it there under the wish in force; else as an operand it went there.
    """
    if _registry.is_known_by_class(native, backend):
        adopts(native, table, stays)


def as_operand(function: str, argument: str, value: object, **beside: object) -> Any:
    """Return an array argument as an `Array`; native arrays are wrapped.

    They come to the backend of the first `Array` of the arguments `beside` them, by names.
    """
    if isinstance(value, Operand):
        return value
    leader = next(((n, x._table) for n, x in beside.items() if isinstance(x, Operand)), None)
    if leader is None:
        return wrap_native(function, argument, value)
    return gathered(function, *leader, argument, as_companion(function, argument, value, leader[1]))


def as_companion(function: str, argument: str, value: object, home: Table | None) -> Any:
    """Return what stands beside an array of a table as an `Array`; native arrays are wrapped.

    A scalar of NumPy's keeps its dtype, but lives nowhere: it goes where the array is, as Python's
    do, and nothing crosses that anybody could want to know of. Without a table it stays as it is.
    """
    x = as_operand(function, argument, value)
    table = x._table
    if x is value or home is None or not is_numpys_scalar(value):
        return x
    if table.backend is home.backend and table.device is home.device:
        return x
    x = cast_to(x, home.narrowed(table.dtype), function)
    native = from_host(x._native, home.backend, home.device)
    return make(native, home.sibling(x._table.dtype, function))


# ---------------------------------------------------------------------------- scalars


def scalar_dtype(function: str, argument: str, value: Scalar, dtype: DType) -> DType:
    """Return the dtype of an operation between a Python scalar and an array.

    Raises
    ------
    TypeError
        In strict mode, if the scalar's kind is not one the standard allows beside the dtype.
    """
    own = SCALARS[value.__class__]
    if own.rank <= dtype.rank and (own.rank == dtype.rank or own.rank > 0):
        return dtype
    if own.rank == 3 and dtype.rank == 2:
        return _dtypes.complex_of(dtype)
    if STRICT.get():
        expected = f"a scalar that the standard allows beside {dtype}"
        raise bad_type(function, argument, value, f"{expected} (strict mode)")
    return dtype if own.rank < dtype.rank else own


def fitting(function: str, argument: str, value: Scalar, dtype: DType) -> Scalar:
    """Return a scalar as the dtype's Python type.

    Raises
    ------
    OverflowError
        If the value lies outside the dtype's range.
    """
    if dtype.rank == 0:
        return bool(value)
    if dtype.rank == 1:
        number = int(cast("int", value))
        low, high = _dtypes.integer_range(dtype)
        if not low <= number <= high:
            raise OverflowError(
                f"{function}: {argument} is {number}; expected {low} to {high} for {dtype}"
            )
        return number
    try:
        converted: float | complex = (
            complex(value) if dtype.rank == 3 else float(cast("float", value))
        )
    except OverflowError:
        raise OverflowError(
            f"{function}: {argument} is an integer beyond the range of {dtype}"
        ) from None
    if dtype.bits != (32 if dtype.rank == 2 else 64):
        return converted
    if not all(
        abs(part) < FLOAT32_LIMIT or not math.isfinite(part)
        for part in (converted.real, converted.imag)
    ):
        raise OverflowError(
            f"{function}: {argument} is {value!r}; expected at most 3.4028235e38 for {dtype}"
        )
    if isinstance(converted, complex):
        return complex(_rounded_down(converted.real), _rounded_down(converted.imag))
    return _rounded_down(converted)


#: Finite values from here on round to infinity in float32: the greatest one plus half its ulp.
FLOAT32_LIMIT: Final = (2 - 2.0**-24) * 2.0**127
_FLOAT32_MOST: Final = (2 - 2.0**-23) * 2.0**127


def _rounded_down(value: float) -> float:
    """Return what rounds to the greatest float32 as it, for torch refuses what lies beyond."""
    return math.copysign(_FLOAT32_MOST, value) if _FLOAT32_MOST < abs(value) < math.inf else value


# ---------------------------------------------------------------------------- promotion


def promoted(function: str, a: DType, b: DType) -> DType:
    """Return the common dtype of two arrays.

    Raises
    ------
    TypeError
        If the standard has none, and corepy's rule for mixed kinds neither; in strict mode, for
        every pair of mixed kinds.
    """
    if a is b:
        return a
    found = PROMOTION.get((a, b))
    if found is None:
        if STRICT.get():
            raise no_promotion(function, (a, b), "dtypes of one kind (strict mode)")
        found = MIXED_PROMOTION.get((a, b))
        if found is None:
            hint = "two that share a dtype: no integer dtype holds both"
            raise no_promotion(function, (a, b), hint)
    return found


def promoted_of(function: str, dtypes: Sequence[DType]) -> DType:
    """Return the common dtype of several arrays, whatever their order.

    Raises
    ------
    TypeError
        As `promoted` does.
    """
    if len(dtypes) > 2:
        # The highest kind first: it takes others in one by one, int64 and uint64 among them.
        dtypes = sorted(dtypes, key=lambda dtype: -dtype.rank)
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = promoted(function, found, dtype)
    return found


def unify(
    function: str, names: tuple[str, ...], values: tuple[Any, ...], **beside: object
) -> list[Any]:
    """Bring operands to one device, backend and dtype.

    The first `Array` leads, wherever it stands, or else that of the arguments `beside` them:
    native arrays come to its backend.

    Parameters
    ----------
    function : str
        What messages name.
    names : tuple of str
        The operands' argument names.
    values : tuple
        Arrays, native arrays or Python scalars; at least one array.
    **beside
        By their names.

    Returns
    -------
    list of Array
        All with one table.

    Raises
    ------
    TypeError
        If no operand is an array, or the dtypes have no common one.
    OverflowError
        If a scalar does not fit.
    DeviceMismatchError
        If arrays live on different devices.
    """
    first = values[0]
    if isinstance(first, Operand):
        table = first._table
        if all(isinstance(x, Operand) and x._table is table for x in values):
            return list(values)
        number = held(table, values[1]) if len(values) == 2 else None
        if number is not None:  # which its dtype surely holds
            return [first, make(number, table)]
    values = tuple(map(plain, values))
    named = (*zip(names, values, strict=True), *beside.items())
    ours = next(((n, x._table) for n, x in named if isinstance(x, Operand)), None)
    operands = [
        value if is_scalar(value) else as_companion(function, name, value, ours and ours[1])
        for name, value in zip(names, values, strict=True)
    ]
    arrays = [(n, x) for n, x in zip(names, operands, strict=True) if isinstance(x, Operand)]
    if not arrays:
        raise bad_type(function, names[0], values[0], "an array in at least one operand")
    leader, home = ours or (arrays[0][0], arrays[0][1]._table)
    for _, x in arrays:
        if x._table.backend.home is home.backend:  # its values are resident: the others come to it
            home = x._table
            break
    dtype = promoted_of(function, [x._table.dtype for _, x in arrays])
    home.sibling(dtype, function)  # the arrays' own dtype is there, or it is an error
    for name, x in zip(names, operands, strict=True):
        if not isinstance(x, Operand):
            wide = scalar_dtype(function, name, x, dtype)
            dtype = wide if wide is dtype else home.narrowed(wide)
    table = home.sibling(dtype, function)
    return [
        cast_to(gathered(function, leader, home, name, x), dtype, function)
        if isinstance(x, Operand)
        else make(scalar_of(table, fitting(function, name, x, dtype), function), table)
        for name, x in zip(names, operands, strict=True)
    ]


def gathered(function: str, first: str, home: Table, name: str, x: Operand) -> Any:
    """Return an operand in the backend and on the device of another.

    Raises
    ------
    DeviceMismatchError
        If it lives on another device: nothing crosses unasked.
    """
    table = x._table
    if table.backend is home.backend and table.device is home.device:
        return x
    if table.device is not home.device:
        raise DeviceMismatchError(
            f"{function}: {first} is on {home.device} and {name} on {table.device}; expected one "
            f"device: move one with .to_device({home.device.name!r})"
        )
    native, copied = convert(x._native, table.backend, home.backend, home.device)
    if copied:
        size = nbytes(native, home.backend)
        _explain.moved(home.backend, home.device, size, f"{name} came from {table.backend.name}")
    return make(native, home.sibling(table.dtype, function))


def cast_to(x: Operand, dtype: DType, function: str = "astype") -> Any:
    """Return an array with another dtype, or itself; `function` is what messages name."""
    table = x._table
    if table.dtype is dtype:
        return x
    target = table.sibling(dtype)
    return make(converted(x, function, target.native_dtype, copy=False), target)


def scalar_of(table: Table, value: Scalar, function: str) -> Native:
    """Return a scalar that fits as an array of a library's; `function` is what messages name.

    It takes memory of the device, and raises what `recover_part` does where that lacks.
    """
    backend = table.backend
    try:
        return backend.scalar(value, table.dtype, table.device)
    except Exception as error:
        from corepy.dispatch._run import recover_part  # which imports this module

        args = (value, table.dtype, table.device)
        return recover_part(function, function, table, (), error, backend.scalar, *args)


def converted(x: Operand, function: str, native_dtype: Any, *, copy: bool) -> Native:
    """Return the native array of an array in one of its library's dtypes, or a copy of it."""
    table = x._table
    native = table["astype"][0]
    try:
        return native(x._native, native_dtype, copy=copy)
    except Exception as error:
        from corepy.dispatch._run import recover_part  # which imports this module

        args = (x._native, native_dtype)
        return recover_part(function, "astype", table, (x,), error, native, *args, copy=copy)


def index_value(function: str, argument: str, value: object) -> int:
    """Return an integer argument as an int; bools and floats are refused."""
    if isinstance(value, bool):
        raise bad_type(function, argument, value, "an int")
    try:
        return operator.index(cast("Any", value))
    except TypeError:
        raise bad_type(function, argument, value, "an int") from None
