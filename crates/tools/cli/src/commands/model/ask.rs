//! `unspoken ask`

use std::path::PathBuf;

use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};
use unspoken_client::ServiceClient;
use unspoken_model::{InputShape, ModelClient, Predicted, Row};
use unspoken_onnx::{Answer, Network};
use unspoken_protocol::{CkksDescription, ClientHalf};

use super::tables;
use crate::commands::connection::{Target, usage_lines};
use crate::interrupt;
use crate::progress::{Bars, note};
use crate::scores::{ScoreOptions, error_of};

/// Predict rows with encrypted queries to a service
///
/// The service computes the outputs of its model without seeing rows or outputs. The first call generates and uploads
/// keys; later calls reuse them. Prints one JSON object for each row, with the outputs of the model by name, computed
/// from results that are rounded so that the encryption error rarely changes a digit; what it took goes to standard
/// error. A row with a number outside the calibrated range, or without one, has the field "error" alone, and the
/// command ends with an error; the service cannot see that there are such rows.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Rows: npz, npy, csv, json or jsonl
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Move numbers into the calibrated ranges, so that their rows have answers
    #[arg(long)]
    clip: bool,
    /// ONNX file of the model, to compare with what it gives in the clear
    #[arg(long, value_name = "MODEL")]
    check: Option<PathBuf>,
    #[command(flatten)]
    scores: ScoreOptions,
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
    let row = |row| Row::new(tables.iter().map(|table| table.row(row).to_vec()).collect());
    let mut rows: Vec<Row> = (0..tables[0].nrows()).map(row).collect();
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
    let answers = client.ask(&rows, &mut step, &cancel)?;
    bars.finish();
    let error = error_of(client.description().header());
    for answer in &answers {
        let line = match answer {
            Ok(predicted) => {
                let printed = |number, radius: f64| arguments.scores.printed(error * radius, [number])[0];
                line(client.half(), &client.half().changed(predicted, printed)?)
            }
            Err(problem) => json!({ "error": problem.to_string() }),
        };
        println!("{line}");
    }
    eprint!("{}", usage_lines(client.usage()));
    let answered: Vec<(&Row, &Predicted)> =
        rows.iter().zip(&answers).filter_map(|(row, answer)| Some((row, answer.as_ref().ok()?))).collect();
    if let Some(model) = &check {
        eprintln!("in clear    {}", compare(model, &answered)?);
    }
    let (found, count) = (answers.len() - answered.len(), answers.len());
    anyhow::ensure!(
        found == 0,
        "found {found} of {count} rows without an answer, which have the reason in their lines; do not ask a service \
         again because of this"
    );
    Ok(())
}

/// The outputs of a row by name.
fn line(client: &ModelClient, outputs: &[Answer]) -> Value {
    let names = client.description().outputs().as_slice().iter().map(|output| output.name.clone());
    Value::Object(names.zip(outputs.iter().map(value)).collect())
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
        Answer::Numbers(numbers) => list(&numbers.mapv(short)),
        Answer::Integers(integers) => list(integers),
        Answer::Texts(texts) => list(texts),
        Answer::Scores { labels, numbers } => {
            let labels = labels.clone().into_texts().into_iter();
            Value::Object(labels.zip(numbers.iter().map(|number| json!(short(*number)))).collect())
        }
    }
}

/// The number with the fewest digits that has this one among those of 32 bits.
fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| number.into())
}

/// How rows compare with the model in the clear, as a line.
fn compare(model: &Network, answered: &[(&Row, &Predicted)]) -> anyhow::Result<String> {
    let (mut equal, mut compared) = (0, Compared::default());
    for (row, found) in answered {
        let of_input = |(input, numbers): (&unspoken_onnx::Input, &[f64])| {
            let shape = [&[1], input.shape.as_slice()].concat();
            ArrayD::from_shape_vec(IxDyn(&shape), numbers.iter().map(|x| *x as f32).collect())
        };
        let inputs = model.inputs().iter().zip(row.inputs()).map(of_input).collect::<Result<Vec<_>, _>>()?;
        let results = model.run(&inputs)?;
        let expected = model.outputs().iter().map(|output| output.finish(&results)).collect::<Result<Vec<_>, _>>()?;
        let mut same = found.outputs.len() == expected.len();
        for (found, expected) in found.outputs.iter().zip(&expected) {
            same &= compared.same(found, expected);
        }
        equal += usize::from(same);
    }
    let labels = compared.labels.then(|| format!("the same labels for {equal} of {} rows", answered.len()));
    let numbers = compared.largest.map(|largest| format!("numbers differ by {largest:.1e} at most"));
    let parts: Vec<String> = labels.into_iter().chain(numbers).collect();
    Ok(if parts.is_empty() { "no row to compare".to_owned() } else { parts.join("; ") })
}

/// What was compared so far.
#[derive(Default)]
struct Compared {
    /// Whether there are labels.
    labels: bool,
    /// The largest difference of numbers, if there are any. NaN is larger than all.
    largest: Option<f64>,
}

impl Compared {
    /// Whether labels are equal. Numbers add to the largest difference.
    fn same(&mut self, found: &Answer, expected: &Answer) -> bool {
        match (found, expected) {
            (Answer::Numbers(a), Answer::Numbers(b)) => self.compare(a, b),
            (Answer::Scores { labels, numbers: a }, Answer::Scores { labels: needed, numbers: b }) => {
                self.labels = true;
                self.compare(a, b) && labels == needed
            }
            (found, expected) => {
                self.labels = true;
                found == expected
            }
        }
    }

    /// Whether there are as many numbers.
    fn compare(&mut self, a: &ArrayD<f32>, b: &ArrayD<f32>) -> bool {
        let difference = |(a, b): (&f32, &f32)| if a == b { 0.0 } else { f64::from((a - b).abs()) };
        let larger = |most: f64, next: f64| if next.is_nan() || next > most { next } else { most };
        let largest = self.largest.unwrap_or(0.0);
        self.largest = Some(a.iter().zip(b).map(difference).fold(largest, larger));
        a.len() == b.len()
    }
}

#[cfg(test)]
mod tests {
    use unspoken_onnx::Labels;

    use super::*;

    #[test]
    fn differences_of_numbers_and_of_labels_are_found() {
        let numbers = |values: &[f32]| ArrayD::from_shape_vec(IxDyn(&[values.len()]), values.to_vec()).unwrap();
        let scores = |label: &str, values: &[f32]| Answer::Scores {
            labels: Labels::Texts(vec![label.to_owned()]),
            numbers: numbers(values),
        };
        let mut compared = Compared::default();
        assert!(compared.same(&Answer::Numbers(numbers(&[1.0])), &Answer::Numbers(numbers(&[1.5]))));
        assert_eq!((compared.labels, compared.largest), (false, Some(0.5)));
        assert!(compared.same(&scores("a", &[1.0]), &scores("a", &[1.25])) && compared.labels);
        assert!(!compared.same(&scores("a", &[1.0]), &scores("b", &[1.0])));
        assert_eq!(compared.largest, Some(0.5));
        // A number that is none is not forgotten.
        compared.same(&Answer::Numbers(numbers(&[f32::NAN, 1.0])), &Answer::Numbers(numbers(&[1.0, 9.0])));
        assert!(compared.largest.unwrap().is_nan());
        compared.same(&Answer::Numbers(numbers(&[1.0])), &Answer::Numbers(numbers(&[2.0])));
        assert!(compared.largest.unwrap().is_nan());
    }

    #[test]
    fn numbers_are_printed_with_their_own_digits() {
        assert_eq!(value(&Answer::Numbers(ArrayD::from_elem(IxDyn(&[1]), 0.1235))).to_string(), "0.1235");
    }
}
