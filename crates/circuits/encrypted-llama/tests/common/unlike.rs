//! Prompts that are unlike the texts of the calibration.

#![allow(dead_code)] // Each test binary uses a part.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use unspoken_llama::Sample;
use unspoken_llama_model::Tokenizer;

/// Kinds of text, and pieces of them.
const KINDS: [(&str, &[&str]); 8] = [
    (
        "code",
        &["fn main() {", "let x = 0;", "return a[i] + b;", "}\n", "if (n <= 1)", "#include <io.h>", "=> |x| x * x"],
    ),
    ("digits", &["3.14159", "27182", "0000", "1,000,000", "42", "-17", "99%", "2026-11-30", "7 x 8 = 56"]),
    ("emoji", &["😀", "🚀🚀", "❤️", "🎉", "🐶🐱", "👍🏽", "🏳️‍🌈", "☕"]),
    ("alphabets", &["Привет, мир", "γειά σου", "你好世界", "こんにちは", "שלום", "مرحبا", "नमस्ते", "안녕"]),
    ("capitals", &["ONCE UPON A TIME", "THE END", "LILY SAW A BIG DOG", "NO!", "WHY? WHY? WHY?", "STOP"]),
    ("marks", &["!!!", "???", "...", "((((", "]]", "~~~~", "@@@", "\"\"\"", "////", "$$$", "<<>>"]),
    ("letters", &["zzzz", "qx", "xylophone", "Zsa", "jjj", "rhythm", "Qatar", "psych", "vvvvvv", "uuu"]),
    ("other stories", &["The king of Spain wrote a letter.", "My lawyer called the bank", "Snow fell on the ships"]),
];

/// Prompts, with a name of their kind: some in one kind of text, some that begin as stories, some of one token that
/// repeats, and some of random tokens. All have `public` public tokens and `private` private ones.
pub fn prompts(
    (tokenizer, story, vocabulary): (&Tokenizer, &[u32], u32),
    (public, private): (usize, usize),
    (count, seed): (usize, u64),
) -> Vec<(&'static str, Sample)> {
    let mut random = SmallRng::seed_from_u64(seed);
    let length = public + private;
    let text = |random: &mut SmallRng, pieces: &[&str], length: usize| -> Vec<u32> {
        let mut tokens = Vec::new();
        while tokens.len() < length {
            let piece = pieces.choose(random).expect("every kind has pieces");
            tokens.extend(tokenizer.encode_continuation(&format!(" {piece}")).unwrap());
        }
        tokens.truncate(length);
        tokens
    };
    let mut prompt = |number: usize| {
        let (name, mut tokens) = match number % (KINDS.len() + 2) {
            kind if kind < KINDS.len() => (KINDS[kind].0, text(&mut random, KINDS[kind].1, length)),
            kind if kind == KINDS.len() => ("repeated tokens", vec![random.random_range(0..vocabulary); length]),
            _ => ("random tokens", (0..length).map(|_| random.random_range(0..vocabulary)).collect()),
        };
        // Every other one after a usual public text, and every fourth with a few unusual tokens alone.
        let round = number / (KINDS.len() + 2);
        if round.is_multiple_of(2) {
            tokens[..public].copy_from_slice(&story[..public]);
        }
        if round.is_multiple_of(4) {
            let usual = private - 1 - number % (private / 2);
            tokens[public..public + usual].copy_from_slice(&story[public..public + usual]);
        }
        let private = tokens.split_off(public);
        (name, Sample { public: tokens, private })
    };
    (0..count).map(&mut prompt).collect()
}
