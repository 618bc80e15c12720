"""The command ``corepy``: what it says, to people and to programs, and how it refuses."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import pytest

import corepy
from corepy import _cli
from corepy._cli import Style, main
from corepy.backends._numpy import NumPyBackend
from corepy.devices import Device, DeviceInfo, GpuInfo, MemoryInfo, as_device, detect_devices
from corepy.dispatch._hot import PURE
from corepy.dispatch._select import _from_environment

GIB = 2**30
ROOT = Path(corepy.__file__).parent.parent
ESCAPE = "\x1b["

MACHINE = DeviceInfo(
    platform_system="Linux",
    platform_machine="x86_64",
    cpu_cores=12,
    cpu_cores_physical=24,
    memory_limit_bytes=64 * GIB,
    has_avx2=True,
    has_avx512=False,
    has_amx=True,
    has_neon=False,
    gpus=(
        GpuInfo(
            device=as_device("cuda:0"),
            name="NVIDIA H200",
            memory=MemoryInfo(140 * GIB, 139 * GIB),
            compute_capability=(9, 0),
            architecture="sm_90",
            uuid="GPU-1",
            driver_version="570.1",
        ),
    ),
    forced_backend=None,
    problems=("rocm: no such driver",),
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings but those of the test."""
    for name in (*_cli.ENVIRONMENT, "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    # A process reads the variable once.
    _from_environment.cache_clear()
    yield
    _from_environment.cache_clear()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU that no backend serves."""
    monkeypatch.setattr(_cli, "detect_devices", lambda: MACHINE)
    monkeypatch.setattr(_cli, "memory_info", lambda device: MemoryInfo(64 * GIB, 32 * GIB))


def facts(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run ``corepy info --json`` and read it."""
    assert main(["info", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def path_of(*folders: Path) -> str:
    """Return what a process is told where to look for libraries, in some folders first."""
    return os.pathsep.join(map(str, (*folders, ROOT)))


def python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m corepy``."""
    command = [sys.executable, "-m", "corepy", *arguments]
    env = os.environ | {"PYTHONPATH": path_of()} | environ
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


# ---------------------------------------------------------------------------- info for programs


def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    documented = _cli.__doc__.partition("key ")[2]
    for key in facts(capsys):
        assert key in documented
    assert set(facts(capsys)) == {
        "corepy",
        "python",
        "platform",
        "backends",
        "devices",
        "processor",
        "gpus",
        "problems",
        "errors",
        "default",
        "settings",
    }
    assert facts(capsys)["errors"] == {}


def test_json_tells_every_backend(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in facts(capsys)["backends"]}
    assert list(rows) == [row.name for row in corepy.backend_status()]
    assert rows["numpy"] == {
        "name": "numpy",
        "usable": True,
        "devices": ["cpu"],
        "reason": None,
        "unserved": [],
        "versions": {"numpy": version("numpy")},
    }


def test_json_tells_a_broken_backend_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    class Silent(NumPyBackend):
        name = "silent"

        def is_available(self) -> bool:
            return False

    corepy.register_backend("silent", Silent())
    try:
        row = next(row for row in facts(capsys)["backends"] if row["name"] == "silent")
    finally:
        corepy.unregister_backend("silent")
    assert row["usable"] is False
    assert row["devices"] == []
    assert row["reason"] == "installed, but does not answer"


@pytest.mark.usefixtures("machine")
def test_json_tells_the_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys)
    assert found["processor"] == {
        "threads": 12,
        "cores": 24,
        "simd": ["AVX2", "AMX"],
        "memory_bytes": 64 * GIB,
        "free_bytes": 32 * GIB,
    }
    assert found["gpus"] == [
        {
            "device": "cuda:0",
            "name": "NVIDIA H200",
            "memory_bytes": 140 * GIB,
            "free_bytes": 139 * GIB,
            "unified_memory": False,
            "compute_capability": [9, 0],
            "architecture": "sm_90",
            "uuid": "GPU-1",
            "driver_version": "570.1",
        }
    ]
    assert found["problems"] == ["rocm: no such driver"]


def test_json_tells_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    found, hardware = facts(capsys), detect_devices()
    assert found["platform"] == {
        "system": hardware.platform_system,
        "machine": hardware.platform_machine,
    }
    assert found["processor"]["threads"] == hardware.cpu_cores
    assert len(found["gpus"]) == len(hardware.gpus)
    assert 0 < found["processor"]["free_bytes"] <= found["processor"]["memory_bytes"]


def test_memory_that_cannot_be_read_is_null(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def memory_info(device: str) -> NoReturn:
        raise corepy.BackendUnavailableError("memory_info: cannot be read")

    monkeypatch.setattr(_cli, "memory_info", memory_info)
    assert facts(capsys)["processor"]["free_bytes"] is None


@pytest.mark.usefixtures("route_cache")
def test_json_tells_the_default_and_the_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COREPY_BACKEND_PRIORITY", "reference, cpu")
    # Which libraries keep their threads depends on those that run in this process already.
    monkeypatch.setattr(_cli, "unmoved", lambda: {"jax": "its pool is fixed"})
    monkeypatch.setattr(_cli, "are_outdated", lambda: True)  # as after an edit
    with corepy.strict(), corepy.set_fallback("raise"):
        found = facts(capsys)
    assert found["default"] == {
        "backend": "reference",
        "device": "cpu",
        "why": "'reference' in the priority",
    }
    assert found["settings"] == {
        "priority": ["reference", "cpu"],
        "strict": True,
        "fallback": "raise",
        "precision": "full",
        "offload": "off",
        "reproducible": False,
        "routes": "the table that ships with corepy",
        "threads": corepy.get_num_threads(),
        "threads_unmoved": {"jax": "its pool is fixed"},
        "compiled": PURE is None,
        "pure_because": PURE,
        "outdated": True,
        "environment": {
            "COREPY_BACKEND_PRIORITY": "reference, cpu",
            "COREPY_NUM_THREADS": None,
            "COREPY_OFFLOAD": None,
            "COREPY_POOL_BYTES": None,
            "COREPY_PRECISION": None,
            "COREPY_PURE_PYTHON": os.environ.get("COREPY_PURE_PYTHON"),
            "COREPY_REPRODUCIBLE": None,
            "COREPY_ROUTES": None,
            "COREPY_STRICT": None,
        },
    }
    assert found["devices"][0]["name"] == "cpu"
    assert {"numpy", "reference"} <= {*found["devices"][0]["backends"]}


# ---------------------------------------------------------------------------- info for people


@pytest.mark.usefixtures("machine")
def test_text_is_aligned_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with corepy.backend_priority(["numpy"]):
        assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert ESCAPE not in out  # no terminal
    lines = out.splitlines()
    assert lines[0] == f"corepy {corepy.__version__}"
    assert "  new arrays are made on cpu in numpy: 'numpy' in the priority" in lines
    table = lines[lines.index("Backends") + 1 :]
    place = table[0].index("library")
    for line in table[1 : table.index("")]:
        assert line[place - 1] == " "
        assert line[place] != " "
    assert f"  numpy      yes     numpy {version('numpy')}" in out
    assert "12 threads on 24 cores, 64.0 GiB (32.0 free), AVX2, AMX" in out
    gpu = next(line.split() for line in lines if line.startswith("  cuda:0"))
    assert gpu[1] == "none"  # no backend serves it
    assert " ".join(gpu[2:]) == "NVIDIA H200, 140.0 GiB (139.0 free), sm_90, driver 570.1"
    assert "  priority                 numpy" in lines
    assert "  COREPY_STRICT            not set" in lines
    assert lines[-1] == "  rocm: no such driver"


def test_text_tells_what_is_unknown() -> None:
    processor = {"threads": 8, "cores": None, "simd": [], "memory_bytes": None, "free_bytes": None}
    assert _cli._describe_processor(processor) == "8 threads, memory unknown"
    gpu = {
        "name": "Apple M4",
        "memory_bytes": 16 * GIB,
        "free_bytes": 8 * GIB,
        "unified_memory": True,
        "architecture": None,
        "driver_version": None,
    }
    assert _cli._describe_gpu(gpu) == "Apple M4, 16.0 GiB (8.0 free), shared with the host"


@pytest.mark.parametrize(
    ("compiled", "outdated", "told"),
    [
        (True, False, "compiled"),
        (True, True, "compiled from other sources than are here now: install corepy again"),
        (False, False, "Python: it was not built"),
    ],
)
def test_text_tells_of_the_hot_path(compiled: bool, outdated: bool, told: str) -> None:
    settings = {"compiled": compiled, "outdated": outdated, "pure_because": "it was not built"}
    assert _cli._describe_hot_path(settings) == told


class Terminal:
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),  # empty means unset
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
    ids=str,
)
def test_colours_on_a_terminal_that_wants_them(
    environ: dict[str, str], colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert Style.of(Terminal()).colours is colours  # type: ignore[arg-type]


def test_no_colours_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with (tmp_path / "out").open("w") as file:
        assert Style.of(file).colours is False


def test_colours_change_no_character_of_the_text() -> None:
    found = _cli.gather()
    plain, painted = (_cli.render(found, Style(colours)) for colours in (False, True))
    assert painted != plain
    for code in ("0", "1", "2", "32", "33"):
        painted = painted.replace(f"{ESCAPE}{code}m", "")
    assert painted == plain


# ---------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("wish", ["tortch", "numpy:cuda:0", "numpy:No Device"])
def test_a_wrong_priority_is_told_in_one_line_after_all_else(
    wish: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COREPY_BACKEND_PRIORITY", wish)
    assert main(["info"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("corepy: ")
    assert err.count("\n") == 1
    assert f"COREPY_BACKEND_PRIORITY is {wish!r}" in err
    assert err.count("COREPY_BACKEND_PRIORITY") == 1
    told = err.removeprefix("corepy: ").strip()
    assert out.splitlines()[2] == f"  new arrays cannot be made: {told}"
    assert f"  numpy      yes     numpy {version('numpy')}" in out
    assert "\nSettings\n" in out
    assert main(["info", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["errors"]["default"] == told
    assert found["default"] == {"backend": None, "device": None, "why": None}


def test_a_table_that_is_not_there_is_told_after_all_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COREPY_ROUTES", "nope")
    told = (
        "COREPY_ROUTES: nope: No such file or directory; "
        'expected "off", "shipped" or the path of a table'
    )
    with corepy.set_routes(None):
        assert main(["info"]) == 2
        out, err = capsys.readouterr()
        assert err == f"corepy: {told}\n"
        assert f"  routes                   {told}" in out.splitlines()
        assert main(["info", "--json"]) == 2
        found = json.loads(capsys.readouterr().out)
    assert found["settings"]["routes"] is None
    assert found["errors"] == {"routes": told}
    assert found["default"]["backend"] is not None


def test_a_wrong_number_of_threads_is_not_the_prioritys_fault(bare: Path) -> None:
    for text, expected in (("abc", "a positive number of threads"), ("9" * 20, "at most 4096")):
        done = python("info", "--json", COREPY_NUM_THREADS=text, PYTHONPATH=path_of(bare))
        assert done.returncode == 2
        told = json.loads(done.stdout)["errors"]["threads"]
        assert told.startswith(f"COREPY_NUM_THREADS is '{text}'; expected {expected}")
        assert done.stderr.splitlines()[-1] == f"corepy: {told}"
        assert "COREPY_BACKEND_PRIORITY" not in done.stderr


def test_a_wrong_number_of_threads_is_told_once_beside_measured_routes(
    bare: Path, tmp_path: Path
) -> None:
    caches = tmp_path / "caches"
    (caches / "corepy").mkdir(parents=True)
    (caches / "corepy" / "routes-0.json").write_text("{}", encoding="utf-8")
    wrong = {"COREPY_NUM_THREADS": "0", "COREPY_ROUTES": "", "XDG_CACHE_HOME": str(caches)}
    done = python("info", PYTHONPATH=path_of(bare), **wrong)
    told = "COREPY_NUM_THREADS is '0'; expected a positive number of threads"
    assert (done.returncode, done.stderr) == (2, f"corepy: {told}\n")


def test_a_wrong_priority_gives_no_traceback_in_a_process(bare: Path) -> None:
    done = python("info", COREPY_BACKEND_PRIORITY="tortch", PYTHONPATH=path_of(bare))
    assert done.returncode == 2
    assert "corepy: COREPY_BACKEND_PRIORITY is 'tortch': " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
@pytest.mark.parametrize("command", ["info", "routes"])
def test_a_folder_whose_name_is_no_text_is_shown_escaped(command: str, tmp_path: Path) -> None:
    table = os.fsdecode(os.fsencode(tmp_path) + b"/routes\xff.json")
    with corepy.set_routes("shipped"):
        main(["routes", "--export", table])
    ran = python(command, COREPY_ROUTES=table, PYTHONIOENCODING="utf-8")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "routes\\udcff.json" in ran.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
@pytest.mark.needs("sklearn")
@pytest.mark.needs("matplotlib")
def test_the_demo_shows_a_name_that_is_no_text_escaped(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/out\xff")
    options = ("--out", folder, "--backend", "numpy", "--size", "100")
    ran = python("demo", *options, PYTHONIOENCODING="utf-8:strict")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "out\\udcff" in ran.stdout


def test_a_fault_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def gather() -> NoReturn:
        raise ZeroDivisionError

    monkeypatch.setattr(_cli, "gather", gather)
    with pytest.raises(ZeroDivisionError):
        main(["info"])


def test_without_a_command_it_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    err = capsys.readouterr().err
    assert all(command in err for command in ("info", "demo", "conformance"))


@pytest.mark.parametrize(
    "argv", [["nonsense"], ["info", "more"], ["--nonsense"], ["info", "--js"]], ids=str
)
def test_an_unknown_argument_ends_with_status_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert argv[-1] in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["info", "--nope"], ["profile", "-c", "x"], ["tune", "-x"]])
def test_an_unknown_option_shows_how_its_command_is_used(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(f"usage: corepy {argv[0]} [-h] ")
    assert err.endswith(f"corepy {argv[0]}: error: unrecognized arguments: {argv[1]}\n")


@pytest.mark.parametrize("argv", [["info"], ["info", "--json"], ["--help"]], ids=str)
def test_a_reader_who_leaves_is_no_error(argv: list[str], bare: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "corepy", *argv],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            # Unbuffered, argparse writes its help itself, and ignores that it could not.
            env=os.environ | {"PYTHONPATH": path_of(bare), "PYTHONUNBUFFERED": ""},
            check=False,
        )
    finally:
        os.close(write)
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.parametrize("argv", [["info"], ["--help"], ["routes", "--export", "-"]], ids=str)
def test_standard_output_on_a_full_disk_is_told(
    argv: list[str], bare: Path, tmp_path: Path
) -> None:
    limited = (
        "import resource, signal, sys; from corepy._cli import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9)); sys.exit(main(sys.argv[1:]))"
    )
    with (tmp_path / "shown").open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", limited, *argv],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path_of(bare), "PYTHONUNBUFFERED": ""},
            check=False,
        )
    (last,) = done.stderr.splitlines()
    assert last.startswith("corepy: ")
    assert last.endswith("File too large")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_lack_of_memory_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> NoReturn:
        raise MemoryError

    monkeypatch.setattr(_cli, "distributions", fails)
    assert main(["info"]) == 2
    assert capsys.readouterr() == (
        "",
        "corepy: info: the memory of this process does not suffice\n",
    )


def test_a_profiled_program_has_its_own_errors(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("raise OSError(28, 'No space left on device')")
    done = python("profile", str(tmp_path / "program.py"))
    assert done.returncode == 1
    assert "program.py" in done.stderr
    assert "\nOSError: [Errno 28] No space left on device\n" in done.stderr  # then the table


# ---------------------------------------------------------------------------- the other commands


def test_version() -> None:
    done = python("--version")
    assert (done.returncode, done.stdout) == (0, f"corepy {corepy.__version__}\n")


@pytest.mark.parametrize("status", [0, 1])
def test_demo_gets_its_options_untouched(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def run_demo(argv: list[str]) -> int:
        seen.extend(argv)
        return status

    monkeypatch.setattr("corepy.demo._run.main", run_demo)
    argv = ["--backend", "numpy", "--", "--version", "-x", "word"]
    assert main(["demo", *argv]) == status
    assert seen == argv


def test_conformance_runs_the_checkout_with_its_options(tmp_path: Path) -> None:
    (tmp_path / "conformance").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "conformance" / "run.py").write_text(
        "def main(argv):\n    return 1 if argv == ['--backend', 'numpy', '-k', 'add'] else 0\n"
    )
    assert _cli.conformance(["--backend", "numpy", "-k", "add"], tmp_path) == 1
    assert _cli.conformance([], tmp_path) == 0


def test_conformance_finds_this_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["conformance", "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: corepy conformance ")  # as it was called
    assert "array-api-tests" in out


def test_conformance_needs_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = tmp_path / "site-packages" / "corepy" / "_cli.py"
    monkeypatch.setattr(_cli, "__file__", str(installed))
    assert main(["conformance", "--backend", "numpy"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"corepy: conformance: {installed.parent.parent} is no source checkout")
    assert err.count("\n") == 1


def test_devices_without_hardware_facts_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    class Remote(NumPyBackend):
        name = "remote"

        def devices(self) -> tuple[Device, ...]:
            return (as_device("remote:0"),)

    corepy.register_backend("remote", Remote())
    try:
        assert main(["info"]) == 0
    finally:
        corepy.unregister_backend("remote")
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["remote:0", "remote"] in words


@pytest.mark.skipif(sys.platform == "win32", reason="no shell of this kind here")
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_is_no_error(closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m corepy routes {closed}"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, env=env, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
