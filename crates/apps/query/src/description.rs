//! The part of a description that all applications of index queries share.

use unspoken_ckks::{CkksParameters, Slots};
use unspoken_encrypt::{EncryptionPlan, Needs};
use unspoken_protocol::limits::Bootstraps;
use unspoken_protocol::{CkksHeader, Keyring, ProtocolError, limits, output_bytes, read_every};

use crate::codec::{QueryCodec, QueryForm};
use crate::error::QueryError;
use crate::forms::ShortForms;
use crate::shape::QueryShape;
use crate::short::{ShortAnswer, ShortQuery};
use crate::short_compact::ShortCompact;

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
    /// If the form is direct, the shortest period of a short query ([`ShortQuery`]); if it is compact, the period of
    /// all queries ([`ShortCompact`]). A power of two; 0 if the server takes full queries alone.
    pub short_period: u32,
    /// Number of tokens of a query for a strided lookup, and the level of its vectors ([`ShortQuery::strided`]); zeros
    /// if the server has none. A query of at most that number of tokens is a query for the strided lookup.
    pub strided: (u32, u32),
    /// Number of slots of each vector that a question takes; it divides the number of slots.
    pub question_slots: usize,
    /// Number of outputs of the lookup: a full answer has one vector for each.
    pub outputs: usize,
}

/// The header of a description, and the form and shape of its index queries. Client halves encrypt and decrypt with it.
#[derive(Clone, Debug)]
pub struct IndexDescription {
    header: CkksHeader,
    codec: QueryCodec,
    form: QueryForm,
    question_slots: usize,
    outputs: usize,
    /// The short queries, if the server takes any beside full ones.
    short: Option<ShortForms>,
    /// The query for a strided lookup, if the server has one.
    strided: Option<ShortQuery>,
    /// The answer to short compact queries, if the server takes these.
    short_answer: Option<ShortAnswer>,
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
        let IndexFields { question_slots, outputs, short_period, strided: (tokens, level), .. } = fields;
        let period = short_period as usize;
        let (mut short, mut short_answer, mut strided) = (None, None, None);
        if tokens > 0 {
            strided =
                Some(ShortQuery::strided(QueryShape { level: level as usize, ..shape.clone() }, tokens as usize)?);
        }
        let codec = match form {
            QueryForm::Compact if period > 0 => {
                short_answer = Some(ShortAnswer::new(header.parameters(), period / question_slots, outputs)?);
                QueryCodec::ShortCompact(ShortCompact::new(shape, period)?)
            }
            _ => {
                if period > 0 {
                    ShortQuery::new(shape.clone(), period)?;
                    short = Some(ShortForms { shape: shape.clone(), least_period: period, question_slots, outputs });
                }
                QueryCodec::new(form, shape)?
            }
        };
        Ok(IndexDescription { codec, header, form, question_slots, outputs, short, strided, short_answer })
    }

    /// A description from untrusted fields.
    ///
    /// # Errors
    /// The errors of [`IndexDescription::new`], or if the shape is invalid, or a client would have to make keys without
    /// a use, or queries or answers beyond the [`limits`](unspoken_protocol::limits).
    pub fn checked(header: CkksHeader, fields: IndexFields<'_>) -> Result<Self, QueryError> {
        let plausible = (1..=MAX_SUBTABLES).contains(&fields.subtables)
            && (2..=MAX_COLUMNS).contains(&fields.columns)
            && fields.columns.is_power_of_two()
            && fields.question_slots.is_power_of_two()
            && fields.question_slots <= header.parameters().slots()
            && fields.query_level as usize <= header.parameters().max_level()
            && fields.strided.1 as usize <= header.parameters().max_level()
            && (fields.strided.0 == 0 || fields.query_form == QueryForm::Direct.to_string())
            && (fields.short_period == 0 || fields.query_form != QueryForm::OneHot.to_string())
            && (fields.short_period == 0 || fields.short_period as usize >= fields.question_slots);
        if !plausible {
            return Err(QueryError::mismatch("shape of queries", format!("{fields:?}"), "one that fits the preset"));
        }
        let description = Self::new(header, fields)?;
        let header = &description.header;
        match description.codec {
            QueryCodec::ShortCompact(_) => header.check_use_with_short_answers(Bootstraps::ShortQueries)?,
            QueryCodec::Compact(_) => header.check_use(Bootstraps::Queries)?,
            _ if description.short.is_some() => header.check_use_with_short_answers(Bootstraps::Nothing)?,
            _ => header.check_use(Bootstraps::Nothing)?,
        }
        CkksHeader::check_query_bytes(description.codec.byte_len())?;
        description.check_answer_bytes()?;
        Ok(description)
    }

    /// Refuses full answers that exceed the [`limits`] even at the lowest level, at which services send them.
    ///
    /// # Errors
    /// If they do.
    fn check_answer_bytes(&self) -> Result<(), ProtocolError> {
        CkksHeader::check_answer_bytes(self.outputs.saturating_mul(output_bytes(self.parameters(), 0)))
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

    /// Maximum number of questions in one query.
    pub fn batch(&self) -> usize {
        self.codec.slots() / self.question_slots
    }

    /// Whether queries of few questions may be short: much shorter than [`IndexDescription::full_query_bytes`], and
    /// longer with more questions, in steps of a factor of two.
    pub fn has_short_queries(&self) -> bool {
        self.strided.is_some() || self.short_holding(1).is_some()
    }

    /// The query for a strided lookup of `questions` questions: all slots of its answer are in one vector, which
    /// [`IndexDescription::decrypt_full`] decrypts. `None` if there is none, or there are more questions.
    pub fn strided_holding(&self, questions: usize) -> Option<&ShortQuery> {
        self.strided.as_ref().filter(|query| questions.saturating_mul(self.question_slots) <= query.period())
    }

    /// These untrusted vectors as a query for a strided lookup, if they are one.
    pub fn strided_of(&self, vectors: &[Vec<u8>]) -> Option<&ShortQuery> {
        self.strided.as_ref().filter(|query| ShortQuery::period_of(vectors) == Some(query.period()))
    }

    /// The answer to short compact queries, if the server takes these.
    pub fn short_answer(&self) -> Option<&ShortAnswer> {
        self.short_answer.as_ref()
    }

    /// The short answer to `questions` questions; `None` if it is a full one.
    fn short_answer_to(&self, questions: usize) -> Option<ShortAnswer> {
        self.short_answer.clone().or_else(|| Some(self.short_holding(questions)?.1))
    }

    /// The query for `questions` questions; `None` if a full one has to be sent.
    fn query_holding(&self, questions: usize) -> Option<ShortQuery> {
        self.strided_holding(questions).cloned().or_else(|| Some(self.short_holding(questions)?.0))
    }

    /// The short query for `questions` questions, and its answer; `None` if a full query has to be sent.
    fn short_holding(&self, questions: usize) -> Option<(ShortQuery, ShortAnswer)> {
        self.short.as_ref()?.holding(questions)
    }

    /// The form of a query of untrusted vectors and the form of its answer, if the query is short.
    ///
    /// # Errors
    /// If it is a short query of a period that this description does not offer.
    pub fn short_of(&self, vectors: &[Vec<u8>]) -> Result<Option<(ShortQuery, ShortAnswer)>, QueryError> {
        let Some(period) = ShortQuery::period_of(vectors) else { return Ok(None) };
        let offered = self.short.as_ref().and_then(|short| short.of_period(period));
        offered.map(Some).ok_or_else(|| {
            let needed = "one that the description offers; read it again";
            QueryError::mismatch("query", format!("a short one of period {period}"), needed)
        })
    }

    /// Length in bytes of a query of `questions` questions: at most [`IndexDescription::full_query_bytes`].
    pub fn query_bytes(&self, questions: usize) -> usize {
        match self.query_holding(questions) {
            Some(query) => self.header.packed_bytes(1, query.byte_len()),
            None => self.full_query_bytes(),
        }
    }

    /// Maximum length of a query in bytes.
    pub fn full_query_bytes(&self) -> usize {
        self.header.packed_bytes(self.codec.vectors(), self.codec.byte_len())
    }

    /// Maximum length in bytes of the answer to `questions` questions.
    pub fn answer_bytes(&self, questions: usize) -> usize {
        if self.strided_holding(questions).is_some() {
            return self.header.packed_bytes(1, output_bytes(self.parameters(), 0));
        }
        match self.short_answer_to(questions) {
            Some(answer) => self.header.packed_bytes(answer.vectors(), answer.byte_len()),
            None => self.full_answer_bytes(self.outputs),
        }
    }

    /// Expected length in bytes of the answer to `questions` questions.
    pub fn expected_answer_bytes(&self, questions: usize) -> usize {
        let most = self.answer_bytes(questions);
        let exact = self.strided_holding(questions).is_some() || self.short_answer_to(questions).is_some();
        if exact { most } else { self.header.expected_answer_bytes(most) }
    }

    /// Maximum length in bytes of a full answer with `vectors` vectors, none of which has a higher level than the
    /// query; at most the length in the [`limits`].
    pub fn full_answer_bytes(&self, vectors: usize) -> usize {
        let vector = output_bytes(self.parameters(), self.codec.shape().level);
        let bytes = vectors.saturating_mul(vector).min(limits::MAX_ANSWER_BYTES as usize);
        self.header.packed_bytes(vectors, bytes)
    }

    /// Keeps encryptions of zero ready in the keyring from now on; `needs.burst` counts queries.
    ///
    /// # Errors
    /// If the operating system has no randomness or no thread.
    pub fn prepare(&self, keyring: &mut Keyring, needs: Needs) -> Result<EncryptionPlan, ProtocolError> {
        let burst = needs.burst.saturating_mul(self.codec.slot_vectors());
        keyring.prepare(self.codec.shape().level, Needs { burst, ..needs })
    }

    /// Number of slots for each subtable in a query of `questions` questions.
    ///
    /// # Errors
    /// If there are none, or more than [`IndexDescription::batch`].
    pub fn query_slots(&self, questions: usize) -> Result<usize, QueryError> {
        let most = self.batch();
        if !(1..=most).contains(&questions) {
            return Err(QueryError::mismatch("query", format!("{questions} questions"), format!("1 to {most}")));
        }
        Ok(self.query_holding(questions).map_or(self.codec.slots(), |query| query.period()))
    }

    /// Encrypts a query of `questions` questions: one list of indices per subtable, with one entry for each of the
    /// [`IndexDescription::query_slots`], as in [`QueryCodec::encrypt`]. It is short if it can be.
    ///
    /// # Errors
    /// The errors of [`IndexDescription::query_slots`], [`QueryCodec::encrypt`] and [`ShortQuery::encrypt`].
    pub fn encrypt(
        &self,
        keyring: &Keyring,
        questions: usize,
        indices: &[Vec<Option<usize>>],
    ) -> Result<Vec<u8>, QueryError> {
        self.query_slots(questions)?;
        Ok(self.header.pack(match self.query_holding(questions) {
            Some(query) => vec![query.encrypt(keyring.encryptor(), indices)?],
            None => self.codec.encrypt(keyring.encryptor(), indices)?,
        }))
    }

    /// Decrypts the answer to a query of `questions` questions: for each output one number per question, and possibly
    /// more, times the header's unit.
    ///
    /// # Errors
    /// The errors of [`IndexDescription::query_slots`], or if the answer is malformed, of another model, or has another
    /// number of vectors.
    pub fn decrypt(&self, keyring: &Keyring, answer: &[u8], questions: usize) -> Result<Vec<Slots>, QueryError> {
        self.query_slots(questions)?;
        let Some(short) = self.short_answer_to(questions) else {
            return Ok(self.decrypt_full(keyring, answer, self.outputs, questions)?);
        };
        let vectors = self.header.unpack("answer", answer, self.answer_bytes(questions), short.vectors())?;
        Ok(short.open(keyring, &vectors)?)
    }

    /// Decrypts a full answer with `vectors` vectors and returns the first `slots` slots of each.
    ///
    /// # Errors
    /// If the answer is malformed, of another model, or has another number of vectors.
    pub fn decrypt_full(
        &self,
        keyring: &Keyring,
        answer: &[u8],
        vectors: usize,
        slots: usize,
    ) -> Result<Vec<Slots>, ProtocolError> {
        let packed = self.header.unpack("answer", answer, self.full_answer_bytes(vectors), vectors)?;
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
        read_every(packed.iter().map(open))
    }
}
