//! Maps that are fitted again to what polynomials give them.

use std::sync::atomic::AtomicBool;

use ndarray::{Array2, ArrayView2, s};
use unspoken_network::{
    Design, Function, Network, NetworkBuilder, Options, Program, Progress, Ranges, SparseMatrix, Step,
};

use crate::common::{Client, bias, mlp, rows, weights};

const OPTIONS: Options =
    Options { margin: 1.25, kink_error: 1.0 / 64.0, smooth_error: 1e-3, most_degree: 63, refit: true };

/// Root mean square differences of the program of a design and of its original, on rows, for each output.
fn error(client: &Client, design: &Design, table: ArrayView2<'_, f64>) -> f64 {
    let program = Program::new(design, client.parameters(), 64).unwrap();
    let (mut squares, mut numbers) = (0.0, 0.0);
    for first in (0..table.nrows()).step_by(64) {
        let few = table.slice(s![first..(first + 64).min(table.nrows()), ..]);
        let simulation = program.simulate(design.original(), &client.encoder, &[few], 1).unwrap();
        let errors: Array2<f64> = &simulation.exact[0] - &design.original().run(&[few]).unwrap()[0];
        squares += errors.mapv(|x| x * x).sum();
        numbers += errors.len() as f64;
    }
    f64::sqrt(squares / numbers)
}

/// Rows near a surface of three dimensions, as real ones are: errors of polynomials then have much in common.
fn related(count: usize, size: usize, seed: usize) -> Array2<f64> {
    let mixing = Array2::from_shape_fn((3, size), |(i, j)| ((i * size + j) as f64 * 2.3).sin());
    rows(count, 3, seed).dot(&mixing)
}

fn designs(network: &Network, table: ArrayView2<'_, f64>, options: &Options) -> [Design; 2] {
    let ranges = Ranges::of(network, &[table]).unwrap();
    let before = Design::new(network, &ranges, options).unwrap();
    let mut steps = Vec::new();
    let mut watch = |progress| match progress {
        Progress::Fitting { done, total } => steps.push((done, total)),
        other => panic!("{other:?}"),
    };
    let after = before.refitted(&ranges, options, &[table], &mut watch, &AtomicBool::new(false)).unwrap();
    let cancelled = before.refitted(&ranges, options, &[table], &mut |_| {}, &AtomicBool::new(true));
    assert!(steps.iter().enumerate().all(|(place, step)| *step == (place, steps.len())), "{steps:?}");
    let has_polynomials = before.approximations().iter().any(|step| step.largest > 0.0);
    assert_eq!(cancelled.is_err_and(|error| error.is_cancelled()), options.refit && has_polynomials);
    [before, after]
}

#[test]
fn results_on_other_rows_come_nearer_to_the_model() {
    let mut client = Client::new("insecure_n11_depth24_scale52");
    let network = mlp(&[10, 64, 48, 3], Function::Relu);
    let calibration = related(600, 10, 5);
    let [before, after] = designs(&network, calibration.view(), &OPTIONS);
    assert_eq!(before.approximations(), after.approximations(), "polynomials and levels stay");
    assert_eq!((before.refits().len(), after.refits().len()), (0, 2), "all maps but the first");
    let other = related(256, 10, 77);
    let errors = [&before, &after].map(|design| error(&client, design, other.view()));
    println!("{errors:?}, predicted {:?}", after.refits());
    assert!(errors[1] < errors[0] / 2.0, "{errors:?}");
    let last = after.refits().last().unwrap();
    assert!(last.after < last.before && last.largest > last.after, "{last:?}");
    let predicted = after.error_of_polynomials(&[calibration.view()], &AtomicBool::new(false)).unwrap();
    let cancelled = after.error_of_polynomials(&[calibration.view()], &AtomicBool::new(true));
    assert!(cancelled.is_err_and(|error| error.is_cancelled()));
    assert!(predicted >= last.largest, "{predicted:e}");
    // Encrypted, too.
    let program = Program::new(&after, client.parameters(), 64).unwrap();
    let few = other.slice(s![..64, ..]);
    let simulation = program.simulate(after.original(), &client.encoder, &[few], 1).unwrap();
    let clear = after.run(&[few]).unwrap();
    assert!(program.distance(&clear, &simulation.exact) < 1e-9, "a program without noise is its design");
    assert!(simulation.approximation < 1.25 * predicted, "{:e}", simulation.approximation);
    let found: Vec<_> = client.run(&program, &[few]).into_iter().map(|answer| answer.values).collect();
    assert!(program.distance(&found, &simulation.exact) < 4.0 * simulation.noise);
}

#[test]
fn results_without_errors_keep_their_weights() {
    let mut builder = NetworkBuilder::new();
    let x = builder.input("x", 6).unwrap();
    let h = builder.affine(vec![(x, weights(8, 6, 1))], bias(8, 2)).unwrap();
    let h = builder.function(h, Function::Relu).unwrap();
    // Sparse, as convolutions are.
    let band = SparseMatrix::new((8, 8), (0..8).flat_map(|i| [(i, i, 0.5), (i, (i + 1) % 8, -0.3)])).unwrap();
    let y = builder.affine(vec![(h, band)], bias(8, 3)).unwrap();
    let sparse = builder.finish(&[("y", y)]).unwrap();
    let dense = mlp(&[6, 8, 3], Function::Relu);
    let exact = mlp(&[6, 8, 3], Function::Power(2));
    let kept = Options { refit: false, ..OPTIONS };
    let cases = [
        (&sparse, 12, OPTIONS, "few rows for a sparse map"),
        (&exact, 300, OPTIONS, "maps after exact functions"),
        (&dense, 15, OPTIONS, "fewer rows than two for each element"),
        (&dense, 300, kept, "not wanted"),
    ];
    for (network, count, options, what) in cases {
        let [_, after] = designs(network, rows(count, 6, 5).view(), &options);
        assert!(after.refits().is_empty(), "{what}: {:?}", after.refits());
        assert_eq!(after.network().steps(), network.steps(), "{what}");
    }
}

#[test]
fn several_arguments_and_polynomials_of_each_element_are_fitted() {
    let client = Client::new("insecure_n11_depth24_scale52");
    let mut builder = NetworkBuilder::new();
    let x = builder.input("x", 6).unwrap();
    let a = builder.affine(vec![(x, weights(8, 6, 1))], bias(8, 2)).unwrap();
    let a = builder.function(a, Function::Relu).unwrap();
    let b = builder.affine(vec![(x, weights(5, 6, 3))], vec![0.5, -3.0, 8.0, 0.0, 20.0]).unwrap();
    let b = builder.function(b, Function::HardSwish).unwrap();
    let y = builder.affine(vec![(a, weights(4, 8, 4)), (b, weights(4, 5, 5))], bias(4, 6)).unwrap();
    let network = builder.finish(&[("y", y)]).unwrap();
    let [before, after] = designs(&network, related(500, 6, 9).view(), &OPTIONS);
    assert_eq!(after.refits().len(), 1);
    let other = related(192, 6, 33);
    let errors = [&before, &after].map(|design| error(&client, design, other.view()));
    println!("{errors:?}, predicted {:?}", after.refits());
    let program = Program::new(&after, client.parameters(), 64).unwrap();
    let few = other.slice(s![..64, ..]);
    let simulation = program.simulate(after.original(), &client.encoder, &[few], 1).unwrap();
    assert!(program.distance(&after.run(&[few]).unwrap(), &simulation.exact) < 1e-9);
    assert!(errors[1] < 0.85 * errors[0], "{errors:?}");
}

/// Elements that are mostly on one side of the kink have errors with a mean and a slope.
#[test]
fn results_of_sparse_maps_get_factors_and_shifts() {
    let client = Client::new("insecure_n11_depth24_scale52");
    let mut builder = NetworkBuilder::new();
    let x = builder.input("x", 6).unwrap();
    let shifts = (0..16).map(|i| f64::from(i) / 8.0).collect();
    let h = builder.affine(vec![(x, weights(16, 6, 1))], shifts).unwrap();
    let h = builder.function(h, Function::Relu).unwrap();
    let band = SparseMatrix::new((16, 16), (0..16).flat_map(|i| [(i, i, 0.5), (i, (i + 1) % 16, 0.3)])).unwrap();
    let y = builder.affine(vec![(h, band)], bias(16, 3)).unwrap();
    let network = builder.finish(&[("y", y)]).unwrap();
    let [before, after] = designs(&network, rows(400, 6, 5).view(), &OPTIONS);
    assert_eq!(after.refits().len(), 1);
    let (Step::Affine { terms, .. }, Step::Affine { terms: model, .. }) =
        (&after.network().steps()[y.index()], &network.steps()[y.index()])
    else {
        panic!("maps")
    };
    assert_eq!(terms[0].1.nonzero(), model[0].1.nonzero(), "entries that are zero stay so");
    let other = rows(256, 6, 77);
    let errors = [&before, &after].map(|design| error(&client, design, other.view()));
    println!("{errors:?}, predicted {:?}", after.refits());
    assert!(errors[1] < 0.9 * errors[0], "{errors:?}");
    let program = Program::new(&after, client.parameters(), 64).unwrap();
    let few = other.slice(s![..64, ..]);
    let simulation = program.simulate(after.original(), &client.encoder, &[few], 1).unwrap();
    assert!(program.distance(&after.run(&[few]).unwrap(), &simulation.exact) < 1e-9);
}
