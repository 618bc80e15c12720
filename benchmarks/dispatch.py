"""What dispatch costs: small operations on corepy's NumPy backend, beside NumPy and its peers.

    python benchmarks/dispatch.py
    python benchmarks/dispatch.py --save        # also benchmarks/results/dispatch-<cpu>-<date>.*
    python benchmarks/dispatch.py --check       # status 1 if a claim of the README does not hold

Every figure is a median over interleaved rounds; see `benchmarks/_measure.py`. Peers that are not
installed are left out, and named.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import corepy
from benchmarks import _measure
from benchmarks._measure import Statement, Timing

RESULTS: Final = Path(__file__).resolve().parent / "results"
SIZES: Final = (10, 1000)

#: The claims: `a + b` on 10 float64 costs at most this over NumPy's own ...
OVER_NS: Final = 300
#: ... and `import corepy` takes at most this many times `import numpy`.
IMPORT_RATIO: Final = 1.3
#: What `import corepy` must not load.
OPTIONAL: Final[tuple[str, ...]] = (
    *("numba", "torch", "jax", "cupy", "mlx", "tinygrad", "dask", "mpmath", "scipy"),
    *("sklearn", "matplotlib", "array_api_strict", "autoray"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One operation, as it is written for each library.

    Attributes
    ----------
    code : str
        For corepy, and for every library that has a namespace ``xp`` and arrays of its own.
    numpy : str or None
        For NumPy, where it is written differently.
    compat : str or None
        For array_api_compat, whose arrays are NumPy's; None where it does not come into play.
    autoray : str or None
        For autoray, likewise.
    operands : str or None
        What the operands are, where that is not one of the `SIZES`.
    """

    code: str
    numpy: str | None = None
    compat: str | None = None
    autoray: str | None = None
    operands: str | None = None


def function(code: str, autoray: str, operands: str | None = None) -> Row:
    """Make the row of a function of the namespace."""
    return Row(code, compat=code, autoray=autoray, operands=operands)


ROWS: Final = (
    Row("a + b"),
    function("xp.add(a, b)", "do('add', a, b)"),
    Row(
        "a.__array_namespace__().add(a, b)",
        numpy="xp.add(a, b)",
        compat="array_namespace(a).add(a, b)",
    ),
    Row("a + 1.0"),
    Row("a * a"),
    function("xp.sin(a)", "do('sin', a)"),
    function("xp.sum(a)", "do('sum', a)"),
    Row("a[0]"),
    Row("a[2:5]"),
    Row("float(a[0])"),
    function("xp.zeros(n)", "do('zeros', n, like='numpy')"),
    function("xp.where(c, a, b)", "do('where', c, a, b)"),
    function("xp.matmul(m, m)", "do('matmul', m, m)", "3 x 3"),
)

NUMPY: Final = "numpy"
#: The columns, and the module that each one needs.
PEERS: Final = {
    NUMPY: "numpy",
    "corepy": "corepy",
    "array_api_strict": "array_api_strict",
    "array_api_compat": "array_api_compat.numpy",
    "autoray": "autoray",
}


# ---------------------------------------------------------------------------- what is measured


def present() -> list[str]:
    """Return the peers that are installed."""
    return [peer for peer, module in PEERS.items() if find_spec(module.partition(".")[0])]


def names(peer: str, n: int) -> dict[str, Any]:
    """Return what a row's code uses, in the arrays of a peer."""
    a = np.linspace(0.25, 1.75, n)
    host: dict[str, Any] = {
        "a": a,
        "b": a[::-1].copy(),
        "c": a > 1,
        "m": np.arange(9.0).reshape(3, 3),
    }
    if peer == "autoray":
        return host | {"n": n, "do": import_module("autoray").do}
    if peer == "corepy":
        # NumPy's backend, whatever else this machine prefers: it is the wrapping that is measured.
        with corepy.backend_priority(["numpy"]):
            wrapped = {name: corepy.array_api.asarray(x) for name, x in host.items()}
        return wrapped | {"n": n, "xp": corepy.array_api}
    xp = import_module(PEERS[peer])
    if peer == "array_api_strict":
        return {name: xp.asarray(x) for name, x in host.items()} | {"n": n, "xp": xp}
    if peer == "array_api_compat":
        host["array_namespace"] = import_module("array_api_compat").array_namespace
    return host | {"n": n, "xp": xp}


def statements(row: Row, n: int, peers: Sequence[str]) -> dict[str, Statement]:
    """Return the row's statement for each peer that it concerns."""
    codes = {
        NUMPY: row.numpy or row.code,
        "corepy": row.code,
        "array_api_strict": row.code,
        "array_api_compat": row.compat,
        "autoray": row.autoray,
    }
    return {
        peer: Statement(code, names(peer, n)) for peer in peers if (code := codes[peer]) is not None
    }


@dataclass(frozen=True, slots=True)
class Result:
    """One row on operands of one size: the timing of each peer."""

    code: str
    operands: str
    timings: dict[str, Timing]


def measure(
    rows: Sequence[Row], peers: Sequence[str], rounds: int, sizes: Sequence[int] = SIZES
) -> list[Result]:
    """Measure rows at their sizes, on the NumPy backend."""
    cases = [(row, n, str(n)) for n in sizes for row in rows if row.operands is None]
    cases += [(row, SIZES[0], row.operands) for row in rows if row.operands is not None]
    results = []
    with corepy.backend_priority(["numpy"]):  # for xp.zeros, which has no operand to follow
        for row, n, operands in cases:
            times = _measure.interleave(statements(row, n, peers), rounds)
            results.append(Result(row.code, operands, _measure.compare(times, NUMPY)))
    return results


def measure_in_python(rounds: int, only: str | None = None) -> list[Result]:
    """Measure rows beside NumPy, on the smaller size, in a process without the compiled modules."""
    command = [sys.executable, str(Path(__file__).resolve()), "--in-python"]
    if only is not None:
        command += ["--only", only]
    done = subprocess.run(
        [*command, "--rounds", str(rounds)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"COREPY_PURE_PYTHON": "1"},
        check=True,
    )
    return [
        Result(
            found["code"],
            found["operands"],
            {peer: Timing(**timing) for peer, timing in found["timings"].items()},
        )
        for found in json.loads(done.stdout)
    ]


IMPORTS: Final = {
    "import numpy": "import numpy",
    "import corepy": "import corepy",
    "import corepy; corepy.array_api.zeros(1)": "import corepy; corepy.array_api.zeros(1)",
}


@dataclass(frozen=True, slots=True)
class Imports:
    """The time that imports take, and the optional libraries that they load."""

    timings: dict[str, Timing]
    loaded: dict[str, list[str]]


def measure_imports(rounds: int) -> Imports:
    """Measure imports in fresh interpreters."""
    times, modules = _measure.interleave_imports(IMPORTS, rounds)
    loaded = {name: [lib for lib in OPTIONAL if lib in found] for name, found in modules.items()}
    return Imports(_measure.compare(times, "import numpy"), loaded)


@dataclass(frozen=True, slots=True)
class Claim:
    """What the README promises, and what was found."""

    text: str
    holds: bool


#: How many claims there are.
CLAIMS: Final = 3


def claims(results: Sequence[Result], imports: Imports) -> list[Claim]:
    """Compare the figures with what is promised; what was not measured is left out."""
    found = []
    for result in results:
        if result.code == "a + b" and result.operands == str(SIZES[0]):
            over = result.timings["corepy"].over_ns
            text = f"a + b on {SIZES[0]} float64 costs {over:.0f} ns over NumPy (limit {OVER_NS})"
            found.append(Claim(text, over <= OVER_NS))
    ratio = imports.timings["import corepy"].ratio
    text = f"import corepy takes {ratio:.2f} times import numpy (limit {IMPORT_RATIO})"
    found.append(Claim(text, ratio <= IMPORT_RATIO))
    loaded = imports.loaded["import corepy"]
    text = f"import corepy loads {', '.join(loaded) or 'no optional library'} (limit: none)"
    found.append(Claim(text, not loaded))
    return found


# ---------------------------------------------------------------------------- how it is told


def describe_machine(peers: Sequence[str]) -> dict[str, Any]:
    """Return where and on what the figures were taken."""
    distributions = ("numpy", "array-api-strict", "array-api-compat", "autoray")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _measure.processor(),
        "threads": corepy.detect_devices().cpu_cores,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {"corepy": corepy.__version__} | _measure.versions(distributions),
        "missing": [peer for peer in PEERS if peer not in peers],
    }


def report(
    machine: Mapping[str, Any],
    results: Sequence[Result],
    imports: Imports,
    rounds: int,
    in_python: Sequence[Result] = (),
) -> str:
    """Word the figures as Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        "# What dispatch costs",
        "",
        f"{machine['processor']} ({machine['threads']} threads, load {machine['load']}), "
        f"{machine['system']}, {machine['python']}; {versions}; {machine['date']}.",
        "",
        f"Medians of {rounds} interleaved rounds; in parentheses, the quotient of the least times. "
        f"A dash: the library does not come into play.",
        "",
        operations_table(results),
        "",
        *(["Without the compiled modules:", "", python_table(in_python), ""] if in_python else []),
        "Imports, each in a fresh interpreter, whose own start is not counted:",
        "",
        imports_table(imports),
        "",
        *(f"- {'holds' if c.holds else 'FAILS'}: {c.text}" for c in claims(results, imports)),
    ]
    if machine["missing"]:
        lines += ["", f"Not installed, so not compared: {', '.join(machine['missing'])}."]
    return "\n".join(lines)


def operations_table(results: Sequence[Result]) -> str:
    """Set a row for each operation and size."""
    others = [peer for peer in PEERS if peer != NUMPY]
    titles = ["operation", "operands", "NumPy ns", "corepy ns", "over NumPy, ns"]
    rows = [[*titles, *(f"{peer} / NumPy" for peer in others)]]
    for result in results:
        base, own = result.timings[NUMPY], result.timings["corepy"]
        figures = [base.median_ns, own.median_ns, own.over_ns]
        rows.append(
            [
                f"`{result.code}`",
                result.operands,
                *(f"{figure:.0f}" for figure in figures),
                *(_ratio(result.timings.get(peer)) for peer in others),
            ]
        )
    return _measure.markdown(rows)


def python_table(results: Sequence[Result]) -> str:
    """Set a row for each operation that was measured without the compiled modules."""
    rows = [
        [
            "operation",
            "operands",
            "NumPy ns",
            "corepy ns",
            "over NumPy, ns",
            f"at most {OVER_NS} ns",
        ]
    ]
    for result in results:
        base, own = result.timings[NUMPY], result.timings["corepy"]
        figures = [f"{figure:.0f}" for figure in (base.median_ns, own.median_ns, own.over_ns)]
        holds = "holds" if own.over_ns <= OVER_NS else "no"
        rows.append([f"`{result.code}`", result.operands, *figures, holds])
    return _measure.markdown(rows)


def _ratio(timing: Timing | None) -> str:
    return "-" if timing is None else f"{timing.ratio:.2f} ({timing.least_ratio:.2f})"


def imports_table(imports: Imports) -> str:
    """Set a row for each import."""
    rows = [["statement", "ms", "by NumPy's", "optional libraries loaded"]]
    rows += [
        [
            f"`{name}`",
            f"{timing.median_ns / 1e6:.1f}",
            _ratio(timing),
            ", ".join(imports.loaded[name]) or "none",
        ]
        for name, timing in imports.timings.items()
    ]
    return _measure.markdown(rows)


def save(
    folder: Path,
    machine: Mapping[str, Any],
    results: Sequence[Result],
    imports: Imports,
    rounds: int,
    in_python: Sequence[Result] = (),
) -> list[Path]:
    """Write the figures as JSON and as Markdown; return the paths."""
    record = {
        **machine,
        "rounds": rounds,
        "operations": [asdict(result) for result in results],
        "in_python": [asdict(result) for result in in_python],
        "imports": asdict(imports),
        "claims": [asdict(claim) for claim in claims(results, imports)],
    }
    page = report(machine, results, imports, rounds, in_python)
    return _measure.save(folder, "dispatch", machine["processor"], machine["date"], record, page)


# ---------------------------------------------------------------------------- the command


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure what dispatch costs.")
    parser.add_argument(
        "--rounds", type=int, default=200, metavar="N", help="rounds (default: 200)"
    )
    parser.add_argument(
        "--import-rounds",
        type=int,
        default=15,
        metavar="N",
        help="fresh interpreters for each import (default: 15)",
    )
    parser.add_argument(
        "--only", metavar="TEXT", help="measure only the operations that contain this text"
    )
    parser.add_argument("--save", action="store_true", help=f"keep the figures in {RESULTS.name}/")
    parser.add_argument(
        "--check", action="store_true", help="end with status 1 if a claim does not hold"
    )
    parser.add_argument(
        "--in-python",
        action="store_true",
        help="print only, as JSON, the figures of this process for what is measured in Python",
    )
    options = parser.parse_args(argv)
    for name in ("rounds", "import_rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is {getattr(options, name)}; expected 1 up")
    if not chosen(options.only):
        parser.error(f"--only is {options.only!r}, which no operation contains")
    return options


def chosen(only: str | None) -> list[Row]:
    """Return the rows whose code contains a text."""
    return [row for row in ROWS if only is None or only in row.code]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep the figures; return the exit status."""
    options = parse(argv)
    rows = chosen(options.only)
    if options.in_python:
        own = measure(rows, [NUMPY, "corepy"], options.rounds, SIZES[:1])
        print(json.dumps([asdict(result) for result in own]))
        return 0
    peers = present()
    results = measure(rows, peers, options.rounds)
    in_python = measure_in_python(options.rounds, options.only)
    imports = measure_imports(options.import_rounds)
    machine = describe_machine(peers)
    print(report(machine, results, imports, options.rounds, in_python))
    if options.save:
        for path in save(RESULTS, machine, results, imports, options.rounds, in_python):
            print(f"wrote {path}")
    found = claims(results, imports)
    if options.check and len(found) < CLAIMS:
        print("--check: not all of the claims were measured", file=sys.stderr)
    held = len(found) == CLAIMS and all(claim.holds for claim in found)
    return 0 if held or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
