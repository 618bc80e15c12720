"""What was measured, cell by cell: kept on disk as it is found, and turned into routes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from corepy._signals import let_through
from corepy.dispatch._route_files import write
from corepy.dispatch._route_table import MOST, Option, Route, from_json
from corepy.dispatch._sites import HOST, Site

T = TypeVar("T")

#: Version of the file's form; what another one holds is measured anew.
FORMAT: Final = 1
#: The verdict on a candidate that routes may lead to.
ADMITTED: Final = "admitted"


class UnkeptError(OSError):
    """What was measured cannot be kept."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """How one candidate did in a cell.

    Attributes
    ----------
    backend : str
    gain, noise : float
        The home's time, on the host NumPy's, by this one's, and how far off that may be, as a part
        of it.
    company : float
        The time right after another library's operation by the time alone; the worst of them.
    busy : float or None
        The gain while the other cores were busy; None if that was not measured.
    verdict : str
        ``"admitted"``, or why not.
    single : float or None
        The gain in one thread; None if that was not measured.
    """

    backend: str
    gain: float
    noise: float
    company: float
    busy: float | None
    verdict: str
    single: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One operation, dtype, form and size.

    Attributes
    ----------
    operation, dtype, form : str
    size : int
        Elements of the largest operand.
    seconds : float
        The home's time.
    entrants : tuple of Entrant
    undecided : bool
        Whether the machine was too noisy to tell, or other processes had the cores. The home keeps
        what nobody won all the same, and the next tuning measures the cell again.
    """

    operation: str
    dtype: str
    form: str
    size: int
    seconds: float
    entrants: tuple[Entrant, ...]
    undecided: bool

    @property
    def key(self) -> str:
        """By what it is found again."""
        return key_of(self.operation, self.dtype, self.form, self.size)

    @property
    def is_won(self) -> bool:
        """Whether routes may lead somewhere."""
        return any(entrant.verdict == ADMITTED for entrant in self.entrants)

    def times(self, backend: str) -> tuple[float, float] | None:
        """Return the home's seconds and a backend's, None where that was not measured."""
        for entrant in self.entrants:
            if entrant.backend == backend and entrant.gain > 0:
                return self.seconds, self.seconds / entrant.gain
        return None


class _Other(Exception):
    """A file is of another version or machine."""


_DAMAGED: Final = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


def _cell_of(row: Mapping[str, Any]) -> Cell:
    """Return the cell that a row of the file holds; raise one of `_DAMAGED` if it is none."""
    cell = Cell(**{**row, "entrants": tuple(Entrant(**e) for e in row["entrants"])})
    _require_texts(cell.operation, cell.dtype, cell.form)
    _require_numbers(cell.seconds)
    _require_count(cell.size, 1)
    if not isinstance(cell.undecided, bool):
        raise TypeError(f"undecided is {cell.undecided!r}; expected true or false")
    for e in cell.entrants:
        _require_texts(e.backend, e.verdict)
        unknown = [number for number in (e.busy, e.single) if number is not None]
        _require_numbers(e.gain, e.noise, e.company, *unknown)
        if e.verdict == ADMITTED and round(e.gain, 2) == 0:  # by which times are reckoned
            raise ValueError(f"gain is {e.gain!r}; expected more of who was admitted")
    return cell


def _require_texts(*values: object) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"there is {value!r}; expected text")


def _require_numbers(*values: object) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"there is {value!r}; expected a number")
        if not 0 <= value <= MOST:
            raise ValueError(f"there is {value!r}; expected a number of 0 or more, {MOST} at most")


def _require_count(value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= sys.maxsize:
        raise ValueError(f"there is {value!r}; expected a whole number of at least {least}")


def _take_up(ours: dict[str, T], held: Mapping[str, T], stored: Mapping[str, T]) -> None:
    """Add what others have stored since the file held something, where we have measured nothing."""
    for key, found in stored.items():
        if found != held.get(key) and ours.get(key) == held.get(key):
            ours[key] = found


def key_of(operation: str, dtype: str, form: str, size: int) -> str:
    """Return by what a cell is found again."""
    return f"{operation}/{dtype}/{form}/{size}"


@dataclass(slots=True)
class Cells:
    """The cells of one machine, in a file that is whole after each of them.

    Attributes
    ----------
    path : Path
    machine : dict
        Cells of another machine, or of other versions, do not count.
    found : dict of str to Cell
    start : dict of str to float
        Seconds that importing a backend's library takes.
    alone : dict of str to int
        What `corepy.tuning._alone.rows_alone` found of an operation.
    site : Site
        Where they were measured.
    stale : set of str
        Keys of cells that are to be measured anew. They stay in the file until that is done, so
        that nothing is lost if it is interrupted.
    """

    path: Path
    machine: Mapping[str, Any]
    found: dict[str, Cell] = field(default_factory=dict)
    start: dict[str, float] = field(default_factory=dict)
    alone: dict[str, int] = field(default_factory=dict)
    site: Site = HOST
    stale: set[str] = field(default_factory=set)
    #: Cells and rows alone that the file held when it was last read or written here.
    _held: tuple[dict[str, Cell], dict[str, int]] = field(default_factory=lambda: ({}, {}))

    def read(self) -> str | None:
        """Take up what an earlier tuning found; return why nothing can be, None if it can.

        A file that is damaged or of another machine is measured anew, and said so.
        """
        try:
            self.found, self.start, self.alone = self._stored()
        except FileNotFoundError:
            return None
        except OSError as error:
            let_through(error)
            return f"{self.path} cannot be read ({error.strerror})"
        except _Other:
            return f"{self.path} is of another version or machine"
        except _DAMAGED as error:
            return f"{self.path} is damaged ({type(error).__name__}: {error})"
        self._held = dict(self.found), dict(self.alone)
        return None

    def _stored(self) -> tuple[dict[str, Cell], dict[str, float], dict[str, int]]:
        """Return the cells, starts and rows alone that the file holds."""
        content = from_json(self.path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["machine"] != self.machine:
            raise _Other
        cells = [_cell_of(row) for row in content["cells"]]
        start = {str(name): seconds for name, seconds in content["start"].items()}
        alone = {str(name): rows for name, rows in content.get("alone", {}).items()}
        _require_numbers(*start.values())
        for rows in alone.values():
            _require_count(rows, 0)
        return {cell.key: cell for cell in cells}, start, alone

    def add(self, cell: Cell) -> None:
        """Keep a cell, on disk too."""
        self.found[cell.key] = cell
        self.stale.discard(cell.key)
        self.write()

    def forget(self, case: Any) -> None:
        """Drop the cells of a case that were to be measured anew, and whose size no longer is."""
        for key in self.stale & self.of([case]).found.keys():
            del self.found[key]
            self.stale.remove(key)

    def write(self) -> None:
        """Replace the file in one step, with what another tuning has added meanwhile.

        Raises
        ------
        UnkeptError
            If it cannot be written.
        """
        try:
            cells, _, alone = self._stored()
        except (OSError, _Other, *_DAMAGED) as error:  # which `read` has told
            let_through(error)
        else:
            _take_up(self.found, self._held[0], cells)
            _take_up(self.alone, self._held[1], alone)
        self._held = dict(self.found), dict(self.alone)
        content = {
            "format": FORMAT,
            "machine": self.machine,
            "start": self.start,
            "alone": self.alone,
            "cells": [asdict(cell) for cell in self.found.values()],
        }
        try:
            write(self.path, json.dumps(content))
        except OSError as error:
            let_through(error)
            raise UnkeptError(error.errno, error.strerror, error.filename) from error

    def of(self, measured: Iterable[Any]) -> Cells:
        """Return the cells of such operations, dtypes and forms as some cases have.

        What an earlier version measured, and nobody does any more, would lead nowhere.
        """
        wanted = {(case.operation, case.dtype, case.form) for case in measured}
        found = {
            key: cell
            for key, cell in self.found.items()
            if (cell.operation, cell.dtype, cell.form) in wanted
        }
        return replace(self, found=found)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes that follow: for each size who beat NumPy, the best first."""
        groups: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in self.found.values():
            groups.setdefault((cell.operation, cell.dtype, cell.form), []).append(cell)
        return tuple(route for key in sorted(groups) for route in _steps(groups[key], self.site))


def _steps(cells: Iterable[Cell], site: Site) -> list[Route]:
    """Return one route for each stretch of sizes in which the same backends win."""
    steps: list[Route] = []
    former: Cell | None = None
    for cell in _evened(sorted(cells, key=lambda cell: cell.size), site.margin):
        options = _ranked(cell, site)
        before = steps[-1].options if steps else ()
        if [o.backend for o in options] != [o.backend for o in before]:
            least, seconds = _boundary(former or cell, cell, options, before, site.margin)
            if steps and least <= steps[-1].least:
                steps.pop()  # its stretch is less than the distance of two sizes, and rounded away
            place = cell.operation, cell.dtype, cell.form, least
            steps.append(Route(*place, float(f"{seconds:.3g}"), options))
        elif options:
            merged = tuple(a.at_worst(b) for a, b in zip(before, options, strict=True))
            steps[-1] = replace(steps[-1], options=merged)
        former = cell
    return steps


def _evened(cells: Sequence[Cell], margin: float) -> Iterator[Cell]:
    """Yield cells by size, with Numba's loops admitted between two sizes at which they are.

    If they gain the margin there too: a refusal between two admissions, for noise or for what they
    took in company, is chance. (Of others nobody has measured then how they do beside busy cores.)
    """
    won = [
        any(e.backend == "numba" and e.verdict == ADMITTED for e in cell.entrants) for cell in cells
    ]
    for i, cell in enumerate(cells):
        if not (0 < i < len(cells) - 1 and won[i - 1] and won[i + 1]):
            yield cell
            continue
        entrants = tuple(
            replace(e, verdict=ADMITTED) if e.backend == "numba" and e.gain >= margin else e
            for e in cell.entrants
        )
        yield replace(cell, entrants=entrants)


def _boundary(
    smaller: Cell,
    greater: Cell,
    options: Sequence[Option],
    before: Sequence[Option],
    margin: float,
) -> tuple[int, float]:
    """Return where one stretch ends and the next begins, and the home's seconds there.

    Where a backend comes or goes beside the home alone, times are taken to grow evenly between the
    two sizes: it is where they differ by the margin. Else it is half way, as the sizes are spaced.
    """
    if bool(options) != bool(before):
        name = (options or before)[0].backend
        first, last = smaller.times(name), greater.times(name)
        if first and last:
            here, there = (margin * other - base for base, other in (first, last))
            if here * there < 0:
                share = here / (here - there)
                size = smaller.size + share * (greater.size - smaller.size)
                return round(size), first[0] + share * (last[0] - first[0])
    seconds = math.sqrt(smaller.seconds * greater.seconds)
    return round(math.sqrt(smaller.size * greater.size)), seconds


def _may_lead(entrant: Entrant, cell: Cell, site: Site) -> bool:
    """Say whether a table may have a route to who was admitted by an earlier version, perhaps.

    With one that it may not have it would be no table, and none of its routes would be used.
    """
    admits = site.admits(cell.operation, cell.dtype, entrant.backend)
    return admits and round(entrant.gain, 2) >= 1


def _ranked(cell: Cell, site: Site) -> tuple[Option, ...]:
    """Return who was admitted, the best first.

    Another library is called only where it is better than Numba's kernels by the same margin:
    they need no crossing, share memory with everything, notice other processes, and do not wait
    for threads that sleep. And only where its threads are worth waking.
    """
    options = [
        Option(
            e.backend,
            *(round(e.gain, 2), round(e.company, 2)),
            *(e.busy and round(e.busy, 2), e.single and round(e.single, 2)),
        )
        for e in cell.entrants
        if e.verdict == ADMITTED
        and (e.backend == "numba" or cell.seconds >= site.least_seconds)
        and _may_lead(e, cell, site)
    ]

    def seconds(option: Option) -> float:
        taken = cell.seconds / option.gain
        return taken / site.margin if option.backend == "numba" else taken + site.waking

    return tuple(sorted(options, key=seconds))
