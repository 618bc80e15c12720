"""More statements: what keywords change, and what `linalg` and `fft` have besides."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tests.statements.chapters import statement
from tests.statements.operands import Operands

_ACCUMULATING = {"sum": "sum", "prod": "prod", "cumulative_sum": "cumsum"}


@statement()
def totals_of_a_dtype(xp: ModuleType, draw: Operands) -> Any:
    """Of small integers, exact in every dtype but where products wrap around."""
    kind = draw.one_of("iuf")
    dtype, shape = draw.dtype(kind), draw.shape(least=1)
    wider = {"i": ("int64", "int32", "float64"), "u": ("uint64", "float64"), "f": ("float64",)}
    wanted = draw.one_of((dtype, *wider[kind]))
    name = draw.one_of([*_ACCUMULATING])
    if name == "prod" and "float" in wanted:
        name = "sum"
    x = draw.array(dtype, shape, "small")
    function = getattr(xp, name if xp is not np else _ACCUMULATING[name])
    if name == "cumulative_sum":
        return function(x, axis=draw.axis(shape), dtype=getattr(xp, wanted))
    words = {"axis": draw.axes(shape), "keepdims": draw.chance(0.4)}
    return function(x, dtype=getattr(xp, wanted), **words)


@statement()
def bounds_that_are_arrays(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iuf"), draw.shape()
    x = draw.array(dtype, shape)
    first, second = (draw.values(dtype, draw.stretching(shape), "ordinary") for _ in range(2))
    low = draw.given(np.minimum(first, second))
    high = draw.given(np.maximum(first, second)) if draw.chance(0.7) else None
    return xp.clip(x, low, high) + 0


@statement()
def shifts(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iu"), draw.shape()
    most = np.iinfo(dtype).bits - 1
    x = draw.array(dtype, draw.stretching(shape))
    places = draw.given((draw.values(dtype, shape, "positive") % most).astype(dtype))
    name = draw.one_of(("bitwise_left_shift", "bitwise_right_shift"))
    return getattr(xp, name)(x, places if draw.chance(0.7) else draw.integer(0, most))


@statement()
def differences(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iufc"), draw.shape(least=1)
    x, axis = draw.array(dtype, shape, "small"), draw.axis(shape)
    words = {}
    for name in ("prepend", "append"):
        if draw.chance(0.3):
            beside = list(shape)
            beside[axis] = draw.integer(1, 3)
            words[name] = draw.array(dtype, tuple(beside), "small")
    # NumPy leaves out what would stand beside the elements of no differences.
    return xp.diff(x, n=draw.integer(1 if words else 0, 3), axis=axis, **words)


@statement()
def places_in_what_is_not_sorted(xp: ModuleType, draw: Operands) -> Any:
    dtype = draw.dtype("iuf")
    values = draw.values(dtype, draw.shape(1, 1), "ordinary")
    x, wanted = draw.given(values), draw.array(dtype, draw.shape(), "small")
    order = draw.given(np.argsort(values, stable=True))
    return xp.searchsorted(x, wanted, side=draw.one_of(("left", "right")), sorter=order)


@statement()
def what_is_not_among_others(xp: ModuleType, draw: Operands) -> Any:
    dtype = draw.dtype("iuf")
    x, among = draw.array(dtype, draw.shape(), "small"), draw.array(dtype, draw.shape(), "small")
    return xp.isin(x, among, invert=draw.chance(0.5))


@statement(ulps=8, cancels=True)
def numbers_evenly_apart(xp: ModuleType, draw: Operands) -> Any:
    dtype, count = draw.dtype("f"), draw.one_of((0, 1, 2, 3, 10, 1000, 40_000))
    start, stop = draw.number(dtype), draw.number(dtype)
    words = {"endpoint": draw.chance(0.5), "dtype": getattr(xp, dtype)}
    return xp.linspace(start, stop, count, **words)


@statement()
def contractions(xp: ModuleType, draw: Operands) -> Any:
    dtype = draw.dtype("iufc")
    n, k, m, j = (draw.integer(1, 12) for _ in range(4))
    x, y = draw.array(dtype, (n, k, m), "small"), draw.array(dtype, (m, j, k), "small")
    axes = draw.one_of((((1, 2), (2, 0)), ((2, 1), (0, 2)), ((-1,), (0,)), ((1,), (2,)), 0))
    return xp.tensordot(x, y, axes=axes) + 0


@statement()
def parts_of_matrices(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=2, largest=5000)
    x, offset = draw.array(draw.dtype("iufc"), shape, "small"), draw.integer(-4, 4)
    if draw.chance(0.4):
        return xp.linalg.diagonal(x, offset=offset)
    if draw.chance(0.5):
        return xp.linalg.trace(x, offset=offset)
    return xp.matrix_transpose(x)


@statement()
def crosses(xp: ModuleType, draw: Operands) -> Any:
    dtype, shape = draw.dtype("iufc"), list(draw.shape(least=1, largest=5000))
    axis = draw.integer(-len(shape), -1)
    shape[axis] = 3
    x, y = (draw.array(dtype, tuple(shape), "small") for _ in range(2))
    return xp.linalg.cross(x, y, axis=axis) + 0


@statement()
def grids(xp: ModuleType, draw: Operands) -> Any:
    dtype = draw.dtype("iuf")
    parts = [draw.array(dtype, draw.shape(1, 1, 64)) for _ in range(draw.integer(1, 3))]
    if draw.chance(0.5):
        return tuple(xp.meshgrid(*parts, indexing=draw.one_of(("xy", "ij"))))
    shape = draw.shape()
    stretched = [draw.array("float64", draw.stretching(shape)) for _ in range(draw.integer(1, 3))]
    return tuple(xp.broadcast_arrays(*stretched))


@statement()
def single_axes(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=1)
    x, axis = draw.array(draw.dtype("biufc"), shape), draw.axis(shape)
    wide = xp.expand_dims(x, axis=axis)
    if draw.chance(0.5):
        return xp.squeeze(wide, axis=axis)
    return xp.squeeze(wide[..., None], axis=-1)


@statement(ulps=40_000, cancels=True)
def solutions(xp: ModuleType, draw: Operands) -> Any:
    """Of matrices that are far from singular."""
    dtype, n = draw.dtype("fc"), draw.one_of((1, 2, 3, 8, 33, 64, 130))
    stack = (draw.integer(1, 3),) if draw.chance(0.3) and n < 64 else ()
    values = draw.values(dtype, (*stack, n, n), "ordinary") + 20 * n * np.eye(n, dtype=dtype)
    values = values.swapaxes(-1, -2) if draw.chance(0.3) else values
    x = draw.given(values / np.asarray(20 * n, values.real.dtype))
    name = draw.one_of(("inv", "det", "slogdet", "solve", "svdvals", "pinv"))
    if name != "solve":
        found = getattr(xp.linalg, name)(x)
        return tuple(found) if name == "slogdet" else found
    return xp.linalg.solve(x, draw.array(dtype, (*stack, n, draw.integer(1, 4)), "ordinary"))


@statement(ulps=4096, cancels=True)
def factors_of_symmetric_matrices(xp: ModuleType, draw: Operands) -> Any:
    dtype, n = draw.dtype("fc"), draw.one_of((1, 2, 3, 8, 33, 64, 130))
    values = draw.values(dtype, (n, n), "ordinary")
    values = values + values.conj().T + 40 * n * np.eye(n, dtype=dtype)
    x = draw.given(values.astype(dtype))
    if draw.chance(0.5):
        return xp.linalg.eigvalsh(x)
    return xp.linalg.cholesky(x, upper=draw.chance(0.5))


@statement(ulps=512)
def norms_of_matrices(xp: ModuleType, draw: Operands) -> Any:
    shape = draw.shape(least=2, most=3, largest=2000)
    x = draw.array(draw.dtype("fc"), shape, "ordinary")
    if not x.size:
        return None
    order = draw.one_of(("fro", "nuc", 1, -1, 2, float("inf"), -float("inf")))
    return xp.linalg.matrix_norm(x, ord=order, keepdims=draw.chance(0.3))


@statement(ulps=128, cancels=True)
def transforms_along_axes(xp: ModuleType, draw: Operands) -> Any:
    name = draw.one_of(("fftn", "ifftn", "rfftn", "irfftn"))
    shape = draw.shape(2, 3, 5000)
    if min(shape) < 2:
        return None
    x = draw.array(draw.dtype("f" if name == "rfftn" else "c"), shape, "ordinary")
    axes = (0, 1) if draw.chance(0.5) else (-1, 0)
    sizes = tuple(draw.integer(2, 12) for _ in axes) if draw.chance(0.5) else None
    norm = draw.one_of(("backward", "ortho", "forward"))
    return getattr(xp.fft, name)(x, s=sizes, axes=axes, norm=norm)


@statement()
def frequencies(xp: ModuleType, draw: Operands) -> Any:
    if draw.chance(0.5):
        shape = draw.shape(least=1)
        x = draw.array(draw.dtype("fc"), shape)
        return getattr(xp.fft, draw.one_of(("fftshift", "ifftshift")))(x, axes=draw.axes(shape))
    name, spacing = draw.one_of(("fftfreq", "rfftfreq")), draw.one_of((1.0, 0.1, 3.0))
    return getattr(xp.fft, name)(draw.integer(1, 50), d=spacing)
