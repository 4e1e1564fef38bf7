//! Vector kernels.

use super::Kernels;

/// The AVX2 kernels, if this machine has AVX2.
pub(crate) fn avx2() -> Option<&'static dyn Kernels> {
    None
}

/// The AVX-512 kernels, if this machine has AVX-512 F and BW.
pub(crate) fn avx512() -> Option<&'static dyn Kernels> {
    None
}
