//! The constants of divisions and of exact conversions, and their copies on a device.

use unspoken_device::Device;

use crate::device::tables::{Division, Exact};
use crate::error::RingError;
use crate::kernels::ConversionTarget;
use crate::modular::Shoup;

/// Constants of the exact conversion of a residue system to other primes.
///
/// The represented integer is the centred one, in `(-D/2, D/2]` for the product `D` of the sources.
pub(crate) struct ExactConversion {
    pub(crate) sources: Vec<SourcePrime>,
    /// Fixed-point position of the reciprocals.
    pub(crate) shift: u32,
    pub(crate) reciprocals: Vec<u32>,
    pub(crate) targets: Vec<ConversionTarget>,
}

pub(crate) struct SourcePrime {
    pub(crate) prime: usize,
    pub(crate) limb: usize,
    /// `(D/d)^-1 / (n R)`: see [`digit_scale`](crate::division::digit_scale).
    pub(crate) scale: Shoup,
}

impl ExactConversion {
    /// The same on a device.
    pub(crate) fn on_device(&self, device: &Device) -> Result<Exact, RingError> {
        let sources: Vec<(usize, Shoup)> = self.sources.iter().map(|source| (source.limb, source.scale)).collect();
        Exact::new(device, &sources, (&self.reciprocals, self.shift), &self.targets)
    }
}

/// Constants of one division, from one basis to another.
pub(crate) struct DivisionTable {
    pub(crate) remainder: ExactConversion,
    pub(crate) kept: Vec<KeptPrime>,
}

pub(crate) struct KeptPrime {
    pub(crate) prime: usize,
    /// The limb of the polynomial; none for a new prime.
    pub(crate) limb: Option<usize>,
    /// `U / D`, or `1 / D` for a new prime.
    pub(crate) inverse: Shoup,
}

impl DivisionTable {
    /// The same on a device.
    pub(crate) fn on_device(&self, device: &Device) -> Result<Division, RingError> {
        let kept = self.kept.iter().map(|kept| (kept.limb, kept.inverse));
        Division::new(device, self.remainder.on_device(device)?, kept)
    }
}
