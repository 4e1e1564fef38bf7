//! Following what other processes change on disk, as long as it is served.

use std::fmt::Display;
use std::sync::Weak;
use std::time::Duration;

/// Interval between checks for changes.
const LOOK: Duration = Duration::from_secs(1);

/// Starts a thread that calls `refresh` with the name of the application and what it serves, until nobody serves it.
/// After an error, the version before stays, and the check of readiness reports it.
pub(crate) fn follow<T: Send + Sync + 'static, E: Display + 'static>(
    name: String,
    served: Weak<T>,
    refresh: fn(&str, &T) -> Result<(), E>,
) -> std::io::Result<()> {
    let look = move || {
        let mut complaint = String::new();
        while let Some(served) = served.upgrade() {
            match refresh(&name, &served) {
                Ok(()) if !complaint.is_empty() => {
                    complaint.clear();
                    tracing::info!(application = name, "it can be read again");
                }
                Ok(()) => (),
                Err(error) => {
                    let again = std::mem::replace(&mut complaint, error.to_string());
                    if again != complaint {
                        tracing::error!(application = name, reason = complaint, "cannot take up changes");
                    }
                }
            }
            drop(served);
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("follow".into()).spawn(look).map(drop)
}
