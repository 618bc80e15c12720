"""Rotary embeddings and their tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from corepy import kernels
from tests.kernels import libraries
from tests.kernels.libraries import Kind, check, dtype_of, host, sample

LAYOUTS = ["half", "interleaved"]
SHAPES = [(1, 2), (7, 6), (3, 5, 2), (2, 3, 7, 64)]


def tables(kind: Kind, length: int, size: int, dtype: str = "float32") -> tuple[Any, Any]:
    angles = np.arange(length)[:, None] / 100.0 ** (np.arange(0, size, 2) / size)
    return kind.array(np.cos(angles), dtype), kind.array(np.sin(angles), dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rope(kind: Kind, layout: Any) -> None:
    for dtype in kind.dtypes:
        wide = "float64" if dtype == "float64" else "float32"
        for shape in kind.some(SHAPES, dtype, slice(2, 3)):
            x = kind.array(sample(*shape), dtype)
            c, s = tables(kind, 9, shape[-1], wide)
            places = np.arange(shape[-2])
            expected = libraries.rope(host(x), host(c), host(s), places, layout != "half")
            check(x, kernels.rope(x, c, s, layout=layout), expected[0], dtype, expected[1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(5,), (2, 1, 5), (1, 1, 1), (2, 3, 5), (3, 1), (1,), ()])
def test_positions(kind: Kind, layout: Any, shape: tuple[int, ...]) -> None:
    places = np.random.default_rng(0).integers(0, 11, shape)
    x = kind.array(sample(2, 3, 5, 8), "float32")
    c, s = tables(kind, 11, 8)
    expected = libraries.rope(host(x), host(c), host(s), places, layout != "half")
    for dtype in ("int32", "int64")[: 1 + (not kind.slow)]:
        p = kind.array(places.astype(dtype))
        out = kernels.rope(x, c, s, layout=layout, positions=p)
        check(x, out, expected[0], "float32", expected[1])


def test_tables_of_other_dtypes(kind: Kind) -> None:
    for dtype in kind.dtypes:
        for other in kind.dtypes:
            if kind.library in libraries.DEVICES and "float32" not in (dtype, other):
                continue  # each pair is a build
            for size in (6, 32)[: 1 if kind.slow else 2]:
                x = kind.array(sample(4, size), dtype)
                c, s = tables(kind, 4, size, other)
                expected, terms = libraries.rope(host(x), host(c), host(s), np.arange(4), False)
                bound = "float32" if dtype == "float64" and other != "float64" else dtype
                got = kernels.rope(x, c, s)
                assert dtype_of(got) == dtype
                assert (np.abs(host(got) - expected) <= libraries.BOUNDS[bound] * terms).all()


def test_turning_keeps_lengths_and_relative_positions(kind: Kind) -> None:
    c, s = kernels.rope_tables(32, 16, like=kind.array([0.0], "float64"))
    q, k = (kind.array(np.tile(sample(16, seed=i), (32, 1)), "float64") for i in range(2))
    a, b = (host(kernels.rope(v, c, s)) for v in (q, k))
    np.testing.assert_allclose((a * a).sum(-1), (host(q) ** 2).sum(-1), rtol=1e-12)
    scores = a @ b.T  # depend on the distance of two positions alone
    np.testing.assert_allclose(scores[5:, 5:], scores[:-5, :-5], rtol=1e-9, atol=1e-9)


def test_special_values_stay_in_their_pair(kind: Kind) -> None:
    values = np.ones((2, 4))
    values[1, 2] = np.nan
    values[0, 1] = np.inf
    c, s = tables(kind, 2, 4)
    out = host(kernels.rope(kind.array(values, "float32"), c, s))
    assert np.isfinite(out[:, [0, 2]][0]).all()
    assert np.isnan(out[1, [0, 2]]).all()
    assert np.isfinite(out[1, [1, 3]]).all()


def test_no_elements(kind: Kind) -> None:
    c, s = tables(kind, 3, 4)
    for shape in ((0, 4), (0, 3, 4), (2, 0, 4)):
        x = kind.array(np.zeros(shape), "float32")
        assert kernels.rope(x, c, s).shape == shape


# ---------------------------------------------------------------------------- tables


def test_tables_are_the_papers() -> None:
    cos, sin = kernels.rope_tables(50, 8, base=500.0)
    assert (cos.dtype, cos.shape, sin.shape) == (np.float32, (50, 4), (50, 4))
    for position in (0, 1, 17, 49):
        for pair in range(4):
            angle = position / 500.0 ** (2 * pair / 8)
            assert cos[position, pair] == np.float32(math.cos(angle))
            assert sin[position, pair] == pytest.approx(math.sin(angle), rel=1e-7)


def test_tables_like_an_array(kind: Kind) -> None:
    for dtype in kind.dtypes:
        x = kind.array(sample(2, 8), dtype)
        cos, sin = kernels.rope_tables(2, 8, like=x)
        assert type(cos) is type(sin) is type(x)
        assert dtype_of(cos) == ("float64" if dtype == "float64" else "float32")
        np.testing.assert_allclose(host(cos)[1], np.cos(10000.0 ** -(np.arange(4) / 4)), rtol=1e-6)


def angles(**scaling: Any) -> Any:
    cos, sin = kernels.rope_tables(2, 16, like=np.zeros(1), **scaling)
    return np.arctan2(sin[1], cos[1])


def test_scalings() -> None:
    plain = 10000.0 ** -(np.arange(8) / 8)
    np.testing.assert_allclose(angles(), plain, rtol=1e-12)
    np.testing.assert_allclose(angles(scaling="linear", factor=4.0), plain / 4, rtol=1e-12)
    ntk = angles(scaling="ntk", factor=4.0)
    np.testing.assert_allclose(ntk[[0, -1]], [plain[0], plain[-1] / 4], rtol=1e-12)
    assert (np.diff(ntk / plain) < 0).all()
    assert angles(scaling="ntk", factor=1e300)[1:].tolist() == [0.0] * 7


def test_yarn() -> None:
    # Written out from equations 14 to 18 of the paper for these numbers.
    trained, factor, size = 2048, 8.0, 16
    plain = 10000.0 ** -(np.arange(size // 2) / (size / 2))
    turns = [size * math.log(trained / (n * 2 * math.pi)) / (2 * math.log(1e4)) for n in (32, 1)]
    low, high = math.floor(turns[0]), math.ceil(turns[1])
    assert (low, high) == (2, 6)
    ramp = np.array([0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0])
    expected = plain / factor * ramp + plain * (1.0 - ramp)
    given: dict[str, Any] = {"scaling": "yarn", "factor": factor, "original_length": trained}
    np.testing.assert_allclose(angles(**given), expected, rtol=1e-12)
    for more, gain in (({}, 0.1 * math.log(factor) + 1.0), ({"attention_factor": 0.5}, 0.5)):
        cos, sin = kernels.rope_tables(3, size, like=np.zeros(1), **given, **more)
        np.testing.assert_allclose(np.hypot(cos, sin), gain, rtol=1e-12)


def test_scalings_far_from_any_model() -> None:
    plain = 10000.0 ** -(np.arange(1, 8) / 8)  # of all pairs but the fastest
    few: dict[str, Any] = {"factor": 4.0, "original_length": 1}
    for scaling in ("yarn", "llama3"):
        none_turns = angles(scaling=scaling, beta_slow=1.0, beta_fast=1e308, **few)
        np.testing.assert_allclose(none_turns[1:], plain / 4, rtol=1e-12)
        all_turn = angles(scaling=scaling, beta_slow=5e-324, beta_fast=1e-323, **few)
        np.testing.assert_allclose(all_turn[1:], plain, rtol=1e-12)
    many: dict[str, Any] = {"factor": 4.0, "original_length": 10**300, "base": 1.0 + 2.0**-52}
    np.testing.assert_allclose(angles(scaling="yarn", **many), 1.0, rtol=1e-12)


def test_llama3() -> None:
    # Written out from the published reference code, apply_scaling, for these numbers.
    trained, factor, low, high = 64, 8.0, 1.0, 4.0
    plain = 10000.0 ** -(np.arange(8) / 8)
    expected = []
    for speed in plain:
        wavelength = 2 * math.pi / speed
        if wavelength < trained / high:
            expected.append(speed)
        elif wavelength > trained / low:
            expected.append(speed / factor)
        else:
            smooth = (trained / wavelength - low) / (high - low)
            expected.append((1 - smooth) * speed / factor + smooth * speed)
    given: dict[str, Any] = {"scaling": "llama3", "factor": factor, "original_length": trained}
    found = angles(**given)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    kept = found / plain
    assert (kept[0], kept[-1]) == pytest.approx((1.0, 1 / factor))
    assert ((kept > 1.001 / factor) & (kept < 0.999)).any()  # something lies in between
    cos, sin = kernels.rope_tables(3, 16, **given)
    np.testing.assert_allclose(np.hypot(cos, sin), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (
            {"length": -1},
            ValueError,
            "rope_tables: length is -1; expected an integer of at least 0",
        ),
        ({"length": 2.5}, TypeError, "rope_tables: length is of type float; expected an integer"),
        ({"head_dim": 7}, ValueError, "rope_tables: head_dim is 7; expected an even number"),
        (
            {"head_dim": 0},
            ValueError,
            "rope_tables: head_dim is 0; expected an integer of at least",
        ),
        ({"base": 1.0}, ValueError, "rope_tables: base is 1.0; expected a number greater than 1"),
        ({"base": "x"}, TypeError, "rope_tables: base is of type str; expected a real number"),
        ({"scaling": "dynamic"}, ValueError, "scaling is 'dynamic'; expected None, 'linear'"),
        ({"factor": 2.0}, ValueError, "factor is 2.0; expected 1, or a scaling that uses it"),
        ({"factor": 0.5, "scaling": "ntk"}, ValueError, "expected a finite number of at least 1"),
        ({"original_length": 9}, ValueError, 'original_length is 9; expected None, or scaling="ya'),
        ({"attention_factor": 1.0}, ValueError, "attention_factor is 1.0; expected None, or"),
        ({"beta_fast": 8.0}, ValueError, 'beta_fast is 8.0; expected None, or scaling="yarn" or'),
        ({"beta_slow": 2.0}, ValueError, "beta_slow is 2.0; expected 1, or a scaling that uses it"),
        ({"beta_slow": "2"}, TypeError, "beta_slow is of type str; expected a real number"),
        ({"scaling": np.ones(2)}, ValueError, "scaling is array([1., 1.]); expected None, 'linear"),
        ({"scaling": "yarn"}, ValueError, "original_length is None; expected an integer, which"),
        ({"scaling": "llama3"}, ValueError, "original_length is None; expected an integer, which"),
        (
            {"scaling": "llama3", "original_length": 8, "attention_factor": 1.0},
            ValueError,
            'attention_factor is 1.0; expected None, or scaling="yarn"',
        ),
        (
            {"scaling": "llama3", "original_length": 8, "beta_slow": 4.0},
            ValueError,
            "beta_slow is 4.0; expected more than 0 and less than beta_fast",
        ),
        ({"scaling": "ntk", "head_dim": 2}, ValueError, "head_dim is 2; expected more than 2"),
        *(
            (
                {"scaling": scaling, "original_length": 10**400},
                ValueError,
                "rope_tables: original_length is inf; expected a finite number",
            )
            for scaling in ("yarn", "llama3")
        ),
        (
            {"scaling": "yarn", "original_length": 8, "attention_factor": -1e300},
            ValueError,
            "rope_tables: attention_factor is -1e+300; expected a number that float32 holds",
        ),
        (
            {"scaling": "yarn", "original_length": 8, "beta_slow": 40.0},
            ValueError,
            "beta_slow is 40.0; expected more than 0 and less than beta_fast",
        ),
        ({"length": 2**62}, MemoryError, "rope_tables: its tables have "),
        ({"like": [1.0]}, TypeError, "rope_tables: like is of type list; expected an array"),
        ({"like": np.zeros(1, int)}, TypeError, "rope_tables: like has dtype int64 on cpu; expec"),
    ],
)
def test_bad_tables(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        kernels.rope_tables(**({"length": 4, "head_dim": 8} | given))
    assert words in str(caught.value)


@pytest.mark.backend("numba")
@pytest.mark.parametrize("interleaved", [False, True])
def test_rows_from_any_on_take_their_own_angles(interleaved: bool) -> None:
    from corepy.kernels.rotary.numba import _rope_rows

    x, angles, places = sample(8, 4), sample(5, 2), np.asarray([4, 0, 2])
    whole, parts = np.empty_like(x), np.empty_like(x)
    for out, runs in ((whole, [(0, 8)]), (parts, [(0, 4), (4, 8)])):
        for start, stop in runs:
            _rope_rows(
                x, np.cos(angles), np.sin(angles), places, interleaved, False, out, start, stop
            )
    assert np.array_equal(parts, whole)
