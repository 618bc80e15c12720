/* Declarations in place of HIP's headers, for a Clang without them. */
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads, groups) __attribute__((amdgpu_flat_work_group_size(1, threads)))

struct uint4 {
    unsigned x, y, z, w;
} __attribute__((aligned(16)));

struct Axes {
    unsigned x, y, z;
};
#define threadIdx (Axes{__builtin_amdgcn_workitem_id_x(), 0, 0})
#define blockIdx (Axes{__builtin_amdgcn_workgroup_id_x(), 0, 0})
#define gridDim (Axes{__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(), 1, 1})

__device__ void __syncthreads();
__device__ float __shfl_xor(float, int, int);
__device__ double __shfl_xor(double, int, int);
__device__ inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
__device__ inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
__device__ inline long long __double_as_longlong(double x)
{
    return __builtin_bit_cast(long long, x);
}
__device__ inline double __longlong_as_double(long long x)
{
    return __builtin_bit_cast(double, x);
}

#define MATH(name) \
    __device__ float name(float); \
    __device__ double name(double);
MATH(exp)
MATH(fabs)
MATH(log)
MATH(rint)
MATH(sqrt)
__device__ float fmin(float, float);
__device__ double fmin(double, double);
__device__ float fmax(float, float);
__device__ double fmax(double, double);
__device__ float fma(float, float, float);
__device__ double fma(double, double, double);
__device__ int min(int, int);
__device__ int max(int, int);
