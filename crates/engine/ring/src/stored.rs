//! Tables in the memory of this process, such as mapped files, of which a device has copies.

use bytemuck::NoUninit;
use unspoken_device::{Buffer, Device, DeviceCopy};

use std::fmt;
use std::sync::Arc;

use crate::error::RingError;

/// Items in the memory of this process, and their copy on a device.
pub struct Stored<'a, T> {
    /// The items.
    pub items: &'a [T],
    /// A copy of these items and no others.
    pub copy: &'a DeviceCopy,
}

impl<T> Clone for Stored<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Stored<'_, T> {}

impl<T> fmt::Debug for Stored<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("items", &self.items.len()).finish_non_exhaustive()
    }
}

impl<'a, T: NoUninit> Stored<'a, T> {
    /// The items with their copy.
    pub fn new(items: &'a [T], copy: &'a DeviceCopy) -> Self {
        Stored { items, copy }
    }

    /// The items on a device.
    pub(crate) fn on(self, device: &Device) -> Result<Arc<Buffer>, RingError> {
        Ok(self.copy.on(device, self.items)?)
    }
}
