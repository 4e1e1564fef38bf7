//! `unspoken serve`

mod by_kind;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use by_kind::OffersByKind;
use unspoken_offers::{DeviceMetrics, Placement, Resources};
use unspoken_server::{
    AllowedOrigin, LogFormat, OfferConfig, ReloadSignal, Server, ServerConfig, Starting, TlsFiles, check_log_filter,
    init_logging, resolve_listen_address, shutdown_signal,
};

use crate::commands::plan_cache::plan_cache;

/// Time to wait for requests that do not stop when asked to.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Serve applications: classifiers, embedding tables, databases and more
///
/// Name the applications with --offer, with `[[offer]]` in the configuration file, or with the flag of their kind; all
/// of them may be combined. Once everything is loaded, the service prints one line of JSON with its address on standard
/// output; its log goes to standard error. Until then it tells its clients to wait. At SIGHUP, and when they have
/// changed, it reads tokens, certificate and key again. All other flags override the configuration file.
#[derive(clap::Args)]
#[command(after_long_help = help())]
pub struct Arguments {
    /// Serve an application; may be given several times. KIND is its kind, NAME its name in the service's URL, DIR
    /// the directory of its files; kinds and their options are listed below
    #[arg(long, value_name = "KIND[:NAME]=DIR[,OPTION=VALUE]...")]
    offer: Vec<OfferConfig>,
    #[command(flatten)]
    by_kind: OffersByKind,
    /// Configuration file, TOML or JSON
    #[arg(long)]
    config: Option<PathBuf>,
    /// Address or name to listen on; port 0 selects a free port, which is printed [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT", value_parser = resolve_listen_address)]
    listen: Option<SocketAddr>,
    /// Address for metrics (Prometheus, at /metrics), served without a token [default: no metrics]
    #[arg(long, value_name = "HOST:PORT", value_parser = resolve_listen_address)]
    metrics_listen: Option<SocketAddr>,
    /// Directory for the clients' keys [default: unspoken-data]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// File of access tokens, as `unspoken keys token` prints them
    #[arg(long)]
    tokens: Option<PathBuf>,
    /// Serve every client that reaches the address, without a token
    #[arg(long)]
    allow_anonymous: bool,
    /// Serve the static files of a directory at /, as `make web` makes it: a page for browsers. It needs no token
    #[arg(long, value_name = "DIR")]
    web: Option<PathBuf>,
    /// Let web pages of another origin use the service, such as `https://ask.example`; may be given several times.
    /// Scheme, host and port, no wildcards [default: no other origin]
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    allow_origins: Vec<AllowedOrigin>,
    /// TLS certificate chain, a PEM file, or a certificate in DER
    #[arg(long, requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// TLS private key, a PEM or DER file
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Device that language models, digits, models of one's own and retrieval are computed on: cuda:0; auto for the
    /// first one, or the processor if there is none; or cpu. `unspoken devices` lists them [default: cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Compute on the processor after the device has failed, until the service starts again
    #[arg(long)]
    device_fallback: bool,
    /// Memory of the device, in MiB; what was not used for longest gives way [default: all that is free]
    #[arg(long)]
    device_memory_mib: Option<u64>,
    /// Number of answers computed in parallel, fewer if the memory is not enough [default: the number of cores]
    #[arg(long)]
    workers: Option<usize>,
    /// Memory of the process, in MiB: models, clients' keys, requests and computations [default: 4096]
    #[arg(long)]
    memory_mib: Option<u64>,
    /// Disk space for the clients' keys, in MiB. When it is full, keys of clients without a token give way, the least
    /// recently used first [default: half of the free space]
    #[arg(long)]
    key_disk_mib: Option<u64>,
    /// Format of the log
    #[arg(long, value_enum, default_value = "text")]
    log: Log,
    /// Log filter, for instance info or unspoken_server=debug
    #[arg(long, default_value = "info")]
    log_filter: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Log {
    Text,
    Json,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let format = match arguments.log {
        Log::Text => LogFormat::Text,
        Log::Json => LogFormat::Json,
    };
    init_logging(format, &arguments.log_filter)?;
    let config = configuration(arguments)?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        // From here on SIGHUP does not end the process.
        let hangups = ReloadSignal::new().context("cannot receive SIGHUP")?;
        // It checks the configuration, and answers while the models are loaded, which can take long.
        let starting = Starting::listen(&config).await?;
        let (step, offers, device) = (starting.step(), config.offers.clone(), DeviceOptions::of(&config));
        let loading = move || {
            let placement = device.open()?;
            let resources = Resources { plans: plan_cache(), placement };
            let applications = unspoken_offers::load(offers, &resources, |text| step.set(text))?;
            anyhow::Ok((applications, resources.placement.map(|placement| placement.device().clone())))
        };
        let (applications, device) = tokio::task::spawn_blocking(loading).await??;
        let server = Server::bind_after(starting, config, applications).await?;
        if let Some(device) = &device {
            server.add_metrics(Box::new(DeviceMetrics::new(device)?))?;
        }
        server.reload_on(hangups);
        let mut line = serde_json::json!({ "listening": format!("{scheme}://{}", server.local_addr()?) });
        if let Some(address) = server.metrics_addr()? {
            line["metrics"] = format!("http://{address}/metrics").into();
        }
        println!("{line}");
        server.run(shutdown_signal()).await;
        anyhow::Ok(())
    });
    runtime.shutdown_timeout(LAST_WAIT);
    served
}

/// How a device is used.
pub struct DeviceOptions {
    name: Option<String>,
    falls_back: bool,
    /// 0 for all.
    memory_bytes: u64,
}

impl Arguments {
    /// Whether they say what to serve: a file or an offer.
    pub fn name_a_service(&self) -> bool {
        self.config.is_some() || !self.offer.is_empty() || !self.by_kind.0.is_empty()
    }

    /// Whether the log can begin.
    pub fn check_log_filter(&self) -> anyhow::Result<()> {
        check_log_filter(&self.log_filter).context("--log-filter")
    }

    /// The configuration file.
    pub fn config_file(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}

impl DeviceOptions {
    /// The device that a configuration names.
    pub fn of(config: &ServerConfig) -> Self {
        DeviceOptions {
            name: config.device.clone(),
            falls_back: config.device_fallback,
            memory_bytes: config.limits.device_memory_bytes,
        }
    }

    /// Opens it; none for the processor.
    pub fn open(&self) -> anyhow::Result<Option<Placement>> {
        let placement = self.name.as_deref().map(Placement::open).transpose()?.flatten();
        if let Some(device) = placement.as_ref().map(Placement::device) {
            if self.falls_back {
                device.fall_back();
            }
            if self.memory_bytes > 0 {
                let bytes = self.memory_bytes.min(device.usable_bytes()?);
                device.limit_memory(usize::try_from(bytes).unwrap_or(usize::MAX));
            }
        }
        Ok(placement)
    }
}

/// The configuration of the file, with the flags in place of its fields.
pub fn configuration(arguments: &Arguments) -> anyhow::Result<ServerConfig> {
    let mut config = match &arguments.config {
        Some(path) => ServerConfig::from_file(path).with_context(|| format!("cannot use {}", path.display()))?,
        None => ServerConfig::default(),
    };
    if let Some(listen) = arguments.listen {
        config.listen = listen;
    }
    if let Some(listen) = arguments.metrics_listen {
        config.metrics_listen = Some(listen);
    }
    if let Some(dir) = &arguments.data_dir {
        config.data_dir = dir.clone();
    }
    if let Some(tokens) = &arguments.tokens {
        config.tokens = Some(tokens.clone());
    }
    if let (Some(certificate), Some(key)) = (&arguments.tls_certificate, &arguments.tls_key) {
        config.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
    }
    if let Some(device) = &arguments.device {
        config.device = Some(device.clone());
    }
    config.device_fallback |= arguments.device_fallback;
    if let Some(mib) = arguments.device_memory_mib {
        config.limits.device_memory_bytes = mib.saturating_mul(1 << 20);
    }
    if let Some(workers) = arguments.workers {
        config.workers = workers;
    }
    if let Some(mib) = arguments.memory_mib {
        config.limits.memory_bytes = mib << 20;
    }
    if let Some(mib) = arguments.key_disk_mib {
        anyhow::ensure!(mib > 0, "--key-disk-mib is 0; give at least 1, or leave it out for half of the free space");
        config.limits.key_disk_bytes = mib.saturating_mul(1 << 20);
    }
    if let Some(dir) = &arguments.web {
        config.web = Some(dir.clone());
    }
    config.allow_origins.extend(arguments.allow_origins.iter().cloned());
    config.allow_anonymous |= arguments.allow_anonymous;
    config.offers.extend(arguments.offer.iter().cloned());
    config.offers.extend(arguments.by_kind.0.iter().cloned());
    Ok(config)
}

/// The kinds of offers, and examples.
fn help() -> String {
    unspoken_offers::help() + EXAMPLES
}

const EXAMPLES: &str = "
Examples:
  unspoken serve --classify classify/spam=model
  unspoken serve --classify classify/spam=spam,query=compact --embed glove --pir codes
  unspoken serve --classify classify/sentiment=glove,head=head.safetensors
  unspoken serve --pir-shard shards/shard-1 --listen 10.0.0.1:8080
  unspoken serve --pir-router pir/codes=shards.toml
  unspoken serve --config service.toml --metrics-listen 127.0.0.1:9464

The same in a configuration file:
  [[offer]]
  kind = \"classify\"
  name = \"classify/spam\"
  path = \"spam\"
  query = \"compact\"
";
