//! Scores of a collection of vectors: inner products with an encrypted vector, for search by meaning.
//!
//! A column of a dense table is one document. The rows are cut into *blocks*, one row for each coordinate of a vector,
//! so a group of columns has in each block the vectors of as many documents as it has columns, a *cluster*. A query has
//! the coordinates of its vector in the rows of one block and zero elsewhere, encrypted as the unit vector of a
//! retrieval query is; the service cannot tell the blocks apart. The packed sums of a group are the inner products with
//! all documents of the cluster, and the service returns those of all groups. Nothing selects, so the service needs no
//! keys of the client beside those in the query.
//!
//! Clients that search the clusters nearest to their vector, without showing which, do what Tiptoe does (Henzinger et
//! al., SOSP 2023). Here a client needs no hint: the masks are packed at the service.
//!
//! Scores have an error, as approximate arithmetic has: [`ScoreShape::deviation`] predicts it. The last column of each
//! cluster is no document: all its coordinates are one public number, so a client knows its score, and finds out that a
//! response was computed from another query, or under other masks.

mod answer;
mod client;
mod response;
mod shape;
#[cfg(test)]
mod tests;

pub use answer::{answer, answer_memory_bytes};
pub use response::ScoreResponse;
pub use shape::ScoreShape;
