"""The link to mpmath: exact numbers in, correctly rounded ones out, and a clear word without it."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from corepy import _dtypes
from tests.conftest import required

mpmath = required("mpmath")

from corepy.backends.reference import _mpmath  # noqa: E402  it imports mpmath


@pytest.mark.parametrize("name", ["linalg", "fft"])
def test_without_mpmath_the_extensions_say_what_to_install(name):
    # In a process of its own: modules that were imported twice would not know each other's arrays.
    code = f"import sys; sys.modules['mpmath'] = None; import corepy.backends.reference.{name}"
    command = [sys.executable, "-c", code]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: the reference backend computes linalg and fft with mpmath; "
        "install it with `pip install mpmath`"
    )


def test_contexts_leave_the_global_precision_alone():
    before = mpmath.mp.prec
    mp = _mpmath.context(1000)
    assert mp.prec == 1000
    assert mpmath.mp.prec == before


def test_exact_numbers_keep_all_bits():
    mp = _mpmath.context(60)
    number = 3**200
    assert _mpmath.ratio(_mpmath.exact(mp, number)) == (number, 0)
    assert _mpmath.ratio(_mpmath.exact(mp, -number, -7)) == (-number, -7)
    assert _mpmath.ratio(_mpmath.exact(mp, 12)) == (3, 2)


@pytest.mark.parametrize(
    ("value", "dtype", "rounded"),
    [
        (mpmath.mpf(0), _dtypes.float64, 0.0),
        (mpmath.mpf("-inf"), _dtypes.float64, -math.inf),
        (mpmath.mpf(1) / 3, _dtypes.float64, 1 / 3),
        (mpmath.ldexp(1, -1074), _dtypes.float64, 5e-324),
        (mpmath.ldexp(1, -1076), _dtypes.float64, 0.0),
        (mpmath.ldexp(-1, 1024), _dtypes.float64, -math.inf),
        (mpmath.ldexp(1, 10**12), _dtypes.float64, math.inf),
        (mpmath.ldexp(-1, -(10**12)), _dtypes.float64, 0.0),
        (mpmath.mpf(1) + mpmath.ldexp(1, -24), _dtypes.float32, 1.0),
        (mpmath.mpf(1) + mpmath.ldexp(3, -25), _dtypes.float32, 1.0 + 2.0**-23),
        (mpmath.ldexp(1, 128), _dtypes.float32, math.inf),
    ],
)
def test_round_real(value, dtype, rounded):
    assert _mpmath.round_real(value, dtype) == rounded


def test_round_real_of_nan():
    assert math.isnan(_mpmath.round_real(mpmath.mpf("nan"), _dtypes.float64))
