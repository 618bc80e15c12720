"""QR decompositions where a library squares elements as they are, as cuSOLVER and Metal do.

Beyond the root of the greatest float R is NaN then, unlike in LAPACK, and a column of small ones
has no length. By powers of two nothing is rounded, and a column's own is a factor of R's column
alone.
"""

from __future__ import annotations

from typing import Any, Final

#: By the bytes of a float, up to which power of two to scale.
MOST: Final = {4: 104, 8: 1000}


def powers(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return by what to multiply the columns of matrices, and then those of R, in CuPy or JAX."""
    top = xp.maximum(xp.abs(xp.real(x)), xp.abs(xp.imag(x))).max(-2, keepdims=True)
    most = MOST[top.dtype.itemsize]
    power = xp.clip(xp.frexp(top)[1], -most, most)
    one = xp.ones_like(top)
    return xp.ldexp(one, -power), xp.ldexp(one, power)
