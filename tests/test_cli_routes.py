"""The commands `corepy routes` and `corepy tune`: what they show, keep and say."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import corepy
from corepy import _cli_routes
from corepy._cli import main
from corepy.devices import detect_devices
from corepy.dispatch import _machine, _registry
from corepy.dispatch import _route_files as files
from corepy.dispatch import _route_sources as sources
from corepy.dispatch._registry import records
from corepy.dispatch._route_table import Option, RouteTable, parse
from corepy.tuning import Outcome
from tests.tuning.cells import cell, entrant, routes_of


def made(**machine: Any) -> RouteTable:
    routes = routes_of(
        cell(1024, entrant(3.0, company=1.1, busy=2.0)),
        cell(4096, entrant(1.0, verdict="no faster")),
        cell(1024, entrant(2.0), operation="linalg.inv"),
    )
    routes += (replace(routes[1], dtype="float32"),)
    key = {**_machine.machine_key(), **machine}
    return RouteTable(key, {"command": "corepy tune", "load": None}, {}, routes)


def test_routes_are_shown(route_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.write(files.cache_file(_machine.machine_key()), made().dump())
    assert main(["routes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("measured on this machine, in ")
    assert lines[0].endswith(" (command corepy tune)")
    rows = [line.split(maxsplit=6) for line in lines[-5:]]
    assert rows[0] == ["operation", "dtype", "operands", "from", "backend", "gain", "why"]
    assert rows[1][:2] == ["linalg.inv", "float64"]
    assert rows[2] == [
        *("sin", "float32", "-", "1024", "torch", "3.0x"),
        "1.1x its time in company, 2.0x NumPy beside busy cores",
    ]
    assert rows[4] == [*("sin", "float64", "-", "2581", "numpy", "-"), "nobody is faster there"]
    assert main(["routes", "--json"]) == 0
    assert parse(capsys.readouterr().out).routes == corepy.routes()


def test_precision_is_told_of(route_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    single = replace(made(), routes=(replace(made().routes[0], dtype="float32"),))
    files.write(files.cache_file(_machine.machine_key()), single.dump())
    main(["routes"])
    assert 'only under precision("fast")' in capsys.readouterr().out


def test_routes_that_are_off(capsys: pytest.CaptureFixture[str]) -> None:
    with corepy.set_routes("off"):
        assert main(["routes"]) == 0
        assert capsys.readouterr().out == "routes are off\n"
        assert main(["routes", "--export", "x"]) == 2
        assert "they are off; expected a table in force" in capsys.readouterr().err


def test_export_and_import(
    route_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.write(files.cache_file(_machine.machine_key()), made().dump())
    file = tmp_path / "mine.json"
    assert main(["routes", "--export", str(file)]) == 0
    assert parse(file.read_text()) == parse(made().dump())
    capsys.readouterr()
    assert main(["routes", "--export", "-"]) == 0  # as commands name their own output
    assert parse(capsys.readouterr().out) == parse(made().dump())
    files.cache_file(_machine.machine_key()).unlink()
    assert main(["routes", "--import", str(file)]) == 0
    corepy.set_routes(None)
    assert corepy.routes() == parse(made().dump()).routes
    file.write_text(made(cores=99).dump())
    assert main(["routes", "--import", str(file)]) == 2
    assert "measured elsewhere (cores 99 then" in capsys.readouterr().err
    assert main(["routes", "--import", str(file), "--force"]) == 0
    corepy.set_routes(None)
    assert corepy.routes() == parse(made().dump()).routes
    file.write_text("[]")
    assert main(["routes", "--import", str(file)]) == 2
    assert "holds no table of routes" in capsys.readouterr().err
    assert main(["routes", "--export", str(tmp_path / "x" / "\0")]) == 2


def test_what_an_imported_table_was_measured_on_stays_true(
    route_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, again = tmp_path / "theirs.json", tmp_path / "again.json"
    theirs.write_text(made(cpu="their processor").dump())
    assert main(["routes", "--import", str(theirs), "--force"]) == 0
    corepy.set_routes(None)
    capsys.readouterr()
    assert main(["routes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("imported; measured on their processor, ")
    assert lines[1].startswith("made on their processor, ")
    assert main(["routes", "--export", str(again)]) == 0
    assert parse(again.read_text()) == parse(theirs.read_text())
    assert main(["routes", "--import", str(again)]) == 2
    assert "measured elsewhere (cpu 'their processor' then" in capsys.readouterr().err


def test_a_table_of_another_environment_is_shown_in_a_line(
    route_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as there:
        there.setattr(_machine, "environment", lambda: "/another/environment")
        files.keep(made(versions={"numba": "99.0"}))
    assert main(["routes"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[2].startswith("what is kept for another environment is not used here (")
    assert err == ""


def test_routes_to_libraries_that_are_absent_are_marked(
    route_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files.keep(made())
    lacking = replace(records()["torch"], probe=lambda: "not installed: torch")
    monkeypatch.setitem(_registry._records, "torch", lacking)
    monkeypatch.delitem(_registry._broken, "torch", raising=False)
    assert main(["routes"]) == 0
    rows = [line.split(maxsplit=6) for line in capsys.readouterr().out.splitlines()[-4:]]
    lack = "not taken, for torch is not usable (not installed: torch), "
    assert rows[0][6].startswith(lack)
    assert rows[1][6].startswith(lack)


@pytest.mark.parametrize("more", [["--export", "x"], ["--import", "x"], ["--freeze"], ["--thaw"]])
def test_json_is_one_of_what_can_be_asked(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["routes", "--json", *more])
    assert caught.value.code == 2
    assert f"{more[0]}: not allowed with argument --json" in capsys.readouterr().err


def test_a_device_that_is_not_present_is_refused(
    route_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--json"], ["--freeze"]):
        assert main(["routes", "--device", "cuda:77", *more]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("corepy: routes: device is 'cuda:77'; expected one that is present: ")
    gpus = files.DATA / "gpu-routes-nvidia_h200.json"
    with corepy.set_routes(gpus):
        assert main(["routes", "--device", "cuda:77", "--json"]) == 0
    assert parse(capsys.readouterr().out) == parse(gpus.read_text())


@pytest.mark.skipif(bool(detect_devices().gpus), reason="this machine has a GPU")
def test_a_table_of_a_gpu_needs_one(route_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = files.DATA / "gpu-routes-nvidia_h100_80gb_hbm3.json"
    for more in ([], ["--force"], ["--device", "cuda:0"]):
        assert main(["routes", "--import", str(path), *more]) == 2
        err = capsys.readouterr().err
        assert f"{path} is for the GPU NVIDIA H100 80GB HBM3; this machine has no such GPU" in err
    assert not route_cache.exists()


@pytest.mark.parametrize("name", ["", "there/is/none.json", "."])
@pytest.mark.parametrize("argv", [["routes", "--export"], ["tune", "--output"]], ids=str)
def test_files_go_where_there_is_a_folder(
    argv: list[str],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("corepy.tuning.tune", lambda *_, **__: pytest.fail("it measured"))
    assert main([*argv, name]) == 2
    message = {
        "": " is ''; expected the name of a file",
        ".": ": .: it is a folder; expected a file",
    }.get(name, f": {name}: there is no such folder; expected one that exists")
    assert capsys.readouterr().err == f"corepy: {argv[0]}: {argv[-1]}{message}\n"
    assert [*tmp_path.iterdir()] == []


def test_a_wrong_number_of_threads_ends_every_command() -> None:
    command = [sys.executable, "-m", "corepy"]
    env = os.environ | {"COREPY_NUM_THREADS": "x"}
    for argv in (["routes"], ["routes", "--json"], ["tune", "sign"]):
        done = subprocess.run(
            [*command, *argv], capture_output=True, text=True, env=env, check=False
        )
        message = "COREPY_NUM_THREADS is 'x'; expected a positive number of threads"
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"corepy: {argv[0]}: {message}\n"


@pytest.mark.skipif(sys.platform != "linux", reason="caches lie elsewhere")
def test_warnings_read_as_what_the_command_says(route_cache: Path, tmp_path: Path) -> None:
    key = _machine.machine_key()
    files.keep(made(versions={**key["versions"], "numpy": "1.0"}))
    env = {k: v for k, v in os.environ.items() if k not in ("COREPY_ROUTES", "XDG_CACHE_HOME")}
    env["XDG_CACHE_HOME"] = str(tmp_path)
    route_cache.rename(tmp_path / "corepy")
    command = [sys.executable, "-m", "corepy", "routes"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.stderr.startswith(
        "corepy: the routes that `corepy tune` measured do not fit any more"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("svd", "linalg.svd"),
        ("attentoin", "kernels.attention"),
        ("nope", "one of __getitem__, abs, "),
    ],
)
def test_an_operation_that_is_none_is_told_with_those_that_are_near(
    name: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", name]) == 2
    message = f"corepy: tune: '{name}' is no operation that can be routed; expected {near}"
    assert capsys.readouterr().err.startswith(message)


def test_the_summary_adds_up(
    route_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = made()
    another = replace(table.routes[0], least=9999, options=(Option("numba", 2.0),))
    table = replace(table, routes=(*table.routes, another))
    monkeypatch.setattr("corepy.tuning.tune", lambda *_, **__: Outcome(table, (), (), None))
    assert main(["tune"]) == 0
    assert capsys.readouterr().out.startswith(
        "4 routes (1 to numba, 3 to torch) for 3 operations and dtypes; wrote "
    )


@pytest.mark.parametrize(
    ("count", "told"), [(2, "sin 0, sin 1\n"), (20, "sin 18, sin 19\n"), (23, ", and 3 more\n")]
)
def test_of_what_is_undecided_some_is_named(
    count: int,
    told: str,
    route_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    open_ = tuple(f"sin {number}" for number in range(count))
    monkeypatch.setattr("corepy.tuning.tune", lambda *_, **__: Outcome(made(), open_, (), None))
    assert main(["tune"]) == 0
    said = capsys.readouterr().err
    assert f"too noisy to decide {count} cells" in said
    assert said.endswith(told)


def test_force_is_for_an_import(capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--freeze"]):
        with pytest.raises(SystemExit) as caught:
            main(["routes", "--force", *options])
        assert caught.value.code == 2
        assert "--force: not allowed without argument --import" in capsys.readouterr().err


def test_what_is_no_device_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for device in ("nope", "cuda:x", ""):
        assert main(["routes", "--device", device]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith(f"corepy: routes: device is '{device}'; expected ")


def test_freezing_and_thawing(route_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = _machine.machine_key()
    files.write(files.cache_file(key), made().dump())
    assert main(["routes", "--freeze"]) == 0
    files.cache_file(key).unlink()
    corepy.set_routes(None)
    assert sources.in_force().origin.startswith("frozen in ")
    assert corepy.routes() == parse(made().dump()).routes
    assert main(["routes", "--thaw"]) == 0
    corepy.set_routes(None)
    assert corepy.routes() == sources.shipped().routes
    assert capsys.readouterr().out.splitlines()[-1] == "the table is no longer frozen"
    assert main(["routes", "--thaw"]) == 0
    assert capsys.readouterr().out == "no table was frozen\n"


def test_an_interrupted_command_says_that_nothing_is_lost(
    route_cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("corepy.tuning.tune", interrupted)
    assert main(["tune"]) == 130
    assert "what was measured is kept" in capsys.readouterr().err
    assert not route_cache.exists()


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, plain = Terminal(), io.StringIO()
    for stream in (terminal, plain):
        show = _cli_routes.Progress(stream)
        show(0, 2, "sin float32")
        show(1, 2, "sin float64")
        show(2, 2, "")
    assert plain.getvalue() == "0/2 sin float32\n1/2 sin float64\n2/2 \n"
    first, second, last = terminal.getvalue().split("\r")[1:]
    assert first.startswith("[" + "." * 30 + "] 0/2")
    assert second.startswith("[" + "#" * 15 + "." * 15 + "] 1/2")
    assert last.startswith("[" + "#" * 30 + "] 2/2")
    assert last.endswith("\n")


def test_a_line_of_progress_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "50")
    terminal = Terminal()
    show = _cli_routes.Progress(terminal)
    for number in (0, 999):
        show(number, 1000, "linalg.matrix_rank float64 with a long label")
    lines = terminal.getvalue().split("\r")[1:]
    assert [len(line) for line in lines] == [49, 49]


def test_a_table_of_more_threads_is_in_force_once_it_was_imported(
    route_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "theirs.json"
    for threads in (99, 1):
        monkeypatch.setattr(_machine, "get_num_threads", lambda: 2)
        file.write_text(made(threads=threads).dump())
        assert main(["routes", "--import", str(file), "--force"]) == 0
        corepy.set_routes(None)
        table = sources.in_force().table
        assert table is not None
        assert (table.threads, table.routes) == (threads, parse(file.read_text()).routes)


def test_a_table_that_is_not_in_force_is_told_of(
    route_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(made().dump())
    outcome = Outcome(made(), (), (), None)
    monkeypatch.setattr("corepy.tuning.tune", lambda *_, **__: outcome)
    commands = ["routes", "--import", str(file)], ["tune"]
    for command in commands:
        assert main(command) == 0
        assert capsys.readouterr().err == ""
    assert main(["routes", "--freeze"]) == 0
    for command in commands:
        assert main(command) == 0
        told = capsys.readouterr().err
        assert told.startswith("corepy: that table is not in force: ")
        assert "frozen.json is frozen: `corepy routes --thaw` lets it go" in told
    monkeypatch.setenv("COREPY_ROUTES", "off")
    for command in commands:
        assert main(command) == 0
        assert "not in force: COREPY_ROUTES is 'off'" in capsys.readouterr().err
    assert main(["tune", "--output", str(file)]) == 0  # it was not to be
    assert capsys.readouterr().err == ""


def test_nothing_is_measured_for_a_table_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("corepy.tuning.tune", lambda *_, **__: pytest.fail("it measured"))
    (tmp_path / "file").write_text("")
    for output in (tmp_path, tmp_path / "file" / "table.json"):
        assert main(["tune", "--output", str(output)]) == 2
        assert capsys.readouterr().err.startswith(f"corepy: tune: --output: {output}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("argv", [["routes", "--export"], ["tune", "sign", "--output"]], ids=str)
def test_a_link_that_leads_to_itself_is_told(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(link)
    with corepy.set_routes("shipped"):
        assert main([*argv, str(link)]) == 2
    assert str(link) in capsys.readouterr().err.splitlines()[-1]
    assert link.is_symlink()


def test_programs_are_given_a_table_or_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with corepy.set_routes("off"):
        assert main(["routes", "--json"]) == 2
        out, err = capsys.readouterr()
    assert (out, err) == ("", "corepy: routes: they are off; expected a table in force\n")


def test_a_reader_who_leaves_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    seen: list[int] = []
    monkeypatch.setattr("corepy._cli.os.dup2", lambda *_: seen.append(1))
    monkeypatch.setattr("sys.stdout", Closed())
    monkeypatch.setattr(Closed, "fileno", lambda self: 1, raising=False)
    assert main(["routes"]) == 141
    assert seen == [1]
