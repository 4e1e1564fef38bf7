//! Ciphertexts and keys of a parameter set that an adversary sees, with their security levels.

use unspoken_gsw::LweLiteral;
use unspoken_ring::ERROR_SIGMA;
use unspoken_rlwe::security::binary_security_bits;

use crate::client::Purpose;
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
    /// All objects that a client sends to a server or stores there, by their secret. [`PirParameters::new`] checks
    /// these numbers.
    pub fn secured_objects(&self) -> Vec<SecuredObject> {
        let purposes = [Purpose::Words, Purpose::Bits, Purpose::Responses];
        purposes.into_iter().flat_map(|purpose| self.objects_of(purpose)).collect()
    }

    /// The objects under the secret of a purpose.
    fn objects_of(&self, purpose: Purpose) -> Vec<SecuredObject> {
        let (ring, literal) = (self.ring(), self.literal());
        let in_ring = |what| binary(what, ring.degree(), ring.log2_modulus(), ERROR_SIGMA);
        let lwe = |what, literal: LweLiteral| binary(what, literal.dimension, f64::from(u32::BITS), literal.sigma());
        match purpose {
            Purpose::Words => vec![
                in_ring("ring key and packed query"),
                // The secret of the query itself is fresh, and of the same kind.
                in_ring("dense query and its keys"),
                in_ring("encrypted entry"),
                lwe("compact query", literal.compact),
                lwe("session query", literal.compact),
            ],
            Purpose::Bits => {
                vec![lwe("bits query", literal.bootstrap.lwe), lwe("LWE switch key", literal.bootstrap.lwe)]
            }
            Purpose::Responses => vec![self.response_object()],
        }
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
    use crate::{Mode, Preset};

    #[test]
    fn every_object_of_the_preset_is_secure_and_the_one_for_tests_is_not() {
        let objects = Preset::N11.build().unwrap().secured_objects();
        assert!(objects.iter().all(|object| object.security_bits >= 128.0), "{objects:?}");
        let weak = Preset::InsecureN11.build().unwrap().secured_objects();
        let found: Vec<bool> = weak.iter().map(|object| object.security_bits >= 128.0).collect();
        assert_eq!(found, [true, true, true, true, true, false, false, true], "only its LWE secret is short");
    }

    /// The purposes are the secrets: each is derived for one of them, and has rows.
    #[test]
    fn every_purpose_of_a_secret_has_objects() {
        let source = include_str!("client.rs");
        assert_eq!(source.matches("SecretRng::derived(").count(), 1);
        assert_eq!(source.matches("secrets_for(key, ").count(), 3);
        let parameters = Preset::N11.build().unwrap();
        let all = parameters.secured_objects();
        for purpose in [Purpose::Words, Purpose::Bits, Purpose::Responses] {
            let objects = parameters.objects_of(purpose);
            assert!(!objects.is_empty() && objects.iter().all(|object| all.contains(object)), "{purpose:?}");
        }
        for mode in Mode::ALL {
            assert!(all.iter().any(|object| object.what.contains(&format!("{mode} query"))), "{mode}");
        }
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
