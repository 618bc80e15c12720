"""Attention by torch's own function, where that means the same."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from corepy.kernels._arguments import Given
from corepy.kernels._choice import by_torch, torch_takes
from corepy.kernels._memory import is_transformed

if TYPE_CHECKING:
    from corepy.kernels.attention._problem import Problem

#: Work, in products of two elements, from which the compiled kernels are the faster ones. It takes
#: some 60 us to start them.
SMALL: Final = 1 << 22


def serves(problem: Problem) -> bool:
    """Say whether torch's function has all that a problem asks for.

    torch adds a mask to the scores, so that a NaN among hidden keys would be seen, and aligns
    causal queries at the top left. It has no rules for forward gradients and `torch.func.vmap`.
    """
    p = problem
    if p.return_lse:
        return False
    others = (p.table, p.mask, p.bias, p.lengths, p.query_lengths, p.left)
    if any(option is not None for option in others) or p.right not in (None, 0):
        return False
    aligned = p.top_left or p.q.shape[2] == p.keys
    return p.right is None or aligned or (p.q.shape[2] == 1 and not p.top_left)


def takes(*operands: Given) -> bool:
    """Say whether torch's function takes some arrays: torch's wherever they are, or the host's."""
    if operands[0].library != "torch":
        return torch_takes(*operands)
    if sys.modules["torch"].compiler.is_compiling():
        return True
    return not any(is_transformed(x.native) for x in operands)


def attention(problem: Problem) -> Any:
    """Compute what `serves` allows."""
    p = problem
    one = p.q.shape[2] == 1 and not p.top_left  # sees every key

    def function(q: Any, k: Any, v: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(
            *(q, k, v),
            is_causal=p.right == 0 and not one,
            scale=p.scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )

    return by_torch(p.q, function, p.k, p.v, out=p.out)
