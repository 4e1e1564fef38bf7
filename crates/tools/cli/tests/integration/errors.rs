//! Errors of a connection, and of standard output, as people see them.

use std::io::Read;
use std::net::TcpListener;
#[cfg(unix)]
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{complaint, unspoken};

#[test]
fn a_service_that_is_not_there_is_reported_with_the_reason() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let refused = format!(
        "address     http://{address} (--url {address} names no scheme)\n\
         waiting for http://{address}: connection refused, nothing listens at this port; giving up in 1 s \
         (--timeout SECONDS)\n"
    );
    // The list of applications, and the list of keys.
    for command in [&["pir", "get", "K1"][..], &["keys", "list"]] {
        let start = Instant::now();
        let said = complaint(&unspoken(&[command, &["--url", &address, "--timeout", "1"]].concat()));
        assert!(said.starts_with(&refused) && said.contains("error: gave up after"), "{said}");
        assert!(said.contains("start the service there, or give its address with --url"), "{said}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let said = complaint(&unspoken(&["pir", "get", "K1", "--url", &url, "--timeout", "0.3"]));
    assert!(said.contains("no answer within 0.3 s; allow more with --timeout SECONDS"), "{said}");
    let said = complaint(&unspoken(&["pir", "get", "K1", "--url", &url, "--timeout", "0"]));
    assert!(said.contains("timeout: found 0; needed seconds, more than 0"), "{said}");
}

#[test]
fn local_mistakes_are_named_before_the_service_is_waited_for() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}");
    let sums = ["sums", "send", "--trust-first"];
    for (command, part) in [
        (&["classify", "--model", "/no/such/model", "a text"][..], "/no/such/model"),
        (&["classify", "--model", "/no/such/model", "a text"], "/no/such/model"),
        (&[&sums[..], &["--csv", "/no/such/file"]].concat(), "cannot read /no/such/file"),
        (&[&sums[..], &["a=1", "a=2"]].concat(), "a is given twice"),
        (&["pir", "get", "K1", "--ca", "/dev/null"], "certificate authorities (--ca, ca_file=): found an empty file"),
    ] {
        let start = Instant::now();
        let said = complaint(&unspoken(&[command, &["--url", &url]].concat()));
        assert!(said.contains(part) && !said.contains("waiting"), "{said}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[test]
fn mistakes_in_an_address_are_named_at_once() {
    let nowhere = format!("http://{}.example", "a".repeat(70));
    for (url, part) in [
        (nowhere.as_str(), "no host has this name; check the spelling of the address"),
        ("ftp://127.0.0.1", "needed https://HOST:PORT, or http://HOST:PORT"),
        ("http://192.0.2.1", "--insecure-http"),
    ] {
        let allowed = if url == nowhere { &["--insecure-http"][..] } else { &[] };
        let start = Instant::now();
        let said = complaint(&unspoken(&[&["pir", "get", "K1", "--url", url], allowed].concat()));
        assert!(said.contains(part) && !said.contains("waiting"), "{said}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

/// Runs a command whose standard output nobody reads, and returns its standard error and whether SIGPIPE ended it.
#[cfg(unix)]
fn with_closed_output(arguments: &[&str]) -> (String, bool) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_unspoken"));
    let mut child = command.args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    // Closes this process's end of the pipe.
    drop(command);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    const SIGPIPE: i32 = 13;
    (said, child.wait().unwrap().signal() == Some(SIGPIPE))
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (csv, database, messages, model) = (path("codes.csv"), path("codes"), path("messages.tsv"), path("model"));
    std::fs::write(&csv, "code,name\nA,one\nB,two\n").unwrap();
    std::fs::write(&messages, "ham\tsee you\nspam\twin now\n".repeat(20)).unwrap();
    let built = ["pir", "build", "--from", &csv, "--key", "code", "--value", "name", &database];
    for command in [
        &["params"][..],
        &["params", "--json"],
        &["keys", "token", "alice"],
        &["plan", "--explain", "--pairs", "--preset", "n14_depth8_scale30"],
        &["train", "--data", &messages, "--out", &model],
        &built,
        &["pir", "info", &database],
        &["pir", "info", "--json", &database],
    ] {
        let (said, signalled) = with_closed_output(command);
        assert!(said.is_empty() && signalled, "{command:?}: {said}");
    }
    // Commands that ask a service, and the service itself.
    let served = crate::support::Service::start(&["--pir", &database, "--data-dir", &path("keys")], Stdio::null());
    let state = path("state");
    let (said, signalled) = with_closed_output(&["pir", "get", "A", "--url", &served.url, "--state-dir", &state]);
    assert!(signalled && !said.contains("error") && !said.contains("panicked"), "{said}");
    let (said, signalled) = with_closed_output(&["keys", "list", "--url", &served.url, "--state-dir", &state]);
    assert!(said.is_empty() && signalled, "{said}");
    let again = ["serve", "--pir", &database, "--data-dir", &path("keys2"), "--listen", "127.0.0.1:0"];
    let (said, signalled) = with_closed_output(&again);
    assert!(signalled && !said.contains("panicked"), "{said}");
}
