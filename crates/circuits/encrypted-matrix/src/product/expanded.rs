//! The improved product of Rizomiliotis and Triakosia.
//!
//! With `m` blocks, block `t` of group `g` has to contain column `k = g m + t` of `A` in every column, and row `k` of
//! `B` in every row. The elementwise product of both, added over groups and blocks, is `A B`.
//!
//! The expansion adds copies of `A` shifted by `t (d^2 - 1)` for every `t`. This moves column `c + t` to column `c` of
//! block `t`, for all `c` with `c + t < d` at once; shifts by `t (d^2 - d)` do the same for rows. So one expansion is
//! sufficient for all groups: a mask keeps column `g m`, and the replication copies it to all columns.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use unspoken_ckks::{Arithmetic, CkksParameters, InnerSum, PreparedVector};

use super::tiles::{Factors, accumulate, grid, nothing};
use crate::encrypted::EncryptedMatrix;
use crate::error::EncryptedMatrixError;
use crate::layout::{Layout, indicator};

pub(super) struct Expanded {
    groups: usize,
    level: usize,
    sides: [Side; 2],
    gather: InnerSum,
}

/// The operations on one factor: on columns of the left factor, or on rows of the right factor.
struct Side {
    expand: InnerSum,
    /// One mask for each column (row) that some group keeps.
    masks: BTreeMap<usize, PreparedVector>,
    /// Rotations before the masks; only the rotation by 0 if there are none.
    rotations: Vec<i64>,
    /// For every group, pairs of the index of a rotation and the column (row) that is kept.
    groups: Vec<Vec<(usize, usize)>>,
    /// For every group, the rotations that replicate its column (row).
    replicate: Vec<InnerSum>,
}

impl Side {
    /// `unit` is the distance of neighbouring columns (rows) in slots, `shift` the distance of the copies in the
    /// expansion.
    fn new(
        layout: Layout,
        (radix, step): (usize, usize),
        unit: usize,
        shift: usize,
        mask: Mask<'_>,
    ) -> Result<Self, EncryptedMatrixError> {
        let (d, m) = (layout.dim(), layout.blocks());
        let (mut masks, mut rotations, mut groups, mut replicate) =
            (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        for first in (0..d).step_by(m) {
            let within = first % step;
            let mut group = Vec::new();
            for kept in (within..d).step_by(step) {
                let rotation = layout.rotation((first as i64 - kept as i64) * unit as i64) as i64;
                let index = rotations.iter().position(|&r| r == rotation).unwrap_or_else(|| {
                    rotations.push(rotation);
                    rotations.len() - 1
                });
                group.push((index, kept));
                if let Entry::Vacant(entry) = masks.entry(kept) {
                    entry.insert(mask(kept)?);
                }
            }
            groups.push(group);
            replicate.push(InnerSum::with_radix(-(unit as i64), step, within, radix)?);
        }
        Ok(Side { expand: InnerSum::with_radix(-(shift as i64), m, 0, radix)?, masks, rotations, groups, replicate })
    }

    /// The replicated columns (rows) of one tile for every group, one level below.
    fn replicated<A: Arithmetic>(
        &self,
        arithmetic: &A,
        tile: &A::Vector,
    ) -> Result<Vec<A::Vector>, EncryptedMatrixError> {
        let expanded = self.expand.apply(arithmetic, tile)?;
        if self.rotations.len() > 1 {
            let pair = |&(index, kept): &(usize, usize)| (index, &self.masks[&kept]);
            let rows: Vec<Vec<_>> = self.groups.iter().map(|group| group.iter().map(pair).collect()).collect();
            let kept = arithmetic.rotation_products(&expanded, &self.rotations, &rows)?;
            let all = kept.iter().zip(&self.replicate).map(|(kept, inner_sum)| Ok(inner_sum.apply(arithmetic, kept)?));
            return all.collect();
        }
        let all = self.groups.iter().zip(&self.replicate).map(|(group, inner_sum)| {
            let pairs: Vec<_> = group.iter().map(|(_, kept)| (&expanded, &self.masks[kept])).collect();
            Ok(inner_sum.apply_rescale(arithmetic, &arithmetic.sum_products(&pairs)?)?)
        });
        all.collect()
    }
}

/// The mask of a column or a row.
type Mask<'a> = &'a dyn Fn(usize) -> Result<PreparedVector, EncryptedMatrixError>;

impl Expanded {
    pub(super) fn new(
        parameters: &CkksParameters,
        layout: Layout,
        (radix, step): (usize, usize),
        Factors { level, scales: [left, right] }: Factors,
    ) -> Result<Self, EncryptedMatrixError> {
        let d = layout.dim();
        let modulus = parameters.level_modulus(level);
        // The left mask keeps the left scale; the scale of the right mask gives the product the parameters' scale.
        let wanted = parameters.scale() * parameters.level_modulus(level - 1) / left;
        let column = |c: usize| {
            let values = layout.fill_columns(|column| indicator(column == c));
            Ok(PreparedVector::new(values, level, modulus)?)
        };
        let row = |r: usize| {
            let values = layout.fill_rows(|row| indicator(row == r));
            Ok(PreparedVector::new(values, level, modulus * (wanted / right))?)
        };
        let plan = (radix, step);
        let (unit, line) = (layout.column_step(), layout.row_step());
        Ok(Expanded {
            groups: d / layout.blocks(),
            level,
            sides: [
                Side::new(layout, plan, unit, (d * d - 1) * unit, &column)?,
                Side::new(layout, plan, line, (d * d - d) * unit, &row)?,
            ],
            gather: InnerSum::with_radix(layout.block_step() as i64, layout.blocks(), 0, radix)?,
        })
    }

    pub(super) fn masks(&self) -> usize {
        self.sides.iter().map(|side| side.masks.len()).sum()
    }

    /// Number of replicated copies of each tile, and number of rotations of one tile held at the same time.
    pub(super) fn working_ciphertexts(&self) -> (usize, usize) {
        (self.groups, self.sides.iter().map(|side| side.rotations.len()).max().unwrap_or(0))
    }

    pub(super) fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
        b: &EncryptedMatrix<A::Vector>,
    ) -> Result<Vec<A::Vector>, EncryptedMatrixError> {
        let [left, right] = &self.sides;
        let replicate = |side: &Side, matrix: &EncryptedMatrix<A::Vector>| {
            let lowered =
                matrix.try_map(|tile| Ok::<_, EncryptedMatrixError>(arithmetic.drop_to(tile, self.level)?))?;
            lowered.try_map(|tile| side.replicated(arithmetic, tile))
        };
        let (a, b) = (replicate(left, a)?, replicate(right, b)?);
        grid(&a, &b, |row, column| {
            let mut sum = None;
            for k in 0..a.grid().1 {
                for group in 0..self.groups {
                    let product = arithmetic.tensor(&a.tile(row, k)[group], &b.tile(k, column)[group])?;
                    sum = accumulate(arithmetic, sum, product)?;
                }
            }
            let product = arithmetic.relinearise_rescale(&sum.ok_or_else(nothing)?)?;
            Ok(self.gather.apply(arithmetic, &product)?)
        })
    }
}
