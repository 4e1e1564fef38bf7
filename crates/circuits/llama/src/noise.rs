//! Noise of each operation of the circuit.
//!
//! `Noise::Bits(b)` adds Gaussian noise of `2^-b` times the largest value of each coordinate or head to each result but
//! sums. `Noise::Engine` has the noise of a ring's rescales and key switches at a scale, the noise of each polynomial's
//! products as the engine's simulator measures it, and a precision for bootstraps.

use std::collections::BTreeMap;

use unspoken_ckks::{CkksParameters, Complex64, Encoder, NoiseModel, Polynomial, Preset, Simulator, evaluate};

use crate::approximation::Approximation;
use crate::arithmetic::Function;
use crate::design::Design;
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::ranges::Interval;

/// Noise of the results of a simulated circuit, relative to the largest absolute value of each coordinate of
/// activations and of each head's scores and factors: encrypted arithmetic stores values divided by these (Section 3.4
/// of the paper).
#[derive(Clone, Debug, PartialEq)]
pub enum Noise {
    /// None: polynomials alone.
    None,
    /// A standard deviation of `2^-bits` for each result (Section 3.2 of the paper).
    Bits(f64),
    /// The noise of the engine's operations.
    Engine(EngineNoise),
}

/// Noise of the engine's operations, as its noise model predicts it. A ciphertext stores the values of a place divided
/// by the largest one, at a scale. Products, rotations and rescales have the noise of the parameters; a polynomial has
/// the noise of its products, measured with the engine's simulator; bootstraps have a given precision. Linear maps run
/// inside a bootstrap; the factors of norms and of softmax are bootstrapped, and so is the residual stream of each
/// layer. Other bootstraps that a plan places are not simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineNoise {
    /// Of a product of two ciphertexts, relinearised and rescaled.
    product: f64,
    bootstrap: f64,
    /// Noise of the polynomials of each place, over the noise of a product.
    functions: BTreeMap<Place, f64>,
}

/// Parameters at which the noise of polynomials is measured. The ratio to the noise of a product hardly depends on the
/// degree of the ring: the measured noise includes the argument's encryption, which adds less in a larger ring.
const MEASURED_AT: &str = "insecure_n11_depth9_scale50";

impl EngineNoise {
    /// The noise of operations of a ring at a scale of `scale_bits` bits, whose bootstraps have errors of
    /// `2^-bootstrap_bits` of the largest value.
    ///
    /// # Errors
    /// If a polynomial of the design needs more levels than the parameters of the measurement have.
    pub fn new(
        parameters: &CkksParameters,
        scale_bits: f64,
        bootstrap_bits: f64,
        design: &Design,
    ) -> Result<Self, CircuitError> {
        let product = product_noise(parameters, scale_bits);
        let small = Preset::find(MEASURED_AT)?.build()?;
        let mut measured = BTreeMap::new();
        let mut functions = BTreeMap::new();
        for (place, approximation) in design.approximations() {
            let (function, widest) = (approximation.function(), approximation.intervals()[widest(approximation)]);
            let key = (function, approximation.degree(), on_grid(function, &widest));
            let ratio = match measured.get(&key) {
                Some(ratio) => *ratio,
                None => *measured.entry(key).or_insert(function_noise(&small, approximation)?),
            };
            functions.insert(place, ratio);
        }
        Ok(EngineNoise { product, bootstrap: (-bootstrap_bits).exp2(), functions })
    }

    fn deviation(&self, place: Place) -> f64 {
        use Quantity as Q;
        let (products, bootstrapped) = match place.quantity {
            // Sums of ciphertexts are exact; the stream is bootstrapped once in each layer.
            Q::MiddleResidual => (0.0, false),
            Q::Residual => (0.0, true),
            Q::Query | Q::Key | Q::Value | Q::AttentionOutput | Q::Gate | Q::Up | Q::FfnOutput | Q::Logits => {
                (1.0, true)
            }
            Q::AttentionNormFactor
            | Q::QueryNormFactor
            | Q::KeyNormFactor
            | Q::FfnNormFactor
            | Q::LastNormFactor
            | Q::SoftmaxFactor(_) => (self.function(place), true),
            Q::Exponential | Q::Silu => (self.function(place), false),
            // A product with plaintexts, and rotations.
            Q::RotatedQuery | Q::RotatedKey | Q::Score | Q::Attention => (std::f64::consts::SQRT_2, false),
            Q::AttentionNormSquare
            | Q::AttentionNorm
            | Q::QueryNormSquare
            | Q::QueryNorm
            | Q::KeyNormSquare
            | Q::KeyNorm
            | Q::SoftmaxSquare(_)
            | Q::SoftmaxScaled(_)
            | Q::SoftmaxWeight(_)
            | Q::FfnNormSquare
            | Q::FfnNorm
            | Q::Hidden
            | Q::LastNormSquare
            | Q::LastNorm => (1.0, false),
        };
        (products * self.product).hypot(if bootstrapped { self.bootstrap } else { 0.0 })
    }

    fn function(&self, place: Place) -> f64 {
        self.functions.get(&place).copied().unwrap_or(1.0)
    }
}

impl Noise {
    /// The standard deviation of the noise of a result, over the largest absolute value of its place. Sums have none
    /// but where the engine bootstraps them.
    pub(crate) fn deviation(&self, place: Place) -> f64 {
        match self {
            Noise::None => 0.0,
            Noise::Bits(_) if matches!(place.quantity, Quantity::Residual | Quantity::MiddleResidual) => 0.0,
            Noise::Bits(bits) => (-bits).exp2(),
            Noise::Engine(noise) => noise.deviation(place),
        }
    }
}

/// Noise of a product of two values of at most 1, with its relinearisation at the largest level and its rescale. The
/// model's slots are complex; a real value has half of their variance.
fn product_noise(parameters: &CkksParameters, scale_bits: f64) -> f64 {
    let model = NoiseModel::new(parameters);
    let noise = model.rounding(2).hypot(model.key_switch(parameters.basis(parameters.max_level())));
    noise * std::f64::consts::FRAC_1_SQRT_2 / scale_bits.exp2()
}

/// The extent of an interval on a grid of quarters of a bit.
fn on_grid(function: Function, interval: &Interval) -> i64 {
    (4.0 * function.extent(interval).log2()).ceil() as i64
}

/// The index of the interval with the largest extent.
fn widest(approximation: &Approximation) -> usize {
    approximation.function().widest(approximation.intervals())
}

/// Noise of the polynomial on the widest interval, over the noise of a product. The argument is in `[-1, 1]`, and the
/// result is divided by its largest value.
fn function_noise(parameters: &CkksParameters, approximation: &Approximation) -> Result<f64, CircuitError> {
    let polynomial = approximation.polynomial(widest(approximation))?;
    let arguments: Vec<Complex64> = (0..parameters.slots()).map(|slot| (slot as f64 * 0.7).cos().into()).collect();
    let unit = Polynomial::chebyshev(polynomial.coefficients(), -1.0, 1.0)?;
    let largest = arguments.iter().map(|x| unit.at(*x).norm()).fold(f64::MIN_POSITIVE, f64::max);
    let coefficients: Vec<Complex64> = unit.coefficients().iter().map(|c| c / largest).collect();
    let unit = Polynomial::chebyshev(&coefficients, -1.0, 1.0)?;
    let encoder = Encoder::new(parameters);
    let simulator = Simulator::new(&encoder, 1);
    let input = simulator.encrypt(&arguments, parameters.max_level(), parameters.scale())?;
    let output = evaluate(&simulator, &input, &unit)?;
    let errors = output.error().rms * std::f64::consts::FRAC_1_SQRT_2;
    Ok(errors / product_noise(parameters, parameters.scale().log2()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unspoken_ckks::Arithmetic;

    #[test]
    fn the_noise_of_a_product_is_that_of_the_engines_simulator() {
        let parameters = Preset::find(MEASURED_AT).unwrap().build().unwrap();
        let encoder = Encoder::new(&parameters);
        let simulator = Simulator::new(&encoder, 3);
        let values: Vec<Complex64> = (0..parameters.slots()).map(|slot| (slot as f64).sin().into()).collect();
        let input = simulator.encrypt(&values, parameters.max_level(), parameters.scale()).unwrap();
        let square = simulator.multiply(&input, &input).unwrap();
        let predicted = product_noise(&parameters, parameters.scale().log2()) * std::f64::consts::SQRT_2;
        let ratio = square.error().rms / predicted;
        assert!((0.7..1.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn polynomials_of_higher_degree_and_wider_intervals_are_noisier_than_a_product() {
        let parameters = Preset::find(MEASURED_AT).unwrap().build().unwrap();
        let noise = |degree, ratio| {
            let interval = Interval { low: 1.0, high: ratio };
            let approximation = Approximation::new(Function::InverseSqrt, 2, degree, vec![interval]).unwrap();
            function_noise(&parameters, &approximation).unwrap()
        };
        let (small, large) = (noise(15, 10.0), noise(127, 800.0));
        assert!(small > 1.0 && large > small && large < 1000.0, "{small} {large}");
    }
}
