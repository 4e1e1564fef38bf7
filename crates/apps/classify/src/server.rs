//! The server's half: computes encrypted scores from encrypted codes.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_ckks::{Ciphertext, CkksError, CkksParameters, Encoder, Evaluator, InnerSum, Simulator};
use unspoken_fasttext::ScoreTables;
use unspoken_lookup::{
    Lookup, OutputForm, Plan, Precision, Table, TableSummary, Task, best_plan, output_unit, simulated_outputs,
};
use unspoken_protocol::{
    CkksDescription, CkksHeader, CkksServerHalf, ClientId, ProtocolError, ServerHalf, output_bytes,
    simulated_error_bound, write_output,
};
use unspoken_query::{
    IndexDescription, LookupCandidate, LookupChoice, QueryCodec, QueryForm, QueryReader, ShortCompact, SmallAnswer,
    SmallForms, SmallOffer,
};
use unspoken_rlwe::EvaluationKeys;

use crate::description::{Description, PROTOCOL};
use crate::error::ClassifyError;
use crate::proto;

/// A text classifier that never sees a text: an encrypted lookup in score tables, and the sum over the tokens.
pub struct ClassifyServer {
    encoder: Encoder,
    reader: QueryReader,
    lookup: Lookup,
    token_sum: InnerSum,
    description: Description,
    precision: Option<Precision>,
}

/// Time of one answer by stage, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageSeconds {
    /// Reading the query: checks of its seeds, and the bootstraps of a compact one.
    pub query: f64,
    /// Powers of the encrypted codes (VecGen in the paper).
    pub vectors: f64,
    /// Lookup in the tables and sum over tokens (Linear in the paper).
    pub linear: f64,
}

/// Options of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassifyOptions {
    /// Plan of the lookup; `None` for the cheapest plan.
    pub plan: Option<Plan>,
    /// Form of the clients' queries.
    pub query: QueryForm,
    /// If the form is direct: whether to offer small queries beside full ones, if the preset is precise enough, and its
    /// key of small answers secure; they need more keys. If the form is compact: whether queries are short ones of few
    /// messages, which need fewer keys, and not full ones.
    pub small_queries: bool,
}

impl Default for ClassifyOptions {
    fn default() -> Self {
        Self { plan: None, query: QueryForm::Direct, small_queries: true }
    }
}

impl ClassifyServer {
    /// Prepares a model for a preset. The tables are scaled to the preset; clients get scores in the model's units.
    ///
    /// # Errors
    /// If all scores are 0 or below the error bound, the preset has too few levels for the plan, its modulus has no
    /// room for the model's scores, plan and form do not match, or the form is compact and the preset not made for
    /// bootstrapping.
    pub fn new(
        tables: &ScoreTables,
        parameters: &CkksParameters,
        options: &ClassifyOptions,
    ) -> Result<Self, ClassifyError> {
        let form = options.query;
        let shape = tables.shape();
        if !shape.max_tokens.is_power_of_two() || shape.max_tokens > parameters.slots() {
            let needed = format!("a power of two up to {}", parameters.slots());
            return Err(ClassifyError::mismatch("tokens per message", shape.max_tokens, needed));
        }
        let columns = form.padded_columns(shape.columns);
        if columns > IndexDescription::MAX_COLUMNS {
            let needed = format!("at most {}, padding included", IndexDescription::MAX_COLUMNS);
            return Err(ClassifyError::mismatch("columns", columns, needed));
        }
        let plan = match options.plan {
            Some(plan) => plan,
            None if form == QueryForm::OneHot => Plan::OneHot,
            None => {
                let (subtables, rows) = (shape.subtables, shape.classes);
                best_plan(parameters, Task { subtables, rows, columns, form: OutputForm::Pairs })?
            }
        };
        // Two scores share a slot: one is the real part, one the imaginary part.
        let bound = tables.score_bound() * std::f64::consts::SQRT_2;
        // After a bootstrap there are more levels than needed: one more level is room for the scores.
        let level = (form == QueryForm::Compact).then(|| plan.depth(columns) + 1);
        let unit = output_unit(parameters, plan, columns, level, bound)?;
        let subtable = |t: usize| {
            let widened = |row: &[f64]| {
                row.iter().map(|score| score / unit).chain(std::iter::repeat(0.0)).take(columns).collect()
            };
            let rows: Vec<Vec<f64>> = (0..shape.classes).filter_map(|c| tables.row(t, c)).map(widened).collect();
            Table::new(shape.classes, &rows.concat())
        };
        let subtables = (0..shape.subtables).map(subtable).collect::<Result<Vec<_>, _>>()?;
        let lookup = Lookup::new(parameters, &subtables, plan, OutputForm::Pairs, bound / unit, level)?;
        let query = match form {
            QueryForm::Compact if options.small_queries => {
                QueryCodec::short_compact(&lookup, ShortCompact::most_period(parameters, shape.subtables)?)?
            }
            _ => QueryCodec::for_lookup(form, &lookup)?,
        };
        if !lookup.is_centred() {
            return Err(ClassifyError::mismatch(
                "score tables",
                "rows whose mean is not zero",
                "centred rows, so that padding adds nothing",
            ));
        }
        if query.slots() < shape.max_tokens {
            let needed = format!("at most {} tokens per message; take full queries (small=off)", query.slots());
            return Err(ClassifyError::mismatch("short compact queries", shape.max_tokens, needed));
        }
        let short = matches!(query, QueryCodec::ShortCompact(_)).then_some(query.slots());
        let token_sum = match short {
            Some(period) => small_token_sum(period, shape.max_tokens).map_err(ProtocolError::from)?,
            None => token_sum(parameters.slots() / shape.max_tokens, shape.max_tokens)?,
        };
        let mut key_plan = lookup.key_plan();
        key_plan.extend(&token_sum.key_plan(parameters, lookup.output_level()));
        let encoder = Encoder::new(parameters);
        let reader = QueryReader::new(&encoder, query)?;
        key_plan.extend(&reader.key_plan());
        let model_id = tables.id().to_bytes();
        let full = error_bound(&encoder, &lookup, form, &token_sum)?.map(|error| error * unit);
        let check = |error: f64| check_precision(tables, parameters, error);
        let mut precision = full.map(check).transpose()?;
        let mut small_period = 0;
        if let Some(period) = short {
            let answer = SmallAnswer::new(parameters, period / shape.max_tokens, lookup.outputs())?;
            if let Some(offer) = reader.short_offer(&encoder, &lookup, (&answer, &token_sum))? {
                key_plan.extend(&offer.keys);
                precision = Some(check(offer.error * unit)?);
            }
            small_period = period as u32;
        }
        if options.small_queries && form == QueryForm::Direct {
            let forms = SmallForms {
                shape: reader.query().shape().clone(),
                least_period: shape.max_tokens,
                question_slots: shape.max_tokens,
                outputs: lookup.outputs(),
            };
            let small = forms.offer(&encoder, &lookup, |period| small_token_sum(period, shape.max_tokens))?;
            let precise = |small: &SmallOffer| check(small.error * unit).is_ok_and(|precision| !precision.is_low());
            if let Some(small) = small.filter(precise) {
                key_plan.extend(&small.keys);
                small_period = shape.max_tokens as u32;
                precision = full.map(|full| check(full.max(small.error * unit))).transpose()?;
            }
        }
        let error = precision.map_or(0.0, |precision| precision.error_bound);
        let header = CkksHeader::new(PROTOCOL, parameters, &model_id, key_plan, plan.to_string(), bound)
            .with_unit(unit)
            .with_error_bound(error)
            .with_answer(lookup.outputs(), lookup.output_level(), lookup.output_scale());
        let own = proto::Description {
            subtables: shape.subtables as u32,
            // Narrow tables are padded, and the root of unity of an index depends on the padded width.
            columns: lookup.shape().2 as u32,
            classes: shape.classes as u32,
            max_tokens: shape.max_tokens as u32,
            query_level: lookup.input_level() as u32,
            query_form: form.to_string(),
            small_period,
        };
        let description = Description::new(header, own)?;
        Ok(ClassifyServer { encoder, reader, lookup, token_sum, description, precision })
    }

    /// As [`ClassifyServer::new`], with the preset and the plan of the lowest cost per message for which the bound of
    /// the error of a score is at most `error`, in the model's units. `parameters` or a plan in the options restrict
    /// the choice. Simulates several presets, which takes some seconds for each.
    ///
    /// # Errors
    /// If there is none, or the queries are full compact or one-hot ones, or as for [`ClassifyServer::new`].
    pub fn with_error(
        tables: &ScoreTables,
        error: f64,
        parameters: Option<&CkksParameters>,
        options: &ClassifyOptions,
    ) -> Result<Self, ClassifyError> {
        let shape = tables.shape();
        let columns = options.query.padded_columns(shape.columns);
        let choice = LookupChoice {
            task: Task { subtables: shape.subtables, rows: shape.classes, columns, form: OutputForm::Pairs },
            query: options.query,
            small_queries: options.small_queries,
            plan: options.plan,
            parameters: parameters.cloned(),
            spare_levels: 0,
            real_slots: false,
        };
        let subtable = |t: usize| {
            let rows: Vec<f64> = (0..shape.classes).filter_map(|c| tables.row(t, c)).flatten().copied().collect();
            Table::new(shape.classes, &rows)
        };
        let subtables = (0..shape.subtables).map(subtable).collect::<Result<Vec<_>, _>>()?;
        let summary = TableSummary { columns, ..TableSummary::of(&subtables, tables.score_bound()) };
        let make = |candidate: &LookupCandidate| {
            let options = ClassifyOptions { plan: Some(candidate.plan), ..*options };
            Self::new(tables, &candidate.parameters, &options)
        };
        choice.precise(error, summary, make, Self::precision)
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The model's scores beside the error bound, in the model's units; `None` for full compact queries, whose error is
    /// not known.
    pub fn precision(&self) -> Option<Precision> {
        self.precision
    }

    /// Like [`ServerHalf::answer`], and also returns the time of each stage.
    ///
    /// # Errors
    /// Those of [`ServerHalf::answer`].
    pub fn timed_answer(
        &self,
        client: ClientId,
        keys: &EvaluationKeys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<(Vec<u8>, StageSeconds), ClassifyError> {
        let evaluator = Evaluator::new(&self.encoder, keys).with_cancel(cancel);
        let start = Instant::now();
        let most = self.description.index.codec().vectors();
        let vectors = self.header().unpack("query", query, self.query_bytes(), most)?;
        let small = self.description.index.small_of(&vectors)?;
        let query = match &small {
            Some((query, _)) => self.reader.read_small(&evaluator, client, query, &vectors)?,
            None => self.reader.read(&evaluator, client, &vectors)?,
        };
        let read = start.elapsed().as_secs_f64();
        let generated = self.lookup.generate(&evaluator, &query)?;
        let vectors = start.elapsed().as_secs_f64() - read;
        let sums = self.lookup.combine(&evaluator, &generated)?;
        drop(generated);
        let answers = match &small {
            Some((query, answer)) => {
                let token_sum =
                    small_token_sum(query.period(), self.description.max_tokens()).map_err(ProtocolError::from)?;
                answer.write(&evaluator, &self.totals(&evaluator, &token_sum, &sums)?, self.lookup.bound())?
            }
            None => {
                let parameters = self.description.parameters();
                let totals = self.totals(&evaluator, &self.token_sum, &sums)?;
                match self.description.index.short_answer() {
                    Some(answer) => answer.write(&evaluator, &totals, self.lookup.bound())?,
                    None => totals.iter().map(|total| write_output(parameters, total)).collect::<Result<_, _>>()?,
                }
            }
        };
        let linear = start.elapsed().as_secs_f64() - read - vectors;
        Ok((self.header().pack(answers), StageSeconds { query: read, vectors, linear }))
    }

    fn totals(
        &self,
        evaluator: &Evaluator<'_>,
        token_sum: &InnerSum,
        sums: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, ClassifyError> {
        let total = |sum| Ok(token_sum.apply(evaluator, sum).map_err(ProtocolError::from)?);
        sums.iter().map(total).collect()
    }
}

impl CkksServerHalf for ClassifyServer {
    fn header(&self) -> &CkksHeader {
        self.description.header()
    }
}

impl ServerHalf for ClassifyServer {
    type Error = ClassifyError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    fn query_bytes(&self) -> usize {
        self.description.query_bytes()
    }

    fn answer_bytes(&self) -> usize {
        let vector = output_bytes(self.description.parameters(), self.lookup.output_level());
        self.header().packed_bytes(self.lookup.outputs(), self.lookup.outputs() * vector)
    }

    fn prepared_bytes(&self) -> u64 {
        self.lookup.prepared_bytes() + self.reader.prepared_bytes()
    }

    fn working_bytes(&self) -> u64 {
        self.reader.working_bytes(&self.lookup)
    }

    fn release_idle_memory(&self) {
        self.description.parameters().ring().release_idle();
    }

    fn answer(
        &self,
        client: ClientId,
        keys: &EvaluationKeys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, ClassifyError> {
        self.timed_answer(client, keys, query, cancel).map(|(answer, _)| answer)
    }
}

/// The sum over the tokens of each of `batch` messages.
fn token_sum(batch: usize, max_tokens: usize) -> Result<InnerSum, ClassifyError> {
    Ok(InnerSum::new(batch as i64, max_tokens).map_err(ProtocolError::from)?)
}

/// The sum over the tokens of the messages of a small query. By doublings, so that queries of all periods have their
/// keys in common.
fn small_token_sum(period: usize, max_tokens: usize) -> Result<InnerSum, CkksError> {
    InnerSum::with_radix((period / max_tokens) as i64, max_tokens, 0, 2)
}

/// A bound of the error of a scaled score, from a simulated query whose slots are all full. `None` for compact queries:
/// the bootstrap of full ones is not simulated, and that of short ones belongs to their reader.
fn error_bound(
    encoder: &Encoder,
    lookup: &Lookup,
    form: QueryForm,
    token_sum: &InnerSum,
) -> Result<Option<f64>, ClassifyError> {
    if form == QueryForm::Compact {
        return Ok(None);
    }
    let simulator = Simulator::new(encoder, 0);
    let outputs = simulated_outputs(&simulator, lookup)?;
    let sum = |output| Ok(token_sum.apply(&simulator, output).map_err(ProtocolError::from)?.error());
    let errors = outputs.iter().map(sum).collect::<Result<Vec<_>, ClassifyError>>()?;
    Ok(Some(simulated_error_bound(&errors)))
}

/// Compares the bound of the error with the differences that decide on a label: for each column of a subtable, that of
/// its largest and its smallest score. Refuses tables whose scores are all below the error.
fn check_precision(
    tables: &ScoreTables,
    parameters: &CkksParameters,
    error_bound: f64,
) -> Result<Precision, ClassifyError> {
    let shape = tables.shape();
    let spread = |t: usize, j: usize| {
        let column = (0..shape.classes).filter_map(|c| tables.row(t, c)?.get(j).copied());
        let (low, high) = column.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), z| (low.min(z), high.max(z)));
        high - low
    };
    let spreads = (0..shape.subtables).flat_map(|t| (0..shape.columns).map(move |j| (t, j))).map(|(t, j)| spread(t, j));
    let largest = tables.values().iter().fold(0.0f64, |largest, z| largest.max(z.abs()));
    if tables.score_bound() <= error_bound {
        return Err(ClassifyError::mismatch(
            "score tables",
            format!("scores of messages up to {:.1e}", tables.score_bound()),
            format!("more than the error bound of preset {}, {error_bound:.1e}; use another preset", parameters.name()),
        ));
    }
    Ok(Precision::new(error_bound, largest, spreads))
}
