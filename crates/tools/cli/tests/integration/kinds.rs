//! Every client command asks a service of every kind: it works, or the error names the command for that kind.

use std::path::Path;
use std::process::Stdio;

use crate::support::{Service, complaint, npy, text, unspoken};
use tempfile::TempDir;
use unspoken_database::{Builder, Record};
use unspoken_digits_model::{Image, LabelledImages, TrainOptions, fit};
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_matrix::{Axes, Options, Program, ProgramSource};
use unspoken_pir_scheme::Preset;

/// The kind, what it is, and the command that asks it.
const KINDS: [(&str, &str, &str); 6] = [
    ("classify", "private text classification", "unspoken classify"),
    ("embed", "private embedding lookup", "unspoken embed ask"),
    ("classify-by-head", "private text classification by a head over embeddings", "unspoken classify"),
    ("digits", "private recognition of handwritten digits", "unspoken digits ask"),
    ("pir", "private retrieval", "unspoken pir get"),
    ("matrix", "computing with encrypted matrices", "unspoken matrix ask"),
];

/// The files of an application of each kind.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Files(tempfile::tempdir().unwrap());
        let lines = (0..60).map(|i| format!("{}\tword{} number {}\n", ["ham", "spam"][i % 2], i % 2, i % 7));
        std::fs::write(files.path("messages.tsv"), lines.collect::<String>()).unwrap();
        text(&unspoken(&["train", "--data", &files.path("messages.tsv"), "--out", &files.path("spam")]));

        let table = npy("(40, 3)", (0..120u32).map(|i| (i * i % 11) as f32));
        std::fs::write(files.path("table.npy"), table).unwrap();
        let tokens: Vec<String> = (0..40).map(|i| format!("t{i}")).collect();
        std::fs::write(files.path("tokens.txt"), tokens.join("\n")).unwrap();
        let (table, tokens, out) = (files.path("table.npy"), files.path("tokens.txt"), files.path("table"));
        text(&unspoken(&[
            "embed",
            "compress",
            "--table",
            &table,
            "--tokens",
            &tokens,
            "--columns",
            "6",
            "--out",
            &out,
        ]));

        let lines = (0..60).map(|i| format!("{}\tt{} t{}\n", ["even", "odd"][i % 2], i % 40, (3 * i) % 40));
        std::fs::write(files.path("texts.tsv"), lines.collect::<String>()).unwrap();
        let (data, head) = (files.path("texts.tsv"), files.path("head.safetensors"));
        text(&unspoken(&["embed", "train", "--model", &out, "--data", &data, "--out", &head, "--max-tokens", "8"]));

        let image = |digit: u8| Image::new(&[digit * 20; 784]).unwrap();
        let digits: Vec<u8> = (0..40).map(|i| i % 10).collect();
        let images: Vec<Image> = digits.iter().map(|&digit| image(digit)).collect();
        let options = TrainOptions { epochs: 1, validation: 10, ..TrainOptions::default() };
        let data = LabelledImages::new(images, digits).unwrap();
        fit(&data, &options, &mut |_| {}, &Default::default()).unwrap().save(files.path("digits")).unwrap();
        let head: Vec<u8> = [0x803u32, 1, 28, 28].iter().flat_map(|word| word.to_be_bytes()).collect();
        std::fs::write(files.path("image"), [head, vec![60; 784]].concat()).unwrap();

        let records =
            (0..50).map(|i| Record { key: Some(format!("K{i}").into()), value: format!("record {i}").into() });
        let records = records.map(Ok::<_, std::convert::Infallible>);
        Builder::new(Preset::N11).build(files.path("codes"), records, |_| {}, &Default::default()).unwrap();

        let mut graph = Graph::new();
        let a = graph.input("a", (2, 2)).unwrap();
        graph.push(Operation::Add, &[a, a]).unwrap();
        let options = Options { preset: Some("n14_real_depth8_scale30".into()), batch: 1, ..Options::default() };
        let source = ProgramSource { graph, inputs: vec![Axes::MATRIX], output: Axes::MATRIX, options };
        std::fs::write(files.path("program"), Program::plan(source).unwrap().to_bytes()).unwrap();
        std::fs::write(files.path("a.npy"), npy("(2, 2)", [0.5f32, -0.25, 0.125, 1.0])).unwrap();
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// A service of all of them; each application has the name of its kind.
    fn serve(&self) -> Service {
        let offers = [
            format!("classify:classify={},preset=n14_depth8_scale30", self.path("spam")),
            format!("embed:embed={}", self.path("table")),
            format!("classify:classify-by-head={},head={}", self.path("table"), self.path("head.safetensors")),
            format!("digits:digits={}", self.path("digits")),
            format!("pir:pir={}", self.path("codes")),
            format!("matrix:matrix={}", self.path("program")),
        ];
        let keys = self.path("keys");
        let mut arguments = vec!["--data-dir", &keys];
        arguments.extend(offers.iter().flat_map(|offer| ["--offer", offer.as_str()]));
        Service::start(&arguments, Stdio::null())
    }

    /// The arguments of the client command of a kind, without service and application.
    fn command(&self, kind: &str) -> Vec<String> {
        let (spam, table, image) = (self.path("spam"), self.path("table"), self.path("image"));
        let input = format!("a={}", self.path("a.npy"));
        let arguments: &[&str] = match kind {
            "classify" => &["classify", "--model", &spam, "word1 number 3"],
            "embed" => &["embed", "ask", "--model", &table, "t3 t39"],
            "classify-by-head" => &["classify", "--model", &table, "--usage", "t3 t39"],
            "digits" => &["digits", "ask", "--images", &image],
            "pir" => &["pir", "get", "K7", "--usage"],
            _ => &["matrix", "ask", "--input", &input, "--out", &self.path("out.npy")],
        };
        arguments.iter().map(|&argument| argument.to_owned()).collect()
    }
}

/// The number after `label` in a line that begins with it.
fn bytes(lines: &str, label: &str) -> u64 {
    let line = lines.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap_or_else(|| panic!("no {label:?} in {lines}")).split_whitespace().next().unwrap().parse().unwrap()
}

/// Bytes in a text such as "8.16 MB".
fn decimal_bytes(text: &str) -> f64 {
    let (number, unit) = text.trim().split_once(' ').unwrap();
    let unit = [("B", 1e0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)].into_iter().find(|(name, _)| *name == unit);
    number.parse::<f64>().unwrap() * unit.unwrap().1
}

#[test]
fn every_command_names_the_one_for_a_service_of_another_kind() {
    let files = Files::new();
    let service = files.serve();
    let state = files.path("state");
    let ask = |asking: &str, application: &str| {
        let target = ["--url", &service.url, "--state-dir", &state, "--application", application];
        let command = files.command(asking);
        unspoken(&command.iter().map(String::as_str).chain(target).collect::<Vec<_>>())
    };
    for (offered, what, command) in KINDS {
        for (asking, ..) in KINDS.into_iter().filter(|(asking, ..)| *asking != offered) {
            let article = if offered == "embed" { "an" } else { "a" };
            let needed = format!(
                "error: {} offers {offered}, {article} {offered} application ({what}); \
                 this command asks {asking} applications; use `{command}`\n",
                service.url
            );
            assert_eq!(complaint(&ask(asking, offered)), needed);
        }
    }
    // No key was made for any of these.
    assert!(!Path::new(&state).exists() || !found(Path::new(&state), ".keys"));
}

/// Whether a file below the directory has a name with this end.
fn found(directory: &Path, end: &str) -> bool {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).any(|path| match path.is_dir() {
        true => found(&path, end),
        false => path.to_string_lossy().ends_with(end),
    })
}

#[test]
fn a_command_says_what_it_sends_before_it_does() {
    let files = Files::new();
    let service = files.serve();
    // `get` and `classify` print the usage on standard error, the others print it; `classify` does not.
    for kind in ["embed", "classify-by-head", "digits", "pir", "matrix"] {
        // One state each: with the same state, applications share keys.
        let state = files.path(&format!("state-{kind}"));
        let target = ["--url", &service.url, "--state-dir", &state, "--application", kind];
        let command = files.command(kind);
        let output = unspoken(&command.iter().map(String::as_str).chain(target).collect::<Vec<_>>());
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        let usage = text(&output) + &said;
        let line = |label: &str| said.lines().find_map(|line| line.strip_prefix(label)).unwrap().to_owned();
        let keys = line("keys        ");
        let keys = decimal_bytes(keys.strip_suffix(" to make and upload, once").unwrap());
        // "1 query, 8.16 MB, for 2 (a query holds up to 256); receiving about 530.00 kB"
        let sending = line("sending     ");
        let (up, down) = sending.split_once("; receiving about ").unwrap();
        let sent = [decimal_bytes(up.split(", ").nth(1).unwrap()), decimal_bytes(down)];
        let used = [bytes(&usage, "query "), bytes(&usage, "answer ")];
        for (said, used) in sent.into_iter().zip(used).chain([(keys, bytes_of_keys(&usage))]) {
            assert!((0.98..1.05).contains(&(said / used as f64)), "{kind}: {said} {used}\n{usage}");
        }
    }
}

/// The bytes in the line of keys that says the usage.
fn bytes_of_keys(usage: &str) -> u64 {
    let line = usage.lines().find(|line| line.starts_with("keys ") && line.contains("made and uploaded")).unwrap();
    bytes(line, "keys ")
}
