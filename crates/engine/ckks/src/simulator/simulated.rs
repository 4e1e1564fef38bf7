//! Simulated vectors, their errors and their overflows.

use std::sync::Arc;

use num_complex::Complex64;

use crate::memory::Allocation;

/// A simulated vector: the exact slots and the noisy slots.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Hash of the operations that produced this vector. It selects the stream of further noise.
    pub(super) id: u64,
    pub(super) exact: Arc<Vec<Complex64>>,
    pub(super) noisy: Arc<Vec<Complex64>>,
    pub(super) level: usize,
    pub(super) scale: f64,
    pub(super) components: usize,
    pub(super) held: Allocation,
}

/// The difference between a noisy vector and the exact one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorStatistics {
    /// Root mean square over the slots.
    pub rms: f64,
    /// The median over the slots: half of the slots have a smaller error.
    pub median: f64,
    /// The largest error of a slot.
    pub worst: f64,
}

/// A result whose coefficients do not fit the modulus of its level, so that the encrypted run would decrypt to garbage;
/// or an input of a bootstrap outside the range in which the bootstrap is precise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overflow {
    /// The operation that produced the result.
    pub operation: &'static str,
    /// The level of the result.
    pub level: usize,
    /// Bits of its largest coefficient, including the sign.
    pub log2_coefficient: f64,
    /// Bits of the modulus, or of the range of a bootstrap.
    pub log2_modulus: f64,
}

impl ErrorStatistics {
    /// Compares two vectors of slots, of equal length.
    pub fn between(found: &[Complex64], exact: &[Complex64]) -> Self {
        let mut errors: Vec<f64> = found.iter().zip(exact).map(|(a, b)| (a - b).norm()).collect();
        errors.sort_by(f64::total_cmp);
        let count = errors.len().max(1) as f64;
        ErrorStatistics {
            rms: (errors.iter().map(|e| e * e).sum::<f64>() / count).sqrt(),
            median: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
            worst: errors.last().copied().unwrap_or(0.0),
        }
    }
}

impl Simulated {
    /// The exact slots.
    pub fn exact(&self) -> &[Complex64] {
        &self.exact
    }

    /// The slots that a decryption would return.
    pub fn noisy(&self) -> &[Complex64] {
        &self.noisy
    }

    /// The difference between the noisy and the exact slots.
    pub fn error(&self) -> ErrorStatistics {
        ErrorStatistics::between(&self.noisy, &self.exact)
    }

    /// A copy without counted memory, from which results are built.
    pub(super) fn draft(&self) -> Self {
        let (exact, noisy) = (Arc::clone(&self.exact), Arc::clone(&self.noisy));
        let Simulated { id, level, scale, components, .. } = *self;
        Simulated { id, exact, noisy, level, scale, components, held: Allocation::default() }
    }
}
