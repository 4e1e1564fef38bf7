//! The constants of decompositions, and their copies on a device.

use unspoken_device::Device;

use crate::device::tables::{Conversion, Decomposition};
use crate::error::RingError;
use crate::kernels::ConversionTarget;
use crate::modular::Shoup;

/// Number of primes for which digits are raised, transformed and multiplied together, so that the digits are read once
/// for all of them.
pub(crate) const TILE: usize = 4;

/// Constants of the decomposition of polynomials over one basis.
pub(crate) struct DecompositionTable {
    /// The primes of each digit.
    pub(crate) digits: Vec<Vec<Member>>,
    /// Per limb: `(Q_d/q)^-1 / (n R)`.
    pub(crate) scales: Vec<Shoup>,
    /// `[tile][digit]`: the primes of the tile outside the digit.
    pub(crate) conversions: Vec<Vec<Vec<ConversionTarget>>>,
}

/// A prime of a digit.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    /// Its index in the ring's tables.
    pub(crate) prime: usize,
    /// The limb of a polynomial over the basis.
    pub(crate) limb: usize,
}

impl DecompositionTable {
    /// The same on a device, for the primes that digits are raised to and the shifts of the digits.
    pub(crate) fn on_device(
        &self,
        device: &Device,
        primes: &[usize],
        shifts: &[u32],
    ) -> Result<Decomposition, RingError> {
        let digits: Vec<Vec<u32>> =
            self.digits.iter().map(|digit| digit.iter().map(|member| member.limb as u32).collect()).collect();
        let mut targets = Vec::with_capacity(primes.len());
        for (primes, conversions) in primes.chunks(TILE).zip(&self.conversions) {
            let mut outside: Vec<_> = conversions.iter().map(|targets| targets.iter()).collect();
            for &prime in primes {
                let mut row = Vec::with_capacity(digits.len());
                for (digit, outside) in outside.iter_mut().enumerate() {
                    row.push(if self.own_limb(digit, prime).is_some() { None } else { outside.next() });
                }
                targets.push(row);
            }
        }
        Decomposition::new(device, &self.scales, shifts, Conversion::new(device, &digits, &targets)?)
    }

    /// The limb of a prime of a digit.
    pub(crate) fn own_limb(&self, digit: usize, prime: usize) -> Option<usize> {
        self.digits[digit].iter().find(|member| member.prime == prime).map(|member| member.limb)
    }
}
