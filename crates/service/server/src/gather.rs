//! Requests to one application that are answered together. Requests that arrive while answers are computed wait. One of
//! the waiting threads then computes the answers to all waiting requests of one group.
//!
//! Nobody waits for other requests to arrive, and no group is overtaken: the group of the request that has waited
//! longest is next. Clients take turns in a group. So a request waits for the running computation, for the computations
//! of groups before its own, and, if its group has more requests than one computation takes, for computations of its
//! group.
//!
//! An application that answers requests together (`Limits::most_together`) has a queue of its own. Requests with a
//! slot, their memory and their keys wait while answers are computed. A client that is gone gives up its place. At most
//! one computation runs for each worker.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use unspoken_protocol::{Call, ClientId, ErrorKind, Group, PlainError, Request};

use crate::untyped::{AnyServerHalf, LoadedKeys};

/// Interval at which waiting threads look whether clients are gone.
const LOOK: Duration = Duration::from_millis(50);

/// A request that may wait: it owns all that computing its answer needs.
#[derive(Clone)]
pub struct OwnedRequest {
    /// The client.
    pub client: ClientId,
    /// Its keys.
    pub keys: LoadedKeys,
    /// The untrusted bytes of its query.
    pub query: Bytes,
    /// Set when the client is gone: the answer then ends soon with [`ErrorKind::Cancelled`].
    pub cancel: Arc<AtomicBool>,
}

impl OwnedRequest {
    pub(crate) fn borrowed(&self) -> Request<'_, LoadedKeys> {
        Request::new(self.client, &self.keys, &self.query)
    }
}

type Answer = Result<Vec<u8>, PlainError>;

/// The waiting requests of one application.
#[derive(Default)]
pub(crate) struct Gathering {
    state: Mutex<State>,
    /// Notified when a computation has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of the next request.
    next: u64,
    /// In the order of their arrival.
    waiting: VecDeque<Waiting>,
    computing: Vec<Computing>,
    finished: Vec<(u64, Answer)>,
}

struct Waiting {
    number: u64,
    group: Group,
    request: OwnedRequest,
}

/// A computation that is running. Its number is the number of its first request.
struct Computing {
    number: u64,
    group: u32,
    clients: Vec<Arc<AtomicBool>>,
    cancel: Arc<AtomicBool>,
}

/// Requests that one thread computes.
struct Batch {
    /// The number of the computation.
    number: u64,
    requests: Vec<Waiting>,
    cancel: Arc<AtomicBool>,
}

impl Gathering {
    /// The answer to a request: waits, and computes answers, also to the requests of others. At most `limit`
    /// computations run at the same time, and one for each group of several requests. Calls `observe` with the number
    /// of requests of each computation. Blocks.
    pub(crate) fn answer(
        &self,
        half: &AnyServerHalf,
        limit: usize,
        request: OwnedRequest,
        observe: impl Fn(usize),
    ) -> Answer {
        let group = half.group(&request.borrowed());
        let cancel = Arc::clone(&request.cancel);
        let mut state = self.lock();
        let number = state.arrive(group, request);
        loop {
            if let Some(answer) = state.take_finished(number) {
                return answer;
            }
            if cancel.load(Ordering::Relaxed) && state.leave(number) {
                return Err(PlainError::new(ErrorKind::Cancelled, "cancelled"));
            }
            state.pass_on_cancellation();
            state = match state.next_batch(limit) {
                Some(batch) => {
                    drop(state);
                    observe(batch.requests.len());
                    self.compute(half, batch);
                    self.lock()
                }
                None => self.ended.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Computes the answers of a batch. If the application panics, they are internal errors. The requests are dropped
    /// before their threads give back the memory that covers them.
    fn compute(&self, half: &AnyServerHalf, batch: Batch) {
        let Batch { number, requests, cancel } = batch;
        let borrowed: Vec<_> = requests.iter().map(|waiting| waiting.request.borrowed()).collect();
        let answers = catch_unwind(AssertUnwindSafe(|| half.answer_together(&borrowed, &Call::new(&cancel))));
        let numbers: Vec<u64> = requests.iter().map(|waiting| waiting.number).collect();
        drop(requests);
        let mut answers = answers.unwrap_or_default().into_iter();
        let failed = || Err(PlainError::new(ErrorKind::Internal, "the computation of several answers failed"));
        let mut state = self.lock();
        for request in numbers {
            state.finished.push((request, answers.next().unwrap_or_else(failed)));
        }
        state.computing.retain(|computing| computing.number != number);
        drop(state);
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn arrive(&mut self, group: Group, request: OwnedRequest) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting { number, group, request });
        number
    }

    fn take_finished(&mut self, number: u64) -> Option<Answer> {
        let at = self.finished.iter().position(|(finished, _)| *finished == number)?;
        Some(self.finished.swap_remove(at).1)
    }

    /// Gives up the place of a request. Returns whether it was still waiting.
    fn leave(&mut self, number: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.number != number);
        self.waiting.len() < before
    }

    /// Cancels the computations whose clients are all gone.
    fn pass_on_cancellation(&self) {
        for computing in &self.computing {
            if computing.clients.iter().all(|client| client.load(Ordering::Relaxed)) {
                computing.cancel.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The requests to compute next, if another computation may start.
    fn next_batch(&mut self, limit: usize) -> Option<Batch> {
        if self.computing.len() >= limit {
            return None;
        }
        let busy = |group: Group| group.most > 1 && self.computing.iter().any(|other| other.group == group.id);
        let group = self.waiting.iter().map(|waiting| waiting.group).find(|&group| !busy(group))?;
        let requests = self.take_turns(group);
        let clients: Vec<_> = requests.iter().map(|waiting: &Waiting| Arc::clone(&waiting.request.cancel)).collect();
        let cancel = match clients.as_slice() {
            [one] => Arc::clone(one),
            _ => Arc::default(),
        };
        let number = requests.first()?.number;
        self.computing.push(Computing { number, group: group.id, clients, cancel: Arc::clone(&cancel) });
        Some(Batch { number, requests, cancel })
    }

    /// Removes the requests of a group that are computed together: one request of each client in the order of arrival,
    /// then another one of each, and so on, up to the weight, but at least one request.
    fn take_turns(&mut self, group: Group) -> Vec<Waiting> {
        let mut taken: HashMap<ClientId, usize> = HashMap::new();
        let mut turns: Vec<(usize, u64, usize)> = Vec::new();
        for waiting in self.waiting.iter().filter(|waiting| waiting.group.id == group.id) {
            let turn = taken.entry(waiting.request.client).or_default();
            turns.push((*turn, waiting.number, waiting.group.weight));
            *turn += 1;
        }
        turns.sort_unstable();
        let mut weight = 0;
        let fits = |&(_, _, more): &(usize, u64, usize)| {
            let first = weight == 0;
            weight += more;
            first || weight <= group.most
        };
        let chosen: HashSet<u64> = turns.into_iter().take_while(fits).map(|(_, number, _)| number).collect();
        let (requests, others) =
            self.waiting.drain(..).partition::<Vec<_>, _>(|waiting| chosen.contains(&waiting.number));
        self.waiting = others.into();
        requests
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use unspoken_protocol::{KeyLimits, KeyLoader, KeySetId, Limits, ServerHalf};

    use super::*;

    /// Answers with the query reversed, once `open` is set; a query of fives panics, one whose second byte is one is
    /// malformed. The first byte of a query is its group.
    #[derive(Default)]
    struct Mirror {
        open: AtomicBool,
        started: AtomicUsize,
        running: AtomicUsize,
        most_running: AtomicUsize,
    }

    impl KeyLoader for Mirror {
        type Keys = LoadedKeys;
        type KeyError = PlainError;

        fn key_set(&self) -> KeySetId {
            unreachable!()
        }
        fn key_limits(&self) -> KeyLimits {
            unreachable!()
        }
        fn loaded_key_bytes(&self, _: &[u8]) -> Result<u64, PlainError> {
            unreachable!()
        }
        fn load_keys(&self, _: &mut dyn Read) -> Result<LoadedKeys, PlainError> {
            unreachable!()
        }
        fn check_keys(&self, _: &LoadedKeys) -> Result<(), PlainError> {
            unreachable!()
        }
    }

    impl ServerHalf for Mirror {
        type Error = PlainError;

        fn describe(&self) -> Vec<u8> {
            unreachable!()
        }
        fn limits(&self) -> Limits {
            unreachable!()
        }
        fn prepared_bytes(&self) -> u64 {
            unreachable!()
        }
        fn answer(&self, _: &Request<'_, LoadedKeys>, _: &Call<'_>) -> Answer {
            unreachable!()
        }
        fn group(&self, request: &Request<'_, LoadedKeys>) -> Group {
            let id = request.query[0];
            Group { id: id.into(), weight: usize::from(id == 7) * 3 + 1, most: if id == 9 { 1 } else { 4 } }
        }
        fn answer_together(&self, requests: &[Request<'_, LoadedKeys>], call: &Call<'_>) -> Vec<Answer> {
            self.started.fetch_add(1, Ordering::SeqCst);
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_running.fetch_max(running, Ordering::SeqCst);
            while !self.open.load(Ordering::SeqCst) && !call.is_cancelled() {
                thread::sleep(Duration::from_millis(1));
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            assert!(requests.iter().all(|request| request.query != [5; 3]), "a query that panics");
            let answer = |request: &Request<'_, _>| match request.query[1] {
                _ if call.is_cancelled() => Err(PlainError::new(ErrorKind::Cancelled, "cancelled")),
                1 => Err(PlainError::new(ErrorKind::Malformed, "ones")),
                _ => Ok(request.query.iter().rev().copied().collect()),
            };
            requests.iter().map(answer).collect()
        }
    }

    fn request(query: [u8; 3]) -> OwnedRequest {
        let (client, keys) = (ClientId::new([0; 16]), LoadedKeys::new(()));
        OwnedRequest { client, keys, query: Bytes::copy_from_slice(&query), cancel: Arc::default() }
    }

    fn is_cancelled(answer: &Answer) -> bool {
        answer.as_ref().is_err_and(|error| error.kind == ErrorKind::Cancelled)
    }

    fn wait_until(reached: impl Fn() -> bool) {
        while !reached() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a first request, then the others in order while its computation is held up. Returns the answers and the
    /// sizes of the computations.
    fn held_up(limit: usize, queries: &[[u8; 3]]) -> (Mirror, Vec<Answer>, Vec<usize>) {
        let (mirror, gathering, sizes) = (Mirror::default(), Gathering::default(), Mutex::new(Vec::new()));
        let ask = |query| gathering.answer(&mirror, limit, request(query), |size| sizes.lock().unwrap().push(size));
        let answers = thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, &query) in queries.iter().enumerate() {
                threads.push(scope.spawn(move || ask(query)));
                wait_until(|| gathering.lock().next as usize > number && mirror.started.load(Ordering::SeqCst) > 0);
            }
            mirror.open.store(true, Ordering::SeqCst);
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let state = gathering.lock();
        assert!(state.waiting.is_empty() && state.computing.is_empty() && state.finished.is_empty());
        drop(state);
        (mirror, answers, sizes.into_inner().unwrap())
    }

    #[test]
    fn requests_that_wait_are_answered_together_in_the_order_of_their_groups() {
        let queries = [[2, 0, 1], [2, 0, 2], [3, 0, 3], [2, 0, 4], [3, 0, 5], [2, 0, 6], [2, 0, 7], [2, 0, 8]];
        let (mirror, answers, sizes) = held_up(1, &queries);
        for (query, answer) in queries.iter().zip(answers) {
            assert_eq!(answer.unwrap(), query.iter().rev().copied().collect::<Vec<u8>>());
        }
        // The first request alone, then four of its group, then the other group, then the last request.
        assert_eq!(sizes, [1, 4, 2, 1]);
        assert_eq!(mirror.most_running.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn clients_take_turns_and_weights_fill_a_computation() {
        let (mirror, gathering) = (Mirror::default(), Gathering::default());
        // Three of one client, then one of each of three others.
        let asked = [([2, 0, 1], 1), ([2, 0, 2], 1), ([2, 0, 3], 1), ([2, 0, 4], 1), ([2, 0, 5], 2), ([2, 0, 6], 3)];
        let mut state = gathering.lock();
        for (query, client) in asked {
            let of = OwnedRequest { client: ClientId::new([client; 16]), ..request(query) };
            state.arrive(mirror.group(&of.borrowed()), of);
        }
        let numbers = |batch: Option<Batch>| batch.unwrap().requests.iter().map(|one| one.number).collect::<Vec<_>>();
        assert_eq!(numbers(state.next_batch(9)), [0, 1, 4, 5]);
        state.computing.clear();
        assert_eq!(numbers(state.next_batch(9)), [2, 3]);
        state.computing.clear();
        // Requests that fill a computation each, and one that is heavier than the most is taken alone.
        for query in [[7, 0, 1], [7, 0, 2]] {
            let of = request(query);
            state.arrive(Group { most: 3, ..mirror.group(&of.borrowed()) }, of);
        }
        assert_eq!(numbers(state.next_batch(9)), [6]);
    }

    #[test]
    fn groups_are_computed_side_by_side_and_one_group_is_not() {
        let (mirror, answers, sizes) = held_up(3, &[[2, 0, 1], [2, 0, 2], [3, 0, 3], [9, 0, 4], [9, 0, 5]]);
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(mirror.most_running.load(Ordering::SeqCst), 3);
        assert_eq!(sizes, [1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_request_that_fails_or_panics_leaves_the_others_their_answers() {
        let (_, answers, _) = held_up(1, &[[2, 0, 1], [2, 1, 1], [2, 0, 2], [5, 5, 5], [5, 0, 3], [3, 0, 4]]);
        let kinds: Vec<&str> = answers
            .iter()
            .map(|answer| match answer {
                Ok(_) => "answer",
                Err(error) if error.kind == ErrorKind::Malformed => "malformed",
                Err(_) => "internal",
            })
            .collect();
        // Requests that were computed together with the panic fail with it.
        assert_eq!(kinds, ["answer", "malformed", "answer", "internal", "internal", "answer"]);
    }

    #[test]
    fn a_client_that_is_gone_gives_up_its_place_and_stops_a_computation_that_nobody_wants() {
        let (mirror, gathering) = (Mirror::default(), Gathering::default());
        let requests = [[2, 0, 1], [2, 0, 2], [2, 0, 3], [3, 0, 4]].map(request);
        thread::scope(|scope| {
            let ask = |request: &OwnedRequest| {
                let request = request.clone();
                scope.spawn(|| gathering.answer(&mirror, 1, request, |_| ()))
            };
            let first = ask(&requests[0]);
            wait_until(|| mirror.started.load(Ordering::SeqCst) == 1);
            let others: Vec<_> = requests[1..].iter().map(ask).collect();
            wait_until(|| gathering.lock().waiting.len() == 3);
            // A waiting request leaves at once; a request that is computed alone is told to stop.
            requests[3].cancel.store(true, Ordering::SeqCst);
            wait_until(|| gathering.lock().waiting.len() == 2);
            requests[0].cancel.store(true, Ordering::SeqCst);
            assert!(is_cancelled(&first.join().unwrap()));
            // Of two that are computed together, both must be gone.
            wait_until(|| mirror.started.load(Ordering::SeqCst) == 2);
            requests[1].cancel.store(true, Ordering::SeqCst);
            thread::sleep(3 * LOOK);
            assert_eq!(mirror.running.load(Ordering::SeqCst), 1);
            requests[2].cancel.store(true, Ordering::SeqCst);
            for other in others {
                assert!(is_cancelled(&other.join().unwrap()));
            }
        });
    }
}
