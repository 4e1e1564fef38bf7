//! Bearer tokens. A token is 32 random bytes; the server keeps only its SHA-256 hash, which suffices for a secret that
//! nobody can guess.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::ServerError;

/// Name of all clients of a service without tokens.
const ANONYMOUS: &str = "anonymous";

/// Name of the client that sent a request: the name of its token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClientName(Arc<str>);

impl ClientName {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the name that all clients share, because the service has no tokens.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.as_str() == ANONYMOUS
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A new token: the secret for the client and the line for the server.
pub struct NewToken {
    /// The text that the client sends. Shown once; the server cannot recover it.
    pub secret: String,
    /// The line to append to the token file.
    pub line: String,
}

/// Makes a token for the client `name`.
///
/// # Errors
/// [`ServerError::ClientName`] or [`ServerError::ReservedClientName`] if the name is not allowed in the file,
/// [`ServerError::Random`] if the operating system has no randomness.
pub fn make_token(name: &str) -> Result<NewToken, ServerError> {
    if !is_client_name(name) {
        return Err(ServerError::ClientName { found: name.chars().take(40).collect() });
    }
    if name == ANONYMOUS {
        return Err(ServerError::ReservedClientName);
    }
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| ServerError::Random(error.to_string()))?;
    let secret = format!("unspoken_{}", hex::encode(bytes));
    let line = format!("{name}:{}", hex::encode(Sha256::digest(secret.as_bytes())));
    Ok(NewToken { secret, line })
}

/// Determines which client sent a request.
pub(crate) enum Authenticator {
    /// No tokens: all requests come from the same client.
    Anonymous,
    /// A client needs a token from the file.
    Tokens { path: PathBuf, known: RwLock<Vec<(ClientName, [u8; 32])>> },
}

impl Authenticator {
    pub(crate) fn new(path: Option<&Path>) -> Result<Self, ServerError> {
        let Some(path) = path else { return Ok(Self::Anonymous) };
        let known = RwLock::new(read_tokens(path)?);
        Ok(Self::Tokens { path: path.to_owned(), known })
    }

    /// The client whose token the `Authorization` header carries.
    pub(crate) fn authenticate(&self, authorization: Option<&str>) -> Option<ClientName> {
        let known = match self {
            Self::Anonymous => return Some(ClientName::new(ANONYMOUS)),
            Self::Tokens { known, .. } => known,
        };
        let (scheme, secret) = authorization?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let presented: [u8; 32] = Sha256::digest(secret.trim().as_bytes()).into();
        let known = known.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Compares every entry, so that the time does not reveal which entry matches.
        let mut found = None;
        for (name, hash) in known.iter() {
            if bool::from(hash.ct_eq(&presented)) {
                found = Some(name.clone());
            }
        }
        found
    }

    /// Number of tokens in the file; 0 without a file.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Anonymous => 0,
            Self::Tokens { known, .. } => known.read().unwrap_or_else(|poisoned| poisoned.into_inner()).len(),
        }
    }

    /// Reads the file again. If it cannot be read, the tokens do not change. Returns whether they were replaced.
    pub(crate) fn reload(&self) -> Result<bool, ServerError> {
        let Self::Tokens { path, known } = self else { return Ok(false) };
        let fresh = read_tokens(path)?;
        if fresh == *known.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Ok(false);
        }
        *known.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = fresh;
        Ok(true)
    }
}

fn read_tokens(path: &Path) -> Result<Vec<(ClientName, [u8; 32])>, ServerError> {
    parse(&unspoken_files::read_text(path).map_err(ServerError::read("tokens", path))?)
}

fn parse(text: &str) -> Result<Vec<(ClientName, [u8; 32])>, ServerError> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line
            .split_once(':')
            .filter(|(name, _)| is_client_name(name))
            .and_then(|(name, hash)| Some((ClientName::new(name), hex::decode_to_array(hash).ok()?)));
        let (name, hash) = entry.ok_or(ServerError::TokenLine { line: index + 1 })?;
        if name.is_anonymous() {
            return Err(ServerError::ReservedClientName);
        }
        tokens.push((name, hash));
    }
    if tokens.is_empty() {
        return Err(ServerError::NoTokens);
    }
    Ok(tokens)
}

fn is_client_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@".contains(&b))
}

/// The client a request comes from, if its token is known.
#[derive(Clone)]
pub(crate) struct RequestClient(pub(crate) Option<ClientName>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_authenticates_only_its_own_client() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (ann, bob) = (make_token("ann").unwrap(), make_token("bob").unwrap());
        // A mark and ends of lines of Windows are no part of a name.
        std::fs::write(file.path(), format!("\u{feff}{}\r\n", ann.line)).unwrap();
        assert_eq!(read_tokens(file.path()).unwrap()[0].0.as_str(), "ann");
        std::fs::write(file.path(), format!("# clients\n{}\n\n{}\n", ann.line, bob.line)).unwrap();
        let authenticator = Authenticator::new(Some(file.path())).unwrap();
        let client = |header: &str| authenticator.authenticate(Some(header)).map(|name| name.to_string());
        assert_eq!(client(&format!("Bearer {}", ann.secret)).as_deref(), Some("ann"));
        assert_eq!(client(&format!("bearer {}", bob.secret)).as_deref(), Some("bob"));
        assert_eq!(client(&format!("Bearer {}x", ann.secret)), None);
        assert_eq!(client(&format!("Basic {}", ann.secret)), None);
        assert_eq!(client("Bearer"), None);
        assert_eq!(authenticator.authenticate(None), None);
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_broken_one_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (ann, bob) = (make_token("ann").unwrap(), make_token("bob").unwrap());
        std::fs::write(file.path(), &ann.line).unwrap();
        let authenticator = Authenticator::new(Some(file.path())).unwrap();
        assert!(!authenticator.reload().unwrap());
        std::fs::write(file.path(), format!("{}\nhalf a li", bob.line)).unwrap();
        assert!(matches!(authenticator.reload(), Err(ServerError::TokenLine { line: 2 })));
        assert!(authenticator.authenticate(Some(&format!("Bearer {}", ann.secret))).is_some());
        std::fs::write(file.path(), format!("{}\n", bob.line)).unwrap();
        assert!(authenticator.reload().unwrap());
        assert!(authenticator.authenticate(Some(&format!("Bearer {}", ann.secret))).is_none());
        assert!(authenticator.authenticate(Some(&format!("Bearer {}", bob.secret))).is_some());
    }

    #[test]
    fn names_and_files_out_of_shape_are_refused() {
        assert!(matches!(make_token("a:b"), Err(ServerError::ClientName { .. })));
        assert!(matches!(make_token(""), Err(ServerError::ClientName { .. })));
        assert!(matches!(make_token(ANONYMOUS), Err(ServerError::ReservedClientName)));
        let line = make_token("ann").unwrap().line.replace("ann:", "anonymous:");
        assert!(parse(&line).unwrap_err().to_string().contains("choose another name"));
        assert!(matches!(parse("# nobody\n"), Err(ServerError::NoTokens)));
        assert!(matches!(parse("ann:abcd\n"), Err(ServerError::TokenLine { line: 1 })));
    }
}
