//! What a device was given to do so far.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::kernel::NAMES;
use crate::work::Work;

/// What was queued of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    /// How often.
    pub launches: u64,
    /// With how many blocks.
    pub blocks: u64,
    /// What it costs.
    pub work: Work,
}

impl Launches {
    pub(crate) fn add(&mut self, other: &Launches) {
        self.launches += other.launches;
        self.blocks += other.blocks;
        self.work.multiplications += other.work.multiplications;
        self.work.bytes += other.work.bytes;
    }
}

/// Counts of all kernels and copies.
pub(crate) struct Counters {
    /// For each kernel how often it was queued, with how many blocks, and its multiplications and bytes.
    launches: [[AtomicU64; 4]; NAMES.len()],
    /// Bytes that were copied to the device, and from it.
    copied: [AtomicU64; 2],
}

impl Default for Counters {
    fn default() -> Self {
        let launches = [const { [const { AtomicU64::new(0) }; 4] }; NAMES.len()];
        Counters { launches, copied: Default::default() }
    }
}

impl Counters {
    /// What was queued of each kernel so far, in the order of [`NAMES`].
    pub(crate) fn launches(&self) -> [Launches; NAMES.len()] {
        self.launches.each_ref().map(|counts| {
            let [launches, blocks, multiplications, bytes] =
                counts.each_ref().map(|count| count.load(Ordering::Relaxed));
            Launches { launches, blocks, work: Work { multiplications, bytes } }
        })
    }

    /// Bytes that were copied to the device so far, and from it.
    pub(crate) fn copied_bytes(&self) -> [u64; 2] {
        self.copied.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }

    /// Counts launches of the kernel with this number.
    pub(crate) fn count(&self, kernel: usize, launches: &Launches) {
        let Launches { launches, blocks, work } = *launches;
        let counts = [launches, blocks, work.multiplications, work.bytes];
        for (counter, count) in self.launches[kernel].iter().zip(counts) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counts bytes that are copied to the device.
    pub(crate) fn count_written(&self, bytes: usize) {
        self.copied[0].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that are copied from the device.
    pub(crate) fn count_read(&self, bytes: usize) {
        self.copied[1].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
