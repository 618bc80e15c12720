"""Eight threads with different priorities and shared arrays give the same results as one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import corepy
import corepy.array_api as xp
from corepy.devices import as_device
from corepy.dispatch import load
from tests.dispatch.fake import FakeBackend, registered

COUNT = 8


@pytest.fixture(autouse=True)
def busy_switching() -> Iterator[None]:
    """Switch threads as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], Any], count: int = COUNT) -> list[Any]:
    """Start some threads at once and return what each gave."""
    barrier = threading.Barrier(count)

    def start(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def on_host() -> list[str]:
    """Return the backends whose arrays meet those of others."""
    names = corepy.usable_backends()
    return [name for name in names if as_device("cpu") in load(name).devices()]


def program(shared: Any) -> list[Any]:
    """Compute with an array of another thread and with some of one's own."""
    own = xp.reshape(xp.arange(12, dtype=xp.float64), (3, 4))
    total = shared + own * 2.0
    return [
        xp.sum(total, axis=0).tolist(),
        xp.sort(xp.reshape(total, (-1,)), descending=True).tolist(),
        (xp.matmul(total, xp.matrix_transpose(own)) > 100.0).tolist(),
        xp.concat([shared, own], axis=1)[1, ::2].tolist(),
        xp.astype(total, xp.int32).tolist(),
        xp.where(total > 10.0, total, 0.0).tolist(),
        xp.unique_values(xp.floor(total / 3.0)).tolist(),
    ]


def test_threads_with_different_priorities_agree_with_one() -> None:
    shared = xp.reshape(xp.arange(12, dtype=xp.float64), (3, 4))
    expected = program(shared)
    names = on_host()
    assert {"numpy", "reference"} <= set(names)

    def work(number: int) -> tuple[list[Any], str]:
        name = names[number % len(names)]
        found = []
        for _ in range(5):
            with corepy.backend_priority([name]):
                found.append((program(shared), xp.ones(1).backend))
        assert all(result == found[0] for result in found)
        return found[0]

    for number, (result, backend) in enumerate(together(work)):
        assert result == expected
        assert backend == names[number % len(names)]
    assert shared.tolist() == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]


def test_each_thread_keeps_what_it_set() -> None:
    names = corepy.usable_backends()

    def work(number: int) -> set[str]:
        corepy.set_backend(names[number % len(names)])
        return {xp.zeros(2).backend for _ in range(50)}

    assert together(work) == [{names[number % len(names)]} for number in range(COUNT)]
    assert corepy.get_backend_priority() == ()


def test_strictness_is_each_threads_own() -> None:
    x, y = xp.ones(2), xp.ones(2, dtype=xp.int8)

    def work(number: int) -> list[bool]:
        refused = []
        with corepy.strict(number % 2 == 0):
            for _ in range(50):
                try:
                    x + y
                except TypeError:
                    refused.append(True)
                else:
                    refused.append(False)
        return refused

    assert together(work) == [[number % 2 == 0] * 50 for number in range(COUNT)]


def test_tables_fill_once_while_backends_come_and_go() -> None:
    """Threads compute while others register, unregister and explain: nothing is lost."""

    def work(number: int) -> Any:
        if number == 0:
            for i in range(20):
                passing = FakeBackend({"add"})
                passing.name = f"passing{i}"  # type: ignore[misc]
                with registered(passing, passing.name):
                    xp.ones(1)
            return None
        if number == 1:
            return [len(corepy.explain(lambda: xp.ones(3) * 2.0).records) for _ in range(20)]
        x = xp.asarray([1.0, 2.0, 3.0])
        return [xp.sum(xp.exp(xp.log(x)) * number).tolist() for _ in range(50)]

    _, counts, *results = together(work)
    assert counts == [2] * 20
    for number, found in enumerate(results, start=2):
        assert found == pytest.approx([6.0 * number] * 50)


def test_broken_work_in_one_thread_hurts_no_other() -> None:
    def work(number: int) -> Any:
        x = xp.ones(3, dtype=xp.int8)
        if number % 2:
            for _ in range(30):
                with pytest.raises(ZeroDivisionError):
                    x // 0
            return None
        return {tuple((x + 1).tolist()) for _ in range(30)}

    assert together(work) == [None if number % 2 else {(2, 2, 2)} for number in range(COUNT)]


def test_threads_that_write_to_parts_of_one_array_lose_nothing() -> None:
    for name in on_host():
        if name == "mlx":  # whose arrays belong to the thread that asked for them, until computed
            continue
        with corepy.backend_priority([name]):
            shared = xp.zeros((3, COUNT * 4))

        def write(number: int, shared: Any = shared) -> None:
            for column in range(number, COUNT * 4, COUNT):
                shared[:, column] = float(column)

        together(write)
        assert shared.tolist() == [[float(column) for column in range(COUNT * 4)]] * 3, name
