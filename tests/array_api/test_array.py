"""The `Array` as an object: attributes, conversions, Python's protocols and interchange."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.array_api import _hints
from corepy.devices._device import as_device
from tests.helpers import FLOATS, NAMES, arrays, assert_values, shapes, to_numpy
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")

INF = float("inf")


@pytest.mark.at_once
@given(x=arrays())
def test_attributes(x: Any) -> None:
    values = to_numpy(x)
    assert x.shape == values.shape
    assert all(type(n) is int for n in x.shape)
    assert x.ndim == values.ndim
    assert x.size == values.size
    assert x.nbytes == values.nbytes
    assert x.dtype is DTYPES[values.dtype.name]
    assert x.device is xp.empty(0).device
    if x.ndim == 2:
        assert_values(x.T, values.T)
    else:
        with pytest.raises(ValueError, match=f"^T: x has {x.ndim} dimensions; expected 2"):
            _ = x.T
    if x.ndim >= 2:
        assert_values(x.mT, np.swapaxes(values, -1, -2))
    else:
        with pytest.raises(ValueError, match=f"^mT: x has {x.ndim} dimensions; expected at least"):
            _ = x.mT


def test_arrays_are_made_by_functions_and_take_no_attributes() -> None:
    x = xp.ones(1)
    with pytest.raises(TypeError, match="Array.. takes no arguments"):
        corepy.Array([1])
    empty = corepy.Array()  # which is of no use, and does no harm
    uses: list[Callable[[], object]] = [
        *(lambda: empty + 1.0, lambda: 1 - empty, lambda: -empty, lambda: empty.shape),
        *(lambda: empty + empty, lambda: x + empty, lambda: empty @ x, lambda: empty.T),
        *(lambda: empty[0], lambda: x[empty], lambda: len(empty), lambda: float(empty)),
        *(lambda: xp.sum(empty), lambda: xp.concat([x, empty]), lambda: xp.concat([empty, x])),
        *(lambda: xp.reshape(empty, (1,)), lambda: xp.zeros_like(empty), lambda: repr(empty)),
        *(lambda: xp.sort(empty), lambda: xp.where(empty, x, x), lambda: xp.clip(empty, 0, 1)),
        *(lambda: xp.linalg.inv(empty), lambda: xp.astype(empty, xp.float32)),
        *(lambda: xp.take(x, empty), lambda: xp.argmax(empty), lambda: xp.roll(empty, 1)),
        *(lambda: xp.tensordot(empty, x), lambda: xp.vecdot(x, empty), lambda: xp.var(empty)),
        *(lambda: x.__setitem__(0, empty), lambda: empty.__setitem__(0, 1.0)),
        *(lambda: x.__iadd__(empty), lambda: xp.searchsorted(x, empty)),
    ]
    for use in uses:
        with pytest.raises((AttributeError, KeyError, TypeError)):
            use()
    with pytest.raises(AttributeError):
        x.color = "red"
    with pytest.raises(TypeError, match="unhashable type"):
        hash(x)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("astype", ": use xp.astype(x, ...)"),
        ("sum", ": use xp.sum(x, ...)"),
        ("real", ": use xp.real(x, ...)"),
        ("cumsum", ": use xp.cumulative_sum(x, ...)"),
        ("numpy", ": use np.asarray(x)"),
        ("cpu", ': use x.to_device("cpu")'),
        ("flatten", ": use xp.reshape(x, (-1,))"),
        *((name, "") for name in ("zeros", "float32", "fft", "nope", "__array_interface__")),
        ("__array_namespace_info__", ""),
    ],
)
def test_attributes_of_other_libraries_arrays_say_what_to_use(name: str, told: str) -> None:
    x = xp.ones(1)
    assert not hasattr(x, name)
    assert name not in dir(x)
    with pytest.raises(AttributeError) as caught:
        getattr(x, name)
    assert str(caught.value) == f"'Array' object has no attribute {name!r}{told}"


def test_methods_are_named_after_the_array() -> None:
    with pytest.raises(TypeError, match=r"^Array\.to_device\(\) missing"):
        xp.ones(1).to_device()


def test_the_namespace_has_no_function_for_names_it_lacks() -> None:
    # With one, CPython's specialized instructions do not apply: each call would take 30 ns longer.
    assert not hasattr(xp, "concatenate")
    for module in (xp, xp.linalg, xp.fft):
        assert "__getattr__" not in vars(module)


def test_the_names_that_hints_give_are_there_and_those_they_explain_are_not() -> None:
    public = set(xp.__all__)
    assert set(_hints._RENAMED.values()) <= public
    assert public.isdisjoint(_hints._RENAMED)
    assert public >= _hints._OF_NO_ARRAY
    assert not [name for name in _hints._OF_ARRAYS if hasattr(corepy.Array, name)]


@pytest.mark.at_once
def test_what_is_empty_shows_its_shape() -> None:
    assert repr(xp.zeros((0, 3))).startswith("Array([], shape=(0, 3), dtype=")
    assert repr(xp.zeros(0)).startswith("Array([], dtype=")


def test_bytes_are_those_of_the_elements() -> None:
    x = xp.asarray([[1, 2, 3], [4, 5, 6]])
    for y in (x, x.T, x[:, ::2]):
        assert bytes(y) == to_numpy(y).tobytes()


@pytest.mark.parametrize(
    ("call", "kind", "told"),
    [
        (lambda x: x[[0, 1]], TypeError, "None or Array: make one by xp.asarray(...)"),
        (lambda x: xp.sum([1]), TypeError, "sum: x is of type list; expected an array: make one"),
        (lambda x: x.__setitem__(0, "a"), TypeError, "of type str; expected an array or a scalar"),
        (lambda x: xp.clip(x, "a"), TypeError, "min is of type str; expected an array or a scalar"),
        (lambda x: xp.ones(1, device="torch"), ValueError, 'see corepy.to(x, backend="torch")'),
        (lambda x: xp.ones(1, device="cpu:0"), ValueError, 'expected "cpu", which has no number'),
        (lambda x: xp.ones(1, dtype=np.float16), TypeError, "dtype is numpy's float16; expected"),
        (lambda x: xp.ones(1, dtype=np.dtype("f2")), TypeError, "dtype is numpy's float16; expec"),
        (lambda x: xp.ones(1, dtype="float"), ValueError, "or float itself, Python's type"),
        (lambda x: xp.isdtype(x.dtype, ["integral"]), TypeError, "a kind, or a tuple of them"),
    ],
)
def test_mistakes_of_newcomers_say_what_to_do(
    call: Callable[[Any], object], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind) as caught:
        call(xp.ones(2))
    assert told in str(caught.value)


@given(x=arrays(shape=st.just(())))
def test_scalars_of_arrays_without_dimensions(x: Any) -> None:
    value = to_numpy(x).item()
    assert type(x.item()) is type(value)
    assert bool(x) is bool(value)
    assert repr(complex(x)) == repr(complex(value))
    if isinstance(value, complex):
        for convert in (int, float):
            with pytest.raises(TypeError, match=f"^{convert.__name__}: x has dtype complex"):
                convert(x)
        return
    assert repr(float(x)) == repr(float(value))
    if value != value:
        with pytest.raises(ValueError, match="^int: x holds nan; expected a finite number"):
            int(x)
    elif value in (INF, -INF):
        with pytest.raises(OverflowError, match="^int: x holds -?inf; expected"):
            int(x)
    else:
        assert int(x) == int(value)
    if x.dtype.rank == 1:
        assert range(10**3)[min(value, 5) : 7] == range(10**3)[slice(min(int(x), 5), 7)]
        assert x.__index__() == value
    else:
        with pytest.raises(TypeError, match=f"^index: x has dtype {x.dtype}; expected an integer"):
            x.__index__()


@pytest.mark.parametrize("shape", [(1,), (2,), (0,), (1, 1)])
@together(
    ("convert", "error"),
    [(bool, ValueError), (int, TypeError), (float, TypeError), (complex, TypeError)],
)
def test_arrays_with_dimensions_are_no_scalars(
    convert: type, error: type[Exception], shape: tuple[int, ...]
) -> None:
    hint = r", such as xp.any\(x\) or xp.all\(x\)" if convert is bool else ""
    with pytest.raises(
        error, match=rf"^{convert.__name__}: x has shape .*; expected a 0-D array{hint}$"
    ):
        convert(xp.ones(shape))


def test_length_iteration_and_membership() -> None:
    x = xp.asarray([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    assert all(type(row) is corepy.Array for row in x)
    assert [int(n) for n in xp.arange(3)] == [0, 1, 2]
    assert 4 in x
    assert 7 not in x
    assert list(xp.zeros((0, 3))) == []
    zero_d = xp.asarray(1)
    for function, name in ((len, "len"), (iter, "iter")):
        with pytest.raises(TypeError, match=f"^{name}: x has 0 dimensions; expected at least 1"):
            function(zero_d)
    with pytest.raises(TypeError, match="^in: value is of type str; expected a scalar or an array"):
        assert "a" in x


def test_formatting() -> None:
    assert f"{xp.asarray(3.14159):.2f}" == "3.14"
    assert f"{xp.asarray(7):03d}" == "007"
    assert f"{xp.asarray(True)}" == "True"
    assert f"{xp.asarray(1 + 2j)}" == "(1+2j)"
    x = xp.asarray([1, 2])
    assert f"{x}" == str(x) == "[1 2]"
    with pytest.raises(TypeError, match=r"^format: x has shape \(2,\); expected a 0-D array for"):
        f"{x:.2f}"


@pytest.mark.at_once
def test_repr_tells_dtype_device_and_backend(backend: str) -> None:
    x = xp.asarray([1.5, 2.5], dtype=xp.float32)
    text = f"Array([1.5, 2.5], dtype=float32, device={x.device}, backend={backend})"
    assert repr(x) == text


@given(x=arrays())
def test_copies_and_pickles_are_equal_and_apart(x: Any) -> None:
    values = to_numpy(x)
    protocols = range(2, pickle.HIGHEST_PROTOCOL + 1)
    copies = [
        copy.copy(x),
        copy.deepcopy(x),
        *(pickle.loads(pickle.dumps(x, protocol)) for protocol in protocols),
    ]
    for again in copies:
        assert type(again) is corepy.Array
        assert (again.dtype, again.device, again.backend) == (x.dtype, x.device, x.backend)
        assert_values(again, values)
        if x.size:
            again[(0,) * x.ndim] = True if x.dtype is xp.bool else 1
    assert_values(x, values)


def test_dtypes_and_devices_pickle_to_themselves() -> None:
    for thing in (*DTYPES.values(), as_device("cpu")):
        assert pickle.loads(pickle.dumps(thing)) is thing
        assert copy.copy(thing) is copy.deepcopy(thing) is thing


# ---------------------------------------------------------------------------- interchange


@given(x=arrays())
def test_array_protocol_of_numpy(x: Any) -> None:
    values = np.asarray(x)
    assert values.dtype.name == x.dtype.name
    assert values.shape == x.shape
    new = np.array(x, copy=True)
    assert not np.shares_memory(new, np.asarray(x)) or x.size == 0
    if x.dtype.rank < 3:
        assert np.asarray(x, dtype=np.float64).dtype == np.float64


@pytest.mark.at_once
@given(x=arrays(FLOATS, shape=shapes(min_side=1)))
def test_buffer_protocol(x: Any) -> None:
    if x.device is not as_device("cpu"):
        with pytest.raises(BufferError, match="^buffer: x is on .*; expected host memory"):
            x.__buffer__(0)
        return
    if x.backend == "reference":
        with pytest.raises(BufferError, match="^buffer: reference shares no memory; expected"):
            x.__buffer__(0)
        return
    # Python calls __buffer__ itself from 3.12 on.
    view = memoryview(x) if sys.version_info >= (3, 12) else x.__buffer__(0)
    assert view.shape == x.shape
    assert_values(x, np.asarray(view))


@pytest.mark.at_once
def test_buffer_method(backend: str) -> None:
    x = xp.asarray([1.0, 2.0]).to_device("cpu")
    if x.backend != "reference":
        assert x.__buffer__(0).tolist() == [1.0, 2.0]
    wide = xp.broadcast_to(xp.asarray(1.0), (3,))
    if backend == "numpy":
        with pytest.raises(BufferError, match="^buffer: x is read-only; expected writable memory"):
            wide.__buffer__(1)


#: Device types of DLPack by the kind of a device: CUDA, Metal, ROCm, oneAPI.
DLPACK = {"cuda": (2, 13), "mps": (8,), "rocm": (10,), "xpu": (14,)}


def test_dlpack_device(backend: str) -> None:
    x = xp.ones(2)
    told = x.__dlpack_device__()
    if x.device.kind in ("cpu", "dask"):  # whose values come to the host
        assert told == (1, 0)
    elif told != (1, 0):  # as the stand-in for CuPy has it too
        assert told[0] in DLPACK[x.device.kind]
        assert told[1] == x.device.index


@given(x=arrays(shape=shapes(min_side=1)))
def test_dlpack_to_numpy(x: Any) -> None:
    if x.__dlpack_device__() == (1, 0):
        shared = np.from_dlpack(x)
        assert shared.dtype.name == x.dtype.name
        assert_values(x, shared)
    else:  # without a device the standard wants that of x, which NumPy cannot use
        with pytest.raises((BufferError, RuntimeError)):
            np.from_dlpack(x)
    assert_values(x, np.from_dlpack(x, device="cpu", copy=True))


def test_dlpack_keywords() -> None:
    x = xp.asarray([1.0, 2.0])
    if x.__dlpack_device__() != (1, 0):
        for kwargs in ({}, {"copy": True}, {"max_version": (1, 1), "copy": True}):
            assert "dltensor" in repr(x.__dlpack__(**kwargs))
        for kwargs in ({}, {"copy": True}, {"max_version": (1, 0)}):
            assert "dltensor" in repr(x.__dlpack__(dl_device=(1, 0), **kwargs))
        with pytest.raises(BufferError, match="^__dlpack__: "):
            x.__dlpack__(dl_device=(1, 0), copy=False)
        return
    for kwargs in (
        {},
        {"max_version": (1, 0)},
        {"max_version": (1, 1), "copy": True},
        {"dl_device": (1, 0)},
        {"dl_device": (1, 0), "copy": False},
        {"max_version": None, "stream": None},
    ):
        assert "dltensor" in repr(x.__dlpack__(**kwargs))
    with pytest.raises(BufferError, match="^__dlpack__: "):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="^__dlpack__: "):
        x.__dlpack__(stream=1)


@pytest.mark.at_once
def test_what_is_shared_on_request_is_the_arrays_own(backend: str) -> None:
    x = xp.asarray([1.0, 2.0])
    lent: list[Any] = []
    if x.device is as_device("cpu"):
        with contextlib.suppress(BufferError):
            lent.append(np.asarray(x.__buffer__(1)))
    with contextlib.suppress(BufferError):
        lent.append(np.from_dlpack(x, device="cpu", copy=False))
    with contextlib.suppress(ValueError):
        lent.append(np.array(x, copy=False))
    if backend in ("numpy", "numba", "torch") and x.device is as_device("cpu"):
        assert [values.flags.writeable for values in lent] == [True] * 3
    for values in lent:
        if values.flags.writeable:
            values[0] += 1.0
            assert x.tolist() == values.tolist()


@pytest.mark.backend("reference")
def test_lists_are_not_shared() -> None:
    with corepy.backend_priority(["reference"]):
        x = xp.asarray([1.0, 2.0])
    with pytest.raises(ValueError, match="^reference keeps lists, which share no memory"):
        np.array(x, copy=False)
    for flags in (0, 1):
        with pytest.raises(BufferError, match="^buffer: reference shares no memory; expected"):
            x.__buffer__(flags)


@pytest.mark.backend("numpy")
def test_dlpack_of_read_only_memory_needs_a_version_that_says_so() -> None:
    values = np.ones(2)
    values.setflags(write=False)
    with corepy.backend_priority(["numpy"]):
        x = xp.asarray(values)
    with pytest.raises(BufferError, match="^__dlpack__: .*readonly"):
        x.__dlpack__()
    assert not np.from_dlpack(x).flags.writeable  # it asks for version 1


def test_array_namespace() -> None:
    x = xp.ones(1)
    assert x.__array_namespace__() is corepy.array_api
    for version in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        assert x.__array_namespace__(api_version=version) is corepy.array_api
    with pytest.raises(
        ValueError, match="^__array_namespace__: api_version is '2020.01'; expected"
    ):
        x.__array_namespace__(api_version="2020.01")


@pytest.mark.at_once
def test_to_device() -> None:
    x = xp.ones(2)
    assert (x.to_device("cpu") is x) == (str(x.device) == "cpu")
    assert x.to_device(x.device) is x
    with pytest.raises(
        corepy.BackendUnavailableError, match="^to_device: device is 'nowhere'; exp"
    ):
        x.to_device("nowhere")
    with pytest.raises(ValueError, match="^to_device: stream is -1; expected None"):
        x.to_device("cpu", stream=-1)  # an address where there are streams
    with pytest.raises(TypeError, match="^to_device: device is of type int; expected a Device"):
        x.to_device(3)


@pytest.mark.parametrize("dtype", NAMES)
def test_other_libraries_functions_take_an_array(dtype: str) -> None:
    x = xp.ones(3, dtype=DTYPES[dtype])
    assert np.sum(np.asarray(x)) == 3
    assert np.concatenate([np.asarray(x), np.zeros(1, dtype)]).dtype.name == dtype


@pytest.mark.parametrize("other", [[0.5, 1.5], (1,), "ab", b"ab"])
def test_an_integer_repeats_no_sequence(other: Any) -> None:
    n = xp.sum(xp.asarray([1, 1]))
    for call in (lambda: n * other, lambda: other * n):
        with pytest.raises(
            TypeError, match="^multiply: x[12] is of type .*; expected an array or a"
        ):
            call()
    with pytest.raises(TypeError):
        n *= other


@pytest.mark.parametrize("dtype", NAMES)
def test_numpy_asks_for_the_dtype(dtype: str) -> None:
    x = xp.ones(3, dtype=DTYPES[dtype])
    assert x.__numpy_dtype__ == np.dtype(dtype)


def test_big_endian_and_strided_native_arrays_are_taken() -> None:
    assert (xp.asarray(np.array([1, 2], dtype=">i4")) + 1).tolist() == [2, 3]
    assert xp.asarray(np.arange(6)[::-2]).tolist() == [5, 3, 1]
    with pytest.raises(TypeError, match="^asarray: obj: its dtype is numpy's float16; expected"):
        xp.asarray(np.ones(1, np.float16))


@pytest.mark.at_once
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: x // x, ZeroDivisionError),
        (lambda x: xp.remainder(x, x), ZeroDivisionError),
        (lambda x: x.__ifloordiv__(x), ZeroDivisionError),
        (lambda x: x ** (x - 2), ValueError),
        (lambda x: x + x[:2], ValueError),
        (lambda x: x[7], IndexError),
        (lambda x: xp.take(x, x + 9), IndexError),
        (lambda x: x + xp.asarray("a"), TypeError),
    ],
)
def test_errors_keep_no_operands(call: Callable[[Any], Any], error: type[Exception]) -> None:
    x = xp.asarray([1, 0, 3])

    def fail() -> None:
        with pytest.raises(error):
            call(x)

    fail()  # fills caches
    gc.collect()
    gc.disable()
    try:
        before = sys.getrefcount(x)
        for _ in range(5):
            fail()
        assert sys.getrefcount(x) == before
    finally:
        gc.enable()
