//! What a connection is authorised for: requests with a token, or the page.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::timeouts::ConnectionTimeouts;

/// Whether a connection has sent a request with a known token. Stored as an extension of each request.
#[derive(Clone, Default)]
pub(crate) struct ConnectionAuthorization {
    confirmed: CancellationToken,
    page: Arc<Mutex<PageState>>,
}

/// Files of the page that a connection receives.
#[derive(Default)]
struct PageState {
    sending: usize,
    /// When the last one ended.
    ended: Option<Instant>,
}

impl ConnectionAuthorization {
    /// Marks the connection as authorized.
    pub(crate) fn confirm(&self) {
        self.confirmed.cancel();
    }

    /// While the result exists, a file of the page is being sent, and the connection stays open for it.
    pub(crate) fn use_page(&self) -> PageUse {
        self.page_state().sending += 1;
        PageUse(self.clone())
    }

    /// Returns when the connection has been without authorization for too long: the limit from its start, or from the
    /// end of the last file of the page that it got; but the time for the page at most.
    pub(crate) async fn overdue(&self, timeouts: ConnectionTimeouts) {
        let Some(limit) = timeouts.authorization else { return std::future::pending().await };
        let start = Instant::now();
        let waiting = async {
            loop {
                let now = Instant::now();
                let from = match *self.page_state() {
                    PageState { sending: 0, ended } => ended.unwrap_or(start),
                    PageState { .. } => now,
                };
                let until = (from + limit).min(start + timeouts.page.max(limit));
                if until <= now {
                    return;
                }
                tokio::time::sleep_until(until.into()).await;
            }
        };
        tokio::select! {
            () = waiting => {}
            () = self.confirmed.cancelled() => std::future::pending().await,
        }
    }

    fn page_state(&self) -> MutexGuard<'_, PageState> {
        self.page.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A file of the page is being sent on a connection.
pub(crate) struct PageUse(ConnectionAuthorization);

impl Drop for PageUse {
    fn drop(&mut self) {
        let mut state = self.0.page_state();
        state.sending -= 1;
        state.ended = Some(Instant::now());
    }
}
