//! The operations of attention: rows of keys and values, scores, and sums of values.

use rayon::prelude::*;
use unspoken_ckks::{Arithmetic, CkksError, Complex64, InnerSum, PreparedVector, Steps};

use crate::error::PassError;
use crate::evaluator::PassEvaluator;
use crate::layout::Key;
use crate::ops::{Context, Role, Visible, none};
use crate::program::TransformKind;
use crate::slot_map::SlotMap;

impl<M> Context<'_, M>
where
    M: PassEvaluator + Sync,
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
