"""The command ``corepy profile``: a program run as Python would, and where its time went."""

from __future__ import annotations

import argparse
import gc
import os
import runpy
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

from corepy._cli_files import writable
from corepy._errors import CorepyError
from corepy._profile import Profile, profile

#: Where frames are ours, before the program's own.
_STARTERS: Final = (__file__, runpy.run_path.__code__.co_filename)
#: The options that name a file, and what writes it.
_FILES: Final = {"html": Profile.write_html, "trace": Profile.write_trace}


class ProfileError(CorepyError):
    """There is no such program, or a file cannot be written: told in one line."""


class _Program(argparse.Action):
    """Takes a program and all that follows it, a ``--`` too, which `argparse.REMAINDER` loses."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        # One before the program ends the command's own options; not every Python drops it.
        given = [*(values or ())]
        given = given[1:] if given[0] == "--" and len(given) > 1 else given
        namespace.program, namespace.arguments = given[0], given[1:]


def add_profile(commands: Any) -> None:
    """Describe ``corepy profile``."""
    command = commands.add_parser("profile", help="say where a program's time goes")
    command.add_argument("--html", metavar="FILE", help="write a page with a picture")
    command.add_argument("--trace", metavar="FILE", help="write a trace for ui.perfetto.dev")
    command.add_argument(
        "--top", type=_row_count, default=20, metavar="N", help="rows of a table (default: 20)"
    )
    command.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    command.add_argument(
        "program",
        nargs=argparse.PARSER,
        action=_Program,
        help="a file, or with -m a module; then its arguments",
    )


def _row_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"it is {text!r}; expected a number of at least 1")
    return int(text)


def profile_program(options: argparse.Namespace) -> int:
    """Run a program and say on stderr where its time went, also if it fails.

    That is the stderr from before: the program may put another in its place, or nothing.

    Raises
    ------
    ProfileError
        If there is no such program, or a file cannot be written. What the program raises is told
        as Python does; only a KeyboardInterrupt passes through.
    """
    if not options.module and not Path(options.program).is_file():
        raise ProfileError(f"profile: there is no file {options.program!r}")
    options.paths = _paths(options)
    for name in _FILES:
        given = (argument.partition("=")[0] for argument in options.arguments)
        if name not in options.paths and f"--{name}" in given:
            print(
                f"corepy: profile: --{name} is passed to the program, for it comes after its name",
                file=sys.stderr,
            )
    errors = sys.stderr
    before = sys.argv, sys.path[:]
    # As Python itself would start it.
    sys.argv = [options.program, *options.arguments]
    folder = os.getcwd() if options.module else str(Path(options.program).resolve().parent)
    sys.path.insert(0, folder)
    try:
        if options.module:
            _find_module(options.program)
        status, is_whole = _run(options, errors)
    finally:
        sys.argv, sys.path[:] = before
    if not (status is None or isinstance(status, int)):
        _tell(errors, status)  # as Python does with a message
        return 1
    return status or (0 if is_whole else 2)


def _paths(options: argparse.Namespace) -> dict[str, Path]:
    """Return where files are to be written, by option, wherever the program goes.

    Raises
    ------
    ProfileError
        If one cannot be written, or two are the same.
    """
    found: dict[str, Path] = {}
    try:
        for name in _FILES:
            given = getattr(options, name)
            if given is not None:
                found[name] = writable(given, f"--{name}", in_place=True).absolute()
    except ValueError as error:
        raise ProfileError(f"profile: {error}") from error
    if len({path.resolve() for path in found.values()}) < len(found):
        raise ProfileError(
            f"profile: --html and --trace are both {options.html}; expected two files"
        )
    return found


def _find_module(name: str) -> None:
    try:
        found, why = find_spec(name), ""
    except (ImportError, ValueError) as error:  # of a package that it would be in
        found, why = None, f" ({error})"
    if found is None:
        raise ProfileError(f"profile: -m: there is no module {name!r}{why}")


def _run(options: argparse.Namespace, errors: TextIO) -> tuple[object, bool]:
    """Return with what the program exited, and whether all of the report could be written."""
    status: object = None
    failed: BaseException | None = None
    found: Profile | None = None
    is_whole = True
    others = frozenset(threading.enumerate())
    process = os.getpid()
    try:
        with profile() as found:
            try:
                if options.module:
                    runpy.run_module(options.program, run_name="__main__", alter_sys=True)
                else:  # by its whole path, as `__file__` has it wherever the program goes
                    runpy.run_path(os.path.abspath(options.program), run_name="__main__")
            except SystemExit as ending:
                status = ending.code
            except BaseException as error:
                failed = error
            if failed is not None:  # told here, for a hook finds no error that is being handled
                status = _tell_error(failed)
            # A child that the program has forked ends as it would alone.
            if os.getpid() == process:
                _wait_for_threads(others)
    finally:
        # An interrupt may have come before anything was heard.
        if found is not None and os.getpid() == process:
            is_whole = _report(found, options, errors)
    if isinstance(failed, KeyboardInterrupt):  # Python ends by the signal then
        _tell_no_more(failed)
        raise failed
    return status, is_whole


def _tell_error(error: BaseException) -> object:
    """Say what a program raised, and where, as Python does; return its exit status."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _STARTERS:
        trace = trace.tb_next
    error.__traceback__ = trace
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit as ending:
        return ending.code
    except BaseException as another:  # the program may have put a hook of its own there
        if another.__traceback__ is not None:
            another.__traceback__ = another.__traceback__.tb_next  # without this function
        for title, each in (
            ("Error in sys.excepthook:", another),
            ("\nOriginal exception was:", error),
        ):
            if sys.stderr is not None:
                _tell(sys.stderr, title)
            sys.__excepthook__(type(each), each, each.__traceback__)
    return 1


def _tell_no_more(error: BaseException) -> None:
    """Keep Python from telling an error again as it ends with it."""
    hook = sys.excepthook

    def tell_others(
        kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        if value is not error:
            hook(kind, value, trace)

    sys.excepthook = tell_others


def _wait_for_threads(others: frozenset[threading.Thread]) -> None:
    """Wait for the threads that a program has started, as Python does before it ends."""
    pools = sys.modules.get("concurrent.futures.thread")
    if pools is not None:  # whose threads wait for work until they are told that none will come
        for each in gc.get_objects():
            # By their type: what stands in for another object is asked nothing. One whose making
            # failed has no threads.
            if not issubclass(type(each), pools.ThreadPoolExecutor):
                continue
            if set(getattr(each, "_threads", ())) - others:
                each.shutdown()
    while threads := [
        thread
        for thread in threading.enumerate()
        if not thread.daemon and thread not in others and thread is not threading.current_thread()
    ]:
        for thread in threads:
            thread.join()


def _tell(errors: TextIO, text: object) -> None:
    """Print, unless nobody can read it any more."""
    with suppress(OSError, ValueError):  # the program has closed it, or its reader went away
        print(text, file=errors)


def _report(found: Profile, options: argparse.Namespace, errors: TextIO) -> bool:
    """Say what was found; return whether all that was wished for could be written.

    It raises nothing: what the program raised goes on its way.
    """
    _tell(errors, found.table(options.top))
    is_whole = True
    for name, path in options.paths.items():
        try:
            _FILES[name](found, path)
        except OSError as error:
            why = error.strerror or error
            _tell(errors, f"corepy: profile: --{name}: {getattr(options, name)}: {why}")
            is_whole = False
    return is_whole
