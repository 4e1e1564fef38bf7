//! Answers that are sent while they are computed: how far they are, and at last the answer or the problem.
//!
//! A client that accepts `application/x-unspoken-progress` is sent the progress that the application reports
//! (`Call::report`), and then the answer or the refusal. Such a request is logged and counted after its last step, with
//! the status of a refusal, or 499. Only the newest progress is sent, and a client that reads slowly holds up no
//! computation.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;
use unspoken_protocol::AnswerProgress;
use unspoken_wire::http::PROGRESS;
use unspoken_wire::{answer_front, problem_frame, progress_frame};

use crate::observe::{RequestLog, Unfinished};
use crate::refusal::{Refusal, internal};

/// Time between two looks at the progress, so that at most four steps a second are sent, each the newest.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Looks without news after which a step is sent again: ten seconds, so that nobody on the way takes the connection for
/// a dead one.
const QUIET_LOOKS: u32 = 40;

/// Asks proxies (nginx and others) to pass on every step when it comes.
const UNBUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// An answer that is being computed, on a task of its own: a client that reads slowly does not hold up the computation.
/// It is cancelled when this is dropped.
pub(crate) struct AnswerSteps {
    answer: AbortOnDropHandle<Result<Bytes, Refusal>>,
    progress: Arc<AnswerProgress>,
    looks: Interval,
    sent: Option<(u32, u32)>,
    /// Looks since the last step.
    quiet: u32,
}

pub(crate) enum Step {
    /// The newest progress, if the application has reported any.
    Reached(Option<(u32, u32)>),
    /// The last step.
    Ended(Result<Bytes, Refusal>),
}

impl AnswerSteps {
    /// Starts computing.
    pub(crate) fn new(
        answer: impl Future<Output = Result<Bytes, Refusal>> + Send + 'static,
        progress: Arc<AnswerProgress>,
    ) -> Self {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.reset();
        let answer = AbortOnDropHandle::new(tokio::spawn(answer));
        Self { answer, progress, looks, sent: None, quiet: 0 }
    }

    /// Waits for the next step. None follows the last.
    pub(crate) async fn next(&mut self) -> Step {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        if let Poll::Ready(answer) = Pin::new(&mut self.answer).poll(context) {
            return Poll::Ready(Step::Ended(answer.unwrap_or_else(|error| {
                tracing::error!(%error, "the task of an answer failed");
                Err(internal())
            })));
        }
        loop {
            ready!(self.looks.poll_tick(context));
            let newest = self.progress.newest();
            self.quiet += 1;
            if newest != self.sent || self.quiet == QUIET_LOOKS {
                (self.sent, self.quiet) = (newest, 0);
                return Poll::Ready(Step::Reached(newest));
            }
        }
    }

    /// The response with `first` and all steps that follow. Its last step finishes the log record.
    pub(crate) fn into_response(self, first: Option<(u32, u32)>, log: Arc<RequestLog>) -> Response {
        let mut body = StepsBody { steps: self, ready: None, log: Some(log), bytes: 0 };
        body.ready = Some(body.count(progress(first)));
        let mut response = ([(header::CONTENT_TYPE, PROGRESS)], [UNBUFFERED], Body::new(body)).into_response();
        response.extensions_mut().insert(Unfinished);
        response
    }
}

/// The body of a response with an answer's steps.
struct StepsBody {
    steps: AnswerSteps,
    /// What is sent before the next step.
    ready: Option<Bytes>,
    /// Taken when the last step is there.
    log: Option<Arc<RequestLog>>,
    /// Bytes sent so far.
    bytes: u64,
}

impl StepsBody {
    fn count(&mut self, frame: impl Into<Bytes>) -> Bytes {
        let frame = frame.into();
        self.bytes += frame.len() as u64;
        frame
    }

    /// The frame of the last step, or the part of it that comes before the answer.
    fn end(&mut self, log: &RequestLog, last: Result<Bytes, Refusal>) -> Bytes {
        match last {
            Ok(answer) => {
                let front = self.count(answer_front(answer.len()));
                self.ready = Some(self.count(answer));
                log.finish(200, Some(self.bytes), None);
                front
            }
            Err(refusal) => {
                let frame = self.count(problem_frame(&refusal.problem(&log.id)));
                log.finish(refusal.code.status(), Some(self.bytes), Some(&refusal));
                frame
            }
        }
    }
}

impl http_body::Body for StepsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.ready.take() {
            Some(ready) => ready,
            None if self.log.is_none() => return Poll::Ready(None),
            None => match ready!(self.steps.poll(context)) {
                Step::Reached(newest) => self.count(progress(newest)),
                Step::Ended(last) => match self.log.take() {
                    Some(log) => self.end(&log, last),
                    None => return Poll::Ready(None),
                },
            },
        };
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }
}

fn progress(reached: Option<(u32, u32)>) -> Vec<u8> {
    let (done, total) = reached.unwrap_or_default();
    progress_frame(done, total)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    /// The next step, and the milliseconds that it took.
    async fn timed(steps: &mut AnswerSteps) -> (Step, u128) {
        let start = Instant::now();
        (steps.next().await, start.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_step_is_sent_soon_and_again_if_nothing_is_new() {
        let progress = Arc::new(AnswerProgress::new());
        let (end, ended) = oneshot::channel();
        let answer = async { ended.await.unwrap_or_else(|_| Err(internal())) };
        let mut steps = AnswerSteps::new(answer, progress.clone());
        assert!(matches!(timed(&mut steps).await, (Step::Reached(None), 10_000)));
        (1..=3).for_each(|done| progress.report(done, 9));
        assert!(matches!(timed(&mut steps).await, (Step::Reached(Some((3, 9))), 250)));
        assert!(matches!(timed(&mut steps).await, (Step::Reached(Some((3, 9))), 10_000)));
        // Neither the time that passes without a look nor the reports in it are made up for.
        tokio::time::sleep(Duration::from_secs(60)).await;
        progress.report(4, 9);
        assert!(matches!(timed(&mut steps).await, (Step::Reached(Some((4, 9))), 0)));
        progress.report(5, 9);
        assert!(matches!(timed(&mut steps).await, (Step::Reached(Some((5, 9))), 250)));
        // The answer does not wait for the next look.
        end.send(Ok(Bytes::from_static(b"answer"))).unwrap();
        assert!(matches!(timed(&mut steps).await, (Step::Ended(Ok(answer)), 0) if answer == "answer"));
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_is_dropped_and_one_that_panics_is_refused() {
        let (held, dropped) = oneshot::channel::<()>();
        let answer = async move {
            let _held = held;
            std::future::pending().await
        };
        drop(AnswerSteps::new(answer, Arc::default()));
        dropped.await.unwrap_err();
        let mut steps = AnswerSteps::new(async { panic!("as the test asks") }, Arc::default());
        let Step::Ended(Err(refusal)) = steps.next().await else { panic!("not refused") };
        assert_eq!(refusal.code, internal().code);
    }
}
