//! What is done to queries and keys between their linear maps and attention: biases, the norm of each head, RoPE.

use unspoken_ckks::{Arithmetic, CkksError, Complex64, PreparedVector};
use unspoken_llama::Place;

use crate::error::PassError;
use crate::evaluator::PassEvaluator;
use crate::linear::outputs_of;
use crate::ops::Context;
use crate::units::HeadNormUnits;

impl<M> Context<'_, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    /// Adds the bias of a linear map to its results, if it has one.
    pub fn plus_bias(&self, place: Place, results: Vec<M::Vector>) -> Result<Vec<M::Vector>, PassError> {
        let Some(bias) = self.program.bias(place) else { return Ok(results) };
        let (layout, parts) = (self.layout(), self.parts());
        let rows = outputs_of(self.program.config(), layout, place.quantity, 0);
        let values = |index: usize| -> Vec<Complex64> {
            let row = |dimension: usize| rows[index / parts][dimension].map_or(0.0, |row| bias[row]);
            (0..layout.slots).map(|slot| Complex64::from(row(slot / layout.tokens))).collect()
        };
        Ok(self.each(&results, |index, vector| self.arithmetic().add_values(vector, &values(index)))?)
    }

    /// `factor * sum of squares + offset` of each head of queries or keys: a vector for each part of each block of
    /// heads. Two levels.
    pub fn head_squares(&self, input: &[M::Vector], norm: &HeadNormUnits) -> Result<Vec<M::Vector>, CkksError> {
        let (a, layout) = (self.arithmetic(), self.layout());
        let shared = layout.heads / norm.offsets.len();
        let mut results = Vec::new();
        for (block, vectors) in input.chunks(layout.parts).enumerate() {
            let offsets = self.by_head(self.blocks.first + block, |head| norm.offsets[head / shared]);
            let sums = self.sum_squares(vectors, (layout.stride(), layout.width))?;
            results.extend(self.each(&sums, |_, sum| {
                let scale = a.parameters().scale() * a.parameters().level_modulus(a.level(sum));
                let scaled = a.rescale(&a.mul_constant(sum, Complex64::from(norm.factor), scale)?)?;
                a.add_values(&scaled, &offsets)
            })?);
        }
        Ok(results)
    }

    /// RoPE of a layer, with a factor for each head, after each coordinate is multiplied by its gain. The first token
    /// of the chunk is at `position`. One level.
    pub fn rope(
        &self,
        input: &[M::Vector],
        (layer, position): (usize, usize),
        (factor, gain): (impl Fn(usize) -> f64, impl Fn(usize) -> f64),
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
                let pair = channel % half;
                let frequency = config.frequency(layer, pair)?;
                if head >= layout.heads {
                    return None;
                }
                let angle = (position + part * layout.tokens + token) as f64 * frequency;
                let (sign, own, other) =
                    if channel < half { (-1.0, 2 * pair, 2 * pair + 1) } else { (1.0, 2 * pair + 1, 2 * pair) };
                Some((factor(head) * gain(own) * angle.cos(), factor(head) * gain(other) * sign * angle.sin()))
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
