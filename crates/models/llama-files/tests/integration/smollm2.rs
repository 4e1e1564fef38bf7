//! SmolLM2-135M-Instruct, which `scripts/fetch_data.py smollm2` fetches. Run with `cargo test -- --ignored smollm2`.

use std::path::Path;

use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{Generation, KvCache, Message, Rendering};

fn smollm2() -> LoadedModel {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    load(&path, None).unwrap()
}

/// Hard texts with their tokens. An implementation in Python that shares no code with this one gave the tokens.
const TOKENS: [(&str, &[u32]); 6] = [
    ("  two  spaces   three    ", &[216, 827, 216, 5600, 256, 1296, 289]),
    (
        "tab\tand\r\nlines\n\n\nof text\u{a0}\u{2003}x",
        &[15999, 197, 397, 201, 198, 5110, 1116, 198, 1714, 1694, 15442, 321, 221, 104],
    ),
    (
        "1234567890 3.14159 1,000,000 x2 \u{664}\u{662} \u{2167}\u{bd}",
        &[
            33, 34, 35, 36, 37, 38, 39, 40, 41, 32, 216, 35, 30, 33, 36, 33, 37, 41, 216, 33, 28, 32, 32, 32, 28, 32,
            32, 32, 1792, 34, 216, 164, 114, 164, 112, 216, 173, 223, 117, 16738,
        ],
    ),
    (
        "na\u{ef}ve cafe\u{301} \u{41f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{4f60}\u{597d} \
         \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
        &[
            3546, 46494, 1020, 4565, 151, 219, 5470, 249, 46879, 16464, 32547, 216, 18645, 250, 48392, 138, 12960, 119,
            31838, 23970, 162, 247,
        ],
    ),
    (
        "\u{1f469}\u{200d}\u{1f4bb} \u{1f1eb}\u{1f1f7} \u{feff}\u{0}\u{7f}",
        &[10813, 235, 119, 321, 231, 10813, 236, 136, 15107, 225, 121, 10813, 225, 132, 216, 186, 136, 140, 190, 217],
    ),
    (
        "I'll, you're, IT'S; don''t \"quote\" fn main() { x += 1; } // ...",
        &[
            57, 3060, 28, 346, 2316, 28, 9627, 23, 67, 43, 1326, 3816, 100, 476, 31942, 18, 24526, 1085, 1000, 1662,
            1792, 4519, 216, 33, 43, 4029, 13241, 4563,
        ],
    ),
];

#[test]
#[ignore = "needs data/smollm2"]
fn hard_texts_have_the_published_tokens_and_come_back() {
    let LoadedModel { tokenizer, .. } = smollm2();
    for (text, expected) in TOKENS {
        let tokens = tokenizer.encode(text).unwrap();
        assert_eq!(tokens, expected, "{text:?}");
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
        let mut stream = tokenizer.stream(&[]).unwrap();
        let parts: Vec<String> = tokens.iter().map(|token| stream.push(*token).unwrap()).collect();
        assert_eq!(parts.concat(), text);
    }
}

#[test]
#[ignore = "needs data/smollm2"]
fn control_tokens_are_recognised_and_are_no_text() {
    let LoadedModel { tokenizer, .. } = smollm2();
    let tokens = tokenizer.encode("<|im_start|>user\nHi<|im_end|> <|im_nothing|>").unwrap();
    assert_eq!((tokens[0], tokens.iter().filter(|token| **token == 2).count()), (1, 1));
    assert_eq!(tokenizer.decode(&tokens).unwrap(), "user\nHi <|im_nothing|>");
    assert_eq!(tokenizer.controls(), (0..17).collect::<Vec<u32>>());
    // `<|im_end|>`, which the file states, and `<|endoftext|>`, by its name.
    assert_eq!((tokenizer.begin(), tokenizer.ends()), (None, &[2, 0][..]));
}

#[test]
#[ignore = "needs data/smollm2"]
fn logits_are_those_of_another_implementation() {
    let LoadedModel { model, tokenizer } = smollm2();
    let text = "The capital of France is the city that gave 1889 its tower, and its name is";
    let tokens = tokenizer.encode(text).unwrap();
    let logits = model.logits(model.forward(&tokens, &mut KvCache::new(&model.config), &mut ()).unwrap().view());
    // By `research/peers/llama_logits.py`, in 64-bit floating point: the logarithm of the sum of exp of each row's
    // logits, and the largest logits of the last row.
    let sums = [
        28.2188, 22.3937, 15.1271, 24.223, 17.6293, 14.4152, 19.7685, 20.589, 13.1671, 30.0111, 27.6695, 26.0707,
        27.3687, 18.9978, 16.7846, 21.119, 15.9314, 19.1386, 20.0057, 24.5129, 12.7055,
    ];
    let largest = [(260, 10.6614), (7042, 10.5748), (6483, 10.0022), (5145, 9.7744), (3692, 9.1808)];
    assert_eq!(logits.dim(), (sums.len(), 49152));
    for (row, needed) in logits.rows().into_iter().zip(sums) {
        let found = row.iter().map(|logit| f64::from(*logit).exp()).sum::<f64>().ln();
        assert!((found - needed).abs() < 1e-3, "{found} {needed}");
    }
    for (token, needed) in largest {
        let found = logits[(sums.len() - 1, token)];
        assert!((found - needed).abs() < 1e-3, "{token}: {found} {needed}");
    }
}

/// The template in the file brings a system message of its own, which is public.
#[test]
#[ignore = "needs data/smollm2"]
fn a_question_gets_its_answer() {
    let LoadedModel { model, tokenizer } = smollm2();
    let question = [Message::new("user", "What is the capital of France?")];
    let prompt = tokenizer.prompt(&question, 0, &Rendering::default()).unwrap();
    let own = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face";
    let asked = "<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!((prompt.public.as_str(), prompt.private.as_str()), (own, asked));
    let prompt = [&*prompt.public, &prompt.private].map(|text| tokenizer.encode(text).unwrap()).concat();
    let tokens: Vec<u32> = Generation::new(&model, &prompt, tokenizer.ends()).unwrap().take(32).collect();
    let answer = tokenizer.decode(&tokens).unwrap();
    assert!(answer.contains("Paris"), "{answer}");
}
