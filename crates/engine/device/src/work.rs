//! What launches cost a device, counted from their arguments: the floors below which no kernel of this kind runs.

use crate::kernel::{
    AutomorphismArgs, ConvertArgs, DigitArgs, DivideArgs, ElementArgs, FactorArgs, FoldArgs, KeyArgs, LOG_TILE,
    MapArgs, MatrixArgs, ModuleArgs, PackArgs, QuotientArgs, Ring, RotationArgs, SelectArgs, StepArgs, SumsArgs,
    TensorArgs, TransformArgs,
};

/// Multiplications of 32-bit words, and bytes of memory, each read or written once. Products for sums count one
/// multiplication, and products that are reduced three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Multiplications.
    pub multiplications: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Work {
    /// So many of both for each of some residues, with the words that are read or written.
    fn of(residues: usize, multiplications: usize, words: usize) -> Self {
        Work {
            multiplications: (residues * multiplications) as u64,
            bytes: (residues * words * size_of::<u32>()) as u64,
        }
    }
}

/// Multiplications of a product that is reduced.
const PRODUCT: usize = 3;

/// Arguments of a kernel.
pub trait Arguments {
    /// What a launch with so many blocks costs.
    fn work(&self, blocks: [usize; 3]) -> Work;
}

fn degree(ring: &Ring) -> usize {
    1 << ring.log_degree
}

impl Arguments for ElementArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        let operands = [self.a, self.b].iter().filter(|operand| operand.words != 0).count();
        Work::of(degree(&self.ring) * limbs, PRODUCT, operands + 1)
    }
}

impl Arguments for FactorArgs {
    fn work(&self, blocks: [usize; 3]) -> Work {
        self.of.work(blocks)
    }
}

impl Arguments for TensorArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, 4 * PRODUCT, 7)
    }
}

impl Arguments for SumsArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        let (residues, terms) = (degree(&self.ring) * limbs, self.terms as usize);
        let factors = Work::of(residues >> self.log_run, 0, terms);
        let both = Work::of(residues, 2 * (terms + 2), 2 * (terms + 1));
        Work { bytes: both.bytes + factors.bytes, ..both }
    }
}

impl Arguments for AutomorphismArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, 0, self.terms as usize + 1)
    }
}

impl Arguments for ConvertArgs {
    fn work(&self, _: [usize; 3]) -> Work {
        let (targets, digits, listed) = (self.targets as usize, self.digits as usize, self.listed as usize);
        Work::of(degree(&self.ring), targets * (listed + 2 * digits), listed + targets * digits)
    }
}

impl Arguments for QuotientArgs {
    fn work(&self, _: [usize; 3]) -> Work {
        Work::of(degree(&self.ring), self.count as usize, self.count as usize + 1)
    }
}

impl Arguments for DivideArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, PRODUCT, 3)
    }
}

impl Arguments for KeyArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        let (terms, digits) = (self.terms as usize, self.digits as usize);
        Work::of(degree(&self.ring) * limbs, 2 * terms * (digits + 2), digits * (2 * terms + 1) + 2)
    }
}

impl Arguments for RotationArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        let (terms, digits) = (self.terms as usize, self.digits as usize);
        Work::of(degree(&self.ring) * limbs, 2 * terms * (digits + 2 + PRODUCT), digits * (2 * terms + 1) + 4)
    }
}

impl Arguments for TransformArgs {
    /// A pass of two has half of the stages. Limbs that are left alone are counted.
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        let log_degree = self.ring.log_degree as usize;
        let passes = if self.ring.log_degree > LOG_TILE { 2 } else { 1 };
        // A product for each pair of residues and stage, and one for each residue at the end or the start.
        let products = Work::of(degree(&self.ring) * limbs / (2 * passes), PRODUCT * (log_degree + 2), 0);
        Work { multiplications: products.multiplications, ..Work::of(degree(&self.ring) * limbs, 0, 2) }
    }
}

impl Arguments for FoldArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, 2 * PRODUCT, 2)
    }
}

impl Arguments for MatrixArgs {
    fn work(&self, [_, _, limbs]: [usize; 3]) -> Work {
        let (rows, columns) = (self.rows as usize, self.columns as usize);
        Work::of(self.length as usize * limbs, rows * (columns + 2 + PRODUCT), rows + columns)
    }
}

impl Arguments for StepArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(self.count as usize * limbs, 0, 2)
    }
}

impl Arguments for ModuleArgs {
    fn work(&self, [_, parts, limbs]: [usize; 3]) -> Work {
        Work::of((degree(&self.ring) + (1 << self.log_part)) * parts * limbs, 0, 2)
    }
}

impl Arguments for SelectArgs {
    fn work(&self, [rows, _, limbs]: [usize; 3]) -> Work {
        Work::of(self.row_len as usize * rows * limbs, 0, 2)
    }
}

impl Arguments for PackArgs {
    fn work(&self, [_, pieces, limbs]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * pieces * limbs, 0, 2)
    }
}

impl Arguments for DigitArgs {
    fn work(&self, _: [usize; 3]) -> Work {
        Work::of(degree(&self.ring), PRODUCT, self.primes as usize * (1 + self.levels as usize))
    }
}

impl Arguments for MapArgs {
    fn work(&self, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, 0, 2)
    }
}
