//! A device that computes nothing. What was queued can be counted, for rings of any degree.

#![expect(unsafe_code, reason = "a driver")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use unspoken_device::{Address, Device, DeviceError, Driver};

/// Bytes of its memory, of which none exist.
const MEMORY: u64 = 1 << 46;

/// The device. All that is read from it is zero.
pub fn device() -> Device {
    // Address 0 is none.
    Device::new(Counting { next: AtomicU64::new(1 << 8) })
}

struct Counting {
    next: AtomicU64,
}

// SAFETY: no address is ever read or written, and no two are the same.
unsafe impl Driver for Counting {
    fn name(&self) -> String {
        "counting".into()
    }

    fn model(&self) -> String {
        "computes nothing".into()
    }

    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        Ok((MEMORY, MEMORY))
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DeviceError> {
        Ok(self.next.fetch_add((bytes as u64).next_multiple_of(1 << 8), Ordering::Relaxed))
    }

    unsafe fn free(&self, _: Address, _: usize) {}

    unsafe fn write(&self, _: Address, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn read(&self, _: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        bytes.fill(0);
        Ok(())
    }

    unsafe fn copy(&self, _: Address, _: Address, _: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn clear(&self, _: Address, _: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn launch(&self, _: usize, _: [u32; 3], _: NonNull<c_void>) -> Result<(), DeviceError> {
        Ok(())
    }
}
