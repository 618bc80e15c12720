"""Short ways in Python: functions of the namespace called in the plainest manner, on few elements.

A short way stands before a function and has its signature. It finds out that an operand is a small
array of NumPy's, and that the other arguments are of the plainest classes. Then it calls the
library at once, with what the function would pass. Whatever else comes goes to the function; and so
does what raises here, for only the function words errors.

What is known of a table's operations stands in its ``short``. It is there only while the entries
of the table are, so that whoever watches calls, or changes what runs them, sees each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final, TypeVar

from corepy.dispatch import _short_arrays, _short_calls, _short_creation

F = TypeVar("F", bound=Callable[..., Any])

#: What makes the short way of a function, by operation: those of one signature share one.
_WAYS: Final[dict[str, Callable[[str, Callable[..., Any]], Callable[..., Any]]]] = {
    **dict.fromkeys(
        ("T", "mT", "matrix_transpose", "linalg.det", "linalg.inv"), _short_calls.plain
    ),
    **dict.fromkeys(
        ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min"),
        _short_calls.reduction,
    ),
    **dict.fromkeys(("prod", "sum"), _short_calls.accumulation),
    **dict.fromkeys(("std", "var"), _short_calls.spread),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"), _short_calls.running),
    **dict.fromkeys(("argsort", "sort"), _short_calls.ordering),
    **dict.fromkeys(("expand_dims", "squeeze"), _short_calls.along),
    "astype": _short_calls.casting,
    "flip": _short_calls.reversal,
    "permute_dims": _short_calls.permutation,
    "reshape": _short_calls.reshaping,
    **dict.fromkeys(("concat", "stack"), _short_arrays.joining),
    "clip": _short_arrays.clamp,
    "matmul": _short_arrays.product,
    "take": _short_arrays.taking,
    "where": _short_arrays.choice,
    **dict.fromkeys(("empty", "ones", "zeros"), _short_creation.creation),
    **dict.fromkeys(("empty_like", "ones_like", "zeros_like"), _short_creation.likeness),
    "arange": _short_creation.progression,
    "full": _short_creation.filling,
    "full_like": _short_creation.filled_likeness,
}


def bind(cls: type) -> None:
    """Tell the short ways which class the results have."""
    for module in (_short_arrays, _short_calls, _short_creation):
        module.bind(cls)


def shortened(name: str, function: F, result: Callable[..., Any] | None = None) -> F:
    """Put a short way before the function of an operation, where there is one.

    Parameters
    ----------
    name : str
        The operation.
    function : callable
        Takes the calls that are not plain, and those that end in an error.
    result : callable, optional
        Makes one result of several arrays.
    """
    way = _WAYS.get(name)
    return function if way is None else _before(way(name, function), function)


def _before(way: Callable[..., Any], function: F) -> F:
    made: F = update_wrapper(way, function)  # type: ignore[assignment]
    return made


def item(function: F) -> F:
    """Put a short way before the method ``Array.__getitem__``."""
    return _before(_short_arrays.item(function), function)


def product(function: F) -> F:
    """Put a short way before the method ``Array.__matmul__``."""
    return _before(_short_arrays.product("matmul", function), function)


def reflected_product(function: F) -> F:
    """Keep the method ``Array.__rmatmul__``: where both are an `Array`, it is not asked."""
    return function
