//! `unspoken cluster plan`

use clap::ValueEnum;
use serde_json::{Value, json};

use super::demand::{ClusterMachine, Database, Demand, Need, application, database, least_latency};
use super::rates::{AnswerRates, STORIES};

/// Plan machines, memory, shards and replicas for a demand
///
/// Computes with what `unspoken-bench` measured on one machine with two cores (docs/benchmarks.md) and with a network
/// of the given speed. The result is a prediction, not a measurement. For other applications name what your own service
/// measures: its metrics have the seconds of answers, and its description the bytes.
#[derive(clap::Args)]
pub struct Arguments {
    /// What is served
    #[arg(long, value_enum)]
    kind: Kind,
    /// Records of the database
    #[arg(long, default_value_t = 1e9)]
    records: f64,
    /// Bytes of a record
    #[arg(long, default_value_t = 256.0)]
    record_bytes: f64,
    /// Records are found by keys, not by indices
    #[arg(long)]
    by_key: bool,
    /// Shards answer waiting queries together in one pass, as `unspoken serve --pir-shard` does; replicas on Ray answer
    /// each query alone
    #[arg(long)]
    together: bool,
    /// Number of clients
    #[arg(long, default_value_t = 1e6)]
    clients: f64,
    /// Questions of each client in the busiest hour
    #[arg(long, default_value_t = 0.1)]
    questions_per_hour: f64,
    /// Seconds that an answer may take
    #[arg(long, default_value_t = 2.0)]
    latency: f64,
    /// Cores of a machine
    #[arg(long, default_value_t = 16.0)]
    cores: f64,
    /// Memory of a machine, in GiB
    #[arg(long, default_value_t = 128.0)]
    memory_gib: f64,
    /// Speed of a machine's network, in Gbit/s
    #[arg(long, default_value_t = 10.0)]
    network_gbit: f64,
    /// Core-seconds of an answer of --kind other
    #[arg(long, required_if_eq("kind", "other"))]
    answer_core_seconds: Option<f64>,
    /// Bytes of a client's keys in memory, of --kind other; half of this number is counted on disk, where seeds stand
    /// for one of the two halves of a key
    #[arg(long, required_if_eq("kind", "other"))]
    key_memory_bytes: Option<f64>,
    /// Bytes of query and answer together, of --kind other
    #[arg(long, default_value_t = 1e6)]
    message_bytes: f64,
    /// Also plan for 10, 100, .. times fewer clients and records
    #[arg(long)]
    curve: bool,
    /// Print one JSON object per plan
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A database of dense tables, packed queries
    Pir,
    /// The model stories260K, passes of 16 tokens
    Stories,
    /// What the options say
    Other,
}

/// Steps of the curve.
const STEPS: i32 = 4;

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.check()?;
    let steps = if arguments.curve { STEPS } else { 1 };
    for step in (0..steps).rev() {
        let share = 10f64.powi(-step);
        let (records, clients) = ((arguments.records * share).ceil(), (arguments.clients * share).ceil());
        let need = arguments.need(records, clients);
        if arguments.json {
            println!("{}", arguments.as_json(records, clients, &need));
        } else {
            arguments.print(records, clients, &need);
        }
    }
    Ok(())
}

impl Arguments {
    fn check(&self) -> anyhow::Result<()> {
        let numbers = [
            ("--records", self.records),
            ("--record-bytes", self.record_bytes),
            ("--clients", self.clients),
            ("--questions-per-hour", self.questions_per_hour),
            ("--latency", self.latency),
            ("--cores", self.cores),
            ("--memory-gib", self.memory_gib),
            ("--network-gbit", self.network_gbit),
            ("--message-bytes", self.message_bytes),
            ("--answer-core-seconds", self.answer_core_seconds.unwrap_or(1.0)),
            ("--key-memory-bytes", self.key_memory_bytes.unwrap_or(1.0)),
        ];
        for (name, number) in numbers {
            anyhow::ensure!(number.is_finite() && number > 0.0, "{name}: found {number}, needed a positive number");
        }
        let least = least_latency(&self.machine());
        anyhow::ensure!(
            self.kind != Kind::Pir || self.latency > least,
            "--latency: found {}, needed more than {least:.4}: the expansion of a query and two messages",
            self.latency
        );
        Ok(())
    }

    fn machine(&self) -> ClusterMachine {
        ClusterMachine {
            cores: self.cores,
            memory_bytes: self.memory_gib * (1u64 << 30) as f64,
            network_bytes: self.network_gbit * 1e9 / 8.0,
            round_trip: 5e-4,
        }
    }

    fn need(&self, records: f64, clients: f64) -> Need {
        let demand = Demand { clients, questions_per_hour: self.questions_per_hour, latency: self.latency };
        match self.kind {
            Kind::Pir => {
                let (record_bytes, by_key, together) = (self.record_bytes, self.by_key, self.together);
                database(&Database { records, record_bytes, by_key, together }, &demand, &self.machine())
            }
            Kind::Stories => application(&STORIES, &demand, &self.machine()),
            Kind::Other => application(&self.other(), &demand, &self.machine()),
        }
    }

    fn other(&self) -> AnswerRates {
        let core_seconds = self.answer_core_seconds.unwrap_or_default();
        let key_memory = self.key_memory_bytes.unwrap_or_default();
        AnswerRates {
            core_seconds,
            seconds: core_seconds / 2.0,
            key_bytes: key_memory / 2.0,
            key_memory,
            query_bytes: self.message_bytes,
            answer_bytes: 0.0,
            model_memory: 0.0,
            source: "the options",
        }
    }

    /// Where the rates are from.
    fn source(&self) -> &'static str {
        match self.kind {
            Kind::Pir => "pir: dense, pir: shards",
            Kind::Stories => STORIES.source,
            Kind::Other => "the options",
        }
    }

    fn as_json(&self, records: f64, clients: f64, need: &Need) -> Value {
        let records = (self.kind == Kind::Pir).then_some(records);
        json!({
            "kind": self.kind.to_possible_value().map(|value| value.get_name().to_owned()),
            "records": records, "clients": clients, "machines": need.machines(), "shards": need.shards,
            "replicas": need.replicas, "gateways": need.gateways, "machine_memory_bytes": need.machine_memory,
            "seconds": need.seconds, "core_hours_per_million_questions": need.core_hours_per_million,
            "key_disk_bytes": need.key_disk, "traffic_bytes_per_second": need.traffic, "limit": need.limit,
            "rates": self.source(),
        })
    }

    fn print(&self, records: f64, clients: f64, need: &Need) {
        let what = if self.kind == Kind::Pir { format!("{records:.0} records, ") } else { String::new() };
        let slow = if need.seconds > self.latency { ", slower than asked" } else { "" };
        println!("{what}{clients:.0} clients, {} questions an hour each", self.questions_per_hour);
        println!(
            "  machines      {:.0} (shards: {:.0}, replicas of each: {:.0}, gateways: {:.0})",
            need.machines(),
            need.shards,
            need.replicas,
            need.gateways
        );
        println!("  memory        {:.1} GB used of {:.0} GiB in a machine", need.machine_memory / 1e9, self.memory_gib);
        println!("  answer        {:.3} s while nobody waits{slow}", need.seconds);
        println!("  cost          {:.1} core-hours for a million questions", need.core_hours_per_million);
        println!("  keys          {:.1} GB on disk", need.key_disk / 1e9);
        println!("  network       {:.3} GB/s through the gateways", need.traffic / 1e9);
        println!("  breaks first  {}", need.limit);
        println!("  rates         {} (docs/benchmarks.md); more than two cores are extrapolated", self.source());
    }
}
