//! Tests of every backend against the portable kernels, and of the portable transform against the definition.

use super::portable::Portable;
use super::{ConversionTarget, KEY_BLOCK, Kernels, LAZY_TERMS, PackedMatrix};
use crate::automorphism::Permutation;
use crate::backend::Backend;
use crate::kind::RingKind;
use crate::memory::AlignedWords;
use crate::modular::{Modulus, PRIME_LIMIT, Shoup, primes_descending};
use crate::ntt::{NttTable, bit_reverse};

const KINDS: [RingKind; 2] = [RingKind::Standard, RingKind::ConjugateInvariant];
const DEGREE: usize = 512;

/// The vector backends that this machine can run; the tests skip the others.
fn vector_kernels() -> impl Iterator<Item = &'static dyn Kernels> {
    Backend::ALL[1..].iter().copied().filter_map(Backend::kernels)
}

/// SplitMix64: test inputs only.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u32
    }

    fn limb(&mut self, bound: u32, length: usize) -> Vec<u32> {
        (0..length).map(|_| self.below(bound)).collect()
    }

    fn pick<const C: usize>(&mut self, choices: [u32; C], length: usize) -> Vec<u32> {
        (0..length).map(|_| choices[self.below(C as u32) as usize]).collect()
    }
}

/// The largest and the smallest prime above 2^20 that suit both rings of the degree.
fn extreme_primes(degree: usize) -> [Modulus; 2] {
    let step = RingKind::ConjugateInvariant.prime_step(degree);
    let largest = primes_descending(1 << 29, PRIME_LIMIT, step).next().unwrap();
    let small = primes_descending(1 << 20, 1 << 23, step).last().unwrap();
    [largest, small].map(Modulus::new)
}

/// Canonical limbs: random, all zero, all `q - 1`, and a random mix of the extremes.
fn limbs(modulus: &Modulus, length: usize, random: &mut Random) -> Vec<Vec<u32>> {
    let q = modulus.q;
    vec![random.limb(q, length), vec![0; length], vec![q - 1; length], random.pick([0, 1, q - 1], length)]
}

/// Limbs of lazy residues below `4q`.
fn lazy_limbs(modulus: &Modulus, length: usize, random: &mut Random) -> Vec<Vec<u32>> {
    let q = modulus.q;
    vec![random.limb(4 * q, length), vec![4 * q - 1; length], random.pick([0, q, 2 * q - 1, 4 * q - 1], length)]
}

#[test]
fn transforms_agree_at_every_degree() {
    let mut random = Random(1);
    for degree in (9..=17).map(|bits| 1usize << bits) {
        for (kind, modulus) in KINDS.into_iter().flat_map(|kind| extreme_primes(degree).map(|m| (kind, m))) {
            let reference = NttTable::new(modulus, degree, kind, 1);
            let mut inputs = lazy_limbs(&modulus, degree, &mut random);
            if degree > 1 << 14 {
                inputs.truncate(2);
            }
            let transform = |kernels: &dyn Kernels, table: &NttTable| {
                let mut limbs = inputs.clone();
                kernels.ntt_forward(table, &mut limbs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
                limbs
            };
            let values = transform(&Portable, &reference);
            let scale = modulus.shoup(modulus.mul(reference.degree_inverse, random.below(modulus.q)));
            let back = |kernels: &dyn Kernels, table: &NttTable, scale: Shoup| {
                let mut limb = values[0].clone();
                kernels.ntt_inverse(table, &mut limb, scale);
                limb
            };
            let scaled = back(&Portable, &reference, scale);
            for kernels in vector_kernels() {
                let at = format!("{} {degree} {kind:?} {}", kernels.lanes(), modulus.q);
                let table = NttTable::new(modulus, degree, kind, kernels.lanes());
                assert!(transform(kernels, &table) == values, "forward {at}");
                assert!(back(kernels, &table, scale) == scaled, "inverse {at}");
                let mut target = vec![u32::MAX; degree];
                kernels.ntt_inverse_from(&table, &values[0], &mut target, scale);
                assert!(target == scaled, "inverse from {at}");
                let recovered = back(kernels, &table, modulus.shoup(table.degree_inverse));
                assert!(recovered.iter().zip(&inputs[0]).all(|(a, b)| *a == b % modulus.q), "round trip {at}");
            }
        }
    }
}

#[test]
fn inverse_transform_takes_extreme_values() {
    let mut random = Random(2);
    for (degree, kind) in [512, 8192].into_iter().flat_map(|degree| KINDS.map(|kind| (degree, kind))) {
        for modulus in extreme_primes(degree) {
            let reference = NttTable::new(modulus, degree, kind, 1);
            for scale in [1, modulus.q - 1].map(|scale| modulus.shoup(scale)) {
                for limb in limbs(&modulus, degree, &mut random) {
                    let mut expected = limb.clone();
                    Portable.ntt_inverse(&reference, &mut expected, scale);
                    for kernels in vector_kernels() {
                        let table = NttTable::new(modulus, degree, kind, kernels.lanes());
                        let mut limb = limb.clone();
                        kernels.ntt_inverse(&table, &mut limb, scale);
                        assert!(limb == expected, "{} {degree} {kind:?} {}", kernels.lanes(), modulus.q);
                    }
                }
            }
        }
    }
}

/// The root at which position `i` of a transform evaluates.
fn evaluation_point(table: &NttTable, kind: RingKind, i: usize) -> u32 {
    let degree = table.degree;
    let reversed = bit_reverse(i, degree.trailing_zeros()) as u64;
    let (order, exponent) = match kind {
        RingKind::Standard => (2 * degree as u32, 2 * reversed + 1),
        RingKind::ConjugateInvariant => (4 * degree as u32, 4 * reversed + 1),
    };
    table.modulus.pow(crate::modular::primitive_root_of_unity(&table.modulus, order), exponent)
}

#[test]
fn transform_is_evaluation() {
    let mut random = Random(3);
    for (degree, kind) in [512, 1 << 13, 1 << 16].into_iter().flat_map(|degree| KINDS.map(|kind| (degree, kind))) {
        let modulus = extreme_primes(degree)[0];
        let table = NttTable::new(modulus, degree, kind, 1);
        let coefficients = random.limb(modulus.q, degree);
        let mut values = coefficients.clone();
        if kind == RingKind::ConjugateInvariant {
            Portable.fold(&modulus, modulus.shoup(table.imaginary), &mut values);
        }
        Portable.ntt_forward(&table, &mut [&mut values]);
        for i in [0, 1, degree / 2, degree - 1, random.below(degree as u32) as usize] {
            let x = evaluation_point(&table, kind, i);
            let horner = |x| coefficients.iter().rev().fold(0, |sum, &c| modulus.add(modulus.mul(sum, x), c));
            let expected = match kind {
                RingKind::Standard => horner(x),
                // a_0 + sum a_i (x^i + x^-i)
                RingKind::ConjugateInvariant => {
                    modulus.sub(modulus.add(horner(x), horner(modulus.inv(x))), coefficients[0])
                }
            };
            assert_eq!(values[i], expected, "{kind:?} {degree} position {i}");
        }
    }
}

#[test]
fn product_of_values_is_negacyclic_product() {
    let mut random = Random(4);
    let modulus = extreme_primes(DEGREE)[0];
    let (a, b) = (random.limb(modulus.q, DEGREE), random.limb(modulus.q, DEGREE));
    let mut expected = vec![0; DEGREE];
    for (i, &a) in a.iter().enumerate() {
        for (j, &b) in b.iter().enumerate() {
            let (product, k) = (modulus.mul(a, b), (i + j) % DEGREE);
            expected[k] =
                if i + j < DEGREE { modulus.add(expected[k], product) } else { modulus.sub(expected[k], product) };
        }
    }
    for kernels in vector_kernels().chain([&Portable as &dyn Kernels]) {
        let table = NttTable::new(modulus, DEGREE, RingKind::Standard, kernels.lanes());
        let (mut a, mut b) = (a.clone(), b.clone());
        kernels.ntt_forward(&table, &mut [&mut a, &mut b]);
        kernels.mul_assign(&modulus, &mut a, &b);
        // The Montgomery product lacks a factor R.
        kernels.ntt_inverse(&table, &mut a, modulus.shoup(modulus.mul(table.degree_inverse, modulus.r)));
        assert_eq!(a, expected, "{}", kernels.lanes());
    }
}

#[test]
fn fold_and_unfold_are_inverse_and_agree() {
    let mut random = Random(5);
    for modulus in extreme_primes(2048) {
        let table = NttTable::new(modulus, 2048, RingKind::ConjugateInvariant, 1);
        let imaginary = modulus.shoup(table.imaginary);
        assert_eq!(modulus.mul(table.imaginary, table.imaginary), modulus.q - 1);
        for limb in limbs(&modulus, 2048, &mut random) {
            let mut folded = limb.clone();
            Portable.fold(&modulus, imaginary, &mut folded);
            let mut unfolded = folded.clone();
            Portable.unfold(&modulus, imaginary, &mut unfolded);
            assert_eq!(unfolded, limb);
            for kernels in vector_kernels() {
                let mut other = limb.clone();
                kernels.fold(&modulus, imaginary, &mut other);
                assert!(other == folded, "fold {}", kernels.lanes());
                kernels.unfold(&modulus, imaginary, &mut other);
                assert!(other == limb, "unfold {}", kernels.lanes());
            }
        }
    }
}

#[test]
fn pointwise_kernels_agree() {
    type Operation = fn(&dyn Kernels, &Modulus, &mut [u32], &[u32], &[u32], Shoup);
    let operations: [(&str, Operation); 9] = [
        ("add", |k, m, out, a, _, _| k.add_assign(m, out, a)),
        ("sub", |k, m, out, a, _, _| k.sub_assign(m, out, a)),
        ("neg", |k, m, out, _, _, _| k.neg_assign(m, out)),
        ("scale", |k, m, out, _, _, w| k.scale_assign(m, out, w)),
        ("add_scaled", |k, m, out, a, _, w| k.add_scaled_assign(m, out, a, w)),
        ("add_word", |k, m, out, a, _, _| k.add_word_assign(m, out, a[0])),
        ("sub_scale", |k, m, out, a, _, w| k.sub_scale_assign(m, out, a, w)),
        ("mul", |k, m, out, a, _, _| k.mul_assign(m, out, a)),
        ("mul_add", |k, m, out, a, b, _| k.mul_add_assign(m, out, a, b)),
    ];
    let mut random = Random(6);
    for modulus in extreme_primes(DEGREE) {
        let inputs = limbs(&modulus, DEGREE, &mut random);
        for w in [0, 1, modulus.q - 1, random.below(modulus.q)].map(|w| modulus.shoup(w)) {
            for (out, a) in inputs.iter().flat_map(|out| inputs.iter().map(move |a| (out, a))) {
                for (name, operation) in &operations {
                    let run = |kernels: &dyn Kernels| {
                        let mut out = out.clone();
                        operation(kernels, &modulus, &mut out, a, &inputs[2], w);
                        out
                    };
                    let expected = run(&Portable);
                    assert!(expected.iter().all(|&x| x < modulus.q), "{name}");
                    vector_kernels().for_each(|k| assert!(run(k) == expected, "{} {name}", k.lanes()));
                }
            }
        }
    }
}

#[test]
fn tensors_agree() {
    let mut random = Random(7);
    for modulus in extreme_primes(DEGREE) {
        let inputs = limbs(&modulus, DEGREE, &mut random);
        for (x, y) in inputs.iter().flat_map(|x| inputs.iter().map(move |y| (x, y))) {
            let run = |kernels: &dyn Kernels| {
                let mut out = [(); 3].map(|()| vec![u32::MAX; DEGREE]);
                kernels.tensor(&modulus, [x, y], [y, &inputs[2]], out.each_mut().map(Vec::as_mut_slice));
                out
            };
            let expected = run(&Portable);
            vector_kernels().for_each(|k| assert!(run(k) == expected, "{}", k.lanes()));
        }
    }
}

#[test]
fn permutations_agree() {
    let mut random = Random(8);
    for (degree, kind) in [512usize, 4096].into_iter().flat_map(|degree| KINDS.map(|kind| (degree, kind))) {
        let order = u64::from(kind.prime_step(degree));
        let source = random.limb(u32::MAX, degree);
        let rotations = (0..40).map(|k| crate::modular::Modulus::new(65537).pow(5, k).into()).map(|g: u64| g % order);
        let conjugation = (kind == RingKind::Standard).then_some(order - 1);
        for galois in rotations.chain(conjugation) {
            let permutation = Permutation::new(degree, kind, galois | 1);
            let run = |kernels: &dyn Kernels| {
                let mut target = vec![0; degree];
                kernels.permute(&permutation, &source, &mut target);
                target
            };
            let expected = run(&Portable);
            vector_kernels().for_each(|k| assert!(run(k) == expected, "{} {galois}", k.lanes()));
        }
    }
}

/// `count` limbs below `bound`: random, or all maximal.
fn sources(count: usize, bound: u32, maximal: bool, random: &mut Random) -> Vec<Vec<u32>> {
    let limb = |_| if maximal { vec![bound - 1; DEGREE] } else { random.limb(bound, DEGREE) };
    (0..count).map(limb).collect()
}

fn slices(limbs: &[Vec<u32>]) -> Vec<&[u32]> {
    limbs.iter().map(Vec::as_slice).collect()
}

#[test]
fn conversions_agree() {
    let mut random = Random(9);
    let step = RingKind::Standard.prime_step(DEGREE);
    let mut primes: Vec<_> = primes_descending(1 << 29, PRIME_LIMIT, step).take(6).collect();
    primes.push(extreme_primes(DEGREE)[1].q);
    for count in [1, 2, 3, 4, 5, 6, LAZY_TERMS, LAZY_TERMS + 1, 2 * LAZY_TERMS + 1] {
        for (maximal, targets) in [(false, 1), (true, 1), (true, 2), (false, 3), (true, 4), (true, 7), (false, 7)] {
            let sources = sources(count, primes[0], maximal, &mut random);
            let target = |&q: &u32| {
                let factors = if maximal { vec![q - 1; count] } else { random.limb(q, count) };
                ConversionTarget { modulus: Modulus::new(q), offset: q / 3, factors }
            };
            let targets: Vec<_> = primes[..targets].iter().map(target).collect();
            let run = |kernels: &dyn Kernels| {
                let mut outputs = vec![vec![u32::MAX; DEGREE]; targets.len()];
                let mut views: Vec<_> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
                kernels.convert(&slices(&sources), &targets, &mut views);
                outputs
            };
            let expected = run(&Portable);
            vector_kernels().for_each(|k| assert!(run(k) == expected, "{} {count} {}", k.lanes(), targets.len()));
        }
    }
}

#[test]
fn quotients_agree() {
    let mut random = Random(10);
    for (bound, shift) in [(PRIME_LIMIT, 59), (PRIME_LIMIT, 45), (1 << 20, 30), (1 << 10, 20)] {
        for count in [1, 3, 18] {
            for maximal in [false, true] {
                let sources = sources(count, bound, maximal, &mut random);
                let most = (((1u64 << shift) - 1) / u64::from(bound)).min(u64::from(u32::MAX)) as u32;
                let reciprocals = if maximal { vec![most; count] } else { random.limb(most, count) };
                let run = |kernels: &dyn Kernels| {
                    let mut out = vec![u32::MAX; DEGREE];
                    kernels.quotient(&slices(&sources), &reciprocals, shift, &mut out);
                    out
                };
                let expected = run(&Portable);
                vector_kernels().for_each(|k| assert!(run(k) == expected, "{} {count} {shift}", k.lanes()));
            }
        }
    }
}

#[test]
fn inner_products_agree() {
    let mut random = Random(11);
    assert!(DEGREE.is_multiple_of(KEY_BLOCK));
    for modulus in extreme_primes(DEGREE) {
        for count in [1, 5, LAZY_TERMS, LAZY_TERMS + 1, 2 * LAZY_TERMS + 3] {
            for maximal in [false, true] {
                let digits = sources(count, modulus.q, maximal, &mut random);
                let key: Vec<_> = digits.iter().map(|d| [&d[..], &digits[0]].concat()).collect();
                let run = |kernels: &dyn Kernels| {
                    let mut out = [(); 2].map(|()| vec![u32::MAX; DEGREE]);
                    let views = out.each_mut().map(Vec::as_mut_slice);
                    kernels.inner_product(&modulus, &slices(&digits), &slices(&key), views);
                    out
                };
                let expected = run(&Portable);
                vector_kernels().for_each(|k| assert!(run(k) == expected, "{} {count}", k.lanes()));
            }
        }
    }
}

#[test]
fn dot_products_agree() {
    let mut random = Random(13);
    for modulus in extreme_primes(DEGREE) {
        for count in [0, 1, 8, LAZY_TERMS, LAZY_TERMS + 1, 2 * LAZY_TERMS + 3] {
            for maximal in [false, true] {
                let a = sources(count, modulus.q, maximal, &mut random);
                let b = sources(count, modulus.q, maximal, &mut random);
                let run = |kernels: &dyn Kernels| {
                    let mut out = vec![u32::MAX; DEGREE];
                    kernels.dot(&modulus, &slices(&a), &slices(&b), &mut out, false);
                    let once = out.clone();
                    kernels.dot(&modulus, &slices(&a), &slices(&b), &mut out, true);
                    assert!(out.iter().zip(&once).all(|(&twice, &once)| twice == modulus.add(once, once)));
                    once
                };
                let expected = run(&Portable);
                for (x, &found) in expected.iter().enumerate() {
                    let terms = a.iter().zip(&b).map(|(a, b)| modulus.from_montgomery(modulus.mul(a[x], b[x])));
                    assert_eq!(found, terms.fold(0, |sum, term| modulus.add(sum, term)));
                }
                vector_kernels().for_each(|k| assert!(run(k) == expected, "{} {count}", k.lanes()));
                for length in [16, 64, DEGREE] {
                    let few: Vec<Vec<u32>> = a.iter().map(|a| a[..DEGREE / length].to_vec()).collect();
                    let repeat = |few: &Vec<u32>| few.iter().flat_map(|&x| vec![x; length]).collect();
                    let all: Vec<Vec<u32>> = few.iter().map(repeat).collect();
                    let mut expected = vec![u32::MAX; DEGREE];
                    Portable.dot(&modulus, &slices(&all), &slices(&b), &mut expected, false);
                    let check = |kernels: &dyn Kernels| {
                        let mut out = vec![u32::MAX; DEGREE];
                        kernels.dot_runs(&modulus, &slices(&few), length, &slices(&b), &mut out, false);
                        assert!(out == expected, "{} {count} {length}", kernels.lanes());
                        kernels.dot_runs(&modulus, &slices(&few), length, &slices(&b), &mut out, true);
                        assert!(out.iter().zip(&expected).all(|(&twice, &once)| twice == modulus.add(once, once)));
                    };
                    check(&Portable);
                    vector_kernels().for_each(check);
                }
            }
        }
    }
}

#[test]
fn matrix_products_agree() {
    let mut random = Random(12);
    for modulus in extreme_primes(DEGREE) {
        for (rows, columns) in [(1, 1), (3, 8), (4, 9), (5, 16), (9, 100), (2, 1), (4, 0)] {
            for maximal in [false, true] {
                let q = modulus.q;
                let entries = if maximal { vec![q - 1; rows * columns] } else { random.limb(q, rows * columns) };
                let matrix = PackedMatrix::new(rows, columns, |r, c| entries[r * columns + c]);
                let inputs = sources(columns, q, maximal, &mut random);
                let run = |kernels: &dyn Kernels| {
                    let mut outputs = vec![vec![u32::MAX; DEGREE]; rows];
                    let mut views: Vec<_> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
                    kernels.matrix_product(&modulus, &matrix, &slices(&inputs), &mut views);
                    outputs
                };
                let expected = run(&Portable);
                assert!(expected.iter().flatten().all(|&x| x < q));
                vector_kernels().for_each(|k| assert!(run(k) == expected, "{} {rows} {columns}", k.lanes()));
            }
        }
    }
}

/// Not a test: prints the running times of the kernels.
/// `cargo test -p unspoken-ring --release -- --ignored timings --nocapture`
#[test]
#[ignore = "prints timings"]
fn timings() {
    for kernels in Backend::ALL.into_iter().filter_map(Backend::kernels) {
        println!("{} lanes", kernels.lanes());
        (11..=17).for_each(|bits| time_transforms(kernels, 1 << bits));
        time_sums(kernels, 1 << 16);
        time_matrix(kernels, 1 << 16);
    }
}

/// The median and the least microseconds of several runs.
fn microseconds(runs: usize, mut run: impl FnMut()) -> String {
    let mut time = |_| {
        let start = std::time::Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e6
    };
    let mut times: Vec<f64> = (0..runs).map(&mut time).collect();
    times.sort_by(f64::total_cmp);
    format!("{:8.1} us (least {:.1})", times[runs / 2], times[0])
}

/// Limbs in memory with the alignment and the spacing of a polynomial's limbs.
fn aligned(count: usize, degree: usize, bound: u32, random: &mut Random) -> (AlignedWords, usize) {
    let stride = degree + 64;
    let mut words = AlignedWords::zeroed((count * stride).max(1 << 20));
    words.iter_mut().for_each(|word| *word = random.below(bound));
    (words, stride)
}

fn time_transforms(kernels: &dyn Kernels, degree: usize) {
    let mut random = Random(1);
    let modulus = extreme_primes(degree)[0];
    let table = NttTable::new(modulus, degree, RingKind::Standard, kernels.lanes());
    let scale = modulus.shoup(table.degree_inverse);
    let runs = (1 << 23) / degree;
    let (mut words, stride) = aligned(5, degree, modulus.q, &mut random);
    let mut limbs: Vec<_> = words.chunks_exact_mut(stride).take(5).map(|limb| &mut limb[..degree]).collect();
    println!(
        "  forward 2^{:<2} {}",
        degree.ilog2(),
        microseconds(runs, || kernels.ntt_forward(&table, &mut limbs[..1]))
    );
    println!("     five      {}", microseconds(runs / 4, || kernels.ntt_forward(&table, &mut limbs)));
    println!("  inverse      {}", microseconds(runs, || kernels.ntt_inverse(&table, limbs[0], scale)));
    let [source, target, ..] = &mut limbs[..] else { unreachable!() };
    println!("     from      {}", microseconds(runs, || kernels.ntt_inverse_from(&table, source, target, scale)));
    let imaginary = modulus.shoup(table.imaginary);
    println!(
        "  fold, unfold {}",
        microseconds(runs, || {
            kernels.fold(&modulus, imaginary, limbs[0]);
            kernels.unfold(&modulus, imaginary, limbs[0]);
        })
    );
}

fn time_sums(kernels: &dyn Kernels, degree: usize) {
    let mut random = Random(2);
    let step = RingKind::Standard.prime_step(degree);
    let moduli: Vec<_> = primes_descending(1 << 29, PRIME_LIMIT, step).take(4).map(Modulus::new).collect();
    let (words, stride) = aligned(10, degree, moduli[3].q, &mut random);
    let limbs: Vec<_> = words.chunks_exact(stride).take(10).map(|limb| &limb[..degree]).collect();
    let (mut outputs, _) = aligned(4, degree, 1, &mut random);
    let mut outputs: Vec<_> = outputs.chunks_exact_mut(stride).take(4).map(|limb| &mut limb[..degree]).collect();
    let target = |&modulus: &Modulus| ConversionTarget { modulus, offset: 0, factors: random.limb(modulus.q, 10) };
    let targets: Vec<_> = moduli.iter().map(target).collect();
    println!("  convert 10 to 4      {}", microseconds(60, || kernels.convert(&limbs, &targets, &mut outputs)));
    let reciprocals = moduli[0].q >> 1;
    println!(
        "  quotient of 10       {}",
        microseconds(60, || {
            kernels.quotient(&limbs, &[reciprocals; 10], 60, outputs[0]);
        })
    );
    let (key, _) = aligned(10, degree, moduli[3].q, &mut random);
    let key: Vec<_> = key.chunks_exact(2 * degree).take(5).collect();
    let [out0, out1, out2, ..] = &mut outputs[..] else { unreachable!() };
    println!(
        "  inner product of 5   {}",
        microseconds(60, || {
            kernels.inner_product(&moduli[0], &limbs[..5], &key, [out0, out1]);
        })
    );
    println!(
        "  tensor               {}",
        microseconds(60, || {
            kernels.tensor(&moduli[0], [limbs[0], limbs[1]], [limbs[2], limbs[3]], [out0, out1, out2]);
        })
    );
    println!(
        "  multiply and add     {}",
        microseconds(60, || {
            kernels.mul_add_assign(&moduli[0], out0, limbs[0], limbs[1]);
        })
    );
    println!(
        "  subtract and scale   {}",
        microseconds(60, || {
            kernels.sub_scale_assign(&moduli[0], out0, limbs[0], moduli[0].shoup(3));
        })
    );
    let permutation = Permutation::new(degree, RingKind::Standard, 5);
    println!("  permute              {}", microseconds(60, || kernels.permute(&permutation, limbs[0], out0)));
}

fn time_matrix(kernels: &dyn Kernels, degree: usize) {
    let (rows, columns) = (64, 256);
    let mut random = Random(3);
    let modulus = extreme_primes(degree)[0];
    let entries = random.limb(modulus.q, rows * columns);
    let matrix = PackedMatrix::new(rows, columns, |row, column| entries[row * columns + column]);
    let (inputs, stride) = aligned(columns, degree, modulus.q, &mut random);
    let inputs: Vec<_> = inputs.chunks_exact(stride).take(columns).map(|limb| &limb[..degree]).collect();
    let (mut outputs, _) = aligned(rows, degree, 1, &mut random);
    let mut outputs: Vec<_> = outputs.chunks_exact_mut(stride).take(rows).map(|limb| &mut limb[..degree]).collect();
    let runs = if kernels.lanes() == 1 { 1 } else { 7 };
    let mut least = f64::INFINITY;
    let times = microseconds(runs, || {
        let start = std::time::Instant::now();
        kernels.matrix_product(&modulus, &matrix, &inputs, &mut outputs);
        least = least.min(start.elapsed().as_secs_f64());
    });
    let rate = (rows * columns * degree) as f64 / least / 1e9;
    println!("  matrix 64 x 256      {times}: {rate:.2} GMAC/s at best");
}

#[test]
fn sampling_kernels_agree() {
    let mut random = Random(31);
    for modulus in extreme_primes(DEGREE) {
        let q = modulus.q;
        let any = [0, 1, i32::MAX as u32, 1 << 31, u32::MAX, q, q.wrapping_neg()];
        let signed = |words: Vec<u32>| words.into_iter().map(u32::cast_signed).collect::<Vec<i32>>();
        let lists = [signed(random.pick(any, DEGREE)), signed(random.limb(u32::MAX, DEGREE))];
        let lows = [random.pick(any, DEGREE), random.limb(u32::MAX, DEGREE)];
        for w in [1, modulus.r, q - 1].map(|w| modulus.shoup(w)) {
            for (list, low) in lists.iter().zip(&lows) {
                let run = |kernels: &dyn Kernels| {
                    let (mut narrow, mut wide, mut product) =
                        (vec![7; DEGREE], vec![7; DEGREE], lists_as_residues(&modulus, low));
                    kernels.embed(&modulus, &mut narrow, list, w);
                    kernels.embed_wide(&modulus, &mut wide, low, list, w);
                    kernels.mul_sub_assign(&modulus, &mut product, &narrow, &wide);
                    (narrow, wide, product)
                };
                let expected = run(&Portable);
                for (i, &c) in list.iter().enumerate() {
                    let reduced = |c: i64| modulus.mul(c.rem_euclid(i64::from(q)) as u32, w.value);
                    assert_eq!(expected.0[i], reduced(i64::from(c)));
                    assert_eq!(expected.1[i], reduced(i64::from(c) << 32 | i64::from(low[i])));
                }
                assert!(vector_kernels().all(|kernels| run(kernels) == expected));
            }
        }
        let mask = u32::MAX >> q.leading_zeros();
        for (words, room, filled) in [(1000, 2048, 0), (1000, 600, 3), (37, 50, 45), (5, 512, 9), (64, 4, 4)] {
            let words = random.limb(u32::MAX, words);
            let run = |kernels: &dyn Kernels| {
                let mut out = vec![0; room];
                let filled = kernels.select_below(&words, mask, q, &mut out, filled);
                out.truncate(filled);
                out
            };
            let expected = run(&Portable);
            let kept = words.iter().map(|word| word & mask).filter(|word| *word < q);
            assert_eq!(expected[filled.min(room)..], kept.take(room - filled).collect::<Vec<_>>());
            assert!(vector_kernels().all(|kernels| run(kernels) == expected));
        }
    }
    let draws: Vec<u64> =
        (0..1003).map(|_| u64::from(random.below(u32::MAX)) << 32 | u64::from(random.below(8))).collect();
    let tails = [(1 << 63) - 1, 1 << 62, 1 << 60, 1 << 31, 3, 0];
    let run = |kernels: &dyn Kernels| {
        let mut samples = vec![0; draws.len()];
        kernels.tail_samples(&draws, &tails, &mut samples);
        samples
    };
    let sample = |draw: &u64| {
        let magnitude = tails.iter().filter(|tail| draw >> 1 < **tail).count() as i32;
        if draw & 1 == 1 { -magnitude } else { magnitude }
    };
    assert_eq!(run(&Portable), draws.iter().map(sample).collect::<Vec<_>>());
    assert!(vector_kernels().all(|kernels| run(kernels) == run(&Portable)));
}

fn lists_as_residues(modulus: &Modulus, words: &[u32]) -> Vec<u32> {
    words.iter().map(|&word| modulus.from_u32(word)).collect()
}

#[test]
fn signed_digits_agree() {
    let mut random = Random(21);
    let moduli: Vec<Modulus> = primes_descending(1 << 25, 1 << 27, 1024).take(2).map(Modulus::new).collect();
    let literal = |chain: usize| crate::RingLiteral {
        degree: DEGREE,
        kind: RingKind::Standard,
        chain: moduli[..chain].iter().map(|modulus| modulus.q).collect(),
        terminal: vec![],
        special: vec![],
        digit_len: 1,
    };
    for (chain, log2_base, levels) in [(1, 6, 4), (2, 11, 4), (2, 9, 6), (2, 27, 1)] {
        let ring = crate::Ring::new(literal(chain), Backend::Portable).unwrap();
        let table = ring.digit_table(ring.digit_gadget(chain, log2_base, levels).unwrap());
        for which in 0..4 {
            let residues: Vec<Vec<u32>> =
                moduli[..chain].iter().map(|modulus| limbs(modulus, DEGREE, &mut random).swap_remove(which)).collect();
            let run = |kernels: &dyn Kernels| {
                let mut outputs = vec![vec![u32::MAX; DEGREE]; chain * levels];
                let mut views: Vec<_> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
                kernels.signed_digits(&slices(&residues), &table, &moduli[..chain], &mut views);
                outputs
            };
            let expected = run(&Portable);
            vector_kernels().for_each(|k| assert!(run(k) == expected, "{}", k.lanes()));
        }
    }
}

#[test]
fn rotation_differences_agree() {
    for modulus in extreme_primes(2048) {
        let root = crate::modular::primitive_root_of_unity(&modulus, 4096);
        let powers: Vec<u32> = (0..4096).map(|exponent| modulus.to_montgomery(modulus.pow(root, exponent))).collect();
        for exponent in [0, 1, 2, 1023, 2048, 2049, 4095] {
            let run = |kernels: &dyn Kernels| {
                let mut out = vec![u32::MAX; 2048];
                kernels.rotation_difference(&modulus, &powers, exponent, &mut out);
                out
            };
            let expected = run(&Portable);
            vector_kernels().for_each(|k| assert!(run(k) == expected, "{} {exponent}", k.lanes()));
        }
    }
}
