//! Products of attention: queries with keys and weights with values, of a chunk with itself and with a public cache,
//! beside general products of matrices and beside linear transformations by diagonals.

mod diagonals;
mod matrix_products;
mod ours;
mod setting;

use unspoken_ckks::{Bootstrap, Encoder, LinearPlan, LinearTransform, Preset};
use unspoken_encrypted_llama::{PassProgram, WEIGHT_BITS};
use unspoken_encrypted_matrix::Layout as Tiles;
use unspoken_rlwe::KeyPlan;

use self::ours::Outputs;
use self::setting::{Case, Counted, Setting, Values};
use super::client::PassClient;
use super::random::{RandomModel, config};
use crate::clock::{Repetitions, TimedOperation, alternate};
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

/// Heads that fill a ciphertext, each with one token for each channel: products of matrices waste no slots.
pub(super) const FULL: Case =
    Case { preset: "n16_boot_depth15_scale40", small_degree: 4096, model: [1024, 32, 32, 32], chunk: 32, public: 128 };

pub(super) const QUICK: Case = Case {
    preset: "insecure_n11_boot_depth15_scale40",
    small_degree: 512,
    model: [128, 8, 4, 16],
    chunk: 16,
    public: 32,
};

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

impl Setting {
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
        let (evaluator, pass_evaluator) = (client.evaluator(), client.pass_evaluator());
        harness.progress("attention: checks");
        for (public, inputs) in self.caches.iter().zip(&inputs) {
            let Outputs { scores, sums } =
                harness.single_thread.install(|| self.ours(&pass_evaluator, public, inputs))?;
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
            Box::new(|| watch.seconds(|| self.ours(&pass_evaluator, &self.caches[0], &inputs[0]))),
            Box::new(|| watch.seconds(|| self.ours(&pass_evaluator, &self.caches[1], &inputs[1]))),
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
