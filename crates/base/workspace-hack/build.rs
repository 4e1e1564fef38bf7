//! None; Cargo looks at `build-dependencies` of packages alone that have one.

fn main() {}
