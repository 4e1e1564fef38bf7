//! Plans of linear transformations: their diagonals, steps, keys, cost and memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use num_complex::Complex64;
use unspoken_ring::{Basis, RingKind, SubringPoly};
use unspoken_rlwe::KeyPlan;

use crate::cost::{Cost, CostModel};
use crate::error::CkksError;
use crate::linear::costs::{LinearCosts, check_level};
use crate::linear::steps::Steps;
use crate::linear::sums::LinearSums;
use crate::parameters::CkksParameters;
use crate::scale::{check_scale, check_scales};

pub(super) const OPERATION: &str = "linear transformation";

/// Bytes of an encoded diagonal in addition to its residues, at most.
const DIAGONAL_BYTES: usize = 640;

/// Plan of a linear transformation: the non-zero diagonals of a matrix and how they are applied. It gives keys, cost
/// and memory before anything is encoded or any key is made.
#[derive(Clone, Debug)]
pub struct LinearPlan {
    pub(super) parameters: CkksParameters,
    /// Shared by the copies of a plan, because they are large.
    pub(super) diagonals: Arc<BTreeMap<usize, Vec<Complex64>>>,
    /// Number of equal values in each run of an encoded diagonal, see [`SubringPoly`].
    pub(super) run: usize,
    pub(super) steps: Steps,
    /// Whether diagonals are encoded whenever they are used, and not kept.
    pub(super) streamed: bool,
    pub(super) level: usize,
    pub(super) input_scale: f64,
    pub(super) output_scale: f64,
    /// The scale and the basis of the encoded diagonals. The rescale divides the scale out again, up to the change from
    /// input to output scale.
    pub(super) plaintext_scale: f64,
    pub(super) basis: Basis,
}

impl LinearPlan {
    /// Plans `out[j] = sum_k diagonals[k][j] in[j + k]` (indices modulo the slots) for inputs of scale `input_scale` at
    /// `level` or above. The result has scale `output_scale` and is one level below `level`, because the transformation
    /// includes its rescale. A diagonal shorter than the slots is repeated. The number of baby steps is the cheapest
    /// power of two.
    ///
    /// # Errors
    /// If there are no diagonals, one's index or length does not fit the slots (a length must divide them), an entry is
    /// not finite (or not real, in the conjugate-invariant ring), a scale is not a positive number, or the level is 0
    /// or above the highest.
    pub fn new(
        parameters: &CkksParameters,
        diagonals: BTreeMap<usize, Vec<Complex64>>,
        level: usize,
        input_scale: f64,
        output_scale: f64,
    ) -> Result<Self, CkksError> {
        let plan = Self::checked(parameters, diagonals, level, (input_scale, output_scale))?;
        let steps = plan.cheapest_steps();
        Ok(LinearPlan { steps, ..plan })
    }

    /// As [`LinearPlan::new`], with these steps instead of the cheapest.
    ///
    /// # Errors
    /// As for [`LinearPlan::new`] and [`LinearPlan::with_steps`].
    pub fn of_steps(
        parameters: &CkksParameters,
        diagonals: BTreeMap<usize, Vec<Complex64>>,
        steps: Steps,
        level: usize,
        input_scale: f64,
        output_scale: f64,
    ) -> Result<Self, CkksError> {
        Self::checked(parameters, diagonals, level, (input_scale, output_scale))?.with_steps(steps)
    }

    /// The plan with one baby step.
    fn checked(
        parameters: &CkksParameters,
        diagonals: BTreeMap<usize, Vec<Complex64>>,
        level: usize,
        (input_scale, output_scale): (f64, f64),
    ) -> Result<Self, CkksError> {
        const OPERATION: &str = "plan a linear transformation";
        let slots = parameters.slots();
        if diagonals.is_empty() {
            return Err(CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one diagonal".into() });
        }
        check_level(OPERATION, parameters, level)?;
        check_scale(OPERATION, input_scale)?;
        check_scale(OPERATION, output_scale)?;
        let real = parameters.ring().kind() == RingKind::ConjugateInvariant;
        for (&k, diagonal) in &diagonals {
            if k >= slots {
                let needed = format!("diagonals numbered below the {slots} slots");
                return Err(CkksError::Shape { operation: OPERATION, found: k, needed });
            }
            if diagonal.is_empty() || !slots.is_multiple_of(diagonal.len()) {
                let needed =
                    format!("one for each of the {slots} slots, or a length that divides them, in diagonal {k}");
                return Err(CkksError::Shape { operation: OPERATION, found: diagonal.len(), needed });
            }
            if let Some(index) = diagonal.iter().position(|z| !z.is_finite() || (real && z.im != 0.0)) {
                let needed = "a finite number, real in the conjugate-invariant ring";
                return Err(CkksError::Value { operation: OPERATION, index, needed });
            }
        }
        let diagonals: BTreeMap<usize, Vec<Complex64>> =
            diagonals.into_iter().map(|(k, diagonal)| (k, without_repetitions(diagonal))).collect();
        let period = diagonals.values().map(Vec::len).max().unwrap_or(1);
        Ok(LinearPlan {
            parameters: parameters.clone(),
            diagonals: Arc::new(diagonals),
            run: run(parameters, period),
            steps: Steps::of_babies(1),
            streamed: false,
            level,
            input_scale,
            output_scale,
            plaintext_scale: parameters.level_modulus(level) * (output_scale / input_scale),
            basis: parameters.ring().switching_basis(parameters.basis(level)),
        })
    }

    /// The steps for diagonals one apart whose number of baby steps is the cheapest power of two.
    fn cheapest_steps(&self) -> Steps {
        let (parameters, slots) = (&self.parameters, self.parameters.slots());
        let costs = LinearCosts::of_run(parameters, self.level, self.run);
        let model = CostModel::nominal(parameters);
        let indices: Vec<usize> = self.diagonals.keys().copied().collect();
        let seconds = |steps: &Steps| costs.seconds(&model, steps.counts(&indices, slots));
        let choices = (0..=slots.trailing_zeros()).map(|log2| Steps::of_babies(1 << log2));
        let priced = choices.map(|steps| (seconds(&steps), steps));
        let cheapest = priced.min_by(|a, b| a.0.total_cmp(&b.0));
        cheapest.map_or(Steps::of_babies(1), |(_, steps)| steps)
    }

    /// The same plan with other steps. Fewer baby steps need fewer keys, more giant steps and more divisions.
    ///
    /// # Errors
    /// If the number of baby steps is 0 or above the slots, the difference is zero, or a diagonal is not a multiple of
    /// the difference.
    pub fn with_steps(self, steps: Steps) -> Result<Self, CkksError> {
        const OPERATION: &str = "choose baby steps and giant steps";
        let slots = self.parameters.slots();
        if !(1..=slots).contains(&steps.babies) {
            let needed = format!("from 1 to {slots} baby steps");
            return Err(CkksError::Shape { operation: OPERATION, found: steps.babies, needed });
        }
        if steps.difference == 0 {
            return Err(CkksError::Shape { operation: OPERATION, found: 0, needed: "a nonzero difference".into() });
        }
        if let Some(&found) = self.diagonals.keys().find(|&&k| steps.split(k, slots).is_none()) {
            let needed = format!("diagonals that are multiples of {} modulo the {slots} slots", steps.difference);
            return Err(CkksError::Shape { operation: OPERATION, found, needed });
        }
        Ok(LinearPlan { steps, ..self })
    }

    /// The same plan for diagonals that repeat after at least `period` slots, a power of two. For estimates by planners
    /// that do not know the values of diagonals and give one value for each: shorter diagonals are stored in less
    /// memory.
    pub fn with_period(self, period: usize) -> Self {
        let run = self.run.min(run(&self.parameters, period));
        LinearPlan { run, ..self }
    }

    /// The same plan for a transformation that encodes its diagonals whenever it is applied and does not keep them: it
    /// takes less memory and more time.
    pub fn streamed(self) -> Self {
        LinearPlan { streamed: true, ..self }
    }

    /// Whether its diagonals are encoded whenever they are used.
    pub fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// The split of the diagonals into baby steps and giant steps.
    pub fn steps(&self) -> Steps {
        self.steps
    }

    /// The numbers of the diagonals.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.diagonals.keys().copied()
    }

    /// The level of the inputs. The result is one level below.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The rotations it uses, to the left: the baby steps, and the differences of successive giant steps.
    pub fn rotations(&self) -> Vec<usize> {
        LinearSums::of_one(self).rotations()
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> KeyPlan {
        LinearSums::of_one(self).key_plan()
    }

    /// The cost of [`LinearTransform::apply`](crate::LinearTransform::apply).
    pub fn cost(&self) -> Cost {
        LinearSums::of_one(self).cost()
    }

    /// Bytes of memory of a [`LinearTransform`](crate::LinearTransform) of this plan: the encoded diagonals (counted
    /// whether they are encoded yet or not), if they are kept, and their values, which copies of the plan share.
    pub fn prepared_bytes(&self) -> u64 {
        let values: usize = self.diagonals.values().map(|diagonal| size_of_val(diagonal.as_slice())).sum();
        let encoded = self.parameters.ring().subring_bytes(self.basis, self.run) + DIAGONAL_BYTES;
        let kept = if self.streamed { 0 } else { self.diagonals.len() };
        (kept * encoded + values) as u64
    }

    /// Bytes that [`LinearTransform::apply`] holds at its peak, its result included.
    pub(crate) fn live_bytes(&self) -> u64 {
        LinearSums::of_one(self).live_bytes()
    }

    /// The diagonals by giant number, each with its baby number.
    pub(super) fn rows(&self) -> BTreeMap<usize, Vec<(usize, &[Complex64])>> {
        let mut rows: BTreeMap<usize, Vec<(usize, &[Complex64])>> = BTreeMap::new();
        for (&k, diagonal) in self.diagonals.iter() {
            if let Some((giant, baby)) = self.steps.split(k, self.parameters.slots()) {
                rows.entry(giant).or_default().push((baby, diagonal));
            }
        }
        rows
    }

    pub(super) fn check(&self, level: usize, scale: f64) -> Result<(), CkksError> {
        if level < self.level {
            return Err(CkksError::Level { operation: OPERATION, found: level, needed: self.level });
        }
        check_scales(OPERATION, self.input_scale, scale)
    }
}

/// The shortest vector that gives `values` when it is repeated a power of two times.
fn without_repetitions(mut values: Vec<Complex64>) -> Vec<Complex64> {
    while values.len().is_multiple_of(2) && values[..values.len() / 2] == values[values.len() / 2..] {
        values.truncate(values.len() / 2);
    }
    values.shrink_to_fit();
    values
}

/// The runs of equal values of the encoding of a vector of this period. Short runs are not used.
pub(super) fn run(parameters: &CkksParameters, period: usize) -> usize {
    let run = parameters.slots() / period;
    if run < SubringPoly::MIN_RUN { 1 } else { run }
}

/// `values` rotated cyclically to the right: entry `j` comes from `j - steps`.
pub(super) fn rotated_right(values: &[Complex64], steps: usize) -> Vec<Complex64> {
    let (head, tail) = values.split_at(values.len() - steps % values.len());
    [tail, head].concat()
}
