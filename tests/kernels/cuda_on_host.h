/* CUDA on the host, for tests: a thread for each work-item, one group after the other. */
#include <barrier>
#include <bit>
#include <math.h>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct Axes {
    unsigned x, y, z;
};
static thread_local Axes threadIdx, blockIdx;
static Axes gridDim;
static std::unique_ptr<std::barrier<>> group;
static std::vector<std::unique_ptr<std::barrier<>>> warps;

inline void __syncthreads() { group->arrive_and_wait(); }

template <class T> T __shfl_xor_sync(unsigned, T value, int mask)
{
    static T slots[1024];
    std::barrier<> &warp = *warps[threadIdx.x / 32];
    slots[threadIdx.x] = value;
    warp.arrive_and_wait();
    T other = slots[threadIdx.x ^ mask];
    warp.arrive_and_wait();
    return other;
}

#define __float_as_uint(x) std::bit_cast<unsigned>((float)(x))
#define __uint_as_float(x) std::bit_cast<float>((unsigned)(x))
#define __double_as_longlong(x) std::bit_cast<long long>((double)(x))
#define __longlong_as_double(x) std::bit_cast<double>((long long)(x))
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }

/* Halves are converted by instructions of the GPU alone. */
#define asm(...) __builtin_trap()

template <class... A, std::size_t... I>
void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>)
{
    kernel(*(A *)arguments[I]...);
}

template <class... A>
void launch(void (*kernel)(A...), unsigned groups, unsigned items, void **arguments)
{
    gridDim = {groups, 1, 1};
    group = std::make_unique<std::barrier<>>(items);
    warps.clear();
    for (unsigned i = 0; i < items; i += 32)
        warps.push_back(std::make_unique<std::barrier<>>(32));
    std::vector<std::thread> threads;
    for (unsigned item = 0; item < items; ++item)
        threads.emplace_back([=] {
            threadIdx = {item, 0, 0};
            for (unsigned n = 0; n < groups; ++n) {
                blockIdx = {n, 0, 0};
                call(kernel, arguments, std::index_sequence_for<A...>());
                group->arrive_and_wait();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}
