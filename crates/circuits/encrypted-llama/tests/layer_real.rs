//! One whole layer of stories260K at parameters with 128 bits of security.

mod common;

use common::run::{agree, program};
use common::{PUBLIC, setting};
use unspoken_ckks::{CostModel, Encoder};

#[test]
fn a_layer_at_real_parameters_agrees_with_the_model_and_the_simulator() {
    let setting = setting(12.0, 1);
    let mut program = program(&setting, "n16_boot_depth15_scale40", 16, 4096);
    let encoder = Encoder::new(program.bootstrap().parameters());
    program.place(&encoder, PUBLIC, &CostModel::nominal(encoder.parameters())).unwrap();
    let sample = &setting.held_out[0];
    let run = [(0, &sample.private[..16])];
    agree(&setting, &program, (&sample.public, &run), 9.0);
}
