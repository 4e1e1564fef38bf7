//! A ring on a device returns the bits of one on the processor. The kernels run on the processor, too.

use unspoken_device::{Device, DeviceError};

use crate::backend::Backend;
use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::gadget_key::KeyRows;
use crate::hoisted::{Image, ImageInput, ImageSum};
use crate::kind::RingKind;
use crate::literal::RingLiteral;
use crate::modular::primes_descending;
use crate::poly::Poly;
use crate::ring::Ring;
use crate::sampling::Seed;

/// Rings of several shapes: degree, kind, primes of the chain, terminal and special ones, and of a digit.
const SHAPES: [(usize, RingKind, [usize; 3], usize); 6] = [
    (512, RingKind::Standard, [3, 0, 2], 1),
    (2048, RingKind::Standard, [7, 2, 5], 4),
    (4096, RingKind::ConjugateInvariant, [5, 1, 4], 3),
    (8192, RingKind::Standard, [6, 0, 4], 3),
    (16384, RingKind::ConjugateInvariant, [4, 2, 3], 3),
    (131_072, RingKind::Standard, [2, 0, 2], 2),
];

fn literal((degree, kind, [chain, terminal, special], digit_len): (usize, RingKind, [usize; 3], usize)) -> RingLiteral {
    let step = kind.prime_step(degree);
    let mut primes = primes_descending(1 << 29, 1 << 30, step);
    let mut take = |count| primes.by_ref().take(count).collect::<Vec<u32>>();
    let (chain, special) = (take(chain), take(special));
    let terminal = primes_descending(1 << 24, 1 << 26, step).take(terminal).collect();
    RingLiteral { degree, kind, chain, terminal, special, digit_len }
}

/// A ring on the processor and the same one on a device.
pub(super) struct Pair {
    pub(super) host: Ring,
    pub(super) device: Ring,
    next: std::cell::Cell<u32>,
}

impl Pair {
    pub(super) fn new(literal: RingLiteral, device: &Device) -> Self {
        let host = Ring::new(literal, Backend::Portable).unwrap();
        let device = host.on_device(device).unwrap();
        Pair { host, device, next: std::cell::Cell::new(0) }
    }

    /// A uniform polynomial in both.
    pub(super) fn uniform(&self, basis: Basis) -> [Poly; 2] {
        self.next.set(self.next.get() + 1);
        let seed = Seed([7; 32]);
        [&self.host, &self.device].map(|ring| ring.uniform(&seed, self.next.get(), basis))
    }

    /// Does the same in both, and compares the results and whether there are any.
    pub(super) fn same<const COUNT: usize>(
        &self,
        what: &str,
        operands: &[[Poly; 2]],
        work: impl Fn(&Ring, &[&Poly]) -> Result<[Poly; COUNT], RingError>,
    ) {
        let of = |which: usize| operands.iter().map(|pair| &pair[which]).collect::<Vec<_>>();
        let (host, device) = (work(&self.host, &of(0)), work(&self.device, &of(1)));
        match (host, device) {
            (Ok(host), Ok(device)) => {
                host.into_iter().zip(device).for_each(|(host, device)| self.equal(what, &host, device))
            }
            (Err(host), Err(device)) => assert_eq!(host, device, "{what}"),
            (host, device) => panic!("{what}: {:?} and {:?}", host.err(), device.err()),
        }
    }

    pub(super) fn equal(&self, what: &str, host: &Poly, mut device: Poly) {
        self.device.fetch(&mut device).unwrap();
        assert_eq!((host.basis, host.domain), (device.basis, device.domain), "{what}");
        for (limb, (host, device)) in host.limbs().zip(device.limbs()).enumerate() {
            let at = host.iter().zip(device).position(|(host, device)| host != device);
            assert_eq!(at, None, "{what}, degree {}: limb {limb} differs from there on", self.host.degree());
        }
    }

    /// All bases, or a few of them in rings of a large degree.
    fn bases(&self) -> Vec<Basis> {
        let (chain, terminal) = (self.host.chain().len(), self.host.terminal().len());
        let plain = [(1, 0), (chain, terminal), (chain - 1, 0), (chain, 0)];
        let plain = plain.map(|(chain, terminal)| Basis::chain(chain).with_terminal(terminal));
        plain.into_iter().flat_map(|basis| [basis, basis.with_special(), basis.with_short_special()]).collect()
    }
}

fn pairs() -> impl Iterator<Item = Pair> {
    let device = unspoken_device_shim::device(1 << 30);
    SHAPES.into_iter().map(move |shape| Pair::new(literal(shape), &device))
}

fn changed(poly: &Poly, change: impl FnOnce(&mut Poly) -> Result<(), RingError>) -> Result<[Poly; 1], RingError> {
    let mut poly = poly.clone();
    change(&mut poly)?;
    Ok([poly])
}

#[test]
fn transforms_have_the_same_bits() {
    for pair in pairs() {
        for basis in pair.bases() {
            let operand = [pair.uniform(basis)];
            pair.same("to coefficients", &operand, |ring, a| changed(a[0], |a| ring.to_coefficients(a)));
            pair.same("there and back", &operand, |ring, a| {
                changed(a[0], |a| ring.to_coefficients(a).and_then(|()| ring.to_evaluation(a)))
            });
        }
    }
}

#[test]
fn element_wise_operations_have_the_same_bits() {
    for pair in pairs() {
        for basis in pair.bases() {
            let wide = Basis { chain: pair.host.chain().len(), terminal: pair.host.terminal().len(), ..basis };
            let two = [pair.uniform(basis), pair.uniform(wide), pair.uniform(wide)];
            pair.same("add", &two, |ring, a| Ok([ring.add(a[0], a[1])?]));
            pair.same("subtract", &two, |ring, a| Ok([ring.sub(a[0], a[1])?]));
            pair.same("multiply", &two, |ring, a| Ok([ring.mul(a[0], a[1])?]));
            pair.same("add in place", &two, |ring, a| changed(a[0], |x| ring.add_assign(x, a[1])));
            pair.same("subtract in place", &two, |ring, a| changed(a[0], |x| ring.sub_assign(x, a[1])));
            pair.same("multiply in place", &two, |ring, a| changed(a[0], |x| ring.mul_assign(x, a[1])));
            pair.same("multiply and add", &two, |ring, a| changed(a[0], |x| ring.mul_add_assign(x, a[1], a[2])));
            pair.same("negate", &two, |ring, a| changed(a[0], |x| ring.neg_assign(x)));
            pair.same("scale", &two, |ring, a| changed(a[0], |x| ring.scale_assign(x, -(1 << 70) + 12345)));
            pair.same("add a constant", &two, |ring, a| changed(a[0], |x| ring.add_constant_assign(x, -(1 << 90) - 7)));
            pair.same("multiply by i", &two, |ring, a| changed(a[0], |x| ring.mul_imaginary_assign(x)));
            pair.same("restrict", &two, |ring, a| Ok([ring.restricted(a[1], basis)?]));
            pair.same("sum of multiples", &two, |ring, a| {
                Ok([ring.sum_of_multiples(&[(a[0], 3), (a[1], -(1 << 65)), (a[2], 0)], basis)?])
            });
            pair.same("tensor", &[two.as_slice(), &[pair.uniform(wide)]].concat_pairs(), |ring, a| {
                ring.tensor([a[0], a[1]], [a[2], a[3]], basis)
            });
        }
    }
}

/// Joins lists of pairs, which cannot be cloned.
trait ConcatPairs {
    fn concat_pairs(&self) -> Vec<[Poly; 2]>;
}

impl ConcatPairs for [&[[Poly; 2]]; 2] {
    fn concat_pairs(&self) -> Vec<[Poly; 2]> {
        self.iter().flat_map(|pairs| pairs.iter().map(|pair| pair.each_ref().map(Clone::clone))).collect()
    }
}

#[test]
fn automorphisms_have_the_same_bits() {
    for pair in pairs() {
        let order = u64::from(pair.host.kind().prime_step(pair.host.degree()));
        for basis in pair.bases() {
            let operand = [pair.uniform(basis)];
            for galois in [1, 5, 25, order - 3, order - 1, 2, order + 1] {
                pair.same("automorphism", &operand, |ring, a| Ok([ring.automorphism(a[0], galois)?]));
            }
            let many: Vec<u64> = std::iter::successors(Some(5u64), |g| Some(g * 5 % order)).take(40).collect();
            for some in [&many[..0], &many[..1], &many[..3], &many] {
                pair.same("sum of automorphisms", &operand, |ring, a| Ok([ring.automorphism_sum(a[0], some)?]));
            }
        }
    }
}

#[test]
fn divisions_and_extensions_have_the_same_bits() {
    for pair in pairs() {
        for from in pair.bases() {
            let operand = [pair.uniform(from)];
            for to in pair.bases() {
                pair.same("rescale", &operand, |ring, a| Ok([ring.rescale_round(a[0], to)?]));
                pair.same("extend", &operand, |ring, a| Ok([ring.extend_basis(a[0], to)?]));
            }
        }
    }
}

#[test]
fn products_with_keys_have_the_same_bits() {
    for pair in pairs() {
        let chain = pair.host.chain().len();
        let order = u64::from(pair.host.kind().prime_step(pair.host.degree()));
        let galois = |i: u32| 5u64.pow(i) % order;
        let digits = pair.host.digit_count(chain);
        let rows: Vec<[[Poly; 2]; 2]> =
            (0..digits).map(|_| [(); 2].map(|()| pair.uniform(pair.host.gadget_key_basis(chain)))).collect();
        let seed = Seed([9; 32]);
        let keys = [(&pair.host, 0), (&pair.device, 1)].map(|(ring, which)| {
            let rows: Vec<[&Poly; 2]> = rows.iter().map(|row| row.each_ref().map(|pair| &pair[which])).collect();
            let whole = ring.gadget_key(chain, &rows).unwrap();
            let mut builder = ring.seeded_gadget_key_builder(chain, KeyRows::EachDigit, seed).unwrap();
            rows.iter().for_each(|[body, _]| builder.push(body).unwrap());
            let seeded = builder.finish().unwrap();
            let short = ring.short_key_basis(chain).map(|_| ring.short_gadget_key(&whole).unwrap());
            (whole, seeded, short)
        });
        let key_of = |ring: &Ring| if ring.device().is_some() { &keys[1] } else { &keys[0] };
        for basis in pair.bases() {
            let operand = [pair.uniform(basis), pair.uniform(basis.without_special())];
            for which in 0..2 {
                pair.same("gadget product", &operand, |ring, a| {
                    let (whole, seeded, short) = key_of(ring);
                    let key = match ring.switching_basis(basis).special {
                        crate::basis::Special::Short => short.as_ref().unwrap_or(whole),
                        _ if which == 0 => whole,
                        _ => seeded,
                    };
                    ring.gadget_product(a[0], key)
                });
            }
            pair.same("hoisted", &operand, |ring, a| {
                let (whole, seeded, short) = key_of(ring);
                let digits = ring.decompose(a[0])?;
                let terms: Vec<_> = match short {
                    Some(short) if ring.switching_basis(basis).special == crate::basis::Special::Short => {
                        (0..3).map(|i| (short, galois(i))).collect()
                    }
                    _ => (0..35).map(|i| (if i % 2 == 0 { whole } else { seeded }, galois(i % 7))).collect(),
                };
                let [first, second] = ring.hoisted_sum(&digits, &terms)?;
                let [third, fourth] = ring.gadget_product_hoisted(&digits, terms[0].0)?;
                Ok([first, second, third, fourth])
            });
            let extended = [pair.uniform(basis.with_special()), pair.uniform(basis.with_special())];
            pair.same("hoisted sum of products", &extended, |ring, a| {
                let which = usize::from(ring.device().is_some());
                let mut builder = ring.gadget_key_builder(chain, KeyRows::One)?;
                builder.push(rows[0].each_ref().map(|pair| &pair[which]))?;
                let (key, factor) = (builder.finish()?, ring.into_subring(a[0].clone(), 1)?);
                let digit = ring.only_digit(a[1].clone())?;
                let input = ImageInput { digits: &digit, added: [a[0], a[1]] };
                let images = [(Some(&key), galois(1)), (Some(&key), 1), (None, 1)];
                let images = images.map(|(key, galois)| Image { input, key, galois });
                let begun = ImageSum { before: Some([0, 1].map(|i: usize| a[i].clone())), terms: vec![(2, &factor)] };
                let sums = vec![vec![(0, &factor), (1, &factor)].into(), begun];
                let mut sums = ring.hoisted_product_sums(&images, sums)?.into_iter().flatten();
                Ok([(); 4].map(|()| sums.next().expect("two rows of two components")))
            });
            pair.same("lift", &operand, |ring, a| Ok([ring.lift_special(a[1])?]));
            pair.same("add lifted", &operand, |ring, a| changed(a[0], |x| ring.add_lifted_assign(x, a[1])));
        }
    }
}

#[test]
fn sums_of_products_have_the_same_bits() {
    for pair in pairs() {
        for basis in pair.bases() {
            let operands: Vec<[Poly; 2]> = (0..8).map(|_| pair.uniform(basis)).collect();
            pair.same("sums of products", &operands, |ring, a| {
                let inputs = [[a[0], a[1]], [a[2], a[3]], [a[4], a[5]]];
                let factor = |i: usize| (i % 3, a[6 + i % 2]);
                let owned: Vec<Vec<(usize, Poly)>> = [0..1, 0..35, 0..0]
                    .map(|range| range.map(factor).map(|(i, poly)| (i, poly.clone())).collect())
                    .into();
                let rows: Vec<&[(usize, Poly)]> = owned.iter().map(Vec::as_slice).collect();
                let sums = ring.product_sums(&inputs, &rows)?;
                let mut sums = sums.into_iter().flatten();
                Ok(std::array::from_fn::<_, 6, _>(|_| sums.next().unwrap()))
            });
        }
    }
}

fn standard_pairs() -> impl Iterator<Item = Pair> {
    pairs().filter(|pair| pair.host.kind() == RingKind::Standard)
}

#[test]
fn matrix_products_have_the_same_bits() {
    let entry = |row: usize, column: usize| (row as i128 - 2) * ((column as i128 * 77) << 33) - 5 * column as i128;
    for pair in pairs() {
        let wide = Basis::chain(pair.host.chain().len()).with_terminal(pair.host.terminal().len()).with_special();
        let matrices = [&pair.host, &pair.device].map(|ring| {
            let real = ring.real_matrix(wide, 5, 13, entry);
            let complex = ring.complex_matrix(wide, 5, 13, |row, column| (entry(row, column), entry(column, row)));
            (real, complex.ok(), ring.real_matrix(wide, 35, 1, entry))
        });
        for basis in pair.bases() {
            let operands: Vec<[Poly; 2]> = (0..13).map(|_| pair.uniform(basis)).collect();
            let of = |ring: &Ring| &matrices[usize::from(ring.device().is_some())];
            pair.same("real matrix", &operands, |ring, a| product_of(ring, &of(ring).0, a));
            if of(&pair.host).1.is_some() {
                pair.same("complex matrix", &operands, |ring, a| product_of(ring, of(ring).1.as_ref().unwrap(), a));
            }
            pair.same("one column", &operands[..1], |ring, a| {
                let mut all = ring.matrix_product(&of(ring).2, a)?;
                let last = all.split_off(34);
                Ok([all.remove(0), last.into_iter().next().unwrap()])
            });
            pair.same("too few inputs", &operands[..3], |ring, a| product_of(ring, &of(ring).0, a));
        }
    }
}

fn product_of(ring: &Ring, matrix: &crate::RingMatrix, inputs: &[&Poly]) -> Result<[Poly; 5], RingError> {
    Ok(ring.matrix_product(matrix, inputs)?.try_into().unwrap())
}

#[test]
fn module_ciphertexts_have_the_same_bits() {
    for pair in standard_pairs() {
        let (n, chain) = (pair.host.degree(), pair.host.chain().len());
        let degrees = [n / 2, n / 8, 16];
        for degree in degrees.into_iter().filter(|degree| n / degree <= 32) {
            let rank = n / degree;
            let operands: Vec<[Poly; 2]> = (0..6).map(|_| pair.uniform(Basis::chain(chain - 1))).collect();
            let work = |ring: &Ring, a: &[&Poly]| -> Result<[Poly; 2], RingError> {
                let coefficients: Vec<Poly> = a
                    .iter()
                    .map(|&poly| {
                        let [poly] = changed(poly, |poly| ring.to_coefficients(poly))?;
                        Ok(poly)
                    })
                    .collect::<Result<_, RingError>>()?;
                let pairs: Vec<[&Poly; 2]> = coefficients.chunks(2).map(|pair| [&pair[0], &pair[1]]).collect();
                let all = ring.chain_module_rows(
                    &ring.module_rows(&pairs[..1], degree)?,
                    &ring.module_rows(&pairs[1..], degree)?,
                )?;
                assert_eq!(all.count(), 3 * rank);
                let chosen: Vec<usize> = (0..7).map(|i| (5 * i + 1) % all.count()).collect();
                let rows = ring.select_module_rows(&all, &chosen)?;
                let matrix = ring.real_matrix(Basis::chain(chain), 6, 7, |row, column| {
                    row as i128 * 3 - (column as i128 * column as i128) + 1
                });
                let rows = ring.module_product(&matrix, &rows)?;
                let (body, masks) = ring.pack_module_rows(&rows, |part| (part % 3 != 2).then_some(part % 6))?;
                assert_eq!(masks.len(), rank);
                // All masks at once: each with a factor of its own.
                let terms: Vec<(&Poly, i128)> = masks.iter().zip(1..).collect();
                Ok([body, ring.sum_of_multiples(&terms, Basis::chain(chain - 1))?])
            };
            pair.same("module ciphertexts", &operands, work);
        }
    }
}

#[test]
fn smaller_rings_have_the_same_bits() {
    for pair in standard_pairs().filter(|pair| pair.host.degree() >= 2048) {
        let n = pair.host.degree();
        let small = RingLiteral {
            degree: n / 4,
            kind: RingKind::Standard,
            chain: pair.host.chain().to_vec(),
            terminal: vec![],
            special: vec![],
            digit_len: 1,
        };
        let small = Ring::new(small, Backend::Portable).unwrap();
        let smalls = [small.clone(), small.on_device(pair.device.device().unwrap()).unwrap()];
        let of = |ring: &Ring| &smalls[usize::from(ring.device().is_some())];
        let operand = [pair.uniform(Basis::chain(2))];
        let fetched = |ring: &Ring| (ring.fetched_polynomials(), of(ring).fetched_polynomials());
        let before = fetched(&pair.device);
        let parts = [(&pair.host, 0), (&pair.device, 1)].map(|(ring, which)| {
            let [poly] = changed(&operand[0][which], |poly| ring.to_coefficients(poly)).unwrap();
            of(ring).split_from(ring, &poly).unwrap()
        });
        let [host, device] = parts.each_ref().map(|parts| parts.iter());
        let merged = [&pair.host, &pair.device].map(|ring| {
            let parts = &parts[usize::from(ring.device().is_some())];
            let turned: Vec<Poly> = parts[1..].iter().chain(&parts[..1]).cloned().collect();
            [ring.merge_from(of(ring), &turned).unwrap(), ring.embed_from(of(ring), &parts[3]).unwrap()]
        });
        assert_eq!(fetched(&pair.device), before, "everything stays on the device");
        let [merged_host, merged_device] = merged;
        merged_host
            .iter()
            .zip(merged_device)
            .for_each(|(host, device)| pair.equal("merged and embedded", host, device));
        for (host, device) in host.zip(device) {
            let mut device = device.clone();
            of(&pair.device).fetch(&mut device).unwrap();
            assert!(host.limbs().eq(device.limbs()), "a part of a polynomial");
        }
    }
}

#[test]
fn signed_digits_have_the_same_bits() {
    for pair in standard_pairs() {
        let order = 2 * pair.host.degree() as u32;
        for (chain, log2_base, levels, components) in [(1, 7, 3, 1), (1, 28, 2, 2), (2, 11, 5, 2), (2, 20, 1, 1)] {
            let basis = Basis::chain(chain);
            let rows: Vec<[[Poly; 2]; 2]> =
                (0..components * levels).map(|_| [(); 2].map(|()| pair.uniform(basis))).collect();
            let keys = [(&pair.host, 0), (&pair.device, 1)].map(|(ring, which)| {
                let rows: Vec<[&Poly; 2]> = rows.iter().map(|row| row.each_ref().map(|pair| &pair[which])).collect();
                ring.digit_key(ring.digit_gadget(chain, log2_base, levels).unwrap(), &rows).unwrap()
            });
            let operands: Vec<[Poly; 2]> = (0..4).map(|_| pair.uniform(basis)).collect();
            pair.same("signed digits", &operands, |ring, a| {
                let key = &keys[usize::from(ring.device().is_some())];
                let cut: Vec<Poly> = a[..components]
                    .iter()
                    .map(|&poly| changed(poly, |poly| ring.to_coefficients(poly)).map(|[poly]| poly))
                    .collect::<Result<_, RingError>>()?;
                let digits = ring.digits(key.gadget(), &cut.iter().collect::<Vec<_>>())?;
                let [first, second] = ring.digit_product(&digits, key)?;
                let mut acc = [a[2].clone(), a[3].clone()];
                let exponents = [1, order - 1, order / 2, 0, order, order / 2 + 77];
                let terms: Vec<_> = exponents.iter().cycle().take(35).map(|&exponent| (exponent, key)).collect();
                ring.add_rotated_differences(&mut acc, &digits, &terms)?;
                let [third, fourth] = acc;
                let value = if components * levels == 1 {
                    ring.digit_value(&digits)?
                } else {
                    assert!(matches!(ring.digit_value(&digits), Err(RingError::Length { .. })));
                    third.clone()
                };
                Ok([first, second, third, fourth, value])
            });
        }
    }
}

#[test]
fn maps_of_coefficients_have_the_same_bits() {
    for pair in pairs() {
        let order = pair.host.kind().prime_step(pair.host.degree());
        for basis in pair.bases() {
            let operand = [pair.uniform(basis)];
            for number in [1, 5, order - 3, order - 1, order / 2 + 1, 2] {
                pair.same("automorphism of coefficients", &operand, |ring, a| {
                    let [poly] = changed(a[0], |poly| ring.to_coefficients(poly))?;
                    Ok([ring.automorphism(&poly, number.into())?])
                });
                pair.same("rotation", &operand, |ring, a| {
                    let [poly] = changed(a[0], |poly| ring.to_coefficients(poly))?;
                    Ok([ring.rotated(&poly, number)?])
                });
            }
        }
    }
}

#[test]
fn devices_have_no_secrets_and_bounded_memory() {
    let host = Ring::new(literal(SHAPES[0]), Backend::Portable).unwrap();
    let shim = unspoken_device_shim::device(1 << 20);
    let device = host.on_device(&shim).unwrap();
    let basis = Basis::chain(3);
    let mut secret = device.zero(basis, Domain::Evaluation);
    secret.mark_secret();
    let public = device.uniform(&Seed([1; 32]), 0, basis);
    assert!(matches!(device.add(&public, &secret), Err(RingError::SecretOnDevice)));
    let mut sum = public.clone();
    assert!(matches!(device.add_assign(&mut sum, &secret), Err(RingError::SecretOnDevice)));
    // What is marked secret later is not used any more.
    let mut sum = device.add(&public, &public).unwrap();
    sum.mark_secret();
    assert!(matches!(device.neg_assign(&mut sum), Err(RingError::SecretOnDevice)));
    let mut all = Vec::new();
    let full = loop {
        match device.add(&public, &public) {
            Ok(poly) => all.push(poly),
            Err(error) => break error,
        }
        assert!(all.len() < 1000);
    };
    assert!(matches!(full, RingError::Device(DeviceError::Memory { .. })), "{full}");
    all.pop();
    assert!(device.add(&public, &public).is_ok());
}
