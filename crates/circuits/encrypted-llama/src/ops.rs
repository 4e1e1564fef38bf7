//! The operations of the pass on vectors, at given levels.
//!
//! The vectors of a tensor are ordered by their dimensions or columns first, by part second.
//!
//! - **Linear maps** are products on coefficients between the halves of a bootstrap (`ckks::CoefficientMatrix`; paper,
//!   Section 5.2), or sums of diagonals on slots for one level where a map has at most 256 diagonals. On coefficients,
//!   results of one input lie side by side in one vector if they fit: one bootstrap serves queries, keys and values, or
//!   gates and their factors. A mask and rotations then take the results apart, for one level.
//! - **Scores** are `sum_r turn_r(q) * K_r` over the `w` turns of the channels: `K_r` has in column `y` channel `y + r`
//!   of that column's key. For public tokens `K_r` is a plaintext that is encoded on the fly. For private tokens it is
//!   made from *skewed* keys, whose column `y` has token `t - y`: two masked rotations for each `r`. All keys share one
//!   sum and one relinearisation. Values are the same with the weights turned.
//! - **A chunk that runs again** replaces its keys and values. The first pass of the next chunk makes them final: for
//!   heads of width 16 or less their rows are added to the rows of all earlier chunks. The skewed vectors of each chunk
//!   stay, so that a session can go back to it: the same rows are subtracted then.
//! - **Softmax** sums squares over all columns; the sums are the same in all columns. Its factors are few values in one
//!   vector (the paper's slim track).
//! - **The result** is the logits if they fit few vectors. Otherwise it is the output of the last norm, and the client,
//!   which has the head, multiplies by it.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;
use unspoken_ckks::{
    Arithmetic, CkksError, Complex64, InnerSum, LinearPlan, LinearTransform, Polynomial, PreparedVector,
    SlotPolynomials, Steps, WithPower, evaluate_slots_with_power, evaluate_with_power,
};
use unspoken_llama::{Place, Quantity};

use crate::check::Evaluated;
use crate::error::PassError;
use crate::evaluator::PassEvaluator;
use crate::layout::{Blocks, Columns, Key, Layout};
use crate::linear::LinearPlaces;
use crate::program::{PassProgram, TransformKey, TransformKind};
use crate::public::Public;
use crate::slot_map::SlotMap;
use crate::units::NormUnits;

/// What operations need.
pub(crate) struct Context<'a, M: PassEvaluator> {
    pub evaluator: &'a M,
    pub program: &'a PassProgram,
    /// Keys and values of the prefix and the public tokens.
    pub public: Public<'a>,
    pub columns: Columns,
    /// The chunk of the pass.
    pub chunk: usize,
    /// The blocks of heads that tensors have.
    pub blocks: Blocks,
}

impl<M: PassEvaluator> Clone for Context<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: PassEvaluator> Copy for Context<'_, M> {}

/// Whether rows are rows of keys, which queries multiply, or of values, which weights multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Keys,
    Values,
}

/// Which rows of a chunk: those where the key is not later than the query, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    NotLater,
    All,
}

impl<M> Context<'_, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    pub(crate) fn layout(&self) -> &Layout {
        &self.program.layout
    }

    pub(crate) fn arithmetic(&self) -> &M::Arithmetic {
        self.evaluator.arithmetic()
    }

    pub(crate) fn parts(&self) -> usize {
        self.layout().parts
    }

    /// Runs `work` on every item, at most one item on each thread at a time: this bounds the memory.
    pub(crate) fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(usize, &T) -> Result<R, CkksError> + Sync + Send,
    ) -> Result<Vec<R>, CkksError> {
        let mut results = Vec::with_capacity(items.len());
        for group in items.chunks(rayon::current_num_threads()) {
            let first = results.len();
            let done = group.par_iter().enumerate().map(|(index, item)| work(first + index, item));
            results.extend(done.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(results)
    }

    /// `factor * sum of squares + offset` over all dimensions: a vector for each part. Two levels.
    pub fn norm_square(
        &self,
        input: &[M::Vector],
        period: usize,
        norm: &NormUnits,
    ) -> Result<Vec<M::Vector>, CkksError> {
        let (a, layout) = (self.arithmetic(), self.layout());
        let sums = self.sum_squares(input, (layout.tokens, period))?;
        self.each(&sums, |_, sum| {
            let scale = a.parameters().scale() * a.parameters().level_modulus(a.level(sum));
            let scaled = a.rescale(&a.mul_constant(sum, Complex64::from(norm.factor), scale)?)?;
            a.plus_constant(scaled, Complex64::from(norm.offset))
        })
    }

    /// Sums of the squares of slots that are `stride` apart, over all vectors of a part: a vector for each part. One
    /// level.
    pub(crate) fn sum_squares(
        &self,
        input: &[M::Vector],
        (stride, count): (usize, usize),
    ) -> Result<Vec<M::Vector>, CkksError> {
        let (a, parts) = (self.arithmetic(), self.parts());
        let sum = InnerSum::new(stride as i64, count)?;
        let parts: Vec<usize> = (0..parts).collect();
        self.each(&parts, |_, &part| {
            let pairs: Vec<_> = input.iter().skip(part).step_by(parts.len()).map(|term| (term, term)).collect();
            let squares = a.sum_tensors(&pairs)?;
            sum.apply(a, &a.relinearise_rescale(&squares)?)
        })
    }

    /// Sums of the squares of all columns for each head, plus a number for each head: a vector for each part of each
    /// block of heads. One level.
    pub fn column_squares(&self, input: &[M::Vector], offsets: &[f64]) -> Result<Vec<M::Vector>, CkksError> {
        let (a, layout) = (self.arithmetic(), self.layout());
        let mut results = Vec::new();
        for (block, vectors) in input.chunks(input.len() / self.blocks.count).enumerate() {
            let constants = self.by_head(self.blocks.first + block, |head| offsets[head]);
            let sums = self.sum_squares(vectors, (layout.stride(), layout.columns()))?;
            results.extend(self.each(&sums, |_, sum| a.add_values(sum, &constants))?);
        }
        Ok(results)
    }

    /// A number for each head of a block, 0 for padding, in slots that repeat.
    pub(crate) fn by_head(&self, block: usize, value: impl Fn(usize) -> f64) -> Vec<Complex64> {
        let layout = self.layout();
        let of_slot = |slot: usize| {
            let head = block * layout.block_heads + slot / layout.tokens;
            Complex64::from(if head < layout.heads { value(head) } else { 0.0 })
        };
        (0..layout.stride()).map(of_slot).collect()
    }

    /// A function at a place, of the vectors of a tensor from number `first` on.
    pub fn function(&self, place: Place, first: usize, input: &[M::Vector]) -> Result<Evaluated<M::Vector>, PassError> {
        let found = self.program.units.polynomials(place);
        let polynomials = found
            .ok_or_else(|| PassError::Session { found: place.to_string(), needed: "the place of a function".into() })?;
        let slots = |index: usize| match place.quantity {
            Quantity::Exponential => self.visible(first + index),
            Quantity::Silu => self.coordinates(first + index, polynomials.len()),
            _ => {
                // Heads of keys serve several heads of queries.
                let shared = self.layout().heads / polynomials.len();
                self.heads(first + index).into_iter().map(|head| Some(head? / shared)).collect()
            }
        };
        Ok(match place.quantity {
            Quantity::Exponential
            | Quantity::Silu
            | Quantity::SoftmaxFactor(_)
            | Quantity::QueryNormFactor
            | Quantity::KeyNormFactor => self.slot_polynomials(input, polynomials, slots)?,
            _ => self.polynomial(input, &polynomials[0])?,
        })
    }

    /// The value of an evaluation, and what the check has of its argument.
    fn evaluated(&self, found: WithPower<M::Vector>) -> Result<(M::Vector, M::Vector), CkksError> {
        let doubled = self.doubled(&found.power)?;
        Ok((found.value, doubled))
    }

    /// One polynomial of all slots.
    fn polynomial(&self, input: &[M::Vector], polynomial: &Polynomial) -> Result<Evaluated<M::Vector>, CkksError> {
        let a = self.arithmetic();
        let all = self.each(input, |_, vector| {
            self.evaluated(evaluate_with_power(a, vector, polynomial, a.parameters().scale())?)
        });
        Ok(all?.into_iter().collect())
    }

    /// Polynomials of slots; 0 where a slot has none.
    fn slot_polynomials(
        &self,
        input: &[M::Vector],
        polynomials: &[Polynomial],
        slots: impl Fn(usize) -> Vec<Option<usize>> + Sync,
    ) -> Result<Evaluated<M::Vector>, CkksError> {
        let a = self.arithmetic();
        let zero = Polynomial::chebyshev(&[], -1.0, 1.0)?;
        // One of the largest degree is always there, so that all vectors take the same levels.
        let largest = (0..polynomials.len()).max_by_key(|&index| polynomials[index].degree());
        let all = self.each(input, |index, vector| {
            let mut slots = slots(index);
            let mut used: Vec<Option<usize>> = slots.iter().copied().chain([largest, None]).collect();
            used.sort_unstable();
            used.dedup();
            if self.public.is_counted() {
                // Without values each polynomial needs one slot.
                slots.clone_from(&used);
                slots.resize(slots.len().next_power_of_two(), None);
            }
            let own: Vec<Polynomial> =
                used.iter().map(|index| index.map_or(&zero, |index| &polynomials[index]).clone()).collect();
            let slots = slots.iter().map(|index| used.binary_search(index).unwrap_or_default()).collect();
            let polynomials = SlotPolynomials::new(&own, slots)?;
            self.evaluated(evaluate_slots_with_power(a, vector, &polynomials, a.parameters().scale())?)
        });
        Ok(all?.into_iter().collect())
    }

    /// The head of each slot of a vector of factors.
    fn heads(&self, index: usize) -> Vec<Option<usize>> {
        let layout = self.layout();
        let block = self.blocks.first + index / layout.parts;
        let head = |slot: usize| block * layout.block_heads + slot / layout.tokens;
        (0..layout.stride()).map(|slot| Some(head(slot)).filter(|head| *head < layout.heads)).collect()
    }

    /// The coordinate of each slot of a vector of activations of this width.
    fn coordinates(&self, index: usize, width: usize) -> Vec<Option<usize>> {
        let layout = self.layout();
        let coordinate = |slot: usize| index / layout.parts * layout.dimensions() + slot / layout.tokens;
        let slots = 0..layout.tokens * layout.period(width);
        slots.map(|slot| Some(coordinate(slot)).filter(|index| *index < width)).collect()
    }

    /// The head of each slot of a vector of scores; `None` where there is no key that the query may see.
    pub(crate) fn visible(&self, index: usize) -> Vec<Option<usize>> {
        let layout = self.layout();
        let (rest, part) = (index / layout.parts, index % layout.parts);
        let (block, vector) = (self.blocks.first + rest / self.columns.vectors, rest % self.columns.vectors);
        // The first token that sees the key of a column.
        let first = |column: usize| match self.columns.key(layout, vector, column) {
            Key::Empty => layout.tokens,
            Key::Public(_) => 0,
            Key::Private { chunk, part: of, offset } => match (chunk, of).cmp(&(self.chunk, part)) {
                Ordering::Less => 0,
                Ordering::Equal => offset,
                Ordering::Greater => layout.tokens,
            },
        };
        let mut heads = vec![None; layout.slots];
        for column in 0..layout.columns() {
            let first = first(column);
            for head in 0..layout.block_heads {
                let number = block * layout.block_heads + head;
                if number < layout.heads {
                    let end = layout.slot(0, head, column) + layout.tokens;
                    heads[end - layout.tokens + first..end].fill(Some(number));
                }
            }
        }
        heads
    }

    /// Products with a factor: there is one for `group` successive vectors of each part.
    pub fn scale(&self, input: &[M::Vector], factors: &[M::Vector]) -> Result<Vec<M::Vector>, CkksError> {
        let (a, parts) = (self.arithmetic(), self.parts());
        let group = input.len() / factors.len() * parts;
        self.each(input, |index, vector| a.multiply(vector, &factors[index / group * parts + index % parts]))
    }

    /// Products at equal positions.
    pub fn multiply(&self, a: &[M::Vector], b: &[M::Vector]) -> Result<Vec<M::Vector>, CkksError> {
        self.each(a, |index, vector| self.arithmetic().multiply(vector, &b[index]))
    }

    /// Sums at equal positions.
    pub fn add(&self, a: &[M::Vector], b: &[M::Vector]) -> Result<Vec<M::Vector>, CkksError> {
        self.each(a, |index, vector| self.arithmetic().add(vector, &b[index]))
    }

    /// Adds rows at equal turns to a sum, which may have none yet.
    pub fn plus_into(&self, sum: &mut Vec<M::Vector>, rows: Vec<M::Vector>) -> Result<(), CkksError> {
        *sum = if sum.is_empty() { rows } else { self.add(sum, &rows)? };
        Ok(())
    }

    /// Linear maps by diagonals on slots, one level. The results of all places.
    pub fn linear_on_slots(&self, input: &[M::Vector], places: &[Place]) -> Result<Vec<M::Vector>, PassError> {
        let (layout, parts) = (self.layout(), self.parts());
        let map = self.program.linear_map(places)?;
        let mut results = Vec::new();
        for vector in 0..map.outputs.len() {
            let transform = self.transform((TransformKind::Linear(places[0]), vector), &input[0], |_| {
                let steps = Steps { difference: layout.tokens, first: 0, babies: 0 };
                (map.on_slots(layout, vector), steps)
            })?;
            results.extend(self.each(&input[..parts], |_, input| self.arithmetic().linear(&transform, input))?);
        }
        Ok(results)
    }

    /// A transformation for vectors like `input`, with a result at the scale of the parameters. Without a given number
    /// of baby steps, it takes a number near twice the root of the number of rotations.
    pub(crate) fn transform(
        &self,
        (what, vector): (TransformKind, usize),
        input: &M::Vector,
        map: impl FnOnce(usize) -> (SlotMap, Steps),
    ) -> Result<Arc<LinearTransform>, PassError> {
        let a = self.arithmetic();
        let (level, scale) = (a.level(input), a.scale(input));
        let key = TransformKey { what, vector, level, scale: scale.to_bits() };
        self.program.transform(key, || {
            let (map, steps) = map(level);
            let count = map.rotations().count().max(1);
            let babies = if steps.babies > 0 { steps.babies } else { (2.0 * (count as f64).sqrt()) as usize };
            let steps = Steps { babies: babies.next_power_of_two().min(count.next_power_of_two()), ..steps };
            let output = a.parameters().scale();
            let plan = LinearPlan::new(a.parameters(), map.into_diagonals(), level, scale, output)?;
            Ok(LinearTransform::deferred(plan.with_steps(steps)?))
        })
    }

    /// Linear maps between the halves of a bootstrap. The results of all places, one level lower if they lie side by
    /// side.
    pub fn linear_on_coefficients(&self, input: &[M::Vector], places: &[Place]) -> Result<Vec<M::Vector>, PassError> {
        let results = self.refresh_product(input, places)?;
        match LinearPlaces::new(self.program.config(), self.layout(), places).side_by_side {
            Some(period) => Ok(self.apart(&results, (places.len(), period))?),
            None => Ok(results),
        }
    }

    /// Takes `count` results apart that lie side by side in a vector, each in `period` dimensions, and repeats each
    /// through all slots. All parts of one result, then all parts of the next. One level.
    fn apart(&self, input: &[M::Vector], (count, period): (usize, usize)) -> Result<Vec<M::Vector>, CkksError> {
        let (a, layout) = (self.arithmetic(), self.layout());
        let own = layout.tokens * period;
        let repeat = InnerSum::new(own as i64, layout.slots / own)?;
        let results: Vec<(usize, &M::Vector)> =
            (0..count).flat_map(|result| input.iter().map(move |vector| (result, vector))).collect();
        self.each(&results, |_, &(result, vector)| {
            let level = a.level(vector);
            let scale = a.parameters().scale() * a.parameters().level_modulus(level) / a.scale(vector);
            let mask = (0..layout.slots).map(|slot| Complex64::from(if slot / own == result { 1.0 } else { 0.0 }));
            let mask = PreparedVector::new(mask.collect(), level, scale)?;
            repeat.apply(a, &a.rescale(&a.mul_prepared(vector, &mask)?)?)
        })
    }
}

pub(crate) fn none(operation: &'static str) -> CkksError {
    CkksError::Shape { operation, found: 0, needed: "at least one vector".into() }
}
