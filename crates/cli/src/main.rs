//! The `unspoken` command.
fn main() {}
