"""The device of OpenCL that kernels are tested on."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def device() -> Any:
    """Return the first device that has float64 and builds what it is given.

    Not every one does: PoCL 3.0 of the package ``pocl-binary-distribution`` knows no processor that
    is younger than its LLVM, and refuses all programs there (pocl#1049); Debian's 3.1 takes such a
    processor for one that it knows.

    Raises
    ------
    LookupError
        If there is none; the message says what is wrong with those that there are.
    """
    import pyopencl as cl

    wrong = []
    try:
        found = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.LogicError as error:  # no platform at all
        raise LookupError(str(error)) from error
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
        return candidate
    raise LookupError("; ".join(wrong) or "no device of OpenCL")
