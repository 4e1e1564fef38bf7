//! The products with the public cache as linear transformations by diagonals.

use std::collections::BTreeMap;

use unspoken_ckks::{Arithmetic, Ciphertext, Complex64, Evaluator, LinearPlan, LinearTransform, Steps};
use unspoken_encrypted_llama::{Columns, Key};

use super::ours::Outputs;
use super::setting::Setting;

/// Linear transformations of queries, and of weights: for each block of heads and vector of public keys.
pub(super) struct Diagonals {
    pub(super) scores: Vec<Vec<LinearPlan>>,
    pub(super) sums: Vec<Vec<LinearPlan>>,
}

impl Setting {
    /// The public cache as linear transformations of queries and of weights.
    pub(super) fn diagonals(&self) -> anyhow::Result<Diagonals> {
        let (layout, public) = (self.layout(), &self.caches[1]);
        let columns = Columns::new(layout, public.len(), 1);
        let (level, scale) = (self.output_level() + 1, self.parameters().scale());
        let group = layout.heads / self.case.model[2];
        let babies = (2.0 * (layout.width as f64).sqrt()) as usize;
        let steps =
            Steps { difference: layout.stride(), first: 0, babies: babies.next_power_of_two().min(layout.width) };
        let transform = |block: usize, vector: usize, keys: bool| -> anyhow::Result<LinearPlan> {
            let diagonal = |turn: usize| -> Vec<Complex64> {
                let value = |slot: usize| {
                    let (_, head, column) = layout.place(slot);
                    let (turned, head) = ((column + turn) % layout.columns(), block * layout.block_heads + head);
                    let (key, channel) = if keys { (column, turned) } else { (turned, column) };
                    let coordinate = layout.coordinate(channel % layout.width)?;
                    let Key::Public(key) = columns.key(layout, vector, key) else { return None };
                    let head = (head < layout.heads).then_some(head / group)?;
                    let cached = if keys { public.keys(0, head) } else { public.values(0, head) };
                    Some(f64::from(cached[(key, coordinate)]))
                };
                (0..layout.slots).map(|slot| Complex64::from(value(slot).unwrap_or(0.0))).collect()
            };
            let diagonals: BTreeMap<usize, Vec<Complex64>> =
                (0..layout.width).map(|turn| (turn * layout.stride(), diagonal(turn))).collect();
            Ok(LinearPlan::new(self.parameters(), diagonals, level, scale, scale)?.with_steps(steps)?)
        };
        let vectors = public.len().div_ceil(layout.columns());
        let all = |keys: bool| -> anyhow::Result<Vec<Vec<LinearPlan>>> {
            (0..layout.blocks)
                .map(|block| (0..vectors).map(|vector| transform(block, vector, keys)).collect())
                .collect()
        };
        Ok(Diagonals { scores: all(true)?, sums: all(false)? })
    }

    /// Scores of public keys, and sums of public values, by linear transformations: both parts of a block share one.
    pub(super) fn by_diagonals(
        &self,
        evaluator: &Evaluator<'_>,
        transforms: &[Vec<Vec<LinearTransform>>; 2],
        (queries, weights): (&[Ciphertext], &[Ciphertext]),
    ) -> anyhow::Result<Outputs<Ciphertext>> {
        let (layout, level) = (self.layout(), self.output_level() + 1);
        let (parts, columns) = (layout.parts, Columns::new(layout, self.case.public, 1));
        let (mut scores, mut sums) = (Vec::new(), Vec::new());
        for block in 0..layout.blocks {
            for transform in &transforms[0][block] {
                for query in &queries[block * parts..][..parts] {
                    scores.push(evaluator.linear(transform, &*evaluator.lowered(query, level)?)?);
                }
            }
            for part in 0..parts {
                let mut sum: Option<Ciphertext> = None;
                for (vector, transform) in transforms[1][block].iter().enumerate() {
                    let weights = &weights[(block * columns.vectors + vector) * parts + part];
                    let own = evaluator.linear(transform, &*evaluator.lowered(weights, level)?)?;
                    sum = Some(match sum {
                        Some(before) => evaluator.add(&before, &own)?,
                        None => own,
                    });
                }
                sums.extend(sum);
            }
        }
        Ok(Outputs { scores, sums })
    }
}
