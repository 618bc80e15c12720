"""A table of a tuning of some operations, with the routes of another one for all others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from corepy.dispatch._route_table import OTHERS, UNHURRIED, Option, Route, RouteTable


def beside(
    table: RouteTable, known: Collection[tuple[str, str, str]], others: RouteTable
) -> RouteTable:
    """Return a table with another one's routes for what was not measured.

    Parameters
    ----------
    table : RouteTable
        What was measured.
    known : collection of (str, str, str)
        The operations, dtypes and forms that it is about, those among them that have no route.
    others : RouteTable
        Of another machine, perhaps; then it says so under `OTHERS`, and what comes of it does too.
    """
    kept = tuple(_in_threads(table, _unknown(others, known), others.threads))
    if not kept:
        return table
    origin = {OTHERS: others.made[OTHERS]} if OTHERS in others.made else {}
    return replace(
        table,
        made={**table.made, **origin},
        start={**others.start, **table.start},
        routes=tuple(sorted((*table.routes, *kept), key=lambda route: route.place)),
        alone={**others.alone, **table.alone},
    )


def _unknown(others: RouteTable, known: Collection[tuple[str, str, str]]) -> Iterator[Route]:
    return (route for route in others.routes if route.place[:3] not in known)


def _in_threads(table: RouteTable, routes: Iterable[Route], measured: int) -> Iterator[Route]:
    """Yield routes with what they gain in a table's threads, of as many as they were measured in.

    A table has one number of threads.
    """
    for route in routes:
        options = (
            replace(option, gain=round(option.gain_in(table.threads, measured), 2))
            for option in route.options
        )
        yield replace(route, options=tuple(o for o in options if _gains(o, table)))


def _gains(option: Option, table: RouteTable) -> bool:
    if option.gain >= table.site.margin:
        return True
    return option.gain >= 1.0 and (option.busy or 0.0) >= UNHURRIED
