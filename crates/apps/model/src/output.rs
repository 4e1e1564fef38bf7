//! What the outputs of a model are to those who ask.

use ndarray::{ArrayD, IxDyn};
use unspoken_onnx::{Answer, Finish, Labels, Output, Outputs};

use crate::error::ModelError;

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
        let shape = |(output, answer): (&Output, &Answer)| OutputShape {
            name: output.name.clone(),
            shape: output.shape.clone(),
            gives: gives(answer),
            labels: labels(output),
        };
        Ok(outputs.as_slice().iter().zip(&answers).map(shape).collect())
    }
}

fn gives(answer: &Answer) -> Gives {
    match answer {
        Answer::Integers(_) | Answer::Texts(_) => Gives::Labels,
        Answer::Numbers(numbers) | Answer::Scores { numbers, .. } if are_probabilities(numbers) => Gives::Probabilities,
        Answer::Numbers(_) | Answer::Scores { .. } => Gives::Numbers,
    }
}

/// Whether the numbers are from 0 to 1, whatever the results: two or more for each row. That they add up to 1 may be a
/// matter of the results, of which one may be the opposite of the other.
fn are_probabilities(numbers: &ArrayD<f32>) -> bool {
    numbers.ndim() == 2 && numbers.shape()[1] > 1 && numbers.iter().all(|number| (0.0..=1.0).contains(number))
}

fn labels(output: &Output) -> Option<Labels> {
    output.steps.iter().rev().find_map(|step| match &step.finish {
        Finish::Label(labels) | Finish::Scores(labels) => Some(labels.clone()),
        _ => None,
    })
}
