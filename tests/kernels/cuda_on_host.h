/* CUDA on the host, for tests: a thread for each work-item, one group after the other. */
#include <bit>
#include <math.h>
#include <pthread.h>
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
static thread_local Axes threadIdx, blockIdx;
static Axes gridDim;
static pthread_barrier_t group, warps[32];

inline void __syncthreads() { pthread_barrier_wait(&group); }

template <class T> T __shfl_xor_sync(unsigned, T value, int mask)
{
    static T slots[1024];
    pthread_barrier_t *warp = &warps[threadIdx.x / 32];
    slots[threadIdx.x] = value;
    pthread_barrier_wait(warp);
    T other = slots[threadIdx.x ^ mask];
    pthread_barrier_wait(warp);
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

/* A kernel with its arguments, which it is called with in each thread. */
struct Call {
    void (*start)(const Call &);
    void (*kernel)();
    void **arguments;
    unsigned item;
};

template <class... A, std::size_t... I> void start(const Call &call, std::index_sequence<I...>)
{
    ((void (*)(A...))call.kernel)(*(A *)call.arguments[I]...);
}

inline void *groups_of(void *given)
{
    const Call &call = *(const Call *)given;
    threadIdx = {call.item, 0, 0};
    for (unsigned n = 0; n < gridDim.x; ++n) {
        blockIdx = {n, 0, 0};
        call.start(call);
        __syncthreads();
    }
    return nullptr;
}

template <class... A>
void launch(void (*kernel)(A...), unsigned groups, unsigned items, void **arguments)
{
    static pthread_t threads[1024];
    static Call calls[1024];
    gridDim = {groups, 1, 1};
    pthread_barrier_init(&group, nullptr, items);
    for (unsigned i = 0; i < items / 32; ++i)
        pthread_barrier_init(&warps[i], nullptr, 32);
    for (unsigned i = 0; i < items; ++i) {
        calls[i] = {[](const Call &c) { start<A...>(c, std::index_sequence_for<A...>()); },
                    (void (*)())kernel, arguments, i};
        pthread_create(&threads[i], nullptr, groups_of, &calls[i]);
    }
    for (unsigned i = 0; i < items; ++i)
        pthread_join(threads[i], nullptr);
}
