//! The lookup suite: encrypted fastText by every plan, and the baselines of the paper.

mod data;
mod indicator;
mod one_hot;
mod plans;

use unspoken_ckks::Preset;
use unspoken_lookup::Plan;

use crate::error::BenchError;
use crate::session::Session;

use data::Sample;
use plans::{Contest, Shop};

/// Messages classified at once.
const MESSAGES: usize = 256;

/// The plans beside the paper's.
const OURS: [Plan; 4] =
    [Plan::ComplexFirst, Plan::LazyLast, Plan::BabyGiant { babies: 8 }, Plan::BabyGiant { babies: 16 }];

pub(crate) fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    session.note("training the model");
    let sample = Sample::load(&session.options.root, MESSAGES)?;
    session.note(format!("{} model, {} held-out messages", sample.source, sample.messages.len()));
    if session.options.quick {
        let quick = Contest { preset: "n14_depth8_scale30", plans: &OURS, messages: 64, rounds: 1 };
        plans::run(session, &sample, quick)?;
        one_hot::run(session, &sample, Preset::find("n14_depth8_scale30")?)?;
    } else {
        let small = Contest { preset: "n14_depth8_scale30", plans: &OURS, messages: MESSAGES, rounds: 1 };
        plans::run(session, &sample, small)?;
        let precise = Contest { preset: "n15_depth8_scale50", plans: &OURS, messages: MESSAGES, rounds: 2 };
        let best = plans::run(session, &sample, precise)?;
        one_hot::run(session, &sample, Preset::find("n15_depth8_scale50")?)?;
        let mut shop = Shop::new(&sample, Preset::find("n15_depth8_scale50")?, best)?;
        indicator::run(session, &sample, &mut shop, Preset::find("n16_depth24_scale52")?, 3)?;
    }
    session.peak_memory("clients, servers and every plan of the suite");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Options, Row, Suite};

    #[test]
    fn every_plan_and_baseline_at_a_small_ring() {
        let options = Options { quick: true, peers: false, clock: Clock::Cpu, ..Options::default() };
        let mut rows: Vec<Row> = Vec::new();
        let (mut sink, mut progress) = (|row| rows.push(row), |_: &str| ());
        let mut session = Session::new(Suite::Lookup, &options, &mut sink, &mut progress).unwrap();
        let sample = Sample::synthetic(16, 32).unwrap();
        const PLANS: [Plan; 2] = [Plan::LazyLast, Plan::BabyGiant { babies: 4 }];
        let preset = "insecure_n11_depth9_scale50";
        let contest = Contest { preset, plans: &PLANS, messages: 16, rounds: 1 };
        let best = plans::run(&mut session, &sample, contest).unwrap();
        assert!(PLANS.contains(&best));
        one_hot::run(&mut session, &sample, Preset::find(preset).unwrap()).unwrap();
        let mut shop = Shop::new(&sample, Preset::find(preset).unwrap(), best).unwrap();
        let deep = Preset::find("insecure_n11_depth24_scale52").unwrap();
        indicator::run(&mut session, &sample, &mut shop, deep, 2).unwrap();
        let value = |case: &str, metric: &str| {
            let row = rows.iter().find(|row| row.case.starts_with(case) && row.metric == metric);
            row.unwrap_or_else(|| panic!("no {metric} of {case}")).ours
        };
        for plan in ["paper", "lazy-last", "baby-giant-4"] {
            let case = format!("fastText, {plan}");
            let total = value(&case, "time_per_message");
            assert!(total > 0.0);
            let shares = value(&case, "vecgen_per_message") + value(&case, "linear_per_message");
            assert!(shares < total && shares > 0.5 * total, "{shares} of {total}");
            assert!(value(&case, "log2_relative_error") < -10.0);
            assert_eq!(value(&case, "labels_differ"), 0.0);
        }
        let kim = rows.iter().find(|row| row.baseline_name.starts_with("Kim")).unwrap();
        assert!(kim.case.contains("extrapolated from 2 of 128 columns") && kim.ratio.unwrap() > 1.0, "{kim:?}");
        let query = rows.iter().find(|row| row.baseline_name.starts_with("one-hot")).unwrap();
        assert!(query.ratio.unwrap() > 1.0, "{query:?}");
    }
}
