//! Encrypted fastText: the same messages by every plan in turn, with times, errors and bytes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};
use unspoken_ckks::Preset;
use unspoken_classify::{ClassifyClient, ClassifyOptions, ClassifyServer, Description, StageSeconds};
use unspoken_lookup::LookupPlan;
use unspoken_protocol::{Call, CkksClientHalf, CkksServerHalf, ClientHalf, ClientId, KeyLoader, Request};
use unspoken_query::QueryForm;
use unspoken_rlwe::EvaluationKeys;

use super::PAPER;
use super::data::ClassifierData;
use crate::clock::{Clock, Stopwatch, median};
use crate::error::larger_error;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Plans that classify the same messages in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanComparison {
    pub(super) preset: &'static str,
    /// Plans compared with the paper's plan, which is the baseline of each.
    pub(super) plans: &'static [LookupPlan],
    /// Messages, rounded up to whole batches of the preset.
    pub(super) messages: usize,
    /// How often all messages are classified.
    pub(super) rounds: usize,
}

/// A client and a server of one plan, with the client's keys at the server.
pub(super) struct ClassifierFixture {
    pub(super) plan: LookupPlan,
    server: ClassifyServer,
    client: ClassifyClient,
    keys: EvaluationKeys,
    key_bytes: u64,
}

/// Measurements of one plan.
#[derive(Default)]
pub(super) struct PlanMeasurement {
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

/// One batch: seconds of the server, decrypted scores and labels.
pub(super) struct BatchMeasurement {
    pub(super) seconds: f64,
    /// The same in wall-clock time, which the times of the stages use.
    wall_seconds: f64,
    stages: StageSeconds,
    pub(super) answers: Vec<unspoken_classify::Classified>,
    pub(super) query_bytes: usize,
    pub(super) answer_bytes: usize,
}

/// Runs a comparison and reports it; returns the fastest plan other than the paper's.
pub(super) fn run(
    harness: &mut Harness<'_>,
    data: &ClassifierData,
    comparison: PlanComparison,
) -> anyhow::Result<LookupPlan> {
    let preset = Preset::find(comparison.preset)?;
    let mut fixtures = Vec::new();
    for &plan in [LookupPlan::Paper].iter().chain(comparison.plans) {
        harness.progress(format!("{}: keys for plan {plan}", comparison.preset));
        fixtures.push(ClassifierFixture::new(data, preset, plan)?);
    }
    let size = fixtures[0].batch_size().min(comparison.messages);
    // One warm-up batch of each, which is not counted.
    let first = &data.messages[..size.min(data.messages.len())];
    for fixture in &mut fixtures {
        harness.progress(format!("{}: plan {}, a batch that is not counted", comparison.preset, fixture.plan));
        fixture.classify(harness.stopwatch(), first)?;
    }
    let mut measurements: Vec<PlanMeasurement> = fixtures.iter().map(|_| PlanMeasurement::default()).collect();
    for round in 0..comparison.rounds {
        for (index, messages) in data.messages[..comparison.messages.min(data.messages.len())].chunks(size).enumerate()
        {
            for (fixture, measurement) in fixtures.iter_mut().zip(&mut measurements) {
                harness.progress(format!("{}: plan {}, round {round}, batch {index}", comparison.preset, fixture.plan));
                let batch = fixture.classify(harness.stopwatch(), messages)?;
                measurement.add(data, messages, fixture.batch_size(), batch)?;
            }
        }
    }
    for (fixture, measurement) in fixtures.iter().zip(&measurements) {
        report(harness, data, fixture, measurement, &measurements[0]);
    }
    let fastest =
        fixtures.iter().zip(&measurements).skip(1).min_by(|a, b| median(&a.1.total).total_cmp(&median(&b.1.total)));
    Ok(fastest.map_or(LookupPlan::Paper, |(fixture, _)| fixture.plan))
}

impl ClassifierFixture {
    /// A fixture for direct queries with this plan.
    pub(super) fn new(data: &ClassifierData, preset: &Preset, plan: LookupPlan) -> anyhow::Result<Self> {
        // Full queries alone, as the tables compare them.
        let options = ClassifyOptions { plan: Some(plan), query: QueryForm::Direct, short_queries: false };
        Self::with_options(data, preset, &options)
    }

    /// A fixture with these options of the server.
    pub(super) fn with_options(
        data: &ClassifierData,
        preset: &Preset,
        options: &ClassifyOptions,
    ) -> anyhow::Result<Self> {
        let server = ClassifyServer::new(data.model.tables(), &preset.build()?, options)?;
        let plan = server.header().plan().parse()?;
        let description = server.description().to_bytes();
        let description = if preset.name.starts_with(unspoken_rlwe::INSECURE_PREFIX) {
            Description::insecure_from_bytes(&description)?
        } else {
            Description::from_bytes(&description)?
        };
        let client = ClassifyClient::open(description, Arc::new(data.model.encoder().clone()), None)?;
        let mut bundle = Vec::new();
        client.keyring().write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false))?;
        let keys = server.load_keys(&mut bundle.as_slice())?;
        Ok(ClassifierFixture { plan, server, client, keys, key_bytes: bundle.len() as u64 })
    }

    /// Number of messages in one query.
    pub(super) fn batch_size(&self) -> usize {
        self.server.description().batch()
    }

    pub(super) fn key_bytes(&self) -> u64 {
        self.key_bytes
    }

    pub(super) fn preset(&self) -> &str {
        self.server.description().parameters().name()
    }

    /// Encrypts, answers, decrypts. Only the server's work is timed.
    pub(super) fn classify(
        &mut self,
        stopwatch: Stopwatch<'_>,
        messages: &[String],
    ) -> anyhow::Result<BatchMeasurement> {
        let encoded = self.client.encode(messages)?;
        let query = self.client.query(&encoded)?;
        let (server, keys, never) = (&self.server, &self.keys, AtomicBool::new(false));
        let client = ClientId::new([0; 16]);
        let answer = || {
            let (answer, wall_seconds) =
                Clock::Wall.time(|| server.timed_answer(&Request::new(client, keys, &query), &Call::new(&never)));
            answer.map(|answer| (answer, wall_seconds))
        };
        let (((answer, stages), wall_seconds), seconds) = stopwatch.time(answer)?;
        let answers = self.client.read(&answer, &encoded)?;
        Ok(BatchMeasurement {
            seconds,
            wall_seconds,
            stages,
            answers,
            query_bytes: query.len(),
            answer_bytes: answer.len(),
        })
    }
}

impl PlanMeasurement {
    /// A partial batch costs as much as a full one, so seconds per message count a full batch.
    pub(super) fn add(
        &mut self,
        data: &ClassifierData,
        messages: &[String],
        full: usize,
        batch: BatchMeasurement,
    ) -> anyhow::Result<()> {
        let StageSeconds { query, vectors, linear } = batch.stages;
        // With the CPU clock, the stages keep their share of the total.
        let per_message = batch.seconds / batch.wall_seconds / full as f64;
        self.total.push(batch.seconds / full as f64);
        self.query.push(query * per_message);
        self.vectors.push(vectors * per_message);
        self.linear.push(linear * per_message);
        (self.query_bytes, self.answer_bytes) = (batch.query_bytes, batch.answer_bytes);
        for (message, answer) in messages.iter().zip(&batch.answers) {
            let codes = data.model.encoder().encode(message);
            let clear = data.model.tables().scores(&codes)?;
            let size = clear.iter().fold(0.0f64, |max, z| max.max(z.abs()));
            let pairs = answer.scores.iter().zip(&clear);
            let error = pairs.map(|(found, clear)| (found - clear).abs() / size).fold(0.0, larger_error);
            self.relative_error = self.relative_error.max(error);
            self.labels_differ += usize::from(answer.label != data.model.encoder().label(&clear)?);
        }
        Ok(())
    }
}

fn report(
    harness: &mut Harness<'_>,
    data: &ClassifierData,
    fixture: &ClassifierFixture,
    measurement: &PlanMeasurement,
    paper: &PlanMeasurement,
) {
    let shape = data.model.encoder().shape();
    let case = format!("fastText, {}, {}", fixture.plan, fixture.preset());
    let params = || -> Map<String, Value> {
        params! {
            "preset": fixture.preset(), "plan": fixture.plan.to_string(), "data": data.source,
            "subtables": shape.subtables, "columns": shape.columns, "classes": shape.classes,
            "tokens": shape.max_tokens, "messages_per_query": fixture.batch_size(),
        }
    };
    let is_paper = fixture.plan == LookupPlan::Paper;
    let times = [
        ("time_per_message", &measurement.total, &paper.total),
        ("vecgen_per_message", &measurement.vectors, &paper.vectors),
        ("linear_per_message", &measurement.linear, &paper.linear),
    ];
    for (name, ours, baseline) in times {
        let baseline = (!is_paper).then_some((PAPER, baseline.as_slice()));
        harness.timing(Metric::less(name, "s"), &case, ours, baseline, params());
    }
    let per_message = fixture.batch_size() as f64;
    let keys = fixture.server.header().key_plan();
    let memory = keys.memory_bytes(fixture.server.description().parameters().ring());
    let bytes = [
        ("query_bytes_per_message", measurement.query_bytes as f64 / per_message),
        ("query_bytes_per_token", measurement.query_bytes as f64 / per_message / shape.max_tokens as f64),
        ("answer_bytes_per_message", measurement.answer_bytes as f64 / per_message),
        ("key_wire_bytes", fixture.key_bytes as f64),
        ("key_memory_bytes", memory as f64),
    ];
    for (name, value) in bytes {
        harness.value(Metric::less(name, "bytes"), &case, value, None, params());
    }
    let error = Metric::less("log2_relative_error", "bits");
    // The ratio of negative logarithms has no meaning, so no baseline is given.
    harness.value(error, &case, measurement.relative_error.log2(), None, params());
    harness.value(Metric::less("labels_differ", "messages"), &case, measurement.labels_differ as f64, None, params());
}
