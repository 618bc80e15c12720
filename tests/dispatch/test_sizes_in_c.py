"""Sizes that stand in C as well as in Python, where compilers have to know them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import corepy
from corepy._extensions import extension
from corepy.array_api._arguments import ADDRESSABLE
from corepy.backends import _extents, _numpy_creation
from corepy.kernels._device import _sharing
from tests.conftest import required

ROOT = Path(corepy.__file__).parent


def sizes(path: str) -> dict[str, int]:
    """Return what a file gives names to: in enumerations, and by macros."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found = re.findall(r"(?:^ +|[{,] )(\w+) = ([\d <]+)(?:$| *[ ,#])", text, re.MULTILINE)
    found += re.findall(r"^#define (\w+) (\d+)$", text, re.MULTILINE)
    return {name: shifted(*map(int, value.split("<<"))) for name, value in found}


def shifted(value: int, by: int = 0) -> int:
    return value << by


def test_of_narrow_matrices() -> None:
    found = sizes("dispatch/_hot_numpy.pxi")
    assert (found["NARROWEST"], found["LONGER"]) == (_extents.NARROWEST, _extents.LONGER)


def test_of_what_no_cache_holds() -> None:
    required("numba")
    from corepy._loops import _streaming

    assert sizes("dispatch/_hot_elementwise.pxi")["STREAMED"] == _streaming.HELD


def test_of_exact_integers() -> None:
    found = sizes("dispatch/_hot_creation.pxi")["_EXACT_IN_FLOAT"]
    assert found == _numpy_creation.EXACT[np.dtype(np.float32)]


def test_of_what_memory_can_hold() -> None:
    text = (ROOT / "dispatch/_hot_joins.pxi").read_text(encoding="utf-8")
    assert f"ADDRESSABLE = <npy_intp>1 << {ADDRESSABLE.bit_length() - 1}\n" in text


def test_of_chunks() -> None:
    # What comes of a chunk of the one has to fit the memory that the other has for it.
    found = sizes("backends/_row_loops.pyx")["COREPY_CHUNK"]
    assert found == sizes("dispatch/_hot_numpy.pxi")["CHUNK"]
    module = extension("corepy.backends._row_loops")[0]
    assert module is None or found == module.CHUNK


def test_of_tiles() -> None:
    # Work-items of a group have one part each of a tile.
    found = sizes("kernels/_device/tiles.h")
    assert found["TILE"] == _sharing._TILE
    assert (found["TILE"] // found["FEW"]) ** 2 == _sharing._ITEMS
