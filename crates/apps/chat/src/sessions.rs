//! The sessions of all clients: bounded, apart from each other, and each used by one query at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use unspoken_protocol::ClientId;

use crate::client::SessionId;
use crate::error::ChatError;

/// Limits of sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Sessions of all clients.
    pub sessions: usize,
    /// Sessions of one client.
    pub per_client: usize,
    /// Time after its last use at which a session expires.
    pub age: Duration,
}

type Key = (ClientId, SessionId);

/// Sessions with their states. When there is no room, the client with the most sessions loses its least recently used
/// one; of several such clients, the one whose session is the oldest.
pub(crate) struct Sessions<V> {
    limits: Limits,
    entries: Mutex<HashMap<Key, Entry<V>>>,
}

struct Entry<V> {
    state: Arc<V>,
    used: Instant,
    busy: bool,
}

impl<V> Sessions<V> {
    pub fn new(limits: Limits) -> Self {
        Sessions { limits, entries: Mutex::new(HashMap::new()) }
    }

    /// Begins a session, also in the place of one with this id. Returns those that made room for it, or have expired.
    ///
    /// # Errors
    /// If it is in use, or all that could make room are.
    pub fn begin(&self, client: ClientId, id: SessionId, state: V) -> Result<Vec<Key>, ChatError> {
        let mut entries = self.lock();
        let now = Instant::now();
        let mut gone = self.remove_expired(&mut entries, now);
        let key = (client, id);
        match entries.get(&key) {
            Some(entry) if entry.busy => return Err(busy()),
            Some(_) => {}
            None => {
                let own = entries.keys().filter(|(of, _)| *of == client).count();
                if own >= self.limits.per_client {
                    gone.push(remove_oldest(&mut entries, |of| of == client)?);
                } else if entries.len() >= self.limits.sessions {
                    gone.push(remove_of_largest(&mut entries)?);
                }
            }
        }
        entries.insert(key, Entry { state: Arc::new(state), used: now, busy: false });
        gone.retain(|other| *other != key);
        Ok(gone)
    }

    /// Takes a session into use.
    ///
    /// # Errors
    /// If there is none, or it is in use.
    pub fn take(&self, client: ClientId, id: SessionId) -> Result<Taken<'_, V>, ChatError> {
        let mut entries = self.lock();
        self.remove_expired(&mut entries, Instant::now());
        let entry = entries.get_mut(&(client, id)).ok_or_else(|| {
            let needed = "one of this client that has not expired and has not made room for others; begin again";
            ChatError::session("none with this id", needed)
        })?;
        if entry.busy {
            return Err(busy());
        }
        entry.busy = true;
        Ok(Taken { sessions: self, key: (client, id), state: Arc::clone(&entry.state) })
    }

    /// Ends a session, if there is one.
    ///
    /// # Errors
    /// If it is in use.
    pub fn end(&self, client: ClientId, id: SessionId) -> Result<(), ChatError> {
        let mut entries = self.lock();
        if entries.get(&(client, id)).is_some_and(|entry| entry.busy) {
            return Err(busy());
        }
        entries.remove(&(client, id));
        Ok(())
    }

    /// Number of sessions.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn remove_expired(&self, entries: &mut HashMap<Key, Entry<V>>, now: Instant) -> Vec<Key> {
        let old = |entry: &Entry<V>| !entry.busy && now.duration_since(entry.used) >= self.limits.age;
        let expired: Vec<Key> = entries.iter().filter(|(_, entry)| old(entry)).map(|(key, _)| *key).collect();
        expired.iter().for_each(|key| drop(entries.remove(key)));
        expired
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry<V>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy() -> ChatError {
    ChatError::session("one that another query is using", "one query at a time; ask again when that one has ended")
}

/// Removes the least recently used session of some clients that is not in use.
fn remove_oldest<V>(
    entries: &mut HashMap<Key, Entry<V>>,
    clients: impl Fn(ClientId) -> bool,
) -> Result<Key, ChatError> {
    let free = entries.iter().filter(|((client, _), entry)| clients(*client) && !entry.busy);
    let key = free.min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key);
    let key = key.ok_or_else(|| {
        ChatError::session("no room: all sessions are in use", "room; ask again when a query has ended")
    })?;
    entries.remove(&key);
    Ok(key)
}

/// Removes the least recently used session of the client with the most sessions that has one that is not in use.
fn remove_of_largest<V>(entries: &mut HashMap<Key, Entry<V>>) -> Result<Key, ChatError> {
    let mut clients: HashMap<ClientId, (usize, bool)> = HashMap::new();
    for ((client, _), entry) in entries.iter() {
        let (count, free) = clients.entry(*client).or_default();
        (*count, *free) = (*count + 1, *free || !entry.busy);
    }
    let most = clients.values().filter(|(_, free)| *free).map(|(count, _)| *count).max().unwrap_or(0);
    remove_oldest(entries, |client| clients.get(&client).is_some_and(|(count, _)| *count == most))
}

/// A session in use; the use ends when this is dropped.
pub(crate) struct Taken<'a, V> {
    sessions: &'a Sessions<V>,
    key: Key,
    state: Arc<V>,
}

impl<V> Taken<'_, V> {
    /// Its state.
    pub fn state(&self) -> &V {
        &self.state
    }

    /// Replaces its state.
    pub fn commit(self, state: V) {
        if let Some(entry) = self.sessions.lock().get_mut(&self.key) {
            entry.state = Arc::new(state);
        }
    }
}

impl<V> Drop for Taken<'_, V> {
    fn drop(&mut self) {
        if let Some(entry) = self.sessions.lock().get_mut(&self.key) {
            (entry.busy, entry.used) = (false, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ClientId = ClientId::new([1; 16]);
    const TWO: ClientId = ClientId::new([2; 16]);
    const THREE: ClientId = ClientId::new([3; 16]);

    fn id(number: u8) -> SessionId {
        SessionId::new([number; 16])
    }

    fn sessions(sessions: usize, per_client: usize, age: Duration) -> Sessions<u32> {
        Sessions::new(Limits { sessions, per_client, age })
    }

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn clients_with_the_same_id_have_their_own_sessions() {
        let sessions = sessions(4, 4, LONG);
        sessions.begin(ONE, id(9), 1).unwrap();
        sessions.begin(TWO, id(9), 2).unwrap();
        assert_eq!(*sessions.take(ONE, id(9)).unwrap().state(), 1);
        assert_eq!(*sessions.take(TWO, id(9)).unwrap().state(), 2);
        sessions.take(ONE, id(9)).unwrap().commit(7);
        sessions.end(TWO, id(9)).unwrap();
        sessions.end(TWO, id(9)).unwrap();
        assert_eq!(*sessions.take(ONE, id(9)).unwrap().state(), 7);
        let error = sessions.take(TWO, id(9)).err().unwrap().to_string();
        assert!(error.contains("begin again"), "{error}");
        assert!(sessions.take(THREE, id(9)).is_err());
    }

    #[test]
    fn one_query_at_a_time() {
        let sessions = sessions(1, 1, Duration::ZERO);
        sessions.begin(ONE, id(1), 1).unwrap();
        // Without age every session expires at once, but not while it is in use.
        assert!(sessions.take(ONE, id(1)).is_err());
        let sessions = self::sessions(1, 1, LONG);
        sessions.begin(ONE, id(1), 1).unwrap();
        let taken = sessions.take(ONE, id(1)).unwrap();
        for error in
            [sessions.take(ONE, id(1)).err(), sessions.begin(ONE, id(1), 2).err(), sessions.end(ONE, id(1)).err()]
        {
            assert!(error.unwrap().to_string().contains("another query is using"));
        }
        for client in [ONE, TWO] {
            let error = sessions.begin(client, id(2), 2).unwrap_err().to_string();
            assert!(error.contains("all sessions are in use"), "{error}");
        }
        drop(taken);
        assert_eq!(sessions.begin(TWO, id(2), 2).unwrap(), [(ONE, id(1))]);
    }

    #[test]
    fn the_client_with_the_most_sessions_makes_room() {
        let sessions = sessions(4, 3, LONG);
        for number in 1..=3 {
            sessions.begin(ONE, id(number), 0).unwrap();
        }
        sessions.begin(TWO, id(1), 0).unwrap();
        drop(sessions.take(ONE, id(1)).unwrap());
        // Its own oldest one, then that of the client with the most.
        assert_eq!(sessions.begin(ONE, id(4), 0).unwrap(), [(ONE, id(2))]);
        assert_eq!(sessions.begin(THREE, id(1), 0).unwrap(), [(ONE, id(3))]);
        assert_eq!(sessions.begin(THREE, id(1), 0).unwrap(), []);
        assert_eq!(sessions.len(), 4);
    }

    #[test]
    fn sessions_expire() {
        let sessions = sessions(4, 4, Duration::from_millis(40));
        sessions.begin(ONE, id(1), 1).unwrap();
        let taken = sessions.take(ONE, id(1)).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        taken.commit(2);
        drop(sessions.take(ONE, id(1)).unwrap());
        std::thread::sleep(Duration::from_millis(60));
        assert!(sessions.take(ONE, id(1)).is_err());
        assert_eq!(sessions.len(), 0);
    }
}
