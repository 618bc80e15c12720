"""Rounding float32 to 16-bit floats, for libraries with NumPy's functions."""

from __future__ import annotations

from typing import Any

import numpy as np


def rounded(xp: Any, x: Any, dtype: str) -> Any:
    """Return float32 numbers rounded to the nearest 16-bit ones, of two to the even one.

    Parameters
    ----------
    xp : module
        NumPy, or a library with its functions.
    x : array of float32
    dtype : {"bfloat16", "float16"}

    Returns
    -------
    array of float32
    """
    if dtype == "float16":
        with np.errstate(over="ignore", under="ignore"):
            return x.astype(xp.float16).astype(xp.float32)
    # There is no bfloat16: it is the upper half of a float32. Half a unit of it is added, less one
    # bit where the last place that stays is even; a carry goes into the exponent, as it should.
    bits = xp.array(x, order="C").view(xp.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    moved = (bits + (odd + np.uint32(0x7FFF))) & np.uint32(0xFFFF0000)
    # All that tells a NaN may be in the lower half: it stays as it is.
    return xp.where(xp.isnan(x), x, moved.view(xp.float32))
