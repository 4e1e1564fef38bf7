//! Routes of the service.

mod apps;
mod keys;
mod upload;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use unspoken_wire::ProblemCode;
pub(crate) use upload::UPLOAD_BYTES;

use crate::engine::internal;
use crate::observe::observe;
use crate::refusal::Refusal;
use crate::service::Service;

pub(crate) fn router(service: Arc<Service>) -> Router {
    let key = get(keys::status).patch(upload::append).delete(keys::delete);
    Router::new()
        .route("/v1/apps", get(apps::list))
        .route("/v1/apps/{*name}", get(apps::describe).post(apps::ask))
        .route("/v1/keys", get(keys::list).post(keys::declare))
        .route("/v1/keys/{id}", key)
        .route("/v1/keys/{id}/complete", post(upload::complete))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(no_metrics))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(service.clone(), observe))
        .with_state(service)
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
async fn readyz(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    if service.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".into());
    }
    if !service.engine.store.is_healthy() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the disk for keys failed\n".into());
    }
    let applications = service.applications.iter();
    let reasons = applications.filter_map(|(name, offer)| Some((name, offer.application.check_ready().err()?)));
    let lines: String = reasons.map(|(name, reason)| format!("{name}: {reason}\n")).collect();
    match lines.is_empty() {
        true => (StatusCode::OK, "ready\n".into()),
        false => (StatusCode::SERVICE_UNAVAILABLE, lines),
    }
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

/// Metrics count the requests of all clients, so clients do not see them.
async fn no_metrics() -> Refusal {
    let message = "metrics are not served to clients";
    Refusal::new(ProblemCode::NotFound, message, "have the service owner set metrics_listen, and read them there")
}

async fn not_found() -> Refusal {
    Refusal::new(ProblemCode::NotFound, "no such path", "see the README of unspoken-wire")
}

async fn method_not_allowed() -> Refusal {
    Refusal::new(ProblemCode::MethodNotAllowed, "the path does not take this method", "see the README of unspoken-wire")
}
