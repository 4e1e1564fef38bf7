#![doc = include_str!("../README.md")]

mod boundary;
mod client;
mod counters;
mod failure;
mod pir;
mod pointers;
mod search;
mod status;
