"""Every function means the same on every backend: dtype, shape, values, exceptions.

The reference backend is what all others are compared with. Values may differ by what
`conformance.accuracy.bound` allows, and functions without an entry there by nothing.
"""

from __future__ import annotations

import itertools
import math
import operator
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.linalg import LinAlgError

import corepy
import corepy.array_api as xp
from conformance import accuracy
from conformance.accuracy import REFERENCE, bound, is_joint, ulps
from corepy._dtypes import DTYPES, MIXED_PROMOTION
from tests.calls import BINARY, UNARY, Call, calls
from tests.conftest import backends, required
from tests.helpers import FUNCTIONS, NAMES
from tests.together import together

required("mpmath")  # the reference needs it for linalg and fft

BACKENDS = [param for param in backends() if param.id != REFERENCE]
EXAMPLES = settings().max_examples // 4  # there are many functions
each_backend = pytest.mark.parametrize("backend", BACKENDS)


# ---------------------------------------------------------------------------- one call, twice


def given_to(value: Any, backend: str) -> Any:
    """Turn NumPy arrays into a backend's, in sequences and slices too."""
    if isinstance(value, np.ndarray):
        return corepy.to(value, backend=backend, copy=True)
    if isinstance(value, (tuple, list)):
        return type(value)(given_to(item, backend) for item in value)
    return value


def find(name: str) -> Callable[..., Any]:
    extension, _, plain = name.rpartition(".")
    found: Callable[..., Any] = getattr(getattr(xp, extension) if extension else xp, plain)
    return found


def outcome(call: Call, backend: str) -> Any:
    """Return what a call gives in a backend: results, or the type of the exception."""
    with (
        corepy.backend_priority([backend]),
        corepy.set_fallback("allow"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of infinities and NaN
        args = given_to(call.args, backend)
        kwargs = {key: given_to(value, backend) for key, value in call.kwargs.items()}
        try:
            made = find(call.name)(*args, **kwargs)
            parts = made if isinstance(made, tuple) else (made,)
            values = [np.array(x) for x in parts]  # which a lazy backend computes now
        except Exception as error:  # its type is what is compared
            return type(error)
    assert {x.backend for x in parts} <= {backend}
    for x, found in zip(parts, values, strict=True):
        assert found.ndim == x.ndim
        assert all(n is None or n == m for n, m in zip(x.shape, found.shape, strict=True))
    return [(x.dtype.name, found.shape, found) for x, found in zip(parts, values, strict=True)]


def assert_same(call: Call, backend: str) -> None:
    got, right = outcome(call, backend), outcome(call, REFERENCE)
    if isinstance(got, type) or isinstance(right, type):
        assert got is right, f"{call} on {backend}: {got}; expected {right}"
        return
    assert len(got) == len(right)
    kept = range(len(right)) if call.name not in ONLY else ONLY[call.name]
    for i, ((dtype, shape, values), (wanted_dtype, wanted_shape, wanted)) in enumerate(
        zip(got, right, strict=True)
    ):
        assert (dtype, shape) == (wanted_dtype, wanted_shape), f"{call} on {backend}"
        assert values.dtype.name == dtype
        if i in kept:
            assert_values(call, backend, values, wanted)


def assert_values(call: Call, backend: str, values: Any, wanted: Any) -> None:
    message = f"{call} on {backend}: {values!r}; expected {wanted!r}"
    if wanted.dtype.kind not in "fc":
        assert np.array_equal(values, wanted), message
        return
    if call.name in ORDERED:
        values, wanted = np.sort(values), np.sort(wanted)
    if call.name == "linalg.qr":
        values, wanted = np.abs(values), np.abs(wanted)
    if call.name in SIGNED_ZEROS and wanted.dtype.kind == "f":
        zeros = (wanted == 0) & (values == 0)
        assert np.array_equal(np.signbit(values[zeros]), np.signbit(wanted[zeros])), message
    complexes = any(np.iscomplexobj(x) for x in call.args if isinstance(x, np.ndarray))
    allowed = bound(call.name, backend, "complex128" if complexes else wanted.dtype.name)
    if ulps(values, wanted, together=is_joint(call.name)) <= allowed:
        return
    # What cancels is measured by what went in.
    assert is_joint(call.name) or call.name == "logaddexp", message
    assert np.array_equal(np.isfinite(values), np.isfinite(wanted)), message
    finite = np.isfinite(wanted)
    size = max([1.0, *(float(np.abs(x).max(initial=0.0)) for x in flat(call.args))])
    error = np.abs(values - wanted)[finite]
    assert error.max(initial=0.0) <= max(allowed, 8) * np.finfo(wanted.dtype).eps * size, message


def flat(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        finite = np.abs(value[np.isfinite(value)]) if value.dtype.kind in "fc" else value
        return [finite]
    if isinstance(value, (tuple, list)):
        return [x for item in value for x in flat(item)]
    return []


#: Functions that take no arrays, or whose results are none: `tests/array_api` has them.
WITHOUT_ARRAYS = frozenset(
    {
        "broadcast_shapes",
        "can_cast",
        "finfo",
        "from_dlpack",
        "iinfo",
        "isdtype",
        "result_type",
        "__array_namespace_info__",
    }
)
#: Results whose values are determined, where not all are.
ONLY: Final[dict[str, tuple[int, ...]]] = {
    "empty": (),
    "empty_like": (),
    "linalg.eig": (0,),
    "linalg.eigh": (0,),
    "linalg.qr": (1,),
    "linalg.svd": (1,),
}
ORDERED = frozenset({"linalg.eig", "linalg.eigvals"})  # the standard gives no order
#: Which zero of two equal ones maximum and minimum return, the standard leaves open.
SIGNED_ZEROS = frozenset({*UNARY, *BINARY}) - {"maximum", "minimum"}


# ---------------------------------------------------------------------------- every function


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in WITHOUT_ARRAYS])
@each_backend
def test_a_function_means_the_same(backend: str, name: str) -> None:
    # XLA compiles nearly each of them.
    @settings(max_examples=EXAMPLES // 2 + 1 if backend == "jax" else EXAMPLES)
    @given(call=calls(name))
    def same(call: Call) -> None:
        assert_same(call, backend)

    same()


def test_the_tables_name_functions_of_the_standard() -> None:
    """No name is misspelt, so that nothing is left out or left loose unnoticed."""
    assert set(FUNCTIONS) > WITHOUT_ARRAYS - {"__array_namespace_info__"}
    assert set(FUNCTIONS) > {*accuracy.FUNCTIONS, *ONLY, *ORDERED, *SIGNED_ZEROS}
    assert set(FUNCTIONS) > {name.partition(" ")[0] for name in accuracy.BOUNDS}


# ---------------------------------------------------------------------------- dtypes


@each_backend
def test_promotion_is_the_same_for_every_pair_of_dtypes(backend: str) -> None:
    for first, second in itertools.product(NAMES, NAMES):
        wanted = MIXED_PROMOTION.get((DTYPES[first], DTYPES[second]))
        for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
            x, y = (np.ones(s, dtype=n) for s, n in zip(shapes, (first, second), strict=True))
            got = outcome(Call("where", (np.asarray(True), x, y), {}), backend)
            if wanted is None:
                assert got is TypeError, (first, second, shapes)
            else:
                assert got[0][:2] == (wanted.name, np.broadcast_shapes(*shapes)), (first, second)
                assert (got[0][2] == 1).all()


#: Ranges of integers that floats do not count: beyond their precision, or up to an end of int64.
RANGES: Final = (
    (0, 2**62, 2**62 - 1),
    (-5, 2**63, 2**62),
    (5, -(2**63) - 1, -(2**62)),
    (2**63 - 3, 2**63, 1),
    (-(2**63), -(2**63) - 1, -1),
    (-(2**63), 2**63 - 1, 2**62),
    (-(2**63), 2**63, 2**63),
    (2**53, 2**53 + 5, 1),
    (2**64 - 3, 2**64, 1),
    (2**64 - 1, -1, -(2**62)),
    (0, 300, 2**61),
    (0, 10, 3),
)


@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param(REFERENCE, id=REFERENCE)])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int16", "float64", "float32"])
def test_ranges_of_integers_have_as_many_elements_as_python_counts(
    backend: str, dtype: str
) -> None:
    for bounds in RANGES:
        wanted = list(range(*bounds))
        if dtype[0] in "iu" and not all(v == int(np.array(v).astype(dtype)) for v in wanted):
            continue  # which is refused
        with corepy.backend_priority([backend]), corepy.set_fallback("allow"):
            found = xp.arange(*bounds, dtype=DTYPES[dtype])
        assert found.backend == backend
        if dtype[0] in "iu":
            assert found.tolist() == wanted, bounds
        else:
            np.testing.assert_allclose(found.tolist(), wanted, rtol=1e-7, err_msg=str(bounds))


PIVOTS: Final = (
    (1e200, 1e200, 1e-200, 1e-200),
    (1e-160, 1e-160, 1e160, 1e160),
    (-1e200, 1e200, 1e-300),
    (1e-160, 1e-150, 1e300),
    (1e200, 1e-200),
    (3.0, -0.5),
    (1e-200, 0.0, 1e200),
    (*[1e20] * 20, *[1e-20] * 20),
)


@each_backend
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_determinants_do_not_overflow_on_the_way(backend: str, dtype: str) -> None:
    for pivots in PIVOTS:
        x = np.diag(np.asarray(pivots, dtype))
        exact = math.prod(map(Fraction, pivots))
        with corepy.set_fallback("allow"):
            for matrix, sign in [(x, 1), (x[::-1].copy(), (-1) ** (len(x) // 2))]:
                found = complex(xp.linalg.det(given_to(matrix, backend)))
                assert found == pytest.approx(sign * float(exact), rel=1e-12, abs=0), pivots


@each_backend
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_imaginary_numbers_are_true(backend: str, dtype: str) -> None:
    with corepy.set_fallback("allow"):
        x = given_to(np.asarray([[1j, -2j], [0, 1j]], dtype), backend)
        assert np.array(xp.all(x, axis=1)).tolist() == [True, False]
        assert np.array(xp.any(x, axis=0)).tolist() == [True, True]
        assert np.array(xp.count_nonzero(x, axis=1)).tolist() == [2, 1]
        assert np.array(xp.astype(x, xp.bool)).tolist() == [[True, True], [False, True]]
        assert not xp.any(x[1:, :1])


SCALARS: Final = (True, 3, -1, 2.5, 1j, 300, 2**40, 2**63, 2**64, 1e39, -1e39, 10**400)


@each_backend
@pytest.mark.parametrize("swapped", [False, True])
def test_scalars_mean_the_same_beside_every_dtype(backend: str, swapped: bool) -> None:
    add = operator.add

    def result(where: str, dtype: str, shape: tuple[int, ...], value: Any) -> Any:
        x = corepy.to(np.ones(shape, dtype), backend=where, copy=True)
        try:
            made = add(value, x) if swapped else add(x, value)
        except Exception as error:  # its type is what is compared
            return type(error)
        return made.dtype.name, made.shape, made.tolist()

    raised = set()
    for dtype, shape, value in itertools.product(NAMES, [(), (2,)], SCALARS):
        got, right = (result(where, dtype, shape, value) for where in (backend, REFERENCE))
        assert got == right, (dtype, shape, value)
        raised.add(right if isinstance(right, type) else None)
    assert raised == {None, OverflowError, TypeError}


@each_backend
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floors_of_quotients_that_are_rounded_to_halves_are_exact(backend: str, dtype: str) -> None:
    most = 2.0 ** np.finfo(dtype).nmant
    rng = np.random.default_rng(0)
    whole = rng.integers(int(most / 4), int(most), 500)
    divisor = rng.uniform(1, 1000, 500).astype(dtype)
    divided = (whole * divisor).astype(dtype) * rng.choice([-1, 1], 500).astype(dtype)
    wanted = [
        math.floor(Fraction(float(a)) / Fraction(float(b)))
        for a, b in zip(divided, divisor, strict=True)
    ]
    with corepy.set_fallback("allow"):
        x1, x2 = given_to(divided, backend), given_to(divisor, backend)
        assert xp.floor_divide(x1, x2).tolist() == wanted
        assert xp.floor_divide(-x1, -x2).tolist() == wanted
        x1 //= x2
    assert x1.tolist() == wanted


# ---------------------------------------------------------------------------- mistakes


def _a(values: Any, dtype: str = "float64") -> Any:
    return np.asarray(values, dtype)


def _set(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


#: Mistakes: the call, its operands, and the exception that every backend raises.
MISTAKES: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...], type[Exception]]]] = {
    "floor_divide by 0": (
        operator.floordiv,
        (_a([1, 2], "int64"), _a([1, 0], "int64")),
        ZeroDivisionError,
    ),
    "scalar floor_divide by 0": (operator.floordiv, (_a([1], "int8"), 0), ZeroDivisionError),
    "0-D floor_divide by 0": (
        operator.floordiv,
        (_a(1, "uint8"), _a(0, "uint8")),
        ZeroDivisionError,
    ),
    "remainder by 0": (operator.mod, (_a([1, 2], "int32"), _a([1, 0], "int32")), ZeroDivisionError),
    "remainder by 0 in place": (operator.imod, (_a([1, 2], "int32"), 0), ZeroDivisionError),
    "negative power": (operator.pow, (_a([2, 3], "int64"), _a([1, -1], "int64")), ValueError),
    "negative scalar power": (operator.pow, (_a([2, 3], "int64"), -1), ValueError),
    "negative scalar shift": (operator.lshift, (_a([1], "int64"), -1), ValueError),
    "index beyond": (operator.getitem, (_a([1, 2]), 2), IndexError),
    "index before": (operator.getitem, (_a([1, 2]), -3), IndexError),
    "index of an axis of 0": (operator.getitem, (_a([]), 0), IndexError),
    "too many indices": (operator.getitem, (_a([1, 2]), (0, 0)), IndexError),
    "array index beyond": (operator.getitem, (_a([1, 2]), _a([0, 2], "int64")), IndexError),
    "mask of another shape": (operator.getitem, (_a([1, 2]), _a([True] * 3, "bool")), IndexError),
    "set beyond": (_set, (_a([1, 2]), 2, 1.0), IndexError),
    "set a shape that does not fit": (_set, (_a([1, 2]), slice(None), _a([1, 2, 3])), ValueError),
    "set a shape that does not fit no rows": (
        _set,
        (_a(np.ones((2, 3))), slice(2, 2), _a([1, 2])),
        ValueError,
    ),
    "set a shape that does not fit no elements": (
        _set,
        (_a([1, 2]), _a([], "int64"), _a([1, 2])),
        ValueError,
    ),
    "index beyond beside no indices": (
        lambda x, i: x[i, ..., 3],
        (_a(np.ones((2, 3))), _a([], "int64")),
        IndexError,
    ),
    "set a higher kind": (_set, (_a([1, 2], "int64"), 0, 1.5), TypeError),
    "set what overflows": (_set, (_a([1, 2], "int8"), 0, 300), OverflowError),
    "take beyond": (lambda x, i: xp.take(x, i, axis=0), (_a([1, 2]), _a([2], "int64")), IndexError),
    "take_along_axis beyond": (
        lambda x, i: xp.take_along_axis(x, i, axis=0),
        (_a([1, 2]), _a([2], "int64")),
        IndexError,
    ),
    "shapes that do not broadcast": (operator.add, (_a([1, 2]), _a([1, 2, 3])), ValueError),
    "in place to a larger shape": (operator.iadd, (_a([1.0]), _a([1, 2, 3])), ValueError),
    "in place to another dtype": (operator.iadd, (_a([1], "int64"), _a([1.5])), TypeError),
    "broadcast_to": (lambda x: xp.broadcast_to(x, (3,)), (_a([1, 2]),), ValueError),
    "reshape": (lambda x: xp.reshape(x, (3,)), (_a([1, 2]),), ValueError),
    "squeeze": (lambda x: xp.squeeze(x, 0), (_a([1, 2]),), ValueError),
    "concat": (lambda *x: xp.concat(x), (_a([[1, 2]]), _a([[1]])), ValueError),
    "stack": (lambda *x: xp.stack(x), (_a([1, 2]), _a([1])), ValueError),
    "axis": (lambda x: xp.sum(x, axis=1), (_a([1, 2]),), IndexError),
    "max of nothing": (xp.max, (_a([]),), ValueError),
    "argmin of nothing": (xp.argmin, (_a([]),), ValueError),
    "matmul": (operator.matmul, (_a([1, 2]), _a([1, 2, 3])), ValueError),
    "bool of more than one": (bool, (_a([1, 2]),), ValueError),
    "int of NaN": (int, (_a(math.nan),), ValueError),
    "int of infinity": (int, (_a(math.inf),), OverflowError),
    "index of a float": (operator.index, (_a(1.0),), TypeError),
    "a dtype that the function does not take": (xp.sin, (_a([1], "int64"),), TypeError),
    "complex order": (operator.lt, (_a([1j], "complex128"), _a([1j], "complex128")), TypeError),
    "inverse of a singular matrix": (xp.linalg.inv, (_a([[1, 2], [2, 4]]),), LinAlgError),
    "solve with a singular matrix": (
        xp.linalg.solve,
        (_a([[1, 2], [2, 4]]), _a([1, 2])),
        LinAlgError,
    ),
    "cholesky of an indefinite matrix": (xp.linalg.cholesky, (_a([[1, 2], [2, 1]]),), LinAlgError),
    "a matrix that is not square": (xp.linalg.det, (_a([[1, 2]]),), ValueError),
    "complex to real": (lambda x: xp.astype(x, xp.float64), (_a([1j], "complex128"),), TypeError),
}


@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param(REFERENCE, id=REFERENCE)])
@together("mistake", MISTAKES)
def test_mistakes_raise_the_same(backend: str, mistake: str) -> None:
    function, operands, error = MISTAKES[mistake]
    arrays = [given_to(value, backend) for value in operands]
    made: Any = None
    with corepy.backend_priority([backend]):
        try:
            made = found = function(*arrays)
            if isinstance(made, corepy.Array):
                np.asarray(made)  # which a lazy backend computes now
        except Exception as raised:  # its type is what is compared
            found = type(raised)
    assert found is error
    for x, before in zip(arrays, operands, strict=True):  # and nothing has changed
        # A lazy backend has taken the mistake for a value, where the operator works in place.
        if isinstance(x, corepy.Array) and x is not made:
            assert np.array_equal(np.asarray(x), before, equal_nan=True)


# ---------------------------------------------------------------------------- distances


_RIGHT: Final[dict[Any, Any]] = {}


@pytest.fixture
def exact_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the reference, which takes longest, compute once what all others are held to."""
    compute = accuracy.compute

    def computed(backend: str, name: str, args: Any, kwargs: Any) -> Any:
        if backend != REFERENCE:
            return compute(backend, name, args, kwargs)
        operands = ((x.dtype.str, x.shape, x.tobytes()) for x in map(np.asarray, args))
        key = (name, repr(kwargs), *operands)
        if key not in _RIGHT:
            _RIGHT[key] = compute(backend, name, args, kwargs)
        return _RIGHT[key]

    monkeypatch.setattr(accuracy, "compute", computed)


@each_backend
@pytest.mark.parametrize("name", accuracy.FUNCTIONS)
@pytest.mark.usefixtures("exact_once")
def test_results_lie_within_their_bounds(backend: str, name: str) -> None:
    for dtype, row in accuracy.measure([backend], [name])[name].items():
        assert row[backend] <= bound(name, backend, dtype), dtype


def test_ulps_counts_units_in_the_last_place() -> None:
    one = np.array([1.0, 2.0])
    assert ulps(one, one) == 0.0
    assert ulps(np.nextafter(one, 9), one) == 1.0
    assert ulps([1.0 + 2**-52, 2.0], one) == 1.0
    assert ulps([1.0 + 2**-51, 2.0], one, together=True) == 1.0
    assert ulps([1.0, math.inf], one) == math.inf
    assert ulps([math.nan], [math.nan]) == 0.0
    assert ulps([math.inf], [-math.inf]) == math.inf
    assert ulps([1 + 1j * 2.0**-52], [1 + 0j]) == 1.0
    assert ulps([0.0], [1e-310]) == 0.0  # subnormal
    assert ulps([1.0], [1e-310]) > 1e300
    assert ulps([], []) == 0.0
    assert ulps(np.float32([1 + 2**-23]), np.float32([1.0])) == 1.0


def test_bounds_are_found_by_function_backend_and_dtype() -> None:
    assert bound("add", "numpy") == bound("floor", "jax", "float32") == 0.0
    assert bound("sqrt", "numpy") == 1.0
    assert bound("sqrt", "numpy", "complex64") == 4.0
    assert bound("sin", "torch", "complex64") == bound("sin", "torch") == 4.0
    assert bound("atan", "mlx", "complex64") == 2 * bound("atan", "torch", "complex64")


@each_backend
def test_signs_of_complex_numbers_whose_modulus_overflows(backend: str) -> None:
    for dtype in ("complex64", "complex128"):
        most = float(np.finfo(dtype).max)
        values = np.asarray([most * (1 - 1j), complex(0.8 * most, 0.8 * most), 3 + 4j], dtype)
        x = corepy.to(values, backend=backend)
        found = np.asarray(corepy.to(xp.sign(x), backend="numpy"))
        wanted = np.asarray([1 - 1j, 1 + 1j, (3 + 4j) / 5 * math.sqrt(2)]) / math.sqrt(2)
        np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(dtype).eps)
