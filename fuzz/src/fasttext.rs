//! Model files. An input holds the two or four files of a directory one after the other.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;
use unspoken_fasttext::{Encoder, Model, ScoreTables};

use crate::Target;
use crate::fixtures::MODEL;

const CLIENT: [&str; 2] = ["client.json", "client.safetensors"];
const SERVER: [&str; 2] = ["server.json", "server.safetensors"];
const BOTH: [&str; 4] = [CLIENT[0], CLIENT[1], SERVER[0], SERVER[1]];

/// `Encoder::load`: what it reads, it writes again; the codes of any text stay below the columns.
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
    repair: |data| repair(data, &CLIENT),
    seeds: || vec![saved(&CLIENT)],
};

/// `ScoreTables::load`: the scores are those of the file, finite, and within the bound they announce.
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
    repair: |data| repair(data, &SERVER),
    seeds: || vec![saved(&SERVER)],
};

/// `Model::load`: what it reads, it writes again; every text has a label.
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
    repair: |data| repair(data, &BOTH),
    seeds: || vec![saved(&BOTH)],
};

/// A directory that is removed when dropped, in memory where the machine has one there.
struct Directory(TempDir);

impl Directory {
    fn empty() -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Directory(made.expect("a directory"))
    }

    fn of(data: &[u8], names: &[&str]) -> Self {
        let directory = Self::empty();
        for (name, bytes) in names.iter().zip(split(data, names.len())) {
            fs::write(directory.path().join(name), bytes).expect("writes");
        }
        directory
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The files of an input: each after its length (u32), as long as there are bytes.
fn split(mut data: &[u8], count: usize) -> Vec<&[u8]> {
    let mut files = Vec::new();
    while files.len() < count {
        let (length, rest) = data.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        let (file, rest) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
        files.push(file);
        data = rest;
    }
    files
}

fn join<'a>(files: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    files.flat_map(|file| [&(file.len() as u32).to_le_bytes(), file].concat()).collect()
}

fn saved(names: &[&str]) -> Vec<u8> {
    static SAVED: LazyLock<Directory> = LazyLock::new(|| {
        let directory = Directory::empty();
        MODEL.save(directory.path()).expect("saves");
        directory
    });
    let files: Vec<Vec<u8>> = names.iter().map(|n| fs::read(SAVED.path().join(n)).expect("reads")).collect();
    join(files.iter().map(Vec::as_slice))
}

/// Lengths of the files, and in each JSON the checksum of the weights after it.
fn repair(data: &mut Vec<u8>, names: &[&str]) {
    let mut files: Vec<Vec<u8>> = split(data, names.len()).into_iter().map(<[u8]>::to_vec).collect();
    for pair in files.chunks_exact_mut(2) {
        let sum = blake3::hash(&pair[1]).to_hex();
        let key = b"\"weights_blake3\": \"";
        let start = pair[0].windows(key.len()).position(|window| window == key).map(|at| at + key.len());
        if let Some(field) = start.and_then(|start| pair[0].get_mut(start..start + sum.len())) {
            field.copy_from_slice(sum.as_bytes());
        }
    }
    *data = join(files.iter().map(Vec::as_slice));
}
