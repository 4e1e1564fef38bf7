//! Tests of training: results, determinism, refused input and cancellation.

#[allow(missing_docs, dead_code)]
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{model, quick, separable};
use unspoken_fasttext::{
    ClassWeights, FastTextError, Phase, TextCoverage, Tokeniser, TrainOptions, WordRule, fit, fit_with_validation,
};
use unspoken_store::{Dataset, StoreError};

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn learns_a_separable_set_and_what_new_words_are() {
    let data = separable(300);
    let split = data.split(0.1, 0.3, 1).expect("splits");
    assert!(split.test.majority_share() < 0.7);
    let model = fit_with_validation(&split.train, &split.validation, &quick(), &mut |_| {}, &never()).expect("trains");
    assert_eq!(model.accuracy(&split.test), 1.0);
    assert_eq!(model.training().validation_accuracy, Some(1.0));
    assert_eq!(model.predict("zebra URGENT prize, claim!"), "spam");
    assert_eq!(model.encoder().vocabulary().row("zebra"), 0);
}

#[test]
fn works_for_three_classes_and_bigrams() {
    let words = ["red apple", "green leaf", "blue sky"];
    let texts: Vec<String> = (0..90).map(|i| format!("a {} b", words[i % 3])).collect();
    let labels: Vec<String> = (0..90).map(|i| ["r", "g", "b"][i % 3].to_owned()).collect();
    let options = TrainOptions { tokeniser: Tokeniser { bigrams: true, ..Tokeniser::default() }, ..quick() };
    let model = fit(&texts, &labels, &options, &mut |_| {}, &never()).expect("trains");
    assert_eq!(model.encoder().labels(), ["b", "g", "r"]);
    assert_ne!(model.encoder().vocabulary().row("green leaf"), 0);
    for (text, label) in texts.iter().zip(&labels) {
        assert_eq!(model.predict(text), label);
    }
}

/// The separable set, with five of 676 random words added to each message.
fn wordy(count: usize) -> Dataset {
    let base = separable(count);
    let noise = |i: usize| {
        let letter = |k: usize| char::from(b'a' + (k % 26) as u8);
        (0..5).map(move |k| format!(" x{}{}", letter(i + 7 * k), letter(i / 26 + 11 * k + i * k)))
    };
    let texts = base.texts().iter().enumerate();
    let texts = texts.map(|(i, text)| text.clone() + &noise(i).collect::<String>());
    Dataset::new(texts.collect(), base.labels().to_vec()).expect("as many of each")
}

#[test]
fn same_seed_same_model_on_any_number_of_threads() {
    // About 400 distinct words in a batch: many groups of gradients to sum.
    let data = wordy(120);
    let on_threads = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        let options = TrainOptions { seed, batch: 64, ..quick() };
        let train = || fit(data.texts(), data.labels(), &options, &mut |_| {}, &never());
        pool.install(train).expect("trains")
    };
    let one = on_threads(1, 5);
    assert!(one.encoder().vocabulary().len() > 300);
    let three = on_threads(3, 5);
    assert_eq!(one, three);
    let bits = |model: &unspoken_fasttext::Model| -> Vec<u64> {
        model.tables().values().iter().map(|v| v.to_bits()).collect()
    };
    assert_eq!(bits(&one), bits(&three));
    assert_eq!(one.encoder().id(), three.encoder().id());
    assert_ne!(one.encoder().id(), on_threads(1, 6).encoder().id());
}

/// Two classes with the same texts. One class has nine times the examples of the other.
#[test]
fn classes_can_count_more_than_their_examples() {
    let texts = vec!["same word".to_owned(); 100];
    let labels: Vec<String> = (0..100).map(|i| ["common", "rare"][usize::from(i % 10 == 0)].to_owned()).collect();
    let train = |class_weights| {
        let options = TrainOptions { class_weights, validation_share: 0.0, ..quick() };
        fit(&texts, &labels, &options, &mut |_| {}, &never())
    };
    let rare = |weights| train(weights).expect("trains").probabilities("same word")[1];
    assert!(rare(ClassWeights::Equal) < 0.3);
    assert!((0.3..0.7).contains(&rare(ClassWeights::Balanced)));
    let given = |label: &str, weight| ClassWeights::Given([(label.to_owned(), weight)].into());
    assert!(rare(given("rare", 100.0)) > 0.7);
    for (label, weight) in [("other", 1.0), ("rare", 0.0), ("rare", f32::NAN), ("rare", 1e5)] {
        assert!(matches!(train(given(label, weight)), Err(FastTextError::Weights { .. })), "{label} {weight}");
    }
}

#[test]
fn options_of_the_shape_are_options() {
    let data = separable(20);
    let options = TrainOptions { columns: 255, ..quick() };
    let error = fit(data.texts(), data.labels(), &options, &mut |_| {}, &never()).unwrap_err().to_string();
    assert!(error.contains("found columns = 255, needed an even number; change the option"), "{error}");
}

#[test]
fn tables_are_centred_so_that_padding_adds_nothing() {
    let model = model(&quick());
    let shape = model.tables().shape();
    for t in 0..shape.subtables {
        for c in 0..shape.classes {
            let row = model.tables().row(t, c).expect("in range");
            let largest = row.iter().fold(0.0f64, |a, b| a.max(b.abs()));
            assert!(largest > 0.0);
            // The constant coefficient of the row's cosine transform.
            let mean = row.iter().sum::<f64>() / shape.columns as f64;
            assert!(mean.abs() <= 1e-15 * largest, "{mean:e} beside {largest:e}");
        }
    }
}

#[test]
fn scores_are_sums_of_table_entries() {
    let model = model(&quick());
    let codes = model.encoder().encode("win dinner zebra");
    assert_eq!(codes.len(), 3);
    let mut expected = vec![0.0; 2];
    for (c, sum) in expected.iter_mut().enumerate() {
        for code in codes.tokens() {
            for (t, &column) in code.iter().enumerate() {
                *sum += model.tables().row(t, c).expect("in range")[usize::from(column)];
            }
        }
    }
    let scores = model.scores("win dinner zebra");
    for (score, expected) in scores.iter().zip(&expected) {
        assert!((score - expected).abs() < 1e-12);
        assert!(score.abs() <= model.tables().score_bound());
    }
    assert_eq!(scores, model.tables().scores(&codes).expect("same shape"));
    let streams: Vec<Vec<u16>> = (0..4).map(|t| codes.stream(t).collect()).collect();
    for (i, code) in codes.tokens().enumerate() {
        assert!((0..4).all(|t| streams[t][i] == code[t]));
    }
    assert_eq!(codes.stream(4).count(), 0);
}

/// Messages in several scripts: the words of each class differ, one at least is in each message.
fn messages(words: [[&str; 3]; 2], count: usize) -> Dataset {
    let text = |i: usize| format!("{} {} {}", words[i % 2][i / 2 % 3], words[i % 2][i / 6 % 3], "и");
    let labels = (0..count).map(|i| ["ham", "spam"][i % 2].to_owned());
    Dataset::new((0..count).map(text).collect(), labels.collect()).expect("as many of each")
}

#[test]
fn texts_of_other_alphabets_are_learnt() {
    for words in [
        [["привет", "Ужин", "дома"], ["ПРИЗ", "выигрыш", "бесплатно"]],
        [["σπίτι", "ΑΎΡΙΟ", "βράδυ"], ["δώρο", "κέρδος", "δωρεάν"]],
        [["家", "晚饭", "明天"], ["奖", "免费", "赢"]],
        [["おうち", "ごはん", "あした"], ["プレゼント", "ムリョウ", "カチ"]],
        [["été", "déjeuner", "maison"], ["gagné", "priorité", "immédiat"]],
        [["\u{1F600}", "\u{1F3E0}", "\u{1F634}"], ["\u{1F4B0}", "\u{1F381}", "\u{1F911}"]],
    ] {
        let split = messages(words, 240).split(0.1, 0.3, 1).expect("splits");
        let train = |words| {
            let tokeniser = Tokeniser { words, ..Tokeniser::default() };
            let options = TrainOptions { tokeniser, ..quick() };
            fit_with_validation(&split.train, &split.validation, &options, &mut |_| {}, &never()).expect("trains")
        };
        let model = train(WordRule::Unicode);
        assert_eq!(model.accuracy(&split.test), 1.0, "{words:?}");
        let coverage = model.encoder().coverage(split.test.texts());
        assert_eq!((coverage.texts, coverage.cut, coverage.known), (72, 0, coverage.tokens), "{words:?}");
        assert_eq!(coverage.warnings().count(), 0);
    }
}

#[test]
fn models_that_know_no_word_of_a_text_say_so() {
    let russian = messages([["привет", "ужин", "дома"], ["приз", "выигрыш", "бесплатно"]], 60);
    let ascii = Tokeniser { words: WordRule::AsciiLetters, ..Tokeniser::default() };
    let blind =
        fit(russian.texts(), russian.labels(), &TrainOptions { tokeniser: ascii, ..quick() }, &mut |_| {}, &never());
    for encoder in [blind.expect("trains").encoder(), model(&quick()).encoder()] {
        let coverage = encoder.coverage(russian.texts());
        assert_eq!((coverage.known, coverage.known_share()), (0, 0.0));
        let warning = coverage.unknown_warning().expect("a warning");
        assert!(warning.contains("(100.0 %) are not in the model's vocabulary"), "{warning}");
    }
    let model = model(&quick());
    let half = model.encoder().coverage(&["win zebra", ""]);
    assert_eq!((half.tokens, half.known), (3, 1));
    assert!(half.unknown_warning().is_some());
    assert!(model.encoder().coverage(&["win zebra"]).unknown_warning().is_none());
    assert_eq!(model.encoder().coverage::<&str>(&[]).warnings().count(), 0);
}

#[test]
fn messages_that_are_cut_are_counted() {
    let tokeniser = Tokeniser { max_tokens: 4, ..Tokeniser::default() };
    let model = model(&TrainOptions { tokeniser, ..quick() });
    let texts = ["win free prize now", "win free prize now call", "the 1 2 3 4 5 6"];
    let coverage = model.encoder().coverage(&texts);
    assert_eq!(coverage, TextCoverage { texts: 3, cut: 1, max_tokens: 4, tokens: 9, known: 9 });
    let warning = coverage.cut_warning().expect("a warning");
    assert!(warning.starts_with("1 of 3 texts (33.3 %) have more than 4 tokens"), "{warning}");
    assert!(warning.contains("--max-tokens"), "{warning}");
    assert_eq!(coverage.warnings().count(), 1);
    assert!(model.encoder().coverage(&texts[..1]).cut_warning().is_none());
}

#[test]
fn messages_without_words_and_endless_ones_have_scores() {
    let model = model(&quick());
    assert_eq!(model.encoder().encode("").len(), 1);
    assert_eq!(model.encoder().encode("12 !?").len(), 1);
    let long = "free ".repeat(5000);
    assert_eq!(model.encoder().encode(&long).len(), 128);
    assert_eq!(model.predict(&long), "spam");
}

#[test]
fn labels_need_one_finite_score_for_each_class() {
    let model = model(&quick());
    let encoder = model.encoder();
    assert_eq!(encoder.label(&[0.0, 1.0]).expect("two scores"), "spam");
    assert_eq!(encoder.label(&[1.0, 1.0]).expect("two scores"), "ham");
    for bad in [&[1.0][..], &[1.0, f64::NAN], &[1.0, 2.0, 3.0], &[]] {
        assert!(encoder.label(bad).is_err());
    }
    let error = encoder.label(&[1.25, f64::NAN]).unwrap_err().to_string();
    assert!(error.contains("position 1") && !error.contains("1.25"), "{error}");
}

#[test]
fn codes_of_another_shape_are_refused() {
    let wide = TrainOptions { columns: 32, ..quick() };
    let flat = TrainOptions { subtables: 3, ..quick() };
    let tables = model(&quick());
    let flat_codes = model(&flat).encoder().encode("free");
    assert!(tables.tables().scores(&flat_codes).is_err());
    let model = model(&wide);
    let words = model.encoder().vocabulary().tokens().join(" ");
    let codes = model.encoder().encode(&words);
    assert!(codes.tokens().any(|code| code.iter().any(|&j| j >= 16)));
    assert!(tables.tables().scores(&codes).is_err());
}

#[test]
fn reports_every_epoch_and_stops_when_cancelled() {
    let data = separable(60);
    let cancel = never();
    let mut seen = Vec::new();
    let result = fit(
        data.texts(),
        data.labels(),
        &quick(),
        &mut |progress| {
            seen.push((progress.epoch, progress.phase));
            assert_eq!(progress.epochs, 12);
            assert!(progress.loss.is_finite() && progress.validation_accuracy.is_some());
            if progress.epoch == 9 {
                cancel.store(true, Ordering::Relaxed);
            }
        },
        &cancel,
    );
    assert!(matches!(result, Err(FastTextError::Cancelled { epoch: 10 })));
    let expected: Vec<_> = (1..=8).map(|epoch| (epoch, Phase::Relaxed)).chain([(9, Phase::Hard)]).collect();
    assert_eq!(seen, expected);
}

#[test]
fn refuses_data_that_cannot_be_learnt() {
    let attempt = |texts: &[&str], labels: &[&str]| {
        let own = |list: &[&str]| list.iter().map(|&s| s.to_owned()).collect::<Vec<_>>();
        fit(&own(texts), &own(labels), &quick(), &mut |_| {}, &never())
    };
    let one_class = attempt(&["a", "b"], &["x", "x"]);
    assert!(matches!(one_class, Err(FastTextError::Classes { found: 1, .. })));
    assert!(matches!(attempt(&[], &[]), Err(FastTextError::Classes { found: 0, .. })));
    assert!(matches!(
        attempt(&["a"], &["x", "y"]),
        Err(FastTextError::Store(StoreError::Length { texts: 1, labels: 2 }))
    ));
    // Texts without words can be trained on: all are the unknown token.
    assert!(attempt(&["1", "2"], &["x", "y"]).is_ok());
}

#[test]
fn validation_labels_unseen_in_training_count_as_wrong() {
    let train = separable(60);
    let foreign = Dataset::new(vec!["free".to_owned(); 4], vec!["other".to_owned(); 4]).expect("as many of each");
    let model = fit_with_validation(&train, &foreign, &quick(), &mut |_| {}, &never()).expect("trains");
    assert_eq!(model.training().validation_accuracy, Some(0.0));
}

#[test]
fn refuses_options_out_of_range() {
    let data = separable(12);
    let changes: [fn(&mut TrainOptions); 15] = [
        |o| o.columns = 15,
        |o| o.columns = 0,
        |o| o.subtables = 17,
        |o| o.dimension = 0,
        |o| o.batch = 0,
        |o| o.relaxed_epochs = 0,
        |o| o.hard_epochs = 0,
        |o| o.rate = f32::NAN,
        |o| o.code_rate = 0.0,
        |o| o.validation_share = 0.9,
        |o| o.final_temperature = 0.0,
        |o| o.entropy_weight = -0.1,
        |o| o.confidence_weight = f32::NAN,
        |o| o.tokeniser.max_tokens = 0,
        |o| o.unknown_share = -0.1,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut options = quick();
        change(&mut options);
        let result = fit(data.texts(), data.labels(), &options, &mut |_| {}, &never());
        assert!(result.is_err(), "change {index} was accepted: {options:?}");
    }
}
