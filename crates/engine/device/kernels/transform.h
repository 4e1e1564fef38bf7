// Number-theoretic transforms of many limbs at once. The roots number n, as in the module `ntt` of the crate
// `unspoken-ring`: the halves of block number m have numbers 2m and 2m + 1.
//
// Degrees up to 2^12 need one pass over memory. Larger ones need two: the first stages over columns, then the last 2^8
// stages over runs of consecutive residues. Every pass reads its tile into shared memory, where four stages at a time
// are computed in registers.
#pragma once

#include "ring.h"

// Words of a tile, and log2 of it.
constexpr u32 LOG_TILE = 12;
constexpr u32 TILE = 1u << LOG_TILE;
// The stages of the pass over runs, if there are two passes.
constexpr u32 LOG_RUN = 8;
// Stages that are computed in registers.
constexpr u32 LOG_RADIX = 4;

// A transform of limbs, in place or from one place to another.
struct TransformArgs {
    Ring ring;
    Many many;
    const u32* source;
    u32* target;
    // Before a forward transform, to Montgomery form.
    u32 to_montgomery;
    // For each limb the factor of the inverse transform; none: 1/n out of Montgomery form.
    const Shoup* scales;
    // For each limb a word that is added at last; none: zero. Only without an unfolding.
    const u32* words;
};

// Where the tile of a block lies: elements of a transform, and several lanes side by side.
struct Place {
    // log2 of the elements, and of the lanes.
    u32 log_size, log_lanes;
    // Distances in the limb.
    u32 element, lane;
    // The first residue.
    u32 offset;
    // The number of the first lane's block before the first stage of this pass, and whether each lane has its own.
    u32 number, own_numbers;
};

// Elements of shared memory are padded so that neighbours in any stage are in different banks.
DEVICE u32 padded(u32 at) { return at + (at >> 5); }

// The tile of a pass over columns.
DEVICE Place columns(const Ring& ring, u32 tile) {
    u32 log_size = ring.log_degree - LOG_RUN, log_lanes = LOG_TILE - log_size;
    return Place{log_size, log_lanes, 1u << LOG_RUN, 1, tile << log_lanes, 1, 0};
}

// The tile of a pass over runs, or of the only pass.
DEVICE Place runs(const Ring& ring, u32 tile) {
    if (ring.log_degree <= LOG_TILE) {
        return Place{ring.log_degree, 0, 1, 0, 0, 1, 1};
    }
    u32 log_lanes = LOG_TILE - LOG_RUN, first = tile << log_lanes;
    u32 number = (1u << (ring.log_degree - LOG_RUN)) + first;
    return Place{LOG_RUN, log_lanes, 1, 1u << LOG_RUN, first << LOG_RUN, number, 1};
}

// An element in shared memory: lanes are next to each other where they are in the limb.
DEVICE u32 shared_at(const Place& place, u32 element, u32 lane) {
    return padded(place.own_numbers ? lane << place.log_size | element : element << place.log_lanes | lane);
}

DEVICE u32 global_at(const Place& place, u32 element, u32 lane) {
    return place.offset + element * place.element + lane * place.lane;
}

// Calls `work(element, lane)` for the elements of all lanes, neighbours in the limb by neighbouring threads.
template <class Work>
DEVICE void each_element(const Place& place, Work work) {
    each([&](u32 thread) {
        u32 lanes = (1u << place.log_lanes) - 1, elements = (1u << place.log_size) - 1;
        for (u32 at = thread; at >> (place.log_size + place.log_lanes) == 0; at += THREADS) {
            if (place.own_numbers) {
                work(at & elements, at >> place.log_size);
            } else {
                work(at >> place.log_lanes, at & lanes);
            }
        }
    });
}

// Values of 2^LOG elements, so many apart, through LOG stages. `number` is that of their block.
template <u32 LOG>
DEVICE void forward_stages(const Prime& p, const Shoup* roots, u32 number, u32 (&value)[1 << LOG]) {
    UNROLL for (u32 stage = 0; stage < LOG; ++stage) {
        u32 half = 1u << (LOG - 1 - stage);
        UNROLL for (u32 block = 0; block < 1u << stage; ++block) {
            Shoup root = roots[(number << stage) + block];
            UNROLL for (u32 i = 0; i < half; ++i) {
                u32 &low = value[2 * half * block + i], &high = value[2 * half * block + half + i];
                u32 a = reduce_once(low, 2 * p.q), b = shoup_lazy(p, high, root);
                low = a + b;
                high = a + 2 * p.q - b;
            }
        }
    }
}

template <u32 LOG>
DEVICE void inverse_stages(const Prime& p, const Shoup* roots, u32 number, u32 (&value)[1 << LOG]) {
    UNROLL for (u32 stage = LOG; stage-- > 0;) {
        u32 half = 1u << (LOG - 1 - stage);
        UNROLL for (u32 block = 0; block < 1u << stage; ++block) {
            Shoup root = roots[(number << stage) + block];
            UNROLL for (u32 i = 0; i < half; ++i) {
                u32 &low = value[2 * half * block + i], &high = value[2 * half * block + half + i];
                u32 difference = low + 2 * p.q - high;
                low = reduce_once(low + high, 2 * p.q);
                high = shoup_lazy(p, difference, root);
            }
        }
    }
}

// LOG stages of a tile in shared memory, from stage `first` on.
template <u32 LOG, bool FORWARD>
DEVICE void tile_stages(const Prime& p, const Shoup* roots, const Place& place, u32 first, u32* tile) {
    each([&](u32 thread) {
        // Elements of an item are `gap` apart; items with the same block differ in their lowest bits.
        u32 log_gap = place.log_size - first - LOG, log_items = place.log_size - LOG;
        for (u32 at = thread; at >> (log_items + place.log_lanes) == 0; at += THREADS) {
            u32 item, lane;
            if (place.own_numbers) {
                item = at & ((1u << log_items) - 1), lane = at >> log_items;
            } else {
                item = at >> place.log_lanes, lane = at & ((1u << place.log_lanes) - 1);
            }
            u32 block = item >> log_gap, low = item & ((1u << log_gap) - 1);
            u32 element = block << (log_gap + LOG) | low;
            u32 number = ((place.number + (place.own_numbers ? lane : 0)) << first) + block;
            u32 value[1 << LOG];
            UNROLL for (u32 i = 0; i < 1u << LOG; ++i) {
                value[i] = tile[shared_at(place, element + (i << log_gap), lane)];
            }
            if constexpr (FORWARD) {
                forward_stages<LOG>(p, roots, number, value);
            } else {
                inverse_stages<LOG>(p, roots, number, value);
            }
            UNROLL for (u32 i = 0; i < 1u << LOG; ++i) {
                tile[shared_at(place, element + (i << log_gap), lane)] = value[i];
            }
        }
    });
}

template <bool FORWARD>
DEVICE void some_stages(const Prime& p, const Shoup* roots, const Place& place, u32 first, u32 count, u32* tile) {
    switch (count) {
        case 1: tile_stages<1, FORWARD>(p, roots, place, first, tile); break;
        case 2: tile_stages<2, FORWARD>(p, roots, place, first, tile); break;
        case 3: tile_stages<3, FORWARD>(p, roots, place, first, tile); break;
        default: tile_stages<LOG_RADIX, FORWARD>(p, roots, place, first, tile);
    }
}

// One pass of a forward transform.
DEVICE void forward_pass(const TransformArgs& args, const Place& place, bool first, bool last, u32* tile) {
    Chosen limb = chosen(args.ring, args.many, block_y());
    if (limb.skip) {
        return;
    }
    const Prime& p = args.ring.primes[limb.prime];
    const Shoup* roots = args.ring.forward + ((u64)limb.prime << args.ring.log_degree);
    u32* target = args.target + (u64)limb.target * args.ring.stride;
    const u32* source = first ? args.source + (u64)limb.source * args.ring.stride : target;
    each_element(place, [&](u32 element, u32 lane) {
        u32 value = source[global_at(place, element, lane)];
        tile[shared_at(place, element, lane)] =
            first && args.to_montgomery ? shoup(p, value, p.to_montgomery) : value;
    });
    for (u32 stage = 0; stage < place.log_size;) {
        u32 rest = (place.log_size - stage) % LOG_RADIX, count = rest == 0 ? LOG_RADIX : rest;
        some_stages<true>(p, roots, place, stage, count, tile);
        stage += count;
    }
    each_element(place, [&](u32 element, u32 lane) {
        u32 value = tile[shared_at(place, element, lane)];
        target[global_at(place, element, lane)] = last ? canonical(p, value) : value;
    });
}

// One pass of an inverse transform.
DEVICE void inverse_pass(const TransformArgs& args, const Place& place, bool first, bool last, u32* tile) {
    Chosen limb = chosen(args.ring, args.many, block_y());
    if (limb.skip) {
        return;
    }
    const Prime& p = args.ring.primes[limb.prime];
    const Shoup* roots = args.ring.inverse + ((u64)limb.prime << args.ring.log_degree);
    u32* target = args.target + (u64)limb.target * args.ring.stride;
    const u32* source = first ? args.source + (u64)limb.source * args.ring.stride : target;
    each_element(place, [&](u32 element, u32 lane) {
        tile[shared_at(place, element, lane)] = source[global_at(place, element, lane)];
    });
    for (u32 stage = place.log_size; stage > 0;) {
        u32 rest = stage % LOG_RADIX, count = rest == 0 ? LOG_RADIX : rest;
        stage -= count;
        some_stages<false>(p, roots, place, stage, count, tile);
    }
    each_element(place, [&](u32 element, u32 lane) {
        u32 value = tile[shared_at(place, element, lane)];
        if (last) {
            value = shoup(p, value, args.scales ? args.scales[block_y()] : p.degree_scale);
            value = args.words ? add(p, value, args.words[block_y()]) : value;
        }
        target[global_at(place, element, lane)] = value;
    });
}

KERNEL(forward_columns, TransformArgs) {
    SHARED(u32, tile, TILE + (TILE >> 5));
    forward_pass(args, columns(args.ring, block_x()), true, false, tile);
}

KERNEL(forward_runs, TransformArgs) {
    SHARED(u32, tile, TILE + (TILE >> 5));
    forward_pass(args, runs(args.ring, block_x()), args.ring.log_degree <= LOG_TILE, true, tile);
}

KERNEL(inverse_runs, TransformArgs) {
    SHARED(u32, tile, TILE + (TILE >> 5));
    inverse_pass(args, runs(args.ring, block_x()), true, args.ring.log_degree <= LOG_TILE, tile);
}

KERNEL(inverse_columns, TransformArgs) {
    SHARED(u32, tile, TILE + (TILE >> 5));
    inverse_pass(args, columns(args.ring, block_x()), false, true, tile);
}

struct FoldArgs {
    Ring ring;
    Many many;
    u32* words;
};

// Calls `combine(p, a_i, a_(n-i))`, which changes both, for all pairs of a limb, and for a_(n/2) with itself.
template <class Combine>
DEVICE void each_pair(const FoldArgs& args, Combine combine) {
    each([&](u32 thread) {
        u32 half = degree(args.ring) / 2, i = block_x() * THREADS + thread;
        Chosen limb = chosen(args.ring, args.many, block_y());
        if (i == 0 || i > half || limb.skip) {
            return;
        }
        u32* words = args.words + (u64)limb.target * args.ring.stride;
        u32 a = words[i], b = words[2 * half - i];
        combine(args.ring.primes[limb.prime], a, b);
        words[i] = a;
        words[2 * half - i] = b;
    });
}

// a_i - imaginary a_(n-i), before the forward transform of the conjugate-invariant ring.
KERNEL(fold, FoldArgs) {
    each_pair(args, [](const Prime& p, u32& a, u32& b) {
        u32 x = a, y = b;
        a = sub(p, x, shoup(p, y, p.imaginary));
        b = sub(p, y, shoup(p, x, p.imaginary));
    });
}

// (c_i + imaginary c_(n-i)) / 2, after the inverse transform of that ring.
KERNEL(unfold, FoldArgs) {
    each_pair(args, [](const Prime& p, u32& a, u32& b) {
        u32 x = a, y = b;
        a = add(p, shoup(p, x, p.half), shoup(p, y, p.half_imaginary));
        b = add(p, shoup(p, y, p.half), shoup(p, x, p.half_imaginary));
    });
}
