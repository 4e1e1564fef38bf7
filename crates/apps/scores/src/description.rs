//! The part of a description that all applications of this crate share.

use prost::Message;
use unspoken_ckks::CkksParameters;
use unspoken_protocol::{CkksHeader, Protocol};
use unspoken_query::{IndexDescription, IndexFields, QueryForm, ShortCompact};

use crate::error::ScoreError;
use crate::proto;

/// The header of a description, and the shape of the tables and the queries. Client halves encrypt and decrypt with it.
#[derive(Clone, Debug)]
pub struct ScoreDescription {
    /// The header, and the form and shape of the queries.
    index: IndexDescription,
    shape: proto::Shape,
}

impl ScoreDescription {
    pub(crate) fn new(header: CkksHeader, shape: proto::Shape) -> Result<Self, ScoreError> {
        Ok(ScoreDescription { index: IndexDescription::new(header, fields(&shape))?, shape })
    }

    /// Reads a description from untrusted bytes and builds its parameters. Fields of the application's own are skipped.
    ///
    /// # Errors
    /// The errors of [`CkksHeader::read`], or if the shape of the tables is invalid.
    pub fn read(bytes: &[u8], protocol: Protocol, accept_insecure: bool) -> Result<Self, ScoreError> {
        let (header, shape) = CkksHeader::read::<proto::Shape>(bytes, protocol, accept_insecure)?;
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
            && [0, period].contains(&(shape.small_period as usize));
        if !plausible {
            return Err(ScoreError::mismatch("model shape", format!("{shape:?}"), "one that fits the preset"));
        }
        Ok(ScoreDescription { index: IndexDescription::checked(header, fields(&shape))?, shape })
    }

    /// Serialises the description, with the encoded fields of the application's own message: tags from 20, or none.
    pub fn to_bytes(&self, own: &[u8]) -> Vec<u8> {
        let mut fields = self.shape.encode_to_vec();
        fields.extend(own);
        self.header().to_bytes_with(&fields)
    }

    /// The header.
    pub fn header(&self) -> &CkksHeader {
        self.index.header()
    }

    /// The form and shape of the queries.
    pub fn index(&self) -> &IndexDescription {
        &self.index
    }

    /// [`CkksHeader::keep_error_bound`] of the header.
    pub fn keep_error_bound(&mut self, earlier: &Self) {
        self.index.keep_error_bound(&earlier.index);
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

    /// Whether queries of few texts may be small: much shorter than [`ScoreDescription::query_bytes`], and longer with
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

fn fields(shape: &proto::Shape) -> IndexFields<'_> {
    IndexFields {
        subtables: shape.subtables,
        columns: shape.columns,
        query_level: shape.query_level,
        query_form: &shape.query_form,
        small_period: shape.small_period,
        strided: (0, 0),
        question_slots: shape.max_tokens as usize,
        // Two scores share a slot.
        outputs: (shape.classes as usize).div_ceil(2),
    }
}
