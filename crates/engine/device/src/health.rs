//! The first failure of a device, and what follows from it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::DeviceError;

/// Called when a device fails.
type Teller = Box<dyn Fn(&DeviceError) + Send + Sync>;

/// Whether a device has failed.
#[derive(Default)]
pub(crate) struct Health {
    falls_back: AtomicBool,
    teller: OnceLock<Teller>,
    failure: OnceLock<DeviceError>,
}

impl Health {
    /// Notes the first failure.
    pub(crate) fn noted<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        result.map_err(|error| match error {
            DeviceError::Failed { .. } => {
                if self.failure.set(error.clone()).is_ok()
                    && let Some(tell) = self.teller.get()
                {
                    tell(&error);
                }
                self.told(error)
            }
            error => error,
        })
    }

    /// A failure as whoever asked for work is told.
    pub(crate) fn told(&self, failure: DeviceError) -> DeviceError {
        match failure {
            DeviceError::Failed { device, what, reason } if self.falls_back() => {
                DeviceError::Replaced { device, reason: format!("{what}: {reason}") }
            }
            failure => failure,
        }
    }

    /// The first failure, if there is one.
    pub(crate) fn failure(&self) -> Option<&DeviceError> {
        self.failure.get()
    }

    /// Calls a function at the first failure. Only the first function counts.
    pub(crate) fn on_failure(&self, tell: impl Fn(&DeviceError) + Send + Sync + 'static) {
        // A second one is dropped.
        drop(self.teller.set(Box::new(tell)));
    }

    /// Lets the processor compute after a failure.
    pub(crate) fn fall_back(&self) {
        self.falls_back.store(true, Ordering::Relaxed);
    }

    /// Whether the processor computes after a failure.
    pub(crate) fn falls_back(&self) -> bool {
        self.falls_back.load(Ordering::Relaxed)
    }
}
