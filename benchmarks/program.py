"""A whole program: the demo's PCA and k-means on many samples, with NumPy and with corepy.

    python benchmarks/program.py                         # 1,000,000 x 64 float32, minutes
    python benchmarks/program.py --samples 50000         # quick
    python benchmarks/program.py --save                  # also benchmarks/results/program-<cpu>-...
    python benchmarks/program.py --check                 # status 1 if a claim does not hold

The functions of `corepy/demo/digits.py` run unchanged; all that differs is ``xp``, which is NumPy
or `corepy.array_api`. Each run has a fresh process, NumPy's and corepy's in turns, so that its peak
memory is its own, and runs the program twice: the first time compiles what is to be compiled. The
same is measured again while another process multiplies matrices without end.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Final

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _measure
from benchmarks._measure import ROOT

RESULTS: Final = Path(__file__).resolve().parent / "results"
NUMPY, COREPY = "numpy", "corepy"
#: The claims: corepy is at least so many times as fast as NumPy, also beside a busy neighbour ...
SPEED: Final = 1.5
#: ... and its peak memory is at most so many times NumPy's.
MEMORY: Final = 1.2

COMPONENTS, CLUSTERS, ITERATIONS = 32, 10, 20

#: Ends with whoever started it, also where that was killed.
NEIGHBOUR: Final = """\
import os
import numpy as np
a = np.random.default_rng(0).standard_normal((1024, 1024))
while os.getppid() == {parent}:
    a @ a
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One process: seconds of the first run and of the second, its peak memory, what it found.

    Attributes
    ----------
    first, second : float
        Seconds.
    peak : int
        Bytes.
    explained : list of float
        Share of variance of each component.
    sizes : list of int
        Samples in each cluster.
    """

    first: float
    second: float
    peak: int
    explained: list[float]
    sizes: list[int]


# ---------------------------------------------------------------------------- the program


def functions() -> ModuleType:
    """Load the demo's functions as a file of their own: importing corepy may settle threads."""
    path = ROOT / "corepy" / "demo" / "digits.py"
    spec = importlib.util.spec_from_file_location("digits", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(digits: ModuleType, x: Any) -> tuple[Any, Any]:
    """Find principal components of samples, and clusters of what they become."""
    found = digits.pca(x, COMPONENTS)
    projected = digits.project(x, found)
    start = projected[:CLUSTERS, :]
    return found, digits.kmeans(projected, CLUSTERS, ITERATIONS, start=start)


def run_program(name: str, samples: int, features: int) -> Outcome:
    """Run the program twice in this process."""
    # What a user changes is this import, so it comes first in both.
    xp = importlib.import_module({NUMPY: "numpy", COREPY: "corepy.array_api"}[name])
    import numpy as np

    digits = functions()
    x = xp.asarray(samples_of(samples, features))
    times = []
    for _ in range(2):
        start = time.perf_counter()
        found, clusters = program(digits, x)
        labels = np.asarray(clusters.labels)  # waits for the values, where that is needed
        times.append(time.perf_counter() - start)
    counts = np.bincount(labels, minlength=CLUSTERS)
    explained = np.asarray(found.explained).astype(float)
    return Outcome(times[0], times[1], peak_memory(), explained.tolist(), counts.tolist())


def samples_of(samples: int, features: int) -> Any:
    """Make samples (samples, features) in float32: clusters, some directions wider than others."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, features), np.float32)
    x *= np.linspace(2, 0.5, features, dtype=np.float32)
    centres = 6 * rng.standard_normal((CLUSTERS, features), np.float32)
    for start in range(0, samples, 10_000):  # in pieces, for the peak is the program's
        part = x[start : start + 10_000]
        part += centres[rng.integers(0, CLUSTERS, len(part))]
    return x


def peak_memory() -> int:
    """Return the most bytes that this process has had in memory."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# ---------------------------------------------------------------------------- measuring


def in_fresh_process(name: str, samples: int, features: int) -> Outcome:
    """Run the program twice in a process of its own."""
    sizes = ["--samples", str(samples), "--features", str(features)]
    command = [sys.executable, str(Path(__file__).resolve()), "--run", name, *sizes]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Outcome(**json.loads(done.stdout))


@contextlib.contextmanager
def neighbour() -> Iterator[subprocess.Popen[bytes]]:
    """Let another process multiply matrices meanwhile."""
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR.format(parent=os.getpid())]) as process:
        try:
            time.sleep(1)  # until it is at it
            yield process
            if process.poll() is not None:
                raise RuntimeError(f"the neighbour ended with status {process.returncode}")
        finally:
            process.kill()


def measure(samples: int, features: int, rounds: int) -> dict[str, list[Outcome]]:
    """Run both in turns, so many rounds."""
    found: dict[str, list[Outcome]] = {NUMPY: [], COREPY: []}
    for number in range(rounds):
        for name in (NUMPY, COREPY) if number % 2 == 0 else (COREPY, NUMPY):
            found[name].append(in_fresh_process(name, samples, features))
    hold_equal(found[NUMPY][0], found[COREPY][0], samples)
    return found


def hold_equal(wanted: Outcome, got: Outcome, samples: int) -> None:
    """Compare what was found.

    Raises
    ------
    ValueError
        If a component explains a share of variance that differs by more than 1e-4, or more than
        one sample of a thousand is in another cluster.
    """
    pairs = zip(wanted.explained, got.explained, strict=True)
    apart = max(abs(a - b) for a, b in pairs)
    moved = sum(abs(a - b) for a, b in zip(wanted.sizes, got.sizes, strict=True))
    if apart > 1e-4 or moved > samples / 1000:
        raise ValueError(
            f"program: corepy explains {apart:.2g} more or less than NumPy, and puts {moved} "
            f"samples elsewhere; expected the same"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """NumPy and corepy under the same circumstances, in medians over the rounds.

    Attributes
    ----------
    circumstances : str
    seconds, first_seconds : dict of str to float
        Of the second run and of the first, by library.
    peak : dict of str to int
        Bytes.
    speed, first_speed : float
        NumPy's time over corepy's.
    memory : float
        corepy's peak memory over NumPy's.
    """

    circumstances: str
    seconds: dict[str, float]
    first_seconds: dict[str, float]
    peak: dict[str, int]
    speed: float
    first_speed: float
    memory: float


def compared(circumstances: str, found: dict[str, list[Outcome]]) -> Comparison:
    """Compare what both took, round by round."""
    pairs = list(zip(found[NUMPY], found[COREPY], strict=True))
    median = statistics.median
    return Comparison(
        circumstances,
        {name: median(o.second for o in runs) for name, runs in found.items()},
        {name: median(o.first for o in runs) for name, runs in found.items()},
        {name: int(median(o.peak for o in runs)) for name, runs in found.items()},
        median(a.second / b.second for a, b in pairs),
        median(a.first / b.first for a, b in pairs),
        median(b.peak / a.peak for a, b in pairs),
    )


def claims(found: Sequence[Comparison]) -> list[tuple[str, bool]]:
    """Say what is promised, with the figure, and whether it holds."""
    made = []
    for row in found:
        text = f"{row.circumstances}: {row.speed:.2f} times as fast as NumPy (limit {SPEED})"
        made.append((text, row.speed >= SPEED))
    memory = max(row.memory for row in found)
    text = f"peak memory {memory:.2f} times NumPy's (limit {MEMORY})"
    return [*made, (text, memory <= MEMORY)]


# ---------------------------------------------------------------------------- how it is told


def report(machine: dict[str, Any], found: Sequence[Comparison]) -> str:
    """Word the figures as Markdown."""
    titles = ["", "NumPy, s", "corepy, s", "speed", "first run", "NumPy, MB", "corepy, MB", "ratio"]
    rows = [titles]
    for row in found:
        seconds = [f"{row.seconds[name]:.2f}" for name in (NUMPY, COREPY)]
        peaks = [f"{row.peak[name] / 1e6:.0f}" for name in (NUMPY, COREPY)]
        speeds = [f"{row.speed:.2f}", f"{row.first_speed:.2f}"]
        rows.append([row.circumstances, *seconds, *speeds, *peaks, f"{row.memory:.2f}"])
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        "# A whole program",
        "",
        f"The demo's PCA and k-means ({COMPONENTS} components, {CLUSTERS} clusters, {ITERATIONS} "
        f"iterations) on {machine['samples']:,} x {machine['features']} float32.",
        f"{machine['processor']} ({machine['threads']} processors; load {machine['load']} before), "
        f"{versions}; medians of {machine['rounds']} rounds; {machine['date']}.",
        "Speeds are NumPy's time over corepy's; of the first run in a process, which includes "
        "compiling, and of the second.",
        "",
        _measure.markdown(rows),
        "",
        *(f"- {'holds' if held else 'FAILS'}: {text}" for text, held in claims(found)),
    ]
    return "\n".join(lines)


def save(folder: Path, machine: dict[str, Any], found: Sequence[Comparison]) -> list[Path]:
    """Write the figures as JSON and as Markdown; return the paths."""
    record = {**machine, "runs": [asdict(row) for row in found], "claims": claims(found)}
    page = report(machine, found)
    return _measure.save(folder, "program", machine["processor"], machine["date"], record, page)


# ---------------------------------------------------------------------------- the command


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Run the demo on many samples, NumPy and corepy.")
    parser.add_argument("--samples", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--features", type=int, default=64, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default: 3)")
    parser.add_argument("--save", action="store_true", help=f"keep the figures in {RESULTS.name}/")
    parser.add_argument(
        "--check", action="store_true", help="end with status 1 if a claim does not hold"
    )
    # What the command runs in fresh processes.
    parser.add_argument("--run", choices=(NUMPY, COREPY), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    least = {"samples": 1000, "features": COMPONENTS, "rounds": 1}
    for name, number in least.items():
        if getattr(options, name) < number:
            parser.error(f"--{name} is {getattr(options, name)}; expected {number} up")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep the figures; return the exit status."""
    options = parse(argv)
    size = (options.samples, options.features)
    if options.run is not None:
        print(json.dumps(asdict(run_program(options.run, *size))))
        return 0
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    found = [compared("alone", measure(*size, options.rounds))]
    with neighbour():
        found.append(compared("beside matrix products", measure(*size, options.rounds)))
    machine = {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _measure.processor(),
        "threads": os.cpu_count(),
        "load": load,
        "samples": options.samples,
        "features": options.features,
        "rounds": options.rounds,
        "versions": _measure.versions(["numpy", "numba", "torch", "jax"]),
    }
    print(report(machine, found))
    if options.save:
        for path in save(RESULTS, machine, found):
            print(f"wrote {path}")
    held = all(held for _, held in claims(found))
    return 0 if held or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
