// Conversions between bases, divisions, and products with switching keys.
#pragma once

#include "ring.h"

// Target primes that a block computes.
constexpr u32 TARGETS = 8;
// Residues of a component of a key before those of the other.
constexpr u32 KEY_BLOCK = 64;

// The primes of a digit: `count` numbers of limbs from `first` on in a list.
struct Digit {
    u32 first, count;
};

struct ConvertArgs {
    Ring ring;
    // The primes of the results.
    Basis basis;
    u32 targets, digits;
    // Plain residues of the digits, limb by limb; the digits, and their limbs.
    const u32* source;
    const Digit* digit;
    const u32* limbs;
    // For each target the offset of each digit, and the factors of all limbs in the order of the list.
    const u32* offsets;
    const u32* factors;
    u32 listed;
    // The polynomial whose residues are those of a digit modulo its own primes; none: there are no such primes.
    Limbs own;
    // [target][digit]
    u32* out;
};

// (offset + sum_i source_i factor_i) / 2^32 modulo each target, for each digit (y); targets are divided among blocks (z).
KERNEL(convert, ConvertArgs) {
    SHARED(u32, residues, MOST_SOURCES * THREADS);
    u32 number = block_y();
    Digit digit = args.digit[number];
    u32 start = block_x() * THREADS;
    each([&](u32 thread) {
        for (u32 i = 0; i < digit.count; ++i) {
            residues[i * THREADS + thread] =
                args.source[(u64)args.limbs[digit.first + i] * args.ring.stride + start + thread];
        }
    });
    each([&](u32 thread) {
        u32 end = least(args.targets, (block_z() + 1) * TARGETS);
        for (u32 target = block_z() * TARGETS; target < end; ++target) {
            u32 prime = prime_of(args.ring, args.basis, target);
            u32 result;
            if (args.own.words && digit_of(args.ring, prime) == number) {
                result = words_of(args.ring, args.own, args.basis, target)[start + thread];
            } else {
                const Prime& p = args.ring.primes[prime];
                const u32* factors = args.factors + (u64)target * args.listed + digit.first;
                Sum sum;
                sum.pending = args.offsets[target * args.digits + number];
                for (u32 i = 0; i < digit.count; ++i) {
                    add_product(p, sum, residues[i * THREADS + thread], factors[i]);
                }
                result = total(p, sum);
            }
            args.out[(u64)(target * args.digits + number) * args.ring.stride + start + thread] = result;
        }
    });
}

struct QuotientArgs {
    Ring ring;
    // So many limbs, and after them the result.
    u32* words;
    u32 count, shift;
    const u32* reciprocals;
};

// floor(sum_i source_i reciprocal_i / 2^shift + 1/2).
KERNEL(quotient, QuotientArgs) {
    each_residue(args.ring, [&](u32 at) {
        u64 sum = 1ull << (args.shift - 1);
        for (u32 i = 0; i < args.count; ++i) {
            sum += (u64)args.words[(u64)i * args.ring.stride + at] * args.reciprocals[i];
        }
        args.words[(u64)args.count * args.ring.stride + at] = (u32)(sum >> args.shift);
    });
}

// A prime that a division keeps: the limb of the dividend, or none for a new prime, and 1 / D.
struct Kept {
    u32 limb;
    Shoup inverse;
};

constexpr u32 NO_LIMB = ~0u;

struct DivideArgs {
    Ring ring;
    Basis basis;
    const u32* dividend;
    const u32* remainder;
    u32* out;
    const Kept* kept;
};

// (dividend - remainder) / D.
KERNEL(divide, DivideArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 limb = block_y();
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        Kept kept = args.kept[limb];
        u32 value = kept.limb == NO_LIMB ? 0 : args.dividend[(u64)kept.limb * args.ring.stride + at];
        u64 place = (u64)limb * args.ring.stride + at;
        args.out[place] = shoup(p, value + p.q - args.remainder[place], kept.inverse);
    });
}

// A key of so many digits, and the automorphism after the product with it.
struct KeyTerm {
    const u32* key;
    Basis basis;
    u32 digits, galois;
};

constexpr u32 MOST_KEYS = 32;

struct KeyArgs {
    Ring ring;
    Basis basis;
    // [prime][digit]; keys may have more digits.
    const u32* raised;
    u32 digits;
    u32* out[2];
    u32 accumulate;
    u32 terms;
    KeyTerm term[MOST_KEYS];
};

// Where a residue of a row of a key is.
DEVICE u64 key_row(const Ring& ring, u32 row, u32 at) {
    return ((u64)row << (ring.log_degree + 1)) + at / KEY_BLOCK * 2 * KEY_BLOCK + at % KEY_BLOCK;
}

// The products of digits at one position with both components of the rows of a key.
DEVICE void key_sums(const Prime& p, const Ring& ring, const u32* raised, const u32* key, u32 digits, Sum (&sums)[2]) {
    for (u32 digit = 0; digit < digits; ++digit) {
        u32 word = raised[(u64)digit * ring.stride];
        const u32* both = key + ((u64)digit << (ring.log_degree + 1));
        add_product(p, sums[0], word, both[0]);
        add_product(p, sums[1], word, both[KEY_BLOCK]);
    }
}

// Both components of sum_i sigma_i(sum_d digit_d key_(i, d)).
KERNEL(key_products, KeyArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 limb = block_y();
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        const u32* raised = args.raised + (u64)limb * args.digits * args.ring.stride;
        u64 place = (u64)limb * args.ring.stride + at;
        u32 result[2] = {0, 0};
        if (args.accumulate) {
            result[0] = args.out[0][place];
            result[1] = args.out[1][place];
        }
        for (u32 number = 0; number < args.terms; ++number) {
            const KeyTerm& term = args.term[number];
            u32 source = source_of(args.ring, term.galois, at);
            u64 row = key_row(args.ring, limb_over(term.basis, args.basis, limb) * term.digits, source);
            Sum sums[2];
            key_sums(p, args.ring, raised + source, term.key + row, args.digits, sums);
            result[0] = add(p, result[0], total(p, sums[0]));
            result[1] = add(p, result[1], total(p, sums[1]));
        }
        args.out[0][place] = result[0];
        args.out[1][place] = result[1];
    });
}
