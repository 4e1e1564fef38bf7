//! The retrieval suite: answers by mode and size, phase by phase, and projections from them.
//!
//! - **Records** are pseudorandom functions of their indices. So a table of 1 GB, which needs 16 GB of memory, is
//!   stored once and every answer can still be checked. Modes take turns, on one thread and on all cores, with one
//!   thread as the baseline. Seconds are wall-clock time of `unspoken_pir_scheme::answer`, which reports its phases.
//! - **The projection** to 8 GB starts from the phases of the largest measured table, on one thread. Expansion grows
//!   with the bits of the index, sums over rows and selection grow with the bytes, selectors and compression do not
//!   grow; `params.growth_of_phases` has the factors. Compact queries to a table of that size are refused
//!   (`params.answered`).
//! - **A service** (`--only service`) runs in this process, on a local address, with default limits except for its
//!   queues, which have room for all clients. Clients are threads, each with its own connection; all use one set of
//!   keys.
//! - **Shards** (`--only shards`) are built one after the other. Each answers the same query, from memory, and is
//!   dropped. So the table of 8 GB needs only the memory of one shard (2.6 GB with the spare gigabyte). The record that
//!   the added answers give is compared. `all_shards_time` is the time of one machine for all shards,
//!   `slowest_shard_time` the time of one machine for each shard, without the network.
//! - **Published forms** (`--only published`): Pirouette's decomposition of an index, its selectors for large records,
//!   and T-Respire, as baselines. The module `published` says what is built, at which parameters, what was corrected,
//!   and what is a stand-in; `params.stand_in`, `params.extrapolated` and `params.not_built` say so in rows. Numbers
//!   that the paper prints are baselines named `the paper's text`.
//! - **Respire** runs after ours, because the two tables do not fit into memory together. It is its own program with
//!   its own phases, and checks its own results. `ratio` is the ratio of the medians, and `params.order` says so.
//!   `research/peers/README.md` gives the path of the program.
//! - **InsPIRe and YPIR** (`--only dense`) run before ours, for the same reason, if they are installed: at 256 MB and 1
//!   GB, a single query on one thread. Bytes of a query include the keys that come with it. YPIR's records are longer.

mod answers;
mod client;
mod dense;
mod published;
mod rows;
mod sealed;
mod service;
mod shards;
mod table;
mod updates;

use std::time::Duration;

use published::PublishedCase;
use service::Load;
use shards::Cut;
use table::Table;
use unspoken_pir_scheme::{Mode, Phase, PirParameters, Preset, TableKind};

use crate::clock::Repetitions;
use crate::harness::Harness;
use crate::row::Metric;

const ANSWERS: &str = "answers";
const DENSE: &str = "dense";
const ROWS: &str = "rows";
const SEALED: &str = "sealed";
const UPDATES: &str = "updates";
const SERVICE: &str = "service";
const PUBLISHED: &str = "published";
const SHARDS: &str = "shards";

pub(crate) const PARTS: [&str; 8] = [ANSWERS, ROWS, UPDATES, SERVICE, DENSE, PUBLISHED, SEALED, SHARDS];

/// An answer's phases, in order, and their times.
const PHASES: [(Phase, Metric); 5] = [
    (Phase::Expansion, Metric::less("expansion_time", "s")),
    (Phase::Selectors, Metric::less("selectors_time", "s")),
    (Phase::Rows, Metric::less("rows_time", "s")),
    (Phase::Selection, Metric::less("selection_time", "s")),
    (Phase::Compression, Metric::less("compression_time", "s")),
];

/// Size of a table.
#[derive(Clone, Copy)]
struct Size {
    name: &'static str,
    bytes: u64,
    /// Respire's program for this size, if it has one.
    respire: Option<&'static str>,
}

const MB_16: Size = Size { name: "16 MB", bytes: 16 << 20, respire: Some("16m256") };
const MB_256: Size = Size { name: "256 MB", bytes: 256 << 20, respire: Some("256m256") };
const GB_1: Size = Size { name: "1 GB", bytes: 1 << 30, respire: Some("1g256") };
const GB_8: Size = Size { name: "8 GB", bytes: 8 << 30, respire: None };

/// The measured sizes and loads.
struct Case {
    preset: Preset,
    sizes: &'static [Size],
    repetitions: Repetitions,
    /// Loads of a service.
    loads: &'static [Load],
    /// Dense tables: their kinds and sizes.
    dense: &'static [(TableKind, Size)],
    /// Queries in a pass over a dense table.
    passes: &'static [usize],
    /// Sizes of the published forms.
    published: PublishedCase,
    /// Dense tables that are cut into shards.
    cuts: &'static [Cut],
}

const FULL: Case = Case {
    preset: Preset::N11,
    sizes: &[MB_256, GB_1],
    repetitions: Repetitions { min: 5, max: 9, budget: Duration::from_secs(90) },
    loads: &[
        Load { tables: TableKind::Transformed, mode: Mode::Packed, clients: &[1, 8, 64, 256], queries: 64 },
        Load { tables: TableKind::Transformed, mode: Mode::Bits, clients: &[1, 8], queries: 16 },
        Load { tables: TableKind::Transformed, mode: Mode::Compact, clients: &[1, 8], queries: 16 },
        Load { tables: TableKind::Dense, mode: Mode::Packed, clients: &[1, 8, 64, 256], queries: 256 },
    ],
    dense: &[
        (TableKind::Dense, MB_256),
        (TableKind::Wide, MB_256),
        (TableKind::Dense, GB_1),
        (TableKind::Wide, GB_1),
        (TableKind::Dense, GB_8),
    ],
    passes: &[1, 8, 64],
    published: PublishedCase {
        index_bits: &[20, 22],
        records: 1 << 12,
        repetitions: Repetitions { min: 3, max: 5, budget: Duration::from_secs(20) },
    },
    cuts: &[Cut { size: MB_256, shards: 2 }, Cut { size: GB_8, shards: 8 }],
};

const QUICK: Case = Case {
    preset: Preset::N11,
    sizes: &[MB_16],
    repetitions: Repetitions { min: 1, max: 3, budget: Duration::from_secs(4) },
    loads: &[
        Load { tables: TableKind::Transformed, mode: Mode::Packed, clients: &[1, 8], queries: 16 },
        Load { tables: TableKind::Dense, mode: Mode::Packed, clients: &[1, 8], queries: 16 },
    ],
    dense: &[(TableKind::Dense, MB_16)],
    passes: &[1, 8],
    published: PublishedCase { index_bits: &[20], records: 1 << 9, repetitions: Repetitions::exactly(1) },
    cuts: &[Cut { size: MB_16, shards: 2 }],
};

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let case = if harness.options.quick { QUICK } else { FULL };
    run_case(harness, &case)
}

fn run_case(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    let parameters = case.preset.build()?;
    if let Some(&smallest) = case.sizes.first().filter(|_| harness.includes(UPDATES)) {
        harness.progress(format!("a database of {} on disk", smallest.name));
        updates::run(harness, smallest, case.preset)?;
    }
    if let Some(&smallest) = case.sizes.first().filter(|_| harness.includes(SERVICE)) {
        service::run(harness, case, smallest)?;
    }
    if harness.includes(PUBLISHED) {
        published::run(harness, case.published, &parameters)?;
    }
    if harness.includes(SEALED) {
        harness.progress("sealed records");
        sealed::run(harness)?;
    }
    let dense = harness.includes(DENSE);
    for &of in case.dense.iter().filter(|_| dense) {
        dense::run(harness, case, of, &parameters)?;
    }
    let shards = harness.includes(SHARDS);
    for &cut in case.cuts.iter().filter(|_| shards) {
        shards::run(harness, cut, &parameters)?;
    }
    let in_memory = harness.includes(ANSWERS) || harness.includes(ROWS);
    for &size in case.sizes.iter().filter(|_| in_memory) {
        run_size(harness, case, size, &parameters)?;
    }
    harness.peak_memory("the largest table and the keys of all modes");
    Ok(())
}

fn run_size(harness: &mut Harness<'_>, case: &Case, size: Size, parameters: &PirParameters) -> anyhow::Result<()> {
    harness.progress(format!("a table of {}", size.name));
    let table = Table::build(parameters, size.bytes)?;
    if harness.includes(ROWS) {
        rows::run(harness, size, &table)?;
    }
    if harness.includes(ANSWERS) {
        let largest = case.sizes.last().is_some_and(|last| last.bytes == size.bytes);
        answers::run(harness, case.repetitions, size, table, largest)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::test_rows;
    use crate::{Row, Suite};

    fn tiny_run() -> Vec<Row> {
        let sizes = &[
            Size { name: "128 KB", bytes: 128 << 10, respire: None },
            Size { name: "1 MB", bytes: 1 << 20, respire: None },
        ];
        let repetitions = Repetitions::exactly(2);
        const CLIENTS: &[usize] = &[1, 8];
        let load = |tables| Load { tables, mode: Mode::Packed, clients: CLIENTS, queries: 8 };
        let loads = Vec::leak(vec![load(TableKind::Transformed), load(TableKind::Dense)]);
        let passes = &[1, 3];
        let kinds = |&size| [(TableKind::Dense, size), (TableKind::Wide, size)];
        let dense = Vec::leak(sizes.iter().flat_map(kinds).collect());
        let published = PublishedCase { index_bits: &[8], records: 64, repetitions: Repetitions::exactly(1) };
        let size = Size { name: "8 MB", bytes: 8 << 20, respire: None };
        let cuts = Vec::leak(vec![Cut { size, shards: 2 }]);
        let case = Case { preset: Preset::InsecureN11, sizes, repetitions, loads, dense, passes, published, cuts };
        test_rows(Suite::Pir, |harness| run_case(harness, &case))
    }

    #[test]
    fn every_mode_is_measured_phase_by_phase() {
        let rows = tiny_run();
        let find = |metric: &str, case: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.case == case);
            row.unwrap_or_else(|| panic!("no {metric} of {case}"))
        };
        for mode in ["compact", "bits", "packed"] {
            let case = format!("1 MB, {mode}");
            let total = find("answer_time", &case).ours;
            let phases: f64 = PHASES.iter().map(|(_, metric)| find(metric.name, &case).ours).sum();
            assert!((0.5..1.5).contains(&(phases / total)), "{case}: phases {phases}, all {total}");
            // Medians of two repetitions of many small products: at most three times the prediction.
            let noise = find("noise_over_prediction", &case).ours;
            assert!(noise > 0.05 && noise < 3.0, "{case}: {noise}");
            assert_eq!(find("response_bytes", &case).ours, find("response_bytes", "1 MB, packed").ours);
            let projected = find("projected_time", &format!("8 GB, {mode}"));
            assert!(projected.ours > total && projected.baseline.is_none());
        }
        assert_eq!(find("query_bytes", "1 MB, compact").ours, 36.0);
        assert_eq!(find("query_bytes", "1 MB, session").ours, 8.0, "a number and a body");
        assert!(find("key_bytes", "compact").ours > find("key_bytes", "packed").ours);
        for case in ["1 MB, 1 query", "1 MB, 3 queries", "1 MB, wide, 1 query"] {
            let (all, rate) = (find("dense_pass_time", case), find("dense_rate", case));
            let phases: f64 = ["rows", "packing", "expansion", "selection"]
                .iter()
                .map(|phase| find(&format!("dense_{phase}_time"), case).ours)
                .sum();
            assert!((0.5..1.5).contains(&(phases / all.ours)), "{case}: phases {phases}, all {}", all.ours);
            assert!(all.baseline.is_some() && rate.ours > 0.0);
        }
        assert_eq!(find("response_bytes", "1 MB, dense").ours, 2048.0 * 17.0 / 8.0 + 256.0 * 12.0 / 8.0);
        let (all, slowest) = (find("all_shards_time", "8 MB, 2 shards"), find("slowest_shard_time", "8 MB, 2 shards"));
        assert!(all.ours >= slowest.ours && slowest.ours > 0.0 && all.baseline.is_some());
        assert_eq!(find("partial_response_bytes", "8 MB, 2 shards").ours, 2.0 * 2048.0 * 52.0 / 8.0);
        for batch in [1, 100] {
            assert!(find("update_rate", &format!("128 KB, {batch} in a commit")).ours > 1.0);
        }
        for (tables, clients) in [("transformed", 1), ("transformed", 8), ("dense", 1), ("dense", 8)] {
            let case = format!("128 KB, {tables}, packed, {clients} at a time");
            assert!(find("queries_per_second", &case).ours > 0.1 && find("latency", &case).ours > 0.0);
            assert_eq!(find("latency", &case).params["queries"], 8);
        }
        let expansion = find("index_expansion_time", "8 bits");
        let phases: f64 = ["digits", "bits", "conversion"]
            .iter()
            .map(|phase| find(&format!("published_{phase}_time"), "8 bits").ours)
            .sum();
        assert!((0.5..1.5).contains(&(phases / expansion.baseline.unwrap())), "published: phases {phases}");
        let rotations = find("blind_rotations", "8 bits, the published decomposition alone");
        assert_eq!((rotations.ours, rotations.baseline), (4.0, Some(6.0)), "two digits, one of which needs a floor");
        for metric in ["record_selectors_time", "record_rows_time", "record_selection_time"] {
            assert!(find(metric, "64 records of 1536 bytes").baseline.is_some());
        }
        let noise = find("noise_over_prediction", "64 records of 1536 bytes, published").ours;
        assert!((0.5..1.5).contains(&noise), "published selectors: {noise}");
        assert!(find("transciphered_expansion_time", "8 bits, 1 block").baseline.is_some());
        for metric in ["build_time", "open_time", "refresh_time", "compaction_time"] {
            assert!(find(metric, "128 KB").ours > 0.0);
        }
        for (case, names) in [("1 name", 1.0), ("16 names", 16.0), ("256 names", 256.0)] {
            assert_eq!(find("unseal_request_bytes", case).ours, 32.0 * names + 32.0);
            assert_eq!(find("unseal_answer_bytes", case).ours, 32.0 * names + 96.0);
            assert!(find("unseal_evaluations_per_second", case).ours > 10.0);
            for metric in ["unseal_blind_time", "unseal_evaluate_time", "unseal_finalize_time"] {
                assert!(find(metric, case).ours > 0.0);
            }
        }
        for metric in ["seal_time", "open_time"] {
            assert!(find(metric, "a record of 256 bytes").ours > 0.0);
        }
        assert_eq!(find("sealed_record_bytes_added", "a record of 256 bytes").ours, 44.0);
        assert!(find("table_per_byte", "128 KB").ours > 16.0);
        assert_eq!(find("memory_per_byte", "1 MB").ours, 16.0);
        let sums: Vec<&Row> = rows.iter().filter(|row| row.metric == "row_sums").collect();
        let backends = unspoken_ring::Backend::ALL.iter().filter(|backend| backend.is_available()).count();
        assert_eq!(sums.len(), 2 * (backends - 1), "each backend but the portable one, at both sizes");
        assert!(sums.iter().all(|row| row.ours > 0.0 && row.baseline.is_some()));
    }
}
