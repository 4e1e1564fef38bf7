//! The description of a layer, which client and server must both know.

use std::collections::BTreeSet;

use prost::Message;
use unspoken_ckks::CkksParameters;
use unspoken_embedding::LinearHead;
use unspoken_protocol::{ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol};
use unspoken_query::QueryForm;
use unspoken_scores::ScoreDescription;

use crate::error::LayerError;
use crate::proto;

/// Version of the protocol: 2 since clients split texts by version 2 of the segmentation, for which heads are trained.
pub const PROTOCOL_VERSION: u32 = 2;

/// Kind and version of the application.
pub(crate) const PROTOCOL: Protocol = Protocol { kind: "layer", version: PROTOCOL_VERSION };

/// Maximum magnitude of a bias, and of the mean that centring takes away from each token: entries of tables are 32-bit
/// floating-point numbers, and weights at most 10^6.
const LARGEST: f64 = 1e50;

/// Length of the id of a table in bytes.
const TABLE_ID_BYTES: usize = 16;

/// Data that a client needs to ask questions: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    pub(crate) scores: ScoreDescription,
    pub(crate) own: proto::Layer,
}

impl Description {
    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// The errors of [`ScoreDescription::read`], also for an insecure preset, or if the names of the classes or the
    /// numbers of the head are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LayerError> {
        Self::read(bytes, false)
    }

    /// Like [`Description::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// The errors of [`Description::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, LayerError> {
        Self::read(bytes, true)
    }

    /// Serialises the description.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.scores.to_bytes(&self.own.encode_to_vec())
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.scores.parameters()
    }

    /// Maximum number of texts in one query.
    pub fn batch(&self) -> usize {
        self.scores.batch()
    }

    /// Maximum number of tokens in a text. Shorter texts are padded, which the server cannot see.
    pub fn max_tokens(&self) -> usize {
        self.scores.max_tokens()
    }

    /// Names of the classes, in the order of the scores.
    pub fn classes(&self) -> &[String] {
        &self.own.classes
    }

    /// Whether queries of few texts may be small: much shorter than [`Description::query_bytes`], and longer with more
    /// texts, in steps of a factor of two.
    pub fn has_short_queries(&self) -> bool {
        self.scores.has_short_queries()
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.scores.query_bytes()
    }

    /// Form of queries.
    pub fn query_form(&self) -> QueryForm {
        self.scores.query_form()
    }
}

impl ApplicationDescription for Description {
    type Error = LayerError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, LayerError> {
        let scores = ScoreDescription::read(bytes, PROTOCOL, accept_insecure)?;
        let own = proto::Layer::decode(bytes)
            .map_err(|error| LayerError::mismatch("description", error, "a protobuf message"))?;
        let classes = scores.classes();
        let counts = [own.classes.len(), own.bias.len(), own.token_mean.len()];
        if own.table_id.len() != TABLE_ID_BYTES || counts != [classes; 3] {
            let found = format!("an id of {} bytes, {counts:?} names and numbers", own.table_id.len());
            let needed = format!("an id of {TABLE_ID_BYTES} bytes, and one name, bias and mean for {classes} classes");
            return Err(LayerError::mismatch("layer", found, needed));
        }
        if !own.classes.iter().all(|name| LinearHead::is_class_name(name)) {
            let needed = "1 to 128 bytes without control characters; do not trust this service";
            return Err(LayerError::mismatch("name of a class", "one that is too long or unprintable", needed));
        }
        let names: BTreeSet<&String> = own.classes.iter().collect();
        if names.len() < own.classes.len() {
            return Err(LayerError::mismatch("name of a class", "one that is there twice", "each once"));
        }
        if !own.bias.iter().chain(&own.token_mean).all(|number| number.abs() <= LARGEST) {
            let needed = format!("numbers up to {LARGEST:e}");
            return Err(LayerError::mismatch("layer", "a bias beyond all that a head can have", needed));
        }
        Ok(Description { scores, own })
    }

    fn key_set(&self) -> KeySetId {
        self.scores.header().key_set()
    }

    fn keep_from(&mut self, earlier: &Self) {
        self.scores.keep_error_bound(&earlier.scores);
    }
}

impl CkksDescription for Description {
    fn header(&self) -> &CkksHeader {
        self.scores.header()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use unspoken_ckks::Preset;
    use unspoken_embedding::{CompressOptions, EmbeddingTable, TokenList, compress};

    use super::*;
    use crate::{LayerOptions, LayerServer};

    #[test]
    fn hostile_names_and_numbers_are_refused() {
        let tokens = TokenList::new((0..20).map(|i| format!("w{i}")).collect()).unwrap();
        let table = EmbeddingTable::new(tokens, 2, (0..40).map(|i| (i as f32).sin()).collect()).unwrap();
        let options = CompressOptions { columns: 8, rounds: 1, ..CompressOptions::default() };
        let table = compress(&table, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        let classes = ["no", "yes"].map(String::from).to_vec();
        let head = LinearHead::new(classes, 4, 2, vec![1.0, 2.0, -1.0, 0.5], vec![0.0, 1.0]).unwrap();
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let server = LayerServer::new(&head, table.subtables(), &parameters, &LayerOptions::default()).unwrap();
        let read = |change: fn(&mut proto::Layer)| {
            let mut description = server.description().clone();
            change(&mut description.own);
            Description::insecure_from_bytes(&description.to_bytes()).map(|_| ())
        };
        let refused = |change, reason: &str| {
            let error = read(change).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        read(|_| ()).unwrap();
        refused(|own| own.classes[1] = "no".into(), "there twice");
        refused(|own| own.classes[1] = "\u{1b}[2J".into(), "unprintable");
        refused(|own| own.classes.push("more".into()), "[3, 2, 2] names");
        refused(|own| own.bias[0] = f64::NAN, "beyond all");
        refused(|own| own.token_mean[1] = 1e60, "beyond all");
        refused(|own| own.table_id = vec![0; 15], "15 bytes");
    }
}
