"""`corepy.profile` and ``corepy profile``: where the time goes, in tables, a page and a trace."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NoReturn

import pytest

import corepy
import corepy.array_api as xp
from corepy import _cli_profile, _profile
from corepy._cli import main
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


# ---------------------------------------------------------------------------- the command

PROGRAM = """
import sys
import corepy.array_api as xp
from beside import number
print(sys.argv, __name__)
xp.sum(xp.ones(number))
if len(sys.argv) > 1:
    ends = {"exit": SystemExit(3), "message": SystemExit("done"), "error": KeyError("mine")}
    raise ends[sys.argv[1]]
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "beside.py").write_text("number = 7\n")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_a_program_is_run_as_python_would(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / "page.html"), str(tmp_path / "trace.json")]
    assert main(["profile", "--html", files[0], "--trace", files[1], program]) == 0
    out, err = capsys.readouterr()
    assert out == f"{[program]} __main__\n"
    assert err.startswith("2 operations took ")
    assert f"{program}:6" in err
    assert "<title>corepy profile</title>" in Path(files[0]).read_text()
    assert len(json.loads(Path(files[1]).read_text())["traceEvents"]) == 3


@pytest.mark.parametrize(("how", "status"), [("exit", 3), ("message", 1)])
def test_a_programs_exit_is_the_commands(
    program: str, how: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", program, how]) == status
    err = capsys.readouterr().err
    assert err.startswith("2 operations took ")
    assert err.endswith("done\n") is (how == "message")


def test_options_after_the_program_are_the_programs_and_that_is_told(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, trace = str(tmp_path / "page.html"), str(tmp_path / "trace.json")
    given = ["exit", f"--html={page}", "--trace", "x"]
    assert main(["profile", "--trace", trace, program, *given]) == 3
    out, err = capsys.readouterr()
    assert out == f"{[program, *given]} __main__\n"
    told = "corepy: profile: --html is passed to the program, for it comes after its name\n"
    assert err.startswith(told)
    assert "--trace is passed" not in err
    assert not Path(page).exists()


@pytest.mark.parametrize("given", [["--", "x"], ["x", "--", "-y"], ["--"], ["-m", "--top", "2"]])
@pytest.mark.parametrize("before", [[], ["--"]])
def test_a_programs_arguments_are_what_it_was_given(
    given: list[str],
    before: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "given_to.py").write_text("import sys; print(sys.argv[1:])\n")
    monkeypatch.chdir(tmp_path)
    for program in (["given_to.py"], ["-m", *before, "given_to"]):
        assert main(["profile", *program, *given]) == 0
        assert capsys.readouterr().out == f"{given}\n"
    assert main(["profile", *before, "given_to.py", *given]) == 0
    assert capsys.readouterr().out == f"{given}\n"


def test_a_program_that_fails_is_reported_all_the_same(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", program, "error"]) == 1
    told, _, report = capsys.readouterr().err.partition("\nKeyError: 'mine'\n")
    assert told.startswith(f'Traceback (most recent call last):\n  File "{program}", line 9, in ')
    assert report.startswith("2 operations took ")


_FAILS = """
import sys, threading
import corepy
import corepy.array_api as xp
def work():
    told.wait(60)
    xp.sin(xp.ones(3))
    print("worked", file=sys.stderr)
def hook(kind, value, trace):
    assert sys.exc_info() == (None, None, None)
    sys.__excepthook__(kind, value, trace)
    told.set()
told = threading.Event()
sys.excepthook = hook
threading.Thread(target=work).start()
raise {}
"""


@pytest.mark.parametrize(
    ("error", "status"),
    [("ValueError('mine')", 1), ("corepy.BackendError", 1), ("KeyboardInterrupt", -signal.SIGINT)],
)
def test_a_program_that_fails_ends_as_it_would_alone(
    tmp_path: Path, error: str, status: int
) -> None:
    program = tmp_path / "fails.py"
    program.write_text(_FAILS.format(error))
    alone, profiled = (
        subprocess.run(
            [sys.executable, *command, str(program)], capture_output=True, text=True, check=False
        )
        for command in ([], ["-m", "corepy", "profile"])
    )
    assert "Traceback" in alone.stderr
    assert alone.stderr.endswith("\nworked\n")
    assert profiled.stderr.startswith(f"{alone.stderr}2 operations took ")
    assert profiled.stderr.count("Traceback") == 1
    # That of `alone` may differ after an interrupt: Python forgets it where a thread calls `exec`.
    assert profiled.returncode == status


@pytest.mark.parametrize(
    ("body", "status"), [("raise KeyError('hook')", 1), ("raise SystemExit(7)", 7)]
)
def test_a_hook_that_fails_is_told_as_python_does(tmp_path: Path, body: str, status: int) -> None:
    program = tmp_path / "hook.py"
    program.write_text(
        f"import sys\ndef hook(*given):\n    {body}\nsys.excepthook = hook\nraise ValueError(8)\n"
    )
    alone, profiled = (
        subprocess.run(
            [sys.executable, *command, str(program)], capture_output=True, text=True, check=False
        )
        for command in ([], ["-m", "corepy", "profile"])
    )
    assert profiled.stderr.startswith(f"{alone.stderr}0 operations took ")
    assert profiled.returncode == alone.returncode == status


_FORKS = """
import os, sys
import corepy.array_api as xp
x = xp.ones(10)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.close(writer)
    os.read(reader, 1)  # until the parent has reported
    xp.sin(x)
    {}
print(child)
for _ in range(5):
    x = x * 2
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize("ending", ["sys.exit('bye')", "raise ValueError('bye')"])
def test_a_forked_child_reports_nothing(tmp_path: Path, ending: str) -> None:
    program, trace, page = (tmp_path / name for name in ("forks.py", "trace.json", "page.html"))
    program.write_text(_FORKS.format(ending))
    command = ["-m", "corepy", "profile", "--trace", str(trace), "--html", str(page), str(program)]
    # It returns when the child, too, has closed its streams.
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0
    assert done.stderr.count(" operations took ") == 1
    assert "6 operations took " in done.stderr
    assert done.stderr.endswith("bye\n")  # as the last one
    events = json.loads(trace.read_text())["traceEvents"]
    assert [each["name"] for each in events if each["ph"] == "X"] == ["ones", *["multiply"] * 5]
    assert "6 operations took " in page.read_text()


def test_files_are_written_where_they_were_named_wherever_the_program_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    program = tmp_path / "goes.py"
    program.write_text(f"import os; os.chdir({str(away)!r})\n")
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "--html", "page.html", "--trace", "trace.json", "goes.py"]) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"page.html", "trace.json"}
    assert [*away.iterdir()] == []


def test_a_program_may_close_its_output(tmp_path: Path) -> None:
    # In a process of its own, as the tests' own output is no file.
    for ending in ("sys.stdout.close()", "sys.stdout = None"):
        program = tmp_path / "closes.py"
        program.write_text(f"import sys\nprint('all')\n{ending}\n")
        command = [sys.executable, "-m", "corepy", "profile", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "all\n"), done.stderr
        assert done.stderr.startswith("0 operations took ")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("ending", "table"), [("sys.stderr.close()", False), ("sys.stderr = None", True)]
)
def test_a_program_may_close_where_errors_go(tmp_path: Path, ending: str, table: bool) -> None:
    program, page = tmp_path / "closes.py", tmp_path / "page.html"
    program.write_text(f"import sys\nprint('all')\n{ending}\nsys.exit(3)\n")
    command = [sys.executable, "-m", "corepy", "profile", "--html", str(page), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "all\n"), done.stderr
    assert done.stderr.startswith("0 operations took ") is table
    assert (done.stderr == "") is not table
    assert page.is_file()


def test_a_module(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(program).parent)
    monkeypatch.syspath_prepend(str(Path(program).parent))
    assert main(["profile", "--top", "1", "-m", "program"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("__main__\n")
    assert "... and 1 more" in err


def test_a_module_of_the_current_folder(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `python -m` finds it; the command's own process need not look there."""
    Path(program).rename(Path(program).with_name("module_here.py"))
    monkeypatch.chdir(Path(program).parent)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = sys.path[:]
    assert main(["profile", "-m", "module_here"]) == 0
    assert sys.path == before
    assert capsys.readouterr().out.endswith("__main__\n")


_THREADS = """
import threading
from concurrent.futures import ThreadPoolExecutor
import corepy.array_api as xp
main = threading.main_thread()
def work(begun, name):
    begun.wait()  # until the program itself is over
    getattr(xp, name)(xp.ones(3))
begun, pool = threading.Event(), ThreadPoolExecutor(1)
pool.submit(work, begun, "sin")
pool.submit(work, begun, "cos")  # and the pool is never shut down
threading.Thread(target=lambda: threading.Thread(target=work, args=(begun, "exp")).start()).start()
threading.Thread(target=threading.Event().wait, daemon=True).start()
begun.set()
keep.append(pool)
try:
    ThreadPoolExecutor(0)
except ValueError as error:
    keep.append(error)  # whose frames hold what was half made
"""


def test_threads_that_outlive_the_program_are_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "threads.py"
    path.write_text(_THREADS)
    monkeypatch.setattr("builtins.keep", [], raising=False)
    assert main(["profile", str(path)]) == 0
    err = capsys.readouterr().err
    assert err.startswith("6 operations took ")
    assert {"sin", "cos", "exp"} <= set(err.split())


def test_an_interrupt_before_anything_is_heard_is_not_hidden(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def profile() -> Iterator[NoReturn]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(_cli_profile, "profile", profile)
    with pytest.raises(KeyboardInterrupt):
        main(["profile", program])
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_a_report_that_cannot_be_written_hides_no_error(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["profile", "--html", "/dev/full", "--trace", str(tmp_path / "trace.json"), program]
    told = "\ncorepy: profile: --html: /dev/full: No space left on device\n"
    assert main([*command, "error"]) == 1
    err = capsys.readouterr().err
    assert "\nKeyError: 'mine'\n" in err
    assert told in err
    assert (tmp_path / "trace.json").is_file()  # what can be written is
    assert main([*command, "exit"]) == 3
    assert main(command) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--html", "."], "--html: .: it is a folder; expected a file"),
        (["--trace", ""], "--trace is ''; expected the name of a file"),
        (["--html", "no/x.html"], "--html: no/x.html: there is no such folder; expected one that"),
        (
            ["--html", "same", "--trace", "./same"],
            "--html and --trace are both same; expected two files",
        ),
    ],
)
def test_nothing_is_run_for_files_that_cannot_be_written(
    options: list[str],
    message: str,
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = [*tmp_path.iterdir()]
    assert main(["profile", *options, program]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"corepy: profile: {message}")
    assert [*tmp_path.iterdir()] == before


def test_a_profile_without_operations_says_so(tmp_path: Path) -> None:
    with corepy.profile() as found:
        pass
    headline, *rest = found.table().splitlines()
    assert headline.startswith("0 operations took ")
    assert rest == ["", "no operation of corepy ran"]
    found.write_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<p>no operation of corepy ran</p>\n</html>\n" in page
    assert "<table>" not in page


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-m", "no_such.sub"], "corepy: profile: -m: there is no module 'no_such.sub' (No module"),
        (["no_such.py"], "corepy: profile: there is no file 'no_such.py'"),
        (["-m", "no_such"], "corepy: profile: -m: there is no module 'no_such'"),
    ],
)
def test_mistakes(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *argv]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_table_of_no_rows_is_refused(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["profile", "--top", "0", program])
    assert "--top: it is '0'; expected a number of at least 1" in capsys.readouterr().err


def test_without_a_program_only_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["profile"])
    assert "the following arguments are required: program\n" in capsys.readouterr().err
