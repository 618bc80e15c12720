"""Values of the MLX backend."""

from __future__ import annotations

import math
import operator
import os
import subprocess
import sys

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from tests.backends.arrays import a, ran
from tests.conftest import required

# Without a package of kernels mlx is found, and fails to import.
mx = required("mlx.core", exc_type=ImportError)

from corepy.backends.mlx import _functions as functions  # noqa: E402  it imports mlx

pytestmark = [
    pytest.mark.backend("mlx"),
    pytest.mark.skipif(mx.metal.is_available(), reason="tests the build for the host"),
]

inf, nan = math.inf, math.nan
PREFERRED = "mlx"


# ---------------------------------------------------------------------------- complex128


def test_complex128_is_held_in_numpy() -> None:
    z = a([1.0, 2.0]) + 1j
    assert (z.dtype, z.backend) == (xp.complex128, "mlx")
    assert type(z.unwrap()) is np.ndarray
    assert np.asarray(z) is z.unwrap() or np.shares_memory(np.asarray(z), z.unwrap())
    assert (z * z).tolist() == [2j, 3 + 4j]
    assert type(xp.real(z).unwrap()) is mx.array
    assert xp.astype(z, xp.complex64).tolist() == [1 + 1j, 2 + 1j]
    found = corepy.explain(operator.mul, z, z)
    assert found.summary() == {"numpy": 1}
    assert found.bytes_moved == 0


def test_functions_that_end_in_complex128() -> None:
    x = a([1.0, 2.0, 3.0])
    assert xp.astype(x, xp.complex128).tolist() == [1, 2, 3]
    for name, wanted in (("sum", 6), ("prod", 6)):
        made = getattr(xp, name)(x, dtype=xp.complex128)
        assert (made.dtype, complex(made)) == (xp.complex128, wanted)
    counts = a([1, 2, 3])
    assert xp.sum(counts, dtype=xp.complex128).dtype is xp.complex128
    made = xp.cumulative_sum(counts, dtype=xp.complex128, include_initial=True)
    assert (made.dtype, made.tolist()) == (xp.complex128, [0, 1, 3, 6])
    assert xp.fft.rfft(x).dtype is xp.complex128
    assert xp.linalg.eigvals(xp.eye(2)).dtype is xp.complex128


def test_read_only_complex128_is_copied_before_it_is_written() -> None:
    values = np.ones(2, np.complex128)
    values.setflags(write=False)
    z = xp.asarray(values)
    z[0] = 5.0
    assert values.tolist() == [1, 1]
    assert z.tolist() == [5, 1]


# ---------------------------------------------------------------------------- values


def test_elementwise_special_cases() -> None:
    for name in ("float32", "float64"):
        zeros = np.asarray(xp.sin(a([-0.0, 0.0], name)))
        assert np.signbit(zeros).tolist() == [True, False]
        assert str(xp.sign(a([nan, -2.0, 0.0], name)).tolist()) == "[nan, -1.0, 0.0]"
        np.testing.assert_allclose(
            np.asarray(xp.exp(a([-45.1, -84.1, 80.0], name))),
            np.exp(np.array([-45.1, -84.1, 80.0], name).astype(float)),
            rtol=2e-7,
        )
        assert xp.logaddexp(a([0.0], name), a([-80.0], name)).tolist()[0] > 0.0
        assert np.signbit(np.asarray(xp.remainder(a([-1.0], name), 1.0))).tolist() == [False]
    assert xp.exp(a([100.5])).tolist() == [np.exp(100.5)]
    assert xp.cos(a([1e308])).tolist() == [np.cos(1e308)]
    far = np.float32(3804619.5)
    assert float(xp.sin(a([far], "float32"))[0]) == pytest.approx(np.sin(float(far)), rel=1e-6)
    assert xp.pow(a([2j, 0j], "complex64"), a([0j, 0j], "complex64")).tolist() == [1, 1]
    large = a([1e30 + 1e30j], "complex64")
    assert xp.divide(large, large).tolist() == [1]


@pytest.mark.parametrize(
    "value",
    [
        *(-0.12241149 - 0.47941464j, 9.0875116e-13 + 2.5268558e-15j, -0.9999997 + 9.975714e-07j),
        *(3 - 4j, 1e30 + 1e-30j, 1e-30 - 1e-30j, -2 + 0j, complex(-2, -0.0), complex(0.5, -0.0)),
    ],
)
def test_log1p_of_complex_numbers_keeps_its_digits(value: complex) -> None:
    x = a([value], "complex64")
    mpmath = required("mpmath")
    with mpmath.workprec(300):
        exact = complex(x[0])
        wanted = complex(mpmath.log1p(mpmath.mpc(exact)))
    if math.copysign(1.0, exact.imag) < 0 and exact.imag == 0:  # mpmath has no -0
        wanted = wanted.conjugate()
    made = complex(xp.log1p(x)[0])
    assert made == pytest.approx(wanted, rel=3e-7)
    assert math.copysign(1.0, made.imag) == math.copysign(1.0, wanted.imag)
    assert ran(xp.log1p, x) == {"mlx"}


def test_log1p_of_special_complex_numbers() -> None:
    for value, wanted in (
        (complex(-1, 0), complex(-inf, 0)),
        (complex(0, inf), complex(inf, math.pi / 2)),
        (complex(-inf, 1), complex(inf, math.pi)),
        (complex(inf, -1), complex(inf, -0.0)),
        (complex(inf, nan), complex(inf, nan)),
        (complex(nan, 1), complex(nan, nan)),
    ):
        made = np.asarray(xp.log1p(a([value], "complex64")))
        np.testing.assert_allclose(made.real, wanted.real, rtol=0)
        np.testing.assert_allclose(made.imag, wanted.imag, rtol=3e-7)


def test_integer_division_raises_and_never_ends_the_process() -> None:
    least = a([-(2**31)], "int32")
    minus, zero = a([-1], "int32"), a([0], "int32")
    assert (least // minus).shape == (1,)  # a trap of the processor, in MLX
    assert (least % minus).tolist() == [0]
    for op in (operator.floordiv, operator.mod):
        with pytest.raises(ZeroDivisionError):
            op(least, zero)
    with pytest.raises(ValueError, match="pow"):
        a([2]) ** a([-1])


def test_clip_without_bounds_is_a_new_array() -> None:
    x = a([1.0, nan])
    y = xp.clip(x)
    y[0] = 9.0
    assert x.tolist()[0] == 1.0
    assert xp.clip(a([-1, 5, 9]), 0, 6).tolist() == [0, 5, 6]


def test_manipulation() -> None:
    x = xp.reshape(xp.arange(24), (2, 3, 4))
    values = np.arange(24).reshape(2, 3, 4)
    for source, destination in (((0, 1), (2, 0)), ((2,), (0,)), (0, -1), ((), ())):
        made = xp.moveaxis(x, source, destination)
        assert made.tolist() == np.moveaxis(values, source, destination).tolist()
    assert xp.permute_dims(x, (2, 0, 1)).tolist() == values.transpose(2, 0, 1).tolist()
    counts = a([2, 0, 1])
    assert xp.repeat(x, counts, axis=1).tolist() == np.repeat(values, [2, 0, 1], axis=1).tolist()
    assert xp.repeat(a([[1, 2], [3, 4]]), a([0, 1, 2, 0])).tolist() == [2, 3, 3]
    assert xp.repeat(a([1, 2]), 2).tolist() == [1, 1, 2, 2]
    rolled = xp.roll(x, (1, -1), axis=(0, 2))
    assert rolled.tolist() == np.roll(values, (1, -1), axis=(0, 2)).tolist()
    for shift, axis in ((-5, None), (3, (0, 1)), (5, 1), (-(2**60), 1), (2**60, None)):
        rolled = xp.roll(x, shift, axis=axis)
        assert rolled.tolist() == np.roll(values, shift, axis=axis).tolist()
    assert xp.roll(x[:0, ...], (2, 1), axis=(0, 1)).shape == (0, 3, 4)


def test_indices_and_counts_are_int64() -> None:
    x = a([[3.0, 1.0], [2.0, 5.0]])
    for made, wanted in (
        (xp.argmax(x), 3),
        (xp.argmin(x, axis=0), [1, 0]),
        (xp.count_nonzero(x), 4),
        (xp.argsort(x), [[1, 0], [0, 1]]),
    ):
        assert made.dtype is xp.int64
        assert made.tolist() == wanted
    assert xp.argmax(xp.asarray(1.0), keepdims=True).shape == ()


def test_counts_may_need_more_than_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 8 bits for 32, for so many elements take seconds."""
    plain = mx.count_nonzero
    monkeypatch.setattr(functions, "_MANY", 2**7)
    monkeypatch.setattr(mx, "count_nonzero", lambda x, **how: plain(x, **how).astype(mx.int8))
    values = np.ones((2, 100, 2), bool)
    x = a(values)
    assert xp.count_nonzero(x) == 400
    for axis in (0, 1, (0, 1), (2, 1), ()):
        for keep in (False, True):
            made = xp.count_nonzero(x, axis=axis, keepdims=keep)
            assert made.dtype is xp.int64
            assert made.tolist() == np.count_nonzero(values, axis=axis, keepdims=keep).tolist()


def test_sorting_keeps_the_order_of_equal_elements() -> None:
    values = np.random.default_rng(1).integers(0, 5, 200)
    x = a(values)
    for descending in (False, True):
        order = xp.argsort(x, descending=descending, stable=True)
        key = -values if descending else values
        assert order.tolist() == np.argsort(key, kind="stable").tolist()
        assert xp.sort(x, descending=descending).tolist() == values[order.tolist()].tolist()


@pytest.mark.parametrize(("name", "wanted"), [("int8", "int64"), ("uint8", "uint64")])
def test_small_integers_accumulate_in_64_bits(name: str, wanted: str) -> None:
    x = a([100, 100, 3], name)
    for made, value in (
        (xp.sum(x), 203),
        (xp.prod(x), 30000),
        (xp.cumulative_sum(x, include_initial=True), [0, 100, 200, 203]),
        (xp.cumulative_prod(x), [100, 10000, 30000]),
    ):
        assert made.dtype is DTYPES[wanted]
        assert made.tolist() == value
    narrow = xp.sum(x, dtype=DTYPES[name])
    assert (narrow.dtype.name, int(narrow)) == (name, 203 if name == "uint8" else 203 - 256)


@pytest.mark.parametrize("name", ["all", "any", "sum", "prod", "count_nonzero"])
def test_reductions_of_empty_arrays_end(name: str) -> None:
    # In a process of its own, for in MLX alone they never do.
    code = (
        f"import corepy.array_api as xp, numpy as np; x = xp.zeros((0, 3), dtype=xp.int8).T\n"
        f"for axis in (None, 0, 1, (0, 1)): assert (np.asarray(xp.{name}(x, axis=axis))"
        f" == np.{name}(np.zeros((3, 0)), axis=axis)).all()\n"
        f"y = xp.zeros((2, 0, 0, 3), dtype=xp.int8)[::-1]; assert xp.{name}(y).shape == ()"
    )
    environment = {**os.environ, "COREPY_BACKEND_PRIORITY": "mlx"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


def test_sums_of_floats_are_not_naive() -> None:
    x = xp.full((10**6,), 0.1, dtype=xp.float32)
    assert float(xp.sum(x)) == pytest.approx(1e5, rel=1e-5)
    assert float(xp.vecdot(x, xp.ones(10**6, dtype=xp.float32))) == pytest.approx(1e5, rel=1e-3)


def test_products_of_matrices_are_not_naive() -> None:
    x = xp.full((1, 10**6), 0.1, dtype=xp.float32)
    for made in (xp.matmul(x, x.T), xp.tensordot(x, x, axes=((1,), (1,)))):
        assert float(made[0, 0]) == pytest.approx(1e4, rel=2e-4)


def test_products() -> None:
    x, y = a([[1.0, 2.0], [3.0, 4.0]]), a([5.0, 6.0])
    assert xp.tensordot(x, y, axes=1).tolist() == [17.0, 39.0]
    assert xp.tensordot(x, x, axes=((0,), (1,))).tolist() == [[7.0, 15.0], [10.0, 22.0]]
    assert xp.matmul(a([[1, 2]]), a([[3], [4]])).tolist() == [[11]]
    assert xp.linalg.diagonal(xp.reshape(xp.arange(12), (2, 2, 3)), offset=1).tolist() == [
        [1, 5],
        [7, 11],
    ]


def test_fft_keeps_double_precision() -> None:
    values = np.random.default_rng(2).normal(size=30)
    made = np.asarray(xp.fft.rfft(a(values)))
    np.testing.assert_allclose(made, np.fft.rfft(values), rtol=0, atol=1e-13)
    single = xp.fft.rfft(a(values, "float32"))
    assert single.dtype is xp.complex64
    np.testing.assert_allclose(np.asarray(single), np.fft.rfft(values), rtol=0, atol=1e-5)


def test_transforms_along_no_axes() -> None:
    x = a(2 + 1j, "complex64")
    for function in (xp.fft.fftn, xp.fft.ifftn, xp.fft.fftshift):
        made = function(x)
        assert (made.shape, complex(made)) == ((), 2 + 1j)
    y = a([1, 2], "complex64")
    assert xp.fft.fftn(y, axes=()).tolist() == [1, 2]
