//! Evaluating a lookup: encrypted indices to encrypted table columns.

use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64, SCALE_TOLERANCE};
use unspoken_ring::RingKind;
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use crate::error::LookupError;
use crate::plan::{Compiler, OutputForm, Plan, Program, QueryForm, RowBlock, indicator_squarings};
use crate::powers::{Shape, last_layer, powers};
use crate::table::Table;

/// A lookup in `l` subtables of the same shape, prepared for one preset, one plan and queries of one level and scale.
///
/// The answer to indices `j_1 .. j_l` is `sum_t M^(t)_(j_t)`, slot by slot.
pub struct Lookup {
    parameters: CkksParameters,
    plan: Plan,
    form: OutputForm,
    subtables: usize,
    rows: usize,
    columns: usize,
    input: Shape,
    output: Shape,
    /// Sum over the subtables of each row's mean.
    constants: Vec<f64>,
    program: Program,
}

/// The result of the first stage (VecGen in the paper): everything that depends on the indices alone.
pub struct Generated<V> {
    /// Per subtable: powers, or one-hot coordinates, or real and imaginary parts.
    parts: Vec<Vec<V>>,
    /// Per subtable: what the plan multiplies combinations by.
    giants: Vec<Vec<V>>,
}

impl Lookup {
    /// Prepares a lookup. `bound` is the largest magnitude an output can reach before it is read or rescaled, sums over
    /// slots included; queries are of level `plan.depth(p)` or `level` if given, at the preset's scale.
    ///
    /// # Errors
    /// If the tables differ in shape, or levels or modulus do not suffice for the plan.
    pub fn new(
        parameters: &CkksParameters,
        tables: &[Table],
        plan: Plan,
        form: OutputForm,
        bound: f64,
        level: Option<usize>,
    ) -> Result<Self, LookupError> {
        let Some(first) = tables.first() else {
            let needed = "at least one".into();
            return Err(LookupError::Table { what: "the list of subtables", found: "empty".into(), needed });
        };
        let shape = |table: &Table| (table.rows(), table.columns());
        if let Some(other) = tables.iter().find(|table| shape(table) != shape(first)) {
            let (found, needed) = (format!("{:?}", shape(other)), format!("{:?} as the first", shape(first)));
            return Err(LookupError::Table { what: "the shape of a subtable", found, needed });
        }
        let refuse =
            |reason: String| LookupError::Plan { plan: plan.to_string(), preset: parameters.name().into(), reason };
        if parameters.ring().kind() == RingKind::ConjugateInvariant && plan.query_form() == QueryForm::Alpha {
            return Err(refuse(
                "its queries are complex and the preset's slots are real; use a standard preset".into(),
            ));
        }
        if !bound.is_finite() {
            return Err(refuse(format!("the bound of its outputs is {bound}; needed a finite number")));
        }
        let (rows, columns) = shape(first);
        let level = level.unwrap_or(plan.depth(columns));
        if level > parameters.max_level() {
            let available = parameters.max_level();
            return Err(refuse(format!("it needs level {level}, the preset has {available}; use a deeper preset")));
        }
        let input = Shape { level, scale: parameters.scale() };
        let (program, output) = Compiler { parameters, plan, tables, form, bound, input }.compile()?;
        // One-hot coordinates select entries as they are; only the expansions split off a constant.
        let constant = |r| match plan.query_form() {
            QueryForm::Alpha => tables.iter().map(|table| table.expansion(r).constant).sum(),
            QueryForm::Index => 0.0,
        };
        let constants = (0..rows).map(constant).collect();
        let (parameters, subtables) = (parameters.clone(), tables.len());
        Ok(Lookup { parameters, plan, form, subtables, rows, columns, input, output, constants, program })
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// The plan.
    pub fn plan(&self) -> Plan {
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

    /// The level of the outputs.
    pub fn output_level(&self) -> usize {
        self.output.level
    }

    /// The scale of the outputs.
    pub fn output_scale(&self) -> f64 {
        self.output.scale
    }

    /// How many vectors come out.
    pub fn outputs(&self) -> usize {
        match self.form {
            OutputForm::Rows => self.rows,
            OutputForm::Pairs => self.rows.div_ceil(2),
        }
    }

    /// Whether a padded slot (`alpha = 0`) contributes nothing: all rows are centred.
    pub fn is_centred(&self) -> bool {
        self.constants.iter().all(|&c| c == 0.0)
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> KeyPlan {
        let mut plan = KeyPlan::new();
        let ring = self.parameters.ring();
        let conjugation = KeyKind::Galois { element: galois::conjugation(ring) };
        let conjugation_level = match self.plan {
            Plan::Paper => Some(self.input.level),
            Plan::Indicator => None,
            _ => Some(self.output.level),
        };
        if self.columns > 2 || self.plan == Plan::Indicator {
            plan.require(KeyKind::Relinearisation, self.parameters.chain(self.input.level));
        }
        if let Some(level) = conjugation_level {
            plan.require(conjugation, self.parameters.chain(level));
        }
        plan
    }

    /// The whole lookup: one vector of encrypted indices per subtable in, [`Lookup::outputs`] vectors out, at
    /// [`Lookup::output_level`] and [`Lookup::output_scale`].
    ///
    /// # Errors
    /// If the query does not fit, or keys are missing.
    pub fn run<A: Arithmetic>(&self, arithmetic: &A, query: &[A::Vector]) -> Result<Vec<A::Vector>, LookupError> {
        let generated = self.generate(arithmetic, query)?;
        self.combine(arithmetic, &generated)
    }

    /// The first stage: powers, or one-hot vectors, of the indices.
    ///
    /// # Errors
    /// If the query does not fit, or keys are missing.
    pub fn generate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        query: &[A::Vector],
    ) -> Result<Generated<A::Vector>, LookupError> {
        self.check_query(arithmetic, query)?;
        let n = self.columns / 2;
        let mut generated = Generated { parts: Vec::new(), giants: Vec::new() };
        for alpha in query {
            let (parts, giants) = match &self.program {
                Program::Real { .. } if self.plan == Plan::Indicator => (self.one_hot(arithmetic, alpha)?, Vec::new()),
                Program::Real { .. } => (split_parts(arithmetic, &powers(arithmetic, alpha, n)?)?, Vec::new()),
                Program::Complex { .. } => (powers(arithmetic, alpha, n)?, Vec::new()),
                Program::Lazy { .. } => {
                    let lower = powers(arithmetic, alpha, n / 2)?;
                    let upper = last_layer(arithmetic, &lower)?;
                    (lower, upper)
                }
                Program::BabyGiant { babies, groups, .. } => {
                    let babies = powers(arithmetic, alpha, *babies)?;
                    let giants = powers(arithmetic, &babies[babies.len() - 1], groups - 1)?;
                    (babies, giants)
                }
            };
            generated.parts.push(parts);
            generated.giants.push(giants);
        }
        Ok(generated)
    }

    /// The second stage: the table.
    ///
    /// # Errors
    /// If keys are missing, or `generated` comes from another lookup.
    pub fn combine<A: Arithmetic>(
        &self,
        arithmetic: &A,
        generated: &Generated<A::Vector>,
    ) -> Result<Vec<A::Vector>, LookupError> {
        let rows = match &self.program {
            Program::Real { matrices } => {
                let sums = self.apply(arithmetic, matrices, &generated.parts)?;
                return self.finish_real(arithmetic, &sums);
            }
            Program::Complex { matrices } => self.apply(arithmetic, matrices, &generated.parts)?,
            Program::Lazy { lower, upper } => {
                let low = self.apply(arithmetic, lower, &generated.parts)?;
                let high = self.apply(arithmetic, upper, &generated.giants)?;
                let sums = high.iter().zip(&low).map(|(h, l)| arithmetic.relinearise_rescale(&arithmetic.add(h, l)?));
                sums.collect::<Result<_, _>>()?
            }
            Program::BabyGiant { groups, blocks, .. } => {
                let mut rows = Vec::new();
                for block in blocks {
                    rows.extend(baby_giant_block(arithmetic, *groups, block, generated)?);
                }
                rows
            }
        };
        self.finish_complex(arithmetic, &rows)
    }

    fn check_query<A: Arithmetic>(&self, arithmetic: &A, query: &[A::Vector]) -> Result<(), LookupError> {
        let refuse = |what, found: String, needed: String| Err(LookupError::Query { what, found, needed });
        if query.len() != self.subtables {
            let needed = format!("one per subtable, {}", self.subtables);
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
        matrices: &[unspoken_ckks::PreparedMatrix],
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

/// The encrypted indicator of `x = k/p`: near 1 there and near 0 at every other multiple of `1/p` in `[0, 1)`.
///
/// # Errors
/// If levels or the relinearisation key are missing.
pub fn indicator<A: Arithmetic>(
    arithmetic: &A,
    x: &A::Vector,
    k: usize,
    columns: usize,
) -> Result<A::Vector, CkksError> {
    let shifted = arithmetic.add_constant(x, Complex64::from(-(k as f64) / columns as f64))?;
    let square = arithmetic.multiply(&shifted, &shifted)?;
    let negated = arithmetic.mul_constant(&square, Complex64::from(-1.0), arithmetic.scale(&square))?;
    let mut value = arithmetic.add_constant(&negated, Complex64::from(1.0))?;
    for _ in 0..indicator_squarings(columns) {
        value = arithmetic.multiply(&value, &value)?;
    }
    Ok(value)
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

/// The rows of one block: `sum_t (inner_(t,0) + sum_g inner_(t,g) giant_(t,g))`, relinearised once per row.
fn baby_giant_block<A: Arithmetic>(
    arithmetic: &A,
    groups: usize,
    block: &RowBlock,
    generated: &Generated<A::Vector>,
) -> Result<Vec<A::Vector>, LookupError> {
    let mut sums: Vec<Option<A::Vector>> = (0..block.rows).map(|_| None).collect();
    for ((matrix, babies), giants) in block.matrices.iter().zip(&generated.parts).zip(&generated.giants) {
        let inner = arithmetic.matrix(matrix, &babies.iter().collect::<Vec<_>>())?;
        for (i, inner) in inner.iter().enumerate() {
            let (group, row) = (i / block.rows, i % block.rows);
            debug_assert!(group < groups);
            let term = if group == 0 { inner.clone() } else { arithmetic.tensor(inner, &giants[group - 1])? };
            sums[row] = Some(match sums[row].take() {
                Some(sum) => arithmetic.add(&term, &sum)?,
                None => term,
            });
        }
    }
    let finish = |sum: Option<A::Vector>| sum.map(|sum| arithmetic.relinearise_rescale(&sum)).transpose();
    let rows: Vec<Option<A::Vector>> = sums.into_iter().map(finish).collect::<Result<_, _>>()?;
    Ok(rows.into_iter().flatten().collect())
}

fn add_all<A: Arithmetic>(arithmetic: &A, a: &[A::Vector], b: &[A::Vector]) -> Result<Vec<A::Vector>, CkksError> {
    a.iter().zip(b).map(|(a, b)| arithmetic.add(a, b)).collect()
}
