//! The description of an embedding lookup, which client and server must both know.

use std::ops::RangeInclusive;

use unspoken_ckks::CkksParameters;
use unspoken_lookup::OutputForm;
use unspoken_protocol::{ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol};
use unspoken_query::{IndexDescription, IndexFields, QueryError, QueryForm, ShortCompact};

use crate::error::EmbedError;
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 3;

/// Slots of each vector of the shortest short query: fewer tokens are padded to that number.
pub(crate) const MIN_PERIOD: usize = 16;

/// Number of tokens of a short compact query, and of slots of its answer, if there are not too many subtables.
const SHORT_PERIOD: usize = 128;

/// Numbers of tokens of strided queries.
pub(crate) const STRIDED_TOKENS: RangeInclusive<usize> = MIN_PERIOD..=32;

/// Kind and version of the application.
pub(crate) const PROTOCOL: Protocol = Protocol { kind: "embed", version: PROTOCOL_VERSION };

/// Data that a client needs to ask questions: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    /// The header, and the form and shape of the queries.
    pub(crate) index: IndexDescription,
    pub(crate) own: proto::Description,
}

impl Description {
    pub(crate) fn new(header: CkksHeader, own: proto::Description) -> Result<Self, EmbedError> {
        Ok(Description { index: IndexDescription::new(header, fields(&own))?, own })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// The errors of [`CkksHeader::read`], also for an insecure preset, or if the table's shape is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EmbedError> {
        Self::read(bytes, false)
    }

    /// Like [`Description::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// The errors of [`Description::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, EmbedError> {
        Self::read(bytes, true)
    }

    /// Serialises the description.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.index.header().to_bytes(&self.own)
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.index.parameters()
    }

    /// Number of tokens in one full query. Fewer tokens are padded to this number, or to the number of a short query.
    pub fn batch(&self) -> usize {
        self.index.batch()
    }

    /// Length of an embedding: how many numbers it has.
    pub fn width(&self) -> usize {
        self.own.width as usize
    }

    /// How the numbers of an embedding are arranged in the vectors of a full answer.
    pub fn form(&self) -> OutputForm {
        if self.own.pairs { OutputForm::Pairs } else { OutputForm::Rows }
    }

    /// Number of vectors in a full answer.
    pub fn vectors(&self) -> usize {
        vectors(&self.own)
    }

    /// Whether queries of few tokens may be short: much shorter than [`Description::query_bytes`], and longer with more
    /// tokens, in steps of a factor of two.
    pub fn has_short_queries(&self) -> bool {
        self.index.has_short_queries()
    }

    /// Number of tokens up to which a query is answered by a strided lookup, in one vector; 0 if there is none.
    pub fn strided_tokens(&self) -> usize {
        self.own.strided_tokens as usize
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.index.full_query_bytes()
    }

    /// Form of queries.
    pub fn query_form(&self) -> QueryForm {
        self.index.form()
    }
}

/// Number of tokens of a short compact query.
///
/// # Errors
/// If the parameters are not made for bootstrapping.
pub(crate) fn short_period(parameters: &CkksParameters, subtables: usize) -> Result<usize, QueryError> {
    Ok(ShortCompact::most_period(parameters, subtables)?.min(SHORT_PERIOD))
}

fn vectors(own: &proto::Description) -> usize {
    let width = own.width as usize;
    if own.pairs { width.div_ceil(2) } else { width }
}

fn fields(own: &proto::Description) -> IndexFields<'_> {
    IndexFields {
        subtables: own.subtables,
        columns: own.columns,
        query_level: own.query_level,
        query_form: &own.query_form,
        short_period: own.short_period,
        strided: (own.strided_tokens, own.strided_level),
        question_slots: 1,
        outputs: vectors(own),
    }
}

impl ApplicationDescription for Description {
    type Error = EmbedError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, EmbedError> {
        let (header, own) = CkksHeader::read::<proto::Description>(bytes, PROTOCOL, accept_insecure)?;
        // Services that chose a shorter period would see the number of tokens.
        let period = if own.query_form == QueryForm::Compact.to_string() {
            short_period(header.parameters(), own.subtables as usize).unwrap_or(0)
        } else {
            MIN_PERIOD
        };
        let plausible = own.subtables <= 16
            && own.columns >= 4
            && (1..=4096).contains(&own.width)
            && [0, period.max(2 * own.strided_tokens as usize)].contains(&(own.short_period as usize))
            && (own.strided_tokens == 0 || STRIDED_TOKENS.contains(&(own.strided_tokens as usize)))
            && u64::from(own.strided_tokens) * u64::from(own.width) <= header.parameters().slots() as u64;
        if !plausible {
            return Err(EmbedError::mismatch("table shape", format!("{own:?}"), "one that fits the preset"));
        }
        Ok(Description { index: IndexDescription::checked(header, fields(&own))?, own })
    }

    fn key_set(&self) -> KeySetId {
        self.index.header().key_set()
    }

    fn keep_from(&mut self, earlier: &Self) {
        self.index.keep_error_bound(&earlier.index);
    }
}

impl CkksDescription for Description {
    fn header(&self) -> &CkksHeader {
        self.index.header()
    }
}

#[cfg(test)]
mod tests {
    use unspoken_ckks::Preset;
    use unspoken_rlwe::KeyPlan;

    use super::*;

    #[test]
    fn answers_that_are_too_large_are_refused() {
        let parameters = Preset::find("n15_depth10_scale50").unwrap().build().unwrap();
        let query_level = parameters.max_level() as u32;
        let header = CkksHeader::new(PROTOCOL, &parameters, &[0; 16], KeyPlan::new(), "plan".into(), 1.0);
        let read = |width| {
            let query_form = QueryForm::Direct.to_string();
            let own = proto::Description {
                subtables: 2,
                columns: 16,
                query_level,
                query_form,
                width,
                pairs: true,
                short_period: 0,
                strided_tokens: 0,
                strided_level: 0,
            };
            Description::read(&header.to_bytes(&own), true)
        };
        // At the level of queries this answer would be too large; services send it at a lower one.
        let sound = read(384).unwrap();
        assert!(sound.index.full_answer_bytes(192) <= (512 << 20) + (1 << 20));
        let error = read(4096).unwrap_err().to_string();
        assert!(error.starts_with("answer: found") && error.ends_with("do not trust this service"), "{error}");
    }
}
