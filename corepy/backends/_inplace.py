"""Operators that write over their first operand."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

Function = Callable[..., Any]

#: Python's own.
OPERATORS: Final[dict[str, Function]] = {
    f"__{name}__": getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "iand", "ior", "ixor", "ilshift", "irshift")
}


def written(function: Function) -> Function:
    """Write the result of a function with a fix into its first operand."""

    def update(x1: Any, x2: Any) -> Any:
        x1[...] = function(x1, x2)
        return x1

    return update


def in_place(
    floor_divide: Function,
    remainder: Function,
    pow: Function,
    *,
    write: Callable[[Function], Function] = lambda function: function,
    written: Callable[[Function], Function] = written,
) -> dict[str, Function]:
    """Return the operators of a library: Python's own, by `write`, and three that are `written`."""
    return {
        **{name: write(function) for name, function in OPERATORS.items()},
        "__ifloordiv__": written(floor_divide),
        "__imod__": written(remainder),
        "__ipow__": written(pow),
    }
