//! Errors of this crate.

use unspoken_device::DeviceError;

use crate::basis::{Basis, Domain};
use crate::kind::RingKind;

/// Errors of this crate. Each names what was found and what was needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The degree is not a power of two in the supported range.
    #[error("ring degree {found} is not supported: it must be a power of two from 512 to 131072")]
    Degree {
        /// The degree asked for.
        found: usize,
    },
    /// A modulus of the literal cannot be used.
    #[error("modulus {found} cannot be used: it must be a prime below 2^30, 1 modulo {step}, and appear once")]
    Prime {
        /// The modulus asked for.
        found: u32,
        /// The number that the modulus must be 1 modulo of.
        step: u32,
    },
    /// The chain, the special primes or the digits have an unusable length.
    #[error("{what} has length {found}, needed {needed}")]
    Length {
        /// Which list.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The lengths that work.
        needed: &'static str,
    },
    /// The backend asked for does not run on this machine.
    #[error("backend {found} is not available on this machine; use Backend::detect()")]
    Backend {
        /// The backend asked for.
        found: &'static str,
    },
    /// Another instruction set is the default of this process already.
    #[error("set the default backend: found {found} in use, needed {needed}; set it before any other call")]
    BackendInUse {
        /// The one in use.
        found: &'static str,
        /// The one to be set.
        needed: &'static str,
    },
    /// A device failed, or has too little memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A secret polynomial was to be given to a device.
    #[error("compute with a secret: found a ring on a device, needed one on the processor, where secrets stay")]
    SecretOnDevice,
    /// A ring does not fit a device.
    #[error("put a ring on a device: found {found} {what}, needed {needed}")]
    OnDevice {
        /// What does not fit.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// What fits.
        needed: &'static str,
    },
    /// An operand is over a wrong basis.
    #[error("{operation}: found a polynomial over {found}, needed {needed}")]
    Basis {
        /// The operation.
        operation: &'static str,
        /// The basis of the offending operand.
        found: Basis,
        /// The basis it should have.
        needed: Basis,
    },
    /// An operand is in the wrong domain.
    #[error("{operation}: found a polynomial in the {found} domain, needed the {needed} domain; transform it first")]
    Domain {
        /// The operation.
        operation: &'static str,
        /// The domain of the offending operand.
        found: Domain,
        /// The domain it should have.
        needed: Domain,
    },
    /// The operation is not defined in this kind of ring.
    #[error("{operation}: this ring is not {needed:?}; build one that is")]
    Kind {
        /// The operation.
        operation: &'static str,
        /// The kind it needs.
        needed: RingKind,
    },
    /// An operand was made by another ring.
    #[error("{operation}: the operand belongs to another ring; operands must come from the same ring object")]
    ForeignOperand {
        /// The operation.
        operation: &'static str,
    },
    /// `X -> X^g` is not an automorphism of this ring.
    #[error("X -> X^{found} is not an automorphism of this ring")]
    Galois {
        /// The exponent asked for.
        found: u64,
    },
    /// An integer operand is not usable.
    #[error("{operation}: {found} is not usable; needed {needed}")]
    Factor {
        /// The operation.
        operation: &'static str,
        /// The integer given.
        found: u32,
        /// The usable integers.
        needed: &'static str,
    },
    /// A residue read from outside is not below its modulus.
    #[error("residue {index} modulo {modulus} is not reduced; the data are damaged")]
    Residue {
        /// Its position in the limb.
        index: usize,
        /// Its modulus.
        modulus: u32,
    },
    /// A coefficient is too large. The error does not contain its value, which may be secret.
    #[error("a coefficient is not below 2^{log2_bound} in magnitude; use a smaller scale or a larger modulus")]
    Coefficient {
        /// Bits of the bound.
        log2_bound: u32,
    },
    /// The operating system's random generator failed.
    #[error("the operating system's random generator failed: {0}; check that the process may read it")]
    Randomness(#[from] getrandom::Error),
}
