//! Encodings of indices in queries: the client's half and the server's half of each form.
//!
//! A query is a list of byte strings; the application defines how they are framed. The number of strings and their
//! lengths do not depend on the indices. A slot without an index is padded, and the server cannot distinguish it.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

use unspoken_ckks::{Complex64, SeededCiphertext, Slots};
use unspoken_encrypt::Encryptor;
use unspoken_lookup::{IndexEncoder, IndexEncoding, Lookup, index_or, padded_columns, query_scale};
use unspoken_ring::RingKind;

use crate::QueryShape;
use crate::compact::Compact;
use crate::direct::Direct;
use crate::error::QueryError;
use crate::one_hot::OneHot;
use crate::short_compact::ShortCompact;

/// A form of query, with everything on which its two sides must agree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum QueryCodec {
    /// One vector per subtable, at the level that the lookup needs.
    Direct(Direct),
    /// One vector per column and subtable.
    OneHot(OneHot),
    /// One torus element per index, to be bootstrapped.
    Compact(Compact),
    /// The same for few slots: one vector for all subtables.
    ShortCompact(ShortCompact),
}

/// Names of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryForm {
    /// [`QueryCodec::Direct`].
    Direct,
    /// [`QueryCodec::OneHot`].
    OneHot,
    /// [`QueryCodec::ShortCompact`], or [`QueryCodec::Compact`] for full queries.
    Compact,
}

impl QueryForm {
    /// All forms.
    pub const ALL: [QueryForm; 3] = [QueryForm::Direct, QueryForm::OneHot, QueryForm::Compact];

    /// Width of a table of `columns` columns with queries of this form. Compact queries cannot encode a zero for
    /// padding, so they need a column that is zero, the last one.
    pub fn padded_columns(self, columns: usize) -> usize {
        padded_columns(columns + usize::from(self == QueryForm::Compact))
    }

    /// Content of the slots of a ring of this kind: points of the circle in complex slots, cosines in real ones.
    pub fn values(self, kind: RingKind) -> IndexEncoding {
        match (self, kind) {
            (QueryForm::OneHot, _) => IndexEncoding::OneHot,
            (QueryForm::Direct, RingKind::ConjugateInvariant) => IndexEncoding::Cosine,
            (QueryForm::Direct | QueryForm::Compact, _) => IndexEncoding::Alpha,
        }
    }
}

impl fmt::Display for QueryForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueryForm::Direct => "direct",
            QueryForm::OneHot => "one-hot",
            QueryForm::Compact => "compact",
        })
    }
}

impl FromStr for QueryForm {
    type Err = QueryError;

    fn from_str(name: &str) -> Result<Self, QueryError> {
        let unknown = || refuse("a form of query", name.into(), "direct, one-hot or compact".into());
        QueryForm::ALL.into_iter().find(|form| form.to_string() == name).ok_or_else(unknown)
    }
}

impl QueryCodec {
    /// The form of query whose vectors are a lookup's input without conversion.
    pub fn of(lookup: &Lookup) -> Self {
        let shape = QueryShape::of(lookup);
        match lookup.plan().index_encoding() {
            IndexEncoding::OneHot => QueryCodec::OneHot(OneHot::new(shape)),
            values => QueryCodec::Direct(Direct::new(shape, values)),
        }
    }

    /// Full queries of a form and a shape: both sides can derive it without the tables.
    ///
    /// # Errors
    /// If the form is compact and the parameters are not made for bootstrapping, or the bootstrap ends below the
    /// shape's level.
    pub fn new(form: QueryForm, shape: QueryShape) -> Result<Self, QueryError> {
        let values = form.values(shape.parameters.ring().kind());
        Ok(match form {
            QueryForm::Direct => QueryCodec::Direct(Direct::new(shape, values)),
            QueryForm::OneHot => QueryCodec::OneHot(OneHot::new(shape)),
            QueryForm::Compact => QueryCodec::Compact(Compact::new(shape)?),
        })
    }

    /// Full queries of a form for a lookup.
    ///
    /// # Errors
    /// The errors of [`QueryCodec::new`], or if the lookup's plan needs another index encoding than the form has.
    pub fn for_lookup(form: QueryForm, lookup: &Lookup) -> Result<Self, QueryError> {
        Self::check_plan(form, lookup)?;
        Self::new(form, QueryShape::of(lookup))
    }

    /// Short compact queries for a lookup, with `period` slots for each subtable.
    ///
    /// # Errors
    /// The errors of [`ShortCompact::new`], or if the lookup's plan needs another index encoding.
    pub fn short_compact(lookup: &Lookup, period: usize) -> Result<Self, QueryError> {
        Self::check_plan(QueryForm::Compact, lookup)?;
        Ok(QueryCodec::ShortCompact(ShortCompact::new(QueryShape::of(lookup), period)?))
    }

    fn check_plan(form: QueryForm, lookup: &Lookup) -> Result<(), QueryError> {
        let kind = lookup.parameters().ring().kind();
        if lookup.plan().index_encoding() != form.values(kind) {
            let needed = format!("one for {form} queries and the slots of preset {}", lookup.parameters().name());
            return Err(refuse("a plan", lookup.plan().to_string(), needed));
        }
        Ok(())
    }

    /// Encrypts indices, one list per subtable with one entry per slot: `None` and missing entries are padded. Every
    /// call draws fresh seeds and errors, or uses encryptions of zero that are used nowhere else. The security of
    /// queries depends on this.
    ///
    /// # Errors
    /// If there are too many slots, an index is not below the number of columns, the encryptor is of other parameters
    /// or, for compact queries, has no secret key.
    pub fn encrypt(&self, encryptor: &Encryptor, indices: &[Vec<Option<usize>>]) -> Result<Vec<Vec<u8>>, QueryError> {
        let QueryShape { parameters, level, .. } = self.shape();
        let scale = query_scale(parameters, *level);
        check_indices(self.shape(), self.slots(), indices)?;
        if let QueryCodec::ShortCompact(short) = self {
            let mut rng = encryptor.randomness()?;
            return Ok(vec![short.encrypt_vector(encryptor.key(), indices, &mut rng)?]);
        }
        if let QueryCodec::Compact(compact) = self {
            let (secret, mut rng) = (compact.secret(encryptor.key())?, encryptor.randomness()?);
            return indices.iter().map(|indices| compact.encrypt_vector(&secret, indices, &mut rng)).collect();
        }
        let encoder = IndexEncoder::new(self.values(), self.shape().columns);
        let mut vectors = Vec::with_capacity(self.vectors());
        let mut slots = Slots::from(vec![Complex64::default(); parameters.slots()]);
        for indices in indices {
            for vector in 0..encoder.vectors() {
                let padded = indices.iter().copied().chain(std::iter::repeat(None));
                slots.iter_mut().zip(padded).for_each(|(slot, index)| *slot = encoder.value(index, vector));
                vectors.push(encryptor.encrypt_at(&slots, *level, scale)?.to_bytes(parameters));
            }
        }
        Ok(vectors)
    }

    pub(crate) fn check_count(&self, vectors: &[Vec<u8>]) -> Result<(), QueryError> {
        if vectors.len() == self.vectors() {
            return Ok(());
        }
        let needed = format!("{} for {} subtables", self.vectors(), self.shape().subtables);
        Err(refuse("the number of vectors", vectors.len().to_string(), needed))
    }

    /// Number of slots for each subtable.
    pub fn slots(&self) -> usize {
        match self {
            QueryCodec::ShortCompact(short) => short.period(),
            _ => self.shape().parameters.slots(),
        }
    }

    /// Number of vectors.
    pub fn vectors(&self) -> usize {
        if matches!(self, QueryCodec::ShortCompact(_)) {
            return 1;
        }
        self.shape().subtables * self.values().vectors(self.shape().columns)
    }

    /// Number of vectors that an encryption of zero made in advance can encrypt: all, or none for a compact query.
    pub fn slot_vectors(&self) -> usize {
        if matches!(self, QueryCodec::Compact(_) | QueryCodec::ShortCompact(_)) { 0 } else { self.vectors() }
    }

    /// Bytes of all vectors; `usize::MAX` if there are more.
    pub fn byte_len(&self) -> usize {
        let vector = match self {
            QueryCodec::Compact(compact) => compact.vector_bytes(),
            QueryCodec::ShortCompact(short) => short.vector_bytes(),
            _ => SeededCiphertext::byte_len(&self.shape().parameters, self.shape().level),
        };
        self.vectors().saturating_mul(vector)
    }

    /// Shape of the queries.
    pub fn shape(&self) -> &QueryShape {
        match self {
            QueryCodec::Direct(direct) => direct.shape(),
            QueryCodec::OneHot(one_hot) => one_hot.shape(),
            QueryCodec::Compact(compact) => compact.shape(),
            QueryCodec::ShortCompact(short) => short.shape(),
        }
    }

    fn values(&self) -> IndexEncoding {
        match self {
            QueryCodec::Direct(direct) => direct.values(),
            QueryCodec::OneHot(_) => IndexEncoding::OneHot,
            QueryCodec::Compact(_) | QueryCodec::ShortCompact(_) => IndexEncoding::Alpha,
        }
    }
}

/// Refuses lists of indices that are not one for each subtable, of at most `slots` indices below the number of columns.
pub(crate) fn check_indices(
    shape: &QueryShape,
    slots: usize,
    indices: &[Vec<Option<usize>>],
) -> Result<(), QueryError> {
    let refuse = |what, found, needed| Err(refuse(what, found, needed));
    let QueryShape { subtables, columns, .. } = shape;
    if indices.len() != *subtables {
        let needed = format!("one per subtable, {subtables}");
        return refuse("the number of index lists", indices.len().to_string(), needed);
    }
    let longest = indices.iter().map(Vec::len).max().unwrap_or(0);
    if longest > slots {
        return refuse("the number of indices", longest.to_string(), format!("at most {slots}"));
    }
    let outside = |index: &Option<usize>| index_or(*index, 0) >= *columns;
    for (subtable, indices) in indices.iter().enumerate() {
        // All entries are compared, and a correct list takes no branch on one of them.
        let any = indices.iter().fold(0, |any, index| any | black_box(usize::from(outside(index))));
        if any == 0 {
            continue;
        }
        if let Some(slot) = indices.iter().position(outside) {
            // Reports the position and not the value, which is secret.
            let found = format!("a larger one in slot {slot} of subtable {subtable}");
            return refuse("an index", found, format!("below the {columns} columns"));
        }
    }
    Ok(())
}

fn refuse(what: &'static str, found: String, needed: String) -> QueryError {
    QueryError::mismatch(what, found, needed)
}
