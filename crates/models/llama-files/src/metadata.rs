//! Typed access to the metadata of a GGUF file.

use std::collections::HashMap;
use std::path::Path;

use candle_core::quantized::gguf_file::Value;

use crate::error::LoadError;

/// The metadata of a file.
pub(super) struct Metadata<'a> {
    pub path: &'a Path,
    pub values: &'a HashMap<String, Value>,
}

impl<'a> Metadata<'a> {
    fn wrong(&self, key: &str, needed: &str) -> LoadError {
        let found = match self.values.get(key) {
            None => format!("no metadata {key}"),
            Some(value) => format!("metadata {key} of type {:?}", value.value_type()),
        };
        LoadError::content(self.path, found, needed)
    }

    pub fn text(&self, key: &str) -> Result<&'a str, LoadError> {
        match self.values.get(key) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(self.wrong(key, "a text")),
        }
    }

    pub fn optional_text(&self, key: &str) -> Result<Option<&'a str>, LoadError> {
        if self.values.contains_key(key) { self.text(key).map(Some) } else { Ok(None) }
    }

    /// An optional number; a number of any integer type is accepted.
    pub fn optional_number(&self, key: &str) -> Result<Option<usize>, LoadError> {
        let value = match self.values.get(key) {
            None => return Ok(None),
            Some(Value::U8(value)) => u64::from(*value),
            Some(Value::U16(value)) => u64::from(*value),
            Some(Value::U32(value)) => u64::from(*value),
            Some(Value::U64(value)) => *value,
            Some(Value::I32(value)) if *value >= 0 => u64::from(value.unsigned_abs()),
            Some(Value::I64(value)) if *value >= 0 => value.unsigned_abs(),
            Some(_) => return Err(self.wrong(key, "a number, at least 0")),
        };
        usize::try_from(value).map(Some).map_err(|_| self.wrong(key, "a smaller number"))
    }

    pub fn number(&self, key: &str) -> Result<usize, LoadError> {
        self.optional_number(key)?.ok_or_else(|| self.wrong(key, "a number"))
    }

    pub fn optional_real(&self, key: &str) -> Result<Option<f64>, LoadError> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::F32(value)) => Ok(Some(f64::from(*value))),
            Some(Value::F64(value)) => Ok(Some(*value)),
            Some(_) => Err(self.wrong(key, "a floating-point number")),
        }
    }

    pub fn flag(&self, key: &str) -> Result<Option<bool>, LoadError> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    fn array(&self, key: &str) -> Result<&'a [Value], LoadError> {
        match self.values.get(key) {
            Some(Value::Array(values)) => Ok(values),
            _ => Err(self.wrong(key, "an array")),
        }
    }

    pub fn texts(&self, key: &str) -> Result<Vec<&'a str>, LoadError> {
        self.array(key)?
            .iter()
            .map(|value| match value {
                Value::String(text) => Ok(text.as_str()),
                _ => Err(self.wrong(key, "an array of texts")),
            })
            .collect()
    }

    pub fn reals(&self, key: &str) -> Result<Vec<f32>, LoadError> {
        self.array(key)?
            .iter()
            .map(|value| match value {
                Value::F32(value) => Ok(*value),
                _ => Err(self.wrong(key, "an array of 32-bit floating-point numbers")),
            })
            .collect()
    }

    /// An optional array of 32-bit integers.
    pub fn integers(&self, key: &str) -> Result<Option<Vec<i32>>, LoadError> {
        if !self.values.contains_key(key) {
            return Ok(None);
        }
        self.array(key)?
            .iter()
            .map(|value| match value {
                Value::I32(value) => Ok(*value),
                Value::U32(value) => i32::try_from(*value).map_err(|_| self.wrong(key, "32-bit integers")),
                _ => Err(self.wrong(key, "an array of 32-bit integers")),
            })
            .collect::<Result<_, _>>()
            .map(Some)
    }
}
