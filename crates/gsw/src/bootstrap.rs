//! Circuit bootstrapping: an LWE ciphertext of a bit becomes an RGSW ciphertext of it.

use unspoken_ring::{DigitKey, Poly, SecretRng};

use crate::error::GswError;
use crate::lwe::{LweCiphertext, LweSecret};
use crate::parameters::BootstrapParameters;
use crate::rgsw::{Rgsw, RlweCiphertext};
use crate::ring_key::{RingSecret, SeededRows};
use crate::rotation::{BlindRotationKey, SeededBlindRotationKey, log2_order};
use crate::trace::{SeededTraceKey, TraceKey};

/// The keys of a circuit bootstrap, as stored and sent.
#[derive(Debug)]
pub struct SeededCircuitBootstrapKey {
    parameters: BootstrapParameters,
    rotation: SeededBlindRotationKey,
    trace: SeededTraceKey,
    square: SeededRows,
}

impl SeededCircuitBootstrapKey {
    /// Keys from `lwe` to `ring`.
    ///
    /// # Errors
    /// If a secret does not fit the parameters.
    pub fn generate(
        parameters: &BootstrapParameters,
        lwe: &LweSecret,
        ring: &RingSecret,
        rng: &mut SecretRng,
    ) -> Result<Self, GswError> {
        let square = ring.ring().mul(&ring.poly, &ring.poly)?;
        Ok(SeededCircuitBootstrapKey {
            parameters: parameters.clone(),
            rotation: SeededBlindRotationKey::generate(lwe, ring, parameters.rotation(), rng)?,
            trace: SeededTraceKey::generate(ring, parameters.trace(), rng)?,
            square: ring.encrypt_rows(parameters.trace(), &square, 1, rng)?,
        })
    }

    /// Ready for use.
    ///
    /// # Errors
    /// If it belongs to other parameters.
    pub fn expand(&self) -> Result<CircuitBootstrapKey, GswError> {
        let ring = self.parameters.ring();
        Ok(CircuitBootstrapKey {
            parameters: self.parameters.clone(),
            rotation: self.rotation.expand(ring)?,
            trace: self.trace.expand(ring)?,
            square: self.square.expand(ring)?,
            table: table(&self.parameters)?,
        })
    }
}

/// The keys of a circuit bootstrap, ready for use.
#[derive(Debug)]
pub struct CircuitBootstrapKey {
    parameters: BootstrapParameters,
    rotation: BlindRotationKey,
    trace: TraceKey,
    square: DigitKey,
    table: Poly,
}

impl CircuitBootstrapKey {
    /// Bytes it takes in memory, but for the small keys.
    pub fn bytes(&self) -> usize {
        self.rotation.bytes()
    }

    /// The RGSW ciphertext of the bit whose LWE ciphertext has the phase `2^31 bit` plus noise (Pirouette, Algorithm 15).
    ///
    /// The noise of the phase, rounding modulo `2N` included, must stay below `2^30 / levels` for the levels of the output
    /// gadget, rounded up to a power of two.
    ///
    /// # Errors
    /// If the ciphertext has another dimension.
    pub fn bootstrap(&self, ciphertext: &LweCiphertext) -> Result<Rgsw, GswError> {
        let ring = self.parameters.ring();
        let output = self.parameters.output();
        let blocks = output.levels().next_power_of_two();
        let mut switched = ciphertext.switched(log2_order(ring));
        switched.add_constant((ring.degree() / (2 * blocks)) as u32);
        let rotated = self.rotation.rotate(&self.table, &switched)?;
        let mut levels = self.trace.coefficients(&rotated, blocks)?;
        levels.truncate(output.levels());
        for (level, ciphertext) in levels.iter_mut().enumerate() {
            // The table holds minus or plus half the weight.
            ring.add_constant_assign(&mut ciphertext.0[0], 1 << (output.log2_weight(level) - 1))?;
        }
        let by_secret = levels.iter().map(|row| self.times_secret(row)).collect::<Result<Vec<_>, _>>()?;
        let rows: Vec<[&Poly; 2]> = levels.iter().chain(&by_secret).map(|RlweCiphertext([a, b])| [a, b]).collect();
        Ok(Rgsw(ring.digit_key(output, &rows)?))
    }

    /// From an encryption of `m` one of `m s`: `c_0 s + c_1 s^2`.
    fn times_secret(&self, ciphertext: &RlweCiphertext) -> Result<RlweCiphertext, GswError> {
        let ring = self.parameters.ring();
        let [c0, c1] = &ciphertext.0;
        let mut c1 = c1.clone();
        ring.to_coefficients(&mut c1)?;
        let mut switched = ring.digit_product(&ring.digits(self.square.gadget(), &[&c1])?, &self.square)?;
        ring.add_assign(&mut switched[1], c0)?;
        Ok(RlweCiphertext(switched))
    }
}

/// Block `k` of the coefficients holds minus half the weight of output level `k`.
fn table(parameters: &BootstrapParameters) -> Result<Poly, GswError> {
    let (ring, output) = (parameters.ring(), parameters.output());
    let block = ring.degree() / output.levels().next_power_of_two();
    let half = |level: usize| if level < output.levels() { -(1i64 << (output.log2_weight(level) - 1)) } else { 0 };
    let coefficients: Vec<i64> = (0..ring.degree()).map(|i| half(i / block)).collect();
    Ok(ring.from_i64(&coefficients, ring.basis())?)
}
