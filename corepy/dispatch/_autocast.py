"""Autocast: products whose float32 operands are rounded to 16 bits first.

What it means is said by `corepy.autocast`, and the same in every library: operands are rounded to
the nearest 16-bit number, which float32 holds exactly, and so it does the product of two. Only the
order of the sums is the library's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from corepy._dtypes import DType, float32
from corepy.backends._base import Backend
from corepy.dispatch import _explain
from corepy.dispatch._settings import AUTOCAST

#: The operations that are products; those of the extension ``linalg`` of these names are the same.
PRODUCTS: Final = ("matmul", "tensordot", "vecdot")


def applied(
    native: Callable[..., Any], name: str, backend: Backend, dtype: DType
) -> Callable[..., Any]:
    """Return a product that rounds its operands where `corepy.autocast` says so.

    Until somebody asked for it, and for all that is no product of float32, it is the callable
    itself.
    """
    if not AUTOCAST.touched or name not in PRODUCTS or dtype is not float32:
        return native
    own: dict[str, Callable[..., Any] | None] = {}

    def product(x1: Any, x2: Any, /, **params: Any) -> Any:
        low = AUTOCAST.get()
        if low is None:
            return native(x1, x2, **params)
        if low not in own:
            own[low] = backend.autocast(name, low)
        call = own[low]
        if call is not None:
            made = call(x1, x2, **params)
        else:
            first = backend.rounded(x1, low)
            made = native(first, first if x2 is x1 else backend.rounded(x2, low), **params)
        if _explain.listening():
            _explain.also(f"autocast: operands rounded to {low}")
        return made

    # Who runs it, and from how many elements on it chooses, is what the product itself says: the
    # compiled hot path asks for the setting before it takes its own way, that in Python calls this.
    for key in ("backend", "device", "least", "leasts", "blocks", "hindered"):
        if hasattr(native, key):
            vars(product)[key] = getattr(native, key)
    return product
