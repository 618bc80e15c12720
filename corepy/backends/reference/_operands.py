"""What the functions accept: arrays, nested lists and scalars become arrays of one dtype."""

from __future__ import annotations

from array import array as buffer
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, no_promotion, wrong_dtype
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._rounding import round_all, round_to
from corepy.devices._device import CPU, Device, as_device

__all__ = [
    "ArrayLike",
    "as_array",
    "check_device",
    "check_dtype",
    "convert_scalar",
    "default_dtype",
    "promote",
    "result_dtype",
    "scalar_dtype",
    "widen",
]

#: What functions take for an array. Objects with the buffer protocol do as well.
ArrayLike: TypeAlias = "ReferenceArray | bool | int | float | complex | Sequence[Any]"

#: Letters of the buffer protocol by kind; the item's size completes the dtype.
_BUFFER_KINDS = (("b", "?"), ("i", "bhilqn"), ("u", "BHILQN"), ("f", "fd"), ("c", ("Zf", "Zd")))
_SCALARS = (bool, int, float, complex)


def check_device(function: str, device: Device | str | None) -> None:
    """Refuse every device but the host: the reference backend lives nowhere else."""
    if device is not None and as_device(device, function) is not CPU:
        raise bad_argument(function, "device", str(device), "cpu")


def check_dtype(function: str, argument: str, x: ReferenceArray, allowed: frozenset[DType]) -> None:
    """Refuse an array whose dtype the function does not take."""
    if x.dtype not in allowed:
        raise wrong_dtype(function, argument, x.dtype, CPU, _dtypes.describe(allowed))


# ------------------------------------------------------------------ Python scalars


def default_dtype(values: Sequence[Value]) -> DType:
    """Infer the dtype of Python scalars: the widest kind among them; float64 for none."""
    kinds = {type(value) for value in values}
    if not kinds:
        return _dtypes.float64
    if kinds == {bool}:
        return _dtypes.bool
    if any(issubclass(kind, complex) for kind in kinds):
        return _dtypes.complex128
    if any(issubclass(kind, float) for kind in kinds):
        return _dtypes.float64
    return _dtypes.int64


def convert_scalar(function: str, argument: str, value: Value, dtype: DType) -> Value:
    """Turn a Python scalar into a value of a dtype.

    Raises
    ------
    TypeError
        If the scalar is of a higher kind than the dtype, such as a float for int64.
    OverflowError
        If an integer does not fit an integer dtype.
    """
    if isinstance(value, bool):
        return value if dtype.kind == "b" else _cast(int(value), dtype)
    rank = 1 if isinstance(value, int) else 2 if isinstance(value, float) else 3
    if rank > dtype.rank:
        raise bad_type(function, argument, value, f"a scalar that {dtype} can hold")
    if dtype.rank == 1:
        low, high = _dtypes.integer_range(dtype)
        if not low <= cast("int", value) <= high:
            raise OverflowError(
                f"{function}: {argument} is {value}; expected an integer in [{low}, {high}] "
                f"for {dtype}"
            )
        return int(cast("int", value))
    return _cast(value, dtype)


def _cast(value: Value, dtype: DType) -> Value:
    if dtype.rank < 2:
        return value
    if dtype.rank == 2:
        return round_to(value if isinstance(value, int) else float(cast("float", value)), dtype)
    if isinstance(value, int):
        value = complex(cast("float", round_to(value, _dtypes.real_of(dtype))))
    return round_to(complex(value), dtype)


# ------------------------------------------------------------------ arrays


def as_array(
    function: str, argument: str, obj: object, dtype: DType | None = None
) -> ReferenceArray:
    """Make an array of what a caller passed; an array comes back itself.

    Parameters
    ----------
    function, argument : str
        What messages name.
    obj : array, scalar, nested sequence or buffer
        Nested lists and tuples must be rectangular.
    dtype : DType, optional
        The dtype for Python scalars; by default inferred. Arrays and buffers keep theirs.

    Raises
    ------
    TypeError
        If the object is none of these, or does not convert to the dtype.
    ValueError
        If a nested sequence is ragged.
    OverflowError
        If an integer does not fit the dtype.
    """
    if isinstance(obj, ReferenceArray):
        return obj
    if isinstance(obj, _SCALARS):
        values: list[Value] = [obj]
        shape: tuple[int, ...] = ()
    elif isinstance(obj, list | tuple):
        shape = _nested_shape(obj)
        values = list(_flatten(function, argument, obj, shape))
    else:
        return _from_buffer(function, argument, obj)
    dtype = dtype or default_dtype(values)
    converted = [convert_scalar(function, argument, value, dtype) for value in values]
    return ReferenceArray(converted, shape, dtype)


def _nested_shape(obj: object) -> tuple[int, ...]:
    shape = []
    while isinstance(obj, list | tuple):
        shape.append(len(obj))
        if not obj:
            break
        obj = obj[0]
    if isinstance(obj, ReferenceArray):
        shape.extend(obj.shape)
    return tuple(shape)


def _flatten(function: str, argument: str, obj: object, shape: tuple[int, ...]) -> Iterator[Value]:
    if isinstance(obj, ReferenceArray):
        if obj.shape != shape:
            raise bad_argument(function, argument, obj, f"parts of shape {shape}")
        yield from obj.values
    elif isinstance(obj, list | tuple):
        if not shape or len(obj) != shape[0]:
            raise bad_argument(function, argument, obj, "a nested sequence of equal lengths")
        for part in obj:
            yield from _flatten(function, argument, part, shape[1:])
    elif shape:
        raise bad_argument(function, argument, obj, f"a nested sequence of shape {shape}")
    elif isinstance(obj, _SCALARS):
        yield obj
    else:
        raise bad_type(function, argument, obj, "bool, int, float or complex")


def _from_buffer(function: str, argument: str, obj: object) -> ReferenceArray:
    """Copy the values of an object with the buffer protocol."""
    try:
        view = memoryview(cast("Any", obj))
    except TypeError:
        raise bad_type(
            function, argument, obj, "an array, a scalar, a nested sequence or a buffer"
        ) from None
    letters = view.format.lstrip("@=<")
    for kind, known in _BUFFER_KINDS:
        if letters in known:
            bits = 8 * view.itemsize
            name = {"i": "int", "u": "uint", "f": "float", "c": "complex"}.get(kind)
            dtype = _dtypes.as_dtype(f"{name}{bits}" if name else "bool")
            return ReferenceArray(_decode(view.tobytes(), dtype), view.shape or (), dtype)
    raise bad_type(function, argument, obj, f"a buffer of numbers, not of format {view.format!r}")


#: Letters of the array module by dtype: what a buffer of that dtype is read with.
_LETTERS = {
    _dtypes.int8: "b",
    _dtypes.int16: "h",
    _dtypes.int32: "i",
    _dtypes.int64: "q",
    _dtypes.uint8: "B",
    _dtypes.uint16: "H",
    _dtypes.uint32: "I",
    _dtypes.uint64: "Q",
    _dtypes.float32: "f",
    _dtypes.float64: "d",
}


def _decode(data: bytes, dtype: DType) -> list[Value]:
    if dtype is _dtypes.bool:
        return [byte != 0 for byte in data]
    numbers = buffer(_LETTERS[_dtypes.real_of(dtype)], data)
    if dtype.kind == "c":
        return list(map(complex, numbers[0::2], numbers[1::2]))
    return list(numbers)


# ------------------------------------------------------------------ promotion


def result_dtype(function: str, dtypes: Sequence[DType]) -> DType:
    """Promote dtypes by the standard's table; ``TypeError`` where it is silent."""
    found = dtypes[0]
    for dtype in dtypes[1:]:
        both = _dtypes.PROMOTION.get((found, dtype))
        if both is None:
            hint = "dtypes that promote together (of one kind); convert with astype first"
            raise no_promotion(function, dtypes, hint)
        found = both
    return found


def scalar_dtype(function: str, argument: str, value: Value, dtype: DType) -> DType:
    """Return the dtype of an array combined with a Python scalar: its own, or made complex.

    Raises
    ------
    TypeError
        If the scalar is of a higher kind, such as a float with an array of integers.
    """
    if isinstance(value, complex) and dtype.kind == "f":
        return _dtypes.complex_of(dtype)
    if default_dtype([value]).rank > dtype.rank:
        raise bad_type(function, argument, value, f"a scalar that {dtype} can hold")
    return dtype


def promote(function: str, **operands: object) -> list[ReferenceArray]:
    """Bring operands to one dtype, by the standard's table.

    Python scalars follow the arrays' dtype; lists count as arrays of the default dtype of their
    kind. The keywords are the names that messages use.
    """
    if all(isinstance(x, ReferenceArray) for x in operands.values()):
        arrays = cast("list[ReferenceArray]", list(operands.values()))
        first = arrays[0].dtype
        if all(x.dtype is first for x in arrays):
            return arrays
    else:
        arrays = [
            as_array(function, name, x)
            for name, x in operands.items()
            if not isinstance(x, _SCALARS)
        ]
    if arrays:
        dtype = result_dtype(function, [x.dtype for x in arrays])
        for name, x in operands.items():
            if isinstance(x, _SCALARS):
                dtype = scalar_dtype(function, name, x, dtype)
    else:
        dtype = default_dtype(cast("list[Value]", list(operands.values())))
    rest = iter(arrays)
    return [
        ReferenceArray([convert_scalar(function, name, x, dtype)], (), dtype)
        if isinstance(x, _SCALARS)
        else widen(next(rest), dtype)
        for name, x in operands.items()
    ]


def widen(x: ReferenceArray, dtype: DType) -> ReferenceArray:
    """Convert an array to a dtype that holds all its values, or rounds them if it is floating."""
    if x.dtype is dtype:
        return x
    if dtype.rank == x.dtype.rank:
        values = list(x.values)  # a list of its own, even if no value changes
    else:
        values = [_cast(value, dtype) for value in x.values]
    return ReferenceArray(round_all(values, dtype), x.shape, dtype)
