//! C programs are compiled with the system's compiler, and run against a server of this process.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

use prost::Message;
use unspoken_database::{Builder, Database, Record, Writer};
use unspoken_pir::PirServer;
use unspoken_pir_scheme::{KEY_FORMAT, PreparedKeys, Preset};
use unspoken_protocol::{Call, ClientId, KeyLoader, Request, ServerHalf};
use unspoken_wire::v1::KeyDeclaration;

const CLIENT: ClientId = ClientId::new([1; 16]);

/// Bytes of the hash at the end of an answer.
const ANSWER_CHECKSUM_BYTES: usize = 8;

/// The crate's library for C, beside this test.
fn library_directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("{DLL_PREFIX}unspoken_c{DLL_SUFFIX}");
    let directory = test.parent().unwrap();
    assert!(directory.join(&name).exists(), "no {name} in {}", directory.display());
    directory.to_path_buf()
}

/// Runs a compiled program with the library that it was linked to. Cargo sets the path of libraries to directories that
/// may contain an older one.
pub(super) fn run(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Compiles a program with every warning as an error.
pub(super) fn compile(source: &Path, directory: &Path) -> PathBuf {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let (program, libraries) = (directory.join("program"), library_directory());
    let output = Command::new(&compiler)
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-I"])
        .arg(env!("CARGO_MANIFEST_DIR"))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/c"))
        .arg(source)
        .args(["-lunspoken_c", "-L"])
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap_or_else(|error| panic!("run the C compiler {compiler:?}: {error}; set CC"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    program
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Service {
    home: tempfile::TempDir,
    server: PirServer<Database>,
}

impl Service {
    /// Records by key: "title 0" of "C00" to "title 39" of "C39".
    fn by_key() -> Self {
        let record = |i: u32| (Some(format!("C{i:02}")), format!("title {i}"));
        Service::new(0, (0..40).map(record).collect(), |_| ())
    }

    fn new(capacity: u64, records: Vec<(Option<String>, String)>, change: impl FnOnce(&Path)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let record = |(key, value): (Option<String>, String)| Record { key: key.map(Into::into), value: value.into() };
        let records = records.into_iter().map(record).map(Ok::<_, std::io::Error>);
        let directory = home.path().join("database");
        let builder = Builder { capacity, ..Builder::new(Preset::N11) };
        builder.build(&directory, records, |_| (), &AtomicBool::new(false)).unwrap();
        change(&directory);
        let server = PirServer::new(Database::open(&directory).unwrap()).unwrap();
        Service { home, server }
    }

    /// A program in C of this crate, compiled.
    fn compile(&self, source: &str) -> PathBuf {
        compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join(source), self.home.path())
    }

    /// A new directory with the description.
    fn exchange(&self, name: &str) -> PathBuf {
        let exchanged = self.home.path().join(name);
        fs::create_dir(&exchanged).unwrap();
        fs::write(exchanged.join("description"), self.server.describe()).unwrap();
        exchanged
    }

    fn load_keys(&self, exchanged: &Path) -> PreparedKeys {
        let mut keys = fs::File::open(exchanged.join("keys")).unwrap();
        self.server.load_keys(&mut keys).unwrap()
    }

    fn answer(&self, keys: &PreparedKeys, exchanged: &Path) -> Vec<u8> {
        let request = fs::read(exchanged.join("request")).unwrap();
        self.server.answer(&Request::new(CLIENT, keys, &request), &Call::default()).unwrap()
    }
}

/// A running program that writes requests.
pub(super) struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub(super) fn start(program: &Path, arguments: &[&OsStr]) -> Self {
        let mut command = run(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Running { child, input, output }
    }

    /// Waits for a request, and returns the length of the answer that the program expects.
    pub(super) fn asked(&mut self) -> usize {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer_bytes = line.trim().strip_prefix("asked ").and_then(|bytes| bytes.parse().ok());
        answer_bytes.unwrap_or_else(|| {
            let mut error = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            panic!("{line:?}: {error}")
        })
    }

    /// Tells the program that there is an answer.
    pub(super) fn answered(&mut self) {
        self.input.write_all(b"answered\n").unwrap();
    }

    /// What the program prints and does until its end.
    pub(super) fn finish(mut self) -> (String, Output) {
        let mut printed = String::new();
        self.output.read_to_string(&mut printed).unwrap();
        (printed, self.child.wait_with_output().unwrap())
    }
}

/// The declaration fits the keys.
fn check_declaration(exchanged: &Path) {
    let declared = KeyDeclaration::decode(&*fs::read(exchanged.join("declaration")).unwrap()).unwrap();
    let keys = fs::read(exchanged.join("keys")).unwrap();
    assert_eq!((declared.application.as_str(), declared.key_format), ("pir/codes", KEY_FORMAT));
    assert_eq!((declared.length, declared.blake3), (keys.len() as u64, blake3::hash(&keys).as_bytes().to_vec()));
}

#[test]
fn the_example_fetches_records() {
    let service = Service::by_key();
    let program = service.compile("../../../examples/c/get.c");
    for kind in ["packed", "session"] {
        let exchanged = service.exchange(kind);
        let mut keys = None;
        let mut lengths = Vec::new();
        for (key, expected) in [("C07", "record title 7"), ("X99", "absent")] {
            let mut running = Running::start(&program, &[kind.as_ref(), exchanged.as_ref(), key.as_ref()]);
            let answer_bytes = running.asked();
            // Keys are made once: the second run reads the secret.
            let keys = keys.get_or_insert_with(|| {
                check_declaration(&exchanged);
                let keys = service.load_keys(&exchanged);
                fs::remove_file(exchanged.join("keys")).unwrap();
                keys
            });
            let answer = service.answer(keys, &exchanged);
            assert_eq!(answer.len(), answer_bytes);
            fs::write(exchanged.join("answer"), answer).unwrap();
            running.answered();
            let (printed, output) = running.finish();
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
    let service = Service::by_key();
    let program = service.compile("../../../examples/c/get.c");
    let exchanged = service.exchange("exchanged");
    let mut running = Running::start(&program, &["packed".as_ref(), exchanged.as_ref(), "C07".as_ref()]);
    running.asked();
    let mut answer = service.answer(&service.load_keys(&exchanged), &exchanged);
    answer[100] ^= 1;
    fs::write(exchanged.join("answer"), answer).unwrap();
    running.answered();
    let (printed, output) = running.finish();
    assert_eq!((printed.as_str(), output.status.code()), ("", Some(1)));
    let damaged = text(&output.stderr);
    assert!(damaged.contains("check: status 5: ") && damaged.contains("damaged"), "{damaged}");

    // A session whose numbers are gone: the stored secret is opened, and no request is made.
    if exchanged.join("numbers").exists() {
        fs::remove_file(exchanged.join("numbers")).unwrap();
    }
    let mut command = run(&program);
    let lost = command.arg("session").arg(&exchanged).arg("C07").stdin(Stdio::null()).output().unwrap();
    assert_eq!(lost.status.code(), Some(1));
    let lost = text(&lost.stderr);
    assert!(lost.contains("ask: status 7: ") && lost.contains("callback returned -1"), "{lost}");
}

/// A service that damages half of a table, and computes a sound checksum, must not be asked again: the status of an
/// answer that decrypts to nothing sound is not one after which programs ask again.
#[test]
fn an_answer_that_is_unreadable_has_a_status_of_its_own() {
    let service = Service::by_key();
    let program = service.compile("../../../examples/c/get.c");
    let exchanged = service.exchange("exchanged");
    let mut running = Running::start(&program, &["packed".as_ref(), exchanged.as_ref(), "C07".as_ref()]);
    running.asked();
    let keys = service.load_keys(&exchanged);
    let answer = service.answer(&keys, &exchanged);
    // The last responses belong to another request of the same shape: its query is for another key.
    let other = service.exchange("other");
    fs::copy(exchanged.join("secret"), other.join("secret")).unwrap();
    let mut asking = Running::start(&program, &["packed".as_ref(), other.as_ref(), "C08".as_ref()]);
    asking.asked();
    let mut forged = service.answer(&keys, &other);
    let kept = forged.len() / 2;
    forged[..kept].copy_from_slice(&answer[..kept]);
    forged.truncate(forged.len() - ANSWER_CHECKSUM_BYTES);
    forged.extend_from_slice(&blake3::hash(&forged).as_bytes()[..ANSWER_CHECKSUM_BYTES]);
    drop(asking);
    fs::write(exchanged.join("answer"), forged).unwrap();
    running.answered();
    let (printed, output) = running.finish();
    assert_eq!((printed.as_str(), output.status.code()), ("", Some(1)));
    let unreadable = text(&output.stderr);
    assert!(unreadable.contains("read: status 9: ") && unreadable.contains("Do not ask again"), "{unreadable}");
}

#[test]
fn records_are_read_by_index() {
    let records = ["zero", "", "deleted"].map(|record| (None, record.to_owned()));
    let service = Service::new(5, records.into(), |directory| {
        let mut writer = Writer::open(directory).unwrap();
        writer.clear(2).unwrap();
        writer.commit().unwrap();
    });
    let program = service.compile("tests/indices.c");
    let exchanged = service.exchange("exchanged");
    let mut running = Running::start(&program, &[exchanged.as_ref()]);
    running.asked();
    let keys = service.load_keys(&exchanged);
    fs::write(exchanged.join("answer"), service.answer(&keys, &exchanged)).unwrap();
    running.answered();
    running.asked();
    fs::write(exchanged.join("answer"), service.answer(&keys, &exchanged)).unwrap();
    running.answered();
    let (printed, output) = running.finish();
    assert_eq!(printed, "passed\n", "{}", text(&output.stderr));
}

#[test]
fn the_boundary_refuses_what_it_must() {
    let service = Service::by_key();
    let program = service.compile("tests/boundary.c");
    let exchanged = service.exchange("exchanged");
    // The same database in another layout.
    let other = Service::new(0, vec![(Some("C00".into()), "x".repeat(600))], |_| ());
    let newer = exchanged.join("newer");
    fs::write(&newer, other.server.describe()).unwrap();
    let output = run(&program).arg(exchanged.join("description")).arg(newer).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stdout), "passed\n");
}
