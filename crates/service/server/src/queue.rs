//! Fair queue for workers: clients take turns, however many requests each one has.
//!
//! Without tokens, a client is a key bundle. Queues are bounded, in total and for each client; a refusal says when to
//! try again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use crate::auth::ClientName;

/// A fixed number of slots and a bounded queue for each client. Waiting clients are served round robin; the requests of
/// one client keep their order.
#[derive(Clone)]
pub(crate) struct FairQueue(Arc<Shared>);

struct Shared {
    limit: usize,
    limit_per_client: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    waiting: usize,
    next_ticket: u64,
    /// Clients with waiting requests, next one first. Each client is in it once.
    turns: VecDeque<ClientName>,
    lines: HashMap<ClientName, VecDeque<Waiter>>,
}

struct Waiter {
    ticket: u64,
    wake: oneshot::Sender<Slot>,
}

/// The right to use one worker; given back when dropped.
pub(crate) struct Slot(Arc<Shared>);

/// The queue has no free place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueueFull {
    /// All places are in use.
    AllClients { limit: usize },
    /// All places of this client are in use.
    OneClient { limit: usize },
}

impl FairQueue {
    pub(crate) fn new(slots: usize, limit: usize, limit_per_client: usize) -> Self {
        let state = State { free: slots, waiting: 0, next_ticket: 0, turns: VecDeque::new(), lines: HashMap::new() };
        Self(Arc::new(Shared { limit, limit_per_client, state: Mutex::new(state) }))
    }

    /// Waits for a slot. Dropping the future gives up the place in the queue.
    pub(crate) async fn acquire(&self, client: &ClientName) -> Result<Slot, QueueFull> {
        let (place, granted) = {
            let mut state = self.0.lock();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Slot(self.0.clone()));
            }
            if state.waiting >= self.0.limit {
                return Err(QueueFull::AllClients { limit: self.0.limit });
            }
            let ticket = state.next_ticket;
            let (wake, granted) = oneshot::channel();
            let line = state.lines.entry(client.clone()).or_default();
            if line.len() >= self.0.limit_per_client {
                return Err(QueueFull::OneClient { limit: self.0.limit_per_client });
            }
            line.push_back(Waiter { ticket, wake });
            if line.len() == 1 {
                state.turns.push_back(client.clone());
            }
            state.next_ticket += 1;
            state.waiting += 1;
            (WaitingPlace { shared: self.0.clone(), client: client.clone(), ticket }, granted)
        };
        let slot = granted.await;
        drop(place);
        // The sender stays in the queue until it grants the slot, so this cannot fail.
        slot.map_err(|_| QueueFull::AllClients { limit: self.0.limit })
    }

    /// Number of waiting requests.
    pub(crate) fn depth(&self) -> usize {
        self.0.lock().waiting
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    /// Removes and returns the waiter whose turn it is.
    fn next(&mut self) -> Option<Waiter> {
        let client = self.turns.pop_front()?;
        let line = self.lines.get_mut(&client)?;
        let waiter = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.waiting -= 1;
        Some(waiter)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let waiter = {
            let mut state = self.0.lock();
            let waiter = state.next();
            if waiter.is_none() {
                state.free += 1;
            }
            waiter
        };
        if let Some(waiter) = waiter {
            // If the waiter was dropped in the meantime, `send` returns the slot; dropping it grants it to the next
            // waiter.
            drop(waiter.wake.send(Slot(self.0.clone())));
        }
    }
}

/// A place in the queue; given up when dropped.
struct WaitingPlace {
    shared: Arc<Shared>,
    client: ClientName,
    ticket: u64,
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let Some(line) = state.lines.get_mut(&self.client) else { return };
        let Some(index) = line.iter().position(|waiter| waiter.ticket == self.ticket) else {
            return;
        };
        line.remove(index);
        if line.is_empty() {
            state.lines.remove(&self.client);
            state.turns.retain(|client| *client != self.client);
        }
        state.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ClientName {
        ClientName::new(text)
    }

    /// Queues `clients` one after the other while the slot is taken, and returns the order in which they were served.
    async fn order(queue: &FairQueue, clients: &[&str]) -> Vec<String> {
        let taken = queue.acquire(&name("holder")).await.unwrap();
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (index, client) in clients.iter().enumerate() {
            let (turns, served, client) = (queue.clone(), served.clone(), name(client));
            tasks.push(tokio::spawn(async move {
                let slot = turns.acquire(&client).await.unwrap();
                served.lock().unwrap().push(client.to_string());
                drop(slot);
            }));
            let waiting = tasks.len();
            while queue.depth() < waiting {
                tokio::task::yield_now().await;
            }
            assert_eq!(queue.depth(), index + 1);
        }
        drop(taken);
        for task in tasks {
            task.await.unwrap();
        }
        let served = served.lock().unwrap();
        served.clone()
    }

    #[tokio::test]
    async fn clients_take_turns_however_much_one_of_them_asks() {
        let queue = FairQueue::new(1, 100, 100);
        let served = order(&queue, &["a", "a", "a", "a", "b", "b", "c"]).await;
        assert_eq!(served, ["a", "b", "c", "a", "b", "a", "a"]);
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test]
    async fn both_bounds_hold_and_say_which_one_it_was() {
        let queue = FairQueue::new(1, 3, 2);
        let taken = queue.acquire(&name("a")).await.unwrap();
        let mut waiting = Vec::new();
        for client in ["a", "a", "b"] {
            let queue = queue.clone();
            waiting.push(tokio::spawn(async move { queue.acquire(&name(client)).await.map(drop) }));
            tokio::task::yield_now().await;
        }
        while queue.depth() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.acquire(&name("c")).await.err(), Some(QueueFull::AllClients { limit: 3 }));
        waiting.pop().unwrap().abort();
        while queue.depth() > 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.acquire(&name("a")).await.err(), Some(QueueFull::OneClient { limit: 2 }));
        drop(taken);
        for task in waiting {
            task.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_loses_nobody_a_slot() {
        let queue = FairQueue::new(1, 10, 10);
        let taken = queue.acquire(&name("a")).await.unwrap();
        let impatient = {
            let queue = queue.clone();
            tokio::spawn(async move { queue.acquire(&name("b")).await.map(drop) })
        };
        while queue.depth() < 1 {
            tokio::task::yield_now().await;
        }
        // Granted, but never polled again: the slot is inside the channel.
        drop(taken);
        impatient.abort();
        let _ = impatient.await;
        let again = tokio::time::timeout(std::time::Duration::from_secs(5), async {
            queue.acquire(&name("c")).await.map(drop)
        });
        again.await.expect("the slot was lost").unwrap();
        assert_eq!(queue.0.lock().free, 1);
    }
}
