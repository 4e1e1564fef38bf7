//! Predicts a row with a model that sees no number of it: `predict URL APPLICATION NUMBER...`.
//!
//! ```sh
//! unspoken serve --model flowers
//! cargo run --release -p unspoken-cli --example predict -- http://127.0.0.1:8080 model 5.1 3.5 1.4 0.2
//! ```

use std::env::args;
use std::path::Path;

use anyhow::Context;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ServiceClient, StateDir};
use unspoken_model::{ModelClient, Row};
use unspoken_onnx::Answer;

fn main() -> anyhow::Result<()> {
    let mut words = args().skip(1);
    let (url, application) = words.next().zip(words.next()).context("URL APPLICATION NUMBER...")?;
    // The numbers of the model's first and only input.
    let numbers = words.map(|word| word.parse::<f64>().context(word)).collect::<Result<Vec<_>, _>>()?;
    let state = StateDir::open(Path::new("client-state"), &url, &application)?;
    let cancel = Cancel::new();
    let transport = Transport::new(TransportConfig::new(&url))?;
    let mut client: ServiceClient<ModelClient> =
        ServiceClient::connect(transport, &application, (), &state, &mut |_| {}, &cancel)?;
    // A row outside the calibrated ranges is an error here; the service cannot tell.
    for answer in client.ask(&[Row::new(vec![numbers])], &mut |_| {}, &cancel)? {
        let answer = answer?;
        let names = client.description().outputs().as_slice().iter().map(|output| &output.name);
        for (name, value) in names.zip(&answer.outputs) {
            println!("{name} {}", shown(value));
        }
    }
    Ok(())
}

/// An output of one row.
fn shown(value: &Answer) -> String {
    match value {
        Answer::Numbers(numbers) | Answer::Scores { numbers, .. } => format!("{:.3}", numbers.flatten()),
        Answer::Integers(integers) => integers.flatten().to_string(),
        Answer::Texts(texts) => texts.flatten().to_string(),
    }
}
