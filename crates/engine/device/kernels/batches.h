// Operations on many polynomials at once, each of which is in memory of its own: so many small rings fill a device.
#pragma once

#include "switching.h"

struct GatherItem {
    // Either may be none.
    const u32* plus;
    const u32* minus;
    // Of the image that is taken, 1 for none.
    u32 galois, unused;
};

struct GatherArgs {
    Ring ring;
    Basis basis;
    const GatherItem* items;
    u32 count;
    // Limbs: [prime][item]
    u32* out;
};

// Images of differences of polynomials (y), limb by limb (z).
KERNEL(gather, GatherArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 limb = block_z();
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        GatherItem item = args.items[block_y()];
        u64 place = (u64)limb * args.ring.stride + (item.galois == 1 ? at : source_of(args.ring, item.galois, at));
        u32 value = item.plus ? item.plus[place] : 0;
        value = item.minus ? sub(p, value, item.minus[place]) : value;
        args.out[((u64)limb * args.count + block_y()) * args.ring.stride + at] = value;
    });
}

struct ScatterArgs {
    Ring ring;
    // Limbs: [prime][polynomial]
    const u32* words;
    u32* const* out;
    u32 count;
};

// Limbs to the polynomials (y) that they are of.
KERNEL(scatter, ScatterArgs) {
    each_residue(args.ring, [&](u32 at) {
        u64 source = ((u64)block_z() * args.count + block_y()) * args.ring.stride + at;
        args.out[block_y()][(u64)block_z() * args.ring.stride + at] = args.words[source];
    });
}

struct BatchItem {
    u32* out;
    u32* other;
    const u32* a;
    const u32* b;
};

// out = a + b; out = a factor; out = b + a factor; out = a + b and other = (a - b) factor.
enum BatchOperation : u32 { BATCH_SUM, BATCH_PRODUCT, BATCH_ADD_PRODUCT, BATCH_SPLIT };

struct BatchArgs {
    Ring ring;
    Basis basis;
    const BatchItem* items;
    const u32* factor;
    u32 operation;
};

// An operation on each residue of the operands of items (y), limb by limb (z).
KERNEL(batch, BatchArgs) {
    each_residue(args.ring, [&](u32 at) {
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, block_z())];
        BatchItem item = args.items[block_y()];
        u64 place = (u64)block_z() * args.ring.stride + at;
        u32 a = item.a[place], b = item.b ? item.b[place] : 0, factor = args.factor ? args.factor[place] : 0;
        switch (args.operation) {
            case BATCH_PRODUCT:
            case BATCH_ADD_PRODUCT: item.out[place] = add(p, b, montgomery(p, a, factor)); break;
            default: item.out[place] = add(p, a, b);
        }
        if (args.operation == BATCH_SPLIT) {
            item.other[place] = montgomery(p, sub(p, a, b), factor);
        }
    });
}

struct ChoiceItem {
    const u32* key;
    // What is added to each component: an image of a polynomial, or nothing.
    const u32* plus[2];
    u32* out[2];
    u32 galois, unused;
};

struct ChoiceArgs {
    Ring ring;
    Basis basis;
    // Limbs: [prime][item][digit]
    const u32* digits;
    u32 rows, count;
    const ChoiceItem* items;
};

// Both components of products of digits with keys, plus polynomials, for items (y), limb by limb (z).
KERNEL(choices, ChoiceArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 limb = block_z();
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        const ChoiceItem& item = args.items[block_y()];
        const u32* digits = args.digits + ((u64)limb * args.count + block_y()) * args.rows * args.ring.stride + at;
        u64 start = (u64)limb * args.ring.stride;
        u32 source = item.galois == 1 ? at : source_of(args.ring, item.galois, at);
        Sum sums[2];
        key_sums(p, args.ring, digits, item.key + key_row(args.ring, limb * args.rows, at), args.rows, sums);
        UNROLL for (u32 i = 0; i < 2; ++i) {
            u32 result = total(p, sums[i]);
            item.out[i][start + at] = item.plus[i] ? add(p, result, item.plus[i][start + source]) : result;
        }
    });
}

struct RowArgs {
    Ring ring;
    // Both components of each row, in the evaluation domain.
    const u32* const* rows;
    u32 count;
    // [prime][row], in the order of keys, times 2^32.
    u32* out;
};

// The components of rows (y), limb by limb (z), as a key.
KERNEL(key_rows, RowArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 prime = block_z(), row = block_y() / 2, component = block_y() % 2;
        const Prime& p = args.ring.primes[prime];
        u32 value = args.rows[block_y()][(u64)prime * args.ring.stride + at];
        u64 place = key_row(args.ring, prime * args.count + row, at) + component * KEY_BLOCK;
        args.out[place] = shoup(p, value, p.to_montgomery);
    });
}
