//! Choice of a layout: blocks, groups, and the blocks that a question asks.

use unspoken_pir_scheme::PirParameters;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, ScoreShape};
use unspoken_pir_scheme::dense::{Packing, RowsQuery};

use crate::directory::MAX_ASKED;
use crate::error::IndexError;

/// Part of the room for documents that is used, at most: clusters of different sizes need room.
const FILLED: f64 = 0.85;

/// Part of all blocks that a question asks, as long as no recall was measured. Real and synthetic collections of 10,000
/// to a million documents needed 0.3 to 0.67 for a recall of 0.95.
const ASKED: f64 = 0.4;

/// Most rows that are tried: a query has 3.5 bytes for each.
const MAX_ROWS: usize = 1 << 16;

/// Seconds of one core for each byte of the table: of a pass, and of each query in it. Fitted to 11 passes of
/// `unspoken-bench search --only planner` on a core without AVX-512, within 5 %.
const PASS_SECONDS: f64 = 0.4e-10;
const QUERY_SECONDS: f64 = 0.37e-10;

/// Seconds of one core for each group of a pass, for packing a group for a query, and for each query; as above.
const GROUP_SECONDS: f64 = 2.0e-3;
const PACKING_SECONDS: f64 = 1.0e-3;
const WORDS_SECONDS: f64 = 1e-4;

/// What a layout is chosen for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Documents.
    pub documents: usize,
    /// Coordinates of a vector.
    pub width: usize,
    /// Bytes that arrive in a second, in each direction.
    pub link: f64,
    /// Cores of the service.
    pub cores: f64,
    /// Bytes of memory for the table and its packings, at most.
    pub memory: u64,
}

/// A layout, and what a question costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Blocks of rows, one above the other.
    pub blocks: usize,
    /// Groups of columns, one beside the other: clusters of a block.
    pub groups: usize,
    /// Blocks that a question asks.
    pub asked: usize,
    /// Bytes of memory of the table and its packings.
    pub memory_bytes: u64,
    /// Bytes of a question.
    pub query_bytes: u64,
    /// Bytes of its answer.
    pub answer_bytes: u64,
    /// Predicted seconds of one core for an answer.
    pub core_seconds: f64,
    /// Predicted seconds from question to answer.
    pub seconds: f64,
}

impl Plan {
    /// The costs of a layout.
    pub fn new(parameters: &PirParameters, wish: &Wish, [blocks, groups, asked]: [usize; 3]) -> Self {
        let rows = blocks * wish.width;
        let table = (rows * groups * parameters.ring().degree()) as u64;
        let query_bytes = (asked * RowsQuery::byte_len(parameters, rows)) as u64;
        let answer_bytes = (asked * groups * ScoreResponse::byte_len(parameters)) as u64;
        let core_seconds = table as f64 * (PASS_SECONDS + QUERY_SECONDS * asked as f64)
            + groups as f64 * (GROUP_SECONDS + PACKING_SECONDS * asked as f64)
            + WORDS_SECONDS * asked as f64;
        let seconds = (query_bytes + answer_bytes) as f64 / wish.link + core_seconds / wish.cores;
        let memory_bytes = table + (groups * Packing::memory_bytes(parameters)) as u64;
        Plan { blocks, groups, asked, memory_bytes, query_bytes, answer_bytes, core_seconds, seconds }
    }

    /// All layouts that are worth a thought, the fastest first.
    ///
    /// # Errors
    /// If there are no documents, or none fits the memory.
    pub fn all(parameters: &PirParameters, wish: &Wish) -> Result<Vec<Plan>, IndexError> {
        if wish.documents == 0 || wish.width == 0 {
            return Err(IndexError::Empty);
        }
        let clusters = Self::clusters(parameters, wish.documents);
        let most_blocks = (MAX_ROWS / wish.width).max(1);
        let plan = |groups: usize| {
            let blocks = clusters.div_ceil(groups);
            let asked = (blocks as f64 * ASKED).ceil() as usize;
            Plan::new(parameters, wish, [blocks, groups, asked.min(MAX_ASKED)])
        };
        let groups = clusters.div_ceil(most_blocks)..=clusters.min(ScoreShape::MAX_GROUPS);
        let mut plans: Vec<Plan> = groups.map(plan).collect();
        let least = plans.iter().map(|plan| plan.memory_bytes).min();
        plans.retain(|plan| plan.memory_bytes <= wish.memory);
        plans.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        if plans.is_empty() {
            let needed = least.map_or("fewer documents, or shorter vectors".to_owned(), |least| {
                format!("{} MiB for the smallest layout", least >> 20)
            });
            return Err(IndexError::Plan { found: format!("{} MiB of memory", wish.memory >> 20), needed });
        }
        Ok(plans)
    }

    /// Number of clusters for a number of documents.
    pub fn clusters(parameters: &PirParameters, documents: usize) -> usize {
        let room = ScoreShape::cluster_documents(parameters);
        match documents <= room {
            true => 1,
            false => (documents as f64 / (FILLED * room as f64)).ceil() as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use unspoken_pir_scheme::Preset;

    use super::*;

    fn wish(documents: usize, width: usize) -> Wish {
        Wish { documents, width, link: 1e7, cores: 2.0, memory: 8 << 30 }
    }

    #[test]
    fn plans_have_room_for_all_documents_and_the_first_is_the_fastest() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let room = ScoreShape::cluster_documents(&parameters);
        for (documents, width) in [(1, 1), (2047, 384), (2048, 384), (1_000_000, 384), (10_000_000, 64)] {
            let plans = Plan::all(&parameters, &wish(documents, width)).unwrap();
            assert!(plans.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
            for plan in plans {
                assert!(plan.blocks * plan.groups * room >= documents, "{plan:?}");
                assert!((1..=plan.blocks.min(MAX_ASKED)).contains(&plan.asked), "{plan:?}");
                assert!(plan.blocks == 1 || plan.blocks * width <= MAX_ROWS, "{plan:?}");
            }
        }
    }

    #[test]
    fn too_little_memory_is_refused_with_the_least_that_is_needed() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let wish = wish(1_000_000, 384);
        let least = Plan::all(&parameters, &wish).unwrap().iter().map(|plan| plan.memory_bytes).min().unwrap();
        assert!(Plan::all(&parameters, &Wish { memory: least, ..wish }).is_ok());
        let refused = Plan::all(&parameters, &Wish { memory: least - 1, ..wish }).unwrap_err().to_string();
        assert!(refused.contains(&format!("{} MiB for the smallest layout", least >> 20)), "{refused}");
        assert!(matches!(Plan::all(&parameters, &Wish { documents: 0, ..wish }), Err(IndexError::Empty)));
    }
}
