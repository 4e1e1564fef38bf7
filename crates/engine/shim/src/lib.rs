#![doc = include_str!("../README.md")]
#![expect(unsafe_code, reason = "calls kernels, and owns memory by its address")]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unspoken_device::{Address, Device, DeviceError, Driver};

unsafe extern "C" {
    safe fn unspoken_kernel_count() -> u64;
    fn unspoken_kernel_name(number: u64) -> *const c_char;
    fn unspoken_kernel_argument_bytes(number: u64) -> u64;
    fn unspoken_kernel_run(number: u64, x: u32, y: u32, z: u32, arguments: *const c_void);
}

/// Contents of new memory.
const PATTERN: u8 = 0xa5;
const ALIGNMENT: usize = 256;

/// A device that is the processor, with at most `most_bytes` bytes of memory.
pub fn device(most_bytes: usize) -> Device {
    failing_device(most_bytes, u64::MAX)
}

/// As [`device`], but it fails for good after `kernels` kernels were queued.
pub fn failing_device(most_bytes: usize, kernels: u64) -> Device {
    switched_device(most_bytes, &Arc::new(AtomicU64::new(kernels)))
}

/// As [`failing_device`], with a count of the kernels that are left, which others may change.
pub fn switched_device(most_bytes: usize, kernels_left: &Arc<AtomicU64>) -> Device {
    Device::new(Shim { most_bytes, taken: Mutex::default(), kernels_left: Arc::clone(kernels_left) })
}

/// The names of the kernels, and the bytes of their arguments, as the compiler of C++ sees them.
pub fn kernels() -> Vec<(String, usize)> {
    let kernel = |number| {
        // SAFETY: the number is below the count, and names are texts of the program.
        unsafe {
            let name = CStr::from_ptr(unspoken_kernel_name(number)).to_string_lossy().into_owned();
            (name, unspoken_kernel_argument_bytes(number) as usize)
        }
    };
    (0..unspoken_kernel_count()).map(kernel).collect()
}

struct Shim {
    most_bytes: usize,
    /// Bytes by address.
    taken: Mutex<BTreeMap<Address, usize>>,
    /// Kernels until it fails.
    kernels_left: Arc<AtomicU64>,
}

impl Shim {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<Address, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, what: &'static str, reason: String) -> DeviceError {
        DeviceError::Failed { device: self.name(), what, reason }
    }

    /// Refuses places that are not wholly in one allocation.
    fn check(&self, what: &'static str, at: Address, bytes: usize) -> Result<(), DeviceError> {
        let taken = self.taken();
        let within =
            taken.range(..=at).next_back().is_some_and(|(&start, &len)| at - start + bytes as u64 <= len as u64);
        if within { Ok(()) } else { Err(self.failed(what, format!("{bytes} bytes at {at:#x}, which nobody has"))) }
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGNMENT).expect("a size of memory")
}

// SAFETY: memory belongs to the allocator until it is freed, and calls return when their work is done.
unsafe impl Driver for Shim {
    fn name(&self) -> String {
        "shim".into()
    }

    fn model(&self) -> String {
        "the processor, for tests".into()
    }

    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        let used: usize = self.taken().values().sum();
        Ok(((self.most_bytes - used) as u64, self.most_bytes as u64))
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DeviceError> {
        let (free, _) = self.memory()?;
        if bytes as u64 > free {
            return Err(DeviceError::Memory { device: self.name(), free, needed: bytes as u64 });
        }
        // SAFETY: the layout has a size.
        let pointer = unsafe { alloc(layout(bytes.max(1))) };
        let pointer = NonNull::new(pointer).ok_or_else(|| self.failed("allocate", "no memory".into()))?;
        // SAFETY: the memory has `bytes` bytes.
        unsafe { pointer.as_ptr().write_bytes(PATTERN, bytes) };
        let address = pointer.as_ptr().expose_provenance() as Address;
        self.taken().insert(address, bytes);
        Ok(address)
    }

    unsafe fn free(&self, address: Address, bytes: usize) {
        assert_eq!(self.taken().remove(&address), Some(bytes), "memory that was allocated");
        // SAFETY: it was allocated with this layout, and not freed.
        unsafe { dealloc(pointer(address), layout(bytes.max(1))) };
    }

    unsafe fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check("write", to, bytes.len())?;
        // SAFETY: the place has room for all bytes.
        unsafe { pointer(to).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.check("read", from, bytes.len())?;
        // SAFETY: the place has room for all bytes.
        unsafe { pointer(from).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DeviceError> {
        self.check("copy", from, bytes)?;
        self.check("copy", to, bytes)?;
        // SAFETY: both places have room for all bytes, and do not overlap.
        unsafe { pointer(to).copy_from_nonoverlapping(pointer(from), bytes) };
        Ok(())
    }

    unsafe fn clear(&self, at: Address, bytes: usize) -> Result<(), DeviceError> {
        self.check("clear", at, bytes)?;
        // SAFETY: the place has room for all bytes.
        unsafe { pointer(at).write_bytes(0, bytes) };
        Ok(())
    }

    unsafe fn launch(&self, kernel: usize, [x, y, z]: [u32; 3], arguments: NonNull<c_void>) -> Result<(), DeviceError> {
        if kernel as u64 >= unspoken_kernel_count() {
            return Err(self.failed("launch", format!("no kernel {kernel}")));
        }
        let count = |left: u64| left.checked_sub(1);
        if self.kernels_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_err() {
            return Err(self.failed("launch", "the device is lost".into()));
        }
        // SAFETY: the kernel exists; its arguments are the caller's.
        unsafe { unspoken_kernel_run(kernel as u64, x, y, z, arguments.as_ptr()) };
        Ok(())
    }
}

fn pointer(address: Address) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

#[cfg(test)]
mod tests {
    use unspoken_device::kernel::{ARGUMENT_BYTES, NAMES};

    use super::*;

    #[test]
    fn both_languages_have_the_same_kernels_and_arguments() {
        let own: Vec<(String, usize)> =
            NAMES.iter().zip(ARGUMENT_BYTES).map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        assert_eq!(kernels(), own);
    }

    #[test]
    fn memory_is_bounded_and_recycled() {
        let device = device(1 << 16);
        let first = device.buffer(1 << 10).unwrap();
        let address = first.address();
        assert!(matches!(device.buffer(1 << 14), Err(DeviceError::Memory { needed: 65536, free: 61440, .. })));
        drop(first);
        assert_eq!(device.taken_bytes(), (0, 4096));
        // What waits is used again, or given back where it is in the way.
        let again = device.buffer(1 << 10).unwrap();
        assert_eq!(again.address(), address);
        drop(again);
        let all = device.buffer(1 << 14).unwrap();
        assert_eq!((device.taken_bytes(), device.memory().unwrap()), ((1 << 16, 0), (0, 1 << 16)));
        drop(all);
        let mut some = device.upload(&[1u32, 7, 3]).unwrap();
        let copy = some.duplicate().unwrap();
        some.clear().unwrap();
        let mut words = [0; 3];
        copy.read(0, &mut words).unwrap();
        assert_eq!(words, [1, 7, 3]);
        some.read(0, &mut words).unwrap();
        assert_eq!(words, [0; 3]);
    }
}
