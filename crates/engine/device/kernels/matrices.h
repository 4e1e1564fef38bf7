// Products of integer matrices with vectors of limbs, and the rows of module ciphertexts that such products read.
#pragma once

#include "ring.h"

// Rows of a matrix, and residues, that a thread computes.
constexpr u32 MATRIX_TILE = 4;
// Residues, and rows, of a block: threads of a warp have different residues and the same rows.
constexpr u32 MATRIX_RUN = 32 * MATRIX_TILE;
constexpr u32 MATRIX_ROWS = THREADS / 32 * MATRIX_TILE;

struct MatrixArgs {
    Ring ring;
    // The primes of the vectors, and those of the matrix, which contain them.
    Basis basis, matrix_basis;
    // For each prime of the matrix one or two matrices: [row / 4][column][row % 4], padded with rows of zeros.
    const Quad* matrix;
    // Quads of one matrix, and matrices of a prime. The second one is for residues from `split` on.
    u32 matrix_len, matrices, split;
    u32 rows, columns;
    // The inputs, one for each column, and then the outputs.
    u32* const* vectors;
    // Residues of a limb, and words from one limb to the next of inputs and of outputs.
    u32 length;
    u64 input_limb, output_limb;
};

// A vector of limbs (z) times a matrix, whose rows are divided among blocks (y).
KERNEL(matrix_product, MatrixArgs) {
    each([&](u32 thread) {
        u32 limb = block_z(), at = block_x() * MATRIX_RUN + thread % 32 * MATRIX_TILE;
        u32 tile = block_y() * (THREADS / 32) + thread / 32;
        if (at >= args.length || tile * MATRIX_TILE >= args.rows) {
            return;
        }
        const Prime& p = args.ring.primes[prime_of(args.ring, args.basis, limb)];
        u32 number = limb_over(args.matrix_basis, args.basis, limb) * args.matrices + (at >= args.split ? 1 : 0);
        const Quad* factors = args.matrix + (u64)number * args.matrix_len + (u64)tile * args.columns;
        u64 pending[MATRIX_TILE][MATRIX_TILE] = {};
        u32 sums[MATRIX_TILE][MATRIX_TILE] = {};
        for (u32 first = 0; first < args.columns; first += LAZY_TERMS) {
            u32 end = least(args.columns, first + LAZY_TERMS);
            for (u32 column = first; column < end; ++column) {
                Quad factor = factors[column];
                Quad value = *reinterpret_cast<const Quad*>(args.vectors[column] + limb * args.input_limb + at);
                UNROLL for (u32 row = 0; row < MATRIX_TILE; ++row) {
                    UNROLL for (u32 i = 0; i < MATRIX_TILE; ++i) {
                        pending[row][i] += (u64)factor.word[row] * value.word[i];
                    }
                }
            }
            UNROLL for (u32 row = 0; row < MATRIX_TILE; ++row) {
                UNROLL for (u32 i = 0; i < MATRIX_TILE; ++i) {
                    sums[row][i] = add(p, sums[row][i], canonical(p, montgomery_lazy(p, pending[row][i])));
                    pending[row][i] = 0;
                }
            }
        }
        UNROLL for (u32 row = 0; row < MATRIX_TILE; ++row) {
            u32 number_of_row = tile * MATRIX_TILE + row;
            if (number_of_row < args.rows) {
                Quad result;
                UNROLL for (u32 i = 0; i < MATRIX_TILE; ++i) {
                    result.word[i] = shoup(p, sums[row][i], p.to_montgomery);
                }
                u32* output = args.vectors[args.columns + number_of_row] + limb * args.output_limb;
                *reinterpret_cast<Quad*>(output + at) = result;
            }
        }
    });
}

struct StepArgs {
    const u32* source;
    u32* target;
    // Words from one limb to the next.
    u64 source_limb, target_limb;
    // Words from one that is copied to the next.
    u32 source_step, target_step;
    // Words of each limb that are copied.
    u64 count;
};

// Words in steps, for each limb (y).
KERNEL(steps, StepArgs) {
    each([&](u32 thread) {
        u64 at = (u64)block_x() * THREADS + thread;
        if (at < args.count) {
            args.target[block_y() * args.target_limb + at * args.target_step] =
                args.source[block_y() * args.source_limb + at * args.source_step];
        }
    });
}

struct ModuleArgs {
    Ring ring;
    // A ciphertext.
    const u32* body;
    const u32* mask;
    // The row of its first part.
    u32* rows;
    // Words from one part to the next, and from one limb to the next.
    u64 part, limb;
    // log2 of the degree of the parts.
    u32 log_part;
};

// The parts (y) of a ciphertext as rows: those of the body, and the products of those of the mask with the powers of Y.
KERNEL(module_rows, ModuleArgs) {
    each([&](u32 thread) {
        u32 at = block_x() * THREADS + thread, part = block_y(), prime = block_z();
        u32 size = 1u << args.log_part, rank = 1u << (args.ring.log_degree - args.log_part);
        if (at >= size + degree(args.ring)) {
            return;
        }
        u64 start = (u64)prime * args.ring.stride;
        u32 value;
        if (at < size) {
            value = args.body[start + part + at * rank];
        } else {
            // Coefficient c of component j is coefficient part - j + c rank of the mask, with Y^n = -1.
            u32 component = (at >> args.log_part) - 1, c = at & (size - 1);
            i32 place = (i32)(part + c * rank) - (i32)component;
            value = args.mask[start + (place < 0 ? place + (i32)degree(args.ring) : place)];
            value = place < 0 ? neg(args.ring.primes[prime], value) : value;
        }
        args.rows[prime * args.limb + part * args.part + at] = value;
    });
}

// No row.
constexpr u32 NO_ROW = ~0u;

struct SelectArgs {
    const u32* source;
    u32* target;
    // Words from one limb to the next.
    u64 source_limb, target_limb;
    u32 row_len;
    const u32* chosen;
};

// Rows (x) by their numbers, for each limb (z).
KERNEL(select_rows, SelectArgs) {
    each([&](u32 thread) {
        u32 at = block_y() * THREADS + thread, row = block_x();
        if (at < args.row_len) {
            args.target[block_z() * args.target_limb + (u64)row * args.row_len + at] =
                args.source[block_z() * args.source_limb + (u64)args.chosen[row] * args.row_len + at];
        }
    });
}

struct PackArgs {
    Ring ring;
    const u32* rows;
    // Words from one limb of the rows to the next, and words of a row.
    u64 limb;
    u32 row_len;
    u32 log_part;
    // For each part its row, or NO_ROW.
    const u32* chosen;
    // The body and the masks.
    u32* const* out;
};

// The polynomials (y) whose parts are components of rows.
KERNEL(pack_rows, PackArgs) {
    each_residue(args.ring, [&](u32 at) {
        u32 piece = block_y(), prime = block_z();
        u32 log_rank = args.ring.log_degree - args.log_part;
        u32 row = args.chosen[at & ((1u << log_rank) - 1)];
        u64 place = prime * args.limb + (u64)row * args.row_len + (piece << args.log_part) + (at >> log_rank);
        args.out[piece][(u64)prime * args.ring.stride + at] = row == NO_ROW ? 0 : args.rows[place];
    });
}
