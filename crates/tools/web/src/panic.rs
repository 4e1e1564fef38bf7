//! What a page learns of a panic. The module ends with a trap, without a text; memory that runs out does the same.

use std::panic;
use std::sync::{Mutex, PoisonError};

use wasm_bindgen::prelude::*;

/// Where the module panicked.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps where the module panics: the place in the source, not the text, which may contain data.
#[wasm_bindgen(start)]
pub fn keep_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(|| "an unknown place".into(), ToString::to_string);
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }));
}

/// Where the module panicked, after a call ended with a trap. Nothing, if it did not: then its memory ran out.
#[wasm_bindgen(js_name = panicPlace)]
pub fn panic_place() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
