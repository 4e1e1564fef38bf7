//! One client of a bootstrapping preset on one backend: keys, encoded matrices, inputs and expected results.

use std::f64::consts::PI;

use unspoken_ckks::{
    Bootstrap, Bootstrapper, Ciphertext, CkksParameters, Complex64, Cost, CostModel, Encoder, Evaluator, Preset,
    Simulator, SlotValues,
};
use unspoken_ring::{Backend, SecretRng};
use unspoken_rlwe::{EvaluationKeys, SecretKey};

use crate::error::wrong;

/// Largest allowed error, relative to the simulator's estimate.
const TOLERANCE: f64 = 4.0;

/// Distances of slots from their expected values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Precision {
    pub(super) rms: f64,
    pub(super) mean: f64,
    pub(super) worst: f64,
}

/// A client with a vector of complex values in all slots.
pub(super) struct BootstrapFixture {
    encoder: Encoder,
    bootstrapper: Bootstrapper,
    keys: EvaluationKeys,
    secret: SecretKey,
    values: Vec<Complex64>,
    input: Ciphertext,
    /// Torus elements in the lower coefficients, at level 0.
    torus: Vec<f64>,
    torus_input: Ciphertext,
}

impl Precision {
    pub(super) fn between(found: &[Complex64], exact: &[Complex64]) -> Self {
        let errors: Vec<f64> = found.iter().zip(exact).map(|(a, b)| (a - b).norm()).collect();
        let count = errors.len().max(1) as f64;
        Precision {
            rms: (errors.iter().map(|e| e * e).sum::<f64>() / count).sqrt(),
            mean: errors.iter().sum::<f64>() / count,
            // A NaN counts as the worst error.
            worst: errors.iter().copied().fold(0.0, |worst, e| if e <= worst { worst } else { e }),
        }
    }

    /// Fails if this precision is worse than `estimate` explains.
    pub(super) fn check(self, case: &str, estimate: Precision) -> anyhow::Result<()> {
        let (found, needed) = (self.worst, TOLERANCE * estimate.worst);
        if found <= needed { Ok(()) } else { Err(wrong(case, found, needed)) }
    }
}

impl BootstrapFixture {
    pub(super) fn new(preset: &Preset, backend: Backend) -> anyhow::Result<Self> {
        let parameters = CkksParameters::with_backend(preset.literal()?, backend)?;
        let slots = parameters.slots();
        let plan = Bootstrap::new(&parameters, slots, SlotValues::Complex)?;
        // These keys protect no data: a fixed seed gives every run the same numbers.
        let mut rng = SecretRng::insecure_from_seed(3);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let keys = EvaluationKeys::generate(&secret, &plan.key_plan(), &mut rng)?;
        let encoder = Encoder::new(&parameters);
        let angle = |j: usize| (j * j) as f64;
        let values: Vec<Complex64> = (0..slots).map(|j| Complex64::new(angle(j).sin(), angle(j).cos())).collect();
        let plain = encoder.encode(&values, plan.input_level(), parameters.scale())?;
        let input = encoder.encrypt(&plain, &secret, &mut rng)?.expand(&parameters);
        let element = |k: usize| if k < slots { ((k * 7) % 2047) as f64 / 4096.0 - 0.25 } else { 0.0 };
        let torus: Vec<f64> = (0..2 * slots).map(element).collect();
        let plain = encoder.encode_coefficients(&torus, 0, torus_scale(&plan))?;
        let torus_input = encoder.encrypt(&plain, &secret, &mut rng)?.expand(&parameters);
        let bootstrapper = Bootstrapper::new(&encoder, plan)?;
        Ok(BootstrapFixture { encoder, bootstrapper, keys, secret, values, input, torus, torus_input })
    }

    pub(super) fn plan(&self) -> &Bootstrap {
        self.bootstrapper.plan()
    }

    pub(super) fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    /// Bytes of the keys in memory.
    pub(super) fn key_bytes(&self) -> u64 {
        self.keys.bytes()
    }

    /// Bootstraps from slots to slots.
    pub(super) fn refresh(&self) -> anyhow::Result<Ciphertext> {
        Ok(self.bootstrapper.refresh(&Evaluator::new(&self.encoder, &self.keys), &self.input)?)
    }

    /// Bootstraps from torus elements to exponentials.
    pub(super) fn exponential(&self) -> anyhow::Result<Ciphertext> {
        Ok(self.bootstrapper.exponential(&Evaluator::new(&self.encoder, &self.keys), &self.torus_input)?)
    }

    /// What [`BootstrapFixture::refresh`] costs.
    pub(super) fn refresh_cost(&self) -> anyhow::Result<Cost> {
        let simulator = Simulator::counting(&self.encoder);
        let (level, scale) = (self.plan().input_level(), self.parameters().scale());
        self.plan().simulate_refresh(&simulator, &simulator.encrypt(&[], level, scale)?)?;
        Ok(simulator.cost())
    }

    /// The simulator's price of a cost, with the speed that this thread has now.
    pub(super) fn price(&self, cost: &Cost) -> anyhow::Result<f64> {
        Ok(CostModel::measure(self.parameters())?.seconds(cost))
    }

    pub(super) fn refresh_precision(&self, output: &Ciphertext) -> anyhow::Result<Precision> {
        Ok(Precision::between(&self.encoder.decrypt(output, &self.secret)?, &self.values))
    }

    pub(super) fn exponential_precision(&self, output: &Ciphertext) -> anyhow::Result<Precision> {
        Ok(Precision::between(&self.encoder.decrypt(output, &self.secret)?, &self.exponentials()))
    }

    /// The expected result of [`BootstrapFixture::exponential`].
    fn exponentials(&self) -> Vec<Complex64> {
        let slots = self.parameters().slots();
        let mut expected = vec![Complex64::default(); slots];
        for (k, t) in self.torus.iter().take(slots).enumerate() {
            expected[self.plan().slot_of(k)] = Complex64::cis(2.0 * PI * t);
        }
        expected
    }

    /// The simulator's estimates for [`BootstrapFixture::refresh`] and [`BootstrapFixture::exponential`].
    pub(super) fn estimates(&self) -> anyhow::Result<[Precision; 2]> {
        let (simulator, plan) = (Simulator::new(&self.encoder, 4), self.plan());
        let input = simulator.encrypt(&self.values, plan.input_level(), self.parameters().scale())?;
        let refreshed = plan.simulate_refresh(&simulator, &input)?;
        let input = simulator.encrypt_coefficients(&self.torus, 0, torus_scale(plan))?;
        let exponential = plan.simulate_exponential(&simulator, &input)?;
        Ok([
            Precision::between(refreshed.noisy(), &self.values),
            Precision::between(exponential.noisy(), &self.exponentials()),
        ])
    }
}

/// The modulus of level 0, which scales torus elements.
fn torus_scale(plan: &Bootstrap) -> f64 {
    let ring = plan.parameters().ring();
    ring.chain()[..plan.parameters().chain(0)].iter().map(|&q| f64::from(q)).product()
}
