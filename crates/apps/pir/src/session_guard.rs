//! Replay guard for the numbers of session queries.
//!
//! Session queries save the seed: 4 bytes for each query, and 4 for the number of the first. A number must never be
//! used twice: two queries with the same number reveal the difference of their indices to anyone who sees both. So the
//! client stores the next number before it sends a query (`DurableCounters`). For each session of each client the
//! service remembers the last 1,024 numbers. It refuses older numbers, and numbers that were used with another query.
//! The memory for this is 32 MiB, counted in `prepared_bytes`. When the memory is full, the client with the most
//! sessions loses its least recently used one. A client whose files may be restored from a copy should use compact
//! queries.

use unspoken_pir_scheme::Query;
use unspoken_protocol::{ClientId, ReplayGuard};
use unspoken_ring::Seed;

use crate::error::PirError;

/// Number of session query numbers that are remembered, counted back from the largest. Smaller numbers are refused.
const WINDOW: usize = 1 << 10;

/// Bytes of memory for the windows of all clients.
const CAPACITY_BYTES: u64 = 32 << 20;

/// Refuses a number that was used with another query before, in one window for each session of each client. By then,
/// anyone who saw both queries knows the difference of their indices. But the client learns of it and can stop.
pub(crate) struct SessionGuard(ReplayGuard<[u8; 32], Window>);

impl SessionGuard {
    pub(crate) fn new() -> Self {
        SessionGuard(ReplayGuard::new(CAPACITY_BYTES, (WINDOW * size_of::<Option<(u32, u32)>>()) as u64))
    }

    /// Maximum number of bytes of memory that it uses.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes()
    }

    /// Stores the numbers of a request's queries for a client's session with this seed. The same query again is
    /// accepted, as a retry.
    ///
    /// # Errors
    /// If a number was used with another query, or is older than the window.
    pub(crate) fn admit(&self, client: ClientId, session: &Seed, queries: &[Query]) -> Result<(), PirError> {
        let mut numbered = queries.iter().filter_map(|query| match *query {
            Query::Session { counter, body } => Some((counter, body)),
            _ => None,
        });
        let Some(first) = numbered.next() else { return Ok(()) };
        let mut all = std::iter::once(first).chain(numbered);
        self.0.with(client, &session.0, Window::new, |window| {
            all.try_for_each(|(number, body)| window.admit(number, body))
        })
    }
}

/// The last numbers of one session and the query body used with each.
struct Window {
    /// The largest number plus 1.
    end: u64,
    /// Number and body of a query, indexed by the number modulo the window's length.
    bodies: Box<[Option<(u32, u32)>]>,
}

impl Window {
    fn new() -> Self {
        Window { end: 0, bodies: vec![None; WINDOW].into() }
    }

    fn admit(&mut self, number: u32, body: u32) -> Result<(), PirError> {
        let slot = &mut self.bodies[number as usize % WINDOW];
        let forgotten = u64::from(number) + (WINDOW as u64) < self.end;
        let used = slot.is_some_and(|(known, with)| known == number && with != body);
        if forgotten || used {
            let needed = "a number that was never used, nor is below a thousand later ones. If this client's files \
                were restored from a copy: delete its secret key, make another, and regard its questions as known";
            return Err(PirError::mismatch("number of a session query", number, needed));
        }
        *slot = Some((number, body));
        self.end = self.end.max(u64::from(number) + 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VICTIM: ClientId = ClientId::new([1; 16]);
    const ATTACKER: ClientId = ClientId::new([2; 16]);
    const SESSION: Seed = Seed([5; 32]);

    fn query(counter: u32, body: u32) -> Query {
        Query::Session { counter, body }
    }

    #[test]
    fn a_number_serves_one_query() {
        let guard = SessionGuard::new();
        let admit = |queries: &[Query]| guard.admit(VICTIM, &SESSION, queries);
        admit(&[query(5, 1), query(6, 2)]).unwrap();
        admit(&[query(5, 1)]).unwrap();
        let error = admit(&[query(6, 3)]).unwrap_err().to_string();
        assert!(error.contains("never used"), "{error}");
        admit(&[query(4, 9)]).unwrap();
        let all: Vec<Query> = (100..100 + WINDOW as u32).map(|counter| query(counter, 0)).collect();
        admit(&all).unwrap();
        assert!(admit(&[query(5, 1)]).is_err());
        admit(&[query(100, 0), query(5000, 0)]).unwrap();
        admit(&[query(u32::MAX, 0), query(u32::MAX - WINDOW as u32 + 1, 0)]).unwrap();
        assert!(admit(&[query(u32::MAX - WINDOW as u32, 0)]).is_err());
    }

    #[test]
    fn a_client_cannot_use_up_the_numbers_of_another() {
        let guard = SessionGuard::new();
        guard.admit(ATTACKER, &SESSION, &[query(u32::MAX, 0), query(7, 1)]).unwrap_err();
        guard.admit(VICTIM, &SESSION, &[query(7, 2)]).unwrap();
    }

    #[test]
    fn a_client_cannot_push_out_the_window_of_another() {
        let guard = SessionGuard::new();
        guard.admit(VICTIM, &SESSION, &[query(7, 2)]).unwrap();
        for number in 0..4000u32 {
            let mut seed = [0; 32];
            seed[..4].copy_from_slice(&number.to_le_bytes());
            guard.admit(ATTACKER, &Seed(seed), &[query(0, 0)]).unwrap();
        }
        assert!(guard.admit(VICTIM, &SESSION, &[query(7, 3)]).is_err(), "the victim's window is there");
    }
}
