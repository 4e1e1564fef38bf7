//! Records, and how they are built from the columns of a row.

use serde_json::Value;

use crate::error::{Place, SourceError};
use crate::field::Field;
use crate::spec::SourceSpec;

/// Maximum length of a value and of a key, in bytes: 16 MiB.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// One record of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key, at least one byte; `None` if records are read by index.
    pub key: Option<Vec<u8>>,
    /// The value; may be empty.
    pub value: Vec<u8>,
    /// The bytes of [`SourceSpec::beside`], if it names a column.
    pub beside: Option<Vec<u8>>,
}

impl Record {
    /// Checks the lengths.
    pub(crate) fn check(self, place: &Place<'_>) -> Result<Self, SourceError> {
        let others = [&self.key, &self.beside].map(|bytes| bytes.as_ref().map_or(0, Vec::len));
        let longest = others.into_iter().fold(self.value.len(), usize::max);
        if longest > MAX_RECORD_BYTES { Err(too_long(place, longest)) } else { Ok(self) }
    }
}

/// The error of a record longer than [`MAX_RECORD_BYTES`].
pub(crate) fn too_long(place: &Place<'_>, bytes: impl std::fmt::Display) -> SourceError {
    place.refuse(format!("a record of {bytes} bytes"), format!("at most {MAX_RECORD_BYTES}"))
}

/// The columns that a record is built from, as positions in a row.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    key: Option<usize>,
    values: Vec<(usize, String)>,
    beside: Option<usize>,
}

impl Columns {
    /// Finds the columns of `spec` among `names`; without named values all columns but the key are the value.
    pub(crate) fn choose(spec: &SourceSpec, names: &[String]) -> Result<Self, SourceError> {
        let find = |needed: &String| {
            let mut places = (0..names.len()).filter(|&i| names.get(i) == Some(needed));
            let first = places.next().ok_or_else(|| SourceError::column(&spec.path, names, needed))?;
            match places.next() {
                None => Ok(first),
                Some(_) => {
                    let found = format!("more than one column {needed:?}");
                    Err(SourceError::file(&spec.path, found, "column names that differ; rename one"))
                }
            }
        };
        let key = spec.key_column.as_ref().map(find).transpose()?;
        let beside = spec.beside.as_ref().map(find).transpose()?;
        let values = if spec.value_columns.is_empty() {
            names.iter().cloned().enumerate().filter(|(i, _)| ![key, beside].contains(&Some(*i))).collect()
        } else {
            let named = spec.value_columns.iter().map(|name| Ok((find(name)?, name.clone())));
            named.collect::<Result<_, SourceError>>()?
        };
        Ok(Columns { key, values, beside })
    }

    /// The same columns without the values of these names.
    pub(crate) fn without(mut self, left_out: fn(&str) -> bool) -> Self {
        self.values.retain(|(_, name)| !left_out(name));
        self
    }

    /// The positions that are read: ascending, without duplicates.
    pub(crate) fn used(&self) -> Vec<usize> {
        let alone = self.key.into_iter().chain(self.beside);
        let mut used: Vec<usize> = alone.chain(self.values.iter().map(|(i, _)| *i)).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// The same columns in rows that hold only the columns of [`Columns::used`].
    pub(crate) fn projected(self) -> Self {
        let used = self.used();
        let place = |i: usize| used.binary_search(&i).unwrap_or(i);
        Columns {
            key: self.key.map(place),
            values: self.values.into_iter().map(|(i, name)| (place(i), name)).collect(),
            beside: self.beside.map(place),
        }
    }

    /// Builds the record of a row. `field` returns the field at a position.
    pub(crate) fn record(
        &self,
        place: &Place<'_>,
        mut field: impl FnMut(usize) -> Result<Field, SourceError>,
    ) -> Result<Record, SourceError> {
        let key = self.key.map(&mut field).transpose()?;
        let beside = self.beside.map(&mut field).transpose()?;
        let values = self.values.iter().map(|(i, name)| Ok((name.as_str(), field(*i)?)));
        record(place, key, values.collect::<Result<_, SourceError>>()?, beside)
    }
}

/// Builds a record from fields. A single value is used unchanged; several become one JSON object, in order.
pub(crate) fn record(
    place: &Place<'_>,
    key: Option<Field>,
    values: Vec<(&str, Field)>,
    beside: Option<Field>,
) -> Result<Record, SourceError> {
    let key = key.map(Field::into_key).transpose();
    let key = key.map_err(|found| place.refuse(found, "a key of at least one byte: text, bytes or a number"))?;
    let value = if values.len() == 1 {
        values.into_iter().flat_map(|(_, field)| field.into_bytes()).collect()
    } else if values.is_empty() {
        Vec::new()
    } else {
        object(values).into_bytes()
    };
    Record { key, value, beside: beside.map(Field::into_bytes) }.check(place)
}

fn object(values: Vec<(&str, Field)>) -> String {
    let mut out = String::from("{");
    for (i, (name, field)) in values.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&Value::from(name).to_string());
        out.push(':');
        field.write_json(&mut out);
    }
    out.push('}');
    out
}
