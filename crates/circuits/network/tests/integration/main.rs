//! Encrypted networks, compared with the networks in the clear and with simulations.

#[path = "../common/mod.rs"]
mod common;

mod bootstraps;
mod choices;
mod layouts;
mod lowered;
mod polynomials;
mod refits;
