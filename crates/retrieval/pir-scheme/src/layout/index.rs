//! Records that are read by index.

use super::padding::is_zero;
use super::{LENGTH_BYTES, Layout, Length};
use crate::error::SchemeError;

impl Layout {
    /// Checks that an index is in range. Record `i` is in cell `i`.
    ///
    /// # Errors
    /// If it is out of range, or the database is read by key.
    pub fn check_index(&self, index: u64) -> Result<(), SchemeError> {
        match *self {
            Layout::Index { records, .. } if index < records => Ok(()),
            Layout::Index { records, .. } => Err(SchemeError::Record { records }),
            Layout::Keys { .. } => Err(SchemeError::Kind { operation: "ask by index", found: "key" }),
        }
    }

    /// Encodes a record as a cell; `None` is an absent record.
    ///
    /// # Errors
    /// If the record does not fit, a record of fixed length is absent, or the database is read by key.
    pub fn cell(&self, record: Option<&[u8]>) -> Result<Vec<u8>, SchemeError> {
        let length = self.index_length("write a record at an index")?;
        match (length, record) {
            (Length::Fixed(bytes), Some(record)) if record.len() == bytes as usize => Ok(record.to_vec()),
            (Length::Fixed(bytes), record) => {
                let needed = format!("all records have {bytes} bytes");
                Err(SchemeError::Length { found: record.map_or(0, <[u8]>::len), needed })
            }
            (Length::Variable { max }, Some(record)) if record.len() > max as usize => {
                Err(SchemeError::Length { found: record.len(), needed: format!("at most {max} bytes") })
            }
            (Length::Variable { .. }, record) => {
                let mut cell = vec![0; self.cell_bytes()];
                if let (Some(record), Some((head, body))) = (record, cell.split_at_mut_checked(LENGTH_BYTES)) {
                    head.copy_from_slice(&(record.len() as u32 + 1).to_le_bytes());
                    body.iter_mut().zip(record).for_each(|(to, from)| *to = *from);
                }
                Ok(cell)
            }
        }
    }

    /// The record in a cell, if there is one, as a part of the cell. The cell may have zeros appended.
    ///
    /// # Errors
    /// If the cell is not of this layout, or the database is read by key.
    pub fn record<'a>(&self, cell: &'a [u8]) -> Result<Option<&'a [u8]>, SchemeError> {
        let length = self.index_length("read the record of an index")?;
        let content = self.content(cell)?;
        let Length::Variable { .. } = length else { return Ok(Some(content)) };
        let Some((head, body)) = content.split_first_chunk::<LENGTH_BYTES>() else {
            return Err(SchemeError::Cell { what: "it is too short" });
        };
        let Some(length) = u32::from_le_bytes(*head).checked_sub(1) else {
            return match is_zero(body) {
                true => Ok(None),
                false => Err(SchemeError::Cell { what: "it has bytes of a record and no length" }),
            };
        };
        match body.split_at_checked(length as usize) {
            Some((record, rest)) if is_zero(rest) => Ok(Some(record)),
            Some(_) => Err(SchemeError::Cell { what: "what follows the record is not zero" }),
            None => Err(SchemeError::Cell { what: "its record is longer than itself" }),
        }
    }

    fn index_length(&self, operation: &'static str) -> Result<Length, SchemeError> {
        match *self {
            Layout::Index { length, .. } => Ok(length),
            Layout::Keys { .. } => Err(SchemeError::Kind { operation, found: "key" }),
        }
    }
}
