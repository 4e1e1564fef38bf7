//! Tests of files that an editor of Windows wrote: with a byte-order mark, and CR LF at the ends of lines.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Service, complaint, text, unspoken};

const MARK: &str = "\u{feff}";

#[test]
fn marks_are_no_part_of_keys_and_access_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("codes.csv"), format!("{MARK}code,title\r\nA00,Cholera\r\nA01,Typhoid\r\n")).unwrap();
    text(&unspoken(&["pir", "build", "--from", &path("codes.csv"), "--key", "code", &path("codes")]));
    let made = text(&unspoken(&["keys", "token", "ann"]));
    let [secret, line] = made.lines().collect::<Vec<_>>()[..] else { panic!("{} lines", made.lines().count()) };
    std::fs::write(path("secret"), format!("{MARK}{secret}\r\n")).unwrap();
    std::fs::write(path("tokens"), format!("{MARK}{line}\r\n")).unwrap();
    let (codes, keys, tokens) = (path("codes"), path("keys"), path("tokens"));
    let service = Service::start(&["--pir", &codes, "--data-dir", &keys, "--tokens", &tokens], Stdio::null());

    let (state, secret) = (path("state"), path("secret"));
    let target = ["pir", "get", "--url", &service.url, "--state-dir", &state, "--token-file", &secret];
    let ask = |keys: &[u8]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unspoken"));
        command.args(target).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(keys).unwrap();
        child.wait_with_output().unwrap()
    };
    assert_eq!(text(&ask(format!("{MARK}A00\r\nA01\r\n").as_bytes())), "Cholera\nTyphoid\n");
    // The same key as bytes; and what cannot be one.
    let hex = |key: &str| unspoken(&[&target[..], &["--hex", key]].concat());
    assert_eq!(text(&hex("413030")), "Cholera\n");
    assert!(complaint(&hex("41303")).contains("\"41303\" is no hexadecimal number of whole bytes"));
    assert!(complaint(&hex("ff")).contains("no such key: ff (in hexadecimal)"));
    let refused = complaint(&ask(b"A00\nA\xe9\n"));
    assert!(refused.contains("cannot read keys from standard input") && refused.contains("line 2 is not"), "{refused}");
}
