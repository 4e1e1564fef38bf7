//! The sessions of all clients: bounded, apart from each other, and each used by one query at a time.
//!
//! A session is used by one query at a time; a second one is refused with "ask again later", which clients do. A pass
//! that is cancelled, or fails, leaves the session as it was. There are at most `sessions` sessions, at most
//! `sessions_per_client` of one client, and their memory is at most `session_bytes`. A session expires `age` after its
//! last use. When there is no room, the client with the most sessions loses its least recently used one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use unspoken_protocol::ClientId;

use crate::error::ChatError;
use crate::session_id::SessionId;

/// Limits of sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    /// Sessions of all clients.
    pub sessions: usize,
    /// Sessions of one client.
    pub per_client: usize,
    /// Time after its last use at which a session expires.
    pub age: Duration,
    /// Time after its last use during which a session is active: its client is between two queries.
    pub active: Duration,
}

pub(crate) type Key = (ClientId, SessionId);

/// Called for each session that is removed, before another one can take its place.
type Removed = Box<dyn Fn(Key) + Send + Sync>;

/// Sessions with their states. When there is no room, the client with the most sessions loses its least recently used
/// session. Of several such clients, the client with the oldest session loses it. An active session makes room only if
/// its client then has no fewer sessions than the new client.
pub(crate) struct Sessions<V> {
    limits: SessionLimits,
    entries: Mutex<HashMap<Key, Entry<V>>>,
    removed: Option<Removed>,
}

struct Entry<V> {
    state: Arc<V>,
    used: Instant,
    busy: bool,
}

impl<V> Sessions<V> {
    pub fn new(limits: SessionLimits) -> Self {
        Sessions { limits, entries: Mutex::new(HashMap::new()), removed: None }
    }

    /// The same, calling `removed` for each session that ends, expires, makes room, or begins again.
    pub fn on_removal(self, removed: impl Fn(Key) + Send + Sync + 'static) -> Self {
        Sessions { removed: Some(Box::new(removed)), ..self }
    }

    /// Begins a session, also in the place of one with this id.
    ///
    /// # Errors
    /// If it is in use, or all that could make room are.
    pub fn begin(&self, client: ClientId, id: SessionId, state: V) -> Result<(), ChatError> {
        let mut entries = self.lock();
        self.remove_expired(&mut entries, Instant::now());
        let key = (client, id);
        self.make_room(&mut entries, key, self.limits.active)?;
        if entries.contains_key(&key) {
            self.tell_removed(key);
        }
        entries.insert(key, Entry { state: Arc::new(state), used: Instant::now(), busy: false });
        Ok(())
    }

    /// Puts a session of an earlier process in its place; its last use was `unused` ago. Give the oldest session first:
    /// sessions that are too old or too many are removed.
    pub fn put_back(&self, key: Key, state: V, unused: Duration) {
        let mut entries = self.lock();
        let used = Instant::now().checked_sub(unused);
        match used.filter(|_| unused < self.limits.age && self.make_room(&mut entries, key, Duration::ZERO).is_ok()) {
            Some(used) => drop(entries.insert(key, Entry { state: Arc::new(state), used, busy: false })),
            None => self.tell_removed(key),
        }
    }

    /// Takes a session into use; `None` if there is none.
    ///
    /// # Errors
    /// If another query uses the session. The call does not wait, because the other query may need this thread.
    pub fn take(&self, (client, id): Key) -> Result<Option<Taken<'_, V>>, ChatError> {
        let mut entries = self.lock();
        self.remove_expired(&mut entries, Instant::now());
        let Some(entry) = entries.get_mut(&(client, id)) else { return Ok(None) };
        if entry.busy {
            return Err(busy());
        }
        entry.busy = true;
        Ok(Some(Taken { sessions: self, key: (client, id), state: Arc::clone(&entry.state), removed: false }))
    }

    /// Removes a session, if there must be fewer for another one with this key.
    fn make_room(&self, entries: &mut HashMap<Key, Entry<V>>, key: Key, active: Duration) -> Result<(), ChatError> {
        let victim = match entries.get(&key) {
            Some(entry) if entry.busy => return Err(busy()),
            Some(_) => return Ok(()),
            None => {
                let own = entries.keys().filter(|(of, _)| *of == key.0).count();
                if own >= self.limits.per_client {
                    remove_oldest(entries, |of, _| of == key.0)?
                } else if entries.len() >= self.limits.sessions {
                    remove_of_largest(entries, key.0, active)?
                } else {
                    return Ok(());
                }
            }
        };
        self.tell_removed(victim);
        Ok(())
    }

    fn tell_removed(&self, key: Key) {
        if let Some(removed) = &self.removed {
            removed(key);
        }
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
        if entries.remove(&(client, id)).is_some() {
            self.tell_removed((client, id));
        }
        Ok(())
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn remove_expired(&self, entries: &mut HashMap<Key, Entry<V>>, now: Instant) {
        let old = |entry: &Entry<V>| !entry.busy && now.duration_since(entry.used) >= self.limits.age;
        let expired: Vec<Key> = entries.iter().filter(|(_, entry)| old(entry)).map(|(key, _)| *key).collect();
        for key in expired {
            entries.remove(&key);
            self.tell_removed(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry<V>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy() -> ChatError {
    ChatError::Busy { found: "one that another query is using" }
}

/// Removes the least recently used session that is not in use and that `may` allows to make room.
fn remove_oldest<V>(
    entries: &mut HashMap<Key, Entry<V>>,
    may: impl Fn(ClientId, &Entry<V>) -> bool,
) -> Result<Key, ChatError> {
    let free = entries.iter().filter(|((client, _), entry)| !entry.busy && may(*client, entry));
    let key = free.min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key);
    let key = key.ok_or(ChatError::Busy { found: "no room: all sessions are in use" })?;
    entries.remove(&key);
    Ok(key)
}

/// Removes the least recently used session of the client with the most sessions, among the sessions that can make room
/// for another session of `client`.
fn remove_of_largest<V>(
    entries: &mut HashMap<Key, Entry<V>>,
    client: ClientId,
    active: Duration,
) -> Result<Key, ChatError> {
    let mut counts: HashMap<ClientId, usize> = HashMap::new();
    entries.keys().for_each(|(of, _)| *counts.entry(*of).or_default() += 1);
    let (now, own) = (Instant::now(), counts.get(&client).copied().unwrap_or(0));
    let may = |of: ClientId, entry: &Entry<V>| now.duration_since(entry.used) >= active || counts[&of] > own + 1;
    let free = entries.iter().filter(|((of, _), entry)| !entry.busy && may(*of, entry));
    let most = free.map(|((of, _), _)| counts[of]).max().unwrap_or(0);
    remove_oldest(entries, |of, entry| counts[&of] == most && may(of, entry))
}

/// A session in use; the use ends when this is dropped.
pub(crate) struct Taken<'a, V> {
    sessions: &'a Sessions<V>,
    key: Key,
    state: Arc<V>,
    removed: bool,
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

    /// Removes it.
    pub fn remove(mut self) {
        let mut entries = self.sessions.lock();
        entries.remove(&self.key);
        // From now on the key may belong to another session.
        self.removed = true;
        self.sessions.tell_removed(self.key);
    }
}

impl<V> Drop for Taken<'_, V> {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        if let Some(entry) = self.sessions.lock().get_mut(&self.key) {
            (entry.busy, entry.used) = (false, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use unspoken_protocol::{ApplicationError, ErrorKind};

    use super::*;

    const ONE: ClientId = ClientId::new([1; 16]);
    const TWO: ClientId = ClientId::new([2; 16]);
    const THREE: ClientId = ClientId::new([3; 16]);

    fn id(number: u8) -> SessionId {
        SessionId::new([number; 16])
    }

    fn sessions(sessions: usize, per_client: usize, age: Duration) -> Sessions<u32> {
        Sessions::new(SessionLimits { sessions, per_client, age, active: Duration::ZERO })
    }

    /// The sessions, and those that were removed since the last call.
    fn watched(sessions: Sessions<u32>) -> (Sessions<u32>, impl Fn() -> Vec<Key>) {
        let gone = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&gone);
        let sessions = sessions.on_removal(move |key| told.lock().unwrap().push(key));
        (sessions, move || std::mem::take(&mut *gone.lock().unwrap()))
    }

    const LONG: Duration = Duration::from_secs(1000);

    /// Takes a session that must be there.
    fn take(sessions: &Sessions<u32>, client: ClientId, id: SessionId) -> Taken<'_, u32> {
        sessions.take((client, id)).unwrap().unwrap()
    }

    fn is_there(sessions: &Sessions<u32>, client: ClientId, id: SessionId) -> bool {
        sessions.take((client, id)).unwrap().is_some()
    }

    #[test]
    fn clients_with_the_same_id_have_their_own_sessions() {
        let sessions = sessions(4, 4, LONG);
        sessions.begin(ONE, id(9), 1).unwrap();
        sessions.begin(TWO, id(9), 2).unwrap();
        assert_eq!(*take(&sessions, ONE, id(9)).state(), 1);
        assert_eq!(*take(&sessions, TWO, id(9)).state(), 2);
        take(&sessions, ONE, id(9)).commit(7);
        sessions.end(TWO, id(9)).unwrap();
        sessions.end(TWO, id(9)).unwrap();
        assert_eq!(*take(&sessions, ONE, id(9)).state(), 7);
        assert!(!is_there(&sessions, TWO, id(9)) && !is_there(&sessions, THREE, id(9)));
    }

    #[test]
    fn one_query_at_a_time() {
        let sessions = sessions(1, 1, Duration::ZERO);
        sessions.begin(ONE, id(1), 1).unwrap();
        // Without age every session expires at once, but not while it is in use.
        assert!(!is_there(&sessions, ONE, id(1)));
        let (sessions, removed) = watched(self::sessions(1, 1, LONG));
        sessions.begin(ONE, id(1), 1).unwrap();
        let taken = take(&sessions, ONE, id(1));
        let again = sessions.take((ONE, id(1))).err();
        for error in [again, sessions.begin(ONE, id(1), 2).err(), sessions.end(ONE, id(1)).err()] {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Busy);
            assert!(error.to_string().contains("another query is using"), "{error}");
        }
        for client in [ONE, TWO] {
            let error = sessions.begin(client, id(2), 2).unwrap_err().to_string();
            assert!(error.contains("all sessions are in use"), "{error}");
        }
        taken.commit(5);
        assert_eq!(*take(&sessions, ONE, id(1)).state(), 5);
        assert_eq!(removed(), []);
        sessions.begin(TWO, id(2), 2).unwrap();
        assert_eq!(removed(), [(ONE, id(1))]);
    }

    #[test]
    fn the_client_with_the_most_sessions_makes_room() {
        let (sessions, removed) = watched(sessions(4, 3, LONG));
        for number in 1..=3 {
            sessions.begin(ONE, id(number), 0).unwrap();
        }
        sessions.begin(TWO, id(1), 0).unwrap();
        drop(take(&sessions, ONE, id(1)));
        // Its own oldest one, then that of the client with the most.
        for (client, number, victim) in [
            (ONE, 4, (ONE, id(2))),
            (THREE, 1, (ONE, id(3))),
            // Only the one whose place it takes.
            (THREE, 1, (THREE, id(1))),
        ] {
            sessions.begin(client, id(number), 0).unwrap();
            assert_eq!(removed(), [victim]);
        }
        assert_eq!(sessions.len(), 4);
    }

    #[test]
    fn active_sessions_of_clients_with_few_stay() {
        let limits = SessionLimits { sessions: 3, per_client: 2, age: LONG, active: LONG };
        let (sessions, removed) = watched(Sessions::new(limits));
        for (client, number) in [(ONE, 1), (ONE, 2), (TWO, 1)] {
            sessions.begin(client, id(number), 0).unwrap();
        }
        // A client with one session takes none of a client with two, but one without a session does.
        assert_eq!(sessions.begin(TWO, id(2), 0).unwrap_err().kind(), ErrorKind::Busy);
        sessions.begin(THREE, id(1), 0).unwrap();
        assert_eq!(removed(), [(ONE, id(1))]);
        // All have one: none is taken from another client, also after it was used.
        drop(take(&sessions, ONE, id(2)));
        assert_eq!(sessions.begin(THREE, id(2), 0).unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(removed(), []);
    }

    #[test]
    fn sessions_expire() {
        let sessions = sessions(4, 4, Duration::from_millis(40));
        sessions.begin(ONE, id(1), 1).unwrap();
        let taken = take(&sessions, ONE, id(1));
        std::thread::sleep(Duration::from_millis(60));
        taken.commit(2);
        drop(take(&sessions, ONE, id(1)));
        std::thread::sleep(Duration::from_millis(60));
        assert!(!is_there(&sessions, ONE, id(1)));
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn every_removal_is_told() {
        let (sessions, removed) = watched(sessions(2, 2, LONG));
        for number in 1..=3 {
            sessions.begin(ONE, id(number), 0).unwrap();
        }
        assert_eq!(removed(), [(ONE, id(1))]);
        sessions.begin(ONE, id(3), 0).unwrap();
        take(&sessions, ONE, id(3)).remove();
        assert_eq!(removed(), [(ONE, id(3)), (ONE, id(3))]);
        sessions.end(ONE, id(2)).unwrap();
        sessions.end(ONE, id(2)).unwrap();
        assert_eq!(removed(), [(ONE, id(2))]);
        // Those of an earlier process: too old, or too many.
        sessions.put_back((ONE, id(1)), 1, LONG);
        for (number, unused) in [(4, 30), (5, 20), (6, 10)] {
            sessions.put_back((TWO, id(number)), number.into(), Duration::from_secs(unused));
        }
        assert_eq!(removed(), [(ONE, id(1)), (TWO, id(4))]);
        assert_eq!(*take(&sessions, TWO, id(5)).state(), 5);
        // The one that was used now stays.
        sessions.begin(ONE, id(7), 0).unwrap();
        assert_eq!(removed(), [(TWO, id(6))]);
    }
}
