#![doc = include_str!("../README.md")]

mod boundary;
mod client;
mod counters;
mod failure;
mod status;
