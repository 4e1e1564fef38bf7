//! One client of a preset on one backend, with its keys and two encrypted vectors.

use unspoken_ckks::{Arithmetic, Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, PreparedVector, Preset};
use unspoken_ring::{Backend, SecretRng};
use unspoken_rlwe::{self as rlwe, EvaluationKeys, KeyKind, KeyPlan, SecretKey, galois};

use crate::error::{larger_error, wrong};

/// Largest allowed distance of a decrypted slot from its expected value.
const TOLERANCE: f64 = 1.0 / 4096.0;

/// Rotation step of all measurements.
pub(super) const STEPS: i64 = 1;

pub(super) struct Fixture {
    pub(super) parameters: CkksParameters,
    pub(super) encoder: Encoder,
    pub(super) keys: EvaluationKeys,
    pub(super) secret: SecretKey,
    values: [Vec<f64>; 2],
    inputs: [Ciphertext; 2],
}

/// The inputs of every operation at one level.
pub(super) struct Operands {
    pub(super) level: usize,
    pub(super) a: Ciphertext,
    pub(super) b: Ciphertext,
    /// `a b`, relinearised and not rescaled.
    pub(super) product: Ciphertext,
    /// The values of `b`, encoded at the same level by the first product.
    pub(super) plain: PreparedVector,
}

impl Fixture {
    pub(super) fn new(preset: &Preset, backend: Backend) -> anyhow::Result<Self> {
        let parameters = CkksParameters::with_backend(preset.literal()?, backend)?;
        // These keys protect no data: a fixed seed gives every run the same numbers.
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let encoder = Encoder::new(&parameters);
        let keys = EvaluationKeys::generate(&secret, &key_plan(&parameters), &mut rng)?;
        let values = [7, 11].map(|step| unit_values(parameters.slots(), step));
        let mut encrypt = |values: &[f64]| -> anyhow::Result<Ciphertext> {
            let plain = encoder.encode_real(values, parameters.max_level(), parameters.scale())?;
            Ok(encoder.encrypt(&plain, &secret, &mut rng)?.expand(&parameters))
        };
        let inputs = [encrypt(&values[0])?, encrypt(&values[1])?];
        Ok(Fixture { parameters, encoder, keys, secret, values, inputs })
    }

    pub(super) fn evaluator(&self) -> Evaluator<'_> {
        Evaluator::new(&self.encoder, &self.keys)
    }

    pub(super) fn backend(&self) -> &'static str {
        self.parameters.ring().backend().name()
    }

    pub(super) fn operands(&self, level: usize) -> anyhow::Result<Operands> {
        let evaluator = self.evaluator();
        let a = evaluator.drop_to(&self.inputs[0], level)?;
        let b = evaluator.drop_to(&self.inputs[1], level)?;
        let product = evaluator.relinearise(&evaluator.tensor(&a, &b)?)?;
        let values = self.values[1].iter().copied().map(Complex64::from).collect();
        let plain = PreparedVector::new(values, level, self.parameters.scale())?;
        Ok(Operands { level, a, b, product, plain })
    }

    /// Checks that `found` at `scale` decrypts to `expected(a_j, b_j, a_(j+1))` in every slot `j`.
    pub(super) fn check(
        &self,
        case: &str,
        found: &rlwe::Ciphertext,
        scale: f64,
        expected: impl Fn(f64, f64, f64) -> f64,
    ) -> anyhow::Result<()> {
        let slots = self.encoder.decode(&self.secret.decrypt(found)?, scale)?;
        let [a, b] = &self.values;
        let error = |(j, z): (usize, &Complex64)| (z - expected(a[j], b[j], a[(j + 1) % a.len()])).norm();
        let found = slots.iter().enumerate().map(error).fold(0.0, larger_error);
        if found <= TOLERANCE { Ok(()) } else { Err(wrong(case, found, TOLERANCE)) }
    }
}

fn key_plan(parameters: &CkksParameters) -> KeyPlan {
    let (ring, chain) = (parameters.ring(), parameters.ring().chain().len());
    let mut plan = KeyPlan::new();
    plan.require(KeyKind::Relinearisation, chain);
    plan.require(rotation_key(ring), chain);
    plan
}

/// The key of the rotation by [`STEPS`].
pub(super) fn rotation_key(ring: &unspoken_ring::Ring) -> KeyKind {
    KeyKind::Galois { element: galois::rotation(ring, STEPS) }
}

/// Numbers spread over [-1, 1].
fn unit_values(count: usize, step: usize) -> Vec<f64> {
    (0..count).map(|j| ((j * step) % 257) as f64 / 128.0 - 1.0).collect()
}
