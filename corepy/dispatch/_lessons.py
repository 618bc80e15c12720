"""What short ways in Python learn from the functions behind them: what these pass to the library.

A short way that sees a call for the first time has its function run it, and is told by `taught`
which arguments the library got in the end: axes made non-negative, dtypes filled in. The next call
that is written alike passes the same. So no check of an argument is written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any, Final, NamedTuple


class Lesson(NamedTuple):
    """One operation that ran: its name, its first operand, and what else the library was given."""

    name: str
    first: Any
    rest: Sequence[Any]
    params: dict[str, Any]


#: What ran in the threads that learn, while they do: nearly always empty.
LEARNING: Final[dict[int, list[Lesson]]] = {}


def taught(name: str, first: Any, rest: Sequence[Any], params: dict[str, Any]) -> None:
    """Tell this thread's short way, if one learns, what the library was given."""
    lessons = LEARNING.get(get_ident())
    if lessons is not None:
        lessons.append(Lesson(name, first, rest, params))
