// The ceiling of arithmetic, for measurements alone.
#pragma once

#include "arithmetic.h"

// Products of a thread that do not wait for each other.
constexpr u32 CHAINS = 8;

struct CeilingArgs {
    const Prime* prime;
    // One for each thread.
    u32* out;
    u32 rounds;
};

// Reduced products, one after the other in each chain.
KERNEL(ceiling, CeilingArgs) {
    each([&](u32 thread) {
        const Prime p = *args.prime;
        u32 at = block_x() * THREADS + thread;
        u32 chains[CHAINS];
        UNROLL for (u32 i = 0; i < CHAINS; ++i) {
            chains[i] = at * CHAINS + i;
        }
        for (u32 round = 0; round < args.rounds; ++round) {
            UNROLL for (u32 i = 0; i < CHAINS; ++i) {
                chains[i] = montgomery(p, chains[i], p.r2);
            }
        }
        u32 sum = 0;
        UNROLL for (u32 i = 0; i < CHAINS; ++i) {
            sum += chains[i];
        }
        args.out[at] = sum;
    });
}
