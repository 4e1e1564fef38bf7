//! Lines of standard input.

use anyhow::Context;
use unspoken_files::TextLines;

/// Maximum bytes of a line: no key and no message is longer.
const MAX_LINE: usize = 16 << 20;

/// The lines of standard input. `what` says what they are, for errors.
pub fn lines(what: &str) -> anyhow::Result<Vec<String>> {
    let lines = TextLines::new(std::io::stdin().lock(), MAX_LINE).collect();
    lines.with_context(|| format!("cannot read {what} from standard input"))
}
