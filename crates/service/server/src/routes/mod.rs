//! Routes of the service.
//!
//! A path that is no route is looked up among the files of the page (`src/page.rs`). The layer for other origins is
//! inside the layer that logs and counts, so preflight requests are counted; they are answered before any handler.
//! Answers under `/v1` are never compressed: their length would tell about a secret beside a text that somebody else
//! chose.

mod apps;
mod described;
mod keys;
mod upload;

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use tower_http::cors::{AllowOrigin, CorsLayer};
use unspoken_wire::ProblemCode;
use unspoken_wire::http::{JSON, REQUEST_ID, UPLOAD_OFFSET};

use described::{DELETE, DescribedRouter, GET, PATCH, POST, RouteDescription, text};

pub(crate) use upload::UPLOAD_BYTES;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, ResponseBuilder};

use crate::authorization::ConnectionAuthorization;
use crate::observe::observe;
use crate::origin::AllowedOrigin;
use crate::refusal::{Refusal, internal};
use crate::service::Service;

/// How long a browser may remember the answer to a preflight request.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// Seconds after which to look again whether the service is ready.
const UNREADY_SECONDS: &str = "5";

/// All routes, with their descriptions.
fn described() -> DescribedRouter {
    DescribedRouter::new()
        .route(GET, "/v1/apps", apps::list, apps::about_list())
        .route(GET, "/v1/apps/{*name}", apps::describe, apps::about_describe())
        .route(POST, "/v1/apps/{*name}", apps::ask, apps::about_ask())
        .route(GET, "/v1/models/{*name}", apps::model, apps::about_model())
        .route(GET, "/v1/keys", keys::list, keys::about_list())
        .route(POST, "/v1/keys", keys::declare, keys::about_declare())
        .route(GET, "/v1/keys/{id}", keys::status, keys::about_status())
        .route(PATCH, "/v1/keys/{id}", upload::append, upload::about_append())
        .route(DELETE, "/v1/keys/{id}", keys::delete, keys::about_delete())
        .route(POST, "/v1/keys/{id}/complete", upload::complete, upload::about_complete())
        .route(GET, "/healthz", healthz, about_healthz())
        .route(GET, "/readyz", readyz, about_readyz())
        .route(GET, "/openapi.json", openapi_json, about_openapi_json())
}

/// The description of the service's routes: an OpenAPI 3.1 document in JSON.
pub fn openapi() -> String {
    let (_, document) = described().into_parts();
    // The document contains only texts and numbers, so JSON serialisation cannot fail.
    document.to_pretty_json().unwrap_or_default()
}

pub(crate) fn router(service: Arc<Service>) -> Router {
    let (mut router, _) = described().into_parts();
    router = router.method_not_allowed_fallback(method_not_allowed);
    if !service.allow_origins.is_empty() {
        router = router.layer(cross_origin(&service.allow_origins));
    }
    router
        .fallback(page_or_not_found)
        .layer(middleware::from_fn_with_state(service.clone(), refuse_other_pages))
        .layer(middleware::from_fn_with_state(service.clone(), observe))
        .with_state(service)
}

/// Lets pages of these origins use the protocol, and answers their preflight requests.
pub(crate) fn cross_origin(origins: &[AllowedOrigin]) -> CorsLayer {
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin.as_str()).ok());
    let header = HeaderName::from_static;
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([
            header::ACCEPT,
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header(UPLOAD_OFFSET),
            header(REQUEST_ID),
        ])
        .expose_headers([header::RETRY_AFTER, header::WWW_AUTHENTICATE, header(UPLOAD_OFFSET), header(REQUEST_ID)])
        .max_age(PREFLIGHT_AGE)
}

/// Refuses requests of pages of other origins that change something. Browsers send some of them without a preflight
/// request, and only hide the answer from the page.
async fn refuse_other_pages(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let headers = request.headers();
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(origin) = text(header::ORIGIN)
        && !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !is_own_page(origin, text(header::HOST))
        && !service.allow_origins.iter().any(|allowed| allowed.as_str() == origin)
    {
        let remedy = "have the service owner allow the origin, or use another client";
        let message = "pages of this origin may not use the service";
        return Err(Refusal::new(ProblemCode::Forbidden, message, remedy));
    }
    Ok(next.run(request).await)
}

/// Whether an origin has the host and port that the request was sent to.
fn is_own_page(origin: &str, host: Option<&str>) -> bool {
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

/// The routes of the metrics listener.
pub(crate) fn metrics_router(service: Arc<Service>) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(service)
}

/// Reports that the process runs.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Reports whether the service accepts requests and answers them from the newest data.
async fn readyz(State(service): State<Arc<Service>>) -> Response {
    match unready(&service) {
        None => "ready\n".into_response(),
        Some(reasons) => {
            let retry = [(header::RETRY_AFTER, UNREADY_SECONDS)];
            (StatusCode::SERVICE_UNAVAILABLE, retry, reasons).into_response()
        }
    }
}

/// Why the service is not ready, if it is not.
fn unready(service: &Service) -> Option<String> {
    if service.draining.load(Ordering::Relaxed) {
        return Some("shutting down\n".into());
    }
    if !service.engine.store.is_healthy() {
        return Some("the disk for keys failed\n".into());
    }
    let applications = service.applications.iter();
    let reasons =
        applications.filter_map(|application| Some((application.name(), application.half().check_ready().err()?)));
    let lines: String = reasons.map(|(name, reason)| format!("{name}: {reason}\n")).collect();
    (!lines.is_empty()).then_some(lines)
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let engine = &service.engine;
    match engine.metrics.render(engine) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot render metrics");
            internal().into_response()
        }
    }
}

static DOCUMENT: LazyLock<String> = LazyLock::new(openapi);

async fn openapi_json() -> Response {
    ([(header::CONTENT_TYPE, JSON)], DOCUMENT.as_str()).into_response()
}

fn about_healthz() -> RouteDescription {
    RouteDescription::open("health", "Whether the process runs", "").answers(200, text("It does."))
}

fn about_readyz() -> RouteDescription {
    RouteDescription::open(
        "readiness",
        "Whether the service accepts requests and answers them from the newest data",
        "",
    )
    .answers(200, text("It does."))
    .answers(503, text("It does not. The text says why."))
}

fn about_openapi_json() -> RouteDescription {
    let document = ObjectBuilder::new().schema_type(Type::Object);
    let content = ContentBuilder::new().schema(Some(document)).build();
    let response = ResponseBuilder::new().description("An OpenAPI 3.1 document.").content(JSON, content);
    RouteDescription::open("openapi", "This description", "").answers(200, response).problems(&[ProblemCode::Starting])
}

/// Every path that is no route: a file of the page, or nothing.
async fn page_or_not_found(
    State(service): State<Arc<Service>>,
    connection: Option<Extension<ConnectionAuthorization>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Extension(connection) = connection.unwrap_or_default();
    let page = service.page.as_ref();
    let found = page.and_then(|page| page.respond(&method, uri.path(), &headers, &connection));
    found.ok_or_else(|| match uri.path() {
        // They count the requests of all clients, so clients do not see them.
        "/metrics" => Refusal::new(
            ProblemCode::NotFound,
            "metrics are not served to clients",
            "have the service owner set metrics_listen, and read them there",
        ),
        _ => Refusal::new(ProblemCode::NotFound, "no such path", "see docs/protocol.md"),
    })
}

async fn method_not_allowed() -> Refusal {
    Refusal::new(ProblemCode::MethodNotAllowed, "the path does not take this method", "see docs/protocol.md")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// axum lists the paths of a router when it is printed: `RouteId(0): "/v1/apps"`.
    fn paths_of(router: &Router<Arc<Service>>) -> BTreeSet<String> {
        let printed = format!("{router:?}");
        let routes = printed.split("fallback_router").next().unwrap_or("");
        let ids = routes.split("RouteId(").skip(1);
        let paths = ids.filter_map(|part| part.split_once("): \"")?.1.split_once('"'));
        paths.map(|(path, _)| path.replace("{*", "{")).filter(|path| path.starts_with('/')).collect()
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let (router, document) = described().into_parts();
        let documented: BTreeSet<_> = document.paths.paths.keys().cloned().collect();
        assert_eq!(paths_of(&router), documented);
        assert_eq!(documented.len(), 9);
        // The check itself sees a route that is not described.
        assert_ne!(paths_of(&router.route("/v1/other/{*rest}", get(healthz))), documented);
    }
}
