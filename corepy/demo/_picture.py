"""Draw the clusters: the samples in the plane of the first two components, and the centroids."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._extensions import is_there, why_broken
from corepy.demo.digits import PCA, Clusters

#: Ten colours that stay apart on white, in print and for most colour-blind readers; what a
#: colour means is written beside every centroid as well.
COLOURS: Final = (
    "#1f6fb4",
    "#e08214",
    "#2a9d5c",
    "#c8323c",
    "#7b58b5",
    "#8c5a3c",
    "#d466a8",
    "#5a6570",
    "#9a9a12",
    "#13a3b5",
)
INK: Final = "#22282e"
FAINT: Final = "#8a939c"


def why_not() -> str | None:
    """Say why nothing can be drawn, None if something can."""
    if not is_there("matplotlib"):
        return "matplotlib is missing, pip install matplotlib"
    why = why_broken("matplotlib.figure")
    return f"matplotlib is not usable: {why}" if why else None


def draw(
    path: Path,
    found: PCA,
    projected: npt.NDArray[Any],
    clusters: Clusters,
    digits: npt.NDArray[Any],
    made_by: str,
) -> None:
    """Save a picture of the clusters.

    Parameters
    ----------
    path : Path
        The PNG file to write.
    found : PCA
        Mean (d,) and components (p, d) with p >= 2, to turn centroids into images.
    projected : ndarray, shape (n, p)
        The samples in principal components.
    clusters : Clusters
        Centroids (k, p), and the cluster (n,) of each sample; k is 10 at most.
    digits : ndarray, shape (n,)
        The digits that were written.
    made_by : str
        The backend that computed it, for the title.
    """
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(13, 7.2), dpi=150, facecolor="white")
    n_clusters = len(clusters.centroids)
    left, right = figure.subfigures(1, 2, width_ratios=(1.62, 1))
    plane = left.add_axes((0.085, 0.085, 0.9, 0.775))
    _scatter(plane, found, projected, clusters, digits)

    columns = 2
    cells = right.subplots(math.ceil(n_clusters / columns), columns, squeeze=False)
    right.subplots_adjust(left=0.03, right=0.97, bottom=0.085, top=0.86, hspace=0.16, wspace=0.1)
    images = found.mean + clusters.centroids @ found.components
    for cell in cells.ravel():
        cell.set_axis_off()
    members = [digits[clusters.labels == j] for j in range(n_clusters)]
    in_order = sorted(range(n_clusters), key=lambda j: _commonest(members[j]))
    for cell, j in zip(cells.ravel(), in_order, strict=False):
        _centroid(cell, images[j], members[j], COLOURS[j])

    title = f"{len(digits)} handwritten digits in {n_clusters} clusters"
    figure.text(0.052, 0.945, title, fontsize=17, fontweight="bold", color=INK)
    how = "Each sample is drawn as the digit that was written, coloured by its k-means cluster"
    figure.text(0.052, 0.905, how, fontsize=10.5, color=INK)
    right.text(0.03, 0.905, "The centroids, as images", fontsize=10.5, color=INK)
    right.text(0.97, 0.03, f"computed by {made_by}", fontsize=9, color=FAINT, ha="right")
    figure.savefig(path)


def _scatter(
    axes: Any,
    found: PCA,
    projected: npt.NDArray[Any],
    clusters: Clusters,
    digits: npt.NDArray[Any],
) -> None:
    """Draw every sample as its digit in its cluster's colour, and the centroids above them."""
    for j, colour in enumerate(COLOURS[: len(clusters.centroids)]):
        for digit in np.unique(digits):
            chosen = (clusters.labels == j) & (digits == digit)
            x, y = projected[chosen, 0], projected[chosen, 1]
            axes.scatter(x, y, s=38, marker=f"${digit}$", color=colour, lw=0, alpha=0.75)
    for j, (x, y) in enumerate(clusters.centroids[:, :2]):
        commonest, _ = _commonest(digits[clusters.labels == j])
        axes.scatter(x, y, s=330, color="white", edgecolor=COLOURS[j], lw=2.4, zorder=3)
        place = {"ha": "center", "va": "center_baseline", "zorder": 4}
        axes.text(x, y, commonest, color=COLOURS[j], fontsize=12, fontweight="bold", **place)
    first, second = found.explained[:2]
    axes.set_xlabel(f"First principal component ({first:.0%} of the variance)", color=INK)
    axes.set_ylabel(f"Second principal component ({second:.0%} of the variance)", color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.tick_params(colors=FAINT, length=3)
    axes.grid(color="#e9ecef", lw=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)


def _centroid(axes: Any, image: npt.NDArray[Any], members: npt.NDArray[Any], colour: str) -> None:
    """Draw a centroid as the image it stands for, and say which digits its cluster has."""
    side = math.isqrt(len(image))
    axes.set_axis_on()
    axes.set_anchor("W")
    axes.imshow(image.reshape(side, side), cmap="gray_r", vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(colour)
        spine.set_linewidth(2.4)
    commonest, share = _commonest(members)
    name = f"mostly {commonest}" if len(members) else "empty"
    count = f"{len(members)} samples\n{share:.0%} are {commonest}" if len(members) else ""
    beside = {"transform": axes.transAxes, "fontsize": 10}
    axes.text(1.12, 0.68, name, color=colour, fontweight="bold", **beside)
    axes.text(1.12, 0.58, count, color=INK, va="top", linespacing=1.5, **beside)


def _commonest(members: npt.NDArray[Any]) -> tuple[str, float]:
    """Return the digit that most members are, and the share of them that are."""
    if not len(members):
        return "", 0.0
    values, counts = np.unique(members, return_counts=True)
    return str(values[counts.argmax()]), float(counts.max() / len(members))
