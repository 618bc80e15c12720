/* One dialect of C for CUDA, HIP and OpenCL C 1.2, in which the device kernels are written.
 *
 * The runtime puts `#define`s before this file and the kernels after it:
 *
 *   BLOCK_X, BLOCK_Y, BLOCK_Z   the size of a work-group, always
 *   WIDE                        the dtype computed in, float32 or float64; `real` is its type
 *   VECTOR                      elements that a work-item moves at a time (1, or 16 bytes' worth)
 *   LEAST_GROUPS                of CUDA's and HIP's launch bounds; optional
 *   what else a kernel asks for, such as X for the dtype of its first argument
 *
 * A dtype is a token, `float16`, `bfloat16`, `float32`, `float64`, `uint8`, ...: TYPE(dtype) is the
 * type of its elements in memory, LOAD and STORE convert. 16-bit floats are words in memory, so that
 * no target needs a type for them. No work-item may leave before a BARRIER that others wait at.
 */

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

#ifndef WIDE
#define WIDE float32
#endif
#ifndef VECTOR
#define VECTOR 1
#endif
#ifndef LEAST_GROUPS
#define LEAST_GROUPS 1
#endif

/* ------------------------------------------------------------------ the three targets */

#if defined(__OPENCL_VERSION__)

#define TARGET_OPENCL 1
#define KERNEL(name) \
    __kernel __attribute__((reqd_work_group_size(BLOCK_X, BLOCK_Y, BLOCK_Z))) void name
/* Always inline: else LLVM may put a LOCAL array that all calls share into the function itself, where
 * PoCL leaves it one for all work-groups that run at a time. */
#define DEVICE static inline __attribute__((always_inline))
#define GLOBAL __global
#define LOCAL __local
#define SHARED(type, name, size) __local type name[size]
#define SHARED_DYNAMIC(type, name, size) __local type name[size]
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define UNROLL /* its compilers decide, and take seconds where they are told to */
#define ROLLED

#define LOCAL_ID(axis) ((int)get_local_id(axis))
#define GROUP_ID(axis) ((i64)get_group_id(axis))
#define GROUPS(axis) ((i64)get_num_groups(axis))

typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef char i8;
typedef short i16;
typedef int i32;
typedef long i64;

#define bits_of_float(value) as_uint(value)
#define float_of_bits(bits) as_float(bits)
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define HAS_FLOAT64 1
#define bits_of_double(value) as_ulong(value)
#define double_of_bits(bits) as_double(bits)
#endif

#else /* CUDA and HIP */

#if defined(__HIP__) || defined(__HIPCC__) || defined(__HIPCC_RTC__)
#define TARGET_HIP 1
#else
#define TARGET_CUDA 1
#endif
#define KERNEL(name) \
    extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y * BLOCK_Z, LEAST_GROUPS) name
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define SHARED(type, name, size) __shared__ type name[size]
/* More than 48 KiB: the launch has to say how much by `shared`. One array a kernel. */
#define SHARED_DYNAMIC(type, name, size)  \
    extern __shared__ uint4 name##_words[]; \
    type *name = (type *)name##_words
#define BARRIER() __syncthreads()
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1") /* loops that seldom run need no registers of their own */

#define LOCAL_ID(axis) ((int)PASTE(local_id_, axis))
#define GROUP_ID(axis) ((i64)PASTE(group_id_, axis))
#define GROUPS(axis) ((i64)PASTE(groups_, axis))
#define local_id_0 threadIdx.x
#define local_id_1 threadIdx.y
#define local_id_2 threadIdx.z
#define group_id_0 blockIdx.x
#define group_id_1 blockIdx.y
#define group_id_2 blockIdx.z
#define groups_0 gridDim.x
#define groups_1 gridDim.y
#define groups_2 gridDim.z

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

#define HAS_FLOAT64 1
#define bits_of_float(value) __float_as_uint(value)
#define float_of_bits(bits) __uint_as_float(bits)
#define bits_of_double(value) ((u64)__double_as_longlong(value))
#define double_of_bits(bits) __longlong_as_double((i64)(bits))

#endif

/* The number of a work-item in its group, and of all of them. */
#define ITEM (LOCAL_ID(0) + BLOCK_X * (LOCAL_ID(1) + BLOCK_Y * LOCAL_ID(2)))
#define ITEMS (BLOCK_X * BLOCK_Y * BLOCK_Z)

/* ------------------------------------------------------------------ dtypes */

typedef u16 storage_float16;
typedef u16 storage_bfloat16;
typedef float storage_float32;
typedef u8 storage_uint8;
typedef u16 storage_uint16;
typedef u32 storage_uint32;
typedef i8 storage_int8;
typedef i16 storage_int16;
typedef i32 storage_int32;
typedef i64 storage_int64;
#ifdef HAS_FLOAT64
typedef double storage_float64;
#endif

#define TYPE(dtype) PASTE(storage_, dtype)
typedef TYPE(WIDE) real;

#define SIZE(dtype) PASTE(size_, dtype)
#define size_uint8 1
#define size_int8 1
#define size_float16 2
#define size_bfloat16 2
#define size_uint16 2
#define size_int16 2
#define size_float32 4
#define size_uint32 4
#define size_int32 4
#define size_float64 8
#define size_int64 8

#if defined(TARGET_CUDA)

DEVICE float decode_float16(u16 bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

/* To the nearest, ties to even; as every encode. */
DEVICE u16 encode_float16(float value)
{
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

#elif defined(TARGET_HIP)

DEVICE float decode_float16(u16 bits)
{
    return (float)__builtin_bit_cast(_Float16, bits);
}

DEVICE u16 encode_float16(float value)
{
    return __builtin_bit_cast(u16, (_Float16)value);
}

#else /* in OpenCL vload_half reads memory alone, and words in registers are no memory of halves */

DEVICE float decode_float16(u16 bits)
{
    const u32 sign = (u32)(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    u32 found = (rest << 13) + (112u << 23);
    if (rest >= 0x7c00u)
        found = rest << 13 | 0x7f800000u; /* infinities and NaN */
    if (rest < 0x0400u)
        found = bits_of_float((float)rest * 0x1p-24f); /* zero and subnormal numbers */
    return float_of_bits(found | sign);
}

DEVICE u16 encode_float16(float value)
{
    const u32 bits = bits_of_float(value), rest = bits & 0x7fffffffu;
    u32 found = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
    if (rest < 0x38800000u)
        found = (u32)rint(float_of_bits(rest) * 0x1p24f); /* zero and subnormal numbers */
    if (rest >= 0x477ff000u)
        found = 0x7c00u; /* 65520 and what is greater */
    if (rest > 0x7f800000u)
        found = 0x7e00u | (rest >> 13 & 0x3ffu);
    return (u16)(bits >> 16 & 0x8000u | found);
}

#endif

DEVICE float decode_bfloat16(u16 bits)
{
    return float_of_bits((u32)bits << 16);
}

#if defined(TARGET_CUDA) && __CUDA_ARCH__ >= 800

/* Two numbers as one word, the first in its lower half. */
#define PAIRS_OF(dtype, instruction) \
    DEVICE u32 encode_pair_##dtype(float low, float high) \
    { \
        u32 word; \
        asm(instruction " %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low)); \
        return word; \
    }
PAIRS_OF(float16, "cvt.rn.f16x2.f32")
PAIRS_OF(bfloat16, "cvt.rn.bf16x2.f32")

DEVICE u16 encode_bfloat16(float value)
{
    return (u16)encode_pair_bfloat16(value, value);
}

#else

DEVICE u16 encode_bfloat16(float value)
{
    u32 bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (u16)(bits >> 16 | 0x40u); /* NaN stays NaN, and quiet */
    return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#define PAIRS_OF(dtype) \
    DEVICE u32 encode_pair_##dtype(float low, float high) \
    { \
        return (u32)encode_##dtype(low) | (u32)encode_##dtype(high) << 16; \
    }
PAIRS_OF(float16)
PAIRS_OF(bfloat16)

#endif

#define decode_float32(value) (value)
#define encode_float32(value) ((float)(value))
#define decode_float64(value) (value)
#define encode_float64(value) ((double)(value))
#define decode_uint8(value) (value)
#define encode_uint8(value) ((u8)(value))
#define decode_int8(value) (value)
#define encode_int8(value) ((i8)(value))
#define decode_int32(value) (value)
#define encode_int32(value) ((i32)(value))
#define decode_int64(value) (value)
#define encode_int64(value) ((i64)(value))

/* Element i of memory as a number, and back. */
#define LOAD(dtype, memory, i) PASTE(decode_, dtype)((memory)[i])
#define STORE(dtype, memory, i, value) ((memory)[i] = PASTE(encode_, dtype)(value))

#define INFINITE ((real)float_of_bits(0x7f800000u))

/* So many elements are summed on their own: a sum of all would grow until each further one was rounded
 * to its last bits. */
#define SUMMED 256

/* Add `some` to a sum; what rounding takes off stays in `some`, for the next time. */
DEVICE void settle(real *sum, real *some)
{
    const real all = *sum + *some, left = *some - (all - *sum);
    *some = fabs(all) < INFINITE ? left : 0; /* infinity less infinity would be NaN */
    *sum = all;
}

/* The product as a number of its own, never part of a fused multiply-add. */
DEVICE real product(real a, real b)
{
#if defined(TARGET_CUDA)
    return sizeof(real) == 8 ? (real)__dmul_rn(a, b) : (real)__fmul_rn((float)a, (float)b);
#else
#if defined(TARGET_HIP)
#pragma clang fp contract(off)
#else
#pragma OPENCL FP_CONTRACT OFF
#endif
    return a * b;
#endif
}

/* `value` where `taken`, else `other`. PoCL's LLVM 14, on processors newer than itself, makes zeros of
 * four results of exp that `?:` chooses side by side. */
#if defined(TARGET_OPENCL)
#define CHOSEN(taken, value, other) select((real)(other), value, (PASTE(choice_, WIDE))(taken))
typedef i32 choice_float32;
typedef i64 choice_float64;
#else
#define CHOSEN(taken, value, other) ((taken) ? (value) : (other))
#endif

/* 1 / a, within a unit in the last place, where neither is subnormal. */
DEVICE real reciprocal(real a)
{
#if defined(TARGET_CUDA)
    if (sizeof(real) == 4)
        return (real)__fdividef(1.0f, (float)a);
#endif
    return 1 / a;
}

/* exp(x), less exactly for a dtype of 16 bits: within 125 units in the last place of a float32, which
 * are a 64th of one of a float16, by half the instructions
 * (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#intrinsic-functions). */
#if defined(TARGET_CUDA)
#define EXP_FOR(dtype, x) (SIZE(dtype) == 2 && sizeof(real) == 4 ? (real)__expf((float)(x)) : exp(x))
#else
#define EXP_FOR(dtype, x) exp(x)
#endif

/* ------------------------------------------------------------------ arguments */

/* An array as two parameters, as OpenCL has no pointers into the middle of a buffer. It may be
 * absent; HAS(name) says so. POINTER(name) is its first element. */
#define IN(dtype, name) GLOBAL const TYPE(dtype) *name##_memory, const i64 name##_start
#define OUT(dtype, name) GLOBAL TYPE(dtype) *name##_memory, const i64 name##_start
#define POINTER(name) (name##_memory + name##_start)
#define HAS(name) (name##_memory != 0)

/* Rows at up to three strides, as five parameters; ROW(name, i) is where row i begins. */
#define ROWS(name) \
    const i64 name##_n1, const i64 name##_n2, const i64 name##_s0, const i64 name##_s1, \
        const i64 name##_s2
#define ROW(name, i) row_start(i, name##_n1, name##_n2, name##_s0, name##_s1, name##_s2)

/* a % b of numbers that are not negative. Most take a tenth of the time that 64 bits take. */
DEVICE i64 remainder_of(i64 a, i64 b)
{
    return (a | b) >> 31 == 0 ? (i64)((u32)a % (u32)b) : a % b;
}

DEVICE i64 row_start(i64 row, i64 n1, i64 n2, i64 s0, i64 s1, i64 s2)
{
    if (n1 == 1 && n2 == 1)
        return row * s0;
    if ((row | n1 | n2) >> 31 == 0) { /* most divide in a tenth of the time */
        const u32 rest = (u32)row / (u32)n2;
        return (i64)((u32)row - rest * (u32)n2) * s2 + (i64)(rest % (u32)n1) * s1
               + (i64)(rest / (u32)n1) * s0;
    }
    const i64 rest = row / n2;
    return row % n2 * s2 + rest % n1 * s1 + rest / n1 * s0;
}

/* ------------------------------------------------------------------ vectors */

/* VECTOR elements from `memory` on, at a multiple of 16 bytes unless VECTOR is 1, to or from an
 * array of `real`; and on the way as they lie in memory, `WORD(dtype) words[WORDS(dtype)]`. */
#if VECTOR == 1
#define WORDS(dtype) 1
#define WORD(dtype) TYPE(dtype)
#define READ(dtype, memory, words) ((words)[0] = (memory)[0])
#define DECODE(dtype, words, values) ((values)[0] = LOAD(dtype, words, 0))
#define STORE_VECTOR(dtype, memory, values) STORE(dtype, memory, 0, (values)[0])
#else
#define WORDS(dtype) (VECTOR * SIZE(dtype) / 4)
#define WORD(dtype) u32
#define READ(dtype, memory, words) load_all_words(memory, WORDS(dtype), words)
#define DECODE(dtype, words, values) PASTE(decode_vector_, dtype)(words, values)
#define STORE_VECTOR(dtype, memory, values) PASTE(store_vector_, dtype)(memory, values)
#endif
#define LOAD_VECTOR(dtype, memory, values) \
    do { \
        WORD(dtype) loaded[WORDS(dtype)]; \
        READ(dtype, memory, loaded); \
        DECODE(dtype, loaded, values); \
    } while (0)

DEVICE void load_words(GLOBAL const void *memory, int i, u32 *words)
{
    const uint4 four = ((GLOBAL const uint4 *)memory)[i];
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
}

DEVICE void load_all_words(GLOBAL const void *memory, int count, u32 *words)
{
    UNROLL
    for (int i = 0; i < count / 4; ++i)
        load_words(memory, i, words + 4 * i);
}

DEVICE void store_words(GLOBAL void *memory, int i, const u32 *words)
{
    uint4 four;
    four.x = words[0];
    four.y = words[1];
    four.z = words[2];
    four.w = words[3];
#if defined(__CUDA_ARCH__)
    /* One instruction, always: of an assignment nvcc makes four where two branches end alike, which
     * write at a fraction of the speed. It does not say that memory changes, so that loads may come
     * before it: no work-item reads what it has written but after a BARRIER. */
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"((uint4 *)memory + i), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w));
#else
    ((GLOBAL uint4 *)memory)[i] = four;
#endif
}

#define VECTORS_OF_16_BITS(dtype) \
    DEVICE void decode_vector_##dtype(const u32 *words, real *values) \
    { \
        UNROLL for (int i = 0; i < VECTOR / 2; ++i) \
        { \
            values[2 * i] = decode_##dtype((u16)(words[i] & 0xffffu)); \
            values[2 * i + 1] = decode_##dtype((u16)(words[i] >> 16)); \
        } \
    } \
    DEVICE void store_vector_##dtype(GLOBAL u16 *memory, const real *values) \
    { \
        u32 words[4]; \
        UNROLL for (int i = 0; i < VECTOR / 8; ++i) \
        { \
            UNROLL for (int j = 0; j < 4; ++j) \
                words[j] = encode_pair_##dtype(values[8 * i + 2 * j], values[8 * i + 2 * j + 1]); \
            store_words(memory, i, words); \
        } \
    }

#if VECTOR % 8 == 0
VECTORS_OF_16_BITS(float16)
VECTORS_OF_16_BITS(bfloat16)
#endif

#if VECTOR % 4 == 0
DEVICE void decode_vector_float32(const u32 *words, real *values)
{
    UNROLL
    for (int i = 0; i < VECTOR; ++i)
        values[i] = float_of_bits(words[i]);
}

DEVICE void store_vector_float32(GLOBAL float *memory, const real *values)
{
    u32 words[4];
UNROLL
    for (int i = 0; i < VECTOR / 4; ++i) {
UNROLL
        for (int j = 0; j < 4; ++j)
            words[j] = bits_of_float((float)values[4 * i + j]);
        store_words(memory, i, words);
    }
}
#endif

#if VECTOR % 2 == 0 && defined(HAS_FLOAT64)
DEVICE void decode_vector_float64(const u32 *words, real *values)
{
    UNROLL
    for (int i = 0; i < VECTOR; ++i)
        values[i] = double_of_bits((u64)words[2 * i + 1] << 32 | words[2 * i]);
}

DEVICE void store_vector_float64(GLOBAL double *memory, const real *values)
{
    u32 words[4];
UNROLL
    for (int i = 0; i < VECTOR / 2; ++i) {
UNROLL
        for (int j = 0; j < 2; ++j) {
            u64 bits = bits_of_double((double)values[2 * i + j]);
            words[2 * j] = (u32)bits;
            words[2 * j + 1] = (u32)(bits >> 32);
        }
        store_words(memory, i, words);
    }
}
#endif

/* The same at the end of an array, where only `count` elements are left; others become zero. */
#define LOAD_SOME(dtype, memory, values, count) \
    do { \
        if ((count) >= VECTOR) { \
            LOAD_VECTOR(dtype, memory, values); \
        } else { \
            for (int load_j = 0; load_j < VECTOR; ++load_j) \
                (values)[load_j] = load_j < (count) ? (real)LOAD(dtype, memory, load_j) : 0; \
        } \
    } while (0)
#define STORE_SOME(dtype, memory, values, count) \
    do { \
        if ((count) >= VECTOR) { \
            STORE_VECTOR(dtype, memory, values); \
        } else { \
            for (int store_j = 0; store_j < VECTOR; ++store_j) \
                if (store_j < (count)) \
                    STORE(dtype, memory, store_j, (values)[store_j]); \
        } \
    } while (0)

/* ------------------------------------------------------------------ across work-items */

/* 32 work-items whose numbers follow one another: a warp, or half of a wavefront. In OpenCL they
 * speak through local memory, so that all work-items of a group have to come to each SHUFFLE. */
#define SUBGROUP 32

/* The value of the work-item whose number differs by the bits of `mask`, less than SUBGROUP.
 * `scratch` is LOCAL and holds a value for each work-item of the group. */
#if defined(TARGET_CUDA)
#define SHUFFLE_XOR(value, mask, scratch) __shfl_xor_sync(0xffffffffu, value, mask)
#elif defined(TARGET_HIP)
#define SHUFFLE_XOR(value, mask, scratch) __shfl_xor(value, mask, SUBGROUP)
#else
#define SHUFFLE_XOR(value, mask, scratch) shuffle_xor(value, mask, scratch)
DEVICE real shuffle_xor(real value, int mask, LOCAL real *scratch)
{
    scratch[ITEM] = value;
    BARRIER();
    real other = scratch[ITEM ^ mask];
    BARRIER();
    return other;
}
#endif

DEVICE real add_reals(real a, real b)
{
    return a + b;
}

/* The greater one; NaN only if both are. */
DEVICE real greater_real(real a, real b)
{
    return fmax(a, b);
}

/* Work-items that share a row, next to one another: a power of two, from SUBGROUP to ITEMS. Several
 * rows side by side belong in a block of one dimension: PoCL compiles one of two for seconds. */
#ifndef LANES
#define LANES ITEMS
#endif
#define LANE (ITEM % LANES)

/* Over the LANES of a row; all of them get the result. All work-items of the group have to come
 * here. `scratch` is LOCAL and holds ITEMS. */
#if defined(TARGET_OPENCL)
/* In two steps: few barriers, none of them in a loop. */
#define REDUCERS 16
#define REDUCTION(name, combine) \
    DEVICE real name(real value, LOCAL real *scratch) \
    { \
        LOCAL real *row = scratch + (ITEM - LANE); \
        row[LANE] = value; \
        BARRIER(); \
        if (LANE < REDUCERS) { \
            for (int i = LANE + REDUCERS; i < LANES; i += REDUCERS) \
                value = combine(value, row[i]); \
            row[LANE] = value; \
        } \
        BARRIER(); \
        value = row[0]; \
        for (int i = 1; i < REDUCERS; ++i) \
            value = combine(value, row[i]); \
        BARRIER(); \
        return value; \
    }
#else
#define SUBGROUPS (LANES > SUBGROUP ? LANES / SUBGROUP : 1)
#define REDUCTION(name, combine) \
    DEVICE real name(real value, LOCAL real *scratch) \
    { \
        UNROLL for (int mask = 1; mask < SUBGROUP; mask *= 2) \
            value = combine(value, SHUFFLE_XOR(value, mask, scratch)); \
        if (LANES == SUBGROUP) \
            return value; \
        const int first = (ITEM - LANE) / SUBGROUP; \
        if (LANE % SUBGROUP == 0) \
            scratch[ITEM / SUBGROUP] = value; \
        BARRIER(); \
        value = scratch[first + ITEM % SUBGROUPS]; \
        UNROLL for (int mask = 1; mask < SUBGROUPS; mask *= 2) \
            value = combine(value, SHUFFLE_XOR(value, mask, scratch)); \
        BARRIER(); \
        return value; \
    }
#endif

REDUCTION(row_sum, add_reals)
REDUCTION(row_max, greater_real)

/* ------------------------------------------------------------------ rows */

/* A row belongs to LANES work-items. Each has VECTOR elements at a time, from ROW_AT(step) on, in
 * the steps of ROW_STEPS. What it keeps of them lies in registers, `real name[HELD][VECTOR]`, where
 * HELD says that so many steps are enough, some of them beyond the row's end; with a HELD of 0 rows
 * are longer, and KEPT(name, step) is only the step's own. */
#ifndef HELD
#define HELD 0
#endif
#define GROUP_ROWS (ITEMS / LANES)
#define ROW_AT(step) (((i64)(step) * LANES + LANE) * VECTOR)
#if HELD
#define ROW_STEPS(step, length) UNROLL for (int step = 0; step < HELD; ++step)
#define IN_ROW(step, length) (ROW_AT(step) < (length))
#define KEEP(name) real name[HELD][VECTOR]
#define KEPT(name, step) (name)[step]
#else
#define ROW_STEPS(step, length) for (int step = 0; ROW_AT(step) < (length); ++step)
#define IN_ROW(step, length) 1
#define KEEP(name) real name[VECTOR]
#define KEPT(name, step) (name)
#endif

/* SETTLE: in each step, where there may be many, add up what they gave; see `settle`. */
#if HELD
#define SETTLE(sum, some, step) {}
#else
#define SETTLE(sum, some, step) \
    { if (((step) + 1) % (SUMMED / VECTOR) == 0) settle(&(sum), &(some)); }
#endif

/* KEEP_WORDS, READ_ROW and DECODE_STEP: the same for what is used but once, as it lies in memory: of
 * 16 bits in half the registers, and with nothing beyond the row's end. */
#if HELD
#define KEEP_WORDS(dtype, name) WORD(dtype) name[HELD][WORDS(dtype)]
#define READ_ROW(dtype, memory, length, name) \
    { ROW_STEPS(read_step, length) \
    { \
        if (IN_ROW(read_step, length)) \
            READ(dtype, (memory) + ROW_AT(read_step), (name)[read_step]); \
    } }
#define DECODE_STEP(dtype, memory, name, step, values) DECODE(dtype, (name)[step], values)
#else
#define KEEP_WORDS(dtype, name)
#define READ_ROW(dtype, memory, length, name) {}
#define DECODE_STEP(dtype, memory, name, step, values) LOAD_VECTOR(dtype, (memory) + ROW_AT(step), values)
#endif

/* LOAD_ROW: what is kept of a row, zero beyond its end, with nothing that waits between the loads, so
 * that all are under way at once. LOAD_STEP: in each step, what is not kept. */
#if HELD
#define LOAD_ROW(dtype, memory, length, values) \
    { ROW_STEPS(load_step, length) \
    { \
        if (IN_ROW(load_step, length)) { \
            LOAD_VECTOR(dtype, (memory) + ROW_AT(load_step), KEPT(values, load_step)); \
        } else { \
            UNROLL for (int load_j = 0; load_j < VECTOR; ++load_j) \
                KEPT(values, load_step)[load_j] = 0; \
        } \
    } }
#define LOAD_STEP(dtype, memory, values, step) {}
#else
#define LOAD_ROW(dtype, memory, length, values) {}
#define LOAD_STEP(dtype, memory, values, step) \
    LOAD_VECTOR(dtype, (memory) + ROW_AT(step), KEPT(values, step))
#endif

/* The nearest number of a dtype. */
#define ROUND(dtype, value) PASTE(decode_, dtype)(PASTE(encode_, dtype)(value))
