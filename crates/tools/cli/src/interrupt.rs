//! Handling of Ctrl-C and termination signals: the first one stops long work at its next step, so that it can remove
//! what it has written.

use anyhow::Context;
use unspoken_client::transport::Cancel;

/// A flag that the first SIGINT (Ctrl-C), SIGTERM or SIGHUP sets. The second one ends the process at once.
pub fn on_ctrl_c() -> anyhow::Result<Cancel> {
    let cancel = Cancel::new();
    let flag = cancel.clone();
    let handler = move || {
        if flag.is_cancelled() {
            std::process::exit(130);
        }
        flag.cancel();
    };
    ctrlc::set_handler(handler).context("cannot watch for Ctrl-C")?;
    Ok(cancel)
}
