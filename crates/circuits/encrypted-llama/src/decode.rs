//! Decrypted values of a tensor in the units of the model.

use ndarray::Array3;
use unspoken_ckks::Complex64;
use unspoken_llama::{Place, Quantity};

use crate::layout::{Columns, Key};
use crate::linear::width_of;
use crate::program::PassProgram;

impl PassProgram {
    /// The values of a place from the slots of its vectors: `groups x tokens x width` as in `unspoken-llama`, with
    /// zeros for scores that are masked. `public` and `chunk` are the public tokens and the chunk of the pass, `chunks`
    /// those for which the session has room. `None` for arguments of inverse square roots.
    pub fn decode(
        &self,
        place: Place,
        slots: &[&[Complex64]],
        (public, chunk, chunks): (usize, usize, usize),
    ) -> Option<Array3<f64>> {
        let (layout, config) = (&self.layout, self.config());
        let columns = Columns::new(layout, public, chunks);
        let layer = self.units.layers.get(place.layer);
        let split = |token: usize| (token % layout.tokens, token / layout.tokens);
        let of_heads = |heads: usize, unit: &dyn Fn(usize) -> f64| {
            // A shared head lies at the first query head of its group.
            let group = layout.heads / heads;
            Array3::from_shape_fn((1, layout.chunk(), heads * config.head_width), |(_, token, index)| {
                let (head, coordinate) = (index / config.head_width * group, index % config.head_width);
                let channel = coordinate / 2 + coordinate % 2 * layout.width / 2;
                let ((token, part), block) = (split(token), head / layout.block_heads);
                let slot = layout.slot(token, head % layout.block_heads, channel);
                slots[block * layout.parts + part][slot].re * unit(head)
            })
        };
        let of_scores = |value: &dyn Fn(usize, f64) -> f64| {
            let width = public + (chunk + 1) * layout.chunk();
            let mut scores = Array3::zeros((layout.heads, layout.chunk(), width));
            for head in 0..layout.heads {
                for (token, vector, column) in triples(layout.chunk(), columns.vectors, layout.columns()) {
                    let (within, part) = split(token);
                    let key = match columns.key(layout, vector, column) {
                        Key::Public(key) => key,
                        Key::Private { chunk: of, part, offset } if of <= chunk => {
                            let within = (within + layout.tokens - offset) % layout.tokens;
                            public + of * layout.chunk() + part * layout.tokens + within
                        }
                        _ => continue,
                    };
                    if key > public + chunk * layout.chunk() + token {
                        continue;
                    }
                    let (block, slot) =
                        (head / layout.block_heads, layout.slot(within, head % layout.block_heads, column));
                    let found = slots[(block * columns.vectors + vector) * layout.parts + part][slot].re;
                    scores[(head, token, key)] = value(head, found);
                }
            }
            scores
        };
        let of_factors = |unit: &dyn Fn(usize) -> f64, groups: usize| {
            Array3::from_shape_fn((groups, layout.chunk(), 1), |(head, token, _)| {
                let ((token, part), block) = (split(token), head / layout.block_heads);
                let slot = layout.slot(token, head % layout.block_heads, 0);
                slots[block * layout.parts + part][slot].re * unit(head)
            })
        };
        let activations = |unit: &dyn Fn(usize) -> f64| {
            let width = width_of(config, place.quantity);
            Array3::from_shape_fn((1, layout.chunk(), width), |(_, token, index)| {
                let ((token, part), dimensions) = (split(token), layout.dimensions());
                let slot = token + layout.tokens * (index % dimensions);
                slots[index / dimensions * layout.parts + part][slot].re * unit(index)
            })
        };
        let root = (config.head_width as f64).sqrt();
        let residual = self.units.residual;
        let factor = |norm: &crate::units::NormUnits| of_factors(&|_| norm.output / residual, 1);
        Some(match place.quantity {
            Quantity::Residual | Quantity::MiddleResidual | Quantity::AttentionOutput | Quantity::FfnOutput => {
                activations(&|_| residual)
            }
            Quantity::LastNormFactor => factor(&self.units.last_norm),
            Quantity::LastNorm => activations(&|_| self.units.last_norm.output),
            Quantity::Logits => activations(&|_| self.units.logits),
            Quantity::AttentionNormFactor => factor(&layer?.attention_norm),
            Quantity::AttentionNorm => activations(&|_| layer.map_or(0.0, |l| l.attention_norm.output)),
            Quantity::FfnNormFactor => factor(&layer?.ffn_norm),
            Quantity::FfnNorm => activations(&|_| layer.map_or(0.0, |l| l.ffn_norm.output)),
            quantity => {
                let layer = layer?;
                match quantity {
                    Quantity::Query => of_heads(config.heads, &|_| layer.query),
                    Quantity::RotatedQuery => of_heads(config.heads, &|head| root * layer.score[head].0 / layer.key),
                    Quantity::Key | Quantity::RotatedKey => of_heads(config.kv_heads, &|_| layer.key),
                    Quantity::Value => of_heads(config.kv_heads, &|_| layer.value),
                    Quantity::Attention => of_heads(config.heads, &|_| layer.value),
                    Quantity::Score => of_scores(&|head, found| layer.score[head].0 * (found + layer.score[head].1)),
                    Quantity::Exponential => of_scores(&|head, found| found / layer.weights[0][head]),
                    Quantity::SoftmaxFactor(round) => {
                        let weights = &layer.weights;
                        let (own, next) = (&weights[usize::from(round)], &weights[usize::from(round) + 1]);
                        of_factors(&|head| own[head] / next[head].sqrt(), layout.heads)
                    }
                    Quantity::SoftmaxScaled(round) => {
                        of_scores(&|head, found| found / layer.weights[usize::from(round) + 1][head].sqrt())
                    }
                    Quantity::SoftmaxWeight(round) => {
                        of_scores(&|head, found| found / layer.weights[usize::from(round) + 1][head])
                    }
                    Quantity::Gate => activations(&|index| layer.gate[index]),
                    Quantity::Up => activations(&|index| layer.up[index]),
                    Quantity::Silu => activations(&|index| layer.hidden[index] / layer.up[index]),
                    Quantity::Hidden => activations(&|index| layer.hidden[index]),
                    _ => return None,
                }
            }
        })
    }
}

/// All triples of numbers below these bounds.
fn triples(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |a| (0..b).flat_map(move |b| (0..c).map(move |c| (a, b, c))))
}
