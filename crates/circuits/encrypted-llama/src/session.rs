//! The encrypted cache of a session.

use std::fmt;

use unspoken_ckks::{Arithmetic, CkksError};

use crate::attention::PrivateRows;
use crate::error::PassError;
use crate::evaluator::PassEvaluator;
use crate::layout::{Blocks, Columns, Layout};
use crate::ops::{Context, Role, Visible};
use crate::program::PassProgram;
use crate::public::Public;

/// Keys and values of the private tokens of one client, encrypted.
///
/// The last chunk can be run again with other tokens, which replace the old ones. The first pass of a chunk makes the
/// chunk before it final; [`PassProgram::go_back`] makes an earlier chunk the last one again.
#[derive(Clone, Debug)]
pub struct Session<V> {
    pub(crate) layers: Vec<LayerCache<V>>,
    /// The chunk that the next pass runs.
    pub(crate) chunk: usize,
}

/// Keys and values of a layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerCache<V> {
    keys: Skewed<V>,
    values: Skewed<V>,
}

/// Skewed keys or values: column `y` has the token `t - y`.
#[derive(Clone, Debug)]
struct Skewed<V> {
    /// The last chunk: for each block of heads and part.
    last: Vec<V>,
    /// The chunks before it, each as the last one.
    past: Vec<Vec<V>>,
    /// Rows for products, of all chunks before the last one together: by block of heads and vector of columns, for each
    /// turn. `None` for wide heads, whose rows take too much memory to be kept.
    rows: Option<Vec<Vec<V>>>,
}

/// Heads up to this width have their rows kept.
const WIDEST_KEPT: usize = 16;

impl<V> Skewed<V> {
    /// Rows that are kept: by block of heads and vector of columns.
    fn rows(&self) -> &[Vec<V>] {
        self.rows.as_deref().unwrap_or_default()
    }

    fn new(width: usize) -> Self {
        Skewed { last: Vec::new(), past: Vec::new(), rows: (width <= WIDEST_KEPT).then(Vec::new) }
    }
}

impl<V: Clone + Send + Sync> Session<V> {
    /// A session of a model with `layers` layers and heads of width `width`, before its first chunk.
    pub(crate) fn empty(layers: usize, width: usize) -> Self {
        let empty = || LayerCache { keys: Skewed::new(width), values: Skewed::new(width) };
        Session { layers: (0..layers).map(|_| empty()).collect(), chunk: 0 }
    }

    /// The chunk that the next pass runs.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// All vectors of the session, in the order in which [`PassProgram::restore`] takes them.
    pub fn vectors(&self) -> impl Iterator<Item = &V> {
        self.layers
            .iter()
            .flat_map(|layer| [&layer.keys, &layer.values])
            .flat_map(|skewed| skewed.rows().iter().chain(&skewed.past).flatten().chain(&skewed.last))
    }

    /// The rows of final chunks that are kept.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &V> {
        let caches = self.layers.iter().flat_map(|layer| [&layer.keys, &layer.values]);
        caches.flat_map(|cache| cache.rows().iter().flatten())
    }

    /// For how many vectors of columns rows are kept.
    pub(crate) fn sets_of_rows(&self, blocks: usize) -> usize {
        let rows = self.layers.first().map_or(&[][..], |layer| layer.keys.rows());
        rows.iter().filter(|rows| !rows.is_empty()).count() / blocks.max(1)
    }

    /// The vectors of final chunks that are kept for each of them.
    pub(crate) fn skewed(&self) -> impl Iterator<Item = &V> {
        let caches = self.layers.iter().flat_map(|layer| [&layer.keys, &layer.values]);
        caches.flat_map(|cache| cache.past.iter().flatten())
    }

    /// Makes the last chunk final, if it has run.
    pub(crate) fn advance<M>(&mut self, context: &Context<'_, M>) -> Result<bool, PassError>
    where
        M: PassEvaluator<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        if self.layers.iter().any(|layer| layer.keys.last.is_empty()) {
            return Ok(false);
        }
        for layer in &mut self.layers {
            layer.keys.finish(context, Role::Keys, self.chunk)?;
            layer.values.finish(context, Role::Values, self.chunk)?;
        }
        self.chunk += 1;
        Ok(true)
    }

    /// Makes a chunk that has run the last one, and forgets those after it. The rows that remain have the same bits as
    /// before these chunks ran.
    fn go_back<M>(&mut self, context: &Context<'_, M>, chunk: usize) -> Result<(), PassError>
    where
        M: PassEvaluator<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        if chunk == 0 {
            // No rows remain.
            for skewed in self.layers.iter_mut().flat_map(|layer| [&mut layer.keys, &mut layer.values]) {
                skewed.rows.iter_mut().for_each(Vec::clear);
                if !skewed.past.is_empty() {
                    skewed.last = skewed.past.swap_remove(0);
                    skewed.past.clear();
                }
            }
            self.chunk = 0;
        }
        while self.chunk > chunk {
            self.chunk -= 1;
            for layer in &mut self.layers {
                layer.keys.reopen(context, Role::Keys, self.chunk)?;
                layer.values.reopen(context, Role::Values, self.chunk)?;
            }
        }
        Ok(())
    }
}

impl PassProgram {
    /// A session before its first chunk.
    pub fn session<V: Clone + Send + Sync>(&self) -> Session<V> {
        Session::empty(self.config().layers, self.layout.width)
    }

    /// Builds a session again from its vectors: after `public` tokens, with room for `chunks` chunks, where chunk
    /// `chunk` has run last. `next` gives all vectors, in the order of [`Session::vectors`].
    ///
    /// # Errors
    /// The first error of `next`.
    pub fn restore<V, E>(
        &self,
        (public, chunks): (usize, usize),
        chunk: usize,
        mut next: impl FnMut() -> Result<V, E>,
    ) -> Result<Session<V>, E> {
        let layout = &self.layout;
        let columns = Columns::new(layout, public, chunks);
        let place = (layout, &columns, Blocks::all(layout));
        let layers = (0..self.config().layers).map(|_| LayerCache::restore(place, chunk, &mut next, true));
        Ok(Session { layers: layers.collect::<Result<_, E>>()?, chunk })
    }

    /// Makes a chunk of a session the last one again, so that a pass can run it with other tokens; the chunks after it
    /// are forgotten. The session has room for `chunks` chunks after `public`. It must be thrown away after an error.
    ///
    /// # Errors
    /// If the chunk has not run, or the evaluator was cancelled.
    pub fn go_back<'a, M>(
        &'a self,
        evaluator: &'a M,
        public: impl Into<Public<'a>>,
        session: &mut Session<M::Vector>,
        (chunk, chunks): (usize, usize),
    ) -> Result<(), PassError>
    where
        M: PassEvaluator + Sync,
        M::Arithmetic: Sync,
    {
        if chunk > session.chunk {
            let needed = format!("one of the {} that have run", session.chunk + 1);
            return Err(PassError::Session { found: format!("chunk {chunk} to go back to"), needed });
        }
        let (layout, public) = (&self.layout, public.into());
        let (columns, blocks) = (Columns::new(layout, public.len(), chunks), Blocks::all(layout));
        session.go_back(&Context { evaluator, program: self, public, columns, chunk, blocks }, chunk)
    }

    /// What the vectors of sessions depend on beside the model and the parameters: a session can be restored by a
    /// program for which this prints the same.
    pub fn session_format(&self) -> impl fmt::Debug + '_ {
        (&self.layout, &self.units, &self.placement)
    }
}

impl<V> Skewed<V> {
    /// With the chunks before the last one (`whole`), or without them where rows take their place.
    fn restore<E>(
        (layout, columns, blocks): (&Layout, &Columns, Blocks),
        chunk: usize,
        next: &mut impl FnMut() -> Result<V, E>,
        whole: bool,
    ) -> Result<Self, E> {
        let mut some = |count: usize| (0..count).map(|_| next()).collect::<Result<Vec<V>, E>>();
        let each = blocks.count * layout.parts;
        let mut all = Skewed::new(layout.width);
        if let Some(rows) = all.rows.as_mut().filter(|_| chunk > 0) {
            for filled in columns.filled(layout, chunk).repeat(blocks.count) {
                rows.push(some(if filled { layout.width } else { 0 })?);
            }
        }
        if whole || all.rows.is_none() {
            all.past = (0..chunk).map(|_| some(each)).collect::<Result<_, E>>()?;
        }
        all.last = some(each)?;
        Ok(all)
    }
}

impl<V: Clone + Send + Sync> Skewed<V> {
    /// Appends the vectors of a block of heads that a pass needs.
    fn of_block<M>(
        &self,
        context: &Context<'_, M>,
        block: usize,
        level: usize,
        all: &mut Vec<V>,
    ) -> Result<(), PassError>
    where
        M: PassEvaluator<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        let (parts, vectors) = (context.program.layout.parts, context.columns.vectors);
        let own = |skewed: &[V]| context.lowered(&skewed[block * parts..][..parts], level);
        match &self.rows {
            Some(rows) if rows.is_empty() => {}
            Some(rows) => {
                for rows in &rows[block * vectors..][..vectors] {
                    all.extend(context.lowered(rows, level.saturating_sub(1))?);
                }
            }
            None => {
                for chunk in &self.past {
                    all.extend(own(chunk)?);
                }
            }
        }
        all.extend(own(&self.last)?);
        Ok(())
    }

    fn finish<M>(&mut self, context: &Context<'_, M>, role: Role, chunk: usize) -> Result<(), PassError>
    where
        M: PassEvaluator<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        let last = std::mem::take(&mut self.last);
        if let Some(rows) = &mut self.rows {
            rows.resize(context.blocks.count * context.columns.vectors, Vec::new());
            context.add_rows(rows, &last, (role, chunk))?;
        }
        self.past.push(last);
        Ok(())
    }

    /// What [`Skewed::finish`] did, undone: chunk `chunk`, the last final one, is no longer final.
    fn reopen<M>(&mut self, context: &Context<'_, M>, role: Role, chunk: usize) -> Result<(), PassError>
    where
        M: PassEvaluator<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        self.last = self.past.pop().unwrap_or_default();
        let Some(rows) = &mut self.rows else { return Ok(()) };
        let mut own = vec![Vec::new(); rows.len()];
        context.add_rows(&mut own, &self.last, (role, chunk))?;
        let remain = context.columns.filled(context.layout(), chunk).repeat(context.blocks.count);
        for ((rows, own), remain) in rows.iter_mut().zip(own).zip(remain) {
            let less = rows.iter().zip(&own).map(|(all, own)| context.arithmetic().sub(all, own));
            if !remain {
                rows.clear();
            } else if !own.is_empty() {
                *rows = less.collect::<Result<_, CkksError>>()?;
            }
        }
        Ok(())
    }

    /// The rows that queries of each part see, at `level`, or at their own if that is lower.
    fn seen<M>(&self, context: &Context<'_, M>, role: Role, level: usize) -> Result<SeenRows<V>, PassError>
    where
        M: PassEvaluator<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        let (layout, vectors) = (&context.program.layout, context.columns.vectors);
        let mut past = vec![Vec::new(); context.blocks.count * vectors];
        match &self.rows {
            Some(rows) => past.iter_mut().zip(rows).for_each(|(past, rows)| past.clone_from(rows)),
            None => {
                for (chunk, skewed) in self.past.iter().enumerate() {
                    context.add_rows(&mut past, &context.lowered(skewed, level + 1)?, (role, chunk))?;
                }
            }
        }
        let mut rows: Vec<Vec<V>> = past.into_iter().flat_map(|rows| vec![rows; layout.parts]).collect();
        for (index, skewed) in context.lowered(&self.last, level + 1)?.iter().enumerate() {
            let (block, of) = (index / layout.parts, index % layout.parts);
            let place = block * vectors + context.vector_of(context.chunk, of);
            let at = (context.chunk, of);
            if of + 1 == layout.parts {
                let [own] = context.rows(skewed, (role, [Visible::NotLater]), at)?;
                context.plus_into(&mut rows[place * layout.parts + of], own)?;
                continue;
            }
            let [own, all] = context.rows(skewed, (role, [Visible::NotLater, Visible::All]), at)?;
            context.plus_into(&mut rows[place * layout.parts + of], own)?;
            for part in of + 1..layout.parts {
                context.plus_into(&mut rows[place * layout.parts + part], all.clone())?;
            }
        }
        Ok(SeenRows { rows, vectors, parts: layout.parts })
    }
}

impl<V> LayerCache<V> {
    /// Builds the cache of blocks of heads from its vectors, the vectors of keys first: all of them (`whole`), or those
    /// that a pass needs.
    pub(crate) fn restore<E>(
        place: (&Layout, &Columns, Blocks),
        chunk: usize,
        next: &mut impl FnMut() -> Result<V, E>,
        whole: bool,
    ) -> Result<Self, E> {
        let keys = Skewed::restore(place, chunk, next, whole)?;
        Ok(LayerCache { keys, values: Skewed::restore(place, chunk, next, whole)? })
    }
}

impl<V: Clone + Send + Sync> LayerCache<V> {
    /// The vectors of a block of heads that a pass needs, in the order of [`LayerCache::restore`]: skewed keys and
    /// values at these levels, rows one level below, or at their own level if it is lower.
    pub(crate) fn of_block<M>(
        &self,
        context: &Context<'_, M>,
        block: usize,
        levels: [usize; 2],
    ) -> Result<Vec<V>, PassError>
    where
        M: PassEvaluator<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        let mut all = Vec::new();
        for (skewed, level) in [&self.keys, &self.values].into_iter().zip(levels) {
            skewed.of_block(context, block, level, &mut all)?;
        }
        Ok(all)
    }

    /// Replaces the last chunk.
    pub(crate) fn replace(&mut self, role: Role, skewed: Vec<V>) {
        let cache = if role == Role::Keys { &mut self.keys } else { &mut self.values };
        cache.last = skewed;
    }

    /// Skewed vectors of the last chunk.
    pub(crate) fn last(&self, role: Role) -> &[V] {
        if role == Role::Keys { &self.keys.last } else { &self.values.last }
    }

    /// The rows that queries of each part see, at `level`, or at their own if that is lower.
    pub(crate) fn seen<M>(&self, context: &Context<'_, M>, role: Role, level: usize) -> Result<SeenRows<V>, PassError>
    where
        M: PassEvaluator<Vector = V> + Sync,
        M::Arithmetic: Sync,
    {
        if role == Role::Keys { self.keys.seen(context, role, level) } else { self.values.seen(context, role, level) }
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
