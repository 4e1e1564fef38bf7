//! Private retrieval: keys, queries, responses, and the client's half.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::Context;
use unspoken_database::{Builder, Database as Stored, Record};
use unspoken_pir::{PirClient, PirOptions, PirServer, Question};
use unspoken_pir_scheme::dense::{self, DenseResponse, DenseShape, DenseTable};
use unspoken_pir_scheme::encrypted::{self, EncryptedView};
use unspoken_pir_scheme::{
    Database, DatabaseShape, EncryptedEntry, Layout, Length, Mode, PirParameters, PirSecret, PreparedKeys, Preset,
    Query, Response, TableKind, Tables, answer,
};
use unspoken_protocol::{ClientHalf, DurableCounters};
use unspoken_ring::SecretRng;
use zeroize::Zeroizing;

use super::applications::{Asked, ask_server, open_client};
use super::{secret_generator, secret_key};
use crate::constant_time::memcheck::{mark_public, mark_secret};

const PIECES: u64 = 64;
const INDEX: u64 = 37;
const KEYS: usize = 40;

fn parameters() -> anyhow::Result<PirParameters> {
    Ok(Preset::InsecureN11.build()?)
}

/// The key of [`secret_key`], not marked secret.
fn known_key() -> Zeroizing<[u8; 32]> {
    let mut key = secret_key();
    mark_public(key.as_mut_slice());
    key
}

fn secret_index() -> u64 {
    let mut index = [INDEX];
    mark_secret(&mut index);
    index[0]
}

pub fn keys(_: &Path) -> anyhow::Result<()> {
    let mut generator = secret_generator();
    let secret = PirSecret::derive(&parameters()?, &secret_key())?;
    // The keys of compact queries include the keys of all other kinds.
    secret.keys(Mode::Compact, &mut generator)?.write(&mut io::sink())?;
    Ok(())
}

pub fn queries(_: &Path) -> anyhow::Result<()> {
    let mut generator = secret_generator();
    let parameters = parameters()?;
    let secret = PirSecret::derive(&parameters, &secret_key())?;
    let shape = DatabaseShape::new(&parameters, PIECES)?;
    for mode in [Mode::Packed, Mode::Bits, Mode::Compact] {
        secret.query(mode, shape, secret_index(), &mut generator)?.to_bytes(&parameters);
    }
    secret.session_query(5, shape, secret_index(), &mut generator)?.to_bytes(&parameters);
    secret.dense_query(dense_shape(&parameters)?, secret_index(), &mut generator)?.to_bytes(&parameters);
    let tables = encrypted_tables(&parameters)?;
    let mut cell = encrypted_cell(INDEX);
    mark_secret(&mut cell);
    secret.encrypt_entry(&tables, 0, |_| &cell, &mut generator)?.to_bytes(&tables);
    Ok(())
}

/// Some rows, and eight places in each.
fn dense_shape(parameters: &PirParameters) -> anyhow::Result<DenseShape> {
    Ok(DenseShape::new(parameters, PIECES, 256)?)
}

fn dense_cell(cell: u64) -> Vec<u8> {
    (cell..cell + 256).map(|i| (i * 131) as u8).collect()
}

/// Cells that are encrypted by their owner, each of one piece.
fn encrypted_tables(parameters: &PirParameters) -> anyhow::Result<Tables> {
    let layout = Layout::Index { records: PIECES, length: Length::Fixed(200) };
    Ok(Tables::new(parameters, layout, TableKind::Encrypted)?)
}

fn encrypted_cell(cell: u64) -> Vec<u8> {
    (cell..cell + 200).map(|i| (i * 37) as u8).collect()
}

/// Writes the responses to queries for [`INDEX`], from a table of each kind.
pub fn prepare_reading(directory: &Path) -> anyhow::Result<()> {
    let parameters = parameters()?;
    let records: Vec<u8> = (0..PIECES as usize * parameters.piece_bytes()).map(|i| (i * 131 + i / 251) as u8).collect();
    let database = Database::new(&parameters, 0, &records)?;
    let secret = PirSecret::derive(&parameters, &known_key())?;
    let mut generator = SecretRng::insecure_from_seed(4);
    let mut bundle = Vec::new();
    secret.keys(Mode::Packed, &mut generator)?.write(&mut bundle)?;
    let keys = PreparedKeys::read(&parameters, &mut bundle.as_slice())?;
    let query: Query = secret.query(Mode::Packed, database.shape(), INDEX, &mut generator)?;
    let responses = answer(&keys, database.shape(), &[database.view()], &query, &AtomicBool::new(false))?;
    std::fs::write(directory.join("response"), responses[0].to_bytes(&parameters))?;
    let table = DenseTable::build(&parameters, dense_shape(&parameters)?, dense_cell)?;
    let query = secret.dense_query(table.shape(), INDEX, &mut generator)?;
    let (planes, queries) = ([table.groups()], [(&keys, &query)]);
    let responses = dense::answer(&parameters, table.shape(), &planes, &queries, &AtomicBool::new(false))?;
    std::fs::write(directory.join("dense-response"), responses[0][0].to_bytes())?;
    let (tables, mut entries) = (encrypted_tables(&parameters)?, Vec::new());
    let cells: Vec<Vec<u8>> = (0..PIECES).map(encrypted_cell).collect();
    for number in 0..EncryptedEntry::count(&tables) {
        let entry = secret.encrypt_entry(&tables, number, |cell| &cells[cell as usize], &mut generator)?;
        entries.extend(entry.to_bytes(&tables));
    }
    let view = EncryptedView { entries: &entries, changes: &BTreeMap::new() };
    let query = secret.query(Mode::Packed, DatabaseShape::new(&parameters, PIECES)?, INDEX, &mut generator)?;
    let responses = encrypted::answer(&keys, &tables, view, &query, &AtomicBool::new(false))?;
    std::fs::write(directory.join("encrypted-response"), responses[0].to_bytes(&parameters))?;
    Ok(())
}

pub fn reading(directory: &Path) -> anyhow::Result<()> {
    let parameters = parameters()?;
    let response = Response::from_bytes(&parameters, &std::fs::read(directory.join("response"))?)?;
    let secret = PirSecret::derive(&parameters, &secret_key())?;
    let mut piece = secret.extract(&response, 0, secret_index())?;
    mark_public(&mut piece);
    let expected: Vec<u8> =
        (INDEX as usize * piece.len()..).map(|i| (i * 131 + i / 251) as u8).take(piece.len()).collect();
    anyhow::ensure!(*piece == expected, "the response of the prepared query decrypts to another piece");
    let shape = dense_shape(&parameters)?;
    let response = DenseResponse::from_bytes(&parameters, shape, &std::fs::read(directory.join("dense-response"))?)?;
    let mut cell = secret.dense_extract(&response, shape)?;
    mark_public(&mut cell);
    anyhow::ensure!(*cell == dense_cell(INDEX), "the response of the prepared dense query decrypts to another cell");
    let response = Response::from_bytes(&parameters, &std::fs::read(directory.join("encrypted-response"))?)?;
    let mut piece = secret.extract_encrypted(&response, &encrypted_tables(&parameters)?, 0, secret_index())?;
    mark_public(&mut piece);
    anyhow::ensure!(piece[..200] == encrypted_cell(INDEX), "the prepared response decrypts to another encrypted cell");
    Ok(())
}

/// Numbers of session queries, which these cases do not ask.
struct Numbers(AtomicU32);

impl DurableCounters for Numbers {
    fn start(&self, _: &[u8; 16]) -> io::Result<()> {
        Ok(())
    }

    fn take(&self, _: &[u8; 16], count: u32) -> io::Result<u32> {
        Ok(self.0.fetch_add(count, Ordering::Relaxed))
    }
}

fn options(mode: Mode) -> PirOptions {
    PirOptions::new(mode, Numbers(AtomicU32::new(0)))
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn value(number: usize) -> Vec<u8> {
    format!("the record of key {number}").into_bytes()
}

/// Builds a database, asks `question`, and writes the transcript.
fn prepare(directory: &Path, by_key: bool, question: Question) -> anyhow::Result<()> {
    let built = directory.join("database");
    let records = (0..KEYS).map(|i| Ok::<_, Infallible>(Record { key: by_key.then(|| key(i)), value: value(i) }));
    let builder = Builder { seed: Some([5; 16]), ..Builder::new(Preset::InsecureN11) };
    builder.build(&built, records, |_| (), &AtomicBool::new(false))?;
    let server = PirServer::new(Stored::open(&built)?)?;
    ask_server::<_, PirClient>(&server, options(Mode::Packed), &[question], directory)
}

/// Asks `question` again and reads the prepared answer, with the secret marked.
fn ask_and_read(directory: &Path, question: Question, expected: Vec<u8>) -> anyhow::Result<()> {
    let Asked { description, stored, answer } = Asked::read(directory)?;
    for mode in [Mode::Packed, Mode::Compact] {
        let mut client = open_client::<PirClient>(&description, options(mode), &stored)?;
        let encoded = client.encode(std::slice::from_ref(&question))?;
        client.query(&encoded)?;
        if mode == Mode::Packed {
            client.check_answer(&answer, 1)?;
            // The length of a record, and whether there is one, is what the caller gets.
            let mut read = [client.read(&answer, &encoded)];
            mark_public(&mut read);
            let [read] = read;
            let mut answers = read?;
            mark_public(&mut answers);
            let mut record = answers.into_iter().next().and_then(|answer| answer.record).context("no record")?;
            mark_public(&mut record);
            anyhow::ensure!(*record == expected, "another record than the one asked for");
        }
    }
    Ok(())
}

pub fn prepare_by_key(directory: &Path) -> anyhow::Result<()> {
    prepare(directory, true, Question::Key(key(7)))
}

pub fn by_key(directory: &Path) -> anyhow::Result<()> {
    let mut asked = key(7);
    mark_secret(&mut asked);
    ask_and_read(directory, Question::Key(asked), value(7))
}

pub fn prepare_by_index(directory: &Path) -> anyhow::Result<()> {
    prepare(directory, false, Question::Index(7))
}

pub fn by_index(directory: &Path) -> anyhow::Result<()> {
    let mut index = [7u64];
    mark_secret(&mut index);
    ask_and_read(directory, Question::Index(index[0]), value(7))
}
