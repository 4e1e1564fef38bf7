//! Ids of models, which both halves carry.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Id of one training run: the first 16 bytes of a BLAKE3 hash over the whole model. Both halves carry it, so that
/// halves of different models are not used together by mistake.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelId([u8; 16]);

/// Hashes a model's content into its [`ModelId`].
pub struct ModelHasher(blake3::Hasher);

impl ModelHasher {
    /// A hasher for one kind of model; `context` is unique to the kind and its version.
    pub fn new(context: &str) -> Self {
        Self(blake3::Hasher::new_derive_key(context))
    }

    /// Hashes a list of tokens, each preceded by its length.
    pub fn tokens(&mut self, tokens: &[String]) -> &mut Self {
        self.bytes(&(tokens.len() as u64).to_le_bytes());
        for token in tokens {
            self.bytes(&(token.len() as u64).to_le_bytes()).bytes(token.as_bytes());
        }
        self
    }

    /// Hashes bytes without their length.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    /// The id.
    pub fn finish(&self) -> ModelId {
        let mut id = [0; 16];
        self.0.finalize_xof().fill(&mut id);
        ModelId(id)
    }
}

impl ModelId {
    /// The 16 bytes of the id, for messages.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelId({self})")
    }
}

impl From<ModelId> for String {
    fn from(id: ModelId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for ModelId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refuse = || format!("model id {text:?} is not 32 lower-case hexadecimal digits");
        let id = hex::decode_to_array(&text).map(Self).map_err(|_| refuse())?;
        // The decoder also accepts upper-case digits and a prefix 0x; refuse them.
        if id.to_string() == text { Ok(id) } else { Err(refuse()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_and_read_back_and_nothing_else_is_read() {
        let id = ModelHasher::new("test").tokens(&["a".into()]).bytes(&[1, 2]).finish();
        assert_eq!(ModelId::try_from(id.to_string()), Ok(id));
        for bad in
            ["", "00", &id.to_string().to_uppercase().replace(|c: char| c.is_ascii_digit(), "A"), &"g".repeat(32)]
        {
            assert!(ModelId::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_depend_on_context_and_boundaries() {
        let id = |context: &str, tokens: &[&str]| {
            let tokens: Vec<String> = tokens.iter().map(|&t| t.to_owned()).collect();
            ModelHasher::new(context).tokens(&tokens).finish()
        };
        assert_eq!(id("x", &["ab", "c"]), id("x", &["ab", "c"]));
        assert_ne!(id("x", &["ab", "c"]), id("x", &["a", "bc"]));
        assert_ne!(id("x", &["ab", "c"]), id("y", &["ab", "c"]));
    }
}
