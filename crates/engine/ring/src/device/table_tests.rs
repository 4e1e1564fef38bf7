//! Sums over tables and operations on many polynomials return on a device the bits of those on the processor.

use unspoken_device::DeviceCopy;

use super::tests::Pair;
use crate::basis::Basis;
use crate::batch::{Difference, DigitTerm};
use crate::byte_table::ByteChanges;
use crate::error::RingError;
use crate::kind::RingKind;
use crate::literal::RingLiteral;
use crate::modular::primes_descending;
use crate::orbit::OrbitShape;
use crate::poly::Poly;
use crate::ring::Ring;
use crate::stored::Stored;
use crate::table::TableShape;

/// Rings of several degrees with two primes, of several numbers of bits.
fn pairs() -> impl Iterator<Item = Pair> {
    let device = unspoken_device_shim::device(1 << 30);
    [(512, 26), (1024, 30), (2048, 26), (4096, 30)].into_iter().map(move |(degree, bits)| {
        let chain = primes_descending(1 << (bits - 1), 1 << bits, 2 * degree as u32).take(2).collect();
        let kind = RingKind::Standard;
        Pair::new(RingLiteral { degree, kind, chain, terminal: vec![], special: vec![], digit_len: 1 }, &device)
    })
}

/// Words without a pattern.
fn noise(count: usize, seed: u32) -> impl Iterator<Item = u32> {
    (0..count as u32).map(move |i| {
        let mixed = (i ^ seed.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0x9E37_79B1);
        (mixed ^ mixed >> 15).wrapping_mul(0xC2B2_AE35)
    })
}

/// Residues below the primes of a list of blocks of limbs.
fn residues(ring: &Ring, blocks: usize, each: usize, seed: u32) -> Vec<u32> {
    let primes: Vec<u32> = ring.chain().iter().flat_map(|&q| std::iter::repeat_n(q, each)).collect();
    let primes = std::iter::repeat_n(primes, blocks).flatten();
    noise(blocks * each * ring.chain().len(), seed).zip(primes).map(|(word, q)| word % q).collect()
}

/// Compares two lists of results, and that nothing was fetched to compute them.
fn compare(pair: &Pair, what: &str, work: impl Fn(&Ring) -> Vec<Poly>) {
    let before = pair.device.fetched_polynomials();
    let [host, device] = [work(&pair.host), work(&pair.device)];
    assert_eq!(pair.device.fetched_polynomials(), before, "{what}: everything stays on the device");
    assert_eq!(host.len(), device.len(), "{what}");
    host.iter().zip(device).for_each(|(host, device)| pair.equal(what, host, device));
}

#[test]
fn sums_over_tables_have_the_same_bits() {
    for pair in pairs() {
        for (rows, columns, chosen) in [(1, 1, 0..1), (35, 3, 1..3), (12, 70, 0..70), (13, 70, 66..70), (5, 2, 1..1)] {
            let shape = TableShape { rows, columns, chain: 2 };
            let words = residues(&pair.host, 1, pair.host.table_words(shape) / 2, 3);
            let copy = DeviceCopy::default();
            let factors: Vec<[Poly; 2]> = (0..2 * rows).map(|_| pair.uniform(Basis::chain(2))).collect();
            compare(&pair, "sum over a table", |ring| {
                let which = usize::from(ring.device().is_some());
                let factors: Vec<[&Poly; 2]> = factors.chunks(2).map(|two| [&two[0][which], &two[1][which]]).collect();
                let factors = ring.table_factors(2, &factors).unwrap();
                let sums = ring.table_sums(shape, Stored::new(&words, &copy), chosen.clone(), &factors).unwrap();
                sums.into_iter().flatten().collect()
            });
        }
    }
}

#[test]
fn sums_over_bytes_have_the_same_bits() {
    for pair in pairs() {
        let n = pair.host.degree();
        for (rows, queries, changed) in
            [(1, 1, 0), (3, 2, 1), (255, 3, 2), (256, 8, 0), (261, 11, 5), (700, 17, 1), (0, 2, 0), (9, 0, 0)]
        {
            let bytes: Vec<u8> = noise(rows * n, 5).map(|word| (word >> 24) as u8).collect();
            let words: Vec<Vec<u32>> =
                (0..queries).map(|query| noise(rows, 9 + query).map(|word| word >> 4).collect()).collect();
            let words: Vec<&[u32]> = words.iter().map(Vec::as_slice).collect();
            let mut changes = ByteChanges::new(n / 8 + 1, 3);
            for change in 0..changed {
                let differences: Vec<i16> = noise(n / 8 + 1, change).map(|word| (word >> 16) as i16).collect();
                changes.push(((11 * change) as usize % rows, change as usize % 3), &differences).unwrap();
            }
            let copy = DeviceCopy::default();
            compare(&pair, "sum over bytes", |ring| {
                let factors = ring.byte_factors(&words, 28).unwrap();
                ring.byte_sums(Stored::new(&bytes, &copy), &factors, &changes).unwrap()
            });
        }
        let factors = pair.device.byte_factors(&[&[1, 2]], 32).unwrap();
        let (bytes, copy) = (vec![0; 2 * n], DeviceCopy::default());
        let mut outside = ByteChanges::new(1, 1);
        assert!(outside.push((2, 0), &[]).is_err());
        outside.push((2, 0), &[1]).unwrap();
        let refused = pair.device.byte_sums(Stored::new(&bytes, &copy), &factors, &outside);
        assert!(matches!(refused, Err(RingError::Length { .. })));
        let none = ByteChanges::new(1, 1);
        assert!(pair.device.byte_sums(Stored::new(&bytes[1..], &copy), &factors, &none).is_err());
        assert!(pair.device.byte_factors(&[&[1, 2], &[1]], 32).is_err());
    }
}

#[test]
fn sums_over_orbits_have_the_same_bits() {
    for pair in pairs() {
        let n = pair.host.degree();
        for (factors, lists, queries) in [(1, 1, 1), (7, 2, 2), (n / 2 - 1, 2, 3), (n / 2, 1, 5), (n / 2, 3, 0)] {
            let shape = OrbitShape { factors, chain: 2 };
            let words = residues(&pair.host, lists, pair.host.orbit_words(shape) / 2, 7);
            let copy = DeviceCopy::default();
            let keys: Vec<[Poly; 2]> = (0..lists * queries).map(|_| pair.uniform(Basis::chain(2))).collect();
            compare(&pair, "sum over an orbit", |ring| {
                let which = usize::from(ring.device().is_some());
                let keys: Vec<_> = keys.iter().map(|key| ring.orbit_table(&key[which]).unwrap()).collect();
                let keys: Vec<_> = (0..lists).map(|list| &keys[list * queries..(list + 1) * queries]).collect();
                ring.orbit_sums(shape, Stored::new(&words, &copy), &keys).unwrap()
            });
        }
    }
}

#[test]
fn products_of_many_digits_have_the_same_bits() {
    for pair in pairs() {
        let basis = Basis::chain(2);
        let polys: Vec<[Poly; 2]> = (0..9).map(|_| pair.uniform(basis)).collect();
        for (components, levels) in [(1, 5), (2, 2)] {
            compare(&pair, "products of many digits", |ring| {
                let p: Vec<&Poly> = polys.iter().map(|pair| &pair[usize::from(ring.device().is_some())]).collect();
                // Rows that only the device has, too.
                let sums = [ring.add(p[0], p[1]).unwrap(), ring.add(p[2], p[3]).unwrap()];
                let gadget = ring.digit_gadget(2, 9, levels).unwrap();
                let keys = [[p[0], p[1]], [&sums[0], &sums[1]]].map(|[a, b]| {
                    let rows = [[a, b], [b, a]].repeat(components * levels);
                    ring.digit_key(gadget, &rows[..components * levels]).unwrap()
                });
                let operand = |i: usize| match i % 3 {
                    0 => Difference { plus: Some(p[i % 9]), minus: Some(p[(i + 4) % 9]) },
                    1 => Difference { plus: Some(p[i % 9]), minus: None },
                    _ => Difference { plus: None, minus: Some(p[i % 9]) },
                };
                let term = |i: usize| DigitTerm {
                    operands: (i..i + components).map(operand).collect(),
                    key: &keys[i % 2],
                    plus: [
                        i.is_multiple_of(2).then_some(p[(i + 2) % 9]),
                        (!i.is_multiple_of(3)).then_some(p[(i + 7) % 9]),
                    ],
                    galois: [1, 5, 2 * ring.degree() as u64 - 1][i % 3],
                };
                let terms: Vec<DigitTerm<'_>> = (0..11).map(term).collect();
                assert!(ring.digit_products(&[]).unwrap().is_empty());
                let short = DigitTerm { operands: Vec::new(), ..terms[0].clone() };
                assert!(ring.digit_products(&[short]).is_err());
                ring.digit_products(&terms).unwrap().into_iter().flatten().collect()
            });
        }
    }
}

#[test]
fn operations_on_many_polynomials_have_the_same_bits() {
    for pair in pairs() {
        let polys: Vec<[Poly; 2]> = (0..9).map(|_| pair.uniform(Basis::chain(2))).collect();
        compare(&pair, "operations on many polynomials", |ring| {
            let p: Vec<Poly> = polys.iter().map(|pair| pair[usize::from(ring.device().is_some())].clone()).collect();
            let others: Vec<&Poly> = p[4..8].iter().collect();
            let mut sums = p[..4].to_vec();
            ring.add_each(&mut sums, &p[4..8]).unwrap();
            ring.add_multiples(&mut sums, &p[8], &others).unwrap();
            // Both have the same memory at first.
            let (mut a, mut b) = (sums.clone(), sums.clone());
            ring.split_each(&mut a, &mut b, &p[8]).unwrap();
            ring.split_each(&mut b[..2], &mut sums[..2], &p[0]).unwrap();
            assert!(ring.add_each(&mut sums, &p[..3]).is_err());
            let mut products = ring.multiples(&p[8], &others).unwrap();
            for more in [sums, a, b] {
                products.extend(more);
            }
            products
        });
    }
}
