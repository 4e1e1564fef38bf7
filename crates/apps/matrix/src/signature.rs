//! The signature of a program: what its client must know to encrypt inputs, make keys and decrypt results.

use std::collections::BTreeSet;

use ndarray::{Array2, Array3, Axis, s};
use unspoken_ckks::{SeededCiphertext, Slots};
use unspoken_encrypted_matrix::{EncryptedMatrix, Layout, decode_tiles, encode_tiles};
use unspoken_protocol::limits::{self, LimitExceeded};
use unspoken_ring::declassify;
use unspoken_rlwe::{KeyBundle, KeyPlan};
use zeroize::Zeroize;

use crate::bytes::{Object, Reader, Writer};
use crate::error::MatrixError;
use crate::messages::{read_layout, write_layout};
use crate::preset::BuiltPreset;
use crate::shape::{ArrayShape, MAX_BATCH, MAX_NAME_BYTES, MAX_NODES, fits_tiles};

const WHAT: &str = "the signature of a program";
pub(crate) const ENCRYPT: &str = "encrypt inputs";

/// An input of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: ArrayShape,
}

/// The part of a program that its client knows: parameters, layout, inputs, output and keys, without operations and
/// constants.
#[derive(Clone)]
pub struct Signature {
    pub(crate) preset: BuiltPreset,
    pub(crate) layout: Layout,
    pub(crate) level: usize,
    pub(crate) batch: usize,
    pub(crate) inputs: Vec<Input>,
    pub(crate) output: ArrayShape,
    pub(crate) keys: KeyPlan,
    /// Largest absolute value of an input's entry.
    pub(crate) largest: f64,
    /// Bound of the absolute value of the result's entries.
    pub(crate) magnitude: f64,
}

/// The parts of a signature that must be checked, besides the preset.
pub(crate) struct SignatureParts {
    pub(crate) tile: (usize, usize),
    pub(crate) blocks: usize,
    pub(crate) level: usize,
    pub(crate) batch: usize,
    pub(crate) inputs: Vec<Input>,
    pub(crate) output: ArrayShape,
    pub(crate) keys: KeyPlan,
    pub(crate) largest: f64,
    pub(crate) magnitude: f64,
}

impl Signature {
    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.preset.parameters().name()
    }

    /// How matrices are arranged in vectors.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The level of the inputs.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Number of matrices in the batch; one if no array has that axis.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Number of matrices in one vector.
    pub(crate) fn group(&self) -> usize {
        self.batch.min(self.layout.parallel())
    }

    /// Number of groups, that is, vectors for the whole batch, and so of runs of the expression.
    pub fn groups(&self) -> usize {
        self.batch.div_ceil(self.group())
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Shape of the result.
    pub fn output(&self) -> ArrayShape {
        self.output
    }

    /// Largest absolute value of an input's entry: others are refused at encryption.
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// Bound of the absolute value of the result's entries. It depends on the constants of the program, and is a power
    /// of two, which says little about them.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }

    /// The keys that the server needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// Length of the serialised keys in bytes.
    pub fn key_bytes(&self) -> u64 {
        KeyBundle::byte_len(self.preset.parameters().rlwe(), &self.keys)
    }

    /// The input with this name.
    pub(crate) fn input(&self, operation: &'static str, name: &str) -> Result<&Input, MatrixError> {
        self.inputs.iter().find(|input| input.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
            MatrixError::mismatch(operation, format!("an input '{name}'"), format!("one of {}", names.join(", ")))
        })
    }

    /// Serialises the signature: tile, blocks, level, batch, largest entry of inputs and result, the inputs, the
    /// output, the key plan, a checksum.
    ///
    /// # Errors
    /// If there are more keys than a bundle can hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>, MatrixError> {
        let mut out = Writer::new(Object::Signature, &self.preset);
        write_layout(self.layout, &mut out);
        out.u32(self.level);
        out.u32(self.batch);
        out.f64(self.largest);
        out.f64(self.magnitude);
        out.u32(self.inputs.len());
        for input in &self.inputs {
            out.text(&input.name);
            input.shape.write(&mut out);
        }
        self.output.write(&mut out);
        let mut plan = Vec::new();
        KeyBundle::write_plan(self.preset.parameters().rlwe(), &self.keys, &mut plan)?;
        out.rest(&plan);
        Ok(out.finish())
    }

    /// Reads the output of [`Signature::to_bytes`]; insecure presets, which are for tests, only if `accept_insecure`.
    ///
    /// # Errors
    /// [`MatrixError::Decode`] for anything else, or `ProtocolError::Damaged` if a bit has changed.
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, MatrixError> {
        let (mut input, preset) = Reader::new(Object::Signature, bytes, accept_insecure)?;
        let layout = read_layout(&mut input, &preset)?;
        let (level, batch) = (input.u32()?, input.u32()?);
        let (largest, magnitude) = (input.bound()?, input.bound()?);
        let count = input.count(MAX_NODES, 14)?;
        let mut inputs = Vec::new();
        for _ in 0..count {
            inputs.push(Input { name: input.text()?, shape: ArrayShape::read(&mut input)? });
        }
        let output = ArrayShape::read(&mut input)?;
        let mut rest = input.rest();
        let keys = KeyBundle::read_plan(preset.parameters().rlwe(), &mut rest)?;
        if !rest.is_empty() {
            return Err(refuse(format!("{} surplus bytes", rest.len()), "the end"));
        }
        let (tile, blocks) = (layout.tile(), layout.blocks());
        let parts = SignatureParts { tile, blocks, level, batch, inputs, output, keys, largest, magnitude };
        Self::checked(preset.parameters().name(), parts)
    }

    /// Builds a signature from untrusted parts, and checks it.
    pub(crate) fn checked(preset: &str, parts: SignatureParts) -> Result<Self, MatrixError> {
        let SignatureParts { tile, blocks, level, batch, inputs, output, keys, largest, magnitude } = parts;
        let preset = BuiltPreset::find(preset)?;
        let layout = Layout::with_tile(preset.parameters(), tile, blocks)?;
        if level > preset.parameters().max_level() || !(1..=MAX_BATCH).contains(&batch) {
            let needed = format!("at most {} and 1 to {MAX_BATCH}", preset.parameters().max_level());
            return Err(refuse(format!("level {level} and a batch of {batch}"), needed));
        }
        if inputs.is_empty() || inputs.len() > MAX_NODES {
            return Err(refuse(format!("{} inputs", inputs.len()), format!("1 to {MAX_NODES}")));
        }
        if !(largest > 0.0 && largest.is_finite() && magnitude >= 0.0 && magnitude.is_finite()) {
            let found = format!("inputs up to {largest} and results up to {magnitude}");
            return Err(refuse(found, "positive finite numbers"));
        }
        // Encryption must not fail for an entry up to `largest`. A complex slot has two entries.
        let log2_slot = (largest * preset.parameters().scale()).log2() + 0.5;
        if log2_slot >= preset.encoder().log2_limit(level) {
            return Err(refuse(
                format!("inputs up to {largest} at level {level}"),
                "smaller inputs, or a higher level",
            ));
        }
        let mut names = BTreeSet::new();
        for Input { name, shape } in &inputs {
            if name.is_empty() || name.len() > MAX_NAME_BYTES || !names.insert(name.as_str()) {
                return Err(refuse("an empty, too long or repeated name of an input", "a different name for each"));
            }
            shape.check(WHAT)?;
        }
        output.check(WHAT)?;
        for shape in inputs.iter().map(|input| input.shape).chain([output]) {
            if !fits_tiles(layout, shape.stored(layout)) {
                let (rows, columns) = tile;
                return Err(refuse(
                    format!("tiles of {rows} x {columns} for shape {:?}", shape.matrix),
                    "larger tiles",
                ));
            }
        }
        let signature = Signature { preset, layout, level, batch, inputs, output, keys, largest, magnitude };
        signature.check_use()?;
        Ok(signature)
    }

    /// Refuses what no program needs: bootstrapping keys, and more keys or longer queries than a client should make.
    fn check_use(&self) -> Result<(), MatrixError> {
        let checked = limits::check_key_kinds(&self.keys, limits::Bootstraps::Nothing)
            .and_then(|()| limits::check_key_bytes(self.preset.parameters().rlwe(), &self.keys))
            .and_then(|()| limits::check_query_bytes(self.input_bytes()));
        checked.map_err(|LimitExceeded { what, found, needed }| {
            refuse(format!("{found} ({what})"), format!("{needed}; do not trust the sender"))
        })
    }

    /// Bytes of the vectors of all inputs.
    pub(crate) fn input_bytes(&self) -> u64 {
        let vector = SeededCiphertext::byte_len(self.preset.parameters(), self.level) as u64;
        (self.input_vectors() as u64).saturating_mul(vector)
    }

    /// Number of vectors of all inputs.
    pub(crate) fn input_vectors(&self) -> usize {
        let vectors = |input: &Input| self.tiles(input.shape).saturating_mul(self.groups_of(input.shape));
        self.inputs.iter().map(vectors).fold(0, usize::saturating_add)
    }

    /// Number of vectors of the result.
    pub(crate) fn output_vectors(&self) -> usize {
        self.tiles(self.output).saturating_mul(self.groups())
    }

    /// Number of tiles of each matrix of an array.
    pub(crate) fn tiles(&self, shape: ArrayShape) -> usize {
        self.layout.tiles(shape.stored(self.layout))
    }

    /// Number of groups of an input: one for an array without a batch, which is used with all groups of the others.
    pub(crate) fn groups_of(&self, shape: ArrayShape) -> usize {
        if shape.axes.batch { self.groups() } else { 1 }
    }

    /// The arrays of all inputs, in the order of the inputs.
    pub(crate) fn in_order<'a>(
        &'a self,
        arrays: &'a [(String, Array3<f64>)],
    ) -> Result<Vec<(&'a Input, &'a Array3<f64>)>, MatrixError> {
        arrays.iter().try_for_each(|(name, _)| self.input(ENCRYPT, name).map(drop))?;
        let find = |input: &'a Input| {
            let mut named = arrays.iter().filter(|(name, _)| *name == input.name);
            match (named.next(), named.next()) {
                (Some((_, values)), None) => Ok((input, values)),
                (found, _) => {
                    let found = if found.is_some() { "twice" } else { "left out" };
                    Err(MatrixError::mismatch(ENCRYPT, format!("input '{}' {found}", input.name), "each once"))
                }
            }
        };
        self.inputs.iter().map(find).collect()
    }

    /// Refuses entries that are larger than declared, or not finite. All are examined, and the branch on the result is
    /// the only one that depends on them.
    fn check_entries(&self, input: &Input, values: &Array3<f64>) -> Result<(), MatrixError> {
        let fits = |value: f64| value.abs() <= self.largest;
        let bad = values.iter().fold(0, |seen, &value| seen | std::hint::black_box(u8::from(!fits(value))));
        if declassify(bad == 0) {
            return Ok(());
        }
        // The message names the index and not the value, which is secret.
        let index = values.indexed_iter().find(|(_, value)| !fits(**value)).map_or((0, 0, 0), |(index, _)| index);
        let (name, index, largest) = (&input.name, input.shape.index(index), self.largest);
        let found = format!("input '{name}' with an entry beyond {largest:e} at index {index:?}");
        let needed = "entries up to that size: plan the program for the largest entry (largest=), or scale the input";
        Err(MatrixError::Magnitude { operation: ENCRYPT, found, needed: needed.into() })
    }

    /// The slots of an input: for each group of its batch, the slots of every tile.
    ///
    /// # Errors
    /// If the array is of another shape, or an entry is larger than declared.
    pub(crate) fn encode(&self, input: &Input, values: &Array3<f64>) -> Result<Vec<Vec<Slots>>, MatrixError> {
        let shape = input.shape;
        let needed = (if shape.axes.batch { self.batch } else { 1 }, shape.matrix.0, shape.matrix.1);
        if values.dim() != needed {
            let found = format!("'{}' of shape {:?}", input.name, values.dim());
            return Err(MatrixError::mismatch(ENCRYPT, found, format!("shape {needed:?}")));
        }
        self.check_entries(input, values)?;
        let mut groups = Vec::new();
        for mut matrices in self.grouped(values, shape) {
            let tiles = encode_tiles(self.layout, &matrices)?.into_tiles();
            matrices.iter_mut().flatten().for_each(Zeroize::zeroize);
            groups.push(tiles.into_iter().map(Slots::from).collect());
        }
        Ok(groups)
    }

    /// The matrices of each group of the batch, as they are stored; the last group is padded with zeros. For an array
    /// without a batch, one group with copies of its matrix.
    fn grouped(&self, values: &Array3<f64>, shape: ArrayShape) -> Vec<Vec<Array2<f64>>> {
        let (batch, group) = (values.len_of(Axis(0)), self.group());
        let (rows, columns) = shape.stored(self.layout);
        let matrix = |index: usize| {
            let entries = values.slice(s![index, .., ..]);
            Array2::from_shape_fn((rows, columns), |(row, column)| {
                let entry = row * columns + column;
                entries[(entry / shape.matrix.1, entry % shape.matrix.1)]
            })
        };
        if !shape.axes.batch {
            return vec![vec![matrix(0); group]];
        }
        let padded = |index: usize| if index < batch { matrix(index) } else { Array2::zeros((rows, columns)) };
        (0..batch.div_ceil(group)).map(|g| (g * group..(g + 1) * group).map(padded).collect()).collect()
    }

    /// Decodes a result from the slots of its tiles, group by group: shape (batch, rows, columns).
    ///
    /// # Errors
    /// If the number of vectors is not the number of the result's vectors.
    pub(crate) fn decode(&self, mut vectors: Vec<Slots>) -> Result<Array3<f64>, MatrixError> {
        let mut groups = Vec::with_capacity(self.groups());
        for _ in 0..self.groups() {
            let tiles = vectors.drain(..self.tiles(self.output).min(vectors.len())).collect();
            groups.push(EncryptedMatrix::from_tiles(
                self.layout,
                self.output.stored(self.layout),
                self.group(),
                tiles,
            )?);
        }
        Ok(decode_groups(&groups, self.batch, self.output))
    }
}

/// Decodes groups of decrypted tiles to the first `batch` matrices: shape (batch, rows, columns).
pub(crate) fn decode_groups(groups: &[EncryptedMatrix<Slots>], batch: usize, shape: ArrayShape) -> Array3<f64> {
    let mut values = Array3::zeros((batch, shape.matrix.0, shape.matrix.1));
    let mut next = values.axis_iter_mut(Axis(0));
    for group in groups {
        for mut matrix in decode_tiles(group) {
            // The padding of the last group is dropped.
            if let Some(place) = next.next() {
                // Matrices that are stored as rows have the same entries in the same order.
                place.into_iter().zip(&matrix).for_each(|(place, entry)| *place = *entry);
            }
            matrix.iter_mut().for_each(Zeroize::zeroize);
        }
    }
    values
}

fn refuse(found: impl Into<String>, needed: impl Into<String>) -> MatrixError {
    MatrixError::Decode { what: WHAT, found: found.into(), needed: needed.into() }
}

#[cfg(test)]
mod tests {
    use unspoken_encrypted_matrix::{Graph, Operation};
    use unspoken_rlwe::KeyKind;

    use super::*;
    use crate::{Axes, Options, Program, ProgramSource};

    /// The signature of `a + a`, with tiles of one entry.
    fn signature() -> Signature {
        let mut graph = Graph::new();
        let a = graph.input("a", (2, 2)).unwrap();
        graph.push(Operation::Add, &[a, a]).unwrap();
        let preset = Some("insecure_n11_depth9_scale50".into());
        let options = Options { preset, batch: 2, tile: Some(1), blocks: Some(1), ..Options::default() };
        let source = ProgramSource { graph, inputs: vec![Axes::BATCH], output: Axes::BATCH, options };
        let bytes = Program::plan(source).unwrap().signature().to_bytes().unwrap();
        Signature::from_bytes(&bytes, true).unwrap()
    }

    #[test]
    fn a_server_gets_no_keys_and_no_inputs_beyond_its_need() {
        for kind in [KeyKind::Encapsulation, KeyKind::QueryEncapsulation, KeyKind::Decapsulation { element: 1 }] {
            let mut signature = signature();
            signature.keys.require(kind, 1);
            assert!(signature.check_use().unwrap_err().to_string().contains("needed keys that its queries take"));
        }
        let mut greedy = signature();
        greedy.inputs[0].shape.matrix = (64, 64);
        greedy.batch = MAX_BATCH;
        assert!(greedy.check_use().unwrap_err().to_string().contains("bytes (query)"));
        let mut greedy = signature();
        let chain = greedy.preset.parameters().chain(greedy.preset.parameters().max_level());
        (0..1 << 16).for_each(|i| greedy.keys.require(KeyKind::Galois { element: 2 * i + 1 }, chain));
        assert!(greedy.check_use().unwrap_err().to_string().contains("bytes (key plan)"));
    }
}
