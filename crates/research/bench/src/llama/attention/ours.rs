//! Our products of attention: what a pass does, with all heads in one vector.

use ndarray::Array3;
use unspoken_ckks::{Complex64, Simulator};
use unspoken_encrypted_llama::{Columns, Key, PassArithmetic, PassEvaluator, SimulatedEvaluator};
use unspoken_llama::{Place, Quantity, TensorArithmetic};
use unspoken_llama_model::KvCache;

use super::setting::{Counted, Heads, Setting, TOLERANCE, within};
use crate::error::{larger_error, wrong};

/// Queries, keys, values and weights of a chunk, encrypted in the layout of passes.
pub(super) struct Inputs<V> {
    pub(super) queries: Vec<V>,
    pub(super) keys: Vec<V>,
    pub(super) values: Vec<V>,
    /// Weights of the private tokens, and of public and private ones.
    pub(super) weights: Vec<V>,
}

/// What a run of ours gives.
pub(super) struct Outputs<V> {
    pub(super) scores: Vec<V>,
    pub(super) sums: Vec<V>,
}

impl Setting {
    /// Vectors of heads, for each block and part.
    pub(super) fn heads(&self, values: &Heads) -> Vec<Vec<Complex64>> {
        let (layout, group) = (self.layout(), self.layout().heads / values.dim().0);
        let value = |block: usize, part: usize, slot: usize| {
            let (token, head, column) = layout.place(slot);
            let head = block * layout.block_heads + head;
            let coordinate = layout.coordinate(column % layout.width).filter(|_| head < layout.heads);
            coordinate.map_or(0.0, |coordinate| values[(head / group, part * layout.tokens + token, coordinate)])
        };
        let vectors = (0..layout.blocks).flat_map(|block| (0..layout.parts).map(move |part| (block, part)));
        let slots = |(block, part)| (0..layout.slots).map(|slot| value(block, part, slot).into()).collect();
        vectors.map(slots).collect()
    }

    /// Vectors of weights, for each block of heads, vector of columns and part, after this many public tokens.
    pub(super) fn weights(&self, public: usize) -> Vec<Vec<Complex64>> {
        let (layout, columns) = (self.layout(), Columns::new(self.layout(), public, 1));
        let value = |block: usize, vector: usize, part: usize, slot: usize| {
            let (token, head, column) = layout.place(slot);
            let head = block * layout.block_heads + head;
            let key = match columns.key(layout, vector, column) {
                Key::Public(key) => key,
                Key::Private { part: of, offset, .. } => {
                    let within = (token + layout.tokens - offset) % layout.tokens;
                    self.case.public + of * layout.tokens + within
                }
                Key::Empty => return 0.0,
            };
            let token = part * layout.tokens + token;
            if head < layout.heads { self.values.weights[(head, token, key)] } else { 0.0 }
        };
        let mut all = Vec::new();
        for block in 0..layout.blocks {
            for vector in 0..columns.vectors {
                for part in 0..layout.parts {
                    let slots = (0..layout.slots).map(|slot| value(block, vector, part, slot).into());
                    all.push(slots.collect());
                }
            }
        }
        all
    }

    pub(super) fn inputs<V, E>(
        &self,
        public: usize,
        mut encrypt: impl FnMut(&[Vec<Complex64>]) -> Result<Vec<V>, E>,
    ) -> Result<Inputs<V>, E> {
        Ok(Inputs {
            queries: encrypt(&self.heads(&self.values.queries))?,
            keys: encrypt(&self.heads(&self.values.keys))?,
            values: encrypt(&self.heads(&self.values.values))?,
            weights: encrypt(&self.weights(public))?,
        })
    }

    /// Arranges keys and values of the chunk, and multiplies queries by keys and weights by values, all heads at once.
    pub(super) fn ours<M>(
        &self,
        pass_evaluator: &M,
        public: &KvCache,
        inputs: &Inputs<M::Vector>,
    ) -> anyhow::Result<Outputs<M::Vector>>
    where
        M: PassEvaluator + Sync,
        M::Arithmetic: Sync,
    {
        let mut session = self.program.session();
        let mut pass = PassArithmetic::new(pass_evaluator, &self.program, public, &mut session, (true, 1))?;
        let mut tensor = |vectors: &[M::Vector]| pass.input(vectors.to_vec());
        let [queries, keys, values, weights] =
            [&inputs.queries, &inputs.keys, &inputs.values, &inputs.weights].map(|vectors| tensor(vectors));
        let mut cache = 0;
        pass.append(&mut cache, keys, values)?;
        let scores = pass.scores(&queries, &cache, Place::new(0, Quantity::Score))?.into_vectors();
        let sums = pass.attend(&weights, &cache, Place::new(0, Quantity::Attention))?.into_vectors();
        Ok(Outputs { scores, sums })
    }

    pub(super) fn count_ours(&self, public: &KvCache) -> anyhow::Result<Counted> {
        let (simulator, scale) = (Simulator::counting(&self.encoder), self.parameters().scale());
        let pass_evaluator = SimulatedEvaluator::new(&simulator, self.program.bootstrap());
        let inputs = self.inputs(public.len(), |vectors| -> anyhow::Result<_> {
            Ok(vectors.iter().map(|_| simulator.encrypt(&[], self.level(), scale)).collect::<Result<_, _>>()?)
        })?;
        self.ours(&pass_evaluator, public, &inputs)?;
        let key_switches = simulator.cost().total_key_switches();
        Ok(Counted { keys: simulator.key_plan(), key_switches, levels: 3 })
    }

    /// Checks decrypted results against products in the clear.
    pub(super) fn check_ours(&self, public: &KvCache, found: &Outputs<Vec<Complex64>>) -> anyhow::Result<()> {
        let decode = |quantity: Quantity, slots: &[Vec<Complex64>]| {
            let slots: Vec<&[Complex64]> = slots.iter().map(Vec::as_slice).collect();
            let none = wrong(quantity, f64::NAN, TOLERANCE);
            self.program.decode(Place::new(0, quantity), &slots, (public.len(), 0, 1)).ok_or(none)
        };
        let last = Quantity::SoftmaxWeight(self.program.circuit().rounds() - 1);
        let queries = decode(Quantity::RotatedQuery, &self.heads(&self.values.queries))?;
        let keys = decode(Quantity::RotatedKey, &self.heads(&self.values.keys))?;
        let values = decode(Quantity::Value, &self.heads(&self.values.values))?;
        let weights = decode(last, &self.weights(public.len()))?;
        let scores = decode(Quantity::Score, &found.scores)?;
        let sums = decode(Quantity::Attention, &found.sums)?;
        let (layout, width) = (self.layout(), self.layout().head_width);
        let group = layout.heads / self.case.model[2];
        let (chunk, all) = (layout.chunk(), public.len() + layout.chunk());
        let of =
            |tensor: &Array3<f64>, cached: ndarray::ArrayView2<'_, f32>, head: usize, key: usize, c: usize| match key
                .checked_sub(public.len())
            {
                Some(token) => tensor[(0, token, head * width + c)],
                None => f64::from(cached[(key, c)]),
            };
        let (mut worst, mut most) = ([0.0; 2], [0.0f64; 2]);
        for head in 0..layout.heads {
            let (cached, shared) = ((public.keys(0, head / group), public.values(0, head / group)), head / group);
            for token in 0..chunk {
                for key in 0..=public.len() + token {
                    let products =
                        (0..width).map(|c| queries[(0, token, head * width + c)] * of(&keys, cached.0, shared, key, c));
                    let exact = products.sum::<f64>() / (width as f64).sqrt();
                    worst[0] = larger_error(worst[0], (scores[(head, token, key)] - exact).abs());
                    most[0] = most[0].max(exact.abs());
                }
                for c in 0..width {
                    let products =
                        (0..all).map(|key| weights[(head, token, key)] * of(&values, cached.1, shared, key, c));
                    let exact: f64 = products.sum();
                    worst[1] = larger_error(worst[1], (sums[(0, token, head * width + c)] - exact).abs());
                    most[1] = most[1].max(exact.abs());
                }
            }
        }
        for (what, (worst, most)) in ["scores", "weighted values"].iter().zip(worst.iter().zip(most)) {
            within(&format!("{what} after {} public tokens", public.len()), worst / most)?;
        }
        Ok(())
    }
}
