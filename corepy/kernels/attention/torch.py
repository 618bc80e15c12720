"""Attention by torch's own function, where that means the same."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

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
    if p.q.library != "torch" or p.return_lse:
        return False
    others = (p.table, p.mask, p.bias, p.lengths, p.query_lengths, p.left)
    if any(option is not None for option in others) or p.right not in (None, 0):
        return False
    torch = sys.modules["torch"]
    if not torch.compiler.is_compiling() and any(is_transformed(x.native) for x in (p.q, p.k, p.v)):
        return False
    aligned = p.top_left or p.q.shape[2] == p.keys
    return p.right is None or aligned or (p.q.shape[2] == 1 and not p.top_left)


def attention(problem: Problem) -> Any:
    """Compute what `serves` allows, as a native tensor."""
    p = problem
    one = p.q.shape[2] == 1 and not p.top_left  # sees every key
    function = sys.modules["torch"].nn.functional.scaled_dot_product_attention
    return function(
        *(x.native for x in (p.q, p.k, p.v)),
        is_causal=p.right == 0 and not one,
        scale=p.scale,
        enable_gqa=p.q.shape[1] != p.k.shape[1],
    )
