//! The asking side: secrets, keys, queries, and what responses say.

use unspoken_gsw::{LweSecret, Noise, RingSecret, SeededBlindRotationKey, SeededConversionKey, SeededLweSwitchKey};
use unspoken_ring::{DigitKey, Domain, Poly, SecretRng};
use zeroize::Zeroizing;

use crate::database::bytes_of;
use crate::error::{PirError, range};
use crate::keys::{Mode, SeededKeys};
use crate::parameters::{PirParameters, RESPONSE_WEIGHTS};
use crate::query::Query;
use crate::response::Response;
use crate::shape::DatabaseShape;

/// A client's secrets. They never leave it.
#[derive(Debug)]
pub struct PirSecret {
    parameters: PirParameters,
    /// Of the computation's ring and of compact queries.
    words: LweSecret,
    ring: RingSecret,
    /// Of queries with a word for each bit.
    lwe: LweSecret,
    response: Poly,
}

impl PirSecret {
    /// Fresh secrets.
    ///
    /// # Errors
    /// If a ring refuses, which checked parameters rule out.
    pub fn generate(parameters: &PirParameters, rng: &mut SecretRng) -> Result<Self, PirError> {
        let literal = parameters.literal();
        let words = LweSecret::generate(literal.compact, rng);
        let ring = RingSecret::from_lwe(parameters.ring(), &words)?;
        let lwe = LweSecret::generate(literal.bootstrap.lwe, rng);
        let coefficients = wide_gaussian(parameters.response().degree(), rng);
        let mut response = parameters.response().evaluate_i32(&coefficients, parameters.response_basis())?;
        response.mark_secret();
        Ok(PirSecret { parameters: parameters.clone(), words, ring, lwe, response })
    }

    /// Evaluation keys for queries of a mode.
    ///
    /// # Errors
    /// If a ring refuses, which checked parameters rule out.
    pub fn keys(&self, mode: Mode, rng: &mut SecretRng) -> Result<SeededKeys, PirError> {
        let (parameters, literal) = (&self.parameters, self.parameters.literal());
        let bootstrap = parameters.bootstrap();
        let rotation = match mode {
            Mode::Packed => None,
            _ => Some(SeededBlindRotationKey::generate(&self.lwe, &self.ring, bootstrap.rotation(), rng)?),
        };
        let compact = (mode == Mode::Compact).then(|| {
            let target = (&self.lwe, literal.bootstrap.lwe);
            SeededLweSwitchKey::generate(&self.words, target, literal.compact_switch, rng)
        });
        Ok(SeededKeys {
            parameters: parameters.clone(),
            conversion: SeededConversionKey::generate(bootstrap, &self.ring, rng)?,
            rotation,
            compact,
            response: self.response_keys(rng)?,
        })
    }

    /// A query for a piece. Every query has fresh randomness.
    ///
    /// # Errors
    /// If there is no such piece.
    pub fn query(&self, mode: Mode, shape: DatabaseShape, index: u64, rng: &mut SecretRng) -> Result<Query, PirError> {
        if index >= shape.pieces {
            return Err(range("ask for a record", index, format!("an index below {}", shape.pieces)));
        }
        let (literal, seed) = (self.parameters.literal(), rng.seed());
        let bits = shape.index_bits();
        let bit = |i: u32| (index >> i & 1) as u32;
        Ok(match mode {
            Mode::Compact => {
                let message = (index as u32) << (u32::BITS - bits);
                Query::Compact { seed, body: self.words.encrypt(message, (&seed, 0), literal.compact, rng) }
            }
            Mode::Bits => {
                let lwe = literal.bootstrap.lwe;
                let bodies = (0..bits).map(|i| self.lwe.encrypt(bit(i) << 31, (&seed, i.into()), lwe, rng));
                Query::Bits { seed, bodies: bodies.collect() }
            }
            Mode::Packed => {
                let (ring, output) = (self.parameters.ring(), self.parameters.bootstrap().output());
                let count = (bits as usize * output.levels()).next_power_of_two();
                let mut coefficients = Zeroizing::new(vec![0i64; ring.degree()]);
                for (i, level) in (0..bits).flat_map(|i| (0..output.levels()).map(move |level| (i, level))) {
                    let place = (i as usize * output.levels() + level) * (ring.degree() / count);
                    coefficients[place] = i64::from(bit(i)) << output.log2_weight(level);
                }
                let mut message = ring.evaluate_i64(&coefficients, ring.basis())?;
                message.mark_secret();
                Query::Packed { seed, body: self.ring.encrypt_seeded(&message, &seed, rng)? }
            }
        })
    }

    /// The piece in a response.
    ///
    /// # Errors
    /// If the response is of other parameters.
    pub fn extract(&self, response: &Response) -> Result<Vec<u8>, PirError> {
        let bits = self.parameters.literal().plaintext_bits;
        let units: Vec<i32> = self.units(response)?.iter().map(|unit| unit.round() as i32).collect();
        Ok(bytes_of(&units, bits))
    }

    /// The noise of a response: the standard deviation of its coefficients from what they are rounded to, as a fraction of
    /// the modulus. [`PirParameters::response_noise`] predicts it.
    ///
    /// # Errors
    /// If the response is of other parameters.
    pub fn measured_noise(&self, response: &Response) -> Result<Noise, PirError> {
        let units = self.units(response)?;
        let squares: f64 = units.iter().map(|unit| (unit - unit.round()).powi(2)).sum();
        let unit = (-2.0 * f64::from(self.parameters.literal().plaintext_bits)).exp2();
        Ok(Noise(squares / units.len() as f64 * unit))
    }

    /// The coefficients of the opened response in units of the plaintext.
    fn units(&self, response: &Response) -> Result<Zeroizing<Vec<f64>>, PirError> {
        let (ring, literal) = (self.parameters.response(), self.parameters.literal());
        let mut mask = ring.from_i64(&response.mask_integers(), self.parameters.response_basis())?;
        ring.to_evaluation(&mut mask)?;
        let mut product = ring.mul(&mask, &self.response)?;
        product.mark_secret();
        ring.to_coefficients(&mut product)?;
        let modulus = f64::from(1 << literal.plaintext_bits);
        let products = Zeroizing::new(ring.to_f64(&product)?);
        let (per_product, per_body) =
            (modulus / f64::from(literal.response.prime), modulus / f64::from(1u32 << literal.response.body_bits));
        let pairs = products.iter().zip(response.body());
        Ok(Zeroizing::new(pairs.map(|(product, &body)| product * per_product + f64::from(body) * per_body).collect()))
    }

    /// For each piece `s_k` of the secret `s(X) = sum_k X^k s_k(X^pieces)` a gadget encryption in the ring of responses.
    fn response_keys(&self, rng: &mut SecretRng) -> Result<Vec<DigitKey>, PirError> {
        let (ring, basis) = (self.parameters.response(), self.parameters.response_basis());
        let gadget = self.parameters.response_gadget();
        let pieces = self.parameters.pieces();
        let key = |piece: usize| {
            let words: Zeroizing<Vec<i32>> = Zeroizing::new(self.words.words().skip(piece).step_by(pieces).collect());
            let mut message = ring.evaluate_i32(&words, basis)?;
            message.mark_secret();
            let mut rows: Vec<[Poly; 2]> = Vec::with_capacity(gadget.levels());
            for level in 0..gadget.levels() {
                let (seed, error) = (rng.seed(), wide_gaussian(ring.degree(), rng));
                let mut body = ring.small_minus_uniform_product(&error, (&seed, 0), &self.response, basis)?;
                let mut weighted = message.clone();
                weighted.mark_secret();
                ring.scale_assign(&mut weighted, 1 << gadget.log2_weight(level))?;
                ring.add_assign(&mut body, &weighted)?;
                rows.push([body, ring.uniform(&seed, 0, basis)]);
            }
            let rows: Vec<[&Poly; 2]> = rows.iter().map(|[a, b]| [a, b]).collect();
            debug_assert!(rows.iter().flatten().all(|poly| poly.domain() == Domain::Evaluation));
            Ok(ring.digit_key(gadget, &rows)?)
        };
        (0..pieces).map(key).collect()
    }
}

/// Errors and secrets of the ring of responses: sums of weighted discrete Gaussians.
fn wide_gaussian(count: usize, rng: &mut SecretRng) -> Zeroizing<Vec<i32>> {
    let mut sums = Zeroizing::new(vec![0i32; count]);
    for weight in RESPONSE_WEIGHTS {
        sums.iter_mut().zip(rng.gaussian(count).iter()).for_each(|(sum, sample)| *sum += weight * sample);
    }
    sums
}
