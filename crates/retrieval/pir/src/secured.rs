//! Ciphertexts and keys of a parameter set that an adversary sees, with their security levels.

use unspoken_gsw::LweLiteral;
use unspoken_ring::ERROR_SIGMA;
use unspoken_rlwe::security::binary_security_bits;

use crate::parameters::{PirParameters, RESPONSE_CHECKED, response_sigma};

/// One kind of ciphertext or key that an adversary sees.
#[derive(Clone, Debug, PartialEq)]
pub struct SecuredObject {
    /// Name of the object.
    pub what: &'static str,
    /// Ring degree, or LWE dimension.
    pub dimension: usize,
    /// `log2` of its modulus.
    pub log2_modulus: f64,
    /// Distribution of its secret, as text for output.
    pub secret: &'static str,
    /// Standard deviation of its errors.
    pub sigma: f64,
    /// Security level in bits. For binary secrets it is at most 128.
    pub security_bits: f64,
}

const BINARY: &str = "uniform binary";

impl PirParameters {
    /// All objects that a client sends to a server or stores there, by their secret: the numbers behind the checks of
    /// [`PirParameters::new`].
    pub fn secured_objects(&self) -> Vec<SecuredObject> {
        let (ring, literal) = (self.ring(), self.literal());
        let lwe = |what, literal: LweLiteral| binary(what, literal.dimension, f64::from(u32::BITS), literal.sigma());
        vec![
            binary("ring key and packed query", ring.degree(), ring.log2_modulus(), ERROR_SIGMA),
            binary("dense query and its keys", ring.degree(), ring.log2_modulus(), ERROR_SIGMA),
            lwe("compact query", literal.compact),
            lwe("bits query", literal.bootstrap.lwe),
            lwe("LWE switch key", literal.bootstrap.lwe),
            self.response_object(),
        ]
    }

    /// Keys of the switch to the ring of responses, and responses. They are at least as secure as the pair of degree
    /// and modulus that was checked.
    fn response_object(&self) -> SecuredObject {
        let (degree, most, bits) = RESPONSE_CHECKED;
        let literal = &self.literal().response;
        let (log2_modulus, sigma) = (f64::from(literal.prime).log2(), response_sigma());
        let within = literal.degree >= degree && log2_modulus - sigma.log2() <= most;
        SecuredObject {
            what: "key to the ring of responses",
            dimension: literal.degree,
            log2_modulus,
            secret: "Gaussian, as wide as the errors",
            sigma,
            security_bits: if within { bits } else { 0.0 },
        }
    }
}

fn binary(what: &'static str, dimension: usize, log2_modulus: f64, sigma: f64) -> SecuredObject {
    let security_bits = binary_security_bits(dimension, log2_modulus - sigma.log2());
    SecuredObject { what, dimension, log2_modulus, secret: BINARY, sigma, security_bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn every_object_of_the_preset_is_secure_and_the_one_for_tests_is_not() {
        let objects = Preset::N11.build().unwrap().secured_objects();
        assert!(objects.iter().all(|object| object.security_bits >= 128.0), "{objects:?}");
        let weak = Preset::InsecureN11.build().unwrap().secured_objects();
        let found: Vec<bool> = weak.iter().map(|object| object.security_bits >= 128.0).collect();
        assert_eq!(found, [true, true, true, false, false, true], "only its LWE secret is short");
    }

    #[test]
    fn deviations_are_those_of_what_is_drawn() {
        let objects = Preset::N11.build().unwrap().secured_objects();
        let sigma = |what: &str| objects.iter().find(|object| object.what == what).unwrap().sigma;
        assert_eq!(sigma("compact query"), ERROR_SIGMA);
        // Errors for bits are sums of 15 Gaussians, each twice as wide as the one before.
        let squares: f64 = (0..15).map(|i| 4f64.powi(i)).sum();
        assert!((sigma("bits query") / (ERROR_SIGMA * squares.sqrt()) - 1.0).abs() < 1e-12);
        assert!((253.0..255.0).contains(&sigma("key to the ring of responses")));
    }
}
