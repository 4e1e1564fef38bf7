//! A layer after the lookup: the server looks up encrypted tokens and multiplies the encrypted embeddings by its own
//! matrix. The client decrypts class scores and never sees an embedding.
//!
//! ```sh
//! cargo run --release -p unspoken-embed --example linear_layer
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::{Arithmetic, Complex64, Evaluator, PreparedMatrix, Preset};
use unspoken_embed::{Description, EmbedClient, EmbedOptions, EmbedServer};
use unspoken_embedding::{CompressOptions, EmbeddingTable, TokenList, compress};
use unspoken_lookup::OutputForm;
use unspoken_protocol::{CkksClientHalf, CkksServerHalf, ClientHalf, ClientId, KeyLoader, ServerHalf};

const CLASSES: usize = 3;
const WIDTH: usize = 8;
/// Precision of the matrix after rounding, in bits.
const MATRIX_BITS: i32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let go = AtomicBool::new(false);
    // A table of 200 tokens, compressed to 4 subtables of 64 columns.
    let tokens = TokenList::new((0..200).map(|i| format!("word{i}")).collect())?;
    let values = (0..200 * WIDTH).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
    let table = EmbeddingTable::new(tokens, WIDTH, values)?;
    let compressed =
        compress(&table, &CompressOptions { columns: 64, ..CompressOptions::default() }, &mut |_| {}, &go)?;

    // The server: one real vector for each number of an embedding, and a level for the layer.
    let parameters = Preset::find("n14_depth8_scale30")?.build()?;
    let options =
        EmbedOptions { form: OutputForm::Rows, spare_levels: 1, short_queries: false, ..EmbedOptions::default() };
    let server = EmbedServer::new(compressed.subtables(), &parameters, &options)?;
    let weight = |class: usize, column: usize| ((class * 5 + column * 3) % 7) as f64 - 3.0;
    let (level, scale) = server.output();
    let layer = PreparedMatrix::new(
        &parameters,
        level,
        &[scale; WIDTH],
        &[scale * 2f64.powi(MATRIX_BITS); CLASSES],
        |class, column| Complex64::from(weight(class, column)),
    )?;

    // The client: keys once, then encrypted tokens.
    let codes = Arc::new(compressed.codes().clone());
    let mut client = EmbedClient::open(Description::from_bytes(&server.describe())?, codes, None)?;
    let mut bundle = Vec::new();
    client.keyring().write_keys(&mut bundle, |_, _| {}, &go)?;
    let ids = [17, 0, 199, 17];
    let encoded = client.encode(&ids)?;
    let query = client.query(&encoded)?;

    // The server again: embeddings, then scores.
    let keys = server.load_keys(&mut bundle.as_slice())?;
    let embeddings = server.embed(ClientId::new([1; 16]), &keys, &query, &go)?;
    let scores = Evaluator::new(server.encoder(), &keys).matrix(&layer, &embeddings.iter().collect::<Vec<_>>())?;
    let answer = server.answer_of(&scores)?;
    println!("query {} bytes, answer {} bytes, plan {}", query.len(), answer.len(), server.header().plan());

    // The client decrypts scores; they equal those computed in plaintext.
    let scores = client.read_vectors(&answer, CLASSES, ids.len())?;
    for (e, &id) in ids.iter().enumerate() {
        let clear = compressed.reconstruct_row(id)?;
        for (class, scores) in scores.iter().enumerate() {
            let expected: f64 = clear.iter().enumerate().map(|(k, &m)| weight(class, k) * f64::from(m)).sum();
            println!("token {id:3}, class {class}: {:9.5} encrypted, {expected:9.5} in the clear", scores[e].re);
            assert!((scores[e].re - expected).abs() < 0.01, "scores differ");
        }
    }
    Ok(())
}
