//! Where a compiled model is bootstrapped.

use serde::{Deserialize, Serialize};
use unspoken_network::Program;

/// Bootstraps before a step of a compiled model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootstrapReport {
    /// The step.
    pub before: String,
    /// The level at which the step takes the fresh values.
    pub level: usize,
    /// Vectors that are bootstrapped.
    pub vectors: usize,
    /// Predicted seconds of these bootstraps on one core of the machine that compiled the model.
    pub seconds: f64,
}

impl BootstrapReport {
    /// The bootstraps of a program, in the order of its steps. Their nominal seconds are multiplied by `factor`.
    pub(crate) fn of(program: &Program, factor: f64) -> Vec<Self> {
        let steps = program.steps().iter().filter(|step| !step.refreshed.is_empty());
        let report = |step: &unspoken_network::PlannedStep| BootstrapReport {
            before: step.what.clone(),
            level: step.level,
            vectors: step.refreshed.iter().map(|(_, vectors)| vectors).sum(),
            seconds: factor * step.bootstrap_seconds,
        };
        steps.map(report).collect()
    }
}
