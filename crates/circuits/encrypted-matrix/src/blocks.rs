//! Selections of entries of row vectors that need several tiles of one row.

use unspoken_ckks::{Arithmetic, CkksParameters, Complex64, CostModel, PreparedVector};
use unspoken_permute::{BlockedPlan, Permutation, PermuteError, PlanCache, PreparedBlocks};

use crate::encrypted::{EncryptedMatrix, check_prepared};
use crate::error::{EncryptedMatrixError, check_depth};
use crate::indices::completed;
use crate::layout::Layout;
use crate::linear::Operand;
use crate::product::extended_bytes;

const OPERATION: &str = "permute a long vector";

/// Maximum number of tiles: planning takes some seconds for each tile, and the number of masks of the exchange can be
/// the square of the number of tiles.
const MAX_TILES: usize = 32;

/// A prepared selection of different entries of a row vector of several tiles, where each tile fills the slots. The
/// result has the scale of the input. If the input is zero beyond its entries (clean), the result is clean, too.
pub(crate) struct LongPermutation {
    layout: Layout,
    from: usize,
    to: usize,
    blocks: PreparedBlocks,
    depth: usize,
    /// Keeps the selected entries of the last tile, if it has others; one level.
    mask: Option<PreparedVector>,
}

impl LongPermutation {
    /// The entries with these indices, which are all different. The plan may use all levels of the input. The plans of
    /// the blocks are kept in `cache`.
    ///
    /// # Errors
    /// If every plan needs more levels, or there are more than 32 tiles.
    pub(crate) fn plan(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        indices: &[usize],
        cache: Option<&PlanCache>,
    ) -> Result<Self, EncryptedMatrixError> {
        let (from, to) = (input.shape.1, indices.len());
        let level = input.level.min(parameters.max_level());
        let masked = to < from && to % layout.dim() != 0;
        check_depth(OPERATION, level, 1 + usize::from(masked), REMEDY)?;
        let tiles = layout.tiles((1, from));
        if tiles > MAX_TILES {
            let needed = format!("at most {MAX_TILES}: permute parts of it");
            return Err(EncryptedMatrixError::Layout { operation: OPERATION, found: format!("{tiles} tiles"), needed });
        }
        let permutation = Permutation::new(completed(indices, tiles * layout.dim())?)?;
        let model = CostModel::nominal(parameters);
        let levels = (level, usize::from(masked));
        let plan = match BlockedPlan::new(parameters, &model, &permutation, levels, None, cache) {
            Err(PermuteError::NoPlan { .. }) => {
                let (needed, remedy) = (level + 1, REMEDY.into());
                return Err(EncryptedMatrixError::Depth { operation: OPERATION, found: level, needed, remedy });
            }
            plan => plan?.with_results(layout.tiles((1, to))),
        };
        let blocks = PreparedBlocks::new(parameters, &plan, level - plan.depth(), input.scale)?;
        let mask = masked.then(|| {
            let kept = |slot: usize| Complex64::from(f64::from(u8::from(slot < to % layout.dim())));
            let (values, level) = ((0..layout.slots()).map(kept).collect(), level - plan.depth());
            PreparedVector::new(values, level, parameters.level_modulus(level))
        });
        let depth = plan.depth() + usize::from(masked);
        Ok(LongPermutation { layout, from, to, blocks, depth, mask: mask.transpose()? })
    }

    /// Number of levels it uses.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Bytes of its encoded masks.
    pub(crate) fn prepared_bytes(&self, parameters: &CkksParameters) -> usize {
        let mask = self.mask.as_ref().map_or(0, |mask| mask.prepared_bytes(parameters));
        (self.blocks.prepared_bytes() + mask) as usize
    }

    /// Number of ciphertexts of three polynomials that it holds at the same time, besides its operand.
    pub(crate) fn working_ciphertexts(&self, parameters: &CkksParameters) -> usize {
        let polynomial = extended_bytes(parameters, self.blocks.input_level());
        (self.blocks.working_bytes() as usize).div_ceil(3 * polynomial)
    }

    /// Selects the entries of the vector.
    ///
    /// # Errors
    /// If the shape or the layout of the vector is not the prepared one, its level is too low, or keys are missing.
    pub(crate) fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        check_prepared(OPERATION, a, (1, self.from), self.layout)?;
        let mut tiles = self.blocks.apply(arithmetic, a.tiles())?;
        if let (Some(mask), Some(last)) = (&self.mask, tiles.last_mut()) {
            *last = arithmetic.rescale(&arithmetic.sum_products(&[(&*last, mask)])?)?;
            let level = arithmetic.level(last);
            tiles = tiles.iter().map(|tile| arithmetic.drop_to(tile, level)).collect::<Result<_, _>>()?;
        }
        Ok(a.result((1, self.to), tiles, true))
    }
}

const REMEDY: &str = "start at a higher level, or use a deeper preset";
