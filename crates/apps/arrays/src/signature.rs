//! The signature of a program: what its client must know to encrypt inputs, make keys and decrypt results.

use std::collections::BTreeSet;

use unspoken_ckks::SeededCiphertext;
use unspoken_matrix::Layout;
use unspoken_protocol::demands::{self, Excess};
use unspoken_rlwe::{KeyBundle, KeyPlan};

use crate::bytes::{Object, Reader, Writer};
use crate::error::ArraysError;
use crate::preset::BuiltPreset;
use crate::shape::{ArrayShape, MAX_BATCH, MAX_NAME_BYTES, MAX_NODES, fits_tiles};

/// An input of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: ArrayShape,
}

/// What the client of a program knows of it: parameters, layout, inputs, output and keys, without operations and constants.
#[derive(Clone)]
pub struct Signature {
    pub(crate) preset: BuiltPreset,
    pub(crate) layout: Layout,
    pub(crate) level: usize,
    pub(crate) batch: usize,
    pub(crate) inputs: Vec<Input>,
    pub(crate) output: ArrayShape,
    pub(crate) keys: KeyPlan,
}

impl Signature {
    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.preset.parameters().name()
    }

    /// How matrices lie in vectors.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The level of the inputs.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Matrices of the batch; one if nothing has that axis.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Matrices that lie in one vector.
    pub(crate) fn group(&self) -> usize {
        self.batch.min(self.layout.parallel())
    }

    /// Vectors one after the other that hold the batch: runs of the expression.
    pub fn groups(&self) -> usize {
        self.batch.div_ceil(self.group())
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The result.
    pub fn output(&self) -> ArrayShape {
        self.output
    }

    /// The keys of the server.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// Bytes of the keys on their way.
    pub fn key_bytes(&self) -> u64 {
        KeyBundle::byte_len(self.preset.parameters().rlwe(), &self.keys)
    }

    /// The input of that name.
    pub(crate) fn input(&self, operation: &'static str, name: &str) -> Result<&Input, ArraysError> {
        self.inputs.iter().find(|input| input.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
            ArraysError::mismatch(operation, format!("an input '{name}'"), format!("one of {}", names.join(", ")))
        })
    }

    /// As bytes: tile, blocks, level, batch, the inputs, the output, the key plan.
    ///
    /// # Errors
    /// If there are more keys than a bundle can hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ArraysError> {
        let mut out = Writer::new(Object::Signature, &self.preset);
        for number in [self.layout.dim(), self.layout.blocks(), self.level, self.batch, self.inputs.len()] {
            out.u32(number);
        }
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

    /// Reads what [`Signature::to_bytes`] wrote; insecure presets, which are for tests, only if so asked.
    ///
    /// # Errors
    /// [`ArraysError::Decode`] for anything else.
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, ArraysError> {
        let (mut input, preset) = Reader::new(Object::Signature, bytes, accept_insecure)?;
        let (dim, blocks) = (input.u32()?, input.u32()?);
        let layout = Layout::new(preset.parameters(), dim, blocks)?;
        let (level, batch) = (input.u32()?, input.u32()?);
        if level > preset.parameters().max_level() || !(1..=MAX_BATCH).contains(&batch) {
            let needed = format!("at most {} and 1 to {MAX_BATCH}", preset.parameters().max_level());
            return Err(input.refuse(format!("level {level} and a batch of {batch}"), needed));
        }
        let count = input.count(MAX_NODES, 14)?;
        let (mut inputs, mut names) = (Vec::new(), BTreeSet::new());
        for _ in 0..count {
            let named = Input { name: input.text()?, shape: ArrayShape::read(&mut input)? };
            if named.name.is_empty() || named.name.len() > MAX_NAME_BYTES || !names.insert(named.name.clone()) {
                return Err(input.refuse("an input's name that cannot be", "a name of its own for each"));
            }
            if !fits_tiles(layout, named.shape.matrix) {
                return Err(input.refuse(format!("tiles of {dim} for shape {:?}", named.shape.matrix), "larger tiles"));
            }
            inputs.push(named);
        }
        let output = ArrayShape::read(&mut input)?;
        let mut rest = input.rest();
        let keys = KeyBundle::read_plan(preset.parameters().rlwe(), &mut rest)?;
        if !rest.is_empty() {
            let found = format!("{} surplus bytes", rest.len());
            return Err(ArraysError::Decode { what: "the signature of a program", found, needed: "the end".into() });
        }
        let signature = Signature { preset, layout, level, batch, inputs, output, keys };
        signature.check_use()?;
        Ok(signature)
    }

    /// Refuses what no program needs: keys that open bootstraps, and more than a client should make for anybody.
    fn check_use(&self) -> Result<(), ArraysError> {
        let checked = demands::check_key_kinds(&self.keys, false)
            .and_then(|()| demands::check_key_bytes(self.preset.parameters().rlwe(), &self.keys))
            .and_then(|()| demands::check_query_bytes(self.input_bytes()));
        checked.map_err(|Excess { what, found, needed }| ArraysError::Decode {
            what: "the signature of a program",
            found: format!("{found} ({what})"),
            needed: format!("{needed}; do not trust who sent them"),
        })
    }

    /// Bytes of all inputs on their way.
    fn input_bytes(&self) -> u64 {
        let tile = SeededCiphertext::byte_len(self.preset.parameters(), self.level) as u64;
        let bytes = self.inputs.iter().map(|Input { shape, .. }| {
            let tiles = self.layout.tiles(shape.matrix.0) as u64 * self.layout.tiles(shape.matrix.1) as u64;
            tiles.saturating_mul(if shape.axes.batch { self.groups() as u64 } else { 1 }).saturating_mul(tile)
        });
        bytes.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use unspoken_matrix::{Graph, Operation};
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
        for kind in [KeyKind::Encapsulation, KeyKind::QueryEncapsulation, KeyKind::Decapsulation] {
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
