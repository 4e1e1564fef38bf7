#![doc = include_str!("../README.md")]

mod activation;
mod affine;
mod approximate;
mod choose;
mod design;
mod diagonals;
mod encoding;
mod error;
mod fit;
mod function;
mod fuse;
mod gaps;
mod layout;
mod lower;
mod matrix;
mod network;
mod planner;
mod program;
mod ranges;
mod refit;
mod schedule;
mod simulation;

pub use choose::{Choice, Progress, Wishes, choose, choose_with};
pub use design::{Approximation, Design, MOST_INPUT, Options};
pub use encoding::Encoding;
pub use error::NetworkError;
pub use function::Function;
pub use layout::{Answer, Arrangement, Layout, Order, Port};
pub use lower::{MAX_TABLE_ROWS, table_rows};
pub use matrix::SparseMatrix;
pub use network::{Network, NetworkBuilder, Step, ValueId};
pub use program::{PlannedStep, Program};
pub use ranges::{Interval, Ranges};
pub use refit::Refit;
pub use simulation::Simulation;
