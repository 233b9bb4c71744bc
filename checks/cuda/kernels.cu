// Source of kernels.ptx, which is shipped; scripts/make-kernels makes it again. Everything a kernel computes can
// be computed on the host too (checks/cuda/reference.py): no result is checked against the same GPU alone.
// n counts elements; out[0] counts mismatches, out[1] keeps the lowest bad index (set it to ~0 before).
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ __forceinline__ u64 first(void) { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ __forceinline__ u64 stride(void) { return (u64)gridDim.x * blockDim.x; }

// murmur3's finaliser over index and seed: neighbours and repeated halves have nothing in common.
static __device__ __forceinline__ u32 mix(u64 i, u32 seed)
{
    u32 x = (u32)i ^ ((u32)(i >> 32) * 0x9E3779B1u) ^ seed;
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    x ^= x >> 16;
    return x + seed;
}

static __device__ __forceinline__ void wrong(u64 *out, u64 i)
{
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], i);
}

extern "C" __global__ void kpro_fill_u32(u32 *p, u64 n, u32 seed)
{
    for (u64 i = first(); i < n; i += stride()) p[i] = mix(i, seed);
}

extern "C" __global__ void kpro_check_u32(const u32 *p, u64 n, u32 seed, u64 *out)
{
    for (u64 i = first(); i < n; i += stride())
        if (p[i] != mix(i, seed)) wrong(out, i);
}

// Whole numbers 0..63 plus the rank: sums over any number of ranks that exists are exact in fp32.
extern "C" __global__ void kpro_fill_f32(float *p, u64 n, u32 seed, u32 rank)
{
    for (u64 i = first(); i < n; i += stride()) p[i] = (float)((mix(i, seed) & 63u) + rank);
}

extern "C" __global__ void kpro_check_sum_f32(const float *p, u64 n, u32 seed, u32 nranks, u64 *out)
{
    u32 ranks = nranks * (nranks - 1u) / 2u;
    for (u64 i = first(); i < n; i += stride())
        if (p[i] != (float)((mix(i, seed) & 63u) * nranks + ranks)) wrong(out, i);
}

// Each word holds its own index, or with flip = ~0 the complement of it.
extern "C" __global__ void kpro_fill_index(u32 *p, u64 n, u32 flip)
{
    for (u64 i = first(); i < n; i += stride()) p[i] = (u32)i ^ flip;
}

extern "C" __global__ void kpro_check_index(const u32 *p, u64 n, u32 flip, u64 *out)
{
    for (u64 i = first(); i < n; i += stride())
        if (p[i] != ((u32)i ^ flip)) wrong(out, i);
}

// Bandwidth: n counts 16-byte vectors.
extern "C" __global__ void kpro_copy(uint4 *dst, const uint4 *src, u64 n)
{
    u64 i = first(), step = stride();
    for (; i + 3 * step < n; i += 4 * step) { // four loads on their way: enough to fill HBM
        uint4 a = src[i], b = src[i + step], c = src[i + 2 * step], d = src[i + 3 * step];
        dst[i] = a, dst[i + step] = b, dst[i + 2 * step] = c, dst[i + 3 * step] = d;
    }
    for (; i < n; i += step) dst[i] = src[i];
}

extern "C" __global__ void kpro_triad(float4 *a, const float4 *b, const float4 *c, u64 n, float s)
{
    for (u64 i = first(); i < n; i += stride()) {
        float4 x = b[i], y = c[i];
        a[i] = make_float4(fmaf(s, y.x, x.x), fmaf(s, y.y, x.y), fmaf(s, y.z, x.z), fmaf(s, y.w, x.w));
    }
}

// Integer and fp32 units: from one of 64 starts, a chaotic chain of `steps`, `rounds` times over, each compared
// with what the host computed. A round starts from its expected start xor all faults so far, so that the
// compiler cannot take it out of the loop. wrong_of[thread] counts bad rounds; sm_of[block] says where it ran.
extern "C" __global__ void kpro_compute(u32 *last, u32 *wrong_of, u32 *sm_of, const u32 *expected, u32 seed,
                                        u32 steps, u32 rounds)
{
    u32 lane = threadIdx.x & 63u, bad = 0, count = 0, x = 0;
    u32 want = expected[lane];
    for (u32 r = 0; r < rounds; r++) {
        x = mix(lane, seed) ^ bad;
        float f = (float)(x >> 9) * 1.1920928955078125e-7f;
        for (u32 s = 0; s < steps; s++) {
            f = __fmaf_rn(f, f, -1.8125f);
            x = x * 1664525u + __float_as_uint(f);
            x ^= x >> 15;
        }
        bad |= x ^ want;
        count += x != want;
    }
    last[first()] = x;
    wrong_of[first()] = count;
    if (threadIdx.x == 0) {
        u32 sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        sm_of[blockIdx.x] = sm;
    }
}
