#![doc = include_str!("../README.md")]

mod arithmetic;
mod circuit;
mod place;
mod plan;
mod record;

pub use arithmetic::{Function, Shape, TensorArithmetic};
pub use circuit::{Circuit, Session};
pub use place::{Place, Quantity};
pub use plan::{
    Deeper, Degrees, Floor, KeyUse, Machine, MemoryPlan, PartPlan, PassPlan, Phase, Plan, PlanError, PlanRequest, Row,
    SHAPES, Share, Totals, plan, preset_for_scale, published,
};
pub use record::{Node, Operation, RecordedCache, Recorder};
