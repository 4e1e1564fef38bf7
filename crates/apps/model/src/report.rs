//! What is predicted of a compiled model.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use unspoken_network::{Approximation, Refit};
use unspoken_onnx::{Finish, Outputs};
use unspoken_store::ModelId;

use crate::bootstraps::BootstrapReport;

/// What is predicted of a compiled model: as JSON for programs, and as text for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The id of the compiled model.
    pub id: ModelId,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// What clients compute from the results, each once. They get the constants of it.
    pub client_steps: Vec<String>,
    /// Number of calibration rows.
    pub calibration_rows: usize,
    /// Factor by which ranges are wider than in these.
    pub margin: f64,
    /// The parameter set.
    pub preset: String,
    /// Rows of a query.
    pub batch: usize,
    /// Levels of a query: all that the model needs, or those before the first bootstraps.
    pub levels: usize,
    /// Where values are bootstrapped.
    pub bootstraps: Vec<BootstrapReport>,
    /// Bytes of what the service tells clients of the model.
    pub description_bytes: u64,
    /// Bytes of a query of one batch.
    pub query_bytes: u64,
    /// Bytes of the keys that a client sends once.
    pub key_bytes: u64,
    /// Bytes of memory of the weights.
    pub weight_bytes: u64,
    /// Bytes of memory of the work of one query.
    pub working_bytes: u64,
    /// Predicted seconds of a query on one core of the machine that compiled the model.
    pub seconds_on_one_core: f64,
    /// Largest difference that polynomials make to the results of calibration rows, as a part of the radius of their
    /// ranges; where the last map was fitted again, on rows that were left out of the fit.
    pub error_of_polynomials: f64,
    /// Largest difference that noise makes to them, in the same unit.
    pub error_of_noise: f64,
    /// Calibration rows whose results are too large for rows in the ranges.
    pub rows_outside: Vec<usize>,
    /// Inputs with elements that never vary in the calibration rows.
    pub constant_inputs: Vec<(String, Vec<usize>)>,
    /// The functions of the model with their polynomials.
    pub functions: Vec<FunctionReport>,
    /// The maps whose weights were fitted again, to what polynomials give them.
    pub refits: Vec<RefitReport>,
    /// Seconds that compiling took.
    pub compile_seconds: f64,
}

/// A function of a model, and the polynomial in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionReport {
    /// The function.
    pub function: String,
    /// The degree of the polynomial.
    pub degree: usize,
    /// Levels that it uses.
    pub levels: usize,
    /// Its largest error in the ranges, as a part of the radius of the result.
    pub largest_error: f64,
    /// Its root mean square error, in the same unit.
    pub mean_error: f64,
}

impl From<&Approximation> for FunctionReport {
    fn from(one: &Approximation) -> Self {
        FunctionReport {
            function: format!("{:?}", one.function),
            degree: one.degree,
            levels: one.depth,
            largest_error: one.largest,
            mean_error: one.rms,
        }
    }
}

/// A map whose weights were fitted again: mean errors of its results over the calibration, as parts of their ranges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefitReport {
    /// The step of the network.
    pub step: usize,
    /// With the weights of the model.
    pub before: f64,
    /// With the weights that are served, on rows that were left out of the fit.
    pub after: f64,
}

impl From<&Refit> for RefitReport {
    fn from(one: &Refit) -> Self {
        RefitReport { step: one.value.index(), before: one.before, after: one.after }
    }
}

/// The names of what clients compute, each once.
pub(crate) fn client_steps(outputs: &Outputs) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for step in outputs.as_slice().iter().flat_map(|output| &output.steps) {
        let whole = match &step.finish {
            Finish::Compute(operation) => format!("{operation:?}"),
            other => format!("{other:?}"),
        };
        // The name is in front of the constants.
        let name = whole.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A line for each fact, without the functions.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        writeln!(f, "model       {} inputs, {} outputs", self.inputs.len(), self.outputs.len())?;
        writeln!(f, "calibrated  on {} rows, with a margin of {}", self.calibration_rows, self.margin)?;
        writeln!(f, "preset      {}, {} levels, {} rows a query", self.preset, self.levels, self.batch)?;
        let (query, keys) = (megabytes(self.query_bytes), megabytes(self.key_bytes));
        writeln!(f, "query       {query:.2} MB, keys {keys:.2} MB, once")?;
        let (weights, work) = (megabytes(self.weight_bytes), megabytes(self.working_bytes));
        writeln!(f, "memory      {weights:.1} MB of weights, {work:.1} MB for a run")?;
        writeln!(f, "predicted   {:.3} s a query on one core of this machine", self.seconds_on_one_core)?;
        if !self.bootstraps.is_empty() {
            let vectors: usize = self.bootstraps.iter().map(|one| one.vectors).sum();
            let seconds: f64 = self.bootstraps.iter().map(|one| one.seconds).sum();
            writeln!(f, "bootstraps  of {vectors} vectors, {seconds:.3} s of these")?;
        }
        let (polynomials, noise) = (self.error_of_polynomials, self.error_of_noise);
        write!(f, "error       {polynomials:.1e} by polynomials and {noise:.1e} by noise, as parts of the ranges of ")?;
        writeln!(f, "results, on calibration rows")?;
        for (name, elements) in &self.constant_inputs {
            writeln!(f, "warning     input {name:?} never varies in {} of its numbers", elements.len())?;
        }
        Ok(())
    }
}

impl Report {
    /// The report as a JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The text with what leaves the service, and tables of the functions and of the bootstraps, if there are any.
    pub fn explain(&self) -> String {
        let constants = match self.client_steps.as_slice() {
            [] => String::new(),
            steps => format!(", and all constants of the last steps: {}", steps.join(", ")),
        };
        let leaves = format!("clients     get names, shapes and ranges of inputs and results{constants}\n");
        self.to_string()
            + &leaves
            + &self.explained_functions()
            + &self.explained_refits()
            + &self.explained_bootstraps()
    }

    fn explained_functions(&self) -> String {
        if self.functions.is_empty() {
            return String::new();
        }
        let columns = ["function", "degree", "levels", "largest error", "mean error"];
        let [function, degree, levels, largest, mean] = columns;
        let mut text = format!("\n{function:<28} {degree:>7} {levels:>7} {largest:>14} {mean:>12}\n");
        for one in &self.functions {
            let FunctionReport { function, degree, levels, largest_error, mean_error } = one;
            text += &format!("{function:<28} {degree:>7} {levels:>7} {largest_error:>14.1e} {mean_error:>12.1e}\n");
        }
        text
    }

    fn explained_refits(&self) -> String {
        if self.refits.is_empty() {
            return String::new();
        }
        let [map, before, after] = ["weights fitted again", "mean error before", "after"];
        let mut text = format!("\n{map:<44} {before:>18} {after:>12}\n");
        for RefitReport { step, before, after } in &self.refits {
            let map = format!("map of step {step}");
            text += &format!("{map:<44} {before:>18.1e} {after:>12.1e}\n");
        }
        text
    }

    fn explained_bootstraps(&self) -> String {
        if self.bootstraps.is_empty() {
            return String::new();
        }
        let [before, level, vectors, seconds] = ["bootstraps before", "level", "vectors", "seconds"];
        let mut text = format!("\n{before:<46} {level:>7} {vectors:>7} {seconds:>10}\n");
        for one in &self.bootstraps {
            let BootstrapReport { before, level, vectors, seconds, .. } = one;
            text += &format!("{before:<46} {level:>7} {vectors:>7} {seconds:>10.3}\n");
        }
        text
    }
}
