"""Random operands, the same for two namespaces: of any dtype and size, lying anywhere in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

Shape = tuple[int, ...]

#: dtypes by the letters of NumPy's kinds, those that are used most several times.
DTYPES: Final = {
    "b": ("bool",),
    "i": ("int8", "int16", "int32", "int64", "int64"),
    "u": ("uint8", "uint8", "uint16", "uint32", "uint64"),
    "f": ("float32", "float64"),
    "c": ("complex64", "complex128"),
}
#: Elements, about: few and very few, what fills registers and blocks, and what threads share.
SIZES: Final = (*(0, 1, 2, 3, 5, 7, 8, 16, 17, 33), *(64, 200, 1000, 1024, 1500, 5000))
LARGE: Final = (17_000, 40_000, 70_000, 140_000, 300_000)
#: Elements of the memory in which an array has gaps, at most.
_ROOM: Final = 3_000_000
_SPECIAL: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, 1e-310, 1e300)


class Operands:
    """What a statement draws: the same from one seed, whatever namespace takes the arrays.

    Parameters
    ----------
    seed : int
        Which operands.
    take : callable
        Makes an array of the namespace of one of NumPy, in the same memory if it can.
    """

    def __init__(self, seed: int, take: Callable[[Any], Any] = np.asarray) -> None:
        self._rng = np.random.default_rng(seed)
        self._take = take
        #: The arrays that were drawn, which a statement may have changed.
        self.drawn: list[Any] = []
        #: How they lay, for messages.
        self.outlines: list[str] = []

    # ------------------------------------------------------------------------ choices

    def chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def integer(self, low: int, high: int) -> int:
        """Draw an integer, either bound included."""
        return int(self._rng.integers(low, high, endpoint=True))

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def dtype(self, kinds: str) -> str:
        """Draw the name of a dtype of any of some kinds, such as ``"iuf"``."""
        return str(self.one_of(DTYPES[self.one_of(kinds)]))

    def axis(self, shape: Shape) -> int:
        return self.integer(-len(shape), len(shape) - 1)

    def axes(self, shape: Shape) -> int | tuple[int, ...] | None:
        """Draw an axis, several, or None."""
        if not shape or self.chance(0.2):
            return None
        if self.chance(0.6):
            return self.axis(shape)
        chosen = self._rng.permutation(len(shape))[: self.integer(1, len(shape))]
        return tuple(int(axis) for axis in chosen)

    # ------------------------------------------------------------------------ shapes

    def shape(self, least: int = 0, most: int = 4, largest: int = LARGE[-1]) -> Shape:
        """Draw a shape of so many dimensions."""
        size = min(self.one_of(LARGE if self.chance(0.2) else SIZES), largest)
        ndim = min(max(self.one_of((0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4)), least), most)
        if ndim == 0:
            return ()
        dims, left = [], size
        for _ in range(ndim - 1):
            few = self.one_of((1, 2, 3, 4, 8))
            dim = (
                few
                if self.chance(0.5)
                else round(math.exp(self._rng.random() * math.log(left + 1)))
            )
            dim = min(dim, max(left, 1))
            dims.append(dim)
            left //= dim
        dims.append(left if size == 0 else max(left, 1))
        return tuple(int(dim) for dim in self._rng.permutation(dims))

    def stretching(self, shape: Shape) -> Shape:
        """Draw a shape that broadcasts to another one."""
        if self.chance(0.5):
            return shape
        short = tuple(1 if self.chance(0.4) else dim for dim in shape)
        return short[self.integer(0, len(shape)) if self.chance(0.3) else 0 :]

    # ------------------------------------------------------------------------ values

    def values(self, dtype: str, shape: Shape, kind: str = "any") -> Any:
        """Draw the values of an array.

        They are ``"small"`` integers, of which sums are exact, ``"ordinary"`` or ``"positive"``
        numbers, or ``"any"``, with infinities, NaN, zeros of either sign and the extremes too.
        """
        if kind == "any":
            kind = self.one_of(("small", "ordinary", "ordinary", "special"))
        numpy_dtype = np.dtype(dtype)
        if numpy_dtype.kind == "c":
            made = np.empty(shape, numpy_dtype)
            part = made.real.dtype.name
            made.real, made.imag = (self.values(part, shape, kind) for _ in range(2))
            return made
        if numpy_dtype.kind == "b":
            return self._rng.random(shape) < self._rng.random()
        if numpy_dtype.kind == "f" and kind != "small":
            low = 0.1 if kind == "positive" else -10.0
            made = self._rng.uniform(low, 10.0, shape)
            if kind == "special":
                some = self._rng.random(shape) < 0.1
                made = np.where(some, self._rng.choice(_SPECIAL, shape), made)
            return made.astype(numpy_dtype)
        low, high = -4 if kind == "small" else -100, 4 if kind == "small" else 100
        if numpy_dtype.kind == "f":
            return self._rng.integers(low, high, shape).astype(numpy_dtype)
        bounds = np.iinfo(numpy_dtype)
        low = 1 if kind == "positive" else max(low, int(bounds.min))
        if kind == "special":
            low, high = int(bounds.min), int(bounds.max)
        return self._rng.integers(low, high, shape, numpy_dtype, endpoint=True)

    def number(self, dtype: str, kind: str = "ordinary") -> Any:
        """Draw a Python scalar."""
        return self.values(dtype, (), kind).item()

    # ------------------------------------------------------------------------ arrays

    def array(self, dtype: str, shape: Shape, kind: str = "any", *, repeated: bool = True) -> Any:
        """Draw an array, which lies in memory in one of many ways; `repeated` elements too."""
        native = self._lying(dtype, shape, kind, repeated) if self.chance(0.6) else None
        return self.given(self.values(dtype, shape, kind) if native is None else native)

    def given(self, native: Any) -> Any:
        """Take an array of NumPy that was made of what was drawn."""
        made = self._take(np.asarray(native))
        self.drawn.append(made)
        self.outlines.append(f"{native.dtype}{list(native.shape)} by {list(native.strides)}")
        return made

    def _lying(self, dtype: str, shape: Shape, kind: str, repeated: bool) -> Any:
        """Draw an array with gaps, backwards or repeated axes, in any order; None if too large."""
        ndim = len(shape)
        order = self._rng.permutation(ndim) if self.chance(0.5) else np.arange(ndim)
        steps = [self.one_of((1, 1, 1, -1, 2, -2, 3)) if self.chance(0.5) else 1 for _ in shape]
        starts = [self.one_of((0, 0, 0, 1, 5)) for _ in shape]
        again = [repeated and self.chance(0.08) for _ in shape]
        room = [1 if again[i] else shape[i] * abs(steps[i]) + starts[i] for i in range(ndim)]
        if math.prod(room) > _ROOM:
            return None
        base = self.values(dtype, tuple(room[i] for i in order), kind)
        base = base.transpose(tuple(np.argsort(order)))
        for i, step in enumerate(steps):
            if not again[i]:
                every, stop = (slice(None),) * i, starts[i] + shape[i] * abs(step)
                base = base[(*every, slice(starts[i], stop, abs(step)))]
                base = base[(*every, slice(None, None, 1 if step > 0 else -1))]
        return np.broadcast_to(base, shape) if any(again) else base
