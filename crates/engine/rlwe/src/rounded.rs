//! Ciphertexts of the ring of half the degree modulo a power of two: the short form of a result for the holder of the
//! secret.

use unspoken_ring::{Basis, Ring, nearest_integer, round_ties_even};
use zeroize::Zeroizing;

use crate::ciphertext::Ciphertext;
use crate::error::RlweError;
use crate::evaluation_keys::EvaluationKeys;
use crate::keys::{SecretKey, secret_poly};
use crate::parameters::Parameters;

/// A ciphertext of two components in the ring of half the degree, modulo `2^bits`, a power of 256, of which some
/// coefficients of the body are kept. Nothing can be computed on it; [`SecretKey::decrypt_rounded`] decrypts it.
///
/// Rounding the mask to `2^bits` adds an error to each coefficient of the message, of standard deviation
/// [`RoundedCiphertext::deviation`] in units of `2^-bits` of the modulus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundedCiphertext {
    pub(crate) bits: u32,
    /// The coefficients of the body that are kept.
    pub(crate) body: Vec<u64>,
    /// All coefficients of the mask.
    pub(crate) mask: Vec<u64>,
}

impl RoundedCiphertext {
    /// The most bits of a coefficient: a double holds its products with a secret, up to an error of a few units.
    pub const MAX_BITS: u32 = 40;

    /// Standard deviation of the error that rounding adds to a coefficient, in units of `2^-bits` of the modulus:
    /// `sqrt((h + 1) / 12)` for a secret with `h = n/3` nonzero coefficients, in a ring of degree `n / 2`.
    pub fn deviation(ring: &Ring) -> f64 {
        ((ring.degree() as f64 / 3.0 + 1.0) / 12.0).sqrt()
    }

    /// Number of coefficients of the body.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether no coefficient of the body is kept.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Whether coefficients may have `bits` bits: whole bytes.
    pub(crate) fn possible(bits: u32) -> bool {
        (8..=Self::MAX_BITS).contains(&bits) && bits.is_multiple_of(8)
    }

    /// Number of coefficients of the mask.
    pub(crate) fn mask_len(ring: &Ring) -> usize {
        ring.degree() / 2
    }
}

impl Ciphertext {
    /// Switches to the secret of the ring of half the degree, divides by the modulus, multiplies by `2^bits` and
    /// rounds. Keeps the coefficients of the body at `places`, in their order. The message is a polynomial in `X^2`:
    /// its other coefficients are lost.
    ///
    /// # Errors
    /// If there are not two components, `bits` is no number of whole bytes up to [`RoundedCiphertext::MAX_BITS`], a
    /// place is odd or not below the degree, or the key ([`KeyKind::HalfRing`](crate::KeyKind::HalfRing)) is missing.
    pub fn rounded(
        &self,
        parameters: &Parameters,
        keys: &EvaluationKeys,
        bits: u32,
        places: &[usize],
    ) -> Result<RoundedCiphertext, RlweError> {
        let ring = parameters.ring();
        check(ring, bits, places)?;
        let modulus: f64 = ring.primes(self.basis()).map(f64::from).product();
        let factor = f64::from(bits).exp2() / modulus;
        let residue = |c: f64| nearest_integer(c * factor) as u64 & ((1 << bits) - 1);
        let mut components = self.to_half_ring(parameters, keys)?.components;
        components.iter_mut().try_for_each(|component| ring.to_coefficients(component))?;
        let (body, mask) = (ring.to_f64(&components[0])?, ring.to_f64(&components[1])?);
        Ok(RoundedCiphertext {
            bits,
            body: places.iter().map(|&place| residue(body[place])).collect(),
            mask: mask.iter().step_by(2).map(|&c| residue(c)).collect(),
        })
    }
}

impl SecretKey {
    /// The coefficients of the message and its noise at `places`, where the body's coefficients were kept. As fractions
    /// of the modulus, from -1/2 to 1/2. Secret; wiped when dropped.
    ///
    /// # Errors
    /// If the ciphertext belongs to another ring or has other places, or the chain primes are too few.
    pub fn decrypt_rounded(
        &self,
        ciphertext: &RoundedCiphertext,
        places: &[usize],
    ) -> Result<Zeroizing<Vec<f64>>, RlweError> {
        let ring = self.parameters().ring();
        let RoundedCiphertext { bits, body, mask } = ciphertext;
        check(ring, *bits, places)?;
        if body.len() != places.len() || mask.len() != RoundedCiphertext::mask_len(ring) {
            let found = format!("{} and {} coefficients", body.len(), mask.len());
            let needed = format!("{} and {}", places.len(), RoundedCiphertext::mask_len(ring));
            return Err(RlweError::Decode { what: "a rounded ciphertext", found, needed });
        }
        // Of the integers. A double holds the sum up to an error of a few units, which is small beside the rounding.
        let basis = Basis::chain(primes(ring, *bits)?);
        let lifted = |residues: &mut dyn Iterator<Item = (usize, u64)>| {
            let mut whole = vec![0; ring.degree()];
            residues.for_each(|(place, residue)| whole[place] = centred(residue as i64, *bits));
            let mut poly = ring.from_i64(&whole, basis)?;
            ring.to_evaluation(&mut poly)?;
            Ok::<_, RlweError>(poly)
        };
        let mut sum = lifted(&mut mask.iter().enumerate().map(|(i, &residue)| (2 * i, residue)))?;
        ring.mul_assign(&mut sum, &secret_poly(ring, &self.half_ring_secret()?, basis)?)?;
        ring.add_assign(&mut sum, &lifted(&mut places.iter().copied().zip(body.iter().copied()))?)?;
        ring.to_coefficients(&mut sum)?;
        let coefficients = ring.to_f64(&sum)?;
        let unit = (-f64::from(*bits)).exp2();
        // Less the nearest integer, which is exact. A conversion to integers may be compiled to a branch.
        let fraction = |&place: &usize| {
            let multiple = coefficients[place] * unit;
            multiple - round_ties_even(multiple)
        };
        Ok(Zeroizing::new(places.iter().map(fraction).collect()))
    }
}

/// The number from `-2^(bits-1)` to `2^(bits-1) - 1` that is equal to `value` modulo `2^bits`. No branch depends on it.
fn centred(value: i64, bits: u32) -> i64 {
    let shift = i64::BITS - bits;
    (value << shift) >> shift
}

fn check(ring: &Ring, bits: u32, places: &[usize]) -> Result<(), RlweError> {
    let refuse = |found: String, needed: String| Err(RlweError::Decode { what: "a rounded ciphertext", found, needed });
    if !RoundedCiphertext::possible(bits) {
        return refuse(format!("{bits} bits"), format!("8, 16 or more up to {}", RoundedCiphertext::MAX_BITS));
    }
    if let Some(place) = places.iter().find(|&&place| place >= ring.degree() || place % 2 == 1) {
        return refuse(format!("coefficient {place}"), format!("even ones below the degree, {}", ring.degree()));
    }
    primes(ring, bits).map(drop)
}

/// Number of chain primes whose product holds the products of coefficients of `bits` bits with a secret, which are
/// below `2^(bits - 1) n / 2` in magnitude, and the body.
fn primes(ring: &Ring, bits: u32) -> Result<usize, RlweError> {
    let needed = f64::from(bits + ring.degree().ilog2());
    let sums = ring.chain().iter().scan(0.0, |sum, &prime| {
        *sum += f64::from(prime).log2();
        Some(*sum)
    });
    sums.zip(1..).find(|(sum, _)| *sum >= needed).map(|(_, count)| count).ok_or_else(|| {
        let needed = format!("{needed} bits");
        RlweError::Decode { what: "the chain primes for a rounded ciphertext", found: "fewer bits".into(), needed }
    })
}
