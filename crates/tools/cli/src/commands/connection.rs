//! Options for reaching a service, shared by all query commands.

use std::path::PathBuf;

use anyhow::Context;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{StateDir, UsageStats};

/// Address of the service and credentials of the client.
#[derive(clap::Args)]
pub struct Connection {
    /// Address of the service: https://host:port
    #[arg(long, alias = "server", env = "UNSPOKEN_URL")]
    url: String,
    /// File with the access token
    #[arg(long, env = "UNSPOKEN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Certificate authority to trust, a PEM file
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Allow plain HTTP to another machine: anyone on the network path sees the token and the encrypted queries
    #[arg(long, alias = "allow-plaintext")]
    insecure_http: bool,
}

impl Connection {
    /// Address of the service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens the connection.
    pub fn open(&self) -> anyhow::Result<Transport> {
        let mut config = TransportConfig::new(&self.url);
        config.insecure_http = self.insecure_http;
        if let Some(path) = &self.token_file {
            let token = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            config = config.with_token(token.trim());
        }
        if let Some(path) = &self.ca {
            let pem = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            config = config.with_authorities(pem);
        }
        Ok(Transport::new(config)?)
    }
}

/// Directory of the client's secret keys.
#[derive(clap::Args)]
pub struct StateRoot {
    /// Directory of the secret keys
    #[arg(long, env = "UNSPOKEN_STATE", default_value_os_t = default_state_dir())]
    pub state_dir: PathBuf,
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
        let transport = self.connection.open()?;
        let application = choose_application(&transport, self.application.as_deref(), cancel)?;
        let root = &self.state.state_dir;
        let state = StateDir::open(root, self.connection.url(), &application)
            .with_context(|| format!("cannot use {}", root.display()))?;
        Ok((transport, application, state))
    }
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
fn choose_application(transport: &Transport, asked: Option<&str>, cancel: &Cancel) -> anyhow::Result<String> {
    if let Some(name) = asked {
        return Ok(name.into());
    }
    let mut names = transport.applications(cancel)?;
    match names.len() {
        1 => Ok(names.swap_remove(0)),
        0 => anyhow::bail!("the service offers no application"),
        _ => anyhow::bail!("the service offers {}; choose one with --application", names.join(", ")),
    }
}

/// Default directory of the keys.
fn default_state_dir() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).or_else(home);
    data.unwrap_or_else(|| PathBuf::from(".")).join("unspoken")
}
