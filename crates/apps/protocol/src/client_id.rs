//! Who a query comes from, as far as an application must know.

/// Identifies a client of a service: queries of one client have one id. It says nothing else about the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId([u8; 16]);

impl ClientId {
    /// From bytes that the service derives from what it knows of the client.
    pub const fn new(bytes: [u8; 16]) -> Self {
        ClientId(bytes)
    }
}
