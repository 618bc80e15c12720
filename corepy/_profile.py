"""`profile`: where a program's time goes, by operation, backend and line, in all its threads."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from corepy import _forks
from corepy._errors import bad_argument, bad_type
from corepy.dispatch._explain import Record, aligned, duration, listen

__all__ = ["Profile", "Total", "profile"]

#: Records that a profile keeps one by one, for the trace; later ones are counted in the totals.
EVENTS: Final = 100_000
#: Colours that remain apart for every eye (Okabe and Ito), given to backends in turn.
_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c")


@dataclass(slots=True)
class Total:
    """What calls of one kind came to.

    Attributes
    ----------
    calls : int
    seconds : float
        Time in the backends.
    bytes_moved : int
        Bytes that crossed between devices or were copied between backends.
    """

    calls: int = 0
    seconds: float = 0.0
    bytes_moved: int = 0

    def add(self, other: Total) -> None:
        """Add another one's figures.

        Parameters
        ----------
        other : Total
        """
        self.calls += other.calls
        self.seconds += other.seconds
        self.bytes_moved += other.bytes_moved


#: Held while a profile is read or added to, for an instant: one for all, which a fork waits for.
_LOCK: Final = threading.RLock()
_forks.wait_for(_LOCK)


@dataclass(slots=True)
class Profile:
    """What `profile` found; complete once its block has ended.

    Attributes
    ----------
    seconds : float
        Length of the block.
    events : list of Record
        The first `EVENTS` operations and movements of data, in the order in which they finished.
    totals : dict
        `Total` by (operation, backend, device, reason, caller), of all of them.
    """

    seconds: float = 0.0
    events: list[Record] = field(default_factory=list)
    totals: dict[tuple[str, str, str, str, str], Total] = field(default_factory=dict)
    _begin: float = field(default_factory=time.perf_counter)

    def __reduce__(self) -> tuple[Any, ...]:
        with _LOCK:
            return Profile, (self.seconds, self.events[:], dict(self.totals), self._begin)

    def _take(self, record: Record) -> None:
        key = (record.operation, record.backend, record.device, record.reason, record.caller)
        with _LOCK:
            if len(self.events) < EVENTS:
                self.events.append(record)
            self.totals.setdefault(key, Total()).add(Total(1, record.seconds, record.bytes_moved))

    # ------------------------------------------------------------------ sums

    @property
    def total(self) -> Total:
        """The sum of everything."""
        return self._by(lambda key: ()).get((), Total())

    def by_operation(self) -> dict[tuple[str, str, str], Total]:
        """Return sums by operation, backend and device.

        Returns
        -------
        dict of (str, str, str) to Total
            The longest first.
        """
        return self._by(lambda key: key[:3])

    def by_caller(self) -> dict[str, Total]:
        """Return sums by the ``file:line`` that called.

        Returns
        -------
        dict of str to Total
            The longest first.
        """
        return self._by(lambda key: key[4])

    def _by(self, group: Any) -> dict[Any, Total]:
        found: dict[Any, Total] = {}
        with _LOCK:
            for key, total in list(self.totals.items()):  # a signal's handler may add some
                found.setdefault(group(key), Total()).add(total)
        return dict(sorted(found.items(), key=lambda item: -item[1].seconds))

    def _operation_rows(self) -> list[tuple[str, ...]]:
        """Return the cells of the table of operations; the reason is the commonest."""
        reasons: dict[tuple[str, ...], Counter[str]] = {}
        with _LOCK:
            for key, total in list(self.totals.items()):
                reasons.setdefault(key[:3], Counter())[key[3]] += total.calls
        whole = self.total.seconds
        return [
            (*place, *_figures(total, whole), reasons[place].most_common(1)[0][0])
            for place, total in self.by_operation().items()
        ]

    def _caller_rows(self) -> list[tuple[str, ...]]:
        """Return the cells of the table of lines."""
        whole = self.total.seconds
        return [(*_figures(total, whole), line) for line, total in self.by_caller().items()]

    # ------------------------------------------------------------------ a table

    def __str__(self) -> str:
        return self.table()

    def table(self, top: int = 20) -> str:
        """Return the longest operations and lines as text.

        Parameters
        ----------
        top : int
            Rows of each of the two tables, at least 1.

        Returns
        -------
        str

        Raises
        ------
        TypeError
            If `top` is no int.
        ValueError
            If it is less than 1.
        """
        if isinstance(top, bool) or not isinstance(top, int):
            raise bad_type("table", "top", top, "an int")
        if top < 1:
            raise bad_argument("table", "top", top, "at least 1")
        if not self.totals:
            return f"{self._headline()}\n\n{_NOTHING}"
        parts = [self._headline(), ""]
        titles: tuple[str, ...]
        titles = ("operation", "backend", "device", "calls", "time", "share", "bytes moved", "why")
        parts += [*_columns(titles, self._operation_rows(), top), ""]
        titles = ("calls", "time", "share", "bytes moved", "line")
        parts += _columns(titles, self._caller_rows(), top)
        return "\n".join(parts)

    def _headline(self) -> str:
        total = self.total
        return (
            f"{total.calls} operations took {duration(total.seconds)} in the backends, of "
            f"{duration(self.seconds)} in all; {total.bytes_moved} bytes moved"
        )

    # ------------------------------------------------------------------ files

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page with a picture of time by operation and backend, and both tables.

        Parameters
        ----------
        path : str or path
            The file, which is replaced if it exists.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        # A file with the program may have a name that is no text.
        Path(path).write_text(self._page(), encoding="utf-8", errors="backslashreplace")

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a trace that ``ui.perfetto.dev`` and ``chrome://tracing`` show.

        Parameters
        ----------
        path : str or path
            The file, which is replaced if it exists.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        import json  # not at the top: `import corepy` stays quick

        names = _threads(self.events)
        tracks = {track: number for number, track in enumerate(names, start=1)}
        events: list[dict[str, Any]] = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": os.getpid(),
                "tid": tracks[track],
                "args": {"name": name},
            }
            for track, name in names.items()
        ]
        events += [
            {
                "name": record.operation,
                "cat": record.backend,
                "ph": "X",
                "ts": (record.start - self._begin) * 1e6,
                "dur": record.seconds * 1e6,
                "pid": os.getpid(),
                "tid": tracks[_track(record)],
                "args": {
                    "backend": record.backend,
                    "device": record.device,
                    "why": record.reason,
                    "bytes moved": record.bytes_moved,
                    "caller": record.caller,
                },
            }
            for record in self.events
        ]
        left_out = self.total.calls - len(self.events)
        trace = {"traceEvents": events, "otherData": {"operations left out": left_out}}
        Path(path).write_text(json.dumps(trace), encoding="utf-8")

    def _page(self) -> str:
        from html import escape  # not at the top: `import corepy` stays quick

        backends = list(dict.fromkeys(place[1] for place in self.by_operation()))
        colour = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(backends)}
        bars: dict[str, dict[str, Total]] = {}
        for (operation, backend, _), total in self.by_operation().items():
            bars.setdefault(operation, {}).setdefault(backend, Total()).add(total)
        lengths = {name: sum(t.seconds for t in parts.values()) for name, parts in bars.items()}
        longest = max(lengths.values(), default=0.0) or 1.0
        picture = "".join(
            f"<tr><th>{escape(name)}</th><td class=bar>"
            + "".join(
                f'<span style="width:{100 * total.seconds / longest:.3f}%;'
                f'background:{colour[backend]}" title="{escape(backend)}: '
                f'{duration(total.seconds)} in {total.calls} calls"></span>'
                for backend, total in bars[name].items()
            )
            + f"</td><td>{duration(lengths[name])}</td></tr>\n"
            for name in sorted(bars, key=lambda name: -lengths[name])
        )
        legend = " ".join(
            f'<span class=key style="background:{colour[name]}"></span> {escape(name)}'
            for name in backends
        )
        operations = _rows(self._operation_rows())
        lines = _rows((line, *figures) for *figures, line in self._caller_rows())
        tables = _TABLES.format(legend=legend, picture=picture, operations=operations, lines=lines)
        return _PAGE.format(
            headline=escape(self._headline()),
            tables=tables if bars else f"<p>{_NOTHING}</p>",
        )


#: What a profile says in the place of tables without rows.
_NOTHING: Final = "no operation of corepy ran"
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>corepy profile</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: 0.1em 0.8em 0.1em 0; vertical-align: baseline; }}
th {{ font-weight: 600; white-space: nowrap; }}
td {{ font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }}
.bar {{ width: 75%; white-space: nowrap; font-size: 0; }}
.bar span, .key {{ display: inline-block; height: 16px; vertical-align: middle; }}
.key {{ width: 16px; margin-left: 1em; }}
</style>
<h1>corepy profile</h1>
<p>{headline}</p>
{tables}
</html>
"""
_TABLES: Final = """\
<h2>Time by operation and backend</h2>
<p>{legend}</p>
<table>
{picture}</table>
<h2>Operations</h2>
<table>
<tr><th>operation<th>backend<th>device<th>calls<th>time<th>share<th>bytes moved<th>why</tr>
{operations}</table>
<h2>Lines</h2>
<table>
<tr><th>line<th>calls<th>time<th>share<th>bytes moved</tr>
{lines}</table>\
"""


def _figures(total: Total, whole: float) -> tuple[str, str, str, str]:
    share = total.seconds / whole if whole else 0.0
    return str(total.calls), duration(total.seconds), f"{share:.1%}", str(total.bytes_moved)


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    from html import escape

    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return "".join(f"<tr>{row}</tr>\n" for row in cells)


def _columns(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], top: int) -> list[str]:
    """Return the first rows as lines whose columns start one below the other."""
    lines = aligned([titles, *rows[:top]])
    if len(rows) > top:
        lines.append(f"... and {len(rows) - top} more")
    return lines


def _track(record: Record) -> int | str:
    """Return what tells a record's thread from others: its name, if it has no number."""
    return record.track or record.thread


def _threads(records: Iterable[Record]) -> dict[int | str, str]:
    """Return the name that each thread had at first."""
    names: dict[int | str, str] = {}
    for record in records:
        names.setdefault(_track(record), record.thread)
    return names


@contextmanager
def profile() -> Iterator[Profile]:
    """Find out where the time of a block goes: which operation, in which backend, from which line.

    Yields
    ------
    Profile
        Its ``str`` is a table; `Profile.write_html` and `Profile.write_trace` leave files.

    Notes
    -----
    All threads and tasks are heard. Every operation waits until its device is done, so that time
    is counted where it is spent; a program that relies on asynchronous execution takes longer
    meanwhile. ``corepy profile script.py`` does the same for a whole program.

    Examples
    --------
    >>> import corepy
    >>> xp = corepy.array_api
    >>> with corepy.profile() as found:
    ...     y = xp.sum(xp.sin(xp.linspace(0, 1, 1000)))
    >>> [operation for operation, backend, device in sorted(found.by_operation())]
    ['linspace', 'sin', 'sum']
    """
    found = Profile()
    try:
        with listen(found._take, everywhere=True):
            yield found
    finally:
        found.seconds = time.perf_counter() - found._begin
