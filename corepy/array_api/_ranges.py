"""Creation functions of evenly spaced values: `arange` and `linspace`.

https://data-apis.org/array-api/2025.12/API_specification/creation_functions.html
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, cast

from corepy import _dtypes
from corepy._dtypes import DType, Scalar
from corepy._errors import bad_argument, bad_type, named, refused
from corepy.array_api._arguments import addressable, flag_of, new_table, size_of
from corepy.devices._device import CPU, Device
from corepy.devices._transfer import from_host
from corepy.dispatch import (
    FLOAT32_LIMIT,
    STRICT,
    Table,
    as_operand,
    create,
    fitting,
    is_scalar,
    make,
    operation,
    owner_of,
    plain,
)
from corepy.dispatch import _explain as account

if TYPE_CHECKING:
    import numpy as np

    from corepy.array_api._array import Array


@operation()
def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> Array:
    """Evenly spaced values within the half-open interval ``[start, stop)``.

    Parameters
    ----------
    start : int or float
        First value; the end of an interval from 0 if `stop` is None.
    stop : int, float or None
        End of the interval.
    step : int or float
        Distance of two values, not 0.
    dtype : DType or None
        A real-valued dtype; by default int64 if all arguments are ints, else float64.
    device : Device or None
        None for the default device.

    Returns
    -------
    Array
        1-D, of ``ceil((stop - start) / step)`` elements, or none if that is negative.

    Raises
    ------
    TypeError
        If an argument is no real number.
    ValueError
        If `step` is 0, a bound is infinite or NaN, `dtype` is not real-valued, or a name is of no
        dtype or device.
    OverflowError
        If a value does not fit the dtype.
    MemoryError
        If memory does not hold the result.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    """
    first = _real("arange", "start", start)
    last = None if stop is None else _real("arange", "stop", stop)
    pace = _real("arange", "step", step)
    if last is None:
        first, last = 0, first
    whole = isinstance(first, int) and isinstance(last, int) and isinstance(pace, int)
    if not whole:
        end = "start" if stop is None else "stop"
        for name, value in (("start", first), (end, last), ("step", pace)):
            if not math.isfinite(_float("arange", name, value)):
                raise bad_argument("arange", name, value, "a finite number")
    if pace == 0:
        raise bad_argument("arange", "step", step, "a number other than 0")
    default = _dtypes.int64 if whole else _dtypes.float64
    table = new_table("arange", dtype, device, default, _dtypes.REAL)
    # In integers, for they may be beyond what floats tell apart.
    if whole:
        steps: int | float = -((first - last) // pace)
    elif math.isfinite(last - first) or (last < first) != (pace < 0):
        steps = (last - first) / pace
    else:
        raise OverflowError("arange: the distance of start and stop is beyond the range of float64")
    count = math.ceil(max(0, min(steps, 2**63)))
    addressable("arange", count)
    if not count:  # whose ends may be beyond what libraries hold
        first, last, pace = 0, 0, 1
    if count:
        ends = first, first + (count - 1) * pace
        for name, value in zip(("start", "last value"), ends, strict=True):
            # Of floats integers are made without their fractions.
            cut = not whole and table.dtype.rank == 1
            fitting("arange", name, int(value) if cut else value, table.dtype)
        if whole:  # libraries count in floats, which tell this end from a multiple of the step
            last = ends[1] + (pace // 2 or pace)
        else:  # nor do all round the quotient
            middle = first + (count - 0.5) * pace
            if 0.25 < (middle - first) / pace - (count - 1) < 0.75:
                last = middle
    return cast("Array", create("arange", table, first, last, pace))


@operation()
def linspace(
    start: int | float | complex,
    stop: int | float | complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    endpoint: bool = True,
) -> Array:
    """Evenly spaced numbers over an interval.

    Parameters
    ----------
    start, stop : int, float or complex
        Ends of the interval.
    num : int
        Number of values.
    dtype : DType or None
        A floating-point dtype; by default float64, or complex128 if an end is complex. Of an
        integer dtype, which the standard does not promise, the values are rounded down.
    device : Device or None
        None for the default device.
    endpoint : bool
        Whether `stop` is the last value, or the one after it.

    Returns
    -------
    Array
        1-D, of `num` elements.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If `num` is negative, `dtype` is not numeric or real where an end is complex, or in strict
        mode not a floating-point one, an end is infinite or NaN for an integer one, or a name is of
        no dtype or device.
    OverflowError
        If an end does not fit the dtype; an end that is left out need not fit an integer one, where
        the last value does.
    MemoryError
        If memory does not hold the result.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    """
    first, last = _end("start", start), _end("stop", stop)
    count = size_of("linspace", "num", num)
    addressable("linspace", count)
    whole = flag_of("linspace", "endpoint", endpoint)
    is_complex = isinstance(first, complex) or isinstance(last, complex)
    default = _dtypes.complex128 if is_complex else _dtypes.float64
    allowed = _dtypes.FLOATING if STRICT.get() else _dtypes.NUMERIC
    table = new_table("linspace", dtype, device, default, allowed)
    if is_complex and table.dtype.rank < 3:
        raise bad_argument("linspace", "dtype", table.dtype.name, _dtypes.describe(_dtypes.COMPLEX))
    if table.dtype.rank == 1:
        return _whole_numbers(cast("float", first), cast("float", last), count, whole, table)
    first = fitting("linspace", "start", first, table.dtype)
    last = fitting("linspace", "stop", last, table.dtype)
    if _fits_between(first, last, table.dtype):
        return cast("Array", create("linspace", table, first, last, count, endpoint=whole))
    # Of ends so great the halves are exact.
    made = create("linspace", table, first / 2, last / 2, count, endpoint=whole)
    return cast("Array", made * 2.0)


def _whole_numbers(start: float, stop: float, count: int, endpoint: bool, table: Table) -> Array:
    """Return evenly spaced numbers rounded down: of the exact ones, as no two libraries round."""
    for name, end in (("start", start), ("stop", stop)):
        if not isinstance(end, int) and not math.isfinite(end):
            raise bad_argument("linspace", name, end, "a finite number")
    (first, one), (last, other) = start.as_integer_ratio(), stop.as_integer_ratio()
    unit = math.lcm(one, other)
    parts = max(1, count - endpoint)
    first, last = first * (unit // one), last * (unit // other)
    begin, step = first * parts, last - first
    # An end that is left out may lie beyond what the dtype holds.
    outermost = stop if endpoint else (begin + max(0, count - 1) * step) // (unit * parts)
    low, high = _dtypes.integer_range(table.dtype)
    for name, end, value in (("start", start, start), ("stop", stop, outermost)):
        if not low <= math.floor(value) <= high:
            raise refused(
                OverflowError, "linspace", name, f"is {end}", f"{low} to {high} for {table.dtype}"
            )
    try:
        values = _floors(begin, step, unit * parts, count, table.dtype.name)
        native = from_host(values, table.backend, table.device)
    except MemoryError as error:
        raise named("linspace", error) or error from error
    if table.device is not CPU:
        account.moved(table.backend, table.device, values.nbytes, "linspace from the host")
    return cast("Array", make(native, table))


def _floors(begin: int, step: int, divisor: int, count: int, dtype: str) -> np.ndarray[Any, Any]:
    """Return the quotients, rounded down, of evenly spaced integers."""
    import numpy as np

    (least, offset), (pace, rest) = divmod(begin, divisor), divmod(step, divisor)
    if max(divisor, offset + count * rest) >= 2**63:
        every = ((begin + i * step) // divisor for i in range(count))
        return np.fromiter(every, dtype, count)
    i = np.arange(count, dtype=np.uint64)
    # Sums and products of uint64 wrap around, and what they come to is within the dtype.
    parts = (offset + i.view(np.int64) * rest) // divisor
    return (parts.view(np.uint64) + i * (pace % 2**64) + least % 2**64).astype(dtype)


def _fits_between(first: Scalar, last: Scalar, dtype: DType) -> bool:
    """Say whether the distance of two ends, by which libraries multiply, fits the dtype."""
    distance = last - first
    limit = FLOAT32_LIMIT if dtype in (_dtypes.float32, _dtypes.complex64) else math.inf
    finite = max(abs(first.real), abs(first.imag), abs(last.real), abs(last.imag)) < math.inf
    return not finite or max(abs(distance.real), abs(distance.imag)) < limit


def _end(argument: str, value: Any) -> Scalar:
    if not isinstance(value, complex):
        return _real("linspace", argument, value)
    _refuse_natives("linspace", argument, value)
    return value


def _refuse_natives(function: str, argument: str, value: Any) -> None:
    """Refuse native arrays, NumPy's scalars among them, in strict mode alone."""
    if STRICT.get() and owner_of(value) is not None:
        as_operand(function, argument, value)  # raises, in the words of every function


def _real(function: str, argument: str, value: Any) -> int | float:
    if value.__class__ is int or value.__class__ is float:
        return value
    _refuse_natives(function, argument, value)
    value = plain(value)
    if is_scalar(value) and not isinstance(value, (bool, complex)):
        return cast("int | float", value)
    if not isinstance(value, (bool, complex, str)):
        for method, convert in (("__index__", operator.index), ("__float__", float)):
            if hasattr(value, method):
                try:
                    return convert(value)
                except (TypeError, ValueError):
                    continue  # arrays have both methods, whatever their dtype and shape
    raise bad_type(function, argument, value, "an int or float")


def _float(function: str, argument: str, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise OverflowError(
            f"{function}: {argument} is an integer beyond the range of float64"
        ) from None
