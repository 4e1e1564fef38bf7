//! The server's half: computes the encrypted scores of a linear head from encrypted codes.

use unspoken_ckks::CkksParameters;
use unspoken_embedding::{FoldedHead, LinearHead, Subtables};
use unspoken_lookup::Precision;
use unspoken_protocol::{Call, CkksHeader, CkksServerHalf, Limits, Request, ServerHalf};
use unspoken_rlwe::{EvaluationKeys, KeyStorage};
use unspoken_scores::{ScoreOptions, ScoreServer, TokenScores};

use crate::description::{Description, PROTOCOL};
use crate::error::LayerError;
use crate::proto;

/// A linear head over pooled embeddings that never sees a text.
pub struct LayerServer {
    scores: ScoreServer,
    description: Description,
    storage: KeyStorage,
}

impl LayerServer {
    /// Prepares a head over a compressed table for a preset.
    ///
    /// # Errors
    /// If the head is of another width than the table, or the errors of [`ScoreServer::new`].
    pub fn new(
        head: &LinearHead,
        subtables: &Subtables,
        parameters: &CkksParameters,
        options: &ScoreOptions,
    ) -> Result<Self, LayerError> {
        let folded = head.fold(subtables)?;
        let scores = ScoreServer::new(PROTOCOL, &token_scores(head, subtables, &folded), parameters, options)?;
        Ok(Self::over(scores, head, subtables, &folded))
    }

    /// As [`LayerServer::new`], with the cheapest preset and plan for which the error of a sum over tokens is at most
    /// `error`: [`ScoreServer::with_error`].
    ///
    /// # Errors
    /// If the head is of another width than the table, or the errors of [`ScoreServer::with_error`].
    pub fn with_error(
        head: &LinearHead,
        subtables: &Subtables,
        error: f64,
        parameters: Option<&CkksParameters>,
        options: &ScoreOptions,
    ) -> Result<Self, LayerError> {
        let folded = head.fold(subtables)?;
        let tables = token_scores(head, subtables, &folded);
        let scores = ScoreServer::with_error(PROTOCOL, &tables, error, parameters, options)?;
        Ok(Self::over(scores, head, subtables, &folded))
    }

    fn over(scores: ScoreServer, head: &LinearHead, subtables: &Subtables, folded: &FoldedHead) -> Self {
        let own = proto::Layer {
            table_id: subtables.id().to_bytes().to_vec(),
            classes: head.classes().to_vec(),
            bias: head.bias().to_vec(),
            token_mean: folded.token_mean().to_vec(),
        };
        let description = Description { scores: scores.description().clone(), own };
        LayerServer { scores, description, storage: KeyStorage::Expanded }
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The scores of tokens beside the bound of the error of a sum, in the head's units; `None` for full
    /// compact queries, whose error is not known.
    pub fn precision(&self) -> Option<Precision> {
        self.scores.precision()
    }
}

impl CkksServerHalf for LayerServer {
    fn header(&self) -> &CkksHeader {
        self.scores.description().header()
    }

    fn key_storage(&self) -> KeyStorage {
        self.storage
    }

    fn with_key_storage(self, storage: KeyStorage) -> Self {
        LayerServer { storage, ..self }
    }
}

impl ServerHalf for LayerServer {
    type Error = LayerError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    fn limits(&self) -> Limits {
        self.scores.limits()
    }

    fn prepared_bytes(&self) -> u64 {
        self.scores.prepared_bytes()
    }

    fn release_idle_memory(&self) {
        self.scores.release_idle_memory();
    }

    fn answer(&self, request: &Request<'_, EvaluationKeys>, call: &Call<'_>) -> Result<Vec<u8>, LayerError> {
        Ok(self.scores.timed_answer(request, call)?.0)
    }
}

fn token_scores<'a>(head: &LinearHead, subtables: &Subtables, folded: &'a FoldedHead) -> TokenScores<'a> {
    let shape = subtables.shape();
    TokenScores {
        model_id: folded.id().to_bytes(),
        subtables: shape.subtables,
        columns: shape.columns,
        classes: head.classes().len(),
        max_tokens: head.max_tokens(),
        values: folded.values(),
    }
}
