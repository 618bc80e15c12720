"""`corepy tune`: find out who runs which operation fastest on this machine.

Each cell (operation, dtype, form, size) is measured in interleaved rounds, alone; then, for those
who win, right after operations of other libraries, whose threads may still spin; then, for
libraries that do not notice it themselves, with the other cores busy, and for all of them in one
thread. After each cell the file of cells is replaced in one step, so that an interrupted tuning
goes on where it was. The table of routes is written once everything is measured.
"""

from __future__ import annotations

import datetime
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from corepy._budget import budget, settle
from corepy._errors import listing
from corepy._signals import let_through
from corepy.devices._device import CPU, Device
from corepy.devices._libraries import release
from corepy.dispatch import _route_files as files
from corepy.dispatch._admitted import DTYPE_NAMES
from corepy.dispatch._crossings import bound
from corepy.dispatch._registry import broken, load, set_num_threads
from corepy.dispatch._route_gpus import gpu_name
from corepy.dispatch._route_gpus import key_of as key_of_machine
from corepy.dispatch._route_table import UNHURRIED, RouteTable
from corepy.dispatch._settings import PRECISION, Precision
from corepy.dispatch._sites import HOST, Site
from corepy.dispatch._threads import get_num_threads
from corepy.tuning import _alone
from corepy.tuning._cases import Case, cases
from corepy.tuning._cells import ADMITTED, Cell, Cells, Entrant, UnkeptError, key_of
from corepy.tuning._check import refusal
from corepy.tuning._clock import (
    Comparison,
    Usage,
    Work,
    after,
    beside_itself,
    busy_cores,
    compare,
    take_turns,
)
from corepy.tuning._device_cases import DeviceCase, device_cases, libraries_on
from corepy.tuning._kernels import KernelCase, kernel_cases
from corepy.tuning._others import beside
from corepy.tuning._usual import as_usual

#: Greatest time of a cell's operation in NumPy, in seconds: greater sizes are not measured.
LONGEST: Final = 0.5
#: The same of the second greater size, for what is so quick that memory decides who is quicker: of
#: all else but matrices, the first has shown it.
QUICK: Final = 0.05
#: How often a cell is measured, each time for twice as long, before it counts as undecidable.
ATTEMPTS: Final = 3
#: How much longer an operation may take right after another library's than alone.
COMPANY: Final = 1.3
_ROUNDS: Final = 7
#: The verdict on a candidate that another tuning has to try.
TOO_NOISY: Final = "too noisy to decide"

#: How works are called that run in the backend of the arrays: in all its precision, and in as
#: little as users may wish for.
HOME: Final = "home"
HURRIED: Final = "home, fast"

AnyCase: TypeAlias = "Case | DeviceCase | KernelCase"
#: Hears of each case how many there are, which one it is, and what it is called.
Progress: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tuning came to.

    Attributes
    ----------
    table : RouteTable
    undecided : tuple of str
        What the machine was too noisy for; of cells the home keeps what nobody won all the same.
    refused : tuple of str
        Candidates that fail or do not mean what the home means, with the reason.
    load : float or None
        Cores that other processes used meanwhile, None where the system does not tell.
    """

    table: RouteTable
    undecided: tuple[str, ...]
    refused: tuple[str, ...]
    load: float | None


@as_usual()
def tune(
    only: Iterable[str] = (),
    *,
    device: Device = CPU,
    others: RouteTable | None = None,
    again: bool = False,
    seconds: float | None = None,
    cells: Path | None = None,
    progress: Progress = lambda number, count, label: None,
    notice: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Measure this machine, going on where an earlier tuning was interrupted.

    Parameters
    ----------
    only : iterable of str
        Operations to measure; by default all that can be routed. What is known of others stays.
    device : Device
        Whose memory the libraries share: the host, or a GPU.
    others : RouteTable, optional
        Where `only` is given, whose routes what nobody has measured here keeps; else it has none.
    again : bool
        Whether to measure also what is known already.
    seconds : float, optional
        Time for the rounds of a cell; by default 0.15, and on a GPU 0.06, where there is less noise
        and more to measure.
    cells : Path, optional
        Where what is found is kept; by default in the user's cache folder.
    progress : callable
        Is told the number of the case that begins, how many there are, and its name.
    notice : callable
        Is told what the user should know.

    Returns
    -------
    Outcome
        Nothing is in force by it: that is up to who calls.

    Raises
    ------
    ValueError
        If `only` names an operation that cannot be routed, `device` is not shared, or no library is
        there that could be faster.
    OSError
        If the file of cells cannot be written.
    """
    only = tuple(only)
    site, todo, gpu = _todo(device, only)
    seconds = seconds or (0.15 if site.is_host else 0.06)
    machine = key_of_machine(gpu)
    path = cells or files.cache_file(machine).with_name(_cells_name(machine))
    kept = Cells(path, machine, site=site)
    trouble = kept.read()
    if trouble:
        notice(f"{trouble}: measuring anew")
    if again:
        kept.stale = set(kept.of(todo).found)
    counted = _alone.wanted(only) if site.is_host else []
    todo_alone = [name for name in counted if again or name not in kept.alone]
    count = len(todo) + len(todo_alone)
    usage = Usage()
    for name, why in broken().items():
        if name in site.named:
            notice(f"{name} is left out: {why}")
    starts = _starts({name for case in todo for name in case.candidates}, notice)
    if not (starts or counted):
        raise ValueError(f"nothing to compare with; {_who_is_missing(only, site)}")
    kept.start |= starts
    candidates = starts.keys()
    company = _company(candidates) if site.is_host else {}
    refused: list[str] = []
    for number, case in enumerate(todo):
        progress(number, count, case.label)
        able = [name for name in case.candidates if name in candidates]
        refused += _measure_case(case, able, kept, company, seconds)
        kept.forget(case)
        if not site.is_host:
            release(device)  # each library keeps what the other needs next
    crowded: list[str] = []
    for number, name in enumerate(todo_alone, len(todo)):
        label = f"{name} in one thread"
        progress(number, count, label)
        meanwhile = Usage()
        rows = _alone.rows_alone(name, seconds)
        if meanwhile.is_crowded(get_num_threads()):
            crowded.append(label)  # several threads gain nothing where there are no cores for them
            continue
        kept.alone[name] = rows
        kept.write()
    progress(count, count, "")
    kept.write()
    load_ = usage.cores()
    made = {
        "command": "corepy tune" if site.is_host else f"corepy tune --device {device}",
        "date": datetime.date.today().isoformat(),
        "load": None if load_ is None else round(load_, 2),
    }
    # What an interrupted tuning left half measured says nothing of an operation yet.
    more = [case for case in _todo(device, ())[1] if _is_whole(case, kept)] if only else []
    counting = kept.of([*todo, *more])
    undecided = tuple(
        f"{cell.operation} {cell.dtype} {cell.form} {cell.size}".replace("  ", " ")
        for cell in counting.found.values()
        if cell.undecided
    )
    undecided += tuple(crowded)
    table = RouteTable(machine, made, kept.start, counting.routes(), kept.alone)
    if only and others is not None:
        places = {(case.operation, case.dtype, case.form) for case in [*todo, *more]}
        table = beside(table, places, others)
    return Outcome(table, undecided, tuple(refused), load_)


def _is_whole(case: AnyCase, kept: Cells) -> bool:
    """Say whether all is known of a case that measuring it would find."""
    try:
        found = _walk(
            case, lambda size: kept.found[key_of(case.operation, case.dtype, case.form, size)]
        )
    except KeyError:
        return False
    return not (_unmet(case, found, kept.site) or _unknown_in_one(found, kept.site))


def _todo(device: Device, only: Iterable[str]) -> tuple[Site, list[AnyCase], str | None]:
    """Return where it is that is measured, what, and the name of the GPU, if it is one."""
    if device is CPU:
        return HOST, [*cases(only), *kernel_cases(only)], None
    site, libraries = libraries_on(device)
    gpu = gpu_name(device)
    if gpu is None:
        raise ValueError(f"device is {device}; expected one whose name the driver tells")
    return site, list(device_cases(site, device, libraries, only)), gpu


def _who_is_missing(only: Iterable[str], site: Site) -> str:
    """Say which libraries could be faster in something that is to be measured."""
    cells = [(name, dtype) for name in tuple(only) or site.routable for dtype in DTYPE_NAMES]
    able = [library for library in site.named if any(site.admits(*each, library) for each in cells)]
    return f"install {listing(able)}"


def _cells_name(machine: Mapping[str, Any]) -> str:
    return files.cache_file(machine).name.replace("routes-", "cells-")


def _starts(backends: Iterable[str], notice: Callable[[str], None]) -> dict[str, float]:
    """Return the seconds that importing each library takes, of those that can be imported."""
    found = {}
    for name in sorted(backends):
        try:
            found[name] = _start(name)
        except ValueError as error:
            notice(f"{name} is left out: {error}")
    return found


def _start(backend: str) -> float:
    """Return the seconds that importing a backend's library takes, beside NumPy."""
    clock = "time.perf_counter()"
    # On a line of its own, for the library may print some too.
    end = f"print(); print({clock} - start)"
    code = f"import numpy, time; start = {clock}; import {backend}; {end}"
    # Not from the current folder, which may hold a file of the library's name.
    command = [sys.executable, "-P", "-c", code]
    taken = []
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise ValueError(f"{backend} cannot be imported in a process of its own: {why}")
        taken.append(float(done.stdout.splitlines()[-1]))
    return round(min(taken), 2)


def _company(candidates: Iterable[str]) -> dict[str, Work]:
    """Return an operation of each library that keeps its threads spinning for a while."""
    matrix = np.random.default_rng(0).random((384, 384), np.float32)
    found: dict[str, Work] = {"numpy": lambda: matrix @ matrix}
    if "torch" in candidates:
        vector = np.random.default_rng(0).random(300_000, np.float32)
        torch = load("torch")
        tanh = bound("tanh", torch)
        found["torch"] = lambda: tanh((vector,), {})
    return found


def _measure_case(
    case: AnyCase,
    candidates: Iterable[str],
    kept: Cells,
    company: Mapping[str, Work],
    seconds: float,
) -> Iterator[str]:
    """Measure a case at one size after another; yield why candidates are refused."""
    able = []
    for name in candidates:
        why = refusal(partial(case.deviation, name))
        if why:
            yield f"{case.label}: {name}: {why}"
        else:
            able.append(name)
    if not able:
        return
    try:
        found = _walk(case, lambda size: _cell(case, size, able, kept, company, seconds))
        _meet_neighbours(case, found, kept)
        _run_in_one_thread(case, found, kept, seconds)
    except UnkeptError:
        raise
    except Exception as error:  # the other cases do not depend on what fails here
        let_through(error)
        yield f"{case.label}: {type(error).__name__}: {error}"


def _walk(case: AnyCase, at: Callable[[int], Cell]) -> list[Cell]:
    """Return the cells of a case, where those found so far decide which size is next."""
    first, greater, smaller = case.sizes()
    found = [at(first)]
    power, limits = (1.5, (LONGEST, LONGEST)) if case.squares else (1.0, (LONGEST, QUICK))
    for size, longest in zip(greater, limits):
        if found[-1].seconds * (size / found[-1].size) ** power <= longest:
            try:
                found.append(at(size))
            except MemoryError:  # smaller ones may fit
                break
    last = found[0]
    for size in smaller:
        if max((entrant.gain for entrant in last.entrants), default=0.0) < 1.0:
            break  # who loses here loses more on less
        last = at(size)
        found.append(last)
    found.sort(key=lambda cell: cell.size)
    borders = [pair for pair in pairwise(found) if pair[0].is_won != pair[1].is_won]
    for below, above in borders:
        middle = _between(case, below.size, above.size)
        if middle is not None:
            found.append(at(middle))
    return found


def _between(case: AnyCase, smaller: int, greater: int) -> int | None:
    """Return the size of a matrix half way between two, None where sizes lie close."""
    if not case.squares or greater < 4 * smaller:
        return None
    return math.isqrt(math.isqrt(smaller * greater)) ** 2


def _meet_neighbours(case: AnyCase, cells: Iterable[Cell], kept: Cells) -> None:
    """Measure with the other cores of the host busy who does not notice it by itself.

    A tuning with a realtime priority (``chrt``) has no neighbours that it would feel, and leaves
    this to a later one; until then these routes step aside when others are busy.
    """
    waiting = _unmet(case, cells, kept.site)
    if not waiting:
        return
    with busy_cores(get_num_threads() - 1):
        for cell in waiting:
            entrants = []
            for entrant in cell.entrants:
                if _is_unmet(case, entrant):
                    entrant = _beside_busy(entrant, _gain(case, cell.size, entrant.backend, 0.0))
                entrants.append(entrant)
            kept.add(replace(cell, entrants=tuple(entrants)))


def _unmet(case: AnyCase, cells: Iterable[Cell], site: Site) -> list[Cell]:
    """Return the cells that are still to be measured beside busy cores, where that can be."""
    if not site.is_host or get_num_threads() < 2 or _is_realtime():
        return []
    return [cell for cell in cells if any(_is_unmet(case, e) for e in cell.entrants)]


def _gain(case: AnyCase, size: int, name: str, seconds: float) -> float:
    """Measure how many times faster a candidate is just now."""
    with np.errstate(all="ignore"):
        works = _works(case, size, [name])
        times = take_turns(works, seconds)
    return round(compare(times[_rival(name, works)], times[name]).gain, 3)


def _run_in_one_thread(case: AnyCase, cells: Iterable[Cell], kept: Cells, seconds: float) -> None:
    """Measure what those who were admitted gain where programs hold corepy to one thread.

    There a library's loops may be as much faster as ever, or have gained by threads alone.
    """
    waiting = _unknown_in_one([kept.found[cell.key] for cell in cells], kept.site)
    if not waiting:
        return
    threads, asked = get_num_threads(), budget()
    set_num_threads(1)
    try:
        for cell in waiting:
            entrants = [
                replace(e, single=_gain(case, cell.size, e.backend, seconds))
                if _is_unknown_in_one(e)
                else e
                for e in cell.entrants
            ]
            kept.add(replace(cell, entrants=tuple(entrants)))
    finally:
        set_num_threads(threads)
        settle(asked)  # as many as there are is no wish where nobody had one


def _unknown_in_one(cells: Iterable[Cell], site: Site) -> list[Cell]:
    """Return the cells that are still to be measured in one thread, where that can be."""
    if not site.is_host or get_num_threads() < 2:
        return []
    return [cell for cell in cells if any(_is_unknown_in_one(e) for e in cell.entrants)]


def _is_unknown_in_one(entrant: Entrant) -> bool:
    return entrant.verdict == ADMITTED and entrant.single is None


def _is_unmet(case: AnyCase, entrant: Entrant) -> bool:
    """Say whether it has to be measured beside busy cores, where it may wait, or NumPy may."""
    if entrant.busy is not None:
        return False
    if entrant.verdict == ADMITTED:
        return entrant.backend == "torch"
    waits = case.form in ("inner", "tall")  # NumPy does, for threads of BLAS
    return waits and entrant.backend == "numba"


def _beside_busy(entrant: Entrant, gain: float) -> Entrant:
    """Return what is known of a candidate with its gain beside busy cores, which may admit it."""
    if entrant.verdict != ADMITTED and gain >= UNHURRIED:
        return replace(entrant, busy=gain, gain=1.0, verdict=ADMITTED)
    return replace(entrant, busy=gain)


def _is_realtime() -> bool:
    if not hasattr(os, "sched_getscheduler"):
        return False
    return os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)


def _works(case: AnyCase, size: int, backends: Iterable[str]) -> dict[str, Work]:
    args, params = case.operands(size, np.random.default_rng(size))
    home = case.work(None, args, params)
    works = {name: case.work(name, args, params) for name in backends}
    if isinstance(case, Case) and case.is_fast:
        works = {
            name: _in_precision("fast", work) for name, work in {**works, HURRIED: home}.items()
        }
        home = _in_precision("full", home)
    return {HOME: home, **works}


def _in_precision(level: Precision, work: Work) -> Work:
    def call() -> Any:
        with PRECISION.scoped(level):
            return work()

    return call


def _rival(name: str, works: Mapping[str, Any]) -> str:
    """Return what a candidate has to beat: the home in no more precision than its own."""
    return HURRIED if name == "torch" and HURRIED in works else HOME


def _cell(
    case: AnyCase,
    size: int,
    able: Iterable[str],
    kept: Cells,
    company: Mapping[str, Work],
    seconds: float,
) -> Cell:
    """Measure one size, unless it is known."""
    key = key_of(case.operation, case.dtype, case.form, size)
    known = kept.found.get(key)
    if known is not None and not known.undecided and key not in kept.stale:
        return known
    with np.errstate(all="ignore"):
        works = _works(case, size, able)
        cell = _measured(case, size, works, company, seconds, kept.site)
    if cell.undecided and known is not None and _settles(known, cell):
        cell = replace(known, undecided=True)  # the next tuning tries it again
    kept.add(cell)
    return cell


def _settles(known: Cell, cell: Cell) -> bool:
    """Say whether what was found before tells how each candidate of an undecided cell did."""
    told = {entrant.backend for entrant in known.entrants if entrant.verdict != TOO_NOISY}
    return told == {entrant.backend for entrant in cell.entrants}


def _measured(
    case: AnyCase,
    size: int,
    works: dict[str, Work],
    company: Mapping[str, Work],
    seconds: float,
    site: Site = HOST,
) -> Cell:
    found: dict[str, Comparison] = {}
    usage = Usage()
    wait = case.wait if isinstance(case, DeviceCase) else None
    for attempt in range(ATTEMPTS):
        times = take_turns(works, seconds * 2**attempt, wait)
        names = [name for name in works if name not in (HOME, HURRIED)]
        found = {name: _weighed(name, times) for name in names}
        if not any(comparison.is_open(site.margin) for comparison in found.values()):
            break
    base = sorted(times[HOME])[len(times[HOME]) // 2]
    entrants = tuple(
        replace(
            _entrant(name, comparison, works, company, site.margin),
            gain=round(compare(times[HOME], times[name]).gain, 3),
        )
        for name, comparison in found.items()
    )
    undecided = any(comparison.is_open(site.margin) for comparison in found.values())
    if site.is_host and usage.is_crowded(get_num_threads()):
        # Who shares his work among threads loses, to NumPy in one, where others have the cores.
        undecided = True
        entrants = tuple(
            e if e.verdict == ADMITTED else replace(e, verdict=TOO_NOISY) for e in entrants
        )
    return Cell(case.operation, case.dtype, case.form, size, base, entrants, undecided)


def _weighed(name: str, times: Mapping[str, list[float]]) -> Comparison:
    """Compare a candidate with who it has to beat, and with the home as it is.

    The one that it gains less over decides: among noise the home may lose in little precision what
    it gains in all, and a route that is slower than the home leads nowhere.
    """
    rivals = {HOME, _rival(name, times)}
    return min((compare(times[rival], times[name]) for rival in rivals), key=lambda c: c.gain)


def _entrant(
    name: str,
    alone: Comparison,
    works: Mapping[str, Work],
    company: Mapping[str, Work],
    margin: float,
) -> Entrant:
    """Judge one candidate, alone and in company."""
    verdict, worst = ADMITTED, 1.0
    if alone.is_open(margin):
        verdict = TOO_NOISY
    elif not alone.wins(margin):
        verdict = "no faster"
    elif company:
        pair = {HOME: works[_rival(name, works)], name: works[name]}
        plain = _middle(beside_itself({name: works[name]}, _ROUNDS)[name])
        for other, work in company.items():
            if other == name:
                continue
            slowdown, keeps = _beside(work, pair, name, plain)
            worst = max(worst, slowdown)
            # It may lose what it gains alone, and no more.
            if slowdown > COMPANY and not keeps:
                verdict = f"{slowdown:.1f}x its time right after {other}"
    gain, noise = round(alone.gain, 3), round(alone.noise, 3)
    return Entrant(name, gain, noise, round(worst, 3), None, verdict)


def _beside(other: Work, pair: Mapping[str, Work], name: str, plain: float) -> tuple[float, bool]:
    """Return by how much a candidate slows down right after another library, and if it still wins.

    Few runs tell little of what depends on where threads sleep: who seems to lose is tried again.
    """
    times: dict[str, list[float]] = {each: [] for each in pair}
    for attempt in range(ATTEMPTS):
        for each, more in after(other, pair, _ROUNDS * 2**attempt).items():
            times[each] += more
        slowdown = _middle(times[name]) / plain
        compared = compare(times[HOME], times[name])
        if slowdown <= COMPANY or compared.gain >= 1.0:
            return slowdown, True
        if compared.gain * (1 + compared.noise) < 1.0:
            break
    return slowdown, False


def _middle(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]
