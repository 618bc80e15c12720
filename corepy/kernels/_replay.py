"""Calls that were seen before: the launch that they ended with, on other memory.

To look at arguments, choose a kernel and prepare its launch takes longer than a GPU needs for rows
of some megabytes, and a processor for a row. All of it follows from classes, dtypes, layouts and
numbers, so that the first call with some of these keeps what it launched, and later ones launch
just that. What a launch is, `_compiled` says for the host and `_device` for each target.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from corepy._signals import let_through
from corepy.dispatch import listening, one_operation
from corepy.kernels._ways import is_usual

if TYPE_CHECKING:
    from corepy.kernels._arguments import Given

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Classes of arguments that count by their values.
NUMBERS: Final = frozenset((bool, float, int, str, type(None)))


def is_of_numbers(values: tuple[Any, ...]) -> bool:
    """Say whether a tuple holds nothing but such arguments, so that its `repr` tells all of it."""
    return all(
        is_of_numbers(value) if value.__class__ is tuple else value.__class__ in NUMBERS
        for value in values
    )


#: In the place of a plan where there has been no such call.
_UNKNOWN: Final[Any] = object()
#: Kept calls of a function, at most; then all are forgotten, for these are other shapes each time.
_MOST: Final = 4096


class Seen(NamedTuple):
    """Arguments of a call, as far as they decide.

    Attributes
    ----------
    key : tuple
        All that decides what is launched.
    arrays : list
        The arrays among them.
    bases : list
        What a launch takes for them: pointers on a device, NumPy's arrays on the host.
    """

    key: tuple[Any, ...]
    arrays: list[Any]
    bases: list[Any]


class Plan(ABC):
    """A launch that can be repeated on other memory."""

    @abstractmethod
    def run(self, seen: Seen) -> Any:
        """Launch it on the arrays of a call, and return its new results.

        Raises
        ------
        Exception
            If that fails, with nothing launched.
        """


class Unclear(Exception):
    """Whether, or on whose memory, a launch is to be repeated cannot be told of this call."""


class Launched(ABC):
    """What a call has launched."""

    @abstractmethod
    def plan(self, seen: Seen, made: list[Any], is_pair: bool) -> Plan | None:
        """Return how the call is repeated, None if it has to take the usual way.

        Parameters
        ----------
        made : list
            The arrays that it returned.
        is_pair : bool
            Whether as a tuple.

        Raises
        ------
        Unclear
            If the next call with the same key may tell.
        """


#: What looks at the arguments of a call and the names of the last of them, by the class of the
#: first one; it returns None where a launch cannot be repeated. Targets enter classes as they first
#: serve them, before which there is nothing to repeat.
LOOKS: Final[dict[type, Callable[[Sequence[Any], tuple[str, ...]], Seen | None]]] = {}


class _State(threading.local):
    """Of a thread."""

    #: Of the call that is being noted.
    noted: _Notes | None = None


_state: Final = _State()


@dataclass(slots=True)
class _Notes:
    """Of one call.

    Attributes
    ----------
    launched : list
        What it has launched, and None for values that it has looked at.
    conditions : list
        What has to be true for another call to go the same way, beside what is part of the key.
    """

    launched: list[Launched | None] = field(default_factory=list)
    conditions: list[Callable[[], bool]] = field(default_factory=list)


def replayed(function: _Function) -> _Function:
    """Let a fused kernel report as one operation, and repeat its launch where it was called so.

    It may only launch a kernel, for nothing else that it does is repeated, and look at the values
    of arrays by `peeked`.
    """
    usual = one_operation(function)
    plans: dict[tuple[Any, ...], Plan | None] = {}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        look = LOOKS.get(args[0].__class__) if args else None
        if look is None:
            return (usual if listening() else function)(*args, **kwargs)
        seen = look((*args, *kwargs.values()), tuple(kwargs)) if kwargs else look(args, ())
        if seen is None or _state.noted is not None or not is_usual():
            return usual(*args, **kwargs)
        plan = plans.get(seen.key, _UNKNOWN)
        if plan is _UNKNOWN:
            return _noted(usual, args, kwargs, seen, plans)
        if plan is not None:
            try:
                return plan.run(seen)
            except Exception as error:  # the usual way frees memory, or tells what is wrong
                let_through(error)
        return usual(*args, **kwargs)

    return cast(_Function, call)


def looked() -> None:
    """Note that the value of an argument decides, which is no part of a key: no call repeats it."""
    if _state.noted is not None:
        _state.noted.launched.append(None)


def peeked(x: Given) -> Any:
    """Return the values of an argument as NumPy's; what depends on them is not repeated."""
    looked()
    return x.backend.peek(x.native)


def note(launched: Callable[[], Launched]) -> None:
    """Note what was launched, if anybody wants to repeat it."""
    if _state.noted is not None:
        _state.noted.launched.append(launched())


def is_noting() -> bool:
    """Say whether anybody wants to repeat what this thread launches."""
    return _state.noted is not None


def provided(condition: Callable[[], bool]) -> None:
    """Repeat a call only as long as something holds that is no part of its arguments."""
    if _state.noted is not None:
        _state.noted.conditions.append(condition)


def _noted(
    usual: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    seen: Seen,
    plans: dict[tuple[Any, ...], Plan | None],
) -> Any:
    noted = _state.noted = _Notes()
    try:
        result = usual(*args, **kwargs)
    finally:
        _state.noted = None
    if noted.launched:  # else somebody else computed, this time
        try:
            plan = _planned(noted, seen, result)
        except Unclear:
            return result
        if len(plans) >= _MOST:
            plans.clear()
        plans[seen.key] = plan
    return result


def _planned(noted: _Notes, seen: Seen, result: Any) -> Plan | None:
    launched = noted.launched[0] if len(noted.launched) == 1 else None
    is_pair = isinstance(result, tuple)
    made = list(result) if is_pair else [result]
    if launched is None or any(new is array for new in made for array in seen.arrays):
        return None  # what is written to is new: whether it overlaps something is no part of a key
    plan = launched.plan(seen, made, is_pair)
    return _Conditional(plan, noted.conditions) if plan and noted.conditions else plan


class _Conditional(Plan):
    """A launch that another call repeats while some conditions hold."""

    def __init__(self, plan: Plan, conditions: list[Callable[[], bool]]) -> None:
        self._plan, self._conditions = plan, conditions

    def run(self, seen: Seen) -> Any:
        for condition in self._conditions:
            if not condition():
                raise Unclear
        return self._plan.run(seen)
