//! A plaintext matrix times the dimensions of encrypted vectors, at the lowest level: integer products of module
//! ciphertexts beside the diagonals of the matrix on slots.

use std::collections::BTreeMap;

use unspoken_ckks::{
    Arithmetic, Bootstrap, Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, LinearPlan, LinearTransform,
    Preset,
};
use unspoken_ring::{Basis, RingMatrix, SecretRng};
use unspoken_rlwe::{
    self as rlwe, EvaluationKeys, RowPlaces, SecretKey, SeededSmallRingKeys, SmallRing, SmallRingKeys,
};

use crate::clock::{Repetitions, alternate};
use crate::error::{larger_error, wrong};
use crate::harness::Harness;
use crate::row::{Metric, params};

const TIME: Metric = Metric::less("time", "s");
const RATE: Metric = Metric::more("rate", "GMAC/s");
const KEY_MEMORY: Metric = Metric::less("key_memory", "bytes");
const MATRIX_MEMORY: Metric = Metric::less("matrix_memory", "bytes");

/// A square matrix with one row for each dimension of a vector with `tokens` tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    preset: &'static str,
    small_degree: usize,
    tokens: usize,
}

pub(super) const FULL: &[Case] = &[
    Case { preset: "n16_boot_depth15_scale40", small_degree: 4096, tokens: 64 },
    Case { preset: "n16_boot_depth15_scale40", small_degree: 4096, tokens: 128 },
];

pub(super) const QUICK: &[Case] =
    &[Case { preset: "insecure_n11_boot_depth15_scale40", small_degree: 512, tokens: 16 }];

const REPETITIONS: Repetitions = Repetitions { min: 3, max: 5, budget: std::time::Duration::from_secs(20) };

/// Weights have 12 bits.
const WEIGHT_BITS: u32 = 12;

/// Largest allowed distance of a decrypted slot from its expected value.
const TOLERANCE: f64 = 1.0 / 1024.0;

struct Fixture {
    encoder: Encoder,
    secret: SecretKey,
    tokens: usize,
    dimensions: usize,
    values: Vec<Complex64>,
    /// On slots, one level above the lowest, and its keys.
    slots: Ciphertext,
    transform: LinearTransform,
    rotations: EvaluationKeys,
    rotation_bytes: u64,
    /// On coefficients, at the lowest level, and its keys.
    coefficients: rlwe::Ciphertext,
    small: SmallRing,
    small_keys: SmallRingKeys,
    matrix: RingMatrix,
}

fn weight(row: usize, column: usize, dimensions: usize) -> f64 {
    let numerator = ((row * 37 + column * 101 + 5) % 127) as f64 - 63.0;
    (numerator / (63.0 * dimensions as f64) * 16.0 * f64::from(1 << WEIGHT_BITS)).round() / f64::from(1 << WEIGHT_BITS)
}

pub(super) fn run(harness: &mut Harness<'_>, case: Case) -> anyhow::Result<()> {
    harness.progress(format!("keys and matrices: {}, {} tokens", case.preset, case.tokens));
    let fixture = Fixture::new(case)?;
    harness.progress(format!("products on coefficients and on slots, {} tokens", case.tokens));
    fixture.check_slots()?;
    let stopwatch = harness.stopwatch();
    let ours = || stopwatch.seconds(|| fixture.on_coefficients());
    let baseline = || stopwatch.seconds(|| fixture.on_slots());
    let samples = alternate(REPETITIONS, &mut [Box::new(ours), Box::new(baseline)])?;
    let parameters = fixture.encoder.parameters();
    let primes = fixture.small.basis().chain;
    let macs = fixture.dimensions * fixture.dimensions * (case.small_degree + 2 * case.tokens) * primes;
    let params = || {
        params! {
            "preset": parameters.name(), "rows": fixture.dimensions, "columns": fixture.dimensions,
            "tokens": case.tokens, "small_degree": case.small_degree, "primes": primes,
            "backend": parameters.ring().backend().name(), "multiply_adds": macs,
        }
    };
    const SLOTS: &str = "diagonals on slots, one level";
    let name = |what: &str| format!("{what}, {} x {}, {} tokens", fixture.dimensions, fixture.dimensions, case.tokens);
    let product = name("product on coefficients");
    harness.timing(TIME, product.clone(), &samples[0], Some((SLOTS, &samples[1])), params());
    let rates: Vec<f64> = samples[0].iter().map(|seconds| macs as f64 * 1e-9 / seconds).collect();
    harness.timing(RATE, product.clone(), &rates, None, params());
    let bytes = [fixture.small_keys.bytes() as f64];
    harness.row(KEY_MEMORY, product.clone(), &bytes, Some((SLOTS, &[fixture.rotation_bytes as f64])), params());
    let (ours, slots) = (fixture.matrix.bytes() as f64, fixture.transform.prepared_bytes() as f64);
    harness.row(MATRIX_MEMORY, product, &[ours], Some((SLOTS, &[slots])), params());
    Ok(())
}

impl Fixture {
    fn new(case: Case) -> anyhow::Result<Self> {
        let Case { preset, small_degree, tokens } = case;
        let parameters = Preset::find(preset)?.build()?;
        let mut rng = SecretRng::insecure_from_seed(5);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let encoder = Encoder::new(&parameters);
        let plan = Bootstrap::for_products(&parameters, WEIGHT_BITS)?;
        let small = plan.small_ring(small_degree, tokens)?;
        let small_keys = SeededSmallRingKeys::generate(&small, &secret, &mut rng)?.expand(&small)?;
        let dimensions = small.rows();
        let scale = f64::from(1 << WEIGHT_BITS);
        let matrix = small.matrix(dimensions, dimensions, |r, c| (weight(r, c, dimensions) * scale) as i128);
        let values: Vec<Complex64> = (0..parameters.slots()).map(|j| Complex64::cis((j * j % 1013) as f64)).collect();

        let (level, scale) = (1, parameters.scale());
        let linear = diagonals(&parameters, tokens, dimensions, level, scale)?;
        let key_plan = linear.key_plan();
        let rotations = EvaluationKeys::generate(&secret, &key_plan, &mut rng)?;
        let rotation_bytes = rotations.bytes();
        let transform = LinearTransform::new(&encoder, linear)?;
        let plain = encoder.encode(&values, level, scale)?;
        let slots = encoder.encrypt(&plain, &secret, &mut rng)?.expand(&parameters);

        let message = parameters.ring().zero(small.basis(), unspoken_ring::Domain::Evaluation);
        let coefficients = secret.encrypt(&message, &mut rng)?;
        debug_assert_eq!(small.basis(), Basis::chain(parameters.limbs(0)));
        Ok(Fixture {
            encoder,
            secret,
            tokens,
            dimensions,
            values,
            slots,
            transform,
            rotations,
            rotation_bytes,
            coefficients,
            small,
            small_keys,
            matrix,
        })
    }

    fn on_coefficients(&self) -> anyhow::Result<Vec<rlwe::Ciphertext>> {
        let (inputs, outputs): (Vec<usize>, Vec<_>) = (0..self.dimensions).map(|row| (row, Some(row))).unzip();
        let places = RowPlaces { inputs: &inputs, outputs: &outputs };
        Ok(self.small.product(&self.small_keys, &self.matrix, &places, &[&self.coefficients])?)
    }

    fn on_slots(&self) -> anyhow::Result<Ciphertext> {
        Ok(Evaluator::new(&self.encoder, &self.rotations).linear(&self.transform, &self.slots)?)
    }

    /// Checks the product on slots. That on coefficients is checked by the tests of `unspoken-ckks`, with the bootstrap
    /// of which it is a part.
    fn check_slots(&self) -> anyhow::Result<()> {
        let found = self.encoder.decrypt(&self.on_slots()?, &self.secret)?;
        let mut worst = 0.0;
        for row in (0..self.dimensions).step_by(self.dimensions.div_ceil(16)) {
            let exact: Complex64 = (0..self.dimensions)
                .map(|column| self.values[column * self.tokens] * weight(row, column, self.dimensions))
                .sum();
            worst = larger_error(worst, (found[row * self.tokens] - exact).norm());
        }
        let case = format!("diagonals on slots, {} tokens", self.tokens);
        if worst <= TOLERANCE { Ok(()) } else { Err(wrong(case, worst, TOLERANCE)) }
    }
}

/// The matrix by its diagonals: slot `token + tokens * row` of diagonal `tokens * k` has entry `(row, row + k)`.
fn diagonals(
    parameters: &CkksParameters,
    tokens: usize,
    dimensions: usize,
    level: usize,
    scale: f64,
) -> anyhow::Result<LinearPlan> {
    let diagonal = |k: usize| -> Vec<Complex64> {
        let entry = |row: usize| Complex64::from(weight(row, (row + k) % dimensions, dimensions));
        (0..parameters.slots()).map(|slot| entry(slot / tokens)).collect()
    };
    let diagonals: BTreeMap<usize, Vec<Complex64>> = (0..dimensions).map(|k| (k * tokens, diagonal(k))).collect();
    Ok(LinearPlan::new(parameters, diagonals, level, scale, scale)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    #[test]
    fn products_are_measured_beside_diagonals() {
        let rows = test_rows(Suite::Llama, |harness| run(harness, QUICK[0]));
        for metric in ["time", "rate", "key_memory", "matrix_memory"] {
            let row = rows.iter().find(|row| row.metric == metric).unwrap_or_else(|| panic!("no {metric}"));
            assert!(row.ours > 0.0 && row.case == "product on coefficients, 64 x 64, 16 tokens", "{row:?}");
        }
    }
}
