//! The reference kernels: one residue at a time.

use super::{BYTE_BLOCK, ConversionTarget, KEY_BLOCK, Kernels, LAZY_TERMS, MATRIX_TILE, PackedMatrix, TABLE_BLOCK};
use crate::automorphism::Permutation;
use crate::kernels::digits::DigitTable;
use crate::modular::{Modulus, Shoup, reduce_once};
use crate::ntt::{NttTable, bit_reverse};

/// Plain loops over `u32`.
pub(crate) struct Portable;

impl Kernels for Portable {
    fn lanes(&self) -> usize {
        1
    }

    fn ntt_forward(&self, table: &NttTable, limbs: &mut [&mut [u32]]) {
        for limb in limbs {
            forward(table, limb);
        }
    }

    fn ntt_inverse(&self, table: &NttTable, limb: &mut [u32], scale: Shoup) {
        inverse(table, limb, scale);
    }

    fn ntt_inverse_from(&self, table: &NttTable, source: &[u32], target: &mut [u32], scale: Shoup) {
        target.copy_from_slice(source);
        inverse(table, target, scale);
    }

    fn fold(&self, modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]) {
        fold(modulus, imaginary, limb);
    }

    fn unfold(&self, modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]) {
        unfold(modulus, imaginary, limb);
    }

    fn add_assign(&self, modulus: &Modulus, a: &mut [u32], b: &[u32]) {
        a.iter_mut().zip(b).for_each(|(a, &b)| *a = modulus.add(*a, b));
    }

    fn sub_assign(&self, modulus: &Modulus, a: &mut [u32], b: &[u32]) {
        a.iter_mut().zip(b).for_each(|(a, &b)| *a = modulus.sub(*a, b));
    }

    fn neg_assign(&self, modulus: &Modulus, a: &mut [u32]) {
        a.iter_mut().for_each(|a| *a = modulus.neg(*a));
    }

    fn scale_assign(&self, modulus: &Modulus, a: &mut [u32], w: Shoup) {
        a.iter_mut().for_each(|a| *a = modulus.mul_shoup(*a, w));
    }

    fn add_scaled_assign(&self, modulus: &Modulus, acc: &mut [u32], a: &[u32], w: Shoup) {
        acc.iter_mut().zip(a).for_each(|(acc, &a)| *acc = modulus.add(*acc, modulus.mul_shoup(a, w)));
    }

    fn add_word_assign(&self, modulus: &Modulus, a: &mut [u32], word: u32) {
        a.iter_mut().for_each(|a| *a = modulus.add(*a, word));
    }

    fn sub_scale_assign(&self, modulus: &Modulus, a: &mut [u32], b: &[u32], w: Shoup) {
        a.iter_mut().zip(b).for_each(|(a, &b)| *a = modulus.mul_shoup(*a + modulus.q - b, w));
    }

    fn mul_assign(&self, modulus: &Modulus, a: &mut [u32], b: &[u32]) {
        a.iter_mut().zip(b).for_each(|(a, &b)| *a = modulus.montgomery_mul(*a, b));
    }

    fn mul_add_assign(&self, modulus: &Modulus, acc: &mut [u32], a: &[u32], b: &[u32]) {
        for ((acc, &a), &b) in acc.iter_mut().zip(a).zip(b) {
            *acc = modulus.add(*acc, modulus.montgomery_mul(a, b));
        }
    }

    fn mul_sub_assign(&self, modulus: &Modulus, acc: &mut [u32], a: &[u32], b: &[u32]) {
        for ((acc, &a), &b) in acc.iter_mut().zip(a).zip(b) {
            *acc = modulus.sub(*acc, modulus.montgomery_mul(a, b));
        }
    }

    fn embed(&self, modulus: &Modulus, out: &mut [u32], source: &[i32], w: Shoup) {
        out.iter_mut().zip(source).for_each(|(out, &c)| *out = modulus.mul_shoup(modulus.from_i32(c), w));
    }

    fn embed_wide(&self, modulus: &Modulus, out: &mut [u32], low: &[u32], high: &[i32], w: Shoup) {
        for ((out, &low), &high) in out.iter_mut().zip(low).zip(high) {
            *out = modulus.mul_shoup(modulus.from_i64(i64::from(high) << 32 | i64::from(low)), w);
        }
    }

    fn select_below(&self, words: &[u32], mask: u32, bound: u32, out: &mut [u32], filled: usize) -> usize {
        select_below(words, mask, bound, out, filled)
    }

    fn tail_samples(&self, draws: &[u64], tails: &[u64], out: &mut [i32]) {
        tail_samples(draws, tails, out);
    }

    fn tensor(&self, modulus: &Modulus, a: [&[u32]; 2], b: [&[u32]; 2], out: [&mut [u32]; 3]) {
        let [d0, d1, d2] = out;
        for i in 0..d0.len() {
            let (a0, a1, b0, b1) = (a[0][i], a[1][i], b[0][i], b[1][i]);
            d0[i] = modulus.montgomery_mul(a0, b0);
            d1[i] = modulus.add(modulus.montgomery_mul(a0, b1), modulus.montgomery_mul(a1, b0));
            d2[i] = modulus.montgomery_mul(a1, b1);
        }
    }

    fn permute(&self, permutation: &Permutation, source: &[u32], target: &mut [u32]) {
        target.iter_mut().enumerate().for_each(|(i, t)| *t = source[permutation.source_of(i)]);
    }

    fn convert(&self, sources: &[&[u32]], targets: &[ConversionTarget], outputs: &mut [&mut [u32]]) {
        for (target, output) in targets.iter().zip(outputs) {
            let modulus = &target.modulus;
            for (x, out) in output.iter_mut().enumerate() {
                let terms = sources.iter().zip(&target.factors).map(|(s, &f)| (s[x], f));
                *out = dot_product(modulus, target.offset, terms);
            }
        }
    }

    fn quotient(&self, sources: &[&[u32]], reciprocals: &[u32], shift: u32, out: &mut [u32]) {
        for (x, out) in out.iter_mut().enumerate() {
            let terms = sources.iter().zip(reciprocals).map(|(s, &r)| u64::from(s[x]) * u64::from(r));
            *out = ((terms.sum::<u64>() + (1 << (shift - 1))) >> shift) as u32;
        }
    }

    fn dot(&self, modulus: &Modulus, a: &[&[u32]], b: &[&[u32]], out: &mut [u32], begun: bool) {
        self.dot_runs(modulus, a, 1, b, out, begun);
    }

    fn dot_runs(&self, modulus: &Modulus, a: &[&[u32]], run: usize, b: &[&[u32]], out: &mut [u32], begun: bool) {
        for (x, out) in out.iter_mut().enumerate() {
            let sum = dot_product(modulus, 0, a.iter().zip(b).map(|(a, b)| (a[x / run], b[x])));
            *out = if begun { modulus.add(*out, sum) } else { sum };
        }
    }

    fn inner_product(&self, modulus: &Modulus, digits: &[&[u32]], key: &[&[u32]], out: [&mut [u32]; 2]) {
        for (component, out) in out.into_iter().enumerate() {
            for (x, out) in out.iter_mut().enumerate() {
                let at = (x / KEY_BLOCK) * 2 * KEY_BLOCK + component * KEY_BLOCK + x % KEY_BLOCK;
                *out = dot_product(modulus, 0, digits.iter().zip(key).map(|(d, k)| (d[x], k[at])));
            }
        }
    }

    fn signed_digits(&self, residues: &[&[u32]], table: &DigitTable, moduli: &[Modulus], outputs: &mut [&mut [u32]]) {
        signed_digits(residues, table, moduli, outputs);
    }

    fn rotation_difference(&self, modulus: &Modulus, powers: &[u32], exponent: u32, out: &mut [u32]) {
        let bits = out.len().trailing_zeros();
        for (i, out) in out.iter_mut().enumerate() {
            // The number of powers is a power of two, so a product that wraps has the same remainder.
            let power = (exponent as usize).wrapping_mul(2 * bit_reverse(i, bits) + 1) % powers.len();
            *out = modulus.sub(powers[power], modulus.r);
        }
    }

    fn table_sum(&self, modulus: &Modulus, entries: &[u32], factors: &[u32], sums: &mut [u32]) {
        for (i, sum) in sums.iter_mut().enumerate() {
            let rows = entries.chunks_exact(TABLE_BLOCK).zip(factors.chunks_exact(2 * TABLE_BLOCK));
            *sum = dot_product(modulus, 0, rows.map(|(entries, factors)| (entries[i % TABLE_BLOCK], factors[i])));
        }
    }

    fn window_sum(&self, modulus: &Modulus, factors: &[u32], key: &[u32], sums: &mut [u32]) {
        for (j, sum) in sums.iter_mut().enumerate() {
            let terms = factors.chunks_exact(TABLE_BLOCK).zip(&key[j..]);
            *sum = dot_product(modulus, 0, terms.map(|(factor, &key)| (factor[j], key)));
        }
    }

    fn byte_sum(&self, bytes: &[u8], factors: &[&[u32]], sums: &mut [[u32; BYTE_BLOCK]]) {
        for (factors, sums) in factors.iter().zip(sums) {
            for (row, &factor) in bytes.chunks_exact(BYTE_BLOCK).zip(*factors) {
                for (sum, &byte) in sums.iter_mut().zip(row) {
                    let byte = i32::from(byte.cast_signed()).cast_unsigned();
                    *sum = sum.wrapping_add(byte.wrapping_mul(factor));
                }
            }
        }
    }

    fn matrix_product(&self, modulus: &Modulus, matrix: &PackedMatrix, inputs: &[&[u32]], outputs: &mut [&mut [u32]]) {
        for (row, output) in outputs.iter_mut().enumerate() {
            let tile = &matrix.entries[(row / MATRIX_TILE) * matrix.columns * MATRIX_TILE..];
            for (x, out) in output.iter_mut().enumerate() {
                let terms =
                    inputs.iter().enumerate().map(|(c, input)| (input[x], tile[c * MATRIX_TILE + row % MATRIX_TILE]));
                let sum = terms.map(|(a, b)| u128::from(a) * u128::from(b)).sum::<u128>();
                *out = (sum % u128::from(modulus.q)) as u32;
            }
        }
    }
}

/// See [`Kernels::select_below`]. For public randomness only: the running time depends on which words were rejected.
pub(super) fn select_below(words: &[u32], mask: u32, bound: u32, out: &mut [u32], mut filled: usize) -> usize {
    for &word in words {
        let Some(place) = out.get_mut(filled) else { break };
        *place = word & mask;
        filled += usize::from(*place < bound);
    }
    filled
}

/// See [`Kernels::tail_samples`]. Processes several draws at a time, which compilers turn into vector code.
#[inline(always)]
pub(super) fn tail_samples(draws: &[u64], tails: &[u64], out: &mut [i32]) {
    let (blocks, rest) = draws.as_chunks::<SAMPLES_TOGETHER>();
    let (targets, last) = out.as_chunks_mut::<SAMPLES_TOGETHER>();
    for (target, block) in targets.iter_mut().zip(blocks) {
        *target = tail_block(*block, tails);
    }
    let mut padded = [0; SAMPLES_TOGETHER];
    padded.iter_mut().zip(rest).for_each(|(padded, draw)| *padded = *draw);
    last.iter_mut().zip(tail_block(padded, tails)).for_each(|(target, value)| *target = value);
}

/// Draws that are compared with the table at the same time.
const SAMPLES_TOGETHER: usize = 32;

#[inline(always)]
fn tail_block(draws: [u64; SAMPLES_TOGETHER], tails: &[u64]) -> [i32; SAMPLES_TOGETHER] {
    let mut magnitudes = [0i64; SAMPLES_TOGETHER];
    for &tail in tails {
        for i in 0..SAMPLES_TOGETHER {
            // Both are below 2^63, so the signed comparison is correct; vector instructions have only signed ones.
            magnitudes[i] += i64::from(((draws[i] >> 1).cast_signed()) < tail.cast_signed());
        }
    }
    let mut samples = [0; SAMPLES_TOGETHER];
    for i in 0..SAMPLES_TOGETHER {
        samples[i] = (1 - 2 * (draws[i] & 1) as i32) * magnitudes[i] as i32;
    }
    samples
}

/// `(offset + sum a b) / R mod q`, canonical: one Montgomery reduction for every [`LAZY_TERMS`] products.
fn dot_product(modulus: &Modulus, offset: u32, terms: impl Iterator<Item = (u32, u32)>) -> u32 {
    let (mut result, mut sum, mut pending) = (0, u64::from(offset), 0);
    for (a, b) in terms {
        sum += u64::from(a) * u64::from(b);
        pending += 1;
        if pending == LAZY_TERMS {
            result = modulus.add(result, canonical_from_4q(modulus, modulus.montgomery_lazy(sum)));
            (sum, pending) = (0, 0);
        }
    }
    modulus.add(result, canonical_from_4q(modulus, modulus.montgomery_lazy(sum)))
}

/// `[0, 4q)` to `[0, q)`.
fn canonical_from_4q(modulus: &Modulus, a: u32) -> u32 {
    reduce_once(reduce_once(a, 2 * modulus.q), modulus.q)
}

/// Cooley-Tukey, natural order in, bit-reversed order out (Harvey, "Faster arithmetic for
/// number-theoretic transforms", 2014): values stay in `[0, 4q)` between stages.
fn forward(table: &NttTable, limb: &mut [u32]) {
    let modulus = &table.modulus;
    let twice = 2 * modulus.q;
    let mut blocks = 1;
    while blocks < limb.len() {
        let half = limb.len() / (2 * blocks);
        for (block, values) in limb.chunks_exact_mut(2 * half).enumerate() {
            let root = table.forward[blocks + block];
            let (low, high) = values.split_at_mut(half);
            for (u, v) in low.iter_mut().zip(high) {
                let a = reduce_once(*u, twice);
                let b = modulus.mul_shoup_lazy(*v, root);
                (*u, *v) = (a + b, a + twice - b);
            }
        }
        blocks *= 2;
    }
    limb.iter_mut().for_each(|x| *x = canonical_from_4q(modulus, *x));
}

/// Gentleman-Sande, the exact inverse of [`forward`] up to the factor `scale`; values stay in `[0, 2q)`.
fn inverse(table: &NttTable, limb: &mut [u32], scale: Shoup) {
    let modulus = &table.modulus;
    let twice = 2 * modulus.q;
    let mut blocks = limb.len() / 2;
    while blocks >= 1 {
        let half = limb.len() / (2 * blocks);
        for (block, values) in limb.chunks_exact_mut(2 * half).enumerate() {
            let root = table.inverse[blocks + block];
            let (low, high) = values.split_at_mut(half);
            for (u, v) in low.iter_mut().zip(high) {
                let difference = *u + twice - *v;
                *u = reduce_once(*u + *v, twice);
                *v = modulus.mul_shoup_lazy(difference, root);
            }
        }
        blocks /= 2;
    }
    limb.iter_mut().for_each(|x| *x = modulus.mul_shoup(*x, scale));
}

/// `c_i = a_i - I a_(n-i)` for `0 < i < n`.
fn fold(modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]) {
    let (low, high) = limb.split_at_mut(limb.len() / 2);
    if let Some(middle) = high.first_mut() {
        *middle = modulus.sub(*middle, modulus.mul_shoup(*middle, imaginary));
    }
    for (a, b) in low.iter_mut().skip(1).zip(high.iter_mut().rev()) {
        let (x, y) = (*a, *b);
        *a = modulus.sub(x, modulus.mul_shoup(y, imaginary));
        *b = modulus.sub(y, modulus.mul_shoup(x, imaginary));
    }
}

/// `a_i = (c_i + I c_(n-i)) / 2` for `0 < i < n`.
fn unfold(modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]) {
    let half = modulus.shoup(modulus.q.div_ceil(2));
    let half_imaginary = modulus.shoup(modulus.mul(half.value, imaginary.value));
    let combine = |x, y| modulus.add(modulus.mul_shoup(x, half), modulus.mul_shoup(y, half_imaginary));
    let (low, high) = limb.split_at_mut(limb.len() / 2);
    if let Some(middle) = high.first_mut() {
        *middle = combine(*middle, *middle);
    }
    for (a, b) in low.iter_mut().skip(1).zip(high.iter_mut().rev()) {
        (*a, *b) = (combine(*a, *b), combine(*b, *a));
    }
}

/// Coefficients that [`signed_digits`] processes at a time.
const DIGIT_BLOCK: usize = 256;

/// See [`Kernels::signed_digits`]. Each short loop does one kind of step, so that compilers turn it into vector code.
#[inline(always)]
pub(crate) fn signed_digits(residues: &[&[u32]], table: &DigitTable, moduli: &[Modulus], outputs: &mut [&mut [u32]]) {
    let n = residues[0].len();
    let levels = outputs.len() / moduli.len();
    let mask = (1i64 << table.log2_base) - 1;
    let half = 1i64 << (table.log2_base - 1);
    for start in (0..n).step_by(DIGIT_BLOCK) {
        let (mut magnitudes, mut signs) = ([0i64; DIGIT_BLOCK], [0i64; DIGIT_BLOCK]);
        let block = start..n.min(start + DIGIT_BLOCK);
        let (magnitudes, signs) = (&mut magnitudes[..block.len()], &mut signs[..block.len()]);
        match (&table.second, residues) {
            (Some(second), [first, other, ..]) => {
                let pairs = first[block.clone()].iter().zip(&other[block.clone()]);
                for ((magnitude, sign), (&x1, &x2)) in magnitudes.iter_mut().zip(signs.iter_mut()).zip(pairs) {
                    let quotient = second.modulus.mul_shoup(x2 + second.lift - x1, second.inverse);
                    let x = u64::from(x1) + u64::from(second.first) * u64::from(quotient);
                    (*magnitude, *sign) = sign_and_magnitude(x, table);
                }
            }
            _ => {
                for ((magnitude, sign), &x) in
                    magnitudes.iter_mut().zip(signs.iter_mut()).zip(&residues[0][block.clone()])
                {
                    (*magnitude, *sign) = sign_and_magnitude(u64::from(x), table);
                }
            }
        }
        for (i, output) in outputs.iter_mut().enumerate() {
            let (modulus, level) = (&moduli[i / levels], i % levels);
            let shift = table.drop + table.log2_base * level as u32;
            // The highest digit takes all remaining bits.
            let mask = if level + 1 == levels { i64::MAX } else { mask };
            for ((out, &magnitude), &sign) in output[block.clone()].iter_mut().zip(magnitudes.iter()).zip(signs.iter())
            {
                let digit = ((((magnitude >> shift) & mask) - half) ^ sign).wrapping_sub(sign) as i32;
                *out = (digit + (digit >> 31 & modulus.q.cast_signed())).cast_unsigned();
            }
        }
    }
}

/// The absolute value of the representative of `x` between `-Q/2` and `Q/2`, plus the table's offset; and its sign as a
/// mask of all ones or all zeros. The digits of `-x` are the digits of `x` negated, so digits have mean zero. Digits
/// with a non-zero mean would add up under a binary secret.
#[inline(always)]
fn sign_and_magnitude(x: u64, table: &DigitTable) -> (i64, i64) {
    let surplus = if x > table.half { table.product } else { 0 };
    let centred = x.cast_signed() - surplus.cast_signed();
    let sign = centred >> 63;
    ((centred ^ sign) - sign + table.offset, sign)
}
