"""Ctrl-C in the midst of what corepy changes for a block: all is as before."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import _apart, _blas, _forks, kernels
from corepy.dispatch import _explain, _settings
from corepy.dispatch._settings import Restore, Setting
from corepy.kernels.attention import _cache, _cache_memory

#: Where Python looks for interrupts before the first line of a function that it calls by itself.
_UNGUARDED = {"__exit__", "_take"}


def interrupted(work: Callable[[], object], *modules: ModuleType) -> Iterator[int]:
    """Do something time and again, with an interrupt at another place of modules each time.

    Python looks for interrupts as a function begins and as one written in C has returned.
    """
    files = {module.__file__ for module in modules}
    for place in count():
        seen = 0

        def look(frame: FrameType, event: str, _: Any, place: int = place) -> None:
            nonlocal seen
            code = frame.f_code
            begins = event == "call" and code.co_name not in _UNGUARDED
            if code.co_flags & inspect.CO_GENERATOR:
                begins = False  # or goes on, which the interpreter does not tell apart
            if code.co_filename in files and (begins or event == "c_return"):
                seen += 1
                if seen == place + 1:
                    raise KeyboardInterrupt

        sys.setprofile(look)
        try:
            work()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        if seen <= place:
            assert place > 2, "hardly anything was interrupted"
            return
        yield place


def test_each_block_of_a_cache_is_free_or_of_one_sequence() -> None:
    made = [kernels.PagedKVCache(2, 1, 8, 2, 1) for _ in range(2)]
    ones = np.ones((2, 1, 3, 1), np.float32)

    def state(cache: Any) -> Any:
        return cache.lengths.tolist(), cache._tables, cache._free

    for cache in made:
        cache.append(ones, ones)
    cache, wanted = made
    for _ in interrupted(lambda: cache.append(ones, ones), _cache, _cache_memory):
        assert state(cache) == state(wanted)
    wanted.append(ones, ones)
    assert state(cache) == state(wanted)
    cache = kernels.PagedKVCache(2, 1, 8, 2, 1)

    def work() -> None:
        cache.append(ones, ones)
        cache.free(1)
        cache.free(0)

    for _ in interrupted(work, _cache, _cache_memory):
        held = [*cache._free, *cache._tables[0], *cache._tables[1]]
        assert len(set(held)) == len(held)
        for length, table in zip(cache.lengths, cache._tables, strict=True):
            assert length <= 2 * len(table)
        cache = kernels.PagedKVCache(2, 1, 8, 2, 1)


def test_nobody_listens_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[bool] = []
    monkeypatch.setattr(_explain, "_refill", lambda: filled.append(_explain.listening()))

    @_explain.one_operation
    def kernel() -> None:
        pass

    def work() -> None:
        with corepy.profile():
            corepy.explain(kernel)

    for _ in interrupted(work, _explain):
        assert not _explain.listening()
        assert _explain._everywhere == _explain._here.get() == ()
        assert filled[-1:] in ([], [False])  # the tables hand out native callables again
        assert not _explain._note.inside


def test_an_interrupt_while_tables_are_emptied_ends_the_listening(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for bad in 1, 2:  # as it begins, and as it ends
        calls = count(1)

        def refill(bad: int = bad, calls: Iterator[int] = calls) -> None:
            if next(calls) == bad:
                raise KeyboardInterrupt

        monkeypatch.setattr(_explain, "_refill", refill)
        with pytest.raises(KeyboardInterrupt):
            corepy.explain(int)
        assert not _explain.listening()
        assert next(calls) == bad + 2  # once more


class Library:
    """Uses as many threads as it is told to, on processors 0 and 1."""

    def __init__(self) -> None:
        self.count, self.mask = 4, 3
        self.dynlib = self

    def get_num_threads(self) -> int:
        return self.count

    def set_num_threads(self, count: int) -> None:
        self.count = count

    def openblas_getaffinity(self, _: int, size: object, mask: Any) -> int:
        mask._obj[0] = self.mask
        return 0

    def openblas_setaffinity(self, _: int, size: object, mask: Any) -> None:
        self.mask = mask._obj[0]


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> list[Library]:
    made = [Library(), Library()]
    monkeypatch.setattr(_blas, "_libraries", lambda: made)
    monkeypatch.setattr(_blas, "_placeable", lambda: made)
    monkeypatch.setattr(_blas, "can_hold", lambda: True)
    monkeypatch.setattr(_blas, "budget", lambda: None)
    return made


def test_blas_has_all_its_threads_after_an_interrupt(libraries: list[Library]) -> None:
    def work() -> None:
        with _blas.held(2), _blas.held(1):
            assert [library.count for library in libraries] == [1, 1]

    for _ in interrupted(work, _blas):
        assert [library.count for library in libraries] == [4, 4]
        assert not _blas._HOLD._holders
        assert not _blas._HOLD._before
        assert free(_blas._HOLD._lock)


def test_blas_is_held_by_who_comes_in_the_midst_of_holding_it(libraries: list[Library]) -> None:
    """A handler of a signal, or a finalizer: Python runs them anywhere, in the same thread."""
    hold = _blas._Hold
    functions = hold.enter, hold.leave, hold._put_back, *vars(Library).values()
    codes = {getattr(function, "__code__", None) for function in functions}
    for place in count():
        seen = 0

        def look(frame: FrameType, event: str, _: Any, place: int = place) -> None:
            nonlocal seen
            if frame.f_code in codes and event != "c_call":
                seen += 1
                if seen == place + 1:
                    sys.setprofile(None)
                    with _blas.held(1):
                        assert [library.count for library in libraries] == [1, 1]

        sys.setprofile(look)
        with _blas.held(2):
            sys.setprofile(None)
            assert all(library.count <= 2 for library in libraries)
            sys.setprofile(look if seen <= place else None)
        sys.setprofile(None)
        assert [library.count for library in libraries] == [4, 4]
        assert not _blas._HOLD._holders
        assert not _blas._HOLD._before
        if seen <= place:
            assert place > 20, "hardly anything was interrupted"
            return


def test_an_interrupt_in_one_of_two_libraries(
    libraries: list[Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    def give(count: int) -> None:
        if count == 1:
            raise KeyboardInterrupt
        libraries[1].count = count

    monkeypatch.setattr(libraries[1], "set_num_threads", give)
    with _blas.held(2):
        with pytest.raises(KeyboardInterrupt), _blas.held(1):
            pass
        assert [library.count for library in libraries] == [1, 2]
    assert [library.count for library in libraries] == [4, 4]


def test_threads_of_blas_may_go_anywhere_after_an_interrupt(libraries: list[Library]) -> None:
    kept: list[Any] = []

    def work() -> None:
        kept.clear()
        kept.append(_blas._keep_off(0))
        assert [library.mask for library in libraries] == [2, 2]

    for _ in interrupted(work, _blas):
        assert not kept
        assert [library.mask for library in libraries] == [3, 3]
    kept[0]()


@pytest.fixture
def placing(monkeypatch: pytest.MonkeyPatch) -> tuple[_apart.Apart, list[int]]:
    """What places threads apart from processor 5, and the list where that stands meanwhile."""
    placed: list[int] = []

    def place(processor: int) -> Callable[[], None]:
        placed.append(processor)
        return placed.clear

    apart = _apart.Apart(place)
    monkeypatch.setattr(_apart._places, "here", lambda: 5)
    monkeypatch.setattr(apart, "_has_slept", lambda: True)
    return apart, placed


def test_threads_are_no_longer_apart_after_an_interrupt(
    placing: tuple[_apart.Apart, list[int]],
) -> None:
    apart, placed = placing

    def work() -> None:
        with apart:
            assert placed == [5]

    for _ in interrupted(work, _apart):
        assert not placed
        assert not apart._holder
        assert apart._undo is None


def test_what_an_interrupt_left_apart_the_next_block_puts_back(
    placing: tuple[_apart.Apart, list[int]],
) -> None:
    apart, placed = placing
    apart.__enter__()  # and an interrupt before the first line of its `__exit__`
    with apart:
        assert placed == [5]
    assert not placed


def free(lock: Any) -> bool:
    """Say whether another thread can take a lock."""
    found: list[bool] = []

    def attempt() -> None:
        found.append(lock.acquire(blocking=False))
        if found[0]:
            lock.release()

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found[0]


def test_who_forks_has_all_locks_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    locks: list[AbstractContextManager[Any]] = [threading.RLock() for _ in range(3)]
    monkeypatch.setattr(_forks, "_locks", locks)
    monkeypatch.setattr(_forks, "_late", [])

    def work() -> None:
        with _forks._GATE:  # no thread of another test forks meanwhile
            _forks._take()

    for _ in interrupted(work, _forks):
        assert _forks._late == [signal.SIGINT]
        _forks._late.clear()
        assert not any(map(free, (*locks, _forks._GATE)))
        _forks._holds.clear()
        assert all(map(free, (*locks, _forks._GATE)))
    _forks._holds.clear()


def test_a_setting_is_as_before_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting("test", 1)

    def refuse() -> bool:
        raise KeyboardInterrupt

    blocks = [Restore(setting, 2)]
    for _ in interrupted(lambda: blocks.pop().__exit__(None, None, None), _settings):
        assert (setting.get(), setting._default) == (1, 1)
        blocks.append(Restore(setting, 2))
    assert (setting.get(), setting._default) == (1, 1)
    monkeypatch.setattr(_settings, "_speaks_for_all", refuse)
    with pytest.raises(KeyboardInterrupt):
        setting.set(3)
    assert (setting.get(), setting._default) == (1, 1)


def test_a_setting_while_another_thread_imports_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncio", ModuleType("asyncio"))
    with corepy.precision("fast"):
        assert corepy.get_precision() == "fast"
