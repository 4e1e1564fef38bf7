//! Options for reaching a service, shared by all query commands.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use unspoken_client::transport::{Cancel, Transport, TransportConfig, Waiting};
use unspoken_client::{ClientError, StateDir, UsageStats};
use unspoken_offers::ClientKind;
use unspoken_search_client::without_documents;

use super::state_root::StateRoot;
use crate::progress::note;

/// Address of the service and credentials of the client.
#[derive(Clone, clap::Args)]
pub struct Connection {
    /// Address of the service: https://HOST:PORT, with a /PATH if a proxy has it below one. Without a scheme it is
    /// http:// on this machine, otherwise https://
    #[arg(long, alias = "server", env = "UNSPOKEN_URL")]
    url: String,
    /// File with the access token
    #[arg(long, env = "UNSPOKEN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Certificate authority to trust, a PEM or DER file
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Allow plain HTTP to another machine: anyone on the network path sees the token and the encrypted queries
    #[arg(long, alias = "allow-plaintext")]
    insecure_http: bool,
    /// Give up after this number of seconds without an answer, retries and the service's work included; an upload
    /// counts each piece [default: 10 if the service accepts no connection, 120 if it is busy or the connection was
    /// lost, 1200 for the answer to a query]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
}

impl Connection {
    /// Opens the connection.
    pub fn open(&self) -> anyhow::Result<Transport> {
        let mut config = TransportConfig::new(&self.url);
        config.insecure_http = self.insecure_http;
        if let Some(path) = &self.token_file {
            let token = unspoken_files::read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
            config = config.with_token(token.trim());
        }
        if let Some(path) = &self.ca {
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            config = config.with_authorities(bytes);
        }
        if let Some(seconds) = self.timeout {
            config = config.with_timeout(seconds)?;
        }
        let shown = Mutex::new(String::new());
        config.on_wait = Some(Arc::new(move |waiting: &Waiting| show_wait(waiting, &shown)));
        if config.url != self.url {
            note(&format!("address     {} (--url {} names no scheme)", config.url, self.url));
        }
        Ok(Transport::new(config)?)
    }
}

/// One line for each call that has to wait, and each new reason, such as the next step of a service that starts.
fn show_wait(waiting: &Waiting, shown: &Mutex<String>) {
    let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
    if waiting.tries == 1 || *shown != waiting.reason {
        note(&format!("{waiting} (--timeout SECONDS)"));
        shown.clone_from(&waiting.reason);
    }
}

/// The error itself, or for an application of another kind an error that names the right command.
pub fn name_command(error: anyhow::Error) -> anyhow::Error {
    let Some(ClientError::OtherKind { url, application, found, needed }) = error.downcast_ref() else { return error };
    let remedy = |clients: &ClientKind| format!("use `{}`", clients.command);
    anyhow::anyhow!(ClientKind::mismatch([url, application, found, needed], "command", remedy))
}

/// The queried application and the directory of its keys.
#[derive(clap::Args)]
pub struct Target {
    #[command(flatten)]
    connection: Connection,
    /// Application of the service; not needed if the service offers only one
    #[arg(long, alias = "app")]
    application: Option<String>,
    #[command(flatten)]
    state: StateRoot,
}

impl Target {
    /// Opens the connection and the application's key directory.
    pub fn open(&self, cancel: &Cancel) -> anyhow::Result<(Transport, String, StateDir)> {
        let root = self.state.path()?;
        let transport = self.connection.open()?;
        let application = choose_application(&transport, self.application.as_deref(), cancel)?;
        let state = StateDir::open(&root, transport.url(), &application)
            .with_context(|| format!("cannot use {}", root.display()))?;
        Ok((transport, application, state))
    }

    /// Name of the collection to search.
    pub fn collection(&self, cancel: &Cancel) -> anyhow::Result<String> {
        match &self.application {
            Some(name) => Ok(name.clone()),
            None => only_one(without_documents(self.connection.open()?.applications(cancel)?)),
        }
    }

    /// The same options for another service. The access token is sent there only if it has the same address.
    pub fn of_service(&self, url: &str, application: Option<String>, token_file: Option<PathBuf>) -> Target {
        let own = (url == self.connection.url).then(|| self.connection.token_file.clone()).flatten();
        let connection = Connection { url: url.to_owned(), token_file: token_file.or(own), ..self.connection.clone() };
        Target { connection, application, state: self.state.clone() }
    }

    /// Opens a connection and the key directory for an application of the service.
    pub fn open_beside(&self, application: &str) -> anyhow::Result<(Transport, StateDir)> {
        open_beside(&self.connection, &self.state, application)
    }
}

/// Applications of a service, and the directory of their keys.
#[derive(clap::Args)]
#[cfg(feature = "full")]
pub struct Applications {
    #[command(flatten)]
    connection: Connection,
    /// Application of the service; may be given several times [default: all of them]
    #[arg(long = "application", value_name = "APPLICATION")]
    names: Vec<String>,
    #[command(flatten)]
    state: StateRoot,
}

#[cfg(feature = "full")]
impl Applications {
    /// The names of the applications.
    pub fn names(&self, cancel: &Cancel) -> anyhow::Result<Vec<String>> {
        match self.names.is_empty() {
            true => Ok(self.connection.open()?.applications(cancel)?),
            false => Ok(self.names.clone()),
        }
    }

    /// Opens a connection and the key directory for an application.
    pub fn open(&self, application: &str) -> anyhow::Result<(Transport, StateDir)> {
        open_beside(&self.connection, &self.state, application)
    }
}

fn open_beside(connection: &Connection, state: &StateRoot, application: &str) -> anyhow::Result<(Transport, StateDir)> {
    let root = state.path()?;
    let transport = connection.open()?;
    let state = StateDir::open(&root, transport.url(), application)
        .with_context(|| format!("cannot use {}", root.display()))?;
    Ok((transport, state))
}

/// Prints the bytes sent and received, and the times.
pub fn print_usage(usage: UsageStats) {
    print!("{}", usage_lines(usage));
}

/// The bytes sent and received, and the times, as text.
pub fn usage_lines(usage: UsageStats) -> String {
    let keys = match usage.key_bytes {
        0 => "at the service already".into(),
        bytes => format!("{bytes} bytes, made and uploaded in {:.2} s", usage.key_seconds),
    };
    let (query, answer) = (usage.query_bytes, usage.answer_bytes);
    let (here, there) = (usage.client_seconds, usage.server_seconds);
    format!(
        "keys        {keys}\nquery       {query} bytes\nanswer      {answer} bytes\n\
         time        {here:.2} s here, {there:.2} s at the service\n"
    )
}

/// The requested application, or the only one of the service.
pub fn choose_application(transport: &Transport, asked: Option<&str>, cancel: &Cancel) -> anyhow::Result<String> {
    if let Some(name) = asked {
        return Ok(name.into());
    }
    only_one(transport.applications(cancel)?)
}

fn only_one(mut names: Vec<String>) -> anyhow::Result<String> {
    match names.len() {
        1 => Ok(names.swap_remove(0)),
        0 => anyhow::bail!("the service offers no application"),
        _ => anyhow::bail!("the service offers {}; choose one with --application", names.join(", ")),
    }
}
