//! `unspoken health`

use std::path::PathBuf;

use anyhow::Context;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};

/// Ask whether a service accepts requests
///
/// For health checks of containers, which have no other programs: the exit status is 0 if `/readyz` of the service
/// answers that it is ready, and 1 if not. Needs no token.
#[derive(clap::Args)]
pub struct Arguments {
    /// Address of the service
    #[arg(long, env = "UNSPOKEN_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Certificate authority to trust, a PEM or DER file
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Allow plain HTTP to another machine
    #[arg(long)]
    insecure_http: bool,
    /// Give up after this number of seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    timeout: f64,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut config = TransportConfig::new(&arguments.url).with_timeout(arguments.timeout)?;
    config.insecure_http = arguments.insecure_http;
    if let Some(path) = &arguments.ca {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        config = config.with_authorities(bytes);
    }
    Transport::new(config)?.ready(&Cancel::new())?;
    println!("ready");
    Ok(())
}
