//! Routes of the proxy.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Sender, UnboundedReceiver};
use unspoken_llama_model::ClientModel;

use crate::failure::Failure;
use crate::request::{Asked, EmbeddingsAsked};
use crate::response::{Kind, Writer, embeddings};
use crate::worker::{Event, Job};
use crate::{Key, MAX_WAITING, Options};

/// Bytes of a request, at most.
const MAX_BODY: usize = 4 << 20;

/// Makes the vectors of texts; the error is told to the caller.
pub type Embed = Box<dyn Fn(&[String]) -> Result<Vec<Vec<f32>>, String> + Send + Sync>;

/// What the routes know.
pub(crate) struct Routes {
    model: String,
    key: Key,
    /// Tokens of an answer if nothing is said.
    tokens: usize,
    started: u64,
    embedder: Option<(String, Embed)>,
    client: Arc<ClientModel>,
    jobs: Sender<Job>,
}

impl Routes {
    pub fn new(options: Options, jobs: Sender<Job>, client: Arc<ClientModel>) -> Self {
        let Options { model, key, tokens, embedder, .. } = options;
        Routes { model, key, tokens, started: seconds(), embedder, client, jobs }
    }

    fn check_model(&self, found: &str) -> Result<(), Failure> {
        if found == self.model { Ok(()) } else { Err(Failure::model(found, &self.model)) }
    }

    /// Names of the models: what answers, and what embeds.
    fn names(&self) -> impl Iterator<Item = &str> {
        [self.model.as_str()].into_iter().chain(self.embedder.iter().map(|(name, _)| name.as_str()))
    }

    fn model_object(&self, name: &str) -> Value {
        json!({ "id": name, "object": "model", "created": self.started, "owned_by": "unspoken" })
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(crate) fn router(routes: Routes) -> Router {
    let routes = Arc::new(routes);
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(text))
        .route("/v1/embeddings", post(embed))
        .fallback(async |request: Request| Failure::route(&format!("{} {}", request.method(), request.uri().path())))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        // Outermost: without the key nothing is read.
        .layer(middleware::from_fn_with_state(Arc::clone(&routes), check_key))
        .with_state(routes)
}

async fn check_key(State(routes): State<Arc<Routes>>, request: Request, next: Next) -> Response {
    let found = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let found = found.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if !bool::from(found.trim().as_bytes().ct_eq(routes.key.as_str().as_bytes())) {
        return Failure::unauthorized().into_response();
    }
    next.run(request).await
}

async fn models(State(routes): State<Arc<Routes>>) -> Json<Value> {
    let all: Vec<Value> = routes.names().map(|name| routes.model_object(name)).collect();
    Json(json!({ "object": "list", "data": all }))
}

async fn model(State(routes): State<Arc<Routes>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    if routes.names().any(|known| known == name) {
        return Ok(Json(routes.model_object(&name)));
    }
    Err(Failure::model(&name, &routes.model))
}

/// The body, or why it cannot be read.
fn body(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Failure> {
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Failure::request(None, format!("the request has more than {MAX_BODY} bytes; shorten it"))
        }
        _ => Failure::request(None, rejection.to_string()),
    })
}

async fn chat(State(routes): State<Arc<Routes>>, request: Result<Bytes, BytesRejection>) -> Result<Response, Failure> {
    let asked = Asked::chat(&body(request)?, routes.tokens)?;
    answer(&routes, Kind::Chat, asked).await
}

async fn text(State(routes): State<Arc<Routes>>, request: Result<Bytes, BytesRejection>) -> Result<Response, Failure> {
    let asked = Asked::text(&body(request)?, routes.tokens)?;
    answer(&routes, Kind::Text, asked).await
}

async fn embed(
    State(routes): State<Arc<Routes>>,
    request: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Failure> {
    let asked = EmbeddingsAsked::read(&body(request)?)?;
    let routes = Arc::clone(&routes);
    // The words of many texts are looked up.
    let done = tokio::task::spawn_blocking(move || {
        let Some((name, embed)) = &routes.embedder else {
            return Err(Failure::route("embedder; start it with --words"));
        };
        if asked.model != *name {
            return Err(Failure::model(&asked.model, name));
        }
        let vectors = embed(&asked.texts).map_err(|error| Failure::request(Some("input"), error))?;
        Ok(embeddings(name, &vectors, asked.base64))
    });
    done.await.map_err(|error| Failure::broken(error.to_string()))?.map(Json)
}

/// Answers a request for text.
async fn answer(routes: &Routes, kind: Kind, asked: Asked) -> Result<Response, Failure> {
    routes.check_model(&asked.model)?;
    asked
        .wanted
        .sampling
        .check(routes.client.config().vocabulary)
        .map_err(|error| Failure::request(None, error.to_string()))?;
    // An answer is short, so a slow reader does not make the proxy wait.
    let (events, answered) = mpsc::unbounded_channel();
    let (streamed, usage) = (asked.stream, asked.usage);
    let writer = Writer::new(kind, &routes.model, seconds(), asked.choices, Arc::clone(&routes.client))?;
    routes.jobs.try_send(Job { asked, events }).map_err(|error| match error {
        TrySendError::Full(_) => Failure::full(MAX_WAITING),
        TrySendError::Closed(_) => Failure::unavailable("the proxy is ending"),
    })?;
    if streamed {
        return Ok(stream_of(writer, answered, usage).await?.into_response());
    }
    whole(writer, answered).await.map(IntoResponse::into_response)
}

/// The answer when all of it is there.
async fn whole(mut writer: Writer, mut answered: UnboundedReceiver<Event>) -> Result<Json<Value>, Failure> {
    while let Some(event) = answered.recv().await {
        match event {
            Event::Piece { choice, text, probabilities } => writer.add(choice, &text, probabilities),
            Event::Ended { choice, end } => writer.end(choice, end),
            Event::Finished(usage) => return Ok(Json(writer.whole(usage))),
            Event::Failed(failure) => return Err(failure),
        }
    }
    Err(Failure::unavailable("the proxy is ending"))
}

/// The answer as it comes. A failure before the first piece is a failure of the request.
async fn stream_of(
    mut writer: Writer,
    mut answered: UnboundedReceiver<Event>,
    usage: bool,
) -> Result<Sse<impl Stream<Item = Result<Sent, Infallible>>>, Failure> {
    let first = match answered.recv().await {
        Some(Event::Failed(failure)) => return Err(failure),
        None => return Err(Failure::unavailable("the proxy is ending")),
        Some(first) => first,
    };
    let begun = writer.begin();
    let events = stream::once(async { first }).chain(stream::unfold(answered, async |mut answered| {
        let event = answered.recv().await?;
        Some((event, answered))
    }));
    let written = events.flat_map(move |event| {
        let objects = match event {
            Event::Piece { choice, text, probabilities } => vec![writer.piece(choice, &text, probabilities)],
            Event::Ended { choice, end } => vec![writer.last(choice, end)],
            Event::Finished(taken) if usage => vec![writer.usage(taken), Value::Null],
            Event::Finished(_) => vec![Value::Null],
            Event::Failed(failure) => vec![failure.object()],
        };
        stream::iter(objects)
    });
    let sent = stream::iter(begun).chain(written).map(|object| {
        let data = if object.is_null() { "[DONE]".to_owned() } else { object.to_string() };
        Ok(Sent::default().data(data))
    });
    Ok(Sse::new(sent).keep_alive(KeepAlive::default()))
}
