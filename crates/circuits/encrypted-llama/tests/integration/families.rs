//! Passes of models of other families, simulated and encrypted, beside the model in floating point.

use unspoken_ckks::{CostModel, Encoder};
use unspoken_llama_model::Attention;

use crate::common::other_attention;
use crate::common::run::{agree, program};

const SMALL: &str = "insecure_n11_boot_depth15_scale40";

/// Two chunks, placed by the planner, agree with the model in floating point and with the simulator.
fn agrees(attention: Attention, bits: f64) {
    let setting = other_attention(attention);
    let mut program = program(&setting, SMALL, 8, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    let sample = &setting.held_out[0];
    program.place(&encoder, sample.public.len(), &CostModel::nominal(encoder.parameters())).unwrap();
    let run = [(0, &sample.private[..8]), (1, &sample.private[8..16])];
    agree(&setting, &program, (&sample.public, &run), bits);
}

#[test]
fn biases_of_attention_agree() {
    agrees(Attention { input_biases: true, output_bias: true }, 7.0);
}
