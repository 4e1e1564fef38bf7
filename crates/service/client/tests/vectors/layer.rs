//! `vectors/layer.json`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use unspoken_ckks::Preset;
use unspoken_classify::{Classified, ClassifyOptions, HeadClient, HeadModel, HeadServer, HeadTables};
use unspoken_embedding::{CompressedTable, LinearHead, Subtables, TextReader, TokenCodes};
use unspoken_protocol::{CkksDescription, ClientHalf};

use crate::case::{Case, Clear, Known, Plan, check, directory_of, files_of};
use crate::embed::table;

struct Layer;

const HEAD: &str = "head.safetensors";

impl Known for Layer {
    const NAME: &'static str = "layer";
    const ABOUT: &'static str =
        "A linear head of three classes over the mean embedding of a text, its queries and answers.";
    type Client = HeadClient;
    type Server = HeadServer;
    type Asked = String;

    fn plans() -> Vec<Plan> {
        let directory = tempfile::tempdir().unwrap();
        table().save(directory.path()).unwrap();
        let classes = ["a", "b", "c"].map(String::from).to_vec();
        let weights = (0..15).map(|i| f64::from(i * i % 7) - 3.0).collect();
        let head = LinearHead::new(classes, 32, 5, weights, vec![0.5, -1.25, 0.0]).unwrap();
        head.save(directory.path().join(HEAD)).unwrap();
        vec![Plan {
            name: "short query",
            server: json!({ "preset": "insecure_n11_depth9_scale50" }),
            options: Map::new(),
            model: files_of(directory.path()),
            questions: ["w1 w1 zebra w59", ""].map(|text| json!({ "text": text })).into(),
        }]
    }

    fn server(case: &Case) -> HeadServer {
        let parameters = Preset::find(case.server["preset"].as_str().unwrap()).unwrap().build().unwrap();
        let directory = directory_of(case);
        let head = LinearHead::load(directory.path().join(HEAD)).unwrap();
        let subtables = Subtables::load(directory.path()).unwrap();
        HeadServer::new(&HeadTables::new(&head, &subtables).unwrap(), &parameters, &ClassifyOptions::default()).unwrap()
    }

    fn model(case: &Case) -> HeadModel {
        HeadModel { codes: Arc::new(TokenCodes::load(directory_of(case).path()).unwrap()), cut: false }
    }

    fn question(question: &Value) -> String {
        question["text"].as_str().unwrap().to_owned()
    }

    fn answer(answer: Classified) -> Value {
        json!({ "label": answer.label, "scores": answer.scores })
    }

    fn clear(case: &Case, client: &HeadClient) -> Option<Clear> {
        let directory = directory_of(case);
        let table = CompressedTable::load(directory.path()).unwrap();
        let head = LinearHead::load(directory.path().join(HEAD)).unwrap();
        let answer = |question: &Value| {
            let ids = TextReader::new(table.codes().tokens()).read(&Self::question(question)).ids;
            let scores = head.scores(&table, &ids).unwrap();
            json!({ "label": head.class_of(&scores), "scores": scores })
        };
        let error = client.description().header().error_bound().unwrap();
        Some(Clear { answers: case.questions.iter().map(answer).collect(), error })
    }
}

#[test]
fn texts_are_scored_as_in_the_vectors() {
    check::<Layer>();
}
