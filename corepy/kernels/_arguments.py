"""Arguments of kernels, checked before any work: arrays of one library, on one device."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from numbers import Integral, Real
from operator import index
from typing import Any, Final

import numpy as np

from corepy._errors import (
    BackendUnavailableError,
    DeviceMismatchError,
    bad_argument,
    bad_type,
    listing,
    out_of_range,
    refused,
    wrong_dtype,
    wrong_shape,
)
from corepy.backends._base import Backend, Native
from corepy.devices._device import CPU, Device
from corepy.dispatch import Operand, Table, landed, load, owner_of
from corepy.kernels._libraries import device_library
from corepy.kernels._replay import looked, peeked

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_FLOATING: Final = "a floating-point dtype: " + listing(FLOATS)


@dataclass(slots=True, eq=False, init=False)
class Given:
    """An array argument, looked at once. Nobody changes it.

    Attributes
    ----------
    function, argument : str
        What messages name.
    value : Array or native array
        As the caller gave it.
    native : native array
        The same, out of its `Array`.
    backend : Backend
        Of its library.
    table : Table or None
        That of the `Array`, None for a native array.
    dtype : str
        Its name, also of those that the standard lacks.
    shape : tuple of int
    device : Device or None
        None where it is spread over several.
    library : str
        Name of the library; two backends have NumPy's arrays.
    size : int
        Number of elements.
    wide : str
        Name of the dtype in which it is computed.
    """

    function: str
    argument: str
    value: Any
    native: Native
    backend: Backend
    table: Table | None
    dtype: str
    shape: tuple[int, ...]
    device: Device | None
    library: str = field(init=False)
    size: int = field(init=False)
    wide: str = field(init=False)

    def __init__(
        self,
        function: str,
        argument: str,
        value: Any,
        native: Native,
        backend: Backend,
        table: Table | None,
        dtype: str,
        shape: tuple[int, ...],
        device: Device | None,
    ) -> None:
        # By hand, for every argument of every call is one.
        self.function, self.argument, self.value, self.native = function, argument, value, native
        self.backend, self.table, self.dtype, self.shape = backend, table, dtype, shape
        self.device = device
        name = backend.name
        self.library = "numpy" if name == "numba" else name
        self.size = math.prod(shape)
        self.wide = "float64" if dtype == "float64" else "float32"


def given(function: str, argument: str, value: Any) -> Given:
    """Look at an array argument.

    Raises
    ------
    TypeError
        If it is no array of corepy or of a library that it has a backend for, or a sparse one.
    ValueError
        If its shape is not known.
    """
    device: Device | None
    if value.__class__ is np.ndarray:  # what most are, without a search for whose it is
        dtype, shape = name_of(value.dtype), value.shape
        return Given(function, argument, value, value, _numpy(), None, dtype, shape, CPU)
    if isinstance(value, Operand):
        native, table = landed(value)._native, value._table
        backend, dtype = table.backend, table.dtype.name
        device = table.device
    else:
        cls = value.__class__
        owner = _OWNERS[cls] if _is_known(cls) else _owner(value)
        if owner is None:
            expected = "an array of corepy or of a library it has a backend for"
            raise bad_type(function, argument, value, expected)
        # Of a subclass of NumPy's the plain array: its operators may be others, as of np.matrix.
        native = owner.normalize(value) if isinstance(value, (np.ndarray, np.generic)) else value
        if owner.name == "torch":
            if native.layout is not sys.modules["torch"].strided:
                layout = f"its layout is {native.layout}; expected a dense tensor"
                raise TypeError(f"{function}: {argument}: {layout}")
            if native.is_nested:  # which has no shape
                raise TypeError(f"{function}: {argument}: it is nested; expected a dense tensor")
        table, backend = None, owner
        dtype = name_of(native.dtype)
        device = _device_of(backend, native)
    shape = tuple(backend.shape_of(native))
    if None in shape:
        raise bad_argument(function, argument, shape, "a shape of known sizes")
    return Given(function, argument, value, native, backend, table, dtype, shape, device)


#: Who owns the arrays of a class, of libraries of which the class alone tells that.
_OWNERS: Final[dict[type, Backend]] = {}


#: The classes of most tensors.
_TENSORS: Final = (("torch", "Tensor"), ("torch.nn.parameter", "Parameter"))


def _is_known(cls: type) -> bool:
    """Say whether the owner of a class is known, as those of tensors are after the first call."""
    if cls in _OWNERS:
        return True
    if (cls.__module__, cls.__name__) not in _TENSORS:
        return False
    try:
        _OWNERS[cls] = load("torch", "asarray")
    except BackendUnavailableError:  # whoever else takes them
        return False
    return True


# As by `torch.compiler.assume_constant_result`, for which torch would have to be here: what loads
# a backend, `torch.compile` calls, for it can trace neither a lock nor an import.
_is_known._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _owner(value: Any) -> Backend | None:
    # Before the backends: to these the kernels' own adapters know more dtypes and queues.
    found = device_library(value) or owner_of(value)
    if found is not None and found.name in ("cupy", "pyopencl", "torch"):
        _OWNERS[value.__class__] = found
    return found


@cache
def _numpy() -> Backend:
    return load("numpy")


@lru_cache(maxsize=64)
def name_of(dtype: Any) -> str:
    """Return a dtype's name.

    NumPy's have one, tinygrad's have those of C, and torch's print as "torch.float32".
    """
    name: str = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
    return _IN_C.get(name, name)


#: With the sizes that tinygrad gives them everywhere.
_IN_C: Final = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "signed char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
}


def _device_of(backend: Backend, native: Native) -> Device | None:
    try:
        return backend.device_of(native)
    except ValueError:  # JAX's arrays may be spread over several
        return None


def floating(function: str, argument: str, value: Any) -> Given:
    """Look at an array argument of a floating-point dtype.

    Raises
    ------
    TypeError
        If it is no array, or of another dtype.
    """
    found = given(function, argument, value)
    if found.dtype not in FLOATS:
        raise wrong_dtype(function, argument, found.dtype, found.device, _FLOATING)
    return found


def beside(
    argument: str,
    value: Any,
    x: Given,
    dtypes: Sequence[str],
    shape: tuple[int, ...] | None = None,
) -> Given:
    """Look at a further array argument.

    Parameters
    ----------
    x : Given
        The first one, whose library and device the others have to share.
    dtypes : sequence of str
        Names of those that it may have.
    shape : tuple of int or None
        The one that it must have, if there is one.

    Raises
    ------
    TypeError
        If it is no array, or of another library or dtype.
    DeviceMismatchError
        If it lives on another device.
    ValueError
        If it has another shape.
    """
    found = given(x.function, argument, value)
    if found.library != x.library:
        of = f"is an array of {found.library}"
        expected = f"one of {x.library}, as {x.argument} is"
        raise refused(TypeError, x.function, argument, of, expected)
    if found.dtype not in dtypes:
        expected = f"{listing(dtypes)} beside {x.argument} of {x.dtype}"
        raise wrong_dtype(x.function, argument, found.dtype, found.device, expected)
    apart = x.device is not found.device and None not in (x.device, found.device)
    # Where JAX runs what it traces is not known yet: `device` is a guess.
    if apart and not (x.library == "jax" and (is_traced(x) or is_traced(found))):
        on, expected = f"is on {found.device}", f"{x.device}, where {x.argument} is"
        raise refused(DeviceMismatchError, x.function, argument, on, expected)
    if shape is not None and found.shape != shape:
        raise misshapen(found, str(shape), beside=x)
    return found


def parameter(argument: str, value: Any, x: Given, shape: tuple[int, ...]) -> Given | None:
    """Look at a weight or bias: None, or an array of the dtype of `x` or that of its computing."""
    if value is None:
        return None
    return beside(argument, value, x, tuple(dict.fromkeys((x.dtype, x.wide))), shape)


def destination(
    argument: str, value: Any, x: Given, shape: tuple[int, ...] | None = None
) -> Given | None:
    """Look at an array that is to hold the result, in the shape of `x` or another.

    Raises
    ------
    TypeError
        As `beside`, and if its library's arrays never change.
    ValueError
        If it has another shape, or may not be written to.
    """
    if value is None:
        return None
    found = beside(argument, value, x, (x.dtype,), x.shape if shape is None else shape)
    if found.table is None and found.library == "jax":
        raise bad_type(x.function, argument, value, "None, for arrays of jax never change")
    writable(found)
    return found


def writable(x: Given) -> None:
    """Refuse an array that may not be written to.

    Raises
    ------
    ValueError
        If it may not, or if elements share their memory.
    """
    if x.table is not None or is_compiling(x):
        return
    if _is_spread(x):
        raise unusable(x, "has elements that share their memory", "memory for each")
    # A scalar of NumPy's never changes: `native` is a copy.
    if isinstance(x.value, np.generic) or not x.backend.is_writable(x.native):
        raise unusable(x, "is read-only", "writable memory")


#: Libraries whose arrays may have elements that share their memory.
_WITH_STRIDES: Final = frozenset({"numpy", "torch", "cupy", "pyopencl"})


def _is_spread(x: Given) -> bool:
    """Say whether elements share their memory, as after a broadcast; NumPy may let one write."""
    if x.library not in _WITH_STRIDES or not x.size:
        return False
    steps = x.native.stride() if x.library == "torch" else x.native.strides
    return 0 in steps and any(n > 1 and not step for n, step in zip(x.shape, steps, strict=True))


def misshapen(x: Given, expected: str, *, beside: Given | None = None) -> ValueError:
    """An array has a shape that does not fit, or not that of another one."""
    if beside is not None:
        expected += f" beside {beside.argument} of shape {beside.shape}"
    return wrong_shape(x.function, x.argument, x.shape, expected)


def unusable(x: Given, found: str, expected: str) -> ValueError:
    """An array cannot be used for what is found of it."""
    return refused(ValueError, x.function, x.argument, found, expected)


def in_common(x: Given, y: Given) -> ValueError:
    """Two arrays, of which one is to be written to, have memory in common."""
    return unusable(y, f"has memory of {x.argument}", "another array")


def finite(function: str, argument: str, value: Any, least: float = -math.inf) -> float:
    """Return a finite real number.

    Raises
    ------
    TypeError
        If it is of another type.
    ValueError
        If it is not finite, or less than `least`.
    """
    if value.__class__ is not float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise bad_type(function, argument, value, "a real number")
    try:
        number = float(value)
    except OverflowError:  # of an integer, which a message would spell out
        number = value = math.inf
    # By comparisons, which `torch.compile` takes of numbers that change, as it does not `isfinite`.
    if not -math.inf < number < math.inf or number < least:
        bound = "" if least == -math.inf else f" of at least {least:g}"
        raise bad_argument(function, argument, value, f"a finite number{bound}")
    return number


#: The greatest number, and the least that has all digits, of the dtypes in which is computed.
GREATEST: Final = {wide: float(np.finfo(wide).max) for wide in ("float32", "float64")}
_LEAST: Final = {wide: float(np.finfo(wide).smallest_normal) for wide in GREATEST}


def within(x: Given, number: float) -> float:
    """Return a number, or the greatest of the dtype that `x` is computed in if it is beyond that.

    Infinity, which it would be there, gives NaN beside a zero.
    """
    greatest = GREATEST[x.wide]
    return max(-greatest, min(number, greatest))


def real(x: Given, argument: str, value: Any, least: float = -math.inf) -> float:
    """Return a number that is `finite`, and `within` the dtype that `x` is computed in."""
    return within(x, finite(x.function, argument, value, least))


def epsilon(x: Given, value: Any) -> float:
    """Return what keeps a divisor from zero: if positive, a number that does so in any dtype."""
    found = real(x, "eps", value, 0.0)
    return max(found, _LEAST[x.wide]) if found else 0.0


def whole(function: str, argument: str, value: Any, least: int) -> int:
    """Return an integer of at least some size.

    Raises
    ------
    TypeError
        If it is of another type.
    ValueError
        If it is less.
    """
    number = integer(function, argument, value)
    if number < least:
        raise bad_argument(function, argument, value, f"an integer of at least {least}")
    return number


def place(x: Given, axis: Any) -> int:
    """Return an axis of `x` as a non-negative number.

    Raises
    ------
    TypeError
        If it is no integer.
    IndexError
        If `x` has no such axis.
    """
    ndim = len(x.shape)
    number = integer(x.function, "axis", axis)
    if not -ndim <= number < ndim:
        expected = f"an axis of {x.argument}, which has {ndim} dimensions"
        raise out_of_range(x.function, "axis", axis, expected)
    return number % ndim


def integer(function: str, argument: str, value: Any, expected: str = "an integer") -> int:
    """Return an integer, which what says yes or no is not.

    Raises
    ------
    TypeError
        If it is of another type.
    """
    if type(value) is int:  # also one that `torch.compile` lets change, which `index` would fix
        return value
    if not isinstance(value, bool):
        try:
            number = index(value)
        except TypeError:
            pass
        else:
            looked()  # an array's, of which keys have the dtype and the shape
            return number
    raise bad_type(function, argument, value, expected)


def choice(function: str, argument: str, value: Any, options: Sequence[Any]) -> Any:
    """Return that of some options, words or integers, which a value is.

    Raises
    ------
    ValueError
        If it is none of them.
    """
    # An array is compared element by element, and 8.0 is no integer.
    if not isinstance(value, (str, Integral, type(None))) or value not in options:
        raise bad_argument(function, argument, value, listing(repr(o) for o in options))
    return options[options.index(value)]


def broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Say whether a shape broadcasts to another."""
    if len(shape) > len(target):
        return False
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(target)))


def astray(x: Given, most: int) -> str | None:
    """Return what is found of integers if one is negative, or greater than `most`, for messages.

    Those without values, as inside of traces, are not looked at.
    """
    if not x.size or is_traced(x):
        return None
    values = peeked(x)
    low, high = int(values.min()), int(values.max())
    return f"has values from {low} to {high}" if low < 0 or high > most else None


def is_compiling(x: Given) -> bool:
    """Say whether `torch.compile` traces a call: few things that ask for more let it go on."""
    return x.library == "torch" and bool(sys.modules["torch"].compiler.is_compiling())


@cache
def torch_layout() -> Any:
    """Return what knows of tensors how they lie and who listens to torch, which it imports."""
    from corepy.backends.torch import _layout

    return _layout


@cache
def jax_values() -> Any:
    """Return what knows which of JAX's arrays have values on the host, and how it computes."""
    from corepy.backends.jax import _values

    return _values


def is_traced(x: Given) -> bool:
    """Say whether an array has no values yet, only a shape, or none that can be looked at."""
    if x.library == "jax":
        return isinstance(x.native, sys.modules["jax"].core.Tracer)
    if x.library == "torch":
        if is_compiling(x) or sys.modules["torch"].jit.is_tracing():
            return True
        # Inside of torch.func what is made of it may stand for others though it does not itself.
        return not torch_layout().address(x.native.detach())
    return False
