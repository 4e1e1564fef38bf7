//! Ctrl-C handling: the first Ctrl-C stops long work at its next step.

use anyhow::Context;
use unspoken_client::transport::Cancel;

/// A flag that the first Ctrl-C sets. A second Ctrl-C ends the process at once.
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
