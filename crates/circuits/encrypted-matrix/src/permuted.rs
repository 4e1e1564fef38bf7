//! Permutations of row vectors, by the planner of `unspoken-permute`.

use std::collections::{BTreeMap, BTreeSet};

use unspoken_ckks::{Arithmetic, CkksParameters, Complex64, CostModel, LinearPlan, LinearTransform, Steps};
use unspoken_permute::{
    Diagonals, Operations, Packing, Permutation, PermutationPlan, PermutationTask, PermuteError, PlanCache, Shifts,
};
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use crate::blocks::LongPermutation;
use crate::encrypted::{EncryptedMatrix, check_prepared};
use crate::error::{EncryptedMatrixError, check_depth, display_shape, shape_error};
use crate::indices::{check_indices, completed};
use crate::layout::Layout;
use crate::linear::{LinearMap, Operand};
use crate::tile::LevelAndScales;

const OPERATION: &str = "permute a vector";

/// Maximum number of levels of a permutation.
const MAX_DEPTH: usize = 7;

/// Maximum number of diagonals, for one tile of the result, with which a selection in tiles of one row is computed as a
/// product with diagonals: more would take too much memory.
const MAX_DIAGONALS: usize = 256;

/// The same for all tiles of the result together, in any tiles.
const MAX_ALL_DIAGONALS: usize = 1 << 13;

/// A prepared selection of different entries of a row vector that fits one tile of one row. Its masks are encoded once,
/// at their first encrypted use. The result has the parameters' scale, and is clean.
pub struct VectorPermutation {
    layout: Layout,
    from: usize,
    to: usize,
    level: usize,
    steps: Vec<Step>,
    keys: KeyPlan,
}

enum Step {
    /// To the left, without a level.
    Rotate(i64),
    Linear(Box<LinearTransform>),
}

impl VectorPermutation {
    /// The entries with these indices, which are all different, by the plan that is predicted to be fastest, of at most
    /// `depth` levels. All plans are compared for results of the same level. `None` if there is no such plan: a
    /// rotation has no masks, which would remove what lies beyond the selection. Plans are kept in `cache`.
    ///
    /// # Errors
    /// If an index is out of bounds or occurs twice, the vector does not fit a tile of one row, or there is no level
    /// left.
    pub fn plan(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        indices: &[usize],
        depth: usize,
        cache: Option<&PlanCache>,
    ) -> Result<Option<Self>, EncryptedMatrixError> {
        let length = input.shape.1;
        check_indices(OPERATION, "column", indices, length)?;
        if layout.tile().0 != 1 || input.shape.0 != 1 || length > layout.dim() {
            let reason = format!("shape {}; needed one row in one tile of one row", display_shape(input.shape));
            return Err(shape_error(OPERATION, reason));
        }
        let level = input.level.min(parameters.max_level());
        check_depth(OPERATION, level, 1, "start at a higher level, or use a deeper preset")?;
        let most = depth.min(level).min(MAX_DEPTH);
        let permutation = Permutation::new(completed(indices, layout.dim())?)?;
        let task = PermutationTask {
            input_level: level,
            cache,
            // A rotation by a multiple of the interleaved vectors is cyclic in each of them.
            ..PermutationTask::new(&permutation, Packing::Repeated, parameters, level - most)
        };
        let rotates = Diagonals::new(&permutation, Shifts::Forward).single().is_some();
        if rotates && indices.len() < layout.dim() {
            // Without masks, what lies beyond the selection would stay.
            return Ok(None);
        }
        match task.plan_stages(parameters, &CostModel::nominal(parameters)) {
            Ok(found) => Self::prepare(parameters, layout, input, indices.len(), &found.plan).map(Some),
            Err(PermuteError::NoPlan { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Prepares the stages of a plan. Entries that end at position `to` or beyond are removed by the last masks.
    fn prepare(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        to: usize,
        plan: &PermutationPlan,
    ) -> Result<Self, EncryptedMatrixError> {
        let none = || shape_error(OPERATION, "a plan without stages; this is a bug");
        let Operations::Stages(stages) = plan.program() else { return Err(none()) };
        let diagonals: Vec<Diagonals> = stages.iter().map(|stage| stage.diagonals()).collect();
        let last = diagonals.iter().rposition(|stage| stage.single().is_none());
        // How far entries move to the left after the last masks.
        let after = last.map_or(0, |last| last + 1);
        let rest: i64 = diagonals[after..].iter().filter_map(Diagonals::single).sum();
        let level = input.level.min(parameters.max_level());
        let mut scales = LevelAndScales { level, input: input.scale, output: parameters.scale() };
        let (mut steps, mut keys) = (Vec::with_capacity(stages.len()), KeyPlan::new());
        for (number, (stage, diagonals)) in stages.iter().zip(&diagonals).enumerate() {
            let parallel = layout.parallel();
            if let Some(shift) = diagonals.single() {
                let shift = shift * parallel as i64;
                let element = galois::rotation(parameters.ring(), shift);
                if element != 1 {
                    keys.require_over(KeyKind::Galois { element }, parameters.basis(scales.level));
                }
                steps.push(Step::Rotate(shift));
                continue;
            }
            let length = plan.length() as i64;
            let kept =
                |position: usize| Some(number) != last || (position as i64 - rest).rem_euclid(length) < to as i64;
            let transform = transform(parameters, layout, scales, diagonals, stage.babies, kept)?;
            keys.extend(&transform.plan().key_plan());
            steps.push(Step::Linear(Box::new(transform)));
            scales = LevelAndScales { level: scales.level - 1, input: scales.output, ..scales };
        }
        Ok(VectorPermutation { layout, from: input.shape.1, to, level, steps, keys })
    }

    fn transforms(&self) -> impl Iterator<Item = &LinearTransform> {
        self.steps.iter().filter_map(|step| match step {
            Step::Linear(transform) => Some(transform.as_ref()),
            Step::Rotate(_) => None,
        })
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// Number of levels it uses.
    pub fn depth(&self) -> usize {
        self.transforms().count()
    }

    /// Bytes of its encoded masks.
    pub(crate) fn prepared_bytes(&self) -> usize {
        self.transforms().map(|transform| transform.plan().prepared_bytes() as usize).sum()
    }

    /// Number of ciphertexts it holds at the same time, besides operand and result.
    pub(crate) fn working_ciphertexts(&self) -> usize {
        self.transforms().map(|transform| transform.plan().rotations().len()).max().unwrap_or(0) + 2
    }

    /// Permutes every vector of the batch.
    ///
    /// # Errors
    /// If the shape, layout or scale of the vector is not the prepared one, its level is too low, or keys are missing.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        check_prepared(OPERATION, a, (1, self.from), self.layout)?;
        arithmetic.require_keys(OPERATION, &self.keys)?;
        let permuted = a.try_map(|tile| {
            let mut vector = arithmetic.drop_to(tile, self.level)?;
            for step in &self.steps {
                vector = match step {
                    Step::Rotate(0) => vector,
                    Step::Rotate(steps) => arithmetic.rotate(&vector, *steps)?,
                    Step::Linear(transform) => arithmetic.linear(transform, &vector)?,
                };
            }
            Ok::<_, EncryptedMatrixError>(vector)
        })?;
        Ok(a.result((1, self.to), permuted.into_tiles(), true))
    }
}

/// A selection of columns: a permutation by the planner in tiles of one row, if all indices differ; otherwise a product
/// with diagonals.
pub(crate) enum Selection {
    Permutation(Box<VectorPermutation>),
    Long(Box<LongPermutation>),
    Map(Box<LinearMap>),
}

impl Selection {
    /// The selection of these columns, of at most `depth` levels. Plans of permutations are kept in `cache`.
    pub(crate) fn plan(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        indices: &[usize],
        (depth, cache): (usize, Option<&PlanCache>),
    ) -> Result<Self, EncryptedMatrixError> {
        let differ = indices.iter().collect::<BTreeSet<_>>().len() == indices.len();
        if layout.tile().0 == 1
            && differ
            && input.shape.1 <= layout.dim()
            && let Some(permutation) = VectorPermutation::plan(parameters, layout, input, indices, depth, cache)?
        {
            return Ok(Selection::Permutation(Box::new(permutation)));
        }
        let diagonals = distinct_diagonals(layout, indices);
        let row = layout.tile().0 == 1;
        let most = if row { MAX_DIAGONALS.max(4 * layout.tiles((1, indices.len()))) } else { MAX_ALL_DIAGONALS };
        let most = most.min(MAX_ALL_DIAGONALS);
        // Tiles that fill the slots hold one vector.
        let long = row && layout.parallel() == 1 && input.shape.1 > layout.dim();
        if long && differ && diagonals > most {
            return Ok(Selection::Long(Box::new(LongPermutation::plan(parameters, layout, input, indices, cache)?)));
        }
        if diagonals > most {
            return Err(EncryptedMatrixError::Layout {
                operation: "pick columns",
                found: format!("a selection with {diagonals} diagonals"),
                needed: format!("at most {most}, or different entries of an expression without products and sums"),
            });
        }
        Ok(Selection::Map(Box::new(LinearMap::columns(parameters, layout, input, indices)?)))
    }
}

/// Number of different distances by which selected columns move, for all pairs of tiles.
fn distinct_diagonals(layout: Layout, indices: &[usize]) -> usize {
    let columns = layout.dim();
    let diagonal = |(to, &from): (usize, &usize)| {
        let distance = (from as i64 - to as i64).rem_euclid(columns as i64);
        (to / columns, from / columns, distance)
    };
    indices.iter().enumerate().map(diagonal).collect::<BTreeSet<_>>().len()
}

/// A stage of a plan with its shifts stretched to the distance of interleaved vectors.
fn transform(
    parameters: &CkksParameters,
    layout: Layout,
    scales: LevelAndScales,
    diagonals: &Diagonals,
    babies: usize,
    kept: impl Fn(usize) -> bool,
) -> Result<LinearTransform, EncryptedMatrixError> {
    let parallel = layout.parallel();
    let mut map: BTreeMap<usize, Vec<Complex64>> = BTreeMap::new();
    for (shift, positions) in diagonals.iter() {
        let positions = positions.iter().map(|&position| position as usize).filter(|&position| kept(position));
        for position in positions {
            let mask = map.entry(layout.rotation(shift * parallel as i64));
            let mask = mask.or_insert_with(|| vec![Complex64::default(); layout.slots()]);
            mask[layout.slot(0, 0, position)..][..parallel].fill(Complex64::from(1.0));
        }
    }
    let progression = diagonals.progression();
    let steps = Steps { difference: progression.difference * parallel, first: progression.first, babies };
    let plan = LinearPlan::of_steps(parameters, map, steps, scales.level, scales.input, scales.output)?;
    Ok(LinearTransform::deferred(plan))
}
