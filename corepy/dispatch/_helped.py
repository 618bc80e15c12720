"""Who helps the compiled hot path with large operations.

It calls NumPy's inner loops itself, for which the threads that help with Numba's loops are as good:
each takes some of the elements, and the values are the same. As Numba takes half a second to
import, that waits until so much would have been saved, as with routes (`_route_libraries`).
"""

from __future__ import annotations

import atexit
import os
from typing import Final

from corepy._crew import Crew
from corepy.dispatch import _hot, _route_libraries
from corepy.dispatch._threads import get_num_threads

__all__: list[str] = []

#: Of the time of a loop, what a second thread saves.
_SAVED: Final = 0.4


def _find(seconds: float) -> Crew | None:
    """Return the helpers, None as long as they are not worth what it takes to have them.

    Where the budget is one thread they are worth nothing.

    Parameters
    ----------
    seconds : float
        How long loops have run since the last call that helpers would have shared.
    """
    if get_num_threads() == 1:
        return None
    backend = _route_libraries.earned("numba", _SAVED * seconds)
    return None if backend is None else backend.crew()


def _look() -> None:
    _hot.helped_by(_find)


_look()
if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_look)
# The interpreter is about to end, and code with it.
atexit.register(_hot.helped_by, None)
