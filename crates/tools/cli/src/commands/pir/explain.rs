//! `unspoken pir build --explain`: what each kind of tables and of queries would cost, and which to choose.

use serde_json::json;
use unspoken_database::Record;
use unspoken_pir_scheme::layout::KeysPlan;
use unspoken_pir_scheme::{
    Layout, MAX_LOG2_FAILURE, Mode, PirParameters, PlaneShape, SchemeError, SeededKeys, TableKind, Tables,
};

/// Lookups over which the time to send keys is spread.
const LOOKUPS: f64 = 100.0;

/// What is known of the records before they are laid out.
pub struct Records {
    keyed: bool,
    lengths: Vec<usize>,
}

/// Options of the layout.
#[derive(Clone, Copy)]
pub struct Options {
    pub candidates: u32,
    pub capacity: u64,
    pub longest: usize,
}

/// The cost of one lookup with queries of a mode to tables of a kind. A lookup by key sends one query for each
/// candidate bucket.
pub struct Choice {
    tables: Tables,
    mode: Mode,
    key_bytes: u64,
    query_bytes: usize,
    answer_bytes: usize,
    table_bytes: u64,
    /// Predicted, on one core of the service.
    seconds: f64,
}

impl Records {
    /// Reads the lengths of all records. `stored` returns the bytes that are stored for a record of a length.
    pub fn read<E>(
        records: impl Iterator<Item = Result<Record, E>>,
        stored: impl Fn(usize) -> usize,
    ) -> Result<Self, E> {
        let (mut keyed, mut lengths) = (false, Vec::new());
        for record in records {
            let record = record?;
            keyed = record.key.is_some();
            lengths.push(stored(record.value.len()));
        }
        Ok(Records { keyed, lengths })
    }

    fn layout(&self, parameters: &PirParameters, tables: TableKind, options: Options) -> Result<Layout, SchemeError> {
        let (lengths, Options { candidates, capacity, longest }) = (self.lengths.iter().copied(), options);
        match self.keyed {
            true => {
                let plan = KeysPlan { keys: capacity, longest, ..KeysPlan::new(tables, candidates, [0; 16]) };
                Layout::for_keys(parameters, lengths, &plan)
            }
            false => Layout::for_index(parameters, tables, lengths, (capacity, longest)),
        }
    }

    /// All choices that the records and the options allow.
    pub fn choices(&self, parameters: &PirParameters, options: Options) -> anyhow::Result<Vec<Choice>> {
        anyhow::ensure!(!self.lengths.is_empty(), "there are no records; a database has at least one");
        let mut choices = Vec::new();
        let mut refused = None;
        for kind in [TableKind::Transformed, TableKind::Dense, TableKind::Wide] {
            match self.layout(parameters, kind, options).and_then(|layout| Tables::new(parameters, layout, kind)) {
                Ok(tables) => choices.extend(kind.modes().iter().filter_map(|&mode| Choice::new(&tables, mode))),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) if choices.is_empty() => Err(error.into()),
            _ => Ok(choices),
        }
    }
}

impl Choice {
    /// `None` if queries of this mode would fail too often, or for tables that are not compared.
    fn new(tables: &Tables, mode: Mode) -> Option<Self> {
        if tables.log2_failure(mode).ok()? > MAX_LOG2_FAILURE {
            return None;
        }
        let (parameters, queries) = (tables.parameters(), tables.queries());
        let table_bytes = table_bytes(tables)?;
        Some(Choice {
            mode,
            key_bytes: SeededKeys::byte_len(parameters, mode),
            query_bytes: queries * tables.query_bytes(mode),
            answer_bytes: queries * tables.planes() * tables.response_bytes(),
            table_bytes,
            seconds: queries as f64 * seconds(tables.kind(), mode, table_bytes),
            tables: tables.clone(),
        })
    }

    /// Seconds of a lookup over a link of this many bits per second in each direction, with a share of the time to send
    /// the keys.
    fn lookup_seconds(&self, link: f64) -> f64 {
        let bytes = (self.query_bytes + self.answer_bytes) as f64 + self.key_bytes as f64 / LOOKUPS;
        self.seconds + 8.0 * bytes / link
    }
}

/// Bytes of the tables; `None` for encrypted entries, which are no choice of a service.
fn table_bytes(tables: &Tables) -> Option<u64> {
    let parameters = tables.parameters();
    let plane = match tables.shape() {
        PlaneShape::Transformed(shape) => 4 * parameters.ring().table_words(shape.table(parameters)),
        PlaneShape::Dense(shape) => {
            let packing = unspoken_pir_scheme::dense::Packing::memory_bytes(parameters);
            shape.table_bytes(parameters) + shape.groups() * packing
        }
        PlaneShape::Encrypted(_) => return None,
    };
    Some((tables.planes() * plane) as u64)
}

/// Predicted seconds of one core for one query: to expand it, and for each byte of the tables to compute sums and
/// selections. From the rows of `docs/benchmarks` (pir-answers, pir-dense) with AVX-512, rounded up: most of all the
/// fixed part of dense queries, of which less than 0.01 s were measured.
fn seconds(tables: TableKind, mode: Mode, table_bytes: u64) -> f64 {
    let (fixed, each) = match (tables, mode) {
        (TableKind::Dense | TableKind::Wide, _) => (0.02, 5.0e-11),
        (_, Mode::Compact | Mode::Session) => (1.6, 8.5e-11),
        (_, Mode::Bits) => (1.5, 8.5e-11),
        (_, Mode::Packed) => (0.03, 8.5e-11),
    };
    fixed + each * table_bytes as f64
}

/// The choice whose lookups take the least time over the link, among those whose tables fit into the memory.
pub fn recommended(choices: &[Choice], link: f64, memory: u64) -> Option<&Choice> {
    let fitting = choices.iter().filter(|choice| choice.table_bytes <= memory);
    fitting.min_by(|a, b| a.lookup_seconds(link).total_cmp(&b.lookup_seconds(link)))
}

/// Prints all choices and the recommended one.
pub fn print(choices: &[Choice], link: f64, memory: u64) {
    println!(
        "{:12} {:8} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "tables", "query", "tables, MB", "keys, MB", "asks, B", "gets, B", "server, s", "lookup, s"
    );
    for choice in choices {
        println!(
            "{:12} {:8} {:>12.1} {:>10.1} {:>10} {:>10} {:>10.3} {:>10.3}",
            choice.tables.kind().to_string(),
            choice.mode.to_string(),
            choice.table_bytes as f64 / 1e6,
            choice.key_bytes as f64 / 1e6,
            choice.query_bytes,
            choice.answer_bytes,
            choice.seconds,
            choice.lookup_seconds(link),
        );
    }
    println!(
        "\nServer: predicted for one core with AVX-512. Lookup: over the link of {} Mbit/s (--link), with a hundredth \
         of the time to send the keys.",
        link / 1e6
    );
    match recommended(choices, link, memory) {
        Some(choice) => {
            let (tables, mode) = (choice.tables.kind(), choice.mode);
            println!("recommended  --tables {tables}, and clients that ask {mode} queries");
        }
        None => println!("recommended  none: no tables fit into the {:.1} GB of memory here", memory as f64 / 1e9),
    }
}

/// The choices as JSON.
pub fn json(choices: &[Choice], link: f64, memory: u64) -> serde_json::Value {
    let one = |choice: &Choice| {
        json!({
            "tables": choice.tables.kind(), "query": choice.mode.to_string(), "table_bytes": choice.table_bytes,
            "key_bytes": choice.key_bytes, "query_bytes": choice.query_bytes, "answer_bytes": choice.answer_bytes,
            "server_seconds": choice.seconds, "lookup_seconds": choice.lookup_seconds(link),
        })
    };
    let best = recommended(choices, link, memory);
    json!({ "choices": choices.iter().map(one).collect::<Vec<_>>(), "recommended": best.map(one) })
}

#[cfg(test)]
mod tests {
    use unspoken_pir_scheme::Preset;

    use super::*;

    fn best(count: usize, length: usize, link: f64, memory: u64) -> Option<(TableKind, Mode)> {
        let records = Records { keyed: false, lengths: vec![length; count] };
        let options = Options { candidates: 2, capacity: 0, longest: 0 };
        let choices = records.choices(&Preset::N11.build().unwrap(), options).unwrap();
        recommended(&choices, link, memory).map(|choice| (choice.tables.kind(), choice.mode))
    }

    #[test]
    fn slow_links_and_small_databases_have_shorter_queries() {
        const ALL: u64 = u64::MAX;
        assert_eq!(best(10_000, 256, 20e6, ALL), Some((TableKind::Transformed, Mode::Packed)));
        assert_eq!(best(1 << 20, 256, 20e6, ALL), Some((TableKind::Wide, Mode::Packed)));
        assert_eq!(best(1 << 20, 256, 100e6, ALL), Some((TableKind::Dense, Mode::Packed)));
        assert_eq!(best(1 << 16, 256, 1e5, ALL), Some((TableKind::Transformed, Mode::Packed)));
        // More cells than an index of transformed tables has.
        assert_eq!(best(1 << 26, 1, 20e6, ALL), Some((TableKind::Dense, Mode::Packed)));
        assert_eq!(best(10_000, 256, 20e6, 1 << 20), None);
    }
}
