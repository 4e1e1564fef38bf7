//! Texts that people write: UTF-8, with or without a byte-order mark, lines that end with LF or CR LF.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Stands at the start of many text files of Windows, and means nothing.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a text cannot be read. Name the file with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Bytes that are not UTF-8.
    #[error("line {line} is not UTF-8; save the text as UTF-8 (not as UTF-16, Latin-1 or Windows-1252)")]
    NotUtf8 {
        /// Number of the line, from 1.
        line: u64,
    },
    /// A line is longer than the reader allows.
    #[error("line {line} has more than {most} bytes; shorten or split it")]
    TooLong {
        /// Number of the line, from 1.
        line: u64,
        /// The limit.
        most: usize,
    },
}

impl From<TextError> for io::Error {
    fn from(error: TextError) -> Self {
        match error {
            TextError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}

/// The text of bytes, without a byte-order mark at its start.
///
/// # Errors
/// [`TextError::NotUtf8`] with the line.
pub fn decode_text(mut bytes: Vec<u8>) -> Result<String, TextError> {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        TextError::NotUtf8 { line: before.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1 }
    })
}

/// The text of a file, without a byte-order mark at its start. Ends of lines stay as they are.
///
/// # Errors
/// [`TextError::Io`], or [`TextError::NotUtf8`] with the line.
pub fn read_text(path: &Path) -> Result<String, TextError> {
    decode_text(fs::read(path)?)
}

/// Reads the lines of a text one after the other: without a byte-order mark at the start of the text, and without LF or
/// CR LF at their ends. Other white space belongs to a line.
pub struct TextLines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
    most: usize,
}

impl TextLines<BufReader<File>> {
    /// Opens a file, whose lines have at most `most` bytes each.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn open(path: &Path, most: usize) -> io::Result<Self> {
        Ok(Self::new(BufReader::with_capacity(1 << 16, File::open(path)?), most))
    }
}

impl<R: BufRead> TextLines<R> {
    /// Reads lines of at most `most` bytes each.
    pub fn new(reader: R, most: usize) -> Self {
        TextLines { reader, line: Vec::new(), number: 0, most }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// Any [`TextError`].
    pub fn next_line(&mut self) -> Result<Option<&str>, TextError> {
        self.line.clear();
        let ends = BYTE_ORDER_MARK.len() + b"\r\n".len();
        let bound = self.most.saturating_add(ends) as u64;
        if self.reader.by_ref().take(bound).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let mut line = self.line.as_slice();
        if self.number == 1 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > self.most {
            return Err(TextError::TooLong { line: self.number, most: self.most });
        }
        str::from_utf8(line).map(Some).map_err(|_| TextError::NotUtf8 { line: self.number })
    }

    /// Number of the line that was returned last, from 1; 0 before the first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// All lines that are left.
    ///
    /// # Errors
    /// Any [`TextError`].
    pub fn collect(mut self) -> Result<Vec<String>, TextError> {
        let mut lines = Vec::new();
        while let Some(line) = self.next_line()? {
            lines.push(line.to_owned());
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], most: usize) -> Result<Vec<String>, TextError> {
        TextLines::new(text, most).collect()
    }

    #[test]
    fn marks_and_ends_of_lines_are_no_part_of_a_line() {
        assert_eq!(lines(b"\xef\xbb\xbfa \tb\r\n\r\n\n c", 9).unwrap(), ["a \tb", "", "", " c"]);
        assert_eq!(lines(b"a\r", 9).unwrap(), ["a"]);
        // Only the mark at the start is one.
        assert_eq!(lines("a\n\u{feff}b\n".as_bytes(), 9).unwrap(), ["a", "\u{feff}b"]);
        assert_eq!(lines(b"\xef\xbb\xbf", 9).unwrap(), [""]);
        assert!(lines(b"", 9).unwrap().is_empty());
        assert_eq!(decode_text(b"\xef\xbb\xbfa\r\nb".to_vec()).unwrap(), "a\r\nb");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused_with_the_line() {
        let text = b"a\n\xffb\nc";
        for error in [lines(text, 9).unwrap_err(), decode_text(text.to_vec()).unwrap_err()] {
            assert!(error.to_string().starts_with("line 2 is not UTF-8; save"), "{error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidData);
        }
        // UTF-16, as some editors write it.
        assert!(matches!(lines(b"\xff\xfea\0\n\0", 9), Err(TextError::NotUtf8 { line: 1 })));
    }

    #[test]
    fn long_lines_are_refused_and_not_read_whole() {
        assert_eq!(lines(b"\xef\xbb\xbf123\r\n456\r\n", 3).unwrap(), ["123", "456"]);
        assert!(matches!(lines(b"12\n3456\n", 3), Err(TextError::TooLong { line: 2, most: 3 })));
        let endless = BufReader::new(io::repeat(b'x'));
        assert!(matches!(TextLines::new(endless, 3).collect(), Err(TextError::TooLong { line: 1, most: 3 })));
    }

    #[test]
    fn files_are_read_the_same_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.txt");
        fs::write(&path, b"\xef\xbb\xbfA00\r\nA01").unwrap();
        assert_eq!(TextLines::open(&path, 9).unwrap().collect().unwrap(), ["A00", "A01"]);
        assert_eq!(read_text(&path).unwrap(), "A00\r\nA01");
        assert!(matches!(read_text(&path.join("none")), Err(TextError::Io(_))));
    }
}
