//! The public name of a secret.

use crate::bytes::Reader;
use crate::error::MatrixError;

/// Public identifier of a secret. Data made with one secret is refused by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SecretId(pub(crate) [u8; 16]);

impl SecretId {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self, MatrixError> {
        let mut secret_id = [0; 16];
        secret_id.copy_from_slice(input.take(16)?);
        Ok(SecretId(secret_id))
    }
}
