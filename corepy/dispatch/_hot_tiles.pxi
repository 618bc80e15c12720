# Operands that lie in memory in another order than the result, as a matrix beside its transpose.
# Included by _hot_compiled.pyx.
#
# Along a row of the result such an operand's elements stand far from each other, each in a line of
# the cache whose rest is for the rows that follow. So some elements of some rows are taken at once.

cdef extern from *:
    """
    /* Copy rows of items, whose columns stand side by side, to where the rows do. */
    #define COREPY_TURN(NAME, ITEM) \\
        static void NAME( \\
            ITEM* COREPY_ONLY into, ptrdiff_t pitch, const char* COREPY_ONLY from, \\
            ptrdiff_t rows, ptrdiff_t apart, ptrdiff_t count, ptrdiff_t step \\
        ) { \\
            /* Of bytes this takes three fifths of the time of the other loop. */ \\
            if (apart == sizeof(ITEM)) { \\
                for (ptrdiff_t i = 0; i < count; i++) { \\
                    const ITEM* column = (const ITEM*)(from + i * step); \\
                    for (ptrdiff_t j = 0; j < rows; j++) into[j * pitch + i] = column[j]; \\
                } \\
            } else { \\
                for (ptrdiff_t i = 0; i < count; i++) { \\
                    const char* column = from + i * step; \\
                    for (ptrdiff_t j = 0; j < rows; j++) { \\
                        into[j * pitch + i] = *(const ITEM*)(column + j * apart); \\
                    } \\
                } \\
            } \\
        }
    COREPY_OF_EACH_SIZE(COREPY_TURN, corepy_turn)

    /* By squares of registers, as far as these go. */
    #ifdef __SSE2__
    #define COREPY_TURNS_SQUARES 1
    #include <emmintrin.h>
    static inline void corepy_turn_square_8(
        corepy_item_of_8* into, ptrdiff_t pitch, const char* from, ptrdiff_t step
    ) {
        const __m128i x = _mm_loadu_si128((const __m128i*)from);
        const __m128i y = _mm_loadu_si128((const __m128i*)(from + step));
        _mm_storeu_si128((__m128i*)into, _mm_unpacklo_epi64(x, y));
        _mm_storeu_si128((__m128i*)(into + pitch), _mm_unpackhi_epi64(x, y));
    }
    static inline void corepy_turn_square_4(
        uint32_t* into, ptrdiff_t pitch, const char* from, ptrdiff_t step
    ) {
        __m128 rows[4];
        for (int k = 0; k < 4; k++) rows[k] = _mm_loadu_ps((const float*)(from + k * step));
        _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
        for (int k = 0; k < 4; k++) _mm_storeu_ps((float*)into + k * pitch, rows[k]);
    }
    static inline void corepy_turn_square_1(
        uint8_t* into, ptrdiff_t pitch, const char* from, ptrdiff_t step
    ) {
        __m128i x[8], y[4];
        for (int k = 0; k < 8; k++) x[k] = _mm_loadl_epi64((const __m128i*)(from + k * step));
        for (int k = 0; k < 4; k++) y[k] = _mm_unpacklo_epi8(x[2 * k], x[2 * k + 1]);
        for (int k = 0; k < 2; k++) {
            x[k] = _mm_unpacklo_epi16(y[2 * k], y[2 * k + 1]);
            x[k + 2] = _mm_unpackhi_epi16(y[2 * k], y[2 * k + 1]);
        }
        for (int k = 0; k < 2; k++) {
            y[2 * k] = _mm_unpacklo_epi32(x[2 * k], x[2 * k + 1]);
            y[2 * k + 1] = _mm_unpackhi_epi32(x[2 * k], x[2 * k + 1]);
        }
        for (int k = 0; k < 4; k++) {
            _mm_storel_epi64((__m128i*)(into + 2 * k * pitch), y[k]);
            _mm_storel_epi64(
                (__m128i*)(into + (2 * k + 1) * pitch), _mm_unpackhi_epi64(y[k], y[k]));
        }
    }
    #define COREPY_TURN_SQUARES(SIZE, ITEM, SIDE) \\
        static void corepy_turn_squares_##SIZE( \\
            ITEM* into, ptrdiff_t pitch, \\
            const char* from, ptrdiff_t rows, ptrdiff_t count, ptrdiff_t step \\
        ) { \\
            const ptrdiff_t square = rows / SIDE * SIDE, whole = count / SIDE * SIDE; \\
            for (ptrdiff_t i = 0; i < whole; i += SIDE) { \\
                for (ptrdiff_t j = 0; j < square; j += SIDE) { \\
                    corepy_turn_square_##SIZE( \\
                        into + j * pitch + i, pitch, from + i * step + j * SIZE, step); \\
                } \\
            } \\
            for (ptrdiff_t i = 0; i < count; i++) { \\
                const ITEM* column = (const ITEM*)(from + i * step); \\
                for (ptrdiff_t j = i < whole ? square : 0; j < rows; j++) { \\
                    into[j * pitch + i] = column[j]; \\
                } \\
            } \\
        }
    COREPY_TURN_SQUARES(1, uint8_t, 8)
    COREPY_TURN_SQUARES(4, uint32_t, 4)
    COREPY_TURN_SQUARES(8, corepy_item_of_8, 2)
    #else
    #define COREPY_TURNS_SQUARES 0
    #define corepy_turn_squares_1(into, pitch, from, rows, count, step) ((void)0)
    #define corepy_turn_squares_4(into, pitch, from, rows, count, step) ((void)0)
    #define corepy_turn_squares_8(into, pitch, from, rows, count, step) ((void)0)
    #endif

    static void corepy_turn(
        void* into, ptrdiff_t pitch, const char* from,
        ptrdiff_t rows, ptrdiff_t apart, ptrdiff_t count, ptrdiff_t step, ptrdiff_t size
    ) {
        const int squares = COREPY_TURNS_SQUARES && size == apart;
        if (squares && size == 8) {
            corepy_turn_squares_8(into, pitch, from, rows, count, step);
        } else if (squares && size == 4) {
            corepy_turn_squares_4((uint32_t*)into, pitch, from, rows, count, step);
        } else if (squares && size == 1) {
            corepy_turn_squares_1((uint8_t*)into, pitch, from, rows, count, step);
        } else if (size == 8) corepy_turn_8(into, pitch, from, rows, apart, count, step);
        else if (size == 4) corepy_turn_4((uint32_t*)into, pitch, from, rows, apart, count, step);
        else if (size == 1) corepy_turn_1((uint8_t*)into, pitch, from, rows, apart, count, step);
        else if (size == 2) corepy_turn_2((uint16_t*)into, pitch, from, rows, apart, count, step);
        else corepy_turn_16((corepy_item_of_16*)into, pitch, from, rows, apart, count, step);
    }
    """
    void corepy_turn(
        void*, npy_intp, const char*, npy_intp, npy_intp, npy_intp, npy_intp, npy_intp
    ) noexcept nogil


cdef enum:
    TILE_ROWS = 16
    FAR_TILE_ROWS = 32  # where each that is begun is another page, and what is read is in no cache
    TILE = 2048  # items of 8 bytes
    SAME_LINES = 2048  # bytes after which lines of the cache take each other's place


cdef int _find_tiles(Work* work) noexcept:
    """Have a result made by tiles, where an operand lies side by side along another axis than it."""
    cdef Grid* grid = work.grid
    cdef int last = grid.ndim - 1, across = -1, k, i
    cdef npy_intp step, least
    for k in range(work.count - 1):
        step = least = llabs(grid.strides[k][last])
        if step <= work.steps[k] or across >= 0:
            continue
        for i in range(last):
            if 0 < llabs(grid.strides[k][i]) < least:
                least, across = llabs(grid.strides[k][i]), i
    if across < 0:
        return 0
    for k in range(work.count - 1):
        if llabs(grid.strides[k][last]) > llabs(grid.strides[k][across]) > 0:
            work.forms[k] = PACKED
    step = 1
    for k in range(work.count):
        step = max(step, work.steps[k])
    grid.rows = FAR_TILE_ROWS if work.past_caches else TILE_ROWS
    grid.columns = 8 * TILE // (grid.rows * step)
    grid.across = across
    work.stretch = _tiles_stretch
    work.rows = work.size // grid.dims[last] // grid.dims[across]
    work.rows *= (grid.dims[last] + grid.columns - 1) // grid.columns
    work.rows *= (grid.dims[across] + grid.rows - 1) // grid.rows
    return 0


cdef inline npy_intp _locate_tile(Grid* grid, npy_intp tile, npy_intp* index) noexcept nogil:
    """Find where along each axis a tile begins, and return how many rows it has."""
    cdef npy_intp rest = tile, number
    cdef int last = grid.ndim - 1, across = grid.across, i
    number = (grid.dims[last] + grid.columns - 1) // grid.columns
    index[last] = rest % number * grid.columns
    rest //= number
    number = (grid.dims[across] + grid.rows - 1) // grid.rows
    index[across] = rest % number * grid.rows
    rest //= number
    for i in range(last - 1, -1, -1):
        if i != across:
            index[i] = rest % grid.dims[i]
            rest //= grid.dims[i]
    return min(grid.rows, grid.dims[across] - index[across])


cdef inline bint _turns_into_place(Work* work) noexcept nogil:
    """Say whether tiles are copied, and are as well turned where they go as beside it.

    They are not where all their rows go to the same few lines of the cache.
    """
    cdef Grid* grid = work.grid
    cdef npy_intp pitch = grid.strides[1][grid.across]
    if work.loop != corepy_copy_items or work.forms[0] != PACKED or work.past_caches:
        return False
    return pitch % work.steps[0] == 0 and pitch % SAME_LINES != 0


cdef void _tiles_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Compute some tiles of a result."""
    cdef double some[TILE]
    cdef double beside[OPERANDS - 1][TILE]
    cdef char** packed = [<char*>beside[0], <char*>beside[1], <char*>beside[2]]
    cdef char* operands[OPERANDS]
    cdef npy_intp steps[OPERANDS]
    cdef npy_intp apart[OPERANDS]
    cdef npy_intp index[AXES]
    cdef Grid* grid = work.grid
    cdef int result = work.count - 1, last = grid.ndim - 1, across = grid.across, k
    cdef npy_intp tile, rows, row, count, step
    cdef bint copies = _turns_into_place(work)
    cdef char* place
    cdef char* into
    for tile in range(start, stop):
        rows = _locate_tile(grid, tile, index)
        count = min(grid.columns, grid.dims[last] - index[last])
        if copies:
            corepy_turn(
                _placed(work, 1, index),
                grid.strides[1][across] // work.steps[0],
                _placed(work, 0, index),
                rows,
                grid.strides[0][across],
                count,
                grid.strides[0][last],
                work.steps[0],
            )
            continue
        for k in range(result + 1):
            operands[k] = place = _placed(work, k, index)
            steps[k] = step = grid.strides[k][last]
            apart[k] = grid.strides[k][across]
            if k == result or work.forms[k] != PACKED:
                continue
            if llabs(step) > llabs(apart[k]) > 0:
                corepy_turn(packed[k], count, place, rows, apart[k], count, step, work.steps[k])
            else:
                corepy_pack(packed[k], place, rows, apart[k], count, step, work.steps[k])
            operands[k], steps[k], apart[k] = packed[k], work.steps[k], count * work.steps[k]
        for row in range(rows):
            if not work.past_caches:
                work.loop(operands, &count, steps, work.data)
            else:
                into = operands[result]
                operands[result] = <char*>some
                work.loop(operands, &count, steps, work.data)
                _copy_past_caches(into, <char*>some, count * steps[result])
                operands[result] = into
            for k in range(result + 1):
                operands[k] += apart[k]
    if work.past_caches:
        corepy_streamed()
