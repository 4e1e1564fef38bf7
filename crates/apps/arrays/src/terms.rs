//! The client's half of a program: what to encrypt and how, which keys to make, what comes back.

use std::collections::BTreeSet;

use unspoken_ckks::SeededCiphertext;
use unspoken_matrix::Layout;
use unspoken_protocol::limits::{self, LimitExceeded};
use unspoken_rlwe::{KeyBundle, KeyPlan};

use crate::bytes::{Object, Reader, Writer};
use crate::error::ArraysError;
use crate::form::{Form, MOST_BATCH, has_room};
use crate::graph::{MOST_NAME, MOST_NODES};
use crate::preset::Context;

/// An input of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub form: Form,
}

/// What the client of a program must know, and may: constants and operations are not in it.
#[derive(Clone)]
pub struct Terms {
    pub(crate) context: Context,
    pub(crate) layout: Layout,
    pub(crate) level: usize,
    pub(crate) batch: usize,
    pub(crate) inputs: Vec<Input>,
    pub(crate) output: Form,
    pub(crate) keys: KeyPlan,
}

impl Terms {
    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.context.parameters().name()
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
    pub fn output(&self) -> Form {
        self.output
    }

    /// The keys of the server.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// Bytes of the keys on their way.
    pub fn key_bytes(&self) -> u64 {
        KeyBundle::byte_len(self.context.parameters().rlwe(), &self.keys)
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
        let mut out = Writer::new(Object::Terms, &self.context);
        for number in [self.layout.dim(), self.layout.blocks(), self.level, self.batch, self.inputs.len()] {
            out.u32(number);
        }
        for input in &self.inputs {
            out.text(&input.name);
            input.form.write(&mut out);
        }
        self.output.write(&mut out);
        let mut plan = Vec::new();
        KeyBundle::write_plan(self.context.parameters().rlwe(), &self.keys, &mut plan)?;
        out.rest(&plan);
        Ok(out.finish())
    }

    /// Reads what [`Terms::to_bytes`] wrote; insecure presets, which are for tests, only if so asked.
    ///
    /// # Errors
    /// [`ArraysError::Decode`] for anything else.
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, ArraysError> {
        let (mut input, context) = Reader::new(Object::Terms, bytes, accept_insecure)?;
        let (dim, blocks) = (input.u32()?, input.u32()?);
        let layout = Layout::new(context.parameters(), dim, blocks)?;
        let (level, batch) = (input.u32()?, input.u32()?);
        if level > context.parameters().max_level() || !(1..=MOST_BATCH).contains(&batch) {
            let needed = format!("at most {} and 1 to {MOST_BATCH}", context.parameters().max_level());
            return Err(input.refuse(format!("level {level} and a batch of {batch}"), needed));
        }
        let count = input.count(MOST_NODES, 14)?;
        let (mut inputs, mut names) = (Vec::new(), BTreeSet::new());
        for _ in 0..count {
            let named = Input { name: input.text()?, form: Form::read(&mut input)? };
            if named.name.is_empty() || named.name.len() > MOST_NAME || !names.insert(named.name.clone()) {
                return Err(input.refuse("an input's name that cannot be", "a name of its own for each"));
            }
            if !has_room(layout, named.form.matrix) {
                return Err(input.refuse(format!("tiles of {dim} for shape {:?}", named.form.matrix), "larger tiles"));
            }
            inputs.push(named);
        }
        let output = Form::read(&mut input)?;
        let mut rest = input.rest();
        let keys = KeyBundle::read_plan(context.parameters().rlwe(), &mut rest)?;
        if !rest.is_empty() {
            let found = format!("{} surplus bytes", rest.len());
            return Err(ArraysError::Decode { what: "the terms of a program", found, needed: "the end".into() });
        }
        let terms = Terms { context, layout, level, batch, inputs, output, keys };
        terms.check_use()?;
        Ok(terms)
    }

    /// Refuses what no program needs: keys that open bootstraps, and more than a client should make for anybody.
    fn check_use(&self) -> Result<(), ArraysError> {
        let checked = limits::check_key_kinds(&self.keys, false)
            .and_then(|()| limits::check_key_bytes(self.context.parameters().rlwe(), &self.keys))
            .and_then(|()| limits::check_query_bytes(self.input_bytes()));
        checked.map_err(|LimitExceeded { what, found, needed }| ArraysError::Decode {
            what: "the terms of a program",
            found: format!("{found} ({what})"),
            needed: format!("{needed}; do not trust who sent them"),
        })
    }

    /// Bytes of all inputs on their way.
    fn input_bytes(&self) -> u64 {
        let tile = SeededCiphertext::byte_len(self.context.parameters(), self.level) as u64;
        let bytes = self.inputs.iter().map(|Input { form, .. }| {
            let tiles = self.layout.tiles(form.matrix.0) as u64 * self.layout.tiles(form.matrix.1) as u64;
            tiles.saturating_mul(if form.batch { self.groups() as u64 } else { 1 }).saturating_mul(tile)
        });
        bytes.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use unspoken_rlwe::KeyKind;

    use super::*;
    use crate::{Graph, Node, Options, Program};

    /// The terms of `a + a`, with tiles of one entry.
    fn terms() -> Terms {
        let mut graph = Graph::new();
        let form = Form { matrix: (2, 2), batch: true, rows: true, columns: true };
        let a = graph.push(Node::Input { name: "a".into(), form }).unwrap();
        graph.push(Node::Add(a, a)).unwrap();
        let preset = Some("insecure_n11_depth9_scale50".into());
        let options = Options { preset, batch: 2, tile: Some(1), blocks: Some(1), ..Options::default() };
        let bytes = Program::plan(graph, form, &options).unwrap().terms().to_bytes().unwrap();
        Terms::from_bytes(&bytes, true).unwrap()
    }

    #[test]
    fn a_server_gets_no_keys_and_no_inputs_beyond_its_need() {
        for kind in [KeyKind::Encapsulation, KeyKind::QueryEncapsulation, KeyKind::Decapsulation] {
            let mut terms = terms();
            terms.keys.require(kind, 1);
            assert!(terms.check_use().unwrap_err().to_string().contains("needed keys that its queries take"));
        }
        let mut greedy = terms();
        greedy.inputs[0].form.matrix = (64, 64);
        greedy.batch = MOST_BATCH;
        assert!(greedy.check_use().unwrap_err().to_string().contains("bytes (query)"));
        let mut greedy = terms();
        let chain = greedy.context.parameters().chain(greedy.context.parameters().max_level());
        (0..1 << 16).for_each(|i| greedy.keys.require(KeyKind::Galois { element: 2 * i + 1 }, chain));
        assert!(greedy.check_use().unwrap_err().to_string().contains("bytes (key plan)"));
    }
}
