#![doc = include_str!("../README.md")]

mod copy;
mod counters;
mod device;
mod driver;
mod error;
mod health;
mod idle;
pub mod kernel;
mod operation;
mod recorded;
mod recorder;
mod recording;
mod work;

pub use copy::DeviceCopy;
pub use counters::Launches;
pub use device::{Buffer, Device, MAX_BLOCKS};
pub use driver::{Driver, Graph, Step};
pub use error::DeviceError;
pub use kernel::{Address, Kernel, NAMES};
pub use operation::Operation;
pub use recording::Recording;
pub use work::{Arguments, Work};

/// The sources of the kernels, by name.
pub const SOURCES: [(&str, &str); 13] = [
    ("arithmetic.h", include_str!("../kernels/arithmetic.h")),
    ("batches.h", include_str!("../kernels/batches.h")),
    ("ceiling.h", include_str!("../kernels/ceiling.h")),
    ("digits.h", include_str!("../kernels/digits.h")),
    ("elements.h", include_str!("../kernels/elements.h")),
    ("kernels.cu", include_str!("../kernels/kernels.cu")),
    ("list.h", include_str!("../kernels/list.h")),
    ("matrices.h", include_str!("../kernels/matrices.h")),
    ("ring.h", include_str!("../kernels/ring.h")),
    ("shim.h", include_str!("../kernels/shim.h")),
    ("switching.h", include_str!("../kernels/switching.h")),
    ("tables.h", include_str!("../kernels/tables.h")),
    ("transform.h", include_str!("../kernels/transform.h")),
];
