//! Tests of the service over HTTP on 127.0.0.1, with an application that replaces the cryptography, and once with the
//! cryptography.

/// The allocator of the `unspoken` command: a test measures the memory of the process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Freed memory goes back to the system at once. jemalloc reads its options from this symbol.
#[expect(unsafe_code, reason = "a symbol by the name that jemalloc looks for, of the type that it expects")]
// SAFETY: jemalloc's own definition of the symbol is weak, and there is no other. It is a pointer to a string with a 0
// at its end.
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: &[u8; 34] = b"dirty_decay_ms:0,muzzy_decay_ms:0\0";

mod access;
mod connections;
mod crash;
mod crowd;
mod disk;
mod embedding;
mod json;
mod limits;
mod openapi;
mod operations;
mod origins;
mod page;
mod peak;
mod process;
mod progress;
mod readiness;
mod room;
mod starting;
mod support;
mod upload;
