"""tinygrad's adapter on OpenCL and on WebGPU: values, laziness, what devices only hold.

Each kernel is compiled, which takes PoCL a fifth of a second and Mesa some hundredths. So the
functions are tried on arrays of one shape, all dtypes of them on WebGPU only. array-api-tests
draws shapes and values.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import corepy
from conformance.accuracy import bound, ulps
from corepy import array_api as xp
from corepy import kernels
from corepy.backends._rounding import rounded
from corepy.devices._device import Device, as_device
from corepy.dispatch import load
from tests.conftest import required

INF, NAN = np.inf, np.nan
#: Every kind of float, beside every other kind.
ODD = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 7.0, -1e-3, 3e38, INF, -INF, NAN]

OPENCL = pytest.param("opencl:0", marks=pytest.mark.device("tinygrad:opencl"))
WEBGPU = pytest.param("webgpu:0", marks=pytest.mark.device("tinygrad:webgpu"))


@pytest.fixture(params=[OPENCL, WEBGPU])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Give each device, as the default one, and allow no fallback."""
    found = as_device(request.param)
    with corepy.backend_priority([f"tinygrad:{found}"]), corepy.set_fallback("raise"):
        yield found


def pairs(dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return operands that meet each other in every combination."""
    if dtype.startswith("float"):
        values = np.array(ODD, dtype)
    elif dtype == "bool":
        values = np.array([False, True])
    else:
        info = np.iinfo(dtype)
        values = np.array([0, 1, 3, 7, info.min, info.max, info.max // 2], dtype)
    first, second = np.meshgrid(values, values)
    return first.ravel(), second.ravel()


def expect(name: str, *operands: Any) -> Any:
    """Compute what NumPy has under the standard's name."""
    with np.errstate(all="ignore"):
        return getattr(np, name)(*operands)


def check(name: str, made: Any, wanted: Any) -> None:
    """Hold values, dtypes and the signs of zeros together, within the published bound."""
    got = np.asarray(made)
    assert got.dtype == wanted.dtype, name
    if wanted.dtype.kind == "f":
        assert ulps(got, wanted) <= bound(name, "tinygrad"), (name, got, wanted)
        zero = (wanted == 0) & (got == 0)
        np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(wanted)[zero], name)
    else:
        np.testing.assert_array_equal(got, wanted, name)


REAL = ("add", "subtract", "multiply", "abs", "negative", "square", "sign", "maximum", "minimum")
COMPARED = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
FLOAT = (
    *("divide", "reciprocal", "floor", "ceil", "trunc", "round", "sqrt", "signbit"),
    *("isnan", "isinf", "isfinite"),
)
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert")
LOGICAL = ("logical_and", "logical_or", "logical_xor", "logical_not")
UNARY = ("abs", "negative", "square", "sign", "bitwise_invert", "logical_not", *FLOAT[1:])
#: NumPy chooses the other zero.
ZEROS = ("maximum", "minimum")


def elementwise(dtype: str, names: tuple[str, ...]) -> None:
    first, second = pairs(dtype)
    x1, x2 = xp.asarray(first, device=xp.ones(1).device), xp.asarray(second)
    x2 = xp.asarray(second, device=x1.device)
    for name in names:
        operands = (first,) if name in UNARY else (first, second)
        made = getattr(xp, name)(*((x1,) if name in UNARY else (x1, x2)))
        wanted = expect(name, *operands)
        if name in ZEROS and wanted.dtype.kind == "f":
            made, wanted = made + 0.0, wanted + np.array(0, dtype)
        check(name, made, wanted)


@pytest.mark.device("tinygrad:webgpu")
@pytest.mark.parametrize("device", [WEBGPU], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int16", "bool"])
def test_elementwise_values(device: Device, dtype: str) -> None:
    names = {
        "float32": REAL + COMPARED + FLOAT,
        "bool": BITS + LOGICAL + COMPARED[:2],
    }.get(dtype, REAL + COMPARED + BITS)
    elementwise(dtype, names)


@pytest.mark.parametrize("device", [OPENCL], indirect=True)
@pytest.mark.parametrize("dtype", ["float64", "uint64"])
def test_elementwise_values_on_opencl(device: Device, dtype: str) -> None:
    """What is not the same as on WebGPU: 64 bits, quotients, rounding, the functions of C."""
    if dtype == "uint64":
        elementwise(dtype, ("add", "multiply", "less", "bitwise_invert"))
        return
    elementwise(dtype, ("add", "subtract", "divide", "round", "sign", "maximum"))
    numbers = np.array([*ODD, 700.0, -745.0, 1e5, 1e-300], dtype)
    x = xp.asarray(numbers, device=device)
    for name in ("exp", "log", "sin"):
        check(name, getattr(xp, name)(x), expect(name, numbers))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_of_16_bits_round_as_numpy_does(device: Device, dtype: Any) -> None:
    anything = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        kept = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
        halves = (kept[:-1] + kept[1:]) / 2  # of two numbers, where the even one counts
        beside = [np.nextafter(kept, np.float32(end)) for end in (INF, -INF)]
        x = np.concatenate([kept, halves, *beside, anything])
        x[np.abs(x) < np.finfo(x.dtype).tiny] = 0.0  # of what is less, devices make zero
    backend = load("tinygrad")
    made = backend.to_numpy(backend.rounded(backend.from_numpy(x, device), dtype))
    np.testing.assert_array_equal(made, rounded(np, x, dtype))
    with corepy.autocast(dtype):
        y = xp.asarray(np.full((2, 2), 1.0 + 2.0**-12, np.float32))
        assert ((y @ y).device, (y @ y).tolist()) == (device, [[2.0, 2.0]] * 2)


def test_nothing_is_folded_that_is_not_so(device: Device) -> None:
    """tinygrad takes x - x for 0, x / x for 1, and (y + x) - x for y; Mesa the first and last."""
    numbers = np.array([INF, NAN, 1.0, 0.0, 3e38], np.float32)
    x = xp.asarray(numbers, device=device)
    y = xp.asarray(np.array([1, 1, 1e-9, 1, 3e38], np.float32), device=device)
    with np.errstate(all="ignore"):
        for made, wanted in (
            (x - x, numbers - numbers),
            (x / x, numbers / numbers),
            ((y + x) - x, (np.asarray(y) + numbers) - numbers),
            ((x * y) / y, (numbers * np.asarray(y)) / np.asarray(y)),
        ):
            np.testing.assert_array_equal(np.asarray(made), wanted)


def test_each_operation_is_rounded(device: Device) -> None:
    """Compilers of OpenCL may make one operation of a product and a sum, which is rounded once."""
    numbers = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    for dtype in ("float32", "float64")[: 2 if device.kind == "opencl" else 1]:
        a, b, c = numbers.astype(dtype) / 3
        x, y, z = (xp.asarray(n, device=device) for n in (a, b, c))
        for made, wanted in (
            (x * y + z, a * b + c),
            (x * y - z, a * b - c),
            (z - x * y, c - a * b),
        ):
            np.testing.assert_array_equal(np.asarray(made), wanted)


def test_reductions(device: Device) -> None:
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 3
    x = xp.asarray(numbers, device=device)
    for name in ("sum", "prod", "mean", "var", "max"):
        made = np.asarray(getattr(xp, name)(x[:, 1:, :], axis=(0, 2), keepdims=True))
        wanted = getattr(np, name)(numbers[:, 1:, :], axis=(0, 2), keepdims=True)
        assert made.dtype == np.float32
        assert made.shape == (1, 2, 1)
        np.testing.assert_allclose(made, wanted, rtol=4e-7)
    odd = xp.asarray(np.array([[1, NAN], [3, 2]], np.float32), device=device)
    np.testing.assert_array_equal(np.asarray(xp.max(odd, axis=1)), np.array([NAN, 3], np.float32))
    assert xp.sum(xp.asarray([100, 100], dtype=xp.int8, device=device)) == 200
    assert xp.all(xp.zeros((0, 3)), axis=None)
    assert not xp.any(xp.zeros((0, 3)), axis=None)


@pytest.mark.parametrize("device", [WEBGPU], indirect=True)
def test_long_sums_are_added_up_in_runs(device: Device) -> None:
    """One after the other, a million of them are off by a hundredth."""
    numbers = np.random.default_rng(1).random(100_001, dtype=np.float32)
    made = float(xp.sum(xp.asarray(numbers, device=device)))
    assert made == pytest.approx(float(numbers.sum(dtype=np.float64)), rel=1e-6)


def test_products_of_matrices(device: Device) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = np.arange(20, dtype=np.float32).reshape(4, 5)
    x, y = xp.asarray(a, device=device), xp.asarray(b, device=device)
    np.testing.assert_array_equal(np.asarray(x @ y), a @ b)
    np.testing.assert_array_equal(np.asarray(xp.matmul(x[0, :], y)), a[0] @ b)
    small = xp.asarray(np.full((2, 2), 100, np.int8), device=device)
    np.testing.assert_array_equal(np.asarray(small @ small), np.full((2, 2), 32, np.int8))


def test_products_keep_what_is_alike_within_their_sums(device: Device) -> None:
    """tinygrad takes what repeats along the contracted axis out of the sum."""
    column = xp.asarray(np.array([[1], [-2]], np.float32), device=device)
    infinite = xp.full((1, 2), INF, dtype=xp.float32)
    large = xp.asarray(np.full((4, 1), 3e38, np.float32), device=device)
    small = xp.full((1, 4), 1e-30, dtype=xp.float32)
    for made in (infinite @ column, xp.tensordot(infinite, column, axes=1), column.T @ infinite.T):
        assert np.isnan(np.asarray(made)).all()
    for made in (small @ large, xp.tensordot(small, large, axes=1), large.T @ small.T):
        np.testing.assert_allclose(np.asarray(made), 1.2e9, rtol=1e-6)


def test_long_products_are_added_up_in_runs(device: Device) -> None:
    for length in (5000, 10_007):
        numbers = np.random.default_rng(2).random((2, length), dtype=np.float32)
        x = xp.asarray(numbers, device=device)
        wanted = numbers.astype(np.float64) @ numbers.T.astype(np.float64)
        for made in (x @ x.T, xp.tensordot(x, x, axes=((1,), (1,)))):
            np.testing.assert_allclose(np.asarray(made), wanted, rtol=1e-6)


def test_a_chain_is_one_kernel(device: Device) -> None:
    """WebGPU's compilers see one operation on floats at a time, but those on integers together."""
    from tinygrad.helpers import GlobalCounters

    x = xp.asarray(np.arange(6, dtype=np.int32), device=device)
    before = GlobalCounters.kernel_count
    y = xp.flip(x * x + x) - x
    assert GlobalCounters.kernel_count == before  # nothing is computed yet
    np.testing.assert_array_equal(np.asarray(y), [30, 19, 10, 3, -2, -5])
    assert GlobalCounters.kernel_count == before + 1


def test_kernels_that_do_without_some_arrays(device: Device) -> None:
    """tinygrad simplifies integers' sums, and its runtime of OpenCL then missed an argument."""
    numbers = np.random.default_rng(0).integers(0, 50, (4, 6), dtype=np.int32)
    a, b, c, d = numbers
    x, y, z, w = (xp.asarray(n, device=device) for n in numbers)
    for made, wanted in (
        (x - (x + 1), a - (a + 1)),
        (x - (x + y) + z, c - b),
        (z - (x - (x - y)) * w, c - b * d),
        (xp.sum(z * ((x + y) - x)), np.sum(c * b)),
    ):
        np.testing.assert_array_equal(np.asarray(made), wanted)


def test_graphs_stay_small(device: Device) -> None:
    x = xp.zeros((2,), dtype=xp.int32)
    for _ in range(100):
        x = x + x + 1
        assert x.unwrap().work <= 48
    np.testing.assert_array_equal(np.asarray(x), np.array([-1, -1], np.int32))


def test_dtypes_that_a_device_only_holds(device: Device) -> None:
    info = xp.__array_namespace_info__()
    wide = device.kind == "opencl"
    assert info.default_dtypes()["real floating"] is (xp.float64 if wide else xp.float32)
    assert info.default_dtypes()["complex floating"] is (xp.complex128 if wide else xp.complex64)
    assert info.default_dtypes()["indexing"] is xp.int64
    assert len(info.dtypes()) == 13
    held = xp.asarray([1 + 2j, 3j], dtype=xp.complex128, device=device)
    assert held.device is device
    told = f"^unwrap: x has dtype complex128, which is only stored on {device}; expected one that "
    with pytest.raises(corepy.UnsupportedOperationError, match=told):
        held.unwrap()  # tinygrad has no such tensors
    assert np.asarray(held).tolist() == [1 + 2j, 3j]
    with pytest.raises(corepy.FallbackError, match="tinygrad on .* does not offer it"):
        held * held
    with corepy.set_fallback("allow"):
        doubled = held + held
        assert doubled.device is device
        assert doubled.tolist() == [2 + 4j, 6j]
        # To and from a dtype that it computes with.
        assert xp.astype(xp.ones(2), xp.complex64).tolist() == [1, 1]
        assert xp.real(held).tolist() == [1, 0]
    if not wide:
        assert (xp.ones(2, dtype=xp.int32) * 0.5).dtype is xp.float32
        with corepy.set_fallback("allow"):
            big = xp.asarray([2**40], dtype=xp.int64, device=device) + 1
            assert big.dtype is xp.int64
            assert int(big[0]) == 2**40 + 1


def test_indexing(device: Device) -> None:
    numbers = np.arange(20, dtype=np.int32).reshape(4, 5)
    x = xp.asarray(numbers, device=device)
    for key in ((1, 2), (-1,), (slice(None, None, -2), 1), (slice(1, 3), None, ...), (..., 4)):
        np.testing.assert_array_equal(np.asarray(x[key]), numbers[key])
    for key in ((0, 5), (-5, 0)):
        with pytest.raises(IndexError):
            x[key]
    y = xp.asarray(x, copy=True)
    y[1:3, 2] = 50
    y[y > 15] = 0
    y[0, :] = x[1, :]
    wanted = numbers.copy()
    wanted[1:3, 2] = 50
    wanted[wanted > 15] = 0
    wanted[0, :] = numbers[1, :]
    np.testing.assert_array_equal(np.asarray(y), wanted)
    np.testing.assert_array_equal(np.asarray(x), numbers)  # which shared its memory


def test_values_have_new_axes_where_the_key_has(device: Device) -> None:
    values = np.arange(12, dtype=np.int32).reshape(4, 3)
    for key in ((slice(None), None), (..., None, slice(None)), (slice(1, 3), None, slice(0, 2))):
        x, wanted = xp.zeros((4, 3), dtype=xp.int32, device=device), np.zeros((4, 3), np.int32)
        put = values[key]
        wanted[key] = put
        with corepy.set_fallback("allow"):
            x[key] = xp.asarray(put, device=device)
        np.testing.assert_array_equal(np.asarray(x), wanted)


def test_threads_share_arrays(device: Device) -> None:
    x = xp.asarray(np.arange(8, dtype=np.int32), device=device)
    lazy = x * 3
    found: list[Any] = []

    def run() -> None:
        found.append(np.asarray(lazy + x).tolist())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[4 * n for n in range(8)]] * 4


@pytest.fixture
def helpers(device: Device, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the module with tinygrad's cache, which a test may put elsewhere."""
    from tinygrad import helpers

    load("tinygrad")  # opens its own first
    for name, value in (("CACHEDB", ""), ("_db_connection", None), ("_db_tables", set())):
        monkeypatch.setattr(helpers, name, value)
    return helpers


def share(helpers: Any, path: Path) -> None:
    from corepy.backends.tinygrad import _arrays

    helpers.CACHEDB = str(path)
    _arrays.share_cache()


def check_kernel(device: Device, number: int) -> None:
    """Have a kernel made that nobody has made before."""
    x = xp.asarray(np.arange(7, dtype=np.int32), device=device)
    assert (x * number + number).tolist() == [number * (n + 1) for n in range(7)]


@pytest.mark.parametrize("where", ["file/of/none/cache.db", "folder", "damaged"])
def test_no_cache_can_be_opened(device: Device, helpers: Any, where: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged").write_bytes(b"no database " * 1000)
    share(helpers, tmp_path / where)
    check_kernel(device, 1237)


def test_the_cache_is_full(device: Device, helpers: Any, tmp_path: Path) -> None:
    share(helpers, tmp_path / "cache.db")
    helpers.diskcache_put("other", 0, "")
    database = helpers._db_connection
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={pages}")
    for key in range(3):
        helpers.diskcache_put("table", key, "x" * 100_000)
    assert helpers.diskcache_get("table", 0) is None
    check_kernel(device, 1259)
    database.execute("PRAGMA max_page_count=1000000")
    helpers.diskcache_put("other", 1, "kept")
    assert helpers.diskcache_get("other", 1) == "kept"
    assert not database.in_transaction


def test_tensors_of_the_user_are_taken(device: Device) -> None:
    from tinygrad import Tensor

    place = {"opencl": "CL", "webgpu": "WEBGPU"}[device.kind]
    tensor = Tensor(np.arange(3, dtype=np.int32), device=place) + 1
    x = xp.asarray(tensor)
    assert x.device is device
    assert x.backend == "tinygrad"
    assert x.tolist() == [1, 2, 3]
    assert isinstance(x.unwrap(), Tensor)
    assert (x + tensor).tolist() == [2, 4, 6]
    with pytest.raises(RuntimeError, match="Could not infer dtype"):  # as docs/design.md has it
        tensor + x
    x[0] = 7
    assert tensor.tolist() == [1, 2, 3]
    with pytest.raises(corepy.BackendError, match="expected one on CL or WEBGPU"):
        xp.asarray(Tensor(np.arange(3), device="PYTHON"))


def test_exports_by_dlpack_are_what_the_values_were(device: Device) -> None:
    """New memory of the host: what would be written there under copy=False would not be in x."""
    for x in (xp.ones(3, dtype=xp.float32), xp.asarray([1, 1, 1], dtype=xp.complex64)):
        assert x.__dlpack_device__() == (1, 0)
        shared = np.from_dlpack(x, copy=False)
        assert shared.tolist() == [1, 1, 1]
        assert not shared.flags.writeable
        own = np.from_dlpack(x)
        own[0] = 5
        assert x.tolist() == [1, 1, 1]
        # Consumers of before version 1.0 know no read-only memory.
        assert "dltensor" in repr(x.__dlpack__(copy=False))


def test_errors_of_kernels_are_corepys(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy.backends.tinygrad import _arrays

    lazy = xp.asarray(np.arange(3, dtype=np.int32), device=device) * 3

    def fail(*args: Any) -> None:
        raise KeyError("no such kernel")

    monkeypatch.setattr(_arrays.Tensor, "realize", fail)
    with pytest.raises(corepy.BackendError, match="tinygrad failed to compute it: KeyError"):
        np.asarray(lazy)


def test_a_failed_kernel_leaves_no_values_behind(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tinygrad gives tensors their memory before the kernels run that fill it."""
    from tinygrad import tensor

    lazy = xp.asarray(np.arange(3, dtype=np.int32), device=device) * 3
    with monkeypatch.context() as patched:

        def fail(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("the device is lost")

        patched.setattr(tensor, "run_linear", fail)
        for _ in range(2):
            with pytest.raises(corepy.BackendError, match="the device is lost"):
                np.asarray(lazy)
    assert lazy.tolist() == [0, 3, 6]


@pytest.mark.parametrize("device", [WEBGPU], indirect=True)
def test_fused_kernels_are_formulas_on_its_arrays(device: Device) -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(2, 6)
    x = xp.asarray(numbers, device=device)
    made = kernels.rms_norm(x, None, 0.0)
    native = kernels.rms_norm(x.unwrap(), None, 0.0)
    wanted = numbers / np.sqrt((numbers**2).mean(axis=-1, keepdims=True))
    assert made.device is device
    np.testing.assert_allclose(np.asarray(made), wanted, rtol=1e-6)
    np.testing.assert_allclose(native.numpy(), wanted, rtol=1e-6)


# ---------------------------------------------------------------------------- finding drivers


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Give the module on a machine whose system has neither library, and the packages both."""
    required("tinygrad")
    from corepy.backends.tinygrad import _libraries

    for name, folder, file in (
        ("pyopencl", ".libs", "libOpenCL-55.so.1.0.0"),
        ("pydawn", "lib", "libwebgpu_dawn_x86_64.so"),
    ):
        (tmp_path / name / folder).mkdir(parents=True)
        (tmp_path / name / folder / file).touch()
    for name in ("OPENCL_PATH", "WEBGPU_PATH"):
        monkeypatch.setenv(name, "")  # so that what is set is taken back
        monkeypatch.delenv(name)

    def find_spec(name: str) -> Any:
        return SimpleNamespace(submodule_search_locations=[str(tmp_path / name)])

    monkeypatch.setattr(_libraries, "find_spec", find_spec)
    monkeypatch.setattr(_libraries, "find_library", lambda name: None)
    monkeypatch.setattr(_libraries, "CDLL", lambda name: None)
    monkeypatch.delenv("WEBGPU_BACKEND", raising=False)
    monkeypatch.setattr(_libraries.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(_libraries.platform, "system", lambda: "Linux")
    monkeypatch.setitem(__import__("sys").modules, "pyopencl", SimpleNamespace())
    return _libraries


def test_libraries_of_packages_are_named(libraries: Any) -> None:
    import os

    libraries.name_opencl()
    libraries.name_webgpu()
    assert os.environ["OPENCL_PATH"].endswith("pyopencl/.libs/libOpenCL-55.so.1.0.0")
    assert os.environ["WEBGPU_PATH"].endswith("pydawn/lib/libwebgpu_dawn_x86_64.so")


def test_a_child_process_loads_pyopencl_before_its_loader_too(
    libraries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It inherits the variable, and the loader finds no driver where it was loaded by itself."""
    import sys

    libraries.name_opencl()
    imports: list[str] = []

    class Finder:
        def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
            imports.append(name)

    monkeypatch.delitem(sys.modules, "pyopencl")
    monkeypatch.setattr(sys, "meta_path", [Finder()])
    with pytest.raises(ModuleNotFoundError, match="pyopencl"):
        libraries.name_opencl()
    assert imports == ["pyopencl"]


def test_what_the_user_or_the_system_has_stays(
    libraries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("OPENCL_PATH", "mine.so")
    monkeypatch.setattr(libraries, "find_library", lambda name: f"lib{name}.so.1")
    libraries.name_opencl()
    libraries.name_webgpu()
    assert os.environ["OPENCL_PATH"] == "mine.so"
    assert "WEBGPU_PATH" not in os.environ


def test_without_a_loader_of_vulkan_dawn_is_not_asked(
    libraries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(libraries, "CDLL", missing)
    with pytest.raises(OSError, match=r"^libvulkan\.so\.1: "):
        libraries.name_webgpu()
    monkeypatch.setattr(libraries.platform, "system", lambda: "Darwin")
    libraries.name_webgpu()
    monkeypatch.setattr(libraries.platform, "system", lambda: "Linux")
    monkeypatch.setenv("WEBGPU_BACKEND", "WGPUBackendType_OpenGLES")  # another one than Vulkan
    libraries.name_webgpu()


@pytest.mark.backend("tinygrad")
def test_a_missing_driver_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy.backends.tinygrad import _backend

    class Broken(dict[str, Any]):
        def __missing__(self, place: str) -> Any:
            raise RuntimeError(f"no driver of {place}")

    monkeypatch.setattr(_backend, "Devices", Broken())
    monkeypatch.setattr(_backend._libraries, "CDLL", lambda name: None)
    with pytest.raises(corepy.BackendError) as raised:
        _backend.TinygradBackend()
    message = str(raised.value)
    assert "opencl: no driver of CL: install" in message
    assert "pocl-opencl-icd" in message
    assert "webgpu: no driver of WEBGPU: install" in message
    assert "dawn-python" in message


@pytest.mark.backend("tinygrad")
def test_its_devices_are_no_defaults() -> None:
    assert {device.kind for device in load("tinygrad").devices()} <= {"opencl", "webgpu"}
    assert xp.ones(1).device.kind not in ("opencl", "webgpu")
