//! Kernels that sum products over many limbs.

use super::prefetch::prefetch;
use super::vector::{Prime, Vector, Wide};
use crate::kernels::{ConversionTarget, KEY_BLOCK, LAZY_TERMS, TABLE_BLOCK, lazy_terms};
use crate::modular::Modulus;

/// Number of targets of a basis conversion for which the sources are read once.
const TARGETS: usize = 4;

/// Number of vectors of a run for which its factors are read once.
const RUN_VECTORS: usize = 4;

/// Number of blocks by which a key is prefetched ahead of its use.
const PREFETCH_BLOCKS: usize = 4;

/// Most sources of [`quotient`]: 18 terms below `2^59`, and one half, fit 64 bits.
const MAX_QUOTIENT_SOURCES: usize = 18;

/// One basis conversion from `sources` to every target.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn convert<V: Vector>(sources: &[&[u32]], targets: &[ConversionTarget], outputs: &mut [&mut [u32]]) {
    assert!(targets.len() == outputs.len());
    if let ([target], [output]) = (targets, &mut *outputs) {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            match *sources {
                [a] => return convert_few::<V, 1>([a], target, output),
                [a, b] => return convert_few::<V, 2>([a, b], target, output),
                [a, b, c] => return convert_few::<V, 3>([a, b, c], target, output),
                [a, b, c, d] => return convert_few::<V, 4>([a, b, c, d], target, output),
                [a, b, c, d, e] => return convert_few::<V, 5>([a, b, c, d, e], target, output),
                _ => {}
            }
        }
    }
    for (targets, outputs) in targets.chunks(TARGETS).zip(outputs.chunks_mut(TARGETS)) {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            match (targets, outputs) {
                ([a, b, c, d], [w, x, y, z]) => convert_to::<V, 4>(sources, [a, b, c, d], [w, x, y, z]),
                ([a, b, c], [w, x, y]) => convert_to::<V, 3>(sources, [a, b, c], [w, x, y]),
                ([a, b], [w, x]) => convert_to::<V, 2>(sources, [a, b], [w, x]),
                ([a], [w]) => convert_to::<V, 1>(sources, [a], [w]),
                _ => unreachable!("chunks of one to four"),
            }
        }
    }
}

/// One basis conversion of `S` sources, few enough for their factors to stay in registers, to one target.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn convert_few<V: Vector, const S: usize>(sources: [&[u32]; S], target: &ConversionTarget, output: &mut [u32]) {
    const { assert!(S <= LAZY_TERMS) };
    let length = output.len();
    assert!(length.is_multiple_of(V::LANES) && sources.iter().all(|source| source.len() == length));
    assert!(target.factors.len() == S);
    // SAFETY: the caller vouches for the instruction set; all limbs have the same length, a multiple of the lanes.
    unsafe {
        let (prime, offset) = (Prime::<V>::new(&target.modulus), V::splat64(u64::from(target.offset)));
        let mut factors = [offset; S];
        factors.iter_mut().zip(&target.factors).for_each(|(factor, &word)| *factor = V::splat(word));
        for x in (0..length).step_by(V::LANES) {
            let mut sum = Wide(offset, offset);
            for i in 0..S {
                let source = V::load(sources[i], x);
                sum = sum.add_multiple(source.operand(), factors[i]);
            }
            prime.canonical_from_4q(prime.montgomery_lazy(sum)).store(output, x);
        }
    }
}

/// One basis conversion to `T` targets.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn convert_to<V: Vector, const T: usize>(
    sources: &[&[u32]],
    targets: [&ConversionTarget; T],
    outputs: [&mut &mut [u32]; T],
) {
    let length = outputs[0].len();
    assert!(length.is_multiple_of(V::LANES) && sources.iter().all(|source| source.len() == length));
    assert!(outputs.iter().all(|output| output.len() == length));
    assert!(targets.iter().all(|target| target.factors.len() == sources.len()));
    // SAFETY: the caller vouches for the instruction set; all limbs have the same length, a multiple of the lanes,
    // and every target has a factor for each source.
    unsafe {
        let primes = targets.map(|target| Prime::<V>::new(&target.modulus));
        let offsets = targets.map(|target| V::splat64(u64::from(target.offset)));
        // Half of the largest sum of [`LAZY_TERMS`] products and an offset: `3/2 q R`.
        let halves = targets.map(|target| V::splat64((3 << 31) * u64::from(target.modulus.q)));
        for x in (0..length).step_by(V::LANES) {
            let mut sums = offsets.map(|offset| Wide(offset, offset));
            let mut room = LAZY_TERMS;
            for i in 0..sources.len() {
                if room == 0 {
                    sums = std::array::from_fn(|t| sums[t].reduce(halves[t]));
                    room = LAZY_TERMS / 2;
                }
                let source = V::load(sources.get_unchecked(i), x).operand();
                for t in 0..T {
                    let factor = V::splat(*targets[t].factors.get_unchecked(i));
                    sums[t] = sums[t].add_multiple(source, factor);
                }
                room -= 1;
            }
            for t in 0..T {
                primes[t].canonical_from_4q(primes[t].montgomery_lazy(sums[t])).store(outputs[t], x);
            }
        }
    }
}

/// `out = floor(sum_i source_i * reciprocals_i / 2^shift + 1/2)`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn quotient<V: Vector>(sources: &[&[u32]], reciprocals: &[u32], shift: u32, out: &mut [u32]) {
    assert!(out.len().is_multiple_of(V::LANES) && sources.iter().all(|source| source.len() == out.len()));
    assert!(sources.len() == reciprocals.len() && sources.len() <= MAX_QUOTIENT_SOURCES && (1..64).contains(&shift));
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        let half = V::splat64(1 << (shift - 1));
        for x in (0..out.len()).step_by(V::LANES) {
            let mut sum = Wide(half, half);
            for (source, &reciprocal) in sources.iter().zip(reciprocals) {
                let source = V::load(source, x);
                sum = sum.add_multiple(source.operand(), V::splat(reciprocal));
            }
            V::low_words(Wide(sum.0.shift_right64(shift), sum.1.shift_right64(shift))).store(out, x);
        }
    }
}

/// `out = sum_i a_i * b_i / R`, added to what `out` has if it has `begun`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn dot<V: Vector>(modulus: &Modulus, a: &[&[u32]], b: &[&[u32]], out: &mut [u32], begun: bool) {
    assert!(out.len().is_multiple_of(V::LANES) && a.len() == b.len());
    assert!(a.iter().chain(b).all(|limb| limb.len() == out.len()));
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        let prime = Prime::<V>::new(modulus);
        let zero = prime.q.sub(prime.q);
        for x in (0..out.len()).step_by(V::LANES) {
            let mut result = if begun { V::load(out, x) } else { zero };
            for first in (0..a.len()).step_by(LAZY_TERMS) {
                let mut sum = Wide(zero, zero);
                for i in first..a.len().min(first + LAZY_TERMS) {
                    sum = sum.add(Wide::product(V::load(a.get_unchecked(i), x), V::load(b.get_unchecked(i), x)));
                }
                result = prime.add(result, prime.canonical_from_4q(prime.montgomery_lazy(sum)));
            }
            result.store(out, x);
        }
    }
}

/// As [`dot`], each word of `a` for `run` words of `b`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn dot_runs<V: Vector>(
    modulus: &Modulus,
    a: &[&[u32]],
    run: usize,
    b: &[&[u32]],
    out: &mut [u32],
    begun: bool,
) {
    assert!(run > 0 && run.is_multiple_of(V::LANES) && out.len().is_multiple_of(run) && a.len() == b.len());
    assert!(a.iter().all(|values| values.len() == out.len() / run) && b.iter().all(|limb| limb.len() == out.len()));
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        if run.is_multiple_of(RUN_VECTORS * V::LANES) {
            dot_vectors::<V, RUN_VECTORS>(modulus, a, run, b, out, begun);
        } else {
            dot_vectors::<V, 1>(modulus, a, run, b, out, begun);
        }
    }
}

/// [`dot_runs`] with `N` vectors at a time, for which each word of `a` is read once.
///
/// # Safety
/// The machine has the instruction set of `V`, a run is a multiple of `N` vectors, and the lengths are those that
/// [`dot_runs`] checks.
#[inline(always)]
unsafe fn dot_vectors<V: Vector, const N: usize>(
    modulus: &Modulus,
    a: &[&[u32]],
    run: usize,
    b: &[&[u32]],
    out: &mut [u32],
    begun: bool,
) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        let prime = Prime::<V>::new(modulus);
        let zero = prime.q.sub(prime.q);
        for at in (0..out.len()).step_by(N * V::LANES) {
            let place = at / run;
            let x: [usize; N] = std::array::from_fn(|n| at + n * V::LANES);
            let mut results = [zero; N];
            if begun {
                results = x.map(|x| V::load(out, x));
            }
            for first in (0..a.len()).step_by(LAZY_TERMS) {
                let mut sums = [Wide(zero, zero); N];
                for i in first..a.len().min(first + LAZY_TERMS) {
                    let factor = V::splat(*a.get_unchecked(i).get_unchecked(place));
                    let values = b.get_unchecked(i);
                    for n in 0..N {
                        sums[n] = sums[n].add_multiple(V::load(values, x[n]).operand(), factor);
                    }
                }
                for n in 0..N {
                    let sum = prime.canonical_from_4q(prime.montgomery_lazy(sums[n]));
                    results[n] = prime.add(results[n], sum);
                }
            }
            for n in 0..N {
                results[n].store(out, x[n]);
            }
        }
    }
}

/// `out_c = sum_d digit_d * key_{d,c} / R` for both components of a gadget key.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn inner_product<V: Vector>(
    modulus: &Modulus,
    digits: &[&[u32]],
    key: &[&[u32]],
    out: [&mut [u32]; 2],
) {
    let [out0, out1] = out;
    let length = out0.len();
    assert!(length.is_multiple_of(KEY_BLOCK) && KEY_BLOCK.is_multiple_of(V::LANES) && out1.len() == length);
    assert!(digits.len() == key.len());
    assert!(digits.iter().all(|digit| digit.len() == length) && key.iter().all(|digit| digit.len() == 2 * length));
    // SAFETY: the caller vouches for the instruction set. Digits and outputs are `length` words long, and the key's
    // digits twice that. Block `b` of 64 words is at `64 b` in digits and outputs, and at `128 b` (component 0) and
    // `128 b + 64` (component 1) in the key.
    unsafe {
        let prime = Prime::<V>::new(modulus);
        let zero = prime.q.sub(prime.q);
        for block in (0..length).step_by(KEY_BLOCK) {
            key.iter().for_each(|digit| prefetch(digit, 2 * (block + PREFETCH_BLOCKS * KEY_BLOCK), 2 * KEY_BLOCK));
            for x in (0..KEY_BLOCK).step_by(V::LANES) {
                let mut results = [zero; 2];
                for first in (0..digits.len()).step_by(LAZY_TERMS) {
                    let mut sums = [Wide(zero, zero); 2];
                    for d in first..digits.len().min(first + LAZY_TERMS) {
                        let (digit, key) = (V::load(digits.get_unchecked(d), block + x), key.get_unchecked(d));
                        let (key0, key1) = (V::load(key, 2 * block + x), V::load(key, 2 * block + KEY_BLOCK + x));
                        sums = [sums[0].add(Wide::product(digit, key0)), sums[1].add(Wide::product(digit, key1))];
                    }
                    for (result, sum) in results.iter_mut().zip(sums) {
                        *result = prime.add(*result, prime.canonical_from_4q(prime.montgomery_lazy(sum)));
                    }
                }
                results[0].store(out0, block + x);
                results[1].store(out1, block + x);
            }
        }
    }
}

/// See [`Kernels::table_sum`](crate::kernels::Kernels::table_sum). Processes one vector of positions at a time: the
/// entries come from memory, the factors of a block stay in the first-level cache.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn table_sum<V: Vector>(modulus: &Modulus, entries: &[u32], factors: &[u32], sums: &mut [u32]) {
    let rows = entries.len() / TABLE_BLOCK;
    assert!(entries.len() == rows * TABLE_BLOCK && factors.len() == 2 * entries.len());
    assert!(sums.len() == 2 * TABLE_BLOCK && TABLE_BLOCK.is_multiple_of(V::LANES));
    let step = lazy_terms(modulus);
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        let prime = Prime::<V>::new(modulus);
        let zero = prime.q.sub(prime.q);
        for x in (0..TABLE_BLOCK).step_by(V::LANES) {
            let mut results = [zero; 2];
            for first in (0..rows).step_by(step) {
                let mut wide = [Wide(zero, zero); 2];
                for row in first..rows.min(first + step) {
                    let entry = V::load(entries, row * TABLE_BLOCK + x).operand();
                    for (component, wide) in wide.iter_mut().enumerate() {
                        let factor = V::load(factors, (2 * row + component) * TABLE_BLOCK + x);
                        *wide = wide.add(V::products(entry, factor.operand()));
                    }
                }
                for (result, wide) in results.iter_mut().zip(wide) {
                    *result = prime.add(*result, prime.canonical_from_4q(prime.montgomery_lazy(wide)));
                }
            }
            results[0].store(sums, x);
            results[1].store(sums, TABLE_BLOCK + x);
        }
    }
}

/// See [`Kernels::window_sum`](crate::kernels::Kernels::window_sum). The factors come from memory, the key stays in the
/// first-level cache.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn window_sum<V: Vector>(modulus: &Modulus, factors: &[u32], key: &[u32], sums: &mut [u32]) {
    let count = factors.len() / TABLE_BLOCK;
    assert!(count > 0 && factors.len() == count * TABLE_BLOCK && key.len() == count + TABLE_BLOCK - 1);
    assert!(sums.len() == TABLE_BLOCK && TABLE_BLOCK.is_multiple_of(V::LANES));
    let step = lazy_terms(modulus);
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        let prime = Prime::<V>::new(modulus);
        let zero = prime.q.sub(prime.q);
        for x in (0..TABLE_BLOCK).step_by(V::LANES) {
            let mut result = zero;
            for first in (0..count).step_by(step) {
                let mut wide = Wide(zero, zero);
                for i in first..count.min(first + step) {
                    wide = wide.add(Wide::product(V::load(factors, i * TABLE_BLOCK + x), V::load(key, i + x)));
                }
                result = prime.add(result, prime.canonical_from_4q(prime.montgomery_lazy(wide)));
            }
            result.store(sums, x);
        }
    }
}
