// Sums over tables, for private retrieval: of ring elements, of signed bytes, and of factors times windows of keys.
#pragma once

#include "ring.h"

// Residues of an entry of a table before those of the next one.
constexpr u32 TABLE_BLOCK = 16;
// Columns of a table that a block sums: four threads have one.
constexpr u32 TABLE_COLUMNS = THREADS / 4;

struct TableArgs {
    Ring ring;
    // [prime][block of residues][column][row]
    const u32* table;
    // Limbs: [prime][row][component]
    const u32* factors;
    // Both components of the sum of each chosen column.
    u32* const* out;
    u32 rows, columns;
    // The chosen columns.
    u32 first, count;
};

// Both components of the sum over rows of entries times factors, for columns (x), blocks of residues (y), primes (z).
KERNEL(table_sums, TableArgs) {
    each([&](u32 thread) {
        u32 column = block_x() * TABLE_COLUMNS + thread / 4, at = block_y() * TABLE_BLOCK + thread % 4 * 4;
        u32 prime = block_z();
        if (column >= args.count) {
            return;
        }
        const Prime& p = args.ring.primes[prime];
        u64 unit = (u64)prime * (degree(args.ring) / TABLE_BLOCK) + block_y();
        const Quad* entries = reinterpret_cast<const Quad*>(args.table) +
                              (unit * args.columns + args.first + column) * args.rows * (TABLE_BLOCK / 4) + thread % 4;
        const u32* factors = args.factors + (u64)prime * 2 * args.rows * args.ring.stride + at;
        u64 pending[2][4] = {};
        u32 sums[2][4] = {};
        for (u32 first = 0; first < args.rows; first += LAZY_TERMS) {
            u32 end = least(args.rows, first + LAZY_TERMS);
            for (u32 row = first; row < end; ++row) {
                Quad entry = entries[row * (TABLE_BLOCK / 4)];
                UNROLL for (u32 component = 0; component < 2; ++component) {
                    u64 place = (u64)(2 * row + component) * args.ring.stride;
                    Quad factor = *reinterpret_cast<const Quad*>(factors + place);
                    UNROLL for (u32 i = 0; i < 4; ++i) {
                        pending[component][i] += (u64)entry.word[i] * factor.word[i];
                    }
                }
            }
            UNROLL for (u32 component = 0; component < 2; ++component) {
                UNROLL for (u32 i = 0; i < 4; ++i) {
                    u32 reduced = canonical(p, montgomery_lazy(p, pending[component][i]));
                    sums[component][i] = add(p, sums[component][i], reduced);
                    pending[component][i] = 0;
                }
            }
        }
        UNROLL for (u32 component = 0; component < 2; ++component) {
            u32* out = args.out[2 * column + component] + (u64)prime * args.ring.stride + at;
            Quad result;
            UNROLL for (u32 i = 0; i < 4; ++i) {
                result.word[i] = sums[component][i];
            }
            *reinterpret_cast<Quad*>(out) = result;
        }
    });
}

// Columns of bytes that are stored row by row.
constexpr u32 BYTE_BLOCK = 64;
// Blocks of columns, rows and queries of a block of threads. A thread has four columns, which are one word.
constexpr u32 BYTE_BLOCKS = 4;
constexpr u32 BYTE_ROWS = 256;
constexpr u32 BYTE_QUERIES = 8;
// Threads that share a column, and words of a row of sums of threads: columns of four words are in different banks.
constexpr u32 BYTE_LANES = THREADS / (BYTE_BLOCKS * BYTE_BLOCK / 4);
constexpr u32 BYTE_SUMS = THREADS + 8;

struct ByteArgs {
    // [block of columns][row][column of the block]
    const u32* bytes;
    // [query][row], rows filled up with zeros.
    const u32* factors;
    // [query][column], added to.
    u32* sums;
    u32 rows, columns, queries;
    // Words from the factors of a query to those of the next: a multiple of 4.
    u32 stride;
};

// The sums of rows of a thread for some queries, of which `count` exist.
template <u32 QUERIES>
DEVICE void byte_rows(const ByteArgs& args, u32 first_query, u32 count, u32* shared) {
    each([&](u32 thread) {
        u32 sums[QUERIES][4] = {};
        u32 block = block_x() * BYTE_BLOCKS + thread / (THREADS / BYTE_BLOCKS);
        const u32* bytes = args.bytes + (u64)block * args.rows * (BYTE_BLOCK / 4) + thread % (BYTE_BLOCK / 4);
        u32 lane = thread / (BYTE_BLOCK / 4) % BYTE_LANES;
        u32 end = block < args.columns / BYTE_BLOCK ? least(args.rows, (block_y() + 1) * BYTE_ROWS) : 0;
        for (u32 row = block_y() * BYTE_ROWS + 4 * lane; row < end; row += 4 * BYTE_LANES) {
            u32 words[4];
            UNROLL for (u32 i = 0; i < 4; ++i) {
                words[i] = row + i < end ? bytes[(u64)(row + i) * (BYTE_BLOCK / 4)] : 0;
            }
            Quad factors[QUERIES];
            UNROLL for (u32 query = 0; query < QUERIES; ++query) {
                u32 number = first_query + least(query, count - 1);
                factors[query] = *reinterpret_cast<const Quad*>(args.factors + (u64)number * args.stride + row);
            }
            UNROLL for (u32 i = 0; i < 4; ++i) {
                UNROLL for (u32 column = 0; column < 4; ++column) {
                    u32 byte = signed_byte(words[i], column);
                    UNROLL for (u32 query = 0; query < QUERIES; ++query) {
                        sums[query][column] += byte * factors[query].word[i];
                    }
                }
            }
        }
        UNROLL for (u32 query = 0; query < QUERIES; ++query) {
            UNROLL for (u32 column = 0; column < 4; ++column) {
                shared[(4 * query + column) * BYTE_SUMS + thread] = sums[query][column];
            }
        }
    });
    each([&](u32 thread) {
        u32 column = block_x() * BYTE_BLOCKS * BYTE_BLOCK + thread;
        u32 first = thread / BYTE_BLOCK * (THREADS / BYTE_BLOCKS) + thread % BYTE_BLOCK / 4;
        for (u32 query = 0; query < count && column < args.columns; ++query) {
            u32 sum = 0;
            UNROLL for (u32 lane = 0; lane < BYTE_LANES; ++lane) {
                sum += shared[(4 * query + thread % 4) * BYTE_SUMS + first + lane * (BYTE_BLOCK / 4)];
            }
            add_word(args.sums + (u64)(first_query + query) * args.columns + column, sum);
        }
    });
}

// Sums over rows (y) of signed bytes times words modulo 2^32, for columns (x) and queries (z).
KERNEL(byte_sums, ByteArgs) {
    SHARED(u32, shared, 4 * BYTE_QUERIES * BYTE_SUMS);
    u32 first = block_z() * BYTE_QUERIES, count = least(args.queries - first, BYTE_QUERIES);
    switch (count) {
        case 1: byte_rows<1>(args, first, count, shared); break;
        case 2: byte_rows<2>(args, first, count, shared); break;
        case 3:
        case 4: byte_rows<4>(args, first, count, shared); break;
        default: byte_rows<BYTE_QUERIES>(args, first, count, shared);
    }
}

struct ChangeArgs {
    // For each change its row, and the column of its first difference.
    const u32* places;
    // Signed numbers of 16 bits, two in a word: those of each change, one after the other.
    const u32* differences;
    u32 changes, length;
    // Columns from one difference of a change to the next.
    u32 step;
    // As for the sums.
    const u32* factors;
    u32* sums;
    u32 columns, stride;
};

// Adds the shares of changed bytes to the sums of queries (y).
KERNEL(byte_changes, ChangeArgs) {
    each([&](u32 thread) {
        u64 at = (u64)block_x() * THREADS + thread;
        if (at >= (u64)args.changes * args.length) {
            return;
        }
        u32 change = (u32)(at / args.length), number = (u32)(at % args.length);
        u32 difference = signed_half(args.differences[at / 2], (u32)(at % 2));
        u32 factor = args.factors[(u64)block_y() * args.stride + args.places[2 * change]];
        u32 column = args.places[2 * change + 1] + number * args.step;
        add_word(args.sums + (u64)block_y() * args.columns + column, factor * difference);
    });
}

struct RaiseArgs {
    Ring ring;
    // [query][residue], fractions of 2^32.
    const u32* sums;
    // Limbs: [prime][query], in Montgomery form.
    u32* out;
    u32 primes, queries;
    // The product of the primes.
    u64 modulus;
};

// Fractions of 2^32 as those of the modulus, rounded, for queries (y).
KERNEL(raise_sums, RaiseArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 query = block_y(), sum = args.sums[((u64)query << args.ring.log_degree) + at];
        u64 low = (u64)sum * (u32)args.modulus + (1u << 31);
        u64 value = (u64)sum * (u32)(args.modulus >> 32) + (low >> 32);
        for (u32 prime = 0; prime < args.primes; ++prime) {
            const Prime& p = args.ring.primes[prime];
            u32 high = montgomery(p, montgomery(p, (u32)(value >> 32), p.r2), p.r2);
            u32 residue = add(p, montgomery(p, (u32)value, p.r2), high);
            args.out[((u64)prime * args.queries + query) * args.ring.stride + at] = residue;
        }
    });
}

// The position in the evaluation domain of a place in orbit order: those of psi^(5^t), then those of psi^(-5^t).
DEVICE u32 orbit_position(const Ring& ring, u32 place) {
    u32 half = degree(ring) / 2, order = 2 * degree(ring), exponent = 1, power = 5;
    for (u32 rest = place % half; rest != 0; rest >>= 1) {
        exponent = rest & 1 ? exponent * power : exponent;
        power *= power;
    }
    exponent &= order - 1;
    exponent = place < half ? exponent : order - exponent;
    return reversed(exponent >> 1) >> (32 - ring.log_degree);
}

struct OrbitArgs {
    Ring ring;
    // In the evaluation domain.
    const u32* source;
    // For each prime (y) and each half in orbit order, its values twice, times 2^32.
    u32* out;
};

KERNEL(orbit_key, OrbitArgs) {
    each([&](u32 thread) {
        u32 at = block_x() * THREADS + thread, n = degree(args.ring), prime = block_y();
        if (at >= 2 * n) {
            return;
        }
        const Prime& p = args.ring.primes[prime];
        u32 position = orbit_position(args.ring, at / n * (n / 2) + at % (n / 2));
        u32 value = args.source[(u64)prime * args.ring.stride + position];
        args.out[(u64)prime * 2 * n + at] = shoup(p, value, p.to_montgomery);
    });
}

// Queries of a block, threads that share values, and words from the sums of a value to those of the next.
constexpr u32 WINDOW_QUERIES = 4;
constexpr u32 WINDOW_LANES = THREADS / 4;
constexpr u32 WINDOW_SUMS = WINDOW_LANES + 2;

struct WindowArgs {
    Ring ring;
    // [list][prime][block of values][factor][value of the block]
    const u32* factors;
    // For each list the keys of all queries, and then the sums of all queries.
    u32* const* vectors;
    u32 lists, count, primes, queries;
};

// The sums of a thread for some queries, of which `number` exist: four values, of four factors at a time.
template <u32 QUERIES>
DEVICE void window_lanes(const WindowArgs& args, u32 first_query, u32 number, u32* shared) {
    each([&](u32 thread) {
        u32 quad = thread % 4, prime = block_y(), n = degree(args.ring), at = block_x() * TABLE_BLOCK;
        const Prime& p = args.ring.primes[prime];
        u64 pending[QUERIES][4] = {};
        u32 sums[QUERIES][4] = {};
        u32 terms = 0;
        auto reduce_all = [&]() {
            UNROLL for (u32 query = 0; query < QUERIES; ++query) {
                UNROLL for (u32 i = 0; i < 4; ++i) {
                    u32 reduced = canonical(p, montgomery_lazy(p, pending[query][i]));
                    sums[query][i] = add(p, sums[query][i], reduced);
                    pending[query][i] = 0;
                }
            }
            terms = 0;
        };
        u32 window = prime * 2 * n + at / (n / 2) * n + at % (n / 2) + 4 * quad;
        for (u32 list = 0; list < args.lists; ++list) {
            u64 unit = ((u64)list * args.primes + prime) * (n / TABLE_BLOCK) + block_x();
            const Quad* factors =
                reinterpret_cast<const Quad*>(args.factors) + unit * args.count * (TABLE_BLOCK / 4) + quad;
            for (u32 first = 4 * (thread / 4); first < args.count; first += 4 * WINDOW_LANES) {
                Quad factor[4];
                UNROLL for (u32 i = 0; i < 4; ++i) {
                    factor[i] = first + i < args.count ? factors[(first + i) * (TABLE_BLOCK / 4)] : Quad{};
                }
                UNROLL for (u32 query = 0; query < QUERIES; ++query) {
                    u32 key = list * args.queries + first_query + least(query, number - 1);
                    const Quad* words = reinterpret_cast<const Quad*>(args.vectors[key] + window + first);
                    Quad low = words[0], high = words[1];
                    UNROLL for (u32 i = 0; i < 4; ++i) {
                        UNROLL for (u32 value = 0; value < 4; ++value) {
                            u32 word = i + value < 4 ? low.word[(i + value) % 4] : high.word[(i + value) % 4];
                            pending[query][value] += (u64)factor[i].word[value] * word;
                        }
                    }
                }
                terms += 4;
                if (terms == LAZY_TERMS) {
                    reduce_all();
                }
            }
        }
        reduce_all();
        UNROLL for (u32 query = 0; query < QUERIES; ++query) {
            UNROLL for (u32 i = 0; i < 4; ++i) {
                shared[(TABLE_BLOCK * query + 4 * quad + i) * WINDOW_SUMS + thread / 4] = sums[query][i];
            }
        }
    });
}

// Sums of factors times windows of keys, for blocks of values in orbit order (x), primes (y) and queries (z).
KERNEL(window_sums, WindowArgs) {
    SHARED(u32, shared, WINDOW_QUERIES * TABLE_BLOCK * WINDOW_SUMS);
    SHARED(u32, parts, THREADS);
    u32 first = block_z() * WINDOW_QUERIES, number = least(args.queries - first, WINDOW_QUERIES);
    switch (number) {
        case 1: window_lanes<1>(args, first, number, shared); break;
        case 2: window_lanes<2>(args, first, number, shared); break;
        default: window_lanes<WINDOW_QUERIES>(args, first, number, shared);
    }
    // Four threads have a value of a query.
    u32 prime = block_y(), values = number * TABLE_BLOCK;
    each([&](u32 thread) {
        const Prime& p = args.ring.primes[prime];
        if (thread / 4 < values) {
            u32 sum = 0;
            for (u32 i = 0; i < WINDOW_LANES / 4; ++i) {
                sum = add(p, sum, shared[thread / 4 * WINDOW_SUMS + thread % 4 * (WINDOW_LANES / 4) + i]);
            }
            parts[thread] = sum;
        }
    });
    each([&](u32 thread) {
        const Prime& p = args.ring.primes[prime];
        if (thread < values) {
            u32 sum = 0;
            UNROLL for (u32 i = 0; i < 4; ++i) {
                sum = add(p, sum, parts[4 * thread + i]);
            }
            u32* out = args.vectors[args.lists * args.queries + first + thread / TABLE_BLOCK];
            u32 place = block_x() * TABLE_BLOCK + thread % TABLE_BLOCK;
            out[(u64)prime * args.ring.stride + orbit_position(args.ring, place)] = sum;
        }
    });
}
