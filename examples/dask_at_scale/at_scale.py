"""PCA and k-means of the demo on more data than the workers' memory holds.

    python examples/dask_at_scale/at_scale.py                      # 4 GiB, two workers of 1 GiB
    python examples/dask_at_scale/at_scale.py --kill-after 20      # and one of them is killed
    python examples/dask_at_scale/at_scale.py --address tcp://10.0.0.1:8786

The functions are those of `corepy.demo.digits`, unchanged: they do not know of Dask. The samples
are drawn around known centres, chunk by chunk on the workers, so that the result can be checked.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
from distributed import Client, LocalCluster, progress

import corepy
from corepy.demo.digits import PCA, Clusters, kmeans, pca, project

xp = corepy.array_api
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Samples around centres that are far apart: what to draw, and what to find.

    Attributes
    ----------
    n_samples, n_features, n_clusters : int
    chunk : int
        Samples in a chunk.
    n_components, iterations : int
        Principal components kept, and rounds of k-means.
    """

    n_samples: int
    n_features: int = 64
    n_clusters: int = 10
    chunk: int = 2**16
    n_components: int = 9
    iterations: int = 10

    @property
    def nbytes(self) -> int:
        """Bytes of the samples in float64."""
        return self.n_samples * self.n_features * 8

    def centres(self) -> Floats:
        """Return the centres, of shape (k, d)."""
        return np.random.default_rng(0).normal(scale=4.0, size=(self.n_clusters, self.n_features))

    def draw(self, first: int, count: int) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw samples (count, d) and the numbers of their centres; `first` is the seed."""
        random = np.random.default_rng([1, first])
        labels = random.integers(self.n_clusters, size=count)
        noise = random.normal(size=(count, self.n_features))
        return self.centres()[labels] + noise, labels

    def samples(self) -> corepy.Array:
        """Return all samples, of shape (n, d), drawn where and when they are needed."""
        starts = range(0, self.n_samples, self.chunk)
        sizes = tuple(min(self.chunk, self.n_samples - start) for start in starts)
        positions = da.from_array(np.asarray(starts), chunks=1)
        native = da.map_blocks(
            _draw_chunk,
            positions,
            self,
            chunks=(sizes, (self.n_features,)),
            new_axis=1,
            dtype=np.float64,
        )
        return xp.asarray(native)


def _draw_chunk(position: npt.NDArray[np.int64], problem: Problem) -> Floats:
    first = int(position[0])
    return problem.draw(first, min(problem.chunk, problem.n_samples - first))[0]


@dataclass(frozen=True)
class Outcome:
    """What was found, on the host, and how long it took.

    Attributes
    ----------
    explained : ndarray of shape (p,)
        Shares of variance of the principal components.
    centroids : ndarray of shape (k, p)
    sizes : ndarray of shape (k,)
        Samples in each cluster.
    purity : float
        Share of the samples of the first chunk whose centre is the commonest of their cluster.
    seconds : float
    """

    explained: Floats
    centroids: Floats
    sizes: npt.NDArray[np.int64]
    purity: float
    seconds: float


def solve(problem: Problem, *, show: bool = True) -> Outcome:
    """Find principal components and clusters, on the cluster that is connected."""
    start = time.perf_counter()
    x = problem.samples()
    found = PCA(*compute("PCA", pca(x, problem.n_components), show))

    projected = project(x, found)
    # The farthest-point start compares all samples with all: a sample of them will do.
    some = projected[: min(1000, problem.chunk), :]
    seeds = kmeans(some, problem.n_clusters, iterations=0).centroids
    (projected, seeds) = compute("projection", (projected, seeds), show)
    # In one chunk, not in one for each: every round of k-means has all chunks meet all of these.
    seeds = xp.asarray(np.asarray(seeds), device=projected.device)

    clusters = kmeans(projected, problem.n_clusters, problem.iterations, start=seeds)
    clusters = Clusters(*compute("k-means", clusters, show))
    counts = [xp.count_nonzero(clusters.labels == number) for number in range(problem.n_clusters)]
    (sizes,) = compute("counts", (xp.stack(counts),), show)

    first = min(problem.chunk, problem.n_samples)
    truth = problem.draw(0, first)[1]
    return Outcome(
        explained=np.asarray(found.explained),
        centroids=np.asarray(clusters.centroids),
        sizes=np.asarray(sizes),
        purity=purity(np.asarray(clusters.labels[:first]), truth, problem.n_clusters),
        seconds=time.perf_counter() - start,
    )


def compute(title: str, arrays: Sequence[corepy.Array], show: bool) -> list[corepy.Array]:
    """Compute arrays together and leave the results on the workers."""
    held = dask.persist(*(array.unwrap() for array in arrays))
    if show:
        print(title, flush=True)
        progress(held, notebook=False)
        print(flush=True)
    return [xp.asarray(native) for native in held]


def purity(clusters: npt.NDArray[Any], truth: npt.NDArray[Any], k: int) -> float:
    """Return the share of samples whose truth is the commonest of their cluster."""
    table = np.zeros((k, k), dtype=np.int64)
    np.add.at(table, (clusters, truth), 1)
    return float(table.max(axis=1).sum() / len(truth))


# ---------------------------------------------------------------------------- the cluster


def kill_a_worker(client: Client) -> int:
    """Kill a worker's process as a full machine would; return its process id."""
    processes: dict[str, int] = client.run(os.getpid)
    victim = next(iter(processes.values()))
    os.kill(victim, signal.SIGKILL)
    return victim


def peak_memory(client: Client) -> int:
    """Return the most bytes of memory that a worker's process was seen to have."""
    return max(client.run(_peak_memory).values())


def _peak_memory(dask_worker: Any) -> int:
    return max(dask_worker.monitor.quantities["memory"])  # it looks twice a second


def local_cluster(workers: int, memory_limit: str) -> LocalCluster:
    """Start workers of one thread each on this machine; beyond their memory they use the disk."""
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=memory_limit,
        dashboard_address=":0",  # any free port, so that a second cluster finds one too
    )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="PCA and k-means on a cluster, with Dask.")
    made.add_argument("--gib", type=float, default=4.0, help="size of the data (default: 4)")
    made.add_argument("--workers", type=int, default=2, help="local workers (default: 2)")
    made.add_argument("--memory-limit", default="1GiB", help="of a worker (default: 1GiB)")
    made.add_argument("--address", help="a scheduler to use instead of local workers")
    made.add_argument("--kill-after", type=float, help="seconds after which a worker is killed")
    made.add_argument("--iterations", type=int, default=10, help="of k-means (default: 10)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    command = parser()
    options = command.parse_args(argv)
    n_samples = int(options.gib * 2**30) // (64 * 8)
    problem = Problem(n_samples, iterations=options.iterations)
    with ExitStack() as stack:
        address = options.address
        if address is None:
            cluster = stack.enter_context(local_cluster(options.workers, options.memory_limit))
            address = cluster.scheduler_address
        try:
            client = stack.enter_context(corepy.connect(address))
        except (corepy.BackendUnavailableError, ValueError) as error:
            command.error(str(error))
        if options.kill_after is not None:
            timer = threading.Timer(
                options.kill_after,
                lambda: print(f"\nkilled worker process {kill_a_worker(client)}", flush=True),
            )
            timer.start()
            stack.callback(timer.cancel)
        print(f"{problem.nbytes / 2**30:.1f} GiB: {n_samples} samples of {problem.n_features}")
        outcome = solve(problem)
        peak = peak_memory(client)
    print(f"variance explained by {problem.n_components} components: {outcome.explained.sum():.1%}")
    print(f"cluster sizes: {', '.join(map(str, sorted(outcome.sizes.tolist())))}")
    print(f"purity in the first chunk: {outcome.purity:.1%}")
    print(f"peak memory of a worker: {peak / 2**20:.0f} MiB")
    print(f"seconds: {outcome.seconds:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
