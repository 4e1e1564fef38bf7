//! What `candle-core` takes for granted of a GGUF header: an alignment that is not 0, and tensors of known types; its
//! errors do not name unknown types.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read};

/// Types of tensors in the order of their numbers; types that llama.cpp has removed are empty.
const TYPES: [&str; 40] = [
    "F32", "F16", "Q4_0", "Q4_1", "", "", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
    "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8", "I16", "I32", "I64",
    "F64", "IQ1_M", "BF16", "", "", "", "TQ1_0", "TQ2_0", "", "", "", "MXFP4",
];
/// The types that are read, by number.
const SUPPORTED: [u32; 13] = [0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 30];

/// Numbers of the types of metadata that are not numbers of a fixed size.
const TEXT: u32 = 8;
const ARRAY: u32 = 9;
/// Bytes of a number of each type of metadata; 0 for texts and arrays.
const SIZES: [u64; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

/// Why a header was refused.
pub(super) enum HeaderError {
    Io(io::Error),
    Content { found: String, needed: String },
}

impl From<io::Error> for HeaderError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => refused("an end within the header", "a whole GGUF file"),
            _ => HeaderError::Io(error),
        }
    }
}

fn refused(found: impl Into<String>, needed: impl Into<String>) -> HeaderError {
    HeaderError::Content { found: found.into(), needed: needed.into() }
}

/// Checks the header of a file from its first byte on.
pub(super) fn check(reader: impl Read) -> Result<(), HeaderError> {
    let mut header = Header { reader, short: false };
    let [_magic, version] = [header.u32()?, header.u32()?];
    if !(1..=3).contains(&version) {
        return Err(refused(format!("GGUF version {version}"), "version 1, 2 or 3"));
    }
    header.short = version == 1;
    let [tensors, entries] = [header.length()?, header.length()?];
    for _ in 0..entries {
        header.entry()?;
    }
    let mut names = HashSet::new();
    for _ in 0..tensors {
        let name = header.tensor()?;
        if let Some(name) = names.replace(name) {
            return Err(refused(format!("two tensors {name}"), "each tensor once"));
        }
    }
    Ok(())
}

/// Reads a header; does not keep what it reads.
struct Header<R> {
    reader: R,
    /// Whether lengths have 32 bits instead of 64: version 1.
    short: bool,
}

impl<R: Read> Header<R> {
    fn u32(&mut self) -> Result<u32, HeaderError> {
        let mut bytes = [0; 4];
        self.reader.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, HeaderError> {
        let mut bytes = [0; 8];
        self.reader.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn length(&mut self) -> Result<u64, HeaderError> {
        if self.short { self.u32().map(u64::from) } else { self.u64() }
    }

    /// Skips bytes, which must exist.
    fn skip(&mut self, bytes: u64) -> Result<(), HeaderError> {
        let skipped = io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::Error::from(ErrorKind::UnexpectedEof).into()) }
    }

    fn text(&mut self) -> Result<String, HeaderError> {
        let length = self.length()?;
        let mut bytes = vec![];
        self.reader.by_ref().take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length {
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        } else {
            Err(io::Error::from(ErrorKind::UnexpectedEof).into())
        }
    }

    /// A key of the metadata and its value.
    fn entry(&mut self) -> Result<(), HeaderError> {
        let key = self.text()?;
        let kind = self.u32()?;
        if key != "general.alignment" {
            return self.value(&key, kind);
        }
        let alignment = self.u32()?;
        if kind == 4 && alignment.is_power_of_two() {
            return Ok(());
        }
        Err(refused(format!("general.alignment {alignment} of type {kind}"), "a power of two of 32 bits (type 4)"))
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<(), HeaderError> {
        match kind {
            TEXT => {
                let length = self.length()?;
                self.skip(length)
            }
            ARRAY => {
                let (kind, length) = (self.u32()?, self.length()?);
                match kind {
                    ARRAY => Err(refused(format!("an array of arrays, metadata {key}"), "arrays of numbers or texts")),
                    TEXT => (0..length).try_for_each(|_| self.value(key, kind)),
                    _ => self.skip(size(key, kind)?.saturating_mul(length)),
                }
            }
            _ => self.skip(size(key, kind)?),
        }
    }

    /// Name, dimensions, type and place of a tensor. Returns the name.
    fn tensor(&mut self) -> Result<String, HeaderError> {
        let name = self.text()?;
        let dimensions = self.u32()?;
        for _ in 0..dimensions {
            self.length()?;
        }
        let kind = self.u32()?;
        if !SUPPORTED.contains(&kind) {
            let known = TYPES.get(kind as usize).filter(|name| !name.is_empty());
            let kind = known.map_or_else(|| format!("of unknown type {kind}"), |known| format!("of type {known}"));
            let names: Vec<&str> = SUPPORTED.iter().map(|kind| TYPES[*kind as usize]).collect();
            return Err(refused(format!("tensor {name} {kind}"), format!("one of {}", names.join(", "))));
        }
        self.skip(8)?;
        Ok(name)
    }
}

/// Bytes of a number of the metadata.
fn size(key: &str, kind: u32) -> Result<u64, HeaderError> {
    match SIZES.get(kind as usize) {
        Some(size) if *size > 0 => Ok(*size),
        _ => Err(refused(format!("metadata {key} of unknown type {kind}"), "a type of GGUF version 3")),
    }
}
