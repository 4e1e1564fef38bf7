//! The client's half of the published decomposition: secrets, keys, queries, and what checks need to decrypt.

use std::sync::Arc;

use unspoken_gsw::{
    BinaryRing, BlindRotationKey, CircuitBootstrapKey, LweCiphertext, LweSecret, LweSwitchKey, Rgsw, RingSecret,
    RlweCiphertext, SeededBlindRotationKey, SeededConversionKey, SeededLweSwitchKey,
};
use unspoken_ring::{Domain, SecretRng};

use super::parameters::Decomposition;

/// The secrets of a client.
pub(super) struct Client {
    pub(super) parameters: Decomposition,
    /// The LWE secret of queries and digits; its words are the coefficients of `ring`.
    pub(super) words: LweSecret,
    pub(super) ring: RingSecret,
    /// The small LWE secret, of bits.
    pub(super) lwe: LweSecret,
    rng: SecretRng,
}

/// The keys at the server, expanded.
pub(super) struct Keys {
    pub(super) parameters: Decomposition,
    /// `evk` and `evk^(0)` of Algorithms 17 and 20: the bits of the ring's secret, for digits.
    pub(super) floor: BlindRotationKey,
    /// `evk^(1)` of Algorithm 20: the same bits under a gadget for bits.
    pub(super) bits: BlindRotationKey,
    /// `ksk^(1)`: from the ring's secret to the small LWE secret.
    pub(super) switch: LweSwitchKey,
    /// The keys of Algorithm 15.
    pub(super) bootstrap: CircuitBootstrapKey,
}

impl Client {
    pub(super) fn new(parameters: &Decomposition, seed: u64) -> anyhow::Result<Self> {
        let mut rng = SecretRng::insecure_from_seed(seed);
        let literal = parameters.pir.literal();
        let words = LweSecret::generate(literal.compact, &mut rng);
        let ring = RingSecret::from_lwe(parameters.pir.ring(), &words)?;
        let lwe = LweSecret::generate(literal.bootstrap.lwe, &mut rng);
        Ok(Client { parameters: parameters.clone(), words, ring, lwe, rng })
    }

    pub(super) fn keys(&mut self) -> anyhow::Result<Keys> {
        let Decomposition { pir, floor, bits, .. } = &self.parameters;
        let (literal, bootstrap) = (pir.literal(), pir.bootstrap());
        let mut rotation = |secret: &LweSecret, gadget| {
            SeededBlindRotationKey::generate(secret, &self.ring, gadget, &mut self.rng)?.expand(pir.ring())
        };
        let (floor, bits) = (rotation(&self.words, *floor)?, rotation(&self.words, *bits)?);
        let rotation = rotation(&self.lwe, bootstrap.rotation())?;
        let target = (&self.lwe, literal.bootstrap.lwe);
        let switch = SeededLweSwitchKey::generate(&self.words, target, literal.compact_switch, &mut self.rng).expand();
        let conversion = SeededConversionKey::generate(bootstrap, &self.ring, &mut self.rng)?.expand()?;
        let bootstrap = CircuitBootstrapKey::new(rotation, Arc::new(conversion));
        Ok(Keys { parameters: self.parameters.clone(), floor, bits, switch, bootstrap })
    }

    /// A query: a seed and a body, here expanded. The index is in the highest digits of the message.
    pub(super) fn query(&mut self, index: u32) -> LweCiphertext {
        self.encrypt(index << (u32::BITS - self.parameters.message_bits()))
    }

    /// A fresh LWE ciphertext of a fraction of 2^32 under the ring's secret.
    pub(super) fn encrypt(&mut self, message: u32) -> LweCiphertext {
        let (literal, seed) = (self.parameters.pir.literal().compact, self.rng.seed());
        let body = self.words.encrypt(message, (&seed, 0), literal, &mut self.rng);
        LweCiphertext::expand(body, (&seed, 0), self.words.dimension())
    }
}

/// The number whose bits the ciphertexts encrypt, the lowest first.
pub(super) fn decrypted(secret: &RingSecret, bits: &[Rgsw]) -> anyhow::Result<u32> {
    let ring = secret.ring();
    let mut half = ring.zero(ring.basis(), Domain::Evaluation);
    ring.add_constant_assign(&mut half, fraction(ring, 0.5).into())?;
    let half = RlweCiphertext::trivial(ring, &half)?;
    let mut number = 0;
    for (i, bit) in bits.iter().enumerate() {
        let phase = ring.to_f64(&secret.phase(&bit.external_product(ring, &half)?)?)?;
        let is_one = phase[0].abs() > ring.log2_modulus().exp2() / 4.0;
        number |= u32::from(is_one) << i;
    }
    Ok(number)
}

/// A fraction of the ring's modulus, rounded.
pub(super) fn fraction(ring: &BinaryRing, fraction: f64) -> i64 {
    (ring.log2_modulus().exp2() * fraction).round() as i64
}
