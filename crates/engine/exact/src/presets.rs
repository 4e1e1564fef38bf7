//! Named parameter sets. A name contains the ring degree and the bits of the plaintext modulus.

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{RingKind, RingLiteral};
use unspoken_rlwe::ParametersLiteral;
use unspoken_rlwe::security::SecretDistribution;

use crate::error::ExactError;
use crate::parameters::{ExactLiteral, ExactParameters, Scheme};

/// The shape of a preset; its primes are derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name: `n<log2 degree>_exact<bits of the plaintext modulus>`, with the prefix `insecure_` if it has less than
    /// 128 bits of security.
    pub name: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
    log2_degree: u32,
    plain_bits: u32,
    /// Bits of each prime.
    prime_bits: &'static [u32],
}

/// All presets, each for BFV and BGV. All except the insecure ones have 128 bits of security.
pub const PRESETS: [Preset; 7] = [
    preset("n12_exact17", "counts up to 57344, two products with vectors, small ciphertexts", (12, 17), &[30; 3]),
    preset("n12_exact30", "sums of 30 bits, no product with vectors, small ciphertexts", (12, 30), &[30; 3]),
    preset("n13_exact30", "sums of 30 bits, four products with vectors", (13, 30), &[30; 7]),
    preset("n14_exact30", "sums of 30 bits, eight products with vectors", (14, 30), &[30; 14]),
    preset("n15_exact17", "the size of the encryption benchmark", (15, 17), &WIDEST),
    preset("insecure_n10_exact17", "tests", (10, 17), &[30; 3]),
    preset("insecure_n10_exact30", "tests of large values", (10, 30), &[30; 5]),
];

/// The largest modulus with 128 bits of security at degree 2^15: 28 primes of 30 bits and one of 28.
const WIDEST: [u32; 29] = {
    let mut bits = [30; 29];
    bits[28] = 28;
    bits
};

const fn preset(
    name: &'static str,
    purpose: &'static str,
    (log2_degree, plain_bits): (u32, u32),
    prime_bits: &'static [u32],
) -> Preset {
    Preset { name, purpose, log2_degree, plain_bits, prime_bits }
}

impl Preset {
    /// Whether it is for tests only.
    pub fn is_insecure(&self) -> bool {
        self.name.starts_with("insecure_")
    }

    /// The preset of that name.
    ///
    /// # Errors
    /// If there is none; the message lists all presets.
    pub fn find(name: &str) -> Result<&'static Preset, ExactError> {
        PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
            let reason = format!("no such preset; there are {}", names.join(", "));
            ExactError::Literal { name: name.into(), reason }
        })
    }

    /// The literal. The plaintext modulus and then each prime of the chain is the largest unused prime with its number
    /// of bits.
    ///
    /// # Errors
    /// If there are too few primes of the requested bits.
    pub fn literal(&self, scheme: Scheme) -> Result<ExactLiteral, ExactError> {
        let degree = 1usize << self.log2_degree;
        let kind = RingKind::Standard;
        let mut used = Vec::new();
        let mut take = |bits: u32| {
            let free = primes_descending(1 << (bits - 1), 1 << bits, kind.prime_step(degree));
            let prime = free.into_iter().find(|q| !used.contains(q)).ok_or_else(|| {
                let reason = format!("too few primes of {bits} bits, 1 modulo {}", kind.prime_step(degree));
                ExactError::Literal { name: self.name.into(), reason }
            })?;
            used.push(prime);
            Ok::<u32, ExactError>(prime)
        };
        let plain_modulus = take(self.plain_bits)?;
        let chain = self.prime_bits.iter().map(|&bits| take(bits)).collect::<Result<Vec<u32>, _>>()?;
        let ring = RingLiteral { degree, kind, chain, terminal: vec![], special: vec![], digit_len: 1 };
        let secret = SecretDistribution::UniformTernary;
        let rlwe = ParametersLiteral { name: self.name.into(), ring, secret, encapsulation: None };
        Ok(ExactLiteral { rlwe, scheme, plain_modulus })
    }

    /// Builds the parameters.
    ///
    /// # Errors
    /// As for [`Preset::literal`] and [`ExactParameters::new`].
    pub fn build(&self, scheme: Scheme) -> Result<ExactParameters, ExactError> {
        ExactParameters::new(self.literal(scheme)?)
    }
}

#[cfg(test)]
mod tests {
    use unspoken_rlwe::security::{SECURITY_BITS, max_log2_modulus};

    use super::*;

    #[test]
    fn names_say_the_truth() {
        for preset in &PRESETS {
            let literal = preset.literal(Scheme::Bfv).unwrap();
            let ring = &literal.rlwe.ring;
            let bits: f64 = ring.chain.iter().map(|&q| f64::from(q).log2()).sum();
            let bound = max_log2_modulus(ring.degree, literal.rlwe.secret).unwrap();
            assert_eq!(bits <= bound, !preset.is_insecure(), "{}: {bits:.1} of {bound}", preset.name);
            let name = format!("n{}_exact{}", ring.degree.ilog2(), literal.plain_modulus.ilog2() + 1);
            assert_eq!(preset.name.trim_start_matches("insecure_"), name);
        }
    }

    #[test]
    fn presets_build_for_both_schemes() {
        for preset in PRESETS.iter().filter(|p| p.log2_degree <= 13) {
            for scheme in [Scheme::Bfv, Scheme::Bgv] {
                let parameters = preset.build(scheme).unwrap();
                let secure = parameters.rlwe().secured_objects().iter().all(|o| o.security_bits >= SECURITY_BITS);
                assert_eq!(secure, !preset.is_insecure(), "{}", preset.name);
            }
        }
    }

    #[test]
    fn unknown_names_list_the_known_ones() {
        let message = Preset::find("n99").unwrap_err().to_string();
        assert!(message.contains("n12_exact17"), "{message}");
    }
}
