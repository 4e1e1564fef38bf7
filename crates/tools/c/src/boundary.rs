//! The functions that C calls. The comments here become the comments of the header.

#![expect(unsafe_code, reason = "pointers of the caller, checked as far as they can be")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use unspoken_pir::Question;

use crate::client::{
    Opened, UNSPOKEN_PIR_HASH_BYTES, UNSPOKEN_PIR_SECRET_BYTES, UnspokenPirClient, UnspokenPirRecords,
    UnspokenPirRequest,
};
use crate::counters::UnspokenPirCounters;
use crate::failure::Failure;
use crate::status::UnspokenPirStatus;

/// Receives a chunk of bytes: returns 0, or another number to stop.
pub type UnspokenPirWrite =
    Option<unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, length: usize) -> c_int>;

/// Makes a client, which is not open yet. Returns NULL if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn unspoken_pir_new() -> *mut UnspokenPirClient {
    catch_unwind(|| Box::into_raw(Box::new(UnspokenPirClient::new()))).unwrap_or(ptr::null_mut())
}

/// Frees a client and wipes its secret. NULL is ignored.
///
/// # Safety
/// `client` is of `unspoken_pir_new`, not freed yet, and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_free(client: *mut UnspokenPirClient) {
    // SAFETY: the caller's promise.
    unsafe { free(client) }
}

/// Writes the text of the last error of a client, and a 0 at its end, to a buffer of `capacity` bytes, cut off where it
/// does not fit. Returns the length of the whole text without the 0; 0 if the last call succeeded. A buffer of no bytes
/// may be NULL.
///
/// # Safety
/// `client` is not freed; `buffer` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_error(
    client: *const UnspokenPirClient,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    // SAFETY: the caller's promise.
    let Some(client) = (unsafe { client.as_ref() }) else { return 0 };
    let text = catch_unwind(AssertUnwindSafe(|| client.error())).unwrap_or_default();
    if let Some(room) = capacity.checked_sub(1).filter(|_| !buffer.is_null()) {
        let cut = text.floor_char_boundary(room);
        // SAFETY: the buffer has room for `capacity` bytes, and `cut` is less than `capacity`.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), cut);
            buffer.add(cut).write(0);
        }
    }
    text.len()
}

/// Opens a client of a database of a service.
///
/// `kind` is the kind of its queries: "packed", "bits", "compact" or "session". `description` is what the service tells
/// of the database. `secret` has UNSPOKEN_PIR_SECRET_BYTES bytes of unspoken_pir_secret of an earlier client of this
/// kind, or is NULL: then a new secret is generated, for which evaluation keys must be sent. `counters` may be NULL,
/// except for session queries.
///
/// The first description is trusted, and unspoken_pir_update refuses later ones that could reveal questions, or that
/// take the tags from an encrypted database. So store the description with the secret; open a later client with what is
/// stored, and update it with what the service tells then.
///
/// # Safety
/// `client` is not freed; `kind` ends with a 0; the others are valid as described; the context of `counters` is valid
/// as long as the client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_open(
    client: *const UnspokenPirClient,
    kind: *const c_char,
    description: *const u8,
    description_length: usize,
    secret: *const u8,
    counters: *const UnspokenPirCounters,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises, for each of the pointers.
    unsafe {
        run(client, |opened| {
            check("kind", kind)?;
            let kind = CStr::from_ptr(kind).to_string_lossy();
            let description = bytes("description", description, description_length)?;
            let secret = secret.cast::<[u8; UNSPOKEN_PIR_SECRET_BYTES]>().as_ref();
            if opened.is_some() {
                return Err(Failure::Open);
            }
            *opened = Some(Opened::open(&kind, description, secret, counters.as_ref().copied())?);
            Ok(())
        })
    }
}

/// Takes up a newer description of the same database, after unspoken_pir_check_answer or a refusal of the service has
/// told that it changed. Secret and evaluation keys stay valid; requests of before can no longer be read. A change that
/// could reveal questions, or take the tags from an encrypted database, is refused.
///
/// # Safety
/// `client` is not freed; `description` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_update(
    client: *const UnspokenPirClient,
    description: *const u8,
    length: usize,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe { run_opened(client, |opened| opened.update(bytes("description", description, length)?)) }
}

/// Writes the UNSPOKEN_PIR_SECRET_BYTES bytes of the secret, to be stored: without them, new evaluation keys must be
/// made and sent. Anyone who has them can read the questions.
///
/// # Safety
/// `client` is not freed; `secret` has room for UNSPOKEN_PIR_SECRET_BYTES bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_secret(client: *const UnspokenPirClient, secret: *mut u8) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            check("secret", secret)?;
            let bytes = opened.secret()?;
            ptr::copy_nonoverlapping(bytes.as_ptr(), secret, bytes.len().min(UNSPOKEN_PIR_SECRET_BYTES));
            Ok(())
        })
    }
}

/// Writes the length of the evaluation keys in bytes to `length`.
///
/// # Safety
/// `client` is not freed; `length` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_key_bytes(
    client: *const UnspokenPirClient,
    length: *mut u64,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe { run_opened(client, |opened| store("length", length, opened.key_bytes())) }
}

/// Makes evaluation keys, which the service needs for the answers: up to 105 MB. `write` receives their bytes, in
/// chunks of at most 65536. Their BLAKE3 hash of UNSPOKEN_PIR_HASH_BYTES bytes is written to `hash`. Each call makes
/// other keys for the same secret; all of them are as good.
///
/// # Safety
/// `client` is not freed; `write` may be called with `context`; `hash` has room for the hash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_write_keys(
    client: *const UnspokenPirClient,
    write: UnspokenPirWrite,
    context: *mut c_void,
    hash: *mut u8,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let write = write.ok_or(Failure::Null { argument: "write" })?;
            check("hash", hash)?;
            let found = opened.write_keys(|bytes| write(context, bytes.as_ptr(), bytes.len()))?;
            ptr::copy_nonoverlapping(found.as_ptr(), hash, found.len());
            Ok(())
        })
    }
}

/// Passes the message with which keys of this hash are declared to a service, the body of POST /v1/keys, to `write` in
/// one piece. `application` is the name of the database at the service, for instance "pir/codes".
///
/// # Safety
/// `client` is not freed; `application` ends with a 0; `hash` has UNSPOKEN_PIR_HASH_BYTES bytes; `write` may be called
/// with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_key_declaration(
    client: *const UnspokenPirClient,
    application: *const c_char,
    hash: *const u8,
    write: UnspokenPirWrite,
    context: *mut c_void,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            check("application", application)?;
            let application = CStr::from_ptr(application).to_string_lossy();
            let hash =
                hash.cast::<[u8; UNSPOKEN_PIR_HASH_BYTES]>().as_ref().ok_or(Failure::Null { argument: "hash" })?;
            let write = write.ok_or(Failure::Null { argument: "write" })?;
            let message = opened.key_declaration(&application, hash);
            match write(context, message.as_ptr(), message.len()) {
                0 => Ok(()),
                found => Err(Failure::Stopped { found }),
            }
        })
    }
}

/// Writes the maximum number of questions of a request to `count`.
///
/// # Safety
/// `client` is not freed; `count` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_most_questions(
    client: *const UnspokenPirClient,
    count: *mut usize,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe { run_opened(client, |opened| store("count", count, opened.most_questions())) }
}

/// Encrypts questions for the records at `count` indices, from 0. `request` receives a request, which
/// unspoken_pir_request_free frees. An index that does not exist is no error here, so that the service does not learn
/// it: unspoken_pir_read reports it.
///
/// # Safety
/// `client` is not freed; there are `count` numbers at `indices`; `request` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_ask_indices(
    client: *const UnspokenPirClient,
    indices: *const u64,
    count: usize,
    request: *mut *mut UnspokenPirRequest,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let indices = array("indices", indices, count)?;
            let questions: Vec<Question> = indices.iter().map(|&index| Question::Index(index)).collect();
            check("request", request)?;
            request.write(Box::into_raw(Box::new(opened.ask(&questions)?)));
            Ok(())
        })
    }
}

/// Encrypts questions for the records of `count` keys. Key i has `lengths[i]` bytes at `keys[i]`. `request` receives a
/// request, which unspoken_pir_request_free frees.
///
/// # Safety
/// `client` is not freed; there are `count` pointers at `keys`, and `count` numbers at `lengths`; each key is valid;
/// `request` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_ask_keys(
    client: *const UnspokenPirClient,
    keys: *const *const u8,
    lengths: *const usize,
    count: usize,
    request: *mut *mut UnspokenPirRequest,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let (keys, lengths) = (array("keys", keys, count)?, array("lengths", lengths, count)?);
            let key = |(&key, &length): (&*const u8, &usize)| Ok(Question::Key(bytes("a key", key, length)?.to_vec()));
            let questions: Vec<Question> = keys.iter().zip(lengths).map(key).collect::<Result<_, Failure>>()?;
            check("request", request)?;
            request.write(Box::into_raw(Box::new(opened.ask(&questions)?)));
            Ok(())
        })
    }
}

/// Writes where the bytes to send are, and how many, to `bytes` and `length`. They are valid until the request is
/// freed.
///
/// # Safety
/// `request` is not freed; `bytes` and `length` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_request_bytes(
    request: *const UnspokenPirRequest,
    bytes: *mut *const u8,
    length: *mut usize,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(request) = request.as_ref() else { return UnspokenPirStatus::NullPointer };
        store_slice(&request.0.bytes, bytes, length)
    }
}

/// Writes the length of the answer in bytes to `length`. Accept no more than that from a service.
///
/// # Safety
/// `request` is not freed; `length` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_request_answer_bytes(
    request: *const UnspokenPirRequest,
    length: *mut usize,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(request) = request.as_ref() else { return UnspokenPirStatus::NullPointer };
        status(store("length", length, request.0.answer_bytes))
    }
}

/// Frees a request and wipes its questions. NULL is ignored.
///
/// # Safety
/// `request` is not freed yet, and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_request_free(request: *mut UnspokenPirRequest) {
    // SAFETY: the caller's promise.
    unsafe { free(request) }
}

/// Checks everything in the answer to a request of this client that can be checked without the secret.
///
/// UNSPOKEN_PIR_STATUS_MISMATCH may mean that the description changed, UNSPOKEN_PIR_STATUS_DAMAGED that the answer was
/// damaged on its way: read the description again, unspoken_pir_update, ask again. Both say nothing about the
/// questions, so the service may learn them. Have all answers of what you ask together checked before you read the
/// first of them.
///
/// # Safety
/// `client` and `request` are not freed; `answer` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_check_answer(
    client: *const UnspokenPirClient,
    request: *const UnspokenPirRequest,
    answer: *const u8,
    length: usize,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let request = request.as_ref().ok_or(Failure::Null { argument: "request" })?;
            opened.check_answer(request, bytes("answer", answer, length)?)
        })
    }
}

/// Decrypts the answer to a request of this client, after the check of unspoken_pir_check_answer, whose errors it
/// returns. `records` receives the records, in the order of the questions; free them with unspoken_pir_records_free.
///
/// UNSPOKEN_PIR_STATUS_UNREADABLE tells that the decrypted answer is no sound one, UNSPOKEN_PIR_STATUS_NO_SUCH_INDEX
/// that an index of the request is out of range. Both are final: tell the person, but do not ask again because of them,
/// also not for the other records of the request, and do not let the service learn them. A service that damages half of
/// its table, or describes half of its records, would learn from your next request which half you asked for.
///
/// # Safety
/// `client` and `request` are not freed; `answer` has `length` bytes; `records` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_pir_read(
    client: *const UnspokenPirClient,
    request: *const UnspokenPirRequest,
    answer: *const u8,
    length: usize,
    records: *mut *mut UnspokenPirRecords,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let request = request.as_ref().ok_or(Failure::Null { argument: "request" })?;
            let answer = bytes("answer", answer, length)?;
            check("records", records)?;
            records.write(Box::into_raw(Box::new(opened.read(request, answer)?)));
            Ok(())
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
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(records) = records.as_ref() else { return UnspokenPirStatus::NullPointer };
        let Some(answer) = records.answers.get(number) else { return UnspokenPirStatus::Argument };
        match &answer.record {
            Some(found) => store_slice(found, record, length),
            None if record.is_null() || length.is_null() => UnspokenPirStatus::NullPointer,
            None => {
                record.write(ptr::null());
                length.write(0);
                UnspokenPirStatus::Ok
            }
        }
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
) -> UnspokenPirStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(records) = records.as_ref() else { return UnspokenPirStatus::NullPointer };
        let Some(first) = records.answers.first() else { return UnspokenPirStatus::Argument };
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

/// Runs `work` on what a client is, and keeps its error.
///
/// # Safety
/// `client` is null or valid.
unsafe fn run(
    client: *const UnspokenPirClient,
    work: impl FnOnce(&mut Option<Opened>) -> Result<(), Failure>,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promise. Only shared references to clients exist; their state is behind a lock.
    match unsafe { client.as_ref() } {
        Some(client) => catch_unwind(AssertUnwindSafe(|| client.run(work))).unwrap_or(UnspokenPirStatus::Internal),
        None => UnspokenPirStatus::NullPointer,
    }
}

/// As [`run`], with a client that is open.
///
/// # Safety
/// As [`run`].
unsafe fn run_opened(
    client: *const UnspokenPirClient,
    work: impl FnOnce(&mut Opened) -> Result<(), Failure>,
) -> UnspokenPirStatus {
    // SAFETY: the caller's promise.
    unsafe { run(client, |opened| work(opened.as_mut().ok_or(Failure::NotOpen)?)) }
}

/// Frees a handle, which may be null.
///
/// # Safety
/// `handle` is of `Box::into_raw`, not freed yet, and not in use.
unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the caller's promise. A panic would be a bug in the destructor; it does not get through.
        _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(handle) })));
    }
}

fn status(result: Result<(), Failure>) -> UnspokenPirStatus {
    result.map_or_else(|error| error.status(), |()| UnspokenPirStatus::Ok)
}

fn check<T>(argument: &'static str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() { Err(Failure::Null { argument }) } else { Ok(()) }
}

/// The `count` values at a pointer.
///
/// # Safety
/// The pointer is null, or the values are there for `'a`.
unsafe fn array<'a, T>(argument: &'static str, pointer: *const T, count: usize) -> Result<&'a [T], Failure> {
    check(argument, pointer)?;
    if count > isize::MAX as usize / size_of::<T>() {
        let needed = "as many as fit into memory".to_owned();
        return Err(Failure::Argument { what: argument, found: format!("a length of {count}"), needed });
    }
    // SAFETY: the caller's promise; the length in bytes is at most `isize::MAX`.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// The `length` bytes at a pointer.
///
/// # Safety
/// As [`array`].
unsafe fn bytes<'a>(argument: &'static str, pointer: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller's promise.
    unsafe { array(argument, pointer, length) }
}

/// Writes a value to a pointer.
///
/// # Safety
/// The pointer is null or valid.
unsafe fn store<T>(argument: &'static str, pointer: *mut T, value: T) -> Result<(), Failure> {
    check(argument, pointer)?;
    // SAFETY: the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes where a slice is, and its length.
///
/// # Safety
/// Both pointers are null or valid.
unsafe fn store_slice(slice: &[u8], bytes: *mut *const u8, length: *mut usize) -> UnspokenPirStatus {
    if bytes.is_null() || length.is_null() {
        return UnspokenPirStatus::NullPointer;
    }
    // SAFETY: the caller's promise.
    unsafe {
        bytes.write(slice.as_ptr());
        length.write(slice.len());
    }
    UnspokenPirStatus::Ok
}
