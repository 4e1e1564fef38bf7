//! How indices travel: the client's half and the server's half of each form of query, in one place.
//!
//! A query is a list of byte strings, which the application frames as it likes. Whatever the indices are, it has the same
//! number of strings of the same lengths; a slot without an index is padded, and the server cannot tell.

mod compact;
mod direct;
mod one_hot;

use std::fmt;
use std::str::FromStr;

use unspoken_ckks::{Bootstrapper, Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, SeededCiphertext};
use unspoken_encrypt::Encryptor;
use unspoken_protocol::Ledger;
use unspoken_ring::Basis;
use unspoken_rlwe::KeyPlan;
use zeroize::Zeroize;

pub use compact::Compact;
pub use direct::Direct;
pub use one_hot::OneHot;

use crate::error::LookupError;
use crate::lookup::Lookup;
use crate::plan::QueryForm;
use crate::powers::query_scale;
use crate::table::padded_columns;

/// A form of query, with all that its two sides must agree on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Query {
    /// One vector per subtable, at the level the lookup needs.
    Direct(Direct),
    /// One vector per column and subtable.
    OneHot(OneHot),
    /// One torus element per index, to be bootstrapped.
    Compact(Compact),
}

/// The forms by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// [`Query::Direct`].
    Direct,
    /// [`Query::OneHot`].
    OneHot,
    /// [`Query::Compact`].
    Compact,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 3] = [Form::Direct, Form::OneHot, Form::Compact];

    /// Width of a table of `columns` columns whose queries take this form. Compact queries have no zero to pad with, so they
    /// need a column that is zero, the last one.
    pub fn padded_columns(self, columns: usize) -> usize {
        padded_columns(columns + usize::from(self == Form::Compact))
    }

    /// What slots hold for plans that are evaluated in complex slots.
    fn values(self) -> QueryForm {
        if self == Form::OneHot { QueryForm::OneHot } else { QueryForm::Alpha }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Direct => "direct",
            Form::OneHot => "one-hot",
            Form::Compact => "compact",
        })
    }
}

impl FromStr for Form {
    type Err = LookupError;

    fn from_str(name: &str) -> Result<Self, LookupError> {
        let unknown = || refuse("a form of query", name.into(), "direct, one-hot or compact".into());
        Form::ALL.into_iter().find(|form| form.to_string() == name).ok_or_else(unknown)
    }
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

impl Frame {
    fn of(lookup: &Lookup) -> Self {
        let (subtables, _, columns) = lookup.shape();
        Frame { parameters: lookup.parameters().clone(), subtables, columns, level: lookup.input_level() }
    }
}

impl Query {
    /// The form whose vectors a lookup takes as they are.
    pub fn of(lookup: &Lookup) -> Self {
        let frame = Frame::of(lookup);
        match lookup.plan().query_form() {
            QueryForm::OneHot => Query::OneHot(OneHot::new(frame)),
            values => Query::Direct(Direct::new(frame, values)),
        }
    }

    /// Queries of a form and a shape, for plans in complex slots: what both sides can tell without the tables.
    ///
    /// # Errors
    /// If the form is compact and the parameters are not made for bootstrapping, or the bootstrap ends below the frame's
    /// level.
    pub fn new(form: Form, frame: Frame) -> Result<Self, LookupError> {
        Ok(match form {
            Form::Direct => Query::Direct(Direct::new(frame, form.values())),
            Form::OneHot => Query::OneHot(OneHot::new(frame)),
            Form::Compact => Query::Compact(Compact::new(frame)?),
        })
    }

    /// Queries of a form for a lookup.
    ///
    /// # Errors
    /// As for [`Query::new`], or if the lookup's plan takes something else than the form brings.
    pub fn for_lookup(form: Form, lookup: &Lookup) -> Result<Self, LookupError> {
        if lookup.plan().query_form() != form.values() {
            let needed = format!("one for {form} queries in complex slots");
            return Err(refuse("a plan", lookup.plan().to_string(), needed));
        }
        Self::new(form, Frame::of(lookup))
    }

    /// Encrypts indices, one list per subtable with one entry per slot: `None` and missing ones are padded. Every call draws
    /// fresh seeds and errors, or takes encryptions of zero that nobody else gets: that queries share none rests on this.
    ///
    /// # Errors
    /// If there are too many slots, an index is beyond the columns, the encryptor is of other parameters or, for compact
    /// queries, has no secret.
    pub fn encrypt(&self, encryptor: &Encryptor, indices: &[Vec<Option<usize>>]) -> Result<Vec<Vec<u8>>, LookupError> {
        let Frame { parameters, level, .. } = self.frame();
        let scale = query_scale(parameters, *level);
        self.check_indices(indices)?;
        if let Query::Compact(compact) = self {
            let (secret, mut rng) = (compact.secret(encryptor.key())?, encryptor.randomness()?);
            return indices.iter().map(|indices| compact.encrypt_vector(&secret, indices, &mut rng)).collect();
        }
        let mut vectors = Vec::with_capacity(self.vectors());
        let mut slots = SecretSlots(vec![Complex64::default(); parameters.slots()]);
        for indices in indices {
            for vector in 0..self.values().vectors(self.frame().columns) {
                let padded = indices.iter().copied().chain(std::iter::repeat(None));
                let value = |index| self.values().value(index, self.frame().columns, vector);
                slots.0.iter_mut().zip(padded).for_each(|(slot, index)| *slot = value(index));
                vectors.push(encryptor.encrypt_at(&slots.0, *level, scale)?.to_bytes(parameters));
            }
        }
        Ok(vectors)
    }

    fn check_count(&self, vectors: &[Vec<u8>]) -> Result<(), LookupError> {
        if vectors.len() == self.vectors() {
            return Ok(());
        }
        let needed = format!("{} for {} subtables", self.vectors(), self.frame().subtables);
        Err(refuse("the number of vectors", vectors.len().to_string(), needed))
    }

    /// Number of vectors.
    pub fn vectors(&self) -> usize {
        self.frame().subtables * self.values().vectors(self.frame().columns)
    }

    /// Number of its vectors that an encryption of zero made ahead can carry: all, or none of a compact query.
    pub fn slot_vectors(&self) -> usize {
        if matches!(self, Query::Compact(_)) { 0 } else { self.vectors() }
    }

    /// Bytes of all its vectors.
    pub fn byte_len(&self) -> usize {
        let vector = match self {
            Query::Compact(compact) => compact.vector_bytes(),
            _ => SeededCiphertext::byte_len(&self.frame().parameters, self.frame().level),
        };
        self.vectors() * vector
    }

    /// Its shape.
    pub fn frame(&self) -> &Frame {
        match self {
            Query::Direct(direct) => direct.frame(),
            Query::OneHot(one_hot) => one_hot.frame(),
            Query::Compact(compact) => compact.frame(),
        }
    }

    fn values(&self) -> QueryForm {
        match self {
            Query::Direct(direct) => direct.values(),
            Query::OneHot(_) => QueryForm::OneHot,
            Query::Compact(_) => QueryForm::Alpha,
        }
    }

    fn check_indices(&self, indices: &[Vec<Option<usize>>]) -> Result<(), LookupError> {
        let refuse = |what, found, needed| Err(refuse(what, found, needed));
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

/// Slots of a query, wiped when dropped.
struct SecretSlots(Vec<Complex64>);

impl Drop for SecretSlots {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|z| {
            z.re.zeroize();
            z.im.zeroize();
        });
    }
}

fn refuse(what: &'static str, found: String, needed: String) -> LookupError {
    LookupError::Query { what, found, needed }
}

/// Polynomials of the whole extended basis that a bootstrap has in memory at once.
const BOOTSTRAP_POLYNOMIALS: usize = 64;

/// The server's side of a form of query: with what it takes to bootstrap, if it is compact.
pub struct QueryReader {
    query: Query,
    bootstrapper: Option<Bootstrapper>,
    ledger: Ledger,
}

impl QueryReader {
    /// Makes ready for queries of this form. For compact ones this encodes the bootstrap's matrices, which take
    /// [`Bootstrap::bytes`](unspoken_ckks::Bootstrap::bytes) of memory at most.
    ///
    /// # Errors
    /// If the matrices do not encode.
    pub fn new(encoder: &Encoder, query: Query) -> Result<Self, LookupError> {
        let bootstrapper = match &query {
            Query::Compact(compact) => Some(Bootstrapper::from_coefficients(encoder, compact.bootstrap()?)?),
            Query::Direct(_) | Query::OneHot(_) => None,
        };
        Ok(QueryReader { query, bootstrapper, ledger: Ledger::default() })
    }

    /// The form of query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The keys it needs to make a lookup's vectors of a query; none unless that is compact.
    pub fn key_plan(&self) -> KeyPlan {
        self.bootstrapper.as_ref().map(|bootstrapper| bootstrapper.plan().query_key_plan()).unwrap_or_default()
    }

    /// Bytes a bootstrap's encoded matrices take in memory. 0 without one.
    pub fn prepared_bytes(&self) -> u64 {
        self.bootstrapper.as_ref().map_or(0, |bootstrapper| bootstrapper.plan().bytes() as u64)
    }

    /// Bytes of memory a bootstrap takes while it runs: the inputs and the sums of one linear map, twice over. 0 without one.
    pub fn working_bytes(&self) -> u64 {
        let ring = self.query.frame().parameters.ring();
        let whole = ring.poly_bytes(Basis::extended(ring.chain().len()));
        if self.bootstrapper.is_some() { (BOOTSTRAP_POLYNOMIALS * whole) as u64 } else { 0 }
    }

    /// Reads a query of untrusted bytes into the vectors of a [`Lookup`], whose own check sees to their level and scale.
    ///
    /// # Errors
    /// If their number is wrong, one is malformed, or a seed comes twice, in this query or with another vector in an earlier
    /// one: the difference of such a pair is that of its messages, in the clear but for small errors. Or if the bootstrap of
    /// a compact query fails: keys are missing, or the evaluator was cancelled.
    pub fn read(&self, evaluator: &Evaluator<'_>, vectors: &[Vec<u8>]) -> Result<Vec<Ciphertext>, LookupError> {
        self.query.check_count(vectors)?;
        let (Query::Compact(compact), Some(bootstrapper)) = (&self.query, &self.bootstrapper) else {
            return Ok(self.ledger.read(&self.query.frame().parameters, vectors)?);
        };
        let queries = vectors.iter().map(|bytes| compact.read_vector(bytes)).collect::<Result<Vec<_>, _>>()?;
        self.ledger.admit(queries.iter().map(|query| query.seed().as_slice()), vectors)?;
        queries.iter().map(|query| compact.open(evaluator, bootstrapper, query)).collect()
    }
}
