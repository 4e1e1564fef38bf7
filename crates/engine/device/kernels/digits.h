// The gadget of small rings, as in the module `digits` of the crate `unspoken-ring`, and maps of coefficients.
#pragma once

#include "switching.h"

struct DigitArgs {
    Ring ring;
    // Coefficients over one or two primes, and words from those modulo one to those modulo the other.
    const u32* source;
    u64 source_prime;
    // [prime][component][level], where `rows` are all components and levels.
    u32* out;
    u32 primes, rows, first, levels;
    u32 log2_base, drop;
    // Half the modulus, the modulus, and what is added to a magnitude.
    u64 half, product;
    i64 offset;
    // For two primes: the first, a multiple of the second that is no less, and 1 / the first.
    u32 first_prime, lift;
    Shoup inverse;
};

// The signed digits of the coefficients of operands (y), which are one after the other, as residues modulo each prime.
KERNEL(signed_digits, DigitArgs) {
    each_residue(args.ring, [&](u32 at) {
        const u32* source = args.source + (u64)block_y() * args.ring.stride + at;
        u64 x = source[0];
        if (args.primes == 2) {
            u32 other = source[args.source_prime];
            x += (u64)args.first_prime * shoup(args.ring.primes[1], other + args.lift - (u32)x, args.inverse);
        }
        bool negative = x > args.half;
        i64 magnitude = (i64)(negative ? args.product - x : x) + args.offset;
        i64 mask = ((i64)1 << args.log2_base) - 1, half = (i64)1 << (args.log2_base - 1);
        for (u32 level = 0; level < args.levels; ++level) {
            i64 digit = magnitude >> (args.drop + args.log2_base * level);
            // The highest digit takes all remaining bits.
            digit = (level + 1 == args.levels ? digit : digit & mask) - half;
            digit = negative ? -digit : digit;
            for (u32 prime = 0; prime < args.primes; ++prime) {
                i64 residue = digit < 0 ? digit + args.ring.primes[prime].q : digit;
                u64 limb = (u64)prime * args.rows + args.first + block_y() * args.levels + level;
                args.out[limb * args.ring.stride + at] = (u32)residue;
            }
        }
    });
}

// A key, and the exponent that its product is rotated by.
struct RotationTerm {
    const u32* key;
    u32 exponent;
};

struct RotationArgs {
    Ring ring;
    Basis basis;
    // [prime][digit]
    const u32* raised;
    u32 digits;
    // For each prime the powers of its root of unity, 2n of them.
    const u32* powers;
    u32* out[2];
    u32 terms;
    RotationTerm term[MOST_KEYS];
};

// Adds sum_k (X^e_k - 1) (digits key_k) to both components.
KERNEL(rotated_differences, RotationArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 limb = block_y();
        u32 prime = prime_of(args.ring, args.basis, limb);
        const Prime& p = args.ring.primes[prime];
        const u32* raised = args.raised + (u64)limb * args.digits * args.ring.stride + at;
        const u32* powers = args.powers + ((u64)prime << (args.ring.log_degree + 1));
        u64 place = (u64)limb * args.ring.stride + at;
        u32 root = 2 * (reversed(at) >> (32 - args.ring.log_degree)) + 1;
        u32 result[2] = {args.out[0][place], args.out[1][place]};
        for (u32 number = 0; number < args.terms; ++number) {
            const RotationTerm& term = args.term[number];
            Sum sums[2];
            key_sums(p, args.ring, raised, term.key + key_row(args.ring, limb * args.digits, at), args.digits, sums);
            u32 factor = sub(p, powers[root * term.exponent & (2 * degree(args.ring) - 1)], p.r);
            UNROLL for (u32 i = 0; i < 2; ++i) {
                result[i] = add(p, result[i], montgomery(p, total(p, sums[i]), factor));
            }
        }
        args.out[0][place] = result[0];
        args.out[1][place] = result[1];
    });
}

struct MapArgs {
    Ring ring;
    Basis basis;
    const u32* source;
    u32* out;
    u32 galois, shift;
};

// Coefficient i moves to i galois + shift, with the sign of X^n = -1; in the conjugate-invariant ring X^i + X^-i moves.
KERNEL(coefficient_map, MapArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 limb = block_y(), n = degree(args.ring);
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        u64 start = (u64)limb * args.ring.stride;
        u32 value = args.source[start + at];
        // X^half = -1.
        u32 half = args.ring.invariant ? 2 * n : n;
        u32 exponent = (u32)((u64)at * args.galois + args.shift) & (2 * half - 1);
        bool negative = exponent >= half;
        exponent = negative ? exponent - half : exponent;
        // X^e = -X^-(2n - e).
        if (exponent > n) {
            exponent = half - exponent;
            negative = !negative;
        }
        args.out[start + exponent] = negative ? neg(p, value) : value;
    });
}
