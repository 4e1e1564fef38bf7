//! Messages of CKKS, BFV and BGV under one interface: encoding into a ciphertext's first component, and decoding.

use std::fmt;

use unspoken_ckks as ckks;
use unspoken_exact as exact;
use unspoken_ring::{Basis, Poly, Ring};
use unspoken_rlwe::{self as rlwe, SecretKey};

use crate::error::AuditError;

/// The schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Approximate numbers, at a scale of 2^55 as in the paper.
    Ckks,
    /// Exact integers in the upper bits.
    Bfv,
    /// Exact integers in the lower bits.
    Bgv,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 3] = [Scheme::Ckks, Scheme::Bfv, Scheme::Bgv];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Ckks => "CKKS",
            Scheme::Bfv => "BFV",
            Scheme::Bgv => "BGV",
        })
    }
}

/// Size of the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// Insecure parameters for tests: degree 2048 or 1024.
    Small,
    /// The paper's parameters, as far as 128 bits of security allow: degree 32768 and 868 bits.
    Paper,
}

/// The scale of CKKS messages, as in the paper.
const SCALE: f64 = (1u64 << 55) as f64;

/// Number of chain primes from which a CKKS message and its noise are decoded: 90 bits.
const CKKS_READ_PRIMES: usize = 3;

/// The messages of one scheme at one parameter set: short vectors of numbers, which are integers except in CKKS,
/// repeated to fill the slots.
///
/// Ciphertexts are ciphertexts of `unspoken-rlwe` over the whole chain: `c_0 + c_1 s = M + f e` with `M` from
/// [`MessageSpace::encode`], the factor `f` from [`MessageSpace::error_factor`], and a small `e`.
#[derive(Clone)]
pub enum MessageSpace {
    /// CKKS.
    Approximate(ckks::Encoder),
    /// BFV and BGV.
    Exact(exact::Encoder),
}

impl MessageSpace {
    /// The message space of a scheme.
    ///
    /// # Errors
    /// Only if the parameters do not build, which cannot happen for the built-in presets.
    pub fn new(scheme: Scheme, size: Size) -> Result<Self, AuditError> {
        let exact_scheme = match scheme {
            Scheme::Ckks => {
                let name = match size {
                    Size::Small => "insecure_n11_linear_depth4_scale30",
                    Size::Paper => "n15_linear_depth27_scale30",
                };
                let parameters = ckks::Preset::find(name)?.build()?;
                return Ok(MessageSpace::Approximate(ckks::Encoder::new(&parameters)));
            }
            Scheme::Bfv => exact::Scheme::Bfv,
            Scheme::Bgv => exact::Scheme::Bgv,
        };
        let name = match size {
            Size::Small => "insecure_n10_exact17",
            Size::Paper => "n15_exact17",
        };
        Ok(MessageSpace::Exact(exact::Encoder::new(&exact::Preset::find(name)?.build(exact_scheme)?)))
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        match self {
            MessageSpace::Approximate(_) => Scheme::Ckks,
            MessageSpace::Exact(encoder) => match encoder.parameters().scheme() {
                exact::Scheme::Bfv => Scheme::Bfv,
                exact::Scheme::Bgv => Scheme::Bgv,
            },
        }
    }

    /// The RLWE parameters.
    pub fn rlwe(&self) -> &rlwe::Parameters {
        match self {
            MessageSpace::Approximate(encoder) => encoder.parameters().rlwe(),
            MessageSpace::Exact(encoder) => encoder.parameters().rlwe(),
        }
    }

    /// The ring of ciphertexts.
    pub fn ring(&self) -> &Ring {
        self.rlwe().ring()
    }

    /// The basis of ciphertexts: the whole chain.
    pub fn basis(&self) -> Basis {
        Basis::chain(self.ring().chain().len())
    }

    /// Factor of the errors: the plaintext modulus in BGV, 1 otherwise.
    pub fn error_factor(&self) -> u32 {
        match self {
            MessageSpace::Exact(encoder) if self.scheme() == Scheme::Bgv => encoder.parameters().plain_modulus(),
            _ => 1,
        }
    }

    /// Multiplies by [`MessageSpace::error_factor`].
    ///
    /// # Errors
    /// If the polynomial belongs to another ring.
    pub fn scale_error(&self, error: &mut Poly) -> Result<(), AuditError> {
        match self.error_factor() {
            1 => Ok(()),
            factor => Ok(self.ring().scale_assign(error, i128::from(factor))?),
        }
    }

    /// The polynomial added to `c_0`: `round(2^55 m)`, `round(Q m / t)` or `m`, in the evaluation domain over the
    /// whole chain.
    ///
    /// # Errors
    /// If the number of values does not divide the number of slots, or one does not fit.
    pub fn encode(&self, values: &[f64]) -> Result<Poly, AuditError> {
        match self {
            MessageSpace::Approximate(encoder) => Ok(self.approximate(encoder, values)?.poly().clone()),
            MessageSpace::Exact(encoder) => {
                let mut poly = encoder.message(&self.exact(encoder, values)?)?;
                // The encoder returns a BGV message divided by t.
                self.scale_error(&mut poly)?;
                Ok(poly)
            }
        }
    }

    /// The first `count` values of a message with noise, which is given over the whole chain and in any domain.
    ///
    /// # Errors
    /// If the polynomial belongs to another ring.
    pub fn decode(&self, phase: &Poly, count: usize) -> Result<Vec<f64>, AuditError> {
        let mut values: Vec<f64> = match self {
            MessageSpace::Approximate(encoder) => {
                let mut phase = self.ring().restricted(phase, Basis::chain(CKKS_READ_PRIMES))?;
                self.ring().to_coefficients(&mut phase)?;
                encoder.decode(&phase, SCALE)?.iter().map(|z| z.re).collect()
            }
            MessageSpace::Exact(encoder) => {
                let mut phase = phase.clone();
                self.ring().to_coefficients(&mut phase)?;
                encoder.decode_slots(&encoder.plaintext_of_phase(&phase)?)?.iter().map(|&x| x as f64).collect()
            }
        };
        values.truncate(count);
        Ok(values)
    }

    /// Decrypts without checking the noise.
    ///
    /// # Errors
    /// If secret and ciphertext belong to different parameters.
    pub fn decrypt(
        &self,
        secret: &SecretKey,
        ciphertext: &rlwe::Ciphertext,
        count: usize,
    ) -> Result<Vec<f64>, AuditError> {
        self.decode(&secret.decrypt(ciphertext)?, count)
    }

    /// The values as a plaintext of CKKS.
    pub(crate) fn approximate(&self, encoder: &ckks::Encoder, values: &[f64]) -> Result<ckks::Plaintext, AuditError> {
        Ok(encoder.encode_real(values, encoder.parameters().max_level(), SCALE)?)
    }

    /// The values as a plaintext of BFV or BGV.
    pub(crate) fn exact(&self, encoder: &exact::Encoder, values: &[f64]) -> Result<exact::Plaintext, AuditError> {
        let slots = encoder.parameters().slots();
        if values.is_empty() || !slots.is_multiple_of(values.len()) {
            let (found, needed) = (format!("{} values", values.len()), format!("a divisor of the {slots} slots"));
            return Err(AuditError::Range { operation: "encode a message", found, needed });
        }
        let integers = values.iter().map(|&x| integer("encode a message", x)).collect::<Result<Vec<i64>, _>>()?;
        Ok(encoder.encode_slots(&integers.repeat(slots / values.len()))?)
    }
}

/// Converts a number to an integer.
pub(crate) fn integer(operation: &'static str, x: f64) -> Result<i64, AuditError> {
    if x.fract() == 0.0 && x.abs() < MAX_INTEGER {
        return Ok(x as i64);
    }
    Err(AuditError::Range { operation, found: x.to_string(), needed: "an integer below 2^53".into() })
}

/// Doubles represent every integer up to this limit.
const MAX_INTEGER: f64 = (1u64 << 53) as f64;
