//! Functions: every kind by polynomials, shared by all elements or not, and the errors that are stated.

use ndarray::{ArrayView2, s};
use unspoken_network::{Design, Function, NetworkBuilder, Options, Program, Ranges, SparseMatrix};

use crate::common::{Client, bias, design, mlp, rows, weights};

const PRESET: &str = "insecure_n11_depth12_scale45";

const FUNCTIONS: [Function; 14] = [
    Function::Relu,
    Function::LeakyRelu { slope: 0.1 },
    Function::Abs,
    Function::Clip { low: -0.5, high: 0.75 },
    Function::HardSigmoid { slope: 0.5, offset: 0.5 },
    Function::HardSwish,
    Function::Elu { alpha: 1.0 },
    Function::Sigmoid,
    Function::Tanh,
    Function::Erf,
    Function::Gelu,
    Function::Silu,
    Function::Softplus,
    Function::Exp,
];

#[test]
fn errors_of_all_functions_are_the_stated_ones() {
    let mut client = Client::new(PRESET);
    let table = rows(200, 10, 5);
    let few = table.slice(s![..64, ..]);
    for function in FUNCTIONS {
        // The function is the result, so that its error is the program's.
        let mut builder = NetworkBuilder::new();
        let x = builder.input("x", 10).unwrap();
        let h = builder.affine(vec![(x, weights(6, 10, 1))], bias(6, 2)).unwrap();
        let y = builder.function(h, function).unwrap();
        let network = builder.finish(&[("y", y)]).unwrap();
        let design = design(&network, &[table.view()], &Options::default());
        let step = &design.approximations()[0];
        assert_eq!((step.degree + 1).next_power_of_two(), 1 << step.depth, "{step:?}");
        let program = Program::new(&design, client.parameters(), 64).unwrap();
        let simulation = program.simulate(&network, &client.encoder, &[few], 1).unwrap();
        assert!(simulation.approximation <= step.largest * 1.05 + 1e-9, "{step:?} {}", simulation.approximation);
        let found: Vec<_> = client.run(&program, &[few]).into_iter().map(|answer| answer.values).collect();
        assert!(program.distance(&found, &simulation.exact) < 4.0 * simulation.noise, "{function:?}");
        let rms = (&simulation.exact[0] - &network.run(&[few]).unwrap()[0]).mapv(|x| x * x).mean().unwrap().sqrt();
        let most = design.encoding(y).radius().iter().copied().fold(0.0, f64::max);
        println!(
            "{function:?}: degree {}, largest {:.1e}, rms {:.1e}, found {:.1e}",
            step.degree, step.largest, step.rms, rms
        );
        assert!(rms < 2.0 * step.rms * most, "{function:?}: {rms:e}, stated {:e}", step.rms * most);
    }
}

#[test]
fn powers_are_exact_and_take_the_fewest_levels() {
    let mut client = Client::new("insecure_n11_depth24_scale52");
    let table = rows(100, 5, 7);
    let few = table.slice(s![..8, ..]);
    for (n, depth) in [(1, 0), (2, 1), (3, 2), (5, 3), (7, 3), (8, 3), (13, 4)] {
        let mut builder = NetworkBuilder::new();
        let x = builder.input("x", 5).unwrap();
        let h = builder.affine(vec![(x, weights(4, 5, 1))], bias(4, 2)).unwrap();
        let y = builder.function(h, Function::Power(n)).unwrap();
        let network = builder.finish(&[("y", y)]).unwrap();
        let design = design(&network, &[table.view()], &Options::default());
        assert_eq!((design.depth(), design.approximations()[0].depth), (depth + 1, depth));
        let program = Program::new(&design, client.parameters(), 8).unwrap();
        let simulation = program.simulate(&network, &client.encoder, &[few], 1).unwrap();
        assert!(simulation.approximation < 1e-9, "{n}: {}", simulation.approximation);
        let found: Vec<_> = client.run(&program, &[few]).into_iter().map(|answer| answer.values).collect();
        assert!(program.distance(&found, &simulation.exact) < 4.0 * simulation.noise, "{n}");
    }
}

#[test]
fn elements_of_different_ranges_share_relu_and_get_their_own_sigmoid() {
    let mut client = Client::new(PRESET);
    let table = rows(200, 8, 9);
    let few = table.slice(s![..32, ..]);
    let factors: Vec<f64> = (0..8).map(|i| 0.4 * 1.3f64.powi(i)).collect();
    // Narrow ranges around different middles.
    let middles: Vec<f64> = (0..8).map(|i| 2.0 * f64::from(i) - 7.0).collect();
    for (function, bias, per_element) in [
        (Function::Relu, vec![0.0; 8], false),
        (Function::Sigmoid, middles.clone(), true),
        (Function::Sigmoid, vec![0.0; 8], false),
    ] {
        let mut builder = NetworkBuilder::new();
        let x = builder.input("x", 8).unwrap();
        let h = builder.affine(vec![(x, SparseMatrix::diagonal(&factors).unwrap())], bias).unwrap();
        let y = builder.function(h, function).unwrap();
        let z = builder.affine(vec![(y, weights(3, 8, 1))], vec![0.1; 3]).unwrap();
        let network = builder.finish(&[("z", z), ("y", y)]).unwrap();
        let design = design(&network, &[table.view()], &Options::default());
        assert_eq!(design.approximations()[0].per_element, per_element, "{:?}", design.approximations());
        // One vector, and four of two elements.
        for batch in [32, 512] {
            let program = Program::new(&design, client.parameters(), batch).unwrap();
            let simulation = program.simulate(&network, &client.encoder, &[few], 1).unwrap();
            let found: Vec<_> = client.run(&program, &[few]).into_iter().map(|answer| answer.values).collect();
            assert!(program.distance(&found, &simulation.exact) < 4.0 * simulation.noise);
            assert!(simulation.approximation < 0.1);
        }
    }
}

#[test]
fn functions_of_products_and_of_functions_have_the_ranges_of_these() {
    let mut client = Client::new("insecure_n11_depth24_scale52");
    let table = rows(200, 8, 9);
    let mut builder = NetworkBuilder::new();
    let x = builder.input("x", 8).unwrap();
    let h = builder.affine(vec![(x, weights(5, 8, 1))], bias(5, 2)).unwrap();
    let g = builder.affine(vec![(x, weights(5, 8, 3))], bias(5, 4)).unwrap();
    let product = builder.product(h, g).unwrap();
    let sigmoid = builder.function(product, Function::Sigmoid).unwrap();
    let tanh = builder.function(h, Function::Tanh).unwrap();
    let relu = builder.function(tanh, Function::Relu).unwrap();
    let gated = builder.product(sigmoid, relu).unwrap();
    let network = builder.finish(&[("gated", gated), ("sigmoid", sigmoid)]).unwrap();
    let design = design(&network, &[table.view()], &Options::default());
    let per_element: Vec<bool> = design.approximations().iter().map(|step| step.per_element).collect();
    assert_eq!(per_element, [true, false, false]);
    for batch in [1, 64] {
        let program = Program::new(&design, client.parameters(), batch).unwrap();
        let few = table.slice(s![..batch, ..]);
        let simulation = program.simulate(&network, &client.encoder, &[few], 1).unwrap();
        let found: Vec<_> = client.run(&program, &[few]).into_iter().map(|answer| answer.values).collect();
        assert!(program.distance(&found, &simulation.exact) < 4.0 * simulation.noise);
        assert!(simulation.approximation < 0.05, "{}", simulation.approximation);
    }
}

#[test]
fn rows_outside_the_calibrated_ranges_are_named() {
    let mut client = Client::new(PRESET);
    let network = mlp(&[4, 8, 2], Function::Relu);
    let table = rows(100, 4, 3);
    let small = table.mapv(|x| 0.3 * x);
    // Polynomials of a high degree would grow so far outside that the whole batch is spoiled.
    let short = Options { kink_error: 2f64.powi(-6), ..Options::default() };
    let design = design(&network, &[small.view()], &short);
    let program = Program::new(&design, client.parameters(), 16).unwrap();
    let mut mixed = small.slice(s![..16, ..]).to_owned();
    mixed.row_mut(5).fill(1.1);
    assert_eq!(program.inputs()[0].outside(mixed.view()), [5]);
    let answer = client.run(&program, &[mixed.view()]).remove(0);
    assert_eq!(answer.outside, [5]);
    let expected = network.run(&[mixed.view()]).unwrap().remove(0);
    let good = |values: &ndarray::Array2<f64>| values.slice(s![..5, ..]).to_owned();
    assert!((good(&answer.values) - good(&expected)).iter().all(|error| error.abs() < 0.05));
    mixed.row_mut(5).fill(3.0);
    let refused = program.inputs()[0].arrange(mixed.view()).unwrap_err().to_string();
    assert!(refused.contains("row 5") && refused.contains("4 times"), "{refused}");
}

#[test]
fn designs_that_cannot_be_are_refused() {
    let network = mlp(&[4, 8, 2], Function::Relu);
    let table = rows(50, 4, 3);
    let ranges = Ranges::of(&network, &[table.view()]).unwrap();
    let strict = Options { kink_error: 1e-6, ..Options::default() };
    let refused = Design::new(&network, &ranges, &strict).unwrap_err().to_string();
    assert!(refused.contains("Relu") && refused.contains("degree above 63"), "{refused}");
    assert!(Design::new(&network, &ranges, &Options { margin: 0.5, ..Options::default() }).is_err());
    let other = mlp(&[4, 9, 2], Function::Relu);
    assert!(Design::new(&other, &ranges, &Options::default()).unwrap_err().to_string().contains("ranges"));

    let mut bad = table.clone();
    bad[(7, 2)] = f64::NAN;
    let refused = Ranges::of(&network, &[bad.view()]).unwrap_err().to_string();
    assert!(refused.contains("row 7") && refused.contains("column 2"), "{refused}");
    bad.column_mut(2).fill(4.0);
    assert_eq!(Ranges::of(&network, &[bad.view()]).unwrap().constant_inputs(), [("x".to_string(), vec![2])]);
    let wrong: ArrayView2<f64> = table.slice(s![.., ..3]);
    assert!(Ranges::of(&network, &[wrong]).is_err() && network.run(&[]).is_err());
    let mut builder = NetworkBuilder::new();
    let x = builder.input("x", 1).unwrap();
    let e = builder.affine(vec![(x, SparseMatrix::diagonal(&[1e4]).unwrap())], vec![0.0]).unwrap();
    let y = builder.function(e, Function::Exp).unwrap();
    let network = builder.finish(&[("y", y)]).unwrap();
    let refused = Ranges::of(&network, &[ndarray::array![[0.0], [1.0]].view()]).unwrap_err().to_string();
    assert!(refused.contains("value 2 for row 1"), "{refused}");
}
