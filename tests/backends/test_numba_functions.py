"""The Numba backend's elementary functions: distances from the right results, special values."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.conftest import required

required("numba")
mpmath = required("mpmath")

from corepy.backends.numba import _circles, _elementwise, _exponentials, _numpys_loops  # noqa: E402 (they import numba)
from corepy.backends.numba._compiled import BLOCK  # noqa: E402
from tests.backends.arrays import numpys  # noqa: E402
from tests.backends.numbas import (  # noqa: E402
    FLOATS,
    Array,
    assert_same,
    layouts,
    quiet,
    run,
    sample,
    specials,
)

Function = Callable[..., Any]

#: Functions of one number, and where they change their ways or end.
EDGES: Final[dict[str, tuple[Function, list[float]]]] = {
    "acos": (mpmath.acos, [0.70710678, -0.70710678, 0.44721359, 0.89442719, 0.999, 1, -1]),
    "asin": (mpmath.asin, [0.70710678, -0.70710678, 0.44721359, 0.89442719, 0.999, 1, -1]),
    "atan": (mpmath.atan, [0.5, 1, 2, -2, 1e8, 1e22]),
    "cos": (mpmath.cos, [1.5707963, 3.1415927, 1e6, 9.9e5, 1e22]),
    "cosh": (mpmath.cosh, [0.3465736, 0.549306, 18, 36.7, 86.9, 699.9]),
    "exp": (mpmath.exp, [88.722839, 709.782712893384, -87.33655, -103.97, -708.4, -745.13]),
    "expm1": (mpmath.expm1, [88.722839, 709.782712893384, -17.3, -36.9, 0.3465736, -0.3465736]),
    "log": (mpmath.log, [0.70710678, 1.41421356]),
    "log10": (mpmath.log10, [0.70710678, 1.41421356, 1000]),
    "log1p": (mpmath.log1p, [-0.29289322, 0.41421356, -1, -0.99999994]),
    "log2": (lambda x: mpmath.log(x) / mpmath.log(2), [0.70710678, 1.41421356, 1024]),
    "sin": (mpmath.sin, [1.5707963, 3.1415927, 1e6, 9.9e5, 1e22]),
    "sinh": (mpmath.sinh, [0.3465736, 0.549306, 18, 36.7, 86.9, 699.9]),
    "tan": (mpmath.tan, [0.7853982, 1.5707963, 2.3561945, 1e6, 9.9e5, 1e22]),
    "tanh": (mpmath.tanh, [9.01, 19.06, 0.17328680, 0.549306]),
}
#: Numbers across each function's ordinary domain.
SPANS: Final[dict[str, tuple[float, float]]] = {
    "acos": (-1, 1),
    "asin": (-1, 1),
    "atan": (-10, 10),
    "cos": (-1e6, 1e6),
    "cosh": (-87, 87),
    "exp": (-745, 710),
    "expm1": (-40, 710),
    "log1p": (-1, 3),
    "sin": (-1e6, 1e6),
    "sinh": (-87, 87),
    "tan": (-1e6, 1e6),
    "tanh": (-20, 20),
}


def distance(found: Array, exact: list[Any]) -> float:
    """Return the greatest distance from exact results, in units in the last place of these."""
    worst = 0.0
    least = float(np.finfo(found.dtype).smallest_subnormal)
    for value, right in zip(found.tolist(), exact, strict=True):
        with np.errstate(over="ignore"):
            rounded = found.dtype.type(right)
        if not np.isfinite(rounded):
            assert value == rounded or abs(right) < 1.001 * float(np.finfo(found.dtype).max)
            continue
        unit = max(float(np.spacing(abs(rounded))), least)
        worst = max(worst, float(abs(mpmath.mpf(value) - right) / mpmath.mpf(unit)))
    return worst


def numbers(name: str, dtype: str) -> Array:
    """Make numbers of all sizes, close to the edges, and across the ordinary domain."""
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**64, 600, dtype=np.uint64)
    bits = words if dtype == "float64" else (words >> np.uint64(32)).astype(np.uint32)
    edges = np.array(EDGES[name][1], dtype)
    near = [edges]
    for _ in range(3):
        near += [np.nextafter(near[-1], dtype_of(dtype)(np.inf))]
    low, high = SPANS.get(name, (0.1, 3.0))
    ordinary = [rng.uniform(low, high, 400), rng.uniform(-1, 1, 200), rng.uniform(0.3, 1.5, 200)]
    if name in ("cos", "sin", "tan"):  # where most digits cancel
        ordinary.append(rng.integers(-600_000, 600_000, 400) * (np.pi / 2))
    return np.concatenate([bits.view(dtype), *near, np.concatenate(ordinary).astype(dtype)])


def dtype_of(name: str) -> Any:
    return np.dtype(name).type


loops = _elementwise.loops
LOOPS: Final = {
    "acos": loops.arc_cosines,
    "asin": loops.arc_sines,
    "atan": loops.arc_tangents,
    "atan2": loops.angles,
    "cos": loops.cosines,
    "cosh": loops.hyperbolic_cosines,
    "exp": loops.exponentials,
    "expm1": loops.growths,
    "log": loops.logarithms,
    "log10": loops.logarithms_10,
    "log1p": loops.logarithms_1p,
    "log2": loops.logarithms_2,
    "logaddexp": loops.sums_of_exponentials,
    "pow": loops.powers,
    "sin": loops.sines,
    "sinh": loops.hyperbolic_sines,
    "tan": loops.tangents,
    "tanh": loops.hyperbolic_tangents,
}
#: Up to what size loops compute, of float32 and float64.
LIMITS: Final = {
    **dict.fromkeys(("cos", "sin", "tan"), (_circles.ANGLE_32, _circles.ANGLE_64)),
    **dict.fromkeys(("cosh", "sinh"), (_exponentials.HYPERBOLIC_32, _exponentials.HYPERBOLIC_64)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EDGES)
def test_two_units_at_most(name: str, dtype: str) -> None:
    x = numbers(name, dtype)
    function, _ = EDGES[name]
    if name in LIMITS:
        x = x[np.abs(x) <= LIMITS[name][FLOATS.index(dtype)]]
        blocks = -(-x.size // BLOCK)
        out, failed = np.empty_like(x), np.ones(blocks, np.bool_)
        LOOPS[name](x, out, failed, 1, 0, blocks)
        assert not failed.any()
    else:
        out = np.empty_like(x)
        LOOPS[name](x, out, 0, -(-x.size // BLOCK))
    domain = np.isfinite(x)
    if name.startswith("log"):
        domain &= x > (-1 if name == "log1p" else 0)
    if name in ("acos", "asin"):
        domain &= np.abs(x) <= 1
    if name.startswith("exp"):
        x = np.clip(x, -2000, 2000)  # beyond, results do not change, but take long
    with mpmath.workprec(200):
        exact = [function(mpmath.mpf(value)) for value in x[domain].tolist()]
        assert distance(out[domain], exact) <= 2.0


@quiet
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [name for name in EDGES if name not in LIMITS])
def test_loops_give_special_values_as_numpy_does(name: str, dtype: str) -> None:
    # The loops themselves, for where NumPy has good ones an operation may leave them out.
    x = specials(dtype)[0].ravel()
    out = np.empty_like(x)
    LOOPS[name](x, out, 0, 1)
    expected = np.asarray(numpys(name, x))
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(out[known]), np.signbit(expected[known]))
    np.testing.assert_array_equal(np.isinf(out), np.isinf(expected))
    np.testing.assert_array_equal(out == 0, expected == 0)


@quiet
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name",
    ["acosh", "atan", "cos", "cosh", "exp", "expm1", "log", "log2", "sin", "sinh", "tan", "tanh"],
)
@pytest.mark.parametrize("shape", [(), (3000,), (40, 70)])
def test_every_layout(name: str, shape: tuple[int, ...], dtype: str, ran: Counter[str]) -> None:
    whole = abs(sample(shape, dtype)) / np.dtype(dtype).type(10)
    for x in layouts(whole) if shape else [whole]:
        found = np.asarray(run(name, x))
        expected = np.asarray(numpys(name, x))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=6 * np.finfo(dtype).eps)
    assert ran[name]


# ---------------------------------------------------------------------------- of two


OF_TWO: Final[dict[str, Function]] = {
    "atan2": mpmath.atan2,
    "hypot": lambda x, y: mpmath.sqrt(x * x + y * y),
    "logaddexp": lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
    "pow": mpmath.power,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_are_within_two_units(name: str, dtype: str, ran: Counter[str]) -> None:
    rng = np.random.default_rng(5)
    size = 1500
    x, y = rng.standard_normal((2, size)) * 10
    if name == "logaddexp":
        x, y = abs(x), abs(y)  # sums of exponentials that are not about one
    elif name == "pow":  # of all sizes, and whole numbers to whole ones
        x = np.where(rng.random(size) < 0.3, np.round(x), np.exp(x))
        y = np.where((rng.random(size) < 0.3) | (x <= 0), np.round(y), y)
        y = np.where(x == 0, abs(y), y)
    else:
        x *= 10.0 ** rng.uniform(-30, 30, size)
        y = np.where(rng.random(size) < 0.5, x * rng.uniform(-3, 3, size), y)
    x, y = x.astype(dtype), y.astype(dtype)
    found = run(name, x, y)
    with mpmath.workprec(200):
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        exact = [OF_TWO[name](mpmath.mpf(a), mpmath.mpf(b)) for a, b in pairs]
        assert distance(found, exact) <= (1.0 if name == "pow" else 2.0)
    assert ran == {name: 1}


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_up_to_the_greatest_numbers(dtype: str) -> None:
    # Where the logarithm is multiplied by much, and so are its errors.
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.uniform(0.5, 2, 800), np.exp(rng.uniform(-80, 80, 400))]).astype(dtype)
    y = (rng.uniform(-1.02, 1.02, x.size) * np.log(np.finfo(dtype).max) / np.log(x)).astype(dtype)
    found = run("pow", x, y)
    with mpmath.workprec(200):
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        exact = [mpmath.power(mpmath.mpf(a), mpmath.mpf(b)) for a, b in pairs]
        assert distance(found, exact) <= 1.0


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_that_are_floats_are_exact(dtype: str, ran: Counter[str]) -> None:
    base, exponent = np.meshgrid(np.arange(-40.0, 41.0), np.arange(0.0, 4.0))
    x, y = base.ravel().astype(dtype), exponent.ravel().astype(dtype)
    assert_same(run("pow", x, y), (base**exponent).ravel().astype(dtype))
    twos = np.arange(-100.0, 101.0).astype(dtype)
    assert_same(run("pow", np.full_like(twos, 2), twos), np.exp2(twos))
    x = abs(sample((3000,), dtype))
    for easy in (-1, 0, 0.5, 1, 2):
        assert_same(run("pow", x, x.dtype.type(easy)), numpys("pow", x, x.dtype.type(easy)))
    assert ran["pow"] == 6  # a root is the NumPy backend's


def test_sums_of_exponentials_near_one_are_better_than_numpys(ran: Counter[str]) -> None:
    rng = np.random.default_rng(6)
    x = -rng.uniform(0.1, 3, 400)
    y = np.log1p(-np.exp(x))  # so that the result is about 0
    with mpmath.workprec(200):
        exact = [
            float(mpmath.log(mpmath.exp(mpmath.mpf(a)) + mpmath.exp(mpmath.mpf(b))))
            for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
    ours = np.max(np.abs(run("logaddexp", x, y) - exact))
    theirs = np.max(np.abs(np.logaddexp(x, y) - exact))
    assert ours <= 2 * theirs
    assert ours < 1e-15
    assert ran["logaddexp"] == 1


@quiet
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*OF_TWO, "nextafter"])
def test_pairs_of_special_values(name: str, dtype: str, ran: Counter[str]) -> None:
    first, second = specials(dtype)
    pairs = [(first, second)]  # and one to a call: the fast way is taken wherever it can be
    pairs += zip(first.reshape(-1, 1), second.reshape(-1, 1), strict=True)
    for x, y in pairs:
        found, expected = run(name, x, y), np.asarray(numpys(name, x, y))
        if name == "nextafter":
            assert_same(found, expected)
            continue
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps)
    assert ran[name] == len(pairs)


@quiet
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["atan2", "cos", "cosh", "logaddexp", "pow", "sin", "sinh", "tan"])
def test_a_nan_here_and_there_is_left_to_no_slower_function(name: str, dtype: str) -> None:
    x = abs(sample((3000,), dtype)) / np.dtype(dtype).type(2)
    x[::100] = np.nan
    operands = [x] if name in LIMITS else [x, x[::-1].copy()]
    out, failed = np.empty_like(x), np.ones(3, np.bool_)
    LOOPS[name](*operands, out, failed, *[1 for _ in operands], 0, 3)
    assert not failed.any()
    np.testing.assert_allclose(out, numpys(name, *operands), rtol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbours(dtype: str, ran: Counter[str]) -> None:
    x = np.concatenate([sample((3000,), dtype), np.array([0, -0.0, np.inf, -np.inf], dtype)])
    for y in (x[::-1].copy(), x, dtype_of(dtype)(np.inf), dtype_of(dtype)(0)):
        assert_same(run("nextafter", x, y), np.nextafter(x, y))
    assert ran == {"nextafter": 4}


@quiet
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", LIMITS)
def test_what_is_too_large_is_numpys(name: str, dtype: str, ran: Counter[str]) -> None:
    x = np.linspace(-10, 10, 5000).astype(dtype)
    x[[7, 3000, 3001]] = [1e6 + 1, 1e30, np.inf]
    x[[3500, 3501]] = [0.0, -0.0]
    found, right = run(name, x), numpys(name, x)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(right))
    assert_same(found[[7, 3000, 3001]], right[[7, 3000, 3001]])
    assert ran == {name: 1}


# ---------------------------------------------------------------------------- NumPy in threads

SHARED: Final = sorted({name for names in _elementwise._SHARED.values() for name in names})


@quiet
@pytest.mark.parametrize("name", [*SHARED, "pow"])
def test_what_threads_share_equals_numpys(name: str, ran: Counter[str]) -> None:
    ufunc = getattr(np, name)
    for dtype in ("bool", "uint8", "int32", "float32", "float64", "complex64"):
        if name in _elementwise._CHECKED and np.dtype(dtype) in _elementwise.FLOATS:
            continue  # which have a loop
        if not any(types.startswith(np.dtype(dtype).char) for types in ufunc.types):
            continue
        x = sample((70, 50), "float64").astype(dtype)
        if dtype in ("uint8", "int32"):  # neither powers nor shifts beyond all bounds
            x = abs(x) % x.dtype.type(5)
        row = x[:1].copy()
        two = [(x, x.T.copy().T), (x, row), (row[0], x), (x, x[0, 0])]
        for operands in [(x,)] if ufunc.nin == 1 else two:
            assert_same(np.asarray(run(name, *operands)), np.asarray(numpys(name, *operands)))
    assert ran[name]


@pytest.mark.parametrize("name", _elementwise._IN_PLACE)
def test_operators_in_place(name: str, ran: Counter[str]) -> None:
    other = sample((60, 70), "float64") + 100
    for kept in layouts(sample((60, 70), "float64"))[:4]:
        for operand in (other, np.asfortranarray(other), other[:1].copy(), np.float64(3)):
            x, right = kept.copy(order="K"), kept.copy(order="K")
            assert run(name, x, operand) is x
            assert_same(x, numpys(name, right, operand))
    x = np.arange(1.0, 4001.0)
    right = numpys(name, x[1:].copy(), x[:-1].copy())
    run(name, x[1:], x[:-1])  # which overlap
    assert_same(x[1:], right)
    assert run(name, x, x) is x
    with pytest.raises(ValueError, match="broadcast"):
        run(name, x, np.zeros((2, 4000)))
    frozen = np.zeros(3000)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        run(name, frozen, frozen)
    assert ran[name]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_clipping(dtype: str, ran: Counter[str]) -> None:
    whole = sample((60, 70), dtype)
    if whole.dtype.kind == "f":
        whole[3, 4] = np.nan
        whole[5:8] = np.resize(np.array([0.0, -0.0], dtype), 70)
    low, high = np.array(-5, dtype), np.array(8, dtype)
    zero = np.array(0, dtype)
    for x in layouts(whole):
        below = x - x.dtype.type(1)
        zeros = (zero, zero + x), (zero, high), (low, -zero), (zero, None), (None, -zero)
        pairs = (low, high), (low, None), (None, high), (below, high), (low, whole[0])
        for least, most in (*pairs, *zeros):
            bounds = {"min": least, "max": most}
            assert_same(run("clip", x, **bounds), numpys("clip", x, **bounds))
    assert ran["clip"]


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_divisions_of_integers(name: str, dtype: str, ran: Counter[str]) -> None:
    x = sample((3000,), dtype)
    by = np.where(x[::-1] == 0, x.dtype.type(7), x[::-1])
    for operands in ((x, by), (x, x.dtype.type(3)), (x.dtype.type(100), by)):
        assert_same(np.asarray(run(name, *operands)), np.asarray(numpys(name, *operands)))
    assert ran[name] == 3
    by[2000] = 0
    with pytest.raises(ZeroDivisionError, match="^x2 holds 0"):
        run(name, x, by)
    lowest = np.full(3000, np.iinfo(dtype).min, dtype)
    if dtype != "uint16":  # which overflows, and wraps around
        minus = np.full(3000, -1, dtype)
        assert_same(run(name, lowest, minus), numpys(name, lowest, minus))


def test_an_error_in_a_thread_is_raised() -> None:
    x = np.arange(3000)
    with pytest.raises(ValueError, match="negative integer powers"):
        run("pow", x, -x - 1)


def test_warnings_are_the_callers() -> None:
    x = np.full((3000,), 1e300)
    own = _elementwise.OPERATIONS["multiply"].own
    big = np.full(3_000_000, 1e300)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        own(big, big)
    with np.errstate(over="ignore"):
        assert np.isinf(own(big, big)).all()
    with np.errstate(over="ignore"):
        assert np.isinf(np.asarray(run("multiply", x, x))).all()


def test_each_kind_of_warning_comes_once() -> None:
    divide = _elementwise.OPERATIONS["divide"].own
    x = np.ones(400_000)
    x[[5, 6, 70_000]], x[20_000] = 0.0, np.inf
    y = np.where(x == np.inf, np.inf, 0.0)
    with pytest.warns(RuntimeWarning) as caught:
        found = divide(y, x)
    assert [str(each.message) for each in caught] == ["invalid value encountered in divide"]
    with np.errstate(all="ignore"):
        assert_same(found, y / x)
        assert_same(divide(y, x), y / x)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="invalid value"):
        divide(y, x)
    y[:] = 1.0
    with np.errstate(all="raise", divide="ignore"):
        assert np.isinf(divide(y, x)).sum() == 3
    rows = np.ones((500, 1000))
    rows[7, 3] = rows[250, 4] = 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
        assert np.isinf(divide(np.ones(1000), rows)).sum() == 2
    assert len(caught) == 1


@pytest.mark.parametrize("dtype", ["float32", "int16", "complex128"])
def test_rows_are_broadcast_like_numpys(dtype: str) -> None:
    x = sample((30, 2, 150), "float64").astype(dtype)
    for other in (x[0], x[:1], x[:, :1, :1].copy(), x[0, 0], x[0, :1]):
        for first, second in ((x, other), (other, x)):
            assert_same(run("subtract", first, second), first - second)
    assert_same(run("subtract", x, x[:, :, :1].copy()), x - x[:, :, :1])
    assert_same(run("subtract", x, x[0, :, :1].copy()), x - x[0, :, :1])


@pytest.fixture
def looked_up_anew() -> Iterator[None]:
    caches = [_numpys_loops.loop_of, _numpys_loops.flags, _numpys_loops._tells_addresses]
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


@pytest.mark.parametrize("name", ["_Table", "_Layout"])
def test_loops_are_only_called_where_numpy_is_laid_out_as_it_says(
    name: str, looked_up_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = getattr(_numpys_loops, name)
    moved = [("more", ctypes.c_int64), *layout._fields_]
    monkeypatch.setattr(_numpys_loops, name, type(name, (ctypes.Structure,), {"_fields_": moved}))
    assert _numpys_loops.loop_of(np.add, *[np.dtype("f8")] * 2) is None
    x = np.arange(5000.0)
    assert_same(run("add", x, x), x + x)


def test_loops_are_only_called_for_their_dtypes() -> None:
    double = np.dtype("f8")
    found = _numpys_loops.loop_of(np.add, double, double)
    assert found is not None
    assert found.dtype == double
    for other in (np.dtype("f4"), np.dtype(">f8")):
        assert _numpys_loops.loop_of(np.add, other, double) is None
    assert _numpys_loops.loop_of(np.power, *[np.dtype("i8")] * 2) is None


@pytest.mark.parametrize("machine", ["x86_64", "s390x"])
def test_processors_whose_flags_are_not_known_use_numpy(
    machine: str, looked_up_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_numpys_loops.platform, "machine", lambda: machine)
    assert (_numpys_loops.flags() is None) == (machine == "s390x")
    x = np.arange(5000.0)
    assert_same(run("add", x, x), x + x)
    assert float(run("max", x, axis=None, keepdims=False)) == 4999.0


def test_shapes_that_do_not_broadcast_are_numpys_mistake() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        run("add", np.zeros((3, 4)), np.zeros((5, 4)))
