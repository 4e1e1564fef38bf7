//! Programs in C that search a collection of this process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ndarray::Array2;
use unspoken_collection::{Builder, Collection};
use unspoken_pir::PirServer;
use unspoken_pir_scheme::PreparedKeys;
use unspoken_protocol::{CHECKSUM_BYTES, Call, ClientId, KeyLoader, Request, ServerHalf};
use unspoken_search::SearchServer;
use unspoken_search_index::Document;

use super::program::{Running, compile, run, text};

const CLIENT: ClientId = ClientId::new([1; 16]);
const NOTES: usize = 20;
const WIDTH: usize = 8;

/// A collection, its two applications, and a directory for what a program exchanges.
struct Service {
    home: tempfile::TempDir,
    search: SearchServer<Arc<Collection>>,
    documents: PirServer<Arc<Collection>>,
}

fn vectors() -> Array2<f32> {
    Array2::from_shape_fn((NOTES, WIDTH), |(i, j)| ((i * 7 + j * 13) as f32).sin())
}

impl Service {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let (search, documents) = built(&home.path().join("notes"));
        let service = Service { home, search, documents };
        fs::write(service.path("search.description"), service.search.describe()).unwrap();
        fs::write(service.path("documents.description"), service.documents.describe()).unwrap();
        let vector: Vec<u8> = vectors().row(7).iter().flat_map(|x| x.to_le_bytes()).collect();
        fs::write(service.path("vector"), vector).unwrap();
        service
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn compile(&self, source: &str) -> PathBuf {
        compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join(source), self.home.path())
    }

    fn start(&self, program: &Path) -> Running {
        Running::start(program, &[self.home.path().as_ref(), "6".as_ref()])
    }

    /// Answers the search that a program asks for, after `change`, with a checksum that fits.
    fn search(&self, program: &mut Running, change: impl FnOnce(&mut [u8])) {
        let expected = program.asked();
        let request = fs::read(self.path("search.request")).unwrap();
        let answer = self.search.answer(&Request::new(CLIENT, &(), &request), &Call::default());
        let mut answer = answer.unwrap();
        assert_eq!(answer.len(), expected);
        answer.truncate(expected - CHECKSUM_BYTES);
        change(&mut answer);
        answer.extend_from_slice(blake3::hash(&answer).as_bytes());
        fs::write(self.path("search.answer"), answer).unwrap();
        program.answered();
    }

    fn load_keys(&self) -> PreparedKeys {
        let mut keys = fs::File::open(self.path("documents.keys")).unwrap();
        self.documents.load_keys(&mut keys).unwrap()
    }

    /// Answers a request for documents, by `server`. Returns the length of the request.
    fn fetch(&self, program: &mut Running, server: &PirServer<Arc<Collection>>, keys: &PreparedKeys) -> usize {
        program.asked();
        let request = fs::read(self.path("documents.request")).unwrap();
        let answer = server.answer(&Request::new(CLIENT, keys, &request), &Call::default());
        fs::write(self.path("documents.answer"), answer.unwrap()).unwrap();
        program.answered();
        request.len()
    }
}

/// The applications of a collection that is built in this directory.
fn built(dir: &Path) -> (SearchServer<Arc<Collection>>, PirServer<Arc<Collection>>) {
    let document = |number: usize| Document {
        id: Some(format!("N{number}").into_bytes()),
        content: format!("note {number}").into_bytes(),
    };
    let documents: Vec<Document> = (0..NOTES).map(document).collect();
    let builder = Builder { recall: 1.0, replace: true, ..Builder::default() };
    builder.build(dir, &documents, vectors(), &mut |_| (), &AtomicBool::new(false)).unwrap();
    let collection = Arc::new(Collection::open(dir, None).unwrap());
    let search = SearchServer::new(Arc::clone(&collection), "search/notes-documents".into()).unwrap();
    (search, PirServer::new(collection).unwrap())
}

/// The most documents of a request, of which a program asks for six.
const TOGETHER: usize = 4;

#[test]
fn the_example_finds_documents() {
    let service = Service::new();
    let program = service.compile("../../../examples/c/search.c");
    let vectors = vectors();
    let cosine = |a: usize, b: usize| {
        let dot = |a: usize, b: usize| vectors.row(a).dot(&vectors.row(b));
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    let mut keys = None;
    for _ in 0..2 {
        let mut running = service.start(&program);
        service.search(&mut running, |_| ());
        // Secrets and keys are made once.
        let keys = keys.get_or_insert_with(|| service.load_keys());
        for _ in 0..6_usize.div_ceil(TOGETHER) {
            service.fetch(&mut running, &service.documents, keys);
        }
        let (printed, output) = running.finish();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.splitn(3, ' ').collect()).collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0][1..], ["N7", "note 7"]);
        for line in lines {
            let (found, number): (f32, usize) = (line[0].parse().unwrap(), line[1][1..].parse().unwrap());
            assert_eq!(line[2], format!("note {number}"));
            assert!((found - cosine(7, number)).abs() < 0.03, "{line:?}");
        }
    }
}

#[test]
fn what_answers_decrypt_to_changes_no_request_and_is_final() {
    let service = Service::new();
    let program = service.compile("../../../examples/c/search.c");
    let mut lengths = Vec::new();
    for damages in [false, true] {
        let mut running = service.start(&program);
        service.search(&mut running, |content| {
            let start = content.len() / 2;
            content[start..].iter_mut().filter(|_| damages).for_each(|byte| *byte ^= 0x55);
        });
        let keys = service.load_keys();
        let fetch = |_| service.fetch(&mut running, &service.documents, &keys);
        lengths.push((0..6_usize.div_ceil(TOGETHER)).map(fetch).collect::<Vec<usize>>());
        let (printed, output) = running.finish();
        assert_eq!((printed.is_empty(), output.status.success()), (damages, !damages), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr).contains("do not ask again"), damages, "{}", text(&output.stderr));
    }
    assert_eq!(lengths[0], lengths[1]);
}

#[test]
fn documents_of_a_later_build_are_refused() {
    let service = Service::new();
    let program = service.compile("../../../examples/c/search.c");
    let mut running = service.start(&program);
    service.search(&mut running, |_| ());
    let keys = service.load_keys();
    let (_, later) = built(&service.path("notes"));
    for _ in 0..6_usize.div_ceil(TOGETHER) {
        service.fetch(&mut running, &later, &keys);
    }
    let (printed, output) = running.finish();
    assert_eq!((printed.as_str(), output.status.code()), ("", Some(1)));
    let refused = text(&output.stderr);
    // What the service may know: the program updates both clients, and begins again.
    assert!(refused.starts_with("check: status 4: ") || refused.starts_with("version: status 4: "), "{refused}");
}

#[test]
fn the_boundary_of_search_refuses_what_it_must() {
    let service = Service::new();
    let program = service.compile("tests/search_boundary.c");
    let output = run(&program).arg(service.home.path()).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stdout), "passed\n");
}
