"""The JAX backend: what it corrects in JAX, the memory it shares, and code that JAX traces."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api

jax = pytest.importorskip("jax")
jnp = jax.numpy

from corepy.backends.jax import _backend, _special  # noqa: E402 (they import jax)
from corepy.backends.jax._backend import JaxBackend  # noqa: E402
from corepy.devices._device import CPU, as_device  # noqa: E402

HostArray = np.ndarray[Any, Any]

INF: Final = math.inf
NAN: Final = math.nan


@pytest.fixture
def xp() -> Iterator[ModuleType]:
    """Give the namespace with JAX as the backend of new arrays."""
    with corepy.backend_priority(["jax"]):
        yield corepy.array_api


def aligned(count: int, dtype: Any = np.float64) -> HostArray:
    """Return writable host memory that starts at a multiple of 64 bytes."""
    size = count * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype)


def frozen(values: HostArray) -> HostArray:
    """Return a read-only copy that nobody can write to, at a multiple of 64 bytes."""
    memory = aligned(values.size, values.dtype).reshape(values.shape)
    memory[...] = values
    owner = memory
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    return memory


def address(x: corepy.Array) -> int:
    found: int = x.unwrap().unsafe_buffer_pointer()
    return found


# ---------------------------------------------------------------------------- 64 bits


def test_64_bits_whatever_the_setting_of_the_process(xp: ModuleType) -> None:
    for setting in (False, True):
        with jax.enable_x64(setting):
            big = xp.asarray(2**40)
            assert big.dtype is xp.int64
            assert int(big + 1) == 2**40 + 1
            assert xp.ones(2).unwrap().dtype == np.float64
            assert xp.sum(xp.asarray([1, 2], dtype=xp.uint8)).dtype is xp.uint64
            assert float(xp.asarray(1.0) + 1e-12) == 1.0 + 1e-12
            assert jax.config.jax_enable_x64 is setting


def test_the_process_keeps_its_setting() -> None:
    code = (
        "import jax, corepy, corepy.array_api as xp\n"
        "with corepy.backend_priority(['jax']):\n"
        "    assert xp.ones(2).unwrap().dtype == 'float64'\n"
        "assert jax.config.jax_enable_x64 is False\n"
        "assert jax.numpy.ones(2).dtype == 'float32'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(("value", "expected"), [(None, "false"), ("true", "true")])
def test_gpu_memory_is_not_taken_in_advance_unless_the_user_says_so(
    value: str | None, expected: str
) -> None:
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    code = (
        f"import os, sys\nos.environ.pop({name!r}, None)\n"
        + (f"os.environ[{name!r}] = {value!r}\n" if value else "")
        + f"import corepy.backends.jax\nassert 'jax' not in sys.modules\n"
        f"assert os.environ[{name!r}] == {expected!r}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_gpu_memory_is_the_users_choice_once_jax_is_imported() -> None:
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    code = (
        f"import os\nos.environ.pop({name!r}, None)\nimport jax, corepy.backends.jax\n"
        f"assert {name!r} not in os.environ\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_gpu_that_jax_does_not_find_is_told_with_the_order_of_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def devices(platform: str) -> Any:
        raise RuntimeError(f"Unknown backend: '{platform}' requested")

    tell = _backend._no_gpu.__wrapped__
    monkeypatch.setattr(_backend, "_native_devices", lambda: {CPU: None})
    monkeypatch.setattr(_backend, "entry_points", lambda group: [])
    assert tell() == ()  # without a plug-in nobody expects one
    monkeypatch.setattr(_backend, "entry_points", lambda group: ["xla_cuda13"])
    monkeypatch.setattr(_backend.jax, "devices", devices)
    monkeypatch.setattr(_backend, "TORCH_FIRST", True)
    (told,) = tell()
    assert told == (
        "Unknown backend: 'gpu' requested; torch was imported before JAX, so import jax first"
    )


# ---------------------------------------------------------------------------- special values

#: Function, operand, result; `None` for a part whose sign or value the standard leaves open.
COMPLEX_CASES: Final = [
    ("abs", complex(INF, NAN), INF),
    ("exp", complex(-INF, INF), complex(0, 0)),
    ("exp", complex(-INF, NAN), complex(0, 0)),
    ("exp", complex(INF, INF), complex(INF, NAN)),
    ("exp", complex(INF, NAN), complex(INF, NAN)),
    ("exp", complex(1, -0.0), complex(math.e, -0.0)),
    ("expm1", complex(-INF, INF), complex(-1, 0)),
    ("expm1", complex(INF, NAN), complex(INF, NAN)),
    ("sinh", complex(0, INF), complex(0, NAN)),
    ("sinh", complex(0, NAN), complex(0, NAN)),
    ("sinh", complex(INF, INF), complex(INF, NAN)),
    ("sinh", complex(-0.0, 1), complex(-0.0, math.sin(1))),
    ("cosh", complex(0, INF), complex(NAN, 0)),
    ("cosh", complex(INF, NAN), complex(INF, NAN)),
    ("cosh", complex(0, -1), complex(math.cos(1), -0.0)),
    ("tanh", complex(0, INF), complex(0, NAN)),
    ("tanh", complex(0, NAN), complex(0, NAN)),
    ("tanh", complex(INF, 3), complex(1, 0)),
    ("tanh", complex(1, -0.0), complex(math.tanh(1), -0.0)),
    ("sin", complex(-0.0, 1), complex(-0.0, math.sinh(1))),
    ("cos", complex(0, 1), complex(math.cosh(1), -0.0)),
    ("tan", complex(-0.0, 1), complex(-0.0, math.tanh(1))),
    ("tanh", complex(300, NAN), complex(NAN, NAN)),
    ("asinh", complex(NAN, 0), complex(NAN, 0)),
    ("asinh", complex(NAN, 1e38), complex(NAN, NAN)),
    ("asinh", complex(-0.0, 0), complex(-0.0, 0)),
    ("acosh", complex(0, NAN), complex(NAN, math.pi / 2)),
    ("acosh", complex(2, -0.0), complex(math.acosh(2), -0.0)),
    ("acosh", complex(1e38, NAN), complex(NAN, NAN)),
    ("atanh", complex(0, NAN), complex(0, NAN)),
    ("atanh", complex(1, NAN), complex(NAN, NAN)),
    ("atanh", complex(INF, NAN), complex(0, NAN)),
    ("atanh", complex(NAN, 1), complex(NAN, NAN)),
    ("atanh", complex(INF, -0.0), complex(0, -math.pi / 2)),
    ("asin", complex(2, -0.0), complex(math.pi / 2, -math.acosh(2))),
    ("acos", complex(0, NAN), complex(math.pi / 2, NAN)),
    ("asin", complex(-1e38, NAN), complex(NAN, NAN)),
    ("acos", complex(2, -0.0), complex(0, math.acosh(2))),
    ("acos", complex(1e38, NAN), complex(NAN, NAN)),
    ("atan", complex(0, 0), complex(0, 0)),
    ("atan", complex(-0.0, 2), complex(-math.pi / 2, math.atanh(0.5))),
    ("log", complex(INF, NAN), complex(INF, NAN)),
    ("log", complex(NAN, -INF), complex(INF, NAN)),
    ("log1p", complex(-INF, NAN), complex(INF, NAN)),
    ("log2", complex(NAN, INF), complex(INF, NAN)),
    ("log10", complex(INF, NAN), complex(INF, NAN)),
    ("sqrt", complex(-4, -0.0), complex(0, -2)),
    ("sqrt", complex(-INF, NAN), complex(NAN, INF)),
    ("sqrt", complex(INF, NAN), complex(INF, NAN)),
    ("sqrt", complex(NAN, -INF), complex(INF, -INF)),
    ("sign", complex(-0.0, -0.0), complex(0, 0)),
]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("name", "operand", "expected"), COMPLEX_CASES)
def test_special_values_of_complex_functions(
    xp: ModuleType, dtype: str, name: str, operand: complex, expected: complex
) -> None:
    found = complex(getattr(xp, name)(xp.asarray(operand, dtype=getattr(xp, dtype))))
    for got, want in ((found.real, complex(expected).real), (found.imag, complex(expected).imag)):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=0)
        assert want != 0 or math.copysign(1, got) == math.copysign(1, want)


def test_complex_functions_of_the_smallest_and_largest_operands(xp: ModuleType) -> None:
    for small in (1e-20, 1e-130):
        assert complex(xp.sinh(xp.asarray(complex(small, 0)))) == complex(small, 0)
        assert complex(xp.sin(xp.asarray(complex(0, small)))) == complex(0, small)
        assert complex(xp.log1p(xp.asarray(complex(-1, small)))).real == pytest.approx(
            math.log(small), rel=1e-15
        )
    for x in (710.4, -710.4):  # the exponential overflows, and the product does not
        half = math.exp(355.2)
        for name, want in (("sinh", math.copysign(1, x)), ("cosh", 1.0)):
            found = complex(getattr(xp, name)(xp.asarray(complex(x, 1.5))))
            assert found.real == pytest.approx(want * math.cos(1.5) * half / 2 * half, rel=1e-12)
    large = complex(xp.expm1(xp.asarray(complex(709.9, 1.0))))
    assert large.real == pytest.approx(math.exp(354.95) * math.cos(1) * math.exp(354.95))
    assert complex(xp.asarray(0j) ** (1 + 1j)) == 0
    assert complex(xp.sign(xp.asarray(1.2e308 + 1.6e308j))) == pytest.approx(0.6 + 0.8j)
    # Where the tangent of the imaginary part is large, nothing of the real part is lost.
    found = complex(xp.tanh(xp.asarray(complex(1e-9, math.pi / 2))))
    assert found.real == pytest.approx(1e9, rel=1e-14)


def test_atanh_beside_its_poles(xp: ModuleType) -> None:
    found = complex(xp.atanh(xp.asarray(complex(1, 1e-235))))
    assert found.real == pytest.approx((math.log(2) + 235 * math.log(10)) / 2, rel=1e-14)
    assert found.imag == pytest.approx(math.pi / 4)


#: What XLA is far from, by its own formulas: the function, the operand, the result.
ROUGH_CASES: Final = [
    ("asin", 1e-38, 1e-38),
    ("asin", -3e-308, -3e-308),
    ("atanh", 0.4141197985055900, math.atanh(0.4141197985055900)),
    ("atanh", -1.0, -INF),
    ("atanh", 1e-30, 1e-30),
    ("cosh", 80.1, math.cosh(80.1)),
    ("cosh", 652.94412, math.cosh(652.94412)),
    ("cosh", -710.4, math.cosh(710.4)),
    ("cosh", -INF, INF),
    ("log1p", -0.41397558325608586, math.log1p(-0.41397558325608586)),
    ("log1p", 1e-30, 1e-30),
    ("log1p", -1.0, -INF),
    ("log1p", INF, INF),
    ("sinh", -80.1, math.sinh(-80.1)),
    ("sinh", 652.94412, math.sinh(652.94412)),
    ("sinh", 710.4, math.sinh(710.4)),
    ("sinh", 0.001931872, math.sinh(0.001931872)),
    ("sinh", 1.0, math.sinh(1.0)),
    ("sinh", -1e-30, -1e-30),
    ("sinh", -INF, -INF),
]


@pytest.mark.parametrize(("name", "operand", "expected"), ROUGH_CASES)
def test_real_functions_are_right_to_four_units_in_the_last_place(
    xp: ModuleType, name: str, operand: float, expected: float
) -> None:
    found = float(getattr(xp, name)(xp.asarray(operand)))
    assert found == expected or abs(found - expected) <= 4 * math.ulp(expected)


@pytest.mark.parametrize("name", ["asin", "asinh", "atanh", "log1p", "sinh", "tanh"])
def test_zeros_keep_their_signs(xp: ModuleType, name: str) -> None:
    zeros = getattr(xp, name)(xp.asarray([0.0, -0.0]))
    assert zeros.tolist() == [0.0, 0.0]
    assert xp.signbit(zeros).tolist() == [False, True]


@pytest.mark.parametrize("name", ["atanh", "log1p"])
def test_what_is_outside_the_domain_is_not_a_number(xp: ModuleType, name: str) -> None:
    found = getattr(xp, name)(xp.asarray([-1.5, -1e200, -INF, NAN]))
    assert all(map(math.isnan, found.tolist()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "x1", "x2", "expected"),
    [
        ("floor_divide", INF, 2.0, INF),
        ("floor_divide", -INF, 2.0, -INF),
        ("floor_divide", 1.0, -INF, -0.0),
        ("floor_divide", -1.0, INF, -0.0),
        ("floor_divide", -0.0, 2.0, -0.0),
        ("floor_divide", 7.0, -2.0, -4.0),
        ("floor_divide", 7.0, 0.0, INF),
        ("remainder", -0.0, 2.0, 0.0),
        ("remainder", 0.0, -2.0, -0.0),
        ("remainder", 7.0, -2.0, -1.0),
    ],
)
def test_division_of_floats(
    xp: ModuleType, dtype: str, name: str, x1: float, x2: float, expected: float
) -> None:
    a, b = (xp.asarray(x, dtype=getattr(xp, dtype)) for x in (x1, x2))
    found = float(getattr(xp, name)(a, b))
    assert found == expected
    assert math.copysign(1, found) == math.copysign(1, expected)


def test_the_sign_of_zero_has_no_sign(xp: ModuleType) -> None:
    found = xp.sign(xp.asarray([-0.0, 0.0, -2.0]))
    assert found.tolist() == [0.0, 0.0, -1.0]
    assert not any(xp.signbit(found[:2]).tolist())


@pytest.mark.parametrize("name", sorted(set(_special.FIXES) - {"pow"}))
def test_corrected_functions_keep_their_derivatives(name: str) -> None:
    plain = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh"}
    plain |= {"atan": "arctan", "atanh": "arctanh"}
    library = getattr(jnp, plain.get(name, name))
    with jax.enable_x64(True):
        # On the real axis too, where the corrections rewrite signs of zeros.
        for z in (0.3 + 0.4j, 0.5 + 0.0j, 0.0 + 0.5j, 1.5 - 2.0j):
            operand, tangent = jnp.asarray(z), jnp.asarray(1 + 2j)
            _, want = jax.jvp(library, (operand,), (tangent,))
            _, found = jax.jvp(_special.FIXES[name], (operand,), (tangent,))
            np.testing.assert_allclose(found, want, rtol=1e-12, equal_nan=True)


# ---------------------------------------------------------------------------- errors


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_integer_division_by_zero_raises(xp: ModuleType, name: str) -> None:
    divide = getattr(xp, name)
    x = xp.asarray([6, 7])
    for divisor in (xp.asarray([1, 0]), 0):
        with pytest.raises(ZeroDivisionError, match=f"^{name}: x2 holds 0; expected no zero"):
            divide(x, divisor)
    assert divide(x, 4).tolist() == ([1, 1] if name == "floor_divide" else [2, 3])
    assert divide(x[:0], x[:0]).shape == (0,)


def test_negative_powers_of_integers_raise(xp: ModuleType) -> None:
    x = xp.asarray([2, 3])
    for power in (xp.asarray([1, -1]), -1):
        with pytest.raises(ValueError, match="^pow: x2 holds a negative integer; expected powers"):
            xp.pow(x, power)
    assert (x ** xp.asarray([3, 0])).tolist() == [8, 1]
    assert (x**2).tolist() == [4, 9]
    assert (xp.asarray([2.0]) ** -1).tolist() == [0.5]


KEYS: Final[list[Callable[[ModuleType], Any]]] = [
    lambda xp: 3,
    lambda xp: -4,
    lambda xp: (0, 5),
    lambda xp: (Ellipsis, 5),
    lambda xp: (slice(None), None, 5),
    lambda xp: xp.asarray([0, 3]),
    lambda xp: (xp.asarray([0]), xp.asarray([-6])),
    lambda xp: (0, xp.asarray(5, dtype=xp.uint8)),
    lambda xp: xp.asarray([True, False]),
    lambda xp: xp.ones((3, 4), dtype=xp.bool),
]


@pytest.mark.parametrize("key", KEYS)
def test_keys_out_of_bounds_raise(xp: ModuleType, key: Callable[[ModuleType], Any]) -> None:
    x = xp.zeros((3, 5))
    with pytest.raises(IndexError, match="^__getitem__: key: "):
        x[key(xp)]
    with pytest.raises(IndexError, match="^__setitem__: key: "):
        x[key(xp)] = 1.0
    assert not np.any(x.unwrap())


def test_indices_out_of_bounds_raise(xp: ModuleType) -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"^take: index {index} is out of bounds for an axis"):
            xp.take(x, xp.asarray([0, index]))
        with pytest.raises(IndexError, match=f"^take_along_axis: index {index} is out of bounds"):
            xp.take_along_axis(x, xp.asarray([0, index]))
    assert xp.take(x, xp.asarray([-1, 0])).tolist() == [3.0, 1.0]
    with pytest.raises(IndexError):
        xp.asarray(1.0)[0]


def test_indices_of_narrow_dtypes_count_from_the_end_of_long_axes(xp: ModuleType) -> None:
    x = xp.arange(1000)
    table = xp.reshape(xp.arange(20_000), (10_000, 2))
    index = xp.asarray([-1, 5], dtype=xp.int8)
    assert x[index].tolist() == [999, 5]
    assert xp.take(x, index).tolist() == [999, 5]
    assert xp.take_along_axis(x, index).tolist() == [999, 5]
    assert int(table[1000, xp.asarray(0, dtype=xp.int8)]) == 2000
    x[index] = 0
    assert [int(x[-1]), int(x[5]), int(x[4])] == [0, 0, 4]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_singular_matrices_raise(xp: ModuleType, dtype: str) -> None:
    regular = xp.asarray([[2.0, 1.0], [1.0, 3.0]], dtype=getattr(xp, dtype))
    singular = xp.asarray([[1.0, 2.0], [2.0, 4.0]], dtype=getattr(xp, dtype))
    for x in (singular, xp.stack([regular, singular])):
        with pytest.raises(ValueError, match="^inv: x has a singular matrix"):
            xp.linalg.inv(x)
        with pytest.raises(ValueError, match="^solve: x has a singular matrix"):
            xp.linalg.solve(x, regular)
        with pytest.raises(ValueError, match="^matrix_power: x has a singular matrix"):
            xp.linalg.matrix_power(x, -1)
        with pytest.raises(ValueError, match="^cholesky: x has a matrix that is not positive"):
            xp.linalg.cholesky(x - 3 * xp.eye(2, dtype=x.dtype))
    np.testing.assert_allclose(
        xp.linalg.inv(regular).unwrap(), [[0.6, -0.2], [-0.2, 0.4]], rtol=1e-6
    )
    assert np.isnan(xp.linalg.inv(xp.asarray([[NAN, 1.0], [1.0, 1.0]])).unwrap()).any()


def test_dtypes_outside_the_standard_are_refused(xp: ModuleType) -> None:
    with pytest.raises(TypeError, match="^asarray: obj: its dtype is jax's bfloat16; expected"):
        xp.asarray(jnp.ones(2, dtype=jnp.bfloat16))
    with pytest.raises(TypeError, match="^asarray: obj: its dtype is jax's key<"):
        xp.asarray(jax.random.key(0))


# ---------------------------------------------------------------------------- indexing


@pytest.mark.parametrize(
    "key",
    [
        (0,),
        (-1, 2),
        (Ellipsis, 1),
        (slice(None), 1),
        (None, 0, Ellipsis, None),
        (slice(2, 0, -1),),
        (slice(None, None, -1), slice(1, 4, 2)),
        (np.asarray([2, 0]),),
        (np.asarray([[2, 0], [1, -1]]), 1),
        (np.asarray([2, 0]), slice(None), np.asarray([1, 3])),
        (slice(None), np.asarray([4, 4])),
        (0, slice(None), np.asarray([1, 0])),
        (np.asarray([1, 0]), None, 2),
        (np.asarray([True, False, True]),),
        (slice(None), np.asarray([True, False, True, False, True])),
    ],
)
def test_keys_read_and_write_as_numpy_does(xp: ModuleType, key: tuple[Any, ...]) -> None:
    values = np.arange(60.0).reshape(3, 5, 4)
    x = xp.asarray(values)
    native = tuple(xp.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
    np.testing.assert_array_equal(x[native].unwrap(), values[key])
    value = np.arange(4.0)[: values[key].shape[-1]] if values[key].shape else np.asarray(7.0)
    for written in (np.asarray(-1.0), value):
        if written.shape and written.shape != values[key].shape[-1:]:
            continue
        expected = values.copy()
        expected[key] = written
        x = xp.asarray(values)
        x[native] = xp.asarray(written)
        np.testing.assert_array_equal(x.unwrap(), expected)


def test_writing_makes_a_new_array_and_leaves_the_old(xp: ModuleType) -> None:
    x = xp.zeros(3)
    before = x.unwrap()
    y = x[...]
    x[1] = 5.0
    x += 1.0
    assert x.tolist() == [1.0, 6.0, 1.0]
    assert before.tolist() == [0.0, 0.0, 0.0]
    assert y.tolist() == [0.0, 0.0, 0.0]
    with corepy.strict():
        x[0] = 2.0  # immutable memory is no read-only memory: nothing is copied for the write
    assert x.tolist() == [2.0, 6.0, 1.0]


def test_a_mask_fills_and_assigns(xp: ModuleType) -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    x[x > 3] = 0
    assert x.tolist() == [[0, 1, 2], [3, 0, 0]]
    x[xp.asarray([False, True])] = 9
    assert x.tolist() == [[0, 1, 2], [9, 9, 9]]
    x[x == 9] = xp.asarray([4, 5, 6])
    assert x.tolist() == [[0, 1, 2], [4, 5, 6]]


def test_an_empty_mask_selects_nothing(xp: ModuleType) -> None:
    x = xp.ones((2, 3))
    assert x[xp.ones((0,), dtype=xp.bool)].shape == (0, 3)
    assert x[xp.ones((0, 3), dtype=xp.bool)].shape == (0,)
    assert x[:, xp.ones((0,), dtype=xp.bool)].shape == (2, 0)
    x[xp.ones((0,), dtype=xp.bool)] = 5.0
    assert x.tolist() == [[1.0] * 3] * 2


def test_positions_are_64_bits(xp: ModuleType) -> None:
    x = xp.asarray([1.0, 2.0])
    found = xp.searchsorted(x, x)
    assert found.unwrap().dtype == np.int64
    assert found.tolist() == [0, 1]


# ---------------------------------------------------------------------------- memory


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64", "complex128"])
def test_read_only_memory_is_shared_both_ways(xp: ModuleType, dtype: str) -> None:
    values = frozen(np.arange(6).reshape(2, 3).astype(dtype))
    x = xp.asarray(values)
    assert x.backend == "jax"
    assert address(x) == values.ctypes.data
    back = np.asarray(x)
    assert back.ctypes.data == values.ctypes.data
    assert not back.flags.writeable
    again = xp.asarray(back, copy=False)
    assert address(again) == values.ctypes.data
    np.testing.assert_array_equal(back, values)


def test_memory_that_may_change_is_copied_unless_sharing_was_asked_for(xp: ModuleType) -> None:
    values = aligned(8)
    x = xp.asarray(values)
    assert address(x) != values.ctypes.data
    view = values[:4]
    view.flags.writeable = False  # whoever holds `values` can still write to it
    y = xp.asarray(view)
    values[:] = 3.0
    assert x.tolist() == [0.0] * 8
    assert y.tolist() == [0.0] * 4
    assert address(xp.asarray(values, copy=False)) == values.ctypes.data
    copied = xp.asarray(frozen(np.ones(4)), copy=True)
    assert copied.tolist() == [1.0] * 4


def test_memory_lent_by_dlpack_may_still_change(xp: ModuleType) -> None:
    class Lender:
        """Keeps the right to write into what it lends as read-only."""

        def __init__(self, memory: HostArray) -> None:
            self.memory = memory

        def __dlpack__(self, **params: Any) -> Any:
            shown = self.memory[:]
            shown.flags.writeable = False
            return shown.__dlpack__(**params)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    memory = aligned(8)
    lent = np.from_dlpack(Lender(memory))
    assert not lent.flags.writeable
    x = xp.asarray(lent)
    memory[:] = 3.0
    assert x.tolist() == [0.0] * 8
    assert address(xp.asarray(lent, copy=False)) == memory.ctypes.data


@pytest.mark.parametrize(
    "values",
    [aligned(9)[1:], aligned(8)[::-1], aligned(8)[::2], np.broadcast_to(aligned(1), (4,))],
    ids=["unaligned", "backwards", "gaps", "broadcast"],
)
def test_memory_that_jax_cannot_share(xp: ModuleType, values: HostArray) -> None:
    with pytest.raises(ValueError, match="jax shares contiguous host memory at a multiple of 64"):
        xp.asarray(values, copy=False)
    np.testing.assert_array_equal(xp.asarray(values).unwrap(), values)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3)])
def test_small_shapes_cross_both_ways(xp: ModuleType, shape: tuple[int, ...]) -> None:
    for copy in (None, True):
        x = xp.asarray(np.full(shape, 2.5), copy=copy)
        assert x.shape == shape
        assert np.asarray(x).shape == shape
        assert np.asarray(x).tolist() == np.full(shape, 2.5).tolist()


def test_shared_memory_lives_as_long_as_it_is_used(xp: ModuleType) -> None:
    values = frozen(np.arange(1000.0))
    place = values.ctypes.data
    x = xp.asarray(values)
    watch = weakref.ref(values.base)
    del values
    gc.collect()
    assert watch() is not None
    assert address(x) == place
    assert float(xp.sum(x)) == 499500.0
    exported = np.asarray(x)
    del x
    gc.collect()
    assert float(exported.sum()) == 499500.0


def test_consumers_of_old_dlpack_get_a_copy(xp: ModuleType) -> None:
    class Old:
        def __init__(self, array: corepy.Array, copy: bool | None = None) -> None:
            self.array = array
            self.copy = copy

        def __dlpack__(self, **params: Any) -> Any:
            return self.array.__dlpack__(copy=self.copy)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    x = xp.asarray([1.0, 2.0])
    assert np.from_dlpack(x).ctypes.data == address(x)
    assert not np.from_dlpack(x).flags.writeable
    old = np.from_dlpack(Old(x))
    assert old.ctypes.data != address(x)
    assert old.tolist() == [1.0, 2.0]
    assert np.from_dlpack(Old(x, copy=False)).ctypes.data == address(x)
    assert x.__dlpack__(copy=False, max_version=(1, 0)) is not None
    assert x.__dlpack__(max_version=(0, 0)) is not None


def test_reshape_without_a_copy(xp: ModuleType) -> None:
    x = xp.arange(6.0)
    assert address(xp.reshape(x, (2, 3), copy=False)) == address(x)
    assert xp.reshape(x, (2, 3), copy=False).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert address(xp.reshape(x, (6,), copy=True)) != address(x)
    assert address(xp.reshape(x, (3, 2), copy=True)) != address(x)
    assert address(xp.asarray(x, copy=True)) != address(x)


def test_values_on_the_host() -> None:
    backend = JaxBackend()
    native = jnp.ones(2)
    assert backend.to_numpy(native, copy=False).ctypes.data == native.unsafe_buffer_pointer()
    assert backend.to_numpy(native, copy=True).flags.writeable
    assert backend.shares_memory(native, np.asarray(native))
    assert not backend.shares_memory(native, np.ones(2))


# ---------------------------------------------------------------------------- native arrays


def test_native_arrays_are_operands(xp: ModuleType) -> None:
    native = jnp.asarray([1.0, 2.0], dtype="float32")
    x = xp.asarray(native)
    assert x.unwrap() is native
    assert xp.sin(native).backend == "jax"
    for found in (native + x, x + native):
        assert isinstance(found, corepy.Array)
        assert found.dtype is xp.float32
        assert found.tolist() == [2.0, 4.0]
    assert xp.add(native, native).tolist() == [2.0, 4.0]


def test_without_a_priority_native_arrays_stay_with_jax() -> None:
    x = corepy.array_api.asarray(jnp.arange(3))
    assert x.backend == "jax"
    assert (x * 2).backend == "jax"


def test_threads_compute_in_64_bits_each(xp: ModuleType) -> None:
    def work(i: int) -> float:
        with corepy.backend_priority(["jax"]):
            x = xp.asarray([float(i), 2.0**-40])
            return float(xp.sum(x)) + float(x[1])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(64))) == [i + 2.0**-39 for i in range(64)]


def test_synchronize_waits_for_what_was_asked_for(xp: ModuleType) -> None:
    x = xp.ones((700, 700))
    y = x @ x @ x
    JaxBackend().synchronize(CPU)
    assert y.unwrap().is_ready()
    assert float(y[0, 0]) == 490000.0


# ---------------------------------------------------------------------------- traced code


@pytest.mark.parametrize("wide", [False, True])
def test_jit(xp: ModuleType, wide: bool) -> None:
    def normalized(a: Any) -> Any:
        x = xp.asarray(a)
        x = (x - xp.mean(x, axis=0)) / (xp.std(x, axis=0) + 1e-3)
        x[x > 1.0] = 1.0
        x[0, 0] = 5.0
        return xp.where(x < 0, xp.exp(x), x).unwrap()

    values = np.random.default_rng(0).random((6, 3))
    with jax.enable_x64(wide):
        native = jnp.asarray(values)
        compiled = jax.jit(normalized)(native)
        plain = normalized(native)
        assert compiled.dtype == native.dtype
    np.testing.assert_allclose(compiled, plain, rtol=1e-6)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (None, True), (1, False), (0, True)])
def test_positions_in_traced_code_of_32_bits(
    xp: ModuleType, name: str, axis: int | None, keepdims: bool
) -> None:
    def position(a: Any) -> Any:
        return getattr(xp, name)(a, axis=axis, keepdims=keepdims).unwrap()

    values = np.asarray([[3.0, 1.0, 9.0], [7.0, 0.0, 2.0]])
    with jax.enable_x64(False):
        found = jax.jit(position)(jnp.asarray(values))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, getattr(np, name)(values, axis, keepdims=keepdims))


def test_float64_in_traced_code_of_32_bits(xp: ModuleType) -> None:
    def tiny(a: Any) -> Any:
        return (xp.astype(xp.asarray(a), xp.float64) + 1e-12).unwrap()

    with jax.enable_x64(False):
        found = jax.jit(tiny)(jnp.ones(2))
    assert found.dtype == np.float64
    assert found.tolist() == [1 + 1e-12] * 2


def test_grad_and_vmap(xp: ModuleType) -> None:
    def energy(a: Any) -> Any:
        x = xp.asarray(a)
        return xp.sum(xp.sqrt(x * x + 1.0)).unwrap()

    values = jnp.asarray([0.0, 1.0, -2.0], dtype="float32")
    expected = np.asarray(values) / np.sqrt(np.asarray(values) ** 2 + 1)
    np.testing.assert_allclose(jax.grad(energy)(values), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(energy))(values), expected, rtol=1e-6)
    rows = jnp.stack([values, 2 * values])
    np.testing.assert_allclose(jax.vmap(energy)(rows), [energy(row) for row in rows], rtol=1e-6)


def test_what_needs_values_says_so_in_traced_code(xp: ModuleType) -> None:
    def mask(a: Any) -> Any:
        return xp.asarray(a)[xp.asarray(a) > 0].unwrap()

    def branch(a: Any) -> Any:
        return 1 if bool(xp.any(xp.asarray(a) > 0)) else 0

    def values(a: Any) -> Any:
        return np.asarray(xp.asarray(a))

    x = jnp.ones(3)
    with pytest.raises(IndexError, match="must be concrete"):
        jax.jit(mask)(x)
    with pytest.raises(TypeError, match="traced array"):
        jax.jit(branch)(x)
    with pytest.raises(TypeError, match="traced array"):
        jax.jit(values)(x)
    with pytest.raises(TypeError, match="^unique_values: .*traced array"):
        jax.jit(lambda a: xp.unique_values(a).unwrap())(x)


def test_what_cannot_be_told_in_traced_code(xp: ModuleType) -> None:
    x, i = jnp.arange(3), jnp.asarray(7)
    taken = jax.jit(lambda x, i: xp.take(x, xp.asarray(i)[None]).unwrap())(x, i)
    assert taken.shape == (1,)
    divided = jax.jit(lambda x: (xp.asarray(x) // xp.asarray(x)).unwrap())(x)
    assert divided.tolist()[1:] == [1, 1]
    with pytest.raises(IndexError, match="index 3 is out of bounds"):  # a plain integer is known
        jax.jit(lambda x: xp.asarray(x)[3].unwrap())(x)


# ---------------------------------------------------------------------------- devices


def test_arrays_on_several_devices_are_refused() -> None:
    # Two host devices need another process, for their number is fixed when JAX starts.
    code = (
        "import os\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=2'\n"
        "import jax, corepy, corepy.array_api as xp\n"
        "from jax.sharding import Mesh, NamedSharding, PartitionSpec\n"
        "places = jax.devices('cpu')\n"
        "one = xp.asarray(jax.device_put(jax.numpy.ones(4), places[1]))\n"
        "assert str(one.device) == 'cpu:1' and str((one + one).device) == 'cpu:1'\n"
        "both = NamedSharding(Mesh(places, ('i',)), PartitionSpec('i'))\n"
        "try:\n"
        "    xp.asarray(jax.device_put(jax.numpy.ones(4), both))\n"
        "except ValueError as error:\n"
        "    assert 'on 2 devices; expected one device' in str(error)\n"
        "else:\n"
        "    raise AssertionError('taken')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


class FakePlace:
    """What JAX says of a device, for those that this machine lacks."""

    def __init__(self, platform: str, version: str = "") -> None:
        self.platform = platform
        self.client = self
        self.platform_version = version


@pytest.mark.parametrize(
    ("platform", "version", "name"),
    [
        ("gpu", "PJRT C API\ncuda 12090", "cuda:1"),
        ("gpu", "PJRT C API\nrocm 60300", "rocm:1"),
        ("tpu", "libtpu", "tpu:1"),
        ("cpu", "cpu", "cpu:1"),
    ],
)
def test_names_of_devices(
    monkeypatch: pytest.MonkeyPatch, platform: str, version: str, name: str
) -> None:
    places = [FakePlace(platform, version), FakePlace(platform, version)]
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: places)
    assert _backend._device_of(places[1]) is as_device(name)


def test_platforms_without_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    place = FakePlace("tpu", "libtpu")

    def local_devices(backend: str | None = None) -> list[FakePlace]:
        if backend == "cpu":
            raise RuntimeError("Unknown backend: 'cpu' requested, but no platforms are present.")
        return [place]

    _backend._native_devices.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(jax, "local_devices", local_devices)  # as JAX_PLATFORMS=tpu does
        assert JaxBackend().devices() == (as_device("tpu:0"),)
        (told,) = JaxBackend().unserved()
    _backend._native_devices.cache_clear()
    assert told.startswith("cpu: JAX_PLATFORMS leaves it out")
    assert JaxBackend().unserved() == ()


def test_the_dtypes_of_a_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    # The host stands for it: a backend of its own, whose arrays say that they are there.
    table, device = corepy.array_api, as_device("tpu:0")
    host = jax.local_devices(backend="cpu")[0]
    monkeypatch.setattr(_backend, "_native_devices", lambda: {device: host})
    monkeypatch.setattr(_backend, "_device_of", lambda place: device)
    monkeypatch.setattr(_backend, "_on_host", lambda native: isinstance(native, np.generic))
    backend = JaxBackend()
    backend.name = "tpus"  # type: ignore[misc]
    corepy.register_backend("tpus", backend, modules=())
    try:
        with corepy.backend_priority(["tpus"]):
            info = table.__array_namespace_info__()
            assert info.default_device() is device
            lacking = set(info.dtypes(device=CPU)) - set(info.dtypes(device=device))
            assert lacking == {"float64", "complex128"}
            names = [dtype.name for dtype in info.default_dtypes(device=device).values()]
            assert names == ["float32", "complex64", "int64", "int64"]
            ints = table.asarray([1, 2])
            for made, name in [
                (table.ones(2), "float32"),
                (table.linspace(0, 1, 3), "float32"),
                (table.fft.fftfreq(4), "float32"),
                (ints + 0.5, "float32"),
                (ints / 2, "float32"),
                (ints * 1j, "complex64"),
                (table.sum(ints), "int64"),
            ]:
                assert (made.dtype.name, made.unwrap().dtype.name) == (name, name)
            for ask in (
                lambda: table.ones(2, dtype=table.float64),
                lambda: table.asarray(np.ones(2), device=device),
                lambda: table.sum(table.ones(2), dtype=table.float64),
                lambda: table.astype(table.ones(2), table.complex128),
            ):
                with pytest.raises(
                    corepy.UnsupportedOperationError,
                    match=", which .*tpu:0.*; expected one of bool",
                ):
                    ask()
    finally:
        corepy.unregister_backend("tpus")


def test_what_a_device_lacks() -> None:
    backend, table = JaxBackend(), corepy.array_api
    tpu, cuda = as_device("tpu:0"), as_device("cuda:0")
    assert table.float64 not in backend.capabilities(tpu).dtypes
    assert table.float32 in backend.capabilities(tpu).dtypes
    assert backend.supports("linalg.eig", table.float32, CPU)
    assert not backend.supports("linalg.eig", table.float32, cuda)
    assert backend.supports("linalg.eigh", table.float32, cuda)
    assert not backend.supports("add", table.float64, tpu)
    assert backend.devices()[-1] is CPU


def test_products_keep_all_bits_of_their_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    for name in ("matmul", "add"):
        _backend._operation.cache_clear()

        def spy(*args: Any) -> Any:
            seen.append(jax.config.jax_default_matmul_precision)

        monkeypatch.setitem(_backend._FIXES, name, spy)
        function = JaxBackend().operation(name)
        assert function is not None
        function(1, 2)
    monkeypatch.undo()
    _backend._operation.cache_clear()
    assert seen == ["highest", None]
