//! Copies of what the memory of this process has.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::NoUninit;

use crate::device::{Buffer, Device, Slot};
use crate::error::DeviceError;
use crate::operation;

/// A copy on a device of items that the memory of this process has: keys, tables, mapped files. It is made at its first
/// use. A device that needs room gives back the least recently used copies. A copy is made again at its next use.
#[derive(Default)]
pub struct DeviceCopy(Mutex<Option<Arc<Slot>>>);

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
