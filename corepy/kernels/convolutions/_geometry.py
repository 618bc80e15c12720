"""Where the windows of a convolution lie."""

from __future__ import annotations

from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Numbers that say where windows lie, for height and width.

    Attributes
    ----------
    padding : pair of pairs
        Zeros before and after.
    image, kernel : pair of int
        Sizes of what windows lie in, and of what they hold.
    """

    stride: Pair
    padding: tuple[Pair, Pair]
    dilation: Pair
    groups: int
    image: Pair
    kernel: Pair

    @property
    def extent(self) -> Pair:
        """From the first to the last element of a window."""
        (a, b), (c, d) = self.kernel, self.dilation
        return c * (a - 1) + 1, d * (b - 1) + 1

    @property
    def padded(self) -> Pair:
        """Size of an image with its zeros."""
        (a, b), (c, d) = self.image, self.padding
        return a + sum(c), b + sum(d)

    @property
    def size(self) -> Pair:
        """How many windows there are; less than one where none fits."""
        (a, b), (c, d), (e, f) = self.padded, self.extent, self.stride
        return (a - c) // e + 1, (b - d) // f + 1
