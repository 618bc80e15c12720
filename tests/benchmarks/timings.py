"""Timings to judge."""

from __future__ import annotations

from benchmarks._measure import Timing

SAME = Timing(median_ns=100, least_ns=90, ratio=1, least_ratio=1, over_ns=0)


def timing(over: float, ratio: float) -> Timing:
    return Timing(median_ns=100 + over, least_ns=90, ratio=ratio, least_ratio=ratio, over_ns=over)
