//! `unspoken serve`

mod classify;
mod digits;
mod embed;
mod kinds;
mod llama;
mod matrix;
mod offer;
mod pir;
mod pir_encrypted;
mod pir_router;
mod pir_shard;
mod preset;
mod private_directory;
mod publish;
mod session_directory;
mod shard_service;
mod shorthands;
mod sum_directory;
mod sums;
mod unseal;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use kinds::KindOption;
use offer::Offer;
pub use preset::{DEFAULT_PRESET, DIGITS_PRESET, secure};
use shorthands::Shorthands;
use unspoken_lookup::{Plan, Precision};
use unspoken_protocol::{CkksServerHalf, KeyLoader, ServerHalf, WithKeyStorage};
use unspoken_query::QueryForm;
use unspoken_rlwe::{EvaluationKeys, KeyStorage};
use unspoken_server::{
    AllowedOrigin, Applications, LogFormat, OfferConfig, Server, ServerConfig, TlsFiles, init_logging,
    resolve_listen_address, shutdown_signal,
};

/// Time to wait for requests that do not stop when asked to.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Serve applications: classifiers, embedding tables, databases and more
///
/// Name the applications with --offer, with [[offer]] in the configuration file, or with one of the short flags; all
/// of them may be combined. Once it listens, the service prints one line of JSON with its address on standard output;
/// its log goes to standard error. All other flags override the configuration file.
#[derive(clap::Args)]
#[command(after_long_help = kinds::help())]
pub struct Arguments {
    /// Serve an application; may be given several times. KIND is its kind, NAME its name in the service's URL, DIR
    /// the directory of its files; kinds and their options are listed below
    #[arg(long, value_name = "KIND[:NAME]=DIR[,OPTION=VALUE]...")]
    offer: Vec<OfferConfig>,
    #[command(flatten)]
    shorthands: Shorthands,
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
    /// Let web pages of another origin use the service, such as https://ask.example; may be given several times.
    /// Scheme, host and port, no wildcards [default: no other origin]
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    allow_origins: Vec<AllowedOrigin>,
    /// TLS certificate chain, a PEM file
    #[arg(long, requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// TLS private key, a PEM file
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
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
    // Check before loading the models, which can take long.
    config.check()?;
    let applications = offer::load(config.offers.clone())?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let server = Server::bind(config, applications).await?;
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

/// Options shared by several kinds.
const QUERY: KindOption = KindOption {
    name: "query",
    about: "form of the queries: direct (125 bytes a token and subtable), compact (4 bytes, and a bootstrap of one to \
            three seconds on the service), or one-hot (the baseline) [default: direct]",
};
const PLAN: KindOption = KindOption {
    name: "plan",
    about: "auto, paper, complex-first, lazy-last, or baby-giant-M for a power of two M [default: auto]",
};

const ERROR: KindOption = KindOption {
    name: "error",
    about: "largest error of a number of an answer, in the model's units, such as 2^-12 or 0.001: the cheapest preset \
            and plan whose simulated error is smaller are taken, which takes some seconds for each preset \
            [default: what preset and plan give]",
};

const SMALL: KindOption = KindOption {
    name: "small",
    about: "small queries for few questions, on or off. Direct queries: on takes more keys, once, and the length of a \
            query shows the number of questions, up to a factor of two. Compact queries: on are short ones of up to \
            4096 tokens times subtables and under 1 GB of keys in memory, off are full ones, eight times as large, \
            and 3 GB of keys [default: on]",
};

const KEYS: KindOption = KindOption {
    name: "keys",
    about: "storage of clients' keys in memory: expanded, or seeded (half of the memory, slower answers) \
            [default: expanded]",
};

/// Adds an application of encrypted vectors, with the storage of keys given in the offer.
fn add_with_keys<H>(offer: &Offer, half: H, applications: Applications) -> anyhow::Result<Applications>
where
    H: CkksServerHalf + ServerHalf + KeyLoader<Keys = EvaluationKeys>,
{
    offer.add(WithKeyStorage::new(half, key_storage(offer)?), applications)
}

/// The storage of keys given in the offer.
fn key_storage(offer: &Offer) -> anyhow::Result<KeyStorage> {
    match offer.option::<String>("keys")?.as_deref() {
        None | Some("expanded") => Ok(KeyStorage::Expanded),
        Some("seeded") => Ok(KeyStorage::Seeded),
        Some(other) => anyhow::bail!("option keys is {other:?}; it can be expanded or seeded"),
    }
}

/// Whether the offer wants small queries.
fn small_queries(offer: &Offer) -> anyhow::Result<bool> {
    match offer.option::<String>("small")?.as_deref() {
        None | Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => anyhow::bail!("option small is {other:?}; it can be on or off"),
    }
}

/// Logs whether clients may send small queries.
fn report_small_queries(offer: &Offer, (form, wanted): (QueryForm, bool), offered: bool) {
    let application = offer.name();
    match (form, wanted, offered) {
        (QueryForm::Compact, true, _) => tracing::info!(application, "clients send short compact queries"),
        (_, _, true) => tracing::info!(application, "clients with few questions send small queries"),
        (_, true, false) => tracing::info!(application, "no small queries: the form or precision does not allow them"),
        (_, false, false) => {}
    }
}

/// The largest error of a number of an answer: a positive number, or a power of two such as 2^-12.
#[derive(Clone, Copy, Debug)]
struct LargestError(f64);

impl FromStr for LargestError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text.strip_prefix("2^") {
            Some(exponent) => exponent.parse().map(f64::exp2).ok(),
            None => text.parse().ok(),
        };
        let positive = number.filter(|error: &f64| *error > 0.0 && error.is_finite());
        positive.map(LargestError).ok_or_else(|| "needed a positive number, such as 2^-12 or 0.001".into())
    }
}

/// Logs the preset and the plan that were chosen for an error.
fn report_choice(offer: &Offer, LargestError(error): LargestError, half: &impl CkksServerHalf) {
    let (preset, plan) = (half.header().parameters().name(), half.header().plan());
    tracing::info!(application = offer.name(), preset, plan, "chosen for an error of at most {error:.1e}");
}

/// The plan given in the offer; `None` if the planner is to choose.
fn chosen_plan(offer: &Offer) -> anyhow::Result<Option<Plan>> {
    match offer.option::<String>("plan")?.as_deref() {
        None | Some("auto") => Ok(None),
        Some(_) => offer.option("plan"),
    }
}

/// Logs how a table's numbers compare with the error of the encryption.
fn report_precision(offer: &Offer, precision: Option<Precision>) {
    let application = offer.name();
    match precision {
        None => tracing::info!(application, "the error bound of compact queries is not known"),
        Some(precision) if precision.is_low() => tracing::warn!(
            application,
            "{precision}: answers that depend on them may be wrong; use a preset with a larger scale (unspoken \
             params), or a table without such large differences"
        ),
        Some(precision) => tracing::info!(application, "{precision}"),
    }
}

fn configuration(arguments: &Arguments) -> anyhow::Result<ServerConfig> {
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
    config.offers.extend(arguments.shorthands.offers()?);
    Ok(config)
}
