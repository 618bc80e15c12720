"""Garbage in: only documented exceptions out, whose messages name the function.

Every function of the namespace and every method of the `Array` gets arguments that make no sense:
wrong types, objects that misbehave, sizes beyond memory, dtypes and shapes that do not fit. Nothing
may crash, hang, eat the memory or raise anything that is not documented.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corepy
import corepy.array_api as xp
from tests.conftest import backends
from tests.helpers import FEW_SHAPES, FUNCTIONS, NAMES, STANDARD, arrays, function

#: What functions may raise. `AttributeError` and bare `Exception` are bugs, whoever raises them.
DOCUMENTED = (
    TypeError,
    ValueError,
    IndexError,
    OverflowError,
    ZeroDivisionError,
    BufferError,
    MemoryError,
    corepy.CorepyError,
)


class Hostile(Exception):
    """What a hostile object raises of itself; it passes through, as it would from builtins."""


class Index:
    """Claims to be an integer, and is not."""

    def __index__(self) -> int:
        raise Hostile("__index__")


class ArrayLike:
    """Claims to be an array of NumPy, and gives no array."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise Hostile("__array__")


class Length:
    """Claims to be a sequence of more elements than there are."""

    def __len__(self) -> int:
        return 2**62

    def __getitem__(self, index: int) -> Any:
        raise Hostile("__getitem__")


class Shape:
    """Has the attributes of an array, with nonsense in them."""

    shape = "shape"
    dtype = "dtype"
    ndim = -1


class DLPack:
    """Speaks DLPack, but gives no capsule."""

    def __dlpack__(self, **kwargs: Any) -> Any:
        return 42

    def __dlpack_device__(self) -> Any:
        return (1, 0)


class Repr:
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise Hostile("__repr__")


#: No size between "small" and "refused at once" is here: a test must not fill the memory.
NUMBERS = [0, 1, -1, 2, 3, 7, 2**47, 2**62, 2**63, -(2**63), 2**64, 2**200, -(2**200)]
PLAIN: list[Any] = [
    None,
    True,
    False,
    "",
    "float32",
    "xy",
    "\x00",
    "gpu",
    b"bytes",
    ...,
    0.5,
    -0.0,
    float("nan"),
    float("inf"),
    1e308,
    1j,
    complex("nan+infj"),
    [],
    (),
    {},
    set(),
    [[1, 2], [3]],
    [None],
    ((),),
    (0, 0),
    (-1, 5),
    [1, "a"],
    slice(None),
    slice("a", 2**70, 0),
    object,
    int,
    print,
    range(3),
    xp.int8,
    xp.float64,
    xp.complex64,
    xp.bool,
    np.float16(1.0),
    np.float32(2.0),
    np.array(["a"]),
    np.array([None]),
    np.array("2020-01-01", dtype="datetime64[D]"),
    np.zeros((2, 0, 3)),
    np.ones((1,) * 33),
    np.ma.masked_array([1.0], mask=[True]),
    corepy.Device,
]
HOSTILE = [Index(), ArrayLike(), Length(), Shape(), DLPack(), object()]

scalars = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(PLAIN), st.sampled_from(HOSTILE))


def small(x: corepy.Array) -> corepy.Array:
    """Return an array, or if it is an integer, which may become a size, one that memory holds.

    ``eye`` of a uint16 of 65535 is 4 thousand million objects of the reference backend.
    """
    if x.ndim == 0 and xp.isdtype(x.dtype, "integral") and 8 <= int(x) < 2**47:
        return xp.asarray(int(x) % 8, dtype=x.dtype)
    return x


#: NumPy's, on the host; each backend is given its own copies. Of few shapes, for XLA compiles.
operands = arrays(NAMES, st.sampled_from((*FEW_SHAPES, (2, 1, 3)))).map(small)
garbage = st.one_of(
    scalars,
    st.sampled_from(NUMBERS),
    operands,
    st.lists(scalars, max_size=3),
    st.lists(scalars, max_size=3).map(tuple),
    st.lists(operands, max_size=2),
)
#: Drawing takes longer than all calls together, so every backend gets the same garbage.
BACKENDS = [str(param.id) for param in backends()]


def given_to(value: Any, backend: str) -> Any:
    """Turn the arrays that were drawn into a backend's."""
    if isinstance(value, corepy.Array):
        return corepy.to(value, backend=backend, copy=True)
    if type(value) in (list, tuple):
        return type(value)(given_to(item, backend) for item in value)
    return value


@contextmanager
def prefer(backend: str) -> Iterator[None]:
    with corepy.backend_priority([backend]), corepy.set_fallback("allow"):
        try:
            yield
        except Exception as error:
            error.add_note(f"on the backend {backend}")
            raise


def attempt(names: tuple[str, ...], call: Any, args: Any, kwargs: Any) -> None:
    """Call, and hold whatever is raised to what is documented."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(*args, **kwargs)
        except Hostile:
            return
        except DOCUMENTED as error:
            message = str(error)
            if not any(named(name, message) for name in names):
                raise AssertionError(f"does not name {names}: {message!r}") from error


def named(name: str, message: str) -> bool:
    """Say whether a message starts with a function's name, as corepy's and Python's own do."""
    return bool(re.match(rf"(Array\.|\w+\.)*{re.escape(name)}(\(\)|:| )", message))


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
def test_functions_refuse_garbage_with_documented_exceptions(
    name: str, data: st.DataObject
) -> None:
    call = function(name)
    args, kwargs = data.draw(arguments(call), label="arguments")
    for backend in BACKENDS:
        with prefer(backend):
            given_args = [given_to(arg, backend) for arg in args]
            given_kwargs = {key: given_to(value, backend) for key, value in kwargs.items()}
            attempt((name.rpartition(".")[2],), call, given_args, given_kwargs)


@st.composite
def arguments(draw: st.DrawFn, call: Any) -> tuple[list[Any], dict[str, Any]]:
    """Draw arguments of the right number, the first an array half of the time."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in inspect.signature(call).parameters.values():
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL:
                args += draw(st.lists(garbage, max_size=3))
            case inspect.Parameter.KEYWORD_ONLY:
                if draw(st.integers(0, 3)) == 0:
                    kwargs[parameter.name] = draw(garbage)
            case _:
                if not args:
                    args.append(draw(st.one_of(operands, garbage)))
                elif parameter.default is inspect.Parameter.empty or draw(st.booleans()):
                    args.append(draw(garbage))
                else:
                    break
    return args, kwargs


METHODS = [
    name
    for kind in ("methods", "reflected", "in_place")
    for name in STANDARD["array"][kind]
    if name != "__array_namespace__"
]
#: The function that an operator's messages name; others name the method itself.
OPERATORS = {
    "__add__": "add",
    "__sub__": "subtract",
    "__mul__": "multiply",
    "__truediv__": "divide",
    "__floordiv__": "floor_divide",
    "__mod__": "remainder",
    "__pow__": "pow",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
    "__lt__": "less",
    "__le__": "less_equal",
    "__gt__": "greater",
    "__ge__": "greater_equal",
    "__eq__": "equal",
    "__ne__": "not_equal",
    "__abs__": "abs",
    "__neg__": "negative",
    "__pos__": "positive",
    "__invert__": "bitwise_invert",
    "__matmul__": "matmul",
}


def speakers(method: str) -> tuple[str, ...]:
    """Return the names that a method's messages may start with."""
    plain = method.strip("_")
    names = [method, plain]
    for form in (method, f"__{plain[1:]}__"):
        if form in OPERATORS:
            names.append(OPERATORS[form])
    if method == "__imatmul__":
        names += ["__setitem__", "matmul"]
    return tuple(names)


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
def test_methods_refuse_garbage_with_documented_exceptions(
    method: str, data: st.DataObject
) -> None:
    x = data.draw(operands, label="self")
    args, kwargs = data.draw(arguments(getattr(x, method)), label="arguments")
    if method.endswith(("shift__", "pow__")):
        # Huge exponents are legal, and slow where integers are exact.
        args = [arg for arg in args if not (isinstance(arg, int) and abs(arg) > 7)]
    for backend in BACKENDS:
        with prefer(backend):
            bound = getattr(given_to(x, backend), method)
            given_args = [given_to(arg, backend) for arg in args]
            given_kwargs = {key: given_to(value, backend) for key, value in kwargs.items()}
            attempt(speakers(method), bound, given_args, given_kwargs)


@settings(max_examples=100)
@given(data=st.data())
def test_keys_refuse_garbage_with_documented_exceptions(data: st.DataObject) -> None:
    drawn = data.draw(operands, label="x")
    key = data.draw(st.one_of(garbage, st.tuples(garbage, garbage)), label="key")
    value = data.draw(garbage, label="value")
    for backend in BACKENDS:
        with prefer(backend):
            x = given_to(drawn, backend)
            attempt(("__getitem__",), x.__getitem__, [given_to(key, backend)], {})
            args = [given_to(key, backend), given_to(value, backend)]
            attempt(("__setitem__",), x.__setitem__, args, {})


@given(value=garbage)
def test_settings_refuse_garbage_with_documented_exceptions(value: Any) -> None:
    before = corepy.get_backend_priority()
    if isinstance(value, (list, tuple)) and not value:
        return
    attempt(("backend_priority",), corepy.backend_priority, [value], {})
    attempt(("explain",), corepy.explain, [value], {})
    assert corepy.get_backend_priority() == before


@given(value=garbage)
def test_operators_between_arrays_and_garbage_leave_the_array_alone(value: Any) -> None:
    x = xp.asarray([1.0, 2.0])
    for method in ("__iadd__", "__imul__", "__ifloordiv__"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = getattr(x, method)(value)
            except (*DOCUMENTED, Hostile):
                assert x.tolist() == [1.0, 2.0]
            else:
                assert result is NotImplemented or result is x
                x = xp.asarray([1.0, 2.0])


def test_an_object_that_cannot_print_itself_is_refused_by_its_type() -> None:
    # Not among the garbage above: Hypothesis prints its examples.
    with pytest.raises(TypeError, match=r"^sin: x is of type .*Repr; expected an array"):
        xp.sin(Repr())
    with pytest.raises(TypeError, match=r"^zeros: shape is of type .*Repr; expected an int"):
        xp.zeros(Repr())
