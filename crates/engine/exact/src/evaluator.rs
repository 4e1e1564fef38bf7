//! Sums and products of encrypted vectors, without any key.

use unspoken_ring::Poly;

use crate::ciphertext::{Ciphertext, check_noise};
use crate::encoding::Plaintext;
use crate::error::ExactError;
use crate::parameters::{ExactParameters, Scheme};

/// Adds encrypted vectors, and adds and multiplies plaintexts to them, modulo `t`.
///
/// Every result is exact modulo `t`, or an error: ciphertexts carry a bound on the noise, and an operation whose result
/// could decrypt wrong is refused. The evaluator cannot detect that a value leaves the range from `-t/2` to `t/2`, so
/// choose a preset whose `t` holds the largest sum. A product multiplies the polynomials: slot by slot, or coefficients
/// by convolution.
#[derive(Clone, Debug)]
pub struct Evaluator {
    parameters: ExactParameters,
}

impl Evaluator {
    /// An evaluator for ciphertexts and plaintexts of these parameters.
    pub fn new(parameters: &ExactParameters) -> Self {
        Evaluator { parameters: parameters.clone() }
    }

    /// `a + b`.
    ///
    /// # Errors
    /// If one belongs to other parameters, or the result could be wrong ([`ExactError::Noise`]).
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, ExactError> {
        let mut sum = a.clone();
        self.add_assign(&mut sum, b)?;
        Ok(sum)
    }

    /// `a += b`. On an error `a` is unchanged.
    ///
    /// # Errors
    /// As for [`Evaluator::add`].
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), ExactError> {
        const OPERATION: &str = "add";
        let noise_bits = self.check_sum(OPERATION, a, b)?;
        for (a, b) in a.inner.components_mut().iter_mut().zip(b.inner.components()) {
            self.parameters.ring().add_assign(a, b)?;
        }
        a.noise_bits = noise_bits;
        Ok(())
    }

    /// `a - b`.
    ///
    /// # Errors
    /// As for [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, ExactError> {
        const OPERATION: &str = "subtract";
        let noise_bits = self.check_sum(OPERATION, a, b)?;
        let mut difference = a.clone();
        for (a, b) in difference.inner.components_mut().iter_mut().zip(b.inner.components()) {
            self.parameters.ring().sub_assign(a, b)?;
        }
        difference.noise_bits = noise_bits;
        Ok(difference)
    }

    /// `a + b` for a plaintext `b`.
    ///
    /// # Errors
    /// As for [`Evaluator::add`].
    pub fn add_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, ExactError> {
        self.with_summand("add a plaintext", a, b, |c, summand| self.parameters.ring().add_assign(c, summand))
    }

    /// `a - b` for a plaintext `b`.
    ///
    /// # Errors
    /// As for [`Evaluator::add`].
    pub fn sub_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, ExactError> {
        self.with_summand("subtract a plaintext", a, b, |c, summand| self.parameters.ring().sub_assign(c, summand))
    }

    /// `a * b` for a plaintext `b`, which multiplies the noise by the sum of the magnitudes of the coefficients of `b`.
    ///
    /// # Errors
    /// As for [`Evaluator::add`].
    pub fn mul_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, ExactError> {
        const OPERATION: &str = "multiply by a plaintext";
        self.parameters.check_same(OPERATION, &a.parameters)?;
        self.parameters.check_same(OPERATION, b.parameters())?;
        let noise_bits = a.noise_bits + b.log2_norm();
        check_noise(OPERATION, &self.parameters, noise_bits)?;
        let factor = b.lift()?;
        let mut product = a.clone();
        for component in product.inner.components_mut() {
            self.parameters.ring().mul_assign(component, &factor)?;
            // The result is a ciphertext. It does not hide the plaintext from anyone who has the operand.
            component.declare_public();
        }
        product.noise_bits = noise_bits;
        Ok(product)
    }

    /// The bound on the noise of a sum or difference.
    fn check_sum(&self, operation: &'static str, a: &Ciphertext, b: &Ciphertext) -> Result<f64, ExactError> {
        self.parameters.check_same(operation, &a.parameters)?;
        self.parameters.check_same(operation, &b.parameters)?;
        let noise_bits = log2_sum(a.noise_bits, b.noise_bits);
        check_noise(operation, &self.parameters, noise_bits)?;
        Ok(noise_bits)
    }

    fn with_summand<E: Into<ExactError>>(
        &self,
        operation: &'static str,
        a: &Ciphertext,
        b: &Plaintext,
        work: impl Fn(&mut Poly, &Poly) -> Result<(), E>,
    ) -> Result<Ciphertext, ExactError> {
        self.parameters.check_same(operation, &a.parameters)?;
        self.parameters.check_same(operation, b.parameters())?;
        let added = match self.parameters.scheme() {
            // The rounding of Q m / t.
            Scheme::Bfv => 0.5,
            Scheme::Bgv => f64::from(self.parameters.plain_modulus()) / 2.0,
        };
        let noise_bits = log2_sum(a.noise_bits, added.log2());
        check_noise(operation, &self.parameters, noise_bits)?;
        let mut result = a.clone();
        if let [c0, ..] = result.inner.components_mut() {
            work(c0, &b.summand()?).map_err(Into::into)?;
            // The result is a ciphertext. It does not hide the plaintext from anyone who has the operand.
            c0.declare_public();
        }
        result.noise_bits = noise_bits;
        Ok(result)
    }
}

/// `log2(2^a + 2^b)`.
fn log2_sum(a: f64, b: f64) -> f64 {
    a.max(b) + (-(a - b).abs()).exp2().ln_1p() / std::f64::consts::LN_2
}
