//! Requests and answers, byte by byte; see the schema.

use unspoken_exact::EncryptionKey;
use unspoken_protocol::{CHECKSUM_BYTES, append_checksum, checked};
use unspoken_rlwe as rlwe;

use crate::contribution::Contribution;
use crate::description::Description;
use crate::error::SumsError;
use crate::format::Id;
use crate::receipt::Receipt;
use crate::state::{Addend, State};

/// First byte of requests and answers.
const CONTRIBUTE: u8 = 1;
const COUNT: u8 = 2;
const CLOSE: u8 = 3;

/// Receipts in an answer.
const ADDED: u8 = 1;
const ADDED_BEFORE: u8 = 2;

/// A decoded request.
pub(crate) enum Request {
    /// Contributions to add.
    Contribute(Vec<Addend>),
    /// The number of contributions, for who has this token.
    Count([u8; 32]),
    /// The sum, for who has this token.
    Close([u8; 32]),
}

impl Request {
    /// Decodes a request of untrusted bytes. The length decides before anything is allocated.
    pub(crate) fn read(description: &Description, bytes: &[u8]) -> Result<Self, SumsError> {
        let bytes = checked("request", bytes)?;
        let needed = || {
            let (each, most) = (description.contribution_bytes(), description.batch());
            format!("1 to {most} contributions of {each} bytes each, or a token of 32")
        };
        let refuse = |found: String| SumsError::mismatch("request", found, needed());
        let Some((kind, rest)) = bytes.split_first() else { return Err(refuse("0 bytes".into())) };
        let token = || rest.try_into().map_err(|_| refuse(format!("{} bytes", rest.len())));
        match *kind {
            CONTRIBUTE => {
                let (count, odd) =
                    (rest.len() / description.contribution_bytes(), rest.len() % description.contribution_bytes());
                if odd != 0 || !(1..=description.batch()).contains(&count) {
                    return Err(refuse(format!("{} bytes", rest.len())));
                }
                let parts = rest.chunks_exact(description.contribution_bytes());
                Ok(Request::Contribute(parts.map(|part| addend(description, part)).collect::<Result<_, _>>()?))
            }
            COUNT => Ok(Request::Count(token()?)),
            CLOSE => Ok(Request::Close(token()?)),
            other => Err(refuse(format!("kind {other}"))),
        }
    }
}

/// One contribution. The bound on its noise is the bound of an honest contribution: a request claims nothing.
fn addend(description: &Description, bytes: &[u8]) -> Result<Addend, SumsError> {
    let refuse = || SumsError::mismatch("contribution", format!("{} bytes", bytes.len()), "an id and a ciphertext");
    let (id, rest) = bytes.split_first_chunk::<{ size_of::<Id>() }>().ok_or_else(refuse)?;
    let ciphertext = rlwe::Ciphertext::from_bytes(description.parameters().rlwe(), rest)?;
    Ok(Addend { id: *id, ciphertext: description.encoder().import_fresh(ciphertext, EncryptionKey::Public)? })
}

/// The request with these contributions.
pub(crate) fn contribute(contributions: &[Contribution]) -> Vec<u8> {
    let mut bytes = vec![CONTRIBUTE];
    contributions.iter().for_each(|contribution| bytes.extend(contribution.bytes()));
    append_checksum(&mut bytes);
    bytes
}

/// The request for the number of contributions.
pub(crate) fn count(token: &[u8; 32]) -> Vec<u8> {
    with_token(COUNT, token)
}

/// The request for the sum.
pub(crate) fn close(token: &[u8; 32]) -> Vec<u8> {
    with_token(CLOSE, token)
}

fn with_token(kind: u8, token: &[u8; 32]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(token);
    append_checksum(&mut bytes);
    bytes
}

/// Bytes of a request with a token.
pub(crate) const TOKEN_QUERY_BYTES: usize = 1 + 32 + CHECKSUM_BYTES;

/// Bytes of the answer to `contributions` contributions.
pub(crate) fn receipts_bytes(contributions: usize) -> usize {
    1 + contributions + CHECKSUM_BYTES
}

/// Bytes of an answer with the sum.
pub(crate) fn sum_bytes(description: &Description) -> usize {
    State::stored_bytes(description) as usize
}

/// The answer to contributions.
pub(crate) fn receipts(receipts: &[Receipt]) -> Vec<u8> {
    let mut bytes = vec![CONTRIBUTE];
    bytes.extend(receipts.iter().map(|receipt| match receipt {
        Receipt::Added => ADDED,
        Receipt::AddedBefore => ADDED_BEFORE,
    }));
    append_checksum(&mut bytes);
    bytes
}

/// Reads the answer to `contributions` contributions, of untrusted bytes.
pub(crate) fn read_receipts(bytes: &[u8], contributions: usize) -> Result<Vec<Receipt>, SumsError> {
    let refuse = || SumsError::mismatch("answer", "other bytes", format!("{contributions} receipts"));
    let rest = checked("answer", bytes)?.strip_prefix(&[CONTRIBUTE]).ok_or_else(refuse)?;
    let receipt = |byte: &u8| match *byte {
        ADDED => Ok(Receipt::Added),
        ADDED_BEFORE => Ok(Receipt::AddedBefore),
        _ => Err(refuse()),
    };
    match rest.len() == contributions {
        true => rest.iter().map(receipt).collect(),
        false => Err(refuse()),
    }
}

/// The answer with the number of contributions.
pub(crate) fn counted(count: u32) -> Vec<u8> {
    let mut bytes = vec![COUNT];
    bytes.extend(count.to_le_bytes());
    append_checksum(&mut bytes);
    bytes
}

/// Reads the number of contributions, of untrusted bytes.
pub(crate) fn read_count(bytes: &[u8]) -> Result<u32, SumsError> {
    let refuse = || SumsError::mismatch("answer", "other bytes", "a number of contributions");
    let rest = checked("answer", bytes)?.strip_prefix(&[COUNT]).ok_or_else(refuse)?;
    Ok(u32::from_le_bytes(rest.try_into().map_err(|_| refuse())?))
}

/// The answer with the number of contributions and their encrypted sum.
pub(crate) fn closed(state: &State) -> Vec<u8> {
    let mut bytes = vec![CLOSE];
    bytes.extend(state.count().to_le_bytes());
    bytes.extend(state.sum().to_bytes());
    append_checksum(&mut bytes);
    bytes
}

/// Reads the number of contributions and the encrypted sum, of untrusted bytes.
pub(crate) fn read_closed(bytes: &[u8]) -> Result<(u32, &[u8]), SumsError> {
    let refuse = || SumsError::mismatch("answer", "other bytes", "a number of contributions and their sum");
    let rest = checked("answer", bytes)?.strip_prefix(&[CLOSE]).ok_or_else(refuse)?;
    let (count, sum) = rest.split_first_chunk::<4>().ok_or_else(refuse)?;
    Ok((u32::from_le_bytes(*count), sum))
}
