//! What linear maps share while they are made.

use unspoken_ckks::{CkksParameters, LinearTransform};

use super::{LinearMap, Operand, REMEDY};
use crate::error::{MatrixError, check_depth};
use crate::layout::Layout;
use crate::tile::{self, LevelAndScales, Term};

/// What a map is made for.
pub(super) struct Builder<'a> {
    operation: &'static str,
    parameters: &'a CkksParameters,
    layout: Layout,
    input: Operand,
    scales: LevelAndScales,
}

/// For every tile along the changed extent, which transforms of which tiles it is the sum of.
pub(super) type Blocks = Vec<Vec<(usize, usize)>>;

impl<'a> Builder<'a> {
    pub(super) fn new(
        operation: &'static str,
        parameters: &'a CkksParameters,
        layout: Layout,
        input: Operand,
    ) -> Result<Self, MatrixError> {
        check_depth(operation, input.level.min(parameters.max_level()), 1, REMEDY)?;
        let scales = LevelAndScales { level: input.level, input: input.scale, output: parameters.scale() };
        Ok(Builder { operation, parameters, layout, input, scales })
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn input(&self) -> Operand {
        self.input
    }

    /// The transforms of the blocks that have terms, and where they go; one of zeros where a tile has none.
    pub(super) fn blocks(
        &self,
        unit: usize,
        (to, from): (usize, usize),
        terms: impl Fn(usize, usize) -> Vec<Term>,
    ) -> Result<(Vec<LinearTransform>, Blocks), MatrixError> {
        let (mut transforms, mut blocks) = (Vec::new(), Vec::with_capacity(to));
        for target in 0..to {
            let mut row = Vec::new();
            for source in 0..from {
                let terms = terms(target, source);
                if !terms.is_empty() || (row.is_empty() && source + 1 == from) {
                    row.push((transforms.len(), source));
                    transforms.push(tile::transform(self.parameters, self.layout, self.scales, unit, terms)?);
                }
            }
            blocks.push(row);
        }
        Ok((transforms, blocks))
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
