//! Tables of a ring in the memory of a device.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use unspoken_device::kernel::{self, Digit, Kept, Shoup};
use unspoken_device::{Buffer, Device};

use crate::basis::Basis;
use crate::error::RingError;
use crate::kernels::ConversionTarget;
use crate::modular;

/// Tables that operations make when they first need them.
#[derive(Default)]
pub(super) struct Caches {
    pub(super) divisions: RwLock<HashMap<(Basis, Basis), Arc<Division>>>,
    pub(super) extensions: RwLock<HashMap<(Basis, Basis), Arc<Exact>>>,
    pub(super) decompositions: RwLock<HashMap<Basis, Arc<Decomposition>>>,
    /// For each chain prime the powers of its root of unity.
    pub(super) powers: OnceLock<Buffer>,
}

/// A factor as kernels see it.
pub(super) fn shoup(factor: modular::Shoup) -> Shoup {
    Shoup { value: factor.value, quotient: factor.quotient }
}

/// Conversions of digits to other primes.
pub(crate) struct Conversion {
    pub(super) digit: Buffer,
    pub(super) limbs: Buffer,
    pub(super) offsets: Buffer,
    pub(super) factors: Buffer,
    pub(super) digits: usize,
    pub(super) listed: usize,
    pub(super) targets: usize,
}

impl Conversion {
    /// Digits by their limbs; for each target prime and digit what it is converted by, or nothing for a prime of the
    /// digit.
    pub(crate) fn new(
        device: &Device,
        digits: &[Vec<u32>],
        targets: &[Vec<Option<&ConversionTarget>>],
    ) -> Result<Self, RingError> {
        let most = digits.iter().map(Vec::len).max().unwrap_or(0);
        if most > kernel::MAX_SOURCES {
            return Err(RingError::OnDevice { what: "primes of a digit", found: most, needed: "at most 32" });
        }
        let mut first = 0;
        let digit = digits.iter().map(|limbs| {
            let digit = Digit { first, count: limbs.len() as u32 };
            first += digit.count;
            digit
        });
        let digit: Vec<Digit> = digit.collect();
        let limbs = digits.concat();
        let offsets: Vec<u32> =
            targets.iter().flatten().map(|target| target.map_or(0, |target| target.offset)).collect();
        let row = |target: &Vec<Option<&ConversionTarget>>| -> Vec<u32> {
            let factors = target.iter().zip(digits);
            let factors = factors.map(|(target, limbs)| match target {
                Some(target) => target.factors.clone(),
                None => vec![0; limbs.len()],
            });
            factors.collect::<Vec<_>>().concat()
        };
        let factors: Vec<u32> = targets.iter().flat_map(row).collect();
        Ok(Conversion {
            digit: device.upload(&digit)?,
            limbs: device.upload(&limbs)?,
            offsets: device.upload(&offsets)?,
            factors: device.upload(&factors)?,
            digits: digits.len(),
            listed: limbs.len(),
            targets: targets.len(),
        })
    }
}

/// An exact conversion: the factors of the inverse transforms, and the overflow.
pub(crate) struct Exact {
    pub(super) scales: Buffer,
    pub(super) reciprocals: Buffer,
    pub(super) shift: u32,
    /// The limbs of the sources in the polynomial.
    pub(super) sources: Vec<usize>,
    pub(super) conversion: Conversion,
}

impl Exact {
    /// Sources by their limbs in the polynomial, with the factors of their inverse transforms.
    pub(crate) fn new(
        device: &Device,
        sources: &[(usize, modular::Shoup)],
        (reciprocals, shift): (&[u32], u32),
        targets: &[ConversionTarget],
    ) -> Result<Self, RingError> {
        let scales: Vec<Shoup> = sources.iter().map(|&(_, scale)| shoup(scale)).collect();
        // The overflow is the last source.
        let limbs: Vec<u32> = (0..=sources.len() as u32).collect();
        let targets: Vec<Vec<Option<&ConversionTarget>>> = targets.iter().map(|target| vec![Some(target)]).collect();
        Ok(Exact {
            scales: device.upload(&scales)?,
            reciprocals: device.upload(reciprocals)?,
            shift,
            sources: sources.iter().map(|&(limb, _)| limb).collect(),
            conversion: Conversion::new(device, &[limbs], &targets)?,
        })
    }
}

/// A division: the remainder, and what is kept.
pub(crate) struct Division {
    pub(super) remainder: Exact,
    pub(super) kept: Buffer,
}

impl Division {
    /// The primes of the result by their limbs in the dividend, if they have one, with their factors.
    pub(crate) fn new(
        device: &Device,
        remainder: Exact,
        kept: impl Iterator<Item = (Option<usize>, modular::Shoup)>,
    ) -> Result<Self, RingError> {
        let kept = kept.map(|(limb, inverse)| {
            let limb = limb.map_or(kernel::NO_LIMB, |limb| limb as u32);
            Kept { limb, inverse: shoup(inverse) }
        });
        Ok(Division { remainder, kept: device.upload(&kept.collect::<Vec<_>>())? })
    }
}

/// A decomposition into digits: the factors of the inverse transforms, the shifts, and the conversions.
pub(crate) struct Decomposition {
    pub(super) scales: Buffer,
    pub(super) shifts: Buffer,
    pub(super) conversion: Conversion,
}

impl Decomposition {
    pub(crate) fn new(
        device: &Device,
        scales: &[modular::Shoup],
        shifts: &[u32],
        conversion: Conversion,
    ) -> Result<Self, RingError> {
        let scales: Vec<Shoup> = scales.iter().map(|&scale| shoup(scale)).collect();
        Ok(Decomposition { scales: device.upload(&scales)?, shifts: device.upload(shifts)?, conversion })
    }
}
