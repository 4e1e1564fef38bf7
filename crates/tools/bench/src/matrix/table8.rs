//! Rotations before the mask, in a single block (paper, Table 8): each step beside none, and beside the original.

use unspoken_matrix::{Estimate, Method};

use super::products::{Entry, Workshop};
use crate::error::BenchError;
use crate::session::Session;

const NONE: &str = "no steps before the mask";

/// One dimension: for every step the radix that is predicted to be fastest.
pub(super) fn run(session: &mut Session<'_>, workshop: &Workshop, dimension: usize) -> Result<(), BenchError> {
    let Some(layout) = workshop.layout(dimension, 1) else { return Ok(()) };
    let all = workshop.methods(layout)?;
    let best = |wanted: usize| {
        all.iter().find(|estimate| matches!(estimate.method, Method::Expanded { step, .. } if step == wanted))
    };
    let entry = |name: &str, estimate: &Estimate| Entry { name: name.into(), layout, estimate: estimate.clone() };
    let Some(none) = best(dimension) else { return Ok(()) };
    for log2 in (0..dimension.ilog2()).rev() {
        let step = 1 << log2;
        let Some(ours) = best(step) else { continue };
        let entries = [entry("", ours), entry(NONE, none)];
        workshop.contest(session, &format!("replication, d = {dimension}, step {step}"), &entries)?;
    }
    Ok(())
}
