// One source of kernels for a device and for a host. On a host a block runs its threads one after the other, phase by
// phase: that is a vehicle for tests, and serves nobody.
//
// A kernel is a sequence of phases, `each(...)`. Threads exchange values through shared memory, and only from one phase
// to a later one: `each` ends with a barrier. No value of a thread outlives its phase.
#pragma once

typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

// Threads of a block of every kernel.
constexpr u32 THREADS = 256;

#ifdef __CUDACC__

#define DEVICE static __device__ __forceinline__
#define SHARED(type, name, count) __shared__ type name[count]
#define KERNEL(name, Args) \
    extern "C" __global__ void __launch_bounds__(THREADS) name(const __grid_constant__ Args args)
#define UNROLL _Pragma("unroll")

DEVICE u32 block_x() { return blockIdx.x; }
DEVICE u32 block_y() { return blockIdx.y; }
DEVICE u32 block_z() { return blockIdx.z; }
DEVICE u32 high_word(u32 a, u32 b) { return __umulhi(a, b); }
DEVICE u32 least(u32 a, u32 b) { return min(a, b); }
DEVICE u32 reversed(u32 x) { return __brev(x); }
DEVICE void add_word(u32* at, u32 value) { atomicAdd(at, value); }

template <class Phase>
DEVICE void each(Phase phase) {
    phase(threadIdx.x);
    __syncthreads();
}

#else

#include <cstring>

#define DEVICE static inline __attribute__((always_inline))
#define UNROLL
// Contents of shared memory are unspecified at the start of a block.
#define SHARED(type, name, count) \
    static thread_local type name[count]; \
    std::memset(name, 0xa5, sizeof name)

struct Block {
    u32 x, y, z;
};

extern thread_local Block the_block;

DEVICE u32 block_x() { return the_block.x; }
DEVICE u32 block_y() { return the_block.y; }
DEVICE u32 block_z() { return the_block.z; }
DEVICE u32 high_word(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
DEVICE u32 least(u32 a, u32 b) { return a < b ? a : b; }

DEVICE u32 reversed(u32 x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

// A block runs alone.
DEVICE void add_word(u32* at, u32 value) { *at += value; }

template <class Phase>
DEVICE void each(Phase phase) {
    for (u32 thread = 0; thread < THREADS; ++thread) {
        phase(thread);
    }
}

#define KERNEL(name, Args) \
    static void name##_block(const Args& args); \
    extern "C" void name(u32 x, u32 y, u32 z, const void* args) { \
        for (u32 c = 0; c < z; ++c) { \
            for (u32 b = 0; b < y; ++b) { \
                for (u32 a = 0; a < x; ++a) { \
                    the_block = Block{a, b, c}; \
                    name##_block(*static_cast<const Args*>(args)); \
                } \
            } \
        } \
    } \
    static void name##_block(const Args& args)

#endif

// Byte `number` of a word as a signed number.
DEVICE u32 signed_byte(u32 word, u32 number) { return (u32)((i32)(word << (24 - 8 * number)) >> 24); }

// Half `number` of a word as a signed number.
DEVICE u32 signed_half(u32 word, u32 number) { return (u32)((i32)(word << (16 - 16 * number)) >> 16); }
