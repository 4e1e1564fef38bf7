//! One field of a record, which is converted to bytes or to a part of a JSON object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A field from any kind of file.
#[derive(Clone)]
pub(crate) enum Field {
    /// No value: empty bytes, or `null`.
    Null,
    /// Text.
    Text(String),
    /// Bytes: unchanged, or base64 in JSON.
    Bytes(Vec<u8>),
    /// A number, a truth value, a list or an object: its JSON in both cases.
    Json(String),
}

impl Field {
    /// A number in its shortest form that reads back the same. JSON has no infinities: they become text.
    pub(crate) fn number(value: f64) -> Self {
        match serde_json::Number::from_f64(value) {
            Some(number) => Field::Json(number.to_string()),
            None => Field::Text(value.to_string()),
        }
    }

    /// A value already parsed.
    pub(crate) fn from_value(value: Value) -> Self {
        match value {
            Value::Null => Field::Null,
            Value::String(text) => Field::Text(text),
            other => Field::Json(other.to_string()),
        }
    }

    /// The bytes of a key. `Err` says what was found instead.
    pub(crate) fn into_key(self) -> Result<Vec<u8>, &'static str> {
        match &self {
            Field::Null => return Err("no key"),
            Field::Json(json) if json.starts_with(['[', '{']) => return Err("a list or an object as key"),
            _ => {}
        }
        let key = self.into_bytes();
        if key.is_empty() { Err("an empty key") } else { Ok(key) }
    }

    /// The bytes of a field that is the whole value.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Field::Null => Vec::new(),
            Field::Text(text) | Field::Json(text) => text.into_bytes(),
            Field::Bytes(bytes) => bytes,
        }
    }

    /// Appends the field to a JSON object in `out`.
    pub(crate) fn write_json(self, out: &mut String) {
        match self {
            Field::Null => out.push_str("null"),
            Field::Text(text) => out.push_str(&Value::String(text).to_string()),
            Field::Json(json) => out.push_str(&json),
            Field::Bytes(bytes) => {
                out.push('"');
                STANDARD.encode_string(bytes, out);
                out.push('"');
            }
        }
    }
}
