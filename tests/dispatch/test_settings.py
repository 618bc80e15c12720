"""Settings: what a ``with`` leaves behind, in the thread that had it and in others."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import corepy
from corepy.dispatch._settings import Restore, Setting

#: How each setting is changed, the value that the test gives it, and how it is asked for.
SETTINGS: dict[str, tuple[Callable[[Any], Restore], Any, Callable[[], Any]]] = {
    "strict": (corepy.strict, True, corepy.is_strict),
    "reproducible": (corepy.reproducible, True, corepy.is_reproducible),
    "precision": (corepy.precision, "fast", corepy.get_precision),
    "fallback": (corepy.set_fallback, "raise", corepy.get_fallback),
    "autocast": (corepy.autocast, "bfloat16", corepy.get_autocast),
}


def in_thread(work: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_thread_that_leaves_its_block_hears_of_the_default_again(name: str) -> None:
    change, value, ask = SETTINGS[name]
    entered, changed = threading.Event(), threading.Event()

    def worker() -> Any:
        with change(ask()):
            pass
        entered.set()
        changed.wait()
        return ask()

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(worker()))
    thread.start()
    entered.wait()
    with change(value):
        changed.set()
        thread.join()
    assert found == [value]


def test_a_block_on_the_main_thread_puts_the_default_back() -> None:
    setting = Setting("test", 1)
    with Restore(setting, 2):
        assert (setting.get(), in_thread(setting.get)) == (2, 2)
        with Restore(setting, 3):
            assert in_thread(setting.get) == 3
        assert (setting.get(), in_thread(setting.get)) == (2, 2)
    assert (setting.get(), in_thread(setting.get)) == (1, 1)


def test_a_value_of_a_task_stays_with_it() -> None:
    setting = Setting("test", 1)

    async def change() -> int:
        setting.set(2)
        return setting.get()

    assert asyncio.run(change()) == 2
    assert (setting._default, setting.get(), in_thread(setting.get)) == (1, 1, 1)


def test_a_value_of_a_task_of_another_loop_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    running = ["trio"]

    def current_async_library() -> str:
        if not running:
            raise RuntimeError("AsyncLibraryNotFoundError: unknown async library")
        return running[0]

    sniffio = SimpleNamespace(current_async_library=current_async_library)
    monkeypatch.setitem(sys.modules, "sniffio", sniffio)
    setting = Setting("test", 1)
    setting.set(2)
    assert (setting._default, setting.get(), in_thread(setting.get)) == (1, 2, 1)
    running.clear()
    setting.set(3)
    assert (setting._default, in_thread(setting.get)) == (3, 3)
    monkeypatch.setitem(sys.modules, "sniffio", SimpleNamespace())  # in the midst of its import
    setting.set(4)
    assert setting._default == 4


def test_a_block_that_ends_elsewhere_or_twice_gives_the_value_from_before() -> None:
    setting = Setting("test", 1)
    setting.set(2)
    block = Restore(setting, 3)
    contextvars.copy_context().run(block.__exit__, None, None, None)
    assert setting._default == 2
    with block:
        pass
    assert setting.get() == 2
    with block:
        pass
    assert setting.get() == 2


def in_task(work: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return work()

    return asyncio.run(run())


@pytest.mark.parametrize("elsewhere", [in_thread, in_task])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_block_that_ends_elsewhere_puts_the_default_back(
    name: str, elsewhere: Callable[[Callable[[], Any]], Any]
) -> None:
    change, value, ask = SETTINGS[name]

    def block() -> Iterator[None]:
        with change(value):
            yield

    def work() -> None:
        before, generator = in_thread(ask), block()
        assert before != value
        next(generator)
        assert (ask(), in_thread(ask)) == (value, value)
        elsewhere(generator.close)  # type: ignore[attr-defined]
        assert in_thread(ask) == before

    contextvars.copy_context().run(work)  # in which the value stays, for no thread can reach it


def test_who_ends_the_block_of_another_thread_goes_on_following_the_default() -> None:
    setting, block = Setting("test", 1), list[Restore]()
    left, changed = threading.Event(), threading.Event()
    found = list[int]()

    def worker() -> None:
        block[0].__exit__(None, None, None)
        found.append(setting.get())
        left.set()
        changed.wait()
        found.append(setting.get())

    def work() -> None:
        block.append(Restore(setting, 2))
        thread = threading.Thread(target=worker)
        thread.start()
        left.wait()
        setting.set(3)
        changed.set()
        thread.join()

    contextvars.copy_context().run(work)
    assert found == [1, 3]


def test_the_main_thread_ends_the_block_of_another_one_without_a_word_for_all() -> None:
    setting, block = Setting("test", 1), list[Restore]()

    def worker() -> None:
        setting.set(2)
        block.append(Restore(setting, 3))

    in_thread(worker)
    with block[0]:
        pass
    assert (setting.get(), in_thread(setting.get)) == (1, 1)


def test_what_a_watcher_refuses_is_not_set() -> None:
    setting = Setting("test", 1)

    def refuse() -> None:
        if setting.get() == 2:
            raise ValueError("refused")

    setting.watchers.append(refuse)
    with pytest.raises(ValueError, match="^refused$"):
        setting.set(2)
    assert (setting.get(), in_thread(setting.get)) == (1, 1)
    setting.set(3)
    assert (setting.get(), in_thread(setting.get)) == (3, 3)


def test_a_scope_that_ends_elsewhere_gives_the_value_from_before() -> None:
    setting = Setting("test", 1)
    scope = setting.scoped(2)
    contextvars.copy_context().run(scope.__enter__)  # as the task that began a generator does

    def leave() -> int:
        setting._local.set(2)
        scope.__exit__(None, None, None)
        return setting.get()

    assert contextvars.copy_context().run(leave) == 1
    assert setting.get() == 1


def test_a_scope_that_ends_elsewhere_puts_the_default_back() -> None:
    setting = Setting("test", 1)

    def work() -> None:
        scope = setting.scoped(2)
        scope.__enter__()
        setting.set(3)
        in_thread(lambda: scope.__exit__(None, None, None))

    contextvars.copy_context().run(work)
    assert (setting.get(), in_thread(setting.get)) == (1, 1)


@pytest.mark.parametrize("set_before", [False, True])
def test_after_a_scope_all_is_as_before_whatever_was_set_inside(set_before: bool) -> None:
    setting, seen = Setting("test", 1), list[int]()
    if set_before:
        setting.set(2)
    setting.watchers.append(lambda: seen.append(setting._default))
    before = setting.get()
    with setting.scoped(3):
        setting.set(4)
        assert (setting.get(), in_thread(setting.get)) == (4, 4)
    assert (setting.get(), in_thread(setting.get)) == (before, before)
    assert seen[-1] == before


def test_a_scope_of_another_thread_leaves_the_default_alone() -> None:
    setting, entered, changed = Setting("test", 1), threading.Event(), threading.Event()

    def worker() -> None:
        with setting.scoped(2):
            entered.set()
            changed.wait()

    thread = threading.Thread(target=worker)
    thread.start()
    entered.wait()
    setting.set(3)
    changed.set()
    thread.join()
    assert (setting.get(), in_thread(setting.get)) == (3, 3)


def test_who_watches_hears_of_the_end_too() -> None:
    setting, seen = Setting("test", 1), list[int]()
    setting.watchers.append(lambda: seen.append(setting._default))
    with Restore(setting, 2):
        pass
    assert seen == [2, 1]
