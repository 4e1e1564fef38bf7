//! Encrypted fastText: the same messages by every plan in turn, with their times, errors and bytes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use serde_json::{Map, Value};
use unspoken_ckks::Preset;
use unspoken_classify::{ClassifyClient, ClassifyServer, Description, StageSeconds};
use unspoken_lookup::Plan;
use unspoken_protocol::{CkksClientHalf, CkksServerHalf, ClientHalf, ClientId, KeyLoader};
use unspoken_query::QueryForm;
use unspoken_rlwe::EvaluationKeys;

use super::data::Sample;
use crate::clock::{Clock, median};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

const PAPER: &str = "ive-paper";

/// Plans that classify the same messages in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest {
    pub(super) preset: &'static str,
    /// Beside the paper's plan, which is the baseline of each.
    pub(super) plans: &'static [Plan],
    /// Messages, rounded up to whole batches of the preset.
    pub(super) messages: usize,
    /// How often all of them are classified.
    pub(super) rounds: usize,
}

/// A client and a server of one plan, with the client's keys at the server.
pub(super) struct Shop {
    pub(super) plan: Plan,
    server: ClassifyServer,
    client: ClassifyClient,
    keys: EvaluationKeys,
    key_bytes: u64,
}

/// What one plan showed.
#[derive(Default)]
pub(super) struct Record {
    /// Seconds per message, batch by batch.
    pub(super) total: Vec<f64>,
    pub(super) query: Vec<f64>,
    vectors: Vec<f64>,
    linear: Vec<f64>,
    pub(super) query_bytes: usize,
    answer_bytes: usize,
    pub(super) relative_error: f64,
    pub(super) labels_differ: usize,
}

/// One batch: seconds of the server, encrypted scores and labels read back.
pub(super) struct Batch {
    pub(super) seconds: f64,
    /// The same by the wall clock, which is what the stages are measured by.
    wall_seconds: f64,
    stages: StageSeconds,
    answers: Vec<unspoken_classify::Classified>,
    query_bytes: usize,
    answer_bytes: usize,
}

/// Runs a contest and reports it; returns the fastest of its plans, the paper's aside.
pub(super) fn run(session: &mut Session<'_>, sample: &Sample, contest: Contest) -> Result<Plan, BenchError> {
    let preset = Preset::find(contest.preset)?;
    let mut shops = Vec::new();
    for &plan in [Plan::Paper].iter().chain(contest.plans) {
        session.note(format!("{}: keys for plan {plan}", contest.preset));
        shops.push(Shop::new(sample, preset, plan)?);
    }
    let size = shops[0].batch_size().min(contest.messages);
    let mut records: Vec<Record> = shops.iter().map(|_| Record::default()).collect();
    for round in 0..contest.rounds {
        for (index, messages) in sample.messages[..contest.messages.min(sample.messages.len())].chunks(size).enumerate()
        {
            for (shop, record) in shops.iter_mut().zip(&mut records) {
                session.note(format!("{}: plan {}, round {round}, batch {index}", contest.preset, shop.plan));
                let batch = shop.classify(&session.single, session.clock(), messages)?;
                record.add(sample, messages, shop.batch_size(), batch)?;
            }
        }
    }
    for (shop, record) in shops.iter().zip(&records) {
        report(session, sample, shop, record, &records[0]);
    }
    let fastest = shops.iter().zip(&records).skip(1).min_by(|a, b| median(&a.1.total).total_cmp(&median(&b.1.total)));
    Ok(fastest.map_or(Plan::Paper, |(shop, _)| shop.plan))
}

impl Shop {
    /// For direct queries.
    pub(super) fn new(sample: &Sample, preset: &Preset, plan: Plan) -> Result<Self, BenchError> {
        let server = ClassifyServer::new(sample.model.tables(), &preset.build()?, QueryForm::Direct, plan)?;
        Self::with_server(sample, preset, plan, server)
    }

    /// For queries of a form, with the plan that costs least.
    pub(super) fn of_form(sample: &Sample, preset: &Preset, form: QueryForm) -> Result<Self, BenchError> {
        let server = ClassifyServer::with_best_plan(sample.model.tables(), &preset.build()?, form)?;
        let plan = server.header().plan().parse()?;
        Self::with_server(sample, preset, plan, server)
    }

    fn with_server(sample: &Sample, preset: &Preset, plan: Plan, server: ClassifyServer) -> Result<Self, BenchError> {
        let description = server.description().to_bytes();
        let description = if preset.name.starts_with(unspoken_rlwe::INSECURE_PREFIX) {
            Description::insecure_from_bytes(&description)?
        } else {
            Description::from_bytes(&description)?
        };
        let client = ClassifyClient::open(description, Arc::new(sample.model.encoder().clone()), None)?;
        let mut bundle = Vec::new();
        client.keyring().write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false))?;
        let keys = server.load_keys(&mut bundle.as_slice())?;
        Ok(Shop { plan, server, client, keys, key_bytes: bundle.len() as u64 })
    }

    /// Messages of one query.
    pub(super) fn batch_size(&self) -> usize {
        self.server.description().batch()
    }

    pub(super) fn key_bytes(&self) -> u64 {
        self.key_bytes
    }

    pub(super) fn preset(&self) -> &str {
        self.server.description().parameters().name()
    }

    /// Encrypts, answers on the threads of `pool`, decrypts. The clock runs for the server's work alone.
    pub(super) fn classify(
        &mut self,
        pool: &ThreadPool,
        clock: Clock,
        messages: &[String],
    ) -> Result<Batch, BenchError> {
        let encoded = self.client.encode(messages)?;
        let query = self.client.query(&encoded)?;
        let (server, keys, never) = (&self.server, &self.keys, AtomicBool::new(false));
        let client = ClientId::new([0; 16]);
        let work = || Clock::Wall.time(|| server.timed_answer(client, keys, &query, &never));
        let ((answer, wall_seconds), seconds) = clock.time_in(pool, work);
        let (answer, stages) = answer?;
        let answers = self.client.read(&answer, &encoded)?;
        Ok(Batch { seconds, wall_seconds, stages, answers, query_bytes: query.len(), answer_bytes: answer.len() })
    }
}

impl Record {
    /// A batch costs the same whether it is full or not: seconds per message are those of a full one.
    pub(super) fn add(
        &mut self,
        sample: &Sample,
        messages: &[String],
        full: usize,
        batch: Batch,
    ) -> Result<(), BenchError> {
        let StageSeconds { query, vectors, linear } = batch.stages;
        // On the CPU clock the stages keep their shares of the whole.
        let per_message = batch.seconds / batch.wall_seconds / full as f64;
        self.total.push(batch.seconds / full as f64);
        self.query.push(query * per_message);
        self.vectors.push(vectors * per_message);
        self.linear.push(linear * per_message);
        (self.query_bytes, self.answer_bytes) = (batch.query_bytes, batch.answer_bytes);
        for (message, answer) in messages.iter().zip(&batch.answers) {
            let codes = sample.model.encoder().encode(message);
            let clear = sample.model.tables().scores(&codes)?;
            let size = clear.iter().fold(0.0f64, |max, z| max.max(z.abs()));
            let pairs = answer.scores.iter().zip(&clear);
            let error = pairs.map(|(found, clear)| (found - clear).abs() / size).fold(0.0, f64::max);
            self.relative_error = self.relative_error.max(error);
            self.labels_differ += usize::from(answer.label != sample.model.encoder().label(&clear)?);
        }
        Ok(())
    }
}

fn report(session: &mut Session<'_>, sample: &Sample, shop: &Shop, record: &Record, paper: &Record) {
    let shape = sample.model.encoder().shape();
    let case = format!("fastText, {}, {}", shop.plan, shop.preset());
    let params = || -> Map<String, Value> {
        params! {
            "preset": shop.preset(), "plan": shop.plan.to_string(), "data": sample.source,
            "subtables": shape.subtables, "columns": shape.columns, "classes": shape.classes,
            "tokens": shape.max_tokens, "messages_per_query": shop.batch_size(),
        }
    };
    let is_paper = shop.plan == Plan::Paper;
    let times = [
        ("time_per_message", &record.total, &paper.total),
        ("vecgen_per_message", &record.vectors, &paper.vectors),
        ("linear_per_message", &record.linear, &paper.linear),
    ];
    for (name, ours, baseline) in times {
        let baseline = (!is_paper).then_some((PAPER, baseline.as_slice()));
        session.timing(Metric::less(name, "s"), &case, ours, baseline, params());
    }
    let per_message = shop.batch_size() as f64;
    let keys = shop.server.header().key_plan();
    let memory = keys.memory_bytes(shop.server.description().parameters().ring());
    let bytes = [
        ("query_bytes_per_message", record.query_bytes as f64 / per_message),
        ("query_bytes_per_token", record.query_bytes as f64 / per_message / shape.max_tokens as f64),
        ("answer_bytes_per_message", record.answer_bytes as f64 / per_message),
        ("key_wire_bytes", shop.key_bytes as f64),
        ("key_memory_bytes", memory as f64),
    ];
    for (name, value) in bytes {
        session.fact(Metric::less(name, "bytes"), &case, value, None, params());
    }
    let error = Metric::less("log2_relative_error", "bits");
    // A negative logarithm has no meaningful ratio: none is given.
    session.fact(error, &case, record.relative_error.log2(), None, params());
    session.fact(Metric::less("labels_differ", "messages"), &case, record.labels_differ as f64, None, params());
}
