"""What a backend tells the compiled hot path of an operation: which compiled loops to call at once.

They are called on small operands, or in the place of NumPy's loops on large ones, past `operation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class RowLoop:
    """Compiled functions that reduce a contiguous row to one number.

    Attributes
    ----------
    addresses : mapping of str to int
        By the name of the elements' dtype, addresses of functions ``double (*)(const void *row,
        ptrdiff_t size)``. What they return is rounded to the result's dtype, and not to be used
        where that, or the function, raises a flag of the processor's.
    least : int
        Elements of an array from which they are called.
    longer : int
        Elements that each row has more than.
    join : int
        The address of ``double (*)(const double *parts, ptrdiff_t count)``, which makes one result
        of those of a row's chunks: the same that the function finds of the whole.
    chunk : int
        Elements of a chunk.
    """

    addresses: Mapping[str, int]
    least: int
    longer: int
    join: int
    chunk: int


@dataclass(frozen=True, slots=True)
class OrderLoop:
    """How a stable order is found by sorting words, for the compiled hot path to do at once.

    Attributes
    ----------
    addresses : mapping of str to tuple of (int, int)
        By the name of a dtype, those of the loops that make words of elements, and places of sorted
        words (`corepy.backends._order_loops`).
    least : int
        Elements of a row from which they are used.
    """

    addresses: Mapping[str, tuple[int, int]]
    least: int


@dataclass(frozen=True, slots=True)
class Loop:
    """What an operation computes on small operands, for the compiled hot path to call at once.

    Attributes
    ----------
    ufunc : numpy.ufunc or None
        Its inner loop for the operands' dtype gives the operation's values.
    kind : str
        How: ``"elementwise"``, ``"reduction"``, ``"mean"``, ``"variance"``, ``"deviation"`` and
        ``"accumulation"`` apply the loop, the last five to a dtype that stays (floats and integers
        of 64 bits); ``"core"`` is that of a generalized ufunc, and ``"doubles"`` one that computes
        in double precision whatever the dtype. ``"argmax"``, ``"argmin"``, ``"count"``,
        ``"plain"``, ``"move"``, which only fills or copies memory, and ``"view"``, which gives a
        view, need none: they do what NumPy does.
    finite : str
        NumPy's letters for kinds of dtypes of which it gives them for finite numbers only; of
        complex ones (``"c"``) for such as are not zero.
    real : bool
        Whether it gives them for real dtypes only; `wide` has some of others.
    silent : str
        NumPy's letters for kinds of dtypes of which nobody is told that the loop has met with, say,
        an overflow; of others NumPy warns as if of `ufunc`.
    second : numpy.ufunc or None
        Another one, where the operation needs two.
    rows : RowLoop or None
        What finds the same of long rows, in the loop's place.
    columns : mapping of str to int
        By the name of a dtype, the address of a loop that finds the same of columns, several rows
        at a time (`corepy.backends._column_loops`); of products, what adds up their parts. Sums
        of integers of fewer than 64 bits have as many, where there is such a loop.
    weighted : mapping of str to int
        Likewise one that adds up rows times a number each.
    dotted : mapping of str to int
        And one that adds up the products of each row with a vector.
    wide : mapping of str to int
        By the name of a dtype, the address of a loop with the same values that takes the place of
        the ufunc's where operands are contiguous or single values; or that of `kind` ``"plain"``
        has besides.
    first : int
        Elements, of products of integers multiplications, below which a loop of `wide`, `order` or
        `parts` comes before any route: no other library was measured to be quicker.
    order : OrderLoop or None
        What finds a stable order, of `kind` ``"plain"``.
    parts : mapping of str to int
        By the name of a dtype, the address of what picks the elements between two values, so that
        threads sort parts of a vector (`corepy.backends._order_loops`).
    roots : mapping of str to int
        Likewise what takes roots of contiguous floats, for powers to 0.5.
    """

    ufunc: np.ufunc | None
    kind: str = "elementwise"
    finite: str = ""
    real: bool = False
    silent: str = ""
    second: np.ufunc | None = None
    rows: RowLoop | None = None
    columns: Mapping[str, int] = field(default_factory=dict)
    weighted: Mapping[str, int] = field(default_factory=dict)
    dotted: Mapping[str, int] = field(default_factory=dict)
    wide: Mapping[str, int] = field(default_factory=dict)
    first: int = 0
    order: OrderLoop | None = None
    parts: Mapping[str, int] = field(default_factory=dict)
    roots: Mapping[str, int] = field(default_factory=dict)
