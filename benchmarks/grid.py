"""The grid: operations by dtype and size, for corepy beside NumPy, torch, JAX and others.

    python benchmarks/grid.py                   # all of it, in 20 to 35 minutes
    python benchmarks/grid.py --quick           # fewer sizes and rounds, some three minutes
    python benchmarks/grid.py --only sort --sizes 1000 1000000
    python benchmarks/grid.py --save            # also benchmarks/results/grid-<cpu>-<date>.*
    python benchmarks/grid.py --check           # status 1 if a claim does not hold

Every library works on its own arrays of the same values, in its own spelling; the answers are held
equal before anything is timed. The candidates of a cell run interleaved, see
`benchmarks/_measure.py`, and NumPy runs twice: how far it is from itself is the noise.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _measure

_measure.leave_idle_times()

import numpy as np  # noqa: E402

from benchmarks import _grid_report  # noqa: E402
from benchmarks._grid_operations import (  # noqa: E402
    LINALG,
    OPERATIONS,
    ORDERS,
    SIZES,
    Array,
    Operands,
    Operation,
)
from benchmarks._grid_peers import (  # noqa: E402
    AGAIN,
    COREPY,
    JIT,
    NUMPY,
    PEERS,
    Peer,
    present,
    statement,
)
from benchmarks._grid_report import Cell  # noqa: E402
from benchmarks._measure import Statement  # noqa: E402

RESULTS: Final = Path(__file__).resolve().parent / "results"

#: How far answers may lie apart, as a part of the greatest element: libraries add in other orders,
#: and NumPy computes some of float32 in double.
TOLERANCE: Final = {"float32": 1e-3, "float64": 1e-9}
#: Elements that are compared at a time, so that they stay in the cache.
BLOCK: Final = 2**16

#: From these sizes on libraries use threads, which stay awake for a while after their work: before
#: each turn there is a pause, so that no library waits for the threads of another.
PAUSED_SIZE, PAUSED_ORDER = 50_000, 100
PAUSE: Final = 0.01
#: OpenBLAS's threads stay awake for 2**26 cycles.
PAUSE_BLAS: Final = 0.03
#: Measuring again what breaks a limit takes at most this share of the time.
AGAIN_SHARE: Final = 0.15
#: Seconds of a turn on large operands: long beside what the pause costs.
TURN: Final = 1e-3
#: Seconds that each candidate runs before its turn, at least once, without being counted.
REHEARSAL: Final = 1e-3
#: Seconds of a call from which on it makes no difference whether the operands were in the caches.
UNCACHED: Final = 0.02


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to try.

    Attributes
    ----------
    seconds : float
        For the rounds of one cell, about.
    least, most : int
        Rounds.
    limit : float
        Seconds of one call, from which on a candidate is left out.
    """

    seconds: float = 0.7
    least: int = 3
    most: int = 40
    limit: float = 5.0


QUICK: Final = Effort(seconds=0.12, least=7, most=9, limit=0.3)
QUICK_SIZES: Final = (10, 1_000, 1_000_000, 8, 512)


class UnequalError(Exception):
    """A library's answer is not NumPy's."""


@dataclass
class Grid:
    """What was measured, what went wrong, and what was left out as too slow."""

    cells: list[Cell] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


# ---------------------------------------------------------------------------- answers


def operands_of(peers: Sequence[Peer], operands: Operands) -> dict[str, dict[str, Any]]:
    """Return the operands in the arrays of each peer's library, made once for each library."""
    made: dict[str, dict[str, Any]] = {}
    for peer in peers:
        if peer.library not in made:
            own = peer.loaded().own
            made[peer.library] = {name: own(value) for name, value in operands.items()}
    return made


def answer_of(operation: Operation, found: Statement, operands: Operands) -> tuple[Array, ...]:
    """Run a statement once; return what of its answer is the same for all, as NumPy's arrays."""
    answer = eval(found.code, dict(found.names))
    if operation.several:
        answer = tuple(np.asarray(part) for part in answer)
    else:
        answer = np.asarray(answer)
    return tuple(np.asarray(part) for part in operation.outcome(operands, answer))


def hold_equal(wanted: Sequence[Array], got: Sequence[Array], tolerance: float) -> None:
    """Compare answers.

    Raises
    ------
    UnequalError
        If they differ in shape, in the kind of their dtypes, or in values by more than
        `tolerance` times the greatest one; integers must be the same.
    """
    for want, have in zip(wanted, got, strict=True):
        if want.shape != have.shape or want.dtype.kind != have.dtype.kind:
            raise UnequalError(
                f"got {have.dtype} of shape {have.shape}, expected {want.dtype} of {want.shape}"
            )
        if np.array_equal(want, have):
            continue
        allowed = 0.0
        if want.dtype.kind in "fc":
            allowed = tolerance * max(float(np.max(np.abs(part))) for part in _blocks(want))
        for first, second in zip(_blocks(want), _blocks(have), strict=True):
            apart = float(np.max(np.abs(first - second))) if first.size else 0.0
            if not apart <= allowed:  # NaN is not either
                raise UnequalError(f"differs from NumPy's by {apart:.3g}, more than {allowed:.3g}")


def _blocks(array: Array) -> Iterator[Array]:
    flat = array.reshape(-1)
    if flat.dtype.kind == "b":
        flat = flat.view(np.int8)
    return (flat[start : start + BLOCK] for start in range(0, max(flat.size, 1), BLOCK))


def prepared(
    operation: Operation, dtype: str, size: int, peers: Sequence[Peer], errors: list[str]
) -> dict[str, Statement]:
    """Return what each peer runs, its answer held equal to NumPy's.

    A peer that fails or answers otherwise is not there, and `errors` tells why.
    """
    operands = operation.operands(dtype, size)
    own = operands_of(peers, operands)
    wanted: tuple[Array, ...] | None = None
    found = {}
    for peer in peers:
        try:
            candidate = statement(peer, operation, dtype, size, own[peer.library])
            answer = answer_of(operation, candidate, operands)
            if wanted is None:  # NumPy's, which comes first
                wanted = answer
            hold_equal(wanted, answer, TOLERANCE.get(dtype, 0.0))
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            errors.append(f"{operation.name}, {dtype}, {size}: {peer.name}: {text}")
        else:
            found[peer.name] = candidate
    return found


# ---------------------------------------------------------------------------- measuring


class Pace:
    """How long a call took at the last size, to guess what it will take at the next."""

    #: Seconds below which a call says little about the next size: most of it is overhead.
    TELLING: Final = 0.05

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], tuple[int, float]] = {}

    def expected(self, operation: Operation, dtype: str, peer: str, size: int) -> float:
        """Return a guess in seconds, 0 where there is no saying."""
        work, seconds = self._seen.get((operation.name, dtype, peer), (1, 0.0))
        return seconds * operation.work(size) / work if seconds > self.TELLING else 0.0

    def note(self, operation: Operation, dtype: str, peer: str, size: int, seconds: float) -> None:
        self._seen[operation.name, dtype, peer] = operation.work(size), seconds


def candidates(
    operation: Operation, dtype: str, size: int, peers: Sequence[Peer], pace: Pace, effort: Effort
) -> tuple[list[Peer], list[str]]:
    """Return who is measured on a cell, and who is left out as too slow."""
    taking = [peer for peer in peers if peer.takes(operation, dtype, size)]
    expected = {p.name: pace.expected(operation, dtype, p.name, size) for p in taking}
    slow = [name for name, seconds in expected.items() if seconds > effort.limit]
    if NUMPY in slow:
        slow = list(expected)
    left = [peer for peer in taking if peer.name not in slow]
    if sum(expected[peer.name] for peer in left) > effort.seconds * 2:
        left = [peer for peer in left if not peer.follows]
    return left, slow


def measure(
    operation: Operation,
    dtype: str,
    size: int,
    peers: Sequence[Peer],
    effort: Effort,
    pace: Pace,
    errors: list[str],
) -> Cell | None:
    """Measure one cell; None where neither NumPy nor corepy has anything to be measured."""
    found = prepared(operation, dtype, size, peers, errors)
    if not {NUMPY, COREPY} <= found.keys():
        return None
    seconds = {name: _measure.pace(candidate) for name, candidate in found.items()}
    for name, taken in seconds.items():
        pace.note(operation, dtype, name, size, taken)
    longest = max(seconds.values())
    pause = pause_before(operation, size)
    rehearse = REHEARSAL if pause and longest < UNCACHED else 0.0
    turn = TURN if pause else _measure.SLICE
    counts = {name: _measure.runs(taken, turn) for name, taken in seconds.items()}
    rehearsed = {name: max(rehearse, taken) if rehearse else 0.0 for name, taken in seconds.items()}
    round_takes = sum(
        pause + rehearsed[name] + taken * counts[name] for name, taken in seconds.items()
    )
    rounds = min(max(round(effort.seconds / round_takes), effort.least), effort.most)
    times = _measure.interleave(found, rounds, counts, pause, rehearse)
    return Cell.of(operation, dtype, size, times)


def pause_before(operation: Operation, size: int) -> float:
    """Return how long to wait before a turn, in seconds."""
    if operation.group == LINALG:
        return PAUSE_BLAS if size >= PAUSED_ORDER else 0.0
    return PAUSE if size >= PAUSED_SIZE else 0.0


def run(
    operations: Sequence[Operation],
    peers: Sequence[Peer],
    sizes: Sequence[int],
    effort: Effort,
    say: Callable[[str], None],
) -> Grid:
    """Measure operations in all their dtypes at those of the sizes that they have."""
    grid, pace = Grid(), Pace()
    for operation in operations:
        for dtype in operation.dtypes:
            row = []
            for size in (size for size in operation.sizes if size in sizes):
                taking, slow = candidates(operation, dtype, size, peers, pace, effort)
                grid.left_out += [f"{operation.name}, {dtype}, {size}: {name}" for name in slow]
                if not taking:
                    continue
                cell = measure(operation, dtype, size, taking, effort, pace, grid.errors)
                if cell is not None:
                    grid.cells.append(cell)
                    row.append(f"{_grid_report.size_text(size)}: {cell.speed(COREPY):.2f}")
            say(f"{operation.name:16} {dtype:8} {'  '.join(row)}")
    return grid


def measure_again(
    grid: Grid,
    operations: Sequence[Operation],
    peers: Sequence[Peer],
    effort: Effort,
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """Measure once more, longer, what breaks a limit of the claims: that figure counts.

    No new one is begun after so many seconds.
    """
    named = {operation.name: operation for operation in operations}
    longer = replace(effort, seconds=2 * effort.seconds, most=2 * effort.most)
    end = time.perf_counter() + seconds
    for number, cell in enumerate(grid.cells):
        if not _grid_report.breaks_a_limit(cell) or time.perf_counter() > end:
            continue
        taking = [peer for peer in peers if peer.name in cell.timings]
        operation = named[cell.operation]
        found = measure(operation, cell.dtype, cell.size, taking, longer, Pace(), grid.errors)
        if found is not None:
            say(f"again: {cell.title}: {cell.speed(COREPY):.2f}, now {found.speed(COREPY):.2f}")
            grid.cells[number] = found


# ---------------------------------------------------------------------------- the command


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure corepy beside other libraries.")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer sizes and rounds, JAX not jitted: some three minutes",
    )
    parser.add_argument(
        "--only",
        metavar="TEXT",
        help="measure only the operations whose name or group contains this text",
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        metavar="N",
        choices=sorted({*SIZES, *ORDERS}),
        help=f"elements ({listed(SIZES)}) or orders of matrices ({listed(ORDERS)})",
    )
    parser.add_argument(
        "--peers",
        nargs="+",
        metavar="NAME",
        choices=[peer.name for peer in PEERS],
        help="measure only these beside NumPy and corepy "
        f"({listed(shlex.quote(peer.name) for peer in PEERS)})",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="at most so many rounds a cell")
    parser.add_argument("--save", action="store_true", help=f"keep the figures in {RESULTS.name}/")
    parser.add_argument(
        "--check", action="store_true", help="end with status 1 if a claim does not hold"
    )
    options = parser.parse_args(argv)
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; expected 1 up")
    if not chosen(options.only):
        parser.error(f"--only is {options.only!r}, which no operation or group contains")
    return options


def chosen(only: str | None) -> list[Operation]:
    """Return the operations whose name or group contains a text."""
    wanted = only or ""
    return [row for row in OPERATIONS if wanted in row.name or wanted in row.group]


def listed(items: Any) -> str:
    """Join items by commas."""
    return ", ".join(map(str, items))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep the figures; return the exit status."""
    options = parse(argv)
    effort = QUICK if options.quick else Effort()
    if options.rounds is not None:
        least = min(effort.least, options.rounds)
        effort = replace(effort, least=least, most=options.rounds)
    peers = present()
    if options.peers is not None:
        always = (NUMPY, AGAIN, COREPY)
        peers = [peer for peer in peers if peer.name in (*always, *options.peers)]
    elif options.quick:
        peers = [peer for peer in peers if peer.name != JIT]  # half the time is its compiling
    operations = chosen(options.only)
    sizes = options.sizes or (QUICK_SIZES if options.quick else (*SIZES, *ORDERS))

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    load = _grid_report.load()
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        grid = run(operations, peers, sizes, effort, say)
        spent = time.perf_counter() - start
        measure_again(grid, operations, peers, effort, AGAIN_SHARE * spent, say)
    minutes = (time.perf_counter() - start) / 60
    facts = _grid_report.facts(peers, load, minutes)
    text = _grid_report.report(facts, grid.cells, grid.errors, grid.left_out)
    print(text)
    if options.save:
        for path in _grid_report.save(RESULTS, facts, text, grid.cells, grid.errors):
            print(f"wrote {path}")
    lost = _grid_report.unmeasured(grid.cells)
    if options.check and lost:
        say(f"--check: {lost} of the claims were not measured")
    held = not lost and all(claim.holds for claim in _grid_report.claims(grid.cells))
    return 1 if grid.errors or (options.check and not held) else 0


if __name__ == "__main__":
    sys.exit(main())
