//! Compiled plans: their matrices, and the levels and scales of all steps.

use unspoken_ckks::{Complex64, PreparedMatrix};

use crate::baby_giant::{Groups, RowBlock};
use crate::compiler::{Compiler, bytes_of};
use crate::cosine_program;
use crate::error::LookupError;
use crate::plan::{LookupPlan, OutputForm, indicator_squarings};
use crate::powers::LevelScale;
use crate::table::{Expansion, Table};

/// The matrices of a compiled plan.
pub(crate) enum CompiledPlan {
    /// One real matrix per subtable over all parts: real and imaginary parts of powers, or one-hot coordinates.
    Real { matrices: Vec<PreparedMatrix> },
    /// One complex matrix per subtable over all powers.
    Complex { matrices: Vec<PreparedMatrix> },
    /// Complex matrices over the lower half of the powers, and over the upper half, which is not relinearised.
    Lazy { lower: Vec<PreparedMatrix>, upper: Vec<PreparedMatrix> },
    /// Blocks of rows over babies and giants at level `level`.
    BabyGiant { babies: usize, groups: usize, level: usize, blocks: Vec<RowBlock> },
    /// Blocks of rows over Chebyshev polynomials at level `level`.
    Cosine { babies: usize, groups: usize, level: usize, blocks: Vec<RowBlock> },
}

impl CompiledPlan {
    /// The level at which parts and giants are combined.
    pub(crate) fn level(&self) -> usize {
        match self {
            CompiledPlan::Real { matrices }
            | CompiledPlan::Complex { matrices }
            | CompiledPlan::Lazy { lower: matrices, .. } => matrices.first().map_or(0, PreparedMatrix::level),
            CompiledPlan::BabyGiant { level, .. } | CompiledPlan::Cosine { level, .. } => *level,
        }
    }

    /// Bytes of memory of its matrices.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            CompiledPlan::Real { matrices } | CompiledPlan::Complex { matrices } => bytes_of(matrices),
            CompiledPlan::Lazy { lower, upper } => bytes_of(lower) + bytes_of(upper),
            CompiledPlan::BabyGiant { blocks, .. } | CompiledPlan::Cosine { blocks, .. } => {
                blocks.iter().map(RowBlock::bytes).sum()
            }
        }
    }
}

impl Compiler<'_> {
    pub(crate) fn compile(&self) -> Result<(CompiledPlan, LevelScale), LookupError> {
        let n = self.columns() / 2;
        match self.plan {
            LookupPlan::Paper => self.paper(n),
            LookupPlan::Indicator => self.indicator(),
            LookupPlan::OneHot => self.one_hot(self.input),
            LookupPlan::ComplexFirst => self.complex_first(n),
            LookupPlan::LazyLast => self.lazy_last(n),
            LookupPlan::BabyGiant { babies } if babies.is_power_of_two() && (2..=n / 2).contains(&babies) => {
                self.baby_giant(n, babies)
            }
            LookupPlan::BabyGiant { .. } => {
                Err(self.refuse(format!("the number of babies must be a power of two up to {}", n / 2)))
            }
            LookupPlan::Cosine { babies } => {
                let (level, blocks, output) = cosine_program::compile(self, babies)?;
                Ok((CompiledPlan::Cosine { babies, groups: self.columns() / babies, level, blocks }, output))
            }
        }
    }

    /// `rows[t][r]`: the coefficients of output row `r` of subtable `t`. For pairs `(x, y)` the two rows are `x + iy`
    /// and `x - iy`, since `2 Re x + 2i Re y = (x + iy) + conj(x - iy)`.
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

    fn paper(&self, n: usize) -> Result<(CompiledPlan, LevelScale), LookupError> {
        let shapes = self.power_shapes(self.input, n)?;
        // Inputs: 2 Re alpha^1 .. alpha^n, then 2 Im alpha^1 .. alpha^(n-1). The constant is added separately.
        let parts: Vec<LevelScale> = shapes.iter().chain(&shapes[..n - 1]).copied().collect();
        let expansions = self.expansions();
        let entry = |t: usize, r: usize, c: usize| {
            let coefficients = &expansions[t][r].coefficients;
            if c < n { coefficients[c].re } else { -coefficients[c - n].im }
        };
        self.real_program(&parts, entry)
    }

    fn indicator(&self) -> Result<(CompiledPlan, LevelScale), LookupError> {
        let mut shape = self.input;
        for _ in 0..=indicator_squarings(self.columns()) {
            shape = shape.times(shape, self.parameters).ok_or_else(|| self.too_shallow())?;
        }
        self.one_hot(shape)
    }

    /// The tables themselves as matrices, over one-hot coordinates of this level and scale.
    fn one_hot(&self, shape: LevelScale) -> Result<(CompiledPlan, LevelScale), LookupError> {
        let parts = vec![shape; self.columns()];
        self.real_program(&parts, |t, r, c| self.tables[t].row(r)[c])
    }

    fn expansions(&self) -> Vec<Vec<Expansion>> {
        self.tables.iter().map(|table| (0..table.rows()).map(|r| table.expansion(r)).collect()).collect()
    }

    /// A real matrix over `parts`, followed by a rescale.
    fn real_program(
        &self,
        parts: &[LevelScale],
        entry: impl Fn(usize, usize, usize) -> f64,
    ) -> Result<(CompiledPlan, LevelScale), LookupError> {
        let level = parts.iter().map(|s| s.level).min().unwrap_or(0);
        if level == 0 {
            return Err(self.too_shallow());
        }
        // The matrix is scaled up by the modulus of the level, which the rescale divides by.
        let scale = self.output_scale(level - 1)?;
        let scales: Vec<f64> = parts.iter().map(|s| s.scale).collect();
        let outputs = vec![scale * self.parameters.level_modulus(level); self.tables[0].rows()];
        let prepare = |t| {
            let complex = |r, c| Complex64::from(entry(t, r, c));
            PreparedMatrix::new(self.parameters, level, &scales, &outputs, complex)
        };
        let matrices = (0..self.tables.len()).map(prepare).collect::<Result<_, _>>()?;
        Ok((CompiledPlan::Real { matrices }, LevelScale { level: level - 1, scale }))
    }

    fn complex_first(&self, n: usize) -> Result<(CompiledPlan, LevelScale), LookupError> {
        let shapes = self.power_shapes(self.input, n)?;
        let level = shapes[n - 1].level;
        let scale = self.output_scale(level)?;
        let scales: Vec<f64> = shapes.iter().map(|s| s.scale).collect();
        let matrices = self.prepare(level, &scales, |_| scale, 0..n)?;
        Ok((CompiledPlan::Complex { matrices }, LevelScale { level, scale }))
    }

    fn lazy_last(&self, n: usize) -> Result<(CompiledPlan, LevelScale), LookupError> {
        let half = n / 2;
        let shapes = self.power_shapes(self.input, half)?;
        let top = shapes[half - 1];
        let (output, before) = self.product_output(top.level)?;
        let lower: Vec<f64> = shapes.iter().map(|s| s.scale).collect();
        let upper: Vec<f64> = shapes.iter().map(|s| s.scale * top.scale).collect();
        let program = CompiledPlan::Lazy {
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

    fn baby_giant(&self, n: usize, babies: usize) -> Result<(CompiledPlan, LevelScale), LookupError> {
        let count = n / babies;
        let baby_shapes = self.power_shapes(self.input, babies)?;
        let giant_shapes = self.power_shapes(baby_shapes[babies - 1], count - 1)?;
        let level = giant_shapes.iter().map(|s| s.level).min().unwrap_or(0);
        let (output, before) = self.product_output(level)?;
        let rows = self.complex_rows();
        let groups = Groups {
            rows: rows[0].len(),
            level,
            babies: baby_shapes.iter().map(|s| s.scale).collect(),
            // Group 0 is added directly; group g is multiplied by giant g.
            scales: (0..count).map(|g| if g == 0 { before } else { before / giant_shapes[g - 1].scale }).collect(),
            entry: |t: usize, row: usize, group: usize, column: usize| rows[t][row][group * babies + column],
            constant: |_, _, _| 0.0,
        };
        Ok((CompiledPlan::BabyGiant { babies, groups: count, level, blocks: groups.blocks(self)? }, output))
    }
}

fn pair_rows(pair: &[Vec<Complex64>]) -> [Vec<Complex64>; 2] {
    let x = &pair[0];
    let y = |k: usize| pair.get(1).map_or(Complex64::default(), |row| row[k]);
    [1.0, -1.0].map(|sign| x.iter().enumerate().map(|(k, x)| x + Complex64::i() * sign * y(k)).collect())
}
