//! Records from JSON objects.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::error::{Place, SourceError};
use crate::field::Field;
use crate::record::{Record, record};
use crate::spec::SourceSpec;

type Object<'a> = HashMap<String, &'a RawValue>;

/// The record of an object. Without named columns, its value is the object as it is written.
pub(crate) fn object_record(place: &Place<'_>, spec: &SourceSpec, json: &[u8]) -> Result<Record, SourceError> {
    let object: Object<'_> =
        serde_json::from_slice(json).map_err(|error| place.refuse(error.to_string(), "one JSON object"))?;
    let key = spec.key_column.as_deref().map(|name| field(place, &object, name)).transpose()?;
    let values = if spec.value_columns.is_empty() {
        vec![("", Field::Bytes(json.to_owned()))]
    } else {
        let named = spec.value_columns.iter().map(|name| Ok((name.as_str(), field(place, &object, name)?)));
        named.collect::<Result<_, SourceError>>()?
    };
    let beside = spec.beside.as_deref().map(|name| field(place, &object, name)).transpose()?;
    record(place, key, values, beside)
}

/// A member of an object. Numbers, lists and objects keep their text.
fn field(place: &Place<'_>, object: &Object<'_>, name: &str) -> Result<Field, SourceError> {
    let Some(raw) = object.get(name) else {
        let mut names: Vec<String> = object.keys().cloned().collect();
        names.sort_unstable();
        return Err(place.refuse(format!("the members {}", crate::error::list(&names)), format!("{name:?}")));
    };
    match raw.get() {
        "null" => Ok(Field::Null),
        text if text.starts_with('"') => {
            let text = serde_json::from_str(text).map_err(|error| place.refuse(error.to_string(), "text"))?;
            Ok(Field::Text(text))
        }
        other => Ok(Field::Json(other.to_owned())),
    }
}
