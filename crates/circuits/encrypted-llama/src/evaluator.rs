//! What runs the pass: ciphertexts with a client's keys, or simulated ones.

use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, Ciphertext, CkksError, CoefficientMatrix, Evaluator, Simulated, Simulator,
};
use unspoken_rlwe::SmallRingKeys;

use crate::error::PassError;
use crate::part::{Part, PassPlace};
use crate::spread::{Helpers, SimulatedProcesses, spread};

/// Arithmetic on vectors, and their bootstraps.
pub trait PassEvaluator {
    /// A vector of real slots.
    type Vector: Clone + Send + Sync;
    /// The arithmetic.
    type Arithmetic: Arithmetic<Vector = Self::Vector>;

    /// The arithmetic.
    fn arithmetic(&self) -> &Self::Arithmetic;

    /// The plan of the bootstraps, made by [`Bootstrap::for_products`].
    fn bootstrap(&self) -> &Bootstrap;

    /// Bootstraps vectors, two at a time ([`Bootstrapper::refresh_many`]).
    ///
    /// # Errors
    /// The errors of the bootstrap.
    fn refresh(&self, inputs: &[&Self::Vector]) -> Result<Vec<Self::Vector>, CkksError>;

    /// Bootstraps vectors with a product between the halves ([`Bootstrapper::refresh_product`]).
    ///
    /// # Errors
    /// The errors of the bootstrap.
    fn refresh_product(
        &self,
        matrix: &CoefficientMatrix,
        parts: usize,
        inputs: &[&Self::Vector],
    ) -> Result<Vec<Self::Vector>, CkksError>;

    /// The first half of [`refresh_product`](Self::refresh_product) for one vector ([`Bootstrapper::coefficients`]).
    ///
    /// # Errors
    /// The errors of the bootstrap.
    fn coefficients(&self, parts: &[&Self::Vector]) -> Result<Self::Vector, CkksError>;

    /// The rest of [`refresh_product`](Self::refresh_product) for inputs that had this scale
    /// ([`Bootstrapper::product_of_coefficients`]).
    ///
    /// # Errors
    /// The errors of the bootstrap.
    fn product(
        &self,
        matrix: &CoefficientMatrix,
        parts_and_scale: (usize, f64),
        lowest: &[Self::Vector],
    ) -> Result<Vec<Self::Vector>, CkksError>;

    /// Number of processes that compute a pass, this one among them.
    fn processes(&self) -> usize;

    /// Computes parts of a pass, each in one of the processes. Returns their results in the same order.
    ///
    /// # Errors
    /// If a part cannot be computed, or was cancelled.
    fn spread(
        &self,
        place: &PassPlace<'_>,
        parts: Vec<Part<Self::Vector>>,
    ) -> Result<Vec<Vec<Self::Vector>>, PassError>;
}

/// Ciphertexts of a client.
#[derive(Clone, Copy)]
pub struct EncryptedEvaluator<'a> {
    /// Evaluator with the client's keys.
    pub evaluator: Evaluator<'a>,
    /// Matrices of the bootstraps.
    pub bootstrapper: &'a Bootstrapper,
    /// The client's keys for products on coefficients.
    pub small_keys: &'a SmallRingKeys,
    /// Other processes that compute parts of the pass.
    helpers: Option<&'a dyn Helpers>,
}

impl<'a> EncryptedEvaluator<'a> {
    /// Computes a pass in this process.
    pub fn new(evaluator: Evaluator<'a>, bootstrapper: &'a Bootstrapper, small_keys: &'a SmallRingKeys) -> Self {
        EncryptedEvaluator { evaluator, bootstrapper, small_keys, helpers: None }
    }

    /// With other processes that compute parts of the pass.
    pub fn with_helpers(self, helpers: &'a dyn Helpers) -> Self {
        EncryptedEvaluator { helpers: Some(helpers), ..self }
    }
}

impl<'a> PassEvaluator for EncryptedEvaluator<'a> {
    type Vector = Ciphertext;
    type Arithmetic = Evaluator<'a>;

    fn arithmetic(&self) -> &Evaluator<'a> {
        &self.evaluator
    }

    fn bootstrap(&self) -> &Bootstrap {
        self.bootstrapper.plan()
    }

    fn refresh(&self, inputs: &[&Ciphertext]) -> Result<Vec<Ciphertext>, CkksError> {
        self.bootstrapper.refresh_many(&self.evaluator, inputs)
    }

    fn refresh_product(
        &self,
        matrix: &CoefficientMatrix,
        parts: usize,
        inputs: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        self.bootstrapper.refresh_product(&self.evaluator, self.small_keys, matrix, parts, inputs)
    }

    fn coefficients(&self, parts: &[&Ciphertext]) -> Result<Ciphertext, CkksError> {
        self.bootstrapper.coefficients(&self.evaluator, parts)
    }

    fn product(
        &self,
        matrix: &CoefficientMatrix,
        parts_and_scale: (usize, f64),
        lowest: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let (evaluator, keys) = (&self.evaluator, self.small_keys);
        self.bootstrapper.product_of_coefficients(evaluator, keys, matrix, parts_and_scale, lowest)
    }

    fn processes(&self) -> usize {
        1 + self.helpers.map_or(0, Helpers::count)
    }

    fn spread(&self, place: &PassPlace<'_>, parts: Vec<Part<Ciphertext>>) -> Result<Vec<Vec<Ciphertext>>, PassError> {
        let alone = EncryptedEvaluator { helpers: None, ..*self };
        spread((self.helpers, &place.program.layout), &parts, |part| place.compute(&alone, part))
    }
}

/// Simulated vectors: in the clear with the noise of ciphertexts, or without values.
#[derive(Clone, Copy)]
pub struct SimulatedEvaluator<'a> {
    /// The simulator.
    pub simulator: &'a Simulator,
    /// The plan of the bootstraps.
    pub bootstrap: &'a Bootstrap,
    /// Several processes, whose times are predicted.
    processes: Option<&'a SimulatedProcesses<'a>>,
}

impl<'a> SimulatedEvaluator<'a> {
    /// Simulates a pass of one process.
    pub fn new(simulator: &'a Simulator, bootstrap: &'a Bootstrap) -> Self {
        SimulatedEvaluator { simulator, bootstrap, processes: None }
    }

    /// With several processes, whose times are predicted.
    pub fn with_processes(self, processes: &'a SimulatedProcesses<'a>) -> Self {
        SimulatedEvaluator { processes: Some(processes), ..self }
    }
}

impl PassEvaluator for SimulatedEvaluator<'_> {
    type Vector = Simulated;
    type Arithmetic = Simulator;

    fn arithmetic(&self) -> &Simulator {
        self.simulator
    }

    fn bootstrap(&self) -> &Bootstrap {
        self.bootstrap
    }

    fn refresh(&self, inputs: &[&Simulated]) -> Result<Vec<Simulated>, CkksError> {
        self.bootstrap.simulate_refresh_many(self.simulator, inputs)
    }

    fn refresh_product(
        &self,
        matrix: &CoefficientMatrix,
        parts: usize,
        inputs: &[&Simulated],
    ) -> Result<Vec<Simulated>, CkksError> {
        self.bootstrap.simulate_refresh_product(self.simulator, matrix, parts, inputs)
    }

    fn coefficients(&self, parts: &[&Simulated]) -> Result<Simulated, CkksError> {
        self.bootstrap.simulate_coefficients(self.simulator, parts)
    }

    fn product(
        &self,
        matrix: &CoefficientMatrix,
        parts_and_scale: (usize, f64),
        lowest: &[Simulated],
    ) -> Result<Vec<Simulated>, CkksError> {
        self.bootstrap.simulate_product(self.simulator, matrix, parts_and_scale, lowest)
    }

    fn processes(&self) -> usize {
        self.processes.map_or(1, SimulatedProcesses::count)
    }

    fn spread(&self, place: &PassPlace<'_>, parts: Vec<Part<Simulated>>) -> Result<Vec<Vec<Simulated>>, PassError> {
        let alone = SimulatedEvaluator { processes: None, ..*self };
        let compute = |part: &Part<Simulated>| place.compute(&alone, part);
        match self.processes {
            None => parts.iter().map(compute).collect(),
            Some(processes) => processes.spread(self.simulator, &parts, compute),
        }
    }
}
