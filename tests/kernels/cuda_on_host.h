/* CUDA on the host, for tests: work-items take turns in one thread, one group after the other.

A thread for each would spend most of its time falling asleep at barriers. */
#include <bit>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

#define __device__
#define __global__
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __align__(bytes) alignas(bytes)
#define __launch_bounds__(...)

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct Axes {
    unsigned x, y, z;
};
static Axes threadIdx, blockIdx, gridDim;

/* Who waits leaves the turn to the next one, until as many have come as are expected. */
struct Barrier {
    unsigned expected, arrived, rounds;
};
static Barrier group, warps[32];
static ucontext_t scheduler, contexts[1024];
static bool moved;

inline void wait(Barrier &barrier)
{
    unsigned round = barrier.rounds;
    moved = true;
    if (++barrier.arrived == barrier.expected) {
        barrier.arrived = 0;
        ++barrier.rounds;
    }
    Axes item = threadIdx, block = blockIdx;
    while (barrier.rounds == round) {
        swapcontext(&contexts[item.x], &scheduler);
        threadIdx = item;
        blockIdx = block;
    }
}

inline void __syncthreads() { wait(group); }

template <class T> T __shfl_xor_sync(unsigned, T value, int mask)
{
    static T slots[1024];
    Barrier &warp = warps[threadIdx.x / 32];
    slots[threadIdx.x] = value;
    wait(warp);
    T other = slots[threadIdx.x ^ mask];
    wait(warp);
    return other;
}

#define __float_as_uint(x) std::bit_cast<unsigned>((float)(x))
#define __uint_as_float(x) std::bit_cast<float>((unsigned)(x))
#define __double_as_longlong(x) std::bit_cast<long long>((double)(x))
#define __longlong_as_double(x) std::bit_cast<double>((long long)(x))
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fdividef(float a, float b) { return a / b; }

/* Halves are converted by instructions of the GPU alone. */
#define asm(...) __builtin_trap()

/* What each item calls, with what. */
template <class... A> static void (*kernel_of)(A...);
static void **arguments_of;
static unsigned left;

template <class... A, std::size_t... I> void call(std::index_sequence<I...>)
{
    kernel_of<A...>(*(A *)arguments_of[I]...);
}

template <class... A> void groups_of(int item)
{
    threadIdx = {(unsigned)item, 0, 0};
    for (unsigned n = 0; n < gridDim.x; ++n) {
        blockIdx = {n, 0, 0};
        call<A...>(std::index_sequence_for<A...>());
        __syncthreads();
    }
    contexts[item] = {}; /* not to be resumed */
    --left;
    moved = true;
    setcontext(&scheduler);
}

template <class... A>
void launch(void (*kernel)(A...), unsigned groups, unsigned items, void **arguments)
{
    constexpr std::size_t size = 256 << 10;
    static char *stacks = (char *)mmap(nullptr, 1024 * size, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    gridDim = {groups, 1, 1};
    kernel_of<A...> = kernel;
    arguments_of = arguments;
    group = {items, 0, 0};
    for (Barrier &warp : warps)
        warp = {32, 0, 0};
    for (unsigned i = 0; i < items; ++i) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks + i * size;
        contexts[i].uc_stack.ss_size = size;
        makecontext(&contexts[i], (void (*)())groups_of<A...>, 1, (int)i);
    }
    for (left = items; left;) {
        moved = false;
        for (unsigned i = 0; i < items; ++i)
            if (contexts[i].uc_stack.ss_sp)
                swapcontext(&scheduler, &contexts[i]);
        if (!moved) {
            fputs("items of a group wait at different barriers\n", stderr);
            abort();
        }
    }
}
