"""The device of OpenCL that kernels are tested on."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def device() -> Any:
    """Return the first device that has float64 and builds what it is given.

    Raises
    ------
    LookupError
        If there is none; the message says what is wrong with those that there are.
    """
    usable, wrong = devices()
    if not usable:
        raise LookupError("; ".join(wrong) or "no device of OpenCL")
    return usable[0]


@cache
def devices() -> tuple[list[Any], list[str]]:
    """Return those devices, and what is wrong with the others.

    Not every one builds: PoCL 3.0 of the package ``pocl-binary-distribution`` knows no processor
    that is younger than its LLVM, and refuses all programs on some (pocl#1049); Debian's 3.1
    takes such a processor for one that it knows.
    """
    import pyopencl as cl

    usable: list[Any] = []
    wrong = []
    try:
        found = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.LogicError as error:  # no platform at all
        return [], [str(error)]
    for candidate in found:
        if not candidate.double_fp_config:
            wrong.append(f"{candidate.name} has no float64")
            continue
        program = cl.Program(cl.Context([candidate]), "__kernel void nothing() {}")
        try:
            program.build()
        except cl.RuntimeError as error:
            wrong.append(f"{candidate.name} builds nothing: {str(error).splitlines()[0]}")
            continue
        usable.append(candidate)
    return usable, wrong
