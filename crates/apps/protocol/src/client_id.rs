//! Identity of clients, as far as an application needs it.

/// Identifies a client of a service: all queries of one client have the same id. It reveals nothing else about the
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId([u8; 16]);

impl ClientId {
    /// Makes an id from bytes that the service derives from its knowledge of the client.
    pub const fn new(bytes: [u8; 16]) -> Self {
        ClientId(bytes)
    }

    /// Its bytes, for what is stored of a client.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}
