# How selected elements are brought side by side in registers of 32 bytes.
# Included after _targets.pxi, by modules whose loops do so.

cdef extern from *:
    """
    #include <stdint.h>
    #ifdef COREPY_VARIANTS
    #include <immintrin.h>

    /* Of each byte the places of the bits that are set, a byte each from the lowest on. */
    static uint64_t corepy_bit_places[256];

    /* Those of 8 elements of 32 bits, or of 4 of 64, whose bits are set go first. */
    COREPY_AVX2 static inline __m256i corepy_packed_32(__m256i all, unsigned some) {
        const __m128i places = _mm_cvtsi64_si128((int64_t)corepy_bit_places[some]);
        return _mm256_permutevar8x32_epi32(all, _mm256_cvtepu8_epi32(places));
    }
    COREPY_AVX2 static inline __m256i corepy_packed_64(__m256i all, unsigned some) {
        /* As pairs of 32 bits: 2 k and 2 k + 1 for k. */
        const __m128i places = _mm_cvtsi64_si128((int64_t)(2 * corepy_bit_places[some]));
        const __m128i next = _mm_add_epi8(places, _mm_set1_epi8(1));
        const __m256i pairs = _mm256_cvtepu8_epi32(_mm_unpacklo_epi8(places, next));
        return _mm256_permutevar8x32_epi32(all, pairs);
    }
    #endif

    static void corepy_find_bit_places(void) {
    #ifdef COREPY_VARIANTS
        for (int some = 0; some < 256; some++) {
            int count = 0;
            for (int k = 0; k < 8; k++) {
                if (some >> k & 1) corepy_bit_places[some] |= (uint64_t)k << 8 * count++;
            }
        }
    #endif
    }
    """
    void corepy_find_bit_places()


corepy_find_bit_places()
