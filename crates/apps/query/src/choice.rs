//! The choice of a parameter set and a plan for a lookup: the cheapest one, or the cheapest one that is precise enough.

use std::fmt::Display;

use unspoken_ckks::{CkksParameters, CostModel, PRESETS};
use unspoken_lookup::{
    ErrorBound, Estimate, LookupPlan, LookupTask, MORE_LEVELS, OutputForm, TableSummary, estimates, output_unit,
};
use unspoken_ring::RingKind;

use crate::codec::QueryForm;
use crate::error::QueryError;

/// The bound of Theorem 5.1 over the largest error, above which a candidate is not simulated. The theorem assumes that
/// all errors are aligned with the largest singular direction of the tables; simulated bounds are up to some 60 times
/// smaller where errors of powers dominate.
const HOPELESS: f64 = 512.0;

/// Number of plans considered for each parameter set, the cheapest ones: each is simulated.
const PLANS: usize = 3;

/// What a parameter set and a plan are chosen for.
#[derive(Clone, Debug)]
pub struct LookupChoice {
    /// The shape of the tables, and the form of outputs in complex slots. In real slots they are rows.
    pub task: LookupTask,
    /// The form of queries.
    pub query: QueryForm,
    /// Whether queries may be short, or compact ones short.
    pub short_queries: bool,
    /// The only plan to consider, if there is one.
    pub plan: Option<LookupPlan>,
    /// The only parameters to consider, if there are such. Otherwise all secure presets are considered that bootstrap
    /// what the queries need and no more; for short compact queries, also presets that bootstrap more.
    pub parameters: Option<CkksParameters>,
    /// Levels left after the lookup.
    pub spare_levels: usize,
    /// Whether slots may be real.
    pub real_slots: bool,
}

/// A parameter set, and a plan for it.
#[derive(Clone, Debug)]
pub struct LookupCandidate {
    /// The parameters.
    pub parameters: CkksParameters,
    /// The plan.
    pub plan: LookupPlan,
    /// Seconds for each slot, by the nominal cost model, without a bootstrap.
    pub seconds: f64,
}

/// A server that was made for a candidate, or the bound of its error if that is too large.
pub enum Attempt<S> {
    /// The server.
    Made(S),
    /// The bound of the error of its numbers.
    Imprecise(f64),
}

impl<S> Attempt<S> {
    /// The server of an attempt without a largest error.
    ///
    /// # Errors
    /// If the bound of its error is beyond all numbers.
    pub fn made(self) -> Result<S, QueryError> {
        match self {
            Attempt::Made(server) => Ok(server),
            Attempt::Imprecise(bound) => Err(QueryError::mismatch("the error bound", bound, "a finite number")),
        }
    }
}

/// What a parameter set can bootstrap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bootstrapped {
    Nothing,
    ShortQueries,
    All,
}

impl Bootstrapped {
    fn of(parameters: &CkksParameters) -> Self {
        match parameters.bootstrap() {
            None => Bootstrapped::Nothing,
            Some(literal) if literal.slots_to_coeffs == 0 => Bootstrapped::ShortQueries,
            Some(_) => Bootstrapped::All,
        }
    }
}

impl LookupChoice {
    /// The candidates with enough levels and a scale of `least_bits` or more, the cheapest for each slot first: at most
    /// three plans for each parameter set. The scale of presets for short compact queries alone does not count, because
    /// their bootstrap leaves room for no other. Presets that bootstrap more than the queries need come last.
    ///
    /// # Errors
    /// If a preset cannot be built.
    pub fn candidates(&self, least_bits: f64) -> Result<Vec<LookupCandidate>, QueryError> {
        let mut found: Vec<(Bootstrapped, LookupCandidate)> = Vec::new();
        let mut add = |own, parameters: &CkksParameters| {
            found.extend(self.plans(parameters).into_iter().map(|candidate| (own, candidate)));
        };
        if let Some(parameters) = &self.parameters {
            add(Bootstrapped::of(parameters), parameters);
        } else {
            let needed = self.bootstrapped();
            for preset in PRESETS.iter().filter(|preset| !preset.is_insecure()) {
                let parameters = preset.build()?;
                let own = Bootstrapped::of(&parameters);
                let wide = own == Bootstrapped::ShortQueries || parameters.scale().log2() >= least_bits;
                if wide && (own == needed || (self.is_short() && own > needed)) {
                    add(own, &parameters);
                }
            }
        }
        found.sort_by(|(own_a, a), (own_b, b)| own_a.cmp(own_b).then(a.seconds.total_cmp(&b.seconds)));
        Ok(found.into_iter().map(|(_, candidate)| candidate).collect())
    }

    fn is_short(&self) -> bool {
        self.query == QueryForm::Compact && self.short_queries
    }

    fn bootstrapped(&self) -> Bootstrapped {
        match self.query {
            QueryForm::Compact if self.short_queries => Bootstrapped::ShortQueries,
            QueryForm::Compact => Bootstrapped::All,
            QueryForm::Direct | QueryForm::OneHot => Bootstrapped::Nothing,
        }
    }

    /// Why no plan fits these parameters whatever their levels are; `None` if one may.
    fn refusal(&self, parameters: &CkksParameters) -> Option<&'static str> {
        let real = parameters.ring().kind() == RingKind::ConjugateInvariant;
        // A lookup rotates, so it needs key switches.
        if parameters.ring().special().is_empty() {
            return Some("a preset with keys for rotations");
        }
        (real && !self.real_slots).then_some("a preset with complex slots: without 'real' in its name")
    }

    /// The cheapest plans for these parameters.
    fn plans(&self, parameters: &CkksParameters) -> Vec<LookupCandidate> {
        if self.refusal(parameters).is_some() {
            return Vec::new();
        }
        let kind = parameters.ring().kind();
        let real = kind == RingKind::ConjugateInvariant;
        let task = LookupTask { form: if real { OutputForm::Rows } else { self.task.form }, ..self.task };
        // Short queries take a level to separate the subtables.
        let more = self.spare_levels + room_levels(parameters) + usize::from(self.is_short());
        let fits = |plan: LookupPlan, depth: usize| {
            plan.index_encoding() == self.query.values(kind)
                && self.plan.is_none_or(|asked| asked == plan)
                && depth + more <= parameters.circuit_level()
        };
        let found = estimates(parameters, task, &CostModel::nominal(parameters)).into_iter();
        let candidate = |estimate: Estimate| LookupCandidate {
            parameters: parameters.clone(),
            plan: estimate.plan,
            seconds: estimate.seconds / parameters.slots() as f64,
        };
        found.filter(|estimate| fits(estimate.plan, estimate.depth)).take(PLANS).map(candidate).collect()
    }

    /// The server of the cheapest candidate for which the bound of the error is at most `error`. Candidates that cannot
    /// reach this by the bound of Theorem 5.1 for `tables` are left out. `make` makes the servers of the other
    /// candidates: it simulates a candidate, and stops if its error is larger. Numbers are in the units of the tables.
    ///
    /// # Errors
    /// If the error is no positive number, the error of these queries is not predicted, no candidate has enough levels
    /// or is precise enough, or the error of `make` if it refuses all.
    pub fn precise<S, E: From<QueryError> + Display>(
        &self,
        error: f64,
        tables: TableSummary,
        make: impl Fn(&LookupCandidate) -> Result<Attempt<S>, E>,
    ) -> Result<S, E> {
        let refuse = |found: String, needed: &str| QueryError::mismatch("the error of answers", found, needed);
        if !(error > 0.0 && error.is_finite()) {
            return Err(refuse(error.to_string(), "a positive number, such as 2^-12").into());
        }
        if self.query == QueryForm::OneHot || self.bootstrapped() == Bootstrapped::All {
            let needed = "queries whose error is predicted: direct ones, or compact ones with short_queries=on";
            return Err(refuse(format!("{} queries", self.query), needed).into());
        }
        // The smallest bound among the candidates that are not precise enough, with the candidate and the source of the
        // bound.
        let (mut least, mut refused) = (None::<(f64, String)>, None);
        let mut note = |bound: f64, candidate: &LookupCandidate, source: &str| {
            if least.as_ref().is_none_or(|(least, _)| bound < *least) {
                least = Some((bound, format!("of preset {} {source}", candidate.parameters.name())));
            }
        };
        for candidate in self.candidates(0.0)? {
            if let Some(bound) = theorem(&candidate, tables).filter(|bound| *bound > HOPELESS * error) {
                note(bound, &candidate, "by Theorem 5.1");
                continue;
            }
            match make(&candidate) {
                Ok(Attempt::Made(server)) => return Ok(server),
                Ok(Attempt::Imprecise(bound)) => note(bound, &candidate, "by simulation"),
                Err(error) => refused = Some(error),
            }
        }
        match (least, refused) {
            (Some((bound, whose)), refused) => {
                let mut needed = format!("more: the smallest bound is {bound:.1e}, {whose}");
                if let Some(refused) = refused {
                    needed += &format!(" (another candidate was refused: {refused})");
                }
                Err(refuse(format!("{error:.1e}"), &needed).into())
            }
            (None, Some(error)) => Err(error),
            (None, None) => {
                let given = self.parameters.as_ref().and_then(|parameters| self.refusal(parameters));
                let levels = "tables that some preset has the levels for: fewer columns, or another plan";
                Err(refuse(format!("{error:.1e}"), given.unwrap_or(levels)).into())
            }
        }
    }
}

/// The bound of Theorem 5.1 for a candidate, in the units of the tables, at the best of the levels that a server may
/// take. `None` for plans to which it does not apply, and where the outputs do not fit, as a server finds out.
fn theorem(candidate: &LookupCandidate, tables: TableSummary) -> Option<f64> {
    let LookupCandidate { parameters, plan, .. } = candidate;
    let depth = plan.depth(tables.columns);
    let bound = |levels: usize| {
        let unit = output_unit(parameters, *plan, tables.columns, Some(depth + levels), tables.bound).ok()?;
        let scaled = TableSummary { norm: tables.norm / unit, bound: tables.bound / unit, ..tables };
        Some(ErrorBound::above(parameters, *plan, scaled, levels)?.error(parameters.scale()) * unit)
    };
    (0..=MORE_LEVELS + 1).filter_map(bound).reduce(f64::min)
}

/// Number of levels by which the outputs must stay above the lowest level, so that their scale and magnitude fit the
/// modulus.
fn room_levels(parameters: &CkksParameters) -> usize {
    let fits = |level: usize| parameters.log2_modulus(level) > parameters.scale().log2() + 24.0;
    (0..MORE_LEVELS).find(|&level| fits(level)).unwrap_or(MORE_LEVELS)
}
