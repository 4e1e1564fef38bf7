//! Tokens that are chosen at random, at a service that computes in the clear: a generation knows no service.

use unspoken_chat::{Answer, End, Logits, PrivateGeneration, Question, SessionId};
use unspoken_llama_model::{Generation, Sampling};
use unspoken_protocol::ClientHalf;

use crate::common::{CHUNK, Setting, client, setting, shared};

/// The largest difference of logits from those of the model, as passes of real parameters have it.
const NOISE: f32 = 0.004;

/// The logits of a pass: of the model in the clear, each with noise.
fn logits(setting: &Setting, before: &[u32], tokens: &[u32], noise: &mut fastrand::Rng) -> Logits {
    let model = &setting.model;
    let text = [before, tokens].concat();
    let mut cache = model.prefix_cache(setting.rotated.prefix()).unwrap();
    let normed = model.forward(&text, &mut cache, &mut ()).unwrap();
    let rows = model.logits(normed.slice(ndarray::s![text.len() - CHUNK.., ..]));
    let values = rows.iter().map(|logit| logit + NOISE * (2.0 * noise.f32() - 1.0)).collect();
    Logits::new(model.config.vocabulary, values)
}

/// Runs a generation to its end. `look` sees it after each answer.
fn run(generation: &mut PrivateGeneration, mut look: impl FnMut(&mut PrivateGeneration)) {
    let (setting, mut noise) = (setting(), fastrand::Rng::with_seed(5));
    let mut before = Vec::new();
    let mut chunks: Vec<Vec<u32>> = Vec::new();
    while let Some(question) = generation.question() {
        let answer = match &question {
            Question::Begin { public, .. } => {
                before.clone_from(public);
                Answer::Begun { public_tokens: public.len(), chunks: 4 }
            }
            Question::Pass { chunk, tokens, .. } => {
                chunks.truncate(*chunk as usize);
                let earlier = [before.as_slice(), &chunks.concat()].concat();
                chunks.push(tokens.to_vec());
                Answer::Passed(logits(setting, &earlier, tokens, &mut noise))
            }
            Question::End { .. } => Answer::Ended,
        };
        generation.answer(&answer).unwrap();
        look(generation);
    }
}

fn generation(story: usize, sampling: &Sampling) -> PrivateGeneration {
    let (public, private) = &setting().stories[story];
    let client = client(shared());
    let texts = (setting().rotated.prefix(), public.as_slice(), private.as_slice());
    let new = PrivateGeneration::new(client.description(), SessionId::new([8; 16]), texts, &[], 20).unwrap();
    new.with_sampling(client.description(), sampling.clone()).unwrap()
}

/// Speculation is exact: drafts that are right save passes, and change no token.
#[test]
fn sampled_tokens_are_those_of_the_model_in_the_clear() {
    let all = Sampling {
        temperature: Some(0.9),
        top_k: 40,
        top_p: 0.95,
        min_p: 0.02,
        seed: None,
        repetition_penalty: 1.1,
        presence_penalty: 0.2,
        frequency_penalty: 0.1,
        logit_bias: [(300, -3.0)].into(),
        log_probabilities: Some(3),
    };
    let cool = Sampling { temperature: Some(0.3), ..Sampling::default() };
    let (mut same, mut tokens, mut guessed) = (0, 0, 0);
    for seed in 0..12 {
        let (story, sampling) = (seed as usize % 6, if seed % 2 == 0 { &all } else { &cool });
        let mut generation = generation(story, &Sampling { seed: Some(seed), ..sampling.clone() });
        let (prompt, sampler) = (generation.text().to_vec(), generation.sampler().clone());
        run(&mut generation, |_| ());
        let told: Vec<u32> = Generation::sampled(&setting().model, &prompt, &[], sampler).unwrap().take(20).collect();
        let agree = told.iter().zip(generation.tokens()).take_while(|(a, b)| a == b).count();
        same += usize::from(agree == told.len());
        tokens += generation.tokens().len();
        guessed += generation.statistics().guessed;
        assert_eq!(generation.end(), Some(End::Maximum));
        let probabilities = generation.probabilities();
        assert_eq!(probabilities.len(), if seed % 2 == 0 { 20 } else { 0 });
        for (told, token) in probabilities.iter().zip(generation.tokens()) {
            assert_eq!((told.token.token, told.alternatives.len()), (*token, 3));
            assert!(told.alternatives.iter().all(|other| other.log_probability <= 0.0));
        }
    }
    // Noise moves a choice that is near the border between two tokens: of a few hundred choices, one or two.
    assert!(same >= 10 && tokens == 240, "{same} of 12 texts, {tokens} tokens");
    assert!(guessed > 0, "some drafts are right");
}

#[test]
fn a_stopped_text_has_the_tokens_before_and_asks_to_end_the_session() {
    let sampling = Sampling { log_probabilities: Some(0), ..Sampling::default() };
    let mut generation = generation(0, &sampling);
    let mut passes = 0;
    run(&mut generation, |generation| {
        if generation.tokens().len() >= 5 && generation.end().is_none() {
            passes = generation.statistics().passes;
            generation.stop(99);
            assert_eq!(generation.end(), None, "it has fewer tokens");
            generation.stop(4);
        }
    });
    assert_eq!((generation.tokens().len(), generation.probabilities().len()), (4, 4));
    assert_eq!((generation.end(), generation.statistics().passes), (Some(End::Stop), passes));
    assert_eq!(generation.statistics().tokens, 4);
}

#[test]
fn options_out_of_range_are_refused() {
    let (public, private) = &setting().stories[0];
    let client = client(shared());
    let texts = (setting().rotated.prefix(), public.as_slice(), private.as_slice());
    let new = PrivateGeneration::new(client.description(), SessionId::new([8; 16]), texts, &[], 20).unwrap();
    let sampling = Sampling { top_p: 0.0, ..Sampling::default() };
    let error = new.with_sampling(client.description(), sampling).err().unwrap().to_string();
    assert!(error.contains("top_p: found 0, needed above 0"), "{error}");
}
