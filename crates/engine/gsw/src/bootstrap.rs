//! Circuit bootstrapping: converts an LWE ciphertext of a bit to an RGSW ciphertext of the same bit.

use std::sync::Arc;

use unspoken_ring::{DigitGadget, DigitKey, Poly, SecretRng};

use crate::error::{GswError, shape};
use crate::lwe::LweCiphertext;
use crate::parameters::{BinaryRing, BootstrapParameters, check_output};
use crate::rgsw::{Rgsw, RlweCiphertext, switched};
use crate::ring_secret::{RingSecret, SeededRows};
use crate::rotation::{BlindRotationKey, log2_order};
use crate::trace::{SeededTraceKey, TraceKey};

/// The keys that convert RLWE ciphertexts of gadget weights to an RGSW ciphertext, for storage and transfer:
/// automorphism keys and a squaring key.
#[derive(Debug)]
pub struct SeededConversionKey {
    pub(crate) parameters: BootstrapParameters,
    pub(crate) trace: SeededTraceKey,
    pub(crate) square: SeededRows,
}

impl SeededConversionKey {
    /// Generates the keys under `secret`.
    ///
    /// # Errors
    /// If the secret is of another ring.
    pub fn generate(
        parameters: &BootstrapParameters,
        secret: &RingSecret,
        rng: &mut SecretRng,
    ) -> Result<Self, GswError> {
        let square = secret.ring().mul(&secret.poly, &secret.poly)?;
        Ok(SeededConversionKey {
            parameters: parameters.clone(),
            trace: SeededTraceKey::generate(secret, parameters.trace(), rng)?,
            square: secret.encrypt_rows(parameters.trace(), &square, 1, rng)?,
        })
    }

    /// Expands the keys.
    ///
    /// # Errors
    /// If it belongs to another ring.
    pub fn expand(&self) -> Result<ConversionKey, GswError> {
        let ring = self.parameters.ring();
        let (trace, square) = (self.trace.expand(ring)?, self.square.expand(ring)?);
        Ok(ConversionKey { parameters: self.parameters.clone(), trace, square })
    }
}

/// The expanded keys that convert RLWE ciphertexts of gadget weights to an RGSW ciphertext.
#[derive(Debug)]
pub struct ConversionKey {
    pub(crate) parameters: BootstrapParameters,
    pub(crate) trace: TraceKey,
    pub(crate) square: DigitKey,
}

impl ConversionKey {
    /// The parameters.
    pub fn parameters(&self) -> &BootstrapParameters {
        &self.parameters
    }

    /// The automorphism keys.
    pub fn trace(&self) -> &TraceKey {
        &self.trace
    }

    /// The RGSW ciphertext of `m` from RLWE ciphertexts of `weight_i m` for each level of a gadget.
    ///
    /// # Errors
    /// If the number of ciphertexts is not the number of levels, or they belong to another ring.
    pub fn rgsw(&self, gadget: DigitGadget, levels: &[RlweCiphertext]) -> Result<Rgsw, GswError> {
        shape("make an RGSW ciphertext", levels.len(), gadget.levels())?;
        let by_secret = self.times_secret(levels)?;
        let rows: Vec<[&Poly; 2]> = levels.iter().chain(&by_secret).map(|RlweCiphertext([a, b])| [a, b]).collect();
        Ok(Rgsw(self.parameters.ring().digit_key(gadget, &rows)?))
    }

    /// Converts encryptions of `m` to encryptions of `m s`: `c_0 s + c_1 s^2`.
    fn times_secret(&self, ciphertexts: &[RlweCiphertext]) -> Result<Vec<RlweCiphertext>, GswError> {
        switched(self.parameters.ring(), ciphertexts, (&self.square, 1), 1)
    }
}

/// The keys of a circuit bootstrap, which converts an LWE ciphertext of a bit to an RGSW ciphertext by a blind rotation
/// and a conversion.
#[derive(Debug)]
pub struct CircuitBootstrapKey {
    rotation: BlindRotationKey,
    conversion: Arc<ConversionKey>,
}

/// An encrypted bit after the blind rotation of its bootstrap. Its coefficients are in blocks. The first coefficient of
/// block `k` is minus or plus half the weight of level `k` of a gadget: minus if the bit is zero, plus if the bit is
/// one. The last block has minus or plus a number of the caller instead of half a weight.
#[derive(Debug)]
pub struct RotatedBit {
    ciphertext: RlweCiphertext,
    gadget: DigitGadget,
}

impl CircuitBootstrapKey {
    /// Combines a rotation key from the LWE secret to the ring with the conversion key of the ring.
    pub fn new(rotation: BlindRotationKey, conversion: Arc<ConversionKey>) -> Self {
        CircuitBootstrapKey { rotation, conversion }
    }

    /// Bytes in memory, without the conversion key.
    pub fn bytes(&self) -> usize {
        self.rotation.bytes()
    }

    /// The RGSW ciphertext, for a gadget, of the bit whose LWE ciphertext has the phase `2^31 bit` plus noise
    /// (Pirouette, Algorithm 15). Fewer levels take less time, here and in each product.
    ///
    /// # Errors
    /// As for [`CircuitBootstrapKey::rotate`].
    pub fn bootstrap(&self, ciphertext: &LweCiphertext, gadget: DigitGadget) -> Result<Rgsw, GswError> {
        self.convert(&self.rotate(ciphertext, gadget, 0)?)
    }

    /// The blind rotation of a bootstrap for a gadget, with a number modulo the ring's modulus for its last block
    /// ([`CircuitBootstrapKey::signed`] reads it). So one rotation gives both the RGSW ciphertext of a bit and the
    /// number with the bit's sign, with which a caller subtracts the bit from an index.
    ///
    /// The noise of the phase, including the rounding modulo `2N`, must stay below `2^31` divided by twice the number
    /// of blocks ([`BootstrapParameters::blocks`]).
    ///
    /// # Errors
    /// If the ciphertext has another dimension, or the gadget reaches the lowest bit.
    pub fn rotate(&self, ciphertext: &LweCiphertext, gadget: DigitGadget, number: i64) -> Result<RotatedBit, GswError> {
        check_output(gadget)?;
        let ring = self.conversion.parameters.ring();
        let ciphertext = self.rotated(ciphertext, &table(ring, gadget, number)?, block(ring, gadget))?;
        Ok(RotatedBit { ciphertext, gadget })
    }

    /// An LWE ciphertext modulo 2^32 of the same bit, with the phase `2^31 bit` and the noise of one blind rotation,
    /// under the coefficients of the ring's secret.
    ///
    /// The noise of the phase, including the rounding modulo `2N`, must stay below `2^30`. For `k` blocks it may be `k`
    /// times the noise of [`CircuitBootstrapKey::rotate`].
    ///
    /// # Errors
    /// If the ciphertext has another dimension.
    pub fn refresh(&self, ciphertext: &LweCiphertext) -> Result<LweCiphertext, GswError> {
        let ring = self.conversion.parameters.ring();
        let quarter = (ring.log2_modulus() - 2.0).exp2().round() as i64;
        let table = ring.from_i64(&vec![-quarter; ring.degree()], ring.basis())?;
        let mut bit = self.rotated(ciphertext, &table, ring.degree())?.coefficient(ring, 0)?;
        bit.body = bit.body.wrapping_add(1 << 30);
        Ok(bit)
    }

    /// The rotation of a table whose blocks have this many coefficients. The phase is in the middle of a block.
    fn rotated(&self, ciphertext: &LweCiphertext, table: &Poly, block: usize) -> Result<RlweCiphertext, GswError> {
        let mut switched = ciphertext.switched(log2_order(self.conversion.parameters.ring()));
        switched.add_constant((block / 2) as u32);
        self.rotation.rotate(table, &switched)
    }

    /// The number of [`CircuitBootstrapKey::rotate`], or minus the number if the bit is zero, as an LWE ciphertext
    /// modulo 2^32 under the coefficients of the ring's secret.
    ///
    /// # Errors
    /// If the bit is of another ring.
    pub fn signed(&self, bit: &RotatedBit) -> Result<LweCiphertext, GswError> {
        let ring = self.conversion.parameters.ring();
        bit.ciphertext.coefficient(ring, ring.degree() - block(ring, bit.gadget))
    }

    /// The RGSW ciphertext of a rotated bit.
    ///
    /// # Errors
    /// If it is of another ring.
    pub fn convert(&self, bit: &RotatedBit) -> Result<Rgsw, GswError> {
        let (ring, gadget) = (self.conversion.parameters.ring(), bit.gadget);
        let mut levels = self.conversion.trace.coefficients(&bit.ciphertext, BootstrapParameters::blocks(gadget))?;
        levels.truncate(gadget.levels());
        for (level, ciphertext) in levels.iter_mut().enumerate() {
            // The table holds minus or plus half the weight.
            ring.add_constant_assign(&mut ciphertext.0[0], 1 << (gadget.log2_weight(level) - 1))?;
        }
        self.conversion.rgsw(gadget, &levels)
    }
}

/// Number of coefficients of a block of a bit that is rotated for a gadget.
fn block(ring: &BinaryRing, gadget: DigitGadget) -> usize {
    ring.degree() / BootstrapParameters::blocks(gadget)
}

/// The table of the blind rotation: block `k` of the coefficients holds minus half the weight of level `k`, and the
/// last block minus a number.
fn table(ring: &BinaryRing, gadget: DigitGadget, number: i64) -> Result<Poly, GswError> {
    let value = |block: usize| match block {
        level if level < gadget.levels() => -(1i64 << (gadget.log2_weight(level) - 1)),
        last if last + 1 == BootstrapParameters::blocks(gadget) => -number,
        _ => 0,
    };
    let coefficients: Vec<i64> = (0..ring.degree()).map(|i| value(i / block(ring, gadget))).collect();
    Ok(ring.from_i64(&coefficients, ring.basis())?)
}
