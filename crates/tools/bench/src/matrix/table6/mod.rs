//! Table 6 of the permutation paper: E2DM-lite on encrypted images, our layouts beside the paper's and beside E2DM's own
//! product of matrices.

mod circuit;
mod jkls;
mod party;
mod pixels;

use circuit::Circuit;
use jkls::Jkls;
use party::Party;
use pixels::Pixels;
use unspoken_ckks::Preset;
use unspoken_cnn::{EncryptedWeightsCircuit, PlainWeightsCircuit};
use unspoken_digits_model::Shape;

use crate::clock::{Clock, Contender, alternate, scaled};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::{Session, pool};

const TIME: Metric = Metric::less("time", "ms");
const PER_IMAGE: Metric = Metric::less("time_per_image", "ms");
const KEY_SWITCHES: Metric = Metric::less("key_switches", "count");
const PRODUCTS: Metric = Metric::less("products", "count");
const LEVELS: Metric = Metric::less("levels", "count");
const KEYS: Metric = Metric::less("keys", "count");
const KEY_WIRE: Metric = Metric::less("key_wire", "bytes");
const QUERY_WIRE: Metric = Metric::less("query_wire", "bytes");

/// A preset, a shape, and which batches are measured in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    preset: &'static str,
    shape: Shape,
    batches: &'static [usize],
}

/// The paper's slots and levels, in the real ring; its batches.
const FULL: Case = Case { preset: "n15_real_depth17_scale30", shape: Shape::LITE, batches: &[8, 16, 32] };
const QUICK: Case = Case { preset: "n14_real_depth8_scale30", shape: Shape::LITE, batches: &[8] };

pub(crate) fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    if session.options.quick {
        session.note("E2DM's own product takes nine levels and minutes: leave out --quick for it");
        return small_batches(session, QUICK);
    }
    small_batches(session, FULL)?;
    matrices(session, FULL)?;
    known_weights(session, FULL)
}

/// Our layout of images and weights against the paper's, batch by batch.
fn small_batches(session: &mut Session<'_>, case: Case) -> Result<(), BenchError> {
    let parameters = Preset::find(case.preset)?.build()?;
    for &batch in case.batches {
        session.note(format!("batch {batch}, weights encrypted: 49 vectors of images for each tile, and fewer"));
        let ours = Party::new(EncryptedWeightsCircuit::new(case.shape, &parameters, batch)?, &parameters)?;
        let paper = Party::new(Pixels::new(case.shape, &parameters, batch)?, &parameters)?;
        compare(session, &ours, &paper, &format!("{}, batch {batch}", name(case.shape)))?;
        threads(session, &ours, &format!("{}, batch {batch}", name(case.shape)))?;
    }
    Ok(())
}

/// Our layouts against the network over products of matrices (Jiang, Kim, Lauter and Song), which has one batch only.
fn matrices(session: &mut Session<'_>, case: Case) -> Result<(), BenchError> {
    let parameters = Preset::find(case.preset)?.build()?;
    session.note("the network over E2DM's products of matrices");
    let jkls = Party::new(Jkls::new(case.shape, &parameters)?, &parameters)?;
    for batch in [case.batches[0], jkls.circuit.batch()] {
        let ours = Party::new(EncryptedWeightsCircuit::new(case.shape, &parameters, batch)?, &parameters)?;
        compare(session, &ours, &jkls, &format!("{}, batch {batch}", name(case.shape)))?;
    }
    Ok(())
}

/// Weights known to the server.
fn known_weights(session: &mut Session<'_>, case: Case) -> Result<(), BenchError> {
    for preset in [QUICK.preset, case.preset] {
        let parameters = Preset::find(preset)?.build()?;
        let batch = parameters.slots() / case.shape.features();
        session.note(format!("batch {batch}, weights known"));
        let network = party::network(case.shape)?;
        let ours = Party::new(PlainWeightsCircuit::new(&network, &parameters, batch)?, &parameters)?;
        let label = format!("{}, weights known, batch {batch}", name(case.shape));
        let seconds = alternate(session.effort(), &mut [Box::new(|| ours.time(session.clock(), &session.single))])?;
        let params = params! { "preset": preset, "batch": batch };
        session.timing(TIME, label.clone(), &scaled(&seconds[0], 1e3), None, params.clone());
        session.timing(PER_IMAGE, label.clone(), &scaled(&seconds[0], 1e3 / batch as f64), None, params.clone());
        for (metric, value) in ours.facts() {
            session.fact(metric, label.clone(), value, None, params.clone());
        }
        threads(session, &ours, &label)?;
    }
    Ok(())
}

fn compare<C: Circuit, D: Circuit>(
    session: &mut Session<'_>,
    ours: &Party<C>,
    baseline: &Party<D>,
    label: &str,
) -> Result<(), BenchError> {
    let (clock, single) = (session.clock(), &session.single);
    let mut contenders: [Contender<'_>; 2] =
        [Box::new(|| ours.time(clock, single)), Box::new(|| baseline.time(clock, single))];
    let samples = alternate(session.effort(), &mut contenders)?;
    drop(contenders);
    let name = format!("{}, batch {}", D::NAME, baseline.circuit.batch());
    let params = params! {
        "preset": ours.parameters().name(), "batch": ours.circuit.batch(), "baseline_batch": baseline.circuit.batch(),
    };
    let times = |seconds: &[f64], batch: usize| scaled(seconds, 1e3 / batch as f64);
    let [mine, theirs] = [times(&samples[0], 1), times(&samples[1], 1)];
    session.timing(TIME, label, &mine, Some((&name, &theirs)), params.clone());
    let [mine, theirs] = [times(&samples[0], ours.circuit.batch()), times(&samples[1], baseline.circuit.batch())];
    session.timing(PER_IMAGE, label, &mine, Some((&name, &theirs)), params.clone());
    for ((metric, mine), (_, theirs)) in ours.facts().into_iter().zip(baseline.facts()) {
        session.fact(metric, label, mine, Some((&name, theirs)), params.clone());
    }
    Ok(())
}

/// Several threads against one.
fn threads<C: Circuit>(session: &mut Session<'_>, ours: &Party<C>, label: &str) -> Result<(), BenchError> {
    for threads in session.options.threads.clone() {
        let (several, single) = (pool(threads)?, &session.single);
        let mut contenders: [Contender<'_>; 2] =
            [Box::new(|| ours.time(Clock::Wall, &several)), Box::new(|| ours.time(Clock::Wall, single))];
        let samples = alternate(session.effort(), &mut contenders)?;
        drop(contenders);
        let [mine, theirs] = [&samples[0], &samples[1]].map(|seconds| scaled(seconds, 1e3));
        let params = params! {
            "preset": ours.parameters().name(), "batch": ours.circuit.batch(), "threads": threads,
            "clock": Clock::Wall.name(), "repetitions": mine.len(),
        };
        session.row(TIME, format!("{label}, {threads} threads"), &mine, Some(("ours, 1 thread", &theirs)), params);
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
    use crate::{Options, Row, Suite};

    #[test]
    fn every_circuit_at_a_small_ring_gives_the_scores_of_the_network() {
        let options = Options { quick: true, peers: false, clock: Clock::Cpu, ..Options::default() };
        let mut rows: Vec<Row> = Vec::new();
        let (mut sink, mut progress) = (|row| rows.push(row), |_: &str| ());
        let mut session = Session::new(Suite::Matrix, &options, &mut sink, &mut progress).unwrap();
        let shape = Shape { channels: 1, hidden: 16 };
        let case = Case { preset: "insecure_n11_real_depth17_scale30", shape, batches: &[8] };
        small_batches(&mut session, case).unwrap();
        matrices(&mut session, case).unwrap();
        let find = |metric: &str, baseline: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.baseline_name.starts_with(baseline));
            row.unwrap_or_else(|| panic!("no {metric} beside {baseline}"))
        };
        // Four vectors of pixels where the paper has 49, and tiles alike.
        assert_eq!(find("query_wire", Pixels::NAME).ratio, Some(49.0 / 4.0));
        assert_eq!((find("levels", Jkls::NAME).ours, find("levels", Jkls::NAME).baseline), (5.0, Some(9.0)));
        assert!(find("time", "ours").ours > 0.0 && find("time_per_image", Jkls::NAME).ratio.is_some());
    }
}
