//! Memory for request bodies. It is reserved as their bytes arrive, not when they are declared.
//!
//! Memory is reserved in steps of 64 KiB; if none is free, the body waits. One body at a time may use a reserve with
//! room for the largest body, so that half bodies never wait only for each other.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::budget::{Budget, Reservation};

/// Bytes that are reserved at once.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;

/// The memory that all bodies share. If it is full, arriving bodies wait. One body at a time may use a reserve that has
/// room for the largest body, so that half-arrived bodies never wait only for each other.
pub(crate) struct BodyMemory {
    shared: Arc<Budget>,
    reserve: Arc<Budget>,
    turn: Arc<Mutex<()>>,
}

/// The memory of one body.
pub(crate) struct ArrivingMemory {
    pool: Arc<BodyMemory>,
    shared: Reservation,
    /// Given up after the reservation.
    reserve: Option<(Reservation, OwnedMutexGuard<()>)>,
}

impl BodyMemory {
    /// A pool of `total` bytes, at least `largest`, the bytes of the largest body.
    pub(crate) fn new(total: u64, largest: u64) -> Arc<Self> {
        let shared = Budget::new(total.saturating_sub(largest));
        Arc::new(Self { shared, reserve: Budget::new(largest), turn: Arc::default() })
    }

    /// Memory for one body, none yet.
    pub(crate) fn arriving(self: &Arc<Self>) -> ArrivingMemory {
        ArrivingMemory { pool: self.clone(), shared: self.shared.empty(), reserve: None }
    }

    /// Bytes in use and bytes in total.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let budgets = [&self.shared, &self.reserve];
        (budgets.map(|budget| budget.in_use()).iter().sum(), budgets.map(|budget| budget.limit()).iter().sum())
    }
}

impl ArrivingMemory {
    /// Waits until memory is reserved for `bytes` bytes of a body of at most `longest` bytes. Reserves in steps of
    /// [`CHUNK_BYTES`]. No body is longer than the pool's largest.
    pub(crate) async fn cover(&mut self, bytes: u64, longest: u64) {
        let needed = bytes.next_multiple_of(CHUNK_BYTES).min(longest.max(bytes));
        let turn = self.pool.turn.clone().lock_owned();
        tokio::pin!(turn);
        loop {
            let covered = self.shared.bytes() + self.reserve.as_ref().map_or(0, |(reserve, _)| reserve.bytes());
            let missing = needed.saturating_sub(covered);
            if missing == 0 {
                return;
            }
            if let Some((reserve, _)) = &mut self.reserve {
                // One body has the reserve for itself, and no body is longer: this cannot fail.
                let _ = reserve.grow(missing);
                return;
            }
            let freed = self.pool.shared.freed();
            if self.shared.grow(missing).is_ok() {
                return;
            }
            tokio::select! {
                () = freed => {}
                turn = &mut turn => self.reserve = Some((self.pool.reserve.empty(), turn)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn memory_is_reserved_as_bytes_arrive() {
        let pool = BodyMemory::new(4 << 20, 1 << 20);
        let mut body = pool.arriving();
        assert_eq!(pool.usage(), (0, 4 << 20));
        for (bytes, reserved) in [(1, CHUNK_BYTES), (CHUNK_BYTES, CHUNK_BYTES), (CHUNK_BYTES + 1, 100_000)] {
            body.cover(bytes, 100_000).await;
            assert_eq!(pool.usage().0, reserved, "{bytes}");
        }
        let mut small = pool.arriving();
        small.cover(4, 36).await;
        assert_eq!(pool.usage().0, 100_036);
        drop((body, small));
        assert_eq!(pool.usage().0, 0);
    }

    /// Bodies that fill the memory in part all arrive, one after the other.
    #[tokio::test]
    async fn bodies_do_not_wait_for_each_other_for_ever() {
        const LENGTH: u64 = 4 * CHUNK_BYTES;
        let pool = BodyMemory::new(2 * LENGTH, LENGTH);
        let bodies: Vec<_> = (0..12)
            .map(|_| {
                let mut body = pool.arriving();
                tokio::spawn(async move {
                    for arrived in 1..=4 {
                        body.cover(arrived * CHUNK_BYTES, LENGTH).await;
                        assert!(body.pool.usage().0 <= 2 * LENGTH);
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                })
            })
            .collect();
        for body in bodies {
            tokio::time::timeout(Duration::from_secs(10), body).await.expect("it waits for ever").unwrap();
        }
        assert_eq!(pool.usage().0, 0);
    }
}
