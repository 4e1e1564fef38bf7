//! Growth of noise, as variances (Pirouette, appendix A), and the probability of failure.
//!
//! The model takes the coefficients of digits and rounding errors as uniform, and errors as independent. A binary
//! secret has second moment 1/2. All noise is in units of the ring's modulus `Q`, so noises under different moduli can
//! be added.

use unspoken_ring::{DigitGadget, ERROR_SIGMA};

use crate::parameters::{BinaryRing, BootstrapParameters};

/// Noise as a fraction of the modulus: the variance of one coefficient over `Q^2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Noise(pub f64);

impl Noise {
    /// The sum of two independent noises.
    pub fn plus(self, other: Noise) -> Noise {
        Noise(self.0 + other.0)
    }

    /// The sum of `squared_norm` independent noises, or the noise after a product with a factor of this squared norm.
    pub fn times(self, squared_norm: f64) -> Noise {
        Noise(self.0 * squared_norm)
    }

    /// `log2` of the standard deviation over the modulus.
    pub fn log2_deviation(self) -> f64 {
        self.0.log2() / 2.0
    }

    /// The noise of fresh errors in a ring.
    pub fn fresh(ring: &BinaryRing) -> Noise {
        Noise((ERROR_SIGMA.log2() - ring.log2_modulus()).exp2().powi(2))
    }

    /// The noise of rounding a ciphertext of `dimension` words under a binary secret to a modulus of `log2_modulus`
    /// bits.
    pub fn switching(dimension: usize, log2_modulus: f64) -> Noise {
        Noise((1.0 + dimension as f64 / 2.0) / 12.0 * (-2.0 * log2_modulus).exp2())
    }

    /// The noise that a product with a gadget encryption adds, if the rows have errors `row` and the encrypted message
    /// is at most 1: the errors of the rows times the digits, plus the message times the rounding of the digits. For
    /// one component the message is the whole key, for two it is a bit.
    pub fn product(ring: &BinaryRing, gadget: DigitGadget, components: usize, row: Noise) -> Noise {
        let rows = (components * gadget.levels() * ring.degree()) as f64;
        row.times(rows * digit_square(gadget.log2_base())).plus(Self::rounding(ring, gadget))
    }

    /// The noise of rounding a ciphertext to digits.
    fn rounding(ring: &BinaryRing, gadget: DigitGadget) -> Noise {
        Self::unit(ring, gadget).times(1.0 + ring.degree() as f64 / 2.0)
    }

    /// The rounding error of one coefficient.
    fn unit(ring: &BinaryRing, gadget: DigitGadget) -> Noise {
        let log2_unit = f64::from(gadget.log2_weight(0)) - ring.log2_modulus();
        if gadget.log2_weight(0) == 0 { Noise(0.0) } else { Noise(log2_unit.exp2().powi(2) / 12.0) }
    }

    /// The noise of a blind rotation of a noiseless table with a key of `dimension` bits.
    ///
    /// A step multiplies the product by `X^a - 1`, which doubles its variance; the rounding counts only where the bit
    /// is 1.
    pub fn rotation(ring: &BinaryRing, gadget: DigitGadget, dimension: usize) -> Noise {
        let rows = (2 * gadget.levels() * ring.degree()) as f64;
        let step = Self::fresh(ring).times(rows * digit_square(gadget.log2_base()));
        let rounding = Self::rounding(ring, gadget);
        step.times(2.0 * dimension as f64).plus(rounding.times(dimension as f64))
    }

    /// The rows of a circuit bootstrap's result, as seen by a product with digits in every coefficient: `(rows for c_0,
    /// rows for c_1)`.
    ///
    /// The trace keeps only the constant coefficient of the rotation's noise. Every later step of the trace doubles the
    /// noise of a step in half of the coefficients: the mean of the sum is `N` times one step. The rows for `c_1` hold
    /// this noise times the secret, plus the noise of the squaring. The message of the squaring is the square of a
    /// secret whose coefficients have mean one half, so its coefficients rise from `-N/4` to `N/4`.
    pub fn bootstrap(parameters: &BootstrapParameters) -> (Noise, Noise) {
        let (ring, trace) = (parameters.ring(), parameters.trace());
        let degree = ring.degree() as f64;
        let switch = Self::product(ring, trace, 1, Self::fresh(ring));
        let body = Self::bootstrapped_weight(parameters).times(1.0 / degree).plus(switch.times(degree));
        let squaring = switch.plus(Self::unit(ring, trace).times(degree.powi(3) / 48.0));
        let by_secret = body.times(degree / 2.0).plus(squaring);
        (body, by_secret)
    }

    /// The noise of the coefficient of a gadget weight that a circuit bootstrap takes out of a rotation, before the
    /// trace, which keeps this coefficient alone.
    pub fn bootstrapped_weight(parameters: &BootstrapParameters) -> Noise {
        Self::rotation(parameters.ring(), parameters.rotation(), parameters.lwe().dimension)
    }

    /// The noise that an external product with a result of a circuit bootstrap adds.
    pub fn bootstrapped_product(parameters: &BootstrapParameters) -> Noise {
        Self::rgsw_product(parameters, parameters.output())
    }

    /// The noise that an external product adds with an RGSW ciphertext of a gadget that a conversion has made from
    /// ciphertexts with the noise of a circuit bootstrap.
    pub fn rgsw_product(parameters: &BootstrapParameters, gadget: DigitGadget) -> Noise {
        let ring = parameters.ring();
        let (body, by_secret) = Self::bootstrap(parameters);
        let rows = (gadget.levels() * ring.degree()) as f64 * digit_square(gadget.log2_base());
        body.plus(by_secret).times(rows).plus(Self::rounding(ring, gadget))
    }
}

/// The mean square of a signed digit of `log2_base` bits, uniform in `-B/2 .. B/2` or in its mirror image.
pub fn digit_square(log2_base: u32) -> f64 {
    (f64::from(2 * log2_base).exp2() + 2.0) / 12.0
}

/// `log2` of a bound on the probability that one of `count` Gaussian noises exceeds `bound`, a fraction of the modulus.
pub fn log2_failure(noise: Noise, bound: f64, count: f64) -> f64 {
    (log2_tail(bound / noise.0.sqrt()) + count.log2()).min(0.0)
}

/// As [`log2_failure`], for `count` noises of which a part has a common random factor: their common variance is `fixed`
/// plus `shared` times the mean of `freedom` squared normal variables. Products with one RGSW ciphertext have such
/// noise, because the errors of its rows are a few numbers times the secret.
pub fn log2_failure_of_shared(fixed: Noise, shared: Noise, bound: f64, count: f64, freedom: usize) -> f64 {
    let (k, step) = (freedom as f64, 1.02f64);
    // The sum over a fine geometric grid of the probability that the factor is about u, times the probability that a
    // noise of that size exceeds the bound. Each interval is bounded by its largest density and its upper end.
    let half = k / 2.0;
    let log2_density = |u: f64| {
        // k u is chi-squared: u^(k/2 - 1) exp(-k u / 2) (k/2)^(k/2) / gamma(k/2).
        let ln = (half - 1.0) * u.ln() - half * u + half * half.ln() - ln_gamma(half);
        ln * std::f64::consts::LOG2_E
    };
    let grid = std::iter::successors(Some(0.05), |u| Some(u * step)).take_while(|u| *u < 200.0);
    let terms = grid.map(|u| {
        let density = log2_density(u).max(log2_density(u * step));
        (density + (u * (step - 1.0)).log2() + log2_tail(bound / (fixed.0 + shared.0 * u * step).sqrt())).exp2()
    });
    (terms.sum::<f64>().log2() + count.log2()).min(0.0)
}

/// `log2` of a bound on the probability that a normal variable exceeds this many standard deviations in magnitude:
/// `erfc(t) <= exp(-t^2) / (t sqrt(pi))`.
fn log2_tail(deviations: f64) -> f64 {
    let t = deviations / std::f64::consts::SQRT_2;
    -t * t * std::f64::consts::LOG2_E - (t * std::f64::consts::PI.sqrt()).log2()
}

/// The natural logarithm of gamma at a positive multiple of one half.
fn ln_gamma(x: f64) -> f64 {
    let (mut sum, mut at) = (0.0, x);
    while at > 1.0 {
        at -= 1.0;
        sum += at.ln();
    }
    // gamma(1) = 1, gamma(1/2) = sqrt(pi).
    if at == 0.5 { sum + std::f64::consts::PI.ln() / 2.0 } else { sum }
}
