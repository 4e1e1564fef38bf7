//! The owner's half of a database of encrypted entries: encrypts entries and uploads them.

use std::borrow::Borrow;
use std::fmt;
use std::io::Write;
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::{EncryptedEntry, TableKind, Upload, UploadState, WRITE_KEY_BYTES};
use unspoken_protocol::{ClientHalf, KeyGenerator, KeySetId};
use unspoken_ring::{SecretRng, derive_bytes};
use zeroize::Zeroizing;

use super::message::{self, UploadRequest};
use crate::client::{PirClient, PirOptions};
use crate::description::Description;
use crate::error::PirError;

/// Label of what is derived from a stored secret for uploads.
const DERIVATION_LABEL: &str = "unspoken 2026 uploads of encrypted entries";

/// Bytes of a fingerprint of the content of an entry.
const FINGERPRINT_BYTES: usize = 16;

/// What the owner asks of the service. All of it is public but the content of entries, which are encrypted.
#[derive(Clone, Debug)]
pub enum UploadQuestion {
    /// How far the database has come.
    State,
    /// To store a chunk of at most [`UploadClient::most_entries`] entries, by number and in ascending order.
    Chunk {
        /// The upload.
        upload: Upload,
        /// Number of the chunk, from 0.
        chunk: u64,
        /// Entries by number.
        entries: Vec<(u64, EncryptedEntry)>,
    },
    /// To make a version of all chunks of an upload.
    Commit {
        /// The upload.
        upload: Upload,
        /// Number of its chunks.
        chunks: u64,
    },
}

/// The owner of a database: a client with a write key and the secret of the client that queries the database.
pub struct UploadClient {
    reads: PirClient,
    write_key: Zeroizing<[u8; WRITE_KEY_BYTES]>,
    fingerprints: Zeroizing<[u8; 32]>,
}

/// Does not print the secrets.
impl fmt::Debug for UploadClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadClient(..)")
    }
}

impl UploadClient {
    /// The key that the owner shows with every upload. It depends on the secret and on the layout of the database.
    pub fn write_key(&self) -> &[u8; WRITE_KEY_BYTES] {
        &self.write_key
    }

    /// Maximum number of entries in a chunk.
    pub fn most_entries(&self) -> usize {
        message::most_entries(self.description().tables())
    }

    /// Encrypts an entry; `cell` returns the content of a cell.
    ///
    /// # Errors
    /// If there is no such entry, or the system has no randomness.
    pub fn encrypt_entry<'c>(&self, number: u64, cell: impl Fn(u64) -> &'c [u8]) -> Result<EncryptedEntry, PirError> {
        let (secret, tables) = (self.reads.secret(), self.description().tables());
        Ok(secret.encrypt_entry(tables, number, cell, &mut SecretRng::from_os()?)?)
    }

    /// A fingerprint of the content of the cells of an entry, by which the owner finds out later whether it has
    /// changed. It tells nothing to those who do not know the secret, except whether two contents are equal.
    pub fn fingerprint<'c>(&self, number: u64, cell: impl Fn(u64) -> &'c [u8]) -> [u8; FINGERPRINT_BYTES] {
        let tables = self.description().tables();
        let pieces = tables.parameters().pieces() as u64;
        let mut hasher = Zeroizing::new(blake3::Hasher::new_keyed(&self.fingerprints));
        hasher.update(&number.to_le_bytes());
        for index in (number * pieces..(number + 1) * pieces).take_while(|&index| index < tables.layout().cells()) {
            hasher.update(cell(index));
        }
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        hasher.finalize_xof().fill(&mut fingerprint);
        fingerprint
    }
}

impl KeyGenerator for UploadClient {
    type KeyError = PirError;

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, PirError> {
        self.reads.secret_bytes()
    }

    fn bundle_contents(&self) -> Vec<u8> {
        self.reads.bundle_contents()
    }

    fn is_covered_by(&self, contents: &[u8]) -> bool {
        self.reads.is_covered_by(contents)
    }

    fn set_shared_keys(&mut self, contents: &[u8], most_bytes: u64) -> bool {
        self.reads.set_shared_keys(contents, most_bytes)
    }

    fn key_bytes(&self) -> u64 {
        self.reads.key_bytes()
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), PirError> {
        self.reads.write_keys(out, progress, cancel)
    }
}

impl ClientHalf for UploadClient {
    type Error = PirError;
    type Description = Description;
    type Model = PirOptions;
    type Question = UploadQuestion;
    type Encoded = UploadQuestion;
    type Answer = UploadState;

    const VERB: &'static str = "uploading";

    fn secret_name(description: &Description, options: &PirOptions) -> KeySetId {
        PirClient::secret_name(description, options)
    }

    fn open(description: Description, options: PirOptions, stored: Option<&[u8]>) -> Result<Self, PirError> {
        let kind = description.tables().kind();
        if kind != TableKind::Encrypted {
            let needed = "encrypted ones: others are changed by the owner of the service";
            return Err(PirError::mismatch("tables to upload to", kind, needed));
        }
        let layout = description.layout_id();
        let reads = PirClient::open(description, options, stored)?;
        let secret = reads.secret_bytes()?;
        let derive = |purpose: &[u8], out: &mut [u8]| {
            derive_bytes(DERIVATION_LABEL, &[secret.as_slice(), layout.as_slice(), purpose], out);
        };
        let (mut write_key, mut fingerprints) = (Zeroizing::new([0; WRITE_KEY_BYTES]), Zeroizing::new([0; 32]));
        derive(b"write key", write_key.as_mut_slice());
        derive(b"fingerprints", fingerprints.as_mut_slice());
        Ok(UploadClient { reads, write_key, fingerprints })
    }

    fn begin(&self) -> Result<(), PirError> {
        self.reads.begin()
    }

    fn description(&self) -> &Description {
        self.reads.description()
    }

    fn check_change(earlier: &Description, now: &Description) -> Result<(), PirError> {
        PirClient::check_change(earlier, now)
    }

    fn batch(&self) -> usize {
        1
    }

    fn query_bytes(&self, questions: usize) -> usize {
        questions * message::request_bytes(self.description().tables(), self.most_entries())
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        questions * message::REPLY_BYTES
    }

    fn encode<Q: Borrow<UploadQuestion>>(&self, questions: &[Q]) -> Result<Vec<UploadQuestion>, PirError> {
        Ok(questions.iter().map(|question| question.borrow().clone()).collect())
    }

    fn query(&mut self, questions: &[UploadQuestion]) -> Result<Vec<u8>, PirError> {
        let [question] = questions else {
            let found = format!("{} operations", questions.len());
            return Err(PirError::mismatch("upload request", found, "one"));
        };
        let tables = self.description().tables();
        Ok(match question {
            UploadQuestion::State => message::write_request(&self.write_key, &UploadRequest::State),
            UploadQuestion::Chunk { upload, chunk, entries } => {
                let bytes: Vec<(u64, Vec<u8>)> =
                    entries.iter().map(|(number, entry)| (*number, entry.to_bytes(tables))).collect();
                let entries = bytes.iter().map(|(number, bytes)| (*number, bytes.as_slice())).collect();
                let request = UploadRequest::Chunk { upload: *upload, chunk: *chunk, entries };
                message::write_request(&self.write_key, &request)
            }
            UploadQuestion::Commit { upload, chunks } => {
                let request = UploadRequest::Commit { upload: *upload, chunks: *chunks };
                message::write_request(&self.write_key, &request)
            }
        })
    }

    fn check_answer(&self, answer: &[u8], _questions: usize) -> Result<(), PirError> {
        message::read_reply(self.description(), answer).map(drop)
    }

    fn read(&self, answer: &[u8], _questions: &[UploadQuestion]) -> Result<Vec<UploadState>, PirError> {
        Ok(vec![message::read_reply(self.description(), answer)?])
    }
}
