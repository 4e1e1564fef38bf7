// Rings and polynomials in a device's memory.
#pragma once

#include "arithmetic.h"

// The most primes of a ring on a device.
constexpr u32 MOST_PRIMES = 128;

// A ring: its primes are those of the chain, then the terminal ones, then the special ones.
struct Ring {
    const Prime* primes;
    // For each prime the roots of the forward and of the inverse transform, n of each.
    const Shoup* forward;
    const Shoup* inverse;
    u32 log_degree;
    // Words from one limb to the next.
    u32 stride;
    // Primes of the chain, and of the chain and the terminal ones.
    u32 chain, own;
    // Primes of a digit.
    u32 digit_len;
    // Whether the ring is the conjugate-invariant one.
    u32 invariant;
};

// The primes of a polynomial: so many of the chain, so many of the chain and the terminal ones together, and special
// ones.
struct Basis {
    u32 chain, own;
};

// The most primes that a conversion reads.
constexpr u32 MOST_SOURCES = 32;

// Limbs that one after the other are computed with: those of each prime of a basis, so many for each. More than one are
// the digits of a decomposition. If `skip` is set, the digit that a prime itself belongs to is left alone. If there is a
// list, its limbs alone are read, and their results are written one after the other.
struct Many {
    Basis basis;
    u32 per_prime, skip;
    u32 listed;
    u32 list[MOST_SOURCES];
};

// Limbs of a polynomial over a basis.
struct Limbs {
    u32* words;
    Basis basis;
};

DEVICE u32 degree(const Ring& ring) { return 1u << ring.log_degree; }

// The number among the ring's primes of that of limb i of a polynomial.
DEVICE u32 prime_of(const Ring& ring, Basis basis, u32 limb) {
    if (limb < basis.chain) {
        return limb;
    }
    return limb < basis.own ? ring.chain + limb - basis.chain : ring.own + limb - basis.own;
}

// The limb of a polynomial over the basis `of` for the same prime as limb i over another basis, which it contains.
DEVICE u32 limb_over(Basis of, Basis other, u32 limb) {
    if (limb < other.chain) {
        return limb;
    }
    return limb < other.own ? of.chain + limb - other.chain : of.own + limb - other.own;
}

DEVICE u32* words_of(const Ring& ring, Limbs limbs, Basis over, u32 limb) {
    return limbs.words + (u64)limb_over(limbs.basis, over, limb) * ring.stride;
}

// The digit of the gadget decomposition that a prime belongs to; one that does not exist for special primes.
DEVICE u32 digit_of(const Ring& ring, u32 prime) {
    if (prime >= ring.own) {
        return ~0u;
    }
    u32 terminal = ring.own - ring.chain;
    return (prime < ring.chain ? terminal + prime : prime - ring.chain) / ring.digit_len;
}

// The position whose value an automorphism X -> X^galois moves to `position`.
DEVICE u32 source_of(const Ring& ring, u32 galois, u32 position) {
    u32 unused = 32 - ring.log_degree;
    u32 image = galois * (reversed(position) >> unused) + (galois - 1) / (ring.invariant ? 4 : 2);
    return reversed(image << unused);
}

// Calls `work(at)` for each residue of a block, whose number (x) says where it begins.
template <class Work>
DEVICE void each_residue(const Ring& ring, Work work) {
    each([&](u32 thread) {
        u32 at = block_x() * THREADS + thread;
        if (at < degree(ring)) {
            work(at);
        }
    });
}

// A limb that is computed with: its prime, and where it is read and written.
struct Chosen {
    u32 prime, source, target;
    bool skip;
};

DEVICE Chosen chosen(const Ring& ring, const Many& many, u32 number) {
    if (many.listed) {
        u32 limb = many.list[number];
        return Chosen{prime_of(ring, many.basis, limb), limb, number, false};
    }
    u32 prime = prime_of(ring, many.basis, number / many.per_prime);
    return Chosen{prime, number, number, many.skip && digit_of(ring, prime) == number % many.per_prime};
}
