//! Crash tests: a log of all changes of the file system, and a model of a file system that loses changes that were not
//! made durable.
//!
//! The log records every change of the file system (the replacement of the manifest as the steps that the README of
//! `crates/base/files` lists). The tests end the sequence at every step in four ways: as it is, in the middle of a
//! write, without content that was not synced, and without names that were not synced either. Then they open the
//! remaining files.

mod model;
mod tests;

use std::path::PathBuf;
use std::sync::Mutex;

/// A change of the file system.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Create(PathBuf),
    CreateDir(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    SetLen(PathBuf, u64),
    Sync(PathBuf),
    SyncDir(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// Log of all changes, in order.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Vec<Step>>);

impl Log {
    pub fn push(&self, step: Step) {
        self.0.lock().unwrap().push(step);
    }

    pub fn steps(&self) -> Vec<Step> {
        self.0.lock().unwrap().clone()
    }
}
