"""Values of the JAX backend where JAX has others."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest

import corepy.array_api as xp
from corepy._dtypes import DTYPES
from tests.conftest import required
from tests.helpers import INTEGERS

jax = required("jax")
jnp = jax.numpy

from corepy.backends.jax import _linear_algebra, _special, _values  # noqa: E402 (they import jax)

INF: Final = math.inf
NAN: Final = math.nan
PREFERRED = "jax"


# ---------------------------------------------------------------------------- special values

#: Function, operand, result; `None` for a part whose sign or value the standard leaves open.
COMPLEX_CASES: Final = [
    ("abs", complex(INF, NAN), INF),
    ("exp", complex(-INF, INF), complex(0, 0)),
    ("exp", complex(-INF, NAN), complex(0, 0)),
    ("exp", complex(INF, INF), complex(INF, NAN)),
    ("exp", complex(INF, NAN), complex(INF, NAN)),
    ("exp", complex(1, -0.0), complex(math.e, -0.0)),
    ("expm1", complex(-0.0, 0.0), complex(0.0, 0.0)),
    ("expm1", complex(-0.0, -0.0), complex(0.0, -0.0)),
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
    dtype: str, name: str, operand: complex, expected: complex
) -> None:
    found = complex(getattr(xp, name)(xp.asarray(operand, dtype=getattr(xp, dtype))))
    for got, want in ((found.real, complex(expected).real), (found.imag, complex(expected).imag)):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=0)
        assert want != 0 or math.copysign(1, got) == math.copysign(1, want)


def test_complex_functions_of_the_smallest_and_largest_operands() -> None:
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


def test_atanh_beside_its_poles() -> None:
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
    name: str, operand: float, expected: float
) -> None:
    found = float(getattr(xp, name)(xp.asarray(operand)))
    assert found == expected or abs(found - expected) <= 4 * math.ulp(expected)


@pytest.mark.parametrize("name", ["asin", "asinh", "atanh", "log1p", "sinh", "tanh"])
def test_zeros_keep_their_signs(name: str) -> None:
    zeros = getattr(xp, name)(xp.asarray([0.0, -0.0]))
    assert zeros.tolist() == [0.0, 0.0]
    assert xp.signbit(zeros).tolist() == [False, True]


@pytest.mark.parametrize("name", ["atanh", "log1p"])
def test_what_is_outside_the_domain_is_not_a_number(name: str) -> None:
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
        ("floor_divide", -0.125, -1.0, 0.0),
        ("floor_divide", 7.0, 0.0, INF),
        ("remainder", -0.0, 2.0, 0.0),
        ("remainder", 0.0, -2.0, -0.0),
        ("remainder", 7.0, -2.0, -1.0),
    ],
)
def test_division_of_floats(dtype: str, name: str, x1: float, x2: float, expected: float) -> None:
    a, b = (xp.asarray(x, dtype=getattr(xp, dtype)) for x in (x1, x2))
    found = float(getattr(xp, name)(a, b))
    assert found == expected
    assert math.copysign(1, found) == math.copysign(1, expected)


def test_the_sign_of_zero_has_no_sign() -> None:
    found = xp.sign(xp.asarray([-0.0, 0.0, -2.0]))
    assert found.tolist() == [0.0, 0.0, -1.0]
    assert not any(xp.signbit(found[:2]).tolist())


@pytest.mark.parametrize("name", sorted(set(_special.FIXES) - {"divide", "pow"}))
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


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_read_every_bit_of_the_exponent(dtype: str) -> None:
    bases = np.array([0, 1, 2, 3, 5, 126, 127], dtype)
    exponents = np.array([0, 1, 3, 63, 64, 65, 127, np.iinfo(dtype).max], dtype)
    want = bases[:, None] ** exponents
    with jax.enable_x64(True):
        x1, x2 = jnp.asarray(bases)[:, None], jnp.asarray(exponents)
        each = jax.vmap(jax.vmap(_special.pow, (None, 0)), (0, None))
        for found in (_special.pow(x1, x2), jax.jit(_special.pow)(x1, x2), each(x1[:, 0], x2)):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, want)
    a, b = xp.asarray(bases), xp.asarray(exponents)
    np.testing.assert_array_equal(xp.pow(xp.reshape(a, (-1, 1)), b), want)
    for i, exponent in enumerate(exponents.tolist()):
        np.testing.assert_array_equal(a**exponent, want[:, i])
        c = xp.asarray(a, copy=True)
        c **= exponent
        np.testing.assert_array_equal(c, want[:, i])
    for i, base in enumerate(bases.tolist()):
        np.testing.assert_array_equal(base**b, want[i])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_all_kinds_of_integers(dtype: str) -> None:
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    bases = rng.integers(limits.min, limits.max, 60, dtype, endpoint=True)
    exponents = [2**n + more for n in range(6, np.dtype(dtype).itemsize * 8) for more in (-1, 0, 1)]
    exponents += rng.integers(0, limits.max, 40, dtype, endpoint=True).tolist()
    x2 = np.array([n for n in exponents if n <= limits.max], dtype)
    with jax.enable_x64(True):
        found = _special.pow(jnp.asarray(bases)[:, None], jnp.asarray(x2))
    np.testing.assert_array_equal(found, bases[:, None] ** x2)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_exponents_of_integers_are_looked_at_on_the_host_alone(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    x, few, many = (xp.asarray(n, dtype=DTYPES[dtype]) for n in ([2, 3, 5], [3, 1, 2], [0, 1, 64]))
    full, seen, looked = _special.pow, [], []
    monkeypatch.setattr(_special, "pow", lambda x1, x2: seen.append(x2) or full(x1, x2))
    assert [(x**few).tolist(), (x**3).tolist()] == [[8, 3, 25], [8, 27, 125]]
    assert not seen
    assert (x**many).tolist() == [1, 3, int(np.array(5, dtype) ** np.array(64, dtype))]
    assert len(seen) == 1
    known = _values.known
    monkeypatch.setattr(_values, "is_known", lambda x: False)
    monkeypatch.setattr(_values, "known", lambda x: looked.append(x) or known(x))
    assert (x**few).tolist() == [8, 3, 25]
    assert len(looked) == (not dtype.startswith("u"))  # which may be negative
    # What is made of them does not depend on a look at them either, which takes the host.
    with jax.enable_x64(True):
        traced = str(jax.make_jaxpr(full)(few.unwrap(), many.unwrap()))
    assert "cond[" not in traced
    assert "while[" not in traced


def test_traced_negative_powers_of_integers_are_jaxs() -> None:
    with jax.enable_x64(True):
        x1, x2 = jnp.asarray([0, 2, 3, -1, 3]), jnp.asarray([-1, -2, -64, -65, 100])
        found = jax.jit(_special.pow)(x1, x2)
        assert found[:4].tolist() == jnp.pow(x1, x2)[:4].tolist()
        assert int(found[4]) == int(np.int64(3) ** np.int64(100))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (50, 1), (50,)])
def test_quotients_by_what_many_share_are_rounded_once(dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.random.default_rng(0).random((50, 50)) * 100).astype(dtype)
    for divisor in (3.1, 49.0, 1.4274131):
        x2 = np.full(shape, divisor, dtype)
        found = xp.asarray(values) / xp.asarray(x2)
        np.testing.assert_array_equal(np.asarray(found), values / x2)
    np.testing.assert_array_equal(
        np.asarray(xp.asarray(values) / 7.0), values / np.asarray(7, dtype)
    )


@pytest.mark.parametrize("shape", [(), (50, 1), (50,)])
def test_quotients_by_what_many_share_are_rounded_once_in_traced_code(
    shape: tuple[int, ...],
) -> None:
    rng = np.random.default_rng(0)
    values, divisor = rng.standard_normal((50, 50)), rng.standard_normal(shape) + 2
    with jax.enable_x64(True):
        for call, want in (
            (lambda x, y: x / y, values / divisor),
            (lambda x, y: xp.abs(x) / y, np.abs(values) / divisor),
            (lambda x, y: xp.asarray(values) / y, values / divisor),
            (lambda x, y: xp.full_like(x, 3.3) / y, np.full((50, 50), 3.3) / divisor),
            (lambda x, y: x / xp.asarray(divisor), values / divisor),
            (lambda x, y: x / 3.3, values / 3.3),
        ):
            traced = jax.jit(lambda x, y, call=call: call(xp.asarray(x), xp.asarray(y)).unwrap())
            np.testing.assert_array_equal(traced(values, divisor), want)


def test_a_divisor_that_many_share_takes_no_memory_of_its_own() -> None:
    x = jnp.ones((500, 300), jnp.float32)
    for y in (jnp.float32(3), jnp.ones((500, 1), jnp.float32), jnp.ones(300, jnp.float32)):
        made = jax.jit(_special.divide).lower(x, y)
        assert "optimization_barrier" not in made.as_text()  # which a GPU writes to memory
        assert made.compile().memory_analysis().temp_size_in_bytes < x.nbytes


def test_quotients_by_special_values_that_many_share() -> None:
    special = np.array([0.0, -0.0, 1.0, -3.0, INF, -INF, NAN, 1e308, 7.0])
    for divisor in special:
        with np.errstate(all="ignore"):
            want = special / divisor
        found = np.asarray(xp.asarray(special) / xp.asarray(divisor))
        normal = ~((np.abs(want) > 0) & (np.abs(want) < np.finfo(want.dtype).tiny))
        np.testing.assert_array_equal(found[normal], want[normal])
        numbers = normal & ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(want[numbers]))


def test_quotients_keep_their_derivatives() -> None:
    x, y = jnp.asarray([1.0, 2.0], jnp.float32), jnp.asarray(4.0, jnp.float32)
    slopes = jax.grad(lambda x, y: jnp.sum(_special.divide(x, y)), argnums=(0, 1))(x, y)
    assert slopes[0].tolist() == [0.25, 0.25]
    assert float(slopes[1]) == -3 / 16
    x = jnp.asarray([0.0, -0.0, 1.0, INF, NAN], jnp.float32)
    for divisor in (4.0, 0.0, INF, NAN):
        y = jnp.float32(divisor)
        want, found = (
            jax.vjp(function, x, y)[1](jnp.ones_like(x))
            for function in (jnp.divide, _special.divide)
        )
        for one, other in zip(found, want, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "z", "expected"),
    [
        ("log", 0.7467657186674229 + 0.1681768996927998j, -0.26726680157394523),
        ("log", 0.7696505328535662 + 0.0010062557458155575j, -0.26181786592246109),
        ("log1p", -0.23444409797512844 + 0.0073000000000232376j, -0.26710757840566807),
    ],
)
def test_complex_logarithms_have_their_digits(name: str, z: complex, expected: float) -> None:
    found = complex(getattr(xp, name)(xp.asarray(z, dtype=xp.complex128)))
    assert found.real == pytest.approx(expected, rel=2e-15)


@pytest.mark.parametrize(
    ("name", "z", "expected"),
    [
        ("log", 0.84 + 0.01j, -0.17428253048767628),
        ("log10", -0.79 + 0.2j, -0.088883259880577939),
        ("expm1", -5.078324166332193e-15 - 188.49555920471596j, -5.135266057627244e-15),
        ("expm1", 25.13274122871701j, -8.9351720110139361e-25),
    ],
)
def test_real_parts_of_complex_results_have_their_digits(
    name: str, z: complex, expected: float
) -> None:
    found = complex(getattr(xp, name)(xp.asarray(z, dtype=xp.complex128)))
    assert found.real == pytest.approx(expected, rel=1e-15)


def test_singular_values_of_no_numbers_are_refused() -> None:
    for held in (NAN, INF):
        x = xp.asarray([[1.0, held], [0.0, 1.0]])
        for name in ("matrix_rank", "pinv", "svd", "svdvals"):
            with pytest.raises(ValueError, match=f"^{name}: x holds NaN or infinities; expected"):
                getattr(xp.linalg, name)(x)
    with jax.enable_x64(True):
        traced = jax.jit(lambda x: xp.linalg.svdvals(xp.asarray(x)).unwrap())
        assert np.isnan(np.asarray(traced(jnp.full((2, 2), NAN)))).all()


def test_whether_a_device_holds_numbers_alone_is_one_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As of an array on a device: NumPy does not see its memory.
    monkeypatch.setattr(_linear_algebra, "known", lambda x: x)
    asked, ask = [], jnp.isfinite
    monkeypatch.setattr(jnp, "isfinite", lambda x: asked.append(x) or ask(x))
    assert xp.linalg.svdvals(xp.asarray([[3.0, 0.0], [0.0, 4.0]])).tolist() == [4.0, 3.0]
    with pytest.raises(ValueError, match="^svdvals: x holds NaN or infinities; expected"):
        xp.linalg.svdvals(xp.asarray([[NAN, 0.0], [0.0, 1.0]]))
    assert all(isinstance(x, jax.core.Tracer) for x in asked)
