"""The command ``corepy``: what this machine offers, the demo, profiles, routes, conformance.

``corepy info --json`` prints one object; its keys stay, new ones may come.

===============  ===================================================================================
key              value
===============  ===================================================================================
corepy, python   versions
platform         ``system``, ``machine``
backends         list of ``name``, ``usable``, ``devices``, ``reason`` (null if usable),
                 ``unserved`` (why devices or operations are missing that it could serve), and
                 ``versions`` of the library's distributions by name
devices          list of ``name`` and ``backends``, the usable backends that serve it
processor        ``threads`` usable by this process, ``cores``, ``simd``, ``memory_bytes``,
                 ``free_bytes``
gpus             list of ``device``, ``name``, ``memory_bytes``, ``free_bytes``, ``unified_memory``,
                 ``compute_capability``, ``architecture``, ``uuid``, ``driver_version``
problems         list of what could not be read, each with its reason
errors           what the user has to put right, by ``default`` or the setting that cannot be told
                 for it (``priority``, ``routes``, ``threads``); the exit status is 2 then
default          ``backend`` and ``device`` of new arrays, and ``why``
settings         ``priority``, ``strict``, ``fallback``, ``precision``, ``offload``,
                 ``reproducible``, ``routes`` (where the table is from), ``threads``,
                 ``threads_unmoved`` (why a library keeps its own), ``compiled`` and
                 ``pure_because`` (whether the hot path is, and null or why not), ``outdated``
                 (whether it was compiled from other sources than are installed now), and
                 ``environment`` variables by name
===============  ===================================================================================

What could not be read or told is null.
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import corepy
from corepy import _cli_profile, _cli_routes
from corepy._errors import BackendUnavailableError, CorepyError, FallbackWarning, RouteWarning
from corepy._extensions import are_outdated
from corepy.devices import DeviceInfo, GpuInfo, detect_devices, memory_info
from corepy.dispatch import (
    default_placement,
    get_fallback,
    get_num_threads,
    get_offload,
    get_precision,
    is_reproducible,
    is_strict,
)
from corepy.dispatch._explain import aligned
from corepy.dispatch._hot import PURE
from corepy.dispatch._registry import records
from corepy.dispatch._route_sources import in_force
from corepy.dispatch._threads import unmoved

#: The environment variables that corepy reads, but for those of its own tests
#: (``COREPY_ROUTES_FORCED``, ``COREPY_NUMBA_THRESHOLD`` and ``COREPY_POOL_LEAST``).
ENVIRONMENT: Final = (
    "COREPY_BACKEND_PRIORITY",
    "COREPY_NUM_THREADS",
    "COREPY_OFFLOAD",
    "COREPY_POOL_BYTES",
    "COREPY_PRECISION",
    "COREPY_PURE_PYTHON",
    "COREPY_REPRODUCIBLE",
    "COREPY_ROUTES",
    "COREPY_STRICT",
)

_PRIORITY: Final = "COREPY_BACKEND_PRIORITY"
T = TypeVar("T")

#: As a shell reports a program that wrote to a closed pipe: 128 + SIGPIPE.
_BROKEN_PIPE: Final = 141
#: What writing to a full disk fails with, or past a quota.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class UserError(Exception):
    """A mistake of the user: told in one line, without a traceback."""


# ---------------------------------------------------------------------------- what is there


def gather() -> dict[str, Any]:
    """Collect what ``corepy info`` shows, as the module's docstring lists it."""
    errors: dict[str, str] = {}
    threads = _asked("threads", get_num_threads, errors)
    default = _asked("default", default_placement, errors)
    priority = _asked("priority", corepy.get_backend_priority, errors)
    with warnings.catch_warnings():
        if "threads" in errors:  # which a table that was measured would warn of, before all else
            warnings.simplefilter("ignore", RouteWarning)
        routes = _asked("routes", in_force, errors)
    backends = corepy.backend_status()
    serving: dict[str, list[str]] = {} if default is None else {default.device.name: []}
    for row in backends:
        for device in row.devices:
            serving.setdefault(device.name, []).append(row.name)
    hardware = detect_devices()
    installed = _versions()
    return {
        "corepy": corepy.__version__,
        "python": platform.python_version(),
        "platform": {"system": hardware.platform_system, "machine": hardware.platform_machine},
        "backends": [
            {
                "name": row.name,
                "usable": row.usable,
                "devices": [device.name for device in row.devices],
                "reason": row.reason,
                "unserved": list(row.unserved),
                "versions": {
                    name: number
                    for module in records()[row.name].modules
                    for name, number in sorted(installed.get(module, {}).items())
                },
            }
            for row in backends
        ],
        "devices": [{"name": name, "backends": served} for name, served in serving.items()],
        "processor": _processor(hardware),
        "gpus": [_gpu(gpu) for gpu in hardware.gpus],
        "problems": list(hardware.problems),
        "errors": errors,
        "default": {
            "backend": default and default.backend.name,
            "device": default and default.device.name,
            "why": default and default.why,
        },
        "settings": {
            "priority": None if priority is None else [*priority],
            "strict": is_strict(),
            "fallback": get_fallback(),
            "precision": get_precision(),
            "offload": get_offload(),
            "reproducible": is_reproducible(),
            "routes": routes and routes.origin,
            "threads": threads,
            "threads_unmoved": unmoved(),
            "compiled": PURE is None,
            "pure_because": PURE,
            "outdated": are_outdated(),
            "environment": {name: os.environ.get(name) for name in ENVIRONMENT},
        },
    }


def _asked(what: str, question: Callable[[], T], errors: dict[str, str]) -> T | None:
    """Return an answer; where the user has to put something right first, note that."""
    try:
        return question()
    except (CorepyError, ValueError) as error:
        why = str(error).removeprefix("corepy: ")  # as all that the command says begins
        if why.startswith(f"{_PRIORITY}: "):
            wish = os.environ.get(_PRIORITY)
            why = f"{_PRIORITY} is {wish!r}: {why.removeprefix(f'{_PRIORITY}: ')}"
        errors[what] = why
        return None


def _versions() -> dict[str, dict[str, str | None]]:
    """Return, by module, the distributions that hold it, and their versions.

    What an interrupted installation has left may have no name, no version, or nothing: some
    releases of Python, and of ``importlib_metadata``, raise then in the place of giving None.
    """
    found: dict[str, dict[str, str | None]] = {}
    for each in distributions():
        try:
            about: Any = each.metadata  # a message of `email`, whose `get` not every stub has
            name, number = about.get("Name"), about.get("Version")
            modules = {*(each.read_text("top_level.txt") or "").split()}
            if not modules:
                modules = {file.parts[0].partition(".")[0] for file in each.files or ()}
        except (OSError, KeyError, ValueError):
            continue
        for module in modules if name else ():
            found.setdefault(module, {}).setdefault(name, number)  # the first one is imported
    return found


def _processor(hardware: DeviceInfo) -> dict[str, Any]:
    simd = {
        "AVX2": hardware.has_avx2,
        "AVX-512": hardware.has_avx512,
        "AMX": hardware.has_amx,
        "NEON": hardware.has_neon,
    }
    try:
        free = memory_info("cpu").free_bytes
    except BackendUnavailableError:
        free = None  # the reason is among the machine's problems
    return {
        "threads": hardware.cpu_cores,
        "cores": hardware.cpu_cores_physical,
        "simd": [name for name, present in simd.items() if present],
        "memory_bytes": hardware.memory_limit_bytes,
        "free_bytes": free,
    }


def _gpu(gpu: GpuInfo) -> dict[str, Any]:
    return {
        "device": gpu.device.name,
        "name": gpu.name,
        "memory_bytes": gpu.memory.total_bytes,
        "free_bytes": gpu.memory.free_bytes,
        "unified_memory": gpu.unified_memory,
        "compute_capability": gpu.compute_capability and list(gpu.compute_capability),
        "architecture": gpu.architecture,
        "uuid": gpu.uuid,
        "driver_version": gpu.driver_version,
    }


# ---------------------------------------------------------------------------- how it is shown


@dataclass(frozen=True, slots=True)
class Style:
    """Colours, or none: each method returns its text, marked up if `colours` is true."""

    colours: bool

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """Use colours on a terminal, unless the user or the terminal does not want them."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(wanted and stream.isatty())

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and text else text

    def title(self, text: str) -> str:
        """What heads a part."""
        return self._paint("1", text)

    def good(self, text: str) -> str:
        """What is as one would wish."""
        return self._paint("32", text)

    def bad(self, text: str) -> str:
        """What is not."""
        return self._paint("33", text)

    def aside(self, text: str) -> str:
        """What only some will read."""
        return self._paint("2", text)


def render(facts: Mapping[str, Any], style: Style) -> str:
    """Word what `gather` found, for people."""
    where = facts["platform"]
    default = facts["default"]
    made = f"new arrays are made on {default['device']} in {default['backend']}: {default['why']}"
    if "default" in facts["errors"]:
        made = style.bad(f"new arrays cannot be made: {facts['errors']['default']}")
    parts = {
        f"corepy {facts['corepy']}": [
            f"Python {facts['python']}, {where['system']} {where['machine']}",
            made,
        ],
        "Backends": _backend_lines(facts, style),
        "Devices": _device_lines(facts, style),
        "Settings": _setting_lines(facts["settings"], facts["errors"]),
    }
    if facts["problems"]:
        parts["Not readable here"] = [style.aside(problem) for problem in facts["problems"]]
    return "\n\n".join(
        "\n".join([style.title(title), *(f"  {line}" for line in lines)])
        for title, lines in parts.items()
    )


def _backend_lines(facts: Mapping[str, Any], style: Style) -> list[str]:
    rows = [("name", "usable", "library", "devices", "why not")]
    for row in facts["backends"]:
        usable = "yes" if row["usable"] else "no"
        reason = row["reason"] or "; ".join(row["unserved"])
        devices = ", ".join(row["devices"]) or "-"
        rows.append((row["name"], usable, _names(row["versions"]), devices, reason))
    head, *lines = aligned(rows)
    marks = {"yes": style.good, "no": style.bad}
    return [
        style.aside(head),
        *(marks[row[1]](line) for row, line in zip(rows[1:], lines, strict=True)),
    ]


def _names(versions: Mapping[str, str | None]) -> str:
    words = (f"{name} {number}" if number else name for name, number in versions.items())
    return ", ".join(words) or "-"


def _device_lines(facts: Mapping[str, Any], style: Style) -> list[str]:
    serving = {row["name"]: row["backends"] for row in facts["devices"]}
    hardware = {"cpu": _describe_processor(facts["processor"])}
    hardware |= {gpu["device"]: _describe_gpu(gpu) for gpu in facts["gpus"]}
    rows = [("name", "backends", "hardware")]
    rows += [
        (name, ", ".join(serving.get(name, ())) or "none", hardware.get(name, ""))
        for name in dict.fromkeys([*serving, *hardware])
    ]
    head, *lines = aligned(rows)
    return [
        style.aside(head),
        *(
            (style.bad if row[1] == "none" else style.good)(line)
            for row, line in zip(rows[1:], lines, strict=True)
        ),
    ]


def _describe_processor(processor: Mapping[str, Any]) -> str:
    cores = processor["cores"]
    words = [
        f"{processor['threads']} threads" + ("" if cores is None else f" on {cores} cores"),
        _memory(processor),
        *processor["simd"],
    ]
    return ", ".join(words)


def _describe_gpu(gpu: Mapping[str, Any]) -> str:
    words = [gpu["name"], _memory(gpu)]
    if gpu["unified_memory"]:
        words.append("shared with the host")
    words += [gpu["architecture"]] if gpu["architecture"] else []
    words += [f"driver {gpu['driver_version']}"] if gpu["driver_version"] else []
    return ", ".join(words)


def _memory(row: Mapping[str, Any]) -> str:
    total, free = row["memory_bytes"], row["free_bytes"]
    if total is None:
        return "memory unknown"
    text = f"{total / 2**30:.1f} GiB"
    return text if free is None else f"{text} ({free / 2**30:.1f} free)"


def _describe_threads(settings: Mapping[str, Any]) -> str:
    unmoved = (f"{name}: {reason}" for name, reason in settings["threads_unmoved"].items())
    return "; ".join([str(settings["threads"]), *unmoved])


def _describe_hot_path(settings: Mapping[str, Any]) -> str:
    if not settings["compiled"]:
        return f"Python: {settings['pure_because']}"
    if settings["outdated"]:
        return "compiled from other sources than are here now: install corepy again"
    return "compiled"


def _setting_lines(settings: Mapping[str, Any], errors: Mapping[str, str]) -> list[str]:
    rows = [
        ("priority", ", ".join(settings["priority"] or ()) or "none: the defaults hold"),
        ("strict", "on" if settings["strict"] else "off"),
        ("fallback", settings["fallback"]),
        ("precision", settings["precision"]),
        ("offload", settings["offload"]),
        ("reproducible", "on" if settings["reproducible"] else "off"),
        ("routes", settings["routes"]),
        ("threads", _describe_threads(settings)),
        ("hot path", _describe_hot_path(settings)),
    ]
    rows = [(name, errors.get(name, value)) for name, value in rows]
    rows += [
        (name, "not set" if value is None else repr(value))
        for name, value in settings["environment"].items()
    ]
    return aligned(rows)


# ---------------------------------------------------------------------------- the commands


def info(as_json: bool) -> int:
    """Print what this machine offers, whatever is wrong, and then that."""
    facts = gather()
    print(json.dumps(facts, indent=2) if as_json else render(facts, Style.of(sys.stdout)))
    for error in dict.fromkeys(facts["errors"].values()):
        print(f"corepy: {error}", file=sys.stderr)
    return 2 if facts["errors"] else 0


def demo(argv: Sequence[str]) -> int:
    """Run the demo."""
    from corepy.demo._run import main as run_demo

    return run_demo(argv)


def conformance(argv: Sequence[str], root: Path | None = None) -> int:
    """Run the conformance suite of the checkout that corepy is imported from.

    Parameters
    ----------
    argv : sequence of str
        The suite's own options.
    root : Path or None
        The checkout; by default the folder that holds the package.

    Raises
    ------
    UserError
        If there is no checkout, because corepy was installed.
    """
    root = Path(__file__).resolve().parent.parent if root is None else root
    path = root / "conformance" / "run.py"
    if not path.is_file() or not (root / "pyproject.toml").is_file():
        raise UserError(
            f"conformance: {root} is no source checkout; expected corepy to be imported from one, "
            f"as after `pip install --editable .` in it: installed packages do not hold the suite"
        )
    spec = spec_from_file_location("corepy_conformance", path)
    assert spec is not None  # a path that ends in .py has one, with a loader
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look their module up there
    spec.loader.exec_module(module)
    status: int = module.main(argv)
    return status


class _Parser(argparse.ArgumentParser):
    """Takes options by their whole names, as do those of its commands.

    What an abbreviation means may be another option one day.
    """

    def __init__(self, **params: Any) -> None:
        super().__init__(allow_abbrev=False, **params)


class _Command(_Parser):
    """One of its commands, which refuses what it does not know itself, and shows how it is used."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = _Parser(
        prog="corepy",
        description="One Array API namespace over the array libraries and accelerators.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30),
    )
    made.add_argument("--version", action="version", version=f"corepy {corepy.__version__}")
    commands = made.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=_Command
    )
    command = commands.add_parser("info", help="show backends, devices and settings")
    command.add_argument("--json", action="store_true", help="one JSON object, for programs")
    commands.add_parser("demo", help="run one program on every usable backend")
    commands.add_parser("conformance", help="run array-api-tests on a backend")
    _cli_profile.add_profile(commands)
    _cli_routes.add_routes(commands)
    _cli_routes.add_tune(commands)
    return made


def run(argv: Sequence[str]) -> int:
    """Run the command that a command line names."""
    profiles = argv[:1] == ["profile"]  # a program, which finds its streams as it would alone
    # Names of files may be what the terminal cannot show. Python's own errors escape that too.
    if not profiles and isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    match argv:
        # These have options of their own, `--help` among them.
        case ["demo", *rest]:
            return demo(rest)
        case ["conformance", *rest]:
            return conformance(rest)
    made = parser()
    options = made.parse_args(argv)
    if options.command == "profile":
        return _cli_profile.profile_program(options)
    with _plain_warnings():
        if options.command == "info":
            return info(options.json)
        if options.command == "routes":
            return _cli_routes.show_routes(options)
        if options.command == "tune":
            return _cli_routes.run_tune(options)
    made.print_help(sys.stderr)
    return 2


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Let corepy's warnings read as what a command says itself: the line that warns is none's.

    Those of libraries go on to name theirs.
    """
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, (FallbackWarning, RouteWarning)):
            print(f"corepy: {str(message).removeprefix('corepy: ')}", file=sys.stderr)
        else:
            usual(message, category, *where, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


def _discard_output() -> None:
    """Let what is left to be written, as the interpreter does when it exits, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``corepy``.

    Parameters
    ----------
    argv : sequence of str, optional
        The command line without the program's name; default ``sys.argv[1:]``.

    Returns
    -------
    int
        The exit status: 0 if all went well, 2 after a mistake of the user or where there is no room
        for what it prints, or no memory for what it does, which one line on stderr explains, 141 if
        the reader of stdout went away; else what the command says.
    """
    given = sys.argv[1:] if argv is None else [*argv]
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before Python began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        try:
            return run(given)
        finally:
            # A closed pipe shows here at the latest. What a profiled program has closed, or put in
            # its place, is left alone, as Python does.
            if not getattr(sys.stdout, "closed", True):
                sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return _BROKEN_PIPE
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None or given[:1] == ["profile"]:
            raise  # the last one may be the program's
        _discard_output()
        print(f"corepy: standard output: {error.strerror}", file=sys.stderr)
        return 2
    except (UserError, CorepyError) as error:
        print(f"corepy: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        if given[:1] == ["profile"]:
            raise  # of the program
        # To say what there is, libraries are imported, and some take hundreds of megabytes.
        name = next(iter(given), "corepy")
        print(f"corepy: {name}: the memory of this process does not suffice", file=sys.stderr)
        return 2
