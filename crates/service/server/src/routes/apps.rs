//! Routes that describe applications and answer queries.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use unspoken_protocol::AnswerProgress;
use unspoken_wire::ProblemCode;
use unspoken_wire::http::{BYTES, PROGRESS, PROTOBUF};
use unspoken_wire::v1::{self, ApplicationDescription, ApplicationList};

use super::described::{RouteDescription, bytes_of, message, pattern, progress_content};
use crate::application::Application;
use crate::auth::ClientName;
use crate::body::read_all;
use crate::concurrency::ConcurrencyPermit;
use crate::engine::{Query, turn_name};
use crate::network::Network;
use crate::observe::RequestLog;
use crate::refusal::{Refusal, accepts, message_response, wants_json};
use crate::service::{KnownClient, Service};
use crate::steps::{AnswerSteps, Step};
use crate::store::{Bundle, incomplete};

pub(super) async fn list(State(service): State<Arc<Service>>, _: KnownClient, headers: HeaderMap) -> Response {
    let names = service.applications.iter().map(|application| application.name().to_owned()).collect();
    message_response(&ApplicationList { names }, wants_json(&headers))
}

pub(super) async fn describe(
    State(service): State<Arc<Service>>,
    _: KnownClient,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let application = service.application(&name)?;
    // First: the limits may change with it.
    let description = application.half().describe();
    let limits = application.half().limits();
    let limits = v1::Limits {
        key_format: application.half().key_limits().format,
        max_key_bytes: service.applications.max_key_bytes(application.key_set),
        max_query_bytes: limits.query_bytes as u64,
        max_answer_bytes: limits.answer_bytes as u64,
    };
    let message = ApplicationDescription { name, limits: Some(limits), description };
    Ok(message_response(&message, wants_json(&headers)))
}

/// The model of an application, if its owner publishes it.
pub(super) async fn model(
    State(service): State<Arc<Service>>,
    _: KnownClient,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    let published = service.application(&name)?.published().cloned().ok_or_else(|| {
        let remedy = "get the client's half of the model from the owner of the service";
        Refusal::new(ProblemCode::NotFound, format!("{name} publishes no model"), remedy)
    })?;
    Ok(([(header::CONTENT_TYPE, PROTOBUF)], published).into_response())
}

/// Makes all possible checks before it reads the query. A client that accepts it is sent the progress, unless the
/// answer or a refusal comes first.
pub(super) async fn ask(
    State(service): State<Arc<Service>>,
    KnownClient(client): KnownClient,
    Path(name): Path<String>,
    Extension(log): Extension<Arc<RequestLog>>,
    request: Request,
) -> Result<Response, Refusal> {
    let application = service.application(&name)?;
    let bundle = service.bundle(&client, key_parameter(request.uri().query())?)?;
    bundle.mark_used();
    check_usable(&service, &bundle)?;
    check_key(application, &bundle)?;

    let turn = turn_name(&client, bundle.id);
    let permit = service.queries.try_acquire(&turn).ok_or_else(|| too_many(service.queries.limit()))?;
    let (parts, body) = request.into_parts();
    let network = parts.extensions.get::<Network>().copied();
    let mut memory = service.engine.bodies.arriving();
    let limit = application.half().limits().query_bytes;
    let bytes = read_all(&parts.headers, body, limit, &service.body_deadlines(), &mut memory).await?;
    let query = Query::new(bytes, memory);

    let (engine, application, progress) =
        (service.engine.clone(), application.clone(), Arc::new(AnswerProgress::new()));
    let reported = progress.clone();
    let answer = async move {
        let bytes = engine.answer((&client, network), &application, bundle, query, reported).await?;
        Ok(Bytes::from_owner(AnswerBytes { bytes, _permit: permit }))
    };
    if !accepts(&parts.headers, &[PROGRESS]) {
        return Ok(plain(answer.await?));
    }
    let mut steps = AnswerSteps::new(answer, progress);
    match steps.next().await {
        Step::Ended(answer) => Ok(plain(answer?)),
        Step::Reached(first) => Ok(steps.into_response(first, log)),
    }
}

/// The name of an application in a path.
fn described_name(about: RouteDescription) -> RouteDescription {
    let pattern = pattern("^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$", 120);
    about.path("name", "Name of the application. Its slashes may be written as `%2F`.", pattern)
}

pub(super) fn about_list() -> RouteDescription {
    RouteDescription::new("list_applications", "The applications of the service", "")
        .answers(200, message::<ApplicationList>("Their names."))
}

pub(super) fn about_describe() -> RouteDescription {
    let about = RouteDescription::new("describe_application", "What a client needs to know of an application", "");
    described_name(about)
        .answers(200, message::<ApplicationDescription>("Limits, and the application's own description."))
        .problems(&[ProblemCode::ApplicationNotFound])
}

pub(super) fn about_model() -> RouteDescription {
    let more = "The files of the client's half, or of all of it, as the protobuf message `PublishedModel`.";
    described_name(RouteDescription::new(
        "published_model",
        "The model of an application, if its owner publishes it",
        more,
    ))
    .answers(200, bytes_of(PROTOBUF, "The files."))
    .problems(&[ProblemCode::ApplicationNotFound, ProblemCode::NotFound])
}

pub(super) fn about_ask() -> RouteDescription {
    let more = "If `Accept` names `application/x-unspoken-progress` and the answer takes longer than a moment, the \
                response is a stream of frames with the progress, and in the end the answer or a problem. The \
                application's description limits the bytes of query and answer (`max_query_bytes`, \
                `max_answer_bytes`).";
    described_name(RouteDescription::new("ask", "Send an encrypted query and get its encrypted answer", more))
        .query("key", "Id of a finished key bundle.", pattern("^[0-9a-f]{32}$", 32))
        .body_bytes("The query, bytes of the application.")
        .answers(200, bytes_of(BYTES, "The answer, bytes of the application.").content(PROGRESS, progress_content()))
        .uses_disk()
        .problems(&[
            ProblemCode::MalformedQuery,
            ProblemCode::MalformedKeys,
            ProblemCode::ApplicationNotFound,
            ProblemCode::KeyNotFound,
            ProblemCode::DoesNotFit,
            ProblemCode::NotAllowed,
            ProblemCode::WrongState,
            ProblemCode::KeyDamaged,
            ProblemCode::UnsupportedFormat,
            ProblemCode::TooManyRequests,
            ProblemCode::QueueFull,
            ProblemCode::AnswerTimeout,
        ])
}

fn plain(answer: Bytes) -> Response {
    ([(header::CONTENT_TYPE, BYTES)], answer).into_response()
}

/// An answer. Until it has been sent, its query counts as one in progress.
struct AnswerBytes {
    bytes: Bytes,
    _permit: ConcurrencyPermit<ClientName>,
}

impl AsRef<[u8]> for AnswerBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn too_many(limit: usize) -> Refusal {
    let message = format!("the client has {limit} queries in progress, the most it may have");
    Refusal::new(ProblemCode::TooManyRequests, message, "ask again later").retry_after(1)
}

/// The `key` of `?key={id}`.
fn key_parameter(query: Option<&str>) -> Result<&str, Refusal> {
    query.unwrap_or("").split('&').find_map(|pair| pair.strip_prefix("key=")).ok_or_else(|| {
        let remedy = "add ?key= with the id of a finished key bundle";
        Refusal::new(ProblemCode::MalformedRequest, "the URL has no key bundle", remedy)
    })
}

/// Refuses a bundle that no application can use, as if it were not there: then clients make another one. An
/// application of another kind has come in the place of its own.
pub(super) fn check_usable(service: &Service, bundle: &Bundle) -> Result<(), Refusal> {
    service.application_of(&bundle.meta).map(drop).map_err(|_| Refusal::key_not_found())
}

fn check_key(application: &Application, bundle: &Bundle) -> Result<(), Refusal> {
    if bundle.meta.key_set != application.key_set.to_string() {
        let (found, needed) = (&bundle.meta.application, application.name());
        let message = format!("the key bundle has the parameters and kind of keys of {found:?}, not of {needed:?}");
        let remedy = "upload keys for this application";
        return Err(Refusal::new(ProblemCode::DoesNotFit, message, remedy));
    }
    check_format(application, bundle.meta.key_format)?;
    if !bundle.is_ready() {
        return Err(incomplete(bundle.offset(), bundle.meta.length).into());
    }
    Ok(())
}

pub(super) fn check_format(application: &Application, found: u32) -> Result<(), Refusal> {
    let needed = application.half().key_limits().format;
    if found != needed {
        return Err(Refusal::new(
            ProblemCode::UnsupportedFormat,
            format!("the key bundle has format {found}; the application reads {needed}"),
            "make the keys with a client of the same version as the service",
        ));
    }
    Ok(())
}
