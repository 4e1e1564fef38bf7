// Operations that compute each residue from those at the same position. Blocks are numbered by runs of residues (x) and
// limbs (y).
#pragma once

#include "ring.h"

// Residues of a block.
constexpr u32 RUN = 4 * THREADS;

struct ElementArgs {
    Ring ring;
    // The primes for which it is computed.
    Basis basis;
    // The result and the operands, which may be over more primes.
    Limbs out, a, b;
};

struct FactorArgs {
    ElementArgs of;
    // For each limb a factor; where words are added, its value.
    Shoup factor[MOST_PRIMES];
};

// Calls `work(p, limb, out, a, b)` for four residues at a time.
template <class Work>
DEVICE void each_quad(const ElementArgs& args, Work work) {
    each([&](u32 thread) {
        u32 limb = block_y(), at = block_x() * RUN + 4 * thread;
        if (at >= degree(args.ring)) {
            return;
        }
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        Quad* out = reinterpret_cast<Quad*>(words_of(args.ring, args.out, args.basis, limb) + at);
        Quad a{}, b{};
        if (args.a.words) {
            a = *reinterpret_cast<const Quad*>(words_of(args.ring, args.a, args.basis, limb) + at);
        }
        if (args.b.words) {
            b = *reinterpret_cast<const Quad*>(words_of(args.ring, args.b, args.basis, limb) + at);
        }
        Quad result = *out;
        UNROLL for (u32 i = 0; i < 4; ++i) {
            result.word[i] = work(p, limb, result.word[i], a.word[i], b.word[i]);
        }
        *out = result;
    });
}

KERNEL(copy, ElementArgs) {
    each_quad(args, [](const Prime&, u32, u32, u32 a, u32) { return a; });
}

KERNEL(sum, ElementArgs) {
    each_quad(args, [](const Prime& p, u32, u32, u32 a, u32 b) { return add(p, a, b); });
}

KERNEL(difference, ElementArgs) {
    each_quad(args, [](const Prime& p, u32, u32, u32 a, u32 b) { return sub(p, a, b); });
}

KERNEL(negative, ElementArgs) {
    each_quad(args, [](const Prime& p, u32, u32, u32 a, u32) { return neg(p, a); });
}

KERNEL(product, ElementArgs) {
    each_quad(args, [](const Prime& p, u32, u32, u32 a, u32 b) { return montgomery(p, a, b); });
}

KERNEL(add_products, ElementArgs) {
    each_quad(args, [](const Prime& p, u32, u32 out, u32 a, u32 b) { return add(p, out, montgomery(p, a, b)); });
}

KERNEL(scale, FactorArgs) {
    each_quad(args.of, [&](const Prime& p, u32 limb, u32, u32 a, u32) { return shoup(p, a, args.factor[limb]); });
}

KERNEL(add_scaled, FactorArgs) {
    each_quad(args.of, [&](const Prime& p, u32 limb, u32 out, u32 a, u32) {
        return add(p, out, shoup(p, a, args.factor[limb]));
    });
}

KERNEL(add_words, FactorArgs) {
    each_quad(args.of, [&](const Prime& p, u32 limb, u32, u32 a, u32) { return add(p, a, args.factor[limb].value); });
}

// a X^(n/2) in the evaluation domain of the standard ring.
KERNEL(times_imaginary, ElementArgs) {
    each([&](u32 thread) {
        u32 limb = block_y(), at = block_x() * RUN + 4 * thread;
        if (at >= degree(args.ring)) {
            return;
        }
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        Shoup root = at < degree(args.ring) / 2 ? p.imaginary : p.neg_imaginary;
        const Quad* a = reinterpret_cast<const Quad*>(words_of(args.ring, args.a, args.basis, limb) + at);
        Quad value = *a;
        UNROLL for (u32 i = 0; i < 4; ++i) {
            value.word[i] = shoup(p, value.word[i], root);
        }
        *reinterpret_cast<Quad*>(words_of(args.ring, args.out, args.basis, limb) + at) = value;
    });
}

struct TensorArgs {
    Ring ring;
    Basis basis;
    Limbs a[2], b[2];
    u32* out[3];
};

// (a0 b0, a0 b1 + a1 b0, a1 b1).
KERNEL(tensor, TensorArgs) {
    each([&](u32 thread) {
        u32 limb = block_y(), at = block_x() * RUN + 4 * thread;
        if (at >= degree(args.ring)) {
            return;
        }
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        Quad a[2], b[2], out[3];
        UNROLL for (u32 i = 0; i < 2; ++i) {
            a[i] = *reinterpret_cast<const Quad*>(words_of(args.ring, args.a[i], args.basis, limb) + at);
            b[i] = *reinterpret_cast<const Quad*>(words_of(args.ring, args.b[i], args.basis, limb) + at);
        }
        UNROLL for (u32 i = 0; i < 4; ++i) {
            u32 a0 = a[0].word[i], a1 = a[1].word[i], b0 = b[0].word[i], b1 = b[1].word[i];
            out[0].word[i] = montgomery(p, a0, b0);
            out[1].word[i] = add(p, montgomery(p, a0, b1), montgomery(p, a1, b0));
            out[2].word[i] = montgomery(p, a1, b1);
        }
        UNROLL for (u32 i = 0; i < 3; ++i) {
            *reinterpret_cast<Quad*>(args.out[i] + (u64)limb * args.ring.stride + at) = out[i];
        }
    });
}

// Terms of a launch.
constexpr u32 MOST_TERMS = 32;

// A term of a sum of products: a factor, and the two components that it multiplies.
struct Term {
    const u32* factor;
    const u32* values[2];
};

struct SumsArgs {
    Ring ring;
    Basis basis;
    u32* out[2];
    // Words from one limb of a factor to the next, and log2 of the residues that share a word of it.
    u32 factor_stride, log_run;
    // Whether the sums are added to what is there.
    u32 accumulate;
    u32 terms;
    Term term[MOST_TERMS];
};

// Both components of sum factor * values.
KERNEL(product_sums, SumsArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 limb = block_y();
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        u64 place = (u64)limb * args.ring.stride + at, factor = (u64)limb * args.factor_stride + (at >> args.log_run);
        Sum sums[2];
        for (u32 term = 0; term < args.terms; ++term) {
            u32 word = args.term[term].factor[factor];
            UNROLL for (u32 i = 0; i < 2; ++i) {
                add_product(p, sums[i], word, args.term[term].values[i][place]);
            }
        }
        UNROLL for (u32 i = 0; i < 2; ++i) {
            u32 result = total(p, sums[i]);
            args.out[i][place] = args.accumulate ? add(p, args.out[i][place], result) : result;
        }
    });
}

struct AutomorphismArgs {
    Ring ring;
    Basis basis;
    const u32* source;
    u32* out;
    u32 terms;
    u32 galois[MOST_TERMS];
};

// The sum of the images of a polynomial in the evaluation domain.
KERNEL(automorphisms, AutomorphismArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 limb = block_y();
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        u64 start = (u64)limb * args.ring.stride;
        u32 result = args.source[start + source_of(args.ring, args.galois[0], at)];
        for (u32 term = 1; term < args.terms; ++term) {
            result = add(p, result, args.source[start + source_of(args.ring, args.galois[term], at)]);
        }
        args.out[start + at] = result;
    });
}
