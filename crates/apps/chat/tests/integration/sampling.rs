//! Tokens that are chosen at random, at a service that computes in the clear: a generation knows no service.

use std::sync::Arc;

use unspoken_chat::{Answer, Conversation, End, Logits, PrivateGeneration, PromptTokens, Question, SessionId, Wanted};
use unspoken_llama_model::{ChatTemplate, ClientModel, Generation, Message, Prompt, Rendering, Sampling};
use unspoken_protocol::ClientHalf;
use zeroize::Zeroizing;

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

/// A service that computes in the clear, with one session.
#[derive(Default)]
struct ClearService {
    public: Vec<u32>,
    chunks: Vec<Vec<u32>>,
    /// The chunks that were asked for.
    asked: Vec<u32>,
    noise: Option<fastrand::Rng>,
}

impl ClearService {
    fn answer(&mut self, question: &Question) -> Answer {
        match question {
            Question::Begin { public, .. } => {
                self.public.clone_from(public);
                Answer::Begun { public_tokens: public.len(), chunks: 4 }
            }
            Question::Pass { chunk, tokens, .. } => {
                assert!(*chunk as usize <= self.chunks.len());
                self.asked.push(*chunk);
                self.chunks.truncate(*chunk as usize);
                let earlier = [self.public.as_slice(), &self.chunks.concat()].concat();
                self.chunks.push(tokens.to_vec());
                let noise = self.noise.get_or_insert_with(|| fastrand::Rng::with_seed(5));
                Answer::Passed(logits(setting(), &earlier, tokens, noise))
            }
            Question::End { .. } => Answer::Ended,
        }
    }

    /// Runs a generation to its end. `look` sees it after each answer.
    fn run(&mut self, generation: &mut PrivateGeneration, mut look: impl FnMut(&mut PrivateGeneration)) {
        while let Some(question) = generation.question() {
            generation.answer(&self.answer(&question)).unwrap();
            look(generation);
        }
    }
}

fn run(generation: &mut PrivateGeneration, look: impl FnMut(&mut PrivateGeneration)) {
    ClearService::default().run(generation, look);
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

/// Each text of a conversation gives the tokens of the model, and only chunks that changed run.
#[test]
fn a_kept_session_goes_on_with_other_texts() {
    let (service, client) = (&mut ClearService::default(), client(shared()));
    let (description, model) = (client.description(), &setting().model);
    let (public, private) = &setting().stories[0];
    let texts = (setting().rotated.prefix(), public.as_slice(), private.as_slice());
    let most = 4;
    let new = PrivateGeneration::new(description, SessionId::new([8; 16]), texts, &[], most).unwrap();
    let mut generation = new.kept();
    let greedy = Sampling::default;
    let early = generation.go_on(description, (private, 99), 3, greedy()).unwrap_err().to_string();
    assert!(early.contains("next text: found a text that has not ended"), "{early}");
    service.run(&mut generation, |_| ());
    let told = |private: &[u32], count: usize| -> Vec<u32> {
        let prompt = [setting().rotated.prefix(), public, private].concat();
        Generation::new(model, &prompt, &[]).unwrap().take(count).collect()
    };
    assert_eq!((generation.end(), generation.tokens()), (Some(End::Maximum), &told(private, most)[..]));
    // A longer text: what the service has run does not run again.
    let more = [private, generation.tokens(), &setting().stories[1].1[..5]].concat();
    // Other ends: within the last chunk, and before it.
    let mut first = Vec::new();
    let edited = [&more[..18], &setting().stories[2].1[..4]].concat();
    let earlier = [&more[..9], &setting().stories[3].1[..3]].concat();
    for text in [&more, &edited, &earlier, &more, private] {
        let known = service.chunks.concat().iter().zip(text).take_while(|(run, new)| run == new).count();
        let whole = known.min(text.len() - 1) / CHUNK;
        assert_eq!(generation.reused(text, 99), whole * CHUNK);
        service.asked.clear();
        generation.go_on(description, (text, 99), most, greedy()).unwrap();
        assert!(generation.end().is_none() && generation.tokens().is_empty());
        service.run(&mut generation, |_| ());
        assert_eq!(generation.tokens(), told(text, most));
        assert_eq!(service.asked[0] as usize, whole, "{:?}", service.asked);
        first.push(service.asked[0]);
        assert_eq!(generation.statistics().passes, service.asked.len());
    }
    assert!(first.contains(&1) && first.contains(&2), "{first:?}");
    // A text that ends while its pass runs: which tokens the service has in that chunk is not known.
    generation.go_on(description, (&more, 99), most, greedy()).unwrap();
    let Some(Question::Pass { chunk, .. }) = generation.question() else { panic!("needed a pass") };
    generation.retry();
    generation.stop(0);
    assert_eq!((generation.end(), generation.reused(&more, 99)), (Some(End::Stop), chunk as usize * CHUNK));
    // Another seed or temperature is an option of the text.
    let warm = Sampling { temperature: Some(0.9), seed: Some(3), ..greedy() };
    generation.go_on(description, (&more, 99), most, warm).unwrap();
    let sampler = generation.sampler().clone();
    service.run(&mut generation, |_| ());
    let prompt = [setting().rotated.prefix(), public, &more].concat();
    let told: Vec<u32> = Generation::sampled(model, &prompt, &[], sampler).unwrap().take(most).collect();
    assert_eq!(generation.tokens(), told);
    // What is refused changes nothing.
    for (text, needed) in [(vec![3; 40], "shorten the text"), (vec![], "one or more"), (vec![9999], "ids below")] {
        let error = generation.go_on(description, (&text, 99), 3, greedy()).unwrap_err().to_string();
        assert!(error.contains(needed), "{error}");
        assert_eq!(generation.tokens(), told);
    }
    generation.stop(1);
    assert_eq!((generation.end(), generation.tokens()), (Some(End::Stop), &told[..1]));
    generation.close();
    assert!(matches!(generation.question(), Some(Question::End { .. })));
    service.run(&mut generation, |_| ());
    assert!(generation.question().is_none() && generation.go_on(description, (&more, 99), 3, greedy()).is_err());
}

/// Messages of a conversation: what has run does not run again, whatever its text could be cut into.
#[test]
fn a_conversation_of_messages_runs_what_is_new() {
    let setting = setting();
    let source = "{% for m in messages %}{{ m.role[:1] }}: {{ m.content }}\n</s>\n{% endfor %}\
                  {% if add_generation_prompt %}a: {% endif %}";
    let template = ChatTemplate::new(source, Default::default()).unwrap();
    let tokenizer = crate::common::stories260k().tokenizer.with_chat_template(Some(template));
    let model = Arc::new(ClientModel::new(&setting.rotated, tokenizer));
    let (service, client) = (&mut ClearService::default(), client(shared()));
    let mut conversation = Conversation::new(Arc::clone(&model), true).unwrap();
    let wanted = || Wanted { tokens: 3, sampling: Sampling::default(), stops: Vec::new() };
    let mut messages = vec![Message::new("user", "A cat.")];
    let say = |conversation: &mut Conversation, service: &mut ClearService, messages: &[Message]| -> String {
        let prompt = model.tokenizer().prompt(messages, 0, &Rendering::default()).unwrap();
        let tokens = conversation.read(&prompt, 1).unwrap();
        let told: Vec<u32> = {
            let prompt = [setting.rotated.prefix(), &tokens.public, &tokens.private].concat();
            Generation::new(&setting.model, &prompt, model.tokenizer().ends()).unwrap().take(3).collect()
        };
        conversation.begin(&client, tokens, wanted()).unwrap();
        service.asked.clear();
        let mut text = String::new();
        while let Some(question) = conversation.question() {
            text += &conversation.answer(&service.answer(&question)).unwrap();
        }
        assert_eq!(conversation.generation().unwrap().tokens(), told);
        text
    };
    let first = say(&mut conversation, service, &messages);
    assert!(service.asked[0] == 0 && !first.is_empty());
    let generation = conversation.generation().unwrap();
    let known = generation.text()[1 + generation.public().len()..].to_vec();
    messages.extend([Message::new("assistant", &*first), Message::new("user", "Why?")]);
    let next = |messages: &[Message]| model.tokenizer().prompt(messages, 0, &Rendering::default()).unwrap();
    // The tokens of the first answer are those that were generated.
    let tokens = conversation.read(&next(&messages), 1).unwrap();
    assert_eq!(tokens.private[..known.len()], known);
    assert!(conversation.reused(&tokens).unwrap() + CHUNK >= known.len());
    say(&mut conversation, service, &messages);
    assert!(service.asked[0] >= 1, "{:?}", service.asked);
    // The last question is another one.
    messages[2].content = "So?".into();
    let tokens = conversation.read(&next(&messages), 1).unwrap();
    assert_eq!(tokens.private[..known.len()], known);
    let edited = say(&mut conversation, service, &messages);
    assert!(service.asked[0] >= 1, "{:?}", service.asked);
    // Another beginning.
    say(&mut conversation, service, &[Message::new("user", "The dog.")]);
    assert_eq!(service.asked[0], 0);
    // Another public part begins the session again, under the same id.
    let prompt = Prompt { public: "A cat.".into(), private: Zeroizing::new(edited + " It") };
    let tokens = conversation.read(&prompt, 1).unwrap();
    assert!(!tokens.public.is_empty() && conversation.reused(&tokens).is_none());
    conversation.begin(&client, tokens, wanted()).unwrap();
    assert!(matches!(conversation.question(), Some(Question::Begin { .. })));
    assert_eq!(conversation.reused(&PromptTokens::default()), None);
}

#[test]
fn a_conversation_ends_before_stop_strings_and_where_it_is_stopped() {
    let (setting, client) = (setting(), client(shared()));
    let prompt = Prompt { public: String::new(), private: Zeroizing::new("Once upon a time".into()) };
    let say = |stops: &[&str], pieces: usize| {
        let service = &mut ClearService::default();
        let mut conversation = Conversation::new(Arc::clone(&setting.client), true).unwrap();
        let stops = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let tokens = conversation.read(&prompt, 1).unwrap();
        let wanted = Wanted { tokens: 12, sampling: Sampling::default(), stops };
        conversation.begin(&client, tokens, wanted).unwrap();
        let (mut text, mut answers) = (String::new(), 0);
        while let Some(question) = conversation.question() {
            text += &conversation.answer(&service.answer(&question)).unwrap();
            answers += 1;
            if answers == pieces {
                conversation.stop();
            }
        }
        // The next message goes on from what was given out.
        let prompt = Prompt { public: String::new(), private: Zeroizing::new(format!("Once upon a time{text}, but")) };
        let known = conversation.read(&prompt, 1).unwrap().private;
        let generated = conversation.generation().unwrap();
        let same = known.iter().zip(&generated.text()[1..]).take_while(|(a, b)| a == b).count();
        assert!(same + 2 >= generated.prompt().len() + text.len().min(1), "{text:?}");
        (text, conversation.end())
    };
    let (whole, end) = say(&[], 0);
    assert_eq!(end, Some(End::Maximum));
    let cut = whole.char_indices().nth(6).unwrap().0;
    let stop = &whole[cut..whole.len() - 1];
    let before = &whole[..whole.find(stop).unwrap()];
    assert_eq!(say(&[stop], 0), (before.to_owned(), Some(End::Stop)));
    let (some, end) = say(&[], 2);
    assert!(whole.starts_with(&some) && some.len() < whole.len() && end == Some(End::Stop), "{some:?}");
}

/// Each choice has the tokens of its own seed, and only the chunk in which the text ends runs again for it.
#[test]
fn choices_of_a_text_share_a_session() {
    let (setting, client) = (setting(), client(shared()));
    let service = &mut ClearService::default();
    let mut conversation = Conversation::new(Arc::clone(&setting.client), true).unwrap();
    let prompt = Prompt { public: String::new(), private: Zeroizing::new("One day, Tom saw a big dog".into()) };
    // The model has one layer, which is sure of itself.
    let sampling = Sampling { temperature: Some(9.0), seed: Some(u64::MAX), ..Sampling::default() };
    let wanted = Wanted { tokens: 5, sampling, stops: vec!["!".into()] };
    let mut texts = Vec::new();
    for (number, wanted) in wanted.choices(3).unwrap().into_iter().enumerate() {
        assert_eq!((wanted.sampling.seed, wanted.tokens), (Some([u64::MAX, 0, 1][number]), 5));
        let tokens = conversation.read(&prompt, CHUNK).unwrap();
        let last = (tokens.private.len() / CHUNK - 1) as u32;
        conversation.begin(&client, tokens, wanted).unwrap();
        let generation = conversation.generation().unwrap();
        let (before, sampler) = (generation.text().to_vec(), generation.sampler().clone());
        service.asked.clear();
        while let Some(question) = conversation.question() {
            conversation.answer(&service.answer(&question)).unwrap();
        }
        let ends = setting.client.tokenizer().ends();
        let told: Vec<u32> = Generation::sampled(&setting.model, &before, ends, sampler).unwrap().take(5).collect();
        let generation = conversation.generation().unwrap();
        assert_eq!(generation.tokens(), &told[..generation.tokens().len()]);
        assert!(last > 0 && service.asked[0] == if number == 0 { 0 } else { last }, "{:?}", service.asked);
        texts.push(told);
    }
    assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
    let new = Wanted { sampling: Sampling { seed: None, ..wanted.sampling }, ..wanted }.choices(2).unwrap();
    let seeds = [0, 1].map(|choice| new[choice].sampling.seed.unwrap());
    assert_eq!(seeds[0] + 1, seeds[1]);
}

/// A choice of tokens without text, here the first byte of a character, leaves the prompt of the next one as it was.
#[test]
fn tokens_without_text_are_no_part_of_the_next_prompt() {
    let (setting, client) = (setting(), client(shared()));
    let service = &mut ClearService::default();
    let mut conversation = Conversation::new(Arc::clone(&setting.client), true).unwrap();
    let prompt = Prompt { public: String::new(), private: Zeroizing::new("One day, Tom saw a big dog".into()) };
    let tokens = conversation.read(&prompt, CHUNK).unwrap();
    let first = tokens.private.clone();
    // Bytes have the tokens from 3 on.
    let sampling = Sampling { logit_bias: [(3 + 0xc3, 1000.0)].into(), ..Sampling::default() };
    conversation.begin(&client, tokens, Wanted { tokens: 1, sampling, stops: Vec::new() }).unwrap();
    while let Some(question) = conversation.question() {
        assert_eq!(conversation.answer(&service.answer(&question)).unwrap(), "");
    }
    assert_eq!(conversation.generation().unwrap().tokens(), [3 + 0xc3]);
    assert_eq!(*conversation.read(&prompt, CHUNK).unwrap().private, *first);
}

/// What a service sees does not tell how long a text is, but for its number of chunks.
#[test]
fn texts_are_filled_up_to_whole_chunks() {
    let (setting, client) = (setting(), client(shared()));
    let filler = setting.client.tokenizer().filler();
    let mut seen: Vec<(usize, Vec<u32>)> = Vec::new();
    for words in ["Tom", "Tom saw a", "One day, Tom saw a", "One day, Tom and Mia saw a"] {
        let service = &mut ClearService::default();
        let mut conversation = Conversation::new(Arc::clone(&setting.client), true).unwrap();
        let mut text = words.to_owned();
        for turn in 0..2 {
            let prompt = Prompt { public: String::new(), private: Zeroizing::new(text.clone()) };
            let tokens = conversation.read(&prompt, CHUNK).unwrap();
            assert_eq!(tokens.private.len() % CHUNK, 0);
            let plain = conversation.read(&prompt, 1).unwrap().private.len();
            let fillers = tokens.private.iter().filter(|token| **token == filler).count();
            assert!(fillers >= tokens.private.len() - plain && tokens.private.len() - plain < CHUNK);
            let private = tokens.private.clone();
            // Without guesses: each token takes a pass.
            let wanted = Wanted { tokens: 2, sampling: Sampling::default(), stops: Vec::new() };
            conversation.begin(&client, tokens, wanted).unwrap();
            service.asked.clear();
            while let Some(question) = conversation.question() {
                text += &conversation.answer(&service.answer(&question)).unwrap();
            }
            let prompt = [setting.rotated.prefix(), &private].concat();
            let told: Vec<u32> = Generation::new(&setting.model, &prompt, &[]).unwrap().take(2).collect();
            assert_eq!(conversation.generation().unwrap().tokens(), told);
            if turn == 0 {
                seen.push((private.len() / CHUNK, service.asked.clone()));
                text += " and";
            }
        }
    }
    // Whether another text has as many fillers does not show: it runs from the fillers on. The same one does not.
    let mut conversation = Conversation::new(Arc::clone(&setting.client), true).unwrap();
    let service = &mut ClearService::default();
    for (words, first) in [("One day, Tom saw a big dog", 0), ("One day, Tom saw a big cat", 0), ("=", 1)] {
        let text = if words == "=" { "One day, Tom saw a big cat" } else { words };
        let prompt = Prompt { public: String::new(), private: Zeroizing::new(text.to_owned()) };
        let tokens = conversation.read(&prompt, CHUNK).unwrap();
        assert!(tokens.private.len() > CHUNK);
        let wanted = Wanted { tokens: 1, sampling: Sampling::default(), stops: Vec::new() };
        conversation.begin(&client, tokens, wanted).unwrap();
        service.asked.clear();
        while let Some(question) = conversation.question() {
            conversation.answer(&service.answer(&question)).unwrap();
        }
        assert_eq!(service.asked[0], first, "{words}");
    }
    // Texts of as many chunks look alike: one pass for each chunk of the text, and one for the second token.
    for (chunks, asked) in &seen {
        let mut expected: Vec<u32> = (0..*chunks as u32).collect();
        expected.push(*chunks as u32);
        let guessed: Vec<u32> = (0..*chunks as u32).collect();
        assert!(*asked == expected || *asked == guessed, "{asked:?}");
    }
    assert!(seen.iter().filter(|(chunks, _)| *chunks == 1).count() >= 2, "{seen:?}");
}
