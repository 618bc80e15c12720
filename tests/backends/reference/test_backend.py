"""The adapter: its table, its arrays' way to and from NumPy, and life without mpmath."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import corepy
from conformance.make_signatures import TABLE
from corepy import _cli, _dtypes
from corepy import array_api as xp
from corepy._dtypes import DTYPES
from corepy.backends import reference
from corepy.backends.reference import ReferenceArray
from corepy.backends.reference._backend import _OPERATIONS, ReferenceBackend
from corepy.devices._device import CPU
from tests.backends.reference.values import ALL_DTYPES, assert_same, sample

BACKEND = ReferenceBackend()
#: Functions of the standard that lists of values have no use for.
NOT_IN_PYTHON = {"from_dlpack"}


def test_lists_of_values_leave_nothing_for_the_collector() -> None:
    x = reference.ones((2, 0, 3)), reference.ones((2, 3))
    gc.collect()
    gc.disable()
    try:
        assert [each.tolist() for each in x] == [[[], []], [[1.0] * 3] * 2]
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_the_table_is_the_standards() -> None:
    chapters = json.loads(Path(TABLE).read_text(encoding="utf-8"))["chapters"].values()
    functions = {name for chapter in chapters for name in chapter} - NOT_IN_PYTHON
    assert {*_OPERATIONS} == functions | {"__getitem__", "__setitem__"}
    for name in functions:
        assert BACKEND.operation(name) is getattr(reference, name)
        assert getattr(reference, name).__name__ == name
        assert getattr(reference, name).__doc__
    assert BACKEND.operation("no_such_function") is None
    assert BACKEND.operation("linalg.no_such_function") is None


@pytest.mark.needs("mpmath")
def test_extensions_are_found() -> None:
    for name in ("linalg.det", "linalg.matmul", "fft.fft"):
        operation = BACKEND.operation(name)
        assert operation is not None
        assert operation.__name__ == name.partition(".")[2]


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_numpy_and_back(name: str) -> None:
    for x in (sample((2, 3), name), sample((), name), sample((0, 2), name), sample((3, 2), name).T):
        native = BACKEND.from_numpy(x, CPU)
        assert_same(native, x)
        back = BACKEND.to_numpy(native)
        assert back.dtype == x.dtype
        assert back.shape == x.shape
        assert np.array_equal(back, x)
        assert not BACKEND.shares_memory(native, back)


def test_memory_is_never_shared() -> None:
    with pytest.raises(ValueError, match="^reference keeps lists"):
        BACKEND.to_numpy(reference.asarray([1]), copy=False)
    with pytest.raises(ValueError, match="^reference keeps lists"):
        BACKEND.from_numpy(np.zeros(1), CPU, copy=False)


def test_arrays_and_scalars() -> None:
    x = BACKEND.scalar(0.1, _dtypes.float32, CPU)
    assert x == ReferenceArray([float(np.float32(0.1))], (), _dtypes.float32)
    assert BACKEND.item(BACKEND.scalar(True, _dtypes.bool, CPU)) is True
    assert BACKEND.item(BACKEND.scalar(2, _dtypes.complex64, CPU)) == 2 + 0j
    assert BACKEND.owns(x)
    assert not BACKEND.owns(np.zeros(1))
    assert BACKEND.dtype_of(x) is BACKEND.native_dtype(_dtypes.float32) is _dtypes.float32
    assert BACKEND.devices() == (CPU,)
    assert BACKEND.shape_of(x) == ()
    assert BACKEND.is_available()
    assert BACKEND.capabilities(CPU).dtypes == frozenset(DTYPES.values())


def test_execute() -> None:
    x = reference.asarray([[1, 2], [3, 4]])
    assert BACKEND.execute("sum", [x], axis=(0,)) == [4, 6]
    assert BACKEND.execute("__getitem__", [x, (0, slice(None))]) == [1, 2]


#: Arithmetic in a process that has neither NumPy nor mpmath.
ALONE = """
import sys
sys.modules["numpy"] = sys.modules["mpmath"] = None
from corepy.backends import reference
from corepy.backends.reference._backend import ReferenceBackend
assert reference.add([1, 2, 3], [4, 5, 6]) == [5, 7, 9]
assert abs(reference.exp(1.0).values[0] - 2.718281828459045) < 1e-15
assert abs(reference.log(1j).values[0] - 1.5707963267948966j) < 1e-15
assert reference.std([1.0, 3.0]) == 1.0
assert ReferenceBackend().operation("linalg.det") is None
assert ReferenceBackend().unserved() == ("linalg and fft need mpmath: pip install mpmath",)
assert ReferenceBackend().operation("add") is reference.add
"""


def test_nothing_else_is_needed() -> None:
    subprocess.run([sys.executable, "-c", ALONE], check=True, timeout=60)


def test_info_tells_what_mpmath_is_needed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpmath", None)  # as where it is not installed
    facts = _cli.gather()
    (row,) = (row for row in facts["backends"] if row["name"] == "reference")
    assert row["usable"]
    assert "linalg and fft need mpmath: pip install mpmath" in _cli.render(facts, _cli.Style(False))
    x = xp.asarray([[2.0]])
    with corepy.set_fallback("allow"):
        found = corepy.explain(xp.linalg.det, corepy.to(x, backend="reference"))
    assert found.records[-1].reason == "reference does not offer it"
