//! The planner: all plans for a permutation, their costs, and the cheapest allowed plan.
//!
//! Prices depend on the numbers of diagonals and steps alone, so no masks are made for them. Collapsed networks with
//! the same first groups share their routes. The search runs no plan in the clear. The chosen plan is run once, and so
//! is every plan that is read from a file. The blocks of a longer vector are planned at the same time. Networks over
//! several copies are searched and routed only if they are predicted to take at most a quarter longer than the best of
//! them.
//!
//! # Planning
//!
//! `PermutationTask::explain` builds every candidate (depths, baby steps, groups, collapsed levels). It prices all of
//! them for the same output level, so a deeper plan runs its first stages over more primes. Candidates beyond a limit
//! (input level, keys, bytes of prepared masks) stay in the table, with the limit they would need. If no candidate is
//! allowed, the error says what is missing.
//!
//! Use `CostModel::nominal`: a measured model times sums in cache, but long masks have to be read from memory. The
//! prices come from `Cost` in `ckks`. There, rotations that share digits and products with masks cost more than their
//! sums alone, by weights fitted to measured plans. Planning a random permutation needs about 2 seconds of one core for
//! 2^15 or 2^14 entries, and 0.4 for 2^12. `PermutationTask::plan_stages` leaves out networks over several copies and
//! multi-group networks, for callers that run stages alone: it needs about 1.4 seconds, 0.5 and 0.15.
//!
//! A `PlanCache` keeps the results of `PermutationTask::plan` and `PermutationTask::plan_stages` in files, in a
//! directory that the caller names.
//!
//! Masks are encoded at their first encrypted use and kept. `prepared_bytes` is the memory of masks and their values;
//! masks that are not yet encoded count as encoded. `working_bytes` is the peak memory of one run beyond that, the
//! input and the keys.

use unspoken_ckks::{CkksParameters, CostModel};

use crate::candidates::{Candidate, Scope, candidates};
use crate::error::{PermuteError, wrong};
use crate::estimate::estimate;
use crate::explain::{Explanation, Row};
use crate::plan::{Operations, PermutationPlan};
use crate::task::{PermutationTask, Verdict};
use crate::task_key::task_key;

impl PermutationTask<'_> {
    /// All plans with their costs and verdicts, including the cheapest allowed plan.
    ///
    /// # Errors
    /// If the construction of a candidate fails, which a valid permutation rules out.
    pub fn explain(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Explanation, PermuteError> {
        Ok(self.explained(self.candidates(parameters, model)?))
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
    /// [`PermutationTask::explain`].
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

    /// The cheapest allowed plan, or the plan of an earlier search in the cache. A plan of
    /// [`PermutationTask::structured`] is taken without a search for networks.
    ///
    /// # Errors
    /// If no plan is allowed: the error says what is missing.
    pub fn plan(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Candidate, PermuteError> {
        self.chosen(Scope::All, parameters, model)
    }

    /// As [`PermutationTask::plan`], of the plans of stages alone ([`Operations::Stages`](crate::Operations::Stages)).
    ///
    /// # Errors
    /// Same as [`PermutationTask::plan`].
    pub fn plan_stages(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Candidate, PermuteError> {
        self.chosen(Scope::Stages, parameters, model)
    }

    fn chosen(&self, scope: Scope, parameters: &CkksParameters, model: &CostModel) -> Result<Candidate, PermuteError> {
        let cache = self.cache.map(|cache| (cache, task_key(self, scope, parameters, model)));
        if let Some((cache, key)) = &cache
            && let Some(plan) = cache.find(key, self.permutation.len().next_power_of_two())
            && let Ok(candidate) = self.allowed(plan, scope, parameters, model)
        {
            return Ok(candidate);
        }
        if let Some(candidate) = self.structured(parameters, model)? {
            return Ok(candidate);
        }
        let found = self.checked(self.explained(candidates(self, scope, parameters, model)?).into_best()?)?;
        if let Some((cache, key)) = &cache {
            cache.keep(key, &found.plan);
        }
        Ok(found)
    }

    /// A plan that was read, with its cost, if a search could have found it.
    fn allowed(
        &self,
        plan: PermutationPlan,
        scope: Scope,
        parameters: &CkksParameters,
        model: &CostModel,
    ) -> Result<Candidate, PermuteError> {
        const NEEDED: &str = "one that the task allows";
        let in_scope = scope == Scope::All || matches!(plan.program(), Operations::Stages(_));
        let deep = self.output_level + plan.depth() > parameters.max_level();
        if plan.packing() != self.packing || !in_scope || deep {
            return Err(wrong("the plan", "of another kind", NEEDED));
        }
        let estimate = estimate(&plan, parameters, self.output_level)?;
        if self.verdict(&estimate) != Verdict::Allowed {
            return Err(wrong("the plan", "beyond the limits", NEEDED));
        }
        self.checked(Candidate { seconds: estimate.seconds(model), plan, estimate })
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
    /// Same as [`PermutationTask::explain`].
    pub fn candidates(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Vec<Candidate>, PermuteError> {
        candidates(self, Scope::All, parameters, model)
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};
    use unspoken_ckks::Preset;

    use super::*;
    use crate::cache::PlanCache;
    use crate::diagonals::Packing;
    use crate::permutation::Permutation;
    use crate::plan_file::{PlanKey, encode};
    use crate::task_key::SEARCH_VERSION;

    const LENGTH: usize = 64;

    /// A random permutation whose plans are kept in a directory.
    struct Fixture {
        parameters: CkksParameters,
        model: CostModel,
        permutation: Permutation,
        directory: tempfile::TempDir,
        cache: PlanCache,
    }

    impl Fixture {
        fn new() -> Self {
            let parameters = Preset::find("insecure_n11_depth17_scale30").unwrap().build().unwrap();
            let model = CostModel::nominal(&parameters);
            let directory = tempfile::tempdir().unwrap();
            let cache = PlanCache::new(directory.path().join("plans"));
            Fixture { parameters, model, permutation: Permutation::random(LENGTH - 3, 1).unwrap(), directory, cache }
        }

        fn task(&self) -> PermutationTask<'_> {
            let task = PermutationTask::new(&self.permutation, Packing::Repeated, &self.parameters, 1);
            PermutationTask { cache: Some(&self.cache), ..task }
        }

        fn key(&self, task: &PermutationTask<'_>, scope: Scope) -> PlanKey {
            task_key(task, scope, &self.parameters, &self.model)
        }

        fn plan(&self, task: &PermutationTask<'_>) -> PermutationPlan {
            task.plan(&self.parameters, &self.model).unwrap().plan
        }

        fn files(&self) -> Vec<std::path::PathBuf> {
            let files = std::fs::read_dir(self.cache.directory()).into_iter().flatten();
            files.map(|entry| entry.unwrap().path()).collect()
        }
    }

    #[test]
    fn a_plan_that_was_kept_is_not_searched_again() {
        let fixture = Fixture::new();
        let task = fixture.task();
        let searched =
            PermutationTask { cache: None, ..task.clone() }.plan(&fixture.parameters, &fixture.model).unwrap();
        assert_eq!(fixture.files().len(), 0);
        assert_eq!(fixture.plan(&task), searched.plan);
        assert_eq!(fixture.files().len(), 1);
        let read = task.plan(&fixture.parameters, &fixture.model).unwrap();
        assert_eq!(
            (read.plan, read.seconds, read.estimate.cost),
            (searched.plan, searched.seconds, searched.estimate.cost)
        );
        // A plan that the search would not choose, but that the task allows.
        let explanation = task.explain(&fixture.parameters, &fixture.model).unwrap();
        let slower = explanation.rows().iter().filter(|row| row.verdict == Verdict::Allowed).nth(1).unwrap();
        fixture.cache.keep(&fixture.key(&task, Scope::All), &slower.candidate.plan);
        assert_eq!(fixture.plan(&task), slower.candidate.plan);
        // Stages alone have another file.
        let stages = task.plan_stages(&fixture.parameters, &fixture.model).unwrap();
        assert!(matches!(stages.plan.program(), Operations::Stages(_)));
        assert_eq!(fixture.files().len(), 2);
    }

    /// The plans of stages are the same as in the whole search, in the same order.
    #[test]
    fn the_search_for_stages_finds_all_of_them() {
        let Fixture { parameters, model, .. } = Fixture::new();
        let permutation = Permutation::random(300, 5).unwrap();
        for packing in [Packing::Repeated, Packing::Blocks] {
            let task = PermutationTask::new(&permutation, packing, &parameters, 1);
            let plans = |scope| {
                let found = candidates(&task, scope, &parameters, &model).unwrap();
                found.into_iter().map(|candidate| candidate.plan).collect::<Vec<PermutationPlan>>()
            };
            let (all, stages) = (plans(Scope::All), plans(Scope::Stages));
            assert!(all.len() > stages.len() && !stages.is_empty());
            let of_stages = |plan: &PermutationPlan| matches!(plan.program(), Operations::Stages(_));
            assert_eq!(stages, all.into_iter().filter(of_stages).collect::<Vec<PermutationPlan>>());
        }
    }

    #[test]
    fn a_file_that_is_no_plan_of_the_task_is_replaced() {
        let fixture = Fixture::new();
        let task = fixture.task();
        let plan = fixture.plan(&task);
        let key = fixture.key(&task, Scope::All);
        let [file] = &fixture.files()[..] else { panic!("one file") };
        let good = std::fs::read(file).unwrap();
        assert_eq!(good, encode(&key, &plan));
        let explanation = task.explain(&fixture.parameters, &fixture.model).unwrap();
        let most = explanation.rows().iter().max_by_key(|row| row.candidate.estimate.keys.len()).unwrap();
        let other =
            PermutationTask { permutation: &Permutation::random(LENGTH, 2).unwrap(), cache: None, ..task.clone() };
        let mut damaged = good.clone();
        damaged[LENGTH] ^= 1;
        for bytes in [
            Vec::new(),
            damaged,
            good[..good.len() - 1].to_vec(),
            encode(&key, &fixture.plan(&other)),
            encode(&fixture.key(&task, Scope::Stages), &plan),
            [good.clone(), vec![0; 1 << 24]].concat(),
        ] {
            std::fs::write(file, bytes).unwrap();
            assert_eq!(fixture.plan(&task), plan);
            assert!(std::fs::read(file).unwrap() == good);
        }
        // A plan beyond the limits of the task.
        let limited = PermutationTask { max_keys: Some(most.candidate.estimate.keys.len() - 1), ..task.clone() };
        fixture.cache.keep(&fixture.key(&limited, Scope::All), &most.candidate.plan);
        assert_ne!(fixture.plan(&limited), most.candidate.plan);
        // A plan of another kind.
        let network = explanation.best_of(crate::Strategy::Network).unwrap();
        fixture.cache.keep(&fixture.key(&task, Scope::Stages), &network.plan);
        assert_ne!(task.plan_stages(&fixture.parameters, &fixture.model).unwrap().plan, network.plan);
    }

    #[test]
    fn every_part_of_a_task_is_in_its_key() {
        let fixture = Fixture::new();
        let task = fixture.task();
        let other = Permutation::random(LENGTH - 3, 2).unwrap();
        let longer = fixture.permutation.padded(LENGTH).unwrap();
        let factors = [other.clone()];
        let mut keys = vec![fixture.key(&task, Scope::All), fixture.key(&task, Scope::Stages)];
        for other in [
            PermutationTask { permutation: &other, ..task.clone() },
            PermutationTask { permutation: &longer, ..task.clone() },
            PermutationTask { factors: &factors, ..task.clone() },
            PermutationTask { packing: Packing::Blocks, ..task.clone() },
            PermutationTask { output_level: 2, ..task.clone() },
            PermutationTask { input_level: 9, ..task.clone() },
            PermutationTask { max_keys: Some(0), ..task.clone() },
            PermutationTask { max_keys: Some(9), ..task.clone() },
            PermutationTask { max_prepared_bytes: 9, ..task.clone() },
        ] {
            keys.push(fixture.key(&other, Scope::All));
        }
        let model = CostModel { elementwise: 1e-9, ..fixture.model };
        keys.push(task_key(&task, Scope::All, &fixture.parameters, &model));
        let parameters = Preset::find("insecure_n11_real_depth17_scale30").unwrap().build().unwrap();
        keys.push(task_key(&task, Scope::All, &parameters, &fixture.model));
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        assert_eq!(
            fixture.key(&PermutationTask { cache: None, ..task.clone() }, Scope::All),
            fixture.key(&task, Scope::All)
        );
    }

    /// If this fails, the search finds other plans than before: raise the version, and put the new hash here.
    #[test]
    fn the_search_of_this_version_finds_these_plans() {
        let fixture = Fixture::new();
        let mut hash = Sha256::new();
        for permutation in [Permutation::random(1000, 1).unwrap(), Permutation::random(64, 2).unwrap()] {
            for packing in [Packing::Repeated, Packing::Blocks] {
                for (output_level, max_keys) in [(1, None), (9, Some(14))] {
                    let task = PermutationTask::new(&permutation, packing, &fixture.parameters, output_level);
                    let task = PermutationTask { max_keys, ..task };
                    hash.update(encode(&[0; 32], &fixture.plan(&task)));
                    let stages = task.plan_stages(&fixture.parameters, &fixture.model).unwrap();
                    hash.update(encode(&[0; 32], &stages.plan));
                }
            }
        }
        let found: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((SEARCH_VERSION, found.as_str()), (2, "6b32cec1f7d3002a"));
    }

    #[test]
    fn plans_that_need_no_search_and_places_that_cannot_be_written_leave_no_files() {
        let fixture = Fixture::new();
        let rotation = Permutation::rotation(LENGTH, 5).unwrap();
        fixture.plan(&PermutationTask { permutation: &rotation, ..fixture.task() });
        assert_eq!(fixture.files().len(), 0);
        let place = fixture.directory.path().join("file");
        std::fs::write(&place, b"a file").unwrap();
        let cache = PlanCache::new(place.join("plans"));
        let blocked = PermutationTask { cache: Some(&cache), ..fixture.task() };
        assert_eq!(fixture.plan(&blocked), fixture.plan(&fixture.task()));
        assert_eq!(std::fs::read(&place).unwrap(), b"a file");
    }
}
