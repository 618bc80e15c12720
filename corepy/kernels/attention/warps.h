/* What the 32 work-items of a warp do together on the tensor cores of CUDA, from sm_80 on.
 *
 * Each primitive has two forms: PTX, and an emulation in OpenCL C that follows the layouts of
 * fragments in the PTX ISA (sections "Matrix Fragments for mma.m16n8k16", "ldmatrix", "cp.async")
 * through local memory. So the source of a kernel runs on any device, to be tested; in the
 * emulation all work-items of a group have to come to each primitive.
 *
 * X is float16 or bfloat16, two elements a word, and the first of them is its lower half. `scratch`
 * is LOCAL u32 memory for the emulation, SCRATCH_WORDS of it.
 */

#define is_brain_float16 0
#define is_brain_bfloat16 1
#define BRAIN PASTE(is_brain_, X)

#define WARP 32
#define WARP_LANE (ITEM % WARP)

/* Two numbers as one word. */
#define pack PASTE(encode_pair_, X)

#if defined(TARGET_OPENCL)

#define SCRATCH_WORDS (6 * ITEMS)
/* Its part for the own warp, of `n` words for each lane. */
#define SCRATCH_OF_WARP(scratch, n) ((scratch) + ITEM / WARP * WARP * (n))

/* 2 to some power. */
DEVICE float power_of_two(float x)
{
    return exp2(x);
}

/* The value of the lane whose number differs by the bits of `mask`. */
DEVICE float of_lane(float value, int mask, LOCAL u32 *scratch)
{
    LOCAL u32 *own = SCRATCH_OF_WARP(scratch, 1);
    own[WARP_LANE] = bits_of_float(value);
    BARRIER();
    const float other = float_of_bits(own[WARP_LANE ^ mask]);
    BARRIER();
    return other;
}

/* Element (row, k) of A, 16 by 16: lane (row % 8) * 4 + k % 8 / 2 has it, in register
 * row / 8 + k / 8 * 2. */
DEVICE float element_of_a(LOCAL const u32 *a, int row, int k)
{
    const u32 word = a[(row % 8 * 4 + k % 8 / 2) * 4 + row / 8 + k / 8 * 2];
    return PASTE(decode_, X)((u16)(word >> k % 2 * 16));
}

/* Element (k, n) of B, 16 by 8: lane n * 4 + k % 8 / 2 has it, in register k / 8. */
DEVICE float element_of_b(LOCAL const u32 *b, int k, int n)
{
    const u32 word = b[(n * 4 + k % 8 / 2) * 2 + k / 8];
    return PASTE(decode_, X)((u16)(word >> k % 2 * 16));
}

/* C += A @ B. A lane has elements (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2) of C, i from 0. */
DEVICE void multiply_add(float *c, const u32 *a, const u32 *b, LOCAL u32 *scratch)
{
    LOCAL u32 *all_of_a = SCRATCH_OF_WARP(scratch, 6), *all_of_b = all_of_a + 4 * WARP;
    for (int i = 0; i < 4; ++i)
        all_of_a[4 * WARP_LANE + i] = a[i];
    for (int i = 0; i < 2; ++i)
        all_of_b[2 * WARP_LANE + i] = b[i];
    BARRIER();
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 16; ++k)
            c[i] = fma(element_of_a(all_of_a, WARP_LANE / 4 + i / 2 * 8, k),
                       element_of_b(all_of_b, k, WARP_LANE % 4 * 2 + i % 2),
                       c[i]);
    BARRIER();
}

/* Four matrices of 8 by 8 elements, whose rows are 16 bytes each. Lane 8 * j + i says where row i
 * of matrix j begins, `at` elements from `memory`; register j of a lane gets elements
 * (lane / 4, lane % 4 * 2) and the next one, or with `transposed` those that are there when rows
 * are columns. */
DEVICE void load_matrices(
    u32 *into, LOCAL const u16 *memory, int at, int transposed, LOCAL u32 *scratch)
{
    LOCAL u32 *begins = SCRATCH_OF_WARP(scratch, 1);
    begins[WARP_LANE] = (u32)at;
    BARRIER();
    for (int j = 0; j < 4; ++j) {
        const int row = WARP_LANE / 4, column = WARP_LANE % 4 * 2;
        const u16 low = transposed ? memory[begins[8 * j + column] + row]
                                   : memory[begins[8 * j + row] + column];
        const u16 high = transposed ? memory[begins[8 * j + column + 1] + row]
                                    : memory[begins[8 * j + row] + column + 1];
        into[j] = (u32)low | (u32)high << 16;
    }
    BARRIER();
}

/* Copy 16 bytes into local memory, or zeros there, until `wait_for_copies` and a barrier. */
DEVICE void begin_copy(LOCAL u16 *to, GLOBAL const u16 *from, int inside)
{
    for (int i = 0; i < 8; ++i)
        to[i] = inside ? from[i] : 0;
}

#define end_copies()
#define wait_for_copies()

#else /* CUDA */

#define SCRATCH_WORDS 1

DEVICE float power_of_two(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

DEVICE float of_lane(float value, int mask, LOCAL u32 *)
{
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

DEVICE void multiply_add(float *c, const u32 *a, const u32 *b, LOCAL u32 *)
{
#if BRAIN
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#endif
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

DEVICE void load_matrices(u32 *into, LOCAL const u16 *memory, int at, int transposed, LOCAL u32 *)
{
    const u32 address = (u32)__cvta_generic_to_shared(memory + at);
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
                     : "r"(address)
                     : "memory");
}

DEVICE void begin_copy(LOCAL u16 *to, GLOBAL const u16 *from, int inside)
{
    /* Of its 16 bytes as many are read as the last operand says; the others become zeros. */
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}

#define end_copies() asm volatile("cp.async.commit_group;" ::: "memory")
#define wait_for_copies() asm volatile("cp.async.wait_group 0;" ::: "memory")

#endif
