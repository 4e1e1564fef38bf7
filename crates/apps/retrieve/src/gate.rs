//! Numbers of session queries that came already.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use unspoken_pir::Query;
use unspoken_ring::Seed;

use crate::error::RetrieveError;

/// Numbers whose queries are remembered; whatever is below them has been used.
const REMEMBERED: usize = 1 << 12;

/// Secrets whose numbers are remembered.
const GATES: usize = 1 << 12;

/// The gates of all secrets that keys were loaded of, whatever became of the keys.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<[u8; 32], Arc<Gate>>>);

impl Gates {
    /// That of the secret with this seed. Above the limit, those of secrets whose keys are not loaded are forgotten.
    pub(crate) fn of(&self, session: &Seed) -> Arc<Gate> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if gates.len() >= GATES {
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        Arc::clone(gates.entry(session.0).or_default())
    }
}

/// Refuses a number that came with another query before. The harm is done then: whoever saw both knows the difference of
/// their indices. But the client learns of it, instead of going on.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    bodies: BTreeMap<u32, u32>,
    /// Numbers below it are used up.
    floor: u32,
}

impl Gate {
    /// Notes the numbers of a request's queries. The same query again is a client that tries again.
    ///
    /// # Errors
    /// If a number came with another query.
    pub(crate) fn admit(&self, queries: &[Query]) -> Result<(), RetrieveError> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for query in queries {
            let Query::Session { counter, body } = *query else { continue };
            let known = seen.bodies.get(&counter).copied();
            if counter < seen.floor || known.is_some_and(|known| known != body) {
                let needed = "a number that was never used, nor is below thousands of later ones. If this client's files \
                              were restored from a copy: delete its secret key, make another, and take what it asked for \
                              as known";
                return Err(RetrieveError::mismatch("number of a session query", counter, needed));
            }
            seen.bodies.insert(counter, body);
            while seen.bodies.len() > REMEMBERED
                && let Some((oldest, _)) = seen.bodies.pop_first()
            {
                seen.floor = seen.floor.max(oldest.saturating_add(1));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(counter: u32, body: u32) -> Query {
        Query::Session { counter, body }
    }

    #[test]
    fn a_number_serves_one_query() {
        let gate = Gate::default();
        gate.admit(&[query(5, 1), query(6, 2)]).unwrap();
        gate.admit(&[query(5, 1)]).unwrap();
        let error = gate.admit(&[query(6, 3)]).unwrap_err().to_string();
        assert!(error.contains("never used"), "{error}");
        gate.admit(&[query(4, 9)]).unwrap();
        let all: Vec<Query> = (100..100 + REMEMBERED as u32).map(|counter| query(counter, 0)).collect();
        gate.admit(&all).unwrap();
        assert!(gate.admit(&[query(5, 1)]).is_err());
        gate.admit(&[query(100, 0), query(5000, 0)]).unwrap();
    }
}
