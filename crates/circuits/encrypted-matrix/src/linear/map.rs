//! Prepared linear maps, and their use.

use unspoken_ckks::{Arithmetic, Cost, LinearTransform};
use unspoken_rlwe::KeyPlan;

use crate::encrypted::{EncryptedMatrix, check_prepared};
use crate::error::{EncryptedMatrixError, shape_error};
use crate::layout::Layout;

/// A prepared linear map of the entries of a matrix. Its diagonals are encoded once, at their first encrypted use.
///
/// It uses one level; a transpose uses one per factor. The result has the parameters' scale. It is clean, also if the
/// input is not.
pub struct LinearMap {
    pub(super) operation: &'static str,
    pub(super) layout: Layout,
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
    pub(super) level: usize,
    /// Transforms that are applied to every tile first, one level each.
    pub(super) factors: Vec<LinearTransform>,
    pub(super) transforms: Vec<LinearTransform>,
    /// For every tile of the result, row-major: the pairs of a transform and a source tile, whose results are added.
    pub(super) tiles: Vec<Vec<(usize, usize)>>,
}

/// The operand that a linear map is prepared for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Its minimum level; the result is one level below.
    pub level: usize,
    /// Its scale.
    pub scale: f64,
}

pub(super) const REMEDY: &str = "start at a higher level, or use a deeper preset";

impl LinearMap {
    /// The name of its operation.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation
    }

    /// Number of levels it uses.
    pub fn depth(&self) -> usize {
        self.factors.len() + 1
    }

    /// Cost of one term of one tile of the result. For a transpose this is the whole cost of a tile.
    pub(crate) fn tile_cost(&self) -> Cost {
        let mut cost = Cost::default();
        self.factors.iter().chain(self.transforms.first()).for_each(|factor| cost += factor.plan().cost());
        cost
    }

    /// Bytes of its encoded diagonals.
    pub(crate) fn prepared_bytes(&self) -> usize {
        self.factors.iter().chain(&self.transforms).map(|transform| transform.plan().prepared_bytes() as usize).sum()
    }

    /// Number of ciphertexts it holds at the same time, besides operand and result: lowered tiles, and the rotations of
    /// one transform.
    pub(crate) fn working_ciphertexts(&self) -> usize {
        let transforms = self.factors.iter().chain(&self.transforms);
        let rotations = transforms.map(|transform| transform.plan().rotations().len()).max().unwrap_or(0);
        self.layout.tiles(self.from) + rotations + 2
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> KeyPlan {
        let mut plan = KeyPlan::new();
        self.factors.iter().chain(&self.transforms).for_each(|transform| plan.extend(&transform.plan().key_plan()));
        plan
    }

    /// The shape of its result.
    pub fn output_shape(&self) -> (usize, usize) {
        self.to
    }

    /// Applies the map to every matrix of the batch.
    ///
    /// # Errors
    /// If the shape, layout or scale of the matrix is not the prepared one, its level is too low, or keys are missing.
    /// The error names all missing keys, before any computation starts.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        check_prepared(self.operation, a, self.from, self.layout)?;
        arithmetic.require_keys(self.operation, &self.key_plan())?;
        let lowered = a.try_map(|tile| {
            let tile = arithmetic.drop_to(tile, self.level)?;
            self.factors.iter().try_fold(tile, |tile, factor| arithmetic.linear(factor, &tile))
        })?;
        let tile = |terms: &Vec<(usize, usize)>| {
            let mut sum: Option<A::Vector> = None;
            for &(transform, from) in terms {
                let term = arithmetic.linear(&self.transforms[transform], &lowered.tiles()[from])?;
                sum = Some(match sum {
                    Some(sum) => arithmetic.add(&sum, &term)?,
                    None => term,
                });
            }
            sum.ok_or_else(|| shape_error(self.operation, "a tile that is a sum of nothing; needed at least one term"))
        };
        let tiles = self.tiles.iter().map(tile).collect::<Result<_, _>>()?;
        Ok(lowered.result(self.to, tiles, true))
    }
}
