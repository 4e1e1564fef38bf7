//! All plans, encrypted with small insecure rings and compared with the table.

use unspoken_ckks::{
    Ciphertext, CkksParameters, Complex64, CostModel, Encoder, ErrorStatistics, Evaluator, Preset, SCALE_TOLERANCE,
    Simulator,
};
use unspoken_lookup::{
    ErrorBound, IndexEncoding, Lookup, LookupError, LookupPlan, LookupTask, OutputForm, Table, TableSummary, estimate,
    query_scale,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

const SHALLOW: &str = "insecure_n11_depth9_scale50";
const REAL: &str = "insecure_n11_real_depth9_scale50";
const DEEP: &str = "insecure_n11_depth24_scale52";

fn table(rows: usize, columns: usize, seed: usize) -> Table {
    let entry = |i: usize| ((i * 7919 + seed * 104_729) % 1000) as f64 / 500.0 - 1.0;
    Table::new(rows, &(0..rows * columns).map(entry).collect::<Vec<_>>()).unwrap()
}

/// A lookup with its indices, of which every seventh may be padding, and the expected outputs.
struct Question {
    tables: Vec<Table>,
    indices: Vec<Vec<Option<usize>>>,
    lookup: Lookup,
}

impl Question {
    fn new(parameters: &CkksParameters, plan: LookupPlan, form: OutputForm, tables: Vec<Table>, padded: bool) -> Self {
        let lookup = Lookup::new(parameters, &tables, plan, form, tables.len() as f64, None).unwrap();
        let columns = tables[0].columns();
        let index = |t: usize, i: usize| {
            let real = !padded || !i.is_multiple_of(7);
            real.then_some((i * 31 + t * 17 + i * i) % columns)
        };
        let indices = (0..tables.len()).map(|t| (0..parameters.slots()).map(|i| index(t, i)).collect()).collect();
        Question { tables, indices, lookup }
    }

    /// The slots of the vectors of a query: for each subtable, the vectors of the index encoding.
    fn queries(&self) -> Vec<Vec<Complex64>> {
        let (encoding, columns) = (self.lookup.plan().index_encoding(), self.tables[0].columns());
        let vector = |indices: &Vec<Option<usize>>, vector: usize| {
            indices.iter().map(|&j| encoding.value(j, columns, vector)).collect()
        };
        let vectors = |indices| (0..encoding.vectors(columns)).map(move |v| vector(indices, v));
        self.indices.iter().flat_map(vectors).collect()
    }

    fn entry(&self, r: usize, slot: usize) -> f64 {
        let entry = |(table, indices): (&Table, &Vec<Option<usize>>)| {
            indices[slot].filter(|_| r < table.rows()).map_or(0.0, |j| table.row(r)[j])
        };
        self.tables.iter().zip(&self.indices).map(entry).sum()
    }

    fn expected(&self, form: OutputForm, output: usize, slot: usize) -> Complex64 {
        match form {
            OutputForm::Rows => Complex64::from(self.entry(output, slot)),
            OutputForm::Pairs => Complex64::new(self.entry(2 * output, slot), self.entry(2 * output + 1, slot)),
        }
    }
}

/// The decrypted outputs of an encrypted run.
fn run(parameters: &CkksParameters, question: &Question) -> Vec<Vec<Complex64>> {
    let encoder = Encoder::new(parameters);
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let lookup = &question.lookup;
    let keys = EvaluationKeys::generate(&secret, &lookup.key_plan(), &mut rng).unwrap();
    let (level, scale) = (lookup.input_level(), query_scale(parameters, lookup.input_level()));
    let mut encrypt = |slots: Vec<Complex64>| {
        let plaintext = encoder.encode(&slots, level, scale).unwrap();
        encoder.encrypt(&plaintext, &secret, &mut rng).unwrap().expand(parameters)
    };
    let query: Vec<Ciphertext> = question.queries().into_iter().map(&mut encrypt).collect();
    let outputs = lookup.run(&Evaluator::new(&encoder, &keys), &query).unwrap();
    assert_eq!(outputs.len(), lookup.outputs());
    let open = |output: &Ciphertext| {
        assert_eq!(output.level(), lookup.output_level());
        // The last bit of a ratio of products depends on the order.
        assert!((output.scale() / lookup.output_scale() - 1.0).abs() < SCALE_TOLERANCE);
        encoder.decrypt(output, &secret).unwrap().to_vec()
    };
    outputs.iter().map(open).collect()
}

/// The errors of all slots and rows.
fn errors(question: &Question, form: OutputForm, outputs: &[Vec<Complex64>]) -> ErrorStatistics {
    let exact: Vec<Complex64> =
        (0..outputs.len()).flat_map(|o| (0..outputs[o].len()).map(move |i| question.expected(form, o, i))).collect();
    ErrorStatistics::between(&outputs.concat(), &exact)
}

/// Largest error of a lookup of random indices, over all slots and rows.
fn worst_error(
    preset: &str,
    plan: LookupPlan,
    form: OutputForm,
    (subtables, rows, columns): (usize, usize, usize),
) -> f64 {
    let parameters = Preset::find(preset).unwrap().build().unwrap();
    let tables: Vec<Table> = (0..subtables).map(|t| table(rows, columns, t)).collect();
    let padded = !matches!(plan.index_encoding(), IndexEncoding::Alpha);
    let question = Question::new(&parameters, plan, form, tables, padded);
    errors(&question, form, &run(&parameters, &question)).worst
}

#[test]
fn every_plan_selects_columns() {
    let plans = [
        LookupPlan::Paper,
        LookupPlan::ComplexFirst,
        LookupPlan::LazyLast,
        LookupPlan::BabyGiant { babies: 2 },
        LookupPlan::BabyGiant { babies: 4 },
    ];
    for plan in plans {
        for form in [OutputForm::Rows, OutputForm::Pairs] {
            for shape in [(1, 1, 16), (2, 3, 32)] {
                let error = worst_error(SHALLOW, plan, form, shape);
                assert!(error < 2f64.powi(-24), "{plan} {form:?} {shape:?}: 2^{:.1}", error.log2());
            }
        }
    }
}

#[test]
fn levels_need_not_be_nested() {
    for preset in ["insecure_n11_depth12_scale35", "insecure_n11_depth12_scale40", "insecure_n11_depth12_scale45"] {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        for plan in
            [LookupPlan::Paper, LookupPlan::ComplexFirst, LookupPlan::LazyLast, LookupPlan::BabyGiant { babies: 4 }]
        {
            let tables = vec![table(3, 32, 0), table(3, 32, 1)];
            let padded = !matches!(plan.index_encoding(), IndexEncoding::Alpha);
            let question = Question::new(&parameters, plan, OutputForm::Pairs, tables, padded);
            let found = errors(&question, OutputForm::Pairs, &run(&parameters, &question));
            let simulator = Simulator::new(&Encoder::new(&parameters), 5).with_keys(question.lookup.key_plan());
            let (level, scale) = (question.lookup.input_level(), question.lookup.input_scale());
            let encrypt = |values: &Vec<Complex64>| simulator.encrypt(values, level, scale).unwrap();
            let query: Vec<_> = question.queries().iter().map(encrypt).collect();
            let outputs = question.lookup.run(&simulator, &query).unwrap();
            let noisy: Vec<Vec<Complex64>> = outputs.iter().map(|output| output.noisy().to_vec()).collect();
            let predicted = errors(&question, OutputForm::Pairs, &noisy);
            println!("{preset} {plan}: 2^{:.1}, predicted 2^{:.1}", found.rms.log2(), predicted.rms.log2());
            let ratio = found.rms / predicted.rms;
            assert!((0.5..2.0).contains(&ratio), "{preset} {plan}: {found:?} {predicted:?}");
        }
    }
}

#[test]
fn cosines_select_columns_in_the_real_ring() {
    for babies in [2, 4, 8, 16] {
        for shape in [(1, 1, 32), (2, 3, 32)] {
            let error = worst_error(REAL, LookupPlan::Cosine { babies }, OutputForm::Rows, shape);
            assert!(error < 2f64.powi(-20), "{babies} {shape:?}: 2^{:.1}", error.log2());
        }
    }
    let error = worst_error(REAL, LookupPlan::Cosine { babies: 16 }, OutputForm::Rows, (2, 2, 256));
    assert!(error < 2f64.powi(-12), "2^{:.1}", error.log2());
}

#[test]
fn the_simulator_predicts_a_real_lookup() {
    let parameters = Preset::find(REAL).unwrap().build().unwrap();
    let tables = vec![table(3, 64, 0), table(3, 64, 1)];
    let question = Question::new(&parameters, LookupPlan::Cosine { babies: 8 }, OutputForm::Rows, tables, true);
    let measured = errors(&question, OutputForm::Rows, &run(&parameters, &question));
    let simulator = Simulator::new(&Encoder::new(&parameters), 5).with_keys(question.lookup.key_plan());
    let encrypt = |values: &Vec<Complex64>| {
        simulator.encrypt(values, question.lookup.input_level(), question.lookup.input_scale()).unwrap()
    };
    let query: Vec<_> = question.queries().iter().map(encrypt).collect();
    let outputs = question.lookup.run(&simulator, &query).unwrap();
    assert!(simulator.overflows().is_empty(), "{:?}", simulator.overflows());
    assert_eq!(simulator.key_plan(), question.lookup.key_plan());
    let noisy: Vec<Vec<Complex64>> = outputs.iter().map(|output| output.noisy().to_vec()).collect();
    let predicted = errors(&question, OutputForm::Rows, &noisy);
    let ratio = predicted.median / measured.median;
    assert!((0.5..2.0).contains(&ratio), "{predicted:?} {measured:?}");
    let task = LookupTask { subtables: 2, rows: 3, columns: 64, form: OutputForm::Rows };
    let estimate = estimate(&parameters, task, question.lookup.plan(), &CostModel::nominal(&parameters)).unwrap();
    assert_eq!(estimate.cost.key_switches, simulator.cost().key_switches);
    assert_eq!(estimate.cost.tensors, simulator.cost().tensors);
}

/// Errors are below the bound, and the bound is not too loose.
#[test]
fn errors_stay_within_the_bound_of_theorem_5_1() {
    let cases = [
        (SHALLOW, LookupPlan::Paper),
        (SHALLOW, LookupPlan::ComplexFirst),
        (SHALLOW, LookupPlan::BabyGiant { babies: 8 }),
        (REAL, LookupPlan::Cosine { babies: 8 }),
    ];
    for (preset, plan) in cases {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let tables = vec![table(4, 64, 0), table(4, 64, 1)];
        let summary = TableSummary::of(&tables, 2.0);
        let bound = ErrorBound::of(&parameters, plan, summary).unwrap();
        let question = Question::new(&parameters, plan, OutputForm::Rows, tables, false);
        let found = errors(&question, OutputForm::Rows, &run(&parameters, &question)).rms;
        let bound = bound.error(parameters.scale());
        assert!(found < bound && bound < 200.0 * found, "{plan}: 2^{:.1} of 2^{:.1}", found.log2(), bound.log2());
    }
}

#[test]
fn tables_of_any_width_are_padded() {
    let parameters = Preset::find(SHALLOW).unwrap().build().unwrap();
    let tables = vec![table(2, 50, 0), table(2, 50, 1)];
    assert_eq!(tables[0].columns(), 64);
    let question = Question::new(&parameters, LookupPlan::BabyGiant { babies: 8 }, OutputForm::Rows, tables, false);
    let error = errors(&question, OutputForm::Rows, &run(&parameters, &question)).worst;
    assert!(error < 2f64.powi(-20), "2^{:.1}", error.log2());
}

#[test]
fn the_indicator_baseline_selects_columns() {
    // From level 16 down and from level 12 down: scales must stay near the default over this many squarings.
    for columns in [16, 4] {
        let error = worst_error(DEEP, LookupPlan::Indicator, OutputForm::Rows, (1, 2, columns));
        assert!(error < 2f64.powi(-10), "{columns}: 2^{:.1}", error.log2());
    }
}

#[test]
fn one_hot_queries_need_no_keys() {
    for (preset, form) in [(SHALLOW, OutputForm::Pairs), (REAL, OutputForm::Rows)] {
        let error = worst_error(preset, LookupPlan::OneHot, form, (2, 3, 16));
        assert!(error < 2f64.powi(-30), "{preset}: 2^{:.1}", error.log2());
    }
    let parameters = Preset::find(SHALLOW).unwrap().build().unwrap();
    let lookup = |plan| Lookup::new(&parameters, &[table(2, 16, 0)], plan, OutputForm::Rows, 1.0, None).unwrap();
    let (one_hot, direct) = (lookup(LookupPlan::OneHot), lookup(LookupPlan::ComplexFirst));
    assert_eq!(one_hot.key_plan().len(), 0);
    let vectors = |lookup: &Lookup| lookup.plan().index_encoding().vectors(16);
    assert_eq!((vectors(&one_hot), vectors(&direct)), (16, 1));
}

#[test]
fn the_full_width_of_a_text_classifier() {
    let error = worst_error(SHALLOW, LookupPlan::BabyGiant { babies: 16 }, OutputForm::Pairs, (4, 2, 256));
    assert!(error < 2f64.powi(-20), "2^{:.1}", error.log2());
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let parameters = Preset::find(SHALLOW).unwrap().build().unwrap();
    let refuse = |tables: &[Table], plan, bound, level| {
        Lookup::new(&parameters, tables, plan, OutputForm::Rows, bound, level).err().unwrap()
    };
    assert!(matches!(refuse(&[], LookupPlan::Paper, 1.0, None), LookupError::Table { .. }));
    assert!(matches!(
        refuse(&[table(1, 16, 0), table(1, 32, 0)], LookupPlan::Paper, 1.0, None),
        LookupError::Table { .. }
    ));
    for (plan, level, what) in [
        (LookupPlan::Indicator, None, "deeper preset"),
        (LookupPlan::Paper, Some(2), "level 4 or more"),
        (LookupPlan::BabyGiant { babies: 4 }, Some(2), "level 3 or more"),
        (LookupPlan::LazyLast, Some(1), "level 3 or more"),
        (LookupPlan::BabyGiant { babies: 3 }, None, "power of two"),
        (LookupPlan::BabyGiant { babies: 8 }, None, "power of two up to 4"),
        (LookupPlan::Cosine { babies: 4 }, None, "lists the plans of a preset"),
    ] {
        let error = refuse(&[table(1, 16, 0)], plan, 1.0, level).to_string();
        assert!(error.contains(what), "{error}");
    }
    let error = refuse(&[table(1, 16, 0)], LookupPlan::ComplexFirst, 1e40, None).to_string();
    assert!(error.contains("scale the table down"), "{error}");
}

#[test]
fn real_slots_refuse_complex_plans() {
    let parameters = Preset::find(REAL).unwrap().build().unwrap();
    let refuse = |plan, form| Lookup::new(&parameters, &[table(2, 16, 0)], plan, form, 1.0, None).err().unwrap();
    let pairs = refuse(LookupPlan::Cosine { babies: 4 }, OutputForm::Pairs).to_string();
    assert!(pairs.contains("slots are real"), "{pairs}");
    assert!(refuse(LookupPlan::Paper, OutputForm::Rows).to_string().contains("slots are real"));
    let babies = refuse(LookupPlan::Cosine { babies: 16 }, OutputForm::Rows).to_string();
    assert!(babies.contains("from 2 to 8"), "{babies}");
}
