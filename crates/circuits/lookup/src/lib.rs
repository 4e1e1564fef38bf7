#![doc = include_str!("../README.md")]

mod budget;
mod cosine;
mod error;
mod giant;
mod indicator;
mod lookup;
mod plan;
mod planner;
mod powers;
mod program;
mod strided;
mod table;

pub use budget::{Budget, Spread, spectral_norm};
pub use cosine::cosine;
pub use error::LookupError;
pub use indicator::indicator;
pub use lookup::{Generated, Lookup};
pub use plan::{IndexEncoding, OutputForm, Plan};
pub use planner::{Estimate, Explanation, Task, best_plan, estimate, estimates};
pub use powers::query_scale;
pub use strided::{StridedLookup, StridedPlan, StridedTables};
pub use table::{Expansion, Table, alpha, padded_columns};
