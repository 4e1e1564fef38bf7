//! Networks that need more levels than there are: bootstraps in the middle.

use ndarray::s;
use unspoken_ckks::{CostModel, Preset, Simulator};
use unspoken_network::{
    Design, Function, Network, NetworkBuilder, Options, Program, SparseMatrix, ValueId, Wishes, choose,
};

use crate::common::{Client, bias, design, mlp, rows, weights};

/// Residual blocks: `r(x + B f(A x))`. Two values are live at a time, at several levels.
fn residual(blocks: usize, width: usize) -> Network {
    let mut builder = NetworkBuilder::new();
    let input = builder.input("x", 12).unwrap();
    let mut x = builder.affine(vec![(input, weights(width, 12, 5))], bias(width, 6)).unwrap();
    for block in 0..blocks {
        let hidden = builder.affine(vec![(x, weights(width, width, 1000 * block))], bias(width, block)).unwrap();
        let hidden = builder.function(hidden, Function::Silu).unwrap();
        let keep = SparseMatrix::diagonal(&vec![0.7; width]).unwrap();
        let sum = vec![(x, keep), (hidden, weights(width, width, 1000 * block + 500))];
        let sum = builder.affine(sum, bias(width, 9 + block)).unwrap();
        x = builder.function(sum, Function::Silu).unwrap();
    }
    let scores = builder.affine(vec![(x, weights(3, width, 7))], bias(3, 8)).unwrap();
    builder.finish(&[("scores", scores)]).unwrap()
}

/// Polynomials of three levels for most functions.
fn coarse() -> Options {
    Options { smooth_error: 2f64.powi(-9), ..Options::default() }
}

#[test]
fn deep_residual_networks_run_encrypted_as_simulated() {
    let network = residual(5, 16);
    let table = rows(256, 12, 1);
    let design = design(&network, &[table.view()], &coarse());
    for (preset, batch) in [
        ("insecure_n11_boot_depth15_scale40", 16),
        ("insecure_n11_boot_depth12_scale45", 64),
        ("insecure_n11_boot_depth10_scale50", 4),
    ] {
        let mut client = Client::new(preset);
        assert!(design.depth() > 2 * client.parameters().circuit_level() - 8, "{}", design.depth());
        let program = Program::new(&design, client.parameters(), batch).unwrap();
        let few = table.slice(s![..batch, ..]);
        let simulation = program.simulate(&network, &client.encoder, &[few], 1).unwrap();
        let found: Vec<_> = client.run(&program, &[few]).into_iter().map(|answer| answer.values).collect();
        let noise = program.distance(&found, &simulation.exact);
        println!(
            "{preset}, batch {batch}: {} levels, inputs at {}, {} bootstraps, {} keys, noise {noise:.1e}, simulated \
             {:.1e}, polynomials {:.1e}",
            design.depth(),
            program.input_level(),
            program.bootstraps(),
            program.key_plan().len(),
            simulation.noise,
            simulation.approximation
        );
        assert!(program.bootstraps() >= 2);
        assert!(simulation.overflows.is_empty(), "{:?}", simulation.overflows);
        assert!(noise < 4.0 * simulation.noise, "{noise:e}, simulated {:e}", simulation.noise);
        assert!(simulation.noise < 1e-3 && simulation.approximation < 0.05);
    }
}
