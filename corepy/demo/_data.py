"""The handwritten digits of scikit-learn, cut into a task for the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from corepy._extensions import is_there, why_broken

LARGEST: Final = 1797  #: images that scikit-learn ships
SMALLEST: Final = 100  #: images below which a digit may be missing from those to learn from


@dataclass(frozen=True, eq=False)
class Task:
    """Images to learn from, images to recognise, and how hard to try.

    Attributes
    ----------
    train, test : ndarray of float64, shapes (n, d) and (m, d)
        Pixels from 0 to 1.
    train_labels, test_labels : ndarray of int64, shapes (n,) and (m,)
        The digits that were written.
    n_components, iterations : int
        Principal components kept, and rounds of k-means.
    """

    train: npt.NDArray[np.float64]
    test: npt.NDArray[np.float64]
    train_labels: npt.NDArray[np.int64]
    test_labels: npt.NDArray[np.int64]
    n_components: int
    iterations: int

    def __str__(self) -> str:
        n_images = len(self.train) + len(self.test)
        return f"{n_images} x {self.train.shape[1]}"


def why_not() -> str | None:
    """Say why the digits cannot be loaded, None if they can."""
    if not is_there("sklearn"):
        return "scikit-learn is missing, which has the digits: pip install scikit-learn"
    why = why_broken("sklearn.datasets")
    return f"scikit-learn, which has the digits, is not usable: {why}" if why else None


def load(size: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the first `size` images (size, 8, 8), pixels from 0 to 1, and their digits (size,)."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images: npt.NDArray[np.float64] = np.asarray(data.images[:size], dtype=np.float64) / 16
    return images, np.asarray(data.target[:size], dtype=np.int64)


def average_blocks(images: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Shrink images (n, 8, 8) to (n, 4, 4), each pixel the mean of four."""
    means: npt.NDArray[np.float64] = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4))
    return means


def make_task(
    images: npt.NDArray[np.float64],
    digits: npt.NDArray[np.int64],
    n_components: int,
    iterations: int,
) -> Task:
    """Make a task of images (n, rows, columns): every fourth is to recognise, the rest to learn."""
    pixels = images.reshape(len(images), -1)
    unseen = np.arange(len(images)) % 4 == 3
    return Task(
        train=pixels[~unseen],
        test=pixels[unseen],
        train_labels=digits[~unseen],
        test_labels=digits[unseen],
        n_components=n_components,
        iterations=iterations,
    )
