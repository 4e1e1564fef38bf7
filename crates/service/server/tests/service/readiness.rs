//! Applications whose data changes while they are served.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use unspoken_client::transport::{Cancel, Error};
use unspoken_protocol::{Call, ErrorKind, Limits, PlainError, Request, ServerHalf};
use unspoken_server::Applications;
use unspoken_wire::ProblemCode;

use crate::support::*;

/// What the application says of itself, as the test sets it.
#[derive(Default)]
struct State {
    /// Most bytes of a query and bytes of an answer.
    bytes: AtomicUsize,
    trouble: Mutex<Option<String>>,
}

struct Changing(Arc<State>);

takes_any_keys!(Changing);

impl ServerHalf for Changing {
    type Error = PlainError;

    fn describe(&self) -> Vec<u8> {
        self.0.bytes.load(Ordering::SeqCst).to_string().into()
    }

    fn limits(&self) -> Limits {
        let bytes = self.0.bytes.load(Ordering::SeqCst);
        let (most_together, waits_for_others) = (1, false);
        Limits { query_bytes: bytes, answer_bytes: bytes, working_bytes: 1000, most_together, waits_for_others }
    }

    fn prepared_bytes(&self) -> u64 {
        0
    }

    fn check_ready(&self) -> Result<(), PlainError> {
        let trouble = self.0.trouble.lock().unwrap().clone();
        trouble.map_or(Ok(()), |text| Err(PlainError::new(ErrorKind::Internal, text)))
    }

    fn answer(&self, _: &Request<'_, ()>, _: &Call<'_>) -> Result<Vec<u8>, PlainError> {
        Ok(vec![7; self.0.bytes.load(Ordering::SeqCst)])
    }
}

#[test]
fn limits_follow_the_description_and_readiness_says_what_is_stale() {
    let state = Arc::new(State { bytes: 100.into(), ..State::default() });
    let service =
        Setup::new().start_beside(Applications::new().with("test/changing", Changing(state.clone())).unwrap());
    let client = service.client(None);
    let mut bundle = std::io::Cursor::new(b"keys");
    let key = client.upload_keys("test/changing", 1, &mut bundle, |_| {}, &Cancel::new()).unwrap();
    let ask = |bytes: usize| client.ask("test/changing", &key, vec![1; bytes], &Cancel::new());
    for bytes in [100, 1000, 50] {
        state.bytes.store(bytes, Ordering::SeqCst);
        let described = client.describe("test/changing", &Cancel::new()).unwrap();
        let limits = (described.limits.max_query_bytes, described.limits.max_answer_bytes);
        assert_eq!((limits, described.description), ((bytes as u64, bytes as u64), bytes.to_string().into()));
        assert_eq!(ask(bytes).unwrap(), vec![7; bytes]);
        let Error::Refused(problem) = ask(bytes + 1).unwrap_err() else { panic!("another error") };
        assert_eq!(problem.known_code(), Some(ProblemCode::TooLarge));
    }

    assert_eq!((service.get("/readyz").status, service.get("/readyz").body.as_str()), (200, "ready\n"));
    *state.trouble.lock().unwrap() = Some("the data is old; restart the service".into());
    let said = service.get("/readyz");
    assert_eq!((said.status, said.body.as_str()), (503, "test/changing: the data is old; restart the service\n"));
    *state.trouble.lock().unwrap() = None;
    assert_eq!(service.get("/readyz").status, 200);
}
