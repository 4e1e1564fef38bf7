//! The tokens of texts against the tokens of another implementation of `docs/model-format.md`, which is in
//! `python/tests/test_segments.py`.

use serde_json::Value;
use unspoken_embedding::{Segmenter, TokenList};

#[test]
fn texts_have_the_tokens_that_the_document_says() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../segments.json")).expect("JSON");
    let mut compared = 0;
    for case in &cases {
        let names: Vec<String> = serde_json::from_value(case["tokens"].clone()).expect("tokens");
        let tokens = TokenList::new(names).expect("a list");
        let segmenter = Segmenter::new(&tokens);
        for each in case["texts"].as_array().expect("texts") {
            let text = each["text"].as_str().expect("a text");
            let needed: Vec<Option<usize>> = serde_json::from_value(each["rows"].clone()).expect("rows");
            let found: Vec<Option<usize>> = segmenter.segment(text).into_iter().map(|(_, row)| row).collect();
            assert_eq!(found, needed, "{text:?} with {:?} ...", &tokens.as_slice()[..4]);
            compared += found.len();
        }
    }
    assert!(cases.len() == 4 && compared > 200, "{compared}");
}
