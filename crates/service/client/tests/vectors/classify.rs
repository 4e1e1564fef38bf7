//! `vectors/classify.json`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value, json};
use unspoken_ckks::Preset;
use unspoken_classify::{Classified, ClassifyClient, ClassifyOptions, ClassifyServer};
use unspoken_fasttext::{Encoder, Model, Tokeniser, TrainOptions, fit};
use unspoken_protocol::{CkksDescription, ClientHalf};
use unspoken_query::QueryForm;

use crate::case::{Bytes, Case, Clear, Known, Plan, check, directory_of, files_of};

struct Classify;

const HAM: [&str; 4] = ["lunch at noon", "see you at home", "call mother tonight", "the train is late"];
const SPAM: [&str; 4] = ["win free cash", "claim your prize now", "free entry call now", "urgent cash prize waiting"];

fn model() -> BTreeMap<String, Bytes> {
    let texts: Vec<String> =
        (0..80).map(|i| if i % 2 == 0 { HAM[i / 2 % 4] } else { SPAM[i / 2 % 4] }.into()).collect();
    let labels: Vec<String> = (0..80).map(|i| if i % 2 == 0 { "ham" } else { "spam" }.into()).collect();
    let tokeniser = Tokeniser { max_tokens: 32, ..Tokeniser::default() };
    let options = TrainOptions { dimension: 8, subtables: 2, columns: 16, tokeniser, ..TrainOptions::default() };
    let model = fit(&texts, &labels, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    model.save(directory.path()).unwrap();
    files_of(directory.path())
}

fn loaded(case: &Case) -> Model {
    Model::load(directory_of(case).path()).unwrap()
}

impl Known for Classify {
    const NAME: &'static str = "classify";
    const ABOUT: &'static str = "Private text classification: a model of two classes, its queries and answers.";
    type Client = ClassifyClient;
    type Server = ClassifyServer;
    type Asked = String;

    fn plans() -> Vec<Plan> {
        let plan = |name, preset, query, small| Plan {
            name,
            server: json!({ "preset": preset, "query": query, "small": small }),
            options: Map::new(),
            model: model(),
            questions: ["call me at noon", "claim your free cash PRIZE now!"]
                .map(|text| json!({ "text": text }))
                .into(),
        };
        vec![
            plan("short query", "insecure_n11_depth9_scale50", "direct", true),
            plan("full query", "insecure_n11_depth9_scale50", "direct", false),
            plan("short compact query", "insecure_n11_query_depth11_scale40", "compact", true),
        ]
    }

    fn server(case: &Case) -> ClassifyServer {
        let parameters = Preset::find(case.server["preset"].as_str().unwrap()).unwrap().build().unwrap();
        let query = if case.server["query"] == "compact" { QueryForm::Compact } else { QueryForm::Direct };
        let short_queries = case.server["small"] == true;
        let options = ClassifyOptions { query, short_queries, ..ClassifyOptions::default() };
        ClassifyServer::new(loaded(case).tables(), &parameters, &options).unwrap()
    }

    /// The client reads its half of the files alone.
    fn model(case: &Case) -> Arc<Encoder> {
        let directory = directory_of(case);
        for name in ["server.json", "server.safetensors"] {
            std::fs::remove_file(directory.path().join(name)).unwrap();
        }
        Arc::new(Encoder::load(directory.path()).unwrap())
    }

    fn question(question: &Value) -> String {
        question["text"].as_str().unwrap().to_owned()
    }

    fn answer(Classified { label, scores, .. }: Classified) -> Value {
        json!({ "label": label, "scores": scores })
    }

    fn clear(case: &Case, client: &ClassifyClient) -> Option<Clear> {
        let model = loaded(case);
        let answer = |question: &Value| {
            let text = Self::question(question);
            json!({ "label": model.predict(&text), "scores": model.scores(&text) })
        };
        let error = client.description().header().error_bound().unwrap();
        Some(Clear { answers: case.questions.iter().map(answer).collect(), error })
    }
}

#[test]
fn messages_are_classified_as_in_the_vectors() {
    check::<Classify>();
}
