# What loops may be compiled for, what of it the processor has, and the flags that loops raise.
# Included by the modules of loops in this folder, and by the hot path.

cdef extern from *:
    """
    #ifndef COREPY_SOURCE
    #define COREPY_SOURCE ""
    #endif
    #if SIZEOF_VOID_P != 8
    #error "corepy's loops are for addresses of 64 bits: it runs in Python here"
    #endif
    #if defined(_MSC_VER) && !defined(__clang__)
    #define COREPY_ONLY __restrict
    #else
    #define COREPY_ONLY restrict
    #endif
    #if defined(__GNUC__)
    #define COREPY_APART __attribute__((noinline))
    #elif defined(_MSC_VER)
    #define COREPY_APART __declspec(noinline)
    #else
    #define COREPY_APART
    #endif

    /* GCC on Windows does not align the stack to wide registers (its bug 54412). */
    #if defined(__GNUC__) && defined(__x86_64__) && (defined(__clang__) || !defined(_WIN32))
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


cdef extern from *:
    """
    #include <fenv.h>
    /* Of invalid, divided by zero, overflow and underflow: which are up, as `fetestexcept` says, and
       to lower all there are. Asked of the processor at once: the C library's functions take as long
       as to sum up ten numbers, and longer. */
    #if defined(__SSE2__) && !defined(_MSC_VER)
    #include <xmmintrin.h>
    #define COREPY_FLAGS 0x1D
    #define COREPY_ALL_THERE_ARE 0x3F
    /* Those of vector registers, in which all loops of ours and of NumPy's compute. */
    static inline int corepy_flags(void) { return (int)(_mm_getcsr() & COREPY_FLAGS); }
    static inline void corepy_no_flags(void) {
        if (corepy_flags()) _mm_setcsr(_mm_getcsr() & ~(unsigned)COREPY_ALL_THERE_ARE);
    }
    static inline int corepy_x87_flags(void) {
        unsigned short status;
        __asm__ volatile("fnstsw %0" : "=a"(status));
        return status & COREPY_FLAGS;
    }
    /* And those of the x87 unit: there the C library notes what loops tell it themselves, such as
       the overflow of an exponential. */
    static inline int corepy_all_flags(void) { return corepy_flags() | corepy_x87_flags(); }
    static inline void corepy_none_of_all(void) {
        corepy_no_flags();
        if (corepy_x87_flags()) __asm__ volatile("fnclex");
    }
    #else
    static inline int corepy_all_flags(void) {
        return fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
    }
    static inline void corepy_none_of_all(void) {
        if (corepy_all_flags()) feclearexcept(FE_ALL_EXCEPT);
    }
    static inline int corepy_flags(void) { return corepy_all_flags(); }
    static inline void corepy_no_flags(void) { corepy_none_of_all(); }
    #endif
    """
    enum:
        FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW
    int corepy_flags() noexcept nogil
    void corepy_no_flags() noexcept nogil
    int corepy_all_flags() noexcept nogil
    void corepy_none_of_all() noexcept nogil


#: SHA-256 of the files in a module's folder that it was compiled from.
SOURCE = COREPY_SOURCE.decode()
