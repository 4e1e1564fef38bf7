//! Products of attention: queries with keys and weights with values, of a chunk with itself and with a public cache,
//! beside general products of matrices and beside linear transformations by diagonals.

use std::collections::BTreeMap;

use ndarray::{Array2, Array3};
use unspoken_ckks::{
    Arithmetic, Bootstrap, Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, LinearPlan, LinearTransform,
    Preset, Simulator, Steps,
};
use unspoken_encrypted_llama::{
    Columns, Key, Layout, Machine, PassArithmetic, PassProgram, SimulatedMachine, WEIGHT_BITS,
};
use unspoken_encrypted_matrix::{Budget, EncryptedMatrix, Graph, Layout as Tiles, Operation, plan};
use unspoken_llama::{Place, Quantity, TensorArithmetic};
use unspoken_llama_model::KvCache;
use unspoken_rlwe::KeyPlan;

use super::client::PassClient;
use super::random::{Draws, RandomModel, config};
use crate::clock::{Repetitions, TimedOperation, alternate};
use crate::error::{larger_error, wrong};
use crate::harness::Harness;
use crate::matrix::{CountedMetric, plain};
use crate::row::{Metric, params};

const TIME: Metric = Metric::less("attention_time", "s");
const LEVELS: Metric = Metric::less("attention_levels", "levels");
const KEYS: Metric = Metric::less("attention_keys", "keys");
const KEY_SWITCHES: Metric = Metric::less("attention_key_switches", "switches");

const BATCHED: &str = "products of matrices, heads in a batch";
const BY_HEAD: &str = "products of matrices, a head per ciphertext";
const DIAGONALS: &str = "linear transformations by diagonals, encoded when used";
const KEPT: &str = "linear transformations by diagonals, encoded before";

/// Largest allowed error of a score or sum, relative to the largest one.
const TOLERANCE: f64 = 1e-2;

/// Largest number of rotation keys of a product of two matrices.
const MAX_KEYS: usize = 200;

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    preset: &'static str,
    small_degree: usize,
    /// Width of activations, query heads, key heads, and width of a head.
    model: [usize; 4],
    /// Tokens of the private chunk.
    chunk: usize,
    /// Tokens of the public cache.
    public: usize,
}

/// Heads that fill a ciphertext, each with one token for each channel: products of matrices waste no slots.
pub(super) const FULL: Case =
    Case { preset: "n16_boot_depth14_scale40", small_degree: 4096, model: [1024, 32, 32, 32], chunk: 32, public: 128 };

pub(super) const QUICK: Case = Case {
    preset: "insecure_n11_boot_depth14_scale40",
    small_degree: 512,
    model: [128, 8, 4, 16],
    chunk: 16,
    public: 32,
};

/// The values of one product: heads x tokens x width.
type Heads = Array3<f64>;

/// Queries, keys, values and weights of a chunk, encrypted in the layout of passes.
struct Inputs<V> {
    queries: Vec<V>,
    keys: Vec<V>,
    values: Vec<V>,
    /// Weights of the private tokens, and of public and private ones.
    weights: Vec<V>,
}

/// What a run of ours gives.
struct Outputs<V> {
    scores: Vec<V>,
    sums: Vec<V>,
}

pub(super) fn run(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    let parameters = Preset::find(case.preset)?.build()?;
    let encoder = Encoder::new(&parameters);
    let [width, heads, kv_heads, head_width] = case.model;
    // The products with one matrix for all heads, at the parameters of passes.
    plain::run(harness, &encoder, head_width, parameters.circuit_level())?;
    harness.progress("attention: model and polynomials");
    let context = case.public + case.chunk;
    let config = config([width, heads, kv_heads, head_width, width], context, context);
    let random = RandomModel::new(config, (case.public, case.chunk), case.chunk)?;
    let plan = Bootstrap::for_products(&parameters, WEIGHT_BITS)?;
    let sizes = (case.chunk, case.small_degree);
    let program = PassProgram::new(&random.circuit, random.model.clone(), &random.design, plan, sizes)?;
    let caches = [random.model.prefix_cache(&[])?, random.model.prefix_cache(&random.text.public)?];
    let setting = Setting { encoder, program, caches, values: Values::new(case), case: *case };
    setting.compare(harness)
}

/// Queries, keys and values of a chunk, divided by their units, and weights of all keys.
struct Values {
    queries: Heads,
    keys: Heads,
    values: Heads,
    /// Public tokens first; 0 for later ones than the query.
    weights: Heads,
}

impl Values {
    fn new(case: &Case) -> Self {
        let [_, heads, kv_heads, head_width] = case.model;
        let mut draws = Draws::new(5);
        let mut draw = |heads: usize, width: usize| {
            Array3::from_shape_simple_fn((heads, case.chunk, width), || draws.draw() / 2.0)
        };
        let [queries, keys, values] = [heads, kv_heads, kv_heads].map(|heads| draw(heads, head_width));
        let mut weights = draw(heads, case.public + case.chunk);
        for ((_, token, key), weight) in weights.indexed_iter_mut() {
            *weight = if key <= case.public + token { weight.abs() } else { 0.0 };
        }
        Values { queries, keys, values, weights }
    }

    /// The matrices of each query head, from the matrices of all heads or of all key heads.
    fn matrices(heads: &Heads, count: usize) -> Vec<Array2<f64>> {
        let group = count / heads.dim().0;
        (0..count).map(|head| heads.index_axis(ndarray::Axis(0), head / group).to_owned()).collect()
    }
}

struct Setting {
    encoder: Encoder,
    program: PassProgram,
    /// Without public tokens, and with the public tokens of the case.
    caches: [KvCache; 2],
    values: Values,
    case: Case,
}

/// What a way to compute the products of all heads takes.
struct Counted {
    keys: KeyPlan,
    key_switches: u64,
    levels: usize,
}

/// Two products of matrices, of queries with keys and of weights with values.
struct MatrixProducts {
    tiles: Tiles,
    programs: [unspoken_encrypted_matrix::MatrixProgram; 2],
    /// For each batch of heads, the factors of both products.
    factors: Vec<[[EncryptedMatrix<Ciphertext>; 2]; 2]>,
}

/// Linear transformations of queries, and of weights: for each block of heads and vector of public keys.
struct Diagonals {
    scores: Vec<Vec<LinearPlan>>,
    sums: Vec<Vec<LinearPlan>>,
}

impl Setting {
    fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    fn layout(&self) -> &Layout {
        self.program.layout()
    }

    /// Level of the inputs of ours. Results are three levels below: keys and values take one to be arranged, and one
    /// for their rows.
    fn level(&self) -> usize {
        self.program.bootstrap().output_level() - 1
    }

    fn output_level(&self) -> usize {
        self.level() - 3
    }

    /// Vectors of heads, for each block and part.
    fn heads(&self, values: &Heads) -> Vec<Vec<Complex64>> {
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
    fn weights(&self, public: usize) -> Vec<Vec<Complex64>> {
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

    fn inputs<V, E>(
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
    fn ours<M>(&self, machine: &M, public: &KvCache, inputs: &Inputs<M::Vector>) -> anyhow::Result<Outputs<M::Vector>>
    where
        M: Machine + Sync,
        M::Arithmetic: Sync,
    {
        let mut session = self.program.session();
        let mut pass = PassArithmetic::new(machine, &self.program, public, &mut session, (true, 1))?;
        let mut tensor = |vectors: &[M::Vector]| pass.input(vectors.to_vec());
        let [queries, keys, values, weights] =
            [&inputs.queries, &inputs.keys, &inputs.values, &inputs.weights].map(|vectors| tensor(vectors));
        let mut cache = 0;
        pass.append(&mut cache, keys, values)?;
        let scores = pass.scores(&queries, &cache, Place::new(0, Quantity::Score))?.into_vectors();
        let sums = pass.attend(&weights, &cache, Place::new(0, Quantity::Attention))?.into_vectors();
        Ok(Outputs { scores, sums })
    }

    fn count_ours(&self, public: &KvCache) -> anyhow::Result<Counted> {
        let (simulator, scale) = (Simulator::counting(&self.encoder), self.parameters().scale());
        let machine = SimulatedMachine::new(&simulator, self.program.bootstrap());
        let inputs = self.inputs(public.len(), |vectors| -> anyhow::Result<_> {
            Ok(vectors.iter().map(|_| simulator.encrypt(&[], self.level(), scale)).collect::<Result<_, _>>()?)
        })?;
        self.ours(&machine, public, &inputs)?;
        let key_switches = simulator.cost().total_key_switches();
        Ok(Counted { keys: simulator.key_plan(), key_switches, levels: 3 })
    }

    /// Checks decrypted results against products in the clear.
    fn check_ours(&self, public: &KvCache, found: &Outputs<Vec<Complex64>>) -> anyhow::Result<()> {
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

    /// The products of matrices of all heads, in this layout, with results at the level of ours.
    fn matrix_programs(&self, tiles: Tiles) -> anyhow::Result<[unspoken_encrypted_matrix::MatrixProgram; 2]> {
        let (chunk, width) = (self.case.chunk, self.case.model[3]);
        let scores = |graph: &mut Graph| -> anyhow::Result<()> {
            let (queries, keys) = (graph.input("queries", (chunk, width))?, graph.input("keys", (chunk, width))?);
            let keys = graph.push(Operation::Transpose, &[keys])?;
            graph.push(Operation::MatMul, &[queries, keys])?;
            Ok(())
        };
        let sums = |graph: &mut Graph| -> anyhow::Result<()> {
            let (weights, values) = (graph.input("weights", (chunk, chunk))?, graph.input("values", (chunk, width))?);
            graph.push(Operation::MatMul, &[weights, values])?;
            Ok(())
        };
        let planned = |build: &dyn Fn(&mut Graph) -> anyhow::Result<()>| -> anyhow::Result<_> {
            let mut graph = Graph::new();
            build(&mut graph)?;
            let (budget, out) = (Budget { most_keys: Some(MAX_KEYS), ..Budget::default() }, self.output_level());
            let first = plan(&self.encoder, &graph, tiles, out + 4, budget)?;
            match first.output_level() - out {
                0 => Ok(first),
                spare => Ok(plan(&self.encoder, &graph, tiles, out + 4 - spare, budget)?),
            }
        };
        Ok([planned(&scores)?, planned(&sums)?])
    }

    fn count_products(programs: &[unspoken_encrypted_matrix::MatrixProgram; 2], batches: usize, out: usize) -> Counted {
        let mut keys = programs[0].key_plan().clone();
        keys.extend(programs[1].key_plan());
        let switches: u64 = programs.iter().map(|program| program.cost().total_key_switches()).sum();
        let levels = programs.iter().map(|program| program.level() - out).max().unwrap_or(0);
        Counted { keys, key_switches: switches * batches as u64, levels }
    }

    /// Encrypts the factors of the first `heads` heads.
    fn matrix_products(
        &self,
        tiles: Tiles,
        programs: [unspoken_encrypted_matrix::MatrixProgram; 2],
        heads: usize,
        client: &mut PassClient,
    ) -> anyhow::Result<MatrixProducts> {
        let all = self.layout().heads;
        let values = &self.values;
        let [queries, keys, values, weights] =
            [&values.queries, &values.keys, &values.values, &values.weights].map(|heads| Values::matrices(heads, all));
        let own = ndarray::s![.., self.case.public..];
        let weights: Vec<Array2<f64>> = weights.iter().map(|weights| weights.slice(own).to_owned()).collect();
        let mut factors = Vec::new();
        for first in (0..heads).step_by(tiles.parallel()) {
            let batch = first..heads.min(first + tiles.parallel());
            let mut encrypt = |matrices: &[Array2<f64>], level: usize| {
                client.encrypt_matrices(tiles, &matrices[batch.clone()], level)
            };
            let [scores, sums] = [programs[0].level(), programs[1].level()];
            factors.push([
                [encrypt(&queries, scores)?, encrypt(&keys, scores)?],
                [encrypt(&weights, sums)?, encrypt(&values, sums)?],
            ]);
        }
        Ok(MatrixProducts { tiles, programs, factors })
    }

    /// Checks the products of the first batch.
    fn check_products(&self, products: &MatrixProducts, client: &PassClient) -> anyhow::Result<()> {
        let results = products.run(&client.evaluator(), 1)?;
        let all = self.layout().heads;
        let of = |heads: &Heads| Values::matrices(heads, all);
        let (queries, keys) = (of(&self.values.queries), of(&self.values.keys));
        let (weights, values) = (of(&self.values.weights), of(&self.values.values));
        let own = ndarray::s![.., self.case.public..];
        for (number, result) in results.iter().enumerate() {
            for (head, found) in client.decrypt_matrices(result)?.iter().enumerate() {
                let exact = match number {
                    0 => queries[head].dot(&keys[head].t()),
                    _ => weights[head].slice(own).dot(&values[head]),
                };
                let most = exact.iter().fold(0.0f64, |most, value| most.max(value.abs()));
                let worst = (found - &exact).iter().fold(0.0, |worst, error| larger_error(worst, error.abs()));
                within(&format!("products of matrices, {} blocks", products.tiles.blocks()), worst / most)?;
            }
        }
        Ok(())
    }

    /// The public cache as linear transformations of queries and of weights.
    fn diagonals(&self) -> anyhow::Result<Diagonals> {
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

    fn compare(&self, harness: &mut Harness<'_>) -> anyhow::Result<()> {
        let (parameters, heads) = (self.parameters(), self.layout().heads);
        harness.progress("attention: plans");
        let ours = [self.count_ours(&self.caches[0])?, self.count_ours(&self.caches[1])?];
        let dim = self.case.chunk.max(self.case.model[3]);
        let blocks = (0..=dim.ilog2()).map(|log2| 1 << log2).filter(|blocks| blocks * dim * dim <= parameters.slots());
        let tiles = [Tiles::new(parameters, dim, 1)?, Tiles::new(parameters, dim, blocks.max().unwrap_or(1))?];
        let [batched, by_head] = [self.matrix_programs(tiles[0])?, self.matrix_programs(tiles[1])?];
        let counts = [
            Self::count_products(&batched, heads.div_ceil(tiles[0].parallel()), self.output_level()),
            Self::count_products(&by_head, heads, self.output_level()),
        ];
        let methods = [&batched, &by_head].map(|programs| {
            programs.iter().flat_map(|program| program.methods()).map(|method| method.to_string()).collect::<Vec<_>>()
        });
        let plans = self.diagonals()?;
        let mut keys = KeyPlan::new();
        ours.iter().chain(&counts).for_each(|counted| keys.extend(&counted.keys));
        let all_plans = || plans.scores.iter().chain(&plans.sums).flatten();
        all_plans().for_each(|plan| keys.extend(&plan.key_plan()));
        let gigabytes = keys.memory_bytes(parameters.ring()) as f64 * 1e-9;
        harness.progress(format!("attention: {} keys, {gigabytes:.1} GB", keys.len()));
        let mut client = PassClient::new(&self.program, &self.encoder, &keys)?;
        harness.progress("attention: inputs");
        let level = self.level();
        let inputs = [
            self.inputs(0, |vectors| client.encrypt(vectors, level))?,
            self.inputs(self.case.public, |vectors| client.encrypt(vectors, level))?,
        ];
        let batched = self.matrix_products(tiles[0], batched, heads, &mut client)?;
        let by_head = self.matrix_products(tiles[1], by_head, 1, &mut client)?;
        let (evaluator, machine) = (client.evaluator(), client.machine());
        harness.progress("attention: checks");
        for (public, inputs) in self.caches.iter().zip(&inputs) {
            let Outputs { scores, sums } = harness.single_thread.install(|| self.ours(&machine, public, inputs))?;
            let found = Outputs { scores: client.decrypt(&scores)?, sums: client.decrypt(&sums)? };
            self.check_ours(public, &found)?;
        }
        self.check_products(&batched, &client)?;
        self.check_products(&by_head, &client)?;
        harness.progress("attention: products in turn");
        let watch = harness.stopwatch();
        let made = |make: &(dyn Fn(&LinearPlan) -> anyhow::Result<LinearTransform> + Sync)| {
            let all = |plans: &[Vec<LinearPlan>]| -> anyhow::Result<Vec<Vec<LinearTransform>>> {
                plans.iter().map(|plans| plans.iter().map(make).collect()).collect()
            };
            anyhow::Ok([all(&plans.scores)?, all(&plans.sums)?])
        };
        let kept = made(&|plan| Ok(LinearTransform::new(&self.encoder, plan.clone())?))?;
        let public = (&inputs[1].queries[..], &inputs[1].weights[..]);
        let mut operations: Vec<TimedOperation<'_>> = vec![
            Box::new(|| watch.seconds(|| self.ours(&machine, &self.caches[0], &inputs[0]))),
            Box::new(|| watch.seconds(|| self.ours(&machine, &self.caches[1], &inputs[1]))),
            Box::new(|| watch.seconds(|| batched.run(&evaluator, batched.factors.len()))),
            Box::new(|| Ok(heads as f64 * watch.seconds(|| by_head.run(&evaluator, 1))?)),
            Box::new(|| {
                let transforms = made(&|plan| Ok(LinearTransform::deferred(plan.clone())))?;
                watch.seconds(|| self.by_diagonals(&evaluator, &transforms, public))
            }),
            Box::new(|| watch.seconds(|| self.by_diagonals(&evaluator, &kept, public))),
        ];
        let repetitions = if harness.options.quick { Repetitions::exactly(3) } else { Repetitions::exactly(1) };
        let samples = alternate(repetitions, &mut operations)?;
        drop(operations);
        let kept_bytes: u64 = kept.iter().flatten().flatten().map(LinearTransform::prepared_bytes).sum();
        self.send(harness, (&ours, &counts, &methods), &samples, kept_bytes);
        Ok(())
    }

    fn send(
        &self,
        harness: &mut Harness<'_>,
        (ours, counts, methods): (&[Counted; 2], &[Counted; 2], &[Vec<String>; 2]),
        samples: &[Vec<f64>],
        kept_bytes: u64,
    ) {
        let [_, heads, _, width] = self.case.model;
        let [alone, behind, batched, by_head, diagonals, kept] = samples else { return };
        let params = |methods: &[String]| {
            params! {
                "preset": self.parameters().name(), "heads": heads, "head_width": width, "chunk": self.case.chunk,
                "public": self.case.public, "output_level": self.output_level(), "baseline_methods": methods,
                "kept_bytes": kept_bytes,
            }
        };
        let shape = format!("{heads} heads of {width}, {} tokens", self.case.chunk);
        let case = format!("{shape} with themselves");
        for ((name, samples), (count, methods)) in
            [(BATCHED, batched), (BY_HEAD, by_head)].into_iter().zip(counts.iter().zip(methods))
        {
            harness.timing(TIME, &case, alone, Some((name, samples)), params(methods));
            let counted: [CountedMetric<'_, Counted>; 3] = [
                (LEVELS, &|counted| counted.levels as f64),
                (KEYS, &|counted| counted.keys.len() as f64),
                (KEY_SWITCHES, &|counted| counted.key_switches as f64),
            ];
            for (metric, value) in counted {
                harness.value(metric, &case, value(&ours[0]), Some((name, value(count))), params(methods));
            }
        }
        let pairs =
            |a: &[f64], b: &[f64], sign: f64| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + sign * b).collect() };
        let case = format!("{shape} after {} public ones", self.case.public);
        let public = format!("{shape} with {} public ones, by difference", self.case.public);
        let added = pairs(behind, alone, -1.0);
        for (name, samples) in [(DIAGONALS, diagonals), (KEPT, kept)] {
            let both = format!("{name}, and {BATCHED}");
            harness.timing(TIME, &case, behind, Some((&both, &pairs(samples, batched, 1.0))), params(&methods[0]));
            harness.timing(TIME, &public, &added, Some((name, samples)), params(&methods[0]));
        }
    }

    /// Scores of public keys, and sums of public values, by linear transformations: both parts of a block share one.
    fn by_diagonals(
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

impl MatrixProducts {
    /// Both products of the first `batches` batches of heads.
    fn run(&self, evaluator: &Evaluator<'_>, batches: usize) -> anyhow::Result<Vec<EncryptedMatrix<Ciphertext>>> {
        let mut results = Vec::new();
        for factors in &self.factors[..batches] {
            for (program, factors) in self.programs.iter().zip(factors) {
                results.push(program.run(evaluator, factors)?);
            }
        }
        Ok(results)
    }
}

fn within(case: &str, found: f64) -> anyhow::Result<()> {
    if found <= TOLERANCE { Ok(()) } else { Err(wrong(case, found, TOLERANCE)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    #[test]
    fn products_of_attention_are_measured_beside_general_ones() {
        let rows = test_rows(Suite::Llama, |harness| run(harness, &QUICK));
        for name in [BATCHED, BY_HEAD, DIAGONALS, KEPT] {
            let row = rows.iter().find(|row| row.metric == TIME.name && row.baseline_name.starts_with(name));
            let row = row.unwrap_or_else(|| panic!("no time beside {name}"));
            assert!(row.ratio.is_some_and(|ratio| ratio > 0.0), "{row:?}");
        }
        let levels = rows.iter().find(|row| row.metric == LEVELS.name && row.baseline_name == BATCHED).unwrap();
        assert!(levels.ours < levels.baseline.unwrap(), "{levels:?}");
        assert!(rows.iter().any(|row| row.case.starts_with("plain product")));
    }
}
