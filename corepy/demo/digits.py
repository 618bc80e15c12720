"""Handwritten digits: PCA, k-means and a nearest-centroid classifier, in the array API alone.

Nothing here names a library. Each function asks its argument for the namespace it belongs to, so
the same lines run on whatever executes the arrays, and trace or stay lazy where it does.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Array: TypeAlias = Any  #: an array of any library that follows the standard


class PCA(NamedTuple):
    """Principal components: mean (d,), components (p, d), explained share of variance (p,)."""

    mean: Array
    components: Array
    explained: Array


class Clusters(NamedTuple):
    """Clusters of n samples: centroids (k, d), and for each sample its nearest (n,)."""

    centroids: Array
    labels: Array


def pca(x: Array, n_components: int) -> PCA:
    """Find the directions in which the samples `x` (n, d) vary most."""
    xp = _namespace("pca", x)
    _check("pca", "n_components", n_components, 1, min(x.shape))
    mean = xp.mean(x, axis=0)
    _, scale, v = xp.linalg.svd(x - mean, full_matrices=False)
    # A singular vector is known up to its sign: make its largest loading a positive one.
    negative = xp.max(v, axis=1, keepdims=True) < -xp.min(v, axis=1, keepdims=True)
    explained = scale**2 / xp.sum(scale**2)
    return PCA(mean, xp.where(negative, -v, v)[:n_components, :], explained[:n_components])


def project(x: Array, found: PCA) -> Array:
    """Express samples (n, d) in principal components (n, p)."""
    return (x - found.mean) @ found.components.T


def kmeans(x: Array, k: int, iterations: int = 20, start: Array | None = None) -> Clusters:
    """Group the samples `x` (n, d) around `k` centroids by Lloyd's algorithm.

    The first centroids are `start` (k, d), or else samples that are far apart; to find those
    takes an (n, n) matrix.
    """
    xp = _namespace("kmeans", x)
    _check("kmeans", "k", k, 1, x.shape[0])
    _check("kmeans", "iterations", iterations, 0)
    centroids = _spread(x, k) if start is None else start
    # A fixed number of rounds: stopping early would ask a lazy array for its values.
    for _ in range(iterations):
        members = one_hot(nearest_centroid_predict(x, centroids), k, x.dtype)
        size = xp.sum(members, axis=0)[:, None]
        means = members.T @ x / xp.maximum(size, 1.0)
        centroids = xp.where(size > 0, means, centroids)  # an empty cluster stays where it is
    return Clusters(centroids, nearest_centroid_predict(x, centroids))


def _spread(x: Array, k: int) -> Array:
    """Choose `k` samples to start from: each leaves the others the least distance to go."""
    xp = x.__array_namespace__()
    distances = squared_distances(x, x)
    remaining = xp.max(distances, axis=0, keepdims=True)
    chosen = []
    for _ in range(k):
        best = xp.argmin(xp.sum(xp.minimum(distances, remaining), axis=1), keepdims=True)
        remaining = xp.minimum(remaining, xp.take(distances, best, axis=0))
        chosen.append(best)
    return xp.take(x, xp.concat(chosen), axis=0)


def nearest_centroid_fit(x: Array, labels: Array, n_classes: int) -> Array:
    """Average the samples (n, d) of each class 0 ... `n_classes` - 1, which all must occur."""
    xp = _namespace("nearest_centroid_fit", x)
    members = one_hot(labels, n_classes, x.dtype)
    return members.T @ x / xp.sum(members, axis=0)[:, None]


def nearest_centroid_predict(x: Array, centroids: Array) -> Array:
    """Return for each sample (n, d) the number of the nearest of the centroids (k, d)."""
    xp = _namespace("nearest_centroid_predict", x)
    return xp.argmin(squared_distances(x, centroids), axis=1)


def squared_distances(a: Array, b: Array) -> Array:
    """Distances (n, k) between rows; |a|^2 - 2ab + |b|^2 needs a matmul and no (n, k, d) array."""
    xp = a.__array_namespace__()
    return xp.vecdot(a, a)[:, None] - 2 * (a @ b.T) + xp.vecdot(b, b)


def one_hot(labels: Array, k: int, dtype: Any) -> Array:
    """Return the membership (n, k): 1 where a sample has the label, 0 elsewhere."""
    xp = labels.__array_namespace__()
    classes = xp.arange(k, dtype=labels.dtype, device=labels.device)
    return xp.astype(labels[:, None] == classes, dtype)


def _namespace(function: str, x: Array) -> Any:
    """Return the namespace of `x`, which must be a matrix of real floating-point numbers."""
    xp = x.__array_namespace__()
    if not xp.isdtype(x.dtype, "real floating"):
        raise TypeError(f"{function}: x has dtype {x.dtype}; expected a real floating-point dtype")
    if x.ndim != 2:
        raise ValueError(f"{function}: x has shape {x.shape}; expected (samples, features)")
    return xp


def _check(function: str, argument: str, value: int, least: int, most: int | None = None) -> None:
    if value < least or (most is not None and value > most):
        wanted = f"{least} or more" if most is None else f"{least} to {most}"
        raise ValueError(f"{function}: {argument} is {value}; expected {wanted}")
