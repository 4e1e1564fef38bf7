//! A simulated disk that fails at a chosen call.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::device::{Device, IDENTITY_BYTES};
use super::state::STATE_BYTES;
use super::tests::shape;

const SECTOR: usize = 512;

/// The SplitMix64 generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Kinds of crashes, which differ in the surviving part of writes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Crash {
    /// The process dies; all its writes are in the system's cache.
    Killed,
    /// The power fails: a random subset of the sectors written since the last sync is on the disk, and the others are
    /// unchanged.
    PowerLost,
}

pub(super) struct Disk {
    pub(super) files: [Contents; 2],
    /// Calls until the crash.
    pub(super) left: u64,
    pub(super) calls: u64,
    random: Random,
    locked: bool,
    /// The next sync fails.
    pub(super) failing: bool,
}

pub(super) struct Contents {
    pub(super) cached: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors that the next sync would write. After a failed sync the system treats them as written.
    dirty: Vec<bool>,
}

impl Contents {
    fn new(bytes: u64) -> Self {
        let zeros = vec![0; bytes as usize];
        Contents { cached: zeros.clone(), durable: zeros, dirty: vec![false; (bytes as usize).div_ceil(SECTOR)] }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.cached[offset..][..bytes.len()].copy_from_slice(bytes);
        let sectors = offset / SECTOR..(offset + bytes.len()).div_ceil(SECTOR);
        self.dirty[sectors].fill(true);
    }

    /// Writes the chosen dirty sectors to the disk and marks all sectors clean.
    fn settle(&mut self, mut chosen: impl FnMut() -> bool) {
        let sectors = self.cached.chunks(SECTOR).zip(self.durable.chunks_mut(SECTOR));
        for ((cached, durable), dirty) in sectors.zip(&mut self.dirty) {
            if std::mem::take(dirty) && chosen() {
                durable.copy_from_slice(cached);
            }
        }
    }
}

impl Disk {
    pub(super) fn new(seed: u64) -> Rc<RefCell<Disk>> {
        let files = [Contents::new(shape().file_bytes()), Contents::new(STATE_BYTES)];
        let random = Random(seed);
        Rc::new(RefCell::new(Disk { files, left: u64::MAX, calls: 0, random, locked: false, failing: false }))
    }

    pub(super) fn crash(&mut self, crash: Crash) {
        self.locked = false;
        if crash == Crash::PowerLost {
            for file in &mut self.files {
                file.settle(|| self.random.below(2) == 0);
                file.cached.copy_from_slice(&file.durable);
            }
        }
    }

    /// Counts a call. Returns an error from the crash on.
    fn step(&mut self) -> io::Result<()> {
        self.calls += 1;
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("crashed"))?;
        Ok(())
    }
}

#[derive(Clone)]
pub(super) struct Simulated(pub(super) Rc<RefCell<Disk>>, pub(super) usize);

impl Device for Simulated {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.borrow().files[self.1].cached.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        assert!(disk.locked || offset == 0, "a read without the lock");
        bytes.copy_from_slice(&disk.files[self.1].cached[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        assert!(disk.locked, "a write without the lock");
        let step = disk.step();
        // The write that the crash interrupts is cut at a random byte.
        let written = if step.is_ok() {
            bytes.len()
        } else if disk.left == 0 {
            disk.random.below(bytes.len() + 1)
        } else {
            0
        };
        disk.files[self.1].write(offset as usize, &bytes[..written]);
        step
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        let fails = std::mem::take(&mut disk.failing);
        disk.files[self.1].settle(|| !fails);
        if fails { Err(io::Error::other("a sync that failed")) } else { Ok(()) }
    }

    fn lock(&self) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        assert!(!disk.locked, "locked twice");
        disk.locked = true;
        Ok(())
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.borrow_mut().locked = false;
        Ok(())
    }

    fn identity(&self) -> io::Result<[u8; IDENTITY_BYTES]> {
        Ok([self.1 as u8; IDENTITY_BYTES])
    }
}
