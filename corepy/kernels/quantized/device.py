"""Integers with scales by the device kernels, where the arrays live in a device's memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from corepy.kernels._arguments import Given, unusable
from corepy.kernels._device import Program, Result, launch, memory
from corepy.kernels._device._runtime import ITEM_SIZE, VECTOR_BYTES
from corepy.kernels._device._sharing import groups_of, groups_to_move

_ITEMS: Final = 128
#: Work-items along a row: a warp, or what corresponds to it.
_LANES: Final = 32
#: Rows of such work-items, rows of a matrix that each of them has, and integers it reads at once.
_TEAMS: Final = _ITEMS // _LANES
_EACH: Final = 4
_RUN: Final = 16
_program: Final = Program(__file__, constants={"EACH": _EACH, "RUN": _RUN})
#: At most how many vectors go through the matrix together.
_TOGETHER: Final = 8
#: Elements of a row beyond which products are summed by parts.
_LONG: Final = 1 << 14
#: Of vectors, rows and their elements there have to be fewer: they are counted in 32 bits.
_MANY: Final = 1 << 30


def quantize(x: Given, bits: int, group_size: int) -> tuple[Any, Any]:
    """Return integers and their scales, for an `x` with elements along its last axis."""
    *axes, size = x.shape
    packed = bits == 4
    values = Result(
        x, None, shape=(*axes, size // 2 if packed else size), dtype="uint8" if packed else "int8"
    )
    scales = Result(x, None, shape=(*axes, size // group_size), dtype=x.wide)
    groups = x.size // group_size
    if groups:
        launch(
            x,
            _program,
            "quantize",
            grid=(groups_of(x, -(-groups // _TEAMS)),),
            block=(_ITEMS,),
            arguments=[
                *(memory(x), values.memory, scales.memory),
                *(np.int64(groups), np.int64(group_size)),
            ],
            X=x.dtype,
            LANES=_LANES,
            **_of_values(values.memory.dtype),
        )
    return values.array(), scales.array()


def dequantize(scales: Given, values: Given) -> Any:
    """Return integers times their scales."""
    *axes, groups = scales.shape
    packed = values.dtype == "uint8"
    size = values.shape[-1] * (1 + packed)
    result = Result(scales, None, shape=(*axes, size))
    total = result.memory.size
    if total:
        launch(
            scales,
            _program,
            "dequantize",
            grid=(groups_to_move(scales, total, _ITEMS),),
            block=(_ITEMS,),
            arguments=[
                *(memory(values), memory(scales), result.memory),
                *(np.int64(total), np.int64(size // groups)),
            ],
            **_of_values(values.dtype),
        )
    return result.array()


def supports(x: Given, values: Given) -> bool:
    """Say whether the kernel of `matmul` takes some vectors and a matrix."""
    rows, size = values.shape[0], x.shape[-1]
    if max(rows, size, x.size // size) < _MANY:
        return True
    if x.library != "pyopencl":
        return False  # it has functions of its own
    found = f"has shape {x.shape} beside {rows} rows of values"
    expected = f"fewer than 2**{_MANY.bit_length() - 1} vectors, rows and elements of each"
    raise unusable(x, found, f"{expected}, for the kernel in OpenCL")


def matmul(
    x: Given, values: Given, scales: Given, out: Given | None, shape: tuple[int, ...]
) -> Any:
    """Return the products of vectors with the rows of a matrix, in `shape (..., rows)`."""
    result = Result(x, out, read_again=(x, values, scales), shape=shape)
    rows, size = values.shape[0], x.shape[-1]
    vectors = x.size // size
    if not vectors or not rows:
        return result.array()
    step, vector = size // scales.shape[1], VECTOR_BYTES // ITEM_SIZE[x.dtype]
    arrays = [memory(g) for g in (x, values, scales)]
    packed = step % _RUN == 0 and all(array.is_aligned() for array in arrays)
    together = min(_TOGETHER, 1 << (vectors - 1).bit_length())
    launch(
        x,
        _program,
        "matmul",
        grid=(-(-rows // (_TEAMS * _EACH)) * -(-vectors // together),),
        block=(_ITEMS,),
        arguments=[
            *(*arrays, result.memory),
            *(np.int32(n) for n in (vectors, rows, size, step, packed)),
        ],
        X=x.dtype,
        LANES=_LANES,
        VECTOR=vector,
        TOGETHER=together,
        LONG=int(size > _LONG),
        **_of_values(values.dtype),
    )
    return result.array()


def _of_values(dtype: str) -> dict[str, Any]:
    return {"VALUES": dtype, "BITS": 8 if dtype == "int8" else 4}
