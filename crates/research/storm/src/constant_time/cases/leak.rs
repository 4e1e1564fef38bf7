//! A function that leaks on purpose, so that every run shows that leaks are found.

use std::hint::black_box;
use std::path::Path;

use super::secret_bytes;

/// Counts the secret bytes that are odd, with a branch for each.
pub fn run(_: &Path) -> anyhow::Result<()> {
    black_box(count_odd_with_branches(&secret_bytes(64)));
    Ok(())
}

#[inline(never)]
fn count_odd_with_branches(bytes: &[u8]) -> usize {
    let mut count = 0;
    for byte in bytes {
        if black_box(byte & 1) == 1 {
            count = black_box(count + 1);
        }
    }
    count
}
