#![doc = include_str!("../README.md")]

mod baby_giant;
mod compiler;
mod cosine;
mod cosine_program;
mod encoder;
mod error;
mod error_bound;
mod indicator;
mod lookup;
mod output_unit;
mod plan;
mod planner;
mod powers;
mod precision;
mod program;
mod simulation;
mod strided;
mod table;

pub use cosine::cosine;
pub use encoder::{IndexEncoder, index_or};
pub use error::LookupError;
pub use error_bound::{ErrorBound, TableSummary, spectral_norm};
pub use indicator::indicator;
pub use lookup::{Generated, Lookup};
pub use output_unit::{MORE_LEVELS, at_lowest_level, output_unit};
pub use plan::{IndexEncoding, LookupPlan, OutputForm};
pub use planner::{Estimate, Explanation, LookupTask, best_plan, estimate, estimates};
pub use powers::query_scale;
pub use precision::Precision;
pub use simulation::{simulated_outputs, varied_index};
pub use strided::{StridedLookup, StridedPlan};
pub use table::{Expansion, Table, alpha, padded_columns, torus};
