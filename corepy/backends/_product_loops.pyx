# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Products of matrices and vectors that BLAS does not have, or shares among its threads.

Rows multiplied by a number each and added up are a vector times a matrix, which BLAS computes in
all its threads from some 9,000 elements on, and in one for as many of them as threads of ours take
at a time; but only where these are whole rows. So are rows whose elements are multiplied by those of
a vector: four at a time, for memory gives these in two thirds of what it takes for one after the
other, and BLAS gets two rows of 4,096 elements at a time.

BLAS has no integers, which NumPy multiplies one by one, along columns. Here registers hold products
for four rows and for neighbouring columns; what overflows wraps around as in NumPy.
`corepy.backends._numpy_loops` says what these loops are used for.
"""

from libc.stdint cimport uintptr_t

__all__ = [
    *("DOTTED", "DOTTED_BY_WIDTH", "INTEGERS", "INTEGERS_BY_WIDTH", "SOURCE"),
    *("WEIGHTED", "WEIGHTED_BY_WIDTH", "WIDTHS"),
]


include "_targets.pxi"


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    enum { COREPY_TILE = 16384 };  /* bytes of results that stay in the first cache */

    /* A loop by a dtype's name; whoever asks for it knows what it takes. */
    typedef void (*corepy_any)(void);
    typedef struct { const char* dtype; corepy_any loop; } corepy_of_dtype;

    /* Rows, each times its weight, into results that are there already. */
    #define COREPY_TERM(K) value += w##K * from[i + (K) * step];
    #define COREPY_HEAVY(ITEM, K) const ITEM w##K = weights[(K) * apart];
    #define COREPY_WEIGHED(NAME, ITEM, TARGET) \\
        TARGET COREPY_APART static void NAME##_run( \\
            ITEM* COREPY_ONLY into, const ITEM* COREPY_ONLY from, const ITEM* COREPY_ONLY weights, \\
            ptrdiff_t rows, ptrdiff_t step, ptrdiff_t apart, ptrdiff_t columns \\
        ) { \\
            for (; rows >= 8; rows -= 8, from += 8 * step, weights += 8 * apart) { \\
                COREPY_HEAVY(ITEM, 0) COREPY_HEAVY(ITEM, 1) COREPY_HEAVY(ITEM, 2) \\
                COREPY_HEAVY(ITEM, 3) COREPY_HEAVY(ITEM, 4) COREPY_HEAVY(ITEM, 5) \\
                COREPY_HEAVY(ITEM, 6) COREPY_HEAVY(ITEM, 7) \\
                for (ptrdiff_t i = 0; i < columns; i++) { \\
                    ITEM value = into[i]; \\
                    COREPY_TERM(0) COREPY_TERM(1) COREPY_TERM(2) COREPY_TERM(3) \\
                    COREPY_TERM(4) COREPY_TERM(5) COREPY_TERM(6) COREPY_TERM(7) \\
                    into[i] = value; \\
                } \\
            } \\
            for (; rows; rows--, from += step, weights += apart) { \\
                COREPY_HEAVY(ITEM, 0) \\
                for (ptrdiff_t i = 0; i < columns; i++) into[i] += w0 * from[i]; \\
            } \\
        } \\
        static void NAME( \\
            void* results, const void* source, const void* weights, ptrdiff_t rows, \\
            ptrdiff_t step, ptrdiff_t apart, ptrdiff_t columns \\
        ) { \\
            const ptrdiff_t tile = COREPY_TILE / (ptrdiff_t)sizeof(ITEM); \\
            for (ptrdiff_t i = 0; i < columns; i += tile) { \\
                NAME##_run((ITEM*)results + i, (const ITEM*)source + i, (const ITEM*)weights, \\
                    rows, step, apart, columns - i < tile ? columns - i : tile); \\
            } \\
        }

    /* Rows times a vector each: ROWS of them at once, in lanes that are added up PART by PART. Their
       bits do not depend on how many there are. */
    enum { COREPY_PART = 4096 };
    #define COREPY_DOT_ROWS(NAME, ITEM, ROWS, TARGET) \\
        TARGET COREPY_APART static void NAME##_##ROWS( \\
            ITEM* COREPY_ONLY into, const ITEM* COREPY_ONLY from, const ITEM* COREPY_ONLY x, \\
            ptrdiff_t step, ptrdiff_t size \\
        ) { \\
            enum { LANES = sizeof(NAME##_vector) / sizeof(ITEM) }; \\
            ITEM total[ROWS] = {0}; \\
            int r, k; \\
            for (ptrdiff_t first = 0; first < size; first += COREPY_PART) { \\
                const ptrdiff_t end = size - first < COREPY_PART ? size : first + COREPY_PART; \\
                NAME##_vector sums[ROWS], more[ROWS]; \\
                ptrdiff_t i = first; \\
                for (r = 0; r < ROWS; r++) sums[r] = more[r] = (NAME##_vector){0}; \\
                for (; i + 2 * LANES <= end; i += 2 * LANES) { \\
                    const NAME##_vector one = *(const NAME##_vector*)(x + i); \\
                    const NAME##_vector other = *(const NAME##_vector*)(x + i + LANES); \\
                    for (r = 0; r < ROWS; r++) { \\
                        sums[r] += one * *(const NAME##_vector*)(from + r * step + i); \\
                        more[r] += other * *(const NAME##_vector*)(from + r * step + i + LANES); \\
                    } \\
                } \\
                for (r = 0; r < ROWS; r++) { \\
                    ITEM lanes[LANES], value = 0; \\
                    sums[r] += more[r]; \\
                    memcpy(lanes, &sums[r], sizeof lanes); \\
                    for (int apart = LANES / 2; apart; apart /= 2) { \\
                        for (k = 0; k < apart; k++) lanes[k] += lanes[k + apart]; \\
                    } \\
                    for (ptrdiff_t j = i; j < end; j++) value += x[j] * from[r * step + j]; \\
                    total[r] += lanes[0] + value; \\
                } \\
            } \\
            for (r = 0; r < ROWS; r++) into[r] = total[r]; \\
        }
    #define COREPY_DOTTED(NAME, ITEM, BYTES, TARGET) \\
        typedef ITEM NAME##_vector __attribute__((vector_size(BYTES), aligned(sizeof(ITEM)))); \\
        COREPY_DOT_ROWS(NAME, ITEM, 4, TARGET) \\
        COREPY_DOT_ROWS(NAME, ITEM, 1, TARGET) \\
        static void NAME( \\
            void* results, const void* source, const void* vector, ptrdiff_t rows, \\
            ptrdiff_t step, ptrdiff_t size \\
        ) { \\
            ITEM* into = (ITEM*)results; \\
            const ITEM* from = (const ITEM*)source; \\
            const ITEM* x = (const ITEM*)vector; \\
            for (; rows >= 4; rows -= 4, into += 4, from += 4 * step) { \\
                NAME##_4(into, from, x, step, size); \\
            } \\
            for (; rows; rows--, into++, from += step) NAME##_1(into, from, x, step, size); \\
        }
    #if defined(__GNUC__)
    #define COREPY_ALL_DOTTED(W, TARGET) \\
        COREPY_DOTTED(corepy_dot_double_##W, double, W, TARGET) \\
        COREPY_DOTTED(corepy_dot_float_##W, float, W, TARGET) \\
        static const corepy_of_dtype corepy_dotting_##W[] = { \\
            {"float64", (corepy_any)corepy_dot_double_##W}, \\
            {"float32", (corepy_any)corepy_dot_float_##W}, \\
            {NULL, NULL} \\
        };
    #else  /* whose compiler keeps the lanes in memory */
    #define COREPY_ALL_DOTTED(W, TARGET) \\
        static const corepy_of_dtype corepy_dotting_##W[] = { {NULL, NULL} };
    #endif
    COREPY_ALL_DOTTED(16, )
    #ifdef COREPY_VARIANTS
    COREPY_ALL_DOTTED(32, COREPY_AVX2_FUSED)
    COREPY_ALL_DOTTED(64, COREPY_AVX512)
    #endif

    /* Integers. A tile of a product is ROWS rows of VECTORS registers, of numbers that are multiplied
       by the rows of a panel, which are that wide. */
    enum { COREPY_DEEP = 128, COREPY_SMALL = 64, COREPY_VECTOR = 1024 };
    /* Up to so many results, which fill no register, are found by themselves: to pack a panel takes as
       long. So many products at a time, whose operands are in the first cache for the next result. */
    enum { COREPY_THIN = 6, COREPY_PASS = 512 };
    /* Products of a sum from which registers pay. */
    enum { COREPY_SUMMED = 5 };
    #define COREPY_AT(ITEM, BASE, OFFSET) (*(ITEM*)((char*)(BASE) + (OFFSET)))
    #define COREPY_TIMES(ITEM, A, B) ((ITEM)((uint64_t)(A) * (uint64_t)(B)))
    #define COREPY_PRODUCT(ITEM, K) \\
        ((uint64_t)COREPY_AT(const ITEM, x, (K) * step) * COREPY_AT(const ITEM, y, (K) * other))
    #define COREPY_INTEGER_TILE(NAME, ITEM, ROWS, VECTORS, TARGET) \\
        TARGET COREPY_APART static void NAME##_tile_##ROWS##_##VECTORS( \\
            const NAME##_matrix* into, ptrdiff_t width, int begun, const NAME##_matrix* left, \\
            const NAME##_matrix* panel, ptrdiff_t deep \\
        ) { \\
            enum { LANES = sizeof(NAME##_vector) / sizeof(ITEM) }; \\
            NAME##_vector sums[ROWS][VECTORS]; \\
            ITEM found[ROWS][VECTORS * LANES]; \\
            const char* weights = left->data; \\
            const char* from = panel->data; \\
            int r, v; \\
            for (r = 0; r < ROWS; r++) { \\
                for (v = 0; v < VECTORS; v++) sums[r][v] = (NAME##_vector){0}; \\
            } \\
            for (ptrdiff_t k = 0; k < deep; k++, weights += left->column, from += panel->row) { \\
                for (r = 0; r < ROWS; r++) { \\
                    const ITEM weight = COREPY_AT(const ITEM, weights, r * left->row); \\
                    for (v = 0; v < VECTORS; v++) { \\
                        sums[r][v] += ((const NAME##_vector*)from)[v] * weight; \\
                    } \\
                } \\
            } \\
            if (!begun && width == VECTORS * LANES && into->column == sizeof(ITEM)) { \\
                for (r = 0; r < ROWS; r++) { \\
                    memcpy(into->data + r * into->row, sums[r], sizeof sums[r]); \\
                } \\
                return; \\
            } \\
            memcpy(found, sums, sizeof found); \\
            for (r = 0; r < ROWS; r++) { \\
                char* to = into->data + r * into->row; \\
                ptrdiff_t i = 0; \\
                for (; into->column == sizeof(ITEM) && i + LANES <= width; i += LANES) { \\
                    const NAME##_vector some = *(const NAME##_vector*)(found[r] + i); \\
                    NAME##_vector* next = (NAME##_vector*)((ITEM*)to + i); \\
                    *next = begun ? *next + some : some; \\
                } \\
                for (; i < width; i++) { \\
                    ITEM* next = &COREPY_AT(ITEM, to, i * into->column); \\
                    *next = begun ? (ITEM)(*next + found[r][i]) : found[r][i]; \\
                } \\
            } \\
        }
    #define COREPY_INTEGERS(NAME, ITEM, BYTES, TARGET) \\
        typedef ITEM NAME##_vector __attribute__((vector_size(BYTES), aligned(sizeof(ITEM)))); \\
        typedef struct { char* data; ptrdiff_t row, column; } NAME##_matrix; \\
        COREPY_INTEGER_TILE(NAME, ITEM, 4, 2, TARGET) \\
        COREPY_INTEGER_TILE(NAME, ITEM, 4, 1, TARGET) \\
        COREPY_INTEGER_TILE(NAME, ITEM, 1, 2, TARGET) \\
        COREPY_INTEGER_TILE(NAME, ITEM, 1, 1, TARGET) \\
        /* Numbers side by side, times others. */ \\
        TARGET static ITEM NAME##_dot(const ITEM* x, const ITEM* y, ptrdiff_t size) { \\
            enum { LANES = sizeof(NAME##_vector) / sizeof(ITEM) }; \\
            NAME##_vector sums[4]; \\
            ITEM lanes[LANES], value = 0; \\
            ptrdiff_t i = 0; \\
            int v; \\
            for (v = 0; v < 4; v++) sums[v] = (NAME##_vector){0}; \\
            for (; i + 4 * LANES <= size; i += 4 * LANES) { \\
                for (v = 0; v < 4; v++) { \\
                    sums[v] += *(const NAME##_vector*)(x + i + v * LANES) \\
                        * *(const NAME##_vector*)(y + i + v * LANES); \\
                } \\
            } \\
            for (; i + LANES <= size; i += LANES) { \\
                sums[0] += *(const NAME##_vector*)(x + i) * *(const NAME##_vector*)(y + i); \\
            } \\
            sums[0] += sums[1] + sums[2] + sums[3]; \\
            memcpy(lanes, &sums[0], sizeof lanes); \\
            for (v = 0; v < LANES; v++) value += lanes[v]; \\
            for (; i < size; i++) value += COREPY_TIMES(ITEM, x[i], y[i]); \\
            return value; \\
        } \\
        /* The same of numbers with gaps. */ \\
        static inline ITEM NAME##_sum( \\
            const char* x, ptrdiff_t step, const char* y, ptrdiff_t other, ptrdiff_t size \\
        ) { \\
            uint64_t value = 0, more = 0; \\
            for (; size >= 4; size -= 4, x += 4 * step, y += 4 * other) { \\
                value += COREPY_PRODUCT(ITEM, 0) + COREPY_PRODUCT(ITEM, 1); \\
                more += COREPY_PRODUCT(ITEM, 2) + COREPY_PRODUCT(ITEM, 3); \\
            } \\
            for (; size; size--, x += step, y += other) value += COREPY_PRODUCT(ITEM, 0); \\
            return (ITEM)(value + more); \\
        } \\
        /* Rows of numbers side by side, times a vector with gaps or without. */ \\
        static void NAME##_rows( \\
            char* into, ptrdiff_t next, const NAME##_matrix* rows, ptrdiff_t count, \\
            const char* vector, ptrdiff_t step, ptrdiff_t size \\
        ) { \\
            const int packs = step != sizeof(ITEM); \\
            const ptrdiff_t most = packs ? COREPY_VECTOR : size; \\
            ITEM packed[COREPY_VECTOR]; \\
            if (packs && count == 1) { \\
                *(ITEM*)into = NAME##_sum(rows->data, sizeof(ITEM), vector, step, size); \\
                return; \\
            } \\
            for (ptrdiff_t first = 0; first < size; first += most) { \\
                const ptrdiff_t part = size - first < most ? size - first : most; \\
                const ITEM* x = (const ITEM*)vector + first; \\
                if (packs) { \\
                    for (ptrdiff_t i = 0; i < part; i++) { \\
                        packed[i] = COREPY_AT(const ITEM, vector, (first + i) * step); \\
                    } \\
                    x = packed; \\
                } \\
                for (ptrdiff_t r = 0; r < count; r++) { \\
                    const ITEM* from = (const ITEM*)(rows->data + r * rows->row) + first; \\
                    ITEM* to = &COREPY_AT(ITEM, into, r * next); \\
                    const ITEM value = NAME##_dot(from, x, part); \\
                    *to = first ? (ITEM)(*to + value) : value; \\
                } \\
            } \\
        } \\
        static void NAME##_pack( \\
            ITEM* to, ptrdiff_t lanes, const NAME##_matrix* from, ptrdiff_t deep, ptrdiff_t width \\
        ) { \\
            if (width < lanes) memset(to, 0, deep * lanes * sizeof(ITEM)); \\
            if (from->column == sizeof(ITEM)) { \\
                for (ptrdiff_t k = 0; k < deep; k++, to += lanes) { \\
                    memcpy(to, from->data + k * from->row, width * sizeof(ITEM)); \\
                } \\
                return; \\
            } \\
            for (ptrdiff_t i = 0; i < width; i++) { \\
                const char* next = from->data + i * from->column; \\
                for (ptrdiff_t k = 0; k < deep; k++, next += from->row) { \\
                    to[k * lanes + i] = *(const ITEM*)next; \\
                } \\
            } \\
        } \\
        /* Panel by panel, of columns side by side. */ \\
        static void NAME##_panels( \\
            const NAME##_matrix* into, const NAME##_matrix* x, const NAME##_matrix* y, \\
            ptrdiff_t rows, ptrdiff_t deep, ptrdiff_t columns \\
        ) { \\
            enum { LANES = sizeof(NAME##_vector) / sizeof(ITEM) }; \\
            ITEM packed[COREPY_DEEP * 2 * LANES] __attribute__((aligned(64))); \\
            for (ptrdiff_t first = 0; first < deep; first += COREPY_DEEP) { \\
                const ptrdiff_t part = deep - first < COREPY_DEEP ? deep - first : COREPY_DEEP; \\
                for (ptrdiff_t i = 0; i < columns; i += 2 * LANES) { \\
                    const ptrdiff_t width = columns - i < 2 * LANES ? columns - i : 2 * LANES; \\
                    const int single = width <= LANES; \\
                    const ptrdiff_t lanes = single ? LANES : 2 * LANES; \\
                    NAME##_matrix panel = { \\
                        y->data + first * y->row + i * y->column, y->row, y->column \\
                    }; \\
                    NAME##_matrix left = {x->data + first * x->column, x->row, x->column}; \\
                    NAME##_matrix to = {into->data + i * into->column, into->row, into->column}; \\
                    if (rows > 4 || width < lanes || panel.column != sizeof(ITEM)) { \\
                        NAME##_pack(packed, lanes, &panel, part, width); \\
                        panel.data = (char*)packed; \\
                        panel.row = lanes * sizeof(ITEM); \\
                    } \\
                    ptrdiff_t r = 0; \\
                    for (; r + 4 <= rows; r += 4, to.data += 4 * to.row, left.data += 4 * left.row) { \\
                        (single ? NAME##_tile_4_1 : NAME##_tile_4_2)( \\
                            &to, width, first > 0, &left, &panel, part); \\
                    } \\
                    for (; r < rows; r++, to.data += to.row, left.data += left.row) { \\
                        (single ? NAME##_tile_1_1 : NAME##_tile_1_2)( \\
                            &to, width, first > 0, &left, &panel, part); \\
                    } \\
                } \\
            } \\
        } \\
        static void NAME##_product( \\
            const NAME##_matrix* into, const NAME##_matrix* x, const NAME##_matrix* y, \\
            ptrdiff_t rows, ptrdiff_t deep, ptrdiff_t columns \\
        ) { \\
            enum { LANES = sizeof(NAME##_vector) / sizeof(ITEM) }; \\
            const int few = deep < 4 * LANES ? 1 : 3 * LANES / 4; \\
            const int thin = rows < LANES && columns < LANES && rows * columns <= COREPY_THIN; \\
            const int rows_lie = x->column == sizeof(ITEM) && columns <= few; \\
            const int by_rows = rows_lie && (thin || columns <= rows); \\
            const int by_columns = rows <= few && y->row == sizeof(ITEM); \\
            const int side_by_side = (by_rows || by_columns) && deep >= COREPY_SUMMED; \\
            const NAME##_matrix left = {x->data, x->column, x->row}; \\
            const NAME##_matrix right = {y->data, y->column, y->row}; \\
            const NAME##_matrix across = {into->data, into->column, into->row}; \\
            if (side_by_side && by_rows) { \\
                for (ptrdiff_t i = 0; i < columns; i++) { \\
                    NAME##_rows(into->data + i * into->column, into->row, x, rows, \\
                        y->data + i * y->column, y->row, deep); \\
                } \\
            } else if (side_by_side) { \\
                for (ptrdiff_t r = 0; r < rows; r++) { \\
                    NAME##_rows(into->data + r * into->row, into->column, &right, columns, \\
                        x->data + r * x->row, x->column, deep); \\
                } \\
            } else if (thin || by_rows || by_columns \\
                || (rows * columns < COREPY_SMALL && rows * columns * deep < COREPY_SMALL)) { \\
                for (ptrdiff_t first = 0; !first || first < deep; first += COREPY_PASS) { \\
                    const ptrdiff_t part = deep - first < COREPY_PASS ? deep - first : COREPY_PASS; \\
                    const char* a = x->data + first * x->column; \\
                    const char* b = y->data + first * y->row; \\
                    for (ptrdiff_t r = 0; r < rows; r++) { \\
                        for (ptrdiff_t i = 0; i < columns; i++) { \\
                            ITEM* to = \\
                                &COREPY_AT(ITEM, into->data, r * into->row + i * into->column); \\
                            const ITEM value = NAME##_sum( \\
                                a + r * x->row, x->column, b + i * y->column, y->row, part); \\
                            *to = first ? (ITEM)(*to + value) : value; \\
                        } \\
                    } \\
                } \\
            } else if (columns < rows && columns < LANES \\
                && (x->row == sizeof(ITEM) || columns <= LANES / 4)) { \\
                NAME##_panels(&across, &right, &left, columns, deep, rows); \\
            } else { \\
                NAME##_panels(into, x, y, rows, deep, columns); \\
            } \\
        } \\
        /* As of NumPy's `matmul`, whose dimensions are none of them zero here. */ \\
        static void NAME(char** args, const ptrdiff_t* dims, const ptrdiff_t* steps, void* none) { \\
            NAME##_matrix x = {args[0], steps[3], steps[4]}, y = {args[1], steps[5], steps[6]}; \\
            NAME##_matrix into = {args[2], steps[7], steps[8]}; \\
            for (ptrdiff_t i = 0; i < dims[0]; i++) { \\
                NAME##_product(&into, &x, &y, dims[1], dims[2], dims[3]); \\
                x.data += steps[0], y.data += steps[1], into.data += steps[2]; \\
            } \\
        } \\
        /* As of NumPy's `vecdot`. */ \\
        static void NAME##_vecdot( \\
            char** args, const ptrdiff_t* dims, const ptrdiff_t* steps, void* none \\
        ) { \\
            const char* x = args[0]; \\
            const char* y = args[1]; \\
            char* into = args[2]; \\
            const int full = steps[3] == sizeof(ITEM) && steps[4] == sizeof(ITEM); \\
            for (ptrdiff_t i = 0; i < dims[0]; i++) { \\
                *(ITEM*)into = full \\
                    ? NAME##_dot((const ITEM*)x, (const ITEM*)y, dims[1]) \\
                    : NAME##_sum(x, steps[3], y, steps[4], dims[1]); \\
                x += steps[0], y += steps[1], into += steps[2]; \\
            } \\
        }
    #define COREPY_BYTES(W, TARGET) COREPY_INTEGERS(corepy_bytes_##W, uint8_t, W, TARGET)
    #define COREPY_NARROW(W, TARGET) \\
        COREPY_INTEGERS(corepy_shorts_##W, uint16_t, W, TARGET) \\
        COREPY_INTEGERS(corepy_ints_##W, uint32_t, W, TARGET)
    /* Bytes are multiplied as shorts, which wider registers than 32 bytes only delay. */
    #define corepy_bytes_64 corepy_bytes_32
    #define corepy_bytes_64_vecdot corepy_bytes_32_vecdot
    #define COREPY_NARROW_ENTRIES(W, PART) \\
        {"int8", (corepy_any)corepy_bytes_##W##PART}, \\
        {"uint8", (corepy_any)corepy_bytes_##W##PART}, \\
        {"int16", (corepy_any)corepy_shorts_##W##PART}, \\
        {"uint16", (corepy_any)corepy_shorts_##W##PART}, \\
        {"int32", (corepy_any)corepy_ints_##W##PART}, \\
        {"uint32", (corepy_any)corepy_ints_##W##PART},
    #define COREPY_LONG_ENTRIES(W, PART) \\
        {"int64", (corepy_any)corepy_longs_##W##PART}, \\
        {"uint64", (corepy_any)corepy_longs_##W##PART},
    #define COREPY_INTEGER_TABLES(W, LONG) \\
        static const corepy_of_dtype corepy_matmul_##W[] = { \\
            COREPY_NARROW_ENTRIES(W, ) LONG(W, ) {NULL, NULL} \\
        }; \\
        static const corepy_of_dtype corepy_vecdot_##W[] = { \\
            COREPY_NARROW_ENTRIES(W, _vecdot) LONG(W, _vecdot) {NULL, NULL} \\
        };
    #define COREPY_NO_ENTRIES(W, PART)
    #if defined(__GNUC__)
    COREPY_BYTES(16, )
    COREPY_NARROW(16, )
    COREPY_INTEGER_TABLES(16, COREPY_NO_ENTRIES)  /* 64 bits are not multiplied there */
    #ifdef COREPY_VARIANTS
    COREPY_BYTES(32, COREPY_AVX2)
    COREPY_NARROW(32, COREPY_AVX2)
    COREPY_INTEGERS(corepy_longs_32, uint64_t, 32, COREPY_AVX2)
    COREPY_INTEGER_TABLES(32, COREPY_LONG_ENTRIES)
    COREPY_NARROW(64, COREPY_AVX512)
    COREPY_INTEGERS(corepy_longs_64, uint64_t, 64, COREPY_AVX512)
    COREPY_INTEGER_TABLES(64, COREPY_LONG_ENTRIES)
    #endif
    #else
    static const corepy_of_dtype corepy_matmul_16[] = { {NULL, NULL} };
    static const corepy_of_dtype corepy_vecdot_16[] = { {NULL, NULL} };
    #endif

    #define COREPY_LOOPS(W, TARGET) \\
        COREPY_WEIGHED(corepy_weigh_double_##W, double, TARGET) \\
        COREPY_WEIGHED(corepy_weigh_float_##W, float, TARGET) \\
        static const corepy_of_dtype corepy_weighing_##W[] = { \\
            {"float64", (corepy_any)corepy_weigh_double_##W}, \\
            {"float32", (corepy_any)corepy_weigh_float_##W}, \\
            {NULL, NULL} \\
        };
    COREPY_LOOPS(16, )
    #ifdef COREPY_VARIANTS
    COREPY_LOOPS(32, COREPY_AVX2)
    COREPY_LOOPS(64, COREPY_AVX512)
    #endif

    /* The loops in registers of so many bytes, up to one without a name; NULL if there are none. */
    #ifdef COREPY_VARIANTS
    #define COREPY_BY_WIDTH(KIND) \\
        static const corepy_of_dtype* corepy_##KIND##_of(int bytes) { \\
            if (bytes == 16) return corepy_##KIND##_16; \\
            if (!corepy_fills(bytes)) return NULL; \\
            return bytes == 32 ? corepy_##KIND##_32 : corepy_##KIND##_64; \\
        }
    #else
    #define COREPY_BY_WIDTH(KIND) \\
        static const corepy_of_dtype* corepy_##KIND##_of(int bytes) { \\
            return bytes == 16 ? corepy_##KIND##_16 : NULL; \\
        }
    #endif
    COREPY_BY_WIDTH(weighing)
    COREPY_BY_WIDTH(dotting)
    COREPY_BY_WIDTH(matmul)
    COREPY_BY_WIDTH(vecdot)
    """
    ctypedef struct OfDtype "corepy_of_dtype":
        const char* dtype
        void* loop
    const OfDtype* corepy_weighing_of(int)
    const OfDtype* corepy_dotting_of(int)
    const OfDtype* corepy_matmul_of(int)
    const OfDtype* corepy_vecdot_of(int)


cdef dict _by_dtype(const OfDtype* found):
    """Return the addresses of loops, up to one without a name."""
    made = {}
    while found != NULL and found.dtype != NULL:
        made[found.dtype.decode()] = <uintptr_t>found.loop
        found += 1
    return made


WIDTHS = [width for width in (16, 32, 64) if corepy_weighing_of(width) != NULL]

#: By the bytes of a register: by dtype, addresses of ``void (*)(void *results, const void *rows, const
#: void *weights, ptrdiff_t count, ptrdiff_t step, ptrdiff_t apart, ptrdiff_t columns)``. So many rows,
#: each a step of elements after the other, are multiplied by weights so far apart, and added to the
#: results of so many columns.
WEIGHTED_BY_WIDTH = {width: _by_dtype(corepy_weighing_of(width)) for width in WIDTHS}

#: Of the widest.
WEIGHTED = WEIGHTED_BY_WIDTH[max(WIDTHS)]

#: By the bytes of a register: by dtype, addresses of ``void (*)(void *results, const void *rows, const
#: void *vector, ptrdiff_t count, ptrdiff_t step, ptrdiff_t size)``. The sums of the products of so many
#: rows of some size, each a step of elements after the other, and a vector are put into the results.
DOTTED_BY_WIDTH = {width: _by_dtype(corepy_dotting_of(width)) for width in WIDTHS}

#: Of the widest.
DOTTED = DOTTED_BY_WIDTH[max(WIDTHS)]

#: By the bytes of a register, and by operation and dtype: addresses of inner loops that take the place
#: of those of NumPy's `matmul` and `vecdot` for integers, where no dimension is zero.
INTEGERS_BY_WIDTH = {
    width: {
        "matmul": _by_dtype(corepy_matmul_of(width)),
        "vecdot": _by_dtype(corepy_vecdot_of(width)),
    }
    for width in WIDTHS
}

#: Of the widest.
INTEGERS = INTEGERS_BY_WIDTH[max(WIDTHS)]
