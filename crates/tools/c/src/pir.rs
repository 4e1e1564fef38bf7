//! The functions that C calls for private retrieval. The comments here become the comments of the header.

#![expect(unsafe_code, reason = "pointers of the caller, checked as far as they can be")]

use std::ffi::{CStr, c_char};

use unspoken_pir::{Answer, PirClient, PirOptions, Question};
use unspoken_pir_scheme::Mode;
use unspoken_protocol::{NoCounters, OpenedHalf};

use crate::client::{Opened, UNSPOKEN_SECRET_BYTES, UnspokenClient, UnspokenRequest};
use crate::counters::UnspokenPirCounters;
use crate::failure::Failure;
use crate::pointers::{array, bytes, check, free, hand_out, run, run_opened, status, store, store_optional};
use crate::status::UnspokenStatus;

/// Records from an answer.
pub struct UnspokenPirRecords {
    answers: Vec<Answer>,
}

/// Opens a client of a database of a service.
///
/// `kind` is the kind of its queries: "packed", "bits", "compact" or "session". `description` is what the service tells
/// of the database. `secret` has UNSPOKEN_SECRET_BYTES bytes of unspoken_secret of an earlier client of this
/// kind, or is NULL: then a new secret is generated, for which evaluation keys must be sent. `counters` may be NULL,
/// except for session queries.
///
/// The first description is trusted, and unspoken_update refuses later ones that could reveal questions, or that
/// take the tags from an encrypted database. So store the description with the secret; open a later client with what is
/// stored, and update it with what the service tells then.
///
/// # Safety
/// `client` is not freed; `kind` ends with a 0; the others are valid as described; the context of `counters` is valid
/// as long as the client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_open(
    client: *const UnspokenClient,
    kind: *const c_char,
    description: *const u8,
    description_length: usize,
    secret: *const u8,
    counters: *const UnspokenPirCounters,
) -> UnspokenStatus {
    // SAFETY: the caller's promises, for each of the pointers.
    unsafe {
        run(client, |opened| {
            check("kind", kind)?;
            let kind = CStr::from_ptr(kind).to_string_lossy();
            let description = bytes("description", description, description_length)?;
            let secret = secret.cast::<[u8; UNSPOKEN_SECRET_BYTES]>().as_ref();
            if opened.is_some() {
                return Err(Failure::Open);
            }
            *opened = Some(open(&kind, description, secret, counters.as_ref().copied())?);
            Ok(())
        })
    }
}

/// Encrypts questions for the records at `count` indices, from 0. `request` receives a request, which
/// unspoken_request_free frees. An index that does not exist is no error here, so that the service does not learn
/// it: unspoken_pir_read reports it.
///
/// # Safety
/// `client` is not freed; there are `count` numbers at `indices`; `request` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_ask_indices(
    client: *const UnspokenClient,
    indices: *const u64,
    count: usize,
    request: *mut *mut UnspokenRequest,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let indices = array("indices", indices, count)?;
            let questions: Vec<Question> = indices.iter().map(|&index| Question::Index(index)).collect();
            check("request", request)?;
            hand_out("request", request, UnspokenRequest::new(opened.of::<PirClient>()?.ask(&questions)?))
        })
    }
}

/// Encrypts questions for the records of `count` keys. Key i has `lengths[i]` bytes at `keys[i]`. `request` receives a
/// request, which unspoken_request_free frees.
///
/// # Safety
/// `client` is not freed; there are `count` pointers at `keys`, and `count` numbers at `lengths`; each key is valid;
/// `request` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_ask_keys(
    client: *const UnspokenClient,
    keys: *const *const u8,
    lengths: *const usize,
    count: usize,
    request: *mut *mut UnspokenRequest,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let (keys, lengths) = (array("keys", keys, count)?, array("lengths", lengths, count)?);
            let key = |(&key, &length): (&*const u8, &usize)| Ok(Question::Key(bytes("a key", key, length)?.to_vec()));
            let questions: Vec<Question> = keys.iter().zip(lengths).map(key).collect::<Result<_, Failure>>()?;
            check("request", request)?;
            hand_out("request", request, UnspokenRequest::new(opened.of::<PirClient>()?.ask(&questions)?))
        })
    }
}

/// Decrypts the answer to a request of this client, after the check of unspoken_check_answer, whose errors it
/// returns. `records` receives the records, in the order of the questions; free them with unspoken_pir_records_free.
///
/// UNSPOKEN_STATUS_UNREADABLE tells that the decrypted answer is no sound one, UNSPOKEN_STATUS_NO_SUCH_INDEX
/// that an index of the request is out of range. Both are final: tell the person, but do not ask again because of them,
/// also not for the other records of the request, and do not let the service learn them. A service that damages half of
/// its table, or describes half of its records, would learn from your next request which half you asked for.
///
/// # Safety
/// `client` and `request` are not freed; `answer` has `length` bytes; `records` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_read(
    client: *const UnspokenClient,
    request: *const UnspokenRequest,
    answer: *const u8,
    length: usize,
    records: *mut *mut UnspokenPirRecords,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let request = request.as_ref().ok_or(Failure::Null { argument: "request" })?;
            let answer = bytes("answer", answer, length)?;
            check("records", records)?;
            hand_out("records", records, UnspokenPirRecords::read(opened.of::<PirClient>()?, request, answer)?)
        })
    }
}

/// Writes where record `number` is, and how many bytes it has, to `record` and `length`. They are valid until the
/// records are freed. If there is no such record in the database, `record` is NULL; an empty record is not.
///
/// # Safety
/// `records` is not freed; `record` and `length` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_records_get(
    records: *const UnspokenPirRecords,
    number: usize,
    record: *mut *const u8,
    length: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(records) = records.as_ref() else { return UnspokenStatus::NullPointer };
        let Some(answer) = records.answers.get(number) else { return UnspokenStatus::Argument };
        store_optional(answer.record.as_deref().map(Vec::as_slice), record, length)
    }
}

/// Writes the version of the database, from which all records of the answer are, to `version`.
///
/// # Safety
/// `records` is not freed; `version` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_records_version(
    records: *const UnspokenPirRecords,
    version: *mut u64,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(records) = records.as_ref() else { return UnspokenStatus::NullPointer };
        let Some(first) = records.answers.first() else { return UnspokenStatus::Argument };
        status(store("version", version, first.version))
    }
}

/// Frees records and wipes them. NULL is ignored.
///
/// # Safety
/// `records` is not freed yet, and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_records_free(records: *mut UnspokenPirRecords) {
    // SAFETY: the caller's promise.
    unsafe { free(records) }
}

/// Writes the version of the database from which an answer was computed, which is not encrypted, to `version`: for
/// unspoken_search_check_version, before the answer is read.
///
/// # Safety
/// `answer` has `length` bytes; `version` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_answer_version(
    answer: *const u8,
    length: usize,
    version: *mut u64,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let version_of = || {
            let found = PirClient::version_of(bytes("answer", answer, length)?).ok_or(Failure::Argument {
                what: "answer",
                found: format!("{length} bytes"),
                needed: "an answer that unspoken_check_answer has accepted".to_owned(),
            })?;
            store("version", version, found)
        };
        status(version_of())
    }
}

/// Opens a client of a service's description with a stored secret, or with a new one.
fn open(
    kind: &str,
    description: &[u8],
    secret: Option<&[u8; UNSPOKEN_SECRET_BYTES]>,
    counters: Option<UnspokenPirCounters>,
) -> Result<Opened, Failure> {
    let mode = kind.parse().map_err(|_| Failure::Argument {
        what: "open a client: kind of queries",
        found: format!("{kind:?}"),
        needed: Mode::ALL.map(|mode| mode.to_string()).join(", "),
    })?;
    let options = match (mode, counters) {
        (mode, Some(counters)) => PirOptions::new(mode, counters),
        (Mode::Session, None) => {
            let needed = "functions that store the numbers of session queries; or use another kind".to_owned();
            return Err(Failure::Argument { what: "open a client: counters", found: "none".to_owned(), needed });
        }
        (mode, None) => PirOptions::new(mode, NoCounters),
    };
    let secret = secret.map(<[u8; UNSPOKEN_SECRET_BYTES]>::as_slice);
    Ok(Opened::new(OpenedHalf::<PirClient>::open(description, options, (secret, None), false)?))
}

impl UnspokenPirRecords {
    /// Checks and decrypts the answer to a request.
    fn read(client: &OpenedHalf<PirClient>, request: &UnspokenRequest, answer: &[u8]) -> Result<Self, Failure> {
        let request = request.0.of()?;
        client.check_answer(request, answer)?;
        let answers = client.read(request, answer).map_err(Failure::decrypted)?;
        Ok(UnspokenPirRecords { answers })
    }
}
