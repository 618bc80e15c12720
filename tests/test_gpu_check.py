"""The check of a machine with a GPU: that it loses nothing, tells no lies, and runs at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu as benchmark
from benchmarks._on_device import Candidate, Library, measure
from conformance import kernels as accuracy
from corepy import kernels
from scripts import _sanitized, gpu_check
from scripts.gpu_check import STEPS, Step

ROOT = Path(__file__).resolve().parent.parent
#: A step's program: it writes a record, and half a one.
WRITES = "open({records!r}, 'w').write('{{\"kernel\": 1}}\\n{{\"ker')"
HOST = Library("cupy", "numpy", "cpu", np)


def facts(gpu: str | None = None) -> dict[str, Any]:
    return {
        "gpu": gpu,
        "gpus": [gpu] if gpu else [],
        "amd": False,
        "seen_by": {"torch": {"gpus": [gpu] if gpu else [], "amd": False}},
        "nvidia_smi": None,
        "processor": "one",
        "processors": 1,
        "python": "3",
        "versions": {},
        "compiled": True,
        "corepy_sees": {"backends": {}, "gpus": [], "problems": [], "default": None},
    }


def check(
    monkeypatch: pytest.MonkeyPatch, out: Path, steps: dict[str, Step], *argv: str, gpu: str = "X1"
) -> tuple[int, dict[str, Any]]:
    monkeypatch.setattr(gpu_check, "STEPS", steps)
    monkeypatch.setattr(gpu_check, "facts", lambda: facts(gpu))
    status = gpu_check.main([str(out), *argv])
    return status, json.loads((out / "gpu-check.json").read_text())


def python(code: str, limit: float = 60, counts: bool = False) -> Step:
    return Step(limit, (("-c", code),), (), counts)


# ---------------------------------------------------------------------------- the steps


def test_a_step_that_fails_or_hangs_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    steps = {
        "broken": python(f"{WRITES}; raise SystemExit('its last words')"),
        "slow": python(f"{WRITES}; import time; time.sleep(600)", limit=2),
        "good": python(WRITES),
    }
    status, content = check(monkeypatch, tmp_path, steps, "--steps", "broken,slow,good")
    assert status == 1
    found = content["steps"]
    assert found["broken"]["state"] == "status 1"
    assert found["broken"]["tail"] == "its last words\n"
    assert found["slow"]["state"] == "stopped after 2 s"
    assert found["good"]["state"] == "done"
    assert [record["rows"] for record in found.values()] == [[{"kernel": 1}]] * 3
    page = (tmp_path / "gpu-check.md").read_text()
    assert page.startswith("# GPU check: X1\n")
    assert "- broken, status 1: its last words" in page
    assert "its last words" in (tmp_path / "gpu-check.log").read_text()


def test_a_command_that_breaks_down_spoils_no_line_of_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    breaks = ("-c", f"{WRITES}; import os; os.abort()")
    goes_on = ("-c", "open({records!r}, 'a').write('{{\"kernel\": 2}}\\n')")
    steps = {"two": Step(60, (breaks, goes_on), ()), "next": python(WRITES)}
    status, content = check(monkeypatch, tmp_path, steps)
    assert status == 1
    assert content["steps"]["two"]["state"] == "status -6"
    assert content["steps"]["two"]["rows"] == [{"kernel": 1}, {"kernel": 2}]
    assert content["steps"]["next"]["state"] == "done"


def test_a_step_is_told_the_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tells = "import json, os; open({records!r}, 'w').write(json.dumps([os.environ['AT']]) + '\\n')"
    command = (("-c", tells),)
    steps = {"a": Step(60, command, command, environment={"AT": "{device}"})}
    for argv, device in (((), "cuda:0"), (("--rehearse",), "cpu")):
        _, content = check(monkeypatch, tmp_path / device[:3], steps, *argv)
        assert content["steps"]["a"]["rows"] == [[device]]
    for backend in ("torch", "jax"):  # whose arrays are on the host, or may be, unless it is named
        step = STEPS[f"namespace-{backend}"]
        assert step.environment == {"COREPY_TEST_DEVICE": "{device}"}
        ((*_, directory, _, _, _, chosen),) = step.commands
        assert (directory, chosen) == ("tests/array_api", backend)


def test_steps_run_by_parts_and_are_merged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = {"a": python("0"), "b-1": python("1 / 0"), "b-2": python("0")}
    status, _ = check(monkeypatch, tmp_path / "1", steps, "--steps", "b")
    assert status == 1
    status, content = check(monkeypatch, tmp_path / "2", steps, "--steps", "a")
    assert (status, [*content["steps"]]) == (0, ["a"])
    # A later call has no time for a step that an earlier one has run: that one's result stays.
    late, _ = check(monkeypatch, tmp_path / "1", steps, "--steps", "b", "--limit", "0")
    assert late == 1
    late, _ = check(monkeypatch, tmp_path / "1", steps, "--steps", "b", "--limit", "4")
    assert late == 1
    # Nor does one that names no checkout of the suite lose what the suite found.
    suites = {"conformance-a": python("0")}
    check(monkeypatch, tmp_path / "5", suites, "--suite", str(tmp_path))
    again, content = check(monkeypatch, tmp_path / "5", suites)
    assert (again, content["steps"]["conformance-a"]["state"]) == (1, "done")
    folders = [str(tmp_path / name) for name in "12"]
    status, content = check(monkeypatch, tmp_path / "3", steps, "--merge", *folders)
    assert status == 1
    assert {name: r["state"] for name, r in content["steps"].items()} == {
        "b-1": "status 1",
        "b-2": "done",
        "a": "done",
    }
    check(monkeypatch, tmp_path / "4", steps, "--steps", "a", gpu="Y2")
    with pytest.raises(SystemExit):
        check(monkeypatch, tmp_path / "1", steps, "--merge", str(tmp_path / "4"))


def test_results_of_another_gpu_or_a_rehearsal_are_refused_before_any_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {"a": python("0")}
    check(monkeypatch, tmp_path, steps)
    log = (tmp_path / "gpu-check.log").read_text()
    with pytest.raises(SystemExit, match="2"):
        check(monkeypatch, tmp_path, steps, gpu="Y2")
    assert "expected those of one GPU" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        check(monkeypatch, tmp_path, steps, "--rehearse")
    assert "some of the results are of a rehearsal" in capsys.readouterr().err
    assert (tmp_path / "gpu-check.log").read_text() == log


def test_counts_tests_that_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2\n"
        "def test_skipped(): pytest.skip('no reason')\n"
        "@pytest.fixture\ndef broken(): raise OSError('at the start')\n"
        "def test_error(broken): pass\n"
        "def test_crashes():\n  import os; os._exit(3)\n"
    )
    command = (*gpu_check._PYTEST, str(tmp_path / "test_it.py"), "--rootdir", str(tmp_path))
    steps = {"tests": Step(60, ((*command, "-c", os.devnull),), (), counts=True)}
    status, content = check(monkeypatch, tmp_path, steps, "--steps", "tests")
    record = content["steps"]["tests"]
    assert (status, record["state"]) == (1, "status 3")
    assert record["counts"] == {"passed": 1, "failed": 2, "skipped": 1}
    messages = [row["message"].strip() for row in record["failures"]]
    assert messages == ["assert 1 == 2", "OSError: at the start"]
    assert record["skips"] == {"Skipped: no reason": 1}


@pytest.mark.parametrize(
    ("body", "state", "counts"),
    [
        ("def test_it():\n  pytest.skip('no GPU')", "no test passed", {"skipped": 1}),
        ("@pytest.mark.gpu\ndef test_it(): pass", "no test passed", {}),
        (
            "import os\ndef test_it(): assert os.environ['COREPY_EXPECT_BACKENDS'] == 'gpu,torch'",
            "done",
            {"passed": 1},
        ),
    ],
)
def test_tests_that_do_not_run_are_no_success(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    body: str,
    state: str,
    counts: dict[str, int],
) -> None:
    monkeypatch.delenv("COREPY_EXPECT_BACKENDS", raising=False)
    (tmp_path / "test_it.py").write_text(f"import pytest\n{body}\n")
    command = (*gpu_check._PYTEST, str(tmp_path / "test_it.py"), "--rootdir", str(tmp_path))
    command = (*command, "-m", "not gpu", "-W", "ignore", "-c", os.devnull)
    steps = {"tests": Step(60, (command,), (), counts=True)}
    status, content = check(monkeypatch, tmp_path, steps, "--steps", "tests")
    record = content["steps"]["tests"]
    assert (record["state"], record["counts"]) == (state, counts)
    assert status == (state != "done")


@pytest.mark.parametrize("outcomes", [("failed", "passed"), ("passed", "failed")])
def test_a_test_that_failed_once_has_failed(outcomes: tuple[str, ...]) -> None:
    found = gpu_check.counted([{"test": "a", "outcome": outcome} for outcome in outcomes])
    assert found["counts"] == {"failed": 1}
    assert [row["test"] for row in found["failures"]] == ["a"]


def test_expects_what_sees_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COREPY_EXPECT_BACKENDS", raising=False)
    seen = {"cupy": {"gpus": ["X"]}, "torch": {"gpus": []}, "jax": {"gpus": ["X"]}}
    told = gpu_check.expected({"seen_by": seen})
    assert told == {"COREPY_EXPECT_BACKENDS": "gpu,cupy,jax"}
    monkeypatch.setenv("COREPY_EXPECT_BACKENDS", "cuda")
    assert gpu_check.expected({"seen_by": seen}) == {"COREPY_EXPECT_BACKENDS": "cuda"}
    assert gpu_check.expected({"seen_by": {}}) == {}


def test_names_steps_by_their_beginnings() -> None:
    assert gpu_check.chosen("conformance,tests") == [
        "tests",
        "conformance-cupy",
        "conformance-torch",
        "conformance-jax",
    ]
    with pytest.raises(gpu_check.argparse.ArgumentTypeError, match="'x'; expected any of tests"):
        gpu_check.chosen("tests,x")


def test_what_the_steps_run_is_there() -> None:
    for step in STEPS.values():
        for command in step.commands + step.rehearsal:
            for word in command:
                assert (
                    not word.endswith(".py")
                    or word.startswith("tests/backends/")
                    or (ROOT / word).is_file()
                ), word


# ---------------------------------------------------------------------------- what they measure


def test_every_kernel_has_its_error_told(tmp_path: Path) -> None:
    told = {name.partition(",")[0] for name in accuracy.CASES}
    assert told == {*kernels.__all__} - {"rope_tables"}  # which are made on the host
    records = tmp_path / "records.jsonl"
    assert accuracy.main(["--records", str(records), "--rehearse", "--library", "cupy"]) == 0
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    assert [row["kernel"] for row in rows[1:]] == [*accuracy.CASES]
    assert all(row["error"] > 0 and row["within"] for row in rows[1:])


def test_a_wrong_kernel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def silu(x: Any) -> Any:
        return kernels.silu(x) * x.dtype.type(1 if x.dtype == np.float64 else 1 + 2.0**-10)

    monkeypatch.setitem(accuracy.CASES, "silu", (silu, accuracy.CASES["silu"][1]))
    (row,) = (r for r in accuracy.rows({"cupy": HOST}, ["float32"]) if r["kernel"] == "silu")
    assert row["error"] == pytest.approx(2.0**-10, rel=1e-3)
    assert not row["within"]


#: One element of the operand of quantize.
ONE = np.arange(33_000).reshape(33, 1000) == 1234


@pytest.mark.parametrize(
    ("kernel", "changed"),
    [
        ("quantize", lambda values, scales: (values - 1, scales)),
        ("quantize", lambda values, scales: (np.where(ONE, values - 2, values), scales)),
        ("quantize", lambda values, scales: (values.astype(np.int16), scales)),
        ("quantize", lambda values, scales: (values, scales.astype(np.float64))),
        ("silu", lambda x: (x.astype(np.float64),)),
    ],
)
def test_wrong_integers_and_dtypes_are_told(
    monkeypatch: pytest.MonkeyPatch, kernel: str, changed: Any
) -> None:
    function, operands = accuracy.CASES[kernel]

    def broken(x: Any) -> Any:
        parts = accuracy._parts(function(x))
        return parts if x.dtype == np.float64 else changed(*parts)

    monkeypatch.setitem(accuracy.CASES, kernel, (broken, operands))
    assert accuracy.errors(kernel, "float32", HOST) == (float("inf"), float("inf"))


def test_measures_beside_what_is_named() -> None:
    def call(size: int) -> Candidate:
        return Candidate(lambda: sum(range(size)), HOST)

    def broken() -> None:
        raise MemoryError("too much")

    candidates = {"short": call(1000), "long": call(50_000), "broken": Candidate(broken, HOST)}
    bases = {"short": "short", "long": "short", "broken": "short"}
    timings, failed = measure(candidates, bases, 5)
    assert timings["short"].ratio == 1
    assert 10 < timings["long"].ratio < 250  # 50 in theory
    assert failed == {"broken": "MemoryError: too much"}


@pytest.mark.backend("numba")
def test_benchmarks_keep_what_fails_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(found: Any, rounds: int, rehearse: bool) -> Any:
        yield {"operation": "add"}, lambda: 1 / 0
        yield from list(benchmark.bandwidth(found, rounds, rehearse))[:2]

    monkeypatch.setitem(benchmark.TABLES, "large", broken)
    monkeypatch.setattr(benchmark, "libraries", lambda rehearse: ({"cupy": HOST}, {"jax": "no"}))
    records = tmp_path / "records.jsonl"
    argv = ["--records", str(records), "--rehearse", "--rounds", "1", "--only", "large"]
    assert benchmark.main(argv) == 1
    seen, first, *rest = map(json.loads, records.read_text().splitlines())
    assert (seen["found"], seen["missing"]) == (["cupy"], {"jax": "no"})
    assert first["left_out"] == {"all": "ZeroDivisionError: division by zero"}
    for row, name in zip(rest, ("rms_norm", "softmax"), strict=True):
        assert row["operation"] == name
        assert row["timings"]["corepy on CuPy"]["median_ns"] > 0
        assert row["left_out"]["torch"] == "no torch"
    assert rest[0]["bytes"] == (2 * 8 * 4096 + 4096) * 4


@pytest.mark.parametrize(
    ("left_out", "status"),
    [
        ({"corepy on CuPy": "RuntimeError: it ran in numba"}, 1),
        ({"corepy on torch": "no torch", "JAX": "ValueError: of its own"}, 0),
    ],
)
def test_benchmarks_fail_where_corepy_did_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, left_out: dict[str, str], status: int
) -> None:
    def table(found: Any, rounds: int, rehearse: bool) -> Any:
        yield {"operation": "add"}, lambda: {"timings": {}, "left_out": left_out}

    monkeypatch.setitem(benchmark.TABLES, "large", table)
    monkeypatch.setattr(benchmark, "libraries", lambda rehearse: ({"cupy": HOST}, {}))
    argv = ["--records", str(tmp_path / "records.jsonl"), "--rehearse", "--only", "large"]
    assert benchmark.main(argv) == status


# ---------------------------------------------------------------------------- the whole


def test_the_command_rehearses(tmp_path: Path) -> None:
    command = [str(ROOT / "scripts" / "gpu_check.sh"), str(tmp_path), "--rehearse"]
    done = subprocess.run(
        [*command, "--steps", "tests,namespace-torch,conformance-jax"],
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    content = json.loads((tmp_path / "gpu-check.json").read_text())
    assert content["rehearsal"]
    assert content["steps"]["tests"]["counts"]["passed"] >= 5, done.stdout + done.stderr
    assert content["steps"]["namespace-torch"]["counts"]["passed"] >= 1, done.stdout + done.stderr
    assert content["steps"]["conformance-jax"]["state"].startswith("not run: no checkout")
    assert done.returncode == 1
    assert (tmp_path / "gpu-check.md").read_text().startswith("# GPU check: rehearsal")


def test_says_that_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "facts", facts)
    assert gpu_check.main([str(tmp_path)]) == 2
    assert "no library sees a GPU: {'torch': 'none'}; try --rehearse" in capsys.readouterr().err
    assert not (tmp_path / "gpu-check.json").exists()


def test_says_which_folder_is_not_there_and_which_file_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "gpu-check.json").write_text('{"steps": {"a"')
    for arguments, named in (
        ([str(tmp_path / "half")], tmp_path / "half" / "gpu-check.json"),
        ([str(tmp_path), "--merge", str(tmp_path / "half")], "gpu-check.json holds no results"),
        ([str(tmp_path / "file" / "out")], tmp_path / "file" / "out"),
        ([str(tmp_path), "--merge", str(tmp_path / "none")], tmp_path / "none" / "gpu-check.json"),
    ):
        with pytest.raises(SystemExit) as ended:
            gpu_check.main(arguments)
        assert ended.value.code == 2
        assert str(named) in capsys.readouterr().err


# ---------------------------------------------------------------------------- the sanitizer


@pytest.mark.parametrize(
    ("says", "status", "errors"),
    [
        ("========= ERROR SUMMARY: 0 errors", 0, 0),
        ("========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)", 99, 2),
        ("========= Device not supported", 1, None),
    ],
)
def test_what_a_sanitizer_says_is_told(
    tmp_path: Path, says: str, status: int, errors: int | None
) -> None:
    program = tmp_path / "compute-sanitizer"
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    program.chmod(0o755)
    record = _sanitized.sanitized("memcheck", str(program))
    assert (record["errors"], "found" in record) == (errors, status != 0)
