"""How loops are lowered to LLVM's code: in whole registers, with arguments that nobody counts.

LLVM prefers 256 bits on Intel's processors with AVX-512, the first of which worked more slowly for
a while after a wide instruction. Those since Ice Lake hardly do, and there loops that compute for
long take up to a third of the time less: sines of float64 0.81 ns an element and not 1.12,
exponentials 0.58 and not 0.85. On other processors LLVM fills whole registers by itself.

Numba counts who uses an array, and counts again for each view, such as a row: by atomic
operations, which take longer than what is computed of a row of some dozen elements (a norm of 32
float32 takes 196 ns, and 24 without). Callers of a loop hold its arguments until it is back, so
that nobody has to count these; what a loop makes itself is counted as ever.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import binding
from numba.core import types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

__all__ = ["IS_WIDE", "PIPELINE"]

_WIDTH: Final = '"prefer-vector-width"="512"'
#: Of Ice Lake and later ones.
_NEEDED: Final = ("avx512vl", "avx512vbmi2")


def _has_needed() -> bool:
    features = binding.get_host_cpu_features()
    return all(features.get(name, False) for name in _NEEDED)


#: Whether registers have 512 bits, and filling them does not slow the processor down.
IS_WIDE: Final = _has_needed()


def _is_plain(kind: Any) -> bool:
    """Say whether a result is no array, and has none."""
    if isinstance(kind, types.BaseTuple):
        return all(map(_is_plain, kind))
    return isinstance(kind, (types.Number, types.Boolean, types.NoneType))


class _LoopLower(Lower):  # type: ignore[misc]
    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        if IS_WIDE:
            # llvmlite's own `add` knows no attributes with a value, such as compilers of C set.
            set.add(self.function.attributes, _WIDTH)

    def extract_function_arguments(self) -> Any:
        arguments = list(super().extract_function_arguments())
        if _is_plain(self.fndesc.restype):  # else it may be an argument, or a part of one
            kinds = self.fndesc.argtypes
            arguments = [self._uncounted(kind, x) for kind, x in zip(kinds, arguments, strict=True)]
        self.fnargs = arguments
        return arguments

    def _uncounted(self, kind: Any, argument: Any) -> Any:
        """Return an array without the place of its count, and anything else as it is."""
        if not isinstance(kind, types.Array):
            return argument
        array = self.context.make_array(kind)(self.context, self.builder, argument)
        array.meminfo = array.meminfo.type(None)
        return array._getvalue()


@register_pass(mutates_CFG=True, analysis_only=False)
class _LoopLowering(NativeLowering):  # type: ignore[misc]
    _name = "loop_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _LoopLower


class _LoopCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's own passes, but for the lowering."""

    def define_pipelines(self) -> list[PassManager]:
        own = DefaultPassBuilder.define_nopython_pipeline(self.state)
        made = PassManager("nopython, of loops")
        for each, described in own.passes:
            made.add_pass(_LoopLowering if each is NativeLowering else each, described)
        made.finalize()
        return [made]


#: What Numba compiles loops by.
PIPELINE: Final[type[CompilerBase]] = _LoopCompiler
