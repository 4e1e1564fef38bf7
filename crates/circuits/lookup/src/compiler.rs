//! What the compilation of every plan needs: shapes, scales and refusals.

use unspoken_ckks::{CkksParameters, PreparedMatrix};

use crate::error::LookupError;
use crate::plan::{LookupPlan, OutputForm};
use crate::powers::{LevelScale, power_shapes};
use crate::table::Table;

/// Minimum number of bits by which the matrix is scaled up before it is rounded. It limits the precision.
pub(crate) const MATRIX_BITS: f64 = 10.0;

/// Maximum number of bits by which the matrix is scaled up if no level is used for it.
const MATRIX_BITS_MAX: f64 = 30.0;

/// Number of bits by which the scale of outputs up to `bound` at `level` is above the default: all bits that the
/// modulus allows, but at most [`MATRIX_BITS_MAX`].
pub(crate) fn output_bits(parameters: &CkksParameters, level: usize, bound: f64) -> f64 {
    // One bit for the sign, and one as a margin.
    let room = parameters.log2_modulus(level) - 2.0 - bound.max(1.0).log2();
    (room - parameters.scale().log2()).min(MATRIX_BITS_MAX)
}

/// Number of bits by which the matrix of a plan is scaled up before it is rounded, for outputs at this level.
pub(crate) fn matrix_bits(parameters: &CkksParameters, plan: LookupPlan, output_level: usize, bound: f64) -> f64 {
    let rescaled = match plan {
        LookupPlan::Paper | LookupPlan::Indicator | LookupPlan::OneHot => parameters.scale().log2(),
        _ => 0.0,
    };
    output_bits(parameters, output_level, bound) + rescaled
}

/// Minimum of [`output_bits`] for the outputs of a plan. Plans whose outputs are rescaled have used a level for the
/// matrix.
pub(crate) fn least_output_bits(plan: LookupPlan) -> f64 {
    match plan {
        LookupPlan::Paper | LookupPlan::Indicator | LookupPlan::OneHot => -MATRIX_BITS,
        LookupPlan::ComplexFirst | LookupPlan::LazyLast | LookupPlan::BabyGiant { .. } | LookupPlan::Cosine { .. } => {
            MATRIX_BITS
        }
    }
}

/// Bytes of memory of these matrices.
pub(crate) fn bytes_of(matrices: &[PreparedMatrix]) -> usize {
    matrices.iter().map(PreparedMatrix::bytes).sum()
}

/// Compiles a plan to a program and the level and scale of its outputs.
pub(crate) struct Compiler<'a> {
    pub(crate) parameters: &'a CkksParameters,
    pub(crate) plan: LookupPlan,
    pub(crate) tables: &'a [Table],
    pub(crate) form: OutputForm,
    /// Largest magnitude that an output slot may reach.
    pub(crate) bound: f64,
    pub(crate) input: LevelScale,
}

impl Compiler<'_> {
    pub(crate) fn columns(&self) -> usize {
        self.tables[0].columns()
    }

    pub(crate) fn refuse(&self, reason: String) -> LookupError {
        LookupError::LookupPlan { plan: self.plan.to_string(), preset: self.parameters.name().into(), reason }
    }

    pub(crate) fn too_shallow(&self) -> LookupError {
        let needed = self.plan.depth(self.columns());
        self.refuse(format!("it needs queries of level {needed} or more, these have level {}", self.input.level))
    }

    /// The largest scale at which an output of this level cannot overflow, at least [`least_output_bits`] above the
    /// default.
    pub(crate) fn output_scale(&self, level: usize) -> Result<f64, LookupError> {
        let least_bits = least_output_bits(self.plan);
        let default = self.parameters.scale().log2();
        let bits = output_bits(self.parameters, level, self.bound);
        if bits < least_bits {
            let (room, needed) = (default + bits, default + least_bits);
            return Err(self.refuse(format!(
                "outputs up to {:.3e} leave 2^{room:.1} for the scale at level {level}, needed 2^{needed:.1}; scale \
                 the table down or use a preset with a larger base",
                self.bound
            )));
        }
        Ok((default + bits).exp2())
    }

    /// The shape of outputs that are relinearised and rescaled sums of products at `level`, and the scale of these
    /// sums.
    pub(crate) fn product_output(&self, level: usize) -> Result<(LevelScale, f64), LookupError> {
        let below = level.checked_sub(1).ok_or_else(|| self.too_shallow())?;
        let output = LevelScale { level: below, scale: self.output_scale(below)? };
        Ok((output, output.scale * self.parameters.level_modulus(level)))
    }

    pub(crate) fn power_shapes(&self, start: LevelScale, count: usize) -> Result<Vec<LevelScale>, LookupError> {
        power_shapes(start, count, self.parameters).ok_or_else(|| self.too_shallow())
    }
}
