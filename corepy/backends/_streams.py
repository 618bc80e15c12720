"""What a library says of the streams of its devices, so that all libraries can share one.

A stream is a queue of work of a device: what was asked of one stream is done in order, what was
asked of two may overlap. Streams of CUDA and HIP belong to no library. They have an address, by
which each can put its work into a stream that another made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from corepy._errors import UnsupportedOperationError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ALIGNMENT", "Mark", "Streams"]

#: Bytes that threads of a GPU move at once, at whose multiples memory begins that they share so.
ALIGNMENT: Final = 16

#: A library's own object for a point in a stream. Only the library that made it knows more.
Mark: TypeAlias = Any


class Streams(ABC):
    """A library's hold on the streams of one device.

    Every method may be called with the address of a stream that another library made.
    """

    @abstractmethod
    def create(self) -> tuple[int, object]:
        """Make a stream that waits for no other by itself; return its address and its owner.

        The stream lasts as long as the owner is referred to.
        """

    @abstractmethod
    def current(self) -> int:
        """Return the address of the stream that this thread's work goes to."""

    @abstractmethod
    def using(self, address: int) -> AbstractContextManager[object]:
        """Return a context in which the library's work of this thread goes to a stream."""

    @abstractmethod
    def record(self, address: int, *, timing: bool = False) -> Mark:
        """Mark the point that a stream has come to; with `timing`, for `elapsed` to measure."""

    @abstractmethod
    def wait(self, address: int, mark: Mark) -> None:
        """Let what a stream is asked from now on wait for a point; the host does not wait."""

    @abstractmethod
    def is_done(self, mark: Mark) -> bool:
        """Say whether everything before a point is done."""

    @abstractmethod
    def finish(self, mark: Mark) -> None:
        """Let the host wait for a point."""

    @abstractmethod
    def elapsed(self, start: Mark, end: Mark) -> float:
        """Return the milliseconds between two points, both of which are done."""

    # ------------------------------------------------------------------ copies

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
        """Return new memory of the host that stays where it is, None where there is none."""
        return None

    def send(self, array: np.ndarray[Any, Any]) -> Any:
        """Make a native array of pinned host memory; the copy is done when the stream is."""
        raise UnsupportedOperationError("the library has no asynchronous copies")

    def fetch(self, native: Any, out: np.ndarray[Any, Any]) -> None:
        """Copy a native array into pinned host memory; the copy is done when the stream is."""
        raise UnsupportedOperationError("the library has no asynchronous copies")

    # ------------------------------------------------------------------ graphs

    def is_capturing(self) -> bool:
        """Say whether what is asked of the current stream is recorded, and not done."""
        return False

    def capture(self, address: int, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """Record what a function asks of a stream, without doing it.

        Returns
        -------
        tuple of (callable, object)
            What asks the current stream for all of it once more, and what the function returned.
        """
        raise UnsupportedOperationError("the library captures no graphs")

    def apart(self) -> AbstractContextManager[object]:
        """Return a context in which the library takes memory that nobody else gets later.

        What it gives has to be referred to for as long as that memory is used: a graph that was
        captured writes there each time.
        """
        return nullcontext()
