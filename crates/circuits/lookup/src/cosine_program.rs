//! The compilation of the plan with cosines.

use unspoken_ckks::Complex64;

use crate::baby_giant::{Groups, RowBlock};
use crate::compiler::Compiler;
use crate::cosine::{Cut, shapes};
use crate::error::LookupError;
use crate::powers::LevelScale;

/// Compiles the plan. Returns the level of the giant steps, the blocks of rows, and the shape of the outputs. The
/// columns of the matrices are `T_1 .. T_(m-1)` and `T_(p/2)`.
///
/// # Errors
/// If there are too few levels, the modulus is too small, or the number of babies is invalid.
pub(crate) fn compile(
    compiler: &Compiler<'_>,
    babies: usize,
) -> Result<(usize, Vec<RowBlock>, LevelScale), LookupError> {
    let columns = compiler.columns();
    if !babies.is_power_of_two() || !(2..=columns / 2).contains(&babies) {
        return Err(compiler.refuse(format!("the number of babies must be a power of two from 2 to {}", columns / 2)));
    }
    let shapes = shapes(compiler.input, columns, babies, compiler.parameters).ok_or_else(|| compiler.too_shallow())?;
    let groups = columns / babies;
    let middle = groups / 2;
    let level = shapes.giants.iter().map(|s| s.level).min().unwrap_or(0);
    let (output, before) = compiler.product_output(level)?;
    let cuts: Vec<Vec<Cut>> = compiler
        .tables
        .iter()
        .map(|table| (0..table.rows()).map(|r| Cut::new(table.row(r), babies)).collect())
        .collect();
    let scales = (0..groups).map(|g| if g == 0 { before } else { before / shapes.giants[g - 1].scale }).collect();
    let mut inputs: Vec<f64> = shapes.babies[..babies - 1].iter().map(|s| s.scale).collect();
    inputs.push(shapes.giants[middle - 1].scale);
    let groups = Groups {
        rows: compiler.tables[0].rows(),
        level,
        babies: inputs,
        scales,
        entry: |t: usize, row: usize, group: usize, column: usize| {
            let cut = &cuts[t][row];
            let value = match column + 1 {
                i if i < babies => cut.groups[group][i],
                _ if group == middle => 2.0 * cut.top,
                _ => 0.0,
            };
            Complex64::from(value)
        },
        constant: |t: usize, row: usize, group: usize| cuts[t][row].groups[group][0],
    };
    Ok((level, groups.blocks(compiler)?, output))
}
