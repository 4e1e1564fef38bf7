//! The choice of an instruction set.

use std::sync::OnceLock;

use crate::error::RingError;
#[cfg(any(target_arch = "x86_64", target_arch = "wasm32"))]
use crate::kernels::simd;
use crate::kernels::{Kernels, portable};

/// The instruction set of the limb arithmetic. All backends return the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Plain loops, on any machine.
    Portable,
    /// 128-bit vectors of WebAssembly.
    Simd128,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors (F and BW).
    Avx512,
}

impl Backend {
    /// All backends, slowest first.
    pub const ALL: [Backend; 4] = [Backend::Portable, Backend::Simd128, Backend::Avx2, Backend::Avx512];

    /// The fastest backend that this machine can run, or the backend of [`Backend::set_default`].
    pub fn detect() -> Backend {
        let fastest = || Backend::ALL.into_iter().rev().find(|b| b.is_available()).unwrap_or(Backend::Portable);
        *DEFAULT.get_or_init(fastest)
    }

    /// Makes [`Backend::detect`] return this backend in this process, for programs that examine one backend. Call it
    /// before anything else of this crate.
    ///
    /// # Errors
    /// [`RingError::Backend`] if this machine cannot run it, [`RingError::BackendInUse`] if another one was detected or
    /// set before.
    pub fn set_default(self) -> Result<(), RingError> {
        self.kernels().ok_or(RingError::Backend { found: self.name() })?;
        let found = *DEFAULT.get_or_init(|| self);
        let same = found == self;
        if same { Ok(()) } else { Err(RingError::BackendInUse { found: found.name(), needed: self.name() }) }
    }

    /// Whether this machine can run the backend.
    pub fn is_available(self) -> bool {
        self.kernels().is_some()
    }

    /// `portable`, `simd128`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Portable => "portable",
            Backend::Simd128 => "simd128",
            Backend::Avx2 => "avx2",
            Backend::Avx512 => "avx512",
        }
    }

    /// The kernels, if this machine can run them.
    pub(crate) fn kernels(self) -> Option<&'static dyn Kernels> {
        match self {
            Backend::Portable => Some(&portable::Portable),
            #[cfg(target_arch = "wasm32")]
            Backend::Simd128 => simd::simd128(),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => simd::avx2(),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => simd::avx512(),
            _ => None,
        }
    }
}

/// The backend of this process, once it was detected or set.
static DEFAULT: OnceLock<Backend> = OnceLock::new();
