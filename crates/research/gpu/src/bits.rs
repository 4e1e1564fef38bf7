//! Operations of a ring on the device against those on the processor.

use serde_json::json;
use unspoken_ring::modular::primes_descending;
use unspoken_ring::{
    Backend, Basis, Device, Domain, GadgetKey, Poly, Recording, Ring, RingError, RingKind, RingLiteral, Seed,
};

use crate::report::Report;

/// Primes of the chain, terminal and special ones, and of a digit.
const CHAIN: usize = 9;
const TERMINAL: usize = 2;
const SPECIAL: usize = 5;
const DIGIT: usize = 4;

/// A ring of this degree with primes of 30 bits.
pub fn ring(log_degree: u32, kind: RingKind) -> Result<Ring, RingError> {
    let degree = 1 << log_degree;
    let step = kind.prime_step(degree);
    let mut primes = primes_descending(1 << 29, 1 << 30, step);
    let mut take = |count| primes.by_ref().take(count).collect::<Vec<u32>>();
    let (chain, special) = (take(CHAIN), take(SPECIAL));
    let terminal = primes_descending(1 << 24, 1 << 27, step).take(TERMINAL).collect();
    Ring::new(RingLiteral { degree, kind, chain, terminal, special, digit_len: DIGIT }, Backend::detect())
}

/// The widest basis of such a ring without special primes.
pub fn widest() -> Basis {
    Basis::chain(CHAIN).with_terminal(TERMINAL)
}

/// A key of uniform residues, which nobody has a secret of.
pub fn key(ring: &Ring) -> Result<GadgetKey, RingError> {
    let basis = ring.gadget_key_basis(CHAIN);
    let rows: Vec<[Poly; 2]> = (0..ring.digit_count(CHAIN) as u32)
        .map(|digit| [2 * digit, 2 * digit + 1].map(|stream| ring.uniform(&Seed([3; 32]), stream, basis)))
        .collect();
    ring.gadget_key(CHAIN, &rows.iter().map(|row| row.each_ref()).collect::<Vec<_>>())
}

pub type Work = fn(&Ring, &[Poly]) -> Result<Vec<Poly>, RingError>;

/// The operations. The operands are three polynomials over the widest basis, and one over its special primes, too.
const OPERATIONS: &[(&str, Work)] = &[
    ("to coefficients and back", |ring, p| {
        let mut there = p[0].clone();
        ring.to_coefficients(&mut there)?;
        let mut back = there.clone();
        ring.to_evaluation(&mut back)?;
        Ok(vec![there, back])
    }),
    ("sums and products", |ring, p| {
        let mut sum = ring.add(&p[0], &p[1])?;
        ring.mul_add_assign(&mut sum, &p[1], &p[2])?;
        ring.sub_assign(&mut sum, &p[2])?;
        ring.scale_assign(&mut sum, -(1 << 80) + 3)?;
        ring.add_constant_assign(&mut sum, 1 << 70)?;
        Ok(vec![ring.mul(&sum, &p[0])?, sum])
    }),
    ("sum of multiples", |ring, p| {
        Ok(vec![ring.sum_of_multiples(&[(&p[0], 5), (&p[1], -(1 << 66)), (&p[2], 1)], widest())?])
    }),
    ("tensor", |ring, p| Ok(ring.tensor([&p[0], &p[1]], [&p[1], &p[2]], widest())?.into())),
    ("automorphisms", |ring, p| {
        Ok(vec![ring.automorphism(&p[0], 5)?, ring.automorphism_sum(&p[1], &[5, 25, 125, 1])?])
    }),
    ("division and rescale", |ring, p| {
        Ok(vec![ring.divide_round(&p[3], widest())?, ring.rescale_round(&p[0], Basis::chain(CHAIN - 2))?])
    }),
    ("extension", |ring, p| {
        let low = ring.restricted(&p[0], Basis::chain(3))?;
        Ok(vec![ring.extend_basis(&low, widest().with_special())?])
    }),
    ("products with keys", |ring, p| {
        let key = key(ring)?;
        let digits = ring.decompose(&p[0])?;
        let sum = ring.hoisted_sum(&digits, &[(&key, 5), (&key, 25), (&key, 1)])?;
        Ok(ring.gadget_product(&p[1], &key)?.into_iter().chain(sum).collect())
    }),
    ("sums of products", |ring, p| {
        let row: Vec<(usize, Poly)> = (0..40).map(|i| (i % 2, p[i % 3].clone())).collect();
        let inputs = [[&p[0], &p[1]], [&p[2], &p[1]]];
        Ok(ring.product_sums(&inputs, &[row.as_slice()])?.into_iter().flatten().collect())
    }),
    ("matrix products", |ring, p| {
        let entry = |row: usize, column: usize| (row as i128 - 3) << (7 * column % 60);
        let inputs: Vec<&Poly> = (0..15).map(|i| &p[i % 3]).collect();
        let mut results = ring.matrix_product(&ring.real_matrix(widest(), 37, 15, entry), &inputs)?;
        if ring.kind() == RingKind::Standard {
            let complex =
                ring.complex_matrix(widest(), 2, 15, |row, column| (entry(row, column), entry(column, row)))?;
            results.extend(ring.matrix_product(&complex, &inputs)?);
        }
        Ok(results)
    }),
    ("module ciphertexts", |ring, p| {
        if ring.kind() != RingKind::Standard {
            return Ok(Vec::new());
        }
        let coefficients = coefficients(ring, &p[..2], Basis::chain(2))?;
        let rows = ring.module_rows(&[[&coefficients[0], &coefficients[1]]], ring.degree() / 8)?;
        let matrix = ring.real_matrix(Basis::chain(2), 8, 8, |row, column| row as i128 * 5 - column as i128);
        let rows = ring.module_product(&matrix, &ring.select_module_rows(&rows, &[7, 1, 2, 3, 4, 5, 6, 0])?)?;
        let (body, mut packed) = ring.pack_module_rows(&rows, |part| (part != 3).then_some(part))?;
        packed.push(body);
        Ok(packed)
    }),
    ("signed digits", |ring, p| {
        if ring.kind() != RingKind::Standard {
            return Ok(Vec::new());
        }
        let basis = Basis::chain(2);
        let narrow = [ring.restricted(&p[0], basis)?, ring.restricted(&p[1], basis)?];
        let gadget = ring.digit_gadget(2, 11, 5)?;
        let key = ring.digit_key(gadget, &[[&narrow[0], &narrow[1]]; 10])?;
        let coefficients = coefficients(ring, &p[1..3], basis)?;
        let digits = ring.digits(gadget, &[&coefficients[0], &coefficients[1]])?;
        let mut all = narrow.clone();
        ring.add_rotated_differences(&mut all, &digits, &[(3, &key), (ring.degree() as u32 + 5, &key)])?;
        Ok(ring.digit_product(&digits, &key)?.into_iter().chain(all).collect())
    }),
    ("maps of coefficients", |ring, p| {
        let coefficients = coefficients(ring, &p[..1], widest())?;
        let mut images = vec![ring.automorphism(&coefficients[0], 5)?];
        if ring.kind() == RingKind::Standard {
            images.push(ring.rotated(&coefficients[0], ring.degree() as u32 + 3)?);
        }
        Ok(images)
    }),
];

/// Polynomials over fewer primes, in the coefficient domain.
fn coefficients(ring: &Ring, polys: &[Poly], basis: Basis) -> Result<Vec<Poly>, RingError> {
    let one = |poly: &Poly| {
        let mut poly = ring.restricted(poly, basis)?;
        ring.to_coefficients(&mut poly)?;
        Ok(poly)
    };
    polys.iter().map(one).collect()
}

fn operands(ring: &Ring) -> Vec<Poly> {
    let bases = [widest(), widest(), widest(), widest().with_special()];
    (0..).zip(bases).map(|(stream, basis)| ring.uniform(&Seed([5; 32]), stream, basis)).collect()
}

/// The bytes of a polynomial, wherever it is.
pub fn bytes(ring: &Ring, mut poly: Poly) -> Result<Vec<u8>, RingError> {
    ring.fetch(&mut poly)?;
    let mut bytes = vec![u8::from(poly.domain() == Domain::Evaluation)];
    ring.write_residues(&poly, &mut bytes);
    Ok(bytes)
}

fn all_bytes(ring: &Ring, polys: Vec<Poly>) -> Result<Vec<Vec<u8>>, RingError> {
    polys.into_iter().map(|poly| bytes(ring, poly)).collect()
}

/// Whether work is recorded, and the results of repetitions. If it is recorded, a graph gives the last results. Work
/// that makes keys of what it computed is not recorded.
fn repeated(ring: &Ring, operands: &[Poly], work: Work) -> Result<(bool, Vec<Vec<Poly>>), RingError> {
    let count = || ring.device().map_or(0, Device::recorded);
    let (recording, before) = (Recording::default(), count());
    let inputs: Vec<&Poly> = operands.iter().collect();
    let once = || {
        ring.repeat(&recording, &inputs, |inputs| {
            work(ring, &inputs.iter().map(|input| (*input).clone()).collect::<Vec<_>>())
        })
    };
    let results = (0..4).map(|_| once()).collect::<Result<_, RingError>>()?;
    Ok((count() > before, results))
}

pub fn run(device: &Device, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    for kind in [RingKind::Standard, RingKind::ConjugateInvariant] {
        let degrees = match (quick, kind) {
            (true, _) => 11..=12,
            (false, RingKind::Standard) => 11..=17,
            // Primes are 1 modulo 4n.
            (false, RingKind::ConjugateInvariant) => 11..=16,
        };
        for log_degree in degrees {
            let host = ring(log_degree, kind)?;
            let there = host.on_device(device)?;
            let both = [&host, &there].map(operands);
            compare(&format!("{kind:?}"), [&host, &there], &both, OPERATIONS, report)?;
        }
    }
    Ok(())
}

/// Compares operations in a ring on the processor and on a device, as they are and repeated.
pub fn compare(
    ring: &str,
    [host, there]: [&Ring; 2],
    both: &[Vec<Poly>; 2],
    operations: &[(&str, Work)],
    report: &mut Report,
) -> anyhow::Result<()> {
    for (name, work) in operations {
        let wanted = all_bytes(host, work(host, &both[0])?)?;
        let mut same = all_bytes(there, work(there, &both[1])?)? == wanted;
        let (recorded, repeated) = repeated(there, &both[1], *work)?;
        for repeated in repeated {
            same &= all_bytes(there, repeated)? == wanted;
        }
        report.line(json!({
            "part": "bits", "ring": ring, "log_degree": host.degree().ilog2(), "operation": name, "same": same,
            "graph": recorded,
        }))?;
    }
    Ok(())
}
