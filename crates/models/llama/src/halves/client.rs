//! The client's half of a rotated model: the embedding, the head and the tokenizer.

use std::path::Path;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use unspoken_files::Access;
use unspoken_store::{Dtype, FilePair, ModelFiles, ModelId, StoreError};

use super::coverage::Coverage;
use super::draft_texts::DraftTexts;
use super::rotated::RotatedModel;
use super::{chat, check};
use crate::config::Config;
use crate::linear::{in_pool, linear};
use crate::tokenizer::Tokenizer;

/// Kind and version of the files.
const KIND: &str = "llama client";
const VERSION: u32 = 1;

/// The files of the embedding, and the file of the head.
const PAIR: FilePair = FilePair::new("client", KIND, VERSION);
const HEAD_PAIR: FilePair = FilePair::new(HEAD, KIND, VERSION);

/// Name of the tokenizer's file, and its largest size.
const TOKENIZER: &str = "tokenizer.json";
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

/// Names of the tensors. The head has a file of its own, named after its tensor.
const EMBEDDING: &str = "embedding";
const HEAD: &str = "head";

/// The client's half of a rotated model: it makes the input of the first layer from text, and text from logits.
pub struct ClientModel {
    id: ModelId,
    config: Config,
    prefix: Vec<u32>,
    embedding: Array2<f32>,
    /// `None` if it is the embedding.
    head: Option<Array2<f32>>,
    tokenizer: Tokenizer,
    coverage: Option<Coverage>,
    drafts: Option<Arc<DraftTexts>>,
}

/// The content of `client.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    id: ModelId,
    config: Config,
    prefix: Vec<u32>,
    begin: Option<u32>,
    ends: Vec<u32>,
    /// BLAKE3 sums of the other files.
    embedding: String,
    head: Option<String>,
    tokenizer: String,
}

impl ClientModel {
    /// The client's half that belongs to a service's half.
    pub fn new(rotated: &RotatedModel, tokenizer: Tokenizer) -> Self {
        let model = rotated.model();
        ClientModel {
            id: rotated.id(),
            config: model.config.clone(),
            prefix: rotated.prefix().to_vec(),
            embedding: model.weights.embedding.clone(),
            head: model.weights.head.clone(),
            tokenizer,
            coverage: None,
            drafts: None,
        }
    }

    /// This half with the tokens that the preparation has run.
    pub fn with_coverage(self, coverage: Coverage) -> Self {
        ClientModel { coverage: Some(coverage), ..self }
    }

    /// This half with texts from which the client guesses how others go on.
    pub fn with_draft_texts(self, drafts: DraftTexts) -> Self {
        ClientModel { drafts: Some(Arc::new(drafts)), ..self }
    }

    /// Texts from which the client guesses how others go on; `None` in halves without them.
    pub fn draft_texts(&self) -> Option<&Arc<DraftTexts>> {
        self.drafts.as_ref()
    }

    /// The id, which the service's half has too.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// Dimensions and constants of the model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Tokens in front of every text.
    pub fn prefix(&self) -> &[u32] {
        &self.prefix
    }

    /// The rotated rows of the embedding: `vocabulary x width`.
    pub fn embedding(&self) -> &Array2<f32> {
        &self.embedding
    }

    /// Logits of outputs of the last norm: a row for each, a column for each token of the vocabulary. For models whose
    /// service returns these outputs.
    pub fn logits(&self, normed: ArrayView2<f32>) -> Array2<f32> {
        in_pool(|| linear(normed, self.head.as_ref().unwrap_or(&self.embedding)))
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The texts of the tokens that the preparation has not run, each text once: the service's answer may be wrong
    /// after such a token. Empty if the half does not say which tokens the preparation has run.
    pub fn uncovered(&self, tokens: &[u32]) -> Vec<String> {
        let Some(coverage) = &self.coverage else { return Vec::new() };
        let mut uncovered: Vec<u32> = tokens.iter().copied().filter(|token| !coverage.covers(*token)).collect();
        uncovered.sort_unstable();
        uncovered.dedup();
        uncovered.into_iter().map(|token| self.tokenizer.token_text(token).unwrap_or_default()).collect()
    }

    /// Writes `client.safetensors`, `head.safetensors` if the head is not the embedding, `tokenizer.json`,
    /// `coverage.json` if it is known which tokens the preparation has run, `drafts.json` if there are texts for
    /// guesses, `chat_template.json` if the model has one, and `client.json` into a directory, which is made if it is
    /// missing.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<(), StoreError> {
        let embedding = write_matrix(PAIR, directory, EMBEDDING, &self.embedding)?;
        let head = self.head.as_ref().map(|head| write_matrix(HEAD_PAIR, directory, HEAD, head)).transpose()?;
        let path = directory.join(TOKENIZER);
        let failed = StoreError::io("write", &path);
        let tokenizer = self.tokenizer.to_json().map_err(|error| failed(std::io::Error::other(error)))?;
        unspoken_files::replace_file(&path, tokenizer.as_bytes(), Access::Umask).map_err(failed)?;
        let record = Record {
            id: self.id,
            config: self.config.clone(),
            prefix: self.prefix.clone(),
            begin: self.tokenizer.begin(),
            ends: self.tokenizer.ends().to_vec(),
            embedding,
            head,
            tokenizer: sum(tokenizer.as_bytes()),
        };
        if let Some(coverage) = &self.coverage {
            coverage.save(directory, self.id)?;
        }
        if let Some(drafts) = &self.drafts {
            drafts.save(directory, self.id)?;
        }
        if let Some(template) = self.tokenizer.chat_template() {
            chat::save(template, directory, self.id)?;
        }
        PAIR.write_json(directory, &record)
    }

    /// Reads what [`ClientModel::save`] wrote.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(directory: &Path) -> Result<Self, StoreError> {
        Self::read(directory.into())
    }

    /// As [`ClientModel::load`], of files that may be in memory.
    ///
    /// # Errors
    /// As for [`ClientModel::load`].
    pub fn read(files: ModelFiles<'_>) -> Result<Self, StoreError> {
        let record: Record = PAIR.read_json(files)?;
        let path = files.path("client.json");
        let refuse = |found: String, needed: String| StoreError::tensor(&path, found, needed);
        check(&record.config, &record.prefix).map_err(|(found, needed)| refuse(found, needed))?;
        let shape = (record.config.vocabulary, record.config.width);
        let embedding = read_matrix(PAIR, files, (&record.embedding, EMBEDDING), shape, &path)?;
        let head = record.head.as_ref().map(|sum| read_matrix(HEAD_PAIR, files, (sum, HEAD), shape, &path));
        let head = head.transpose()?;
        let tokenizer = read_tokenizer(files, &record)?;
        let most = record.config.vocabulary;
        let tokens = record.begin.iter().chain(&record.ends).map(|token| *token as usize + 1);
        let found = tokens.fold(tokenizer.vocabulary(), usize::max);
        if found > most {
            return Err(refuse(format!("a tokenizer with {found} tokens"), format!("at most {most}")));
        }
        let Record { id, config, prefix, .. } = record;
        let tokenizer = tokenizer.with_chat_template(chat::read(files, id)?);
        let coverage = Coverage::read(files, id)?;
        let drafts = DraftTexts::read(files, id, config.vocabulary)?.map(Arc::new);
        Ok(ClientModel { id, config, prefix, embedding, head, tokenizer, coverage, drafts })
    }
}

fn write_matrix(pair: FilePair, directory: &Path, name: &str, matrix: &Array2<f32>) -> Result<String, StoreError> {
    let bytes: Vec<u8> = matrix.iter().flat_map(|value| value.to_le_bytes()).collect();
    pair.write_weights(directory, name, Dtype::F32, matrix.shape().to_vec(), &bytes)
}

fn read_matrix(
    pair: FilePair,
    files: ModelFiles<'_>,
    (sum, name): (&str, &str),
    shape: (usize, usize),
    path: &Path,
) -> Result<Array2<f32>, StoreError> {
    let refuse = |found: String, needed: &str| StoreError::tensor(path, found, needed);
    let bytes = pair.read_weights(files, sum, name, Dtype::F32, &[shape.0, shape.1])?;
    let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let values: Vec<f32> = bytes.chunks_exact(4).map(number).collect();
    if values.iter().any(|value| !value.is_finite()) {
        return Err(refuse(format!("{name} with a number that is not finite"), "finite numbers"));
    }
    Array2::from_shape_vec(shape, values).map_err(|error| refuse(error.to_string(), "a matrix"))
}

fn sum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn read_tokenizer(files: ModelFiles<'_>, record: &Record) -> Result<Tokenizer, StoreError> {
    let path = files.path(TOKENIZER);
    let bytes = files.read(TOKENIZER, MAX_TOKENIZER_BYTES)?;
    let found = sum(&bytes);
    if found != record.tokenizer {
        return Err(StoreError::Checksum { path, found, needed: record.tokenizer.clone() });
    }
    Tokenizer::from_json(&bytes, record.begin, &record.ends)
        .map_err(|found| StoreError::tensor(&path, found, "a tokenizer.json"))
}
