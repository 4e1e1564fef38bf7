//! Classifiers of fastText models: the client has the vocabulary, the service the tables of scores.

use std::borrow::Borrow;
use std::sync::Arc;

use unspoken_fasttext::{Encoder, ScoreTables};
use unspoken_protocol::Protocol;
use zeroize::Zeroizing;

use crate::description::{Kind, ScoreDescription, TextTokens};
use crate::error::ClassifyError;
use crate::tables::{ModelTables, TokenScores};

/// The kind of classifiers of fastText models.
#[derive(Clone, Copy, Debug)]
pub struct FastText;

impl Kind for FastText {
    const PROTOCOL: Protocol = Protocol { kind: "classify", version: 5 };

    const REFUSES_LONG_TEXTS: bool = false;

    type Model = Arc<Encoder>;
    type Own = ();

    fn read_own(_bytes: &[u8], _classes: usize) -> Result<(), ClassifyError> {
        Ok(())
    }

    fn own_bytes((): &()) -> Vec<u8> {
        Vec::new()
    }

    fn check_model(words: &Arc<Encoder>, description: &ScoreDescription<Self>) -> Result<(), ClassifyError> {
        if description.index().header().model_id() != words.id().to_bytes() {
            return Err(ClassifyError::mismatch(
                "model",
                "a server with another model than this vocabulary's",
                "the vocabulary that was trained with the server's model",
            ));
        }
        let shape = words.shape();
        let same = (shape.subtables, shape.classes, shape.max_tokens)
            == (description.subtables(), description.classes(), description.max_tokens())
            && description.has_columns(shape.columns);
        if !same {
            return Err(ClassifyError::mismatch("model shape", description.shape_text(), format!("{shape:?}")));
        }
        Ok(())
    }

    fn labels<'a>(words: &'a Arc<Encoder>, (): &'a ()) -> &'a [String] {
        words.labels()
    }

    /// Longer texts are cut, as they are in training.
    fn read_texts<Q: Borrow<str>>(
        words: &Arc<Encoder>,
        texts: &[Q],
        _most: usize,
    ) -> Result<Vec<TextTokens>, ClassifyError> {
        let read = |text: &Q| {
            let codes = Zeroizing::new(words.encode(text.borrow()).into_flat());
            TextTokens { codes, number: Zeroizing::new(1), too_many: None }
        };
        Ok(texts.iter().map(read).collect())
    }

    fn scores((): &(), sums: Vec<f64>, _number: usize) -> Vec<f64> {
        sums
    }

    fn largest_constant((): &()) -> f64 {
        0.0
    }
}

impl ModelTables for ScoreTables {
    type Kind = FastText;

    fn token_scores(&self) -> TokenScores<'_> {
        let shape = self.shape();
        TokenScores {
            model_id: self.id().to_bytes(),
            subtables: shape.subtables,
            columns: shape.columns,
            classes: shape.classes,
            max_tokens: shape.max_tokens,
            values: self.values(),
        }
    }

    fn own(&self) {}
}
