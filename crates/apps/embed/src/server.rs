//! The server's half: computes encrypted embeddings from encrypted codes.

use std::sync::atomic::AtomicBool;

use unspoken_ckks::{
    Ciphertext, CkksError, CkksParameters, CostModel, Encoder, Evaluator, InnerSum, Simulated, Simulator,
};
use unspoken_embedding::{Shape, Subtables};
use unspoken_lookup::{
    Lookup, LookupError, LookupPlan, LookupTask, OutputForm, Precision, Table, TableSummary, at_lowest_level,
    best_plan, estimate, output_unit, padded_columns, simulated_outputs,
};
use unspoken_protocol::{
    Call, CkksDescription, CkksHeader, CkksServerHalf, ClientId, Limits, ProtocolError, Request, ServerHalf,
    output_bytes, simulated_error_bound, write_output,
};
use unspoken_query::{
    Attempt, LookupCandidate, LookupChoice, QueryCodec, QueryForm, QueryReader, ShortAnswer, ShortForms,
};
use unspoken_ring::RingKind;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, KeyStorage};

use crate::description::{Description, MIN_PERIOD, PROTOCOL, short_period};
use crate::error::EmbedError;
use crate::proto;
use crate::strided::Strided;

/// Minimum of the scale, in bits, of a preset that [`EmbedServer::best_preset`] chooses.
const SCALE_BITS: f64 = 45.0;

/// Number of rows of a table whose errors are simulated.
const SIMULATED_ROWS: usize = 4;

/// Options of an embedding lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbedOptions {
    /// Plan of the lookup; `None` for the cheapest plan.
    pub plan: Option<LookupPlan>,
    /// [`OutputForm::Pairs`] halves the answer; [`OutputForm::Rows`] gives a following layer one real vector for each
    /// number of an embedding. A preset with real slots has twice the slots, and always rows.
    pub form: OutputForm,
    /// Levels left for a following layer, in addition to the levels of the lookup.
    pub spare_levels: usize,
    /// Form of the clients' queries.
    pub query: QueryForm,
    /// If the form is direct: whether to offer short queries beside full ones, if the preset is precise enough, and its
    /// key of short answers secure; they need more keys. If the form is compact: whether queries are short ones of few
    /// tokens, which need fewer keys, and not full ones.
    pub short_queries: bool,
}

impl Default for EmbedOptions {
    fn default() -> Self {
        Self { plan: None, form: OutputForm::Pairs, spare_levels: 0, query: QueryForm::Direct, short_queries: true }
    }
}

/// An embedding table that never sees a token: an encrypted lookup in subtables.
pub struct EmbedServer {
    encoder: Encoder,
    reader: QueryReader,
    lookup: Lookup,
    /// The lookup of few tokens, if it takes less time.
    strided: Option<Strided>,
    description: Description,
    precision: Option<Precision>,
    storage: KeyStorage,
}

impl EmbedServer {
    /// The secure preset with the lowest cost per token by the nominal cost model, among those with enough levels for
    /// this shape.
    ///
    /// # Errors
    /// If there is none.
    pub fn best_preset(shape: Shape, options: &EmbedOptions) -> Result<CkksParameters, EmbedError> {
        let best = choice(shape, None, options).candidates(SCALE_BITS)?.into_iter().next();
        best.map(|candidate| candidate.parameters).ok_or_else(|| {
            let found = format!("{} columns and {} spare levels", shape.columns, options.spare_levels);
            EmbedError::mismatch(
                "preset",
                found,
                "a shape some secure preset has the levels for; compress to fewer columns",
            )
        })
    }

    /// As [`EmbedServer::new`], with the preset and the plan of the lowest cost per token for which the bound of the
    /// error of an embedding's numbers is at most `error`, in the table's units. Of each preset three plans are tried.
    /// `parameters` or a plan in the options restrict the choice. Simulates each, which takes some seconds. Small
    /// queries beside direct ones are left out if their error is larger.
    ///
    /// # Errors
    /// If there is none, or the queries are full compact or one-hot ones, or as for [`EmbedServer::new`].
    pub fn with_error(
        subtables: &Subtables,
        error: f64,
        parameters: Option<&CkksParameters>,
        options: &EmbedOptions,
    ) -> Result<Self, EmbedError> {
        let summary = TableSummary::of(&tables(subtables)?, subtables.bound());
        let make = |candidate: &LookupCandidate| {
            let options = EmbedOptions { plan: Some(candidate.plan), ..*options };
            Self::within(subtables, &candidate.parameters, &options, error)
        };
        choice(subtables.shape(), parameters, options).precise(error, summary, make)
    }

    /// Prepares a compressed table for a preset. The table is scaled to the preset; clients get embeddings in the
    /// table's units.
    ///
    /// # Errors
    /// If all entries are 0 or below the error bound, the preset has too few levels for the plan, or its modulus has no
    /// room for the table's numbers.
    pub fn new(subtables: &Subtables, parameters: &CkksParameters, options: &EmbedOptions) -> Result<Self, EmbedError> {
        Ok(Self::within(subtables, parameters, options, f64::INFINITY)?.made()?)
    }

    /// As [`EmbedServer::new`], if the error is at most `most_error`. Queries of few tokens beside direct ones are left
    /// out if theirs is larger.
    fn within(
        subtables: &Subtables,
        parameters: &CkksParameters,
        options: &EmbedOptions,
        most_error: f64,
    ) -> Result<Attempt<Self>, EmbedError> {
        let shape = subtables.shape();
        let options = &EmbedOptions { form: output_form(parameters, options.form), ..*options };
        let plan = match options.plan {
            Some(plan) => plan,
            None if options.query == QueryForm::OneHot => LookupPlan::OneHot,
            None => best_plan(parameters, task(shape, options.form))?,
        };
        let tables = tables(subtables)?;
        let scaled = prepare(parameters, &tables, plan, options, subtables.bound())?;
        let encoder = Encoder::new(parameters);
        let query = match options.query {
            QueryForm::Compact if options.short_queries => {
                QueryCodec::short_compact(&scaled.lookup, short_period(parameters, shape.subtables)?)?
            }
            form => QueryCodec::for_lookup(form, &scaled.lookup)?,
        };
        let short = matches!(query, QueryCodec::ShortCompact(_)).then_some(query.slots());
        let reader = QueryReader::new(&encoder, query)?;
        let mut key_plan = scaled.lookup.key_plan();
        key_plan.extend(&reader.key_plan());
        let largest = LargestRows::new(&tables, &scaled, options.form)?;
        let full = largest.error_bound(&encoder, options.query)?;
        let check = |error: f64| check_precision(subtables, parameters, error);
        let mut precision = full.map(check).transpose()?;
        if let Some(bound) = full.filter(|bound| *bound > most_error) {
            return Ok(Attempt::Imprecise(bound));
        }
        let (outputs, unit) = (scaled.lookup.outputs(), scaled.unit);
        let few = if let Some(period) = short {
            FewTokens::alone(&encoder, &reader, &largest, outputs, period)?
        } else if full.is_some() && options.short_queries && options.query == QueryForm::Direct {
            let precise = |error: f64| {
                error * unit <= most_error && check(error * unit).is_ok_and(|precision| !precision.is_low())
            };
            let planned = strided_lookup(&encoder, &tables, &scaled, task(shape, options.form), subtables.bound())?;
            FewTokens::beside_full(&encoder, &reader, &largest, outputs, planned, precise)?
        } else {
            FewTokens::default()
        };
        if let Some(error) = few.error.map(|error| error * unit) {
            if error > most_error {
                return Ok(Attempt::Imprecise(error));
            }
            precision = Some(check(full.map_or(error, |full| full.max(error)))?);
        }
        key_plan.extend(&few.keys);
        let error = precision.map_or(0.0, |precision| precision.error_bound);
        let lookup = scaled.lookup;
        let (model_id, bound) = (subtables.id().to_bytes(), subtables.bound());
        let header = CkksHeader::new(PROTOCOL, parameters, &model_id, key_plan, plan.to_string(), bound)
            .with_unit(unit)
            .with_error_bound(error)
            .with_answer(lookup.outputs(), lookup.output_level(), lookup.output_scale());
        let description = Description::new(header, own_description(shape, options, &lookup, &few))?;
        Ok(Attempt::Made(EmbedServer {
            encoder,
            reader,
            lookup,
            strided: few.strided,
            description,
            precision,
            storage: KeyStorage::Expanded,
        }))
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The table's entries beside the error bound, in the table's units; `None` for full compact queries, whose error
    /// is not known.
    pub fn precision(&self) -> Option<Precision> {
        self.precision
    }

    /// The encoder, for an [`Evaluator`] of a following layer.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The level and the scale of the encrypted embeddings.
    pub fn output(&self) -> (usize, f64) {
        (self.lookup.output_level(), self.lookup.output_scale())
    }

    /// Computes the encrypted embeddings for a client's full query of untrusted bytes, at the level and scale of
    /// [`EmbedServer::output`], for a following layer: vectors as [`Description::form`] defines. A server for such a
    /// layer is made without short queries. The numbers are in the header's unit ([`CkksHeader::unit`]): a following
    /// linear layer keeps it, and [`EmbedClient::read_vectors`](crate::EmbedClient::read_vectors) multiplies by it.
    /// Stops soon after `cancel` is set.
    ///
    /// # Errors
    /// If the query is malformed or does not match, or when cancelled.
    pub fn embed(
        &self,
        client: ClientId,
        keys: &EvaluationKeys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<Ciphertext>, EmbedError> {
        let evaluator = Evaluator::new(&self.encoder, keys).with_cancel(cancel);
        self.run(&evaluator, client, &self.vectors(query)?)
    }

    /// The vectors of a query of untrusted bytes.
    fn vectors(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, EmbedError> {
        let most = self.description.index.codec().vectors();
        Ok(self.header().unpack("query", query, self.description.query_bytes(), most)?)
    }

    /// The encrypted embeddings for the vectors of a full query.
    fn run(
        &self,
        evaluator: &Evaluator<'_>,
        client: ClientId,
        vectors: &[Vec<u8>],
    ) -> Result<Vec<Ciphertext>, EmbedError> {
        Ok(self.lookup.run(evaluator, &self.reader.read(evaluator, client, vectors)?)?)
    }

    /// Packs encrypted vectors for the client: embeddings, or the result of a following layer.
    ///
    /// # Errors
    /// If a vector cannot be rescaled.
    pub fn answer_of(&self, vectors: &[Ciphertext]) -> Result<Vec<u8>, EmbedError> {
        let write = |vector| write_output(self.description.parameters(), vector);
        Ok(self.header().pack(vectors.iter().map(write).collect::<Result<_, _>>()?))
    }
}

impl CkksServerHalf for EmbedServer {
    fn header(&self) -> &CkksHeader {
        self.description.header()
    }

    fn key_storage(&self) -> KeyStorage {
        self.storage
    }

    fn with_key_storage(self, storage: KeyStorage) -> Self {
        EmbedServer { storage, ..self }
    }
}

impl ServerHalf for EmbedServer {
    type Error = EmbedError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    fn limits(&self) -> Limits {
        let vector = output_bytes(self.description.parameters(), self.lookup.output_level());
        let strided = self.strided.as_ref().map_or(0, Strided::working_bytes);
        Limits {
            query_bytes: self.description.query_bytes(),
            answer_bytes: self.header().packed_bytes(self.lookup.outputs(), self.lookup.outputs() * vector),
            working_bytes: self.reader.working_bytes(&self.lookup).max(strided),
            most_together: 1,
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        let strided = self.strided.as_ref().map_or(0, Strided::prepared_bytes);
        self.lookup.prepared_bytes() + strided + self.reader.prepared_bytes()
    }

    fn release_idle_memory(&self) {
        self.description.parameters().ring().release_idle();
    }

    /// For a full query [`EmbedServer::embed`], then [`EmbedServer::answer_of`].
    fn answer(&self, request: &Request<'_, EvaluationKeys>, call: &Call<'_>) -> Result<Vec<u8>, EmbedError> {
        let &Request { client, keys, query } = request;
        let evaluator = Evaluator::new(&self.encoder, keys).with_cancel(call.cancel);
        let vectors = self.vectors(query)?;
        if let (Some(query), Some(strided)) = (self.description.index.strided_of(&vectors), &self.strided) {
            let query = self.reader.read_short(&evaluator, client, query, &vectors)?;
            return self.answer_of(&[strided.run(&evaluator, &query)?]);
        }
        let Some((query, answer)) = self.description.index.short_of(&vectors)? else {
            let outputs = self.run(&evaluator, client, &vectors)?;
            return match self.description.index.short_answer() {
                Some(answer) => Ok(self.header().pack(answer.write(&evaluator, &outputs, self.lookup.bound())?)),
                None => self.answer_of(&outputs),
            };
        };
        let outputs = self.lookup.run(&evaluator, &self.reader.read_short(&evaluator, client, &query, &vectors)?)?;
        Ok(self.header().pack(answer.write(&evaluator, &outputs, self.lookup.bound())?))
    }
}

/// Form of the outputs in the slots of a preset: real slots hold one number each.
fn output_form(parameters: &CkksParameters, asked: OutputForm) -> OutputForm {
    if parameters.ring().kind() == RingKind::ConjugateInvariant { OutputForm::Rows } else { asked }
}

fn task(shape: Shape, form: OutputForm) -> LookupTask {
    let columns = padded_columns(shape.columns);
    LookupTask { subtables: shape.subtables, rows: shape.width, columns, form }
}

/// The choice of a preset and a plan for a table of this shape.
fn choice(shape: Shape, parameters: Option<&CkksParameters>, options: &EmbedOptions) -> LookupChoice {
    LookupChoice {
        task: task(shape, options.form),
        query: options.query,
        short_queries: options.short_queries,
        plan: options.plan,
        parameters: parameters.cloned(),
        spare_levels: options.spare_levels,
        // Short queries take complex slots. A service with a given set in real slots has none.
        real_slots: options.query == QueryForm::Direct && (!options.short_queries || parameters.is_some()),
    }
}

/// The subtables in the table's units.
fn tables(subtables: &Subtables) -> Result<Vec<Table>, LookupError> {
    let shape = subtables.shape();
    let table = |t: usize| {
        let entries = subtables.subtable(t).unwrap_or_default().iter().copied().map(f64::from).collect::<Vec<_>>();
        Table::new(shape.width, &entries)
    };
    (0..shape.subtables).map(table).collect()
}

/// A lookup in scaled tables.
struct Scaled {
    lookup: Lookup,
    /// The entries were divided by this.
    unit: f64,
}

/// Prepares the lookup at the lowest level at which its outputs fit the modulus.
fn prepare(
    parameters: &CkksParameters,
    tables: &[Table],
    plan: LookupPlan,
    options: &EmbedOptions,
    bound: f64,
) -> Result<Scaled, LookupError> {
    // In pairs, two numbers share a slot: one is the real part, one the imaginary part.
    let bound = if options.form == OutputForm::Pairs { bound * std::f64::consts::SQRT_2 } else { bound };
    let columns = tables.first().map_or(4, Table::columns);
    // After a bootstrap there are more levels than needed: one more level is room for the numbers.
    let spare = options.spare_levels + usize::from(options.query == QueryForm::Compact);
    at_lowest_level(parameters, plan.depth(columns) + spare, |level| {
        let unit = output_unit(parameters, plan, columns, Some(level), bound)?;
        let scaled = tables.iter().map(|table| table.divided_by(unit)).collect::<Result<Vec<_>, _>>()?;
        let lookup = Lookup::new(parameters, &scaled, plan, options.form, bound / unit, Some(level))?;
        Ok(Scaled { lookup, unit })
    })
}

/// The lookup of the rows with the largest entries, to be simulated: the error of a row grows with them.
struct LargestRows {
    lookup: Lookup,
    /// The entries were divided by this.
    unit: f64,
}

impl LargestRows {
    fn new(tables: &[Table], scaled: &Scaled, form: OutputForm) -> Result<Self, LookupError> {
        let Scaled { lookup, unit } = scaled;
        let rows = tables.first().map_or(0, Table::rows);
        let size = |r: usize| tables.iter().flat_map(|table| table.row(r)).map(|x| x * x).sum::<f64>();
        let mut largest: Vec<(usize, f64)> = (0..rows).map(|r| (r, size(r))).collect();
        largest.sort_by(|a, b| b.1.total_cmp(&a.1));
        largest.truncate(SIMULATED_ROWS);
        let few = |table: &Table| {
            let entries: Vec<f64> = largest.iter().flat_map(|&(r, _)| table.row(r)).map(|x| x / unit).collect();
            Table::new(largest.len(), &entries)
        };
        let few = tables.iter().map(few).collect::<Result<Vec<_>, _>>()?;
        let (plan, level) = (lookup.plan(), Some(lookup.input_level()));
        let lookup = Lookup::new(lookup.parameters(), &few, plan, form, lookup.bound(), level)?;
        Ok(LargestRows { lookup, unit: *unit })
    }

    /// A bound of the error of an embedding's numbers, from a simulated query whose slots are all full. `None` for
    /// compact queries: the bootstrap of full ones is not simulated, and the bootstrap of short ones belongs to their
    /// reader.
    fn error_bound(&self, encoder: &Encoder, query: QueryForm) -> Result<Option<f64>, LookupError> {
        if query == QueryForm::Compact {
            return Ok(None);
        }
        let outputs = simulated_outputs(&Simulator::new(encoder, 0), &self.lookup)?;
        let errors: Vec<_> = outputs.iter().map(Simulated::error).collect();
        Ok(Some(simulated_error_bound(&errors) * self.unit))
    }
}

/// The queries of few tokens that a server takes.
#[derive(Default)]
struct FewTokens {
    strided: Option<Strided>,
    /// The shortest period of short queries, which is above the tokens of strided ones; 0 if there are no short ones.
    short_period: usize,
    keys: KeyPlan,
    /// A bound of the error of a scaled number, if there are such queries and it is known.
    error: Option<f64>,
}

impl FewTokens {
    /// Short compact queries of this period, and no others.
    fn alone(
        encoder: &Encoder,
        reader: &QueryReader,
        largest: &LargestRows,
        outputs: usize,
        period: usize,
    ) -> Result<Self, EmbedError> {
        let answer = ShortAnswer::new(encoder.parameters(), period, outputs)?;
        let sum = no_sum(period).map_err(ProtocolError::from)?;
        let mut few = FewTokens { short_period: period, ..FewTokens::default() };
        if let Some(offer) = reader.short_offer(encoder, &largest.lookup, (&answer, &sum))? {
            (few.keys, few.error) = (offer.keys, Some(offer.error));
        }
        Ok(few)
    }

    /// Strided and short queries beside full direct ones, where they are precise enough.
    fn beside_full(
        encoder: &Encoder,
        reader: &QueryReader,
        largest: &LargestRows,
        outputs: usize,
        strided: Option<Strided>,
        precise: impl Fn(f64) -> bool,
    ) -> Result<Self, EmbedError> {
        let (mut few, mut least_period) = (FewTokens::default(), MIN_PERIOD);
        if let Some(strided) = strided.filter(|strided| precise(strided.error())) {
            strided.encode(encoder)?;
            few.keys.extend(&strided.key_plan());
            few.error = Some(strided.error());
            least_period = least_period.max(2 * strided.tokens());
            few.strided = Some(strided);
        }
        let shape = reader.query().shape().clone();
        let short = ShortForms { shape, least_period, question_slots: 1, outputs };
        if let Some(offer) = short.offer(encoder, &largest.lookup, no_sum)?.filter(|offer| precise(offer.error)) {
            few.keys.extend(&offer.keys);
            few.error = Some(few.error.map_or(offer.error, |error| error.max(offer.error)));
            few.short_period = least_period;
        }
        Ok(few)
    }
}

/// What the description says beside the header.
fn own_description(shape: Shape, options: &EmbedOptions, lookup: &Lookup, few: &FewTokens) -> proto::Description {
    proto::Description {
        subtables: shape.subtables as u32,
        // Narrow tables are padded, and the root of unity of an index depends on the padded width.
        columns: lookup.shape().2 as u32,
        width: shape.width as u32,
        query_level: lookup.input_level() as u32,
        pairs: options.form == OutputForm::Pairs,
        query_form: options.query.to_string(),
        short_period: few.short_period as u32,
        strided_tokens: few.strided.as_ref().map_or(0, Strided::tokens) as u32,
        strided_level: few.strided.as_ref().map_or(0, Strided::level) as u32,
    }
}

/// The strided lookup of few tokens, if it takes less time than the lookup in full vectors.
fn strided_lookup(
    encoder: &Encoder,
    tables: &[Table],
    scaled: &Scaled,
    task: LookupTask,
    bound: f64,
) -> Result<Option<Strided>, EmbedError> {
    let (parameters, plan, unit) = (encoder.parameters(), scaled.lookup.plan(), scaled.unit);
    let tables = tables.iter().map(|table| table.divided_by(unit)).collect::<Result<Vec<_>, _>>()?;
    let full = estimate(parameters, task, plan, &CostModel::nominal(parameters)).map_or(0.0, |full| full.seconds);
    Ok(Strided::new(encoder, &tables, bound / unit, full)?)
}

/// A token takes one slot: there is nothing to add up.
fn no_sum(period: usize) -> Result<InnerSum, CkksError> {
    InnerSum::new(period as i64, 1)
}

/// Compares the bound of the error with the entries. Refuses tables whose numbers are all below the error.
fn check_precision(
    subtables: &Subtables,
    parameters: &CkksParameters,
    error_bound: f64,
) -> Result<Precision, EmbedError> {
    let entries = || subtables.values().iter().map(|&entry| f64::from(entry));
    if subtables.bound() <= error_bound {
        return Err(EmbedError::mismatch(
            "table",
            format!("numbers up to {:.1e}", subtables.bound()),
            format!("more than the error bound of preset {}, {error_bound:.1e}; use another preset", parameters.name()),
        ));
    }
    let largest = entries().fold(0.0f64, |largest, entry| largest.max(entry.abs()));
    Ok(Precision::new(error_bound, largest, entries()))
}
