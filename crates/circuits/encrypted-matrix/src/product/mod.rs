//! Products of encrypted matrices.
//!
//! - `expanded-r-d`: `2 log2 m + 2 (d/m) log2 d + log2 m` at radix 2; up to `7 log2 d`; 2
//! - `expanded-r-s`, steps `s` before the mask: `2 log2 m + 3 (d/s)` to `4 (d/s)`, `2 (d/m) log2 s`, `log2 m`; more; 2
//! - `original` (`m = d`), a baseline: `2 (d - 1) + 3 log2 d`; the same; 2
//! - `jkls` (`m = 1`), a baseline; `jkls-hoisted`: `4 d` and two permutations; `3 (d - 1)`; 3
//!
//! The expansion of `expanded` has no mask: rotations of the vector are added to it, `log2 m` times, and one mask per
//! group of `m` indices keeps the correct entries. There are four improvements on the paper:
//!
//! - Doublings are computed `log2 r` at a time, as one sum of rotations with one digit decomposition and one division.
//! - Steps before the mask have no division of their own; only the sum of each group is divided.
//! - A rescale is always part of such a division.
//! - The products of all groups and tiles are added before one relinearisation.
//!
//! `estimates` counts every method for the same output level and sorts them by time. `plan` uses the fastest method
//! within the key budget. If there are too few levels for it, `plan` uses the shallowest method.

mod expanded;
mod jkls;
mod original;
mod planner;
mod tiles;

use expanded::Expanded;
use jkls::Jkls;
use original::Original;

pub use planner::{Estimate, ProductTask, estimates};
use unspoken_ckks::{Arithmetic, CkksParameters};

use crate::encrypted::{EncryptedMatrix, check_match};
use crate::error::{EncryptedMatrixError, check_depth, display_shape, shape_error};
use crate::layout::Layout;
use crate::product::tiles::Factors;

/// Method for the product of two encrypted matrices. `d` is the dimension of the tiles, `m` the number of blocks of
/// their encoding space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// The improved method of Rizomiliotis and Triakosia (permutation decomposition paper, section 4.2, Appendix B.3):
    /// expansion by adding rotations of the vector to itself, one mask per group of `m` indices, replication. It uses
    /// two levels. With `step = d` it needs `2 log2 m + 2 (d/m) log2 d + log2 m` rotations at radix 2.
    Expanded {
        /// A power of two from 2. `log2 radix` doublings are computed at a time, as one sum of `radix` rotations with
        /// one division. A larger radix needs more keys and less time.
        radix: usize,
        /// A power of two up to `d`. Before the mask the vector is rotated by all multiples of `step`, once for all
        /// groups, so that only `log2 step` doublings follow the mask. A smaller step needs more keys and masks and
        /// less time; with `d` there are no rotations before the mask.
        step: usize,
    },
    /// The published method of Rizomiliotis and Triakosia, for `m = d`, as a baseline: `d - 1` rotations and masks for
    /// each factor, then `3 log2 d` rotations. It uses two levels.
    Original {
        /// Whether the `d - 1` rotations are one double-hoisted linear transformation, instead of one by one.
        hoisted: bool,
    },
    /// The method of Jiang, Kim, Lauter and Song (CCS 2018), for `m = 1`: two permutations by baby steps and giant
    /// steps, then `d` shifts of columns (with masks) and of rows. It uses three levels. The result is always clean.
    Jkls {
        /// Whether the shifts are hoisted; shifts of columns then need one division for both masks. Otherwise they are
        /// single rotations, as published.
        hoisted: bool,
    },
}

impl Method {
    /// Number of levels it uses.
    pub fn depth(self) -> usize {
        match self {
            Method::Expanded { .. } | Method::Original { .. } => 2,
            Method::Jkls { .. } => 3,
        }
    }

    /// All methods for this layout, including the baselines.
    pub fn all(layout: Layout) -> Vec<Method> {
        let (d, m) = (layout.dim(), layout.blocks());
        let powers = |from: usize, to: usize| (from.ilog2()..=to.ilog2()).map(|log2| 1usize << log2);
        let mut methods = Vec::new();
        // With one group, rotations before the mask save no rotations after it.
        for step in powers(if m == d { d } else { 1 }, d) {
            // A radix above the length of the longest sum has no effect.
            let most = step.max(m).clamp(2, MAX_RADIX);
            methods.extend(powers(2, most).map(|radix| Method::Expanded { radix, step }));
        }
        if m == d {
            methods.extend([true, false].map(|hoisted| Method::Original { hoisted }));
        }
        if m == 1 {
            methods.extend([true, false].map(|hoisted| Method::Jkls { hoisted }));
        }
        methods
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Method::Expanded { radix, step } => write!(f, "expanded-{radix}-{step}"),
            Method::Original { hoisted: true } => f.write_str("original-hoisted"),
            Method::Original { hoisted: false } => f.write_str("original"),
            Method::Jkls { hoisted: true } => f.write_str("jkls-hoisted"),
            Method::Jkls { hoisted: false } => f.write_str("jkls"),
        }
    }
}

/// Maximum radix: a larger one needs more keys than it is worth.
const MAX_RADIX: usize = 32;

/// A prepared product. Its masks are encoded once, at their first encrypted use.
pub struct Product {
    layout: Layout,
    method: Method,
    level: usize,
    kind: Kind,
}

enum Kind {
    Expanded(Box<Expanded>),
    Original(Box<Original>),
    Jkls(Box<Jkls>),
}

const OPERATION: &str = "matmul";

impl Product {
    /// Prepares a product for factors at `level` or above with these scales. The result is [`Method::depth`] levels
    /// below `level`, at the parameters' scale.
    ///
    /// # Errors
    /// If the method is not possible in this layout, or there are too few levels.
    pub fn new(
        parameters: &CkksParameters,
        layout: Layout,
        method: Method,
        level: usize,
        scales: [f64; 2],
    ) -> Result<Self, EncryptedMatrixError> {
        layout.check_square(OPERATION)?;
        let remedy = "start at a higher level, or use a deeper preset";
        check_depth(OPERATION, level.min(parameters.max_level()), method.depth(), remedy)?;
        let refuse = |needed: &str| {
            let found = format!("method {method} for tiles of {} with {} blocks", layout.dim(), layout.blocks());
            Err(EncryptedMatrixError::Layout { operation: OPERATION, found, needed: needed.into() })
        };
        let factors = Factors { level, scales };
        let kind = match method {
            Method::Expanded { radix, step } => {
                if !radix.is_power_of_two() || radix < 2 || !step.is_power_of_two() || step > layout.dim() {
                    return refuse("a radix from 2 and a step up to the dimension, powers of two");
                }
                Kind::Expanded(Box::new(Expanded::new(parameters, layout, (radix, step), factors)?))
            }
            Method::Original { hoisted } => {
                if layout.blocks() != layout.dim() {
                    return refuse("as many blocks as the dimension");
                }
                Kind::Original(Box::new(Original::new(parameters, layout, hoisted, factors)?))
            }
            Method::Jkls { hoisted } => {
                if layout.blocks() != 1 {
                    return refuse("one block");
                }
                Kind::Jkls(Box::new(Jkls::new(parameters, layout, hoisted, factors)?))
            }
        };
        Ok(Product { layout, method, level, kind })
    }

    /// Its method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Bytes of its encoded masks.
    pub(crate) fn prepared_bytes(&self, parameters: &CkksParameters) -> usize {
        let mask = extended_bytes(parameters, self.level);
        match &self.kind {
            Kind::Expanded(product) => product.masks() * mask,
            Kind::Original(product) => product.masks() * mask,
            Kind::Jkls(product) => product.prepared_bytes(mask),
        }
    }

    /// Number of ciphertexts it holds at the same time, besides factors and result, for factors with these numbers of
    /// tiles.
    pub(crate) fn working_ciphertexts(&self, left_tiles: usize, right_tiles: usize) -> usize {
        let (copies, rotations) = match &self.kind {
            Kind::Expanded(product) => product.working_ciphertexts(),
            Kind::Original(_) => (1, self.layout.dim()),
            Kind::Jkls(_) => (self.layout.dim(), 2 * self.layout.dim()),
        };
        // One copy more, because the factors are lowered to one level first.
        (copies + 1) * (left_tiles + right_tiles) + rotations
    }

    /// The level of its result.
    pub fn output_level(&self) -> usize {
        self.level - self.method.depth()
    }

    /// `a @ b` for every matrix of the batch. The result is clean if the layout has one block.
    ///
    /// # Errors
    /// If shapes, layouts or batches do not fit, a factor is not clean, its level is too low, its scale is not the
    /// prepared one, or keys are missing.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
        b: &EncryptedMatrix<A::Vector>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        check_shapes(a.shape(), b.shape())?;
        check_match(OPERATION, a, b)?;
        if a.layout() != self.layout {
            return Err(EncryptedMatrixError::Layout {
                operation: OPERATION,
                found: format!("tiles of {} with {} blocks", a.layout().dim(), a.layout().blocks()),
                needed: format!("tiles of {} with {} blocks", self.layout.dim(), self.layout.blocks()),
            });
        }
        if !(a.is_clean() && b.is_clean()) {
            return Err(EncryptedMatrixError::Layout {
                operation: OPERATION,
                found: "a factor with something outside its tiles, left by a product over several blocks".into(),
                needed: "clean factors: mask it with TileMask, one level".into(),
            });
        }
        let tiles = match &self.kind {
            Kind::Expanded(product) => product.apply(arithmetic, a, b)?,
            Kind::Original(product) => product.apply(arithmetic, a, b)?,
            Kind::Jkls(product) => product.apply(arithmetic, a, b)?,
        };
        Ok(a.result((a.shape().0, b.shape().1), tiles, false))
    }
}

/// Bytes of a polynomial over the primes of a level and the special primes.
pub(crate) fn extended_bytes(parameters: &CkksParameters, level: usize) -> usize {
    parameters.ring().poly_bytes(parameters.ring().switching_basis(parameters.basis(level)))
}

/// Checks that shapes can be multiplied. The error message is worded like numpy's.
pub(crate) fn check_shapes(a: (usize, usize), b: (usize, usize)) -> Result<(), EncryptedMatrixError> {
    if a.1 == b.0 {
        return Ok(());
    }
    let reason = format!("{} @ {}: inner dimensions {} and {} differ", display_shape(a), display_shape(b), a.1, b.0);
    Err(shape_error(OPERATION, reason))
}
