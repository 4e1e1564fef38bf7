// Arithmetic modulo primes below 2^30, as in the module `modular` of the crate `unspoken-ring`: Montgomery and Shoup
// products of 32-bit words. Residues are canonical where nothing else is said.
#pragma once

#include "shim.h"

// A constant factor with floor(value 2^32 / q).
struct Shoup {
    u32 value, quotient;
};

// A prime of a ring with its constants.
struct Prime {
    u32 q, neg_inv;
    // 2^32 and 2^64 modulo q.
    u32 r, r2;
    // To Montgomery form.
    Shoup to_montgomery;
    // 1/n out of Montgomery form: the factor of inverse transforms.
    Shoup degree_scale;
    // The square root of -1 at the positions below n/2, its negative, and 1/2 and half of it for the unfolding.
    Shoup imaginary, neg_imaginary, half, half_imaginary;
};

// Four residues, 16 bytes.
struct alignas(16) Quad {
    u32 word[4];
};

// The products of two residues that a 64-bit sum holds before its reduction.
constexpr u32 LAZY_TERMS = 12;

// `a` or `a - m`, whichever is in [0, m), for a < 2m.
DEVICE u32 reduce_once(u32 a, u32 m) { return least(a, a - m); }

DEVICE u32 add(const Prime& p, u32 a, u32 b) { return reduce_once(a + b, p.q); }

DEVICE u32 sub(const Prime& p, u32 a, u32 b) { return reduce_once(a + p.q - b, p.q); }

DEVICE u32 neg(const Prime& p, u32 a) { return reduce_once(p.q - a, p.q); }

// t / 2^32, in [0, t / 2^32 + q], for t < 2^64 - 2^32 q.
DEVICE u32 montgomery_lazy(const Prime& p, u64 t) {
    u32 m = (u32)t * p.neg_inv;
    return (u32)((t + (u64)m * p.q) >> 32);
}

// a b / 2^32.
DEVICE u32 montgomery(const Prime& p, u32 a, u32 b) { return reduce_once(montgomery_lazy(p, (u64)a * b), p.q); }

// a w in [0, 2q), for any word a.
DEVICE u32 shoup_lazy(const Prime& p, u32 a, Shoup w) { return a * w.value - high_word(a, w.quotient) * p.q; }

// a w, for any word a.
DEVICE u32 shoup(const Prime& p, u32 a, Shoup w) { return reduce_once(shoup_lazy(p, a, w), p.q); }

// [0, 4q) to [0, q).
DEVICE u32 canonical(const Prime& p, u32 a) { return reduce_once(reduce_once(a, 2 * p.q), p.q); }

// A sum of products of residues, over 2^32.
struct Sum {
    u64 pending = 0;
    u32 terms = 0, result = 0;
};

DEVICE void reduce(const Prime& p, Sum& sum) {
    sum.result = add(p, sum.result, canonical(p, montgomery_lazy(p, sum.pending)));
    sum.pending = 0;
    sum.terms = 0;
}

DEVICE void add_product(const Prime& p, Sum& sum, u32 a, u32 b) {
    sum.pending += (u64)a * b;
    if (++sum.terms == LAZY_TERMS) {
        reduce(p, sum);
    }
}

DEVICE u32 total(const Prime& p, Sum& sum) {
    reduce(p, sum);
    return sum.result;
}
