"""Routers: the functions that compare sizes, and what they cost small operands.

One for each signature that native callables have: passing on any arguments would cost as much as
the rest of a small operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from corepy.backends._extents import EXTENTS
from corepy.dispatch._admitted import ADMITTED

Native: TypeAlias = "Callable[..., Any]"
#: Takes the operands, and the keyword arguments.
Call: TypeAlias = "Callable[[tuple[Any, ...], dict[str, Any]], Any]"
Maker: TypeAlias = "Callable[[Native, int, Call], Native]"


def router(
    name: str, small: Native, least: int, choice: Call, leasts: Mapping[str, int] | None = None
) -> Native:
    """Make the router of an operation.

    Parameters
    ----------
    name : str
        The operation.
    small : callable
        Runs operands of which none has so many elements as `least`.
    least : int
    choice : callable
        Runs the others.
    leasts : mapping of str to int, optional
        The same as `least` by form, where it differs: of others, `choice` makes none.

    Returns
    -------
    callable
        With the attributes ``small``, ``least`` and ``leasts``.
    """
    made = _maker(name)(small, least, choice)
    vars(made).update(small=small, least=least, leasts=leasts)
    return made


def _maker(name: str) -> Maker:
    admission = ADMITTED.get(name)  # there is none where the same backend always runs it
    if name in _MAKERS or admission is None:
        return _MAKERS.get(name, _any)
    if name in EXTENTS:
        return _by_extent(EXTENTS[name])
    return _ELEMENTWISE[admission.operands] if admission.is_elementwise else _any


def _one(small: Native, least: int, choice: Call) -> Native:
    def one(x: Any, /) -> Any:
        return small(x) if x.size < least else choice((x,), {})

    return one


def _two(small: Native, least: int, choice: Call) -> Native:
    def two(x1: Any, x2: Any, /) -> Any:
        if x1.size < least and x2.size < least:
            return small(x1, x2)
        return choice((x1, x2), {})

    return two


def _three(small: Native, least: int, choice: Call) -> Native:
    def three(x1: Any, x2: Any, x3: Any, /) -> Any:
        if x1.size < least and x2.size < least and x3.size < least:
            return small(x1, x2, x3)
        return choice((x1, x2, x3), {})

    return three


def _getitem(small: Native, least: int, choice: Call) -> Native:
    def getitem(x: Any, key: Any, /) -> Any:
        # Only masks are routed; most keys are integers and slices.
        if getattr(key, "size", 0) < least:
            return small(x, key)
        return choice((x, key), {})

    return getitem


def _extreme(small: Native, least: int, choice: Call) -> Native:
    def extreme(x: Any, /, *, axis: Any, keepdims: bool) -> Any:
        if x.size < least:
            return small(x, axis=axis, keepdims=keepdims)
        return choice((x,), {"axis": axis, "keepdims": keepdims})

    return extreme


def _accumulation(small: Native, least: int, choice: Call) -> Native:
    def accumulation(x: Any, /, *, axis: Any, dtype: Any, keepdims: bool) -> Any:
        if x.size < least:
            return small(x, axis=axis, dtype=dtype, keepdims=keepdims)
        return choice((x,), {"axis": axis, "dtype": dtype, "keepdims": keepdims})

    return accumulation


def _clip(small: Native, least: int, choice: Call) -> Native:
    def clip(x: Any, /, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002
        if x.size < least:  # bounds of more elements would be another form
            return small(x, min=min, max=max)
        return choice((x,), {"min": min, "max": max})

    return clip


def _cast(small: Native, least: int, choice: Call) -> Native:
    def cast(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
        if x.size < least:
            return small(x, dtype, copy=copy)
        return choice((x, dtype), {"copy": copy})

    return cast


def _by_extent(extent: Callable[..., int]) -> Maker:
    """Return what makes the router of an operation whose result tells how large it is."""

    def make(small: Native, least: int, choice: Call) -> Native:
        def call(*args: Any, **params: Any) -> Any:
            return small(*args, **params) if extent(*args) < least else choice(args, params)

        return call

    return make


def _any(small: Native, least: int, choice: Call) -> Native:
    def call(x: Any, /, *rest: Any, **params: Any) -> Any:
        if x.size < least:
            for y in rest:
                if getattr(y, "size", 0) >= least:
                    break
            else:
                return small(x, *rest, **params)
        return choice((x, *rest), params)

    return call


_ELEMENTWISE: Final = {1: _one, 2: _two, 3: _three}
_MAKERS: Final = {
    "__getitem__": _getitem,
    "astype": _cast,
    "clip": _clip,
    "matmul": _two,
    **dict.fromkeys(("argmax", "argmin", "count_nonzero", "max", "mean", "min"), _extreme),
    **dict.fromkeys(("prod", "sum"), _accumulation),
}
