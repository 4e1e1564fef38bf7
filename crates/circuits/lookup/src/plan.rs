//! The plans to evaluate a lookup, their names and their levels.

use std::fmt;
use std::str::FromStr;

use unspoken_ckks::Complex64;
use unspoken_ring::RingKind;

use crate::cosine::{self, cosine};
use crate::error::LookupError;
use crate::table::alpha;

/// A plan: the method to compute the selected columns from the encrypted indices. `p = 2n` columns, `l` subtables, `d`
/// rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupPlan {
    /// The paper's plan (Algorithm 1): all powers, each conjugated to split its real and imaginary part, then a real
    /// matrix: `l (2n - 1)` key switches.
    Paper,
    /// All powers, then a complex matrix, then one conjugation per output: `l (n - 1) + d` key switches.
    ComplexFirst,
    /// Same as `ComplexFirst`, but the last layer of the power tree is relinearised after the matrix: `l (n/2 - 1) +
    /// 2d` key switches.
    LazyLast,
    /// Powers up to `babies = m`, and powers of multiples of `m`. Each output is a sum over groups, relinearised once:
    /// a combination of the powers up to `m`, times a power of a multiple of `m`: about `l (m + n/m) + 2d` key
    /// switches.
    BabyGiant {
        /// `m`, a power of two from 2 to `n/2`.
        babies: usize,
    },
    /// For the conjugate-invariant ring, where a ciphertext has twice the slots: Chebyshev polynomials of a cosine up
    /// to degree `babies = m`, and of degrees that are multiples of `m`, combined as in `BabyGiant`, without
    /// conjugations. About `l (m + p/m) + d` key switches for twice the tokens. The cosines are densest near 1 and -1,
    /// where about `log2 p
    /// + 1` bits of precision are lost.
    Cosine {
        /// `m`, a power of two from 2 to `p/2`.
        babies: usize,
    },
    /// The baseline of Kim et al. (ICML 2024): the client sends the index itself, and the server computes the one-hot
    /// vector with an encrypted indicator per column. Our interpretation: `(1 - ((x - k)/p)^2)` squared `2 log2 p + 6`
    /// times, which gives the depths of the paper's Table 3 for p = 64 and 256.
    Indicator,
    /// The client sends the one-hot vector itself (the form of HE-LRM): no key switch and one level, but `p`
    /// ciphertexts per subtable. It is the baseline for bytes, and the planner does not consider it.
    OneHot,
}

impl fmt::Display for LookupPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupPlan::Paper => f.write_str("paper"),
            LookupPlan::ComplexFirst => f.write_str("complex-first"),
            LookupPlan::LazyLast => f.write_str("lazy-last"),
            LookupPlan::BabyGiant { babies } => write!(f, "baby-giant-{babies}"),
            LookupPlan::Cosine { babies } => write!(f, "cosine-{babies}"),
            LookupPlan::Indicator => f.write_str("indicator"),
            LookupPlan::OneHot => f.write_str("one-hot"),
        }
    }
}

impl FromStr for LookupPlan {
    type Err = LookupError;

    fn from_str(name: &str) -> Result<Self, LookupError> {
        let babies = |prefix| name.strip_prefix(prefix).and_then(|m| m.parse().ok());
        match name {
            "paper" => return Ok(LookupPlan::Paper),
            "complex-first" => return Ok(LookupPlan::ComplexFirst),
            "lazy-last" => return Ok(LookupPlan::LazyLast),
            "indicator" => return Ok(LookupPlan::Indicator),
            "one-hot" => return Ok(LookupPlan::OneHot),
            _ => {}
        }
        if let Some(babies) = babies("baby-giant-") {
            return Ok(LookupPlan::BabyGiant { babies });
        }
        babies("cosine-").map(|babies| LookupPlan::Cosine { babies }).ok_or_else(|| LookupError::LookupPlan {
            plan: name.into(),
            preset: "any".into(),
            reason: "no such plan; there are paper, complex-first, lazy-last, baby-giant-<m>, cosine-<m>, indicator, \
                     one-hot"
                .into(),
        })
    }
}

/// Encoding of an index, which the client encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexEncoding {
    /// `alpha_j`; zero in a padded slot.
    Alpha,
    /// `cos((2j + 1) pi / 2p)`; zero in a padded slot.
    Cosine,
    /// `j / p`; 1 in a padded slot, which is an index beyond all columns.
    Index,
    /// `p` numbers, of which number `j` is 1 and the others are 0; all 0 in a padded slot.
    OneHot,
}

impl IndexEncoding {
    /// Number of vectors per subtable.
    pub fn vectors(self, columns: usize) -> usize {
        if self == IndexEncoding::OneHot { columns } else { 1 }
    }

    /// The slot of vector `vector` for an index; padding for `None`. The running time depends on the index: for public
    /// indices. Clients use an [`IndexEncoder`](crate::IndexEncoder).
    pub fn value(self, index: Option<usize>, columns: usize, vector: usize) -> Complex64 {
        match (self, index) {
            (IndexEncoding::Alpha, Some(j)) => alpha(j, columns),
            (IndexEncoding::Cosine, Some(j)) => Complex64::from(cosine(j, columns)),
            (IndexEncoding::Index, j) => Complex64::from(j.unwrap_or(columns) as f64 / columns as f64),
            (IndexEncoding::OneHot, Some(j)) => Complex64::from(if j == vector { 1.0 } else { 0.0 }),
            (IndexEncoding::Alpha | IndexEncoding::Cosine | IndexEncoding::OneHot, None) => Complex64::default(),
        }
    }
}

impl LookupPlan {
    /// The encoding of the indices that the client encrypts for this plan.
    pub fn index_encoding(self) -> IndexEncoding {
        match self {
            LookupPlan::Indicator => IndexEncoding::Index,
            LookupPlan::OneHot => IndexEncoding::OneHot,
            LookupPlan::Cosine { .. } => IndexEncoding::Cosine,
            _ => IndexEncoding::Alpha,
        }
    }

    /// Whether it can run in a ring of this kind with outputs of this form.
    pub fn fits(self, kind: RingKind, form: OutputForm) -> bool {
        match (kind, self) {
            (RingKind::ConjugateInvariant, LookupPlan::Cosine { .. } | LookupPlan::Indicator | LookupPlan::OneHot) => {
                form == OutputForm::Rows
            }
            (RingKind::ConjugateInvariant, _) => false,
            (RingKind::Standard, plan) => plan.index_encoding() != IndexEncoding::Cosine,
        }
    }

    /// Number of levels it uses for `columns` columns.
    pub fn depth(self, columns: usize) -> usize {
        let log2_n = columns.ilog2() as usize - 1;
        match self {
            LookupPlan::Paper => log2_n + 1,
            LookupPlan::ComplexFirst | LookupPlan::LazyLast => log2_n,
            // With `m = n/2` the only multiple of `m` is the highest of the first powers.
            LookupPlan::BabyGiant { babies } => log2_n + usize::from(4 * babies < columns),
            LookupPlan::Cosine { babies } => cosine::depth(columns, babies),
            LookupPlan::Indicator => indicator_squarings(columns) + 2,
            LookupPlan::OneHot => 1,
        }
    }
}

/// Number of squarings after the first that reduce `1 - (1/p)^2` below `exp(-64)`.
pub(crate) fn indicator_squarings(columns: usize) -> usize {
    2 * columns.ilog2() as usize + 6
}

/// Form of the outputs: how rows of the tables are packed into vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// One real vector per row.
    Rows,
    /// One complex vector per two rows, the first in the real part: half the ciphertexts.
    Pairs,
}
