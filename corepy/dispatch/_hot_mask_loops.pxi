# Loops over masks, for as wide registers as the processor has.
# Included by _hot_compiled.pyx.
#
# A branch on each element of a mask is guessed wrong half of the time where that is random. So 64 of
# them become the bits of a word, whose set ones are visited one after the other; a word without any
# is skipped, and elements of one with all are copied at once. With AVX2 elements that are selected
# are brought side by side by eights. What is not selected is not written: it may be another thread's.

cdef extern from *:
    """
    /* Which of up to 64 flags are not zero, the first in the lowest bit. */
    static inline uint64_t corepy_set(const uint8_t* flags, npy_intp count) {
        uint64_t set = 0;
        npy_intp i = 0;
        if (count > 64) count = 64;
    #if COREPY_STREAMS
        for (; i + 16 <= count; i += 16) {
            const __m128i some = _mm_loadu_si128((const __m128i*)(flags + i));
            const int clear = _mm_movemask_epi8(_mm_cmpeq_epi8(some, _mm_setzero_si128()));
            set |= (uint64_t)(clear ^ 0xffff) << i;
        }
    #endif
        for (; i < count; i++) set |= (uint64_t)(flags[i] != 0) << i;
        return set;
    }

    static inline npy_intp corepy_lowest(uint64_t set) {
    #if defined(_MSC_VER) && !defined(__clang__)
        unsigned long place;
        _BitScanForward64(&place, set);
        return place;
    #else
        return __builtin_ctzll(set);
    #endif
    }

    /* For the sets of all flags: WORD, which may `continue`, and EACH for any `i` that is left. */
    #define COREPY_SETS(WORD, EACH) \
        for (npy_intp first = 0; first < size; first += 64) { \
            uint64_t set = corepy_set(flags + first, size - first); \
            WORD \
            for (; set; set &= set - 1) { \
                const npy_intp i = first + corepy_lowest(set); \
                EACH \
            } \
        }

    /* Between the elements that flags select and others side by side, of which there are `room`: as
       many as there are flags, unless another thread has changed these since they were counted. */
    #define COREPY_COMPRESS(BITS, ITEM, TARGET, MANY) \
        TARGET static void corepy_compress_##BITS( \
            const uint8_t* flags, npy_intp size, const void* from, void* into, npy_intp room \
        ) { \
            const ITEM* x = (const ITEM*)from; \
            ITEM* y = (ITEM*)into; \
            const ITEM* end = y + room; \
            COREPY_SETS( \
                if (end - y >= 64 && size - first >= 64) { \
                    if (set == UINT64_MAX) { \
                        memcpy(y, x + first, 64 * sizeof(ITEM)); \
                        y += 64; \
                        continue; \
                    } \
                    MANY \
                }, \
                if (y == end) return; \
                *y++ = x[i];) \
        }
    #define COREPY_EXPAND(BITS, ITEM) \
        static void corepy_expand_##BITS( \
            const uint8_t* flags, npy_intp size, const void* from, void* into, npy_intp room \
        ) { \
            const ITEM* x = (const ITEM*)from; \
            const ITEM* end = x + room; \
            ITEM* y = (ITEM*)into; \
            COREPY_SETS( \
                if (set == UINT64_MAX && end - x >= 64) { \
                    memcpy(y + first, x, 64 * sizeof(ITEM)); \
                    x += 64; \
                    continue; \
                }, \
                if (x == end) return; \
                y[i] = *x++;) \
        }
    #define COREPY_MARK(BITS, ITEM) \
        static void corepy_mark_##BITS( \
            const uint8_t* flags, npy_intp size, const void* from, void* into, npy_intp room \
        ) { \
            const ITEM value = *(const ITEM*)from; \
            ITEM* y = (ITEM*)into; \
            COREPY_SETS( \
                if (set == UINT64_MAX) { \
                    for (int k = 0; k < 64; k++) y[first + k] = value; \
                    continue; \
                }, \
                y[i] = value;) \
        }
    /* Where flags are not zero, counted from `base` on. */
    #define COREPY_PLACES(NAME, TARGET, MANY) \
        TARGET static void NAME( \
            const uint8_t* flags, npy_intp size, npy_intp base, int64_t* y, npy_intp room \
        ) { \
            const int64_t* end = y + room; \
            COREPY_SETS( \
                if (end - y >= 64 && size - first >= 64) { \
                    if (set == UINT64_MAX) { \
                        for (int k = 0; k < 64; k++) y[k] = base + first + k; \
                        y += 64; \
                        continue; \
                    } \
                    MANY \
                }, \
                if (y == end) return; \
                *y++ = base + i;) \
        }

    /* Elements of one operand or the other, up to COREPY_CHOSEN: both are read whatever the flag
       says. Signs of bytes, unlike what a comparison gives, become masks of several bytes in vector
       registers. */
    enum { COREPY_CHOSEN = 1024 };
    #define COREPY_CHOOSE(BITS, ITEM, SIGNED, WORDS, TARGET) \
        TARGET static void corepy_choose_##BITS( \
            const uint8_t* flags, npy_intp size, const void* one, const void* other, void* into \
        ) { \
            const ITEM* a = (const ITEM*)one; \
            const ITEM* b = (const ITEM*)other; \
            ITEM* y = (ITEM*)into; \
            int8_t signs[COREPY_CHOSEN]; \
            for (npy_intp i = 0; i < size; i++) signs[i] = (int8_t)-(flags[i] != 0); \
            for (npy_intp i = 0; i < size; i++) { \
                for (int k = 0; k < WORDS; k++, a++, b++, y++) { \
                    *y = *b ^ ((*a ^ *b) & (ITEM)(SIGNED)signs[i]); \
                } \
            } \
        }
    #define COREPY_CHOICES(WIDE, TARGET) \
        COREPY_CHOOSE(8##WIDE, uint8_t, int8_t, 1, TARGET) \
        COREPY_CHOOSE(16##WIDE, uint16_t, int16_t, 1, TARGET) \
        COREPY_CHOOSE(32##WIDE, uint32_t, int32_t, 1, TARGET) \
        COREPY_CHOOSE(64##WIDE, corepy_item_of_8, int64_t, 1, TARGET) \
        COREPY_CHOOSE(128##WIDE, uint64_t, int64_t, 2, TARGET)

    /* How many flags are not zero: bytes are added up in a byte, as long as it holds the sum. */
    #define COREPY_FLAG_COUNT(NAME, TARGET) \
        TARGET static npy_intp NAME(const uint8_t* flags, npy_intp size) { \
            npy_intp total = 0, i = 0; \
            for (; i + 128 <= size; i += 128) { \
                uint8_t some = 0; \
                for (int k = 0; k < 128; k++) some += flags[i + k] != 0; \
                total += some; \
            } \
            for (; i < size; i++) total += flags[i] != 0; \
            return total; \
        }

    /* Which elements are not zero: of complex numbers, either part. */
    #define COREPY_FLAG(NAME, ITEM, TEST, TARGET) \
        TARGET static void corepy_flag_##NAME(const void* from, npy_intp size, uint8_t* flags) { \
            const ITEM* x = (const ITEM*)from; \
            for (npy_intp i = 0; i < size; i++) flags[i] = TEST; \
        }
    #define COREPY_FLAG_LOOPS(WIDE, TARGET) \
        COREPY_FLAG(8##WIDE, uint8_t, x[i] != 0, TARGET) \
        COREPY_FLAG(16##WIDE, uint16_t, x[i] != 0, TARGET) \
        COREPY_FLAG(32##WIDE, uint32_t, x[i] != 0, TARGET) \
        COREPY_FLAG(64##WIDE, uint64_t, x[i] != 0, TARGET) \
        COREPY_FLAG(float##WIDE, float, x[i] != 0, TARGET) \
        COREPY_FLAG(double##WIDE, double, x[i] != 0, TARGET) \
        COREPY_FLAG(floats##WIDE, float, (x[2 * i] != 0) | (x[2 * i + 1] != 0), TARGET) \
        COREPY_FLAG(doubles##WIDE, double, (x[2 * i] != 0) | (x[2 * i + 1] != 0), TARGET)

    typedef struct { uint64_t half[2]; } corepy_pair;
    COREPY_COMPRESS(8, uint8_t,,)
    COREPY_COMPRESS(16, uint16_t,,)
    COREPY_COMPRESS(32, uint32_t,,)
    COREPY_COMPRESS(64, corepy_item_of_8,,)
    COREPY_COMPRESS(128, corepy_pair,,)
    COREPY_EXPAND(8, uint8_t)
    COREPY_EXPAND(16, uint16_t)
    COREPY_EXPAND(32, uint32_t)
    COREPY_EXPAND(64, corepy_item_of_8)
    COREPY_EXPAND(128, corepy_pair)
    COREPY_MARK(8, uint8_t)
    COREPY_MARK(16, uint16_t)
    COREPY_MARK(32, uint32_t)
    COREPY_MARK(64, corepy_item_of_8)
    COREPY_MARK(128, corepy_pair)
    COREPY_PLACES(corepy_places,,)
    COREPY_CHOICES(,)
    COREPY_FLAG_COUNT(corepy_count_set,)
    COREPY_FLAG_LOOPS(,)

    typedef void (*corepy_masking)(const uint8_t*, npy_intp, const void*, void*, npy_intp);
    typedef void (*corepy_placing)(const uint8_t*, npy_intp, npy_intp, int64_t*, npy_intp);
    typedef void (*corepy_choosing)(
        const uint8_t*, npy_intp, const void*, const void*, void*);
    typedef npy_intp (*corepy_counting)(const uint8_t*, npy_intp);
    typedef void (*corepy_flagging)(const void*, npy_intp, uint8_t*);

    typedef struct {  /* by the logarithm of an element's bytes */
        corepy_masking compress[5], expand[5], mark[5];
        corepy_choosing choose[5];
        corepy_placing place;
        corepy_counting count;
        corepy_flagging flag_8, flag_16, flag_32, flag_64;
        corepy_flagging flag_float, flag_double, flag_floats, flag_doubles;
    } corepy_mask_loops;
    #define COREPY_EXPANDS {corepy_expand_8, corepy_expand_16, corepy_expand_32, \
        corepy_expand_64, corepy_expand_128}
    #define COREPY_MARKS {corepy_mark_8, corepy_mark_16, corepy_mark_32, corepy_mark_64, \
        corepy_mark_128}
    static const corepy_mask_loops corepy_usual_masks = {
        {corepy_compress_8, corepy_compress_16, corepy_compress_32, corepy_compress_64,
         corepy_compress_128},
        COREPY_EXPANDS, COREPY_MARKS,
        {corepy_choose_8, corepy_choose_16, corepy_choose_32, corepy_choose_64, corepy_choose_128},
        corepy_places, corepy_count_set,
        corepy_flag_8, corepy_flag_16, corepy_flag_32, corepy_flag_64,
        corepy_flag_float, corepy_flag_double, corepy_flag_floats, corepy_flag_doubles,
    };

    #ifdef COREPY_VARIANTS
    /* Eight elements, of which selected ones go first; up to eight more are written behind these. */
    COREPY_AVX2 static inline int corepy_pack_32(uint32_t* y, const uint32_t* x, unsigned some) {
        const __m256i all = _mm256_loadu_si256((const __m256i*)x);
        _mm256_storeu_si256((__m256i*)y, corepy_packed_32(all, some));
        return __builtin_popcount(some);
    }
    COREPY_AVX2 static inline int corepy_pack_64(
        corepy_item_of_8* y, const corepy_item_of_8* x, unsigned some
    ) {
        const __m256i first = _mm256_loadu_si256((const __m256i*)x);
        const __m256i rest = _mm256_loadu_si256((const __m256i*)(x + 4));
        const int count = __builtin_popcount(some & 15);
        _mm256_storeu_si256((__m256i*)y, corepy_packed_64(first, some & 15));
        _mm256_storeu_si256((__m256i*)(y + count), corepy_packed_64(rest, some >> 4));
        return count + __builtin_popcount(some >> 4);
    }
    COREPY_AVX2 static inline int corepy_pack_places(int64_t* y, npy_intp base, unsigned some) {
        const __m128i places = _mm_cvtsi64_si128(corepy_bit_places[some]);
        const __m256i from = _mm256_set1_epi64x(base);
        _mm256_storeu_si256((__m256i*)y, _mm256_add_epi64(from, _mm256_cvtepu8_epi64(places)));
        _mm256_storeu_si256((__m256i*)(y + 4),
            _mm256_add_epi64(from, _mm256_cvtepu8_epi64(_mm_srli_si128(places, 4))));
        return __builtin_popcount(some);
    }
    /* Of a word with a few bits, each is visited sooner. */
    #define COREPY_BY_EIGHT(PACK) \
        if (__builtin_popcountll(set) >= 8) { \
            for (int k = 0; k < 64; k += 8) y += PACK; \
            continue; \
        }
    COREPY_COMPRESS(32_wide, uint32_t, COREPY_AVX2,
        COREPY_BY_EIGHT(corepy_pack_32(y, x + first + k, set >> k & 255)))
    COREPY_COMPRESS(64_wide, corepy_item_of_8, COREPY_AVX2,
        COREPY_BY_EIGHT(corepy_pack_64(y, x + first + k, set >> k & 255)))
    COREPY_PLACES(corepy_places_wide, COREPY_AVX2,
        COREPY_BY_EIGHT(corepy_pack_places(y, base + first + k, set >> k & 255)))
    COREPY_CHOICES(_wide, COREPY_AVX2)
    COREPY_FLAG_LOOPS(_wide, COREPY_AVX2)
    COREPY_FLAG_COUNT(corepy_count_set_wide, COREPY_AVX2)
    static const corepy_mask_loops corepy_wide_masks = {
        {corepy_compress_8, corepy_compress_16, corepy_compress_32_wide, corepy_compress_64_wide,
         corepy_compress_128},
        COREPY_EXPANDS, COREPY_MARKS,
        {corepy_choose_8_wide, corepy_choose_16_wide, corepy_choose_32_wide, corepy_choose_64_wide,
         corepy_choose_128_wide},
        corepy_places_wide, corepy_count_set_wide,
        corepy_flag_8_wide, corepy_flag_16_wide, corepy_flag_32_wide, corepy_flag_64_wide,
        corepy_flag_float_wide, corepy_flag_double_wide, corepy_flag_floats_wide,
        corepy_flag_doubles_wide,
    };
    #endif

    static corepy_mask_loops corepy_masks;

    static void corepy_choose_masks(int widely) {
        corepy_widely = widely;
        corepy_masks = corepy_usual_masks;
    #ifdef COREPY_VARIANTS
        if (widely && corepy_fills(32)) corepy_masks = corepy_wide_masks;
    #endif
    }
    """
    enum: COREPY_CHOSEN
    ctypedef void (*Masking "corepy_masking")(
        const uint8_t*, npy_intp, const void*, void*, npy_intp
    ) noexcept nogil
    ctypedef void (*Placing "corepy_placing")(
        const uint8_t*, npy_intp, npy_intp, int64_t*, npy_intp
    ) noexcept nogil
    ctypedef void (*Choosing "corepy_choosing")(
        const uint8_t*, npy_intp, const void*, const void*, void*
    ) noexcept nogil
    ctypedef npy_intp (*Counting "corepy_counting")(const uint8_t*, npy_intp) noexcept nogil
    ctypedef void (*Flagging "corepy_flagging")(const void*, npy_intp, uint8_t*) noexcept nogil
    ctypedef struct MaskLoops "corepy_mask_loops":
        Masking compress[5]
        Masking expand[5]
        Masking mark[5]
        Choosing choose[5]
        Placing place
        Counting count
        Flagging flag_8
        Flagging flag_16
        Flagging flag_32
        Flagging flag_64
        Flagging flag_float
        Flagging flag_double
        Flagging flag_floats
        Flagging flag_doubles
    MaskLoops corepy_masks
    void corepy_choose_masks(bint)


def widen(bint widely=True):
    """Have loops over masks and of variances fill the widest registers, or those that all processors have.

    So do loops of columns, of operations that are asked for the first time then.
    """
    corepy_choose_masks(widely)
    corepy_choose_squares(widely)


widen()
