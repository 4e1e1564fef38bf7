//! The ways to evaluate a lookup, and what each needs of levels and scales.

use std::fmt;
use std::str::FromStr;

use unspoken_ckks::{CkksParameters, Complex64, PreparedMatrix};

use crate::error::LookupError;
use crate::powers::{Shape, power_shapes};
use crate::table::{Expansion, Table};

/// How the selected columns are computed from the encrypted indices. `p = 2n` columns, `l` subtables, `d` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// The paper's (Algorithm 1): all powers, each conjugated to split its real and imaginary part, then a real matrix.
    /// `l (2n - 1)` key switches.
    Paper,
    /// All powers, then a complex matrix, then one conjugation per output: `l (n - 1) + d` key switches.
    ComplexFirst,
    /// As `ComplexFirst`, the last layer of the power tree left unrelinearised until after the matrix:
    /// `l (n/2 - 1) + 2d` key switches.
    LazyLast,
    /// Powers up to `babies = m`, and multiples of `m`; each output is a sum over groups of a combination of the former
    /// times one of the latter, relinearised once: about `l (m + n/m) + 2d` key switches.
    BabyGiant {
        /// `m`, a power of two from 2 to `n/2`.
        babies: usize,
    },
    /// Kim et al. (ICML 2024): the client sends the index itself, the server makes the one-hot vector with an encrypted
    /// indicator per column. Our reading of it: `(1 - ((x - k)/p)^2)` squared `2 log2 p + 6` times, which gives the
    /// depths of the paper's Table 3 for p = 64 and 256. The baseline.
    Indicator,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Paper => f.write_str("paper"),
            Plan::ComplexFirst => f.write_str("complex-first"),
            Plan::LazyLast => f.write_str("lazy-last"),
            Plan::BabyGiant { babies } => write!(f, "baby-giant-{babies}"),
            Plan::Indicator => f.write_str("indicator"),
        }
    }
}

impl FromStr for Plan {
    type Err = LookupError;

    fn from_str(name: &str) -> Result<Self, LookupError> {
        let babies = || name.strip_prefix("baby-giant-").and_then(|m| m.parse().ok());
        Ok(match name {
            "paper" => Plan::Paper,
            "complex-first" => Plan::ComplexFirst,
            "lazy-last" => Plan::LazyLast,
            "indicator" => Plan::Indicator,
            _ => Plan::BabyGiant {
                babies: babies().ok_or_else(|| LookupError::Plan {
                    plan: name.into(),
                    preset: "any".into(),
                    reason: "no such plan; there are paper, complex-first, lazy-last, baby-giant-<m>, indicator".into(),
                })?,
            },
        })
    }
}

/// What the client encrypts for each index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryForm {
    /// `alpha_j`; zero in a padded slot.
    Alpha,
    /// `j / p`.
    Index,
}

impl Plan {
    /// What the client encrypts for this plan.
    pub fn query_form(self) -> QueryForm {
        match self {
            Plan::Indicator => QueryForm::Index,
            _ => QueryForm::Alpha,
        }
    }

    /// Levels it consumes for `columns` columns.
    pub fn depth(self, columns: usize) -> usize {
        let log2_n = columns.ilog2() as usize - 1;
        match self {
            Plan::Paper | Plan::LazyLast | Plan::BabyGiant { .. } => log2_n + 1,
            Plan::ComplexFirst => log2_n,
            Plan::Indicator => indicator_squarings(columns) + 2,
        }
    }
}

/// Squarings after the first that make `1 - (1/p)^2` vanish: below `exp(-64)`.
pub(crate) fn indicator_squarings(columns: usize) -> usize {
    2 * columns.ilog2() as usize + 6
}

/// How rows of the tables become outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// One real vector per row.
    Rows,
    /// One complex vector per two rows, the first in the real part: half the ciphertexts.
    Pairs,
}

/// Matrices and shapes of a plan, ready to run.
pub(crate) enum Program {
    /// One real matrix per subtable over all parts: of `alpha^k` and conjugates, or of one-hot coordinates.
    Real { matrices: Vec<PreparedMatrix> },
    /// One complex matrix per subtable over all powers.
    Complex { matrices: Vec<PreparedMatrix> },
    /// Complex matrices over the lower half of the powers and over the unrelinearised upper half.
    Lazy { lower: Vec<PreparedMatrix>, upper: Vec<PreparedMatrix> },
    /// Blocks of rows; in each, one complex matrix per subtable with one row per table row and group.
    BabyGiant { babies: usize, groups: usize, blocks: Vec<RowBlock> },
}

/// Rows whose inner combinations are in memory at one time.
pub(crate) struct RowBlock {
    pub(crate) rows: usize,
    pub(crate) matrices: Vec<PreparedMatrix>,
}

/// Inner combinations held at one time.
const BLOCK_VECTORS: usize = 64;

/// Fewest bits by which the matrix must be scaled up: what its rounding leaves of precision.
const MATRIX_BITS: f64 = 10.0;

/// Most bits by which it is.
const MATRIX_BITS_MAX: f64 = 30.0;

/// Makes the program of a plan; returns it with the shape of its outputs.
pub(crate) struct Compiler<'a> {
    pub(crate) parameters: &'a CkksParameters,
    pub(crate) plan: Plan,
    pub(crate) tables: &'a [Table],
    pub(crate) form: OutputForm,
    /// Largest magnitude an output slot may reach.
    pub(crate) bound: f64,
    pub(crate) input: Shape,
}

impl Compiler<'_> {
    pub(crate) fn compile(&self) -> Result<(Program, Shape), LookupError> {
        let n = self.columns() / 2;
        match self.plan {
            Plan::Paper => self.paper(n),
            Plan::Indicator => self.indicator(),
            Plan::ComplexFirst => self.complex_first(n),
            Plan::LazyLast => self.lazy_last(n),
            Plan::BabyGiant { babies } if babies.is_power_of_two() && (2..=n / 2).contains(&babies) => {
                self.baby_giant(n, babies)
            }
            Plan::BabyGiant { .. } => {
                Err(self.refuse(format!("the number of babies must be a power of two up to {}", n / 2)))
            }
        }
    }

    fn columns(&self) -> usize {
        self.tables[0].columns()
    }

    fn refuse(&self, reason: String) -> LookupError {
        LookupError::Plan { plan: self.plan.to_string(), preset: self.parameters.name().into(), reason }
    }

    fn too_shallow(&self) -> LookupError {
        let needed = self.plan.depth(self.columns());
        self.refuse(format!("it needs queries of level {needed} or more, these have level {}", self.input.level))
    }

    fn power_shapes(&self, start: Shape, count: usize) -> Result<Vec<Shape>, LookupError> {
        power_shapes(start, count, self.parameters).ok_or_else(|| self.too_shallow())
    }

    /// The largest scale at which an output of this level cannot overflow, at least `least_bits` and at most
    /// [`MATRIX_BITS_MAX`] above the default.
    fn output_scale(&self, level: usize, least_bits: f64) -> Result<f64, LookupError> {
        // One bit for the sign, one to spare.
        let room = self.parameters.log2_modulus(level) - 2.0 - self.bound.max(1.0).log2();
        let default = self.parameters.scale().log2();
        if room < default + least_bits {
            let needed = default + least_bits;
            return Err(self.refuse(format!(
                "outputs up to {:.3e} leave 2^{room:.1} for the scale at level {level}, needed 2^{needed:.1}; scale the \
                 table down or use a preset with a larger base",
                self.bound
            )));
        }
        Ok(room.min(default + MATRIX_BITS_MAX).exp2())
    }

    /// `rows[t][r]`: the coefficients of output row `r` of subtable `t`. For pairs `(x, y)` the two rows are `x + iy` and
    /// `x - iy`, since `2 Re x + 2i Re y = (x + iy) + conj(x - iy)`.
    fn complex_rows(&self) -> Vec<Vec<Vec<Complex64>>> {
        let expand = |table: &Table| {
            let plain: Vec<Vec<Complex64>> = (0..table.rows()).map(|r| table.expansion(r).coefficients).collect();
            match self.form {
                OutputForm::Rows => plain,
                OutputForm::Pairs => plain.chunks(2).flat_map(pair_rows).collect(),
            }
        };
        self.tables.iter().map(expand).collect()
    }

    fn paper(&self, n: usize) -> Result<(Program, Shape), LookupError> {
        let shapes = self.power_shapes(self.input, n)?;
        // Inputs: 2 Re alpha^1 .. alpha^n, then 2 Im alpha^1 .. alpha^(n-1); the constant is added apart.
        let parts: Vec<Shape> = shapes.iter().chain(&shapes[..n - 1]).copied().collect();
        let expansions = self.expansions();
        let entry = |t: usize, r: usize, c: usize| {
            let coefficients = &expansions[t][r].coefficients;
            if c < n { coefficients[c].re } else { -coefficients[c - n].im }
        };
        self.real_program(&parts, entry)
    }

    fn indicator(&self) -> Result<(Program, Shape), LookupError> {
        let mut shape = self.input;
        for _ in 0..=indicator_squarings(self.columns()) {
            shape = shape.times(shape, self.parameters).ok_or_else(|| self.too_shallow())?;
        }
        let parts = vec![shape; self.columns()];
        self.real_program(&parts, |t, r, c| self.tables[t].row(r)[c])
    }

    fn expansions(&self) -> Vec<Vec<Expansion>> {
        self.tables.iter().map(|table| (0..table.rows()).map(|r| table.expansion(r)).collect()).collect()
    }

    /// A real matrix over `parts`, rescaled afterwards.
    fn real_program(
        &self,
        parts: &[Shape],
        entry: impl Fn(usize, usize, usize) -> f64,
    ) -> Result<(Program, Shape), LookupError> {
        let level = parts.iter().map(|s| s.level).min().unwrap_or(0);
        if level == 0 {
            return Err(self.too_shallow());
        }
        // The matrix is scaled up by the whole level that is divided out afterwards.
        let scale = self.output_scale(level - 1, -MATRIX_BITS)?;
        let scales: Vec<f64> = parts.iter().map(|s| s.scale).collect();
        let outputs = vec![scale * self.parameters.level_modulus(level); self.tables[0].rows()];
        let prepare = |t| {
            let complex = |r, c| Complex64::from(entry(t, r, c));
            PreparedMatrix::new(self.parameters, level, &scales, &outputs, complex)
        };
        let matrices = (0..self.tables.len()).map(prepare).collect::<Result<_, _>>()?;
        Ok((Program::Real { matrices }, Shape { level: level - 1, scale }))
    }

    fn complex_first(&self, n: usize) -> Result<(Program, Shape), LookupError> {
        let shapes = self.power_shapes(self.input, n)?;
        let level = shapes[n - 1].level;
        let scale = self.output_scale(level, MATRIX_BITS)?;
        let scales: Vec<f64> = shapes.iter().map(|s| s.scale).collect();
        let matrices = self.prepare(level, &scales, |_| scale, 0..n)?;
        Ok((Program::Complex { matrices }, Shape { level, scale }))
    }

    fn lazy_last(&self, n: usize) -> Result<(Program, Shape), LookupError> {
        let half = n / 2;
        let shapes = self.power_shapes(self.input, half)?;
        let top = shapes[half - 1];
        if top.level == 0 {
            return Err(self.too_shallow());
        }
        let output = Shape { level: top.level - 1, scale: self.output_scale(top.level - 1, MATRIX_BITS)? };
        let before = output.scale * self.parameters.level_modulus(top.level);
        let lower: Vec<f64> = shapes.iter().map(|s| s.scale).collect();
        let upper: Vec<f64> = shapes.iter().map(|s| s.scale * top.scale).collect();
        let program = Program::Lazy {
            lower: self.prepare(top.level, &lower, |_| before, 0..half)?,
            upper: self.prepare(top.level, &upper, |_| before, half..n)?,
        };
        Ok((program, output))
    }

    /// One complex matrix per subtable whose rows are the output rows and whose columns are the powers in `columns`.
    fn prepare(
        &self,
        level: usize,
        scales: &[f64],
        output: impl Fn(usize) -> f64,
        columns: std::ops::Range<usize>,
    ) -> Result<Vec<PreparedMatrix>, LookupError> {
        let prepare = |rows: &Vec<Vec<Complex64>>| {
            let outputs: Vec<f64> = (0..rows.len()).map(&output).collect();
            Ok(PreparedMatrix::new(self.parameters, level, scales, &outputs, |r, c| rows[r][columns.start + c])?)
        };
        self.complex_rows().iter().map(prepare).collect()
    }

    fn baby_giant(&self, n: usize, babies: usize) -> Result<(Program, Shape), LookupError> {
        let groups = n / babies;
        let baby_shapes = self.power_shapes(self.input, babies)?;
        let giant_shapes = self.power_shapes(baby_shapes[babies - 1], groups - 1)?;
        let level = baby_shapes[babies - 1].level;
        let product_level = giant_shapes.iter().map(|s| s.level).min().unwrap_or(level);
        if product_level == 0 {
            return Err(self.too_shallow());
        }
        let output = Shape { level: product_level - 1, scale: self.output_scale(product_level - 1, MATRIX_BITS)? };
        let before = output.scale * self.parameters.level_modulus(product_level);
        // Group 0 is added as it is, group g is multiplied by giant g.
        let group_scale = |g: usize| if g == 0 { before } else { before / giant_shapes[g - 1].scale };
        let scales: Vec<f64> = baby_shapes.iter().map(|s| s.scale).collect();
        let rows = self.complex_rows();
        let per_block = (BLOCK_VECTORS / groups).max(1);
        let blocks = (0..rows[0].len()).step_by(per_block).map(|first| {
            let count = per_block.min(rows[0].len() - first);
            let outputs: Vec<f64> = (0..groups * count).map(|i| group_scale(i / count)).collect();
            let prepare = |rows: &Vec<Vec<Complex64>>| {
                let entry = |i: usize, c: usize| rows[first + i % count][(i / count) * babies + c];
                PreparedMatrix::new(self.parameters, level, &scales, &outputs, entry)
            };
            Ok(RowBlock { rows: count, matrices: rows.iter().map(prepare).collect::<Result<_, _>>()? })
        });
        let blocks = blocks.collect::<Result<_, LookupError>>()?;
        Ok((Program::BabyGiant { babies, groups, blocks }, output))
    }
}

fn pair_rows(pair: &[Vec<Complex64>]) -> [Vec<Complex64>; 2] {
    let x = &pair[0];
    let y = |k: usize| pair.get(1).map_or(Complex64::default(), |row| row[k]);
    [1.0, -1.0].map(|sign| x.iter().enumerate().map(|(k, x)| x + Complex64::i() * sign * y(k)).collect())
}
