"""The demo's program, on libraries that follow the standard: it must need nothing beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import corepy
from corepy.demo import _data
from corepy.demo.digits import (
    kmeans,
    nearest_centroid_fit,
    nearest_centroid_predict,
    one_hot,
    pca,
    project,
    squared_distances,
)
from tests.conftest import required


@pytest.fixture(params=["numpy", "array_api_strict", "corepy"])
def xp(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A namespace of the standard, ours or not; instead of ours on each backend."""
    if request.param == "numpy":
        yield np
    elif request.param == "corepy":
        with corepy.backend_priority(["numpy"]):
            yield corepy.array_api
    else:
        strict = required("array_api_strict")
        # Without what lazy and compiled libraries lack.
        with strict.ArrayAPIStrictFlags(boolean_indexing=False, data_dependent_shapes=False):
            yield strict


@pytest.fixture(scope="module")
def task() -> _data.Task:
    required("sklearn")
    return _data.make_task(*_data.load(_data.LARGEST), n_components=32, iterations=20)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20251)


def brute_force_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)


# ---------------------------------------------------------------------------- real data


def test_recognises_digits(xp: Any, task: _data.Task) -> None:
    x, test = xp.asarray(task.train), xp.asarray(task.test)
    found = pca(x, task.n_components)
    centroids = nearest_centroid_fit(project(x, found), xp.asarray(task.train_labels), 10)
    predicted = np.asarray(nearest_centroid_predict(project(test, found), centroids))
    assert float(xp.sum(found.explained)) > 0.96
    assert np.mean(predicted == task.test_labels) > 0.88


def test_clusters_digits(xp: Any, task: _data.Task) -> None:
    x = xp.asarray(task.train)
    projected = project(x, pca(x, task.n_components))
    centroids, labels = map(np.asarray, kmeans(projected, 10, task.iterations))
    commonest = [np.bincount(task.train_labels[labels == j]).max() for j in range(10)]
    assert sum(commonest) / len(labels) > 0.85
    np.testing.assert_array_equal(
        labels, brute_force_distances(np.asarray(projected), centroids).argmin(axis=1)
    )


def test_float32_finds_the_same_clusters(task: _data.Task) -> None:
    # Devices without float64 must tell the same story.
    answers = []
    for dtype in (np.float64, np.float32):
        x = task.train.astype(dtype)
        clusters = kmeans(project(x, pca(x, 32)), 10)
        assert clusters.centroids.dtype == dtype
        answers.append(clusters.labels)
    np.testing.assert_array_equal(*answers)


def test_is_portable_in_the_eyes_of_corepy(task: _data.Task) -> None:
    x, labels = corepy.array_api.asarray(task.train), corepy.array_api.asarray(task.train_labels)
    with corepy.strict():
        projected = project(x, pca(x, 8))
        clusters = kmeans(projected, 10, 2)
        centroids = nearest_centroid_fit(projected, labels, 10)
        predicted = nearest_centroid_predict(projected, centroids)
    expected = project(task.train, pca(task.train, 8))
    np.testing.assert_array_equal(np.asarray(clusters.labels), kmeans(expected, 10, 2).labels)
    means = nearest_centroid_fit(expected, task.train_labels, 10)
    np.testing.assert_array_equal(np.asarray(predicted), nearest_centroid_predict(expected, means))


def test_asks_no_array_for_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    # Traced arrays have none, so branching on values would keep the program from being compiled.
    def refuse(self: object) -> None:
        raise AssertionError("an array was asked for its value")

    strict = required("array_api_strict")
    x = strict.sin(strict.reshape(strict.arange(60, dtype=strict.float64), (20, 3)))
    labels = strict.arange(20) % 2
    for method in ("__bool__", "__int__", "__float__", "__index__"):
        monkeypatch.setattr(type(x), method, refuse)
    with pytest.raises(AssertionError, match="asked for its value"):
        bool(x[0, 0] > 0)  # the trap is set
    projected = project(x, pca(x, 2))
    assert kmeans(projected, 3, 2).labels.shape == (20,)
    centroids = nearest_centroid_fit(projected, labels, 2)
    assert nearest_centroid_predict(projected, centroids).shape == (20,)


# ---------------------------------------------------------------------------- PCA


@pytest.mark.parametrize("shape", [(30, 5), (5, 30), (6, 6), (4, 1)])
def test_pca_is_the_svd_of_the_centred_samples(
    xp: Any, rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    x = rng.normal(size=shape) + 3.0
    # Centred samples have one rank less than a wide matrix could: that last row is arbitrary.
    n = min(shape[0] - 1, shape[1])
    found = pca(xp.asarray(x), n)
    mean, components, explained = map(np.asarray, found)
    _, scale, v = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)

    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(explained, (scale**2 / (scale**2).sum())[:n], rtol=1e-10)
    np.testing.assert_allclose(np.abs((components * v[:n]).sum(axis=1)), 1.0, rtol=1e-10)
    loadings = components[np.arange(n), np.abs(components).argmax(axis=1)]
    assert (loadings > 0).all()

    projected = np.asarray(project(xp.asarray(x), found))
    np.testing.assert_allclose(projected, (x - mean) @ components.T, rtol=1e-12, atol=1e-12)
    variance = projected.T @ projected
    np.testing.assert_allclose(variance, np.diag(scale[:n] ** 2), rtol=1e-10, atol=1e-10)


def test_pca_signs_do_not_depend_on_the_data(xp: Any, rng: np.random.Generator) -> None:
    x = xp.asarray(rng.normal(size=(40, 6)))
    once, mirrored = pca(x, 6), pca(-x, 6)
    np.testing.assert_allclose(
        np.asarray(once.components), np.asarray(mirrored.components), rtol=1e-9, atol=1e-9
    )


# ---------------------------------------------------------------------------- k-means


def test_kmeans_labels_are_a_fixed_point(xp: Any, rng: np.random.Generator) -> None:
    x = rng.uniform(size=(150, 4))
    centroids, labels = map(np.asarray, kmeans(xp.asarray(x), 7, 100))
    assert centroids.shape == (7, 4)
    np.testing.assert_array_equal(labels, brute_force_distances(x, centroids).argmin(axis=1))
    means = np.stack([x[labels == j].mean(axis=0) for j in range(7)])
    np.testing.assert_allclose(centroids, means, rtol=1e-12)


def test_kmeans_finds_separate_groups(xp: Any, rng: np.random.Generator) -> None:
    truth = np.repeat(np.arange(4), 25)
    places = np.asarray([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    x = places[truth] + rng.uniform(-1, 1, size=(100, 2))
    labels = np.asarray(kmeans(xp.asarray(x), 4, 5).labels)
    assert len({(int(a), int(b)) for a, b in zip(truth, labels, strict=True)}) == 4
    assert set(labels.tolist()) == {0, 1, 2, 3}


def test_kmeans_only_improves(xp: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(120, 3))
    totals = []
    for iterations in range(6):
        centroids, labels = map(np.asarray, kmeans(xp.asarray(x), 6, iterations))
        totals.append(brute_force_distances(x, centroids)[np.arange(120), labels].sum())
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] < totals[0]


def test_kmeans_of_one_cluster_is_the_mean(xp: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(30, 3))
    centroids, labels = kmeans(xp.asarray(x), 1, 1)
    np.testing.assert_allclose(np.asarray(centroids), x.mean(axis=0, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(labels), np.zeros(30))


def test_kmeans_without_rounds_starts_from_samples(xp: Any) -> None:
    # The medoid first, then whichever sample spares the others most.
    x = xp.asarray([[0.0], [1.0], [2.0], [9.0], [10.0]])
    centroids, labels = kmeans(x, 2, 0)
    np.testing.assert_array_equal(np.asarray(centroids), [[2.0], [9.0]])
    np.testing.assert_array_equal(np.asarray(labels), [0, 0, 0, 1, 1])


def test_kmeans_gives_each_sample_its_own_cluster(xp: Any) -> None:
    x = xp.asarray([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    centroids, labels = kmeans(x, 3, 2)
    assert sorted(np.asarray(labels).tolist()) == [0, 1, 2]
    np.testing.assert_array_equal(np.asarray(xp.take(centroids, labels, axis=0)), np.asarray(x))


def test_kmeans_keeps_an_empty_cluster_where_it_is(xp: Any) -> None:
    centroids, labels = kmeans(xp.ones((4, 2)), 3, 2)
    np.testing.assert_array_equal(np.asarray(centroids), np.ones((3, 2)))
    np.testing.assert_array_equal(np.asarray(labels), np.zeros(4))


# ---------------------------------------------------------------------------- the classifier


def test_nearest_centroid(xp: Any) -> None:
    x = xp.asarray([[0.0, 0.0], [2.0, 0.0], [10.0, 10.0], [10.0, 12.0]])
    centroids = nearest_centroid_fit(x, xp.asarray([1, 1, 0, 0]), 2)
    np.testing.assert_array_equal(np.asarray(centroids), [[10.0, 11.0], [1.0, 0.0]])
    predicted = nearest_centroid_predict(xp.asarray([[9.0, 9.0], [3.0, -1.0]]), centroids)
    np.testing.assert_array_equal(np.asarray(predicted), [0, 1])


def test_one_hot(xp: Any) -> None:
    members = one_hot(xp.asarray([2, 0, 1]), 3, xp.float32)
    assert members.dtype == xp.float32
    np.testing.assert_array_equal(np.asarray(members), [[0, 0, 1], [1, 0, 0], [0, 1, 0]])


def test_squared_distances(xp: Any, rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(9, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(
        np.asarray(squared_distances(xp.asarray(a), xp.asarray(b))),
        brute_force_distances(a, b),
        rtol=1e-12,
    )


# ---------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("n_components", [-1, 0, 4])
def test_pca_refuses_components(xp: Any, n_components: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^pca: n_components is {n_components}; expected 1 to 3$"
    ):
        pca(xp.ones((5, 3)), n_components)


@pytest.mark.parametrize("k", [0, 6])
def test_kmeans_refuses_k(xp: Any, k: int) -> None:
    with pytest.raises(ValueError, match=rf"^kmeans: k is {k}; expected 1 to 5$"):
        kmeans(xp.ones((5, 3)), k)


def test_kmeans_refuses_iterations(xp: Any) -> None:
    with pytest.raises(ValueError, match=r"^kmeans: iterations is -1; expected 0 or more$"):
        kmeans(xp.ones((5, 3)), 2, -1)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (pca, (1,)),
        (kmeans, (1,)),
        (nearest_centroid_fit, (None, 1)),
        (nearest_centroid_predict, (None,)),
    ],
)
def test_refuses_what_is_no_real_matrix(xp: Any, function: Any, arguments: Any) -> None:
    name = function.__name__
    with pytest.raises(
        ValueError, match=rf"^{name}: x has shape \(3,\); expected \(samples, features\)$"
    ):
        function(xp.ones(3), *arguments)
    for dtype in (xp.int64, xp.complex128):
        with pytest.raises(
            TypeError, match=rf"^{name}: x has dtype .*; expected a real floating-point dtype$"
        ):
            function(xp.ones((3, 3), dtype=dtype), *arguments)
