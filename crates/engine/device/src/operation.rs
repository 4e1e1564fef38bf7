//! Operations: as long as one runs, the addresses of copies that it uses stay valid.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::device::Buffer;

thread_local! {
    /// What the operations of this thread use.
    static HELD: RefCell<HeldBuffers> = const { RefCell::new(HeldBuffers { operations: 0, buffers: Vec::new() }) };
}

/// What the operations of a thread use.
struct HeldBuffers {
    /// Operations that have not ended.
    operations: usize,
    buffers: Vec<Arc<Buffer>>,
}

/// An operation of this thread: addresses of copies that it uses stay valid until it ends. One that begins later is a
/// part of it.
#[must_use]
#[derive(Debug)]
pub struct Operation {
    /// Operations of the thread when it had begun.
    depth: usize,
    /// Buffers of the operations that it is a part of.
    before: usize,
    /// It ends on the thread where it began.
    _thread: PhantomData<*const ()>,
}

impl Operation {
    /// Begins an operation.
    pub fn begin() -> Self {
        HELD.with_borrow_mut(|held| {
            held.operations += 1;
            Operation { depth: held.operations, before: held.buffers.len(), _thread: PhantomData }
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let ended = HELD.with_borrow_mut(|held| {
            let is_last_begun = held.operations == self.depth;
            debug_assert!(is_last_begun, "an operation ends before a part of it");
            held.operations -= 1;
            let first = match held.operations {
                0 => 0,
                // Its parts go on, and need what they use.
                _ if !is_last_begun => held.buffers.len(),
                _ => self.before,
            };
            held.buffers.split_off(first)
        });
        // Dropped buffers may be the last of a device, which has buffers of its own.
        drop(ended);
    }
}

/// Holds a buffer until the operation of this thread ends.
pub(crate) fn hold(buffer: &Arc<Buffer>) {
    HELD.with_borrow_mut(|held| {
        debug_assert!(held.operations > 0, "the address of a copy that no operation holds");
        if held.operations > 0 {
            held.buffers.push(Arc::clone(buffer));
        }
    });
}
