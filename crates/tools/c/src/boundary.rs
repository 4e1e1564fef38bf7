//! The functions that C calls for clients and requests of every application. The comments here become the comments of
//! the header.

#![expect(unsafe_code, reason = "pointers of the caller, checked as far as they can be")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::client::{UNSPOKEN_HASH_BYTES, UNSPOKEN_SECRET_BYTES, UnspokenClient, UnspokenRequest};
use crate::failure::Failure;
use crate::pointers::{bytes, check, free, run_opened, status, store, store_slice};
use crate::status::UnspokenStatus;

/// Receives a chunk of bytes: returns 0, or another number to stop.
pub type UnspokenWrite = Option<unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, length: usize) -> c_int>;

/// Makes a client, which is not open yet. Returns NULL if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn unspoken_new() -> *mut UnspokenClient {
    catch_unwind(|| Box::into_raw(Box::new(UnspokenClient::new()))).unwrap_or(ptr::null_mut())
}

/// Frees a client and wipes its secret. NULL is ignored.
///
/// # Safety
/// `client` is of `unspoken_new`, not freed yet, and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_free(client: *mut UnspokenClient) {
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
pub unsafe extern "C" fn unspoken_error(client: *const UnspokenClient, buffer: *mut c_char, capacity: usize) -> usize {
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

/// Takes up a newer description of the same application, after unspoken_check_answer or a refusal of the service has
/// told that it changed. Secret and evaluation keys stay valid; requests of before can no longer be read. A change that
/// could reveal questions, or take the tags from an encrypted database, is refused.
///
/// # Safety
/// `client` is not freed; `description` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_update(
    client: *const UnspokenClient,
    description: *const u8,
    length: usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe { run_opened(client, |opened| opened.update(bytes("description", description, length)?)) }
}

/// Writes the UNSPOKEN_SECRET_BYTES bytes of the secret of a client of retrieval or search, to be stored: without them,
/// new evaluation keys must be made and sent. Anyone who has them can read the questions. The secret of a client of a
/// model is longer: unspoken_model_secret writes it.
///
/// # Safety
/// `client` is not freed; `secret` has room for UNSPOKEN_SECRET_BYTES bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_secret(client: *const UnspokenClient, secret: *mut u8) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            check("secret", secret)?;
            let bytes = opened.secret()?;
            if bytes.len() > UNSPOKEN_SECRET_BYTES {
                let needed = format!("at most {UNSPOKEN_SECRET_BYTES}; call unspoken_model_secret");
                return Err(Failure::Argument { what: "secret", found: format!("{} bytes", bytes.len()), needed });
            }
            // A client that searches has fewer.
            ptr::write_bytes(secret, 0, UNSPOKEN_SECRET_BYTES);
            ptr::copy_nonoverlapping(bytes.as_ptr(), secret, bytes.len());
            Ok(())
        })
    }
}

/// Writes the length of the evaluation keys in bytes to `length`.
///
/// # Safety
/// `client` is not freed; `length` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_key_bytes(client: *const UnspokenClient, length: *mut u64) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe { run_opened(client, |opened| store("length", length, opened.key_bytes())) }
}

/// Makes evaluation keys, which the service needs for the answers: of retrieval up to 105 MB, of a model more. A client
/// that searches has none: it registers with 24 bytes. `write` receives their bytes, in chunks of at most 65536. Their
/// BLAKE3 hash of UNSPOKEN_HASH_BYTES bytes is written to `hash`. Each call makes other keys for the same secret; all
/// of them are as good.
///
/// # Safety
/// `client` is not freed; `write` may be called with `context`; `hash` has room for the hash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_write_keys(
    client: *const UnspokenClient,
    write: UnspokenWrite,
    context: *mut c_void,
    hash: *mut u8,
) -> UnspokenStatus {
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
/// one piece. `application` is its name at the service, for instance "pir/codes".
///
/// # Safety
/// `client` is not freed; `application` ends with a 0; `hash` has UNSPOKEN_HASH_BYTES bytes; `write` may be called
/// with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_key_declaration(
    client: *const UnspokenClient,
    application: *const c_char,
    hash: *const u8,
    write: UnspokenWrite,
    context: *mut c_void,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            check("application", application)?;
            let application = CStr::from_ptr(application).to_string_lossy();
            let hash = hash.cast::<[u8; UNSPOKEN_HASH_BYTES]>().as_ref().ok_or(Failure::Null { argument: "hash" })?;
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
pub unsafe extern "C" fn unspoken_most_questions(client: *const UnspokenClient, count: *mut usize) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe { run_opened(client, |opened| store("count", count, opened.most_questions())) }
}

/// Writes where the bytes to send are, and how many, to `bytes` and `length`. They are valid until the request is
/// freed.
///
/// # Safety
/// `request` is not freed; `bytes` and `length` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_request_bytes(
    request: *const UnspokenRequest,
    bytes: *mut *const u8,
    length: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(request) = request.as_ref() else { return UnspokenStatus::NullPointer };
        store_slice(&request.0.bytes, bytes, length)
    }
}

/// Writes the length of the answer in bytes to `length`. Accept no more than that from a service.
///
/// # Safety
/// `request` is not freed; `length` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_request_answer_bytes(
    request: *const UnspokenRequest,
    length: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(request) = request.as_ref() else { return UnspokenStatus::NullPointer };
        status(store("length", length, request.0.answer_bytes))
    }
}

/// Checks everything in the answer to a request of this client that can be checked without the secret.
///
/// UNSPOKEN_STATUS_MISMATCH may mean that the description changed, UNSPOKEN_STATUS_DAMAGED that the answer was
/// damaged on its way: read the description again, unspoken_update, ask again. Both say nothing about the
/// questions, so the service may learn them. Have all answers of what you ask together checked before you read the
/// first of them.
///
/// # Safety
/// `client` and `request` are not freed; `answer` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_check_answer(
    client: *const UnspokenClient,
    request: *const UnspokenRequest,
    answer: *const u8,
    length: usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let request = request.as_ref().ok_or(Failure::Null { argument: "request" })?;
            opened.check_answer(request, bytes("answer", answer, length)?)
        })
    }
}

/// Frees a request and wipes its questions. NULL is ignored.
///
/// # Safety
/// `request` is not freed yet, and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_request_free(request: *mut UnspokenRequest) {
    // SAFETY: the caller's promise.
    unsafe { free(request) }
}
