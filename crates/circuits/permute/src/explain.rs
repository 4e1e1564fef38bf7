//! The planner's table of candidates: which plan was chosen, and what the others would need.

use std::collections::BTreeMap;
use std::fmt;

use crate::candidates::Candidate;
use crate::error::PermuteError;
use crate::plan::{Operations, Strategy};
use crate::task::Verdict;

/// A row of the table: a plan and its verdict.
#[derive(Clone, Debug)]
pub struct Row {
    /// The plan with its cost.
    pub candidate: Candidate,
    /// Whether it satisfies the constraints.
    pub verdict: Verdict,
}

/// All plans for a task, the fastest first. `Display` prints a table with the best plan of each strategy and depth.
#[derive(Clone, Debug)]
pub struct Explanation {
    input_level: usize,
    output_level: usize,
    rows: Vec<Row>,
}

impl Explanation {
    pub(crate) fn new(input_level: usize, output_level: usize, mut rows: Vec<Row>) -> Self {
        rows.sort_by(|a, b| a.candidate.seconds.total_cmp(&b.candidate.seconds));
        Explanation { input_level, output_level, rows }
    }

    /// All plans, the fastest first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The fastest allowed plan.
    pub fn best(&self) -> Option<&Candidate> {
        self.rows.iter().find(|row| row.verdict == Verdict::Allowed).map(|row| &row.candidate)
    }

    /// The fastest allowed plan of a strategy.
    pub fn best_of(&self, strategy: Strategy) -> Option<&Candidate> {
        let of = |row: &&Row| row.verdict == Verdict::Allowed && row.candidate.plan.strategy() == strategy;
        self.rows.iter().find(of).map(|row| &row.candidate)
    }

    /// The fastest allowed plan, by value.
    ///
    /// # Errors
    /// If no plan is allowed: the error says what the plans that come closest would need.
    pub fn into_best(self) -> Result<Candidate, PermuteError> {
        let reason = self.missing();
        let (input, output) = (self.input_level, self.output_level);
        let best = self.rows.into_iter().find(|row| row.verdict == Verdict::Allowed);
        best.map(|row| row.candidate).ok_or(PermuteError::NoPlan { input, output, reason })
    }

    /// Requirements of the plans that come closest, as text.
    fn missing(&self) -> String {
        let verdicts = || self.rows.iter().map(|row| row.verdict);
        let level = verdicts().filter_map(|v| if let Verdict::NeedsLevel(n) = v { Some(n) } else { None }).min();
        let keys = verdicts().filter_map(|v| if let Verdict::NeedsKeys(n) = v { Some(n) } else { None }).min();
        let bytes =
            verdicts().filter_map(|v| if let Verdict::NeedsPreparedBytes(n) = v { Some(n) } else { None }).min();
        let parts = [
            level.map(|level| format!("with an input at level {level} there is a plan")),
            keys.map(|keys| format!("with {keys} keys there is one")),
            bytes.map(|bytes| format!("with {} MB of masks there is one", bytes >> 20)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            true => "the parameters have no level left; use a deeper preset or a lower output level".into(),
            false => parts.join("; "),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "from level {} to level {}:", self.input_level, self.output_level)?;
        writeln!(
            f,
            "{:<22} {:>5} {:>7} {:>6} {:>6} {:>5} {:>8} {:>9}  verdict",
            "plan", "depth", "hoisted", "whole", "masks", "keys", "masks/MB", "time/ms"
        )?;
        let mut best: BTreeMap<(Strategy, usize, bool), &Row> = BTreeMap::new();
        for row in &self.rows {
            let allowed = row.verdict == Verdict::Allowed;
            best.entry((row.candidate.plan.strategy(), row.candidate.estimate.depth, allowed)).or_insert(row);
        }
        let fastest = self.rows.iter().find(|row| row.verdict == Verdict::Allowed);
        let mut shown: Vec<&Row> = best.into_values().collect();
        shown.sort_by(|a, b| a.candidate.seconds.total_cmp(&b.candidate.seconds));
        for row in shown {
            let Candidate { plan, estimate, seconds } = &row.candidate;
            let [hoisted, whole] = estimate.total_rotations();
            let chosen = fastest.is_some_and(|fastest| std::ptr::eq(fastest, row));
            let verdict = match row.verdict {
                Verdict::Allowed if chosen => "chosen: the fastest that is allowed".into(),
                Verdict::Allowed => "slower".into(),
                Verdict::NeedsLevel(level) => format!("needs an input at level {level}"),
                Verdict::NeedsKeys(keys) => format!("needs {keys} keys"),
                Verdict::NeedsPreparedBytes(bytes) => format!("needs {} MB of masks", bytes >> 20),
            };
            writeln!(
                f,
                "{:<22} {:>5} {hoisted:>7} {whole:>6} {:>6} {:>5} {:>8} {:>9.1}  {verdict}",
                name(plan.strategy(), plan.program()),
                estimate.depth,
                estimate.masks,
                estimate.keys.len(),
                estimate.prepared_bytes >> 20,
                seconds * 1e3,
            )?;
        }
        Ok(())
    }
}

/// Name of a plan: the strategy, and the baby steps of the stages or the numbers of collapsed steps of the network.
fn name(strategy: Strategy, program: &Operations) -> String {
    match program {
        Operations::Stages(stages) if strategy != Strategy::Identity => {
            let babies: Vec<String> = stages.iter().map(|stage| stage.babies.to_string()).collect();
            format!("{strategy} {}", babies.join(","))
        }
        Operations::Stages(_) => strategy.to_string(),
        Operations::Copies(copies) => {
            let babies: Vec<String> = copies.layers.iter().map(|layer| layer.babies.to_string()).collect();
            format!("{strategy} {}x{}", copies.count, babies.join(","))
        }
        Operations::Network(network) => {
            let last = network.leaves.keys().next_back().map_or(0, |last| u32::BITS - last.leading_zeros());
            format!("{strategy} {}/{last}", network.top.len())
        }
    }
}
