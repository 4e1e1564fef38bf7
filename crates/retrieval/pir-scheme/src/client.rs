//! The client: secrets, keys, queries, and decryption of responses.

use unspoken_gsw::{
    LweSecret, Noise, RingSecret, SeededBlindRotationKey, SeededConversionKey, SeededLweSwitchKey, SeededRows,
};
use unspoken_ring::{Poly, SecretRng, Seed, declassify, derive_bytes, nearest_integer};
use zeroize::Zeroizing;

use crate::authentication::AuthenticationKey;
use crate::entry::{bytes_of, remove_pad};
use crate::error::SchemeError;
use crate::keys::SeededKeys;
use crate::mode::Mode;
use crate::packing::highest;
use crate::parameters::{PirParameters, RESPONSE_WEIGHTS};
use crate::query::Query;
use crate::response::Response;
use crate::shape::DatabaseShape;

/// A client's secrets. They never leave the client.
#[derive(Debug)]
pub struct PirSecret {
    parameters: PirParameters,
    /// Secret of compact queries; also the coefficients of `ring`.
    words: LweSecret,
    ring: RingSecret,
    /// Secret of queries with a word for each bit.
    lwe: LweSecret,
    response: Poly,
    /// Seed of the masks of session queries. It is public and the same for all keys of this secret.
    session: Seed,
    /// Key of the tags of encrypted entries.
    authentication: AuthenticationKey,
}

impl PirSecret {
    /// Derives the secrets from 32 random bytes, which are all that a client has to store. Anyone who knows them can
    /// read every query. A client that stores them for session queries must also store the next counter value.
    ///
    /// # Errors
    /// If a ring operation fails, which does not happen with checked parameters.
    pub fn derive(parameters: &PirParameters, key: &Zeroizing<[u8; 32]>) -> Result<Self, SchemeError> {
        let literal = parameters.literal();
        let words = LweSecret::generate(literal.compact, &mut secrets_for(key, Purpose::Words));
        let ring = RingSecret::from_lwe(parameters.ring(), &words)?;
        let lwe = LweSecret::generate(literal.bootstrap.lwe, &mut secrets_for(key, Purpose::Bits));
        let coefficients = wide_gaussian(parameters.response().degree(), &mut secrets_for(key, Purpose::Responses));
        let mut response = parameters.response().evaluate_i32(&coefficients, parameters.response_basis())?;
        response.mark_secret();
        let mut tags = Zeroizing::new([0; 32]);
        derive_bytes(DERIVATION_LABEL, &[key.as_slice(), b"tags of encrypted entries"], tags.as_mut_slice());
        let (session, authentication) = (session_seed(key), AuthenticationKey::new(tags));
        Ok(PirSecret { parameters: parameters.clone(), words, ring, lwe, response, session, authentication })
    }

    pub(crate) fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// The secret of the computation's ring. It decrypts what the steps of an answer produce, such as the results of
    /// [`expand`](crate::expand).
    pub fn ring(&self) -> &RingSecret {
        &self.ring
    }

    pub(crate) fn authentication(&self) -> &AuthenticationKey {
        &self.authentication
    }

    /// The phase, message plus noise, of a bit that is to be bootstrapped.
    #[cfg(test)]
    pub(crate) fn bit_phase(&self, ciphertext: &unspoken_gsw::LweCiphertext) -> Result<u32, SchemeError> {
        Ok(self.lwe.phase(ciphertext)?)
    }

    /// Evaluation keys for queries of a mode.
    ///
    /// # Errors
    /// If a ring operation fails, which does not happen with checked parameters.
    pub fn keys(&self, mode: Mode, rng: &mut SecretRng) -> Result<SeededKeys, SchemeError> {
        let (parameters, literal) = (&self.parameters, self.parameters.literal());
        let bootstrap = parameters.bootstrap();
        let rotation = match mode {
            Mode::Packed => None,
            _ => Some(SeededBlindRotationKey::generate(&self.lwe, &self.ring, bootstrap.rotation(), rng)?),
        };
        let compact = matches!(mode, Mode::Compact | Mode::Session).then(|| {
            let target = (&self.lwe, literal.bootstrap.lwe);
            SeededLweSwitchKey::generate(&self.words, target, literal.compact_switch, rng)
        });
        Ok(SeededKeys {
            parameters: parameters.clone(),
            mode,
            session: self.session,
            conversion: SeededConversionKey::generate(bootstrap, &self.ring, rng)?,
            rotation,
            compact,
            response: self.response_keys(rng)?,
        })
    }

    /// Generates fresh secrets.
    ///
    /// # Errors
    /// If a ring operation fails, which does not happen with checked parameters.
    pub fn generate(parameters: &PirParameters, rng: &mut SecretRng) -> Result<Self, SchemeError> {
        let mut key = Zeroizing::new([0; 32]);
        rng.fill(key.as_mut_slice());
        Self::derive(parameters, &key)
    }

    /// Public name of the secret, for files that hold the next counter value of its session queries.
    pub fn session_name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 name of a session of private retrieval");
        hasher.update(&self.session.0).finalize_xof().fill(&mut name);
        name
    }

    /// A query with a counter value instead of a seed.
    ///
    /// A counter value must never be used twice under one secret, even if the query is not sent: the difference of two
    /// such queries is the difference of their indices. The caller must store the next counter value before sending
    /// this query.
    ///
    /// # Errors
    /// If there is no such piece.
    pub fn session_query(
        &self,
        counter: u32,
        shape: DatabaseShape,
        index: u64,
        rng: &mut SecretRng,
    ) -> Result<Query, SchemeError> {
        shape.check_index(index)?;
        self.parameters.check_failure(shape, Mode::Session)?;
        let literal = self.parameters.literal().compact;
        let body = self.words.encrypt(compact_message(shape, index), (&self.session, counter.into()), literal, rng);
        Ok(Query::Session { counter, body })
    }

    /// A query for a piece, with fresh randomness.
    ///
    /// # Errors
    /// If there is no such piece, or for session queries, which need a counter value: [`PirSecret::session_query`].
    pub fn query(
        &self,
        mode: Mode,
        shape: DatabaseShape,
        index: u64,
        rng: &mut SecretRng,
    ) -> Result<Query, SchemeError> {
        shape.check_index(index)?;
        self.parameters.check_failure(shape, mode)?;
        let literal = self.parameters.literal();
        let bits = shape.index_bits();
        let bit = |i: u32| (index >> i & 1) as u32;
        Ok(match mode {
            Mode::Session => return Err(SchemeError::format("kind of queries", "session", "a number for the query")),
            Mode::Compact => {
                let (message, seed) = (compact_message(shape, index), rng.seed());
                Query::Compact { seed, body: self.words.encrypt(message, (&seed, 0), literal.compact, rng) }
            }
            Mode::Bits => {
                let (lwe, seed) = (literal.bootstrap.lwe, rng.seed());
                // Bodies are public, and so is their rounding.
                let body = |i: u32| self.lwe.encrypt(bit(i) << 31, (&seed, i.into()), lwe, rng);
                let rounded = |body: u32| highest(body, literal.bit_body_bits);
                Query::Bits { seed, bodies: (0..bits).map(body).map(rounded).collect() }
            }
            Mode::Packed => Query::Packed(self.packed_bits(&self.parameters.gadgets(shape), index, rng)?),
        })
    }

    /// Decrypts a piece. The response was computed from table `plane` and a query for `index`. No branch and no address
    /// depends on the index or the piece, except that an unreadable response is an error.
    ///
    /// # Errors
    /// If the response has other parameters, or its noise is too large: it was not computed from a query and keys of
    /// this secret, or a part of the computation failed.
    pub fn extract(&self, response: &Response, plane: usize, index: u64) -> Result<Zeroizing<Vec<u8>>, SchemeError> {
        let mut piece = self.extract_masked(response)?;
        remove_pad(&self.parameters, plane, index, &mut piece);
        Ok(piece)
    }

    /// Decrypts a piece as it is in its table: with its pad, or with its tag.
    ///
    /// # Errors
    /// As for [`PirSecret::extract`].
    pub(crate) fn extract_masked(&self, response: &Response) -> Result<Zeroizing<Vec<u8>>, SchemeError> {
        let bits = self.parameters.literal().plaintext_bits;
        let units = self.units(response)?;
        let rounded: Zeroizing<Vec<i32>> = Zeroizing::new(units.iter().map(|&unit| nearest(unit) as i32).collect());
        let piece = Zeroizing::new(bytes_of(&rounded, bits));
        let readable = self.noise(&units) <= self.parameters.unreadable();
        if declassify(readable) { Ok(piece) } else { Err(SchemeError::Unreadable) }
    }

    /// The noise of a response: the standard deviation of its coefficients from the values they are rounded to, as a
    /// fraction of the modulus. [`PirParameters::response_noise`] predicts it.
    ///
    /// # Errors
    /// If the response has other parameters.
    pub fn measured_noise(&self, response: &Response) -> Result<Noise, SchemeError> {
        Ok(self.noise(&self.units(response)?))
    }

    fn noise(&self, units: &[f64]) -> Noise {
        noise_of(units, self.parameters.literal().plaintext_bits)
    }

    /// The coefficients of the decrypted response, in units of the plaintext.
    fn units(&self, response: &Response) -> Result<Zeroizing<Vec<f64>>, SchemeError> {
        let (ring, literal) = (self.parameters.response(), self.parameters.literal());
        let mut mask = ring.from_i64(&response.mask_integers(), self.parameters.response_basis())?;
        ring.to_evaluation(&mut mask)?;
        let mut product = ring.mul(&mask, &self.response)?;
        ring.to_coefficients(&mut product)?;
        let modulus = f64::from(1 << literal.plaintext_bits);
        let products = ring.to_f64(&product)?;
        let (per_product, per_body) =
            (modulus / f64::from(literal.response.prime), modulus / f64::from(1u32 << literal.response.body_bits));
        let pairs = products.iter().zip(response.body());
        Ok(Zeroizing::new(pairs.map(|(product, &body)| product * per_product + f64::from(body) * per_body).collect()))
    }

    /// Gadget encryptions, in the ring of responses, of each part `s_k` of the secret `s(X) = sum_k X^k s_k(X^pieces)`.
    fn response_keys(&self, rng: &mut SecretRng) -> Result<Vec<SeededRows>, SchemeError> {
        let (ring, basis) = (self.parameters.response(), self.parameters.response_basis());
        let gadget = self.parameters.response_gadget();
        let pieces = self.parameters.pieces();
        let key = |piece: usize| {
            let words: Zeroizing<Vec<i32>> = Zeroizing::new(self.words.words().skip(piece).step_by(pieces).collect());
            let message = ring.evaluate_secret_i32(&words, basis)?;
            let (seed, mut bodies) = (rng.seed(), Vec::with_capacity(gadget.levels()));
            for level in 0..gadget.levels() {
                let error = wide_gaussian(ring.degree(), rng);
                let stream = (&seed, level as u32);
                let mut body = ring.small_minus_uniform_product(&error, stream, &self.response, basis)?;
                let mut weighted = message.clone();
                ring.scale_assign(&mut weighted, 1 << gadget.log2_weight(level))?;
                ring.add_assign(&mut body, &weighted)?;
                // `a s + e + weight m`.
                body.declare_public();
                bodies.push(body);
            }
            Ok(SeededRows::new(seed, gadget, bodies))
        };
        (0..pieces).map(key).collect()
    }
}

/// The mean square of the distances of decrypted coefficients from integers, as a fraction of the modulus. The
/// coefficients are in units of a plaintext of `plaintext_bits` bits.
pub(crate) fn noise_of(units: &[f64], plaintext_bits: u32) -> Noise {
    let squares: f64 = units.iter().map(|&unit| (unit - nearest(unit) as f64).powi(2)).sum();
    Noise(squares / units.len() as f64 * (-2.0 * f64::from(plaintext_bits)).exp2())
}

/// The nearest integer of a decrypted coefficient, without a branch. [`f64::round`] has one where the processor has no
/// instruction for it.
pub(crate) fn nearest(unit: f64) -> i64 {
    nearest_integer(unit) as i64
}

/// The message of a compact query: the index in the highest bits.
fn compact_message(shape: DatabaseShape, index: u64) -> u32 {
    (index as u32) << (u32::BITS - shape.index_bits())
}

const DERIVATION_LABEL: &str = "unspoken 2026 secrets of private retrieval";

/// What a secret of lattices is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Compact and session queries, and everything in the ring.
    Words,
    /// Queries with a word for each bit.
    Bits,
    Responses,
}

impl Purpose {
    /// Its part of the input of the hash.
    fn label(self) -> &'static str {
        match self {
            Purpose::Words => "words",
            Purpose::Bits => "bits",
            Purpose::Responses => "responses",
        }
    }
}

/// Random generator for the secrets of one purpose. It is the only one: the list of objects under a secret
/// ([`PirParameters::secured_objects`]) names the purposes.
fn secrets_for(key: &[u8; 32], purpose: Purpose) -> SecretRng {
    SecretRng::derived(DERIVATION_LABEL, &[key, purpose.label().as_bytes()])
}

/// Public seed of session queries. It reveals nothing about the secrets.
fn session_seed(key: &[u8; 32]) -> Seed {
    let mut seed = Seed([0; 32]);
    derive_bytes(DERIVATION_LABEL, &[key, b"session queries"], &mut seed.0);
    seed
}

/// Samples of errors and secrets in the ring of responses: sums of weighted discrete Gaussians.
fn wide_gaussian(count: usize, rng: &mut SecretRng) -> Zeroizing<Vec<i32>> {
    let mut sums = Zeroizing::new(vec![0i32; count]);
    for weight in RESPONSE_WEIGHTS {
        sums.iter_mut().zip(rng.gaussian(count).iter()).for_each(|(sum, sample)| *sum += weight * sample);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    /// Clients store 32 bytes; the secrets derived from them must not change with a release.
    #[test]
    fn a_stored_key_always_means_the_same_secrets() {
        let parameters = Preset::N11.build().unwrap();
        let secret = PirSecret::derive(&parameters, &Zeroizing::new([0x5A; 32])).unwrap();
        let mut hasher = blake3::Hasher::new();
        secret.words.words().chain(secret.lwe.words()).for_each(|word| {
            hasher.update(&[word as u8]);
        });
        let mut response = Vec::new();
        parameters.response().write_residues(&secret.response, &mut response);
        hasher.update(&response).update(&secret.session.0).update(&secret.session_name());
        let known = "9f3fcf37ef139173045fdc7131557b20339bc09d7b5153326b189c9b69de57d4";
        assert_eq!(hasher.finalize().to_hex().as_str(), known);
    }
}
