#![doc = include_str!("../README.md")]

mod boundary;
mod client;
mod counters;
mod failure;
mod model;
mod pir;
mod pointers;
mod search;
mod status;
