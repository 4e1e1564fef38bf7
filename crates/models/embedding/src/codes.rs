//! The client's half: tokens and their codes.

use unspoken_store::ModelId;

use crate::error::EmbeddingError;
use crate::shape::Shape;
use crate::tokens::TokenList;

/// The client's half of a compressed table: for each token `l` column indices `(j_1, .., j_l)`, each below `p`. It
/// contains no numbers of embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenCodes {
    id: ModelId,
    shape: Shape,
    tokens: TokenList,
    /// tokens x subtables
    codes: Vec<u16>,
}

impl TokenCodes {
    /// Checks and joins the parts.
    pub(crate) fn new(id: ModelId, shape: Shape, tokens: TokenList, codes: Vec<u16>) -> Result<Self, EmbeddingError> {
        shape.check()?;
        if codes.len() != tokens.len() * shape.subtables {
            let needed = format!("{} x {}", tokens.len(), shape.subtables);
            return Err(EmbeddingError::field("codes", format!("{} entries", codes.len()), needed));
        }
        if let Some(code) = codes.iter().find(|&&code| usize::from(code) >= shape.columns) {
            return Err(EmbeddingError::field("code", code, format!("below {} columns", shape.columns)));
        }
        Ok(Self { id, shape, tokens, codes })
    }

    /// The compression this half comes from: equal to its server half's.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// The numbers both halves agree on.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The tokens, in row order: the id of a token is its row.
    pub fn tokens(&self) -> &TokenList {
        &self.tokens
    }

    /// All codes, tokens x subtables, row-major.
    pub(crate) fn all(&self) -> &[u16] {
        &self.codes
    }

    /// The code of a token: `l` column indices.
    ///
    /// # Errors
    /// [`EmbeddingError::TokenId`] for an id outside the vocabulary.
    pub fn code(&self, id: usize) -> Result<&[u16], EmbeddingError> {
        if id >= self.tokens.len() {
            return Err(EmbeddingError::TokenId { id, tokens: self.tokens.len() });
        }
        Ok(&self.codes[id * self.shape.subtables..][..self.shape.subtables])
    }

    /// The id of a token, or of the row for unknown tokens if the vocabulary has one (see
    /// [`UNKNOWN_NAMES`](crate::UNKNOWN_NAMES)).
    ///
    /// # Errors
    /// [`EmbeddingError::UnknownToken`] if it has none.
    pub fn token_id(&self, token: &str) -> Result<usize, EmbeddingError> {
        self.tokens
            .row(token)
            .or_else(|| self.tokens.unknown_row())
            .ok_or_else(|| EmbeddingError::UnknownToken { token: token.to_owned(), tokens: self.tokens.len() })
    }
}
