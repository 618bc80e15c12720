# Powers of floats, whose loop in NumPy takes the root where an exponent of 0.5 is repeated.
# Included by _hot_compiled.pyx.
#
# Of -0 that root is -0, and of -infinity it is NaN; their powers are 0 and infinity, as they are where
# each element has an exponent of its own. A root takes a fraction of a power's time, and so it is kept:
# of each element plus 0, or of infinity for -infinity.

cdef extern from *:
    """
    #include <math.h>

    typedef void (*corepy_root)(char**, const npy_intp*, const npy_intp*, void*);

    /* Powers to 0.5. `root` is a loop for elements side by side, or NULL: before it -0 and -infinity
       lose their sign. Those of single precision do by their bits, in vector registers; without
       SSE4.1 words of 64 bits are not compared there. */
    #define COREPY_HALF_POWERS(NAME, ITEM, WORD, UNSIGNED, ROOT) \\
        static void NAME( \\
            const char* from, npy_intp step, char* into, npy_intp apart, npy_intp size, \\
            corepy_root root \\
        ) { \\
            const ITEM infinite = (ITEM)INFINITY; \\
            const npy_intp steps[2] = {sizeof(ITEM), sizeof(ITEM)}; \\
            if (root == NULL || step != sizeof(ITEM) || apart != sizeof(ITEM)) { \\
                for (npy_intp i = 0; i < size; i++) { \\
                    const ITEM x = *(const ITEM*)(from + i * step); \\
                    *(ITEM*)(into + i * apart) = ROOT(x == -infinite ? infinite : x + 0); \\
                } \\
                return; \\
            } \\
            while (size > 0) {  /* what fits the first cache */ \\
                const npy_intp some = size < 1024 ? size : 1024; \\
                const WORD* x = (const WORD*)from; \\
                WORD* y = (WORD*)into; \\
                char* args[2] = {into, into}; \\
                for (npy_intp i = 0; i < some; i++) { \\
                    y[i] = UNSIGNED; \\
                } \\
                root(args, &some, steps, NULL); \\
                from += some * sizeof(ITEM); \\
                into += some * sizeof(ITEM); \\
                size -= some; \\
            } \\
        }
    COREPY_HALF_POWERS(corepy_half_powers_of_floats, float, uint32_t, \\
        x[i] ^ (-(uint32_t)((x[i] == 0x80000000u) | (x[i] == 0xFF800000u)) & 0x80000000u), sqrtf)
    COREPY_HALF_POWERS(corepy_half_powers_of_doubles, double, double, \\
        x[i] == -infinite ? infinite : x[i] + 0, sqrt)
    """
    void corepy_half_powers_of_floats(
        const char*, npy_intp, char*, npy_intp, npy_intp, PyUFuncGenericFunction
    ) noexcept nogil
    void corepy_half_powers_of_doubles(
        const char*, npy_intp, char*, npy_intp, npy_intp, PyUFuncGenericFunction
    ) noexcept nogil


cdef struct Power:
    PyUFuncGenericFunction power, root
    void* data  # for the first
    bint rooted  # whether it was a root that was computed last; for the words of a warning alone


cdef Power _powers[2]  # of float32 and float64; for good, since tables come and go


cdef int _mind_roots(Slot* slot, loop, dtype) except -1:
    """Put a loop in the place of NumPy's that minds an exponent of 0.5."""
    cdef bint doubles = dtype.num == NPY_DOUBLE
    cdef Power* power = &_powers[doubles]
    cdef uintptr_t root = loop.roots.get(dtype.name, 0)
    power.power, power.data = slot.loop, slot.data
    power.root = <PyUFuncGenericFunction>root
    slot.loop, slot.data = _powers_of_doubles if doubles else _powers_of_floats, power
    return 0


cdef void _powers_of_floats(
    char** operands, const npy_intp* size, const npy_intp* steps, void* data
) noexcept nogil:
    cdef Power* power = <Power*>data
    power.rooted = steps[1] == 0 and size[0] > 0 and (<float*>operands[1])[0] == 0.5
    if power.rooted:
        corepy_half_powers_of_floats(
            operands[0], steps[0], operands[2], steps[2], size[0], power.root
        )
    else:
        power.power(operands, size, steps, power.data)


cdef void _powers_of_doubles(
    char** operands, const npy_intp* size, const npy_intp* steps, void* data
) noexcept nogil:
    cdef Power* power = <Power*>data
    power.rooted = steps[1] == 0 and size[0] > 0 and (<double*>operands[1])[0] == 0.5
    if power.rooted:
        corepy_half_powers_of_doubles(
            operands[0], steps[0], operands[2], steps[2], size[0], power.root
        )
    else:
        power.power(operands, size, steps, power.data)


cdef inline const char* _name_of(Slot* slot) noexcept:
    """Return under what name NumPy tells of what a loop met with: powers are roots where they can."""
    if slot.loop == _powers_of_doubles or slot.loop == _powers_of_floats:
        if (<Power*>slot.data).rooted:
            return "sqrt"
    return slot.told
