//! `vectors/embed.json`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use unspoken_ckks::Preset;
use unspoken_embed::{EmbedClient, EmbedOptions, EmbedServer};
use unspoken_embedding::{
    CompressOptions, CompressedTable, EmbeddingTable, Subtables, TokenCodes, TokenList, compress,
};
use unspoken_protocol::{CkksDescription, ClientHalf};

use crate::case::{Case, Clear, GO, Known, Plan, check, directory_of, files_of};

struct Embed;

/// A compressed table of tokens `w0` to `w59`, with a row for unknown ones.
pub fn table() -> CompressedTable {
    const WIDTH: usize = 5;
    let tokens = TokenList::new((0..60).map(|i| format!("w{i}")).collect()).unwrap();
    let values = (0..60 * WIDTH).map(|i| ((i * i) as f32 * 0.37).sin() + 0.2).collect();
    let table = EmbeddingTable::new(tokens, WIDTH, values).unwrap().with_unknown().unwrap();
    let options = CompressOptions { columns: 16, rounds: 2, ..CompressOptions::default() };
    compress(&table, &options, &mut |_| {}, &GO).unwrap()
}

impl Known for Embed {
    const NAME: &'static str = "embed";
    const ABOUT: &'static str = "Private embedding lookup: a compressed table, queries of token ids, and embeddings.";
    type Client = EmbedClient;
    type Server = EmbedServer;
    type Asked = usize;

    fn plans() -> Vec<Plan> {
        let directory = tempfile::tempdir().unwrap();
        table().save(directory.path()).unwrap();
        vec![Plan {
            name: "short query",
            server: json!({ "preset": "insecure_n11_depth9_scale50" }),
            options: Map::new(),
            model: files_of(directory.path()),
            questions: [3, 60].map(|id| json!({ "id": id })).into(),
        }]
    }

    fn server(case: &Case) -> EmbedServer {
        let parameters = Preset::find(case.server["preset"].as_str().unwrap()).unwrap().build().unwrap();
        let subtables = Subtables::load(directory_of(case).path()).unwrap();
        EmbedServer::new(&subtables, &parameters, &EmbedOptions::default()).unwrap()
    }

    fn model(case: &Case) -> Arc<TokenCodes> {
        Arc::new(TokenCodes::load(directory_of(case).path()).unwrap())
    }

    fn question(question: &Value) -> usize {
        question["id"].as_u64().unwrap() as usize
    }

    fn answer(embedding: Vec<f64>) -> Value {
        json!({ "embedding": embedding })
    }

    fn clear(case: &Case, client: &EmbedClient) -> Option<Clear> {
        let table = CompressedTable::load(directory_of(case).path()).unwrap();
        let row = |question: &Value| table.reconstruct_row(Self::question(question)).unwrap();
        let answers: Vec<Vec<f32>> = case.questions.iter().map(row).collect();
        let largest = answers.iter().flatten().fold(0.0, |largest: f64, &number| largest.max(f64::from(number).abs()));
        // The clear numbers are rounded to 24 bits.
        let error = client.description().header().error_bound().unwrap() + largest * 2f64.powi(-24);
        Some(Clear { answers: answers.into_iter().map(|row| json!({ "embedding": row })).collect(), error })
    }
}

#[test]
fn embeddings_are_looked_up_as_in_the_vectors() {
    check::<Embed>();
}
