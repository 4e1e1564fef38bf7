//! The common part of the constructors of linear maps.

use unspoken_ckks::{CkksParameters, LinearTransform};

use super::map::{LinearMap, Operand, REMEDY};
use crate::error::{EncryptedMatrixError, check_depth};
use crate::layout::Layout;
use crate::tile::{self, LevelAndScales, Term};

/// Builder of a linear map for an operand and a layout.
pub(super) struct Builder<'a> {
    operation: &'static str,
    parameters: &'a CkksParameters,
    layout: Layout,
    input: Operand,
    scales: LevelAndScales,
}

/// For every tile along the changed extent of the result, the pairs of a transform and a source tile that it is the sum
/// of.
pub(super) type Blocks = Vec<Vec<(usize, usize)>>;

impl<'a> Builder<'a> {
    pub(super) fn new(
        operation: &'static str,
        parameters: &'a CkksParameters,
        layout: Layout,
        input: Operand,
    ) -> Result<Self, EncryptedMatrixError> {
        check_depth(operation, input.level.min(parameters.max_level()), 1, REMEDY)?;
        let scales = LevelAndScales { level: input.level, input: input.scale, output: parameters.scale() };
        Ok(Builder { operation, parameters, layout, input, scales })
    }

    pub(super) fn operation(&self) -> &'static str {
        self.operation
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn input(&self) -> Operand {
        self.input
    }

    /// The transforms of the blocks that have terms, and the tiles they belong to. A tile without terms gets one
    /// transform of zeros.
    pub(super) fn blocks(
        &self,
        unit: usize,
        (to, from): (usize, usize),
        terms: impl Fn(usize, usize) -> Vec<Term>,
    ) -> Result<(Vec<LinearTransform>, Blocks), EncryptedMatrixError> {
        let (mut transforms, mut blocks) = (Vec::new(), Vec::with_capacity(to));
        for target in 0..to {
            let mut row = Vec::new();
            for source in 0..from {
                let terms = terms(target, source);
                if !terms.is_empty() || (row.is_empty() && source + 1 == from) {
                    row.push((transforms.len(), source));
                    transforms.push(self.transform(unit, terms)?);
                }
            }
            blocks.push(row);
        }
        Ok((transforms, blocks))
    }

    /// The transform with these terms, whose indices count `unit` positions.
    pub(super) fn transform(
        &self,
        unit: usize,
        terms: impl IntoIterator<Item = Term>,
    ) -> Result<LinearTransform, EncryptedMatrixError> {
        tile::transform(self.parameters, self.layout, self.scales, unit, terms)
    }

    pub(super) fn finish(self, to: (usize, usize), transforms: Vec<LinearTransform>, tiles: Blocks) -> LinearMap {
        let Builder { operation, layout, input, .. } = self;
        LinearMap {
            operation,
            layout,
            from: input.shape,
            to,
            level: input.level,
            factors: Vec::new(),
            transforms,
            tiles,
        }
    }
}
