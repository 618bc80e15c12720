"""The reference transforms against NumPy's, against mpmath's, and in cases that round exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corepy import _dtypes
from corepy.backends.reference import ReferenceArray
from tests.backends.reference.matrices import to_numpy
from tests.backends.reference.values import from_numpy
from tests.conftest import required

mpmath = required("mpmath")

from corepy.backends.reference import fft as reference  # noqa: E402  it imports mpmath

ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL_AXES = ("fftn", "ifftn", "rfftn", "irfftn")
REAL_INPUT = ("rfft", "ihfft", "rfftn")
REAL_OUTPUT = ("irfft", "hfft", "irfftn")
NORMS = ("backward", "ortho", "forward")


def sample(name, shape, dtype="complex128", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if name not in REAL_INPUT:
        x = x + 1j * rng.normal(size=shape)
    return x.astype(_real_name(dtype) if name in REAL_INPUT else dtype)


def _real_name(dtype):
    return {"complex128": "float64", "complex64": "float32"}[dtype]


def assert_close(actual, expected, ulps=8.0):
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    size = np.max(np.abs(expected), initial=0.0)
    tolerance = ulps * np.finfo(actual.dtype).eps * size
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


# ------------------------------------------------------------------ against NumPy


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize("n", [None, 1, 2, 5, 8, 13])
def test_one_axis_as_numpy(name, n, norm):
    x = sample(name, (3, 7, 2))
    for axis in (1, -3):
        ours = getattr(reference, name)(from_numpy(x), n=n, axis=axis, norm=norm)
        theirs = getattr(np.fft, name)(x, n=n, axis=axis, norm=norm)
        assert_close(to_numpy(ours), theirs)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", SEVERAL_AXES)
@pytest.mark.parametrize(
    ("s", "axes"),
    [
        (None, None),
        (None, (1,)),
        (None, (2, 0)),
        (None, (-1, -3, -2)),
        ((6,), (1,)),
        ((2, 7), (0, 2)),
        ((5, 3, 1), (2, 1, 0)),
    ],
)
def test_several_axes_as_numpy(name, s, axes, norm):
    x = sample(name, (3, 4, 5))
    ours = getattr(reference, name)(from_numpy(x), s=s, axes=axes, norm=norm)
    theirs = getattr(np.fft, name)(x, s=s, axes=axes, norm=norm)
    assert_close(to_numpy(ours), theirs, ulps=16.0)


@pytest.mark.parametrize("name", ONE_AXIS + SEVERAL_AXES)
def test_single_precision_is_the_rounded_double(name):
    x = sample(name, (4, 6), "complex64")
    wide = x.astype("float64" if name in REAL_INPUT else "complex128")
    ours = getattr(reference, name)(from_numpy(x))
    double = to_numpy(getattr(reference, name)(from_numpy(wide)))
    assert ours.dtype is (_dtypes.float32 if name in REAL_OUTPUT else _dtypes.complex64)
    np.testing.assert_array_equal(to_numpy(ours), double.astype(ours.dtype.name))


def test_real_input_where_the_standard_wants_complex():
    x = sample("rfft", (6,))
    for name in ("fft", "ifft", "irfft", "hfft"):
        ours = getattr(reference, name)(from_numpy(x))
        assert ours == getattr(reference, name)(from_numpy(x.astype(complex)))


def test_minus_one_in_s_means_the_size_of_the_axis():
    x = from_numpy(sample("fftn", (3, 4)))
    assert reference.fftn(x, s=(-1, 6), axes=(0, 1)) == reference.fftn(x, s=(3, 6), axes=(0, 1))
    assert reference.irfftn(x, s=(-1, -1), axes=(0, 1)) == reference.irfftn(x)
    assert reference.irfftn(x).shape == (3, 6)


def test_a_line_of_256_points():
    x = sample("fft", (256,))
    assert_close(to_numpy(reference.fft(from_numpy(x))), np.fft.fft(x))


# ------------------------------------------------------------------ correct rounding


def exact_transform(x, sign):
    """Sum the definition with 80 digits and round each component once."""
    n = len(x)
    with mpmath.workdps(80):
        sums = [
            mpmath.fsum(x[j] * mpmath.expjpi(mpmath.mpf(2 * sign * j * k) / n) for j in range(n))
            for k in range(n)
        ]
        return [complex(z) for z in sums]


@pytest.mark.parametrize("n", [3, 7, 12, 31])
def test_each_output_is_the_nearest_double(n):
    x = sample("fft", (n,), seed=n) * 10.0 ** np.linspace(-12, 12, n)
    assert reference.fft(from_numpy(x)).values == exact_transform(x.tolist(), -1)
    inverse = reference.ifft(from_numpy(x), norm="forward")
    assert inverse.values == exact_transform(x.tolist(), 1)


def test_two_axes_round_once():
    x = sample("fftn", (3, 5), seed=4)
    with mpmath.workdps(60):
        expected = [
            complex(
                mpmath.fsum(
                    complex(x[a, b])
                    * mpmath.expjpi(-2 * (mpmath.mpf(a * k) / 3 + mpmath.mpf(b * m) / 5))
                    for a in range(3)
                    for b in range(5)
                )
            )
            for k in range(3)
            for m in range(5)
        ]
    assert reference.fftn(from_numpy(x)).values == expected


@pytest.mark.parametrize("n", [2, 3, 7, 12, 100])
def test_a_constant_leaves_exact_zeros(n):
    x = from_numpy(np.full(n, 0.1 + 0.3j))
    first, *rest = reference.fft(x).values
    assert first == complex(float(n * mpmath.mpf(0.1)), float(n * mpmath.mpf(0.3)))
    assert rest == [0j] * (n - 1)


def test_a_pure_wave_has_two_lines():
    wave = from_numpy(np.array([1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0]))
    assert reference.rfft(wave).values == [0j, 0j, 4 + 0j, 0j, 0j]
    assert reference.rfft(wave, norm="forward").values == [0j, 0j, 0.5 + 0j, 0j, 0j]
    root = math.sqrt(2)  # 4 divided by the root of 8
    assert reference.rfft(wave, norm="ortho").values == [0j, 0j, root + 0j, 0j, 0j]


def test_cancellation_loses_nothing():
    x = from_numpy(np.array([1e60, 1.0, -1e60, 2.0]).astype(complex))
    assert reference.fft(x).values[0] == 3 + 0j
    assert reference.fft(x).values[2] == -3 + 0j


def test_the_ends_of_the_range():
    tiny = from_numpy(np.array([5e-324, 5e-324]))
    assert reference.rfft(tiny).values == [1e-323 + 0j, 0j]
    assert reference.rfft(tiny, norm="forward").values == [5e-324 + 0j, 0j]
    huge = from_numpy(np.array([1.5e308, 1.5e308]))
    assert reference.rfft(huge).values == [complex(math.inf, 0), 0j]
    assert reference.rfft(huge, norm="forward").values == [1.5e308 + 0j, 0j]
    both = from_numpy(np.array([1e308, 5e-324]))
    assert reference.rfft(both).values == [1e308 + 0j, 1e308 + 0j]
    single = from_numpy(np.array([3e38, 3e38], dtype=np.float32))
    assert reference.rfft(single).values == [complex(math.inf, 0), 0j]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_round_trips_are_exact_to_the_last_bits(n):
    x = sample("fft", (n,), seed=9)
    back = reference.ifft(reference.fft(from_numpy(x)))
    assert_close(to_numpy(back), x, ulps=2.0)
    real = reference.irfft(reference.rfft(from_numpy(x.real)), n=n)
    assert_close(to_numpy(real), x.real, ulps=2.0)
    hermitian = reference.hfft(reference.ihfft(from_numpy(x.real)), n=n)
    assert_close(to_numpy(hermitian), x.real, ulps=2.0)


def test_real_output_ignores_what_symmetry_forbids():
    x = np.array([1 + 5j, 2 - 1j, 3 + 7j])
    clean = np.array([1, 2 - 1j, 3])
    assert reference.irfft(from_numpy(x)) == reference.irfft(from_numpy(clean))
    assert reference.irfft(from_numpy(x), n=5) != reference.irfft(from_numpy(clean), n=5)


# ------------------------------------------------------------------ edges


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_only_the_line_of_a_special_value_becomes_nan(bad):
    x = np.arange(6.0).reshape(2, 3)
    x[0, 1] = bad
    spoiled = to_numpy(reference.rfft(from_numpy(x)))
    assert np.isnan(spoiled[0].real).all()
    assert np.isnan(spoiled[0].imag).all()
    assert_close(spoiled[1], np.fft.rfft(x[1]))
    assert np.isnan(to_numpy(reference.irfft(from_numpy(x)))[0]).all()


def test_empty_batches():
    x = from_numpy(np.zeros((0, 4), dtype=complex))
    assert reference.fft(x) == ReferenceArray([], (0, 4), _dtypes.complex128)
    assert reference.irfftn(x, axes=(1,)) == ReferenceArray([], (0, 6), _dtypes.float64)


def test_no_axes_change_nothing():
    x = from_numpy(sample("fftn", (2, 2)))
    assert reference.fftn(x, axes=()) == x
    point = ReferenceArray([2 - 1j], (), _dtypes.complex128)
    assert reference.ifftn(point) == point


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: reference.fft(x, n=0), ValueError, r"fft: n is 0; expected at least 1 point"),
        (lambda x: reference.fft(x, n=1.5), TypeError, r"fft: n is of type float"),
        (lambda x: reference.fft(x, axis=2), IndexError, r"fft: axis is 2"),
        (lambda x: reference.fft(x, norm="none"), ValueError, r"fft: norm is 'none'"),
        (lambda x: reference.fftn(x, s=(2, 2)), ValueError, r"fftn: axes is None"),
        (lambda x: reference.fftn(x, s=(2,), axes=(0, 1)), ValueError, r"fftn: s is \(2,\)"),
        (lambda x: reference.fftn(x, axes=(0, 0)), ValueError, r"fftn: axes is \(0, 0\)"),
        (lambda x: reference.irfftn(x, axes=()), ValueError, r"irfftn: axes is \(\)"),
        (reference.rfft, TypeError, r"rfft: x has dtype complex128 on cpu"),
        (lambda x: reference.fftshift(x, axes=3), IndexError, r"fftshift: axes is 3"),
        (lambda x: reference.fftfreq(0), ValueError, r"fftfreq: n is 0"),
        (lambda x: reference.fftfreq(4, d=0.0), ValueError, r"fftfreq: d is 0.0"),
        (
            lambda x: reference.rfftfreq(4, dtype=_dtypes.int64),
            TypeError,
            r"rfftfreq: dtype is int64",
        ),
    ],
)
def test_messages(call, error, message):
    x = from_numpy(sample("fft", (2, 3)))
    with pytest.raises(error, match=message):
        call(x)


def test_a_single_point_has_no_default_inverse():
    x = from_numpy(np.ones((2, 1), dtype=complex))
    with pytest.raises(ValueError, match="irfft: n is 0"):
        reference.irfft(x)
    assert reference.irfft(x, n=1).values == [1.0, 1.0]


def test_integers_are_refused():
    with pytest.raises(TypeError, match="fft: x has dtype int64"):
        reference.fft(from_numpy(np.arange(3)))


# ------------------------------------------------------------------ frequencies and shifts


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("d", [1.0, 0.1, -2.0, 3])
def test_frequencies(n, d):
    for name in ("fftfreq", "rfftfreq"):
        ours = getattr(reference, name)(n, d=d)
        assert ours.dtype is _dtypes.float64
        assert_close(to_numpy(ours), getattr(np.fft, name)(n, d=d), ulps=1.0)


def test_frequencies_round_once():
    # 1 / (3 * 0.1): the product of the exact value of 0.1 with 3 lies above 0.3.
    assert reference.fftfreq(3, d=0.1).values[1] == float(1 / (3 * mpmath.mpf(0.1)))
    narrow = reference.fftfreq(5, d=0.7, dtype=_dtypes.float32)
    assert narrow.dtype is _dtypes.float32
    np.testing.assert_array_equal(to_numpy(narrow), np.fft.fftfreq(5, 0.7).astype(np.float32))


@pytest.mark.parametrize("shape", [(5,), (4,), (3, 4), (2, 3, 5), (0, 3)])
def test_shifts(shape):
    x = np.arange(math.prod(shape)).reshape(shape)
    choices = [None, *range(-len(shape), len(shape)), tuple(range(len(shape)))]
    for axes in choices:
        for name in ("fftshift", "ifftshift"):
            ours = getattr(reference, name)(from_numpy(x), axes=axes)
            np.testing.assert_array_equal(to_numpy(ours), getattr(np.fft, name)(x, axes=axes))


def test_shifting_a_scalar_changes_nothing():
    point = ReferenceArray([3], (), _dtypes.int64)
    assert reference.fftshift(point) == point
    assert reference.ifftshift(point, axes=()) == point
