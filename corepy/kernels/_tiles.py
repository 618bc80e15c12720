"""Tiles of matrix products that stay in vector registers, written as LLVM's own instructions.

Plain loops leave a product of matrices at a tenth of what a processor can do: the compiler keeps
its sums in memory. Here each function is one loop over the depth whose sums are all in registers,
as many as the processor that compiles it has. Arrays are flat, and places and strides in elements.

`fused` tiles compute ``C = start + A @ B`` with rows of B as vectors, `dots` and `dots_in_order`
take products of rows with rows, and `flip` transposes a square.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy.typing as npt
from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from corepy._loops._simd import inlined

Array = npt.NDArray[Any]

_i32, _i64 = ir.IntType(32), ir.IntType(64)
_CONTRACT: Final = ("contract",)


def registers(features: str) -> tuple[int, int]:
    """Return the bytes of a vector register, and how many of them tiles may fill.

    Parameters
    ----------
    features : str
        Those of the processor as LLVM writes them, such as ``"+avx2,-avx512f"``.
    """
    found = set(features.split(","))
    if "+avx512f" in found:
        return 64, 32
    if "+avx2" in found:
        return 32, 16
    return 16, 32 if "+neon" in found else 16


def _features() -> str:
    """Return the features of the processor that Numba compiles for."""
    chosen = config.CPU_FEATURES
    return str(binding.get_host_cpu_features().flatten() if chosen is None else chosen)


#: Bytes of a vector register.
BYTES, _COUNT = registers(_features())


def tiles_of(count: int) -> tuple[int, int, int]:
    """Return the rows and vectors a row of a tile, and vectors a row of one of four rows.

    With the operands they fit in the registers, and there are as many sums as two multiply-adds in
    each cycle wait for. Of 16 registers three vectors a row would fill more, and leave more of the
    last one empty: 128 queries were measured to take 1.2 times as long.
    """
    return (8, 2, 4) if count == 32 else (6, 2, 2)


#: Of the tiles that this processor gets.
ROWS, VECTORS, FEW = tiles_of(_COUNT)


@inlined
def height(left: int) -> int:
    """Return the rows of the next tile where so many are left: `ROWS`, four or one.

    Twice four take less time than six and two single ones.
    """
    if left >= ROWS and (ROWS != 6 or left not in (8, 9)):
        return ROWS
    return 4 if left >= 4 else 1


def _lanes(array: Any) -> int:
    """Return how many elements of an array's type one register holds."""
    return int(BYTES // (array.dtype.bitwidth // 8))


def lanes_of(array: Array) -> int:
    """Return how many elements of an array's dtype one register holds."""
    raise NotImplementedError("compiled code only")


@overload(lanes_of, jit_options={"forceinline": True}, strict=False)  # type: ignore[untyped-decorator]
def _lanes_of(array: Any) -> Callable[..., Any]:
    lanes = _lanes(array)
    return lambda array: lanes


# ---------------------------------------------------------------------------- instructions


class _Writer:
    """Writes the instructions of one function, for flat arrays of one dtype."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args
        dtype = signature.args[0].dtype
        self.size = dtype.bitwidth // 8
        self.lanes = _lanes(signature.args[0])
        self.scalar = context.get_value_type(dtype)
        self.vector = ir.VectorType(self.scalar, self.lanes)

    def data(self, number: int, at: Any) -> Any:
        """Return the address of an element of an argument."""
        array = self.context.make_array(self.signature.args[number])
        return self.at(array(self.context, self.builder, self.args[number]).data, at)

    def at(self, base: Any, offset: Any) -> Any:
        if isinstance(offset, int):
            offset = _i64(offset)
        return self.builder.gep(base, [offset])

    def times(self, stride: Any, number: int) -> Any:
        return self.builder.mul(stride, _i64(number))

    def load(self, address: Any, lanes: int | None = None) -> Any:
        kind = self.vector if lanes is None else ir.VectorType(self.scalar, lanes)
        found = self.builder.load(self.builder.bitcast(address, kind.as_pointer()))
        found.align = self.size
        return found

    def widened(self, address: Any, words: str) -> Any:
        """Load 16-bit floats as those of 32 bits."""
        kind = ir.HalfType() if words == "float16" else ir.IntType(16)
        kind = ir.VectorType(kind, self.lanes)
        found = self.builder.load(self.builder.bitcast(address, kind.as_pointer()))
        found.align = 2
        if words == "float16":
            return self.builder.fpext(found, self.vector)
        wide = ir.VectorType(_i32, self.lanes)
        shifts = ir.Constant(wide, [16] * self.lanes)
        found = self.builder.shl(self.builder.zext(found, wide), shifts)
        return self.builder.bitcast(found, self.vector)

    def store(self, value: Any, address: Any) -> None:
        kind = value.type.as_pointer()
        self.builder.store(value, self.builder.bitcast(address, kind)).align = self.size

    def pick(self, a: Any, b: Any, places: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(_i32, len(places)), places)
        return self.builder.shuffle_vector(a, b, mask)

    def spread(self, value: Any) -> Any:
        """Return a vector of one value."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(nothing, value, _i32(0))
        return self.pick(one, nothing, [0] * self.lanes)

    def zero(self) -> Any:
        return ir.Constant(self.vector, [0.0] * self.lanes)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """Return ``a * b + c``, in one instruction where the processor has it."""
        product = self.builder.fmul(a, b, flags=_CONTRACT)
        return self.builder.fadd(product, c, flags=_CONTRACT)

    def loop(
        self, count: Any, step: int, start: list[Any], body: Callable[[Any, list[Any]], list[Any]]
    ) -> list[Any]:
        """Run a body at least once, with values that it takes over from the time before."""
        builder = self.builder
        before = builder.block
        inside, after = (builder.append_basic_block(name) for name in ("tile", "done"))
        builder.branch(inside)
        builder.position_at_end(inside)
        number = builder.phi(_i64)
        number.add_incoming(_i64(0), before)
        held = [builder.phi(value.type) for value in start]
        for phi, value in zip(held, start, strict=True):
            phi.add_incoming(value, before)
        found = body(number, held)
        following = builder.add(number, _i64(step))
        number.add_incoming(following, builder.block)
        for phi, value in zip(held, found, strict=True):
            phi.add_incoming(value, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
        builder.position_at_end(after)
        return found


# ---------------------------------------------------------------------------- products


def fused(rows: int, vectors: int, start: str) -> Callable[..., None]:
    """Make ``tile(c, c_at, c_row, a, a_at, a_row, a_step, b, b_at, b_row, depth, w, w_at)``.

    It puts ``C[i, j] = start + sum(A[i, d] * B[d, j] for d in range(depth))`` for `rows` rows and
    as many columns as `vectors` registers hold. A[i, d] is ``a[a_at + i * a_row + d * a_step]``;
    the elements of a row of B and of C lie side by side. `depth` is at least one.

    Parameters
    ----------
    start : {"zero", "add", "scale"}
        ``C[i, j]`` begins with nothing, with itself, or with itself times ``w[w_at + j]``.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(
        context: Any,
        c: Any,
        c_at: Any,
        c_row: Any,
        a: Any,
        a_at: Any,
        a_row: Any,
        a_step: Any,
        b: Any,
        b_at: Any,
        b_row: Any,
        depth: Any,
        w: Any,
        w_at: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x = _Writer(context, builder, signature, args)
            c_row, a_row, a_step, b_row, depth = (args[n] for n in (2, 5, 6, 9, 10))
            places = [
                [x.at(x.data(0, args[1]), builder.add(x.times(c_row, i), _i64(v * x.lanes)))
                 for v in range(vectors)]
                for i in range(rows)
            ]  # fmt: skip
            row_of_a = [x.at(x.data(3, args[4]), x.times(a_row, i)) for i in range(rows)]
            first_of_b = x.data(7, args[8])
            sums = [x.zero() for _ in range(rows * vectors)]

            def body(_: Any, held: list[Any]) -> list[Any]:
                a_place, b_place, *sums = held
                base = x.at(first_of_b, b_place)
                columns = [x.load(x.at(base, v * x.lanes)) for v in range(vectors)]
                found = []
                for i in range(rows):
                    factor = x.spread(builder.load(x.at(row_of_a[i], a_place)))
                    for v in range(vectors):
                        found.append(x.multiply_add(factor, columns[v], sums[i * vectors + v]))
                return [builder.add(a_place, a_step), builder.add(b_place, b_row), *found]

            _, _, *sums = x.loop(depth, 1, [_i64(0), _i64(0), *sums], body)
            # What there was comes in last: tiles that follow each other, of 100,000 keys, then add
            # up as exactly as a few.
            for i, line in enumerate(places):
                for v, place in enumerate(line):
                    value = sums[i * vectors + v]
                    if start != "zero":
                        before = x.load(place)
                        if start == "scale":
                            factor = x.load(x.data(11, builder.add(args[12], _i64(v * x.lanes))))
                            before = builder.fmul(before, factor)
                        value = builder.fadd(before, value)
                    x.store(value, place)
            return context.get_dummy_value()

        at = types.int64
        return types.void(c, at, at, a, at, at, at, b, at, at, at, w, at), generate

    return tile  # type: ignore[no-any-return]


#: The 16-bit floats whose bits `dots` takes.
WORDS: Final = ("float16", "bfloat16")


def dots(rows: int, words: str = "") -> Callable[..., None]:
    """Make ``tile(c, c_at, c_row, a, a_at, a_row, b, b_at, b_row, depth)``.

    It puts ``C[i, j] = sum(A[i, d] * B[j, d] for d in range(depth))`` for `rows` rows of A (a power
    of two) and as many rows of B that there are ``lanes / rows``, or one. `depth` is a positive
    multiple of the lanes.

    Parameters
    ----------
    words : {"", "float16", "bfloat16"}
        What the bits in B are, where they are not of the dtype of A. Of float16 only where the
        processor `converts_halves`.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(
        context: Any,
        c: Any,
        c_at: Any,
        c_row: Any,
        a: Any,
        a_at: Any,
        a_row: Any,
        b: Any,
        b_at: Any,
        b_row: Any,
        depth: Any,
    ) -> Any:
        columns = max(1, _lanes(c) // rows)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x = _Writer(context, builder, signature, args)
            c_row, a_row, b_row, depth = (args[n] for n in (2, 5, 8, 9))
            row_of_a = [x.at(x.data(3, args[4]), x.times(a_row, i)) for i in range(rows)]
            row_of_b = [x.at(x.data(6, args[7]), x.times(b_row, j)) for j in range(columns)]

            def body(d: Any, sums: list[Any]) -> list[Any]:
                left = [x.load(x.at(place, d)) for place in row_of_a]
                found: list[Any] = [None] * len(sums)
                for j, place in enumerate(row_of_b):
                    at = x.at(place, d)
                    right = x.widened(at, words) if words else x.load(at)
                    for i in range(rows):
                        n = i * columns + j
                        found[n] = x.multiply_add(left[i], right, sums[n])
                return found

            sums = x.loop(depth, x.lanes, [x.zero()] * (rows * columns), body)
            for i, group in enumerate(_halved(x, sums, rows, columns)):
                x.store(group, x.at(x.data(0, args[1]), x.times(c_row, i)))
            return context.get_dummy_value()

        at = types.int64
        return types.void(c, at, at, a, at, at, b, at, at, at), generate

    return tile  # type: ignore[no-any-return]


@intrinsic  # type: ignore[untyped-decorator]
def dots_in_order(
    context: Any, c: Any, c_at: Any, a: Any, a_at: Any, b: Any, b_at: Any, b_row: Any, depth: Any
) -> Any:
    """Put ``C[j] = sum(A[d] * B[j, d] for d in range(depth))``, for as many j as there are lanes.

    As `dots` of one row, but that rows of B are read one after the other, each by the same few
    instructions: by these the processor foresees what is read next. From memory a Zen 4 takes 1.4
    to 1.9 times as much.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x = _Writer(context, builder, signature, args)
        row, first = x.data(2, args[3]), x.data(4, args[5])
        sums = cgutils.alloca_once(builder, x.vector, size=_i32(x.lanes))

        def line(j: Any, _: list[Any]) -> list[Any]:
            place = x.at(first, builder.mul(args[6], j))

            def term(d: Any, held: list[Any]) -> list[Any]:
                return [x.multiply_add(x.load(x.at(row, d)), x.load(x.at(place, d)), held[0])]

            (total,) = x.loop(args[7], x.lanes, [x.zero()], term)
            builder.store(total, x.at(sums, j))
            return []

        x.loop(_i64(x.lanes), 1, [], line)
        found = [builder.load(x.at(sums, j)) for j in range(x.lanes)]
        x.store(_halved(x, found, 1, x.lanes)[0], x.data(0, args[1]))
        return context.get_dummy_value()

    at = types.int64
    return types.void(c, at, a, at, b, at, at, at), generate


def weighed(rows: int, *, halves: bool) -> Callable[..., None]:
    """Make a tile of a vector with rows of small integers, each group of which has its scale.

    ``tile(c, c_at, a, a_at, a_high, b, b_at, b_row, s, s_at, s_row, groups, step)`` puts a register
    of sums into C for each of `rows` rows; together they are ``sum(S[i, g] * part(i, g) for g in
    range(groups))``, of which each part is ``sum(A[j] * B[i, j] for j in range(g * step, (g + 1) *
    step))``. `step` is a positive multiple of the lanes.

    Parameters
    ----------
    halves : bool
        Whether B has bytes of two integers, each eight more than it means; the upper ones are
        multiplied by the elements of A from `a_high` on. Else B has signed integers, and `a_high`
        is not read.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(
        context: Any,
        c: Any,
        c_at: Any,
        a: Any,
        a_at: Any,
        a_high: Any,
        b: Any,
        b_at: Any,
        b_row: Any,
        s: Any,
        s_at: Any,
        s_row: Any,
        groups: Any,
        step: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x = _Writer(context, builder, signature, args)
            groups, step = args[11], args[12]
            words, wide = (ir.VectorType(ir.IntType(bits), x.lanes) for bits in (8, 32))
            low, high = x.data(2, args[3]), x.data(2, args[4])
            row_of_b = [x.at(x.data(5, args[6]), x.times(args[7], i)) for i in range(rows)]
            row_of_s = [x.at(x.data(8, args[9]), x.times(args[10], i)) for i in range(rows)]

            def integers(count: int) -> Any:
                return ir.Constant(wide, [count] * x.lanes)

            def floats(found: Any) -> Any:
                return builder.sitofp(found, x.vector)

            def group(g: Any, totals: list[Any]) -> list[Any]:
                start = builder.mul(g, step)

                def term(j: Any, sums: list[Any]) -> list[Any]:
                    at = builder.add(start, j)
                    left = x.load(x.at(low, at))
                    upper = x.load(x.at(high, at)) if halves else None
                    found = []
                    for row, total in zip(row_of_b, sums, strict=True):
                        word = builder.load(builder.bitcast(x.at(row, at), words.as_pointer()))
                        word.align = 1
                        if halves:
                            word = builder.zext(word, wide)
                            above = builder.sub(builder.lshr(word, integers(4)), integers(8))
                            total = x.multiply_add(floats(above), upper, total)
                            word = builder.sub(builder.and_(word, integers(15)), integers(8))
                        else:
                            word = builder.sext(word, wide)
                        found.append(x.multiply_add(floats(word), left, total))
                    return found

                sums = x.loop(step, x.lanes, [x.zero()] * rows, term)
                scales = [x.spread(builder.load(x.at(row, g))) for row in row_of_s]
                return [x.multiply_add(*each) for each in zip(sums, scales, totals, strict=True)]

            for i, total in enumerate(x.loop(groups, 1, [x.zero()] * rows, group)):
                x.store(total, x.at(x.data(0, args[1]), i * x.lanes))
            return context.get_dummy_value()

        at = types.int64
        return types.void(c, at, a, at, at, b, at, at, s, at, at, at, at), generate

    return tile  # type: ignore[no-any-return]


def _halved(x: _Writer, sums: list[Any], rows: int, columns: int) -> list[Any]:
    """Add up the lanes of each vector, and return the sums by rows.

    Two vectors become one of the sums of neighbours, until each lane is a sum; this takes a third
    of the instructions that it takes to add up one after the other.
    """
    even, odd = ([2 * n + k for n in range(x.lanes)] for k in (0, 1))
    width = x.lanes
    while width > 1:
        pairs = zip(sums[::2], sums[1::2])
        sums = [x.builder.fadd(x.pick(a, b, even), x.pick(a, b, odd)) for a, b in pairs]
        width //= 2
    found = []
    for i in range(rows):
        which, place = divmod(i * columns, x.lanes)
        found.append(x.pick(sums[which], sums[which], [place + j for j in range(columns)]))
    return found


@intrinsic  # type: ignore[untyped-decorator]
def flip(context: Any, c: Any, c_at: Any, c_row: Any, a: Any, a_at: Any, a_row: Any) -> Any:
    """Put ``C[i, j] = A[j, i]`` for a square of as many rows as there are lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x = _Writer(context, builder, signature, args)
        lanes, half = x.lanes, x.lanes // 2
        source, target = x.data(3, args[4]), x.data(0, args[1])
        lines = [x.load(x.at(source, x.times(args[5], i))) for i in range(lanes)]
        low = [n // 2 + n % 2 * lanes for n in range(lanes)]
        high = [n + half for n in low]
        for _ in range(lanes.bit_length() - 1):  # each time two halves mingle like a pack of cards
            pairs = list(zip(lines[:half], lines[half:]))
            lines = [x.pick(a, b, places) for a, b in pairs for places in (low, high)]
        for i, line in enumerate(lines):
            x.store(line, x.at(target, x.times(args[2], i)))
        return context.get_dummy_value()

    at = types.int64
    return types.void(c, at, at, a, at, at), generate
