"""Elementwise functions of complex numbers: the standard's special cases, NumPy and mpmath."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from corepy import _dtypes
from corepy.backends import reference
from corepy.backends.reference import ReferenceArray
from tests.backends.reference.values import INF, NAN, NUMPY_NAMES, from_numpy, same, sample

PI = math.pi
FINITE = 1.5


def c(real: float, imag: float) -> complex:
    return complex(real, imag)


#: Argument and result. Where the standard leaves a sign open, the one written here is ours.
CASES: dict[str, list[tuple[complex, complex]]] = {
    "acos": [
        (c(0.0, 0.0), c(PI / 2, -0.0)),
        (c(-0.0, NAN), c(PI / 2, NAN)),
        (c(FINITE, INF), c(PI / 2, -INF)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(-INF, FINITE), c(PI, -INF)),
        (c(INF, FINITE), c(0.0, -INF)),
        (c(-INF, INF), c(3 * PI / 4, -INF)),
        (c(INF, INF), c(PI / 4, -INF)),
        (c(NAN, FINITE), c(NAN, NAN)),
        (c(NAN, INF), c(NAN, -INF)),
    ],
    "acosh": [
        (c(0.0, 0.0), c(0.0, PI / 2)),
        (c(FINITE, INF), c(INF, PI / 2)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(0.0, NAN), c(NAN, PI / 2)),
        (c(-INF, FINITE), c(INF, PI)),
        (c(INF, FINITE), c(INF, 0.0)),
        (c(-INF, INF), c(INF, 3 * PI / 4)),
        (c(INF, INF), c(INF, PI / 4)),
        (c(-INF, NAN), c(INF, NAN)),
        (c(NAN, FINITE), c(NAN, NAN)),
        (c(NAN, INF), c(INF, NAN)),
    ],
    "asinh": [
        (c(0.0, 0.0), c(0.0, 0.0)),
        (c(FINITE, INF), c(INF, PI / 2)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(INF, FINITE), c(INF, 0.0)),
        (c(INF, INF), c(INF, PI / 4)),
        (c(NAN, 0.0), c(NAN, 0.0)),
        (c(NAN, FINITE), c(NAN, NAN)),
        (c(NAN, INF), c(INF, NAN)),
    ],
    "atanh": [
        (c(0.0, 0.0), c(0.0, 0.0)),
        (c(0.0, NAN), c(0.0, NAN)),
        (c(1.0, 0.0), c(INF, 0.0)),
        (c(-1.0, -0.0), c(-INF, -0.0)),
        (c(FINITE, INF), c(0.0, PI / 2)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(INF, FINITE), c(0.0, PI / 2)),
        (c(INF, INF), c(0.0, PI / 2)),
        (c(INF, NAN), c(0.0, NAN)),
        (c(NAN, FINITE), c(NAN, NAN)),
        (c(NAN, INF), c(0.0, PI / 2)),
    ],
    "cosh": [
        (c(0.0, 0.0), c(1.0, 0.0)),
        (c(0.0, INF), c(NAN, 0.0)),
        (c(0.0, NAN), c(NAN, 0.0)),
        (c(FINITE, INF), c(NAN, NAN)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(INF, 0.0), c(INF, 0.0)),
        (c(INF, 2.0), c(-INF, INF)),
        (c(INF, INF), c(INF, NAN)),
        (c(INF, NAN), c(INF, NAN)),
        (c(NAN, 0.0), c(NAN, 0.0)),
        (c(NAN, FINITE), c(NAN, NAN)),
    ],
    "exp": [
        (c(-0.0, 0.0), c(1.0, 0.0)),
        (c(FINITE, INF), c(NAN, NAN)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(INF, 0.0), c(INF, 0.0)),
        (c(-INF, 2.0), c(-0.0, 0.0)),
        (c(INF, 2.0), c(-INF, INF)),
        (c(-INF, INF), c(0.0, 0.0)),
        (c(INF, INF), c(INF, NAN)),
        (c(-INF, NAN), c(0.0, 0.0)),
        (c(INF, NAN), c(INF, NAN)),
        (c(NAN, 0.0), c(NAN, 0.0)),
        (c(NAN, FINITE), c(NAN, NAN)),
        (c(1000.0, 2.0), c(-INF, INF)),
        (c(1000.0, -0.0), c(INF, -0.0)),
    ],
    "expm1": [
        (c(-0.0, 0.0), c(0.0, 0.0)),
        (c(FINITE, INF), c(NAN, NAN)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(INF, 0.0), c(INF, 0.0)),
        (c(-INF, 2.0), c(-1.0, 0.0)),
        (c(INF, 2.0), c(-INF, INF)),
        (c(-INF, INF), c(-1.0, 0.0)),
        (c(INF, INF), c(INF, NAN)),
        (c(-INF, NAN), c(-1.0, 0.0)),
        (c(INF, NAN), c(INF, NAN)),
        (c(NAN, 0.0), c(NAN, 0.0)),
        (c(NAN, FINITE), c(NAN, NAN)),
    ],
    "log": [
        (c(-0.0, 0.0), c(-INF, PI)),
        (c(0.0, 0.0), c(-INF, 0.0)),
        (c(FINITE, INF), c(INF, PI / 2)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(-INF, FINITE), c(INF, PI)),
        (c(INF, FINITE), c(INF, 0.0)),
        (c(-INF, INF), c(INF, 3 * PI / 4)),
        (c(INF, INF), c(INF, PI / 4)),
        (c(INF, NAN), c(INF, NAN)),
        (c(NAN, FINITE), c(NAN, NAN)),
        (c(NAN, INF), c(INF, NAN)),
        (c(-4.0, -0.0), c(2 * math.log(2), -PI)),
    ],
    "log1p": [
        (c(-1.0, 0.0), c(-INF, 0.0)),
        (c(FINITE, INF), c(INF, PI / 2)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(-INF, FINITE), c(INF, PI)),
        (c(INF, FINITE), c(INF, 0.0)),
        (c(-INF, INF), c(INF, 3 * PI / 4)),
        (c(INF, NAN), c(INF, NAN)),
        (c(NAN, INF), c(INF, NAN)),
    ],
    "sign": [
        (c(-0.0, 0.0), c(0.0, 0.0)),
        (c(NAN, 1.0), c(NAN, NAN)),
        (c(3.0, -4.0), c(0.6, -0.8)),
    ],
    "sinh": [
        (c(0.0, 0.0), c(0.0, 0.0)),
        (c(0.0, INF), c(0.0, NAN)),
        (c(0.0, NAN), c(0.0, NAN)),
        (c(FINITE, INF), c(NAN, NAN)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(INF, 0.0), c(INF, 0.0)),
        (c(INF, 2.0), c(-INF, INF)),
        (c(INF, INF), c(INF, NAN)),
        (c(INF, NAN), c(INF, NAN)),
        (c(NAN, 0.0), c(NAN, 0.0)),
        (c(NAN, FINITE), c(NAN, NAN)),
        (c(-1000.0, 2.0), c(INF, INF)),
    ],
    "sqrt": [
        (c(-0.0, 0.0), c(0.0, 0.0)),
        (c(NAN, INF), c(INF, INF)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(-INF, FINITE), c(0.0, INF)),
        (c(INF, FINITE), c(INF, 0.0)),
        (c(INF, NAN), c(INF, NAN)),
        (c(NAN, FINITE), c(NAN, NAN)),
        (c(-4.0, 0.0), c(0.0, 2.0)),
        (c(-4.0, -0.0), c(0.0, -2.0)),
    ],
    "tanh": [
        (c(0.0, 0.0), c(0.0, 0.0)),
        (c(FINITE, INF), c(NAN, NAN)),
        (c(0.0, INF), c(0.0, NAN)),
        (c(FINITE, NAN), c(NAN, NAN)),
        (c(0.0, NAN), c(0.0, NAN)),
        (c(INF, 2.0), c(1.0, 0.0)),
        (c(INF, INF), c(1.0, 0.0)),
        (c(INF, NAN), c(1.0, 0.0)),
        (c(NAN, 0.0), c(NAN, 0.0)),
        (c(NAN, FINITE), c(NAN, NAN)),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_special_cases(name: str) -> None:
    function = getattr(reference, name)
    for z, expected in CASES[name]:
        found = function(z).values[0]
        assert same(found, expected), f"{name}({z}) is {found}"


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("acosh", "sign", "acos")])
def test_conjugation(name: str) -> None:
    for z, expected in CASES[name]:
        mirrored = getattr(reference, name)(z.conjugate()).values[0].conjugate()
        if INF in (abs(z.imag),) or math.isnan(z.imag):
            # The sign of a zero beside an infinite or undefined angle is open.
            assert same(
                complex(abs(mirrored.real), abs(mirrored.imag)),
                c(*map(abs, (expected.real, expected.imag))),
            )
        else:
            assert same(mirrored, expected), f"{name}({z.conjugate()})"


@pytest.mark.parametrize(("name", "turned"), [("sin", "sinh"), ("tan", "tanh"), ("atan", "atanh")])
def test_rotated_functions(name: str, turned: str) -> None:
    for z, expected in CASES.get(turned, []):
        # f(z) = -1j * g(1j * z), so f at -1j * z is -1j * g(z).
        found = getattr(reference, name)(c(z.imag, -z.real)).values[0]
        assert same(found, c(expected.imag, -expected.real)), f"{name} at {z} turned"


UNARY = [
    "exp",
    "expm1",
    "log",
    "log2",
    "log10",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "square",
    "reciprocal",
    "sign",
    "conj",
    "negative",
]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_like_numpy(name: str, dtype: str) -> None:
    x = np.concatenate([sample((20,), dtype), sample((10,), dtype, 1) / 20]).astype(dtype)
    x = np.concatenate([x, x[:4].real, 1j * x[:4].imag]).astype(dtype)
    expected = getattr(np, NUMPY_NAMES.get(name, name))(x)
    found = getattr(reference, name)(from_numpy(x))
    assert found.dtype is _dtypes.as_dtype(dtype)
    error = np.abs(np.array(found.values) - expected) / np.abs(expected)
    assert error.max() <= 8 * np.finfo(dtype).eps


@pytest.mark.needs("mpmath")
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "tanh", "asin", "acosh", "atan"])
def test_components_are_correctly_rounded(name: str) -> None:
    import mpmath

    mp = mpmath.MPContext()
    mp.prec = 400
    for z in sample((20,), "complex128", seed=5).tolist():
        truth = getattr(mp, name)(mp.mpc(z))
        found = getattr(reference, name)(z).values[0]
        assert (found.real, found.imag) == (float(truth.real), float(truth.imag)), f"{name}({z})"


# ------------------------------------------------------------------ arithmetic


def _exact(z: complex) -> tuple[Fraction, Fraction]:
    return Fraction(z.real), Fraction(z.imag)


@pytest.mark.parametrize(
    ("name", "z", "expected"),
    [
        ("expm1", 1e-40 + 1e-120j, 1e-40 + 1e-120j),
        ("asinh", 1e-40 + 1e-120j, 1e-40 + 1e-120j),
        ("atan", 3e-250 + 1.6e-46j, 3e-250 + 1.6e-46j),
        ("acos", 1 - 2.9776586927047e-88j, 1.7255893754612366e-44 * (1 + 1j)),
    ],
)
def test_cancellation_that_leaves_some_bits(name: str, z: complex, expected: complex) -> None:
    assert getattr(reference, name)(z).values[0] == expected


def test_products_and_quotients_are_correctly_rounded() -> None:
    z = sample((40,), "complex128", seed=2).tolist()
    z += [complex(a, b) for a in (1e300, 3e-300) for b in (-1e300, 7e-310)]
    for x, y in zip(z, reversed(z), strict=True):
        (a, b), (p, q) = _exact(x), _exact(y)
        square = p * p + q * q
        product = (a * p - b * q, a * q + b * p)
        quotient = ((a * p + b * q) / square, (b * p - a * q) / square)
        for name, truth in (("multiply", product), ("divide", quotient)):
            found = getattr(reference, name)(x, y).values[0]
            for part, exact in zip((found.real, found.imag), truth, strict=True):
                if abs(exact) >= Fraction(2) ** 1024:
                    assert abs(part) == INF
                else:
                    assert part == exact.numerator / exact.denominator


def test_arithmetic_special_cases() -> None:
    assert same(reference.add(c(-0.0, 0.0), c(-0.0, -0.0)).values[0], c(-0.0, 0.0))
    assert same(reference.multiply(c(NAN, NAN), c(NAN, NAN)).values[0], c(NAN, NAN))
    assert same(reference.divide(c(NAN, NAN), c(NAN, NAN)).values[0], c(NAN, NAN))
    assert same(reference.divide(c(1, -1), c(0.0, 0.0)).values[0], c(INF, -INF))
    assert same(reference.divide(c(0, 0), c(0.0, 0.0)).values[0], c(NAN, NAN))
    assert same(reference.multiply(c(2, 0.0), c(-3, 0.0)).values[0], c(-6.0, 0.0))


def test_abs() -> None:
    values = [c(3, 4), c(INF, NAN), c(NAN, -INF), c(-0.0, -2.0), c(NAN, 1.0), c(3e300, 4e300)]
    found = reference.abs(values)
    assert found.dtype is _dtypes.float64
    for a, b in zip(found.values, [5.0, INF, INF, 2.0, NAN, 5e300], strict=True):
        assert same(a, b)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (1j, 2, -1),
        (1 + 1j, 4, -4),
        (2 + 0j, -1, 0.5),
        (0j, 0, 1),
        (0j, 2.5, 0),
        (3 - 4j, 0.5, 2 - 1j),
        (c(-4.0, -0.0), 0.5, -2j),
        (c(-4.0, 0.0), 0.5, 2j),
    ],
)
def test_pow(x: complex, y: complex, expected: complex) -> None:
    found: Any = reference.pow(complex(x), complex(y)).values[0]
    assert abs(found - expected) <= 2e-16 * abs(expected)


def test_parts() -> None:
    z = ReferenceArray([1 + 2j, -0.5 - 3.5j], (2,), _dtypes.complex64)
    assert reference.real(z) == ReferenceArray([1.0, -0.5], (2,), _dtypes.float32)
    assert reference.imag(z) == ReferenceArray([2.0, -3.5], (2,), _dtypes.float32)
    assert reference.conj(z).values == [1 - 2j, -0.5 + 3.5j]
    assert reference.round(z).values == [1 + 2j, -0.0 - 4j]
    assert reference.isfinite([c(1, INF), c(1, 1)]) == [False, True]
    assert reference.isnan([c(1, NAN), c(1, INF)]) == [True, False]
    assert reference.isinf([c(1, NAN), c(NAN, INF)]) == [False, True]
    assert reference.equal([1 + 0j, 1j], [1 + 0j, -1j]) == [True, False]
