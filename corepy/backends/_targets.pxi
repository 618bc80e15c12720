# What loops may be compiled for, and what of it the processor has.
# Included by the modules of loops in this folder, and by the hot path.

cdef extern from *:
    """
    #ifndef COREPY_SOURCE
    #define COREPY_SOURCE ""
    #endif
    #if defined(_MSC_VER) && !defined(__clang__)
    #define COREPY_ONLY __restrict
    #else
    #define COREPY_ONLY restrict
    #endif

    #if defined(__GNUC__) && defined(__x86_64__)
    #define COREPY_VARIANTS 1
    /* Without fused products: those that are written apart from a sum are to be rounded apart. */
    #define COREPY_AVX2 __attribute__((target("avx2")))
    #define COREPY_AVX2_FUSED __attribute__((target("avx2,fma")))
    #ifdef __clang__
    #define COREPY_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
    #else
    #define COREPY_AVX512 __attribute__(( \\
        target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
    #endif
    #endif

    /* Whether the processor has registers of so many bytes, beyond those that all of its kind have. */
    static inline int corepy_fills(int bytes) {
    #ifdef COREPY_VARIANTS
        __builtin_cpu_init();
        if (bytes == 32) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        if (bytes == 64) {
            return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
                && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
        }
    #endif
        return 0;
    }
    """
    const char* COREPY_SOURCE


#: SHA-256 of the files in a module's folder that it was compiled from.
SOURCE = COREPY_SOURCE.decode()
