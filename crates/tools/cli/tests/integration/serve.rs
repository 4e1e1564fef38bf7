//! Tests of `unspoken serve` with several offers.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use crate::support::{Service, complaint, text, unspoken};
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_database::{Builder, Record};
use unspoken_pir_scheme::Preset;

/// A classifier of messages, an embedding table and two databases.
struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Files { directory: tempfile::tempdir().unwrap() };
        let words = [["meeting", "lunch", "thanks"], ["prize", "winner", "claim"]];
        let lines = (0..80).map(|i| {
            let (label, words) = if i % 2 == 0 { ("ham", words[0]) } else { ("spam", words[1]) };
            format!("{label}\t{} {} number {}\n", words[i % 3], words[i / 2 % 3], i % 7)
        });
        std::fs::write(files.path("messages.tsv"), lines.collect::<String>()).unwrap();
        text(&unspoken(&["train", "--data", &files.path("messages.tsv"), "--out", &files.path("spam")]));

        let mut table = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
        table.extend(format!("{:69}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 3), }").into_bytes());
        table.extend((0..120u32).flat_map(|i| ((i * i % 11) as f32).to_le_bytes()));
        std::fs::write(files.path("table.npy"), &table).unwrap();
        let tokens: Vec<String> = (0..40).map(|i| format!("t{i}")).collect();
        std::fs::write(files.path("tokens.txt"), tokens.join("\n")).unwrap();
        let source = ["--table", &files.path("table.npy"), "--tokens", &files.path("tokens.txt")];
        text(&unspoken(
            &[&["embed", "compress", "--out", &files.path("glove"), "--columns", "6"], &source[..]].concat(),
        ));

        for (name, value) in [("codes", "meaning"), ("images", "pixels")] {
            let records =
                (0..50).map(|i| Record { key: Some(format!("K{i}").into()), value: format!("{value} {i}").into() });
            let records = records.map(Ok::<_, Infallible>);
            Builder::new(Preset::N11).build(files.path(name), records, |_| {}, &AtomicBool::new(false)).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn offer(&self, head: &str, name: &str, options: &str) -> String {
        format!("{head}={}{options}", self.path(name))
    }
}

fn names(service: &Service) -> Vec<String> {
    let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
    let mut names = transport.applications(&Cancel::new()).unwrap();
    names.sort();
    names
}

fn config(directory: &Path, content: &str) -> String {
    let path = directory.join("service.toml");
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn offers_of_different_kinds_are_served_at_once() {
    let files = Files::new();
    let offers = [
        files.offer("classify:classify/spam", "spam", ",preset=n14_depth8_scale30,plan=auto"),
        files.offer("embed", "glove", ",query=direct"),
        files.offer("pir:pir/icd", "codes", ""),
    ];
    let keys = files.path("keys");
    // A short flag as well: its database is named after its directory.
    let images = files.path("images");
    let mut arguments = vec!["--data-dir", &keys, "--pir", &images];
    arguments.extend(offers.iter().flat_map(|offer| ["--offer", offer.as_str()]));
    let service = Service::start(&arguments, Stdio::null());
    assert_eq!(names(&service), ["classify/spam", "embed/table", "pir/icd", "pir/images"]);

    let state = files.path("state");
    let target = ["--url", &service.url, "--state-dir", &state, "--application"];
    let ask = |command: &[&str], application: &str, what: &[&str]| {
        text(&unspoken(&[command, &target[..], &[application], what].concat()))
    };
    assert_eq!(ask(&["pir", "get"], "pir/icd", &["K7"]), "meaning 7\n");
    assert_eq!(ask(&["pir", "get"], "pir/images", &["K49"]), "pixels 49\n");
    let labels = ask(&["classify"], "classify/spam", &["--model", &files.path("spam"), "claim winner prize"]);
    assert!(labels.contains("spam"), "{labels}");
    let glove = files.path("glove");
    let embedded = ask(&["embed", "ask"], "embed/table", &["--model", &glove, "--check", &glove, "t3 t39"]);
    assert!(!embedded.is_empty());
}

/// A small database is served at a name, and the port that was chosen is printed.
#[test]
fn a_name_can_be_listened_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let records = (0..5).map(|i| Ok::<_, Infallible>(Record { key: None, value: format!("{i}").into() }));
    Builder::new(Preset::N11).build(path("codes"), records, |_| {}, &AtomicBool::new(false)).unwrap();
    let service = Service::start(
        &["--listen", "localhost:0", "--data-dir", &path("keys"), "--pir", &path("codes")],
        Stdio::null(),
    );
    assert!(service.url.starts_with("http://127.0.0.1:") && !service.url.ends_with(":0"), "{}", service.url);
    assert_eq!(names(&service), ["pir/codes"]);
}

/// The limit of memory holds for the process as the operating system counts it, with keys and questions of real size.
#[test]
fn the_service_keeps_to_its_memory() {
    const CLIENTS: usize = 6;
    const LIMIT_MIB: u64 = 640;
    // The program, stacks, and what the allocator keeps.
    const MARGIN_MIB: u64 = 64;
    let files = Files::new();
    let (keys, offer, tokens) =
        (files.path("keys"), files.offer("classify", "spam", ",short_queries=off"), files.path("tokens"));
    let mut lines = String::new();
    for i in 0..CLIENTS {
        let made = text(&unspoken(&["keys", "token", &format!("client-{i}")]));
        let (secret, line) = made.split_once('\n').unwrap();
        std::fs::write(files.path(&format!("token-{i}")), secret).unwrap();
        lines += line;
    }
    std::fs::write(&tokens, lines).unwrap();
    let limit = LIMIT_MIB.to_string();
    let arguments = ["--offer", &offer, "--data-dir", &keys, "--tokens", &tokens, "--memory-mib", &limit];
    let service = Service::start(&[&arguments[..], &["--workers", "2"]].concat(), Stdio::null());
    let start = service.memory_mib("VmRSS");
    std::thread::scope(|scope| {
        for i in 0..CLIENTS {
            let (files, service) = (&files, &service);
            scope.spawn(move || {
                let (state, model) = (files.path(&format!("state-{i}")), files.path("spam"));
                let client = ["classify", "--url", &service.url, "--state-dir", &state, "--model", &model];
                let token = ["--token-file", &files.path(&format!("token-{i}"))];
                let messages = ["claim winner prize", "lunch meeting"];
                let labels = text(&unspoken(&[&client[..], &token[..], &messages[..]].concat()));
                assert!(labels.contains("spam") && labels.contains("ham"), "{labels}");
            });
        }
    });
    let peak = service.memory_mib("VmHWM");
    println!("start {start} MiB, peak {peak} MiB");
    assert!(peak <= LIMIT_MIB + MARGIN_MIB, "{peak} MiB at the peak");
}

#[test]
fn offers_come_from_a_configuration_file_and_flags_add_to_them() {
    let files = Files::new();
    let content = format!(
        "listen = '127.0.0.1:1'\nmetrics_listen = '127.0.0.1:0'\ndata_dir = '{}'\n\
         [[offer]]\nkind = 'classify'\nname = 'classify/one'\npath = '{spam}'\npreset = 'n14_depth8_scale30'\n\
         [[offer]]\nkind = 'pir'\npath = '{}'\n",
        files.path("keys"),
        files.path("codes"),
        spam = files.path("spam"),
    );
    let path = config(files.directory.path(), &content);
    let images = files.offer("pir", "images", "");
    // The listening address of the flags overrides the address of the file.
    let service = Service::start(&["--config", &path, "--offer", &images], Stdio::null());
    assert_eq!(names(&service), ["classify/one", "pir/codes", "pir/images"]);

    let metrics = service.metrics.as_deref().unwrap();
    let address = metrics.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut body = String::new();
    stream.read_to_string(&mut body).unwrap();
    assert!(body.contains("unspoken_requests_total{method=\"GET\",route=\"/v1/apps\",status=\"200\"} 1"), "{body}");
}

#[test]
fn mistakes_in_offers_are_named_before_anything_is_loaded() {
    let refused = |arguments: &[&str]| complaint(&unspoken(&[&["serve"], arguments].concat()));
    let offer = |text: &str| refused(&["--offer", text]);
    for (text, parts) in [
        ("clasify=/nowhere", &["no kind \"clasify\"", "classify, embed, digits, matrix, model, pir"][..]),
        ("classify=/nowhere,colour=red", &["no option \"colour\"", "query, preset, plan"]),
        ("classify=/nowhere,batch=32", &["no option \"batch\"", "query, preset, plan"]),
        ("pir=/nowhere,query=compact", &["no option \"query\"", "they have: none"]),
        ("classify:Big Name=/nowhere", &["\"Big Name\" is not valid in a URL", "KIND:NAME=DIR"]),
        ("classify=/nowhere,query=fast", &["option query is \"fast\"", "direct"]),
        ("classify=/nowhere,plan=best", &["option plan is \"best\""]),
        ("classify=/nowhere,error=2^x", &["option error is \"2^x\"", "such as 2^-12"]),
        ("embed=/nowhere,error=-1", &["option error is \"-1\"", "a positive number"]),
        ("digits=/nowhere,error=2^-12", &["no option \"error\"", "preset, batch"]),
        ("digits=/nowhere,batch=many", &["option batch is \"many\""]),
        ("classify:classify/spam=/nowhere", &["cannot offer /nowhere as classify/spam", "/nowhere/server"]),
    ] {
        let said = offer(text);
        assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
    }
    // Not an offer at all: a command line error.
    let output = unspoken(&["serve", "--offer", "classify"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("KIND[:NAME]=PATH"));

    let twice = refused(&["--offer", "classify:a/b=/one", "--offer", "embed:a/b=/two"]);
    assert!(twice.contains("two offers are called a/b: /one and /two"), "{twice}");
    let twice = refused(&["--offer", "pir:pir/one=/two", "--pir", "/nowhere/one"]);
    assert!(twice.contains("two offers are called pir/one"), "{twice}");
    let nothing = refused(&[]);
    for part in ["nothing to serve", "--offer KIND:NAME=DIR", "--offer classify:classify/spam=model", "digits, matrix"]
    {
        assert!(nothing.contains(part), "{nothing}");
    }
    for text in ["localhost", "8080", "no-such-host.invalid:80"] {
        let output = unspoken(&["serve", "--listen", text]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("needed HOST:PORT"), "{said}");
    }

    let directory = tempfile::tempdir().unwrap();
    let path = config(directory.path(), "[[offer]]\nkind = 'classify'\npath = '/nowhere'\nquery = ['compact']\n");
    let list = refused(&["--config", &path]);
    assert!(list.contains("service.toml") && list.contains("must be a text, a number or a truth value"), "{list}");
    let path = config(directory.path(), "[[offer]]\nkind = 'classify'\n");
    assert!(refused(&["--config", &path]).contains("path"));
    let path = config(directory.path(), "[[offer]]\nkind = 'classify'\npath = '/nowhere'\nbatch = 32\n");
    assert!(refused(&["--config", &path]).contains("no option \"batch\""));
}

#[test]
fn insecure_presets_are_refused_however_they_are_given() {
    let directory = tempfile::tempdir().unwrap();
    let preset = "insecure_n11_depth9_scale50";
    for kind in ["classify", "embed", "digits"] {
        let said = complaint(&unspoken(&["serve", "--offer", &format!("{kind}=/nowhere,preset={preset}")]));
        assert!(said.contains("is for tests"), "{kind}: {said}");
        let content = format!("[[offer]]\nkind = '{kind}'\npath = '/nowhere'\npreset = '{preset}'\n");
        let said = complaint(&unspoken(&["serve", "--config", &config(directory.path(), &content)]));
        assert!(said.contains("is for tests"), "{kind}: {said}");
    }
    for flag in ["--classify", "--embed", "--digits"] {
        let said = complaint(&unspoken(&["serve", flag, &format!("/nowhere,preset={preset}")]));
        assert!(said.contains("is for tests"), "{flag}: {said}");
    }
}

#[test]
fn flags_of_kinds_are_short_for_offers() {
    let refused = |arguments: &[&str]| complaint(&unspoken(&[&["serve"], arguments].concat()));
    let said = refused(&["--classify", "/nowhere,query=compact", "--digits", "/elsewhere"]);
    assert!(said.contains("cannot offer /nowhere as classify/text"), "{said}");
    let said = refused(&["--digits", "digits/ours=/nowhere"]);
    assert!(said.contains("cannot offer /nowhere as digits/ours"), "{said}");
    let said = refused(&["--digits", "/nowhere,query=compact"]);
    assert!(said.contains("offers of kind digits have no option \"query\""), "{said}");
    let said = refused(&["--digits", "/nowhere", "--digits", "/nowhere"]);
    assert!(said.contains("two offers are called digits/mnist"), "{said}");
    // The spelling of the last release.
    let said = refused(&["--digits", "/nowhere", "--name", "digits/ours"]);
    assert!(said.contains("cannot offer /nowhere as digits/ours") && said.contains("is spelled"), "{said}");
    let several = unspoken(&["serve", "--classify", "/nowhere", "--embedding", "/nowhere", "--name", "a/b"]);
    let said = String::from_utf8_lossy(&several.stderr).into_owned();
    assert!(several.status.code() == Some(2) && said.contains("unexpected argument '--name'"), "{said}");
}

#[test]
fn a_head_over_a_table_classifies_texts_as_it_does_in_the_clear() {
    let files = Files::new();
    let words = [["t0", "t2", "t4"], ["t1", "t3", "t5"]];
    let line = |i: usize| format!("{}\t{} {}\n", ["even", "odd"][i % 2], words[i % 2][i % 3], words[i % 2][i / 2 % 3]);
    std::fs::write(files.path("texts.tsv"), (0..90).map(line).collect::<String>()).unwrap();
    let (table, head) = (files.path("glove"), files.path("head.safetensors"));
    let train = |more: &[&str]| {
        let data = files.path("texts.tsv");
        let base = ["embed", "train", "--model", &table, "--data", &data, "--out", &head];
        unspoken(&[&base[..], more].concat())
    };
    assert!(complaint(&train(&["--max-tokens", "100"])).contains("max_tokens: 100, needed a power of two"));
    let report: serde_json::Value =
        serde_json::from_str(&text(&train(&["--max-tokens", "8", "--ridge", "0.01", "--json"]))).unwrap();
    assert_eq!(report["classes"], serde_json::json!(["even", "odd"]));
    let accuracy = report["accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.7, "{report}");

    let keys = files.path("keys");
    let offer = format!("embed/parity={table},head={head}");
    let service = Service::start(&["--classify", &offer, "--data-dir", &keys], Stdio::null());
    let state = files.path("state");
    let ask = |more: &[&str]| {
        let base = ["classify", "--url", &service.url, "--state-dir", &state, "--model", &table];
        unspoken(&[&base[..], more].concat())
    };
    let said = text(&ask(&["--json", "t0 t2", "t1 t3 t5", ""]));
    let answers: Vec<serde_json::Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 3);
    for answer in &answers {
        // With two classes the scores are minus and plus half of the logarithm of the odds.
        let [even, odd] = ["even", "odd"].map(|class| answer["scores"][class].as_f64().unwrap());
        assert!((even + odd).abs() < 1e-3, "{answer}");
        assert_eq!(answer["label"], if odd > even { "odd" } else { "even" });
    }
    assert!(answers[0]["scores"] != answers[1]["scores"] && answers[1]["scores"] != answers[2]["scores"], "{said}");
    let long = "t1 ".repeat(9);
    let refused = complaint(&ask(&[&long]));
    assert!(refused.contains("found 9 tokens in text 1, needed at most 8") && refused.contains("--cut"), "{refused}");
    let cut = ask(&["--cut", "--share", "8", &long]);
    assert!(text(&cut).ends_with(&format!("\t{long}\n")));
    // A label that noise decides is not printed unless asked for, and nobody is told to ask again.
    let drowned = ask(&["--share", "40", "t0 t2"]);
    let refused = complaint(&drowned);
    assert!(refused.contains("noise of 40 bits may have decided, 1 of 1"), "{refused}");
    assert!(refused.contains("Do not ask a service again"), "{refused}");
    assert!(String::from_utf8_lossy(&drowned.stdout).starts_with("?\t"), "{drowned:?}");
    let said = text(&ask(&["--share", "40", "--uncertain", "t0 t2"]));
    let fields: Vec<&str> = said.trim_end().split('\t').collect();
    assert!(fields.len() == 3 && fields[1].parse::<f64>().unwrap() < 0.95 && fields[2] == "t0 t2", "{said}");
    let said = text(&ask(&["--share", "40", "--uncertain", "--json", "t0 t2"]));
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(answer["certainty"].as_f64().unwrap() < 0.95, "{answer}");
    assert!(String::from_utf8_lossy(&cut.stderr).contains("1 of 1 texts have more than 8 tokens"));
}

#[test]
fn heads_that_do_not_fit_are_refused() {
    let files = Files::new();
    let refused = |more: &[&str]| complaint(&unspoken(&[&["serve"], more].concat()));
    let offer = files.offer("classify", "glove", ",head=/nowhere/head.safetensors");
    let said = refused(&["--offer", &offer]);
    assert!(said.contains("option head") && said.contains("read /nowhere/head.safetensors"), "{said}");
    let (table, head) = (files.path("glove"), files.path("glove/server.safetensors"));
    let said = refused(&["--classify", &format!("{table},head={head}")]);
    assert!(said.contains("found 1 tensors: \"subtables\"") && said.contains("\"weight\" and \"bias\""), "{said}");
    let header = r#"{"__metadata__":{"classes":"[\"a\",\"b\"]"},"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
        "weight":{"dtype":"F32","shape":[2,4],"data_offsets":[8,40]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 40]].concat();
    std::fs::write(files.path("wide.safetensors"), bytes).unwrap();
    let said = refused(&["--classify", &format!("{table},head={}", files.path("wide.safetensors"))]);
    assert!(said.contains("found weights for 4 numbers of an embedding, needed 3"), "{said}");
}

#[test]
fn the_help_shows_kinds_options_and_examples() {
    let help = text(&unspoken(&["serve", "--help"]));
    for part in [
        "classify",
        "embed",
        "digits",
        "pir",
        "[default name: pir/{directory}]",
        "batch",
        "may be combined",
        "Examples:",
        "[[offer]]",
    ] {
        assert!(help.contains(part), "{part}\n{help}");
    }
    assert!(help.contains("unspoken serve --classify classify/spam=model"), "{help}");
}

#[test]
fn the_page_and_other_origins_are_checked_before_anything_is_loaded() {
    let refused = |more: &[&str]| {
        let output = unspoken(&[&["serve", "--classify", "/nowhere"], more].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (origin, says) in [("*", "name each origin"), ("null", "hostile"), ("https://a.example/b", "https://a.example")]
    {
        let (code, said) = refused(&["--allow-origin", origin]);
        assert!(code == Some(2) && said.contains(says), "{said}");
    }
    let empty = tempfile::tempdir().unwrap();
    let (code, said) = refused(&["--web", empty.path().to_str().unwrap()]);
    assert!(code == Some(1) && said.contains("no file index.html") && said.contains("make web"), "{said}");
}

#[test]
fn the_description_of_the_interface_is_printed() {
    let document: serde_json::Value = serde_json::from_str(&text(&unspoken(&["openapi"]))).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/keys"]["post"].is_object());
}

/// The file of an offer is a pipe into which nobody writes, so the service never has it.
#[cfg(unix)]
#[test]
fn clients_are_told_what_a_service_loads() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    assert!(Command::new("mkfifo").arg(path("steps.public")).status().unwrap().success());
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut service = Command::new(env!("CARGO_BIN_EXE_unspoken"))
        .args(["serve", "--listen", &address, "--data-dir", &path("data")])
        .args(["--offer", &format!("sums:sums/steps={}", path("steps.public"))])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (url, state) = (format!("http://{address}"), path("state"));
    let asked =
        ["pir", "get", "K1", "--application", "pir/codes", "--timeout", "5", "--url", &url, "--state-dir", &state];
    let said = complaint(&unspoken(&asked));
    let step =
        format!("waiting for {url}: the service is starting: loading sums/steps (1 of 1) (starting); giving up in");
    assert!(said.contains(&step) && said.contains("error: gave up after"), "{said}");
    service.kill().unwrap();
    service.wait().unwrap();
}
