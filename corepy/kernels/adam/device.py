"""A step of Adam in one device kernel."""

from __future__ import annotations

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device import (
    Program,
    Result,
    apart,
    launch,
    memory,
    reals,
    refuse_overlap_on_device,
    tell_changed,
)
from corepy.kernels._device._sharing import by_elements, vector_of

_program = Program(__file__)


def adam_step(p: Given, g: Given, m: Given, v: Given, settings: dict[str, float]) -> None:
    """Change a parameter and its moments."""
    results: list[Result] = []
    old = apart(p, g, m, v)
    if old is None:
        refuse_overlap_on_device(p, g, m, v)
        results = [Result(p, p, g, m, v), Result(m, m, g, p, v), Result(v, v, g, p, m)]
        old, new = [memory(x) for x in (p, g, m, v)], [result.memory for result in results]
    else:
        new = [old[n].to_write() for n in (0, 2, 3)]
    vector = vector_of(p, 0, *old, *new)
    grid, block, defines = by_elements(p, p.size, vector)
    s = settings
    numbers = (
        *(s["rate"], s["decay"], s["beta1"], 1.0 - s["beta1"], s["beta2"], 1.0 - s["beta2"]),
        *(s["correction"], s["eps"]),
    )
    launch(
        *(p, _program, "adam_step"),
        grid=grid,
        block=block,
        arguments=(*old, *new, np.int64(p.size), *reals(p, *numbers)),
        X=p.dtype,
        G=g.dtype,
        M=m.dtype,
        **defines,
    )
    for result in results:
        result.array()
    if not results:
        for x in (p, m, v):
            tell_changed(x)
