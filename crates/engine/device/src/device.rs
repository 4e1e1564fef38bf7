//! A device with its memory.

#![expect(unsafe_code, reason = "addresses of a device's memory")]

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytemuck::{NoUninit, cast_slice, cast_slice_mut};

use crate::driver::Driver;
use crate::error::DeviceError;
use crate::kernel::{Address, Kernel, NAMES};
use crate::work::{Arguments, Work};

/// Buffers are of multiples of so many bytes.
const GRAIN: usize = 256;

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

/// A device. Cheap to clone.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    driver: Box<dyn Driver>,
    idle: Mutex<Idle>,
    /// For each kernel how often it was queued, with how many blocks, and its multiplications and bytes.
    launches: [[AtomicU64; 4]; NAMES.len()],
    /// Bytes that were copied to the device, and from it.
    copied: [AtomicU64; 2],
    failure: OnceLock<DeviceError>,
}

impl Inner {
    /// Notes the first failure.
    fn noted<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if let Err(error @ DeviceError::Failed { .. }) = &result {
            self.failure.get_or_init(|| error.clone());
        }
        result
    }
}

/// Buffers that are in no use, by their bytes.
#[derive(Default)]
struct Idle {
    buffers: BTreeMap<usize, Vec<Address>>,
    bytes: usize,
    /// Bytes that were taken from the device, idle ones included.
    taken: usize,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Device").field(&self.0.driver.name()).finish()
    }
}

impl Device {
    /// The device of a driver.
    pub fn new(driver: impl Driver + 'static) -> Self {
        let launches = [const { [const { AtomicU64::new(0) }; 4] }; NAMES.len()];
        Device(Arc::new(Inner {
            driver: Box::new(driver),
            idle: Mutex::default(),
            launches,
            copied: Default::default(),
            failure: OnceLock::new(),
        }))
    }

    /// Whether it is the same as another one, with the same memory.
    pub fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its name, such as `cuda:0`.
    pub fn name(&self) -> String {
        self.0.driver.name()
    }

    /// What it is, for people.
    pub fn model(&self) -> String {
        self.0.driver.model()
    }

    /// Its first failure, if it has failed. What it computes afterwards fails, too, until the process starts again.
    pub fn failure(&self) -> Option<&DeviceError> {
        self.0.failure.get()
    }

    /// Bytes of its memory: free ones, and all.
    ///
    /// # Errors
    /// If the device failed.
    pub fn memory(&self) -> Result<(u64, u64), DeviceError> {
        self.0.noted(self.0.driver.memory())
    }

    /// Bytes of its memory that this process has taken: those in use, and those that wait for use.
    pub fn taken_bytes(&self) -> (usize, usize) {
        let idle = self.idle();
        (idle.taken - idle.bytes, idle.bytes)
    }

    /// What was queued of each kernel so far, in the order of [`NAMES`].
    pub fn launches(&self) -> [Launches; NAMES.len()] {
        self.0.launches.each_ref().map(|counts| {
            let [launches, blocks, multiplications, bytes] =
                counts.each_ref().map(|count| count.load(Ordering::Relaxed));
            Launches { launches, blocks, work: Work { multiplications, bytes } }
        })
    }

    /// Bytes that were copied to the device so far, and from it.
    pub fn copied_bytes(&self) -> [u64; 2] {
        self.0.copied.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for so many words, with unspecified contents.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    pub fn buffer(&self, words: usize) -> Result<Buffer, DeviceError> {
        let bytes = (words.max(1) * size_of::<u32>()).next_multiple_of(GRAIN);
        let whole = |address| Buffer { device: self.clone(), address, bytes, words };
        if let Some(address) = self.idle().take(bytes) {
            return Ok(whole(address));
        }
        let allocated = self.0.driver.allocate(bytes).or_else(|error| match error {
            // What waits for use may be enough.
            DeviceError::Memory { .. } => {
                self.release_idle();
                self.0.driver.allocate(bytes)
            }
            error => Err(error),
        });
        let address = self.0.noted(allocated)?;
        self.idle().taken += bytes;
        Ok(whole(address))
    }

    /// Memory with these words.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    pub fn upload<T: NoUninit>(&self, items: &[T]) -> Result<Buffer, DeviceError> {
        let buffer = self.buffer(size_of_val(items).div_ceil(size_of::<u32>()))?;
        self.0.copied[0].fetch_add(size_of_val(items) as u64, Ordering::Relaxed);
        // SAFETY: the buffer has as many bytes.
        self.0.noted(unsafe { self.0.driver.write(buffer.address, cast_slice(items)) })?;
        Ok(buffer)
    }

    /// Gives memory that waits for use back to the device.
    pub fn release_idle(&self) {
        let buffers = {
            let mut idle = self.idle();
            idle.taken -= idle.bytes;
            idle.bytes = 0;
            std::mem::take(&mut idle.buffers)
        };
        for (bytes, addresses) in buffers {
            for address in addresses {
                // SAFETY: it was allocated with these bytes, and no buffer has it.
                unsafe { self.0.driver.free(address, bytes) };
            }
        }
    }

    /// Queues a kernel with so many blocks in each direction.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// What the arguments point to is memory of this device, large enough for what the kernel reads and writes there,
    /// and buffers that are not dropped before the call.
    pub unsafe fn launch<A: Arguments>(
        &self,
        kernel: Kernel<A>,
        blocks: [usize; 3],
        arguments: &A,
    ) -> Result<(), DeviceError> {
        debug_assert!(blocks[1].max(blocks[2]) < 1 << 16, "{blocks:?}");
        if blocks.contains(&0) {
            return Ok(());
        }
        let work = arguments.work(kernel.number(), blocks);
        let counts = [1, blocks.iter().product::<usize>() as u64, work.multiplications, work.bytes];
        for (counter, count) in self.0.launches[kernel.number()].iter().zip(counts) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        let blocks = blocks.map(|count| count as u32);
        let arguments = NonNull::from(arguments).cast();
        // SAFETY: the arguments are of the kernel's type; the rest is the caller's.
        self.0.noted(unsafe { self.0.driver.launch(kernel.number(), blocks, arguments) })
    }
}

impl Idle {
    fn take(&mut self, bytes: usize) -> Option<Address> {
        let addresses = self.buffers.get_mut(&bytes)?;
        let address = addresses.pop()?;
        if addresses.is_empty() {
            self.buffers.remove(&bytes);
        }
        self.bytes -= bytes;
        Some(address)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (bytes, addresses) in std::mem::take(&mut idle.buffers) {
            for address in addresses {
                // SAFETY: it was allocated with these bytes, and no buffer has it.
                unsafe { self.driver.free(address, bytes) };
            }
        }
    }
}

/// Memory of a device. Dropped, it waits for the next that needs as much.
pub struct Buffer {
    device: Device,
    address: Address,
    bytes: usize,
    words: usize,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("device", &self.device).field("words", &self.words).finish_non_exhaustive()
    }
}

impl Buffer {
    /// Where it begins.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The address of a word.
    pub fn at(&self, word: usize) -> Address {
        self.address + (word * size_of::<u32>()) as u64
    }

    /// Its length in words.
    pub fn len(&self) -> usize {
        self.words
    }

    /// Whether it has no words.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Copies words from it, from word `at` on.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Panics
    /// If it is too short.
    pub fn read(&self, at: usize, words: &mut [u32]) -> Result<(), DeviceError> {
        assert!(at + words.len() <= self.words, "{} words at {at} of {}", words.len(), self.words);
        self.device.0.copied[1].fetch_add(size_of_val(words) as u64, Ordering::Relaxed);
        // SAFETY: the buffer has as many bytes.
        self.device.0.noted(unsafe { self.device.0.driver.read(self.at(at), cast_slice_mut(words)) })
    }

    /// Fills it with zeros.
    ///
    /// # Errors
    /// If the device failed.
    pub fn clear(&mut self) -> Result<(), DeviceError> {
        // SAFETY: the buffer has as many bytes.
        self.device.0.noted(unsafe { self.device.0.driver.clear(self.address, self.bytes) })
    }

    /// A copy on the same device.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    pub fn duplicate(&self) -> Result<Buffer, DeviceError> {
        let copy = self.device.buffer(self.words)?;
        // SAFETY: both have as many bytes, and are different buffers.
        self.device.0.noted(unsafe { self.device.0.driver.copy(self.address, copy.address, self.bytes) })?;
        Ok(copy)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = self.device.idle();
        idle.bytes += self.bytes;
        idle.buffers.entry(self.bytes).or_default().push(self.address);
    }
}
