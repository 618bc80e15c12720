"""The runner counts right, publishes what it counted, and refuses what it cannot run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import run

#: A miniature of array-api-tests: its options, its reading of xfails, one test of each outcome.
CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--max-examples", type=int)
    parser.addoption("--disable-deadline", action="store_true")
    parser.addoption("--disable-data-dependent-shapes", action="store_true")
    parser.addoption("--xfails-file")
    parser.addoption("--skips-file")

def pytest_collection_modifyitems(config, items):
    if config.option.xfails_file is None:  # only collected
        return
    ids = open(config.option.xfails_file).read().split()
    for item in items:
        if item.nodeid in ids or item.nodeid.split("[")[0] in ids:
            item.add_marker(pytest.mark.xfail(reason="listed"))
"""
TESTS = """
import os
import pytest

def test_environment(pytestconfig):
    assert os.environ["ARRAY_API_TESTS_MODULE"] == "corepy.array_api"
    assert os.environ["ARRAY_API_TESTS_VERSION"] == "2025.12"
    assert os.environ["COREPY_BACKEND_PRIORITY"] == "numpy"
    assert pytestconfig.option.max_examples == 7
    assert pytestconfig.option.disable_deadline
    assert not pytestconfig.option.disable_data_dependent_shapes

class TestClass:
    def test_passes(self):
        pass

@pytest.mark.parametrize("x", [1, 2])
def test_fails(x):
    assert x == 2

@pytest.fixture
def broken():
    yield
    raise RuntimeError("teardown")

def test_fails_twice(broken):
    assert False

@pytest.mark.skip(reason="not here")
def test_skipped():
    pass
"""
FILE = "array_api_tests/test_miniature.py"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    root = tmp_path / "suite"
    (root / "array_api_tests").mkdir(parents=True)
    (root / "array-api" / "src").mkdir(parents=True)
    (root / "array-api" / "src" / "stubs.py").touch()
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / "conftest.py").write_text(CONFTEST)
    (root / "array_api_tests" / "__init__.py").touch()
    (root / FILE).write_text(TESTS)
    return root


@pytest.fixture
def xfails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect the lists of known failures, and the cache, away from the real ones."""
    folder = tmp_path / "xfails"
    folder.mkdir()
    monkeypatch.setattr(run, "XFAILS", folder)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "published")
    monkeypatch.setattr(run, "LAST_PYTHON", sys.version_info[:2])
    for name in run.KEPT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder / "numpy.txt"


def arguments(suite: Path, *more: str) -> list[str]:
    fixed = ["--suite", str(suite), "--backend", "numpy", "--workers", "0", "--max-examples", "7"]
    return [*fixed, *more]


# ------------------------------------------------------------------------- whole runs


def test_counts_every_outcome_and_publishes_them(suite: Path, xfails: Path, tmp_path: Path) -> None:
    assert run.main(arguments(suite)) == 1
    record = json.loads((tmp_path / "published" / "numpy.json").read_text())
    assert {key: record[key] for key in ("passed", "failed", "errors", "skipped", "xfailed")} == {
        "passed": 3,
        "failed": 1,
        "errors": 1,  # failed in its call and in its teardown: one test, its worst outcome
        "skipped": 1,
        "xfailed": 0,
    }
    assert sorted(record["failures"]) == [f"{FILE}::test_fails[1]", f"{FILE}::test_fails_twice"]
    assert (record["backend"], record["device"], record["examples"]) == ("numpy", "cpu", 7)
    assert record["versions"].keys() >= {"python", "corepy", "numpy", "array-api-compat"}
    matrix = (tmp_path / "published" / "matrix.md").read_text()
    assert "| numpy | cpu | 3 | 1 | 1 | 1 | 0 | 7 |" in matrix


def test_tests_of_shapes_that_are_not_known_at_once_are_left_out(
    suite: Path, xfails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (suite / FILE).write_text(TESTS.replace("not pytestconfig", "pytestconfig"))
    assert run.main(arguments(suite, "-k", "test_environment")) == 1
    monkeypatch.setattr(run, "placement", lambda options: ("cpu", False))
    assert run.main(arguments(suite, "-k", "test_environment")) == 0


def test_listed_failures_do_not_fail_the_run(suite: Path, xfails: Path, tmp_path: Path) -> None:
    (suite / FILE).write_text(TESTS.replace("assert False", "pass").replace("raise", "return"))
    xfails.write_text(f"# upstream reason\n\n{FILE}::test_fails[1]\n")
    assert run.main(arguments(suite)) == 0
    record = json.loads((tmp_path / "published" / "numpy.json").read_text())
    assert (record["passed"], record["xfailed"], record["failures"]) == (4, 1, [])


def test_a_kind_of_device_has_failures_of_its_own(
    suite: Path, xfails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (suite / FILE).write_text(TESTS.replace("assert False", "pass").replace("raise", "return"))
    xfails.with_name("cuda.txt").write_text(f"{FILE}::test_fails[1]\n")
    assert run.main(arguments(suite)) == 1
    monkeypatch.setattr(run, "placement", lambda options: ("cuda:1", True))
    assert run.main(arguments(suite)) == 0


def test_an_xfail_that_passes_is_a_failure(suite: Path, xfails: Path, tmp_path: Path) -> None:
    xfails.write_text(f"{FILE}::TestClass::test_passes\n")
    output = tmp_path / "out"
    chosen = arguments(suite, "-k", "test_passes", "--output", str(output))
    assert run.main([*chosen, "--max-examples", "200"]) == 1
    record = json.loads((output / "numpy.json").read_text())
    assert record["failures"] == [f"{FILE}::TestClass::test_passes"]
    assert run.main(chosen) == 0  # few examples may not meet what fails


def test_a_backend_of_another_package_has_a_list_of_its_own(
    suite: Path, xfails: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (suite / FILE).write_text(TESTS.replace("assert False", "pass").replace("raise", "return"))
    own = tmp_path / "own.txt"
    own.write_text(f"# why\n{FILE}::test_fails[1]\n")
    assert run.main(arguments(suite, "--xfails", str(own))) == 0
    own.write_text(f"{FILE}::test_gone\n")
    assert run.main(arguments(suite, "--xfails", str(own))) == 2
    assert "own.txt has ids that match no test:" in capsys.readouterr().err
    own.unlink()
    assert run.main(arguments(suite, "--xfails", str(own))) == 2
    assert f"--xfails: there is no file {own}" in capsys.readouterr().err


def test_an_xfail_that_matches_no_test_stops_the_run(
    suite: Path, xfails: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    xfails.write_text(f"{FILE}::test_fails\n{FILE}::test_gone\n")
    assert run.main(arguments(suite)) == 2
    error = capsys.readouterr().err
    assert f"{FILE}::test_gone" in error
    assert f"{FILE}::test_fails\n" not in error
    assert not (tmp_path / "published").exists()


def test_a_part_of_the_suite_is_not_published(suite: Path, xfails: Path, tmp_path: Path) -> None:
    assert run.main(arguments(suite, "-k", "test_passes or test_environment")) == 0
    assert not (tmp_path / "published").exists()


def test_results_of_a_later_python_are_not_published(
    suite: Path,
    xfails: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "LAST_PYTHON", (3, 10))
    assert run.main(arguments(suite)) == 1
    assert "published are results of Python 3.11 and 3.12" in capsys.readouterr().err
    assert not (tmp_path / "published").exists()
    assert run.main(arguments(suite, "--output", str(tmp_path / "own"))) == 1
    assert (tmp_path / "own" / "numpy.json").exists()


def test_variables_that_the_suite_sees_are_told(
    suite: Path, xfails: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (suite / FILE).write_text(
        "import os\ndef test_it():\n"
        "  names = {name for name in os.environ if name.startswith('COREPY_')}\n"
        "  assert names == {'COREPY_BACKEND_PRIORITY', 'COREPY_ROUTES'}\n"
    )
    for name in ("COREPY_PRECISION", "COREPY_STRICT", "COREPY_REPRODUCIBLE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("COREPY_ROUTES", "off")
    assert run.main(arguments(suite)) == 0
    record = json.loads((tmp_path / "published" / "numpy.json").read_text())
    assert record["environment"] == {"COREPY_ROUTES": "off"}
    assert ", COREPY_ROUTES=off |" in (tmp_path / "published" / "matrix.md").read_text()


def test_a_selection_that_matches_nothing_is_no_success(
    suite: Path, xfails: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run.main(arguments(suite, "-k", "nothing_is_called_so")) == 2
    told = "conformance: -k: no test matches 'nothing_is_called_so'\n"
    assert capfd.readouterr().err.endswith(told)


def test_a_suite_that_cannot_start_is_no_result(suite: Path, xfails: Path, tmp_path: Path) -> None:
    (suite / "conftest.py").write_text(f"{CONFTEST}\nraise ImportError('backend is broken')\n")
    assert run.main(arguments(suite)) == 2
    xfails.write_text(f"{FILE}::test_fails\n")
    assert run.main(arguments(suite)) == 2
    assert not (tmp_path / "published").exists()


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("nonesuch", "nonesuch cannot run: priority has 'nonesuch'; expected a backend (numpy, "),
        # A kind of device is a priority, too, but whose results are these?
        ("cpu", "cpu makes arrays in numpy on cpu; expected the name of a backend"),
    ],
)
def test_another_backend_than_the_named_one_is_no_result(
    suite: Path,
    xfails: Path,
    tmp_path: Path,
    backend: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run.main([*arguments(suite), "--backend", backend]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "published").exists()


def test_nothing_is_cloned_for_a_backend_that_cannot_run(
    xfails: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "REPOSITORY", "nowhere")
    assert run.main(["--backend", "nonesuch"]) == 2
    assert "nonesuch cannot run" in capsys.readouterr().err
    assert not run.cache_folder().exists() or list(run.cache_folder().iterdir()) == []


def test_a_missing_suite_is_named(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(arguments(tmp_path)) == 2
    assert f"{tmp_path} is no checkout of {run.REPOSITORY}" in capsys.readouterr().err
    shutil.rmtree(suite / "array-api")
    assert run.main(arguments(suite)) == 2
    assert "lacks its submodule array-api" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-examples", "0"], "--max-examples: it is '0'; expected a number of at least 1"),
        (["--max-examples", "-3"], "--max-examples: it is '-3'; expected a number of at least 1"),
        (["--workers", "-1"], "--workers: it is '-1'; expected a number of at least 0"),
        (["--workers", "many"], "--workers: it is 'many'; expected a number of at least 0"),
    ],
)
def test_numbers_are_looked_at_before_anything_is_cloned(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "find_suite", lambda path: pytest.fail("it looked for the suite"))
    with pytest.raises(SystemExit) as raised:
        run.main(["--backend", "numpy", *words])
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_what_runs_the_suite_has_to_be_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "_NEEDS", ("pytest", "no_such_module"))
    monkeypatch.setattr(run, "find_suite", lambda path: pytest.fail("it looked for the suite"))
    assert run.main(["--backend", "numpy"]) == 2
    told = 'not installed: no_such_module; expected what `pip install -e ".[conformance]"` in '
    assert told in capsys.readouterr().err


def test_options_are_not_abbreviated(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run.main(arguments(suite, "--max", "200"))
    assert raised.value.code == 2
    assert "--max" in capsys.readouterr().err


# ---------------------------------------------------------------------------- the clone


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def commit(suite: Path) -> str:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    git(suite, "init", "--quiet")
    git(suite, "add", ".")
    git(suite, "commit", "--quiet", "-m", "miniature")
    return git(suite, "rev-parse", "HEAD")


def test_without_a_suite_the_pinned_commit_is_cloned_once(
    suite: Path, commit: str, xfails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "REPOSITORY", str(suite))
    monkeypatch.setattr(run, "PIN", commit)
    clone = run.find_suite(None)
    assert clone == run.cache_folder() / f"array-api-tests-{commit[:12]}"
    assert (clone / FILE).read_text() == TESTS
    assert run.suite_commit(clone) == commit
    monkeypatch.setattr(run, "REPOSITORY", str(suite / "gone"))
    assert run.find_suite(None) == clone


def test_a_clone_that_fails_says_what_to_do(
    suite: Path, commit: str, xfails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "REPOSITORY", str(suite / "gone"))
    with pytest.raises(run.ConformanceError, match="with --suite"):
        run.find_suite(None)
    # The pinned commit is not in this repository: nothing half done stays behind.
    monkeypatch.setattr(run, "REPOSITORY", str(suite))
    with pytest.raises(run.ConformanceError, match="checkout"):
        run.find_suite(None)
    assert list(run.cache_folder().iterdir()) == []


def test_another_commit_than_the_pinned_one_is_told(
    suite: Path, commit: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.suite_commit(suite) == commit
    assert f"the suite is at {commit}; expected {run.PIN}" in capsys.readouterr().err
    monkeypatch.setattr(run, "PIN", commit)
    assert run.suite_commit(suite) == commit
    assert capsys.readouterr().err == ""
    (suite / FILE).write_text("")
    assert run.suite_commit(suite) == f"{commit}+changes"
    assert "+changes; expected" in capsys.readouterr().err


def test_a_suite_outside_of_git_has_no_commit(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(suite.parent))
    assert run.suite_commit(suite) is None
    assert "commit is unknown" in capsys.readouterr().err


# ---------------------------------------------------------------------------- the parts


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a/test_x.py::test_add[float32]", True),
        ("a/test_x.py::test_add", True),
        ("a/test_x.py", True),
        ("a/test_x.py::test_ad", False),
        ("a/test_x.py::test_add[int8]", False),
        ("test_add", False),
        ("a", False),
    ],
)
def test_matches(pattern: str, expected: bool) -> None:
    assert run.matches("a/test_x.py::test_add[float32]", pattern) is expected


def test_read_xfails_leaves_comments_and_blank_lines_out(tmp_path: Path) -> None:
    path = tmp_path / "xfails.txt"
    assert run.read_xfails(path) == []
    path.write_text("# why\n\n  a.py::test_a  \n#b.py::test_b\nc.py::test_c\n")
    assert run.read_xfails(path) == ["a.py::test_a", "c.py::test_c"]


def options(backend: str, device: str | None) -> run.Options:
    return run.Options(backend, device, examples=5, workers="0", selection=None)


def test_a_device_is_part_of_the_priority_and_of_the_file_name() -> None:
    assert (options("numpy", None).priority, options("numpy", None).label) == ("numpy", "numpy")
    on_gpu = options("torch", "cuda:1")
    assert (on_gpu.priority, on_gpu.label) == ("torch:cuda:1", "torch-cuda-1")
    assert on_gpu.environment()["COREPY_BACKEND_PRIORITY"] == "torch:cuda:1"


def test_the_matrix_merges_the_records_of_all_runs(tmp_path: Path) -> None:
    facts = {"seconds": 12, "date": "2026-01-02", "versions": {"numpy": "2.4.6"}}
    pinned = facts | {"suite_commit": run.PIN, "device": "cpu"}
    unknown = facts | {"suite_commit": None, "device": "mps"}
    run.write_result(tmp_path, options("torch", "mps"), run.Counts(8, 1, 0, 2, 3), **unknown)
    run.write_result(tmp_path, options("torch", None), run.Counts(9), **pinned)
    run.write_result(tmp_path, options("numpy", None), run.Counts(10), **pinned)
    rows = run.write_matrix(tmp_path).read_text().split("| --- |\n")[1].splitlines()
    end = f"12 | numpy 2.4.6 | {run.PIN[:12]} | 2026-01-02 |"
    assert rows == [
        f"| numpy | cpu | 10 | 0 | 0 | 0 | 0 | 5 | {end}",
        f"| torch | cpu | 9 | 0 | 0 | 0 | 0 | 5 | {end}",
        "| torch | mps | 8 | 1 | 0 | 2 | 3 | 5 | 12 | numpy 2.4.6 | unknown | 2026-01-02 |",
    ]
    # A second run of one backend replaces its row.
    run.write_result(tmp_path, options("numpy", None), run.Counts(11), **pinned)
    assert "| numpy | cpu | 11 |" in run.write_matrix(tmp_path).read_text()
    assert len(list(tmp_path.glob("*.json"))) == 3


def test_versions_are_those_of_the_extra_that_is_named_as_the_backend() -> None:
    assert run.versions("numpy").keys() == {"python", "corepy", "numpy", "array-api-compat"}
    assert run.versions("cupy").keys() <= {*run.versions("numpy"), "cupy-cuda12x", "cupy-cuda13x"}
