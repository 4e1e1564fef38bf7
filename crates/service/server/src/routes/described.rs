//! Routes with their OpenAPI descriptions: there is no way to add one without the other.
//!
//! A test compares the paths of the router with the paths of the document. Other tests compare them with
//! `docs/protocol.md` and with what the service answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use unspoken_wire::http::{BYTES, JSON, PROTOBUF, REQUEST_ID, UPLOAD_OFFSET};
use unspoken_wire::v1::{ApplicationDescription, ApplicationList, KeyDeclaration, KeyList, KeyStatus, Limits, Problem};
use unspoken_wire::{MAX_CONTROL_BYTES, ProblemCode};
use utoipa::ToSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathsBuilder};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AllOfBuilder, Object, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Content, ContentBuilder, Header, HttpMethod, InfoBuilder, KnownFormat, LicenseBuilder, OpenApi,
    OpenApiBuilder, PathItem, Paths, Ref, RefOr, Required, Response, ResponseBuilder,
};

use crate::service::Service;

/// Longest id of a request that a client may choose; see `observe`.
const MAX_REQUEST_ID: usize = 64;

/// A method, for the router and for the document.
type Verb = (MethodFilter, HttpMethod);

pub(super) const GET: Verb = (MethodFilter::GET, HttpMethod::Get);
pub(super) const POST: Verb = (MethodFilter::POST, HttpMethod::Post);
pub(super) const PATCH: Verb = (MethodFilter::PATCH, HttpMethod::Patch);
pub(super) const DELETE: Verb = (MethodFilter::DELETE, HttpMethod::Delete);

/// Routes and what the OpenAPI document says about them.
pub(super) struct DescribedRouter {
    router: Router<Arc<Service>>,
    paths: PathsBuilder,
}

impl DescribedRouter {
    pub(super) fn new() -> Self {
        Self { router: Router::new(), paths: PathsBuilder::new() }
    }

    /// Adds a route. One for GET answers HEAD too.
    pub(super) fn route<H, T>(mut self, (filter, method): Verb, path: &str, handler: H, about: RouteDescription) -> Self
    where
        H: Handler<T, Arc<Service>>,
        T: 'static,
    {
        // Requests of pages of other origins are refused, see `refuse_other_pages`.
        let about = if method == HttpMethod::Get { about } else { about.problems(&[ProblemCode::Forbidden]) };
        let operation = about.into_operation();
        let head = (method == HttpMethod::Get).then(|| head_of(&operation));
        let documented = path.replace("{*", "{");
        self.paths = self.paths.path(&documented, PathItem::new(method, operation));
        if let Some(head) = head {
            self.paths = self.paths.path(documented, PathItem::new(HttpMethod::Head, head));
        }
        self.router = self.router.route(path, on(filter, handler));
        self
    }

    pub(super) fn into_parts(self) -> (Router<Arc<Service>>, OpenApi) {
        (self.router, document(self.paths.build()))
    }
}

/// The description of a route: what it takes, what it answers, and the problems that it reports.
pub(super) struct RouteDescription {
    operation: OperationBuilder,
    responses: BTreeMap<String, Response>,
    problems: Vec<ProblemCode>,
}

impl RouteDescription {
    /// A route that needs a token, if the service has tokens.
    pub(super) fn new(id: &str, summary: &str, description: &str) -> Self {
        let problems = vec![ProblemCode::Unauthorized, ProblemCode::Internal, ProblemCode::Starting];
        let security = [SecurityRequirement::new("bearer", [""; 0]), SecurityRequirement::default()];
        let operation = operation(id, summary, description).securities(Some(security));
        Self { operation, responses: BTreeMap::new(), problems }
    }

    /// A route for everybody.
    pub(super) fn open(id: &str, summary: &str, description: &str) -> Self {
        // No requirement at all; without this line the requirements of the document would apply.
        let operation = operation(id, summary, description).securities(Some([]));
        Self { operation, responses: BTreeMap::new(), problems: Vec::new() }
    }

    /// A parameter in the path. Paths that cannot be read are refused.
    pub(super) fn path(mut self, name: &str, about: &str, schema: ObjectBuilder) -> Self {
        self.operation = self.operation.parameter(parameter(ParameterIn::Path, name, about, schema));
        self.problems(&[ProblemCode::MalformedRequest])
    }

    pub(super) fn query(mut self, name: &str, about: &str, schema: ObjectBuilder) -> Self {
        self.operation = self.operation.parameter(parameter(ParameterIn::Query, name, about, schema));
        self
    }

    pub(super) fn header(mut self, name: &str, about: &str, schema: ObjectBuilder) -> Self {
        self.operation = self.operation.parameter(parameter(ParameterIn::Header, name, about, schema));
        self
    }

    /// A body that is a control message.
    pub(super) fn body_message<M: ToSchema>(self) -> Self {
        let schema = Ref::from_schema_name(M::name());
        let about = format!("At most {MAX_CONTROL_BYTES} bytes.");
        let body = RequestBodyBuilder::new().description(Some(about)).required(Some(Required::True));
        let body = body.content(JSON, ContentBuilder::new().schema(Some(schema)).build());
        self.body(body.content(PROTOBUF, ContentBuilder::new().schema(Some(bytes())).build()).build())
    }

    /// A body of bytes.
    pub(super) fn body_bytes(self, about: &str) -> Self {
        let body = RequestBodyBuilder::new().description(Some(about)).required(Some(Required::True));
        self.body(body.content(BYTES, ContentBuilder::new().schema(Some(bytes())).build()).build())
    }

    fn body(mut self, body: RequestBody) -> Self {
        self.operation = self.operation.request_body(Some(body));
        self.problems(&[
            ProblemCode::MalformedRequest,
            ProblemCode::BodyTimeout,
            ProblemCode::TooLarge,
            ProblemCode::MemoryFull,
            ProblemCode::ShuttingDown,
        ])
    }

    pub(super) fn answers(mut self, status: u16, response: ResponseBuilder) -> Self {
        self.responses.insert(status.to_string(), response.build());
        self
    }

    pub(super) fn problems(mut self, codes: &[ProblemCode]) -> Self {
        self.problems.extend(codes);
        self
    }

    /// The problems of a route that reads or writes bundles.
    pub(super) fn uses_disk(self) -> Self {
        self.problems(&[ProblemCode::StorageFailed, ProblemCode::StorageFull, ProblemCode::Overloaded])
    }

    fn into_operation(self) -> Operation {
        let mut responses = self.responses;
        let mut by_status = BTreeMap::<u16, Vec<ProblemCode>>::new();
        for code in self.problems {
            let codes = by_status.entry(code.status()).or_default();
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        responses.extend(by_status.into_iter().map(|(status, codes)| (status.to_string(), refused(status, &codes))));
        let mut operation = self.operation;
        for (status, mut response) in responses {
            response.headers.insert(REQUEST_ID.into(), RefOr::T(request_id_header()));
            operation = operation.response(status, response);
        }
        operation.build()
    }
}

fn operation(id: &str, summary: &str, description: &str) -> OperationBuilder {
    OperationBuilder::new()
        .operation_id(Some(id))
        .summary(Some(summary))
        .description((!description.is_empty()).then_some(description))
}

/// The same route for HEAD: no content.
fn head_of(get: &Operation) -> Operation {
    let mut head = get.clone();
    head.operation_id = head.operation_id.map(|id| format!("{id}_head"));
    head.summary = head.summary.map(|summary| format!("{summary}: the head alone"));
    for response in head.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            response.content.clear();
        }
    }
    head
}

fn parameter(place: ParameterIn, name: &str, about: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(Required::True)
        .description(Some(about))
        .schema(Some(schema))
        .build()
}

/// A response with a control message, as JSON or protobuf.
pub(super) fn message<M: ToSchema>(about: &str) -> ResponseBuilder {
    let schema = Ref::from_schema_name(M::name());
    ResponseBuilder::new()
        .description(about)
        .content(JSON, ContentBuilder::new().schema(Some(schema)).build())
        .content(PROTOBUF, ContentBuilder::new().schema(Some(bytes())).build())
}

/// A response about one bundle, with `Upload-Offset`.
pub(super) fn key_status(about: &str) -> ResponseBuilder {
    let about_offset = "Bytes that the service has; the next chunk starts there.";
    message::<KeyStatus>(about).header(UPLOAD_OFFSET, number_header(about_offset, 0))
}

/// A response of text.
pub(super) fn text(about: &str) -> ResponseBuilder {
    let schema = ObjectBuilder::new().schema_type(Type::String);
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(about).content("text/plain; charset=utf-8", content)
}

/// A response of bytes.
pub(super) fn bytes_of(media: &str, about: &str) -> ResponseBuilder {
    ResponseBuilder::new().description(about).content(media, ContentBuilder::new().schema(Some(bytes())).build())
}

/// An answer with its progress.
pub(super) fn progress_content() -> Content {
    ContentBuilder::new().schema(Some(bytes())).build()
}

/// The schema of bytes that are not JSON.
fn bytes() -> Object {
    ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary))).build()
}

/// A text of this pattern, at most so long.
pub(super) fn pattern(pattern: &str, max_length: usize) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).max_length(Some(max_length))
}

/// A number of bytes.
pub(super) fn count(minimum: u64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::UInt64)))
        .minimum(Some(minimum as usize))
}

fn number_header(about: &str, minimum: u64) -> Header {
    HeaderBuilder::new().schema(Some(count(minimum))).description(Some(about)).build()
}

fn request_id_header() -> Header {
    let schema = pattern("^[A-Za-z0-9_-]+$", MAX_REQUEST_ID);
    let about = "Id of the request in the service's log: the client's own, if it sent one.";
    HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
}

/// The response with one of these problems.
fn refused(status: u16, codes: &[ProblemCode]) -> Response {
    let lines: Vec<_> = codes.iter().map(|code| format!("`{code}`: {}", code.meaning())).collect();
    let names = codes.iter().map(|code| code.name());
    let code = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
    let narrowed = ObjectBuilder::new().property("code", code).build();
    let schema = AllOfBuilder::new().item(Ref::from_schema_name(Problem::name())).item(narrowed).build();
    let schema = Schema::AllOf(schema);
    let mut response = ResponseBuilder::new()
        .description(lines.join("\n\n"))
        .content(JSON, ContentBuilder::new().schema(Some(schema)).build())
        .content(PROTOBUF, ContentBuilder::new().schema(Some(bytes())).build());
    if matches!(status, 429 | 503 | 507) {
        let about = "Seconds after which the same request may succeed; absent if it cannot.";
        response = response.header("retry-after", number_header(about, 1));
    }
    if codes.contains(&ProblemCode::OffsetMismatch) {
        response = response.header(UPLOAD_OFFSET, number_header("Bytes that the service has.", 0));
    }
    if status == 401 {
        let scheme = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["Bearer"]));
        response = response.header("www-authenticate", HeaderBuilder::new().schema(Some(scheme)).build());
    }
    response.build()
}

/// The document with these paths.
fn document(paths: Paths) -> OpenApi {
    let description = "A service that computes on encrypted questions. Keys, queries and answers are bytes of an \
                       application; the other messages are JSON, or protobuf if `Accept` names \
                       `application/x-protobuf`. In JSON, ids and hashes are lower-case hexadecimal digits, other \
                       bytes are base64, and numbers of bytes are JSON numbers. Heads of requests have at most 16 KiB.";
    let info = InfoBuilder::new()
        .title("Unspoken")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(description))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()));
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token of `unspoken keys token`. A service without tokens needs none."))
        .build();
    let components = ComponentsBuilder::new()
        .schema_from::<ApplicationDescription>()
        .schema_from::<ApplicationList>()
        .schema_from::<KeyDeclaration>()
        .schema_from::<KeyList>()
        .schema_from::<KeyStatus>()
        .schema_from::<Limits>()
        .schema_from::<Problem>()
        .security_scheme("bearer", SecurityScheme::Http(bearer));
    OpenApiBuilder::new().info(info.build()).paths(paths).components(Some(components.build())).build()
}
