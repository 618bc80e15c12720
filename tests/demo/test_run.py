"""The demo as a command: its table, its picture, its exit status."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
from corepy.demo import _data, _run
from corepy.demo.digits import PCA, Clusters

pytestmark = pytest.mark.needs("sklearn")

PNG = b"\x89PNG\r\n\x1a\n"


def table_of(output: str) -> list[dict[str, str]]:
    """Return the table's rows, each a dict of its cells by column."""
    table, _, _ = output.partition("\n\n")
    header, *rows = (re.split(r" {2,}", line) for line in table.splitlines())
    assert tuple(header) == _run.Row.HEADER
    return [dict(zip(header, row, strict=True)) for row in rows]


def backends_of(rows: list[dict[str, str]]) -> list[str]:
    return [row["backend"] for row in rows]


def percent(cell: str) -> float:
    assert cell.endswith("%")
    return float(cell[:-1])


# ---------------------------------------------------------------------------- the command


@pytest.mark.needs("matplotlib")
def test_prints_a_row_for_each_backend_and_saves_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new"
    assert _run.main(["--size", "100", "--out", str(folder)]) == 0
    captured = capsys.readouterr()
    rows = table_of(captured.out)
    assert {*backends_of(rows), "(none)"} == {"(none)", *corepy.usable_backends()}
    for row in rows:
        assert percent(row["variance"]) > 85
        assert percent(row["purity"]) > 65
        assert percent(row["accuracy"]) > 70
        assert percent(row["as NumPy"]) > 95
        assert float(row["max diff"]) < 1e-3  # float32, where a device has no more
        if row["backend"] == "reference":  # last, for it gets a small task
            told = "reference works in Python, an element at a time. It gets the first 100 images"
            assert told in captured.out
            assert rows[-1] is row
            assert rows[0]["images"] == "100 x 64"
            assert rows[-2]["backend"] == "(none)"
            assert row["images"] == rows[-2]["images"] == "100 x 16"
            assert percent(row["as NumPy"]) == 100
            assert row["operations ran in"].split()[0::2] == ["reference"]
    assert f"Picture: {folder / 'digits.png'}" in captured.out
    assert (folder / "digits.png").read_bytes().startswith(PNG)


def test_runs_the_named_backends_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run.main(["--backend", "numpy", "--size", "100", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    rows = table_of(output)
    assert backends_of(rows) == ["(none)", "numpy"]
    row = rows[1]
    assert (row["device"], row["images"]) == ("cpu", "100 x 64")
    assert float(row["max diff"]) == 0
    assert float(row["time"].removesuffix(" ms")) > 0
    backend, operations = row["operations ran in"].split()
    assert backend == "numpy"
    assert int(operations) > 100
    assert "an element at a time" not in output


def test_says_that_scikit_learn_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert _run.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "scikit-learn is missing" in captured.err
    assert "pip install scikit-learn" in captured.err


def test_draws_nothing_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert _run.main(["--backend", "numpy", "--size", "100", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert backends_of(table_of(output)) == ["(none)", "numpy"]
    assert "No picture: matplotlib is missing, pip install matplotlib" in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs("matplotlib")
def test_refuses_a_folder_that_it_cannot_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert _run.main(["--out", str(tmp_path / "file")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""  # before anything ran
    assert captured.err.startswith("corepy demo: --out is ")
    assert captured.err.count("\n") == 1

    def refused(**_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_run, "TemporaryFile", refused)
    assert _run.main(["--out", str(tmp_path)]) == 2
    assert "expected a folder to write to: [Errno 13]" in capsys.readouterr().err


def test_runs_under_the_strict_reading_of_the_standard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with corepy.strict():
        assert _run.main(["--backend", "numpy", "--size", "100", "--out", str(tmp_path)]) == 0
    assert backends_of(table_of(capsys.readouterr().out)) == ["(none)", "numpy"]


def test_refuses_an_unknown_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run.main(["--backend", "numpy", "--backend", "abacus"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""  # before anything ran
    assert "abacus" in captured.err
    assert "numpy" in captured.err  # what is usable


@pytest.mark.parametrize("size", ["99", "1798"])
def test_refuses_a_size(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        _run.main(["--size", size])
    assert raised.value.code == 2
    assert f"--size is {size}; expected 100 to 1797" in capsys.readouterr().err


def test_a_failing_backend_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure = _run.measure

    def breaks(name: str, *arguments: Any) -> Any:
        if name == "cpu":
            raise RuntimeError("the beads fell off")
        return measure(name, *arguments)

    monkeypatch.setattr(_run, "measure", breaks)
    names = ["--backend", "cpu", "--backend", "numpy"]
    assert _run.main([*names, "--size", "100", "--out", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert backends_of(table_of(captured.out)) == ["(none)", "numpy"]
    assert "backend cpu failed:" in captured.err
    assert "RuntimeError: the beads fell off" in captured.err


# ---------------------------------------------------------------------------- its parts


def test_measure_tells_a_difference() -> None:
    images, digits = _data.load(100)
    task = _data.make_task(images, digits, n_components=8, iterations=3)
    row, result = _run.measure("(none)", np, task)
    assert (row.agreement, row.difference) == (1.0, 0.0)
    labels = result.clusters.labels.copy()
    labels[:10] = (labels[:10] + 1) % 10
    other = result._replace(
        projected=result.projected + 0.5, clusters=Clusters(result.clusters.centroids, labels)
    )
    row, _ = _run.measure("(none)", np, task, other)
    assert row.agreement == 0.9  # 10 of 75 clusters and 25 predictions
    assert row.difference == pytest.approx(0.5)


def test_purity() -> None:
    clusters = np.asarray([0, 0, 0, 1, 1, 9])
    assert _run.purity(clusters, np.asarray([3, 3, 4, 5, 5, 0])) == 5 / 6
    assert _run.purity(clusters, np.asarray([1, 2, 3, 4, 5, 6])) == 3 / 6


def test_best_time_repeats_what_is_quick_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for durations, best, repeats in (([0.2, 0.1, 0.15], 0.1, 3), ([9.0], 9.0, 1)):
        clock = [0.0]
        waiting = iter(durations)
        runs = []

        def run(clock: list[float] = clock, waiting: Any = waiting, runs: Any = runs) -> None:
            clock[0] += next(waiting)
            runs.append(None)

        monkeypatch.setattr(_run.time, "perf_counter", lambda clock=clock: clock[0])
        assert _run.best_time(run) == pytest.approx(best)
        assert len(runs) == repeats


def test_tasks_keep_unseen_images_apart() -> None:
    images, digits = _data.load(120)
    task = _data.make_task(images, digits, 2, 1)
    assert task.train.shape == (90, 64)
    assert task.test.shape == (30, 64)
    np.testing.assert_array_equal(task.test[1], images[7].reshape(-1))
    np.testing.assert_array_equal(task.test_labels, digits[3::4])
    np.testing.assert_array_equal(task.train_labels[:4], digits[[0, 1, 2, 4]])
    assert task.train.min() == 0
    assert task.train.max() == 1
    assert set(task.train_labels.tolist()) == set(range(10))


def test_options_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        _run.main(["--siz", "100"])
    assert raised.value.code == 2
    assert "unrecognized arguments: --siz" in capsys.readouterr().err


def test_the_smallest_size_has_every_digit() -> None:
    _, digits = _data.load(_data.SMALLEST)
    assert set(np.delete(digits, np.s_[3::4]).tolist()) == set(range(10))


def test_average_blocks() -> None:
    images = np.arange(128.0).reshape(2, 8, 8)
    small = _data.average_blocks(images)
    assert small.shape == (2, 4, 4)
    assert small[0, 0, 0] == (0 + 1 + 8 + 9) / 4
    assert small[1, 3, 2] == images[1, 6:8, 4:6].mean()


@pytest.mark.needs("matplotlib")
def test_draws_an_empty_cluster(tmp_path: Path) -> None:
    from corepy.demo._picture import draw

    path = tmp_path / "picture.png"
    found = PCA(np.zeros(4), np.eye(4)[:2], np.asarray([0.6, 0.4]))
    samples = np.asarray([[0.0, 0.0], [1.0, 1.0]])
    clusters = Clusters(np.asarray([[0.5, 0.5], [3.0, 3.0]]), np.asarray([0, 0]))
    draw(path, found, samples, clusters, np.asarray([7, 7]), "numpy")
    assert path.read_bytes().startswith(PNG)
