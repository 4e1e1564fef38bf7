//! The part of a description that all applications of index queries share.

use unspoken_ckks::{CkksParameters, Slots};
use unspoken_encrypt::{Needs, Plan};
use unspoken_protocol::limits::Bootstraps;
use unspoken_protocol::{CkksHeader, Keyring, ProtocolError, limits, output_bytes};

use crate::codec::{QueryCodec, QueryForm, QueryShape};
use crate::error::QueryError;
use crate::small::{SmallAnswer, SmallQuery};

/// Maximum number of subtables.
const MAX_SUBTABLES: u32 = 64;

/// Maximum number of columns of a subtable, padding included.
const MAX_COLUMNS: u32 = 4096;

/// The fields of an application's own message that describe its index queries.
#[derive(Clone, Copy, Debug)]
pub struct IndexFields<'a> {
    /// Number of subtables.
    pub subtables: u32,
    /// Number of columns, padded to a power of two.
    pub columns: u32,
    /// Level at which queries are encrypted, at the preset's scale.
    pub query_level: u32,
    /// Name of the form of query.
    pub query_form: &'a str,
    /// Shortest period of a small query ([`SmallQuery`]), a power of two; 0 if the server takes none.
    pub small_period: u32,
}

/// The header of a description, and the form and shape of its index queries. Client halves encrypt and decrypt with it.
#[derive(Clone, Debug)]
pub struct IndexDescription {
    header: CkksHeader,
    codec: QueryCodec,
    form: QueryForm,
    /// Shortest period of a small query.
    small_period: Option<usize>,
}

impl IndexDescription {
    /// Maximum number of columns of a subtable, padding included.
    pub const MAX_COLUMNS: usize = MAX_COLUMNS as usize;

    /// A description made by a server.
    ///
    /// # Errors
    /// If no form has this name, or it is compact and the parameters are not made for bootstrapping.
    pub fn new(header: CkksHeader, fields: IndexFields<'_>) -> Result<Self, QueryError> {
        let form: QueryForm = fields.query_form.parse()?;
        let shape = QueryShape {
            parameters: header.parameters().clone(),
            subtables: fields.subtables as usize,
            columns: fields.columns as usize,
            level: fields.query_level as usize,
        };
        let small_period = (fields.small_period > 0).then_some(fields.small_period as usize);
        if let Some(period) = small_period {
            SmallQuery::new(shape.clone(), period)?;
        }
        Ok(IndexDescription { codec: QueryCodec::new(form, shape)?, header, form, small_period })
    }

    /// A description from untrusted fields.
    ///
    /// # Errors
    /// Those of [`IndexDescription::new`], or if the shape is invalid, or a client would have to make keys without a
    /// use or queries beyond the [`limits`](unspoken_protocol::limits).
    pub fn checked(header: CkksHeader, fields: IndexFields<'_>) -> Result<Self, QueryError> {
        let plausible = (1..=MAX_SUBTABLES).contains(&fields.subtables)
            && (2..=MAX_COLUMNS).contains(&fields.columns)
            && fields.columns.is_power_of_two()
            && fields.query_level as usize <= header.parameters().max_level()
            && (fields.small_period == 0 || fields.query_form == QueryForm::Direct.to_string());
        if !plausible {
            return Err(QueryError::mismatch("shape of queries", format!("{fields:?}"), "one that fits the preset"));
        }
        let description = Self::new(header, fields)?;
        let compact = description.form == QueryForm::Compact;
        description.header.check_use(if compact { Bootstraps::Queries } else { Bootstraps::Nothing })?;
        CkksHeader::check_query_bytes(description.codec.byte_len())?;
        Ok(description)
    }

    /// The header.
    pub fn header(&self) -> &CkksHeader {
        &self.header
    }

    /// [`CkksHeader::keep_error_bound`] of the header.
    pub fn keep_error_bound(&mut self, earlier: &Self) {
        self.header.keep_error_bound(&earlier.header);
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.header.parameters()
    }

    /// The form of query.
    pub fn form(&self) -> QueryForm {
        self.form
    }

    /// The codec of queries.
    pub fn codec(&self) -> &QueryCodec {
        &self.codec
    }

    /// The small query whose vectors hold `slots` slots: that of the shortest period. `None` if the server takes none
    /// of this length, so that a full query has to be sent.
    pub fn small_query(&self, slots: usize) -> Option<SmallQuery> {
        let period = slots.checked_next_power_of_two()?.max(self.small_period?);
        SmallQuery::new(self.codec.shape().clone(), period).ok()
    }

    /// The answer to a small query: that many outputs, which repeat after `period` slots.
    ///
    /// # Errors
    /// Those of [`SmallAnswer::new`].
    pub fn small_answer(&self, period: usize, outputs: usize) -> Result<SmallAnswer, QueryError> {
        SmallAnswer::new(self.parameters(), period, outputs)
    }

    /// Length of a small query in bytes.
    pub fn small_query_bytes(&self, query: &SmallQuery) -> usize {
        self.header.packed_bytes(1, query.byte_len())
    }

    /// Length of the answer to a small query in bytes.
    pub fn small_answer_bytes(&self, answer: &SmallAnswer) -> usize {
        self.header.packed_bytes(answer.vectors(), answer.byte_len())
    }

    /// Encrypts a small query of indices, one list per subtable, as in [`SmallQuery::encrypt`].
    ///
    /// # Errors
    /// Those of [`SmallQuery::encrypt`].
    pub fn encrypt_small(
        &self,
        keyring: &Keyring,
        query: &SmallQuery,
        indices: &[Vec<Option<usize>>],
    ) -> Result<Vec<u8>, QueryError> {
        Ok(self.header.pack(vec![query.encrypt(keyring.encryptor(), indices)?]))
    }

    /// Decrypts the answer to a small query: one period of each output, times the header's unit.
    ///
    /// # Errors
    /// If the answer is malformed, of another model, or has another number of vectors.
    pub fn decrypt_small(
        &self,
        keyring: &Keyring,
        answer: &SmallAnswer,
        bytes: &[u8],
    ) -> Result<Vec<Slots>, ProtocolError> {
        let packed = self.header.unpack("answer", bytes, self.small_answer_bytes(answer), answer.vectors())?;
        answer.open(keyring, &packed)
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.header.packed_bytes(self.codec.vectors(), self.codec.byte_len())
    }

    /// Refuses answers of that many vectors if they exceed the [`limits`] even at the lowest level, at which services
    /// send them.
    ///
    /// # Errors
    /// If they do.
    pub fn check_answer_bytes(&self, vectors: usize) -> Result<(), ProtocolError> {
        CkksHeader::check_answer_bytes(vectors.saturating_mul(output_bytes(self.parameters(), 0)))
    }

    /// Maximum length in bytes of an answer with that many vectors, none of which has a higher level than the query; at
    /// most that of the [`limits`].
    pub fn answer_bytes(&self, vectors: usize) -> usize {
        let vector = output_bytes(self.parameters(), self.codec.shape().level);
        let bytes = vectors.saturating_mul(vector).min(limits::MOST_ANSWER_BYTES as usize);
        self.header.packed_bytes(vectors, bytes)
    }

    /// Refuses a query with no questions, or with more than its slots hold.
    ///
    /// # Errors
    /// If there are not 1 to `most` questions.
    pub fn check_batch(questions: usize, most: usize) -> Result<(), QueryError> {
        if (1..=most).contains(&questions) {
            return Ok(());
        }
        Err(QueryError::mismatch("query", format!("{questions} questions"), format!("1 to {most}")))
    }

    /// Keeps encryptions of zero ready in the keyring from now on; `needs.burst` counts queries.
    ///
    /// # Errors
    /// If the operating system has no randomness or no thread.
    pub fn prepare(&self, keyring: &mut Keyring, needs: Needs) -> Result<Plan, ProtocolError> {
        let burst = needs.burst.saturating_mul(self.codec.slot_vectors());
        keyring.prepare(self.codec.shape().level, Needs { burst, ..needs })
    }

    /// Encrypts a query of indices: one list per subtable with one entry per slot, as in [`QueryCodec::encrypt`].
    ///
    /// # Errors
    /// Those of [`QueryCodec::encrypt`].
    pub fn encrypt(&self, keyring: &Keyring, indices: &[Vec<Option<usize>>]) -> Result<Vec<u8>, QueryError> {
        Ok(self.header.pack(self.codec.encrypt(keyring.encryptor(), indices)?))
    }

    /// Decrypts an answer with that many vectors and returns the first `slots` slots of each.
    ///
    /// # Errors
    /// If the answer is malformed, of another model, or has another number of vectors.
    pub fn decrypt(
        &self,
        keyring: &Keyring,
        answer: &[u8],
        vectors: usize,
        slots: usize,
    ) -> Result<Vec<Slots>, ProtocolError> {
        let packed = self.header.unpack("answer", answer, self.answer_bytes(vectors), vectors)?;
        if packed.len() != vectors || slots > self.parameters().slots() {
            let found = format!("{} vectors", packed.len());
            let needed = format!("{vectors} of at least {slots} slots");
            return Err(ProtocolError::mismatch("answer", found, needed));
        }
        let open = |vector: &Vec<u8>| {
            let mut opened = keyring.open(vector)?;
            opened.truncate(slots);
            Ok(opened)
        };
        packed.iter().map(open).collect()
    }
}
