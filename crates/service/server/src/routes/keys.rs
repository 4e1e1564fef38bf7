//! Routes that declare, list and delete key bundles.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use unspoken_wire::http::{BYTES, JSON, PROTOBUF, UPLOAD_OFFSET};
use unspoken_wire::v1::{KeyDeclaration, KeyList};
use unspoken_wire::{CheckedDeclaration, MAX_CONTROL_BYTES, ProblemCode, decode, decode_json};
use utoipa::openapi::ResponseBuilder;

use super::apps::{check_format, check_usable};
use super::described::{RouteDescription, key_status, message, pattern};
use crate::blocking::blocking;
use crate::body::read_all;
use crate::network::Network;
use crate::refusal::{Refusal, message_response, wants_json};
use crate::service::{KnownClient, Service};
use crate::store::{Bundle, Holder};

pub(super) async fn declare(
    State(service): State<Arc<Service>>,
    KnownClient(client): KnownClient,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let json = is_json(&parts.headers)?;
    let mut memory = service.engine.bodies.arriving();
    let bytes = read_all(&parts.headers, body, MAX_CONTROL_BYTES, &service.body_deadlines(), &mut memory).await?;
    let declared: KeyDeclaration = match json {
        true => decode_json(&bytes, MAX_CONTROL_BYTES)?,
        false => decode(&bytes, MAX_CONTROL_BYTES)?,
    };
    let declared = CheckedDeclaration::try_from(declared)?;
    let application = service.application(&declared.application)?;
    check_format(application, declared.key_format)?;
    let (key_set, limit) = (application.key_set, service.applications.max_key_bytes(application.key_set));
    if declared.length > limit {
        return Err(Refusal::new(
            ProblemCode::TooLarge,
            format!("the bundle has {} bytes; the applications that can use it take {limit}", declared.length),
            "make keys for the parameters in the application's description",
        ));
    }
    let engine = service.engine.clone();
    let holder = Holder::new(client, parts.extensions.get::<Network>().copied());
    let declared = blocking(move || engine.store.declare(&holder, declared, key_set, &mut |id| engine.cache.evict(id)));
    let declared = declared.await??;
    let mut response = status_response(&service, &declared.bundle, &parts.headers);
    if declared.is_new {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

/// Whether the body is a control message in JSON; otherwise it is protobuf.
fn is_json(headers: &HeaderMap) -> Result<bool, Refusal> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(false) };
    let media = value.to_str().unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match media.as_str() {
        JSON => Ok(true),
        PROTOBUF | "application/protobuf" | BYTES => Ok(false),
        _ => Err(Refusal::new(
            ProblemCode::UnsupportedMediaType,
            "the body is neither JSON nor protobuf",
            "send it with Content-Type: application/json or application/x-protobuf",
        )),
    }
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    KnownClient(client): KnownClient,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if client.is_anonymous() {
        return Err(Refusal::new(
            ProblemCode::Forbidden,
            "clients without a token have no list of key bundles: it would show those of others",
            "use the ids that the client stored: `unspoken keys list --url URL` shows the state of those bundles",
        ));
    }
    let keys = service.engine.store.of_owner(&client);
    Ok(message_response(&KeyList { keys }, wants_json(&headers)))
}

pub(super) async fn status(
    State(service): State<Arc<Service>>,
    KnownClient(client): KnownClient,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let bundle = service.bundle(&client, &id)?;
    check_usable(&service, &bundle)?;
    Ok(status_response(&service, &bundle, &headers))
}

pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    KnownClient(client): KnownClient,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    let bundle = service.bundle(&client, &id)?;
    let (guard, _) = bundle.take_over().await;
    let engine = service.engine.clone();
    blocking(move || {
        let _guard = guard;
        engine.store.delete(&bundle)?;
        engine.cache.evict(bundle.id);
        Ok::<_, Refusal>(())
    })
    .await??;
    Ok(StatusCode::NO_CONTENT)
}

/// The id of a bundle in a path.
pub(super) fn described_id(about: RouteDescription) -> RouteDescription {
    let about = about.path("id", "Id of a key bundle.", pattern("^[0-9a-f]{32}$", 32));
    about.problems(&[ProblemCode::KeyNotFound])
}

pub(super) fn about_list() -> RouteDescription {
    let more = "Refused without a token: it would show the bundles of others.";
    RouteDescription::new("list_keys", "The client's key bundles", more)
        .answers(200, message::<KeyList>("In no particular order."))
        .problems(&[ProblemCode::Forbidden])
}

pub(super) fn about_declare() -> RouteDescription {
    let more = "The same bundle, declared again, has the same id.";
    RouteDescription::new("declare_key", "Declare a key bundle that is about to be uploaded", more)
        .body_message::<KeyDeclaration>()
        .answers(200, key_status("The bundle was declared before."))
        .answers(201, key_status("The bundle is new."))
        .uses_disk()
        .problems(&[
            ProblemCode::ApplicationNotFound,
            ProblemCode::UnsupportedMediaType,
            ProblemCode::UnsupportedFormat,
            ProblemCode::TooManyKeys,
        ])
}

pub(super) fn about_status() -> RouteDescription {
    described_id(RouteDescription::new("key_status", "The state of a key bundle", ""))
        .answers(200, key_status("Its state."))
}

pub(super) fn about_delete() -> RouteDescription {
    described_id(RouteDescription::new("delete_key", "Delete a key bundle", ""))
        .answers(204, ResponseBuilder::new().description("It is deleted."))
        .uses_disk()
}

pub(super) fn status_response(service: &Service, bundle: &Bundle, headers: &HeaderMap) -> Response {
    let status = service.engine.store.status(bundle);
    let mut response = message_response(&status, wants_json(headers));
    response.headers_mut().insert(UPLOAD_OFFSET, status.offset.into());
    response
}
