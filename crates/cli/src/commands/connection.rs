//! How to reach a service: the options all asking commands share.

use std::path::PathBuf;

use anyhow::Context;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};

/// Where the service is and who asks.
#[derive(clap::Args)]
pub struct Connection {
    /// Address of the service, https://host:port
    #[arg(long, env = "UNSPOKEN_URL")]
    url: String,
    /// File that holds the access token
    #[arg(long, env = "UNSPOKEN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Certificate authority to trust, PEM
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Send the token over plain HTTP to another machine
    #[arg(long)]
    allow_plaintext: bool,
}

impl Connection {
    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens the connection.
    pub fn open(&self) -> anyhow::Result<Transport> {
        let mut config = TransportConfig::new(&self.url);
        config.allow_plaintext = self.allow_plaintext;
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

/// The application asked for, or the only one there is.
pub fn choose_application(transport: &Transport, asked: Option<&str>, cancel: &Cancel) -> anyhow::Result<String> {
    if let Some(name) = asked {
        return Ok(name.into());
    }
    let mut names = transport.applications(cancel)?;
    match names.len() {
        1 => Ok(names.swap_remove(0)),
        0 => anyhow::bail!("the service offers nothing"),
        _ => anyhow::bail!("the service offers {}; choose one with --application", names.join(", ")),
    }
}

/// Where keys are kept unless told otherwise.
pub fn default_state_dir() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).or_else(home);
    data.unwrap_or_else(|| PathBuf::from(".")).join("unspoken")
}
