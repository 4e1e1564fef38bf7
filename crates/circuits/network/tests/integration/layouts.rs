//! Every layout: periods, sums, several vectors, several inputs.

use ndarray::{Array2, ArrayView2, s};
use unspoken_ckks::Simulator;
use unspoken_network::{Arrangement, Function, Network, NetworkBuilder, Options, Order, Program, SparseMatrix};
use unspoken_rlwe::KeyPlan;

use crate::common::{Client, bias, design, mixed, mlp, rows, weights};

const PRESET: &str = "insecure_n11_depth12_scale40";

/// The orders of rows that a batch may have.
fn orders(batch: usize) -> Vec<Arrangement> {
    let orders = if batch == 1 { &[Order::Interleaved][..] } else { &[Order::Interleaved, Order::Consecutive] };
    orders.iter().map(|&order| Arrangement { batch, order }).collect()
}

/// Runs `count` rows in a batch of this size of a network, in each order, encrypted and simulated.
fn check(client: &mut Client, network: &Network, batch: usize, count: usize) {
    orders(batch).into_iter().for_each(|arrangement| check_one(client, network, arrangement, count));
}

fn check_one(client: &mut Client, network: &Network, arrangement: Arrangement, count: usize) {
    let table = |(i, (_, value)): (usize, &(&str, _))| rows(64.max(count), network.size(*value), 9999 * i);
    let tables: Vec<Array2<f64>> = network.inputs().iter().enumerate().map(table).collect();
    let calibration: Vec<ArrayView2<f64>> = tables.iter().map(|table| table.view()).collect();
    let design = design(network, &calibration, &Options::default());
    let program = Program::new(&design, client.parameters(), arrangement).unwrap();
    let few: Vec<ArrayView2<f64>> = tables.iter().map(|table| table.slice(s![..count, ..])).collect();
    let simulation = program.simulate(network, &client.encoder, &few, 1).unwrap();
    assert_eq!((simulation.outside.len(), simulation.overflows.len()), (0, 0));
    let found: Vec<Array2<f64>> = client.run(&program, &few).into_iter().map(|answer| answer.values).collect();
    let (noise, error) = (program.distance(&found, &simulation.exact), simulation.approximation);
    println!(
        "{arrangement:?}, {} keys, level {}: noise {noise:.1e}, simulated {:.1e}, polynomials {error:.1e}",
        program.key_plan().len(),
        program.input_level(),
        simulation.noise
    );
    assert!(noise < 4.0 * simulation.noise, "{noise:e}, simulated {:e}", simulation.noise);
    let stated = design.approximations().iter().map(|step| step.largest).sum::<f64>();
    assert!(error <= 8.0 * stated + 1e-9, "{error:e}, stated {stated:e}");
    assert_eq!(program.key_plan(), &used_keys(&program, client, &few));
}

/// The keys that a run uses.
fn used_keys(program: &Program, client: &Client, rows: &[ArrayView2<f64>]) -> KeyPlan {
    let simulator = Simulator::new(&client.encoder, 2);
    let encrypt = |slots: &Vec<_>| simulator.encrypt(slots, program.input_level(), program.scale()).unwrap();
    let ports = program.inputs().iter().zip(rows);
    let inputs: Vec<Vec<_>> = ports.map(|(p, r)| p.arrange(*r).unwrap().iter().map(encrypt).collect()).collect();
    program.evaluate(&simulator, &inputs).unwrap();
    simulator.key_plan()
}

#[test]
fn dense_layers_of_all_sizes_and_batches() {
    let mut client = Client::new(PRESET);
    // Sums over copies, fan-out, several vectors of results, of arguments and of both.
    for (sizes, cases) in [
        (&[30, 1][..], &[(1, 1), (16, 16), (16, 5), (64, 64), (1024, 1000)][..]),
        (&[5, 12, 3], &[(1, 1), (64, 64), (256, 200), (1024, 1024)]),
        (&[12, 5, 12], &[(4, 4), (128, 3), (512, 512)]),
        (&[33, 40, 2], &[(8, 8), (64, 64)]),
    ] {
        let network = mlp(sizes, Function::Power(2));
        for &(batch, count) in cases {
            check(&mut client, &network, batch, count);
        }
    }
}

#[test]
fn real_slots_and_small_scales() {
    let network = mlp(&[9, 17, 4], Function::Sigmoid);
    for preset in ["insecure_n11_real_depth12_scale40", "insecure_n11_depth17_scale30", "insecure_n11_depth9_scale50"] {
        let mut client = Client::new(preset);
        for (batch, count) in [(1, 1), (64, 50), (256, 256)] {
            check(&mut client, &network, batch, count);
        }
    }
}

#[test]
fn two_inputs_a_residual_sum_and_a_product() {
    let mut client = Client::new(PRESET);
    let mut builder = NetworkBuilder::new();
    let (x, y) = (builder.input("x", 6).unwrap(), builder.input("y", 20).unwrap());
    let h = builder.affine(vec![(x, weights(10, 6, 1)), (y, weights(10, 20, 2))], bias(10, 3)).unwrap();
    let f = builder.function(h, Function::Tanh).unwrap();
    let residual = vec![(h, SparseMatrix::diagonal(&[0.5; 10]).unwrap()), (f, weights(10, 10, 4))];
    let r = builder.affine(residual, vec![0.0; 10]).unwrap();
    let gate = builder.affine(vec![(x, weights(10, 6, 5))], bias(10, 6)).unwrap();
    let product = builder.product(r, gate).unwrap();
    let z = builder.affine(vec![(product, weights(3, 10, 7))], bias(3, 8)).unwrap();
    let cube = builder.function(z, Function::Power(3)).unwrap();
    let network = builder.finish(&[("z", z), ("product", product), ("cube", cube)]).unwrap();
    assert!(network.fused().unwrap().steps().len() <= network.steps().len());
    for (batch, count) in [(1, 1), (32, 20), (128, 128)] {
        check(&mut client, &network, batch, count);
    }
}

#[test]
fn a_convolution_and_a_pooling_as_sparse_matrices() {
    let mut client = Client::new(PRESET);
    // Three kernels of 3 x 3 on 10 x 10 pixels, then averages of 2 x 2.
    let convolution = (0..3 * 64).flat_map(|out| {
        let (channel, y, x) = (out / 64, out % 64 / 8, out % 8);
        (0..9).map(move |k| (out, (y + k / 3) * 10 + x + k % 3, mixed(channel * 9 + k) / 3.0))
    });
    let convolution = SparseMatrix::new((192, 100), convolution).unwrap();
    let pooling = (0..192).map(|input| {
        let (channel, y, x) = (input / 64, input % 64 / 8, input % 8);
        (channel * 16 + y / 2 * 4 + x / 2, input, 0.25)
    });
    let pooling = SparseMatrix::new((48, 192), pooling).unwrap();
    let mut builder = NetworkBuilder::new();
    let x = builder.input("pixels", 100).unwrap();
    let c = builder.affine(vec![(x, convolution)], bias(192, 1)).unwrap();
    let a = builder.function(c, Function::Power(2)).unwrap();
    let p = builder.affine(vec![(a, pooling)], vec![0.0; 48]).unwrap();
    let dense = builder.affine(vec![(p, weights(10, 48, 2))], bias(10, 3)).unwrap();
    let network = builder.finish(&[("scores", dense)]).unwrap();
    // One vector, three vectors of 64 positions, and six of 32.
    for (batch, count) in [(4, 4), (16, 16), (32, 9)] {
        check(&mut client, &network, batch, count);
    }
    // The pooling and the dense layer become one map.
    assert_eq!(network.fused().unwrap().steps().len(), 4);
}

#[test]
fn answers_have_nothing_but_results() {
    let client = Client::new(PRESET);
    let network = mlp(&[20, 9, 3], Function::Sigmoid);
    let table = rows(64, 20, 1);
    let design = design(&network, &[table.view()], &Options::default());
    for arrangement in [1, 16, 128].into_iter().flat_map(orders) {
        let program = Program::new(&design, client.parameters(), arrangement).unwrap();
        let simulator = Simulator::new(&client.encoder, 1);
        let (port, few) = (&program.inputs()[0], table.slice(s![..arrangement.batch.min(64), ..]));
        let encrypt = |slots: &Vec<_>| simulator.encrypt(slots, program.input_level(), program.scale()).unwrap();
        let inputs = port.arrange(few).unwrap().iter().map(encrypt).collect();
        let answer = &program.evaluate(&simulator, &[inputs]).unwrap()[0];
        let (layout, slots) = (program.outputs()[0].layout().clone(), answer[0].exact());
        for position in 0..layout.positions() {
            for row in 0..arrangement.batch {
                let (value, element) = (slots[layout.slot(position, row)], position % layout.period());
                let expected = if element < 3 { slots[layout.slot(element, row)].re } else { 0.0 };
                assert!((value - expected).norm() < 1e-9, "position {position} of row {row} tells more than results");
            }
        }
    }
}

#[test]
fn weights_that_are_not_kept_give_the_same_results() {
    let mut client = Client::new(PRESET);
    let network = mlp(&[200, 256, 5], Function::Power(2));
    let table = rows(64, 200, 1);
    let design = design(&network, &[table.view()], &Options::default());
    for batch in [1, 4] {
        let plan = || Program::new(&design, client.parameters(), batch).unwrap();
        let kept = plan();
        let streamed = plan().within(&design, kept.memory() - 1).unwrap();
        assert!(streamed.prepared_bytes() < kept.prepared_bytes() && streamed.memory() < kept.memory());
        assert!(streamed.cost().encoded > kept.cost().encoded);
        assert_eq!(streamed.key_plan(), kept.key_plan());
        assert_eq!(plan().within(&design, kept.memory()).unwrap().prepared_bytes(), kept.prepared_bytes());
        assert!(plan().within(&design, 1 << 20).is_err());
        let rows = table.slice(s![..batch, ..]);
        let expected = &network.run(&[rows]).unwrap()[0];
        let found = [&kept, &streamed].map(|program| client.run(program, &[rows]).swap_remove(0).values);
        let [kept, streamed] = &found;
        let largest =
            |a: &Array2<f64>, b: &Array2<f64>| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(largest(kept, streamed) < 1e-4 && largest(kept, expected) < 1e-3);
    }
}
