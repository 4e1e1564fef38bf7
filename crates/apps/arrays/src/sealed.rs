//! Encrypted inputs and results, and their bytes.

use unspoken_ckks::{Ciphertext, CkksError, SeededCiphertext};
use unspoken_matrix::{EncryptedMatrix, Layout};

use crate::bytes::{Object, Reader, Writer};
use crate::error::ArraysError;
use crate::form::{Form, MOST_BATCH};
use crate::graph::{MOST_NAME, MOST_NODES};
use crate::preset::Context;
use crate::secret::Owner;

/// One encrypted input: vectors that hold its batch, one after the other.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) form: Form,
    /// Matrices that were encrypted; 1 without a batch.
    pub(crate) batch: usize,
    pub(crate) groups: Vec<EncryptedMatrix<SeededCiphertext>>,
}

/// Encrypted inputs of a program.
pub struct Inputs {
    pub(crate) context: Context,
    pub(crate) owner: Owner,
    pub(crate) layout: Layout,
    pub(crate) entries: Vec<Entry>,
}

/// An encrypted result.
pub struct Answer {
    pub(crate) context: Context,
    pub(crate) owner: Owner,
    pub(crate) form: Form,
    pub(crate) batch: usize,
    pub(crate) groups: Vec<EncryptedMatrix<Ciphertext>>,
}

impl Inputs {
    /// Names of those that are here.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.context.parameters().name()
    }

    /// As bytes: whose they are, tile and blocks, then each input: name, form, batch, groups.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(Object::Inputs, &self.context);
        out.rest(&self.owner.0);
        write_layout(self.layout, &mut out);
        out.u32(self.entries.len());
        for entry in &self.entries {
            out.text(&entry.name);
            entry.form.write(&mut out);
            out.u32(entry.batch);
            write_groups(&entry.groups, &mut out, |tile| tile.to_bytes(self.context.parameters()));
        }
        out.finish()
    }

    /// Reads what [`Inputs::to_bytes`] wrote; insecure presets only if so asked.
    ///
    /// # Errors
    /// [`ArraysError::Decode`], or that of a ciphertext, for anything else.
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, ArraysError> {
        let (mut input, context) = Reader::new(Object::Inputs, bytes, accept_insecure)?;
        let owner = Owner::read(&mut input)?;
        let layout = read_layout(&mut input, &context)?;
        let count = input.count(MOST_NODES, 22)?;
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..count {
            let (name, form) = (input.text()?, Form::read(&mut input)?);
            if name.len() > MOST_NAME || entries.iter().any(|entry| entry.name == name) {
                return Err(input.refuse("an input's name that cannot be", "a name of its own for each"));
            }
            let tile = |tile: &[u8]| SeededCiphertext::from_bytes(context.parameters(), tile);
            let batch = input.u32()?;
            if !(1..=MOST_BATCH).contains(&batch) || (!form.batch && batch != 1) {
                return Err(
                    input.refuse(format!("a batch of {batch}"), format!("1, or up to {MOST_BATCH} with a batch"))
                );
            }
            let groups = read_groups(&mut input, layout, form, tile)?;
            entries.push(Entry { name, form, batch, groups });
        }
        input.finish()?;
        Ok(Inputs { context, owner, layout, entries })
    }
}

impl Answer {
    /// The shape of the array it holds.
    pub fn shape(&self) -> Vec<usize> {
        self.form.shape(self.batch)
    }

    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.context.parameters().name()
    }

    /// As bytes: whose it is, tile and blocks, batch, form, groups.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(Object::Answer, &self.context);
        out.rest(&self.owner.0);
        if let Some(group) = self.groups.first() {
            write_layout(group.layout(), &mut out);
        }
        out.u32(self.batch);
        self.form.write(&mut out);
        write_groups(&self.groups, &mut out, |tile| tile.to_bytes(self.context.parameters()));
        out.finish()
    }

    /// Reads what [`Answer::to_bytes`] wrote; insecure presets only if so asked.
    ///
    /// # Errors
    /// [`ArraysError::Decode`], or that of a ciphertext, for anything else.
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, ArraysError> {
        let (mut input, context) = Reader::new(Object::Answer, bytes, accept_insecure)?;
        let owner = Owner::read(&mut input)?;
        let layout = read_layout(&mut input, &context)?;
        let (batch, form) = (input.u32()?, Form::read(&mut input)?);
        let tile = |tile: &[u8]| Ciphertext::from_bytes(context.parameters(), tile);
        let groups = read_groups(&mut input, layout, form, tile)?;
        let held: usize = groups.iter().map(EncryptedMatrix::batch).sum();
        // The last group may be padded.
        let spare = groups.last().map_or(0, EncryptedMatrix::batch);
        if batch == 0 || batch > held || batch + spare <= held {
            return Err(input.refuse(format!("a batch of {batch}"), format!("one that fills {held} places")));
        }
        input.finish()?;
        Ok(Answer { context, owner, form, batch, groups })
    }
}

fn write_layout(layout: Layout, out: &mut Writer) {
    out.u32(layout.dim());
    out.u32(layout.blocks());
}

fn read_layout(input: &mut Reader<'_>, context: &Context) -> Result<Layout, ArraysError> {
    let (dim, blocks) = (input.u32()?, input.u32()?);
    Ok(Layout::new(context.parameters(), dim, blocks)?)
}

/// The number of groups, the batch of each (the same), then the tiles of all.
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
    form: Form,
    tile: impl Fn(&[u8]) -> Result<V, CkksError>,
) -> Result<Vec<EncryptedMatrix<V>>, ArraysError> {
    // No tile is shorter than its length.
    let groups = input.count(MOST_BATCH, 4)?;
    let batch = input.u32()?;
    if groups == 0 || batch == 0 || batch > layout.parallel() {
        let needed = format!("at least one, and 1 to {} in each", layout.parallel());
        return Err(input.refuse(format!("{groups} groups of {batch} matrices"), needed));
    }
    let tiles = layout.tiles(form.matrix.0) * layout.tiles(form.matrix.1);
    let mut matrices = Vec::new();
    for _ in 0..groups {
        let mut read = Vec::new();
        for _ in 0..tiles {
            read.push(tile(input.block()?)?);
        }
        matrices.push(EncryptedMatrix::from_tiles(layout, form.matrix, batch, read)?);
    }
    Ok(matrices)
}
