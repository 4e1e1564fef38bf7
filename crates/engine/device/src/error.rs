//! Errors of this crate.

/// Errors of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no such device, or no driver for it.
    #[error("open device {name}: {reason}")]
    Unavailable {
        /// The name that was asked for.
        name: String,
        /// What is missing, and what to do.
        reason: String,
    },
    /// The device has too little memory.
    #[error(
        "device {device}: found {free} bytes of free memory, needed {needed}: other answers have it, or this one needs \
         a larger device"
    )]
    Memory {
        /// The device.
        device: String,
        /// Free bytes.
        free: u64,
        /// Needed bytes.
        needed: u64,
    },
    /// The device failed: all that it was asked to compute since the last success is lost.
    #[error("device {device}: {what}: {reason}")]
    Failed {
        /// The device.
        device: String,
        /// What it was to do.
        what: &'static str,
        /// What the driver says.
        reason: String,
    },
    /// The device failed, and the processor computes in its place from now on. What the device alone had is lost.
    #[error("device {device} failed: {reason}; the processor computes from now on: ask again")]
    Replaced {
        /// The device.
        device: String,
        /// What it was to do, and what the driver says.
        reason: String,
    },
    /// A launch has too many blocks. Nothing was queued.
    #[error(
        "device {device}: kernel {kernel}: found {found:?} blocks, needed at most 65535 in the second and the third"
    )]
    Blocks {
        /// The device.
        device: String,
        /// The kernel.
        kernel: &'static str,
        /// Blocks in each direction.
        found: [usize; 3],
    },
    /// Work that is recorded reads what it computes.
    #[error("device {device}: found work that reads its results, needed work that can be repeated without")]
    Recording {
        /// The device.
        device: String,
    },
}
