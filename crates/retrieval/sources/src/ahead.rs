//! Reading ahead in a thread, for readers that push records and so cannot be iterators.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::error::SourceError;
use crate::record::Record;

/// Limits of a batch of records that is read ahead: number of records, and bytes.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of batches read ahead.
const BATCHES: usize = 2;

type Batch = Vec<Result<Record, SourceError>>;

/// The records that `read` passes to its argument. `read` runs in a thread. When its argument returns `false`, the
/// iterator was dropped, and `read` should end soon.
pub(crate) fn read_ahead(
    read: impl FnOnce(&mut dyn FnMut(Record) -> bool) -> Result<(), SourceError> + Send + 'static,
) -> impl Iterator<Item = Result<Record, SourceError>> + Send {
    let (sender, receiver) = sync_channel(BATCHES);
    thread::spawn(move || send(read, &sender));
    receiver.into_iter().flatten()
}

fn send(read: impl FnOnce(&mut dyn FnMut(Record) -> bool) -> Result<(), SourceError>, sender: &SyncSender<Batch>) {
    let mut batch = Batch::new();
    let mut bytes = 0;
    let outcome = read(&mut |record| {
        bytes += record.key.as_ref().map_or(0, Vec::len) + record.value.len();
        batch.push(Ok(record));
        if batch.len() < BATCH && bytes < BATCH_BYTES {
            return true;
        }
        bytes = 0;
        sender.send(std::mem::take(&mut batch)).is_ok()
    });
    batch.extend(outcome.err().map(Err));
    // Ignore a dropped receiver.
    sender.send(batch).ok();
}
