//! Decrypted values of a tensor in the units of the model.

use ndarray::Array3;
use unspoken_ckks::Complex64;
use unspoken_llama::{Place, Quantity};

use crate::layout::{Columns, Key, Layout};
use crate::linear::width_of;
use crate::program::PassProgram;
use crate::units::{HeadNormUnits, LayerUnits, NormUnits};

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
        let layout = &self.layout;
        let tensor = Tensor { layout, slots, columns: Columns::new(layout, public, chunks), chunk };
        let width = width_of(self.config(), place.quantity);
        let layer = self.units.layers.get(place.layer);
        let residual = self.units.residual;
        let factor = |norm: &NormUnits| tensor.factors(1, |_| norm.output / residual);
        Some(match place.quantity {
            Quantity::Residual | Quantity::MiddleResidual | Quantity::AttentionOutput | Quantity::FfnOutput => {
                tensor.activations(width, |_| residual)
            }
            Quantity::LastNormFactor => factor(&self.units.last_norm),
            Quantity::LastNorm => tensor.activations(width, |_| self.units.last_norm.output),
            Quantity::Logits => tensor.activations(width, |_| self.units.logits),
            Quantity::AttentionNormFactor => factor(&layer?.attention_norm),
            Quantity::AttentionNorm => tensor.activations(width, |_| layer.map_or(0.0, |l| l.attention_norm.output)),
            Quantity::FfnNormFactor => factor(&layer?.ffn_norm),
            Quantity::FfnNorm => tensor.activations(width, |_| layer.map_or(0.0, |l| l.ffn_norm.output)),
            quantity => return self.decode_in_layer(quantity, layer?, &tensor),
        })
    }

    /// The values of a quantity inside attention, or inside the feed-forward network.
    fn decode_in_layer(&self, quantity: Quantity, layer: &LayerUnits, tensor: &Tensor<'_>) -> Option<Array3<f64>> {
        let config = self.config();
        let (all, shared, head_width) = (config.heads, config.kv_heads, config.head_width);
        let width = width_of(config, quantity);
        let root = (head_width as f64).sqrt();
        let head_factor = |norm: &HeadNormUnits| {
            let heads = norm.input.len();
            tensor.factors(heads, |head| norm.output / norm.input[head * heads / all])
        };
        Some(match quantity {
            Quantity::Query => tensor.heads(all, head_width, |head| layer.of_queries(head)),
            Quantity::QueryNorm => {
                tensor.heads(all, head_width, |_| layer.head_norms.as_ref().map_or(0.0, |n| n[0].output))
            }
            Quantity::KeyNorm => {
                tensor.heads(shared, head_width, |_| layer.head_norms.as_ref().map_or(0.0, |n| n[1].output))
            }
            Quantity::QueryNormFactor => head_factor(&layer.head_norms.as_ref()?[0]),
            Quantity::KeyNormFactor => head_factor(&layer.head_norms.as_ref()?[1]),
            Quantity::Key => tensor.heads(shared, head_width, |head| layer.of_keys(head * shared / all)),
            Quantity::RotatedQuery => tensor.heads(all, head_width, |head| root * layer.score[head].0 / layer.key),
            Quantity::RotatedKey => tensor.heads(shared, head_width, |_| layer.key),
            Quantity::Value => tensor.heads(shared, head_width, |_| layer.value),
            Quantity::Attention => tensor.heads(all, head_width, |_| layer.value),
            Quantity::Score => tensor.scores(|head, found| layer.score[head].0 * (found + layer.score[head].1)),
            Quantity::Exponential => tensor.scores(|head, found| found / layer.weights[0][head]),
            Quantity::SoftmaxFactor(round) => {
                let weights = &layer.weights;
                let (own, next) = (&weights[usize::from(round)], &weights[usize::from(round) + 1]);
                tensor.factors(tensor.layout.heads, |head| own[head] / next[head].sqrt())
            }
            Quantity::SoftmaxScaled(round) => {
                tensor.scores(|head, found| found / layer.weights[usize::from(round) + 1][head].sqrt())
            }
            Quantity::SoftmaxWeight(round) => {
                tensor.scores(|head, found| found / layer.weights[usize::from(round) + 1][head])
            }
            Quantity::Gate => tensor.activations(width, |index| layer.gate[index]),
            Quantity::Up => tensor.activations(width, |index| layer.up[index]),
            Quantity::Silu => tensor.activations(width, |index| layer.hidden[index] / layer.up[index]),
            Quantity::Hidden => tensor.activations(width, |index| layer.hidden[index]),
            _ => return None,
        })
    }
}

/// The slots of a tensor's vectors in a pass. Units are of heads or of dimensions.
struct Tensor<'a> {
    layout: &'a Layout,
    slots: &'a [&'a [Complex64]],
    columns: Columns,
    chunk: usize,
}

impl Tensor<'_> {
    /// The place of a token of the chunk in its part, and the part.
    fn split(&self, token: usize) -> (usize, usize) {
        (token % self.layout.tokens, token / self.layout.tokens)
    }

    /// Values of heads, of which there may be fewer than query heads.
    fn heads(&self, heads: usize, head_width: usize, unit: impl Fn(usize) -> f64) -> Array3<f64> {
        let layout = self.layout;
        // A shared head lies at the first query head of its group.
        let group = layout.heads / heads;
        Array3::from_shape_fn((1, layout.chunk(), heads * head_width), |(_, token, index)| {
            let (head, coordinate) = (index / head_width * group, index % head_width);
            let channel = coordinate / 2 + coordinate % 2 * layout.width / 2;
            let ((token, part), block) = (self.split(token), head / layout.block_heads);
            let slot = layout.slot(token, head % layout.block_heads, channel);
            self.slots[block * layout.parts + part][slot].re * unit(head)
        })
    }

    /// Values of pairs of a query and a key that is not later; `value` takes what its slot has.
    fn scores(&self, value: impl Fn(usize, f64) -> f64) -> Array3<f64> {
        let (layout, vectors) = (self.layout, self.columns.vectors);
        let earlier = self.columns.public + self.chunk * layout.chunk();
        let mut scores = Array3::zeros((layout.heads, layout.chunk(), earlier + layout.chunk()));
        for head in 0..layout.heads {
            for (token, vector, column) in triples(layout.chunk(), vectors, layout.columns()) {
                let (within, part) = self.split(token);
                let Some(key) = self.key(within, vector, column).filter(|key| *key <= earlier + token) else {
                    continue;
                };
                let (block, slot) = (head / layout.block_heads, layout.slot(within, head % layout.block_heads, column));
                let found = self.slots[(block * vectors + vector) * layout.parts + part][slot].re;
                scores[(head, token, key)] = value(head, found);
            }
        }
        scores
    }

    /// The number of the key of a column, for the query at this place in its part; public keys come first.
    fn key(&self, within: usize, vector: usize, column: usize) -> Option<usize> {
        let layout = self.layout;
        match self.columns.key(layout, vector, column) {
            Key::Public(key) => Some(key),
            Key::Private { chunk, part, offset } if chunk <= self.chunk => {
                let within = (within + layout.tokens - offset) % layout.tokens;
                Some(self.columns.public + chunk * layout.chunk() + part * layout.tokens + within)
            }
            _ => None,
        }
    }

    /// Factors of tokens, one for each group: heads of queries or of keys, or a single one. `unit` gets a head of
    /// queries.
    fn factors(&self, groups: usize, unit: impl Fn(usize) -> f64) -> Array3<f64> {
        let layout = self.layout;
        Array3::from_shape_fn((groups, layout.chunk(), 1), |(group, token, _)| {
            let head = group * layout.heads / groups;
            let ((token, part), block) = (self.split(token), head / layout.block_heads);
            let slot = layout.slot(token, head % layout.block_heads, 0);
            self.slots[block * layout.parts + part][slot].re * unit(head)
        })
    }

    /// Activations of this width.
    fn activations(&self, width: usize, unit: impl Fn(usize) -> f64) -> Array3<f64> {
        let layout = self.layout;
        Array3::from_shape_fn((1, layout.chunk(), width), |(_, token, index)| {
            let ((token, part), dimensions) = (self.split(token), layout.dimensions());
            let slot = token + layout.tokens * (index % dimensions);
            self.slots[index / dimensions * layout.parts + part][slot].re * unit(index)
        })
    }
}

/// All triples of numbers below these bounds.
fn triples(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |a| (0..b).flat_map(move |b| (0..c).map(move |c| (a, b, c))))
}
