//! Reading request bodies, with limits on their size and time.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::{HeaderMap, header};
use tokio_util::sync::CancellationToken;
use unspoken_wire::ProblemCode;

use crate::arriving::{ArrivingMemory, CHUNK_BYTES};
use crate::refusal::Refusal;

/// The length that a request declares, if any.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// How long bodies may take.
#[derive(Clone)]
pub(crate) struct BodyDeadlines {
    /// Time limit for each [`CHUNK_BYTES`].
    pub(crate) stall: Duration,
    /// Time limit for a whole body that is read at once, and for the wait for memory.
    pub(crate) total: Duration,
    /// Cancelled when the service no longer waits for bodies, because it shuts down.
    pub(crate) closing: CancellationToken,
}

/// A body read piece by piece. Every [`CHUNK_BYTES`] must arrive within the stall time.
pub(crate) struct BodyPieces {
    body: Body,
    deadlines: BodyDeadlines,
    /// Bytes of the chunk that arrives, and the time spent on waiting for them.
    chunk: usize,
    chunk_time: Duration,
    /// Time spent on waiting for the whole body.
    time: Duration,
}

impl BodyPieces {
    pub(crate) fn new(body: Body, deadlines: BodyDeadlines) -> Self {
        Self { body, deadlines, chunk: 0, chunk_time: Duration::ZERO, time: Duration::ZERO }
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let start = Instant::now();
            let left = self.deadlines.stall.saturating_sub(self.chunk_time);
            let frame = tokio::select! {
                frame = tokio::time::timeout(left, self.body.frame()) => frame,
                () = self.deadlines.closing.cancelled() => return Err(Refusal::shutting_down()),
            };
            let frame = frame.map_err(|_| too_slow(self.deadlines.stall))?;
            self.chunk_time += start.elapsed();
            self.time += start.elapsed();
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
                        self.chunk += data.len();
                        if self.chunk as u64 >= CHUNK_BYTES {
                            (self.chunk, self.chunk_time) = (0, Duration::ZERO);
                        }
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Waits until `memory` covers `bytes` bytes of a body of at most `longest` bytes.
pub(crate) async fn cover(
    memory: &mut ArrivingMemory,
    bytes: u64,
    longest: u64,
    deadlines: &BodyDeadlines,
) -> Result<(), Refusal> {
    tokio::select! {
        covered = tokio::time::timeout(deadlines.total, memory.cover(bytes, longest)) => covered.map_err(|_| {
            let message = format!("no memory for the body was free for {:?}", deadlines.total);
            Refusal::new(ProblemCode::MemoryFull, message, "ask again later").retry_after(1)
        }),
        () = deadlines.closing.cancelled() => Err(Refusal::shutting_down()),
    }
}

/// Reads the whole body, at most `limit` bytes. `memory` covers the bytes that have arrived.
pub(crate) async fn read_all(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    deadlines: &BodyDeadlines,
    memory: &mut ArrivingMemory,
) -> Result<Bytes, Refusal> {
    let declared = declared_length(headers);
    if let Some(length) = declared.filter(|&length| length > limit as u64) {
        return Err(too_large(length, limit));
    }
    let longest = declared.unwrap_or(limit as u64);
    let mut pieces = BodyPieces::new(body, deadlines.clone());
    // Allocated at once: a buffer that grows needs twice the memory that is reserved. Pages that no byte has reached
    // take no memory, but some systems limit the addresses of a process.
    let mut whole = Vec::new();
    whole.try_reserve_exact(longest as usize).map_err(|_| {
        let message = format!("the system has no room for a body of {longest} bytes");
        Refusal::new(ProblemCode::MemoryFull, message, "ask again later").retry_after(1)
    })?;
    while let Some(piece) = pieces.next().await? {
        if piece.len() > limit - whole.len() {
            return Err(too_large((whole.len() + piece.len()) as u64, limit));
        }
        cover(memory, (whole.len() + piece.len()) as u64, longest, deadlines).await?;
        whole.extend_from_slice(&piece);
        if pieces.time > deadlines.total {
            return Err(too_slow(deadlines.total));
        }
    }
    Ok(whole.into())
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
