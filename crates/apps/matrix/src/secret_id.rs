//! The public name of a secret.
//!
//! The secret for use by hand is 32 bytes, from which the secret key of each parameter set is derived (BLAKE3,
//! ChaCha20). Inputs, keys and results contain its public identifier (16 bytes of BLAKE3), so that data of another
//! secret is refused instead of decrypted to noise.

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
