//! What runs the pass: ciphertexts with a client's keys, or simulated ones.

use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, Ciphertext, CkksError, CoefficientMatrix, Evaluator, Simulated, Simulator,
};
use unspoken_rlwe::SmallRingKeys;

/// Arithmetic on vectors, and their bootstraps.
pub trait Machine {
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
    /// Those of the bootstrap.
    fn refresh(&self, inputs: &[&Self::Vector]) -> Result<Vec<Self::Vector>, CkksError>;

    /// Bootstraps vectors with a product between the halves ([`Bootstrapper::refresh_product`]).
    ///
    /// # Errors
    /// Those of the bootstrap.
    fn refresh_product(
        &self,
        matrix: &CoefficientMatrix,
        parts: usize,
        inputs: &[&Self::Vector],
    ) -> Result<Vec<Self::Vector>, CkksError>;
}

/// Ciphertexts of a client.
#[derive(Clone, Copy)]
pub struct EncryptedMachine<'a> {
    /// Evaluator with the client's keys.
    pub evaluator: Evaluator<'a>,
    /// Matrices of the bootstraps.
    pub bootstrapper: &'a Bootstrapper,
    /// The client's keys for products on coefficients.
    pub small_keys: &'a SmallRingKeys,
}

impl<'a> Machine for EncryptedMachine<'a> {
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
}

/// Simulated vectors: in the clear with the noise of ciphertexts, or without values.
#[derive(Clone, Copy)]
pub struct SimulatedMachine<'a> {
    /// The simulator.
    pub simulator: &'a Simulator,
    /// The plan of the bootstraps.
    pub bootstrap: &'a Bootstrap,
}

impl Machine for SimulatedMachine<'_> {
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
}
