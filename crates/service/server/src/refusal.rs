//! Refusals: each becomes a `Problem` with a status and, where trying again helps, a `Retry-After`.

use std::borrow::Cow;
use std::io;

use axum::response::{IntoResponse, Response};
use http_body_util::Full;
use hyper::{HeaderMap, StatusCode, header};
use unspoken_protocol::{ErrorKind, PlainError};
use unspoken_wire::http::{JSON, PROTOBUF};
use unspoken_wire::v1::Problem;
use unspoken_wire::{Message, ProblemCode, WireError};

use crate::budget::MemoryFull;
use crate::descriptors;
use crate::queue::QueueFull;
use crate::store::StoreError;

/// Seconds after which bundles that are arriving now may be deleted for others.
const PAUSE_SECONDS: u32 = 60;

/// The input that an application rejected.
#[derive(Clone, Copy)]
pub(crate) enum ClientInput {
    Keys,
    Query,
}

/// Why a request is refused. The middleware in `observe` renders it as a body in the format that the client accepts.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: ProblemCode,
    message: String,
    remedy: Cow<'static, str>,
    retry_after_seconds: u32,
    /// Bytes of an upload that the server has, where the client needs to know them.
    offset: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(code: ProblemCode, message: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), remedy: remedy.into(), retry_after_seconds: 0, offset: None }
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = seconds.max(1);
        self
    }

    pub(crate) fn with_offset(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// The text for the log.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn key_not_found() -> Self {
        Self::new(
            ProblemCode::KeyNotFound,
            "no such key bundle of this client",
            "declare and upload the bundle; it may have expired",
        )
    }

    pub(crate) fn application_not_found() -> Self {
        Self::new(ProblemCode::ApplicationNotFound, "no such application here", "list them with GET /v1/apps")
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(ProblemCode::ShuttingDown, "the service is shutting down", "ask again later").retry_after(5)
    }

    /// The text of an internal error is only logged; those about the client's own bytes are sent.
    pub(crate) fn from_application(error: &PlainError, input: ClientInput) -> Self {
        let (code, remedy) = match &error.kind {
            ErrorKind::Malformed => {
                let code = match input {
                    ClientInput::Keys => ProblemCode::MalformedKeys,
                    ClientInput::Query => ProblemCode::MalformedQuery,
                };
                (code, "send what the application's description asks for".into())
            }
            ErrorKind::Mismatch => {
                let remedy = "read the application's description again and make keys and query for it";
                (ProblemCode::DoesNotFit, remedy.into())
            }
            ErrorKind::Refused { remedy } => (ProblemCode::NotAllowed, remedy.clone()),
            ErrorKind::Busy => {
                return Self::new(ProblemCode::Overloaded, &error.text, "ask again later").retry_after(1);
            }
            ErrorKind::Exhausted { wait_seconds } => {
                let refusal = Self::new(ProblemCode::TooManyRequests, &error.text, "ask again later");
                return refusal.retry_after(*wait_seconds);
            }
            ErrorKind::Cancelled => return Self::shutting_down(),
            ErrorKind::Io(kind) => return Self::from_io(&(*kind).into()),
            // Only clients decrypt.
            ErrorKind::Unreadable | ErrorKind::Internal => {
                let remedy = "report the request id to the service owner";
                return Self::new(ProblemCode::Internal, "the application failed", remedy);
            }
        };
        Self::new(code, &error.text, remedy)
    }

    fn from_io(error: &io::Error) -> Self {
        if descriptors::ran_out(error) {
            let message = "the service has too many open files";
            return Self::new(ProblemCode::Overloaded, message, "ask again later").retry_after(1);
        }
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::new(
                ProblemCode::StorageFull,
                "the disk for keys is full",
                "resume the upload once the service owner has made room",
            ),
            _ => Self::new(
                ProblemCode::StorageFailed,
                "the disk for keys failed",
                "report the request id to the service owner",
            ),
        }
    }

    /// The message for the client.
    pub(crate) fn problem(&self, request_id: &str) -> Problem {
        Problem {
            code: self.code.name().into(),
            status: u32::from(self.code.status()),
            message: self.message.clone(),
            remedy: self.remedy.clone().into_owned(),
            retry_after_seconds: self.retry_after_seconds,
            request_id: request_id.into(),
        }
    }

    /// The response with the problem as its body.
    pub(crate) fn render(&self, json: bool, request_id: &str) -> Response {
        let mut response = message_response(&self.problem(request_id), json);
        *response.status_mut() = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if self.retry_after_seconds > 0 {
            headers.insert(header::RETRY_AFTER, self.retry_after_seconds.into());
        }
        if let Some(offset) = self.offset {
            headers.insert(unspoken_wire::http::UPLOAD_OFFSET, offset.into());
        }
        if self.code == ProblemCode::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<MemoryFull> for Refusal {
    fn from(full: MemoryFull) -> Self {
        let remedy = "use smaller keys, or have the service owner raise limits.memory_bytes";
        let refusal = Self::new(ProblemCode::MemoryFull, full.to_string(), remedy);
        if full.may_pass() { refusal.retry_after(1) } else { refusal }
    }
}

impl Refusal {
    pub(crate) fn from_queue_full(full: &QueueFull, wait_seconds: u32) -> Self {
        let (code, message) = match full {
            QueueFull::AllClients { limit } => {
                (ProblemCode::QueueFull, format!("all {limit} places in the queue are taken"))
            }
            QueueFull::OneClient { limit } => {
                (ProblemCode::TooManyRequests, format!("all {limit} places this client has in the queue are taken"))
            }
        };
        Self::new(code, message, "ask again later").retry_after(wait_seconds)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::NotFound => Self::key_not_found(),
            StoreError::TokenQuota { .. } => Self::new(
                ProblemCode::TooManyKeys,
                message,
                "list the bundles with `unspoken keys list --url URL` and delete one with `unspoken keys delete --url \
                 URL ID`, or have the service owner raise limits.key_bytes_per_token",
            ),
            StoreError::Quota { .. } => Self::new(
                ProblemCode::StorageFull,
                message,
                "delete a bundle that you no longer need (`unspoken keys list --url URL`, then `unspoken keys delete \
                 --url URL ID`), or have the service owner raise --key-disk-mib (limits.key_disk_bytes)",
            ),
            StoreError::TokenCount { .. } => Self::new(
                ProblemCode::TooManyKeys,
                message,
                "list the bundles with `unspoken keys list --url URL` and delete one with `unspoken keys delete --url \
                 URL ID`, or have the service owner raise limits.bundles_per_token",
            ),
            StoreError::AddressCount { .. } => Self::new(
                ProblemCode::TooManyKeys,
                message,
                "ask again later, get a token, or have the service owner raise limits.bundles_per_address, as a \
                 service behind a proxy needs it",
            )
            .retry_after(PAUSE_SECONDS),
            StoreError::Count { .. } => Self::new(
                ProblemCode::StorageFull,
                message,
                "ask again later, or have the service owner raise limits.bundles",
            )
            .retry_after(PAUSE_SECONDS),
            StoreError::RoomTaken => {
                Self::new(ProblemCode::StorageFull, message, "resume the upload later").retry_after(PAUSE_SECONDS)
            }
            StoreError::OffsetMismatch { have, .. } => {
                Self::new(ProblemCode::OffsetMismatch, message, "send bytes from Upload-Offset on").with_offset(have)
            }
            StoreError::TooLong { .. } => {
                Self::new(ProblemCode::TooLarge, message, "send exactly the bytes declared, or declare the bundle anew")
            }
            StoreError::WrongState { .. } => {
                Self::new(ProblemCode::WrongState, message, "read the bundle's status first")
            }
            StoreError::Damaged { .. } => {
                Self::new(ProblemCode::KeyDamaged, message, "delete the bundle and upload it again")
            }
            StoreError::ChecksumMismatch => {
                Self::new(ProblemCode::ChecksumMismatch, message, "declare the bundle and upload it again")
            }
            StoreError::Io(source) => Self::from_io(&source),
        }
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        let code = match error {
            WireError::TooLong { .. } => ProblemCode::TooLarge,
            _ => ProblemCode::MalformedRequest,
        };
        Self::new(code, error.to_string(), "send the message the schema describes")
    }
}

/// Whether control messages are sent as JSON: unless the client's `Accept` names protobuf.
pub(crate) fn wants_json(headers: &HeaderMap) -> bool {
    !accepts(headers, &[PROTOBUF, "application/protobuf"])
}

/// Whether the client's `Accept` names one of these media types.
pub(crate) fn accepts(headers: &HeaderMap, media: &[&str]) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    accept.split(',').any(|range| media.contains(&range.split(';').next().unwrap_or("").trim()))
}

/// A 200 response with one control message.
pub(crate) fn message_response<M: Message + serde::Serialize>(message: &M, json: bool) -> Response {
    // These messages contain only texts, numbers and bytes, so JSON serialisation cannot fail.
    let (media, bytes) = match json.then(|| serde_json::to_vec(message)) {
        Some(Ok(bytes)) => (JSON, bytes),
        _ => (PROTOBUF, message.encode_to_vec()),
    };
    ([(header::CONTENT_TYPE, media)], axum::body::Body::new(Full::from(bytes))).into_response()
}

pub(crate) fn internal() -> Refusal {
    Refusal::new(ProblemCode::Internal, "the service failed", "report the request id to the service owner")
}
