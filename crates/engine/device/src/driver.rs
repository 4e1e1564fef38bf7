//! What a driver of a device does.

#![expect(unsafe_code, reason = "addresses of a device's memory")]

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::error::DeviceError;
use crate::kernel::Address;

/// A device and its queue. Everything that is asked of it happens in the order of the calls.
///
/// # Safety
/// An address from [`Driver::allocate`] is that of memory of its own until it is freed, and [`Driver::read`] returns
/// after all that was queued before.
pub unsafe trait Driver: Send + Sync {
    /// The device by name, such as `cuda:0`.
    fn name(&self) -> String;

    /// What the device is, for people.
    fn model(&self) -> String;

    /// Bytes of memory: free ones, and all.
    ///
    /// # Errors
    /// If the device failed.
    fn memory(&self) -> Result<(u64, u64), DeviceError>;

    /// Takes memory, aligned to 256 bytes, with unspecified contents.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    fn allocate(&self, bytes: usize) -> Result<Address, DeviceError>;

    /// Gives memory back, once all that was queued before is done.
    ///
    /// # Safety
    /// The address is from [`Driver::allocate`] with the same bytes and was not freed.
    unsafe fn free(&self, address: Address, bytes: usize);

    /// Copies to the device. The bytes are not needed after the call.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The device has as many bytes there.
    unsafe fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Waits for everything that is queued, and copies from the device.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The device has as many bytes there.
    unsafe fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies on the device.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The device has as many bytes at both places, which do not overlap.
    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DeviceError>;

    /// Fills memory with zeros.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The device has as many bytes there.
    unsafe fn clear(&self, at: Address, bytes: usize) -> Result<(), DeviceError>;

    /// Queues a kernel, by its number in [`NAMES`](crate::NAMES), with so many blocks in each direction.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and all that they point to is on the device, large enough and not used
    /// for anything else until the kernel is done.
    unsafe fn launch(&self, kernel: usize, blocks: [u32; 3], arguments: NonNull<c_void>) -> Result<(), DeviceError>;
}
