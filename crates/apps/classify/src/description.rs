//! The description of a classifier, which client and server must both know, and what the kinds of classifiers differ
//! in.

use std::borrow::Borrow;
use std::fmt::Debug;

use prost::Message;
use unspoken_ckks::CkksParameters;
use unspoken_protocol::{ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol};
use unspoken_query::{IndexDescription, IndexFields, QueryForm, ShortCompact};
use zeroize::Zeroizing;

use crate::error::ClassifyError;
use crate::proto;

/// A kind of classifiers: what a client has of the model, how it reads texts, and what it makes of the sums that a
/// service adds up over their tokens.
pub trait Kind: Clone + Debug + Send + Sync + 'static {
    /// Kind and version of the messages.
    const PROTOCOL: Protocol;

    /// Whether clients refuse texts with more tokens than a service reads. Then no description may read fewer tokens
    /// than an earlier one: a service that describes any number it likes could find the length of a text by bisection.
    const REFUSES_LONG_TEXTS: bool;

    /// The client's half of a model, and its options.
    type Model: Clone + Send;
    /// What a description has beside the shape of the tables.
    type Own: Clone + Debug + Send + Sync;

    /// Reads [`Kind::Own`] from the untrusted bytes of a description with `classes` classes.
    ///
    /// # Errors
    /// If it is malformed or implausible.
    fn read_own(bytes: &[u8], classes: usize) -> Result<Self::Own, ClassifyError>;

    /// Encodes [`Kind::Own`], with tags from 20.
    fn own_bytes(own: &Self::Own) -> Vec<u8>;

    /// Refuses a service whose tables are not those of the model.
    ///
    /// # Errors
    /// If they are not.
    fn check_model(model: &Self::Model, description: &ScoreDescription<Self>) -> Result<(), ClassifyError>;

    /// Label of each class, in the order of the scores.
    fn labels<'a>(model: &'a Self::Model, own: &'a Self::Own) -> &'a [String];

    /// The tokens of texts, of which a service reads at most `most` each.
    ///
    /// # Errors
    /// If the codes of the model are invalid.
    fn read_texts<Q: Borrow<str>>(
        model: &Self::Model,
        texts: &[Q],
        most: usize,
    ) -> Result<Vec<TextTokens>, ClassifyError>;

    /// The scores of a text, from the sums over its tokens and their [number](TextTokens::number).
    fn scores(own: &Self::Own, sums: Vec<f64>, number: usize) -> Vec<f64>;

    /// Largest magnitude of what [`Kind::scores`] adds to the sums.
    fn largest_constant(own: &Self::Own) -> f64;
}

/// The tokens of a text. Wiped when dropped.
pub struct TextTokens {
    /// For each token its column of each subtable.
    pub codes: Zeroizing<Vec<u16>>,
    /// Number of tokens by which the sums are divided; 1 if they are not divided.
    pub number: Zeroizing<usize>,
    /// Number of the tokens, if the service does not read so many. No token is sent then.
    pub too_many: Option<usize>,
}

/// Data that a client needs to ask questions: made by the server, checked by the client. The header, the shape of the
/// tables and the queries, and what the kind adds. Clients encrypt and decrypt with it.
#[derive(Clone, Debug)]
pub struct ScoreDescription<K: Kind> {
    /// The header, and the form and shape of the queries.
    index: IndexDescription,
    shape: proto::Shape,
    pub(crate) own: K::Own,
}

impl<K: Kind> ScoreDescription<K> {
    pub(crate) fn new(header: CkksHeader, shape: proto::Shape, own: K::Own) -> Result<Self, ClassifyError> {
        Ok(ScoreDescription { index: IndexDescription::new(header, fields(&shape))?, shape, own })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// The errors of [`CkksHeader::read`], also for an insecure preset, or if the shape of the tables or what the kind
    /// adds is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Self::read(bytes, false)
    }

    /// Like [`ScoreDescription::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// The errors of [`ScoreDescription::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Self::read(bytes, true)
    }

    /// Serialises the description.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut fields = self.shape.encode_to_vec();
        fields.extend(K::own_bytes(&self.own));
        self.header().to_bytes_with(&fields)
    }

    /// The form and shape of the queries.
    pub fn index(&self) -> &IndexDescription {
        &self.index
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.index.parameters()
    }

    /// Maximum number of texts in one query.
    pub fn batch(&self) -> usize {
        self.index.batch()
    }

    /// Number of subtables.
    pub fn subtables(&self) -> usize {
        self.shape.subtables as usize
    }

    /// Whether a client's tables of `columns` columns fit the server's tables, which are padded.
    pub fn has_columns(&self, columns: usize) -> bool {
        self.query_form().padded_columns(columns) == self.shape.columns as usize
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.shape.classes as usize
    }

    /// Maximum number of tokens in a text. Shorter texts are padded, which the server cannot see.
    pub fn max_tokens(&self) -> usize {
        self.shape.max_tokens as usize
    }

    /// Whether queries of few texts may be short: much shorter than [`ScoreDescription::query_bytes`], and longer with
    /// more texts, in steps of a factor of two.
    pub fn has_short_queries(&self) -> bool {
        self.index.has_short_queries()
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.index.full_query_bytes()
    }

    /// Form of queries.
    pub fn query_form(&self) -> QueryForm {
        self.index.form()
    }

    /// The shape, for error messages.
    pub fn shape_text(&self) -> String {
        let proto::Shape { subtables, columns, classes, max_tokens, .. } = self.shape;
        format!("{subtables} subtables of {columns} columns, {classes} classes, {max_tokens} tokens of a text")
    }
}

impl<K: Kind> ApplicationDescription for ScoreDescription<K> {
    type Error = ClassifyError;

    const PROTOCOL: Protocol = K::PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, ClassifyError> {
        let (header, shape) = CkksHeader::read::<proto::Shape>(bytes, K::PROTOCOL, accept_insecure)?;
        // Services that chose a shorter period would see the number of texts.
        let period = if shape.query_form == QueryForm::Compact.to_string() {
            ShortCompact::most_period(header.parameters(), shape.subtables as usize).unwrap_or(0)
        } else {
            shape.max_tokens as usize
        };
        let plausible = (2..=1024).contains(&shape.classes)
            && shape.max_tokens.is_power_of_two()
            && shape.max_tokens as usize <= header.parameters().slots()
            && header.bound() > 0.0
            && [0, period].contains(&(shape.short_period as usize));
        if !plausible {
            return Err(ClassifyError::mismatch("model shape", format!("{shape:?}"), "one that fits the preset"));
        }
        let index = IndexDescription::checked(header, fields(&shape))?;
        let own = K::read_own(bytes, shape.classes as usize)?;
        Ok(ScoreDescription { index, shape, own })
    }

    fn key_set(&self) -> KeySetId {
        self.header().key_set()
    }

    fn keep_from(&mut self, earlier: &Self) {
        self.index.keep_error_bound(&earlier.index);
    }
}

impl<K: Kind> CkksDescription for ScoreDescription<K> {
    fn header(&self) -> &CkksHeader {
        self.index.header()
    }
}

fn fields(shape: &proto::Shape) -> IndexFields<'_> {
    IndexFields {
        subtables: shape.subtables,
        columns: shape.columns,
        query_level: shape.query_level,
        query_form: &shape.query_form,
        short_period: shape.short_period,
        strided: (0, 0),
        question_slots: shape.max_tokens as usize,
        // Two scores share a slot.
        outputs: (shape.classes as usize).div_ceil(2),
    }
}
