//! Table 6 of the permutation paper: E2DM-lite on encrypted images; our layouts compared with the paper's layout and
//! with E2DM's own matrix product.
//!
//! Images and weights are encrypted, by `EncryptedWeightsCircuit`. One baseline is the paper's convolution, a vector of
//! images for each of the 49 pixels under the kernel, with dense layers as cheap as its expanded form allows: cheaper
//! than the paper's own. The other baseline is the network as E2DM's matrix products (`unspoken-encrypted-matrix`,
//! rotations hoisted), which has only one batch size; a small batch costs as much as a full one. All end at level 0,
//! and all scores are checked against the network in the clear. The seeds of queries are expanded before the clock
//! starts, which favours the 49 vectors over ours. Key switches and products are the simulator's counts. `weights
//! known` is `PlainWeightsCircuit`, which has no baseline.

mod circuit;
mod fixture;
mod jkls;
mod pixel_vectors;

use circuit::Circuit;
use fixture::CircuitFixture;
use jkls::JklsCircuit;
use pixel_vectors::PixelVectorsCircuit;
use unspoken_ckks::Preset;
use unspoken_cnn::PlainWeightsCircuit;
use unspoken_digits_model::Shape;
use unspoken_papers::EncryptedWeightsCircuit;

use crate::clock::{Clock, Stopwatch, alternate, scaled};
use crate::harness::{Harness, pool};
use crate::row::{Metric, params};
use crate::untrained::network;

const TIME: Metric = Metric::less("time", "ms");
const PER_IMAGE: Metric = Metric::less("time_per_image", "ms");
const KEY_SWITCHES: Metric = Metric::less("key_switches", "count");
const PRODUCTS: Metric = Metric::less("products", "count");
const LEVELS: Metric = Metric::less("levels", "count");
const KEYS: Metric = Metric::less("keys", "count");
const KEY_WIRE: Metric = Metric::less("key_wire", "bytes");
const QUERY_WIRE: Metric = Metric::less("query_wire", "bytes");

/// A preset, a shape, and the measured batch sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    preset: &'static str,
    shape: Shape,
    batches: &'static [usize],
}

/// The paper's slots, levels and batch sizes, in the real ring.
const FULL: Case = Case { preset: "n15_real_depth17_scale30", shape: Shape::LITE, batches: &[8, 16, 32] };
/// E2DM, whose matrix products have a batch of 128 in these slots.
const E2DM: Case = Case { shape: Shape::FULL, batches: &[], ..FULL };
const QUICK: Case = Case { preset: "n14_real_depth8_scale30", shape: Shape::LITE, batches: &[8] };

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    if harness.options.quick {
        harness.progress("E2DM's own product takes nine levels and minutes: leave out --quick for it");
        return small_batches(harness, QUICK);
    }
    small_batches(harness, FULL)?;
    matrices(harness, FULL)?;
    matrices(harness, E2DM)?;
    known_weights(harness, FULL)
}

/// Our layout of images and weights against the paper's, for each batch size.
fn small_batches(harness: &mut Harness<'_>, case: Case) -> anyhow::Result<()> {
    let parameters = Preset::find(case.preset)?.build()?;
    for &batch in case.batches {
        harness.progress(format!("batch {batch}, weights encrypted: 49 vectors of images for each tile, and fewer"));
        let ours = CircuitFixture::new(EncryptedWeightsCircuit::new(case.shape, &parameters, batch)?, &parameters)?;
        let paper = CircuitFixture::new(PixelVectorsCircuit::new(case.shape, &parameters, batch)?, &parameters)?;
        compare(harness, &ours, &paper, &format!("{}, batch {batch}", name(case.shape)))?;
        threads(harness, &ours, &format!("{}, batch {batch}", name(case.shape)))?;
    }
    Ok(())
}

/// Our layouts, at each batch size and at the batch size of the baseline, against the network as matrix products
/// (Jiang, Kim, Lauter and Song), which has only one batch size.
fn matrices(harness: &mut Harness<'_>, case: Case) -> anyhow::Result<()> {
    let parameters = Preset::find(case.preset)?.build()?;
    harness.progress("the network over E2DM's products of matrices");
    let jkls = CircuitFixture::new(JklsCircuit::new(case.shape, &parameters)?, &parameters)?;
    for batch in case.batches.iter().copied().chain([jkls.circuit.batch()]) {
        let ours = CircuitFixture::new(EncryptedWeightsCircuit::new(case.shape, &parameters, batch)?, &parameters)?;
        compare(harness, &ours, &jkls, &format!("{}, batch {batch}", name(case.shape)))?;
    }
    Ok(())
}

/// Weights known to the server.
fn known_weights(harness: &mut Harness<'_>, case: Case) -> anyhow::Result<()> {
    for preset in [QUICK.preset, case.preset] {
        let parameters = Preset::find(preset)?.build()?;
        let batch = parameters.slots() / case.shape.features();
        harness.progress(format!("batch {batch}, weights known"));
        let network = network(case.shape)?;
        let ours = CircuitFixture::new(PlainWeightsCircuit::new(&network, &parameters, batch)?, &parameters)?;
        let label = format!("{}, weights known, batch {batch}", name(case.shape));
        let seconds = alternate(harness.repetitions(), &mut [Box::new(|| ours.time(harness.stopwatch()))])?;
        let params = params! { "preset": preset, "batch": batch };
        harness.timing(TIME, label.clone(), &scaled(&seconds[0], 1e3), None, params.clone());
        harness.timing(PER_IMAGE, label.clone(), &scaled(&seconds[0], 1e3 / batch as f64), None, params.clone());
        for (metric, value) in ours.counts() {
            harness.value(metric, label.clone(), value, None, params.clone());
        }
        threads(harness, &ours, &label)?;
    }
    Ok(())
}

fn compare<C: Circuit, D: Circuit>(
    harness: &mut Harness<'_>,
    ours: &CircuitFixture<C>,
    baseline: &CircuitFixture<D>,
    label: &str,
) -> anyhow::Result<()> {
    let stopwatch = harness.stopwatch();
    let (time_ours, time_baseline) = (|| ours.time(stopwatch), || baseline.time(stopwatch));
    let samples = alternate(harness.repetitions(), &mut [Box::new(time_ours), Box::new(time_baseline)])?;
    let name = format!("{}, batch {}", D::NAME, baseline.circuit.batch());
    let params = params! {
        "preset": ours.parameters().name(), "batch": ours.circuit.batch(), "baseline_batch": baseline.circuit.batch(),
    };
    let times = |seconds: &[f64], batch: usize| scaled(seconds, 1e3 / batch as f64);
    let [mine, theirs] = [times(&samples[0], 1), times(&samples[1], 1)];
    harness.timing(TIME, label, &mine, Some((&name, &theirs)), params.clone());
    let [mine, theirs] = [times(&samples[0], ours.circuit.batch()), times(&samples[1], baseline.circuit.batch())];
    harness.timing(PER_IMAGE, label, &mine, Some((&name, &theirs)), params.clone());
    for ((metric, mine), (_, theirs)) in ours.counts().into_iter().zip(baseline.counts()) {
        harness.value(metric, label, mine, Some((&name, theirs)), params.clone());
    }
    Ok(())
}

/// Several threads against one.
fn threads<C: Circuit>(harness: &mut Harness<'_>, ours: &CircuitFixture<C>, label: &str) -> anyhow::Result<()> {
    for threads in harness.options.threads.clone() {
        let several = pool(threads)?;
        let [on_several, on_one] =
            [&several, &harness.single_thread].map(|threads| move || ours.time(Stopwatch::wall(threads)));
        let samples = alternate(harness.repetitions(), &mut [Box::new(on_several), Box::new(on_one)])?;
        let [mine, theirs] = [&samples[0], &samples[1]].map(|seconds| scaled(seconds, 1e3));
        let params = params! {
            "preset": ours.parameters().name(), "batch": ours.circuit.batch(), "threads": threads,
            "clock": Clock::Wall.name(), "repetitions": mine.len(),
        };
        harness.row(TIME, format!("{label}, {threads} threads"), &mine, Some(("ours, 1 thread", &theirs)), params);
    }
    Ok(())
}

fn name(shape: Shape) -> &'static str {
    match shape {
        Shape::LITE => "E2DM-lite",
        Shape::FULL => "E2DM",
        _ => "a small network",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    #[test]
    fn every_circuit_at_a_small_ring_gives_the_scores_of_the_network() {
        let shape = Shape { channels: 1, hidden: 16 };
        let case = Case { preset: "insecure_n11_real_depth17_scale30", shape, batches: &[8] };
        let rows = test_rows(Suite::Matrix, |harness| {
            small_batches(harness, case)?;
            matrices(harness, case)
        });
        let find = |metric: &str, baseline: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.baseline_name.starts_with(baseline));
            row.unwrap_or_else(|| panic!("no {metric} beside {baseline}"))
        };
        // Four vectors of pixels instead of the paper's 49; the tiles are the same.
        assert_eq!(find("query_wire", PixelVectorsCircuit::NAME).ratio, Some(49.0 / 4.0));
        assert_eq!(
            (find("levels", JklsCircuit::NAME).ours, find("levels", JklsCircuit::NAME).baseline),
            (5.0, Some(9.0))
        );
        assert!(find("time", "ours").ours > 0.0 && find("time_per_image", JklsCircuit::NAME).ratio.is_some());
    }
}
