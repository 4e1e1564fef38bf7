//! Failures, in the form of OpenAI's protocol.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use unspoken_chat::ChatError;
use unspoken_protocol::{ApplicationError, ErrorKind};

/// Seconds after which a caller that was told to come later may ask again.
const LATER: &str = "10";

/// Why a request failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// The field that is wrong, if it is one.
    param: Option<&'static str>,
    code: Option<&'static str>,
}

impl Failure {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Failure { status, message: message.into(), param: None, code: None }
    }

    /// The request asks for what cannot be done.
    pub(crate) fn request(param: Option<&'static str>, message: impl Into<String>) -> Self {
        Failure { param, ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "found no API key, or a wrong one; needed the one that the proxy printed when it started";
        Failure { code: Some("invalid_api_key"), ..Self::new(StatusCode::UNAUTHORIZED, message) }
    }

    pub(crate) fn model(found: &str, needed: &str) -> Self {
        let message = format!("model: found {found:?}, needed {needed:?}");
        let code = Some("model_not_found");
        Failure { param: Some("model"), code, ..Self::new(StatusCode::NOT_FOUND, message) }
    }

    pub(crate) fn route(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("this proxy has no {what}"))
    }

    /// More requests wait than the proxy keeps.
    pub(crate) fn full(waiting: usize) -> Self {
        let message = format!("{waiting} requests wait; ask again later");
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    /// The service cannot be asked now. Clients may try again by themselves.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// The content of an answer was refused, and nothing more is asked. Clients must not try again by themselves.
    pub fn refused(message: impl Into<String>) -> Self {
        Failure { code: Some("answer_refused"), ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, message) }
    }

    /// The service, or this program, did what it must not do.
    pub fn broken(message: impl Into<String>) -> Self {
        // A status after which clients do not ask again by themselves.
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    pub(crate) fn object(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": { "message": self.message, "type": kind, "param": self.param, "code": self.code } })
    }
}

/// An error of a text that is begun or answered.
impl From<ChatError> for Failure {
    fn from(error: ChatError) -> Self {
        match error.kind() {
            ErrorKind::Unreadable => Failure::refused(error.to_string()),
            ErrorKind::Busy | ErrorKind::Cancelled => Failure::unavailable(error.to_string()),
            ErrorKind::Internal => Failure::broken(error.to_string()),
            _ => Failure::request(None, error.to_string()),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.object())).into_response();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(LATER));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
