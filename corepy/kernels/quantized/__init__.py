"""Integers of 8 and 4 bits with scales by group, and products with matrices of them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from corepy._errors import bad_argument, wrong_dtype
from corepy.kernels._arguments import (
    Given,
    beside,
    choice,
    destination,
    floating,
    given,
    misshapen,
    whole,
)
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference
from corepy.kernels._memory import compiled, delivered, in_rows, placed, supports, view, widened
from corepy.kernels._replay import replayed
from corepy.kernels.quantized import reference

__all__ = ["dequantize", "matmul_int4", "matmul_int8", "quantize"]

#: Vectors from which a matrix is worth widening as a whole, for the library's own product.
_MANY = 16


@replayed
def quantize(x: Any, *, bits: Literal[4, 8] = 8, group_size: int | None = None) -> tuple[Any, Any]:
    """Round to integers of few bits, with a scale for each group along the last axis.

    Parameters
    ----------
    x : array (..., size)
        Of float16, bfloat16, float32 or float64.
    bits : {8, 4}
        8: integers from -127 to 127. 4: from -7 to 7.
    group_size : int or None
        Elements that share a scale; divides `size`, and with 4 bits it is even. None: `size`.

    Returns
    -------
    values : array (..., size) of int8, or with 4 bits (..., size // 2) of uint8
        A byte of the latter has 8 more than element 2i in its lower half, and 8 more than element
        ``2 * i + 1`` in the upper.
    scales : array (..., size // group_size)
        The greatest magnitude of each group by the greatest integer; float32, or float64 where `x`
        has that. Both in the library and on the device of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `x` has no elements along its last axis, or `group_size` does not divide their number.

    Notes
    -----
    Halves are rounded to even. The error is at most half a scale, unless that is subnormal, of few
    digits. A NaN or infinity makes the scale of its group NaN or infinite and the integers 0, so
    that all of it comes back as NaN.

    References
    ----------
    Dettmers et al., LLM.int8(), 2022, section 2.1 (absmax), https://arxiv.org/abs/2208.07339; Shen
    et al., Q-BERT, 2019 (groups), https://arxiv.org/abs/1909.05840

    Examples
    --------
    >>> import numpy as np
    >>> values, scales = quantize(np.asarray([1.0, -127.0, 2.0, 254.0]), group_size=2)
    >>> values.tolist(), scales.tolist()
    ([1, -127, 1, 127], [1.0, 2.0])
    """
    name = "quantize"
    g = floating(name, "x", x)
    bits = choice(name, "bits", bits, (8, 4))
    if not g.shape or g.shape[-1] == 0:
        raise misshapen(g, "(..., size), not empty")
    size = g.shape[-1]
    group = size if group_size is None else whole(name, "group_size", group_size, 1)
    if size % group:
        expected = f"a divisor of {size}, the last axis of x"
        raise bad_argument(name, "group_size", group_size, expected)
    if bits == 4 and group % 2:
        raise bad_argument(name, "group_size", group, "an even number, with 4 bits")
    if on_device(g):
        from corepy.kernels.quantized import device

        return device.quantize(g, bits, group)
    found: tuple[Any, Any] = by_reference(
        reference.quantize, g, (), (None, None), bits=bits, group_size=group
    )
    return found


@replayed
def dequantize(values: Any, scales: Any) -> Any:
    """Return integers times their scales, as `quantize` made them.

    Parameters
    ----------
    values : array (..., size) of int8, or (..., size // 2) of uint8
    scales : array (..., groups)
        Of float32 or float64; `groups` divides `size`.

    Returns
    -------
    array (..., size)
        In the library, dtype and device of `scales`.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError
        If an argument is of another type, library, dtype, shape or device.

    References
    ----------
    Dettmers et al., LLM.int8(), 2022, section 2.1 (absmax), https://arxiv.org/abs/2208.07339; Shen
    et al., Q-BERT, 2019 (groups), https://arxiv.org/abs/1909.05840

    Examples
    --------
    >>> import numpy as np
    >>> dequantize(*quantize(np.asarray([7.0, -3.0]), bits=4)).tolist()
    [7.0, -3.0]
    """
    name = "dequantize"
    s = given(name, "scales", scales)
    if s.dtype not in ("float32", "float64"):
        raise wrong_dtype(name, "scales", s.dtype, s.device, "float32 or float64")
    v = beside("values", values, s, ("int8", "uint8"))
    _fitting(v, s)
    if on_device(s, v):
        from corepy.kernels.quantized import device

        return device.dequantize(s, v)
    return by_reference(reference.dequantize, s, (v,))


@replayed
def matmul_int8(x: Any, values: Any, scales: Any, *, out: Any = None) -> Any:
    """Return ``x @ dequantize(values, scales).T`` without making that matrix for few vectors.

    Parameters
    ----------
    x : array (..., size)
        Of float16, bfloat16, float32 or float64.
    values : array of int8 (rows, size)
    scales : array (rows, groups)
        Of float32, or float64 beside `x` of that; `groups` divides `size`.
    out : array (..., rows) or None
        Where to put the result. None: new memory.

    Returns
    -------
    array (..., rows)
        In the library, dtype and device of `x`.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError
        If an argument is of another type, library, dtype, shape or device, or `out` is read-only.

    Notes
    -----
    Integers times scales, products and sums are computed in float32, or float64 where `x` has
    that, and the result is rounded once. Of a few vectors, and on devices, a group's products with
    the integers are added up before they are scaled: where that sum exceeds the dtype's range, the
    result is infinite or NaN, however small the scale.

    References
    ----------
    Frantar et al., GPTQ, 2022, https://arxiv.org/abs/2210.17323

    Examples
    --------
    >>> import numpy as np
    >>> values, scales = np.asarray([[1, 2], [3, -4]], np.int8), np.asarray([[0.5], [1.0]])
    >>> matmul_int8(np.asarray([1.0, 1.0]), values, scales).tolist()
    [1.5, -1.0]
    """
    return _matmul("matmul_int8", "int8", x, values, scales, out)


@replayed
def matmul_int4(x: Any, values: Any, scales: Any, *, out: Any = None) -> Any:
    """Return ``x @ dequantize(values, scales).T`` without making that matrix for few vectors.

    Parameters
    ----------
    x : array (..., size)
        Of float16, bfloat16, float32 or float64.
    values : array of uint8 (rows, size // 2)
        Two integers a byte, as `quantize` makes them.
    scales : array (rows, groups)
        Of float32, or float64 beside `x` of that; ``size // groups`` is even.
    out : array (..., rows) or None
        Where to put the result. None: new memory.

    Returns
    -------
    array (..., rows)
        In the library, dtype and device of `x`.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError
        If an argument is of another type, library, dtype, shape or device, or `out` is read-only.

    Notes
    -----
    Computed as in `matmul_int8`.

    References
    ----------
    Frantar et al., GPTQ, 2022, https://arxiv.org/abs/2210.17323; Lin et al., AWQ, 2023,
    https://arxiv.org/abs/2306.00978

    Examples
    --------
    >>> import numpy as np
    >>> values, scales = quantize(np.asarray([[7.0, -2.0], [1.0, 0.0]]), bits=4)
    >>> matmul_int4(np.asarray([1.0, 10.0]), values, scales).tolist()
    [-13.0, 1.0]
    """
    return _matmul("matmul_int4", "uint8", x, values, scales, out)


def _fitting(values: Given, scales: Given) -> int:
    """Return how many elements rows of integers stand for, if scales fit."""
    packed = values.dtype == "uint8"
    size = values.shape[-1] * (1 + packed) if values.shape else 0
    groups = scales.shape[-1] if scales.shape else 0
    divides = size and groups and size % (2 * groups if packed else groups) == 0
    if divides and values.shape[:-1] == scales.shape[:-1]:
        return size
    fits = f"beside values of shape {values.shape}, groups a divisor of their last axis"
    raise misshapen(scales, f"(..., groups) {fits}")


def _matmul(name: str, integers: str, x: Any, values: Any, scales: Any, out: Any) -> Any:
    g = floating(name, "x", x)
    if not g.shape:
        raise misshapen(g, "(..., size)")
    v = beside("values", values, g, (integers,))
    s = beside("scales", scales, g, (g.wide,))
    if len(v.shape) != 2:
        raise misshapen(v, "two dimensions")
    size = _fitting(v, s)
    if g.shape[-1] != size:
        raise misshapen(g, f"(..., {size})", beside=v)
    shape = (*g.shape[:-1], v.shape[0])
    to = destination("out", out, g, shape)
    vectors = g.size // size
    if on_device(g, v, s) and (vectors < _MANY or g.library == "pyopencl"):
        from corepy.kernels.quantized import device

        if device.supports(g, v):
            return device.matmul(g, v, s, to, shape)
    few = 0 < vectors < _MANY and v.size > 0 and supports(v, g, s)
    # To copy bytes column by column takes longer than all of the formula, but for those of pairs.
    if not few or not (v.dtype == "uint8" or in_rows(v, apart=True)):
        return by_reference(reference.matmul, g, (v, s), (to,))

    from corepy.kernels.quantized import numba

    compiled(g)
    found = np.empty((vectors, v.shape[0]), g.wide)
    numba.matmul(widened(g, g.wide, 0, 0.0).reshape(vectors, size), view(v), view(s), found)
    native = placed(found.reshape(shape), g)
    if g.dtype == g.wide:
        return delivered(native, to)

    # Its dtype may be of another package than the library.
    rounded = given(name, "x", native)
    result = by_reference(reference.rounded, rounded, (), (to,), dtype=g.native.dtype)
    compiled(g)
    return result
