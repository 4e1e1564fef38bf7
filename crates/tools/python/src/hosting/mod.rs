//! Server halves without a service, and a service whose applications run elsewhere: what `unspoken.ray` schedules.

mod application;
mod client;
mod disk;
mod elsewhere;
mod gateway;
mod helpers;
mod host;
mod outcome;
mod shard;

pub(crate) use application::{LoadedKeys, LocalApplication, Work};
pub(crate) use gateway::ServiceGateway;
