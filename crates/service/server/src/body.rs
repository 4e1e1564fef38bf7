//! Reading request bodies, with limits on their size and time.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::{HeaderMap, header};
use unspoken_wire::ProblemCode;

use crate::refusal::Refusal;

/// The length that a request declares, if any.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body read piece by piece; each piece must arrive within the stall time.
pub(crate) struct BodyPieces {
    body: Body,
    stall: Duration,
}

impl BodyPieces {
    pub(crate) fn new(body: Body, stall: Duration) -> Self {
        Self { body, stall }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let frame = tokio::time::timeout(self.stall, self.body.frame()).await.map_err(|_| too_slow(self.stall))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(Refusal::new(
                        ProblemCode::MalformedRequest,
                        format!("the body broke off: {error}"),
                        "send the whole body",
                    ));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Reads the whole body, at most `limit` bytes, within `total`.
pub(crate) async fn read_all(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    stall: Duration,
    total: Duration,
) -> Result<Bytes, Refusal> {
    let declared = declared_length(headers);
    if let Some(length) = declared.filter(|&length| length > limit as u64) {
        return Err(too_large(length, limit));
    }
    let mut pieces = BodyPieces::new(body, stall);
    let read = async {
        // Allocated at once: a buffer that grows needs twice the memory that the caller has reserved.
        let mut whole = BytesMut::with_capacity(declared.map_or(limit, |length| length as usize));
        while let Some(piece) = pieces.next().await? {
            if piece.len() > limit - whole.len() {
                return Err(too_large((whole.len() + piece.len()) as u64, limit));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    };
    tokio::time::timeout(total, read).await.unwrap_or_else(|_| Err(too_slow(total)))
}

pub(crate) fn too_large(found: u64, limit: usize) -> Refusal {
    Refusal::new(
        ProblemCode::TooLarge,
        format!("the body has {found} bytes or more; at most {limit} are accepted"),
        "send less; the limits are in the application's description",
    )
}

fn too_slow(time: Duration) -> Refusal {
    Refusal::new(
        ProblemCode::BodyTimeout,
        format!("the body did not arrive within {time:?}"),
        "send it again, faster; an upload resumes at Upload-Offset",
    )
}

/// A body whose rest can be read after its handler dropped it. Otherwise a client that is still sending when it is
/// refused would lose the refusal, because the connection is reset.
#[derive(Clone)]
pub(crate) struct SharedBody(Arc<Mutex<Body>>);

impl SharedBody {
    pub(crate) fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    /// Reads and discards the rest, up to a limit of bytes and time.
    pub(crate) async fn linger(self, limit: usize, time: Duration) {
        let mut left = limit;
        let mut body = self;
        let drain = async {
            while let Some(Ok(frame)) = body.frame().await {
                let length = frame.data_ref().map_or(0, Bytes::len);
                if length >= left {
                    return;
                }
                left -= length;
            }
        };
        // If the time or the bytes run out, the connection is closed.
        let _ = tokio::time::timeout(time, drain).await;
    }

    pub(crate) fn is_finished(&self) -> bool {
        http_body::Body::is_end_stream(&*self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl http_body::Body for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.is_finished()
    }

    fn size_hint(&self) -> SizeHint {
        http_body::Body::size_hint(&*self.lock())
    }
}
