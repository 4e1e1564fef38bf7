//! C programs are compiled with the system's compiler, and run against a server of this process.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

use prost::Message;
use unspoken_database::{Builder, Database, Record};
use unspoken_pir::{KEY_FORMAT, PreparedKeys, Preset};
use unspoken_protocol::{ClientId, KeyLoader, ServerHalf};
use unspoken_retrieve::RetrieveServer;
use unspoken_wire::v1::KeyDeclaration;

const CLIENT: ClientId = ClientId::new([1; 16]);

/// The crate's library for C, beside this test.
fn library_directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut near = test.ancestors().skip(1).take(2);
    let found = near.find(|directory| directory.join("libunspoken_c.so").exists());
    found.unwrap_or_else(|| panic!("no libunspoken_c.so near {}", test.display())).to_path_buf()
}

/// Compiles a program with every warning as an error; `None` without a compiler.
fn compile(source: &Path, directory: &Path) -> Option<PathBuf> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let (program, libraries) = (directory.join("program"), library_directory());
    let run = Command::new(&compiler)
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-I"])
        .arg(env!("CARGO_MANIFEST_DIR"))
        .arg(source)
        .args(["-lunspoken_c", "-L"])
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .arg("-o")
        .arg(&program)
        .output();
    let Ok(output) = run else {
        eprintln!("SKIPPED: there is no C compiler {compiler:?}; set CC, so that the C interface is tested");
        return None;
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(program)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Service {
    home: tempfile::TempDir,
    server: RetrieveServer<Database>,
}

impl Service {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let record =
            |i: u32| Record { key: Some(format!("C{i:02}").into_bytes()), value: format!("title {i}").into_bytes() };
        let records = (0..40).map(record).map(Ok::<_, std::io::Error>);
        let codes = home.path().join("codes");
        Builder::new(Preset::N11).build(&codes, records, |_| (), &AtomicBool::new(false)).unwrap();
        let server = RetrieveServer::new(Database::open(&codes).unwrap()).unwrap();
        Service { home, server }
    }

    fn load_keys(&self, exchanged: &Path) -> PreparedKeys {
        let mut keys = fs::File::open(exchanged.join("keys")).unwrap();
        let keys = self.server.load_keys(&mut keys).unwrap();
        let declared = KeyDeclaration::decode(&*fs::read(exchanged.join("declaration")).unwrap()).unwrap();
        let bundle = fs::read(exchanged.join("keys")).unwrap();
        assert_eq!((declared.application.as_str(), declared.key_format), ("pir/codes", KEY_FORMAT));
        assert_eq!(
            (declared.length, declared.blake3),
            (bundle.len() as u64, blake3::hash(&bundle).as_bytes().to_vec())
        );
        keys
    }

    fn answer(&self, keys: &PreparedKeys, exchanged: &Path) -> Vec<u8> {
        let request = fs::read(exchanged.join("request")).unwrap();
        self.server.answer(CLIENT, keys, &request, &AtomicBool::new(false)).unwrap()
    }
}

/// A run of `examples/get.c` that has written its request.
struct Asked {
    child: std::process::Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    answer_bytes: usize,
}

fn ask(program: &Path, kind: &str, exchanged: &Path, key: &str) -> Asked {
    let mut command = Command::new(program);
    command.arg(kind).arg(exchanged).arg(key).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let (input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let answer_bytes = line.trim().strip_prefix("asked ").and_then(|bytes| bytes.parse().ok());
    let Some(answer_bytes) = answer_bytes else {
        panic!("{line:?}: {}", text(&child.wait_with_output().unwrap().stderr))
    };
    Asked { child, input, output, answer_bytes }
}

impl Asked {
    /// What the program prints and does after the answer was written.
    fn finish(mut self) -> (String, Output) {
        self.input.write_all(b"answered\n").unwrap();
        let mut printed = String::new();
        self.output.read_to_string(&mut printed).unwrap();
        (printed, self.child.wait_with_output().unwrap())
    }
}

#[test]
fn the_example_fetches_records() {
    let service = Service::new();
    let Some(program) = compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/get.c"), service.home.path())
    else {
        return;
    };
    for kind in ["packed", "session"] {
        let exchanged = service.home.path().join(kind);
        fs::create_dir(&exchanged).unwrap();
        fs::write(exchanged.join("description"), service.server.describe()).unwrap();
        let mut keys = None;
        let mut lengths = Vec::new();
        for (key, expected) in [("C07", "record title 7"), ("X99", "absent")] {
            let asked = ask(&program, kind, &exchanged, key);
            // Keys are made once: the second run reads the secret.
            let keys = keys.get_or_insert_with(|| {
                let keys = service.load_keys(&exchanged);
                fs::remove_file(exchanged.join("keys")).unwrap();
                keys
            });
            let answer = service.answer(keys, &exchanged);
            assert_eq!(answer.len(), asked.answer_bytes);
            fs::write(exchanged.join("answer"), answer).unwrap();
            let (printed, output) = asked.finish();
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(printed, format!("version 1\n{expected}\n"));
            lengths.push(fs::metadata(exchanged.join("request")).unwrap().len());
        }
        assert_eq!(lengths[0], lengths[1]);
        assert!(!exchanged.join("keys").exists());
    }
}

#[test]
fn wrong_answers_and_lost_numbers_are_refused() {
    let service = Service::new();
    let Some(program) = compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/get.c"), service.home.path())
    else {
        return;
    };
    let exchanged = service.home.path().join("exchanged");
    fs::create_dir(&exchanged).unwrap();
    fs::write(exchanged.join("description"), service.server.describe()).unwrap();
    let asked = ask(&program, "packed", &exchanged, "C07");
    let mut answer = service.answer(&service.load_keys(&exchanged), &exchanged);
    answer[100] ^= 1;
    fs::write(exchanged.join("answer"), answer).unwrap();
    let (printed, output) = asked.finish();
    assert_eq!((printed.as_str(), output.status.code()), ("", Some(1)));
    let damaged = text(&output.stderr);
    assert!(damaged.contains("read: status 5: ") && damaged.contains("damaged"), "{damaged}");

    // A session whose numbers are gone: the stored secret is opened, and no request is made.
    let mut command = Command::new(&program);
    let lost = command.arg("session").arg(&exchanged).arg("C07").stdin(Stdio::null()).output().unwrap();
    assert_eq!(lost.status.code(), Some(1));
    let lost = text(&lost.stderr);
    assert!(lost.contains("ask: status 7: ") && lost.contains("callback returned -1"), "{lost}");
}

#[test]
fn the_boundary_refuses_what_it_must() {
    let service = Service::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundary.c");
    let Some(program) = compile(&source, service.home.path()) else { return };
    let description = service.home.path().join("description");
    fs::write(&description, service.server.describe()).unwrap();
    // Another layout of the same database.
    let codes = service.home.path().join("codes");
    let records = [("C00", "x".repeat(600))]
        .map(|(key, value)| Ok::<_, std::io::Error>(Record { key: Some(key.into()), value: value.into() }));
    let builder = Builder { replace: true, ..Builder::new(Preset::N11) };
    builder.build(&codes, records, |_| (), &AtomicBool::new(false)).unwrap();
    let changed = RetrieveServer::new(Database::open(&codes).unwrap()).unwrap().describe();
    let newer = service.home.path().join("newer");
    fs::write(&newer, changed).unwrap();
    let output = Command::new(program).arg(description).arg(newer).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stdout), "passed\n");
}
