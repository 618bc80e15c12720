"""CuPy's adapter: on a GPU if there is one, and everywhere on a stand-in with NumPy's values.

The tests marked for the backend run twice: by themselves where CuPy finds a GPU, and in a process
of their own with `tests.backends.cupy_on_numpy`, together with some of the namespace's.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import array_api as xp
from corepy.backends._numpy import NumPyBackend
from corepy.devices._device import CPU, Device, as_device
from corepy.devices._transfer import convert
from corepy.dispatch import load
from tests.conftest import required

ROOT = Path(__file__).resolve().parent.parent.parent
GPU = as_device("cuda:0")
INF, NAN = np.inf, np.nan

on_cupy = [pytest.mark.backend("cupy"), pytest.mark.usefixtures("backend")]
backends = pytest.mark.parametrize("backend", ["cupy"], indirect=True)


def cupy_tests(test: Any) -> Any:
    for mark in (*on_cupy, backends):
        test = mark(test)
    return test


def same(x: Any, expected: Any) -> None:
    """Hold values, dtypes and the signs of zeros together."""
    got = np.asarray(corepy.to(x, device="cpu", backend="numpy").unwrap())
    expected = np.asarray(expected)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    for part in ("real", "imag") if expected.dtype.kind == "c" else ("real",):
        signs = [np.signbit(getattr(x, part)) for x in (got, expected)]
        zero = getattr(expected, part) == 0
        np.testing.assert_array_equal(signs[0][zero], signs[1][zero])


# ---------------------------------------------------------------------------- its values


@cupy_tests
def test_floor_divides_as_every_backend() -> None:
    x1 = [1.0, -1.0, 7.0, -7.0, 1.0, 0.0, -0.0, INF, 1.0, -1.0, 1.0, 0.0, 1e300, NAN]
    x2 = [0.1, 0.1, 2.0, 2.0, -INF, 3.0, 3.0, 2.0, INF, INF, 0.0, 0.0, 3e-8, 1.0]
    quotient = [
        9.0,
        -10.0,
        3.0,
        -4.0,
        -0.0,
        0.0,
        -0.0,
        INF,
        0.0,
        -0.0,
        INF,
        NAN,
        1e300 // 3e-8,
        NAN,
    ]
    got = xp.floor_divide(xp.asarray(x1), xp.asarray(x2))
    assert got.backend == "cupy"
    same(got, quotient)
    x = xp.asarray(x1)
    x //= xp.asarray(x2)
    same(x, quotient)


@cupy_tests
def test_remainders_are_exact() -> None:
    x1 = [1e300, -7.0, 7.0, 3.0, -3.0, 6.0, -6.0, INF, 1.0]
    x2 = [3.0, 2.0, -2.0, INF, INF, -3.0, 3.0, 2.0, 0.0]
    same(
        xp.remainder(xp.asarray(x1), xp.asarray(x2)),
        [1e300 % 3.0, 1.0, -1.0, 3.0, INF, -0.0, 0.0, NAN, NAN],
    )


@cupy_tests
def test_integers_raise_as_on_every_backend() -> None:
    x, zero = xp.asarray([3, 4]), xp.asarray([1, 0])
    for function in (xp.floor_divide, xp.remainder):
        with pytest.raises(ZeroDivisionError, match="x2 holds 0; expected no zero"):
            function(x, zero)
        same(
            function(xp.asarray([7, -7]), xp.asarray([2, 2])),
            getattr(np, function.__name__)([7, -7], 2),
        )
    with pytest.raises(ValueError, match="^pow: x2 holds a negative integer"):
        xp.pow(x, xp.asarray([2, -1]))
    same(xp.pow(x, xp.asarray([2, 3])), [9, 64])


@cupy_tests
def test_indices_beyond_an_axis_raise() -> None:
    x = xp.reshape(xp.arange(12), (3, 4))
    good, bad = xp.asarray([0, -3]), xp.asarray([0, 3])
    same(x[good, :], [[0, 1, 2, 3], [0, 1, 2, 3]])
    same(x[:, xp.asarray([3])], [[3], [7], [11]])
    same(xp.take(x, good, axis=0), [[0, 1, 2, 3], [0, 1, 2, 3]])
    for read in (
        lambda: x[bad, :],
        lambda: xp.take(x, bad, axis=0),
        lambda: xp.take_along_axis(x, xp.asarray([[4, 0, 0, 0]]), axis=1),
    ):
        with pytest.raises(
            IndexError, match="index [34] is .* axis [01] with size [34]; expected -[34] to"
        ):
            read()
    with pytest.raises(IndexError, match="index 3 is .* axis 0 with size 3; expected -3 to 2"):
        x[bad, :] = 0
    same(x, np.arange(12).reshape(3, 4))  # untouched


@cupy_tests
def test_writes_what_was_there_before() -> None:
    x = xp.arange(6)
    x[1:] = x[:-1]
    same(x, [0, 0, 1, 2, 3, 4])
    x += x[::-1]
    same(x, [4, 3, 3, 3, 3, 4])


@cupy_tests
@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh"])
def test_complex_functions_keep_digits_and_signs(name: str) -> None:
    parts = [0.0, -0.0, 1e-10, -1e-10, 0.3, -0.3]
    values = np.array([complex(a, b) for a in parts for b in parts])
    mpmath = required("mpmath")
    exact = {
        "expm1": mpmath.expm1,
        "log1p": lambda z: mpmath.log(1 + z),
        "tanh": mpmath.tanh,
    }
    with mpmath.workprec(200):
        expected = np.array([complex(exact[name](mpmath.mpc(complex(z)))) for z in values])
    found = getattr(xp, name)(corepy.to(values, backend="cupy"))
    assert found.backend == "cupy"
    got = np.asarray(corepy.to(found, device="cpu", backend="numpy").unwrap())
    for part in ("real", "imag"):
        close = getattr(got, part), getattr(expected, part)
        np.testing.assert_allclose(*close, rtol=1e-14, atol=1e-25)


#: Zeros, and what an infinity or a NaN makes of the other part, by C99's special cases and ours.
PARTS = [0.0, -0.0, 0.5, 1.0, -2.0, INF, -INF, NAN]


@cupy_tests
@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "name", ["acosh", "expm1", "log", "log10", "log1p", "log2", "sign", "sqrt", "tan", "tanh"]
)
def test_complex_functions_at_infinities_and_zeros(name: str, dtype: Any) -> None:
    values = np.array([complex(a, b) for a in PARTS for b in PARTS], dtype)
    found = getattr(xp, name)(corepy.to(values, backend="cupy"))
    assert (found.backend, found.dtype.name) == ("cupy", dtype)
    got = corepy.to(found, device="cpu", backend="numpy").unwrap()
    for value, z, right in zip(values, got, oracle(name, values), strict=True):
        for part, wanted in ((z.real, right.real), (z.imag, right.imag)):
            if np.isnan(wanted) or np.isinf(wanted):  # an infinity's sign beside a NaN is open
                assert np.isnan(part) == np.isnan(wanted), value
                assert np.isnan(right) or part == wanted, value
            else:
                assert part == pytest.approx(wanted, rel=1e-6, abs=0), value
            # So is a zero's beside a NaN, and where the angle of the result has no end.
            if wanted == 0 and not np.isnan(right) and not np.isinf(value.imag):
                assert np.signbit(part) == np.signbit(wanted), value


@cupy_tests
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_tangents_at_infinity_have_zeros_of_the_sign_of_the_angle(dtype: str) -> None:
    angles = np.asarray([0.5, 2.5, -0.5, -2.5])
    values = np.empty(angles.size, dtype)
    values.real, values.imag = angles, INF
    found = np.array(corepy.to(xp.tan(corepy.to(values, backend="cupy")), device="cpu"))
    assert found.tolist() == [1j] * 4
    assert np.signbit(found.real).tolist() == np.signbit(angles).tolist()


@cupy_tests
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_signs_where_a_modulus_or_a_quotient_overflows(dtype: str) -> None:
    limits = np.finfo(dtype)
    # A GPU takes subnormal numbers of float32 for zero, the stand-in does not.
    on_gpu = not issubclass(sys.modules["cupy"].ndarray, np.ndarray)
    normal = on_gpu and dtype == "complex64"
    most, least = map(float, (limits.max, limits.tiny if normal else limits.smallest_subnormal))
    values = np.asarray(
        [most * (1 - 1j), 0.8 * most * (1 + 1j), least, -1j * least, 4 * least * (1 + 1j)], dtype
    )
    found = xp.sign(corepy.to(values, backend="cupy"))
    got = corepy.to(found, device="cpu", backend="numpy").unwrap()
    half = math.sqrt(0.5)
    wanted = [half - half * 1j, half + half * 1j, 1, -1j, half + half * 1j]
    np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps)


@cupy_tests
def test_without_a_degree_of_freedom_there_is_no_variance() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 7.0]], dtype=xp.float32)
    for spread in (xp.var, xp.std):
        same(spread(x, axis=1, correction=2), np.full(2, NAN, "f4"))
        same(spread(x, correction=4.5, keepdims=True), np.full((1, 1), NAN, "f4"))
    same(xp.var(x, axis=1, correction=1), np.asarray([0.5, 8.0], "f4"))


def oracle(name: str, values: Any) -> Any:
    x = corepy.to(values, backend="reference")
    return corepy.to(getattr(xp, name)(x), backend="numpy").unwrap()


@cupy_tests
def test_zeros_keep_their_sign_however_they_come() -> None:
    for dtype in (xp.float32, xp.float64):
        same(xp.asarray(-0.0, dtype=dtype), np.asarray(-0.0, dtype.name))
        same(xp.asarray([-0.0, 0.0], dtype=dtype), np.asarray([-0.0, 0.0], dtype.name))
        same(xp.full((2,), -0.0, dtype=dtype), np.full(2, -0.0, dtype.name))
        same(xp.full_like(xp.ones(2, dtype=dtype), -0.0), np.full(2, -0.0, dtype.name))
        same(xp.linspace(-1.0, -0.0, 3, dtype=dtype), np.asarray([-1.0, -0.5, -0.0], dtype.name))
        x = xp.ones(3, dtype=dtype)
        x[0] = -0.0
        x[xp.asarray([1])] = -0.0
        x[xp.asarray([False, False, True])] = -0.0
        same(x, np.full(3, -0.0, dtype.name))
        same(xp.where(x > 0, x, -0.0), np.full(3, -0.0, dtype.name))
        same(xp.minimum(xp.ones(1, dtype=dtype), -0.0), np.asarray([-0.0], dtype.name))
    for value in (complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0)):
        same(xp.asarray(value), np.asarray(value))
        same(xp.full((2,), value), np.full(2, value))
    same(corepy.to(np.asarray(-0.0), backend="cupy"), np.asarray(-0.0))


@cupy_tests
def test_ranges_whose_step_the_dtype_does_not_hold() -> None:
    for name, bounds in {
        "uint8": [(5, 0, -2), (255, -1, -1), (0, 256, 255), (0, 256, 1), (7, 0, -300)],
        "int8": [(-128, 128, 255), (127, -129, -255), (3, -4, -1)],
        "uint64": [(2**64 - 1, 2**63 - 1, -(2**62)), (3, 0, -1)],
        "int64": [(-(2**63), 2**63 - 1, 2**63), (-(2**62), 2**62 + 1, 2**61)],
    }.items():
        for each in bounds:
            x = xp.arange(*each, dtype=getattr(xp, name))
            assert (x.dtype.name, x.tolist()) == (name, list(range(*each)))


@cupy_tests
def test_lines_of_complex_numbers() -> None:
    same(xp.linspace(1 - 1j, 2 + 1j, 3), np.asarray([1 - 1j, 1.5, 2 + 1j]))
    same(
        xp.linspace(0, 4j, 4, endpoint=False, dtype=xp.complex64),
        np.asarray([0, 1j, 2j, 3j], np.complex64),
    )


@cupy_tests
def test_functions_that_cupy_has_otherwise() -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    same(xp.repeat(x, xp.asarray([2, 0, 1])), [1.0, 1.0, 3.0])
    stack = xp.asarray([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]])
    same(xp.linalg.solve(stack, xp.asarray([2.0, 4.0])), [[1.0, 1.0], [2.0, 4.0]])
    same(xp.linalg.solve(stack, xp.asarray([[2.0], [4.0]])), [[[1.0], [1.0]], [[2.0], [4.0]]])
    for name in ("inv", "solve"):
        operands = (xp.zeros((2, 2)),) * (1 if name == "inv" else 2)
        with pytest.raises(ValueError, match=f"^{name}: Singular matrix"):
            getattr(xp.linalg, name)(*operands)
    with pytest.raises(ValueError, match="^cholesky: Matrix is not positive definite"):
        xp.linalg.cholesky(-xp.eye(2))
    values, _ = xp.linalg.eig(xp.asarray([[2.0, 0.0], [0.0, 3.0]]))
    assert values.dtype is xp.complex128
    assert xp.fft.fftfreq(4, dtype=xp.float32).dtype is xp.float32


# ---------------------------------------------------------------------------- its arrays


@cupy_tests
def test_arrays_come_and_go() -> None:
    import cupy

    host = np.arange(6.0).reshape(2, 3)[:, ::-1]
    x = corepy.to(host, backend="cupy")
    assert (x.backend, x.device.kind) == ("cupy", "cuda")
    native = x.unwrap()
    assert isinstance(native, cupy.ndarray)
    same(x, host)
    y = xp.asarray(native)  # a native array is wrapped as it is
    assert y.unwrap() is native
    same(native + y, 2 * host)
    with pytest.raises(ValueError, match="another device, cpu, has memory of its own"):
        corepy.to(x, device="cpu", copy=False)
    with pytest.raises(TypeError, match="its dtype is cupy's float16; expected one of bool"):
        xp.asarray(cupy.asarray(np.ones(2, np.float16)))
    assert not x._table.backend.is_writable(cupy.broadcast_to(native[:1], (2, 3)))
    assert x._table.backend.is_writable(cupy.empty((2, 0)))  # whose strides are 0 too


@cupy_tests
def test_priorities_lead_there() -> None:
    with corepy.backend_priority(["cupy:cuda:0"]):
        assert (xp.ones(2).backend, str(xp.ones(2).device)) == ("cupy", "cuda:0")
    with pytest.raises(corepy.BackendUnavailableError, match="cupy has no device cuda:99"):
        corepy.set_backend_priority(["cupy:cuda:99"])
    dtypes = xp.__array_namespace_info__().dtypes(device=as_device("cuda:0"))
    assert len(dtypes) == 13


@cupy_tests
def test_kernels_take_its_arrays() -> None:
    from corepy import kernels

    x = corepy.to(np.linspace(-3, 3, 8), backend="cupy")
    out = kernels.matmul_vec(xp.eye(8), x)
    assert (type(out), out.backend) == (corepy.Array, "cupy")
    same(out, np.linspace(-3, 3, 8))


# ---------------------------------------------------------------------------- between libraries


class OnGPU(NumPyBackend):
    """NumPy's arrays, said to be on a GPU; this one imports no others."""

    name = "exports"
    copies = 0

    def devices(self) -> tuple[Device, ...]:
        return (GPU,)

    def device_of(self, native: Any) -> Device:
        return GPU

    def to_numpy(self, native: Any, *, copy: bool | None = None) -> Any:
        type(self).copies += 1
        return native.copy()


class Imports(OnGPU):
    name = "imports"

    def import_(self, exporter: Any, device: Device) -> tuple[Any, bool]:
        assert device is GPU
        return np.from_dlpack(exporter), False


@pytest.fixture
def crossings() -> type[OnGPU]:
    OnGPU.copies = 0
    return OnGPU


def test_libraries_on_one_gpu_share_its_memory(crossings: type[OnGPU]) -> None:
    x = np.arange(3.0)
    made, new = convert(x, OnGPU(), Imports(), GPU)
    assert (new, crossings.copies) == (False, 0)
    assert np.shares_memory(made, x)
    made, new = convert(x, OnGPU(), Imports(), GPU, copy=True)
    assert (new, crossings.copies) == (True, 0)
    assert not np.shares_memory(made, x)
    np.testing.assert_array_equal(made, x)


def test_what_they_do_not_exchange_crosses_the_host(crossings: type[OnGPU]) -> None:
    made, new = convert(np.arange(3.0), OnGPU(), OnGPU(), as_device("cuda:1"))
    assert new
    made, new = convert(np.arange(3.0), Imports(), OnGPU(), GPU)  # which imports nothing
    np.testing.assert_array_equal(made, [0.0, 1.0, 2.0])
    assert crossings.copies > 0


def test_memory_that_never_changes_is_exported_as_a_copy(crossings: type[OnGPU]) -> None:
    class Frozen(OnGPU):
        def legacy_exporter(self, native: Any, *, copy: bool | None) -> Any:
            return native if copy is False else native.copy()

    x = np.arange(3.0)
    made, new = convert(x, Frozen(), Imports(), GPU)
    assert (new, np.shares_memory(made, x)) == (True, False)


@pytest.mark.backend("torch")
@pytest.mark.backend("jax")
def test_torch_shares_what_it_imports_and_jax_copies_it() -> None:
    torch, jax = load("torch"), load("jax")
    wide = torch.from_numpy(np.arange(3) + 2**40, CPU)
    made, new = torch.import_(wide, CPU)
    assert (made.data_ptr(), new) == (wide.data_ptr(), False)
    copied, new = jax.import_(wide, CPU)
    wide[0] = 0
    assert new
    assert jax.to_numpy(copied).tolist() == [2**40, 2**40 + 1, 2**40 + 2]
    with pytest.raises(BufferError, match="^reference imports no memory of cpu"):
        load("reference").import_(wide, CPU)


@cupy_tests
@pytest.mark.parametrize("low", ["bfloat16", "float16"])
def test_products_round_their_operands_as_numpys_do(low: Any) -> None:
    values = np.random.default_rng(0).standard_normal((64, 1)).astype(np.float32)
    values[:4, 0] = 1e30, 1e-7, 65504, np.nan
    with corepy.autocast(low):
        got = corepy.to(values, device=GPU, backend="cupy") @ xp.ones((1, 1), dtype=xp.float32)
    assert got.backend == "cupy"
    same(got, load("numpy").rounded(values, low))


@cupy_tests
def test_tf32_is_allowed_and_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str]] = []
    routines = ModuleType("cupy._core._routines_linalg")
    vars(routines).update(
        COMPUTE_TYPE_TF32="tf32",
        COMPUTE_TYPE_DEFAULT="default",
        set_compute_type=lambda dtype, kind: said.append((np.dtype(dtype).name, kind)),
    )
    core = ModuleType("cupy._core")
    vars(core).update(_routines_linalg=routines)
    for name, module in ((core.__name__, core), (routines.__name__, routines)):
        monkeypatch.setitem(sys.modules, name, module)
    backend = load("cupy")
    assert (backend.allow_tf32(True), backend.allow_tf32(False)) == (None, None)
    assert said == [("float32", "tf32"), ("float32", "default")]


# ---------------------------------------------------------------------------- without a GPU


def python(code: str, *argv: str, **environment: str) -> str:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, *argv, *(["-c", code] if code else [])],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_missing_driver_is_told() -> None:
    code = (
        "from tests.backends.cupy_on_numpy import install, ndarray\n"
        "install(devices=0)\n"
        "import corepy, json\n"
        "(row,) = (r for r in corepy.backend_status() if r.name == 'cupy')\n"
        "x = corepy.array_api.ones(2)\n"  # everything else goes on
        "print(json.dumps([row.usable, row.reason, x.backend]))\n"
    )
    usable, reason, backend = json.loads(python(code))
    assert not usable
    assert reason.startswith("no device of cuda: cudaErrorInsufficientDriver: ")
    assert backend != "cupy"


#: The chapters in which the adapter does most.
CHAPTERS = (
    *("test_creation.py", "test_asarray.py", "test_indexing.py", "test_searching.py"),
    "test_array.py",
)


@pytest.mark.backend("jax")  # as one of those tests does
@pytest.mark.skipif("tests.backends.cupy_on_numpy" in sys.modules, reason="this is that process")
def test_the_adapter_on_numpy() -> None:
    chapters = [f"tests/array_api/{name}" for name in CHAPTERS]
    # pytest-benchmark, where it is installed, warns of the worker that this process may be part of.
    argv = ["-p", "tests.backends.cupy_on_numpy", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    argv += ["-q", "-n", "0"]
    told = python(
        "",
        "-m",
        "pytest",
        *argv,
        str(Path(__file__)),
        *chapters,
        "-k",
        "cupy and not driver and not on_numpy",
        COREPY_EXPECT_BACKENDS="cupy",
    )
    assert "skipped" not in told.splitlines()[-1], told
