"""Time small statements against each other, fairly.

One after the other they would meet different clock speeds, caches and neighbours. So all of them
run in one process, in many short rounds, each round in another order, and what is compared is
compared within its round. The medians over the rounds are what a user will see; the minima are
what the code costs when nothing disturbs it.
"""

from __future__ import annotations

import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: Seconds that one statement runs in one round: short beside a scheduler's time slice, and long
#: beside the clock's resolution.
SLICE: Final = 2e-4
#: Bytes that glibc serves only after it has put together all small pieces of memory given back
#: before: of the ten million nodes of one `numpy.unique_values` for 2.5 s, of whoever asks next.
TIDYING: Final = 2**16
#: Seconds after which a run is not repeated only to learn how long it takes.
PATIENCE: Final = 0.1


#: How long threads wait for work in a loop, by the libraries' own defaults: for 2**26 cycles in
#: OpenBLAS, for so many turns in GNU's OpenMP.
_IDLE: Final = {"OPENBLAS_THREAD_TIMEOUT": "26", "GOMP_SPINCOUNT": "300000"}


def leave_idle_times() -> None:
    """Let peers be as they are without corepy, which has their threads sleep soon.

    To be called before any of them is imported, and corepy. What the user has set stays.
    """
    for name, value in _IDLE.items():
        os.environ.setdefault(name, value)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of Python, and the names it uses."""

    code: str
    names: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """What one statement took, beside the one it is compared with.

    Attributes
    ----------
    median_ns, least_ns : float
        Nanoseconds a run.
    ratio : float
        Median over the rounds of its time by that of the other in the same round.
    least_ratio : float
        The quotient of the two least times.
    over_ns : float
        Median over the rounds of the difference.
    """

    median_ns: float
    least_ns: float
    ratio: float
    least_ratio: float
    over_ns: float


def interleave(
    statements: Mapping[str, Statement],
    rounds: int,
    counts: Mapping[str, int] | None = None,
    pause: float = 0.0,
    rehearse: float = 0.0,
) -> dict[str, list[float]]:
    """Run statements in turns.

    Parameters
    ----------
    statements : mapping of str to Statement
        By name.
    rounds : int
        How often each one gets its turn.
    counts : mapping of str to int, optional
        How often each one runs in a turn; default as often as takes about a `SLICE`.
    pause : float
        Seconds before each turn, in which the threads of the last one may fall asleep; the memory
        that it has given back is put in order then, too.
    rehearse : float
        Seconds for which a statement runs without being counted before each turn, at least once if
        more than 0: until its code and operands are in the caches again, and the processor awake.

    Returns
    -------
    dict of str to list of float
        Nanoseconds a run, one figure for each round.
    """
    timers = {
        name: timeit.Timer(statement.code, globals=dict(statement.names))
        for name, statement in statements.items()
    }
    if counts is None:
        counts = {name: runs(pace(statement)) for name, statement in statements.items()}
    times: dict[str, list[float]] = {name: [] for name in timers}
    order = list(timers)
    shuffle = random.Random(0).shuffle  # the same orders on every run
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            if pause:
                bytearray(TIDYING)
                time.sleep(pause)
            if rehearse:
                until = time.perf_counter() + rehearse
                timers[name].timeit(1)
                while time.perf_counter() < until:
                    timers[name].timeit(1)
            times[name].append(timers[name].timeit(counts[name]) / counts[name] * 1e9)
    return times


def pace(statement: Statement) -> float:
    """Return about how many seconds one run takes; the first ones fill caches."""
    timer = timeit.Timer(statement.code, globals=dict(statement.names))
    count = 1
    while (taken := timer.timeit(count)) < SLICE / 4:
        count *= 2
    return taken if taken > PATIENCE else timer.timeit(count) / count


def runs(seconds: float, turn: float = SLICE) -> int:
    """Return how many runs of so many seconds fill a turn, at least one."""
    return max(1, round(turn / seconds))


def compare(times: Mapping[str, Sequence[float]], base: str) -> dict[str, Timing]:
    """Compare what `interleave` found with one of its statements."""
    reference = times[base]
    return {
        name: Timing(
            median_ns=statistics.median(taken),
            least_ns=min(taken),
            ratio=statistics.median(t / r for t, r in zip(taken, reference, strict=True)),
            least_ratio=min(taken) / min(reference),
            over_ns=statistics.median(t - r for t, r in zip(taken, reference, strict=True)),
        )
        for name, taken in times.items()
    }


_CLOCKED: Final = """\
import sys, time
start = time.perf_counter_ns()
{code}
print(time.perf_counter_ns() - start, *sys.modules)
"""


def interleave_imports(
    codes: Mapping[str, str], rounds: int
) -> tuple[dict[str, list[float]], dict[str, frozenset[str]]]:
    """Run codes in turns, each time in a fresh interpreter.

    Parameters
    ----------
    codes : mapping of str to str
        Statements by name; the start of the interpreter is not counted.
    rounds : int
        How often each one gets its turn, after one that is not counted.

    Returns
    -------
    times : dict of str to list of float
        Nanoseconds, one figure for each round.
    modules : dict of str to frozenset of str
        The modules that were loaded in the end.
    """
    times: dict[str, list[float]] = {name: [] for name in codes}
    modules: dict[str, frozenset[str]] = {}
    with tempfile.TemporaryDirectory() as cache:
        # All bytecode is kept in a place of its own, so that the checkout's modules and the
        # installed ones are compiled alike: in the first round, which is not counted.
        env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds + 1):
            for name, code in codes.items():
                command = [sys.executable, "-c", _CLOCKED.format(code=code)]
                done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
                taken, *loaded = done.stdout.split()
                modules[name] = frozenset(loaded)
                if number:
                    times[name].append(float(taken))
    return times, modules


def processor() -> str:
    """Return the processor's name and model, as tables of routes have it."""
    from corepy.dispatch._machine import processor as named  # after what is measured first

    return named()


def slug(text: str) -> str:
    """Turn a name into one that a file can have."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def save(
    folder: Path, name: str, processor: str, date: str, record: Mapping[str, Any], page: str
) -> list[Path]:
    """Write figures as JSON, and the page that they make, under a processor and a date."""
    stem = folder / f"{name}-{slug(processor)}-{date}"
    texts = {".json": json.dumps(record, indent=1), ".md": page}
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in texts.items():
        stem.with_suffix(suffix).write_text(f"{text.rstrip()}\n", encoding="utf-8")
    return [stem.with_suffix(suffix) for suffix in texts]


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of those distributions that are installed."""
    found = {}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # a peer that is not installed is not compared
    return found


def markdown(rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Set rows, the first of them titles, as a table; all but the first `words` columns right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * w if i < words else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    head, *body = rows
    return "\n".join(
        "| "
        + " | ".join(
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in (head, rule, *body)
    )
