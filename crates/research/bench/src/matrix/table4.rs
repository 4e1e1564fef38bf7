//! Products in every encoding space (paper, Table 4), and the product of Jiang et al. in a single block.

use unspoken_encrypted_matrix::{Estimate, Method};

use super::products::{ComparedProduct, ProductFixture};
use crate::harness::Harness;

/// The published product rotates one by one; with hoisting it is the baseline of today.
const ORIGINAL: &str = "Rizomiliotis and Triakosia";
const HOISTED: &str = "the same, hoisted";
const PAPER: &str = "the paper's, by doublings";
const JKLS: &str = "Jiang et al.";

/// One dimension: our fastest method in each space, compared with the original in its own space and the paper's in
/// ours.
pub(super) fn run(
    harness: &mut Harness<'_>,
    fixture: &ProductFixture,
    dimension: usize,
    every_space: bool,
) -> anyhow::Result<()> {
    let spaces: Vec<usize> = (0..=dimension.ilog2()).rev().map(|log2| 1 << log2).collect();
    let fitting: Vec<usize> = spaces.into_iter().filter(|&m| fixture.layout(dimension, m).is_some()).collect();
    let (largest, smallest) = (fitting.first().copied(), fitting.last().copied());
    for &blocks in fitting.iter().filter(|&&m| every_space || Some(m) == largest || Some(m) == smallest) {
        let Some(layout) = fixture.layout(dimension, blocks) else { continue };
        let all = fixture.methods(layout)?;
        let is_ours = |estimate: &&Estimate| {
            !matches!(estimate.method, Method::Original { .. } | Method::Jkls { hoisted: false })
        };
        let Some(ours) = all.iter().find(is_ours) else { continue };
        let product =
            |name: &str, estimate: &Estimate| ComparedProduct { name: name.into(), layout, estimate: estimate.clone() };
        let mut products = vec![product("", ours)];
        products.extend(originals(fixture, dimension)?);
        let paper = Method::Expanded { radix: 2, step: dimension };
        products.extend(all.iter().filter(|e| e.method == paper).map(|estimate| product(PAPER, estimate)));
        let jkls = all.iter().filter(|e| e.method == Method::Jkls { hoisted: false });
        products.extend(jkls.map(|estimate| product(JKLS, estimate)));
        fixture.compare(harness, &format!("product, d = {dimension}, {blocks} blocks"), &products)?;
    }
    Ok(())
}

/// The original, if its `d^3` slots are available.
fn originals(fixture: &ProductFixture, dimension: usize) -> anyhow::Result<Vec<ComparedProduct>> {
    let Some(layout) = fixture.layout(dimension, dimension) else { return Ok(Vec::new()) };
    let all = fixture.methods(layout)?;
    let find = |hoisted: bool, name: &str| {
        let estimate = all.iter().find(|e| e.method == Method::Original { hoisted });
        estimate.map(|estimate| ComparedProduct { name: name.into(), layout, estimate: estimate.clone() })
    };
    Ok([find(false, ORIGINAL), find(true, HOISTED)].into_iter().flatten().collect())
}
