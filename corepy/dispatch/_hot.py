"""Which form of the hot path runs: the compiled one where it was built, else the one in Python.

``COREPY_PURE_PYTHON=1`` chooses the latter. Both mean the same, and the tests run on both.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Final

_COMPILED: Final = "corepy.dispatch._hot_compiled"


def _why_not() -> str | None:
    """Return why the compiled form does not run, None if it does."""
    wish = os.environ.get("COREPY_PURE_PYTHON", "")
    if wish not in ("", "0", "1"):
        raise ValueError(f"COREPY_PURE_PYTHON is {wish!r}; expected 0 or 1")
    if wish == "1":
        return "COREPY_PURE_PYTHON=1"
    if importlib.util.find_spec(_COMPILED) is None:
        return "it was not built: installing corepy found no C compiler, or none that worked"
    try:
        importlib.import_module(_COMPILED)
    except ImportError as error:  # built for another Python
        return f"it does not load: {error}"
    return None


#: Why the hot path runs in Python, None if it is compiled; shown by ``corepy info``.
PURE: Final = _why_not()

if TYPE_CHECKING or PURE is not None:
    from corepy.dispatch._hot_python import (
        Operand,
        Slots,
        binary_function,
        bind,
        choice,
        clamp,
        item,
        make,
        operator,
        reduction,
        reflected,
        unary_function,
        unary_operator,
    )
else:
    from corepy.dispatch._hot_compiled import (
        Operand,
        Slots,
        binary_function,
        bind,
        choice,
        clamp,
        item,
        make,
        operator,
        reduction,
        reflected,
        unary_function,
        unary_operator,
    )

__all__ = [
    "PURE",
    "Operand",
    "Slots",
    "binary_function",
    "bind",
    "choice",
    "clamp",
    "item",
    "make",
    "operator",
    "reduction",
    "reflected",
    "unary_function",
    "unary_operator",
]
