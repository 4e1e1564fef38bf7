//! The encrypted cache of a session.

use crate::error::PassError;
use crate::machine::Machine;
use crate::ops::{Arranged, Context, PrivateRows, Role};

/// Keys and values of the private tokens of one client, encrypted.
///
/// The last chunk can be run again with other tokens, which replace it; the chunks before it are final. The first pass
/// of a chunk makes the chunk before it final.
#[derive(Clone, Debug)]
pub struct Session<V> {
    pub(crate) layers: Vec<LayerCache<V>>,
    /// The chunk that the next pass runs.
    pub(crate) chunk: usize,
}

/// Keys and values of a layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerCache<V> {
    keys: Rows<V>,
    values: Rows<V>,
}

/// Rows of keys or of values.
#[derive(Clone, Debug)]
struct Rows<V> {
    /// Those of final chunks: by block of heads and vector of columns, for each turn.
    past: Vec<Vec<V>>,
    /// The last chunk: for each block of heads and part.
    last: Vec<Arranged<V>>,
}

impl<V> Rows<V> {
    fn new() -> Self {
        Rows { past: Vec::new(), last: Vec::new() }
    }
}

impl<V: Clone + Send + Sync> Session<V> {
    /// A session of a model with `layers` layers, before its first chunk.
    pub fn new(layers: usize) -> Self {
        let empty = || LayerCache { keys: Rows::new(), values: Rows::new() };
        Session { layers: (0..layers).map(|_| empty()).collect(), chunk: 0 }
    }

    /// The chunk that the next pass runs.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// All vectors of the session.
    pub fn vectors(&self) -> impl Iterator<Item = &V> {
        self.layers.iter().flat_map(|layer| [&layer.keys, &layer.values]).flat_map(|rows| {
            let last = rows.last.iter().flat_map(|arranged| {
                std::iter::once(&arranged.skewed).chain(&arranged.own).chain(arranged.full.iter().flatten())
            });
            rows.past.iter().flatten().chain(last)
        })
    }

    /// Makes the last chunk final, if it has run.
    pub(crate) fn advance<M>(&mut self, context: &Context<'_, M>) -> Result<bool, PassError>
    where
        M: Machine<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        if self.layers.iter().any(|layer| layer.keys.last.is_empty()) {
            return Ok(false);
        }
        for layer in &mut self.layers {
            for (rows, role) in [(&mut layer.keys, Role::Keys), (&mut layer.values, Role::Values)] {
                rows.finish(context, role, self.chunk)?;
            }
        }
        self.chunk += 1;
        Ok(true)
    }
}

impl<V: Clone + Send + Sync> Rows<V> {
    fn finish<M>(&mut self, context: &Context<'_, M>, role: Role, chunk: usize) -> Result<(), PassError>
    where
        M: Machine<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        let layout = &context.program.layout;
        self.past.resize(layout.blocks * context.columns.vectors, Vec::new());
        for (index, mut arranged) in std::mem::take(&mut self.last).into_iter().enumerate() {
            let (block, part) = (index / layout.parts, index % layout.parts);
            context.complete(&mut arranged, role, chunk, part)?;
            let full = arranged.full.unwrap_or_default();
            let past = &mut self.past[block * context.columns.vectors + context.vector_of(chunk, part)];
            *past = context.plus(std::mem::take(past), full)?;
        }
        Ok(())
    }

    /// The rows that queries of each part see.
    fn seen<M>(&self, context: &Context<'_, M>) -> Result<SeenRows<V>, PassError>
    where
        M: Machine<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        let (layout, vectors) = (&context.program.layout, context.columns.vectors);
        let mut rows = Vec::with_capacity(layout.blocks * vectors * layout.parts);
        for place in 0..layout.blocks * vectors {
            for _ in 0..layout.parts {
                rows.push(self.past.get(place).cloned().unwrap_or_default());
            }
        }
        for (index, arranged) in self.last.iter().enumerate() {
            let (block, of) = (index / layout.parts, index % layout.parts);
            let place = block * vectors + context.vector_of(context.chunk, of);
            for part in of..layout.parts {
                let more = if part == of { Some(&arranged.own) } else { arranged.full.as_ref() };
                let row = &mut rows[place * layout.parts + part];
                *row = context.plus(std::mem::take(row), more.cloned().unwrap_or_default())?;
            }
        }
        Ok(SeenRows { rows, vectors, parts: layout.parts })
    }
}

impl<V: Clone + Send + Sync> LayerCache<V> {
    /// Replaces the last chunk.
    pub(crate) fn replace(&mut self, keys: Vec<Arranged<V>>, values: Vec<Arranged<V>>) {
        (self.keys.last, self.values.last) = (keys, values);
    }

    pub(crate) fn seen<M>(&self, context: &Context<'_, M>, role: Role) -> Result<SeenRows<V>, PassError>
    where
        M: Machine<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        if role == Role::Keys { self.keys.seen(context) } else { self.values.seen(context) }
    }
}

/// The rows that queries of each part see, by block of heads, vector of columns and part.
pub(crate) struct SeenRows<V> {
    rows: Vec<Vec<V>>,
    vectors: usize,
    parts: usize,
}

impl<V> PrivateRows<V> for SeenRows<V> {
    fn get(&self, block: usize, vector: usize, part: usize) -> Vec<&V> {
        self.rows[(block * self.vectors + vector) * self.parts + part].iter().collect()
    }

    fn all<'a>(&'a self) -> impl Iterator<Item = &'a V>
    where
        V: 'a,
    {
        self.rows.iter().flatten()
    }
}
