//! Rotations before the mask, in a single block (paper, Table 8): each step compared with no steps, both as published,
//! with one doubling at a time, and with the radix that is predicted to be fastest.

use unspoken_encrypted_matrix::{Estimate, Method};

use super::products::{ComparedProduct, ProductFixture};
use crate::harness::Harness;

const NONE: &str = "no steps before the mask";
const DOUBLINGS: &str = "no steps before the mask, by doublings";

/// One dimension: each step uses the radix that is predicted to be fastest.
pub(super) fn run(harness: &mut Harness<'_>, fixture: &ProductFixture, dimension: usize) -> anyhow::Result<()> {
    let Some(layout) = fixture.layout(dimension, 1) else { return Ok(()) };
    let all = fixture.methods(layout)?;
    let best = |wanted: usize| {
        all.iter().find(|estimate| matches!(estimate.method, Method::Expanded { step, .. } if step == wanted))
    };
    let product =
        |name: &str, estimate: &Estimate| ComparedProduct { name: name.into(), layout, estimate: estimate.clone() };
    let Some(none) = best(dimension) else { return Ok(()) };
    let doublings = all.iter().find(|estimate| estimate.method == Method::Expanded { radix: 2, step: dimension });
    for log2 in (0..dimension.ilog2()).rev() {
        let step = 1 << log2;
        let Some(ours) = best(step) else { continue };
        let mut products = vec![product("", ours), product(NONE, none)];
        products.extend(doublings.map(|estimate| product(DOUBLINGS, estimate)));
        fixture.compare(harness, &format!("replication, d = {dimension}, step {step}"), &products)?;
    }
    Ok(())
}
