//! Passes of stories260K, simulated and encrypted, beside the model in floating point.

mod common;

use common::{Beside, PUBLIC, print, shared};
use unspoken_ckks::{Arithmetic, Bootstrap, Complex64, Encoder, Preset, Simulated as Vector, Simulator};
use unspoken_encrypted_llama::{PassArithmetic, Program, Session, SimulatedMachine, WEIGHT_BITS};
use unspoken_llama::{Noise, Simulated};

const SMALL: &str = "insecure_n11_boot_depth14_scale40";

fn program(preset: &str, tokens: usize, small_degree: usize) -> Program {
    let setting = shared();
    let parameters = Preset::find(preset).unwrap().build().unwrap();
    let plan = Bootstrap::for_products(&parameters, WEIGHT_BITS).unwrap();
    Program::new(&setting.circuit, setting.model.clone(), &setting.design, plan, (tokens, small_degree)).unwrap()
}

#[test]
fn a_simulated_pass_agrees_with_the_model_at_every_step() {
    let setting = shared();
    let program = program(SMALL, 8, 512);
    println!("{:?}", program.layout());
    let sample = &setting.held_out[0];
    let public = setting.model.prefix_cache(&sample.public).unwrap();
    let encoder = Encoder::new(program.bootstrap().parameters());
    let simulator = Simulator::new(&encoder, 1);
    let machine = SimulatedMachine { simulator: &simulator, encoder: &encoder, bootstrap: program.bootstrap() };
    let mut session = Session::new(setting.model.config.layers);
    let tokens = &sample.private[..8];
    let pass = PassArithmetic::new(&machine, &program, &public, &mut session, (true, 2)).unwrap();
    let decrypt = |vector: &Vector| vector.noisy().to_vec();
    let clear = Simulated::new(&setting.model, &public, &setting.design, &Noise::None, 1);
    let input = program.layout().pack(setting.model.embed(tokens).view(), program.input_unit());
    let (level, scale) = (program.bootstrap().output_level(), encoder.parameters().scale());
    let input = input.iter().map(|slots| simulator.encrypt(slots, level, scale).unwrap()).collect();
    let beside =
        Beside { pass, program: &program, clear, place: (PUBLIC, 0, 2), decrypt: &decrypt, rows: Vec::new() };
    let (rows, bootstraps) = beside.run(setting, input, tokens);
    print(&rows);
    println!("{bootstraps} bootstraps, overflows {:?}", simulator.overflows());
}
