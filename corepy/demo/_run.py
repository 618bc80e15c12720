"""Run the digits on every usable backend, and say what came out, how fast, and what ran where."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

import corepy
from corepy._errors import BackendUnavailableError
from corepy._signals import let_through
from corepy.demo import _data, _picture
from corepy.demo._data import LARGEST, SMALLEST, Task, average_blocks, load, make_task
from corepy.demo._picture import draw
from corepy.demo.digits import (
    PCA,
    Array,
    Clusters,
    kmeans,
    nearest_centroid_fit,
    nearest_centroid_predict,
    pca,
    project,
)
from corepy.devices import as_device

N_CLASSES: Final = 10
#: Backends that work in Python, an element at a time: they get a task of their size.
UNHURRIED: Final = frozenset({"reference"})
SMALL: Final = 120
PATIENCE: Final = 1.0  #: seconds after which a run is not repeated to find its best time

LEGEND: Final = """
variance    share of it that the principal components explain
purity      share of the samples whose digit is the commonest of their k-means cluster
accuracy    share of unseen images that the nearest centroid classifies rightly
as NumPy    share of the clusters and predictions that are those of NumPy without corepy
max diff    greatest difference between the projected samples and NumPy's
time        the best of three runs (the only one, if it is long), results brought to the host\
"""
SMALL_PRINT: Final = """
{names} works in Python, an element at a time. It gets the first {size} images only, averaged
to 4 x 4 pixels, with fewer components and rounds, and is compared with NumPy on the same.\
"""


# ---------------------------------------------------------------------------- the job


class Study(NamedTuple):
    """What is found: the components, the projected samples, their clusters, predicted digits."""

    found: PCA
    projected: Array
    clusters: Clusters
    predicted: Array


def study(x: Array, labels: Array, test: Array, n_components: int, iterations: int) -> Study:
    """Learn from the samples `x` (n, d) and their labels (n,), then classify `test` (m, d)."""
    found = pca(x, n_components)
    projected = project(x, found)
    clusters = kmeans(projected, N_CLASSES, iterations)
    centroids = nearest_centroid_fit(projected, labels, N_CLASSES)
    predicted = nearest_centroid_predict(project(test, found), centroids)
    return Study(found, projected, clusters, predicted)


def to_host(result: Study) -> Study:
    """Bring the arrays to NumPy, which also waits for those that are not computed yet."""
    found, projected, clusters, predicted = result
    return Study(
        PCA(*map(_values, found)),
        _values(projected),
        Clusters(*map(_values, clusters)),
        _values(predicted),
    )


def _values(array: Array) -> npt.NDArray[Any]:
    # By no name of a device, which the strict reading of the standard has none of.
    here = array if isinstance(array, np.ndarray) else array.to_device(as_device("cpu"))
    return np.asarray(here)


# ---------------------------------------------------------------------------- the account


@dataclass(frozen=True)
class Row:
    """What the table says of one run; all but names, difference and seconds are shares of 1."""

    backend: str
    device: str
    images: str
    variance: float
    purity: float
    accuracy: float
    agreement: float
    difference: float
    seconds: float
    where: str

    HEADER: ClassVar = (
        "backend",
        "device",
        "images",
        "variance",
        "purity",
        "accuracy",
        "as NumPy",
        "max diff",
        "time",
        "operations ran in",
    )

    def cells(self) -> tuple[str, ...]:
        """Return the row as the table shows it, in the order of the header."""
        shares = (self.variance, self.purity, self.accuracy, self.agreement)
        return (
            self.backend,
            self.device,
            self.images,
            *(f"{share:.1%}" for share in shares),
            f"{self.difference:.0e}" if self.difference else "0",
            f"{self.seconds * 1e3:.1f} ms" if self.seconds < 1 else f"{self.seconds:.1f} s",
            self.where,
        )


def measure(name: str, xp: Any, task: Task, expected: Study | None = None) -> tuple[Row, Study]:
    """Run a task in a namespace and compare what it finds.

    Parameters
    ----------
    name : str
        What the table calls it.
    xp : namespace
        ``corepy.array_api``, or NumPy itself, of which nobody asks what ran where.
    task : Task
        The data and the parameters.
    expected : Study, optional
        What NumPy found; default what this run finds.

    Returns
    -------
    row : Row
        The account.
    result : Study
        What was found, in NumPy arrays.
    """
    dtypes = xp.__array_namespace_info__().default_dtypes()  # not every device has float64
    # A NumPy array would stay NumPy's; a list belongs to nobody yet and goes where it is wanted.
    x = xp.asarray(task.train.tolist(), dtype=dtypes["real floating"])
    labels = xp.asarray(task.train_labels.tolist(), dtype=dtypes["integral"])
    test = xp.asarray(task.test.tolist(), dtype=dtypes["real floating"])

    def run() -> Study:
        return study(x, labels, test, task.n_components, task.iterations)

    if xp is np:
        result, where = to_host(run()), "NumPy, without corepy"
    else:
        report = corepy.explain(run)
        result, where = to_host(report.result), account(report)
    seconds = best_time(lambda: to_host(run()))

    expected = expected or result
    same = (
        result.clusters.labels == expected.clusters.labels,
        result.predicted == expected.predicted,
    )
    row = Row(
        backend=name,
        device=str(x.device),
        images=str(task),
        variance=float(result.found.explained.sum()),
        purity=purity(result.clusters.labels, task.train_labels),
        accuracy=float(np.mean(result.predicted == task.test_labels)),
        agreement=float(np.mean(np.concatenate(same))),
        difference=float(np.max(np.abs(result.projected - expected.projected))),
        seconds=seconds,
        where=where,
    )
    return row, result


def purity(clusters: npt.NDArray[Any], digits: npt.NDArray[Any]) -> float:
    """Return the share of samples (n,) whose digit is the commonest of their cluster."""
    table = np.zeros((N_CLASSES, N_CLASSES), dtype=np.int64)
    np.add.at(table, (clusters, digits), 1)
    return float(table.max(axis=1).sum() / len(digits))


def best_time(run: Callable[[], object]) -> float:
    """Return the seconds of the best of three runs; those that take long are not repeated."""
    times: list[float] = []
    while len(times) < 3 and sum(times) < PATIENCE:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def account(report: Any) -> str:
    """Say in a few words which backends ran how many operations, and what was moved."""
    counts = sorted(report.summary().items(), key=lambda item: (-item[1], item[0]))
    words = ", ".join(f"{backend} {count}" for backend, count in counts)
    moved = sum(record.bytes_moved for record in report.records)
    return f"{words}; {moved / 1e6:.2g} MB moved" if moved else words


def render(rows: Sequence[Row]) -> str:
    """Align rows below their header, words to the left and numbers to the right."""
    lines = [Row.HEADER, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words = (0, 1, len(widths) - 1)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


# ---------------------------------------------------------------------------- the command


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="corepy demo",
        description="PCA, k-means and a nearest-centroid classifier on handwritten digits, "
        "written once and run on every usable backend.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help="run on this one; repeat it for more (default: all that are usable)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where to save digits.png (default: the current directory)",
    )
    parser.add_argument(
        "--size",
        type=int,
        default=LARGEST,
        metavar="N",
        help=f"how many images to use, {SMALLEST} to {LARGEST} (default: all)",
    )
    options = parser.parse_args(argv)
    if not SMALLEST <= options.size <= LARGEST:
        parser.error(f"--size is {options.size}; expected {SMALLEST} to {LARGEST}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    Parameters
    ----------
    argv : sequence of str, optional
        The command line without the program's name; default ``sys.argv[1:]``.

    Returns
    -------
    int
        0 if every backend ran, 1 if one failed, 2 if there was nothing to run or no data.
    """
    options = parse(argv)
    lack = _data.why_not()
    if lack is not None:
        return _refuse(lack)
    names = options.backend or corepy.usable_backends()
    try:
        for name in names:
            with corepy.backend_priority([name]):
                pass  # a name that cannot be used raises here, before anything has run
    except BackendUnavailableError as error:
        return _refuse(str(error))

    if _picture.why_not() is None:
        try:
            make_folder(options.out)
        except OSError as error:
            let_through(error)
            return _refuse(f"--out is {str(options.out)!r}; expected a folder to write to: {error}")

    images, digits = load(options.size)
    few = min(options.size, SMALL)
    full = make_task(images, digits, n_components=32, iterations=20)
    small = make_task(average_blocks(images[:few]), digits[:few], n_components=6, iterations=5)
    in_order = sorted(names, key=lambda name: name in UNHURRIED)
    tasks = {name: small if name in UNHURRIED else full for name in in_order}

    rows: list[Row] = []
    found: dict[str, Study] = {}
    for task in dict.fromkeys(tasks.values()):
        row, expected = measure("(none)", np, task)
        rows.append(row)
        for name in (name for name in tasks if tasks[name] is task):
            try:
                # What falls back stands in the table's last column: no warnings beside it.
                with corepy.backend_priority([name]), corepy.set_fallback("allow"):
                    row, found[name] = measure(name, corepy.array_api, task, expected)
            except Exception as error:
                let_through(error)
                # One broken library must not hide what the others do: the exit status tells.
                print(f"corepy demo: backend {name} failed:", file=sys.stderr)
                traceback.print_exc()
            else:
                rows.append(row)

    print(render(rows))
    print(LEGEND)
    if small in tasks.values():
        print(SMALL_PRINT.format(names=", ".join(sorted(UNHURRIED)), size=few))
    if found:
        name = next(iter(found))
        save_picture(options.out, found[name], tasks[name].train_labels, name)
    return 0 if len(found) == len(tasks) else 1


def make_folder(folder: Path) -> None:
    """Make a folder, and see whether files can be written there.

    Raises
    ------
    OSError
        If not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder):
        pass


def save_picture(folder: Path, result: Study, digits: npt.NDArray[Any], backend: str) -> None:
    """Save ``digits.png`` in a folder, or say why there is none."""
    lack = _picture.why_not()
    if lack is not None:
        print(f"\nNo picture: {lack}")
        return
    path = folder / "digits.png"
    draw(path, result.found, result.projected, result.clusters, digits, backend)
    print(f"\nPicture: {path}")


def _refuse(why: str) -> int:
    print(f"corepy demo: {why}", file=sys.stderr)
    return 2
