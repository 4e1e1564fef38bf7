//! The server's half: computes encrypted scores from encrypted codes.

use std::time::Instant;

use unspoken_ckks::{Ciphertext, CkksError, CkksParameters, Encoder, Evaluator, InnerSum, Simulator};
use unspoken_lookup::{
    Lookup, LookupPlan, LookupTask, OutputForm, Precision, Table, TableSummary, at_lowest_level, best_plan,
    output_unit, simulated_outputs,
};
use unspoken_protocol::{
    Call, CkksDescription, CkksHeader, CkksServerHalf, Limits, ProtocolError, Request, ServerHalf, output_bytes,
    simulated_error_bound, write_output,
};
use unspoken_query::{
    Attempt, IndexDescription, LookupCandidate, LookupChoice, QueryCodec, QueryForm, QueryReader, ShortAnswer,
    ShortCompact, ShortForms, ShortOffer,
};
use unspoken_rlwe::{EvaluationKeys, KeyStorage};

use crate::description::{Kind, ScoreDescription};
use crate::error::ClassifyError;
use crate::proto;
use crate::tables::{ModelTables, TokenScores};

/// A text classifier that never sees a text: an encrypted lookup in score tables, and the sum over the tokens.
pub struct ScoreServer<K: Kind> {
    encoder: Encoder,
    reader: QueryReader,
    lookup: Lookup,
    token_sum: InnerSum,
    description: ScoreDescription<K>,
    precision: Option<Precision>,
    storage: KeyStorage,
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

/// Options of a [`ScoreServer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassifyOptions {
    /// Plan of the lookup; `None` for the cheapest plan.
    pub plan: Option<LookupPlan>,
    /// Form of the clients' queries.
    pub query: QueryForm,
    /// If the form is direct: whether to offer short queries beside full ones, if the preset is precise enough, and its
    /// key of short answers secure; they need more keys. If the form is compact: whether queries are short ones of few
    /// texts, which need fewer keys, and not full ones.
    pub short_queries: bool,
}

impl Default for ClassifyOptions {
    fn default() -> Self {
        Self { plan: None, query: QueryForm::Direct, short_queries: true }
    }
}

impl<K: Kind> ScoreServer<K> {
    /// Prepares a model for a preset. The tables are scaled to the preset; clients get scores in the model's units.
    ///
    /// # Errors
    /// If all scores are 0 or below the error bound, the preset has too few levels for the plan, its modulus has no
    /// room for the model's scores, plan and form do not match, the form is compact and the preset not made for
    /// bootstrapping, or the tables are not centred.
    pub fn new(
        model: &impl ModelTables<Kind = K>,
        parameters: &CkksParameters,
        options: &ClassifyOptions,
    ) -> Result<Self, ClassifyError> {
        Ok(Self::within(model, parameters, options, f64::INFINITY)?.made()?)
    }

    /// As [`ScoreServer::new`], if the error is at most `most_error`. Short queries beside direct ones are left out if
    /// theirs is larger.
    fn within(
        model: &impl ModelTables<Kind = K>,
        parameters: &CkksParameters,
        options: &ClassifyOptions,
        most_error: f64,
    ) -> Result<Attempt<Self>, ClassifyError> {
        let tables = &model.token_scores();
        tables.check()?;
        let form = options.query;
        let columns = padded_columns(tables, parameters, form)?;
        let (lookup, unit) = scaled_lookup(tables, parameters, columns, options)?;
        let codec = query_codec(tables, parameters, &lookup, options)?;
        let short = matches!(codec, QueryCodec::ShortCompact(_)).then_some(codec.slots());
        let max_tokens = tables.max_tokens;
        let token_sum = match short {
            Some(period) => short_token_sum(period, max_tokens).map_err(ProtocolError::from)?,
            None => token_sum(parameters.slots() / max_tokens, max_tokens)?,
        };
        let encoder = Encoder::new(parameters);
        let reader = QueryReader::new(&encoder, codec)?;
        let mut key_plan = lookup.key_plan();
        key_plan.extend(&token_sum.key_plan(parameters, lookup.output_level()));
        key_plan.extend(&reader.key_plan());
        let full = error_bound(&encoder, &lookup, form, &token_sum)?.map(|error| error * unit);
        let check = |error: f64| tables.check_precision(parameters, error);
        let mut precision = full.map(check).transpose()?;
        if let Some(bound) = full.filter(|bound| *bound > most_error) {
            return Ok(Attempt::Imprecise(bound));
        }
        let mut short_period = 0;
        if let Some(period) = short {
            let answer = ShortAnswer::new(parameters, period / max_tokens, lookup.outputs())?;
            if let Some(offer) = reader.short_offer(&encoder, &lookup, (&answer, &token_sum))? {
                if offer.error * unit > most_error {
                    return Ok(Attempt::Imprecise(offer.error * unit));
                }
                key_plan.extend(&offer.keys);
                precision = Some(check(offer.error * unit)?);
            }
            short_period = period as u32;
        }
        if options.short_queries && form == QueryForm::Direct {
            let forms = ShortForms {
                shape: reader.query().shape().clone(),
                least_period: max_tokens,
                question_slots: max_tokens,
                outputs: lookup.outputs(),
            };
            let short = forms.offer(&encoder, &lookup, |period| short_token_sum(period, max_tokens))?;
            let precise = |short: &ShortOffer| {
                let error = short.error * unit;
                error <= most_error && check(error).is_ok_and(|precision| !precision.is_low())
            };
            if let Some(short) = short.filter(precise) {
                key_plan.extend(&short.keys);
                short_period = max_tokens as u32;
                precision = full.map(|full| check(full.max(short.error * unit))).transpose()?;
            }
        }
        let error = precision.map_or(0.0, |precision| precision.error_bound);
        let (plan, bound) = (lookup.plan().to_string(), slot_bound(tables));
        let header = CkksHeader::new(K::PROTOCOL, parameters, &tables.model_id, key_plan, plan, bound)
            .with_unit(unit)
            .with_error_bound(error)
            .with_answer(lookup.outputs(), lookup.output_level(), lookup.output_scale());
        let shape = proto::Shape {
            subtables: tables.subtables as u32,
            // Narrow tables are padded, and the root of unity of an index depends on the padded width.
            columns: lookup.shape().2 as u32,
            classes: tables.classes as u32,
            max_tokens: max_tokens as u32,
            query_level: lookup.input_level() as u32,
            query_form: form.to_string(),
            short_period,
        };
        let description = ScoreDescription::new(header, shape, model.own())?;
        let storage = KeyStorage::Expanded;
        Ok(Attempt::Made(ScoreServer { encoder, reader, lookup, token_sum, description, precision, storage }))
    }

    /// As [`ScoreServer::new`], with the preset and the plan of the lowest cost per text for which the bound of the
    /// error of a score is at most `error`, in the model's units; of each preset the three cheapest plans are tried.
    /// `parameters` or a plan in the options restrict the choice. Simulates each, which takes some seconds. Small
    /// queries beside direct ones are left out if their error is larger.
    ///
    /// # Errors
    /// If there is none, or the queries are full compact or one-hot ones, or as for [`ScoreServer::new`].
    pub fn with_error(
        model: &impl ModelTables<Kind = K>,
        error: f64,
        parameters: Option<&CkksParameters>,
        options: &ClassifyOptions,
    ) -> Result<Self, ClassifyError> {
        let tables = model.token_scores();
        tables.check()?;
        let TokenScores { subtables, classes, .. } = tables;
        let columns = options.query.padded_columns(tables.columns);
        let choice = LookupChoice {
            task: LookupTask { subtables, rows: classes, columns, form: OutputForm::Pairs },
            query: options.query,
            short_queries: options.short_queries,
            plan: options.plan,
            parameters: parameters.cloned(),
            spare_levels: 0,
            real_slots: false,
        };
        let values = |t: usize| (0..classes).flat_map(|c| tables.row(t, c)).copied().collect::<Vec<f64>>();
        let own = (0..subtables).map(|t| Table::new(classes, &values(t))).collect::<Result<Vec<_>, _>>()?;
        let summary = TableSummary { columns, ..TableSummary::of(&own, tables.bound()) };
        let make = |candidate: &LookupCandidate| {
            let options = ClassifyOptions { plan: Some(candidate.plan), ..*options };
            Self::within(model, &candidate.parameters, &options, error)
        };
        choice.precise(error, summary, make)
    }

    /// The description for clients.
    pub fn description(&self) -> &ScoreDescription<K> {
        &self.description
    }

    /// The model's scores beside the error bound, in the model's units; `None` for full compact queries, whose error is
    /// not known.
    pub fn precision(&self) -> Option<Precision> {
        self.precision
    }

    /// Computes the answer to a request of untrusted bytes, and returns the time of each stage; stops soon after it is
    /// cancelled.
    ///
    /// # Errors
    /// If the query is malformed or does not match, or when cancelled.
    pub fn timed_answer(
        &self,
        request: &Request<'_, EvaluationKeys>,
        call: &Call<'_>,
    ) -> Result<(Vec<u8>, StageSeconds), ClassifyError> {
        let &Request { client, keys, query } = request;
        let evaluator = Evaluator::new(&self.encoder, keys).with_cancel(call.cancel);
        let start = Instant::now();
        let most = self.description.index().codec().vectors();
        let vectors = self.description.header().unpack("query", query, self.description.query_bytes(), most)?;
        let short = self.description.index().short_of(&vectors)?;
        let query = match &short {
            Some((query, _)) => self.reader.read_short(&evaluator, client, query, &vectors)?,
            None => self.reader.read(&evaluator, client, &vectors)?,
        };
        let read = start.elapsed().as_secs_f64();
        let generated = self.lookup.generate(&evaluator, &query)?;
        let vectors = start.elapsed().as_secs_f64() - read;
        let sums = self.lookup.combine(&evaluator, &generated)?;
        drop(generated);
        let answers = match &short {
            Some((query, answer)) => {
                let token_sum =
                    short_token_sum(query.period(), self.description.max_tokens()).map_err(ProtocolError::from)?;
                answer.write(&evaluator, &self.totals(&evaluator, &token_sum, &sums)?, self.lookup.bound())?
            }
            None => {
                let parameters = self.description.parameters();
                let totals = self.totals(&evaluator, &self.token_sum, &sums)?;
                match self.description.index().short_answer() {
                    Some(answer) => answer.write(&evaluator, &totals, self.lookup.bound())?,
                    None => totals.iter().map(|total| write_output(parameters, total)).collect::<Result<_, _>>()?,
                }
            }
        };
        let linear = start.elapsed().as_secs_f64() - read - vectors;
        Ok((self.description.header().pack(answers), StageSeconds { query: read, vectors, linear }))
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

impl<K: Kind> CkksServerHalf for ScoreServer<K> {
    fn header(&self) -> &CkksHeader {
        self.description.header()
    }

    fn key_storage(&self) -> KeyStorage {
        self.storage
    }

    fn with_key_storage(self, storage: KeyStorage) -> Self {
        ScoreServer { storage, ..self }
    }
}

impl<K: Kind> ServerHalf for ScoreServer<K> {
    type Error = ClassifyError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    fn limits(&self) -> Limits {
        let header = self.description.header();
        let vector = output_bytes(self.description.parameters(), self.lookup.output_level());
        Limits {
            query_bytes: self.description.query_bytes(),
            answer_bytes: header.packed_bytes(self.lookup.outputs(), self.lookup.outputs() * vector),
            working_bytes: self.reader.working_bytes(&self.lookup),
            most_together: 1,
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        self.lookup.prepared_bytes() + self.reader.prepared_bytes()
    }

    fn release_idle_memory(&self) {
        self.description.parameters().ring().release_idle();
    }

    fn answer(&self, request: &Request<'_, EvaluationKeys>, call: &Call<'_>) -> Result<Vec<u8>, ClassifyError> {
        self.timed_answer(request, call).map(|(answer, _)| answer)
    }
}

/// Bound of a slot of a score vector. Two scores share a slot: one is the real part, one the imaginary part.
fn slot_bound(tables: &TokenScores<'_>) -> f64 {
    tables.bound() * std::f64::consts::SQRT_2
}

/// The columns of the tables with the padding of the queries.
fn padded_columns(
    tables: &TokenScores<'_>,
    parameters: &CkksParameters,
    form: QueryForm,
) -> Result<usize, ClassifyError> {
    let max_tokens = tables.max_tokens;
    if !max_tokens.is_power_of_two() || max_tokens > parameters.slots() {
        let needed = format!("a power of two up to {}", parameters.slots());
        return Err(ClassifyError::mismatch("tokens per text", max_tokens, needed));
    }
    let columns = form.padded_columns(tables.columns);
    if columns > IndexDescription::MAX_COLUMNS {
        let needed = format!("at most {}, padding included", IndexDescription::MAX_COLUMNS);
        return Err(ClassifyError::mismatch("columns", columns, needed));
    }
    Ok(columns)
}

/// The lookup in the tables, divided by a power of two that suits the preset, and this power.
fn scaled_lookup(
    tables: &TokenScores<'_>,
    parameters: &CkksParameters,
    columns: usize,
    options: &ClassifyOptions,
) -> Result<(Lookup, f64), ClassifyError> {
    let (form, &TokenScores { subtables, classes, .. }) = (options.query, tables);
    let plan = match options.plan {
        Some(plan) => plan,
        None if form == QueryForm::OneHot => LookupPlan::OneHot,
        None => best_plan(parameters, LookupTask { subtables, rows: classes, columns, form: OutputForm::Pairs })?,
    };
    let bound = slot_bound(tables);
    let prepare = |level: usize| {
        let unit = output_unit(parameters, plan, columns, Some(level), bound)?;
        let subtable = |t: usize| {
            let widened = |row: &[f64]| {
                row.iter().map(|score| score / unit).chain(std::iter::repeat(0.0)).take(columns).collect()
            };
            let rows: Vec<Vec<f64>> = (0..classes).map(|c| widened(tables.row(t, c))).collect();
            Table::new(classes, &rows.concat())
        };
        let scaled = (0..subtables).map(subtable).collect::<Result<Vec<_>, _>>()?;
        let lookup = Lookup::new(parameters, &scaled, plan, OutputForm::Pairs, bound / unit, Some(level))?;
        Ok((lookup, unit))
    };
    // After a bootstrap there are more levels than needed: one more level is room for the scores.
    let lowest = plan.depth(columns) + usize::from(form == QueryForm::Compact);
    let (lookup, unit) = at_lowest_level(parameters, lowest, prepare)?;
    if !lookup.is_centred() {
        return Err(ClassifyError::mismatch(
            "score tables",
            "rows whose mean is not zero",
            "centred rows, so that padding adds nothing",
        ));
    }
    Ok((lookup, unit))
}

/// The queries of a lookup.
fn query_codec(
    tables: &TokenScores<'_>,
    parameters: &CkksParameters,
    lookup: &Lookup,
    options: &ClassifyOptions,
) -> Result<QueryCodec, ClassifyError> {
    let codec = match options.query {
        QueryForm::Compact if options.short_queries => {
            QueryCodec::short_compact(lookup, ShortCompact::most_period(parameters, tables.subtables)?)?
        }
        form => QueryCodec::for_lookup(form, lookup)?,
    };
    if codec.slots() < tables.max_tokens {
        let needed = format!("at most {} tokens per text; take full queries (short_queries=off)", codec.slots());
        return Err(ClassifyError::mismatch("short compact queries", tables.max_tokens, needed));
    }
    Ok(codec)
}

/// The sum over the tokens of each of `batch` texts.
fn token_sum(batch: usize, max_tokens: usize) -> Result<InnerSum, ClassifyError> {
    Ok(InnerSum::new(batch as i64, max_tokens).map_err(ProtocolError::from)?)
}

/// The sum over the tokens of the texts of a short query. By doublings, so that queries of all periods have their
/// keys in common.
fn short_token_sum(period: usize, max_tokens: usize) -> Result<InnerSum, CkksError> {
    InnerSum::with_radix((period / max_tokens) as i64, max_tokens, 0, 2)
}

/// A bound of the error of a scaled score, from a simulated query whose slots are all full. `None` for compact queries:
/// the bootstrap of full ones is not simulated, and the bootstrap of short ones belongs to their reader.
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
