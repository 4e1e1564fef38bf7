//! Values that JavaScript reads and writes.

use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

use crate::failure::Failure;

/// A value that JavaScript wrote.
pub(crate) fn parsed<T: for<'de> Deserialize<'de>>(what: &'static str, value: JsValue) -> Result<T, JsValue> {
    serde_wasm_bindgen::from_value(value).map_err(|error| {
        let needed = "the form that the types of this package describe".into();
        Failure::Argument { what, found: error.to_string(), needed }.into()
    })
}

/// A value for JavaScript.
pub(crate) fn written<T: Serialize>(value: &T) -> Result<JsValue, JsValue> {
    Ok(serde_wasm_bindgen::to_value(value)?)
}
