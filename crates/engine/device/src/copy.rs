//! Copies of what the memory of this process has.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytemuck::NoUninit;

use crate::device::{Buffer, Device};
use crate::error::DeviceError;
use crate::operation;

/// A copy on a device of items that the memory of this process has: keys, tables, mapped files. It is made at its first
/// use. A device that needs room gives back the least recently used copies. A copy is made again at its next use.
#[derive(Default)]
pub struct DeviceCopy(Mutex<Option<Arc<Slot>>>);

/// The place of a copy. The device knows all of its places.
pub(crate) struct Slot {
    device: Device,
    number: u64,
    buffer: Mutex<Option<Arc<Buffer>>>,
    /// When it was last used.
    used: AtomicU64,
}

impl DeviceCopy {
    /// The copy, which is made if it is not there. Its address may be used until the end of the operation
    /// ([`Operation`](crate::Operation)) of this thread.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    pub fn on<T: NoUninit>(&self, device: &Device, items: &[T]) -> Result<Arc<Buffer>, DeviceError> {
        self.on_with(device, |device| device.upload(items))
    }

    /// As [`DeviceCopy::on`], of what a function copies.
    ///
    /// # Errors
    /// The errors of the function.
    pub fn on_with(
        &self,
        device: &Device,
        upload: impl FnOnce(&Device) -> Result<Buffer, DeviceError>,
    ) -> Result<Arc<Buffer>, DeviceError> {
        let slot = self.slot(device);
        let mut buffer = slot.buffer();
        slot.used.store(device.tick(), Ordering::Relaxed);
        let there = match &*buffer {
            Some(there) => Arc::clone(there),
            None => Arc::clone(buffer.insert(Arc::new(upload(device)?))),
        };
        operation::hold(&there);
        device.note_use(&there);
        Ok(there)
    }

    /// The copy, which belongs to the caller from now on.
    ///
    /// # Errors
    /// As for [`DeviceCopy::on`].
    pub fn take<T: NoUninit>(&mut self, device: &Device, items: &[T]) -> Result<Buffer, DeviceError> {
        let slot = self.slot(device);
        let there = slot.buffer().take();
        match there.and_then(|there| Arc::try_unwrap(there).ok()) {
            Some(buffer) => Ok(buffer),
            None => device.upload(items),
        }
    }

    /// The place on this device; another device had the copy before, if any had.
    fn slot(&self, device: &Device) -> Arc<Slot> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(slot) if slot.device.is_same(device) => Arc::clone(slot),
            _ => Arc::clone(slot.insert(device.new_slot())),
        }
    }
}

impl std::fmt::Debug for DeviceCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceCopy").finish_non_exhaustive()
    }
}

impl Slot {
    fn buffer(&self) -> MutexGuard<'_, Option<Arc<Buffer>>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it was last used, if it has a copy.
    fn last_use(&self) -> Option<u64> {
        // A copy that is being made is in use.
        let buffer = self.buffer.try_lock().ok()?;
        buffer.as_ref().map(|_| self.used.load(Ordering::Relaxed))
    }

    /// The copy, if nobody uses it.
    fn take_unused(&self) -> Option<Buffer> {
        // Who wants to use it waits for this lock.
        let mut buffer = self.buffer.try_lock().ok()?;
        buffer.take_if(|buffer| Arc::strong_count(buffer) == 1).and_then(Arc::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.device.forget_slot(self.number);
    }
}

/// All places of copies on a device.
#[derive(Default)]
pub(crate) struct Slots {
    by_number: BTreeMap<u64, Weak<Slot>>,
    made: u64,
}

impl Slots {
    /// A new place.
    pub(crate) fn add(&mut self, device: Device) -> Arc<Slot> {
        let number = self.made;
        self.made += 1;
        let slot = Arc::new(Slot { device, number, buffer: Mutex::default(), used: AtomicU64::new(0) });
        self.by_number.insert(number, Arc::downgrade(&slot));
        slot
    }

    pub(crate) fn forget(&mut self, number: u64) {
        self.by_number.remove(&number);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.by_number.values().filter_map(Weak::upgrade).collect()
    }
}

/// Gives back copies that nobody uses, the least recently used first, until they amount to `needed` bytes. Returns
/// their bytes.
pub(crate) fn give_back(slots: &[Arc<Slot>], needed: usize) -> usize {
    let mut by_use: Vec<(u64, &Arc<Slot>)> = slots.iter().filter_map(|slot| Some((slot.last_use()?, slot))).collect();
    by_use.sort_by_key(|(used, _)| *used);
    let mut bytes = 0;
    for (_, slot) in by_use {
        if bytes >= needed {
            break;
        }
        if let Some(buffer) = slot.take_unused() {
            bytes += buffer.bytes();
            buffer.evict();
        }
    }
    bytes
}
