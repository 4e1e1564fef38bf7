//! Requests to one application that are answered together: those that arrive while answers are computed wait, and one
//! of the waiting threads then computes the answers to all of them that belong to one group.
//!
//! Nobody waits for others to arrive, and no group is overtaken: that of the request that has waited longest is next.
//! Clients take turns in it. So a request waits for the computation that is running, for those of the groups before it,
//! and for further ones of its group if there are more requests than one computation takes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use unspoken_protocol::{ClientId, Group};

use crate::application::{AnyKeys, ApplicationError, DynApplication};

/// Interval at which waiting threads look whether clients are gone.
const LOOK: Duration = Duration::from_millis(50);

/// A request with all that computing its answer needs.
#[derive(Clone)]
pub(crate) struct Parcel {
    pub(crate) client: ClientId,
    pub(crate) keys: AnyKeys,
    pub(crate) query: Bytes,
    /// Set when the client is gone.
    pub(crate) cancel: Arc<AtomicBool>,
}

type Answer = Result<Vec<u8>, ApplicationError>;

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
    parcel: Parcel,
}

/// A computation that is running. Its number is that of its first request.
struct Computing {
    number: u64,
    group: u32,
    clients: Vec<Arc<AtomicBool>>,
    cancel: Arc<AtomicBool>,
}

/// Requests that one thread computes.
struct Batch {
    /// That of the computation.
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
        application: &dyn DynApplication,
        limit: usize,
        parcel: Parcel,
        observe: impl Fn(usize),
    ) -> Answer {
        let group = application.group(&parcel.keys, &parcel.query)?;
        let cancel = Arc::clone(&parcel.cancel);
        let mut state = self.lock();
        let number = state.arrive(group, parcel);
        loop {
            if let Some(answer) = state.take_finished(number) {
                return answer;
            }
            if cancel.load(Ordering::Relaxed) && state.leave(number) {
                return Err(ApplicationError::Cancelled);
            }
            state.pass_on_cancellation();
            state = match state.next_batch(limit) {
                Some(batch) => {
                    drop(state);
                    observe(batch.requests.len());
                    self.compute(application, batch);
                    self.lock()
                }
                None => self.ended.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Computes the answers of a batch. If the application panics, they are internal errors. The requests are dropped
    /// before their threads give back the memory that covers them.
    fn compute(&self, application: &dyn DynApplication, batch: Batch) {
        let Batch { number, requests, cancel } = batch;
        let parcels: Vec<&Parcel> = requests.iter().map(|waiting| &waiting.parcel).collect();
        let answers = catch_unwind(AssertUnwindSafe(|| application.answer_together(&parcels, &cancel)));
        let numbers: Vec<u64> = requests.iter().map(|waiting| waiting.number).collect();
        drop(requests);
        let mut answers = answers.unwrap_or_default().into_iter();
        let failed = || Err(ApplicationError::Internal("the computation of several answers failed".into()));
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
    fn arrive(&mut self, group: Group, parcel: Parcel) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting { number, group, parcel });
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
        let clients: Vec<_> = requests.iter().map(|waiting: &Waiting| Arc::clone(&waiting.parcel.cancel)).collect();
        let cancel = match clients.as_slice() {
            [one] => Arc::clone(one),
            _ => Arc::default(),
        };
        let number = requests.first()?.number;
        self.computing.push(Computing { number, group: group.id, clients, cancel: Arc::clone(&cancel) });
        Some(Batch { number, requests, cancel })
    }

    /// Removes the requests of a group that are computed together: one of each client in the order of their arrival,
    /// then another one of each, and so on, as far as the weight allows, but at least one.
    fn take_turns(&mut self, group: Group) -> Vec<Waiting> {
        let mut taken: HashMap<ClientId, usize> = HashMap::new();
        let mut turns: Vec<(usize, u64, usize)> = Vec::new();
        for waiting in self.waiting.iter().filter(|waiting| waiting.group.id == group.id) {
            let turn = taken.entry(waiting.parcel.client).or_default();
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

    use unspoken_protocol::{AnswerHelpers, AnswerProgress};

    use super::*;
    use crate::application::ApplicationLimits;

    /// Answers with the query reversed, once `open` is set; a query of fives panics, one whose second byte is one is
    /// malformed. The first byte of a query is its group.
    #[derive(Default)]
    struct Mirror {
        open: AtomicBool,
        started: AtomicUsize,
        running: AtomicUsize,
        most_running: AtomicUsize,
    }

    impl DynApplication for Mirror {
        fn describe(&self) -> Vec<u8> {
            Vec::new()
        }
        fn limits(&self) -> ApplicationLimits {
            unreachable!()
        }
        fn check_ready(&self) -> Result<(), String> {
            Ok(())
        }
        fn loaded_key_bytes(&self, _: &[u8]) -> Result<u64, ApplicationError> {
            Ok(0)
        }
        fn load_keys(&self, _: &mut dyn Read) -> Result<AnyKeys, ApplicationError> {
            Ok(Arc::new(()))
        }
        fn check_keys(&self, _: &AnyKeys) -> Result<(), ApplicationError> {
            Ok(())
        }
        fn prepared_bytes(&self) -> u64 {
            0
        }
        fn working_bytes(&self) -> u64 {
            0
        }
        fn release_idle_memory(&self) {}
        fn answer_with_progress(
            &self,
            _: ClientId,
            _: &AnyKeys,
            _: &[u8],
            _: &AtomicBool,
            _: &AnswerProgress,
        ) -> Result<Vec<u8>, ApplicationError> {
            unreachable!()
        }
        fn answer_with_helpers(
            &self,
            _: ClientId,
            _: &AnyKeys,
            _: &[u8],
            _: &AtomicBool,
            _: &AnswerProgress,
            _: &dyn AnswerHelpers,
        ) -> Result<Vec<u8>, ApplicationError> {
            unreachable!()
        }
        fn compute_part(&self, _: &AnyKeys, _: &[u8], _: &AtomicBool) -> Result<Vec<u8>, ApplicationError> {
            unreachable!()
        }
        fn most_together(&self) -> usize {
            4
        }
        fn waits_for_others(&self) -> bool {
            false
        }
        fn group(&self, _: &AnyKeys, query: &[u8]) -> Result<Group, ApplicationError> {
            Ok(Group {
                id: query[0].into(),
                weight: usize::from(query[0] == 7) * 3 + 1,
                most: if query[0] == 9 { 1 } else { 4 },
            })
        }
        fn answer_together(&self, parcels: &[&Parcel], cancel: &AtomicBool) -> Vec<Answer> {
            self.started.fetch_add(1, Ordering::SeqCst);
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_running.fetch_max(running, Ordering::SeqCst);
            while !self.open.load(Ordering::SeqCst) && !cancel.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            assert!(parcels.iter().all(|parcel| parcel.query != [5; 3][..]), "a query that panics");
            let answer = |parcel: &&Parcel| match parcel.query[1] {
                _ if cancel.load(Ordering::SeqCst) => Err(ApplicationError::Cancelled),
                1 => Err(ApplicationError::Malformed("ones".into())),
                _ => Ok(parcel.query.iter().rev().copied().collect()),
            };
            parcels.iter().map(answer).collect()
        }
    }

    fn parcel(query: [u8; 3]) -> Parcel {
        let (client, keys) = (ClientId::new([0; 16]), Arc::new(()) as AnyKeys);
        Parcel { client, keys, query: Bytes::copy_from_slice(&query), cancel: Arc::default() }
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
        let ask = |query| gathering.answer(&mirror, limit, parcel(query), |size| sizes.lock().unwrap().push(size));
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
        // The first alone; then four of its group, then the other group, then the one that was left.
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
            let of = Parcel { client: ClientId::new([client; 16]), ..parcel(query) };
            let group = DynApplication::group(&mirror, &of.keys, &of.query).unwrap();
            state.arrive(group, of);
        }
        let numbers = |batch: Option<Batch>| batch.unwrap().requests.iter().map(|one| one.number).collect::<Vec<_>>();
        assert_eq!(numbers(state.next_batch(9)), [0, 1, 4, 5]);
        state.computing.clear();
        assert_eq!(numbers(state.next_batch(9)), [2, 3]);
        state.computing.clear();
        // Requests that fill a computation each, and one that is heavier than the most is taken alone.
        for query in [[7, 0, 1], [7, 0, 2]] {
            let of = parcel(query);
            let group = DynApplication::group(&mirror, &of.keys, &of.query).unwrap();
            state.arrive(Group { most: 3, ..group }, of);
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
                Err(ApplicationError::Malformed(_)) => "malformed",
                Err(_) => "internal",
            })
            .collect();
        // Those that were computed together with the panic fail with it.
        assert_eq!(kinds, ["answer", "malformed", "answer", "internal", "internal", "answer"]);
    }

    #[test]
    fn a_client_that_is_gone_gives_up_its_place_and_stops_a_computation_that_nobody_wants() {
        let (mirror, gathering) = (Mirror::default(), Gathering::default());
        let parcels = [[2, 0, 1], [2, 0, 2], [2, 0, 3], [3, 0, 4]].map(parcel);
        thread::scope(|scope| {
            let ask = |parcel: &Parcel| {
                let parcel = parcel.clone();
                scope.spawn(|| gathering.answer(&mirror, 1, parcel, |_| ()))
            };
            let first = ask(&parcels[0]);
            wait_until(|| mirror.started.load(Ordering::SeqCst) == 1);
            let others: Vec<_> = parcels[1..].iter().map(ask).collect();
            wait_until(|| gathering.lock().waiting.len() == 3);
            // One that waits leaves at once; one that is computed alone is told to stop.
            parcels[3].cancel.store(true, Ordering::SeqCst);
            wait_until(|| gathering.lock().waiting.len() == 2);
            parcels[0].cancel.store(true, Ordering::SeqCst);
            assert!(matches!(first.join().unwrap(), Err(ApplicationError::Cancelled)));
            // Of two that are computed together, both must be gone.
            wait_until(|| mirror.started.load(Ordering::SeqCst) == 2);
            parcels[1].cancel.store(true, Ordering::SeqCst);
            thread::sleep(3 * LOOK);
            assert_eq!(mirror.running.load(Ordering::SeqCst), 1);
            parcels[2].cancel.store(true, Ordering::SeqCst);
            for other in others {
                assert!(matches!(other.join().unwrap(), Err(ApplicationError::Cancelled)));
            }
        });
    }
}
