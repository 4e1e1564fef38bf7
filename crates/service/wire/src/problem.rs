//! Stable codes of the reasons for which a server refuses a request.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $status:literal;)+) => {
        /// Why a request was refused. The names are stable; new ones may be
        /// added, so a client falls back to the HTTP status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ProblemCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl ProblemCode {
            /// Every code.
            pub const ALL: &'static [ProblemCode] = &[$(ProblemCode::$variant,)+];

            /// The name on the wire.
            pub fn name(self) -> &'static str {
                match self { $(ProblemCode::$variant => $name,)+ }
            }

            /// What it means, for people.
            pub fn meaning(self) -> &'static str {
                match self { $(ProblemCode::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// The HTTP status that goes with it.
            pub fn status(self) -> u16 {
                match self { $(ProblemCode::$variant => $status,)+ }
            }
        }
    };
}

codes! {
    /// The request line, a header or a control message is malformed.
    MalformedRequest = "malformed_request", 400;
    /// The application could not read the query.
    MalformedQuery = "malformed_query", 400;
    /// The application could not read the key bundle.
    MalformedKeys = "malformed_keys", 400;
    /// No bearer token, or one the server does not know.
    Unauthorized = "unauthorized", 401;
    /// Only clients with a token may do this, or the request comes from a page of an origin that is not allowed.
    Forbidden = "forbidden", 403;
    /// No such path.
    NotFound = "not_found", 404;
    /// No such application here.
    ApplicationNotFound = "application_not_found", 404;
    /// No such key bundle of this client. Another client's bundle gives the same answer.
    KeyNotFound = "key_not_found", 404;
    /// The path exists, but not with this method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The client sent its body too slowly.
    BodyTimeout = "body_timeout", 408;
    /// Well-formed keys or query, made for other parameters or another model.
    DoesNotFit = "does_not_fit", 409;
    /// A well-formed query that what the application holds, or who asks, does not allow. It changed nothing.
    NotAllowed = "not_allowed", 409;
    /// A chunk does not start where the last one ended.
    OffsetMismatch = "offset_mismatch", 409;
    /// The bundle is still being uploaded, or is finished already.
    WrongState = "wrong_state", 409;
    /// The stored bundle no longer matches its checksum; upload it again.
    KeyDamaged = "key_damaged", 410;
    /// The body, or the declared bundle, is over the limit.
    TooLarge = "too_large", 413;
    /// The body has a media type that the path does not take.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The uploaded bytes do not match the declared checksum.
    ChecksumMismatch = "checksum_mismatch", 422;
    /// The application reads another version of the bundle format.
    UnsupportedFormat = "unsupported_format", 422;
    /// The client's key bundles already take the bytes of disk that one token may use, or their number is the most that
    /// one token or, without tokens, one address may have.
    TooManyKeys = "too_many_keys", 429;
    /// The client already has the maximum number of waiting requests, or has used up what an application allows it.
    TooManyRequests = "too_many_requests", 429;
    /// An error inside the server; its log has details.
    Internal = "internal", 500;
    /// The server's disk failed.
    StorageFailed = "storage_failed", 500;
    /// Too many requests of all clients are waiting.
    QueueFull = "queue_full", 503;
    /// The memory reserved for keys and answers is in use.
    MemoryFull = "memory_full", 503;
    /// The server cannot open another file at the moment.
    Overloaded = "overloaded", 503;
    /// The server is starting: it loads what it offers.
    Starting = "starting", 503;
    /// The server is shutting down.
    ShuttingDown = "shutting_down", 503;
    /// The answer took longer than the server allows.
    AnswerTimeout = "answer_timeout", 504;
    /// The disk, or the part of it reserved for keys, is full.
    StorageFull = "storage_full", 507;
}

impl ProblemCode {
    /// The code with this name, if this version knows it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
