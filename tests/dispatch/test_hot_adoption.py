"""Arrays of NumPy's as operands mean the same from the second one on, in both forms."""

from __future__ import annotations

import operator as op
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.array_api import _creation
from corepy.backends._numpy import NumPyBackend
from corepy.dispatch import _registry, adopt
from tests.dispatch.natives import compiled
from tests.together import together


@pytest.fixture(autouse=True)
def seen_before() -> None:
    for dtype in ("float64", "int64", "bool"):
        for _ in range(2):
            native = np.ones(2, dtype)
            xp.asarray(native)
            xp.equal(native, xp.asarray(native))


# NumPy 2.5 would have nobody do that any more.
@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_an_array_keeps_its_shape_when_the_callers_is_changed() -> None:
    native = np.arange(6.0)
    x, same = xp.asarray(native), xp.positive(xp.reshape(native, (6,)))
    native.shape = (2, 3)
    assert x.shape == same.shape == (6,)
    native[0, 0] = 9
    assert x[0] == 9
    assert same[0] == 0


def test_memory_is_shared_or_copied_as_asked() -> None:
    native = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(xp.asarray(native, copy=False).unwrap(), native)
    assert np.shares_memory(xp.asarray(native.T).unwrap(), native)
    assert not np.shares_memory(xp.asarray(native, copy=True).unwrap(), native)
    assert xp.asarray(native, dtype=xp.float32).dtype is xp.float32
    with pytest.raises(ValueError, match=r"^asarray: "):
        xp.asarray(native, dtype=xp.float32, copy=False)


def test_read_only_memory_is_not_written() -> None:
    native = np.arange(3.0)
    native.flags.writeable = False
    x = xp.asarray(native)
    x += native
    x[0] = 7
    np.testing.assert_array_equal(x, [7, 2, 4])
    np.testing.assert_array_equal(native, [0, 1, 2])


def test_other_byte_orders_and_types_of_the_same_size_have_their_values() -> None:
    swapped = np.arange(3.0).astype(np.dtype(float).newbyteorder())
    np.testing.assert_array_equal(xp.asarray(swapped) + swapped, [0, 2, 4])
    np.testing.assert_array_equal(xp.asarray(np.arange(3.0)) + swapped, [0, 2, 4])
    long = np.arange(3, dtype="q")
    np.testing.assert_array_equal(xp.asarray(np.arange(3)) * long, [0, 1, 4])
    assert xp.sum(long) == 3


def test_classes_of_ones_own_are_wrapped_as_before() -> None:
    class Own(np.ndarray):
        pass

    own = np.arange(3.0).view(Own)
    np.testing.assert_array_equal(xp.asarray(own) + own, [0, 2, 4])
    with pytest.raises(TypeError):
        xp.sum(np.ma.masked_array([1.0, 2.0], [True, False]))  # type: ignore[arg-type]


def test_strictness_refuses_them_still() -> None:
    native, x = np.ones(2), xp.ones(2)
    with corepy.strict():
        for call in (
            lambda: x + native,
            lambda: native * x,
            lambda: xp.sum(native),
            lambda: xp.add(native, native),
            lambda: x[np.zeros(1, np.int64)],
        ):
            with pytest.raises(TypeError, match="strict mode"):
                call()
        with pytest.raises(TypeError, match=r"^equal: x2 is of type NoneType"):
            _ = x == None  # noqa: E711
    assert xp.sum(native) == 2


def test_priorities_lead_them_elsewhere() -> None:
    native = np.ones(2)
    with corepy.backend_priority(["reference"]):
        assert xp.asarray(native).backend == "reference"
        assert (xp.ones(2) + native).backend == "reference"
    assert xp.asarray(native).backend == "numpy"


def seen_of(native: Any) -> tuple[Any, ...]:
    x = xp.asarray(native)
    held = np.asarray(x)
    shared = isinstance(native, np.ndarray) and np.shares_memory(held, native)
    return x.backend, x.device, x.dtype, shared, held.tobytes()


WISHES = [
    *(["numpy"], ["reference"]),
    *(pytest.param([name], marks=pytest.mark.backend(name)) for name in ("numba", "torch", "jax")),
]


@pytest.mark.parametrize("wish", WISHES)
def test_under_a_wish_they_go_from_the_second_one_on_where_the_first_one_went(
    wish: list[str],
) -> None:
    plain = np.arange(6.0).reshape(2, 3)
    fixed = plain.copy()
    fixed.flags.writeable = False
    natives = [plain, plain.T, plain[:, ::2], fixed, plain.astype(">f8"), plain.astype("int8")]
    natives += [np.asarray(1.5), np.ones((0, 2)), np.frombuffer(bytes(17), "f8", 2, 1)]
    natives += [np.float64(2.5), np.int8(3), np.complex64(1j), np.bool(True)]  # type: ignore[list-item]
    with corepy.backend_priority(wish):
        expected = []
        for native in natives:
            _registry.forget_homes()
            expected.append(seen_of(native))
        for _ in range(3):
            assert [seen_of(native) for native in natives] == expected
        with corepy.backend_priority(["reference"]):
            assert {xp.asarray(native).backend for native in natives} == {"reference"}
        assert [seen_of(native) for native in natives] == expected
        assert xp.asarray(plain, dtype=xp.float32, copy=True).backend == wish[0]
        assert xp.asarray(plain, device="cpu").device == corepy.devices.as_device("cpu")
    assert {xp.asarray(native).backend for native in natives} == {"numpy"}


@compiled
@pytest.mark.parametrize("wish", [["numpy"], pytest.param(["numba"], marks=WISHES[2].marks)])
def test_under_a_wish_the_second_one_is_not_looked_at(
    wish: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with corepy.backend_priority(wish):
        xp.asarray(np.ones(2))
        monkeypatch.setattr(_creation, "owner_of", None)
        assert xp.asarray(np.ones(3)).backend == wish[0]
        with corepy.backend_priority(wish), pytest.raises(TypeError, match="not callable"):
            xp.asarray(np.ones(3))  # of another wish nothing is known


def test_a_backend_that_comes_is_asked() -> None:
    x = xp.asarray(np.ones(2))
    _registry.forget_homes()
    np.testing.assert_array_equal(x + np.ones(2), [2, 2])
    assert xp.asarray(np.ones(2)).backend == "numpy"


def test_a_plug_in_that_looks_at_each_array_is_asked_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Greedy(NumPyBackend):
        name = "greedy"

        def owns(self, obj: object) -> bool:
            return isinstance(obj, np.ndarray) and obj.size > 2

    few, many = np.ones(2), np.ones(3)
    for name in ("_records", "_loaded"):
        monkeypatch.setattr(_registry, name, dict(getattr(_registry, name)))
    corepy.register_backend("greedy", Greedy(), priority=1, modules=["numpy"])
    try:
        for native, expected in [(few, "numpy"), (many, "greedy")] * 3:
            assert xp.add(native, native).backend == expected
            assert xp.asarray(native).backend == expected
    finally:
        corepy.unregister_backend("greedy")
    assert xp.add(many, many).backend == "numpy"


@pytest.mark.backend("numba")
def test_what_another_backend_made_of_them_says_nothing_of_the_next() -> None:
    from corepy.backends.numba import NumbaBackend

    backend = NumbaBackend()
    native = np.ones(2)
    assert adopt("gelu", "out", native, backend).backend == "numba"
    assert xp.add(native, native).backend == "numpy"


def test_dtypes_without_a_hash_are_refused_as_others() -> None:
    strings: Any = np.array(["a"], np.dtypes.StringDType(na_object=[]))
    with pytest.raises(TypeError, match=r"^add: x2: "):
        xp.ones(1) + strings
    with pytest.raises(TypeError, match=r"^sum: x: "):
        xp.sum(strings)


def test_operands_on_other_backends_lead() -> None:
    x = corepy.to(xp.ones(2), backend="reference")
    assert (x + np.ones(2)).backend == "reference"
    assert (np.ones(2) + x).backend == "reference"
    assert xp.add(np.ones(2), x).backend == "reference"


def test_shapes_that_do_not_fit_are_worded_by_the_function() -> None:
    x = xp.ones(3)
    with pytest.raises(ValueError, match=r"^add: "):
        x + np.ones(2)
    with pytest.raises(IndexError):
        x[np.array([5])]
    with pytest.raises(TypeError, match=r"^bitwise_and: "):
        x & np.ones(3)


#: Scalars of NumPy's: two of each dtype that there is, and one of none.
SCALARS = [
    *(np.dtype(name).type(value) for name in DTYPES for value in (0, 1)),
    *(np.float64(-0.0), np.float64("nan"), np.complex128(1 + 2j), np.int64(-1), np.int64(99)),
    *(np.uint64(2**63), np.uint64(2**64 - 1), np.float16(1), np.longdouble(1)),
    *(np.timedelta64(1), np.str_("a"), np.datetime64(1, "s")),
]


def told(call: Callable[[], Any]) -> Any:
    """Return what something comes to: the values of an array, or its error."""
    with np.errstate(all="ignore"):
        try:
            x = call()
        except Exception as error:
            return type(error), str(error)
    return x if isinstance(x, bool) else (x.backend, x.dtype.name, np.asarray(x).tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
@together("scalar", SCALARS)
def test_scalars_of_numpy_mean_the_same_by_every_way(dtype: str, scalar: Any) -> None:
    def values() -> Any:
        return xp.asarray(np.arange(12).reshape(3, 4).astype(dtype))

    def stored(key: Any, value: Any) -> Any:
        x = values()
        try:
            x[key] = value
        except Exception as error:
            return type(error), str(error), told(lambda: x)
        return told(lambda: x)

    def added(value: Any) -> Any:
        x = values()
        x += value
        return x

    def slow(name: str) -> Callable[..., Any]:
        """Return the function behind the short ways."""
        found: Callable[..., Any] = getattr(xp, name)
        return getattr(found, "__wrapped__", found)

    x, array = values(), np.asarray(scalar)
    flags, operands = x != 0, ((x, scalar), (scalar, x))
    calls = [
        (name, pair)
        for name in ("add", "multiply", "maximum", "less", "pow", "bitwise_and", "logical_or")
        for pair in operands
    ]
    calls += [("where", (flags, *pair)) for pair in operands]
    calls += [("asarray", (scalar,))]
    for name, args in calls:
        wanted = told(lambda n=name, a=args: slow(n)(*a))
        for _ in range(2):
            assert told(lambda n=name, a=args: getattr(xp, n)(*a)) == wanted
    for method, name in ((op.add, "add"), (op.gt, "greater")):
        for pair in operands:
            found = told(lambda o=method, p=pair: o(*p))
            wanted = told(lambda n=name, p=pair: slow(n)(*p))
            # They word mistakes in their own names.
            assert found == wanted or (isinstance(found[0], type) and found[0] is wanted[0])
    assert told(lambda: added(scalar)) == told(lambda: type(x).__iadd__(values(), scalar))
    if array.dtype.kind not in "iu":
        return
    n = array.item()
    keys = [scalar, (scalar, 1), (0, scalar), (slice(scalar, None), 0), (Ellipsis, scalar)]
    keys += [(scalar, scalar), slice(None, scalar), (None, scalar, slice(None, None, scalar))]
    plain = [n, (n, 1), (0, n), (slice(n, None), 0), (Ellipsis, n), (n, n), slice(None, n)]
    plain += [(None, n, slice(None, None, n))]
    for key, same in zip(keys, plain, strict=True):
        found, wanted = told(lambda k=key: x[k]), told(lambda k=same: x[k])
        assert found == wanted or (isinstance(found[0], type) and isinstance(wanted[0], type))
        assert stored(key, 1)[-1] == stored(same, 1)[-1]
        assert stored(key, scalar)[-1] == stored(same, array)[-1]


def test_strictness_refuses_scalars_of_numpy() -> None:
    x, wide = xp.ones(3), xp.ones(3, dtype=xp.int64)
    x + np.float64(1), x[np.int64(1)], wide[np.int64(1)]
    with corepy.strict():
        for call in (lambda: x + np.float64(1), lambda: x[np.int64(1)]):
            with pytest.raises(TypeError):
                call()
        with pytest.raises(TypeError):
            x[0] = np.float64(1)


def test_a_row_at_an_integer_of_numpy_is_a_view_as_at_pythons() -> None:
    x = xp.zeros((3, 2))
    for key, row in ((np.int64(1), 1), (slice(np.int32(2), None), 2), ((np.uint8(0), ...), 0)):
        part = x[key]
        part[...] = row + 1.0
        assert x[row, 0] == row + 1.0


class _Float(np.float64):
    """Of another value than NumPy has of it."""

    def __float__(self) -> float:
        return 7.0


def test_subclasses_of_scalars_have_their_own_value() -> None:
    x, scalar = xp.zeros(3), _Float(1)
    x[0] = scalar
    x[1:] = scalar
    assert xp.all(x == float(scalar))
    assert xp.all(x + scalar == x + np.asarray(scalar))
    assert xp.asarray(scalar)[()] == np.asarray(scalar)[()]


def test_slices_within_slices_are_refused_however_deep() -> None:
    x = xp.zeros(3)
    held: list[Any] = [slice(np.int64(1))]
    for _ in range(300_000):
        held.append(slice(held[-1]))
    for call in (op.getitem, lambda x, key: x[key, ...], lambda x, key: op.setitem(x, key, 1)):
        with pytest.raises(TypeError, match="a bound of a slice in key is of type slice"):
            call(x, held[-1])
    while held:  # each by itself: Python ends a deep one by as many calls in C
        held.pop()
