//! Passes of models of other families, simulated and encrypted, beside the model in floating point.

use unspoken_ckks::{CostModel, Encoder};
use unspoken_llama_model::Attention;

use crate::common::run::{agree, program};
use crate::common::{Setting, other_attention, wide_heads_with};

const SMALL: &str = "insecure_n11_boot_depth15_scale40";

/// Two chunks, placed by the planner, agree with the model in floating point and with the simulator.
fn agrees(setting: &Setting, tokens: usize, bits: f64) {
    let mut program = program(setting, SMALL, tokens, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    let sample = &setting.held_out[0];
    program.place(&encoder, sample.public.len(), &CostModel::nominal(encoder.parameters())).unwrap();
    let run = [(0, &sample.private[..tokens]), (1, &sample.private[tokens..2 * tokens])];
    agree(setting, &program, (&sample.public, &run), bits);
}

#[test]
fn biases_of_attention_agree() {
    let attention = Attention { input_biases: true, output_bias: true, ..Attention::default() };
    agrees(&other_attention(attention, 16), 8, 7.0);
}

#[test]
fn layers_without_rotation_agree() {
    let attention = Attention { unrotated: vec![1], ..Attention::default() };
    agrees(&other_attention(attention, 16), 8, 7.0);
}

#[test]
fn norms_of_heads_agree() {
    // Heads that are wider together than the model, and not a power of two.
    let attention = Attention { head_norms: true, ..Attention::default() };
    agrees(&other_attention(attention, 24), 8, 7.0);
}

#[test]
fn all_of_them_agree_in_two_parts_and_several_vectors_of_heads() {
    let attention = Attention { input_biases: true, output_bias: true, head_norms: true, unrotated: vec![1] };
    agrees(&wide_heads_with(attention, 50), 16, 6.0);
}
