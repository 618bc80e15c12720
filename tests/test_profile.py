"""`corepy.profile`: where the time goes, in tables, a page and a trace."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable
from copy import copy, deepcopy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import corepy
import corepy.array_api as xp
from corepy import _profile
from corepy.dispatch import _explain
from tests.dispatch.fake import FakeBackend, registered


@pytest.fixture(autouse=True)
def numpy_first() -> Any:
    with corepy.backend_priority(["numpy"]):
        yield


def work() -> None:
    x = xp.ones(100)
    for _ in range(3):
        x = x + 1.0
    xp.sum(x)


def test_sums_by_operation_and_line() -> None:
    with corepy.profile() as found:
        work()
    totals = found.by_operation()
    assert {place: total.calls for place, total in totals.items()} == {
        ("ones", "numpy", "cpu"): 1,
        ("add", "numpy", "cpu"): 3,
        ("sum", "numpy", "cpu"): 1,
    }
    seconds = [total.seconds for total in totals.values()]
    assert seconds == sorted(seconds, reverse=True)
    first = work.__code__.co_firstlineno
    assert {line: total.calls for line, total in found.by_caller().items()} == {
        f"{__file__}:{first + 1}": 1,
        f"{__file__}:{first + 3}": 3,
        f"{__file__}:{first + 4}": 1,
    }
    assert found.total.calls == 5
    assert found.total.seconds == pytest.approx(sum(seconds))
    assert 0 < found.total.seconds <= found.seconds
    assert found.total.bytes_moved == 0


def test_operations_of_a_handler_while_it_is_summed_up() -> None:
    with corepy.profile() as found:
        work()

        def key(of: tuple[str, ...]) -> str:  # in the place of a signal's handler
            xp.negative(xp.ones((len(found.totals),)))
            return of[0]

        assert {"ones", "add", "sum"} <= found._by(key).keys()
    assert ("negative", "numpy", "cpu") in found.by_operation()


def test_every_thread_is_heard() -> None:
    with corepy.profile() as found:
        threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with corepy.profile() as inner:
            work()
        one = corepy.explain(work)
    assert found.total.calls == 30
    assert inner.total.calls == len(one.records) == 5
    assert {record.thread for record in found.events} == {
        threading.current_thread().name,
        *(f"worker {i}" for i in range(4)),
    }
    assert not _explain.listening()
    work()
    assert found.total.calls == 30  # nothing is heard any more


def test_what_moves_is_counted_and_reasons_are_told() -> None:
    with registered(FakeBackend({"add"})), corepy.set_fallback("allow"), corepy.profile() as found:
        x = xp.asarray([1.0, 2.0, 3.0], device="fake:0")
        xp.sqrt(x + x)
        x.to_device("cpu")
    assert found.by_operation()["sqrt", "numpy", "cpu"].bytes_moved == 48
    assert found.by_operation()["transfer", "numpy", "cpu"].bytes_moved >= 24
    assert "fake does not offer it" in str(found)


def test_the_table_names_the_longest_and_counts_the_rest() -> None:
    with corepy.profile() as found:
        work()
    headline, _, header, *rows = found.table(top=2).splitlines()
    assert headline.startswith("5 operations took ")
    assert header.split()[:5] == ["operation", "backend", "device", "calls", "time"]
    assert rows[2] == "... and 1 more"
    assert rows[-1] == "... and 1 more"
    assert str(found) == found.table(20)
    with pytest.raises(ValueError, match="^table: top is 0; expected at least 1"):
        found.table(0)
    with pytest.raises(TypeError, match="^table: top is of type str; expected an int"):
        found.table("3")  # type: ignore[arg-type]


def test_its_time_is_that_of_the_block() -> None:
    start = time.perf_counter()
    with corepy.profile() as found:
        time.sleep(0.01)
    assert 0.005 < found.seconds <= time.perf_counter() - start


def test_the_reason_is_that_of_the_most_calls() -> None:
    found = _profile.Profile()
    place = "add", "numpy", "cpu"
    for reason, caller, calls in (("often", "a:1", 3), ("seldom", "b:1", 1), ("seldom", "b:2", 1)):
        for _ in range(calls):
            found._take(_explain.Record(*place, 1.0, 0, reason, caller, 0.0, "main"))
    assert [row[-1] for row in found._operation_rows()] == ["often"]


def test_nothing_at_all() -> None:
    with corepy.profile() as found:
        pass
    assert found.table().startswith("0 operations took 0.0 us in the backends, of ")
    assert found.by_operation() == {}


@pytest.mark.parametrize("again", [copy, deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_it_can_be_sent_to_another_process(again: Callable[[Any], Any]) -> None:
    with corepy.profile() as found:
        work()
    other = again(found)
    assert (str(other), other.events) == (str(found), found.events)
    other._take(found.events[0])
    assert len(other.events) == len(found.events) + 1


def test_what_the_block_raises_passes_and_the_profile_stays() -> None:
    kept: list[corepy.Profile] = []

    def fails() -> None:
        with corepy.profile() as found:
            kept.append(found)
            work()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    (found,) = kept
    assert found.total.calls == 5
    assert found.seconds > 0
    assert not _explain.listening()


# ---------------------------------------------------------------------------- files


def test_a_trace_has_an_event_for_each_operation(tmp_path: Path) -> None:
    with corepy.profile() as found:
        work()
    found.write_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    names = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [event["args"]["name"] for event in names] == [threading.current_thread().name]
    assert [event["name"] for event in events] == ["ones", "add", "add", "add", "sum"]
    assert {event["tid"] for event in events} == {names[0]["tid"]}
    for event, record in zip(events, found.events, strict=True):
        assert event["dur"] == pytest.approx(record.seconds * 1e6)
        assert event["args"]["caller"] == record.caller
        assert event["cat"] == "numpy"
    ends = [event["ts"] + event["dur"] for event in events]
    assert events[0]["ts"] >= 0
    assert all(end <= event["ts"] for end, event in zip(ends, events[1:], strict=False))
    assert ends[-1] <= found.seconds * 1e6
    assert trace["otherData"] == {"operations left out": 0}


def test_long_programs_keep_the_first_events_and_all_sums(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_profile, "EVENTS", 3)
    with corepy.profile() as found:
        work()
    assert len(found.events) == 3
    assert found.total.calls == 5
    found.write_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["otherData"] == {"operations left out": 2}


def test_a_trace_has_a_track_for_each_thread(tmp_path: Path) -> None:
    together = threading.Barrier(2)

    def wait_and_work() -> None:
        together.wait(60)
        work()
        together.wait(60)

    with corepy.profile() as found:
        threads = [threading.Thread(target=wait_and_work, name="worker") for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in ("first", "second"):  # which may have the same ident
            thread = threading.Thread(target=work, name=name)
            thread.start()
            thread.join()
    found.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {each["tid"]: each["args"]["name"] for each in events if each["ph"] == "M"}
    assert sorted(names.values()) == ["first", "second", "worker", "worker"]
    for track in names:
        own = [each["name"] for each in events if each["ph"] == "X" and each["tid"] == track]
        assert own == ["ones", "add", "add", "add", "sum"]


def test_a_thread_that_is_renamed_has_one_track(tmp_path: Path) -> None:
    def work_twice() -> None:
        work()
        threading.current_thread().name = "later"
        work()

    with corepy.profile() as found:
        thread = threading.Thread(target=work_twice, name="sooner")
        thread.start()
        thread.join()
    found.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [each["args"]["name"] for each in events if each["ph"] == "M"] == ["sooner"]
    assert len({each["tid"] for each in events}) == 1


class Page(HTMLParser):
    """Reads texts, widths of bars, and whether tags close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.widths: list[float] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        style = dict(attrs).get("style") or ""
        if style.startswith("width:"):
            self.widths.append(float(style[6:].partition("%")[0]))

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_a_page_has_bars_in_proportion(tmp_path: Path) -> None:
    with corepy.profile() as found:
        work()
    found.write_html(tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text())
    assert found._headline() in page.texts
    totals = list(found.by_operation().values())
    longest = totals[0].seconds
    assert page.widths == pytest.approx([100 * t.seconds / longest for t in totals], abs=1e-3)
    assert {"ones", "add", "sum", "numpy"} <= set(page.texts)


def test_a_page_shows_names_as_they_are(tmp_path: Path) -> None:
    found = corepy.Profile()
    found._take(corepy.Record("<b>", "a&b", "cpu", 1.0, 0, "<why>", "<string>:1"))
    found.write_html(tmp_path / "page.html")
    assert {"<b>", "a&b", "<why>", "<string>:1"} <= {
        *Page((tmp_path / "page.html").read_text()).texts
    }


def test_a_program_may_have_a_name_that_is_no_text(tmp_path: Path) -> None:
    found = corepy.Profile()
    found._take(corepy.Record("add", "numpy", "cpu", 1.0, 0, "why", "pro\udcffgram.py:1"))
    found.write_html(tmp_path / "page.html")
    assert "pro\\udcffgram.py:1" in (tmp_path / "page.html").read_text(encoding="utf-8")
    found.write_trace(tmp_path / "trace.json")
    assert "pro\\udcffgram.py:1" in (tmp_path / "trace.json").read_text(encoding="utf-8")
