"""``corepy profile``: a program run as Python would, and the report of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

import corepy
from corepy import _cli_profile
from corepy._cli import main


@pytest.fixture(autouse=True)
def numpy_first() -> Any:
    with corepy.backend_priority(["numpy"]):
        yield


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


def test_a_program_finds_its_own_file_wherever_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "goes.py"
    path.write_text("import os; os.chdir(os.sep); open(__file__).close(); print(__file__)\n")
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "goes.py"]) == 0
    assert capsys.readouterr().out == f"{path}\n"


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
