"""Arrays of NumPy's as operands mean the same from the second one on, in both forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.backends._numpy import NumPyBackend
from corepy.dispatch import _registry, adopt


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


def test_what_another_backend_made_of_them_says_nothing_of_the_next() -> None:
    backend = pytest.importorskip("corepy.backends.numba").NumbaBackend()
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
