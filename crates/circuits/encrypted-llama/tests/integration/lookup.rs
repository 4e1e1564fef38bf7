//! Embeddings from compact queries: encrypted and simulated, beside the embeddings of the model.

use crate::common::run::{Client, program};
use crate::common::{Setting, shared, wide_heads};
use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Complex64, Encoder, Simulator};
use unspoken_encrypted_llama::{PassError, PassProgram, SimulatedEvaluator, TokenEncoding};
use unspoken_ring::SecretRng;
use unspoken_rlwe::CompactQuerySecret;

const SMALL: &str = "insecure_n11_boot_depth15_scale40";

/// Root mean square error of rows, in the unit of inputs.
fn error(program: &PassProgram, slots: &[Vec<Complex64>], wanted: &Array2<f32>) -> f64 {
    let slots: Vec<&[Complex64]> = slots.iter().map(Vec::as_slice).collect();
    let found = program.layout().unpack(&slots, wanted.ncols(), program.input_unit());
    let square = found.iter().zip(wanted).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    (square / wanted.len() as f64).sqrt() / program.input_unit()
}

/// Coefficients of the elements of a compact query, as the service has them.
fn coefficients(encoding: &TokenEncoding, tokens: &[u32]) -> Vec<f64> {
    let elements = encoding.elements(tokens).unwrap();
    let mut coefficients = vec![0.0; 2 * elements.len()];
    for (index, element) in elements.iter().enumerate() {
        coefficients[encoding.parameters().coefficient(index)] = element - element.round();
    }
    coefficients
}

fn simulated(program: &PassProgram, encoding: &TokenEncoding, tokens: &[u32]) -> Vec<Vec<Complex64>> {
    let encoder = Encoder::new(program.bootstrap().parameters());
    let simulator = Simulator::new(&encoder, 1);
    let evaluator = SimulatedEvaluator::new(&simulator, program.bootstrap());
    let modulus = program.bootstrap().modulus();
    let elements = simulator.encrypt_coefficients(&coefficients(encoding, tokens), 0, modulus).unwrap();
    let vectors = program.embedding_lookup().unwrap().of_elements(&evaluator, &elements).unwrap();
    let (level, scale) = (program.input_level(), encoder.parameters().scale());
    assert!(vectors.iter().all(|v| simulator.level(v) == level && simulator.scale(v) == scale));
    vectors.iter().map(|vector| vector.noisy().to_vec()).collect()
}

fn encrypted(program: &PassProgram, encoding: &TokenEncoding, tokens: &[u32]) -> Vec<Vec<Complex64>> {
    let mut rng = SecretRng::insecure_from_seed(4);
    let lookup = program.embedding_lookup().unwrap();
    let encoder = Encoder::new(program.bootstrap().parameters());
    let (keys, _) = lookup.requirements(&encoder, program.bootstrap()).unwrap();
    let client = Client::new(program, &keys, &mut rng);
    let queries = CompactQuerySecret::of(&client.secret, encoding.parameters()).unwrap();
    let query = queries.encrypt(&encoding.elements(tokens).unwrap(), &mut rng).unwrap();
    let bytes = encoding.to_bytes(&query).unwrap();
    assert_eq!((bytes.len(), encoding.query_bytes()), (16 + 4 * tokens.len(), bytes.len()));
    let query = encoding.from_bytes(&bytes).unwrap();
    for wrong in [&bytes[1..], &[], &[bytes.as_slice(), &[0]].concat()] {
        assert!(encoding.from_bytes(wrong).is_err());
    }
    let mut large = bytes.clone();
    large[16..20].fill(0xff);
    assert!(encoding.from_bytes(&large).unwrap_err().to_string().contains("residues below"));
    let vectors = lookup.of_query(&client.evaluator(), encoding, &query).unwrap();
    vectors.iter().map(|vector| client.decrypt(vector)).collect()
}

fn check(setting: &Setting, program: &PassProgram, tokens: &[u32]) {
    let encoding = program.token_encoding().unwrap().unwrap();
    let wanted = setting.model.embed(tokens);
    let predicted = error(program, &simulated(program, &encoding, tokens), &wanted);
    let found = error(program, &encrypted(program, &encoding, tokens), &wanted);
    println!("bits of embeddings: {:.1}, predicted {:.1}", -found.log2(), -predicted.log2());
    assert!(found < 2f64.powi(-14), "2^{:.1}", found.log2());
    assert!((found / predicted).log2().abs() < 1.0, "measured over predicted 2^{:.1}", (found / predicted).log2());
}

#[test]
fn embeddings_of_tokens_are_looked_up() {
    let program = program(shared(), SMALL, 8, 512);
    check(shared(), &program, &[0, 511, 7, 256, 255, 1, 300, 42]);
}

#[test]
fn chunks_in_two_parts_have_one_query() {
    let setting = wide_heads(50);
    let program = program(&setting, SMALL, 16, 512);
    check(&setting, &program, &[0, 49, 1, 2, 3, 30, 31, 32, 33, 9, 9, 9, 48, 7, 5, 20]);
}

#[test]
fn tokens_that_are_too_many_are_refused() {
    let program = program(shared(), SMALL, 8, 512);
    let encoding = program.token_encoding().unwrap().unwrap();
    assert!(matches!(encoding.elements(&[1; 7]), Err(PassError::Chunk { found: 7, .. })));
    let new = |vocabulary| TokenEncoding::new(encoding.parameters().clone(), program.layout(), vocabulary);
    assert!(new(1024).is_some());
    assert!(new(1025).is_none());
}

#[test]
fn a_secure_ring_gives_enough_precision() {
    let program = program(shared(), "n16_boot_depth15_scale40", 16, 4096);
    let encoding = program.token_encoding().unwrap().unwrap();
    let tokens: Vec<u32> = (0..16).map(|token| token * 33 + 7).collect();
    let wanted = shared().model.embed(&tokens);
    let predicted = error(&program, &simulated(&program, &encoding, &tokens), &wanted);
    println!("bits of embeddings, predicted {:.1}", -predicted.log2());
    assert!(predicted < 2f64.powi(-14), "2^{:.1}", predicted.log2());
}
