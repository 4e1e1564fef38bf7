//! The published product of Rizomiliotis and Triakosia (CCSW 2022), as a baseline.

use std::collections::BTreeMap;

use unspoken_ckks::{Arithmetic, CkksParameters, InnerSum, LinearPlan, LinearTransform, PreparedVector, Steps};

use super::tiles::{Factors, accumulate, grid, nothing};
use crate::encrypted::EncryptedMatrix;
use crate::error::EncryptedMatrixError;
use crate::layout::{Layout, indicator};

pub(super) struct Original {
    level: usize,
    sides: [Side; 2],
    gather: InnerSum,
}

struct Side {
    permute: Permutation,
    replicate: InnerSum,
}

/// The permutation that moves column (row) `k` to the first column (row) of block `k`.
enum Permutation {
    /// `d` single rotations with masks.
    Plain(Vec<(i64, PreparedVector)>),
    Hoisted(LinearTransform),
}

impl Permutation {
    fn apply<A: Arithmetic>(&self, arithmetic: &A, a: &A::Vector) -> Result<A::Vector, EncryptedMatrixError> {
        match self {
            Permutation::Hoisted(transform) => Ok(arithmetic.linear(transform, a)?),
            Permutation::Plain(terms) => {
                let mut sum = None;
                for (steps, mask) in terms {
                    let rotated = if *steps == 0 { a.clone() } else { arithmetic.rotate(a, *steps)? };
                    sum = accumulate(arithmetic, sum, arithmetic.mul_prepared(&rotated, mask)?)?;
                }
                Ok(arithmetic.rescale(&sum.ok_or_else(nothing)?)?)
            }
        }
    }
}

impl Original {
    pub(super) fn new(
        parameters: &CkksParameters,
        layout: Layout,
        hoisted: bool,
        Factors { level, scales: [left, right] }: Factors,
    ) -> Result<Self, EncryptedMatrixError> {
        let (d, unit, line) = (layout.dim(), layout.column_step(), layout.row_step());
        let wanted = parameters.scale() * parameters.level_modulus(level - 1) / left;
        let permutation = |shift: usize, scales: (f64, f64), kept: &dyn Fn(usize, usize) -> bool| {
            let rotation = |k: usize| layout.rotation(-((k * shift) as i64));
            let mask = |k: usize| layout.fill(|block, row, column| indicator(block == k && kept(row, column)));
            if hoisted {
                let diagonals: BTreeMap<_, _> = (0..d).map(|k| (rotation(k), mask(k))).collect();
                let plan = LinearPlan::new(parameters, diagonals, level, scales.0, scales.1)?;
                let steps = Steps { difference: shift.max(1), first: 1 - d as i64, babies: d };
                return Ok(Permutation::Hoisted(LinearTransform::deferred(plan.with_steps(steps)?)));
            }
            let scale = parameters.level_modulus(level) * (scales.1 / scales.0);
            let term = |k: usize| Ok((rotation(k) as i64, PreparedVector::new(mask(k), level, scale)?));
            Ok::<_, EncryptedMatrixError>(Permutation::Plain(
                (0..d).map(term).collect::<Result<_, EncryptedMatrixError>>()?,
            ))
        };
        let columns = permutation((d * d - 1) * unit, (left, left), &|_, column| column == 0)?;
        let rows = permutation((d * d - d) * unit, (right, wanted), &|row, _| row == 0)?;
        Ok(Original {
            level,
            sides: [
                Side { permute: columns, replicate: InnerSum::with_radix(-(unit as i64), d, 0, 2)? },
                Side { permute: rows, replicate: InnerSum::with_radix(-(line as i64), d, 0, 2)? },
            ],
            gather: InnerSum::with_radix(layout.block_step() as i64, d, 0, 2)?,
        })
    }

    /// Number of masks of both factors, which is the number of rotations, including those by 0.
    pub(super) fn masks(&self) -> usize {
        let count = |side: &Side| match &side.permute {
            Permutation::Plain(terms) => terms.len(),
            Permutation::Hoisted(transform) => transform.plan().rotations().len() + 1,
        };
        self.sides.iter().map(count).sum()
    }

    pub(super) fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
        b: &EncryptedMatrix<A::Vector>,
    ) -> Result<Vec<A::Vector>, EncryptedMatrixError> {
        let prepare = |side: &Side, matrix: &EncryptedMatrix<A::Vector>| {
            matrix.try_map(|tile| {
                let permuted = side.permute.apply(arithmetic, &arithmetic.drop_to(tile, self.level)?)?;
                Ok::<_, EncryptedMatrixError>(side.replicate.apply(arithmetic, &permuted)?)
            })
        };
        let (a, b) = (prepare(&self.sides[0], a)?, prepare(&self.sides[1], b)?);
        grid(&a, &b, |row, column| {
            let mut sum = None;
            for k in 0..a.grid().1 {
                sum = accumulate(arithmetic, sum, arithmetic.tensor(a.tile(row, k), b.tile(k, column))?)?;
            }
            let product = arithmetic.relinearise_rescale(&sum.ok_or_else(nothing)?)?;
            Ok(self.gather.apply(arithmetic, &product)?)
        })
    }
}
