//! A model, and the rows that it is calibrated on and asked about.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context;
use ndarray::{Array2, ArrayD, ArrayView2, Axis, IxDyn};
use npyz::{NpyFile, Order};
use unspoken_model::Interface;
use unspoken_onnx::{Answer, Network, Outputs};

use super::Case;

/// Rows that are compared in the clear, at most.
const MOST_ROWS: usize = 1024;

/// What a model gives for some rows.
pub(super) struct Given {
    pub(super) labels: Vec<i64>,
    /// What is encrypted in an answer, rows x elements for each result.
    pub(super) results: Vec<Array2<f64>>,
}

/// A model of one input.
pub(super) struct Subject {
    pub(super) model: Network,
    pub(super) interface: Interface,
    pub(super) calibration: Array2<f64>,
    /// Rows that training has not seen.
    pub(super) test: Array2<f64>,
    /// Their labels.
    pub(super) wanted: Vec<i64>,
}

impl Subject {
    /// Reads the files of a case; the inner error is the message where one is absent.
    pub(super) fn open(root: &Path, case: &Case) -> anyhow::Result<Result<Self, String>> {
        let (folder, rows) = (root.join(case.folder), root.join(case.rows()));
        let files = ["calibration.npy", "test.npy", "test_labels.npy"].map(|file| (case.rows(), file));
        let mut files = std::iter::once((case.folder, case.file)).chain(files);
        if let Some((place, absent)) = files.find(|(place, file)| !root.join(place).join(file).exists()) {
            let path = Path::new(place).join(absent);
            let needed = "'make data', and 'make tables-model' for the models that are trained";
            return Ok(Err(format!("{}: not measured, {} is absent; needed {needed}", case.name, path.display())));
        }
        let model = Network::load(&folder.join(case.file)).context(case.name)?;
        let interface = Interface::of(&model)?;
        anyhow::ensure!(interface.inputs.len() == 1, "{}: {} inputs, needed one", case.name, interface.inputs.len());
        let [calibration, test] = ["calibration.npy", "test.npy"].map(|file| read(&rows.join(file)));
        let wanted = read(&rows.join("test_labels.npy"))?.iter().map(|label| *label as i64).collect();
        let (calibration, mut test) = (calibration?, test?);
        test = test.select(Axis(0), &(0..test.nrows().min(MOST_ROWS)).collect::<Vec<_>>());
        Ok(Ok(Subject { model, interface, calibration, test, wanted }))
    }

    /// Rows as the model takes them.
    pub(super) fn input(&self, rows: ArrayView2<'_, f64>) -> anyhow::Result<ArrayD<f32>> {
        let shape = [&[rows.nrows()], self.interface.inputs[0].shape.as_slice()].concat();
        Ok(ArrayD::from_shape_vec(IxDyn(&shape), rows.iter().map(|x| *x as f32).collect())?)
    }

    /// What the model gives in the clear.
    pub(super) fn clear(&self, rows: ArrayView2<'_, f64>) -> anyhow::Result<Given> {
        let results = self.model.run(&[self.input(rows)?])?;
        let labels = labels(&self.interface.outputs.finish(&results)?)?;
        let flat = |result: &ArrayD<f32>| {
            let width = result.len() / rows.nrows();
            Array2::from_shape_vec((rows.nrows(), width), result.iter().map(|x| f64::from(*x)).collect())
        };
        Ok(Given { labels, results: results.iter().map(flat).collect::<Result<_, _>>()? })
    }

    /// What results mean.
    pub(super) fn given(&self, results: Vec<Array2<f64>>) -> anyhow::Result<Given> {
        Ok(Given { labels: labels(&finished(&self.interface.outputs, &results)?)?, results })
    }
}

/// What a client computes from results.
fn finished(outputs: &Outputs, results: &[Array2<f64>]) -> anyhow::Result<Vec<Answer>> {
    let shaped = |(table, shape): (&Array2<f64>, &Vec<usize>)| {
        let shape = [&[table.nrows()], shape.as_slice()].concat();
        ArrayD::from_shape_vec(IxDyn(&shape), table.iter().map(|x| *x as f32).collect())
    };
    let results = results.iter().zip(outputs.result_shapes()).map(shaped).collect::<Result<Vec<_>, _>>()?;
    Ok(outputs.finish(&results)?)
}

/// The label of each row: the model's own, or the place of the largest number of its first output.
pub(super) fn labels(answers: &[Answer]) -> anyhow::Result<Vec<i64>> {
    match answers.first() {
        Some(Answer::Integers(labels)) => Ok(labels.iter().copied().collect()),
        Some(Answer::Numbers(scores)) if scores.ndim() == 2 => {
            let largest = |row: ndarray::ArrayView1<'_, f32>| {
                (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0) as i64
            };
            Ok(scores.view().into_dimensionality::<ndarray::Ix2>()?.rows().into_iter().map(largest).collect())
        }
        other => anyhow::bail!("the first output is {other:?}, needed labels or a number for each label"),
    }
}

/// The part of labels that are equal.
pub(super) fn equal(found: &[i64], expected: &[i64]) -> f64 {
    found.iter().zip(expected).filter(|(a, b)| a == b).count() as f64 / found.len() as f64
}

/// An array whose first axis counts rows, flattened.
fn read(path: &Path) -> anyhow::Result<Array2<f64>> {
    let table = || {
        let file = NpyFile::new(BufReader::new(File::open(path)?))?;
        anyhow::ensure!(file.order() == Order::C, "found the order of Fortran, needed that of C");
        let rows = *file.shape().first().context("found a number, needed rows")? as usize;
        let numbers = file.data::<f32>()?.map(|x| x.map(f64::from)).collect::<Result<Vec<_>, _>>()?;
        Ok(Array2::from_shape_vec((rows, numbers.len() / rows.max(1)), numbers)?)
    };
    table().with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use ndarray::arr2;

    use super::*;

    #[test]
    fn labels_are_those_of_the_model_or_places_of_largest_numbers() {
        let scores = Answer::Numbers(arr2(&[[0.5f32, -1.0, 0.25], [0.0, 0.5, 3.0]]).into_dyn());
        assert_eq!(labels(std::slice::from_ref(&scores)).unwrap(), [0, 2]);
        let own = Answer::Integers(ndarray::arr1(&[7i64, 5]).into_dyn());
        assert_eq!(labels(&[own, scores]).unwrap(), [7, 5]);
        assert!(labels(&[]).is_err());
        assert_eq!(equal(&[1, 2, 3, 4], &[1, 0, 3, 5]), 0.5);
    }
}
