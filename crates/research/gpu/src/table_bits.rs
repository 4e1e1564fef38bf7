//! Operations of private retrieval: sums over tables, and operations on many polynomials, over two primes.

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{
    Backend, Basis, ByteChanges, Device, DeviceCopy, Difference, DigitTerm, OrbitShape, Poly, Ring, RingError,
    RingKind, RingLiteral, Seed, Stored, TableShape,
};

use crate::bits::{Work, compare};
use crate::report::Report;

/// Polynomials that operations are of.
const OPERANDS: u32 = 9;

/// A ring of this degree with two primes of `bits` bits.
fn ring(log_degree: u32, bits: u32) -> Result<Ring, RingError> {
    let (degree, kind) = (1 << log_degree, RingKind::Standard);
    let chain = primes_descending(1 << (bits - 1), 1 << bits, kind.prime_step(degree)).take(2).collect();
    let literal = RingLiteral { degree, kind, chain, terminal: vec![], special: vec![], digit_len: 1 };
    Ring::new(literal, Backend::detect())
}

/// The operands of [`OPERATIONS`].
fn operands(ring: &Ring) -> Vec<Poly> {
    (0..OPERANDS).map(|stream| ring.uniform(&Seed([6; 32]), stream, Basis::chain(2))).collect()
}

/// Words without a pattern.
fn noise(count: usize, seed: u32) -> impl Iterator<Item = u32> {
    (0..count as u32).map(move |i| {
        let mixed = (i ^ seed.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0x9E37_79B1);
        (mixed ^ mixed >> 15).wrapping_mul(0xC2B2_AE35)
    })
}

/// Words that are residues of both primes.
fn residues(ring: &Ring, count: usize) -> Vec<u32> {
    let least = ring.chain().iter().min().copied().unwrap_or(1);
    noise(count, 3).map(|word| word % least).collect()
}

/// The operations.
const OPERATIONS: &[(&str, Work)] = &[
    ("sums over a table", |ring, p| {
        let (shape, copy) = (TableShape { rows: 13, columns: 70, chain: 2 }, DeviceCopy::default());
        let words = residues(ring, ring.table_words(shape));
        let factors: Vec<[&Poly; 2]> = (0..13).map(|row| [&p[row % 9], &p[(row + 4) % 9]]).collect();
        let factors = ring.table_factors(2, &factors)?;
        let all = ring.table_sums(shape, Stored::new(&words, &copy), 0..70, &factors)?;
        let some = ring.table_sums(shape, Stored::new(&words, &copy), 66..69, &factors)?;
        Ok(all.into_iter().chain(some).flatten().collect())
    }),
    ("sums over bytes", |ring, _| {
        let (n, mut sums) = (ring.degree(), Vec::new());
        for (rows, queries, changed) in [(1, 1, 0), (3, 2, 1), (255, 3, 2), (256, 8, 0), (261, 11, 5)] {
            let bytes: Vec<u8> = noise(rows * n, 5).map(|word| (word >> 24) as u8).collect();
            let words: Vec<Vec<u32>> =
                (0..queries).map(|query| noise(rows, 9 + query).map(|word| word >> 4).collect()).collect();
            let mut changes = ByteChanges::new(n / 8 + 1, 3);
            for change in 0..changed {
                let differences: Vec<i16> = noise(n / 8 + 1, change).map(|word| (word >> 16) as i16).collect();
                changes.push(((11 * change) as usize % rows, change as usize % 3), &differences)?;
            }
            let factors = ring.byte_factors(&words.iter().map(Vec::as_slice).collect::<Vec<_>>(), 28)?;
            sums.extend(ring.byte_sums(Stored::new(&bytes, &DeviceCopy::default()), &factors, &changes)?);
        }
        Ok(sums)
    }),
    ("sums over orbits", |ring, p| {
        let mut sums = Vec::new();
        for (factors, queries) in [(7, 2), (ring.degree() / 2 - 1, 5)] {
            let (shape, copy) = (OrbitShape { factors, chain: 2 }, DeviceCopy::default());
            let words = residues(ring, 2 * ring.orbit_words(shape));
            let keys = |first: usize| -> Result<Vec<_>, RingError> {
                (first..first + queries).map(|i| ring.orbit_table(&p[i % 9])).collect()
            };
            let keys = [keys(0)?, keys(3)?];
            sums.extend(ring.orbit_sums(shape, Stored::new(&words, &copy), &[&keys[0], &keys[1]])?);
        }
        Ok(sums)
    }),
    ("products of many digits", |ring, p| {
        let mut products = Vec::new();
        for (components, levels) in [(1, 5), (2, 2)] {
            let gadget = ring.digit_gadget(2, 9, levels)?;
            let rows = [[&p[0], &p[1]], [&p[1], &p[0]]].repeat(components * levels);
            let key = ring.digit_key(gadget, &rows[..components * levels])?;
            let operand = |i: usize| Difference {
                plus: (i % 3 < 2).then_some(&p[i % 9]),
                minus: (i % 3 != 1).then_some(&p[(i + 4) % 9]),
            };
            let term = |i: usize| DigitTerm {
                operands: (i..i + components).map(operand).collect(),
                key: &key,
                plus: [
                    i.is_multiple_of(2).then_some(&p[(i + 2) % 9]),
                    (!i.is_multiple_of(3)).then_some(&p[(i + 7) % 9]),
                ],
                galois: [1, 5, 2 * ring.degree() as u64 - 1][i % 3],
            };
            products.extend(ring.digit_products(&(0..11).map(term).collect::<Vec<_>>())?.into_iter().flatten());
        }
        Ok(products)
    }),
    ("operations on many polynomials", |ring, p| {
        let others: Vec<&Poly> = p[4..8].iter().collect();
        let mut sums = p[..4].to_vec();
        ring.add_each(&mut sums, &p[4..8])?;
        ring.add_multiples(&mut sums, &p[8], &others)?;
        let (mut a, mut b) = (sums.clone(), p[1..5].to_vec());
        ring.split_each(&mut a, &mut b, &p[8])?;
        let products = ring.multiples(&p[8], &others)?;
        Ok([sums, a, b, products].concat())
    }),
];

pub fn run(device: &Device, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let degrees = if quick { 10..=11 } else { 10..=13 };
    for (log_degree, bits) in degrees.flat_map(|log_degree| [(log_degree, 26), (log_degree, 30)]) {
        let host = ring(log_degree, bits)?;
        let there = host.on_device(device)?;
        let both = [&host, &there].map(operands);
        compare(&format!("{bits} bits"), [&host, &there], &both, OPERATIONS, report)?;
    }
    Ok(())
}
