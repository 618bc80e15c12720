"""The commands ``corepy routes`` and ``corepy tune``."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from corepy._cli_files import reason, writable
from corepy._errors import CorepyError
from corepy._idle_threads import spinning
from corepy.devices._capabilities import detect_devices
from corepy.devices._device import CPU, Device, as_device
from corepy.dispatch import _machine
from corepy.dispatch import _route_files as files
from corepy.dispatch import _route_sources as sources
from corepy.dispatch._admitted_devices import home_of
from corepy.dispatch._explain import aligned
from corepy.dispatch._offload_costs import Curve
from corepy.dispatch._registry import broken, records
from corepy.dispatch._route_gpus import gpu_name, key_of
from corepy.dispatch._route_table import OTHERS, Route, RouteTable
from corepy.dispatch._sites import Site, site_of
from corepy.dispatch._threads import get_num_threads

#: How many cells that are undecided are named.
_NAMED: Final = 20


class RouteError(CorepyError):
    """A command on routes cannot be done: told in one line."""


def _device(command: str, name: object) -> Device:
    try:
        return sources.known_device(name, command)
    except ValueError as error:
        raise RouteError(str(error)) from error


# ---------------------------------------------------------------------------- corepy routes


def add_routes(commands: Any) -> None:
    """Describe ``corepy routes``."""
    command = commands.add_parser("routes", help="show which operations run in which backend")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--json", action="store_true", help="as the table's file, for programs")
    which.add_argument(
        "--export", metavar="FILE", help="write the table in force to a file (-: print it)"
    )
    which.add_argument(
        "--import", dest="source", metavar="FILE", help="use the table in FILE on this machine"
    )
    which.add_argument(
        "--freeze", action="store_true", help="keep the table in force, whatever changes"
    )
    which.add_argument("--thaw", action="store_true", help="stop using the frozen table")
    command.add_argument(
        "--force", action="store_true", help="import a table of another machine or version"
    )
    command.add_argument(
        "--device", default=None, metavar="DEVICE", help="of a GPU, such as cuda:0, not of the host"
    )
    command.set_defaults(refuse=command.error)


def show_routes(options: argparse.Namespace) -> int:
    """Print, export, import or freeze the table of routes.

    Raises
    ------
    RouteError
        If a file cannot be read or written, or does not fit.
    BackendUnavailableError
        If the device is not present.
    """
    if options.force and options.source is None:
        options.refuse("argument --force: not allowed without argument --import")
    device = CPU if options.device is None else _device("routes", options.device)
    try:
        get_num_threads()  # a variable that is wrong is, whether or not a table depends on it
        if options.thaw:
            return _thaw(device)
        if options.source is not None:
            return _import(options.source, device, force=options.force)
        return _show(options, device)
    except (BrokenPipeError, CorepyError):
        raise  # whoever read went away, which is no error; or it names the command already
    except (OSError, ValueError) as error:
        raise RouteError(f"routes: {reason(error)}") from error


def _show(options: argparse.Namespace, device: Device) -> int:
    """Print, export or freeze the table in force on a device."""
    found = sources.asked_for(device, "routes")
    if not (options.json or options.export is not None or options.freeze):
        print(_render(found))
        if options.device is None:
            _show_devices()
        return 0
    if found.table is None:
        off = "they are off" if device is CPU else found.origin
        raise RouteError(f"routes: {off}; expected a table in force")
    if options.json or options.export == "-":
        print(found.table.dump())
        return 0
    if options.freeze:
        path = files.frozen_file(found.table.gpu)
    else:
        path = writable(options.export, "--export")
    files.write(path, found.table.dump())
    print(f"wrote {path}")
    return 0


def _thaw(device: Device) -> int:
    try:
        files.frozen_file(_gpu_of(device)).unlink()
    except FileNotFoundError:
        print("no table was frozen")
    else:
        print("the table is no longer frozen")
    return 0


def _show_devices() -> None:
    """Print the tables of the GPUs of this machine that have one."""
    for gpu in detect_devices().gpus:
        found = sources.in_force(gpu.device)
        if found.table is not None:
            print(f"\n{gpu.device}: {_render(found)}")


def _gpu_of(device: Device) -> str | None:
    """Return the name of the GPU that a device is, None for the host.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if device is CPU:
        return None
    site, name = site_of(device), gpu_name(device)
    if site is None or name is None:
        there = [gpu.device.name for gpu in detect_devices().gpus if site_of(gpu.device)]
        expected = ", ".join(["cpu", *there])
        raise ValueError(f"device is {device}; expected one of {expected}{_why_no_gpu(device)}")
    return name


def _why_no_gpu(device: Device) -> str:
    """Say in parentheses what drivers of GPUs of a kind answer, where they do not."""
    told = [each for each in detect_devices().problems if each.startswith(("nvml:", device.kind))]
    return f" ({'; '.join(told)})" if told else ""


def _import(source: str, device: Device, *, force: bool) -> int:
    if not source:
        raise ValueError("--import is ''; expected the name of a file")
    table = sources.read(Path(source), "--import")
    if table.gpu is not None:
        device = _place_of(table.gpu, source, as_device(table.site.kind), device)
    elif device is not CPU:
        raise ValueError(f"{source} is of the host; expected one of {device}")
    key = key_of(_gpu_of(device))
    found = _machine.differences(table.machine, key)
    if found and not force:
        raise ValueError(
            f"{source} was measured elsewhere ({'; '.join(found)}); expected one of this machine: "
            f"--force takes it all the same"
        )
    print(f"wrote {files.keep(table, imported_for=key)}")
    _tell_if_unused(key.get("gpu"))
    return 0


def _place_of(gpu: str, source: str, first: Device, asked: Device) -> Device:
    """Return the GPU that a file is for: the one that was asked for, or of the name that it has.

    Raises
    ------
    ValueError
        If this machine has none of its kind.
    """
    device = asked
    if asked is CPU:  # nobody was: a file says what it is of
        named = (each.device for each in detect_devices().gpus if each.name == gpu)
        device = next(named, first)
    if gpu_name(device) is None:
        why = _why_no_gpu(device)
        raise ValueError(f"{source} is for the GPU {gpu}; this machine has no such GPU{why}")
    return device


def _tell(text: str) -> None:
    """Print what the user should know besides."""
    print(f"corepy: {text}", file=sys.stderr)


def _tell_if_unused(gpu: str | None) -> None:
    why = sources.unused(gpu)
    if why is not None:
        _tell(f"that table is not in force: {why}")


def _render(found: sources.InForce) -> str:
    """Word a table for people."""
    table = found.table
    aside = [found.aside] if found.aside else []
    if table is None:
        return "\n".join([found.origin, *aside])
    made = ", ".join(f"{key} {value}" for key, value in table.made.items() if value is not None)
    lines = [
        f"{found.origin} ({made})",
        f"made on {table.where}: {_versions(table.machine)}",
        *aside,
    ]
    lines += spinning() if table.site.is_host else []
    if table.alone:
        few = ", ".join(f"{name} {rows}" for name, rows in sorted(table.alone.items()))
        lines.append(f"BLAS in one thread up to so many rows: {few}")
    rows: list[tuple[str, ...]]
    rows = [("operation", "dtype", "operands", "from", "backend", "gain", "why")]
    rows += [row for route in table.routes for row in _rows(route, table.site)]
    return "\n".join([*lines, "", *aligned(rows)])


def _versions(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in machine.get("versions", {}).items())


def _rows(route: Route, site: Site) -> list[tuple[str, ...]]:
    place = (route.operation, route.dtype, route.form or "-", str(route.least))
    home = "numpy" if site.is_host else home_of(route.form)
    if not route.options:
        return [(*place, home, "-", "nobody is faster there")]
    rows: list[tuple[str, ...]] = []
    for option in route.options:
        words = [f"{option.company:.1f}x its time in company"]
        if not site.is_host:
            words = [f"beside {home}, alone on the GPU"]
        lack = broken().get(option.backend) or records()[option.backend].probe()
        if lack is not None:
            words.insert(0, f"not taken, for {option.backend} is not usable ({lack})")
        if option.busy is not None:
            words.append(f"{option.busy:.1f}x NumPy beside busy cores")
        if option.single is not None:
            words.append(f"{option.single:.1f}x in one thread")
        if option.backend == "torch" and route.dtype in site.routable[route.operation].fast:
            words.append('only under precision("fast")')
        gain = f"{option.gain:.{site.digits}f}x"
        rows.append((*place, option.backend, gain, ", ".join(words)))
    return rows


# ---------------------------------------------------------------------------- corepy tune


def add_tune(commands: Any) -> None:
    """Describe ``corepy tune``."""
    command = commands.add_parser("tune", help="measure which backend is fastest for what")
    command.add_argument(
        "operations",
        nargs="*",
        metavar="OPERATION",
        help="operations to measure, such as sin or linalg.svd (default: all)",
    )
    command.add_argument(
        "--again", action="store_true", help="measure again what was measured before"
    )
    command.add_argument(
        "--offload",
        action="store_true",
        help="measure accelerators instead: what moving to them and computing there takes",
    )
    command.add_argument(
        "--device",
        default="cpu",
        metavar="DEVICE",
        help="whose routes to measure: cpu, or a GPU such as cuda:0 (default: cpu)",
    )
    command.add_argument(
        "--output", metavar="FILE", help="write the table there, not where corepy looks for it"
    )


class Progress:
    """A bar on a terminal, and lines elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.drawn = stream.isatty()
        self.start = time.monotonic()

    def __call__(self, number: int, count: int, label: str) -> None:
        """Show that a case begins."""
        passed = time.monotonic() - self.start
        if not self.drawn:
            print(f"{number}/{count} {label}", file=self.stream, flush=True)
            return
        filled = 30 * number // max(count, 1)
        left = f"{passed / number * (count - number):4.0f} s left" if number else ""
        bar = "#" * filled + "." * (30 - filled)
        end = "\n" if number == count else ""
        # A line as wide as the terminal would go on in the next one.
        width = shutil.get_terminal_size().columns - 1
        line = f"[{bar}] {number}/{count} {left} {label:40.40}"[:width]
        print(f"\r{line}", end=end, file=self.stream)
        self.stream.flush()


def run_tune(options: argparse.Namespace) -> int:
    """Measure this machine and keep what was found.

    Raises
    ------
    RouteError
        If an operation is unknown or a file cannot be written.
    """
    from corepy.tuning import tune

    device = _device("tune", options.device)
    try:
        wanted = None if options.output is None else writable(options.output, "--output")
        if options.offload:
            if device is not CPU:
                raise RouteError("tune: --offload measures every device; expected no --device")
            return _tune_offload(options, wanted, _tell)
        outcome = tune(
            options.operations,
            device=device,
            others=sources.otherwise(_gpu_of(device)) if options.operations else None,
            again=options.again,
            progress=Progress(sys.stderr),
            notice=_tell,
        )
        if wanted is None:
            path = files.keep(outcome.table)
        else:
            path = wanted
            files.write(path, outcome.table.dump())
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise RouteError(f"tune: {reason(error)}") from error
    except KeyboardInterrupt:
        print(file=sys.stderr)
        _tell("interrupted; what was measured is kept, and the next `corepy tune` goes on there")
        return 130
    for text in outcome.refused:
        _tell(f"not routed, because it fails or means something else: {text}")
    if outcome.undecided:
        _tell(
            f"the machine was too noisy to decide {len(outcome.undecided)} cells, which stay "
            f"{'with NumPy' if device is CPU else 'where they are'} unless somebody won all the "
            f"same; run `corepy tune` again when it is quiet: {_first_of(outcome.undecided)}"
        )
    if outcome.load is not None and outcome.load > 0.5:
        _tell(f"other processes used {outcome.load:.1f} cores meanwhile")
    if OTHERS in outcome.table.made:
        _tell(f"what was not measured keeps the routes {outcome.table.made[OTHERS]}")
    _summarize(outcome.table, path)
    if wanted is None:
        _tell_if_unused(outcome.table.gpu)
    return 0


def _first_of(cells: Sequence[str]) -> str:
    """Name some cells: where others have the cores all are undecided, which are hundreds."""
    more = len(cells) - _NAMED
    return ", ".join([*cells[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _tune_offload(
    options: argparse.Namespace, path: Path | None, notice: Callable[[str], None]
) -> int:
    """Measure the accelerators and say what was found."""
    from corepy.tuning import tune_offload

    bar = Progress(sys.stderr)
    found = tune_offload(
        options.operations, again=options.again, path=path, progress=bar, notice=notice
    )
    if found.undecided:
        notice(
            f"the machine was too noisy for {len(found.undecided)} cells, which are left out; run "
            f"`corepy tune --offload` again when it is quiet: {', '.join(found.undecided)}"
        )
    rows: list[tuple[str, ...]] = [("accelerator", "there", "back", "operations", "never")]
    for device in found.costs.devices:
        ways = [_way(curve) for curve in (device.up, device.down)]
        rows.append((device.name, *ways, str(len(device.work)), ", ".join(device.refused) or "-"))
    print("\n".join(aligned(rows)))
    for device in found.costs.devices:
        for key, why in device.refused.items():
            notice(f"never offloaded, because it means something else there: {key}: {why}")
    return 0


def _way(curve: Curve | None) -> str:
    """Word what moving costs: the latency, and the bandwidth of the most that was moved."""
    if curve is None:
        return "-"
    most, seconds = curve.points[-1]
    return f"{curve(0) * 1e6:.1f} us, {most / seconds / 1e9:.1f} GB/s"


def _summarize(table: RouteTable, path: Path) -> None:
    led = [route for route in table.routes if route.options]
    routed = {(route.operation, route.dtype) for route in led}
    backends = Counter(route.options[0].backend for route in led)
    counts = ", ".join(f"{count} to {name}" for name, count in sorted(backends.items()))
    print(
        f"{len(led)} routes{f' ({counts})' if counts else ''} for {len(routed)} operations and "
        f"dtypes; wrote {path}"
    )
