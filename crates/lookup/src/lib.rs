#![doc = include_str!("../README.md")]

mod error;
mod lookup;
mod plan;
mod planner;
mod powers;
mod table;

pub use error::LookupError;
pub use lookup::{Generated, Lookup, indicator};
pub use plan::{OutputForm, Plan, QueryForm};
pub use planner::{Estimate, Explanation, Task, best_plan, estimate, estimates};
pub use table::{Expansion, Table, alpha};
