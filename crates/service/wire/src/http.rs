//! Paths, headers and media types that both sides use.

/// Path at which key bundles are declared (POST) and listed (GET). One bundle is at `/v1/keys/{id}`; its upload is
/// completed by POST to `/v1/keys/{id}/complete`.
pub const KEYS_PATH: &str = "/v1/keys";

/// Path at which applications are listed (GET). One application is at `/v1/apps/{name}`: GET describes it, POST with
/// `?key={id}` sends a query.
pub const APPS_PATH: &str = "/v1/apps";

/// Request and response header of an upload: the byte at which a chunk starts, or the number of bytes that the server
/// has.
pub const UPLOAD_OFFSET: &str = "upload-offset";

/// Header with the id of a request in the server's log. A client may send its own: letters, digits, `-` and `_`, at
/// most 64.
pub const REQUEST_ID: &str = "x-request-id";

/// Media type of protobuf messages. A client that does not name it in
/// `Accept` gets JSON.
pub const PROTOBUF: &str = "application/x-protobuf";

/// Media type of control messages in JSON.
pub const JSON: &str = "application/json";

/// Media type of key chunks, queries and answers.
pub const BYTES: &str = "application/octet-stream";

/// Media type of an [`AnswerStream`](crate::v1::AnswerStream). If the `Accept` of a query names this type, the answer
/// comes in this type or as [`BYTES`].
pub const PROGRESS: &str = "application/x-unspoken-progress";
