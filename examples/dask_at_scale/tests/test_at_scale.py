"""The example on little data: it finds what NumPy finds, and a worker that dies costs nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
from corepy.demo.digits import kmeans, pca, project

pytest.importorskip("dask.array")
pytest.importorskip("distributed")

sys.path.insert(0, str(Path(__file__).parents[1]))

import at_scale

pytestmark = pytest.mark.backend("dask")

PROBLEM = at_scale.Problem(
    n_samples=40_000, n_features=8, n_clusters=4, chunk=2_500, n_components=3, iterations=4
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start workers once: they take seconds, and one that a test kills is replaced."""
    with at_scale.local_cluster(workers=2, memory_limit="600MiB") as started:
        yield started


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with corepy.connect(cluster.scheduler_address) as connected:
        connected.wait_for_workers(2, timeout=60)
        yield connected


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Compute with NumPy alone what the cluster has to find."""
    starts = range(0, PROBLEM.n_samples, PROBLEM.chunk)
    x = corepy.array_api.asarray(
        np.concatenate([PROBLEM.draw(s, PROBLEM.chunk)[0] for s in starts])
    )
    found = pca(x, PROBLEM.n_components)
    projected = project(x, found)
    seeds = kmeans(projected[:1000, :], PROBLEM.n_clusters, 0).centroids
    clusters = kmeans(projected, PROBLEM.n_clusters, PROBLEM.iterations, start=seeds)
    return {
        "explained": np.asarray(found.explained),
        "centroids": np.asarray(clusters.centroids),
        "sizes": np.bincount(np.asarray(clusters.labels), minlength=PROBLEM.n_clusters),
    }


def check(outcome: Any, expected: dict[str, Any]) -> None:
    np.testing.assert_allclose(outcome.explained, expected["explained"], rtol=1e-9)
    np.testing.assert_allclose(outcome.centroids, expected["centroids"], rtol=1e-9)
    assert outcome.sizes.tolist() == expected["sizes"].tolist()
    assert outcome.purity > 0.99


def test_finds_what_numpy_finds_and_shows_progress(
    client: Any, expected: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    check(at_scale.solve(PROBLEM), expected)
    shown = capfd.readouterr().out
    assert "k-means" in shown
    assert "100% Completed" in shown


def test_the_data_need_not_fit_into_the_workers_memory() -> None:
    problem = at_scale.Problem(n_samples=17 * 2**15, chunk=2**13, iterations=1)
    limit = 256 * 2**20
    assert problem.nbytes > limit
    with (
        at_scale.local_cluster(workers=1, memory_limit=str(limit)) as cluster,
        corepy.connect(cluster.scheduler_address) as client,
    ):
        before = client.run(os.getpid)
        outcome = at_scale.solve(problem, show=False)
        assert client.run(os.getpid) == before  # it was not killed for its memory
        assert at_scale.peak_memory(client) < limit
    assert outcome.sizes.sum() == problem.n_samples
    assert outcome.purity > 0.99


def test_a_worker_killed_midway_does_not_lose_the_result(
    client: Any, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {*client.run(os.getpid).values()}
    killed = []

    def kill_before_the_clusters(title: str, arrays: Any, show: bool) -> Any:
        if title == "k-means":  # its input, held by both workers, is lost with one of them
            killed.append(at_scale.kill_a_worker(client))
        return compute(title, arrays, show)

    compute = at_scale.compute
    monkeypatch.setattr(at_scale, "compute", kill_before_the_clusters)
    check(at_scale.solve(PROBLEM, show=False), expected)
    assert killed[0] in before
    with pytest.raises(ProcessLookupError):
        os.kill(killed[0], 0)


def test_a_worker_killed_while_it_computes(client: Any) -> None:
    xp = corepy.array_api

    def slow(block: Any) -> Any:
        time.sleep(0.3)
        return block + 1

    native = at_scale.da.zeros(20, chunks=1).map_blocks(slow, dtype=float)
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
    timer.start()
    assert float(xp.sum(xp.asarray(native))) == 20
    assert timer.finished.is_set()
    assert victim not in client.run(os.getpid).values()


def test_the_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--gib", "0.02", "--memory-limit", "600MiB", "--iterations", "2"]
    assert at_scale.main(options) == 0
    shown = capfd.readouterr().out
    assert "0.0 GiB: 41943 samples of 64" in shown
    assert "purity in the first chunk: 100.0%" in shown


def test_a_cluster_that_does_not_answer_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        at_scale.main(["--address", "nowhere"])
    assert (
        "connect: address is 'nowhere'; expected a scheduler's address" in capsys.readouterr().err
    )
