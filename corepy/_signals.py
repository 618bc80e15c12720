"""Exceptions that come from handlers of signals: time limits, mostly.

Python runs a handler wherever the main thread stands, be it within a library's function. What it
raises is no failure of that library: nothing may be computed again, or worded anew, because of it.
"""

from __future__ import annotations

from contextlib import suppress
from inspect import CO_OPTIMIZED, CO_VARARGS
from threading import get_ident, main_thread
from types import FrameType
from typing import Any


def let_through(error: BaseException) -> None:
    """Raise an exception again that a signal's handler raised; for others, return."""
    if is_of_a_handler(error):
        raise error


class suppressed(suppress):
    """As `contextlib.suppress`, but what a signal's handler raised passes."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        return bool(super().__exit__(kind, error, trace)) and not (error and is_of_a_handler(error))


def is_of_a_handler(error: BaseException) -> bool:
    """Say whether an exception went through a handler of a signal on its way here."""
    trace = error.__traceback__
    if trace is None or trace.tb_next is None or get_ident() != main_thread().ident:
        return False  # as most are: no function in Python has raised it, or no handler runs here
    while trace is not None:
        if _was_given_its_caller(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _was_given_its_caller(frame: FrameType) -> bool:
    """Say whether a function got the frame that called it, as handlers get the interrupted one.

    Which functions are handlers does not tell: one may have put another in its place, and raised.
    """
    code, caller = frame.f_code, frame.f_back
    names = code.co_varnames[: code.co_argcount]
    many = code.co_flags & CO_VARARGS
    if caller is None or len(names) + bool(many) * 2 < 2:
        return False
    values = frame.f_locals
    given = [values.get(name) for name in names]
    rest = values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) if many else ()
    if rest.__class__ is tuple:
        given += rest
    if values.__class__ is dict and code.co_flags & CO_OPTIMIZED:
        # Before Python 3.13 a copy, which the frame keeps: errors would keep operands.
        values.clear()
    return any(value is caller for value in given)
