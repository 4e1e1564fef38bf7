//! The operations of the pass on vectors, at given levels.
//!
//! The vectors of a tensor are ordered by their dimensions or columns first, by part second.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;
use unspoken_ckks::{
    Arithmetic, CkksError, Complex64, InnerSum, LinearPlan, LinearTransform, Polynomial, PreparedVector,
    SlotPolynomials, Steps, evaluate_slots, evaluate_to_scale,
};
use unspoken_llama::{Place, Quantity};

use crate::error::PassError;
use crate::layout::{Blocks, Columns, Key, Layout};
use crate::linear::LinearPlaces;
use crate::machine::Machine;
use crate::program::{Program, TransformKey, TransformKind};
use crate::public::Public;
use crate::slot_map::SlotMap;
use crate::units::NormUnits;

/// What operations need.
pub(crate) struct Context<'a, M: Machine> {
    pub machine: &'a M,
    pub program: &'a Program,
    /// Keys and values of the prefix and the public tokens.
    pub public: Public<'a>,
    pub columns: Columns,
    /// The chunk of the pass.
    pub chunk: usize,
    /// The blocks of heads that tensors have.
    pub blocks: Blocks,
}

impl<M: Machine> Clone for Context<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Context<'_, M> {}

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
    M: Machine + Sync,
    M::Arithmetic: Sync,
{
    fn layout(&self) -> &Layout {
        &self.program.layout
    }

    fn arithmetic(&self) -> &M::Arithmetic {
        self.machine.arithmetic()
    }

    fn parts(&self) -> usize {
        self.layout().parts
    }

    /// Runs `work` on every item, at most one item on each thread at a time: this bounds the memory.
    fn each<T: Sync, R: Send>(
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
    fn sum_squares(&self, input: &[M::Vector], (stride, count): (usize, usize)) -> Result<Vec<M::Vector>, CkksError> {
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
    fn by_head(&self, block: usize, value: impl Fn(usize) -> f64) -> Vec<Complex64> {
        let layout = self.layout();
        let of_slot = |slot: usize| {
            let head = block * layout.block_heads + slot / layout.tokens;
            Complex64::from(if head < layout.heads { value(head) } else { 0.0 })
        };
        (0..layout.stride()).map(of_slot).collect()
    }

    /// A function at a place, of the vectors of a tensor from number `first` on.
    pub fn function(&self, place: Place, first: usize, input: &[M::Vector]) -> Result<Vec<M::Vector>, PassError> {
        let found = self.program.units.polynomials(place);
        let polynomials = found
            .ok_or_else(|| PassError::Session { found: place.to_string(), needed: "the place of a function".into() })?;
        let slots = |index: usize| match place.quantity {
            Quantity::Exponential => self.visible(first + index),
            Quantity::Silu => self.coordinates(first + index, polynomials.len()),
            _ => self.heads(first + index),
        };
        Ok(match (place.quantity, polynomials) {
            (Quantity::Exponential | Quantity::Silu | Quantity::SoftmaxFactor(_), _) => {
                self.slot_polynomials(input, polynomials, slots)?
            }
            (_, polynomials) => self.polynomial(input, &polynomials[0])?,
        })
    }

    /// One polynomial of all slots.
    fn polynomial(&self, input: &[M::Vector], polynomial: &Polynomial) -> Result<Vec<M::Vector>, CkksError> {
        let a = self.arithmetic();
        self.each(input, |_, vector| evaluate_to_scale(a, vector, polynomial, a.parameters().scale()))
    }

    /// Polynomials of slots; 0 where a slot has none.
    fn slot_polynomials(
        &self,
        input: &[M::Vector],
        polynomials: &[Polynomial],
        slots: impl Fn(usize) -> Vec<Option<usize>> + Sync,
    ) -> Result<Vec<M::Vector>, CkksError> {
        let a = self.arithmetic();
        let zero = Polynomial::chebyshev(&[], -1.0, 1.0)?;
        // One of the largest degree is always there, so that all vectors take the same levels.
        let largest = (0..polynomials.len()).max_by_key(|&index| polynomials[index].degree());
        self.each(input, |index, vector| {
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
            evaluate_slots(a, vector, &SlotPolynomials::new(&own, slots)?, a.parameters().scale())
        })
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
    fn visible(&self, index: usize) -> Vec<Option<usize>> {
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
    fn transform(
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

    /// RoPE, with a factor for each head. The first token of the chunk is at `position`. One level.
    pub fn rope(
        &self,
        input: &[M::Vector],
        position: usize,
        factor: impl Fn(usize) -> f64,
    ) -> Result<Vec<M::Vector>, CkksError> {
        let (layout, config) = (self.layout(), self.program.config());
        let a = self.arithmetic();
        let half = layout.width / 2;
        let mut results = Vec::with_capacity(input.len());
        for (index, vector) in input.iter().enumerate() {
            let (block, part) = (self.blocks.first + index / layout.parts, index % layout.parts);
            let turn = |slot: usize| -> Option<(f64, f64)> {
                let (token, head, column) = layout.place(slot);
                let head = block * layout.block_heads + head;
                let channel = column % layout.width;
                let frequency = *config.rope_frequencies.get(channel % half)?;
                if head >= layout.heads {
                    return None;
                }
                let angle = (position + part * layout.tokens + token) as f64 * frequency;
                let sign = if channel < half { -1.0 } else { 1.0 };
                Some((factor(head) * angle.cos(), factor(head) * sign * angle.sin()))
            };
            let slots = layout.stride() * layout.width;
            let values = |second: bool| -> Vec<Complex64> {
                let value = |slot: usize| turn(slot).map_or(0.0, |(cos, sin)| if second { sin } else { cos });
                (0..slots).map(|slot| Complex64::from(value(slot))).collect()
            };
            let level = a.level(vector);
            let scale = a.parameters().scale() * a.parameters().level_modulus(level) / a.scale(vector);
            let cos = PreparedVector::new(values(false), level, scale)?;
            let sin = PreparedVector::new(values(true), level, scale)?;
            let steps = [0, (half * layout.stride()) as i64];
            let rows = [vec![(0, &cos), (1, &sin)]];
            results.extend(a.rotation_products(vector, &steps, &rows)?);
        }
        Ok(results)
    }
}

fn none(operation: &'static str) -> CkksError {
    CkksError::Shape { operation, found: 0, needed: "at least one vector".into() }
}

impl<M> Context<'_, M>
where
    M: Machine + Sync,
    M::Arithmetic: Sync,
{
    /// Skews keys or values of the chunk: column `y` gets the token `t - y`. One level.
    pub fn skew(&self, input: &[M::Vector]) -> Result<Vec<M::Vector>, PassError> {
        let (layout, a) = (self.layout(), self.arithmetic());
        let first = input.first().ok_or_else(|| none("arrange keys and values"))?;
        let skew = self.transform((TransformKind::Skew, 0), first, |_| {
            let source = |slot: usize| {
                let (token, head, column) = layout.place(slot);
                layout.slot((token + layout.tokens - column % layout.tokens) % layout.tokens, head, column)
            };
            let map = SlotMap::gather(layout.slots, false, (0..layout.slots).map(|slot| (slot, source(slot))));
            let (difference, first) = (1, 1 - layout.tokens as i64);
            (map, Steps { difference, first, babies: 2 * layout.tokens })
        })?;
        Ok(self.each(input, |_, vector| a.linear(&skew, vector))?)
    }

    /// Vectors at a level, or at their own if that is lower.
    pub fn lowered(&self, vectors: &[M::Vector], level: usize) -> Result<Vec<M::Vector>, CkksError> {
        let a = self.arithmetic();
        self.each(
            vectors,
            |_, vector| if a.level(vector) > level { a.drop_to(vector, level) } else { Ok(vector.clone()) },
        )
    }

    /// Adds all rows of a chunk to the rows of each block of heads and vector of columns.
    pub fn add_rows(
        &self,
        sums: &mut [Vec<M::Vector>],
        skewed: &[M::Vector],
        (role, chunk): (Role, usize),
    ) -> Result<(), PassError> {
        for (index, skewed) in skewed.iter().enumerate() {
            let (block, part) = (index / self.parts(), index % self.parts());
            let [rows] = self.rows(skewed, (role, [Visible::All]), (chunk, part))?;
            self.plus_into(&mut sums[block * self.columns.vectors + self.vector_of(chunk, part)], rows)?;
        }
        Ok(())
    }

    /// For each turn `r` of the channels, the rows that belong to columns of a part of a chunk. For keys: column `y`
    /// has the key of that column, with channels turned by `r`. For values: column `y` has the value that belongs to
    /// the weight of column `y + r`. One level. The rows for each of `visible`, which share their rotations.
    pub fn rows<const COUNT: usize>(
        &self,
        skewed: &M::Vector,
        (role, visible): (Role, [Visible; COUNT]),
        (chunk, part): (usize, usize),
    ) -> Result<[Vec<M::Vector>; COUNT], PassError> {
        let layout = self.layout();
        let of_turns = |input: &M::Vector, turns: &[usize], whole: bool| {
            let map = |visible, turn| self.row_map((role, visible), (chunk, part), turn, whole);
            self.masked_rotations(input, turns.iter().flat_map(|&turn| visible.map(|v| map(v, turn))).collect())
        };
        let mut turns: Vec<usize> = (0..layout.width).collect();
        // Keys of wide heads turn their channels first: that takes fewer keys than both shifts at once.
        let rows = if role == Role::Keys && layout.width > WIDEST_AT_ONCE {
            let turned = self.turned(std::slice::from_ref(skewed))?.remove(0);
            self.each(&turned, |turn, turned| of_turns(turned, &[turn], false))?
        } else {
            // Turns that are equal modulo the tokens have the same rotations.
            turns.sort_by_key(|turn| turn % layout.tokens);
            let groups: Vec<&[usize]> = turns.chunks(TURNS_AT_ONCE).collect();
            self.each(&groups, |_, turns| of_turns(skewed, turns, true))?
        };
        let mut rows: Vec<(usize, M::Vector)> =
            rows.into_iter().flatten().enumerate().map(|(index, row)| (turns[index / COUNT], row)).collect();
        // Stable: the order of `visible` stays.
        rows.sort_by_key(|(turn, _)| *turn);
        let mut sorted = std::array::from_fn(|_| Vec::with_capacity(layout.width));
        rows.into_iter().enumerate().for_each(|(index, (_, row))| sorted[index % COUNT].push(row));
        Ok(sorted)
    }

    /// The map from skewed keys or values to the rows of a turn. `whole` says whether it turns the channels of keys,
    /// too.
    fn row_map(
        &self,
        (role, visible): (Role, Visible),
        (chunk, part): (usize, usize),
        turn: usize,
        whole: bool,
    ) -> SlotMap {
        let (layout, vector) = (self.layout(), self.vector_of(chunk, part));
        let (tokens, columns) = (layout.tokens, layout.columns());
        let of_column = move |column: usize| {
            let keyed = if role == Role::Keys { column } else { (column + turn) % columns };
            match self.columns.key(layout, vector, keyed) {
                Key::Private { chunk: of, part: of_part, offset } if (of, of_part) == (chunk, part) => {
                    let first = if visible == Visible::NotLater { offset } else { 0 };
                    Some((column, if whole { (column + turn) % columns } else { column }, first))
                }
                _ => None,
            }
        };
        // All heads have the same rotations.
        let counted = self.public.is_counted();
        let heads = if counted { 1 } else { layout.block_heads };
        let pairs = (0..columns).filter_map(of_column).flat_map(|(column, turned, first)| {
            let heads = (0..heads).flat_map(move |head| (first..tokens).map(move |token| (head, token)));
            heads.map(move |(head, token)| {
                let source = match role {
                    Role::Keys => layout.slot((token + turn) % tokens, head, turned),
                    Role::Values => layout.slot((token + turn * (tokens - 1)) % tokens, head, column),
                };
                (layout.slot(token, head, column), source)
            })
        });
        SlotMap::gather(layout.slots, counted, pairs)
    }

    /// Several maps of one vector, with the rotations of one decomposition. One level.
    fn masked_rotations(&self, input: &M::Vector, maps: Vec<SlotMap>) -> Result<Vec<M::Vector>, CkksError> {
        let a = self.arithmetic();
        let level = a.level(input);
        let scale = a.parameters().scale() * a.parameters().level_modulus(level) / a.scale(input);
        let mut steps: Vec<usize> = maps.iter().flat_map(SlotMap::rotations).collect();
        steps.sort_unstable();
        steps.dedup();
        if steps.is_empty() {
            steps.push(0);
        }
        let mut prepared = Vec::with_capacity(maps.len());
        for map in maps {
            let mut row = Vec::new();
            for (rotation, values) in map.into_diagonals() {
                let index = steps.binary_search(&rotation).unwrap_or_default();
                row.push((index, PreparedVector::new(values, level, scale)?));
            }
            // A map to zeros: no token sees a key.
            if row.is_empty() {
                row.push((0, PreparedVector::new(vec![Complex64::default()], level, scale)?));
            }
            prepared.push(row);
        }
        let rows: Vec<Vec<(usize, &PreparedVector)>> =
            prepared.iter().map(|row| row.iter().map(|(index, factor)| (*index, factor)).collect()).collect();
        let steps: Vec<i64> = steps.iter().map(|&step| step as i64).collect();
        a.rotation_products(input, &steps, &rows)
    }

    /// The vector of scores with the columns of a part of a chunk.
    pub fn vector_of(&self, chunk: usize, part: usize) -> usize {
        self.columns.vector_of(self.layout(), chunk, part)
    }

    /// Scores of all queries of the chunk, in their unit: for each block of heads, vector of columns and part. One
    /// level.
    pub fn scores(
        &self,
        queries: &[M::Vector],
        rows: &impl PrivateRows<M::Vector>,
        layer: usize,
    ) -> Result<Vec<M::Vector>, PassError> {
        let (layout, a, units) = (self.layout(), self.arithmetic(), &self.program.units.layers[layer]);
        let level = self.working_level(queries, rows);
        let mut results = Vec::new();
        for block in 0..self.blocks.count {
            let turned = self.turned(&queries[block * layout.parts..][..layout.parts])?;
            for vector in 0..self.columns.vectors {
                let private: Vec<_> = (0..layout.parts).map(|part| rows.get(block, vector, part)).collect();
                let public = |turn: usize| {
                    self.public_factors((self.blocks.first + block, vector), |key, head, column| {
                        let coordinate = layout.coordinate((column + turn) % layout.width)?;
                        Some(self.public.key((layer, head), key, coordinate) / units.key)
                    })
                };
                let public = self.prepared(public, (level, self.scale_of(&private)))?;
                for (part, (queries, private)) in turned.iter().zip(&private).enumerate() {
                    let score = self.attention((queries, private), &public, level)?;
                    let visible = self.visible((block * self.columns.vectors + vector) * layout.parts + part);
                    let offsets: Vec<Complex64> = visible
                        .into_iter()
                        .map(|head| Complex64::from(head.map_or(0.0, |head| -units.score[head].1)))
                        .collect();
                    results.push(a.add_values(&score, &offsets)?);
                }
            }
        }
        Ok(results)
    }

    /// Values weighted by scores, all heads side by side. One level.
    pub fn attend(
        &self,
        weights: &[M::Vector],
        rows: &impl PrivateRows<M::Vector>,
        layer: usize,
    ) -> Result<Vec<M::Vector>, PassError> {
        let (layout, a, units) = (self.layout(), self.arithmetic(), &self.program.units.layers[layer]);
        let lanes = InnerSum::new((layout.stride() * layout.width) as i64, layout.lanes)?;
        let level = self.working_level(weights, rows);
        let mut results = Vec::new();
        for block in 0..self.blocks.count {
            let mut sums: Vec<Option<M::Vector>> = vec![None; layout.parts];
            for vector in 0..self.columns.vectors {
                let first = (block * self.columns.vectors + vector) * layout.parts;
                let turned = self.turned(&weights[first..][..layout.parts])?;
                let private: Vec<_> = (0..layout.parts).map(|part| rows.get(block, vector, part)).collect();
                let public = |turn: usize| {
                    let at = |column: usize| (column + turn) % layout.columns();
                    self.public_columns((self.blocks.first + block, vector), at, |key, head, column| {
                        let coordinate = layout.coordinate(column % layout.width)?;
                        Some(self.public.value((layer, head), key, coordinate) / units.value)
                    })
                };
                let public = self.prepared(public, (level, self.scale_of(&private)))?;
                for (part, (weights, private)) in turned.iter().zip(&private).enumerate() {
                    let sum = self.attention((weights, private), &public, level)?;
                    sums[part] = Some(match sums[part].take() {
                        Some(before) => a.add(&before, &sum)?,
                        None => sum,
                    });
                }
            }
            for sum in sums.into_iter().flatten() {
                results.push(lanes.apply(a, &sum)?);
            }
        }
        Ok(results)
    }

    /// The level of products of vectors with rows.
    fn working_level(&self, vectors: &[M::Vector], rows: &impl PrivateRows<M::Vector>) -> usize {
        let a = self.arithmetic();
        vectors.iter().chain(rows.all()).map(|vector| a.level(vector)).min().unwrap_or(0)
    }

    /// All turns of the channels, or columns, of each vector. Wide heads turn in two steps, which takes fewer keys.
    fn turned(&self, vectors: &[M::Vector]) -> Result<Vec<Vec<M::Vector>>, CkksError> {
        let (layout, a) = (self.layout(), self.arithmetic());
        let steps = |count: usize, size: usize| -> Vec<i64> {
            (0..count).map(|turn| (turn * size * layout.stride()) as i64).collect()
        };
        self.each(vectors, |_, vector| {
            if layout.width <= WIDEST_AT_ONCE {
                return a.rotate_hoisted(vector, &steps(layout.width, 1));
            }
            let small = 1 << layout.width.ilog2().div_ceil(2);
            let large = a.rotate_hoisted(vector, &steps(layout.width / small, small))?;
            let small = steps(small, 1);
            let turned = self.each(&large, |_, vector| a.rotate_hoisted(vector, &small))?;
            Ok(turned.into_iter().flatten().collect())
        })
    }

    /// Factors for a vector of columns from the public tokens: `value(key, key head, column)`.
    fn public_factors(
        &self,
        place: (usize, usize),
        value: impl Fn(usize, usize, usize) -> Option<f64>,
    ) -> Option<Vec<Complex64>> {
        self.public_columns(place, |column| column, value)
    }

    /// As [`Context::public_factors`], where column `y` has the factor for the key of column `at(y)`.
    fn public_columns(
        &self,
        (block, vector): (usize, usize),
        at: impl Fn(usize) -> usize,
        value: impl Fn(usize, usize, usize) -> Option<f64>,
    ) -> Option<Vec<Complex64>> {
        let layout = self.layout();
        let group = self.program.config().group();
        let slots = if self.public.is_counted() { 0 } else { layout.slots };
        let mut factors = vec![Complex64::default(); slots];
        let mut any = false;
        for column in 0..layout.columns() {
            let Key::Public(key) = self.columns.key(layout, vector, at(column)) else { continue };
            for head in 0..layout.block_heads {
                let number = block * layout.block_heads + head;
                if number >= layout.heads {
                    continue;
                }
                let Some(factor) = value(key, number / group, column) else { continue };
                if self.public.is_counted() {
                    return Some(vec![Complex64::from(factor)]);
                }
                any = true;
                let first = layout.slot(0, head, column);
                factors[first..first + layout.tokens].fill(Complex64::from(factor));
            }
        }
        any.then_some(factors)
    }

    /// The scale of rows; the scale of the parameters, if there are no rows.
    fn scale_of(&self, rows: &[Vec<&M::Vector>]) -> f64 {
        let a = self.arithmetic();
        rows.iter().flatten().next().map_or(a.parameters().scale(), |row| a.scale(row))
    }

    /// Factors of each turn that has some, with its number. Products with all parts of a chunk share their encoding.
    fn prepared(
        &self,
        factors: impl Fn(usize) -> Option<Vec<Complex64>> + Sync + Send,
        (level, scale): (usize, f64),
    ) -> Result<Vec<(usize, PreparedVector)>, CkksError> {
        let turns = (0..self.layout().width).into_par_iter();
        turns
            .filter_map(|turn| Some((turn, factors(turn)?)))
            .map(|(turn, values)| Ok((turn, PreparedVector::new(values, level, scale)?)))
            .collect()
    }

    /// The sum over all turns of vectors times rows of the private cache and factors of the public one, one level down.
    fn attention(
        &self,
        (turned, private): (&[M::Vector], &[&M::Vector]),
        public: &[(usize, PreparedVector)],
        level: usize,
    ) -> Result<M::Vector, PassError> {
        let a = self.arithmetic();
        let mut sum: Option<M::Vector> = None;
        if !public.is_empty() {
            let products: Vec<_> = public.iter().map(|(turn, factor)| (&turned[*turn], factor)).collect();
            sum = Some(a.sum_products(&products)?);
        }
        if !private.is_empty() {
            let turned = turned.iter().map(|vector| a.lowered(vector, level)).collect::<Result<Vec<_>, _>>()?;
            let pairs: Vec<_> = turned.iter().map(AsRef::as_ref).zip(private.iter().copied()).collect();
            let products = a.sum_tensors(&pairs)?;
            sum = Some(match sum {
                Some(sum) => a.add(&sum, &products)?,
                None => products,
            });
        }
        Ok(match sum {
            Some(sum) if private.is_empty() => a.rescale(&sum)?,
            Some(sum) => a.relinearise_rescale(&sum)?,
            // A vector of columns without keys: zero.
            None => {
                let turned = a.lowered(&turned[0], level)?;
                let scale = a.parameters().scale();
                a.rescale(&a.mul_constant(&turned, Complex64::default(), a.scale(&turned) * scale)?)?
            }
        })
    }
}

/// Rows of private keys or values.
pub(crate) trait PrivateRows<V> {
    /// The rows of a block of heads and a vector of columns that queries of a part see, one for each turn; none if
    /// there are no such keys.
    fn get(&self, block: usize, vector: usize, part: usize) -> Vec<&V>;

    /// All rows.
    fn all<'a>(&'a self) -> impl Iterator<Item = &'a V>
    where
        V: 'a;
}

/// Turns whose rows are made with the rotations of one decomposition.
const TURNS_AT_ONCE: usize = 8;

/// Heads up to this width turn with one rotation for each turn.
const WIDEST_AT_ONCE: usize = 16;
