//! Extraction of single coefficients of an encrypted polynomial by automorphisms.

use unspoken_ring::{DigitGadget, DigitKey, Poly, SecretRng};

use crate::error::GswError;
use crate::parameters::BinaryRing;
use crate::rgsw::{RlweCiphertext, switched};
use crate::ring_secret::{RingSecret, SeededRows};

/// Keys of the automorphisms `X -> X^(N/2^i + 1)`, for storage and transfer.
#[derive(Debug)]
pub struct SeededTraceKey {
    pub(crate) steps: Vec<SeededRows>,
}

impl SeededTraceKey {
    /// Generates the keys under `secret`.
    ///
    /// # Errors
    /// If an operation of the ring fails, which cannot happen in a checked ring.
    pub fn generate(secret: &RingSecret, gadget: DigitGadget, rng: &mut SecretRng) -> Result<Self, GswError> {
        let ring = secret.ring();
        let mut encrypt = |step: u32| {
            let image = ring.automorphism(&secret.poly, galois(ring, step))?;
            secret.encrypt_rows(gadget, &image, 1, rng)
        };
        Ok(SeededTraceKey { steps: (0..ring.degree().trailing_zeros()).map(&mut encrypt).collect::<Result<_, _>>()? })
    }

    /// Expands the keys.
    ///
    /// # Errors
    /// If it belongs to another ring.
    pub fn expand(&self, ring: &BinaryRing) -> Result<TraceKey, GswError> {
        TraceKey::new(ring, self.steps.iter().map(|rows| rows.expand(ring)).collect::<Result<_, _>>()?)
    }
}

/// Expanded keys of the automorphisms `X -> X^(N/2^i + 1)`.
#[derive(Debug)]
pub struct TraceKey {
    ring: BinaryRing,
    steps: Vec<DigitKey>,
    shifts: Vec<Poly>,
}

impl TraceKey {
    pub(crate) fn new(ring: &BinaryRing, steps: Vec<DigitKey>) -> Result<Self, GswError> {
        // X^-2^i, which moves the odd ones of the remaining coefficients to the positions of the even ones.
        let shift = |step: u32| {
            let mut power = vec![0i32; ring.degree()];
            power[ring.degree() - (1 << step)] = -1;
            ring.evaluate_i32(&power, ring.basis())
        };
        let shifts = (0..ring.degree().trailing_zeros()).map(shift).collect::<Result<_, _>>()?;
        Ok(TraceKey { ring: ring.clone(), steps, shifts })
    }

    /// Encryptions of the coefficients `k N / count` of the message as constants, for `k` below `count`, a power of
    /// two: `log2 N - log2 count + count - 1` automorphisms (Pirouette, Algorithm 14, except that steps shared by all
    /// coefficients are done once). Whatever the other coefficients of the phase are, they are removed.
    ///
    /// # Errors
    /// If `count` is not a power of two or is above `N`, or the ciphertext belongs to another ring.
    pub fn coefficients(&self, ciphertext: &RlweCiphertext, count: usize) -> Result<Vec<RlweCiphertext>, GswError> {
        let (ring, first) = (&self.ring, self.first_split(count)?);
        // Every step doubles the coefficients that it keeps.
        let mut whole = ciphertext.clone();
        whole.0.iter_mut().try_for_each(|component| ring.unscale_assign(component, ring.degree() as u32))?;
        for step in 0..first {
            let images = self.images(std::slice::from_ref(&whole), step)?;
            images.iter().try_for_each(|image| whole.add_assign(ring, image))?;
        }
        self.split(whole, first)
    }

    /// The first step that tells the coefficients `k N / count` apart.
    fn first_split(&self, count: usize) -> Result<usize, GswError> {
        let degree = self.ring.degree();
        match count.is_power_of_two() && count <= degree {
            true => Ok(self.steps.len() - count.trailing_zeros() as usize),
            false => Err(GswError::Shape { operation: "extract coefficients", found: count, needed: degree }),
        }
    }

    /// Splits the coefficients that are multiples of `2^first` into ciphertexts of one each.
    fn split(&self, whole: RlweCiphertext, first: usize) -> Result<Vec<RlweCiphertext>, GswError> {
        let mut parts = vec![whole];
        // After each step, part `k` holds the coefficients whose number is `k` modulo the number of parts.
        for step in first..self.steps.len() {
            let odd = self.images(&parts, step)?;
            let [mut even, mut odd] = [parts, odd].map(polys);
            self.ring.split_each(&mut even, &mut odd, &self.shifts[step])?;
            parts = ciphertexts(even.into_iter().chain(odd));
        }
        Ok(parts)
    }

    /// The images under the automorphism of a step.
    fn images(&self, parts: &[RlweCiphertext], step: usize) -> Result<Vec<RlweCiphertext>, GswError> {
        switched(&self.ring, parts, (&self.steps[step], galois(&self.ring, step as u32)), 0)
    }
}

/// The components of ciphertexts, one after the other.
fn polys(ciphertexts: Vec<RlweCiphertext>) -> Vec<Poly> {
    ciphertexts.into_iter().flat_map(|RlweCiphertext(components)| components).collect()
}

/// The inverse of [`polys`].
fn ciphertexts(polys: impl IntoIterator<Item = Poly>) -> Vec<RlweCiphertext> {
    let mut polys = polys.into_iter();
    std::iter::from_fn(|| Some(RlweCiphertext([polys.next()?, polys.next()?]))).collect()
}

/// The exponent of the automorphism of a step.
fn galois(ring: &BinaryRing, step: u32) -> u64 {
    (ring.degree() as u64 >> step) + 1
}
