//! Targets for compressed embedding tables, and for the file formats of published tables.

use std::fs;

use unspoken_embedding::{CompressedTable, EmbeddingError, EmbeddingTable, LinearHead, Source, Subtables, TokenCodes};

use crate::Target;
use crate::files::{self, Directory};
use crate::fixtures::{GUMBEL_TABLE, HEAD, TABLE};

const CLIENT: [&str; 2] = ["client.json", "client.safetensors"];
const SERVER: [&str; 2] = ["server.json", "server.safetensors"];
const NUMPY: [&str; 2] = ["table.npy", "tokens.txt"];
const TENSORS: [&str; 2] = ["table.safetensors", "tokenizer.json"];
const TENSOR: &str = "subtables";

/// `TokenCodes::load`: each token is found in its row, and its code is below the number of columns.
pub static CODES: Target = Target {
    name: "embedding_codes",
    run: |data| {
        let directory = Directory::of(data, &CLIENT);
        let Ok(codes) = TokenCodes::load(directory.path()) else { return false };
        let shape = codes.shape();
        for (id, token) in codes.tokens().as_slice().iter().enumerate() {
            assert_eq!(codes.token_id(token).expect("a token"), id);
            let code = codes.code(id).expect("an id");
            assert!(code.len() == shape.subtables && code.iter().all(|&column| usize::from(column) < shape.columns));
        }
        assert!(codes.code(codes.tokens().len()).is_err(), "an id outside the vocabulary");
        true
    },
    repair: |data| files::repair(data, &CLIENT),
    seeds: || vec![saved(&TABLE, &CLIENT)],
};

/// `Subtables::load`: the numbers come from the file, and no embedding exceeds the announced bound.
pub static SUBTABLES: Target = Target {
    name: "embedding_subtables",
    run: |data| {
        let directory = Directory::of(data, &SERVER);
        let Ok(subtables) = Subtables::load(directory.path()) else { return false };
        let bytes: Vec<u8> = subtables.values().iter().flat_map(|number| number.to_le_bytes()).collect();
        let file = fs::read(directory.path().join(SERVER[1])).expect("reads");
        assert!(file.ends_with(&bytes), "the numbers changed");
        let bound = subtables.bound() * (1.0 + 1e-6);
        let shape = subtables.shape();
        let last = vec![shape.columns as u16 - 1; shape.subtables];
        let embedding = subtables.reconstruct(&last).expect("columns of the table");
        assert!(embedding.len() == shape.width && bound.is_finite());
        assert!(embedding.iter().all(|number| f64::from(number.abs()) <= bound));
        true
    },
    repair: |data| files::repair(data, &SERVER),
    seeds: || vec![saved(&TABLE, &SERVER), saved(&GUMBEL_TABLE, &SERVER)],
};

/// `Source::Npy`: the table has one row for each token, and all numbers are finite.
pub static NPY: Target = Target {
    name: "embedding_npy",
    run: |data| {
        let directory = Directory::of(data, &NUMPY);
        let [table, tokens] = NUMPY.map(|name| directory.path().join(name));
        is_sound(Source::Npy { table, tokens }.read())
    },
    repair: |data| {
        let mut files = files::copied(data, NUMPY.len());
        repair_npy(&mut files[0]);
        *data = files::join(files.iter().map(Vec::as_slice));
    },
    seeds: || {
        let array = |order: &str| {
            let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': (2, 3), }}\n");
            let head = [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
            let numbers: Vec<u8> = (0..6u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
            files::join([[head, numbers].concat().as_slice(), b"the\n[UNK]\n"].into_iter())
        };
        vec![array("False"), array("True")]
    },
};

/// `Source::Safetensors`: as for [`NPY`].
pub static SAFETENSORS: Target = Target {
    name: "embedding_safetensors",
    run: |data| {
        let directory = Directory::of(data, &TENSORS);
        let [table, tokens] = TENSORS.map(|name| directory.path().join(name));
        is_sound(Source::Safetensors { table, tensor: TENSOR.into(), tokens }.read())
    },
    repair: |data| {
        let mut files = files::copied(data, TENSORS.len());
        repair_safetensors(&mut files[0]);
        *data = files::join(files.iter().map(Vec::as_slice));
    },
    seeds: || {
        let header = format!(r#"{{"{TENSOR}":{{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}}}"#);
        let numbers: Vec<u8> = (0..6u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
        let table = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &numbers].concat();
        let tokens = br#"{"version":"1.0","model":{"type":"WordPiece","vocab":{"the":0,"ing":1}}}"#;
        vec![files::join([table.as_slice(), tokens].into_iter())]
    },
};

/// `LinearHead::load`: the same head again, with a class for each text, and centred tables if it fits the table.
pub static LINEAR_HEAD: Target = Target {
    name: "embedding_head",
    run: |data| {
        let directory = Directory::empty();
        let path = directory.path().join("head.safetensors");
        fs::write(&path, data).expect("writes");
        let Ok(head) = LinearHead::load(&path) else { return false };
        head.save(&path).expect("writes");
        assert!(LinearHead::load(&path).expect("its own file") == head, "another head");
        let Ok(folded) = head.fold(TABLE.subtables()) else { return true };
        let scores = head.scores(&TABLE, &[1, 0, 2]).expect("tokens of the table");
        assert!(head.classes().iter().any(|class| class == head.class_of(&scores)));
        let numbers = folded.values().iter().chain(folded.token_mean()).chain(&scores);
        assert!(numbers.copied().all(f64::is_finite));
        true
    },
    repair: |data| repair_safetensors(data),
    seeds: || {
        let directory = Directory::empty();
        let path = directory.path().join("head.safetensors");
        HEAD.save(&path).expect("writes");
        let single = r#"{"__metadata__":{"classes":"[\"a\",\"b\"]"},
            "bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
            "weight":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}}"#;
        let file = [&(single.len() as u64).to_le_bytes(), single.as_bytes(), &[0; 16]].concat();
        vec![fs::read(&path).expect("reads"), file]
    },
};

fn is_sound(read: Result<EmbeddingTable, EmbeddingError>) -> bool {
    let Ok(table) = read else { return false };
    assert_eq!(table.values().len(), table.tokens().len() * table.width());
    assert!(table.values().iter().all(|number| number.is_finite()));
    assert!(table.row(table.tokens().len() - 1).is_some_and(|row| row.len() == table.width()));
    true
}

/// Repairs the magic number and, in version 1.0, the length of the header, which ends with a newline.
fn repair_npy(file: &mut Vec<u8>) {
    if file.len() < 10 {
        file.resize(10, 0);
    }
    file[..6].copy_from_slice(b"\x93NUMPY");
    file[7] = 0;
    if let (1, Some(end)) = (file[6], file[10..].iter().position(|&byte| byte == b'\n')) {
        file[8..10].copy_from_slice(&(end as u16 + 1).to_le_bytes());
    }
}

/// Repairs the length of the header, which ends with its last brace and spaces.
pub(crate) fn repair_safetensors(file: &mut [u8]) {
    let Some(brace) = file.iter().rposition(|&byte| byte == b'}') else { return };
    let end = brace + file[brace + 1..].iter().take_while(|&&byte| byte == b' ').count();
    if let (Some(length), Some(header)) = (file.first_chunk_mut::<8>(), end.checked_sub(7)) {
        *length = (header as u64).to_le_bytes();
    }
}

fn saved(table: &CompressedTable, names: &[&str]) -> Vec<u8> {
    let directory = Directory::empty();
    table.save(directory.path()).expect("saves");
    let files: Vec<Vec<u8>> = names.iter().map(|n| fs::read(directory.path().join(n)).expect("reads")).collect();
    files::join(files.iter().map(Vec::as_slice))
}
