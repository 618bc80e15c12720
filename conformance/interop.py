"""Find out between which libraries an array passes without a copy, and publish the table.

    python conformance/interop.py            # print it
    python conformance/interop.py --write    # and put it into docs/interop.md

Every ordered pair of the usable libraries on the host is tried, with memory of every kind that
the first one can hold. Shared means that both native arrays begin at the same address.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import corepy
from corepy.dispatch._registry import BUILT_IN, records

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "interop.md"
BEGIN: Final = "<!-- made by: python conformance/interop.py --write -->"

#: Libraries that keep arrays in host memory, where others could use them: not Python itself.
LIBRARIES: Final = tuple(
    name for name in BUILT_IN if "cpu" in records()[name].kinds and name != "reference"
)
#: XLA's allocations, and what it asks of memory that it shares.
ALIGNMENT: Final = 64


# ---------------------------------------------------------------------------- kinds of memory


def aligned(values: Any, offset: int = 0) -> Any:
    """Copy values to memory that begins `offset` bytes behind an aligned address."""
    source = np.asarray(values)
    room = np.empty(source.nbytes + 2 * ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT + offset
    made = room[start : start + source.nbytes].view(source.dtype).reshape(source.shape)
    made[...] = source
    return made


def _read_only(*, for_good: bool) -> Any:
    values = aligned(np.arange(24.0).reshape(4, 6))
    part: Any = values
    while isinstance(part, np.ndarray):
        part.flags.writeable = False
        part = part.base if for_good else None
    return values


#: Memory by what is special about it; each call makes new memory.
KINDS: Final[dict[str, Callable[[], Any]]] = {
    "contiguous": lambda: aligned(np.arange(24.0).reshape(4, 6)),
    "bool": lambda: aligned(np.arange(24) % 3 == 0),
    "complex": lambda: aligned(np.arange(8) * (1 - 2j)),
    "0-D": lambda: aligned(2.5),
    "empty": lambda: np.empty((0, 3)),
    "transposed": lambda: aligned(np.arange(24.0).reshape(4, 6)).T,
    "strided": lambda: aligned(np.arange(24.0))[::2],
    "reversed": lambda: aligned(np.arange(24.0))[::-1],
    "broadcast": lambda: np.broadcast_to(aligned(np.arange(6.0)), (4, 6)),
    "read-only view": lambda: _read_only(for_good=False),
    "read-only": lambda: _read_only(for_good=True),
    "misaligned": lambda: aligned(np.arange(24.0), offset=8),
    "odd address": lambda: aligned(np.arange(24.0), offset=1),
}


def address(native: Any) -> int:
    """Return where the first element of a library's array is, as that library tells it."""
    match type(native).__module__.partition(".")[0]:
        case "torch":
            return int(native.data_ptr())
        case "jaxlib" | "jax":
            return int(native.unsafe_buffer_pointer())
        case "mlx":
            return int(np.asarray(memoryview(native)).ctypes.data)
    return int(native.ctypes.data)


# ---------------------------------------------------------------------------- one crossing


@dataclass(frozen=True, slots=True)
class Crossing:
    """How an array came from one library to another.

    Attributes
    ----------
    held : bool
        Whether the first library can hold such memory at all; if not, what crossed is its copy.
    shared : bool
        Whether the second library uses the memory of the first where nothing is said of copies.
    on_request : bool
        Whether it does for ``copy=False``.
    why_not : str
        What it answers to ``copy=False`` otherwise.
    """

    held: bool
    shared: bool
    on_request: bool
    why_not: str = ""


def cross(source: str, target: str, values: Any) -> tuple[Crossing, corepy.Array, corepy.Array]:
    """Give memory of NumPy to one library, and from there to another.

    Returns
    -------
    tuple of (Crossing, Array, Array)
        What happened, and the arrays of the two libraries.
    """
    try:
        first, held = corepy.to(values, backend=source, copy=False), True
    except ValueError:
        first, held = corepy.to(values, backend=source), False
    second = corepy.to(first, backend=target)
    shared = not values.size or address(first.unwrap()) == address(second.unwrap())
    try:
        corepy.to(first, backend=target, copy=False)
    except ValueError as error:
        why_not = str(error).partition("cannot share this memory: ")[2]
        return Crossing(held, shared, False, why_not), first, second
    return Crossing(held, shared, True), first, second


def usable() -> list[str]:
    """Return the libraries of this machine, in the order of `LIBRARIES`."""
    return [name for name in LIBRARIES if name in corepy.usable_backends()]


# ---------------------------------------------------------------------------- the table


def table(names: Iterable[str]) -> str:
    """Return the table of all pairs in Markdown, with the reasons below it."""
    libraries = list(names)
    reasons: dict[str, int] = {}
    lines = [
        f"| from | to | {' | '.join(KINDS)} |",
        f"|---|---|{'---|' * len(KINDS)}",
    ]
    for source in libraries:
        for target in libraries:
            if source != target:
                found = [cross(source, target, make())[0] for make in KINDS.values()]
                cells = " | ".join(_cell(crossing, reasons) for crossing in found)
                lines.append(f"| {source} | {target} | {cells} |")
    notes = [f"{number}. {reason}" for reason, number in reasons.items()]
    return "\n".join([*lines, "", *notes])


def _cell(crossing: Crossing, reasons: dict[str, int]) -> str:
    if not crossing.held:
        return ""
    if crossing.shared:
        return "yes"
    if crossing.on_request:
        return "asked"
    return f"no ({reasons.setdefault(crossing.why_not, len(reasons) + 1)})"


def page(names: Iterable[str]) -> str:
    """Return the part of the page that is measured."""
    libraries = list(names)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in libraries)
    return (
        f"{BEGIN}\n\n{table(libraries)}\n\n"
        f"Found with {versions}, on Python {platform.python_version()}, {platform.machine()}.\n"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, or publish it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write it into docs/{PAGE.name}")
    chosen = parser.parse_args(argv)
    names = usable()
    lost = [name for name in LIBRARIES if name not in names]
    if chosen.write and lost:
        parser.error(f"--write would lose what is published of {', '.join(lost)}; install all")
    measured = page(names)
    if not chosen.write:
        print(measured)
        return
    prose, _, _ = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(prose + measured, encoding="utf-8")


if __name__ == "__main__":
    main()
