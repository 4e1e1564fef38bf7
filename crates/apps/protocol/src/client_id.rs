//! Identity of clients, as far as an application needs it.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Identifies a client of a service: all queries of one client have the same id. It reveals nothing else about the
/// client, but may have the [network](Self::network) that a query came from, which does not count in comparisons.
#[derive(Clone, Copy, Debug)]
pub struct ClientId {
    id: [u8; 16],
    network: Option<[u8; 8]>,
}

impl ClientId {
    /// Makes an id from bytes that the service derives from its knowledge of the client.
    pub const fn new(bytes: [u8; 16]) -> Self {
        ClientId { id: bytes, network: None }
    }

    /// The same client, whose query came from a network: a hash of its address.
    pub const fn with_network(self, network: [u8; 8]) -> Self {
        ClientId { network: Some(network), ..self }
    }

    /// A hash of the address from which a client without a token asked. Such clients choose their ids themselves, so an
    /// application that keeps something for each client must limit the number of clients of one network. `None` for
    /// clients with a token.
    pub const fn network(self) -> Option<[u8; 8]> {
        self.network
    }

    /// Its bytes, for what is stored of a client: without the network.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.id
    }
}

impl PartialEq for ClientId {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for ClientId {}

impl PartialOrd for ClientId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ClientId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }
}

impl Hash for ClientId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_the_same_from_every_network() {
        let client = ClientId::new([1; 16]);
        let moved = client.with_network([2; 8]);
        assert_eq!((moved, moved.to_bytes()), (client, [1; 16]));
        assert_eq!((client.network(), moved.network()), (None, Some([2; 8])));
        assert!(std::collections::HashSet::from([client]).contains(&moved));
        assert_ne!(ClientId::new([3; 16]).with_network([2; 8]), moved);
    }
}
