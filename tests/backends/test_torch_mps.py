"""torch on ``mps``, on a stand-in for Metal: no float64, and contiguous operands for everything."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import kernels
from corepy._dtypes import DTYPES
from corepy.backends._kinds import left_out
from corepy.devices._device import CPU, as_device
from corepy.dispatch import _autocast
from corepy.dispatch._table import forget_entries
from corepy.testing import fake_devices
from tests.array_api.examples import EXAMPLES
from tests.conftest import required
from tests.helpers import assert_same

torch = required("torch")

from corepy.backends.torch import _devices, _memory, _mps  # noqa: E402  they import torch
from corepy.backends.torch._backend import TorchBackend  # noqa: E402
from corepy.backends.torch._creation import on_device  # noqa: E402
from tests.backends.torch_on_metal import MetalTensor, metal  # noqa: E402

pytestmark = pytest.mark.backend("torch")

MPS: Final = as_device("mps")
SINGLE: Final = {"float64": "float32", "complex128": "complex64"}


BACKEND: Final = TorchBackend()


def a(values: Any, dtype: str) -> corepy.Array:
    return xp.asarray(np.asarray(values), dtype=getattr(xp, dtype), device=MPS)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with metal(monkeypatch), corepy.set_fallback("allow"):
        yield


class InSingle:
    """The namespace with the dtypes of single precision in the place of the double ones.

    If `strided`, the arrays that it makes of values lie in every other place of their memory.
    """

    def __init__(self, strided: bool = False) -> None:
        self.strided = strided

    def __getattr__(self, name: str) -> Any:
        return getattr(xp, SINGLE.get(name, name))

    def asarray(self, values: Any, **params: Any) -> corepy.Array:
        x = xp.asarray(values, **params)
        return xp.stack([x, xp.zeros_like(x)], axis=-1)[..., 0] if self.strided else x


#: Values beyond float32.
BEYOND: Final = ("hypot",)


TWO: Final = [[1.5, 2.0], [3.0, 4.0]]
#: What makes operands of its own that are not contiguous.
STRIDING: Final[dict[str, Callable[[Any], Any]]] = {
    "vecdot along the first axis": lambda xp: xp.vecdot(xp.asarray(TWO), xp.asarray(TWO), axis=0),
    "vecdot of a vector and many": lambda xp: xp.vecdot(xp.asarray(TWO[0]), xp.asarray(TWO)),
    "complex vecdot along the first axis": lambda xp: xp.vecdot(
        xp.asarray([[1j, 2], [3, 4j]]), xp.asarray([[5j, 6], [7j, 8]]), axis=0
    ),
    "trace": lambda xp: xp.linalg.trace(xp.asarray(TWO)),
    "traces": lambda xp: xp.linalg.trace(xp.asarray([TWO, TWO]), offset=1),
    "cross of a vector and many": lambda xp: xp.linalg.cross(
        xp.asarray([1.0, 0, 0]), xp.asarray([[0, 1.0, 0], [0, 0, 1]])
    ),
    "cross along the first axis": lambda xp: xp.linalg.cross(
        xp.asarray([[1.0], [0], [0]]), xp.asarray([[0, 0.0], [1, 0], [0, 1]]), axis=-2
    ),
    "a step of -2": lambda xp: xp.arange(5)[::-2],
    "steps of both signs": lambda xp: xp.reshape(xp.arange(24), (4, 6))[::-1, 1::2],
}
CALLS: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: call for name, (call, _, _) in EXAMPLES.items() if name not in BEYOND},
    **STRIDING,
}


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("name", list(CALLS))
def test_examples_give_what_numpy_gives_in_single_precision(
    gpu: None, name: str, strided: bool
) -> None:
    call = CALLS[name]
    found = call(InSingle(strided))
    parts = found if isinstance(found, (tuple, list)) else [found]
    with fake_devices(), corepy.backend_priority(["fake:no_float64"]), np.errstate(all="ignore"):
        expected = call(InSingle())
        if not isinstance(parts[0], corepy.Array):
            assert found == expected
            return
        assert_same(found, expected)
    assert {(x.device, type(x.unwrap())) for x in parts} == {(MPS, MetalTensor)}


def test_only_what_metal_lacks_crosses_to_the_host(gpu: None) -> None:
    crossed = set()
    for name, call in CALLS.items():
        with corepy.set_fallback("raise"):
            try:
                call(InSingle())
            except corepy.FallbackError:
                crossed.add(name)
    decompositions = {
        name for name, dtypes in left_out("torch", "mps").items() if DTYPES["float32"] in dtypes
    }
    assert crossed == decompositions
    for name in ("linalg.inv", "linalg.solve"):
        assert BACKEND.supports(name, DTYPES["float32"], MPS)
        assert not BACKEND.supports(name, DTYPES["complex64"], MPS)
        assert BACKEND.supports(name, DTYPES["complex64"], CPU)


@pytest.mark.parametrize("name", ["acos", "expm1", "log1p", "tanh", "exp", "round"])
def test_complex_functions_see_contiguous_parts(gpu: None, name: str) -> None:
    values = np.array([[0.5 + 1j, -0.0 - 2j], [3 - 0j, 0j]], np.complex64).T
    found = getattr(xp, name)(xp.matrix_transpose(a(values.T, "complex64")))
    assert found.dtype is xp.complex64
    expected = getattr(xp, name)(xp.asarray(values, device="cpu"))
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5)


# ---------------------------------------------------------------------------- dtypes


def test_the_dtypes_of_the_device(gpu: None) -> None:
    info = xp.__array_namespace_info__()
    lacking = set(DTYPES) - set(info.dtypes(device=MPS))
    assert lacking == {"float64", "complex128"}
    assert set(info.dtypes(device=CPU)) == set(DTYPES)
    assert list(info.default_dtypes(device=MPS).values()) == [
        xp.float32,
        xp.complex64,
        xp.int64,
        xp.int64,
    ]
    assert info.default_dtypes(device=CPU)["real floating"] is xp.float64
    assert info.capabilities()["max dimensions"] == 16


def test_what_python_scalars_become(gpu: None) -> None:
    ints = xp.asarray([1, 2])
    for made, dtype, values in [
        (xp.asarray(0.1), xp.float32, np.float32(0.1)),
        (xp.asarray([1.5, 2j]), xp.complex64, [1.5, 2j]),
        (xp.full(2, 0.5), xp.float32, [0.5, 0.5]),
        (xp.linspace(0, 1, 3), xp.float32, [0.0, 0.5, 1.0]),
        (xp.linspace(0, 1j, 2), xp.complex64, [0, 1j]),
        (xp.arange(0.5, 2), xp.float32, [0.5, 1.5]),
        (xp.arange(0.5, 4, dtype=xp.int32), xp.int32, [0, 1, 2, 3]),
        (xp.eye(2, 3, k=-1), xp.float32, [[0, 0, 0], [1, 0, 0]]),
        (ints + 1.5, xp.float32, [2.5, 3.5]),
        (2**0.5 * ints, xp.float32, np.float32(2**0.5) * np.array([1, 2], np.float32)),
        (ints / 2, xp.float32, [0.5, 1.0]),
        (ints * 1j, xp.complex64, [1j, 2j]),
        (xp.mean(ints + 0.0), xp.float32, 1.5),
        (xp.sqrt(ints + 0.0), xp.float32, np.sqrt(np.array([1, 2], np.float32))),
        (xp.sum(ints), xp.int64, 3),
        (xp.fft.fftfreq(4), xp.float32, [0, 0.25, -0.5, -0.25]),
    ]:
        assert (made.device, made.dtype) == (MPS, dtype)
        np.testing.assert_array_equal(np.array(made), values)


ASKING: Final[list[Callable[[], Any]]] = [
    lambda: xp.ones(2, dtype=xp.float64),
    lambda: xp.asarray([1.5], dtype=xp.float64),
    lambda: xp.asarray(1j, dtype=xp.complex128),
    lambda: xp.arange(3, dtype=xp.float64),
    lambda: xp.linspace(0, 1, 3, dtype=xp.float64),
    lambda: xp.zeros_like(xp.ones(2), dtype=xp.float64),
    lambda: xp.astype(xp.ones(2), xp.float64),
    lambda: xp.sum(xp.ones(2), dtype=xp.float64),
    lambda: xp.cumulative_sum(xp.ones(2), dtype=xp.float64),
    lambda: xp.fft.fftfreq(3, dtype=xp.float64),
    lambda: xp.asarray(np.ones(2), device=MPS),
    lambda: xp.asarray(torch.ones(2, dtype=torch.float64), device=MPS),
    lambda: xp.from_dlpack(np.ones(2), device=MPS),
    lambda: xp.ones(2, device="cpu").to_device(MPS),
    lambda: corepy.to(np.ones(2), device="mps"),
]


@pytest.mark.parametrize("number", range(len(ASKING)))
def test_float64_is_refused_with_the_device_and_what_it_has(gpu: None, number: int) -> None:
    with pytest.raises(corepy.UnsupportedOperationError) as caught:
        ASKING[number]()
    assert re.match(
        r"\w+: .*(float64|complex128), which .*mps.*; expected one of bool, int8, .*, complex64$",
        str(caught.value),
    )


def test_float64_of_the_host_beside_an_array_there_is_on_another_device(gpu: None) -> None:
    with pytest.raises(corepy.DeviceMismatchError, match="(?s)mps.*cpu"):
        xp.ones(2) + xp.ones(2, dtype=xp.float64, device="cpu")


# ---------------------------------------------------------------------------- writing


def test_strided_memory_is_written_through(gpu: None) -> None:
    x = xp.asarray([[1, 2], [3, 4]])
    native = x.unwrap()
    turned = xp.matrix_transpose(x)
    assert not turned.unwrap().is_contiguous()
    turned += xp.matrix_transpose(xp.asarray([[10, 20], [30, 40]]))
    assert turned.tolist() == [[11, 33], [22, 44]]
    turned[turned > 30] = 0
    turned[0, :] = xp.asarray([[5, 0], [6, 0]])[:, 0]
    assert turned.tolist() == [[5, 6], [22, 0]]
    turned[xp.asarray([1]), xp.asarray([1])] = 7
    assert turned[xp.asarray([1, 0]), xp.asarray([1, 1])].tolist() == [7, 6]
    assert turned[turned > 6].tolist() == [22, 7]
    assert native.held.tolist() == [[5, 22], [6, 7]]  # it was a view all along


KEYS: Final[list[Any]] = [
    np.s_[::-1],
    np.s_[::-2, 1:],
    np.s_[1, ::-3],
    np.s_[::2, ::-1],
    np.s_[:, :0:-2],
    np.s_[np.array([2, 0]), ::-1],
    np.s_[np.array([True, False, True, False]), 4:1:-1],
    np.s_[np.array([2, 0]), ..., np.array([1, 3])],
    np.s_[None, ::-1, np.array([1, 3])],
]


@pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_any_key_reads_and_writes_the_right_elements(gpu: None, key: Any, turned: bool) -> None:
    base = np.arange(24).reshape((6, 4) if turned else (4, 6))
    x = a(base, "int64")
    native, values = x.unwrap(), base.T if turned else base
    x = xp.matrix_transpose(x) if turned else x
    assert x.unwrap().is_contiguous() is not turned
    parts = key if isinstance(key, tuple) else (key,)
    own = tuple(
        xp.asarray(part, device=MPS) if isinstance(part, np.ndarray) else part for part in parts
    )
    assert x[own].tolist() == values[key].tolist()
    new = -np.arange(values[key].size).reshape(values[key].shape)
    for value in (new, new[:1], new[0], np.asarray(7)):
        x[own] = a(value, "int64")
        values[key] = value
        assert x.tolist() == values.tolist()
    with pytest.raises(ValueError, match="^__setitem__: value: "):
        x[own] = a(np.zeros((5, 5, 5), int), "int64")
    assert native.held.tolist() == base.tolist()


@pytest.fixture
def _as_before() -> Iterator[None]:
    yield
    _autocast._wanted = False
    forget_entries()


@pytest.mark.usefixtures("_as_before")
def test_rounded_products_are_fitted_too(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mps, "LONGEST", 4)
    values = np.arange(1.0, 37.0).reshape(6, 6)
    x = a(values, "float32")[:, ::2]
    with corepy.autocast("bfloat16"):
        made = xp.matrix_transpose(x) @ x
    np.testing.assert_array_equal(made.tolist(), values[:, ::2].T @ values[:, ::2])


def test_views_stay_views_there(gpu: None) -> None:
    x = xp.ones((2, 3))
    for view in (xp.matrix_transpose(x), x[:, 1:], xp.reshape(x, (6,)), xp.expand_dims(x, axis=0)):
        assert view.unwrap().held._base is x.unwrap().held


def test_other_devices_get_the_functions_as_they_are() -> None:
    for name in ("add", "sum", "where", "__getitem__", "matmul"):
        assert BACKEND.operation_on(name, CPU) is BACKEND.operation(name)
        assert BACKEND.operation_on(name, as_device("cuda:0")) is BACKEND.operation(name)
    assert BACKEND.operation_on("add", MPS) is not BACKEND.operation("add")
    assert BACKEND.operation_on("no_such", MPS) is None


# ---------------------------------------------------------------------------- products


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((4,), (4,)),
        ((2, 7), (7, 3)),
        ((7,), (5, 7, 2)),
        ((5, 2, 7), (7,)),
        ((5, 2, 3), (5, 3, 4)),
        ((1, 4, 2, 8), (3, 1, 8, 2)),
        ((6, 2, 2), (2, 2)),
        ((0, 2, 7), (7, 2)),
        ((2, 0), (0, 3)),
    ],
)
def test_products_in_parts(
    monkeypatch: pytest.MonkeyPatch, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    made: list[tuple[int, int]] = []
    multiply = torch.matmul

    def spy(x1: Any, x2: Any) -> Any:
        assert x1.is_contiguous()
        assert x2.is_contiguous()
        found = multiply(x1, x2)
        made.append((x1.shape[-1], max(x1.numel(), x2.numel(), found.numel())))
        return found

    monkeypatch.setattr(_mps, "LONGEST", 3)
    monkeypatch.setattr(_mps, "MOST", 24)
    monkeypatch.setattr(torch, "matmul", spy)
    x1 = torch.arange(1.0, math.prod(first) + 1).reshape(first)
    x2 = torch.arange(1.0, math.prod(second) + 1).reshape(second)
    found = _mps.matmul(x1, x2)
    assert found.tolist() == (x1.numpy() @ x2.numpy()).tolist()
    assert all(terms <= 3 for terms, _ in made)
    if min(x1.ndim, x2.ndim) > 1:  # a vector has no stack to split
        assert all(size <= 24 for _, size in made)


@pytest.mark.parametrize("axes", [((), ()), ((1,), (0,)), ((0, 2), (1, 2)), ((2, 0), (2, 1))])
def test_contractions(axes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x1 = torch.arange(24.0).reshape(2, 3, 4)
    x2 = torch.arange(24.0).reshape(3, 2, 4)
    found = _mps.tensordot(x1, x2, axes=axes)
    assert found.tolist() == np.tensordot(x1.numpy(), x2.numpy(), axes=axes).tolist()


@pytest.mark.parametrize("axis", [-1, -2])
def test_scalar_products_are_made_in_parts_too(
    gpu: None, monkeypatch: pytest.MonkeyPatch, axis: int
) -> None:
    monkeypatch.setattr(_mps, "LONGEST", 3)
    monkeypatch.setattr(_mps, "MOST", 8)
    values = np.arange(1.0, 43.0).reshape(6, 7)
    other = values[:1] if axis == -1 else values
    found = xp.vecdot(a(values, "float32"), a(other, "float32"), axis=axis)
    assert found.tolist() == (values * other).sum(axis).tolist()


@pytest.mark.parametrize("size", [1.0, 3e38, 1e-37, 0.0, math.inf, math.nan])
def test_matrices_are_factored_where_squares_are_in_range(
    gpu: None, monkeypatch: pytest.MonkeyPatch, size: float
) -> None:
    seen: list[float] = []
    factor = torch.linalg.qr

    def spy(x: Any, mode: str) -> Any:
        seen.append(float(x.abs().max()))
        return factor(x, mode)

    monkeypatch.setattr(torch.linalg, "qr", spy)
    with np.errstate(invalid="ignore"):
        values = np.asarray([[0.6, 0.0], [0.8, 0.2]]) * size
    r = np.asarray(xp.linalg.qr(a(values, "float32")).R.tolist())
    if math.isfinite(size):
        np.testing.assert_allclose(np.abs(r), np.abs(np.linalg.qr(values).R), rtol=1e-6)
        assert 2.0**-120 < seen[0] ** 2 < 2.0**120 or size == 0
    else:
        assert np.isnan(r).any()


def test_autocast_leaves_products_in_the_dtype_of_their_operands(gpu: None) -> None:
    x = a([[1.001, 2], [3, 4]], "float32")
    products: list[Callable[[], corepy.Array]] = [
        *(lambda: x @ x, lambda: xp.tensordot(x, x, axes=1), lambda: xp.vecdot(x, x)),
        *(lambda: xp.linalg.matrix_power(x, 2), lambda: kernels.gemm(x, x)),
    ]
    for product in products:
        wanted = product().tolist()
        with torch.autocast("mps", torch.bfloat16):
            assert torch.matmul(x.unwrap(), x.unwrap()).dtype is torch.bfloat16
            found = product()
        assert found.unwrap().dtype is torch.float32
        assert found.tolist() == wanted


@pytest.mark.usefixtures("_as_before")
@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_rounded_products_are_so_under_torchs_autocast_too(gpu: None, device: str) -> None:
    x = a([[1.001, 2], [3, 4]], "float32").to_device(device)
    with corepy.autocast("bfloat16"):
        wanted = (x @ x).tolist()
        with torch.autocast(device, torch.bfloat16):
            found = x @ x
    assert found.unwrap().dtype is torch.float32
    assert found.tolist() == wanted


# ---------------------------------------------------------------------------- memory


def test_memory_is_counted_and_limited_in_torchs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    answers = {
        "current_allocated_memory": lambda: 200,
        "driver_allocated_memory": lambda: 300,
        "recommended_max_memory": lambda: 1000,
        "set_per_process_memory_fraction": asked.append,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.mps, name, answer)
    monkeypatch.setattr(_memory, "_limit_on_metal", 0)
    monkeypatch.delenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO", raising=False)
    stats = corepy.MemoryStats(allocated_bytes=200, cached_bytes=100)
    assert BACKEND.memory_stats(MPS) == stats
    for limit, told in ((250, 250), (5000, 2000)):
        assert BACKEND.limit_memory(MPS, limit) is None
        assert BACKEND.memory_stats(MPS) == replace(stats, limit_bytes=told)
    assert BACKEND.limit_memory(MPS, None) is None
    monkeypatch.setenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0")
    assert BACKEND.limit_memory(MPS, None) is None
    assert asked == [0.25, 2.0, 1.7, 0.0]
    assert BACKEND.memory_stats(MPS) == stats
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 100)
    assert BACKEND.memory_stats(MPS) == replace(stats, cached_bytes=0)


def test_buffers_beyond_what_metal_has_are_a_lack_of_memory() -> None:
    assert BACKEND.is_out_of_memory(RuntimeError("Invalid buffer size: 100.00 GiB"))

    def make(*, device: Any) -> Any:
        raise RuntimeError("Invalid buffer size: 100.00 GiB")

    with pytest.raises(MemoryError, match="Invalid buffer size"):
        on_device(make)(device=CPU)


# ---------------------------------------------------------------------------- xpu


@pytest.mark.parametrize("has_fp64", [True, False])
def test_xpu_has_float64_where_the_driver_says_so(
    monkeypatch: pytest.MonkeyPatch, has_fp64: bool
) -> None:
    asked = []

    def properties(index: int) -> SimpleNamespace:
        asked.append(index)
        return SimpleNamespace(has_fp64=has_fp64)

    monkeypatch.setattr(torch.xpu, "get_device_properties", properties)
    _devices.has_float64.cache_clear()
    dtypes = BACKEND.capabilities(as_device("xpu:1")).dtypes
    assert (xp.float64 in dtypes, xp.complex128 in dtypes) == (has_fp64, has_fp64)
    assert {xp.float32, xp.complex64, xp.int64, xp.uint64} <= dtypes
    assert asked == [1]
    _devices.has_float64.cache_clear()


def test_what_torch_computes_on_the_host_for_xpu_is_left_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_devices, "has_float64", lambda device: True)
    xpu = as_device("xpu:0")
    for name in ("eig", "eigh", "svd", "pinv", "qr", "cholesky", "inv", "solve", "det", "slogdet"):
        for dtype in ("float32", "complex64"):
            assert not BACKEND.supports(f"linalg.{name}", DTYPES[dtype], xpu)
    for name in ("matmul", "tensordot", "vecdot"):
        assert not BACKEND.supports(name, DTYPES["int32"], xpu)
        assert BACKEND.supports(name, DTYPES["float32"], xpu)
