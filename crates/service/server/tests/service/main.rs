//! Tests of the service over HTTP on 127.0.0.1, with an application that replaces the cryptography, and once with the
//! cryptography.

mod access;
mod connections;
mod crash;
mod crowd;
mod disk;
mod embedding;
mod limits;
mod operations;
mod room;
mod support;
mod upload;
