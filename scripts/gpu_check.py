"""Run on a machine with a GPU what cannot be run elsewhere, and tell it in one table.

    scripts/gpu_check.sh OUT_DIR
    scripts/gpu_check.sh OUT_DIR --steps tests,accuracy --limit 580
    scripts/gpu_check.sh OUT_DIR --rehearse         # the same code on the host, tiny
    scripts/gpu_check.sh OUT_DIR --merge A B        # put together what other calls wrote

Steps:

tests
    The tests that are marked for a GPU, those of the kernels on CuPy's arrays and on torch's there,
    and those of the namespace and of Python scalars on CuPy's.
namespace-torch, namespace-jax
    The tests of the namespace and of Python scalars on that library's arrays there.
accuracy
    `conformance/kernels.py`: how far every kernel's results lie from those in float64.
sanitizer
    `scripts/_sanitized.py`: the kernels under compute-sanitizer, where there is one.
benchmarks-dispatch, benchmarks-bandwidth, benchmarks-large, benchmarks-attention
    `benchmarks/gpu.py`: calls, kernels, large operations and attention beside raw libraries.
benchmarks-dispatch-python
    The calls once more, by the hot path in Python.
conformance-cupy, conformance-torch, conformance-jax
    `conformance/run.py`: array-api-tests on the device of that backend.

A step of tests of which none passed has failed, and so has a test that is skipped because a library
does not see the GPU here, which that library itself said it does.

Each step is a process of its own, with a limit of time; what it had found when it was stopped or
broke down is kept, and the others go on. OUT_DIR gets ``gpu-check.json``, to which every call adds,
``gpu-check.md``, made of it, and ``gpu-check.log``, all that the steps printed.

The exit status is 0 when all went well, 1 when a step found or met something wrong, and 2 where
there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import _measure  # noqa: E402
from scripts import _gpu_report  # noqa: E402

NAME: Final = "gpu-check"
#: How many failures of a step are kept, and how much of what a step printed last.
MOST_FAILURES: Final = 200
TAIL: Final = 2000
#: pytest's status where no test was selected, as it may be of one command among several.
NOTHING: Final = "5"
#: How the state of a step begins that was left out: what an earlier call found of it stays.
NOT_RUN: Final = "not run: "
#: The state of a step that ran no test to its end.
NONE_PASSED: Final = "no test passed"
#: Seconds in which a step that is stopped may end by itself.
GRACE: Final = 5.0
DISTRIBUTIONS: Final = (
    *("numpy", "array-api-compat", "torch", "triton", "jax", "jaxlib", "numba", "hypothesis"),
    *("pytest", "cupy-cuda12x", "cupy-cuda13x", "cupy-rocm-7-0", "jax-cuda13-plugin"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A step.

    Attributes
    ----------
    limit : float
        Seconds that it may take.
    commands : tuple of tuple of str
        What it runs, one after the other. ``{records}``, ``{folder}`` and the like stand for what
        is known only then.
    rehearsal : tuple of tuple of str
        The same, on the host.
    counts : bool
        Whether its records are outcomes of tests, to be counted.
    environment : dict of str to str
        Variables that it needs, in which ``{device}`` and the like stand for the same.
    """

    limit: float
    commands: tuple[tuple[str, ...], ...]
    rehearsal: tuple[tuple[str, ...], ...]
    counts: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


_PYTEST: Final = ("-m", "pytest", "-p", "scripts._outcomes", "-q", "-p", "no:cacheprovider")
#: Other releases than the tests are made for warn of other things.
_RUN: Final = (*_PYTEST, "-n", "{workers}", "-W", "default", "--tb=short")

#: What these libraries make of Python scalars is up to their kernels on the device.
_SCALARS: Final = ("tests/dispatch/test_scalars.py", "tests/dispatch/test_repeats.py")

_ACCURACY: Final = ("conformance/kernels.py", "--records", "{records}")
_BENCHMARKS: Final = ("benchmarks/gpu.py", "--records", "{records}")
#: Of the tables of benchmarks/gpu.py, in this order.
_ROUNDS: Final = {"dispatch": "15", "bandwidth": "9", "large": "9", "attention": "5"}


def _conformance(backend: str, host: str) -> Step:
    run = (
        *("conformance/run.py", "--suite", "{suite}", "--output", "{folder}"),
        *("--max-examples", "{examples}", "--workers", "{workers}"),
    )
    there = (*run, "--backend", backend, "--device", "{device}")
    return Step(550, (there,), ((*run, "--backend", host, "-k", "test_add"),), counts=True)


def _namespace(backend: str) -> Step:
    there = (*_RUN, "tests/array_api", *_SCALARS, "-k", backend)
    here = (*_RUN, "tests/array_api/test_array.py", "-k", f"{backend} and to_device")
    return Step(
        *(550, (there,), (here,)), counts=True, environment={"COREPY_TEST_DEVICE": "{device}"}
    )


def _benchmark(table: str, rounds: str, **environment: str) -> Step:
    run = (*_BENCHMARKS, "--only", table, "--rounds")
    rehearsal = (*run, "1", "--rehearse")
    return Step(200, ((*run, rounds),), (rehearsal,), environment=environment)


STEPS: Final[dict[str, Step]] = {
    "tests": Step(
        500,
        (
            (*_RUN, "tests", "-m", "gpu", "-n", "0"),
            (*_RUN, "tests/kernels", "-k", "cupy or cuda or replay or by_torch"),
            (*_RUN, "tests/backends/test_cupy.py", "tests/array_api", "-k", "cupy"),
            (*_RUN, *_SCALARS, "-k", "cupy"),
        ),
        ((*_RUN, "tests/kernels/test_norms.py", "-k", "numpy-reference and not layer"),),
        counts=True,
    ),
    "namespace-torch": _namespace("torch"),
    "namespace-jax": _namespace("jax"),
    "accuracy": Step(
        200,
        # Each a process: a kernel that goes astray takes all that follows in its process with it.
        tuple((*_ACCURACY, "--library", library) for library in ("cupy", "torch", "jax")),
        ((*_ACCURACY, "--rehearse"),),
    ),
    "sanitizer": Step(300, (("scripts/_sanitized.py", "--records", "{records}"),), ()),
    **{f"benchmarks-{table}": _benchmark(table, rounds) for table, rounds in _ROUNDS.items()},
    "benchmarks-dispatch-python": _benchmark("dispatch", "10", COREPY_PURE_PYTHON="1"),
    "conformance-cupy": _conformance("cupy", "numpy"),
    "conformance-torch": _conformance("torch", "torch"),
    "conformance-jax": _conformance("jax", "jax"),
}


# ------------------------------------------------------------------------------ the machine

_LOOK: Final = """
import json

def cupy():
    import cupy
    runtime = cupy.cuda.runtime
    names = [runtime.getDeviceProperties(i)["name"] for i in range(runtime.getDeviceCount())]
    return [name.decode() for name in names], bool(runtime.is_hip)

def torch():
    import torch
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return names, bool(torch.version.hip)

def jax():
    import jax
    found = [d for d in jax.devices() if d.platform == "gpu"]
    return [d.device_kind for d in found], any("rocm" in d.client.platform_version for d in found)

found = {}
for look in (cupy, jax, torch):  # JAX may miss a GPU after torch (jax-ml/jax#18032)
    try:
        names, amd = look()
        found[look.__name__] = {"gpus": names, "amd": amd}
    except Exception as error:
        found[look.__name__] = {"gpus": [], "reason": f"{type(error).__name__}: {error}"[:300]}
print(json.dumps(found))
"""


def _output(*command: str) -> str | None:
    """Return what a command prints, None where it does not exist or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=_environment(), timeout=180
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _environment(**more: str) -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONUNBUFFERED": "1",
        # Several libraries share the device, in several processes.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        **more,
    }


def facts() -> dict[str, Any]:
    """Say what machine this is: its GPUs as each library sees them, and as corepy does."""
    seen = json.loads(_output(sys.executable, "-c", _LOOK) or "{}")
    names: list[str] = next((row["gpus"] for row in seen.values() if row["gpus"]), [])
    fields = "name,driver_version,memory.total"
    driver = _output("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader")
    info = _output(sys.executable, "-m", "corepy", "info", "--json")
    told = json.loads(info) if info else {}
    return {
        "gpu": names[0] if names else None,
        "gpus": names,
        "amd": any(row.get("amd", False) for row in seen.values()),
        "seen_by": seen,
        "nvidia_smi": driver.strip() if driver else None,
        "processor": _measure.processor(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "versions": _measure.versions(DISTRIBUTIONS),
        "compiled": told.get("settings", {}).get("compiled"),
        "corepy_sees": {
            "backends": {b["name"]: b["devices"] or b["reason"] for b in told.get("backends", ())},
            "gpus": told.get("gpus", []),
            "problems": told.get("problems", []),
            "default": told.get("default"),
        },
    }


def compile_here() -> str | None:
    """Compile corepy's extension modules for this Python, in place; return why that failed."""
    try:
        from hatch_build import compile_modules, replace

        with tempfile.TemporaryDirectory() as folder:
            for name, path in compile_modules(ROOT, Path(folder)).items():
                replace(path, ROOT / name)
    except (Exception, SystemExit) as error:  # compilers fail in their own ways
        return f"{type(error).__name__}: {error}"
    return None


# ------------------------------------------------------------------------------ the steps


def expected(machine: Mapping[str, Any]) -> dict[str, str]:
    """Return the variable that lets tests fail, and not be skipped, for what a machine has."""
    found = [name for name, row in machine["seen_by"].items() if row["gpus"]]
    names = os.environ.get("COREPY_EXPECT_BACKENDS") or ",".join(["gpu", *found])
    return {"COREPY_EXPECT_BACKENDS": names} if found else {}


def run_step(
    step: Step,
    words: dict[str, str],
    limit: float,
    log: TextIO,
    *,
    rehearse: bool,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a step's commands, each with what is left of its time; return its record."""
    start = time.monotonic()
    states, tail, printed = [], "", ""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.jsonl"
        words = words | {"folder": folder, "records": str(records)}
        own = {name: value.format_map(words) for name, value in step.environment.items()}
        environment = _environment(
            OUTCOMES=str(records), **({} if rehearse else variables or {}), **own
        )
        if step.counts:
            # conformance/run.py hands no arguments on to pytest.
            environment["PYTEST_ADDOPTS"] = "-p scripts._outcomes"
        for command in step.rehearsal if rehearse else step.commands:
            left = limit - (time.monotonic() - start)
            _end_line(records)
            argv = [sys.executable, *(word.format_map(words) for word in command)]
            state, printed = _run(argv, environment, left)
            log.write(f"$ {' '.join(argv)}\n{printed}\n[{state}]\n\n")
            log.flush()
            states.append(state)
            tail = printed[-TAIL:] if state != "0" else tail
        rows = _read(records)
    bad = [state for state in states if state not in ("0", NOTHING)]
    record: dict[str, Any] = {
        "state": "done" if not bad else ", ".join(bad),
        "seconds": round(time.monotonic() - start),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if bad:
        record["tail"] = tail
    if not step.counts:
        return record | {"rows": rows}
    record |= counted(rows)
    if not bad and not record["counts"].get("passed"):
        record |= {"state": NONE_PASSED, "tail": printed[-TAIL:]}
    return record


def _run(argv: Sequence[str], environment: dict[str, str], limit: float) -> tuple[str, str]:
    """Run a command; return how it ended and what it printed."""
    if limit <= 0:
        return "no time left", ""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
        process = subprocess.Popen(
            argv, cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True
        )
        try:
            state = str(process.wait(limit))
        except subprocess.TimeoutExpired:
            state = f"stopped after {limit:.0f} s"
            _stop(process)
        finally:
            _stop(process)  # and what it left running
        out.seek(0)
        known = state.startswith("stopped") or state in ("0", NOTHING)
        return (state if known else f"status {state}"), out.read()


def _stop(process: subprocess.Popen[Any]) -> None:
    """End a process and those that it started, which have a session of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a file; a process that was stopped may leave half a one."""
    rows = []
    for line in path.read_text(encoding="utf-8").split("\n") if path.is_file() else ():
        with suppress(ValueError):
            rows.append(json.loads(line))
    return rows


def _end_line(path: Path) -> None:
    """End what a process that was stopped wrote half, for the next one to begin a line."""
    if path.is_file() and not path.read_bytes().endswith(b"\n"):
        with path.open("a", encoding="utf-8") as out:
            out.write("\n")


def counted(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count the outcomes of tests; a test that failed once has failed."""
    outcomes: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["outcome"] == "failed" or row["test"] not in outcomes:
            outcomes[row["test"]] = row
    failures = [row for row in outcomes.values() if row["outcome"] == "failed"]
    skips = Counter(r.get("message", "") for r in outcomes.values() if r["outcome"] == "skipped")
    return {
        "counts": dict(Counter(row["outcome"] for row in outcomes.values())),
        "failures": failures[:MOST_FAILURES],
        "skips": dict(skips.most_common(20)),
    }


def fine(record: dict[str, Any]) -> bool:
    """Say whether a step ran to its end and found nothing wrong."""
    return record["state"] == "done" and not record.get("failures")


# ------------------------------------------------------------------------------ the command


def chosen(steps: str) -> list[str]:
    """Return the steps that a list of names, or of what names begin with, means."""
    found: list[str] = []
    for word in steps.split(","):
        matching = [name for name in STEPS if name == word or name.startswith(f"{word}-")]
        if not matching:
            raise argparse.ArgumentTypeError(f"{word!r}; expected any of {', '.join(STEPS)}")
        found += matching
    return [name for name in STEPS if name in found]


def merge(contents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put the results of several calls on one kind of machine together; later ones count.

    Raises
    ------
    ValueError
        If they are of different GPUs, or some of a rehearsal: its figures would pass for the GPU's.
    """
    gpus = {content["facts"]["gpu"] for content in contents}
    if len(gpus) > 1:
        raise ValueError(f"merge: the results are of {gpus}; expected those of one GPU")
    if len({content["rehearsal"] for content in contents}) > 1:
        raise ValueError("merge: some of the results are of a rehearsal; expected all, or none")
    merged: dict[str, Any] = {"steps": {}}
    for content in contents:
        merged |= {"facts": content["facts"], "rehearsal": content["rehearsal"]}
        for name, record in content["steps"].items():
            if name in merged["steps"] and record["state"].startswith(NOT_RUN):
                continue
            merged["steps"][name] = record
    return merged


def write(out: Path, content: dict[str, Any]) -> None:
    """Write both forms of the results, each in one step: who is stopped meanwhile loses none."""
    for kind, text in (
        ("json", json.dumps(content, indent=1) + "\n"),
        ("md", _gpu_report.markdown(content)),
    ):
        beside = out / f".{NAME}.{kind}"
        beside.write_text(text, encoding="utf-8")
        beside.replace(out / f"{NAME}.{kind}")


def read(folder: Path) -> dict[str, Any]:
    """Return the results that a call wrote into a folder.

    Raises
    ------
    OSError
        If there are none.
    ValueError
        If the file is damaged.
    """
    path = folder / f"{NAME}.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} holds no results: {error}") from None
    return found


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = argparse.ArgumentParser(
        prog="scripts/gpu_check.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("out", type=Path, metavar="OUT_DIR", help="folder for the results")
    made.add_argument("--steps", type=chosen, default=[*STEPS], help="a list with commas")
    made.add_argument("--limit", type=float, default=3600, help="seconds for all steps together")
    made.add_argument("--examples", type=int, help="of array-api-tests (default: 200)")
    made.add_argument("--workers", help="processes of pytest (default: one a core)")
    made.add_argument("--suite", type=Path, help="a checkout of array-api-tests")
    made.add_argument("--compile", action="store_true", help="compile corepy's hot path first")
    made.add_argument("--rehearse", action="store_true", help="on the host, with little to do")
    made.add_argument("--merge", type=Path, nargs="+", metavar="DIR", help="run nothing")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = parser().parse_args(argv)
    out: Path = options.out
    try:
        out.mkdir(parents=True, exist_ok=True)
        known = [out] if (out / f"{NAME}.json").is_file() else []
        earlier = [read(folder) for folder in (*known, *(options.merge or ()))]
    except (OSError, ValueError) as error:  # names the folder or the file
        parser().error(str(error))
    if options.merge:
        try:
            content = merge(earlier)
        except ValueError as error:
            parser().error(str(error))
        write(out, content)
        return 0 if all(fine(record) for record in content["steps"].values()) else 1

    end = time.monotonic() + options.limit
    failed = compile_here() if options.compile else None
    if failed is not None:
        print(f"gpu_check: the hot path was not compiled: {failed}", file=sys.stderr)
    machine = facts()
    if machine["gpu"] is None and not options.rehearse:
        reasons = {name: row.get("reason", "none") for name, row in machine["seen_by"].items()}
        print(f"gpu_check: no library sees a GPU: {reasons}; try --rehearse", file=sys.stderr)
        return 2
    content = {"facts": machine, "rehearsal": options.rehearse, "steps": {}}
    try:
        merge([*earlier, content])  # before any step has taken its time
    except ValueError as error:
        parser().error(str(error))
    gpu = "rocm:0" if machine["amd"] else "cuda:0"
    words = {
        "device": "cpu" if options.rehearse else gpu,
        "examples": str(options.examples or (1 if options.rehearse else 200)),
        "workers": options.workers or ("0" if options.rehearse else "auto"),
        "suite": str(options.suite.resolve()) if options.suite else "",
    }
    with (out / f"{NAME}.log").open("a", encoding="utf-8") as log:
        for name in options.steps:
            step, left = STEPS[name], end - time.monotonic()
            if name.startswith("conformance") and not options.suite:
                why = "no checkout of array-api-tests was named"
                record = {"state": f"{NOT_RUN}{why}", "seconds": 0}
            elif left <= GRACE:
                record = {"state": f"{NOT_RUN}no time left", "seconds": 0}
            else:
                print(f"gpu_check: {name}", flush=True)
                limit = min(step.limit, left - GRACE)
                record = run_step(
                    *(step, words, limit, log),
                    rehearse=options.rehearse,
                    variables=expected(machine),
                )
                print(f"gpu_check: {name}: {record['state']}", record.get("counts", ""), flush=True)
            content["steps"][name] = record
            write(out, merge([*earlier, content]))  # after each: the next one may take all down
    print(f"gpu_check: wrote {out / NAME}.md")
    return 0 if all(fine(content["steps"][name]) for name in options.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
