"""Exceptions that come from handlers of signals: time limits, mostly.

Python runs a handler wherever the main thread stands, be it within a library's function. What it
raises is no failure of that library: nothing may be computed again, or worded anew, because of it.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from inspect import unwrap
from threading import get_ident, main_thread
from types import CodeType
from typing import Any

#: Without what the module wraps it in: looking up each handler in an enumeration, for 4 us.
_getsignal = unwrap(signal.getsignal)


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
    handlers = {_code(_getsignal(number)) for number in range(1, signal.NSIG)}
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None
