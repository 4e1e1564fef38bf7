//! Passes whose parts another server computes, over their messages.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use crate::common::{CLIENT, Setting, bundle, many_heads, options, server, setting, shared};
use prost::Message;
use unspoken_chat::{Answer, ChatError, ChatKeys, ChatServer, Logits, Question, SessionId};
use unspoken_llama_model::Sampler;
use unspoken_protocol::{
    AnswerHelpers, AnswerProgress, ApplicationError, Call, ClientHalf, ErrorKind, KeyLoader, Request, ServerHalf,
};

/// Another server with the keys of the same client. It computes every second part, and of the others damages the
/// result, or does not give one.
struct Other<'a> {
    server: &'a ChatServer,
    keys: ChatKeys,
    parts: Mutex<Vec<Vec<u8>>>,
}

impl Other<'_> {
    fn part(&self, part: &[u8]) -> Result<Vec<u8>, ChatError> {
        self.server.compute_part(&self.keys, part, &Call::default()).unwrap()
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

/// Whether a part is some outputs of a product, or a block of heads.
#[derive(prost::Message)]
struct Seen {
    #[prost(message, tag = "6")]
    product: Option<Task>,
    #[prost(message, tag = "8")]
    heads: Option<Task>,
}

#[derive(prost::Message)]
struct Task {}

/// Logits of two passes of 8 private tokens of a story, without and with a helper, and the helper.
struct Passes<'a> {
    alone: Vec<Logits>,
    helped: Vec<Logits>,
    helper: Other<'a>,
}

impl<'a> Passes<'a> {
    fn run(setting: &Setting, first: &ChatServer, other: &'a ChatServer) -> Self {
        let mut client = setting.client(first);
        let bundle = bundle(&client);
        let [keys, others] = [first, other].map(|server| server.load_keys(&mut bundle.as_slice()).unwrap());
        let helper = Other { server: other, keys: others, parts: Mutex::default() };
        let (public, private) = &setting.stories[0];
        let mut ask = |question: &Question, helpers: Option<&dyn AnswerHelpers>| {
            let encoded = client.encode(&[question]).unwrap();
            let query = client.query(&encoded).unwrap();
            let progress = AnswerProgress::new();
            let call = Call { progress: Some(&progress), helpers, ..Call::default() };
            let answer = first.answer(&Request::new(CLIENT, &keys, &query), &call);
            client.read(&answer.unwrap(), &encoded).unwrap().remove(0)
        };
        let [alone, helped] = [(7, None), (8, Some(&helper as &dyn AnswerHelpers))].map(|(id, helpers)| {
            let session = SessionId::new([id; 16]);
            ask(&Question::Begin { session, public: public.clone() }, helpers);
            let pass = |chunk| {
                let tokens = private[..8].to_vec().into();
                match ask(&Question::Pass { session, chunk, tokens }, helpers) {
                    Answer::Passed(passed) => passed,
                    other => panic!("{other:?}"),
                }
            };
            (0..2).map(pass).collect::<Vec<_>>()
        });
        Passes { alone, helped, helper }
    }

    /// Compares the passes with each other, and with what the model in the clear continues.
    fn check(&self, setting: &Setting, most: f32) {
        assert!(self.difference() < most, "{}", self.difference());
        let (public, private) = &setting.stories[0];
        let told = setting.told(public, &private[..8], 1);
        assert_eq!(Sampler::greedy().choose(self.helped[0].row(7).unwrap()).token, told[0]);
    }

    /// The largest difference of logits.
    fn difference(&self) -> f32 {
        let rows = |passes: &[Logits]| -> Vec<f32> {
            let rows = passes.iter().flat_map(|logits| (0..logits.len()).map(|token| logits.row(token).unwrap()));
            rows.flatten().copied().collect()
        };
        let (alone, helped) = (rows(&self.alone), rows(&self.helped));
        assert_eq!(alone.len(), helped.len());
        alone.iter().zip(helped).map(|(alone, helped)| (alone - helped).abs()).fold(0.0, f32::max)
    }

    fn parts(&self) -> Vec<Vec<u8>> {
        self.helper.parts.lock().unwrap().clone()
    }
}

#[test]
fn parts_of_passes_are_computed_by_another_server() {
    let other = server(&options());
    let passes = Passes::run(setting(), shared(), &other);
    let parts = passes.parts();
    assert!(parts.len() > 8, "{}", parts.len());
    passes.check(setting(), 0.05);

    // What is no part, or not one of this service.
    let keys = &passes.helper.keys;
    let refused = |bytes: &[u8]| other.compute_part(keys, bytes, &Call::default()).unwrap().unwrap_err();
    for bytes in [&[][..], &[1, 2, 3], &parts[0][..parts[0].len() - 1]] {
        assert!(matches!(refused(bytes).kind(), ErrorKind::Malformed | ErrorKind::Mismatch), "{:?}", refused(bytes));
    }
    let cancelled = other.compute_part(keys, &parts[0], &Call::new(&AtomicBool::new(true))).unwrap().unwrap_err();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
}

#[test]
fn heads_and_products_are_computed_in_blocks() {
    let setting = many_heads();
    let [first, other] = [(); 2].map(|()| setting.server(&options()));
    let passes = Passes::run(&setting, &first, &other);
    let seen: Vec<Seen> = passes.parts().iter().map(|part| Seen::decode(part.as_slice()).unwrap()).collect();
    // One block would not be sent.
    assert!(seen.iter().any(|seen| seen.heads.is_some()), "{seen:?}");
    assert!(seen.iter().any(|seen| seen.product.is_some()), "{seen:?}");
    passes.check(&setting, 0.01);
}
