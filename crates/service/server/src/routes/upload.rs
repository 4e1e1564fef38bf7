//! Routes that receive the bytes of a key bundle and complete it.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::BytesMut;
use tokio_util::sync::CancellationToken;
use unspoken_wire::ProblemCode;
use unspoken_wire::http::UPLOAD_OFFSET;

use super::described::{RouteDescription, count, key_status};
use super::keys::{described_id, status_response};
use crate::application::Application;
use crate::blocking::blocking;
use crate::body::{BodyPieces, cover, declared_length};
use crate::engine::{Engine, is_final_rejection};
use crate::refusal::Refusal;
use crate::service::{KnownClient, Service};
use crate::store::{Bundle, WriteGuard, incomplete};

/// Bytes collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes of memory that one upload needs: the collected bytes, and the last piece.
pub(crate) const UPLOAD_BYTES: u64 = 2 * WRITE_BYTES as u64;

/// Appends a body to an upload. If the body breaks off, the bytes that arrived before are kept, except possibly the
/// last megabyte.
pub(super) async fn append(
    State(service): State<Arc<Service>>,
    KnownClient(client): KnownClient,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let bundle = service.bundle(&client, &id)?;
    let application = service.application_of(&bundle.meta)?.clone();
    let (parts, body) = request.into_parts();
    let offset = chunk_offset(&parts.headers)?;

    let (guard, replaced) = bundle.take_over().await;
    service.engine.store.check_chunk(&bundle, offset, declared_length(&parts.headers))?;
    let mut writer = Writer { engine: service.engine.clone(), application, bundle: bundle.clone(), _guard: guard };
    let deadlines = service.body_deadlines();
    let mut pieces = BodyPieces::new(body, deadlines.clone());
    let mut memory = service.engine.bodies.arriving();
    let mut gathered = BytesMut::with_capacity(WRITE_BYTES);
    let ended = loop {
        let piece = match next_piece(&mut pieces, &replaced).await {
            Ok(Some(piece)) => piece,
            Ok(None) => break Ok(()),
            Err(refusal) => break Err(refusal),
        };
        // The collected bytes, and the same number of bytes that are being written.
        let needed = 2 * (gathered.len() + piece.len()) as u64;
        if let Err(refusal) = cover(&mut memory, needed.min(UPLOAD_BYTES), UPLOAD_BYTES, &deadlines).await {
            break Err(refusal);
        }
        gathered.extend_from_slice(&piece);
        if gathered.len() >= WRITE_BYTES {
            writer = writer.write(gathered.split()).await?;
        }
    };
    writer.write(gathered).await?;
    ended?;
    Ok(status_response(&service, &bundle, &parts.headers))
}

async fn next_piece(pieces: &mut BodyPieces, replaced: &CancellationToken) -> Result<Option<bytes::Bytes>, Refusal> {
    tokio::select! {
        piece = pieces.next() => piece,
        () = replaced.cancelled() => Err(Refusal::new(
            ProblemCode::WrongState,
            "another request took this upload over",
            "send one chunk at a time",
        )),
    }
}

fn chunk_offset(headers: &HeaderMap) -> Result<u64, Refusal> {
    let value = headers.get(UPLOAD_OFFSET).and_then(|value| value.to_str().ok());
    value.and_then(|text| text.parse().ok()).ok_or_else(|| {
        Refusal::new(
            ProblemCode::MalformedRequest,
            "Upload-Offset is missing or not a number",
            "send the byte at which the chunk starts",
        )
    })
}

/// Writes to one upload. It is moved to the disk thread and back, so that the guard is held while bytes are written
/// even if the client disconnects.
struct Writer {
    engine: Arc<Engine>,
    application: Application,
    bundle: Arc<Bundle>,
    _guard: WriteGuard,
}

impl Writer {
    async fn write(self, bytes: BytesMut) -> Result<Self, Refusal> {
        if bytes.is_empty() {
            return Ok(self);
        }
        blocking(move || {
            self.engine.store.append(&self.bundle, &bytes, &mut |id| self.engine.cache.evict(id))?;
            self.engine.metrics.upload_bytes.inc_by(bytes.len() as u64);
            self.check_header_once(bytes.len() as u64)?;
            Ok(self)
        })
        .await?
    }

    /// Checks the header when its last byte has just arrived, so that a bundle that can never be used is refused early.
    fn check_header_once(&self, just_written: u64) -> Result<(), Refusal> {
        let header_end = (self.application.half().key_limits().front_bytes as u64).min(self.bundle.meta.length);
        let end = self.bundle.offset();
        if end < header_end || end - just_written >= header_end {
            return Ok(());
        }
        let (_, limit) = self.engine.cache.usage();
        let work = self.application.work_bytes();
        match self.engine.check_header(&self.application, &self.bundle) {
            Ok(needed) if needed.saturating_add(work) > limit => {
                self.engine.store.delete(&self.bundle)?;
                Err(Refusal::new(
                    ProblemCode::MemoryFull,
                    format!(
                        "the keys need {needed} bytes of memory and an answer {work} more; for both there are {limit}"
                    ),
                    "use smaller keys, or have the service owner raise limits.memory_bytes",
                ))
            }
            Err(refusal) if is_final_rejection(refusal.code) => {
                self.engine.store.delete(&self.bundle)?;
                Err(refusal)
            }
            other => other.map(drop),
        }
    }
}

/// Checks a complete upload and makes it usable. Harmless when repeated.
pub(super) async fn complete(
    State(service): State<Arc<Service>>,
    KnownClient(client): KnownClient,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let bundle = service.bundle(&client, &id)?;
    let application = service.application_of(&bundle.meta)?;
    let (guard, _) = bundle.take_over().await;
    if !bundle.is_ready() {
        if bundle.offset() != bundle.meta.length {
            return Err(incomplete(bundle.offset(), bundle.meta.length).into());
        }
        service.engine.complete(&client, application, bundle.clone(), guard).await?;
    }
    Ok(status_response(&service, &bundle, &headers))
}

pub(super) fn about_append() -> RouteDescription {
    let offset = "The byte at which the chunk starts: the number of bytes that the service has.";
    described_id(RouteDescription::new("upload_key_chunk", "Append bytes to an upload", ""))
        .header("Upload-Offset", offset, count(0))
        .body_bytes("The next bytes of the bundle, as many as the client likes.")
        .answers(200, key_status("The bytes are stored."))
        .uses_disk()
        .problems(&[
            ProblemCode::ApplicationNotFound,
            ProblemCode::OffsetMismatch,
            ProblemCode::WrongState,
            ProblemCode::DoesNotFit,
            ProblemCode::MalformedKeys,
            ProblemCode::KeyDamaged,
            ProblemCode::UnsupportedFormat,
        ])
}

pub(super) fn about_complete() -> RouteDescription {
    let more = "Checks the whole bundle and makes it usable. Harmless when repeated.";
    described_id(RouteDescription::new("complete_key", "Complete an upload", more))
        .answers(200, key_status("The bundle is ready for queries."))
        .uses_disk()
        .problems(&[
            ProblemCode::ApplicationNotFound,
            ProblemCode::WrongState,
            ProblemCode::DoesNotFit,
            ProblemCode::MalformedKeys,
            ProblemCode::KeyDamaged,
            ProblemCode::ChecksumMismatch,
            ProblemCode::UnsupportedFormat,
            ProblemCode::TooManyRequests,
            ProblemCode::QueueFull,
            ProblemCode::MemoryFull,
            ProblemCode::ShuttingDown,
            ProblemCode::AnswerTimeout,
        ])
}
