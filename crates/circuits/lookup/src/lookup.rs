//! Evaluation of a lookup: from encrypted indices to encrypted table columns.

use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64, PreparedMatrix, SCALE_TOLERANCE};
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use crate::baby_giant::RowBlock;
use crate::compiler::Compiler;
use crate::error::LookupError;
use crate::indicator::indicator;
use crate::plan::{IndexEncoding, LookupPlan, OutputForm};
use crate::planner::{LookupTask, working_bytes};
use crate::powers::{LevelScale, chebyshev, last_layer, powers, query_scale};
use crate::program::CompiledPlan;
use crate::table::{Table, check_shapes};

/// A lookup in `l` subtables of the same shape, prepared for one preset, one plan and queries of one level and scale.
///
/// The answer to indices `j_1 .. j_l` is `sum_t M^(t)_(j_t)`, slot by slot.
pub struct Lookup {
    parameters: CkksParameters,
    plan: LookupPlan,
    form: OutputForm,
    subtables: usize,
    rows: usize,
    columns: usize,
    input: LevelScale,
    output: LevelScale,
    bound: f64,
    /// For each row, the sum of its means over the subtables; 0 for plans that need no constants.
    constants: Vec<f64>,
    program: CompiledPlan,
    working_bytes: u64,
}

/// The result of the first stage (VecGen in the paper): the vectors that depend on the indices only.
pub struct Generated<V> {
    /// Per subtable: powers, one-hot coordinates, or real and imaginary parts.
    parts: Vec<Vec<V>>,
    /// Per subtable: the giants that combinations are multiplied by, or the last layer of powers; empty for other
    /// plans.
    giants: Vec<Vec<V>>,
}

impl Lookup {
    /// Prepares a lookup. `bound` is the largest magnitude that an output can reach before it is decrypted or rescaled,
    /// including sums over slots. Queries are at `level`, or at level `plan.depth(p)` if it is `None`, and have the
    /// scale [`query_scale`].
    ///
    /// # Errors
    /// If the tables differ in shape, the plan does not fit the slots or the form, there are too few levels, or the
    /// modulus is too small.
    pub fn new(
        parameters: &CkksParameters,
        tables: &[Table],
        plan: LookupPlan,
        form: OutputForm,
        bound: f64,
        level: Option<usize>,
    ) -> Result<Self, LookupError> {
        let (rows, columns) = check_shapes(tables)?;
        let refuse = |reason: String| LookupError::LookupPlan {
            plan: plan.to_string(),
            preset: parameters.name().into(),
            reason,
        };
        if !plan.fits(parameters.ring().kind(), form) {
            let reason = "its queries or outputs are complex and the preset's slots are real, or it needs real slots";
            return Err(refuse(format!("{reason}; `unspoken plan --explain` lists the plans of a preset")));
        }
        if !bound.is_finite() {
            return Err(refuse(format!("the bound of its outputs is {bound}; needed a finite number")));
        }
        let level = level.unwrap_or(plan.depth(columns));
        if level > parameters.max_level() {
            let available = parameters.max_level();
            return Err(refuse(format!("it needs level {level}, the preset has {available}; use a deeper preset")));
        }
        let input = LevelScale { level, scale: query_scale(parameters, level) };
        let (program, output) = Compiler { parameters, plan, tables, form, bound, input }.compile()?;
        // Only plans over powers of alpha add the mean separately. One-hot coordinates select whole entries, and cosine
        // plans have the mean in a group.
        let constant = |r| match plan.index_encoding() {
            IndexEncoding::Alpha => tables.iter().map(|table| table.expansion(r).constant).sum(),
            IndexEncoding::Cosine | IndexEncoding::Index | IndexEncoding::OneHot => 0.0,
        };
        let constants = (0..rows).map(constant).collect();
        let task = LookupTask { subtables: tables.len(), rows, columns, form };
        let working_bytes = working_bytes(parameters, task, plan, level)
            .ok_or_else(|| refuse(format!("level {level} does not suffice for {columns} columns")))?;
        let (parameters, subtables) = (parameters.clone(), tables.len());
        Ok(Lookup {
            parameters,
            plan,
            form,
            subtables,
            rows,
            columns,
            input,
            output,
            bound,
            constants,
            program,
            working_bytes,
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// The plan.
    pub fn plan(&self) -> LookupPlan {
        self.plan
    }

    /// Subtables `l`, rows `d`, columns `p`.
    pub fn shape(&self) -> (usize, usize, usize) {
        (self.subtables, self.rows, self.columns)
    }

    /// The level at which queries are encrypted.
    pub fn input_level(&self) -> usize {
        self.input.level
    }

    /// The scale at which queries are encrypted.
    pub fn input_scale(&self) -> f64 {
        self.input.scale
    }

    /// The level of the outputs.
    pub fn output_level(&self) -> usize {
        self.output.level
    }

    /// The scale of the outputs.
    pub fn output_scale(&self) -> f64 {
        self.output.scale
    }

    /// The largest magnitude that an output may reach.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Number of output vectors.
    pub fn outputs(&self) -> usize {
        match self.form {
            OutputForm::Rows => self.rows,
            OutputForm::Pairs => self.rows.div_ceil(2),
        }
    }

    /// Bytes of memory of the prepared tables.
    pub fn prepared_bytes(&self) -> u64 {
        self.program.bytes() as u64
    }

    /// Peak memory of one run in bytes. It includes the outputs, but not the query, the keys and
    /// [`Lookup::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// Whether a padded slot (a query of zero) adds nothing to the outputs, because all rows are centred or because of
    /// the plan.
    pub fn is_centred(&self) -> bool {
        self.constants.iter().all(|&c| c == 0.0)
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> KeyPlan {
        let mut plan = KeyPlan::new();
        let ring = self.parameters.ring();
        let conjugation = KeyKind::Galois { element: galois::conjugation(ring) };
        let conjugation_level = match self.plan {
            LookupPlan::Paper => Some(self.input.level),
            LookupPlan::Indicator | LookupPlan::OneHot | LookupPlan::Cosine { .. } => None,
            _ => Some(self.output.level),
        };
        if self.plan != LookupPlan::OneHot {
            let levels = self.output.level + 1..=self.input.level;
            self.parameters.require_key(&mut plan, KeyKind::Relinearisation, levels);
        }
        if let Some(level) = conjugation_level {
            self.parameters.require_key(&mut plan, conjugation, 0..=level);
        }
        plan
    }

    /// Runs both stages. The query has one vector per subtable, or one per column and subtable if it is one-hot.
    /// Returns [`Lookup::outputs`] vectors at [`Lookup::output_level`] and [`Lookup::output_scale`].
    ///
    /// # Errors
    /// If the query does not match the lookup, or keys are missing.
    pub fn run<A: Arithmetic>(&self, arithmetic: &A, query: &[A::Vector]) -> Result<Vec<A::Vector>, LookupError> {
        let generated = self.generate(arithmetic, query)?;
        self.combine(arithmetic, &generated)
    }

    /// The first stage: powers or one-hot vectors of the indices.
    ///
    /// # Errors
    /// If the query does not match the lookup, or keys are missing.
    pub fn generate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        query: &[A::Vector],
    ) -> Result<Generated<A::Vector>, LookupError> {
        self.check_query(arithmetic, query)?;
        let n = self.columns / 2;
        let mut generated = Generated { parts: Vec::new(), giants: Vec::new() };
        for vectors in query.chunks(self.plan.index_encoding().vectors(self.columns)) {
            let alpha = &vectors[0];
            let (parts, giants) = match &self.program {
                CompiledPlan::Real { .. } if self.plan == LookupPlan::Indicator => {
                    (self.one_hot(arithmetic, alpha)?, Vec::new())
                }
                CompiledPlan::Real { .. } if self.plan == LookupPlan::OneHot => (vectors.to_vec(), Vec::new()),
                CompiledPlan::Real { .. } => (split_parts(arithmetic, &powers(arithmetic, alpha, n)?)?, Vec::new()),
                CompiledPlan::Complex { .. } => (powers(arithmetic, alpha, n)?, Vec::new()),
                CompiledPlan::Lazy { .. } => {
                    let lower = powers(arithmetic, alpha, n / 2)?;
                    let upper = last_layer(arithmetic, &lower)?;
                    (lower, upper)
                }
                CompiledPlan::BabyGiant { babies, groups, .. } => {
                    let babies = powers(arithmetic, alpha, *babies)?;
                    let giants = powers(arithmetic, &babies[babies.len() - 1], groups - 1)?;
                    (babies, giants)
                }
                CompiledPlan::Cosine { babies, groups, .. } => {
                    let mut babies = chebyshev(arithmetic, alpha, *babies)?;
                    let giants = chebyshev(arithmetic, &babies[babies.len() - 1], groups - 1)?;
                    // The last baby is also the first giant. It is replaced by T_(p/2), whose square makes padded slots
                    // zero.
                    let last = babies.len() - 1;
                    babies[last] = giants[groups / 2 - 1].clone();
                    (babies, giants)
                }
            };
            // Drop to the lowest level that the second stage can use, which needs less memory and bandwidth.
            let level = self.program.level();
            generated.parts.push(drop_all(arithmetic, parts, level)?);
            generated.giants.push(drop_all(arithmetic, giants, level)?);
        }
        Ok(generated)
    }

    /// The second stage: the products with the tables.
    ///
    /// # Errors
    /// If keys are missing, or `generated` is from a different lookup.
    pub fn combine<A: Arithmetic>(
        &self,
        arithmetic: &A,
        generated: &Generated<A::Vector>,
    ) -> Result<Vec<A::Vector>, LookupError> {
        let rows = match &self.program {
            CompiledPlan::Real { matrices } => {
                let sums = self.apply(arithmetic, matrices, &generated.parts)?;
                return self.finish_real(arithmetic, &sums);
            }
            CompiledPlan::Complex { matrices } => self.apply(arithmetic, matrices, &generated.parts)?,
            CompiledPlan::Lazy { lower, upper } => {
                let low = self.apply(arithmetic, lower, &generated.parts)?;
                let high = self.apply(arithmetic, upper, &generated.giants)?;
                let sums = high.iter().zip(&low).map(|(h, l)| arithmetic.relinearise_rescale(&arithmetic.add(h, l)?));
                sums.collect::<Result<_, _>>()?
            }
            CompiledPlan::BabyGiant { blocks, .. } => block_rows(arithmetic, blocks, generated)?,
            CompiledPlan::Cosine { blocks, .. } => return Ok(block_rows(arithmetic, blocks, generated)?),
        };
        self.finish_complex(arithmetic, &rows)
    }

    fn check_query<A: Arithmetic>(&self, arithmetic: &A, query: &[A::Vector]) -> Result<(), LookupError> {
        let refuse = |what, found: String, needed: String| Err(LookupError::Query { what, found, needed });
        let vectors = self.plan.index_encoding().vectors(self.columns);
        if query.len() != self.subtables * vectors {
            let needed = format!("{vectors} for each of {} subtables", self.subtables);
            return refuse("the number of vectors", query.len().to_string(), needed);
        }
        for vector in query {
            if arithmetic.level(vector) != self.input.level {
                let (found, needed) = (arithmetic.level(vector), self.input.level);
                return refuse("the level", found.to_string(), needed.to_string());
            }
            if (arithmetic.scale(vector) / self.input.scale - 1.0).abs() > SCALE_TOLERANCE {
                let (found, needed) = (arithmetic.scale(vector).log2(), self.input.scale.log2());
                return refuse("the scale", format!("2^{found}"), format!("2^{needed}"));
            }
        }
        Ok(())
    }

    /// The indicator of every column: `(1 - (x - k/p)^2)^(2^r)`.
    fn one_hot<A: Arithmetic>(&self, arithmetic: &A, x: &A::Vector) -> Result<Vec<A::Vector>, CkksError> {
        (0..self.columns).map(|k| indicator(arithmetic, x, k, self.columns)).collect()
    }

    /// `sum_t matrix_t parts_t`.
    fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        matrices: &[PreparedMatrix],
        parts: &[Vec<A::Vector>],
    ) -> Result<Vec<A::Vector>, CkksError> {
        let mut sums: Vec<A::Vector> = Vec::new();
        for (matrix, parts) in matrices.iter().zip(parts) {
            let rows = arithmetic.matrix(matrix, &parts.iter().collect::<Vec<_>>())?;
            sums = if sums.is_empty() { rows } else { add_all(arithmetic, &sums, &rows)? };
        }
        Ok(sums)
    }

    fn finish_real<A: Arithmetic>(&self, arithmetic: &A, sums: &[A::Vector]) -> Result<Vec<A::Vector>, LookupError> {
        let finish = |(sum, &constant): (&A::Vector, &f64)| {
            let row = arithmetic.rescale(sum)?;
            if constant == 0.0 { Ok(row) } else { arithmetic.add_constant(&row, Complex64::from(constant)) }
        };
        let rows: Vec<A::Vector> = sums.iter().zip(&self.constants).map(finish).collect::<Result<_, _>>()?;
        match self.form {
            OutputForm::Rows => Ok(rows),
            OutputForm::Pairs => rows
                .chunks(2)
                .map(|pair| match pair {
                    [x, y] => Ok(arithmetic.add(x, &arithmetic.mul_imaginary(y)?)?),
                    _ => Ok(pair[0].clone()),
                })
                .collect(),
        }
    }

    fn finish_complex<A: Arithmetic>(&self, arithmetic: &A, rows: &[A::Vector]) -> Result<Vec<A::Vector>, LookupError> {
        let rows = match self.form {
            // 2 Re x = x + conj x
            OutputForm::Rows => {
                rows.iter().map(|x| (x, x)).zip(self.constants.iter().map(|&c| Complex64::from(c))).collect::<Vec<_>>()
            }
            // 2 Re x + 2i Re y = (x + iy) + conj(x - iy)
            OutputForm::Pairs => {
                let constant = |pair: &[f64]| Complex64::new(pair[0], pair.get(1).copied().unwrap_or(0.0));
                rows.chunks_exact(2)
                    .map(|pair| (&pair[0], &pair[1]))
                    .zip(self.constants.chunks(2).map(constant))
                    .collect()
            }
        };
        let finish = |((plus, minus), constant): ((&A::Vector, &A::Vector), Complex64)| {
            let sum = arithmetic.add(plus, &arithmetic.conjugate(minus)?)?;
            if constant == Complex64::default() { Ok(sum) } else { Ok(arithmetic.add_constant(&sum, constant)?) }
        };
        rows.into_iter().map(finish).collect()
    }
}

/// `2 Re` of every power, then `2 Im` of all but the last (paper, Algorithm 1, lines 12 to 20).
fn split_parts<A: Arithmetic>(arithmetic: &A, powers: &[A::Vector]) -> Result<Vec<A::Vector>, CkksError> {
    let (mut real, mut imaginary) = (Vec::new(), Vec::new());
    for (k, power) in powers.iter().enumerate() {
        let conjugate = arithmetic.conjugate(power)?;
        real.push(arithmetic.add(power, &conjugate)?);
        if k + 1 < powers.len() {
            // (x - conj x) / i = i (conj x - x)
            imaginary.push(arithmetic.mul_imaginary(&arithmetic.sub(&conjugate, power)?)?);
        }
    }
    real.extend(imaginary);
    Ok(real)
}

fn block_rows<A: Arithmetic>(
    arithmetic: &A,
    blocks: &[RowBlock],
    generated: &Generated<A::Vector>,
) -> Result<Vec<A::Vector>, CkksError> {
    let mut rows = Vec::new();
    for block in blocks {
        rows.extend(block.evaluate(arithmetic, &generated.parts, &generated.giants)?);
    }
    Ok(rows)
}

fn drop_all<A: Arithmetic>(arithmetic: &A, vectors: Vec<A::Vector>, level: usize) -> Result<Vec<A::Vector>, CkksError> {
    let drop = |vector: A::Vector| {
        if arithmetic.level(&vector) == level { Ok(vector) } else { arithmetic.drop_to(&vector, level) }
    };
    vectors.into_iter().map(drop).collect()
}

fn add_all<A: Arithmetic>(arithmetic: &A, a: &[A::Vector], b: &[A::Vector]) -> Result<Vec<A::Vector>, CkksError> {
    a.iter().zip(b).map(|(a, b)| arithmetic.add(a, b)).collect()
}
