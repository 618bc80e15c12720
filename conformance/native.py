"""Count which operations each backend runs itself, and publish the shares.

    python conformance/native.py            # print them
    python conformance/native.py --write    # and put them into docs/native.md

Counted are pairs of an operation and a dtype that the standard gives it. Nothing is measured: the
dispatcher is asked, as it is at the first use of each operation.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES, DType
from corepy.backends._base import Backend
from corepy.devices._device import Device
from corepy.dispatch._fallback import place
from corepy.dispatch._operations import OPERATIONS, Operation
from corepy.dispatch._registry import BUILT_IN, load, records

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "native.md"
BEGIN: Final = "<!-- made by: python conformance/native.py --write -->"

#: Kinds of device that a processor can be, some by a driver.
HERE: Final = ("cpu", "dask", "opencl", "webgpu")


def backends() -> tuple[str, ...]:
    """Return the backends of this package that run here, in the order of the tables.

    One that serves several of these kinds of device stands once for each.
    """
    known = records()
    kinds = {name: [kind for kind in known[name].kinds if kind in HERE] for name in BUILT_IN}
    return tuple(
        name if len(kinds[name]) == 1 else f"{name}:{kind}"
        for name in BUILT_IN
        for kind in kinds[name]
    )


BACKENDS: Final = backends()


def chapter(operation: Operation) -> str:
    """Return the chapter of the standard that an operation belongs to."""
    extension, _, name = operation.name.rpartition(".")
    if extension:
        return extension
    if name.startswith("__"):
        return "operators, indexing"
    module: str = getattr(xp, name).__module__.rpartition(".")[2]
    # A factory makes most elementwise functions, in the name of the namespace itself.
    return {"array_api": "elementwise"}.get(module, module.strip("_").replace("_", " "))


def pairs() -> Iterator[tuple[Operation, DType]]:
    """Yield every operation with every dtype that its operands may have."""
    for operation in OPERATIONS.values():
        for dtype in DTYPES.values():
            if dtype in operation.dtypes:
                yield operation, dtype


def at_home(name: str) -> tuple[Backend, Device]:
    """Return a backend and its device of a kind, the first one where the name has no kind."""
    library, _, kind = name.partition(":")
    backend = load(library)
    return backend, next(device for device in backend.devices() if kind in ("", device.kind))


def elsewhere(backend: Backend, home: Device) -> dict[tuple[str, DType], str]:
    """Return where the pairs run that a backend does not run itself: a backend, and its device."""
    found = {}
    for operation, dtype in pairs():
        other, device = place(operation.name, backend, home, dtype)
        if other is not backend:
            found[operation.name, dtype] = other.name + ("" if device is home else f" on {device}")
    return found


# ---------------------------------------------------------------------------- the page


def shares(names: Iterable[str]) -> str:
    """Return the table of the shares, a row a chapter, a column a backend."""
    names = list(names)
    missing = {name: elsewhere(*at_home(name)) for name in names}
    chapters: dict[str, list[tuple[str, DType]]] = {"**all**": []}
    for operation, dtype in pairs():
        for title in ("**all**", chapter(operation)):
            chapters.setdefault(title, []).append((operation.name, dtype))
    rows = [
        ["chapter", "pairs", *(f"`{name}`" for name in names)],
        ["---", *["--:"] * (len(names) + 1)],
    ]
    for title, members in chapters.items():
        own = (sum(pair not in missing[name] for pair in members) for name in names)
        rows.append([title, str(len(members)), *(_share(count, len(members)) for count in own)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _share(count: int, total: int) -> str:
    """Return a percentage that says all and nothing only where that is so."""
    if count in (0, total):
        return f"{100 * count // total} %"
    return f"{min(max(100 * count / total, 0.1), 99.9):.1f} %"


def lists(names: Iterable[str]) -> str:
    """Return what each backend leaves to others: by the place, then by the dtypes."""
    parts = []
    for name in names:
        found: dict[str, dict[str, list[str]]] = {}
        for (operation, dtype), where in elsewhere(*at_home(name)).items():
            found.setdefault(where, {}).setdefault(operation, []).append(dtype.name)
        if not found:
            continue
        parts.append(f"### {name}\n")
        for where, operations in found.items():
            parts.append(f"Run by {where}:\n")
            groups: dict[tuple[str, ...], list[str]] = {}
            for operation, dtypes in operations.items():
                whole = len(dtypes) == len(OPERATIONS[operation].dtypes)
                groups.setdefault(("every dtype",) if whole else tuple(dtypes), []).append(
                    operation
                )
            for kinds, members in sorted(groups.items()):
                functions = ", ".join(f"`{member}`" for member in sorted(members))
                parts.append(f"- {', '.join(kinds)}: {functions}")
            parts.append("")
    return "\n".join(parts)


def page(names: Iterable[str]) -> str:
    """Return the part of the page that is made."""
    names = list(names)
    libraries = dict.fromkeys(name.partition(":")[0] for name in names if name != "reference")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in libraries)
    return (
        f"{BEGIN}\n\n{shares(names)}\n"
        f"Found with {versions}, on Python {platform.python_version()}, {platform.machine()}.\n\n"
        f"## What runs elsewhere\n\n{lists(names)}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables, or publish them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write them into docs/{PAGE.name}")
    chosen = parser.parse_args(argv)
    usable = {row.name: {d.kind for d in row.devices} for row in corepy.backend_status()}
    names = [
        name
        for name in BACKENDS
        for library, _, kind in [name.partition(":")]
        if usable[library] and kind in ("", *usable[library])
    ]
    lost = [name for name in BACKENDS if name not in names]
    if chosen.write and lost:
        parser.error(f"--write would lose what is published of {', '.join(lost)}; install all")
    made = page(names)
    if not chosen.write:
        print(made)
        return
    prose, _, _ = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(prose + made, encoding="utf-8")


if __name__ == "__main__":
    main()
