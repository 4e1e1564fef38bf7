//! Networks that need more levels than there are: bootstraps in the middle.

use ndarray::s;
use unspoken_ckks::{CkksParameters, CostModel, Preset};
use unspoken_network::{Design, Function, Network, NetworkBuilder, Options, Program, SparseMatrix, Wishes, choose};
use unspoken_rlwe::KeyKind;

use crate::common::{Client, bias, design, mixed, mlp, rows, weights};

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

fn parameters(preset: &str) -> CkksParameters {
    Preset::find(preset).unwrap().build().unwrap()
}

/// Follows the steps of a program: no step takes a value that is too low, bootstraps start and end where they can, and
/// the seconds are those of the whole.
fn replay(program: &Program, design: &Design) {
    let (parameters, network) = (program.parameters(), design.network());
    let bootstrap = program.bootstrap().unwrap();
    let (entry, top) = (bootstrap.input_level(), bootstrap.output_level());
    let mut levels = vec![None; network.steps().len()];
    network.inputs().iter().for_each(|(_, value)| levels[value.index()] = Some(program.input_level()));
    let mut refreshed = 0;
    for step in program.steps() {
        let arguments = network.steps()[step.value.index()].arguments();
        for &(value, vectors) in &step.refreshed {
            assert!(arguments.contains(&value) && levels[value.index()] >= Some(entry) && vectors > 0, "{step:?}");
            levels[value.index()] = Some(top);
            refreshed += vectors;
        }
        assert!(arguments.iter().all(|value| levels[value.index()] >= Some(step.level)), "{step:?}");
        levels[step.value.index()] = Some(step.output_level);
    }
    assert_eq!(refreshed, program.bootstraps());
    let seconds: f64 = program.steps().iter().map(|step| step.seconds + step.bootstrap_seconds).sum();
    // Beside the last drops to level 0.
    assert!((seconds / program.seconds(&CostModel::nominal(parameters)) - 1.0).abs() < 0.05);
}

#[test]
fn deep_residual_networks_run_encrypted_as_simulated() {
    let network = residual(5, 16);
    let table = rows(256, 12, 1);
    let design = design(&network, &[table.view()], &coarse());
    // One vector of each value, sparse or not; and two vectors, which share the maps of a bootstrap.
    for (preset, batch) in [
        ("insecure_n11_boot_depth21_scale35", 8),
        ("insecure_n11_boot_depth15_scale40", 64),
        ("insecure_n11_boot_depth12_scale45", 16),
        ("insecure_n11_boot_depth10_scale50", 128),
    ] {
        let mut client = Client::new(preset);
        let program = Program::new(&design, client.parameters(), batch).unwrap();
        replay(&program, &design);
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
        let top = client.parameters().circuit_level();
        assert!(program.bootstraps() >= design.depth().div_ceil(top) - 1 && design.depth() > top);
        assert!(simulation.overflows.is_empty() && simulation.outside.is_empty(), "{:?}", simulation.overflows);
        assert!(noise < 4.0 * simulation.noise, "{noise:e}, simulated {:e}", simulation.noise);
        assert!(simulation.noise < 2e-3 && simulation.approximation < 0.03);
        let clear = network.run(&[few]).unwrap();
        assert!(program.distance(&found, &clear) < simulation.approximation + 4.0 * simulation.noise);
    }
}

#[test]
fn the_value_that_skips_a_block_is_bootstrapped_too() {
    // `x` is used again after ten levels, and its other use needs more than there are.
    let mut builder = NetworkBuilder::new();
    let x = builder.input("x", 8).unwrap();
    let mut h = x;
    for layer in 0..6 {
        let sum = builder.affine(vec![(h, weights(8, 8, 100 * layer))], bias(8, layer)).unwrap();
        h = builder.function(sum, Function::Tanh).unwrap();
    }
    let sum = builder.affine(vec![(h, weights(8, 8, 1)), (x, weights(8, 8, 2))], bias(8, 3)).unwrap();
    let last = builder.function(sum, Function::Tanh).unwrap();
    let product = builder.product(last, x).unwrap();
    let network = builder.finish(&[("product", product), ("sum", sum)]).unwrap();
    let table = rows(64, 8, 1);
    let design = design(&network, &[table.view()], &coarse());
    let mut client = Client::new("insecure_n11_boot_depth12_scale45");
    let program = Program::new(&design, client.parameters(), 16).unwrap();
    replay(&program, &design);
    let few = table.slice(s![..16, ..]);
    let simulation = program.simulate(&network, &client.encoder, &[few], 1).unwrap();
    let found: Vec<_> = client.run(&program, &[few]).into_iter().map(|answer| answer.values).collect();
    let noise = program.distance(&found, &simulation.exact);
    println!("{} bootstraps: noise {noise:.1e}, simulated {:.1e}", program.bootstraps(), simulation.noise);
    assert!(program.bootstraps() > 1 && simulation.overflows.is_empty());
    assert!(noise < 4.0 * simulation.noise && simulation.noise < 1e-4);
}

/// The results of powers and products have other scales, which a bootstrap keeps.
#[test]
fn powers_and_products_are_bootstrapped_too() {
    let mut builder = NetworkBuilder::new();
    let input = builder.input("x", 8).unwrap();
    // Values stay below 1, so that their powers do not grow.
    let small = |seed: usize| SparseMatrix::dense((8, 8), |r, c| 0.15 * mixed(seed + 8 * r + c)).unwrap();
    let mut x = builder.affine(vec![(input, small(1))], bias(8, 1)).unwrap();
    for layer in 0..7 {
        let cube = builder.function(x, Function::Power(3)).unwrap();
        let product = builder.product(cube, x).unwrap();
        let sum = vec![(product, small(100 * layer)), (input, small(50 + layer))];
        x = builder.affine(sum, bias(8, layer)).unwrap();
    }
    let network = builder.finish(&[("y", x)]).unwrap();
    let table = rows(64, 8, 1);
    let design = design(&network, &[table.view()], &coarse());
    for preset in ["insecure_n11_boot_depth15_scale40", "insecure_n11_boot_depth10_scale50"] {
        let mut client = Client::new(preset);
        let program = Program::new(&design, client.parameters(), 16).unwrap();
        replay(&program, &design);
        let few = table.slice(s![..16, ..]);
        let simulation = program.simulate(&network, &client.encoder, &[few], 1).unwrap();
        let found: Vec<_> = client.run(&program, &[few]).into_iter().map(|answer| answer.values).collect();
        let noise = program.distance(&found, &simulation.exact);
        println!(
            "{preset}: {} bootstraps: noise {noise:.1e}, simulated {:.1e}",
            program.bootstraps(),
            simulation.noise
        );
        assert!(program.bootstraps() > 0 && simulation.overflows.is_empty() && simulation.approximation < 1e-9);
        assert!(noise < 4.0 * simulation.noise && simulation.noise < 1e-3);
    }
}

#[test]
fn a_design_that_fits_is_not_bootstrapped() {
    let network = mlp(&[6, 8, 2], Function::Relu);
    let table = rows(60, 6, 1);
    let design = design(&network, &[table.view()], &Options::default());
    for preset in ["insecure_n11_boot_depth15_scale40", "insecure_n11_boot_depth10_scale50"] {
        let program = Program::new(&design, &parameters(preset), 16).unwrap();
        assert_eq!(program.bootstraps(), 0);
        let is_of_bootstraps = |kind: KeyKind| matches!(kind, KeyKind::Encapsulation | KeyKind::Decapsulation { .. });
        assert!(!program.key_plan().iter().any(|(kind, _)| is_of_bootstraps(kind)));
        // Where all levels have the size of the scale, levels are those without bootstraps.
        let shift = if preset.ends_with("50") { 0 } else { 2 };
        assert_eq!(program.input_level(), design.depth() + shift, "{preset}");
    }
}

/// A wide map at the begin takes longer than a bootstrap, which would let it run at a lower level.
#[test]
fn bootstraps_that_only_save_time_are_not_made() {
    let network = mlp(&[1000, 1000, 3, 3, 3], Function::Power(8));
    let table = rows(64, 1000, 1);
    let design = design(&network, &[table.view()], &Options::default());
    let program = Program::new(&design, &parameters("insecure_n11_boot_depth10_scale50"), 1).unwrap();
    assert_eq!((program.bootstraps(), program.input_level(), design.depth()), (0, 13, 13));
}

#[test]
fn memory_and_levels_that_are_too_few_are_refused_with_numbers() {
    let network = residual(5, 16);
    let table = rows(256, 12, 1);
    let design = design(&network, &[table.view()], &coarse());
    let preset = "insecure_n11_boot_depth15_scale40";
    let wishes = Wishes { presets: vec![preset.into()], rows: Some(16), ..Wishes::default() };
    let choice = choose(&design, &[table.view()], &wishes).unwrap();
    let program = &choice.program;
    assert!(program.bootstraps() > 0 && choice.simulation.noise < wishes.noise);
    // The keys and matrices of bootstraps count.
    let keys = program.key_plan().memory_bytes(program.parameters().ring());
    let needed = program.prepared_bytes() + program.working_bytes() + keys;
    let refused = choose(&design, &[table.view()], &Wishes { memory: needed / 2, ..wishes.clone() }).err().unwrap();
    let refused = refused.to_string();
    assert!(
        refused.contains("MiB or more of memory") && refused.contains(&format!("{} MiB", needed >> 21)),
        "{refused}"
    );
    assert!(choose(&design, &[table.view()], &Wishes { memory: needed + (1 << 20), ..wishes.clone() }).is_ok());
    let few = choose(&design, &[table.view()], &Wishes { key_bytes: choice.key_bytes - 1, ..wishes }).err().unwrap();
    let needed = format!("{} MiB or more of keys", choice.key_bytes >> 20);
    assert!(few.to_string().contains(&needed), "{few}");
    // A preset that does not bootstrap has too few levels, and one whose levels end too soon for one polynomial.
    let levelled = Program::new(&design, &parameters("insecure_n11_depth24_scale52"), 16).err().unwrap().to_string();
    assert!(levelled.contains("24 levels") && levelled.contains("one that bootstraps"), "{levelled}");
    // More levels for one polynomial than there are.
    let shallow = mlp(&[4, 4, 2], Function::Relu);
    let precise = Options { kink_error: 2f64.powi(-11), most_degree: 255, ..Options::default() };
    let precise = crate::common::design(&shallow, &[rows(256, 4, 1).view()], &precise);
    let refused = Program::new(&precise, &parameters("n15_boot_depth5_scale30"), 16).err().unwrap().to_string();
    assert!(refused.contains("from level 2 to level 7") && refused.contains("steps of up to 7 levels"), "{refused}");
}

#[test]
fn a_choice_bootstraps_where_no_preset_has_the_levels() {
    let network = residual(5, 16);
    let table = rows(256, 12, 1);
    let design = design(&network, &[table.view()], &coarse());
    assert!(design.depth() > 33);
    let wishes = Wishes { rows: Some(4), ..Wishes::default() };
    let choice = choose(&design, &[table.view()], &wishes).unwrap();
    let program = &choice.program;
    let name = program.parameters().name();
    println!(
        "{name}: {} bootstraps, {} s, keys {} MB, noise {:.1e}",
        program.bootstraps(),
        choice.seconds,
        choice.key_bytes / 1_000_000,
        choice.simulation.noise
    );
    assert!(name.contains("_boot_") && !name.contains("insecure") && program.bootstraps() > 0);
    assert!(choice.simulation.noise < wishes.noise && choice.simulation.overflows.is_empty());
}
