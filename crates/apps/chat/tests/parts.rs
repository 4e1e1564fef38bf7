//! Passes whose parts another server computes, over their messages.

mod common;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use common::{CLIENT, GO, bundle, client, options, server, setting, shared};
use unspoken_chat::{Answer, ChatError, LlamaKeys, LlamaServer, Question, SessionId};
use unspoken_protocol::{
    AnswerHelpers, AnswerProgress, ApplicationError, ClientHalf, ErrorKind, KeyLoader, ServerHalf,
};

/// Another server with the keys of the same client. It computes every second part, and of the others damages the
/// result, or does not give one.
struct Other<'a> {
    server: &'a LlamaServer,
    keys: LlamaKeys,
    parts: Mutex<Vec<Vec<u8>>>,
}

impl Other<'_> {
    fn part(&self, part: &[u8]) -> Result<Vec<u8>, ChatError> {
        self.server.compute_part(&self.keys, part, &GO).unwrap()
    }
}

impl AnswerHelpers for Other<'_> {
    fn count(&self) -> usize {
        1
    }

    fn compute(&self, helper: usize, part: &[u8]) -> Option<Vec<u8>> {
        assert_eq!(helper, 0);
        let mut parts = self.parts.lock().unwrap();
        parts.push(part.to_vec());
        let number = parts.len();
        drop(parts);
        match number % 4 {
            0 => None,
            2 => Some(self.part(part).unwrap()[..1000].to_vec()),
            _ => Some(self.part(part).unwrap()),
        }
    }
}

#[test]
fn parts_of_passes_are_computed_by_another_server() {
    let (mut client, other) = (client(shared()), server(&options()));
    let bundle = bundle(&client);
    let [keys, others] = [shared(), &other].map(|server| server.load_keys(&mut bundle.as_slice()).unwrap());
    let helpers = Other { server: &other, keys: others, parts: Mutex::default() };
    let (public, private) = &setting().stories[0];
    let [alone, helped] = [7, 8].map(|id| SessionId::new([id; 16]));
    let mut ask = |question: &Question, helpers: Option<&dyn AnswerHelpers>| {
        let encoded = client.encode(&[question]).unwrap();
        let query = client.query(&encoded).unwrap();
        let progress = AnswerProgress::new();
        let answer = match helpers {
            None => shared().answer_with_progress(CLIENT, &keys, &query, &GO, &progress),
            Some(helpers) => shared().answer_with_helpers(CLIENT, &keys, &query, &GO, &progress, helpers),
        };
        client.read(&answer.unwrap(), &encoded).unwrap().remove(0)
    };
    let mut logits = Vec::new();
    for (session, helpers) in [(alone, None), (helped, Some(&helpers as &dyn AnswerHelpers))] {
        ask(&Question::Begin { session, public: public.clone() }, helpers);
        for chunk in 0..2 {
            let tokens = private[..8].to_vec().into();
            match ask(&Question::Pass { session, chunk, tokens }, helpers) {
                Answer::Passed(passed) => logits.push(passed),
                other => panic!("{other:?}"),
            }
        }
    }
    let parts = helpers.parts.into_inner().unwrap();
    assert!(parts.len() > 8, "{}", parts.len());
    for chunk in 0..2 {
        let (alone, helped) = (&logits[chunk], &logits[2 + chunk]);
        for token in 0..alone.len() {
            let (alone, helped) = (alone.row(token).unwrap(), helped.row(token).unwrap());
            let differences = alone.iter().zip(helped).map(|(a, b)| (a - b).abs());
            assert!(differences.fold(0.0, f32::max) < 0.05);
        }
    }

    // What is no part, or not one of this service.
    let keys = &helpers.keys;
    let refused = |bytes: &[u8]| other.compute_part(keys, bytes, &GO).unwrap().unwrap_err();
    for bytes in [&[][..], &[1, 2, 3], &parts[0][..parts[0].len() - 1]] {
        assert!(matches!(refused(bytes).kind(), ErrorKind::Malformed | ErrorKind::Mismatch), "{:?}", refused(bytes));
    }
    let cancelled = other.compute_part(keys, &parts[0], &AtomicBool::new(true)).unwrap().unwrap_err();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
}
