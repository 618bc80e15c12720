# Floats made integers of 8, 16 and 32 bits, as long as these hold them.
# Included by _hot_compiled.pyx.
#
# What is out of range comes to what a processor or a compiler makes of it: such arrays the entry
# converts. Processors flag what 32 bits do not hold, and what fewer do not the loops tell. Without a
# sign 32 bits need a choice between floats, which compilers only make one by one: the entry does, too.

cdef extern from *:
    """
    #define COREPY_NARROW(NAME, FROM, TO, OUTSIDE, TARGET) \
        TARGET static int NAME(const void* source, void* results, npy_intp size) { \
            const FROM* x = (const FROM*)source; \
            TO* into = (TO*)results; \
            uint32_t outside = 0; \
            for (npy_intp i = 0; i < size; i++) { \
                const int32_t made = (int32_t)x[i]; \
                outside |= OUTSIDE; \
                into[i] = (TO)made; \
            } \
            return outside != 0; \
        }
    #define COREPY_NARROW_TO(WIDE, FROM, TARGET) \
        COREPY_NARROW(corepy_##FROM##_to_int8##WIDE, FROM, int8_t, \
            ((uint32_t)made + 128) >> 8, TARGET) \
        COREPY_NARROW(corepy_##FROM##_to_uint8##WIDE, FROM, uint8_t, (uint32_t)made >> 8, TARGET) \
        COREPY_NARROW(corepy_##FROM##_to_int16##WIDE, FROM, int16_t, \
            ((uint32_t)made + 32768) >> 16, TARGET) \
        COREPY_NARROW(corepy_##FROM##_to_uint16##WIDE, FROM, uint16_t, (uint32_t)made >> 16, TARGET) \
        COREPY_NARROW(corepy_##FROM##_to_int32##WIDE, FROM, int32_t, 0, TARGET)
    COREPY_NARROW_TO(, float,)
    COREPY_NARROW_TO(, double,)
    #ifdef COREPY_VARIANTS
    COREPY_NARROW_TO(_wide, float, COREPY_AVX2)
    COREPY_NARROW_TO(_wide, double, COREPY_AVX2)
    #endif

    typedef int (*corepy_narrowing)(const void*, void*, npy_intp);

    #define COREPY_NARROWED(TO) \
        (single ? COREPY_EITHER(corepy_float_to_##TO) : COREPY_EITHER(corepy_double_to_##TO))
    static corepy_narrowing corepy_narrowing_of(int source, int target) {
        const int single = source == NPY_FLOAT;
        if (!single && source != NPY_DOUBLE) return NULL;
        switch (target) {
            case NPY_INT8: return COREPY_NARROWED(int8);
            case NPY_UINT8: return COREPY_NARROWED(uint8);
            case NPY_INT16: return COREPY_NARROWED(int16);
            case NPY_UINT16: return COREPY_NARROWED(uint16);
            case NPY_INT32: return COREPY_NARROWED(int32);
            default: return NULL;
        }
    }
    """
    ctypedef int (*Narrowing "corepy_narrowing")(const void*, void*, npy_intp) noexcept nogil
    Narrowing corepy_narrowing_of(int source, int target) noexcept nogil
