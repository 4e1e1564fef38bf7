//! Targets for model files. An input holds the two or four files of a directory one after the other.

use std::fs;
use std::sync::LazyLock;

use unspoken_fasttext::{Encoder, Model, ScoreTables};

use crate::Target;
use crate::files::{self, Directory};
use crate::fixtures::MODEL;

const CLIENT: [&str; 2] = ["client.json", "client.safetensors"];
const SERVER: [&str; 2] = ["server.json", "server.safetensors"];
const BOTH: [&str; 4] = [CLIENT[0], CLIENT[1], SERVER[0], SERVER[1]];

/// `Encoder::load`: saving and loading again gives an equal encoder; the codes of any text are below the number of
/// columns.
pub static ENCODER: Target = Target {
    name: "fasttext_encoder",
    run: |data| {
        let directory = Directory::of(data, &CLIENT);
        let Ok(encoder) = Encoder::load(directory.path()) else { return false };
        let again = Directory::empty();
        encoder.save(again.path()).expect("saves");
        assert_eq!(Encoder::load(again.path()).expect("its own files"), encoder);
        for text in ["claim your free prize", "", "\u{1F600} zebra"] {
            let codes = encoder.encode(text);
            assert!((1..=encoder.shape().max_tokens).contains(&codes.len()));
            assert!(codes.tokens().flatten().all(|&code| usize::from(code) < encoder.shape().columns));
        }
        true
    },
    repair: |data| files::repair(data, &CLIENT),
    seeds: || vec![saved(&CLIENT)],
};

/// `ScoreTables::load`: the scores come from the file, are finite, and within the announced bound.
pub static TABLES: Target = Target {
    name: "fasttext_tables",
    run: |data| {
        let directory = Directory::of(data, &SERVER);
        let Ok(tables) = ScoreTables::load(directory.path()) else { return false };
        let bytes: Vec<u8> = tables.values().iter().flat_map(|score| score.to_le_bytes()).collect();
        let file = fs::read(directory.path().join(SERVER[1])).expect("reads");
        assert!(file.ends_with(&bytes), "the scores changed");
        assert!(tables.score_bound().is_finite() && tables.values().iter().all(|score| score.is_finite()));
        true
    },
    repair: |data| files::repair(data, &SERVER),
    seeds: || vec![saved(&SERVER)],
};

/// `Model::load`: saving and loading again gives an equal model; every text has a label.
pub static MODEL_FILES: Target = Target {
    name: "fasttext_model",
    run: |data| {
        let directory = Directory::of(data, &BOTH);
        let Ok(model) = Model::load(directory.path()) else { return false };
        let again = Directory::empty();
        model.save(again.path()).expect("saves");
        assert_eq!(Model::load(again.path()).expect("its own files"), model);
        let label = model.predict("claim your free prize").to_owned();
        assert!(model.encoder().labels().contains(&label));
        true
    },
    repair: |data| files::repair(data, &BOTH),
    seeds: || vec![saved(&BOTH)],
};

fn saved(names: &[&str]) -> Vec<u8> {
    static SAVED: LazyLock<Directory> = LazyLock::new(|| {
        let directory = Directory::empty();
        MODEL.save(directory.path()).expect("saves");
        directory
    });
    let files: Vec<Vec<u8>> = names.iter().map(|n| fs::read(SAVED.path().join(n)).expect("reads")).collect();
    files::join(files.iter().map(Vec::as_slice))
}
