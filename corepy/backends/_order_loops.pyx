# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""What a stable order of numbers is found with: words to be sorted, of a number and its place.

To sort numbers of 64 bits, NumPy fills vector registers; a stable order it finds by merging, some
ten times as slowly. So each element becomes one word: what it is above the least, as far as there
is room for it, above its place in the row. Words are sorted, by NumPy; where the upper bits of some
are the same their elements are compared, and the places are left.
`corepy.backends._numpy_order` says what this is used for.
"""

from libc.stdint cimport int64_t, uintptr_t

__all__ = ["BY_WIDTH", "LOOPS", "PARTS", "PARTS_BY_WIDTH", "SOURCE", "STORES_SLOWLY", "pack", "unpack"]


include "_buffers.pxi"
include "_targets.pxi"
include "_packing.pxi"


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    /* Elements with the same upper bits that one may have to pass. */
    enum { COREPY_TIES = 32 };

    typedef int (*corepy_pack_loop)(const void*, int64_t*, ptrdiff_t, ptrdiff_t, int);
    typedef int (*corepy_unpack_loop)(const void*, int64_t*, ptrdiff_t, ptrdiff_t, int, int);
    typedef struct {
        const char* dtype;
        corepy_pack_loop pack;
        corepy_unpack_loop unpack;
    } corepy_order_loop;

    static inline int corepy_bits_of(uint64_t value) {
        int bits = 0;
        for (; value; value >>= 1) bits++;
        return bits;
    }

    /* Numbers of the same order without a sign. Both zeros have one, and NaN has the greatest. */
    #define COREPY_SIGNED_KEY(BITS, WORD) ((BITS)(WORD) ^ ((BITS)1 << (sizeof(BITS) * 8 - 1)))
    #define COREPY_UNSIGNED_KEY(BITS, WORD) (WORD)
    #define COREPY_FLOAT_KEY(BITS, SIGNED, INFINITE) \\
        static inline BITS corepy_key_of_##SIGNED(BITS word) { \\
            const BITS top = (BITS)1 << (sizeof(BITS) * 8 - 1); \\
            const BITS key = word ^ ((BITS)((SIGNED)word >> (sizeof(BITS) * 8 - 1)) | top); \\
            const BITS size = word & ~top; \\
            return size == 0 ? top : size > (BITS)INFINITE ? ~(BITS)0 : key; \\
        }
    COREPY_FLOAT_KEY(uint32_t, int32_t, 0x7F800000u)
    COREPY_FLOAT_KEY(uint64_t, int64_t, 0x7FF0000000000000u)
    #define COREPY_FLOAT32_KEY(BITS, WORD) corepy_key_of_int32_t(WORD)
    #define COREPY_FLOAT64_KEY(BITS, WORD) corepy_key_of_int64_t(WORD)

    /* Rows of elements of BITS into words below 2**63; returns how many bits there is no room for. */
    #define COREPY_PACK(NAME, BITS, KEY, TARGET) \\
        TARGET static int NAME##_pack( \\
            const void* source, int64_t* COREPY_ONLY words, ptrdiff_t rows, ptrdiff_t length, int down \\
        ) { \\
            const BITS* COREPY_ONLY x = (const BITS*)source; \\
            const BITS flip = down ? ~(BITS)0 : 0; \\
            const ptrdiff_t size = rows * length; \\
            BITS low = ~(BITS)0, high = 0; \\
            for (ptrdiff_t i = 0; i < size; i++) { \\
                const BITS key = KEY(BITS, x[i]) ^ flip; \\
                low = key < low ? key : low; \\
                high = key > high ? key : high; \\
            } \\
            const int room = 63 - corepy_bits_of(length - 1); \\
            const int width = corepy_bits_of((BITS)(high - low)), cut = width > room ? width - room : 0; \\
            for (ptrdiff_t row = 0; row < rows; row++, x += length, words += length) { \\
                for (ptrdiff_t i = 0; i < length; i++) { \\
                    const BITS above = (KEY(BITS, x[i]) ^ flip) - low; \\
                    words[i] = (int64_t)((uint64_t)above >> cut << (63 - room)) | i; \\
                } \\
            } \\
            return cut; \\
        }

    /* Places in the place of sorted words; 0 where too many elements have the same upper bits. */
    #define COREPY_UNPACK(NAME, BITS, KEY, TARGET) \\
        static int NAME##_settle( \\
            const BITS* x, int64_t* words, ptrdiff_t length, int bits, BITS flip \\
        ) { \\
            const int64_t mask = ((int64_t)1 << bits) - 1; \\
            ptrdiff_t i = 1; \\
            while (i < length) { \\
                const ptrdiff_t first = i - 1; \\
                const int64_t upper = words[first] >> bits; \\
                for (; i < length && words[i] >> bits == upper; i++) { \\
                    const int64_t word = words[i]; \\
                    const BITS key = KEY(BITS, x[word & mask]) ^ flip; \\
                    ptrdiff_t j = i; \\
                    for (; j > first && (BITS)(KEY(BITS, x[words[j - 1] & mask]) ^ flip) > key; j--) { \\
                        if (i - j >= COREPY_TIES) return 0; \\
                        words[j] = words[j - 1]; \\
                    } \\
                    words[j] = word; \\
                } \\
                if (i == first + 1) i++; \\
            } \\
            return 1; \\
        } \\
        TARGET static int NAME##_unpack( \\
            const void* source, int64_t* words, ptrdiff_t rows, ptrdiff_t length, int down, int cut \\
        ) { \\
            const BITS* x = (const BITS*)source; \\
            const int bits = corepy_bits_of(length - 1); \\
            const int64_t mask = ((int64_t)1 << bits) - 1; \\
            for (ptrdiff_t row = 0; row < rows; row++, x += length, words += length) { \\
                int alike = 0; \\
                if (cut) { \\
                    for (ptrdiff_t i = 1; i < length; i++) { \\
                        alike |= words[i] >> bits == words[i - 1] >> bits; \\
                    } \\
                } \\
                if (alike && !NAME##_settle(x, words, length, bits, down ? ~(BITS)0 : 0)) return 0; \\
                for (ptrdiff_t i = 0; i < length; i++) words[i] &= mask; \\
            } \\
            return 1; \\
        }

    #define COREPY_ORDER(NAME, BITS, KEY, TARGET) \\
        COREPY_PACK(NAME, BITS, KEY, TARGET) \\
        COREPY_UNPACK(NAME, BITS, KEY, TARGET)
    #define COREPY_LOOPS(W, TARGET) \\
        COREPY_ORDER(corepy_float_##W, uint32_t, COREPY_FLOAT32_KEY, TARGET) \\
        COREPY_ORDER(corepy_double_##W, uint64_t, COREPY_FLOAT64_KEY, TARGET) \\
        COREPY_ORDER(corepy_int_##W, uint32_t, COREPY_SIGNED_KEY, TARGET) \\
        COREPY_ORDER(corepy_long_##W, uint64_t, COREPY_SIGNED_KEY, TARGET) \\
        COREPY_ORDER(corepy_uint_##W, uint32_t, COREPY_UNSIGNED_KEY, TARGET) \\
        COREPY_ORDER(corepy_ulong_##W, uint64_t, COREPY_UNSIGNED_KEY, TARGET) \\
        static const corepy_order_loop corepy_loops_##W[] = { \\
            {"float32", corepy_float_##W##_pack, corepy_float_##W##_unpack}, \\
            {"float64", corepy_double_##W##_pack, corepy_double_##W##_unpack}, \\
            {"int32", corepy_int_##W##_pack, corepy_int_##W##_unpack}, \\
            {"int64", corepy_long_##W##_pack, corepy_long_##W##_unpack}, \\
            {"uint32", corepy_uint_##W##_pack, corepy_uint_##W##_unpack}, \\
            {"uint64", corepy_ulong_##W##_pack, corepy_ulong_##W##_unpack}, \\
            {NULL, NULL, NULL} \\
        };

    COREPY_LOOPS(16, )
    #ifdef COREPY_VARIANTS
    COREPY_LOOPS(32, COREPY_AVX2)
    COREPY_LOOPS(64, COREPY_AVX512)
    #endif

    /* What is not below `low`, but below `high`, to where it belongs in `out`, in any order; NULL is
       no bound, and none is NaN. Returns how many there are, and puts how many are below these. */
    typedef ptrdiff_t (*corepy_part_loop)(
        const void*, ptrdiff_t, const void*, const void*, void*, ptrdiff_t*
    );
    typedef struct { const char* dtype; corepy_part_loop loop; } corepy_part_entry;

    #ifdef COREPY_VARIANTS
    #include <cpuid.h>
    #include <string.h>
    /* Whole registers are stored, of which the next overwrites what is not wanted; to store some lanes
       takes AMD's processors long. */
    #define COREPY_PART(NAME, ITEM, TARGET, BYTES, VECTOR, SET, LOAD, STORE, LESS, COMPRESS) \\
        TARGET static ptrdiff_t NAME( \\
            const void* source, ptrdiff_t size, const void* low, const void* high, void* out, \\
            ptrdiff_t* first \\
        ) { \\
            enum { LANES = BYTES / sizeof(ITEM), ALL = (1 << LANES) - 1 }; \\
            const ITEM* x = (const ITEM*)source; \\
            const ITEM least = low ? *(const ITEM*)low : 0, most = high ? *(const ITEM*)high : 0; \\
            const VECTOR from = SET(least), to = SET(most); \\
            const unsigned any_low = low ? 0 : ALL, any_high = high ? 0 : ALL; \\
            ptrdiff_t i = 0, below = 0, under = 0, filled = 0; \\
            for (; i + LANES <= size; i += LANES) { \\
                const VECTOR some = LOAD(x + i); \\
                below += __builtin_popcount(LESS(some, from)); \\
                under += __builtin_popcount(LESS(some, to)); \\
            } \\
            for (; i < size; i++) { \\
                below += x[i] < least; \\
                under += x[i] < most; \\
            } \\
            *first = low ? below : 0; \\
            ITEM* into = (ITEM*)out + *first; \\
            const ptrdiff_t room = (high ? under : size) - *first; \\
            for (i = 0; i + LANES <= size; i += LANES) { \\
                const VECTOR some = LOAD(x + i); \\
                const unsigned wanted = \\
                    (any_low | (ALL & ~LESS(some, from))) & (any_high | LESS(some, to)); \\
                const int count = __builtin_popcount(wanted); \\
                if (filled + LANES <= room) { \\
                    STORE(into + filled, COMPRESS(wanted, some)); \\
                } else if (filled + count <= room) { \\
                    ITEM last[LANES]; \\
                    STORE(last, COMPRESS(wanted, some)); \\
                    memcpy(into + filled, last, count * sizeof(ITEM)); \\
                } else { \\
                    return room; /* somebody writes to `x` meanwhile */ \\
                } \\
                filled += count; \\
            } \\
            for (; i < size && filled < room; i++) { \\
                if ((!low || !(x[i] < least)) && (!high || x[i] < most)) into[filled++] = x[i]; \\
            } \\
            return room; \\
        }

    #define COREPY_LESS_PD(A, B) _mm512_cmp_pd_mask(A, B, _CMP_LT_OQ)
    #define COREPY_LESS_PS(A, B) _mm512_cmp_ps_mask(A, B, _CMP_LT_OQ)
    #define COREPY_PART_64(NAME, ITEM, LESS) \\
        COREPY_PART(NAME, ITEM, COREPY_AVX512, 64, __m512i, _mm512_set1_epi64, \\
            _mm512_loadu_si512, _mm512_storeu_si512, LESS, _mm512_maskz_compress_epi64)
    #define COREPY_PART_32(NAME, ITEM, LESS) \\
        COREPY_PART(NAME, ITEM, COREPY_AVX512, 64, __m512i, _mm512_set1_epi32, \\
            _mm512_loadu_si512, _mm512_storeu_si512, LESS, _mm512_maskz_compress_epi32)
    COREPY_PART(corepy_part_double, double, COREPY_AVX512, 64, __m512d, _mm512_set1_pd,
        _mm512_loadu_pd, _mm512_storeu_pd, COREPY_LESS_PD, _mm512_maskz_compress_pd)
    COREPY_PART(corepy_part_float, float, COREPY_AVX512, 64, __m512, _mm512_set1_ps,
        _mm512_loadu_ps, _mm512_storeu_ps, COREPY_LESS_PS, _mm512_maskz_compress_ps)
    COREPY_PART_64(corepy_part_long, int64_t, _mm512_cmplt_epi64_mask)
    COREPY_PART_64(corepy_part_ulong, uint64_t, _mm512_cmplt_epu64_mask)
    COREPY_PART_32(corepy_part_int, int32_t, _mm512_cmplt_epi32_mask)
    COREPY_PART_32(corepy_part_uint, uint32_t, _mm512_cmplt_epu32_mask)
    static const corepy_part_entry corepy_parts_64[] = {
        {"float64", corepy_part_double},
        {"float32", corepy_part_float},
        {"int64", corepy_part_long},
        {"uint64", corepy_part_ulong},
        {"int32", corepy_part_int},
        {"uint32", corepy_part_uint},
        {NULL, NULL}
    };

    /* The same in registers of 32 bytes, as integers; without a sign these compare with the upper
       bit turned round. */
    #define COREPY_LOAD_32(FROM) _mm256_loadu_si256((const __m256i*)(FROM))
    #define COREPY_STORE_32(INTO, VALUE) _mm256_storeu_si256((__m256i*)(INTO), VALUE)
    #define COREPY_PACK_32(WANTED, SOME) corepy_packed_32(SOME, WANTED)
    #define COREPY_PACK_64(WANTED, SOME) corepy_packed_64(SOME, WANTED)
    #define COREPY_SET_PD(X) _mm256_castpd_si256(_mm256_set1_pd(X))
    #define COREPY_SET_PS(X) _mm256_castps_si256(_mm256_set1_ps(X))
    COREPY_AVX2 static inline unsigned corepy_lanes_64(__m256i held) {
        return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(held));
    }
    COREPY_AVX2 static inline unsigned corepy_lanes_32(__m256i held) {
        return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(held));
    }
    COREPY_AVX2 static inline unsigned corepy_less_double(__m256i a, __m256i b) {
        const __m256d x = _mm256_castsi256_pd(a), y = _mm256_castsi256_pd(b);
        return (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(x, y, _CMP_LT_OQ));
    }
    COREPY_AVX2 static inline unsigned corepy_less_float(__m256i a, __m256i b) {
        const __m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
        return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ));
    }
    COREPY_AVX2 static inline unsigned corepy_less_long(__m256i a, __m256i b) {
        return corepy_lanes_64(_mm256_cmpgt_epi64(b, a));
    }
    COREPY_AVX2 static inline unsigned corepy_less_int(__m256i a, __m256i b) {
        return corepy_lanes_32(_mm256_cmpgt_epi32(b, a));
    }
    COREPY_AVX2 static inline unsigned corepy_less_ulong(__m256i a, __m256i b) {
        const __m256i top = _mm256_set1_epi64x(INT64_MIN);
        return corepy_less_long(_mm256_xor_si256(a, top), _mm256_xor_si256(b, top));
    }
    COREPY_AVX2 static inline unsigned corepy_less_uint(__m256i a, __m256i b) {
        const __m256i top = _mm256_set1_epi32(INT32_MIN);
        return corepy_less_int(_mm256_xor_si256(a, top), _mm256_xor_si256(b, top));
    }
    #define COREPY_PART_BY_32(NAME, ITEM, SET, LESS, COMPRESS) \\
        COREPY_PART(NAME, ITEM, COREPY_AVX2, 32, __m256i, SET, COREPY_LOAD_32, \\
            COREPY_STORE_32, LESS, COMPRESS)
    COREPY_PART_BY_32(corepy_part_double_32, double, COREPY_SET_PD, corepy_less_double,
        COREPY_PACK_64)
    COREPY_PART_BY_32(corepy_part_float_32, float, COREPY_SET_PS, corepy_less_float, COREPY_PACK_32)
    COREPY_PART_BY_32(corepy_part_long_32, int64_t, _mm256_set1_epi64x, corepy_less_long,
        COREPY_PACK_64)
    COREPY_PART_BY_32(corepy_part_ulong_32, uint64_t, _mm256_set1_epi64x, corepy_less_ulong,
        COREPY_PACK_64)
    COREPY_PART_BY_32(corepy_part_int_32, int32_t, _mm256_set1_epi32, corepy_less_int,
        COREPY_PACK_32)
    COREPY_PART_BY_32(corepy_part_uint_32, uint32_t, _mm256_set1_epi32, corepy_less_uint,
        COREPY_PACK_32)
    static const corepy_part_entry corepy_parts_32[] = {
        {"float64", corepy_part_double_32},
        {"float32", corepy_part_float_32},
        {"int64", corepy_part_long_32},
        {"uint64", corepy_part_ulong_32},
        {"int32", corepy_part_int_32},
        {"uint32", corepy_part_uint_32},
        {NULL, NULL}
    };
    #endif

    static const corepy_part_entry* corepy_parts_of(int bytes) {
    #ifdef COREPY_VARIANTS
        if (bytes > 16 && corepy_fills(bytes)) return bytes == 32 ? corepy_parts_32 : corepy_parts_64;
    #endif
        return NULL;
    }

    /* Whether to store some lanes of a register takes a processor of AMD's Zen 4 a hundred cycles. */
    static int corepy_stores_slowly(void) {
    #ifdef COREPY_VARIANTS
        unsigned a, b, c, d;
        if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx) return 0;
        if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
        return corepy_fills(64) && (a >> 8 & 15) + (a >> 20 & 255) == 25;
    #else
        return 0;
    #endif
    }

    /* The loops in registers of so many bytes, up to one without a name; NULL if there are none. */
    static const corepy_order_loop* corepy_loops_of(int bytes) {
        if (bytes == 16) return corepy_loops_16;
    #ifdef COREPY_VARIANTS
        if (corepy_fills(bytes)) return bytes == 32 ? corepy_loops_32 : corepy_loops_64;
    #endif
        return NULL;
    }
    """
    ctypedef int (*Pack "corepy_pack_loop")(
        const void*, int64_t*, Py_ssize_t, Py_ssize_t, bint
    ) noexcept nogil
    ctypedef bint (*Unpack "corepy_unpack_loop")(
        const void*, int64_t*, Py_ssize_t, Py_ssize_t, bint, int
    ) noexcept nogil
    ctypedef struct OrderLoop "corepy_order_loop":
        const char* dtype
        Pack pack
        Unpack unpack
    const OrderLoop* corepy_loops_of(int)
    ctypedef struct PartEntry "corepy_part_entry":
        const char* dtype
        void* loop
    const PartEntry* corepy_parts_of(int)
    bint corepy_stores_slowly()


def _addresses(int width):
    """Return the loops in registers of so many bytes: by dtype, those that pack and unpack."""
    cdef const OrderLoop* found = corepy_loops_of(width)
    made = {}
    while found != NULL and found.dtype != NULL:
        made[found.dtype.decode()] = <uintptr_t>found.pack, <uintptr_t>found.unpack
        found += 1
    return made


#: By the bytes of a register, for those that the processor has: by dtype, the addresses of
#: ``int pack(const void *rows, int64_t *words, ptrdiff_t count, ptrdiff_t length, int descending)``,
#: which returns how many bits there is no room for, and of
#: ``int unpack(const void *rows, int64_t *words, ..., int descending, int cut)``, which puts places,
#: and returns 0 where too many elements could not be told apart.
BY_WIDTH = {width: loops for width in (16, 32, 64) if (loops := _addresses(width))}

#: Of the widest.
LOOPS = BY_WIDTH[max(BY_WIDTH)]


#: Whether that is why NumPy sorts slowly in registers of 512 bits: it stores some lanes of them.
STORES_SLOWLY = corepy_stores_slowly()


def _parts(int width):
    cdef const PartEntry* found = corepy_parts_of(width)
    made = {}
    while found != NULL and found.dtype != NULL:
        made[found.dtype.decode()] = <uintptr_t>found.loop
        found += 1
    return made


#: By the bytes of a register, from 32 on, and by dtype, addresses of ``ptrdiff_t part(const void *x,
#: ptrdiff_t size, const void *low, const void *high, void *out, ptrdiff_t *first)``, which puts the
#: elements between two values where they belong, and returns how many there are.
PARTS_BY_WIDTH = {width: loops for width in (32, 64) if (loops := _parts(width))}

#: Of the widest, if there are any.
PARTS = PARTS_BY_WIDTH[max(PARTS_BY_WIDTH)] if PARTS_BY_WIDTH else {}


def pack(uintptr_t loop, x, words, Py_ssize_t length, bint descending):
    """Make words of the elements of contiguous rows; return how many bits there is no room for.

    Parameters
    ----------
    loop : int
        The first address in `LOOPS` for the dtype of `x`.
    x : buffer
        At least one row.
    words : buffer of int64
        As many as there are elements.
    length : int
        Elements of a row.
    descending : bool
    """
    cdef Py_buffer source, into
    cdef int cut
    _hold(x, words, &source, &into)
    cdef Py_ssize_t rows = into.len // (into.itemsize * length)
    with nogil:
        cut = (<Pack>loop)(source.buf, <int64_t*>into.buf, rows, length, descending)
    _let_go(&source, &into)
    return cut


def unpack(uintptr_t loop, x, words, Py_ssize_t length, bint descending, int cut):
    """Turn the sorted words of each row into the places of its elements; say whether that was done.

    Parameters
    ----------
    loop : int
        The second address in `LOOPS`.
    x, words, length, descending
        As `pack` was given them.
    cut : int
        What it returned.
    """
    cdef Py_buffer source, into
    cdef bint done
    _hold(x, words, &source, &into)
    cdef Py_ssize_t rows = into.len // (into.itemsize * length)
    with nogil:
        done = (<Unpack>loop)(source.buf, <int64_t*>into.buf, rows, length, descending, cut)
    _let_go(&source, &into)
    return done
