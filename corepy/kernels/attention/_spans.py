"""Which keys the queries of compiled attention see."""

from __future__ import annotations

from corepy.kernels._compiled import kernel


@kernel
def span(i: int, queries: int, keys: int, left: int, right: int, top_left: bool) -> tuple[int, int]:
    """Return the first key that a query sees, and the first beyond those."""
    if i >= queries:
        return 0, 0
    place = i if top_left else i + keys - queries
    first = max(0, place - left)
    return first, max(first, min(keys, place + right + 1))
