//! The known answers of `vectors/`, which clients in other languages read too: a stored secret opens a client half, the
//! stored answer decrypts to the stored numbers, and a server half answers the stored query and a new one.
//!
//! `UNSPOKEN_WRITE_VECTORS=1 cargo test --release -p unspoken-client --test vectors` writes the files, with new secrets
//! and ciphertexts.

mod arrays;
mod case;
mod classify;
mod digits;
mod embed;
mod layer;
mod llama;
mod model;
mod retrieve;
mod search;
mod sums;
mod unseal;
