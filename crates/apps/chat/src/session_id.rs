//! Ids of sessions.

use unspoken_protocol::ProtocolError;
use unspoken_ring::SecretRng;
use unspoken_rlwe::RlweError;

use crate::error::ChatError;

/// The id of a session, which its client chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// The id with these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        SessionId(bytes)
    }

    /// A random id.
    ///
    /// # Errors
    /// If the operating system has no randomness.
    pub fn random() -> Result<Self, ChatError> {
        let mut bytes = [0; 16];
        let rng = SecretRng::from_os().map_err(RlweError::from).map_err(ProtocolError::from);
        rng?.fill(&mut bytes);
        Ok(SessionId(bytes))
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}
