//! Targets for the files of both halves of a rotated model; an input holds the files one after the other.

use std::fs;

use ndarray::Array2;
use unspoken_llama_files::LoadedModel;
use unspoken_llama_model::{ClientModel, Coverage, DraftTexts, Message, Rendering, RotatedModel};

use crate::Target;
use crate::files::{self, Directory};
use crate::llama::{read_text, repair_padded_safetensors, small_model};

const CLIENT_FILES: [&str; 7] = [
    "client.json",
    "client.safetensors",
    "tokenizer.json",
    "head.safetensors",
    "coverage.json",
    "chat_template.json",
    "drafts.json",
];
const ROTATED_FILE: [&str; 1] = ["tamed.safetensors"];

/// `ClientModel::load`: can be saved and loaded again without a change; the tokenizer reads text.
pub static CLIENT: Target = Target {
    name: "llama_client_half",
    run: |data| {
        let directory = Directory::of(data, &CLIENT_FILES);
        let Ok(client) = ClientModel::load(directory.path()) else { return false };
        let again = Directory::empty();
        client.save(again.path()).expect("saves");
        let read = ClientModel::load(again.path()).expect("its own files");
        assert_eq!((read.id(), read.config(), read.prefix()), (client.id(), client.config(), client.prefix()));
        assert_eq!(read.embedding(), client.embedding());
        let (rows, tokenizer) = (client.config().vocabulary, client.tokenizer());
        assert_eq!(client.embedding().dim(), (rows, client.config().width));
        assert!(client.prefix().iter().chain(tokenizer.ends()).all(|token| (*token as usize) < rows));
        let normed = Array2::ones((2, client.config().width));
        assert_eq!(client.logits(normed.view()).dim(), (2, rows));
        assert_eq!(read.uncovered(&[0, 1, 2, 3]), client.uncovered(&[0, 1, 2, 3]));
        assert_eq!(read.tokenizer().chat_template(), tokenizer.chat_template());
        assert_eq!(read.draft_texts(), client.draft_texts());
        let next = client.draft_texts().and_then(|texts| texts.next(&[0, 1, 2]));
        assert!(next.is_none_or(|(token, run)| (token as usize) < rows && (1..=3).contains(&run)));
        // A template may refuse any message. What it makes public does not depend on private ones.
        let public = |question: &str| {
            let messages = [Message::new("system", "Be kind."), Message::new("user", question)];
            tokenizer.prompt(&messages, 1, &Rendering::default()).map(|prompt| prompt.public)
        };
        if let (Ok(one), Ok(other)) = (public("Why?"), public("How long is it?")) {
            assert_eq!(one, other);
        }
        read_text(tokenizer);
        true
    },
    repair: |data| {
        // The record has a sum of each of the other files.
        let mut read = files::copied(data, CLIENT_FILES.len());
        for (field, number) in [("embedding", 1), ("tokenizer", 2), ("head", 3)] {
            let sum = blake3::hash(&read[number]);
            files::repair_sum(&mut read[0], field, &sum);
        }
        *data = files::join(read.iter().map(Vec::as_slice));
    },
    seeds: || {
        let seed = |tied| {
            let LoadedModel { model, tokenizer } = small_model(tied);
            let directory = Directory::empty();
            let template = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}";
            let tokenizer = tokenizer.with_chat_template_source(template).expect("a template");
            let client = ClientModel::new(&RotatedModel::new(model, vec![1]), tokenizer);
            let texts = DraftTexts::new(&[vec![1, 2, 3], vec![0, 1, 2, 4]], client.config().vocabulary);
            let client = client.with_draft_texts(texts.expect("tokens of the vocabulary"));
            client.with_coverage(Coverage::new([1, 2, 5])).save(directory.path()).expect("saves");
            saved(&directory, &CLIENT_FILES)
        };
        vec![seed(true), seed(false)]
    },
};

/// `RotatedModel::load`: can be saved to the same file again.
pub static ROTATED: Target = Target {
    name: "llama_rotated",
    run: |data| {
        let directory = Directory::of(data, &ROTATED_FILE);
        let Ok(rotated) = RotatedModel::load(directory.path()) else { return false };
        let again = Directory::empty();
        rotated.save(again.path()).expect("saves");
        let read = RotatedModel::load(again.path()).expect("its own file");
        assert_eq!((read.id(), read.prefix()), (rotated.id(), rotated.prefix()));
        assert_eq!(read.model().config, rotated.model().config);
        true
    },
    repair: |data| {
        let mut read = files::copied(data, ROTATED_FILE.len());
        repair_padded_safetensors(&mut read[0]);
        *data = files::join(read.iter().map(Vec::as_slice));
    },
    seeds: || {
        let seed = |tied| {
            let directory = Directory::empty();
            RotatedModel::new(small_model(tied).model, vec![1]).save(directory.path()).expect("saves");
            saved(&directory, &ROTATED_FILE)
        };
        vec![seed(true), seed(false)]
    },
};

fn saved(directory: &Directory, names: &[&str]) -> Vec<u8> {
    // A model whose head is the embedding has no file for it.
    let file = |name: &&str| fs::read(directory.path().join(name)).unwrap_or_default();
    let files: Vec<Vec<u8>> = names.iter().map(file).collect();
    files::join(files.iter().map(Vec::as_slice))
}
