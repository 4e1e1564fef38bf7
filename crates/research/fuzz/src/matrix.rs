//! Targets for encrypted matrices: programs and inputs that a server decodes, signatures and results that a client
//! decodes, and keys.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use ndarray::{Array2, Array3};
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_matrix::{
    Axes, EncryptedInputs, EncryptedResult, Keys, Options, Program, ProgramSource, Secret, Signature,
};
use unspoken_protocol::{CHECKSUM_BYTES, append_checksum};

use crate::messages::PRESET;
use crate::{Target, repair};

/// Most rows, columns and nodes of a program that the target plans: planning is slow.
const MAX_PLANNED: usize = 4;

/// `Program::decode`: a decoded program encodes to the same bytes, if its graph is small enough to plan and planning
/// succeeds.
pub static PROGRAM: Target = Target {
    name: "matrix_program",
    run: |data| {
        let Ok(source) = Program::decode(data, true) else { return false };
        let nodes = source.graph.nodes();
        let small = nodes.iter().all(|node| node.shape().0.max(node.shape().1) <= MAX_PLANNED);
        if nodes.len() <= MAX_PLANNED
            && small
            && let Ok(program) = Program::plan(source)
        {
            assert!(program.to_bytes() == data, "the bytes changed");
            assert!(program.output_level() <= program.signature().level());
        }
        true
    },
    repair: |data| repair_head(data, 1),
    seeds: || vec![FIXTURE.program.to_bytes()],
};

/// `Signature::from_bytes`: encoding gives the same bytes.
pub static SIGNATURE: Target = Target {
    name: "matrix_signature",
    run: |data| {
        let Ok(signature) = Signature::from_bytes(data, true) else { return false };
        assert!(signature.to_bytes().expect("keys were counted") == data, "the bytes changed");
        assert!(signature.groups() >= 1 && signature.groups() <= signature.batch());
        true
    },
    repair: |data| repair_head(data, 2),
    seeds: || vec![FIXTURE.program.signature().to_bytes().expect("few keys")],
};

/// `EncryptedInputs::from_bytes`: encoding gives the same bytes; a run on the inputs succeeds or is refused.
pub static INPUTS: Target = Target {
    name: "matrix_inputs",
    run: |data| {
        let Ok(inputs) = EncryptedInputs::from_bytes(data, true) else { return false };
        assert!(inputs.to_bytes() == data, "the bytes changed");
        if let Ok(result) = FIXTURE.program.run(&FIXTURE.keys, &[&inputs], |_, _| {}, &GO) {
            assert_eq!(result.shape(), [2, 2, 2]);
        }
        true
    },
    repair: |data| repair_head(data, 3),
    seeds: || vec![FIXTURE.inputs.to_bytes()],
};

/// `EncryptedResult::from_bytes`: encoding gives the same bytes; under this secret it decrypts to its shape.
pub static RESULT: Target = Target {
    name: "matrix_result",
    run: |data| {
        let Ok(result) = EncryptedResult::from_bytes(data, true) else { return false };
        assert!(result.to_bytes() == data, "the bytes changed");
        if let Ok(values) = FIXTURE.secret.decrypt(&result) {
            assert_eq!(values.len(), result.shape().iter().product::<usize>());
        }
        true
    },
    repair: |data| repair_head(data, 4),
    seeds: || {
        let result = FIXTURE.program.run(&FIXTURE.keys, &[&FIXTURE.inputs], |_, _| {}, &GO);
        vec![result.expect("computes").to_bytes()]
    },
};

/// `Keys::from_bytes`: encoding gives the same bytes.
pub static KEYS: Target = Target {
    name: "matrix_keys",
    run: |data| {
        let Ok(keys) = Keys::from_bytes(data, true) else { return false };
        assert!(keys.to_bytes() == data, "the bytes changed");
        true
    },
    repair: |data| {
        repair_head(data, 5);
        data.truncate(data.len() - CHECKSUM_BYTES);
        let mut bundle = data.split_off(data.len().min(head(5).len() + SECRET_ID));
        repair::key_bundle(FIXTURE.parameters.rlwe(), &mut bundle);
        data.resize(head(5).len() + SECRET_ID, 0);
        data.extend(bundle);
        append_checksum(data);
    },
    // A bundle without keys: one key is longer than the longest fuzz input. Repaired inputs have shorter keys.
    seeds: || {
        let mut graph = Graph::new();
        graph.input("a", (2, 2)).expect("fits");
        let options = Options { preset: Some(PRESET.into()), batch: 1, ..Options::default() };
        let program = ProgramSource { graph, inputs: vec![Axes::MATRIX], output: Axes::MATRIX, options };
        let program = Program::plan(program).expect("plans");
        vec![FIXTURE.secret.keys(&[program.signature()], |_, _| {}, &GO).expect("makes keys").to_bytes()]
    },
};

/// `Secret::from_bytes`: encoding gives the same bytes.
pub static SECRET: Target = Target {
    name: "matrix_secret",
    run: |data| {
        let Ok(secret) = Secret::from_bytes(data) else { return false };
        let again = secret.to_bytes();
        let secret_of_earlier_version = data.len() == 36 && again[6..38] == data[4..];
        assert!(again.as_slice() == data || secret_of_earlier_version, "the bytes changed");
        true
    },
    repair: |data| {
        // As a file of the first version, which has no checksum.
        data.resize(36, 0);
        data[..4].copy_from_slice(b"uspm");
        let secret = Secret::from_bytes(data).expect("any bytes are a secret");
        *data = secret.to_bytes().to_vec();
    },
    seeds: || vec![FIXTURE.secret.to_bytes().to_vec()],
};

/// Bytes of the identifier of a secret.
const SECRET_ID: usize = 16;

static GO: AtomicBool = AtomicBool::new(false);

/// Magic, version, kind, preset and fingerprint.
fn head(kind: u8) -> Vec<u8> {
    let mut head = b"uspa\x02\x00".to_vec();
    head.push(kind);
    head.extend((PRESET.len() as u32).to_le_bytes());
    head.extend(PRESET.as_bytes());
    head.extend(FIXTURE.parameters.rlwe().fingerprint().0);
    head
}

/// Repairs the start and the checksum at the end.
fn repair_head(data: &mut Vec<u8>, kind: u8) {
    data.truncate(data.len().saturating_sub(CHECKSUM_BYTES));
    let head = head(kind);
    if data.len() < head.len() {
        data.resize(head.len(), 0);
    }
    data[..head.len()].copy_from_slice(&head);
    append_checksum(data);
}

struct Fixture {
    parameters: CkksParameters,
    program: Program,
    secret: Secret,
    inputs: EncryptedInputs,
    keys: Keys,
}

/// `a.T * 2 + W`, for two matrices of 2 x 2, and one key.
static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let parameters = Preset::find(PRESET).and_then(Preset::build).expect("builds");
    let mut graph = Graph::new();
    let a = graph.input("a", (2, 2)).expect("fits");
    let scaled = graph.push(Operation::Scale(2.0), &[a]).expect("fits");
    let picked = graph.push(Operation::Rows(vec![1, 1]), &[scaled]).expect("fits");
    let constant = graph.push(Operation::Constant(Array2::ones((2, 2))), &[]).expect("fits");
    graph.push(Operation::Add, &[picked, constant]).expect("fits");
    let options = Options { preset: Some(PRESET.into()), batch: 2, ..Options::default() };
    let program = ProgramSource { graph, inputs: vec![Axes::BATCH], output: Axes::BATCH, options };
    let program = Program::plan(program).expect("plans");
    let secret = Secret::from_bytes(&[b"uspm".as_slice(), &[7; 32]].concat()).expect("a secret");
    let inputs = secret.encrypt(program.signature(), &[("a".into(), Array3::ones((2, 2, 2)))]).expect("fits");
    let keys = secret.keys(&[program.signature()], |_, _| {}, &GO).expect("makes keys");
    Fixture { parameters, program, secret, inputs, keys }
});
