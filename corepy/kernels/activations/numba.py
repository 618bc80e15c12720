"""Activations in compiled loops, a block that fits the first-level cache at a time."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from corepy._loops._simd import floored, number
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._series import GELU_CUBE, GELU_FLOOR, GELU_SLOPE
from corepy.kernels._simd import apart, fetch, gelu, put, scratch, sigmoid, target

Array = npt.NDArray[Any]

_BLOCK = 1024
SILU, GELU, GELU_TANH = range(3)
KINDS = {"silu": SILU, "gelu": GELU, "gelu_tanh": GELU_TANH}


@kernel
def _silu(row: Array, values: Array) -> None:
    for j in range(row.size):
        x = floored(row[j])
        values[j] = x * sigmoid(x)


@kernel
def _gelu(row: Array, values: Array) -> None:
    for j in range(row.size):
        values[j] = gelu(row[j])


@kernel
def _gelu_tanh(row: Array, values: Array) -> None:
    for j in range(row.size):
        x = row[j]
        floor, one = number(GELU_FLOOR, x), number(1.0, x)
        x = floor if x < floor else x
        # (1 + tanh(v)) / 2 is sigmoid(2 * v), which keeps its digits where tanh is near -1.
        cube = one + number(GELU_CUBE, x) * x * x
        values[j] = x * sigmoid(floored(number(GELU_SLOPE, x) * x * cube))


@kernel
def _swiglu(row: Array, gates: Array, values: Array) -> None:
    for j in range(row.size):
        g = floored(gates[j])
        values[j] = g * sigmoid(g) * row[j]


@kernel
def _activation_blocks(x: Array, kind: int, brain: bool, out: Array, start: int, stop: int) -> None:
    held, values = scratch(x, _BLOCK), scratch(x, _BLOCK)
    there = apart(out, x)
    for block in range(start, stop):
        first, last = block * _BLOCK, min((block + 1) * _BLOCK, x.size)
        row = fetch(x[first:last], held[: last - first], brain)
        into = target(out[first:last], values, there)
        if kind == SILU:
            _silu(row, into)
        elif kind == GELU:
            _gelu(row, into)
        else:
            _gelu_tanh(row, into)
        put(into, out[first:last], brain)


@kernel
def _swiglu_blocks(x: Array, gate: Array, brain: bool, out: Array, start: int, stop: int) -> None:
    held, other, values = scratch(x, _BLOCK), scratch(x, _BLOCK), scratch(x, _BLOCK)
    there = apart(out, x) and apart(out, gate)
    for block in range(start, stop):
        first, last = block * _BLOCK, min((block + 1) * _BLOCK, x.size)
        row = fetch(x[first:last], held[: last - first], brain)
        gates = fetch(gate[first:last], other[: last - first], brain)
        into = target(out[first:last], values, there)
        _swiglu(row, gates, into)
        put(into, out[first:last], brain)


def activation(x: Array, kind: int, brain: bool, out: Array) -> None:
    """Put `SILU`, `GELU` or `GELU_TANH` of each element of ``x (size,)`` into `out`."""
    blocks = -(-x.size // _BLOCK)
    arguments = (x, kind, brain, out)
    launch(_activation_blocks, arguments, blocks, 4 * x.size)


def swiglu(x: Array, gate: Array, brain: bool, out: Array) -> None:
    """Put ``x * silu(gate)`` of vectors into `out`."""
    blocks = -(-x.size // _BLOCK)
    launch(_swiglu_blocks, (x, gate, brain, out), blocks, 4 * x.size)
