"""How much longer an operation takes right after one of another library: mixed company.

    python benchmarks/company.py            # measure, print
    python benchmarks/company.py --save     # and keep it in benchmarks/results

Libraries have threads of their own, and some wait in a loop for more work before they sleep. While
they do, what comes next has fewer cores. The matrix has time(B right after A) / time(B alone) for
the libraries that corepy's routes lead to, under the settings that corepy makes (`import corepy`
before NumPy); and once more without them, for comparison.

Alone means after as much plain Python as an operation takes, in which no library works: threads
sleep then, and caches and vector units grow cold, as they do between the operations of a program.
Times in a row of the same operation, which meet neither, are shown, too.

An operation is slower after another also because that one filled the caches. So the same is
measured with that Python in between, too: time(B right after A) / time(B after A and a rest). The
caches hold what A left there in both; threads that wait for more work do so only in the first.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import corepy  # before NumPy: it settles how long libraries' threads wait

# isort: split
import numpy as np

from benchmarks import _measure

RESULTS: Final = Path(__file__).resolve().parent / "results"
#: Greatest entry that is meant to be.
GOAL: Final = 1.3
#: Seconds of plain Python before an operation alone: as long as the others take.
PAUSE: Final = 3e-4
SETTINGS: Final = (
    "GOMP_SPINCOUNT",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "OPENBLAS_THREAD_TIMEOUT",
)


def operations() -> dict[str, Callable[[], Any]]:
    """Return one operation of each library, through corepy's backends, in two threads."""
    rng = np.random.default_rng(0)
    matrix = rng.random((384, 384), np.float32)
    vector = rng.standard_normal(1_000_000).astype(np.float32)
    mask = rng.random(1_000_000) < 0.5

    def of(backend: str, name: str, *args: Any) -> Callable[[], Any]:
        with corepy.backend_priority([backend]):
            given = [corepy.to(x, backend=backend, copy=True) for x in args]
        function = getattr(corepy.array_api, name)
        return lambda: function(*given)

    usable = corepy.usable_backends()
    found = {
        "numpy matmul": of("numpy", "matmul", matrix, matrix),
        "numpy exp": of("numpy", "exp", vector),
    }
    if "numba" in usable:
        found["numba where"] = of("numba", "where", mask, vector, vector)
        found["numba sqrt"] = of("numba", "sqrt", np.abs(vector))
    if "torch" in usable:
        found["torch matmul"] = of("torch", "matmul", matrix, matrix)
        found["torch exp"] = of("torch", "exp", vector)
    return found


def measure(rounds: int) -> dict[str, Any]:
    """Return the times alone and in a row, and the matrix: for each operation, each one after."""
    works = operations()
    for work in works.values():
        work(), work()
    alone: dict[str, list[float]] = {name: [] for name in works}
    row: dict[str, list[float]] = {name: [] for name in works}
    after: dict[str, dict[str, list[float]]] = {a: {b: [] for b in works} for a in works}
    later: dict[str, dict[str, list[float]]] = {a: {b: [] for b in works} for a in works}
    pairs = [(a, b) for a in works for b in works]
    rng = random.Random(0)
    for _ in range(rounds):
        rng.shuffle(pairs)
        for a, b in pairs:
            # Each after two of its own kind, so that what came before them does not matter.
            works[b](), works[b]()
            row[b].append(clocked(works[b]))
            rest()
            alone[b].append(clocked(works[b]))
            works[b](), works[b]()
            works[a]()
            after[a][b].append(clocked(works[b]))
            works[b](), works[b]()
            works[a]()
            rest()
            later[a][b].append(clocked(works[b]))
    return {
        "alone_us": _microseconds(alone),
        "in_a_row_us": _microseconds(row),
        "after_us": {a: _microseconds(times) for a, times in after.items()},
        "after": {a: _over(times, alone) for a, times in after.items()},
        "after_a_rest": {a: _over(times, later[a]) for a, times in after.items()},
    }


def rest() -> None:
    """Let no library work for a while, in Python: the system would give the processor away."""
    end = perf_counter() + PAUSE
    while perf_counter() < end:
        pass


def _over(times: dict[str, list[float]], base: dict[str, list[float]]) -> dict[str, float]:
    return {
        name: round(statistics.median(each) / statistics.median(base[name]), 2)
        for name, each in times.items()
    }


def _microseconds(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: round(statistics.median(each) * 1e6, 1) for name, each in times.items()}


def clocked(work: Callable[[], Any]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def unsettled(rounds: int) -> dict[str, Any]:
    """Return what `measure` finds where the libraries were loaded before corepy."""
    first = "numpy, torch" if "torch" in corepy.usable_backends() else "numpy"
    code = f"import {first}, company, json; print(json.dumps(company.measure({rounds})))"
    env = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    folder = Path(__file__).resolve().parent
    env["PYTHONPATH"] = os.pathsep.join([str(folder), str(folder.parent)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def matrix(found: dict[str, dict[str, float]]) -> list[list[str]]:
    rows = [["right after", *found]]
    return rows + [[a, *(f"{found[a][b]:.2f}" for b in found)] for a in found]


def table(found: dict[str, Any]) -> str:
    names = list(found["after"])
    rows = matrix(found["after"])
    rows.append(["alone, us", *(f"{found['alone_us'][b]:.0f}" for b in names)])
    rows.append(["in a row, us", *(f"{found['in_a_row_us'][b]:.0f}" for b in names)])
    return _measure.markdown(rows)


def verdict(found: dict[str, dict[str, float]]) -> str:
    beyond = [
        f"{b} after {a}: {ratio:.2f}"
        for a, row in found.items()
        for b, ratio in row.items()
        if ratio > GOAL
    ]
    return f"beyond it: {'; '.join(beyond)}" if beyond else "every entry is"


def page(record: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    settled = record["settled"]
    settings = ", ".join(f"{name}={value}" for name, value in record["settings"].items())
    return "\n".join(
        [
            f"# Mixed company, {record['machine']}, {record['date']}",
            "",
            f"Made by `{record['command']}` with {record['versions']}; {record['threads']} "
            f"threads, load {record['load']} before. Entries are time(column right after row) / "
            f"time(column alone), medians of {record['rounds']} rounds.",
            "",
            f"## As corepy settles it ({settings})",
            "",
            table(settled),
            "",
            f"Alone is after {PAUSE * 1e3} ms of plain Python. The goal is {GOAL} at the most: "
            f"{verdict(settled['after'])}.",
            "",
            "The same over what it takes after the same operation and a rest, which leaves in the "
            "caches what that one put there, and lets its threads sleep:",
            "",
            _measure.markdown(matrix(settled["after_a_rest"])),
            "",
            f"Of these, at {GOAL} at the most: {verdict(settled['after_a_rest'])}.",
            "",
            "## NumPy and torch loaded first, nothing set",
            "",
            table(record["unsettled"]),
            "",
        ]
    )


def priority() -> str:
    """Return the command by which this has the cores to itself, where it has."""
    realtime = hasattr(os, "SCHED_RR") and os.sched_getscheduler(0) == os.SCHED_RR
    return "chrt --rr 1 " if realtime else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, metavar="N")
    parser.add_argument("--save", action="store_true", help="keep it in benchmarks/results")
    options = parser.parse_args(argv)
    if options.rounds < 1:
        parser.error("expected at least one round")
    versions = _measure.versions(["numpy", "numba", "torch"])
    load = [round(x, 2) for x in os.getloadavg()]
    record = {
        "command": f"{priority()}python benchmarks/company.py",
        "date": datetime.date.today().isoformat(),
        "machine": _measure.processor(),
        "threads": corepy.get_num_threads(),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "load": load,
        "rounds": options.rounds,
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
        "settled": measure(options.rounds),
        "unsettled": unsettled(options.rounds),
    }
    text = page(record)
    print(text)
    if options.save:
        _measure.save(RESULTS, "company", record["machine"], record["date"], record, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
