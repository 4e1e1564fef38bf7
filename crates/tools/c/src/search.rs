//! The functions that C calls for private search. The comments here become the comments of the header.

#![expect(unsafe_code, reason = "pointers of the caller, checked as far as they can be")]

use std::ffi::c_char;

use unspoken_protocol::{ClientHalf, OpenedError, OpenedHalf, Registration};
use unspoken_search::{Hit, SearchClient, SearchError};
use unspoken_search_index::Document;
use zeroize::Zeroize;

use crate::client::{Opened, UNSPOKEN_SECRET_BYTES, UnspokenClient, UnspokenRequest};
use crate::failure::Failure;
use crate::pointers::{array, bytes, check, copy_text, free, hand_out, run, run_opened, status, store, store_optional};
use crate::status::UnspokenStatus;

/// The documents nearest to the vectors of a request, by position, or why the answer cannot be used.
pub struct UnspokenSearchHits {
    /// Number of vectors.
    vectors: usize,
    /// For each vector, the nearest first.
    of_vectors: Result<Vec<Vec<Hit>>, Failure>,
}

/// Opens a client of a collection of a service.
///
/// `description` is what the service tells of the collection. `secret` has UNSPOKEN_SECRET_BYTES bytes of
/// unspoken_secret of an earlier client, or is NULL: then the client is registered anew. Each client encrypts with a
/// key of its own, which is never stored.
///
/// Documents are fetched by a second client, of unspoken_pir_open with packed queries, for the application that
/// unspoken_search_documents names. Open it, and send its keys, before the first search.
///
/// # Safety
/// `client` is not freed; `description` has `description_length` bytes; `secret` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_open(
    client: *const UnspokenClient,
    description: *const u8,
    description_length: usize,
    secret: *const u8,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run(client, |opened| {
            let description = bytes("description", description, description_length)?;
            let secret = secret.cast::<[u8; UNSPOKEN_SECRET_BYTES]>().as_ref();
            if opened.is_some() {
                return Err(Failure::Open);
            }
            let registration = secret.map(|secret| &secret[..Registration::BYTES]);
            *opened =
                Some(Opened::new(OpenedHalf::<SearchClient>::open(description, (), (registration, None), false)?));
            Ok(())
        })
    }
}

/// Writes the number of coordinates of a vector to `width`.
///
/// # Safety
/// `client` is not freed; `width` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_width(client: *const UnspokenClient, width: *mut usize) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            store("width", width, opened.of::<SearchClient>()?.half().description().shape().width())
        })
    }
}

/// Writes the name of the application from which documents are fetched, and a 0 at its end, to a buffer of `capacity`
/// bytes. It is empty if there is none. The service wrote the name: it has at most 256 bytes, and may be any text.
///
/// # Safety
/// `client` is not freed; `name` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_documents(
    client: *const UnspokenClient,
    name: *mut c_char,
    capacity: usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            copy_text("name", opened.of::<SearchClient>()?.half().description().documents(), name, capacity)
        })
    }
}

/// Writes the name of what made the vectors of the documents, as unspoken_search_documents writes a name. The vectors
/// of queries must be made by it, too. It is empty if it is not known.
///
/// # Safety
/// `client` is not freed; `name` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_embedder(
    client: *const UnspokenClient,
    name: *mut c_char,
    capacity: usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            copy_text("name", opened.of::<SearchClient>()?.half().description().embedder(), name, capacity)
        })
    }
}

/// Encrypts `count` vectors of `width` coordinates, one after the other, of any length but zero. `request` receives a
/// request, which unspoken_request_free frees.
///
/// # Safety
/// `client` is not freed; there are `count` times `width` numbers at `vectors`; `request` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_ask(
    client: *const UnspokenClient,
    vectors: *const f32,
    count: usize,
    width: usize,
    request: *mut *mut UnspokenRequest,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let client = opened.of::<SearchClient>()?;
            let needed = client.half().description().shape().width();
            if width != needed {
                let (found, needed) = (format!("{width} coordinates"), format!("{needed}, as the documents have"));
                return Err(Failure::Argument { what: "vectors", found, needed });
            }
            let vectors = array("vectors", vectors, count.saturating_mul(width))?;
            check("request", request)?;
            let vectors: Vec<&[f32]> = vectors.chunks_exact(width).collect();
            let asked = client.ask(&vectors).map_err(|error| match error {
                // Of a vector: nothing else is looked at here.
                OpenedError::Application(SearchError::Protocol(_)) => {
                    Failure::Refused { status: UnspokenStatus::Argument, text: error.to_string() }
                }
                other => other.into(),
            })?;
            hand_out("request", request, UnspokenRequest::new(asked))
        })
    }
}

/// Decrypts the answer to a request of this client, after the check of unspoken_check_answer, whose errors it returns.
/// `hits` receives the documents that were found; free them with unspoken_search_hits_free.
///
/// It succeeds whatever the answer decrypts to: unspoken_search_hits_get tells if it is no sound one. Until then, fetch
/// as many documents as always.
///
/// # Safety
/// `client` and `request` are not freed; `answer` has `length` bytes; `hits` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_read(
    client: *const UnspokenClient,
    request: *const UnspokenRequest,
    answer: *const u8,
    length: usize,
    hits: *mut *mut UnspokenSearchHits,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let request = request.as_ref().ok_or(Failure::Null { argument: "request" })?;
            let answer = bytes("answer", answer, length)?;
            check("hits", hits)?;
            hand_out("hits", hits, UnspokenSearchHits::read(opened.of::<SearchClient>()?, request, answer)?)
        })
    }
}

/// Writes the positions of the `count` documents nearest to vector `number` to `positions`: what to fetch by
/// unspoken_pir_ask_indices. Always fetch all of them: where fewer were found, or the answer is no sound one, the rest
/// is filled with 0, so that the service does not learn it. UNSPOKEN_STATUS_ARGUMENT tells that the request has no such
/// vector.
///
/// # Safety
/// `hits` is not freed; `positions` has room for `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_hits_positions(
    hits: *const UnspokenSearchHits,
    number: usize,
    positions: *mut u64,
    count: usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(hits) = hits.as_ref() else { return UnspokenStatus::NullPointer };
        if positions.is_null() {
            return UnspokenStatus::NullPointer;
        }
        if number >= hits.vectors {
            return UnspokenStatus::Argument;
        }
        let found = hits.of_vectors.as_ref().ok().and_then(|of_vectors| of_vectors.get(number));
        let found = found.map(Vec::as_slice).unwrap_or_default();
        for rank in 0..count {
            positions.add(rank).write(found.get(rank).map_or(0, |hit| hit.position));
        }
        UnspokenStatus::Ok
    }
}

/// Writes position and cosine of the document that is the `rank`-th nearest to vector `number`, from 0.
///
/// Call it when the documents have been fetched. UNSPOKEN_STATUS_ARGUMENT tells that there is no such vector, or that
/// fewer documents were found; UNSPOKEN_STATUS_UNREADABLE that the answer is no sound one. Do not ask again because of
/// either, and do not let the service learn it.
///
/// # Safety
/// `hits` is not freed; `position` and `cosine` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_hits_get(
    hits: *const UnspokenSearchHits,
    number: usize,
    rank: usize,
    position: *mut u64,
    cosine: *mut f32,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(hits) = hits.as_ref() else { return UnspokenStatus::NullPointer };
        let of_vectors = match &hits.of_vectors {
            Ok(of_vectors) => of_vectors,
            Err(failure) => return failure.status(),
        };
        let Some(hit) = of_vectors.get(number).and_then(|found| found.get(rank)) else {
            return UnspokenStatus::Argument;
        };
        status(store("position", position, hit.position).and_then(|()| store("cosine", cosine, hit.cosine)))
    }
}

/// Frees what was found, and wipes it. NULL is ignored.
///
/// # Safety
/// `hits` is not freed yet, and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_hits_free(hits: *mut UnspokenSearchHits) {
    // SAFETY: the caller's promise.
    unsafe { free(hits) }
}

/// Checks whether documents of this version, of unspoken_pir_answer_version, are those that `answer`, of a search, can
/// name. UNSPOKEN_STATUS_MISMATCH tells that the collection was changed or built again meanwhile: wait a second, update
/// both clients with what the service tells then, and search again. Check the versions of all answers before you read
/// the first of them.
///
/// # Safety
/// `answer` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_check_version(
    answer: *const u8,
    length: usize,
    version: u64,
) -> UnspokenStatus {
    // SAFETY: the caller's promise.
    unsafe {
        status(bytes("answer", answer, length).and_then(|answer| match SearchClient::has_version_of(answer, version) {
            true => Ok(()),
            false => Err(SearchError::Replaced.into()),
        }))
    }
}

/// Finds id and content in a record that was fetched. They lie within the record. `id` is NULL if the document has no
/// id, and `content` is NULL if there is no document: it was removed after the search. UNSPOKEN_STATUS_UNREADABLE tells
/// that the record is no document: do not ask again because of it.
///
/// # Safety
/// `record` has `length` bytes; the other pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_search_document(
    record: *const u8,
    length: usize,
    id: *mut *const u8,
    id_length: *mut usize,
    content: *mut *const u8,
    content_length: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let record = match bytes("record", record, length) {
            Ok(record) => record,
            Err(failure) => return failure.status(),
        };
        let Ok(parts) = Document::parts_of_record(record) else { return UnspokenStatus::Unreadable };
        let (found_id, found) = parts.map_or((None, None), |(id, content)| (id, Some(content)));
        match store_optional(found_id, id, id_length) {
            UnspokenStatus::Ok => store_optional(found, content, content_length),
            refused => refused,
        }
    }
}

impl UnspokenSearchHits {
    /// Checks the answer to a request, and decrypts it. What the decryption finds is kept.
    fn read(client: &OpenedHalf<SearchClient>, request: &UnspokenRequest, answer: &[u8]) -> Result<Self, Failure> {
        let request = request.0.of()?;
        client.check_answer(request, answer)?;
        let of_vectors = client.read(request, answer).map_err(Failure::decrypted);
        Ok(UnspokenSearchHits { vectors: request.questions(), of_vectors })
    }
}

/// Positions tell what was searched.
impl Drop for UnspokenSearchHits {
    fn drop(&mut self) {
        for hit in self.of_vectors.iter_mut().flatten().flatten() {
            hit.position.zeroize();
            hit.cosine.zeroize();
        }
    }
}
