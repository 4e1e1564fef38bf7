//! Documents as they are stored and fetched: an id, if the owner has given one, and the content.
//!
//! Two bytes with the length of the id plus one, little-endian, or zero if there is none; the id; the content. An empty
//! record is a position without a document.

use crate::error::IndexError;

/// Longest id, in bytes.
pub const MAX_ID_BYTES: usize = 1024;

/// A document of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Names the document, so that its owner can change or remove it.
    pub id: Option<Vec<u8>>,
    /// The content.
    pub content: Vec<u8>,
}

/// Id, if there is one, and content.
pub type DocumentParts<'a> = (Option<&'a [u8]>, &'a [u8]);

impl Document {
    /// The record that is stored.
    ///
    /// # Errors
    /// If the id is too long.
    pub fn to_record(&self) -> Result<Vec<u8>, IndexError> {
        let id = self.id.as_deref();
        let length = id.map_or(0, |id| id.len() + 1);
        if length > MAX_ID_BYTES + 1 {
            return Err(IndexError::Id { found: length - 1 });
        }
        Ok([&(length as u16).to_le_bytes(), id.unwrap_or_default(), &self.content].concat())
    }

    /// Reads a record; `None` if there is no document.
    ///
    /// # Errors
    /// If it is not a record of [`Document::to_record`].
    pub fn from_record(record: &[u8]) -> Result<Option<Self>, IndexError> {
        let parts = Self::parts_of_record(record)?;
        Ok(parts.map(|(id, content)| Document { id: id.map(<[u8]>::to_vec), content: content.to_vec() }))
    }

    /// Id and content in a record, as [`Document::from_record`] reads it.
    ///
    /// # Errors
    /// As for [`Document::from_record`].
    pub fn parts_of_record(record: &[u8]) -> Result<Option<DocumentParts<'_>>, IndexError> {
        if record.is_empty() {
            return Ok(None);
        }
        let malformed = || IndexError::Record { found: record.len() };
        let (length, rest) = record.split_first_chunk::<2>().ok_or_else(malformed)?;
        let length = usize::from(u16::from_le_bytes(*length));
        if length > MAX_ID_BYTES + 1 {
            return Err(malformed());
        }
        let (id, content) = rest.split_at_checked(length.saturating_sub(1)).ok_or_else(malformed)?;
        Ok(Some(((length > 0).then_some(id), content)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_as_they_were_stored_or_refused() {
        for id in [None, Some(vec![]), Some(vec![7; 3]), Some(vec![0; MAX_ID_BYTES])] {
            for content in [vec![], vec![0, 0], b"text".to_vec()] {
                let document = Document { id: id.clone(), content };
                let record = document.to_record().unwrap();
                assert_eq!(Document::from_record(&record).unwrap(), Some(document));
            }
        }
        assert_eq!(Document::from_record(&[]).unwrap(), None);
        for malformed in [&[1][..], &[3, 0, 1], &[255, 255, 0], &[2, 4, 0]] {
            assert!(Document::from_record(malformed).is_err(), "{malformed:?}");
        }
        let long = Document { id: Some(vec![0; MAX_ID_BYTES + 1]), content: vec![] };
        assert!(long.to_record().unwrap_err().to_string().contains("1025 bytes"));
    }
}
