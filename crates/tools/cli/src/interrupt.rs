//! Handling of Ctrl-C and termination signals: the first signal stops long work at its next step, so that the work can
//! remove what it has written.

use std::thread;
use std::time::Duration;

use anyhow::Context;
use unspoken_client::transport::Cancel;

/// Time that work has to stop. Work that waits for input, for instance, does not notice the signal.
const GRACE: Duration = Duration::from_secs(10);

/// Exit status of a process that a signal has ended.
const EXIT_STATUS: i32 = 130;

/// A flag that the first SIGINT (Ctrl-C), SIGTERM or SIGHUP sets. The process ends when its work has stopped, after
/// some seconds if it does not stop, or at once with a second signal.
pub fn on_ctrl_c() -> anyhow::Result<Cancel> {
    let cancel = Cancel::new();
    let flag = cancel.clone();
    let handler = move || {
        if flag.is_cancelled() {
            std::process::exit(EXIT_STATUS);
        }
        flag.cancel();
        thread::spawn(|| {
            thread::sleep(GRACE);
            std::process::exit(EXIT_STATUS);
        });
    };
    ctrlc::set_handler(handler).context("cannot watch for Ctrl-C")?;
    Ok(cancel)
}
