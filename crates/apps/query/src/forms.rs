//! The short queries that a server offers: one for each period, and its answer.

use unspoken_ckks::{CkksError, Encoder, InnerSum, Simulated, Simulator};
use unspoken_lookup::Lookup;
use unspoken_protocol::simulated_error_bound;
use unspoken_rlwe::KeyPlan;

use crate::error::QueryError;
use crate::shape::QueryShape;
use crate::short::{ShortAnswer, ShortQuery};

/// The short queries of a shape and their answers.
#[derive(Clone, Debug)]
pub struct ShortForms {
    /// The shape of full queries.
    pub shape: QueryShape,
    /// Shortest period of a query, a power of two: fewer slots are padded to that number.
    pub least_period: usize,
    /// Number of slots of each vector that a question takes, a power of two. The server adds these slots up, so that
    /// the period of its outputs is the number of questions.
    pub question_slots: usize,
    /// Number of outputs of the lookup.
    pub outputs: usize,
}

/// What short queries of all periods take, and their error.
#[derive(Clone, Debug)]
pub struct ShortOffer {
    /// The keys in addition to the keys of full queries.
    pub keys: KeyPlan,
    /// A bound of the error of a number of an output.
    pub error: f64,
}

impl ShortForms {
    /// The query that holds `questions` questions, of the shortest period, and its answer. `None` if there is none of
    /// this length, so that a full query has to be sent.
    pub fn holding(&self, questions: usize) -> Option<(ShortQuery, ShortAnswer)> {
        let slots = questions.checked_mul(self.question_slots)?;
        self.of_period(slots.checked_next_power_of_two()?.max(self.least_period))
    }

    /// The query of this period and its answer; `None` if there is none.
    pub fn of_period(&self, period: usize) -> Option<(ShortQuery, ShortAnswer)> {
        if period < self.least_period {
            return None;
        }
        let query = ShortQuery::new(self.shape.clone(), period).ok()?;
        let answer = ShortAnswer::new(&self.shape.parameters, period / self.question_slots, self.outputs).ok()?;
        Some((query, answer))
    }

    /// What all these queries take. `None` if there are none, because the vectors of all subtables do not fit or the
    /// key of short answers would have less than 128 bits of security.
    ///
    /// The errors are the errors of `lookup`, which has this shape and may have fewer outputs; `sum` adds up the slots
    /// of each question in its outputs, for a query of some period.
    ///
    /// # Errors
    /// If the lookup cannot be simulated, or `sum` fails.
    pub fn offer(
        &self,
        encoder: &Encoder,
        lookup: &Lookup,
        sum: impl Fn(usize) -> Result<InnerSum, CkksError>,
    ) -> Result<Option<ShortOffer>, QueryError> {
        let (parameters, output) = (&self.shape.parameters, (lookup.output_level(), lookup.output_scale()));
        let periods = std::iter::successors(Some(self.least_period), |period| period.checked_mul(2));
        let forms: Vec<_> = periods.map_while(|period| self.of_period(period)).collect();
        let (Some((shortest, _)), Ok(mut keys)) = (forms.first(), ShortAnswer::key_plan(parameters, output.0)) else {
            return Ok(None);
        };
        // The separation of subtables adds the most noise to the shortest query.
        let simulator = Simulator::new(encoder, 0);
        let shortest_sum = sum(shortest.period())?;
        let total = |output: &Simulated| Ok(shortest_sum.apply(&simulator, output)?.error());
        let outputs = lookup.run(&simulator, &shortest.simulate(&simulator)?)?;
        let totals = outputs.iter().map(total).collect::<Result<Vec<_>, QueryError>>()?;
        let mut error = 0.0f64;
        for (query, answer) in &forms {
            keys.extend(&query.key_plan());
            keys.extend(&sum(query.period())?.key_plan(parameters, output.0));
            let errors: Vec<_> = totals.iter().map(|total| answer.errors(output, lookup.bound(), *total)).collect();
            error = error.max(simulated_error_bound(&errors));
        }
        Ok(Some(ShortOffer { keys, error }))
    }
}
