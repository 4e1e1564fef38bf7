//! Tables of the number-theoretic transform of one prime.

use crate::RingKind;
use crate::memory::AlignedWords;
use crate::modular::{Modulus, Shoup, primitive_root_of_unity};

/// Twiddle factors of one prime for one degree.
///
/// Both rings use the same butterfly network. They differ in the roots, and the conjugate-invariant ring folds its
/// coefficients first. Position `i` of the output holds the value at `psi^e(i)`, where `psi` is the primitive root
/// whose order is the ring's prime step, `f` the bit reversal of `i` over `log2 n` bits, and `e(i) = 2f + 1` (standard)
/// or `4f + 1` (conjugate-invariant).
///
/// The roots of each direction number `n`, one per block of each stage: block `i` of the stage of `m` blocks has number
/// `m + i`, and its halves have numbers `2(m + i)` and `2(m + i) + 1`. A table for `L > 1` lanes stores each root once,
/// in one of two parts. Roots with numbers below `n / L`, whose butterflies span whole vectors, are in natural order in
/// `forward`. The others are in `forward_tail`, in the layout of [`LaneRoots`].
pub(crate) struct NttTable {
    pub(crate) modulus: Modulus,
    pub(crate) degree: usize,
    /// The number of lanes for which the tails are laid out; 1 means that `forward` and `inverse` hold all roots and
    /// the tails hold none.
    pub(crate) lanes: usize,
    /// `forward[m + i]`: root of block `i` in the stage of `m` blocks.
    pub(crate) forward: Vec<Shoup>,
    /// The other forward roots, if `lanes > 1`.
    pub(crate) forward_tail: LaneRoots,
    /// Inverses of `forward`.
    pub(crate) inverse: Vec<Shoup>,
    /// Inverses of `forward_tail`.
    pub(crate) inverse_tail: LaneRoots,
    /// `1/n`.
    pub(crate) degree_inverse: u32,
    /// `sqrt(-1)` as the evaluation of `X^(n/2)` (standard) at positions below `n/2`, or the fold's root.
    pub(crate) imaginary: u32,
}

/// The roots of the last `log2 L` stages, in the order in which vectors of `L` lanes use them.
///
/// A group of `L * L` residues is `L` blocks of `L`. After a transposition, lane `l` of vector `v` holds residue `v` of
/// block `l`. So every remaining stage works on whole vectors, and each lane needs the roots of its own block. The
/// `L - 1` roots of one block form a tree: entry `2^s + b` is the root of its part `b` of `2^s`. For each group the
/// table has entries `1..L` in order, each as `L` values followed by `L` quotients.
pub(crate) struct LaneRoots(AlignedWords);

impl LaneRoots {
    fn new(degree: usize, lanes: usize, root: impl Fn(usize) -> Shoup) -> Self {
        if lanes == 1 {
            return LaneRoots(AlignedWords::zeroed(0));
        }
        let mut words = AlignedWords::zeroed(degree / (lanes * lanes) * Self::words_per_group(lanes));
        for (group, table) in words.chunks_exact_mut(Self::words_per_group(lanes)).enumerate() {
            for (entry, vectors) in (1..lanes).zip(table.chunks_exact_mut(2 * lanes)) {
                let (parts, part) = (1 << entry.ilog2(), entry - (1 << entry.ilog2()));
                let (values, quotients) = vectors.split_at_mut(lanes);
                for (lane, (value, quotient)) in values.iter_mut().zip(quotients).enumerate() {
                    let block = degree / lanes + group * lanes + lane;
                    let root = root(block * parts + part);
                    (*value, *quotient) = (root.value, root.quotient);
                }
            }
        }
        LaneRoots(words)
    }

    /// Words of the table for each group of `lanes * lanes` residues.
    pub(crate) const fn words_per_group(lanes: usize) -> usize {
        (lanes - 1) * 2 * lanes
    }

    /// All words, group after group.
    pub(crate) fn words(&self) -> &[u32] {
        &self.0
    }
}

impl NttTable {
    /// The table for `degree`, a power of two of at least 512, for kernels with `lanes` lanes (1, 4, 8 or 16).
    pub(crate) fn new(modulus: Modulus, degree: usize, kind: RingKind, lanes: usize) -> Self {
        let step = kind.prime_step(degree);
        let psi = primitive_root_of_unity(&modulus, step);
        let powers = |root: u32| {
            std::iter::successors(Some(1), |&power| Some(modulus.mul(power, root)))
                .take(step as usize / 2)
                .collect::<Vec<u32>>()
        };
        let root = |powers: &[u32], k: usize| modulus.shoup(powers[Self::root_exponent(k, degree, kind)]);
        let natural = |powers: &[u32]| (0..degree / lanes).map(|k| root(powers, k)).collect::<Vec<_>>();
        let tail = |powers: &[u32]| LaneRoots::new(degree, lanes, |k| root(powers, k));
        let (up, down) = (powers(psi), powers(modulus.inv(psi)));
        NttTable {
            modulus,
            degree,
            lanes,
            forward: natural(&up),
            forward_tail: tail(&up),
            inverse: natural(&down),
            inverse_tail: tail(&down),
            degree_inverse: modulus.inv(degree as u32),
            imaginary: up[step as usize / 4],
        }
    }

    /// The exponent of `psi` in entry `k = m + i` of the root tables.
    fn root_exponent(k: usize, degree: usize, kind: RingKind) -> usize {
        if k == 0 {
            return 0;
        }
        let bits = degree.trailing_zeros();
        match kind {
            RingKind::Standard => bit_reverse(k, bits),
            // This is the first half of the network of degree 2n, in which entry m + i here has number 2m + i.
            RingKind::ConjugateInvariant => {
                let stage = 1usize << k.ilog2();
                bit_reverse(2 * stage + (k - stage), bits + 1)
            }
        }
    }
}

/// The lowest `bits` bits of `x` in reverse order.
pub(crate) fn bit_reverse(x: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { x.reverse_bits() >> (usize::BITS - bits) }
}
