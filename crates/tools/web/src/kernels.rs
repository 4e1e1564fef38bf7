//! Which kernels the module computes with.

use unspoken_ring::Backend;
use wasm_bindgen::prelude::*;

use crate::failure::Failure;

/// The kernels of the ring's arithmetic.
#[wasm_bindgen]
pub struct Kernels;

#[wasm_bindgen]
impl Kernels {
    /// Names of the kernels of this module, slowest first.
    pub fn names() -> Vec<String> {
        let available = Backend::ALL.into_iter().filter(|backend| backend.is_available());
        available.map(|backend| backend.name().to_owned()).collect()
    }

    /// Makes all clients of this module compute with these kernels. All kernels return the same bits; the fastest are
    /// the default. Call it before anything else.
    ///
    /// # Errors
    /// If the module has no such kernels, or computes with others already.
    pub fn choose(name: &str) -> Result<(), JsValue> {
        let backend = Backend::ALL.into_iter().find(|backend| backend.name() == name && backend.is_available());
        let needed = Self::names().join(" or ");
        let refuse = |found: String| Failure::Argument { what: "kernels", found, needed: needed.clone() };
        let backend = backend.ok_or_else(|| refuse(format!("{name:?}")))?;
        Ok(backend.set_default().map_err(|error| refuse(error.to_string()))?)
    }
}
