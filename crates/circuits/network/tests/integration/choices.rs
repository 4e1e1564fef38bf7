//! Networks, programs and choices: what fits, and what is refused.

use ndarray::s;
use unspoken_ckks::{CkksError, Encoder, Preset, Simulator};
use unspoken_network::{
    Design, Function, Layout, NetworkBuilder, NetworkError, Options, Port, Program, Ranges, SparseMatrix, Wishes,
    choose,
};
use unspoken_rlwe::RlweError;

use crate::common::{Client, bias, design, mlp, rows, weights};

#[test]
fn fused_networks_are_the_same_and_shorter() {
    let mut builder = NetworkBuilder::new();
    let x = builder.input("x", 7).unwrap();
    let normal = SparseMatrix::diagonal(&[0.5; 7]).unwrap();
    let n = builder.affine(vec![(x, normal)], bias(7, 1)).unwrap();
    let h = builder.affine(vec![(n, weights(5, 7, 2))], bias(5, 3)).unwrap();
    let f = builder.function(h, Function::Tanh).unwrap();
    let twice = vec![(f, weights(4, 5, 4)), (f, weights(4, 5, 5))];
    let y = builder.affine(twice, bias(4, 6)).unwrap();
    // Its composition has too many entries.
    let wide = builder.affine(vec![(y, weights(1, 4, 7))], bias(1, 8)).unwrap();
    let back = builder.affine(vec![(wide, weights(60, 1, 9))], bias(60, 10)).unwrap();
    let unused = builder.function(back, Function::Exp).unwrap();
    let network = builder.finish(&[("back", back), ("y", y)]).unwrap();
    let fused = network.fused().unwrap();
    assert_eq!((fused.steps().len(), unused.index()), (6, 7));
    let table = rows(70, 7, 1);
    let ranges = Ranges::of(&network, &[table.view()]).unwrap();
    let refused = Design::new(&network, &ranges, &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("value 7, which no output needs"), "{refused}");
    let (one, other) = (network.run(&[table.view()]).unwrap(), fused.run(&[table.view()]).unwrap());
    assert_eq!(one[0].dim(), (70, 60));
    for (one, other) in one.iter().zip(&other) {
        assert!((one - other).iter().all(|difference| difference.abs() < 1e-12));
    }
}

#[test]
fn networks_that_do_not_fit_are_refused() {
    let mut builder = NetworkBuilder::new();
    let x = builder.input("x", 3).unwrap();
    assert!(builder.input("x", 2).is_err() && builder.input("y", 0).is_err());
    assert!(builder.affine(vec![], vec![0.0]).is_err());
    assert!(builder.affine(vec![(x, weights(2, 4, 0))], vec![0.0; 2]).is_err());
    assert!(builder.affine(vec![(x, weights(2, 3, 0))], vec![f64::INFINITY; 2]).is_err());
    assert!(builder.function(x, Function::Power(0)).is_err());
    let y = builder.affine(vec![(x, weights(2, 3, 0))], vec![0.0; 2]).unwrap();
    assert!(builder.product(x, y).is_err());
    assert!(builder.clone().finish(&[]).is_err() && builder.finish(&[("x", x)]).is_err());
}

#[test]
fn programs_that_do_not_fit_are_refused_before_they_cost_anything() {
    let network = mlp(&[6, 8, 2], Function::Relu);
    let table = rows(60, 6, 1);
    let design = design(&network, &[table.view()], &Options::default());
    let shallow = Preset::find("n13_depth3_scale30").unwrap().build().unwrap();
    let refused = Program::new(&design, &shallow, 16).err().unwrap().to_string();
    assert!(refused.contains("3 levels") && refused.contains("needed 7 levels"), "{refused}");
    let client = Client::new("insecure_n11_depth12_scale40");
    for batch in [0, 3, 2048] {
        assert!(Program::new(&design, client.parameters(), batch).is_err(), "{batch}");
    }
    let program = Program::new(&design, client.parameters(), 16).unwrap();
    assert!(program.inputs()[0].arrange(table.slice(s![..17, ..])).is_err());
    assert!(program.outputs()[0].read::<Vec<_>>(&[], 1).is_err());
    let port =
        |middle: Vec<f64>, radius: Vec<f64>| Port::new("x", Layout::new(2, 1024, 16).unwrap(), middle, radius, 1.0);
    assert!(port(vec![0.0; 2], vec![1.0; 2]).is_ok());
    assert!(port(vec![0.0; 3], vec![1.0; 2]).is_err() && port(vec![0.0; 2], vec![1.0, 0.0]).is_err());
    assert!(Layout::new(0, 1024, 1).is_err() && Layout::with_period(5, 1024, 16, 4).is_err());
    let simulator = Simulator::new(&client.encoder, 1).with_keys(Default::default());
    let zero = |level| simulator.encrypt(&[0.0.into()], level, program.scale()).unwrap();
    assert!(matches!(program.evaluate(&simulator, &[]), Err(NetworkError::Mismatch { .. })));
    let missing = program.evaluate(&simulator, &[vec![zero(7)]]);
    assert!(matches!(missing, Err(NetworkError::Ckks(CkksError::Rlwe(RlweError::MissingKeys { .. })))));
    let low = program.evaluate(&simulator, &[vec![zero(6)]]);
    assert!(matches!(low, Err(NetworkError::Ckks(CkksError::Level { .. }))));
}

#[test]
fn a_choice_is_cheap_and_precise_enough() {
    let network = mlp(&[30, 1], Function::Relu);
    let table = rows(256, 30, 1);
    let design = design(&network, &[table.view()], &Options::default());
    let wishes = Wishes { rows: Some(100), ..Wishes::default() };
    let choice = choose(&design, &[table.view()], &wishes).unwrap();
    let program = &choice.program;
    let name = program.parameters().name();
    assert_eq!((name, program.batch(), program.input_level()), ("n13_depth3_scale30", 128, 1));
    assert!(program.query_bytes() < 100_000 && choice.key_bytes < 5_000_000);
    assert!(choice.simulation.noise < wishes.noise);
    // The run at the secure preset is as precise as simulated.
    let mut client = Client::new(name);
    let few = table.slice(s![..100, ..]);
    let found: Vec<_> = client.run(program, &[few]).into_iter().map(|answer| answer.values).collect();
    let noise = program.distance(&found, &network.run(&[few]).unwrap());
    assert!(noise < 4.0 * choice.simulation.noise, "{noise:e}, simulated {:e}", choice.simulation.noise);

    let any = Wishes { presets: wishes_of("n13_depth3_scale30"), ..Wishes::default() };
    assert!(choose(&design, &[table.view()], &any).unwrap().program.batch() > 128);
    let precise = Wishes { noise: 1e-9, presets: wishes_of("n13_depth3_scale30"), ..wishes.clone() };
    let refused = choose(&design, &[table.view()], &precise).err().unwrap().to_string();
    assert!(refused.contains("noise of 2^"), "{refused}");
    let small = Wishes { memory: 1 << 10, presets: wishes_of("n13_depth3_scale30"), ..wishes.clone() };
    assert!(choose(&design, &[table.view()], &small).err().unwrap().to_string().contains("memory"));
    let unknown = Wishes { presets: wishes_of("n99"), ..wishes.clone() };
    assert!(choose(&design, &[table.view()], &unknown).err().unwrap().to_string().contains("no such preset"));
    let crowded = Wishes { rows: Some(100_000), presets: wishes_of("n13_depth3_scale30"), ..wishes };
    assert!(choose(&design, &[table.view()], &crowded).err().unwrap().to_string().contains("fewer rows"));
}

fn wishes_of(preset: &str) -> Vec<String> {
    vec![preset.into()]
}

#[test]
fn networks_deeper_than_the_presets_are_refused_with_numbers() {
    let network = mlp(&[4; 12], Function::Tanh);
    let table = rows(60, 4, 1);
    let design = design(&network, &[table.view()], &Options::default());
    let wishes = Wishes { presets: wishes_of("n16_depth33_scale35"), ..Wishes::default() };
    let refused = choose(&design, &[table.view()], &wishes).err().unwrap().to_string();
    assert!(
        refused.contains("up to 33 levels") && refused.contains(&format!("{} levels", design.depth())),
        "{refused}"
    );
    let encoder = Encoder::new(&Preset::find("insecure_n11_depth24_scale52").unwrap().build().unwrap());
    assert!(Program::new(&design, encoder.parameters(), 4).is_err());
}
