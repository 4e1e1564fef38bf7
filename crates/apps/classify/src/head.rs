//! Linear heads over embeddings: the client has the tokens of a compressed table and their codes, the service the head,
//! folded into the subtables.
//!
//! # Where each step is computed
//!
//! The scores of a text are `z = W m + b` with the mean `m` of the embeddings of its `n` tokens. Lookup, mean and head
//! are linear, so the server folds the head into the subtables, `S_t = W M_t`: tables of one row per class in place of
//! one per number of an embedding (2 in place of 384 for MiniLM). It looks up encrypted scores and adds them up over
//! the slots of each text. Embeddings, encrypted or not, are never computed.
//!
//! - **The sum over the tokens** is the server's. The rows of `S_t` are centred, so padded slots add nothing and every
//!   text takes the same slots, whatever its length.
//! - **The division by `n`** is the client's, after decryption: the client knows `n`, and the server must not learn it.
//!   Dividing on ciphertexts would need one more encrypted input and one more level, for the same scores.
//! - **The bias** and what centring took away from each token are added by the client: `z = sum / n + token_mean + b`.
//!   Both are in the description, one number per class each. They cannot be added to the sums, because they would have
//!   to be multiplied by `n` first. So clients learn the bias; a service that answered with `z` would reveal as much.
//!
//! A text without tokens has the mean 0, so its scores are the bias. The server computes and answers as for every other
//! text.
//!
//! The description has a bound of the error of the sum. Divided by `n`, it is a bound of the error of a score. For the
//! noise of shared scores, `n` is rounded down to a power of two: whoever sees shared scores may learn the length of a
//! text up to a factor of two.
//!
//! A head is one linear layer: a file with other tensors, such as tensors of hidden layers, is refused. A layer that is
//! not linear needs encrypted embeddings: `EmbedServer::embed` makes them, and the example `linear_layer` of
//! `unspoken-embed` shows how. A text has at most `max_tokens` tokens, a power of two of the head's file; longer ones
//! are an error, or cut if the client asks for it. Classes: 2 to 1024.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

use prost::Message;
use unspoken_embedding::{FoldedHead, LinearHead, Subtables, TextReader, TokenCodes};
use unspoken_protocol::Protocol;
use zeroize::Zeroizing;

use crate::description::{Kind, ScoreDescription, TextTokens};
use crate::error::ClassifyError;
use crate::proto;
use crate::tables::{ModelTables, TokenScores};

/// Maximum magnitude of a bias, and of the mean that centring takes away from each token: entries of tables are 32-bit
/// floating-point numbers, and weights at most 10^6.
const LARGEST: f64 = 1e50;

/// Length of the id of a table in bytes.
const TABLE_ID_BYTES: usize = 16;

/// The kind of linear heads over the mean embedding of a text.
#[derive(Clone, Copy, Debug)]
pub struct Head;

/// The client's half of a table, and its options.
#[derive(Clone, Debug)]
pub struct HeadModel {
    /// The tokens of the table and their codes.
    pub codes: Arc<TokenCodes>,
    /// Whether texts with too many tokens are cut. Otherwise an empty text is asked about in place of such a text, and
    /// its answer is an error.
    pub cut: bool,
}

impl Kind for Head {
    /// The kind is the word of earlier releases, which their clients read.
    /// Version 2: clients split texts by version 2 of the segmentation, for which heads are trained.
    const PROTOCOL: Protocol = Protocol { kind: "layer", version: 2 };

    const REFUSES_LONG_TEXTS: bool = true;

    type Model = HeadModel;
    type Own = proto::Head;

    fn read_own(bytes: &[u8], classes: usize) -> Result<proto::Head, ClassifyError> {
        let own = proto::Head::decode(bytes)
            .map_err(|error| ClassifyError::mismatch("description", error, "a protobuf message"))?;
        let counts = [own.classes.len(), own.bias.len(), own.token_mean.len()];
        if own.table_id.len() != TABLE_ID_BYTES || counts != [classes; 3] {
            let found = format!("an id of {} bytes, {counts:?} names and numbers", own.table_id.len());
            let needed = format!("an id of {TABLE_ID_BYTES} bytes, and one name, bias and mean for {classes} classes");
            return Err(ClassifyError::mismatch("head", found, needed));
        }
        if !own.classes.iter().all(|name| LinearHead::is_class_name(name)) {
            let needed = "1 to 128 bytes without control characters; do not trust this service";
            return Err(ClassifyError::mismatch("name of a class", "one that is too long or unprintable", needed));
        }
        let names: BTreeSet<&String> = own.classes.iter().collect();
        if names.len() < own.classes.len() {
            return Err(ClassifyError::mismatch("name of a class", "one that is there twice", "each once"));
        }
        if !own.bias.iter().chain(&own.token_mean).all(|number| number.abs() <= LARGEST) {
            let needed = format!("numbers up to {LARGEST:e}");
            return Err(ClassifyError::mismatch("head", "a bias beyond all that a head can have", needed));
        }
        Ok(own)
    }

    fn own_bytes(own: &proto::Head) -> Vec<u8> {
        own.encode_to_vec()
    }

    fn check_model(model: &HeadModel, description: &ScoreDescription<Self>) -> Result<(), ClassifyError> {
        if description.own.table_id != model.codes.id().to_bytes() {
            return Err(ClassifyError::mismatch(
                "table",
                "a server with another compressed table than these codes'",
                "the client half that was made with the server's",
            ));
        }
        let shape = model.codes.shape();
        if shape.subtables != description.subtables() || !description.has_columns(shape.columns) {
            return Err(ClassifyError::mismatch("table shape", description.shape_text(), format!("{shape:?}")));
        }
        Ok(())
    }

    fn labels<'a>(_model: &'a HeadModel, own: &'a proto::Head) -> &'a [String] {
        &own.classes
    }

    /// How many tokens are too many is the service's word, and it would learn from a missing query that a text has
    /// more: an empty text is sent in place of one that is too long.
    fn read_texts<Q: Borrow<str>>(
        model: &HeadModel,
        texts: &[Q],
        most: usize,
    ) -> Result<Vec<TextTokens>, ClassifyError> {
        let reader = TextReader::new(model.codes.tokens());
        let read = |text: &Q| {
            let mut ids = Zeroizing::new(reader.read(text.borrow()).ids);
            let too_many = (ids.len() > most && !model.cut).then_some(ids.len());
            ids.truncate(if too_many.is_some() { 0 } else { most });
            let mut codes = Zeroizing::new(Vec::with_capacity(ids.len() * model.codes.shape().subtables));
            for &id in ids.iter() {
                codes.extend(model.codes.code(id as usize)?);
            }
            Ok(TextTokens { codes, number: Zeroizing::new(ids.len()), too_many })
        };
        texts.iter().map(read).collect()
    }

    /// The mean over the tokens of a text, then the bias: the part of the head that needs the number of tokens, which
    /// the server must not know.
    fn scores(own: &proto::Head, sums: Vec<f64>, number: usize) -> Vec<f64> {
        let mean = |(sum, token_mean): (f64, &f64)| if number == 0 { 0.0 } else { sum / number as f64 + token_mean };
        sums.into_iter().zip(&own.token_mean).map(mean).zip(&own.bias).map(|(mean, bias)| mean + bias).collect()
    }

    fn largest_constant(own: &proto::Head) -> f64 {
        own.bias.iter().zip(&own.token_mean).map(|(bias, mean)| (bias + mean).abs()).fold(0.0, f64::max)
    }
}

impl ScoreDescription<Head> {
    /// Label of each class, in the order of the scores.
    pub fn labels(&self) -> &[String] {
        &self.own.classes
    }
}

/// A head over a compressed table, folded into its subtables.
pub struct HeadTables<'a> {
    head: &'a LinearHead,
    subtables: &'a Subtables,
    folded: FoldedHead,
}

impl<'a> HeadTables<'a> {
    /// Folds a head into the subtables of a table.
    ///
    /// # Errors
    /// If the head is of another width than the table.
    pub fn new(head: &'a LinearHead, subtables: &'a Subtables) -> Result<Self, ClassifyError> {
        Ok(HeadTables { head, subtables, folded: head.fold(subtables)? })
    }
}

impl ModelTables for HeadTables<'_> {
    type Kind = Head;

    fn token_scores(&self) -> TokenScores<'_> {
        let shape = self.subtables.shape();
        TokenScores {
            model_id: self.folded.id().to_bytes(),
            subtables: shape.subtables,
            columns: shape.columns,
            classes: self.head.classes().len(),
            max_tokens: self.head.max_tokens(),
            values: self.folded.values(),
        }
    }

    fn own(&self) -> proto::Head {
        proto::Head {
            table_id: self.subtables.id().to_bytes().to_vec(),
            classes: self.head.classes().to_vec(),
            bias: self.head.bias().to_vec(),
            token_mean: self.folded.token_mean().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use unspoken_ckks::Preset;
    use unspoken_embedding::{CompressOptions, EmbeddingTable, TokenList, compress};

    use super::*;
    use crate::{ClassifyOptions, HeadDescription, HeadServer};

    #[test]
    fn hostile_names_and_numbers_are_refused() {
        let tokens = TokenList::new((0..20).map(|i| format!("w{i}")).collect()).unwrap();
        let table = EmbeddingTable::new(tokens, 2, (0..40).map(|i| (i as f32).sin()).collect()).unwrap();
        let options = CompressOptions { columns: 8, rounds: 1, ..CompressOptions::default() };
        let table = compress(&table, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        let classes = ["no", "yes"].map(String::from).to_vec();
        let head = LinearHead::new(classes, 4, 2, vec![1.0, 2.0, -1.0, 0.5], vec![0.0, 1.0]).unwrap();
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let server = HeadServer::new(
            &HeadTables::new(&head, table.subtables()).unwrap(),
            &parameters,
            &ClassifyOptions::default(),
        )
        .unwrap();
        let read = |change: fn(&mut proto::Head)| {
            let mut description = server.description().clone();
            change(&mut description.own);
            HeadDescription::insecure_from_bytes(&description.to_bytes()).map(|_| ())
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
