"""Which form of the hot path runs: the compiled one where it was built, else the one in Python.

``COREPY_PURE_PYTHON=1`` chooses the latter. Both mean the same, and the tests run on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from corepy._extensions import extension

#: Why the hot path runs in Python, None if it is compiled; shown by ``corepy info``.
PURE: Final = extension("corepy.dispatch._hot_compiled")[1]

if TYPE_CHECKING or PURE is not None:
    from corepy.dispatch._hot_python import (
        Operand,
        Slots,
        adopts,
        binary_function,
        bind,
        forget_homes,
        guard,
        helped_by,
        home,
        homes,
        item,
        let_go,
        make,
        operator,
        product,
        reflected,
        reflected_product,
        shortened,
        unary_function,
        unary_operator,
    )
else:
    from corepy.dispatch._hot_compiled import (
        Operand,
        Slots,
        adopts,
        binary_function,
        bind,
        forget_homes,
        guard,
        helped_by,
        home,
        homes,
        item,
        let_go,
        make,
        operator,
        product,
        reflected,
        reflected_product,
        shortened,
        unary_function,
        unary_operator,
    )

__all__ = [
    "PURE",
    "Operand",
    "Slots",
    "adopts",
    "binary_function",
    "bind",
    "forget_homes",
    "guard",
    "helped_by",
    "home",
    "homes",
    "item",
    "let_go",
    "make",
    "operator",
    "product",
    "reflected",
    "reflected_product",
    "shortened",
    "unary_function",
    "unary_operator",
]
