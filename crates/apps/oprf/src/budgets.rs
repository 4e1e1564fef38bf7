//! The budgets of all clients: how many evaluations each has left.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use unspoken_protocol::ClientId;

use crate::allowance::Allowance;
use crate::error::OprfError;

/// Hash of an address.
type Network = [u8; 8];

/// Hash of a request.
pub(crate) type RequestHash = [u8; 16];

/// Time within which a request with the same bytes is a repetition of one whose answer was lost: longer than a client
/// that waits for a service tries again.
const REPETITION: Duration = Duration::from_secs(600);

/// Requests of a client that are remembered as long.
const REMEMBERED: usize = 16;

/// Maximum number of clients whose budgets are counted.
const MAX_CLIENTS: usize = 1 << 14;

/// Maximum number of those without a token whose requests come from one address, unless the service says otherwise.
const MAX_OF_A_NETWORK: usize = MAX_CLIENTS / 16;

/// Bytes that a client needs: its entry and its network's entry, with the unused capacity of the maps, and its
/// requests.
const CLIENT_BYTES: usize = 2 * (size_of::<(ClientId, Budget)>() + 8)
    + 2 * (size_of::<(Network, usize)>() + 8)
    + REMEMBERED * size_of::<(RequestHash, Instant)>();

/// Time between two searches for clients that need not be counted any more.
const SWEEP: Duration = Duration::from_secs(1);

/// What each client has left of its [`Allowance`]. A client that is not counted has all of it.
pub(crate) struct Budgets {
    allowance: Allowance,
    most_clients: usize,
    most_of_a_network: usize,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    budgets: HashMap<ClientId, Budget>,
    /// Number of clients of each network among them. A network without clients is not there.
    networks: HashMap<Network, usize>,
    swept: Option<Instant>,
}

struct Budget {
    /// When all evaluations have come back.
    full: Instant,
    /// Requests that were charged, with their times, the oldest first.
    charged: VecDeque<(RequestHash, Instant)>,
}

impl Budget {
    /// Forgets requests that are not repeated any more.
    fn forget(&mut self, now: Instant) {
        let is_old = |&(_, time): &(RequestHash, Instant)| now.saturating_duration_since(time) > REPETITION;
        while self.charged.front().is_some_and(is_old) {
            self.charged.pop_front();
        }
    }
}

impl Budgets {
    pub(crate) fn new(allowance: Allowance) -> Self {
        Self::with_capacity(allowance, MAX_CLIENTS, MAX_OF_A_NETWORK)
    }

    fn with_capacity(allowance: Allowance, most_clients: usize, most_of_a_network: usize) -> Self {
        Budgets { allowance, most_clients, most_of_a_network, clients: Mutex::default() }
    }

    /// Sets the maximum number of clients without a token whose requests come from one address.
    pub(crate) fn set_most_of_a_network(&mut self, most: usize) {
        self.most_of_a_network = most.min(self.most_clients);
    }

    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// Maximum number of bytes of memory that it uses.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        (self.most_clients * CLIENT_BYTES) as u64
    }

    /// Charges a request of `evaluations` evaluations to a client. A request that repeats, byte for byte, one of the
    /// client's last 16 charged requests within ten minutes is not charged again: it has the same answer.
    ///
    /// # Errors
    /// [`OprfError::Exhausted`] if the client has fewer evaluations left; nothing is charged then.
    /// [`OprfError::Crowded`] if there is no room for another client, [`OprfError::CrowdedNetwork`] if there is no
    /// room for another client of its network.
    pub(crate) fn charge(
        &self,
        client: ClientId,
        request: RequestHash,
        evaluations: u32,
        now: Instant,
    ) -> Result<(), OprfError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.make_room(client, self.most_clients, self.most_of_a_network, now)?;
        let window = self.allowance.window();
        let budget = clients.budget(client, now);
        budget.forget(now);
        if budget.charged.iter().any(|(charged, _)| *charged == request) {
            return Ok(());
        }
        let full = budget.full.max(now) + self.allowance.time_of(evaluations);
        let wait = full.saturating_duration_since(now).saturating_sub(window);
        if !wait.is_zero() {
            return Err(OprfError::Exhausted {
                found: evaluations,
                needed: self.allowance.evaluations(),
                window_seconds: self.allowance.window_seconds(),
                wait_seconds: u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1),
            });
        }
        budget.full = full;
        if budget.charged.len() == REMEMBERED {
            budget.charged.pop_front();
        }
        budget.charged.push_back((request, now));
        Ok(())
    }
}

impl Clients {
    /// Makes room for a client that is not counted yet, by forgetting those whose budgets are full again. No client
    /// with a smaller budget is forgotten: it would get a full one.
    fn make_room(
        &mut self,
        client: ClientId,
        most: usize,
        most_of_a_network: usize,
        now: Instant,
    ) -> Result<(), OprfError> {
        if self.budgets.contains_key(&client) || self.has_room(client, most, most_of_a_network).is_ok() {
            return Ok(());
        }
        if self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP) {
            self.sweep(now);
        }
        self.has_room(client, most, most_of_a_network)
    }

    fn has_room(&self, client: ClientId, most: usize, most_of_a_network: usize) -> Result<(), OprfError> {
        if self.budgets.len() >= most {
            return Err(OprfError::Crowded { clients: self.budgets.len() });
        }
        match client.network().and_then(|network| self.networks.get(&network)) {
            Some(&clients) if clients >= most_of_a_network => Err(OprfError::CrowdedNetwork { clients }),
            _ => Ok(()),
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        let networks = &mut self.networks;
        self.budgets.retain(|client, budget| {
            budget.forget(now);
            let is_kept = budget.full > now || !budget.charged.is_empty();
            if let Some(network) = client.network().filter(|_| !is_kept) {
                leave(networks, network);
            }
            is_kept
        });
    }

    /// The budget of a client, for which there is room.
    fn budget(&mut self, client: ClientId, now: Instant) -> &mut Budget {
        let networks = &mut self.networks;
        self.budgets.entry(client).or_insert_with(|| {
            if let Some(network) = client.network() {
                *networks.entry(network).or_default() += 1;
            }
            Budget { full: now, charged: VecDeque::new() }
        })
    }
}

/// Counts one client of a network less.
fn leave(networks: &mut HashMap<Network, usize>, network: Network) {
    if let Entry::Occupied(mut clients) = networks.entry(network) {
        *clients.get_mut() -= 1;
        if *clients.get() == 0 {
            clients.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId::new([1; 16]);
    const OTHER: ClientId = ClientId::new([2; 16]);

    /// Ten evaluations in a hundred seconds.
    fn budgets(most_clients: usize) -> Budgets {
        Budgets::with_capacity(Allowance::new(10, 100).unwrap(), most_clients, most_clients)
    }

    fn request(number: u32) -> RequestHash {
        let mut hash = [0; 16];
        hash[..4].copy_from_slice(&number.to_le_bytes());
        hash
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn wait(result: Result<(), OprfError>) -> u32 {
        match result {
            Err(OprfError::Exhausted { wait_seconds, .. }) => wait_seconds,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn evaluations_come_back_evenly() {
        let (budgets, start) = (budgets(4), Instant::now());
        let charge = |number, count, after| budgets.charge(CLIENT, request(number), count, start + seconds(after));
        charge(1, 7, 0).unwrap();
        let refused = charge(2, 4, 0);
        assert!(refused.as_ref().unwrap_err().to_string().contains("4 were asked for, more than this client has left"));
        assert_eq!(wait(refused), 11);
        charge(2, 3, 0).unwrap();
        assert_eq!(wait(charge(3, 1, 0)), 11);
        assert_eq!(wait(charge(3, 1, 9)), 2, "whole seconds, after which it succeeds");
        charge(3, 1, 11).unwrap();
        assert_eq!(wait(charge(4, 1, 19)), 2);
        charge(4, 1, 20).unwrap();
        charge(5, 10, 120).unwrap();
        assert_eq!(wait(charge(6, 10, 120)), 101, "a refused request costs nothing");
        charge(6, 10, 220).unwrap();
        charge(7, 10, 10_000).unwrap();
        assert_eq!(wait(charge(8, 1, 10_000)), 11, "no more than all come back");
    }

    #[test]
    fn clients_do_not_share_a_budget() {
        let (budgets, now) = (budgets(4), Instant::now());
        budgets.charge(CLIENT, request(1), 10, now).unwrap();
        wait(budgets.charge(CLIENT, request(2), 1, now));
        budgets.charge(OTHER, request(2), 10, now).unwrap();
        wait(budgets.charge(OTHER, request(1), 10, now));
    }

    #[test]
    fn a_repeated_request_is_charged_once() {
        let (budgets, start) = (budgets(4), Instant::now());
        let charge = |client, number, after| budgets.charge(client, request(number), 9, start + seconds(after));
        charge(CLIENT, 1, 0).unwrap();
        for after in [0, 1, 600] {
            charge(CLIENT, 1, after).unwrap();
        }
        // Nobody else's request is a repetition of it.
        charge(OTHER, 1, 0).unwrap();
        wait(charge(OTHER, 2, 0));
        charge(CLIENT, 2, 600).unwrap();
        wait(charge(CLIENT, 3, 600));
        wait(charge(CLIENT, 1, 601));
        charge(CLIENT, 2, 601).unwrap();
    }

    #[test]
    fn only_the_last_requests_are_remembered() {
        let budgets = Budgets::with_capacity(Allowance::new(17, 100_000).unwrap(), 1, 1);
        let now = Instant::now();
        let charge = |number| budgets.charge(CLIENT, request(number), 1, now);
        (0..17).for_each(|number| charge(number).unwrap());
        (1..17).for_each(|number| charge(number).unwrap());
        wait(charge(0));
        let clients = budgets.clients.lock().unwrap();
        assert_eq!(clients.budgets[&CLIENT].charged.len(), REMEMBERED);
    }

    #[test]
    fn a_crowd_of_clients_resets_no_budget() {
        let (budgets, start) = (budgets(3), Instant::now());
        let client = |number| ClientId::new([number; 16]);
        let charge = |number, after| budgets.charge(client(number), request(1), 10, start + seconds(after));
        (1..=3).for_each(|number| charge(number, u64::from(number)).unwrap());
        for number in 4..50 {
            assert!(matches!(charge(number, 5), Err(OprfError::Crowded { clients: 3 })));
        }
        wait(budgets.charge(client(1), request(2), 10, start + seconds(6)));
        // Remembered until no request is repeated any more.
        assert!(charge(4, 601).is_err());
        charge(4, 602).unwrap();
        assert!(charge(5, 602).is_err(), "one search a second");
        charge(5, 604).unwrap();
        let clients = budgets.clients.lock().unwrap();
        assert!((1..=3).contains(&clients.budgets.len()));
        drop(clients);
        assert!(budgets.capacity_bytes() >= 3 * 16 * 32);
    }

    #[test]
    fn one_address_does_not_take_the_room_of_all() {
        let budgets = Budgets::with_capacity(Allowance::new(10, 100).unwrap(), 6, 2);
        let start = Instant::now();
        let charge = |number: u8, network: Option<u8>, after| {
            let client = ClientId::new([number; 16]);
            let client = network.map_or(client, |network| client.with_network([network; 8]));
            budgets.charge(client, request(number.into()), 10, start + seconds(after))
        };
        (1..=2).for_each(|number| charge(number, Some(1), 0).unwrap());
        for number in 3..50 {
            let refused = charge(number, Some(1), 5).unwrap_err();
            assert!(matches!(refused, OprfError::CrowdedNetwork { clients: 2 }), "{refused}");
        }
        // Repetitions, other addresses, and clients with a token, which have no address.
        charge(1, Some(1), 5).unwrap();
        charge(50, Some(2), 5).unwrap();
        (51..=53).for_each(|number| charge(number, None, 5).unwrap());
        assert!(matches!(charge(54, Some(3), 5), Err(OprfError::Crowded { clients: 6 })));
        // Once their budgets are full again, others of the address have room.
        (3..=4).for_each(|number| charge(number, Some(1), 700).unwrap());
        assert!(charge(5, Some(1), 702).is_err());
        assert_eq!(budgets.clients.lock().unwrap().networks, HashMap::from([([1; 8], 2)]));
    }
}
