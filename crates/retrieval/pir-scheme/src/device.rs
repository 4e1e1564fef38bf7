//! Work that a device or all threads do.

use rayon::prelude::*;
use unspoken_gsw::BinaryRing;
use unspoken_ring::Device;

/// Whether a ring computes on a device.
pub(crate) fn is_on_device(ring: &BinaryRing) -> bool {
    ring.device().is_some_and(Device::is_in_use)
}

/// Does work for each of some items: on all threads, or one after the other if it only queues kernels of a device.
pub(crate) fn each<T: Send, R: Send, E: Send>(
    ring: &BinaryRing,
    items: Vec<T>,
    work: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    match is_on_device(ring) {
        true => items.into_iter().map(work).collect(),
        false => items.into_par_iter().map(&work).collect(),
    }
}
