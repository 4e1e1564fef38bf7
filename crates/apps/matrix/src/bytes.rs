//! The common format of all messages and files: kind, parameters, numbers of fixed width, and a checksum at the end.
//!
//! Files and messages by hand begin with `uspa`, a version, their kind, the name of the preset and the fingerprint of
//! its numbers, and end with a checksum, which is compared first. So does the file of a secret; secrets of the version
//! without one are still read. Readers check counts and lengths before they allocate, refuse insecure presets by
//! default, and each has a fuzz target. A program is planned again after it is read, which takes longer than reading:
//! limit who may send one. `Options::cache` keeps the plans of permutations in files, which take most of that time.

use unspoken_protocol::{Handshake, ProtocolError, append_checksum, checked};

use crate::error::MatrixError;
use crate::preset::BuiltPreset;

/// Version of the format.
const VERSION: u16 = 2;
/// The version whose messages had no checksum.
const UNCHECKED_VERSION: u16 = 1;
const MAGIC: [u8; 4] = *b"uspa";

/// Kind of a message or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Program = 1,
    Signature = 2,
    EncryptedInputs = 3,
    EncryptedResult = 4,
    Keys = 5,
}

impl Object {
    fn name(self) -> &'static str {
        match self {
            Object::Program => "a program",
            Object::Signature => "the signature of a program",
            Object::EncryptedInputs => "encrypted inputs",
            Object::EncryptedResult => "an encrypted result",
            Object::Keys => "evaluation keys",
        }
    }
}

/// Serialises a message or file.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Writes magic, version (u16), kind (u8), name of the preset, fingerprint of its numbers (16 bytes).
    pub(crate) fn new(object: Object, preset: &BuiltPreset) -> Self {
        let mut out = Writer(MAGIC.to_vec());
        out.0.extend(VERSION.to_le_bytes());
        out.u8(object as u8);
        out.text(preset.parameters().name());
        out.0.extend(preset.parameters().rlwe().fingerprint().0);
        out
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Numbers are below 2^32 by construction: extents, indices, and counts of items that fit in memory.
    pub(crate) fn u32(&mut self, value: usize) {
        self.0.extend((value as u32).to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.0.extend(value.to_le_bytes());
    }

    /// Writes the length (u32), then the bytes.
    pub(crate) fn block(&mut self, bytes: &[u8]) {
        self.u32(bytes.len());
        self.0.extend(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.block(text.as_bytes());
    }

    /// Writes the bytes without a length, as the last field.
    pub(crate) fn rest(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Appends the checksum.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        append_checksum(&mut self.0);
        self.0
    }
}

/// Reads untrusted bytes from the front. Memory is allocated only for bytes that are present.
pub(crate) struct Reader<'a> {
    object: Object,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Compares the checksum, reads the common fields and builds the parameters; insecure ones only if
    /// `accept_insecure`.
    pub(crate) fn new(
        object: Object,
        bytes: &'a [u8],
        accept_insecure: bool,
    ) -> Result<(Self, BuiltPreset), MatrixError> {
        let content = match checked(object.name(), bytes) {
            Ok(content) => content,
            Err(damaged) => return Err(Reader { object, rest: bytes }.explain(damaged)),
        };
        let mut input = Reader { object, rest: content };
        if input.take(MAGIC.len())? != MAGIC {
            return Err(input.refuse("another kind of file", "one that begins with 'uspa'"));
        }
        let (version, kind) = (u16::from_le_bytes(input.array()?), input.u8()?);
        let (name, fingerprint) = (input.text()?, input.array::<16>()?);
        let handshake = Handshake { version: version.into(), preset: &name, fingerprint: &fingerprint };
        let preset = handshake.accept::<BuiltPreset>(VERSION.into(), accept_insecure)?;
        if kind != object as u8 {
            return Err(input.refuse(format!("object kind {kind}"), format!("kind {}", object as u8)));
        }
        Ok((input, preset))
    }

    /// Explains a wrong checksum: files of other kinds and of earlier versions have none.
    fn explain(mut self, damaged: ProtocolError) -> MatrixError {
        match (self.array(), self.array()) {
            (Ok(MAGIC), Ok(version)) if u16::from_le_bytes(version) == UNCHECKED_VERSION => {
                let needed = format!("version {VERSION}, which has a checksum: make it again");
                self.refuse(format!("version {UNCHECKED_VERSION}"), needed)
            }
            (Ok(MAGIC), _) => damaged.into(),
            _ => self.refuse("another kind of file, or damaged bytes", "one that begins with 'uspa'"),
        }
    }

    pub(crate) fn what(&self) -> &'static str {
        self.object.name()
    }

    pub(crate) fn refuse(&self, found: impl Into<String>, needed: impl Into<String>) -> MatrixError {
        MatrixError::Decode { what: self.what(), found: found.into(), needed: needed.into() }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], MatrixError> {
        let Some((head, tail)) = self.rest.split_at_checked(len) else {
            return Err(self.refuse(format!("{} bytes left", self.rest.len()), format!("{len} more bytes")));
        };
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], MatrixError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, MatrixError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<usize, MatrixError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// Reads a count of items of at least `least` bytes each, and checks that the bytes of all items are present.
    pub(crate) fn count(&mut self, most: usize, least: usize) -> Result<usize, MatrixError> {
        let count = self.u32()?;
        let most = most.min(self.rest.len() / least.max(1));
        if count <= most { Ok(count) } else { Err(self.refuse(format!("{count} items"), format!("at most {most}"))) }
    }

    pub(crate) fn f64(&mut self) -> Result<f64, MatrixError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// Reads a finite number that is not negative.
    pub(crate) fn bound(&mut self) -> Result<f64, MatrixError> {
        let bound = self.f64()?;
        if bound.is_finite() && bound >= 0.0 {
            return Ok(bound);
        }
        Err(self.refuse(format!("a bound of {bound}"), "a finite number that is not negative"))
    }

    pub(crate) fn block(&mut self) -> Result<&'a [u8], MatrixError> {
        let len = self.u32()?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<String, MatrixError> {
        let bytes = self.block()?;
        let text = std::str::from_utf8(bytes).map_err(|error| self.refuse(error.to_string(), "UTF-8"))?;
        Ok(text.to_owned())
    }

    /// The remaining bytes.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn finish(self) -> Result<(), MatrixError> {
        match self.rest.len() {
            0 => Ok(()),
            surplus => Err(self.refuse(format!("{surplus} surplus bytes"), "the end")),
        }
    }
}
