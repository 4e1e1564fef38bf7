//! `unspoken ask`

use std::path::PathBuf;

use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};
use unspoken_client::ServiceClient;
use unspoken_model::{InputShape, ModelClient, Row};
use unspoken_onnx::{Answer, Network};

use super::tables;
use crate::commands::connection::{Target, usage_lines};
use crate::interrupt;
use crate::progress::{Bars, note};

/// Predict rows with encrypted queries to a service
///
/// The service computes the outputs of its model without seeing rows or outputs. The first call generates and uploads
/// keys; later calls reuse them. A row with a number outside the calibrated range is refused before anything is sent.
/// Prints one JSON object for each row, with the outputs of the model by name; what it took goes to standard error.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Rows: npz, npy, csv, json or jsonl
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Move numbers into the calibrated ranges in place of refusing their rows
    #[arg(long)]
    clip: bool,
    /// ONNX file of the model, to compare with what it gives in the clear
    #[arg(long, value_name = "MODEL")]
    check: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let check = arguments.check.as_deref().map(Network::load).transpose()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client = ServiceClient::<ModelClient>::connect(transport, &application, (), &state, &mut step, &cancel)?;
    let inputs: Vec<InputShape> = client.description().inputs().iter().map(|input| input.shape.clone()).collect();
    let tables = tables::read(&arguments.input, &inputs)?.rows;
    let rows = (0..tables[0].nrows()).map(|row| Row::new(tables.iter().map(|table| table.row(row).to_vec()).collect()));
    let mut rows: Vec<Row> = rows.collect();
    if arguments.clip {
        let mut moved = 0;
        for row in &mut rows {
            let (clipped, count) = row.clone().clipped(client.description().inputs());
            (*row, moved) = (clipped, moved + count);
        }
        if moved > 0 {
            note(&format!("warning     {moved} numbers were moved into the calibrated ranges"));
        }
    }
    let predicted = client.ask(&rows, &mut step, &cancel)?;
    bars.finish();
    let names: Vec<String> =
        client.description().outputs().as_slice().iter().map(|output| output.name.clone()).collect();
    for one in &predicted {
        let outputs: serde_json::Map<String, Value> =
            names.iter().cloned().zip(one.outputs.iter().map(value)).collect();
        println!("{}", Value::Object(outputs));
    }
    eprint!("{}", usage_lines(client.usage()));
    if let Some(model) = &check {
        let outputs: Vec<&[Answer]> = predicted.iter().map(|one| one.outputs.as_slice()).collect();
        compare(model, &tables, &outputs)?;
    }
    Ok(())
}

/// An output of one row.
fn value(answer: &Answer) -> Value {
    fn list<T: Into<Value> + Clone>(array: &ArrayD<T>) -> Value {
        let values: Vec<Value> = array.iter().cloned().map(Into::into).collect();
        match values.as_slice() {
            [one] => one.clone(),
            _ => Value::Array(values),
        }
    }
    match answer {
        Answer::Numbers(numbers) => list(numbers),
        Answer::Integers(integers) => list(integers),
        Answer::Texts(texts) => list(texts),
        Answer::Scores { labels, numbers } => {
            let labels = labels.clone().into_texts().into_iter();
            Value::Object(labels.zip(numbers.iter().map(|number| json!(number))).collect())
        }
    }
}

/// Compares with the model in the clear.
fn compare(model: &Network, tables: &[ndarray::Array2<f64>], found: &[&[Answer]]) -> anyhow::Result<()> {
    let (mut equal, mut largest) = (0, 0.0f64);
    for (row, found) in found.iter().enumerate() {
        let of_input = |(input, table): (&unspoken_onnx::Input, &ndarray::Array2<f64>)| {
            let shape = [&[1], input.shape.as_slice()].concat();
            ArrayD::from_shape_vec(IxDyn(&shape), table.row(row).iter().map(|x| *x as f32).collect())
        };
        let inputs = model.inputs().iter().zip(tables).map(of_input).collect::<Result<Vec<_>, _>>()?;
        let results = model.run(&inputs)?;
        let expected = model.outputs().iter().map(|output| output.finish(&results)).collect::<Result<Vec<_>, _>>()?;
        equal += usize::from(found.iter().zip(&expected).all(|(found, expected)| same(found, expected, &mut largest)));
    }
    eprintln!(
        "in clear    the same labels for {equal} of {} rows; numbers differ by {largest:.1e} at most",
        found.len()
    );
    Ok(())
}

/// Whether labels are equal. Numbers add to the largest difference.
fn same(found: &Answer, expected: &Answer, largest: &mut f64) -> bool {
    match (found, expected) {
        (Answer::Numbers(a), Answer::Numbers(b))
        | (Answer::Scores { numbers: a, .. }, Answer::Scores { numbers: b, .. }) => {
            *largest = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).fold(*largest, f64::max);
            true
        }
        (found, expected) => found == expected,
    }
}
