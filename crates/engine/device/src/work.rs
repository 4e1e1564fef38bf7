//! What launches cost a device, counted from their arguments: the floors below which no kernel of this kind runs.

use crate::kernel::{
    self, AutomorphismArgs, BatchArgs, BatchOperation, ByteArgs, CeilingArgs, ChangeArgs, ChoiceArgs, ConvertArgs,
    DigitArgs, DivideArgs, ElementArgs, FactorArgs, FoldArgs, GatherArgs, Kernel, KeyArgs, LOG_RUN, LOG_TILE, MapArgs,
    MatrixArgs, ModuleArgs, OrbitArgs, PackArgs, QuotientArgs, RaiseArgs, Ring, RotationArgs, RowArgs, ScatterArgs,
    SelectArgs, StepArgs, SumsArgs, TableArgs, TensorArgs, TransformArgs, WindowArgs,
};

/// Multiplications of 32-bit words, and bytes of memory, each read or written once by a launch. Products for sums count
/// one multiplication, and products that are reduced three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Multiplications.
    pub multiplications: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Work {
    /// Work on `residues` residues: `multiplications` multiplications, and `words` words read or written, for each
    /// residue.
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
    /// What a launch of the kernel with this number costs, with `blocks` blocks.
    fn work(&self, kernel: usize, blocks: [usize; 3]) -> Work;
}

fn degree(ring: &Ring) -> usize {
    1 << ring.log_degree
}

impl ElementArgs {
    /// With products or without, which are added to the result or not.
    fn elements(&self, limbs: usize, multiplies: bool, adds: bool) -> Work {
        let operands = [self.a, self.b].iter().filter(|operand| operand.words != 0).count();
        Work::of(degree(&self.ring) * limbs, PRODUCT * usize::from(multiplies), operands + 1 + usize::from(adds))
    }
}

impl Arguments for ElementArgs {
    fn work(&self, kernel: usize, [_, limbs, _]: [usize; 3]) -> Work {
        let multiplies = [kernel::PRODUCT, kernel::ADD_PRODUCTS, kernel::TIMES_IMAGINARY];
        let multiplies = multiplies.map(Kernel::number).contains(&kernel);
        self.elements(limbs, multiplies, kernel == kernel::ADD_PRODUCTS.number())
    }
}

impl Arguments for FactorArgs {
    fn work(&self, kernel: usize, [_, limbs, _]: [usize; 3]) -> Work {
        self.of.elements(limbs, kernel != kernel::ADD_WORDS.number(), kernel == kernel::ADD_SCALED.number())
    }
}

impl Arguments for TensorArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, 4 * PRODUCT, 7)
    }
}

impl Arguments for SumsArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        let (residues, terms) = (degree(&self.ring) * limbs, self.terms as usize);
        let factors = Work::of(residues >> self.log_run, 0, terms);
        let both = Work::of(residues, 2 * (terms + 2), 2 * (terms + 1 + self.accumulate as usize));
        Work { bytes: both.bytes + factors.bytes, ..both }
    }
}

impl Arguments for AutomorphismArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, 0, self.terms as usize + 1)
    }
}

impl Arguments for ConvertArgs {
    /// Digits of one length. The digit of a target itself is copied.
    fn work(&self, _: usize, _: [usize; 3]) -> Work {
        let (targets, digits, listed) = (self.targets as usize, self.digits as usize, self.listed as usize);
        let copied = if self.own.words == 0 { 0 } else { self.basis.own as usize };
        let products = targets * (listed + 2 * digits) - copied * (listed / digits.max(1) + 2);
        Work::of(degree(&self.ring), products, listed + copied + targets * digits)
    }
}

impl Arguments for QuotientArgs {
    fn work(&self, _: usize, _: [usize; 3]) -> Work {
        Work::of(degree(&self.ring), self.count as usize, self.count as usize + 1)
    }
}

impl Arguments for DivideArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, PRODUCT, 3)
    }
}

impl Arguments for KeyArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        let (terms, digits) = (self.terms as usize, self.digits as usize);
        let words = digits * (2 * terms + 1) + 2 * (1 + self.accumulate as usize);
        Work::of(degree(&self.ring) * limbs, 2 * terms * (digits + 2), words)
    }
}

impl Arguments for RotationArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        let (terms, digits) = (self.terms as usize, self.digits as usize);
        Work::of(degree(&self.ring) * limbs, 2 * terms * (digits + 2 + PRODUCT), digits * (2 * terms + 1) + 4)
    }
}

impl Arguments for TransformArgs {
    fn work(&self, kernel: usize, [_, limbs, _]: [usize; 3]) -> Work {
        // Of each prime that a digit has, that digit is left alone.
        let limbs = limbs - if self.many.skip == 1 { self.many.basis.own as usize } else { 0 };
        let columns = [kernel::FORWARD_COLUMNS, kernel::INVERSE_COLUMNS].map(Kernel::number).contains(&kernel);
        let one_pass = self.ring.log_degree <= LOG_TILE;
        let stages = match (one_pass, columns) {
            (true, _) => self.ring.log_degree,
            (false, true) => self.ring.log_degree - LOG_RUN,
            (false, false) => LOG_RUN,
        };
        // A product for each pair of residues and stage; and at the edge of the transform one for each residue, if it
        // is an inverse one or begins with plain residues.
        let at_edge = one_pass || columns;
        let forward = [kernel::FORWARD_COLUMNS, kernel::FORWARD_RUNS].map(Kernel::number).contains(&kernel);
        let more = if at_edge && (!forward || self.to_montgomery == 1) { 2 } else { 0 };
        let residues = degree(&self.ring) * limbs;
        let multiplications = (residues / 2 * PRODUCT * (stages as usize + more)) as u64;
        Work { multiplications, ..Work::of(residues, 0, 2) }
    }
}

impl Arguments for FoldArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, 2 * PRODUCT, 2)
    }
}

impl Arguments for MatrixArgs {
    fn work(&self, _: usize, [_, _, limbs]: [usize; 3]) -> Work {
        let (rows, columns) = (self.rows as usize, self.columns as usize);
        Work::of(self.length as usize * limbs, rows * (columns + 2 + PRODUCT), rows + columns)
    }
}

impl Arguments for StepArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(self.count as usize * limbs, 0, 2)
    }
}

impl Arguments for ModuleArgs {
    fn work(&self, _: usize, [_, parts, limbs]: [usize; 3]) -> Work {
        Work::of((degree(&self.ring) + (1 << self.log_part)) * parts * limbs, 0, 2)
    }
}

impl Arguments for SelectArgs {
    fn work(&self, _: usize, [rows, _, limbs]: [usize; 3]) -> Work {
        Work::of(self.row_len as usize * rows * limbs, 0, 2)
    }
}

impl Arguments for PackArgs {
    fn work(&self, _: usize, [_, pieces, limbs]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * pieces * limbs, 0, 2)
    }
}

impl Arguments for DigitArgs {
    fn work(&self, _: usize, [_, operands, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * operands, PRODUCT, self.primes as usize * (1 + self.levels as usize))
    }
}

impl Arguments for MapArgs {
    fn work(&self, _: usize, [_, limbs, _]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * limbs, 0, 2)
    }
}

impl Arguments for TableArgs {
    fn work(&self, _: usize, [_, _, primes]: [usize; 3]) -> Work {
        let (rows, count) = (self.rows as usize, self.count as usize);
        Work::of(degree(&self.ring) * primes, 2 * count * (rows + 2), rows * count + 2 * (rows + count))
    }
}

impl Arguments for ByteArgs {
    /// The table is read once for the queries of a block.
    fn work(&self, _: usize, [_, _, passes]: [usize; 3]) -> Work {
        let (rows, columns, queries) = (self.rows as usize, self.columns as usize, self.queries as usize);
        let words = Work::of(queries, rows * columns, rows + columns);
        Work { bytes: words.bytes + (rows * columns * passes) as u64, ..words }
    }
}

impl Arguments for ChangeArgs {
    fn work(&self, _: usize, [_, queries, _]: [usize; 3]) -> Work {
        Work::of(self.changes as usize * self.length as usize * queries, 1, 2)
    }
}

impl Arguments for RaiseArgs {
    fn work(&self, _: usize, [_, queries, _]: [usize; 3]) -> Work {
        let primes = self.primes as usize;
        Work::of(degree(&self.ring) * queries, 2 + 3 * PRODUCT * primes, 1 + primes)
    }
}

impl Arguments for OrbitArgs {
    fn work(&self, _: usize, [_, primes, _]: [usize; 3]) -> Work {
        Work::of(2 * degree(&self.ring) * primes, PRODUCT, 2)
    }
}

impl Arguments for WindowArgs {
    /// The factors are read once for the queries of a block.
    fn work(&self, _: usize, [_, primes, passes]: [usize; 3]) -> Work {
        let (factors, queries) = (self.lists as usize * self.count as usize, self.queries as usize);
        let words = factors * passes + queries * (2 * self.lists as usize + 1);
        Work::of(degree(&self.ring) * primes, queries * factors, words)
    }
}

impl Arguments for GatherArgs {
    /// Of differences.
    fn work(&self, _: usize, [_, items, limbs]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * items * limbs, 0, 3)
    }
}

impl Arguments for ScatterArgs {
    fn work(&self, _: usize, [_, items, limbs]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * items * limbs, 0, 2)
    }
}

impl Arguments for BatchArgs {
    fn work(&self, _: usize, [_, items, limbs]: [usize; 3]) -> Work {
        let (multiplications, words) = match self.operation {
            BatchOperation::Sum => (0, 3),
            BatchOperation::Product => (PRODUCT, 2),
            BatchOperation::AddProduct => (PRODUCT, 3),
            BatchOperation::Split => (PRODUCT, 4),
        };
        Work::of(degree(&self.ring) * items * limbs, multiplications, words)
    }
}

impl Arguments for ChoiceArgs {
    fn work(&self, _: usize, [_, items, limbs]: [usize; 3]) -> Work {
        let rows = self.rows as usize;
        Work::of(degree(&self.ring) * items * limbs, 2 * (rows + 2), 3 * rows + 4)
    }
}

impl Arguments for RowArgs {
    fn work(&self, _: usize, [_, components, primes]: [usize; 3]) -> Work {
        Work::of(degree(&self.ring) * components * primes, PRODUCT, 2)
    }
}

impl Arguments for CeilingArgs {
    fn work(&self, _: usize, [blocks, _, _]: [usize; 3]) -> Work {
        Work::of(blocks * kernel::THREADS, PRODUCT * kernel::CHAINS * self.rounds as usize, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Basis, Limbs, MAX_SOURCES, Many};

    const LIMB: u64 = 1 << 16;

    fn ring(log_degree: u32) -> Ring {
        let stride = 1 << log_degree;
        Ring { primes: 0, forward: 0, inverse: 0, log_degree, stride, chain: 2, own: 2, digit_len: 1, invariant: 0 }
    }

    fn transform(log_degree: u32, (per_prime, skip): (u32, u32), to_montgomery: u32) -> TransformArgs {
        let basis = Basis { chain: 2, own: 2 };
        let many = Many { basis, per_prime, skip, listed: 0, list: [0; MAX_SOURCES] };
        TransformArgs { ring: ring(log_degree), many, source: 0, target: 0, to_montgomery, scales: 0, words: 0 }
    }

    #[test]
    fn both_passes_of_a_transform_have_all_of_its_stages() {
        let of = |arguments: &TransformArgs, kernels: [Kernel<TransformArgs>; 2]| {
            kernels.map(|kernel| arguments.work(kernel.number(), [16, 3, 1]))
        };
        let stages = 3 * LIMB / 2 * 16 * 3;
        let [first, second] = of(&transform(16, (1, 0), 0), [kernel::FORWARD_COLUMNS, kernel::FORWARD_RUNS]);
        assert_eq!(first.multiplications + second.multiplications, stages);
        assert_eq!((first.bytes, second.bytes), (3 * LIMB * 8, 3 * LIMB * 8));
        // One more product for each residue: to Montgomery form before, and 1/n after.
        let [first, second] = of(&transform(16, (1, 0), 1), [kernel::FORWARD_COLUMNS, kernel::FORWARD_RUNS]);
        assert_eq!(first.multiplications + second.multiplications, stages + 3 * LIMB * 3);
        let [first, second] = of(&transform(16, (1, 0), 0), [kernel::INVERSE_RUNS, kernel::INVERSE_COLUMNS]);
        assert_eq!(first.multiplications + second.multiplications, stages + 3 * LIMB * 3);
        let only = transform(12, (1, 0), 1).work(kernel::FORWARD_RUNS.number(), [1, 3, 1]);
        assert_eq!(only, Work { multiplications: 3 * (4096 / 2 * 12 + 4096) * 3, bytes: 3 * 4096 * 8 });
    }

    #[test]
    fn digits_of_a_prime_itself_are_not_transformed() {
        // Two primes and a special one, three digits of each.
        let work = transform(12, (3, 1), 0).work(kernel::FORWARD_RUNS.number(), [1, 9, 1]);
        assert_eq!(work.bytes, (9 - 2) * 4096 * 8);
    }

    #[test]
    fn sums_multiply_nothing_and_products_three_times() {
        let limbs = Limbs { words: 1, basis: Basis::default() };
        let of = ElementArgs { ring: ring(16), basis: Basis::default(), out: limbs, a: limbs, b: limbs };
        let work = |kernel: Kernel<ElementArgs>| of.work(kernel.number(), [64, 2, 1]);
        assert_eq!(work(kernel::SUM), Work { multiplications: 0, bytes: 2 * LIMB * 12 });
        assert_eq!(work(kernel::PRODUCT), Work { multiplications: 2 * LIMB * 3, bytes: 2 * LIMB * 12 });
        assert_eq!(work(kernel::ADD_PRODUCTS).bytes, 2 * LIMB * 16);
    }
}
