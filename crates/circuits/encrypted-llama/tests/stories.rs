//! Passes of whole models in a small ring, simulated and encrypted, beside the model in floating point.

mod common;

use common::run::{CHUNKS, check, encrypted, program, simulated};
use common::{PUBLIC, print, random, shared};
use unspoken_ckks::{CostModel, Encoder};
use unspoken_llama::Quantity;

const SMALL: &str = "insecure_n11_boot_depth14_scale40";

#[test]
fn passes_agree_with_the_model_and_the_simulator_at_every_step() {
    let setting = shared();
    let mut program = program(setting, SMALL, 8, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    let placed = program.place(&encoder, PUBLIC, &CostModel::nominal(encoder.parameters())).unwrap();
    assert!(placed.seconds < placed.greedy_seconds, "{placed:?}");
    let sample = &setting.held_out[0];
    // A chunk with other tokens than the ones that replace it; then another chunk.
    let run = [(true, &sample.private[8..16]), (false, &sample.private[..8]), (true, &sample.private[8..16])];
    let passes = (&sample.public[..], &run[..]);
    let (predicted, keys) = simulated(setting, &program, passes);
    let found = encrypted(setting, &program, passes, &keys);
    print(&found[2]);
    check(&found, &predicted, 9.0);
    let requirements = program.requirements(&encoder, PUBLIC, CHUNKS).unwrap();
    assert!(requirements.keys.covers(&keys));
    assert!(keys.iter().count() + program.bootstrap().key_plan().iter().count() >= requirements.keys.len());
}

#[test]
fn chunks_in_two_parts_and_heads_in_several_vectors_agree_too() {
    let setting = random(50);
    let program = program(&setting, SMALL, 16, 512);
    let layout = program.layout();
    assert_eq!((layout.parts, layout.tokens, layout.blocks, layout.lanes), (2, 8, 2, 1));
    let sample = &setting.held_out[0];
    let run = [(true, &sample.private[..16]), (true, &sample.private[16..32])];
    let passes = (&sample.public[..], &run[..]);
    let (predicted, keys) = simulated(&setting, &program, passes);
    let found = encrypted(&setting, &program, passes, &keys);
    print(&found[1]);
    check(&found, &predicted, 7.0);
}

#[test]
fn the_result_of_a_large_vocabulary_is_the_output_of_the_last_norm() {
    let setting = random(1100);
    let mut program = program(&setting, SMALL, 8, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    program.place(&encoder, 20, &CostModel::nominal(encoder.parameters())).unwrap();
    assert_eq!((program.result().quantity, program.result().width), (Quantity::LastNorm, 128));
    let sample = &setting.held_out[0];
    // Three chunks: a factor of a norm is one number for each token, too few of one chunk for a comparison.
    let run = [0, 8, 16].map(|first| (true, &sample.private[first..first + 8]));
    let passes = (&sample.public[..], &run[..]);
    let (predicted, keys) = simulated(&setting, &program, passes);
    let found = encrypted(&setting, &program, passes, &keys);
    assert_eq!(found[0].last().unwrap().place.quantity, Quantity::LastNorm);
    check(&found, &predicted, 7.0);
}
