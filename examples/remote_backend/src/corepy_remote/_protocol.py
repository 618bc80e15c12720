"""What travels between client and server: arrays as ``.npy``, everything else as JSON.

Both ends use this module, and neither trusts the other: whatever comes in is checked before it is
used, and nothing of it is ever executed or unpickled.

Requests, all with ``Authorization: Bearer <token>``
    * ``GET /health``: protocol, operations and limits of the server.
    * ``PUT /arrays/{key}``, ``GET /arrays/{key}``, ``DELETE /arrays/{key}``: one array.
    * ``POST /operations/{name}``: run an operation on stored arrays and store what it gives.
    * ``DELETE /clients/{client}``: drop every array of one client.

The client chooses every key, of a result too, and never uses one twice; arrays on the server
never change. So each of these requests may be repeated without harm, which is what makes it safe
to try again when a connection breaks and nobody knows whether the request arrived.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import corepy

VERSION: Final = 1
NPY: Final = "application/x-npy"
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"  # RFC 9457

#: Bytes that a ``.npy`` file has at most beside its elements.
HEADER_LIMIT: Final = 4096
#: The dimensions that NumPy can handle.
MAX_DIMENSIONS: Final = 64
CLIENT: Final = re.compile(r"[0-9a-f]{32}")
#: A client, a number of its choice, and for each of several results of one operation its place.
KEY: Final = re.compile(r"[0-9a-f]{32}-[0-9]{1,18}(\.[0-9]{1,9})?")

DTYPES: Final = {dtype.name: dtype for dtype in corepy.Capabilities().dtypes}
NATIVE: Final = {dtype: np.dtype(name) for name, dtype in DTYPES.items()}

#: Exceptions that mean the same at both ends. A problem names one of them, and the client raises
#: it with the server's message; the first that fits names an exception on the server.
EXCEPTIONS: Final[dict[str, type[Exception]]] = {
    "UnsupportedOperationError": corepy.UnsupportedOperationError,
    "InsufficientMemoryError": corepy.InsufficientMemoryError,
    "MemoryError": corepy.InsufficientMemoryError,
    "IndexError": IndexError,
    "OverflowError": OverflowError,
    "ZeroDivisionError": ZeroDivisionError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}

# ---------------------------------------------------------------------------- arrays


def write_npy(array: npt.NDArray[Any]) -> bytes:
    """Return an array as a ``.npy`` file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)
    return stream.getvalue()


def read_npy(body: bytes | bytearray) -> npt.NDArray[Any]:
    """Return the array of a ``.npy`` file, sharing its memory.

    Raises
    ------
    TypeError
        If the dtype is none of the standard's; pickled objects are never read.
    ValueError
        If it is no ``.npy`` file, or holds fewer or more bytes than its header says.
    """
    stream = io.BytesIO(body[:HEADER_LIMIT])
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(stream, HEADER_LIMIT)
        elif version == (2, 0):
            header = np.lib.format.read_array_header_2_0(stream, HEADER_LIMIT)
        else:
            raise ValueError(f"version {version}; expected (1, 0) or (2, 0)")
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"npy: its header is malformed: {error}") from error
    shape, fortran_order, dtype = header
    name = dtype.newbyteorder("=").name
    if name not in DTYPES:
        raise TypeError(f"npy: its dtype is {dtype}; expected one of {', '.join(DTYPES)}")
    check_shape("npy", shape)
    expected = math.prod(shape) * dtype.itemsize
    held = len(body) - stream.tell()
    if held != expected:
        raise ValueError(f"npy: it holds {held} bytes of elements; expected {expected}")
    if expected == 0:  # NumPy takes no empty buffer
        return np.empty(shape, name)
    flat = np.frombuffer(body, dtype, offset=stream.tell())
    array = flat.reshape(shape, order="F" if fortran_order else "C")
    return array.astype(name, order="C", copy=False)


def check_shape(label: str, shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of ints.

    Raises
    ------
    ValueError
        If it is none.
    """
    good = isinstance(shape, (tuple, list)) and len(shape) <= MAX_DIMENSIONS
    if not good or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise ValueError(f"{label}: shape is {shape!r}; expected up to {MAX_DIMENSIONS} sizes")
    return tuple(shape)


# ---------------------------------------------------------------------------- JSON


def read_json(body: bytes | bytearray) -> dict[str, Any]:
    """Return a JSON object.

    Raises
    ------
    ValueError
        If the bytes are none.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"JSON: it is malformed: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"JSON: it is of type {type(value).__name__}; expected an object")
    return value


def encode(value: Any, array: Callable[[Any], dict[str, Any] | None]) -> Any:
    """Turn an argument of an operation into JSON.

    Plain values stay what they are; everything else becomes an object with one tag.

    Parameters
    ----------
    value : object
    array : callable
        Returns what stands for an array, and None for what is no array.

    Raises
    ------
    TypeError
        If the value is of a type that the protocol does not know.
    """
    found = array(value)
    if found is not None:
        return found
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, complex)):
        return number(value)
    if isinstance(value, (tuple, list)):
        return {"tuple": [encode(item, array) for item in value]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, corepy.DType):
        return {"dtype": value.name}
    if isinstance(value, corepy.Device):
        return {"device": True}  # whichever the server has
    raise TypeError(f"remote: an argument is of type {type(value).__name__}; expected plain values")


def decode(value: Any, array: Callable[[str, Any], Any]) -> Any:
    """Turn JSON into an argument, as the backend contract of corepy has it.

    Parameters
    ----------
    value : object
    array : callable
        Returns the array for a tag and its value, or raises ``ValueError``.

    Raises
    ------
    ValueError
        If it is nothing that `encode` makes.
    """
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ValueError("argument: it is a bare list; expected a tagged value")
        return value
    if len(value) != 1:
        raise ValueError(f"argument: it has the tags {sorted(value)}; expected one")
    ((tag, inner),) = value.items()
    match tag, inner:
        case "tuple", list():
            return tuple(decode(item, array) for item in inner)
        case "slice", [start, stop, step]:
            if all(n is None or type(n) is int for n in inner):
                return slice(start, stop, step)
        case "ellipsis", True:
            return Ellipsis
        case "device", True:
            return corepy.devices.as_device("cpu")
        case "dtype", str() if inner in DTYPES:
            return NATIVE[DTYPES[inner]]
        case (("float" | "complex"), (str() | list())):
            return read_number(value)
        case (("array" | "scalar"), _):
            return array(tag, inner)
    raise ValueError(f"argument: {tag} is {inner!r}; expected what the protocol has for it")


def number(value: complex) -> Any:
    """Turn a scalar into JSON, which has no infinities, NaN or complex numbers."""
    if isinstance(value, complex):
        return {"complex": [number(value.real), number(value.imag)]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def read_number(value: Any) -> Any:
    """Turn JSON into a scalar: the reverse of `number`.

    Raises
    ------
    ValueError
        If it is none.
    """
    match value:
        case bool() | int() | float():
            return value
        case {"float": "inf" | "-inf" | "nan" as text}:
            return float(text)
        case {"complex": [real, imag]}:
            return complex(read_number(real), read_number(imag))
    raise ValueError(f"argument: {value!r} is no scalar; expected a number or its tagged form")
