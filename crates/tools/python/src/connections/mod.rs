//! Connections to applications of a service: one class for all, and the conversion of the questions and answers of
//! each.

mod application;
mod client;
mod connection;
mod place;

pub(crate) use self::client::{Answers, Client, Part};
pub(crate) use self::connection::Connection;
pub(crate) use self::place::{Place, Service};
