"""`explain` tells who ran each operation, why, and what it moved."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch._explain import Record
from tests.conftest import required
from tests.dispatch.fake import FakeBackend, registered


@pytest.mark.at_once
def test_records_of_a_function(backend: str) -> None:
    def work(x: Any) -> Any:
        y = xp.sqrt(x) + 2.0
        return xp.max(y)

    x = xp.zeros(3)
    found = corepy.explain(work, x)
    assert float(found.result) == 2.0
    assert [record.operation for record in found.records] == ["sqrt", "add", "max"]
    assert {record.backend for record in found.records} == {backend}
    assert {record.device for record in found.records} == {"cpu"}
    assert all(record.seconds > 0 for record in found.records)
    assert found.bytes_moved == 0
    assert found.summary() == {backend: 3}
    first = work.__code__.co_firstlineno
    assert [record.caller for record in found.records] == [
        f"{__file__}:{first + line}" for line in (1, 1, 2)
    ]


def test_nothing_is_recorded_once_it_is_over(backend: str) -> None:
    x = xp.ones(2)
    before = corepy.explain(lambda: x * x)
    x * x
    assert len(before.records) == 1
    assert [r.operation for r in corepy.explain(lambda: x * x + x).records] == ["multiply", "add"]


def test_transfers_are_counted() -> None:
    with registered(FakeBackend({"add"})), corepy.set_fallback("allow"):
        x = xp.asarray([1.0, 2.0, 3.0], device="fake:0")
        found = corepy.explain(lambda: xp.sqrt(x + x))
        assert [(r.operation, r.backend, r.device) for r in found.records] == [
            ("add", "fake", "fake:0"),
            ("sqrt", "numpy", "cpu"),
        ]
        assert [r.bytes_moved for r in found.records] == [0, 48]  # 24 to the host, 24 back
        assert found.records[1].reason == "fake does not offer it"
        moved = corepy.explain(lambda: x.to_device("cpu"))
        assert [(r.operation, r.bytes_moved) for r in moved.records] == [("transfer", 24)]
        assert moved.records[0].caller.startswith(f"{__file__}:")
        assert moved.summary() == {}


def test_values_that_come_and_go_without_an_operation_are_counted() -> None:
    with registered(FakeBackend({"add"})), corepy.set_fallback("allow"):
        made = corepy.explain(lambda: xp.asarray([1.0, 2.0, 3.0], device="fake:0"))
        x = xp.asarray([1.0, 2.0, 3.0], device="fake:0")
        calls: list[Callable[[], object]] = [
            lambda: np.asarray(x),
            x.tolist,
            lambda: repr(x),
            lambda: str(x),
            lambda: pickle.dumps(x),
            lambda: xp.asarray([x], device="cpu"),
        ]
        for found in (made, *map(corepy.explain, calls)):
            assert [(r.operation, r.bytes_moved) for r in found.records] == [("transfer", 24)]
    at_home = xp.asarray([1.0, 2.0])
    assert not corepy.explain(lambda: (np.asarray(at_home), repr(at_home))).records


def test_the_time_of_an_operation_is_when_its_device_is_done() -> None:
    class Slow(FakeBackend):
        def synchronize(self, device: corepy.Device) -> None:
            time.sleep(0.02)

    with registered(Slow({"add"})):
        x = xp.asarray([1.0], device="fake:0")
        found = corepy.explain(lambda: x + x)
    (record,) = (each for each in found.records if each.operation == "add")
    assert record.seconds > 0.015


def test_str_is_a_table() -> None:
    found = corepy.explain(lambda: xp.ones(2) + xp.ones(2))
    header, *rows = str(found).splitlines()
    assert header.split()[:4] == ["operation", "backend", "device", "time"]
    assert [row.split()[0] for row in rows] == ["ones", "ones", "add"]


def test_times_are_in_the_unit_that_suits_them() -> None:
    records = [
        Record("add", "numpy", "cpu", seconds, 0, "why", "file.py:1")
        for seconds in (18.44e-6, 1.2344e-3, 22.377)
    ]
    rows = str(corepy.Explanation(None, tuple(records))).splitlines()[1:]
    assert [row.split()[3:5] for row in rows] == [["18.4", "us"], ["1.23", "ms"], ["22.38", "s"]]


def _reasons(function: Callable[[], object]) -> dict[str, str]:
    return {record.operation: record.reason for record in corepy.explain(function).records}


def test_new_arrays_are_made_where_the_defaults_or_the_user_say() -> None:
    def work() -> None:
        xp.zeros(5), xp.linspace(0, 1, 3), xp.arange(3), xp.eye(2), xp.full(2, 1), xp.empty(1)
        xp.fft.fftfreq(4)

    made = ["zeros", "linspace", "arange", "eye", "full", "empty", "fft.fftfreq"]
    first = corepy.dispatch.default_placement()
    usual = f"new arrays are made in it: {first.why}"
    assert _reasons(work) == dict.fromkeys(made, usual)
    with corepy.backend_priority(["reference"]):
        wish = "new arrays are made in it: 'reference' in the priority"
        assert _reasons(lambda: xp.ones(2)) == {"ones": wish}
    assert _reasons(lambda: xp.ones(2, device="cpu")) == {"ones": "cpu was asked for"}


def test_of_an_array_like_another_its_operand_is_the_reason() -> None:
    x = xp.ones(3)
    home = "the operands live in it"
    assert _reasons(lambda: (xp.asarray([1.0]), xp.zeros_like(x))) == {"zeros": home}
    assert _reasons(lambda: xp.astype(x, xp.float32, device="cpu")) == {"astype": home}
    with registered(FakeBackend({"zeros"})):
        asked = _reasons(lambda: xp.zeros_like(x, device="fake:0"))
    assert asked == {"zeros": "fake:0 was asked for"}


def test_a_new_array_goes_to_the_backend_that_has_its_dtype() -> None:
    with (
        registered(FakeBackend({"zeros"}, dtypes=frozenset({xp.float32}))),
        registered(Other({"zeros"}), "other"),
        corepy.backend_priority(["fake"]),
    ):
        reasons = _reasons(lambda: xp.zeros(3, dtype=xp.int8))
    why = "new arrays are made on fake:0: 'fake' in the priority, where fake lacks int8"
    assert reasons == {"zeros": why}


class Other(FakeBackend):
    name = "other"


def test_errors_pass_through_and_end_the_listening() -> None:
    def broken() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        corepy.explain(broken)
    assert not corepy.dispatch._explain.listening()
    with pytest.raises(TypeError, match="^explain: function is of type int; expected a callable"):
        corepy.explain(3)  # type: ignore[arg-type]


def test_only_the_calling_thread_is_recorded() -> None:
    def other() -> None:
        xp.ones(3) * 2.0

    def work() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        xp.ones(1)

    assert [record.operation for record in corepy.explain(work).records] == ["ones"]


def test_explain_inside_explain() -> None:
    inner: list[corepy.Explanation] = []

    def work() -> None:
        xp.ones(1)
        inner.append(corepy.explain(xp.zeros, 2))
        xp.ones(1)

    outer = corepy.explain(work)
    assert [record.operation for record in inner[0].records] == ["zeros"]
    assert [record.operation for record in outer.records] == ["ones", "zeros", "ones"]


def test_kernels_are_one_operation() -> None:
    import numpy as np

    from corepy import kernels

    small, large = np.ones((4, 6), np.float32), np.ones((100, 600), np.float32)
    x = xp.ones((4, 6), dtype=xp.float64, device="cpu")

    def work() -> None:
        kernels.silu(small)
        kernels.softmax(x, -1)  # of several operations
        x + x

    found = corepy.explain(work).records
    assert [(r.operation, r.device) for r in found] == [
        ("silu", "cpu"),
        ("softmax", "cpu"),
        ("add", "cpu"),
    ]
    assert found[0].backend == "numpy"
    assert found[0].reason.startswith("by its formula, in the functions of the library")
    assert all(r.seconds > 0 and r.caller.startswith(f"{__file__}:") for r in found)
    assert found[1].backend == x.backend
    required("numba")
    row = corepy.explain(lambda: kernels.gelu(large)).records[0]
    assert (row.operation, row.backend, row.reason) == ("gelu", "numba", "compiled kernels take it")
    with corepy.profile() as profile:
        kernels.gelu(large)
    assert "gelu" in str(profile)


def test_a_kernel_that_raises_leaves_nothing_behind() -> None:
    import numpy as np

    from corepy import kernels

    def work() -> None:
        with pytest.raises(TypeError, match="silu: x is of type list"):
            kernels.silu([1.0])
        kernels.silu(np.ones(3))

    assert [r.operation for r in corepy.explain(work).records] == ["silu"]


def test_records_tell_threads_apart_and_older_ones_can_be_read() -> None:
    record, other = corepy.explain(lambda: xp.sqrt(xp.ones(3))).records
    assert record.track == other.track > 0
    again = pickle.loads(pickle.dumps(record))
    assert (again, again.track) == (record, record.track)
    given = [getattr(record, name) for name in record.__slots__]
    older = object.__new__(corepy.Record)
    older.__setstate__(given[:-1])  # what a release wrote that knew no tracks
    assert (older, older.track) == (record, 0)
    assert corepy.Record(*given[:-1]) == record
    assert "track" not in repr(record)
