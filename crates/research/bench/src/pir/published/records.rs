//! Records of a whole ring element: the published selectors beside ours.
//!
//! The paper encodes a record as a polynomial with large coefficients and decomposes it: a selector of a row is not one
//! ciphertext, but one for each digit (`RLWE'`, section 3.2 and Algorithm 21; two digits in section 5.1). A long record
//! is then one entry, and there are fewer columns to select from. We keep one ciphertext for each row, coefficients of
//! 4 bits, and several tables for records that are longer than a piece.
//!
//! The paper's digits have 4 bits. Coefficients of 8 bits would be drowned by the noise here: the deviation of a sum
//! over 64 rows is `2^-10.3`, and it must be below `2^-9` by a factor of 7. With two digits of 3 bits it is.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::ThreadPool;
use unspoken_gsw::{Noise, Rgsw, RlweCiphertext, digit_square, log2_failure};
use unspoken_pir_scheme::{
    Database, DatabaseShape, Mode, Phase, PirParameters, PirSecret, PreparedKeys, TableView, answer_in_phases, expand,
};
use unspoken_ring::{DeviceCopy, Domain, Poly, SecretRng, Stored, TableShape};

use super::PublishedCase;
use super::keys::fraction;
use crate::clock::{PhaseClock, Repetitions, TimedOperation, alternate};
use crate::error::wrong;
use crate::harness::Harness;
use crate::pir::table::record;
use crate::row::{Metric, params};

/// Bits of a digit of a record, and digits of a coefficient.
const DIGIT_BITS: u32 = 3;
const DIGITS: usize = 2;

const PUBLISHED: &str = "published: a selector for each digit";
const PHASES: [Metric; 3] = [
    Metric::less("record_selectors_time", "s"),
    Metric::less("record_rows_time", "s"),
    Metric::less("record_selection_time", "s"),
];

/// Bits of a coefficient of a record.
const COEFFICIENT_BITS: u32 = DIGIT_BITS * DIGITS as u32;
const MASK: u32 = (1 << COEFFICIENT_BITS) - 1;

/// Seconds of the phases, and the noise of the result over its prediction (published form only).
#[derive(Clone, Copy, Default)]
struct Sample {
    phases: [f64; 3],
    noise_ratio: f64,
}

pub(super) fn run(harness: &mut Harness<'_>, case: PublishedCase, pir: &PirParameters) -> anyhow::Result<()> {
    harness.progress(format!("published: {} records of a ring element", case.records));
    let client = RefCell::new(Client::new(pir, case.records)?);
    let (table, planes) = (LargeRecords::new(pir, case.records)?, planes(pir, case.records)?);
    let samples = sample(harness, case.repetitions, &client, &table, &planes)?;
    let (name, shape) = (format!("{} records of {} bytes", case.records, table.record_bytes()), table.shape);
    let params = params! {
        "preset": pir.name(), "rows": shape.rows / DIGITS, "columns": shape.columns, "planes_of_ours": planes.len(),
        "digits": DIGITS, "digit_bits": DIGIT_BITS, "threads": 1, "clock": "wall",
        "repetitions": samples[0].len(),
        "not_built": "the switch of the published form to a ring of responses: ours holds coefficients of 4 bits",
    };
    for (i, metric) in PHASES.into_iter().enumerate() {
        let phase = |samples: &[Sample]| samples.iter().map(|sample| sample.phases[i]).collect::<Vec<f64>>();
        let (ours, theirs) = (phase(&samples[0]), phase(&samples[1]));
        harness.row(metric, &name, &ours, Some((PUBLISHED, &theirs)), params.clone());
    }
    let ratios: Vec<f64> = samples[1].iter().map(|sample| sample.noise_ratio).collect();
    let of_published = format!("{name}, published");
    harness.row(Metric::less("noise_over_prediction", "times"), &of_published, &ratios, None, params.clone());
    harness.value(Metric::less("log2_failure", "bits"), of_published, table.log2_failure()?, None, params);
    Ok(())
}

/// Both forms in turn on one thread.
fn sample(
    harness: &Harness<'_>,
    repetitions: Repetitions,
    client: &RefCell<Client>,
    table: &LargeRecords,
    planes: &[Database],
) -> anyhow::Result<Vec<Vec<Sample>>> {
    let pool = &harness.single_thread;
    let mut operations: Vec<TimedOperation<'_, Sample>> = vec![
        Box::new(|| client.borrow_mut().ours(planes, pool)),
        Box::new(|| client.borrow_mut().published(table, pool)),
    ];
    alternate(repetitions, &mut operations)
}

/// Our tables: plane `k` has piece `k` of every record.
fn planes(pir: &PirParameters, records: u64) -> anyhow::Result<Vec<Database>> {
    let (piece, bytes) = (pir.piece_bytes(), pir.ring().degree() * COEFFICIENT_BITS as usize / 8);
    let plane = |plane: usize| {
        let of = |index| record(index, bytes)[plane * piece..][..piece].to_vec();
        Ok(Database::from_pieces(pir, plane, records, of)?)
    };
    (0..bytes / piece).map(plane).collect()
}

/// A table of records of a ring element each, two polynomials for each record.
pub(super) struct LargeRecords {
    pir: PirParameters,
    /// Rows of digits: digit `k` of row `i` is row `DIGITS i + k`.
    shape: TableShape,
    words: Vec<u32>,
}

impl LargeRecords {
    /// The table of `records` records in the rows of the parameter set.
    pub(super) fn new(pir: &PirParameters, records: u64) -> anyhow::Result<Self> {
        let (ring, rows) = (pir.ring(), DatabaseShape::new(pir, records)?.rows);
        let shape = TableShape {
            rows: rows * DIGITS,
            columns: (records as usize).div_ceil(rows).next_power_of_two(),
            chain: ring.chain().len(),
        };
        let mut table = LargeRecords { pir: pir.clone(), shape, words: vec![0; ring.table_words(shape)] };
        for index in 0..records {
            let (row, column) = table.position(index);
            let digits: Vec<[i64; DIGITS]> =
                coefficients(&record(index, table.record_bytes())).into_iter().map(signed_digits).collect();
            for digit in 0..DIGITS {
                let of_digit: Vec<i64> = digits.iter().map(|digits| digits[digit]).collect();
                let poly = ring.evaluate_i64(&of_digit, ring.basis())?;
                ring.write_table_entry(shape, &mut table.words, (row * DIGITS + digit, column), &poly)?;
            }
        }
        Ok(table)
    }

    /// Bytes of a record.
    fn record_bytes(&self) -> usize {
        self.pir.ring().degree() * COEFFICIENT_BITS as usize / 8
    }

    fn position(&self, index: u64) -> (usize, usize) {
        let columns = self.shape.columns as u64;
        ((index / columns) as usize, (index % columns) as usize)
    }

    /// Predicted noise of a selected record: each coefficient of a digit times a coefficient of a selector, which has
    /// the noise of two products on average, and the selections of the column (Theorem A.20). The bits of these
    /// selections come from our own expansion, with its gadget. A selector's errors are mostly proportional to the
    /// secret.
    fn noise(&self) -> anyhow::Result<Noise> {
        let product = Noise::bootstrapped_product(self.pir.bootstrap());
        let choice = Noise::rgsw_product(self.pir.bootstrap(), self.pir.ring().gadget(self.pir.literal().selection)?);
        let units = (self.shape.rows * self.pir.ring().degree()) as f64 * digit_square(DIGIT_BITS);
        Ok(product.times(2.0 * units * 0.5).plus(choice.times(f64::from(self.shape.columns.ilog2()))))
    }

    /// `log2` of the probability that a coefficient of a selected record is wrong, before it is switched to a ring of
    /// responses.
    fn log2_failure(&self) -> anyhow::Result<f64> {
        let bound = 0.5 / f64::from(1 << COEFFICIENT_BITS);
        Ok(log2_failure(self.noise()?, bound, self.pir.ring().degree() as f64))
    }
}

/// The coefficients of a record, without sign: four for three bytes.
fn coefficients(record: &[u8]) -> Vec<u8> {
    let of_three = |bytes: &[u8; 3]| {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        std::array::from_fn::<u8, 4, _>(|i| (word >> (COEFFICIENT_BITS * i as u32) & MASK) as u8)
    };
    record.as_chunks::<3>().0.iter().flat_map(of_three).collect()
}

/// The balanced digits of a coefficient as a number from -32 to 31, the lowest first.
fn signed_digits(coefficient: u8) -> [i64; DIGITS] {
    let balanced = |number: i64, bits: u32| ((number + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1));
    let number = balanced(coefficient.into(), COEFFICIENT_BITS);
    let low = balanced(number, DIGIT_BITS);
    [low, (number - low) >> DIGIT_BITS]
}

/// The published selectors of all rows: for each row, an encryption of `scale` times the weight of each digit if the
/// row is the selected one, and of zero otherwise (Algorithm 21 and Equation 3).
pub(super) fn selectors(
    pir: &PirParameters,
    bits: &[Rgsw],
    rows: usize,
) -> anyhow::Result<Vec<[RlweCiphertext; DIGITS]>> {
    let ring = pir.ring();
    let root = |digit: usize| -> anyhow::Result<RlweCiphertext> {
        let mut scale = ring.zero(ring.basis(), Domain::Evaluation);
        let weight = f64::from(DIGIT_BITS * digit as u32) - f64::from(COEFFICIENT_BITS);
        ring.add_constant_assign(&mut scale, fraction(ring, weight.exp2()).into())?;
        Ok(RlweCiphertext::trivial(ring, &scale)?)
    };
    let mut nodes = vec![[root(0)?, root(1)?]];
    for (level, bit) in bits.iter().rev().enumerate() {
        let span = 1usize << (bits.len() - 1 - level);
        let mut children = Vec::with_capacity(2 * nodes.len());
        for node in nodes {
            let right = [bit.external_product(ring, &node[0])?, bit.external_product(ring, &node[1])?];
            let mut left = node;
            left.iter_mut().zip(&right).try_for_each(|(left, right)| left.sub_assign(ring, right))?;
            children.extend([left, right]);
        }
        children.truncate(rows.div_ceil(span));
        nodes = children;
    }
    Ok(nodes)
}

/// A client with packed queries, whose bits both forms use.
struct Client {
    pir: PirParameters,
    shape: DatabaseShape,
    secret: PirSecret,
    keys: PreparedKeys,
    rng: SecretRng,
    asked: u64,
}

impl Client {
    fn new(pir: &PirParameters, records: u64) -> anyhow::Result<Self> {
        let mut rng = SecretRng::insecure_from_seed(38);
        let secret = PirSecret::generate(pir, &mut rng)?;
        let keys = secret.keys(Mode::Packed, &mut rng)?.expand()?;
        let shape = DatabaseShape::new(pir, records)?;
        Ok(Client { pir: pir.clone(), shape, secret, keys, rng, asked: 0 })
    }

    fn next(&mut self) -> u64 {
        self.asked += 1;
        self.asked.wrapping_mul(0x9e37_79b1) % self.shape.pieces
    }

    /// One answer of ours from all planes; every piece is compared.
    fn ours(&mut self, planes: &[Database], pool: &ThreadPool) -> anyhow::Result<Sample> {
        let index = self.next();
        let query = self.secret.query(Mode::Packed, self.shape, index, &mut self.rng)?;
        let views: Vec<TableView<'_>> = planes.iter().map(Database::view).collect();
        let (never, mut clock) = (AtomicBool::new(false), PhaseClock::start());
        let answered = || answer_in_phases(&self.keys, self.shape, &views, &query, &never, |phase| clock.ended(phase));
        let responses = pool.install(answered)?;
        let mut found = Vec::new();
        for (plane, response) in responses.iter().enumerate() {
            found.extend_from_slice(&self.secret.extract(response, plane, index)?);
        }
        check("large record, ours", &found, &record(index, found.len()))?;
        let phases = [Phase::Selectors, Phase::Rows, Phase::Selection].map(|phase| clock.seconds(phase));
        Ok(Sample { phases, noise_ratio: 0.0 })
    }

    /// One record by the published form; every coefficient is compared.
    fn published(&mut self, table: &LargeRecords, pool: &ThreadPool) -> anyhow::Result<Sample> {
        let index = self.next();
        // A packed query of the row and the column: a record is a whole entry, so no bits select a place.
        let query = self.secret.query(Mode::Packed, self.shape, index, &mut self.rng)?;
        let bits = expand(&self.keys, self.shape, &query, &AtomicBool::new(false))?;
        let (columns, rows) = bits.split_at(table.shape.columns.ilog2() as usize);
        let (selected, phases) = pool.install(|| selected_record(table, columns, rows))?;
        let ring = self.pir.ring();
        let phase = ring.to_f64(&self.secret.ring().phase(&selected)?)?;
        let unit = ring.log2_modulus().exp2() / f64::from(1 << COEFFICIENT_BITS);
        let units: Vec<f64> = phase.iter().map(|x| x / unit).collect();
        let modulus = f64::from(1 << COEFFICIENT_BITS);
        let found: Vec<u8> = units.iter().map(|unit| unit.round().rem_euclid(modulus) as u8).collect();
        check("large record, published", &found, &coefficients(&record(index, table.record_bytes())))?;
        let squares: f64 = units.iter().map(|unit| (unit - unit.round()).powi(2)).sum();
        let measured = (squares / units.len() as f64).sqrt() / modulus;
        Ok(Sample { phases, noise_ratio: measured / table.noise()?.0.sqrt() })
    }
}

/// The selected record, encrypted, with the seconds of the phases.
fn selected_record(
    table: &LargeRecords,
    columns: &[Rgsw],
    rows: &[Rgsw],
) -> anyhow::Result<(RlweCiphertext, [f64; 3])> {
    let (ring, shape) = (table.pir.ring(), table.shape);
    let started = Instant::now();
    let selectors = selectors(&table.pir, rows, shape.rows / DIGITS)?;
    let selected = started.elapsed();
    let factors: Vec<[&Poly; 2]> = selectors.iter().flatten().map(RlweCiphertext::components).collect();
    let factors = ring.table_factors(shape.chain, &factors)?;
    let copy = DeviceCopy::default();
    let sums = ring.table_sums(shape, Stored::new(&table.words, &copy), 0..shape.columns, &factors)?;
    let mut entries: Vec<RlweCiphertext> = sums.into_iter().map(RlweCiphertext::from_components).collect();
    let summed = started.elapsed();
    for bit in columns.iter().rev() {
        let (zeros, ones) = entries.split_at(entries.len() / 2);
        entries = zeros.iter().zip(ones).map(|(zero, one)| bit.select(ring, zero, one)).collect::<Result<_, _>>()?;
    }
    let folded = started.elapsed();
    let phases = [selected, summed - selected, folded - summed].map(|phase| phase.as_secs_f64());
    Ok((entries.swap_remove(0), phases))
}

fn check(what: &str, found: &[u8], expected: &[u8]) -> anyhow::Result<()> {
    let differ = found.iter().zip(expected).filter(|(a, b)| a != b).count();
    match differ {
        0 => Ok(()),
        _ => Err(wrong(format!("{what}, bytes that differ"), differ as f64, 0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_hold_all_bits_of_a_record_and_digits_are_balanced() {
        assert_eq!(
            coefficients(&[0b1000_0001, 0b0110_0010, 0b1111_0100]),
            [0b00_0001, 0b00_1010, 0b00_0110, 0b11_1101]
        );
        for coefficient in 0..64 {
            let [low, high] = signed_digits(coefficient);
            assert!((-4..4).contains(&low) && (-4..=4).contains(&high), "{coefficient}: {low} {high}");
            assert_eq!((low + 8 * high).rem_euclid(64), i64::from(coefficient));
        }
    }
}
