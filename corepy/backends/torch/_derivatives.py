"""Values that are corrected, with torch's own derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from corepy.backends.torch._layout import is_plain


class _Corrected(torch.autograd.Function):  # type: ignore[misc]
    """The second of two results, whose derivative is the first one's."""

    generate_vmap_rule = True

    @staticmethod
    def forward(result: Tensor, corrected: Tensor) -> Tensor:
        return corrected.clone()  # torch wants no operand back

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:
        return tangent.clone()


def differentiated_as(
    library: Callable[..., Tensor],
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Let a function that corrects the values of torch's have torch's derivative.

    Rewriting signs, zeros and infinities must not make a gradient wrong.
    """

    def decorate(values: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def compute(*operands: Tensor) -> Tensor:
            if all(map(is_plain, operands)):
                return values(*operands)
            corrected = values(*(operand.detach() for operand in operands))
            applied: Tensor = _Corrected.apply(library(*operands), corrected)
            return applied

        return compute

    return decorate
