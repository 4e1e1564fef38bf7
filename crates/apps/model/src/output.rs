//! What the outputs of a model are to those who ask.

use ndarray::{ArrayD, ArrayViewD, IxDyn};
use unspoken_onnx::{Answer, Finish, Labels, Operation, Output, Outputs, Source};
use unspoken_protocol::ProtocolError;

use crate::error::ModelError;
use crate::proto;

/// Rows that are tried to find out what outputs give, and their largest magnitudes.
const TRIED: [f32; 3] = [1.0, 10.0, 100.0];

/// An output of a model, as those who ask see it.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputShape {
    /// Its name.
    pub name: String,
    /// The shape of a row.
    pub shape: Vec<usize>,
    /// What it gives.
    pub gives: Gives,
    /// The labels that it names: of classes, or of its numbers.
    pub labels: Option<Labels>,
}

/// What an output gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Labels of classes: integers or texts.
    Labels,
    /// A probability for each of at least two classes.
    Probabilities,
    /// The logarithm of a probability for each of at least two classes.
    LogProbabilities,
    /// Other numbers.
    Numbers,
}

impl OutputShape {
    /// The outputs of a model. What they give is found by computing them from a few made-up results.
    ///
    /// # Errors
    /// If the outputs cannot be computed.
    pub fn of(outputs: &Outputs) -> Result<Vec<Self>, ModelError> {
        let made_up = |shape: &Vec<usize>| {
            let row =
                |largest| (0..shape.iter().product()).map(move |i: usize| largest * ((i + 1) as f32 * 0.618).sin());
            let numbers = TRIED.into_iter().flat_map(row).collect();
            ArrayD::from_shape_vec(IxDyn(&[&[TRIED.len()], shape.as_slice()].concat()), numbers).unwrap_or_default()
        };
        let results: Vec<ArrayD<f32>> = outputs.result_shapes().iter().map(made_up).collect();
        let answers = outputs.finish(&results)?;
        let shape = |(output, answer): (&Output, &Answer)| OutputShape::new(output, gives(answer));
        Ok(outputs.as_slice().iter().zip(&answers).map(shape).collect())
    }

    /// The outputs of a model that give what a message says, which comes from outside.
    ///
    /// # Errors
    /// If the message has other outputs, or an output does not give such values.
    pub(crate) fn read(outputs: &Outputs, gives: &[i32]) -> Result<Vec<Self>, ModelError> {
        let outputs = outputs.as_slice();
        let wrong = |found: String, needed: &str| ModelError::from(ProtocolError::mismatch("outputs", found, needed));
        if outputs.len() != gives.len() {
            let found = format!("what {} outputs give", gives.len());
            return Err(wrong(found, &format!("what {} give", outputs.len())));
        }
        let shape = |(output, gives): (&Output, &i32)| {
            let read = proto::Gives::try_from(*gives).ok().and_then(Gives::read);
            let found = || wrong(format!("{:?} that gives {gives}", output.name), "what its values are");
            Ok(OutputShape::new(output, read.filter(|gives| gives.fits(output)).ok_or_else(found)?))
        };
        outputs.iter().zip(gives).map(shape).collect()
    }

    fn new(output: &Output, gives: Gives) -> Self {
        OutputShape { name: output.name.clone(), shape: output.shape.clone(), gives, labels: labels(output) }
    }
}

impl Gives {
    /// As in a message.
    pub(crate) fn written(self) -> proto::Gives {
        match self {
            Gives::Labels => proto::Gives::Labels,
            Gives::Probabilities => proto::Gives::Probabilities,
            Gives::LogProbabilities => proto::Gives::LogProbabilities,
            Gives::Numbers => proto::Gives::Numbers,
        }
    }

    fn read(written: proto::Gives) -> Option<Self> {
        match written {
            proto::Gives::Unspecified => None,
            proto::Gives::Labels => Some(Gives::Labels),
            proto::Gives::Probabilities => Some(Gives::Probabilities),
            proto::Gives::LogProbabilities => Some(Gives::LogProbabilities),
            proto::Gives::Numbers => Some(Gives::Numbers),
        }
    }

    /// Whether an output has values of this kind.
    fn fits(self, output: &Output) -> bool {
        let has_labels = gives_labels(output, output.source);
        match self {
            Gives::Labels => has_labels,
            Gives::Probabilities | Gives::LogProbabilities => {
                !has_labels && matches!(output.shape.as_slice(), [classes] if *classes > 1)
            }
            Gives::Numbers => !has_labels,
        }
    }
}

/// Whether a value of an output is integers or texts.
fn gives_labels(output: &Output, source: Source) -> bool {
    let Source::Step(place) = source else { return false };
    output.steps.get(place).is_some_and(|step| match &step.finish {
        Finish::ArgMax { .. } | Finish::Votes { .. } | Finish::Integer | Finish::Label(_) => true,
        Finish::Compute(operation) if matches!(**operation, Operation::Reshape) => {
            // Steps have been read in the order in which they are computed.
            step.inputs.first().is_some_and(|input| gives_labels(output, *input))
        }
        _ => false,
    })
}

fn gives(answer: &Answer) -> Gives {
    match answer {
        Answer::Integers(_) | Answer::Texts(_) => Gives::Labels,
        Answer::Numbers(numbers) | Answer::Scores { numbers, .. } if are_probabilities(numbers) => Gives::Probabilities,
        Answer::Numbers(numbers) | Answer::Scores { numbers, .. } if are_logarithms(numbers) => Gives::LogProbabilities,
        Answer::Numbers(_) | Answer::Scores { .. } => Gives::Numbers,
    }
}

/// Whether the numbers are from 0 to 1, whatever the results: two or more for each row. That they add up to 1 may be a
/// matter of the results, of which one may be the opposite of the other.
fn are_probabilities(numbers: &ArrayD<f32>) -> bool {
    numbers.ndim() == 2 && numbers.shape()[1] > 1 && numbers.iter().all(|number| (0.0..=1.0).contains(number))
}

/// Whether the numbers are the logarithms of probabilities that add up to 1, whatever the results.
fn are_logarithms(numbers: &ArrayD<f32>) -> bool {
    let probabilities = numbers.mapv(f32::exp);
    let is_whole = |row: ArrayViewD<'_, f32>| (row.sum() - 1.0).abs() < 1e-3;
    are_probabilities(&probabilities) && probabilities.outer_iter().all(is_whole)
}

fn labels(output: &Output) -> Option<Labels> {
    output.steps.iter().rev().find_map(|step| match &step.finish {
        Finish::Label(labels) | Finish::Scores(labels) => Some(labels.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unspoken_onnx::Network;

    use super::*;

    fn outputs(file: &str) -> Outputs {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/onnx/tests/models");
        Outputs::of(&Network::load(&models.join(file)).unwrap())
    }

    #[test]
    fn a_description_says_only_what_fits_the_values() {
        let all = [Gives::Labels, Gives::Probabilities, Gives::LogProbabilities, Gives::Numbers];
        let [labels, probabilities, logarithms, numbers] = all.map(|gives| i32::from(gives.written()));
        assert!(all.iter().all(|gives| Gives::read(gives.written()) == Some(*gives)));
        let one = outputs("two-targets.onnx");
        let flowers = outputs("logistic-zipmap.onnx");
        for (outputs, gives, sound) in [
            (&flowers, &[labels, probabilities][..], true),
            (&flowers, &[labels, numbers], true),
            (&flowers, &[labels, logarithms], true),
            (&flowers, &[logarithms, numbers], false),
            (&flowers, &[labels, labels], false),
            (&flowers, &[numbers, probabilities], false),
            (&flowers, &[probabilities, probabilities], false),
            (&flowers, &[labels, 0], false),
            (&flowers, &[labels, 5], false),
            (&flowers, &[labels, -1], false),
            (&flowers, &[labels], false),
            (&flowers, &[], false),
            (&one, &[numbers], true),
            (&one, &[labels], false),
        ] {
            let read = OutputShape::read(outputs, gives).map_err(|error| error.to_string());
            assert_eq!(read.is_ok(), sound, "{gives:?}: {read:?}");
        }
        // One number is no probability of each of several classes.
        let mut output = flowers.as_slice()[1].clone();
        assert!(Gives::Probabilities.fits(&output));
        for shape in [vec![1], vec![], vec![2, 2]] {
            output.shape = shape;
            assert!(!Gives::Probabilities.fits(&output) && Gives::Numbers.fits(&output));
        }
    }

    #[test]
    fn labels_are_known_without_a_row() {
        for file in ["logistic-binary-arrays.onnx", "svc-poly-arrays.onnx", "linear-svc.onnx", "lenet-18.onnx"] {
            for (output, found) in outputs(file).as_slice().iter().zip(OutputShape::of(&outputs(file)).unwrap()) {
                assert!(found.gives.fits(output), "{file} {:?}", output.name);
            }
        }
    }
}
