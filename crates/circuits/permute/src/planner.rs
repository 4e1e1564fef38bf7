//! The planner: all plans for a permutation, their costs, and the cheapest allowed plan.

use unspoken_ckks::{CkksParameters, CostModel};

use crate::candidates::{Candidate, Scope, candidates};
use crate::error::{PermuteError, wrong};
use crate::explain::{Explanation, Row};
use crate::task::{Task, Verdict};

impl Task<'_> {
    /// All plans with their costs and verdicts, including the cheapest allowed plan.
    ///
    /// # Errors
    /// If the construction of a candidate fails, which a valid permutation rules out.
    pub fn explain(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Explanation, PermuteError> {
        Ok(self.explained(self.candidates(parameters, model)?))
    }

    /// As [`Task::explain`], with the plans of stages alone ([`Program::Stages`](crate::Program::Stages)): for callers
    /// that run no others, whose search takes most of the time.
    ///
    /// # Errors
    /// Same as [`Task::explain`].
    pub fn explain_stages(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Explanation, PermuteError> {
        Ok(self.explained(candidates(self, Scope::Stages, parameters, model)?))
    }

    fn explained(&self, candidates: Vec<Candidate>) -> Explanation {
        let rows = candidates.into_iter().map(|candidate| {
            let verdict = self.verdict(&candidate.estimate);
            Row { candidate, verdict }
        });
        Explanation::new(self.input_level, self.output_level, rows.collect())
    }

    /// The cheapest allowed plan of diagonals or ideal factors, if it has at most `2 log2` of the length rotations. A
    /// network for any permutation has more, so there is no need to search for one, which takes most of the time of
    /// [`Task::explain`].
    ///
    /// # Errors
    /// If the construction of a candidate fails, which a valid permutation rules out.
    pub fn structured(
        &self,
        parameters: &CkksParameters,
        model: &CostModel,
    ) -> Result<Option<Candidate>, PermuteError> {
        let most = 2 * u64::from(self.permutation.len().next_power_of_two().ilog2());
        let few = |candidate: &Candidate| candidate.estimate.total_rotations().iter().sum::<u64>() <= most;
        let found = candidates(self, Scope::Structured, parameters, model)?;
        let allowed = found.into_iter().filter(|candidate| self.verdict(&candidate.estimate) == Verdict::Allowed);
        Ok(allowed.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).filter(few))
    }

    /// The cheapest allowed plan. One of [`Task::structured`] is taken without a search for networks.
    ///
    /// # Errors
    /// If no plan is allowed: the error says what is missing.
    pub fn plan(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Candidate, PermuteError> {
        match self.structured(parameters, model)? {
            Some(candidate) => Ok(candidate),
            None => self.explain(parameters, model)?.into_best().and_then(|chosen| self.checked(chosen)),
        }
    }

    /// The chosen plan, after one run in the clear. The search checks none of the many that it makes.
    fn checked(&self, chosen: Candidate) -> Result<Candidate, PermuteError> {
        let wanted = self.permutation.padded(chosen.plan.length())?;
        if chosen.plan.permutation()? == wanted {
            return Ok(chosen);
        }
        Err(wrong("the chosen plan", "another permutation", "the one that was asked for; this is a bug, report it"))
    }

    /// The plans of all strategies, with their costs.
    ///
    /// # Errors
    /// Same as [`Task::explain`].
    pub fn candidates(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Vec<Candidate>, PermuteError> {
        candidates(self, Scope::All, parameters, model)
    }
}
