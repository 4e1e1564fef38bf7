//! Tests of the service over HTTP on 127.0.0.1, with an application that replaces the cryptography, and once with the
//! cryptography.

/// The allocator of the `unspoken` command: a test measures the memory of the process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod access;
mod connections;
mod crash;
mod crowd;
mod disk;
mod embedding;
mod limits;
mod operations;
mod peak;
mod process;
mod readiness;
mod room;
mod support;
mod upload;
