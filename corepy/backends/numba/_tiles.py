"""Tiles of products of integer matrices, which are summed in registers."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["HEIGHT", "WIDTH", "multiply"]

#: Rows and columns of a tile: as many sums as keep the processor's multipliers busy, and few enough
#: to stay in its registers where these have 256 or 512 bits.
HEIGHT: Final = 4
WIDTH: Final = 16


@intrinsic  # type: ignore[untyped-decorator]
def multiply(context: Any, x: Any, rows: Any, first: Any, panel: Any, depth: Any, tile: Any) -> Any:
    """Set ``tile (HEIGHT, WIDTH)`` to a product; overflow wraps around.

    Parameters
    ----------
    x : array (n, k)
        Integers, contiguous along the rows.
    rows : tuple of HEIGHT int
        Which rows of it stand on the left, from the column `first` on.
    panel : array (depth, WIDTH)
        What stands on the right, contiguous; as many rows of it count as `depth` says.
    """
    if rows.count != HEIGHT:
        return None

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        kinds = signature.args
        x, panel, tile = (
            context.make_array(kinds[i])(context, builder, operands[i]) for i in (0, 3, 5)
        )
        first, depth = operands[2], operands[4]
        word = first.type
        element = context.get_data_type(kinds[0].dtype)
        vector = ir.VectorType(element, WIDTH)
        size = context.get_abi_sizeof(element)
        nothing = ir.Constant(vector, None)
        stride = builder.extract_value(x.strides, 0)
        base = builder.ptrtoint(x.data, word)

        def element_at(row: Any) -> Any:
            """Return where a row has its first element of those that count."""
            place = builder.add(base, builder.mul(row, stride))
            place = builder.add(place, builder.mul(first, word(size)))
            return builder.inttoptr(place, element.as_pointer())

        left = [element_at(builder.extract_value(operands[1], r)) for r in range(HEIGHT)]
        right = builder.bitcast(panel.data, vector.as_pointer())
        into = builder.bitcast(tile.data, vector.as_pointer())

        before = builder.block
        loop, after = builder.append_basic_block("depth"), builder.append_basic_block("summed")
        some = builder.icmp_signed(">", depth, word(0))
        builder.cbranch(some, loop, after)
        builder.position_at_end(loop)
        k = builder.phi(word)
        k.add_incoming(word(0), before)
        sums = [builder.phi(vector) for _ in range(HEIGHT)]
        beside = builder.load(builder.gep(right, [k]), align=size)
        added = []
        for row, total in zip(left, sums, strict=True):
            total.add_incoming(nothing, before)
            factor = builder.load(builder.gep(row, [k]), align=size)
            alone = builder.insert_element(ir.Constant(vector, ir.Undefined), factor, word(0))
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), None)
            spread = builder.shuffle_vector(alone, ir.Constant(vector, ir.Undefined), lanes)
            added.append(builder.add(total, builder.mul(spread, beside)))
        following = builder.add(k, word(1))
        k.add_incoming(following, loop)
        for total, more in zip(sums, added, strict=True):
            total.add_incoming(more, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
        builder.position_at_end(after)
        for row, more in enumerate(added):
            found = builder.phi(vector)
            found.add_incoming(nothing, before)
            found.add_incoming(more, loop)
            added[row] = found
        for row, found in enumerate(added):
            builder.store(found, builder.gep(into, [word(row)]), align=size)
        return context.get_dummy_value()

    return types.void(x, rows, first, panel, depth, tile), generate
