//! Times of clients on this machine without a browser, for `research/tables/browser_tables.py`.
//!
//! `native CLASSIFIER DIGITS DATABASE` answers questions in this process, with one thread, and prints a line of JSON
//! for each application: median milliseconds for keys, encryption and decryption.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_ckks::Preset;
use unspoken_classify::{ClassifyClient, ClassifyOptions, ClassifyServer};
use unspoken_database::Database;
use unspoken_digits::{DigitsClient, DigitsServer};
use unspoken_digits_model::{Image, Network};
use unspoken_fasttext::{Encoder, ScoreTables};
use unspoken_pir::{PirClient, PirOptions, PirServer, Question};
use unspoken_pir_scheme::Mode;
use unspoken_protocol::{ApplicationDescription, Call, ClientHalf, ClientId, NoCounters, Request, ServerHalf};
use unspoken_query::QueryForm;

/// Repetitions of the making of keys, and of questions.
const KEYS: usize = 3;
const QUESTIONS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [classifier, digits, database] = arguments.as_slice() else {
        return Err("needed three directories: a classifier, a network of digits, a database".into());
    };
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    let parameters = Preset::find("n14_real_depth8_scale30")?.build()?;
    let server = DigitsServer::new(&Network::load(digits)?, &parameters, Some(8))?;
    let drawn: Vec<u8> = (0..28 * 28).map(|at| if at % 28 == 14 { 255 } else { 0 }).collect();
    measure::<_, DigitsClient>("digits", &server, (), &Image::new(&drawn)?)?;
    let parameters = Preset::find("n15_depth8_scale50")?.build()?;
    let options = ClassifyOptions { plan: None, query: QueryForm::Direct, short_queries: true };
    let server = ClassifyServer::new(&ScoreTables::load(classifier)?, &parameters, &options)?;
    let words = Arc::new(Encoder::load(classifier)?);
    measure::<_, ClassifyClient>("classify", &server, words, "You have won a prize. Call now to claim it.")?;
    let server = PirServer::new(Arc::new(Database::open(Path::new(database))?))?;
    for mode in [Mode::Packed, Mode::Compact] {
        let options = PirOptions::new(mode, NoCounters);
        let question = Question::Key(b"E11.9".to_vec());
        measure::<_, PirClient>(&format!("retrieve, {mode}"), &server, options, &question)?;
    }
    Ok(())
}

/// Measures the client half of an application against its server half.
fn measure<S: ServerHalf, C: ClientHalf>(
    name: &str,
    server: &S,
    model: C::Model,
    question: &C::Question,
) -> Result<(), Box<dyn Error>> {
    let cancel = AtomicBool::new(false);
    let description = C::Description::read(&server.describe(), false)?;
    let mut client = C::open(description, model, None)?;
    let (mut bundle, mut keys, mut encrypt, mut decrypt) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..KEYS {
        bundle.clear();
        let start = Instant::now();
        client.write_keys(&mut bundle, |_, _| (), &cancel).map_err(Into::into)?;
        keys.push(start.elapsed().as_secs_f64());
    }
    let loaded = server.load_keys(&mut bundle.as_slice())?;
    for number in 0..QUESTIONS {
        let start = Instant::now();
        let encoded = client.encode(&[question])?;
        let query = client.query(&encoded)?;
        encrypt.push(start.elapsed().as_secs_f64());
        let answer =
            server.answer(&Request::new(ClientId::new([number as u8; 16]), &loaded, &query), &Call::new(&cancel))?;
        let start = Instant::now();
        client.read(&answer, &encoded)?;
        decrypt.push(start.elapsed().as_secs_f64());
    }
    let [keys, encrypt, decrypt] = [keys, encrypt, decrypt].map(median);
    println!("{{\"name\": \"{name}\", \"keys\": {keys}, \"encrypt\": {encrypt}, \"decrypt\": {decrypt}}}");
    Ok(())
}

/// The median of seconds, in milliseconds.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    1000.0 * seconds[seconds.len() / 2]
}
