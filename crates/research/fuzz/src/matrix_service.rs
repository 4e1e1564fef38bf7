//! Targets for the protocol of served matrix programs: descriptions and answers that a client decodes, queries that a
//! server decodes.

use std::cell::RefCell;
use std::sync::LazyLock;

use ndarray::{Array2, Array3};
use prost::Message;
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_matrix::{Axes, Description, MatrixClient, MatrixServer, NamedArrays, Options, Program, ProgramSource};
use unspoken_protocol::{
    ApplicationDescription, Call, CkksClientHalf, CkksServerHalf, ClientHalf, Request, ServerHalf,
};
use unspoken_rlwe::EvaluationKeys;

use crate::Target;
use crate::fixtures::{CLIENT, keys_of, query, read};
use crate::messages::{self, Described, KeyRequirement, MAX_QUERY_BYTES_MADE, PRESET, SMALL_PRESETS};

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct Own {
    #[prost(uint32, tag = "21")]
    tile: u32,
    #[prost(uint32, tag = "22")]
    blocks: u32,
    #[prost(uint32, tag = "23")]
    query_level: u32,
    #[prost(uint32, tag = "24")]
    output_level: u32,
    #[prost(uint32, tag = "25")]
    batch: u32,
    #[prost(message, repeated, tag = "26")]
    inputs: Vec<Input>,
    #[prost(message, optional, tag = "27")]
    output: Option<Shape>,
    #[prost(double, tag = "28")]
    largest_input: f64,
    #[prost(uint32, tag = "29")]
    tile_rows: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Input {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Shape {
    #[prost(uint32, tag = "1")]
    rows: u32,
    #[prost(uint32, tag = "2")]
    columns: u32,
    #[prost(bool, tag = "3")]
    batch_axis: bool,
    #[prost(bool, tag = "4")]
    row_axis: bool,
    #[prost(bool, tag = "5")]
    column_axis: bool,
}

/// `Description::insecure_from_bytes`, and a client that generates the keys and a query that the description asks
/// for.
pub static DESCRIPTION: Target = Target {
    name: "matrix_description",
    run: |data| {
        let Ok(message) = Described::<Own>::decode(data) else {
            assert!(Description::insecure_from_bytes(data).is_err(), "no protobuf message was accepted");
            return false;
        };
        if !message.header.preset.starts_with(SMALL_PRESETS) {
            return false;
        }
        let Ok(description) = Description::insecure_from_bytes(data) else { return false };
        let again = Described::<Own>::sound(&description.to_bytes());
        assert_eq!(again.own.inputs.len(), message.own.inputs.len());
        if let Ok(client) = MatrixClient::open(description, (), None) {
            ask_as_described(client);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::<Own>::decode(data) else { return };
        message.repair_header(Description::PROTOCOL, |bound| bound >= 0.0);
        let own = &mut message.own;
        own.tile = 1 << (own.tile % 4);
        own.tile_rows = if own.tile_rows % 2 == 0 { own.tile } else { 1 };
        own.blocks = 1;
        own.batch = 1 + own.batch % 8;
        messages::repair_bound(&mut own.largest_input, |bound| bound > 0.0);
        *data = message.encode(Description::PROTOCOL);
    },
    seeds: || {
        let sound = Described::<Own>::sound(&SERVER.describe());
        // Keys and levels that exist in every preset.
        let mut shallow = sound.clone();
        shallow.header.keys = vec![KeyRequirement { galois_element: 5, chain: 1 }];
        (shallow.own.query_level, shallow.own.output_level) = (0, 0);
        let all = shallow.with_presets().chain([sound]);
        all.map(|message| message.encode(Description::PROTOCOL)).collect()
    },
};

/// Generates the keys and a query that a description asks for, unless they are large.
fn ask_as_described(mut client: MatrixClient) {
    let signature = client.description().signature().clone();
    let zeros = |input: &unspoken_matrix::Input| {
        let (rows, columns) = input.shape.matrix;
        let batch = if input.shape.axes.batch { signature.batch() } else { 1 };
        (input.name.clone(), Array3::zeros((batch, rows, columns)))
    };
    let entries = |input: &unspoken_matrix::Input| {
        signature.batch().saturating_mul(input.shape.matrix.0).saturating_mul(input.shape.matrix.1)
    };
    let most = signature.inputs().iter().map(entries).fold(0, usize::saturating_add);
    if most.saturating_mul(8) > MAX_QUERY_BYTES_MADE {
        return;
    }
    let inputs: NamedArrays = signature.inputs().iter().map(zeros).collect();
    query(&mut client, &[inputs]).expect("zeros fit");
    messages::make_keys(client.keyring());
}

/// `MatrixServer::answer`: an accepted query has an answer of the announced size, whose form the client accepts.
pub static QUERY: Target = Target {
    name: "matrix_query",
    run: |data| {
        let Ok(answer) = SERVER.answer(&Request::new(CLIENT, &KEYS, data), &Call::default()) else { return false };
        assert!(data.len() <= SERVER.limits().query_bytes);
        assert!(answer.len() <= SERVER.limits().answer_bytes);
        match read(&client(), &answer, &[inputs()]) {
            Ok(read) => assert_eq!(read[0].dim(), (2, 2, 2)),
            // A ciphertext of random bytes is valid: it encrypts random numbers.
            Err(error) => assert!(error.to_string().contains("this secret key does not open"), "{error}"),
        }
        true
    },
    repair: |data| messages::repair_query(data, SERVER.header()),
    seeds: || vec![QUERY_BYTES.clone()],
};

/// `MatrixClient::read`: an accepted answer has finite numbers of the described shape.
pub static ANSWER: Target = Target {
    name: "matrix_answer",
    run: |data| {
        thread_local! {
            static CLIENT_HALF: RefCell<MatrixClient> = RefCell::new(client());
        }
        CLIENT_HALF.with_borrow(|client| {
            let accepted = client.check_answer(data, 1).is_ok();
            match read(client, data, &[inputs()]) {
                Ok(read) => {
                    assert!(accepted && read[0].dim() == (2, 2, 2) && read[0].iter().all(|value| value.is_finite()));
                }
                // Random numbers, as the clients of these targets have different secrets.
                Err(error) => assert!(!accepted || error.to_string().contains("this secret key does not open")),
            }
            accepted
        })
    },
    repair: |data| messages::repair_answer(data, SERVER.header()),
    seeds: || vec![ANSWERED.clone()],
};

fn client() -> MatrixClient {
    MatrixClient::open(SERVER.description().clone(), (), None).expect("a description of its own")
}

fn inputs() -> NamedArrays {
    vec![("a".into(), Array3::ones((2, 2, 2)))]
}

/// `a * 2 + W`, for two matrices of 2 x 2.
static SERVER: LazyLock<MatrixServer> = LazyLock::new(|| {
    let mut graph = Graph::new();
    let a = graph.input("a", (2, 2)).expect("fits");
    let scaled = graph.push(Operation::Scale(2.0), &[a]).expect("fits");
    let constant = graph.push(Operation::Constant(Array2::ones((2, 2))), &[]).expect("fits");
    graph.push(Operation::Add, &[scaled, constant]).expect("fits");
    let options = Options { preset: Some(PRESET.into()), batch: 2, ..Options::default() };
    let program = ProgramSource { graph, inputs: vec![Axes::BATCH], output: Axes::BATCH, options };
    MatrixServer::new(Program::plan(program).expect("plans")).expect("serves")
});

static KEYS: LazyLock<EvaluationKeys> = LazyLock::new(|| keys_of(&*SERVER, &client()));

static QUERY_BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| query(&mut client(), &[inputs()]).expect("fits"));

static ANSWERED: LazyLock<Vec<u8>> =
    LazyLock::new(|| SERVER.answer(&Request::new(CLIENT, &KEYS, &QUERY_BYTES), &Call::default()).expect("an answer"));
