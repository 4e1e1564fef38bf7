//! What answers cost, as `unspoken-bench` measured it: the rows of `docs/benchmarks` on an AMD EPYC with two cores
//! and the backend avx512. Another machine has other rates; the ratios between plans hold.

/// Seconds of one core, and bytes, of answers of an application that does not grow with a database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnswerRates {
    /// Core-seconds of an answer.
    pub core_seconds: f64,
    /// Seconds of an answer on two cores.
    pub seconds: f64,
    /// Bytes of a client's keys: sent, and in memory.
    pub key_bytes: f64,
    pub key_memory: f64,
    /// Bytes of a query and of its answer.
    pub query_bytes: f64,
    pub answer_bytes: f64,
    /// Bytes of memory of the application in a replica.
    pub model_memory: f64,
    /// Where the numbers are from.
    pub source: &'static str,
}

/// A pass of stories260K over 16 private tokens ("llama: passes").
pub const STORIES: AnswerRates = AnswerRates {
    core_seconds: 94.2,
    seconds: 51.3,
    key_bytes: 1.52e9,
    key_memory: 2.6e9,
    query_bytes: 5.82e6,
    answer_bytes: 0.983e6,
    model_memory: 4.0e9,
    source: "llama: passes (stories260K, 16 tokens)",
};

/// Answers of a database of dense tables with packed queries.
pub mod dense {
    /// Core-seconds for each byte of records, of eight queries in a pass ("pir: dense", 8 GB): 2.388 s / 8 / 8 GiB.
    pub const CORE_SECONDS_PER_BYTE: f64 = 2.388 / 8.0 / (8.0 * GIB);
    /// Core-seconds of the expansion of a query, whatever the size ("pir: dense", 8 GB).
    pub const CORE_SECONDS_PER_QUERY: f64 = 0.0063;
    /// Seconds for each byte of records, of one query on one core ("pir: dense", 8 GB).
    pub const SECONDS_PER_BYTE: f64 = 0.6286 / (8.0 * GIB);
    /// Share of more cores that one query uses: 0.6286 s on one core, 0.4151 s on two.
    pub const SECOND_CORE: f64 = 0.6286 / 0.4151 - 1.0;
    /// Bytes of memory for each byte of records ("pir: dense").
    pub const MEMORY_PER_BYTE: f64 = 1.5;
    /// Room that tables of records by key leave ("pir: database": 24.67 for 16 of each byte).
    pub const ROOM_BY_KEY: f64 = 24.67 / 16.0;
    /// Bytes of a query, of a shard's partial answer, and of the answer ("pir: shards").
    pub const QUERY_BYTES: f64 = 146_600.0;
    pub const PARTIAL_BYTES: f64 = 26_624.0;
    pub const ANSWER_BYTES: f64 = 4_736.0;
    /// Seconds for adding the partial answers of eight shards ("pir: shards").
    pub const MERGE_SECONDS: f64 = 1.0e-4 / 8.0;
    /// Bytes of a client's keys: sent ("pir: answers", packed), and in memory (what the service reserves for them).
    pub const KEY_BYTES: f64 = 2.704e6;
    pub const KEY_MEMORY: f64 = 6.930e6;

    const GIB: f64 = (1u64 << 30) as f64;
}

#[cfg(test)]
mod tests {
    use unspoken_pir_scheme::dense::{DenseQuery, DenseShape};
    use unspoken_pir_scheme::{Mode, PreparedKeys, Preset, SeededKeys};

    use super::dense;

    #[test]
    fn lengths_of_keys_are_those_of_the_parameters() {
        let parameters = Preset::N11.build().unwrap();
        let shape = DenseShape::new(&parameters, 1 << 25, 256).unwrap();
        let lengths = [
            (SeededKeys::byte_len(&parameters, Mode::Packed), dense::KEY_BYTES),
            (PreparedKeys::memory_bytes(&parameters, Mode::Packed), dense::KEY_MEMORY),
            (DenseQuery::byte_len(&parameters, shape) as u64, dense::QUERY_BYTES),
        ];
        for (needed, found) in lengths {
            assert!((needed as f64 / found - 1.0).abs() < 0.01, "{needed} {found}");
        }
    }
}
