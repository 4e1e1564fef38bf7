//! Tests that crates depend on the wings below them alone, and that nothing of research is in what is shipped: neither
//! the broken schemes, nor the benchmarks that run them, nor the attacks.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The wings: a crate depends on crates of its own wing and of earlier wings, also for its tests.
const WINGS: [&str; 9] = ["base", "engine", "models", "circuits", "retrieval", "apps", "service", "tools", "research"];

/// The shipped crates: the command, the service, the client, the Python module, the C library, the one for browsers.
const SHIPPED: [&str; 6] =
    ["unspoken-cli", "unspoken-server", "unspoken-client", "unspoken-python", "unspoken-c", "unspoken-web"];

/// A crate of the workspace.
struct Member {
    name: String,
    wing: String,
    /// The wings and folders of the crates that it depends on, also for tests and builds.
    needed: Vec<[String; 2]>,
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The wing and the folder of a crate.
fn place(folder: &Path) -> [String; 2] {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    [name(folder.parent().unwrap()), name(folder)]
}

fn members() -> Vec<Member> {
    let metadata = cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let member = |package: &serde_json::Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let [wing, _] = place(manifest.parent().unwrap());
        let paths = package["dependencies"].as_array().unwrap().iter().filter_map(|needed| needed["path"].as_str());
        let needed = paths.map(|path| place(Path::new(path))).collect();
        Member { name: package["name"].as_str().unwrap().into(), wing, needed }
    };
    metadata["packages"].as_array().unwrap().iter().map(member).collect()
}

/// Names of all packages in a build of `root` with all of its features, as Cargo resolves them.
fn closure(root: &str) -> BTreeSet<String> {
    let listed = ["tree", "--locked", "--package", root, "--all-features", "--edges", "normal,build"];
    let lines = cargo(&[&listed[..], &["--prefix", "none", "--format", "{p}"]].concat());
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn no_wing_depends_on_a_later_one() {
    let rank = |wing: &str| WINGS.iter().position(|&other| other == wing).unwrap_or_else(|| panic!("the wing {wing}"));
    for Member { name, wing, needed } in members() {
        for [of, folder] in needed {
            assert!(rank(&of) <= rank(&wing), "{name} of {wing} depends on {folder} of {of}");
        }
    }
}

#[test]
fn nothing_that_ships_reaches_research() {
    let research: Vec<String> =
        members().into_iter().filter(|member| member.wing == "research").map(|member| member.name).collect();
    assert!(research.iter().any(|name| name == "unspoken-audit"), "{research:?}");
    for root in SHIPPED {
        let packages = closure(root);
        assert!(packages.contains(root) && packages.contains("unspoken-rlwe"), "{root}: {packages:?}");
        let reached: Vec<&String> = research.iter().filter(|&name| packages.contains(name)).collect();
        assert!(reached.is_empty(), "{root} reaches {reached:?}");
    }
}

#[test]
fn the_closure_of_the_benchmarks_has_the_broken_schemes() {
    assert!(closure("unspoken-bench").contains("unspoken-audit"));
}
