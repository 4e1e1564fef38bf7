//! Numbers of session queries, which the caller stores.

#![expect(unsafe_code, reason = "calls of the caller's functions")]

use std::ffi::{c_int, c_void};
use std::io;

use unspoken_protocol::DurableCounters;

/// Bytes of the name of a counter.
const NAME_BYTES: usize = 16;

/// Functions that store the numbers of session queries.
///
/// A number that is used twice reveals the difference of two questions. So a stored number must be on disk when a
/// function returns, and must never be restored from a copy; if that cannot be ruled out, use compact queries. The
/// functions are called on the thread that calls the function of the client, and return 0, or another number after a
/// failure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UnspokenPirCounters {
    /// Passed to both functions. It must be valid as long as the client, on each thread that uses the client.
    pub context: *mut c_void,
    /// Stores 0 as the next number of the counter with this name of 16 bytes, which is new.
    pub start: Option<unsafe extern "C" fn(context: *mut c_void, name: *const u8) -> c_int>,
    /// Writes the next number of the counter to `first`, and stores that number plus `count`, before it returns. It
    /// fails if there is no such counter, since it was lost then, or if the sum is 2^32 or more. Two processes that
    /// share a secret must not take the same number: lock what is stored.
    pub take: Option<unsafe extern "C" fn(context: *mut c_void, name: *const u8, count: u32, first: *mut u32) -> c_int>,
}

// SAFETY: the functions are called only by calls on a client, one at a time, since the client is locked meanwhile. The
// documentation of `context` requires that it is valid on each thread that makes such calls.
unsafe impl Send for UnspokenPirCounters {}
// SAFETY: as above.
unsafe impl Sync for UnspokenPirCounters {}

impl DurableCounters for UnspokenPirCounters {
    fn start(&self, name: &[u8; NAME_BYTES]) -> io::Result<()> {
        let start = self.start.ok_or_else(missing)?;
        // SAFETY: the caller's function reads the 16 bytes of the name, and the context is valid as long as the client.
        stored(unsafe { start(self.context, name.as_ptr()) })
    }

    fn take(&self, name: &[u8; NAME_BYTES], count: u32) -> io::Result<u32> {
        let take = self.take.ok_or_else(missing)?;
        let mut first = u32::MAX;
        // SAFETY: as in `start`; it writes one number to `first`.
        stored(unsafe { take(self.context, name.as_ptr(), count, &mut first) })?;
        match first.checked_add(count) {
            Some(_) => Ok(first),
            None => Err(io::Error::other("all numbers are used; open another client with a new secret")),
        }
    }
}

fn stored(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        found => Err(io::Error::other(format!("the callback returned {found}, needed 0; see why it failed"))),
    }
}

fn missing() -> io::Error {
    io::Error::other("found no functions that store them; pass counters, or use another kind of queries")
}
