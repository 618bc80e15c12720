"""What the grid's figures say: the claims, the tables, the picture, and the files that keep them.

A speed is NumPy's time over a library's, in the same round: 2 is twice as fast as NumPy.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import corepy
from benchmarks import _measure
from benchmarks._grid_operations import (
    ELEMENTWISE,
    GROUPS,
    LINALG,
    ORDERS,
    REDUCTION,
    SIZES,
    SMALL,
    Operation,
)
from benchmarks._grid_peers import AGAIN, COREPY, FAST, NUMPY, PEERS, Peer
from benchmarks._measure import Timing
from corepy.dispatch._hot import PURE

#: The claims: the geometric mean of speeds is at least this ...
MEAN_SPEED: Final = {10: 2.5, 1000: 2.0, "large": 2.0}
#: ... and no entry takes more than so many times NumPy's time ...
SMALL_TIME, LARGE_TIME = 1.1, 1.05
#: ... nor that of the best library.
BEST_TIME: Final = 1.1
#: From these sizes on an entry counts as large, and up to this order a matrix as small.
LARGE_SIZE, LARGE_ORDER, SMALL_ORDER = 100_000, 512, 32
#: How many of the worst entries are listed.
LISTED: Final = 12


@dataclass(frozen=True, slots=True)
class Cell:
    """One operation on one dtype at one size.

    Attributes
    ----------
    operation, group, dtype : str
    size : int
        Elements, or the order of matrices.
    rounds : int
    timings : dict of str to Timing
        Of each peer, beside NumPy.
    best : str
        The fastest of the other libraries, NumPy among them.
    beside_best : dict of str to float
        corepy's time over that of the best, with the default settings and with others.
    """

    operation: str
    group: str
    dtype: str
    size: int
    rounds: int
    timings: dict[str, Timing]
    best: str
    beside_best: dict[str, float]

    @classmethod
    def of(
        cls, operation: Operation, dtype: str, size: int, times: Mapping[str, Sequence[float]]
    ) -> Cell:
        """Make a cell of the times of its rounds."""
        timings = _measure.compare(times, NUMPY)
        others = [name for name in timings if name not in (AGAIN, COREPY, FAST)]
        best = min(others, key=lambda name: timings[name].ratio)
        beside = _measure.compare(times, best)
        own = {name: beside[name].ratio for name in (COREPY, FAST) if name in beside}
        rounds = len(times[NUMPY])
        return cls(operation.name, operation.group, dtype, size, rounds, timings, best, own)

    @property
    def title(self) -> str:
        """Name the cell."""
        return f"{self.operation} {self.dtype} {size_text(self.size)}"

    @property
    def noise(self) -> float:
        """How far NumPy is from itself, as a part of its time."""
        return abs(self.timings[AGAIN].ratio - 1) if AGAIN in self.timings else math.nan

    def speed(self, peer: str) -> float:
        """Return a peer's speed."""
        return 1 / self.timings[peer].ratio

    @property
    def small(self) -> bool:
        """Say whether it is one of the small operations of the claims."""
        return self.size <= (SMALL_ORDER if self.group == LINALG else SMALL[-1])

    @property
    def large(self) -> bool:
        """Say whether it is one of the large operations of the claims."""
        if self.group == LINALG:
            return self.size >= LARGE_ORDER and self.dtype == "float64"
        return self.size >= LARGE_SIZE


def size_text(size: int) -> str:
    """Return a size as it is written: powers of ten from a thousand on as such."""
    power = round(math.log10(size))
    return f"1e{power}" if power >= 3 and size == 10**power else str(size)


# ---------------------------------------------------------------------------- claims


@dataclass(frozen=True, slots=True)
class Claim:
    """What is promised, what was found, and the entries that break it, the worst first."""

    text: str
    holds: bool
    entries: tuple[str, ...] = ()


def claims(cells: Sequence[Cell]) -> list[Claim]:
    """Compare the figures with what is promised; what was not measured is left out."""
    return [claim for claim in _claims(cells) if claim is not None]


def unmeasured(cells: Sequence[Cell]) -> int:
    """Return how many of the claims none of the figures tells of."""
    return sum(claim is None for claim in _claims(cells))


def _claims(cells: Sequence[Cell]) -> list[Claim | None]:
    found = []
    for size in SMALL:
        chosen = [c for c in cells if c.group in (ELEMENTWISE, REDUCTION) and c.size == size]
        what = f"elementwise operations and reductions on {size_text(size)} elements"
        found.append(_mean(chosen, COREPY, MEAN_SPEED[size], what))
    what = f"operations on up to {SMALL[-1]} elements, and matrices up to n = {SMALL_ORDER}"
    found.append(_none_slower([c for c in cells if c.small], COREPY, SMALL_TIME, what))
    large = [c for c in cells if c.large]
    what = f"from {size_text(LARGE_SIZE)} elements on, and float64 matrices from n = {LARGE_ORDER}"
    found += _large(large, COREPY, what)
    fast = [c for c in cells if FAST in c.timings]
    what = f'float32 matrices from n = {LARGE_ORDER} under precision("fast")'
    found += _large(fast, FAST, what)
    return found


def _large(cells: Sequence[Cell], peer: str, what: str) -> list[Claim | None]:
    return [
        _mean(cells, peer, MEAN_SPEED["large"], what),
        _none_slower(cells, peer, LARGE_TIME, what),
        _none_behind(cells, peer, what),
    ]


def _mean(cells: Sequence[Cell], peer: str, limit: float, what: str) -> Claim | None:
    if not cells:
        return None
    mean = mean_speed(cells, peer)
    text = f"{what}: {mean:.2f} times as fast as NumPy in geometric mean (limit {limit})"
    return Claim(text, mean >= limit)


def _none_slower(cells: Sequence[Cell], peer: str, limit: float, what: str) -> Claim | None:
    def entry(cell: Cell, ratio: float) -> str:
        return f"{cell.title}: {ratio:.2f} times NumPy's time"

    def ratio(cell: Cell) -> float:
        return cell.timings[peer].ratio

    return _within(cells, ratio, limit, f"{what}: entries over {limit} times NumPy's time", entry)


def _none_behind(cells: Sequence[Cell], peer: str, what: str) -> Claim | None:
    def entry(cell: Cell, ratio: float) -> str:
        best = cell.timings[cell.best]
        return f"{cell.title}: {ratio:.2f} times the time of {cell.best}, {1 / best.ratio:.2f}"

    def ratio(cell: Cell) -> float:
        return cell.beside_best[peer]

    what = f"{what}: entries over {BEST_TIME} times the time of the best library"
    return _within(cells, ratio, BEST_TIME, what, entry)


def _within(
    cells: Sequence[Cell],
    ratio: Callable[[Cell], float],
    limit: float,
    what: str,
    entry: Callable[[Cell, float], str],
) -> Claim | None:
    """Claim that no entry is over a limit, and name those that are, the worst first."""
    if not cells:
        return None
    over = sorted((c for c in cells if ratio(c) > limit), key=ratio, reverse=True)
    noisy = sum(ratio(c) <= limit * (1 + c.noise) for c in over)
    text = f"{what}: {len(over)} of {len(cells)}"
    if noisy:
        text += f", {noisy} of them by less than the noise"
    return Claim(text, not over, tuple(entry(c, ratio(c)) for c in over))


def breaks_a_limit(cell: Cell) -> bool:
    """Say whether a cell is over a limit of the claims."""
    limits = []
    if cell.small:
        limits.append(cell.timings[COREPY].ratio / SMALL_TIME)
    if cell.large:
        limits.append(cell.timings[COREPY].ratio / LARGE_TIME)
        limits.append(cell.beside_best[COREPY] / BEST_TIME)
    if FAST in cell.timings:
        limits.append(cell.timings[FAST].ratio / LARGE_TIME)
        limits.append(cell.beside_best[FAST] / BEST_TIME)
    return any(limit > 1 for limit in limits)


def mean_speed(cells: Sequence[Cell], peer: str) -> float:
    """Return the geometric mean of a peer's speeds, over the cells that it has."""
    return statistics.geometric_mean(c.speed(peer) for c in cells if peer in c.timings)


# ---------------------------------------------------------------------------- words and tables


def load() -> float | None:
    """Return how many processes wanted to run in the last minute, where the system tells."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def facts(peers: Sequence[Peer], load_before: float | None, minutes: float) -> dict[str, Any]:
    """Return where and on what the figures were taken."""
    distributions = ("numpy", "torch", "jax", "numba", "array-api-compat", "array-api-strict")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _measure.processor(),
        "threads": corepy.detect_devices().cpu_cores,
        "load_before": load_before,
        "load_after": load(),
        "minutes": round(minutes, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {"corepy": corepy.__version__} | _measure.versions(distributions),
        "hot_path": hot_path(),
        "peers": [peer.name for peer in peers],
        "missing": [peer.name for peer in PEERS if not find_spec(peer.module)],
    }


def hot_path() -> str:
    """Say which form of corepy's hot path runs."""
    return "compiled" if PURE is None else f"in Python ({PURE})"


def report(
    machine: Mapping[str, Any],
    cells: Sequence[Cell],
    errors: Sequence[str],
    left_out: Sequence[str],
) -> str:
    """Word the figures as Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        "# The grid",
        "",
        f"{machine['processor']} ({machine['threads']} threads; load {machine['load_before']} "
        f"before and {machine['load_after']} after), {machine['system']}, {machine['python']}; "
        f"{versions}; hot path {machine['hot_path']}; {machine['date']}.",
        "",
        f"{len(cells)} cells in {machine['minutes']} minutes. Figures are NumPy's time over the "
        f"library's: 2 is twice as fast as NumPy.",
        "",
    ]
    if cells:
        lines += ["## What it must show", "", *_claim_lines(claims(cells)), ""]
        lines += ["## In geometric mean", "", means_table(cells), "", groups_table(cells), ""]
        lines += ["corepy by kind of operation.", "", "## Each operation", ""]
        lines += ["corepy, and in parentheses the best of the other libraries.", ""]
        for group in GROUPS:
            chosen = [cell for cell in cells if cell.group == group]
            if chosen:
                lines += [f"### {group.capitalize()}", "", operations_table(chosen), ""]
        lines += ["## Noise", "", noise_text(cells), ""]
    if machine["missing"]:
        lines += [f"Not installed, so not compared: {', '.join(machine['missing'])}.", ""]
    if left_out:
        lines += ["Left out, for a call would take too long:", ""]
        lines += [*(f"- {text}" for text in left_out), ""]
    if errors:
        lines += ["## ERRORS", "", *(f"- {text}" for text in errors), ""]
    return "\n".join(lines).rstrip()


def _claim_lines(found: Sequence[Claim]) -> list[str]:
    lines = []
    for claim in found:
        lines.append(f"- {'holds' if claim.holds else 'FAILS'}: {claim.text}")
        lines += [f"    - {entry}" for entry in claim.entries[:LISTED]]
        if len(claim.entries) > LISTED:
            lines.append(f"    - and {len(claim.entries) - LISTED} more")
    return lines


def means_table(cells: Sequence[Cell]) -> str:
    """Set the geometric mean of each library at each size, over the cells that it has."""
    columns = [
        (size_text(size), [c for c in cells if c.group != LINALG and c.size == size])
        for size in SIZES
    ]
    columns += [
        (f"n = {order}", [c for c in cells if c.group == LINALG and c.size == order])
        for order in ORDERS
    ]
    columns = [(title, chosen) for title, chosen in columns if chosen]
    rows = [["library", *(title for title, _ in columns)]]
    for peer in (peer.name for peer in PEERS):
        if any(peer in c.timings for c in cells):
            rows.append([peer, *(_mean_text(chosen, peer) for _, chosen in columns)])
    return _measure.markdown(rows)


def groups_table(cells: Sequence[Cell]) -> str:
    """Set corepy's geometric mean for each kind of operation at each size."""
    sizes = [size for size in SIZES if any(c.group != LINALG and c.size == size for c in cells)]
    rows = [["corepy", *map(size_text, sizes)]]
    for group in GROUPS:
        chosen = [c for c in cells if c.group == group != LINALG]
        if chosen:
            rows.append(
                [group, *(_mean_text([c for c in chosen if c.size == s], COREPY) for s in sizes)]
            )
    return _measure.markdown(rows)


def _mean_text(cells: Sequence[Cell], peer: str) -> str:
    if not any(peer in c.timings for c in cells):
        return "-"
    return f"{mean_speed(cells, peer):.2f}"


def operations_table(cells: Sequence[Cell]) -> str:
    """Set a row for each operation and dtype, a column for each size."""
    sizes = sorted({c.size for c in cells})
    found = {(c.operation, c.dtype, c.size): c for c in cells}
    rows = [["operation", "dtype", *map(size_text, sizes)]]
    for operation, dtype in dict.fromkeys((c.operation, c.dtype) for c in cells):
        texts = [_cell_text(found.get((operation, dtype, size))) for size in sizes]
        rows.append([f"`{operation}`", dtype, *texts])
    return _measure.markdown(rows, words=2)


def _cell_text(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    fast = f", fast {cell.speed(FAST):.2f}" if FAST in cell.timings else ""
    return f"{cell.speed(COREPY):.2f}{fast} ({cell.best} {cell.speed(cell.best):.2f})"


def noise_text(cells: Sequence[Cell]) -> str:
    """Say how far NumPy was from itself."""
    found = sorted((c for c in cells if AGAIN in c.timings), key=lambda c: c.noise)
    if not found:
        return "It was not measured."
    typical, tail = found[len(found) // 2], found[int(len(found) * 0.9)]
    return (
        f"NumPy's time beside its own, of two candidates in the same rounds, is off by "
        f"{typical.noise:.1%} in the median cell, by {tail.noise:.1%} at the ninetieth percentile "
        f"and by {found[-1].noise:.1%} in the worst ({found[-1].title})."
    )


# ---------------------------------------------------------------------------- files


def save(
    folder: Path,
    machine: Mapping[str, Any],
    text: str,
    cells: Sequence[Cell],
    errors: Sequence[str],
) -> list[Path]:
    """Write the figures as JSON, as Markdown, and as a picture where matplotlib is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"grid-{_measure.slug(machine['processor'])}-{machine['date']}"
    paths = [folder / f"{stem}.json", folder / f"{stem}.md"]
    paths[0].write_text(as_json(machine, cells, errors), encoding="utf-8")
    if find_spec("matplotlib"):
        paths.append(folder / f"{stem}.svg")
        draw(paths[-1], cells)
        text += f"\n\n![Speed beside NumPy, by size]({stem}.svg)"
    paths[1].write_text(f"{text}\n", encoding="utf-8")
    return paths


def as_json(machine: Mapping[str, Any], cells: Sequence[Cell], errors: Sequence[str]) -> str:
    """Set everything as JSON, a line for each cell."""
    lines = []
    for cell in cells:
        timings = {
            peer: {"median_ns": round(t.median_ns, 1), "ratio": round(t.ratio, 4)}
            for peer, t in cell.timings.items()
        }
        lines.append(json.dumps(asdict(cell) | {"timings": timings}))
    head = {
        **machine,
        "claims": [asdict(claim) for claim in claims(cells)],
        "errors": list(errors),
    }
    return (
        f'{json.dumps(head, indent=1)[:-2]},\n "cells": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
    )


#: Libraries in the picture; NumPy is the line at 1.
DRAWN: Final = {
    COREPY: ("#d62728", 2.5),
    "torch": ("#ff7f0e", 1.2),
    "jax": ("#9edae5", 1.2),
    "jax.jit": ("#1f77b4", 1.2),
    "numba": ("#2ca02c", 1.2),
    "array_api_compat": ("#9467bd", 1.2),
    "array_api_strict": ("#8c564b", 1.2),
}


def draw(path: Path, cells: Sequence[Cell]) -> None:
    """Draw geometric means by size, a panel for each kind of operation, as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    groups = [group for group in GROUPS if any(c.group == group for c in cells)]
    rows = math.ceil(len(groups) / 2)
    with mpl.rc_context({"svg.hashsalt": "corepy", "font.size": 9}):
        figure = Figure(figsize=(10, 2.9 * rows), layout="constrained")
        for number, group in enumerate(groups):
            panel = figure.add_subplot(rows, 2, number + 1)
            chosen = [c for c in cells if c.group == group]
            for peer, (colour, width) in DRAWN.items():
                sizes = sorted({c.size for c in chosen if peer in c.timings})
                speeds = [mean_speed([c for c in chosen if c.size == s], peer) for s in sizes]
                panel.plot(sizes, speeds, "o-", ms=3, color=colour, lw=width, label=peer)
            panel.axhline(1, color="black", lw=0.8)
            panel.set(title=group, xscale="log", yscale="log")
            panel.set_xlabel("order" if group == LINALG else "elements")
            panel.set_ylabel("times as fast as NumPy")
            panel.yaxis.set_major_formatter("{x:g}")
            panel.grid(alpha=0.3)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        figure.savefig(path, metadata={"Date": None})
