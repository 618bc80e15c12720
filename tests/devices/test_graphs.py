"""Graphs: examples that belong to none, and results with names."""

from __future__ import annotations

import pytest

import corepy
import corepy.array_api as xp
from corepy.testing import fake_devices


def test_examples_are_on_one_device() -> None:
    with (
        fake_devices(),
        pytest.raises(
            corepy.DeviceMismatchError,
            match=r"^graph: examples\[0\] is on cpu and examples\[1\] on fake:device1; expected",
        ),
    ):
        corepy.graph(lambda x, y: x, xp.ones(2, device="cpu"), xp.ones(2, device="fake:device1"))


def test_named_results_keep_their_names() -> None:
    x = xp.asarray([[4.0, 0.0], [0.0, 9.0]], device="cpu")
    made = corepy.graph(xp.linalg.eigh, x)(x)
    assert made.eigenvalues.tolist() == [4.0, 9.0]
    assert made.eigenvectors.shape == (2, 2)
