//! The secret of a sealed database, which its owner and its service have.

use std::fmt;

use rand_core_of_voprf::{OsRng, TryCryptoRng, TryRngCore};
use voprf::{Group, Ristretto255, VoprfServer};
use zeroize::{Zeroize, Zeroizing};

use crate::error::SymmetricPirError;
use crate::oprf::{Output, Response, SCALAR_BYTES, Suite, failed, read_request, wiped};
use crate::record::RecordKey;
use crate::sealing::{DATABASE_ID_BYTES, Name, Sealing};

/// First bytes of a stored service key: the format and its version.
const MAGIC: [u8; 8] = *b"USEALK\0\x01";

/// Bytes of the checksum at the end of a stored service key.
const CHECKSUM_BYTES: usize = 16;

/// Bytes of a stored service key.
const STORED_BYTES: usize = MAGIC.len() + DATABASE_ID_BYTES + size_of::<u32>() + SCALAR_BYTES + CHECKSUM_BYTES;

/// The secret key of a sealed database, with its [`Sealing`]. Whoever has it can open all records. It is wiped when
/// dropped, and on the heap, so that moving it leaves no copy.
pub struct ServiceKey {
    server: Box<VoprfServer<Suite>>,
    sealing: Sealing,
}

/// Does not print the secret.
impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceKey").field("sealing", &self.sealing).finish_non_exhaustive()
    }
}

impl ServiceKey {
    /// Makes the secret of a new database whose records are padded to `record_bytes` bytes.
    ///
    /// # Errors
    /// If [`Sealing::new`] refuses the length, or the system has no randomness.
    pub fn generate(record_bytes: u32) -> Result<Self, SymmetricPirError> {
        let mut id = [0; DATABASE_ID_BYTES];
        getrandom::fill(&mut id).map_err(SymmetricPirError::Randomness)?;
        Self::with(id, record_bytes, VoprfServer::new(&mut OsRng).map_err(failed)?)
    }

    fn with(
        id: [u8; DATABASE_ID_BYTES],
        record_bytes: u32,
        server: VoprfServer<Suite>,
    ) -> Result<Self, SymmetricPirError> {
        let server = Box::new(server);
        let sealing = Sealing::new(id, &Ristretto255::serialize_elem(server.get_public_key()), record_bytes)?;
        Ok(ServiceKey { server, sealing })
    }

    /// The secret's bytes, to be stored where only the owner of the database can read them: a format of 8 bytes, the
    /// id, the length of records, the secret scalar, and a checksum.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(STORED_BYTES));
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.sealing.id());
        bytes.extend_from_slice(&self.sealing.record_bytes().to_le_bytes());
        // The secret scalar, and after it the public key.
        let mut pair = self.server.serialize();
        bytes.extend(pair.iter().take(SCALAR_BYTES));
        pair.as_mut_slice().zeroize();
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        bytes
    }

    /// Reads a stored secret.
    ///
    /// # Errors
    /// If the bytes are damaged, or do not come from [`ServiceKey::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SymmetricPirError> {
        let wrong = |found: &str| {
            let needed = "the bytes that this program stored; restore the file, or rebuild the database";
            SymmetricPirError::mismatch("stored key of a sealed database", found, needed)
        };
        let Some((content, sum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else { return Err(wrong("too few")) };
        let Some(fields) = content.strip_prefix(&MAGIC) else { return Err(wrong("another format")) };
        if bytes.len() != STORED_BYTES || *sum != checksum(content) {
            return Err(wrong("damaged bytes"));
        }
        let short = || wrong("too few");
        let (id, fields) = fields.split_first_chunk().ok_or_else(short)?;
        let (record_bytes, scalar) = fields.split_first_chunk().ok_or_else(short)?;
        Self::of_scalar(*id, u32::from_le_bytes(*record_bytes), scalar)
    }

    /// The secret with this scalar, which must be canonical and not zero.
    pub(crate) fn of_scalar(
        id: [u8; DATABASE_ID_BYTES],
        record_bytes: u32,
        scalar: &[u8],
    ) -> Result<Self, SymmetricPirError> {
        Self::with(id, record_bytes, VoprfServer::new_with_key(scalar).map_err(failed)?)
    }

    /// What clients must know of the database.
    pub fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    /// The key of a record, for the owner of the database, who seals it.
    ///
    /// # Errors
    /// Only if the pseudorandom function maps the name to the identity, which happens once in 2^252.
    pub fn record_key(&self, name: Name<'_>) -> Result<RecordKey, SymmetricPirError> {
        Ok(RecordKey::derive(&self.output(&*self.sealing.input(name))?))
    }

    pub(crate) fn output(&self, input: &[u8]) -> Result<Output, SymmetricPirError> {
        let mut output = self.server.evaluate(input).map_err(failed)?;
        let wiped = wiped(&output);
        AsMut::<[u8]>::as_mut(&mut output).zeroize();
        Ok(wiped)
    }

    /// Evaluates the pseudorandom function on the blinded names of a request of untrusted bytes, without learning the
    /// names. Returns the response with a proof that this key was used, [`response_bytes`](crate::response_bytes) long.
    ///
    /// # Errors
    /// If the request is not 1 to `most` different elements of ristretto255 in canonical encoding, none the identity,
    /// or the system has no randomness.
    pub fn evaluate(&self, request: &[u8], most: usize) -> Result<Vec<u8>, SymmetricPirError> {
        self.evaluate_with(request, most, &mut OsRng)
    }

    pub(crate) fn evaluate_with<R: TryRngCore + TryCryptoRng>(
        &self,
        request: &[u8],
        most: usize,
        rng: &mut R,
    ) -> Result<Vec<u8>, SymmetricPirError> {
        let blinded = read_request(request, most)?;
        let result = self.server.batch_blind_evaluate(rng, &blinded).map_err(failed)?;
        Ok(Response { elements: result.messages, proof: result.proof }.to_bytes())
    }
}

/// Hash of a stored secret, which detects damage.
fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = [0; CHECKSUM_BYTES];
    blake3::Hasher::new_derive_key("unspoken 2026 checksum of a service key")
        .update(content)
        .finalize_xof()
        .fill(&mut sum);
    sum
}
