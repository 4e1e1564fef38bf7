//! `unspoken mcp`: a server of the Model Context Protocol, on standard input and output.
//!
//! An assistant starts it and calls its tools. Each tool asks one application of a service, so that the service does
//! not see what the assistant looks up. When the assistant calls, and how often, the service does see.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use unspoken_client::transport::Cancel;
use unspoken_client::{Progress, ServiceClient};
use unspoken_pir::{PirClient, PirOptions, Question};
use unspoken_pir_scheme::{Layout, Mode};
use unspoken_protocol::application_kind;
use unspoken_search_client::{Searcher, without_documents};

use super::connection::Applications;
use super::search::{Embedder, TextEmbedder, check_embedder};
use crate::interrupt;

/// Pause between two looks at whether the command was interrupted.
const PAUSE: Duration = Duration::from_millis(200);

/// Documents that a search finds, at most and if nothing is said.
const MAX_DOCUMENTS: u64 = 50;
const USUAL_DOCUMENTS: u64 = 5;

/// Let an assistant look things up privately: a server of the Model Context Protocol
///
/// Assistants start this command and speak with it over its standard input and output. It offers a tool for each
/// collection of the service (`search`), if --words is given, and for each database that is read by key (`get`). The
/// service sees when a tool is called, and neither the question nor what is found. The assistant sees both: if it runs
/// at somebody else's, so do they.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    applications: Applications,
    #[command(flatten)]
    words: Embedder,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let embedder = arguments.words.open()?.map(Arc::new);
    let mut tools = Vec::new();
    for name in without_documents(arguments.applications.names(&cancel)?) {
        tools.extend(LookupTool::open(arguments, &name, embedder.as_ref(), &cancel)?);
    }
    let mut names = HashSet::new();
    if let Some(twice) = tools.iter().find(|tool| !names.insert(&tool.tool.name)) {
        anyhow::bail!("found two tools {}, needed one; choose applications with --application", twice.tool.name);
    }
    anyhow::ensure!(
        !tools.is_empty(),
        "found no collection or database at the service that a tool could ask; collections need --words, databases \
         must be read by key"
    );
    let server = Server { tools: tools.into(), cancel: cancel.clone() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let served = runtime.block_on(async {
        let running = server.serve(rmcp::transport::stdio()).await.context("begin to serve an assistant")?;
        let interrupted = async {
            while !cancel.is_cancelled() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            ended = running.waiting() => ended.context("serve an assistant").map(drop),
            () = interrupted => Ok(()),
        }
    });
    // A read of standard input cannot be interrupted.
    runtime.shutdown_background();
    served
}

/// A tool that asks one application.
struct LookupTool {
    tool: Tool,
    client: Mutex<Lookup>,
}

/// What a tool asks.
enum Lookup {
    Collection(Box<Searcher>, Arc<TextEmbedder>),
    Database(Box<ServiceClient<PirClient>>),
}

impl LookupTool {
    /// Connects to an application, if tools can ask it.
    fn open(
        arguments: &Arguments,
        name: &str,
        embedder: Option<&Arc<TextEmbedder>>,
        cancel: &Cancel,
    ) -> anyhow::Result<Option<Self>> {
        let open = |name: &str| arguments.applications.open(name);
        let (transport, state) = open(name)?;
        let description = transport.describe(name, cancel)?.description;
        let mut step = |_: Progress| ();
        let (client, tool) = match (application_kind(&description), embedder) {
            (Some("search"), Some(embedder)) => {
                let searcher = Searcher::connect(name, open, &mut step, cancel)?;
                check_embedder(Some(embedder), searcher.description())?;
                let count = searcher.description().document_count();
                let about =
                    format!("Finds the documents nearest in meaning to a question among the {count} of {name}.");
                (Lookup::Collection(Box::new(searcher), Arc::clone(embedder)), search_tool(name, about))
            }
            (Some("retrieve"), _) => {
                let options = PirOptions::new(Mode::Packed, state.clone());
                let client = ServiceClient::<PirClient>::connect(transport, name, options, &state, &mut step, cancel)?;
                if !matches!(client.description().layout(), Layout::Keys { .. }) {
                    return Ok(None);
                }
                (Lookup::Database(Box::new(client)), get_tool(name))
            }
            _ => return Ok(None),
        };
        Ok(Some(LookupTool { tool, client: Mutex::new(client) }))
    }

    /// Answers a call: the text of the answer.
    fn call(&self, arguments: &JsonObject, cancel: &Cancel) -> anyhow::Result<String> {
        let mut step = |_: Progress| ();
        match &mut *self.client.lock().unwrap_or_else(PoisonError::into_inner) {
            Lookup::Collection(searcher, embedder) => {
                let query = text(arguments, "query")?;
                let count = count(arguments)?;
                let vector = embedder.vectors(&[query], |_| "the query".into())?.into_raw_vec_and_offset().0;
                let found = searcher.find(&[vector], count, &mut step, cancel)?.concat();
                let document = |found: &unspoken_search_client::Found| {
                    let id = found.document.id.as_deref().map(String::from_utf8_lossy);
                    let text = String::from_utf8_lossy(&found.document.content);
                    json!({ "similarity": found.cosine, "id": id, "document": text })
                };
                Ok(Value::Array(found.iter().map(document).collect()).to_string())
            }
            Lookup::Database(client) => {
                let key = text(arguments, "key")?;
                let answers = client.ask(&[Question::Key(key.into_bytes())], &mut step, cancel)?;
                let record = answers.into_iter().next().and_then(|answer| answer.record);
                Ok(match record {
                    Some(record) => String::from_utf8_lossy(&record).into_owned(),
                    None => "There is no record with this key.".into(),
                })
            }
        }
    }
}

/// The argument with this name.
fn text(arguments: &JsonObject, name: &str) -> anyhow::Result<String> {
    let found = arguments.get(name).and_then(Value::as_str);
    found.map(str::to_owned).with_context(|| format!("found no text as {name:?}, needed one"))
}

/// The number of documents.
fn count(arguments: &JsonObject) -> anyhow::Result<usize> {
    let found = arguments.get("count").map_or(Some(USUAL_DOCUMENTS), Value::as_u64);
    match found.filter(|found| (1..=MAX_DOCUMENTS).contains(found)) {
        Some(count) => Ok(count as usize),
        None => anyhow::bail!("found another \"count\", needed a number from 1 to {MAX_DOCUMENTS}"),
    }
}

fn search_tool(name: &str, about: String) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "what to look for" },
            "count": {
                "type": "integer", "minimum": 1, "maximum": MAX_DOCUMENTS, "default": USUAL_DOCUMENTS,
                "description": "number of documents",
            },
        },
        "required": ["query"],
    });
    lookup_tool("search", name, about, schema)
}

fn get_tool(name: &str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": { "key": { "type": "string", "description": "key of the record" } },
        "required": ["key"],
    });
    lookup_tool("get", name, format!("Fetches the record of a key from {name}."), schema)
}

fn lookup_tool(verb: &str, application: &str, about: String, schema: Value) -> Tool {
    let Value::Object(schema) = schema else { unreachable!("an object") };
    let about = format!("{about} The service that has it does not learn what is looked up.");
    let rest = application.split_once('/').map_or(application, |(_, rest)| rest);
    let name = format!("{verb}_{}", rest.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    Tool::new(name, about, Arc::new(schema)).with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

/// The server of an assistant.
struct Server {
    tools: Arc<[LookupTool]>,
    cancel: Cancel,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("unspoken", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(|tool| tool.tool.clone()).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (tools, cancel) = (Arc::clone(&self.tools), self.cancel.clone());
        let Some(number) = tools.iter().position(|tool| tool.tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("found no tool {:?}", request.name), None));
        };
        let call = move || tools[number].call(&request.arguments.unwrap_or_default(), &cancel);
        let answered = tokio::task::spawn_blocking(call).await;
        let answered = answered.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(match answered {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(format!("{error:#}"))]).into(),
        })
    }
}
