//! The unit of outputs: tables are divided by it, so that tables of any magnitude use the range of a preset.
//!
//! The errors of a lookup are absolute: they depend on the preset and the plan, and hardly on the table. A table with
//! small entries would drown in the errors, and a table with large entries would not fit the modulus.

use unspoken_ckks::CkksParameters;

use crate::compiler::least_output_bits;
use crate::error::LookupError;
use crate::plan::LookupPlan;

/// `log2` of the bound of scaled outputs, if the modulus has room for it. Larger outputs would gain no precision: the
/// scale falls as they grow.
const BOUND_BITS: f64 = 12.0;

/// Units are from 2 to the power of minus this to 2 to the power of this.
const MAX_EXPONENT: i32 = 256;

/// The power of two to divide all entries by before a lookup is prepared with [`Lookup::new`](crate::Lookup::new).
/// `bound` is the largest magnitude of an output before the division, `level` the level of queries as for
/// `Lookup::new`. The largest scaled output is between 2^11 and 2^12, or less if the modulus has no room for that.
///
/// # Errors
/// If the bound is 0, as for a table of zeros, is not finite, or so small or large that the unit is not from 2^-256 to
/// 2^256.
pub fn output_unit(
    parameters: &CkksParameters,
    plan: LookupPlan,
    columns: usize,
    level: Option<usize>,
    bound: f64,
) -> Result<f64, LookupError> {
    let refuse = |found: String, needed: &str| {
        Err(LookupError::Table { what: "the largest possible output", found, needed: needed.into() })
    };
    if bound == 0.0 {
        let needed = "an entry other than 0: this table gives the same answer to every question; train it again";
        return refuse("0, because every entry is 0".into(), needed);
    }
    let depth = plan.depth(columns);
    let output_level = level.unwrap_or(depth).saturating_sub(depth).min(parameters.max_level());
    // One bit for the sign, and one as a margin, as for the scale of outputs.
    let room = parameters.log2_modulus(output_level) - 2.0 - parameters.scale().log2() - least_output_bits(plan);
    let exponent = bound.log2().ceil() - BOUND_BITS.min(room.floor()).max(0.0);
    if !(bound > 0.0 && bound.is_finite() && exponent.abs() <= f64::from(MAX_EXPONENT)) {
        return refuse(format!("{bound:e}"), "a number from 1e-70 to 1e70; multiply all entries by a constant");
    }
    Ok(exponent.exp2())
}

/// Number of levels tried above the lowest one by [`at_lowest_level`].
pub const MORE_LEVELS: usize = 2;

/// Prepares a lookup at the lowest level of queries at which its outputs fit the modulus: the result of `attempt` at
/// the level `lowest`, or, while that is a [`LookupError::LookupPlan`], at up to [`MORE_LEVELS`] more.
///
/// # Errors
/// The errors of the last attempt.
pub fn at_lowest_level<T>(
    parameters: &CkksParameters,
    lowest: usize,
    attempt: impl Fn(usize) -> Result<T, LookupError>,
) -> Result<T, LookupError> {
    let higher = lowest + 1..=(lowest + MORE_LEVELS).min(parameters.circuit_level());
    higher.fold(attempt(lowest), |found, level| match found {
        Err(LookupError::LookupPlan { .. }) => attempt(level),
        found => found,
    })
}

#[cfg(test)]
mod tests {
    use unspoken_ckks::Preset;

    use super::*;
    use crate::lookup::Lookup;
    use crate::plan::OutputForm;
    use crate::table::Table;

    #[test]
    fn scaled_tables_of_every_magnitude_fit_every_plan() {
        for (preset, spare_levels) in [("insecure_n11_depth9_scale50", 0), ("insecure_n11_depth24_scale52", 1)] {
            let parameters = Preset::find(preset).unwrap().build().unwrap();
            let baby_giants = [2, 4].map(|babies| LookupPlan::BabyGiant { babies });
            let others = [LookupPlan::Paper, LookupPlan::ComplexFirst, LookupPlan::LazyLast, LookupPlan::OneHot];
            for plan in baby_giants.into_iter().chain(others) {
                for magnitude in [1e-40, 1e-8, 1.0, 4096.0, 1e6, 1e12, 1e40] {
                    let level = plan.depth(16) + spare_levels;
                    let unit = output_unit(&parameters, plan, 16, Some(level), magnitude).unwrap();
                    let bound = magnitude / unit;
                    assert!(unit.log2().fract() == 0.0 && bound <= 4096.0 && bound > 2048.0, "{plan} {magnitude}");
                    let entries: Vec<f64> = (0..16).map(|j| (f64::from(j) / 7.5 - 1.0) * bound).collect();
                    let tables = [Table::new(1, &entries).unwrap()];
                    let lookup = Lookup::new(&parameters, &tables, plan, OutputForm::Rows, bound, Some(level)).unwrap();
                    assert_eq!(lookup.output_level(), level - plan.depth(16), "{plan}");
                }
            }
        }
    }

    #[test]
    fn small_moduli_get_small_outputs() {
        // The modulus of level 0 has 8 bits beyond the scale, the sign and a margin.
        let parameters = Preset::find("insecure_n11_boot_depth10_scale50").unwrap().build().unwrap();
        let unit = |plan: LookupPlan, level| output_unit(&parameters, plan, 16, level, 1.0).unwrap();
        assert_eq!(unit(LookupPlan::ComplexFirst, None), 1.0);
        assert_eq!(unit(LookupPlan::ComplexFirst, Some(4)), 2f64.powi(-12));
        assert_eq!(unit(LookupPlan::Paper, None), 2f64.powi(-12));
    }

    #[test]
    fn what_cannot_be_scaled_is_refused() {
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let unit = |bound| output_unit(&parameters, LookupPlan::Paper, 16, None, bound);
        assert!(unit(0.0).unwrap_err().to_string().contains("every entry is 0"));
        for bound in [f64::NAN, f64::INFINITY, -1.0, 1e-300, 1e300] {
            assert!(unit(bound).unwrap_err().to_string().contains("from 1e-70 to 1e70"), "{bound}");
        }
    }
}
