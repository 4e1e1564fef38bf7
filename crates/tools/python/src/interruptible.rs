//! Long work on a separate thread, while the calling thread handles signals and shows progress.

use std::borrow::BorrowMut;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pyo3::import_exception;
use pyo3::prelude::*;
use unspoken_client::transport::{Cancel, Waiting};

use crate::failure::Failure;
use crate::progress::{Event, Reporter};

import_exception!(asyncio, CancelledError);

/// Interval between two checks for signals and interrupts.
const POLL: Duration = Duration::from_millis(50);

thread_local! {
    /// Where the work of this thread reports what it waits for.
    static EVENTS: RefCell<Option<Sender<Event>>> = const { RefCell::new(None) };
    /// The interrupt of the call that this thread is in.
    static INTERRUPT: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Ends a call that runs on another thread of Python, as Control-C ends one of the main thread.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Interrupt(Arc<AtomicBool>);

#[pymethods]
impl Interrupt {
    #[new]
    fn new() -> Self {
        Interrupt(Arc::default())
    }

    /// Calls `work` on this thread. After `set`, long work of this module in it raises `asyncio.CancelledError`.
    fn run(&self, work: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let outer = INTERRUPT.replace(Some(Arc::clone(&self.0)));
        let result = work.call0();
        INTERRUPT.set(outer);
        Ok(result?.unbind())
    }

    /// Ends the call; may be called from any thread, before the call and after it.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Raises the exception of an interrupt that was set.
fn check_interrupt() -> PyResult<()> {
    let is_set = INTERRUPT.with_borrow(|set| set.as_ref().is_some_and(|set| set.load(Ordering::Relaxed)));
    if is_set { Err(CancelledError::new_err(())) } else { Ok(()) }
}

/// Reports that a call of the work of this thread waits for its service.
pub(crate) fn report_wait(waiting: &Waiting) {
    EVENTS.with_borrow(|events| {
        if let Some(events) = events {
            // The receiver outlives the work.
            let _ = events.send(waiting.into());
        }
    });
}

/// Runs `work` without the interpreter lock and returns its result.
///
/// `work` receives a callback for progress reports and a cancel flag. The calling thread shows the progress, lets
/// Python handle signals every 50 ms, and looks at its [`Interrupt`]. If a signal handler or a progress callback raises
/// an exception, or the interrupt is set, this function sets the flag, waits for `work`, and returns the exception.
///
/// `work` runs in its own thread pool, which ends with it. So a child process after `fork` never waits for threads
/// that exist only in its parent.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    mut reporter: impl BorrowMut<Reporter>,
    work: impl FnOnce(&mut dyn FnMut(Event), &Cancel) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    check_interrupt()?;
    let cancel = Cancel::new();
    let (sender, mut events) = channel();
    let mut raised: Option<PyErr> = None;
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let pool = rayon::ThreadPoolBuilder::new().build()?;
            pool.install(|| {
                EVENTS.set(Some(sender.clone()));
                // The receiver outlives this thread, so sending does not fail.
                let mut report = move |event| drop(sender.send(event));
                let result = work(&mut report, &cancel);
                // The receiver waits until no sender is left.
                EVENTS.set(None);
                result
            })
        });
        loop {
            let receiver = &mut events;
            let received = py.detach(move || receiver.recv_timeout(POLL));
            if let Err(RecvTimeoutError::Disconnected) = received {
                break;
            }
            if raised.is_none() {
                let shown = received.map_or(Ok(()), |event| reporter.borrow_mut().show(py, event));
                if let Err(error) = shown.and_then(|()| py.check_signals()).and_then(|()| check_interrupt()) {
                    cancel.cancel();
                    raised = Some(error);
                }
            }
        }
        py.detach(move || worker.join())
    });
    if let Some(error) = raised {
        return Err(error);
    }
    match result {
        Ok(result) => Ok(result?),
        // A bug in `work`: it becomes pyo3's PanicException.
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Like [`run`], for work that has no cancel flag: if this function returns an exception, the work goes on by itself,
/// and its result is dropped.
pub(crate) fn run_apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    check_interrupt()?;
    let (sender, mut ended) = channel::<()>();
    let worker = std::thread::spawn(move || {
        let pool = rayon::ThreadPoolBuilder::new().build()?;
        let result = pool.install(work);
        drop(sender);
        result
    });
    loop {
        let receiver = &mut ended;
        if let Err(RecvTimeoutError::Disconnected) = py.detach(move || receiver.recv_timeout(POLL)) {
            break;
        }
        py.check_signals()?;
        check_interrupt()?;
    }
    match py.detach(move || worker.join()) {
        Ok(result) => Ok(result?),
        // A bug in `work`: it becomes pyo3's PanicException.
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
