#![doc = include_str!("../README.md")]

mod device;
mod driver;
mod error;
pub mod kernel;
mod work;

pub use device::{Buffer, Device, Launches};
pub use driver::Driver;
pub use error::DeviceError;
pub use kernel::{Address, Kernel, NAMES};
pub use work::{Arguments, Work};

/// The sources of the kernels, by name.
pub const SOURCES: [(&str, &str); 10] = [
    ("arithmetic.h", include_str!("../kernels/arithmetic.h")),
    ("digits.h", include_str!("../kernels/digits.h")),
    ("elements.h", include_str!("../kernels/elements.h")),
    ("kernels.cu", include_str!("../kernels/kernels.cu")),
    ("list.h", include_str!("../kernels/list.h")),
    ("matrices.h", include_str!("../kernels/matrices.h")),
    ("ring.h", include_str!("../kernels/ring.h")),
    ("shim.h", include_str!("../kernels/shim.h")),
    ("switching.h", include_str!("../kernels/switching.h")),
    ("transform.h", include_str!("../kernels/transform.h")),
];
