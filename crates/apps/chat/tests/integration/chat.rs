//! Both halves against each other and against the model in the clear, in a small insecure ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{
    CHUNK, CHUNKS, CLIENT, Party, Setting, bundle, client, options, other_attention, server, setting, shared, whole,
};
use unspoken_chat::{
    Answer, ChatClient, ChatError, ChatServer, Description, End, Logits, PassInput, Question, ServerOptions, SessionId,
};
use unspoken_ckks::{Complex64, Encoder, Preset};
use unspoken_llama_model::Sampling;
use unspoken_protocol::{
    AnswerProgress, ApplicationDescription, ApplicationError, Call, CkksDescription, ClientHalf, ClientId, ErrorKind,
    KeyGenerator, KeyLoader, Request, ServerHalf,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{KeyBundle, KeyStorage, SecretKey};
use zeroize::Zeroizing;

const SESSION: SessionId = SessionId::new([9; 16]);
const OTHER: ClientId = ClientId::new([2; 16]);

fn begin(public: &[u32]) -> Question {
    Question::Begin { session: SESSION, public: public.to_vec() }
}

fn pass(chunk: u32, tokens: &[u32]) -> Question {
    Question::Pass { session: SESSION, chunk, tokens: Zeroizing::new(tokens.to_vec()) }
}

/// The logits of a pass.
fn logits(party: &mut Party, chunk: u32, tokens: &[u32]) -> Result<Logits, ChatError> {
    match party.ask(&pass(chunk, tokens))? {
        Answer::Passed(logits) => Ok(logits),
        other => panic!("{other:?}"),
    }
}

/// Whether the service has no such session.
fn is_unknown(party: &mut Party) -> bool {
    matches!(party.ask(&pass(0, &[3; CHUNK])), Ok(Answer::Unknown))
}

/// The largest difference between logits and the logits of the model in the clear, for a text that ends with a chunk.
fn error(setting: &Setting, found: &Logits, text: &[u32]) -> f32 {
    let model = &setting.model;
    let mut cache = model.prefix_cache(setting.rotated.prefix()).unwrap();
    let normed = model.forward(text, &mut cache, &mut ()).unwrap();
    let wanted = model.logits(normed.slice(ndarray::s![text.len() - CHUNK.., ..]));
    let rows = (0..CHUNK).map(|token| found.row(token).unwrap()).zip(wanted.rows());
    rows.flat_map(|(found, wanted)| found.iter().zip(wanted).map(|(a, b)| (a - b).abs()).collect::<Vec<_>>())
        .fold(0.0, f32::max)
}

/// What the logits of the small ring differ by, at most.
const MAX_ERROR: f32 = 1.0;

fn message<T>(result: Result<T, ChatError>) -> String {
    let error = result.err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::Malformed), "{error}");
    error.to_string()
}

#[test]
fn generated_tokens_are_those_of_the_model_in_the_clear() {
    let server = whole().server(&options());
    let mut party = Party::of(&server, CLIENT, whole().client(&server));
    let (public, private) = &whole().stories[0];
    let mut generation = party.generation(1, public, private, 12);
    let told = party.run(&mut generation).unwrap();
    let statistics = generation.statistics();
    assert_eq!(told, whole().told(public, private, 12));
    assert_eq!((generation.end(), statistics.tokens), (Some(End::Maximum), 12));
    assert_eq!(statistics.passes, statistics.generating + private.len() / CHUNK);
    assert_eq!(statistics.generating, statistics.tokens - statistics.guessed);
    assert!(statistics.guessed > 0, "{statistics:?}");
}

#[test]
fn a_model_with_the_attention_of_other_families_is_served_as_others_are() {
    let setting = other_attention();
    let server = setting.server(&options());
    let mut party = Party::of(&server, CLIENT, setting.client(&server));
    let (public, private) = &setting.stories[0];
    party.ask(&begin(public)).unwrap();
    let found = logits(&mut party, 0, &private[..CHUNK]).unwrap();
    let error = error(&setting, &found, &[public.as_slice(), &private[..CHUNK]].concat());
    assert!(error < MAX_ERROR, "{error}");
    let generation = party.generation(2, public, &private[..CHUNK], 2);
    let told = party.run(&mut { generation }).unwrap();
    assert_eq!(told, setting.told(public, &private[..CHUNK], 2));
}

#[test]
fn two_clients_with_the_same_session_id_at_once() {
    let mut parties = [Party::new(shared(), OTHER), Party::new(shared(), ClientId::new([3; 16]))];
    let stories = [&setting().stories[1], &setting().stories[2]];
    let mut generations = [0, 1].map(|i| parties[i].generation(5, &stories[i].0, &stories[i].1, 3));
    // Turn by turn.
    loop {
        let mut asked = false;
        for (party, generation) in parties.iter_mut().zip(&mut generations) {
            if let Some(question) = generation.question() {
                let answer = party.ask(&question).unwrap();
                generation.answer(&answer).unwrap();
                asked = true;
            }
        }
        if !asked {
            break;
        }
    }
    for (generation, (public, private)) in generations.iter().zip(stories) {
        assert_eq!(generation.tokens(), setting().told(public, private, 3));
    }
}

#[test]
fn a_chunk_is_replaced_and_others_are_refused() {
    let server = server(&options());
    let mut party = Party::new(&server, CLIENT);
    let (public, private) = &setting().stories[0];
    let text = [private.as_slice(), &setting().told(public, private, 12)].concat();
    let (first, second) = (&text[..CHUNK], &text[CHUNK..2 * CHUNK]);
    assert!(is_unknown(&mut party));
    let Answer::Begun { public_tokens, chunks } = party.ask(&begin(public)).unwrap() else { panic!() };
    assert_eq!((public_tokens, chunks), (1 + public.len(), CHUNKS));
    for chunk in [1, 7, u32::MAX] {
        assert!(message(logits(&mut party, chunk, first)).contains(&format!("chunk {chunk}")));
    }
    // Other tokens, which the next pass replaces.
    logits(&mut party, 0, second).unwrap();
    let with = |more: &[u32]| [public.as_slice(), more].concat();
    assert!(error(setting(), &logits(&mut party, 0, first).unwrap(), &with(first)) < MAX_ERROR);
    let error_text = message(logits(&mut party, 2, second));
    assert!(error_text.contains("found chunk 2, needed chunk 1 or an earlier one"), "{error_text}");
    logits(&mut party, 1, first).unwrap();
    assert!(error(setting(), &logits(&mut party, 1, second).unwrap(), &with(&text[..2 * CHUNK])) < MAX_ERROR);
    // An earlier chunk again: those after it are forgotten.
    assert!(error(setting(), &logits(&mut party, 0, second).unwrap(), &with(second)) < MAX_ERROR);
    assert!(message(logits(&mut party, 2, first)).contains("needed chunk 1 or an earlier one"));
    // A session that begins once more has no chunks, and one that has ended is gone.
    party.ask(&begin(public)).unwrap();
    assert!(message(logits(&mut party, 1, first)).contains("the first one"));
    for _ in 0..2 {
        assert!(matches!(party.ask(&Question::End { session: SESSION }), Ok(Answer::Ended)));
    }
    assert!(is_unknown(&mut party));
}

#[test]
fn a_cancelled_pass_leaves_the_session_as_it_was() {
    let server = whole().server(&options());
    let mut party = Party::of(&server, CLIENT, whole().client(&server));
    let (public, private) = &whole().stories[0];
    let (first, second) = (&private[..CHUNK], &private[4..4 + CHUNK]);
    party.ask(&begin(public)).unwrap();
    logits(&mut party, 0, first).unwrap();
    // Cancelled before it begins, and in the middle.
    assert!(party.ask_with(&pass(1, second), &AtomicBool::new(true)).unwrap_err().is_cancelled());
    let (cancel, progress) = (AtomicBool::new(false), AnswerProgress::new());
    let query = party.query(&pass(1, second));
    let (begun, layers) = (&party, whole().model.config.layers as u32);
    let (request, call) =
        (Request::new(CLIENT, &begun.keys, &query), Call { progress: Some(&progress), ..Call::new(&cancel) });
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| server.answer(&request, &call));
        while progress.newest().is_none_or(|(done, _)| done < 2) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Meanwhile no other query may use the session.
        let busy = server.answer(&request, &Call::default()).unwrap_err().to_string();
        assert!(busy.contains("another query is using"), "{busy}");
        cancel.store(true, Ordering::Relaxed);
        assert!(answer.join().unwrap().unwrap_err().is_cancelled());
    });
    assert!(progress.newest().is_some_and(|(done, total)| done < total && total == layers + 1));
    // The first chunk can still be replaced: the second one has left no trace.
    let text = [public.as_slice(), first].concat();
    assert!(error(whole(), &logits(&mut party, 0, first).unwrap(), &text) < MAX_ERROR);
}

#[test]
fn sessions_expire_and_make_room() {
    let short = ServerOptions { age: Duration::from_millis(1), ..options() };
    let server = server(&short);
    let mut party = Party::new(&server, CLIENT);
    party.ask(&begin(&[5])).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(is_unknown(&mut party));
}

#[test]
fn tokens_are_sent_as_compact_queries_where_the_service_looks_them_up() {
    let server = server(&ServerOptions { input: PassInput::Tokens, ..options() });
    assert_ne!(server.key_set(), shared().key_set());
    let mut party = Party::new(&server, CLIENT);
    let (public, private) = &setting().stories[1];
    let mut generation = party.generation(1, public, private, 6);
    let told = party.run(&mut generation).unwrap();
    assert_eq!(told, setting().told(public, private, 6));
    let query = party.query(&pass(0, &[5; CHUNK]));
    assert!(query.len() < 200, "{} bytes", query.len());
    // The same seed with another element.
    let header = server.description().header();
    let mut vectors = header.unpack("query", &query, usize::MAX, usize::MAX).unwrap();
    assert_eq!(vectors[1].len(), 16 + 4 * CHUNK);
    party.ask(&begin(public)).unwrap();
    server.answer(&Request::new(party.id, &party.keys, &query), &Call::default()).unwrap();
    vectors[1][17] ^= 1;
    let answer = |vectors: Vec<Vec<u8>>| {
        message(server.answer(&Request::new(party.id, &party.keys, &header.pack(vectors)), &Call::default()))
    };
    assert!(answer(vectors.clone()).contains("a fresh seed"));
    vectors[1].pop();
    assert!(answer(vectors.clone()).contains("compact query"));
    vectors.push(vectors[1].clone());
    assert!(answer(vectors).contains("at most"));
}

#[test]
fn without_public_text_and_to_the_end_of_the_context() {
    let mut party = Party::new(shared(), ClientId::new([4; 16]));
    let private = &[setting().stories[3].0.as_slice(), &setting().stories[3].1].concat()[..22];
    let mut generation = party.generation(7, &[], private, 1000);
    let told = party.run(&mut generation).unwrap();
    assert_eq!(generation.end(), Some(End::Context));
    // The last pass gives the token after the last place.
    assert_eq!(told.len(), CHUNKS * CHUNK + 1 - private.len());
    let clear = setting().told(&[], private, told.len());
    let same = told.iter().zip(&clear).take_while(|(a, b)| a == b).count();
    assert!(same >= told.len() / 2, "{told:?} {clear:?}");
}

/// The last turn of a conversation is replaced: chunks before it do not run again, and chunks after it are forgotten.
#[test]
fn a_conversation_goes_on_and_back() {
    let mut party = Party::new(shared(), ClientId::new([6; 16]));
    let (public, private) = &setting().stories[4];
    let mut generation = party.generation(9, public, private, 3).kept();
    party.run(&mut generation).unwrap();
    let more = [private, generation.tokens(), &setting().stories[5].1[..9]].concat();
    let edited = [&more[..13], &setting().stories[2].1[..5]].concat();
    for (text, passes) in [(&more, 2), (&edited, 1)] {
        let known = generation.reused(text, text.len()) / CHUNK;
        generation.go_on(party.client.description(), (text, text.len()), 3, Sampling::default()).unwrap();
        let told = party.run(&mut generation).unwrap();
        assert_eq!(told, setting().told(public, text, 3));
        assert!(known >= 1 && generation.statistics().passes >= passes);
    }
    // A service that has lost the session.
    party.ask(&Question::End { session: SessionId::new([9; 16]) }).unwrap();
    generation.go_on(party.client.description(), (&more, more.len()), 3, Sampling::default()).unwrap();
    assert_eq!(party.run(&mut generation).unwrap(), setting().told(public, &more, 3));
    assert_eq!(generation.statistics().restarts, 1);
    generation.close();
    let ended = party.ask(&generation.question().unwrap()).unwrap();
    generation.answer(&ended).unwrap();
    assert!(generation.question().is_none());
}

#[test]
fn texts_that_do_not_fit_are_refused_before_anything_is_sent() {
    let client = client(shared());
    let description = client.description();
    assert_eq!(description.most_public_tokens(), 72 - 1 - CHUNK);
    let new = |public: &[u32], private: &[u32]| {
        let texts = (&[1][..], public, private);
        message(unspoken_chat::PrivateGeneration::new(description, SESSION, texts, &[], 5))
    };
    assert!(new(&[5], &[]).contains("no tokens"));
    assert!(new(&[5], &[7; CHUNK * CHUNKS + 1]).contains("33 tokens"));
    assert!(new(&[5; 64], &[7; 8]).contains("shorten"));
    assert!(new(&[5], &[512]).contains("ids below 512"));
    let encode = |question: Question| message(client.encode(&[question]));
    assert!(encode(begin(&[5; 64])).contains("shorten the public text"));
    assert!(encode(pass(0, &[5; 7])).contains("7 tokens"));
    assert!(encode(pass(0, &[512; 8])).contains("outside the vocabulary"));
}

/// The polynomials of some models are right only after public text.
#[test]
fn too_few_public_tokens_are_refused_by_the_client_and_by_the_service() {
    let served = unspoken_chat::ServedModel { least_public: 3, ..setting().served() };
    let parameters = Preset::find(crate::common::PRESET).unwrap().build().unwrap();
    let server = ChatServer::new(served, &parameters, &options()).unwrap();
    let mut party = Party::new(&server, CLIENT);
    assert_eq!(party.client.description().least_public_tokens(), 3);
    let refused = |public: &[u32]| {
        let texts = (&[1][..], public, &[7][..]);
        let new = unspoken_chat::PrivateGeneration::new(party.client.description(), SESSION, texts, &[], 5);
        for error in [message(new), message(party.client.encode(&[begin(public)]))] {
            assert!(error.contains("found 2 tokens, needed 3 to 63"), "{error}");
            assert!(error.contains("lengthen the public text"), "{error}");
        }
    };
    refused(&[5, 6]);
    party.ask(&begin(&[5, 6, 7])).unwrap();
    // A client that does not know of it.
    let mut other = client(shared());
    let encoded = other.encode(&[begin(&[5, 6])]).unwrap();
    let query = other.query(&encoded).unwrap();
    let error = message(server.answer(&Request::new(party.id, &party.keys, &query), &Call::default()));
    assert!(error.contains("found 2 tokens, needed 3 to 63"), "{error}");
}

#[test]
fn keys_are_checked_before_work_starts() {
    let server = shared();
    let (first, stranger) = (client(server), client(server));
    let bundle = bundle(&first);
    let front = &bundle[..server.key_limits().front_bytes.min(bundle.len())];
    let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
    server.check_keys(&keys).unwrap();
    assert_eq!(server.key_limits().max_bytes, bundle.len() as u64);
    assert_eq!(server.loaded_key_bytes(front).unwrap(), server.key_limits().memory_bytes);
    assert!(first.is_covered_by(&first.bundle_contents()));
    for length in [0, 10, bundle.len() / 2, bundle.len() - 1] {
        assert!(server.load_keys(&mut &bundle[..length]).is_err(), "{length}");
    }
    let longer = [bundle.as_slice(), &[0]].concat();
    let error = server.load_keys(&mut longer.as_slice()).err().unwrap().to_string();
    assert!(error.contains("bytes after its end"), "{error}");
    // A bundle with a key too few.
    let parameters = server.description().parameters().rlwe();
    let all = server.description().header().key_plan();
    let seventh = all.iter().nth(7).unwrap().0;
    let fewer = all.only(|kind| kind != seventh);
    let mut plan = Vec::new();
    KeyBundle::write_plan(parameters, &fewer, &mut plan).unwrap();
    let error = server.loaded_key_bytes(&plan).unwrap_err().to_string();
    assert!(error.contains("without 1 that are needed"), "{error}");
    // Keys of the small ring that belong to something else.
    let mut other = bundle.clone();
    let place = bundle.len() - unspoken_rlwe::SeededSmallRingKeys::byte_len(server.description().small_ring());
    other[place + 24] ^= 1;
    assert!(server.load_keys(&mut other.as_slice()).is_err());

    let mut party = Party { server, id: ClientId::new([6; 16]), client: first, keys };
    party.ask(&begin(&[5])).unwrap();
    // Keys of another secret: the logits are far out of bounds, or at least the error of a token is.
    let strangers = server.load_keys(&mut crate::common::bundle(&stranger).as_slice()).unwrap();
    party.keys = strangers;
    let error = logits(&mut party, 0, &[5; CHUNK]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreadable);
    assert!(error.to_string().contains("numbers that no sound pass gives"), "{error}");
}

/// A loop around a client would otherwise tell a dishonest service one bit about the text with each refusal.
#[test]
fn a_client_that_refused_the_content_of_an_answer_asks_nothing_more() {
    let server = shared();
    let (mut party, stranger) = (Party::new(server, ClientId::new([12; 16])), client(server));
    party.ask(&begin(&[5])).unwrap();
    let question = pass(0, &[5; CHUNK]);
    let encoded = party.client.encode(&[&question]).unwrap();
    // An answer of another kind depends on no secret: the question can be asked again.
    let query = party.query(&begin(&[5]));
    let begun = server.answer(&Request::new(party.id, &party.keys, &query), &Call::default()).unwrap();
    assert_eq!(party.client.read(&begun, &encoded).unwrap_err().kind(), ErrorKind::Mismatch);
    party.client.encode(&[&question]).unwrap();

    party.keys = server.load_keys(&mut bundle(&stranger).as_slice()).unwrap();
    assert_eq!(party.ask(&question).unwrap_err().kind(), ErrorKind::Unreadable);
    for question in [&question, &begin(&[5]), &Question::End { session: SESSION }] {
        let error = party.client.encode(&[question]).err().unwrap();
        assert!(matches!(error, ChatError::Refused), "{error}");
    }
    // Nor when the service has changed its description meanwhile.
    let mut later = Description::insecure_from_bytes(&server.describe()).unwrap();
    later.keep_from(party.client.description());
    let secret = party.client.secret_bytes().unwrap();
    let later = ChatClient::open(later, Arc::clone(&setting().client), Some(&secret)).unwrap();
    assert!(matches!(later.encode(&[&question]), Err(ChatError::Refused)));
}

/// A service loads the keys of a client once for all its applications with the same set of keys.
#[test]
fn keys_that_one_application_has_loaded_serve_another_one() {
    let (other, first) = (server(&options()), client(shared()));
    assert_eq!(shared().key_set(), other.key_set());
    let keys = shared().load_keys(&mut bundle(&first).as_slice()).unwrap();
    let secret = first.secret_bytes().unwrap();
    let description = Description::insecure_from_bytes(&other.describe()).unwrap();
    let client = ChatClient::open(description, Arc::clone(&setting().client), Some(&secret)).unwrap();
    let mut party = Party { server: &other, id: ClientId::new([7; 16]), client, keys };
    let (public, private) = &setting().stories[2];
    party.ask(&begin(public)).unwrap();
    let found = logits(&mut party, 0, &private[..CHUNK]).unwrap();
    assert!(error(setting(), &found, &[public, &private[..CHUNK]].concat()) < MAX_ERROR);
}

#[test]
fn seeded_keys_take_less_memory() {
    let seeded = server(&ServerOptions { storage: KeyStorage::Seeded, ..options() });
    assert!(seeded.key_limits().memory_bytes < shared().key_limits().memory_bytes);
    assert_eq!(seeded.key_set(), shared().key_set());
    assert_eq!(shared().key_set(), client(shared()).description().key_set());
}

#[test]
fn malformed_queries_are_refused() {
    let server = shared();
    let mut party = Party::new(server, ClientId::new([8; 16]));
    party.ask(&begin(&[5])).unwrap();
    let question = pass(0, &[5; CHUNK]);
    let query = party.query(&question);
    let end = party.query(&Question::End { session: SESSION });
    let answer = |query: &[u8]| server.answer(&Request::new(party.id, &party.keys, query), &Call::default());
    for length in [0, 1, 40, query.len() / 2, query.len() - 1] {
        assert!(answer(&query[..length]).is_err(), "{length}");
    }
    assert!(answer(&vec![0; query.len() + 1000]).is_err());
    let header = server.description().header();
    let vectors = header.unpack("query", &query, usize::MAX, usize::MAX).unwrap();
    let packed = |vectors: &[Vec<u8>]| message(answer(&header.pack(vectors.to_vec())));
    assert!(packed(&[]).contains("no vectors"));
    assert!(packed(&vectors[..1]).contains("0 vectors"));
    assert!(packed(&[vectors.clone(), vectors[1..].to_vec()].concat()).contains("at most"));
    let control = header.unpack("query", &end, usize::MAX, usize::MAX).unwrap().remove(0);
    assert!(packed(&[control, vectors[1].clone()]).contains("none but for a pass"));
    assert!(packed(&[vec![0xff; 5], vectors[1].clone()]).contains("protobuf"));
    // A vector of another level.
    let (parameters, mut rng) = (server.description().parameters(), SecretRng::insecure_from_seed(5));
    let secret = SecretKey::from_bytes(parameters.rlwe(), &party.client.secret_bytes().unwrap()).unwrap();
    let encoder = Encoder::new(parameters);
    let plaintext = encoder.encode(&[Complex64::default()], 2, parameters.scale()).unwrap();
    let low = encoder.encrypt(&plaintext, &secret, &mut rng).unwrap().to_bytes(parameters);
    assert!(packed(&[vectors[0].clone(), low]).contains("level 2"));
    // A seed with another vector: the lowest bit of a residue of 20 bits, which stays reduced.
    let mut other = vectors.clone();
    let residue = other[1].len() - 5;
    answer(&query).unwrap();
    other[1][residue] ^= 1;
    let refused = packed(&other);
    assert!(refused.contains("a fresh seed"), "{refused}");
    answer(&query).unwrap();
}

#[test]
fn a_flipped_bit_is_refused_as_damage_in_every_message() {
    let server = shared();
    let mut party = Party::new(server, ClientId::new([10; 16]));
    party.ask(&begin(&[5])).unwrap();
    let question = begin(&[5, 6]);
    let query = party.query(&question);
    let answer = server.answer(&Request::new(party.id, &party.keys, &query), &Call::default()).unwrap();
    let encoded = party.client.encode(&[question]).unwrap();
    crate::damage::assert_damage_is_refused(&[
        ("description", server.describe(), &|bytes| {
            Description::insecure_from_bytes(bytes).map(drop).map_err(|error| error.to_string())
        }),
        ("query", query, &|bytes| {
            server
                .answer(&Request::new(party.id, &party.keys, bytes), &Call::default())
                .map(drop)
                .map_err(|error| error.to_string())
        }),
        ("answer", answer, &|bytes| party.client.read(bytes, &encoded).map(drop).map_err(|error| error.to_string())),
    ]);
}

#[test]
fn answers_to_other_questions_are_refused() {
    let server = shared();
    let mut party = Party::new(server, ClientId::new([11; 16]));
    let query = party.query(&begin(&[5]));
    let answer = server.answer(&Request::new(party.id, &party.keys, &query), &Call::default()).unwrap();
    for question in [begin(&[5, 6]), pass(0, &[5; CHUNK]), Question::End { session: SESSION }] {
        let encoded = party.client.encode(&[question]).unwrap();
        assert!(message(party.client.read(&answer, &encoded)).starts_with("answer"));
    }
    let mut generation = party.generation(1, &[5], &[6, 7], 3);
    generation.question().unwrap();
    assert!(message(generation.answer(&Answer::Ended)).contains("another kind"));
    generation.answer(&Answer::Begun { public_tokens: 2, chunks: CHUNKS }).unwrap();
    generation.question().unwrap();
    assert!(generation.question().is_none(), "an answer is outstanding");
    let short = Answer::Passed(Logits::new(512, vec![0.0; 512]));
    assert!(message(generation.answer(&short)).contains("logits of 1 tokens"));
}

#[test]
fn less_room_of_the_same_model_is_refused() {
    let describe = |options| Description::insecure_from_bytes(&server(&options).describe()).unwrap();
    let usual = describe(options());
    ChatClient::check_change(&usual, &usual).unwrap();
    let fewer = describe(ServerOptions { chunks: CHUNKS - 1, ..options() });
    ChatClient::check_change(&fewer, &usual).unwrap();
    let error = message(ChatClient::check_change(&usual, &fewer));
    assert!(error.contains("needed no fewer of the same length"), "{error}");
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let sound = shared().describe();
    assert!(message(Description::from_bytes(&sound)).contains("secure"));
    let description = Description::insecure_from_bytes(&sound).unwrap();
    assert_eq!(description.to_bytes(), sound);
    // Two bytes of a key, for fields from 16 on, and a value; the last value of a field counts.
    let changed = |field: u32, value: &[u8]| {
        let key = field << 3;
        let fields = [&[0x80 | (key & 0x7f) as u8, (key >> 7) as u8], value].concat();
        message(Description::insecure_from_bytes(&crate::damage::with_fields(&sound, &fields)))
    };
    for (field, value, part) in [
        (20, &[0][..], "width 0"),
        (21, &[0], "number of heads 0"),
        (22, &[7], "heads of width 7"),
        (23, &[0xff, 0xff, 0xff, 0xff, 0x0f], "vocabulary"),
        (24, &[3], "context of 3"),
        (26, &[9], "power of two"),
        (27, &[0], "0 chunks"),
        (28, &[100], "small ring"),
        (29, &[99], "level"),
        (30, &[99], "level"),
        (33, &[7], "results of kind 7"),
        (34, &[7], "inputs of kind 7"),
        (35, &[64], "64 public tokens at least"),
    ] {
        let error = changed(field, value);
        assert!(error.contains(part), "{field} {part}: {error}");
    }
    let setting = setting();
    // Units with which the encryption, or the check of an answer, would depend on the text.
    for (field, value) in [(31u32, 1e-6f64), (31, 1e20), (32, 1e-6)] {
        let key = field << 3 | 1;
        let fields = [&[0x80 | (key & 0x7f) as u8, (key >> 7) as u8][..], &value.to_le_bytes()].concat();
        let description = Description::insecure_from_bytes(&crate::damage::with_fields(&sound, &fields)).unwrap();
        let error = message(ChatClient::open(description, setting.client.clone(), None));
        assert!(error.contains("do not trust this service"), "{error}");
    }
    // Another model.
    let mut other = setting.served();
    other.id = unspoken_llama_model::RotatedModel::new((*setting.model).clone(), vec![]).id();
    let parameters = Preset::find(crate::common::PRESET).unwrap().build().unwrap();
    let other = ChatServer::new(other, &parameters, &options()).unwrap();
    let description = Description::insecure_from_bytes(&other.describe()).unwrap();
    let error = ChatClient::open(description, setting.client.clone(), None).err().unwrap().to_string();
    assert!(error.contains("half of another model"), "{error}");
}

#[test]
fn services_without_room_are_not_made() {
    let parameters = Preset::find(crate::common::PRESET).unwrap().build().unwrap();
    let new = |options: ServerOptions| ChatServer::new(setting().served(), &parameters, &options).err().unwrap();
    for options in [
        ServerOptions { chunks: 0, ..options() },
        ServerOptions { sessions: 0, ..options() },
        ServerOptions { sessions_per_client: 0, ..options() },
        ServerOptions { session_bytes: 1000, ..options() },
        ServerOptions { chunk: 4, ..options() },
        ServerOptions { chunk: 24, ..options() },
    ] {
        println!("{}", new(options));
    }
    let few = server(&ServerOptions { session_bytes: 2 * shared().sessions().1 + 1, ..options() });
    assert_eq!(few.sessions().0, 2);
}

/// Every number of public tokens must need only keys that the description names.
#[test]
fn keys_serve_every_length_of_the_public_text() {
    let server = shared();
    let encoder = Encoder::new(server.description().parameters());
    for (public, chunks) in [(1, 1), (2, 4), (7, 4), (8, 4), (9, 4), (16, 4), (25, 4), (40, 4), (41, 3), (64, 1)] {
        let needed = server.program().requirements(&encoder, public, chunks).unwrap();
        assert!(server.description().header().key_plan().covers(&needed.keys), "{public}");
        assert!(needed.session_bytes <= server.requirements().session_bytes, "{public}");
    }
}
