//! Memory that waits for use.

use std::collections::BTreeMap;

use crate::kernel::Address;

/// Memory that waits for use, by its bytes.
#[derive(Default)]
pub(crate) struct Idle {
    addresses: BTreeMap<usize, Vec<Address>>,
    bytes: usize,
    /// Number of buffers that will return here.
    pub(crate) in_use: usize,
}

impl Idle {
    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds memory of `bytes` bytes.
    pub(crate) fn add(&mut self, address: Address, bytes: usize) {
        self.bytes += bytes;
        self.addresses.entry(bytes).or_default().push(address);
    }

    /// The shortest memory of at least `bytes` and at most twice `bytes` bytes, because a circuit goes down through its
    /// levels. With its length.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<(Address, usize)> {
        let (&bytes, _) = self.addresses.range(bytes..=2 * bytes).next()?;
        self.take_of(bytes)
    }

    /// The shortest memory of at least `bytes` bytes, or the longest if all are shorter. With its length.
    pub(crate) fn take_to_release(&mut self, bytes: usize) -> Option<(Address, usize)> {
        let (&bytes, _) = self.addresses.range(bytes..).next().or_else(|| self.addresses.last_key_value())?;
        self.take_of(bytes)
    }

    fn take_of(&mut self, bytes: usize) -> Option<(Address, usize)> {
        let addresses = self.addresses.get_mut(&bytes)?;
        let address = addresses.pop();
        if addresses.is_empty() {
            self.addresses.remove(&bytes);
        }
        self.bytes -= bytes;
        address.map(|address| (address, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_for_half_its_length_and_released_without_waste() {
        let mut idle = Idle::default();
        for (address, bytes) in [(1, 256), (2, 1024), (3, 1024), (4, 8192)] {
            idle.add(address, bytes);
        }
        assert_eq!((idle.take(512), idle.take(768)), (Some((3, 1024)), Some((2, 1024))));
        assert_eq!((idle.take(512), idle.bytes()), (None, 8448));
        assert_eq!(idle.take_to_release(256), Some((1, 256)));
        // The longest, where all are too short.
        idle.add(5, 512);
        assert_eq!(idle.take_to_release(1 << 20), Some((4, 8192)));
        assert_eq!((idle.take_to_release(1), idle.take_to_release(1), idle.bytes()), (Some((5, 512)), None, 0));
    }
}
