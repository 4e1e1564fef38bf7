//! A program as an application: a description, keys, a query, an answer; and refusals.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use ndarray::{Array2, Array3, Axis};
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_matrix::{
    Axes, Description, EncodedInputs, MatrixClient, MatrixError, MatrixServer, NamedArrays, Options, PlanCache,
    Program, ProgramSource, Signature,
};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, Call, CkksServerHalf, ClientHalf, ClientId, ErrorKind, KeyGenerator,
    KeyLoader, Request, ServerHalf, append_description_checksum,
};
use unspoken_rlwe::EvaluationKeys;

const PRESET: &str = "insecure_n11_real_depth9_scale50";
const CLIENT: ClientId = ClientId::new([1; 16]);
static GO: AtomicBool = AtomicBool::new(false);

/// None of them is zero: diagonals of zeros need no key.
fn ask(server: &MatrixServer, keys: &EvaluationKeys, query: &[u8]) -> Result<Vec<u8>, MatrixError> {
    server.answer(&Request::new(CLIENT, keys, query), &Call::default())
}

fn weights(seed: usize) -> Array2<f64> {
    Array2::from_shape_fn((5, 5), |(i, j)| ((7 * i + 3 * j + seed) % 11) as f64 / 10.0 - 0.47)
}

/// `(a @ b) @ weights + 1`, `a` with a batch and `b` without.
fn program(batch: usize, weights: Array2<f64>) -> Program {
    let mut graph = Graph::new();
    let (a, b) = (graph.input("a", (4, 3)).unwrap(), graph.input("b", (3, 5)).unwrap());
    let product = graph.push(Operation::MatMul, &[a, b]).unwrap();
    let weighted = graph.push(Operation::TimesRight(weights), &[product]).unwrap();
    let ones = graph.push(Operation::Constant(Array2::ones((4, 5))), &[]).unwrap();
    graph.push(Operation::Add, &[weighted, ones]).unwrap();
    // 16 matrices fit one vector of 2048 slots; a tile holds a part of `a @ b`.
    let options = Options { preset: Some(PRESET.into()), batch, tile: Some(4), blocks: Some(4), ..Options::default() };
    let inputs = vec![Axes::BATCH, Axes::MATRIX];
    Program::plan(ProgramSource { graph, inputs, output: Axes::BATCH, options }).unwrap()
}

fn inputs(batch: usize) -> NamedArrays {
    let entry = |(p, i, j): (usize, usize, usize)| ((31 * p + 5 * i + 3 * j) % 17) as f64 / 16.0 - 0.5;
    // The order differs from the program's.
    vec![
        ("b".into(), Array3::from_shape_fn((1, 3, 5), entry)),
        ("a".into(), Array3::from_shape_fn((batch, 4, 3), entry)),
    ]
}

fn expected(inputs: &NamedArrays, weights: &Array2<f64>) -> Array3<f64> {
    let (b, a) = (inputs[0].1.index_axis(Axis(0), 0), &inputs[1].1);
    let mut all = Array3::zeros((a.dim().0, 4, 5));
    for (mut place, a) in all.outer_iter_mut().zip(a.outer_iter()) {
        place.assign(&(a.dot(&b).dot(weights) + 1.0));
    }
    all
}

fn open(server: &MatrixServer) -> MatrixClient {
    let description = Description::insecure_from_bytes(&server.describe()).unwrap();
    MatrixClient::open(description, (), None).unwrap()
}

fn keys(server: &MatrixServer, client: &MatrixClient) -> EvaluationKeys {
    let mut bundle = Vec::new();
    client.write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    assert_eq!(bundle.len() as u64, client.key_bytes());
    assert!(server.loaded_key_bytes(&bundle[..server.key_limits().front_bytes]).unwrap() > 0);
    server.load_keys(&mut bundle.as_slice()).unwrap()
}

fn encode(client: &MatrixClient, inputs: &NamedArrays) -> Vec<EncodedInputs> {
    client.encode(&[inputs]).unwrap()
}

#[test]
fn a_client_gets_the_result_of_a_description_without_operations_and_constants() {
    let batch = 40;
    let server = MatrixServer::new(program(batch, weights(1))).unwrap();
    assert!(server.program().signature().groups() > 1);
    // The same program with other constants: a client may see a different error bound, and nothing else.
    let other = MatrixServer::new(program(batch, weights(2))).unwrap();
    assert_eq!(server.header().model_id(), other.header().model_id());
    assert_eq!(server.header().key_plan(), other.header().key_plan());

    let mut client = open(&server);
    let keys = keys(&server, &client);
    let inputs = inputs(batch);
    let encoded = encode(&client, &inputs);
    let query = client.query(&encoded).unwrap();
    assert!(query.len() <= server.limits().query_bytes);
    let answer = ask(&server, &keys, &query).unwrap();
    assert!(answer.len() <= server.limits().answer_bytes && answer.len() <= client.answer_bytes(1));
    let predicted = [client.query_bytes(1), client.expected_answer_bytes(1)];
    for (predicted, bytes) in predicted.into_iter().zip([query.len(), answer.len()]) {
        assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{predicted} {bytes}");
    }
    client.check_answer(&answer, 1).unwrap();
    let values = client.read(&answer, &encoded).unwrap().remove(0);
    let exact = expected(&inputs, &weights(1));
    let error = (&values - &exact).iter().fold(0.0f64, |worst, x| worst.max(x.abs()));
    assert!(error < client.description().error_bound(), "{error:e} {:e}", client.description().error_bound());
    assert!(client.description().error_bound() < 2f64.powi(-20));

    // The noise is 2^16 times the bound, and not more.
    let shared = client.share(&inputs, &values, 16).unwrap();
    let deviation = 65536.0 * client.description().error_bound();
    let noise = (&shared - &exact).mapv(|x| x / deviation);
    let spread = (noise.iter().map(|x| x * x).sum::<f64>() / noise.len() as f64).sqrt();
    assert!((0.8..1.2).contains(&spread), "{spread}");
    let mut large = inputs.clone();
    large[0].1[[0, 0, 0]] = 1.5;
    // A query is sent all the same: the service chooses the limit, and must not learn whether an entry exceeds it.
    let refused = client.encode(&[&large]).unwrap();
    assert_eq!(client.query(&refused).unwrap().len(), query.len());
    let error = client.read(&answer, &refused).unwrap_err().to_string();
    assert!(error.contains("'b' with an entry beyond 1e0 at index [0, 0]"), "{error}");
    assert!(client.share(&large, &values, 16).unwrap_err().to_string().contains("'b' with entries beyond 1"));
    assert!(client.share(&inputs, &values, 0).is_err());

    // A client with another secret: the answer decrypts to meaningless numbers.
    let stranger = open(&server);
    let error = stranger.read(&answer, &encode(&stranger, &inputs)).unwrap_err();
    assert!(error.to_string().contains("make new keys"), "{error}");
}

#[test]
fn a_program_is_served_from_a_file() {
    let path = std::env::temp_dir().join(format!("unspoken-matrix-{}.program", std::process::id()));
    std::fs::write(&path, program(1, weights(1)).to_bytes()).unwrap();
    let (accepted, refused) =
        (MatrixServer::open(&path, None, true, None), MatrixServer::open(&path, None, false, None));
    let described = MatrixServer::new(program(1, weights(1))).unwrap().describe();
    assert_eq!(accepted.unwrap().describe(), described, "descriptions of one program are the same");
    assert!(refused.map(|_| ()).unwrap_err().to_string().contains("a secure one"));
    std::fs::write(&path, b"uspa").unwrap();
    assert!(MatrixServer::open(&path, None, true, None).is_err());
    std::fs::remove_file(&path).unwrap();
    let error = MatrixServer::open(&path, None, true, None).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("a file with the bytes of a program"), "{error}");
}

#[test]
fn a_program_that_is_loaded_again_finds_the_plans_of_its_permutations() {
    let mut graph = Graph::new();
    let a = graph.input("a", (8, 8)).unwrap();
    let row = graph.push(Operation::Reshape((1, 64)), &[a]).unwrap();
    // A permutation without structure.
    let columns = (0..64).map(|index| (index * index * index + 5 * index) % 67 % 64).collect::<Vec<usize>>();
    let mut source: Vec<usize> = (0..64).collect();
    source.sort_by_key(|&index| (columns[index], index));
    let permuted = graph.push(Operation::Columns(source), &[row]).unwrap();
    graph.push(Operation::Reshape((8, 8)), &[permuted]).unwrap();
    let options = Options { preset: Some(PRESET.into()), batch: 1, one_row: Some(true), ..Options::default() };
    let inputs = vec![Axes::MATRIX];
    let program = Program::plan(ProgramSource { graph, inputs, output: Axes::MATRIX, options }).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let (path, cache) = (directory.path().join("program"), PlanCache::new(directory.path().join("plans")));
    std::fs::write(&path, program.to_bytes()).unwrap();
    let load = |cache| MatrixServer::open(&path, None, true, cache).unwrap().describe();
    let written = || -> BTreeSet<_> {
        let files = std::fs::read_dir(cache.directory()).into_iter().flatten().map(|file| file.unwrap());
        files.map(|file| (file.path(), file.metadata().unwrap().modified().unwrap())).collect()
    };
    let described = load(None);
    assert!(written().is_empty());
    assert_eq!(load(Some(&cache)), described);
    let kept = written();
    assert!(!kept.is_empty());
    assert_eq!(load(Some(&cache)), described);
    assert_eq!(written(), kept, "nothing is searched and written again");
}

#[test]
fn what_does_not_fit_is_refused() {
    let server = MatrixServer::new(program(3, weights(1))).unwrap();
    let mut client = open(&server);
    let keys = keys(&server, &client);
    let inputs = inputs(3);
    let refused = |changed: NamedArrays| client.encode(&[changed]).map(|_| ()).unwrap_err().to_string();
    assert!(refused(inputs[..1].to_vec()).contains("input 'a' left out"));
    assert!(refused([&inputs[..], &inputs[..1]].concat()).contains("input 'b' twice"));
    assert!(refused([&inputs[..], &[("c".into(), Array3::zeros((1, 1, 1)))]].concat()).contains("one of a, b"));
    let mut misshapen = inputs.clone();
    misshapen[1].1 = Array3::zeros((2, 4, 3));
    assert!(refused(misshapen).contains("needed shape (3, 4, 3)"));
    for value in [f64::NAN, 1e300] {
        let mut unfit = inputs.clone();
        unfit[0].1[[0, 1, 1]] = value;
        // The query is sent, with zeros.
        let encoded = client.encode(&[unfit]).unwrap();
        let query = client.query(&encoded).unwrap();
        let answer = ask(&server, &keys, &query).unwrap();
        assert!(client.read(&answer, &encoded).is_err(), "{value}");
    }

    let encoded = encode(&client, &inputs);
    let query = client.query(&encoded).unwrap();
    let kind = |query: &[u8]| ask(&server, &keys, query).unwrap_err().kind();
    assert_eq!(kind(&query[..query.len() - 1]), ErrorKind::Malformed);
    let header = server.header();
    let mut vectors = header.unpack("query", &query, query.len(), usize::MAX).unwrap();
    // One vector too few; two vectors under one seed; the same query again.
    let last = vectors.pop().unwrap();
    assert_eq!(kind(&header.pack(vectors.clone())), ErrorKind::Mismatch);
    vectors.push(vectors[0].clone());
    assert_eq!(kind(&header.pack(vectors.clone())), ErrorKind::Mismatch);
    vectors.pop();
    vectors.push(last);
    assert!(ask(&server, &keys, &header.pack(vectors)).is_ok(), "the same query again");
    let error = server.answer(&Request::new(CLIENT, &keys, &query), &Call::new(&AtomicBool::new(true))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);

    let path = std::env::temp_dir().join(format!("unspoken-matrix-large-{}.program", std::process::id()));
    std::fs::write(&path, program(1, weights(1)).to_bytes()).unwrap();
    let open = |largest| MatrixServer::open(&path, Some(largest), true, None);
    assert_eq!(open(1e3).unwrap().description().largest_input(), 1e3);
    // A service that lowers the bound could find the largest entry by bisection.
    let describe = |largest| Description::insecure_from_bytes(&open(largest).unwrap().describe()).unwrap();
    let (small, large) = (describe(1.0), describe(1e3));
    MatrixClient::check_change(&small, &large).unwrap();
    let error = MatrixClient::check_change(&large, &small).unwrap_err().to_string();
    assert!(error.contains("entries of inputs up to 1, needed 1000 at least, as before"), "{error}");
    let error = open(1e70).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("too large for preset"), "{error}");
    assert!(open(0.0).is_err());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn descriptions_are_checked() {
    let server = MatrixServer::new(program(3, weights(1))).unwrap();
    let bytes = server.describe();
    assert!(Description::from_bytes(&bytes).map(|_| ()).unwrap_err().to_string().contains("a secure one"));
    let read = Description::read(&bytes, true).unwrap();
    assert_eq!(read.to_bytes(), bytes);
    // The description's bound of the result includes its error.
    assert!(read.signature().magnitude() >= server.program().signature().magnitude());
    assert_eq!(read.signature().largest(), server.program().signature().largest());
    assert!(server.limits().working_bytes > server.program().working_bytes());
    // However the fields change, an accepted description describes a possible program.
    let mut accepted = 0;
    let fields = bytes.len() - 34;
    for position in 0..fields {
        let mut changed = bytes[..fields].to_vec();
        changed[position] ^= 0x04;
        append_description_checksum(&mut changed);
        if let Ok(read) = Description::insecure_from_bytes(&changed) {
            let signature = read.signature().to_bytes().unwrap();
            assert!(Signature::from_bytes(&signature, true).is_ok(), "{position}");
            assert!(read.error_bound() > 0.0 && read.largest_input() > 0.0, "{position}");
            accepted += 1;
        }
    }
    assert!(accepted > 0 && accepted < fields);
}

#[test]
fn a_flipped_bit_is_refused_as_damage_in_every_message() {
    let server = MatrixServer::new(program(1, weights(1))).unwrap();
    let mut client = open(&server);
    let keys = keys(&server, &client);
    let encoded = encode(&client, &inputs(1));
    let query = client.query(&encoded).unwrap();
    let answer = ask(&server, &keys, &query).unwrap();
    let text = |error: MatrixError| error.to_string();
    crate::damage::assert_damage_is_refused(&[
        ("description", server.describe(), &|bytes| Description::insecure_from_bytes(bytes).map(drop).map_err(text)),
        ("query", query, &|bytes| ask(&server, &keys, bytes).map(drop).map_err(text)),
        ("answer", answer, &|bytes| client.read(bytes, &encoded).map(drop).map_err(text)),
    ]);
}
