"""tinygrad's OpenCL C and WGSL, with sums and quotients that its algebra does not rewrite.

In tinygrad's graphs there is no difference and no quotient: ``x - y`` is ``x + y * -1``, and
``x / y`` is ``x * (1 / y)``, rounded twice. Its algebra then takes ``x - x`` for 0 and ``x / x``
for 1, whatever inf and NaN say, and ``(y + x) - x`` for ``y`` (tinygrad/uop/symbolic.py). The
operations SUB, NEG and FDIV exist, and no rule touches them; the languages only lack the last.
Of integers its algebra is right; a kernel may then do without arrays that it was to read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tinygrad import Device as Devices
from tinygrad.renderer import cstyle, wgsl
from tinygrad.uop.ops import Ops


def _quotient(a: str, b: str, dtype: Any) -> str:
    return f"({a}/{b})"


# In parentheses, for of "a--b" C makes a decrement.


def _difference(a: str, b: str, dtype: Any) -> str:
    return f"({a}-({b}))"


def _negative(x: str, dtype: Any) -> str:
    return f"(-({x}))"


def _unequal(a: str, b: str, dtype: Any) -> str:
    return f"(!({a}=={b}))"


_MORE: Final = {Ops.FDIV: _quotient, Ops.SUB: _difference, Ops.NEG: _negative}


# The names are those of tinygrad, by which its setting DEV chooses.


class OpenCLRenderer(cstyle.OpenCLRenderer):  # type: ignore[misc]
    """OpenCL C."""

    # By default compilers may make one operation of a product and a sum, which is rounded once.
    kernel_typedef = f"#pragma OPENCL FP_CONTRACT OFF\n{cstyle.OpenCLRenderer.kernel_typedef}"
    code_for_op = cstyle.OpenCLRenderer.code_for_op | _MORE


class WGSLRenderer(wgsl.WGSLRenderer):  # type: ignore[misc]
    """WebGPU's shading language."""

    # "a != b" is false beside NaN, in Dawn's translation to Vulkan.
    code_for_op = wgsl.WGSLRenderer.code_for_op | _MORE | {Ops.CMPNE: _unequal}


RENDERERS: Final = {"CL": OpenCLRenderer, "WEBGPU": WGSLRenderer}


def number_arguments(place: str) -> None:
    """Have a device of OpenCL bind a kernel's arguments by their order.

    Each has the number that it had among all arrays of the graph, of which a kernel that was
    simplified, as ``x - (x + y)`` to ``-y``, is given those alone that it reads. OpenCL's runtime
    looks for the numbers among these, and finds none or another one (ops_cl.py of tinygrad 0.14;
    tinygrad#18288 has the same of another runtime). Others go by the order, as this one does then.
    """
    opened = Devices[place]
    plain = opened.runtime_t

    def program(device: Any, kernel: Any) -> Any:
        order = {number: i for i, number in enumerate(sorted(each[1] for each in kernel.signature))}
        signature = tuple((name, order[n], *rest) for name, n, *rest in kernel.signature)
        return plain(device, replace(kernel, signature=signature))

    opened.runtime_t = program
