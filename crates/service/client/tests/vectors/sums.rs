//! `vectors/sums.json`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use unspoken_protocol::{ApplicationDescription, Call, ClientHalf, Request, ServerHalf};
use unspoken_sums::{
    CollectionOptions, CollectorAnswer, CollectorKey, CollectorQuestion, Column, Contribution, ContributionEncryptor,
    Description, Receipt, Sums, SumsCollector, SumsContributor, SumsServer, Trust, Zeros, create_with_preset,
};

use crate::case::{Bytes, CLIENT, Refused, is_to_be_written, other_kind, read, write};

const NAME: &str = "sums";
const ABOUT: &str =
    "Exact sums of encrypted contributions: a collection, a request of a contributor, and the collector's.";

/// One collection.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    server: Value,
    description: Bytes,
    /// The collector's private file.
    private: Bytes,
    /// The values of each contribution.
    contributions: Vec<Vec<i64>>,
    /// The request with these contributions, and its answer, which says which contributions were added.
    query: Bytes,
    answer: Bytes,
    added: Vec<bool>,
    /// The collector's requests, and their answers.
    count_query: Bytes,
    count_answer: Bytes,
    close_query: Bytes,
    close_answer: Bytes,
    sums: Value,
    refused: Vec<Refused>,
}

fn described(bytes: &[u8]) -> Result<Description, String> {
    Description::read(bytes, true).map_err(|error| error.to_string())
}

fn contributor(description: &[u8]) -> SumsContributor {
    SumsContributor::open(described(description).unwrap(), Trust::First, None).unwrap()
}

fn collector(description: &[u8], private: &[u8]) -> Result<SumsCollector, String> {
    let key = CollectorKey::from_bytes(private).map_err(|error| error.to_string())?;
    SumsCollector::open(described(description)?, Arc::new(key), None).map_err(|error| error.to_string())
}

fn service(description: &[u8]) -> SumsServer {
    SumsServer::new(described(description).unwrap(), unspoken_sums::MemoryStore::default()).unwrap()
}

fn encrypted(description: &[u8], contributions: &[Vec<i64>]) -> Vec<Contribution> {
    let mut encryptor = ContributionEncryptor::new(&described(description).unwrap(), Zeros::OnDemand).unwrap();
    contributions.iter().map(|values| encryptor.encrypt(values).unwrap()).collect()
}

/// Whether each of the contributions was added. The reader needs only their number.
fn added(case: &Case, answer: &[u8]) -> Result<Vec<bool>, String> {
    let contributions = encrypted(&case.description.0, &case.contributions);
    let receipts = contributor(&case.description.0).read(answer, &contributions).map_err(|error| error.to_string())?;
    Ok(receipts.into_iter().map(|receipt| receipt == Receipt::Added).collect())
}

fn asked(case: &Case, question: CollectorQuestion, answer: &[u8]) -> Result<Value, String> {
    let collector = collector(&case.description.0, &case.private.0)?;
    match collector.read(answer, &[question]).map_err(|error| error.to_string())?.remove(0) {
        CollectorAnswer::Count(count) => Ok(json!(count)),
        CollectorAnswer::Sums(Sums { contributions, columns }) => {
            let column = |column: unspoken_sums::ColumnSum| json!({ "name": column.name, "sum": column.sum });
            let columns: Vec<Value> = columns.into_iter().map(column).collect();
            Ok(json!({ "contributions": contributions, "columns": columns }))
        }
    }
}

fn make() -> Case {
    let preset = "insecure_n10_exact17";
    let columns = vec![Column::new("visits", 0, 20).unwrap(), Column::new("change", -5, 5).unwrap()];
    let options = CollectionOptions { columns, most_contributions: 10, least_contributions: 3 };
    let (description, key) = create_with_preset(preset, &options).unwrap();
    let (description, key) = (description.to_bytes(), key.to_bytes());
    let contributions: Vec<Vec<i64>> = [[20, -5], [0, 0], [7, 5], [1, -4]].map(Vec::from).into();
    let query = contributor(&description).query(&encrypted(&description, &contributions)).unwrap();
    let server = service(&description);
    let answered = |query: &[u8]| Bytes(server.answer(&Request::new(CLIENT, &(), query), &Call::default()).unwrap());
    let answer = answered(&query);
    let mut collector = collector(&description, &key).unwrap();
    let mut ask = |question| {
        let query = collector.query(&[question]).unwrap();
        let answer = answered(&query);
        (Bytes(query), answer)
    };
    let (count_query, count_answer) = ask(CollectorQuestion::Count);
    let (close_query, close_answer) = ask(CollectorQuestion::Close);
    let mut case = Case {
        name: "two columns".into(),
        server: json!({ "preset": preset }),
        description: Bytes(description),
        private: Bytes(key.to_vec()),
        contributions,
        query: Bytes(query),
        answer,
        added: Vec::new(),
        count_query,
        count_answer,
        close_query,
        close_answer,
        sums: Value::Null,
        refused: Vec::new(),
    };
    case.added = added(&case, &case.answer.0).unwrap();
    case.sums = asked(&case, CollectorQuestion::Close, &case.close_answer.0).unwrap();
    case.refused = ["description", "private", "query", "answer", "count_answer", "close_answer"]
        .map(|field| Refused::flipped(field, field_of(&case, field)))
        .into();
    case.refused.push(Refused { bytes: Some(other_kind()), ..Refused::new("description", "one of kind another") });
    case
}

fn field_of<'a>(case: &'a Case, field: &str) -> &'a Bytes {
    match field {
        "description" => &case.description,
        "private" => &case.private,
        "query" => &case.query,
        "answer" => &case.answer,
        "count_answer" => &case.count_answer,
        "close_answer" => &case.close_answer,
        other => panic!("no field {other}"),
    }
}

fn check(case: &Case) {
    let Bytes(description) = &case.description;
    let error = Description::read(description, false).map(drop).unwrap_err().to_string();
    assert!(error.contains("needed a secure one"), "{error}");
    assert_eq!(added(case, &case.answer.0).unwrap(), case.added);
    let sum = |column: usize| case.contributions.iter().map(|values| values[column]).sum::<i64>();
    let columns = ["visits", "change"].into_iter().enumerate().map(|(i, name)| json!({ "name": name, "sum": sum(i) }));
    let count = case.contributions.len();
    assert_eq!(case.sums, json!({ "contributions": count, "columns": columns.collect::<Vec<_>>() }));
    assert_eq!(asked(case, CollectorQuestion::Count, &case.count_answer.0).unwrap(), count);
    assert_eq!(asked(case, CollectorQuestion::Close, &case.close_answer.0).unwrap(), case.sums);

    let mut collector = collector(description, &case.private.0).unwrap();
    assert!(collector.query(&[CollectorQuestion::Count]).unwrap() == case.count_query.0);
    assert!(collector.query(&[CollectorQuestion::Close]).unwrap() == case.close_query.0);
    // The service adds the stored contributions to the same bytes, and counts them once.
    let server = service(description);
    let answer = |query: &Bytes| server.answer(&Request::new(CLIENT, &(), &query.0), &Call::default()).unwrap();
    assert_eq!(answer(&case.query), case.answer.0);
    assert!(added(case, &answer(&case.query)).unwrap().iter().all(|added| !added));
    assert_eq!(answer(&case.count_query), case.count_answer.0);
    assert!(answer(&case.close_query) == case.close_answer.0);
    // And new ones to the same sums.
    let server = service(description);
    let query = contributor(description).query(&encrypted(description, &case.contributions)).unwrap();
    assert_eq!(query.len(), case.query.0.len());
    assert_eq!(
        added(case, &server.answer(&Request::new(CLIENT, &(), &query), &Call::default()).unwrap()).unwrap(),
        case.added
    );
    let closed = server.answer(&Request::new(CLIENT, &(), &case.close_query.0), &Call::default()).unwrap();
    assert_eq!(asked(case, CollectorQuestion::Close, &closed).unwrap(), case.sums);

    let other = service(description);
    for refused in &case.refused {
        let input = refused.input(field_of(case, &refused.field));
        refused.check(match refused.field.as_str() {
            "description" => described(&input).map(drop),
            "private" => self::collector(description, &input).map(drop),
            "query" => other
                .answer(&Request::new(CLIENT, &(), &input), &Call::default())
                .map(drop)
                .map_err(|error| error.to_string()),
            "answer" => added(case, &input).map(drop),
            "count_answer" => asked(case, CollectorQuestion::Count, &input).map(drop),
            _ => asked(case, CollectorQuestion::Close, &input).map(drop),
        });
    }
}

#[test]
fn contributions_are_added_as_in_the_vectors() {
    if is_to_be_written() {
        write(NAME, ABOUT, vec![make()]);
    }
    read::<Case>(NAME).iter().for_each(check);
}
