//! Strided lookups of few tokens, encrypted and simulated, with small insecure rings.

use unspoken_ckks::{Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, Preset, Simulator};
use unspoken_lookup::{StridedLookup, StridedPlan, Table};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

const SHALLOW: &str = "insecure_n11_depth9_scale50";
const DEEP: &str = "insecure_n11_depth24_scale52";

struct Case {
    parameters: CkksParameters,
    tables: Vec<Table>,
    batch: usize,
    plan: StridedPlan,
    indices: Vec<Vec<Option<usize>>>,
}

impl Case {
    fn new(preset: &str, plan: StridedPlan, batch: usize, (subtables, rows, columns): (usize, usize, usize)) -> Self {
        let entry = |t: usize, i: usize| ((i * 7919 + t * 104_729) % 1000) as f64 / 500.0 - 1.0;
        let table = |t: usize| {
            let entries: Vec<f64> = (0..rows * columns).map(|i| entry(t, i)).collect();
            Table::new(rows, &entries).unwrap()
        };
        let index = |t: usize, b: usize| Some((b * 37 + t * 11 + b * b) % columns);
        Case {
            parameters: Preset::find(preset).unwrap().build().unwrap(),
            tables: (0..subtables).map(table).collect(),
            batch,
            plan,
            indices: (0..subtables).map(|t| (0..batch).map(|b| index(t, b)).collect()).collect(),
        }
    }

    fn lookup(&self) -> StridedLookup {
        let bound = self.tables.len() as f64;
        StridedLookup::new(&self.parameters, &self.tables, self.plan, self.batch, bound).unwrap()
    }

    fn expected(&self, slot: usize) -> f64 {
        let (row, token) = (slot / self.batch, slot % self.batch);
        let entry = |(table, indices): (&Table, &Vec<Option<usize>>)| {
            indices[token].filter(|_| row < table.rows()).map_or(0.0, |j| table.row(row)[j])
        };
        self.tables.iter().zip(&self.indices).map(entry).sum()
    }

    fn worst(&self, slots: &[Complex64]) -> f64 {
        assert_eq!(slots.len(), self.parameters.slots());
        slots.iter().enumerate().map(|(i, z)| (z - self.expected(i)).norm()).fold(0.0, f64::max)
    }

    /// The largest error of an encrypted run.
    fn encrypted(&self) -> f64 {
        let encoder = Encoder::new(&self.parameters);
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(self.parameters.rlwe(), &mut rng).unwrap();
        let lookup = self.lookup();
        let keys = EvaluationKeys::generate(&secret, &lookup.key_plan(), &mut rng).unwrap();
        let evaluator = Evaluator::new(&encoder, &keys);
        let mut encrypt = |values: Vec<Complex64>| {
            let plaintext = encoder.encode(&values, lookup.input_level(), lookup.input_scale()).unwrap();
            encoder.encrypt(&plaintext, &secret, &mut rng).unwrap().expand(&self.parameters)
        };
        let query: Vec<Ciphertext> =
            lookup.query_values(&self.indices).unwrap().into_iter().map(&mut encrypt).collect();
        let selections = lookup.generate(&evaluator, &query).unwrap();
        lookup.encode(&encoder).unwrap();
        let output = lookup.combine(&evaluator, &selections).unwrap();
        assert_eq!((output.level(), output.scale()), (0, self.parameters.scale()));
        self.worst(&encoder.decrypt(&output, &secret).unwrap())
    }
}

#[test]
fn powers_in_one_ciphertext_select_columns() {
    // Subtables that share a ciphertext, some places unused; a subtable that fills one; an odd number of rows.
    for (batch, shape) in [(16, (4, 5, 16)), (16, (3, 20, 32)), (32, (2, 7, 64)), (1, (1, 3, 128))] {
        let worst = Case::new(SHALLOW, StridedPlan::Powers, batch, shape).encrypted();
        assert!(worst < 2f64.powi(-24), "{batch} {shape:?}: {worst:e}");
    }
}

#[test]
fn indicators_in_the_same_packing() {
    // The second case needs two ciphertexts per subtable.
    for (batch, shape) in [(16, (2, 5, 16)), (64, (2, 3, 32))] {
        let worst = Case::new(DEEP, StridedPlan::Indicator, batch, shape).encrypted();
        assert!(worst < 2f64.powi(-10), "{batch} {shape:?}: {worst:e}");
    }
}

#[test]
fn the_simulator_runs_the_same_circuit() {
    for (preset, plan) in [(SHALLOW, StridedPlan::Powers), (DEEP, StridedPlan::Indicator)] {
        let case = Case::new(preset, plan, 16, (2, 5, 16));
        let lookup = case.lookup();
        let simulator = Simulator::new(&Encoder::new(&case.parameters), 2).with_keys(lookup.key_plan());
        let encrypt =
            |values: &Vec<Complex64>| simulator.encrypt(values, lookup.input_level(), lookup.input_scale()).unwrap();
        let query: Vec<_> = lookup.query_values(&case.indices).unwrap().iter().map(encrypt).collect();
        let selections = lookup.generate(&simulator, &query).unwrap();
        let output = lookup.combine(&simulator, &selections).unwrap();
        assert!(case.worst(output.noisy()) < 2f64.powi(-10));
        assert!(simulator.overflows().is_empty(), "{:?}", simulator.overflows());
        assert_eq!(simulator.key_plan(), lookup.key_plan());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = Case::new(SHALLOW, StridedPlan::Powers, 16, (1, 5, 64));
    let refuse = |plan, batch, bound| {
        StridedLookup::new(&case.parameters, &case.tables, plan, batch, bound).err().unwrap().to_string()
    };
    for (plan, batch, bound, what) in [
        (StridedPlan::Powers, 64, 1.0, "at most 32"),
        (StridedPlan::Powers, 3, 1.0, "power of two"),
        (StridedPlan::Powers, 0, 1.0, "power of two"),
        (StridedPlan::Indicator, 16, 1.0, "deeper preset"),
        (StridedPlan::Powers, 16, 1e30, "scale the table down"),
    ] {
        let error = refuse(plan, batch, bound);
        assert!(error.contains(what), "{error}");
    }
    let lookup = case.lookup();
    assert!(lookup.query_values(&[vec![Some(64)]]).is_err());
    assert!(lookup.query_values(&[vec![None; 17]]).is_err());
    assert!(lookup.query_values(&[]).is_err());
}
