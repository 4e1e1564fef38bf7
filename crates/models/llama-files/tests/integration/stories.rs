//! The model stories260K: text, tokens, cache.

use std::path::{Path, PathBuf};

use ndarray::s;
use unspoken_llama_files::{LoadError, LoadedModel, load};
use unspoken_llama_model::{Generation, InputError, KvCache, Sampler, Sampling, Step, perplexity};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin")
}

fn stories() -> LoadedModel {
    load(&path(), None).unwrap()
}

#[test]
fn greedy_text_is_the_published_story() {
    let LoadedModel { model, tokenizer } = stories();
    let prompt = tokenizer.encode("").unwrap();
    let tokens: Vec<u32> = Generation::new(&model, &prompt, tokenizer.ends()).unwrap().take(60).collect();
    let text = tokenizer.decode(&tokens).unwrap();
    let expected = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_stream_gives_the_text_of_its_tokens() {
    let LoadedModel { tokenizer, .. } = stories();
    // Also characters of several bytes without another one between them for longer than any window.
    let text = "The \u{1f469} said na\u{ef}vely:  and\n".repeat(12) + &"\u{4f60}\u{597d}\u{1f469}".repeat(40);
    let tokens = tokenizer.encode(&text).unwrap();
    for prompt in [1, 2, 40] {
        let mut stream = tokenizer.stream(&tokens[..prompt]).unwrap();
        let parts: Vec<String> = tokens[prompt..].iter().map(|token| stream.push(*token).unwrap()).collect();
        let begin = tokenizer.decode(&tokens[..prompt]).unwrap();
        let given = parts.concat();
        assert!(text.ends_with(&given) && begin.len() + given.len() == text.len(), "{prompt}: {given:?}");
        assert!(parts.iter().all(|part| !part.contains(char::REPLACEMENT_CHARACTER)));
    }
    // Bytes that never become a character do not hold the rest back.
    let mut stream = tokenizer.stream(&tokens[..1]).unwrap();
    let invalid = 3 + 0xff;
    let given: String = [invalid, invalid, tokens[1]].iter().map(|token| stream.push(*token).unwrap()).collect();
    assert!(given.ends_with("The"), "{given:?}");
    assert!(matches!(stream.push(512), Err(InputError::Tokenizer(_))));
}

#[test]
fn generation_ends_where_the_context_does() {
    let LoadedModel { mut model, tokenizer } = stories();
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    let all: Vec<u32> = Generation::new(&model, &prompt, &[]).unwrap().take(30).collect();
    model.config.context = prompt.len() + 10;
    let mut generation = Generation::new(&model, &prompt, &[]).unwrap();
    assert!(!generation.is_full());
    // Each of the ten places holds one generated token, and the last one gives another.
    assert_eq!(generation.by_ref().collect::<Vec<_>>(), all[..11]);
    assert!(generation.is_full() && generation.next().is_none());
    // Ends before the end token, and stays ended.
    let mut generation = Generation::new(&model, &prompt, &all[4..5]).unwrap();
    let end = all.iter().position(|token| *token == all[4]).unwrap();
    assert_eq!(generation.by_ref().collect::<Vec<_>>(), all[..end]);
    assert!(!generation.is_full() && generation.next().is_none());
}

#[test]
fn tokens_of_hard_texts_give_the_texts_back() {
    let LoadedModel { tokenizer, .. } = stories();
    for text in [
        "Once upon a time",
        " two  spaces   three",
        "tab\tand\nline\r\n",
        "1234567890",
        "na\u{ef}ve caf\u{e9}",
        "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}",
        "\u{4f60}\u{597d}",
        "\u{1f469}\u{200d}\u{1f4bb}",
        "",
    ] {
        let tokens = tokenizer.encode(text).unwrap();
        assert_eq!(tokens[0], 1);
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
    }
}

#[test]
fn a_cache_gives_the_logits_of_one_pass() {
    let LoadedModel { model, tokenizer } = stories();
    let tokens = tokenizer.encode("Lily found a big red ball in the garden and ran home to her mom.").unwrap();
    let whole = model.forward(&tokens, &mut KvCache::new(&model.config), &mut ()).unwrap();
    let mut cache = KvCache::new(&model.config);
    model.forward(&tokens[..7], &mut cache, &mut ()).unwrap();
    // A rejected continuation is forgotten.
    model.forward(&[400, 401], &mut cache, &mut ()).unwrap();
    cache.truncate(7);
    model.forward(&tokens[7..8], &mut cache, &mut ()).unwrap();
    let rest = model.forward(&tokens[8..], &mut cache, &mut ()).unwrap();
    assert_eq!(cache.len(), tokens.len());
    let difference = &whole.slice(s![8.., ..]) - &rest;
    assert!(difference.iter().all(|value| value.abs() < 1e-4));
}

#[test]
fn an_observer_sees_every_step_of_every_layer() {
    let LoadedModel { model, .. } = stories();
    let mut seen = vec![];
    let mut observer = |layer: usize, step: Step, values: ndarray::ArrayView2<f32>| {
        seen.push((layer, step, values.dim()));
    };
    model.forward(&[1, 300], &mut KvCache::new(&model.config), &mut observer).unwrap();
    let count = |step: Step| seen.iter().filter(|(_, seen, _)| *seen == step).count();
    assert_eq!((count(Step::Residual), count(Step::Gate), count(Step::Score), count(Step::LastNorm)), (6, 5, 40, 1));
    assert!(seen.contains(&(4, Step::Hidden, (2, 172))));
    assert!(seen.contains(&(0, Step::Key, (2, 32))));
}

#[test]
fn a_text_of_its_own_kind_is_predicted_better_than_noise() {
    let LoadedModel { model, tokenizer } = stories();
    let story =
        "Once upon a time, there was a little boy named Tim. Tim had a red ball. He loved to play with his ball.";
    let story = perplexity(&model, &tokenizer.encode(story).unwrap(), 128).unwrap();
    let noise = perplexity(&model, &tokenizer.encode("qzx 93 vvv jkj @@ 0x1f zzyq").unwrap(), 128).unwrap();
    assert!(story < 4.0, "{story}");
    assert!(noise > 100.0, "{noise}");
}

#[test]
fn wrong_inputs_are_refused() {
    let LoadedModel { model, tokenizer } = stories();
    let mut cache = KvCache::new(&model.config);
    let refused = |tokens: &[u32], cache: &mut KvCache| model.forward(tokens, cache, &mut ()).unwrap_err();
    assert!(matches!(refused(&[], &mut cache), InputError::Empty));
    assert!(matches!(refused(&[1, 512], &mut cache), InputError::Token { position: 1, id: 512, vocabulary: 512 }));
    assert!(matches!(refused(&vec![1; 513], &mut cache), InputError::Context { found: 513, cached: 0, context: 512 }));
    assert!(matches!(tokenizer.decode(&[600]), Err(InputError::Tokenizer(_))));
}

#[test]
fn damaged_files_are_refused_by_name() {
    let bytes = std::fs::read(path()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("model.bin");
    let refused = |bytes: &[u8]| -> String {
        std::fs::write(&file, bytes).unwrap();
        match load(&file, None) {
            Ok(_) => panic!("a damaged file was read"),
            Err(error @ (LoadError::Io { .. } | LoadError::Content { .. })) => error.to_string(),
        }
    };
    assert!(refused(&bytes[..10]).contains("model.bin"));
    assert!(refused(&bytes[..bytes.len() - 4]).contains("needed"));
    assert!(refused(b"PK\x03\x04 something else altogether, long enough").contains("needed"));
    // Dimensions that would need more memory than there is.
    let huge: Vec<u8> = [1i32 << 16; 7].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert!(refused(&huge).contains("needed"));
    let mut nan = bytes.clone();
    nan[28..32].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(refused(&nan).contains("finite"));
    assert!(refused(b"GGUF\x03\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff").contains("GGUF"));
}

/// What it costs to hide the length of a text: with dots between two sentences of a story, the second part surprises
/// the model a little more.
#[test]
fn fillers_in_front_of_a_text_change_little() {
    let LoadedModel { model, tokenizer } = stories();
    let filler = tokenizer.filler();
    assert_eq!(tokenizer.token_text(filler).as_deref(), Some("."));
    let windows = (0..12).flat_map(|seed| {
        let prompt = tokenizer.encode("").unwrap();
        let sampling = Sampling { temperature: Some(0.9), seed: Some(seed), ..Sampling::default() };
        let sampler = Sampler::new(sampling, model.config.vocabulary, &prompt).unwrap();
        let told: Vec<u32> = Generation::sampled(&model, &prompt, &[], sampler).unwrap().take(192).collect();
        told.chunks_exact(96).map(<[u32]>::to_vec).collect::<Vec<_>>()
    });
    let dot = tokenizer.token(".").unwrap();
    let parts = |window: Vec<u32>| {
        let end = window[..56].iter().rposition(|token| *token == dot)? + 1;
        let (first, second) = window.split_at(end);
        Some([first.to_vec(), second[..40].to_vec()])
    };
    let windows: Vec<[Vec<u32>; 2]> = windows.filter_map(parts).collect();
    assert!(windows.len() > 20);
    // The perplexity of the second parts.
    let perplexity = |count: &dyn Fn(usize) -> usize| -> f64 {
        let surprise = |(number, [first, second]): (usize, &[Vec<u32>; 2])| -> f64 {
            let fill = vec![filler; count(number)];
            let text = [&[1][..], first, &fill, second].concat();
            let logits = model.forward(&text, &mut KvCache::new(&model.config), &mut ()).unwrap();
            let logits = model.logits(logits.view());
            let from = text.len() - second.len();
            let of = |place: usize| -> f64 {
                let row = logits.row(place - 1);
                let sum = row.iter().map(|logit| f64::from(*logit).exp()).sum::<f64>().ln();
                sum - f64::from(row[text[place] as usize])
            };
            (from + 1..text.len()).map(of).sum()
        };
        let tokens = windows.len() * 39;
        (windows.iter().enumerate().map(surprise).sum::<f64>() / tokens as f64).exp()
    };
    let [none, some, most] = [perplexity(&|_| 0), perplexity(&|number| number % 16), perplexity(&|_| 15)];
    println!("perplexity {none:.3}, with 0 to 15 fillers {some:.3}, with 15 {most:.3}");
    assert!(some < 1.03 * none && most < 1.06 * none, "{none} {some} {most}");
}
