//! Parameter sets: immutable objects made from literals that are checked once.

use std::ops::Deref;
use std::sync::Arc;

use unspoken_ring::{Backend, Basis, Device, DigitGadget, ERROR_SIGMA, Ring, RingKind, RingLiteral};
use unspoken_rlwe::INSECURE_PREFIX;
use unspoken_rlwe::security::{SECURITY_BITS, binary_security_bits};

use crate::error::GswError;

/// The numbers that define a small ring: its degree and one or two primes. Its secrets are binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryRingLiteral {
    /// The name. It must begin with `insecure_` if the ring has less than 128 bits of security.
    pub name: &'static str,
    /// Degree `N`, a power of two.
    pub degree: usize,
    /// One or two primes, 1 modulo `2N`.
    pub primes: Vec<u32>,
}

/// A small ring with checked security. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BinaryRing {
    name: &'static str,
    ring: Ring,
}

impl BinaryRing {
    /// Checks the literal and builds the ring on the fastest backend of this machine.
    ///
    /// # Errors
    /// If the ring cannot be built, or a binary secret with errors of standard deviation [`ERROR_SIGMA`] gives less
    /// than 128 bits of security at its modulus and the name does not begin with `insecure_`.
    pub fn new(literal: BinaryRingLiteral) -> Result<Self, GswError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`BinaryRing::new`], on the given backend.
    ///
    /// # Errors
    /// As for [`BinaryRing::new`].
    pub fn with_backend(literal: BinaryRingLiteral, backend: Backend) -> Result<Self, GswError> {
        let BinaryRingLiteral { name, degree, primes } = literal;
        let log2_modulus: f64 = primes.iter().map(|&q| f64::from(q).log2()).sum();
        check(name, "a key in the ring", degree, log2_modulus - ERROR_SIGMA.log2())?;
        let literal = RingLiteral {
            degree,
            kind: RingKind::Standard,
            chain: primes,
            terminal: vec![],
            special: vec![],
            digit_len: 1,
        };
        Ok(BinaryRing { name, ring: Ring::new(literal, backend)? })
    }

    /// The same ring with its polynomials on a device: for services, which have no secrets. Polynomials of one cannot
    /// be used with the other.
    ///
    /// # Errors
    /// If the device has too little memory or failed.
    pub fn on_device(&self, device: &Device) -> Result<Self, GswError> {
        Ok(BinaryRing { name: self.name, ring: self.ring.on_device(device)? })
    }

    /// Checks that LWE with these parameters has 128 bits of security, or that the name begins with `insecure_`.
    ///
    /// # Errors
    /// [`GswError::Insecure`] if neither is the case.
    pub fn check_lwe(name: &'static str, literal: LweLiteral) -> Result<(), GswError> {
        check(name, "an LWE ciphertext", literal.dimension, 32.0 - literal.sigma().log2())
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `log2 Q`.
    pub fn log2_modulus(&self) -> f64 {
        self.chain().iter().map(|&q| f64::from(q).log2()).sum()
    }

    /// The basis of all primes.
    pub fn basis(&self) -> Basis {
        Basis::chain(self.chain().len())
    }

    /// A gadget for coefficients modulo all primes of the ring.
    ///
    /// # Errors
    /// If there are no digits, too many digits, or too many bits per digit.
    pub fn gadget(&self, literal: GadgetLiteral) -> Result<DigitGadget, GswError> {
        Ok(self.ring.digit_gadget(self.chain().len(), literal.log2_base, literal.levels)?)
    }
}

impl Deref for BinaryRing {
    type Target = Ring;
    fn deref(&self) -> &Ring {
        &self.ring
    }
}

/// The decomposition of coefficients: `levels` signed digits of `log2_base` bits, from the highest bits down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GadgetLiteral {
    /// Number of bits of a digit.
    pub log2_base: u32,
    /// Number of digits.
    pub levels: usize,
}

/// LWE with binary secrets modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LweLiteral {
    /// Dimension `n`.
    pub dimension: usize,
    /// Number of terms of an error: it is a sum of discrete Gaussians, the first with standard deviation
    /// [`ERROR_SIGMA`] and each next one twice as wide.
    pub error_terms: u32,
}

impl LweLiteral {
    /// Standard deviation of errors.
    pub fn sigma(&self) -> f64 {
        ERROR_SIGMA * ((4f64.powi(self.error_terms as i32) - 1.0) / 3.0).sqrt()
    }
}

/// The numbers that define a circuit bootstrap.
#[derive(Clone, Debug, PartialEq)]
pub struct BootstrapLiteral {
    /// The ring.
    pub ring: BinaryRingLiteral,
    /// The LWE secret whose bits the blind rotation key encrypts.
    pub lwe: LweLiteral,
    /// Gadget of the blind rotation key.
    pub rotation: GadgetLiteral,
    /// Gadget of the automorphism keys and of the squaring key.
    pub trace: GadgetLiteral,
    /// Gadget of results that have the least noise. Others are made for other gadgets.
    pub output: GadgetLiteral,
}

/// Checked parameters of a circuit bootstrap. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BootstrapParameters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ring: BinaryRing,
    lwe: LweLiteral,
    rotation: DigitGadget,
    trace: DigitGadget,
    output: DigitGadget,
}

impl BootstrapParameters {
    /// Checks the literal.
    ///
    /// # Errors
    /// If a gadget does not fit the ring, the gadget of the results reaches the lowest bit (its weights must be even),
    /// or the ring or the LWE secret has less than 128 bits of security and the ring's name does not begin with
    /// `insecure_`.
    pub fn new(literal: BootstrapLiteral) -> Result<Self, GswError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`BootstrapParameters::new`], on the given backend.
    ///
    /// # Errors
    /// As for [`BootstrapParameters::new`].
    pub fn with_backend(literal: BootstrapLiteral, backend: Backend) -> Result<Self, GswError> {
        let BootstrapLiteral { ring, lwe, rotation, trace, output } = literal;
        let ring = BinaryRing::with_backend(ring, backend)?;
        BinaryRing::check_lwe(ring.name(), lwe)?;
        let [rotation, trace, output] = [ring.gadget(rotation)?, ring.gadget(trace)?, ring.gadget(output)?];
        check_output(output)?;
        Ok(BootstrapParameters(Arc::new(Inner { ring, lwe, rotation, trace, output })))
    }

    /// The same parameters with their ring on a device: see [`BinaryRing::on_device`].
    ///
    /// # Errors
    /// As for [`BinaryRing::on_device`].
    pub fn on_device(&self, device: &Device) -> Result<Self, GswError> {
        let Inner { lwe, rotation, trace, output, .. } = *self.0;
        let ring = self.0.ring.on_device(device)?;
        Ok(BootstrapParameters(Arc::new(Inner { ring, lwe, rotation, trace, output })))
    }

    /// The ring.
    pub fn ring(&self) -> &BinaryRing {
        &self.0.ring
    }

    /// The LWE secret whose bits the blind rotation key encrypts.
    pub fn lwe(&self) -> LweLiteral {
        self.0.lwe
    }

    /// Gadget of the blind rotation key.
    pub fn rotation(&self) -> DigitGadget {
        self.0.rotation
    }

    /// Gadget of the automorphism keys and of the squaring key.
    pub fn trace(&self) -> DigitGadget {
        self.0.trace
    }

    /// Gadget of results that have the least noise.
    pub fn output(&self) -> DigitGadget {
        self.0.output
    }

    /// Number of blocks of coefficients of a bit that is rotated for results of a gadget: one for each level and at
    /// least one more, rounded up to a power of two.
    pub fn blocks(gadget: DigitGadget) -> usize {
        (gadget.levels() + 1).next_power_of_two()
    }
}

/// Checks that the weights of a gadget of results are even: a rotation gives half of each.
pub(crate) fn check_output(gadget: DigitGadget) -> Result<(), GswError> {
    match gadget.log2_weight(0) {
        0 => Err(GswError::Shape { operation: "choose the gadget of results", found: 0, needed: 1 }),
        _ => Ok(()),
    }
}

fn check(name: &'static str, what: &'static str, dimension: usize, log2_ratio: f64) -> Result<(), GswError> {
    let found = binary_security_bits(dimension, log2_ratio);
    if found < SECURITY_BITS && !name.starts_with(INSECURE_PREFIX) {
        return Err(GswError::Insecure { name, what, dimension, found, needed: SECURITY_BITS });
    }
    Ok(())
}
