//! The columns of a collection: what each contribution has one number for.

use std::collections::HashSet;
use std::hint::black_box;
use std::str::FromStr;

use crate::error::SumsError;

/// Longest name of a column, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// One number of each contribution, with its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    name: String,
    smallest: i64,
    largest: i64,
}

impl Column {
    /// A column whose values are `smallest` to `largest`, both included.
    ///
    /// # Errors
    /// If the name is empty, longer than 64 bytes or has characters that are not visible, or the range is empty or
    /// does not contain 0, which pads what is not sent.
    pub fn new(name: impl Into<String>, smallest: i64, largest: i64) -> Result<Self, SumsError> {
        let name = name.into();
        let refuse =
            |found: String, needed: &str| Err(SumsError::Collection { what: "column", found, needed: needed.into() });
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) {
            return refuse(format!("a name of {} bytes", name.len()), "1 to 64");
        }
        // Names reach terminals and the header of tables.
        if name.chars().any(|c| c.is_control() || c == ',' || c == '=') || name.trim() != name {
            return refuse(format!("the name {name:?}"), "visible characters without commas and equals signs");
        }
        if smallest > 0 || largest < 0 || smallest == largest {
            return refuse(format!("'{name}' from {smallest} to {largest}"), "a range with 0 and another number");
        }
        Ok(Column { name, smallest, largest })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The smallest value of one contribution; 0 or less.
    pub fn smallest(&self) -> i64 {
        self.smallest
    }

    /// The largest value of one contribution; 0 or more.
    pub fn largest(&self) -> i64 {
        self.largest
    }

    /// The largest magnitude of one contribution.
    pub(crate) fn magnitude(&self) -> u64 {
        self.smallest.unsigned_abs().max(self.largest.unsigned_abs())
    }
}

/// `NAME=LARGEST`, or `NAME=SMALLEST..LARGEST`.
impl FromStr for Column {
    type Err = SumsError;

    fn from_str(text: &str) -> Result<Self, SumsError> {
        let refuse = || {
            let needed = "NAME=LARGEST or NAME=SMALLEST..LARGEST, for instance visits=20 or change=-5..5";
            SumsError::Collection { what: "column", found: format!("{text:?}"), needed: needed.into() }
        };
        let (name, range) = text.split_once('=').ok_or_else(refuse)?;
        let (smallest, largest) = range.split_once("..").unwrap_or(("0", range));
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| refuse());
        Column::new(name.trim(), number(smallest)?, number(largest)?)
    }
}

/// Refuses two columns of one name, and none.
pub(crate) fn check(columns: &[Column]) -> Result<(), SumsError> {
    let mut names = HashSet::new();
    match columns.iter().find(|column| !names.insert(column.name())) {
        Some(twice) => {
            let found = format!("two called '{}'", twice.name());
            Err(SumsError::Collection { what: "columns", found, needed: "names that differ".into() })
        }
        None if columns.is_empty() => {
            Err(SumsError::Collection { what: "columns", found: "none".into(), needed: "at least one".into() })
        }
        None => Ok(()),
    }
}

/// Refuses values out of range. The only branch that depends on values is on whether there is one.
#[inline(never)]
pub(crate) fn check_values(columns: &[Column], values: &[i64]) -> Result<(), SumsError> {
    if columns.len() != values.len() {
        return Err(SumsError::Values { found: values.len(), needed: columns.len() });
    }
    if !any_outside(columns, values) {
        return Ok(());
    }
    let outside = |(column, value): (&Column, &i64)| !(column.smallest()..=column.largest()).contains(value);
    let column = &columns[columns.iter().zip(values).position(outside).unwrap_or(0)];
    Err(SumsError::Value { column: column.name().into(), smallest: column.smallest(), largest: column.largest() })
}

/// Whether a value is outside the range of its column, without a branch on one.
#[inline(never)]
fn any_outside(columns: &[Column], values: &[i64]) -> bool {
    let outside = |(column, &value): (&Column, &i64)| {
        black_box(u8::from(value < column.smallest())) | black_box(u8::from(value > column.largest()))
    };
    columns.iter().zip(values).map(outside).fold(0, |seen, bit| seen | bit) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_read_from_text() {
        assert_eq!("visits=20".parse::<Column>().unwrap(), Column::new("visits", 0, 20).unwrap());
        assert_eq!("change = -5..5".parse::<Column>().unwrap(), Column::new("change", -5, 5).unwrap());
        for (text, part) in [
            ("visits", "NAME=LARGEST"),
            ("visits=", "NAME=LARGEST"),
            ("visits=1..", "NAME=LARGEST"),
            ("=3", "a name of 0 bytes"),
            ("a\u{1b}[2J=3", "visible characters"),
            ("visits=0", "a range with 0 and another number"),
            ("visits=3..9", "a range with 0 and another number"),
            ("visits=-9..-3", "a range with 0 and another number"),
        ] {
            let error = text.parse::<Column>().unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        let visits = Column::new("visits", 0, 20).unwrap();
        assert!(check(&[visits.clone(), visits]).unwrap_err().to_string().contains("two called 'visits'"));
    }
}
