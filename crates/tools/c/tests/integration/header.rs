//! The header is what cbindgen makes of the source.

use std::path::Path;

use cbindgen::{Builder, Config};

#[test]
fn the_header_is_that_of_the_source() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = Config::from_file(directory.join("cbindgen.toml")).unwrap();
    let names = ["status", "counters", "client", "boundary", "pir", "search", "model"];
    let sources = names.map(|name| directory.join(format!("src/{name}.rs")));
    let builder = sources.iter().fold(Builder::new().with_config(config), Builder::with_src);
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let path = directory.join("unspoken.h");
    if std::env::var_os("UNSPOKEN_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found.as_bytes() == made,
        "{} is not what cbindgen makes of the source; write it: UNSPOKEN_WRITE_HEADER=1 cargo test -p unspoken-c",
        path.display()
    );
}
