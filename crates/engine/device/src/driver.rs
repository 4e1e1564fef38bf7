//! What a driver of a device does.

#![expect(unsafe_code, reason = "addresses of a device's memory")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::error::DeviceError;
use crate::kernel::Address;

/// A device and its queue. Everything that is asked of it happens in the order of the calls.
///
/// # Safety
/// An address from [`Driver::allocate`] is the address of memory that nothing else has until the address is freed.
/// [`Driver::read`] returns after everything that was queued before it.
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
    /// The device's memory there is at least as long.
    unsafe fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Waits for everything that is queued, and copies from the device.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The device's memory there is at least as long.
    unsafe fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies on the device.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The device's memory at both places is at least as long, and the places do not overlap.
    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DeviceError>;

    /// Fills memory with zeros.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The device's memory there is at least as long.
    unsafe fn clear(&self, at: Address, bytes: usize) -> Result<(), DeviceError>;

    /// Queues a kernel, by its number in [`NAMES`](crate::NAMES), with `blocks` blocks in each direction.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// The arguments fit the kernel. All memory that they point to is on the device, large enough, and not used for
    /// anything else until the kernel is done.
    unsafe fn launch(&self, kernel: usize, blocks: [u32; 3], arguments: NonNull<c_void>) -> Result<(), DeviceError>;

    /// Makes a graph of steps, which happen in their order whenever it is launched. By itself a driver queues them one
    /// by one.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// As for each step on its own, whenever the graph is launched.
    unsafe fn graph(&self, steps: Vec<Step>) -> Result<Box<dyn Graph>, DeviceError> {
        Ok(Box::new(Steps(steps)))
    }
}

/// Steps that a driver queues as one. It is launched on the driver that made it.
pub trait Graph: Send {
    /// Queues all steps.
    ///
    /// # Errors
    /// If the device failed.
    fn launch(&self, driver: &dyn Driver) -> Result<(), DeviceError>;
}

struct Steps(Vec<Step>);

impl Graph for Steps {
    fn launch(&self, driver: &dyn Driver) -> Result<(), DeviceError> {
        // SAFETY: who made the graph said so of every launch.
        self.0.iter().try_for_each(|step| unsafe { step.queue(driver) })
    }
}

/// What a [`Driver`] queues.
pub enum Step {
    /// [`Driver::launch`].
    Launch {
        /// The number of the kernel.
        kernel: usize,
        /// Blocks in each direction.
        blocks: [u32; 3],
        /// Its arguments, aligned to 8 bytes.
        arguments: Box<[MaybeUninit<u64>]>,
    },
    /// [`Driver::copy`].
    Copy {
        /// Where the bytes are.
        from: Address,
        /// Where they go.
        to: Address,
        /// How many.
        bytes: usize,
    },
    /// [`Driver::clear`].
    Clear {
        /// Where they are.
        at: Address,
        /// How many.
        bytes: usize,
    },
}

impl Step {
    /// Queues it.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// As for the driver's function.
    pub unsafe fn queue(&self, driver: &dyn Driver) -> Result<(), DeviceError> {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Step::Launch { kernel, blocks, arguments } => {
                    driver.launch(*kernel, *blocks, NonNull::from(&**arguments).cast())
                }
                &Step::Copy { from, to, bytes } => driver.copy(from, to, bytes),
                &Step::Clear { at, bytes } => driver.clear(at, bytes),
            }
        }
    }
}
