"""Cells as `corepy tune` finds them, and the routes that follow from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corepy.dispatch._route_table import Route
from corepy.tuning._cells import ADMITTED as YES
from corepy.tuning._cells import Cell, Cells, Entrant


def entrant(gain: float, backend: str = "torch", verdict: str = YES, **figures: Any) -> Entrant:
    return Entrant(backend, gain, 0.01, figures.get("company", 1.0), figures.get("busy"), verdict)


def cell(size: int, *entrants: Entrant, operation: str = "sin") -> Cell:
    return Cell(operation, "float64", "", size, size * 1e-7, entrants, False)


def routes_of(*found: Cell) -> tuple[Route, ...]:
    return Cells(Path("unused"), {}, {each.key: each for each in found}).routes()
