//! RLWE ciphertexts of a small ring, RGSW ciphertexts and their products.

use unspoken_ring::{Difference, DigitKey, DigitTerm, Poly, Seed};

use crate::error::GswError;
use crate::lwe::LweCiphertext;
use crate::parameters::BinaryRing;

/// An RLWE ciphertext: a pair `(c_0, c_1)` in the evaluation domain, where `c_0 + c_1 s` is the message plus noise.
#[derive(Clone, Debug)]
pub struct RlweCiphertext(pub(crate) [Poly; 2]);

impl RlweCiphertext {
    /// An encryption without noise and without secrecy: `(message, 0)`.
    ///
    /// # Errors
    /// If the message is not of the ring, in the evaluation domain and over all its primes.
    pub fn trivial(ring: &BinaryRing, message: &Poly) -> Result<Self, GswError> {
        let zero = ring.zero(ring.basis(), unspoken_ring::Domain::Evaluation);
        let body = ring.add(&zero, message)?;
        Ok(RlweCiphertext([body, zero]))
    }

    /// The ciphertext with the first component `body` and a second component expanded from `seed`.
    ///
    /// # Errors
    /// If the body is not of the ring, in the evaluation domain and over all its primes.
    pub fn expand(ring: &BinaryRing, body: &Poly, seed: &Seed) -> Result<Self, GswError> {
        let mut ciphertext = Self::trivial(ring, body)?;
        ciphertext.0[1] = ring.uniform(seed, 0, ring.basis());
        Ok(ciphertext)
    }

    /// A ciphertext of two components in the evaluation domain.
    pub fn from_components(components: [Poly; 2]) -> Self {
        RlweCiphertext(components)
    }

    /// Both components, in the evaluation domain.
    pub fn components(&self) -> [&Poly; 2] {
        self.0.each_ref()
    }

    /// `self * X^exponent`; the exponent is modulo `2N`.
    ///
    /// # Errors
    /// If it is of another ring.
    pub fn rotated(&self, ring: &BinaryRing, exponent: u32) -> Result<Self, GswError> {
        let [c0, c1] = &self.coefficients(ring)?;
        let mut turned = [ring.rotated(c0, exponent)?, ring.rotated(c1, exponent)?];
        turned.iter_mut().try_for_each(|component| ring.to_evaluation(component))?;
        Ok(RlweCiphertext(turned))
    }

    /// `self += other`.
    ///
    /// # Errors
    /// If they are of different rings.
    pub fn add_assign(&mut self, ring: &BinaryRing, other: &Self) -> Result<(), GswError> {
        self.0.iter_mut().zip(&other.0).try_for_each(|(a, b)| ring.add_assign(a, b))?;
        Ok(())
    }

    /// `self -= other`.
    ///
    /// # Errors
    /// If they are of different rings.
    pub fn sub_assign(&mut self, ring: &BinaryRing, other: &Self) -> Result<(), GswError> {
        self.0.iter_mut().zip(&other.0).try_for_each(|(a, b)| ring.sub_assign(a, b))?;
        Ok(())
    }

    /// `self *= factor`, a polynomial in the evaluation domain.
    ///
    /// # Errors
    /// If the factor is not of the ring, in the evaluation domain and over all its primes.
    pub fn mul_assign(&mut self, ring: &BinaryRing, factor: &Poly) -> Result<(), GswError> {
        self.0.iter_mut().try_for_each(|component| ring.mul_assign(component, factor))?;
        Ok(())
    }

    /// A coefficient of the message, as an LWE ciphertext modulo 2^32 under the secret's coefficients (Pirouette,
    /// Algorithm 12).
    ///
    /// # Errors
    /// If it is of another ring, or `place` is not below the ring degree.
    pub fn coefficient(&self, ring: &BinaryRing, place: usize) -> Result<LweCiphertext, GswError> {
        if place >= ring.degree() {
            return Err(GswError::Shape {
                operation: "extract a coefficient",
                found: place,
                needed: ring.degree() - 1,
            });
        }
        let [c0, c1] = &self.coefficients(ring)?;
        let (c0, c1) = (ring.fractions(c0)?, ring.fractions(c1)?);
        let (low, high) = c1.split_at(place + 1);
        let mask = low.iter().rev().copied().chain(high.iter().rev().map(|x| x.wrapping_neg())).collect();
        Ok(LweCiphertext { mask, body: c0.get(place).copied().unwrap_or_default() })
    }

    /// Moves both components to the memory of this process, if only a device has them.
    ///
    /// # Errors
    /// If it is of another ring, or the device failed.
    pub fn fetch(&mut self, ring: &BinaryRing) -> Result<(), GswError> {
        Ok(self.0.iter_mut().try_for_each(|component| ring.fetch(component))?)
    }

    /// Both components in the coefficient domain.
    ///
    /// # Errors
    /// If it is of another ring.
    pub fn coefficients(&self, ring: &BinaryRing) -> Result<[Poly; 2], GswError> {
        let mut components = self.0.clone();
        components.iter_mut().try_for_each(|component| ring.to_coefficients(component))?;
        Ok(components)
    }
}

/// An RGSW ciphertext: an encryption of a bit, or of a small polynomial, that multiplies RLWE ciphertexts.
#[derive(Debug)]
pub struct Rgsw(pub(crate) DigitKey);

/// A choice between two ciphertexts by an encrypted bit. A ciphertext that is not there counts as zero.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The bit.
    pub bit: &'a Rgsw,
    /// What is chosen if the bit is 0.
    pub zero: Option<&'a RlweCiphertext>,
    /// What is chosen if the bit is 1.
    pub one: Option<&'a RlweCiphertext>,
}

impl<'a> Choice<'a> {
    fn term(&self) -> DigitTerm<'a> {
        let [zero, one] = [self.zero, self.one].map(|ciphertext| match ciphertext {
            Some(RlweCiphertext([c0, c1])) => [Some(c0), Some(c1)],
            None => [None, None],
        });
        let operands = one.into_iter().zip(zero).map(|(plus, minus)| Difference { plus, minus }).collect();
        DigitTerm { operands, key: &self.bit.0, plus: zero, galois: 1 }
    }
}

impl Rgsw {
    /// The external product: an RLWE ciphertext of the product of both messages (Pirouette, Algorithm 5).
    ///
    /// # Errors
    /// If they are of different rings.
    pub fn external_product(&self, ring: &BinaryRing, operand: &RlweCiphertext) -> Result<RlweCiphertext, GswError> {
        only(Self::choose_each(ring, &[Choice { bit: self, zero: None, one: Some(operand) }])?)
    }

    /// An RLWE ciphertext of the message of `zero` if the encrypted bit is 0, and of the message of `one` if it is 1
    /// (CMux).
    ///
    /// # Errors
    /// If they are of different rings.
    pub fn select(
        &self,
        ring: &BinaryRing,
        zero: &RlweCiphertext,
        one: &RlweCiphertext,
    ) -> Result<RlweCiphertext, GswError> {
        only(Self::choose_each(ring, &[Choice { bit: self, zero: Some(zero), one: Some(one) }])?)
    }

    /// The chosen ciphertext of each pair, by bits of one gadget. A device computes all of them at once.
    ///
    /// # Errors
    /// If they are of different rings, bits have different gadgets, or nothing is there to choose.
    pub fn choose_each(ring: &BinaryRing, choices: &[Choice<'_>]) -> Result<Vec<RlweCiphertext>, GswError> {
        let terms: Vec<DigitTerm<'_>> = choices.iter().map(Choice::term).collect();
        Ok(ring.digit_products(&terms)?.into_iter().map(RlweCiphertext).collect())
    }
}

/// For each ciphertext: the product of a key with the image of the second component. The image of the first component
/// is added to the component `place` of the product.
pub(crate) fn switched(
    ring: &BinaryRing,
    ciphertexts: &[RlweCiphertext],
    (key, galois): (&DigitKey, u64),
    place: usize,
) -> Result<Vec<RlweCiphertext>, GswError> {
    let mut terms = Vec::with_capacity(ciphertexts.len());
    for RlweCiphertext([c0, c1]) in ciphertexts {
        let operands = vec![Difference { plus: Some(c1), minus: None }];
        let plus = [0, 1].map(|component| (component == place).then_some(c0));
        terms.push(DigitTerm { operands, key, plus, galois });
    }
    Ok(ring.digit_products(&terms)?.into_iter().map(RlweCiphertext).collect())
}

/// The only result of one computation.
fn only(results: Vec<RlweCiphertext>) -> Result<RlweCiphertext, GswError> {
    let none = GswError::Shape { operation: "choose a ciphertext", found: 0, needed: 1 };
    results.into_iter().next().ok_or(none)
}
