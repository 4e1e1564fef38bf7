//! How indices travel: the client's half and the server's half of each form of query, in one place.
//!
//! A query is a list of byte strings, which the application frames as it likes. Whatever the indices are, it has the same
//! number of strings of the same lengths; a slot without an index is padded, and the server cannot tell.

mod direct;
mod one_hot;

use std::collections::HashSet;

use unspoken_ckks::{Ciphertext, CkksParameters, Complex64, Encoder, SeededCiphertext};
use unspoken_ring::SecretRng;
use unspoken_rlwe::SecretKey;

pub use direct::Direct;
pub use one_hot::OneHot;

use crate::error::LookupError;
use crate::lookup::Lookup;
use crate::plan::QueryForm;
use crate::powers::query_scale;

/// A form of query, with all that its two sides must agree on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Query {
    /// One vector per subtable, at the level the lookup needs.
    Direct(Direct),
    /// One vector per column and subtable.
    OneHot(OneHot),
}

/// The shape of a query.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The parameters.
    pub parameters: CkksParameters,
    /// Subtables `l`.
    pub subtables: usize,
    /// Columns `p`, padded as a [`Table`](crate::Table) pads them.
    pub columns: usize,
    /// The level of its vectors, whose scale is [`query_scale`].
    pub level: usize,
}

impl Query {
    /// The form whose vectors a lookup takes as they are.
    pub fn of(lookup: &Lookup) -> Self {
        let (subtables, _, columns) = lookup.shape();
        let frame = Frame { parameters: lookup.parameters().clone(), subtables, columns, level: lookup.input_level() };
        match lookup.plan().query_form() {
            QueryForm::OneHot => Query::OneHot(OneHot::new(frame)),
            values => Query::Direct(Direct::new(frame, values)),
        }
    }

    /// Encrypts indices, one list per subtable with one entry per slot: `None` and missing ones are padded. Every call draws
    /// fresh seeds and errors.
    ///
    /// # Errors
    /// If there are too many slots, an index is beyond the columns, or the secret is of other parameters.
    pub fn encrypt(
        &self,
        encoder: &Encoder,
        secret: &SecretKey,
        indices: &[Vec<Option<usize>>],
        rng: &mut SecretRng,
    ) -> Result<Vec<Vec<u8>>, LookupError> {
        let Frame { parameters, level, .. } = self.frame();
        let scale = query_scale(parameters, *level);
        self.check_indices(indices)?;
        let mut vectors = Vec::with_capacity(self.vectors());
        let mut slots = vec![Complex64::default(); parameters.slots()];
        for indices in indices {
            for vector in 0..self.values().vectors(self.frame().columns) {
                let padded = indices.iter().copied().chain(std::iter::repeat(None));
                let value = |index| self.values().value(index, self.frame().columns, vector);
                slots.iter_mut().zip(padded).for_each(|(slot, index)| *slot = value(index));
                let plaintext = encoder.encode(&slots, *level, scale)?;
                vectors.push(encoder.encrypt(&plaintext, secret, rng)?.to_bytes(parameters));
            }
        }
        slots.fill(Complex64::default());
        Ok(vectors)
    }

    /// Reads a query of untrusted bytes into the vectors of a [`Lookup`], whose own check sees to their level and scale.
    ///
    /// # Errors
    /// If their number is wrong, one is malformed, or two share a seed: the difference of such a pair would be the
    /// difference of their messages, in the clear but for small errors.
    pub fn read(&self, vectors: &[Vec<u8>]) -> Result<Vec<Ciphertext>, LookupError> {
        let refuse = |what, found: String, needed: String| LookupError::Query { what, found, needed };
        if vectors.len() != self.vectors() {
            let needed = format!("{} for {} subtables", self.vectors(), self.frame().subtables);
            return Err(refuse("the number of vectors", vectors.len().to_string(), needed));
        }
        let parameters = &self.frame().parameters;
        let read = |bytes: &Vec<u8>| SeededCiphertext::from_bytes(parameters, bytes);
        let seeded = vectors.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let seeds: HashSet<&[u8; 32]> = seeded.iter().map(SeededCiphertext::seed).collect();
        if seeds.len() != seeded.len() {
            return Err(refuse("a seed", "one used twice".into(), "a fresh seed for each vector".into()));
        }
        Ok(seeded.iter().map(|vector| vector.expand(parameters)).collect())
    }

    /// Number of vectors.
    pub fn vectors(&self) -> usize {
        self.frame().subtables * self.values().vectors(self.frame().columns)
    }

    /// Bytes of all its vectors.
    pub fn byte_len(&self) -> usize {
        self.vectors() * SeededCiphertext::byte_len(&self.frame().parameters, self.frame().level)
    }

    /// Its shape.
    pub fn frame(&self) -> &Frame {
        match self {
            Query::Direct(direct) => direct.frame(),
            Query::OneHot(one_hot) => one_hot.frame(),
        }
    }

    fn values(&self) -> QueryForm {
        match self {
            Query::Direct(direct) => direct.values(),
            Query::OneHot(_) => QueryForm::OneHot,
        }
    }

    fn check_indices(&self, indices: &[Vec<Option<usize>>]) -> Result<(), LookupError> {
        let refuse = |what, found: String, needed: String| Err(LookupError::Query { what, found, needed });
        let Frame { parameters, subtables, columns, .. } = self.frame();
        if indices.len() != *subtables {
            return refuse(
                "the number of index lists",
                indices.len().to_string(),
                format!("one per subtable, {subtables}"),
            );
        }
        let longest = indices.iter().map(Vec::len).max().unwrap_or(0);
        if longest > parameters.slots() {
            return refuse("the number of indices", longest.to_string(), format!("at most {}", parameters.slots()));
        }
        match indices.iter().flatten().flatten().max() {
            Some(&largest) if largest >= *columns => {
                refuse("an index", largest.to_string(), format!("below the {columns} columns"))
            }
            _ => Ok(()),
        }
    }
}
