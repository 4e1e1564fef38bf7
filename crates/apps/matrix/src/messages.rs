//! Messages with encrypted inputs and results.

use unspoken_ckks::{Ciphertext, CkksError, SeededCiphertext};
use unspoken_encrypted_matrix::{EncryptedMatrix, Layout};

use crate::bytes::{Object, Reader, Writer};
use crate::error::MatrixError;
use crate::precision::Precision;
use crate::preset::BuiltPreset;
use crate::secret_id::SecretId;
use crate::shape::{ArrayShape, MAX_BATCH, MAX_NAME_BYTES, MAX_NODES};

/// One encrypted input: the vectors that contain its batch, in order.
pub(crate) struct EncryptedInput {
    pub(crate) name: String,
    pub(crate) shape: ArrayShape,
    /// Number of matrices that were encrypted; 1 without a batch.
    pub(crate) batch: usize,
    pub(crate) groups: Vec<EncryptedMatrix<SeededCiphertext>>,
}

/// Encrypted inputs of a program: all of them, or some.
pub struct EncryptedInputs {
    pub(crate) preset: BuiltPreset,
    pub(crate) secret_id: SecretId,
    pub(crate) layout: Layout,
    pub(crate) entries: Vec<EncryptedInput>,
}

/// An encrypted result.
pub struct EncryptedResult {
    pub(crate) preset: BuiltPreset,
    pub(crate) secret_id: SecretId,
    pub(crate) shape: ArrayShape,
    pub(crate) batch: usize,
    /// Bounds that the server states.
    pub(crate) precision: Precision,
    pub(crate) groups: Vec<EncryptedMatrix<Ciphertext>>,
}

impl EncryptedInputs {
    /// Names of the inputs in this message.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.preset.parameters().name()
    }

    /// Serialises the inputs: the identifier of their secret, tile and blocks, then for each input name, shape, batch,
    /// groups; then a checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(Object::EncryptedInputs, &self.preset);
        out.rest(&self.secret_id.0);
        write_layout(self.layout, &mut out);
        out.u32(self.entries.len());
        for entry in &self.entries {
            out.text(&entry.name);
            entry.shape.write(&mut out);
            out.u32(entry.batch);
            write_groups(&entry.groups, &mut out, |tile| tile.to_bytes(self.preset.parameters()));
        }
        out.finish()
    }

    /// Reads the output of [`EncryptedInputs::to_bytes`]; insecure presets only if `accept_insecure`.
    ///
    /// # Errors
    /// [`MatrixError::Decode`], or an error of a ciphertext, for anything else.
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, MatrixError> {
        let (mut input, preset) = Reader::new(Object::EncryptedInputs, bytes, accept_insecure)?;
        let secret_id = SecretId::read(&mut input)?;
        let layout = read_layout(&mut input, &preset)?;
        let count = input.count(MAX_NODES, 22)?;
        let mut entries: Vec<EncryptedInput> = Vec::new();
        for _ in 0..count {
            let (name, shape) = (input.text()?, ArrayShape::read(&mut input)?);
            if name.len() > MAX_NAME_BYTES || entries.iter().any(|entry| entry.name == name) {
                return Err(input.refuse("a too long or repeated name of an input", "a different name for each"));
            }
            let tile = |tile: &[u8]| SeededCiphertext::from_bytes(preset.parameters(), tile);
            let batch = input.u32()?;
            if !(1..=MAX_BATCH).contains(&batch) || (!shape.axes.batch && batch != 1) {
                return Err(
                    input.refuse(format!("a batch of {batch}"), format!("1, or up to {MAX_BATCH} with a batch"))
                );
            }
            let groups = read_groups(&mut input, layout, shape, tile)?;
            entries.push(EncryptedInput { name, shape, batch, groups });
        }
        input.finish()?;
        Ok(EncryptedInputs { preset, secret_id, layout, entries })
    }
}

impl EncryptedResult {
    /// Shape of the array that the result contains.
    pub fn shape(&self) -> Vec<usize> {
        self.shape.extents(self.batch)
    }

    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.preset.parameters().name()
    }

    /// Bound of the error of its entries, from the server's simulation.
    pub fn error(&self) -> f64 {
        self.precision.error
    }

    /// Bound of the absolute value of its entries for inputs as large as declared, from the server's plan.
    pub fn largest(&self) -> f64 {
        self.precision.largest
    }

    /// Serialises the result: the identifier of its secret, tile and blocks, batch, shape, bound of the error, bound of
    /// the entries, groups, checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(Object::EncryptedResult, &self.preset);
        out.rest(&self.secret_id.0);
        if let Some(group) = self.groups.first() {
            write_layout(group.layout(), &mut out);
        }
        out.u32(self.batch);
        self.shape.write(&mut out);
        out.f64(self.precision.error);
        out.f64(self.precision.largest);
        write_groups(&self.groups, &mut out, |tile| tile.to_bytes(self.preset.parameters()));
        out.finish()
    }

    /// Reads the output of [`EncryptedResult::to_bytes`]; insecure presets only if `accept_insecure`.
    ///
    /// # Errors
    /// [`MatrixError::Decode`], or an error of a ciphertext, for anything else.
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, MatrixError> {
        let (mut input, preset) = Reader::new(Object::EncryptedResult, bytes, accept_insecure)?;
        let secret_id = SecretId::read(&mut input)?;
        let layout = read_layout(&mut input, &preset)?;
        let (batch, shape) = (input.u32()?, ArrayShape::read(&mut input)?);
        let precision = Precision { error: input.bound()?, largest: input.bound()? };
        let tile = |tile: &[u8]| Ciphertext::from_bytes(preset.parameters(), tile);
        let groups = read_groups(&mut input, layout, shape, tile)?;
        let held: usize = groups.iter().map(EncryptedMatrix::batch).sum();
        // The last group may be padded.
        let spare = groups.last().map_or(0, EncryptedMatrix::batch);
        if batch == 0 || batch > held || batch + spare <= held {
            return Err(input.refuse(format!("a batch of {batch}"), format!("one that fills {held} places")));
        }
        input.finish()?;
        Ok(EncryptedResult { preset, secret_id, shape, batch, precision, groups })
    }
}

/// Writes rows and columns of a tile, and the number of blocks.
pub(crate) fn write_layout(layout: Layout, out: &mut Writer) {
    let (rows, columns) = layout.tile();
    [rows, columns, layout.blocks()].into_iter().for_each(|number| out.u32(number));
}

pub(crate) fn read_layout(input: &mut Reader<'_>, preset: &BuiltPreset) -> Result<Layout, MatrixError> {
    let (rows, columns, blocks) = (input.u32()?, input.u32()?, input.u32()?);
    Ok(Layout::with_tile(preset.parameters(), (rows, columns), blocks)?)
}

/// Writes the number of groups, the batch of each (the same for all), then the tiles of all.
fn write_groups<V>(groups: &[EncryptedMatrix<V>], out: &mut Writer, bytes: impl Fn(&V) -> Vec<u8>) {
    out.u32(groups.len());
    out.u32(groups.first().map_or(0, EncryptedMatrix::batch));
    for tile in groups.iter().flat_map(|group| group.tiles()) {
        out.block(&bytes(tile));
    }
}

fn read_groups<V>(
    input: &mut Reader<'_>,
    layout: Layout,
    shape: ArrayShape,
    tile: impl Fn(&[u8]) -> Result<V, CkksError>,
) -> Result<Vec<EncryptedMatrix<V>>, MatrixError> {
    // Every tile has at least its length.
    let groups = input.count(MAX_BATCH, 4)?;
    let batch = input.u32()?;
    if groups == 0 || batch == 0 || batch > layout.parallel() {
        let needed = format!("at least one, and 1 to {} in each", layout.parallel());
        return Err(input.refuse(format!("{groups} groups of {batch} matrices"), needed));
    }
    let shape = shape.stored(layout);
    let tiles = layout.tiles(shape);
    let mut matrices = Vec::new();
    for _ in 0..groups {
        let mut read = Vec::new();
        for _ in 0..tiles {
            read.push(tile(input.block()?)?);
        }
        matrices.push(EncryptedMatrix::from_tiles(layout, shape, batch, read)?);
    }
    Ok(matrices)
}
