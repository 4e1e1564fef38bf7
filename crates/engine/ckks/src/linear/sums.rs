//! Sums of linear transformations of several vectors, which share their steps: the blocks of a large matrix.
//!
//! With `out_r = sum_i T_ri(in_i)`, each input is decomposed and rotated by its baby steps once for all results, and
//! each result is rotated by its giant steps once for all inputs.

use std::collections::{BTreeMap, BTreeSet};

use num_complex::Complex64;
use rayon::prelude::*;
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use crate::arithmetic::Arithmetic;
use crate::cost::Cost;
use crate::error::CkksError;
use crate::linear::costs::LinearCosts;
use crate::linear::plan::{LinearPlan, OPERATION, rotated_right};
use crate::linear::steps::{Group, Steps, counts, groups};
use crate::linear::transform::LinearTransform;
use crate::memory;

/// Number of rotated inputs whose diagonals are encoded at the same time, if diagonals are not kept.
pub(super) const STREAMED_IMAGES: usize = 8;

/// Plans of sums of linear transformations: for each result, the numbers of inputs and the transformations of them.
/// They have one level and the same steps.
pub(crate) struct LinearSums<'a> {
    rows: Vec<Vec<(usize, &'a LinearPlan)>>,
    first: &'a LinearPlan,
}

impl<'a> LinearSums<'a> {
    /// # Errors
    /// If there are no results, one has no transformation, or levels, steps or output scales differ.
    pub(crate) fn new(rows: &[Vec<(usize, &'a LinearTransform)>]) -> Result<Self, CkksError> {
        const OPERATION: &str = "sum linear transformations";
        let plans = |row: &Vec<(usize, &'a LinearTransform)>| row.iter().map(|&(input, t)| (input, t.plan())).collect();
        let rows: Vec<Vec<(usize, &LinearPlan)>> = rows.iter().map(plans).collect();
        let refuse = |found, needed: &str| CkksError::Shape { operation: OPERATION, found, needed: needed.into() };
        let Some(&(_, first)) = rows.first().and_then(|row| row.first()) else {
            return Err(refuse(0, "at least one result of at least one transformation"));
        };
        if rows.iter().any(Vec::is_empty) {
            return Err(refuse(0, "at least one transformation for each result"));
        }
        for (_, plan) in rows.iter().flatten() {
            if plan.level != first.level {
                return Err(CkksError::Level { operation: OPERATION, found: plan.level, needed: first.level });
            }
            if plan.steps != first.steps || plan.run != first.run {
                let needed = format!("baby steps as the first transformation, {:?}, and its period", first.steps);
                return Err(CkksError::Shape { operation: OPERATION, found: plan.steps.babies, needed });
            }
            crate::scale::check_scales(OPERATION, first.output_scale, plan.output_scale)?;
        }
        Ok(LinearSums { rows, first })
    }

    /// The sums of one transformation.
    pub(crate) fn of_one(plan: &'a LinearPlan) -> Self {
        LinearSums { rows: vec![vec![(0, plan)]], first: plan }
    }

    /// The steps of all transformations.
    pub(super) fn steps(&self) -> Steps {
        self.first.steps
    }

    /// The inputs of each result, at least one.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        self.rows.iter().map(|row| row.iter().map(|(input, _)| *input).collect())
    }

    /// Groups of results whose sums are held at the same time.
    pub(super) fn groups(&self) -> Vec<Group> {
        let slots = self.first.parameters.slots();
        let split = |plan: &LinearPlan| plan.diagonals.keys().filter_map(|&k| plan.steps.split(k, slots)).collect();
        groups(self.rows.iter().map(|row| row.iter().map(|(input, plan)| (*input, split(plan))).collect()))
    }

    /// Whether a group has diagonals that are encoded whenever they are used.
    pub(super) fn is_streamed(&self, group: &Group) -> bool {
        self.rows[group.rows.clone()].iter().flatten().any(|(_, plan)| plan.streamed)
    }

    /// The rotations, to the left: the baby steps, and the differences of successive giant steps of a result.
    pub(crate) fn rotations(&self) -> Vec<usize> {
        let (steps, slots) = (self.first.steps, self.first.parameters.slots());
        let mut rotations = BTreeSet::new();
        for group in self.groups() {
            rotations.extend(group.babies.values().flatten().map(|&baby| steps.baby(baby, slots)));
            for giants in &group.giants {
                let differences = giants.iter().scan(0, |last, &giant| Some(giant - std::mem::replace(last, giant)));
                rotations.extend(differences.map(|giants| steps.giant(giants, slots)));
            }
        }
        rotations.into_iter().filter(|&steps| steps > 0).collect()
    }

    /// The keys.
    pub(crate) fn key_plan(&self) -> KeyPlan {
        let (ring, basis) = (self.first.parameters.ring(), self.first.parameters.basis(self.first.level));
        let mut plan = KeyPlan::new();
        for steps in self.rotations() {
            plan.require_over(KeyKind::Galois { element: galois::rotation(ring, steps as i64) }, basis);
        }
        plan
    }

    /// The cost of the sums of ciphertexts.
    pub(crate) fn cost(&self) -> Cost {
        let parameters = &self.first.parameters;
        let counts = counts(&self.first.steps, parameters.slots(), &self.groups());
        let mut cost = LinearCosts::of_run(parameters, self.first.level, self.first.run).cost(counts);
        let limbs = parameters.ring().limb_count(self.first.basis);
        let streamed = self.rows.iter().flatten().filter(|(_, plan)| plan.streamed);
        let streamed: usize = streamed.map(|(_, plan)| plan.diagonals.len()).sum();
        cost += Cost::encoding(parameters.ring(), limbs).times(streamed as u64);
        cost
    }

    /// Bytes that the sums of ciphertexts hold at their peak, the results included. The peak is the maximum of two
    /// phases: the raised digits and the lifted components of some inputs, rotations by baby steps, diagonals that are
    /// not kept, and one sum for each giant step of each result; the sums and a key switch.
    pub(crate) fn live_bytes(&self) -> u64 {
        let (ring, basis) = (self.first.parameters.ring(), self.first.parameters.basis(self.first.level));
        let (own, extended) = (2 * ring.limb_count(basis), ring.limb_count(self.first.basis));
        let mut most = 0;
        for group in self.groups() {
            let sums: usize = group.giants.iter().map(BTreeSet::len).sum();
            let is_streamed = self.is_streamed(&group);
            let parts = group.parts(is_streamed);
            let inputs = parts.iter().map(Vec::len).max().unwrap_or(0);
            let images = parts.iter().map(|part| group.images(part)).max().unwrap_or(0);
            // Results that are done, and a copy of an input, which is needed if the input is at a higher level.
            let held = own * (group.rows.end + 1);
            let at_once = if is_streamed { STREAMED_IMAGES.min(images) } else { images };
            // A device adds sums to those before; a processor goes on with them.
            let is_again = parts.len() > 1 || is_streamed;
            let more = if is_again && ring.device().is_some() { sums } else { 0 };
            let images = memory::held_images(ring, self.first.basis, at_once);
            let lifted = inputs * (memory::raised_digits(ring, basis) + 2 * extended);
            let adding = lifted + images + (sums + more) * 2 * extended;
            let turning = (sums + 1) * 2 * extended + memory::key_switch(ring, basis);
            let diagonals = at_once * sums;
            let encoding = memory::encoding(&self.first.parameters) + memory::bytes(ring, extended);
            let encoded = (diagonals * ring.subring_bytes(self.first.basis, self.first.run)) as u64
                + memory::threads(diagonals) as u64 * encoding;
            let encoded = if is_streamed { encoded } else { 0 };
            most = most.max(memory::bytes(ring, held + adding) + encoded).max(memory::bytes(ring, held + turning));
        }
        most
    }

    /// Level and scale of the results for inputs of these levels and scales.
    ///
    /// # Errors
    /// If there is no such input, or one does not fit.
    pub(crate) fn output(&self, inputs: &[(usize, f64)]) -> Result<(usize, f64), CkksError> {
        for (number, plan) in self.rows.iter().flatten() {
            let Some(&(level, scale)) = inputs.get(*number) else {
                let needed = format!("the number of one of {} inputs", inputs.len());
                return Err(CkksError::Shape { operation: OPERATION, found: *number, needed });
            };
            plan.check(level, scale)?;
        }
        Ok((self.first.level - 1, self.first.output_scale))
    }

    /// Evaluates the sums by plain rotations, products and sums, for any arithmetic: with the keys, levels and scales
    /// of the hoisted form, but more divisions, so it needs more time and adds more noise.
    ///
    /// # Errors
    /// As for [`LinearSums::output`], or if a key is missing.
    pub(crate) fn evaluate<A: Arithmetic + ?Sized>(
        &self,
        arithmetic: &A,
        inputs: &[&A::Vector],
    ) -> Result<Vec<A::Vector>, CkksError> {
        let levels: Vec<_> = inputs.iter().map(|input| (arithmetic.level(input), arithmetic.scale(input))).collect();
        self.output(&levels)?;
        let mut sums: Vec<BTreeMap<usize, A::Vector>> = self.rows.iter().map(|_| BTreeMap::new()).collect();
        // One input after the other, so that the rotations of one are held.
        for (number, input) in inputs.iter().enumerate() {
            let input = arithmetic.lowered(input, self.first.level)?;
            let work = self.products(number);
            let rotate = |baby| Ok((baby, self.baby(arithmetic, &input, baby)?));
            let babies = babies(&work).into_iter().map(rotate).collect::<Result<BTreeMap<_, _>, CkksError>>()?;
            for ((row, giant), terms) in work {
                let before = sums[row].remove(&giant);
                sums[row].extend(self.added(arithmetic, &babies, giant, &terms, before)?.map(|sum| (giant, sum)));
            }
        }
        sums.into_iter().map(|sums| self.turned(arithmetic, sums)).collect()
    }

    /// As [`LinearSums::evaluate`], with the same results, on all threads.
    ///
    /// # Errors
    /// As for [`LinearSums::evaluate`].
    pub(crate) fn evaluate_on_threads<A: Arithmetic + Sync>(
        &self,
        arithmetic: &A,
        inputs: &[&A::Vector],
    ) -> Result<Vec<A::Vector>, CkksError> {
        let levels: Vec<_> = inputs.iter().map(|input| (arithmetic.level(input), arithmetic.scale(input))).collect();
        self.output(&levels)?;
        let mut sums: Vec<BTreeMap<usize, A::Vector>> = self.rows.iter().map(|_| BTreeMap::new()).collect();
        for (number, input) in inputs.iter().enumerate() {
            let input = &*arithmetic.lowered(input, self.first.level)?;
            let work = self.products(number);
            let rotate = |baby| Ok((baby, self.baby(arithmetic, input, baby)?));
            let babies = babies(&work).into_par_iter().map(rotate).collect::<Result<BTreeMap<_, _>, CkksError>>()?;
            let work: Vec<_> =
                work.into_iter().map(|((row, giant), terms)| ((row, giant), terms, sums[row].remove(&giant))).collect();
            let add = |((row, giant), terms, before): ((usize, usize), Terms<'_>, Option<A::Vector>)| {
                Ok((row, giant, self.added(arithmetic, &babies, giant, &terms, before)?))
            };
            let added = work.into_par_iter().map(add).collect::<Result<Vec<_>, CkksError>>()?;
            for (row, giant, sum) in added {
                sums[row].extend(sum.map(|sum| (giant, sum)));
            }
        }
        sums.into_par_iter().map(|sums| self.turned(arithmetic, sums)).collect()
    }

    /// The diagonals of one input by the numbers of results and giant steps, with their baby numbers.
    fn products(&self, number: usize) -> BTreeMap<(usize, usize), Terms<'_>> {
        let mut work: BTreeMap<(usize, usize), Terms<'_>> = BTreeMap::new();
        for (row, plans) in self.rows.iter().enumerate() {
            for (_, plan) in plans.iter().filter(|(own, _)| *own == number) {
                for (giant, diagonals) in plan.rows() {
                    let terms = diagonals.into_iter().map(|(baby, diagonal)| (baby, diagonal, plan.plaintext_scale));
                    work.entry((row, giant)).or_default().extend(terms);
                }
            }
        }
        work
    }

    /// An input rotated by a baby step.
    fn baby<A: Arithmetic + ?Sized>(
        &self,
        arithmetic: &A,
        input: &A::Vector,
        baby: usize,
    ) -> Result<A::Vector, CkksError> {
        arithmetic.rotate(input, self.first.steps.baby(baby, self.first.parameters.slots()) as i64)
    }

    /// A sum with the products of these diagonals added.
    fn added<A: Arithmetic + ?Sized>(
        &self,
        arithmetic: &A,
        babies: &BTreeMap<usize, A::Vector>,
        giant: usize,
        terms: &Terms<'_>,
        mut sum: Option<A::Vector>,
    ) -> Result<Option<A::Vector>, CkksError> {
        let turned = self.first.steps.giant(giant, self.first.parameters.slots());
        for (baby, diagonal, scale) in terms {
            let product = arithmetic.mul_values(&babies[baby], &rotated_right(diagonal, turned), *scale)?;
            sum = Some(match sum {
                Some(sum) => arithmetic.add(&sum, &product)?,
                None => product,
            });
        }
        Ok(sum)
    }

    /// A result: its sums, rotated by their giant steps.
    fn turned<A: Arithmetic + ?Sized>(
        &self,
        arithmetic: &A,
        sums: BTreeMap<usize, A::Vector>,
    ) -> Result<A::Vector, CkksError> {
        let (steps, slots) = (self.first.steps, self.first.parameters.slots());
        let add = |sum: A::Vector, more: A::Vector| arithmetic.add(&sum, &more);
        let rotate = |sum: A::Vector, giants| arithmetic.rotate(&sum, steps.giant(giants, slots) as i64);
        arithmetic.rescale(&horner(sums, add, rotate)?)
    }
}

/// Baby numbers with their diagonals and the scales of those.
type Terms<'a> = Vec<(usize, &'a [Complex64], f64)>;

/// The baby numbers of products.
fn babies(work: &BTreeMap<(usize, usize), Terms<'_>>) -> BTreeSet<usize> {
    work.values().flatten().map(|(baby, ..)| *baby).collect()
}

impl LinearPlan {
    /// Evaluates the transformation by plain rotations, products and sums, for any arithmetic. Tests compare
    /// [`LinearTransform::apply`](crate::LinearTransform::apply) to it, and a simulator runs it
    /// ([`Arithmetic::linear`]). It uses the same keys, levels and scales, but more divisions, so it needs more time
    /// and adds more noise.
    ///
    /// # Errors
    /// If the input's level is below the plan's, its scale is not the planned one, or a key is missing.
    pub fn evaluate<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, CkksError> {
        Ok(LinearSums::of_one(self).evaluate(arithmetic, &[input])?.swap_remove(0))
    }
}

/// `sum rot_g(sum_g)` for the sums by their giant numbers `g`, from the last one down.
pub(super) fn horner<T>(
    sums: BTreeMap<usize, T>,
    add: impl Fn(T, T) -> Result<T, CkksError>,
    rotate: impl Fn(T, usize) -> Result<T, CkksError>,
) -> Result<T, CkksError> {
    let mut total: Option<(usize, T)> = None;
    for (giant, sum) in sums.into_iter().rev() {
        let sum = match total {
            Some((last, total)) => add(rotate(total, last - giant)?, sum)?,
            None => sum,
        };
        total = Some((giant, sum));
    }
    let none = || CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one diagonal".into() };
    let (giant, total) = total.ok_or_else(none)?;
    rotate(total, giant)
}
