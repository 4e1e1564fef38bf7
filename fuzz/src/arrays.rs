//! Expressions of encrypted matrices: programs and inputs a server reads, terms and results a client reads, keys.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use ndarray::{Array2, Array3};
use unspoken_arrays::{Answer, Form, Graph, Inputs, Keys, Node, Options, Program, Secret, Terms};
use unspoken_ckks::{CkksParameters, Preset};

use crate::fixtures::PRESET;
use crate::{Target, repair};

/// Rows and columns of the largest matrices a program is planned for here, and most nodes: planning takes a while.
const MOST_PLANNED: usize = 4;

/// `Program::decode`: the same bytes again if its graph is small enough to plan, and can be.
pub static PROGRAM: Target = Target {
    name: "arrays_program",
    run: |data| {
        let Ok((graph, output, options)) = Program::decode(data, true) else { return false };
        let small = |node: &Node| match node {
            Node::Input { form, .. } => form.matrix.0.max(form.matrix.1) <= MOST_PLANNED,
            Node::Constant(values) | Node::TimesLeft(values, _) | Node::TimesRight(_, values) => {
                values.nrows().max(values.ncols()) <= MOST_PLANNED
            }
            Node::Rows(_, indices) | Node::Columns(_, indices) => indices.len() <= MOST_PLANNED,
            _ => true,
        };
        if graph.nodes().len() <= MOST_PLANNED
            && graph.nodes().iter().all(small)
            && let Ok(program) = Program::plan(graph, output, &options)
        {
            assert!(program.to_bytes() == data, "the bytes changed");
            assert!(program.output_level() <= program.terms().level());
        }
        true
    },
    repair: |data| repair_head(data, 1),
    seeds: || vec![FIXTURE.program.to_bytes()],
};

/// `Terms::from_bytes`: the same bytes again.
pub static TERMS: Target = Target {
    name: "arrays_terms",
    run: |data| {
        let Ok(terms) = Terms::from_bytes(data, true) else { return false };
        assert!(terms.to_bytes().expect("keys were counted") == data, "the bytes changed");
        assert!(terms.groups() >= 1 && terms.groups() <= terms.batch());
        true
    },
    repair: |data| repair_head(data, 2),
    seeds: || vec![FIXTURE.program.terms().to_bytes().expect("few keys")],
};

/// `Inputs::from_bytes`: the same bytes again; a run on them succeeds or is refused.
pub static INPUTS: Target = Target {
    name: "arrays_inputs",
    run: |data| {
        let Ok(inputs) = Inputs::from_bytes(data, true) else { return false };
        assert!(inputs.to_bytes() == data, "the bytes changed");
        if let Ok(answer) = FIXTURE.program.run(&FIXTURE.keys, &[&inputs], |_, _| {}, &GO) {
            assert_eq!(answer.shape(), [2, 2, 2]);
        }
        true
    },
    repair: |data| repair_head(data, 3),
    seeds: || vec![FIXTURE.inputs.to_bytes()],
};

/// `Answer::from_bytes`: the same bytes again; under this secret it decrypts to its shape.
pub static ANSWER: Target = Target {
    name: "arrays_answer",
    run: |data| {
        let Ok(answer) = Answer::from_bytes(data, true) else { return false };
        assert!(answer.to_bytes() == data, "the bytes changed");
        if let Ok(values) = FIXTURE.secret.decrypt(&answer) {
            assert_eq!(values.len(), answer.shape().iter().product::<usize>());
        }
        true
    },
    repair: |data| repair_head(data, 4),
    seeds: || {
        let answer = FIXTURE.program.run(&FIXTURE.keys, &[&FIXTURE.inputs], |_, _| {}, &GO);
        vec![answer.expect("computes").to_bytes()]
    },
};

/// `Keys::from_bytes`: the same bytes again.
pub static KEYS: Target = Target {
    name: "arrays_keys",
    run: |data| {
        let Ok(keys) = Keys::from_bytes(data, true) else { return false };
        assert!(keys.to_bytes() == data, "the bytes changed");
        true
    },
    repair: |data| {
        repair_head(data, 5);
        let mut bundle = data.split_off(data.len().min(head(5).len() + OWNER));
        repair::key_bundle(FIXTURE.parameters.rlwe(), &mut bundle);
        data.resize(head(5).len() + OWNER, 0);
        data.extend(bundle);
    },
    // None: one key is longer than the longest input that is tried. Repaired inputs have shorter ones.
    seeds: || {
        let form = Form { matrix: (2, 2), batch: false, rows: true, columns: true };
        let mut graph = Graph::new();
        graph.push(Node::Input { name: "a".into(), form }).expect("fits");
        let options = Options { preset: Some(PRESET.into()), batch: 1, ..Options::default() };
        let program = Program::plan(graph, form, &options).expect("plans");
        vec![FIXTURE.secret.keys(&[program.terms()], |_, _| {}, &GO).expect("makes keys").to_bytes()]
    },
};

/// `Secret::from_bytes`: the same bytes again.
pub static SECRET: Target = Target {
    name: "arrays_secret",
    run: |data| {
        let Ok(secret) = Secret::from_bytes(data) else { return false };
        assert!(secret.to_bytes().as_slice() == data, "the bytes changed");
        true
    },
    repair: |data| {
        data.resize(36, 0);
        data[..4].copy_from_slice(b"uspm");
    },
    seeds: || vec![FIXTURE.secret.to_bytes().to_vec()],
};

/// Bytes of the name of a secret.
const OWNER: usize = 16;

static GO: AtomicBool = AtomicBool::new(false);

/// Magic, version, kind, preset and fingerprint.
fn head(kind: u8) -> Vec<u8> {
    let mut head = b"uspa\x01\x00".to_vec();
    head.push(kind);
    head.extend((PRESET.len() as u32).to_le_bytes());
    head.extend(PRESET.as_bytes());
    head.extend(FIXTURE.parameters.rlwe().fingerprint().0);
    head
}

fn repair_head(data: &mut Vec<u8>, kind: u8) {
    let head = head(kind);
    if data.len() < head.len() {
        data.resize(head.len(), 0);
    }
    data[..head.len()].copy_from_slice(&head);
}

struct Fixture {
    parameters: CkksParameters,
    program: Program,
    secret: Secret,
    inputs: Inputs,
    keys: Keys,
}

/// `a.T * 2 + W`, for two matrices of 2 x 2, and one key.
static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let parameters = Preset::find(PRESET).and_then(Preset::build).expect("builds");
    let form = Form { matrix: (2, 2), batch: true, rows: true, columns: true };
    let mut graph = Graph::new();
    let a = graph.push(Node::Input { name: "a".into(), form }).expect("fits");
    let scaled = graph.push(Node::Scale(a, 2.0)).expect("fits");
    let picked = graph.push(Node::Rows(scaled, vec![1, 1])).expect("fits");
    let constant = graph.push(Node::Constant(Array2::ones((2, 2)))).expect("fits");
    graph.push(Node::Add(picked, constant)).expect("fits");
    let options = Options { preset: Some(PRESET.into()), batch: 2, ..Options::default() };
    let program = Program::plan(graph, form, &options).expect("plans");
    let secret = Secret::from_bytes(&[b"uspm".as_slice(), &[7; 32]].concat()).expect("a secret");
    let inputs = secret.encrypt(program.terms(), &[("a".into(), Array3::ones((2, 2, 2)))]).expect("fits");
    let keys = secret.keys(&[program.terms()], |_, _| {}, &GO).expect("makes keys");
    Fixture { parameters, program, secret, inputs, keys }
});
