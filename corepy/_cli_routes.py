"""The commands ``corepy routes`` and ``corepy tune``."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

from corepy._errors import CorepyError
from corepy._idle_threads import spinning
from corepy.devices._capabilities import detect_devices
from corepy.devices._device import CPU, Device, as_device
from corepy.dispatch import _route_sources as sources
from corepy.dispatch import _route_table as files
from corepy.dispatch._admitted_devices import home_of
from corepy.dispatch._explain import aligned
from corepy.dispatch._offload_costs import Curve
from corepy.dispatch._route_gpus import gpu_name, key_of
from corepy.dispatch._route_table import Route, RouteTable
from corepy.dispatch._sites import Site, site_of


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
    command.add_argument("--json", action="store_true", help="as the table's file, for programs")
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--export", metavar="FILE", help="write the table in force to a file (-: show it)"
    )
    which.add_argument("--import", dest="source", metavar="FILE", help="use a table of this kind")
    which.add_argument(
        "--freeze", action="store_true", help="keep the table in force, whatever changes"
    )
    which.add_argument("--thaw", action="store_true", help="let a frozen table go")
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
    """
    if options.force and options.source is None:
        options.refuse("argument --force: not allowed without argument --import")
    device = _device("routes", options.device or CPU)
    try:
        if options.thaw:
            files.frozen_file(_gpu_of(device)).unlink(missing_ok=True)
            print("the table is no longer frozen")
            return 0
        if options.source is not None:
            return _import(Path(options.source), device, force=options.force)
        found = sources.in_force(device)
        shown = options.export in (None, "-") and not options.freeze
        if shown and not (options.json or options.export):
            print(_render(found))
            if options.device is None:
                _show_devices()
            return 0
        if found.table is None:
            off = "they are off" if device is CPU else found.origin
            raise RouteError(f"routes: {off}; expected a table in force")
        if shown:
            print(found.table.dump())
            return 0
        path = files.frozen_file(found.table.gpu) if options.freeze else Path(options.export)
        files.write(path, found.table.dump())
    except BrokenPipeError:
        raise  # whoever read went away: that is no error
    except (OSError, ValueError) as error:
        raise RouteError(f"routes: {error}") from error
    print(f"wrote {path}")
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
        raise ValueError(f"device is {device}; expected one of {', '.join(['cpu', *there])}")
    return name


def _import(source: Path, device: Device, *, force: bool) -> int:
    table = sources.read(source, "--import")
    if table.gpu is not None and device is CPU:
        device = as_device(table.site.kind)  # a file says what it is of
    if (table.gpu is None) != (device is CPU):
        raise RouteError(f"routes: {source} is of the host; expected one of {device}")
    key = key_of(_gpu_of(device))
    found = files.differences(table, key)
    if found and not force:
        raise RouteError(
            f"routes: {source} was measured elsewhere ({'; '.join(found)}); expected one of this "
            f"machine: --force takes it all the same"
        )
    path = files.cache_file(key)
    machine = key if table.gpu is not None else {**key, "threads": table.threads}
    files.write(path, replace(table, machine=machine).dump())
    print(f"wrote {path}")
    _tell_if_unused(key.get("gpu"))
    return 0


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
    if table is None:
        return found.origin
    made = ", ".join(f"{key} {value}" for key, value in table.made.items() if value is not None)
    machine = table.machine
    on = table.gpu or f"{machine.get('cpu')}, {machine.get('cores')} cores"
    lines = [
        f"{found.origin} ({made})",
        f"made on {on}: {_versions(machine)}",
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
    command.add_argument("operations", nargs="*", metavar="OPERATION", help="only these")
    command.add_argument("--again", action="store_true", help="measure also what is known")
    command.add_argument(
        "--offload",
        action="store_true",
        help="measure accelerators instead: what moving to them and computing there takes",
    )
    command.add_argument(
        "--device", default="cpu", metavar="DEVICE", help="measure a GPU, such as cuda:0"
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


def _require_writable(path: Path) -> None:
    """See that a table can be written to a file before it is measured.

    Raises
    ------
    OSError
        If not.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.is_file() or not path.exists():  # of a pipe nobody knows before
        folder = files.resolved(path).parent
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


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
        if options.offload:
            if device is not CPU:
                raise RouteError("tune: --offload measures every device; expected no --device")
            return _tune_offload(options, _tell)
        wanted = None if options.output is None else Path(options.output)
        if wanted is not None:
            _require_writable(wanted)
        outcome = tune(
            options.operations,
            device=device,
            others=sources.otherwise(_gpu_of(device)) if options.operations else None,
            again=options.again,
            progress=Progress(sys.stderr),
            notice=_tell,
        )
        path = wanted or files.cache_file(outcome.table.machine)
        files.write(path, outcome.table.dump())
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise RouteError(f"tune: {error}") from error
    except KeyboardInterrupt:
        print(file=sys.stderr)
        _tell("interrupted; what was measured is kept, and the next `corepy tune` goes on there")
        return 130
    for text in outcome.refused:
        _tell(f"not routed, because it fails or means something else: {text}")
    if outcome.undecided:
        _tell(
            f"the machine was too noisy to decide {len(outcome.undecided)} cells, which stay "
            f"{'with NumPy' if device is CPU else 'where they are'}; run `corepy tune` again when "
            f"it is quiet: {', '.join(outcome.undecided)}"
        )
    if outcome.load is not None and outcome.load > 0.5:
        _tell(f"other processes used {outcome.load:.1f} cores meanwhile")
    if files.OTHERS in outcome.table.made:
        _tell(f"what was not measured keeps the routes {outcome.table.made[files.OTHERS]}")
    _summarize(outcome.table, path)
    if wanted is None:
        _tell_if_unused(outcome.table.gpu)
    return 0


def _tune_offload(options: argparse.Namespace, notice: Callable[[str], None]) -> int:
    """Measure the accelerators and say what was found."""
    from corepy.tuning import tune_offload

    path = None if options.output is None else Path(options.output)
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
    routed = {(route.operation, route.dtype) for route in table.routes if route.options}
    backends: dict[str, int] = {}
    for route in table.routes:
        if route.options:
            first = route.options[0].backend
            backends[first] = backends.get(first, 0) + 1
    counts = ", ".join(f"{count} to {name}" for name, count in sorted(backends.items()))
    print(f"{len(routed)} operations and dtypes are routed ({counts or 'none'}); wrote {path}")
