//! Every plan against the table itself, encrypted, at small insecure rings.

use unspoken_ckks::{Ciphertext, Complex64, Encoder, Evaluator, Preset};
use unspoken_lookup::{Lookup, LookupError, OutputForm, Plan, QueryForm, Table, alpha};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

const SHALLOW: &str = "insecure_n11_depth9_scale50";
const DEEP: &str = "insecure_n11_depth24_scale52";

fn table(rows: usize, columns: usize, seed: usize) -> Table {
    let entry = |i: usize| ((i * 7919 + seed * 104_729) % 1000) as f64 / 500.0 - 1.0;
    Table::new(rows, &(0..rows * columns).map(entry).collect::<Vec<_>>()).unwrap()
}

fn encrypt(
    encoder: &Encoder,
    lookup: &Lookup,
    indices: &[usize],
    secret: &SecretKey,
    rng: &mut SecretRng,
) -> Ciphertext {
    let (_, _, p) = lookup.shape();
    let value = |&j: &usize| match lookup.plan().query_form() {
        QueryForm::Alpha => alpha(j, p),
        QueryForm::Index => Complex64::from(j as f64 / p as f64),
    };
    let values: Vec<Complex64> = indices.iter().map(value).collect();
    let plaintext = encoder.encode(&values, lookup.input_level(), encoder.parameters().scale()).unwrap();
    encoder.encrypt(&plaintext, secret, rng).unwrap().expand(encoder.parameters())
}

/// Largest error of a lookup of random indices, over all slots and rows.
fn worst_error(preset: &str, plan: Plan, form: OutputForm, (subtables, rows, columns): (usize, usize, usize)) -> f64 {
    let parameters = Preset::find(preset).unwrap().build().unwrap();
    let encoder = Encoder::new(&parameters);
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let tables: Vec<Table> = (0..subtables).map(|t| table(rows, columns, t)).collect();
    let lookup = Lookup::new(&parameters, &tables, plan, form, subtables as f64, None).unwrap();
    let keys = EvaluationKeys::generate(&secret, &lookup.key_plan(), &mut rng).unwrap();
    let slots = parameters.slots();
    let indices: Vec<Vec<usize>> =
        (0..subtables).map(|t| (0..slots).map(|i| (i * 31 + t * 17 + i * i) % columns).collect()).collect();
    let query: Vec<Ciphertext> = indices.iter().map(|j| encrypt(&encoder, &lookup, j, &secret, &mut rng)).collect();
    let outputs = lookup.run(&Evaluator::new(&encoder, &keys), &query).unwrap();
    assert_eq!(outputs.len(), lookup.outputs());
    let entry = |r: usize, i: usize| -> f64 {
        if r < rows { tables.iter().zip(&indices).map(|(m, j)| m.row(r)[j[i]]).sum() } else { 0.0 }
    };
    let mut worst = 0.0f64;
    for (o, output) in outputs.iter().enumerate() {
        assert_eq!((output.level(), output.scale()), (lookup.output_level(), lookup.output_scale()));
        for (i, z) in encoder.decrypt(output, &secret).unwrap().into_iter().enumerate() {
            let expected = match form {
                OutputForm::Rows => Complex64::from(entry(o, i)),
                OutputForm::Pairs => Complex64::new(entry(2 * o, i), entry(2 * o + 1, i)),
            };
            worst = worst.max((z - expected).norm());
        }
    }
    worst
}

#[test]
fn every_plan_selects_columns() {
    let plans =
        [Plan::Paper, Plan::ComplexFirst, Plan::LazyLast, Plan::BabyGiant { babies: 2 }, Plan::BabyGiant { babies: 4 }];
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
fn the_indicator_baseline_selects_columns() {
    let error = worst_error(DEEP, Plan::Indicator, OutputForm::Rows, (1, 2, 16));
    assert!(error < 2f64.powi(-10), "2^{:.1}", error.log2());
}

#[test]
fn the_full_width_of_a_text_classifier() {
    let error = worst_error(SHALLOW, Plan::BabyGiant { babies: 16 }, OutputForm::Pairs, (4, 2, 256));
    assert!(error < 2f64.powi(-20), "2^{:.1}", error.log2());
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let parameters = Preset::find(SHALLOW).unwrap().build().unwrap();
    let refuse = |tables: &[Table], plan, bound, level| {
        Lookup::new(&parameters, tables, plan, OutputForm::Rows, bound, level).err().unwrap()
    };
    assert!(matches!(refuse(&[], Plan::Paper, 1.0, None), LookupError::Table { .. }));
    assert!(matches!(refuse(&[table(1, 16, 0), table(1, 32, 0)], Plan::Paper, 1.0, None), LookupError::Table { .. }));
    for (plan, level, what) in [
        (Plan::Indicator, None, "deeper preset"),
        (Plan::Paper, Some(2), "level 4 or more"),
        (Plan::BabyGiant { babies: 4 }, Some(2), "level 4 or more"),
        (Plan::LazyLast, Some(1), "level 4 or more"),
        (Plan::BabyGiant { babies: 3 }, None, "power of two"),
        (Plan::BabyGiant { babies: 8 }, None, "power of two up to 4"),
    ] {
        let error = refuse(&[table(1, 16, 0)], plan, 1.0, level).to_string();
        assert!(error.contains(what), "{error}");
    }
    let error = refuse(&[table(1, 16, 0)], Plan::ComplexFirst, 1e40, None).to_string();
    assert!(error.contains("scale the table down"), "{error}");
}
