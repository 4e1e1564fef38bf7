//! Bytes of keys by the formulas of the paper's Table 6.

use unspoken_pir_scheme::PirParameters;

/// The formulas for a ring. They count masks and bodies; seeds are not used.
pub(super) struct TableSix {
    pub(super) degree: usize,
    /// `log2` of the ring's modulus.
    pub(super) log2_modulus: f64,
}

impl TableSix {
    pub(super) fn of(pir: &PirParameters) -> Self {
        TableSix { degree: pir.ring().degree(), log2_modulus: pir.ring().log2_modulus() }
    }

    /// An evaluation key for the bits of an LWE secret: `4 n l N log2 Q` bits.
    pub(super) fn evaluation(&self, dimension: usize, levels: usize) -> f64 {
        (4 * dimension * levels * self.degree) as f64 * self.log2_modulus / 8.0
    }

    /// A key switch between LWE secrets: `N l (n + 1) log2 Q` bits.
    pub(super) fn switch((source, target): (usize, usize), levels: usize, log2_modulus: f64) -> f64 {
        (source * levels * (target + 1)) as f64 * log2_modulus / 8.0
    }

    /// The squaring key, `2 N l log2 Q` bits, and `log2 N` automorphism keys of the same size.
    pub(super) fn conversion(&self, levels: usize) -> f64 {
        let keys = self.degree.trailing_zeros() as usize + 1;
        (keys * 2 * self.degree * levels) as f64 * self.log2_modulus / 8.0
    }
}
