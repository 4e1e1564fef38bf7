//! The first vector of queries and answers.

use prost::Message;

use crate::error::ChatError;
use crate::proto;
use crate::session_id::SessionId;

/// Maximum bytes of the first vector, apart from public tokens.
pub(crate) const CONTROL_BYTES: usize = 64;

/// What a query asks for.
pub(crate) enum ChatRequest {
    /// Begins a session after these public tokens.
    Begin { session: SessionId, tokens: Vec<u32> },
    /// Runs a chunk.
    Pass { session: SessionId, chunk: u32 },
    /// Ends a session.
    End { session: SessionId },
}

impl ChatRequest {
    /// Serialises.
    pub fn to_bytes(&self) -> Vec<u8> {
        use proto::query::Kind;
        let kind = match self {
            ChatRequest::Begin { session, tokens } => {
                Kind::Begin(proto::Begin { session: session.to_bytes().to_vec(), tokens: token_bytes(tokens) })
            }
            ChatRequest::Pass { session, chunk } => {
                Kind::Pass(proto::Pass { session: session.to_bytes().to_vec(), chunk: *chunk })
            }
            ChatRequest::End { session } => Kind::End(proto::End { session: session.to_bytes().to_vec() }),
        };
        proto::Query { kind: Some(kind) }.encode_to_vec()
    }

    /// Reads untrusted bytes, with at most `most` public tokens.
    ///
    /// # Errors
    /// If they are malformed.
    pub fn from_bytes(bytes: &[u8], most: usize) -> Result<Self, ChatError> {
        use proto::query::Kind;
        // Tokens are bytes in the message, so the memory for it is about its length, which is checked.
        if bytes.len() > CONTROL_BYTES + 4 * most {
            let found = format!("{} bytes", bytes.len());
            return Err(ChatError::mismatch("query", found, format!("at most {most} public tokens; shorten the text")));
        }
        let query = proto::Query::decode(bytes)
            .map_err(|error| ChatError::mismatch("query", error, "a protobuf message in its first vector"))?;
        Ok(match query.kind {
            Some(Kind::Begin(proto::Begin { session, tokens })) => {
                let found = tokens_of(&tokens).filter(|tokens| tokens.len() <= most).ok_or_else(|| {
                    let found = format!("{} bytes of public tokens", tokens.len());
                    ChatError::mismatch("query", found, format!("four each, and at most {most} tokens"))
                })?;
                ChatRequest::Begin { session: session_of(&session)?, tokens: found }
            }
            Some(Kind::Pass(proto::Pass { session, chunk })) => {
                ChatRequest::Pass { session: session_of(&session)?, chunk }
            }
            Some(Kind::End(proto::End { session })) => ChatRequest::End { session: session_of(&session)? },
            None => {
                return Err(ChatError::mismatch("query", "no kind", "begin, pass or end; update the older side"));
            }
        })
    }
}

/// Tokens in a message: four bytes each, little-endian.
pub(crate) fn token_bytes(tokens: &[u32]) -> Vec<u8> {
    tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
}

/// What [`token_bytes`] wrote; `None` if a token has not four bytes.
pub(crate) fn tokens_of(bytes: &[u8]) -> Option<Vec<u32>> {
    let (tokens, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| tokens.iter().map(|token| u32::from_le_bytes(*token)).collect())
}

fn session_of(bytes: &[u8]) -> Result<SessionId, ChatError> {
    let id = bytes.try_into().map(SessionId::new);
    id.map_err(|_| ChatError::mismatch("session id", format!("{} bytes", bytes.len()), "16 bytes"))
}

/// What an answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A session has begun.
    Begun { public_tokens: u32, chunks: u32 },
    /// A chunk has run.
    Passed { chunk: u32 },
    /// A session has ended.
    Ended,
    /// There is no such session.
    Unknown,
}

impl Reply {
    /// Serialises.
    pub fn to_bytes(self) -> Vec<u8> {
        use proto::answer::Kind;
        let kind = match self {
            Reply::Begun { public_tokens, chunks } => Kind::Begun(proto::Begun { public_tokens, chunks }),
            Reply::Passed { chunk } => Kind::Passed(proto::Passed { chunk }),
            Reply::Ended => Kind::Ended(proto::Ended {}),
            Reply::Unknown => Kind::Unknown(proto::Unknown {}),
        };
        proto::Answer { kind: Some(kind) }.encode_to_vec()
    }

    /// Reads untrusted bytes.
    ///
    /// # Errors
    /// If they are malformed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ChatError> {
        use proto::answer::Kind;
        if bytes.len() > CONTROL_BYTES {
            let found = format!("a first vector of {} bytes", bytes.len());
            return Err(ChatError::mismatch("answer", found, format!("at most {CONTROL_BYTES}")));
        }
        let answer = proto::Answer::decode(bytes)
            .map_err(|error| ChatError::mismatch("answer", error, "a protobuf message in its first vector"))?;
        match answer.kind {
            Some(Kind::Begun(proto::Begun { public_tokens, chunks })) => Ok(Reply::Begun { public_tokens, chunks }),
            Some(Kind::Passed(proto::Passed { chunk })) => Ok(Reply::Passed { chunk }),
            Some(Kind::Ended(proto::Ended {})) => Ok(Reply::Ended),
            Some(Kind::Unknown(proto::Unknown {})) => Ok(Reply::Unknown),
            None => Err(ChatError::mismatch("answer", "no kind", "begun, passed or ended; update the older side")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId::new([7; 16]);

    #[test]
    fn requests_are_read_as_they_were_written() {
        let begin = ChatRequest::Begin { session: SESSION, tokens: vec![3, u32::MAX, 0] };
        let ChatRequest::Begin { session, tokens } = ChatRequest::from_bytes(&begin.to_bytes(), 3).unwrap() else {
            panic!()
        };
        assert_eq!((session, tokens), (SESSION, vec![3, u32::MAX, 0]));
        let pass = ChatRequest::Pass { session: SESSION, chunk: 9 };
        let read = ChatRequest::from_bytes(&pass.to_bytes(), 0).unwrap();
        assert!(matches!(read, ChatRequest::Pass { session: SESSION, chunk: 9 }));
        let read = ChatRequest::from_bytes(&ChatRequest::End { session: SESSION }.to_bytes(), 0).unwrap();
        assert!(matches!(read, ChatRequest::End { session: SESSION }));
        let begun = Reply::Begun { public_tokens: 5, chunks: 2 };
        for reply in [begun, Reply::Passed { chunk: 3 }, Reply::Ended, Reply::Unknown] {
            assert_eq!(Reply::from_bytes(&reply.to_bytes()).unwrap(), reply);
            assert!(reply.to_bytes().len() <= CONTROL_BYTES);
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        let begin = ChatRequest::Begin { session: SESSION, tokens: vec![1; 9] }.to_bytes();
        let refused = |bytes: &[u8], most, found: &str| {
            let error = ChatRequest::from_bytes(bytes, most).err().unwrap().to_string();
            assert!(error.contains(found), "{found}: {error}");
        };
        refused(&begin, 8, "at most 8 tokens");
        refused(&[0; 65], 0, "65 bytes");
        refused(&begin[..20], 9, "protobuf");
        refused(&[], 9, "no kind");
        let query = |session: Vec<u8>, tokens: Vec<u8>| {
            let kind = Some(proto::query::Kind::Begin(proto::Begin { session, tokens }));
            proto::Query { kind }.encode_to_vec()
        };
        refused(&query(vec![1; 15], vec![]), 9, "15 bytes");
        refused(&query(vec![1; 16], vec![0; 7]), 9, "7 bytes of public tokens");
        for bytes in [&[0xff; 8][..], &[], &[0; 65]] {
            assert!(Reply::from_bytes(bytes).is_err());
        }
    }
}
