//! The server's half: computes encrypted scores from encrypted codes.

use unspoken_ckks::CkksParameters;
use unspoken_fasttext::ScoreTables;
use unspoken_lookup::Precision;
use unspoken_protocol::{Call, CkksHeader, CkksServerHalf, Limits, Request, ServerHalf};
use unspoken_rlwe::{EvaluationKeys, KeyStorage};
use unspoken_scores::{ScoreOptions, ScoreServer, StageSeconds, TokenScores};

use crate::description::{Description, PROTOCOL};
use crate::error::ClassifyError;

/// A text classifier that never sees a text: an encrypted lookup in score tables, and the sum over the tokens.
pub struct ClassifyServer {
    scores: ScoreServer,
    description: Description,
    storage: KeyStorage,
}

impl ClassifyServer {
    /// Prepares a model for a preset. The tables are scaled to the preset; clients get scores in the model's units.
    ///
    /// # Errors
    /// The errors of [`ScoreServer::new`].
    pub fn new(
        tables: &ScoreTables,
        parameters: &CkksParameters,
        options: &ScoreOptions,
    ) -> Result<Self, ClassifyError> {
        Ok(Self::over(ScoreServer::new(PROTOCOL, &token_scores(tables), parameters, options)?))
    }

    /// As [`ClassifyServer::new`], with the cheapest preset and plan whose error is at most `error`:
    /// [`ScoreServer::with_error`].
    ///
    /// # Errors
    /// The errors of [`ScoreServer::with_error`].
    pub fn with_error(
        tables: &ScoreTables,
        error: f64,
        parameters: Option<&CkksParameters>,
        options: &ScoreOptions,
    ) -> Result<Self, ClassifyError> {
        Ok(Self::over(ScoreServer::with_error(PROTOCOL, &token_scores(tables), error, parameters, options)?))
    }

    fn over(scores: ScoreServer) -> Self {
        let description = Description(scores.description().clone());
        ClassifyServer { scores, description, storage: KeyStorage::Expanded }
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The model's scores beside the error bound, in the model's units; `None` for full compact queries, whose error is
    /// not known.
    pub fn precision(&self) -> Option<Precision> {
        self.scores.precision()
    }

    /// Like [`ServerHalf::answer`], and also returns the time of each stage.
    ///
    /// # Errors
    /// The errors of [`ServerHalf::answer`].
    pub fn timed_answer(
        &self,
        request: &Request<'_, EvaluationKeys>,
        call: &Call<'_>,
    ) -> Result<(Vec<u8>, StageSeconds), ClassifyError> {
        Ok(self.scores.timed_answer(request, call)?)
    }
}

impl CkksServerHalf for ClassifyServer {
    fn header(&self) -> &CkksHeader {
        self.scores.description().header()
    }

    fn key_storage(&self) -> KeyStorage {
        self.storage
    }

    fn with_key_storage(self, storage: KeyStorage) -> Self {
        ClassifyServer { storage, ..self }
    }
}

impl ServerHalf for ClassifyServer {
    type Error = ClassifyError;

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

    fn answer(&self, request: &Request<'_, EvaluationKeys>, call: &Call<'_>) -> Result<Vec<u8>, ClassifyError> {
        self.timed_answer(request, call).map(|(answer, _)| answer)
    }
}

fn token_scores(tables: &ScoreTables) -> TokenScores<'_> {
    let shape = tables.shape();
    TokenScores {
        model_id: tables.id().to_bytes(),
        subtables: shape.subtables,
        columns: shape.columns,
        classes: shape.classes,
        max_tokens: shape.max_tokens,
        values: tables.values(),
    }
}
