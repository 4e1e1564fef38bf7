//! A ring in the memory of a device, and its use for one operation.

use std::sync::atomic::{AtomicU64, Ordering};

use unspoken_device::kernel::{self, Kernel};
use unspoken_device::{Arguments, Buffer, Device, Operation};

use super::tables::Caches;
use crate::basis::Basis;
use crate::error::RingError;
use crate::poly::Poly;

/// A ring in the memory of a device.
pub(crate) struct DeviceRing {
    pub(super) device: Device,
    /// The ring as kernels see it. Its tables are in the buffers.
    pub(super) ring: kernel::Ring,
    pub(super) _tables: [Buffer; 3],
    pub(super) caches: Caches,
    pub(super) fetched: AtomicU64,
}

impl DeviceRing {
    /// The device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// How many polynomials were fetched.
    pub(crate) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Notes that a polynomial is fetched.
    pub(crate) fn count_fetched(&self) {
        self.fetched.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn basis(&self, basis: Basis) -> kernel::Basis {
        kernel::Basis { chain: basis.chain as u32, own: (basis.chain + basis.terminal) as u32 }
    }

    /// A polynomial as kernels see it. It is copied to the device if it is not there.
    pub(super) fn limbs(&self, poly: &Poly) -> Result<kernel::Limbs, RingError> {
        Ok(kernel::Limbs { words: poly.words.on(&self.device)?.address(), basis: self.basis(poly.basis) })
    }

    /// A polynomial that is changed on the device.
    pub(super) fn limbs_to_change(&self, poly: &mut Poly) -> Result<kernel::Limbs, RingError> {
        let basis = self.basis(poly.basis);
        Ok(kernel::Limbs { words: poly.words.on_to_change(&self.device)?.address(), basis })
    }

    /// Queues a kernel.
    #[expect(unsafe_code, reason = "kernels get addresses")]
    pub(super) fn launch<A: Arguments>(
        &self,
        kernel: Kernel<A>,
        blocks: [usize; 3],
        arguments: &A,
    ) -> Result<(), RingError> {
        // SAFETY: the operations of `device` give buffers of this device that are as large as the shapes in the
        // arguments, and hold the buffers until the call.
        Ok(unsafe { self.device.launch(kernel, blocks, arguments) }?)
    }
}

/// A ring on a device, for one operation. The addresses that the operation gets are valid until it ends.
pub(crate) struct On<'a> {
    ring: &'a DeviceRing,
    _operation: Operation,
}

impl<'a> On<'a> {
    /// Begins an operation, if the device is in use.
    pub(crate) fn new(ring: &'a DeviceRing) -> Option<Self> {
        ring.device.is_in_use().then(|| On { ring, _operation: Operation::begin() })
    }
}

impl std::ops::Deref for On<'_> {
    type Target = DeviceRing;

    fn deref(&self) -> &DeviceRing {
        self.ring
    }
}
