//! Tests that no shipped crate depends on the broken schemes, on the benchmarks that run them, or on the attacks.

use std::collections::BTreeSet;
use std::process::Command;

/// The shipped crates: the command, the service, the client, the Python module, the C library.
const SHIPPED: [&str; 5] = ["unspoken-cli", "unspoken-server", "unspoken-client", "unspoken-python", "unspoken-c"];

/// The crates that must not be reachable: the broken schemes and the benchmarks.
const FENCED: [&str; 2] = ["unspoken-audit", "unspoken-bench"];

/// The attacks on this project, which must not be reachable either.
const STORM: &str = "unspoken-storm";

/// Names of all packages in a build of `root` with all of its features, as Cargo resolves them.
fn closure(root: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["tree", "--locked", "--package", root, "--all-features", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"])
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo tree of {root}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn nothing_that_ships_reaches_the_broken_schemes() {
    for root in SHIPPED {
        let packages = closure(root);
        assert!(packages.contains(root) && packages.contains("unspoken-rlwe"), "{root}: {packages:?}");
        let reached: Vec<&str> = FENCED.into_iter().chain([STORM]).filter(|&name| packages.contains(name)).collect();
        assert!(reached.is_empty(), "{root} reaches {reached:?}");
    }
}

#[test]
fn the_closure_of_the_benchmarks_has_them() {
    let packages = closure("unspoken-bench");
    assert!(FENCED.iter().all(|&name| packages.contains(name)), "{packages:?}");
}
